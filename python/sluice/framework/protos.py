"""TensorFlow's messages: graphs, functions, arrays, collections."""

from sluice.framework import errors
from sluice.framework.messages import (  # noqa: F401 (TensorFlow's names.)
    DATA_TYPES, DataType, Enumeration, Message, enumerate_in)


class TensorShapeProto(Message):
    """What is known of a shape: dimensions (-1: unknown), or nothing."""

    class Dim(Message):
        """A dimension."""


TensorShapeProto.Dim._declare(("size", 1, "int64"), ("name", 2, "string"))
TensorShapeProto._declare(("dim", 2, [TensorShapeProto.Dim]),
                          ("unknown_rank", 3, "bool"))


class ResourceHandleProto(Message):
    """A handle of a resource."""

    class DtypeAndShape(Message):
        """What a tensor of the resource is."""


ResourceHandleProto.DtypeAndShape._declare(("dtype", 1, "enum"),
                                           ("shape", 2, TensorShapeProto))
ResourceHandleProto._declare(
    ("device", 1, "string"), ("container", 2, "string"), ("name", 3, "string"),
    ("hash_code", 4, "uint64"), ("maybe_type_name", 5, "string"),
    ("dtypes_and_shapes", 6, [ResourceHandleProto.DtypeAndShape]))


class VariantTensorDataProto(Message):
    """A value of the type variant."""


class TensorProto(Message):
    """A type, a shape, and elements: `tensor_content` or one of the lists."""


VariantTensorDataProto._declare(
    ("type_name", 1, "string"), ("metadata", 2, "bytes"),
    ("tensors", 3, [TensorProto]))
TensorProto._declare(
    ("dtype", 1, "enum"), ("tensor_shape", 2, TensorShapeProto),
    ("version_number", 3, "int32"), ("tensor_content", 4, "bytes"),
    ("float_val", 5, ["float"]), ("double_val", 6, ["double"]),
    ("int_val", 7, ["int32"]), ("string_val", 8, ["bytes"]),
    ("scomplex_val", 9, ["float"]), ("int64_val", 10, ["int64"]),
    ("bool_val", 11, ["bool"]), ("dcomplex_val", 12, ["double"]),
    ("half_val", 13, ["int32"]),
    ("resource_handle_val", 14, [ResourceHandleProto]),
    ("variant_val", 15, [VariantTensorDataProto]),
    ("uint32_val", 16, ["uint32"]), ("uint64_val", 17, ["uint64"]))


class AttrValue(Message):
    """The value of an attribute: one of the fields is set."""

    class ListValue(Message):
        """Several values of one kind."""


class NameAttrList(Message):
    """A function with its attributes bound."""


AttrValue.ListValue._declare(
    ("s", 2, ["bytes"]), ("i", 3, ["int64"]), ("f", 4, ["float"]),
    ("b", 5, ["bool"]), ("type", 6, ["enum"]), ("shape", 7, [TensorShapeProto]),
    ("tensor", 8, [TensorProto]), ("func", 9, [NameAttrList]))
AttrValue._declare(
    ("list", 1, AttrValue.ListValue), ("s", 2, "bytes"), ("i", 3, "int64"),
    ("f", 4, "float"), ("b", 5, "bool"), ("type", 6, "enum"),
    ("shape", 7, TensorShapeProto), ("tensor", 8, TensorProto),
    ("placeholder", 9, "string"), ("func", 10, NameAttrList),
    value=("list", "s", "i", "f", "b", "type", "shape", "tensor",
           "placeholder", "func"))
NameAttrList._declare(("name", 1, "string"),
                      ("attr", 2, {"string": AttrValue}))


class NodeDef(Message):
    """An operation as a GraphDef holds it: its name, op, inputs ("node",
    "node:1", then "^node" of those that it waits for), device, attributes."""

    class ExperimentalDebugInfo(Message):
        """Which nodes and functions it was made of."""


NodeDef.ExperimentalDebugInfo._declare(
    ("original_node_names", 1, ["string"]),
    ("original_func_names", 2, ["string"]))
NodeDef._declare(
    ("name", 1, "string"), ("op", 2, "string"), ("input", 3, ["string"]),
    ("device", 4, "string"), ("attr", 5, {"string": AttrValue}),
    ("experimental_debug_info", 6, NodeDef.ExperimentalDebugInfo))


class OpDef(Message):
    """The declaration of an op."""

    class ArgDef(Message):
        """An input or a result."""

    class AttrDef(Message):
        """An attribute."""


class OpDeprecation(Message):
    """Since when an op is not to be used, and what is instead."""


OpDeprecation._declare(("version", 1, "int32"), ("explanation", 2, "string"))
OpDef.ArgDef._declare(
    ("name", 1, "string"), ("description", 2, "string"), ("type", 3, "enum"),
    ("type_attr", 4, "string"), ("number_attr", 5, "string"),
    ("type_list_attr", 6, "string"),
    ("handle_data", 7, [ResourceHandleProto.DtypeAndShape]),
    ("is_ref", 16, "bool"))
OpDef.AttrDef._declare(
    ("name", 1, "string"), ("type", 2, "string"),
    ("default_value", 3, AttrValue), ("description", 4, "string"),
    ("has_minimum", 5, "bool"), ("minimum", 6, "int64"),
    ("allowed_values", 7, AttrValue))
