// The rows of a logged matrix, on its first two principal components.
import {ask, canvas, colourOf, element, hideTip, nothing, number, setting_select, showTip, stepSlider, ticks, variable} from "./common.js";

const kLeft = 58, kTop = 16, kRight = 18, kBottom = 40;
let view = null, plot = null, slider = null, select = null, note = null, search = null;
let data = null, wanted = null, shown = "", scale = null, matching = null;

const choices = log => log.tags("tensors").flatMap(([tag, of]) => of.map(x => ({tag, ...x}))).filter(x => !x.tag.endsWith("/labels"));

// From points to the screen: x = (v - cx) * k + w / 2.
function fit(w, h) {
  const low = [Math.min(...data.x), Math.min(...data.y)], high = [Math.max(...data.x), Math.max(...data.y)];
  const span = Math.max(high[0] - low[0], (high[1] - low[1]) * w / h, 1e-12);
  scale = {cx: (low[0] + high[0]) / 2, cy: (low[1] + high[1]) / 2, k: (w - kLeft - kRight) * .92 / span};
}
const toScreen = (w, h) => [
  v => kLeft + (w - kLeft - kRight) / 2 + (v - scale.cx) * scale.k,
  v => kTop + (h - kTop - kBottom) / 2 - (v - scale.cy) * scale.k];

function draw(c, w, h) {
  if (!data?.x.length) return;
  if (!scale) fit(w, h);
  const [x, y] = toScreen(w, h);
  const half_w = (w - kLeft - kRight) / 2 / scale.k, half_h = (h - kTop - kBottom) / 2 / scale.k;
  c.strokeStyle = variable("grid");
  c.fillStyle = variable("faint");
  c.textAlign = "center";
  for (const t of ticks(scale.cx - half_w, scale.cx + half_w, w / 110)) {
    c.beginPath(); c.moveTo(x(t), kTop); c.lineTo(x(t), h - kBottom); c.stroke();
    c.fillText(number(t, 3), x(t), h - kBottom + 16);
  }
  c.textAlign = "right";
  for (const t of ticks(scale.cy - half_h, scale.cy + half_h, h / 80)) {
    c.beginPath(); c.moveTo(kLeft, y(t)); c.lineTo(w - kRight, y(t)); c.stroke();
    c.fillText(number(t, 3), kLeft - 7, y(t) + 4);
  }
  c.textAlign = "center";
  c.fillText(`first component (${number(data.variance[0] * 100, 3)}% of the variance)`, w / 2, h - 6);
  c.save();
  c.translate(13, h / 2 - kBottom / 2);
  c.rotate(-Math.PI / 2);
  c.fillText(`second (${number(data.variance[1] * 100, 3)}%)`, 0, 0);
  c.restore();
  c.beginPath();
  c.rect(kLeft, kTop, w - kLeft - kRight, h - kTop - kBottom);
  c.clip();
  const size = data.x.length > 2000 ? 2 : 3.5;
  // Few different labels are classes, with a colour each.
  const classes = [...new Set(data.labels)];
  const coloured = classes.length > 1 && classes.length <= 7;
  c.globalAlpha = .75;
  data.x.forEach((v, i) => {
    const found = matching?.has(i);
    c.fillStyle = coloured ? colourOf(classes.indexOf(data.labels[i])) : colourOf(0);
    c.globalAlpha = matching && !found ? .15 : .8;
    c.beginPath(); c.arc(x(v), y(data.y[i]), found ? size + 1.5 : size, 0, 7); c.fill();
  });
  c.globalAlpha = 1;
  c.textAlign = "left";
  c.fillStyle = variable("text");
  if (data.labels.length && !coloured) {  // As many as fit.
    const taken = [];
    data.x.forEach((v, i) => {
      if (matching ? !matching.has(i) : taken.length > 150) return;
      const px = x(v) + 6, py = y(data.y[i]) + 4, wide = c.measureText(data.labels[i]).width;
      if (px < kLeft || px > w || taken.some(t => px < t[0] + t[2] && t[0] < px + wide && Math.abs(py - t[1]) < 13)) return;
      taken.push([px, py, wide]);
      c.fillText(data.labels[i], px, py);
    });
  }
}

async function load(index) {
  const request = wanted && `${wanted.run.name}\n${wanted.tag}\n${index}\n${wanted.version}`;
  if (!request || request === shown) return;
  const other = !shown.startsWith(`${wanted.run.name}\n${wanted.tag}\n`);
  shown = request;
  try {
    const answer = await ask("projection", [["run", wanted.run.name], ["tag", wanted.tag], ["index", index]]);
    if (shown !== request) return;
    data = answer;
    if (other) scale = null;
    note.textContent = `${number(data.x.length)} rows of ${data.columns} columns` +
      (data.rows_left_out ? `; ${number(data.rows_left_out)} more rows are left out` : "") +
      (data.labels.length ? "" : ". Names: log a tensor of as many strings as “" + wanted.tag + "/labels”.");
  } catch (e) {
    data = null;
    note.textContent = e.message;
  }
  plot.dom.dataset.points = data ? data.x.length : 0;
  find();
}

