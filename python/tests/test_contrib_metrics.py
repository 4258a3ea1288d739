"""tf.contrib.losses and tf.contrib.metrics, against those of tf and numpy."""

import numpy as np
import pytest

import sluice.compat.v1 as tf

LABELS = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]], np.float32)
PREDICTIONS = np.array([[0.9, 0.4, 0.3], [0.2, 0.6, 0.8]], np.float32)


@pytest.mark.parametrize("name", [
    "absolute_difference", "mean_squared_error", "log_loss"])
@pytest.mark.parametrize("weights", [2.0, [1.0, 0.0], LABELS])
def test_losses_take_predictions_first_and_weights_of_examples(
        run, name, weights):
    x = tf.constant(PREDICTIONS)
    ours = getattr(tf.contrib.losses, name)(x, tf.constant(LABELS), weights)
    whole = np.array(weights)
    if whole.ndim == 1:
        whole = whole[:, None]
    theirs = getattr(tf.losses, name)(LABELS, x, whole)
    assert tf.contrib.losses.get_losses() == [ours, theirs]
    assert run(ours) == pytest.approx(run(theirs))


def test_losses_of_classes_take_logits_first(run):
    logits = tf.constant(PREDICTIONS)
    losses = tf.contrib.losses
    one_hot = np.eye(3)[[1, 2]]
    for ours, theirs in (
            (losses.softmax_cross_entropy(logits, tf.constant(one_hot),
                                          [1.0, 3.0], 0.1),
             tf.losses.softmax_cross_entropy(one_hot, logits, [1.0, 3.0], 0.1)),
            (losses.sparse_softmax_cross_entropy(logits, [[1], [2]]),
             tf.losses.sparse_softmax_cross_entropy([1, 2], logits)),
            (losses.sigmoid_cross_entropy(logits, tf.constant(LABELS)),
             tf.losses.sigmoid_cross_entropy(LABELS, logits))):
        assert run(ours) == pytest.approx(run(theirs))
    hinge = losses.hinge_loss(logits, tf.constant(LABELS))
    np.testing.assert_allclose(run(hinge), np.maximum(
        0, 1 - (2 * LABELS - 1) * PREDICTIONS), rtol=1e-6)
    assert hinge not in losses.get_losses()


def test_losses_of_pairs_and_angles(run):
    x, y = tf.constant(PREDICTIONS), tf.constant(LABELS)
    error = PREDICTIONS - LABELS
    pairs = np.mean((error[:, :, None] - error[:, None, :])**2, (1, 2))
    loss = tf.contrib.losses.mean_pairwise_squared_error(x, y, [1.0, 2.0])
    assert run(loss) == pytest.approx(pairs[0] + 2 * pairs[1], 1e-5)
    distance = tf.contrib.losses.cosine_distance(x, y, 1, [0.0, 1.0])
    assert run(distance) == pytest.approx(
        1 - (PREDICTIONS[1] * LABELS[1]).sum())
    with pytest.raises(ValueError, match="axis"):
        tf.contrib.losses.cosine_distance(x, y)
    with pytest.raises(ValueError, match="None"):
        tf.contrib.losses.absolute_difference(x, y, None)


def test_losses_are_collected_as_a_scope_of_arguments_says(run):
    losses = tf.contrib.losses
    x = tf.constant(PREDICTIONS)
    with tf.contrib.framework.arg_scope([losses.add_loss],
                                        loss_collection=None):
        losses.mean_squared_error(x, x)
    assert losses.get_losses() == []
    one = losses.absolute_difference(x, x - 1.0)
    assert run(losses.get_total_loss()) == pytest.approx(run(one))


def _after(steps, metric, run, **feeds):
    """What a metric is after steps of several feeds."""
    value, update = metric
    run(tf.local_variables_initializer())
    for i in range(steps):
        last = run(update, {k: v[i] for k, v in feeds.items()})
    np.testing.assert_allclose(run(value), last, rtol=1e-5)
    return last


