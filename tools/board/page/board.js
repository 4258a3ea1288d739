// The frame of the page: tabs, runs, settings, and the look for new values.
import {ask, colourOf, dashOf, element, keep, nothing, pattern, problem, setting, theme} from "./common.js";
import {scalars} from "./scalars.js";
import {histograms} from "./histograms.js";
import {images, audio, text} from "./media.js";
import {projector} from "./projector.js";
import {graph} from "./graph.js";
import {timeline} from "./timeline.js";

// A tab: {name, title, count(state): how much there is, settings(change): an
// element, show(view, log): shows, update(log): new values or other runs}.
const kTabs = [scalars, histograms, images, audio, text, projector, graph, timeline];
const kPollMs = 2000;

const $ = id => document.getElementById(id);

// Errors are shown, and counted where a test finds them.
document.body.dataset.errors = 0;
function report(message) {
  document.body.dataset.errors = Number(document.body.dataset.errors) + 1;
  $("problems").append(problem(`The page failed: ${message}`));
}
addEventListener("error", e => report(e.message ?? `cannot load ${e.target?.src ?? e.target?.href}`), true);
addEventListener("unhandledrejection", e => report(e.reason?.message ?? e.reason));
addEventListener("securitypolicyviolation", e => report(`refused ${e.blockedURI}`));

// What the tabs see.
const log = {
  state: {runs: [], version: 0, loading: true, problem: ""},
  // The runs that are shown, with "colour" and "dash".
  chosen: [],
  // [[tag, {run, version}...]] of a kind, sorted; only of chosen runs.
  tags(kind, filter = "") {
    const found = new Map(), wanted = pattern(filter) ?? /^/;
    for (const run of this.chosen)
      for (const [tag, about] of Object.entries(run.tags[kind] ?? {})) {
        if (!wanted.test(tag)) continue;
        if (!found.has(tag)) found.set(tag, []);
        found.get(tag).push({run, ...about});
      }
    return [...found].sort((a, b) => a[0].localeCompare(b[0], "en", {numeric: true}));
  },
};

// ---- Tabs -------------------------------------------------------------------

let current = null;

function select(tab) {
  if (current?.hide) current.hide();
  current = tab;
  keep("tab", tab.name);
  for (const b of $("tabs").children) {
    const is_it = b.dataset.name === tab.name;
    b.setAttribute("aria-selected", String(is_it));
    b.tabIndex = is_it ? 0 : -1;
  }
  $("settings").replaceChildren(...(tab.settings ? tab.settings(() => tab.update(log)) : []));
  show();
}

function show() {
  const {state} = log;
  if (state.problem || (state.runs.length === 0 && !state.loading)) {
    $("view").replaceChildren(nothing(
      state.problem ? "Nothing to show" : "No event files yet",
      element("p", {}, state.problem || `There are none below ${state.folder}. They appear here once a program writes some:`),
      element("pre", {}, 'auto log = *EventWriter::Open("' + (state.folder || "logs") + '/run1");\nlog->AddScalar("loss", loss, step);')));
    $("view").dataset.tab = "";
    return;
  }
  $("view").replaceChildren();
  $("view").dataset.tab = current.name;
  current.show($("view"), log);
}

function makeTabs() {
  for (const tab of kTabs)
    $("tabs").append(element("button", {type: "button", role: "tab", "data-name": tab.name,
      onclick: () => select(tab)}, tab.title, " ", element("span.count")));
  $("tabs").addEventListener("keydown", e => {
    const by = {ArrowRight: 1, ArrowLeft: -1}[e.key];
    if (!by) return;
    const i = kTabs.indexOf(current);
    const next = kTabs[(i + by + kTabs.length) % kTabs.length];
    select(next);
    $("tabs").querySelector(`[data-name=${next.name}]`).focus();
  });
}

// ---- Runs -------------------------------------------------------------------

const hidden = () => new Set(setting("hidden_runs", []));

function chooseRuns() {
  const off = hidden();
  log.state.runs.forEach((r, i) => { r.colour = colourOf(i); r.dash = dashOf(i); });
  log.chosen = log.state.runs.filter(r => !off.has(r.name));
}

