"""Attention mechanisms, and a cell that attends to a memory in each step.

A mechanism computes the attention weights of all places of the memory. An
`AttentionWrapper` is a cell with one or several mechanisms.
"""

import collections
import math

import numpy as np

from sluice import _core
from sluice.framework import dtypes, graph as graphs, nest, tensor_shape
from sluice.framework.conversion import convert_to_tensor
from sluice.layers import Dense
from sluice.layers.base import Layer
from sluice.layers.rnn_cell import RNNCell, assert_like_rnncell, zeros_of
from sluice.ops import (
    array_ops, check_ops, clip_ops, functional, init_ops, math_ops, nn,
    random_ops, variable_scope as scopes)
from sluice.ops.tensor_array import TensorArray


def _size(x, axis):
    """Returns the size of a dimension as an int if it is known."""
    known = x.shape.as_list()[axis] if x.shape.ndims is not None else None
    return array_ops.shape(x)[axis] if known is None else known


# ---- Mechanisms --------------------------------------------------------------


class AttentionMechanism:
    """Computes the attention weights of all places of a memory.

    mechanism(query, state) returns (alignments [batch, time], next state).
    """

    @property
    def alignments_size(self):
        """The number of places."""
        raise NotImplementedError

    @property
    def state_size(self):
        """The sizes of the state."""
        raise NotImplementedError


def _prepare_memory(memory, memory_sequence_length=None,
                    check_inner_dims_defined=True):
    """Returns the memory with zeros beyond the length of each sequence."""
    memory = nest.map_structure(
        lambda m: convert_to_tensor(m, name="memory"), memory)
    for m in nest.flatten(memory):
        if check_inner_dims_defined and not m.shape[2:].is_fully_defined():
            raise ValueError(f"Expected memory {m.name} to have fully defined "
                             f"inner dims, but saw shape: {m.shape}")
    if memory_sequence_length is None:
        return memory

    def masked(m):
        mask = array_ops.sequence_mask(
            memory_sequence_length, maxlen=array_ops.shape(m)[1],
            dtype=m.dtype.base_dtype)
        rank = array_ops.rank(m) if m.shape.ndims is None else m.shape.ndims
        return m * array_ops.reshape(mask, array_ops.concat(
            [array_ops.shape(mask), array_ops.fill([rank - 2], 1)], 0))
    return nest.map_structure(masked, memory)


def _maybe_mask_score(score, memory_sequence_length=None,
                      score_mask_value=None):
    """Replaces the scores [batch, time] beyond the length of each sequence."""
    if memory_sequence_length is None:
        return score
    check = check_ops.assert_positive(
        memory_sequence_length, message="All values in memory_sequence_length "
        "must be greater than zero.")
    with graphs.control_dependencies([check] if check is not None else []):
        within = array_ops.sequence_mask(memory_sequence_length,
                                         maxlen=array_ops.shape(score)[1])
    return array_ops.where(within, score, array_ops.fill(
        array_ops.shape(score), math_ops.cast(score_mask_value, score.dtype)))


