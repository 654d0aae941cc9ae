// What pages do beyond plain HTML: they refresh while they are looked at, draw charts, tell how long
// ago something was, take keys on "Label next" and "Suspects", and say what went wrong.
"use strict";

const REFRESH_SECONDS = 2;

const all = (selector, root = document) => [...root.querySelectorAll(selector)];

// ------------------------------------------------------------------------------ refreshing
function refresh() {
  if (document.visibilityState === "visible") {
    htmx.trigger(document.body, "refresh");
    drawGrowth();
    tellAgo();
  }
}

setInterval(refresh, REFRESH_SECONDS * 1000);
document.addEventListener("visibilitychange", refresh);

// Somebody who is about to press a button in a piece of the page should not have it replaced, unless
// htmx gives the focus to the same one again.
document.addEventListener("htmx:beforeSwap", (event) => {
  const isPoll = event.detail.requestConfig?.triggeringEvent?.type === "refresh";
  const active = document.activeElement;
  const isInside = active && active !== document.body && event.detail.target.contains(active);
  const isUsed = isInside && !active.matches("[data-keeps-focus]");
  if (isPoll && isUsed && active.matches("input, select, textarea, button, a, [tabindex]")) {
    event.detail.shouldSwap = false;
  }
});

// What somebody has opened stays open when a piece of the page comes anew.
const opened = new Set();

document.addEventListener("toggle", ({ target }) => {
  if (target.id) opened[target.open ? "add" : "delete"](target.id);
}, true);

document.addEventListener("htmx:afterSwap", ({ target }) => {
  for (const each of all("details[id]", target)) each.open ||= opened.has(each.id);
});

// ---------------------------------------------------------------------------------- times
const UNITS = [["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];
const relative = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

function tellAgo(root = document) {
  for (const each of all("time[data-ago]", root)) {
    const seconds = (Date.parse(each.dateTime) - Date.now()) / 1000;
    const [unit, size] = UNITS.find(([, size]) => Math.abs(seconds) >= size) ?? ["second", 1];
    const text = relative.format(Math.round(seconds / size), unit);
    if (each.textContent !== text) each.textContent = text;
  }
}

// --------------------------------------------------------------------------------- charts
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

function axes(overrides = [{}, {}]) {
  return overrides.map((each) => ({
    stroke: color("--soft"),
    grid: { stroke: color("--line"), width: 1 },
    ticks: { stroke: color("--line"), width: 1 },
    ...each,
  }));
}

const LEGEND_HEIGHT = 40;

const size = (element) => ({
  width: element.clientWidth,
  height: element.clientHeight - (element.matches(".small") ? 0 : LEGEND_HEIGHT),
});

const charts = new Map();

function chart(element, options, data) {
  const known = charts.get(element);
  if (known) {
    known.setData(data);
    return;
  }
  const made = new uPlot({ ...size(element), ...options }, data, element);
  charts.set(element, made);
  new ResizeObserver(() => charts.get(element) === made && made.setSize(size(element))).observe(element);
}

const grown = new Map();

async function drawGrowth() {
  for (const element of all("[data-growth]")) {
    if (grown.get(element) > Date.now() - 4500) continue;
    grown.set(element, Date.now());
    const answer = await fetch(element.dataset.growth);
    if (!answer.ok) continue;
    const { at, seen, kept, buffer } = await answer.json();
    if (at.length === 0) {
      element.textContent = "No ingest has been noted yet.";
      continue;
    }
    const values = (u, ticks) => ticks.map((tick) => short.format(tick));
    chart(element, {
      scales: { y: { range: (u, low, high) => [0, high * 1.05 || 1] } },
      axes: axes([{}, { values, size: 60 }]),
      series: [
        {},
        { label: "edges seen", stroke: color("--class-1"), width: 2 },
        { label: "edges kept", stroke: color("--class-3"), width: 2 },
        { label: "in the buffer", stroke: color("--soft"), width: 1, dash: [4, 4] },
      ],
    }, [at, seen, kept, buffer]);
  }
}

function drawBins(root = document) {
  for (const element of all("[data-bins]", root)) {
    if (charts.has(element)) continue;
    const bins = JSON.parse(element.dataset.bins);
    const edges = JSON.parse(element.dataset.edges);
    const middles = bins.map((_, place) => (edges[place] + edges[place + 1]) / 2);
    const values = (u, ticks) => ticks.map((tick) => short.format(tick));
    chart(element, {
      legend: { show: false },
      cursor: { show: false },
      scales: { x: { time: false, range: [edges[0], edges.at(-1)] }, y: { range: (u, low, high) => [0, high || 1] } },
      axes: axes([{}, { values, size: 60 }]),
      series: [
        {},
        {
          label: "nodes",
          stroke: color("--accent"),
          fill: color("--accent-soft"),
          paths: uPlot.paths.bars({ size: [0.95, 100] }),
          points: { show: false },
        },
      ],
    }, [middles, bins]);
  }
}

function drawCurves(root = document) {
  for (const element of all("[data-curve]", root)) {
    if (charts.has(element)) continue;
    const [answered, error, greatest] = ["curve", "error", "greatest"].map((name) => JSON.parse(element.dataset[name]));
    const allowed = Number(element.dataset.allowed);
    const top = Math.min(1, 1.5 * Math.max(allowed, ...error));
    const values = (u, ticks) => ticks.map((tick) => `${Math.round(1000 * tick) / 10} %`);
    chart(element, {
      legend: { show: false },
      cursor: { show: false },
      scales: { x: { time: false, range: [0, 1] }, y: { range: [0, top] } },
      axes: axes([{ values }, { values, size: 60 }]),
      series: [
        {},
        { stroke: color("--class-1"), width: 2, points: { show: false } },
        { stroke: color("--class-3"), width: 2, dash: [7, 5], points: { show: false } },
        { stroke: color("--soft"), width: 1, points: { show: false } },
      ],
    }, [answered, error, greatest, answered.map(() => allowed)]);
  }
}

document.addEventListener("htmx:beforeCleanupElement", (event) => {
  charts.get(event.target)?.destroy();
  charts.delete(event.target);
});

// charts anew in the other colours; a page that came anew would lose what was typed
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const made of charts.values()) made.destroy();
  charts.clear();
  grown.clear();
  drawBins();
  drawCurves();
  drawGrowth();
});

