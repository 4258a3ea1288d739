"""Functions over the slices of tensors: map, fold, scan."""

from sluice import _core
from sluice.framework import dtypes, graph as graphs, nest, tensor_shape
from sluice.framework.conversion import convert_to_tensor
from sluice.ops import array_ops, control_flow
from sluice.ops.tensor_array import TensorArray


def _arrays(elems, n):
    """The slices of each tensor."""
    return [TensorArray(e.dtype, n).unstack(e) for e in elems]


def _count(elems):
    """How many slices there are, and the known number or None."""
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
    """fn of each slice along the first dimension, stacked.

    `elems` may be a structure of tensors of one length; `dtype` is the
    structure of types that fn gives, where that is another than it takes.
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
            # (An element is read once.)
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
    """fn(... fn(fn(initializer, e0), e1) ..., en) over the slices."""
    if not callable(fn):
        raise TypeError(f"{fn.__class__.__name__} is not callable.")
    return _fold(fn, elems, initializer, parallel_iterations, back_prop,
                 swap_memory, name, False)


def foldr(fn, elems, initializer=None, parallel_iterations=10, back_prop=True,
          swap_memory=False, name=None):
    """`foldl`, from the last slice to the first."""
    if not callable(fn):
        raise TypeError(f"{fn.__class__.__name__} is not callable.")
    return _fold(fn, elems, initializer, parallel_iterations, back_prop,
                 swap_memory, name, True)


def scan(fn, elems, initializer=None, parallel_iterations=10, back_prop=True,
         swap_memory=False, infer_shape=True, reverse=False, name=None):
    """What `foldl` has after each slice, stacked."""
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


# ---- Functions of the graph, under the names of `functional_ops` -------------


def _results(f):
    """The types of what a Defun gives."""
    return [dtypes.as_dtype(a.type) for a in f.definition.signature.output_arg]


def If(cond, inputs, then_branch, else_branch, name=None):
    """What one of two Defuns gives for `inputs`: a list."""
    types = _results(then_branch)
    if types != _results(else_branch):
        raise ValueError(f"If: expected branches of the same types, got "
                         f"{types} and {_results(else_branch)}")
    return _core.op("If")(cond, inputs, Tout=types, then_branch=then_branch,
                          else_branch=else_branch, name=name)


def Gradient(inputs, f, name=None):
    """The gradients of a Defun with respect to its arguments, which are the
    first of `inputs`; the others are the gradients of its results."""
    return _core.op("SymbolicGradient")(
        inputs, Tout=list(f.declared_input_types), f=f, name=name)


def partitioned_call(args, f, tout=None, executing_eagerly=None, config=None,
                     executor_type=None):
    """What a Defun gives for `args`: a list, or the operation if it gives
    nothing."""
    return _core.op("PartitionedCall")(
        list(args) + list(f.captured_inputs),
        Tout=_results(f) if tout is None else tout, f=f, config=config or "",
        executor_type=executor_type or "")
