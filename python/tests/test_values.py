"""Conversions of values and arrays to tensors; element types."""

import array
import collections
import fractions
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import sluice.compat.v1 as tf
from sluice import _core
from sluice.framework import conversion


@pytest.mark.parametrize("value,dtype", [
    (1, tf.int32), (2**40, tf.int64), (1.5, tf.float32), (True, tf.bool),
    (1j, tf.complex128), ("a", tf.string), (b"a", tf.string),
    ([1, 2], tf.int32), ([1, 2.5], tf.float32), ([1, 2**40], tf.int64),
    (["a", "bc"], tf.string), ([], tf.float32), ([[True]], tf.bool),
    (np.float64(1), tf.float64), (np.int64(1), tf.int64),
    (np.arange(3), tf.int64), (np.ones(2), tf.float64),
    (np.array(["x", "yz"]), tf.string), ((1, 2), tf.int32)])
def test_type_inference_matches_tensorflow(value, dtype, run):
    c = tf.constant(value)
    assert c.dtype is dtype
    got = run(c)
    if dtype is tf.string:
        assert np.shape(got) == np.shape(value)
    else:
        np.testing.assert_array_equal(got, value)


@pytest.mark.parametrize("dtype", [
    tf.float16, tf.float32, tf.float64, tf.int8, tf.int16, tf.int32, tf.int64,
    tf.uint8, tf.uint16, tf.uint32, tf.uint64, tf.complex64, tf.complex128,
    tf.bool])
def test_all_types_can_be_fed_and_fetched(dtype, run):
    for shape in [(), (0,), (3,), (2, 0, 3), (20, 30)]:
        array = np.ones(shape, dtype.as_numpy_dtype)
        x = tf.placeholder(dtype, shape)
        got = run(x, {x: array})
        assert got.dtype == array.dtype and got.shape == shape
        np.testing.assert_array_equal(got, array)
        np.testing.assert_array_equal(run(tf.constant(array)), array)


def test_bfloat16_is_float32_outside(run):
    got = run(tf.cast(tf.constant([1.5, 3.0]), tf.bfloat16))
    np.testing.assert_array_equal(got, np.float32([1.5, 3.0]))


def test_values_that_do_not_fit_are_type_errors():
    with pytest.raises(TypeError, match="Expected int32, but got 1.5 of type "
                                        "'float'"):
        tf.constant(1.5, tf.int32)
    with pytest.raises(TypeError, match="Expected int32"):
        tf.constant([1, [2.5]][1], tf.int32)
    with pytest.raises(TypeError, match="Expected float32"):
        tf.constant("x", tf.float32)
    with pytest.raises(TypeError, match="Expected uint8"):
        tf.constant([300], tf.uint8)
    with pytest.raises(TypeError, match="Expected bool"):
        tf.constant(1, tf.bool)
    with pytest.raises(ValueError, match="None values"):
        tf.constant(None)
    with pytest.raises(TypeError, match="Cannot convert"):
        tf.constant(1, "flout32")
    with pytest.raises((TypeError, ValueError)):
        tf.constant([[1, 2], [3]])


def test_constants_fill_shapes(run):
    np.testing.assert_array_equal(run(tf.constant(7, shape=[2, 2])),
                                  [[7, 7], [7, 7]])
    np.testing.assert_array_equal(run(tf.constant([1, 2], shape=[4])),
                                  [1, 2, 2, 2])
    np.testing.assert_array_equal(run(tf.constant([1, 2, 3, 4], shape=[2, 2])),
                                  [[1, 2], [3, 4]])
    with pytest.raises(ValueError, match="Too many elements"):
        tf.constant([1, 2, 3], shape=[2])


def test_empty_constants_need_empty_values(run):
    assert run(tf.constant(7, shape=[0, 2])).shape == (0, 2)
    assert run(tf.constant([1.0, 2.0], shape=[0])).shape == (0,)
    assert run(tf.constant(np.ones([0, 3]), shape=[0])).dtype == np.float64
    for array in (np.ones(3), np.float32(1)):
        with pytest.raises(ValueError, match="Too many elements"):
            tf.constant(array, shape=[0])


