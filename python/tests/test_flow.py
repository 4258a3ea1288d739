"""Gradients, conditionals, arrays and maps."""

import time
from concurrent import futures

import numpy as np
import pytest

import sluice.compat.v1 as tf
from sluice.compat.internals import list_ops
from sluice.ops import control_flow


def test_gradients(run):
    x = tf.placeholder(tf.float32, [3])
    y = tf.reduce_sum(x * x)
    dx, = tf.gradients(y, x)
    np.testing.assert_array_equal(run(dx, {x: [1, 2, 3]}), [2, 4, 6])
    second, = tf.gradients(dx, x)
    np.testing.assert_array_equal(run(second, {x: [1, 2, 3]}), [2, 2, 2])
    assert tf.gradients(tf.constant(1.0), x) == [None]
    zero, = tf.gradients(tf.constant(1.0), x, unconnected_gradients="zero")
    np.testing.assert_array_equal(run(zero, {x: [1, 2, 3]}), [0, 0, 0])
    g, = tf.gradients(x * 2.0, x, grad_ys=[[1.0, 10.0, 100.0]])
    np.testing.assert_array_equal(run(g, {x: [0, 0, 0]}), [2, 20, 200])
    h = x * 3.0
    stopped = tf.gradients(h * x, [x], stop_gradients=[h])[0]
    np.testing.assert_array_equal(run(stopped, {x: [1, 2, 3]}), [3, 6, 9])


def test_gradients_stop_at_one_tensor(run):
    x = tf.constant(2.0)
    y = x * x
    assert run(tf.gradients(x * y, x, stop_gradients=y)) == [4.0]


def test_sparse_gradients(run):
    w = tf.Variable(np.arange(6, dtype=np.float32).reshape(3, 2))
    run(w.initializer)
    rows = tf.nn.embedding_lookup(w, [0, 2, 0])
    grad, = tf.gradients(rows, w)
    assert isinstance(grad, tf.IndexedSlices)
    got = run(grad)
    np.testing.assert_array_equal(got.indices, [0, 2, 0])
    np.testing.assert_array_equal(
        run(tf.convert_to_tensor(grad)), [[2, 2], [0, 0], [1, 1]])


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("rows", [4, None])
def test_sparse_gradients_of_branches_and_loops(run, rows, use_resource):
    given = np.arange(8, dtype=np.float32).reshape(4, 2)
    w = tf.get_variable("w", initializer=given, use_resource=use_resource)
    run(w.initializer)
    if rows is None:
        w = tf.placeholder_with_default(given, [None, 2])
    p, n = tf.placeholder(tf.bool, []), tf.placeholder(tf.int32, [])

    def power(rows, k):
        return tf.reduce_sum(tf.gather(w, rows)**k)

    branches, = tf.gradients(
        tf.cond(p, lambda: power([0, 2], 2), lambda: power([1], 3)), w)
    one, = tf.gradients(
        tf.cond(p, lambda: power([0, 2], 2), lambda: tf.constant(1.0)), w)
    loop, = tf.gradients(tf.while_loop(
        lambda i, _: i < n,
        lambda i, a: (i + 1, a * 2.0 + power([i, i + 1], 2)), [0, 1.0])[1], w)
    # The values are TensorFlow 2.21's, except for a loop without iterations,
    # where it returns the shape [0, 0].
    for grad, feed, want in (
            (branches, {p: True}, [[0, 2], [0, 0], [8, 10], [0, 0]]),
            (branches, {p: False}, [[0, 0], [12, 27], [0, 0], [0, 0]]),
            (one, {p: True}, [[0, 2], [0, 0], [8, 10], [0, 0]]),
            (one, {p: False}, np.zeros([4, 2])),
            (loop, {n: 2}, [[0, 4], [12, 18], [8, 10], [0, 0]]),
            (loop, {n: 0}, np.zeros([4, 2]))):
        assert isinstance(grad, tf.IndexedSlices)
        shape, dense = run([grad.dense_shape, tf.convert_to_tensor(grad)], feed)
        assert shape.dtype == np.int32 and shape.tolist() == [4, 2]
        np.testing.assert_array_equal(dense, want)


