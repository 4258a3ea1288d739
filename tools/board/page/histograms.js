// Histograms over the steps, as ridges or as a heat map.
import {ask, canvas, element, heat, hideTip, nothing, number, setting, setting_choice, setting_pattern, showTip, theme, ticks, variable, whenSeen} from "./common.js";
import {Groups} from "./scalars.js";

const kMostRidges = 40;
const kLeft = 14, kRight = 62, kTop = 40, kBottom = 26;
const mode = () => setting("histogram_mode", "ridges");

// One run's histograms of a tag.
class Plot {
  constructor(tag) {
    this.tag = tag;
    this.name = element("small");
    this.plot = canvas(240, (c, w, h) => this.draw(c, w, h), {});
    this.dom = element("div", {}, this.name, this.plot.dom);
    this.dom.className = "plot";
    this.note = element("div.note");
    this.dom.append(this.note);
    this.plot.dom.addEventListener("mousemove", e => this.hover(e));
    this.plot.dom.addEventListener("mouseleave", hideTip);
    this.plot.dom.addEventListener("blur", hideTip);
    this.plot.dom.addEventListener("keydown", e => {
      const by = {ArrowUp: -1, ArrowDown: 1}[e.key];
      if (!by || !this.data) return;
      e.preventDefault();
      const n = this.shown().length;
      this.chosen = Math.max(0, Math.min(n - 1, (this.chosen ?? n) + by));
      this.plot.redraw();
      const box = this.plot.dom.getBoundingClientRect();
      this.tell(this.chosen, null, box.left + 40, box.top);
    });
    whenSeen(this.dom, () => { this.seen = true; this.refresh(); });
  }
  set(of) {
    this.of = of;
    this.plot.dom.setAttribute("aria-label", `Histograms of ${this.tag} of run ${of.run.name}`);
    this.refresh();
  }
  async refresh() {
    if (!this.seen || this.fetching) return;
    if (this.fetched !== this.of.version) {
      this.fetching = true;
      try {
        const version = this.of.version;
        this.data = await ask("histograms", [["run", this.of.run.name], ["tag", this.tag]]);
        this.fetched = version;
        this.note.textContent = "";
      } catch (e) {
        this.note.textContent = e.message;
      } finally {
        this.fetching = false;
      }
    }
    this.name.replaceChildren(element("span.swatch", {style: `display:inline-block;width:12px;height:4px;border-radius:2px;background:${this.of.run.colour};vertical-align:middle;margin-right:6px`}), this.of.run.name);
    this.plot.redraw();
  }
  shown() {
    const rows = this.data.rows, n = Math.min(rows.length, kMostRidges);
    if (mode() === "heat" || rows.length <= n) return rows;
    return Array.from({length: n}, (_, i) => rows[Math.round(i * (rows.length - 1) / (n - 1))]);
  }
  draw(c, w, h) {
    if (!this.data || !this.data.rows.length) return;
    mode() === "heat" ? this.drawHeat(c, w, h) : this.drawRidges(c, w, h);
  }
  drawRidges(c, w, h) {
    const rows = this.shown(), {low, high} = this.data, n = rows.length;
    const plot_w = w - kLeft - kRight, most = Math.max(...rows.flatMap(r => r.counts), 1e-300);
    const x = v => kLeft + (v - low) / (high - low) * plot_w;
    const base = i => n === 1 ? h - kBottom : kTop + (h - kTop - kBottom) * i / (n - 1);
    // (No ridge reaches beyond the top.)
    const tall = Math.min(h * .34, kTop + (h - kTop - kBottom) / Math.max(n - 1, 1) * 4,
      ...rows.map((r, i) => (base(i) - 4) * most / Math.max(...r.counts, 1e-300)));
    c.strokeStyle = variable("grid");
    c.fillStyle = variable("faint");
    c.textAlign = "center";
    for (const t of ticks(low, high, Math.max(2, plot_w / 70))) {
      c.beginPath(); c.moveTo(x(t), kTop - 20); c.lineTo(x(t), h - kBottom + 4); c.stroke();
      c.fillText(number(t, 3), x(t), h - 8);
    }
    const width = plot_w / rows[0].counts.length;
    rows.forEach((r, i) => {
      c.beginPath();
      c.moveTo(kLeft, base(i));
      r.counts.forEach((v, b) => c.lineTo(kLeft + (b + .5) * width, base(i) - v / most * tall));
      c.lineTo(kLeft + plot_w, base(i));
      c.globalAlpha = .25 + .65 * (n === 1 ? 1 : i / (n - 1));
      c.fillStyle = this.of.run.colour;
      c.fill();
      c.globalAlpha = 1;
      c.lineWidth = i === this.chosen ? 2 : 1;
      c.strokeStyle = i === this.chosen ? variable("text") : variable("card");
      c.stroke();
    });
    c.lineWidth = 1;
    c.fillStyle = variable("faint");
    c.textAlign = "left";
    let last = -99;
    rows.forEach((r, i) => {
      if (base(i) - last < 16) return;
      last = base(i);
      c.fillText(number(r.step, 4), kLeft + plot_w + 8, base(i) + 4);
    });
    c.fillText("step", kLeft + plot_w + 8, kTop - 14);
    this.row_at = y => Math.max(0, Math.min(n - 1, Math.round((y - kTop) / Math.max(h - kTop - kBottom, 1) * (n - 1))));
    this.value_at = px => low + (px - kLeft) / plot_w * (high - low);
  }
  drawHeat(c, w, h) {
    const rows = this.data.rows, {low, high} = this.data;
    const left = 58, top = 10, plot_w = w - left - 12, plot_h = h - top - 34;
    const first = rows[0].step, last = rows.at(-1).step, steps = Math.max(last - first, 1);
    const x = step => rows.length === 1 ? left : left + (step - first) / steps * plot_w;
    const y = v => top + plot_h - (v - low) / (high - low) * plot_h;
    const bins = rows[0].counts.length;
    rows.forEach((r, i) => {
      const total = Math.max(...r.counts, 1e-300);
      const end = i + 1 < rows.length ? x(rows[i + 1].step) : left + plot_w;
      const begin = rows.length > 1 && i === rows.length - 1 ? left + plot_w - 3 : x(r.step);
      r.counts.forEach((v, b) => {
        c.fillStyle = heat(v / total);
        c.fillRect(begin, top + plot_h * (1 - (b + 1) / bins), Math.max(end - begin, 2) + .5, plot_h / bins + .5);
      });
    });
    c.strokeStyle = variable("line");
    c.strokeRect(left, top, plot_w, plot_h);
    c.fillStyle = variable("faint");
    c.textAlign = "right";
    for (const t of ticks(low, high, 5)) c.fillText(number(t, 3), left - 6, y(t) + 4);
    c.textAlign = "center";
    for (const t of ticks(first, last, Math.max(2, plot_w / 70))) c.fillText(number(t, 4), x(t), h - 18);
    c.fillText("step", left + plot_w / 2, h - 3);
    this.row_at = (_, px) => {
      const step = first + (px - left) / plot_w * steps;
      let at = 0;
      rows.forEach((r, i) => { if (r.step <= step) at = i; });
      return at;
    };
    this.value_at = (_, py) => low + (top + plot_h - py) / plot_h * (high - low);
  }
  hover(e) {
    if (!this.data?.rows.length || !this.row_at) return;
    const box = this.plot.dom.getBoundingClientRect();
    const px = e.clientX - box.left, py = e.clientY - box.top;
    this.tell(this.row_at(py, px), this.value_at(px, py), e.clientX, e.clientY);
  }
  tell(row, value, x, y) {
    const r = this.shown()[row], {low, high} = this.data;
    const total = r.counts.reduce((a, b) => a + b, 0);
    const lines = [element("div", {}, `step ${r.step.toLocaleString("en")}, ${number(Math.round(total))} values`)];
    if (value !== null) {
      const width = (high - low) / r.counts.length;
      const b = Math.floor((value - low) / width);
      if (r.counts[b] === undefined) return hideTip();
      lines.push(element("div", {}, `${number(r.counts[b], 3)} from ${number(low + b * width, 3)} to ${number(low + (b + 1) * width, 3)}`));
    }
    showTip(x, y, ...lines);
  }
}

