"""py_function: Python functions that compute with tensors that have values."""

import numpy as np
import pytest

import sluice.compat.v1 as tf


def log_huber(x, m):
    if tf.abs(x) <= m:
        return x ** 2
    return m ** 2 * (1 - 2 * tf.log(m) + tf.log(x ** 2))


def test_tensors_have_values_inside_py_function(run):
    seen = []

    def look(x, n, s):
        assert isinstance(x, tf.Tensor) and x.shape == [2, 2]
        total = tf.reduce_sum(x)
        seen.append((total.numpy(), int(n), float(total), bool(n > 2),
                     len(x), [row.numpy().tolist() for row in x], s.numpy(),
                     list(range(n)), f"{total:.1f}", np.sqrt(x).tolist(),
                     total.eval()))
        assert "shape=()" in str(total)
        return total + tf.cast(n, tf.float32), s + "!", n

    made = tf.py_function(look, [tf.constant([[1.0, 4.0], [9.0, 16.0]]), 3,
                                 "word"], [tf.float32, tf.string, tf.int32])
    assert made[0].op.type == "EagerPyFunc"
    assert run(made) == [33.0, b"word!", 3]
    assert seen == [(30.0, 3, 30.0, True, 2, [[1, 4], [9, 16]], b"word",
                     [0, 1, 2], "30.0", [[1, 2], [3, 4]], 30.0)]


def test_gradients_follow_the_executed_path(run):
    x, m = tf.placeholder(tf.float32, []), tf.constant(2.0)
    y = tf.py_function(log_huber, [x, m], tf.float32)
    dx, dm = tf.gradients(y, [x, m], 3.0)
    assert dx.shape == [] and dm.shape == []
    for value, of_x, of_m in ((1.0, 2.0, 0.0),
                              (4.0, 2.0, 4 - 8 * np.log(2) - 4
                               + 4 * np.log(16))):
        got = run([y, dx, dm], {x: value})
        expected = value ** 2 if value < 2 else 4 * (
            1 - 2 * np.log(2) + np.log(16))
        np.testing.assert_allclose(got, [expected, 3 * of_x, 3 * of_m], 1e-5)
    # Gradients of gradients work, too.
    again, = tf.gradients(tf.py_function(lambda v: v ** 3, [x], tf.float32), x)
    more, = tf.gradients(again, x)
    assert run([again, more], {x: 2.0}) == [12, 12]


def test_gradients_of_selected_outputs(run):
    x, n = tf.constant([1.0, 2.0]), tf.constant(3)

    def several(x, n):
        return x * tf.cast(n, tf.float32), n + 1, tf.reduce_sum(x * x), 7.0

    made = tf.py_function(several, [x, n],
                          [tf.float32, tf.int32, tf.float32, tf.float32])
    dx, dn = tf.gradients([made[0], made[2]], [x, n])
    assert dn is None
    assert run(dx).tolist() == [5, 7]
    # Unused results have zero gradients; integers have none.
    assert run(tf.gradients(made[3], x)[0]).tolist() == [0, 0]
    assert tf.gradients(tf.py_function(lambda n: n, [n], tf.int32), n) == [None]


def test_loops_branches_and_functions_call_them(run):
    def step(i, x):
        y = tf.py_function(lambda v: v * v if v < 10.0 else v + 1.0, [x],
                           tf.float32)
        y.set_shape([])
        return i + 1, y

    x = tf.constant(2.0)
    _, y = tf.while_loop(lambda i, _: i < 3, step, [0, x])
    dy, = tf.gradients(y, x)
    assert run([y, dy]) == [17, 32]
    z = tf.function(lambda v: tf.py_function(log_huber, [v, 2.0], tf.float32))(x)
    dz, = tf.gradients(z, x)
    assert run([z, dz]) == [4, 4]
    w = tf.cond(x > 1.0, lambda: tf.py_function(lambda v: v ** 3, [x],
                                                tf.float32), lambda: x)
    assert run([w, tf.gradients(w, x)[0]]) == [8, 12]


