// Curves of scalars: one chart for each tag, with the curves of all runs.
import {ask, dateOf, duration, element, hideTip, keep, nothing, number, setting, setting_check, setting_choice, setting_pattern, showTip, variable, whenSeen} from "./common.js";

const axis = () => setting("axis", "step");
const smoothing = () => Math.min(Number(setting("smoothing", "0.6")), 0.999);
const logarithmic = () => String(setting("log_scale", "false")) === "true";
const kAxes = {step: "step", relative: "time since the run began", wall: "wall time"};

// TensorBoard's: an exponential moving average that is divided by the sum of
// its weights, so that it does not begin at zero. Values that are no numbers
// are left out of it.
export function smooth(values, weight) {
  let last = 0, n = 0;
  return values.map(v => {
    if (v === null) return null;
    last = last * weight + (1 - weight) * v;
    ++n;
    return weight === 0 ? v : last / (1 - weight ** n);
  });
}

// Rows [x, value of each series...] of curves that have their own x each. In a
// null a curve goes on to its next point; a NaN interrupts it.
function merge(curves) {
  const rows = new Map();
  curves.forEach((c, i) => c.x.forEach((x, at) => {
    let row = rows.get(x);
    if (!row) rows.set(x, row = [x, ...Array(curves.length).fill(null)]);
    row[i + 1] = c.y[at];
  }));
  return [...rows.values()].sort((a, b) => a[0] - b[0]);
}

class Chart {
  constructor(tag, group) {
    this.tag = tag;
    this.holder = element("div.chart", {tabindex: 0, role: "img", "aria-label": `Curves of ${tag}`});
    this.notes = element("div");
    this.axis_name = element("div.axis-name");
    const large = element("button", {type: "button", title: "Large or small", "aria-label": `Large or small: ${tag}`,
      onclick: () => { this.dom.classList.toggle("large"); this.graph?.resize(); }}, "⤢");
    const whole = element("button", {type: "button", title: "Whole range (double click)", "aria-label": `Whole range: ${tag}`,
      onclick: () => this.graph?.resetZoom()}, "⌂");
    this.title = element("h3", {}, group === "" || !tag.startsWith(group + "/") ? tag : tag.slice(group.length + 1));
    this.dom = element("article.card", {"data-tag": tag}, this.title,
      element("div.tools", {}, whole, large), this.holder, this.axis_name, this.notes);
    this.holder.addEventListener("keydown", e => this.key(e));
    this.holder.addEventListener("blur", hideTip);
    whenSeen(this.dom, () => { this.seen = true; this.refresh(); });
  }

  // `of`: the runs that have the tag.
  set(of) {
    this.of = of;
    const about = of.find(x => x.description)?.description;
    if (about) this.title.title = about;
    this.refresh();
  }

  async refresh() {
    if (!this.seen || !this.of) return;
    const wanted = this.of.map(x => `${x.run.name}:${x.version}`).join();
    if (wanted !== this.fetched) {
      if (this.fetching) { this.again = true; return; }
      this.fetching = true;
      try {
        const answer = await ask("scalars", [["tag", this.tag], ...this.of.map(x => ["run", x.run.name])]);
        this.runs = answer.runs;
        this.fetched = wanted;
      } catch (e) {
        this.notes.replaceChildren(element("div.note.bad", {}, e.message));
        return;
      } finally {
        this.fetching = false;
      }
      if (this.again) { this.again = false; return this.refresh(); }
    }
    this.draw();
  }

