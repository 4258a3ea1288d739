"""Sessions: fetches, feeds, callables, errors, threads."""

import collections
import copy
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest

import sluice.compat.v1 as tf
from sluice.compat.internals import timeline
from sluice.framework import protos


def test_results_keep_structure_of_fetches(run):
    a, b = tf.constant(1.0, name="a"), tf.constant([2, 3])
    op = tf.no_op()
    Pair = collections.namedtuple("Pair", ["first", "second"])
    got = run([a, (b, op), {"x": a, "y": [b, "a:0", "a"]}, Pair(a, b)])
    assert got[0] == 1.0 and type(got[0]) is np.float32
    assert type(got[1]) is tuple and got[1][1] is None
    np.testing.assert_array_equal(got[2]["y"][0], [2, 3])
    assert got[2]["y"][1] == 1.0 and got[2]["y"][2] is None
    assert type(got[3]) is Pair and got[3].first == 1.0
    assert run([]) == [] and run(op) is None
    ordered = run(collections.OrderedDict([("z", a), ("a", a)]))
    assert list(ordered) == ["z", "a"]


def test_sparse_fetches_and_feeds(run):
    sparse = tf.SparseTensor([[0, 1], [2, 0]], [1.0, 2.0], [3, 2])
    got = run(sparse)
    assert isinstance(got, tf.SparseTensorValue)
    np.testing.assert_array_equal(got.indices, [[0, 1], [2, 0]])
    dense = tf.sparse_to_dense(sparse.indices, sparse.dense_shape,
                               sparse.values)
    np.testing.assert_array_equal(
        run(dense, {sparse: tf.SparseTensorValue([[0, 0], [1, 1]], [4.0, 5.0],
                                                  [3, 2])}),
        [[4, 0], [0, 5], [0, 0]])
    slices = tf.IndexedSlices(tf.constant([[1.0]]), tf.constant([3]))
    assert run(slices).indices == [3]


def test_sparse_feeds_provide_all_components(session):
    sparse = tf.sparse_placeholder(tf.float32)
    total = tf.sparse_reduce_sum(sparse)
    value = tf.SparseTensorValue([[0, 0], [1, 1]], [4.0, 5.0], [3, 2])
    handle = session.partial_run_setup(total, [sparse])
    assert session.partial_run(handle, total, {sparse: value}) == 9
    with pytest.raises(ValueError, match="expected 3 values .* got 2"):
        session.run(total, {sparse: value[:2]})
    slices = tf.IndexedSlices(tf.placeholder(tf.float32), tf.placeholder(
        tf.int32))
    fed = session.run(slices, {slices: ([[1.0]], [3])})
    assert fed.indices == [3] and fed.dense_shape is None
    assert session.run(slices, {slices: fed}).values == [[1.0]]


def test_wrong_fetches(run):
    with pytest.raises(RuntimeError, match="graph is empty"):
        run([])
    tf.no_op()
    with pytest.raises(TypeError, match="has invalid type"):
        run(37)
    with pytest.raises(TypeError, match="None has invalid type"):
        run(None)
    with pytest.raises(ValueError, match="cannot be interpreted as a Tensor"):
        run("nothing:0")
    with tf.Graph().as_default():
        other = tf.constant(1)
    with pytest.raises(ValueError, match="is not an element of this graph"):
        run(other)


def test_feeds(run):
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    y = x * 2.0
    np.testing.assert_array_equal(run(y, {x: [[1, 2]]}), [[2, 4]])
    np.testing.assert_array_equal(run(y, {"x:0": [[1, 2]]}), [[2, 4]])
    # Any tensor can be fed.
    np.testing.assert_array_equal(run(y + 1.0, {y: np.zeros([1, 2])}),
                                  [[1, 1]])
    with pytest.raises(ValueError, match=r"Cannot feed value of shape \(3,\) "
                                         r"for Tensor x:0"):
        run(y, {x: [1, 2, 3]})
    with pytest.raises(TypeError, match="cannot be a tf.Tensor"):
        run(y, {x: tf.constant([[1.0, 2.0]])})
    with pytest.raises(TypeError, match="Cannot interpret feed_dict key"):
        run(y, {"nothing:0": 1})
    with pytest.raises(TypeError, match="Expected float32"):
        run(y, {x: [["a", "b"]]})
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        run(y)
    assert caught.value.op is x.op and caught.value.node_def.name == "x"
    # Arrays may be non-contiguous or of another dtype.
    big = np.arange(12.0).reshape(2, 6)
    np.testing.assert_array_equal(run(x, {x: big[:, ::3]}), big[:, ::3])
    np.testing.assert_array_equal(run(x, {x: big.T[:, :]}), big.T)


