"""Conditionals, loops and control dependencies."""

from sluice import _core
from sluice.framework import (
    conversion, dtypes, graph as graphs, nest, tensor_shape, type_spec)
from sluice.framework.conversion import convert_to_tensor
from sluice.ops import array_ops, math_ops

_no_op = _core.op("NoOp")
_identity = _core.op("Identity")


def no_op(name=None):
    """Returns an operation that does nothing."""
    return _no_op(name=name)


def group(*inputs, **kwargs):
    """Returns an operation that runs after all inputs.

    For inputs on several devices it depends on one such operation per device.
    """
    name = kwargs.pop("name", None)
    if kwargs:
        raise ValueError(f"Unknown keyword arguments: {', '.join(kwargs)}")
    leaves = nest.flatten(list(inputs))
    for leaf in leaves:
        if not hasattr(leaf, "device"):
            raise TypeError(f"Expected tf.group() expected Tensor objects not "
                            f"{leaf!r} with type {type(leaf)}")
    on_device = {}
    for leaf in leaves:
        on_device.setdefault(leaf.device or "", []).append(leaf)
    with graphs.name_scope(name, "group_deps", leaves) as scope:
        if len(on_device) == 1:
            (device, deps), = on_device.items()
            return _after(deps, device, scope)
        return _after([_after(on_device[device], device, None)
                       for device in sorted(on_device)], "", scope)


def _after(deps, device, name):
    with graphs.control_dependencies(deps), graphs.device(device):
        return _no_op(name=name)


def switch(data, pred, dtype=None, name=None):
    """Returns (data if `pred` is false, data if it is true); one is dead."""
    if len(_parts(data)) > 1:  # Switches each part of a composite tensor.
        with graphs.name_scope(name, "Switch"):
            sides = zip(*[switch(part, pred) for part in _parts(data)])
            return builtins_tuple(_join(data, side) for side in sides)
    data = convert_to_tensor(data, dtype)
    return _core.op("RefSwitch" if data.dtype._is_ref_dtype else "Switch")(
        data, pred, name=name)


def merge(inputs, name=None):
    """Returns (the input that is not dead, its index)."""
    if any(x is None for x in inputs):
        raise ValueError("At least one of the merge inputs is None: "
                         f"{inputs}")
    if all(len(_parts(x)) > 1 for x in inputs):
        with graphs.name_scope(name, "Merge"):
            merged = [merge(column) for column in zip(*map(_parts, inputs))]
            return (_join(inputs[0], [value for value, _ in merged]),
                    merged[0][1])
    inputs = [convert_to_tensor(x) for x in inputs]
    refs = all(x.dtype._is_ref_dtype for x in inputs)
    return _core.op("RefMerge" if refs else "Merge")(inputs, name=name)


def _of_each_part(op_type, data, name, **attrs):
    """Applies an op, or its twin for references, to each part of a leaf."""
    if len(_parts(data)) > 1:
        with graphs.name_scope(name, op_type):
            return _join(data, [_of_each_part(op_type, part, None, **attrs)
                                for part in _parts(data)])
    data = convert_to_tensor(data)
    ref = "Ref" if data.dtype._is_ref_dtype else ""
    return _core.op(ref + op_type)(data, name=name, **attrs)


def exit(data, name=None):
    """Returns a value of a loop's frame to the frame around it.

    For loops that are made of Enter, Merge, Switch, NextIteration and Exit.
    """
    return _of_each_part("Exit", data, name)


def with_dependencies(dependencies, output_tensor, name=None):
    """Returns `output_tensor` with control dependencies."""
    with graphs.name_scope(name, "control_dependency") as scope:
        if not isinstance(output_tensor, conversion.IndexedSlices):
            output_tensor = convert_to_tensor(output_tensor)
            with graphs.colocate_with(
                    output_tensor), graphs.control_dependencies(dependencies):
                return _identity(output_tensor, name=scope)
        values = output_tensor.values
        with graphs.colocate_with(values), graphs.control_dependencies(
                dependencies):
            return conversion.IndexedSlices(
                _identity(values) if isinstance(values, _core.Tensor)
                else values.read_value(),
                output_tensor.indices, output_tensor.dense_shape)


def tuple(tensors, name=None, control_inputs=None):
    """Returns the tensors, each with a dependency on all of them."""
    with graphs.name_scope(name, "tuple", tensors):
        after = [t for t in tensors if t is not None]
        if not after:
            raise ValueError(f"'tensors' must have at least one Tensor. "
                             f"Received: {tensors}.")
        gate = group(*after, *(control_inputs or []))

        def behind(t):
            if t is None:
                return None
            if isinstance(t, _core.Operation):
                with graphs.control_dependencies([gate]):
                    return group(t)
            return with_dependencies([gate], t)
        return [behind(t) for t in tensors]


