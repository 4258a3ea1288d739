"""Ops that call Python functions."""

import gc
import os
import signal
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

import sluice.compat.v1 as tf


def test_functions_take_and_return_arrays(run):
    x = tf.placeholder(tf.float32, [None])
    total, doubled = tf.py_func(lambda a: (a.sum(), 2 * a), [x],
                                [tf.float32, tf.float32])
    assert total.op.type == "PyFunc" and total.shape.ndims is None
    for n in (0, 3, 10000):
        a = np.arange(n, dtype=np.float32)
        got = run([total, doubled], {x: a})
        assert got[0] == a.sum()
        np.testing.assert_array_equal(got[1], 2 * a)


def test_single_type_gives_tensor_and_list_gives_list(run):
    one = tf.numpy_function(lambda: np.int64(7), [], tf.int64)
    some = tf.py_func(lambda: [np.int64(7)], [], [tf.int64])
    assert isinstance(one, tf.Tensor) and isinstance(some, list)
    assert run([one, some]) == [7, [7]]


def test_functions_without_results_are_operations(run):
    seen = []
    op = tf.py_func(lambda a: seen.append(a.tolist()), [tf.constant([1, 2])],
                    [])
    assert isinstance(op, tf.Operation)
    run(op)
    run(op)
    assert seen == [[1, 2], [1, 2]]


def test_scalars_and_strings(run):
    def describe(s, n, many):
        assert type(s) is bytes and type(n) is np.int32
        assert many.dtype == object
        return [s + b"/" + many[1], np.array(["a", "bc"]), [b"x", b"\xff"],
                True]

    made = tf.py_func(describe, [tf.constant("hi"), 3,
                                 tf.constant(["p", "q"])],
                      [tf.string, tf.string, tf.string, tf.bool])
    got = run(made)
    assert got[0] == b"hi/q" and got[3]
    assert got[1].tolist() == [b"a", b"bc"] and got[2].tolist() == [b"x",
                                                                    b"\xff"]


def test_python_numbers_are_converted_to_declared_types(run):
    made = tf.py_func(lambda: (1.5, [1, 2], 3, 2.5),
                      [], [tf.float64, tf.int64, tf.uint8, tf.half])
    got = run(made)
    assert [v.dtype.name for v in got] == ["float64", "int64", "uint8",
                                           "float16"]


@pytest.mark.parametrize("given, types, message", [
    (lambda: np.float64(1), tf.float32, "expected float as result 0, got "
                                        "double"),
    (lambda: np.array([1]), tf.int32, "expected int32 as result 0, got int64"),
    (lambda: (1.0, 2.0), tf.float32, "expected 1 results, got 2"),
    (lambda: None, tf.float32, "expected 1 results, got 0"),
    (lambda: 1.0, [], "expected 0 results, got 1"),
    (lambda: 1.5, tf.int32, "Expected int32, but got 1.5"),
    (lambda: [np.float32(1), "a"], [tf.float32, tf.int32],
     "Expected int32, but got 'a'"),
    (lambda: [[1], [2, 3]], [tf.int32, tf.int32, tf.int32],
     "expected 3 results, got 2"),
    (object, tf.float32, "Failed to convert|Expected float32"),
])
def test_wrong_results_are_errors(run, given, types, message):
    made = tf.py_func(given, [], types, name="wrong")
    with pytest.raises(tf.errors.InvalidArgumentError, match=message) as e:
        run(made)
    assert e.value.op.name == "wrong" and "test_py_func.py:" in str(e.value)


@pytest.mark.parametrize("raised, error", [
    (ValueError("too odd"), tf.errors.InvalidArgumentError),
    (TypeError("too odd"), tf.errors.InvalidArgumentError),
    (StopIteration("too odd"), tf.errors.OutOfRangeError),
    (NotImplementedError("too odd"), tf.errors.UnimplementedError),
    (MemoryError("too odd"), tf.errors.ResourceExhaustedError),
    (ZeroDivisionError("too odd"), tf.errors.UnknownError),
    (SystemExit("too odd"), tf.errors.CancelledError)])
