"""Metrics under the names of contrib.metrics."""

import inspect

import pytest

import sluice.compat.v1 as tf

metrics = tf.contrib.metrics


def test_predictions_are_the_first_argument(session):
    predictions, labels = tf.constant([1, 1, 0, 0]), tf.constant([1, 0, 1, 0])
    weights = tf.constant([1.0, 2, 0, 1])
    values, updates = metrics.aggregate_metric_map({
        "right": metrics.streaming_accuracy(predictions, labels, weights),
        "precision": metrics.streaming_precision(predictions, labels, weights),
        "recall": metrics.streaming_recall(predictions=predictions,
                                           labels=labels, weights=weights),
        "wrong": metrics.streaming_false_positives(predictions, labels),
        "iou": metrics.streaming_mean_iou(predictions, labels, 2),
        "mean": metrics.streaming_mean([1.0, 2.0])})
    session.run(tf.local_variables_initializer())
    for _ in range(2):
        session.run(updates)
    got = session.run(values)
    assert got["right"] == 0.5 and got["precision"] == pytest.approx(1 / 3)
    assert got["recall"] == 1 and got["wrong"] == 2
    assert got["iou"] == pytest.approx(1 / 3) and got["mean"] == 1.5
    assert list(inspect.signature(metrics.streaming_mean_iou).parameters)[
        :3] == ["predictions", "labels", "num_classes"]
    assert tf.contrib.slim.metrics.streaming_auc is metrics.streaming_auc


def test_metrics_at_k_and_at_thresholds(session):
    scores = tf.constant([[0.1, 0.9, 0.5], [0.8, 0.1, 0.4]])
    labels = tf.constant([[1], [2]], tf.int64)
    values, updates = metrics.aggregate_metrics(
        metrics.streaming_sparse_precision_at_k(scores, labels, 2),
        metrics.streaming_sparse_recall_at_k(scores, labels, k=1),
        metrics.streaming_sparse_average_precision_at_k(scores, labels, 2),
        metrics.streaming_true_positives_at_thresholds(
            [0.2, 0.6], [True, True], thresholds=[0.1, 0.5]))
    session.run(tf.local_variables_initializer())
    session.run(updates)
    *got, counts = session.run(values)
    assert got == pytest.approx([0.5, 0.5, 0.75])
    assert counts.tolist() == [2, 1]


def test_the_accuracy_of_one_step(run):
    assert run(metrics.accuracy([1, 2, 3], [1, 2, 0])) == pytest.approx(2 / 3)
    assert run(metrics.accuracy([1, 2], [1, 0], weights=[3, 1])) == 0.75
    assert run(metrics.accuracy([True], [True], weights=0.5)) == 1
    with pytest.raises(ValueError, match="different dtypes"):
        metrics.accuracy([1], [1.0])
    with pytest.raises(ValueError, match="at least one"):
        metrics.aggregate_metrics()
    assert metrics.aggregate_metrics((1, 2), (3, 4)) == ([1, 3], [2, 4])
