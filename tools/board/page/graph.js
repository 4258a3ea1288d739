// The graph, with scopes, loops, conditionals, functions and gradients as boxes
// that open. Only what is open is laid out, box by box from the inside.
import {ask, colourOf, element, hideTip, keep, nothing, problem, setting, setting_check, setting_choice, setting_select, svgElement, theme} from "./common.js";

const kGapX = 18, kGapY = 34, kPad = 14, kHead = 26, kNodeH = 30;

let view = null, data = null, shown = "", run = "", chosen = null, transform = null;
let open = new Set(), svg = null, world = null, details = null, places = null, edges_of = null;

// ---- Layout -----------------------------------------------------------------

const measure = document.createElement("canvas").getContext("2d");
function widthOf(text, font = 12) {
  measure.font = `${font}px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif`;
  return measure.measureText(text).width;
}
const lastName = name => name.slice(name.lastIndexOf("/") + 1);
const boxLabel = b => b.label.split("\n")[0].split(/\s{2,}/)[0];
const cut = (text, n) => text.length > n ? text.slice(0, n - 1) + "…" : text;

// Items are "b3" (a box) and "n5" (a node).
function prepare() {
  const {boxes, nodes, edges} = data;
  boxes.forEach(b => { b.items = []; b.size = 0; });
  boxes.forEach((b, i) => { if (b.outer >= 0) boxes[b.outer].items.push("b" + i); });
  nodes.forEach((n, i) => boxes[n.box].items.push("n" + i));
  for (let i = boxes.length - 1; i >= 0; --i) {
    boxes[i].size += boxes[i].items.filter(x => x[0] === "n").length;
    if (boxes[i].outer >= 0) boxes[boxes[i].outer].size += boxes[i].size;
  }
  data.uses = nodes.map(() => 0);
  edges.forEach(e => ++data.uses[e.from]);
  data.inputs = nodes.map(() => []);
  data.outputs = nodes.map(() => []);
  edges.forEach(e => { data.inputs[e.to].push(e); data.outputs[e.from].push(e); });
}

// The boxes around a node, inner ones first.
function around(node) {
  const found = [];
  for (let b = data.nodes[node].box; b >= 0; b = data.boxes[b].outer) found.push(b);
  return found;
}
const isHidden = node => data.nodes[node].kind === "constant" && String(setting("graph_constants", "false")) !== "true";

// What stands for a node on the screen: itself, or its outermost closed box.
function standIn(node) {
  let item = "n" + node;
  for (const b of around(node)) if (!open.has(b)) item = "b" + b;
  return item;
}

