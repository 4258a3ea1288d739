"""Graphs as data: `NodeDef` and `GraphDef`, without protocol buffers."""

import struct

from sluice.framework import dtypes, tensor_proto, tensor_shape, wire


class NodeDef:
    """An operation as a GraphDef holds it.

    Attributes are values of Python: bytes, numbers, types, shapes, arrays,
    names of functions, and lists of these.
    """

    def __init__(self, name="", op="", device="", inputs=(), attr=None):
        self.name, self.op, self.device = name, op, device
        self.input, self.attr = list(inputs), dict(attr or {})

    @classmethod
    def _of(cls, op):
        """That of an operation."""
        inputs = [t.name if t.value_index else t.op.name
                  for t in op.inputs if t is not None]
        inputs += ["^" + c.name for c in op.control_inputs]
        return cls(op.name, op.type, op.device, inputs,
                   {name: op._attr(name) for name in op._attr_names()})

    @classmethod
    def FromString(cls, data):
        """A NodeDef of the binary form."""
        made = cls()
        for n, value in wire.read(data):
            if n == 3:
                made.input.append(value.decode())
            elif n == 5:
                entry = dict(wire.read(value))
                made.attr[entry[1].decode()] = _attr_value(entry.get(2, b""))
            elif n in _NODE_TEXTS:
                setattr(made, _NODE_TEXTS[n], value.decode())
        return made

    def __str__(self):
        lines = [f'name: "{self.name}"', f'op: "{self.op}"']
        lines += [f'input: "{i}"' for i in self.input]
        if self.device:
            lines.append(f'device: "{self.device}"')
        lines += [f"attr: {k} = {v!r}" for k, v in sorted(self.attr.items())]
        return "\n".join(lines) + "\n"

    def __repr__(self):
        return f"<NodeDef '{self.name}' op={self.op}>"


_NODE_TEXTS = {1: "name", 2: "op", 4: "device"}


def _signed(n):
    return n - (1 << 64) if n >> 63 else n


def _shape(data):
    dims = []
    for n, value in wire.read(data):
        if n == 3 and value:
            return tensor_shape.TensorShape(None)
        if n == 2:
            size = _signed(dict(wire.read(value)).get(1, 0))
            dims.append(None if size < 0 else size)
    return tensor_shape.TensorShape(dims)


# How a value is read, by its field in an AttrValue and in its lists; the code
# of packed numbers.
_ATTR_FIELDS = {
    2: lambda v: v, 3: _signed, 4: lambda v: struct.unpack("<f", v)[0],
    5: bool, 6: dtypes.as_dtype, 7: _shape,
    8: lambda v: tensor_proto.make_ndarray(
        tensor_proto.TensorProto.FromString(v)),
    10: lambda v: dict(wire.read(v)).get(1, b"").decode()}
_PACKED = {3: "", 4: "f", 5: "", 6: ""}


def _attr_value(data):
    """The value of an attribute in binary form."""
    for n, value in wire.read(data):
        if n in _ATTR_FIELDS:
            return _ATTR_FIELDS[n](value)
        if n == 1:
            values = []
            for m, item in wire.read(value):
                if m == 9:
                    m = 10
                if m in _PACKED and isinstance(item, bytes):
                    items = wire.unpacked(item, _PACKED[m])
                    values += items if m in (3, 4) else [
                        _ATTR_FIELDS[m](i) for i in items]
                else:
                    values.append(_ATTR_FIELDS[m](item))
            return values
    return None


class _ArgDef:
    """A name and a type."""

    def __init__(self, data):
        fields = dict(wire.read(data))
        self.name = fields.get(1, b"").decode()
        self.type = fields.get(3, 0)


class _Signature:
    """The OpDef of a function."""

    def __init__(self, data):
        self.name = self.description = ""
        self.input_arg, self.output_arg = [], []
        self.is_stateful = False
        for n, value in wire.read(data):
            if n == 1:
                self.name = value.decode()
            elif n in (2, 3):
                (self.input_arg if n == 2 else self.output_arg).append(
                    _ArgDef(value))
            elif n == 6:
                self.description = value.decode()
            elif n == 17:
                self.is_stateful = bool(value)


