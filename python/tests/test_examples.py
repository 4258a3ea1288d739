"""The examples run for a few steps and learn something."""

import gzip
import os
import re
import runpy
import struct
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import sluice

EXAMPLES = os.path.join(os.path.dirname(__file__), os.pardir, "examples")


@pytest.fixture
def example(monkeypatch, capsys):
    """Returns a function that runs an example and returns its output."""
    def run(name, *arguments):
        path = os.path.join(EXAMPLES, name + ".py")
        monkeypatch.setattr(sys, "argv", [path, *map(str, arguments)])
        monkeypatch.syspath_prepend(EXAMPLES)
        runpy.run_path(path, run_name="__main__")
        return capsys.readouterr().out
    return run


def numbers(text, pattern):
    return [float(n) for n in re.findall(pattern + r" ([-\d.]+)", text)]


def in_new_graph(example, *arguments):
    """Runs an example as another process would, if a test runs it twice."""
    with sluice.Graph().as_default():
        return example(*arguments)


def test_a_line_is_fitted(example):
    assert example("linear_regression") == "y = 3.000 x + -1.000\n"


def test_loop_computes_roots(example):
    out = example("while_loop")
    assert "sqrt(2) = 1.41421 after" in out
    assert "sqrt(1e+06) = 1000 after" in out
    assert "sqrt(-1) = nan after 0 steps" in out


def test_a_loop_of_primitives(example):
    assert example("raw_loop") == (
        "gcd(48, 18) = 6\ngcd(17, 5) = 1\ngcd(0, 7) = 7\n"
        "gcd(1071, 462) = 21\n")


def test_a_pipeline_feeds_training(example):
    losses = numbers(example("input_pipeline", 240), "loss")
    assert len(losses) == 6 and losses[-1] < losses[0]


def test_readers_fill_queues_until_the_files_end(example):
    out = example("readers")
    steps, slope, offset = map(float, re.fullmatch(
        r"(\d+) steps, until the files ended: y = ([\d.]+) x \+ ([\d.]+)\n",
        out).groups())
    assert steps == 10 * 3 * 100 / 20
    assert abs(slope - 2) < 0.1 and abs(offset - 1) < 0.1


def test_buckets_need_less_padding(example):
    shuffled, bucketed = numbers(example("bucketing"), "words,")
    assert bucketed < shuffled / 3


def test_windows_slide_over_a_stream(example):
    out = example("streaming")
    assert "values   0 to  99: mean  0.455, maximum  0.836" in out
    assert out.count("values") == 8


def test_layers_on_separate_devices_run_in_parallel(example):
    out = example("model_parallel_lstm", 61)
    losses = numbers(out, "loss")
    assert losses[-1] < losses[1]
    one, eight = re.search(r"takes (\d+) ms on one device, (\d+) ms on 8",
                           out).groups()
    assert int(eight) < int(one)


