/** A text field that finds names by what is typed; arrows, Enter and Escape work as they should. */

import { byId, el, settled } from "./dom.js";

const WAIT = 90;
const plain = (text) => text.toLowerCase().replace(/[_-]/g, " ");

/** A name with the part marked that was typed. */
function marked(name, text) {
  const at = text ? plain(name).indexOf(plain(text)) : -1;
  const end = at + text.length;
  return at < 0 ? [name] : [name.slice(0, at), el("mark", {}, name.slice(at, end)), name.slice(end)];
}

export class Combobox {
  /** `suggest(text, signal)` promises names with labels; `chosen(name)` hears which one was taken. */
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
      const found = await this.suggest(text, signal);
      if (!signal.aborted && document.activeElement === this.input) this.show(found, text);
    } catch (error) {
      if (error.name !== "AbortError") this.close();
    }
  }

  show(found, text) {
    const isComplete = found.length === 1 && found[0].name === text;
    if (isComplete) found = [];
    const names = found.map(({ name }) => name);
    const active = names.join("\n") === this.names.join("\n") ? this.active : -1;
    this.names = names;
    this.list.replaceChildren(...found.map((one, place) => this.option(one, place, text)));
    this.mark(active);
    this.list.hidden = names.length === 0;
    this.input.setAttribute("aria-expanded", String(names.length > 0));
  }

  option({ name, label }, place, text) {
    const take = () => this.take(place);
    const shown = label && label !== name ? [marked(label, text), el("small", { class: "id" }, " ", marked(name, text))] : marked(name, text);
    return el("li", { role: "option", id: `${this.list.id}-${place}`, "aria-selected": "false", onclick: take }, shown);
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
