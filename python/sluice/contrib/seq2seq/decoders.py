"""Decoders, which run a cell in a loop and choose its inputs step by step.

A `Decoder` takes one step, and `dynamic_decode` repeats it until all sequences
are finished. A `BasicDecoder` has a `Helper` that samples from each output and
chooses the next input.
"""

import abc
import collections

from sluice import _core
from sluice.framework import dtypes, graph as graphs, nest, tensor_shape
from sluice.framework.conversion import constant_value, convert_to_tensor
from sluice.layers.base import Layer
from sluice.layers.rnn import batch_and_time_swapped
from sluice.layers.rnn_cell import assert_like_rnncell, size_of, zeros_of
from sluice.ops import (
    array_ops, control_flow, embedding as embeddings, math_ops, nn, random_ops,
    variable_scope as scopes)
from sluice.ops.tensor_array import TensorArray


# ---- Common parts of decoders ------------------------------------------------


def lookup_of(embedding):
    """Returns the function from ids to vectors.

    `embedding` is this function or an embedding matrix.
    """
    if callable(embedding):
        return embedding
    return lambda ids: embeddings.embedding_lookup(embedding, ids)


def tokens_of(start_tokens, end_token):
    """Converts both to int32 tensors.

    Raises ValueError unless they are a vector and a scalar.
    """
    start = convert_to_tensor(start_tokens, dtypes.int32, name="start_tokens")
    if start.shape.ndims != 1:
        raise ValueError("start_tokens must be a vector")
    end = convert_to_tensor(end_token, dtypes.int32, name="end_token")
    if end.shape.ndims != 0:
        raise ValueError("end_token must be a scalar")
    return start, end


def check_output_layer(layer):
    """Raises TypeError unless the value is a layer or None."""
    if layer is not None and not isinstance(layer, Layer):
        raise TypeError(f"output_layer must be a Layer, received: "
                        f"{type(layer)}")


def output_size_of(cell, output_layer):
    """Returns the output size of a cell, or of the layer after it."""
    if output_layer is None:
        return cell.output_size
    wide = nest.map_structure(
        lambda s: tensor_shape.TensorShape([None]).concatenate(size_of(s)),
        cell.output_size)
    return nest.map_structure(lambda s: s[1:],
                              output_layer.compute_output_shape(wide))


class Decoder(abc.ABC):
    """One step of decoding, for `dynamic_decode`.

    Inputs and states are structures of tensors and TensorArrays. `finished`
    is a boolean vector over the sequences of the batch.
    """

    @property
    def batch_size(self):
        """The number of sequences."""
        raise NotImplementedError

    @property
    def output_size(self):
        """The sizes of a step's outputs, without the batch dimension."""
        raise NotImplementedError

    @property
    def output_dtype(self):
        """The dtypes of a step's outputs."""
        raise NotImplementedError

    @abc.abstractmethod
    def initialize(self, name=None):
        """Returns (finished, first inputs, first state)."""
        raise NotImplementedError

    @abc.abstractmethod
    def step(self, time, inputs, state, name=None):
        """Returns (outputs, next state, next inputs, finished)."""
        raise NotImplementedError

    def finalize(self, outputs, final_state, sequence_lengths):
        """Returns (outputs, final state), processed after the last step.

        The outputs are [time, batch, ...]. By default both remain unchanged.
        """
        raise NotImplementedError

    @property
    def tracks_own_finished(self):
        """Whether `finished` of a step is complete by itself.

        This is necessary for decoders that move sequences between rows.
        Otherwise, finished sequences remain finished.
        """
        return False


def _batch_first(x):
    return x if x.shape.ndims is not None and x.shape.ndims < 2 else (
        batch_and_time_swapped(x))


