"""Recurrent cells, which compute one step from an input and a state."""

import collections
import hashlib

from sluice import _core
from sluice.framework import dtypes, graph as graphs, nest, tensor_shape
from sluice.framework.conversion import constant_value, convert_to_tensor
from sluice.layers.base import InputSpec, Layer, last_dimension
from sluice.ops import (
    array_ops, clip_ops, init_ops, math_ops, nn, random_ops,
    variable_scope as scopes)
from sluice.ops.partitioned import fixed_size_partitioner
from sluice.ops.tensor_array import TensorArray
from sluice.ops.variables import trainable_variables


def assert_like_rnncell(name, cell):
    """Raises TypeError unless a value can be used as a cell."""
    missing = [what for what, there in (
        ("'output_size' property is missing", hasattr(cell, "output_size")),
        ("'state_size' property is missing", hasattr(cell, "state_size")),
        ("either 'zero_state' or 'get_initial_state' method is required",
         hasattr(cell, "zero_state") or hasattr(cell, "get_initial_state")),
        ("is not callable", callable(cell))) if not there]
    if missing:
        raise TypeError(f"The argument {name!r} ({cell}) is not an RNNCell: "
                        f"{', '.join(missing)}.")


def size_of(size):
    """Converts a size (a number or a shape) to a TensorShape."""
    return tensor_shape.TensorShape([size] if isinstance(size, int) else size)


def zeros_of(size, batch_size, dtype):
    """Returns zeros of shape [batch_size, size...]."""
    if isinstance(size, _core.Tensor):
        return array_ops.zeros(array_ops.concat(
            [[batch_size], array_ops.reshape(size, [-1])], 0), dtype)
    known = constant_value(batch_size)
    batch = batch_size if known is None else int(known)
    dims = size_of(size).as_list()
    made = array_ops.zeros([batch] + dims, dtype)
    made.set_shape([None if known is None else batch] + dims)
    return made


def _activation(function):
    if isinstance(function, str):
        found = getattr(nn, function, None) or getattr(math_ops, function, None)
        if found is None and function != "linear":
            raise ValueError(f"Unknown activation function: {function}")
        return found or array_ops.identity
    return function or math_ops.tanh


def _parts(state):
    """Returns c and h of an LSTM's state."""
    if not isinstance(state, (list, tuple)) or len(state) != 2:
        raise TypeError(f"state: expected a pair (c, h), as zero_state() makes,"
                        f" got {state!r}")
    return state


def _check_types(*tensors):
    for t in nest.flatten(list(tensors)):
        if t is None:
            continue
        dtype = dtypes.as_dtype(getattr(t, "dtype", t))
        if not (dtype.is_floating or dtype.is_complex):
            raise ValueError(f"RNN cell only supports floating point inputs, "
                             f"but saw dtype: {dtype}")


class RNNCell(Layer):
    """The base class of cells: cell(input, state) returns (output, next state).

    A subclass defines `state_size` and `output_size` (numbers, shapes or
    structures of these) and computes its output in `call(inputs, state)`, where
    it may create variables by `get_variable`.
    """

    def __init__(self, trainable=True, name=None, dtype=None, **kwargs):
        super().__init__(trainable=trainable, name=name, dtype=dtype, **kwargs)

    def __call__(self, inputs, state, scope=None):
        if scope is not None:
            with scopes.variable_scope(
                    scope, custom_getter=self._remember) as entered:
                return super().__call__(inputs, state, scope=entered)
        if not hasattr(self, "_called_in"):
            self._called_in = scopes.get_variable_scope()
        with scopes.variable_scope(self._called_in,
                                   custom_getter=self._remember):
            return super().__call__(inputs, state)

    def _unbuilt(self, memo, in_scope):
        made = super()._unbuilt(memo, in_scope)
        made.__dict__.pop("_called_in", None)
        return made

    def _remember(self, getter, *args, **kwargs):
        variable = getter(*args, **kwargs)
        held = (self._trainable_weights
                if any(variable is v for v in trainable_variables())
                else self._non_trainable_weights)
        if not any(variable is v for v in held):
            held.append(variable)
        return variable

    @property
    def state_size(self):
        """The sizes of the state, without the batch dimension."""
        raise NotImplementedError("Abstract method")

    @property
    def output_size(self):
        """The sizes of the output, without the batch dimension."""
        raise NotImplementedError("Abstract method")

    def build(self, _):
        # `call` creates the variables.
        pass

    def get_initial_state(self, inputs=None, batch_size=None, dtype=None):
        """Returns a zero state for the batch size and dtype of the inputs."""
        if inputs is not None:
            inputs = convert_to_tensor(inputs, name="inputs")
            batch_size = inputs.shape.as_list()[0] or array_ops.shape(inputs)[0]
            dtype = inputs.dtype
        if batch_size is None or dtype is None:
            raise ValueError(f"batch_size and dtype cannot be None while "
                             f"constructing initial state: "
                             f"batch_size={batch_size}, dtype={dtype}")
        return self.zero_state(batch_size, dtype)

    def zero_state(self, batch_size, dtype):
        """Returns a zero state."""
        with graphs.name_scope(type(self).__name__ + "ZeroState"):
            return _zero_state_tensors(self.state_size, batch_size, dtype)


