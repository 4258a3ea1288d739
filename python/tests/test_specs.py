"""Types of values: TypeSpec and its subclasses."""

import collections
import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

import sluice.compat.v1 as tf
from sluice import nest
from sluice.framework import type_spec


class Pair:
    """A composite value of two tensors and a word."""

    def __init__(self, x, y, word="red"):
        self.x, self.y = tf.convert_to_tensor(x), tf.convert_to_tensor(y)
        self.word = word


class PairSpec(tf.TypeSpec):
    """The spec of a Pair."""

    def __init__(self, x, y, word="red"):
        self.x, self.y, self.word = tf.TensorShape(x), y, word

    value_type = property(lambda self: Pair)
    _component_specs = property(
        lambda self: (tf.TensorSpec(self.x, tf.int32), self.y))

    def _serialize(self):
        return self.x, self.y, self.word

    def _to_components(self, value):
        return value.x, value.y

    def _from_components(self, components):
        return Pair(*components, self.word)


type_spec.register_type_spec_from_value_converter(
    Pair, lambda v: PairSpec(v.x.shape, tf.TensorSpec(v.y.shape, v.y.dtype),
                             v.word))
Y = tf.TensorSpec([None], tf.bool)


def test_tensor_specs_check_compatibility():
    spec = tf.TensorSpec([None, 3], tf.float32, "n")
    x = tf.placeholder(tf.float32, [2, 3], name="x")
    assert repr(spec) == "TensorSpec(shape=(?, 3), dtype=tf.float32, name='n')"
    assert spec.value_type is tf.Tensor
    assert spec.is_compatible_with(x)
    assert spec.is_compatible_with(tf.TensorSpec([2, 3], tf.float32, "m"))
    assert spec.is_compatible_with(tf.TensorSpec(None))
    for other in (tf.TensorSpec([2, 3], tf.int32), tf.TensorSpec([3]),
                  tf.SparseTensorSpec([2, 3]), np.zeros([2, 3], np.float32)):
        assert not spec.is_compatible_with(other)
    assert spec != tf.TensorSpec([None, 3]) and spec != 3
    assert spec == tf.TensorSpec([None, 3], "float32", "n")
    assert hash(spec) == hash(tf.TensorSpec([None, 3]))
    assert tf.TensorSpec.from_tensor(x) == tf.TensorSpec([2, 3], name="x")
    assert tf.TensorSpec.from_tensor(x, "y").name == "y"
    with pytest.raises(ValueError, match="should be a tf.Tensor"):
        tf.TensorSpec.from_tensor(5)
    assert tf.TensorSpec.from_spec(spec, "other").name == "other"
    assert tf.TensorSpec.from_spec(spec) == spec


def test_specs_have_a_most_specific_common_spec():
    spec = tf.TensorSpec([2, 3], tf.float32, "n")
    for other, expected in (
            (tf.TensorSpec([2, 4], name="n"), tf.TensorSpec([2, None], name="n")),
            (tf.TensorSpec([2, 3]), tf.TensorSpec([2, 3])),
            (tf.TensorSpec([2], name="n"), tf.TensorSpec(None, name="n"))):
        assert spec.most_specific_compatible_type(other) == expected
        assert spec.most_specific_common_supertype([other]) == expected
        assert spec.is_subtype_of(expected)
    for other in (tf.TensorSpec([2, 3], tf.int32), tf.SparseTensorSpec([2, 3])):
        with pytest.raises(ValueError, match="No TypeSpec is compatible"):
            spec.most_specific_compatible_type(other)
        assert spec.most_specific_common_supertype([other]) is None
        assert not spec.is_subtype_of(other)
    array = tf.TensorArraySpec([2])
    assert array.most_specific_compatible_type(
        tf.TensorArraySpec([3], infer_shape=False)) == (
            tf.TensorArraySpec([None], infer_shape=False))
    with pytest.raises(ValueError, match="No TypeSpec is compatible"):
        array.most_specific_compatible_type(
            tf.TensorArraySpec([2], dynamic_size=True))


