"""tf.metrics, compared with numpy over several steps; assertions."""

import importlib

import numpy as np
import pytest
import sluice.compat.v1 as tf

M = tf.metrics


@pytest.fixture
def rng():
    return np.random.RandomState(0)


def over_steps(session, metric, feeds):
    """Returns the values after each step.

    Asserts that the update and the value agree.
    """
    value, update = metric
    session.run(tf.local_variables_initializer())
    seen = []
    for feed in feeds:
        updated = session.run(update, feed)
        current = session.run(value)
        if np.shape(updated) == np.shape(current):
            np.testing.assert_allclose(updated, current, 1e-6)
        seen.append(current)
    return seen


def test_mean_accumulates_over_steps(session, rng):
    x, w = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.float32)
    batches = [rng.rand(n).astype(np.float32) for n in (3, 5, 1)]
    got = over_steps(session, M.mean(x), [{x: b} for b in batches])
    for i, value in enumerate(got):
        so_far = np.concatenate(batches[:i + 1])
        np.testing.assert_allclose(value, so_far.mean(),
                                   1e-5)
    weights = [rng.rand(n).astype(np.float32) for n in (3, 5, 1)]
    got = over_steps(session, M.mean(x, w), [
        {x: b, w: v} for b, v in zip(batches, weights)])
    np.testing.assert_allclose(got[-1], np.average(
        np.concatenate(batches), weights=np.concatenate(weights)), 1e-5)
    names = [v.op.name for v in tf.local_variables()]
    assert names == ["mean/total", "mean/count", "mean_1/total", "mean_1/count"]
    assert tf.get_collection(tf.GraphKeys.METRIC_VARIABLES) == (
        tf.local_variables())
    assert not tf.global_variables()


def test_names_and_collections(session):
    value, update = M.accuracy([1, 2], [1, 3], metrics_collections="m",
                               updates_collections=["u"], name="acc")
    assert tf.get_collection("m") == [value]
    assert tf.get_collection("u") == [update]
    assert value.op.name == "acc/value" and update.op.name == "acc/update_op"
    assert [v.op.name for v in tf.local_variables()] == ["acc/total",
                                                         "acc/count"]


def test_results_have_tensorflows_names():
    y, p = tf.placeholder(tf.int64, [8]), tf.placeholder(tf.float32, [8])
    scores = tf.placeholder(tf.float32, [2, 4])
    for metric, value, update in (
            (M.auc(y, p), "auc/value", "auc/update_op"),
            (M.auc(y, p, name="mine"), "mine/value", "mine/update_op"),
            (M.recall_at_thresholds(y, p, [0.5]),
             "recall_at_thresholds/recall_value",
             "recall_at_thresholds/recall_update_op"),
            (M.mean_cosine_distance(scores, scores, 1), "Sub", "Sub_1"),
            (M.true_positives(y, y), "true_positives/Identity",
             "true_positives/AssignAdd"),
            (M.average_precision_at_k(tf.reshape(y, [2, 4]), scores, 2),
             "average_precision_at_2/mean", "average_precision_at_2"),
            (M.precision_at_k(tf.reshape(y, [2, 4]), scores, 2, class_id=1),
             "precision_at_2_class1", "precision_at_2_class1/update"),
            (M.mean_per_class_accuracy(y, y, 3), "mean_accuracy/mean_accuracy",
             "mean_accuracy/update_op")):
        assert [t.op.name for t in metric] == [value, update]
    assert {"precision_at_2_class1/true_positive_at_2_class1",
            "precision_at_2_class1/false_positive_at_2_class1"} <= {
        v.op.name for v in tf.local_variables()}


def test_accuracy_of_classes(session, rng):
    y, p = (tf.placeholder(tf.int64, [None]) for _ in range(2))
    feeds = [{y: rng.randint(0, 3, 7), p: rng.randint(0, 3, 7)}
             for _ in range(3)]
    got = over_steps(session, M.accuracy(y, p), feeds)
    right = np.concatenate([f[y] == f[p] for f in feeds])
    np.testing.assert_allclose(got[-1], right.mean(), 1e-6)
    column = over_steps(session, M.accuracy(tf.expand_dims(y, 1), p), feeds)
    assert column == got


