/** How the graph grew, and what it remembers. */

import { get } from "./api.js";
import { byId, el, settled, short, svg } from "./dom.js";
import { on } from "./state.js";

const COLUMNS = 12;
const HEIGHT = 150;
const EDGE = { left: 44, right: 14, top: 10, bottom: 24 };
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

function draw() {
  const last = versions.at(-1);
  if (!last) return;
  byId("growth").replaceChildren(
    figure("Known facts", short(last.known_facts), [{ kind: 0, of: (one) => one.known_facts }], short),
    figure("Entities", short(entities(last)), [{ kind: 2, of: entities }], short),
    figure("MRR", "", [
      { kind: 0, name: "new facts", of: (one) => one.mrr_new },
      { kind: 1, name: "old facts", of: (one) => one.mrr_old },
    ], (value) => value.toFixed(2)),
    ...[["MRR", "mrr"], ["Hits@10", "hits10"]].map(([name, field]) => figure(`${name} of older held-out facts`, "", [
      { kind: 1, name: "now", of: (one) => one.since_baseline[field] },
      { kind: 5, name: "baseline", of: (one) => one.since_baseline[`${field}_before`] },
    ], (value) => value.toFixed(2))),
  );
  for (const plot of byId("growth").querySelectorAll("svg")) plot.draw();
}

/** A caption and a plot of one or two lines over the versions. */
function figure(title, now, lines, written) {
  const keys = lines.filter((line) => line.name).map((line) =>
    el("span", {}, el("i", { class: `swatch kind-${line.kind}`, "aria-hidden": "true" }), line.name));
  const described = lines.map((line) => `${line.name || title}: ${versions.map((one) => written(line.of(one) ?? 0)).join(", ")}`);
  const plot = svg("svg", { class: "plot", height: HEIGHT, role: "img", "aria-label": `${title} over versions. ${described.join(". ")}` });
  plot.draw = () => plot.replaceChildren(...drawn(plot.clientWidth || 300, lines, written));
  return el("figure", {}, el("figcaption", {}, `${title} `, el("b", {}, now), el("span", { class: "keys" }, keys)), plot);
}

function drawn(width, lines, written) {
  const most = Math.max(...versions.flatMap((one) => lines.map((line) => line.of(one) ?? 0)), 1e-9);
  const top = rounded(most);
  const across = (at) => EDGE.left + (at / Math.max(1, versions.length - 1)) * (width - EDGE.left - EDGE.right);
  const up = (value) => HEIGHT - EDGE.bottom - (value / top) * (HEIGHT - EDGE.top - EDGE.bottom);
  const rules = [0, top / 2, top].map((value) => [
    svg("line", { class: "rule", x1: EDGE.left, x2: width - EDGE.right, y1: up(value), y2: up(value) }),
    svg("text", { x: EDGE.left - 7, y: up(value) + 4, "text-anchor": "end" }, written(value)),
  ]);
  const ends = [...new Set([0, versions.length - 1])].map((at) =>
    svg("text", { x: across(at), y: HEIGHT - 6, "text-anchor": at ? "end" : "start" }, `v${versions[at].version}`));
  return [...rules.flat(), ...ends, ...lines.flatMap((line) => path(line, across, up, written, lines.length === 1))];
}

function path(line, across, up, written, filled) {
  const spots = versions.map((one, at) => ({ one, value: line.of(one), x: across(at) })).filter((spot) => spot.value !== null);
  if (!spots.length) return [];
  const way = spots.map((spot) => `${spot.x},${up(spot.value)}`).join("L");
  const area = `M${spots[0].x},${up(0)}L${way}L${spots.at(-1).x},${up(0)}Z`;
  return [
    filled ? svg("path", { class: `area kind-${line.kind}`, d: area }) : null,
    svg("path", { class: `line kind-${line.kind}`, d: `M${way}` }),
    ...(spots.length > 40 ? spots.slice(-1) : spots).map((spot) =>
      svg("circle", { class: `point kind-${line.kind}`, cx: spot.x, cy: up(spot.value), r: 3.5 },
        svg("title", {}, `version ${spot.one.version}: ${written(spot.value)}`))),
  ].filter(Boolean);
}

/** The next larger round number. */
function rounded(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((step) => step * power >= value * 0.999) * power;
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
