"""Export and import of graphs with their collections: `MetaGraphDef`."""

from sluice import _core
from sluice.framework import (
    errors, graph as graphs, node_def, protos, registries, scopes)
from sluice.version import GIT_VERSION, VERSION


def _collection_def(key, values, scope):
    """Returns the items of a collection within a scope as a CollectionDef.

    Returns None if there are no items or they cannot be serialized.
    """
    values = [v for v in values if not scope or not hasattr(v, "name") or
              v.name.startswith(scopes.within(scope))]
    if not values:
        return None
    strip = scopes.strip_name_scope
    first = values[0]
    made = protos.CollectionDef()
    to_proto = registries.get_to_proto_function(key)
    if to_proto is not None:
        data = [to_proto(v, export_scope=scope) for v in values]
        made.bytes_list.value.extend(
            d.SerializeToString() for d in data if d is not None)
    elif key not in _VARIABLE_KEYS and hasattr(first, "initializer") and (
            hasattr(first, "initial_value")):
        # TensorFlow keeps variables of such keys as tensors.
        made.node_list.value.extend(strip(v.name, scope) for v in values)
    elif hasattr(first, "to_proto"):
        made.bytes_list.value.extend(
            v.to_proto(scope).SerializeToString() for v in values)
    elif isinstance(first, (str, bytes)):
        made.bytes_list.value.extend(
            v.encode() if isinstance(v, str) else v for v in values)
    elif isinstance(first, int):
        made.int64_list.value.extend(values)
    elif isinstance(first, float):
        made.float_list.value.extend(values)
    elif getattr(getattr(type(first), "DESCRIPTOR", None), "full_name",
                 None) == "google.protobuf.Any":
        for v in values:
            made.any_list.value.add().MergeFromString(v.SerializeToString())
    elif all(isinstance(v, (graphs.Tensor, graphs.Operation)) for v in values):
        made.node_list.value.extend(strip(v.name, scope) for v in values)
    else:
        return None
    return made


def _within(graph_def, scope, unbound):
    """Returns the nodes of a GraphDef within a scope, without its prefix.

    Inputs from outside the scope become "$unbound_inputs_name" and are
    appended to `unbound`.
    """
    made = node_def._beside_nodes(graph_def)
    prefix = scopes.within(scope)
    for node in graph_def.node:
        if not node.name.startswith(prefix):
            continue
        copy = made.node.add()
        copy.CopyFrom(node)
        copy.name = node.name[len(prefix):]
        for i, name in enumerate(node.input):
            if name.lstrip("^").startswith(prefix):
                copy.input[i] = scopes.strip_name_scope(name, scope)
                continue
            bare = name.lstrip("^")
            copy.input[i] = name[:-len(bare)] + "$unbound_inputs_" + bare
            if bare not in unbound:
                unbound.append(bare)
        if "_class" in copy.attr:
            groups = [g for g in copy.attr["_class"].list.s
                      if not g.startswith(b"loc:@") or
                      g[5:].startswith(prefix.encode())]
            copy.attr["_class"].list.s[:] = [
                scopes.strip_name_scope(g.decode(), scope).encode()
                for g in groups]
            if not groups:
                del copy.attr["_class"]
    return made


def _nodes(graph_def):
    """Yields the nodes of a graph and of its functions."""
    yield from graph_def.node
    for function in graph_def.library.function:
        yield from function.node_def


def _op_defs(graph_def):
    """Returns the OpDefs that the nodes and the functions they call use.

    Returns a dict by name, without functions and unknown ops.
    """
    functions = {f.signature.name: f for f in graph_def.library.function}
    found, seen = {}, set()
    def named_by(node):
        yield node.op
        for attr in node.attr.values():
            if attr.HasField("func"):
                yield attr.func.name
            yield from (f.name for f in attr.list.func)

    waiting = [name for node in graph_def.node for name in named_by(node)]
    while waiting:
        op = waiting.pop()
        if op in seen:
            continue
        seen.add(op)
        if op in functions:
            waiting.extend(name for node in functions[op].node_def
                           for name in named_by(node))
            continue
        try:
            found[op] = graphs.get_default_graph().op_def_for_type(op)
        except RuntimeError:
            pass
    return found


def stripped_op_list_for_graph(graph_def):
    """Returns the OpList of the ops that a GraphDef uses, sorted by name.

    It has no documentation.
    """
    found = _op_defs(graph_def)
    made = protos.OpList(op=[found[name] for name in sorted(found)])
    for op in made.op:
        for described in (op, *op.input_arg, *op.output_arg, *op.attr):
            described.ClearField("description")
        op.ClearField("summary")
    return made


def _default_attrs(graph_def):
    """Returns {op: {attribute: its default value}} of a graph's ops."""
    return {op.name: {a.name: a.default_value for a in op.attr
                      if a.HasField("default_value")}
            for op in _op_defs(graph_def).values()}


