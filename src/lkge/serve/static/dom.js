/** Elements from nested calls. Text is always text, never HTML. */

const SVG = "http://www.w3.org/2000/svg";
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const whole = new Intl.NumberFormat("en");

export const byId = (id) => document.getElementById(id);

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

export const el = (name, attributes = {}, ...children) =>
  filled(document.createElement(name), attributes, children);

export const svg = (name, attributes = {}, ...children) =>
  filled(document.createElementNS(SVG, name), attributes, children);

export const grouped = (number) => whole.format(number);
export const short = (number) => compact.format(number);
export const count = (number, noun, nouns = `${noun}s`) => `${whole.format(number)} ${number === 1 ? noun : nouns}`;
export const clipped = (text, length) =>
  text.length > length ? `${text.slice(0, length - 1)}…` : text;

/** Call `work` once things have been quiet for so long, unless `cancel()` comes before. */
export function settled(work, milliseconds) {
  let timer;
  const later = (...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...given), milliseconds);
  };
  later.cancel = () => clearTimeout(timer);
  return later;
}
