"""Functions that run a recurrent cell along sequences."""

from sluice.framework import dtypes, graph as graphs, nest, tensor_shape
from sluice.framework.conversion import convert_to_tensor
from sluice.layers.rnn_cell import assert_like_rnncell, size_of, zeros_of
from sluice.ops import (
    array_ops, control_flow, math_ops, variable_scope as scopes)
from sluice.ops.tensor_array import TensorArray


def batch_and_time_swapped(x):
    """Swaps the first two dimensions of a tensor."""
    x = convert_to_tensor(x)
    n = x.shape.ndims
    if n is None:
        return array_ops.transpose(x, array_ops.concat(
            [[1, 0], math_ops.range(2, array_ops.rank(x))], 0))
    if n < 2:
        raise ValueError(f"Expected tensor for RNN inputs of rank at least 2, "
                         f"got shape {x.shape}")
    swapped = array_ops.transpose(x, [1, 0] + list(range(2, n)))
    dims = x.shape.as_list()
    swapped.set_shape([dims[1], dims[0]] + dims[2:])
    return swapped


def _batch_size(tensors, axis):
    """Returns the number of sequences, as a number if it is known."""
    for x in tensors:
        if x.shape.ndims is not None and x.shape.as_list()[axis] is not None:
            return x.shape.as_list()[axis]
    return array_ops.shape(tensors[0])[axis]


def _lengths(sequence_length, batch_size):
    """Checks lengths of sequences and converts them to int32."""
    if sequence_length is None:
        return None
    lengths = math_ops.cast(convert_to_tensor(sequence_length), dtypes.int32)
    if lengths.shape.ndims not in (None, 1):
        raise ValueError(f"sequence_length must be a vector of length "
                         f"batch_size, but saw shape: {lengths.shape}")
    rows = array_ops.shape(lengths)
    check = control_flow.Assert(
        math_ops.reduce_all(math_ops.equal(rows, array_ops.stack(
            [batch_size]))),
        ["Expected shape for Tensor sequence_length:0 is ", [batch_size],
         " but saw shape: ", rows])
    with graphs.control_dependencies([check]):
        return array_ops.identity(lengths, name="sequence_length")


def _start_state(cell, state, batch_size, dtype):
    if state is not None:
        return nest.map_structure(convert_to_tensor, state)
    if dtype is None:
        raise ValueError("If there is no initial_state, you must give a "
                         "dtype.")
    if hasattr(cell, "zero_state"):
        return cell.zero_state(batch_size, dtype)
    return cell.get_initial_state(batch_size=batch_size, dtype=dtype)


def _keep_where(kept, old, new):
    """Returns the old rows where `kept` is true, else the new ones."""
    def leaf(a, b):
        if isinstance(b, TensorArray) or b.shape.ndims == 0:
            return b
        chosen = array_ops.where(kept, a, b)
        chosen.set_shape(b.shape)
        return chosen
    return nest.map_structure(leaf, old, new)


def _state_dtype(dtype, state):
    if dtype is not None:
        return dtypes.as_dtype(dtype)
    found = {s.dtype.base_dtype for s in nest.flatten(state)}
    if not found:
        raise ValueError("Unable to infer dtype from empty state.")
    if len(found) > 1:
        raise ValueError("State has tensors of different inferred_dtypes. "
                         "Unable to infer a single representative dtype.")
    return found.pop()


def dynamic_rnn(cell, inputs, sequence_length=None, initial_state=None,
                dtype=None, parallel_iterations=None, swap_memory=False,
                time_major=False, scope=None):
    """Runs a cell along sequences; returns (all outputs, the final state).

    Args:
      cell: the cell.
      inputs: [batch, time, ...], or [time, batch, ...] if `time_major`; may be
        a structure of such tensors.
      sequence_length: the length of each sequence. Beyond it, outputs are zero
        and the state does not change.
      initial_state: defaults to zeros of type `dtype`.
      scope: the variable scope; defaults to "rnn".
    """
    assert_like_rnncell("cell", cell)
    with scopes.variable_scope(scope or "rnn"):
        inputs = nest.map_structure(
            convert_to_tensor if time_major else batch_and_time_swapped, inputs)
        flat = nest.flatten(inputs)
        batch_size = _batch_size(flat, 1)
        lengths = _lengths(sequence_length, batch_size)
        state = _start_state(cell, initial_state, batch_size, dtype)
        outputs, state = _loop(cell, inputs, flat, batch_size, lengths, state,
                               _state_dtype(dtype, state),
                               parallel_iterations or 32, swap_memory)
        if not time_major:
            outputs = nest.map_structure(batch_and_time_swapped, outputs)
        return outputs, state


