/** Requests to the service. */

const NO_TOKEN = "This needs the token of the service. Write it into the field “Token”.";
const WRONG_TOKEN = "The service does not know this token. It is the one that the service was started with: “lkge serve” prints it, unless it was given by --token-file or LKGE_TOKEN.";
/** What a program has to send; the page sends it by itself. */
const HEADER = /: `Authorization: .*`/;

export class Problem extends Error {
  constructor(problem, token) {
    const refusal = problem.status === 401 && (token ? WRONG_TOKEN : NO_TOKEN);
    const detail = problem.detail?.replace(HEADER, "");
    super(refusal || detail || problem.title || "the service did not answer");
    this.status = problem.status;
    this.nearest = problem.nearest || [];
  }
}

async function answer(path, options, token = "") {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ detail: "The service cannot be reached." });
  }
  if (response.ok) return response.json();
  const problem = await response.json().catch(() => ({ status: response.status, title: response.statusText }));
  throw new Problem(problem, token);
}

const authorized = (token) => token && { Authorization: `Bearer ${token}` };

export const get = (path, parameters = {}, signal = undefined) =>
  answer(`${path}?${new URLSearchParams(parameters)}`, { signal });

/** Send the content of a file; what to do with it is in the parameters. */
export const postFile = (path, parameters, content, token = "") =>
  answer(`${path}?${new URLSearchParams(parameters)}`, {
    method: "POST",
    headers: { "Content-Type": "application/octet-stream", ...authorized(token) },
    body: content,
  }, token);

export const post = (path, body, token = "") =>
  answer(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...authorized(token) },
    body: JSON.stringify(body),
  }, token);
