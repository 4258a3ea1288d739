"""Datasets give the elements that TensorFlow's give."""

import collections
import gzip
import struct
import subprocess
import sys
import threading
import zlib

import numpy as np
import pytest

import sluice.compat.v1 as tf

Dataset = tf.data.Dataset


def take_all(session, following):
    """Returns all values of a one-shot iterator's element."""
    values = []
    while True:
        try:
            values.append(session.run(following))
        except tf.errors.OutOfRangeError:
            return values


@pytest.fixture
def values(session):
    """Returns a function of a dataset that returns its elements as lists."""
    def of(dataset):
        found = take_all(session, dataset.make_one_shot_iterator().get_next())
        return tf.nest.map_structure(
            lambda v: v.tolist() if hasattr(v, "tolist") else v, found)
    return of


# ---- Sources -----------------------------------------------------------------


@pytest.mark.parametrize("args,expected", [
    ((3,), [0, 1, 2]), ((0,), []), ((-2,), []), ((2, 5), [2, 3, 4]),
    ((5, 2), []), ((0, 7, 3), [0, 3, 6]), ((5, 0, -2), [5, 3, 1]),
    ((0, 6, 3), [0, 3]), ((0, 5, -1), [])])
def test_range(values, args, expected):
    assert values(Dataset.range(*args)) == expected


def test_wrong_ranges():
    with pytest.raises(ValueError, match="1 to 3 arguments, got 0"):
        Dataset.range()
    with pytest.raises(tf.errors.InvalidArgumentError, match="non-zero"):
        Dataset.range(1, 2, 0)


Point = collections.namedtuple("Point", ["x", "y"])


def test_structures_of_slices(values):
    data = {"b": [1, 2], "a": ([[1., 2.], [3., 4.]], Point(["u", "v"], [5, 6]))}
    found = values(Dataset.from_tensor_slices(data))
    assert found == [{"b": 1, "a": ([1., 2.], Point(b"u", 5))},
                     {"b": 2, "a": ([3., 4.], Point(b"v", 6))}]
    assert type(found[0]["a"][1]) is Point


def test_an_element_of_tensors(values):
    assert values(Dataset.from_tensors(([1, 2], "x")).repeat(2)) == [
        ([1, 2], b"x")] * 2


def test_wrong_slices():
    with pytest.raises(ValueError):
        Dataset.from_tensor_slices(([1, 2], [1, 2, 3]))
    with pytest.raises(ValueError, match="at least one dimension"):
        Dataset.from_tensor_slices(1)
    with pytest.raises(ValueError, match="got none"):
        Dataset.from_tensor_slices(())


def test_a_generator_starts_anew_with_each_repetition(values):
    starts = []

    def generate(limit):
        starts.append(int(limit))
        for i in range(limit):
            yield {"i": i, "s": str(i) * i}

    dataset = Dataset.from_generator(
        generate, {"i": tf.int32, "s": tf.string}, {"i": [], "s": []},
        args=(3,))
    assert dataset.output_shapes["i"].as_list() == []
    one = [{"i": i, "s": str(i).encode() * i} for i in range(3)]
    assert values(dataset.repeat(2)) == 2 * one
    assert starts == [3, 3]


def test_generated_elements_stay_in_order_before_a_parallel_map(values):
    dataset = Dataset.from_generator(lambda: iter(range(50)), tf.int64, [])
    assert values(dataset.map(lambda x: x * 2, num_parallel_calls=8)) == list(
        range(0, 100, 2))
    assert values(dataset.take(3)) == [0, 1, 2]


@pytest.mark.parametrize("yielded,words", [
    ("text", "could not be converted to the expected type"),
    ([1, 2], "an element of shape"),
    (ZeroDivisionError("no"), "no")])
def test_wrong_generated_elements(session, yielded, words):
    def generate():
        yield 1
        if isinstance(yielded, Exception):
            raise yielded
        yield yielded

    following = Dataset.from_generator(
        generate, tf.int32, []).make_one_shot_iterator().get_next()
    assert session.run(following) == 1
    with pytest.raises(tf.errors.OpError, match=words):
        session.run(following)
    following = Dataset.from_generator(
        lambda: iter([1]), (tf.int32, tf.int32)
    ).make_one_shot_iterator().get_next()
    with pytest.raises(tf.errors.InvalidArgumentError,
                       match="did not match the expected structure"):
        session.run(following)


