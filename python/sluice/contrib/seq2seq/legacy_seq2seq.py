"""Sequence-to-sequence models over lists: `tf.contrib.legacy_seq2seq`.

Inputs and outputs are lists with a tensor [batch, ...] per step. Words are
int32 [batch].
"""

import copy

from sluice import _core
from sluice.contrib.rnn import (
    EmbeddingWrapper, Linear, OutputProjectionWrapper)
from sluice.framework import dtypes, graph as graphs, nest
from sluice.framework.conversion import convert_to_tensor
from sluice.layers.rnn import static_rnn
from sluice.layers.rnn_cell import RNNCell
from sluice.ops import (
    array_ops, control_flow, math_ops, nn, variable_scope as scopes)
from sluice.ops.embedding import embedding_lookup


def _word_before(embedding, output_projection=None, update_embedding=True):
    """Returns the function from an output to its best word's embedding."""
    def loop_function(prev, _):
        if output_projection is not None:
            prev = nn.xw_plus_b(prev, *output_projection)
        vector = embedding_lookup(embedding, math_ops.argmax(prev, 1))
        return vector if update_embedding else array_ops.stop_gradient(vector)
    return loop_function


def _either_way(feed_previous, decode):
    """Returns decode(feed_previous), which is (outputs, state).

    If `feed_previous` is a tensor, builds both decoders with the same
    variables, of which one runs.
    """
    if isinstance(feed_previous, bool):
        return decode(feed_previous, True)
    states = []

    def branch(feeds):
        with scopes.variable_scope(scopes.get_variable_scope(),
                                   reuse=None if feeds else True):
            outputs, state = decode(feeds, False)
        states.append((len(outputs), state))
        return list(outputs) + nest.flatten(state)

    found = control_flow.cond(feed_previous, lambda: branch(True),
                              lambda: branch(False), strict=True)
    steps, state = states[0]
    return found[:steps], nest.pack_sequence_as(state, found[steps:])


def _check_projection(output_projection, num_symbols, dtype):
    if output_projection is None:
        return
    for value, shape in zip(output_projection,
                            ([None, num_symbols], [num_symbols])):
        convert_to_tensor(value, dtype).shape.assert_is_compatible_with(shape)


def rnn_decoder(decoder_inputs, initial_state, cell, loop_function=None,
                scope=None):
    """Runs a cell along a list of inputs; returns (outputs, final state).

    Args:
      decoder_inputs: a list of [batch, size].
      initial_state: the initial state of the cell.
      loop_function: a function from the previous output and the number of the
        step to the input, which replaces all inputs but the first.
      scope: the variable scope; defaults to "rnn_decoder".
    """
    with scopes.variable_scope(scope or "rnn_decoder") as own:
        state, outputs = initial_state, []
        for i, x in enumerate(decoder_inputs):
            if i > 0:
                if loop_function is not None:
                    with scopes.variable_scope("loop_function", reuse=True):
                        x = loop_function(outputs[-1], i)
                own.reuse_variables()
            output, state = cell(x, state)
            outputs.append(output)
    return outputs, state


def basic_rnn_seq2seq(encoder_inputs, decoder_inputs, cell,
                      dtype=dtypes.float32, scope=None):
    """Runs an encoder, and then a decoder from its final state.

    The decoder has a copy of the cell. Inputs are [batch, size]. Returns
    (outputs, final state).
    """
    with scopes.variable_scope(scope or "basic_rnn_seq2seq"):
        _, state = static_rnn(copy.deepcopy(cell), encoder_inputs, dtype=dtype)
        return rnn_decoder(decoder_inputs, state, cell)


def tied_rnn_seq2seq(encoder_inputs, decoder_inputs, cell, loop_function=None,
                     dtype=dtypes.float32, scope=None):
    """Works like `basic_rnn_seq2seq`, with the same cell for both."""
    with scopes.variable_scope("combined_tied_rnn_seq2seq") as own:
        scope = scope or "tied_rnn_seq2seq"
        _, state = static_rnn(cell, encoder_inputs, dtype=dtype, scope=scope)
        own.reuse_variables()
        return rnn_decoder(decoder_inputs, state, cell, loop_function, scope)


