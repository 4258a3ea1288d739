"""Files of records, without graphs."""

import os
import threading

import pytest
import sluice.compat.v1 as tf

KINDS = tf.python_io.TFRecordCompressionType
RECORDS = [b"one", b"", b"\0\xff" * 1000, "zwölf".encode()]


@pytest.mark.parametrize("options", [
    None, "GZIP", KINDS.ZLIB, tf.python_io.TFRecordOptions(KINDS.GZIP)])
def test_records_round_trip(tmp_path, options):
    path = str(tmp_path / "r")
    with tf.python_io.TFRecordWriter(path, options) as writer:
        for record in RECORDS[:3]:
            writer.write(record)
        writer.write("zwölf")
    assert list(tf.python_io.tf_record_iterator(path, options)) == RECORDS


def test_files_are_tensorflows(tmp_path):
    path = tmp_path / "r"
    with tf.io.TFRecordWriter(path) as writer:
        writer.write(b"one")
    assert path.read_bytes() == b"\3\0\0\0\0\0\0\0\xb0\x99I\x0eone\1@U\x08"


def test_flushed_records_can_be_read(tmp_path):
    path = str(tmp_path / "r")
    writer = tf.python_io.TFRecordWriter(path)
    writer.write(b"a")
    writer.flush()
    assert list(tf.python_io.tf_record_iterator(path)) == [b"a"]
    writer.close()
    writer.close()
    for call in (writer.flush, lambda: writer.write(b"b")):
        with pytest.raises(tf.errors.FailedPreconditionError):
            call()


def test_bad_files_are_errors(tmp_path):
    path = tmp_path / "r"
    with pytest.raises(tf.errors.NotFoundError):
        next(tf.python_io.tf_record_iterator(str(path)))
    with pytest.raises(tf.errors.NotFoundError):
        tf.python_io.TFRecordWriter(str(tmp_path / "none" / "r"))
    with tf.python_io.TFRecordWriter(str(path)) as writer:
        writer.write(b"first")
        writer.write(b"second")
    data = path.read_bytes()
    for bad in (data[:-1], data[:-6] + b"?" + data[-5:]):
        path.write_bytes(bad)
        records = tf.python_io.tf_record_iterator(str(path))
        assert next(records) == b"first"
        with pytest.raises(tf.errors.DataLossError):
            next(records)
    with pytest.raises(ValueError, match="Not a valid compression_type"):
        tf.python_io.TFRecordWriter(str(path), "ZIP")
    with pytest.raises(TypeError):
        with tf.python_io.TFRecordWriter(str(path)) as writer:
            writer.write(3)


