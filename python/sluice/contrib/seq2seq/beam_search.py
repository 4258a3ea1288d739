"""Beam search, which keeps the best prefixes of each sequence."""

import collections

import numpy as np

from sluice.compat.logging import warn
from sluice.contrib.seq2seq.attention import AttentionWrapperState
from sluice.contrib.seq2seq.decoders import (
    Decoder, check_output_layer, lookup_of, output_size_of, tokens_of)
from sluice.framework import dtypes, graph as graphs, nest, tensor_shape
from sluice.framework.conversion import constant_value, convert_to_tensor
from sluice.layers.rnn_cell import assert_like_rnncell, size_of
from sluice.ops import array_ops, control_flow, math_ops, nn, string_ops
from sluice.ops.tensor_array import TensorArray


def _number(x):
    """Returns the value of a constant scalar, else None."""
    known = constant_value(x)
    return None if known is None else int(known)


# ---- Backtracking ------------------------------------------------------------


def _paths(parent_ids, lengths):
    """Returns the path of each final beam, [time, batch, beam].

    A path contains the beam's own index from the last step of its sequence on,
    and before it the indices of its ancestors.

    Args:
      parent_ids: the beam in the previous step, [time, batch, beam].
      lengths: the number of steps of each sequence, [batch].
    """
    shape = array_ops.shape(parent_ids)
    steps, beams = shape[0], shape[2]
    own = array_ops.fill(shape[1:], 0) + math_ops.range(beams)
    known = parent_ids.shape[1:]
    own.set_shape(known)
    # Flattening the rows lets one `gather` fetch the parents of a step.
    rows = array_ops.expand_dims(math_ops.range(shape[1]) * beams, 1)

    def back(time, at, found):
        within = array_ops.fill(shape[1:], True) & array_ops.expand_dims(
            time < lengths, 1)
        # _check_parents reports invalid parents.
        parents = math_ops.maximum(0, math_ops.minimum(
            beams - 1, _taken(parent_ids[time], at, rows)))
        before = array_ops.where(within, parents, at)
        before.set_shape(known)
        return time - 1, before, found.write(time, at)

    _, _, found = control_flow.while_loop(
        lambda time, *_: time >= 0, back,
        (steps - 1, own, TensorArray(dtypes.int32, steps,
                                     element_shape=known)))
    found = found.stack()
    found.set_shape(parent_ids.shape)
    with graphs.control_dependencies([
            _check_parents(_along(parent_ids, found), lengths)]):
        return array_ops.identity(found)


def _check_parents(followed, lengths):
    """Returns an operation that fails if a followed parent is not a beam.

    `followed` is [time, batch, beam].
    """
    shape = array_ops.shape(followed)
    times = array_ops.reshape(math_ops.range(shape[0]), [-1, 1, 1])
    wrong = ((followed < 0) | (followed >= shape[2])) & (
        (times > 0) & (times < array_ops.reshape(lengths, [1, -1, 1])))

    def complain():
        at = array_ops.where(wrong)[0]
        number, step, row, beam = map(string_ops.as_string, (
            array_ops.gather_nd(followed, at), at[0] - 1, at[1], at[2]))
        return control_flow.Assert(False, [string_ops.string_join([
            "Saw invalid parent id ", number, " at (batch, time, beam) == (",
            row, ", ", step, ", ", beam, ")"])])

    return control_flow.cond(math_ops.reduce_any(wrong), complain,
                             control_flow.no_op)


def _taken(values, at, rows):
    """Gathers values at indices in each row; both are [batch, n]."""
    return array_ops.gather(array_ops.reshape(values, [-1]), at + rows)


def _along(values, paths):
    """Gathers values[time, batch, paths[time, batch, beam], ...]."""
    shape = array_ops.shape(values)
    beams = shape[2]
    rows = array_ops.reshape(math_ops.range(shape[0] * shape[1]) * beams,
                             [shape[0], shape[1], 1])
    flat = array_ops.reshape(values, array_ops.concat([[-1], shape[3:]], 0))
    taken = array_ops.gather(flat, paths + rows)
    taken.set_shape(values.shape)
    return taken