def test_gradient_functions_of_the_user(run):
    @tf.RegisterGradient("TimesSeven")
    def _times_seven(op, grad):
        assert op.type == "Identity"
        return 7.0 * grad

    x = tf.constant(2.0)
    with x.graph.gradient_override_map({"Identity": "TimesSeven"}):
        y = tf.identity(x)
    assert run(tf.gradients(y, x)[0]) == 7.0
    assert run(tf.gradients(tf.identity(x), x)[0]) == 1.0
    with pytest.raises(KeyError):
        tf.RegisterGradient("TimesSeven")(_times_seven)

    @tf.RegisterGradient("Breaks")
    def _breaks(op, grad):
        raise ZeroDivisionError("in the gradient")

    with x.graph.gradient_override_map({"Identity": "Breaks"}):
        z = tf.identity(x)
    with pytest.raises(ZeroDivisionError, match="in the gradient"):
        tf.gradients(z, x)
    assert run(tf.gradients(y, x)[0]) == 7.0


def test_hessians(run):
    x = tf.constant([1.0, 2.0])
    h, = tf.hessians(tf.reduce_sum(x ** 3.0), x)
    np.testing.assert_allclose(run(h), [[6, 0], [0, 12]])


def test_hessians_of_dynamic_shapes(run):
    for shape, value in (([None], [1.0, 2.0, 3.0]), (None, [[1.0, 2.0]]),
                         ([], 2.0), ([None, None], [[1.0], [2.0]])):
        x = tf.placeholder(tf.float32, shape)
        h, = tf.hessians(tf.reduce_sum(x) * tf.reduce_sum(x ** 3.0), [x])
        flat = np.ravel(value)
        want = 3 * (flat ** 2 + (flat ** 2)[:, None]) + np.diag(
            6 * flat * flat.sum())
        made = run(h, {x: value})
        assert made.shape == np.shape(value) * 2
        np.testing.assert_allclose(made.reshape(want.shape), want, rtol=1e-5)
    x = tf.placeholder(tf.float32, [None])
    assert tf.hessians(tf.reduce_sum(x ** 2.0), x)[0].shape.ndims == 2
    for y in (tf.reduce_sum(x * 2.0), tf.constant(1.0)):
        with pytest.raises(ValueError, match="None values not supported"):
            tf.hessians(y, x)


@pytest.mark.parametrize("resource", [True, False])
def test_hessians_of_a_variable(resource):
    v = tf.Variable([1.0, 2.0], use_resource=resource)
    h, = tf.hessians(tf.reduce_prod(v) * v, v)
    with tf.Session() as session:
        session.run(v.initializer)
        np.testing.assert_allclose(session.run(h), [[4.0, 6.0], [6.0, 2.0]])


def test_cond(run):
    p = tf.placeholder(tf.bool, [])
    x = tf.constant(3.0)
    ran = tf.Variable(0)
    run(ran.initializer)
    y = tf.cond(p, lambda: x * 2.0, lambda: -x)
    assert run(y, {p: True}) == 6.0 and run(y, {p: False}) == -3.0
    a, b = tf.cond(p, lambda: (x, 1), lambda: (x + 1.0, 2))
    assert run([a, b], {p: True}) == [3.0, 1]
    assert run([a, b], {p: False}) == [4.0, 2]
    d = tf.cond(p, lambda: {"k": [x]}, lambda: {"k": [-x]})
    assert run(d, {p: False}) == {"k": [-3.0]}
    only = tf.cond(p, lambda: tf.assign_add(ran, 1).op, lambda: tf.no_op())
    run(only, {p: False})
    assert run(ran) == 0
    run(only, {p: True})
    assert run(ran) == 1
    assert run(tf.gradients(y, x)[0], {p: True}) == 2.0
    assert run(tf.gradients(y, x)[0], {p: False}) == -1.0


def test_invalid_conds_are_errors(run):
    p = tf.placeholder(tf.bool, [])
    with pytest.raises(TypeError, match="must be callable"):
        tf.cond(p, 1, lambda: 2)
    with pytest.raises(TypeError, match="Python bool"):
        tf.cond(True, lambda: 1, lambda: 2)
    with pytest.raises(TypeError, match="boolean scalar"):
        tf.cond(tf.constant(1), lambda: 1, lambda: 2)
    with pytest.raises(ValueError, match="same type"):
        tf.cond(p, lambda: 1, lambda: 2.0)
    with pytest.raises(ValueError, match="same structure"):
        tf.cond(p, lambda: [1, 2], lambda: [1])
    with pytest.raises(ZeroDivisionError):
        tf.cond(p, lambda: 1 / 0, lambda: 2)
    assert run(tf.constant(1)) == 1  # The failed branch leaves nothing behind.
    with tf.name_scope("after"):
        assert tf.constant(1, name="c").name == "after/c:0"