def test_errors(session, rng):
    y, p = (tf.placeholder(tf.float32, [None]) for _ in range(2))
    feeds = [{y: rng.rand(4) + 0.5, p: rng.rand(4)} for _ in range(3)]
    a, b = (np.concatenate([f[k] for f in feeds]) for k in (y, p))
    for metric, expected in (
            (M.mean_absolute_error(y, p), abs(a - b).mean()),
            (M.mean_squared_error(y, p), ((a - b) ** 2).mean()),
            (M.root_mean_squared_error(y, p), ((a - b) ** 2).mean() ** 0.5),
            (M.mean_relative_error(y, p, y), (abs(a - b) / a).mean()),
            (M.percentage_below(p, 0.3), (b < 0.3).mean())):
        np.testing.assert_allclose(over_steps(session, metric, feeds)[-1],
                                   expected, 1e-5)
    x = rng.rand(2, 5, 3).astype(np.float32)
    np.testing.assert_allclose(
        over_steps(session, M.mean_cosine_distance(x[0], x[1], 1), [{}])[-1],
        1 - (x[0] * x[1]).sum(1).mean(), 1e-5)
    np.testing.assert_allclose(
        over_steps(session, M.mean_tensor(x[0]), [{}, {}])[-1], x[0], 1e-5)


def test_precision_and_recall(session, rng):
    y, p = (tf.placeholder(tf.int64, [None]) for _ in range(2))
    w = tf.placeholder(tf.float32, [None])
    feeds = [{y: rng.randint(0, 2, 9), p: rng.randint(0, 2, 9), w: rng.rand(9)}
             for _ in range(2)]
    a, b, v = (np.concatenate([f[k] for f in feeds]) for k in (y, p, w))
    tp, fp, fn, tn = ((v * (a == i) * (b == j)).sum() for i, j in (
        (1, 1), (0, 1), (1, 0), (0, 0)))
    for metric, expected in (
            (M.true_positives(y, p, w), tp), (M.false_positives(y, p, w), fp),
            (M.false_negatives(y, p, w), fn), (M.true_negatives(y, p, w), tn),
            (M.precision(y, p, w), tp / (tp + fp)),
            (M.recall(y, p, w), tp / (tp + fn))):
        np.testing.assert_allclose(over_steps(session, metric, feeds)[-1],
                                   expected, 1e-5)
    assert over_steps(session, M.precision([1], [0]), [{}]) == [0]
    names = [v.op.name for v in tf.local_variables()]
    assert "precision/true_positives/count" in names
    assert "recall/false_negatives/count" in names


def test_counts_at_thresholds(session, rng):
    y, p = rng.randint(0, 2, 20), rng.rand(20).astype(np.float32)
    at = [0.2, 0.7]
    tp = np.array([((p > t) & (y == 1)).sum() for t in at], float)
    fp = np.array([((p > t) & (y == 0)).sum() for t in at], float)
    for name, expected in (
            ("true_positives", tp), ("false_positives", fp),
            ("false_negatives", (y == 1).sum() - tp),
            ("true_negatives", (y == 0).sum() - fp),
            ("precision", tp / (tp + fp)), ("recall", tp / (y == 1).sum())):
        metric = getattr(M, name + "_at_thresholds")(y, p, at)
        np.testing.assert_allclose(over_steps(session, metric, [{}])[-1],
                                   expected, 1e-5)
    bad = M.recall_at_thresholds([1], tf.placeholder_with_default([1.5], [1]),
                                 at)
    session.run(tf.local_variables_initializer())
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"in \[0, 1\]"):
        session.run(bad[1])


def area(y, p):
    """Returns the probability that a positive ranks above a negative."""
    true, false = p[y == 1], p[y == 0]
    above = (true[:, None] > false).mean()
    return above + 0.5 * (true[:, None] == false).mean()


