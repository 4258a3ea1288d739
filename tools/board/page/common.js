// What all tabs share: elements, numbers, colours, settings, requests.

// element("div.card", {title: "x", onclick: f}, child, "text", ...)
export function element(what, attributes = {}, ...children) {
  const [tag, ...classes] = what.split(".");
  const e = document.createElement(tag);
  if (classes.length) e.className = classes.join(" ");
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else e.setAttribute(name, value === true ? "" : value);
  }
  e.append(...children.filter(c => c !== null && c !== undefined));
  return e;
}

export function svgElement(tag, attributes = {}, ...children) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes))
    if (value !== undefined && value !== null) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

// ---- Numbers ----------------------------------------------------------------

const kPrefixes = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

// "0.0213", "12.5k", "3.1e-7".
export function number(v, digits = 4) {
  if (typeof v === "string") return v;
  if (v === null || v === undefined) return "";
  const a = Math.abs(v);
  if (a === 0) return "0";
  if (a >= 1e15 || a < 1e-4)
    return v.toExponential(Math.max(0, digits - 2)).replace(/\.?0+e/, "e");
  for (const [size, prefix] of kPrefixes)
    if (a >= size * 10 || (a >= size && size > 1e3))
      return trim((v / size).toPrecision(digits)) + prefix;
  return Number.isInteger(v) ? String(v) : trim(v.toPrecision(digits));
}
const trim = s => s.includes(".") && !s.includes("e") ? s.replace(/\.?0+$/, "") : s;

// "1.2 ms" of microseconds.
export function micros(us) {
  if (us >= 1e6) return number(us / 1e6, 3) + " s";
  if (us >= 1e3) return number(us / 1e3, 3) + " ms";
  return us >= 1 || us === 0 ? number(us, 3) + " µs" : number(us * 1e3, 3) + " ns";
}
export function bytes(n) {
  for (const [size, unit] of [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [1024, "KiB"]])
    if (n >= size) return number(n / size, 3) + " " + unit;
  return n + " B";
}
export function duration(seconds) {
  if (seconds < 60) return number(seconds, 3) + " s";
  if (seconds < 3600) return number(seconds / 60, 3) + " min";
  return number(seconds / 3600, 3) + " h";
}
export const dateOf = wall => new Date(wall * 1000).toLocaleString();

// About n round values from low to high.
export function ticks(low, high, n) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(span / n));
  const step = [1, 2, 5, 10].map(f => f * power).find(s => span / s <= n) ?? 10 * power;
  const found = [];
  for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; ++i)
    found.push(Number((i * step).toPrecision(12)));
  return found;
}

// ---- Colours ----------------------------------------------------------------

// After Okabe and Ito, who chose them to differ for all kinds of colour vision;
// the dark ground's are brighter.
const kColours = {
  light: ["#0072b2", "#d55e00", "#009e73", "#b6498e", "#c98a00", "#3a9bd1", "#4b4b4b"],
  dark: ["#56b4e9", "#ff8a4c", "#35d0a2", "#e79ac6", "#f0bd4a", "#9db4ff", "#d8d8d8"],
};
const kDashes = [null, [7, 3], [2, 3], [9, 3, 2, 3]];
export const theme = () => document.documentElement.dataset.theme;
export const colourOf = i => kColours[theme()][i % 7];
export const dashOf = i => kDashes[Math.floor(i / 7) % 4];
export const variable = name =>
  getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
// A colour from little to much, f from 0 to 1: lightness alone tells it.
export function heat(f) {
  const low = theme() === "dark" ? [24, 32, 40] : [255, 255, 255];
  const mid = theme() === "dark" ? [30, 110, 170] : [86, 160, 211];
  const high = theme() === "dark" ? [255, 226, 140] : [8, 32, 84];
  const [a, b, t] = f < .5 ? [low, mid, f * 2] : [mid, high, f * 2 - 1];
  return `rgb(${a.map((x, i) => Math.round(x + (b[i] - x) * t)).join()})`;
}

// ---- Settings: kept by the browser, or given after # in the address ---------

const given = new URLSearchParams(location.hash.slice(1));
let kept = {};
try { kept = JSON.parse(localStorage.getItem("sluice-board") ?? "{}"); } catch { /* None. */ }
export function setting(name, otherwise) {
  if (given.has(name)) return given.get(name);
  return kept[name] ?? otherwise;
}
export function keep(name, value) {
  given.delete(name);
  kept[name] = value;
  try { localStorage.setItem("sluice-board", JSON.stringify(kept)); } catch { /* Private. */ }
}

