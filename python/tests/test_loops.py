"""Conditionals and loops: arguments, results and scopes."""

import collections

import numpy as np
import pytest

import sluice.compat.v1 as tf


def test_mismatched_branches_are_errors(run):
    one, pred = tf.constant(1), tf.placeholder_with_default(True, [])
    with pytest.raises(ValueError, match="'true_fn' must have a return value"):
        tf.cond(pred, lambda: None, lambda: None)
    with pytest.raises(ValueError, match="'false_fn' must have a return value"):
        tf.cond(pred, lambda: one, lambda: None)
    with pytest.raises(ValueError, match="at least one result"):
        tf.cond(pred, lambda: [], lambda: [])
    with pytest.raises(TypeError, match="set simultaneously"):
        tf.cond(pred, lambda: one, fn1=lambda: one, fn2=lambda: one)
    with pytest.raises(TypeError, match="2-tuple"):
        tf.case([(pred, lambda: one, 3)], default=lambda: one)
    for branches, error, match in (
            ([], ValueError, "at least one item"),
            ({0: lambda: one, 2: lambda: one}, ValueError, "contiguous"),
            ([(1.5, lambda: one)], TypeError, "must be a Python `int`"),
            ([3], TypeError, "2-tuple"), (3, TypeError, "list, tuple, or dict"),
            ({0: 3}, TypeError, "callable")):
        with pytest.raises(error, match=match):
            tf.switch_case(one, branches)
    with pytest.raises(TypeError, match="int32"):
        tf.switch_case(tf.constant(1.0), [lambda: one])


def test_branch_of_operations_returns_the_predicate(run):
    for holds in (True, False):
        pred = tf.placeholder_with_default(holds, [])
        assert run(tf.cond(pred, tf.no_op, lambda: tf.group(pred))) == holds


def test_groups_and_tuples_are_of_tensors_and_operations(run):
    v = tf.get_variable("v", initializer=1.0)
    for wrong in (None, "v", 3, [tf.constant(1), None]):
        with pytest.raises(TypeError, match="expected Tensor objects"):
            tf.group(wrong)
    for nothing in ([], [None]):
        with pytest.raises(ValueError, match="at least one Tensor"):
            tf.tuple(nothing)
    value, none, op = tf.tuple([tf.constant(1), None, v.assign_add(1.0).op])
    assert none is None and op.type == "NoOp"
    run(v.initializer)
    run(value)
    assert run(v) == 2.0


def test_while_loop(run):
    n = tf.placeholder(tf.int32, [])
    i, total = tf.while_loop(lambda i, s: i < n,
                             lambda i, s: (i + 1, s + tf.cast(i, tf.float32)),
                             [0, 0.0])
    assert run([i, total], {n: 5}) == [5, 10.0]
    assert run([i, total], {n: 0}) == [0, 0.0]
    assert run(tf.while_loop(lambda i: i < 10, lambda i: i + 3, [0])) == 12
    assert run(tf.while_loop(lambda i: i < 10, lambda i: [i + 3], [0],
                             return_same_structure=True)) == [12]
    assert run(tf.while_loop(lambda i: True, lambda i: i + 1, [0],
                             maximum_iterations=7)) == 7
    grown = tf.while_loop(
        lambda x: tf.shape(x)[0] < 5, lambda x: tf.concat([x, x[:1]], 0),
        [tf.constant([1.0])], shape_invariants=[tf.TensorShape([None])])
    np.testing.assert_array_equal(run(grown), np.ones(5))
    state = tf.while_loop(lambda s: s["i"] < 3,
                          lambda s: {"i": s["i"] + 1, "x": [s["x"][0] * 2.0]},
                          [{"i": tf.constant(0), "x": [tf.constant(1.0)]}])
    assert run(state) == {"i": 3, "x": [8.0]}