class FunctionDef:
    """A function of a graph, as a GraphDef holds it: its signature, its nodes,
    and where its results come from. To look at."""

    def __init__(self, data=b""):
        self._bytes = data
        self.signature = _Signature(b"")
        self.node_def, self.ret, self.attr = [], {}, {}
        for n, value in wire.read(data):
            if n == 1:
                self.signature = _Signature(value)
            elif n == 3:
                self.node_def.append(NodeDef.FromString(value))
            elif n in (4, 5):
                entry = dict(wire.read(value))
                name, item = entry[1].decode(), entry.get(2, b"")
                if n == 4:
                    self.ret[name] = item.decode()
                else:
                    self.attr[name] = _attr_value(item)

    @classmethod
    def FromString(cls, data):
        """A FunctionDef of the binary form."""
        return cls(bytes(data))

    def SerializeToString(self):
        """The binary form."""
        return self._bytes

    def __eq__(self, other):
        return isinstance(other, FunctionDef) and self._bytes == other._bytes

    __hash__ = None


class VersionDef:
    """Which TensorFlow something was made for, and which reads it."""

    def __init__(self, data=b""):
        fields = dict(wire.read(data))
        self.producer = fields.get(1, 0)
        self.min_consumer = fields.get(2, 0)

    def __eq__(self, other):
        return isinstance(other, VersionDef) and (
            self.__dict__ == other.__dict__)

    __hash__ = None


class _GradientDef:
    """Which function is the gradient of another."""

    def __init__(self, data):
        fields = dict(wire.read(data))
        self.function_name = fields.get(1, b"").decode()
        self.gradient_func = fields.get(2, b"").decode()


class _Library:
    """The functions of a graph, and their gradients."""

    def __init__(self, data):
        fields = list(wire.read(data))
        self.function = [FunctionDef(v) for n, v in fields if n == 1]
        self.gradient = [_GradientDef(v) for n, v in fields if n == 2]


class GraphDef:
    """A graph that can be stored: TensorFlow's message of that name.

    `SerializeToString` and `ParseFromString` speak its binary form, which
    TensorFlow reads and writes; `str()` is the text form, and `node` a list of
    NodeDefs to look at: what is changed in it does not change the graph.
    """

    def __init__(self, serialized=b""):
        self._bytes = serialized
        self._nodes = None

    @property
    def node(self):
        """The NodeDefs, a list."""
        if self._nodes is None:
            self._nodes = [NodeDef.FromString(data)
                           for n, data in wire.read(self._bytes) if n == 1]
        return self._nodes

    @property
    def versions(self):
        """Which TensorFlow it was made for."""
        return VersionDef(b"".join(v for n, v in wire.read(self._bytes)
                                   if n == 4))

    @property
    def library(self):
        """Its functions (`function`) and their gradients (`gradient`)."""
        return _Library(b"".join(v for n, v in wire.read(self._bytes)
                                 if n == 2))

    def SerializeToString(self):
        """The binary form."""
        return self._bytes

    def ParseFromString(self, data):
        """Takes over the binary form; how many bytes there were."""
        self.__init__(bytes(data))
        return len(self._bytes)

    @classmethod
    def FromString(cls, data):
        """A GraphDef of the binary form."""
        return cls(bytes(data))

    def ByteSize(self):
        """The size of the binary form."""
        return len(self._bytes)

    def CopyFrom(self, other):
        """Takes over another."""
        self.ParseFromString(other.SerializeToString())

    def _without_devices(self):
        data = b""
        for n, value in wire.read(self._bytes):
            if n == 1:
                value = b"".join(_again(m, v) for m, v in wire.read(value)
                                 if m != 4)
            data += _again(n, value)
        return GraphDef(data)

    def __str__(self):
        from sluice.framework import graph as graphs
        graph = graphs.Graph()
        try:
            graph._import(self._bytes, "", {}, [])
        except (LookupError, ValueError):  # Of ops that are not there.
            return "\n".join(map(str, self.node))
        return graph._export(True)

    def __eq__(self, other):
        return isinstance(other, GraphDef) and self._bytes == other._bytes

    __hash__ = None


def _again(n, value):
    """A field as it was read."""
    return wire.number(n, value) if isinstance(value, int) else (
        wire.field(n, value))


def make_graph_def(graph):
    """The graph as it is now."""
    return GraphDef(graph._export(False))


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