def dynamic_decode(decoder, output_time_major=False, impute_finished=False,
                   maximum_iterations=None, parallel_iterations=32,
                   swap_memory=False, scope=None):
    """Runs a decoder until all sequences are finished.

    Args:
      decoder: a `Decoder`.
      output_time_major: whether outputs are [time, batch, ...] instead of
        [batch, time, ...].
      impute_finished: whether to set the outputs of finished sequences to zero
        and to keep their states.
      maximum_iterations: the maximum number of steps, a scalar.
      parallel_iterations, swap_memory: see `while_loop`.
      scope: the variable scope; defaults to "decoder".

    Returns:
      (outputs of all steps, final state, lengths of the sequences).
    """
    if not isinstance(decoder, Decoder):
        raise TypeError(f"Expected decoder to be type Decoder, but saw: "
                        f"{type(decoder)}")
    with scopes.variable_scope(scope, "decoder"):
        limit = maximum_iterations
        if limit is not None:
            limit = convert_to_tensor(limit, dtypes.int32,
                                      name="maximum_iterations")
            if limit.shape.ndims != 0:
                raise ValueError("maximum_iterations must be a scalar")
        finished, inputs, state = decoder.initialize()
        if limit is not None:
            finished = math_ops.logical_or(finished, limit <= 0)
        sizes, types = decoder.output_size, decoder.output_dtype
        outputs, state, lengths = _steps(
            decoder, nest.map_structure(lambda s, d: zeros_of(
                s, decoder.batch_size, d), sizes, types),
            nest.map_structure(lambda s, d: _array_of(
                s, d, decoder.batch_size), sizes, types),
            state, inputs, convert_to_tensor(finished), impute_finished,
            {"maximum_iterations": limit, "swap_memory": swap_memory,
             "parallel_iterations": parallel_iterations})
        outputs = nest.map_structure(lambda a: a.stack(), outputs)
        try:
            outputs, state = decoder.finalize(outputs, state, lengths)
        except NotImplementedError:
            pass
        if not output_time_major:
            outputs = nest.map_structure(_batch_first, outputs)
        return outputs, state, lengths


def _array_of(size, dtype, batch_size):
    shape = None
    if not isinstance(size, _core.Tensor) and (
            not isinstance(size, tensor_shape.TensorShape) or
            size.ndims is not None):
        known = constant_value(convert_to_tensor(batch_size))
        shape = tensor_shape.TensorShape(
            [None if known is None else int(known)]).concatenate(size_of(size))
    return TensorArray(dtype, size=0, dynamic_size=True, element_shape=shape)


def _steps(decoder, zeros, arrays, state, inputs, finished, impute, options):
    def where_running(over, old, new):
        if isinstance(old, TensorArray):
            return new
        new.set_shape(old.shape)
        return new if new.shape.ndims == 0 else array_ops.where(over, old, new)

    def step(time, arrays, state, inputs, over, lengths):
        outputs, after, next_inputs, done = decoder.step(time, inputs, state)
        if not decoder.tracks_own_finished:
            done = math_ops.logical_or(done, over)
        lengths = array_ops.where(
            over, lengths, array_ops.fill(array_ops.shape(lengths), time + 1))
        nest.assert_same_structure(state, after)
        nest.assert_same_structure(arrays, outputs)
        nest.assert_same_structure(inputs, next_inputs)
        if impute:
            outputs = nest.map_structure(
                lambda new, zero: array_ops.where(over, zero, new), outputs,
                zeros)
            after = nest.map_structure(
                lambda new, old: where_running(over, old, new), after, state)
        arrays = nest.map_structure(lambda a, x: a.write(time, x), arrays,
                                    outputs)
        return time + 1, arrays, after, next_inputs, done, lengths

    _, arrays, state, _, _, lengths = control_flow.while_loop(
        lambda time, arrays, state, inputs, over, lengths:
        math_ops.logical_not(math_ops.reduce_all(over)), step,
        (convert_to_tensor(0, name="time"), arrays, state, inputs, finished,
         array_ops.zeros_like(finished, dtypes.int32)), **options)
    return arrays, state, lengths


# ---- The basic decoder -------------------------------------------------------


class BasicDecoderOutput(collections.namedtuple(
        "BasicDecoderOutput", ("rnn_output", "sample_id"))):
    """The output of a step of a BasicDecoder.

    It consists of the cell's output [batch, ...] and the sample [batch].
    """

    __slots__ = ()


