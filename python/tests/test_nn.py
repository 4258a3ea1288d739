"""tf.nn: statistics, embeddings, sampled losses, CTC, pooling."""

import numpy as np
import pytest
import sluice.compat.v1 as tf
from sluice.ops import nn


@pytest.fixture
def rng():
    return np.random.RandomState(0)


def near(got, expected, rtol=1e-4, atol=1e-5):
    np.testing.assert_allclose(got, expected, rtol, atol)


def test_statistics(run, rng):
    x = rng.rand(4, 5).astype(np.float32)
    w = rng.randint(0, 4, [4, 1]).astype(np.float32)
    mean, variance = run(tf.nn.weighted_moments(x, [0], w))
    expected = np.average(x, axis=0, weights=w[:, 0])
    near(mean, expected)
    near(variance, np.average((x - expected) ** 2, axis=0, weights=w[:, 0]))
    for shift in (None, 0.5):
        statistics = tf.nn.sufficient_statistics(x, [0, 1], shift)
        assert run(statistics[0]) == 20
        mean, variance = run(tf.nn.normalize_moments(*statistics))
        near(mean, x.mean())
        near(variance, x.var(), 1e-3)
    got = run(tf.nn.batch_norm_with_global_normalization(
        x, x.mean(0), x.var(0), np.ones(5, np.float32),
        2 * np.ones(5, np.float32), 0.01, True))
    near(got, (x - x.mean(0)) / np.sqrt(x.var(0) + 0.01) * 2 + 1)


def test_losses_of_logits(run, rng):
    y = (rng.rand(3, 4) > 0.5).astype(np.float32)
    x = rng.randn(3, 4).astype(np.float32)
    p = 1 / (1 + np.exp(-x))
    near(run(tf.nn.weighted_cross_entropy_with_logits(y, x, 3.0)),
         -3 * y * np.log(p) - (1 - y) * np.log(1 - p))
    counts = rng.randint(0, 5, [3, 4]).astype(np.float32)
    near(run(tf.nn.log_poisson_loss(counts, x)), np.exp(x) - counts * x)
    full = run(tf.nn.log_poisson_loss(counts, x, True))
    big = counts > 1
    c = counts[big]
    near(full[big], (np.exp(x) - counts * x)[big] + c * np.log(c) - c +
         0.5 * np.log(2 * np.pi * c))
    near(full[~big], (np.exp(x) - counts * x)[~big])


def test_lookups_in_partitioned_tables(run, rng):
    table = rng.rand(7, 3).astype(np.float32)
    ids = np.array([[0, 6, 3], [5, 5, 1]])
    near(run(tf.nn.embedding_lookup(table, ids)), table[ids])
    mod = [table[i::3] for i in range(3)]
    near(run(tf.nn.embedding_lookup(mod, ids)), table[ids])
    div = [table[:3], table[3:5], table[5:]]
    near(run(tf.nn.embedding_lookup(div, ids, "div")), table[ids])
    assert tf.nn.embedding_lookup(mod, ids).shape == [2, 3, 3]
    with pytest.raises(ValueError, match="partition strategy"):
        tf.nn.embedding_lookup(mod, ids, "all")
    bounded = run(tf.nn.embedding_lookup(table, ids, max_norm=0.5))
    norms = np.linalg.norm(table[ids], axis=-1, keepdims=True)
    near(bounded, table[ids] * np.minimum(1, 0.5 / norms))
    w = tf.get_variable("w", [7, 3], partitioner=tf.fixed_size_partitioner(3),
                        initializer=tf.constant_initializer(0.0))
    run(tf.global_variables_initializer())
    run(w.assign(table))
    found = tf.nn.embedding_lookup(w, ids, "div")
    near(run(found), table[ids])
    grads = tf.gradients(tf.reduce_sum(found), list(w))
    counts = np.bincount(ids.ravel(), minlength=7)
    near(np.concatenate([run(tf.convert_to_tensor(g)) for g in grads]),
         np.repeat(counts[:, None], 3, 1))


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
def test_lookups_combine_rows(run, rng, combiner):
    table = rng.rand(5, 2).astype(np.float32)
    ids = tf.SparseTensor([[0, 0], [0, 1], [1, 0], [2, 3]],
                          tf.constant([1, 3, 0, 3], tf.int64), [3, 4])
    weights = np.array([1, 2, 0.5, 3], np.float32)
    rows = [[(1, 1), (3, 2)], [(0, 0.5)], [(3, 3)]]

    def combined(weighted):
        out = []
        for row in rows:
            w = np.array([v if weighted else 1 for _, v in row])[:, None]
            total = (table[[i for i, _ in row]] * w).sum(0)
            out.append(total / {"sum": 1, "mean": w.sum(),
                                "sqrtn": (w ** 2).sum() ** 0.5}[combiner])
        return out

    lookup = tf.nn.embedding_lookup_sparse
    near(run(lookup(table, ids, None, combiner=combiner)), combined(False))
    sp_weights = tf.SparseTensor(ids.indices, weights, ids.dense_shape)
    near(run(lookup(table, ids, sp_weights, combiner=combiner)),
         combined(True))
    near(run(lookup([table[::2], table[1::2]], ids, sp_weights,
                    combiner=combiner)), combined(True))


