// The timeline of a profiled step: a row for each thread of a device, a bar for
// each node that ran.
import {ask, bytes, canvas, colourOf, element, hideTip, micros, nothing, number, problem, setting_select, showTip, stepSlider, ticks, theme, variable} from "./common.js";

const kLeft = 190, kTop = 30, kRow = 22, kHead = 22;
let view = null, data = null, shown = "", wanted = null, plot = null, range = null, colours = null;
let slider = null, select = null, body = null, hit = null, chosen = null;

const choices = log => log.tags("profiles").flatMap(([tag, of]) => of.map(x => ({tag, ...x})));
const shortDevice = d => d.replace(/^\/job:localhost\/replica:0\/task:0/, "").replace(/^\/replica:0/, "").replace(/\/device:/, " ").replace(/^\//, "").trim() || "device";

// Rows and the headings of devices, from top to bottom.
function lines() {
  const found = [];
  let device = null;
  for (const row of data.rows) {
    if (row.device !== device) found.push({device: device = row.device, h: kHead});
    found.push({row, h: kRow});
  }
  return found;
}

function draw(c, w, h) {
  if (!data) return;
  range ??= [0, data.us];
  const x = us => kLeft + (us - range[0]) / (range[1] - range[0]) * (w - kLeft - 10);
  const faint = variable("faint"), text = variable("text"), grid = variable("grid");
  c.strokeStyle = grid;
  c.fillStyle = faint;
  c.textAlign = "center";
  for (const t of ticks(range[0], range[1], Math.max(2, (w - kLeft) / 110))) {
    c.beginPath(); c.moveTo(x(t), kTop - 4); c.lineTo(x(t), h); c.stroke();
    c.fillText(micros(t), Math.min(x(t), w - 26), kTop - 12);
  }
  hit = [];
  let y = kTop;
  for (const line of lines()) {
    if (line.device !== undefined) {
      c.textAlign = "left";
      c.fillStyle = text;
      c.font = c.font.replace(/^/, "600 ");
      c.fillText(shortDevice(line.device), 12, y + 15);
      c.font = c.font.replace("600 ", "");
      y += kHead;
      continue;
    }
    c.fillStyle = faint;
    c.textAlign = "left";
    c.fillText(line.row.thread.length > 26 ? line.row.thread.slice(0, 25) + "…" : line.row.thread, 24, y + 15);
    c.save();
    c.beginPath(); c.rect(kLeft, y, w - kLeft - 10, kRow); c.clip();
    let last = -1;
    for (const bar of line.row.bars) {
      const a = x(bar[0]), b = x(bar[0] + bar[1]);
      if (b < kLeft || a > w) continue;
      // (Bars too thin to be told apart are drawn once.)
      if (b - a < .5 && a - last < .5) continue;
      last = a;
      const colour = colours.get(bar[3] || bar[2]);
      c.fillStyle = colour;
      const wide = Math.max(b - a, 1);
      c.globalAlpha = chosen && chosen !== (bar[3] || bar[2]) ? .25 : .9;
      c.fillRect(a, y + 2, wide > 3 ? wide - .6 : wide, kRow - 4);
      c.globalAlpha = 1;
      if (wide > 34) {
        c.fillStyle = theme() === "dark" ? "#0b1118" : "#ffffff";
        const name = bar[2].slice(bar[2].lastIndexOf("/") + 1);
        const room = Math.floor((Math.min(b, w) - Math.max(a, kLeft) - 8) / 6.6);
        c.fillText(name.length > room ? name.slice(0, Math.max(0, room - 1)) + "…" : name, Math.max(a, kLeft) + 4, y + 15);
      }
    }
    c.restore();
    hit.push({y, row: line.row});
    y += kRow;
  }
  plot.dom.x_at = px => range[0] + (px - kLeft) / (w - kLeft - 10) * (range[1] - range[0]);
}

function hover(e) {
  if (!data || !plot.dom.x_at) return;
  const box = plot.dom.getBoundingClientRect(), px = e.clientX - box.left, py = e.clientY - box.top;
  if (e.buttons & 1) {
    pan(-e.movementX / (box.width - kLeft - 10) * (range[1] - range[0]));
    return hideTip();
  }
  const row = hit.find(r => py >= r.y && py < r.y + kRow)?.row, us = plot.dom.x_at(px);
  const near = (range[1] - range[0]) / (box.width - kLeft) * 2;
  const bar = px < kLeft ? null : row?.bars.find(b => us >= b[0] - near && us <= b[0] + b[1] + near);
  if (!bar) return hideTip();
  showTip(e.clientX, e.clientY, element("strong", {}, bar[2]), element("div", {}, bar[3]),
    element("div", {}, `${micros(bar[1])}, from ${micros(bar[0])}`), bar[4] ? element("div", {}, `${bytes(bar[4])} of outputs`) : null);
}

function setRange(a, b) {
  const span = Math.max(b - a, data.us * 1e-6, 1e-3);
  a = Math.max(-data.us * .02, Math.min(a, data.us * 1.02 - span));
  range = [a, a + span];
  plot.redraw();
}
const pan = by => setRange(range[0] + by, range[1] + by);
function zoom(factor, at) {
  const middle = at ?? (range[0] + range[1]) / 2;
  const span = Math.min((range[1] - range[0]) / factor, data.us * 1.04);
  setRange(middle - (middle - range[0]) / (range[1] - range[0]) * span, middle - (middle - range[0]) / (range[1] - range[0]) * span + span);
}

// How long each op took, of all threads.
function table() {
  const by_op = new Map();
  let all = 0;
  for (const row of data.rows)
    for (const [, us, node, op, size] of row.bars) {
      const key = op || node, found = by_op.get(key) ?? {us: 0, n: 0, size: 0};
      found.us += us; ++found.n; found.size += size; all += us;
      by_op.set(key, found);
    }
  const sorted = [...by_op].sort((a, b) => b[1].us - a[1].us);
  colours = new Map(sorted.map(([op], i) => [op, i < 7 ? colourOf(i) : theme() === "dark" ? "#71808f" : "#8a97a5"]));
  return element("table.data", {}, element("thead", {}, element("tr", {},
    element("th", {}, "Op"), element("th.number", {}, "Time"), element("th.number", {}, "Share"), element("th.number", {}, "Runs"), element("th.number", {}, "Outputs"))),
  element("tbody", {}, ...sorted.slice(0, 25).map(([op, v]) => element("tr", {},
    element("td.name", {}, element("button.plain", {type: "button", "aria-pressed": "false", title: "Show where it ran", onclick(e) {
      chosen = chosen === op ? null : op;
      for (const b of e.target.closest("table").querySelectorAll("button")) b.setAttribute("aria-pressed", String(b === e.currentTarget && chosen === op));
      plot.redraw();
    }}, element("i", {style: `display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:7px;background:${colours.get(op)}`}), op)),
    element("td.number", {}, micros(v.us)), element("td.number", {}, number(v.us / all * 100, 3) + "%"),
    element("td.number", {}, v.n.toLocaleString("en")), element("td.number", {}, bytes(v.size))))));
}

async function load(index) {
  const key = `${wanted.run.name}\n${wanted.tag}\n${index}\n${wanted.version}`;
  if (key === shown) return;
  shown = key;
  try {
    const answer = await ask("timeline", [["run", wanted.run.name], ["tag", wanted.tag], ["index", index]]);
    if (key !== shown) return;
    data = answer;
  } catch (e) {
    data = null;
    return body.replaceChildren(problem(`Run ${wanted.run.name}: ${e.message}`));
  }
  range = null;
  chosen = null;
  const ops = table();
  const bars = data.rows.reduce((n, r) => n + r.bars.length, 0);
  const height = kTop + lines().reduce((n, l) => n + l.h, 0) + 10;
  plot = canvas(height, draw, {"aria-label": `Timeline of step ${data.step}: ${bars} nodes on ${data.rows.length} rows in ${micros(data.us)}`,
    "data-bars": bars, "data-rows": data.rows.length});
  plot.dom.addEventListener("mousemove", hover);
  plot.dom.addEventListener("mouseleave", hideTip);
  plot.dom.addEventListener("dblclick", () => { range = null; plot.redraw(); });
  plot.dom.addEventListener("wheel", e => {
    e.preventDefault();
    if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) return pan(e.deltaX / 800 * (range[1] - range[0]));
    zoom(Math.exp(-e.deltaY / 400), plot.dom.x_at(e.clientX - plot.dom.getBoundingClientRect().left));
  }, {passive: false});
  plot.dom.addEventListener("keydown", e => {
    if (e.key === "ArrowLeft" || e.key === "ArrowRight") pan((e.key === "ArrowRight" ? .15 : -.15) * (range[1] - range[0]));
    else if (e.key === "+" || e.key === "-") zoom(e.key === "+" ? 1.5 : 1 / 1.5);
    else if (e.key === "0") { range = null; plot.redraw(); }
    else return;
    e.preventDefault();
  });
  body.replaceChildren(
    element("p.note", {style: "margin-top:10px"}, `${bars.toLocaleString("en")} nodes in ${micros(data.us)}` + (data.left_out ? `; ${data.left_out.toLocaleString("en")} more are left out` : "") + ". Wheel: zoom; drag: move; double click: all."),
    element("div.stage", {style: "margin:8px 0 18px"}, plot.dom),
    element("article.card", {}, element("h3", {}, "Time by op"), ops));
}

