"""Queues, barriers, staging areas and accumulators."""

import threading

import numpy as np
import pytest
import sluice.compat.v1 as tf
from sluice.compat import wording
from sluice.ops import barriers, staging


def enqueued(run, queue, *elements):
    for element in elements:
        run(queue.enqueue(element))


# ---- Queues ------------------------------------------------------------------


def test_elements_leave_in_order(run):
    q = tf.FIFOQueue(10, tf.float32, shapes=())
    run(q.enqueue_many([[1.0, 2.0, 3.0, 4.0]]))
    assert run(q.size()) == 4 and not run(q.is_closed())
    assert run(q.dequeue()) == 1
    assert run(q.dequeue_many(2)).tolist() == [2, 3]
    run(q.close())
    assert run(q.is_closed())
    assert run(q.dequeue_up_to(5)).tolist() == [4]
    with pytest.raises(tf.errors.OutOfRangeError, match="is closed and has"):
        run(q.dequeue())
    with pytest.raises(tf.errors.CancelledError, match="is closed"):
        run(q.enqueue(1.0))


def test_components_have_static_shapes(run):
    q = tf.FIFOQueue(10, [tf.int32, tf.float32], [[], [2, 3]])
    a, b = q.dequeue()
    assert a.shape.as_list() == [] and b.shape.as_list() == [2, 3]
    a, b = q.dequeue_many(4)
    assert a.shape.as_list() == [4] and b.shape.as_list() == [4, 2, 3]
    a, b = q.dequeue_many(tf.placeholder(tf.int32, []))
    assert a.shape.as_list() == [None] and b.shape.as_list() == [None, 2, 3]
    assert q.dequeue_up_to(4)[1].shape.as_list() == [None, 2, 3]
    assert q.shapes == [[], [2, 3]] and q.dtypes == [tf.int32, tf.float32]
    assert q.name == "fifo_queue" and q.queue_ref.op.type == "FIFOQueueV2"
    assert tf.FIFOQueue(1, tf.int32).dequeue().shape.ndims is None
    run(q.enqueue([1, np.ones([2, 3], np.float32)]))


def test_elements_with_names_are_dicts(run):
    q = tf.FIFOQueue(10, [tf.int32, tf.string], [(), ()], names=["i", "s"])
    run(q.enqueue({"s": "a", "i": 1}))
    run(q.enqueue_many({"i": [2, 3], "s": ["b", "c"]}))
    assert run(q.dequeue()) == {"i": 1, "s": b"a"}
    both = run(q.dequeue_many(2))
    assert both["i"].tolist() == [2, 3] and list(both["s"]) == [b"b", b"c"]
    for wrong, match in (([1, "a"], "must enqueue a dictionary"),
                         ({"i": 1}, "do not match names"),
                         ({"i": 1, "x": "a"}, "do not match names")):
        with pytest.raises(ValueError, match=match):
            q.enqueue(wrong)
    with pytest.raises(ValueError, match="must have names"):
        tf.FIFOQueue(1, tf.int32).enqueue({"i": 1})


def test_wrong_components_are_errors():
    q = tf.FIFOQueue(10, [tf.int32, tf.float32], [[], [2]])
    with pytest.raises(ValueError, match="expected 2 components, got 1"):
        q.enqueue(1)
    with pytest.raises(ValueError, match="ompatible"):
        q.enqueue([1, [1.0, 2.0, 3.0]])
    with pytest.raises(ValueError, match="ompatible"):
        q.enqueue_many([[1, 2], [[1.0, 2.0]]])
    with pytest.raises(TypeError):
        q.enqueue(["a", [1.0, 2.0]])
    with pytest.raises(ValueError, match="same length as dtypes"):
        tf.FIFOQueue(10, [tf.int32, tf.int32], [[]])
    with pytest.raises(ValueError, match="must be fully defined"):
        tf.FIFOQueue(10, tf.int32, [[None]])
    with pytest.raises(TypeError, match="shapes must be"):
        tf.FIFOQueue(10, tf.int32, "[]")
    with pytest.raises(ValueError, match="List of names must have"):
        tf.FIFOQueue(10, tf.int32, names=["a", "b"])


