"""Ops of shared libraries: load_op_library."""

import os
import subprocess
import sys
import textwrap

import sluice
from sluice.framework import op_library

# What the build makes of examples/custom_op.cc.
LIBRARY = os.path.join(os.path.dirname(sluice._core.__file__), os.pardir,
                       os.pardir, "lib", "custom_op.so")


def test_functions_have_the_names_that_tensorflow_gives():
    for op, name in (("FFT2D", "fft2d"), ("RGB2Gray", "rgb2_gray"),
                     ("IOU3D", "iou3d"), ("Backwards", "backwards"),
                     ("MatMul", "mat_mul"), ("LSTMBlockCell",
                                             "lstm_block_cell"),
                     ("ApplyGradientDescentV2", "apply_gradient_descent_v2")):
        assert op_library._function_name(op) == name


PROGRAM = """
    import sys
    import sluice.compat.v1 as tf
    path, copy = sys.argv[1:]

    def fails(error, words, path):
        try:
            tf.load_op_library(path)
        except error as e:
            assert words in str(e) and path in str(e), e
        else:
            raise AssertionError(path)

    with tf.Graph().as_default() as graph:
        x = tf.constant([1.0, 2.0, 3.0], name="x")
        tf.identity(x, name="y")
        definition = graph.as_graph_def()
    definition.node[1].op = "Backwards"
    del definition.node[1].attr["T"]
    try:
        tf.import_graph_def(definition)
    except ValueError as e:
        assert "Backwards" in str(e)
    assert not hasattr(tf.raw_ops, "Backwards")

    fails(tf.errors.NotFoundError, "cannot open", "no_such_library.so")
    fails(tf.errors.InvalidArgumentError, "got none", "libm.so.6")

    first, second = tf.load_op_library(path), tf.load_op_library(path)
    assert first.__name__ == "custom_op"
    assert "reverse" in first.backwards.__doc__
    fails(tf.errors.AlreadyExistsError, "got 'Backwards'", copy)
    y, = tf.import_graph_def(definition, return_elements=["y:0"])
    assert y.shape == [3] and "Backwards" in dir(tf.raw_ops)
    with tf.Session() as session:
        for made in (y, first.backwards(x=[1, 2, 3]),
                     second.backwards([1.0, 2.0, 3.0], name="named"),
                     tf.raw_ops.Backwards(x=[1.0, 2.0, 3.0])):
            assert session.run(made).tolist() == [3, 2, 1]
    assert tf.get_default_graph().get_tensor_by_name("named:0") is not None
"""


def test_a_library_adds_its_ops_once(tmp_path):
    copy = tmp_path / "copy.so"
    with open(LIBRARY, "rb") as f:
        copy.write_bytes(f.read())
    subprocess.run([sys.executable, "-c", textwrap.dedent(PROGRAM), LIBRARY,
                    str(copy)], check=True, timeout=60)
