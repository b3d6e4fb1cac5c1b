/** The arithmetic of the map: where a point is on the screen, and which is nearest. */

const LEAST = 0.5;
const MOST = 60;
const EDGE = 28;

/** The view of a `size` in which all points just fit; `unit` is the pixels between 0 and 1. */
export function whole(size, xs, ys) {
  const [left, right] = ends(xs);
  const [low, high] = ends(ys);
  const fit = (pixels, span) => Math.max(1, pixels - 2 * EDGE) / Math.max(span, 1e-6);
  const unit = Math.min(fit(size.width, right - left), fit(size.height, high - low), 1e4);
  return { zoom: 1, unit, x: (left + right) / 2, y: (low + high) / 2 };
}

function ends(values) {
  return values.length ? [Math.min(...values), Math.max(...values)] : [-1, 1];
}

/** Screen position of a point of the plane. */
export function placed(view, size, x, y) {
  const scale = view.unit * view.zoom;
  return [size.width / 2 + (x - view.x) * scale, size.height / 2 - (y - view.y) * scale];
}

/** The view with what is under (x, y) on the screen kept there, `factor` times as large. */
export function zoomed(view, size, factor, x = size.width / 2, y = size.height / 2) {
  const zoom = Math.min(MOST, Math.max(LEAST, view.zoom * factor));
  const change = (1 / view.zoom - 1 / zoom) / view.unit;
  return { ...view, zoom, x: view.x + (x - size.width / 2) * change, y: view.y - (y - size.height / 2) * change };
}

/** The view after a drag of so many pixels. */
export function moved(view, dx, dy) {
  const scale = view.unit * view.zoom;
  return { ...view, x: view.x - dx / scale, y: view.y + dy / scale };
}

/** The place of the nearest point within `reach` pixels, or -1. */
export function nearest(spots, x, y, reach) {
  let best = -1;
  let least = reach * reach;
  for (let at = 0; at < spots.length; at += 1) {
    const distance = (spots[at][0] - x) ** 2 + (spots[at][1] - y) ** 2;
    if (distance <= least) [best, least] = [at, distance];
  }
  return best;
}

/** Each value as a share of the way from the least to the greatest; degrees by their logarithm. */
export function shares(values, logarithmic) {
  const scaled = logarithmic ? values.map((value) => Math.log1p(value)) : values;
  const low = Math.min(...scaled);
  const span = Math.max(...scaled) - low;
  return scaled.map((value) => (span ? (value - low) / span : 0));
}
