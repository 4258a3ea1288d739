"""Sparse tensors, sets, strings, records and images."""

import numpy as np
import pytest
import sluice.compat.v1 as tf
from sluice.ops import sparse_ops


@pytest.fixture
def rng():
    return np.random.RandomState(0)


def sparse(array):
    array = np.asarray(array)
    if array.dtype == np.float64:
        array = array.astype(np.float32)
    at = np.argwhere(array != 0)
    return tf.SparseTensor(at, array[tuple(at.T)], array.shape)


def dense(run, x):
    """Returns the value of a sparse tensor as an array."""
    v = run(x)
    out = np.zeros(v.dense_shape, v.values.dtype)
    out[tuple(v.indices.T)] = v.values
    return out


A = np.array([[0, 1, 0], [2, 0, 3]], np.float32)
B = np.array([[4, -1, 0], [0, 0, 5]], np.float32)


def test_sums_and_products_of_sparse_tensors(run):
    a, b = sparse(A), sparse(B)
    np.testing.assert_array_equal(dense(run, tf.sparse.add(a, b)), A + B)
    assert len(run(tf.sparse.add(a, b, threshold=0.5)).values) == 3
    np.testing.assert_array_equal(run(tf.sparse.add(a, B)), A + B)
    np.testing.assert_array_equal(run(tf.sparse.add(B, a)), A + B)
    np.testing.assert_array_equal(run(tf.sparse.matmul(a, B.T)), A @ B.T)
    np.testing.assert_array_equal(
        run(tf.sparse.matmul(a, B, adjoint_a=True)), A.T @ B)
    np.testing.assert_array_equal(
        run(tf.sparse_tensor_dense_matmul(B.T, a)), B.T @ A)
    np.testing.assert_array_equal(dense(run, tf.sparse.maximum(a, b)),
                                  np.maximum(A, B))
    np.testing.assert_array_equal(dense(run, tf.sparse.minimum(a, b)),
                                  np.minimum(A, B))


def test_shapes_of_sparse_tensors(run):
    a, b = sparse(A), sparse(B)
    for got, expected in (
            (tf.sparse.concat(0, [a, b]), np.concatenate([A, B])),
            (tf.sparse.concat(1, [a, b]), np.concatenate([A, B], 1)),
            (tf.sparse_transpose(a), A.T),
            (tf.sparse.transpose(sparse(np.stack([A, B])), [2, 0, 1]),
             np.stack([A, B]).transpose([2, 0, 1])),
            (tf.sparse.reshape(a, [3, -1]), A.reshape(3, 2)),
            (tf.sparse.slice(a, [0, 1], [2, 2]), A[:, 1:]),
            (tf.sparse.split(sp_input=a, num_split=2, axis=0)[1], A[1:]),
            (tf.sparse.expand_dims(a, 1), A[:, None]),
            (tf.sparse.expand_dims(a), A[..., None]),
            (tf.sparse.eye(2, 3), np.eye(2, 3)),
            (tf.sparse.reset_shape(sparse(np.pad(A, 1)[1:, 1:])), A),
            (tf.sparse.reset_shape(a, [3, 4]), np.pad(A, ((0, 1), (0, 1)))),
            (tf.sparse.retain(a, [True, False, True]), A * (A != 2)),
            (tf.sparse.reorder(tf.SparseTensor(
                [[1, 2], [0, 1], [1, 0]], [3.0, 1.0, 2.0], [2, 3])), A)):
        np.testing.assert_array_equal(dense(run, got), expected)
    wide = tf.sparse.concat(0, [a, sparse([[7.0, 0]])],
                            expand_nonconcat_dim=True)
    np.testing.assert_array_equal(dense(run, wide),
                                  np.concatenate([A, [[7, 0, 0]]]))
    with pytest.raises(ValueError, match="dimension sizes >="):
        tf.sparse.reset_shape(a, [1, 3])
    with pytest.raises(TypeError, match="SparseTensor"):
        tf.sparse.reorder(A)