def test_case(run):
    x = tf.placeholder(tf.int32, [])
    y = tf.case([(x < 0, lambda: tf.constant("neg")),
                 (x < 10, lambda: tf.constant("small"))],
                default=lambda: tf.constant("big"))
    assert [run(y, {x: v}) for v in (-1, 5, 50)] == [b"neg", b"small", b"big"]


def test_the_identity_of_sparse_values(run):
    rows = tf.IndexedSlices(tf.constant([1.0]), tf.constant([2]))
    same = tf.identity(rows, name="same")
    assert isinstance(same, tf.IndexedSlices) and same.dense_shape is None
    assert run(same.indices).tolist() == [2] and same.op.type == "Identity"
    same = tf.identity(tf.SparseTensor([[1]], [2.0], [3]))
    assert run(same).dense_shape.tolist() == [3]


@pytest.mark.parametrize("wide", [0, 1])
def test_indices_of_slices_in_branches_become_int64(run, wide):
    def branch(i):
        return lambda: [tf.constant(1), tf.IndexedSlices(
            tf.constant([float(i)]),
            tf.constant([i], tf.int64 if i == wide else tf.int32))]

    holds = tf.placeholder(tf.bool, [])
    _, slices = tf.cond(holds, branch(1), branch(0))
    assert slices.indices.dtype == tf.int64
    for i in (0, 1):
        values, indices = run([slices.values, slices.indices], {holds: i == 1})
        assert values.tolist() == [i] and indices.tolist() == [i]
    with pytest.raises(ValueError, match="same type: int32, int64"):
        tf.cond(holds, lambda: tf.constant(1), lambda: tf.constant(1, tf.int64))


def test_tensor_arrays(run):
    a = tf.TensorArray(tf.float32, 3).unstack([[1.0, 2.0], [3.0, 4.0],
                                               [5.0, 6.0]])
    assert a.element_shape == [2]
    np.testing.assert_array_equal(run(a.read(1)), [3, 4])
    x = tf.constant(2.0)
    out = tf.TensorArray(tf.float32, 4, clear_after_read=False)
    _, out = tf.while_loop(
        lambda i, _: i < 4,
        lambda i, a: (i + 1, a.write(i, x * tf.cast(i, tf.float32))), [0, out])
    stacked = out.stack()
    assert stacked.shape == [4]
    np.testing.assert_array_equal(run(stacked), [0, 2, 4, 6])
    assert run(out.size()) == 4
    assert run(tf.gradients(stacked, x)[0]) == 6.0
    np.testing.assert_array_equal(run(out.gather([3, 0])), [6, 0])
    parts = tf.TensorArray(tf.int32, 2, infer_shape=False).split(
        [1, 2, 3], [1, 2])
    np.testing.assert_array_equal(run(parts.concat()), [1, 2, 3])
    with pytest.raises(ValueError, match="Inconsistent shapes"):
        a.write(0, [1.0, 2.0, 3.0])


def test_maps_folds_and_scans(run):
    x = tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    y = tf.map_fn(lambda row: row * row[0], x)
    assert y.shape == [3, 2]
    np.testing.assert_array_equal(run(y), [[1, 2], [9, 12], [25, 30]])
    np.testing.assert_array_equal(
        run(tf.gradients(y, x)[0]), [[4, 1], [10, 3], [16, 5]])
    both = tf.map_fn(lambda p: p[0] + p[1], (x, -x), dtype=tf.float32)
    np.testing.assert_array_equal(run(both), np.zeros([3, 2]))
    i = tf.constant([1, 2, 3])
    assert run(tf.foldl(lambda a, e: a * 10 + e, i)) == 123
    assert run(tf.foldr(lambda a, e: a * 10 + e, i)) == 321
    assert run(tf.foldl(lambda a, e: a + e, i, initializer=10)) == 16
    np.testing.assert_array_equal(run(tf.scan(lambda a, e: a + e, i)),
                                  [1, 3, 6])
    np.testing.assert_array_equal(
        run(tf.scan(lambda a, e: a + e, i, initializer=10)), [11, 13, 16])
    np.testing.assert_array_equal(
        run(tf.scan(lambda a, e: a + e, i, reverse=True)), [6, 5, 3])


