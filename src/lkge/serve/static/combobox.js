/** A text field that completes what is typed; arrows, Enter and Escape work as they should. */

import { byId, el, settled } from "./dom.js";

const WAIT = 90;

export class Combobox {
  /** `suggest(text, signal)` promises names; `chosen(name)` hears which one was taken. */
  constructor(id, suggest, chosen) {
    this.input = byId(id);
    this.list = byId(`${id}-options`);
    this.suggest = suggest;
    this.chosen = chosen;
    this.active = -1;
    this.names = [];
    this.request = null;
    for (const [name, value] of Object.entries({
      role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false",
      "aria-controls": this.list.id,
    })) this.input.setAttribute(name, value);
    this.later = settled(() => this.open(), WAIT);
    this.input.addEventListener("input", () => this.later());
    this.input.addEventListener("click", () => this.list.hidden && this.open());
    this.input.addEventListener("keydown", (event) => this.key(event));
    this.input.addEventListener("blur", () => this.close());
    this.list.addEventListener("pointerdown", (event) => event.preventDefault());
  }

  get value() {
    return this.input.value.trim();
  }

  set value(name) {
    this.input.value = name;
  }

  async open() {
    this.request?.abort();
    this.request = new AbortController();
    const { signal } = this.request;
    const text = this.input.value;
    try {
      const names = await this.suggest(text, signal);
      if (!signal.aborted && document.activeElement === this.input) this.show(names, text);
    } catch (error) {
      if (error.name !== "AbortError") this.close();
    }
  }

  show(names, text) {
    const active = names.join("\n") === this.names.join("\n") ? this.active : -1;
    const isComplete = names.length === 1 && names[0] === text;
    if (isComplete) names = [];
    this.names = names;
    this.list.replaceChildren(...names.map((name, place) => this.option(name, place, text)));
    this.mark(active);
    this.list.hidden = names.length === 0;
    this.input.setAttribute("aria-expanded", String(names.length > 0));
  }

  option(name, place, text) {
    const begins = name.toLowerCase().startsWith(text.toLowerCase()) ? text.length : 0;
    const take = () => this.take(place);
    return el("li", { role: "option", id: `${this.list.id}-${place}`, "aria-selected": "false", onclick: take },
      el("mark", {}, name.slice(0, begins)), name.slice(begins));
  }

  close() {
    this.later.cancel();
    this.request?.abort();
    this.list.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.mark(-1);
  }

  take(place) {
    const name = this.names[place];
    this.value = name;
    this.close();
    this.chosen(name);
  }

  mark(place) {
    this.list.children[this.active]?.setAttribute("aria-selected", "false");
    this.active = place;
    const option = this.list.children[place];
    option?.setAttribute("aria-selected", "true");
    option?.scrollIntoView({ block: "nearest" });
    if (option) this.input.setAttribute("aria-activedescendant", option.id);
    else this.input.removeAttribute("aria-activedescendant");
  }

  key(event) {
    const isOpen = !this.list.hidden;
    const size = this.names.length;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (!isOpen) this.open();
      else if (event.key === "ArrowDown") this.mark((this.active + 1) % size);
      else this.mark((Math.max(this.active, 0) + size - 1) % size);
    } else if (event.key === "Enter" && isOpen && this.active >= 0) {
      event.preventDefault();
      this.take(this.active);
    } else if (event.key === "Escape") {
      if (isOpen) this.close();
      else this.value = "";
    }
  }
}
