"""How a graph shows itself in a notebook: its operations in boxes, one for each
loop, branch and called function."""

import html

from sluice import _core

# More than that nobody reads, and a page gets slow.
_MOST = 1000
_FLOW = {"Switch", "RefSwitch", "Merge", "RefMerge", "Enter", "RefEnter",
         "Exit", "RefExit", "NextIteration", "RefNextIteration", "LoopCond"}
_STYLE = """
.sluice-graph{font:12px/1.35 sans-serif;color:#111827;background:#fff;
padding:6px}
.sluice-graph .box{border:1px solid;border-radius:8px;padding:4px 8px 8px}
.sluice-graph .loop{border-color:#2563eb;background:#eff6ff}
.sluice-graph .branch{border-color:#059669;background:#ecfdf5}
.sluice-graph .call{border-color:#9333ea;background:#faf5ff}
.sluice-graph .part{border-color:#93c5fd;background:#f8fafc}
.sluice-graph .title{font-weight:600;margin-bottom:4px;overflow-wrap:anywhere}
.sluice-graph .items{display:flex;flex-wrap:wrap;gap:6px;
align-items:flex-start}
.sluice-graph .node{background:#fff;border:1px solid #9ca3af;
border-radius:6px;padding:1px 6px;max-width:20em;overflow-wrap:anywhere}
.sluice-graph .flow{background:#fde68a}
.sluice-graph .state{background:#fecaca}
.sluice-graph .from{color:#6b7280;font-size:10px}
"""


def _node(name, op, inputs, line, stateful):
    """An operation: the last part of its name, its op, what it reads. (A
    pointer over it shows its whole line.)"""
    kind = " flow" if op in _FLOW else " state" if stateful else ""
    scope, slash, last = name.rpartition("/")
    shown = html.escape(last) + (
        "" if last == op else f" <i>{html.escape(op)}</i>")
    sources = ", ".join(s.removesuffix(":0").removeprefix(scope + slash)
                        for s in inputs)
    return (f'<div class="node{kind}" title="{html.escape(line)}">{shown}'
            + (f'<div class="from">{html.escape(sources)}</div>' if sources
               else "") + "</div>")


def _box(kind, title, items, last, left_out):
    parts = [_node(*item[1:]) if item[0] == "node" else _box(*item)
             for item in items]
    if left_out:
        parts.append(f'<div class="node">… {left_out:,} more operations</div>')
    if last:
        parts.append(f'<div class="from">{html.escape(last)}</div>')
    return (f'<div class="box {kind}"><div class="title">{html.escape(title)}'
            f'</div><div class="items">{"".join(parts)}</div></div>')


def as_html(graph):
    """The graph as HTML that needs nothing else."""
    kind, _, items, last, left_out = _core.shown_graph(graph, _MOST)
    title = f"Graph of {graph.version:,} operations, without its constants"
    return (f'<style>{_STYLE}</style><div class="sluice-graph">'
            f'{_box(kind, title, items, last, left_out)}</div>')