def _loop(cell, inputs, flat, batch_size, lengths, state, dtype,
          parallel_iterations, swap_memory):
    known = [x.shape.as_list() for x in flat]
    for x, dims in zip(flat, known):
        if None in dims[2:]:
            raise ValueError(f"Input size (depth of inputs) must be accessible "
                             f"via shape inference, but saw value None for "
                             f"{x}.")
        if dims[0] != known[0][0]:
            raise ValueError(f"Time steps is not the same for all the elements "
                             f"in the input in a batch: {known}")
    batch = batch_size if isinstance(batch_size, int) else None
    steps = array_ops.shape(flat[0])[0] if known[0][0] is None else (
        known[0][0])
    sizes = nest.flatten(cell.output_size)
    zeros = nest.pack_sequence_as(cell.output_size, [
        zeros_of(s, batch_size, dtype) for s in sizes])
    wide = [tensor_shape.TensorShape([batch]).concatenate(size_of(s))
            for s in sizes]
    reads = [TensorArray(x.dtype.base_dtype, steps,
                         element_shape=x.shape[1:]).unstack(x) for x in flat]
    writes = [TensorArray(dtype, steps, element_shape=s) for s in wide]
    # The first step always runs, because it determines the shapes.
    end = steps if lengths is None else math_ops.minimum(
        steps, math_ops.maximum(1, math_ops.reduce_max(lengths)))

    def step(time, arrays, state):
        x = nest.pack_sequence_as(inputs, [a.read(time) for a in reads])
        output, after = cell(x, state)
        nest.assert_same_structure(cell.output_size, output)
        nest.assert_same_structure(state, after)
        if lengths is not None:
            over = time >= lengths
            output = _keep_where(over, zeros, output)
            after = _keep_where(over, state, after)
        return time + 1, [a.write(time, v) for a, v in
                          zip(arrays, nest.flatten(output))], after

    _, filled, state = control_flow.while_loop(
        lambda time, *_: time < end, step,
        (convert_to_tensor(0, name="time"), writes, state),
        parallel_iterations=parallel_iterations, swap_memory=swap_memory,
        maximum_iterations=steps)
    outputs = []
    for array, shape in zip(filled, wide):
        whole = array.stack()
        whole.set_shape([known[0][0]] + shape.as_list())
        outputs.append(whole)
    return nest.pack_sequence_as(cell.output_size, outputs), state


def bidirectional_dynamic_rnn(
        cell_fw, cell_bw, inputs, sequence_length=None, initial_state_fw=None,
        initial_state_bw=None, dtype=None, parallel_iterations=None,
        swap_memory=False, time_major=False, scope=None):
    """Runs a cell forwards and another one backwards along sequences.

    Returns:
      ((forward outputs, backward outputs), (final forward state, final
      backward state)).
    """
    assert_like_rnncell("cell_fw", cell_fw)
    assert_like_rnncell("cell_bw", cell_bw)
    time, batch = (0, 1) if time_major else (1, 0)

    def backwards(x):
        if sequence_length is None:
            return array_ops.reverse(x, [time])
        return array_ops.reverse_sequence(x, sequence_length, time,
                                          batch_axis=batch)

    def along(cell, x, state, name):
        with scopes.variable_scope(name) as own:
            if name == "bw":
                x = nest.map_structure(backwards, x)
            return dynamic_rnn(cell, x, sequence_length, state, dtype,
                               parallel_iterations, swap_memory, time_major,
                               own)

    with scopes.variable_scope(scope or "bidirectional_rnn"):
        inputs = nest.map_structure(convert_to_tensor, inputs)
        outputs_fw, state_fw = along(cell_fw, inputs, initial_state_fw, "fw")
        outputs_bw, state_bw = along(cell_bw, inputs, initial_state_bw, "bw")
        outputs_bw = nest.map_structure(backwards, outputs_bw)
    return (outputs_fw, outputs_bw), (state_fw, state_bw)


