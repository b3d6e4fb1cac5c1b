/** Requests to the service. */

export class Problem extends Error {
  constructor(problem) {
    super(problem.detail || problem.title || "the service did not answer");
    this.status = problem.status;
    this.nearest = problem.nearest || [];
  }
}

async function answer(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ detail: "The service cannot be reached." });
  }
  if (response.ok) return response.json();
  const problem = await response.json().catch(() => ({ status: response.status, title: response.statusText }));
  throw new Problem(problem);
}

export const get = (path, parameters = {}, signal = undefined) =>
  answer(`${path}?${new URLSearchParams(parameters)}`, { signal });

/** Send the content of a file; what to do with it is in the parameters. */
export const postFile = (path, parameters, content, token = "") =>
  answer(`${path}?${new URLSearchParams(parameters)}`, {
    method: "POST",
    headers: { "Content-Type": "application/octet-stream", ...(token && { Authorization: `Bearer ${token}` }) },
    body: content,
  });

export const post = (path, body, token = "") =>
  answer(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...(token && { Authorization: `Bearer ${token}` }) },
    body: JSON.stringify(body),
  });
