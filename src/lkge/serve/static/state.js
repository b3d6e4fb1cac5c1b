/** What the parts of the page share: the chosen entity, and news. */

const news = new EventTarget();

export const state = { entity: "", version: null, answers: new Set() };

export const on = (name, listener) => news.addEventListener(name, (event) => listener(event.detail));
export const tell = (name, detail) => news.dispatchEvent(new CustomEvent(name, { detail }));

/** An entity is what everything is about from now on. */
export function choose(entity) {
  state.entity = entity;
  remember({ entity });
  tell("entity", entity);
}

/** Keep what was chosen in the address, so that it can be shared and loaded again. */
export function remember(changes) {
  const kept = recalled();
  for (const [name, value] of Object.entries(changes)) {
    if (value) kept.set(name, value);
    else kept.delete(name);
  }
  const search = kept.toString();
  history.replaceState(null, "", `${location.pathname}${search && `?${search}`}${location.hash}`);
}

export const recalled = () => new URLSearchParams(location.search);