// A card with a plot of each run.
export class CardOfRuns {
  constructor(tag, group, make) {
    this.tag = tag;
    this.make = make;
    this.plots = new Map();
    this.title = element("h3", {}, group === "" || !tag.startsWith(group + "/") ? tag : tag.slice(group.length + 1));
    this.dom = element("article.card", {"data-tag": tag}, this.title,
      element("div.tools", {}, element("button", {type: "button", title: "Large or small", "aria-label": `Large or small: ${tag}`,
        onclick: () => this.dom.classList.toggle("large")}, "⤢")));
  }
  set(of) {
    const names = new Set(of.map(x => x.run.name));
    for (const [name, p] of this.plots)
      if (!names.has(name)) { p.dom.remove(); this.plots.delete(name); }
    of.forEach(x => {
      let p = this.plots.get(x.run.name);
      if (!p) this.plots.set(x.run.name, p = this.make(this.tag));
      this.dom.append(p.dom);
      p.set(x);
    });
    this.title.title = of.find(x => x.description)?.description ?? "";
  }
}

let groups = null;
export const histograms = {
  name: "histograms", title: "Histograms",
  count: log => log.tags("histograms").length,
  settings: change => [
    setting_pattern("Filter tags", "histogram_filter", change),
    setting_choice("Drawn as", "histogram_mode", [["ridges", "Ridges"], ["heat", "Heat map"]], "ridges", change),
  ],
  show(view, log) {
    groups = new Groups(view, "histograms", (tag, group) => new CardOfRuns(tag, group, t => new Plot(t)));
    this.update(log);
  },
  update(log) {
    const tags = log.tags("histograms", setting("histogram_filter", ""));
    groups.set(tags);
    groups.empty?.remove();
    if (!tags.length) groups.view.append(groups.empty = nothing("No histograms", element("p", {}, "AddHistogram of EventWriter and tf.summary.histogram log them.")));
  },
  hide: hideTip,
};