def test_threads_may_share_a_writer(tmp_path):
    path = str(tmp_path / "r")
    with tf.python_io.TFRecordWriter(path) as writer:
        threads = [threading.Thread(target=lambda i=i: [
            writer.write(bytes([i]) * 100) for _ in range(200)])
            for i in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert sorted(tf.python_io.tf_record_iterator(path)) == [
        bytes([i]) * 100 for i in range(4) for _ in range(200)]


def test_examples_are_written_and_parsed(tmp_path):
    path = str(tmp_path / "r")
    with tf.python_io.TFRecordWriter(path) as writer:
        for i in range(3):
            writer.write(tf.train.Example(features=tf.train.Features(feature={
                "x": tf.train.Feature(int64_list=tf.train.Int64List(
                    value=[i]))})).SerializeToString())
    parsed = tf.parse_example(list(tf.python_io.tf_record_iterator(path)),
                              {"x": tf.FixedLenFeature([], tf.int64)})
    with tf.Session() as session:
        assert session.run(parsed)["x"].tolist() == [0, 1, 2]


def test_levels_of_compression(tmp_path):
    sizes = []
    for level in (0, 1, 9, None):
        path = str(tmp_path / str(level))
        options = tf.python_io.TFRecordOptions("ZLIB", compression_level=level)
        with tf.python_io.TFRecordWriter(path, options) as writer:
            for i in range(300):
                writer.write(b"%d and more text, " % (i * i) * 4)
        assert len(list(tf.python_io.tf_record_iterator(path, options))) == 300
        sizes.append(os.path.getsize(path))
    assert sizes[0] > 2 * sizes[1] > 2 * sizes[2]
    with pytest.raises(tf.errors.InvalidArgumentError, match="-1 to 9"):
        tf.python_io.TFRecordWriter(
            str(tmp_path / "r"),
            tf.python_io.TFRecordOptions("GZIP", compression_level=11))


@pytest.mark.parametrize("kind", ["ZLIB", "GZIP"])
def test_flushed_records_of_a_compressed_file_are_read(tmp_path, kind):
    path = str(tmp_path / "r")
    with tf.python_io.TFRecordWriter(path, kind) as writer:
        writer.write(b"first")
        writer.flush()
        assert list(tf.python_io.tf_record_iterator(path, kind)) == [b"first"]
        writer.write(b"second")
        writer.flush()
        assert list(tf.python_io.tf_record_iterator(path, kind)) == [
            b"first", b"second"]


def test_zlib_parameters(tmp_path):
    path = str(tmp_path / "r")

    def size(kind="ZLIB", **parameters):
        options = tf.python_io.TFRecordOptions(kind, **parameters)
        with tf.python_io.TFRecordWriter(path, options) as writer:
            for i in range(300):
                writer.write(b"%d and more text, " % (i * i) * 40)
        records = list(tf.python_io.tf_record_iterator(path, options))
        assert len(records) == 300
        return os.path.getsize(path)

    for kind, extra in ("ZLIB", 0), ("GZIP", 16):
        plain = size(kind)
        assert size(kind, flush_mode=2) > plain + 4 * 300
        assert size(kind, window_bits=9 + extra) > plain
        assert size(kind, mem_level=1) != plain
        assert size(kind, compression_strategy=2) > 2 * plain
        assert (size(kind, flush_mode=2, input_buffer_size=1 << 16)
                < size(kind, flush_mode=2) - 4 * 200)
    for wrong in ({"flush_mode": 4}, {"window_bits": 7}, {"mem_level": 10},
                  {"compression_strategy": 9}, {"output_buffer_size": 0},
                  {"input_buffer_size": -1}):
        with pytest.raises(tf.errors.InvalidArgumentError, match="expected"):
            size(**wrong)
    with pytest.raises(ValueError, match="compression_method"):
        size(compression_method=9)
    # What is flushed after each record is read while the file is open.
    options = tf.python_io.TFRecordOptions("GZIP", flush_mode=2)
    with tf.python_io.TFRecordWriter(path, options) as writer:
        writer.write(b"first")
        assert list(tf.python_io.tf_record_iterator(path, "GZIP")) == [b"first"]


def test_reading_goes_on_when_the_file_grows(tmp_path):
    path = str(tmp_path / "records")
    with tf.python_io.TFRecordWriter(path) as writer:
        writer.write(b"one")
        writer.flush()
        records = tf.python_io.tf_record_iterator(path)
        assert list(records) == [b"one"] and list(records) == []
        writer.write(b"two")
        writer.write(b"")
        writer.flush()
        assert list(records) == [b"two", b""] and list(records) == []
    whole = (tmp_path / "records").read_bytes()
    (tmp_path / "records").write_bytes(whole + whole[:10])
    for _ in range(2):
        with pytest.raises(tf.errors.DataLossError):
            next(records)
    (tmp_path / "records").write_bytes(whole + whole[:19])
    assert list(records) == [b"one"]


@pytest.mark.parametrize("kind", ["", "GZIP"])
def test_reading_goes_on_where_it_stopped(tmp_path, kind):
    path = str(tmp_path / "records")
    with tf.python_io.TFRecordWriter(path, kind) as writer:
        writer.write(b"first")
        writer.write(b"second")
        writer.flush()
        records = tf.python_io.tf_record_iterator(path, kind)
        assert iter(records) is records
        assert next(records) == b"first"
        assert list(records) == [b"second"]
        writer.write(b"third")
        writer.flush()
        if not kind:  # What was read is not looked at again.
            with open(path, "r+b") as file:
                file.write(bytes(20))
        assert list(records) == [b"third"]
    (tmp_path / "records").unlink()
    with pytest.raises(tf.errors.NotFoundError):
        next(records)
