"""Array, math and matrix functions, compared with numpy."""

import numpy as np
import pytest
import sluice.compat.v1 as tf


@pytest.fixture
def rng():
    return np.random.RandomState(0)


def near(got, expected, rtol=1e-5, atol=1e-5):
    np.testing.assert_allclose(got, expected, rtol, atol)


# ---- Arrays ------------------------------------------------------------------


def test_meshgrids(run):
    x, y, z = np.arange(3), np.arange(4) * 2, np.array([5, 6])
    for arguments, indexing in (((x, y), "xy"), ((x, y), "ij"),
                                ((x, y, z), "xy"), ((x,), "ij")):
        got = run(tf.meshgrid(*arguments, indexing=indexing))
        for a, b in zip(got, np.meshgrid(*arguments, indexing=indexing)):
            np.testing.assert_array_equal(a, b)
    with pytest.raises(ValueError, match="'xy' or 'ij'"):
        tf.meshgrid(x, y, indexing="yx")
    with pytest.raises(TypeError, match="invalid keyword"):
        tf.meshgrid(x, y, sparse=True)


def test_differences_and_distances_of_lists(run):
    out, at = run(tf.setdiff1d([1, 2, 3, 4, 5, 6], [1, 3, 5]))
    assert list(out) == [2, 4, 6] and list(at) == [1, 3, 5]
    one = tf.SparseTensor([[0, 0], [1, 0], [1, 1]], ["a", "b", "c"], [2, 2])
    two = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], ["a", "x", "b"], [2, 2])
    near(run(tf.edit_distance(one, two)), [0.5, 1.0])
    near(run(tf.edit_distance(one, two, normalize=False)), [1, 1])


def test_sequences_are_reversed(run):
    x = np.arange(12).reshape(2, 6)
    got = run(tf.reverse_sequence(x, [3, 5], seq_axis=1, batch_axis=0))
    np.testing.assert_array_equal(got, [[2, 1, 0, 3, 4, 5],
                                        [10, 9, 8, 7, 6, 11]])
    np.testing.assert_array_equal(
        got, run(tf.reverse_sequence(x, [3, 5], seq_dim=1, batch_dim=0)))
    np.testing.assert_array_equal(run(tf.manip.reverse(x, [1])), x[:, ::-1])