def test_files_are_listed(values, tmp_path):
    for name in ("b.txt", "a.txt", "c.dat"):
        (tmp_path / name).write_text("")
    names = [str(tmp_path / n).encode() for n in ("a.txt", "b.txt")]
    pattern = str(tmp_path / "*.txt")
    assert values(Dataset.list_files(pattern, shuffle=False)) == names
    assert sorted(values(Dataset.list_files(pattern, seed=1))) == names
    assert values(Dataset.list_files([pattern, str(tmp_path / "c.*")],
                                     shuffle=False))[2].endswith(b"c.dat")
    with pytest.raises(tf.errors.InvalidArgumentError,
                       match="No files matched pattern"):
        values(Dataset.list_files(str(tmp_path / "nothing*")))


def test_lines_of_text(values, tmp_path):
    (tmp_path / "a").write_bytes(b"one\ntwo\r\n\nthree")
    (tmp_path / "b").write_bytes(b"four\n")
    (tmp_path / "c").write_bytes(b"")
    files = [str(tmp_path / n) for n in "abc"]
    lines = [b"one", b"two", b"", b"three", b"four"]
    assert values(tf.data.TextLineDataset(files)) == lines
    assert values(tf.data.TextLineDataset(
        Dataset.from_tensor_slices(files))) == lines
    assert values(tf.data.TextLineDataset(files[1])) == [b"four"]
    with pytest.raises(tf.errors.UnimplementedError):
        tf.data.TextLineDataset(files, "GZIP")


def test_records_of_fixed_length(values, tmp_path):
    (tmp_path / "a").write_bytes(b"HHabcdefF")
    (tmp_path / "b").write_bytes(b"HHabcdeF")
    assert values(tf.data.FixedLengthRecordDataset(
        str(tmp_path / "a"), 3, 2, 1)) == [b"abc", b"def"]
    with pytest.raises(tf.errors.InvalidArgumentError, match="a multiple of 3"):
        values(tf.data.FixedLengthRecordDataset(str(tmp_path / "b"), 3, 2, 1))


def test_compressed_records_of_fixed_length(values, tmp_path):
    (tmp_path / "z").write_bytes(gzip.compress(b"HHabcdefF"))
    assert values(tf.data.FixedLengthRecordDataset(
        str(tmp_path / "z"), 3, 2, 1, compression_type="GZIP")) == [
            b"abc", b"def"]


def test_elements_of_queues(session):
    queue = tf.FIFOQueue(10, [tf.int64, tf.float32], [[], [2]],
                         names=["n", "x"])
    put = queue.enqueue({"n": 3, "x": [1.0, 2.0]})
    pairs = tf.FIFOQueue(10, [tf.int32, tf.string])
    both = pairs.enqueue((7, "a"))
    close = [queue.close(), pairs.close()]
    element = Dataset.from_queue(queue).repeat(1).batch(2)
    following = element.make_one_shot_iterator().get_next()
    number, text = Dataset.from_queue(pairs).map(
        lambda n, t: (n + 1, t)).make_one_shot_iterator().get_next()
    assert following["x"].shape.as_list() == [None, 2]
    session.run([put, both])
    session.run(put)
    session.run(close)
    got = session.run(following)
    assert got["n"].tolist() == [3, 3] and got["x"].shape == (2, 2)
    assert session.run([number, text]) == [8, b"a"]
    with pytest.raises(tf.errors.OutOfRangeError):
        session.run(number)
    with pytest.raises(TypeError, match="expected a queue"):
        Dataset.from_queue([1, 2])


def test_an_iterator_runs_in_several_sessions():
    with tf.Graph().as_default() as graph:
        count = tf.placeholder(tf.int64, [])
        it = Dataset.range(count).make_initializable_iterator()
        following = it.get_next()
        with tf.Session(graph=graph) as a, tf.Session(graph=graph) as b:
            a.run(it.initializer, {count: 2})
            b.run(it.initializer, {count: 3})
            assert [a.run(following), b.run(following)] == [0, 0]
            assert [a.run(following), b.run(following)] == [1, 1]
            with pytest.raises(tf.errors.OutOfRangeError):
                a.run(following)
            a.close()
            assert b.run(following) == 2
            for _ in range(50):  # Those that have ended are forgotten.
                b.run(it.initializer, {count: 1})
                assert b.run(following) == 0