  draw() {
    const shown = this.of.map(x => x.run).filter(r => this.runs[r.name]);
    const kind = axis(), weight = smoothing(), log = logarithmic();
    const curves = [], series = {}, notes = [];
    this.points = new Map();
    for (const run of shown) {
      const r = this.runs[run.name];
      const start = run.first_wall || r.wall[0];
      const x = kind === "step" ? r.step : kind === "wall" ? r.wall.map(w => w * 1000)
        : r.wall.map(w => (w - start) / 3600);
      const raw = r.value.map(v => typeof v === "string" ? null : v);
      const bad = r.value.flatMap((v, i) => typeof v === "string" ? [i] : []);
      if (bad.length)
        notes.push(element("div.note.bad", {}, `⚠ ${run.name}: ${bad.length === 1 ? "a value is" : bad.length + " values are"} not finite, the first ${r.value[bad[0]]} at step ${r.step[bad[0]].toLocaleString("en")}`));
      const fit = v => log && !(v > 0) ? null : v;
      const smoothed = smooth(raw, weight);
      // (A curve of one point is drawn as a point.)
      const look = {color: run.colour, strokePattern: run.dash};
      if (weight > 0) {
        curves.push({x, y: raw.map(fit)});
        series[`${run.name} (raw)`] = {...look, strokeWidth: 1, color: run.colour + "48", highlightCircleSize: 0, drawPoints: false};
      }
      curves.push({x, y: smoothed.map(fit)});
      series[run.name] = {...look, strokeWidth: 2, drawPoints: raw.length === 1, pointSize: 3.5};
      this.points.set(run.name, {run, raw: r.value, smoothed, step: r.step, wall: r.wall, start,
        at: new Map(x.map((v, i) => [v, i])), x});
    }
    this.notes.replaceChildren(...notes);
    this.axis_name.textContent = kAxes[kind] + (kind === "relative" ? " (hours)" : "");
    this.dom.dataset.curves = shown.length;
    const options = {
      file: merge(curves), labels: ["x", ...Object.keys(series)], series, logscale: log,
      axes: {
        // (The library takes x for dates only if they are Date objects.)
        x: {axisLabelFormatter: kind === "wall" ? Dygraph.dateAxisLabelFormatter : v => number(v, 4),
            ticker: kind === "wall" ? Dygraph.dateTicker : Dygraph.numericLinearTicks,
            drawGrid: false, axisLabelWidth: 56, pixelsPerLabel: 70},
        y: {axisLabelFormatter: v => number(v, 3), axisLabelWidth: 54},
      },
    };
    if (kind === "wall") options.file.forEach(row => { row[0] = new Date(row[0]); });
    const key = [kind, ...Object.keys(series)].join("\n");
    if (this.graph && this.key_of === key && this.scale === log) {
      this.graph.updateOptions(options);
      return;
    }
    this.graph?.destroy();
    this.key_of = key;
    this.scale = log;
    if (curves.length === 0) { this.graph = null; return; }
    this.graph = new Dygraph(this.holder, options.file, {
      ...options, file: undefined, legend: "never", connectSeparatedPoints: true,
      gridLineColor: variable("grid"), axisLineColor: variable("line"), axisLabelFontSize: 12,
      yRangePad: 8, xRangePad: 6, highlightCircleSize: 4, drawGapEdgePoints: true,
      highlightCallback: (event, x) => this.showPoint(x, event.clientX, event.clientY),
      unhighlightCallback: hideTip,
    });
  }

  // The values of all runs nearest to x.
  showPoint(x, client_x, client_y) {
    const rows = [];
    let wall = 0;
    for (const p of this.points.values()) {
      let i = p.at.get(x);
      if (i === undefined) {  // The last one before x.
        let low = 0, high = p.x.length - 1;
        if (!(p.x[0] <= x) || !(x <= p.x[high])) continue;
        while (low < high) {
          const mid = (low + high + 1) >> 1;
          if (p.x[mid] <= x) low = mid; else high = mid - 1;
        }
        i = low;
      }
      wall = p.wall[i];
      rows.push(element("tr", {},
        element("td", {}, element("span.swatch", {style: `background:${p.run.colour}`})),
        element("td", {}, p.run.name),
        element("td.number", {}, number(p.smoothed[i] ?? p.raw[i], 5)),
        element("td.number", {}, number(p.raw[i], 5)),
        element("td.number", {}, p.step[i].toLocaleString("en")),
        element("td.number", {}, duration(p.wall[i] - p.start))));
    }
    if (!rows.length) return hideTip();
    showTip(client_x, client_y, element("table", {},
      element("tr", {}, element("th"), element("th", {}, "run"), element("th.number", {}, "smoothed"),
        element("th.number", {}, "value"), element("th.number", {}, "step"), element("th.number", {}, "after")),
      ...rows), element("div.note", {}, dateOf(wall)));
  }

  // Arrows go from point to point, + and - zoom, 0 shows all.
  key(e) {
    const g = this.graph;
    if (!g) return;
    const by = {ArrowRight: 1, ArrowLeft: -1, PageDown: 20, PageUp: -20}[e.key];
    const rows = g.numRows();
    if (by) {
      this.row = Math.max(0, Math.min(rows - 1, (this.row ?? (by > 0 ? -1 : rows)) + by));
      g.setSelection(this.row);
      const x = Number(g.getValue(this.row, 0)), box = this.holder.getBoundingClientRect();
      this.showPoint(x, box.left + g.toDomXCoord(x), box.top + 20);
    } else if (e.key === "+" || e.key === "-") {
      const [a, b] = g.xAxisRange(), middle = (a + b) / 2, half = (b - a) / 2 * (e.key === "+" ? .6 : 1 / .6);
      g.updateOptions({dateWindow: [middle - half, middle + half]});
    } else if (e.key === "0") {
      g.resetZoom();
    } else {
      return;
    }
    e.preventDefault();
  }
}

