/** The page: its parts, and the events that update them. */

import * as around from "./around.js";
import * as ask from "./ask.js";
import { byId, count } from "./dom.js";
import * as grow from "./grow.js";
import * as health from "./health.js";
import * as history from "./history.js";
import * as map from "./map.js";
import * as reliability from "./reliability.js";
import { on, state, emit } from "./state.js";

for (const part of [around, map, health, reliability, history, grow, ask]) part.begin();

on("health", (health) => {
  document.title = `${health.graph} · lkge`;
  byId("graph").textContent = health.graph;
  byId("sizes").textContent = [
    count(health.entities, "entity", "entities"),
    count(health.relations, "relation"), count(health.facts, "known fact"),
    `${health.method}, ${health.dim} dimensions`,
  ].join(" · ");
  if (health.version === state.version) return;
  const badge = byId("version");
  badge.textContent = `version ${health.version}`;
  badge.classList.toggle("fresh", state.version !== null);
  state.version = health.version;
  emit("version", health.version);
});
on("trouble", (text) => { byId("sizes").textContent = text; });

const source = new EventSource("/events");
source.addEventListener("health", (event) => emit("health", JSON.parse(event.data)));
source.addEventListener("error", () => emit("trouble", "The service cannot be reached; trying again."));