def raw_rnn(cell, loop_fn, parallel_iterations=None, swap_memory=False,
            scope=None):
    """Runs a cell in a loop that `loop_fn` controls.

    `loop_fn(time, output, state, loop_state)` returns (whether each sequence is
    finished, the next input, the next state, the value to emit, the next loop
    state). In the first call, output, state and loop state are None, and the
    emitted value only defines dtypes and shapes.

    Returns:
      (arrays of the emitted values, the final state, the final loop state).
    """
    assert_like_rnncell("cell", cell)
    if not callable(loop_fn):
        raise TypeError("loop_fn must be a callable")
    with scopes.variable_scope(scope or "rnn"):
        time = convert_to_tensor(0)
        finished, inputs, state, emitted, loop_state = loop_fn(
            time, None, None, None)
        given = loop_state is not None
        loop_state = loop_state if given else convert_to_tensor(0)
        flat = nest.flatten(inputs)
        batch_size = _batch_size(flat, 0)
        batch = batch_size if isinstance(batch_size, int) else None
        nest.assert_same_structure(state, cell.state_size)
        state = nest.map_structure(convert_to_tensor, state)
        if emitted is not None:
            structure = emitted
            sizes = [e.shape if e.shape.is_fully_defined()
                     else array_ops.shape(e) for e in nest.flatten(emitted)]
            known = [e.shape for e in nest.flatten(emitted)]
            types = [e.dtype.base_dtype for e in nest.flatten(emitted)]
        else:
            structure = cell.output_size
            sizes = nest.flatten(structure)
            known = [size_of(s) for s in sizes]
            types = [nest.flatten(state)[0].dtype.base_dtype] * len(sizes)
        arrays = nest.pack_sequence_as(structure, [
            TensorArray(t, 0, dynamic_size=True, name=f"rnn_output_{i}",
                        element_shape=tensor_shape.TensorShape(
                            [batch]).concatenate(s))
            for i, (t, s) in enumerate(zip(types, known))])
        zeros = nest.pack_sequence_as(structure, [
            zeros_of(s, batch_size, t) for s, t in zip(sizes, types)])

        def step(time, finished, inputs, arrays, state, loop_state):
            output, after = cell(inputs, state)
            nest.assert_same_structure(state, after)
            nest.assert_same_structure(cell.output_size, output)
            done, next_inputs, next_state, emit, next_loop = loop_fn(
                time + 1, output, after, loop_state)
            nest.assert_same_structure(state, next_state)
            nest.assert_same_structure(inputs, next_inputs)
            nest.assert_same_structure(arrays, emit)
            emit = _keep_where(finished, zeros, emit)
            next_state = _keep_where(finished, state, next_state)
            arrays = nest.map_structure(lambda a, e: a.write(time, e), arrays,
                                        emit)
            return (time + 1, math_ops.logical_or(finished, done), next_inputs,
                    arrays, next_state,
                    loop_state if next_loop is None else next_loop)

        _, _, _, arrays, state, loop_state = control_flow.while_loop(
            lambda _, finished, *unused: math_ops.logical_not(
                math_ops.reduce_all(finished)),
            step, (time, finished, inputs, arrays, state, loop_state),
            parallel_iterations=parallel_iterations or 32,
            swap_memory=swap_memory)
        return arrays, state, loop_state if given else None


def static_rnn(cell, inputs, initial_state=None, dtype=None,
               sequence_length=None, scope=None):
    """Runs a cell along a list of inputs.

    Returns:
      (the list of outputs, the final state).
    """
    assert_like_rnncell("cell", cell)
    if not nest.is_nested(inputs):
        raise TypeError("inputs must be a sequence")
    if not inputs:
        raise ValueError("inputs must not be empty")
    with scopes.variable_scope(scope or "rnn") as own:
        inputs = [nest.map_structure(convert_to_tensor, x) for x in inputs]
        rows = tensor_shape.TensorShape([None])
        for x in nest.flatten(inputs):  # Raises ValueError if they differ.
            rows = rows.merge_with(x.shape[:1])
        batch_size = _batch_size(nest.flatten(inputs[0]), 0)
        lengths = _lengths(sequence_length, batch_size)
        state = _start_state(cell, initial_state, batch_size, dtype)
        zeros = None if lengths is None else nest.map_structure(
            lambda s: zeros_of(s, batch_size, _state_dtype(dtype, state)),
            cell.output_size)
        outputs = []
        for time, x in enumerate(inputs):
            if time > 0:
                own.reuse_variables()
            output, after = cell(x, state)
            if lengths is not None:
                over = time >= lengths
                output = _keep_where(over, zeros, output)
                after = _keep_where(over, state, after)
            outputs.append(output)
            state = after
        return outputs, state


