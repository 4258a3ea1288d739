"""The table of names: all are there, and what is not says why."""

import types

import pytest
import sluice.compat.v1 as tf
from sluice import names


def test_every_name_of_the_table_is_there():
    for name in names.PUBLIC:
        assert getattr(tf, name) is not None or name == "newaxis", name
    for group, found in names._GROUPS.items():
        space = tf
        for part in group.split("."):
            space = getattr(space, part)
        assert isinstance(space, types.ModuleType)
        assert set(found) <= set(dir(space))
        for name in found:
            assert getattr(space, name) is not None, (group, name)


@pytest.mark.parametrize("where,name,needs", [
    (lambda: tf, "FIFOQueue", "queues"),
    (lambda: tf.train, "Saver", "savers"),
    (lambda: tf, "summary", "summaries"),
    (lambda: tf, "py_function",
     "ops that call Python eagerly"),
    (lambda: tf.image, "decode_png", "image codecs"),
    (lambda: tf, "keras", "Keras")])
def test_what_is_not_there_yet_says_what_it_needs(where, name, needs):
    with pytest.raises(AttributeError, match=f"'{name}': it needs {needs}"):
        getattr(where(), name)
    assert not hasattr(where(), name)


def test_wrong_names_have_nearest_ones():
    for space, wrong, near in ((tf, "matmull", "matmul"),
                               (tf.nn, "dynamic_rn", "dynamic_rnn"),
                               (tf.layers, "dens", "dense"),
                               (tf.nn.rnn_cell, "LSTMcell", "LSTMCell")):
        with pytest.raises(AttributeError, match=f"nearest.*{near}"):
            getattr(space, wrong)


def test_namespaces_within_namespaces():
    assert tf.nn.rnn_cell.LSTMCell is tf.contrib.rnn.LSTMCell
    assert "rnn_cell" in dir(tf.nn)
    assert tf.compat.v1.train.AdamOptimizer is tf.train.AdamOptimizer
    assert tf.io.gfile is tf.gfile


def test_arguments_are_in_tensorflows_order(run):
    assert run(tf.arg_max([[1, 3], [5, 4]], 1, tf.int32)).tolist() == [1, 0]
    assert run(tf.arg_min([[1, 3], [5, 4]], 0)).tolist() == [0, 0]
    counts = tf.confusion_matrix([0, 1], [1, 1], 2, tf.float32, "c", [2.0, 3.0])
    assert run(counts).tolist() == [[0, 2], [0, 3]]
    assert run(tf.count_nonzero(input=[0, 1, 2])) == 2
    pieces = run(tf.strings.split(["a b  c d", "e"], maxsplit=2))
    assert list(pieces.values) == [b"a", b"b", b"c d", b"e"]
    assert run(tf.parallel_stack([1, 2], "p")).tolist() == [1, 2]
    ones = [1, 1, 1, 1]
    image = tf.ones([1, 2, 2, 1])
    assert run(tf.nn.depthwise_conv2d_native(
        image, tf.ones([2, 2, 1, 1]), ones, "VALID", "NHWC", ones)) == 4
    v = tf.Variable([0.0, 0.0])
    assert tf.scatter_update(v, [0], [1.0]).op.get_attr("use_locking")
    assert not tf.scatter_nd_add(v, [[0]], [1.0]).op.get_attr("use_locking")