def _zero_state_tensors(state_size, batch_size, dtype):
    return nest.map_structure(lambda s: zeros_of(s, batch_size, dtype),
                              state_size)


class LayerRNNCell(RNNCell):
    """A cell that creates its variables in `build`, like other layers."""

    def __call__(self, inputs, state, scope=None, *args, **kwargs):
        return Layer.__call__(self, inputs, state, *args, scope=scope, **kwargs)

    def _start(self, num_units, activation, reuse, name, dtype, kwargs):
        Layer.__init__(self, _reuse=reuse, name=name, dtype=dtype, **kwargs)
        _check_types(self._dtype)
        self.input_spec = InputSpec(ndim=2)
        self._num_units = num_units
        self._activation = _activation(activation)

    def _depth(self, input_shape):
        _check_types(self._dtype)
        return last_dimension(input_shape, -1, "last dimension")

    def _bias_of(self, name, size, initializer=None):
        return self.add_weight(
            name, [size], initializer=initializer or init_ops.Zeros(
                self._dtype))

    @property
    def output_size(self):
        return self._num_units


class BasicRNNCell(LayerRNNCell):
    """Computes activation([input, state] x kernel + bias)."""

    def __init__(self, num_units, activation=None, reuse=None, name=None,
                 dtype=None, **kwargs):
        self._start(num_units, activation, reuse, name, dtype, kwargs)

    @property
    def state_size(self):
        return self._num_units

    def build(self, inputs_shape):
        depth = self._depth(inputs_shape)
        self._kernel = self.add_weight(
            "kernel", [depth + self._num_units, self._num_units])
        self._bias = self._bias_of("bias", self._num_units)
        self.built = True

    def call(self, inputs, state):
        _check_types(inputs, state)
        inner = math_ops.matmul(array_ops.concat([inputs, state], 1),
                                self._kernel)
        output = self._activation(nn.bias_add(inner, self._bias))
        return output, output


class GRUCell(LayerRNNCell):
    """A gated recurrent unit (Cho et al., 2014)."""

    def __init__(self, num_units, activation=None, reuse=None,
                 kernel_initializer=None, bias_initializer=None, name=None,
                 dtype=None, **kwargs):
        self._start(num_units, activation, reuse, name, dtype, kwargs)
        self._kernel_initializer = kernel_initializer
        self._bias_initializer = bias_initializer

    @property
    def state_size(self):
        return self._num_units

    def build(self, inputs_shape):
        n = self._num_units
        depth = self._depth(inputs_shape) + n
        self._gate_kernel = self.add_weight(
            "gates/kernel", [depth, 2 * n],
            initializer=self._kernel_initializer)
        # With this bias, cells initially keep their state.
        self._gate_bias = self._bias_of(
            "gates/bias", 2 * n,
            self._bias_initializer or init_ops.Constant(1.0, self._dtype))
        self._candidate_kernel = self.add_weight(
            "candidate/kernel", [depth, n],
            initializer=self._kernel_initializer)
        self._candidate_bias = self._bias_of("candidate/bias", n,
                                             self._bias_initializer)
        self.built = True

    def call(self, inputs, state):
        _check_types(inputs, state)
        gates = math_ops.sigmoid(nn.bias_add(math_ops.matmul(
            array_ops.concat([inputs, state], 1), self._gate_kernel),
                                             self._gate_bias))
        r, u = array_ops.split(gates, 2, 1)
        candidate = self._activation(nn.bias_add(math_ops.matmul(
            array_ops.concat([inputs, r * state], 1), self._candidate_kernel),
                                                 self._candidate_bias))
        output = u * state + (1 - u) * candidate
        return output, output


class LSTMStateTuple(collections.namedtuple("LSTMStateTuple", ("c", "h"))):
    """The state of an LSTM: the cell state c and the output h."""

    __slots__ = ()

    @property
    def dtype(self):
        """The dtype of c and h."""
        if self.c.dtype != self.h.dtype:
            raise TypeError(f"Inconsistent internal state: {self.c.dtype} vs "
                            f"{self.h.dtype}")
        return self.c.dtype


