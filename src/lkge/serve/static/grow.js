/** New facts, and how their learning goes. */

import { get, post } from "./api.js";
import { byId, count, el } from "./dom.js";
import { on, emit } from "./state.js";

const form = byId("facts-form");
const result = byId("facts-result");

/** Lines of so many fields; an Error names the line that has others. */
function fieldsOf(text, size, what) {
  return text.split("\n").flatMap((line, at) => {
    if (!line.trim()) return [];
    const names = line.split(line.includes("\t") ? "\t" : "|").map((name) => name.trim());
    if (names.length === size && names.every(Boolean)) return [names];
    throw new Error(`Line ${at + 1}: a ${what} with tabs or | between them.`);
  });
}

/** Lines of text as facts. */
export const factsOf = (text) => fieldsOf(text, 3, "fact is subject, relation and object");

/** Lines of text as labels by name. */
const labelsOf = (text) => Object.fromEntries(fieldsOf(text, 2, "label is a name and its label"));

function say(text, kind = "") {
  result.className = kind;
  result.textContent = text;
}

async function send() {
  const button = form.querySelector("button");
  try {
    const what = new FormData(form).get("what");
    const lines = (what === "labels" ? labelsOf : factsOf)(byId("facts").value);
    button.disabled = true;
    say("Sending…");
    if (what === "labels") await sendLabels(lines);
    else await sendFacts(what, lines);
    byId("facts").value = "";
  } catch (error) {
    say(error.message, "bad");
  }
  button.disabled = false;
}

async function sendFacts(what, facts) {
  const job = await post("/facts", { [what]: facts }, byId("token").value);
  sent = job.id;
  say(`Stored on disk as batch ${job.id}; learning starts.`, "good");
}

async function sendLabels(labels) {
  await post("/labels", { labels }, byId("token").value);
  say(`Stored on disk: ${count(Object.keys(labels).length, "label")}.`);
  emit("labels");
}

const STAGES = { starting: "starting", compiling: "compiling the kernels", measuring: "measuring on held-out facts" };

function phrase({ progress, id }) {
  if (!progress || progress.stage !== "learning") return `Batch ${id}: ${STAGES[progress?.stage] || "starting"}…`;
  const found = progress.valid_mrr === null ? "" : `, validation MRR ${progress.valid_mrr.toFixed(3)}`;
  return `Batch ${id}: epoch ${progress.epoch} of at most ${progress.max_epochs}${found}`;
}

function showLive({ jobs }) {
  const job = jobs.find((one) => one.status === "learning") || jobs.find((one) => one.status === "failed");
  const place = byId("live");
  place.hidden = !job;
  if (!job) return;
  const failed = job.status === "failed";
  place.classList.toggle("failing", failed);
  byId("live-text").textContent = failed ? `Batch ${job.id} failed and will be retried: ${job.detail}` : `Learning. ${phrase(job)}`;
  const bar = byId("live-bar");
  bar.hidden = failed;
  if (job.progress?.max_epochs) {
    bar.max = job.progress.max_epochs;
    bar.value = job.progress.epoch;
  } else bar.removeAttribute("value");
}

const STATES = { waiting: "waits", learning: "is being learned", failed: "failed" };

function stateOf(job) {
  if (job.status !== "done") return STATES[job.status];
  return job.version === null ? "no new version" : `became version ${job.version}`;
}

function jobRow(job) {
  const state = stateOf(job);
  const parts = [job.edit, job.facts && count(job.facts, "fact"), job.retracted && `${job.retracted} retracted`].filter(Boolean);
  return el("li", {},
    el("div", { class: "row" }, el("span", {}, [`Batch ${job.id}`, parts.join(", ")].filter(Boolean).join(": ")), el("span", { class: job.status === "done" ? "good" : job.status === "failed" ? "bad" : "" }, state)),
    el("small", {}, job.detail || new Date(job.accepted).toLocaleString()));
}

let known = "";
let sent = 0;  // the last batch of this page, until it is known that it leads to no version

/** Say that the batch of this page has nothing new: no version will come. */
function sayNothingNew(jobs) {
  const job = jobs.find((one) => one.id === sent && one.status === "done" && one.version === null);
  if (!job) return;
  sent = 0;
  say(job.detail, "good");
}

async function showJobs(health) {
  const now = `${health.version} ${health.jobs.map((job) => job.id + job.status)}`;
  if (now === known) return;
  known = now;
  const { jobs } = await get("/jobs");
  sayNothingNew(jobs);
  byId("jobs").replaceChildren(...(jobs.length ? jobs.slice(0, 6).map(jobRow) : [el("li", { class: "note" }, "None yet.")]));
}

export function begin() {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
  on("version", (version) => { if (result.className === "good") say(`Version ${version} is active.`, "good"); });
  on("health", (health) => {
    showLive(health);
    showJobs(health).catch((error) => emit("trouble", error.message));
  });
}
