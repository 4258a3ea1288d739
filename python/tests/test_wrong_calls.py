"""Messages for wrong calls.

They suggest the nearest name, or contain both shapes or dtypes and the lines
where both values were made.
"""

import importlib
import inspect
import re

import numpy as np
import pytest

import sluice as sl
import sluice.compat.v1 as tf


def _line(tensor):
    """Returns "FILE:LINE" of the operation of a tensor."""
    return ":".join(map(str, tensor.op._line))


def test_missing_member_error_suggests_nearest(session):
    x = tf.placeholder(tf.float32, [2])
    v = tf.Variable(1.0)
    for owner, member, nearest in (
            (x, "shpae", "shape"), (x.op, "inputz", "inputs"),
            (x.graph, "get_tensor_by_nam", "get_tensor_by_name"),
            (session, "rnu", "run"), (v, "asign_add", "assign_add")):
        assert not hasattr(owner, member)
        with pytest.raises(AttributeError, match=(
                rf"object has no attribute '{member}' \(nearest: {nearest}")):
            getattr(owner, member)
    with pytest.raises(AttributeError, match="has no attribute 'zzzzzzzz'$"):
        x.zzzzzzzz


def test_array_member_error_suggests_replacement():
    x = tf.placeholder(tf.float32, [2])
    with pytest.raises(AttributeError, match=r"session.run\(\) gives its val"):
        x.numpy()
    with pytest.raises(AttributeError, match="function: tf.reshape"):
        x.reshape([1, 2])
    with pytest.raises(AttributeError, match="function: tf.reduce_sum"):
        x.sum()


def test_property_errors_are_passed_through():
    v = tf.Variable(1.0, use_resource=False)
    with pytest.raises(AttributeError, match="expected a resource variable"):
        v.handle


def test_wrong_keyword_error_suggests_nearest():
    for call, words in (
            (lambda: tf.Variable(1.0, trainble=False),
             r"Variable\(\) got .* \(nearest: trainable\)"),
            (lambda: tf.Session(grpah=None),
             r"Session\(\) got .* \(nearest: graph\)"),
            (lambda: tf.train.AdamOptimizer(learning_rat=1.0),
             r"AdamOptimizer\(\) got .* \(nearest: learning_rate"),
            (lambda: tf.nn.relu(1.0, nmae="x"),
             r"^relu\(\) got .* \(nearest: name\)"),
            (lambda: tf.reduce_max(1.0, axs=0), r"^reduce_max\(\) got ")):
        with pytest.raises(TypeError, match=words):
            call()
    assert "trainable" in inspect.signature(tf.Variable).parameters


def test_wrong_layer_keyword_is_reported_before_missing_ones():
    x = tf.zeros([1, 8, 8, 3])
    with pytest.raises(TypeError, match=r"^conv2d\(\) got .*'kernal_size' "
                       r"\(nearest: kernel_size"):
        tf.layers.conv2d(x, 3, kernal_size=3)
    with pytest.raises(TypeError, match=r"^dense\(\) missing .*'units'"):
        tf.layers.dense(x)
    with pytest.raises(AttributeError, match="gpu_option"):
        tf.ConfigProto().gpu_option.allow_growth = True


def test_loss_shape_errors_name_both_lines():
    a = tf.placeholder(tf.float32, [3], name="a")
    b = tf.placeholder(tf.float32, [4], name="b")
    for call in (tf.losses.mean_squared_error, tf.metrics.accuracy,
                 lambda a, b: tf.nn.sigmoid_cross_entropy_with_logits(
                     labels=a, logits=b)):
        with pytest.raises(ValueError, match=r"\(4,\).*\(3,\)") as e:
            call(a, b)
        assert _line(a) in str(e.value) and _line(b) in str(e.value)


def test_wrong_type_error_suggests_nearest():
    with pytest.raises(TypeError, match=r"'flaot32' .* \(nearest: float32\)"):
        tf.placeholder("flaot32")


def test_type_mismatch_names_both_lines():
    a = tf.placeholder(tf.float32, [2], name="a")
    b = tf.placeholder(tf.int32, [2], name="b")
    with pytest.raises(TypeError) as e:
        a + b
    assert str(e.value).endswith(
        f"; inputs 'a' (Placeholder) float32 at {_line(a)}, "
        f"'b' (Placeholder) int32 at {_line(b)}")
    with pytest.raises(TypeError, match="list of allowed values.*; inputs 'b' "
                       rf"\(Placeholder\) int32 at {re.escape(_line(b))}"):
        tf.nn.softmax(b)


def test_step_shape_mismatch_names_both_lines(session):
    a = tf.placeholder(tf.float32, name="a")
    b = tf.placeholder(tf.float32, name="b")
    product, total = tf.matmul(a, b), a + b
    feeds = {a: np.zeros([2, 3]), b: np.zeros([4, 5])}
    for fetch in (product, total):
        with pytest.raises(tf.errors.InvalidArgumentError) as e:
            session.run(fetch, feeds)
        assert "[2,3] and [4,5]" in str(e.value)
        assert (f"; inputs 'a' (Placeholder) at {_line(a)}, "
                f"'b' (Placeholder) at {_line(b)}") in str(e.value)


def test_graph_mismatch_names_both_lines():
    with tf.Graph().as_default():
        a = tf.constant(1.0)
    b = tf.constant(1.0)
    with pytest.raises(ValueError, match="same graph") as e:
        b + a
    assert str(e.value).endswith(
        f"; the first at {_line(a)}, the other at {_line(b)}")