# ---- Nested structures -------------------------------------------------------


def _parts(value):
    """Returns the component tensors of a leaf."""
    if hasattr(value, "_flow_of_array"):
        return [value.flow]
    return conversion.parts(value)


def _leaf(value):
    """Converts a leaf to a tensor, unless it is composite."""
    has_parts = isinstance(value, (
        conversion.IndexedSlices, conversion.SparseTensor)) or hasattr(
            value, "_flow_of_array")
    return value if has_parts else convert_to_tensor(value)


def _part_shapes(value, shape):
    """Returns the static shapes of a leaf's parts in all iterations.

    `shape` is the leaf's shape invariant: a TypeSpec, a TensorShape, or None.
    As in TensorFlow, a TensorShape is the shape of `dense_shape` for a
    SparseTensor, and of the values for IndexedSlices.
    """
    if isinstance(shape, type_spec.TypeSpec):
        if not shape.is_compatible_with(value):
            raise TypeError(f"TypeSpec {shape} is not compatible with {value}")
        return [part.shape for part in nest.flatten(shape._component_specs)]
    if isinstance(value, conversion.SparseTensor):
        shape = value.dense_shape.shape if shape is None else shape
        if shape.ndims not in (1, None):
            raise ValueError(f"Expected a shape with 1 dimension. Obtained: "
                             f"{shape} which has {shape.ndims} dimensions.")
        rank = shape.as_list()[0] if shape.ndims else None
        return [tensor_shape.TensorShape(s)
                for s in ([None, rank], [None], [rank])]
    if shape is None:
        return [part.shape for part in _parts(value)]
    if isinstance(value, conversion.IndexedSlices):
        shapes = [shape, shape[:1], tensor_shape.TensorShape([shape.ndims])]
        return shapes[:len(_parts(value))]
    return [shape]


def _join(like, parts):
    """Makes a leaf of the kind of `like` from its parts."""
    if isinstance(like, conversion.IndexedSlices):
        return conversion.IndexedSlices(*parts)
    if isinstance(like, conversion.SparseTensor):
        return conversion.SparseTensor(*parts)
    if hasattr(like, "_flow_of_array"):
        return like._flow_of_array(parts[0])
    return parts[0]


def _flatten(structure):
    return [part for leaf in nest.flatten(structure) for part in _parts(leaf)]


def _pack(structure, tensors):
    tensors = iter(tensors)
    leaves = [_join(leaf, [next(tensors) for _ in _parts(leaf)])
              for leaf in nest.flatten(structure)]
    return nest.pack_sequence_as(structure, leaves)


# ---- Conditionals ------------------------------------------------------------


def cond(pred, true_fn=None, false_fn=None, strict=False, name=None, fn1=None,
         fn2=None):
    """Returns `true_fn()` if `pred` is true, else `false_fn()`.

    Both functions are called once to build their branches, but only the taken
    branch runs. They must return the same structure of tensors with the same
    dtypes.

    Raises:
      TypeError, ValueError: if the results differ, or one is not callable.
    """
    true_fn = _one_of(true_fn, "true_fn", fn1, "fn1")
    false_fn = _one_of(false_fn, "false_fn", fn2, "fn2")
    if not callable(true_fn):
        raise TypeError("'true_fn' must be callable.")
    if not callable(false_fn):
        raise TypeError("'false_fn' must be callable.")
    if isinstance(pred, bool):
        raise TypeError("'pred' must not be a Python bool.")
    pred = convert_to_tensor(pred, name="pred")
    structures = []

    def branch(fn):
        def build():
            result = fn()
            if not strict:
                result = _unpacked(result)
            if result is None:
                which = "false_fn" if structures else "true_fn"
                raise ValueError(f"'{which}' must have a return value.")
            structure = nest.map_structure(
                lambda value: _branch_value(value, pred), result)
            if not nest.flatten(structure):
                raise ValueError("'true_fn' and 'false_fn' must return at "
                                 "least one result.")
            structures.append(structure)
            return [_value_of(p) for p in _flatten(structure)]
        return build

    if isinstance(pred, _core.Tensor) and not pred.dtype.is_bool:
        raise TypeError(f"cond: expected a predicate that is a boolean scalar, "
                        f"got {pred}")
    merged = _cond(pred, branch(true_fn), branch(false_fn), structures,
                   name or "cond")
    packed = _pack(structures[0], merged)
    return packed if strict else _unpacked(packed)


