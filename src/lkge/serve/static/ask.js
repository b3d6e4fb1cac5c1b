/** The query: what is given, and what is asked. */

import { post } from "./api.js";
import { showAnswers, showError, showSuggestions } from "./answers.js";
import { Combobox } from "./combobox.js";
import { byId } from "./dom.js";
import { begin as beginLimits, limits } from "./limits.js";
import { found, shown } from "./names.js";
import { choose, on, recalled, remember, state } from "./state.js";

const place = byId("answers");
const form = byId("ask-form");
let last = 0;

const entity = new Combobox("entity", found("entity"), (name) => {
  choose(name);
  askIfWhole();
});
const relation = new Combobox("relation", found("relation"), askIfWhole);
const other = new Combobox("other", found("entity"), askIfWhole);

/** What is asked: objects, subjects, relations, or facts. */
const way = () => new FormData(form).get("way");
const top = () => Number(byId("count").value);

const WAYS = {
  objects: () => predicted([entity.value, relation.value, null]),
  subjects: () => predicted([null, relation.value, entity.value]),
  relations: () => predicted([entity.value, null, other.value]),
  facts: suggested,
};

/** Ask for the part of a fact that is null; a function that shows the answers. */
async function predicted([subject, predicate, object]) {
  const given = Object.entries({ subject, relation: predicate, object }).filter(([, name]) => name !== null);
  const path = predicate === null ? "/predict/relations" : "/predict";
  const answers = await post(path, { ...Object.fromEntries(given), k: top(), ...limits(predicate !== null) });
  return () => showAnswers([subject, predicate, object], answers);
}

/** Ask for facts that may be missing: of an entity as subject and as object, of a relation, of all. */
async function suggested() {
  const shared = { k: top(), ...(relation.value && { relation: relation.value }) };
  const sides = entity.value ? [{ subject: entity.value }, { object: entity.value }] : [{}];
  const parts = await Promise.all(sides.map((side) => post("/suggest", { ...side, ...shared })));
  const total = (name) => parts.reduce((sum, part) => sum + part[name], 0);
  const facts = parts.flatMap((part) => part.facts).sort((one, next) => next.plausibility - one.plausibility);
  const all = {
    ...parts[0], facts: facts.slice(0, top()), scored: total("scored"), queries: total("queries"),
    complete: parts.every((part) => part.complete), labels: Object.assign({}, ...parts.map((part) => part.labels)),
  };
  const read = (word, name) => (name ? [`${word} ${shown(name, all.labels)}`] : []);
  const about = [...read("of", entity.value), ...read("with", relation.value)];
  return () => showSuggestions(about.join(" ") || "of the graph", all);
}

/** Show the fields that the question has. */
function fit() {
  const asked = way();
  const isFact = asked === "objects" || asked === "subjects";
  byId("other-field").hidden = asked !== "relations";
  byId("relation-field").hidden = asked === "relations";
  byId("limits").hidden = !isFact;
  for (const id of ["new-only", "in-range"]) byId(id).parentElement.hidden = asked === "facts";
  entity.input.required = asked !== "facts";
  relation.input.required = isFact;
  other.input.required = asked === "relations";
}

function askIfWhole() {
  const filled = { relations: entity.value && other.value, facts: entity.value || relation.value };
  if (filled[way()] ?? (entity.value && relation.value)) ask();
}

async function ask() {
  const turn = ++last;
  remember({ relation: relation.value, other: other.value, way: way() === "objects" ? "" : way() });
  place.setAttribute("aria-busy", "true");
  try {
    const show = await WAYS[way()]();
    if (turn === last) show();
  } catch (error) {
    if (turn === last) showError(error, (name) => correct(error, name));
  }
  if (turn === last) place.removeAttribute("aria-busy");
}

/** Put another name in the place of one that is unknown. */
function correct(error, name) {
  const unknown = (box) => error.message.includes(`'${box.value}'`);
  const field = [relation, other].find(unknown) ?? entity;
  field.value = name;
  if (field === entity) choose(name);
  ask();
}

export function begin() {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    for (const box of [entity, relation, other]) box.close();
    if (entity.value && entity.value !== state.entity) choose(entity.value);
    ask();
  });
  for (const field of form.elements.way) field.addEventListener("change", () => { fit(); askIfWhole(); });
  byId("count").addEventListener("change", askIfWhole);
  beginLimits(askIfWhole);
  on("entity", (name) => { entity.value = name; });
  on("version", askIfWhole);
  on("labels", askIfWhole);
  const kept = recalled();
  relation.value = kept.get("relation") || "";
  other.value = kept.get("other") || "";
  if (kept.get("way") in WAYS) form.elements.way.value = kept.get("way");
  fit();
  if (kept.get("entity")) choose(kept.get("entity"));
}
