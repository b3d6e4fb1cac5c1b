/** Plausibility against the share of answers that are true, for the version that answers. */

import { byId, count, el, svg } from "./dom.js";
import { on } from "./state.js";

const SIZE = 260;
const EDGE = { left: 40, right: 12, top: 10, bottom: 40 };
const TICKS = [0, 0.5, 1];
const SURE = 1.96;
const place = byId("reliability");
let drawn = "";

const across = (value) => EDGE.left + value * (SIZE - EDGE.left - EDGE.right);
const up = (value) => SIZE - EDGE.bottom - value * (SIZE - EDGE.top - EDGE.bottom);
const percent = (value) => `${Math.round(100 * value)} %`;

/** The ends of Wilson's 95 % interval of a share. */
function interval({ true: share, answers }) {
  const z = SURE ** 2 / answers;
  const middle = (share + z / 2) / (1 + z);
  const reach = (SURE / (1 + z)) * Math.sqrt((share * (1 - share)) / answers + z / (4 * answers));
  return [Math.max(0, middle - reach), Math.min(1, middle + reach)];
}

const words = (bin) =>
  `${count(bin.answers, "answer")} with plausibility ${percent(bin.plausibility)}: ${percent(bin.true)} true`;

function point(bin) {
  const [low, high] = interval(bin);
  const x = across(bin.plausibility);
  return svg("g", {},
    svg("title", {}, words(bin)),
    svg("line", { class: "whisker", x1: x, x2: x, y1: up(low), y2: up(high) }),
    svg("circle", { class: "point kind-0", cx: x, cy: up(bin.true), r: 4.5 }));
}

function tick(value) {
  const middle = { "text-anchor": "middle" };
  return [
    svg("line", { class: "rule", x1: across(0), x2: across(1), y1: up(value), y2: up(value) }),
    svg("line", { class: "rule", x1: across(value), x2: across(value), y1: up(0), y2: up(1) }),
    svg("text", { x: across(0) - 7, y: up(value) + 4, "text-anchor": "end" }, percent(value)),
    svg("text", { x: across(value), y: up(0) + 16, ...middle }, percent(value)),
  ];
}

function figure({ bins }) {
  const plot = svg("svg", {
    class: "plot", viewBox: `0 0 ${SIZE} ${SIZE}`, role: "img", "aria-label": `Plausibility and share of true answers. ${bins.map(words).join(". ")}`,
  },
    TICKS.flatMap(tick),
    svg("line", { class: "ideal", x1: across(0), y1: up(0), x2: across(1), y2: up(1) }),
    bins.map(point),
    svg("text", { x: across(0.5), y: SIZE - 4, "text-anchor": "middle" }, "plausibility"));
  return el("figure", {}, el("figcaption", {}, "Share of answers that are true"), plot);
}

const above = ({ error_above: error }) =>
  (error === null ? "" : `, and by ${error.toFixed(3)} where it is above 10 %`);

function show(found) {
  if (!found) {
    place.replaceChildren(el("p", { class: "note" },
      "Not measured for this version: too few facts were held out, or earlier code has calibrated it."));
    return;
  }
  place.replaceChildren(figure(found), el("div", {},
    el("p", {}, `Off by ${found.error.toFixed(3)} on average${above(found)}.`),
    el("p", { class: "note" }, `${count(found.answers, "answer")} to ${count(found.queries, "query", "queries")} of held-out facts, each judged by a curve that was fitted to others. On the dashed line plausibility is the share of true answers; bars are 95 % intervals.`),
    el("p", { class: "note" }, "True means held out. Facts are incomplete: an answer that is true, but not in the graph, counts as false here. So where many facts are absent, more answers are true than plausibility says.")));
}

export function begin() {
  on("health", ({ quality }) => {
    const now = JSON.stringify(quality?.reliability ?? null);
    if (now === drawn) return;
    drawn = now;
    show(quality?.reliability);
  });
}