def test_label_rank_error_names_shapes_and_lines():
    labels = tf.placeholder(tf.int32, [2, 3])
    logits = tf.placeholder(tf.float32, [2, 4])
    with pytest.raises(ValueError, match="Rank mismatch") as e:
        tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=labels, logits=logits)
    for tensor, shape in ((labels, "(2, 3)"), (logits, "(2, 4)")):
        assert shape in str(e.value) and _line(tensor) in str(e.value)


def test_variable_mismatch_names_defining_line():
    with tf.variable_scope("s"):
        w = tf.get_variable("w", [2])
    for options in ({"shape": [3]}, {"shape": [2], "dtype": tf.int32}):
        with tf.variable_scope("s", reuse=True), pytest.raises(
                ValueError, match=re.escape(
                    f"Originally defined at {_line(w)}")):
            tf.get_variable("w", **options)


def test_wrong_feed_error_names_the_feed(session):
    x = tf.placeholder(tf.float32, [2, 2], name="x")
    for value in (None, [[1, 2], [3]]):
        with pytest.raises(ValueError, match="; feed x:0$"):
            session.run(x, {x: value})
    with pytest.raises(TypeError, match=r"feed_dict: expected a dict .* \[1\]"):
        session.run(x, [1])


def test_legacy_argument_order_is_refused():
    with pytest.raises(ValueError, match="must have rank 0"):
        tf.concat(0, [tf.zeros([2]), tf.zeros([2])])
    with pytest.raises(ValueError, match="both 'dim' and 'axis'"):
        tf.expand_dims([1], 0, dim=0)


def test_unsupported_random_types_are_refused():
    for dtype in (tf.string, tf.bool, tf.uint8):
        with pytest.raises(ValueError, match="Invalid dtype"):
            tf.random_uniform([2], 0, 1, dtype)


def test_malformed_states_and_gradients_are_errors():
    with pytest.raises(TypeError, match=r"expected a pair \(c, h\)"):
        tf.nn.rnn_cell.LSTMCell(3)(tf.zeros([2, 4]), tf.zeros([2, 3]))
    with pytest.raises(TypeError, match="expected pairs of a gradient"):
        tf.train.AdamOptimizer().apply_gradients([tf.zeros([])])
    with pytest.raises(ValueError, match="keep_prob .* got 1.5"):
        tf.nn.dropout(tf.zeros([3]), 1.5)


def test_completion_lists_public_names():
    for module in (sl, tf):
        shown = set(dir(module))
        assert {"add", "nn", "train", "errors", "Session"} <= shown
        assert not {"client", "framework", "ops", "names", "keras",
                    "ragged"} & shown
        assert all(hasattr(module, name) for name in shown)
        assert not [n for n in shown if n[0] == "_" and n[:2] != "__"]


def test_namespaces_survive_import_of_equally_named_modules():
    for name in ("layers", "contrib", "compat"):
        before = getattr(sl, name)
        importlib.import_module(f"sluice.{name}")
        assert getattr(sl, name) is before
    assert sl.train.get_global_step() is None
    with pytest.raises(AttributeError, match="needs checkpoints of obj"):
        sl.train.Checkpoint


def test_variable_scopes_must_exit_in_order():
    outer = tf.variable_scope("outer")
    outer.__enter__()
    with tf.variable_scope("inner"):
        with pytest.raises(RuntimeError, match="Improper nesting of variable_s"
                           "cope: expected to leave 'outer/inner' first"):
            outer.__exit__(None, None, None)
    outer.__exit__(None, None, None)
    assert tf.get_variable_scope().name == ""


def test_assign_rejects_other_type_or_shape():
    v = tf.Variable([1, 2])
    with pytest.raises(TypeError, match="int8 that does not match type int32"):
        v[:1].assign(tf.constant([1], tf.int8))
    w = tf.Variable([1, 2], use_resource=True)
    with pytest.raises(ValueError, match="requested dtype int32"):
        w[:1].assign(tf.constant([1], tf.int8))
    w = tf.Variable(1, use_resource=True)
    with pytest.raises(ValueError, match="expected the variable's type, int32"):
        tf.raw_ops.AssignVariableOp(resource=w.handle, value=1.0)
    with pytest.raises(ValueError, match="is not compatible with the explic"):
        tf.Variable([1.0] * 3, shape=[4], use_resource=True)


def test_growing_loop_variable_error_names_its_input():
    x = tf.ones([2, 2], name="x")
    with pytest.raises(ValueError, match=(
            r"loop variable 1: expected shape \[2,2\] after every iteration, as "
            r"'x:0' enters the loop.*Input tensor 'x:0' enters the loop with "
            r"shape \(2, 2\), but has shape \(4, 2\) after one iteration")):
        tf.while_loop(lambda i, _: i < 2,
                      lambda i, x: (i + 1, tf.concat([x, x], 0)), [0, x])


def test_input_map_conversion_needs_a_name():
    with tf.Graph().as_default() as graph:
        tf.identity(tf.placeholder(tf.float32, name="a"), name="b")
    with pytest.raises(ValueError, match="requires a non-empty `name`"):
        tf.import_graph_def(graph.as_graph_def(), {"a:0": tf.Variable(5.0)},
                            name="")