class _BaseAttentionMechanism(AttentionMechanism):
    """A mechanism with optional layers for queries and memory.

    Args:
      query_layer, memory_layer: layers of the same depth, or None.
      memory: the memory, [batch, time, ...].
      probability_fn: a function from scores and state to alignments.
      memory_sequence_length: the lengths of the memory's sequences, [batch].
      check_inner_dims_defined: whether to require that all sizes of the memory
        but the first two are known.
      score_mask_value: the score beyond the lengths; defaults to -infinity.
      custom_key_value_fn: a function from keys and values to new ones.
    """

    def __init__(self, query_layer, memory, probability_fn,
                 memory_sequence_length=None, memory_layer=None,
                 check_inner_dims_defined=True, score_mask_value=None,
                 custom_key_value_fn=None, name=None):
        for what, layer in (("query_layer", query_layer),
                            ("memory_layer", memory_layer)):
            if layer is not None and not isinstance(layer, Layer):
                raise TypeError(f"{what} is not a Layer: "
                                f"{type(layer).__name__}")
        if not callable(probability_fn):
            raise TypeError(f"probability_fn must be callable, saw type: "
                            f"{type(probability_fn).__name__}")
        self._query_layer, self._memory_layer = query_layer, memory_layer
        if score_mask_value is None:
            score_mask_value = -np.inf
        self._probability_fn = lambda score, state: probability_fn(
            _maybe_mask_score(score, memory_sequence_length, score_mask_value),
            state)
        with graphs.name_scope(name, "BaseAttentionMechanismInit"):
            self._values = _prepare_memory(memory, memory_sequence_length,
                                           check_inner_dims_defined)
            self._keys = (memory_layer(self._values) if memory_layer is not None
                          else self._values)
            if custom_key_value_fn is not None:
                self._keys, self._values = custom_key_value_fn(self._keys,
                                                               self._values)
            self._batch_size = _size(self._keys, 0)
            self._alignments_size = _size(self._keys, 1)
        self.dtype = (memory_layer.dtype if memory_layer is not None
                      else self._keys.dtype.base_dtype.name)

    memory_layer = property(lambda self: self._memory_layer,
                            doc="The layer that is applied to the memory.")
    query_layer = property(lambda self: self._query_layer,
                           doc="The layer that is applied to queries.")
    values = property(lambda self: self._values,
                      doc="The memory, [batch, time, ...].")
    keys = property(lambda self: self._keys,
                    doc="The keys of the memory, [batch, time, units].")
    batch_size = property(lambda self: self._batch_size,
                          doc="The number of sequences.")
    alignments_size = property(lambda self: self._alignments_size,
                               doc="The number of places.")
    state_size = property(lambda self: self._alignments_size,
                          doc="The sizes of the state.")

    def initial_alignments(self, batch_size, dtype):
        """Returns the alignments before the first step: zeros."""
        return zeros_of(self._alignments_size, batch_size, dtype)

    def initial_state(self, batch_size, dtype):
        """Returns the state before the first step: the alignments."""
        return self.initial_alignments(batch_size, dtype)


def _dense(num_units, name, dtype):
    return Dense(num_units, name=name, use_bias=False,
                 dtype=dtype or dtypes.float32)


def _of_score(probability_fn):
    """Converts a function of scores to a function of scores and state."""
    if probability_fn is None:
        probability_fn = nn.softmax
    if not callable(probability_fn):
        return probability_fn
    return lambda score, _: probability_fn(score)


def _luong_score(query, keys, scale):
    """Returns the product of the query [batch, units] with each key."""
    depth, units = query.shape[-1], keys.shape[-1]
    if depth != units:
        raise ValueError(
            f"Incompatible or unknown inner dimensions between query and keys. "
            f" Query ({query}) has units: {depth}.  Keys ({keys}) have units: "
            f"{units}.  Perhaps you need to set num_units to the keys' "
            f"dimension ({units})?")
    score = array_ops.squeeze(math_ops.matmul(
        array_ops.expand_dims(query, 1), keys, transpose_b=True), [1])
    return score if scale is None else scale * score


def _bahdanau_score(processed_query, keys, attention_v, attention_g=None,
                    attention_b=None):
    """Returns v . tanh(key + query) for each key.

    If g and b are given, v is scaled to norm g, and b is added inside.
    """
    inner = keys + array_ops.expand_dims(processed_query, 1)
    if attention_g is not None and attention_b is not None:
        attention_v = attention_g * attention_v * math_ops.rsqrt(
            math_ops.reduce_sum(math_ops.square(attention_v)))
        inner = inner + attention_b
    return math_ops.reduce_sum(attention_v * math_ops.tanh(inner), [2])