// ---------------------------------------------------------------------------- label next
const skipped = [];

let isCardBusy = false; // a key that is pressed before the next node is seen is not for that node

const isCard = (event) => event.detail.target?.id === "card";

document.addEventListener("htmx:beforeRequest", (event) => { isCardBusy ||= isCard(event); });
document.addEventListener("htmx:afterSettle", (event) => { if (isCard(event)) isCardBusy = false; });
document.addEventListener("htmx:afterRequest", (event) => { if (isCard(event)) isCardBusy = false; });

function typing(target) {
  return target.matches(`input:not([type="checkbox"]), select, textarea`) || target.isContentEditable;
}

// The row of suspects that a key leads to: j to the next one, k to the one before.
function rowBeside(row, key) {
  if (key === "j") return row ? row.nextElementSibling : document.querySelector("[data-row]");
  return key === "k" && row ? row.previousElementSibling : null;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.repeat) return;
  if (event.key === "Escape" && typing(event.target)) event.target.blur();
  if (typing(event.target)) return;
  if (event.key === "Enter" && event.target.closest("a, button, summary")) return;
  const field = document.querySelector(`[data-key-focus="${CSS.escape(event.key)}"]`);
  const row = event.target.closest("[data-row]");
  const key = `[data-key="${CSS.escape(event.key)}"]`;
  const button = row ? row.querySelector(key) : all(key).find((each) => !each.closest("[data-row]"));
  const next = rowBeside(row, event.key);
  if (next) {
    event.preventDefault();
    next.querySelector("a").focus();
  } else if (field) {
    event.preventDefault();
    field.focus();
  } else if (button && !isCardBusy) {
    event.preventDefault();
    button.click();
  }
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-skip], [data-unskip]");
  if (!button) return;
  if (button.dataset.skip) skipped.push(button.dataset.skip);
  else skipped.length = 0;
  const card = document.querySelector("[data-label-next]");
  htmx.ajax("GET", card.getAttribute("hx-get"), { source: card, target: "#card" });
});

const SKIPPED_KEPT = 150;

document.addEventListener("htmx:configRequest", (event) => {
  if (isCard(event)) {
    event.detail.parameters.skipped = JSON.stringify(skipped.slice(-SKIPPED_KEPT));
  }
});

// -------------------------------------------------------------------------------- uploads
const TYPES = {
  csv: "text/csv", tsv: "text/csv", tab: "text/csv", txt: "text/csv",
  edgelist: "text/csv", edges: "text/csv", el: "text/csv", mtx: "text/csv",
  ndjson: "application/x-ndjson", jsonl: "application/x-ndjson", json: "application/x-ndjson",
  parquet: "application/vnd.apache.parquet", pq: "application/vnd.apache.parquet",
  arrow: "application/vnd.apache.arrow.stream", arrows: "application/vnd.apache.arrow.stream",
  ipc: "application/vnd.apache.arrow.stream", feather: "application/vnd.apache.arrow.stream",
};

const MEBIBYTE = 2 ** 20;
const mebibytes = (bytes) => `${(bytes / MEBIBYTE).toFixed(1)} MiB`;

function typeOf(name) {
  const plain = name.toLowerCase().replace(/\.(gz|zst|zstd|bz2|xz|zip)$/, "");
  return TYPES[plain.split(".").at(-1)];
}