def test_tapes_record_ops_created_while_active(run):
    x, c = tf.constant(3.0), tf.constant(2.0)
    v = tf.Variable(5.0, name="v")
    frozen = tf.Variable(7.0, name="frozen", trainable=False)
    run(tf.global_variables_initializer())
    before = x * 10.0
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x * v + before + frozen * c
    grads = tape.gradient(y, {"x": x, "v": v, "more": [c, frozen]})
    assert grads["more"] == [None, None]
    # Operations from before the tape propagate no gradient.
    assert run([grads["x"], grads["v"]]) == [30, 9]
    assert [w.op.name for w in tape.watched_variables()] == ["v"]
    with pytest.raises(RuntimeError, match="non-persistent"):
        tape.gradient(y, x)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        with tape.stop_recording():
            z = y * 2.0
        w = z * y
    assert run(tape.gradient(w, x)) == 18 * 6
    assert run(tape.gradient(w, y)) == 18
    assert tape.gradient(z, x) is None
    assert run(tape.gradient(z, x, unconnected_gradients="zero")) == 0
    assert run(tape.gradient(y, x, output_gradients=tf.constant(2.0))) == 12


def test_tapes_within_tapes(run):
    for resource in (False, True):
        v = tf.Variable(2.0, use_resource=resource)
        run(v.initializer)
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                y = v * v * v
            first = inner.gradient(y, v)
        assert run([first, outer.gradient(first, v)]) == [12, 12]


def test_graph_defs_of_loop_gradients_use_tensorflow_ops(fresh_graph):
    x = tf.placeholder(tf.float32, [3, 3])

    def outer(i, y):
        _, z = tf.while_loop(lambda j, z: j < i,
                             lambda j, z: (j + 1, tf.tanh(tf.matmul(z, x))),
                             [0, y])
        return i + 1, z + x

    _, y = tf.while_loop(lambda i, y: i < 3, outer, [0, x])
    assert tf.gradients(y, x) != [None]
    ops = fresh_graph.get_operations()
    assert "MatMulAdd" not in {op.type for op in ops}
    arrays = [op for op in ops if op.type == "TensorArrayV3"
              and op.get_attr("dtype") is tf.resource]
    # TensorFlow infers that the handle of an array is a vector.
    assert arrays and all(op.get_attr("element_shape").unknown_rank
                          for op in arrays)


def test_control_flow_works_in_non_default_graph(fresh_graph):
    @tf.RegisterGradient("TimesThree")
    def _times_three(op, grad):
        return grad * tf.constant(3.0)

    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [])
    y = tf.cond(x > 0.0, lambda: x * tf.constant(2.0),
                lambda: tf.constant(1.0) - x)
    z = tf.while_loop(lambda v: v < tf.constant(100.0),
                      lambda v: v * 2.0 + tf.constant(1.0), [y])
    with graph.gradient_override_map({"Identity": "TimesThree"}):
        w = tf.identity(z)
    grad, = tf.gradients(w, x)
    with tf.name_scope(None, "sum", [grad]):
        total = grad + tf.constant(1.0, name="one")
    assert graph.get_tensor_by_name("sum/one:0").graph is graph
    assert tf.constant(1).graph is fresh_graph
    assert [op.type for op in fresh_graph.get_operations()] == ["Const"]
    with tf.Session(graph=graph) as session:
        assert session.run([z, total], {x: 3}) == [111, 97]
        assert session.run([z, total], {x: -5}) == [111, -47]


def test_numbers_join_the_graph_of_other_operands():
    graph = tf.Graph()
    with graph.as_default():
        x = tf.placeholder(tf.float32, [])

    @tf.custom_gradient
    def twice(a, b):
        return a * b, lambda dy: (2.0 * dy, tf.constant(0.0))

    n, total = tf.while_loop(lambda n, _: n < 3,
                             lambda n, t: (n + 1, t + 1.5), (0, x),
                             maximum_iterations=2)
    y = twice(x, 3.0)
    dx, = tf.gradients([total, y], x, grad_ys=[5.0, 1.0])
    assert tf.get_default_graph().get_operations() == []
    assert tf.constant(1).graph is tf.get_default_graph()
    with tf.Session(graph=graph) as session:
        assert session.run([n, total, y, dx], {x: 1.0}) == [2, 4, 3, 7]