def test_concatenated_shapes_may_differ(values):
    both = Dataset.from_tensors([1, 2]).concatenate(Dataset.from_tensors([3]))
    assert values(both) == [[1, 2], [3]]


def checksum(data):
    """Returns the masked CRC-32C of a TFRecord file, bit by bit."""
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    crc ^= 0xffffffff
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xa282ead8)
                       & 0xffffffff)


def records(*contents):
    made = b""
    for content in contents:
        size = struct.pack("<Q", len(content))
        made += size + checksum(size) + content + checksum(content)
    return made


def test_records(values, tmp_path):
    (tmp_path / "a").write_bytes(records(b"x", b"yy"))
    (tmp_path / "b").write_bytes(records(b"z"))
    (tmp_path / "gz").write_bytes(gzip.compress(records(b"x", b"")))
    (tmp_path / "zlib").write_bytes(zlib.compress(records(b"q")))
    (tmp_path / "bad").write_bytes(records(b"x")[:-1])
    a, b, bad = (str(tmp_path / n) for n in ("a", "b", "bad"))
    assert values(tf.data.TFRecordDataset([a, b])) == [b"x", b"yy", b"z"]
    assert sorted(values(tf.data.TFRecordDataset(
        [a, b], num_parallel_reads=2))) == [b"x", b"yy", b"z"]
    assert values(tf.data.TFRecordDataset(
        str(tmp_path / "gz"), "GZIP")) == [b"x", b""]
    assert values(tf.data.TFRecordDataset(
        str(tmp_path / "zlib"), "ZLIB")) == [b"q"]
    with pytest.raises(tf.errors.DataLossError):
        values(tf.data.TFRecordDataset(bad))
    with pytest.raises(tf.errors.NotFoundError):
        values(tf.data.TFRecordDataset(str(tmp_path / "nothing")))
    with pytest.raises(tf.errors.InvalidArgumentError, match="compression"):
        tf.data.TFRecordDataset(a, "LZ4")


# ---- Transformations ---------------------------------------------------------


def test_functions_get_the_parts_of_a_tuple(values):
    dataset = Dataset.from_tensor_slices(([1, 2], {"k": [3, 4]}))
    assert values(dataset.map(lambda a, d: {"sum": a + d["k"]})
                  .map(lambda d: [d["sum"], 2 * d["sum"]])) == [(4, 8),
                                                                (6, 12)]
    assert values(dataset.filter(lambda a, d: d["k"] > 3)) == [(2, {"k": 4})]
    pairs = Dataset.from_tensors(Point(1, 2))
    assert values(pairs.map(lambda p: p.y)) == [2]


def test_sequences(values):
    d = Dataset.range(6)
    assert values(d.filter(lambda x: tf.equal(x % 2, 0))) == [0, 2, 4]
    assert values(d.enumerate(3).take(2)) == [(3, 0), (4, 1)]
    assert values(d.skip(4)) == [4, 5] and values(d.skip(-1)) == []
    assert values(d.take(0)) == [] and values(d.take(-1)) == list(range(6))
    assert values(d.take(2).repeat(2)) == [0, 1, 0, 1]
    assert values(d.repeat().take(8)) == [0, 1, 2, 3, 4, 5, 0, 1]
    assert values(d.take(2).concatenate(d.skip(5))) == [0, 1, 5]
    assert values(d.shard(3, 1)) == [1, 4]
    assert values(d.prefetch(tf.data.experimental.AUTOTUNE)) == list(range(6))
    assert values(d.take(3).flat_map(
        lambda x: Dataset.range(x).prefetch(1))) == [0, 0, 1]
    assert values(d.with_options(tf.data.Options()).take(1)) == [0]


def test_batches(values):
    d = Dataset.range(5)
    assert values(d.batch(2)) == [[0, 1], [2, 3], [4]]
    assert values(d.batch(2, drop_remainder=True)) == [[0, 1], [2, 3]]
    assert d.batch(2).output_shapes.as_list() == [None]
    assert d.batch(2, True).output_shapes.as_list() == [2]
    assert values(d.batch(2, True).unbatch()) == [0, 1, 2, 3]
    # Static shapes pass the queues.
    shapes = d.map(lambda x: tf.zeros([3])).batch(2).shuffle(2).prefetch(1).map(
        lambda x: x + 1).make_one_shot_iterator().get_next().shape
    assert shapes.as_list() == [None, 3]