class LuongAttention(_BaseAttentionMechanism):
    """Multiplicative attention (Luong et al., 2015).

    Args:
      num_units: the depth of the keys and the queries.
      memory: the memory, [batch, time, ...].
      memory_sequence_length: the lengths of the memory's sequences, [batch].
      scale: whether to multiply the scores by a variable.
      probability_fn: a function from scores to alignments; defaults to
        `nn.softmax`.
      score_mask_value: the score beyond the lengths; defaults to -infinity.
      dtype: the dtype of the memory's layer; defaults to float32.
      custom_key_value_fn: a function from keys and values to new ones.
    """

    _scope_name = "luong_attention"

    def __init__(self, num_units, memory, memory_sequence_length=None,
                 scale=False, probability_fn=None, score_mask_value=None,
                 dtype=None, custom_key_value_fn=None, name="LuongAttention"):
        self._start(num_units, memory, memory_sequence_length, scale,
                    _of_score(probability_fn), score_mask_value, dtype,
                    custom_key_value_fn, name)

    def _start(self, num_units, memory, lengths, scale, probability_fn,
               score_mask_value, dtype, custom_key_value_fn, name):
        super().__init__(
            None, memory, probability_fn, lengths,
            _dense(num_units, "memory_layer", dtype),
            score_mask_value=score_mask_value,
            custom_key_value_fn=custom_key_value_fn, name=name)
        self._num_units, self._scale, self._name = num_units, scale, name

    def _score(self, query):
        g = scopes.get_variable(
            "attention_g", [], query.dtype.base_dtype,
            initializer=init_ops.Ones()) if self._scale else None
        return _luong_score(query, self._keys, g)

    def __call__(self, query, state):
        """Returns (alignments [batch, time], next state) for a query.

        The query is [batch, units].
        """
        return _aligned(self, query, state)


class BahdanauAttention(_BaseAttentionMechanism):
    """Additive attention (Bahdanau et al., 2015).

    Args:
      num_units: the depth of the layers of queries and memory.
      memory: the memory, [batch, time, ...].
      memory_sequence_length: the lengths of the memory's sequences, [batch].
      normalize: whether to normalize the weights (Salimans and Kingma, 2016).
      probability_fn: a function from scores to alignments; defaults to
        `nn.softmax`.
      score_mask_value: the score beyond the lengths; defaults to -infinity.
      dtype: the dtype of the layers; defaults to float32.
      custom_key_value_fn: a function from keys and values to new ones.
    """

    _scope_name = "bahdanau_attention"

    def __init__(self, num_units, memory, memory_sequence_length=None,
                 normalize=False, probability_fn=None, score_mask_value=None,
                 dtype=None, custom_key_value_fn=None,
                 name="BahdanauAttention"):
        self._start(num_units, memory, memory_sequence_length, normalize,
                    _of_score(probability_fn), score_mask_value, dtype,
                    custom_key_value_fn, name)

    def _start(self, num_units, memory, lengths, normalize, probability_fn,
               score_mask_value, dtype, custom_key_value_fn, name):
        super().__init__(
            _dense(num_units, "query_layer", dtype), memory, probability_fn,
            lengths, _dense(num_units, "memory_layer", dtype),
            score_mask_value=score_mask_value,
            custom_key_value_fn=custom_key_value_fn, name=name)
        self._num_units, self._normalize = num_units, normalize
        self._name = name

    def _score(self, query):
        if self.query_layer is not None:
            query = self.query_layer(query)
        n, dtype = self._num_units, query.dtype.base_dtype
        v = scopes.get_variable("attention_v", [n], dtype)
        g = b = None
        if self._normalize:
            g = scopes.get_variable(
                "attention_g", [], dtype,
                initializer=init_ops.Constant(math.sqrt(1 / n)))
            b = scopes.get_variable("attention_b", [n], dtype,
                                    initializer=init_ops.Zeros())
        return _bahdanau_score(query, self._keys, v, g, b)

    def __call__(self, query, state):
        """Returns (alignments [batch, time], next state) for a query.

        The query is [batch, depth].
        """
        return _aligned(self, query, state)


def _aligned(mechanism, query, state):
    with scopes.variable_scope(None, mechanism._scope_name, [query]):
        score = mechanism._score(query)
    alignments = mechanism._probability_fn(score, state)
    return alignments, alignments


# ---- Monotonic attention -----------------------------------------------------


