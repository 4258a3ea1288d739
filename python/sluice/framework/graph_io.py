"""Writing graphs to files."""

import os

from sluice import _core


def write_graph(graph_or_graph_def, logdir, name, as_text=True):
    """Writes a graph to a file, as text or binary; returns its path.

    Args:
      graph_or_graph_def: a Graph or a GraphDef.
      logdir: the folder, a path or a "file://" URI; it is made where needed.
      name: the file's name in it.
      as_text: whether it is written as text.
    """
    graph_def = graph_or_graph_def
    if hasattr(graph_def, "as_graph_def"):
        graph_def = graph_def.as_graph_def(debug_info=not as_text)
    path = os.path.join(logdir, name)
    os.makedirs(_core.local_path(logdir), exist_ok=True)
    with open(_core.local_path(path), "wb") as f:
        f.write(str(graph_def).encode() if as_text
                else graph_def.SerializeToString())
    return path