def add_default_attrs(graph_def):
    """Adds the attributes that were removed, with their default values."""
    defaults = _default_attrs(graph_def)
    for node in _nodes(graph_def):
        for name, value in defaults.get(node.op, {}).items():
            if name not in node.attr:
                node.attr[name].CopyFrom(value)


def strip_graph_default_valued_attrs(meta_graph_def):
    """Removes the attributes that have their default values."""
    defaults = _default_attrs(meta_graph_def.graph_def)
    for node in _nodes(meta_graph_def.graph_def):
        for name, value in defaults.get(node.op, {}).items():
            if name in node.attr and node.attr[name] == value:
                del node.attr[name]
    meta_graph_def.meta_info_def.stripped_default_attrs = True


def _with_contexts(made, graph, scope, collection_list):
    """Returns a MetaGraphDef with the contexts of the graph's loops.

    They are those of `_core.recover_contexts`, which was called before the
    nodes were exported.
    """
    made = protos.MetaGraphDef.FromString(_core.add_contexts(
        graph, scope, made.SerializeToString()))
    if collection_list is not None:
        for key in _CONTEXT_KEYS - set(collection_list):
            made.collection_def.pop(key, None)
    return made


def create_meta_graph_def(meta_info_def=None, graph_def=None, saver_def=None,
                          collection_list=None, graph=None, export_scope=None,
                          strip_default_attrs=False):
    """Returns a graph and its collections as a MetaGraphDef.

    A graph that is not given as a GraphDef is added with its shapes. See
    `export_meta_graph`.
    """
    graph = graph or graphs.get_default_graph()
    contexts = False
    if graph_def is None and not export_scope:
        contexts = _core.recover_contexts(graph)
        graph_def = graph.as_graph_def(add_shapes=True)
    made = export_scoped_meta_graph(
        graph_def=graph_def, graph=graph, export_scope=export_scope,
        saver_def=saver_def, strip_default_attrs=strip_default_attrs,
        meta_info_def=meta_info_def, collection_list=collection_list)[0]
    return (_with_contexts(made, graph, "", collection_list) if contexts
            else made)


def export_scoped_meta_graph(
        filename=None, graph_def=None, graph=None, export_scope=None,
        as_text=False, unbound_inputs_col_name="unbound_inputs",
        clear_devices=False, saver_def=None, clear_extraneous_savers=False,
        strip_default_attrs=False, meta_info_def=None, collection_list=None):
    """Exports a graph or a scope of it; see `export_meta_graph`.

    Args:
      unbound_inputs_col_name: the collection that receives the names of the
        inputs from outside the scope, or None. An import must pass these
        inputs as `input_map`.

    Returns:
      (MetaGraphDef, {name: variable}).
    """
    graph = graph or graphs.get_default_graph()
    made, unbound = protos.MetaGraphDef(), []
    if meta_info_def is not None:
        made.meta_info_def.MergeFromString(meta_info_def.SerializeToString())
    contexts = graph_def is None and _core.recover_contexts(graph)
    definition = (graph.as_graph_def(debug_info=True) if graph_def is None
                  else protos.own(graph_def))
    if clear_devices:
        definition = node_def.without_devices(definition)
    if export_scope:
        definition = _within(definition, export_scope, unbound)
    made.graph_def.CopyFrom(definition)
    info = made.meta_info_def
    if not info.HasField("stripped_op_list"):
        info.stripped_op_list.CopyFrom(stripped_op_list_for_graph(definition))
    info.tensorflow_version = VERSION
    info.tensorflow_git_version = GIT_VERSION
    if strip_default_attrs:
        strip_graph_default_valued_attrs(made)
    for key in (graph.get_all_collection_keys() if collection_list is None
                else collection_list):
        if key in _CONTEXT_KEYS:
            continue
        collection = _collection_def(
            key, graph.get_collection(key), export_scope)
        if collection is not None and isinstance(key, str):
            made.collection_def[key].CopyFrom(collection)
    if graph._iterators:
        _export_iterators(graph, made, export_scope)
    if contexts:
        made = _with_contexts(made, graph, export_scope or "",
                              collection_list)
    if saver_def is not None:
        made.saver_def.MergeFromString(saver_def.SerializeToString())
    if clear_extraneous_savers:
        _clear_savers(made, saver_def)
    if unbound_inputs_col_name and unbound:
        made.collection_def[unbound_inputs_col_name].bytes_list.value.extend(
            name.encode() for name in unbound)
    found = {scopes.strip_name_scope(v.name, export_scope): v
             for v in graph.get_collection(graphs.GraphKeys.GLOBAL_VARIABLES,
                                           export_scope)}
    if filename:
        with open(_core.local_path(filename), "wb") as f:
            f.write(str(made).encode() if as_text else
                    made.SerializeToString())
    return made, found


