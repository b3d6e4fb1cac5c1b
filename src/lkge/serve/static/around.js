/** What is known of an entity: a small graph, the same as a list, and who is like it. */

import { get, post } from "./api.js";
import { byId, clipped, count, el, settled, svg } from "./dom.js";
import { nameButton, named, shown as read } from "./names.js";
import { choose, on, state } from "./state.js";

const LIMIT = 60;
const DRAWN = 12;
const KINDS = 6;
const LINE = 15;
const GAP = 14;
const LETTER = 7;
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
  const reach = Math.min(width * 0.2, 110);
  const letters = Math.max(8, Math.floor((width / 2 - reach - GAP) / LETTER));
  const nodes = shown.neighbours.slice(0, DRAWN).map((one) =>
    ({ one, kind: kinds.get(one.relation), lines: broken(read(one.entity, shown.labels), letters) }));
  const half = Math.ceil(nodes.length / 2);
  const sides = [nodes.slice(0, half), nodes.slice(half)];
  const own = broken(read(shown.entity, shown.labels), Math.max(8, Math.floor((2 * reach - 3 * GAP) / (LETTER + 1))));
  const height = Math.max(2 * (30 + LINE * own.length), ...sides.map(heightOf));
  const middle = { x: width / 2, y: height / 2 };
  const spots = sides.flatMap((side, left) => placed(side, height, middle.x + (left ? -reach : reach)));
  figure.setAttribute("viewBox", `0 0 ${width} ${height}`);
  figure.setAttribute("height", height);
  figure.replaceChildren(
    ...spots.map(({ x, y }) => svg("line", { class: "edge", x1: middle.x, y1: middle.y, x2: x, y2: y })),
    ...spots.map((spot) => node(spot, spot.x > middle.x)),
    svg("circle", { class: "middle", cx: middle.x, cy: middle.y, r: 8 }),
    words(own, middle.x, middle.y + 25, { class: "middle-name", "text-anchor": "middle" }),
  );
}

const heightOf = (side) => side.reduce((sum, { lines }) => sum + LINE * lines.length + GAP, GAP);

/** The nodes of a side from top to bottom, with the room that is left between them. */
function placed(side, height, x) {
  const room = (height - heightOf(side)) / (side.length + 1);
  let top = GAP / 2;
  return side.map((one) => {
    const y = top + room + (LINE * one.lines.length + GAP) / 2;
    top += room + LINE * one.lines.length + GAP;
    return { ...one, x, y };
  });
}

/** A name in at most three lines of so many letters, broken where words end. */
export function broken(name, letters) {
  const lines = [""];
  for (const word of name.match(/[^\s_\-/.:]*[\s_\-/.:]*/g).filter(Boolean)) {
    for (let rest = word; rest; rest = rest.slice(letters)) {
      const part = rest.slice(0, letters);
      if ((lines.at(-1) + part).trimEnd().length <= letters) lines[lines.length - 1] += part;
      else lines.push(part);
    }
  }
  const [first, second, ...others] = lines.filter(Boolean);
  return [first, second, others.length ? clipped(others.join(""), letters) : ""].filter(Boolean);
}

const words = (lines, x, y, attributes) =>
  svg("text", { y, ...attributes }, lines.map((line, at) => svg("tspan", { x, dy: at ? LINE : 0 }, line)));

function node({ one, kind, lines, x, y }, right) {
  return svg("g", { class: `other kind-${kind}`, onclick: () => choose(one.entity) },
    svg("title", {}, `${phrase(one.relation)} ${read(one.entity, shown.labels)}`),
    svg("circle", { class: "dot", cx: x, cy: y, r: 5.5 }),
    words(lines, x + (right ? 10 : -10), y + 4 - ((lines.length - 1) * LINE) / 2, { "text-anchor": right ? "start" : "end" }));
}

export function begin() {
  on("entity", load);
  for (const change of ["version", "labels"]) on(change, () => state.entity && load(state.entity));
  new ResizeObserver(settled(fit, 100)).observe(place);
}
