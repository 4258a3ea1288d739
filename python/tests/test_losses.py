"""tf.losses, compared with numpy, and the collections of losses."""

import numpy as np
import pytest
import sluice.compat.v1 as tf

L = tf.losses


@pytest.fixture
def data():
    rng = np.random.RandomState(0)
    labels = (rng.rand(4, 3) > 0.5).astype(np.float32)
    return labels, rng.rand(4, 3).astype(np.float32)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


ELEMENTWISE = {
    "absolute_difference": lambda y, p: abs(y - p),
    "mean_squared_error": lambda y, p: (y - p) ** 2,
    "hinge_loss": lambda y, p: np.maximum(0, 1 - (2 * y - 1) * p),
    "huber_loss": lambda y, p: np.where(abs(y - p) < 1, (y - p) ** 2 / 2,
                                        abs(y - p) - 0.5),
    "log_loss": lambda y, p: -y * np.log(p + 1e-7) - (1 - y) * np.log(
        1 - p + 1e-7),
    "sigmoid_cross_entropy": lambda y, p: np.log1p(np.exp(-p)) + (1 - y) * p}


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_losses_of_elements(run, data, name):
    labels, predictions = data
    each = ELEMENTWISE[name](labels, predictions)
    function = getattr(L, name)
    rows = np.array([[1], [0], [2], [1]], np.float32)
    cases = [
        ({}, each.mean()),
        ({"weights": 2.0}, 2 * each.mean()),
        ({"weights": 0.0}, 0),
        ({"weights": rows}, (each * rows).sum() / 9),
        ({"weights": rows, "reduction": L.Reduction.SUM}, (each * rows).sum()),
        ({"weights": rows, "reduction": L.Reduction.MEAN},
         (each * rows).sum() / (3 * rows.sum())),
        ({"weights": rows, "reduction": L.Reduction.SUM_OVER_BATCH_SIZE},
         (each * rows).sum() / 12),
        ({"weights": rows, "reduction": L.Reduction.NONE}, each * rows)]
    for arguments, expected in cases:
        np.testing.assert_allclose(
            run(function(labels, predictions, **arguments)), expected, 1e-5)
    assert len(L.get_losses()) == len(cases)
    with pytest.raises(ValueError, match="Invalid Reduction"):
        function(labels, predictions, reduction="middle")
    with pytest.raises(ValueError, match="can not be broadcast"):
        function(labels, predictions, weights=[1.0, 2.0])
    with pytest.raises(ValueError, match="must not be None"):
        function(None, predictions)
    with pytest.raises(ValueError, match="incompatible"):
        function(labels[:2], predictions)


def test_nodes_have_tensorflows_names(fresh_graph):
    x, y = (tf.placeholder(tf.float32, [4, 3]) for _ in range(2))
    assert L.mean_squared_error(x, y).op.name == "mean_squared_error/value"
    assert L.huber_loss(x, y, scope="mine").op.name == "mine/value"
    assert L.hinge_loss(x, y, reduction="none").op.name == "hinge_loss/Mul_2"
    L.softmax_cross_entropy(x, y)
    L.sigmoid_cross_entropy(x, y)
    for name in ("mean_squared_error/SquaredDifference",
                 "mean_squared_error/num_present",
                 "softmax_cross_entropy_loss/labels_stop_gradient",
                 "softmax_cross_entropy_loss/xentropy",
                 "sigmoid_cross_entropy_loss/xentropy/Log1p"):
        assert fresh_graph.get_operation_by_name(name)


def test_huber_loss_is_linear_beyond_delta(run):
    x = np.array([0.0, 0.4, 3.0], np.float32)
    np.testing.assert_allclose(
        run(L.huber_loss(np.zeros(3), x, delta=0.5, reduction="none")),
        [0, 0.08, 0.5 * 3 - 0.125], 1e-5)


