"""Cells and stacks of recurrent layers of `tf.contrib.rnn`."""

from sluice import _core
from sluice.layers import rnn
from sluice.layers.rnn_cell import GRUCell, LayerRNNCell, LSTMStateTuple
from sluice.ops import array_ops, init_ops, math_ops, nn
from sluice.ops.variable_scope import variable_scope


class GRUBlockCellV2(GRUCell):
    """A GRUCell with the parameters of TensorFlow's fused one."""

    def __init__(self, num_units=None, cell_size=None, reuse=None,
                 name="gru_cell"):
        if (num_units is None) == (cell_size is None):
            raise ValueError("Need exactly one of num_units and cell_size.")
        super().__init__(num_units or cell_size, reuse=reuse, name=name)


class GRUBlockCell(GRUBlockCellV2):
    """`GRUBlockCellV2`, whose variables have other names."""

    def build(self, inputs_shape):
        n = self._num_units
        depth = self._depth(inputs_shape) + n
        self._gate_kernel = self.add_weight("w_ru", [depth, 2 * n])
        self._gate_bias = self._bias_of("b_ru", 2 * n, init_ops.Constant(1.0))
        self._candidate_kernel = self.add_weight("w_c", [depth, n])
        self._candidate_bias = self._bias_of("b_c", n, init_ops.Constant(0.0))
        self.built = True


class LayerNormBasicLSTMCell(LayerRNNCell):
    """An LSTM whose gates and state are normalised (Ba et al., 2016), and whose
    new memories are dropped at random (Semeniuta et al., 2016).

    Args:
      forget_bias: is added to the gate that forgets.
      layer_norm: whether gates and state are normalised.
      norm_gain, norm_shift: what their scales and shifts begin with.
      dropout_keep_prob: how likely a new memory is kept.
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
    """(cell, cell, state, state) of each layer."""
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
    """Layers of `bidirectional_dynamic_rnn`, each of which reads what both
    directions of the one before gave.

    Returns:
      (the last layer's outputs side by side, the forward cells' last states,
      the backward cells').
    """
    states = []
    with variable_scope(scope or "stack_bidirectional_rnn"):
        for i, (forward, backward, first, last) in enumerate(_layers(
                cells_fw, cells_bw, initial_states_fw, initial_states_bw)):
            with variable_scope(f"cell_{i}"):
                outputs, both = rnn.bidirectional_dynamic_rnn(
                    forward, backward, inputs, sequence_length, first, last,
                    dtype, parallel_iterations, time_major=time_major)
                inputs = array_ops.concat(outputs, 2)
                states.append(both)
    return (inputs, *map(tuple, zip(*states)))


def stack_bidirectional_rnn(cells_fw, cells_bw, inputs, initial_states_fw=None,
                            initial_states_bw=None, dtype=None,
                            sequence_length=None, scope=None):
    """Layers of `static_bidirectional_rnn`: see
    `stack_bidirectional_dynamic_rnn`; inputs and outputs are lists."""
    states = []
    with variable_scope(scope or "stack_bidirectional_rnn"):
        for i, (forward, backward, first, last) in enumerate(_layers(
                cells_fw, cells_bw, initial_states_fw, initial_states_bw)):
            with variable_scope(f"cell_{i}"):
                inputs, *both = rnn.static_bidirectional_rnn(
                    forward, backward, inputs, first, last, dtype,
                    sequence_length)
                states.append(both)
    return (inputs, *map(tuple, zip(*states)))
