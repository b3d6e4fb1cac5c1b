/** State that the parts of the page share: the chosen entity, and events. */

const changes = new EventTarget();

export const state = { entity: "", version: null, answers: new Set() };

export const on = (name, listener) => changes.addEventListener(name, (event) => listener(event.detail));
export const emit = (name, detail) => changes.dispatchEvent(new CustomEvent(name, { detail }));

/** Choose the entity that all parts of the page show. */
export function choose(entity) {
  state.entity = entity;
  remember({ entity });
  emit("entity", entity);
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