@pytest.mark.parametrize("dtype", [
    tf.bfloat16, tf.float16, tf.float64, tf.int8, tf.uint16, tf.bool,
    tf.complex64])
def test_types_are_preserved(run, dtype):
    x = tf.cast([0, 1], dtype)
    y = tf.py_function(lambda v: v, [x], dtype)
    z = tf.py_function(tf.function(lambda v: tf.stack([v, v])), [x], dtype)
    assert run(tf.cast(y, tf.float32)).tolist() == [0, 1]
    assert run(tf.cast(z, tf.float32)).tolist() == [[0, 1]] * 2


def test_side_effects_run_once_in_order(run):
    seen = []

    def draw():
        one = tf.random_uniform([])
        tf.py_func(lambda: seen.append("first"), [], [])
        two = one + 0.0
        tf.py_func(lambda v: seen.append(v > 2.0), [one], [])
        if one > 0.5:
            seen.append("big")
        return one, two, one.numpy()

    for _ in range(5):
        one, two, three = run(tf.py_function(draw, [], [tf.float32] * 3))
        assert one == two == three
        assert seen == ["first", False] + ["big"] * bool(one > 0.5)
        seen.clear()


def test_functions_without_results_and_as_decorators(run):
    seen = []
    op = tf.py_function(lambda x: seen.append(float(x)), [1.5], [])
    assert isinstance(op, tf.Operation)
    assert run(op) is None and seen == [1.5]

    @tf.py_function(Tout=[tf.float32])
    def doubled(x):
        """Twice."""
        return [x * 2.0]

    assert doubled.__doc__ == "Twice."
    assert run(doubled(tf.constant(2.0))) == [4]
    sparse = tf.SparseTensor([[1]], [3.0], [2])
    dense = tf.py_function(lambda s, k: tf.sparse.to_dense(s) + k,
                           [sparse, 1.0], tf.float32)
    assert run(dense).tolist() == [1, 4]
    ds, = tf.gradients(dense, sparse.values)
    assert run(ds).tolist() == [1]


@pytest.mark.parametrize("function, error, message", [
    (lambda x: 1 / 0, tf.errors.UnknownError, "ZeroDivisionError"),
    (lambda x: [x, x], tf.errors.InvalidArgumentError, "expected 1 results"),
    (lambda x: None, tf.errors.InvalidArgumentError, "expected 1 results"),
    (lambda x: "word", tf.errors.InvalidArgumentError, "Expected float32"),
    (lambda x: tf.cast(x, tf.int32), tf.errors.InvalidArgumentError, "float32"),
    (lambda x: tf.reshape(x, [7]) + 1.0, tf.errors.InvalidArgumentError,
     "reshape"),
    (lambda x: tf.Variable(1.0), tf.errors.UnknownError,
     "Attempting to return a variable"),
    (lambda x: x[0] if x > 1 else x, tf.errors.InvalidArgumentError, "truth"),
    (lambda x: tf.check_numerics(tf.log(x - 3.0), "mine"),
     tf.errors.UnknownError, "InvalidArgumentError: mine")])
def test_errors_become_step_errors(run, function, error, message):
    y = tf.py_function(function, [tf.constant([1.0, 2.0])], tf.float32)
    with pytest.raises(error, match=message):
        run(y)


def test_wrong_arguments_and_graphs_are_errors():
    with pytest.raises(ValueError, match="Expected func to be callable"):
        tf.py_function(3, [], tf.float32)
    with pytest.raises(TypeError, match="inp: expected a list"):
        tf.py_function(abs, 3, tf.float32)
    x = tf.constant(1.0)
    with pytest.raises(TypeError, match="as a Python `bool`"):
        bool(tf.py_function(lambda: 1.0, [], tf.float32))
    y = tf.py_function(lambda v: v * x, [x], tf.float32)
    with tf.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match="same graph"):
            session.run(y)
    definition = tf.get_default_graph().as_graph_def()
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(definition, name="")
        z = graph.get_tensor_by_name(y.name)
        with pytest.raises(LookupError, match="a GraphDef does not hold"):
            tf.gradients(z, graph.get_tensor_by_name(x.name))
