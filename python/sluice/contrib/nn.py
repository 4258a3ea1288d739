"""`tf.contrib.nn`: losses with logits as the first argument."""

from sluice.ops import nn


def deprecated_flipped_softmax_cross_entropy_with_logits(logits, labels, dim=-1,
                                                         name=None):
    """Calls `softmax_cross_entropy_with_logits`."""
    return nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits,
                                                dim=dim, name=name)


def deprecated_flipped_sparse_softmax_cross_entropy_with_logits(logits, labels,
                                                                name=None):
    """Calls `sparse_softmax_cross_entropy_with_logits`."""
    return nn.sparse_softmax_cross_entropy_with_logits(
        labels=labels, logits=logits, name=name)


def deprecated_flipped_sigmoid_cross_entropy_with_logits(logits, targets,
                                                         name=None):
    """Calls `sigmoid_cross_entropy_with_logits`."""
    return nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits,
                                                name=name)
