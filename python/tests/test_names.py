"""The table of names: all exist, and errors explain missing ones."""

import importlib
import inspect
import re
import types

import pytest
import sluice.compat.v1 as tf
from sluice import names


def test_every_listed_name_exists():
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
    (lambda: tf.ragged, "constant", "ragged tensors"),
    (lambda: tf.train, "Checkpoint", "checkpoints of objects"),
    (lambda: tf.contrib.summary, "scalar", "summaries of eager programs"),
    (lambda: tf.keras, "Model", "Keras")])
def test_unsupported_names_report_requirements(where, name, needs):
    with pytest.raises(AttributeError, match=f"'{name}': it needs {needs}"):
        getattr(where(), name)
    assert not hasattr(where(), name)


def test_wrong_name_errors_suggest_nearest():
    for space, wrong, near in ((tf, "matmull", "matmul"),
                               (tf.nn, "dynamic_rn", "dynamic_rnn"),
                               (tf.layers, "dens", "dense"),
                               (tf.nn.rnn_cell, "LSTMcell", "LSTMCell")):
        with pytest.raises(AttributeError, match=f"nearest.*{near}"):
            getattr(space, wrong)


def test_namespaces_nest():
    assert tf.nn.rnn_cell.LSTMCell is tf.contrib.rnn.LSTMCell
    assert "rnn_cell" in dir(tf.nn)
    assert tf.compat.v1.train.AdamOptimizer is tf.train.AdamOptimizer
    assert tf.io.gfile is tf.gfile
    assert tf.contrib.framework.nest is tf.nest


def test_argument_order_matches_tensorflow(run):
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


def test_op_argument_names_match_tensorflow(run):
    """Checks names that differ from the declarations, and some that do not."""
    def names_of(op):
        return [p[0] for p in getattr(tf.raw_ops, op)._parameters()]

    for op in ("All", "Any", "EuclideanNorm", "Max", "Mean", "Min", "Prod",
               "Sum"):
        assert names_of(op) == ["input", "axis", "keep_dims"]
    assert names_of("ArgMax")[:2] == ["input", "dimension"]
    assert names_of("ExpandDims") == names_of("Squeeze") == ["input", "axis"]
    assert names_of("Select") == ["condition", "x", "y"]
    assert names_of("Split") == ["axis", "value", "num_split"]
    assert names_of("SplitV") == ["value", "size_splits", "axis", "num_split"]
    assert names_of("Where") == ["condition"]
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    assert run(tf.raw_ops.Max(input=x, axis=1)).tolist() == [2, 4]
    assert run(tf.raw_ops.Squeeze(input=x[:1], axis=[0])).tolist() == [1, 2]
    assert run(tf.raw_ops.Where(condition=[False, True])).tolist() == [[1]]
    assert run(tf.raw_ops.Select(condition=[True, False], x=[1, 2],
                                 y=[3, 4])).tolist() == [1, 4]
    with pytest.raises(TypeError, match="unexpected keyword argument "
                                        "'reduction_indices'"):
        tf.raw_ops.Sum(input=x, reduction_indices=[0])


def test_documentation_lists_actual_parameters():
    told = 0
    for group, found in [("", names.PUBLIC), *names._GROUPS.items()]:
        for name, (module, there) in found.items():
            value = getattr(importlib.import_module(module), there)
            text = inspect.getdoc(value) or ""
            if not callable(value) or "\nArgs:\n" not in text:
                continue
            known = inspect.signature(value).parameters
            if any(p.kind is p.VAR_KEYWORD for p in known.values()):
                continue
            part = text.split("\nArgs:\n")[1].split("\n\n")[0]
            for line in re.findall(r"^  (\*?\w[\w, *]*):", part, re.M):
                for parameter in line.replace("*", "").split(", "):
                    told += 1
                    assert parameter in known, (group, name, parameter)
    assert told > 1000
    for name in ("concat split stack gather one_hot cast get_variable matmul "
                 "Session SparseTensor Variable random_normal zeros").split():
        assert "Args:" in inspect.getdoc(getattr(tf, name)), name