def embedding_rnn_decoder(decoder_inputs, initial_state, cell, num_symbols,
                          embedding_size, output_projection=None,
                          feed_previous=False,
                          update_embedding_for_previous=True, scope=None):
    """Runs a cell along a list of words; returns (outputs, final state).

    Args:
      decoder_inputs: a list of words, int32 [batch].
      initial_state: the initial state of the cell.
      num_symbols: the number of words.
      embedding_size: the size of their embeddings.
      output_projection: (matrix [size, num_symbols], bias) from outputs to
        logits, for finding the previous word.
      feed_previous: whether the most likely word of each step is the next
        input; then only the first of the inputs is used.
      update_embedding_for_previous: whether this trains the embeddings of these
        words.
      scope: the variable scope; defaults to "embedding_rnn_decoder".
    """
    with scopes.variable_scope(scope or "embedding_rnn_decoder") as own:
        _check_projection(output_projection, num_symbols, own.dtype)
        embedding = scopes.get_variable("embedding",
                                        [num_symbols, embedding_size])
        loop_function = _word_before(
            embedding, output_projection,
            update_embedding_for_previous) if feed_previous else None
        return rnn_decoder(
            [embedding_lookup(embedding, i) for i in decoder_inputs],
            initial_state, cell, loop_function)


def _with_embedding(cell, num_symbols, embedding_size):
    return EmbeddingWrapper(cell, embedding_classes=num_symbols,
                            embedding_size=embedding_size)


def embedding_rnn_seq2seq(encoder_inputs, decoder_inputs, cell,
                          num_encoder_symbols, num_decoder_symbols,
                          embedding_size, output_projection=None,
                          feed_previous=False, dtype=None, scope=None):
    """Runs an encoder and a decoder along lists of words.

    Args:
      encoder_inputs, decoder_inputs: lists of words, int32 [batch].
      num_encoder_symbols, num_decoder_symbols: the numbers of words.
      embedding_size: the size of their embeddings.
      output_projection: see `embedding_rnn_decoder`. Without it, outputs are
        logits of the words, [batch, num_decoder_symbols].
      feed_previous: see `embedding_rnn_decoder`; may be a boolean tensor.
      scope: the variable scope; defaults to "embedding_rnn_seq2seq".

    Returns:
      (outputs, final state).
    """
    with scopes.variable_scope(scope or "embedding_rnn_seq2seq") as own:
        if dtype is not None:
            own.set_dtype(dtype)
        _, state = static_rnn(
            _with_embedding(copy.deepcopy(cell), num_encoder_symbols,
                            embedding_size),
            encoder_inputs, dtype=dtype or own.dtype)
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, num_decoder_symbols)
        return _either_way(feed_previous, lambda feeds, update: (
            embedding_rnn_decoder(
                decoder_inputs, state, cell, num_decoder_symbols,
                embedding_size, output_projection, feeds, update)))


def embedding_tied_rnn_seq2seq(encoder_inputs, decoder_inputs, cell,
                               num_symbols, embedding_size,
                               num_decoder_symbols=None, output_projection=None,
                               feed_previous=False, dtype=None, scope=None):
    """Works like `embedding_rnn_seq2seq`, with a shared cell and embedding."""
    with scopes.variable_scope(scope or "embedding_tied_rnn_seq2seq",
                               dtype=dtype) as own:
        dtype = own.dtype
        _check_projection(output_projection, num_symbols, dtype)
        embedding = scopes.get_variable(
            "embedding", [num_symbols, embedding_size], dtype)
        vectors = [[embedding_lookup(embedding, x) for x in inputs]
                   for inputs in (encoder_inputs, decoder_inputs)]
        if output_projection is None:
            cell = OutputProjectionWrapper(
                cell, num_symbols if num_decoder_symbols is None
                else num_decoder_symbols)
        return _either_way(feed_previous, lambda feeds, update: (
            tied_rnn_seq2seq(
                *vectors, cell, _word_before(embedding, output_projection,
                                             update) if feeds else None,
                dtype)))


