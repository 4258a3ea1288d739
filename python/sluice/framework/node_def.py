"""Import and transformation of GraphDefs."""

import re

from sluice import _core
from sluice.framework import dtypes, graph as graphs, protos
from sluice.framework.conversion import convert_to_tensor


def without_devices(graph_def):
    """Returns a copy of a GraphDef whose nodes have no devices."""
    made = protos.GraphDef.FromString(graph_def.SerializeToString())
    for node in made.node:
        node.ClearField("device")
    return made


def import_graph_def(graph_def, input_map=None, return_elements=None,
                     name=None, op_dict=None, producer_op_list=None):
    """Adds the nodes of a GraphDef to the default graph, under `name/`.

    Args:
      graph_def: a GraphDef, or its binary form.
      input_map: {name: tensor}, which replaces tensors of the GraphDef.
      return_elements: names of operations ("a") and tensors ("a:0") to return.
      name: the prefix of the new names; defaults to "import". "" adds none.
      op_dict: ignored; ops come from the registry.
      producer_op_list: an OpList of the ops of the GraphDef's producer.
        Attributes that are unknown here are removed if they have the default
        value given there.

    Returns:
      The list of the requested elements, or None.
    """
    input_map = {} if input_map is None else input_map
    if not isinstance(input_map, dict):
        raise TypeError("input_map must be a dictionary mapping strings to "
                        "Tensor objects.")
    if not _are_strings(input_map):
        raise TypeError(f"input_map must be a dictionary mapping strings to "
                        f"Tensor objects. Got the keys {list(input_map)}")
    if return_elements is not None and not _are_strings(return_elements):
        raise TypeError(f"return_elements must be a list of strings. Got "
                        f"{return_elements}")
    if producer_op_list is not None:
        graph_def = _without_unknown_defaults(graph_def, producer_op_list)
    data = graph_def
    if hasattr(graph_def, "SerializeToString"):
        data = graph_def.SerializeToString()
    elif not isinstance(graph_def, bytes):
        raise TypeError("graph_def must be a GraphDef proto.")
    graph = graphs.get_default_graph()
    prefix = "import" if name is None else name
    if prefix.endswith("/"):  # An existing scope.
        prefix = prefix[:-1]
    elif prefix:
        prefix = graph.unique_name(prefix)
    if not prefix and not all(isinstance(v, _core.Tensor)
                              for v in input_map.values()):
        raise ValueError("tf.import_graph_def() requires a non-empty `name` "
                         "if `input_map` contains non-Tensor values. Try "
                         "calling tf.convert_to_tensor() on `input_map` values "
                         "before calling tf.import_graph_def().")
    input_map = {_text(k): convert_to_tensor(v) for k, v in input_map.items()}
    elements = [_text(e) for e in return_elements or []]
    for name in (*input_map, *elements):
        if not re.fullmatch(r"[^:]*(:\d+)?", name):
            raise ValueError(f"Cannot convert '{name}' to a tensor name.")
    nodes = []
    if input_map or elements:
        nodes = (graph_def if isinstance(graph_def, protos.GraphDef)
                 else protos.GraphDef.FromString(data)).node
    names = {n.name for n in nodes}
    for element in elements:
        if _node_name(element) not in names:
            kind = "tensor" if ":" in element else "node"
            raise ValueError(f"Requested return {kind} '{element}' not found "
                             f"in graph def")
    try:
        found = graph._import(data, prefix, input_map, elements)
    except LookupError as e:
        if type(e) is not LookupError:  # E.g. raised by a device function.
            raise
        raise ValueError(str(e)) from None
    _check_mapped(graph, prefix and prefix + "/", input_map, nodes, names)
    return None if return_elements is None else found


def _check_mapped(graph, scope, input_map, nodes, names):
    """Raises ValueError for keys of `input_map` that name no tensor.

    A key must be an output of an imported node or occur as an input of one.
    """
    unused = dict.fromkeys(map(_tensor_name, input_map))
    for node in nodes:
        for name in node.input:
            unused.pop(_tensor_name(name), None)
    missing = [key for key in unused if _node_name(key) not in names or
               not _has_output(graph, scope + _node_name(key), key)]
    if missing:
        raise ValueError(f"Attempted to map inputs that were not found in "
                         f"graph_def: [{', '.join(missing)}]")


def _without_unknown_defaults(graph_def, producer_op_list):
    """Returns a copy without unknown attributes that have their defaults."""
    made = protos.GraphDef.FromString(
        graph_def if isinstance(graph_def, bytes)
        else graph_def.SerializeToString())
    defaults = {op.name: {a.name: a.default_value for a in op.attr
                          if a.HasField("default_value")}
                for op in protos.own(producer_op_list).op}
    for node in made.node:
        theirs = {name: value for name, value in
                  defaults.get(node.op, {}).items() if name in node.attr}
        if theirs:
            ours = {a.name for a in
                    graphs.get_default_graph().op_def_for_type(node.op).attr}
            for name, value in theirs.items():
                if name not in ours and node.attr[name] == value:
                    del node.attr[name]
    return made


def _tensor_name(name):
    """Returns an input's name with an output number."""
    return name if name.startswith("^") or ":" in name else name + ":0"


def _has_output(graph, name, key):
    """Returns whether an operation has the output that a key names."""
    index = key.partition(":")[2]
    return not index or int(index) < len(
        graph.get_operation_by_name(name).outputs)


def _are_strings(values):
    return all(isinstance(v, (str, bytes)) for v in values)


def _text(value):
    return value.decode() if isinstance(value, bytes) else value