def test_exceptions_become_step_errors(run, raised, error):
    def fail(x):
        if x > 1:
            raise raised
        return x

    x = tf.placeholder(tf.float32, [])
    y = tf.py_func(fail, [x], tf.float32)
    assert run(y, {x: 1}) == 1
    with pytest.raises(error) as e:
        run(y, {x: 2})
    assert type(raised).__name__ in str(e.value)
    if isinstance(raised, Exception):
        assert f"{type(raised).__name__}: too odd" in str(e.value)
        assert "in fail" in str(e.value)  # The message has the traceback.
    assert run(y, {x: 1}) == 1


def test_wrong_arguments_are_errors():
    with pytest.raises(ValueError, match="Expected func to be callable"):
        tf.py_func(3, [], tf.float32)
    with pytest.raises(TypeError, match="inp: expected a list"):
        tf.py_func(abs, 3, tf.float32)


def test_stateful_functions_are_called_each_time(run):
    calls = []

    def count(x):
        calls.append(x)
        return x

    one = tf.constant(1.0)
    a, b = (tf.py_func(count, [one], tf.float32) for _ in range(2))
    run([a, b])
    run([a, b])
    assert len(calls) == 4
    calls.clear()
    c = tf.py_func(count, [one], tf.float32, stateful=False)
    assert c.op.type == "PyFuncStateless"
    assert run(c) == 1 and len(calls) >= 1


def test_functions_run_in_loops_and_conditionals(run):
    seen = []

    def step(i, x):
        seen.append(int(i))
        return x * np.float32(2)

    def body(i, x):
        y = tf.py_func(step, [i, x], tf.float32)
        y.set_shape(x.shape)
        return i + 1, y

    n = tf.placeholder(tf.int32, [])
    _, y = tf.while_loop(lambda i, x: i < n, body, [0, tf.ones([2])])
    np.testing.assert_array_equal(run(y, {n: 5}), [32, 32])
    assert seen == [0, 1, 2, 3, 4]
    z = tf.cond(n > 3, lambda: tf.py_func(lambda: np.float32(1), [],
                                          tf.float32),
                lambda: tf.py_func(lambda: np.float32(1 / 0), [], tf.float32))
    assert run(z, {n: 5}) == 1
    with pytest.raises(tf.errors.UnknownError, match="ZeroDivisionError"):
        run(z, {n: 1})


def test_gradients_can_be_overridden(run, fresh_graph):
    @tf.RegisterGradient("CubeOfPython")
    def _cube_grad(op, dy):
        return dy * tf.py_func(lambda x: 3 * x * x, [op.inputs[0]],
                               tf.float32)

    x = tf.placeholder(tf.float32, [3])
    with fresh_graph.gradient_override_map({"PyFunc": "CubeOfPython"}):
        y = tf.py_func(lambda x: x ** 3, [x], tf.float32)
    plain = tf.py_func(lambda x: x ** 3, [x], tf.float32)
    grad, = tf.gradients(y, x)
    np.testing.assert_array_equal(run(grad, {x: [1, 2, 3]}), [3, 12, 27])
    assert tf.gradients(plain, x) == [None]

    # It works in a loop, too.
    def body(i, v):
        with fresh_graph.gradient_override_map({"PyFunc": "CubeOfPython"}):
            w = tf.py_func(lambda x: x ** 3, [v], tf.float32)
        w.set_shape(v.shape)
        return i + 1, w

    _, ninth = tf.while_loop(lambda i, v: i < 2, body, [0, x])
    np.testing.assert_allclose(run(tf.gradients(ninth, x)[0], {x: [1, 2, 3]}),
                               [9, 9 * 2.0 ** 8, 9 * 3.0 ** 8])


def test_functions_may_modify_and_keep_arrays(run):
    kept = []

    def keep(a):
        a[0] = 7
        kept.append(a)
        return a

    c = tf.constant(np.zeros(1000, np.float32))
    y = tf.py_func(keep, [c + 0.0], tf.float32)
    z = tf.py_func(keep, [c], tf.float32)
    for _ in range(3):
        got = run([y, z, c])
        assert got[0][0] == 7 and got[1][0] == 7 and got[2][0] == 0
    kept[0][1] = 9
    assert kept[1][1] == 0 and run(c)[1] == 0