def test_sparse_and_dense_convert_both_ways(run):
    a = sparse(A)
    np.testing.assert_array_equal(run(tf.sparse.to_dense(a)), A)
    np.testing.assert_array_equal(
        run(tf.sparse_tensor_to_dense(a, default_value=-1.0)),
        np.where(A == 0, -1, A))
    x = tf.sparse.placeholder(tf.float32, [2, 3])
    doubled = tf.SparseTensor(x.indices, x.values * 2.0, x.dense_shape)
    value = tf.SparseTensorValue([[0, 1]], [5.0], [2, 3])
    assert run(doubled, {x: value}).values == [10]
    unknown = tf.sparse_placeholder(tf.float32)
    np.testing.assert_array_equal(
        run(tf.sparse.to_dense(unknown), {unknown: value}),
        [[0, 5, 0], [0, 0, 0]])
    ids = tf.SparseTensor([[0, 0], [0, 1], [1, 0]],
                          tf.constant([2, 0, 1], tf.int64), [2, 2])
    np.testing.assert_array_equal(
        run(tf.sparse.to_indicator(ids, 3)),
        [[True, False, True], [False, True, False]])
    values = tf.SparseTensor(ids.indices, [10.0, 20.0, 30.0], [2, 2])
    np.testing.assert_array_equal(
        dense(run, tf.sparse.merge(ids, values, 3)), [[20, 0, 10], [0, 30, 0]])
    strings = tf.serialize_many_sparse(a)
    again = tf.deserialize_many_sparse(strings, tf.float32, rank=2)
    np.testing.assert_array_equal(dense(run, again), A)


def test_reductions_and_rows(run):
    a = sparse(A)
    np.testing.assert_array_equal(run(tf.sparse.reduce_sum(a)), A.sum())
    np.testing.assert_array_equal(run(tf.sparse.reduce_sum(a, 1)), A.sum(1))
    np.testing.assert_array_equal(
        run(tf.sparse.reduce_sum(a, 0, keepdims=True)),
        A.sum(0, keepdims=True))
    np.testing.assert_array_equal(run(tf.sparse.reduce_max(a, 1)), A.max(1))
    np.testing.assert_array_equal(
        dense(run, tf.sparse.reduce_sum_sparse(a, 1)), A.sum(1))
    full, empty = tf.sparse.fill_empty_rows(sparse([[0.0, 0], [1, 0]]), 9.0)
    np.testing.assert_array_equal(dense(run, full), [[9, 0], [1, 0]])
    assert list(run(empty)) == [True, False]
    soft = dense(run, tf.sparse.softmax(a))
    np.testing.assert_allclose(soft[1], [1 / (1 + np.e), 0,
                                         np.e / (1 + np.e)], 1e-5)
    assert soft[0, 1] == 1


def test_sets(run):
    a, b = [[1, 2, 3], [4, 4, 5]], [[3, 1, 7], [6, 5, 4]]
    rows = lambda x: [sorted(v for i, v in zip(  # noqa: E731
        x.indices, x.values) if i[0] == r) for r in range(2)]
    assert rows(run(tf.sets.intersection(a, b))) == [[1, 3], [4, 5]]
    assert rows(run(tf.sets.union(a, b))) == [[1, 2, 3, 7], [4, 5, 6]]
    assert rows(run(tf.sets.difference(a, b))) == [[2], []]
    assert rows(run(tf.sets.difference(a, b, aminusb=False))) == [[7], [6]]
    as_sparse = sparse(np.array(a, np.int32))
    assert rows(run(tf.sets.difference(as_sparse, b))) == [[2], []]
    assert rows(run(tf.sets.intersection(b, as_sparse))) == [[1, 3], [4, 5]]
    assert list(run(tf.sets.size(as_sparse))) == [3, 2]


