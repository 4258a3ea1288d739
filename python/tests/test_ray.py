"""Clusters of Ray's actors, if Ray is installed, and their descriptions."""

import json
import os
import sys
import time

import numpy as np
import pytest

import sluice.compat.v1 as tf
from sluice.ray_cluster import LaunchSpec, RayCluster


def test_a_description_is_read_as_by_sluice_launch(tmp_path):
    spec = LaunchSpec("ps=1,worker=3")
    assert [(j.name, j.count) for j in spec.jobs] == [("ps", 1), ("worker", 3)]
    description = {
        "name": "x", "jobs": {"w": {"count": 2, "flags": ["--devices", "cpu=2"]}},
        "flags": ["--allow-reset"], "environment": {"A": "b"}, "program": ["p"]}
    file = tmp_path / "x.json"
    file.write_text(json.dumps(description))
    for given in (description, json.dumps(description), str(file)):
        spec = LaunchSpec(given)
        assert spec.jobs[0].flags == ["--devices", "cpu=2"]
        assert (spec.environment, spec.program) == ({"A": "b"}, ["p"])


@pytest.mark.parametrize("given, message", [
    ("nothing", "'nothing'"), ("{", "expected JSON"), ({}, "at least one job"),
    ("ps=0", "1 to 10000"), ("a=1,a=2", "'a' again"),
    ({"jobs": {"a": True}}, "got True"),
    ({"jobs": {"a": {"cuont": 1}}}, "'cuont'"),
    ({"jobs": {"a": 1}, "flags": "x"}, "list of strings as flags"),
    ({"jobs": {"a": 1}, "environment": {"B": 1}}, "'B'"),
    ({"jobs": {"a": 1}, "environment": {"_;x": "1"}}, "'_;x'"),
    ({"jobs": {"a": 1}, "environment": {"é": "1"}}, "'é'"),
    ({"jobs": {"a": 1}, "environment": {"B": "\0"}}, "'B'"),
    ({"jobs": {"a b": 1}}, "'a b'"), ({"job": {}}, "'job'"), (3, "got 3")])
def test_a_wrong_description_is_an_error(given, message):
    with pytest.raises(ValueError, match=message.replace("[", r"\[")):
        LaunchSpec(given)


@pytest.fixture(scope="module")
def ray():
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    path = os.pathsep.join(p for p in sys.path if p)
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False,
             runtime_env={"env_vars": {"PYTHONPATH": path}})
    yield ray
    ray.shutdown()


def test_a_session_runs_on_actors(ray):
    with RayCluster("ps=1,worker=2") as cluster:
        assert cluster.cluster_spec.num_tasks("worker") == 2
        with tf.device("/job:ps/task:0"):
            v = tf.get_variable("v", initializer=1.0)
        parts = []
        for i in range(2):
            with tf.device(f"/job:worker/task:{i}"):
                parts.append(v * (i + 1.0))
        with tf.Session(cluster.target) as session:
            session.run(tf.global_variables_initializer())
            assert session.run(tf.add_n(parts)) == 3.0


def replica(task, steps):
    """Trains a shared w towards 3, in one of the workers' actors."""
    device = tf.train.replica_device_setter(
        cluster=task.cluster,
        worker_device=f"/job:{task.job}/task:{task.index}")
    with tf.Graph().as_default(), tf.device(device):
        w = tf.get_variable("w", initializer=0.0)
        train = tf.train.GradientDescentOptimizer(0.1).minimize((w - 3.0)**2)
        ready = tf.report_uninitialized_variables()
        with tf.Session(task.target) as session:
            if task.index == 0:
                session.run(tf.global_variables_initializer())
            while len(session.run(ready)):
                time.sleep(0.05)
            for _ in range(steps):
                session.run(train)
            return task.index, float(session.run(w))


def test_replicas_train_in_their_actors(ray):
    with RayCluster({"jobs": {"ps": 1, "worker": 2}}) as cluster:
        results = cluster.run(replica, 60, job="worker")
        assert [index for index, _ in results] == [0, 1]
        np.testing.assert_allclose([w for _, w in results], 3, atol=0.01)
        with pytest.raises(ValueError, match="'chief'"):
            cluster.run(replica, job="chief")


def test_a_killed_actor_is_started_again(ray):
    with RayCluster("ps=1,worker=1", restarts=3) as cluster:
        with tf.device("/job:ps/task:0"):
            two = tf.constant(1.0) + 1.0
        pid = cluster.run(lambda task: os.getpid(), job="ps")
        with tf.Session(cluster.target) as session:
            assert session.run(two) == 2.0
        cluster.kill("ps", 0)
        deadline = time.monotonic() + 60
        while True:
            try:
                with tf.Session(cluster.target) as session:
                    assert session.run(two) == 2.0
                break
            except (tf.errors.UnavailableError, tf.errors.AbortedError):
                assert time.monotonic() < deadline
        assert cluster.run(lambda task: os.getpid(), job="ps") != pid


def test_a_jobs_command_gets_tf_config_and_environment(ray, tmp_path):
    script = ("import os, sys, time; open(sys.argv[1] + os.environ['ODD'], "
              "'a').write(os.environ['TF_CONFIG'] + '\\n'); time.sleep(60)")
    with RayCluster({"jobs": {"a": {"count": 2, "command": [
            sys.executable, "-c", script, str(tmp_path / "out")]}},
            "environment": {"ODD": " it's"}}):
        file = tmp_path / "out it's"
        deadline = time.monotonic() + 60
        while not file.exists() or file.read_text().count("\n") < 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        configs = [json.loads(line) for line in file.read_text().splitlines()]
    assert sorted(c["task"]["index"] for c in configs) == [0, 1]
    assert len(configs[0]["cluster"]["a"]) == 2


def test_a_command_that_exits_is_reported_and_started_again(
        ray, tmp_path, capfd):
    script = ("import sys, time; f = open(sys.argv[1], 'a+'); f.write('x'); "
              "f.seek(0); n = len(f.read()); f.close(); "
              "sys.exit(3) if n < 3 else time.sleep(600)")
    runs = tmp_path / "runs"
    with RayCluster({"jobs": {"a": {"count": 1, "command": [
            sys.executable, "-c", script, str(runs)]}}}, restarts=5):
        deadline = time.monotonic() + 120
        while not runs.exists() or len(runs.read_text()) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.1)
    assert "task a/0 ended: exit code 3" in capfd.readouterr().err


def test_flags_that_a_python_task_does_not_have_are_an_error(ray):
    with pytest.raises(ValueError, match="--drain-seconds"):
        RayCluster({"jobs": {"a": 1}, "flags": ["--drain-seconds", "3"]})
