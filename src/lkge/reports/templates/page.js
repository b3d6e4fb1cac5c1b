"use strict";
const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
function show(id) {
  const panel = document.getElementById(id);
  if (!(panel instanceof HTMLDetailsElement)) return;
  panel.open = true;
  panel.scrollIntoView({ behavior: calm ? "auto" : "smooth", block: "start" });
  panel.querySelector("summary").focus({ preventScroll: true });
}
for (const row of document.querySelectorAll("tr[data-panel]")) {
  row.addEventListener("click", (event) => {
    if (getSelection().toString()) return;
    event.preventDefault();
    show(row.dataset.panel);
  });
}
show(location.hash.slice(1));
