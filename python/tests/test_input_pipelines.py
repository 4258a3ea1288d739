"""Coordinators, queue runners, producers and batches."""

import subprocess
import sys
import threading

import numpy as np
import pytest
import sluice.compat.v1 as tf


@pytest.fixture
def started(session):
    """Returns a function that initializes the graph and starts its runners.

    The threads end with the test.
    """
    coordinator = tf.train.Coordinator()

    def start():
        session.run([tf.global_variables_initializer(),
                     tf.local_variables_initializer()])
        tf.train.start_queue_runners(session, coordinator)
        return coordinator

    yield start
    coordinator.request_stop()
    coordinator.join()


def counter(name="count"):
    """Returns the next number in each step, from 1."""
    v = tf.Variable(0, name=name, trainable=False, use_resource=True)
    return v.assign_add(1)


def all_of(run, tensor):
    """Returns the values of a tensor until the end of its queue."""
    values = []
    with pytest.raises(tf.errors.OutOfRangeError):
        while True:
            values.append(run(tensor))
    return values


# ---- Queue runners -----------------------------------------------------------


def test_runners_close_their_queue_at_the_end_of_their_input(run, started):
    source, q = tf.FIFOQueue(20, tf.int32, ()), tf.FIFOQueue(3, tf.int32, ())
    fill = source.enqueue_many([list(range(20))])
    limited = tf.train.limit_epochs(source.dequeue(), 10)
    tf.train.add_queue_runner(tf.train.QueueRunner(q, [q.enqueue(limited)] * 2))
    element = q.dequeue()
    run(fill)
    started()
    # (A step that meets the limit may have taken an element too.)
    values = all_of(run, element)
    assert len(values) == len(set(values)) == 10


def test_errors_of_runners_reach_the_coordinator(session):
    q = tf.FIFOQueue(3, tf.int32, ())
    bad = tf.placeholder(tf.int32, [])
    runner = tf.train.QueueRunner(q, [q.enqueue(bad)])
    coordinator = tf.train.Coordinator()
    runner.create_threads(session, coordinator, start=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match="must feed"):
        coordinator.join()
    assert not runner.exceptions_raised


@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_errors_of_runners_without_coordinator_are_kept(session):
    q = tf.FIFOQueue(3, tf.int32, ())
    runner = tf.train.QueueRunner(q, [q.enqueue(tf.placeholder(tf.int32, []))])
    for thread in runner.create_threads(session, start=True):
        thread.join()
    error, = runner.exceptions_raised
    assert isinstance(error, tf.errors.InvalidArgumentError)


def test_stop_cancels_enqueues_that_wait(session):
    q = tf.FIFOQueue(1, tf.int32, ())
    runner = tf.train.QueueRunner(q, [q.enqueue(1)])
    coordinator = tf.train.Coordinator()
    threads = runner.create_threads(session, coordinator, start=True)
    assert runner.create_threads(session, coordinator) == []
    coordinator.request_stop()
    coordinator.join()
    assert not any(t.is_alive() for t in threads)
    assert session.run(q.is_closed())


def test_runners_are_exported_with_the_graph(fresh_graph):
    q = tf.FIFOQueue(3, tf.int32, (), name="q")
    tf.train.add_queue_runner(tf.train.QueueRunner(
        q, [q.enqueue(5)], queue_closed_exception_types=(
            tf.errors.OutOfRangeError, tf.errors.CancelledError)))
    q.dequeue(name="element")
    exported = tf.train.export_meta_graph()
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.import_meta_graph(exported, import_scope="in")
        runner, = tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS)
        assert runner.name == "in/q"
        assert runner.queue_closed_exception_types == (
            tf.errors.OutOfRangeError, tf.errors.CancelledError)
        coordinator = tf.train.Coordinator()
        tf.train.start_queue_runners(session, coordinator)
        assert session.run("in/element:0") == 5
        coordinator.request_stop()
        coordinator.join()


