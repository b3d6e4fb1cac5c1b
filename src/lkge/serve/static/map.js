/** The map of the embedding, on a canvas. */

import { get } from "./api.js";
import { byId, clipped, count, grouped, settled } from "./dom.js";
import { Hand } from "./hand.js";
import { shown } from "./names.js";
import { choose, on, state } from "./state.js";
import { nearest, placed, shares, whole, zoomed } from "./view.js";

const POINTS = 2000;
const REACH = 14;
const LETTERS = 28;
const canvas = byId("map-canvas");
const tip = byId("map-tip");
const context = canvas.getContext("2d");
let points = null;
let spots = [];
let view = null;
let hovered = -1;
let loaded = false;
let total = 0;

const nameAt = (at) => shown(points.entities[at], points.labels);
const size = () => ({ width: canvas.clientWidth, height: canvas.clientHeight });

/** What is looked at: all of it, unless someone has zoomed or moved. */
const now = () => (view ??= whole(size(), points?.x ?? [], points?.y ?? []));

async function load() {
  loaded = true;
  try {
    points = await get("/map", { limit: POINTS });
    if (now().zoom === 1) view = null;
    const few = points.entities.length === 0 ? ". It is empty" : "";
    canvas.setAttribute("aria-label", `Map of ${count(points.entities.length, "point")}${few}`);
    share();
    colour();
  } catch (error) {
    byId("map-help").textContent = error.message;
  }
}

/** Say of how many entities the points are a sample. */
function share() {
  const drawn = points?.entities.length ?? 0;
  byId("map-share").textContent = drawn && drawn < total ? `${grouped(drawn)} of ${count(total, "entity", "entities")}` : "";
}

/** Give every point its colour, and the legend its ends. */
function colour() {
  if (!points) return;
  const by = byId("map-colour").value;
  const style = getComputedStyle(document.documentElement);
  const ramp = [0, 1, 2, 3, 4].map((step) => style.getPropertyValue(`--ramp-${step}`).trim());
  points.paint = shares(points[by], by === "degree").map((share) => ramp[Math.min(4, Math.floor(share * 5))]);
  points.radius = shares(points.degree, true).map((share) => 2 + 3.5 * share);
  const values = points[by].length ? points[by] : [0];
  const written = by === "degree" ? (value) => count(value, "fact") : (value) => `version ${value}`;
  byId("ramp-low").textContent = written(Math.min(...values));
  byId("ramp-high").textContent = written(Math.max(...values));
  draw();
}

function draw() {
  if (!points?.paint || !canvas.clientWidth) return;
  const { width, height } = size();
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  spots = points.x.map((x, at) => placed(now(), { width, height }, x, points.y[at]));
  const grows = Math.min(2.2, Math.sqrt(now().zoom));
  const order = [...spots.keys()].sort((one, other) => points.degree[one] - points.degree[other]);
  for (const at of order) dot(at, points.radius[at] * grows, points.paint[at]);
  rings();
  names(order.reverse(), width, height);
}

function dot(at, radius, paint) {
  context.globalAlpha = 0.85;
  context.fillStyle = paint;
  context.beginPath();
  context.arc(spots[at][0], spots[at][1], radius, 0, 2 * Math.PI);
  context.fill();
  context.globalAlpha = 1;
}

/** The chosen entity, its answers, and what lies under the pointer stand out. */
function rings() {
  const style = getComputedStyle(document.documentElement);
  points.entities.forEach((name, at) => {
    const chosen = name === state.entity;
    if (!chosen && at !== hovered && !state.answers.has(name)) return;
    context.strokeStyle = style.getPropertyValue(chosen || at === hovered ? "--bad" : "--good");
    context.lineWidth = chosen ? 3 : 2;
    context.beginPath();
    context.arc(spots[at][0], spots[at][1], chosen ? 9 : 7, 0, 2 * Math.PI);
    context.stroke();
  });
}

/** The names of what is chosen, and of the entities with most facts, where there is room. */
function names(order, width, height) {
  const style = getComputedStyle(document.documentElement);
  const taken = [];
  const first = points.entities.indexOf(state.entity);
  context.font = "12px system-ui, sans-serif";
  context.lineJoin = "round";
  context.lineWidth = 3.5;
  context.strokeStyle = style.getPropertyValue("--field");
  context.fillStyle = style.getPropertyValue("--ink");
  const most = width < 500 ? 8 : 22;
  for (const at of [first, ...order.slice(0, 400)]) {
    if (at < 0 || taken.length >= most) continue;
    const [x, y] = spots[at];
    if (x < 0 || x > width) continue;
    const text = clipped(nameAt(at), LETTERS);
    const gap = at === first || state.answers.has(points.entities[at]) ? 13 : 9;
    const long = context.measureText(text).width;
    const left = x + gap + long + 4 < width ? x + gap : x - gap - long;
    const box = { left: left - 2, top: y - 8, right: left + long + 2, bottom: y + 8 };
    const inside = box.left > 0 && box.top > 0 && box.bottom < height;
    if (!inside || taken.some((other) => overlap(box, other))) continue;
    taken.push(box);
    context.strokeText(text, left, y + 4);
    context.fillText(text, left, y + 4);
  }
}

const overlap = (one, other) =>
  one.left < other.right && other.left < one.right && one.top < other.bottom && other.top < one.bottom;

function look(next) {
  view = next;
  draw();
}

function reset() {
  look(null);
}

function hover(x, y) {
  const at = nearest(spots, x, y, REACH);
  canvas.classList.toggle("over", at >= 0);
  if (at === hovered) return;
  hovered = at;
  tip.hidden = at < 0;
  if (at >= 0) {
    tip.textContent = `${nameAt(at)} · ${count(points.degree[at], "fact")}`;
    const left = Math.min(spots[at][0] + 12, size().width - tip.offsetWidth - 8);
    const above = spots[at][1] > 44;
    tip.style.transform = `translate(${Math.max(4, left)}px, ${spots[at][1] + (above ? -38 : 14)}px)`;
  }
  draw();
}

/** The entity nearest to the middle, for screen readers. */
function centred() {
  const { width, height } = size();
  const at = nearest(spots, width / 2, height / 2, Math.max(width, height));
  if (at >= 0) byId("map-near").textContent = `Nearest to the middle: ${nameAt(at)}`;
  return at;
}

export function begin() {
  new Hand(canvas, {
    view: now, size, look, reset, hover,
    pick: (x, y) => { const at = nearest(spots, x, y, REACH); if (at >= 0) choose(points.entities[at]); },
    enter: () => { const at = centred(); if (at >= 0) choose(points.entities[at]); },
    settle: settled(centred, 400),
  });
  byId("map-in").addEventListener("click", () => look(zoomed(now(), size(), 1.5)));
  byId("map-out").addEventListener("click", () => look(zoomed(now(), size(), 1 / 1.5)));
  byId("map-reset").addEventListener("click", reset);
  byId("map-colour").addEventListener("change", colour);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", colour);
  new ResizeObserver(settled(() => { if (now().zoom === 1) reset(); else draw(); }, 60)).observe(canvas);
  on("health", ({ entities }) => { total = entities; share(); });
  for (const name of ["entity", "answers"]) on(name, draw);
  for (const name of ["version", "labels"]) on(name, () => loaded && load());
  new IntersectionObserver((seen) => { if (!loaded && seen.some((one) => one.isIntersecting)) load(); }, { rootMargin: "300px" }).observe(canvas);
}