@pytest.mark.parametrize("spec, other", [
    (lambda n: tf.TensorSpec([n, None], tf.int32, "x"), tf.TensorSpec([1])),
    (lambda n: tf.SparseTensorSpec([n], tf.int32), tf.SparseTensorSpec([1])),
    (lambda n: tf.IndexedSlicesSpec([n, 2], tf.int32, tf.int32, tf.int64, [3]),
     tf.IndexedSlicesSpec([1, 2])),
    (lambda n: tf.TensorArraySpec([n], tf.int32, True, False),
     tf.TensorArraySpec([1])),
    (lambda n: tf.contrib.framework.BoundedTensorSpec(
        [n], tf.int32, 0, [5] * n), tf.contrib.framework.BoundedTensorSpec(
            [2], tf.int32, 0, [5, 6])),
    (lambda n: PairSpec([n], Y, {"words": [n, np.arange(n)]}),
     PairSpec([2], Y, {"words": [2, np.arange(1, 3)]}))])
def test_specs_compare_by_value(spec, other):
    one, two = spec(2), spec(2)
    assert one == two and not one != two and hash(one) == hash(two)
    assert one != other and one != 5 and one != spec(3)
    for copied in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one)):
        assert copied == one and type(copied) is type(one)


def test_user_defined_specs():
    spec = PairSpec([5, None], Y)
    assert repr(spec) == f"PairSpec({spec.x!r}, {Y!r}, 'red')"
    assert spec.is_compatible_with(PairSpec([5, 3], tf.TensorSpec([8], tf.bool)))
    assert spec.is_compatible_with(Pair(np.zeros([5, 2], np.int32), [True]))
    for other in (PairSpec([5, 3], Y, "blue"), PairSpec([5], Y), Y,
                  PairSpec([5, 3], tf.TensorSpec([8], tf.int32))):
        assert not spec.is_compatible_with(other)
    merged = PairSpec([5, 4], Y).most_specific_compatible_type(
        PairSpec([6, 4], tf.TensorSpec([8], tf.bool)))
    assert merged == PairSpec([None, 4], Y)
    with pytest.raises(ValueError, match="No TypeSpec is compatible"):
        PairSpec([5], Y).most_specific_compatible_type(PairSpec([5], Y, "blue"))
    value = Pair([1, 2], [True], "blue")
    of_value = tf.type_spec_from_value(value)
    assert of_value == PairSpec([2], tf.TensorSpec([1], tf.bool), "blue")
    assert of_value._to_tensor_list(value) == [value.x, value.y]
    again = of_value._from_tensor_list([value.x, value.y])
    assert (again.x, again.y, again.word) == (value.x, value.y, "blue")
    with pytest.raises(ValueError, match="item 1.*is incompatible"):
        of_value._from_tensor_list([value.x, value.x])
    with pytest.raises(ValueError, match="expects 2 items"):
        of_value._from_tensor_list([value.x])
    with pytest.raises(NotImplementedError, match="TypeSpec.value_type"):
        tf.TypeSpec().value_type


def test_values_have_specs():
    x = tf.placeholder(tf.float32, [None, 3])
    sparse = tf.SparseTensor([[1]], [2.0], [3])
    for value, expected in (
            (x, tf.TensorSpec([None, 3])),
            ([x, tf.zeros([2, 3])], tf.TensorSpec([2, None, 3])),
            (np.zeros([3], np.int8), tf.TensorSpec([3], tf.int8)),
            ("word", tf.TensorSpec([], tf.string)),
            (sparse, tf.SparseTensorSpec([3])),
            ([sparse, sparse], tf.SparseTensorSpec([2, 3])),
            (tf.SparseTensorValue([[1]], [2], [3]),
             tf.SparseTensorSpec([3], tf.int32)),
            (tf.IndexedSlices(x, tf.constant([1, 2])),
             tf.IndexedSlicesSpec([None, 3], tf.float32, tf.int32, None, [2])),
            (tf.IndexedSlices(x, tf.constant([1, 2]), tf.constant([7, 3])),
             tf.IndexedSlicesSpec([7, 3], tf.float32, tf.int32, tf.int32, [2])),
            (tf.TensorArray(tf.int32, 3, element_shape=[2]),
             tf.TensorArraySpec([2], tf.int32))):
        assert tf.type_spec_from_value(value) == expected
        assert expected.is_compatible_with(
            tf.type_spec_from_value(value))
    assert not tf.TensorArraySpec([2]).is_compatible_with(
        tf.TensorArray(tf.float32, 3, dynamic_size=True))
    with pytest.raises(TypeError, match="Could not build a TypeSpec for"):
        tf.type_spec_from_value(object())