class BasicDecoder(Decoder):
    """A decoder that samples with a helper, which also chooses the inputs.

    Args:
      cell: the cell.
      helper: a `Helper`.
      initial_state: the initial state of the cell.
      output_layer: a layer that is applied to the cell's outputs before
        sampling.
    """

    def __init__(self, cell, helper, initial_state, output_layer=None):
        assert_like_rnncell("cell", cell)
        if not isinstance(helper, Helper):
            raise TypeError(f"helper must be a Helper, received: "
                            f"{type(helper)}")
        check_output_layer(output_layer)
        self._cell, self._helper = cell, helper
        self._initial_state = initial_state
        self._output_layer = output_layer

    @property
    def batch_size(self):
        return self._helper.batch_size

    def _rnn_output_size(self):
        return output_size_of(self._cell, self._output_layer)

    @property
    def output_size(self):
        return BasicDecoderOutput(self._rnn_output_size(),
                                  self._helper.sample_ids_shape)

    @property
    def output_dtype(self):
        # The cell's dtype is that of its state.
        dtype = nest.flatten(self._initial_state)[0].dtype
        return BasicDecoderOutput(
            nest.map_structure(lambda _: dtype, self._rnn_output_size()),
            self._helper.sample_ids_dtype)

    def initialize(self, name=None):
        return tuple(self._helper.initialize()) + (self._initial_state,)

    def step(self, time, inputs, state, name=None):
        with graphs.name_scope(name, "BasicDecoderStep"):
            outputs, after = self._cell(inputs, state)
            if self._output_layer is not None:
                outputs = self._output_layer(outputs)
            sample_ids = self._helper.sample(time=time, outputs=outputs,
                                             state=after)
            finished, next_inputs, after = self._helper.next_inputs(
                time=time, outputs=outputs, state=after, sample_ids=sample_ids)
        return (BasicDecoderOutput(outputs, sample_ids), after, next_inputs,
                finished)


# ---- Sampling ----------------------------------------------------------------


def bernoulli_sample(probs=None, logits=None, dtype=dtypes.int32,
                     sample_shape=(), seed=None):
    """Samples from Bernoulli distributions.

    The probabilities are `probs` or sigmoid(logits). The result has the shape
    [sample_shape..., probs.shape...].
    """
    probs = (math_ops.sigmoid(logits, name="probs") if probs is None
             else convert_to_tensor(probs, name="probs"))
    shape = array_ops.concat([_vector(sample_shape), array_ops.shape(probs)], 0)
    return math_ops.cast(random_ops.random_uniform(
        shape, dtype=probs.dtype, seed=seed) < probs, dtype)


def _vector(sample_shape):
    return array_ops.reshape(convert_to_tensor(
        sample_shape, dtypes.int32, name="sample_shape"), [-1])


def categorical_sample(logits, dtype=dtypes.int32, sample_shape=(), seed=None):
    """Samples classes with probabilities softmax(logits).

    The result has the shape [sample_shape..., logits.shape[:-1]...].
    """
    logits = convert_to_tensor(logits, name="logits")
    shape = _vector(sample_shape)
    drawn = random_ops.multinomial(
        array_ops.reshape(logits, [-1, array_ops.shape(logits)[-1]]),
        math_ops.reduce_prod(shape), seed=seed)
    return math_ops.cast(array_ops.reshape(
        array_ops.transpose(drawn),
        array_ops.concat([shape, array_ops.shape(logits)[:-1]], 0)), dtype)


# ---- Helpers -----------------------------------------------------------------


class Helper(abc.ABC):
    """Samples from a BasicDecoder's outputs and chooses its next inputs."""

    @property
    @abc.abstractmethod
    def batch_size(self):
        """The number of sequences, a scalar."""
        raise NotImplementedError("batch_size has not been implemented")

    @property
    @abc.abstractmethod
    def sample_ids_shape(self):
        """The shape of a sample, without the batch dimension."""
        raise NotImplementedError("sample_ids_shape has not been implemented")

    @property
    @abc.abstractmethod
    def sample_ids_dtype(self):
        """The dtype of a sample."""
        raise NotImplementedError("sample_ids_dtype has not been implemented")

    @abc.abstractmethod
    def initialize(self, name=None):
        """Returns (finished, first inputs)."""

    @abc.abstractmethod
    def sample(self, time, outputs, state, name=None):
        """Samples from a step's outputs."""

    @abc.abstractmethod
    def next_inputs(self, time, outputs, state, sample_ids, name=None):
        """Returns (finished, next inputs, next state)."""