def test_sparse_mask_drops_rows(run):
    slices = tf.IndexedSlices(tf.constant([[1.0], [2.0], [3.0]]),
                              tf.constant([4, 5, 6]))
    kept = run(tf.sparse_mask(slices, [5]))
    assert list(kept.indices) == [4, 6] and list(kept.values[:, 0]) == [1, 3]


# ---- Strings -----------------------------------------------------------------


def test_strings(run):
    x = tf.constant(["Hello", "a b"])
    assert list(run(tf.substr(x, 1, 2))) == [b"el", b" b"]
    assert list(run(tf.strings.length(x))) == [5, 3]
    assert list(run(tf.strings.join([x, x], separator="-"))) == [
        b"Hello-Hello", b"a b-a b"]
    assert run(tf.string_join(["a", "b"])) == b"ab"
    assert list(run(tf.strings.upper(x))) == [b"HELLO", b"A B"]
    assert list(run(tf.strings.regex_replace(x, "[a-e]", "."))) == [
        b"H.llo", b". ."]
    pieces = run(tf.string_split(["hello world", "a b  c"]))
    assert list(pieces.values) == [b"hello", b"world", b"a", b"b", b"c"]
    assert pieces.indices.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1], [1, 2]]
    kept = run(tf.string_split(["a,,b"], ",", skip_empty=False))
    assert list(kept.values) == [b"a", b"", b"b"]
    grid = [["a", "b"], ["c", "d"]]
    assert list(run(tf.reduce_join(grid, 0))) == [b"ac", b"bd"]
    assert list(run(tf.reduce_join(grid, 1, separator="+"))) == [b"a+b", b"c+d"]
    assert run(tf.reduce_join(grid)) == b"abcd"
    assert run(tf.reduce_join(grid, keepdims=True)).tolist() == [[b"abcd"]]
    assert run(tf.reduce_join("a")) == b"a"
    any_rank = tf.placeholder(tf.string)
    assert run(tf.reduce_join(any_rank, keepdims=True, separator="-"),
               {any_rank: grid}).tolist() == [[b"a-b-c-d"]]
    with pytest.raises(tf.errors.OutOfRangeError, match="axis"):
        run(tf.reduce_join(any_rank, 2), {any_rank: grid})
    assert list(run(tf.string_to_number(["3.5", "-1"]))) == [3.5, -1]
    assert run(tf.strings.to_number("7", tf.int32)) == 7
    assert list(run(tf.as_string([1, 20]))) == [b"1", b"20"]
    assert run(tf.strings.format("x: {} {}", (tf.constant([1, 2]), 3))) == (
        b"x: [1 2] 3")
    with pytest.raises(ValueError, match="placeholder"):
        tf.strings.format("{}", [1, 2])
    for hashed in (tf.string_to_hash_bucket_fast(x, 10),
                   tf.string_to_hash_bucket(x, 10),
                   tf.string_to_hash_bucket_strong(x, 10, [1, 2])):
        assert ((0 <= run(hashed)) & (run(hashed) < 10)).all()
    encoded = tf.encode_base64("any text")
    assert run(tf.decode_base64(encoded)) == b"any text"


def test_records(run):
    a, b = run(tf.decode_csv(["1,x y", "2,"], [[0], ["none"]]))
    assert list(a) == [1, 2] and list(b) == [b"x y", b"none"]
    second, = run(tf.io.decode_csv(["1;2"], [[0.0]], field_delim=";",
                                   select_cols=[1]))
    assert list(second) == [2]
    with pytest.raises(ValueError, match="do not match"):
        tf.decode_csv(["1"], [[0]], select_cols=[0, 1])
    data = np.array([1, 2, 3], np.int16)
    np.testing.assert_array_equal(
        run(tf.decode_raw(data.tobytes(), tf.int16)), data)
    assert run(tf.decode_raw([b"a", b"bcdef"], tf.uint8,
                             fixed_length=3)).tolist() == [
        [97, 0, 0], [98, 99, 100]]
    assert run(tf.decode_raw([b"\1"], tf.int16, little_endian=False,
                             fixed_length=4)).tolist() == [[256, 0]]