def gather_tree(step_ids, parent_ids, max_sequence_lengths, end_token,
                name=None):
    """Returns the sequences of all final beams, [time, batch, beam].

    Args:
      step_ids: the word of each beam, int32 [time, batch, beam].
      parent_ids: its beam in the previous step, int32 [time, batch, beam].
      max_sequence_lengths: the number of steps to use, int32 [batch].
      end_token: the word that fills a sequence after these steps, and after its
        first occurrence.
    """
    with graphs.name_scope(name, "GatherTree"):
        words, parents = (
            _of_rank(ids, 3, what) for ids, what in (
                (step_ids, "step_ids"), (parent_ids, "parent_ids")))
        lengths = _of_rank(max_sequence_lengths, 1, "max_sequence_lengths")
        end = _of_rank(end_token, 0, "end_token")
        words.shape.assert_is_compatible_with(parents.shape)
        found = _along(words, _paths(parents, lengths))
        times = array_ops.reshape(
            math_ops.range(array_ops.shape(found)[0]), [-1, 1, 1])
        ended = math_ops.cast(math_ops.equal(found, end), dtypes.int32)
        over = math_ops.logical_or(
            times >= array_ops.reshape(lengths, [1, -1, 1]),
            math_ops.cumsum(ended, exclusive=True) > 0)
        return array_ops.where(over, array_ops.fill(array_ops.shape(found),
                                                    end), found)


def _of_rank(x, rank, what):
    x = convert_to_tensor(x, dtypes.int32, name=what)
    if x.shape.ndims not in (rank, None):
        raise ValueError(f"{what}: expected a tensor of rank {rank}, got shape "
                         f"{x.shape}")
    return x


def gather_tree_from_array(t, parent_ids, sequence_length):
    """Reorders a stacked TensorArray like `gather_tree` reorders words.

    Args:
      t: [time, batch, beam, ...] or [time, batch * beam, ...].
      parent_ids: the beam in the previous step, [time, batch, beam].
      sequence_length: the length of each beam, [batch, beam]. Items beyond it
        are not moved.
    """
    lengths = math_ops.cast(sequence_length, dtypes.int32)
    paths = _paths(parent_ids, math_ops.reduce_max(lengths, 1))
    shape = array_ops.shape(parent_ids)
    beams = math_ops.range(shape[2])
    times = array_ops.reshape(math_ops.range(shape[0]), [-1, 1, 1])
    within = times < array_ops.expand_dims(lengths, 0)
    paths = array_ops.where(within, paths, array_ops.fill(shape, 0) + beams)
    split = array_ops.reshape(t, array_ops.concat([shape, [-1]], 0))
    sorted_ = array_ops.reshape(_along(split, paths), array_ops.shape(t))
    sorted_.set_shape(t.shape)
    return sorted_


def tile_batch(t, multiplier, name=None):
    """Repeats each entry of a batch `multiplier` times, also in structures."""
    def tiled(x):
        x = convert_to_tensor(x, name="t")
        if not x.shape.ndims:
            raise ValueError("t must have statically known rank")
        shape = array_ops.shape(x)
        made = array_ops.tile(array_ops.expand_dims(x, 1),
                              [1, multiplier] + [1] * (x.shape.ndims - 1))
        made = array_ops.reshape(made, array_ops.concat(
            [[shape[0] * multiplier], shape[1:]], 0))
        dims, times = x.shape.as_list(), _number(multiplier)
        rows = (None if dims[0] is None or times is None
                else dims[0] * times)
        made.set_shape([rows] + dims[1:])
        return made
    with graphs.name_scope(name, "tile_batch"):
        return nest.map_structure(tiled, t)


# ---- One step ----------------------------------------------------------------


class BeamSearchDecoderState(collections.namedtuple(
        "BeamSearchDecoderState", ("cell_state", "log_probs", "finished",
                                   "lengths", "accumulated_attention_probs"))):
    """The state of a BeamSearchDecoder.

    It consists of the cell's state `cell_state` [batch, beam, ...]; the log of
    each beam's probability `log_probs`, whether it is `finished`, and its
    length `lengths`, all [batch, beam]; and the total attention to each place
    `accumulated_attention_probs` [batch, beam, places], or ().
    """

    __slots__ = ()


class BeamSearchDecoderOutput(collections.namedtuple(
        "BeamSearchDecoderOutput", ("scores", "predicted_ids", "parent_ids"))):
    """The output of a step of a BeamSearchDecoder.

    It consists of the scores of the best beams, their last words, and their
    beams in the previous step, all [batch, beam].
    """

    __slots__ = ()