class BasicLSTMCell(LayerRNNCell):
    """A long short-term memory (Hochreiter and Schmidhuber, 1997).

    The gates are in the order input, candidate, forget, output.
    """

    def __init__(self, num_units, forget_bias=1.0, state_is_tuple=True,
                 activation=None, reuse=None, name=None, dtype=None, **kwargs):
        self._start(num_units, activation, reuse, name, dtype, kwargs)
        self._forget_bias = forget_bias
        self._state_is_tuple = state_is_tuple

    @property
    def state_size(self):
        n = self._num_units
        return LSTMStateTuple(n, n) if self._state_is_tuple else 2 * n

    def build(self, inputs_shape):
        n = self._num_units
        depth = self._depth(inputs_shape)
        self._kernel = self.add_weight("kernel", [depth + n, 4 * n])
        self._bias = self._bias_of("bias", 4 * n)
        self.built = True

    def call(self, inputs, state):
        _check_types(inputs, state)
        c, h = _parts(state) if self._state_is_tuple else array_ops.split(
            state, 2, 1)
        i, j, f, o = array_ops.split(nn.bias_add(math_ops.matmul(
            array_ops.concat([inputs, h], 1), self._kernel), self._bias), 4, 1)
        sigmoid = math_ops.sigmoid
        c = (c * sigmoid(f + self._forget_bias) +
             sigmoid(i) * self._activation(j))
        h = self._activation(c) * sigmoid(o)
        return h, (LSTMStateTuple(c, h) if self._state_is_tuple
                   else array_ops.concat([c, h], 1))


class LSTMCell(LayerRNNCell):
    """A long short-term memory with projection (Sak et al., 2014).

    Args:
      num_units: the size of the cell state.
      use_peepholes: whether the gates depend on the cell state.
      cell_clip: the bound of the cell state, or None.
      initializer: the initializer of the weights.
      num_proj: the size of the output if it is projected, or None.
      proj_clip: the bound of the projected output, or None.
      num_unit_shards, num_proj_shards: the number of parts of the weights.
      forget_bias: a number that is added to the forget gate.
      state_is_tuple: whether states are LSTMStateTuples instead of a matrix.
    """

    def __init__(self, num_units, use_peepholes=False, cell_clip=None,
                 initializer=None, num_proj=None, proj_clip=None,
                 num_unit_shards=None, num_proj_shards=None, forget_bias=1.0,
                 state_is_tuple=True, activation=None, reuse=None, name=None,
                 dtype=None, **kwargs):
        self._start(num_units, activation, reuse, name, dtype, kwargs)
        self._use_peepholes, self._cell_clip = use_peepholes, cell_clip
        self._initializer, self._num_proj = initializer, num_proj
        self._proj_clip, self._forget_bias = proj_clip, forget_bias
        self._shards = num_unit_shards, num_proj_shards
        self._state_is_tuple = state_is_tuple

    @property
    def state_size(self):
        sizes = self._num_units, self.output_size
        return LSTMStateTuple(*sizes) if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self):
        return self._num_units if self._num_proj is None else self._num_proj

    def build(self, inputs_shape):
        n = self._num_units
        depth = self._depth(inputs_shape)
        of_units, of_product = (
            None if shards is None else fixed_size_partitioner(shards)
            for shards in self._shards)
        self._kernel = self.add_weight(
            "kernel", [depth + self.output_size, 4 * n],
            initializer=self._initializer, partitioner=of_units)
        self._bias = self._bias_of("bias", 4 * n)
        if self._use_peepholes:
            self._w_f_diag, self._w_i_diag, self._w_o_diag = (
                self.add_weight(f"w_{gate}_diag", [n],
                                initializer=self._initializer)
                for gate in "fio")
        if self._num_proj is not None:
            self._proj_kernel = self.add_weight(
                "projection/kernel", [n, self._num_proj],
                initializer=self._initializer, partitioner=of_product)
        self.built = True

    def call(self, inputs, state):
        _check_types(inputs, state)
        c, h = _parts(state) if self._state_is_tuple else array_ops.split(
            state, [self._num_units, self.output_size], 1)
        i, j, f, o = array_ops.split(nn.bias_add(math_ops.matmul(
            array_ops.concat([inputs, h], 1), self._kernel), self._bias), 4, 1)
        sigmoid, act = math_ops.sigmoid, self._activation
        f = f + self._forget_bias
        if self._use_peepholes:
            f, i = f + self._w_f_diag * c, i + self._w_i_diag * c
        c = sigmoid(f) * c + sigmoid(i) * act(j)
        if self._cell_clip is not None:
            c = clip_ops.clip_by_value(c, -self._cell_clip, self._cell_clip)
        if self._use_peepholes:
            o = o + self._w_o_diag * c
        h = sigmoid(o) * act(c)
        if self._num_proj is not None:
            h = math_ops.matmul(h, self._proj_kernel)
            if self._proj_clip is not None:
                h = clip_ops.clip_by_value(h, -self._proj_clip,
                                           self._proj_clip)
        return h, (LSTMStateTuple(c, h) if self._state_is_tuple
                   else array_ops.concat([c, h], 1))


