"""One training loop per worker, inside the graph.

Each client makes a single call, whose loop updates shared variables on a
parameter server thousands of times. No client takes part in an iteration; one
of them monitors the progress.

  python3 cluster_training_loops.py [ITERATIONS]
"""

import sys
import threading
import time

import sluice.compat.v1 as tf

WORKERS = 3
ITERATIONS = int(sys.argv[1]) if len(sys.argv) > 1 else 20000


def model():
    """Returns w and b of y = 3 x - 1, and the number of all iterations."""
    with tf.device("/job:ps/task:0"), tf.variable_scope("", use_resource=True):
        return [tf.get_variable(name, initializer=0.0)
                for name in ("w", "b", "done")]


def train(worker, target):
    """Trains in one step of the graph."""
    with tf.Graph().as_default():
        tf.set_random_seed(worker + 1)
        w, b, done = model()

        def iteration(i):
            with tf.control_dependencies([i]):  # Draws new examples each time.
                x = tf.random_uniform([16])
                error = w * x + b - (3 * x - 1)
                step = tf.train.GradientDescentOptimizer(0.02).minimize(
                    tf.reduce_mean(error ** 2), var_list=[w, b])
            with tf.control_dependencies([step, done.assign_add(1)]):
                return i + 1

        with tf.device("/job:worker/task:%d" % worker):
            end = tf.while_loop(lambda i: i < ITERATIONS, iteration, [0],
                                parallel_iterations=1, back_prop=False,
                                name="train")
        with tf.Session(target) as sess:
            started = time.perf_counter()
            count = sess.run(end)
            print("worker %d: %d iterations in one call, %.0f a second" % (
                worker, count, count / (time.perf_counter() - started)))


workers, (ps,) = tf.test.create_local_cluster(WORKERS, 1)
w, b, done = model()
with tf.Session(ps.target) as watch:
    watch.run(tf.global_variables_initializer())
    threads = [threading.Thread(target=train, args=(i, worker.target))
               for i, worker in enumerate(workers)]
    for thread in threads:
        thread.start()
    going = True
    while going:
        time.sleep(0.1)
        going = any(thread.is_alive() for thread in threads)
        print("after %4.0f iterations: y = %.3f x %+.3f" % tuple(
            watch.run([done, w, b])))