def test_bounds_match_shape_and_are_read_only():
    spec = tf.contrib.framework.BoundedTensorSpec([2, 3], tf.int32, 0, [5, 6, 7])
    assert spec.minimum == 0 and spec.maximum.tolist() == [5, 6, 7]
    with pytest.raises(ValueError, match="read-only"):
        spec.maximum[0] = 1
    assert spec.most_specific_compatible_type(spec) == (
        tf.TensorSpec([2, 3], tf.int32))
    whole = type(spec).from_spec(tf.TensorSpec([2], tf.int8, "x"))
    assert (whole.minimum, whole.maximum, whole.name) == (-128, 127, "x")
    for bounds, message in (((None, 1), "minimum can not be None"),
                            ((0, [1, 2]), "not compatible with shape")):
        with pytest.raises(ValueError, match=message):
            type(spec)([2, 3], tf.int32, *bounds)


def test_structures_expand_specs_like_values():
    spec = {"a": tf.SparseTensorSpec([2, None]),
            "b": [tf.TensorSpec([1]), PairSpec([4], Y)]}
    expected = [
        tf.TensorSpec([None, 2], tf.int64), tf.TensorSpec([None]),
        tf.TensorSpec([2], tf.int64), tf.TensorSpec([1]),
        tf.TensorSpec([4], tf.int32), Y]
    assert nest.flatten(spec, expand_composites=True) == expected
    assert nest.flatten(spec) == [spec["a"], *spec["b"]]
    tensors = [tf.placeholder(s.dtype, s.shape) for s in expected]
    made = nest.pack_sequence_as(spec, tensors, expand_composites=True)
    assert isinstance(made["a"], tf.SparseTensor)
    assert made["a"].shape.as_list() == [2, None]
    assert isinstance(made["b"][1], Pair) and made["b"][1].x is tensors[4]
    with_shape = tf.IndexedSlicesSpec([3, 4], dense_shape_dtype=tf.int32,
                                      indices_shape=[5])
    assert nest.flatten(with_shape, expand_composites=True) == [
        tf.TensorSpec([5, 4]), tf.TensorSpec([5], tf.int64),
        tf.TensorSpec([2], tf.int32)]


# ---- tf.function -------------------------------------------------------------


def test_signatures_support_composite_values(session):
    traces = []

    @tf.function(input_signature=[
        tf.SparseTensorSpec([None, 3]),
        {"rows": tf.IndexedSlicesSpec([None, 2], dense_shape_dtype=tf.int64),
         "all": [tf.TensorSpec([None], tf.int32, "named")]}])
    def total(sparse, rest):
        traces.append((sparse, rest))
        assert sparse.shape.as_list() == [None, 3]
        assert rest["all"][0].op.name == "named"
        return (tf.sparse.reduce_sum(sparse) + tf.cast(
            tf.reduce_sum(rest["all"][0]), tf.float32), rest["rows"])

    def rows(n):
        return tf.IndexedSlices(tf.ones([n, 2]), tf.range(n, dtype=tf.int64),
                                tf.constant([n, 2], tf.int64))

    sparse = tf.SparseTensor([[0, 1]], [5.0], [2, 3])
    one, same = total(sparse, {"rows": rows(2), "all": [[1, 2]]})
    assert isinstance(same, tf.IndexedSlices)
    other = tf.SparseTensor([[0, 1], [1, 1]], [5.0, 6.0], [4, 3])
    two, _ = total(other, rest={"rows": rows(3), "all": [np.int32([1])]})
    assert session.run([one, two]) == [8, 12] and len(traces) == 1
    assert session.run(same.values).tolist() == [[1, 1], [1, 1]]
    with pytest.raises(ValueError, match="expected SparseTensorSpec"):
        total(tf.SparseTensor([[0, 1]], [5], [2, 3]), {
            "rows": rows(2), "all": [[1]]})
    with pytest.raises(ValueError, match="expected SparseTensorSpec"):
        total(tf.zeros([2, 3]), {"rows": rows(2), "all": [[1]]})
    for wrong in (tf.TensorSpec([1]), [3], [tf.TensorSpec([1]), "a"]):
        with pytest.raises(TypeError, match="input_signature must be"):
            tf.function(lambda x: x, input_signature=wrong)