function showRuns() {
  const wanted = pattern($("run-filter").value);
  $("run-filter").setAttribute("aria-invalid", String(wanted === null));
  const off = hidden();
  const list = log.state.runs.filter(r => !wanted || wanted.test(r.name));
  $("run-count").textContent = log.state.runs.length || "";
  $("runs").replaceChildren(...list.map(r => {
    const box = element("input", {type: "checkbox"});
    box.checked = !off.has(r.name);
    box.addEventListener("change", () => setHidden(h => box.checked ? h.delete(r.name) : h.add(r.name)));
    return element("li", {}, element("label", {title: `${r.files} file${r.files === 1 ? "" : "s"}`}, box,
      element("span.swatch", {style: `background:${r.colour}`}),
      element("span.name", {}, r.name),
      element("span.step", {}, r.last_step ? r.last_step.toLocaleString("en") : "")));
  }));
}

function setHidden(change) {
  const off = hidden();
  change(off);
  keep("hidden_runs", [...off]);
  chooseRuns();
  showRuns();
  countTabs();
  current.update(log);
}

function countTabs() {
  kTabs.forEach((tab, i) => {
    const n = tab.count(log);
    $("tabs").children[i].lastChild.textContent = n || "";
  });
}

// ---- New values -------------------------------------------------------------

async function poll() {
  const first = log.state.version === 0;
  try {
    const state = await ask("state", first ? [] : [["version", log.state.version]]);
    $("live").className = state.loading ?? log.state.loading ? "loading" : "";
    $("live").textContent = state.loading ?? log.state.loading ? "Loading" : "Live";
    if (!state.runs) return;  // Nothing is new.
    const was_empty = log.state.runs.length === 0;
    log.state = state;
    document.body.dataset.updates = Number(document.body.dataset.updates ?? 0) + 1;
    chooseRuns();
    showRuns();
    countTabs();
    $("folder").textContent = state.folder;
    $("problems").replaceChildren(
      ...state.runs.flatMap(r => r.problems.map(p => problem(`Run ${r.name}: ${p}`))));
    if (first) {
      const wanted = setting("tab", "scalars");
      select(kTabs.find(t => t.name === wanted) ?? kTabs[0]);
    } else if (was_empty || state.problem || state.runs.length === 0) {
      show();
    } else {
      current.update(log);
    }
  } catch (e) {
    if (!(e instanceof TypeError && /fetch/i.test(e.message))) throw e;
    $("live").className = "lost";
    $("live").textContent = "The server does not answer";
  }
}

async function pollForever() {
  try {
    if (!document.hidden) await poll();
  } finally {
    setTimeout(pollForever, kPollMs);
  }
}

// ---- Light and dark ---------------------------------------------------------

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  $("theme").textContent = name === "dark" ? "☀" : "☾";
}
const system = matchMedia("(prefers-color-scheme: dark)");
const wantedTheme = () => setting("theme", "") || (system.matches ? "dark" : "light");
function changeTheme() {
  setTheme(wantedTheme());
  if (!current) return;
  chooseRuns();
  showRuns();
  show();
}
function switchTheme() {
  keep("theme", theme() === "dark" ? "light" : "dark");
  changeTheme();
}

setTheme(wantedTheme());
system.addEventListener("change", changeTheme);
$("theme").addEventListener("click", switchTheme);
addEventListener("keydown", e => {
  if (e.target.matches("input, select, textarea") || e.ctrlKey || e.metaKey || e.altKey) return;
  if (e.key === "t") switchTheme();
});
$("run-filter").addEventListener("input", showRuns);
const visible = () => log.state.runs.filter(r => pattern($("run-filter").value)?.test(r.name));
$("all-runs").addEventListener("click", () => setHidden(h => visible().forEach(r => h.delete(r.name))));
$("no-runs").addEventListener("click", () => setHidden(h => visible().forEach(r => h.add(r.name))));
makeTabs();
pollForever();