def test_metrics_take_predictions_first(run):
    p = tf.placeholder(tf.float32, [3], name="p")
    y = tf.placeholder(tf.float32, [3], name="y")
    feeds = {"p:0": PREDICTIONS, "y:0": LABELS}
    metrics = tf.contrib.metrics
    for name, args in (("mean_squared_error", ()), ("auc", ()),
                       ("precision_at_thresholds", ([0.5],)),
                       ("sensitivity_at_specificity", (0.5,))):
        ours = getattr(metrics, "streaming_" + name)(p, y, *args)
        theirs = getattr(tf.metrics, name)(y, p, *args)
        np.testing.assert_allclose(_after(2, ours, run, **feeds),
                                   _after(2, theirs, run, **feeds))
    positive = PREDICTIONS > 0.5
    false, true = LABELS == 0, LABELS == 1
    for name, of, share in (
            ("false_positive_rate", false, (positive & false).sum()),
            ("false_negative_rate", true, (~positive & true).sum())):
        rate = share / of.sum()
        assert _after(2, getattr(metrics, f"streaming_{name}")(
            tf.greater(p, 0.5), y), run, **feeds) == pytest.approx(rate)
        assert _after(2, getattr(metrics, f"streaming_{name}_at_thresholds")(
            p, y, [0.5]), run, **feeds) == pytest.approx(rate, abs=1e-5)


def test_metrics_of_the_best_predictions(run):
    best, labels = [[2, 0], [1, 2]], [[0], [0]]
    metrics = tf.contrib.metrics
    scores = tf.constant(PREDICTIONS)
    for metric, value in (
            (metrics.streaming_sparse_precision_at_top_k(
                best, tf.constant(labels, tf.int64)), 0.25),
            (metrics.sparse_recall_at_top_k(
                tf.constant(labels, tf.int64), best), 0.5),
            (metrics.streaming_sparse_average_precision_at_top_k(
                best, tf.constant(labels, tf.int64)), 0.25),
            (metrics.streaming_recall_at_k(scores, [1, 1], 2), 1.0),
            (metrics.streaming_sparse_recall_at_k(
                scores, tf.constant([[1], [0]], tf.int64), 2), 0.5)):
        assert _after(1, metric, run) == pytest.approx(value)


@pytest.mark.parametrize("weights", [None, [1.0, 2.0, 0.5]])
def test_covariance_and_correlation_of_steps_are_numpys(run, weights):
    p = tf.placeholder(tf.float32, [3], name="p")
    y = tf.placeholder(tf.float32, [3], name="y")
    feeds = {"p:0": PREDICTIONS, "y:0": LABELS}
    repeated = None if weights is None else np.array(weights * 2)
    expected = np.cov(PREDICTIONS.ravel(), LABELS.ravel(),
                      aweights=repeated, ddof=0)
    n = 6 if weights is None else repeated.sum()
    metrics = tf.contrib.metrics
    assert _after(2, metrics.streaming_covariance(p, y, weights), run,
                  **feeds) == pytest.approx(expected[0, 1] * n / (n - 1), 1e-4)
    assert _after(2, metrics.streaming_pearson_correlation(p, y, weights), run,
                  **feeds) == pytest.approx(
                      expected[0, 1] / np.sqrt(expected[0, 0] * expected[1, 1]),
                      1e-4)


def test_counts_accuracy_and_maps_of_metrics(run):
    metrics = tf.contrib.metrics
    count = metrics.count(tf.constant([1.0, 2.0]), [1.0, 3.0])
    assert _after(2, metrics.count([1.0, 2.0]), run) == 4
    assert _after(2, count, run) == 8
    assert run(metrics.accuracy([1, 2, 3], [1, 2, 4])) == pytest.approx(2 / 3)
    assert run(metrics.accuracy([1, 2], [1, 3], [3.0, 1.0])) == 0.75
    with pytest.raises(ValueError, match="Labels should have"):
        metrics.accuracy([1.0], [1.0])
    with pytest.raises(ValueError, match="should match"):
        metrics.accuracy([1.0], [1])
    values, updates = metrics.aggregate_metric_map({"n": count})
    assert values == {"n": count[0]} and updates == {"n": count[1]}
    assert metrics.aggregate_metrics(count, count) == (
        [count[0]] * 2, [count[1]] * 2)
    with pytest.raises(ValueError, match="at least one"):
        metrics.aggregate_metrics()
