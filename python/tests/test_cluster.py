"""Servers and clusters, with tasks in this and in other processes."""

import gc
import signal
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import sluice.compat.v1 as tf


def free_addresses(count):
    """Returns addresses whose ports were free a moment ago."""
    sockets = [socket.socket() for _ in range(count)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{s.getsockname()[1]}" for s in sockets]
    for s in sockets:
        s.close()
    return addresses


def test_a_local_server_runs_a_session_and_keeps_its_variables():
    server = tf.train.Server.create_local_server()
    assert server.target.startswith("grpc://localhost:")
    v = tf.get_variable("v", initializer=1.0)
    add = tf.assign_add(v, 2.0)
    with tf.Session(server.target) as session:
        session.run(tf.global_variables_initializer())
        assert session.run(add) == 3.0
    with tf.Session(server.target) as session:  # The task keeps the variable.
        assert session.run(v) == 3.0


def test_reset_clears_cluster_state():
    server = tf.train.Server.create_local_server()
    v = tf.get_variable("v", initializer=1.0)
    with tf.container("other"):
        w = tf.get_variable("w", initializer=2.0)
    with tf.Session(server.target) as session:
        session.run(tf.global_variables_initializer())
    tf.Session.reset(server.target, ["other"])
    with tf.Session(server.target) as session:
        assert session.run(v) == 1.0
        with pytest.raises(tf.errors.FailedPreconditionError):
            session.run(w)
    tf.Session.reset(server.target)
    with tf.Session(server.target) as session:
        with pytest.raises(tf.errors.FailedPreconditionError):
            session.run(v)
    with pytest.raises(tf.errors.UnimplementedError, match="got none"):
        tf.Session.reset("")


def test_server_decides_who_may_reset():
    address, = free_addresses(1)
    server = tf.train.Server({"worker": [address]})
    v = tf.get_variable("v", initializer=1.0)
    with tf.container("mine"):
        w = tf.get_variable("w", initializer=2.0)
    with tf.Session(server.target) as session:
        session.run(tf.global_variables_initializer())
    for containers in (None, [""], ["localhost"]):
        with pytest.raises(tf.errors.PermissionDeniedError,
                           match="--allow-reset"):
            tf.Session.reset(server.target, containers)
    tf.Session.reset(server.target, ["mine"])
    with tf.Session(server.target) as session:
        assert session.run(v) == 1.0
        with pytest.raises(tf.errors.FailedPreconditionError):
            session.run(w)


@pytest.mark.parametrize("op", ["PyFunc", "PyFuncStateless", "EagerPyFunc"])
def test_functions_of_a_server_are_called_if_it_allows_that(op):
    if op == "EagerPyFunc":
        doubled = tf.py_function(lambda x: 2 * x, [tf.constant(21)], tf.int32)
    else:
        doubled = tf.py_func(lambda x: np.int32(2 * x), [tf.constant(21)],
                             tf.int32, stateful=op == "PyFunc")
    for allowed in (False, True):
        address, = free_addresses(1)
        server = tf.train.Server({"worker": [address]},
                                 allow_host_access=allowed)
        with tf.Session(server.target) as session:
            if allowed:
                assert session.run(doubled) == 42
                continue
            with pytest.raises(tf.errors.PermissionDeniedError,
                               match=rf"--allow-host-access.*\({op}\).*"
                               "test_cluster.py"):
                session.run(doubled)


def test_server_can_be_built_from_server_def():
    address, = free_addresses(1)
    made = tf.train.Server({"worker": [address]},
                           config=tf.ConfigProto(device_count={"CPU": 2}))
    message = made.server_def
    assert (message.job_name, message.task_index) == ("worker", 0)
    assert dict(message.cluster.job[0].tasks) == {0: address}
    del made
    gc.collect()
    server = tf.train.Server(tf.train.ServerDef.FromString(
        message.SerializeToString()))
    assert server.target == f"grpc://{address}"
    with tf.Session(server.target) as session:
        assert len(session.list_devices()) == 2
    config = tf.ConfigProto(cluster_def=server.cluster_spec.as_cluster_def())
    assert config.cluster_def == message.cluster


def test_tasks_share_the_work_of_one_graph():
    ps, worker = free_addresses(2)
    cluster = tf.train.ClusterSpec({"ps": [ps], "worker": [worker]})
    servers = [tf.train.Server(cluster, job_name=job, task_index=0)
               for job in ("ps", "worker")]
    assert [s.target for s in servers] == [f"grpc://{a}" for a in (ps, worker)]
    with tf.device(tf.train.replica_device_setter(cluster=cluster)):
        w = tf.get_variable("w", initializer=np.zeros(3, np.float32))
        x = tf.placeholder(tf.float32, [None, 3])
        y = tf.placeholder(tf.float32, [None])
        loss = tf.reduce_mean(
            tf.square(tf.reduce_sum(x * w, axis=1) - y))
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    assert w.device == "/job:ps/task:0"
    random = np.random.RandomState(1)
    true = np.array([1.0, -2.0, 0.5], np.float32)
    with tf.Session(servers[1].target) as session:
        names = [d.name for d in session.list_devices()]
        assert any("/job:ps" in n for n in names)
        assert any("/job:worker" in n for n in names)
        session.run(tf.global_variables_initializer())
        for _ in range(200):
            images = random.randn(16, 3).astype(np.float32)
            session.run(train, {x: images, y: images @ true})
        np.testing.assert_allclose(session.run(w), true, atol=1e-2)


def test_server_process_serves_until_stopped():
    address, = free_addresses(1)
    program = ("import sluice.compat.v1 as tf\n"
               f"server = tf.distribute.Server({{'ps': ['{address}']}})\n"
               "print('ready', flush=True)\n"
               "server.join()\n")
    with subprocess.Popen([sys.executable, "-c", program],
                          stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            with tf.device("/job:ps/task:0"):
                total = tf.constant(2) + tf.placeholder_with_default(3, [])
            with tf.Session(f"grpc://{address}") as session:
                assert session.run(total) == 5
            process.send_signal(signal.SIGINT)  # This ends join().
            assert process.wait(timeout=20) != 0
        finally:
            process.kill()


def test_collected_server_releases_its_port():
    address, = free_addresses(1)
    for _ in range(2):
        server = tf.train.Server({"local": [address]})
        del server
        gc.collect()
    with pytest.raises(tf.errors.OpError):
        until = time.monotonic() + 20
        while time.monotonic() < until:  # Until the server has stopped.
            with tf.Session(f"grpc://{address}") as session:
                session.run(tf.constant(1))


def test_a_taken_port_is_an_error_that_names_it():
    server = tf.train.Server.create_local_server()
    address = server.target[len("grpc://"):]
    with pytest.raises(tf.errors.OpError, match=address.split(":")[1]):
        tf.train.Server({"local": [address]})


def test_plain_text_is_limited_to_loopback_by_default():
    with pytest.raises(tf.errors.OpError, match="loopback"):
        tf.train.Server({"local": ["0.0.0.0:0"]})
    server = tf.train.Server({"local": ["0.0.0.0:0"]},
                             plain_beyond_loopback=True)
    port = server.target.rpartition(":")[2]
    with tf.Session(f"grpc://127.0.0.1:{port}") as session:
        assert session.run(tf.constant(6)) == 6


def test_server_can_be_started_later():
    server = tf.train.Server.create_local_server(start=False)
    server.start()
    server.start()
    with tf.Session(server.target) as session:
        assert session.run(tf.constant(4)) == 4


def test_default_strategy_has_one_replica(run):
    strategy, context = (tf.distribute.get_strategy(),
                         tf.distribute.get_replica_context())
    assert strategy.num_replicas_in_sync == context.num_replicas_in_sync == 1
    assert not tf.distribute.has_strategy()
    assert not tf.distribute.in_cross_replica_context()
    v = tf.Variable(2.0)
    with strategy.scope():
        merged = context.merge_call(
            lambda strategy, x, by: strategy.extended.read_var(x) * by,
            (v,), {"by": 3})
    assert context.strategy is strategy
    run(v.initializer)
    assert run(merged) == 6
    assert strategy.experimental_run_v2(max, (1, 2)) == 2
    assert strategy.experimental_local_results(merged) == (merged,)


def test_server_has_the_configured_devices():
    server = tf.train.Server.create_local_server(
        config=tf.ConfigProto(device_count={"CPU": 3}))
    with tf.Session(server.target) as session:
        assert len(session.list_devices()) == 3


@pytest.mark.parametrize("arguments, message", [
    (({"a": ["h:1"], "b": ["h:2"]},), "job_name"),
    (({"a": ["h:1", "h:2"]},), "task_index"),
    (({"a": ["h:1"]}, "b"), "No such job"),
    (({"a": ["h:1"]}, "a", 1), "No task with index"),
    (({"a": {1: "h:1"}}, "a", 0), "No task with index"),
    (({"a": {1: "h:1", 3: "h:3"}},), "task_index"),
    (({"a": ["h:1"]}, "a", 0, "carrier pigeon"), "'grpc' or 'ucx'"),
])
def test_task_outside_the_cluster_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        tf.train.Server(*arguments, start=False)


def test_the_timeout_of_a_server_holds_for_steps_without_their_own():
    server = tf.train.Server.create_local_server(
        config=tf.ConfigProto(operation_timeout_in_ms=100))
    queue = tf.FIFOQueue(1, tf.float32)
    take, put = queue.dequeue(), queue.enqueue(1.0)
    with tf.Session(server.target) as session:
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.run(take)
        handle = session.partial_run_setup([take], [])
        with pytest.raises(tf.errors.DeadlineExceededError):
            session.partial_run(handle, take)
    own = tf.ConfigProto(operation_timeout_in_ms=60_000)
    with tf.Session(server.target, config=own) as session:
        later = threading.Timer(0.5, session.run, [put])
        later.start()
        assert session.run(take) == 1
        later.join()


def test_a_job_may_lack_tasks():
    server = tf.train.Server({"local": {37: "localhost:0"}})
    assert server.server_def.task_index == 37
    assert server.cluster_spec.task_indices("local") == [37]
    with tf.Graph().as_default():
        with tf.device("/job:local/task:37"):
            x = tf.constant(1.0)
        with tf.Session(server.target) as session:
            assert session.run(x) == 1
            assert [d.name for d in session.list_devices()] == [
                "/job:local/replica:0/task:37/device:CPU:0"]
        with tf.device("/job:local/task:0"):
            y = tf.constant(1.0)
        with tf.Session(server.target) as session:
            with pytest.raises(tf.errors.InvalidArgumentError, match="task:0"):
                session.run(y)


def test_a_server_may_have_emulated_devices():
    for how in ("", "memory=64M,kernel_us=1"):
        server = tf.train.Server.create_local_server(config=tf.ConfigProto(
            device_count={"EMU": 2}, emulated_device=how))
        with tf.Graph().as_default():
            with tf.device("/device:EMU:1"):
                y = tf.constant([1.0]) + 1.0
            with tf.Session(server.target) as session:
                assert len(session.list_devices()) == 3
                assert session.run(y) == [2]
    with pytest.raises(tf.errors.InvalidArgumentError, match="expected memory"):
        tf.train.Server.create_local_server(config=tf.ConfigProto(
            device_count={"EMU": 2}, emulated_device="speed=3"))


def test_explicit_devices_are_kept_unless_merged():
    for merge, want in ((False, "/job:ps"), (True, "/job:ps/task:1")):
        with tf.Graph().as_default(), tf.device(tf.train.replica_device_setter(
                ps_tasks=2, merge_devices=merge)):
            first = tf.Variable(1.0)
            with tf.device("/job:ps"):
                second = tf.Variable(2.0)
            assert first.device == "/job:ps/task:0"
            assert second.device == want


def local_cluster(*servers, job="worker"):
    """Makes a ClusterDef of local servers for a session's config."""
    made = tf.train.ClusterDef()
    tasks = made.job.add(name=job).tasks
    for i, server in enumerate(servers):
        tasks[i] = server.target[len("grpc://"):]
    return made


def test_session_may_define_its_cluster():
    servers = [tf.train.Server.create_local_server() for _ in range(3)]
    x = tf.placeholder(tf.float32, [])
    with tf.device("/job:renamed/task:1"):
        y = x + tf.Variable(1.0)
    with tf.device("/job:renamed/replica:0/task:2/device:CPU:0"):
        z = y * tf.Variable(10.0)
    config = tf.ConfigProto(cluster_def=local_cluster(
        servers[2], servers[0], servers[1], job="renamed"))
    metadata = tf.RunMetadata()
    with tf.Session(servers[0].target, config=config) as session:
        assert [d.name for d in session.list_devices()] == [
            f"/job:renamed/replica:0/task:{i}/device:CPU:0" for i in range(3)]
        session.run(tf.global_variables_initializer())
        assert session.run(
            z, {x: 2.0}, options=tf.RunOptions(
                trace_level=tf.RunOptions.FULL_TRACE,
                output_partition_graphs=True), run_metadata=metadata) == 30
        handle = session.partial_run_setup([y, z], [x])
        assert session.partial_run(handle, y, {x: 1.0}) == 2
        assert session.partial_run(handle, z) == 20
    ran = {stats.node_name: of.device for of in metadata.step_stats.dev_stats
           for stats in of.node_stats}
    assert ran[y.op.name] == "/job:renamed/replica:0/task:1/device:CPU:0"
    assert ran[z.op.name] == "/job:renamed/replica:0/task:2/device:CPU:0"
    of_z = [{node.device for node in graph.node}
            for graph in metadata.partition_graphs
            if z.op.name in [node.name for node in graph.node]]
    assert of_z == [{"/job:renamed/replica:0/task:2/device:CPU:0"}]


def test_sessions_with_own_clusters_share_state_on_request():
    server = tf.train.Server.create_local_server()
    v = tf.Variable(1.0)
    config = tf.ConfigProto(cluster_def=local_cluster(server))
    with tf.Session(server.target, config=config) as one, tf.Session(
            server.target, config=config) as other:
        one.run(v.initializer)
        with pytest.raises(tf.errors.FailedPreconditionError):
            other.run(v)
    config.experimental.share_session_state_in_clusterspec_propagation = True
    with tf.Session(server.target, config=config) as one, tf.Session(
            server.target, config=config) as other:
        one.run(v.initializer)
        assert other.run(v) == 1


def test_a_cluster_without_the_target_is_an_error():
    one, other = (tf.train.Server.create_local_server() for _ in range(2))
    config = tf.ConfigProto(cluster_def=local_cluster(other))
    with tf.Session(one.target, config=config) as session:
        with pytest.raises(tf.errors.InvalidArgumentError,
                           match="among its tasks, got /job:worker"):
            session.run(tf.constant(1))


def test_cost_graph_of_cluster_is_reported():
    server = tf.train.Server.create_local_server()
    x = tf.placeholder(tf.float32, [None])
    y = tf.exp(x, name="power")
    config = tf.ConfigProto()
    config.graph_options.build_cost_model = 2
    with tf.Session(server.target, config=config) as session:
        told = []
        for _ in range(4):
            metadata = tf.RunMetadata()
            session.run(y, {x: np.zeros(1000)}, run_metadata=metadata)
            told.append(metadata.HasField("cost_graph"))
    assert told == [False, True, False, True]
    power, = (n for n in metadata.cost_graph.node if n.name == "power")
    assert power.output_info[0].size == 4000
    assert power.compute_cost > 0 and not power.inaccurate


def test_task_numbers_may_be_text():
    tasks = tf.train.ClusterSpec({"worker": {"1": "b:1", 0: "a:1"}})
    assert tasks.job_tasks("worker") == ["a:1", "b:1"]
    with pytest.raises(TypeError, match="Task address"):
        tf.train.ClusterSpec({"worker": {"one": "b:1"}})