def test_sparse_tensor_and_array_values_do_not_cause_retracing(session):
    traces = []

    @tf.function
    def doubled(sparse, array):
        traces.append(sparse)
        return sparse * 2.0, array.write(1, array.read(0) + 1.0)

    for value in (3.0, 4.0):
        sparse, array = doubled(
            tf.SparseTensor([[1]], [value], [2]),
            tf.TensorArray(tf.float32, 2, clear_after_read=False).write(
                0, value))
        assert isinstance(array, tf.TensorArray)
        assert sparse.shape == [2]
        assert session.run(tf.sparse.to_dense(sparse)).tolist() == [
            0, 2 * value]
        assert session.run(array.stack()).tolist() == [value, value + 1]
    assert len(traces) == 1


def test_wrapped_graphs_accept_sparse_tensors(session):
    total = tf.wrap_function(
        lambda pair: tf.sparse.reduce_sum(pair[0]) + pair[1],
        [[tf.SparseTensorSpec([None]), tf.TensorSpec([])]])
    assert session.run(total([tf.SparseTensor([[1]], [5.0], [2]), 1.0])) == 6


# ---- Concrete functions ------------------------------------------------------

Named = collections.namedtuple("Named", "first second")


def test_concrete_functions_describe_themselves(session):
    v = tf.Variable(2.0, use_resource=True)
    w = tf.Variable(1.0, trainable=False)

    @tf.function
    def scaled(x, n=2, *, y):
        return {"a": x * n * v + w, "b": [y, None]}

    made = scaled.get_concrete_function(
        tf.TensorSpec([None]), y=tf.TensorSpec([2], tf.int32, "why"))
    assert made is scaled.get_concrete_function(
        tf.TensorSpec([None]), y=tf.TensorSpec([2], tf.int32, "why"))
    assert [t.op.name for t in made.inputs[:2]] == ["x", "why"]
    assert len(made.inputs) == 4 and len(made.captured_inputs) == 2
    assert all(t.graph is made.graph for t in made.inputs + made.outputs)
    assert made.structured_outputs == {
        "a": made.outputs[0], "b": [made.outputs[1], None]}
    assert made.structured_input_signature == (
        (tf.TensorSpec([None], tf.float32, "x"), 2),
        {"y": tf.TensorSpec([2], tf.int32, "why")})
    assert set(made.variables) == {v, w}
    assert made.trainable_variables == (v,)
    assert made.output_dtypes == {"a": tf.float32, "b": [tf.int32, None]}
    assert made.output_shapes["a"].as_list() == [None]
    assert made.function_def.signature.name == made.name
    assert made.pretty_printed_signature() == "\n".join([
        "Input Parameters:",
        "  x (POSITIONAL_OR_KEYWORD): TensorSpec(shape=(?,), "
        "dtype=tf.float32, name=None)",
        "  n (POSITIONAL_OR_KEYWORD): Literal[2]",
        "  y (KEYWORD_ONLY): TensorSpec(shape=(2,), dtype=tf.int32, "
        "name='why')", "Output Type:",
        "  Dict[['a', TensorSpec(shape=(?,), dtype=tf.float32, name=None)], "
        "['b', List[TensorSpec(shape=(2,), dtype=tf.int32, name=None), "
        "Literal[None]]]]", "Captures:",
        *(f"  {t.name}: TensorSpec(shape=(), dtype={t.dtype!r}, name=None)"
          for t in made.captured_inputs)])
    assert str(made).startswith("ConcreteFunction Input Parameters:")
    assert repr(made).startswith("<ConcreteFunction scaled(x: TensorSpec(")
    session.run(tf.global_variables_initializer())
    y = np.int32([7, 8])
    for call in (lambda: made([1.0], y=y), lambda: made([1.0], 2, y=y),
                 lambda: made(x=[1.0], y=y), lambda: made([1.0], y),
                 lambda: made([1.0], why=y), lambda: made(why=y, x=[1.0])):
        called = call()
        assert called["b"][1] is None
        assert session.run(called["a"]).tolist() == [5]
        assert session.run(called["b"][0]).tolist() == [7, 8]
    for call, error in ((lambda: made([1.0], 3, y=y), TypeError),
                        (lambda: made([1.0]), TypeError),
                        (lambda: made([1.0], y, y), TypeError),
                        (lambda: made([1.0], y=y, z=y), TypeError),
                        (lambda: made([1.0], y=y[:1]), ValueError),
                        (lambda: made(tf.constant([1]), y=y), ValueError)):
        with pytest.raises(error, match="scaled|conversion"):
            call()


