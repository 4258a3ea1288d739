// Images, sounds and texts, with a slider over their steps.
import {address, ask, dateOf, element, nothing, number, setting, setting_pattern, stepSlider, whenSeen} from "./common.js";
import {CardOfRuns} from "./histograms.js";
import {Groups} from "./scalars.js";

// One run's values of a tag. show(content, index, value, plot) fills `content`.
class Values {
  constructor(tag, kind, path, show) {
    Object.assign(this, {tag, kind, path, show});
    this.name = element("small");
    this.content = element("div");
    this.note = element("div.note");
    this.slider = stepSlider(`Step of ${tag}`, (i, v) => {
      const key = `${this.fetched}:${i}`;
      if (key === this.drawn) return;
      this.drawn = key;
      this.show(this.content, i, v, this);
      this.note.textContent = [v.width ? `${v.width} × ${v.height}` : "",
        v.rate ? `${number(v.frames / v.rate, 3)} s at ${number(v.rate)} Hz` : "", dateOf(v.wall)].filter(Boolean).join(", ");
    });
    this.dom = element("div.media", {}, this.name, this.content, this.slider.dom, this.note);
    whenSeen(this.dom, () => { this.seen = true; this.refresh(); });
  }
  set(of) { this.of = of; this.refresh(); }
  async refresh() {
    if (!this.seen || this.fetching || this.fetched === this.of.version) return;
    this.fetching = true;
    const version = this.of.version;
    try {
      const parameters = [["run", this.of.run.name], ["tag", this.tag]];
      if (this.path === "values") parameters.push(["kind", this.kind]);
      const answer = await ask(this.path, parameters);
      this.fetched = version;
      this.name.textContent = this.of.run.name;
      this.slider.set(answer.values);
    } catch (e) {
      this.note.textContent = e.message;
      this.note.className = "note bad";
    } finally {
      this.fetching = false;
    }
  }
  // Where the bytes of a part of a value are. (The version keeps browsers from
  // showing what had this index before.)
  blob(index, part) {
    return address("blob", [["kind", this.kind], ["run", this.of.run.name], ["tag", this.tag],
      ["index", index], ["part", part], ["version", this.fetched]]);
  }
}

function showImages(content, index, value, plot) {
  content.replaceChildren(...Array.from({length: value.parts}, (_, part) => {
    const image = element("img", {src: plot.blob(index, part), alt: `${plot.tag} at step ${value.step}`});
    image.addEventListener("load", () => image.classList.toggle("small", image.naturalWidth <= 128));
    return image;
  }));
}
function showSounds(content, index, value, plot) {
  content.replaceChildren(...Array.from({length: value.parts}, (_, part) =>
    element("audio", {src: plot.blob(index, part), controls: true, preload: "none", "aria-label": `${plot.tag} at step ${value.step}`})));
}
function showText(content, index, value) {
  const {shape, cells} = value;
  content.className = "text";
  if (shape.length === 2) {
    const rows = [];
    for (let i = 0; i < shape[0] && i * shape[1] < cells.length; ++i)
      rows.push(element("tr", {}, ...cells.slice(i * shape[1], (i + 1) * shape[1]).map(c => element("td", {}, ...markdown(c)))));
    content.replaceChildren(element("table.data", {}, ...rows));
  } else {
    content.replaceChildren(...cells.flatMap(markdown));
  }
}

// The parts of Markdown that logs use: headings, lists, code, **strong**,
// *emphasis*. Everything becomes text of elements, so nothing in it can act.
function markdown(source) {
  const blocks = [];
  let code = null, list = null, lines = [];
  const flush = () => {
    if (lines.length) blocks.push(element("p", {}, ...inline(lines.join(" "))));
    lines = [];
    list = null;
  };
  for (const line of source.split("\n")) {
    if (/^\s*```/.test(line)) {
      if (code) { blocks.push(element("pre", {}, code.join("\n"))); code = null; } else { flush(); code = []; }
    } else if (code) {
      code.push(line);
    } else if (/^#{1,6} /.test(line)) {
      flush();
      blocks.push(element("h4", {}, ...inline(line.replace(/^#+ /, ""))));
    } else if (/^(    |\t)/.test(line)) {
      flush();
      blocks.push(element("pre", {}, line.trim()));
    } else if (/^\s*([-*+]|\d+[.)]) /.test(line)) {
      if (!list) { flush(); blocks.push(list = element("ul")); }
      list.append(element("li", {}, ...inline(line.replace(/^\s*([-*+]|\d+[.)]) /, ""))));
    } else if (line.trim() === "") {
      flush();
    } else {
      list = null;
      lines.push(line);
    }
  }
  flush();
  if (code) blocks.push(element("pre", {}, code.join("\n")));
  return blocks;
}
function inline(text) {
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*|\*[^*\s][^*]*\*)/).filter(Boolean).map(part =>
    /^`.+`$/.test(part) ? element("code", {}, part.slice(1, -1))
      : /^\*\*.+\*\*$/.test(part) ? element("strong", {}, part.slice(2, -2))
      : /^\*.+\*$/.test(part) ? element("em", {}, part.slice(1, -1)) : part);
}

function mediaTab(kind, title, path, show, hint) {
  let groups = null;
  return {
    name: kind, title,
    count: log => log.tags(kind).length,
    settings: change => [setting_pattern("Filter tags", kind + "_filter", change)],
    show(view, log) {
      groups = new Groups(view, kind, (tag, group) =>
        new CardOfRuns(tag, group, t => new Values(t, kind, path, show)));
      this.update(log);
    },
    update(log) {
      const tags = log.tags(kind, setting(kind + "_filter", ""));
      groups.set(tags);
      groups.empty?.remove();
      if (!tags.length) groups.view.append(groups.empty = nothing(`No ${title.toLowerCase()}`, element("p", {}, hint)));
    },
  };
}
export const images = mediaTab("images", "Images", "values", showImages, "AddImages of EventWriter and tf.summary.image log them.");
export const audio = mediaTab("audio", "Audio", "values", showSounds, "AddAudio of EventWriter and tf.summary.audio log them.");
export const text = mediaTab("text", "Text", "text", showText, "AddText of EventWriter and tf.summary.text log them.");