def test_wrong_runners_are_errors():
    q = tf.FIFOQueue(3, tf.int32, ())
    with pytest.raises(ValueError, match="Must provide queue"):
        tf.train.QueueRunner(q)
    for wrong in ((), [tf.errors.OutOfRangeError], (ValueError,), (1,)):
        with pytest.raises(TypeError, match="tuple of tf.error types"):
            tf.train.QueueRunner(q, [q.enqueue(1)],
                                 queue_closed_exception_types=wrong)
    with pytest.raises(ValueError, match="No default session"):
        tf.train.start_queue_runners()
    with pytest.raises(TypeError, match="must be a `tf.Session`"):
        tf.train.start_queue_runners("session")


UNSTOPPED = """
import sluice.compat.v1 as tf
batch = tf.train.batch([tf.random_uniform([4])], 2, num_threads=40)
with tf.Session() as session:
    tf.train.start_queue_runners(session)
    print(session.run(batch).shape)
"""


def test_programs_may_end_without_stopping_their_runners():
    done = subprocess.run([sys.executable, "-c", UNSTOPPED], check=True,
                          capture_output=True, text=True, timeout=60)
    assert done.stdout == "(2, 4)\n"


def test_monitored_sessions_run_the_runners(fresh_graph):
    batch = tf.train.batch([tf.train.limit_epochs(counter(), 6)], 2)
    seen = []
    with tf.train.MonitoredSession() as session:
        assert tf.train.start_queue_runners(session) == []
        while not session.should_stop():
            seen.append(session.run(batch).tolist())
    assert seen == [[1, 2], [3, 4], [5, 6]]


def test_monitored_sessions_report_why_a_runner_failed(fresh_graph):
    batch = tf.train.batch([tf.check_numerics(
        1.0 / tf.cast(3 - counter(), tf.float32), "too far")], 1)
    with pytest.raises(tf.errors.InvalidArgumentError, match="too far"):
        with tf.train.MonitoredSession() as session:
            while not session.should_stop():
                session.run(batch)


# ---- Coordinators ------------------------------------------------------------


def test_a_stop_keeps_the_first_error_and_its_traceback():
    coordinator = tf.train.Coordinator()

    def failing_function():
        raise ZeroDivisionError("first")

    try:
        failing_function()
    except ZeroDivisionError as e:
        coordinator.request_stop(e)
    coordinator.request_stop(ValueError("second"))
    with pytest.raises(ZeroDivisionError, match="first") as raised:
        coordinator.join()
    assert "failing_function" in [f.name for f in raised.traceback]
    with pytest.raises(ValueError, match="after the end"):
        coordinator.request_stop(ValueError("after the end"))
    coordinator.clear_stop()
    coordinator.raise_requested_exception()


def test_no_error_is_clean_if_none_is_named():
    coordinator = tf.train.Coordinator(clean_stop_exception_types=())
    with coordinator.stop_on_exception():
        raise tf.errors.OutOfRangeError(None, None, "the end")
    with pytest.raises(tf.errors.OutOfRangeError):
        coordinator.join()


# ---- Producers ---------------------------------------------------------------


def test_strings_come_for_some_epochs(run, started):
    q = tf.train.string_input_producer(["a", "b", "c"], num_epochs=2,
                                       shuffle=False)
    element = q.dequeue()
    assert element.shape.as_list() == []
    started()
    assert all_of(run, element) == [b"a", b"b", b"c"] * 2
    with pytest.raises(ValueError, match="non-null input tensor"):
        tf.train.string_input_producer([])


def test_each_epoch_is_shuffled_anew(run, started):
    element = tf.train.range_input_producer(20, num_epochs=3, seed=1).dequeue()
    started()
    numbers = np.reshape(all_of(run, element), [3, 20])
    assert np.sort(numbers).tolist() == [list(range(20))] * 3
    assert len({tuple(row) for row in numbers}) == 3