# ---- Composite cells and wrappers --------------------------------------------


class MultiRNNCell(RNNCell):
    """A stack of cells, in which the output of each is the next one's input."""

    def __init__(self, cells, state_is_tuple=True):
        super().__init__()
        if not cells:
            raise ValueError("Must specify at least one cell for "
                             "MultiRNNCell.")
        if not nest.is_nested(cells):
            raise TypeError(f"cells must be a list or tuple, but saw: {cells}.")
        self._cells, self._state_is_tuple = list(cells), state_is_tuple
        if not state_is_tuple and any(nest.is_nested(c.state_size)
                                      for c in cells):
            raise ValueError(f"Some cells return tuples of states, but the "
                             f"flag state_is_tuple is not set.  State sizes "
                             f"are: {[c.state_size for c in cells]}")

    @property
    def state_size(self):
        sizes = tuple(c.state_size for c in self._cells)
        return sizes if self._state_is_tuple else sum(sizes)

    @property
    def output_size(self):
        return self._cells[-1].output_size

    def zero_state(self, batch_size, dtype):
        if not self._state_is_tuple:
            return super().zero_state(batch_size, dtype)
        with graphs.name_scope(type(self).__name__ + "ZeroState"):
            return tuple(c.zero_state(batch_size, dtype) for c in self._cells)

    @property
    def trainable_weights(self):
        return [w for c in self._cells for w in c.trainable_weights] if (
            self.trainable) else []

    @property
    def non_trainable_weights(self):
        return [w for c in self._cells for w in (
            c.non_trainable_weights if self.trainable else c.weights)]

    def call(self, inputs, state):
        if self._state_is_tuple:
            if not nest.is_nested(state):
                raise ValueError(f"Expected state to be a tuple of length "
                                 f"{len(self._cells)}, but received: {state}")
            states = state
        else:
            states = array_ops.split(state,
                                     [c.state_size for c in self._cells], 1)
        after = []
        for i, (cell, own) in enumerate(zip(self._cells, states)):
            with scopes.variable_scope(f"cell_{i}"):
                inputs, own = cell(inputs, own)
            after.append(own)
        return inputs, (tuple(after) if self._state_is_tuple
                        else array_ops.concat(after, 1))


class _Wrapper(RNNCell):
    """The base class of cells that wrap a cell."""

    def __init__(self, cell, **kwargs):
        assert_like_rnncell("cell", cell)
        super().__init__(**kwargs)
        self.cell = cell

    wrapped_cell = property(lambda self: self.cell, doc="The wrapped cell.")
    state_size = property(lambda self: self.cell.state_size)
    output_size = property(lambda self: self.cell.output_size)
    trainable_weights = property(lambda self: self.cell.trainable_weights)
    non_trainable_weights = property(
        lambda self: self.cell.non_trainable_weights)

    def build(self, inputs_shape):
        self.cell.build(inputs_shape)
        self.built = True

    def zero_state(self, batch_size, dtype):
        with graphs.name_scope(type(self).__name__ + "ZeroState"):
            return self.cell.zero_state(batch_size, dtype)

    def __call__(self, inputs, state, scope=None):
        return self._wrap(inputs, state, lambda x, s: (
            self.cell(x, s) if scope is None else self.cell(x, s, scope=scope)))

    def _wrap(self, inputs, state, call):
        raise NotImplementedError


def _not_what_is_remembered(state):
    """Returns which parts of a state are dropped by default."""
    if isinstance(state, LSTMStateTuple):
        return LSTMStateTuple(c=False, h=True)
    return not isinstance(state, TensorArray)


def _leaves_to_drop(visit, state):
    """Returns a bool for each leaf of a state: whether to drop it."""
    found = visit(state)
    if isinstance(found, bool):
        if not found or not nest.is_nested(state):
            return [found] * len(nest.flatten(state))
        return [d for child in nest._children(state)
                for d in _leaves_to_drop(visit, child)]
    return [d and inner for d, child in zip(nest.flatten(found),
                                            nest._children(state))
            for inner in _leaves_to_drop(visit, child)]