// Places the items of a box in layers, by the edges between them: each below
// what it reads. Returns its size; places get positions relative to the box.
function layOut(box, links) {
  const items = data.boxes[box].items.filter(x => x[0] === "b" ? data.boxes[+x.slice(1)].size > 0 : !isHidden(+x.slice(1)));
  const size = new Map();
  for (const item of items) {
    if (item[0] === "b" && open.has(+item.slice(1))) size.set(item, layOut(+item.slice(1), links));
    else if (item[0] === "b") size.set(item, {w: Math.max(96, widthOf(cut(boxLabel(data.boxes[+item.slice(1)]), 40)) + 58), h: 38});
    else {
      const n = data.nodes[+item.slice(1)];
      size.set(item, {w: Math.max(60, widthOf(cut(lastName(n.name), 30)) + 22, widthOf(n.op, 10.5) + 22), h: lastName(n.name) === n.op ? kNodeH : 40});
    }
  }
  const before = new Map(items.map(i => [i, []])), after = new Map(items.map(i => [i, []]));
  for (const [from, to] of links.get(box) ?? []) {
    if (!before.has(from) || !before.has(to)) continue;
    after.get(from).push(to);
    before.get(to).push(from);
  }
  // Cycles, which loops and closed boxes make, are broken where a walk in the
  // order of the items comes back.
  const state = new Map(), order = [], backwards = new Set();
  for (const start of items) {
    if (state.has(start)) continue;
    const stack = [[start, 0]];
    state.set(start, 1);
    while (stack.length) {
      const top = stack.at(-1), next = after.get(top[0])[top[1]++];
      if (next === undefined) { state.set(top[0], 2); order.push(top[0]); stack.pop(); }
      else if (!state.has(next)) { state.set(next, 1); stack.push([next, 0]); }
      else if (state.get(next) === 1) backwards.add(top[0] + ">" + next);
    }
  }
  order.reverse();
  const layer = new Map();
  for (const i of order)
    layer.set(i, Math.max(0, ...before.get(i).filter(b => !backwards.has(b + ">" + i)).map(b => (layer.get(b) ?? -1) + 1)));
  // What reads nothing stands right above its first reader.
  for (const i of [...order].reverse())
    if (before.get(i).length === 0 && after.get(i).length)
      layer.set(i, Math.max(0, Math.min(...after.get(i).map(a => layer.get(a))) - 1));
  const layers = [];
  for (const i of order) (layers[layer.get(i)] ??= []).push(i);
  // Long layers become several rows.
  const rows = layers.filter(Boolean).flatMap(l => {
    const parts = [];
    for (let i = 0; i < l.length; i += 14) parts.push(l.slice(i, i + 14));
    return parts;
  });
  // In a row, items stand in the order of the middles of what they are joined
  // to (Sugiyama's barycentres), and then as near to it as their neighbours let.
  const x = new Map();
  const pack = row => {
    let at = 0;
    for (const i of row) { x.set(i, at + size.get(i).w / 2); at += size.get(i).w + kGapX; }
    return at - kGapX;
  };
  const widths = rows.map(pack), widest = Math.max(60, ...widths);
  rows.forEach((row, r) => row.forEach(i => x.set(i, x.get(i) + (widest - widths[r]) / 2)));
  const middle = (i, near) => near.length ? near.reduce((a, n) => a + x.get(n), 0) / near.length : x.get(i);
  for (let round = 0; round < 6; ++round) {
    const down = round % 2 === 0;
    for (const row of down ? rows : [...rows].reverse()) {
      const want = new Map(row.map(i => [i, middle(i, (down ? before : after).get(i))]));
      row.sort((a, b) => want.get(a) - want.get(b));
      let left = -Infinity;
      for (const i of row) {
        const w = size.get(i).w;
        x.set(i, Math.max(want.get(i), left + w / 2));
        left = x.get(i) + w / 2 + kGapX;
      }
      // (What was pushed right comes back as a whole.)
      const shift = row.reduce((a, i) => a + x.get(i) - want.get(i), 0) / row.length;
      row.forEach(i => x.set(i, x.get(i) - shift));
    }
  }
  const left = Math.min(0, ...items.map(i => x.get(i) - size.get(i).w / 2));
  const right = Math.max(60, ...items.map(i => x.get(i) + size.get(i).w / 2));
  const head = box === 0 ? 0 : kHead;
  let y = kPad + head;
  for (const row of rows) {
    const tall = Math.max(...row.map(i => size.get(i).h));
    for (const i of row)
      places.set(i, {x: x.get(i) - left - size.get(i).w / 2 + kPad, y: y + (tall - size.get(i).h) / 2, ...size.get(i), in: box});
    y += tall + kGapY;
  }
  const title = widthOf(cut(boxLabel(data.boxes[box]), 60)) + 60;
  return {w: Math.max(right - left + 2 * kPad, box === 0 ? 0 : title), h: Math.max(y - kGapY, head + kPad) + kPad};
}

function place() {
  places = new Map();
  const links = new Map(), lines = new Map();
  for (const e of data.edges) {
    if (isHidden(e.from) || isHidden(e.to)) continue;
    const a = standIn(e.from), b = standIn(e.to);
    if (a === b) continue;
    const key = a + ">" + b;
    const line = lines.get(key) ?? {from: a, to: b, n: 0, control: true, back: true, values: []};
    ++line.n;
    line.control &&= e.control;
    line.back &&= e.back;
    if (e.value && line.values.length < 6) line.values.push(e.value);
    lines.set(key, line);
    // The boxes or nodes side by side that the two are in.
    const up_a = ["n" + e.from, ...around(e.from).map(i => "b" + i)];
    const up_b = ["n" + e.to, ...around(e.to).map(i => "b" + i)];
    const inside = new Set(up_b);
    const at = up_a.findIndex(i => inside.has(i)), common = up_a[at];
    if (e.back || at <= 0) continue;
    const box = +common.slice(1), pair = [up_a[at - 1], up_b[up_b.indexOf(common) - 1]];
    if (!links.has(box)) links.set(box, new Map());
    links.get(box).set(pair.join(">"), pair);
  }
  for (const [box, pairs] of links) links.set(box, [...pairs.values()]);
  const whole = layOut(0, links);
  // From positions in the box to positions in the drawing, outer boxes first.
  const done = new Set();
  const settle = item => {
    const p = places.get(item);
    if (!p || done.has(item)) return p;
    done.add(item);
    if (p.in > 0) {
      const outer = settle("b" + p.in);
      p.x += outer.x;
      p.y += outer.y;
    }
    return p;
  };
  for (const item of places.keys()) settle(item);
  return {whole, lines: [...lines.values()]};
}