def test_padding_queues_pad_to_the_largest_element(run):
    q = tf.PaddingFIFOQueue(10, [tf.int32, tf.string], [[None], [None, 1]])
    enqueued(run, q, ([1, 2], [["a"]]), ([3], [["b"], ["c"]]))
    batch = q.dequeue_many(2)
    assert batch[0].shape.as_list() == [2, None]
    assert batch[1].shape.as_list() == [2, None, 1]
    numbers, strings = run(batch)
    assert numbers.tolist() == [[1, 2], [3, 0]]
    assert strings.tolist() == [[[b"a"], [b""]], [[b"b"], [b"c"]]]
    with pytest.raises(ValueError, match="a list of shapes must be provided"):
        tf.PaddingFIFOQueue(10, tf.int32, [None])
    with pytest.raises(ValueError, match="Shapes must be provided for all"):
        tf.PaddingFIFOQueue(10, [tf.int32, tf.int32], [[None]])
    with pytest.raises(ValueError, match="must have a defined rank"):
        tf.PaddingFIFOQueue(10, tf.int32, [tf.TensorShape(None)])


def test_shuffled_elements_depend_on_the_seed(fresh_graph):
    def order(seed):
        with tf.Graph().as_default(), tf.Session() as session:
            q = tf.RandomShuffleQueue(50, 0, tf.int32, (), seed=seed)
            session.run([q.enqueue_many([list(range(20))])])
            return session.run(q.dequeue_many(20)).tolist()

    assert order(1) == order(1) != order(2)
    assert sorted(order(1)) == list(range(20))


def test_shared_shuffling_queues_of_a_graph_seed_have_the_same_seeds():
    def seeds(before):
        with tf.Graph().as_default():
            tf.set_random_seed(7)
            for _ in range(before):
                tf.random_uniform([])
            op = tf.RandomShuffleQueue(5, 0, tf.int32,
                                       shared_name="q").queue_ref.op
            return op.get_attr("seed"), op.get_attr("seed2")

    assert seeds(0) == seeds(3)


def test_priorities_order_elements(run):
    q = tf.PriorityQueue(10, tf.string, [()], names=["priority", "what"])
    run(q.enqueue_many({"priority": np.array([3, 1, 2], np.int64),
                        "what": ["c", "a", "b"]}))
    assert q.dtypes == [tf.int64, tf.string] and q.shapes == [[], []]
    assert run(q.dequeue()) == {"priority": 1, "what": b"a"}
    assert list(run(q.dequeue_many(2))["what"]) == [b"b", b"c"]


def test_a_step_selects_one_of_several_queues(run):
    a, b = (tf.FIFOQueue(10, tf.float32, [[2, n]]) for n in (3, 4))
    run([a.enqueue([np.ones([2, 3])]), b.enqueue([np.ones([2, 4])])])
    index = tf.placeholder(tf.int32, [])
    selected = tf.QueueBase.from_list(index, [a, b])
    assert selected.shapes[0].as_list() == [2, None]
    element = selected.dequeue()
    assert run(element, {index: 1}).shape == (2, 4)
    assert run(element, {index: 0}).shape == (2, 3)
    with pytest.raises(TypeError, match="A list of queues expected"):
        tf.QueueBase.from_list(index, a)
    with pytest.raises(TypeError, match="matching component dtypes"):
        tf.QueueBase.from_list(index, [a, tf.FIFOQueue(1, tf.int32)])
    with pytest.raises(TypeError, match="matching component names"):
        tf.QueueBase.from_list(index, [a, tf.FIFOQueue(1, tf.float32,
                                                       names=["x"])])


def test_steps_wait_for_each_other(session):
    q = tf.FIFOQueue(1, tf.int32, ())
    element, put = q.dequeue(), q.enqueue(tf.placeholder(tf.int32, (), "x"))
    taken = []
    reader = threading.Thread(target=lambda: taken.extend(
        int(session.run(element)) for _ in range(20)))
    reader.start()
    for i in range(20):
        session.run(put, {"x:0": i})
    reader.join()
    assert taken == list(range(20))


def test_deadlines_and_closed_sessions_end_what_waits(session):
    element = tf.FIFOQueue(1, tf.int32, ()).dequeue()
    with pytest.raises(tf.errors.DeadlineExceededError,
                       match="Timed out waiting"):
        session.run(element, options=tf.RunOptions(timeout_in_ms=10))
    raised = []

    def wait():
        try:
            session.run(element)
        except (tf.errors.CancelledError, RuntimeError) as e:
            raised.append(e)  # RuntimeError: it began too late.

    reader = threading.Thread(target=wait)
    reader.start()
    session.close()
    reader.join()
    assert len(raised) == 1
    words = wording.add("step: expected an open session, got one that was "
                        "closed; node 'd' (QueueDequeueV2) still waits")
    assert words.endswith("Dequeue operation was cancelled")
    words = wording.add("step: expected an open session, got one that was "
                        "closed")
    assert words.endswith("cancelled by an explicit call to `Session::Close()`.")


