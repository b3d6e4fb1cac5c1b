/** Plots of lines over the versions. */

import { el, svg } from "./dom.js";

const HEIGHT = 150;
const EDGE = { left: 44, right: 14, top: 10, bottom: 24 };
const POINTS = 40;
const SPOKEN = 12;

/** A caption with the names of the lines. */
export const caption = (title, now, lines) => el("figcaption", {}, `${title} `, el("b", {}, now),
  el("span", { class: "keys" }, lines.filter((line) => line.name).map((line) =>
    el("span", {}, el("i", { class: `swatch kind-${line.kind}`, "aria-hidden": "true" }), line.name))));

/** A caption and a plot of some lines; `of` of a line is its value in a version, or null. */
export function overVersions(versions, title, now, lines, written) {
  const described = lines.map((line) => `${line.name || title}: ${spoken(versions, line, written)}`);
  const plot = svg("svg", { class: "plot", height: HEIGHT, role: "img", "aria-label": `${title} over versions. ${described.join(". ")}` });
  plot.draw = () => plot.replaceChildren(...drawn(versions, plot.clientWidth || 300, lines, written));
  return el("figure", {}, caption(title, now, lines), plot);
}

/** The values of a line in words: all of them, or of many the first and the last. */
function spoken(versions, line, written) {
  const values = versions.map((one) => line.of(one) ?? null);
  const all = values.map((value) => (value === null ? "not measured" : written(value)));
  return all.length > SPOKEN ? `from ${all[0]} to ${all.at(-1)} in ${all.length} versions` : all.join(", ");
}

function drawn(versions, width, lines, written) {
  const values = versions.flatMap((one) => lines.map((line) => line.of(one) ?? null)).filter((value) => value !== null);
  if (!values.length) return [svg("text", { x: 0, y: HEIGHT / 2 }, "Nothing is measured yet.")];
  const top = rounded(Math.max(...values) || 1);
  const across = (at) => EDGE.left + (at / Math.max(1, versions.length - 1)) * (width - EDGE.left - EDGE.right);
  const up = (value) => HEIGHT - EDGE.bottom - (value / top) * (HEIGHT - EDGE.top - EDGE.bottom);
  const rules = [0, top / 2, top].map((value) => [
    svg("line", { class: "rule", x1: EDGE.left, x2: width - EDGE.right, y1: up(value), y2: up(value) }),
    svg("text", { x: EDGE.left - 7, y: up(value) + 4, "text-anchor": "end" }, written(value)),
  ]);
  const ends = [...new Set([0, versions.length - 1])].map((at) =>
    svg("text", { x: across(at), y: HEIGHT - 6, "text-anchor": at ? "end" : "start" }, `v${versions[at].version}`));
  return [...rules.flat(), ...ends, ...lines.flatMap((line) => path(versions, line, across, up, written, lines.length === 1))];
}

function path(versions, line, across, up, written, filled) {
  const spots = versions.map((one, at) => ({ one, value: line.of(one), x: across(at) })).filter((spot) => spot.value !== null);
  if (!spots.length) return [];
  const way = spots.map((spot) => `${spot.x},${up(spot.value)}`).join("L");
  const area = `M${spots[0].x},${up(0)}L${way}L${spots.at(-1).x},${up(0)}Z`;
  return [
    filled ? svg("path", { class: `area kind-${line.kind}`, d: area }) : null,
    svg("path", { class: `line kind-${line.kind}${line.dashed ? " dashed" : ""}`, d: `M${way}` }),
    ...(spots.length > POINTS ? spots.slice(-1) : spots).map((spot) =>
      svg("circle", { class: `point kind-${line.kind}`, cx: spot.x, cy: up(spot.value), r: 3.5 },
        svg("title", {}, `version ${spot.one.version}: ${written(spot.value)}`))),
  ].filter(Boolean);
}

/** The next larger round number. */
function rounded(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((step) => step * power >= value * 0.999) * power;
}
