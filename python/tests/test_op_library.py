"""Ops from shared libraries: load_op_library."""

import os
import subprocess
import sys
import textwrap

import sluice
from sluice.framework import op_library

# The library that is built from examples/custom_op.cc.
LIBRARY = os.path.join(os.path.dirname(sluice._core.__file__), os.pardir,
                       os.pardir, "lib", "custom_op.so")


def test_function_names_match_tensorflow():
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


def test_library_registers_its_ops_once(tmp_path):
    copy = tmp_path / "copy.so"
    with open(LIBRARY, "rb") as f:
        copy.write_bytes(f.read())
    subprocess.run([sys.executable, "-c", textwrap.dedent(PROGRAM), LIBRARY,
                    str(copy)], check=True, timeout=60)


IN_C = """
    import sys
    import sluice.compat.v1 as tf
    made = tf.load_op_library(sys.argv[1])
    x = tf.placeholder(tf.float32, [None])
    y = made.scaled_reverse(x, factor=10.0)
    assert y.shape.as_list() == [None]
    i, z = tf.while_loop(lambda i, v: i < 3,
                         lambda i, v: (i + 1, made.scaled_reverse(v, factor=2.0)),
                         [0, x])
    w = tf.cond(x[0] > 0, lambda: made.scaled_reverse(x), lambda: x)
    dx, = tf.gradients(y * y / 2, x)  # By the gradient function in C.
    dz, = tf.gradients(z, x)
    with tf.Session() as session:
        feed = {x: [1, 2, 3]}
        assert session.run(dx, feed).tolist() == [100, 200, 300]
        assert session.run(y, feed).tolist() == [30, 20, 10]
        assert session.run(z, feed).tolist() == [24, 16, 8]
        assert session.run(dz, feed).tolist() == [8, 8, 8]
        assert session.run(w, feed).tolist() == [3, 2, 1]
        assert session.run(w, {x: [-1, 2]}).tolist() == [-1, 2]
        try:
            session.run(made.scaled_reverse(x, factor=0.0, name="zero"), feed)
        except tf.errors.InvalidArgumentError as e:
            assert "expected not 0" in str(e) and "zero" in str(e), e
        else:
            raise AssertionError("a factor of 0")
    try:
        made.scaled_reverse([[1.0]])
    except ValueError as e:
        assert "rank 1" in str(e), e
    else:
        raise AssertionError("a matrix")
"""


def test_library_in_c():
    library = os.path.join(os.path.dirname(LIBRARY), "custom_op_in_c.so")
    subprocess.run([sys.executable, "-c", textwrap.dedent(IN_C), library],
                   check=True, timeout=60)


TEST_OPS = """
    import sluice.run
    sluice.run.install()
    from tensorflow.python.framework import test_ops
    import tensorflow as tf

    made = test_ops.two_int_outputs(name="made")
    assert made.a.name == "made:0" and made.b.dtype == tf.int32
    graph = tf.get_default_graph()
    op = graph.create_op("FloatOutput", [], name="x")
    assert op.outputs[0].dtype == tf.float32
    try:
        tf.Session().run(op)
    except tf.errors.UnimplementedError:
        pass
    else:
        raise AssertionError("a kernel")
    # Some have one.
    handle = test_ops.stub_resource_handle_op(container="a", shared_name="b")
    with tf.Session() as session:
        there = test_ops.resource_initialized_op(handle)
        assert not session.run(there)
        create = test_ops.resource_create_op(handle)
        session.run(create)
        assert session.run(there)
        try:
            session.run(create)
        except tf.errors.AlreadyExistsError:
            pass
        else:
            raise AssertionError("created twice")
    # What an op changes, it is to be with.
    v, w = test_ops.ref_out(T=tf.int32), test_ops.ref_out(T=tf.int32)
    assert test_ops.two_refs_in(v, w).colocation_groups() == [
        b"loc:@RefOut", b"loc:@RefOut_1"]
    # Types that an op does not take, and those that nothing tells.
    for fails in (lambda: test_ops.n_polymorphic_restrict_out(N=2, T=tf.int32),
                  lambda: test_ops.out_type_list_restrict([tf.int32]),
                  lambda: test_ops.type_list_restrict([True, 12]),
                  lambda: test_ops.in_polymorphic_twice([], [1, 2])):
        try:
            fails()
        except TypeError as e:
            assert "not in list of allowed" in str(e) or "infer" in str(e), e
        else:
            raise AssertionError("a type that is not allowed")
    # By name, as op definitions had it.
    apply = test_ops._op_def_lib.apply_op
    assert apply("ReservedInput", input_=3).inputs[0].dtype == tf.int32
    assert apply("OutTypeList", T=[]) == []
    a, b, c = apply("ComplexStruct", n_a=0, n_b=0, t_c=[])
    assert a == b == c == []
"""


def test_tensorflow_test_ops_exist():
    subprocess.run([sys.executable, "-c", textwrap.dedent(TEST_OPS)],
                   check=True, timeout=60)
