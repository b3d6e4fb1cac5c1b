/** The query and its answers. */

import { get, post } from "./api.js";
import { Combobox } from "./combobox.js";
import { byId, el, nameButton } from "./dom.js";
import { choose, on, recalled, remember, state, emit } from "./state.js";

const SUGGESTIONS = 8;
const place = byId("answers");
const form = byId("ask-form");
let last = 0;

const completed = (path) => async (prefix, signal) =>
  (await get(path, { prefix, limit: SUGGESTIONS }, signal)).names;

const entity = new Combobox("entity", completed("/entities"), (name) => {
  choose(name);
  askIfWhole();
});
const relation = new Combobox("relation", completed("/relations"), askIfWhole);

const way = () => new FormData(form).get("way");

function query() {
  const given = way() === "objects" ? "subject" : "object";
  return {
    [given]: entity.value,
    relation: relation.value,
    k: Number(byId("count").value),
    new_only: byId("new-only").checked,
    in_range: byId("in-range").checked,
  };
}

function askIfWhole() {
  if (entity.value && relation.value) ask();
}

async function ask() {
  const turn = ++last;
  remember({ relation: relation.value, way: way() === "subjects" ? "subjects" : "" });
  place.setAttribute("aria-busy", "true");
  try {
    const sent = query();
    const found = await post("/predict", sent);
    if (turn === last) show(sent, found);
  } catch (error) {
    if (turn === last) explain(error);
  }
  place.removeAttribute("aria-busy");
}

function show(sent, { version, calibrated, answers }) {
  state.answers = new Set(answers.map((answer) => answer.entity));
  emit("answers");
  const unknown = el("b", {}, "?");
  const arrow = () => el("i", { "aria-hidden": "true" }, " → ");
  const parts = [sent.subject ?? unknown, arrow(), sent.relation, arrow(), sent.object ?? unknown];
  place.replaceChildren(
    el("p", { class: "question" }, ...parts, el("span", { class: "note" }, ` · version ${version}`)),
    calibrated
      ? ""
      : el("p", { class: "note" }, "Too few facts were held out: percentages are not calibrated, but a prior by rank."),
    answers.length
      ? el("ol", { class: "answers" }, answers.map(row))
      : el("p", { class: "note" }, "Nothing is left to answer with."),
  );
  for (const bar of place.querySelectorAll(".track i")) bar.style.width = bar.dataset.share;
}

function mark({ known, in_range: inRange }) {
  if (known) return el("span", { class: "mark" }, "known");
  return inRange
    ? el("span", { class: "mark new" }, "new")
    : el("span", { class: "mark", title: "No known fact of this relation has it in this place." }, "out of range");
}

function row(answer, index) {
  const share = `${(100 * answer.plausibility).toFixed(1)}%`;
  return el("li", {},
    el("span", { class: "rank", "aria-hidden": "true" }, index + 1),
    nameButton(answer.entity, take),
    mark(answer),
    el("div", { class: "measure", title: `score ${answer.score.toFixed(3)}` },
      el("div", { class: "track", "aria-hidden": "true" }, el("i", { "data-share": share })),
      el("span", { class: "share" }, share, el("span", { class: "unseen" }, " plausible"))),
  );
}

function take(name) {
  choose(name);
  byId("around").scrollIntoView({ block: "nearest" });
}

function explain(error) {
  const correct = (name) => {
    const field = /no relation/.test(error.message) ? relation : entity;
    field.value = name;
    if (field === entity) choose(name);
    ask();
  };
  place.replaceChildren(
    el("p", { class: "bad" }, error.message),
    el("ul", { class: "hints" }, error.nearest.map((name) => el("li", {}, nameButton(name, correct, "chip")))),
  );
}

export function begin() {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    entity.close();
    relation.close();
    if (entity.value !== state.entity) choose(entity.value);
    ask();
  });
  for (const field of [byId("count"), byId("new-only"), byId("in-range"), ...form.elements.way]) {
    field.addEventListener("change", askIfWhole);
  }
  on("entity", (name) => { entity.value = name; });
  on("version", askIfWhole);
  const kept = recalled();
  relation.value = kept.get("relation") || "";
  if (kept.get("way") === "subjects") form.elements.way.value = "subjects";
  if (kept.get("entity")) choose(kept.get("entity"));
}
