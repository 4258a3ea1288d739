"""Connectionist temporal classification (Graves et al., 2006)."""

from sluice import _core
from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import SparseTensor, convert_to_tensor
from sluice.ops import array_ops, functional, math_ops

_op = _core.op


def ctc_loss(labels, inputs=None, sequence_length=None,
             preprocess_collapse_repeated=False, ctc_merge_repeated=True,
             ignore_longer_outputs_than_inputs=False, time_major=True,
             logits=None):
    """Returns the negative log-probability of each sequence of labels.

    `labels` is sparse. The logits are [time, batch, classes], and the last
    class is the blank.
    """
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
    """Decodes the most likely class at each time.

    Returns:
      ([sparse labels], negative sums of the logits).
    """
    indices, values, shape, scores = _op("CTCGreedyDecoder")(
        inputs, sequence_length, merge_repeated=merge_repeated)
    return [SparseTensor(indices, values, shape)], scores


def ctc_beam_search_decoder(inputs, sequence_length, beam_width=100,
                            top_paths=1, merge_repeated=True):
    """Returns (list of the best paths as sparse labels, log-probabilities)."""
    indices, values, shapes, scores = _op("CTCBeamSearchDecoder")(
        inputs, sequence_length, beam_width=beam_width, top_paths=top_paths,
        merge_repeated=merge_repeated)
    return [SparseTensor(*path) for path in zip(indices, values, shapes)], (
        scores)


# ---- Dense labels and an arbitrary blank index -------------------------------


def collapse_repeated(labels, seq_length, name=None):
    """Removes repeated labels.

    Returns:
      (rows of labels padded with zeros, their new lengths).
    """
    with graphs.name_scope(name, "collapse_repeated_labels",
                           [labels, seq_length]):
        labels = convert_to_tensor(labels, name="labels")
        length = convert_to_tensor(seq_length, name="seq_length")
        new = array_ops.concat(
            [array_ops.ones_like(labels[:, :1], dtypes.bool_),
             math_ops.not_equal(labels[:, 1:], labels[:, :-1])], 1)
        new = math_ops.logical_and(new, array_ops.sequence_mask(
            length, array_ops.shape(labels)[1]))
        left = math_ops.reduce_sum(math_ops.cast(new, length.dtype), 1)
        places = array_ops.where(array_ops.sequence_mask(left))
        shape = math_ops.cast(array_ops.stack(
            [array_ops.shape(labels, out_type=dtypes.int64)[0],
             math_ops.cast(math_ops.reduce_max(left), dtypes.int64)]),
            dtypes.int64)
        made = array_ops.scatter_nd(places, array_ops.boolean_mask(labels, new),
                                    shape)
        made.set_shape([labels.shape.as_list()[0], None])
        return made, left


def dense_labels_to_sparse(dense, length):
    """Converts rows of labels and their lengths to a sparse tensor."""
    dense = convert_to_tensor(dense, name="dense")
    mask = array_ops.sequence_mask(length, array_ops.shape(dense)[1])
    max_length = math_ops.cast(math_ops.reduce_max(length), dtypes.int64)
    rows = array_ops.shape(dense, out_type=dtypes.int64)[0]
    return SparseTensor(array_ops.where(mask),
                        array_ops.boolean_mask(dense, mask),
                        array_ops.stack([rows, max_length]))


def ctc_unique_labels(labels, name=None):
    """Returns (unique labels of each row padded with zeros, index of each)."""
    with graphs.name_scope(name, "ctc_unique_labels", [labels]):
        labels = convert_to_tensor(labels, name="labels")

        def of_row(row):
            found, which = array_ops.unique(row)
            missing = array_ops.size(row) - array_ops.size(found)
            return array_ops.pad(found, [[0, missing]]), which
        return functional.map_fn(of_row, labels,
                                 dtype=(labels.dtype, dtypes.int32))


def ctc_loss_v2(labels, logits, label_length, logit_length,
                logits_time_major=True, unique=None, blank_index=None,
                name=None):
    """Computes `ctc_loss` with dense labels and an arbitrary blank index.

    Args:
      labels: [batch, max labels], or a SparseTensor.
      logits: [time, batch, classes].
      label_length: the number of labels in each row; None for a SparseTensor.
      logit_length: the number of times in each sequence.
      logits_time_major: whether time precedes the batch in `logits`.
      unique: ignored; an optimization in TensorFlow.
      blank_index: the class of the blank; negative values count from the end.
        Defaults to 0, but is required for a SparseTensor.
    """
    if isinstance(labels, SparseTensor):
        if blank_index is None:
            raise ValueError("blank_index must be given when using "
                             "SparseTensor labels.")
    else:
        labels = dense_labels_to_sparse(labels, label_length)
    with graphs.name_scope(name, "ctc_loss", [logits]):
        logits = convert_to_tensor(logits, name="logits")
        classes = logits.shape.with_rank(3).as_list()[2]
        blank = blank_index or 0
        if classes is not None:
            blank %= classes
        elif blank < 0:
            blank += array_ops.shape(logits)[2]
        if classes is None or blank != classes - 1:  # The op needs it last.
            logits = array_ops.concat(
                [logits[:, :, :blank], logits[:, :, blank + 1:],
                 logits[:, :, blank:blank + 1]], 2)
        values = math_ops.cast(labels.values, dtypes.int32)
        labels = SparseTensor(labels.indices, array_ops.where(
            values < blank, values, values - 1), labels.dense_shape)
        return ctc_loss(labels, logits,
                        math_ops.cast(logit_length, dtypes.int32),
                        time_major=logits_time_major)