def test_lookup_without_ids_gives_zeros(run):
    where, shape = [[0, 0], [2, 1]], [3, 2]
    ids = tf.SparseTensor(where, [1, 0], shape)
    weights = tf.SparseTensor(where, [0.5, 2.0], shape)
    for combiner in ("sum", "mean", "sqrtn"):
        rows = run(tf.nn.embedding_lookup_sparse(
            tf.eye(2), ids, weights, combiner=combiner))
        assert rows[1].tolist() == [0, 0] and (rows[[0, 2]].sum(1) > 0).all()


def test_candidate_samplers(run):
    true = tf.constant([[1], [2]], tf.int64)
    for sampler in (tf.nn.uniform_candidate_sampler,
                    tf.nn.log_uniform_candidate_sampler,
                    tf.nn.learned_unigram_candidate_sampler):
        sampled, of_true, of_sampled = run(sampler(true, 1, 4, True, 9, seed=1))
        assert len(set(sampled)) == 4 and (sampled < 9).all()
        assert of_true.shape == (2, 1) and of_sampled.shape == (4,)
    sampled, *_ = run(tf.nn.all_candidate_sampler(true, 1, 5, True))
    assert list(sampled) == [0, 1, 2, 3, 4]
    sampled, *_ = run(tf.nn.fixed_unigram_candidate_sampler(
        true, 1, 2, True, 3, unigrams=[0.0, 1.0, 1.0]))
    assert set(sampled) == {1, 2}
    rows, places, least = run(tf.nn.compute_accidental_hits(
        true, tf.constant([2, 0, 1], tf.int64), 1))
    assert sorted(zip(rows, places)) == [(0, 2), (1, 0)]
    assert (least < -1e30).all()


def test_sampled_loss_of_all_classes_equals_full_loss(run, rng):
    """If all classes are sampled, the sampled loss is the full loss."""
    w, b = rng.rand(5, 3).astype(np.float32), rng.rand(5).astype(np.float32)
    x = rng.rand(2, 3).astype(np.float32)
    labels = np.array([[1], [4]])
    sample = (tf.constant([0, 1, 2, 3, 4], tf.int64),
              tf.ones([2, 1]), tf.ones([5]))
    logits = x @ w.T + b
    loss = run(tf.nn.sampled_softmax_loss(w, b, tf.constant(labels), x, 5, 5,
                                          sampled_values=sample))
    logp = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    near(loss, -logp[[0, 1], labels[:, 0]])
    nce = run(tf.nn.nce_loss(w, b, tf.constant(labels), x, 5, 5,
                             sampled_values=sample))
    true = logits[[0, 1], labels[:, 0]]
    near(nce, np.log1p(np.exp(-true)) + np.log1p(np.exp(logits)).sum(1))
    drawn = run(tf.nn.nce_loss(w, b, tf.constant(labels), x, 3, 5))
    assert drawn.shape == (2,) and np.isfinite(drawn).all()