def test_softmax_losses(run, data):
    rng = np.random.RandomState(1)
    logits = rng.randn(4, 3).astype(np.float32)
    classes = np.array([0, 2, 1, 2])
    onehot = np.eye(3)[classes]
    each = -np.log(softmax(logits)[np.arange(4), classes])
    weights = np.array([1, 0, 2, 0.5], np.float32)
    for got in (L.softmax_cross_entropy(onehot, logits),
                L.sparse_softmax_cross_entropy(classes, logits),
                L.sparse_softmax_cross_entropy(classes[:, None], logits)):
        np.testing.assert_allclose(run(got), each.mean(), 1e-5)
    for got in (L.softmax_cross_entropy(onehot, logits, weights),
                L.sparse_softmax_cross_entropy(classes, logits, weights),
                L.sparse_softmax_cross_entropy(classes, logits,
                                               weights[:, None])):
        np.testing.assert_allclose(run(got), (each * weights).sum() / 3, 1e-5)
    smooth = onehot * 0.7 + 0.1
    np.testing.assert_allclose(
        run(L.softmax_cross_entropy(onehot, logits, label_smoothing=0.3)),
        -(smooth * np.log(softmax(logits))).sum(1).mean(), 1e-5)
    labels = np.array([[0.0, 1.0]], np.float32)
    x = np.array([[0.3, -0.2]], np.float32)
    mixed = labels * 0.8 + 0.1
    np.testing.assert_allclose(
        run(L.sigmoid_cross_entropy(labels, x, label_smoothing=0.2)),
        (np.log1p(np.exp(-x)) + (1 - mixed) * x).mean(), 1e-5)


def test_labels_get_no_gradients_of_softmax_losses(run):
    labels = tf.constant([[0.3, 0.7]])
    logits = tf.constant([[1.0, 2.0]])
    loss = L.softmax_cross_entropy(labels, logits)
    assert tf.gradients(loss, labels) == [None]
    got = run(tf.gradients(loss, logits)[0])
    np.testing.assert_allclose(got, softmax(np.array([[1.0, 2.0]])) -
                               [[0.3, 0.7]], 1e-5, 1e-6)


def test_distances_of_vectors_and_pairs(run):
    rng = np.random.RandomState(2)
    a, b = rng.randn(2, 4, 3).astype(np.float32)
    np.testing.assert_allclose(run(L.cosine_distance(a, b, axis=1)),
                               (1 - (a * b).sum(1)).mean(), 1e-4)
    with pytest.raises(ValueError, match="axis"):
        L.cosine_distance(a, b)
    error = b - a
    pairs = [(row[i] - row[j]) ** 2 for row in error
             for i in range(3) for j in range(3) if i != j]
    np.testing.assert_allclose(run(L.mean_pairwise_squared_error(a, b)),
                               np.sum(pairs) / 6, 1e-4)


def test_weights_may_have_dynamic_shape(run, data):
    labels, predictions = data
    weights = tf.placeholder(tf.float32)
    loss = L.mean_squared_error(labels, predictions, weights)
    each = (labels - predictions) ** 2
    rows = np.array([[1], [0], [2], [1]], np.float32)
    np.testing.assert_allclose(run(loss, {weights: rows}),
                               (each * rows).sum() / 9, 1e-5)
    np.testing.assert_allclose(run(loss, {weights: 3.0}), 3 * each.mean(), 1e-5)
    with pytest.raises(tf.errors.InvalidArgumentError, match="broadcast"):
        run(loss, {weights: [1.0, 2.0]})


def test_the_total_of_all_losses(run):
    one = L.absolute_difference([1.0], [3.0])
    tf.losses.add_loss(tf.constant(10.0))
    with tf.variable_scope("s", regularizer=lambda w: tf.reduce_sum(w) * 0.5):
        w = tf.get_variable("w", [4], initializer=tf.ones_initializer())
    run(tf.global_variables_initializer())
    assert run(L.get_regularization_loss()) == 2
    assert run(L.get_total_loss()) == 14
    assert run(L.get_total_loss(False)) == 12
    assert L.get_losses()[0] is one
    assert len(tf.get_collection(tf.GraphKeys.LOSSES)) == 2
    assert L.mean_squared_error([1.0], [2.0], loss_collection=None) not in (
        L.get_losses())
    assert w.shape == [4]
    assert run(L.get_regularization_loss(scope="nothing")) == 0