def test_slices_of_several_tensors_stay_together(run, started):
    a, b = tf.train.slice_input_producer(
        [["a", "b", "c"], [[1, 1], [2, 2], [3, 3]]], num_epochs=1, seed=2)
    assert a.shape.as_list() == [] and b.shape.as_list() == [2]
    started()
    rows = all_of(run, [a, b])
    assert sorted((s, list(n)) for s, n in rows) == [
        (b"a", [1, 1]), (b"b", [2, 2]), (b"c", [3, 3])]


def test_rows_need_a_known_shape():
    rows = tf.placeholder(tf.float32, [None, None])
    with pytest.raises(ValueError, match="fully defined shape"):
        tf.train.input_producer(rows)
    q = tf.train.input_producer(rows, element_shape=[3])
    assert q.dequeue().shape.as_list() == [3]
    with pytest.raises(ValueError, match="num_epochs must be > 0"):
        tf.train.limit_epochs(rows, 0)


def test_files_are_matched_once(run, tmp_path):
    (tmp_path / "a.txt").write_text("a")
    (tmp_path / "b.txt").write_text("b")
    (tmp_path / "c.csv").write_text("c")
    names = tf.train.match_filenames_once(str(tmp_path / "*.txt"))
    run(tf.local_variables_initializer())
    (tmp_path / "d.txt").write_text("d")
    assert [n.decode()[-5:] for n in run(names)] == ["a.txt", "b.txt"]


# ---- Batches -----------------------------------------------------------------


def test_batches_keep_order_and_structure(run, started):
    n = tf.train.limit_epochs(counter(), 5)
    batch = tf.train.batch({"n": n, "square": tf.stack([n * n, n])}, 2,
                           allow_smaller_final_batch=True)
    assert batch["square"].shape.as_list() == [None, 2]
    started()
    got = all_of(run, batch)
    assert [b["n"].tolist() for b in got] == [[1, 2], [3, 4], [5]]
    assert got[2]["square"].tolist() == [[25, 5]]


def test_batches_drop_an_incomplete_rest(run, started):
    batch = tf.train.batch([tf.train.limit_epochs(counter(), 5)], 2)
    assert batch.shape.as_list() == [2]
    started()
    assert [b.tolist() for b in all_of(run, batch)] == [[1, 2], [3, 4]]


def test_batches_of_several_elements_at_once(run, started):
    n = tf.train.limit_epochs(counter(), 2)
    rows = tf.reshape(tf.range(3) + 10 * n, [3])
    batch = tf.train.batch([rows], 2, enqueue_many=True)
    assert batch.shape.as_list() == [2]
    started()
    assert np.concatenate(all_of(run, batch)).tolist() == [
        10, 11, 12, 20, 21, 22]


def test_batches_pad_elements_of_different_sizes(run, started):
    n = tf.train.limit_epochs(counter(), 4)
    batch = tf.train.batch([tf.fill([n], n)], 2, dynamic_pad=True)
    assert batch.shape.as_list() == [2, None]
    started()
    assert [b.tolist() for b in all_of(run, batch)] == [
        [[1, 0], [2, 2]], [[3, 3, 3, 0], [4, 4, 4, 4]]]


def test_batches_of_sparse_tensors(run, started):
    n = tf.train.limit_epochs(counter(), 4)
    wide = tf.cast(n, tf.int64)
    sparse = tf.SparseTensor([[wide - 1]], [n], tf.stack([wide]))
    s, dense = tf.train.batch([sparse, n], 2)
    assert s.dense_shape.shape.as_list() == [2]
    started()
    (first, a), (second, b) = all_of(run, [s, dense])
    assert a.tolist() == [1, 2] and b.tolist() == [3, 4]
    assert first.indices.tolist() == [[0, 0], [1, 1]]
    assert first.dense_shape.tolist() == [2, 2]
    assert second.values.tolist() == [3, 4]