def test_connectionist_temporal_classification(run):
    logits = np.log(np.array([[[0.6, 0.1, 0.3]], [[0.2, 0.5, 0.3]]],
                             np.float32))
    labels = tf.SparseTensor([[0, 0]], tf.constant([0], tf.int32), [1, 1])
    # The paths of "a" are aa, a-, -a.
    p = 0.6 * 0.2 + 0.6 * 0.3 + 0.3 * 0.2
    near(run(tf.nn.ctc_loss(labels, logits, [2])), [-np.log(p)])
    near(run(tf.nn.ctc_loss(labels, logits.transpose([1, 0, 2]), [2],
                            time_major=False)), [-np.log(p)])
    (best,), score = tf.nn.ctc_greedy_decoder(logits, [2])
    assert list(run(best).values) == [0, 1]
    near(run(score), [[-np.log(0.3)]])
    (one, two), scores = tf.nn.ctc_beam_search_decoder(
        logits, [2], top_paths=2, merge_repeated=False)
    assert list(run(one).values) == [0]
    near(run(scores)[0, 0], np.log(p), 1e-3)
    assert len(run(two).values)


def test_pooling_of_one_to_three_dimensions(run, rng):
    x = rng.rand(1, 4, 4, 4, 2).astype(np.float32)
    blocks = x.reshape(1, 2, 2, 2, 2, 2, 2, 2)
    near(run(tf.nn.max_pool3d(x, [1, 2, 2, 2, 1], [1, 2, 2, 2, 1], "VALID")),
         blocks.max((2, 4, 6)))
    near(run(tf.nn.avg_pool3d(x, 2, 2, "VALID")), blocks.mean((2, 4, 6)))
    line = x[:, :, 0, 0]
    near(run(tf.nn.max_pool1d(line, 2, 2, "VALID")),
         line.reshape(1, 2, 2, 2).max(2))
    near(run(tf.nn.avg_pool1d(line, [1, 2, 1], [1, 2, 1], "VALID")),
         line.reshape(1, 2, 2, 2).mean(2))
    near(run(tf.nn.pool(x[:, :, :, 0], [2, 2], "AVG", "VALID",
                        strides=[2, 2])),
         x[:, :, :, 0].reshape(1, 2, 2, 2, 2, 2).mean((2, 4)))
    top, at = run(tf.nn.max_pool_with_argmax(x[:, :, :, 0], [1, 2, 2, 1],
                                             [1, 2, 2, 1], "VALID"))
    near(x[:, :, :, 0].ravel()[at], top)
    with pytest.raises(ValueError, match="'MAX' or 'AVG'"):
        tf.nn.pool(x, [2, 2, 2], "MIN", "VALID")


def test_morphology(run, rng):
    x = rng.rand(1, 3, 3, 1).astype(np.float32)
    k = np.zeros([2, 2, 1], np.float32)
    one = [1, 1, 1, 1]
    dilated = run(tf.nn.dilation2d(x, k, one, one, "VALID"))
    eroded = run(tf.nn.erosion2d(x, k, one, one, "VALID"))
    for i in range(2):
        for j in range(2):
            part = x[0, i:i + 2, j:j + 2, 0]
            near(dilated[0, i, j, 0], part.max())
            near(eroded[0, i, j, 0], part.min())