def test_sparse_values_of_loops_may_grow(run):
    sparse = tf.SparseTensor([[0, 0]], [1.0], [1, 4])
    rows = tf.IndexedSlices(tf.constant([[1.0, 2.0]]), tf.constant([0]))

    def body(i, s, r):
        return (i + 1, tf.sparse_concat(0, [s, sparse]), tf.IndexedSlices(
            tf.concat([r.values, r.values[:1]], 0),
            tf.concat([r.indices, [i + 1]], 0)))

    # The shape of a SparseTensor is that of its dense_shape; the number of its
    # values may always change.
    shapes = [tf.TensorShape([]), tf.TensorShape([2]),
              tf.TensorShape([None, 2])]
    _, s, r = tf.while_loop(lambda i, s, r: i < 3, body, [0, sparse, rows],
                            shape_invariants=shapes)
    grown = run(s)
    assert grown.indices.tolist() == [[i, 0] for i in range(4)]
    assert list(grown.dense_shape) == [4, 4]
    assert run(r.indices).tolist() == [0, 1, 2, 3]
    assert run(r.values).tolist() == [[1, 2]] * 4
    _, s = tf.while_loop(lambda i, s: i < 3, lambda i, s: (
        i + 1, tf.sparse_concat(0, [s, sparse])), [0, sparse])
    assert s.values.shape.as_list() == [None]
    assert run(s.values).tolist() == [1.0] * 4
    with pytest.raises(ValueError, match="with 1 dimension"):
        tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s), [0, sparse],
                      shape_invariants=[tf.TensorShape([]),
                                        tf.TensorShape([None, 4])])


def test_invariants_may_be_type_specs(run):
    sparse = tf.SparseTensor([[0, 0]], [1.0], [1, 4])
    rows = tf.IndexedSlices(tf.constant([[1.0, 2.0]]), tf.constant([0]))
    one = tf.constant([1.0])
    specs = [tf.TensorSpec([], tf.int32), tf.TensorSpec([None], tf.float32),
             tf.SparseTensorSpec([None, 4]), tf.IndexedSlicesSpec(
                 [None, 2], indices_dtype=tf.int32, indices_shape=[None])]
    _, x, s, r = tf.while_loop(
        lambda i, *_: i < 3, lambda i, x, s, r: (
            i + 1, tf.concat([x, x], 0), tf.sparse_concat(0, [s, sparse]),
            tf.IndexedSlices(tf.concat([r.values, r.values[:1]], 0),
                             tf.concat([r.indices, [i]], 0))),
        [0, one, sparse, rows], shape_invariants=specs)
    assert x.shape.as_list() == s.values.shape.as_list() == [None]
    assert s.dense_shape.shape.as_list() == [2]
    assert r.values.shape.as_list() == [None, 2]
    assert run(x).tolist() == [1.0] * 8
    assert list(run(s).dense_shape) == [4, 4]
    assert run(r.indices).tolist() == [0, 0, 1, 2]
    for wrong in ([0.0, one, sparse, rows], [0, 1.0, sparse, rows],
                  [0, one, one, rows], [0, one, sparse, sparse]):
        with pytest.raises(TypeError, match="is not compatible with"):
            tf.while_loop(lambda i, *_: i < 3, lambda *v: v, wrong,
                          shape_invariants=specs)


def test_loop_keeps_structure_of_body_results(run):
    Pair = collections.namedtuple("Pair", "a b")
    more = tf.while_loop(lambda a, b: a < 4, lambda a, b: [a + 1, b * 2.0],
                         Pair(0, 1.0))
    assert type(more) is list and run(more) == [4, 16.0]
    more = tf.while_loop(lambda i, s: i < 4, lambda i, s: (
        i + 1, Pair(s.b, s.a)), [0, Pair(1.0, 2.0)])
    assert type(more) is tuple and run(more) == (4, Pair(1.0, 2.0))
    assert run(tf.while_loop(lambda i: i < 3, lambda i: i + 1, (0,),
                             return_same_structure=True)) == [3]
    with pytest.raises(TypeError, match="same nested structure"):
        tf.while_loop(lambda i, s: i < 4, lambda i, s: (i + 1, (s.b, s.a)),
                      [0, Pair(1.0, 2.0)])


