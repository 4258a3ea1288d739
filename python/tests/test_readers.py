"""Readers of files: records that steps share."""

import zlib

import pytest
import sluice.compat.v1 as tf


@pytest.fixture
def queue():
    """Returns a queue of names."""
    return tf.FIFOQueue(20, tf.string, ())


def fill(run, queue, *names):
    """Puts names into a queue, and closes it."""
    run(queue.enqueue_many([[str(name) for name in names]]))
    run(queue.close())


def records(run, tensors):
    """Returns the values of tensors in each step until the end."""
    found = []
    with pytest.raises(tf.errors.OutOfRangeError):
        while True:
            found.append(tuple(run(tensors)))
    return found


def test_lines_of_files(run, queue, tmp_path):
    (tmp_path / "a").write_bytes(b"head\none\r\ntwo\n")
    (tmp_path / "b").write_bytes(b"head\nthree")
    reader = tf.TextLineReader(skip_header_lines=1)
    key, value = reader.read(queue)
    assert key.shape.as_list() == value.shape.as_list() == []
    fill(run, queue, tmp_path / "a", tmp_path / "b")
    got = records(run, [key, value])
    assert [v for _, v in got] == [b"one", b"two", b"three"]
    assert [k.decode() for k, _ in got] == [
        f"{tmp_path}/a:2", f"{tmp_path}/a:3", f"{tmp_path}/b:2"]
    assert run([reader.num_records_produced(),
                reader.num_work_units_completed()]) == [3, 2]


def test_several_records_of_a_step_are_of_one_file(run, queue, tmp_path):
    for i in range(2):
        (tmp_path / str(i)).write_text("".join(f"{i}{j}\n" for j in range(3)))
    keys, values = tf.TextLineReader().read_up_to(queue, 2)
    assert values.shape.as_list() == [None]
    fill(run, queue, tmp_path / "0", tmp_path / "1")
    assert [list(v) for _, v in records(run, [keys, values])] == [
        [b"00", b"01"], [b"02"], [b"10", b"11"], [b"12"]]


def test_whole_files(run, queue, tmp_path):
    (tmp_path / "a").write_bytes(b"\0all\n of it")
    reader = tf.WholeFileReader()
    read = reader.read(queue.queue_ref)
    fill(run, queue, tmp_path / "a")
    assert records(run, read) == [(str(tmp_path / "a").encode(),
                                   b"\0all\n of it")]


def test_records_of_one_length(run, queue, tmp_path):
    data = b"HH" + b"abc" + b"def" + b"F"
    (tmp_path / "plain").write_bytes(data)
    read = tf.FixedLengthRecordReader(3, header_bytes=2,
                                      footer_bytes=1).read(queue)
    fill(run, queue, tmp_path / "plain")
    assert [v for _, v in records(run, read)] == [b"abc", b"def"]
    overlapping, packed = (tf.FIFOQueue(5, tf.string, ()) for _ in range(2))
    read = tf.FixedLengthRecordReader(4, hop_bytes=2).read(overlapping)
    fill(run, overlapping, tmp_path / "plain")
    assert [v for _, v in records(run, read)] == [b"HHab", b"abcd", b"cdef"]
    (tmp_path / "packed").write_bytes(zlib.compress(b"abcdef"))
    read = tf.FixedLengthRecordReader(3, encoding="ZLIB").read(packed)
    fill(run, packed, tmp_path / "packed")
    assert [v for _, v in records(run, read)] == [b"abc", b"def"]


def test_what_is_taken_is_given_again(run, queue):
    reader = tf.IdentityReader()
    read = reader.read(queue)
    run(queue.enqueue_many([["a", "b", "c"]]))
    assert list(run(read)) == [b"a", b"a"]
    state = run(reader.serialize_state())
    run(reader.reset())
    assert run(reader.num_records_produced()) == 0
    run(reader.restore_state(state))
    assert run(reader.num_records_produced()) == 1


# Files with the records "one", "two!" and "", as TensorFlow writes them.
PLAIN = (b"\3\0\0\0\0\0\0\0\xb0\x99I\x0eone\1@U\x08"
         b"\4\0\0\0\0\0\0\0BER\4two!\x9dN]#"
         b"\0\0\0\0\0\0\0\0)\3\x98\7\xd8\xea\x82\xa2")
GZIP = (b"\x1f\x8b\x08\0\0\0\0\0\0\3cf\x80\x80\r3=\xf9\xf2\xf3R\x19\x1dB9X\xa0BN"
        b"\xaeA,%\xe5\xf9\x8as\xfdb\x95\xa1B\x0c\x9a\xcc3\xd8o\xbcjZ\4\0\xdc\x94"
        b"\x9e\xcc7\0\0\0")


@pytest.mark.parametrize("data,compression", [
    (PLAIN, None), (GZIP, tf.python_io.TFRecordCompressionType.GZIP)])
def test_files_of_records(run, queue, tmp_path, data, compression):
    (tmp_path / "r").write_bytes(data)
    options = tf.python_io.TFRecordOptions(compression)
    read = tf.TFRecordReader(options=options).read(queue)
    fill(run, queue, tmp_path / "r")
    assert [v for _, v in records(run, read)] == [b"one", b"two!", b""]


def test_a_pipeline_from_files_to_batches(session, tmp_path):
    for i in range(3):
        (tmp_path / f"{i}.csv").write_text(
            "".join(f"{i},{j / 2}\n" for j in range(4)))
    names = tf.train.string_input_producer(
        tf.train.match_filenames_once(str(tmp_path / "*.csv")), num_epochs=2,
        shuffle=False)
    _, line = tf.TextLineReader().read(names)
    batch = tf.train.batch(tf.decode_csv(line, [[0], [0.0]]), 5,
                           allow_smaller_final_batch=True)
    session.run(tf.local_variables_initializer())
    coordinator = tf.train.Coordinator()
    tf.train.start_queue_runners(session, coordinator)
    rows = [row for a, b in records(session.run, batch)
            for row in zip(a.tolist(), b.tolist())]
    coordinator.request_stop()
    coordinator.join()
    assert rows == [(i, j / 2) for i in range(3) for j in range(4)] * 2
