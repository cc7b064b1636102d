// All pages work without this file. It renews what changed, and shows moments in the reader's zone.
"use strict";

const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });

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

// A box that scrolls has to be reached with the keyboard; one that does not needs no stop.
function reachable(part) {
  for (const box of part.querySelectorAll("pre, .json, .markdown")) {
    if (box.scrollHeight > box.clientHeight || box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  }
}

const RETRY_MS = 30000;
const RENEW_MS = 30000;
const LIVE = "[hx-trigger*='store-changed']";
let paused = false;
let missed = false;
let changes = null;
let renewedAt = new Date();

// Whoever reads a row with the keyboard, or has chosen text in it, must not lose it to a newer one.
function isInUse() {
  const active = document.activeElement;
  if (active && active.matches("input, select, textarea")) return true;
  const part = document.querySelector(LIVE);
  if (!part) return false;
  if (active && part.contains(active)) return true;
  const chosen = window.getSelection();
  return Boolean(chosen && !chosen.isCollapsed && part.contains(chosen.anchorNode));
}

function isHeld() {
  return paused || document.hidden || isInUse();
}

function renew() {
  missed = isHeld();
  if (!missed) document.body.dispatchEvent(new Event("store-changed"));
}

function renewIfMissed() {
  if (missed) renew();
}

// A browser has few connections to one host for all tabs: only those that somebody looks at keep a stream.
function follow() {
  if (!document.querySelector(LIVE) || document.hidden || changes) return;
  const opened = new EventSource(document.body.dataset.changes);
  changes = opened;
  opened.addEventListener("changed", renew);
  opened.addEventListener("error", () => {
    renew(); // it says whether the console is there
    if (opened.readyState !== EventSource.CLOSED || changes !== opened) return;
    changes = null;
    window.setTimeout(follow, RETRY_MS);
  });
}

function unfollow() {
  if (changes) changes.close();
  changes = null;
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    unfollow();
    missed = true;
  } else {
    follow();
    renewIfMissed();
  }
});
document.addEventListener("focusout", () => window.setTimeout(renewIfMissed, 0));
document.addEventListener("selectionchange", renewIfMissed);
window.addEventListener("pagehide", unfollow);

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-pause]");
  if (!button) return;
  paused = !paused;
  button.textContent = paused ? "Go on" : "Pause";
  if (!paused) renewIfMissed();
});

// The reader may have paused, or gone to a row, while the answer was on its way.
document.addEventListener("htmx:beforeSwap", (event) => {
  if (!event.detail.requestConfig.elt.matches(LIVE) || !isHeld()) return;
  event.detail.shouldSwap = false;
  missed = true;
});

// What nobody can renew looks as well as ever, so the page says how old it is.
function tellAge(text) {
  const said = document.getElementById("age");
  if (said.textContent !== text) said.textContent = text; // a screen reader reads each change
}
for (const kind of ["htmx:sendError", "htmx:responseError"]) {
  document.addEventListener(kind, (event) => {
    const { status } = event.detail.xhr;
    const why = status ? `The console answers with the error ${status}` : "The console does not answer";
    tellAge(`${why}. What is shown here is of ${exact.format(renewedAt)}.`);
  });
}
document.addEventListener("htmx:afterSwap", () => {
  renewedAt = new Date();
  tellAge("");
  localTimes(document); // now, not after htmx has settled: each moment would be seen in UTC before
});

// Silence is news as well: a worker that has died changes nothing in the store.
window.setInterval(renew, RENEW_MS);

document.addEventListener("DOMContentLoaded", () => {
  localTimes(document);
  reachable(document);
  for (const one of document.querySelectorAll("[data-script]")) one.hidden = false;
  for (const one of document.querySelectorAll("[data-plain]")) one.hidden = true;
  follow();
});
document.addEventListener("toggle", (event) => reachable(event.target), true);
window.addEventListener("pageshow", (event) => { if (event.persisted) window.location.reload(); });