def test_area_under_the_curve(session, rng):
    y = rng.randint(0, 2, 300)
    p = np.clip(0.3 * y + rng.rand(300) * 0.7, 0, 1).astype(np.float32)
    labels, scores = (tf.placeholder(tf.int64, [None]),
                      tf.placeholder(tf.float32, [None]))
    feeds = [{labels: y[i::3], scores: p[i::3]} for i in range(3)]
    got = {m: over_steps(session, M.auc(labels, scores, summation_method=m),
                         feeds)[-1]
           for m in ("trapezoidal", "minoring", "majoring")}
    np.testing.assert_allclose(got["trapezoidal"], area(y, p), 5e-3)
    assert got["minoring"] < got["trapezoidal"] < got["majoring"]
    assert "auc/true_positives" in [v.op.name for v in tf.local_variables()]
    # This is approximately the average precision.
    order = np.argsort(-p)
    hits = y[order]
    expected = (np.cumsum(hits) / np.arange(1, 301))[hits == 1].mean()
    for method in ("trapezoidal", "careful_interpolation"):
        curve = M.auc(labels, scores, curve="PR", summation_method=method)
        np.testing.assert_allclose(over_steps(session, curve, feeds)[-1],
                                   expected, 2e-2)
    with pytest.raises(ValueError, match="ROC or PR"):
        M.auc(labels, scores, curve="round")


def test_sensitivity_at_specificity(session, rng):
    y = rng.randint(0, 2, 500)
    p = np.clip(0.4 * y + rng.rand(500) * 0.6, 0, 1).astype(np.float32)
    t = np.quantile(p[y == 0], 0.8)
    np.testing.assert_allclose(
        over_steps(session, M.sensitivity_at_specificity(y, p, 0.8), [{}])[-1],
        (p[y == 1] > t).mean(), 0.05)
    t = np.quantile(p[y == 1], 0.1)
    np.testing.assert_allclose(
        over_steps(session, M.specificity_at_sensitivity(y, p, 0.9), [{}])[-1],
        (p[y == 0] <= t).mean(), 0.1)


def test_sensitivity_ties_take_the_last_threshold(session):
    y, p = [0, 1, 0, 1], [0.0, 1.0, 0.0, 1.0]
    for make in (M.specificity_at_sensitivity, M.sensitivity_at_specificity):
        assert over_steps(session, make(y, p, 0.7), [{}]) == [
            pytest.approx(1.0)]
    p = [0.1, 0.2, 0.4, 0.3, 0.0, 0.1, 0.45, 0.5, 0.8, 0.9]
    high = M.specificity_at_sensitivity([0] * 5 + [1] * 5, p, 0.8)
    assert over_steps(session, high, [{}]) == [pytest.approx(1.0)]


def test_internal_metric_functions(session):
    from sluice.contrib.metrics import metrics_at_k
    metrics = importlib.import_module("sluice.contrib.metrics.metrics")
    counts, updates = metrics._confusion_matrix_at_thresholds(
        [0, 1, 1], [0.2, 0.4, 0.9], [0.3, 0.5])
    assert sorted(counts) == sorted(updates) == ["fn", "fp", "tn", "tp"]
    value = metrics._aggregate_variable(tf.Variable(3.0), ["all"])
    session.run([tf.local_variables_initializer(),
                 tf.global_variables_initializer()])
    assert session.run(updates["tp"]).tolist() == [2, 1]
    assert session.run(value) == 3 and tf.get_collection("all") == [value]
    assert session.run(metrics._safe_scalar_div(
        tf.constant(1.0), tf.constant(0.0), "x")) == 0
    at = metrics_at_k._streaming_sparse_average_precision_at_top_k
    assert over_steps(session, at(np.int64([[1]]), np.int64([[2, 1]])),
                      [{}]) == [0.5]
    for best in (tf.placeholder(tf.int64, [2, None]), tf.constant(1)):
        with pytest.raises(ValueError):
            at(np.int64([[1], [2]]), best)