def test_padded_batches(values):
    d = Dataset.range(1, 4).map(lambda x: (tf.fill([x], x),
                                           tf.as_string(tf.fill([x], x))))
    assert values(d.padded_batch(2, ([None], [-1]))) == [
        ([[1, 0], [2, 2]], [[b"1", b""], [b"2", b"2"]]),
        ([[3, 3, 3]], [[b"3", b"3", b"3"]])]
    padded = d.padded_batch(2, ([4], [None]), (tf.constant(-1, tf.int64), "?"),
                            drop_remainder=True)
    assert values(padded) == [([[1, -1, -1, -1], [2, 2, -1, -1]],
                               [[b"1", b"?"], [b"2", b"2"]])]
    assert padded.output_shapes[0].as_list() == [2, 4]
    with pytest.raises(tf.errors.InvalidArgumentError, match="to a smaller"):
        values(d.padded_batch(3, ([2], [None])))
    with pytest.raises(ValueError, match="not compatible"):
        values(d.padded_batch(3, ([2, 2], [None])))


def test_batches_of_sparse_tensors(session):
    def sparse(x):
        return {"s": tf.SparseTensor([[x]], [x * 10], [4])}

    iterator = Dataset.range(3).map(sparse).batch(2).make_one_shot_iterator()
    assert iterator.output_classes == {"s": tf.SparseTensor}
    first, second = take_all(session, iterator.get_next())
    assert first["s"].indices.tolist() == [[0, 0], [1, 1]]
    assert first["s"].values.tolist() == [0, 10]
    assert first["s"].dense_shape.tolist() == [2, 4]
    assert second["s"].indices.tolist() == [[0, 2]]


def test_zipped_structures(values):
    a, b = Dataset.range(3), Dataset.range(10, 20)
    assert values(Dataset.zip((a, {"k": (b, a)}))) == [
        (i, {"k": (10 + i, i)}) for i in range(3)]
    shapes = Dataset.zip((b, a.batch(2))).output_shapes
    assert shapes[1].as_list() == [None]


def test_shuffles(values):
    d = Dataset.range(20)
    one = values(d.shuffle(20, seed=3))
    assert sorted(one) == list(range(20)) and one != list(range(20))
    assert values(d.shuffle(20, seed=3)) == one
    assert values(d.shuffle(1, seed=3)) == list(range(20))
    two = values(d.shuffle(20, seed=3).repeat(2))
    assert sorted(two[:20]) == sorted(two[20:]) == list(range(20))
    assert two[:20] != two[20:]


def test_interleaved_datasets(values):
    d = Dataset.range(3)
    repeated = lambda x: Dataset.from_tensors(x).repeat(2)  # noqa: E731
    assert sorted(values(d.interleave(repeated, cycle_length=2))) == [
        0, 0, 1, 1, 2, 2]
    assert values(d.interleave(repeated, cycle_length=1)) == [0, 0, 1, 1, 2, 2]
    assert sorted(values(d.apply(tf.data.experimental.parallel_interleave(
        repeated, cycle_length=2)))) == [0, 0, 1, 1, 2, 2]


def test_functions_for_apply(values):
    e, d = tf.data.experimental, Dataset.range(6)
    assert values(d.apply(e.take_while(lambda x: x < 2))) == [0, 1]
    assert values(d.batch(4).apply(e.unbatch())) == list(range(6))
    assert values(d.apply(e.map_and_batch(lambda x: x + 1, 4, 2))) == [
        [1, 2, 3, 4], [5, 6]]
    assert values(d.apply(e.enumerate_dataset(1)).take(1)) == [(1, 0)]
    assert sorted(values(d.apply(e.shuffle_and_repeat(
        3, 2, seed=1)))) == sorted(2 * list(range(6)))
    assert values(d.apply(e.scan((np.int64(0), 1.0), lambda s, x: (
        (s[0] + x, s[1]), {"sum": s[0] + x})))) == [
            {"sum": n} for n in (0, 1, 3, 6, 10, 15)]
    assert values(Dataset.from_tensor_slices([1., 0., 2., 0.]).map(
        lambda x: tf.check_numerics(1. / x, "inf")).apply(
            e.ignore_errors())) == [1., 0.5]
    assert tf.contrib.data.scan is e.scan