function find() {
  const text = search.value.toLowerCase();
  matching = text && data ? new Set(data.labels.flatMap((l, i) => l.toLowerCase().includes(text) ? [i] : [])) : null;
  plot.redraw();
}

function zoom(factor, px, py) {
  if (!scale) return;
  const {width: w, height: h} = plot.dom.getBoundingClientRect();
  const mx = px ?? w / 2, my = py ?? h / 2;
  const vx = (mx - kLeft - (w - kLeft - kRight) / 2) / scale.k, vy = (my - kTop - (h - kTop - kBottom) / 2) / scale.k;
  scale.cx += vx * (1 - 1 / factor);
  scale.cy -= vy * (1 - 1 / factor);
  scale.k *= factor;
  plot.redraw();
}

function hover(e) {
  if (!data || !scale) return;
  const box = plot.dom.getBoundingClientRect();
  if (e.buttons & 1) {
    scale.cx -= e.movementX / scale.k;
    scale.cy += e.movementY / scale.k;
    hideTip();
    return plot.redraw();
  }
  const [x, y] = toScreen(box.width, box.height);
  let best = 12 ** 2, at = -1;
  data.x.forEach((v, i) => {
    const d = (x(v) - e.clientX + box.left) ** 2 + (y(data.y[i]) - e.clientY + box.top) ** 2;
    if (d < best) { best = d; at = i; }
  });
  if (at < 0) return hideTip();
  showTip(e.clientX, e.clientY, element("strong", {}, data.labels[at] ?? `row ${at}`),
    element("div", {}, `${data.labels[at] === undefined ? "" : `row ${at}, `}(${number(data.x[at], 3)}, ${number(data.y[at], 3)})`));
}

export const projector = {
  name: "projector", title: "Projector",
  count: log => choices(log).length,
  show(v, log) {
    view = v; plot = null; shown = ""; data = null; scale = null; wanted = null;
    this.update(log);
  },
  update(log) {
    const all = choices(log);
    if (!all.length) {
      plot = null;
      view.replaceChildren(nothing("No tensors", element("p", {}, "A matrix that a tensor summary logged is shown as the points of its rows.")));
      return;
    }
    if (!plot) {
      plot = canvas(0, draw, {"aria-label": "Rows as points"});
      plot.dom.style.height = "calc(100vh - 250px)";
      plot.dom.style.minHeight = "320px";
      plot.dom.addEventListener("mousemove", hover);
      plot.dom.addEventListener("mouseleave", hideTip);
      plot.dom.addEventListener("wheel", e => {
        e.preventDefault();
        const box = plot.dom.getBoundingClientRect();
        zoom(Math.exp(-e.deltaY / 400), e.clientX - box.left, e.clientY - box.top);
      }, {passive: false});
      const whole = () => { scale = null; plot.redraw(); };
      plot.dom.addEventListener("dblclick", whole);
      plot.dom.addEventListener("keydown", e => {
        const move = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1]}[e.key];
        if (e.key === "+" || e.key === "-") zoom(e.key === "+" ? 1.3 : 1 / 1.3);
        else if (e.key === "0") whole();
        else if (move && scale) { scale.cx += move[0] * 60 / scale.k; scale.cy += move[1] * 60 / scale.k; plot.redraw(); }
        else return;
        e.preventDefault();
      });
      slider = stepSlider("Step of the tensor", i => load(i));
      note = element("div.note");
      search = element("input", {type: "search", placeholder: "Find a row by its label", "aria-label": "Find a row by its label", oninput: find});
      select = element("div");
      view.replaceChildren(element("article.card", {}, element("div.steps", {}, select, search), slider.dom,
        element("div.stage", {style: "margin-top:8px;box-shadow:none"}, plot.dom, element("div.tools", {},
          element("button", {type: "button", title: "Nearer (+)", "aria-label": "Nearer", onclick: () => zoom(1.3)}, "+"),
          element("button", {type: "button", title: "Farther (-)", "aria-label": "Farther", onclick: () => zoom(1 / 1.3)}, "−"),
          element("button", {type: "button", title: "All (0)", onclick: whole}, "All"))), note));
    }
    const key = x => `${x.run.name}\n${x.tag}`;
    wanted = all.find(x => wanted && key(x) === key(wanted)) ?? all[0];
    select.replaceChildren(setting_select("Tensor", all.map(x => [key(x), `${x.tag} (${x.run.name})`]), key(wanted), v => {
      wanted = all.find(x => key(x) === v);
      this.fetch();
    }));
    this.fetch();
  },
  async fetch() {
    const of = wanted;
    const answer = await ask("values", [["kind", "tensors"], ["run", of.run.name], ["tag", of.tag]]);
    if (of === wanted) slider.set(answer.values);
  },
  hide: hideTip,
};