def test_per_class_metrics(session, rng):
    y, p = (tf.placeholder(tf.int64, [None]) for _ in range(2))
    feeds = [{y: rng.randint(0, 4, 20), p: rng.randint(0, 4, 20)}
             for _ in range(2)]
    a, b = (np.concatenate([f[k] for f in feeds]) for k in (y, p))
    counts = np.zeros([4, 4], int)
    np.add.at(counts, (a, b), 1)
    np.testing.assert_array_equal(session.run(tf.confusion_matrix(a, b)),
                                  counts)
    iou = np.diag(counts) / (counts.sum(0) + counts.sum(1) - np.diag(counts))
    np.testing.assert_allclose(
        over_steps(session, M.mean_iou(y, p, 4), feeds)[-1], iou.mean(), 1e-5)
    np.testing.assert_allclose(
        over_steps(session, M.mean_per_class_accuracy(y, p, 4), feeds)[-1],
        (np.diag(counts) / counts.sum(1)).mean(), 1e-5)
    weighted = tf.confusion_matrix([0, 1, 1], [1, 1, 1], num_classes=3,
                                   weights=[1.0, 2.0, 0.5], dtype=tf.float32)
    np.testing.assert_array_equal(session.run(weighted),
                                  [[0, 1, 0], [0, 2.5, 0], [0, 0, 0]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="out of bound"):
        session.run(tf.confusion_matrix([5], [1], 3))


# ---- Assertions --------------------------------------------------------------


@pytest.mark.parametrize("name,good,bad", [
    ("equal", (1, 1), (1, 2)), ("none_equal", (1, 2), (1, 1)),
    ("less", (1, 2), (2, 2)), ("less_equal", (2, 2), (3, 2)),
    ("greater", (3, 2), (2, 2)), ("greater_equal", (2, 2), (1, 2)),
    ("negative", (-1,), (0,)), ("positive", (1,), (0,)),
    ("non_negative", (0,), (-1,)), ("non_positive", (0,), (1,)),
    ("near", (1.0, 1.0), (1.0, 1.1))])
def test_assertions_run_statically_and_in_steps(run, name, good, bad):
    check = getattr(tf, "assert_" + name)
    kind = tf.float32 if name == "near" else tf.int32
    x = tf.placeholder(kind, [])
    others = [tf.constant(v, kind) for v in good[1:]]
    fed = check(x, *others, message="oh")
    run(fed, {x: good[0]})
    bad_op = check(x, *[tf.constant(v, kind) for v in bad[1:]], message="oh")
    with pytest.raises(tf.errors.InvalidArgumentError, match="oh"):
        run(bad_op, {x: bad[0]})
    if name != "near":
        with pytest.raises(tf.errors.InvalidArgumentError, match="oh"):
            check(*bad, message="oh")
        run(check(*good))


def test_assertions_of_ranks_and_types(run):
    x = tf.placeholder(tf.float32)
    known = tf.ones([2, 3])
    run([tf.assert_rank(known, 2), tf.assert_rank_at_least(known, 1),
         tf.assert_rank_in(known, (0, 2))])
    for wrong in (lambda: tf.assert_rank(known, 1),
                  lambda: tf.assert_rank_at_least(known, 3),
                  lambda: tf.assert_rank_in(known, (0, 1))):
        with pytest.raises(ValueError, match="must have rank"):
            wrong()
    late = [tf.assert_rank(x, 1), tf.assert_rank_at_least(x, 1),
            tf.assert_rank_in(x, (1, 2))]
    run(late, {x: [1.0]})
    for op in late:
        with pytest.raises(tf.errors.InvalidArgumentError, match="rank"):
            run(op, {x: 1.0})
    run([tf.assert_type(known, tf.float32), tf.assert_integer(1)])
    with pytest.raises(TypeError, match="must be of type"):
        tf.assert_type(known, tf.int32)
    with pytest.raises(TypeError, match="integer"):
        tf.assert_integer(1.0)
    with pytest.raises(TypeError, match="iterable"):
        tf.assert_proper_iterable("abc")
    tf.assert_proper_iterable([1, 2])
    with pytest.raises(ValueError, match="Expected scalar"):
        tf.debugging.assert_scalar(known)
    assert tf.is_numeric_tensor(known)
    assert run(tf.is_non_decreasing([1, 2, 2]))
    assert not run(tf.is_strictly_increasing([1, 2, 2]))


def test_check_numerics_covers_all_tensors(run):
    x = tf.placeholder(tf.float32, [])
    y = tf.log(x)
    check = tf.add_check_numerics_ops()
    run([y, check], {x: 1.0})
    with pytest.raises(tf.errors.InvalidArgumentError, match="Log:0"):
        run([y, check], {x: -1.0})


def sparse(labels):
    """Converts rows of labels to a sparse tensor."""
    indices = [[i, j] for i, row in enumerate(labels) for j in range(len(row))]
    return tf.SparseTensor(indices, np.concatenate(labels).astype(np.int64),
                           [len(labels), max(map(len, labels))])


@pytest.mark.parametrize("lists", [np.array, sparse])
def test_labels_among_the_best_predictions(session, lists):
    scores = np.array([[0.1, 0.4, 0.3, 0.2], [0.7, 0.1, 0.0, 0.2]], np.float32)
    labels = [[1, 3], [3, 2]]
    M_at = {"precision_at_k": 2 / 4, "recall_at_k": 2 / 4,
            "average_precision_at_k": (1 / 2 + (1 / 2) / 2) / 2}
    for name, expected in M_at.items():
        assert over_steps(session, getattr(M, name)(
            lists(labels), tf.constant(scores), 2), [{}, {}]) == [expected] * 2
    # The class 3 is a label twice, and once among the best predictions.
    for name, expected in (("precision_at_k", 1), ("recall_at_k", 1 / 2)):
        assert over_steps(session, getattr(M, name)(
            lists(labels), tf.constant(scores), 2, class_id=3),
            [{}]) == [expected]
    weighted = M.precision_at_k(lists(labels), tf.constant(scores), 2,
                                weights=[1.0, 3.0])
    assert over_steps(session, weighted, [{}]) == [1 / 2]
    assert np.isnan(over_steps(session, M.precision_at_k(
        lists(labels), tf.constant(scores), 1, class_id=2), [{}]))
    assert {v.op.name for v in tf.local_variables()} >= {
        "recall_at_2/true_positive_at_2", "average_precision_at_2/max"}


def test_single_labels_may_be_a_vector(session):
    scores = tf.constant([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]])
    metric = M.recall_at_k(np.array([1, 0, 0]), scores, 1)
    assert over_steps(session, metric, [{}]) == [2 / 3]
    metric = M.precision_at_top_k(np.array([1, 0, 0]), [[1], [1], [1]], 1)
    assert over_steps(session, metric, [{}]) == [1 / 3]