export const timeline = {
  name: "timeline", title: "Timeline",
  count: log => choices(log).length,
  show(v, log) { view = v; shown = ""; data = null; wanted = null; body = null; this.update(log); },
  update(log) {
    const all = choices(log);
    if (!all.length) {
      body = null;
      view.replaceChildren(nothing("No profiled step", element("p", {}, "Run a step with trace_level FULL_TRACE and log its RunMetadata: FileWriter.add_run_metadata, EventWriter::AddRunMetadata.")));
      return;
    }
    if (!body) {
      body = element("div");
      select = element("div");
      slider = stepSlider("Step", i => load(i));
      view.replaceChildren(element("div.steps", {}, select, element("div", {style: "flex:1;max-width:420px"}, slider.dom)), body);
    }
    const key = x => `${x.run.name}\n${x.tag}`;
    wanted = all.find(x => wanted && key(x) === key(wanted)) ?? all[0];
    select.replaceChildren(setting_select("Profile", all.map(x => [key(x), `${x.tag} (${x.run.name})`]), key(wanted), v => {
      wanted = all.find(x => key(x) === v);
      this.fetch();
    }));
    this.fetch();
  },
  async fetch() {
    const of = wanted;
    const answer = await ask("values", [["kind", "profiles"], ["run", of.run.name], ["tag", of.tag]]);
    if (of === wanted) slider.set(answer.values);
  },
  hide: hideTip,
};