def test_buckets(values):
    lengths = [1, 5, 2, 6, 1]
    d = Dataset.from_tensor_slices(lengths).map(lambda n: tf.fill([n], n))
    bucket = tf.data.experimental.bucket_by_sequence_length
    assert values(d.apply(bucket(tf.size, [4], [2, 2]))) == [
        [[1, 0], [2, 2]], [[5] * 5 + [0], [6] * 6], [[1]]]
    assert values(d.apply(bucket(tf.size, [4], [2, 2], padded_shapes=[6],
                                 padding_values=-1, drop_remainder=True))) == [
        [[1] + 5 * [-1], [2, 2] + 4 * [-1]], [5 * [5] + [-1], 6 * [6]]]


def test_types_of_datasets():
    d = Dataset.range(3).map(lambda x: (x, {"k": tf.zeros([2, 3])}))
    assert d.output_types == (tf.int64, {"k": tf.float32})
    assert tf.data.get_output_shapes(d)[1]["k"].as_list() == [2, 3]
    assert tf.data.get_output_types(d.batch(2))[0] == tf.int64
    assert d.output_classes == (tf.Tensor, {"k": tf.Tensor})
    assert d.element_spec[1]["k"] == tf.TensorSpec([2, 3], tf.float32)
    operations = len(tf.get_default_graph().get_operations())
    Dataset.range(3).map(lambda x: x).output_types
    assert len(tf.get_default_graph().get_operations()) <= operations + 1
    outside = tf.constant(1, tf.int64)
    with pytest.raises(ValueError, match="use no tensors from outside"):
        Dataset.range(3).map(lambda x: x + outside).output_types
    it = Dataset.range(3).map(lambda x: x + outside).make_one_shot_iterator()
    assert it.output_types == tf.int64 == tf.data.get_output_types(it)


def test_wrong_arguments():
    d = Dataset.range(3)
    for call, kind, words in (
            (lambda: d.map(3), TypeError, "expected a function"),
            (lambda: d.map(lambda x: x, 0), ValueError, "at least 1"),
            (lambda: d.batch(0), tf.errors.InvalidArgumentError, "greater"),
            (lambda: d.shuffle(0), tf.errors.InvalidArgumentError, "greater"),
            (lambda: d.shard(2, 2), tf.errors.InvalidArgumentError, "index"),
            (lambda: d.take("x"), TypeError, "expected an integer"),
            (lambda: d.take(tf.placeholder(tf.int64)),
             tf.errors.UnimplementedError, "pass a number"),
            (lambda: Dataset.zip([d]), TypeError, "nested structure"),
            (lambda: d.concatenate(3), TypeError, "expected a dataset"),
            (lambda: d.apply(lambda d: 3), TypeError, "must return a Dataset"),
            (lambda: iter(d), RuntimeError, "__iter__"),
            (lambda: d.flat_map(lambda x: x).make_one_shot_iterator(),
             TypeError, "must return a Dataset"),
            (lambda: d.filter(lambda x: x).make_one_shot_iterator(),
             TypeError, "scalar boolean"),
            (lambda: d.map(lambda x: None).make_one_shot_iterator(),
             TypeError, "got None"),
            (lambda: d.flat_map(lambda x: Dataset.range(x).batch(
                2)).make_one_shot_iterator(), ValueError, "queues of their")):
        with pytest.raises(kind, match=words):
            call()


def test_missing_features_are_named():
    d = Dataset.range(3)
    for call in (d.cache, lambda: d.reduce(0, None), lambda: d.window(2),
                 lambda: d.shuffle(2, reshuffle_each_iteration=False),
                 lambda: tf.data.Iterator.from_structure(tf.int32),
                 lambda: tf.data.Iterator.from_string_handle("", tf.int32),
                 d.make_one_shot_iterator().string_handle):
        with pytest.raises(tf.errors.UnimplementedError,
                           match="not implemented yet"):
            call()
    with pytest.raises(AttributeError, match="not implemented yet"):
        tf.data.experimental.make_csv_dataset


