"""Graphs with their collections as data: `MetaGraphDef`."""

import struct

from sluice.framework import graph as graphs, node_def, wire


class VariableDef:
    """The names of what a variable is made of."""

    _TEXTS = {1: "variable_name", 2: "initializer_name", 3: "snapshot_name",
              6: "initial_value_name"}
    _FLAGS = {5: "is_resource", 7: "trainable"}

    def __init__(self, **fields):
        for name in self._TEXTS.values():
            setattr(self, name, fields.pop(name, ""))
        for name in self._FLAGS.values():
            setattr(self, name, fields.pop(name, False))
        if fields:
            raise ValueError(f'Protocol message VariableDef has no '
                             f'"{next(iter(fields))}" field.')

    def SerializeToString(self):
        """The binary form."""
        data = b"".join(wire.field(n, getattr(self, name).encode())
                        for n, name in self._TEXTS.items()
                        if getattr(self, name))
        return data + b"".join(wire.number(n, 1)
                               for n, name in self._FLAGS.items()
                               if getattr(self, name))

    @classmethod
    def FromString(cls, data):
        """A VariableDef of the binary form."""
        made = cls()
        for n, value in wire.read(data):
            if n in cls._TEXTS:
                setattr(made, cls._TEXTS[n], value.decode())
            elif n in cls._FLAGS:
                setattr(made, cls._FLAGS[n], bool(value))
        return made

    def __eq__(self, other):
        return isinstance(other, VariableDef) and vars(self) == vars(other)

    __hash__ = None


class _List:
    def __init__(self, value=()):
        self.value = list(value)


class CollectionDef:
    """A collection: one of the lists holds something."""

    _KINDS = {1: "node_list", 2: "bytes_list", 3: "int64_list", 4: "float_list"}

    def __init__(self, kind=None, values=()):
        for name in self._KINDS.values():
            setattr(self, name, _List(values if name == kind else ()))
        self._kind = kind

    def WhichOneof(self, unused_name="kind"):
        """Which of the lists it is."""
        return next((kind for kind in self._KINDS.values()
                     if getattr(self, kind).value), self._kind)

    def SerializeToString(self):
        """The binary form."""
        kind = self.WhichOneof()
        if kind is None:
            return b""
        values = getattr(self, kind).value
        if kind == "int64_list":
            data = b"".join(wire.number(1, v) for v in values)
        elif kind == "float_list":
            data = wire.field(1, struct.pack(f"<{len(values)}f", *values))
        else:
            data = b"".join(
                wire.field(1, v.encode() if isinstance(v, str) else v)
                for v in values)
        return wire.field(next(n for n, name in self._KINDS.items()
                               if name == kind), data)

    @classmethod
    def FromString(cls, data):
        """A CollectionDef of the binary form."""
        for n, part in wire.read(data):
            kind = cls._KINDS.get(n)
            values = [v for m, v in wire.read(part) if m == 1]
            if kind == "node_list":
                return cls(kind, [v.decode() for v in values])
            if kind == "bytes_list":
                return cls(kind, values)
            if kind is not None:
                return cls(kind, [x for v in values for x in wire.unpacked(
                    v, "f" if kind == "float_list" else "")])
        return cls()


class _MetaInfo:
    def __init__(self):
        self.meta_graph_version, self.tensorflow_version = "", ""
        self.tags = []


class MetaGraphDef:
    """A graph and its collections: TensorFlow's message of that name.

    `graph_def` is a GraphDef, `collection_def` a dict of CollectionDefs, and
    `meta_info_def` has `tags`. What else a file of TensorFlow's holds (savers,
    signatures) is kept as it is.
    """

    def __init__(self):
        self.graph_def = node_def.GraphDef()
        self.collection_def = {}
        self.meta_info_def = _MetaInfo()
        self._others = []  # (field, data).

    def SerializeToString(self):
        """The binary form."""
        info = self.meta_info_def
        about = wire.field(1, info.meta_graph_version.encode()) if (
            info.meta_graph_version) else b""
        about += b"".join(wire.field(4, tag.encode()) for tag in info.tags)
        if info.tensorflow_version:
            about += wire.field(5, info.tensorflow_version.encode())
        data = wire.field(1, about) + wire.field(
            2, self.graph_def.SerializeToString())
        for key, collection in sorted(self.collection_def.items()):
            data += wire.field(4, wire.field(1, key.encode()) + wire.field(
                2, collection.SerializeToString()))
        return data + b"".join(wire.field(n, other)
                               for n, other in self._others)

    def ParseFromString(self, data):
        """Takes over the binary form; how many bytes there were."""
        data = bytes(data)
        self.__init__()
        for n, part in wire.read(data):
            if n == 1:
                for m, value in wire.read(part):
                    if m == 1:
                        self.meta_info_def.meta_graph_version = value.decode()
                    elif m == 4:
                        self.meta_info_def.tags.append(value.decode())
                    elif m == 5:
                        self.meta_info_def.tensorflow_version = value.decode()
            elif n == 2:
                self.graph_def.ParseFromString(part)
            elif n == 4:
                entry = dict(wire.read(part))
                self.collection_def[entry.get(1, b"").decode()] = (
                    CollectionDef.FromString(entry.get(2, b"")))
            else:
                self._others.append((n, part))
        return len(data)

    @classmethod
    def FromString(cls, data):
        """A MetaGraphDef of the binary form."""
        made = cls()
        made.ParseFromString(data)
        return made