def test_printing(run, capfd):
    x = tf.constant([1, 2, 3, 4, 5, 6, 7, 8])
    run([tf.print("x {} =", x, tf.constant("s"), sep="|"),
         tf.print(x, summarize=2, end="!\n"), tf.print("only text")])
    lines = capfd.readouterr().err.splitlines()
    assert sorted(lines) == sorted([
        'x {} =|[1 2 3 ... 6 7 8]|"s"', "[1 2 ... 7 8]!", "only text"])
    with pytest.raises(ValueError, match="Unrecognized keyword"):
        tf.print(x, colour=1)
    with pytest.raises(ValueError, match=r"2 placeholder\(s\) in template does "
                       r"not match 1 tensor\(s\) provided as input"):
        tf.strings.format("{} {}", [x])


def test_prints_show_text_beyond_ascii(run, capfd):
    x = tf.constant(["gr\u00fcn", "\n"])
    run([tf.print(x), tf.Print(x, [x])])
    err = capfd.readouterr().err
    assert '["gr\u00fcn" "\\n"]' in err and "[gr\u00fcn \\n]" in err
    assert run(tf.strings.format("\u2713 {}", "\u2713")).decode() == (
        '\u2713 "\u2713"')


# ---- Images ------------------------------------------------------------------


def test_rotation_and_flipping(run, rng):
    x = rng.rand(3, 4, 2).astype(np.float32)
    batch = np.stack([x, x + 1])
    I = tf.image  # noqa: E741
    for image, h, w in ((x, 0, 1), (batch, 1, 2)):
        np.testing.assert_array_equal(run(I.flip_left_right(image)),
                                      np.flip(image, w))
        np.testing.assert_array_equal(run(I.flip_up_down(image)),
                                      np.flip(image, h))
        np.testing.assert_array_equal(run(I.transpose_image(image)),
                                      np.swapaxes(image, h, w))
        for k in range(-1, 5):
            np.testing.assert_array_equal(run(I.rot90(image, k)),
                                          np.rot90(image, k, (h, w)))
        for flip, axis in ((I.random_flip_left_right, w),
                           (I.random_flip_up_down, h)):
            got = flip(image, seed=3)
            seen = set()
            for _ in range(30):
                one = run(got)
                one, whole = (one[0], image[0]) if h else (one, image)
                flipped = np.flip(whole, axis - h)
                assert (one == whole).all() or (one == flipped).all()
                seen.add(bool((one == whole).all()))
            assert seen == {True, False}
    with pytest.raises(ValueError, match="3 or 4 dimensions"):
        I.flip_left_right([1.0])


def test_cropping_and_padding(run, rng):
    x = rng.rand(5, 6, 2).astype(np.float32)
    late = tf.placeholder(tf.float32, [None, None, 2])
    I = tf.image  # noqa: E741
    for image, feed in ((x, {}), (late, {late: x})):
        cut = I.crop_to_bounding_box(image, 1, 2, 3, 4)
        assert cut.shape == [3, 4, 2]
        np.testing.assert_array_equal(run(cut, feed), x[1:4, 2:6])
        padded = run(I.pad_to_bounding_box(image, 1, 2, 7, 9), feed)
        np.testing.assert_array_equal(padded, np.pad(
            x, ((1, 1), (2, 1), (0, 0))))
        middle = I.central_crop(image, 0.5)
        np.testing.assert_array_equal(run(middle, feed), x[1:4, 1:5])
        fitted = I.resize_image_with_crop_or_pad(image, 7, 3)
        assert fitted.shape == [7, 3, 2]
        np.testing.assert_array_equal(run(fitted, feed), np.pad(
            x[:, 1:4], ((1, 1), (0, 0), (0, 0))))
    for wrong in (lambda: I.crop_to_bounding_box(x, 3, 0, 3, 1),
                  lambda: I.pad_to_bounding_box(x, 0, 0, 4, 9),
                  lambda: I.central_crop(x, 0.0),
                  lambda: I.resize_image_with_crop_or_pad(x, 0, 1)):
        with pytest.raises(ValueError):
            wrong()
    with pytest.raises(tf.errors.InvalidArgumentError, match="target"):
        run(I.crop_to_bounding_box(late, 3, 0, 3, 1), {late: x})
    part = run(tf.random_crop(x, [2, 3, 2], seed=1))
    assert any((part == x[i:i + 2, j:j + 3]).all()
               for i in range(4) for j in range(4))