class CustomHelper(Helper):
    """A helper made of three functions.

    Args:
      initialize_fn: a function that returns (finished, first inputs).
      sample_fn: a function from time, outputs and state to samples.
      next_inputs_fn: a function from time, outputs, state and sample_ids to
        (finished, next inputs, next state).
      sample_ids_shape: the shape of a sample; defaults to a scalar.
      sample_ids_dtype: the dtype of a sample; defaults to int32.
    """

    def __init__(self, initialize_fn, sample_fn, next_inputs_fn,
                 sample_ids_shape=None, sample_ids_dtype=None):
        self._initialize_fn, self._sample_fn = initialize_fn, sample_fn
        self._next_inputs_fn, self._batch_size = next_inputs_fn, None
        self._sample_ids_shape = tensor_shape.TensorShape(
            sample_ids_shape or [])
        self._sample_ids_dtype = sample_ids_dtype or dtypes.int32

    @property
    def batch_size(self):
        if self._batch_size is None:
            raise ValueError("batch_size accessed before initialize was called")
        return self._batch_size

    @property
    def sample_ids_shape(self):
        return self._sample_ids_shape

    @property
    def sample_ids_dtype(self):
        return self._sample_ids_dtype

    def initialize(self, name=None):
        with graphs.name_scope(name, f"{type(self).__name__}Initialize"):
            finished, next_inputs = self._initialize_fn()
            if self._batch_size is None:
                self._batch_size = array_ops.size(finished)
        return finished, next_inputs

    def sample(self, time, outputs, state, name=None):
        with graphs.name_scope(name, f"{type(self).__name__}Sample"):
            return self._sample_fn(time=time, outputs=outputs, state=state)

    def next_inputs(self, time, outputs, state, sample_ids, name=None):
        with graphs.name_scope(name, f"{type(self).__name__}NextInputs"):
            return self._next_inputs_fn(time=time, outputs=outputs,
                                        state=state, sample_ids=sample_ids)


class _WordHelper(Helper):
    """A helper whose samples are one id per sequence."""

    _batch_size = None

    @property
    def batch_size(self):
        return self._batch_size

    @property
    def sample_ids_shape(self):
        return tensor_shape.TensorShape([])

    @property
    def sample_ids_dtype(self):
        return dtypes.int32


def _array_of_steps(x):
    return TensorArray(x.dtype.base_dtype, size=array_ops.shape(x)[0],
                       element_shape=x.shape[1:]).unstack(x)


class TrainingHelper(_WordHelper):
    """A helper for training, with known inputs.

    The samples are the classes with the largest outputs.

    Args:
      inputs: [batch, time, ...], or [time, batch, ...] if `time_major`; may be
        a structure of such tensors.
      sequence_length: the length of each sequence, int32 [batch].
    """

    def __init__(self, inputs, sequence_length, time_major=False, name=None):
        with graphs.name_scope(name, "TrainingHelper"):
            self._inputs = nest.map_structure(
                lambda x: convert_to_tensor(x, name="inputs"), inputs)
            steps = self._inputs if time_major else nest.map_structure(
                _batch_first, self._inputs)
            self._input_tas = nest.map_structure(_array_of_steps, steps)
            self._sequence_length = convert_to_tensor(
                sequence_length, name="sequence_length")
            if self._sequence_length.shape.ndims != 1:
                raise ValueError(
                    f"Expected sequence_length to be a vector, but received "
                    f"shape: {self._sequence_length.shape}")
            self._zero_inputs = nest.map_structure(
                lambda x: array_ops.zeros_like(x[0]), steps)
            self._batch_size = array_ops.size(self._sequence_length)

    @property
    def inputs(self):
        """The inputs as passed to the constructor."""
        return self._inputs

    @property
    def sequence_length(self):
        """The lengths of the sequences, [batch]."""
        return self._sequence_length

    def _read(self, time, finished):
        """Returns the inputs at a time; zeros if all sequences are finished."""
        return control_flow.cond(
            math_ops.reduce_all(finished), lambda: self._zero_inputs,
            lambda: nest.map_structure(lambda a: a.read(time),
                                       self._input_tas))

    def initialize(self, name=None):
        with graphs.name_scope(name, "TrainingHelperInitialize"):
            finished = math_ops.equal(0, self._sequence_length)
            return finished, self._read(0, finished)

    def sample(self, time, outputs, name=None, **unused_kwargs):
        with graphs.name_scope(name, "TrainingHelperSample"):
            return math_ops.argmax(outputs, -1, output_type=dtypes.int32)

    def next_inputs(self, time, outputs, state, name=None, **unused_kwargs):
        with graphs.name_scope(name, "TrainingHelperNextInputs"):
            finished = time + 1 >= self._sequence_length
            return finished, self._read(time + 1, finished), state


