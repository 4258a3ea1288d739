#!/usr/bin/env python3
"""Compares replicated training with TensorFlow's, in updates per second.

    bench/replicas_peers.py [--sluice build/release/bin/sluice] [--turns 3]

The network and the batch of bench/replicas.cc: 784-100-10, 32 examples for each
worker, plain descent, one parameter server, every task a process on this
machine; each worker's client is its task's process, on both sides. TensorFlow's
side is graph mode with SyncReplicasOptimizer (as many gradients as workers) and
with asynchronous updates. The programs alternate, `turns` times; the columns are medians.
Needs a Python with TensorFlow.
"""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["CUDA_VISIBLE_DEVICES"] = ""
BATCH, WARM_UP, STEPS = 32, 20, 200


def tensorflow_task(spec, job, task, sync):
    """Serves a task; a worker also trains, and prints its seconds."""
    import numpy as np
    import tensorflow as tf
    v1 = tf.compat.v1
    v1.disable_eager_execution()
    cluster = tf.train.ClusterSpec(spec)
    server = v1.train.Server(cluster, job_name=job, task_index=task)
    if job == "ps":
        server.join()
    workers = len(spec["worker"])
    with v1.device(v1.train.replica_device_setter(
            cluster=cluster, worker_device=f"/job:worker/task:{task}")):
        images = tf.constant(np.arange(BATCH * 784, dtype=np.int64).reshape(
            BATCH, 784) * 37 % 256 / 256, tf.float32)
        labels = tf.constant(np.arange(BATCH) % 10, tf.int32)
        w1 = v1.get_variable("w1", [784, 100])
        b1 = v1.get_variable("b1", initializer=tf.zeros([100]))
        w2 = v1.get_variable("w2", [100, 10])
        b2 = v1.get_variable("b2", initializer=tf.zeros([10]))
        hidden = tf.nn.relu(images @ w1 + b1)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels, hidden @ w2 + b2))
        step = v1.train.get_or_create_global_step()
        optimizer, hooks = v1.train.GradientDescentOptimizer(0.01), []
        if sync:
            optimizer = v1.train.SyncReplicasOptimizer(
                optimizer, replicas_to_aggregate=workers)
        train = optimizer.minimize(loss, global_step=step)
        if sync:
            hooks = [optimizer.make_session_run_hook(task == 0, num_tokens=0)]
    config = v1.ConfigProto(
        device_filters=["/job:ps", f"/job:worker/task:{task}"])
    with v1.train.MonitoredTrainingSession(
            server.target, is_chief=task == 0, hooks=hooks,
            config=config) as session:
        raw = session._tf_sess()
        run = raw.make_callable(train)
        for _ in range(WARM_UP):
            run()
        print("warm", flush=True)
        sys.stdin.readline()
        begin = time.perf_counter()
        for _ in range(STEPS):
            run()
        print(json.dumps(time.perf_counter() - begin), flush=True)
        # (The server serves the others until all are done.)
        sys.stdin.read()
    os._exit(0)


def ports(n):
    sockets = [socket.socket() for _ in range(n)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    found = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return found


def run_tensorflow(workers, sync):
    first, *others = (f"127.0.0.1:{p}" for p in ports(workers + 1))
    spec = {"ps": [first], "worker": others}
    tasks = [("ps", 0)] + [("worker", i) for i in range(workers)]
    processes = [subprocess.Popen(
        [sys.executable, __file__, "--task", json.dumps([spec, job, i, sync])],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True) for job, i in tasks]
    try:
        # (All have run their first steps before any is timed.)
        for p in processes[1:]:
            assert p.stdout.readline() == "warm\n", "a worker failed"
        for p in processes[1:]:
            p.stdin.write("go\n")
            p.stdin.flush()
        seconds = [float(p.stdout.readline()) for p in processes[1:]]
    finally:
        for p in processes:
            p.kill()
            p.wait()
    return (1 if sync else workers) * STEPS / max(seconds)


def run_sluice(program, workers, transport, sync):
    name = (f"replicas{workers}{transport}\\."
            f"{'sync' if sync else 'async'}.steps_per_s")
    out = subprocess.run([program, "bench", "--json", "--filter", name],
                         check=True, capture_output=True, text=True).stdout
    return float(json.loads(out.splitlines()[-1])["value"])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sluice", default="build/release/bin/sluice")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--workers", type=int, nargs="*", default=[2, 4, 8])
    parser.add_argument("--task", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.task:
        tensorflow_task(*json.loads(args.task))
        return
    for workers in args.workers:
        for sync in (True, False):
            grpc, ucx, theirs = [], [], []
            for _ in range(args.turns):
                grpc.append(run_sluice(args.sluice, workers, "", sync))
                ucx.append(run_sluice(args.sluice, workers, "\\.ucx", sync))
                theirs.append(run_tensorflow(workers, sync))
            peer = statistics.median(theirs)
            print(f"replicas{workers}.{'sync' if sync else 'async'}: "
                  f"tensorflow {peer:.0f} updates/s", end="")
            for name, ours in (("grpc", grpc), ("ucx", ucx)):
                mine = statistics.median(ours)
                print(f", sluice over {name} {mine:.0f} ({mine / peer:.1f} "
                      "times)", end="")
            print(flush=True)


if __name__ == "__main__":
    main()