// Cards in groups by the first part of their tags. make(tag, group) makes a
// card with a `dom` and set(of).
export class Groups {
  constructor(view, name, make) {
    this.view = view;
    this.name = name;
    this.make = make;
    this.groups = new Map();
    this.cards = new Map();
  }
  // tags: as log.tags().
  set(tags) {
    const by_group = new Map();
    for (const [tag, of] of tags) {
      const slash = tag.indexOf("/");
      const group = slash > 0 ? tag.slice(0, slash) : "";
      if (!by_group.has(group)) by_group.set(group, []);
      by_group.get(group).push([tag, of]);
    }
    for (const [group, {dom}] of this.groups)
      if (!by_group.has(group)) { dom.remove(); this.groups.delete(group); }
    const wanted = new Set(tags.map(t => t[0]));
    for (const [tag, card] of this.cards)
      if (!wanted.has(tag)) { card.dom.remove(); this.cards.delete(tag); }
    for (const [group, members] of by_group) {
      const g = this.groups.get(group) ?? this.addGroup(group);
      g.count.textContent = members.length;
      members.forEach(([tag, of], i) => {
        let card = this.cards.get(tag);
        if (!card) this.cards.set(tag, card = this.make(tag, group));
        if (g.cards.children[i] !== card.dom) g.cards.insertBefore(card.dom, g.cards.children[i] ?? null);
        card.set(of);
      });
    }
    // (Groups stand in the order of their tags.)
    for (const group of by_group.keys()) this.view.append(this.groups.get(group).dom);
  }
  addGroup(group) {
    const closed = new Set(setting("closed_" + this.name, []));
    const cards = element("div.cards"), count = element("span.count");
    const button = element("button", {type: "button", "aria-expanded": String(!closed.has(group)),
      onclick() {
        cards.hidden = !cards.hidden;
        cards.style.display = cards.hidden ? "none" : "";
        button.setAttribute("aria-expanded", String(!cards.hidden));
        cards.hidden ? closed.add(group) : closed.delete(group);
        keep("closed_" + this_name, [...closed]);
      }}, group || "Without a group", " ", count);
    const this_name = this.name;
    if (closed.has(group)) { cards.hidden = true; cards.style.display = "none"; }
    const g = {dom: element("section.group", {}, element("h2", {}, button), cards), cards, count};
    this.groups.set(group, g);
    return g;
  }
}

let groups = null;

export const scalars = {
  name: "scalars", title: "Scalars",
  count: log => log.tags("scalars").length,
  settings(change) {
    const output = element("output", {}, String(smoothing()));
    const slider = element("input", {type: "range", min: 0, max: 0.99, step: 0.01, value: smoothing(), "aria-label": "Smoothing"});
    slider.addEventListener("input", () => { keep("smoothing", slider.value); output.textContent = slider.value; change(); });
    return [
      setting_pattern("Filter tags", "scalar_filter", change),
      element("div.setting", {}, element("span", {}, "Smoothing", output), slider),
      setting_choice("Horizontal axis", "axis", [["step", "Step"], ["relative", "Relative"], ["wall", "Wall"]], "step", change),
      setting_check("Logarithmic vertical axis", "log_scale", "false", change),
    ];
  },
  show(view, log) {
    groups = null;
    if (typeof Dygraph === "undefined") {
      view.append(nothing("The plot library is missing", element("p", {}, "Curves are drawn by dygraphs. On the machine of the server, run"), element("pre", {}, "apt-get install libjs-dygraphs")));
      return;
    }
    view.replaceChildren();
    groups = new Groups(view, "scalars", (tag, group) => new Chart(tag, group));
    this.update(log);
  },
  update(log) {
    if (!groups) return;
    const tags = log.tags("scalars", setting("scalar_filter", ""));
    groups.set(tags);
    groups.empty?.remove();
    if (tags.length === 0) groups.view.append(groups.empty = nothing("No scalars", element("p", {}, "No tag of the chosen runs matches.")));
  },
  hide() { hideTip(); },
};
