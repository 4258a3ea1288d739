"""Higher-order functions over tensors: map, fold, scan."""

from sluice import _core
from sluice.framework import dtypes, graph as graphs, nest, tensor_shape
from sluice.framework.conversion import convert_to_tensor
from sluice.ops import array_ops, control_flow
from sluice.ops.tensor_array import TensorArray


def _arrays(elems, n):
    """Returns a TensorArray of the slices of each tensor."""
    return [TensorArray(e.dtype, n).unstack(e) for e in elems]


def _count(elems):
    """Returns (number of slices as a tensor, static number or None)."""
    if not elems:
        raise ValueError("elems must be a Tensor or (possibly nested) sequence "
                         "of Tensors. Got none.")
    known = tensor_shape.TensorShape([None])
    for e in elems:
        if e.shape.ndims == 0:
            raise ValueError(f"elems must be 1+ dimensional Tensors, not "
                             f"scalars (a 1+ dimensional Tensor, not a scalar): "
                             f"got {e}")
        known = known.merge_with(e.shape[:1]) if e.shape.ndims else known
    n = known.as_list()[0]
    return (array_ops.shape(elems[0])[0] if n is None
            else convert_to_tensor(n)), n


def _tensors(structure):
    return [convert_to_tensor(e, name="elem") for e in nest.flatten(structure)]


def map_fn(fn, elems, dtype=None, parallel_iterations=None, back_prop=True,
           swap_memory=False, infer_shape=True, name=None,
           fn_output_signature=None):
    """Applies `fn` to each slice along the first dimension; stacks the results.

    `elems` may be a structure of tensors of the same length. `dtype` is the
    structure of the dtypes that `fn` returns, if it differs from `elems`.
    """
    if not callable(fn):
        raise TypeError(f"The provided function {fn} is not callable.")
    dtype = fn_output_signature if dtype is None else dtype
    with graphs.name_scope(name, "map", nest.flatten(elems)):
        flat = _tensors(elems)
        types = nest.map_structure(
            lambda t: dtypes.as_dtype(getattr(t, "dtype", t)), dtype) if (
                dtype is not None) else nest.pack_sequence_as(
                elems, [e.dtype.base_dtype for e in flat])
        n, known = _count(flat)
        inputs = _arrays(flat, n)
        outputs = [TensorArray(t, n, infer_shape=infer_shape)
                   for t in nest.flatten(types)]

        def body(i, arrays):
            result = fn(nest.pack_sequence_as(elems,
                                              [a.read(i) for a in inputs]))
            nest.assert_same_structure(types, result)
            return i + 1, [a.write(i, v) for a, v in
                           zip(arrays, nest.flatten(result))]

        _, filled = control_flow.while_loop(
            lambda i, _: i < n, body, (0, outputs),
            parallel_iterations=parallel_iterations or 10, back_prop=back_prop,
            swap_memory=swap_memory, maximum_iterations=n)
        results = [a.stack() for a in filled]
        for r in results:
            if r.shape.ndims:
                r.set_shape([known] + r.shape.as_list()[1:])
        return nest.pack_sequence_as(types, results)


def _fold(fn, elems, initializer, parallel_iterations, back_prop, swap_memory,
          name, backwards):
    with graphs.name_scope(name, "foldr" if backwards else "foldl",
                           nest.flatten(elems)):
        flat = _tensors(elems)
        n, _ = _count(flat)
        inputs = _arrays(flat, n)

        def element(i):
            at = n - 1 - i if backwards else i
            return nest.pack_sequence_as(elems, [a.read(at) for a in inputs])

        if initializer is None:
            last = element(convert_to_tensor(0))
            start = nest.map_structure(array_ops.identity, last)
            first = 1
            # Each element can be read only once.
            inputs = _arrays(flat, n)
        else:
            start, first = nest.map_structure(convert_to_tensor,
                                              initializer), 0
        _, result = control_flow.while_loop(
            lambda i, _: i < n, lambda i, a: (i + 1, fn(a, element(i))),
            (first, start), parallel_iterations=parallel_iterations,
            back_prop=back_prop, swap_memory=swap_memory,
            maximum_iterations=n)
        return result