# ---- Parts of graphs ---------------------------------------------------------


def _node_name(name):
    """Returns the node of an input such as "^node" or "node:1"."""
    return name.lstrip("^").partition(":")[0]


def _beside_nodes(graph_def):
    """Returns a copy of a GraphDef without its nodes."""
    made = protos.GraphDef()
    for part in ("library", "versions"):
        if graph_def.HasField(part):
            getattr(made, part).CopyFrom(getattr(graph_def, part))
    return made


def extract_sub_graph(graph_def, dest_nodes):
    """Returns the part of a GraphDef that some nodes depend on, in its order.

    Args:
      graph_def: a GraphDef.
      dest_nodes: a list of node names.
    """
    if not protos.is_message(graph_def, "GraphDef"):
        raise TypeError("graph_def must be a graph_pb2.GraphDef proto.")
    if isinstance(dest_nodes, str):
        raise TypeError("dest_nodes must be a list.")
    graph_def = protos.own(graph_def)
    nodes = {node.name for node in graph_def.node}
    for name in map(_node_name, dest_nodes):
        if name not in nodes:
            raise AssertionError(f"{name} is not in graph")
    # (Reads of TensorStores need writes that they do not depend on.)
    needed = _core.needed_nodes(graph_def.SerializeToString(), dest_nodes)
    made = _beside_nodes(graph_def)
    made.node.extend(n for n in graph_def.node if n.name in needed)
    return made


# Op types of variables: those with reference outputs, and all.
REFERENCE_OPS = ("Variable", "VariableV2")
VARIABLE_OPS = REFERENCE_OPS + ("VarHandleOp",)


def must_run_on_cpu(node, pin_variables_on_cpu=False):
    """Returns whether a node (or operation) must run on a CPU.

    This holds for strings, and for integers that are used as shapes.
    """
    node = getattr(node, "node_def", node)
    if pin_variables_on_cpu and node.op in (*VARIABLE_OPS, "Placeholder"):
        return True
    if node.op == "Const":
        return node.attr["dtype"].type in (dtypes.string, dtypes.int32)
    if node.op in ("DynamicStitch", "ParallelDynamicStitch"):
        return node.attr["T"].type == dtypes.int32
    if node.op == "Cast":
        return node.attr["SrcT"].type == dtypes.int32
    return False


def remove_training_nodes(input_graph, protected_nodes=None):
    """Returns a GraphDef without CheckNumerics and redundant Identity nodes."""
    input_graph = protos.own(input_graph)
    protected = set(protected_nodes or ())
    dropped = {n.name: n.input[0] for n in input_graph.node
               if n.op == "CheckNumerics" and n.name not in protected}
    kept = [n for n in input_graph.node if n.name not in dropped]
    # Nothing waits for what is no longer there.
    inputs = {n.name: [i for i in n.input
                       if not (i.startswith("^") and i[1:] in dropped)]
              for n in kept}
    # Identities that are or have control inputs remain.
    waited = {i[1:] for own in inputs.values() for i in own
              if i.startswith("^")}
    for node in kept:
        if node.op == "Identity" and len(inputs[node.name]) == 1 and not (
                node.name in protected or node.name in waited):
            dropped[node.name] = inputs[node.name][0]

    def source(name):
        while name in dropped:
            name = dropped[name]
        return name

    made = _beside_nodes(input_graph)
    for node in kept:
        if node.name in dropped:
            continue
        copy = made.node.add()
        copy.CopyFrom(node)
        copy.input[:] = [i if i.startswith("^") else source(i)
                         for i in inputs[node.name]]
    return made


def convert_variables_to_constants(
        sess, input_graph_def, output_node_names,
        variable_names_whitelist=None, variable_names_blacklist=None):
    """Returns the part of a GraphDef that some nodes need, without variables.

    The variables become constants with their values in a session.

    Args:
      sess: the session that holds the variables.
      input_graph_def: the GraphDef of its graph.
      output_node_names: the names of the nodes.
      variable_names_whitelist: the variables to convert; None for all.
      variable_names_blacklist: variables that are not converted.
    """
    from sluice.framework import tensor_proto
    part = extract_sub_graph(input_graph_def, output_node_names)
    types, reads = {}, {}
    for node in part.node:
        if node.op not in VARIABLE_OPS or (
                variable_names_whitelist is not None and
                node.name not in variable_names_whitelist) or (
                node.name in (variable_names_blacklist or ())):
            continue
        types[node.name] = node.attr["dtype"]
        read = "/Read/ReadVariableOp:0" if node.op == "VarHandleOp" else ":0"
        reads[node.name] = node.name + read
    values = sess.run(reads)
    made = _beside_nodes(part)
    for node in part.node:
        copy = made.node.add()
        if node.name in types:
            copy.name, copy.op = node.name, "Const"
            copy.attr["dtype"].CopyFrom(types[node.name])
            copy.attr["value"].tensor.CopyFrom(tensor_proto.make_tensor_proto(
                values[node.name], types[node.name].type,
                values[node.name].shape))
        elif node.op == "ReadVariableOp" and node.input[0] in types:
            copy.name, copy.op = node.name, "Identity"
            copy.input.append(node.input[0])
            copy.attr["T"].CopyFrom(node.attr["dtype"])
        else:
            copy.CopyFrom(node)
    return made


def tensor_shape_from_node_def_name(graph, input_name):
    """Returns the static shape of a tensor; the default output number is 0."""
    name = input_name if ":" in input_name else input_name + ":0"
    return graph.get_tensor_by_name(name).shape
