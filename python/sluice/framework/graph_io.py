"""Writing graphs to files."""

import os


def write_graph(graph_or_graph_def, logdir, name, as_text=True):
    """Writes a graph to a file, as text or binary; returns its path."""
    graph_def = graph_or_graph_def
    if hasattr(graph_def, "as_graph_def"):
        graph_def = graph_def.as_graph_def(debug_info=not as_text)
    os.makedirs(logdir, exist_ok=True)
    path = os.path.join(logdir, name)
    with open(path, "wb") as f:
        f.write(str(graph_def).encode() if as_text
                else graph_def.SerializeToString())
    return path