def _probability(sampling_probability):
    p = convert_to_tensor(sampling_probability, name="sampling_probability")
    if p.shape.ndims not in (0, 1):
        raise ValueError(f"sampling_probability must be either a scalar or a "
                         f"vector. saw shape: {p.shape}")
    return p


def _mixed(sampled, inputs, from_sampled):
    """Returns the inputs with from_sampled(rows) where `sampled` is true.

    `rows` [n, 1] are the indices of these rows.
    """
    rows = math_ops.cast(array_ops.where(sampled), dtypes.int32)
    others = math_ops.cast(array_ops.where(math_ops.logical_not(sampled)),
                           dtypes.int32)
    shape = array_ops.shape(inputs)
    mixed = (array_ops.scatter_nd(rows, from_sampled(rows), shape) +
             array_ops.scatter_nd(others, array_ops.gather_nd(inputs, others),
                                  shape))
    mixed.set_shape(inputs.shape)
    return mixed


class ScheduledEmbeddingTrainingHelper(TrainingHelper):
    """A helper that feeds given inputs or embeddings of sampled ids.

    The latter happens with a given probability. The samples are these ids,
    or -1.

    Args:
      inputs, sequence_length, time_major: see TrainingHelper.
      embedding: the function from words to inputs, or the embedding matrix.
      sampling_probability: the probability of feeding a sampled word, a scalar
        or [batch].
      seed: the seed for sampling words.
      scheduling_seed: the seed for choosing whether to feed them.
    """

    def __init__(self, inputs, sequence_length, embedding,
                 sampling_probability, time_major=False, seed=None,
                 scheduling_seed=None, name=None):
        with graphs.name_scope(name, "ScheduledEmbeddingSamplingWrapper"):
            self._embedding_fn = lookup_of(embedding)
            self._sampling_probability = _probability(sampling_probability)
            self._seed, self._scheduling_seed = seed, scheduling_seed
            super().__init__(inputs, sequence_length, time_major, name)

    def sample(self, time, outputs, state, name=None):
        with graphs.name_scope(name, "ScheduledEmbeddingTrainingHelperSample"):
            drawn = bernoulli_sample(
                probs=_each(self._sampling_probability, self.batch_size),
                dtype=dtypes.bool_, seed=self._scheduling_seed)
            return array_ops.where(
                drawn, categorical_sample(outputs, seed=self._seed),
                array_ops.fill([self.batch_size], -1))

    def next_inputs(self, time, outputs, state, sample_ids, name=None):
        with graphs.name_scope(name,
                               "ScheduledEmbeddingTrainingHelperNextInputs"):
            finished, known, state = super().next_inputs(time, outputs, state)
            return finished, control_flow.cond(
                math_ops.reduce_all(finished), lambda: known,
                lambda: _mixed(sample_ids > -1, known, lambda rows:
                               self._embedding_fn(array_ops.gather_nd(
                                   sample_ids, rows)))), state


def _each(p, batch_size):
    """Broadcasts a probability to all sequences."""
    return p if p.shape.ndims else array_ops.fill([batch_size], p)