def test_function_bodies_have_their_own_scopes():
    w = tf.constant([[2.0]])

    @tf.Defun(tf.float32)
    def body(x):
        with tf.name_scope(None, "scope", [w]):
            y = tf.matmul(tf.nn.relu(w), x)
        with tf.variable_scope(None, "more", [w]):
            return tf.reduce_sum(y * w)

    before = len(w.graph.get_operations())
    y = body([[3.0]])
    assert len(w.graph.get_operations()) == before + 2
    with tf.Session() as session:
        assert session.run(y) == 12


def test_a_loop_is_closed_by_hand(run):
    ops = tf.raw_ops
    enter = ops.Enter([1.0], frame_name="loop")
    merge = ops.Merge([enter, enter])
    out, again = ops.Switch(merge.output, ops.LoopCond(
        tf.reduce_all(merge.output < 100.0)))
    step = merge.output.op._update_input
    with pytest.raises(tf.errors.InvalidArgumentError,
                       match=r"expected the shape \[1\].*TensorFlow: Cannot"):
        step(1, ops.NextIteration(tf.concat([again, again], 0)))
    with pytest.raises(TypeError, match="expected float32"):
        step(1, ops.NextIteration(tf.cast(again, tf.int32)))
    with pytest.raises(tf.errors.OutOfRangeError, match="below 2"):
        step(2, ops.NextIteration(again))
    step(1, ops.NextIteration(again * 3.0))
    assert run(ops.Exit(out)) == [243]


def test_branches_may_give_one_value_or_a_list_of_it(run):
    pred = tf.placeholder(tf.bool, [])
    y = tf.cond(pred, lambda: tf.constant(1), lambda: [tf.constant(2)])
    assert run(y, {pred: True}) == 1 and run(y, {pred: False}) == 2
    z = tf.cond(pred, lambda: (tf.constant(3),), lambda: [tf.constant(4)])
    assert run(z, {pred: False}) == 4
    kept = tf.cond(pred, lambda: [tf.constant(5)], lambda: [tf.constant(6)],
                   strict=True)
    assert run(kept, {pred: True}) == [5]


def test_loop_with_one_variable_returns_tensor():
    i, nothing = tf.constant(0), []
    r = tf.while_loop(lambda i, _: i < 10, lambda i, _: [i + 1, []],
                      [i, nothing])
    with tf.Session() as session:
        assert session.run(r) == 10


def test_slices_are_switched_and_merged_by_component(run):
    slices = tf.IndexedSlices([1, 2], [0, 2])
    no, yes = control_flow.switch(slices, True)
    merged, which = control_flow.merge([no, yes])
    values, indices, which = run([merged.values, merged.indices, which])
    assert (list(values), list(indices), which) == ([1, 2], [0, 2], 1)


def test_values_wait_for_operations():
    v = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    number = control_flow.with_dependencies([v.initializer], 7)
    rows = control_flow.with_dependencies([v.initializer],
                                          tf.IndexedSlices(v, [1]))
    with tf.Session() as session:
        assert session.run(number) == 7
    with tf.Session() as session:
        np.testing.assert_array_equal(session.run(rows.values)[1], [3, 4])


def test_static_predicates_select_branch_at_build_time(run):
    def never():
        raise AssertionError("called")

    framework = tf.contrib.framework
    x = tf.placeholder(tf.int32, [])
    assert framework.smart_constant_value(tf.constant(False)) is False
    assert framework.smart_constant_value(x > 0) is None
    for one in (True, 1, 1.0, np.bool_(True), np.int64(1)):
        assert framework.smart_constant_value(one) is True
    assert framework.smart_constant_value(np.bool_(False)) is False
    for other in (2, None, [True], np.array([True, False])):
        with pytest.raises(TypeError, match="or 1 or 0"):
            framework.smart_constant_value(other)
    assert framework.smart_cond(True, lambda: 1, never) == 1
    assert framework.smart_cond(tf.constant(False), never, lambda: 2) == 2
    y = framework.smart_cond(x > 0, lambda: tf.constant(3),
                             lambda: tf.constant(4))
    assert run(y, {x: 1}) == 3 and run(y, {x: 0}) == 4
    assert framework.smart_case([(False, never), (1, lambda: 5),
                                 (x > 0, never)], never) == 5
    z = framework.smart_case([(False, never), (x > 0, lambda: tf.constant(6))],
                             lambda: tf.constant(7))
    assert run(z, {x: 1}) == 6 and run(z, {x: 0}) == 7
    with pytest.raises(TypeError, match="must be a Tensor, or a Python bool"):
        framework.smart_cond("yes", never, never)
    with pytest.raises(TypeError, match="must be callable"):
        framework.smart_cond(True, never)