def test_blocks_of_images(run):
    x = np.arange(16).reshape(1, 4, 4, 1)
    blocks = tf.space_to_batch(x, [[0, 0], [0, 0]], 2)
    got = run(blocks)
    for i in range(4):
        np.testing.assert_array_equal(got[i, ..., 0],
                                      x[0, i // 2::2, i % 2::2, 0])
    np.testing.assert_array_equal(
        run(tf.batch_to_space(blocks, [[0, 0], [0, 0]], 2)), x)
    paddings, crops = run(tf.required_space_to_batch_paddings([5, 6], [3, 2]))
    np.testing.assert_array_equal(paddings, [[0, 1], [0, 0]])
    np.testing.assert_array_equal(crops, [[0, 1], [0, 0]])
    paddings, _ = run(tf.required_space_to_batch_paddings(
        [5, 6], [3, 2], [[1, 1], [0, 1]]))
    np.testing.assert_array_equal(paddings, [[1, 3], [0, 2]])


def test_searchsorted_and_repeat(run):
    rows = np.array([[1, 3, 5], [2, 4, 4]])
    values = np.array([[0, 3], [4, 9]])
    for side in ("left", "right"):
        got = run(tf.searchsorted(rows, values, side))
        for a, b, c in zip(got, rows, values):
            np.testing.assert_array_equal(a, np.searchsorted(b, c, side))
    x = np.arange(6).reshape(2, 3)
    for repeats, axis in ((2, None), ([1, 0, 3], 1), ([2, 1], 0), (3, 1)):
        np.testing.assert_array_equal(run(tf.repeat(x, repeats, axis)),
                                      np.repeat(x, repeats, axis))
    with pytest.raises(ValueError, match="repeat: expected a known rank"):
        tf.repeat(tf.placeholder(tf.float32), 2, axis=0)


def test_shapes_that_broadcast(run):
    np.testing.assert_array_equal(
        run(tf.broadcast_dynamic_shape([2, 1, 3], [4, 1])), [2, 4, 3])
    static = tf.broadcast_static_shape
    assert static([2, 1, 3], [4, 1]) == tf.TensorShape([2, 4, 3])
    assert static([None, 3], [2, 1]).as_list() == [2, 3]
    assert static([None, 3], [1, 3]).as_list() == [None, 3]
    with pytest.raises(ValueError, match="Incompatible shapes"):
        static([2], [3])
    near(run(tf.roll([1, 2, 3], 1, 0)), [3, 1, 2])
    near(run(tf.unravel_index([5], [2, 3])), [[1], [2]])
    dims = tf.placeholder(tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="int32 can hold"):
        run(tf.unravel_index([5], dims), {dims: [1 << 30, 3]})
    x = tf.placeholder(tf.float32)
    with pytest.raises(tf.errors.FailedPreconditionError, match="dimension of 3"):
        run(tf.linalg.cross(x, x), {x: [1, 2]})
    axis = tf.placeholder(tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="a scalar"):
        run(tf.argmax([1, 2], axis), {axis: [0]})


def test_image_patches(run):
    x = np.arange(9, dtype=np.float32).reshape(1, 3, 3, 1)
    got = run(tf.image.extract_image_patches(
        x, [1, 2, 2, 1], [1, 1, 1, 1], [1, 1, 1, 1], "VALID"))
    np.testing.assert_array_equal(got[0, 0, 1], [1, 2, 4, 5])


def test_updates_of_slices(run):
    for resource in (False, True):
        v = tf.Variable(np.zeros([3, 2], np.float32), use_resource=resource)
        run(v.initializer)
        near(run(tf.scatter_nd_update(v, [[0, 1], [2, 0]], [5.0, 6.0])),
             [[0, 5], [0, 0], [6, 0]])
        near(run(tf.scatter_nd_add(v, [[2]], [[1.0, 1.0]]))[2], [7, 1])
        near(run(tf.scatter_nd_sub(v, [[0, 1]], [2.0]))[0], [0, 3])
        near(run(tf.scatter_max(v, [1], [[-1.0, 4.0]]))[1], [0, 4])
        near(run(tf.scatter_min(v, [1], [[-1.0, 9.0]]))[1], [-1, 4])
    x = tf.tensor_scatter_update([1, 2, 3], [[1]], [9])
    near(run(x), [1, 9, 3])
    count = tf.Variable(0)
    run(count.initializer)
    assert [run(tf.count_up_to(count, 2)) for _ in range(2)] == [0, 1]


# ---- Mathematics -------------------------------------------------------------


@pytest.mark.parametrize("equation,shapes", [
    ("ij,jk->ik", [(2, 3), (3, 4)]), ("ij,jk", [(2, 3), (3, 4)]),
    ("ii->i", [(3, 3)]), ("bij, bjk -> bik", [(2, 3, 4), (2, 4, 5)]),
    ("...ij,...jk", [(2, 3, 4), (2, 4, 5)]), ("ij->", [(2, 3)])])
def test_sums_of_products(run, rng, equation, shapes):
    values = [rng.rand(*s).astype(np.float32) for s in shapes]
    near(run(tf.einsum(equation, *values)), np.einsum(equation, *values))


def test_segments(run, rng):
    x = rng.rand(5, 2).astype(np.float32)
    ids = np.array([0, 2, 0, 2, 2])
    parts = [x[ids == i] for i in range(4)]
    counts = np.maximum([len(p) for p in parts], 1)[:, None]
    total = np.array([p.sum(0) for p in parts])
    near(run(tf.unsorted_segment_sum(x, ids, 4)), total)
    near(run(tf.unsorted_segment_mean(x, ids, 4)), total / counts)
    near(run(tf.unsorted_segment_sqrt_n(x, ids, 4)), total / counts ** 0.5)
    near(run(tf.unsorted_segment_min(x, ids, 4))[2], parts[2].min(0))
    near(run(tf.unsorted_segment_prod(x, ids, 4))[0], parts[0].prod(0))
    rows, segments = [0, 3, 3, 1], [0, 0, 1, 3]
    near(run(tf.sparse_segment_sum(x, rows, segments)),
         [x[0] + x[3], x[3], [0, 0], x[1]])
    near(run(tf.sparse_segment_mean(x, rows, segments))[0], (x[0] + x[3]) / 2)
    near(run(tf.sparse_segment_sqrt_n(x, rows, segments))[0],
         (x[0] + x[3]) / 2 ** 0.5)
    assert run(tf.sparse_segment_sum(x, rows, segments, num_segments=6)
               ).shape == (6, 2)


def test_functions(run, rng):
    x = rng.rand(2, 3).astype(np.float32) + 0.5
    from math import lgamma
    near(run(tf.lbeta(x)), [sum(map(lgamma, r)) - lgamma(sum(r)) for r in x],
         1e-4)
    near(run(tf.math.log_sigmoid(x)), -np.log1p(np.exp(-x)))
    near(run(tf.math.xlogy(x * 0, x * 0)), x * 0)
    near(run(tf.math.xdivy([0.0, 3.0], [0.0, 2.0])), [0, 1.5])
    near(run(tf.math.nextafter([1.0], [2.0])), np.nextafter(
        np.float32(1), np.float32(2))[None])
    near(run(tf.math.multiply_no_nan([0.0, np.inf], [2.0, 0.0])), [0, 0])
    near(run(tf.igamma(1.0, x) + tf.igammac(1.0, x)), np.ones_like(x))
    near(run(tf.igammac(1.0, x)), np.exp(-x))
    near(run(tf.betainc(1.0, 1.0, x - 0.5)), x - 0.5)
    near(run(tf.cross([1.0, 2.0, 3.0], [4.0, 5.0, 7.0])),
         np.cross([1, 2, 3], [4, 5, 7]))
    near(run(tf.math.reduce_variance(x, 1)), x.var(1))
    near(run(tf.math.reduce_std(x)), x.std())
    near(run(tf.math.cumulative_logsumexp(x)),
         np.log(np.cumsum(np.exp(x), 0)))
    near(run(tf.math.reduce_euclidean_norm(x, 1)), np.linalg.norm(x, axis=1))
    near(run(tf.histogram_fixed_width([-1.0, 0.0, 1.5, 2.0, 5.0, 15.0],
                                      [0.0, 5.0], 5)), [2, 1, 1, 0, 2])
    near(run(tf.bincount([1, 1, 3])), [0, 2, 0, 1])
    near(run(tf.bincount([1, 1, 3], weights=[1.0, 0.5, 2.0])), [0, 1.5, 0, 2])
    near(run(tf.bincount([1, 1, 3], maxlength=2)), [0, 2])
    near(run(tf.bincount([1], minlength=3)), [0, 1, 0])
    near(run(tf.bitwise.bitwise_xor([5, 6], [3, 3])), [6, 5])
    near(run(tf.bitwise.left_shift([1], [3])), [8])
    with pytest.raises(TypeError, match="invalid keyword"):
        tf.einsum("i->i", x, color=1)


def test_norms_are_bounded(run, rng):
    x = rng.randn(3, 4).astype(np.float32)
    average = np.linalg.norm(x) / 12
    near(run(tf.clip_by_average_norm(x, 0.1)), x * 0.1 / average, 1e-4)
    near(run(tf.clip_by_average_norm(x, 100.0)), x, 1e-4)


# ---- Matrices ----------------------------------------------------------------


@pytest.mark.parametrize("order", ["euclidean", 1, 2, 3, np.inf])
def test_norms_of_vectors(run, rng, order):
    x = rng.randn(3, 4).astype(np.float32)
    as_numpy = 2 if order == "euclidean" else order
    for axis in (0, -1):
        near(run(tf.norm(x, order, axis)),
             np.linalg.norm(x, as_numpy, axis), 1e-4)
    near(run(tf.linalg.norm(x, order)), np.linalg.norm(x.ravel(), as_numpy),
         1e-4)
    assert tf.norm(x, order, 1, keepdims=True).shape == [3, 1]


@pytest.mark.parametrize("order", ["euclidean", "fro", 1, 2, np.inf])
def test_norms_of_matrices(run, rng, order):
    x = rng.randn(2, 3, 4).astype(np.float32)
    as_numpy = "fro" if order == "euclidean" else order
    for axis in ([1, 2], [2, 1], [0, 2]):
        near(run(tf.linalg.norm(x, order, axis)),
             np.linalg.norm(x, as_numpy, tuple(axis)), 1e-4)
        near(run(tf.linalg.norm(x, order, axis, keepdims=True)),
             np.linalg.norm(x, as_numpy, tuple(axis), keepdims=True), 1e-4)


def test_invalid_norms_are_errors():
    with pytest.raises(ValueError, match="vector norm"):
        tf.norm([1.0], "fro")
    with pytest.raises(ValueError, match="matrix norm"):
        tf.norm([[1.0]], 3, [0, 1])


def test_identity_matrices(run):
    near(run(tf.eye(3)), np.eye(3))
    near(run(tf.eye(2, 4, dtype=tf.int32)), np.eye(2, 4))
    near(run(tf.eye(4, 2)), np.eye(4, 2))
    batch = run(tf.eye(2, batch_shape=[3]))
    near(batch, np.stack([np.eye(2)] * 3))


def test_solving(run, rng):
    a = rng.rand(3, 3)
    spd = a @ a.T + np.eye(3)
    b = rng.rand(3, 2)
    near(run(tf.linalg.solve(spd, b)), np.linalg.solve(spd, b))
    near(run(tf.linalg.inv(spd)), np.linalg.inv(spd))
    near(run(tf.linalg.det(spd)), np.linalg.det(spd))
    near(run(tf.linalg.logdet(spd)), np.log(np.linalg.det(spd)))
    sign, logabs = run(tf.linalg.slogdet(-spd))
    near([sign, logabs], np.linalg.slogdet(-spd))
    near(run(tf.cholesky_solve(tf.cholesky(spd), b)), np.linalg.solve(spd, b))
    low = np.tril(spd)
    near(run(tf.matrix_triangular_solve(low, b)), np.linalg.solve(low, b))
    tall, rhs = rng.rand(5, 2), rng.rand(5, 1)
    near(run(tf.matrix_solve_ls(tall, rhs)),
         np.linalg.lstsq(tall, rhs, rcond=None)[0])
    near(run(tf.linalg.lstsq(tall, rhs, l2_regularizer=0.5)), np.linalg.solve(
        tall.T @ tall + 0.5 * np.eye(2), tall.T @ rhs))


def test_decompositions(run, rng):
    a = rng.rand(4, 3)
    q, r = run(tf.linalg.qr(a))
    near(q @ r, a)
    near(q.T @ q, np.eye(3))
    s, u, v = run(tf.svd(a))
    near(u @ np.diag(s) @ v.T, a)
    near(run(tf.linalg.svd(a, compute_uv=False)), s)
    spd = a.T @ a
    e, vectors = run(tf.self_adjoint_eig(spd))
    near(vectors @ np.diag(e) @ vectors.T, spd)
    near(run(tf.linalg.eigvalsh(spd)), np.linalg.eigvalsh(spd))
    complex_ = a + 1j * rng.rand(4, 3)
    near(run(tf.linalg.adjoint(complex_)), complex_.conj().T)
    near(run(tf.linalg.set_diag(np.zeros([2, 2]), [1.0, 2.0])),
         np.diag([1, 2]))


# ---- Initializers ------------------------------------------------------------


def test_orthogonal_matrices(run):
    for shape in ([4, 3], [3, 4], [2, 2, 3]):
        x = run(tf.orthogonal_initializer(gain=2.0)(shape))
        assert list(x.shape) == shape
        flat = x.reshape(-1, shape[-1])
        wide = flat if flat.shape[0] <= flat.shape[1] else flat.T
        near(wide @ wide.T, 4 * np.eye(len(wide)), 1e-4, 1e-4)
    with pytest.raises(ValueError, match="two-dimensional"):
        tf.initializers.orthogonal()([3])


def test_scales_of_random_weights(run):
    tf.set_random_seed(7)
    shape = [200, 300]
    for initializer, deviation in (
            (tf.initializers.he_normal(), (2 / 200) ** 0.5),
            (tf.initializers.he_uniform(), (2 / 200) ** 0.5),
            (tf.initializers.lecun_normal(), (1 / 200) ** 0.5),
            (tf.uniform_unit_scaling_initializer(), 200 ** -0.5),
            (tf.contrib.layers.xavier_initializer(), (2 / 500) ** 0.5)):
        x = run(initializer(shape))
        assert abs(x.std() / deviation - 1) < 0.03
        assert abs(x.mean()) < 1e-3


def test_gamma_poisson_and_stateless_random_numbers(run):
    assert abs(run(tf.random_gamma([20000], 3.0, 2.0)).mean() - 1.5) < 0.05
    assert run(tf.random.gamma([5], [1.0, 2.0])).shape == (5, 2)
    assert abs(run(tf.random_poisson(4.0, [20000])).mean() - 4) < 0.1
    one, two = (run(tf.random.stateless_uniform([3], [1, 2], -1, 1))
                for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert (abs(one) <= 1).all()
    n = run(tf.random.stateless_normal([20000], [3, 4], 5.0, 2.0))
    assert abs(n.mean() - 5) < 0.1 and abs(n.std() - 2) < 0.1
    ints = run(tf.random.stateless_uniform([100], [1, 2], 3, 6, tf.int32))
    assert set(ints) == {3, 4, 5}
    classes = run(tf.random.categorical([[0.0, 50.0]], 20))
    np.testing.assert_array_equal(classes, np.ones([1, 20]))


def test_off_diagonals(run):
    upper = run(tf.matrix_diag([1.0, 2.0], k=1))
    near(upper, np.diag([1, 2], 1))
    near(run(tf.linalg.diag([1.0, 2.0])), np.diag([1, 2]))
    near(run(tf.linalg.diag([[0.0, 5.0], [1.0, 2.0]], k=(0, 1),
                            padding_value=9.0)), [[1, 5], [9, 2]])
    x = np.arange(9.0).reshape(3, 3)
    near(run(tf.linalg.diag_part(x, k=-1)), [3, 7])
    near(run(tf.matrix_diag_part(x)), [0, 4, 8])
    near(run(tf.linalg.set_diag(x, [9.0, 9.0], k=1)),
         x + np.diag([8, 4], 1))
    system = np.array([[2.0, 3, 0], [4.0, 5, 6], [0, 1.0, 2]])
    matrix = np.diag(system[0, :2], 1) + np.diag(system[1]) + np.diag(
        system[2, 1:], -1)
    near(run(tf.linalg.tridiagonal_solve(system, [1.0, 2.0, 3.0])),
         np.linalg.solve(matrix, [1, 2, 3]))


def test_coordinates_in_batches(run, rng):
    x = rng.rand(2, 3, 4).astype(np.float32)
    near(run(tf.gather_nd(x, [[0, 1], [1, 2]])), [x[0, 1], x[1, 2]])
    near(run(tf.gather_nd(x, [[2], [0]], batch_dims=1)), [x[0, 2], x[1, 0]])
    near(run(tf.gather_nd(x, [[[1, 2], [0, 0]], [[2, 3], [1, 1]]],
                          batch_dims=1)),
         [[x[0, 1, 2], x[0, 0, 0]], [x[1, 2, 3], x[1, 1, 1]]])
    at = np.array([[[3], [2], [1]], [[0], [1], [2]]])
    near(run(tf.gather_nd(x, at, batch_dims=2)),
         np.take_along_axis(x, at, 2)[..., 0])
    near(run(tf.slice(input_=x, begin=[0, 1, 0], size=[1, 2, -1])), x[:1, 1:])
    near(run(tf.ensure_shape(x=x, shape=[None, 3, 4])), x)
    near(run(tf.depth_to_space(x[:, :, None], 2, "d")).reshape(2, 6, 2)[0, :2],
         x[0, 0].reshape(2, 2))


def test_masks_must_match_shapes(run):
    x = tf.zeros([3, 2])
    for mask in ([True, False], [[True] * 3] * 3, [[[True]]]):
        with pytest.raises(ValueError, match="incompatible"):
            tf.boolean_mask(x, mask)
    with pytest.raises(ValueError, match="maxlen must be scalar"):
        tf.sequence_mask([1, 2], [3, 4])
    assert tf.sequence_mask([1, 3, 2], 4).shape == [3, 4]
    assert tf.sequence_mask([1.0, 3.0], tf.Dimension(4)).shape == [2, 4]
    lengths = tf.constant([1, 2], tf.int64)
    np.testing.assert_array_equal(run(tf.sequence_mask(lengths)),
                                  [[True, False], [True, True]])


def test_matrices_of_unknown_rank_are_transposed(run):
    x = tf.placeholder(tf.float32)
    value = np.arange(12.0).reshape(2, 3, 2)
    with tf.Session() as session:
        np.testing.assert_array_equal(
            session.run(tf.matrix_transpose(x), {x: value}),
            value.swapaxes(1, 2))
    with pytest.raises(ValueError, match="should be a .batch. matrix"):
        tf.matrix_transpose([1.0])


def test_sparse_tensors_have_shapes_and_operators(run):
    value = tf.SparseTensorValue([[0, 1], [1, 0]], [42.0, 24.0], [2, 3])
    np.testing.assert_array_equal(run(tf.shape(value)), [2, 3])
    assert run([tf.size(value), tf.rank(value)]) == [6, 2]
    sparse = tf.SparseTensor.from_value(value)
    dense = tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    np.testing.assert_array_equal(run(sparse * dense).values, [84, 96])
    np.testing.assert_array_equal(run(sparse / dense).values, [21, 6])


def test_products_over_axes(run):
    a, b = np.arange(24.0).reshape(2, 3, 4), np.arange(12.0).reshape(4, 3)
    unknown_a, unknown_b = tf.placeholder(tf.float64), tf.placeholder(
        tf.float64)
    axes = tf.placeholder(tf.int32)
    feed = {unknown_a: a, unknown_b: b, axes: [[1, 2], [1, 0]]}
    with tf.Session() as session:
        for over in (0, 1, [[2], [0]], [[-1, 1], [0, 1]], [2, 0], [1, 1]):
            want = np.tensordot(a, b, over)
            made = tf.tensordot(a, b, over)
            assert made.shape == want.shape
            np.testing.assert_allclose(session.run(made), want)
            np.testing.assert_allclose(session.run(
                tf.tensordot(unknown_a, unknown_b, over), feed), want)
            for one, other in ((a, unknown_b), (unknown_a, b)):
                np.testing.assert_allclose(session.run(
                    tf.tensordot(one, other, over), feed), want)
        np.testing.assert_allclose(
            session.run(tf.tensordot(unknown_a, unknown_b, axes), feed),
            np.tensordot(a, b, [[1, 2], [1, 0]]))
    for wrong, error in ((-1, ValueError), (4, ValueError), ([1], ValueError),
                         ([[1], [0, 1]], ValueError), ([[2], [1]], ValueError),
                         ([[0], [7]], IndexError)):
        with pytest.raises(error):
            tf.tensordot(a, b, wrong)


def test_sums_and_norms_report_mismatches():
    with pytest.raises(ValueError, match="incompatible"):
        tf.accumulate_n([tf.zeros([2])], shape=[3])
    with pytest.raises(TypeError, match="tensor_dtype"):
        tf.accumulate_n([tf.zeros([2])], tensor_dtype=tf.int32)
    for axis in ([], [0, 1, 2], [[0]], [0.5], [1, 1]):
        with pytest.raises(ValueError, match="'axis' must be None, an integer"):
            tf.norm(tf.zeros([2, 2]), axis=axis)


@pytest.mark.parametrize("direction", ["ASCENDING", "DESCENDING"])
def test_sorting(run, direction):
    x = np.random.RandomState(0).randn(2, 3, 4)
    step = 1 if direction == "ASCENDING" else -1
    for axis in (-1, 0, 1, -2):
        order = np.argsort(x * step, axis)
        assert run(tf.argsort(x, axis, direction)).tolist() == order.tolist()
        np.testing.assert_array_equal(run(tf.sort(x, axis, direction)),
                                      np.take_along_axis(x, order, axis))
    for values, kind in (([3, -2**31, 2**31 - 1, 0], "i4"),
                         ([3, 255, 0, 7], "u1")):
        made = run(tf.sort(np.array(values, kind), direction=direction))
        assert made.tolist() == sorted(values)[::step]
    assert run(tf.argsort([1, 0, 1], direction=direction)).tolist() == (
        [1, 0, 2] if step == 1 else [0, 2, 1])
    with pytest.raises(ValueError, match="'ASCENDING' or 'DESCENDING'"):
        tf.sort([1], direction="UP")


def test_functions_of_numbers(run):
    np.testing.assert_allclose(run(tf.math.erfcinv(
        tf.erfc([1e-3, 0.5, -1.0]))), [1e-3, 0.5, -1], rtol=1e-3)
    assert run(tf.math.reciprocal_no_nan([0.0, 4.0])).tolist() == [0, 0.25]
    assert run(tf.math.xlog1py([0.0], [-1.0])).tolist() == [0]
    np.testing.assert_allclose(run(tf.math.bessel_i0([0.0, -2.0])),
                               np.i0([0, -2]), rtol=1e-5)
    np.testing.assert_allclose(run(tf.math.bessel_i1([0.0, -2.0])),
                               [0, -1.59063685], rtol=1e-5)
    for coeffs, values in (([], [0, 0]), ([2], 2), ([1, 0, 5], [9, 14])):
        made = tf.math.polyval(coeffs, tf.constant([2.0, 3.0]))
        assert run(made).tolist() == values
    assert run(tf.to_complex64([1.0])).tolist() == [1 + 0j]
    assert run(tf.batch_gather([[1, 2], [3, 4]], [[1], [0]])).tolist() == [
        [2], [3]]


def test_reductions_of_all_dimensions_are_scalars(run):
    p, b = tf.placeholder(tf.float32), tf.placeholder(tf.bool)
    for reduce, x in (
            (tf.reduce_sum, p), (tf.reduce_mean, p), (tf.reduce_max, p),
            (tf.reduce_min, p), (tf.reduce_prod, p), (tf.reduce_all, b),
            (tf.reduce_any, b), (tf.reduce_logsumexp, p),
            (tf.math.reduce_euclidean_norm, p), (tf.math.reduce_variance, p),
            (tf.count_nonzero, p)):
        assert reduce(x).shape.as_list() == []
        assert reduce(x, keepdims=True).shape.ndims is None
        assert reduce(x, axis=0).shape.ndims is None
    _, total = tf.while_loop(lambda i, a: i < 3,
                             lambda i, a: (i + 1, a + tf.reduce_sum(p)),
                             [0, 0.0])
    assert run(total, {p: [[1, 2]]}) == 9
    with pytest.raises(ValueError, match="Cannot specify both"):
        tf.reduce_logsumexp(p, 0, reduction_indices=0)


@pytest.mark.parametrize("told,make", [
    (r"dims: expected sizes >= 0, got -2 at \[1\]",
     lambda: tf.fill([3, -2], 0.0)),
    ("size_splits: expected a sum of 2, got 4",
     lambda: tf.split(tf.ones([3, 2]), [4], axis=1)),
    ("n: expected a value below 2.* n = 2 but is 2",
     lambda: tf.raw_ops.NthElement(input=[[1, 2]], n=2)),
    ("n: expected a value >= 0, got -1",
     lambda: tf.raw_ops.NthElement(input=[[1, 2]], n=-1))])
def test_known_size_errors_are_reported_at_build_time(told,
                                                                       make):
    with pytest.raises(ValueError, match=told):
        make()


def test_angles_of_real_numbers(run):
    np.testing.assert_allclose(run(tf.angle([1.0, -2.0])), [0, np.pi])
    np.testing.assert_allclose(run(tf.angle([1j, -1j])), [np.pi / 2,
                                                          -np.pi / 2])
    with pytest.raises(TypeError, match="Expected numeric or variant"):
        tf.conj("a")


def test_shapes_broadcast_as_far_as_they_are_known():
    from sluice.framework import tensor_shape
    for a, b, c in (([None, 3], [5, 1], [5, 3]), ([None], [None], [None]),
                    ([2, 1], [3], [2, 3]), (None, [3], None)):
        got = tensor_shape.broadcast_shape(tf.TensorShape(a),
                                           tf.TensorShape(b))
        assert got._dims == tf.TensorShape(c)._dims
    with pytest.raises(ValueError, match="Incompatible shapes"):
        tensor_shape.broadcast_shape(tf.TensorShape([2]), tf.TensorShape([3]))


def test_ranges_are_made_of_four_nodes():
    numbers = tf.range(2.5, name="r")
    assert [op.name for op in tf.get_default_graph().get_operations()] == [
        "r/start", "r/limit", "r/delta", "r"]
    assert numbers.dtype is tf.float32 and numbers.shape == [3]
    assert tf.range(np.int64(3)).dtype is tf.int64
    assert tf.range(np.array(3)).dtype is tf.int64


def test_ranges_accept_variables(run):
    v, w = tf.Variable(4), tf.Variable(np.int64(5), use_resource=True)
    run(tf.global_variables_initializer())
    assert run(tf.range(v)).tolist() == [0, 1, 2, 3]
    assert run(tf.range(v, w)).tolist() == [4]
    assert tf.range(v, w).dtype is tf.int64
    assert run(tf.range(2, v, 0.5)).tolist() == [2, 2.5, 3, 3.5]
    halves = run(tf.range(tf.constant(3), dtype=tf.float64))
    assert halves.dtype == np.float64 and halves.tolist() == [0, 1, 2]


def test_array_handles_may_have_tensorflow_shape():
    raw, flow = tf.raw_ops, tf.constant(0.0)
    # TensorFlow's attributes of a handle that a loop keeps for its gradient.
    handle = tf.placeholder(tf.resource, [2])
    x = raw.TensorArrayReadV3(handle=handle, index=0, flow_in=flow,
                              dtype=tf.float32)
    grad = raw.TensorArrayGradV3(handle=handle, flow_in=flow, source="g")
    raw.TensorArrayWriteV3(handle=handle, index=0, value=x, flow_in=flow)
    raw.TensorArrayGatherV3(handle=handle, indices=[0], flow_in=flow,
                            dtype=tf.float32)
    raw.TensorArrayScatterV3(handle=handle, indices=[0], value=[1.0],
                             flow_in=flow)
    raw.TensorArrayConcatV3(handle=handle, flow_in=flow, dtype=tf.float32)
    raw.TensorArraySplitV3(handle=handle, value=[1.0], lengths=np.int64([1]),
                           flow_in=flow)
    size = raw.TensorArraySizeV3(handle=handle, flow_in=grad.flow_out)
    raw.TensorArrayCloseV3(handle=handle)
    with pytest.raises(ValueError, match="expected rank 0"):
        raw.TensorArraySizeV3(handle=tf.placeholder(tf.resource, [3]),
                              flow_in=flow)
    assert size.shape == ()


def test_conflicting_argument_names_are_refused(run):
    x = tf.constant([[1.0, 2.0]])
    for call in (lambda: tf.reduce_sum(x, keepdims=True, keep_dims=True),
                 lambda: tf.argmax(x, 1, dimension=1),
                 lambda: tf.expand_dims(x, 0, dim=0),
                 lambda: tf.squeeze(x, [0], squeeze_dims=[0]),
                 lambda: tf.nn.softmax(x, 0, dim=0),
                 lambda: tf.reverse_sequence(x, [1], seq_axis=1, seq_dim=1)):
        with pytest.raises(ValueError, match="Cannot specify both"):
            call()
    assert run(tf.reduce_sum(x, keep_dims=True)).tolist() == [[3]]


def test_non_vector_shapes_and_axes_are_refused():
    x = tf.constant([[1.0, 2.0]])
    with pytest.raises(ValueError, match="rank 1"):
        tf.reshape(x, -1)
    with pytest.raises(ValueError, match="rank 1"):
        tf.reverse(x, 0)
    with pytest.raises(TypeError, match="expected type of bool"):
        tf.reduce_all(x)


def test_products_of_unknown_rank_may_have_batches(run):
    a = tf.placeholder(tf.float32)
    b = tf.ones([2, 3])
    product = tf.matmul(a, b)
    gradient, = tf.gradients(product, b)
    for batch in ([], [4]):
        got = run([product, gradient], {a: np.ones(batch + [5, 2])})
        assert got[0].shape == (*batch, 5, 3)
        assert got[1].shape == (2, 3)


def test_slices_of_a_tensor_stack_to_the_tensor():
    x = tf.constant([[1.0, 2.0]])
    assert tf.stack(x) is x
    assert len(tf.split(x, tf.Dimension(2), 1)) == 2
    sparse = tf.SparseTensor([[0]], [1.0], [1])
    assert isinstance(tf.stop_gradient(sparse), tf.SparseTensor)


@pytest.mark.parametrize("mask", [True, False])
def test_boolean_is_a_mask_not_an_index(mask):
    with pytest.raises(ValueError, match="mask cannot be scalar"):
        tf.constant([1, 2, 3])[mask]


def test_products_of_sparse_and_of_16_bit_matrices(run):
    rng = np.random.RandomState(0)
    x, y = (rng.randint(-4, 5, s).astype(np.float32) for s in ((3, 4), (5, 4)))
    for a_type in (tf.float32, tf.bfloat16):
        for b_type in (tf.float32, tf.bfloat16):
            a, b = tf.cast(x, a_type), tf.cast(y, b_type)
            product = tf.matmul(a, b, transpose_b=True, a_is_sparse=True)
            both = a_type == b_type == tf.bfloat16
            assert product.dtype == (tf.bfloat16 if both else tf.float32)
            made = product.op.inputs[0].op if both else product.op
            assert made.type == "SparseMatMul"
            assert made.get_attr("a_is_sparse")
            assert not made.get_attr("b_is_sparse")
            np.testing.assert_array_equal(
                run(tf.cast(product, tf.float32)), x @ y.T)
            da, db = tf.gradients(product, [a, b])
            assert (da.dtype, db.dtype) == (a_type, b_type)
            np.testing.assert_array_equal(
                run(tf.cast(da, tf.float32)), [y.sum(axis=0)] * 3)
            np.testing.assert_array_equal(
                run(tf.cast(db, tf.float32)), [x.sum(axis=0)] * 5)
    mixed = tf.matmul(tf.cast(x, tf.bfloat16), tf.constant(y),
                      transpose_b=True, name="m")
    assert (mixed.op.type, mixed.name) == ("SparseMatMul", "m:0")
    assert tf.matmul(x, y, transpose_b=True).op.type == "MatMul"
    assert tf.matmul(tf.constant(x, tf.float64), y.astype(np.float64).T,
                     b_is_sparse=True).op.type == "MatMul"
    with pytest.raises(ValueError, match="inner dimensions"):
        tf.matmul(tf.cast(x, tf.bfloat16), tf.constant(y))


def test_batches_of_coordinates_may_have_any_rank(run):
    params = tf.constant([[[1, 2], [3, 4]], [[5, 6], [7, 8]]])
    places = tf.placeholder_with_default([[[1]], [[0]]], None)
    for dims in (1, tf.constant([1])):
        assert run(tf.gather_nd(params, places, batch_dims=dims)).tolist() == [
            [[3, 4]], [[5, 6]]]
    with pytest.raises(ValueError, match="batch_dims: expected a number"):
        tf.gather_nd(params, places, batch_dims=tf.placeholder(tf.int32))


def test_split_gradient_ignores_later_writes(run):
    x = tf.constant([1.0, 2.0, 3.0])
    array = tf.TensorArray(tf.float32, 3, dynamic_size=True).split(
        x, [1, 1, 1]).write(3, [4.0])
    joined = array.concat()
    assert run([joined, tf.gradients(joined * joined, x)[0]])[1].tolist() == [
        2, 4, 6]


def test_large_shapes_use_int64():
    shape = tf.TensorShape([2**31, 3])
    assert tf.convert_to_tensor(shape).dtype == tf.int64
    with pytest.raises(ValueError, match=r"too large \(2147483648\)"):
        tf.convert_to_tensor(shape, tf.int32)
