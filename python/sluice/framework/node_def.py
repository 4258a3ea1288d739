"""Graphs as data: `NodeDef` and `GraphDef`, without protocol buffers."""


class NodeDef:
    """An operation as a GraphDef holds it."""

    def __init__(self, op):
        self.name = op.name
        self.op = op.type
        self.device = op.device
        self.input = [t.name if t.value_index else t.op.name
                      for t in op.inputs if t is not None]
        self.input += ["^" + c.name for c in op.control_inputs]
        self.attr = {name: op._attr(name) for name in op._attr_names()}

    def __str__(self):
        lines = [f'name: "{self.name}"', f'op: "{self.op}"']
        lines += [f'input: "{i}"' for i in self.input]
        if self.device:
            lines.append(f'device: "{self.device}"')
        lines += [f"attr: {k} = {v!r}" for k, v in sorted(self.attr.items())]
        return "\n".join(lines) + "\n"

    def __repr__(self):
        return f"<NodeDef '{self.name}' op={self.op}>"


class GraphDef:
    """A graph that can be stored: TensorFlow's message of that name.

    `SerializeToString` and `ParseFromString` speak its binary form, which
    TensorFlow reads and writes; `str()` is the text form.
    """

    def __init__(self, serialized=b""):
        self._bytes = serialized
        self.node = []

    def SerializeToString(self):
        """The binary form."""
        return self._bytes

    def ParseFromString(self, data):
        """Takes over the binary form; how many bytes there were."""
        self._bytes = bytes(data)
        self.node = []
        return len(self._bytes)

    @classmethod
    def FromString(cls, data):
        """A GraphDef of the binary form."""
        return cls(bytes(data))

    def ByteSize(self):
        """The size of the binary form."""
        return len(self._bytes)

    def __str__(self):
        from sluice.framework import graph as graphs
        graph = graphs.Graph()
        graph._import(self._bytes, "", {}, [])
        return graph._export(True)

    def __eq__(self, other):
        return isinstance(other, GraphDef) and self._bytes == other._bytes

    __hash__ = None


def make_graph_def(graph):
    """The graph as it is now."""
    made = GraphDef(graph._export(False))
    made.node = [NodeDef(op) for op in graph.get_operations()]
    return made


def import_graph_def(graph_def, input_map=None, return_elements=None,
                     name=None, op_dict=None, producer_op_list=None):
    """Adds the nodes of a GraphDef to the default graph, under `name/`.

    Args:
      graph_def: a GraphDef, or its binary form.
      input_map: tensors that take the place of some of its tensors, by name.
      return_elements: names of operations ("a") and tensors ("a:0") to return.
      name: the prefix of the new names; "import" by default, "" for none.
      op_dict, producer_op_list: no matter; ops are those of the registry.

    Returns:
      The elements that were asked for, a list, or None.
    """
    from sluice.framework import graph as graphs
    if hasattr(graph_def, "SerializeToString"):
        graph_def = graph_def.SerializeToString()
    graph = graphs.get_default_graph()
    prefix = "import" if name is None else name
    if prefix:
        prefix = graph.unique_name(prefix)
    found = graph._import(graph_def, prefix, dict(input_map or {}),
                          list(return_elements or []))
    return None if return_elements is None else found