# ---- Iterators ---------------------------------------------------------------


def test_an_iterator_starts_again_with_other_feeds(session):
    limit = tf.placeholder(tf.int64, [])
    factor = tf.placeholder(tf.int64, [])
    it = tf.data.make_initializable_iterator(
        Dataset.range(limit).map(lambda x: x * factor))
    following = it.get_next()
    session.run(it.initializer, {limit: 3, factor: 1})
    assert take_all(session, following) == [0, 1, 2]
    assert take_all(session, following) == []
    session.run(it.initializer, {limit: 4, factor: 10})
    assert session.run(following) == 0
    # In the middle; and as part of a group.
    session.run(tf.group(it.initializer), {limit: 2, factor: 7})
    assert take_all(session, following) == [0, 7]


def test_arrays_of_initialization_may_be_reused(session):
    rows = tf.placeholder(tf.int64, [None])
    it = Dataset.from_tensor_slices(rows).make_initializable_iterator()
    following = it.get_next()
    array = np.array([1, 2])
    session.run(it.initializer, {rows: array})
    array[:] = 0
    assert take_all(session, following) == [1, 2]
    with pytest.raises(tf.errors.InvalidArgumentError, match="feed"):
        session.run(it.initializer)


def test_an_uninitialized_iterator_fails(session):
    it = Dataset.range(3).make_initializable_iterator()
    following = it.get_next()
    with pytest.raises(tf.errors.FailedPreconditionError,
                       match="has not been initialized"):
        session.run({"x": [following + 1]})
    with pytest.raises(tf.errors.FailedPreconditionError):
        session.make_callable(following)()
    one_shot = Dataset.range(3).make_one_shot_iterator()
    with pytest.raises(ValueError, match="does not have an initializer"):
        one_shot.initializer


def test_a_branch_chooses_the_iterator(session):
    one = Dataset.range(3).make_initializable_iterator()
    two = Dataset.range(10, 13).make_initializable_iterator()
    first = tf.placeholder(tf.bool, [])
    following = tf.cond(first, one.get_next, two.get_next)
    session.run(one.initializer)
    assert session.run(following, {first: True}) == 0
    with pytest.raises(tf.errors.FailedPreconditionError):
        session.run(following, {first: False})
    session.run(two.initializer)
    assert session.run(following, {first: False}) == 10
    assert session.run(following, {first: True}) == 1


def test_elements_are_taken_once_per_step(session):
    it = Dataset.range(4).map(lambda x: (x, -x)).make_one_shot_iterator()
    x, y = it.get_next(name="following")
    other, _ = it.get_next()
    assert x.op.name.startswith("following")
    assert session.run([x, y, x + 1]) == [0, 0, 1]
    assert sorted(int(v) for v in session.run([x, other])) == [1, 2]
    # What is fed is not taken.
    assert session.run(x + 0, {x: 70}) == 70
    assert session.run([x, y]) == [3, -3]
    with pytest.raises(tf.errors.OutOfRangeError):
        session.run(y)


def test_callables_and_partial_runs_take_elements(session):
    following = Dataset.range(5).make_one_shot_iterator().get_next()
    step = session.make_callable(following)
    assert [step(), step()] == [0, 1]
    x = tf.placeholder(tf.int64, [])
    total = following + x
    handle = session.partial_run_setup([total], [x])
    assert session.partial_run(handle, total, {x: 10}) == 12
    size = tf.placeholder(tf.int64, [])
    it = Dataset.range(size).make_initializable_iterator()
    session.make_callable(it.initializer, [size])(2)
    assert take_all(session, it.get_next()) == [0, 1]


def test_what_functions_read_may_be_initialized_late(session):
    v = tf.get_variable("v", initializer=tf.constant(5, tf.int64))
    it = Dataset.range(2).map(lambda x: x + v).make_initializable_iterator()
    following = it.get_next()
    session.run(it.initializer)
    session.run(v.initializer)
    assert take_all(session, following) == [5, 6]