def safe_cumprod(x, *args, **kwargs):
    """Computes `cumprod` of positive numbers as a sum of logarithms.

    It is stable for small numbers and has a stable gradient.
    """
    with graphs.name_scope(None, "SafeCumprod", [x]):
        x = convert_to_tensor(x, name="x")
        tiny = np.finfo(x.dtype.as_numpy_dtype).tiny
        return math_ops.exp(math_ops.cumsum(
            math_ops.log(clip_ops.clip_by_value(x, tiny, 1)), *args, **kwargs))


def monotonic_attention(p_choose_i, previous_attention, mode):
    """Computes monotonic attention (Raffel et al., 2017).

    Places before the last attended one are never attended to again.

    Args:
      p_choose_i: the probability of stopping at each place, [batch, time].
      previous_attention: the result of the previous step, [batch, time];
        initially one for the first place, else zero.
      mode: "recursive" (exact), "parallel" (faster, but inexact where numbers
        are near 0 or 1), or "hard" (for probabilities of 0 or 1).
    """
    p = convert_to_tensor(p_choose_i, name="p_choose_i")
    previous = convert_to_tensor(previous_attention, name="previous_attention")
    if mode == "recursive":
        batch = _size(p, 0)
        passed = array_ops.concat(
            [array_ops.ones([batch, 1], p.dtype.base_dtype), 1 - p[:, :-1]], 1)
        reached = functional.scan(
            lambda q, x: array_ops.reshape(x[0] * q + x[1], [batch]),
            [array_ops.transpose(passed), array_ops.transpose(previous)],
            array_ops.zeros([batch], p.dtype.base_dtype))
        return p * array_ops.transpose(reached)
    if mode == "parallel":
        passed = safe_cumprod(1 - p, axis=1, exclusive=True)
        return p * passed * math_ops.cumsum(
            previous / clip_ops.clip_by_value(passed, 1e-10, 1.0), axis=1)
    if mode == "hard":
        p = p * math_ops.cumsum(previous, axis=1)
        return p * math_ops.cumprod(1 - p, axis=1, exclusive=True)
    raise ValueError("mode must be 'recursive', 'parallel', or 'hard'.")


def _monotonic_probability_fn(score, previous_alignments, sigmoid_noise, mode,
                              seed=None):
    """Computes alignments from noisy scores by `monotonic_attention`."""
    if sigmoid_noise > 0:
        score = score + sigmoid_noise * random_ops.random_normal(
            array_ops.shape(score), dtype=score.dtype, seed=seed)
    p = (math_ops.cast(score > 0, score.dtype) if mode == "hard"
         else math_ops.sigmoid(score))
    return monotonic_attention(p, previous_alignments, mode)


class _Monotonic:
    """Mixin of monotonic mechanisms."""

    def _monotonic(self, noise, seed, score_bias_init, mode):
        self._score_bias_init = score_bias_init
        return lambda score, state: _monotonic_probability_fn(
            score, state, noise, mode, seed)

    def _score(self, query):
        score = super()._score(query)
        return score + scopes.get_variable(
            "attention_score_bias", dtype=query.dtype.base_dtype,
            initializer=self._score_bias_init)

    def initial_alignments(self, batch_size, dtype):
        """Returns the alignments before the first step: the first place."""
        return array_ops.one_hot(array_ops.fill([batch_size], 0),
                                 self._alignments_size, dtype=dtype)


class BahdanauMonotonicAttention(_Monotonic, BahdanauAttention):
    """Monotonic BahdanauAttention.

    Args:
      num_units, memory, memory_sequence_length, normalize, score_mask_value,
        dtype: see BahdanauAttention.
      sigmoid_noise: the scale of the noise that is added to scores.
      sigmoid_noise_seed: the seed of the noise.
      score_bias_init: the initial value of a bias of the scores.
      mode: see `monotonic_attention`.
    """

    _scope_name = "bahdanau_monotonic_attention"

    def __init__(self, num_units, memory, memory_sequence_length=None,
                 normalize=False, score_mask_value=None, sigmoid_noise=0.0,
                 sigmoid_noise_seed=None, score_bias_init=0.0, mode="parallel",
                 dtype=None, name="BahdanauMonotonicAttention"):
        self._start(num_units, memory, memory_sequence_length, normalize,
                    self._monotonic(sigmoid_noise, sigmoid_noise_seed,
                                    score_bias_init, mode),
                    score_mask_value, dtype, None, name)