def test_labels_may_have_unknown_rank(session):
    scores = tf.constant([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7]])
    x = tf.placeholder(tf.int64)
    metric = M.recall_at_k(x, scores, 1)
    assert over_steps(session, metric, [{x: [1, 0, 0]}]) == [2 / 3]
    metric = M.recall_at_k(x, scores, 1, name="lists")
    assert over_steps(session, metric, [{x: [[1], [0], [0]]}]) == [2 / 3]
    rare = tf.sparse_placeholder(tf.int64)
    metric = M.recall_at_k(rare, scores, 1, name="sparse")
    assert over_steps(session, metric, [
        {rare: ([[0], [1]], [1, 0], [3])},
        {rare: ([[2, 0]], [0], [3, 1])}]) == [1, 2 / 3]


def test_weights_broadcast_to_values_of_unknown_shape(run):
    x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    weights = np.array([[1, 2, 3, 4], [4, 3, 2, 1]])
    value, update = tf.metrics.precision(y, x, tf.constant(weights))
    mean, more = tf.metrics.mean(x, tf.constant(weights))
    run(tf.local_variables_initializer())
    fed = {x: [[1, 0, 1, 0]] * 2, y: [[0, 1, 1, 0], [1, 0, 0, 1]]}
    assert run([update, more], fed) == pytest.approx([0.7, 0.5])
    assert run([value, mean]) == pytest.approx([0.7, 0.5])


@pytest.mark.parametrize("shape", [None, [None, None]])
def test_labels_are_paired_by_their_places(session, shape):
    y, p = (tf.placeholder(tf.float32, shape) for _ in range(2))
    for metric in (M.accuracy(y, p), M.mean_squared_error(y, p),
                   M.mean_absolute_error(y, p), M.recall(y, p)):
        session.run(tf.local_variables_initializer())
        session.run(metric[1], {y: np.ones([2, 3]), p: np.ones([2, 3])})
        with pytest.raises(tf.errors.InvalidArgumentError):
            session.run(metric[1], {y: np.ones([2, 3]), p: np.ones([3, 2])})
        if shape is None:
            session.run(metric[1], {y: np.ones([3, 1]), p: np.ones([3])})
            session.run(metric[1], {y: np.ones([3]), p: np.ones([3, 1])})


def test_thresholds_may_be_an_array(session):
    y, p = np.array([0, 1, 1]), np.array([0.1, 0.8, 0.4], np.float32)
    at = [0.25, 0.5]
    assert over_steps(session, M.auc(y, p, thresholds=np.array(at)), [{}]) == (
        over_steps(session, M.auc(y, p, thresholds=at), [{}]))