def test_list_ops_have_module_names(run):
    items = list_ops.empty_tensor_list([None, 2], tf.float32)
    for n in (1, 1):
        items = tf.raw_ops.TensorListPushBack(items, tf.ones([n, 2]))
    assert run(list_ops.tensor_list_stack(items, tf.float32)).shape == (2, 1, 2)
    assert run(list_ops.tensor_list_concat(items, tf.float32)).shape == (2, 2)
    rest, last = list_ops.tensor_list_pop_back(items, tf.float32)
    assert run([tf.raw_ops.TensorListLength(rest), last])[0] == 1
    items = list_ops.tensor_list_from_tensor([1.0, 2.0, 3.0], [])
    assert list(run(list_ops.tensor_list_gather(items, [2, 0], tf.float32))
                ) == [3, 1]
    grown = list_ops.tensor_list_set_item(
        list_ops.tensor_list_reserve([], 1, tf.float32), 2, 5.0,
        resize_if_index_out_of_bounds=True)
    assert run(list_ops.tensor_list_get_item(grown, 2, tf.float32)) == 5
    placed = list_ops.tensor_list_scatter([1.0, 2.0], [1, 0], [])
    placed = list_ops.tensor_list_scatter([7.0], [1], input_handle=placed)
    assert list(run(list_ops.tensor_list_stack(placed, tf.float32))) == [2, 7]
    parts = list_ops.tensor_list_split([1.0, 2.0, 3.0], [None], [2, 1])
    assert list(run(list_ops.tensor_list_get_item(parts, 0, tf.float32))
                ) == [1, 2]


def test_prevented_gradients_are_errors():
    x = tf.constant(1.0)
    with pytest.raises(LookupError, match="explicitly disabled"):
        tf.gradients(tf.raw_ops.PreventGradient(input=x, message="why"), x)
    with pytest.raises(TypeError, match="complex tensors must set grad_ys"):
        tf.gradients(tf.square(tf.constant(7 + 3j)), x)


def test_map_results_must_match_dtype_structure():
    with pytest.raises(TypeError, match="structure"):
        tf.map_fn(lambda x: (x, x), tf.range(2), dtype=[tf.int32, tf.int32])


def test_arrays_are_checked_when_they_are_written(run):
    a = tf.TensorArray(tf.float32, 2, infer_shape=False, element_shape=[2])
    with pytest.raises(ValueError, match="Inconsistent shapes"):
        a.write(0, [1.0])
    with pytest.raises(tf.errors.InvalidArgumentError, match="float"):
        run(tf.TensorArray(tf.float32, 2).write(0, "one").flow)
    parts = tf.TensorArray(tf.float32, 3).split(np.ones([3, 2], np.float32),
                                                [1, 1, 1])
    assert parts.concat().shape == [3, 2]


def test_stopped_scan_outputs_have_zero_gradients(session):
    a, b, start = (tf.Variable(0.0) for _ in range(3))
    x, y = tf.scan(lambda state, e: (a, b + state[1]), tf.zeros(5),
                   (tf.zeros([]), start * 2.0))
    gradients = tf.gradients(x + tf.stop_gradient(y), [a, b, start])
    session.run(tf.global_variables_initializer())
    assert session.run(gradients) == [5, 0, 0]
    assert tf.gradients(x, [b]) == [None]


def test_map_fn_checks_elements_and_results(run):
    for function in (tf.map_fn, tf.foldl, tf.foldr, tf.scan):
        with pytest.raises(ValueError, match="elems must be"):
            function(lambda *x: x, [])
    spec = tf.TensorSpec([2], tf.int32)
    whole = tf.map_fn(lambda row: tf.cast(row, tf.int32),
                      tf.constant([[1.0, 2.0]]), fn_output_signature=spec)
    assert run(whole).tolist() == [[1, 2]]


def test_unknown_aggregation_method_is_refused():
    x = tf.constant(1.0)
    with pytest.raises(ValueError, match="Invalid `aggregation_method`"):
        tf.gradients(x * x, x, aggregation_method=7)


