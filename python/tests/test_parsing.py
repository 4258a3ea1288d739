"""Parsing of Examples, SequenceExamples and other records."""

import numpy as np
import pytest
import sluice.compat.v1 as tf
from sluice.ops import files


def feature(values):
    if isinstance(values[0], bytes):
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if isinstance(values[0], float):
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


def example(**values):
    return tf.train.Example(features=tf.train.Features(feature={
        key: feature(value) for key, value in values.items()
        if value})).SerializeToString()


def sequence(context, lists):
    return tf.train.SequenceExample(
        context=tf.train.Features(
            feature={k: feature(v) for k, v in context.items()}),
        feature_lists=tf.train.FeatureLists(feature_list={
            key: tf.train.FeatureList(feature=[feature(v) for v in rows])
            for key, rows in lists.items()})).SerializeToString()


EXAMPLES = [example(a=[1, 2], b=[1.5], c=[b"x", b"y"], i=[0, 3], v=[7.0, 8.0]),
            example(a=[3, 4], c=[b"z"], i=[1], v=[9.0])]


def test_a_batch_of_examples(run):
    parsed = tf.parse_example(EXAMPLES, {
        "a": tf.FixedLenFeature([2], tf.int64),
        "b": tf.FixedLenFeature([], tf.float32, default_value=-1.0),
        "c": tf.VarLenFeature(tf.string),
        "s": tf.SparseFeature("i", "v", tf.float32, 4)})
    assert sorted(parsed) == ["a", "b", "c", "s"]
    assert parsed["a"].shape.as_list() == [2, 2]
    assert parsed["b"].shape.as_list() == [2]
    assert parsed["c"].dense_shape.shape.as_list() == [2]
    got = run(parsed)
    assert got["a"].tolist() == [[1, 2], [3, 4]]
    assert got["b"].tolist() == [1.5, -1]
    assert got["c"].indices.tolist() == [[0, 0], [0, 1], [1, 0]]
    assert list(got["c"].values) == [b"x", b"y", b"z"]
    assert got["c"].dense_shape.tolist() == [2, 2]
    assert got["s"].indices.tolist() == [[0, 0], [0, 3], [1, 1]]
    assert got["s"].values.tolist() == [7, 8, 9]
    assert got["s"].dense_shape.tolist() == [2, 4]


def test_sequences_are_padded_to_the_longest(run):
    parsed = tf.io.parse_example(tf.placeholder_with_default(EXAMPLES, [None]), {
        "c": tf.FixedLenSequenceFeature([], tf.string, allow_missing=True),
        "b": tf.FixedLenSequenceFeature([1], tf.float32, allow_missing=True,
                                        default_value=-2.0)})
    assert parsed["c"].shape.as_list() == [None, None]
    assert parsed["b"].shape.as_list() == [None, None, 1]
    got = run(parsed)
    assert got["c"].tolist() == [[b"x", b"y"], [b"z", b""]]
    assert got["b"].tolist() == [[[1.5]], [[-2]]]


@pytest.mark.parametrize("names", [None, "first"])
def test_a_single_example(run, names):
    parsed = tf.parse_single_example(EXAMPLES[0], {
        "a": tf.FixedLenFeature([1, 2], tf.int64),
        "c": tf.VarLenFeature(tf.string),
        "b": tf.FixedLenSequenceFeature([], tf.float32, allow_missing=True),
        "s": tf.SparseFeature(["i"], "v", tf.float32, [4])},
        example_names=names)
    assert parsed["a"].shape.as_list() == [1, 2]
    assert parsed["b"].shape.as_list() == [None]
    got = run(parsed)
    assert got["a"].tolist() == [[1, 2]] and got["b"].tolist() == [1.5]
    assert got["c"].indices.tolist() == [[0], [1]]
    assert got["c"].dense_shape.tolist() == [2]
    assert got["s"].indices.tolist() == [[0], [3]]
    with pytest.raises(ValueError):
        tf.parse_single_example(EXAMPLES, {"a": tf.VarLenFeature(tf.int64)},
                                example_names=names)