def test_windows_support_channels_first(run, rng):
    x = rng.rand(2, 3, 6).astype(np.float32)
    last = x.transpose(0, 2, 1)
    three = [1, 1, 2]
    for pool in (tf.nn.max_pool1d, tf.nn.avg_pool1d):
        near(run(pool(x, three, three, "VALID", data_format="NCW")),
             run(pool(last, 2, 2, "VALID")).transpose(0, 2, 1))
    w = rng.rand(2, 3, 4).astype(np.float32)
    expected = run(tf.nn.conv1d(last, w, 2, "VALID")).transpose(0, 2, 1)
    near(run(tf.nn.conv1d(x, w, three, "VALID", data_format="NCW")), expected)
    near(run(tf.nn.conv1d(last, w, [1, 2, 1], "VALID")).transpose(0, 2, 1),
         expected)
    near(run(tf.nn.conv1d_transpose(expected, w, [2, 3, 6], three, "VALID",
                                    data_format="NCW")),
         run(tf.nn.conv1d_transpose(expected.transpose(0, 2, 1), w, [2, 6, 3],
                                    2, "VALID")).transpose(0, 2, 1))

    image = rng.rand(1, 3, 4, 6).astype(np.float32)
    last = image.transpose(0, 2, 3, 1)
    kernel = rng.rand(2, 2, 3, 4).astype(np.float32)
    first = dict(padding="VALID", data_format="NCHW")
    for by in (2, [2], [2, 1]):
        whole = [1, *(by if by == [2, 1] else [2, 2]), 1]
        for pool in (tf.nn.max_pool, tf.nn.avg_pool):
            near(run(pool(image, by, by, **first)),
                 run(pool(last, whole, whole, "VALID")).transpose(0, 3, 1, 2))
        near(run(tf.nn.conv2d(image, kernel, by, **first)),
             run(tf.nn.conv2d(last, kernel, whole, "VALID")).transpose(
                 0, 3, 1, 2))
    near(run(tf.nn.conv2d(image, kernel, 1, dilations=2, **first)),
         run(tf.nn.conv2d(last, kernel, 1, "VALID", dilations=2)).transpose(
             0, 3, 1, 2))


def test_windows_accept_explicit_paddings(run, rng):
    def random(*shape):
        return tf.constant(rng.rand(*shape).astype(np.float32))

    def channels_first(t):
        return tf.transpose(t, [0, 3, 1, 2])

    x, w, deep = random(2, 4, 5, 3), random(2, 3, 3, 4), random(2, 3, 3, 2)
    edges = [[0, 0], [2, 1], [0, 3], [0, 0]]
    padded = tf.pad(x, edges)
    spread = dict(strides=[1, 2, 1, 1], dilations=[1, 1, 2, 1])
    for made, expected, sources in [
            (tf.nn.conv2d(x, w, padding=edges, **spread),
             tf.nn.conv2d(padded, w, padding="VALID", **spread), [x, w]),
            (tf.nn.conv2d(channels_first(x), w, 1,
                          [(0, 0), (0, 0), (2, 1), (0, 3)],
                          data_format="NCHW"),
             channels_first(tf.nn.conv2d(padded, w, 1, "VALID")), [x, w]),
            (tf.nn.convolution(x, w, edges),
             tf.nn.conv2d(padded, w, 1, "VALID"), [x, w]),
            (tf.nn.convolution(x[0], w[0], [[0, 0], [2, 1], [0, 0]]),
             tf.nn.conv1d(tf.pad(x[0], [[0, 0], [2, 1], [0, 0]]), w[0], 1,
                          "VALID"), [x, w]),
            (tf.nn.depthwise_conv2d(x, deep, [1, 2, 2, 1], edges),
             tf.nn.depthwise_conv2d(padded, deep, [1, 2, 2, 1], "VALID"),
             [x, deep]),
            (tf.nn.max_pool(x, [2, 3], 1, [[0, 0], [1, 0], [0, 2], [0, 0]]),
             tf.nn.max_pool(tf.pad(x, [[0, 0], [1, 0], [0, 2], [0, 0]]),
                            [2, 3], 1, "VALID"), [x])]:
        near(run(made), run(expected))
        d = random(*expected.shape.as_list())
        for got, wanted in zip(tf.gradients(made, sources, d),
                               tf.gradients(expected, sources, d)):
            near(run(got), run(wanted))

    y = tf.nn.conv2d(x, w, padding=edges, **spread)
    dx, dw = tf.gradients(y, [x, w], y)
    near(run(tf.nn.conv2d_transpose(y, w, x.shape, [1, 2, 1, 1], edges,
                                    dilations=[1, 1, 2, 1])), run(dx))
    near(run(tf.nn.conv2d_backprop_input(x.shape, w, y, padding=edges,
                                         **spread)), run(dx))
    near(run(tf.nn.conv2d_backprop_filter(x, w.shape, y, padding=edges,
                                          **spread)), run(dw))
    y = tf.nn.depthwise_conv2d(x, deep, [1, 1, 1, 1], edges)
    dx, dw = tf.gradients(y, [x, deep], y)
    ones = dict(strides=[1, 1, 1, 1], padding=edges)
    near(run(tf.nn.depthwise_conv2d_backprop_input(x.shape, deep, y, **ones)),
         run(dx))
    near(run(tf.nn.depthwise_conv2d_backprop_filter(x, deep.shape, y, **ones)),
         run(dw))
    for wrong, message in [
            ("EXPLICIT", "'EXPLICIT' is not a valid value for `padding`"),
            (edges[:3], "must be of size 4"), ([1, 1, 1, 1], "of size 2"),
            ([[0, 0], [1], [1, 1], [0, 0]], "of size 2")]:
        with pytest.raises(ValueError, match=message):
            tf.nn.conv2d(x, w, 1, wrong)
    with pytest.raises(ValueError, match="explicit_paddings: expected 0"):
        tf.nn.conv2d(x, w, 1, [[1, 0], [1, 1], [1, 1], [0, 0]])