def test_function_may_run_a_step(session):
    x = tf.constant(3.0)
    y = tf.py_func(lambda: session.run(x * 2), [], tf.float32)
    inner = x * 2  # The function adds to the graph during the step.
    del inner
    assert session.run(y) == 6.0


def test_threads_share_a_function(session):
    x = tf.placeholder(tf.float32, [100])
    y = tf.py_func(lambda a: a + np.float32(1), [x], tf.float32)
    wrong = []

    def work(k):
        for _ in range(100):
            if session.run(y, {x: np.full(100, k)})[5] != k + 1:
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


@pytest.mark.parametrize("define", [tf.Defun(tf.float32), tf.function])
def test_functions_in_function_bodies_stay_alive(run, define):
    @define
    def doubled(x):
        one, = tf.py_func(lambda: np.float32(1), [], [tf.float32])
        return tf.py_func(lambda a: a + a, [x], tf.float32) + one

    y = doubled(tf.constant(3.0))
    gc.collect()
    assert run(y) == 7.0


def test_functions_live_as_long_as_their_graph():
    class Model:
        def __call__(self, x):
            return x + np.float32(1)

        def method(self, x):
            return self(x)

    model = Model()
    gone = weakref.ref(model)
    with tf.Graph().as_default() as graph:
        y = tf.py_func(model, [1.0], tf.float32)
        # The function and the graph refer to each other.
        z = tf.py_func(lambda x, m=model, g=graph: m(x), [y], tf.float32)
        w = tf.py_func(model.method, [z], tf.float32)
    del model
    with tf.Session(graph=graph) as session:
        gc.collect()
        assert session.run(w) == 4.0
    definition = graph.as_graph_def()
    with tf.Graph().as_default() as other:
        again, = tf.import_graph_def(definition, return_elements=[w.name])
        with tf.Session() as session:
            assert session.run(again) == 4.0
            del graph, y, z, w
            gc.collect()
            assert gone() is None
            with pytest.raises(tf.errors.FailedPreconditionError,
                               match="whose graph exists"):
                session.run(again)
    del other


def test_ctrl_c_interrupts_a_function(session):
    def slow():
        threading.Timer(0.05, os.kill, [os.getpid(), signal.SIGINT]).start()
        threading.Event().wait(20)

    op = tf.py_func(slow, [], [])
    with pytest.raises(KeyboardInterrupt):
        session.run(op)
    assert session.run(tf.constant(1)) == 1


def test_program_may_exit_while_threads_are_in_functions():
    program = """if True:
        import threading, time
        import sluice.compat.v1 as tf
        n = tf.constant(1.0)
        ops = [tf.py_func(lambda x: time.sleep(20), [n], []),
               tf.while_loop(lambda i: i >= 0, lambda i: tf.reshape(
                   tf.py_func(abs, [i], tf.int32), []), [1])]
        session = tf.Session()
        for op in ops:
            threading.Thread(target=session.run, args=[op], daemon=True).start()
        time.sleep(0.2)
    """
    for _ in range(3):
        subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_exceptions_without_text_are_reported(run):
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError("no")

    def mute():
        raise Mute

    def half_a_character():
        raise ValueError("\ud800")

    with pytest.raises(tf.errors.UnknownError, match="Mute"):
        run(tf.py_func(mute, [], tf.float32))
    with pytest.raises(tf.errors.InvalidArgumentError,
                       match=r"ValueError: \\ud800"):
        run(tf.py_func(half_a_character, [], tf.float32))


def test_program_may_exit_while_functions_compute():
    program = """if True:
        import threading, time
        import sluice.compat.v1 as tf
        def compute():
            while True: pass
        ops = [tf.py_func(compute, [], []) for _ in range(2)]
        session = tf.Session()
        for op in ops:
            threading.Thread(target=session.run, args=[op], daemon=True).start()
        time.sleep(0.2)
    """
    for _ in range(3):
        subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