class FinalBeamSearchDecoderOutput(collections.namedtuple(
        "FinalBeamDecoderOutput", ("predicted_ids",
                                   "beam_search_decoder_output"))):
    """The result of a beam search.

    It consists of the sequences, best first, [time, batch, beam] (or [batch,
    time, beam]), and the outputs of the steps.
    """

    __slots__ = ()


def _gather_beams(values, beams, batch_size):
    """Gathers values[batch, beams[batch, k], ...] for each k."""
    shape = array_ops.shape(values)
    rows = array_ops.expand_dims(math_ops.range(batch_size) * shape[1], 1)
    flat = array_ops.reshape(values, array_ops.concat([[-1], shape[2:]], 0))
    taken = array_ops.gather(flat, beams + rows)
    taken.set_shape(beams.shape.concatenate(values.shape[2:]))
    return taken


def _mask_probs(probs, eos_token, finished):
    """Gives all probability of finished beams to the end word.

    The log-probabilities are [batch, beam, words].
    """
    of_end = array_ops.one_hot(
        eos_token, array_ops.shape(probs)[2], on_value=0.0,
        off_value=probs.dtype.min, dtype=probs.dtype.base_dtype)
    masked = array_ops.where_v2(array_ops.expand_dims(finished, 2), of_end,
                                probs)
    masked.set_shape(probs.shape)
    return masked


def _length_penalty(sequence_lengths, penalty_factor):
    """Returns ((5 + length) / 6) ** factor (Wu et al., 2016)."""
    factor = convert_to_tensor(penalty_factor, name="penalty_factor")
    factor.set_shape([])
    if constant_value(factor) == 0:
        return 1.0
    lengths = math_ops.cast(sequence_lengths, dtypes.float32)
    return (5.0 + lengths) ** factor / 6.0 ** factor


def _get_scores(log_probs, sequence_lengths, length_penalty_weight,
                coverage_penalty_weight, finished,
                accumulated_attention_probs):
    """Returns the scores of beams, [batch, beam, words].

    A score is the log-probability divided by the length penalty, plus the
    coverage penalty.
    """
    scores = log_probs / math_ops.cast(
        _length_penalty(sequence_lengths, length_penalty_weight),
        log_probs.dtype)
    weight = convert_to_tensor(coverage_penalty_weight,
                               name="coverage_penalty_weight")
    if weight.shape.ndims != 0:
        raise ValueError(f"coverage_penalty_weight should be a scalar, but saw "
                         f"shape: {weight.shape}")
    if constant_value(weight) == 0.0:
        return scores
    if accumulated_attention_probs is None:
        raise ValueError("accumulated_attention_probs can be None only if "
                         "coverage penalty is disabled.")
    # Places beyond a sequence's length have no attention and no penalty.
    seen = array_ops.where(
        math_ops.equal(accumulated_attention_probs, 0.0),
        array_ops.ones_like(accumulated_attention_probs),
        accumulated_attention_probs)
    penalty = math_ops.reduce_sum(
        math_ops.log(math_ops.minimum(seen, 1.0)), 2)
    penalty = penalty * math_ops.cast(finished, penalty.dtype) * (
        math_ops.cast(weight, penalty.dtype))
    return scores + array_ops.expand_dims(penalty, 2)


def attention_probs_from_attn_state(attention_state):
    """Returns the alignments of an AttentionWrapperState.

    With several mechanisms, returns their mean.
    """
    found = attention_state.alignments
    return _mean(found) if isinstance(found, tuple) else found


def _mean(tensors):
    return math_ops.reduce_mean(array_ops.stack(list(tensors), -1), -1)


def get_attention_probs(next_cell_state, coverage_penalty_weight):
    """Returns the alignments of a cell's state, [batch, beam, places].

    For a tuple of states, returns the mean. If the weight is 0, returns None.

    Raises:
      ValueError: if no cell has attention.
    """
    if coverage_penalty_weight == 0.0:
        return None
    states = ([next_cell_state]
              if isinstance(next_cell_state, AttentionWrapperState)
              else next_cell_state if isinstance(next_cell_state, tuple)
              else [])
    found = [attention_probs_from_attn_state(s) for s in states
             if isinstance(s, AttentionWrapperState)]
    if not found:
        raise ValueError("coverage_penalty_weight must be 0.0 if no cell is "
                         "attentional.")
    return found[0] if len(found) == 1 else _mean(found)