builtins_tuple = type(())


def _one_of(value, name, old_value, old_name):
    """Returns the value of an argument that has an alias."""
    if value is not None and old_value is not None:
        raise TypeError(f"cond(): '{name}' and '{old_name}' may not be set "
                        f"simultaneously.")
    return old_value if value is None else value


def _unpacked(result):
    """Returns the only element of a list or tuple, or else the value."""
    one = isinstance(result, (list, builtins_tuple)) and len(result) == 1
    return result[0] if one else result


def _cond(pred, then_fn, else_fn, structures, name):
    indices = set()  # Which parts are the indices of IndexedSlices.

    def checked_else():
        values = else_fn()
        one, two = structures
        try:
            nest.assert_same_structure(one, two)
        except (ValueError, TypeError) as e:
            raise type(e)(f"Outputs of true_fn and false_fn must have the "
                          f"same structure: {e}") from None
        at = 0
        for leaf in nest.flatten(one):
            if isinstance(leaf, conversion.IndexedSlices):
                indices.add(at + 1)
            at += len(_parts(leaf))
        for i, (a, b) in enumerate(zip(_flatten(one), values)):
            if a.dtype.base_dtype is not b.dtype.base_dtype and not (
                    i in indices and a.dtype.is_integer and
                    b.dtype.is_integer):
                raise ValueError(
                    f"Outputs of true_fn and false_fn must have the same "
                    f"type: {a.dtype.name}, {b.dtype.name}")
        return values
    return _core.cond(pred, then_fn, checked_else, indices, name)


def _branch_value(value, pred):
    if isinstance(value, _core.Operation):  # Becomes `pred` that waits for it.
        return with_dependencies([value], pred)
    return _leaf(value)


def smart_constant_value(pred):
    """Returns the static value of a predicate, or None if it is unknown."""
    if hasattr(pred, "value") and not isinstance(pred, _core.Tensor):
        pred = pred.value()  # `pred` is a variable.
    if not isinstance(pred, _core.Tensor):
        try:
            return {0: False, 1: True}[pred]
        except (KeyError, TypeError):  # TypeError: `pred` is not hashable.
            raise TypeError(f"`pred` must be a Tensor, or a Python bool, or 1 "
                            f"or 0. Found instead: {type(pred)}") from None
    known = conversion.constant_value(pred)
    return None if known is None else bool(known)


def smart_cond(pred, true_fn=None, false_fn=None, name=None):
    """Works like `cond`, but calls only one function if `pred` is constant."""
    for fn, what in ((true_fn, "true_fn"), (false_fn, "false_fn")):
        if not callable(fn):
            raise TypeError(f"`{what}` must be callable.")
    known = smart_constant_value(pred)
    if known is None:
        return cond(pred, true_fn, false_fn, name=name)
    return true_fn() if known else false_fn()


def smart_case(pred_fn_pairs, default=None, exclusive=False,
               name="smart_case"):
    """Works like `case`, but omits branches whose predicates are constants."""
    pairs = list(pred_fn_pairs.items() if isinstance(pred_fn_pairs, dict)
                 else pred_fn_pairs)
    unknown = []
    for pred, fn in pairs:
        known = smart_constant_value(pred)
        if known:  # The following branches are unreachable.
            default = fn
            break
        if known is None:
            unknown.append((pred, fn))
    if unknown or default is None:
        return case(unknown, default, exclusive, name=name)
    return default()


def case(pred_fn_pairs, default=None, exclusive=False, strict=False,
         name="case"):
    """Returns the result for the first true predicate, or else `default()`."""
    pairs = list(pred_fn_pairs.items() if isinstance(pred_fn_pairs, dict)
                 else pred_fn_pairs)
    if not pairs and default is None:
        raise ValueError("case: expected a branch, got none")
    for pair in pairs:
        if not isinstance(pair, builtins_tuple) or len(pair) != 2:
            raise TypeError(f"Each entry in 'pred_fn_pairs' must be a 2-tuple. "
                            f"Received {pair}.")
        pred, fn = pair
        if not isinstance(pred, _core.Tensor) or not pred.dtype.is_bool:
            raise TypeError(f"pred must be Tensor of type bool: {pred}")
        if not callable(fn):
            raise TypeError(f"fn for pred {pred.name} must be callable.")
    with graphs.name_scope(name):
        checks = []
        preds = [p for p, _ in pairs]
        if exclusive and len(preds) > 1:
            holding = math_ops.reduce_sum(
                math_ops.cast(array_ops.stack(preds), dtypes.int32))
            checks.append(Assert(holding < 2, [
                "More than one condition evaluated as True but "
                "exclusive=True.", holding]))
        if default is None:
            checks.append(Assert(math_ops.reduce_any(array_ops.stack(preds)), [
                "None of the conditions evaluated as True.",
                array_ops.stack(preds)]))
            default = pairs.pop()[1]
        result = default
        for pred, fn in reversed(pairs):
            result = (lambda p, f, rest: lambda: cond(p, f, rest, strict))(
                pred, fn, result)
        with graphs.control_dependencies(checks):
            out = result()
            return nest.map_structure(
                lambda x: _identity(x) if isinstance(x, _core.Tensor) else x,
                out) if checks else out