// ---- Drawing ----------------------------------------------------------------

const kLooks = {
  light: {
    graph: ["#fff", "#fff"], scope: ["#f3f6fa", "#b8c4d2"], loop: ["#e7f0fc", "#2563eb"], branch: ["#e8f6ef", "#0b8457"],
    function: ["#f4ecfb", "#8a3fc4"], part: ["#f3f6fa", "#8493a5"], gradients: ["#fdf3e1", "#b8690a"],
    op: ["#ffffff", "#8493a5"], constant: ["#e9edf2", "#b0bac6"], state: ["#fde3e0", "#c2483d"], flow: ["#fcebb6", "#a87a00"], input: ["#dff3f6", "#1b8797"],
  },
  dark: {
    graph: ["#182028", "#182028"], scope: ["#1e2832", "#465566"], loop: ["#172a45", "#5b9bf3"], branch: ["#14302a", "#3fc495"],
    function: ["#2b1f3a", "#bd8ae8"], part: ["#1e2832", "#7b8b9c"], gradients: ["#35280f", "#e0a54a"],
    op: ["#26313c", "#6d7e90"], constant: ["#1f2831", "#4b5866"], state: ["#44241f", "#ec8076"], flow: ["#40350f", "#d9b23c"], input: ["#12353b", "#4fbccb"],
  },
};
const kWords = {scope: "scope", loop: "loop", branch: "branch", function: "function", gradients: "gradients",
  part: "part", op: "operation", constant: "constant", state: "state", flow: "control flow", input: "input"};
const byDevice = () => setting("graph_colours", "kind") === "device";

function look(item) {
  const is_box = item[0] === "b", x = (is_box ? data.boxes : data.nodes)[+item.slice(1)];
  const [fill, line] = kLooks[theme()][x.kind] ?? kLooks[theme()].op;
  if (!byDevice() || is_box) return {fill, line};
  const at = data.devices.indexOf(x.device);
  const colour = colourOf(at);
  return {fill: colour + "30", line: colour};
}

function drawItem(item) {
  const p = places.get(item), is_box = item[0] === "b", index = +item.slice(1);
  const x = (is_box ? data.boxes : data.nodes)[index], is_open = is_box && open.has(index);
  const {fill, line} = look(item);
  const label = is_box ? boxLabel(x) : lastName(x.name);
  const g = svgElement("g", {class: "item" + (is_box ? " box" : " node"), transform: `translate(${p.x},${p.y})`,
    tabindex: 0, role: "button", "data-item": item, "data-kind": x.kind,
    "aria-label": is_box ? `${kWords[x.kind]} ${label}, ${x.size} nodes, ${is_open ? "open" : "closed"}` : `${x.name}, ${x.op}`,
    "aria-expanded": is_box ? String(is_open) : undefined});
  g.append(svgElement("rect", {width: p.w, height: p.h, rx: is_box ? 9 : x.kind === "flow" ? 3 : 7, fill, stroke: line, "stroke-width": is_box ? 1.4 : 1.2}));
  const word = is_box && x.kind !== "scope" && !label.startsWith(kWords[x.kind]) ? `${kWords[x.kind]}` : "";
  if (is_box) {
    g.append(svgElement("text", {x: 11, y: is_open ? 18 : word ? 17 : 23, "font-weight": 600}, `${is_open ? "▾" : "▸"} ${cut(label, is_open ? 60 : 40)}`));
    if (!is_open) {
      g.append(svgElement("text", {x: p.w - 9, y: 23, class: "faint", "text-anchor": "end"}, String(x.size)));
      if (word) g.append(svgElement("text", {x: 24, y: 31, class: "faint"}, word));
    }
  } else {
    const two = x.op !== lastName(x.name);
    g.append(svgElement("text", {x: p.w / 2, y: two ? 17 : 19, "text-anchor": "middle"}, cut(label, 30)));
    if (two) g.append(svgElement("text", {x: p.w / 2, y: 31, "text-anchor": "middle", class: "faint"}, x.op));
  }
  g.append(svgElement("title", {}, is_box ? x.title || label : x.line));
  g.addEventListener("click", e => {
    e.stopPropagation();
    if (svg.moved) return;
    if (is_box) toggle(index); else choose(index);
  });
  g.addEventListener("keydown", e => {
    if (e.key !== "Enter" && e.key !== " ") return;
    e.preventDefault();
    e.stopPropagation();
    if (is_box) toggle(index, true); else choose(index);
  });
  return g;
}