def test_errors_of_steps():
    x = tf.placeholder(tf.int32, name="x")
    y = tf.raw_ops.Div(x=tf.constant(1), y=x, name="quotient")
    with tf.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError) as caught:
            session.run(y, {x: 0})
        error = caught.value
        assert isinstance(error, tf.OpError) and error.error_code == 3
        assert error.op.name == "quotient" and "quotient" in error.message
        assert "test_session.py:" in str(error)
        v = tf.Variable(1.0, name="v")
        with pytest.raises(tf.errors.FailedPreconditionError, match="v"):
            session.run(v)
    with pytest.raises(RuntimeError, match="closed Session"):
        session.run(y)


def test_errors_keep_their_code():
    unknown = tf.errors.UnknownError(None, None, "what", 37)
    for error, code in ((unknown, 37), (tf.OpError(None, None, "what", 7), 7),
                        (tf.errors.AbortedError(None, None, "what"), 10)):
        again = pickle.loads(pickle.dumps(error))
        assert [error.error_code, again.error_code] == [code, code]
        assert type(again) is type(error) and again.message == "what"


def test_callables(run):
    with tf.Session() as session:
        x = tf.placeholder(tf.float32, [])
        y = tf.placeholder(tf.float32, [2])
        f = session.make_callable(x * y, [x, y])
        np.testing.assert_array_equal(f(2.0, [1, 2]), [2, 4])
        both = session.make_callable({"a": x, "b": [x + 1.0]}, [x])
        assert both(1.0) == {"a": 1.0, "b": [2.0]}
        with pytest.raises(TypeError, match="expected 2 values"):
            f(1.0)
        with pytest.raises(ValueError, match="Cannot feed value of shape"):
            f(1.0, [1, 2, 3])
        assert session.make_callable(tf.no_op())() is None
        options = tf.RunOptions(timeout_in_ms=5000)
        metadata = tf.RunMetadata()
        f(2.0, [1, 2], options=options, run_metadata=metadata)
        assert metadata.wall_nanos > 0


def test_callables_are_created_only_by_sessions(session):
    kind = type(session.make_callable(tf.constant(1)))
    with pytest.raises(TypeError, match="expected one that make_callable gave"):
        kind.__new__(kind)()


def test_run_metadata(run):
    metadata = tf.RunMetadata()
    x = tf.placeholder(tf.float32, [2])
    full = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    run(x + 1.0, {x: [1, 2]}, options=full,
        run_metadata=metadata)
    assert metadata.wall_nanos > 0 and "traceEvents" in metadata.chrome_trace
    copied = tf.RunMetadata()
    copied.CopyFrom(metadata)
    for other in (copied, copy.deepcopy(metadata)):
        assert other == metadata
        for name in ("wall_nanos", "peak_bytes", "live_bytes", "chrome_trace"):
            assert getattr(other, name) == getattr(metadata, name)
    copied.Clear()
    assert copied.wall_nanos == 0 and metadata.wall_nanos > 0


def test_step_stats(run):
    metadata = tf.RunMetadata()
    x = tf.placeholder(tf.float32, [50, 50], name="x")
    y = tf.matmul(x, x, name="product")
    run(y, {x: np.ones([50, 50])}, run_metadata=metadata)
    assert not metadata.step_stats.dev_stats  # The step was not traced.
    run(y, {x: np.ones([50, 50])},
        options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE),
        run_metadata=metadata)
    device, = metadata.step_stats.dev_stats
    stats = {node.node_name: node for node in device.node_stats}
    product = stats["product"]
    assert product.timeline_label == "product = MatMul: float[50,50]"
    assert product.all_end_rel_nanos > 0
    assert product.memory[0].total_bytes >= 10000