class _Attention:
    """Attention heads over states [batch, places, size]."""

    def __init__(self, states, num_heads, dtype):
        self._dtype, self._size = dtype, states.shape.as_list()[2]
        self._places = states.shape.as_list()[1] or array_ops.shape(states)[1]
        self._hidden = array_ops.reshape(
            states, [-1, self._places, 1, self._size])
        self._features, self._v = [], []
        for head in range(num_heads):
            k = scopes.get_variable(f"AttnW_{head}",
                                    [1, 1, self._size, self._size], dtype)
            self._features.append(nn.conv2d(self._hidden, k, [1, 1, 1, 1],
                                            "SAME"))
            self._v.append(scopes.get_variable(f"AttnV_{head}", [self._size],
                                               dtype))

    def nothing(self, batch_size):
        """Returns the attention before the first step."""
        seen = [array_ops.zeros(array_ops.stack([batch_size, self._size]),
                                self._dtype) for _ in self._v]
        for x in seen:
            x.set_shape([None, self._size])
        return seen

    def __call__(self, query):
        """Returns each head's attention [batch, size] for a decoder state."""
        parts = nest.flatten(query)
        if any(p.shape.ndims not in (2, None) for p in parts):
            raise ValueError(f"attention_decoder: expected states that are "
                             f"matrices, got {[p.shape for p in parts]}")
        query = parts[0] if len(parts) == 1 else array_ops.concat(parts, 1)
        seen = []
        for head, (features, v) in enumerate(zip(self._features, self._v)):
            with scopes.variable_scope(f"Attention_{head}"):
                y = array_ops.reshape(
                    Linear(query, self._size, True)(query),
                    [-1, 1, 1, self._size])
                scores = math_ops.reduce_sum(v * math_ops.tanh(
                    features + math_ops.cast(y, self._dtype)), [2, 3])
                much = math_ops.cast(nn.softmax(math_ops.cast(
                    scores, dtypes.float32)), self._dtype)
                seen.append(array_ops.reshape(math_ops.reduce_sum(
                    array_ops.reshape(much, [-1, self._places, 1, 1]) *
                    self._hidden, [1, 2]), [-1, self._size]))
        return seen


def attention_decoder(decoder_inputs, initial_state, attention_states, cell,
                      output_size=None, num_heads=1, loop_function=None,
                      dtype=None, scope=None, initial_state_attention=False):
    """Runs a cell with attention along a list of inputs.

    Args:
      decoder_inputs: a list of [batch, size].
      initial_state: the initial state of the cell.
      attention_states: the memory to attend to, [batch, places, size].
      output_size: the size of the outputs; defaults to that of the cell.
      num_heads: the number of attention heads.
      loop_function: see `rnn_decoder`.
      dtype: the dtype of the variables; defaults to that of the scope.
      scope: the variable scope; defaults to "attention_decoder".
      initial_state_attention: whether to attend before the first step.
        Otherwise the first attention is zero.

    Returns:
      (outputs, final state).
    """
    if not decoder_inputs:
        raise ValueError("Must provide at least 1 input to attention decoder.")
    if num_heads < 1:
        raise ValueError("With less than 1 heads, use a non-attention decoder.")
    if attention_states.shape.as_list()[2] is None:
        raise ValueError(f"Shape[2] of attention_states must be known: "
                         f"{attention_states.shape}")
    if output_size is None:
        output_size = cell.output_size
    with scopes.variable_scope(scope or "attention_decoder",
                               dtype=dtype) as own:
        look = _Attention(attention_states, num_heads, own.dtype)
        state, outputs = initial_state, []
        seen = (look(state) if initial_state_attention
                else look.nothing(array_ops.shape(decoder_inputs[0])[0]))
        for i, x in enumerate(decoder_inputs):
            if i > 0:
                own.reuse_variables()
                if loop_function is not None:
                    with scopes.variable_scope("loop_function", reuse=True):
                        x = loop_function(outputs[-1], i)
            size = x.shape.as_list()[1]
            if size is None:
                raise ValueError(f"Could not infer input size from input: "
                                 f"{x.name}")
            joined = [math_ops.cast(p, own.dtype) for p in [x] + seen]
            output, state = cell(Linear(joined, size, True)(joined), state)
            with scopes.variable_scope(
                    own, reuse=True if initial_state_attention else None):
                seen = look(state)
            with scopes.variable_scope("AttnOutputProjection"):
                joined = [math_ops.cast(output, own.dtype)] + seen
                outputs.append(Linear(joined, output_size, True)(joined))
    return outputs, state


