/** What is known of an entity: a small graph, the same as a list, and who is like it. */

import { get, post } from "./api.js";
import { byId, clipped, count, el, settled, svg } from "./dom.js";
import { nameButton, named, shown as read } from "./names.js";
import { choose, on, state } from "./state.js";

const LIMIT = 60;
const DRAWN = 12;
const KINDS = 6;
const INVERSE = "⁻¹";
const place = byId("around-body");
let shown = null;
let last = 0;
let drawnWidth = 0;

async function load(entity) {
  const turn = ++last;
  try {
    const [around, similar] = await Promise.all([
      get("/neighbourhood", { entity, limit: LIMIT }),
      post("/similar", { entity, k: 6 }).catch(() => ({ entities: [], labels: {} })),
    ]);
    if (turn === last) show(around, similar);
  } catch (error) {
    if (turn === last) place.replaceChildren(el("p", { class: "note" }, error.message));
  }
}

function show(around, similar) {
  shown = around;
  const groups = grouped(around.neighbours);
  place.replaceChildren(
    el("p", {}, el("strong", {}, named(around.entity, around.labels))),
    el("p", { class: "facts-of" },
      el("span", {}, count(around.degree, "fact")), el("span", {}, `since version ${around.since}`),
      around.neighbours.length < around.degree ? el("span", {}, `the first ${around.neighbours.length} are shown`) : null),
    svg("svg", { class: "graph", "aria-hidden": "true" }),
    el("dl", { class: "groups", tabindex: "0", "aria-label": `Facts of ${around.entity}` }, [...groups].map(group)),
    ...(similar.entities.length ? [el("h3", {}, "Similar entities"), el("ul", { class: "chips" }, similar.entities.map((one) => chip(one, similar.labels)))] : []),
  );
  draw();
}

/** relation → its neighbours, in the order of the facts. */
function grouped(neighbours) {
  const groups = new Map();
  for (const one of neighbours) groups.set(one.relation, [...(groups.get(one.relation) || []), one]);
  return groups;
}

function phrase(relation) {
  const text = read(relation, shown.labels);
  return relation.endsWith(INVERSE) ? `← ${text.slice(0, -INVERSE.length)}` : `${text} →`;
}

function group([relation, members], place) {
  return [
    el("dt", {}, el("span", { class: `swatch kind-${place % KINDS}`, "aria-hidden": "true" }), phrase(relation)),
    el("dd", {}, el("ul", {}, members.map((one) => el("li", {}, nameButton(one.entity, choose, shown.labels))))),
  ];
}

const chip = ({ entity, similarity }, labels) => {
  const button = nameButton(entity, choose, labels, "chip");
  button.title = `cosine ${similarity.toFixed(3)}`;
  return el("li", {}, button);
};

const widthOf = (figure) => figure.clientWidth || 400;

/** Draw again where there is more room or less; otherwise a click may just be under way. */
function fit() {
  const figure = place.querySelector(".graph");
  if (figure && widthOf(figure) !== drawnWidth) draw();
}

function draw() {
  const figure = place.querySelector(".graph");
  if (!figure || !shown) return;
  const width = widthOf(figure);
  drawnWidth = width;
  const kinds = new Map([...grouped(shown.neighbours).keys()].map((relation, at) => [relation, at % KINDS]));
  const others = shown.neighbours.slice(0, DRAWN);
  const height = Math.min(260, 90 + 22 * others.length);
  const middle = { x: width / 2, y: height / 2 };
  const reach = { x: Math.min(width * 0.26, 150), y: height / 2 - 24 };
  const letters = Math.max(8, Math.floor((width / 2 - reach.x - 16) / 6.6));
  const spots = others.map((one, at) => spot(one, at, others.length, middle, reach));
  figure.setAttribute("viewBox", `0 0 ${width} ${height}`);
  figure.setAttribute("height", height);
  figure.replaceChildren(
    ...spots.map(({ x, y }) => svg("line", { class: "edge", x1: middle.x, y1: middle.y, x2: x, y2: y })),
    ...spots.map((each) => node(each, kinds.get(each.one.relation), letters)),
    svg("circle", { class: "middle", cx: middle.x, cy: middle.y, r: 8 }),
    svg("text", { class: "middle-name", x: middle.x, y: middle.y + 25, "text-anchor": "middle" }, clipped(read(shown.entity, shown.labels), 26)),
  );
}

function spot(one, at, size, middle, reach) {
  const angle = ((at + (size > 2 ? 0.5 : 0)) / size) * 2 * Math.PI;
  return { one, right: Math.cos(angle) >= 0, x: middle.x + reach.x * Math.cos(angle), y: middle.y + reach.y * Math.sin(angle) };
}

function node({ one, right, x, y }, kind, letters) {
  return svg("g", { class: `other kind-${kind}`, onclick: () => choose(one.entity) },
    svg("title", {}, `${phrase(one.relation)} ${read(one.entity, shown.labels)}`),
    svg("circle", { class: "dot", cx: x, cy: y, r: 5.5 }),
    svg("text", { x: x + (right ? 10 : -10), y: y + 4, "text-anchor": right ? "start" : "end" }, clipped(read(one.entity, shown.labels), letters)));
}

export function begin() {
  on("entity", load);
  for (const change of ["version", "labels"]) on(change, () => state.entity && load(state.entity));
  new ResizeObserver(settled(fit, 100)).observe(place);
}
