/** The service, asked from the page. */

export class Problem extends Error {
  constructor(told) {
    super(told.detail || told.title || "the service did not answer");
    this.status = told.status;
    this.nearest = told.nearest || [];
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
  const told = await response.json().catch(() => ({ status: response.status, title: response.statusText }));
  throw new Problem(told);
}

export const get = (path, parameters = {}, signal = undefined) =>
  answer(`${path}?${new URLSearchParams(parameters)}`, { signal });

export const post = (path, body, token = "") =>
  answer(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", ...(token && { Authorization: `Bearer ${token}` }) },
    body: JSON.stringify(body),
  });
