/** How the graph grew, and what it remembers. */

import { get } from "./api.js";
import { byId, el, settled, short } from "./dom.js";
import { overVersions } from "./plot.js";
import { on } from "./state.js";

const COLUMNS = 12;
const DIGITS = 2;
let versions = [];

const entities = (one) => one.entities - one.removed;
const mrr = (value) => (value === null || value === undefined ? "–" : value.toFixed(3));

async function load() {
  try {
    versions = (await get("/versions", { limit: 200 })).versions;
    draw();
    byId("matrix").replaceChildren(matrix(versions.slice(-COLUMNS)));
    byId("log").replaceChildren(table([...versions].reverse()));
  } catch (error) {
    byId("growth").replaceChildren(el("p", { class: "bad" }, error.message));
  }
}

const fixed = (value) => value.toFixed(DIGITS);

function draw() {
  const last = versions.at(-1);
  if (!last) return;
  const of = (field) => (one) => one.since_baseline[field];
  const old = (field) => [
    { kind: 1, name: "older facts", of: of(field) },
    { kind: 5, name: "their baseline", of: of(`${field}_before`), dashed: true },
  ];
  byId("quality").replaceChildren(
    overVersions(versions, "MRR of held-out facts", "", [...old("mrr"), { kind: 0, name: "new facts", of: (one) => one.mrr_new }], fixed),
  );
  byId("growth").replaceChildren(
    overVersions(versions, "Known facts", short(last.known_facts), [{ kind: 0, of: (one) => one.known_facts }], short),
    overVersions(versions, "Entities", short(entities(last)), [{ kind: 2, of: entities }], short),
    overVersions(versions, "Hits@10", "", old("hits10"), fixed),
  );
  for (const plot of document.querySelectorAll("#quality svg, #growth svg")) plot.draw();
}

function matrix(shown) {
  const columns = [...new Set(shown.flatMap((one) => Object.keys(one.by_age)))].sort((a, b) => parseInt(a) - parseInt(b));
  const rows = shown.filter((one) => columns.some((age) => age in one.by_age));
  if (!columns.length) return el("p", { class: "note" }, "No facts were held out yet; post more, or a larger share of them.");
  const most = Math.max(...rows.flatMap((one) => Object.values(one.by_age).map((each) => each.mrr ?? 0)), 1e-9);
  const cell = (value) => {
    const made = el("td", { class: value === undefined || value === null ? "" : "value" }, value === undefined ? "" : mrr(value));
    made.style.setProperty("--warmth", `${Math.round(((value || 0) / most) * 80)}%`);
    return made;
  };
  const head = el("tr", {}, el("td", {}), columns.map((age) => el("th", { scope: "col" }, age === "0" ? "new facts" : `${age} versions old`)));
  const body = rows.map((one) =>
    el("tr", {}, el("th", { scope: "row" }, `after ${one.version}`), columns.map((age) => cell(one.by_age[age]?.mrr))));
  return el("div", { class: "heat" }, el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "MRR over versions" },
    el("table", {}, el("caption", { class: "unseen" }, "MRR after each version on held-out facts by their age in versions"), el("thead", {}, head), el("tbody", {}, body))));
}

const FIELDS = [
  ["Version", (one) => one.version], ["Tags", (one) => one.tags.join(", ")], ["What", (one) => one.kind], ["When", (one) => one.created.slice(0, 16).replace("T", " ")],
  ["Facts", (one) => one.facts], ["Retracted", (one) => one.retracted], ["New entities", (one) => one.new_entities],
  ["MRR new", (one) => mrr(one.mrr_new)], ["MRR old, before", (one) => mrr(one.mrr_old_before)], ["MRR old", (one) => mrr(one.mrr_old)],
  ["Health", (one) => one.verdict],
  ["Drift", (one) => mrr(one.drift)], ["Epochs", (one) => one.epochs], ["Seconds", (one) => one.seconds.toFixed(1)],
];

function table(rows) {
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "All versions" }, el("table", {},
    el("thead", {}, el("tr", {}, FIELDS.map(([name]) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, rows.map((one) => el("tr", { title: one.warnings.join("\n") }, FIELDS.map(([, of]) => el("td", {}, of(one))))))));
}

export function begin() {
  on("version", load);
  new ResizeObserver(settled(draw, 100)).observe(byId("growth"));
}