@pytest.mark.parametrize("features,match", [
    ({}, "Missing: features"),
    ({"a": 3}, "Invalid feature a"),
    ({"a": tf.FixedLenFeature(None, tf.int64)}, "Missing shape for feature a"),
    ({"a": tf.FixedLenFeature([], None)}, "Missing type for feature a"),
    ({"a": tf.VarLenFeature(None)}, "Missing type for feature a"),
    ({"a": tf.FixedLenFeature([None], tf.int64)}, "First dimension of shape"),
    ({"a": tf.FixedLenFeature([1, None], tf.int64)}, "need to be known"),
    ({"a": tf.FixedLenSequenceFeature([], tf.int64)}, "allow_missing"),
    ({"a": tf.SparseFeature("", "v", tf.int64, 1)}, "Missing index_key"),
    ({"a": tf.SparseFeature("i", "", tf.int64, 1)}, "Missing value_key"),
    ({"a": tf.SparseFeature("i", "i", tf.float32, 1)}, "Conflicting type"),
    ({"i": tf.FixedLenFeature([], tf.int64),
      "s": tf.SparseFeature("i", "v", tf.float32, 1)}, "must not intersect")])
def test_wrong_features_are_errors(features, match):
    with pytest.raises(ValueError, match=match):
        tf.parse_example(EXAMPLES, features)


@pytest.mark.parametrize("features,match", [
    ({"b": tf.FixedLenFeature([], tf.float32)},
     r"Name: two, Feature: b \(data type: float\) is required"),
    ({"c": tf.FixedLenFeature([2], tf.string)},
     "Key: c, Index: 1.  Number of string values != expected"),
    ({"a": tf.VarLenFeature(tf.float32)}, "float"),
    ({"c": tf.FixedLenSequenceFeature([2], tf.string, True)},
     "Key: c, Index: 1.  Number of bytes values is not a multiple")])
def test_examples_that_do_not_fit_are_errors_of_the_step(run, features, match):
    parsed = tf.parse_example(EXAMPLES, features, example_names=["one", "two"])
    with pytest.raises(tf.errors.InvalidArgumentError, match=match):
        run(parsed)


SEQUENCE = sequence({"n": [2], "tags": [b"p", b"q"]},
                    {"x": [[1.0, 2.0], [3.0, 4.0]], "w": [[5, 6], [7]]})


def test_a_single_sequence(run):
    context, lists = tf.parse_single_sequence_example(
        SEQUENCE, {"n": tf.FixedLenFeature([], tf.int64),
                   "tags": tf.VarLenFeature(tf.string)},
        {"x": tf.FixedLenSequenceFeature([2], tf.float32),
         "w": tf.VarLenFeature(tf.int64),
         "none": tf.FixedLenSequenceFeature([], tf.int64,
                                            allow_missing=True)})
    assert context["n"].shape.as_list() == []
    assert lists["x"].shape.as_list() == [None, 2]
    got, rows = run([context, lists])
    assert got["n"] == 2 and list(got["tags"].values) == [b"p", b"q"]
    assert rows["x"].tolist() == [[1, 2], [3, 4]]
    assert rows["w"].indices.tolist() == [[0, 0], [0, 1], [1, 0]]
    assert rows["w"].dense_shape.tolist() == [2, 2]
    assert rows["none"].shape == (0,)


def test_a_batch_of_sequences(run):
    short = sequence({"n": [1]}, {"x": [[9.0, 9.0]]})
    context, lists, lengths = tf.io.parse_sequence_example(
        [SEQUENCE, short], {"n": tf.FixedLenFeature([], tf.int64)},
        {"x": tf.FixedLenSequenceFeature([2], tf.float32)})
    assert lists["x"].shape.as_list() == [2, None, 2]
    got = run([context["n"], lists["x"], lengths["x"]])
    assert got[0].tolist() == [2, 1] and got[2].tolist() == [2, 1]
    assert got[1][1].tolist() == [[9, 9], [0, 0]]