def test_types_of_images(run):
    x = np.array([[[0], [128], [255]]], np.uint8)
    floats = run(tf.image.convert_image_dtype(x, tf.float32))
    np.testing.assert_allclose(floats, x / 255, 1e-6)
    np.testing.assert_array_equal(
        run(tf.image.convert_image_dtype(floats, tf.uint8)), x)
    np.testing.assert_array_equal(
        run(tf.image.convert_image_dtype(x, tf.uint16)), x.astype(int) * 256)
    np.testing.assert_array_equal(
        run(tf.image.convert_image_dtype(x.astype(np.uint16) * 256, tf.uint8)),
        x)
    bright = np.array([[[1.5]]], np.float32)
    assert run(tf.image.convert_image_dtype(bright, tf.uint8,
                                            saturate=True)) == 255


def test_color_and_brightness(run, rng):
    x = rng.rand(2, 3, 3).astype(np.float32)
    I = tf.image  # noqa: E741
    grey = run(I.rgb_to_grayscale(x))
    np.testing.assert_allclose(
        grey[..., 0], x @ [0.2989, 0.5870, 0.1140], 1e-5)
    np.testing.assert_array_equal(run(I.grayscale_to_rgb(grey)),
                                  np.repeat(grey, 3, -1))
    np.testing.assert_allclose(run(I.adjust_brightness(x, 0.2)), x + 0.2, 1e-5)
    mean = x.mean((0, 1))
    np.testing.assert_allclose(run(I.adjust_contrast(x, 2.0)),
                               (x - mean) * 2 + mean, 1e-4, 1e-5)
    np.testing.assert_allclose(run(I.adjust_gamma(x, 2.0, 0.5)), x ** 2 / 2,
                               1e-4)
    whole = np.array([[[10, 250]]], np.uint8)
    np.testing.assert_array_equal(run(I.adjust_brightness(whole, 0.1)),
                                  [[[35, 255]]])
    standard = run(I.per_image_standardization(x))
    np.testing.assert_allclose(standard, (x - x.mean()) / x.std(), 1e-4, 1e-5)
    flat = run(I.per_image_standardization(np.ones([1, 2, 1], np.float32)))
    assert (flat == 0).all()
    for random in (I.random_brightness(x, 0.3), I.random_contrast(x, 0.5, 2)):
        assert run(random).shape == x.shape
    with pytest.raises(ValueError, match="Gamma"):
        I.adjust_gamma(x, -1)


def test_unary_functions_accept_sparse_tensors(run):
    sparse = tf.SparseTensor([[0, 1], [1, 0]], [-4.0, 9.0], [2, 3])
    for f in (tf.abs, tf.negative, tf.square, tf.sign, tf.tanh, tf.erf,
              tf.math.bessel_i0e, tf.math.bessel_i1e):
        made = run(f(sparse))
        assert made.indices.tolist() == [[0, 1], [1, 0]]
        assert made.dense_shape.tolist() == [2, 3]
        assert made.values.tolist() == run(f(sparse.values)).tolist()
    assert run(tf.sqrt(tf.abs(sparse), name="r")).values.tolist() == [2, 3]
    assert tf.sqrt(x=4.0, name="root").op.name == "root"