def _forever():
    return tf.while_loop(lambda i: i >= 0, lambda i: tf.abs(i), [1])


def test_timeouts(run):
    forever = _forever()
    with pytest.raises(tf.errors.DeadlineExceededError):
        run(forever, options=tf.RunOptions(timeout_in_ms=50))
    with tf.Session(config=tf.ConfigProto(operation_timeout_in_ms=50)) as s:
        with pytest.raises(tf.errors.DeadlineExceededError):
            s.run(forever)
        with pytest.raises(tf.errors.DeadlineExceededError):
            s.make_callable(forever)()


def test_partial_runs(session):
    a = tf.placeholder(tf.float32, [])
    b = tf.placeholder(tf.float32, [])
    c = tf.placeholder(tf.float32, [])
    first = a + b
    second = first * c
    done = tf.group(second)
    handle = session.partial_run_setup([first, second, done], [a, b, c])
    assert session.partial_run(handle, first, {a: 1, b: 2}) == 3
    with pytest.raises(tf.errors.InvalidArgumentError, match="feeds missing"):
        session.partial_run(handle, second)
    got = session.partial_run(handle, {"x": [second, done]}, {c: 17})
    assert got == {"x": [51, None]}
    with pytest.raises(tf.errors.InvalidArgumentError, match="been fetched"):
        session.partial_run(handle, second)
    # Two partial runs are independent of each other.
    one, two = (session.partial_run_setup([first, second], [a, b, c])
                for _ in range(2))
    assert session.partial_run(one, first, {a: 1, b: 1}) == 2
    assert session.partial_run(two, first, {a: 2, b: 2}) == 4
    assert session.partial_run(one, second, {c: 10}) == 20
    with tf.Session() as other:
        with pytest.raises(tf.errors.InvalidArgumentError,
                           match="expected what partial_run_setup"):
            other.partial_run(two, second, {c: 10})


def _interrupt_soon():
    timer = threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGINT])
    timer.start()
    return timer


def _interrupted(step):
    """Runs a step that Ctrl-C ends after a short time."""
    with pytest.raises(KeyboardInterrupt):  # It may come before the step.
        timer = _interrupt_soon()
        step()
    timer.join()


def _endless_steps(session):
    forever = _forever()
    handle = session.partial_run_setup([forever])
    call = session.make_callable(forever)
    options = tf.RunOptions(timeout_in_ms=60000)
    return {"run": lambda: session.run(forever), "callable": call,
            "with options": lambda: session.run(forever, options=options),
            "partial": lambda: session.partial_run(handle, forever)}


@pytest.mark.parametrize("kind", ["run", "callable", "with options",
                                  "partial"])
@pytest.mark.parametrize("regions", [True, False])
def test_ctrl_c_ends_a_step_of_the_main_thread(kind, regions):
    config = tf.ConfigProto()
    if not regions:
        config.graph_options.optimizer_options.opt_level = -1
    with tf.Session(config=config) as session:
        _interrupted(_endless_steps(session)[kind])
        assert session.run(tf.constant(5)) == 5  # The session remains usable.


def test_ctrl_c_does_not_affect_steps_of_other_threads(session):
    n = tf.placeholder(tf.int32, [])
    count = tf.while_loop(lambda i: i < n, lambda i: i + 1, [0])
    forever = _forever()
    stop = threading.Event()
    seen = []

    def steps():
        while not stop.is_set():
            seen.append(session.run(count, {n: 200000}))

    thread = threading.Thread(target=steps)
    thread.start()
    for _ in range(3):
        _interrupted(lambda: session.run(forever))
    stop.set()
    thread.join()
    assert seen and set(seen) == {200000}


