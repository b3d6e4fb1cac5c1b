/** Names with their labels. */

import { get } from "./api.js";
import { el } from "./dom.js";

const SUGGESTIONS = 8;

/** A function that finds names of a kind, each with its label, by what is typed. */
export const found = (kind) => async (text, signal) =>
  (await get("/find", { text, kind, limit: SUGGESTIONS }, signal)).names;

/** What is read for a name: its label, if there is one. */
export const shown = (name, labels = {}) => labels[name] || name;

/** A name as children of an element: its label, and the name behind it. */
export const named = (name, labels = {}) =>
  labels[name] && labels[name] !== name ? [labels[name], el("small", { class: "id" }, ` ${name}`)] : [name];

/** The same in a line of text, where a button would not break. */
export function nameLink(name, choose, labels = {}) {
  const follow = (event) => {
    event.preventDefault();
    choose(name);
  };
  return el("a", { class: "name", href: `?${new URLSearchParams({ entity: name })}`, onclick: follow }, named(name, labels));
}

/** A button that reads as the name that it chooses. */
export const nameButton = (name, choose, labels = {}, className = "name") =>
  el("button", { type: "button", class: className, onclick: () => choose(name) }, named(name, labels));