def test_dense_tensor_can_be_made_sparse(run):
    for x in ([[0, 2], [3, 0]], [["", "a"], ["b", ""]]):
        made = tf.sparse.from_dense(x)
        assert run(made.indices).tolist() == [[0, 1], [1, 0]]
        assert run(made.dense_shape).tolist() == [2, 2]
        whole = tf.sparse.to_dense(made, "" if x[0][0] == "" else 0)
        assert run(tf.reduce_all(tf.equal(whole, x)))


def test_safe_lookups_skip_invalid_ids_and_weights(run):
    table = np.arange(12, dtype="f").reshape(6, 2)
    ids = tf.SparseTensor([[0, 0], [0, 1], [2, 0], [3, 1]], [1, -1, 3, 5],
                          [5, 2])
    weights = tf.SparseTensor(ids.indices, [1.0, 2.0, -1.0, 0.5], [5, 2])

    def rows(*given, **more):
        return run(tf.nn.safe_embedding_lookup_sparse(
            [table], ids, *given, **more)).tolist()

    none = [0, 0]
    assert rows() == [[2, 3], none, [6, 7], [10, 11], none]
    assert rows(default_id=2) == [[2, 3], [4, 5], [6, 7], [10, 11], [4, 5]]
    assert rows(weights) == [[2, 3], none, none, [10, 11], none]
    assert rows(weights, combiner="sum") == [
        [2, 3], none, [-6, -7], [5, 5.5], none]
    cube = tf.SparseTensor([[0, 0, 0], [1, 1, 1]], [1, 3], [2, 2, 2])
    made = tf.nn.safe_embedding_lookup_sparse([table], cube)
    assert run(made).tolist() == [[[2, 3], none], [none, [6, 7]]]


def test_structures_are_printed_like_python(run, capfd):
    x = tf.range(10)
    sparse = tf.SparseTensor([[0, 1]], [2], [3, 4])
    run(tf.print("at:", {"b": x, "a": (1, "c")}, [x[:2], 5], sparse))
    assert capfd.readouterr().err == (
        "at: {'a': (1, 'c'), 'b': [0 1 2 ... 7 8 9]} [[0 1], 5] "
        "'SparseTensor(indices=[[0 1]], values=[2], shape=[3 4])'\n")
    run(tf.print(-4, [True, 0.5], {"k": None}))
    assert capfd.readouterr().err == "-4 [True, 0.5] {'k': None}\n"
    run(tf.print([tf.constant("a"), tf.constant(2)]))
    assert capfd.readouterr().err == '["a", 2]\n'
    run(tf.print(tf.constant("a")))
    assert capfd.readouterr().err == "a\n"


def test_sparse_rows_are_crossed(run):
    words = tf.SparseTensor([[0, 0], [1, 0], [1, 1]], ["a", "b", "c"], [2, 2])
    numbers = tf.constant([[7], [8]], tf.int32)
    crossed = run(tf.sparse.cross([words, numbers]))
    assert [list(r) for r in crossed.indices] == [[0, 0], [1, 0], [1, 1]]
    assert list(crossed.values) == [b"a_X_7", b"b_X_8", b"c_X_8"]
    hashed = run(tf.sparse.cross_hashed([words, numbers], num_buckets=100))
    assert hashed.values.dtype == np.int64 and (hashed.values < 100).all()
    with pytest.raises(TypeError, match="must be a list"):
        tf.sparse.cross(words)


def test_static_shapes_of_sparse_tensors_are_inferred():
    a = tf.SparseTensor([[0, 1, 2]], [1.0], [2, 3, 4])
    assert tf.sparse.reshape(a, [6, -1]).shape == [6, 4]
    assert tf.sparse.transpose(a).shape == [4, 3, 2]
    assert tf.sparse.transpose(a, [0, 2, 1]).shape == [2, 4, 3]
    assert tf.sparse.reset_shape(a, [5, 5, 5]).shape == [5, 5, 5]
    with pytest.raises(ValueError, match="Cannot reshape a tensor with 24"):
        tf.sparse.reshape(a, [5, 5])
    with pytest.raises(ValueError, match="At most one dimension"):
        tf.sparse.reshape(a, [-1, -1])
    with pytest.raises(ValueError, match="should have dimension sizes"):
        tf.sparse.reset_shape(a, [1, 5, 5])
    with pytest.raises(ValueError):
        tf.sparse.retain(a, [True, False])