def test_user_signal_handler_runs_after_the_step(session):
    # For example, a handler may request a stop after the epoch.
    n = tf.placeholder(tf.int32, [])
    count = tf.while_loop(lambda i: i < n, lambda i: i + 1, [0])
    noted = []
    before = signal.signal(signal.SIGINT, lambda *args: noted.append(args))
    try:
        os.kill(os.getpid(), signal.SIGINT)
        timer = _interrupt_soon()
        while len(noted) < 2:
            assert session.run(count, {n: 1000000}) == 1000000
        timer.join()
    finally:
        signal.signal(signal.SIGINT, before)
    forever = _forever()
    _interrupted(lambda: session.run(forever))  # This works as before.


@pytest.mark.parametrize("where", ["before", "within"])
def test_ctrl_c_ends_the_step_despite_other_handler(session, where):
    # Jupyter sets this handler before each cell.
    def handle():
        signal.signal(signal.SIGINT, signal.default_int_handler)

    forever = _forever()
    if where == "within":
        with tf.control_dependencies([tf.py_func(handle, [], [])]):
            forever = _forever()
    small = session.make_callable(tf.constant(1))
    for _ in range(3):
        for _ in range(10000):
            small()
        if where == "before":
            handle()
        _interrupted(lambda: session.run(forever))


def test_default_sessions():
    x = tf.constant(3.0)
    with pytest.raises(ValueError, match="No default session"):
        x.eval()
    with tf.Session() as session:
        assert tf.get_default_session() is session
        assert x.eval() == 3.0 and (x * x).eval() == 9.0
        tf.no_op().run()
        with tf.Session() as inner:
            assert tf.get_default_session() is inner
        assert tf.get_default_session() is session
    assert tf.get_default_session() is None
    session = tf.InteractiveSession()
    assert x.eval() == 3.0
    session.close()
    assert tf.get_default_session() is None
    with tf.Graph().as_default():
        y = tf.constant(1)
        with tf.Session() as session:
            with pytest.raises(ValueError, match="different from"):
                x.eval()
            assert session.graph is y.graph


def test_config():
    config = tf.ConfigProto(inter_op_parallelism_threads=2,
                            intra_op_parallelism_threads=1,
                            allow_soft_placement=True, device_count={"CPU": 2})
    config.gpu_options.allow_growth = True
    with tf.device("/cpu:1"):
        x = tf.constant(2.0) * 3.0
    with tf.Session(config=config) as session:
        assert session.run(x) == 6.0
        one, two = session.list_devices()
        assert one.name == "/job:localhost/replica:0/task:0/device:CPU:0"
        assert one.device_type == two.device_type == "CPU"
        assert one.memory_limit_bytes == two.memory_limit_bytes > 1 << 28
        assert one.incarnation not in (0, two.incarnation)
        assert session.list_devices()[1].incarnation == two.incarnation
        assert repr(two) == (f"_DeviceAttributes({two.name}, CPU, "
                             f"{two.memory_limit_bytes}, {two.incarnation})")
    with pytest.raises(ValueError, match='no "alow_soft_placement" field'):
        tf.ConfigProto(alow_soft_placement=True)
    for message in (config, config.gpu_options, tf.RunOptions()):
        with pytest.raises(AttributeError, match="alow_growth"):
            message.alow_growth = True
    with pytest.raises(TypeError, match="graph must be a tf.Graph"):
        tf.Session(graph="g")


def test_threads_share_a_session():
    x = tf.placeholder(tf.float32, [100, 100])
    y = tf.reduce_sum(tf.matmul(x, x))
    wrong = []
    with tf.Session() as session:
        def work(k):
            array = np.full([100, 100], k, np.float32)
            for _ in range(30):
                if session.run(y, {x: array}) != 1e6 * k * k:
                    wrong.append(k)

        threads = [threading.Thread(target=work, args=(k,)) for k in (1, 2, 3)]
        for t in threads:
            t.start()
        # The graph grows during the steps.
        grown = [tf.constant(i) + 1 for i in range(100)]
        for t in threads:
            t.join()
        assert session.run(grown[-1]) == 100
    assert not wrong