def test_dilated_transposed_convolutions(run, rng):
    x = tf.constant(rng.rand(1, 5, 6, 3).astype(np.float32))
    w = rng.rand(2, 2, 3, 4).astype(np.float32)
    y = tf.nn.conv2d(x, w, 1, "VALID", dilations=2)
    near(run(tf.nn.conv2d_transpose(y, w, [1, 5, 6, 3], 1, "VALID",
                                    dilations=2)),
         run(tf.gradients(y, x, y)[0]))
    x = tf.constant(rng.rand(1, 4, 5, 5, 2).astype(np.float32))
    w = rng.rand(2, 2, 2, 2, 3).astype(np.float32)
    y = tf.nn.conv3d(x, w, [1] * 5, "VALID", dilations=[1, 2, 2, 2, 1])
    near(run(tf.nn.conv3d_transpose(y, w, [1, 4, 5, 5, 2], [1] * 5, "VALID",
                                    dilations=2)),
         run(tf.gradients(y, x, y)[0]))


def test_gamma_numbers_of_a_high_rate_keep_their_shape_parameter(run):
    drawn = run(tf.random_gamma([2000], 0.5, beta=[1e9, 2e9], seed=1))
    near((drawn * [1e9, 2e9]).mean(0), [0.5, 0.5], 0.15)


def test_convolutions_by_their_gradients(run, rng):
    x = rng.rand(2, 5, 6, 3).astype(np.float32)
    w = rng.rand(2, 2, 3, 4).astype(np.float32)
    one = [1, 1, 1, 1]
    y = tf.nn.conv2d(x, w, one, "VALID")
    dy = rng.rand(*y.shape.as_list()).astype(np.float32)
    tx, tw = tf.constant(x), tf.constant(w)
    dx, dw = tf.gradients(tf.nn.conv2d(tx, tw, one, "VALID"), [tx, tw], dy)
    near(run(tf.nn.conv2d_backprop_input([2, 5, 6, 3], w, dy, one, "VALID")),
         run(dx))
    near(run(tf.nn.conv2d_backprop_filter(x, [2, 2, 3, 4], dy, one, "VALID")),
         run(dw))
    row, kernel = x[:, :, 0], w[:, 0]
    line = tf.nn.conv1d(row, kernel, 2, "VALID")
    wide = tf.nn.conv2d(row[:, None], kernel[None], [1, 2, 2, 1], "VALID")
    near(run(line), run(wide)[:, 0])
    back = tf.nn.conv1d_transpose(line, kernel, [2, 5, 3], 2, "VALID")
    constant = tf.constant(row)
    expected = tf.gradients(tf.nn.conv1d(constant, kernel, 2, "VALID"),
                            constant, line)[0]
    near(run(back), run(expected))
    assert tf.nn.atrous_conv2d(x, w, 2, "VALID").shape == [2, 3, 4, 4]
    near(run(tf.nn.atrous_conv2d(x, w, 2, "VALID")),
         run(tf.nn.convolution(x, w, "VALID", dilation_rate=[2, 2])))
    with pytest.raises(ValueError, match="not supported in conjunction"):
        tf.nn.convolution(x, w, "VALID", strides=[2, 2], dilation_rate=[2, 2])