def _beam_search_step(time, logits, next_cell_state, beam_state, batch_size,
                      beam_width, end_token, length_penalty_weight,
                      coverage_penalty_weight):
    """Extends all beams by all words and selects those with the best scores.

    Args:
      logits: the logits of the words, [batch, beam, words].
      next_cell_state: the cell's state, in the order of the previous beams.

    Returns:
      (BeamSearchDecoderOutput, BeamSearchDecoderState).
    """
    finished = beam_state.finished
    running = math_ops.cast(math_ops.logical_not(finished), dtypes.int64)
    total = array_ops.expand_dims(beam_state.log_probs, 2) + _mask_probs(
        nn.log_softmax(logits), end_token, finished)
    words = logits.shape.as_list()[-1] or array_ops.shape(logits)[-1]
    # The end word does not count towards the length.
    longer = array_ops.one_hot(
        end_token, words, on_value=math_ops.cast(0, dtypes.int64),
        off_value=math_ops.cast(1, dtypes.int64), dtype=dtypes.int64)
    lengths = (array_ops.expand_dims(running, 2) * longer +
               array_ops.expand_dims(beam_state.lengths, 2))
    seen = get_attention_probs(next_cell_state, coverage_penalty_weight)
    if seen is not None:
        seen = beam_state.accumulated_attention_probs + seen * (
            array_ops.expand_dims(math_ops.cast(running, seen.dtype), 2))
    scores = _get_scores(total, lengths, length_penalty_weight,
                         coverage_penalty_weight, finished, seen)
    best, places = nn.top_k(array_ops.reshape(scores, [batch_size, -1]),
                            beam_width)
    for x in (best, places):
        x.set_shape([_number(batch_size), beam_width])
    ids = math_ops.floormod(places, words, name="next_beam_word_ids")
    parents = math_ops.floordiv(places, words, name="next_beam_parent_ids")

    def of_parents(values):
        return _gather_beams(values, parents, batch_size)

    def of_state(values):
        if isinstance(values, TensorArray):
            return values
        _check_ndims(values)
        return of_parents(values) if values.shape.ndims >= 2 else values

    was_finished = of_parents(finished)
    return BeamSearchDecoderOutput(best, ids, parents), BeamSearchDecoderState(
        cell_state=nest.map_structure(of_state, next_cell_state),
        log_probs=_gather_beams(
            array_ops.reshape(total, [batch_size, -1]), places, batch_size),
        finished=math_ops.logical_or(
            was_finished, math_ops.equal(ids, end_token),
            name="next_beam_finished"),
        lengths=of_parents(beam_state.lengths) + math_ops.cast(
            math_ops.logical_not(was_finished), dtypes.int64),
        accumulated_attention_probs=() if seen is None else of_parents(seen))


def _check_ndims(t):
    if t.shape.ndims is None:
        raise ValueError(f"Expected tensor ({t}) to have known rank, but ndims "
                         f"== None.")


# ---- The decoder -------------------------------------------------------------


_NOT_SORTED = ("Consider setting reorder_tensor_arrays to False to disable "
               "TensorArray reordering during the beam search.")


def _check_static_batch_beam_maybe(shape, batch_size, beam_width):
    """Returns whether elements of a TensorArray can be reordered, else warns.

    Their static shape must be compatible with [batch * beam] or [batch * beam,
    unknown, ...]. This is the rule of TensorFlow 1.15. Other arrays could be
    reordered, too, but programs expect them unchanged and stack them.
    """
    dims = shape.as_list()
    if batch_size is None or dims[0] is None or (
            dims[0] == batch_size * beam_width and (
                dims[1:2] in ([], [None]) or
                dims[:2] == [batch_size, beam_width])):
        return True
    warn(f"TensorArray reordering expects elements to be reshapable to "
         f"{[batch_size, beam_width, None]} which is incompatible with the "
         f"current shape {shape}. {_NOT_SORTED}")
    return False