OpDef._declare(
    ("name", 1, "string"), ("input_arg", 2, [OpDef.ArgDef]),
    ("output_arg", 3, [OpDef.ArgDef]), ("attr", 4, [OpDef.AttrDef]),
    ("summary", 5, "string"), ("description", 6, "string"),
    ("deprecation", 8, OpDeprecation), ("is_aggregate", 16, "bool"),
    ("is_stateful", 17, "bool"), ("is_commutative", 18, "bool"),
    ("allows_uninitialized_input", 19, "bool"),
    ("control_output", 20, ["string"]),
    ("is_distributed_communication", 21, "bool"))


class OpList(Message):
    """Declarations of ops."""


OpList._declare(("op", 1, [OpDef]))


class FunctionDef(Message):
    """A function of a graph: its signature, its nodes, and where its results
    come from."""

    class ArgAttrs(Message):
        """The attributes of an argument."""


FunctionDef.ArgAttrs._declare(("attr", 1, {"string": AttrValue}))
FunctionDef._declare(
    ("signature", 1, OpDef), ("node_def", 3, [NodeDef]),
    ("ret", 4, {"string": "string"}), ("attr", 5, {"string": AttrValue}),
    ("control_ret", 6, {"string": "string"}),
    ("arg_attr", 7, {"uint32": FunctionDef.ArgAttrs}),
    ("resource_arg_unique_id", 8, {"uint32": "uint32"}))


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


VersionDef._declare(("producer", 1, "int32"), ("min_consumer", 2, "int32"),
                    ("bad_consumers", 3, ["int32"]))


class GraphDef(Message):
    """A graph that can be stored, and changed: TensorFlow's message of that
    name. `node` is a list of NodeDefs, `library` has the functions."""

    _lazy = True
    _uncompared = (5,)  # (debug_info: the lines that made the nodes.)


GraphDef._declare(("node", 1, [NodeDef]), ("library", 2, FunctionDefLibrary),
                  ("version", 3, "int32"), ("versions", 4, VersionDef))


class JobDef(Message):
    """The addresses of a job's tasks, by number."""


class ClusterDef(Message):
    """The jobs of a cluster."""


JobDef._declare(("name", 1, "string"), ("tasks", 2, {"int32": "string"}))
ClusterDef._declare(("job", 1, [JobDef]))


class SaveSliceInfoDef(Message):
    """Which part of a larger variable one is."""


SaveSliceInfoDef._declare(
    ("full_name", 1, "string"), ("full_shape", 2, ["int64"]),
    ("var_offset", 3, ["int64"]), ("var_shape", 4, ["int64"]))


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
                     (CollectionDef.Int64List, "int64"),
                     (CollectionDef.FloatList, "float")):
    _list._declare(("value", 1, [_kind]))
CollectionDef._declare(
    ("node_list", 1, CollectionDef.NodeList),
    ("bytes_list", 2, CollectionDef.BytesList),
    ("int64_list", 3, CollectionDef.Int64List),
    ("float_list", 4, CollectionDef.FloatList),
    kind=("node_list", "bytes_list", "int64_list", "float_list"))


class SaverDef(Message):
    """The names of what a saver is made of."""


SaverDef._declare(
    ("filename_tensor_name", 1, "string"), ("save_tensor_name", 2, "string"),
    ("restore_op_name", 3, "string"), ("max_to_keep", 4, "int32"),
    ("sharded", 5, "bool"), ("keep_checkpoint_every_n_hours", 6, "float"),
    ("version", 7, enumerate_in(SaverDef, "CheckpointFormatVersion", LEGACY=0,
                                V1=1, V2=2)))


class TensorInfo(Message):
    """A tensor of a signature: its name, or those of its parts."""

    class CooSparse(Message):
        """The names of the parts of a sparse tensor."""


TensorInfo.CooSparse._declare(
    ("values_tensor_name", 1, "string"), ("indices_tensor_name", 2, "string"),
    ("dense_shape_tensor_name", 3, "string"))
TensorInfo._declare(
    ("name", 1, "string"), ("dtype", 2, "enum"),
    ("tensor_shape", 3, TensorShapeProto),
    ("coo_sparse", 4, TensorInfo.CooSparse), encoding=("name", "coo_sparse"))


class SignatureDef(Message):
    """What a graph is called with, and gives."""


SignatureDef._declare(
    ("inputs", 1, {"string": TensorInfo}),
    ("outputs", 2, {"string": TensorInfo}), ("method_name", 3, "string"),
    ("defaults", 4, {"string": TensorProto}))


class AssetFileDef(Message):
    """A file beside a graph, and the tensor of its name."""


AssetFileDef._declare(("tensor_info", 1, TensorInfo), ("filename", 2, "string"))


class MetaGraphDef(Message):
    """A graph and its collections: TensorFlow's message of that name."""

    class MetaInfoDef(Message):
        """What the graph is for, and what made it."""


MetaGraphDef.MetaInfoDef._declare(
    ("meta_graph_version", 1, "string"), ("stripped_op_list", 2, OpList),
    ("tags", 4, ["string"]), ("tensorflow_version", 5, "string"),
    ("tensorflow_git_version", 6, "string"),
    ("stripped_default_attrs", 7, "bool"),
    ("function_aliases", 8, {"string": "string"}))
MetaGraphDef._declare(
    ("meta_info_def", 1, MetaGraphDef.MetaInfoDef), ("graph_def", 2, GraphDef),
    ("saver_def", 3, SaverDef),
    ("collection_def", 4, {"string": CollectionDef}),
    ("signature_def", 5, {"string": SignatureDef}),
    ("asset_file_def", 6, [AssetFileDef]))


globals().update(DATA_TYPES)
Code = Enumeration({name: number for name, number in vars(errors).items()
                    if name.isupper() and isinstance(number, int)})
globals().update(Code.items())