def test_closing_cancels_steps_and_other_threads_run_meanwhile():
    # An endless step blocks neither the interpreter nor the session.
    forever = tf.while_loop(lambda i: i >= 0, lambda i: tf.abs(i), [1])
    x = tf.constant(5)
    session = tf.Session()
    caught = []

    def endless():
        try:
            session.run(forever)
        except (tf.errors.OpError, RuntimeError) as e:
            caught.append(e)

    t = threading.Thread(target=endless)
    t.start()
    assert session.run(x) == 5 and not caught
    session.close()
    t.join()
    assert len(caught) == 1


def test_a_program_may_end_while_its_threads_run_steps():
    program = """if True:
        import threading, time
        import sluice.compat.v1 as tf
        n = tf.placeholder(tf.int32, [])
        counted = tf.while_loop(lambda i: i < n, lambda i: i + 1, [0])
        session = tf.Session()
        session.run(counted, {n: 1})

        def steps(n_value):
            while True:
                session.run(counted, {n: n_value})

        for n_value in (1, 1000, 2**31 - 1):
            threading.Thread(target=steps, args=[n_value], daemon=True).start()
        time.sleep(0.1)
    """
    for _ in range(3):
        subprocess.run([sys.executable, "-c", program], check=True)


def test_arrays_fed_to_a_stage_may_change_before_the_next(session):
    x = tf.placeholder(tf.float32, [50, 50])
    y = tf.placeholder(tf.float32, [50, 50])
    best, product = tf.argmax(x), tf.matmul(x, y)
    handle = session.partial_run_setup([best, product], [x, y])
    array = np.ones([50, 50], np.float32)
    session.partial_run(handle, best, {x: array})
    array[:] = 7
    got = session.partial_run(handle, product, {y: np.eye(50)})
    np.testing.assert_array_equal(got, np.ones([50, 50]))


def test_ctrl_c_between_steps_ends_no_step(session):
    n = tf.placeholder(tf.int32, [])
    count = tf.while_loop(lambda i: i < n, lambda i: i + 1, [0])
    session.run(count, {n: 1})
    for _ in range(10):
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
            threading.Event().wait(10)
        # For example, a handler may save the trained variables.
        assert session.run(count, {n: 100000}) == 100000