def foldl(fn, elems, initializer=None, parallel_iterations=10, back_prop=True,
          swap_memory=False, name=None):
    """Returns fn(... fn(fn(initializer, e0), e1) ..., en) over the slices."""
    if not callable(fn):
        raise TypeError(f"{fn.__class__.__name__} is not callable.")
    return _fold(fn, elems, initializer, parallel_iterations, back_prop,
                 swap_memory, name, False)


def foldr(fn, elems, initializer=None, parallel_iterations=10, back_prop=True,
          swap_memory=False, name=None):
    """Works like `foldl`, but from the last slice to the first."""
    if not callable(fn):
        raise TypeError(f"{fn.__class__.__name__} is not callable.")
    return _fold(fn, elems, initializer, parallel_iterations, back_prop,
                 swap_memory, name, True)


def scan(fn, elems, initializer=None, parallel_iterations=10, back_prop=True,
         swap_memory=False, infer_shape=True, reverse=False, name=None):
    """Returns the stacked intermediate results of `foldl`."""
    if not callable(fn):
        raise TypeError(f"{fn.__class__.__name__} is not callable.")
    with graphs.name_scope(name, "scan", nest.flatten(elems)):
        flat = _tensors(elems)
        n, known = _count(flat)
        inputs = _arrays(flat, n)

        def at(i):
            return n - 1 - i if reverse else i

        def element(i):
            return nest.pack_sequence_as(elems,
                                         [a.read(at(i)) for a in inputs])

        if initializer is None:
            start = nest.map_structure(array_ops.identity,
                                       element(convert_to_tensor(0)))
            inputs = _arrays(flat, n)
            first = 1
        else:
            start = nest.map_structure(convert_to_tensor, initializer)
            first = 0
        outputs = [TensorArray(v.dtype, n, infer_shape=infer_shape,
                               element_shape=v.shape if infer_shape else None)
                   for v in nest.flatten(start)]
        if first:
            outputs = [a.write(at(convert_to_tensor(0)), v) for a, v in
                       zip(outputs, nest.flatten(start))]

        def body(i, state, arrays):
            state = fn(state, element(i))
            return i + 1, state, [
                a.write(at(i), v) for a, v in zip(arrays, nest.flatten(state))]

        _, _, filled = control_flow.while_loop(
            lambda i, *_: i < n, body, (first, start, outputs),
            parallel_iterations=parallel_iterations, back_prop=back_prop,
            swap_memory=swap_memory, maximum_iterations=n)
        results = [a.stack() for a in filled]
        for r in results:
            if r.shape.ndims:
                r.set_shape([known] + r.shape.as_list()[1:])
        return nest.pack_sequence_as(start, results)


# ---- Ops that call functions of the graph (`functional_ops`) -----------------


def _results(f):
    """Returns the result dtypes of a Defun."""
    return [dtypes.as_dtype(a.type) for a in f.definition.signature.output_arg]


def If(cond, inputs, then_branch, else_branch, name=None):
    """Returns the list of results of one of two Defuns for `inputs`."""
    types = _results(then_branch)
    if types != _results(else_branch):
        raise ValueError(f"If: expected branches of the same types, got "
                         f"{types} and {_results(else_branch)}")
    return _core.op("If")(cond, inputs, Tout=types, then_branch=then_branch,
                          else_branch=else_branch, name=name)


def Gradient(inputs, f, name=None):
    """Returns the gradients of a Defun with respect to its arguments.

    `inputs` are the arguments followed by the gradients of the results.
    """
    return _core.op("SymbolicGradient")(
        inputs, Tout=list(f.declared_input_types), f=f, name=name)


def partitioned_call(args, f, tout=None, executing_eagerly=None, config=None,
                     executor_type=None):
    """Calls a Defun; returns its results, or the operation if it has none."""
    return _core.op("PartitionedCall")(
        list(args) + list(f.captured_inputs),
        Tout=_results(f) if tout is None else tout, f=f, config=config or "",
        executor_type=executor_type or "")