def test_ints_must_fit_their_type(run):
    for dtype in (tf.int8, tf.uint8, tf.int16, tf.uint16, tf.int32, tf.uint32,
                  tf.int64, tf.uint64):
        ends = [dtype.min, dtype.max]
        np.testing.assert_array_equal(
            run(tf.constant(ends, dtype)), np.array(ends, dtype.as_numpy_dtype))
        for wrong in (dtype.min - 1, dtype.max + 1):
            with pytest.raises((TypeError, OverflowError)):
                tf.constant([wrong], dtype)
    x = tf.placeholder(tf.int16, [2])
    for code in "bHiqQ":
        np.testing.assert_array_equal(
            run(x, {x: array.array(code, [1, 2])}), [1, 2])
    with pytest.raises(TypeError):
        run(x, {x: array.array("H", [1, 2**15])})
    assert tf.constant([2**31 - 1]).dtype is tf.int32
    assert tf.constant([2**31]).dtype is tf.int64


def test_arrays_of_any_layout(run):
    x = tf.placeholder(tf.float32, [None])
    first = tf.argmax(x)  # This reads the fed array in place.
    a = np.arange(4000, dtype=np.float32)
    shifted = np.ndarray(4000, np.float32, b"\0" + a.tobytes(), offset=1)
    for given, best in ((a[1:], 3998), (a[::2], 1999), (a[::-1], 0),
                        (a.astype(">f4"), 3999), (a.astype(int), 3999),
                        (shifted, 3999), (memoryview(a)[::2], 1999)):
        assert run(first, {x: given}) == best


def test_lists_with_tensors_are_packed(run):
    x = tf.constant(2.0)
    packed = tf.convert_to_tensor([1.0, x, 3])
    assert packed.op.type == "Pack"
    np.testing.assert_array_equal(run(packed), [1, 2, 3])
    np.testing.assert_array_equal(run(tf.reshape(tf.range(6), [2, tf.size(
        [1, 2, 3])])), [[0, 1, 2], [3, 4, 5]])


def test_lists_with_dimensions_are_lists_of_ints(run):
    rows, columns = tf.zeros([2, 3]).shape
    assert tf.reshape(tf.range(6), [columns, rows]).shape == [3, 2]
    assert tf.reshape(tf.range(6), [rows, -1]).shape == [2, 3]
    assert tf.random_uniform([rows, columns]).shape == [2, 3]
    assert run(tf.SparseTensor([[0, 1]], [7], [rows, columns]).dense_shape
               ).tolist() == [2, 3]
    assert run(tf.constant([[rows], [columns]])).tolist() == [[2], [3]]
    assert tf.constant([rows], tf.int64).dtype is tf.int64
    for values, dtype in (([rows], tf.float32), ([rows, "a"], None),
                          ([rows, 1.5], None), ([tf.Dimension(None)], None)):
        with pytest.raises(TypeError):
            tf.constant(values, dtype)


def test_ranges_are_lists_of_ints(run):
    x = tf.placeholder_with_default([[[1.0, 2.0]]], [1, 1, 2])
    assert run(tf.transpose(x, range(3))).shape == (1, 1, 2)
    assert run(tf.reduce_sum(x, axis=range(2))).tolist() == [1, 2]
    assert run(range(2) + x).tolist() == [[[1, 3]]]
    assert run(tf.one_hot(range(3), 3)).tolist() == np.eye(3).tolist()
    assert tf.Variable(range(3)).dtype.base_dtype is tf.int32
    assert tf.convert_to_tensor(range(0)).dtype is tf.int32


def test_ranges_of_mixed_numbers_know_their_length(run):
    made = tf.range(0, 5, 2.0)
    assert made.shape == [3] and run(made).tolist() == [0, 2, 4]
    assert tf.range(np.int64(4), 0, -1).shape == [4]
    assert run(tf.range(tf.constant(1), 2.5)).tolist() == [1, 2]


def test_conversion_functions_of_the_user(run):
    class Celsius:
        def __init__(self, degrees):
            self.degrees = degrees

    tf.register_tensor_conversion_function(
        Celsius, lambda value, dtype=None, name=None, as_ref=False:
        tf.constant(value.degrees + 273.15, dtype or tf.float32))
    assert run(tf.identity(Celsius(0.0))) == np.float32(273.15)


def test_strings(run):
    s = tf.placeholder(tf.string, [2])
    got = run(s, {s: np.array(["ä", b"\xff"], object)})
    assert list(got) == ["ä".encode(), b"\xff"]
    assert run(tf.constant("abc")) == b"abc"