def _collection_def(values):
    """A collection as data; None if it holds what cannot be."""
    first = values[0]
    if hasattr(first, "to_proto"):
        return CollectionDef("bytes_list", [
            v.to_proto().SerializeToString() for v in values])
    if isinstance(first, (str, bytes)):
        return CollectionDef("bytes_list", [
            v.encode() if isinstance(v, str) else v for v in values])
    if isinstance(first, int):
        return CollectionDef("int64_list", values)
    if isinstance(first, float):
        return CollectionDef("float_list", values)
    if all(isinstance(v, (graphs.Tensor, graphs.Operation)) for v in values):
        return CollectionDef("node_list", [v.name for v in values])
    return None


def export_meta_graph(filename=None, meta_info_def=None, graph_def=None,
                      saver_def=None, collection_list=None, as_text=False,
                      graph=None, export_scope=None, clear_devices=False,
                      clear_extraneous_savers=False,
                      strip_default_attrs=False):
    """The graph and its collections as a MetaGraphDef.

    Collections of variables, tensors, operations, numbers and strings are in
    it; others, such as those of functions, are left out.

    Args:
      filename: where to write it, if anywhere.
      graph_def: instead of the graph's.
      collection_list: the names of the collections; all by default.
      graph: the default one, unless given.
      clear_devices: whether to leave out what devices nodes ask for.
    """
    del meta_info_def
    for given, what in ((saver_def, "saver_def"), (as_text, "as_text"),
                        (export_scope, "export_scope"),
                        (clear_extraneous_savers, "clear_extraneous_savers"),
                        (strip_default_attrs, "strip_default_attrs")):
        if given:
            raise NotImplementedError(f"export_meta_graph: expected no {what}, "
                                      f"got {given!r}")
    graph = graph or graphs.get_default_graph()
    made = MetaGraphDef()
    made.graph_def = graph_def or graph.as_graph_def()
    if clear_devices:
        made.graph_def = made.graph_def._without_devices()
    for key in (graph.get_all_collection_keys() if collection_list is None
                else collection_list):
        values = graph.get_collection(key)
        collection = _collection_def(values) if values else None
        if collection is not None and isinstance(key, str):
            made.collection_def[key] = collection
    if filename:
        with open(filename, "wb") as f:
            f.write(made.SerializeToString())
    return made


def import_meta_graph(meta_graph_or_file, clear_devices=False,
                      import_scope=None, **kwargs):
    """Adds a MetaGraphDef, or a file that holds one, to the default graph.

    Args:
      meta_graph_or_file: a MetaGraphDef, or the name of a file in binary form.
      clear_devices: whether to leave out what devices nodes ask for.
      import_scope: a prefix for names.

    Returns:
      None: there is no saver.
    """
    if kwargs:
        raise TypeError(f"import_meta_graph: expected no {next(iter(kwargs))}")
    if not isinstance(meta_graph_or_file, MetaGraphDef):
        with open(meta_graph_or_file, "rb") as f:
            meta_graph_or_file = MetaGraphDef.FromString(f.read())
    graph = graphs.get_default_graph()
    definition = meta_graph_or_file.graph_def
    if clear_devices:
        definition = definition._without_devices()
    prefix = graph.unique_name(import_scope, mark_as_used=False) if (
        import_scope) else ""
    node_def.import_graph_def(definition, name=import_scope or "")
    prefix += "/" if prefix else ""
    for key, collection in meta_graph_or_file.collection_def.items():
        kind = collection.WhichOneof()
        for value in getattr(collection, kind).value if kind else ():
            if kind == "node_list":
                value = graph.as_graph_element(prefix + value)
            elif kind == "bytes_list":
                value = _variable_or_bytes(graph, key, value, prefix)
            graph.add_to_collection(key, value)


def _variable_or_bytes(graph, key, value, prefix):
    """The variable that bytes define, in a collection of variables."""
    from sluice.ops.variables import Variable
    if key not in _VARIABLE_KEYS:
        return value
    definition = VariableDef.FromString(value)
    known = graph.__dict__.setdefault("_variables_by_handle", {})
    name = prefix + definition.variable_name
    if name not in known:
        known[name] = Variable._from_def(definition, graph, prefix)
    return known[name]


_VARIABLE_KEYS = {
    getattr(graphs.GraphKeys, name)
    for name in ("GLOBAL_VARIABLES", "TRAINABLE_VARIABLES", "LOCAL_VARIABLES",
                 "MODEL_VARIABLES", "METRIC_VARIABLES",
                 "MOVING_AVERAGE_VARIABLES", "GLOBAL_STEP", "WEIGHTS",
                 "BIASES")}