def test_first_in_first_out_queues_are_on_a_cpu(run):
    with tf.device("/job:localhost/device:GPU:0"):
        q = tf.FIFOQueue(5, tf.int32, (), name="q")
    assert q.queue_ref.op.node_def.device == "/job:localhost/device:CPU:0"
    enqueued(run, q, 1)
    assert run(q.dequeue()) == 1


def test_containers_separate_queues_of_one_name(run):
    with tf.container("a"):
        a = tf.FIFOQueue(5, tf.int32, (), shared_name="q")
    b = tf.FIFOQueue(5, tf.int32, (), shared_name="q", name="other")
    same = tf.FIFOQueue(5, tf.int32, (), shared_name="q")
    enqueued(run, a, 1)
    enqueued(run, b, 2, 3)
    assert run([a.size(), b.size(), same.size()]) == [1, 2, 2]


# ---- Barriers ----------------------------------------------------------------


def test_elements_of_one_component_may_have_the_same_key(run):
    barrier = barriers.Barrier([tf.float32], [[]])
    run(barrier.insert_many(0, ["a", "b", "a"], [1.0, 2.0, 3.0]))
    _, keys, values = barrier.take_many(3)
    assert run([keys, values])[1][0].tolist() == [1, 2, 3]


def test_barriers_assemble_components(run):
    barrier = barriers.Barrier([tf.float32, tf.int32], [[], [2]], name="B")
    run(barrier.insert_many(0, ["a", "b"], [1.0, 2.0]))
    assert run([barrier.ready_size(), barrier.incomplete_size()]) == [0, 2]
    run(barrier.insert_many(1, ["b", "a"], [[3, 4], [5, 6]]))
    indices, keys, values = barrier.take_many(2)
    assert [v.shape.as_list() for v in values] == [[2], [2, 2]]
    assert keys.shape.as_list() == [2] and indices.dtype == tf.int64
    names, (numbers, pairs) = run([keys, values])
    assert {name: (n, pair.tolist()) for name, n, pair in zip(
        names, numbers, pairs)} == {b"a": (1, [5, 6]), b"b": (2, [3, 4])}
    run(barrier.close())
    small = barrier.take_many(1, allow_small_batch=True)
    assert small[1].shape.as_list() == [None]
    with pytest.raises(tf.errors.OutOfRangeError):
        run(small[1])
    with pytest.raises(ValueError, match="Empty tensors are not supported"):
        barriers.Barrier([tf.float32], [[0]])
    with pytest.raises(ValueError, match="fully defined"):
        barriers.Barrier([tf.float32], [[None]])


def test_barriers_without_shapes_take_those_of_the_first_values(run):
    barrier = barriers.Barrier([tf.float32, tf.string])
    assert run(barrier.ready_size()) == 0
    with pytest.raises(tf.errors.InvalidArgumentError,
                       match="Tensors with no elements are not supported"):
        run(barrier.insert_many(0, ["a"], [[]]))
    run(barrier.insert_many(0, ["a"], [[1.0, 2.0]]))
    with pytest.raises(tf.errors.InvalidArgumentError, match=(
            r"Shape mismatch in tuple component 0. Expected \[2\] .*"
            r"got \[1\]")):
        run(barrier.insert_many(0, ["b"], [[3.0]]))
    run(barrier.insert_many(0, ["b"], [[3.0, 4.0]]))
    run(barrier.insert_many(1, ["a", "b"], ["x", "y"]))
    _, keys, values = barrier.take_many(2)
    keys, values = run([keys, values])
    assert keys.tolist() == [b"a", b"b"]
    assert values[0].tolist() == [[1, 2], [3, 4]]
    assert values[1].tolist() == [b"x", b"y"]


# ---- Staging areas -----------------------------------------------------------


