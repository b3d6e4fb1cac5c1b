/** New facts, and how their learning goes. */

import { get, post, postFile } from "./api.js";
import { byId, count, el } from "./dom.js";
import { on, emit } from "./state.js";

const form = byId("facts-form");
const result = byId("facts-result");
const REFUSALS = [401, 403];

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

const FORMATS = { txt: "tsv", ndjson: "jsonl", owl: "rdf" };

/** What is to be sent as the body of a request, and its parameters: the chosen file, or the lines. */
function given() {
  const [file] = byId("facts-file").files;
  const columns = byId("facts-columns").value.trim();
  if (file) {
    const suffix = file.name.split(".").pop().toLowerCase();
    return { content: file, parameters: { format: FORMATS[suffix] || suffix, ...(columns && { columns }) } };
  }
  const facts = factsOf(byId("facts").value);
  if (!facts.length) throw new Error("Write facts, one a line, or choose a file.");
  const content = facts.map((fact) => `${JSON.stringify(fact)}\n`).join("");
  return { content, parameters: { format: "jsonl", columns: "subject=1,relation=2,object=3" } };
}

function showPreview(found) {
  const [file] = found.files;
  const columns = file.columns && Object.entries(file.columns).map(([kind, column]) => `${kind} = ${column}`).join(", ");
  const news = found.new_facts === null ? count(found.facts, "fact") : `${found.new_facts} new of ${count(found.facts, "fact")}`;
  const parts = [
    el("p", {}, `${news}; new entities: ${found.new_entities}; new relations: ${found.new_relations}. Nothing is sent yet.`),
    columns && file.header.length && el("p", {}, `Columns: ${columns}.`),
    ...file.warnings.map((warning) => el("p", { class: "bad" }, warning)),
    el("table", {}, el("tbody", {}, found.sample.map((fact) => el("tr", {}, fact.map((name) => el("td", {}, name)))))),
    found.num_doubts && el("p", {}, `Doubtful names: ${found.num_doubts}`),
    found.num_doubts && el("ul", {}, found.doubts.map((doubt) => el("li", {}, `${doubt.name}: ${doubt.reason}`))),
  ];
  byId("facts-preview").replaceChildren(...parts.filter(Boolean));
}

/** Do something with what `read` finds in the form; what goes wrong is said below it. */
async function withForm(read, use) {
  const buttons = form.querySelectorAll("button");
  let refused = false;
  try {
    const facts = read();
    buttons.forEach((button) => { button.disabled = true; });
    say("Sending…");
    await use(facts, byId("token").value);
  } catch (error) {
    say(error.message, "bad");
    refused = REFUSALS.includes(error.status);
  }
  buttons.forEach((button) => { button.disabled = false; });
  mark(refused);
}

/** Mark the token as refused or not. */
function mark(refused) {
  const field = byId("token");
  field.setAttribute("aria-invalid", String(refused));
  if (refused) field.focus();
}

const look = () => withForm(given, async ({ content, parameters }, token) => {
  showPreview(await postFile("/facts/preview", parameters, content, token));
  say("");
});

const what = () => new FormData(form).get("what");
const send = () => (what() === "labels" ? sendLabels() : sendFacts());

const sendLabels = () => withForm(() => labelsOf(byId("facts").value), async (labels, token) => {
  if (!Object.keys(labels).length) throw new Error("Write labels, one a line.");
  await post("/labels", { labels }, token);
  byId("facts").value = "";
  say(`Stored on disk: ${count(Object.keys(labels).length, "label")}.`);
  emit("labels");
});

const sendFacts = () => withForm(given, async ({ content, parameters }, token) => {
  const job = await postFile("/facts/file", { ...parameters, retract: what() === "retract" }, content, token);
  byId("facts").value = "";
  byId("facts-file").value = "";
  byId("facts-preview").replaceChildren();
  sent = job.id;
  const warnings = (job.warnings || []).map((warning) => ` ${warning}.`).join("");
  say(`Stored on disk as batch ${job.id}; learning starts.${warnings}`, "good");
});

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
  byId("facts-look").addEventListener("click", look);
  on("version", (version) => { if (result.className === "good") say(`Version ${version} is active.`, "good"); });
  on("health", (health) => {
    showLive(health);
    showJobs(health).catch((error) => emit("trouble", error.message));
  });
}