def test_sums_of_strings_join_them(run):
    a = tf.constant(["a", "b"])
    v = tf.Variable("v")
    run(v.initializer)
    for joined, expected in ((a + "x", [b"ax", b"bx"]),
                             ("x" + a, [b"xa", b"xb"]),
                             (a + ["x", "y"], [b"ax", b"by"]),
                             (np.array(["x"]) + a, [b"xa", b"xb"]),
                             (tf.add(a, a), [b"aa", b"bb"]),
                             (tf.add(["x"], [["y"]], name="n"), [[b"xy"]]),
                             (v + "x", b"vx")):
        assert joined.op.type == "Add"
        assert np.asarray(run(joined)).tolist() == expected
    # tf.add gives the name "Add_4".
    assert joined.op.name == "add_5" and (a + a).op.name == "add_6"
    assert tf.add(1, 2).op.type == (tf.constant(1) + 2).op.type == "AddV2"


def test_fetched_arrays_belong_to_the_caller(run):
    c = tf.constant(np.zeros(5000, np.float32))
    one = run(c)
    one[:] = 7
    np.testing.assert_array_equal(run(c), np.zeros(5000))
    v = tf.Variable(tf.zeros([5000]))
    run(v.initializer)
    array = run(v)
    array += 1
    np.testing.assert_array_equal(run(v), np.zeros(5000))


def test_fed_arrays_may_change_after_the_step(run):
    x = tf.placeholder(tf.float32, [3000])
    v = tf.Variable(tf.zeros([3000]))
    array = np.ones(3000, np.float32)
    assign = tf.assign(v, x)
    doubled = tf.nn.relu(-x)
    run(v.initializer)
    run(assign, {x: array})
    array[:] = 5
    np.testing.assert_array_equal(run(v), np.ones(3000))
    run(v.assign_add(tf.ones([3000])))
    np.testing.assert_array_equal(array, np.full(3000, 5))
    for value in (x, tf.identity(x), tf.reshape(x, [3, 1000]), x[1000:],
                  tf.cond(x[0] > 0, lambda: x, lambda: -x),
                  tf.py_func(lambda a: a, [x], tf.float32)):
        same = run(value, {x: array})
        same[:] = 9
    run(doubled, {x: array})
    np.testing.assert_array_equal(array, np.full(3000, 5))


def test_fed_arrays_are_read_without_copy(session):
    x = tf.placeholder(tf.float32, [1 << 20])
    array = np.ones(1 << 20, np.float32)
    held = sys.getrefcount(array)
    total = tf.reduce_sum(x * 2.0 + x[0])

    def live_at_the_end(*args):
        metadata = tf.RunMetadata()
        session.run(*args, run_metadata=metadata)
        return metadata.live_bytes

    before = live_at_the_end(tf.constant(1.0))
    assert live_at_the_end(total, {x: array}) - before < array.nbytes
    assert sys.getrefcount(array) == held  # No references remain.


def test_dtypes():
    assert tf.as_dtype("float") is tf.float32
    assert tf.as_dtype(np.dtype("int16")) is tf.int16
    assert tf.as_dtype(float) is tf.float32 and tf.as_dtype(int) is tf.int32
    assert tf.as_dtype(np.float32) is tf.float32
    assert tf.float32.as_numpy_dtype is np.float32
    assert tf.float32.is_floating and not tf.float32.is_integer
    assert tf.uint8.max == 255 and tf.int8.min == -128
    assert tf.float32 != tf.float64 and tf.float32 == "float32"
    assert repr(tf.float32) == "tf.float32"
    assert tf.complex64.real_dtype is tf.float32
    assert tf.float32._as_ref.base_dtype is tf.float32
    assert tf.float32._as_ref.name == "float32_ref"


def test_tensor_shapes():
    s = tf.TensorShape([None, 3])
    assert str(s) == "(?, 3)" and s.ndims == 2 and not s.is_fully_defined()
    assert s.merge_with([2, None]) == [2, 3]
    assert s.concatenate([4]).as_list() == [None, 3, 4]
    assert s[1:].as_list() == [3] and s[1] == 3
    assert tf.TensorShape(None).ndims is None
    assert tf.TensorShape([2, 3]).num_elements() == 6
    with pytest.raises(ValueError, match="incompatible"):
        s.assert_is_compatible_with([2, 4])
    with pytest.raises(ValueError, match="must have rank 3"):
        s.with_rank(3)
    d = tf.Dimension(3)
    assert d + 1 == 4 and d * 2 == tf.Dimension(6) and d.value == 3
    assert (tf.Dimension(None) == 3) is None
    with pytest.raises(ValueError):
        tf.Dimension(-1)