function drawEdge(line) {
  const a = places.get(line.from), b = places.get(line.to);
  if (!a || !b) return null;
  const up = b.y < a.y + a.h;  // Against the usual direction.
  const x1 = a.x + a.w / 2, y1 = a.y + a.h, x2 = b.x + b.w / 2, y2 = b.y;
  const bend = Math.max(14, Math.min(90, Math.abs(y2 - y1) / 2));
  const side = Math.max(a.x + a.w, b.x + b.w) + 26;
  const d = up ? `M${a.x + a.w},${a.y + a.h / 2} C${side},${a.y + a.h / 2} ${side},${b.y + b.h / 2} ${b.x + b.w},${b.y + b.h / 2}`
    : `M${x1},${y1} C${x1},${y1 + bend} ${x2},${y2 - bend} ${x2},${y2 - 1}`;
  const path = svgElement("path", {d, class: "edge" + (line.control ? " control" : line.back ? " back" : ""),
    "stroke-width": Math.min(1 + Math.log2(line.n) * .6, 5), "marker-end": "url(#arrow)"});
  path.append(svgElement("title", {}, line.control ? "runs before" : line.values.join("\n") + (line.n > line.values.length ? `\nand ${line.n - line.values.length} more` : "")));
  path.line = line;
  return path;
}

function draw(keep_view) {
  const {whole, lines} = place();
  world.replaceChildren();
  const open_boxes = [], rest = [];
  for (const item of places.keys())
    (item[0] === "b" && open.has(+item.slice(1)) ? open_boxes : rest).push(item);
  const depth = i => { let d = 0; for (let b = data.boxes[+i.slice(1)].outer; b >= 0; b = data.boxes[b].outer) ++d; return d; };
  open_boxes.sort((a, b) => depth(a) - depth(b));
  world.append(...open_boxes.map(drawItem));
  edges_of = lines.map(drawEdge).filter(Boolean);
  world.append(...edges_of, ...rest.map(drawItem));
  svg.size = whole;
  svg.dataset.items = places.size;
  svg.dataset.edges = edges_of.length;
  if (!keep_view || !transform) fit(setting("graph_open", "") ? .04 : .62); else apply();
  mark();
}

function toggle(box, focus) {
  const before = places.get("b" + box);
  if (open.has(box)) open.delete(box); else open.add(box);
  draw(true);
  const now = places.get("b" + box);
  if (before && now) {  // Its corner stays where it was.
    transform.x += (before.x - now.x) * transform.k;
    transform.y += (before.y - now.y) * transform.k;
    apply();
  }
  if (focus) world.querySelector(`[data-item=b${box}]`)?.focus();
  hideTip();
}

// `least`: do not make it smaller than this, even if it does not fit.
function fit(least = .04) {
  const {width, height} = svg.getBoundingClientRect();
  if (!width) return;
  // (The buttons are above it, the legend below.)
  const k = Math.min(1.3, (width - 40) / svg.size.w, (height - 104) / svg.size.h);
  transform = {k: Math.max(k, least), x: 0, y: 50};
  transform.x = (width - svg.size.w * transform.k) / 2;
  apply();
}
const apply = () => world.setAttribute("transform", `translate(${transform.x},${transform.y}) scale(${transform.k})`);
function zoom(factor, x, y) {
  const box = svg.getBoundingClientRect();
  x ??= box.width / 2;
  y ??= box.height / 2;
  factor = Math.max(.05 / transform.k, Math.min(6 / transform.k, factor));
  transform.x = x - (x - transform.x) * factor;
  transform.y = y - (y - transform.y) * factor;
  transform.k *= factor;
  apply();
}