def switch_case(branch_index, branch_fns, default=None, name="switch_case"):
    """Returns branch_fns[branch_index]().

    If there is no such branch, returns `default()`, or the result of the last
    branch if there is no default.
    """
    if not isinstance(branch_fns, (dict, list, builtins_tuple)):
        raise TypeError(f"'branch_fns' must be a list, tuple, or dict. "
                        f"Received {branch_fns}.")
    if not branch_fns:
        raise ValueError("Must provide at least one item in 'branch_fns'")
    numbered = list(branch_fns.items() if isinstance(branch_fns, dict)
                    else branch_fns)
    if all(callable(fn) for fn in numbered):
        numbered = list(enumerate(numbered))
    for pair in numbered:
        if not isinstance(pair, builtins_tuple) or len(pair) != 2:
            raise TypeError(f"Each entry in 'branch_fns' must be a 2-tuple. "
                            f"Received {pair}.")
        i, fn = pair
        if not isinstance(i, int):
            raise TypeError(f"key must be a Python `int`, got {type(i)}")
        if not callable(fn):
            raise TypeError(f"fn for index {i} must be callable.")
    numbered.sort(key=lambda pair: pair[0])
    if [i for i, _ in numbered] != list(range(len(numbered))):
        raise ValueError(f"branch indices (keys) must form contiguous range of "
                         f"[0 to {len(numbered)}) but found "
                         f"{[i for i, _ in numbered]}")
    with graphs.name_scope(name):
        index = convert_to_tensor(branch_index, name="branch_index")
        if index.dtype.base_dtype is not dtypes.int32:
            raise TypeError(f"'branch_index' must be an int32 Tensor, got "
                            f"{index.dtype!r}")
        if default is None:
            default = numbered.pop()[1]
        if not numbered:
            return default()
        return case([(math_ops.equal(index, i), fn) for i, fn in numbered],
                    default, strict=True)


def Assert(condition, data, summarize=None, name=None):
    """Returns an operation that fails with `data` unless `condition` holds."""
    with graphs.name_scope(name, "Assert", [condition, data]):
        data = [convert_to_tensor(d) for d in data]
        return _core.op("Assert")(condition, data,
                                  summarize=3 if summarize is None
                                  else summarize, name="Assert")


def Print(input_, data, message=None, first_n=None, summarize=None, name=None):
    """Returns `input_` and prints `data` to stderr when it is evaluated."""
    return _core.op("Print")(
        input_, data, message=message or "",
        first_n=-1 if first_n is None else first_n,
        summarize=3 if summarize is None else summarize, name=name)


# ---- Loops -------------------------------------------------------------------


def while_loop(cond, body, loop_vars, shape_invariants=None,
               parallel_iterations=10, back_prop=True, swap_memory=False,
               name=None, maximum_iterations=None, return_same_structure=False,
               *, batch=False):
    """Repeats `body` while `cond` is true; returns the final loop variables.

    Args:
      cond: a function of the loop variables that returns a boolean scalar.
      body: a function of the loop variables that returns their next values in
        the same structure.
      loop_vars: a list or tuple of tensors or structures of tensors.
      shape_invariants: the static shapes that hold in all iterations, as
        TensorShapes or TypeSpecs in the same structure; default to the initial
        shapes.
      parallel_iterations: the maximum number of concurrent iterations.
      back_prop: whether the loop is differentiable.
      swap_memory: whether values needed by the gradients may be moved to
        slower memory.
      maximum_iterations: the maximum number of iterations.
      return_same_structure: whether a single variable is returned in a list.
      batch: whether instances of the same operation in different iterations,
        of this loop and of loops and functions within, run as one where they
        can. Results are equal within rounding. (Not in TensorFlow.
        `Session(batch_frames=True)` asks for it everywhere.)
    """
    if not callable(cond):
        raise TypeError("'cond' must be callable.")
    if not callable(body):
        raise TypeError("'body' must be callable.")
    if not loop_vars:
        raise ValueError("'loop_vars' must be provided.")
    if not isinstance(parallel_iterations, int) or parallel_iterations < 1:
        raise TypeError("'parallel_iterations' must be a positive integer.")
    if not isinstance(loop_vars, (list, builtins_tuple)):
        loop_vars = [loop_vars]
    with graphs._default_for(nest.flatten(loop_vars)).as_default():
        return _while(cond, body, loop_vars, shape_invariants,
                      parallel_iterations, back_prop, swap_memory, name,
                      maximum_iterations, return_same_structure, batch)