def test_each_session_starts_a_one_shot_iterator():
    following = Dataset.range(2).make_one_shot_iterator().get_next()
    for _ in range(2):
        with tf.Session() as session:
            assert session.run(following) == 0
    first, second = tf.Session(), tf.Session()
    assert first.run(following) == 0
    assert take_all(second, following) == [0, 1]
    assert take_all(first, following) == [1]


def test_errors_follow_the_elements_before_them(session):
    following = Dataset.from_tensor_slices([1., 2., 0.]).map(
        lambda x: tf.check_numerics(1 / x, "bad number")
    ).make_one_shot_iterator().get_next()
    seen = []
    with pytest.raises(tf.errors.InvalidArgumentError, match="bad number"):
        while True:
            seen.append(session.run(following))
    assert seen == [1., .5]


def test_closing_the_session_ends_endless_pipelines():
    def generate():
        while True:
            yield threading.get_ident()

    following = Dataset.from_generator(generate, tf.int64, []).repeat().batch(
        2).prefetch(4).make_one_shot_iterator().get_next()
    with tf.Session() as session:
        session.run(following)
    with pytest.raises(RuntimeError, match="closed"):
        session.run(following)


def test_a_program_may_end_while_its_pipeline_runs():
    program = """if True:
        import sluice.compat.v1 as tf
        def generate():
            while True:
                yield 1
        d = tf.data.Dataset.from_generator(generate, tf.int64, []).prefetch(2)
        session = tf.Session()
        print(session.run(d.make_one_shot_iterator().get_next()))
    """
    done = subprocess.run([sys.executable, "-c", program], timeout=60,
                          capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


def test_monitored_training_ends_with_the_data():
    xs = np.linspace(-1, 1, 64, dtype=np.float32)
    d = Dataset.from_tensor_slices((xs, 3 * xs - 1)).shuffle(
        64, seed=1).repeat(40).batch(16)
    x, y = d.make_one_shot_iterator().get_next()
    w, b = tf.get_variable("w", []), tf.get_variable("b", [])
    loss = tf.reduce_mean(tf.square(w * x + b - y))
    step = tf.train.get_or_create_global_step()
    train = tf.train.GradientDescentOptimizer(.3).minimize(loss, step)
    losses = []
    with tf.train.MonitoredTrainingSession() as session:
        while not session.should_stop():
            losses.append(session.run([loss, train])[0])
    assert len(losses) == 160 and losses[-1] < 1e-3


def test_a_scaffold_initializes_an_iterator():
    size = tf.placeholder(tf.int64, [])
    it = Dataset.range(size).make_initializable_iterator()
    following = it.get_next()
    tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, it.initializer)

    class Start(tf.train.SessionRunHook):
        def after_create_session(self, session, coord):
            session.run(it.initializer, {size: 2})

    scaffold = tf.train.Scaffold(local_init_op=tf.no_op())
    seen = []
    with tf.train.MonitoredSession(tf.train.ChiefSessionCreator(scaffold),
                                   hooks=[Start()]) as session:
        while not session.should_stop():
            seen.append(session.run(following))
    assert seen == [0, 1]


# ---- Positions ---------------------------------------------------------------


def _of_epochs():
    return Dataset.range(11).shuffle(4, seed=3).repeat(5).map(
        lambda x: 2 * x).batch(3)


def _build_saved(make):
    graph = tf.Graph()
    with graph.as_default():
        iterator = make().make_initializable_iterator(saved=True)
        following = iterator.get_next()
        return graph, iterator, following, tf.train.Saver()


def _rest(session, following):
    return [v.tolist() for v in take_all(session, following)]


@pytest.mark.parametrize("taken", [0, 1, 4, 11])
def test_a_saver_saves_the_position_of_an_iterator(tmp_path, taken):
    graph, iterator, following, saver = _build_saved(_of_epochs)
    with tf.Session(graph=graph) as session:
        session.run(iterator.initializer)
        whole = _rest(session, following)
        session.run(iterator.initializer)
        first = [session.run(following).tolist() for _ in range(taken)]
        path = saver.save(session, str(tmp_path / "model"),
                          write_meta_graph=False)
        # While it runs, and has gone on.
        if taken:
            session.run(following)
        saver.restore(session, path)
        assert first + _rest(session, following) == whole
    graph, iterator, following, saver = _build_saved(_of_epochs)
    for initialized in (False, True):
        with tf.Session(graph=graph) as session:
            if initialized:
                session.run(iterator.initializer)
            saver.restore(session, path)
            assert first + _rest(session, following) == whole