def static_state_saving_rnn(cell, inputs, state_saver, state_name,
                            sequence_length=None, scope=None):
    """Runs `static_rnn` on pieces of sequences; keeps the state between steps.

    Args:
      cell: an RNNCell.
      inputs: a list of tensors, [sequences, size] each.
      state_saver: an object with the methods `state(name)`, which returns a
        tensor, and `save_state(name, value)`, which returns an operation.
      state_name: the name of the state, or a structure of names like
        `cell.state_size`.
      sequence_length: the length of each sequence; defaults to the number of
        inputs.
      scope: the variable scope; defaults to "rnn".

    Returns:
      (the list of outputs, the final state). Reading the last output or the
      final state saves the state.

    Raises:
      ValueError: if `state_name` does not have the structure of the state.
    """
    names, sizes = nest.flatten(state_name), nest.flatten(cell.state_size)
    if nest.is_nested(cell.state_size) != nest.is_nested(state_name):
        raise ValueError(f"Argument `state_name` should be the same type as "
                         f"`cell.state_size`. Received: state_name="
                         f"{state_name}, cell.state_size={cell.state_size}.")
    if len(names) != len(sizes):
        raise ValueError(f"Number of elements in argument `state_name` and "
                         f"`cell.state_size` are mismatched. Received "
                         f"state_name={state_name} with {len(names)} elements "
                         f"and cell.state_size={cell.state_size} with "
                         f"{len(sizes)} elements.")
    start = nest.pack_sequence_as(cell.state_size,
                                  [state_saver.state(n) for n in names])
    outputs, state = static_rnn(cell, inputs, start, None, sequence_length,
                                scope)
    saved = [state_saver.save_state(n, s)
             for n, s in zip(names, nest.flatten(state))]
    with graphs.control_dependencies(saved):
        outputs[-1], state = nest.map_structure(array_ops.identity,
                                                [outputs[-1], state])
    return outputs, state


def static_bidirectional_rnn(cell_fw, cell_bw, inputs, initial_state_fw=None,
                             initial_state_bw=None, dtype=None,
                             sequence_length=None, scope=None):
    """Runs a cell forwards and another one backwards along a list of inputs.

    Returns:
      (the list of concatenated outputs, final forward state, final backward
      state).
    """
    assert_like_rnncell("cell_fw", cell_fw)
    assert_like_rnncell("cell_bw", cell_bw)
    if not nest.is_nested(inputs):
        raise TypeError("inputs must be a sequence")
    if not inputs:
        raise ValueError("inputs must not be empty")
    with scopes.variable_scope(scope or "bidirectional_rnn"):
        with scopes.variable_scope("fw") as own:
            forwards, state_fw = static_rnn(
                cell_fw, inputs, initial_state_fw, dtype, sequence_length, own)
        with scopes.variable_scope("bw") as own:
            backwards, state_bw = static_rnn(
                cell_bw, _reversed(inputs, sequence_length), initial_state_bw,
                dtype, sequence_length, own)
        backwards = _reversed(backwards, sequence_length)
    outputs = [nest.pack_sequence_as(f, [
        array_ops.concat([a, b], 1)
        for a, b in zip(nest.flatten(f), nest.flatten(b))])
               for f, b in zip(forwards, backwards)]
    return outputs, state_fw, state_bw


def _reversed(steps, lengths):
    """Reverses the steps; with lengths, each sequence within its length."""
    if lengths is None:
        return list(reversed(steps))
    flat = [nest.flatten(s) for s in steps]
    turned = [array_ops.unstack(array_ops.reverse_sequence(
        array_ops.stack([f[i] for f in flat]), lengths, 0, batch_axis=1))
              for i in range(len(flat[0]))]
    return [nest.pack_sequence_as(steps[0], [t[i] for t in turned])
            for i in range(len(steps))]
