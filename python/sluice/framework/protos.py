"""TensorFlow's messages: graphs, functions, arrays, collections."""

from sluice.framework.messages import DATA_TYPES, Message


class TensorShapeProto(Message):
    """What is known of a shape: dimensions (-1: unknown), or nothing."""

    class Dim(Message):
        """A dimension."""


TensorShapeProto.Dim._declare(("size", 1, "int"), ("name", 2, "string"))
TensorShapeProto._declare(("dim", 2, [TensorShapeProto.Dim]),
                          ("unknown_rank", 3, "bool"))


class ResourceHandleProto(Message):
    """A handle of a resource."""


ResourceHandleProto._declare(
    ("device", 1, "string"), ("container", 2, "string"), ("name", 3, "string"),
    ("hash_code", 4, "unsigned"), ("maybe_type_name", 5, "string"))


class VariantTensorDataProto(Message):
    """A value of the type variant."""


class TensorProto(Message):
    """A type, a shape, and elements: `tensor_content` or one of the lists."""


VariantTensorDataProto._declare(
    ("type_name", 1, "string"), ("metadata", 2, "bytes"),
    ("tensors", 3, [TensorProto]))
TensorProto._declare(
    ("dtype", 1, "enum"), ("tensor_shape", 2, TensorShapeProto),
    ("version_number", 3, "int"), ("tensor_content", 4, "bytes"),
    ("float_val", 5, ["float"]), ("double_val", 6, ["double"]),
    ("int_val", 7, ["int"]), ("string_val", 8, ["bytes"]),
    ("scomplex_val", 9, ["float"]), ("int64_val", 10, ["int"]),
    ("bool_val", 11, ["bool"]), ("dcomplex_val", 12, ["double"]),
    ("half_val", 13, ["int"]),
    ("resource_handle_val", 14, [ResourceHandleProto]),
    ("variant_val", 15, [VariantTensorDataProto]),
    ("uint32_val", 16, ["unsigned"]), ("uint64_val", 17, ["unsigned"]))


class AttrValue(Message):
    """The value of an attribute: one of the fields is set."""

    class ListValue(Message):
        """Several values of one kind."""


class NameAttrList(Message):
    """A function with its attributes bound."""


AttrValue.ListValue._declare(
    ("s", 2, ["bytes"]), ("i", 3, ["int"]), ("f", 4, ["float"]),
    ("b", 5, ["bool"]), ("type", 6, ["enum"]), ("shape", 7, [TensorShapeProto]),
    ("tensor", 8, [TensorProto]), ("func", 9, [NameAttrList]))
AttrValue._declare(
    ("list", 1, AttrValue.ListValue), ("s", 2, "bytes"), ("i", 3, "int"),
    ("f", 4, "float"), ("b", 5, "bool"), ("type", 6, "enum"),
    ("shape", 7, TensorShapeProto), ("tensor", 8, TensorProto),
    ("placeholder", 9, "string"), ("func", 10, NameAttrList),
    value=("list", "s", "i", "f", "b", "type", "shape", "tensor",
           "placeholder", "func"))
NameAttrList._declare(("name", 1, "string"), ("attr", 2, {str: AttrValue}))


class NodeDef(Message):
    """An operation as a GraphDef holds it: its name, op, inputs ("node",
    "node:1", then "^node" of those that it waits for), device, attributes."""


NodeDef._declare(("name", 1, "string"), ("op", 2, "string"),
                 ("input", 3, ["string"]), ("device", 4, "string"),
                 ("attr", 5, {str: AttrValue}))


class OpDef(Message):
    """The declaration of an op."""

    class ArgDef(Message):
        """An input or a result."""

    class AttrDef(Message):
        """An attribute."""


class OpDeprecation(Message):
    """Since when an op is not to be used, and what is instead."""


OpDeprecation._declare(("version", 1, "int"), ("explanation", 2, "string"))
OpDef.ArgDef._declare(
    ("name", 1, "string"), ("description", 2, "string"), ("type", 3, "enum"),
    ("type_attr", 4, "string"), ("number_attr", 5, "string"),
    ("type_list_attr", 6, "string"), ("is_ref", 16, "bool"))
OpDef.AttrDef._declare(
    ("name", 1, "string"), ("type", 2, "string"),
    ("default_value", 3, AttrValue), ("description", 4, "string"),
    ("has_minimum", 5, "bool"), ("minimum", 6, "int"),
    ("allowed_values", 7, AttrValue))
OpDef._declare(
    ("name", 1, "string"), ("input_arg", 2, [OpDef.ArgDef]),
    ("output_arg", 3, [OpDef.ArgDef]), ("attr", 4, [OpDef.AttrDef]),
    ("summary", 5, "string"), ("description", 6, "string"),
    ("deprecation", 8, OpDeprecation), ("is_aggregate", 16, "bool"),
    ("is_stateful", 17, "bool"), ("is_commutative", 18, "bool"),
    ("allows_uninitialized_input", 19, "bool"),
    ("control_output", 20, ["string"]))