def _clear_savers(made, kept):
    """Removes the nodes and the definitions of other savers than `kept`."""
    savers = made.collection_def[graphs.GraphKeys.SAVERS].bytes_list.value
    found = [protos.SaverDef.FromString(value) for value in savers]
    stay = [s for s in found if kept is not None and
            s.SerializeToString() == kept.SerializeToString()]
    scope_of = lambda s: s.save_tensor_name.rpartition("/")[0]  # noqa: E731
    gone = {scope_of(s) + "/" for s in found if s not in stay} - {
        scope_of(s) + "/" for s in ([kept] if kept is not None else [])} - {"/"}
    if stay:
        savers[:] = [s.SerializeToString() for s in stay]
    else:
        del made.collection_def[graphs.GraphKeys.SAVERS]
    nodes = [n for n in made.graph_def.node
             if not n.name.startswith(tuple(gone))]
    if gone and len(nodes) < len(made.graph_def.node):
        nodes = [type(n).FromString(n.SerializeToString()) for n in nodes]
        del made.graph_def.node[:]
        made.graph_def.node.extend(nodes)


def export_meta_graph(filename=None, meta_info_def=None, graph_def=None,
                      saver_def=None, collection_list=None, as_text=False,
                      graph=None, export_scope=None, clear_devices=False,
                      clear_extraneous_savers=False,
                      strip_default_attrs=False):
    """Returns the graph and its collections as a MetaGraphDef.

    It includes collections of variables, tensors, operations, numbers and
    strings. Other collections, such as those of functions, are omitted.

    Args:
      filename: the file to write, or None.
      meta_info_def: the MetaInfoDef to include.
      graph_def: a GraphDef to use instead of the graph's.
      collection_list: the names of the collections; defaults to all.
      as_text: whether to write the file as text.
      graph: the graph; defaults to the default graph.
      export_scope: the name scope to export, which is removed from the names.
      clear_devices: whether to remove the devices of nodes.
      strip_default_attrs: whether to remove attributes that have their default
        values.
    """
    return export_scoped_meta_graph(
        filename, graph_def, graph, export_scope, as_text,
        clear_devices=clear_devices, saver_def=saver_def,
        clear_extraneous_savers=clear_extraneous_savers,
        strip_default_attrs=strip_default_attrs, meta_info_def=meta_info_def,
        collection_list=collection_list)[0]


def read_meta_graph_file(filename):
    """Reads a MetaGraphDef from a binary or text file."""
    try:
        with open(_core.local_path(filename), "rb") as f:
            data = f.read()
    except FileNotFoundError:
        raise OSError(f"File {filename} does not exist.") from None
    made = protos.MetaGraphDef()
    from google.protobuf import message, text_format
    try:
        made.ParseFromString(data)
        return made
    except message.DecodeError:
        made.Clear()
    try:
        return text_format.Merge(data, made)
    except (text_format.ParseError, UnicodeDecodeError) as e:
        raise OSError(f"Cannot parse file {filename}: {e}.") from None


def import_scoped_meta_graph(
        meta_graph_or_file, clear_devices=False, graph=None, import_scope=None,
        input_map=None, unbound_inputs_col_name="unbound_inputs",
        restore_collections_predicate=lambda key: True):
    """Adds a MetaGraphDef to a graph; see `import_meta_graph`.

    Args:
      input_map: {"$unbound_inputs_name": tensor}, which replaces the inputs
        from outside the exported scope.
      unbound_inputs_col_name: the collection with the names of these inputs.
      restore_collections_predicate: a function from the name of a collection
        to whether to restore it.

    Returns:
      {name without the scope: variable}.
    """
    made = meta_graph_or_file
    if protos.is_message(made, "MetaGraphDef"):
        made = protos.own(made)
    else:
        made = read_meta_graph_file(made)
    if unbound_inputs_col_name and not input_map and (
            unbound_inputs_col_name in made.collection_def):
        missing = made.collection_def[unbound_inputs_col_name].bytes_list.value
        raise ValueError(f"Graph contains unbound inputs: "
                         f"{[m.decode() for m in missing]}. Must provide these "
                         f"inputs through input_map.")
    graph = graph or graphs.get_default_graph()
    with graph.as_default():
        return _import(graph, made, clear_devices, import_scope, input_map,
                       restore_collections_predicate)