def test_wrong_sequences_are_errors(run):
    wanted = {"z": tf.FixedLenSequenceFeature([], tf.int64)}
    _, lists = tf.parse_single_sequence_example(
        SEQUENCE, sequence_features=wanted, example_name="it")
    with pytest.raises(tf.errors.InvalidArgumentError,
                       match="Name: it, Feature list 'z' is required"):
        run(lists)
    with pytest.raises(ValueError, match="Missing features"):
        tf.parse_single_sequence_example(SEQUENCE)
    with pytest.raises(ValueError, match="must be a scalar"):
        tf.parse_single_sequence_example([SEQUENCE], sequence_features=wanted)
    with pytest.raises(ValueError, match="must be None"):
        tf.parse_single_sequence_example(SEQUENCE, sequence_features={
            "z": tf.FixedLenSequenceFeature([], tf.int64, True, 3)})
    with pytest.raises(ValueError, match="Unsupported FixedLenFeature"):
        tf.parse_single_sequence_example(SEQUENCE, sequence_features={
            "z": tf.FixedLenFeature([], tf.int64)})


def test_tensors_round_trip(run):
    x = np.arange(6, dtype=np.int16).reshape(2, 3)
    again = tf.parse_tensor(tf.io.serialize_tensor(x), tf.int16)
    np.testing.assert_array_equal(run(again), x)


def test_examples_in_json(run):
    text = """{"features": {"feature": {"a": {"int64List": {"value": [4]}}}}}"""
    parsed = tf.parse_single_example(
        tf.reshape(tf.decode_json_example([text]), []),
        {"a": tf.FixedLenFeature([], tf.int64)})
    assert run(parsed) == {"a": 4}


def test_whole_files_are_read_and_written(run, tmp_path):
    names = [str(tmp_path / f"{i}.txt") for i in range(2)]
    for i, name in enumerate(names):
        run(tf.write_file(name, f"text {i}"))
    assert [n.decode() for n in run(tf.matching_files(
        str(tmp_path / "*.txt")))] == names
    assert run(tf.read_file(names[1])) == b"text 1"
    assert run(tf.io.read_file(names[0])) == b"text 0"


# A file with the records "one", "two!" and "", as TensorFlow writes it.
RECORDS = (b"\3\0\0\0\0\0\0\0\xb0\x99I\x0eone\1@U\x08"
           b"\4\0\0\0\0\0\0\0BER\4two!\x9dN]#"
           b"\0\0\0\0\0\0\0\0)\3\x98\7\xd8\xea\x82\xa2")


@pytest.mark.parametrize("batches", [None, 2])
def test_records_are_drawn_from_many_files(run, tmp_path, batches):
    for i in range(3):
        (tmp_path / f"{i}.rec").write_bytes(RECORDS)
    drawn = files.RecordInput(str(tmp_path / "*.rec"), batch_size=9,
                              buffer_size=20, seed=1, batches=batches)
    got = run(drawn.get_yield_op())
    assert len(got) == (batches or 9)
    batch = np.ravel(got)
    assert len(batch) == 9 * (batches or 1)
    assert sorted(batch) == sorted([b"one", b"two!", b""] * 3 * (batches or 1))


def test_compressions_have_names():
    kinds = tf.python_io.TFRecordCompressionType
    name = tf.python_io.TFRecordOptions.get_compression_type_string
    assert [name(k) for k in (None, kinds.NONE, kinds.ZLIB, kinds.GZIP, "GZIP",
                              tf.python_io.TFRecordOptions(
                                  tf.python_io.TFRecordOptions(kinds.GZIP)))
            ] == ["", "", "ZLIB", "GZIP", "GZIP", "GZIP"]
    with pytest.raises(ValueError, match='Not a valid compression_type: "ZIP"'):
        tf.python_io.TFRecordOptions("ZIP")