def test_elements_may_be_dropped(run, started):
    n = tf.train.limit_epochs(counter(), 8)
    odd = tf.train.maybe_batch([n], tf.equal(n % 2, 1), 2)
    started()
    assert [b.tolist() for b in all_of(run, odd)] == [[1, 3], [5, 7]]


def test_rows_may_be_dropped(run, started):
    n = tf.train.limit_epochs(counter(), 2)
    rows = tf.range(4) + 10 * n
    kept = tf.train.maybe_batch([rows], [True, False, False, True], 2,
                                enqueue_many=True)
    started()
    assert [b.tolist() for b in all_of(run, kept)] == [[10, 13], [20, 23]]
    with pytest.raises(ValueError, match="cannot be a vector"):
        tf.train.maybe_batch([n], [True], 2)


def test_batches_join_several_sources(run, started):
    sources = [[tf.train.limit_epochs(counter(f"c{i}"), 4), tf.constant(i)]
               for i in range(2)]
    batch = tf.train.batch_join(sources, 2)
    started()
    got = np.concatenate([np.stack(b, 1) for b in all_of(run, batch)])
    assert sorted(map(tuple, got.tolist())) == [
        (n, i) for n in range(1, 5) for i in range(2)]
    with pytest.raises(TypeError, match="types to be consistent"):
        tf.train.batch_join([[1], ["a"]], 2)
    with pytest.raises(ValueError, match="same keys"):
        tf.train.batch_join([{"a": 1}, {"b": 1}], 2)


@pytest.mark.parametrize("join", [False, True])
def test_batches_are_shuffled(run, started, join):
    n = tf.train.limit_epochs(counter(), 30)
    batch = (tf.train.shuffle_batch_join([[n]], 5, 20, 10, seed=3) if join else
             tf.train.shuffle_batch([n], 5, 20, 10, seed=3))
    started()
    got = np.concatenate(all_of(run, batch)).tolist()
    assert sorted(got) == list(range(1, 31)) != got
    with pytest.raises(ValueError, match="must be bigger"):
        tf.train.shuffle_batch([n], 5, 10, 10)


def test_lengths_select_buckets(run, started):
    n = tf.train.limit_epochs(counter(), 12)
    lengths, batch = tf.contrib.training.bucket_by_sequence_length(
        n, [tf.fill([n], n)], 2, [4, 9], dynamic_pad=True)
    started()
    got = all_of(run, [lengths, batch])
    assert sorted(tuple(length) for length, _ in got) == [
        (1, 2), (4, 5), (6, 7), (9, 10), (11, 12)]
    for length, (values,) in got:
        assert values.shape == (2, max(length))
    with pytest.raises(ValueError, match="increasing lengths"):
        tf.contrib.training.bucket_by_sequence_length(n, [n], 2, [4, 4])


def test_buckets_give_smaller_last_batches(run, started):
    n = tf.train.limit_epochs(counter(), 5)
    which, batch = tf.contrib.training.bucket(
        {"n": n}, n % 2, [1, 2], 2, allow_smaller_final_batch=True)
    started()
    got = [(int(w), b["n"].tolist()) for w, b in all_of(run, [which, batch])]
    assert sorted(got) == [(0, [2]), (0, [4]), (1, [1, 3]), (1, [5])]
    with pytest.raises(ValueError, match="must have num_buckets elements"):
        tf.contrib.training.bucket([n], n, [1], 2)


def test_threads_of_a_program_share_a_session(session, started):
    """Several consumers get each element once."""
    numbers = tf.train.range_input_producer(60, num_epochs=1)
    batch = tf.train.batch([numbers.dequeue()], 3, num_threads=3)
    started()
    seen, lock = [], threading.Lock()

    def consume():
        try:
            while True:
                got = session.run(batch).tolist()
                with lock:
                    seen.extend(got)
        except tf.errors.OutOfRangeError:
            pass

    consumers = [threading.Thread(target=consume) for _ in range(3)]
    for c in consumers:
        c.start()
    for c in consumers:
        c.join()
    assert sorted(seen) == list(range(60))
