"""HTML of a graph for notebooks.

Operations are in boxes: one for each loop, branch, function call and gradient
computation.
"""

import html
import os

from sluice import _core

# The limit of operations. Longer output is unreadable and makes pages slow.
_MAX_NODES = 1000
_FLOW = {"Switch", "RefSwitch", "Merge", "RefMerge", "Enter", "RefEnter",
         "Exit", "RefExit", "NextIteration", "RefNextIteration", "LoopCond"}
# The colours are translucent, because the page may be light or dark.
_STYLE = """
.sluice-graph{font:12px/1.35 sans-serif;padding:6px}
.sluice-graph .box{border:1px solid #888;border-radius:8px;padding:4px 8px 8px}
.sluice-graph .loop{border-color:#3b82f6;background:rgba(59,130,246,.1)}
.sluice-graph .branch{border-color:#10b981;background:rgba(16,185,129,.1)}
.sluice-graph .call{border-color:#a855f7;background:rgba(168,85,247,.1)}
.sluice-graph .gradients{border-color:#d97706;background:rgba(217,119,6,.08)}
.sluice-graph .part{border-color:#60a5fa;background:rgba(96,165,250,.05)}
.sluice-graph .title{font-weight:600;margin-bottom:4px;overflow-wrap:anywhere}
.sluice-graph .items{display:flex;flex-wrap:wrap;gap:6px;
align-items:flex-start}
.sluice-graph .node{background:rgba(128,128,128,.12);
border:1px solid rgba(128,128,128,.6);border-radius:6px;padding:1px 6px;
max-width:24em;overflow-wrap:anywhere}
.sluice-graph .flow{background:rgba(245,158,11,.3)}
.sluice-graph .state{background:rgba(239,68,68,.25)}
.sluice-graph .from{opacity:.75;font-size:10px}
"""
# Limits for a node's box. Its tooltip has the whole line.
_MAX_INPUTS, _MAX_LETTERS = 4, 40


def _short(name, scope):
    """Returns a name without its scope; long names are cut at the start."""
    name = name.removesuffix(":0")
    control = "^" * name.startswith("^")
    name = name[len(control):].removeprefix(scope)
    if len(name) > _MAX_LETTERS:
        end = name[-_MAX_LETTERS:]
        name = "…" + end[max(end.find("/"), 0):]
    return html.escape(control + name)


def _node(scope, name, op, inputs, line, stateful):
    """Returns a node with its name, op and inputs; its line is the tooltip."""
    kind = " flow" if op in _FLOW else " state" if stateful else ""
    shown = _short(name, scope) + (
        "" if name.rpartition("/")[2] == op else f" <i>{html.escape(op)}</i>")
    sources = [_short(s, scope) for s in inputs[:_MAX_INPUTS]]
    if len(inputs) > _MAX_INPUTS:
        sources.append(f"{len(inputs) - _MAX_INPUTS} more")
    return (f'<div class="node{kind}" title="{html.escape(line)}">{shown}'
            + (f'<div class="from">{", ".join(sources)}</div>' if sources
               else "") + "</div>")


def _scope(kind, items):
    """Returns the scope to omit from names in a box, because its title has it.

    This is the scope of a loop or the common prefix of a branch's operations.
    """
    names = [item[1] for item in items if item[0] == "node" and (
        kind == "branch" or kind == "loop" and item[2] == "LoopCond")]
    return os.path.commonprefix(names).rpartition("/")[0] + "/" if (
        names) else ""


def _box(kind, title, items, last, left_out):
    scope = _scope(kind, items)
    parts = [_node(scope, *item[1:]) if item[0] == "node" else _box(*item)
             for item in items]
    if left_out:
        parts.append(f'<div class="node">… {left_out:,} more operations</div>')
    if last:
        parts.append(f'<div class="from">{html.escape(last)}</div>')
    title = html.escape(title)
    inside = f'<div class="items">{"".join(parts)}</div>'
    if kind == "gradients":  # Collapsed: often the largest part of the graph.
        return (f'<details class="box {kind}"><summary class="title">{title}'
                f'</summary>{inside}</details>')
    return (f'<div class="box {kind}"><div class="title">{title}</div>'
            f'{inside}</div>')


def as_html(graph):
    """Returns the graph as self-contained HTML."""
    kind, _, items, last, left_out = _core.shown_graph(graph, _MAX_NODES)
    title = f"Graph of {graph.version:,} operations, without its constants"
    return (f'<style>{_STYLE}</style><div class="sluice-graph">'
            f'{_box(kind, title, items, last, left_out)}</div>')