def test_ctc_labels_with_another_blank(run):
    rng = np.random.RandomState(0)
    logits = rng.randn(7, 2, 4).astype(np.float32)
    labels, lengths = [[1, 2, 2], [3, 0, 0]], [3, 1]
    x = tf.constant(logits)
    loss = tf.nn.ctc_loss_v2(labels, x, lengths, [7, 6])  # The blank is 0.
    # The blank of the op is the last class.
    turned = logits[:, :, [1, 2, 3, 0]]
    sparse = tf.SparseTensor([[0, 0], [0, 1], [0, 2], [1, 0]], [0, 1, 1, 2],
                             [2, 3])
    expected = tf.nn.ctc_loss(sparse, turned, [7, 6])
    got, wanted = run([loss, expected])
    np.testing.assert_allclose(got, wanted, 1e-5)
    assert tf.gradients(loss, x)[0].shape == [7, 2, 4]
    # The number of classes is known only in the step.
    later = tf.placeholder(tf.float32, [None, 2, None])
    for blank in (0, -4):
        loss = tf.nn.ctc_loss_v2(labels, later, lengths,
                                 tf.constant([7, 6], tf.int64),
                                 blank_index=blank)
        np.testing.assert_allclose(run(loss, {later: logits}), wanted, 1e-5)
    with pytest.raises(ValueError, match="blank_index must be given"):
        tf.nn.ctc_loss_v2(sparse, x, None, [7, 6])


def test_labels_that_repeat_and_differ(run):
    rows, left = run(tf.nn.collapse_repeated([[1, 3, 3, 0], [4, 4, 2, 4]],
                                             [3, 4]))
    assert rows.tolist() == [[1, 3, 0], [4, 2, 4]] and left.tolist() == [2, 3]
    unique, which = run(tf.nn.ctc_unique_labels([[3, 4, 3], [1, 1, 0]]))
    assert unique.tolist() == [[3, 4, 0], [1, 0, 0]]
    assert which.tolist() == [[0, 1, 0], [0, 0, 1]]


def test_dilated_windows(run):
    x = np.random.RandomState(0).rand(1, 9, 2).astype(np.float32)
    y = run(tf.nn.pool(x, [2], "AVG", "VALID", dilation_rate=[3]))
    np.testing.assert_allclose(y, (x[:, :-3] + x[:, 3:]) / 2, 1e-6)
    with pytest.raises(ValueError, match="strides > 1 not supported"):
        tf.nn.pool(x, [2], "MAX", "VALID", dilation_rate=[3], strides=[2])
    with pytest.raises(ValueError, match="'SAME' padding is not implemented"):
        tf.nn.pool(x, [2], "AVG", "SAME", dilation_rate=[3])


def test_einsum_of_many_operands(run):
    rng = np.random.RandomState(0)
    a, b, c = rng.rand(2, 3), rng.rand(3, 4), rng.rand(4, 2)
    for equation in ("ij,jk,kl->il", "ij,jk,ki->", "ij,jk,kl->lji"):
        np.testing.assert_allclose(run(tf.einsum(equation, a, b, c)),
                                   np.einsum(equation, a, b, c), 1e-9)
    with pytest.raises(ValueError, match="expected 3 inputs, got 4"):
        tf.einsum("ij,jk,kl->il", a, b, c, a)