// ---- Details ----------------------------------------------------------------

function mark() {
  for (const g of world.querySelectorAll("g.item")) g.classList.toggle("chosen", chosen !== null && g.dataset.item === "n" + chosen);
  for (const p of edges_of)
    p.classList.toggle("chosen", chosen !== null && (p.line.from === "n" + chosen || p.line.to === "n" + chosen));
}

function reveal(node) {
  for (const b of around(node)) open.add(b);
  draw(true);
  choose(node);
  const p = places.get("n" + node), {width, height} = svg.getBoundingClientRect();
  if (!p) return;
  transform.x = width / 2 - (p.x + p.w / 2) * transform.k;
  transform.y = height / 2 - (p.y + p.h / 2) * transform.k;
  apply();
}

function choose(node) {
  chosen = node;
  mark();
  const n = data.nodes[node];
  const list = (edges, end) => edges.slice(0, 40).map(e => element("button.link", {type: "button", title: e.value, onclick: () => reveal(e[end])},
    (e.control ? "^" : "") + data.nodes[e[end]].name, element("span.count", {}, " " + (e.value.split(" ").slice(1).join(" ") ?? ""))));
  details.replaceChildren(element("h3", {}, n.name), element("dl", {},
    element("dt", {}, "Op"), element("dd", {}, n.op),
    ...(n.device ? [element("dt", {}, "Device"), element("dd", {}, n.device)] : []),
    element("dt", {}, "Line"), element("dd", {}, element("code", {}, n.line)),
    ...(data.inputs[node].length ? [element("dt", {}, `Inputs (${data.inputs[node].length})`), element("dd", {}, ...list(data.inputs[node], "from"))] : []),
    ...(data.outputs[node].length ? [element("dt", {}, `Read by (${data.outputs[node].length})`), element("dd", {}, ...list(data.outputs[node], "to"))] : [])));
}

function overview() {
  const n = data.nodes.length;
  details.replaceChildren(element("h3", {}, "Graph"), element("p.note", {},
    `${n.toLocaleString("en")} nodes, ${data.edges.length.toLocaleString("en")} edges. Click a box to open or close it, a node for its details. Dashed lines: runs before; blue: to a loop's next iteration.`),
    data.left_out ? element("p.note", {}, `${data.left_out} function calls are shown without their bodies, which have too many nodes.`) : "",
    element("input", {type: "search", placeholder: "Find a node", "aria-label": "Find a node by a part of its name", oninput(e) {
      const text = e.target.value.toLowerCase();
      found.replaceChildren(...(text ? data.nodes.flatMap((x, i) => x.name.toLowerCase().includes(text) || x.op.toLowerCase() === text ? [i] : []).slice(0, 60)
        .map(i => element("button.link", {type: "button", onclick: () => reveal(i)}, data.nodes[i].name, element("span.count", {}, " " + data.nodes[i].op))) : []));
    }}));
  const found = element("div", {style: "margin-top:8px"});
  details.append(found);
}

function legend() {
  const kinds = new Set([...data.boxes.filter(b => b.kind !== "graph"), ...data.nodes].map(x => x.kind));
  if (byDevice())
    return element("div.legend", {}, ...data.devices.map((d, i) => element("span", {}, element("i", {style: `background:${colourOf(i)}`}), d || "no device")));
  return element("div.legend", {}, ...Object.keys(kWords).filter(k => kinds.has(k)).map(k => {
    const [fill, line] = kLooks[theme()][k];
    return element("span", {}, element("i", {style: `background:${fill};border-color:${line}`}), kWords[k]);
  }));
}