def test_dynamic_new_shapes_are_checked(run):
    a = tf.SparseTensor([[0, 1]], [1.0], [2, 3])
    sizes = tf.placeholder(tf.int64)
    made = tf.sparse.reset_shape(a, sizes)
    assert list(run(made, {sizes: [4, 4]}).dense_shape) == [4, 4]
    with pytest.raises(tf.errors.InvalidArgumentError,
                       match="x <= y did not hold"):
        run(made, {sizes: [1, 4]})
    with pytest.raises(tf.errors.InvalidArgumentError,
                       match="x == y did not hold"):
        run(made, {sizes: [4]})


def test_sparse_and_dense_operands_combine(run):
    a = tf.SparseTensor([[0, 1], [1, 0]], [2, 4], [2, 2])
    by = tf.constant([[1, 5], [8, 1]])
    assert list(run(a * by).values) == list(run(by * a).values) == [10, 32]
    ratio = run(a / by)
    assert list(ratio.values) == [0.4, 0.5] and ratio.values.dtype == float
    total = run(sparse_ops.sparse_dense_cwise_add(a, by))
    assert list(total.values) == [7, 12]


def test_columns_are_chosen_in_order():
    for wrong, words in (([-1, 0], "negative"), ([1, 0], "increasing")):
        with pytest.raises(ValueError, match=words):
            tf.decode_csv(["1,2"], [[0], [0]], select_cols=wrong)


def test_reshape_of_empty_sparse_infers_zero(run):
    empty = tf.SparseTensor(np.zeros([0, 2], np.int64),
                            np.zeros([0], np.float32), [0, 3])
    made = tf.sparse_reshape(empty, [0, -1])
    assert made.shape == [0, 0]
    assert run(made).dense_shape.tolist() == [0, 0]
    assert run(tf.sparse_reshape(empty, [-1, 3])).dense_shape.tolist() == [0, 3]
    with pytest.raises(ValueError, match="Cannot reshape a tensor with 6"):
        tf.sparse_reshape(tf.SparseTensor([[0, 0]], [1.0], [2, 3]), [0, -1])


def test_sparse_tensors_of_different_sizes_are_joined(run):
    a = tf.SparseTensor([[0, 0], [1, 2]], [1, 2], [2, 3])
    b = tf.SparseTensor([[2, 1]], [3], [3, 2])
    for axis in (1, -1):
        joined = tf.sparse_concat(axis, [a, b], expand_nonconcat_dims=True)
        assert joined.shape == [3, 5]
        assert (joined.indices.shape, joined.values.shape) == ([3, 2], [3])
        assert run(tf.sparse.to_dense(joined)).tolist() == [
            [1, 0, 0, 0, 0], [0, 0, 2, 0, 0], [0, 0, 0, 0, 3]]
    for axis in (0, -2):
        joined = tf.sparse_concat(axis, [a, b], expand_nonconcat_dim=True)
        assert joined.shape == [5, 3]
        assert run(joined).dense_shape.tolist() == [5, 3]
    # This works for unknown ranks, too.
    fed = tf.SparseTensor(*(tf.placeholder(t, s) for t, s in (
        (tf.int64, [None, None]), (tf.int32, [None]), (tf.int64, [None]))))
    joined = tf.sparse_concat(-1, [fed, fed], expand_nonconcat_dims=True)
    assert joined.shape.ndims is None
    with tf.Session() as session:
        got = session.run(joined, {fed: ([[1]], [7], [2])})
    assert got.dense_shape.tolist() == [4] and list(got.values) == [7, 7]