@pytest.mark.parametrize("axis", [0, 1, 2, -2])
def test_cross_entropy_along_any_axis_keeps_the_order_of_the_others(
        run, rng, axis):
    logits = rng.rand(2, 3, 4)
    labels = rng.rand(2, 3, 4)
    labels /= labels.sum(axis, keepdims=True)
    softmax = np.exp(logits) / np.exp(logits).sum(axis, keepdims=True)
    near(run(tf.nn.softmax_cross_entropy_with_logits_v2(
        labels=labels, logits=logits, axis=axis)),
         -(labels * np.log(softmax)).sum(axis))


def test_softmax_axis_may_be_fed(run, rng):
    x = rng.rand(2, 3, 4)
    axis, unknown = tf.placeholder(tf.int32, []), tf.placeholder(tf.float64)
    for a in (0, 1, 2, -2):
        want = np.exp(x) / np.exp(x).sum(a, keepdims=True)
        near(run(tf.nn.softmax(x, axis), {axis: a}), want)
        near(run(tf.nn.softmax(unknown, a), {unknown: x}), want)
    with pytest.raises(tf.errors.InvalidArgumentError):
        run(tf.nn.softmax(x, axis), {axis: 100})
    with pytest.raises(tf.errors.InvalidArgumentError, match="in the range"):
        tf.nn.softmax(x, 3)


def test_dropout_requires_scalar_probability():
    with pytest.raises(ValueError):
        tf.nn.dropout(tf.ones([2, 2]), [0.0, 1.0])


def test_logical_reductions_accept_empty_lists(run):
    assert run(tf.reduce_all([])) and not run(tf.reduce_any([]))


def test_fractional_pools_accept_one_or_two_ratios(run, rng):
    x = rng.rand(1, 6, 6, 1).astype(np.float32)
    for pool, best in ((nn.fractional_max_pool_v2, np.max),
                       (nn.fractional_avg_pool_v2, np.mean)):
        for ratio in (1.5, [1.5], [1.5, 1.5], [1.0, 1.5, 1.5, 1.0]):
            made = pool(x, ratio, seed=7)
            (y, rows, columns), (again, _, _) = run(made), run(made)
            assert y.shape == (1, 4, 4, 1)
            np.testing.assert_array_equal(y, again)
            near(y[0, 0, 0, 0], best(x[0, :rows[1], :columns[1]]))
        with pytest.raises(ValueError, match="of length 1, 2 or 4"):
            pool(x, [1.0, 1.5, 1.0])


def test_paddings_of_known_sizes_are_constants():
    pads, crops = tf.required_space_to_batch_paddings([5, 4], [2, 3],
                                                      [[1, 0], [0, 0]])
    assert tf.get_static_value(pads).tolist() == [[1, 0], [0, 2]]
    assert tf.get_static_value(crops).tolist() == [[0, 0], [0, 2]]
    none, _ = tf.required_space_to_batch_paddings(
        np.zeros([0], np.int32), np.zeros([0], np.int32))
    assert none.shape == [0, 2]
    y = tf.nn.pool(tf.ones([1, 9, 7, 2]), [2, 3], "MAX", "VALID",
                   dilation_rate=[2, 1])
    assert y.shape == [1, 7, 5, 2]


def test_lookups_of_weights_of_another_type_are_refused():
    ids = tf.SparseTensor([[0, 0]], [1], [1, 1])
    weights = tf.SparseTensor([[0, 0]], [1.0], [1, 1])
    with pytest.raises(ValueError, match="float32"):
        tf.nn.safe_embedding_lookup_sparse(
            [tf.ones([2, 2], tf.float64)], ids, weights)


def test_batches_of_lookups_need_known_ranks():
    with pytest.raises(ValueError, match=r"less than rank\(indices\) = 2"):
        tf.gather([[1, 2]], [[0, 1]], batch_dims=2)
    with pytest.raises(ValueError, match=r"less than rank\(params\) = 1"):
        tf.gather([1, 2], [[0, 1]], batch_dims=1)
    with pytest.raises(ValueError, match="indices with unknown rank"):
        tf.gather([[1, 2]], tf.placeholder(tf.int32), batch_dims=1)