def test_losses_of_unknown_rank(run):
    p = tf.placeholder(tf.float32)
    for loss in (tf.losses.mean_squared_error, tf.losses.absolute_difference,
                 tf.losses.hinge_loss, tf.losses.huber_loss):
        assert loss(p, p).shape.as_list() == []
    weighted = tf.losses.mean_squared_error(p, p + 1, [[2.0], [1.0]])
    assert run(weighted, {p: [[1, 2], [3, 4]]}) == 1.5


def test_labels_of_classes_have_the_shape_of_the_rows(run):
    loss = L.sparse_softmax_cross_entropy
    logits = np.zeros([2, 3, 4], np.float32)
    with pytest.raises(ValueError, match=r"got \[3,2\] and \[2,3,4\]"):
        loss(np.zeros([3, 2], int), logits)
    x = tf.placeholder(tf.float32, [None, None, 4])
    for shape in (None, [None, None]):
        labels = tf.placeholder(tf.int32, shape)
        got = loss(labels, x)
        near = pytest.approx(np.log(4), 1e-5)
        assert run(got, {labels: np.zeros([2, 3]), x: logits}) == near
        with pytest.raises(tf.errors.InvalidArgumentError, match="labels"):
            run(got, {labels: np.zeros([3, 2]), x: logits})
    y = tf.placeholder(tf.float32, [None, None, 4])
    got = L.softmax_cross_entropy(y, x)
    with pytest.raises(tf.errors.InvalidArgumentError, match="labels"):
        run(got, {y: np.zeros([3, 2, 4]), x: logits})


def test_weights_of_unknown_rank_have_that_of_the_losses(run):
    w = tf.placeholder(tf.float32)
    loss = L.mean_squared_error(np.zeros([2, 2], np.float32),
                                [[1.0, 1.0], [3.0, 3.0]], w)
    assert run(loss, {w: [[1.0], [0.0]]}) == 1
    with pytest.raises(tf.errors.InvalidArgumentError, match="broadcast"):
        run(loss, {w: [1.0, 0.0]})


def test_weights_of_unknown_rank_lose_a_last_dimension_of_1(run):
    logits = tf.constant(10 * np.eye(3, dtype=np.float32))
    weights = tf.placeholder(tf.float32)
    labels = [[2], [0], [1]]
    for classes, fed in ((tf.constant(labels), {}),
                         (tf.placeholder(tf.int32), labels),
                         (tf.placeholder(tf.int32), [2, 0, 1])):
        loss = L.sparse_softmax_cross_entropy(classes, logits, weights)
        for w in ([[1.2], [3.4], [5.6]], [1.2, 3.4, 5.6]):
            feed = {weights: w, **({classes: fed} if fed else {})}
            assert run(loss, feed) == pytest.approx(10.2 * 10 / 3, rel=1e-3)
        feed[weights] = 2.0
        assert run(loss, feed) == pytest.approx(20.0, rel=1e-3)
        feed[weights] = np.ones([3, 2])
        with pytest.raises(tf.errors.InvalidArgumentError):
            run(loss, feed)


def test_settings_may_be_tensors(run):
    y, p = np.zeros(2, np.float32), np.array([1, 4], np.float32)
    for delta in (2, 2.0, np.float64(2), np.float32(2), np.array(2.0),
                  tf.constant(2.0), tf.Variable(2.0)):
        loss = L.huber_loss(y, p, delta=delta)
        run(tf.global_variables_initializer())
        assert run(loss) == (0.5 + 2 * 3) / 2
    for epsilon in (1, 1.0, np.float64(1), tf.constant(1.0)):
        loss = L.log_loss(y, y, epsilon=epsilon)
        np.testing.assert_allclose(run(loss), -np.log(2), 1e-6)
    with pytest.raises(TypeError):
        L.softmax_cross_entropy([[1.0]], [[1.0]], label_smoothing=[0.1])