function why(form, file) {
  if (!typeOf(file.name)) return `The name must end with one of ${Object.keys(TYPES).join(", ")}, perhaps with .gz, .zst, .bz2, .xz or .zip behind it.`;
  const most = Number(form.dataset.maxBytes);
  if (file.size > most) return `The file has ${mebibytes(file.size)}, and a page takes ${mebibytes(most)} at most. Have the server read it from a place.`;
  return null;
}

// Files are sent one after another, each to where the answer to the one before leads.
function sendFiles(form, files, search, fail) {
  const [file, ...others] = files;
  const bar = Object.assign(document.createElement("progress"), { max: 1, value: 0, ariaLabel: `Sending ${file.name}` });
  const said = document.createElement("span");
  form.querySelector(".outcome").replaceChildren(bar, " ", said);
  const request = new XMLHttpRequest();
  request.upload.addEventListener("progress", ({ loaded, total }) => {
    bar.value = loaded / total;
    said.textContent = `${file.name}: ${loaded < total ? `${mebibytes(loaded)} of ${mebibytes(total)}` : "looking at it"}`;
    if (loaded === total) bar.removeAttribute("value");
  });
  request.addEventListener("load", () => {
    const elsewhere = request.getResponseHeader("HX-Redirect"); // to sign in
    if (elsewhere) return location.assign(elsewhere);
    try {
      const answer = JSON.parse(request.responseText);
      if (request.status !== 201) fail(others.length ? `${file.name}: ${answer.detail}` : answer.detail);
      else if (others.length) sendFiles(form, others, new URL(answer.location, location.href).search, fail);
      else location.assign(answer.location);
    } catch {
      fail(`The server answered ${request.status}.`);
    }
  });
  request.addEventListener("error", () => fail("The file did not arrive; try again."));
  const address = new URL(form.dataset.upload, location.href);
  address.search = search ?? address.search;
  address.searchParams.set("name", file.name);
  request.open("POST", address);
  request.setRequestHeader("Content-Type", typeOf(file.name));
  request.setRequestHeader("HX-Request", "true");
  request.send(file);
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.dataset.upload) return;
  event.preventDefault();
  const files = [...form.elements.file.files];
  const outcome = form.querySelector(".outcome");
  const button = form.querySelector("button");
  const fail = (text) => {
    button.disabled = false;
    outcome.classList.add("fault");
    outcome.textContent = text;
  };
  const refused = files.map((file) => why(form, file)).find(Boolean);
  if (refused) return fail(refused);
  outcome.classList.remove("fault");
  button.disabled = true;
  sendFiles(form, files, null, fail);
});

// What a form asks for may last: a bar says so until the next page is there.
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (!form.dataset.lasts || event.defaultPrevented) return;
  const bar = Object.assign(document.createElement("progress"), { ariaLabel: form.dataset.lasts });
  const line = document.createElement("p");
  line.className = "busy-line";
  line.role = "status";
  line.append(bar, ` ${form.dataset.lasts}`);
  form.append(line);
  for (const each of all("button", form)) setTimeout(() => { each.disabled = true; }); // sent by then
});

window.addEventListener("pageshow", (event) => {
  if (!event.persisted) return; // back to a page that had sent a form
  for (const each of all("button[disabled]")) each.disabled = false;
  for (const each of all(".busy-line", document)) if (each.closest("form")) each.remove();
});

// --------------------------------------------------------------------------------- faults
function notice(text) {
  const place = document.getElementById("notice");
  place.textContent = text;
  clearTimeout(notice.timer);
  notice.timer = setTimeout(() => { place.textContent = ""; }, 8000);
}

document.addEventListener("htmx:responseError", (event) => {
  let text = `The server answered ${event.detail.xhr.status}.`;
  try {
    text = JSON.parse(event.detail.xhr.responseText).detail;
  } catch { /* not a problem of ours: the status says it */ }
  notice(text);
  const waits = event.detail.target.querySelector(".busy-line"); // it would move for ever
  if (!waits || event.detail.requestConfig.verb !== "get") return;
  waits.className = "";
  waits.setAttribute("role", "alert");
  waits.textContent = text;
});

document.addEventListener("htmx:sendError", () => notice("The server does not answer; trying again."));

// ------------------------------------------------------------------------------ beginning
document.addEventListener("htmx:afterSwap", (event) => {
  tellAgo(event.target);
  drawBins();
  drawCurves();
  const request = event.detail.requestConfig;
  if (event.target.id === "card" && (request.verb === "post" || skipped.length)) {
    event.target.querySelector("[data-focus]")?.focus({ preventScroll: true });
  }
  const row = event.target.closest("[data-row]"); // whose button was pressed and is gone
  if (row && request.verb === "post" && document.activeElement === document.body) {
    row.querySelector("a").focus({ preventScroll: true });
  }
});

document.addEventListener("DOMContentLoaded", () => {
  tellAgo();
  drawBins();
  drawGrowth();
});