def test_strings_keep_trailing_zeros(run):
    def flat_of(value):
        return np.array(value, object).reshape(-1).tolist()

    for value in (b"a\0", [b"a\0", b"bcd"], [["a\0"], ["\0"]]):
        expected = [v.encode() if isinstance(v, str) else v
                    for v in flat_of(value)]
        x = tf.placeholder(tf.string)
        assert flat_of(run(tf.constant(value))) == expected
        assert flat_of(run(x, {x: value})) == expected
    with pytest.raises(TypeError):
        tf.constant(["a", 1])
    assert run(tf.constant([], tf.string)).shape == (0,)
    assert run(tf.constant([[], []], tf.string, [2, 0])).shape == (2, 0)


def _of_fed_array(x):
    """Returns results that might share the memory of the fed array.

    They have other positions or shapes.
    """
    rows = tf.reshape(tf.range(3000), [1, 3000])
    images = tf.placeholder(tf.float32, [1, 50, 60, 1])
    return {
        "transposed": (x, tf.transpose(x, [0, 1])),
        "transposed row": (x, tf.transpose(x)),
        "transposed image": (images, tf.transpose(images, [0, 3, 1, 2])),
        "row": (x, tf.gather(x, 0)),
        "rows": (x, tf.gather(x, [0])),
        "bias": (x, tf.raw_ops.BiasAddGrad(out_backprop=x)),
        "maxima": (images, tf.nn.max_pool(images, 1, 1, "SAME")),
        "means": (images, tf.nn.avg_pool(images, 1, 1, "SAME")),
        "best": (x, tf.nn.top_k(x, 3000, sorted=False)[0]),
        "product": (x, tf.matmul(tf.ones([1, 1]), x)),
        "gradient": (x, tf.raw_ops.ReluGrad(
            gradients=x, features=tf.cast(rows + 1, tf.float32))),
    }


@pytest.mark.parametrize("case", [
    "transposed", "transposed row", "transposed image", "row", "rows", "bias",
    "maxima", "means", "best", "product", "gradient"])
def test_results_do_not_alias_fed_arrays(case, run):
    feed, made = _of_fed_array(tf.placeholder(tf.float32, [1, 3000]))[case]
    array = np.ones(feed.shape.as_list(), np.float32)
    got = run(made, {feed: array})
    array[:] = 7
    np.testing.assert_array_equal(got, np.ones(made.shape.as_list()))


def test_fed_numbers_are_cast_like_numpy(session):
    training = tf.placeholder(tf.bool, [])
    flags = tf.placeholder(tf.bool, [2])
    n = tf.placeholder(tf.int32)
    run = session.run
    assert run(training, {training: 1}) and not run(training, {training: 0})
    np.testing.assert_array_equal(run(flags, {flags: [1, 0.0]}), [True, False])
    assert run(n, {n: 3.0}) == 3
    assert session.make_callable(n + 0, [n])(3.0) == 3
    np.testing.assert_array_equal(run(n, {n: [1.5, True]}), [1, 1])
    for feed, wrong in ((training, 2), (training, "yes"), (n, 2**40), (n, 1j),
                        (n, "3")):
        with pytest.raises(TypeError, match="Expected"):
            run(feed, {feed: wrong})


def test_int_attributes_reject_non_integers(run):
    x = tf.constant([1.0])
    for one in (0, np.int64(0), np.array(0), tf.Dimension(0)):
        assert tf.raw_ops.Pack(values=[x, x], axis=one).shape == [2, 1]
    for wrong in ("0", 0.0, np.float32(0.5), fractions.Fraction(1, 2)):
        with pytest.raises(TypeError, match="Expected int for argument 'axis'"):
            tf.raw_ops.Pack(values=[x, x], axis=wrong)


def test_conversions_propagate_interrupts():
    class Six:
        interrupted = False

        def __array__(self, *args, **kwargs):
            if not self.interrupted:
                self.interrupted = True
                raise KeyboardInterrupt
            return np.array(6)

    with pytest.raises(KeyboardInterrupt):
        tf.raw_ops.Reshape(tensor=tf.ones([6]), shape=[Six()])


def _python(program):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(program)],
                          timeout=60, capture_output=True, text=True)