def embedding_attention_decoder(decoder_inputs, initial_state, attention_states,
                                cell, num_symbols, embedding_size, num_heads=1,
                                output_size=None, output_projection=None,
                                feed_previous=False,
                                update_embedding_for_previous=True, dtype=None,
                                scope=None, initial_state_attention=False):
    """Runs `attention_decoder` along a list of words.

    See `embedding_rnn_decoder` for the arguments.
    """
    if output_size is None:
        output_size = cell.output_size
    if output_projection is not None:
        convert_to_tensor(output_projection[1], dtype).shape \
            .assert_is_compatible_with([num_symbols])
    with scopes.variable_scope(scope or "embedding_attention_decoder",
                               dtype=dtype):
        embedding = scopes.get_variable("embedding",
                                        [num_symbols, embedding_size])
        loop_function = _word_before(
            embedding, output_projection,
            update_embedding_for_previous) if feed_previous else None
        return attention_decoder(
            [embedding_lookup(embedding, i) for i in decoder_inputs],
            initial_state, attention_states, cell, output_size, num_heads,
            loop_function, initial_state_attention=initial_state_attention)


def embedding_attention_seq2seq(encoder_inputs, decoder_inputs, cell,
                                num_encoder_symbols, num_decoder_symbols,
                                embedding_size, num_heads=1,
                                output_projection=None, feed_previous=False,
                                dtype=None, scope=None,
                                initial_state_attention=False):
    """Works like `embedding_rnn_seq2seq`, with attention to the encoder."""
    with scopes.variable_scope(scope or "embedding_attention_seq2seq",
                               dtype=dtype) as own:
        encoded, state = static_rnn(
            _with_embedding(copy.deepcopy(cell), num_encoder_symbols,
                            embedding_size), encoder_inputs, dtype=own.dtype)
        states = array_ops.concat([
            array_ops.reshape(e, [-1, 1, cell.output_size])
            for e in encoded], 1)
        output_size = None
        if output_projection is None:
            cell = OutputProjectionWrapper(cell, num_decoder_symbols)
            output_size = num_decoder_symbols
        return _either_way(feed_previous, lambda feeds, update: (
            embedding_attention_decoder(
                decoder_inputs, state, states, cell, num_decoder_symbols,
                embedding_size, num_heads, output_size, output_projection,
                feeds, update,
                initial_state_attention=initial_state_attention)))


def one2many_rnn_seq2seq(encoder_inputs, decoder_inputs_dict, enc_cell,
                         dec_cells_dict, num_encoder_symbols,
                         num_decoder_symbols_dict, embedding_size,
                         feed_previous=False, dtype=None, scope=None):
    """Runs one encoder and several decoders along lists of words.

    Returns (outputs, final states), which are dicts by decoder name.
    """
    if set(dec_cells_dict) != set(decoder_inputs_dict):
        raise ValueError("keys of dec_cells_dict != keys of "
                         "decoder_inputs_dict")
    for what, cell in [("enc_cell", enc_cell)] + [
            ("dec_cell", c) for c in dec_cells_dict.values()]:
        if not isinstance(cell, RNNCell):
            raise TypeError(f"{what} is not an RNNCell: {type(cell)}")
    outputs, states = {}, {}
    with scopes.variable_scope(scope or "one2many_rnn_seq2seq",
                               dtype=dtype) as own:
        _, state = static_rnn(
            _with_embedding(enc_cell, num_encoder_symbols, embedding_size),
            encoder_inputs, dtype=own.dtype)
        for name, inputs in decoder_inputs_dict.items():
            words = num_decoder_symbols_dict[name]
            with scopes.variable_scope(f"one2many_decoder_{name}"):
                cell = OutputProjectionWrapper(dec_cells_dict[name], words)
                outputs[name], states[name] = _either_way(
                    feed_previous, lambda feeds, _: embedding_rnn_decoder(
                        inputs, state, cell, words, embedding_size,
                        feed_previous=feeds))
    return outputs, states


