/** Pointer, wheel, pinch and keys on the map, turned into views. */

import { moved, zoomed } from "./view.js";

const STEP = 60;
const STILL = 4;
const ARROWS = { ArrowLeft: [STEP, 0], ArrowRight: [-STEP, 0], ArrowUp: [0, STEP], ArrowDown: [0, -STEP] };
const ZOOMS = { "+": 1.4, "=": 1.4, "-": 1 / 1.4 };

export class Hand {
  /** `on`: view(), size(), look(view), reset(), hover(x, y), pick(x, y), enter(), settle(). */
  constructor(canvas, on) {
    this.canvas = canvas;
    this.on = on;
    this.down = new Map();
    this.way = 0;
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("keydown", (event) => this.key(event));
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.release(event, true));
    canvas.addEventListener("pointercancel", (event) => this.release(event, false));
    canvas.addEventListener("pointerleave", () => on.hover(-1e6, -1e6));
  }

  at(event) {
    const box = this.canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }

  /** The wheel scrolls the page until the map was clicked or reached by key. */
  wheel(event) {
    if (document.activeElement !== this.canvas && !event.ctrlKey) return;
    event.preventDefault();
    const { x, y } = this.at(event);
    const lines = event.deltaMode === 1 ? 16 : 1;
    this.on.look(zoomed(this.on.view(), this.on.size(), Math.exp(-event.deltaY * lines * 0.0018), x, y));
  }

  key(event) {
    const view = this.on.view();
    const size = this.on.size();
    if (event.key in ARROWS) this.on.look(moved(view, ...ARROWS[event.key]));
    else if (event.key in ZOOMS) this.on.look(zoomed(view, size, ZOOMS[event.key]));
    else if (event.key === "0") this.on.reset();
    else if (event.key === "Enter") this.on.enter();
    else return;
    event.preventDefault();
    this.on.settle();
  }

  press(event) {
    if (!this.down.size) this.way = 0;
    this.down.set(event.pointerId, this.at(event));
    this.canvas.setPointerCapture(event.pointerId);
  }

  move(event) {
    const now = this.at(event);
    const before = this.down.get(event.pointerId);
    if (!before) {
      this.on.hover(now.x, now.y);
      return;
    }
    const other = [...this.down].find(([id]) => id !== event.pointerId)?.[1];
    this.way += Math.hypot(now.x - before.x, now.y - before.y);
    this.canvas.classList.add("dragged");
    this.on.look(other ? this.pinched(before, now, other) : moved(this.on.view(), now.x - before.x, now.y - before.y));
    this.down.set(event.pointerId, now);
  }

  pinched(before, now, other) {
    const apart = (point) => Math.max(8, Math.hypot(point.x - other.x, point.y - other.y));
    const middle = { x: (now.x + other.x) / 2, y: (now.y + other.y) / 2 };
    const view = zoomed(this.on.view(), this.on.size(), apart(now) / apart(before), middle.x, middle.y);
    return moved(view, (now.x - before.x) / 2, (now.y - before.y) / 2);
  }

  release(event, meant) {
    const { x, y } = this.at(event);
    this.down.delete(event.pointerId);
    if (this.down.size) return;
    this.canvas.classList.remove("dragged");
    if (meant && this.way < STILL) this.on.pick(x, y);
  }
}