@pytest.mark.parametrize("where", ["local_init_op", "table initializers"])
def test_a_resumed_run_goes_on_with_its_data(tmp_path, where):
    # A MonitoredSession initializes after it has restored.
    def run(steps):
        with tf.Graph().as_default():
            iterator = _of_epochs().make_initializable_iterator(saved=True)
            following = iterator.get_next()
            step = tf.train.get_or_create_global_step().assign_add(1)
            scaffold = None
            if where == "local_init_op":
                scaffold = tf.train.Scaffold(local_init_op=tf.group(
                    tf.local_variables_initializer(), iterator.initializer))
            else:
                tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS,
                                     iterator.initializer)
            seen = []
            with tf.train.MonitoredTrainingSession(
                    checkpoint_dir=str(tmp_path), scaffold=scaffold,
                    save_checkpoint_steps=1000) as session:
                while not session.should_stop() and len(seen) < steps:
                    seen.append(session.run([following, step])[0].tolist())
            return seen

    graph, iterator, following, _ = _build_saved(_of_epochs)
    with tf.Session(graph=graph) as session:
        session.run(iterator.initializer)
        whole = _rest(session, following)
    assert run(2) + run(3) + run(1000) == whole


def test_an_initializer_begins_anew_unless_that_is_to_come(tmp_path):
    graph, iterator, following, saver = _build_saved(
        lambda: Dataset.range(3))
    with tf.Session(graph=graph) as session:
        session.run(iterator.initializer)
        assert session.run(following) == 0
        path = saver.save(session, str(tmp_path / "model"),
                          write_meta_graph=False)
    with tf.Session(graph=graph) as session:
        saver.restore(session, path)
        for _ in range(2):
            session.run(iterator.initializer)
        assert _rest(session, following) == [1, 2]
        # Once it has started, as for each epoch.
        for _ in range(2):
            session.run(iterator.initializer)
            assert _rest(session, following) == [0, 1, 2]
        # (No other initializer has to do with it.)
        session.run(iterator.initializer)
        assert session.run(following) == 0
        with graph.as_default():
            session.run(tf.local_variables_initializer())
        session.run(iterator.initializer)
        assert _rest(session, following) == [0, 1, 2]
        # Restored again.
        saver.restore(session, path)
        session.run(iterator.initializer)
        assert _rest(session, following) == [1, 2]


def test_the_saveable_of_an_iterator_is_saved_once(tmp_path):
    graph, iterator, following, _ = _build_saved(_of_epochs)
    with graph.as_default():
        saveable = tf.data.experimental.make_saveable_from_iterator(iterator)
        tf.add_to_collection(tf.GraphKeys.SAVEABLE_OBJECTS, saveable)
        saver = tf.train.Saver()
    with tf.Session(graph=graph) as session:
        session.run(iterator.initializer)
        first = session.run(following).tolist()
        path = saver.save(session, str(tmp_path / "model"),
                          write_meta_graph=False)
        second = session.run(following).tolist()
        saver.restore(session, path)
        assert session.run(following).tolist() == second != first


def test_positions_that_cannot_be_saved():
    plain = Dataset.range(3).make_initializable_iterator()
    with pytest.raises(ValueError, match="saved=True"):
        tf.data.experimental.make_saveable_from_iterator(plain)
    for dataset, message in [
            (Dataset.range(3).shuffle(2), "Shuffle: expected a seed"),
            (Dataset.range(3).map(lambda x: tf.random.uniform([], seed=1)),
             "same for the same element, got RandomUniform")]:
        with pytest.raises(ValueError, match=message):
            dataset.make_initializable_iterator(saved=True)


def test_an_imported_iterator_is_an_error_and_not_a_wait():
    with tf.Graph().as_default() as graph:
        following = Dataset.range(3).make_one_shot_iterator().get_next()
        exported = graph.as_graph_def()
    with tf.Graph().as_default():
        again, = tf.import_graph_def(exported, return_elements=[following.name],
                                     name="")
        with tf.Session() as session:
            with pytest.raises(tf.errors.FailedPreconditionError,
                               match="expected it to be started"):
                session.run(again)
