/** What an answer must be: the limits of a query, and their fields. */

import { Combobox } from "./combobox.js";
import { byId } from "./dom.js";
import { found } from "./names.js";

const MARKS = { "new-only": "new_only", "in-range": "in_range", unlinked: "unlinked" };

/** The fields call `changed` when a limit changes. */
export function begin(changed) {
  const relation = new Combobox("where-relation", found("relation"), changed);
  const entity = new Combobox("where-entity", found("entity"), changed);
  for (const id of [...Object.keys(MARKS), "among"]) byId(id).addEventListener("change", changed);
  for (const box of [relation, entity]) box.input.addEventListener("change", changed);
}

/** The limits as a part of a query; for relations there are two. */
export function limits(ofEntities) {
  const chosen = {};
  for (const [id, name] of Object.entries(MARKS)) {
    if (ofEntities || id !== "unlinked") chosen[name] = byId(id).checked;
  }
  if (!ofEntities) return chosen;
  const among = byId("among").value.split(",").map((name) => name.trim()).filter(Boolean);
  const where = ["where-relation", "where-entity"].map((id) => byId(id).value.trim());
  const set = [chosen.unlinked, among.length, where.every(Boolean)].filter(Boolean).length;
  byId("limits-set").textContent = set ? ` · ${set} set` : "";
  if (among.length) chosen.among = among;
  if (where.every(Boolean)) chosen.where = [where];
  return chosen;
}