def test_labels_are_converted_to_logits_type(run):
    logits = tf.constant([[1.0, 2.0]])
    for made in (tf.nn.softmax_cross_entropy_with_logits,
                 tf.nn.softmax_cross_entropy_with_logits_v2):
        for labels in ([[0, 1]], tf.constant([[0, 1]]),
                       np.array([[0.0, 1.0]])):
            assert run(made(labels=labels, logits=logits)) == pytest.approx(
                [np.log1p(np.exp(-1))])


def test_cross_entropies_accept_any_axis(run, rng):
    x, labels = (rng.rand(2, 3, 4).astype(np.float32) for _ in range(2))
    given, along = tf.placeholder(tf.float32), tf.placeholder(tf.int32, [])
    for axis in (0, 1, -2, 2, -1):
        whole = np.log(np.exp(x).sum(axis, keepdims=True)) - x
        for logits in (x, given):
            for a in (axis, tf.constant(axis), along):
                near(run(tf.nn.softmax_cross_entropy_with_logits_v2(
                    labels, logits, a), {given: x, along: axis}),
                     (whole * labels).sum(axis))


def test_softmax_keeps_shape_of_logits():
    x, axis = tf.ones([2, 3]), tf.placeholder(tf.int32, [])
    assert tf.nn.softmax(x, axis).shape == [2, 3]
    assert tf.nn.log_softmax(x, axis).shape == [2, 3]


def test_cross_entropies_may_take_logits_first(run, rng):
    x = rng.rand(2, 3).astype(np.float32)
    labels = np.float32([[0, 1, 0], [1, 0, 0]])
    for kind, y in (("softmax", labels), ("sparse_softmax", [1, 0]),
                    ("sigmoid", labels)):
        old = getattr(tf.contrib.nn,
                      f"deprecated_flipped_{kind}_cross_entropy_with_logits")
        new = getattr(tf.nn, f"{kind}_cross_entropy_with_logits")
        near(run(old(x, y)), run(new(labels=y, logits=x)))


def test_dropout_with_tiny_keep_prob_gives_zeros(run):
    # 1 - 1e-8 rounds to 1 in single precision.
    got = run(tf.nn.dropout(tf.ones([100]), keep_prob=1e-8, seed=1))
    assert not got.any()


def test_broadcast_errors_use_expected_wording(run):
    a, b = tf.placeholder(tf.int32, [3]), tf.placeholder(tf.int32, [2])
    with pytest.raises(tf.errors.InvalidArgumentError,
                       match=r"Incompatible shapes: \[2,3,5\] vs. \[3,2\]"):
        run(tf.broadcast_dynamic_shape(a, b), {a: [2, 3, 5], b: [3, 2]})


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_of_halves_are_combined_to_halves(run, combiner, weighted):
    table = tf.constant(np.arange(8).reshape(4, 2), tf.float16)
    ids = tf.SparseTensor([[0, 0], [0, 1], [1, 0]],
                          np.array([1, 2, 3], np.int64), [2, 2])
    weights = tf.SparseTensor(ids.indices, np.ones(3, np.float32),
                              ids.dense_shape) if weighted else None
    rows = tf.nn.embedding_lookup_sparse(table, ids, weights,
                                         combiner=combiner, name="rows")
    assert rows.dtype == tf.float16 and rows.name == "rows:0"
    by = {"sum": 1, "mean": 2, "sqrtn": 2 ** .5}[combiner]
    assert np.allclose(run(rows), [[6 / by, 8 / by], [6, 7]], atol=0.01)


def test_the_largest_norm_of_rows_that_are_numbers(run):
    rows = tf.nn.embedding_lookup(tf.constant([3.0, -4.0, 0.5]), [0, 1, 2],
                                  max_norm=1.0)
    assert np.allclose(run(rows), [1, -1, 0.5])


def test_complex_vectors_are_normalized():
    x = np.array([[3 + 4j, 0], [0, 0]], np.complex64)
    with tf.Session() as session:
        got = session.run(nn.l2_normalize(tf.constant(x), 1))
    np.testing.assert_allclose(got, [[0.6 + 0.8j, 0], [0, 0]], rtol=1e-6)
