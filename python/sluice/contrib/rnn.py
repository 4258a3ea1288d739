"""Cells, wrappers and stacks of recurrent layers of `tf.contrib.rnn`."""

import math

from sluice import _core
from sluice.framework import graph as graphs, nest
from sluice.layers import rnn
from sluice.layers.rnn_cell import (
    GRUCell, LayerRNNCell, LSTMCell, LSTMStateTuple, RNNCell,
    assert_like_rnncell)
from sluice.ops import (
    array_ops, embedding, init_ops, math_ops, nn, variable_scope as scopes)


class GRUBlockCellV2(GRUCell):
    """A GRUCell with the arguments of TensorFlow's fused cell."""

    def __init__(self, num_units=None, cell_size=None, reuse=None,
                 name="gru_cell"):
        if (num_units is None) == (cell_size is None):
            raise ValueError("Need exactly one of num_units and cell_size.")
        super().__init__(num_units or cell_size, reuse=reuse, name=name)


class GRUBlockCell(GRUBlockCellV2):
    """`GRUBlockCellV2` with other variable names."""

    def build(self, inputs_shape):
        n = self._num_units
        depth = self._depth(inputs_shape) + n
        self._gate_kernel = self.add_weight("w_ru", [depth, 2 * n])
        self._gate_bias = self._bias_of("b_ru", 2 * n, init_ops.Constant(1.0))
        self._candidate_kernel = self.add_weight("w_c", [depth, n])
        self._candidate_bias = self._bias_of("b_c", n, init_ops.Constant(0.0))
        self.built = True


class LSTMBlockCell(LSTMCell):
    """An LSTMCell with the arguments of TensorFlow's fused cell."""

    def __init__(self, num_units, forget_bias=1.0, cell_clip=None,
                 use_peephole=False, dtype=None, reuse=None,
                 name="lstm_cell"):
        bounded = cell_clip is not None and cell_clip > 0
        super().__init__(num_units, use_peephole,
                         cell_clip if bounded else None,
                         forget_bias=forget_bias, reuse=reuse, name=name,
                         dtype=dtype)


class LayerNormBasicLSTMCell(LayerRNNCell):
    """An LSTM with layer normalization and recurrent dropout.

    See Ba et al. (2016) and Semeniuta et al. (2016).

    Args:
      forget_bias: a number that is added to the forget gate.
      layer_norm: whether to normalize gates and state.
      norm_gain, norm_shift: the initial scales and shifts.
      dropout_keep_prob: the probability to keep an element of the new memory.
    """

    def __init__(self, num_units, forget_bias=1.0, input_size=None,
                 activation=math_ops.tanh, layer_norm=True, norm_gain=1.0,
                 norm_shift=0.0, dropout_keep_prob=1.0, dropout_prob_seed=None,
                 reuse=None):
        self._start(num_units, activation, reuse, None, None, {})
        self._forget_bias, self._layer_norm = forget_bias, layer_norm
        self._gain, self._shift = norm_gain, norm_shift
        self._keep_prob, self._seed = dropout_keep_prob, dropout_prob_seed

    @property
    def state_size(self):
        return LSTMStateTuple(self._num_units, self._num_units)

    @property
    def output_size(self):
        return self._num_units

    def build(self, inputs_shape):
        n = self._num_units
        self._kernel = self.add_weight(
            "kernel", [self._depth(inputs_shape) + n, 4 * n])
        if self._layer_norm:
            self._norms = {
                which: [self.add_weight(f"{which}/{name}", [n],
                                        initializer=init_ops.Constant(first))
                        for name, first in (("gamma", self._gain),
                                            ("beta", self._shift))]
                for which in ("input", "transform", "forget", "output",
                              "state")}
        else:
            self._bias = self._bias_of("bias", 4 * n, None)
        self.built = True

    def _normal(self, x, which):
        if not self._layer_norm:
            return x
        gamma, beta = self._norms[which]
        mean, variance = nn.moments(x, [1], keep_dims=True)
        return nn.batch_normalization(x, mean, variance, beta, gamma, 1e-12)

    def call(self, inputs, state):
        memory, output = state
        gates = math_ops.matmul(array_ops.concat([inputs, output], 1),
                                self._kernel)
        if not self._layer_norm:
            gates = nn.bias_add(gates, self._bias)
        i, j, f, o = (self._normal(x, which) for x, which in zip(
            array_ops.split(gates, 4, 1),
            ("input", "transform", "forget", "output")))
        new = self._activation(j)
        if isinstance(self._keep_prob, _core.Tensor) or self._keep_prob < 1:
            new = nn.dropout(new, self._keep_prob, seed=self._seed)
        memory = self._normal(
            memory * math_ops.sigmoid(f + self._forget_bias) +
            math_ops.sigmoid(i) * new, "state")
        output = self._activation(memory) * math_ops.sigmoid(o)
        return output, LSTMStateTuple(memory, output)