def test_threads_may_import_numpy_first():
    done = _python("""
        import sys, threading
        import sluice.compat.v1 as tf
        x = tf.constant(1.0)
        session = tf.Session()
        assert "numpy" not in sys.modules
        threads = [threading.Thread(target=session.run, args=[x])
                   for _ in range(4)]
        for t in threads: t.start()
        for t in threads: t.join()
        """)
    assert done.returncode == 0, done.stderr


def test_incompatible_numpy_is_refused():
    done = _python("""
        import numpy
        numpy.__version__ = "2.1.0"
        import sluice.compat.v1 as tf
        tf.constant([1.0])
        """)
    if _core.takes_numpy_2:
        assert done.returncode == 0, done.stderr
    else:
        assert ("expected numpy 1, as built with pybind11 before 2.12, got "
                "numpy 2.1.0; hint: numpy<2") in done.stderr


def test_static_values_are_folded_from_constants():
    n = tf.placeholder(tf.int32, [])
    value = tf.get_static_value
    assert value(tf.fill([2], 3)).tolist() == [3, 3]
    assert value(tf.concat([[1], [2, 3]], 0)).tolist() == [1, 2, 3]
    assert value(tf.equal([1, 2], [1, 3])).tolist() == [True, False]
    assert value(tf.not_equal(1, 2)) and value(tf.stack([1, n])) is None
    assert value(tf.stack([1, n]), partial=True).tolist() == [1, None]
    x = tf.placeholder(tf.float32, [4, None, 7])
    known = conversion.constant_value_as_shape
    assert known(tf.shape(x)[1:]).as_list() == [None, 7]
    assert known(tf.concat([[2], tf.shape(x)], 0)).as_list() == [2, 4, None, 7]
    assert known(tf.stack([5, n])).as_list() == [5, None]
    assert known(tf.stack([tf.shape(x)[0], n])).as_list() == [4, None]
    assert known(tf.cast(tf.shape(x), tf.int64) * 2).as_list() == [8, None, 14]
    assert known(tf.constant([2, -1])).as_list() == [2, None]
    assert known(tf.placeholder(tf.int64, [2])).as_list() == [None, None]
    assert known(tf.placeholder(tf.int64)).ndims is None
    with pytest.raises(ValueError, match="expected a vector of dimensions"):
        known(tf.constant(3))
    slices = tf.IndexedSlices(tf.ones([1]), tf.constant([0]), [5, -1])
    assert slices.shape.as_list() == [5, None]


def test_types_can_be_built_from_numbers():
    assert tf.DType(1) is tf.float32 and tf.DType(103).name == "int32_ref"


def test_large_sizes_use_int64(run):
    shape = tf.TensorShape([2**31, 2])
    assert tf.convert_to_tensor(shape).dtype is tf.int64
    assert tf.convert_to_tensor(tf.TensorShape([3])).dtype is tf.int32
    assert tf.convert_to_tensor(shape[1]).dtype is tf.int32
    assert run(tf.convert_to_tensor(shape[0])) == 2**31
    with pytest.raises(TypeError, match="float32"):
        tf.convert_to_tensor(shape[1], tf.float32)
    with pytest.raises(ValueError, match="unknown Dimension"):
        tf.convert_to_tensor(tf.TensorShape([None])[0])


def test_a_constant_without_elements_takes_any_value(run):
    assert run(tf.constant(-np.inf, shape=[0])).dtype == np.float32
    assert run(tf.constant([], tf.int32, [2, 0])).shape == (2, 0)


def test_lists_convert_to_the_requested_type(run):
    parts = [tf.constant([1.0], tf.float64), [2.0]]
    assert tf.convert_to_tensor(parts).dtype is tf.float64
    made = tf.convert_to_tensor(parts, tf.float32)
    assert made.dtype is tf.float32
    assert run(made).tolist() == [[1], [2]]
    with pytest.raises(TypeError, match="list containing a tensor of dtype"):
        tf.convert_to_tensor([tf.constant(1.0), tf.constant(1)])


def test_bytes_and_text_may_be_mixed(run):
    assert list(run(tf.constant(["a", b"\xf0"]))) == [b"a", b"\xf0"]
    assert list(run(tf.constant([b"\xf0", "\u00e9"]))) == [
        b"\xf0", "\u00e9".encode()]


def test_ragged_lists_are_not_tensors():
    with pytest.raises(ValueError, match="must be a dense tensor"):
        tf.constant([[1], [2, 3]])