def test_custom_op(tmp_path):
    """Runs in a new process, because loading adds an op for good."""
    library = os.path.join(os.path.dirname(sluice._core.__file__), os.pardir,
                           os.pardir, "lib", "custom_op.so")
    done = subprocess.run(
        [sys.executable, os.path.join(EXAMPLES, "custom_op.py"), library],
        capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "y  = [  9.  40. 100.]\ndx = [200.  40.   6.]\n"


def test_custom_gradient(example):
    assert example("custom_gradient") == "z  = [0. 4.]\ndz = [0. 4.]\n"


@pytest.mark.parametrize("name,arguments,pattern,part", [
    ("embedding_sparse", (800,), "loss", 0.2),
    ("dynamic_rnn", (200,), "error", 0.4),
    ("adaptive_computation", (50,), "error", 0.2),
    ("mixture_of_experts", (500,), "error", 0.8),
    ("scheduled_experts", (150,), "error", 0.8),
    ("seq2seq", (150,), "loss", 0.4)])
def test_losses_become_small(example, name, arguments, pattern, part):
    losses = numbers(example(name, *arguments), pattern)
    assert len(losses) > 1 and losses[-1] < part * losses[0]


def test_a_graph_is_written_and_read(example, tmp_path):
    assert example("graph_io", tmp_path / "g.pb") == "y = 321\n"


def test_a_step_is_traced(example, tmp_path):
    assert "events in" in example("save_trace", tmp_path / "t.json")
    assert (tmp_path / "t.json").stat().st_size > 100


@pytest.mark.parametrize("sampled", [0, 4])
def test_language_model_writes_what_it_read(example, tmp_path, sampled):
    (tmp_path / "text").write_text("one two three four five six " * 40)
    out = example("language_model", tmp_path / "text", 100, sampled)
    losses = numbers(out, "loss")
    assert losses[-1] < 0.2 * losses[0]
    written = out.split("It writes:\n")[1].split()
    assert len(written) == 60 and "one two three four" in " ".join(written)


def test_clusters_are_found(example):
    assert numbers(example("k_means"), "distance is")[0] < 2.5


def test_lbfgs_reaches_the_minimum_of_a_logistic_loss(example):
    descended, fitted = numbers(example("logistic_regression"), "loss")
    assert fitted < 0.8 * descended


def test_features_of_a_tensorflow_checkpoint_help(example):
    of_random, of_checkpoint = numbers(
        example("transfer_learning", os.path.join(
            EXAMPLES, os.pardir, os.pardir, "examples", "checkpoints",
            "shapes")), "accuracy")
    assert of_checkpoint > of_random + 0.1


def test_words_of_a_topic_are_neighbours(example):
    assert numbers(example("word2vec", 1200), "topic:")[0] > 90


def test_wide_and_deep_model_predicts_clicks(example):
    out = example("wide_and_deep", 600)
    wrong = [float(n) for n in re.findall(r"(\d+)% wrong", out)]
    assert len(wrong) == 4 and wrong[-1] < 17


def test_training_within_the_graph(example):
    out = example("training_loop")
    assert numbers(out, "loss")[0] < 1e-3 + 1e-4
    assert [round(n) for n in numbers(out, "=")] == [0, 1, 1, 0]


def test_a_supervised_run_goes_on(example, tmp_path):
    out = example("supervised_training", tmp_path / "run", 200)
    assert "begins at step 0" in out and "stopped at step 200" in out
    out = example("supervised_training", tmp_path / "run", 300)
    assert "begins at step 200" in out and "stopped at step 300" in out


def test_agent_trains_within_the_graph(example):
    out = example("reinforcement_learning", 80)
    assert len(numbers(out, "took")) == 4 and "times as fast" in out


def test_a_function_that_calls_itself_learns(example):
    losses = numbers(example("recursive_tree"), "loss")
    assert len(losses) == 4 and losses[-1] < 0.01 < losses[0]


def test_a_network_over_random_graphs_finds_paths(example):
    assert numbers(example("graph_lstm"), "accuracy")[0] > 0.95


@pytest.mark.parametrize("cell,accuracy", [("binary", 0.9),
                                           ("child_sum", 0.85)])
def test_sentiment_is_composed_along_trees(example, cell, accuracy):
    of_epochs = numbers(example("tree_lstm", cell, "store"), "accuracy")
    assert len(of_epochs) == 6 and of_epochs[-1] > accuracy


def test_trees_are_read_from_files(example, tmp_path):
    made = os.path.join(EXAMPLES, "made_treebank.py")
    for name, count, seed in ("train", "200", "1"), ("test", "100", "2"):
        with open(tmp_path / name, "w") as file:
            subprocess.run([sys.executable, made, count, seed], stdout=file,
                           check=True)
    files = "--file", tmp_path / "train", tmp_path / "test"
    # Calls and a store compute the same.
    by_calls, by_store = [
        numbers(in_new_graph(example, "tree_lstm", "binary", how, *files),
                "accuracy") for how in ("calls", "store")]
    np.testing.assert_allclose(by_calls, by_store, atol=0.05)
    assert by_calls[-1] > by_calls[0] + 0.2
    (tmp_path / "test").write_text("(2 (2 the) (2 film)\n")
    with pytest.raises(sluice.errors.InvalidArgumentError,
                       match="test:1:1: tree: expected as many"):
        example("tree_lstm", "binary", "store", *files)


def test_a_beam_finds_the_likeliest_word(example):
    """Taking the likeliest letters does not; samples end at their own steps."""
    greedy, beam = re.findall(
        r"of (\d+) in (\d+) topics, in (\d+) to (\d+) steps",
        example("beam_search"))
    assert int(greedy[0]) < 10 and beam[:2] == ("20", "20")
    assert int(beam[2]) < int(beam[3]) <= 11


def test_looking_further_finds_the_perfect_moves(example):
    found = [tuple(map(int, f)) for f in re.findall(
        r"depth (-?\d+): (\d+)% of the moves are perfect, (\d+) positions",
        example("game_tree"))]
    depths, perfect, seen = zip(*found)
    assert depths == (-2, 0, 2, 9)
    assert perfect[0] < 95 <= perfect[2] and perfect[3] == 100
    assert list(seen) == sorted(seen) and seen[0] < seen[1] < seen[2]


def test_what_thinking_costs_decides_how_long_it_lasts(example):
    cheap, dear = [
        numbers(in_new_graph(example, "adaptive_computation", 200, penalty),
                "error [0-9.]+,")
        for penalty in (0.001, 0.05)]
    assert dear[-1] < 0.75 * cheap[-1]


def test_classifier_generalizes_to_test_images(example):
    known = numbers(example("mnist_classifier", 200), r"step +\d+:")
    assert len(known) == 4 and known[-1] > 60
    assert len(numbers(example("mnist_classifier", 3), r"step +\d+:")) == 3


def test_residual_network_goes_on_from_its_checkpoint(example, tmp_path):
    first = numbers(example("residual_network", 100, tmp_path), "loss")
    with sluice.Graph().as_default():  # As in another process.
        out = example("residual_network", 200, tmp_path)
    assert "goes on from model-100" in out and "step 100" not in out
    assert numbers(out, "loss")[-1] < first[0]
    assert numbers(out, "right:")[0] > 0.6


def test_residual_network_reads_the_checkpoint_of_its_twin(example, tmp_path):
    """The variables of layers have the same names in C++ and Python."""
    program = os.path.join(os.path.dirname(sluice._core.__file__), os.pardir,
                           os.pardir, "bin", "example_residual_network")
    done = subprocess.run([program, "100", str(tmp_path)], capture_output=True,
                          text=True, timeout=120)
    losses = numbers(done.stdout, "loss")
    out = example("residual_network", 150, tmp_path)
    assert "goes on from model-100" in out
    assert numbers(out, "loss")[-1] < losses[0]


def test_a_killed_residual_network_goes_on(tmp_path):
    program = os.path.join(EXAMPLES, "residual_network.py")

    def start(steps):
        return subprocess.Popen(
            [sys.executable, program, str(steps), str(tmp_path)], text=True,
            stdout=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"})

    with start(100000) as killed:
        for line in killed.stdout:
            if line.startswith("step"):
                break
        killed.kill()
    with start(100) as resumed:
        out = resumed.communicate(timeout=120)[0]
    assert resumed.returncode == 0 and "goes on from model-" in out


def test_transformer_learns_to_sort(example):
    out = example("transformer", 300)
    losses = numbers(out, "loss")
    assert len(losses) == 3 and losses[-1] < 0.3 * losses[0]
    assert numbers(out, "right:")[0] > 0.05


def test_generator_finds_the_circle(example):
    out = example("gan")
    assert numbers(out, "distance")[-1] < 0.3
    quadrants = out.strip().splitlines()[-1].split("quadrants")[1].split()
    assert len(quadrants) == 4 and min(map(float, quadrants)) > 0.05


def test_workers_train_concurrently(example):
    out = example("cluster_async_sgd", 100)
    for worker in range(3):
        first, last = numbers(out, f"worker {worker}, step +\\d+: loss")
        assert last < 0.9 * first


def test_workers_with_copies_stay_the_same(example):
    out = example("cluster_all_reduce", 90)
    for worker in range(2):
        losses = numbers(out, f"worker {worker}, step +\\d+: loss")
        assert losses[-1] < 0.8 * losses[0]
    assert "the weights are the same" in out


def test_experts_run_on_separate_tasks(example):
    out = example("cluster_experts", 400)
    losses = numbers(out, "error")
    assert len(losses) == 4 and losses[-1] < 0.8 * losses[0]
    products = numbers(out, r"/job:ps/replica:0/task:\d:")
    assert len(products) == 4 and max(products) > 0


def test_cluster_loops_update_shared_variables(example):
    out = example("cluster_training_loops", 2000)
    assert out.count("worker") == out.count(": 2000 iterations in one") == 3
    *_, last = re.findall(r"after (\d+) iterations: y = (.*) x ([-+].*)", out)
    assert last[0] == "6000"
    np.testing.assert_allclose([float(v) for v in last[1:]], [3, -1], atol=0.1)


def test_a_script_for_tensorflow_runs_unchanged(tmp_path):
    """Uses synthetic images, because the folder has none."""
    done = subprocess.run(
        [sys.executable, "-m", "sluice.run",
         os.path.join(EXAMPLES, "tensorflow_script.py"), "--train_steps=30",
         "--eval_every=15", "--batch_size=32", "--learning_rate=0.003",
         f"--data_dir={tmp_path}"],
        capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "parameters" in done.stderr and "made up" in done.stderr
    accuracies = numbers(done.stdout, "accuracy")
    assert len(accuracies) == 3 and accuracies[-1] > 0.9


WEB_SCRIPT = """
    from __future__ import print_function
    import sys
    import tensorflow as tf
    from tensorflow.examples.tutorials.mnist import input_data
    mnist = input_data.read_data_sets(sys.argv[1], one_hot=True,
                                      validation_size=20)

    x = tf.placeholder("float", [None, 784])
    y = tf.placeholder("float", [None, 10])
    W = tf.Variable(tf.zeros([784, 10]))
    b = tf.Variable(tf.zeros([10]))
    pred = tf.nn.softmax(tf.matmul(x, W) + b)
    cost = tf.reduce_mean(-tf.reduce_sum(y * tf.log(pred + 1e-9),
                                         reduction_indices=1))
    optimizer = tf.train.GradientDescentOptimizer(0.1).minimize(cost)
    init = tf.global_variables_initializer()

    with tf.Session() as sess:
        sess.run(init)
        for epoch in range(5):
            for i in range(int(mnist.train.num_examples / 20)):
                batch_xs, batch_ys = mnist.train.next_batch(20)
                _, c = sess.run([optimizer, cost], feed_dict={x: batch_xs,
                                                              y: batch_ys})
        correct = tf.equal(tf.argmax(pred, 1), tf.argmax(y, 1))
        accuracy = tf.reduce_mean(tf.cast(correct, tf.float32))
        print("Accuracy:", accuracy.eval({x: mnist.test.images,
                                          y: mnist.test.labels}))
"""


def write_digits(folder):
    """Writes files in MNIST's format: one bright row of pixels per class."""
    rng = np.random.RandomState(0)
    for part, n, opener in (("train", 200, gzip.open), ("t10k", 50, open)):
        labels = rng.randint(0, 10, n).astype(np.uint8)
        images = rng.randint(0, 100, [n, 28, 28]).astype(np.uint8)
        images[np.arange(n), 2 * labels] = 255
        for name, array in ((f"{part}-images-idx3-ubyte", images),
                            (f"{part}-labels-idx1-ubyte", labels)):
            path = folder / (name + (".gz" if opener is gzip.open else ""))
            with opener(path, "wb") as f:
                f.write(struct.pack(f">2xBB{array.ndim}i", 8, array.ndim,
                                    *array.shape) + array.tobytes())


def test_a_script_with_digits_runs_unchanged(tmp_path):
    write_digits(tmp_path)
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(WEB_SCRIPT))
    done = subprocess.run(
        [sys.executable, "-m", "sluice.run", str(script), str(tmp_path)],
        capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert numbers(done.stdout, "Accuracy:")[0] > 0.95


def test_batches_of_digits(tmp_path):
    import sluice.compat.v1 as tf
    input_data = tf.examples.tutorials.mnist.input_data
    with pytest.raises(tf.errors.NotFoundError, match="nothing is downloaded"):
        input_data.read_data_sets(str(tmp_path))
    write_digits(tmp_path)
    sets = input_data.read_data_sets(str(tmp_path), reshape=False,
                                     validation_size=50, seed=1)
    assert [s.num_examples for s in sets] == [150, 50, 50]
    assert sets.train.images.shape == (150, 28, 28, 1)
    assert sets.test.images.max() == 1 and sets.test.labels.shape == (50,)
    first = [sets.train.next_batch(60)[0] for _ in range(2)]
    third, labels = sets.train.next_batch(60)
    assert len(third) == len(labels) == 60
    assert sets.train.epochs_completed == 1
    seen = np.concatenate(first + [third[:30]]).reshape(150, -1)
    everything = sets.train.images.reshape(150, -1)
    np.testing.assert_array_equal(np.sort(seen, 0), np.sort(everything, 0))
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(b"\0\0\x08\x01\0\0\0\x09")
    with pytest.raises(tf.errors.DataLossError, match="expected an idx file"):
        input_data.read_data_sets(str(tmp_path))
    with pytest.raises(tf.errors.DataLossError):
        (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(b"x")
        input_data.read_data_sets(str(tmp_path))
