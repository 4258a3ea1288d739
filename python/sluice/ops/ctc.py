"""Connectionist temporal classification (Graves et al., 2006)."""

from sluice import _core
from sluice.framework.conversion import SparseTensor, convert_to_tensor
from sluice.ops import array_ops

_op = _core.op


def ctc_loss(labels, inputs=None, sequence_length=None,
             preprocess_collapse_repeated=False, ctc_merge_repeated=True,
             ignore_longer_outputs_than_inputs=False, time_major=True,
             logits=None):
    """-log of the probability of sparse labels, for each sequence of logits
    [time, batch, classes] (the last class is the blank)."""
    if not isinstance(labels, SparseTensor):
        raise TypeError("Expected labels (first argument) to be a "
                        "SparseTensor")
    inputs = convert_to_tensor(logits if inputs is None else inputs)
    if not time_major:
        inputs = array_ops.transpose(inputs, [1, 0, 2])
    loss, _ = _op("CTCLoss")(
        inputs, labels.indices, labels.values, sequence_length,
        preprocess_collapse_repeated=preprocess_collapse_repeated,
        ctc_merge_repeated=ctc_merge_repeated,
        ignore_longer_outputs_than_inputs=ignore_longer_outputs_than_inputs)
    return loss


def ctc_greedy_decoder(inputs, sequence_length, merge_repeated=True):
    """([sparse labels], -sums of the logits) of the best class at each
    time."""
    indices, values, shape, scores = _op("CTCGreedyDecoder")(
        inputs, sequence_length, merge_repeated=merge_repeated)
    return [SparseTensor(indices, values, shape)], scores


def ctc_beam_search_decoder(inputs, sequence_length, beam_width=100,
                            top_paths=1, merge_repeated=True):
    """(the best paths, sparse labels each; their log probabilities)."""
    indices, values, shapes, scores = _op("CTCBeamSearchDecoder")(
        inputs, sequence_length, beam_width=beam_width, top_paths=top_paths,
        merge_repeated=merge_repeated)
    return [SparseTensor(*path) for path in zip(indices, values, shapes)], (
        scores)