def test_convertible_objects_can_be_indices(run):
    class Index:
        dtype = tf.int32

    class Other:
        dtype = tf.float32

    for cls in (Index, Other):
        tf.register_tensor_conversion_function(
            cls, lambda v, dtype=None, name=None, as_ref=False: tf.constant(
                1, v.dtype))
    x = tf.constant([1, 2, 3])
    assert run(x[Index()]) == 2
    assert run(x[Index():]).tolist() == [2, 3]
    with pytest.raises(TypeError, match="valid indices"):
        x[Other()]


def test_overloadable_operators_are_listed(run):
    class Doubled:
        def __init__(self, value):
            self.value = value

    def forward(name):
        def method(self, *args):
            return getattr(tf.Tensor, name)(self.value, *args)
        return method

    names = tf.Tensor.OVERLOADABLE_OPERATORS
    for name in names:
        assert hasattr(tf.Tensor, name)
        setattr(Doubled, name, forward(name))
    x = Doubled(tf.constant([1, 2]))
    assert run(x * 3).tolist() == [3, 6] and run(3 - x).tolist() == [2, 1]
    assert run(-x[1]) == -2


def test_lists_of_tensors_are_packed_under_one_name():
    x = tf.constant(1.0, name="x")
    packed = tf.convert_to_tensor([x, 2.0])
    assert packed.name == "packed:0"
    assert [t.name for t in packed.op.inputs] == ["x:0", "packed/1:0"]
    nested = tf.convert_to_tensor([[x, 2.0], [x, x]], name="n")
    assert [t.name for t in nested.op.inputs] == ["n/0:0", "n/1:0"]
    assert tf.convert_to_tensor(tf.TensorShape([1])).op.name == (
        "shape_as_tensor")


def test_registered_classes_are_converted(run):
    point = collections.namedtuple("Point", "x y")
    assert tf.convert_to_tensor(point(1, 2)).op.type == "Const"

    class Wrong:
        pass
    tf.register_tensor_conversion_function(
        Wrong, lambda value, dtype=None, name=None, as_ref=False: (
            tf.constant(1)))
    with pytest.raises(RuntimeError, match="incompatible dtype"):
        tf.convert_to_tensor(Wrong(), tf.float32)


def test_static_values_exist_for_constant_tensors():
    assert tf.get_static_value(tf.range(1, 7, 2)).tolist() == [1, 3, 5]
    assert tf.get_static_value(tf.Variable(1.0)) is None
    assert tf.get_static_value(tf.constant(["a"])).dtype == object


def test_sparse_tensor_components_must_match(run):
    for values, shape in (([1, 2], [2, 2]), ([1], [2])):
        with pytest.raises(ValueError, match="not compatible"):
            tf.SparseTensor([[0, 1]], values, shape)
    s = tf.SparseTensor([[0, 1]], [1], [2, 2])
    total = tf.sparse_reduce_sum(s)
    assert s.consumers() == [total.op]
    assert run(s.with_values([5])).values.tolist() == [5]
    with pytest.raises(TypeError, match="neither"):
        tf.SparseTensor.from_value(3)
    with pytest.raises(RuntimeError, match="dtype mismatch"):
        tf.convert_to_tensor_or_sparse_tensor(s, tf.float32)


def test_sparse_placeholders_keep_declared_shape(run):
    s = tf.sparse_placeholder(tf.float32, [None, 3])
    assert s.shape.as_list() == [None, 3]
    dense = tf.sparse_tensor_to_dense(s)
    given = tf.SparseTensorValue([[1, 2]], [4.0], [2, 3])
    assert run(dense, {s: given}).tolist() == [[0, 0, 0], [0, 0, 4]]


def test_known_nonzero_dimensions_are_true():
    assert tf.Dimension(2)
    assert not tf.Dimension(0) and not tf.Dimension(None)
    assert tf.dimension_at_index(tf.TensorShape(None), 3).value is None
    assert tf.dimension_at_index(tf.TensorShape([4]), 0) == 4


def test_conversion_functions_may_delegate(run):
    class Late:
        pass

    tf.register_tensor_conversion_function(
        Late, lambda value, *args, **kwargs: tf.convert_to_tensor(
            2.5, *args, **kwargs))
    assert run(Late() + tf.constant(1.0)) == 3.5
    assert run(tf.constant(1.0) + Late()) == 3.5


def test_reference_is_compatible_with_value_type():
    reference = tf.Variable(1.0).dtype
    assert tf.float32.is_compatible_with(reference)
    assert not reference.is_compatible_with(tf.float32)
    assert not tf.float32.is_compatible_with(tf.int32)
