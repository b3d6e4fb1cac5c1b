/** Answers to a query as rows, each with what speaks for it. */

import { post } from "./api.js";
import { byId, count, el } from "./dom.js";
import { nameButton, named, nameLink } from "./names.js";
import { choose, emit, state } from "./state.js";

const REASONS = 6;
const place = byId("answers");

const arrow = () => el("i", { "aria-hidden": "true" }, " → ");
const percent = (value) => `${(100 * value).toFixed(1)}%`;

/** The names of a fact with arrows between them; `?` for what is asked. */
const parts = (fact, labels) =>
  fact.flatMap((name, at) => [...(at ? [arrow()] : []), ...(name === null ? [el("b", {}, "?")] : named(name, labels))]);

/** `query` is [subject, relation, object] with null for what is asked. */
export function showAnswers(query, found) {
  const asked = query.indexOf(null);
  const facts = found.answers.map((answer) => {
    const name = answer.entity ?? answer.relation;
    return { ...answer, name, fact: query.map((given) => given ?? name) };
  });
  const isEntity = asked !== 1;
  mark(isEntity ? facts.map((one) => one.name) : []);
  show(el("p", { class: "question" }, parts(query, found.labels), versionNote(found)), found, facts, (one) =>
    isEntity ? nameButton(one.name, take, found.labels) : el("span", {}, named(one.name, found.labels)));
}

/** Facts that may be missing; `about` says of what. */
export function showSuggestions(about, found) {
  const facts = found.facts.map((one) => ({ ...one, fact: [one.subject, one.relation, one.object] }));
  mark([]);
  const scored = `${count(found.scored, "query", "queries")} of ${found.queries} scored`;
  const rest = found.complete ? "no other has a better fact" : "others may have better facts";
  const title = el("p", { class: "question" }, `New facts ${about}`, versionNote(found), el("span", { class: "note" }, ` · ${scored}; ${rest}`));
  show(title, found, facts, ({ fact }) => line(fact, found.labels));
}

/** A fact as a line of text. */
const line = ([subject, relation, object], labels) =>
  el("span", { class: "fact" }, nameLink(subject, take, labels), arrow(), named(relation, labels), arrow(), nameLink(object, take, labels));

function show(title, found, facts, name) {
  place.replaceChildren(
    title,
    found.calibrated
      ? ""
      : el("p", { class: "note" }, "Too few facts were held out: percentages are not calibrated, but a prior by rank."),
    facts.length
      ? el("ol", { class: "answers" }, facts.map((one, at) => row(one, at, name(one))))
      : el("p", { class: "note" }, "Nothing is left to answer with."),
  );
  for (const bar of place.querySelectorAll(".track i")) bar.style.width = bar.dataset.share;
}

/** An error, and names to choose from. */
export function showError(error, correct) {
  place.replaceChildren(
    el("p", { class: "bad" }, error.message),
    el("ul", { class: "hints" }, error.nearest.map((name) => el("li", {}, nameButton(name, correct, {}, "chip")))),
  );
}

/** The answers stand out on the map. */
function mark(names) {
  state.answers = new Set(names);
  emit("answers");
}

const versionNote = ({ version }) => el("span", { class: "note" }, ` · version ${version}`);

function markOf({ known, in_range: inRange }) {
  if (known) return el("span", { class: "mark" }, "known");
  return inRange === false
    ? el("span", { class: "mark", title: "No known fact of this relation has it in this place." }, "out of range")
    : el("span", { class: "mark new" }, "new");
}

function row(one, at, name) {
  const share = percent(one.plausibility);
  const reasons = el("div", { class: "reasons", hidden: true });
  return el("li", {},
    el("span", { class: "rank", "aria-hidden": "true" }, at + 1),
    name,
    el("span", { class: "marks" }, markOf(one), whyButton(one.fact, reasons)),
    el("div", { class: "measure", title: `score ${one.score.toFixed(3)}` },
      el("div", { class: "track", "aria-hidden": "true" }, el("i", { "data-share": share })),
      el("span", { class: "share" }, share, el("span", { class: "unseen" }, " plausible"))),
    reasons);
}

/** A button that opens and closes what speaks for a fact. */
function whyButton(fact, reasons) {
  const button = el("button", { type: "button", class: "why", "aria-expanded": "false", title: "Which known facts speak for it?" }, "Why?");
  button.addEventListener("click", async () => {
    reasons.hidden = !reasons.hidden;
    button.setAttribute("aria-expanded", String(!reasons.hidden));
    if (reasons.hidden || reasons.childElementCount) return;
    const [subject, relation, object] = fact;
    try {
      reasons.replaceChildren(...explained(await post("/explain", { subject, relation, object, k: REASONS })));
    } catch (error) {
      reasons.replaceChildren(el("p", { class: "bad" }, error.message));
    }
  });
  return button;
}

function explained({ reasons, compared, labels }) {
  if (!reasons.length) return [el("p", { class: "note" }, `None of ${count(compared, "known fact")} speaks for it.`)];
  return [
    el("p", { class: "note" }, `Known facts that speak most for it, of ${count(compared, "fact")} compared:`),
    el("ul", {}, reasons.map(({ subject, relation, object, weight, text }) => el("li", {},
      el("span", { class: "weight", title: "How much its score rises with each 1 of that of the known fact" }, weight.toFixed(2)),
      line([subject, relation, object], labels),
      el("small", {}, text)))),
  ];
}

function take(name) {
  choose(name);
  byId("around").scrollIntoView({ block: "nearest" });
}