@pytest.mark.parametrize("holds", [True, False])
def test_tensors_in_branches_and_loops_cannot_be_fetched(run, holds):
    inner = []

    def keep(x):
        inner.append(x * 2)
        return inner[-1]

    x = tf.constant(1)
    pred = tf.placeholder_with_default(holds, [])
    y = tf.cond(pred, lambda: keep(x), lambda: keep(x) + 1)
    z = tf.while_loop(lambda i: i < 9, keep, [x])
    inner.append(inner[0].op.inputs[0])  # The input of the Switch.
    assert run([y, z]) == [2 if holds else 3, 16]
    graph = tf.get_default_graph()
    assert graph.is_fetchable(y) and graph.is_fetchable(z.op)
    for t in inner:
        assert not graph.is_fetchable(t)
        for fetch in (t, t.op, t.name, {"t": [t]}):
            with pytest.raises(ValueError, match="marked as not fetchable"):
                run(fetch)
    in_loop = inner[2]
    assert graph.is_feedable(inner[0]) and graph.is_feedable(z)
    assert not graph.is_feedable(in_loop)
    with pytest.raises(ValueError, match="may not be fed"):
        run(z, {in_loop: 5})


def test_nested_loops_and_gradients(run):
    x = tf.constant(2.0)

    def outer(i, y):
        _, y = tf.while_loop(lambda j, _: j < 2, lambda j, y: (j + 1, y * x),
                             [0, y])
        return i + 1, tf.cond(i > 0, lambda: y, lambda: y + 1.0)

    _, y = tf.while_loop(lambda i, _: i < 2, outer, [0, 1.0])
    # y = (x^2 + 1) x^2
    assert run(y) == 20.0
    assert run(tf.gradients(y, x)[0]) == 4 * 8 + 2 * 2


def test_invalid_loops_are_errors(run):
    with pytest.raises(TypeError, match="must be callable"):
        tf.while_loop(1, lambda i: i, [0])
    with pytest.raises(ValueError, match="loop_vars"):
        tf.while_loop(lambda: True, lambda: None, [])
    with pytest.raises(TypeError, match="float32 after one iteration"):
        tf.while_loop(lambda i: i < 3, lambda i: tf.cast(i, tf.float32), [0])
    with pytest.raises(ValueError, match="same nested structure"):
        tf.while_loop(lambda i, j: i < 3, lambda i, j: [i], [0, 0])
    with pytest.raises(ValueError, match="shape"):
        tf.while_loop(lambda x: True, lambda x: tf.concat([x, x], 0),
                      [tf.constant([1.0])])
    with pytest.raises(ZeroDivisionError):
        tf.while_loop(lambda i: i < 3, lambda i: i / (1 - 1) / (1 // 0), [0])
    assert run(tf.constant(1)) == 1


def test_operations_know_their_control_flow_context():
    graph = tf.get_default_graph()
    assert graph._get_control_flow_context() is None
    seen = []

    def keep(x):
        x = x + 1
        seen.append((graph._get_control_flow_context(), x.op))
        return x

    y = tf.while_loop(lambda i: i < 3, lambda i: tf.cond(
        i > 1, lambda: keep(i), lambda: keep(i)), [0])
    (one, first), (two, second) = seen
    assert one != two and one.IsCondContext() and not one.IsWhileContext()
    loop = one.outer_context
    assert loop.IsWhileContext() and loop.name == "while"
    assert loop.outer_context is None
    assert loop == two.GetWhileContext() and hash(loop) == hash(
        two.outer_context)
    assert first._get_control_flow_context() == one
    assert second._control_flow_context == two
    assert y.op._get_control_flow_context() == loop  # This is an Exit.
    assert tf.constant(1).op._get_control_flow_context() is None


# ---- Critical sections -------------------------------------------------------


def test_non_strict_cond_unwraps_single_item_lists():
    pred, one = tf.placeholder_with_default(True, []), tf.constant(1)
    for strict, want in ((False, tf.Tensor), (True, list)):
        made = tf.cond(pred, lambda: [[one]], lambda: [[one]], strict=strict)
        assert isinstance(made, want)


def test_imported_branches_stay_fetchable_after_gradients():
    x = tf.placeholder(tf.float32, [], name="x")
    tf.cond(x > 1.0, lambda: tf.square(x, name="inner"), lambda: x + 1.0)
    definition = tf.get_default_graph().as_graph_def()
    with tf.Graph().as_default():
        x, inner, y = tf.import_graph_def(
            definition, name="",
            return_elements=["x:0", "cond/inner:0", "cond/Merge:0"])
        for _ in range(2):
            with tf.Session() as session:
                assert session.run(inner, {x: 3.0}) == 9
            grad, = tf.gradients(y, x)
        with tf.Session() as session:
            assert session.run(grad, {x: 3.0}) == 6