class LuongMonotonicAttention(_Monotonic, LuongAttention):
    """Monotonic LuongAttention.

    Args:
      num_units, memory, memory_sequence_length, scale, score_mask_value, dtype:
        see LuongAttention.
      sigmoid_noise: the scale of the noise that is added to scores.
      sigmoid_noise_seed: the seed of the noise.
      score_bias_init: the initial value of a bias of the scores.
      mode: see `monotonic_attention`.
    """

    _scope_name = "luong_monotonic_attention"

    def __init__(self, num_units, memory, memory_sequence_length=None,
                 scale=False, score_mask_value=None, sigmoid_noise=0.0,
                 sigmoid_noise_seed=None, score_bias_init=0.0, mode="parallel",
                 dtype=None, name="LuongMonotonicAttention"):
        self._start(num_units, memory, memory_sequence_length, scale,
                    self._monotonic(sigmoid_noise, sigmoid_noise_seed,
                                    score_bias_init, mode),
                    score_mask_value, dtype, None, name)


# ---- The cell ----------------------------------------------------------------


def hardmax(logits, name=None):
    """Returns one at the maximum of the last dimension, else zero."""
    with graphs.name_scope(name, "Hardmax", [logits]):
        logits = convert_to_tensor(logits, name="logits")
        return array_ops.one_hot(math_ops.argmax(logits, -1), _size(logits, -1),
                                 dtype=logits.dtype.base_dtype)


class AttentionWrapperState(collections.namedtuple(
        "AttentionWrapperState", ("cell_state", "attention", "time",
                                  "alignments", "alignment_history",
                                  "attention_state"))):
    """The state of an AttentionWrapper.

    It consists of the cell's state `cell_state`, the last attention `attention`
    [batch, size], the number of steps `time`, the last alignments `alignments`
    [batch, time], `alignment_history`, a TensorArray of all alignments or (),
    and the mechanism's state `attention_state`. With several mechanisms, the
    last three are tuples.
    """

    __slots__ = ()

    def clone(self, **kwargs):
        """Returns the state with some parts replaced; shapes must be equal."""
        return nest.map_structure(_of_shape_of, self, self._replace(**kwargs))


def _of_shape_of(old, new):
    """Returns `new` with a check that it has the shape of `old`.

    Raises ValueError if the static shapes are incompatible.
    """
    if not isinstance(old, _core.Tensor) or not isinstance(new, _core.Tensor):
        return new
    if not old.shape.is_compatible_with(new.shape):
        raise ValueError(f"Invalid shape for tensor {new.name}, expected "
                         f"{old.shape}, got {new.shape}.")
    if old.shape.is_fully_defined() and new.shape.is_fully_defined():
        return new
    check = check_ops.assert_equal(
        array_ops.shape(old), array_ops.shape(new),
        message=f"Invalid shape for tensor {new.name}.")
    with graphs.control_dependencies([check]):
        checked = array_ops.identity(new)
    checked.set_shape(old.shape)
    return checked


def _compute_attention(attention_mechanism, cell_output, attention_state,
                       attention_layer):
    """Returns (attention [batch, size], alignments, next mechanism state)."""
    alignments, after = attention_mechanism(cell_output, state=attention_state)
    seen = array_ops.squeeze(math_ops.matmul(
        array_ops.expand_dims(alignments, 1), attention_mechanism.values), [1])
    if attention_layer is not None:
        seen = attention_layer(array_ops.concat([cell_output, seen], 1))
    return seen, alignments, after


def _input_and_attention(inputs, attention):
    return array_ops.concat([inputs, attention], -1)


