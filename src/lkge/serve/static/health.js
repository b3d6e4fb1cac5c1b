/** The verdict on the quality of the graph, and learning all known facts again. */

import { post } from "./api.js";
import { byId } from "./dom.js";
import { on } from "./state.js";

const NAMES = { good: "Good", worse: "Worse", unknown: "Not known yet" };
const BUSY = ["waiting", "learning"];
const button = byId("relearn");
const state = byId("relearn-state");

function say(text, kind = "note") {
  state.className = kind;
  state.textContent = text;
}

function showVerdict({ verdict, summary, remedy }) {
  const place = byId("verdict");
  place.className = { good: "good", worse: "bad" }[verdict] || "";
  place.textContent = `${NAMES[verdict]}: ${summary}.`;
  byId("health-verdict").classList.toggle("failing", verdict === "worse");
  byId("remedy").hidden = !remedy;
  byId("remedy").textContent = remedy && `Remedy: ${remedy}.`;
}

function showRelearning(job) {
  button.disabled = Boolean(job) && BUSY.includes(job.status);
  if (!job) return;
  if (job.status === "waiting") say("Waits for its turn.");
  else if (job.status === "failed") say(`Failed: ${job.detail}`, "bad");
  else if (job.status === "done") say(job.version === null ? "Done." : `Became version ${job.version}.`, "good");
  else say(job.progress?.epoch ? `Epoch ${job.progress.epoch} of at most ${job.progress.max_epochs}…` : "Learning…");
}

async function relearn() {
  button.disabled = true;
  try {
    showRelearning(await post("/relearn", {}, byId("token").value));
  } catch (error) {
    say(error.message, "bad");
    button.disabled = false;
  }
}

export function begin() {
  button.addEventListener("click", relearn);
  on("health", (health) => {
    if (health.quality) showVerdict(health.quality);
    showRelearning(health.relearn);
  });
}
