"use strict";
// Texts of a session reach the page as textContent only.
const data = JSON.parse(document.getElementById("data").textContent);
const steps = data.steps;
const ROW = 24;
const LABEL = Math.round(Math.min(352, innerWidth / 2));
const MARGIN = 12;
const OVERSCAN = 12;
const PAUSE = 10000;
const WIDEST = 8e6;
const byId = (id) => document.getElementById(id);

function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function drawing(width, height, ...paths) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  for (const [line, name] of paths) {
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", line);
    path.setAttribute("class", name);
    svg.append(path);
  }
  return svg;
}

function duration(ms) {
  if (ms < 1000) return `${ms < 10 ? Math.round(ms * 10) / 10 : Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60000);
  if (minutes < 60) return `${minutes} m ${Math.round((ms % 60000) / 1000)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} m`;
}

const count = (number) => (number ?? 0).toLocaleString("en");
const money = (amount) => (amount == null ? "unknown" : `$${Number(amount.toPrecision(4))}`);
const lasting = (step) => (step.wait ?? 0) + (step.took ?? 0);
const begun = (step) => step.started ?? step.at + (step.wait ?? 0);
const word = (index) => (index == null ? "" : data.words[index]);
const isBad = (step) => step.kind === "error" || (step.kind === "tool" && step.status !== "success");

// Pauses in which nothing ran are shortened on the axis. `from` is where one begins on the axis,
// `cut` the time left out up to its end.
const pauses = [];
let span = 1;
{
  let end = 0;
  let cut = 0;
  for (const step of steps) {
    if (step.at - end > PAUSE) {
      cut += step.at - end - PAUSE / 10;
      pauses.push({ from: step.at - cut, cut, lasted: step.at - end });
    }
    step.x = step.at - cut;
    step.end = Math.max(step.at, begun(step) + (step.took ?? 0));
    end = Math.max(end, step.end);
    span = Math.max(span, end - cut);
  }
}
const removedBefore = (x) => {
  const pause = pauses.findLast((each) => each.from <= x);
  return pause ? pause.cut : 0;
};

document.documentElement.style.setProperty("--label", `${LABEL}px`);

// Header

function fact(list, name, value) {
  if (value) list.append(make("div", {}, make("dt", { textContent: name }), make("dd", { textContent: value })));
}

function showHeader() {
  const { session, totals } = data;
  const begin = new Date(data.begin).toISOString().replace("T", " ").slice(0, 19);
  byId("facts").textContent = [session.sessionId, session.model, `${begin} UTC`, session.project].filter(Boolean).join(" · ");
  for (const problem of data.problems) byId("problems").append(make("li", { textContent: problem }));
  const list = byId("totals");
  fact(list, "model", `${duration(totals.modelTime)} in ${count(totals.requests)} requests`);
  const failed = totals.failedCalls ? ` (${count(totals.failedCalls)} failed)` : "";
  fact(list, "tools", `${duration(totals.toolTime)} in ${count(totals.calls)} calls${failed}`);
  fact(list, "waiting for a person", totals.waiting ? duration(totals.waiting) : "");
  fact(list, "retries", totals.retries ? count(totals.retries) : "");
  fact(list, "tokens", `${count(totals.inputTokens)} in, ${count(totals.outputTokens)} out`);
  fact(list, "cost", money(totals.cost));
}

function showUsage() {
  const asked = steps.filter((step) => step.tokens);
  let tokens = 0;
  let cost = 0;
  const points = asked.map((step) => {
    tokens += step.tokens.prompt + step.tokens.output;
    cost += step.cost ?? 0;
    return [(1000 * (step.x + step.took)) / span, tokens, cost];
  });
  if (!tokens) return;
  const every = Math.ceil(points.length / 500);
  const kept = points.filter((_, index) => index % every === 0 || index === points.length - 1);
  const line = (at, most) =>
    "M0 68" + kept.map((point) => `H${point[0].toFixed(1)}V${(68 - (64 * point[at]) / most).toFixed(1)}`).join("") + "H1000";
  const paths = [[line(1, tokens), "tokens"]];
  const words = [make("span", { className: "tokens", textContent: `tokens: ${count(tokens)}` })];
  if (cost) {
    paths.push([line(2, cost), "cost"]);
    words.push(" · ", make("span", { className: "cost", textContent: `cost: ${money(cost)}` }));
  }
  byId("usage").append(make("h3", {}, "Over time: ", ...words), drawing(1000, 70, ...paths));
}

// Lanes: one strip for the session and one for each subagent; its button shows only its steps.

let chosenLane = null;

function showLanes() {
  if (data.lanes.length < 2) return;
  byId("lanes").append(make("h3", { textContent: "Lanes" }));
  const busy = data.lanes.map(() => new Uint8Array(1000));
  for (const step of steps) {
    const from = Math.floor((999 * step.x) / span);
    const to = Math.ceil((999 * (step.x + step.end - step.at)) / span);
    busy[step.lane ?? 0].fill(1, from, to + 1);
  }
  data.lanes.forEach((name, lane) => {
    let line = "";
    for (let from = 0; from < 1000; from += 1) {
      if (!busy[lane][from]) continue;
      let to = from;
      while (busy[lane][to]) to += 1;
      line += `M${from} 7H${to}`;
      from = to;
    }
    const button = make("button", { type: "button", textContent: name, title: name, "aria-pressed": "false" });
    button.addEventListener("click", () => {
      chosenLane = chosenLane === lane ? null : lane;
      for (const each of byId("lanes").querySelectorAll("button")) each.setAttribute("aria-pressed", String(each === button && chosenLane !== null));
      search();
    });
    byId("lanes").append(make("div", { className: "lane" }, button, drawing(1000, 14, [line, ""])));
  });
}

// The list: only the rows in sight are in the document.

const list = byId("list");
const rows = byId("rows");
let shown = steps.map((_, index) => index);
let scale = 1;
let opened = null;

function zoom() {
  const room = Math.max(200, list.clientWidth - LABEL - 2 * MARGIN);
  const most = Math.max(50, Math.min(2 * span, WIDEST) / room);
  const middle = (list.scrollLeft + room / 2) / scale;
  scale = (room / span) * most ** (byId("zoom").value / 100);
  rows.style.width = `${LABEL + span * scale + 2 * MARGIN}px`;
  list.scrollLeft = middle * scale - room / 2;
  rows.replaceChildren();
  draw();
}

function bar(from, lasted, name) {
  const element = make("div", { className: name });
  element.style.left = `${LABEL + MARGIN + from * scale}px`;
  element.style.width = `${lasted * scale}px`;
  return element;
}

function row(place) {
  const index = shown[place];
  const step = steps[index];
  const button = make("button", { type: "button", "aria-expanded": String(opened === index) });
  button.append(
    make("b", { textContent: step.kind === "retry" || step.kind === "error" ? `${step.kind} ${step.name}` : step.name }),
    make("span", { className: "text", dir: "auto", textContent: (step.text ?? "").slice(0, 200) }),
    make("span", { className: "took", textContent: lasting(step) ? duration(lasting(step)) : "" }),
  );
  const element = make("div", { className: `row ${step.kind}` }, button);
  element.classList.toggle("bad", isBad(step));
  element.classList.toggle("inner", Boolean(step.lane));
  element.classList.toggle("open", opened === index);
  element.dataset.place = place;
  element.title = step.lane ? data.lanes[step.lane] : "";
  element.style.top = `${place * ROW}px`;
  if (step.wait) element.append(bar(step.x, step.wait, "bar wait"));
  element.append(bar(step.x + begun(step) - step.at, step.took ?? 0, "bar"));
  return element;
}

function draw() {
  rows.style.height = `${shown.length * ROW}px`;
  const first = Math.max(0, Math.floor(list.scrollTop / ROW) - OVERSCAN);
  const last = Math.min(shown.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + OVERSCAN);
  const wanted = new Set();
  for (let place = first; place < last; place += 1) wanted.add(place);
  const held = rows.contains(document.activeElement) ? document.activeElement.closest(".row") : null;
  for (const element of [...rows.children]) {
    if (element !== held && !wanted.has(Number(element.dataset.place))) element.remove();
  }
  let next = rows.firstElementChild;
  for (const place of wanted) {
    while (next && Number(next.dataset.place) < place) next = next.nextElementSibling;
    if (!next || Number(next.dataset.place) !== place) rows.insertBefore(row(place), next);
  }
  drawAxis();
}

function drawAxis() {
  const axis = byId("axis");
  axis.style.width = rows.style.width;
  const from = Math.max(0, (list.scrollLeft - MARGIN) / scale);
  const to = Math.min(span, (list.scrollLeft + list.clientWidth - LABEL) / scale);
  const least = 90 / scale;
  const power = 10 ** Math.floor(Math.log10(least));
  const distance = power * [1, 2, 5, 10].find((factor) => factor * power >= least);
  const labels = [make("div", { className: "corner" })];
  const place = (x, text, name) => {
    const label = make("span", { className: name, textContent: text });
    label.style.left = `${LABEL + MARGIN + x * scale}px`;
    labels.push(label);
  };
  for (let x = Math.ceil(from / distance) * distance; x <= to; x += distance) place(x, duration(x + removedBefore(x)), "");
  for (const pause of pauses) {
    if (pause.from >= from && pause.from <= to) place(pause.from - PAUSE / 10, `pause of ${duration(pause.lasted)}`, "pause");
  }
  axis.replaceChildren(...labels);
}

// Details of a step

function block(parent, heading, text, name = "pre") {
  if (!text) return;
  const body = name === "diff" ? diff(text) : make("pre", { textContent: text, dir: "auto" });
  parent.append(make("h3", { textContent: heading }), body);
}

function diff(text) {
  const body = make("pre");
  for (const line of text.replace(/\n$/, "").split("\n")) {
    const name = line.startsWith("+") ? "added" : line.startsWith("-") ? "removed" : "";
    body.append(make("span", { className: name, textContent: `${line}\n` }));
  }
  return body;
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text; // it was cut
  }
}

function facts(step) {
  const list = make("dl", { className: "facts" });
  const add = (name, value) => {
    if (value) list.append(make("dt", { textContent: name }), make("dd", { textContent: value, dir: "auto" }));
  };
  add("status", step.status);
  add("decision", step.decision);
  add("reason", word(step.reason));
  add("rule", word(step.rule));
  add("at", duration(step.at));
  add("took", step.took ? duration(step.took) : "");
  add("waited for a person", step.wait ? duration(step.wait) : "");
  add("agent", data.lanes.length > 1 ? data.lanes[step.lane ?? 0] : "");
  if (step.tokens) add("tokens", `${count(step.tokens.prompt)} in (${count(step.tokens.cached)} cached), ${count(step.tokens.output)} out`);
  if (step.kind === "model") add("cost", money(step.cost));
  add("call", step.callId);
  return list;
}

function content(parent, step) {
  block(parent, step.kind === "tool" ? "Description" : "Text", step.text);
  block(parent, "Arguments", step.args && pretty(step.args));
  block(parent, "Arguments as the model proposed them", step.proposedArgs && pretty(step.proposedArgs));
  block(parent, "Diff", step.diff, "diff");
  block(parent, "Result", step.result);
}

function open(index, byKeyboard) {
  close();
  opened = index;
  const step = steps[index];
  const panel = byId("details");
  const heading = make("h2", { id: "details-heading", tabIndex: -1, textContent: step.name });
  const button = make("button", { type: "button", textContent: "Close" });
  button.addEventListener("click", () => close(true));
  panel.replaceChildren(make("header", {}, heading, button), facts(step));
  content(panel, step);
  panel.hidden = false;
  panel.scrollTop = 0;
  mark();
  if (byKeyboard) heading.focus();
}

function mark() {
  for (const element of rows.children) {
    const isOpen = shown[element.dataset.place] === opened;
    element.classList.toggle("open", isOpen);
    element.querySelector("button").setAttribute("aria-expanded", String(isOpen));
  }
}

function close(back = false) {
  if (opened === null) return;
  const place = shown.indexOf(opened);
  opened = null;
  byId("details").hidden = true;
  mark();
  if (back) rows.querySelector(`[data-place="${place}"] button`)?.focus();
}

// Search

const texts = new Map();

function textOf(index) {
  if (!texts.has(index)) {
    const step = steps[index];
    const parts = [step.kind, step.name, step.status, step.decision, step.text, step.args, step.result, step.diff, word(step.reason), data.lanes[step.lane ?? 0]];
    texts.set(index, parts.join("\n").toLowerCase());
  }
  return texts.get(index);
}

function search() {
  const query = byId("search").value.trim().toLowerCase();
  shown = [];
  steps.forEach((step, index) => {
    if (chosenLane !== null && (step.lane ?? 0) !== chosenLane) return;
    if (!query || textOf(index).includes(query)) shown.push(index);
  });
  let said = 0;
  for (const article of byId("conversation").querySelectorAll("article")) {
    article.hidden = query !== "" && !article.textContent.toLowerCase().includes(query);
    said += article.hidden ? 0 : 1;
  }
  const number = byId("timeline").hidden ? said : shown.length;
  byId("found").textContent = query || chosenLane !== null ? `${count(number)} found` : "";
  list.scrollTop = 0;
  rows.replaceChildren();
  draw();
}

// The conversation: an item is the position of a step, or [role, heading, time, text].

function article(item) {
  const step = steps[item];
  if (!step) {
    const [role, heading, at, text] = item;
    const title = make("h3", {}, make("span", { textContent: `${heading} ` }), make("small", { textContent: at }));
    return make("article", { className: role }, title, make("pre", { textContent: text, dir: "auto" }));
  }
  const at = new Date(data.begin + step.at).toISOString();
  if (step.kind !== "tool") {
    const who = step.kind === "prompt" ? "User" : "Model";
    const title = make("h3", {}, make("span", { textContent: `${who} ` }), make("small", { textContent: at }));
    return make("article", { className: step.kind }, title, make("pre", { textContent: step.text, dir: "auto" }));
  }
  const summary = make("summary", { textContent: `${step.name} ${(step.text ?? "").slice(0, 200)}` });
  const body = make("details", {}, summary, facts(step));
  content(body, step);
  const name = isBad(step) ? "call bad" : "call";
  return make("article", { className: name }, body);
}

function* conversation() {
  for (const item of data.talk) yield article(item);
  if (data.earlier.length) {
    yield make("h2", { textContent: "Not part of the conversation any more" });
    for (const item of data.earlier) yield article(item);
  }
}

let rest = null;

function fill() {
  const batch = [];
  for (let number = 0; number < 200; number += 1) {
    const item = rest.next();
    if (item.done) break;
    batch.push(item.value);
  }
  byId("conversation").append(...batch);
  if (batch.length === 200) setTimeout(fill, 0);
  else if (byId("search").value) search();
}

function view(name) {
  for (const each of ["timeline", "conversation"]) {
    byId(each).hidden = each !== name;
    byId(`show-${each}`).setAttribute("aria-pressed", String(each === name));
  }
  byId("zoom-label").hidden = name !== "timeline";
  if (name === "conversation" && !rest) {
    rest = conversation();
    fill();
  } else if (name === "timeline") {
    zoom();
  }
}

list.addEventListener("scroll", draw);
rows.addEventListener("click", (event) => {
  const element = event.target.closest(".row");
  if (element) open(shown[element.dataset.place], event.detail === 0);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") close(true);
});
byId("zoom").addEventListener("input", zoom);
byId("search").addEventListener("input", search);
window.addEventListener("resize", zoom);
window.addEventListener("beforeprint", () => {
  for (const each of document.querySelectorAll("details")) each.open = true;
});
for (const each of ["timeline", "conversation"]) byId(`show-${each}`).addEventListener("click", () => view(each));

showHeader();
showUsage();
showLanes();
view(data.view);