class ScheduledOutputTrainingHelper(TrainingHelper):
    """A helper that feeds given inputs or the outputs.

    The latter happens with a given probability. The samples are 1 for outputs,
    else 0.

    Args:
      inputs, sequence_length, time_major: see TrainingHelper.
      sampling_probability: the probability of feeding an output, a scalar or
        [batch].
      next_inputs_fn: a function from the outputs to the inputs.
      auxiliary_inputs: a tensor like `inputs` except for the last dimension,
        along which it is appended to each input.
    """

    def __init__(self, inputs, sequence_length, sampling_probability,
                 time_major=False, seed=None, next_inputs_fn=None,
                 auxiliary_inputs=None, name=None):
        with graphs.name_scope(name, "ScheduledOutputTrainingHelper"):
            self._sampling_probability = _probability(sampling_probability)
            self._seed, self._next_inputs_fn = seed, next_inputs_fn
            self._auxiliary_input_tas = None
            if auxiliary_inputs is not None:
                more = nest.map_structure(convert_to_tensor, auxiliary_inputs)
                inputs = nest.map_structure(
                    lambda x, y: array_ops.concat([x, y], -1), inputs, more)
                self._auxiliary_input_tas = nest.map_structure(
                    lambda y: _array_of_steps(y if time_major
                                              else _batch_first(y)), more)
            super().__init__(inputs, sequence_length, time_major, name)

    def sample(self, time, outputs, state, name=None):
        with graphs.name_scope(name, "ScheduledOutputTrainingHelperSample"):
            return bernoulli_sample(
                probs=_each(self._sampling_probability, self.batch_size),
                seed=self._seed)

    def _with_auxiliary(self, time, inputs, rows=None):
        if self._auxiliary_input_tas is None:
            return inputs

        def one(x, array):
            more = array.read(time)
            if rows is not None:
                more = array_ops.gather_nd(more, rows)
            return array_ops.concat([x, more], -1)
        return nest.map_structure(one, inputs, self._auxiliary_input_tas)

    def next_inputs(self, time, outputs, state, sample_ids, name=None):
        with graphs.name_scope(name,
                               "ScheduledOutputTrainingHelperNextInputs"):
            finished, known, state = super().next_inputs(time, outputs, state)
            sampled = math_ops.cast(sample_ids, dtypes.bool_)

            def mixed():
                if self._next_inputs_fn is None:
                    return array_ops.where(
                        sampled, self._with_auxiliary(time + 1, outputs), known)
                return _mixed(sampled, known, lambda rows: self._with_auxiliary(
                    time + 1, self._next_inputs_fn(array_ops.gather_nd(
                        outputs, rows)), rows))

            return finished, control_flow.cond(
                math_ops.logical_or(
                    math_ops.reduce_all(finished),
                    math_ops.logical_not(math_ops.reduce_any(sampled))),
                lambda: known, mixed), state


class GreedyEmbeddingHelper(_WordHelper):
    """A helper for inference that feeds the id with the largest output.

    Args:
      embedding: the function from words to inputs, or the embedding matrix.
      start_tokens: the first words, int32 [batch].
      end_token: the word that ends a sequence, a scalar.
    """

    def __init__(self, embedding, start_tokens, end_token):
        self._embedding_fn = lookup_of(embedding)
        self._start_tokens, self._end_token = tokens_of(start_tokens, end_token)
        self._batch_size = array_ops.size(self._start_tokens)
        self._start_inputs = self._embedding_fn(self._start_tokens)

    def initialize(self, name=None):
        return (array_ops.fill([self._batch_size], False), self._start_inputs)

    def sample(self, time, outputs, state, name=None):
        return math_ops.argmax(_tensor(outputs), -1, output_type=dtypes.int32)

    def next_inputs(self, time, outputs, state, sample_ids, name=None):
        finished = math_ops.equal(sample_ids, self._end_token)
        # When all sequences end, there may be no valid ids to look up.
        return finished, control_flow.cond(
            math_ops.reduce_all(finished), lambda: self._start_inputs,
            lambda: self._embedding_fn(sample_ids)), state


def _tensor(outputs):
    if not isinstance(outputs, _core.Tensor):
        raise TypeError(f"Expected outputs to be a single Tensor, got: "
                        f"{type(outputs)}")
    return outputs


class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """A helper for inference that feeds an id sampled from the outputs.

    Args:
      embedding, start_tokens, end_token: see GreedyEmbeddingHelper.
      softmax_temperature: a divisor of the outputs; defaults to 1. Larger
        values make samples more uniform.
      seed: the seed for sampling words.
    """

    def __init__(self, embedding, start_tokens, end_token,
                 softmax_temperature=None, seed=None):
        super().__init__(embedding, start_tokens, end_token)
        self._softmax_temperature, self._seed = softmax_temperature, seed

    def sample(self, time, outputs, state, name=None):
        logits = _tensor(outputs)
        if self._softmax_temperature is not None:
            logits = logits / self._softmax_temperature
        return categorical_sample(logits, seed=self._seed)