def sequence_loss_by_example(logits, targets, weights,
                             average_across_timesteps=True,
                             softmax_loss_function=None, name=None):
    """Computes the weighted cross-entropy of each sequence, [batch].

    Args:
      logits: a list of [batch, words].
      targets: a list of words, [batch].
      weights: a list of the weights of the words, [batch].
      average_across_timesteps: whether to divide by the sum of the weights.
      softmax_loss_function: a function of labels and logits that replaces the
        cross-entropy.
    """
    if len(targets) != len(logits) or len(weights) != len(logits):
        raise ValueError(f"Lengths of logits, weights, and targets must be the "
                         f"same {len(logits)}, {len(weights)}, "
                         f"{len(targets)}.")
    with graphs.name_scope(name, "sequence_loss_by_example",
                           list(logits) + list(targets) + list(weights)):
        of_words = (softmax_loss_function or
                    nn.sparse_softmax_cross_entropy_with_logits)
        losses = [of_words(labels=target if softmax_loss_function
                           else array_ops.reshape(target, [-1]),
                           logits=logit) * weight
                  for logit, target, weight in zip(logits, targets, weights)]
        total = math_ops.add_n(losses)
        if average_across_timesteps:
            # Avoids a division by 0 if all weights are 0.
            total = total / (math_ops.add_n(weights) + 1e-12)
        return total


def sequence_loss(logits, targets, weights, average_across_timesteps=True,
                  average_across_batch=True, softmax_loss_function=None,
                  name=None):
    """Sums or averages `sequence_loss_by_example` over the batch."""
    with graphs.name_scope(name, "sequence_loss",
                           list(logits) + list(targets) + list(weights)):
        cost = math_ops.reduce_sum(sequence_loss_by_example(
            logits, targets, weights, average_across_timesteps,
            softmax_loss_function))
        if not average_across_batch:
            return cost
        return cost / math_ops.cast(
            array_ops.shape(convert_to_tensor(targets[0]))[0], cost.dtype)


def model_with_buckets(encoder_inputs, decoder_inputs, targets, weights,
                       buckets, seq2seq, softmax_loss_function=None,
                       per_example_loss=False, name=None):
    """Builds a model for each bucket of lengths, with shared variables.

    Args:
      encoder_inputs, decoder_inputs, targets, weights: lists with the length of
        the last bucket.
      buckets: a list of (length of the input, length of the output).
      seq2seq: a function from the inputs of encoder and decoder to (outputs,
        state).
      softmax_loss_function: see `sequence_loss`.
      per_example_loss: whether losses are [batch] instead of scalars.

    Returns:
      (outputs per bucket, losses per bucket).
    """
    for what, given, least in (
            ("encoder_inputs", encoder_inputs, buckets[-1][0]),
            ("targets", targets, buckets[-1][1]),
            ("weights", weights, buckets[-1][1])):
        if len(given) < least:
            raise ValueError(f"Length of {what} ({len(given)}) must be at "
                             f"least that of last bucket ({least}).")
    loss = sequence_loss_by_example if per_example_loss else sequence_loss
    outputs, losses = [], []
    with graphs.name_scope(name, "model_with_buckets", [
            x for xs in (encoder_inputs, decoder_inputs, targets, weights)
            for x in xs if isinstance(x, _core.Tensor)]):
        for i, (long, wide) in enumerate(buckets):
            with scopes.variable_scope(scopes.get_variable_scope(),
                                       reuse=True if i else None):
                made, _ = seq2seq(encoder_inputs[:long],
                                  decoder_inputs[:wide])
            outputs.append(made)
            losses.append(loss(made, targets[:wide], weights[:wide],
                               softmax_loss_function=softmax_loss_function))
    return outputs, losses