def _layers(cells_fw, cells_bw, initial_states_fw, initial_states_bw):
    """Yields (forward cell, backward cell, their states) of each layer."""
    for what, cells in (("cells_fw", cells_fw), ("cells_bw", cells_bw)):
        if not isinstance(cells, list) or not cells:
            raise ValueError(f"Must specify {what} as a list of at least one "
                             f"cell, got {cells!r}")
    if len(cells_fw) != len(cells_bw):
        raise ValueError("Forward and Backward cells must have the same depth.")
    several = []
    for what, states in (("fw", initial_states_fw), ("bw", initial_states_bw)):
        if states is not None and (not isinstance(states, (list, tuple)) or
                                   len(states) != len(cells_fw)):
            raise ValueError(f"initial_states_{what} must be a list of state "
                             f"tensors (one per layer).")
        several.append(states or [None] * len(cells_fw))
    return zip(cells_fw, cells_bw, *several)


def stack_bidirectional_dynamic_rnn(
        cells_fw, cells_bw, inputs, initial_states_fw=None,
        initial_states_bw=None, dtype=None, sequence_length=None,
        parallel_iterations=None, time_major=False, scope=None):
    """Stacks layers of `bidirectional_dynamic_rnn`.

    Each layer reads the outputs of both directions of the previous layer.

    Returns:
      (the concatenated outputs of the last layer, final states of the forward
      cells, final states of the backward cells).
    """
    states = []
    with scopes.variable_scope(scope or "stack_bidirectional_rnn"):
        for i, (forward, backward, first, last) in enumerate(_layers(
                cells_fw, cells_bw, initial_states_fw, initial_states_bw)):
            with scopes.variable_scope(f"cell_{i}"):
                outputs, both = rnn.bidirectional_dynamic_rnn(
                    forward, backward, inputs, sequence_length, first, last,
                    dtype, parallel_iterations, time_major=time_major)
                inputs = array_ops.concat(outputs, 2)
                states.append(both)
    return (inputs, *map(tuple, zip(*states)))


def stack_bidirectional_rnn(cells_fw, cells_bw, inputs, initial_states_fw=None,
                            initial_states_bw=None, dtype=None,
                            sequence_length=None, scope=None):
    """Stacks layers of `static_bidirectional_rnn`.

    Inputs and outputs are lists. See `stack_bidirectional_dynamic_rnn`.
    """
    states = []
    with scopes.variable_scope(scope or "stack_bidirectional_rnn"):
        for i, (forward, backward, first, last) in enumerate(_layers(
                cells_fw, cells_bw, initial_states_fw, initial_states_bw)):
            with scopes.variable_scope(f"cell_{i}"):
                inputs, *both = rnn.static_bidirectional_rnn(
                    forward, backward, inputs, first, last, dtype,
                    sequence_length)
                states.append(both)
    return (inputs, *map(tuple, zip(*states)))


# ---- Wrappers ----------------------------------------------------------------


