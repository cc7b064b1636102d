// All pages work without this file. It renews what changed, and shows moments in the reader's zone.
"use strict";

const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

function localTimes(part) {
  for (const time of part.querySelectorAll("time[datetime]")) {
    if (time.dataset.done) continue;
    time.dataset.done = "1";
    const moment = new Date(time.dateTime);
    if (Number.isNaN(moment.valueOf())) continue;
    const utc = time.title;
    if ("ago" in time.dataset) time.title = `${exact.format(moment)} · ${utc}`;
    else time.textContent = exact.format(moment);
  }
}

let paused = false;

function follow() {
  if (!document.querySelector("[hx-trigger*='store-changed']")) return;
  const changes = new EventSource(document.body.dataset.changes);
  changes.addEventListener("changed", () => {
    const typing = document.activeElement && document.activeElement.matches("input, select, textarea");
    if (!paused && !typing && !document.hidden) document.body.dispatchEvent(new Event("store-changed"));
  });
  window.addEventListener("pagehide", () => changes.close());
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-pause]");
  if (!button) return;
  paused = !paused;
  button.setAttribute("aria-pressed", String(paused));
  button.textContent = paused ? "Go on" : "Pause";
});

document.addEventListener("DOMContentLoaded", () => { localTimes(document); follow(); });
document.addEventListener("htmx:afterSettle", (event) => localTimes(event.target));
window.addEventListener("pageshow", (event) => { if (event.persisted) window.location.reload(); });