class AttentionWrapper(RNNCell):
    """A cell that attends to memories.

    The previous attention is added to its input, and its output is the query.

    With a BeamSearchDecoder, apply `tile_batch` to the memory, its lengths and
    the states, and call `zero_state` with batch * beam_width.

    Args:
      cell: the cell.
      attention_mechanism: an AttentionMechanism, or a list of them.
      attention_layer_size: the size of a layer over the output and the context,
        one per mechanism. By default the context is the attention.
      alignment_history: whether the state holds the alignments of all steps.
      cell_input_fn: a function from inputs and attention to the cell's input;
        concatenates them by default.
      output_attention: whether the output is the attention instead of the
        cell's output.
      initial_cell_state: the cell's state in `zero_state`.
      attention_layer: the layers, instead of their sizes.
      attention_fn: a function from (mechanism, cell output, mechanism's state,
        layer) to (attention, alignments, next mechanism state).
    """

    def __init__(self, cell, attention_mechanism, attention_layer_size=None,
                 alignment_history=False, cell_input_fn=None,
                 output_attention=True, initial_cell_state=None, name=None,
                 attention_layer=None, attention_fn=None, dtype=None):
        super().__init__(name=name, dtype=dtype)
        assert_like_rnncell("cell", cell)
        self._is_multi = isinstance(attention_mechanism, (list, tuple))
        self._attention_mechanisms = (
            tuple(attention_mechanism) if self._is_multi
            else (attention_mechanism,))
        for mechanism in self._attention_mechanisms:
            if not isinstance(mechanism, AttentionMechanism):
                raise TypeError(
                    f"attention_mechanism must be an AttentionMechanism or "
                    f"list of multiple AttentionMechanism instances, saw type: "
                    f"{type(mechanism).__name__}")
        if cell_input_fn is not None and not callable(cell_input_fn):
            raise TypeError(f"cell_input_fn must be callable, saw type: "
                            f"{type(cell_input_fn).__name__}")
        self._cell = cell
        self._cell_input_fn = cell_input_fn or _input_and_attention
        self._attention_fn = attention_fn or _compute_attention
        self._output_attention = output_attention
        self._alignment_history = alignment_history
        self._make_layers(attention_layer_size, attention_layer)
        self._initial_cell_state = None
        if initial_cell_state is not None:
            with graphs.name_scope(name, "AttentionWrapperInit"):
                self._initial_cell_state = self._checked(
                    initial_cell_state,
                    _size(nest.flatten(initial_cell_state)[-1], 0),
                    f"When constructing AttentionWrapper {self._base_name}: "
                    "Non-matching batch sizes between the memory (encoder "
                    "output) and initial_cell_state.  Are you using the "
                    "BeamSearchDecoder?  You may need to tile your initial "
                    "state via the tf.contrib.seq2seq.tile_batch function with "
                    "argument multiple=beam_width.", "check_initial_cell_state")

    def _make_layers(self, sizes, layers):
        mechanisms = self._attention_mechanisms
        if sizes is not None and layers is not None:
            raise ValueError("Only one of attention_layer_size and "
                             "attention_layer should be set")
        for what, given, noun in (
                ("attention_layer_size", sizes, "integer"),
                ("attention_layer", layers, "layer")):
            n = len(given) if isinstance(given, (list, tuple)) else 1
            if given is not None and n != len(mechanisms):
                raise ValueError(
                    f"If provided, {what} must contain exactly one {noun} per "
                    f"attention_mechanism, saw: {n} vs {len(mechanisms)}")
        deep = [m.values.shape.as_list()[-1] for m in mechanisms]
        self._attention_layers = None
        if sizes is not None:
            deep = sizes if isinstance(sizes, (list, tuple)) else [sizes]
            self._attention_layers = tuple(
                Dense(size, name="attention_layer", use_bias=False,
                      dtype=m.dtype) for size, m in zip(deep, mechanisms))
        elif layers is not None:
            self._attention_layers = tuple(
                layers if isinstance(layers, (list, tuple)) else [layers])
            deep = [tensor_shape.dimension_value(layer.compute_output_shape(
                [None, self._cell.output_size + d])[-1])
                    for layer, d in zip(self._attention_layers, deep)]
        self._attention_layer_size = sum(deep)

    def _checked(self, values, batch_size, message, name):
        """Returns tensors with a check of the batch size of the memories."""
        checks = [check_ops.assert_equal(batch_size, m.batch_size,
                                         message=message)
                  for m in self._attention_mechanisms]
        with graphs.control_dependencies([c for c in checks if c is not None]):
            return nest.map_structure(
                lambda v: array_ops.identity(v, name=name), values)

    def _item_or_tuple(self, items):
        items = tuple(items)
        return items if self._is_multi else items[0]

    @property
    def output_size(self):
        return (self._attention_layer_size if self._output_attention
                else self._cell.output_size)

    @property
    def state_size(self):
        mechanisms = self._attention_mechanisms
        return AttentionWrapperState(
            cell_state=self._cell.state_size,
            attention=self._attention_layer_size,
            time=tensor_shape.TensorShape([]),
            alignments=self._item_or_tuple(
                m.alignments_size for m in mechanisms),
            alignment_history=self._item_or_tuple(
                m.alignments_size if self._alignment_history else ()
                for m in mechanisms),
            attention_state=self._item_or_tuple(
                m.state_size for m in mechanisms))

    def zero_state(self, batch_size, dtype):
        mechanisms = self._attention_mechanisms
        with graphs.name_scope(type(self).__name__ + "ZeroState"):
            state = self._initial_cell_state
            if state is None:
                state = self._cell.zero_state(batch_size, dtype)
            state = self._checked(
                state, batch_size,
                f"When calling zero_state of AttentionWrapper "
                f"{self._base_name}: Non-matching batch sizes between the "
                "memory (encoder output) and the requested batch size.  Are "
                "you using the BeamSearchDecoder?  If so, make sure your "
                "encoder output has been tiled to beam_width via "
                "tf.contrib.seq2seq.tile_batch, and the batch_size= argument "
                "passed to zero_state is batch_size * beam_width.",
                "checked_cell_state")
            alignments = [m.initial_alignments(batch_size, dtype)
                          for m in mechanisms]
            return AttentionWrapperState(
                cell_state=state,
                attention=zeros_of(self._attention_layer_size, batch_size,
                                   dtype),
                time=array_ops.zeros([], dtypes.int32),
                alignments=self._item_or_tuple(alignments),
                alignment_history=self._item_or_tuple(
                    TensorArray(dtype, size=0, dynamic_size=True,
                                element_shape=a.shape)
                    if self._alignment_history else () for a in alignments),
                attention_state=self._item_or_tuple(
                    m.initial_state(batch_size, dtype) for m in mechanisms))

    def call(self, inputs, state):
        if not isinstance(state, AttentionWrapperState):
            raise TypeError(f"Expected state to be instance of "
                            f"AttentionWrapperState. Received type "
                            f"{type(state)} instead.")
        output, cell_state = self._cell(
            self._cell_input_fn(inputs, state.attention), state.cell_state)
        output = self._checked(
            output, _size(output, 0),
            f"When applying AttentionWrapper {self.name}: Non-matching batch "
            "sizes between the memory (encoder output) and the query (decoder "
            "output).  Are you using the BeamSearchDecoder?  You may need to "
            "tile your memory input via the tf.contrib.seq2seq.tile_batch "
            "function with argument multiple=beam_width.",
            "checked_cell_output")
        before = state.attention_state, state.alignment_history
        if not self._is_multi:
            before = [before[0]], [before[1]]
        layers = self._attention_layers or [None] * len(before[0])
        seen, alignments, after, histories = [], [], [], []
        for mechanism, own, history, layer in zip(
                self._attention_mechanisms, *before, layers):
            attention, aligned, own = self._attention_fn(mechanism, output, own,
                                                         layer)
            seen.append(attention)
            alignments.append(aligned)
            after.append(own)
            histories.append(history.write(state.time, aligned)
                             if self._alignment_history else ())
        attention = array_ops.concat(seen, 1)
        return attention if self._output_attention else output, (
            AttentionWrapperState(
                cell_state=cell_state, attention=attention, time=state.time + 1,
                alignments=self._item_or_tuple(alignments),
                alignment_history=self._item_or_tuple(histories),
                attention_state=self._item_or_tuple(after)))