def copy_scoped_meta_graph(from_scope, to_scope, from_graph=None,
                           to_graph=None):
    """Copies what is in a name scope to another scope or graph.

    Returns:
      {name without the scope: variable of the copy}.

    Raises:
      ValueError: if both are the same scope of the same graph.
    """
    from_graph = from_graph or graphs.get_default_graph()
    to_graph = to_graph or graphs.get_default_graph()
    if from_graph is to_graph and from_scope == to_scope:
        raise ValueError(f"'from_scope' and 'to_scope' need to be different "
                         f"when performing copy in the same graph, got "
                         f"{from_scope!r}")
    made, _ = export_scoped_meta_graph(graph=from_graph,
                                       export_scope=from_scope)
    return import_scoped_meta_graph(made, graph=to_graph, import_scope=to_scope)


def _import(graph, made, clear_devices, scope, input_map, wanted):
    definition = made.graph_def
    if clear_devices:
        definition = node_def.without_devices(definition)
    missing = {i for node in definition.node for i in node.input
               if "$unbound_inputs_" in i} - set(input_map or {})
    if missing:
        raise ValueError(f"Graph contains unbound inputs: {sorted(missing)}. "
                         f"Must provide these inputs through input_map.")
    prefix = graph.unique_name(scope) if scope else graph.get_name_scope()
    graph._import(definition.SerializeToString(), prefix,
                  dict(input_map or {}), [])
    prefix += "/" if prefix else ""
    if any(key in made.collection_def for key in _CONTEXT_KEYS):
        contexts = protos.MetaGraphDef()
        for key in _CONTEXT_KEYS & set(made.collection_def):
            contexts.collection_def[key].CopyFrom(made.collection_def[key])
        _core.take_contexts(graph, prefix, contexts.SerializeToString())
    for key, collection in made.collection_def.items():
        kind = collection.WhichOneof("kind")
        if key == _ITERATORS:
            _import_iterators(graph, collection, prefix)
            continue
        if key in _CONTEXT_KEYS or not wanted(key):
            continue
        for value in getattr(collection, kind).value if kind else ():
            if kind == "node_list":
                value = graph.as_graph_element(prefix + value)
            elif kind == "bytes_list":
                value = _made_of_bytes(graph, key, value, prefix)
            graph.add_to_collection(key, value)
    return {v.name[len(prefix):]: v for v in graph.get_collection(
        graphs.GraphKeys.GLOBAL_VARIABLES) if v.name.startswith(prefix)}


class _Unknown:
    """The iterator behind imported operations, of which nothing is known."""

    _one_shot = False

    def _start(self, session, feed_dict):
        raise AssertionError("An unknown iterator has no initializer.")

    def _uninitialized(self, op):
        """Returns the error of a step that takes an element."""
        return errors.FailedPreconditionError(
            None, op, f"{op.name}: expected an iterator of this graph, got one "
            f"of an imported graph, whose dataset is not part of the file. "
            f"Feed its elements, or make the dataset in this graph and pass "
            f"its elements as the input_map of the import.")


def _export_iterators(graph, made, scope):
    """Adds the names of the operations that take elements of datasets.

    A dataset is Python's. Without these names a step of the imported graph
    would wait for its elements forever.
    """
    within = scopes.within(scope) if scope else ""
    names = sorted(name for name, (_, does) in graph._iterators.items()
                   if does == "takes" and name.startswith(within))
    if names:
        made.collection_def[_ITERATORS].bytes_list.value.extend(
            name[len(within):].encode() for name in names)


def _import_iterators(graph, collection, prefix):
    unknown = _Unknown()
    if graph._iterators is None:
        graph._iterators = {}
    for name in collection.bytes_list.value:
        graph._iterators[prefix + name.decode()] = (unknown, "takes")


def _made_of_bytes(graph, key, value, prefix):
    """Decodes an item of a collection of variables or registered messages."""
    from_proto = registries.get_from_proto_function(key)
    if from_proto is not None:
        message = registries.get_collection_proto_type(key)()
        message.ParseFromString(value)
        return from_proto(message, import_scope=prefix.rstrip("/"))
    if key not in _VARIABLE_KEYS:
        return value
    definition = protos.VariableDef.FromString(value)
    known = graph.__dict__.setdefault("_variables_by_handle", {})
    name = prefix + definition.variable_name
    if name not in known:
        known[name] = graphs._variable_from_def(definition, graph, prefix)
    return known[name]


# The loops and conditionals, which the library knows.
_CONTEXT_KEYS = {graphs.GraphKeys.COND_CONTEXT, graphs.GraphKeys.WHILE_CONTEXT}
_ITERATORS = "iterators"
_VARIABLE_KEYS = {
    getattr(graphs.GraphKeys, name)
    for name in ("GLOBAL_VARIABLES", "TRAINABLE_VARIABLES", "LOCAL_VARIABLES",
                 "MODEL_VARIABLES", "METRIC_VARIABLES",
                 "MOVING_AVERAGE_VARIABLES", "GLOBAL_STEP", "WEIGHTS",
                 "BIASES")}