class Linear:
    """Concatenates tensors [batch, any] and multiplies them by a matrix.

    The variables are "kernel" and "bias" in the current scope.

    Args:
      args: a tensor or a list, which determine the matrix's size and dtype.
      output_size: the size of the result, [batch, output_size].
      build_bias: whether to add a bias.
      bias_initializer: the initializer of the bias; defaults to zeros.
      kernel_initializer: the initializer of the matrix.
    """

    def __init__(self, args, output_size, build_bias, bias_initializer=None,
                 kernel_initializer=None):
        tensors = nest.flatten(args)
        if not tensors:
            raise ValueError("`args` must be specified")
        depth = 0
        for x in tensors:
            if x.shape.ndims != 2 or x.shape.as_list()[1] is None:
                raise ValueError(f"linear expects matrices whose second "
                                 f"dimension is known, but saw {x.shape}")
            depth += x.shape.as_list()[1]
        dtype = tensors[0].dtype.base_dtype
        self._kernel = scopes.get_variable("kernel", [depth, output_size],
                                           dtype, kernel_initializer)
        self._bias = None
        if build_bias:
            with scopes.variable_scope(scopes.get_variable_scope()) as scope:
                scope.set_partitioner(None)
                self._bias = scopes.get_variable(
                    "bias", [output_size], dtype,
                    bias_initializer or init_ops.Zeros(dtype))

    def __call__(self, args):
        tensors = nest.flatten(args)
        made = math_ops.matmul(
            tensors[0] if len(tensors) == 1 else array_ops.concat(tensors, 1),
            self._kernel)
        return made if self._bias is None else nn.bias_add(made, self._bias)


class _AroundCell(RNNCell):
    """The base class of cells that wrap another cell and have its state."""

    def __init__(self, cell, reuse):
        super().__init__(_reuse=reuse)
        assert_like_rnncell("cell", cell)
        self._cell = cell

    state_size = property(lambda self: self._cell.state_size)
    output_size = property(lambda self: self._cell.output_size)

    def zero_state(self, batch_size, dtype):
        with graphs.name_scope(type(self).__name__ + "ZeroState"):
            return self._cell.zero_state(batch_size, dtype)


class EmbeddingWrapper(_AroundCell):
    """A cell that embeds its inputs, which are ids.

    Args:
      cell: the wrapped cell, whose inputs are rows of the matrix.
      embedding_classes: the number of rows.
      embedding_size: the length of a row.
      initializer: the initializer of the matrix; defaults to that of the scope,
        or uniform in [-sqrt(3), sqrt(3)].
    """

    def __init__(self, cell, embedding_classes, embedding_size,
                 initializer=None, reuse=None):
        super().__init__(cell, reuse)
        if embedding_classes <= 0 or embedding_size <= 0:
            raise ValueError(f"Both embedding_classes and embedding_size must "
                             f"be > 0: {embedding_classes}, {embedding_size}.")
        self._initializer = initializer
        self._shape = [embedding_classes, embedding_size]

    def call(self, inputs, state):
        bound = math.sqrt(3)
        matrix = scopes.get_variable(
            "embedding", self._shape,
            nest.flatten(state)[0].dtype.base_dtype,
            self._initializer or scopes.get_variable_scope().initializer or
            init_ops.RandomUniform(-bound, bound))
        return self._cell(embedding.embedding_lookup(
            matrix, array_ops.reshape(inputs, [-1])), state)


class InputProjectionWrapper(_AroundCell):
    """A cell with a dense layer before the wrapped cell.

    Args:
      cell: the wrapped cell.
      num_proj: the size of the inputs of `cell`.
      activation: the activation of the layer, or None.
    """

    def __init__(self, cell, num_proj, activation=None, input_size=None,
                 reuse=None):
        super().__init__(cell, reuse)
        self._num_proj = num_proj
        self._layer_activation = activation

    def call(self, inputs, state):
        made = Linear(inputs, self._num_proj, True)(inputs)
        if self._layer_activation is not None:
            made = self._layer_activation(made)
        return self._cell(made, state)


class OutputProjectionWrapper(_AroundCell):
    """A cell with a dense layer after the wrapped cell.

    Args:
      cell: the wrapped cell.
      output_size: the size of the outputs.
      activation: the activation of the layer, or None.
    """

    def __init__(self, cell, output_size, activation=None, reuse=None):
        super().__init__(cell, reuse)
        if output_size < 1:
            raise ValueError(f"Parameter output_size must be > 0: "
                             f"{output_size}.")
        self._output_size = output_size
        self._layer_activation = activation

    output_size = property(lambda self: self._output_size)

    def call(self, inputs, state):
        outputs, after = self._cell(inputs, state)
        made = Linear(outputs, self._output_size, True)(outputs)
        if self._layer_activation is not None:
            made = self._layer_activation(made)
        return made, after