function build() {
  data.devices = [...new Set(data.nodes.map(n => n.device))].sort();
  svg = svgElement("svg", {"aria-label": "The graph", tabindex: 0});
  svg.append(svgElement("defs", {}, svgElement("marker", {id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto", markerUnits: "userSpaceOnUse"},
    svgElement("path", {d: "M0,1 L7,4 L0,7 z", fill: theme() === "dark" ? "#9aa8b6" : "#5b6875"}))));
  world = svgElement("g");
  svg.append(world);
  let from = null;
  svg.addEventListener("pointerdown", e => { from = [e.clientX, e.clientY]; svg.moved = false; });
  svg.addEventListener("pointermove", e => {
    if (!from || !(e.buttons & 1)) return;
    const dx = e.clientX - from[0], dy = e.clientY - from[1];
    if (!svg.moved && Math.hypot(dx, dy) < 4) return;
    svg.moved = true;
    svg.classList.add("moving");
    transform.x += dx;
    transform.y += dy;
    from = [e.clientX, e.clientY];
    apply();
  });
  for (const end of ["pointerup", "pointerleave"]) svg.addEventListener(end, () => { from = null; svg.classList.remove("moving"); });
  svg.addEventListener("wheel", e => {
    e.preventDefault();
    const box = svg.getBoundingClientRect();
    zoom(Math.exp(-e.deltaY / 500), e.clientX - box.left, e.clientY - box.top);
  }, {passive: false});
  svg.addEventListener("click", () => { if (!svg.moved) { chosen = null; mark(); overview(); } });
  svg.addEventListener("keydown", e => {
    const move = {ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60]}[e.key];
    if (move) { transform.x += move[0]; transform.y += move[1]; apply(); }
    else if (e.key === "+" || e.key === "-") zoom(e.key === "+" ? 1.25 : .8);
    else if (e.key === "0") fit();
    else return;
    e.preventDefault();
  });
  details = element("article.card.details");
  const setOpen = all => { open = new Set(all ? data.boxes.keys() : [0]); draw(); };
  view.replaceChildren(element("div.graph", {},
    element("div.stage", {}, svg, legend(), element("div.tools", {},
      element("button", {type: "button", title: "Nearer (+)", "aria-label": "Nearer", onclick: () => zoom(1.25)}, "+"),
      element("button", {type: "button", title: "Farther (-)", "aria-label": "Farther", onclick: () => zoom(.8)}, "−"),
      element("button", {type: "button", title: "Whole graph (0)", onclick: () => fit()}, "Fit"),
      element("button", {type: "button", onclick: () => setOpen(true), disabled: data.nodes.length > 1500, title: data.nodes.length > 1500 ? "Too many nodes" : "Open all boxes"}, "Open all"),
      element("button", {type: "button", onclick: () => setOpen(false)}, "Close all"))),
    details));
  chosen = null;
  overview();
  draw();
}

async function load(log) {
  const of = log.chosen.filter(r => r.graph);
  const r = of.find(x => x.name === run) ?? of[0];
  if (!r) {
    shown = "";
    view.replaceChildren(nothing("No graph", element("p", {}, "AddGraph of EventWriter and tf.summary.FileWriter(folder, graph) log it.")));
    return;
  }
  const key = `${r.name}\n${r.graph}`;
  if (key === shown) return;
  shown = key;
  run = r.name;
  try {
    const answer = await ask("graph", [["run", r.name]]);
    if (key !== shown) return;
    data = answer;
    prepare();
    open = new Set([0]);
    // (Loops, conditionals and functions are open at first, if they are small.)
    let room = 60;
    const worth = b => b.kind !== "scope" || data.nodes.length < 40 ||
      b.items.some(x => x[0] === "b" && ["loop", "branch", "function"].includes(data.boxes[+x.slice(1)].kind));
    data.boxes.forEach((b, i) => {
      if (i === 0 || b.kind === "gradients" || !open.has(b.outer) || b.items.length > room || !worth(b)) return;
      open.add(i);
      room -= b.items.length;
    });
    if (setting("graph_open", "") === "all") open = new Set(data.boxes.keys());
    transform = null;
    build();
  } catch (e) {
    view.replaceChildren(problem(`Run ${r.name}: ${e.message}`));
  }
}

export const graph = {
  name: "graph", title: "Graph",
  count: log => log.chosen.filter(r => r.graph).length,
  settings(change) {
    const holder = element("div");
    this.holder = holder;
    const redraw = () => { if (shown && svg?.isConnected) build(); };
    return [holder,
      setting_choice("Colours", "graph_colours", [["kind", "Kind"], ["device", "Device"]], "kind", redraw),
      setting_check("Show constants", "graph_constants", "false", redraw)];
  },
  show(v, log) { view = v; shown = ""; this.update(log); },
  update(log) {
    const of = log.chosen.filter(r => r.graph);
    this.holder?.replaceChildren(...(of.length > 1 ? [setting_select("Run", of.map(r => [r.name, r.name]),
      of.some(r => r.name === run) ? run : of[0].name, v => { run = v; load(log); })] : []));
    load(log);
  },
};