@pytest.mark.parametrize("has_shape", [True, False])
def test_initial_gradients_may_be_slices(run, has_shape):
    x = tf.placeholder_with_default(np.ones([3, 2], np.float32), [None, 2])
    rows = tf.IndexedSlices(tf.constant([[1.0, 2.0], [3.0, 4.0]]),
                            tf.constant([2, 0]),
                            tf.constant([3, 2]) if has_shape else None)
    dx, = tf.gradients(x * 5.0, x, grad_ys=rows)
    assert run(dx).tolist() == [[15, 20], [0, 0], [5, 10]]
    dx, = tf.gradients(tf.identity(x), x, grad_ys=[rows])
    assert isinstance(dx, tf.IndexedSlices)
    assert run(dx.indices).tolist() == [2, 0]
    dx, = tf.gradients([x, x * 2.0], x, grad_ys=[rows, None])
    np.testing.assert_array_equal(
        run(tf.convert_to_tensor(dx)), [[5, 6], [2, 2], [3, 4]])
    with pytest.raises(ValueError, match="expected float"):
        tf.gradients(x, x, grad_ys=tf.IndexedSlices(
            tf.constant([[1]]), tf.constant([0])))


def test_steps_enter_a_critical_section_one_after_another():
    with tf.Graph().as_default():
        section = tf.CriticalSection()
        v = tf.get_variable("v", initializer=0, use_resource=True)

        def grow():
            seen = v.read_value()
            with tf.control_dependencies([seen]):
                nap = tf.py_func(lambda x: time.sleep(0.001) or x, [seen],
                                 tf.int32)
            return v.assign(tf.reshape(nap, []) + 1)

        grown = [section.execute(grow) for _ in range(3)]
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            with futures.ThreadPoolExecutor(4) as pool:
                got = list(pool.map(lambda _: session.run(grown), range(5)))
            assert sorted(sum(got, [])) == list(range(1, 16))
            assert session.run(v) == 15


def test_critical_section_accepts_results_of_another(session):
    section = tf.CriticalSection(shared_name="s")
    same = tf.CriticalSection(shared_name="s")
    first = section.execute(lambda: tf.constant(2.0))
    second = same.execute(lambda: {"a": first * 3, "none": None})
    third = section.execute(lambda: tf.no_op())
    assert session.run(second["a"]) == 6 and second["none"] is None
    session.run(third)


def test_iterations_enter_a_critical_section(session):
    section = tf.CriticalSection()
    v = tf.get_variable("v", initializer=1.0, use_resource=True)
    by = tf.constant(2.0)
    last = tf.while_loop(
        lambda i, _: i < 5,
        lambda i, _: (i + 1, section.execute(
            lambda: v.assign(v.read_value() * by))), (0, 0.0))[1]
    session.run(tf.global_variables_initializer())
    session.run(last)  # Any iteration may be the first to enter it.
    assert session.run(v) == 32


def test_a_critical_section_that_an_error_ended_can_be_entered(session):
    section = tf.CriticalSection()
    x = tf.placeholder(tf.float32, [])
    checked = section.execute(lambda: tf.check_numerics(x, "wrong"))
    for _ in range(2):
        with pytest.raises(tf.errors.InvalidArgumentError, match="wrong"):
            session.run(checked, {x: np.nan})
    assert session.run(checked, {x: 1}) == 1


def test_possible_critical_section_deadlocks_are_refused():
    section = tf.CriticalSection(name="c")
    with pytest.raises(ValueError, match="already running"):
        section.execute(lambda: section.execute(lambda: tf.constant(1)))
    v = tf.get_variable("v", initializer=0, use_resource=True)
    section.execute(lambda: v.assign_add(1))
    other = tf.CriticalSection(name="d")
    with pytest.raises(ValueError, match="requested exclusive resource"):
        other.execute(lambda: v.assign_add(1))
    section.execute(lambda: v.assign_add(1))
    shared = tf.get_variable("w", initializer=0, use_resource=True)
    for each in (section, other):
        each.execute(lambda: shared.assign_add(1),
                     exclusive_resource_access=False)


def test_gradients_may_be_given_as_lists_of_one(run):
    x = tf.constant([[1.0, 2.0]])
    y = tf.reshape(x, [2])
    g = tf.gradients(tf.reduce_sum(y * y), y)
    assert run(tf.gradients(y, x, [-tf.convert_to_tensor(g)])[0]).tolist() == [
        [-2, -4]]
    with pytest.raises(ValueError, match="grad_ys: expected shape"):
        tf.gradients(y, x, tf.ones([3]))