class OpList(Message):
    """Declarations of ops."""


OpList._declare(("op", 1, [OpDef]))


class FunctionDef(Message):
    """A function of a graph: its signature, its nodes, and where its results
    come from."""


FunctionDef._declare(
    ("signature", 1, OpDef), ("node_def", 3, [NodeDef]),
    ("ret", 4, {str: "string"}), ("attr", 5, {str: AttrValue}),
    ("control_ret", 6, {str: "string"}))


class GradientDef(Message):
    """Which function is the gradient of another."""


GradientDef._declare(("function_name", 1, "string"),
                     ("gradient_func", 2, "string"))


class FunctionDefLibrary(Message):
    """The functions of a graph, and their gradients."""


FunctionDefLibrary._declare(("function", 1, [FunctionDef]),
                            ("gradient", 2, [GradientDef]))


class VersionDef(Message):
    """Which TensorFlow something was made for, and which reads it."""


VersionDef._declare(("producer", 1, "int"), ("min_consumer", 2, "int"),
                    ("bad_consumers", 3, ["int"]))


class GraphDef(Message):
    """A graph that can be stored, and changed: TensorFlow's message of that
    name. `node` is a list of NodeDefs, `library` has the functions."""

    _lazy = True


GraphDef._declare(("node", 1, [NodeDef]), ("library", 2, FunctionDefLibrary),
                  ("version", 3, "int"), ("versions", 4, VersionDef))


class SaveSliceInfoDef(Message):
    """Which part of a larger variable one is."""


SaveSliceInfoDef._declare(
    ("full_name", 1, "string"), ("full_shape", 2, ["int"]),
    ("var_offset", 3, ["int"]), ("var_shape", 4, ["int"]))


class VariableDef(Message):
    """The names of what a variable is made of."""


VariableDef._declare(
    ("variable_name", 1, "string"), ("initializer_name", 2, "string"),
    ("snapshot_name", 3, "string"),
    ("save_slice_info_def", 4, SaveSliceInfoDef), ("is_resource", 5, "bool"),
    ("initial_value_name", 6, "string"), ("trainable", 7, "bool"))


class CollectionDef(Message):
    """A collection: one of the lists holds something."""

    class NodeList(Message):
        """Names of tensors and operations."""

    class BytesList(Message):
        """Strings, and messages in their binary form."""

    class Int64List(Message):
        """Integers."""

    class FloatList(Message):
        """Numbers."""


for _list, _kind in ((CollectionDef.NodeList, "string"),
                     (CollectionDef.BytesList, "bytes"),
                     (CollectionDef.Int64List, "int"),
                     (CollectionDef.FloatList, "float")):
    _list._declare(("value", 1, [_kind]))
CollectionDef._declare(
    ("node_list", 1, CollectionDef.NodeList),
    ("bytes_list", 2, CollectionDef.BytesList),
    ("int64_list", 3, CollectionDef.Int64List),
    ("float_list", 4, CollectionDef.FloatList),
    kind=("node_list", "bytes_list", "int64_list", "float_list"))


class MetaGraphDef(Message):
    """A graph and its collections: TensorFlow's message of that name. What else
    a file of TensorFlow's holds (savers, signatures) is kept as it is."""

    class MetaInfoDef(Message):
        """What the graph is for, and what made it."""


MetaGraphDef.MetaInfoDef._declare(
    ("meta_graph_version", 1, "string"), ("stripped_op_list", 2, OpList),
    ("tags", 4, ["string"]), ("tensorflow_version", 5, "string"),
    ("tensorflow_git_version", 6, "string"),
    ("stripped_default_attrs", 7, "bool"))
MetaGraphDef._declare(
    ("meta_info_def", 1, MetaGraphDef.MetaInfoDef), ("graph_def", 2, GraphDef),
    ("collection_def", 4, {str: CollectionDef}))


class _Enumeration:
    """An enumeration: numbers by name, and names by number."""

    def __init__(self, values):
        self._values = values

    def Name(self, number):
        """The name of a number."""
        return next(n for n, v in self._values.items() if v == number)

    def Value(self, name):
        """The number of a name."""
        return self._values[name]

    def keys(self):
        """The names."""
        return list(self._values)

    def values(self):
        """The numbers."""
        return list(self._values.values())

    def items(self):
        """(name, number)."""
        return list(self._values.items())


DataType = _Enumeration(DATA_TYPES)
globals().update(DATA_TYPES)
Code = _Enumeration({
    name: number for number, name in enumerate((
        "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED",
        "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE",
        "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
        "UNAUTHENTICATED"))})
globals().update(Code.items())