def test_threads_take_turns_at_a_partial_run(session):
    n = 4
    xs = [tf.placeholder(tf.float32, []) for _ in range(n)]
    ys = [tf.add_n([tf.sin(x + i) for i in range(300)]) for x in xs]
    for _ in range(20):
        handle = session.partial_run_setup(ys, xs)
        found = [None] * n
        together = threading.Barrier(n)

        def stage(i):
            together.wait()
            found[i] = session.partial_run(handle, ys[i], {xs[i]: 1.0})

        threads = [threading.Thread(target=stage, args=(i,)) for i in range(n)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        np.testing.assert_allclose(
            found, [np.sin(1.0 + np.arange(300)).sum()] * n, rtol=1e-3)


def test_ctrl_c_ends_a_step_of_a_child():
    program = """if True:
        import os, signal, threading
        import sluice.compat.v1 as tf
        forever = tf.while_loop(lambda i: i >= 0, lambda i: tf.abs(i), [1])
        one = tf.constant(1)
        with tf.Session() as session:
            session.run(one)
        child = os.fork()
        if child == 0:
            signal.alarm(30)
            threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
            try:
                tf.Session().run(forever)
            except KeyboardInterrupt:
                os._exit(7)
        assert os.WEXITSTATUS(os.waitpid(child, 0)[1]) == 7
    """
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_sessions_run_registered_fetch_types(session):
    class Squared:
        def __init__(self, value):
            self.tensor = tf.square(value)

    from sluice.client import session as sessions
    register = sessions.register_session_run_conversion_functions
    register(Squared, lambda s: ([s.tensor], lambda values: values[0]),
             lambda s, value: [(s.tensor, value)], lambda s: [s.tensor])
    with pytest.raises(ValueError, match="already been registered"):
        register(Squared, None)
    two = Squared(2.0)
    assert session.run([two]) == [4]
    assert session.run(two, {two: 5.0}) == 5
    handle = session.partial_run_setup([two.tensor + 1.0], [two])
    assert handle


def test_feeds_may_be_nested_tuples(session):
    a, b, c = (tf.placeholder(tf.float32) for _ in range(3))
    assert session.run([a, b, c], {((a,), (b, c)): ((1.0,), (2.0, 3.0))}) == [
        1, 2, 3]
    with pytest.raises(ValueError, match="expected 2 values"):
        session.run(a, {(a, b): (1.0,)})


def test_session_can_be_entered_once():
    tf.constant(1)
    with tf.Session() as session:
        with pytest.raises(RuntimeError, match="not re-entrant"):
            with session:
                pass
        with session.as_default():
            pass


def _parts(session, fetch, feed_dict=None):
    """Returns the types and devices of a step's nodes by device."""
    metadata = tf.RunMetadata()
    options = tf.RunOptions(output_partition_graphs=True)
    session.run(fetch, feed_dict, options=options, run_metadata=metadata)
    return [{node.name: (node.op, node.device) for node in graph.node}
            for graph in metadata.partition_graphs]


def test_metadata_list_nodes_of_device(session):
    x = tf.placeholder(tf.float32, [], name="x")
    y = tf.multiply(x, tf.constant(2.0) + 1.0, name="y")
    tf.negative(y, name="unread")
    nodes, = _parts(session, y, {x: 1.0})
    assert nodes["y"][0] == "Mul" and "unread" not in nodes
    assert sorted(op for op, _ in nodes.values()) == [
        "Const", "Mul", "_Arg", "_Retval"]  # Constants are folded.
    assert {device for _, device in nodes.values()} == {
        "/job:localhost/replica:0/task:0/device:CPU:0"}
    metadata = tf.RunMetadata()
    session.run(y, {x: 1.0}, run_metadata=metadata)
    assert not metadata.partition_graphs  # They were not requested.
    f = session.make_callable(y, [x])
    f(1.0, options=tf.RunOptions(output_partition_graphs=True),
      run_metadata=metadata)
    assert len(metadata.partition_graphs) == 1


def test_metadata_list_nodes_of_each_device():
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 2})) as session:
        x = tf.placeholder(tf.float32, [], name="x")
        with tf.device("/cpu:1"):
            y = tf.square(x, name="y")
        with tf.device("/cpu:0"):
            z = tf.negative(y, name="z")
        parts = _parts(session, z, {x: 1.0})
        assert len(parts) == 2
        for nodes, own, edge, number in zip(
                sorted(parts, key=lambda nodes: "y" in nodes), "zy",
                ("_Recv", "_Send"), (0, 1)):
            assert own in nodes and edge in {op for op, _ in nodes.values()}
            assert {device for _, device in nodes.values()} == {
                f"/job:localhost/replica:0/task:0/device:CPU:{number}"}


def test_partition_graphs_can_be_disabled():
    config = tf.ConfigProto()
    config.experimental.disable_output_partition_graphs = True
    with tf.Session(config=config) as session:
        x = tf.constant(1.0)
        assert session.run(x, options=tf.RunOptions()) == 1.0
        with pytest.raises(tf.errors.InvalidArgumentError,
                           match="disable_output_partition_graphs is true"):
            session.run(x, options=tf.RunOptions(output_partition_graphs=True))


def test_invalid_run_options_are_errors(session):
    x = tf.constant(1.0)
    with pytest.raises(tf.errors.InvalidArgumentError,
                       match="Invalid inter_op_thread_pool: 1"):
        session.run(x, options=tf.RunOptions(inter_op_thread_pool=1))
    with pytest.raises(TypeError, match="options must be a tf.RunOptions"):
        session.run(x, options=tf.RunMetadata())
    with pytest.raises(TypeError, match="run_metadata must be a tf.RunMeta"):
        session.make_callable(x)(run_metadata=tf.RunOptions())
    with pytest.raises(TypeError, match="options and run_metadata, got feed"):
        session.make_callable(x)(feed=1)
    with pytest.raises(tf.errors.NotFoundError, match="No CPU devices"):
        tf.Session(config=tf.ConfigProto(device_count={"CPU": 0}))


def test_callable_of_closed_session_is_cancelled():
    session = tf.Session()
    f = session.make_callable(tf.constant(1.0))
    assert f() == 1.0
    session.close()
    with pytest.raises(tf.errors.CancelledError,
                       match="Session has been closed"):
        f()