def test_staging_areas_keep_order(run):
    area = staging.StagingArea([tf.float32, tf.int32], [[2], []],
                               names=["x", "y"])
    x = tf.placeholder(tf.float32, [2])
    put = area.put({"x": x, "y": tf.constant(3)})
    run(put, {x: [1, 2]})
    run(put, {x: [3, 4]})
    assert run(area.size()) == 2
    assert run(area.peek(1))["x"].tolist() == [3, 4]
    got = area.get()
    assert got["x"].shape.as_list() == [2]
    assert run(got)["x"].tolist() == [1, 2]
    run(area.clear())
    assert run(area.size()) == 0
    with pytest.raises(ValueError, match="do not match names of staging"):
        area.put({"z": x})
    with pytest.raises(ValueError, match="Datatypes do not match"):
        area.put({"x": tf.constant(1), "y": tf.constant(3)})
    assert tf.contrib.staging.StagingArea is staging.StagingArea


@pytest.mark.parametrize("ordered", [False, True])
def test_staging_areas_by_key(run, ordered):
    area = staging.MapStagingArea([tf.float32, tf.int32], [[], []],
                                  names=["x", "y"], ordered=ordered)
    key = tf.placeholder(tf.int64, [])
    one = area.put(key, {"x": tf.constant(1.5)})
    two = area.put(key, {"y": tf.cast(key, tf.int32)})
    run(one, {key: 9})
    assert run([area.size(), area.incomplete_size()]) == [0, 1]
    run([one, two], {key: 4})
    run(two, {key: 9})
    assert run(area.peek(key, ["y"]), {key: 9}) == {"y": 9}
    _, taken = area.get(key)
    assert run(taken, {key: 9}) == {"x": 1.5, "y": 9}
    least, taken = area.get()
    assert run([least, taken]) == [4, {"x": 1.5, "y": 4}]
    for indices, error in (([], ValueError), (["z"], ValueError),
                           ([0, "x"], TypeError), ("x", TypeError)):
        with pytest.raises(error):
            area.get(key, indices)


# ---- Accumulators ------------------------------------------------------------


@pytest.mark.parametrize("reduction,expected", [("MEAN", [2, 3]),
                                                ("SUM", [4, 6])])
def test_gradients_of_several_steps_are_combined(run, reduction, expected):
    q = tf.ConditionalAccumulator(tf.float32, [2], reduction_type=reduction)
    grad = tf.placeholder(tf.float32, [2])
    apply = q.apply_grad(grad, local_step=1)
    run(q.set_global_step(1))
    run(q.apply_grad([100.0, 100.0], local_step=0))  # Stale.
    anything = tf.placeholder(tf.float32)
    run(q.apply_grad(anything, local_step=0), {anything: 100.0})
    with pytest.raises(tf.errors.InvalidArgumentError, match="Shape mismatch"):
        run(q.apply_grad(anything, local_step=1), {anything: 100.0})
    run(apply, {grad: [1, 2]})
    run(apply, {grad: [3, 4]})
    assert run(q.num_accumulated()) == 2
    taken = q.take_grad(2)
    assert taken.shape.as_list() == [2]
    assert run(taken).tolist() == expected
    with pytest.raises(ValueError, match="ompatible"):
        q.apply_grad([1.0, 2.0, 3.0])


def test_sparse_gradients_are_combined_by_row(run):
    q = tf.SparseConditionalAccumulator(tf.float32, [4, 2])
    run(q.apply_indexed_slices_grad(tf.IndexedSlices(
        tf.constant([[1.0, 1.0], [2.0, 2.0]]), tf.constant([0, 2]),
        tf.constant([4, 2]))))
    run(q.set_global_step(1))
    anything = tf.placeholder(tf.float32)
    run(q.apply_grad([2], anything, local_step=0), {anything: 100.0})  # Stale.
    with pytest.raises(tf.errors.InvalidArgumentError, match="0-dimensional"):
        run(q.apply_grad([2], anything, local_step=1), {anything: 100.0})
    run(q.set_global_step(0))
    run(q.apply_grad([2], [[4.0, 6.0]]))
    mean = run(q.take_indexed_slices_grad(2))
    assert mean.indices.tolist() == [0, 2]
    assert mean.values.tolist() == [[1, 1], [3, 4]]
    assert q.name == "sparse_conditional_accumulator"


def test_a_shared_queue_without_seeds_takes_those_of_the_queue():
    def queue(seed):
        return tf.RandomShuffleQueue(9, 0, tf.int32, shapes=[()], seed=seed,
                                     shared_name="shared_seeds")

    with tf.Graph().as_default():
        seeded, unseeded, other = queue(3), queue(None), queue(4)
        with tf.Session() as session:
            session.run(seeded.enqueue([1]))
            assert session.run(unseeded.dequeue()) == 1
            with pytest.raises(tf.errors.InvalidArgumentError, match="seeds"):
                session.run(other.size())