class InferenceHelper(Helper):
    """A helper for inference that feeds the samples of a function.

    Args:
      sample_fn: a function from outputs to samples.
      sample_shape: the shape of a sample, without the batch dimension.
      sample_dtype: the dtype of a sample.
      start_inputs: the first inputs, [batch, ...].
      end_fn: a function from the samples to booleans [batch] that tell which
        sequences end.
      next_inputs_fn: a function from samples to inputs; defaults to the
        identity.
    """

    def __init__(self, sample_fn, sample_shape, sample_dtype, start_inputs,
                 end_fn, next_inputs_fn=None):
        self._sample_fn, self._end_fn = sample_fn, end_fn
        self._sample_shape = tensor_shape.TensorShape(sample_shape)
        self._sample_dtype = sample_dtype
        self._next_inputs_fn = next_inputs_fn
        self._start_inputs = convert_to_tensor(start_inputs,
                                               name="start_inputs")
        self._batch_size = array_ops.shape(self._start_inputs)[0]

    @property
    def batch_size(self):
        return self._batch_size

    @property
    def sample_ids_shape(self):
        return self._sample_shape

    @property
    def sample_ids_dtype(self):
        return self._sample_dtype

    def initialize(self, name=None):
        return (array_ops.fill([self._batch_size], False), self._start_inputs)

    def sample(self, time, outputs, state, name=None):
        return self._sample_fn(outputs)

    def next_inputs(self, time, outputs, state, sample_ids, name=None):
        inputs = (sample_ids if self._next_inputs_fn is None
                  else self._next_inputs_fn(sample_ids))
        return self._end_fn(sample_ids), inputs, state


# ---- Losses ------------------------------------------------------------------


def sequence_loss(logits, targets, weights, average_across_timesteps=True,
                  average_across_batch=True, sum_over_timesteps=False,
                  sum_over_batch=False, softmax_loss_function=None, name=None):
    """Computes the weighted cross-entropy of sequences.

    Args:
      logits: [batch, time, classes].
      targets: the classes, [batch, time].
      weights: the weights of the targets, [batch, time].
      average_across_timesteps, average_across_batch: the dimensions over which
        the sum is divided by the sum of the weights; other dimensions remain.
      sum_over_timesteps, sum_over_batch: the dimensions over which the sum is
        divided by the number of nonzero weights.
      softmax_loss_function: a function of labels and logits that replaces the
        cross-entropy.
    """
    for what, value, rank, shape in (
            ("Logits", logits, 3, "[batch_size x sequence_length x logits]"),
            ("Targets", targets, 2, "[batch_size x sequence_length]"),
            ("Weights", weights, 2, "[batch_size x sequence_length]")):
        if convert_to_tensor(value).shape.ndims not in (rank, None):
            raise ValueError(f"{what} must be a {shape} tensor")
    for what, mean, total in (
            ("timesteps", average_across_timesteps, sum_over_timesteps),
            ("batch", average_across_batch, sum_over_batch)):
        if mean and total:
            raise ValueError(f"average_across_{what} and sum_over_{what} "
                             f"cannot be set to True at same time.")
    with graphs.name_scope(name, "sequence_loss", [logits, targets, weights]):
        logits = convert_to_tensor(logits)
        weights = convert_to_tensor(weights)
        loss = (softmax_loss_function or
                nn.sparse_softmax_cross_entropy_with_logits)(
                    labels=array_ops.reshape(targets, [-1]),
                    logits=array_ops.reshape(
                        logits, [-1, array_ops.shape(logits)[2]]))
        loss = loss * array_ops.reshape(weights, [-1])
        loss = array_ops.reshape(loss, array_ops.shape(logits)[:2])
        loss.set_shape(logits.shape[:2])
        means = average_across_batch, average_across_timesteps
        counted = sum_over_batch, sum_over_timesteps
        axes = [axis for axis, on in enumerate(
            means if any(means) else counted) if on]
        if not axes:
            return loss
        over = (math_ops.reduce_sum(weights, axes) if any(means) else
                math_ops.count_nonzero(weights, axes, dtype=loss.dtype))
        return math_ops.div_no_nan(math_ops.reduce_sum(loss, axes), over)