def test_callables_accept_sparse_feeds(session):
    x = tf.sparse_placeholder(tf.float32)
    y = tf.placeholder(tf.float32, [])
    f = session.make_callable(tf.sparse_tensor_to_dense(x) * y, [x, y])
    value = tf.SparseTensorValue([[0, 1]], [3.0], [1, 2])
    metadata = tf.RunMetadata()
    np.testing.assert_array_equal(f(value, 2.0, run_metadata=metadata),
                                  [[0, 6]])
    assert metadata.wall_nanos > 0
    with pytest.raises(TypeError, match="expected 2 values for its feeds"):
        f(value)


@pytest.mark.parametrize("side", [3, 300])
def test_fetched_arrays_are_independent(session, side):
    v = tf.Variable(tf.ones([side, side]))
    c = tf.constant(np.ones([side, side], np.float32))
    x = tf.placeholder(tf.float32, [side, side])
    session.run(v.initializer)
    fed = np.ones([side, side], np.float32)
    fetches = [v, v, c, c, tf.identity(c), tf.identity(x), x]
    for fetched in session.run(fetches, {x: fed}):
        assert fetched.flags.writeable
        fetched += 1.0
        assert (fetched == 2.0).all()
    for again in session.run(fetches, {x: fed}):
        assert (again == 1.0).all()


def test_callables_can_be_built_from_options(session):
    x = tf.placeholder(tf.float32, [], name="x")
    tf.square(x, name="y")
    v = tf.Variable(1.0, name="v")
    session.run(v.initializer)
    v.assign_add(1.0, name="count")
    options = protos.CallableOptions(feed=["x:0"], fetch=["y:0", "x:0"],
                                     target=["count"])
    f = session._make_callable_from_options(options)
    assert f(3.0) == [9.0, 3.0] and f(1.0) == [1.0, 1.0]
    assert session.run(v) == 3.0
    options.run_options.trace_level = tf.RunOptions.FULL_TRACE
    metadata = tf.RunMetadata()
    session._make_callable_from_options(options)(2.0, run_metadata=metadata)
    assert metadata.step_stats.dev_stats
    options.tensor_connection.add(from_tensor="y:0", to_tensor="x:0")
    with pytest.raises(tf.errors.UnimplementedError, match="tensor_connection"):
        session._make_callable_from_options(options)


def test_a_timeline_shows_a_steps_kernels(session):
    metadata = tf.RunMetadata()
    x = tf.placeholder(tf.float32, [3], name="x")
    session.run(tf.square(x, name="y"), {x: [1, 2, 3]},
                options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE),
                run_metadata=metadata)
    line = timeline.Timeline(metadata.step_stats)
    process, event = json.loads(
        line.generate_chrome_trace_format())["traceEvents"]
    assert process["args"]["name"].endswith("CPU:0 Compute")
    assert (event["name"], event["args"]["name"]) == ("Square", "y")
    assert event["args"]["outputs"] == "float[3]" and event["dur"] > 0


def test_step_stats_have_timestamps(session):
    metadata = tf.RunMetadata()
    full = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    x = tf.placeholder(tf.float32, [])
    before = time.time()
    session.run(tf.square(x), {x: 2.0}, options=full, run_metadata=metadata)
    node = metadata.step_stats.dev_stats[0].node_stats[0]
    assert before - 1 < node.all_start_micros * 1e-6 < time.time() + 1


def test_tensors_inside_loops_cannot_be_fed(session):
    x = tf.constant(1)
    inside = []

    def body(i):
        inside.append(i + x)
        return inside[0]

    loop = tf.while_loop(lambda i: i < 5, body, [0])
    branch = tf.cond(x > 0, lambda: inside.append(x * 2) or inside[1],
                     lambda: x)
    assert session.run([loop, branch], {x: 3, loop: 7}) == [7, 6]
    assert session.run(branch, {inside[1]: 8}) == 8
    assert not loop.graph.is_feedable(inside[0])
    with pytest.raises(ValueError, match="may not be fed"):
        session.run(loop, {inside[0]: 1})