class DropoutWrapper(_Wrapper):
    """A cell with dropout of its inputs, outputs and states.

    Args:
      cell: the cell.
      input_keep_prob, output_keep_prob, state_keep_prob: the probabilities to
        keep an element.
      variational_recurrent: whether to drop the same elements in every step
        (Gal and Ghahramani, 2016). It requires `dtype` and, if inputs are
        dropped, `input_size`.
      seed: the seed of the random numbers.
      dropout_state_filter_visitor: a function from a state to the parts to
        drop; by default all but the cell state of an LSTM.
    """

    def __init__(self, cell, input_keep_prob=1.0, output_keep_prob=1.0,
                 state_keep_prob=1.0, variational_recurrent=False,
                 input_size=None, dtype=None, seed=None,
                 dropout_state_filter_visitor=None, **kwargs):
        super().__init__(cell, dtype=dtype, **kwargs)
        visit = dropout_state_filter_visitor
        if visit is not None and not callable(visit):
            raise TypeError("dropout_state_filter_visitor must be callable")
        self._visit = visit or _not_what_is_remembered
        self._seed = seed
        self._keep = {"input": input_keep_prob, "output": output_keep_prob,
                      "state": state_keep_prob}
        for what, keep in self._keep.items():
            known = constant_value(keep)
            if known is None:
                continue
            if not 0 <= known <= 1:
                raise ValueError(f"Parameter {what}_keep_prob must be between "
                                 f"0 and 1: {known}")
            self._keep[what] = float(known)
        self._noise = None
        if variational_recurrent:
            if dtype is None:
                raise ValueError("When variational_recurrent=True, dtype must "
                                 "be provided")
            sizes = {"state": cell.state_size, "output": cell.output_size}
            if self._keep["input"] != 1.0:
                if input_size is None:
                    raise ValueError(
                        "When variational_recurrent=True and input_keep_prob < "
                        "1.0 or is unknown, input_size must be provided")
                sizes["input"] = input_size
            self._noise = {what: [random_ops.random_uniform(
                [1] + size_of(s).as_list(), seed=self._seed_of(what, i),
                dtype=dtype) for i, s in enumerate(nest.flatten(size))]
                           for what, size in sizes.items()}

    def _seed_of(self, what, i):
        if self._seed is None:
            return None
        text = f"{self._seed}{what}_{i}".encode()
        return int(hashlib.md5(text).hexdigest()[:8], 16) & 0x7fffffff

    def _drop(self, what, values, which=None):
        keep = self._keep[what]
        if keep == 1.0:
            return values
        leaves = nest.flatten(values)
        which = which or [True] * len(leaves)
        dropped = []
        for i, (v, drop) in enumerate(zip(leaves, which)):
            if not drop:
                dropped.append(v)
            elif self._noise is None:
                dropped.append(nn.dropout(v, rate=1.0 - keep,
                                          seed=self._seed_of(what, i)))
            else:
                kept = math_ops.floor(keep + self._noise[what][i])
                dropped.append(v / keep * kept)
                dropped[-1].set_shape(v.shape)
        return nest.pack_sequence_as(values, dropped)

    def _wrap(self, inputs, state, call):
        output, state = call(self._drop("input", inputs), state)
        if self._keep["state"] != 1.0:
            state = self._drop("state", state,
                               _leaves_to_drop(self._visit, state))
        return self._drop("output", output), state


class ResidualWrapper(_Wrapper):
    """A cell that adds its inputs to its outputs.

    Args:
      cell: the cell.
      residual_fn: a function of inputs and outputs that replaces the sum.
    """

    def __init__(self, cell, residual_fn=None, **kwargs):
        super().__init__(cell, **kwargs)
        self._residual_fn = residual_fn

    def _wrap(self, inputs, state, call):
        outputs, state = call(inputs, state)

        def added(inputs, outputs):
            nest.assert_same_structure(inputs, outputs)
            for x, y in zip(nest.flatten(inputs), nest.flatten(outputs)):
                x.shape.assert_is_compatible_with(y.shape)
            return nest.map_structure(lambda x, y: x + y, inputs, outputs)
        return (self._residual_fn or added)(inputs, outputs), state


class DeviceWrapper(_Wrapper):
    """A cell that runs on a device."""

    def __init__(self, cell, device, **kwargs):
        super().__init__(cell, **kwargs)
        self._device = device

    def zero_state(self, batch_size, dtype):
        with graphs.device(self._device):
            return super().zero_state(batch_size, dtype)

    def _wrap(self, inputs, state, call):
        with graphs.device(self._device):
            return call(inputs, state)