def _while(cond, body, loop_vars, shape_invariants, parallel_iterations,
           back_prop, swap_memory, name, maximum_iterations,
           return_same_structure, batch):
    init = nest.map_structure(_leaf, loop_vars)
    leaves = nest.flatten(init)
    invariants = []
    if shape_invariants is not None or any(
            isinstance(value, conversion.SparseTensor) for value in leaves):
        shapes = ([None] * len(leaves) if shape_invariants is None else
                  _flat_shapes(loop_vars, shape_invariants))
        for value, shape in zip(leaves, shapes):
            invariants += _part_shapes(value, shape)
    limit = None
    if maximum_iterations is not None:
        limit = convert_to_tensor(maximum_iterations,
                                  name="maximum_iterations")
        if limit.shape.ndims not in (0, None):
            raise ValueError(f"maximum_iterations must be a scalar, saw shape: "
                             f"{limit.shape}")

    def call_cond(values):
        going_on = convert_to_tensor(cond(*_pack(init, values)))
        if not going_on.dtype.is_bool:
            raise TypeError(f"while_loop: expected a condition that is a "
                            f"boolean scalar, got {going_on}")
        return [going_on]

    def call_body(values):
        result = body(*_pack(init, values))
        # As in TensorFlow, a nested single variable needs its list.
        bare = not nest.is_nested(result) or (
            len(init) == 1 and nest.is_nested(init[0]) and not (
                isinstance(result, (list, builtins_tuple)) and
                len(result) == 1 and nest.is_nested(result[0])))
        if bare:
            result = [result]
        try:  # Lists and tuples are interchangeable at the top level.
            nest.assert_same_structure(list(init), list(result))
        except (ValueError, TypeError) as e:
            raise type(e)(f"The two structures don't have the same nested "
                          f"structure: the loop variables and what the body "
                          f"returned. {e}") from None
        returned[:] = [result, bare]
        next_values = []
        for i, (value, like) in enumerate(zip(nest.flatten(result), leaves)):
            if len(_parts(like)) == 1 and not hasattr(like, "_flow_of_array"):
                value = convert_to_tensor(value,
                                          dtype_hint=like.dtype.base_dtype)
                if value.dtype.base_dtype is not like.dtype.base_dtype:
                    raise TypeError(
                        f"Loop variable {i} ({like.name}) enters the loop with "
                        f"type {like.dtype.base_dtype.name}, but has type "
                        f"{value.dtype.base_dtype.name} after one iteration.")
            next_values += _parts(value)
        return next_values

    returned = []
    results = _core.while_loop(
        call_cond, call_body, [_value_of(t) for t in _flatten(init)],
        invariants, parallel_iterations, bool(back_prop), bool(swap_memory),
        limit, name or "while", bool(batch))
    # As in TensorFlow, the result has the structure that the body returns.
    structure, bare = returned
    packed = _pack(nest.pack_sequence_as(structure, leaves), results)
    one = bare or len(results) == 1
    return packed[0] if one and not return_same_structure else packed


def _value_of(tensor):
    """Returns the current value of a reference; other tensors unchanged."""
    return _identity(tensor) if tensor.dtype._is_ref_dtype else tensor


def _flat_shapes(like, shapes):
    """Returns one TensorShape or TypeSpec per leaf of `like`."""
    if isinstance(shapes, type_spec.TypeSpec) and not nest.is_nested(like):
        return [shapes]
    if isinstance(shapes, tensor_shape.TensorShape) or not nest.is_nested(
            like):
        return [tensor_shape.as_shape(shapes)]
    children = nest._children(like)
    given = nest._children(shapes)
    if len(children) != len(given):
        raise ValueError("The two structures don't have the same nested "
                         "structure: loop_vars and shape_invariants")
    return [s for child, shape in zip(children, given)
            for s in _flat_shapes(child, shape)]