def test_calls_reuse_concrete_functions(session):
    traces = []

    @tf.function(input_signature=[tf.TensorSpec([None]),
                                  {"k": tf.TensorSpec([], tf.int32)}])
    def both(x, d):
        traces.append(x)
        return Named(x, d["k"])

    made = both.get_concrete_function()
    assert made is both.get_concrete_function(
        tf.TensorSpec([2]), {"k": tf.TensorSpec([], tf.int32)})
    result = made([1.0], {"k": 2})
    assert isinstance(result, Named) and session.run(result) == ([1.0], 2)
    both([3.0], {"k": 4})
    assert len(traces) == 1
    with pytest.raises(ValueError, match="as input_signature says"):
        both.get_concrete_function(tf.TensorSpec([2], tf.int32),
                                   {"k": tf.TensorSpec([], tf.int32)})
    # A value can be passed in place of its spec.
    x = tf.constant([1.0, 2.0])
    squared = tf.function(lambda x: x * x)
    of_value = squared.get_concrete_function(x)
    assert of_value is squared.get_concrete_function(tf.TensorSpec([2]))
    dx, = tf.gradients(of_value(x), x)
    assert session.run(dx).tolist() == [2, 4]
    with pytest.raises(TypeError, match="expected a value of the argument 'x'"):
        squared(tf.TensorSpec([2]))


def test_concrete_functions_of_methods_and_of_other_graphs():
    class Scale:
        def __init__(self, by):
            self.by = by

        @tf.function(input_signature=[tf.TensorSpec([])])
        def scale(self, x):
            return x * self.by

        @tf.function
        def plus(self, *terms, **more):
            return sum(terms) + more["last"] + self.by

    scale = Scale(3.0)
    made = scale.scale.get_concrete_function()
    plus = scale.plus.get_concrete_function(
        *[tf.TensorSpec([])] * 2, last=tf.TensorSpec([]))
    assert [t.op.name for t in plus.inputs] == ["terms_0", "terms_1", "last"]
    with tf.Session() as session:
        assert session.run(made(2.0)) == 6
        assert session.run(made(x=2.0)) == 6
        assert session.run(plus(1.0, 2.0, last=4.0)) == 10
    with tf.Graph().as_default(), tf.Session() as session:
        assert session.run(made(4.0)) == 12
        inner = tf.function(lambda x: made(x) + 1.0)
        assert session.run(inner(tf.constant(1.0))) == 4
    c = tf.constant(1.0)
    holds = tf.function(lambda x: x + c).get_concrete_function(tf.TensorSpec([]))
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="expected a call in the graph of"):
            holds(1.0)


def test_specs_can_be_imported_from_internal_modules(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("""
from tensorflow.python.framework import (
    indexed_slices, sparse_tensor, tensor_spec, type_spec)
from tensorflow.python.ops import script_ops, tensor_array_ops
assert issubclass(tensor_spec.BoundedTensorSpec, type_spec.TypeSpec)
assert type_spec.type_spec_from_value([1, 2]).shape == [2]
for where, name in ((indexed_slices, "IndexedSlicesSpec"),
                    (sparse_tensor, "SparseTensorSpec"),
                    (tensor_array_ops, "TensorArraySpec")):
    assert issubclass(getattr(where, name), type_spec.TypeSpec)
assert script_ops.eager_py_func(abs, [-1.0], "float32").dtype == "float32"
""")
    subprocess.run([sys.executable, "-m", "sluice.run", str(script)],
                   check=True, timeout=60)