def _check_batch_beam(t, batch_size, beam_width):
    """Returns an operation that checks the shape of a stacked TensorArray.

    It must be [time, batch * beam, ...] or [time, batch, beam, ...].
    """
    shape = array_ops.shape(t)
    right = math_ops.equal(shape[1], batch_size * beam_width)
    if t.shape.ndims > 2:
        right = math_ops.logical_or(right, math_ops.logical_and(
            math_ops.equal(shape[1], batch_size),
            math_ops.equal(shape[2], beam_width)))
    return control_flow.Assert(right, [
        f"TensorArray reordering expects elements to be reshapable to "
        f"[batch_size, beam_size, -1] which is incompatible with the dynamic "
        f"shape of {t.name} elements. {_NOT_SORTED}"])


class BeamSearchDecoder(Decoder):
    """A decoder that keeps the best `beam_width` prefixes of each sequence.

    With an AttentionWrapper, apply `tile_batch` to the memory, its lengths and
    the states, and call its `zero_state` with batch * beam_width.

    Args:
      cell: the cell.
      embedding: the function from words to inputs, or the embedding matrix.
      start_tokens: the first words, int32 [batch].
      end_token: the word that ends a sequence, a scalar.
      initial_state: the initial state of the cell, [batch * beam_width, ...].
      beam_width: the number of beams, an int.
      output_layer: a layer from the cell's outputs to logits.
      length_penalty_weight: the strength of the preference for long sequences.
      coverage_penalty_weight: the strength of the preference for sequences that
        attend to the whole memory.
      reorder_tensor_arrays: whether TensorArrays in the final state are stacked
        and reordered like the sequences.
    """

    def __init__(self, cell, embedding, start_tokens, end_token, initial_state,
                 beam_width, output_layer=None, length_penalty_weight=0.0,
                 coverage_penalty_weight=0.0, reorder_tensor_arrays=True):
        assert_like_rnncell("cell", cell)
        check_output_layer(output_layer)
        self._cell, self._output_layer = cell, output_layer
        self._beam_width = beam_width
        self._length_penalty_weight = length_penalty_weight
        self._coverage_penalty_weight = coverage_penalty_weight
        self._reorder_tensor_arrays = reorder_tensor_arrays
        self._embedding_fn = lookup_of(embedding)
        start, self._end_token = tokens_of(start_tokens, end_token)
        self._batch_size = array_ops.size(start)
        self._initial_cell_state = nest.map_structure(
            self._maybe_split_batch_beams, initial_state, cell.state_size)
        self._start_tokens = array_ops.tile(array_ops.expand_dims(start, 1),
                                            [1, beam_width])
        self._start_inputs = self._embedding_fn(self._start_tokens)

    @property
    def batch_size(self):
        return self._batch_size

    @property
    def tracks_own_finished(self):
        # Beams move between rows.
        return True

    def _rnn_output_size(self):
        return output_size_of(self._cell, self._output_layer)

    @property
    def output_size(self):
        size = tensor_shape.TensorShape([self._beam_width])
        return BeamSearchDecoderOutput(size, size, size)

    def _dtype(self):
        return nest.flatten(self._initial_cell_state)[0].dtype.base_dtype

    @property
    def output_dtype(self):
        return BeamSearchDecoderOutput(self._dtype(), dtypes.int32,
                                       dtypes.int32)

    def _first(self, on, off, dtype):
        """Returns a value for the first beam and another one for the others."""
        row = convert_to_tensor([on] + [off] * (self._beam_width - 1), dtype)
        return array_ops.tile(array_ops.expand_dims(row, 0),
                              [self._batch_size, 1])

    def initialize(self, name=None):
        # All beams are initially equal, so only the first one is active.
        finished = self._first(False, True, dtypes.bool_)
        seen = get_attention_probs(self._initial_cell_state,
                                   self._coverage_penalty_weight)
        return finished, self._start_inputs, BeamSearchDecoderState(
            cell_state=self._initial_cell_state,
            log_probs=self._first(0.0, -np.inf, self._dtype()),
            finished=finished,
            lengths=array_ops.zeros([self._batch_size, self._beam_width],
                                    dtypes.int64),
            accumulated_attention_probs=() if seen is None else seen)

    def finalize(self, outputs, final_state, sequence_lengths):
        # The state has the correct lengths, because beams move between rows.
        lengths = math_ops.cast(
            math_ops.reduce_max(final_state.lengths, 1), dtypes.int32)
        found = gather_tree(outputs.predicted_ids, outputs.parent_ids, lengths,
                            self._end_token)
        if self._reorder_tensor_arrays:
            final_state = final_state._replace(cell_state=nest.map_structure(
                lambda t: self._maybe_sort_array_beams(
                    t, outputs.parent_ids, final_state.lengths),
                final_state.cell_state))
        return FinalBeamSearchDecoderOutput(found, outputs), final_state

    def _merge_batch_beams(self, t, s=None):
        """Reshapes [batch, beam, ...] to [batch * beam, ...]."""
        merged = array_ops.reshape(t, array_ops.concat(
            [[self._batch_size * self._beam_width], array_ops.shape(t)[2:]], 0))
        n = _number(self._batch_size)
        merged.set_shape(tensor_shape.TensorShape(
            [None if n is None else n * self._beam_width]).concatenate(
                _shape_of_size(s)))
        return merged

    def _split_batch_beams(self, t, s=None):
        """Reshapes [batch * beam, ...] to [batch, beam, ...]."""
        split = array_ops.reshape(t, array_ops.concat(
            [[self._batch_size, self._beam_width], array_ops.shape(t)[1:]], 0))
        expected = tensor_shape.TensorShape(
            [_number(self._batch_size), self._beam_width]).concatenate(
                _shape_of_size(s))
        if not split.shape.is_compatible_with(expected):
            raise ValueError(
                f"Unexpected behavior when reshaping between beam width and "
                f"batch size.  The reshaped tensor has shape: {split.shape}.  "
                f"We expected it to have shape (batch_size, beam_width, depth) "
                f"== {expected}.  Perhaps you forgot to create a zero_state "
                f"with batch_size=encoder_batch_size * beam_width?")
        split.set_shape(expected)
        return split

    def _maybe_split_batch_beams(self, t, s):
        if isinstance(t, TensorArray):
            return t
        _check_ndims(t)
        return self._split_batch_beams(t, s) if t.shape.ndims >= 1 else t

    def _maybe_merge_batch_beams(self, t, s):
        if isinstance(t, TensorArray):
            return t
        _check_ndims(t)
        return self._merge_batch_beams(t, s) if t.shape.ndims >= 2 else t

    def _maybe_sort_array_beams(self, t, parent_ids, sequence_length):
        """Stacks and reorders a TensorArray if possible."""
        if not isinstance(t, TensorArray):
            return t
        if not t.element_shape.ndims:
            warn(f"The TensorArray {t.handle.name} in the cell state is not "
                 f"amenable to sorting based on the beam search result. For a "
                 f"TensorArray to be sorted, its elements shape must be "
                 f"defined and have at least a rank of 1, but saw shape: "
                 f"{t.element_shape}")
            return t
        if not _check_static_batch_beam_maybe(
                t.element_shape, _number(self._batch_size), self._beam_width):
            return t
        stacked = t.stack()
        with graphs.control_dependencies([_check_batch_beam(
                stacked, self._batch_size, self._beam_width)]):
            return gather_tree_from_array(array_ops.identity(stacked),
                                          parent_ids, sequence_length)

    def step(self, time, inputs, state, name=None):
        with graphs.name_scope(name, "BeamSearchDecoderStep"):
            outputs, after = self._cell(
                nest.map_structure(
                    lambda x: self._merge_batch_beams(x, x.shape[2:]), inputs),
                nest.map_structure(self._maybe_merge_batch_beams,
                                   state.cell_state, self._cell.state_size))
            outputs = nest.map_structure(
                lambda x: self._split_batch_beams(x, x.shape[1:]), outputs)
            after = nest.map_structure(self._maybe_split_batch_beams, after,
                                       self._cell.state_size)
            if self._output_layer is not None:
                outputs = self._output_layer(outputs)
            made, state = _beam_search_step(
                time, outputs, after, state, self._batch_size, self._beam_width,
                self._end_token, self._length_penalty_weight,
                self._coverage_penalty_weight)
            next_inputs = control_flow.cond(
                math_ops.reduce_all(state.finished), lambda: self._start_inputs,
                lambda: self._embedding_fn(made.predicted_ids))
        return made, state, next_inputs, state.finished


def _shape_of_size(size):
    """Returns the static shape of a size: a number, a shape or a tensor."""
    if hasattr(size, "op"):
        known = constant_value(size)
        if known is None:
            return tensor_shape.TensorShape([None] * (size.shape.as_list()[0]
                                                      if size.shape.ndims
                                                      else 1))
        size = [int(d) for d in np.reshape(known, [-1])]
    return size_of(size)