// ---- Requests ---------------------------------------------------------------

// parameters: [[name, value], ...]
export const address = (path, parameters) =>
  `/api/${path}?${new URLSearchParams(parameters)}`;
export async function ask(path, parameters = []) {
  const response = await fetch(address(path, parameters));
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.error ?? response.statusText);
  return answer;
}

// ---- Parts of pages ---------------------------------------------------------

// A regular expression, or null if it is none.
export function pattern(text) {
  try { return new RegExp(text, "i"); } catch { return null; }
}

const tip = element("div.tip", {hidden: true});
export function showTip(x, y, ...content) {
  if (!tip.isConnected) document.body.append(tip);
  tip.replaceChildren(...content);
  tip.hidden = false;
  const {width, height} = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, x + 16 + width > innerWidth ? x - width - 12 : x + 16) + "px";
  tip.style.top = Math.max(4, Math.min(y + 14, innerHeight - height - 6)) + "px";
}
export const hideTip = () => { tip.hidden = true; };

// A slider over the values of a tag. change(index) is called at once and for
// each move. Stays at the end while values are added, if it is there.
export function stepSlider(label, change) {
  const output = element("output");
  const input = element("input", {type: "range", min: 0, max: 0, value: 0, "aria-label": label});
  let values = [];
  const show = () => {
    const v = values[input.value];
    output.textContent = v ? `step ${v.step.toLocaleString("en")}` : "";
    output.title = v ? dateOf(v.wall) : "";
    if (v) change(Number(input.value), v);
  };
  input.addEventListener("input", show);
  return {
    dom: element("div.steps", {}, input, output),
    set(now) {
      const at_end = Number(input.value) >= values.length - 1;
      values = now;
      input.max = values.length - 1;
      if (at_end) input.value = values.length - 1;
      input.disabled = values.length < 2;
      show();
    },
  };
}

// A canvas that is as sharp as the screen: draw(context, width, height) is
// called when it is seen, resized, or told.
export function canvas(height, draw, attributes = {}) {
  const c = element("canvas", {tabindex: 0, role: "img", ...attributes});
  if (height) c.style.height = height + "px";
  const redraw = () => {
    const {width: w, height: h} = c.getBoundingClientRect();
    if (w === 0 || h === 0) return;
    const ratio = devicePixelRatio || 1;
    c.width = Math.round(w * ratio);
    c.height = Math.round(h * ratio);
    const context = c.getContext("2d");
    context.scale(ratio, ratio);
    context.font = '12px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
    draw(context, w, h);
  };
  new ResizeObserver(redraw).observe(c);
  return {dom: c, redraw};
}

// Calls seen() once, when the element first comes near to the screen.
export function whenSeen(e, seen) {
  const observer = new IntersectionObserver(entries => {
    if (!entries.some(x => x.isIntersecting)) return;
    observer.disconnect();
    seen();
  }, {rootMargin: "300px"});
  observer.observe(e);
}

export function setting_choice(label, name, choices, otherwise, change) {
  const now = () => setting(name, otherwise);
  const buttons = choices.map(([value, text]) => element("button", {
    type: "button", "aria-pressed": String(now() === value),
    onclick() {
      keep(name, value);
      buttons.forEach((b, i) => b.setAttribute("aria-pressed", String(choices[i][0] === value)));
      change();
    }}, text));
  return element("div.setting", {role: "group", "aria-label": label},
    element("span", {}, label), element("div.choice", {}, ...buttons));
}
export function setting_check(label, name, otherwise, change) {
  const input = element("input", {type: "checkbox"});
  input.checked = String(setting(name, otherwise)) === "true";
  input.addEventListener("change", () => { keep(name, input.checked); change(); });
  return element("label.check", {}, input, label);
}
export function setting_select(label, options, value, change) {
  const select = element("select", {"aria-label": label, onchange: () => change(select.value)},
    ...options.map(([v, text]) => element("option", {value: v}, text)));
  select.value = value;
  return element("div.setting", {}, element("span", {}, label), select);
}
export function setting_pattern(label, name, change) {
  const input = element("input", {type: "search", placeholder: label, "aria-label": label, spellcheck: "false"});
  input.value = setting(name, "");
  input.addEventListener("input", () => {
    input.setAttribute("aria-invalid", String(pattern(input.value) === null));
    if (pattern(input.value) === null) return;
    keep(name, input.value);
    change();
  });
  return element("div.setting", {}, input);
}

export function nothing(title, ...text) {
  return element("div.nothing", {}, element("h2", {}, title), ...text);
}
export const problem = text => element("div.problem", {}, text);