def test_metadata_report_present_fields(session):
    metadata = tf.RunMetadata()
    assert not metadata.HasField("step_stats")
    assert not metadata.HasField("cost_graph") and not metadata.cost_graph.node
    x = tf.placeholder(tf.float32)
    session.run(tf.square(x), {x: 2.0}, run_metadata=metadata,
                options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE))
    assert metadata.HasField("step_stats")
    with pytest.raises(ValueError, match="steps"):
        metadata.HasField("steps")


def test_second_interactive_session_warns():
    one = tf.InteractiveSession()
    with pytest.warns(UserWarning, match="already active"):
        two = tf.InteractiveSession()
    two.close()
    one.close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tf.InteractiveSession().close()


def test_session_handles_keep_tensors(session):
    x = tf.constant([3.0, 4.0])
    handle = session.run(tf.get_session_handle(x))
    holder, value = tf.get_session_tensor(handle.handle, tf.float32)
    more = tf.get_session_handle(value + 1.0)
    total = tf.reduce_sum(value)
    for step in range(30):  # Unreferenced tensors are deleted.
        both = session.run([more, total], {holder: handle.handle})
        assert both[1] == 7 + 2 * step
        handle = both[0]
    np.testing.assert_array_equal(handle.eval(), [33, 34])
    # A handle can be fed in place of a value.
    np.testing.assert_array_equal(session.run(x * 2.0, {x: handle}), [66, 68])
    raw = handle.get_raw_handle()
    holder, deleted = tf.delete_session_tensor(raw)
    session.run(deleted, {holder: raw})
    with pytest.raises(tf.errors.InvalidArgumentError, match="session store"):
        handle.eval()
    with pytest.raises(TypeError, match="`data` must be of type Tensor"):
        tf.get_session_handle(1.0)


def test_handles_can_be_deleted_with_finalized_graph(session):
    handle = tf.get_session_handle(tf.constant([1.0]))
    session.graph.finalize()
    for _ in range(30):
        assert session.run(handle).handle


def test_long_feeds_are_truncated_in_errors(session):
    x = tf.placeholder(tf.float32, [])
    with pytest.raises(TypeError) as e:
        session.run(x, {x: ["é"] * 5000})
    assert "['é', 'é'" in str(e.value) and len(str(e.value)) < 500


def test_calls_and_iterations_are_batched_on_request():
    w = tf.placeholder(tf.float32, [64, 64])
    rows = tf.map_fn(lambda x: tf.matmul(x[None], w)[0], tf.ones([8, 64]))
    for batched in (False, True):
        with tf.Session(config=tf.ConfigProto(batch_frames=batched)) as session:
            metadata = tf.RunMetadata()
            value = session.run(
                rows, {w: np.ones([64, 64])}, run_metadata=metadata,
                options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE))
            np.testing.assert_array_equal(value, np.full([8, 64], 64))
            products = [n for d in metadata.step_stats.dev_stats
                        for n in d.node_stats if "= MatMul" in n.timeline_label]
            assert (len(products) == 8) != batched
            assert ("instances" in metadata.chrome_trace) == batched


def test_devices_may_be_emulated():
    x = tf.placeholder(tf.float32, [100, 100])
    with tf.device("/device:EMU:0"):
        y = tf.matmul(x, x)
    for how, error in (("memory=1M", None), ("memory=50K", "bytes free")):
        config = tf.ConfigProto(device_count={"CPU": 2, "EMU": 1},
                                emulated_device=how)
        with tf.Session(config=config) as session:
            assert [d.device_type for d in session.list_devices()] == [
                "CPU", "CPU", "EMU"]
            if error is None:
                assert session.run(y, {x: np.ones([100, 100])})[0, 0] == 100
                continue
            with pytest.raises(tf.errors.ResourceExhaustedError, match=error):
                session.run(y, {x: np.ones([100, 100])})
    with pytest.raises(ValueError, match="expected memory="):
        tf.Session(config=tf.ConfigProto(device_count={"EMU": 1},
                                         emulated_device="speed=3"))
