"""Programs and tests for TensorFlow 1."""

import functools
import inspect
import os
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import sluice.compat.v1 as tf

PROGRAM = """
    import sys
    import tensorflow as tf
    import tensorflow.compat.v1 as tf1
    from tensorflow.train import GradientDescentOptimizer

    assert tf is tf1 and sys.argv[1:] == ["a", "b"]
    v = tf.Variable(3.0)
    train = GradientDescentOptimizer(0.5).minimize(v * v)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        print(session.run(v))
"""


def test_programs_that_import_tensorflow_run_unchanged(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(PROGRAM))
    out = subprocess.run([sys.executable, "-m", "sluice.run", str(script), "a",
                          "b"], check=True, capture_output=True, text=True)
    assert out.stdout == "0.0\n"


INSIDES = """
    from tensorflow.python.client import session
    from tensorflow.python.framework import constant_op, dtypes, errors, ops
    from tensorflow.python.ops import array_ops, gen_math_ops, gradients_impl
    from tensorflow.python.ops import gradients, nn_ops, rnn, rnn_cell
    from tensorflow.python.ops import variables
    import tensorflow.python.ops.math_ops as math_ops
    from tensorflow.python.platform import test, gfile
    from tensorflow.python.training.adam import AdamOptimizer
    from tensorflow.python.util import nest
    from tensorflow.contrib import rnn as cells
    from tensorflow.core.protobuf import config_pb2
    from tensorflow.python.eager import context
    from tensorflow.python.framework import function, tensor_shape, test_util
    from tensorflow.python.layers import convolutional
    from tensorflow.python.ops import control_flow_ops, gradient_checker
    from tensorflow.python.ops import resource_variable_ops as resources

    from tensorflow.contrib.seq2seq.python.ops import attention_wrapper, helper
    from tensorflow.contrib.seq2seq.python.ops import beam_search_decoder
    from tensorflow.contrib.legacy_seq2seq.python.ops import seq2seq as legacy
    from tensorflow.contrib.rnn.python.ops import core_rnn_cell
    import tensorflow.contrib.seq2seq as seq2seq

    assert attention_wrapper.AttentionWrapper is seq2seq.AttentionWrapper
    assert issubclass(helper.TrainingHelper, seq2seq.Helper)
    assert beam_search_decoder.tile_batch is seq2seq.tile_batch
    assert legacy.sequence_loss is not seq2seq.sequence_loss
    assert core_rnn_cell.EmbeddingWrapper is cells.EmbeddingWrapper
    assert config_pb2.ConfigProto(allow_soft_placement=True)
    assert context.in_graph_mode() and not context.executing_eagerly()
    assert isinstance(function.Defun()(lambda: 1), function._DefinedFunction)
    assert tensor_shape.unknown_shape().ndims is None
    assert test_util.TensorFlowTestCase is test.TestCase
    convolved = convolutional.conv2d(array_ops.zeros([1, 3, 3, 1]), 2, 3)
    assert convolved.shape == [1, 1, 1, 2]
    assert control_flow_ops.merge([constant_op.constant(1)]).output is not None
    assert gradient_checker.compute_gradient_error
    w = variables.Variable(1.0, use_resource=True)
    assert isinstance(w, resources.ResourceVariable)
    w = resources.ResourceVariable(1.0)
    assert w.handle is not None and isinstance(w, variables.Variable)
    assert not isinstance(variables.Variable(1.0), resources.ResourceVariable)
    assert dtypes.float32_ref.base_dtype is dtypes.float32
    from tensorflow.core.protobuf import rewriter_config_pb2 as rewriting
    options = config_pb2.GraphOptions(
        rewrite_options=rewriting.RewriterConfig(
            function_optimization=rewriting.RewriterConfig.OFF))
    assert session.Session(config=config_pb2.ConfigProto(
        graph_options=options)) is not None
    from tensorflow.python.ops import control_flow_util, functional_ops
    assert not control_flow_util.ENABLE_CONTROL_FLOW_V2
    assert functional_ops.While

    ops.reset_default_graph()
    x = constant_op.constant([1.0, -2.0], dtypes.float32)
    y = math_ops.reduce_sum(nn_ops.relu(x)) + gen_math_ops.l2_loss(x)
    v = variables.Variable(1.0)
    assert errors.OpError and rnn.dynamic_rnn and test.TestCase
    assert rnn_cell.GRUCell is cells.GRUCell and nest.flatten([1]) == [1]
    assert gradients.gradients and gfile.Exists("/") and AdamOptimizer()
    try:
        math_ops.reduce_sums
    except AttributeError as e:
        assert "tensorflow.python.ops.math_ops" in str(e), e
    with session.Session() as s:
        print(s.run([y, gradients_impl.gradients(y, x)[0]]))
"""


def test_internal_tensorflow_modules_have_public_names(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(INSIDES))
    out = subprocess.run([sys.executable, "-m", "sluice.run", str(script)],
                         capture_output=True, text=True)
    assert out.returncode == 0, out
    assert out.stdout == "[3.5, array([ 2., -2.], dtype=float32)]\n"


class SquareTest(tf.test.TestCase):
    def testValues(self):
        with self.test_session():
            x = tf.constant([1.0, 2.0])
            self.assertAllEqual(tf.square(x).eval(), [1, 4])
            self.assertAllClose(self.evaluate(tf.sqrt(x)), np.sqrt([1, 2]))
            self.assertShapeEqual(np.ones(2), x)

    def testSessionIsKept(self):
        v = tf.Variable(2.0)
        with self.cached_session() as session:
            session.run(v.initializer)
        with self.cached_session():
            self.assertEqual(2.0, v.eval())
        with self.session() as other:
            with self.assertRaisesOpError("uninitialized"):
                other.run(v)

    def testGradient(self):
        with self.cached_session():
            x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
            y = tf.matmul(x, x)
            self.assertLess(tf.test.compute_gradient_error(
                x, [2, 2], y, [2, 2], x_init_value=np.ones([2, 2])), 1e-3)
            wrong = tf.stop_gradient(x) * x
            self.assertGreater(tf.test.compute_gradient_error(
                x, [2, 2], wrong, [2, 2]), 0.1)

    def testFailuresAreSeen(self):
        with self.assertRaises(AssertionError):
            self.assertAllEqual([1, 2], [1, 3])
        with self.assertRaises(AssertionError):
            self.assertAllClose([1.0], [1.1])
        self.assertNotAllEqual([1], [2])
        self.assertAllEqual([np.nan], [np.nan])


TESTS = """
    import tensorflow as tf

    tf.constant(1)

    class EmptyTest(tf.test.TestCase):
        def testEmpty(self):
            self.assertEqual(tf.get_default_graph().get_operations(), [])
            self.assertEqual(tf.get_default_graph().seed, 87654321)
            tf.reset_default_graph()


    class SetUpOfItsOwnTest(tf.test.TestCase):
        def setUp(self):
            tf.reset_default_graph()

        def testSession(self):
            with self.test_session():
                self.assertAllEqual(tf.constant([1]).eval(), [1])

        @tf.test.run_in_graph_and_eager_modes
        def testModes(self):
            self.assertAllInRange(self.evaluate(tf.constant([1, 2])), 1, 2)

        @tf.test.run_in_graph_and_eager_modes(use_gpu=True)
        def testModesWithArguments(self):
            self.assertEqual(tf.constant([1]).eval(), [1])

        @tf.test.run_v1_only("b/1")
        def testThreads(self):
            def fail():
                raise ValueError("seen")

            thread = self.checkedThread(fail)
            thread.start()
            with self.assertRaisesRegex(AssertionError, "seen"):
                thread.join()

        def testLayouts(self):
            self.assertEqual(tf.test.NHWCToNCHW([1, 2, 3, 4]), [1, 4, 2, 3])
            self.assertEqual(tf.test.NCHWToNHWC([1, 4, 2, 3]), [1, 2, 3, 4])
            x = tf.test.NHWCToNCHW(tf.zeros([1, 2, 3]))
            self.assertEqual(x.shape, [1, 3, 2])
            tf.test.assert_ops_in_graph({x.op.name: "Transpose"}, x.graph)

        @tf.test.assert_no_garbage_created
        @tf.test.assert_no_new_tensors
        def testLeaksNothing(self):
            tf.identity(tf.constant(1))

        def testLeaks(self):
            def leaks(test):
                test.kept = tf.constant(1)

            def makes_cycles(test):
                cycle = []
                cycle.append(cycle)

            for leak, check in ((leaks, tf.test.assert_no_new_tensors),
                                (makes_cycles,
                                 tf.test.assert_no_garbage_created)):
                with self.assertRaises(AssertionError):
                    check(leak)(self)

        @tf.test.run_gpu_only
        def testIsSkipped(self):
            self.fail("ran")

        def testDevices(self):
            self.assertDeviceEqual(None, "")
            self.assertDeviceEqual("/CPU:0", "/cpu:0")

        def testGradientOfAFunction(self):
            from tensorflow.python import tf2
            from tensorflow.python.ops import gradient_checker_v2 as checker
            theory, numeric = checker.compute_gradient(
                lambda x, y: x * x * y, [[1.0, 2.0], [3.0, 4.0]])
            self.assertLess(checker.max_error(theory, numeric), 1e-2)
            self.assertAllClose(theory[1], [[1, 0], [0, 4]])
            self.assertFalse(tf2.enabled())


    tf.test.main()
"""


def test_tensorflow_test_cases_run_unchanged(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(TESTS))
    out = subprocess.run([sys.executable, "-m", "sluice.run", str(script)],
                         capture_output=True, text=True)
    assert "Ran 13 tests" in out.stderr and out.returncode == 0, out


def test_errors_include_tensorflow_wording(run):
    v = tf.Variable(1.0)
    x = tf.placeholder(tf.float32)
    for fetch, feed, words in (
            (v, {}, "Attempting to use uninitialized value Variable"),
            (x + [1.0, 2.0], {x: [1.0] * 3},
             r"Incompatible shapes: \[3\] vs. \[2\]"),
            (tf.gather([1, 2], tf.cast(x, tf.int32)), {x: [7.0]},
             r"indices\[0\] = 7 is not in \[0, 2\)"),
            (tf.gather([1, 2], tf.cast(x, tf.int32)), {x: 7.0},
             r"indices = 7 is not in \[0, 2\)")):
        with pytest.raises(tf.errors.OpError, match=words):
            run(fetch, feed)
    for build, words in (
            (lambda: tf.zeros([2]) + tf.zeros([3]),
             "Dimensions must be equal, but are 2 and 3"),
            (lambda: tf.matmul(tf.zeros([2, 3]), tf.zeros([2, 3])),
             "Dimensions must be equal, but are 3 and 2"),
            (lambda: tf.matmul(tf.zeros([7, 2, 3]), tf.zeros([7, 4, 5])),
             "Dimensions must be equal, but are 3 and 4"),
            (lambda: tf.matmul(tf.zeros([2, 3]), tf.zeros([3, 2]),
                               transpose_a=True),
             r"Matrix size-incompatible: In\[0\]: \[2,3\], In\[1\]: "
             r"\[3,2\](?!; Dim)"),
            (lambda: tf.stack([tf.zeros([2]), tf.zeros([3])]),
             "Dimension 0 in both shapes must be equal, but are 2 and 3"),
            (lambda: tf.while_loop(lambda i: True, lambda i: tf.stack([i, i]),
                                   [tf.zeros([1])]),
             "is not an invariant for the loop")):
        with pytest.raises(ValueError, match=words):
            build()


def test_utility_names_exist(run):
    assert tf.version.GRAPH_DEF_VERSION > 0
    assert tf.compat.forward_compatible(2019, 1, 1)
    assert tf.compat.as_bytes("a") == b"a" and tf.compat.as_text(b"a") == "a"
    assert not tf.control_flow_v2_enabled()
    level = tf.logging.get_verbosity()
    tf.logging.set_verbosity(tf.logging.INFO)
    assert tf.logging.get_verbosity() == tf.logging.INFO
    tf.logging.set_verbosity(level)
    a = tf.constant([[4.0, 2.0], [2.0, 5.0]])
    np.testing.assert_allclose(run(tf.cholesky(a)), [[2, 0], [1, 2]])
    assert run(tf.trace(a)) == 9.0
    np.testing.assert_array_equal(run(tf.matrix_diag([1.0, 2.0])),
                                  [[1, 0], [0, 2]])
    with tf.control_dependencies([tf.assert_equal(a, a)]):
        fine = tf.identity(a)
        with tf.init_scope():
            assert tf.no_op().control_inputs == []
    assert run(fine).shape == (2, 2)
    try:
        run(tf.assert_equal(a, a + 1.0, message="as they were"))
        raise AssertionError("expected an error")
    except tf.errors.InvalidArgumentError as e:
        assert "as they were" in e.message
    with pytest.raises(tf.errors.InvalidArgumentError,
                       match=r"\[as they were\] \[of old\]"):
        fed = tf.placeholder_with_default(1.0, [])
        run(tf.assert_equal(fed, 2.0, data=["of old"],
                            message="as they were"))


def test_prints_go_to_standard_error(run, capfd):
    x = tf.Print(tf.constant(1.0), [tf.constant([7, 8])], message="seen: ")
    assert run(x) == 1.0
    assert "seen: [7 8]" in capfd.readouterr().err


def test_shape_mismatch_in_assertions_is_reported():
    with pytest.raises(ValueError, match="must be equal, but are 2 and 3"):
        tf.assert_equal([1, 2], [1, 2, 3])


def _two_items():
    items = tf.raw_ops.EmptyTensorList(
        element_shape=-1, max_num_elements=3, element_dtype=tf.float32)
    for n in (1, 2):
        items = tf.raw_ops.TensorListPushBack(input_handle=items,
                                              tensor=tf.ones([n]))
    return items


@pytest.mark.parametrize("words,make", [
    (r"Segment id 1 out of range \[0, 1\), possibly because 'segment_ids'",
     lambda: tf.segment_sum(tf.ones([3, 2]), tf.placeholder_with_default(
         [0, 1, 0], [3]))),
    ("segment ids are not increasing",
     lambda: tf.segment_sum(tf.ones([4, 2]), [0, 1, 0, 1])),
    (r"segment_ids\[0,1\] = 2 is out of range \[0, 2\)",
     lambda: tf.unsorted_segment_sum(tf.ones([1, 2]), [[0, 2]], 2)),
    (r"indices\[1\] == 3 out of range \[0, 3\)",
     lambda: tf.sparse_segment_sum(tf.ones([3, 2]), [0, 3], [0, 0])),
    (r"indices\[0,1\] = \[7\] does not index into param shape \[3\]",
     lambda: tf.gather_nd(tf.ones([3]), [[[0], [7]]])),
    (r"partitions\[1,0\] = 5 is not in \[0, 2\)",
     lambda: tf.dynamic_partition(tf.ones([2, 1]), [[0], [5]], 2)[0]),
    ("Invalid reduction dimension 2 for input with 1 dimension",
     lambda: tf.reduce_sum(tf.ones([3]), tf.placeholder_with_default(2, []))),
    ("could not correctly convert string: abc",
     lambda: tf.string_to_number("abc")),
    ("Need k >= 0, got -1",
     lambda: tf.nn.top_k([1.0], tf.placeholder_with_default(-1, []))[0]),
    ("Input to reshape is a tensor with 4 values, but the requested shape has "
     "6", lambda: tf.reshape(tf.ones([4]), tf.placeholder_with_default(
         [2, 3], [2]))),
    (r"Expected axis in the range \[-1, 1\), but got 3",
     lambda: tf.gather(tf.ones([3]), [0], axis=tf.placeholder_with_default(
         3, []))),
    ("Cannot select both scientific and shortest",
     lambda: tf.as_string([1.0], scientific=True, shortest=True)),
    ("precision not supported", lambda: tf.as_string([1], precision=2)),
    ("axis 1 is out of range",
     lambda: tf.roll(tf.ones([2]), 1, tf.placeholder_with_default(1, []))),
    ("shift must be a scalar or a 1-D vector",
     lambda: tf.roll([1, 2], tf.placeholder_with_default([[1]], None), 0)),
    ("input must be 1-D or higher",
     lambda: tf.roll(tf.placeholder_with_default(7, None), 1, 0)),
    ("axis 0 specified more than once", lambda: tf.reverse(
        [[1]], tf.placeholder_with_default([0, -2], None))),
    (r"Shape of tensor pair\S* \[2\] is not compatible with expected shape \[3\]",
     lambda: tf.ensure_shape(tf.placeholder_with_default(
         [1, 2], None, name="pair"), [3])),
    ("Trying to add two lists of tensors with different lengths",
     lambda: tf.raw_ops.TensorListLength(input_handle=tf.raw_ops.AddN(inputs=[
         tf.raw_ops.TensorListReserve(
             element_shape=-1, num_elements=n, element_dtype=tf.float32)
         for n in (2, 3)]))),
    (r"Attempting to slice \[0, 3\] from tensor with length 2",
     lambda: tf.raw_ops.TensorListLength(
         input_handle=tf.raw_ops.TensorListSplit(
             tensor=[1.0, 2.0], element_shape=[-1],
             lengths=tf.placeholder_with_default(np.int64([3]), [1])))),
    ("broadcasts dense to sparse only", lambda: (
        tf.SparseTensor([[0, 0]], [1.0], [1, 2]) *
        tf.placeholder_with_default(np.ones([3, 2], np.float32), None)).values),
    (r"dtype float and shape \[2,3\]",
     lambda: tf.placeholder(tf.float32, [2, 3])),
    ("Field 1 in record 0 is not a valid int32: b",
     lambda: tf.decode_csv(["1,b"], [[0], [0]])),
    ("Expect 1 fields but have 2 in record 0",
     lambda: tf.decode_csv(["1,2"], [[0]])),
    ("Field 1 is required but missing in record 0!",
     lambda: tf.decode_csv(["1,"], [[0], tf.constant([], tf.int32)])),
    ("length 3 that is not a multiple of 2, the size of int16",
     lambda: tf.decode_raw(["abc"], tf.int16)),
    ("Invalid pattern: A\\[, error: ",
     lambda: tf.regex_replace("a", tf.placeholder_with_default("A[", []), "b")),
    ("only one output dimension may be -1", lambda: tf.sparse_reshape(
        tf.SparseTensor([[0]], [1], [1]),
        tf.placeholder_with_default(np.int64([-1, -1]), [2]))),
    ("30 dense values, but the requested shape has 28",
     lambda: tf.sparse_reshape(
         tf.SparseTensor([[0]], [1], [30]),
         tf.placeholder_with_default(np.int64([4, 7]), [2]))),
    (r"label value of 9 which is outside the valid range of \[0, 2\)",
     lambda: tf.nn.sparse_softmax_cross_entropy_with_logits(
         labels=[9], logits=[[1.0, 2.0]])),
    ("read from index 3 but array size is: 3", lambda: tf.TensorArray(
        tf.float32, 3).read(3)),
    (r"SparseTensor\[1\].values.dtype\(\) == float",
     lambda: tf.deserialize_many_sparse(tf.stack([
         tf.serialize_sparse(tf.SparseTensor([[0]], [value], [1]))
         for value in (1, 2.0)]), tf.int32).values),
    ("SparseTensors: ranks 1 and 2",
     lambda: tf.deserialize_many_sparse(tf.stack([
         tf.serialize_sparse(tf.SparseTensor([[0] * n], [1], [1] * n))
         for n in (1, 2)]), tf.int32).values),
    (r"m \(5\) from index\[0,0\] out of bounds \(>=3\)",
     lambda: tf.sparse_reshape(tf.SparseTensor(
         tf.placeholder_with_default(np.int64([[5, 1]]), [1, 2]), [1],
         [3, 2]), [6])),
    (r"k \(2\) from index\[1,1\] out of bounds \(>=2\)",
     lambda: tf.sparse_reshape(tf.SparseTensor(
         tf.placeholder_with_default(np.int64([[0, 1], [1, 2]]), [2, 2]),
         [1, 1], [3, 2]), [6])),
    ("be the same size, but element 2 has size 2 != 3",
     lambda: tf.decode_raw(["ab", "cd", "efg"], tf.uint8)),
    ("Could not parse `serialized` as TensorProto",
     lambda: tf.parse_tensor("bogus", tf.uint8)),
    ("Can't parse serialized Example", lambda: tf.parse_single_example(
        tf.train.Example(features=tf.train.Features(feature={
            "a": tf.train.Feature(int64_list=tf.train.Int64List(
                value=[1, 2]))})).SerializeToString(),
        {"a": tf.FixedLenFeature([1], tf.int64)})["a"]),
    (r"Elements in reverse index must be in \[0, 1\) but got 7",
     lambda: tf.raw_ops.SparseFillEmptyRowsGrad(
         reverse_index_map=[7], grad_values=[1.0]).d_values),
    ("Trying to decode PNG format using DecodeBmp op",
     lambda: tf.image.decode_bmp(tf.image.encode_png([[[1]]]))),
    ("operation can run on JPEG only, but detected PNG",
     lambda: tf.image.decode_and_crop_jpeg(tf.image.encode_png([[[1]]]),
                                           [0, 0, 1, 1])),
    ("BMP format using a wrong op. Use `decode_bmp` .* Op used: DecodeJpeg",
     lambda: tf.image.decode_jpeg(b"BM" + bytes(60))),
    ("Trying to access element 2 in a list with 2 elements",
     lambda: tf.raw_ops.TensorListGetItem(
         input_handle=_two_items(), index=2, element_shape=-1,
         element_dtype=tf.float32)),
    ("Trying to modify element 2 in a list with 2 elements",
     lambda: tf.raw_ops.TensorListLength(
         input_handle=tf.raw_ops.TensorListSetItem(
             input_handle=_two_items(), index=2, item=[1.0]))),
    ("List contains uninitialized tensor at index 0$",
     lambda: tf.raw_ops.TensorListConcatV2(
         input_handle=tf.raw_ops.TensorListReserve(
             element_shape=[-1, 2], num_elements=2, element_dtype=tf.float32),
         element_shape=[-1, 2], leading_dims=np.zeros(0, np.int64),
         element_dtype=tf.float32)[0]),
    ("Trying to pop from an empty list", lambda: tf.raw_ops.TensorListPopBack(
        input_handle=tf.raw_ops.EmptyTensorList(
            element_shape=[1], max_num_elements=3, element_dtype=tf.float32),
        element_shape=[1], element_dtype=tf.float32)[1]),
    (r"merge: \[1\] vs. \[2\]", lambda: tf.raw_ops.TensorListStack(
        input_handle=_two_items(), element_shape=-1, element_dtype=tf.float32))
    ])
def test_step_errors_contain_expected_wording(run, words, make):
    made = make()
    with pytest.raises(tf.errors.InvalidArgumentError,
                       match=f"expected.*TensorFlow: .*{words}"):
        run(made)


@pytest.mark.parametrize("words,make", [
    (r"Shape must be rank 0 but is rank 1 for 'b' \(op: 'Bincount'\)",
     lambda: tf.raw_ops.Bincount(arr=[1], size=[1], weights=[], name="b")),
    ("must be evenly divisible by 2 but is 9",
     lambda: tf.reshape(tf.ones([9]), [2, -1])),
    (r"Can not squeeze dim\[0\], expected a dimension of 1, got 2",
     lambda: tf.squeeze(tf.ones([2]), [0])),
    ("should evenly divide", lambda: tf.split(tf.ones([4]), 3)),
    ("Dimension must be 2 but is 3",
     lambda: tf.histogram_fixed_width([1.0], [1.0, 2.0, 3.0])),
    ("passed string 'XYZ' not in: \"BYTE\", \"UTF8_CHAR\"",
     lambda: tf.strings.length("a", unit="XYZ")),
    ("Requires nbins > 0",
     lambda: tf.histogram_fixed_width([1.0], [1.0, 2.0], -5)),
    (r"axis = 2 not in \[-2, 2\)",
     lambda: tf.stack([tf.ones([1])], axis=2)),
    ("The outer 1 dimensions of indices.shape=",
     lambda: tf.scatter_nd([[0], [1]], [1.0], [3])),
    ("The inner 1 dimensions of input.shape=",
     lambda: tf.scatter_nd([[0], [1]], [1.0, 2.0], [3, 2])),
    ("out of range using input dim 1; input has only 1 dims",
     lambda: tf.ones([3])[0, 0]),
    ("is from inside a control-flow construct", lambda: tf.while_loop(
        lambda i: i < 3, lambda i: tf.Variable(tf.zeros([]) + i) + i, [1.0]))])
def test_graph_errors_contain_expected_wording(words,
                                                                   make):
    with pytest.raises(ValueError, match=f"expected.*{words}"):
        make()


def test_wrong_feed_error_names_its_type(session):
    n = tf.placeholder(tf.int32, [], name="n")
    with pytest.raises(TypeError, match="Expected int32.*Type of feed value 'a'"
                       " with type <class 'str'> is not compatible with Tensor "
                       "type int32; feed n:0"):
        session.run(n, {n: "a"})


def test_message_text_can_be_parsed_by_protobuf():
    program = """if True:
        import sluice.run
        sluice.run.install()
        from google.protobuf import text_format
        from tensorflow.core.framework import graph_pb2, types_pb2
        graph = graph_pb2.GraphDef()
        text_format.Merge('node { name: "x" op: "NoOp" }', graph)
        assert graph.node[0].op == "NoOp" and types_pb2.DT_FLOAT == 1
        assert "NoOp" in text_format.MessageToString(graph)
    """
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_unknown_internal_names_are_not_modules():
    program = """if True:
        import sluice.run
        sluice.run.install()
        try:
            import tensorflow.python.framework.ops._nothing
        except ModuleNotFoundError as e:
            assert "_nothing" in str(e)
        else:
            assert False
    """
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_missing_modules_report_requirements():
    program = """if True:
        import sluice.run
        sluice.run.install()
        from tensorflow.contrib.rnn import LSTMCell
        import tensorflow.nn.rnn_cell as cells
        assert LSTMCell is cells.LSTMCell
        for line in ("from tensorflow.contrib import tpu",
                     "import tensorflow.contrib.tpu",
                     "import tensorflow.keras.layers.experimental",
                     "from tensorflow.keras.layers import Dense"):
            try:
                exec(line)
            except ImportError as e:
                print(e)
    """
    out = subprocess.run(
        [sys.executable, "-c", program], check=True, timeout=60,
        capture_output=True, text=True).stdout.splitlines()
    assert len(out) == 4
    assert all("'tensorflow.contrib.tpu'" in line for line in out[:2])
    assert all("needs Keras's layers" in line for line in out[2:])


def test_wrong_keyword_error_suggests_nearest():
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'axs' "
                       r"\(nearest: axis\)"):
        tf.reduce_sum([1.0], axs=0)
    with pytest.raises(TypeError, match="keyword argument 'keep_probs' "
                       r"\(nearest: keep_prob"):
        tf.nn.dropout([1.0], keep_probs=0.5)
    with pytest.raises(TypeError, match="missing 1 required positional") as e:
        tf.nn.l2_normalize()
    assert "nearest" not in str(e.value)
    assert tf.nn.tanh is tf.tanh and tf.tanh.__name__ == "tanh"
    for call in (lambda: tf.reduce_sum([1.0], zzzzzzzz=0),
                 lambda: tf.raw_ops.MatMul(1, 2, zzzzzzzz=0),
                 lambda: tf.raw_ops.Zzzzzzzzzzz):
        with pytest.raises((TypeError, AttributeError)) as e:
            call()
        assert "nearest" not in str(e.value)


def test_functions_can_be_pickled_and_inspected():
    assert tf.nn.log_sigmoid is tf.log_sigmoid
    for function in (tf.reduce_sum, tf.nn.dropout, tf.get_variable,
                     tf.layers.dense, tf.log_sigmoid,
                     tf.contrib.seq2seq.tile_batch):
        assert pickle.loads(pickle.dumps(function)) is function
    known = inspect.getfullargspec(tf.reduce_sum)
    assert known.args[:2] == ["input_tensor", "axis"] and known.varkw is None
    assert known.defaults[0] is None


def test_internal_tensorflow_helpers_work():
    program = """if True:
        import functools, sys, types
        import numpy as np
        import sluice.run
        sluice.run.install()
        import tensorflow as tf
        from tensorflow.contrib.eager.python import tfe
        from tensorflow.python.util import tf_contextlib, tf_decorator
        from tensorflow.python.util import tf_inspect
        from tensorflow.python.util.all_util import remove_undocumented
        from tensorflow.python.util.deprecation import (
            deprecated, deprecated_args, deprecated_arg_values,
            deprecated_argument_lookup)

        @deprecated("2020-01-01", "Use g.")
        def f(a, b=2, *rest):
            return a + b

        @deprecated_args(None, "Not b.", "b", ("c", 3))
        @deprecated_arg_values(None, "Another a.", a=1)
        def g(a, b=2, c=3):
            return a + b + c

        assert tuple(tf_inspect.getargspec(f)) == (
            ["a", "b"], "rest", None, (2,))
        assert tf_inspect.isfunction(f)
        assert (f(1), f(2), g(2, c=3), g(1, 5)) == (3, 4, 7, 9)

        @deprecated_args(None, "Not c.", ("c", None))
        @deprecated_arg_values(None, "Another a.", a=None, b=0)
        def h(a, b=2, c=None):
            return a
        two = np.array([1, 2])
        assert h(two, two) is two and h(two, c=two) is two

        class Called:
            def __call__(self, x):
                return x

        assert tf_inspect.getfullargspec(Called()).args == ["self", "x"]

        @functools.wraps(lambda a: a)
        def around(*args, **kwargs):
            return None
        assert tf_inspect.getargspec(around).keywords == "kwargs"

        partial = tf_decorator.make_decorator(f, functools.partial(f, 1))
        assert tf_decorator.unwrap(partial)[1].__name__ == "f"
        try:
            deprecated_argument_lookup("axis", 1, "dim", 0)
        except ValueError as e:
            assert "both 'dim' and 'axis'" in str(e)
        assert deprecated_argument_lookup("axis", None, "dim", 0) == 0

        module = types.ModuleType("m", "@@kept")
        module.kept = module.allowed = module.gone = 1
        sys.modules["m"] = module
        remove_undocumented("m", ["allowed"])
        assert not hasattr(module, "gone")
        assert module.kept == module.allowed == 1

        @tf_contextlib.contextmanager
        def block():
            yield 5
        with block() as five:
            assert five == 5

        @tfe.run_all_tests_in_graph_and_eager_modes
        class ATest(tf.test.TestCase):
            pass
        assert tfe.defun(lambda x: x + 1)(1).shape == []
        assert tfe.defun(Called())(tf.constant(1)).shape == []
        for i in range(5):
            tf.logging.log_first_n(tf.logging.WARN, "first %d", 2, i)
            tf.logging.log_every_n(tf.logging.WARN, "every %d", 3, i)
    """
    out = subprocess.run([sys.executable, "-c", program], check=True,
                         timeout=60, capture_output=True, text=True)
    told = [line.partition(":sluice:")[2] for line in out.stderr.splitlines()
            if line.startswith("WARNING")]
    assert told == [
        "f (from __main__) is deprecated and will be removed after 2020-01-01.",
        "calling g (from __main__) with b is deprecated and will be removed in "
        "a future version.",
        "calling g (from __main__) with a=1 is deprecated and will be removed "
        "in a future version.",
        "calling h (from __main__) with c is deprecated and will be removed in "
        "a future version.",
        "first 0", "every 0", "first 1", "every 3"]


def test_function_parameters_can_be_listed():
    program = """if True:
        import functools
        import sluice.run
        sluice.run.install()
        from tensorflow.python.util import function_utils as utils

        class Thing:
            def __call__(self, a, b, **more):
                pass
            def method(self, c):
                pass

        assert utils.fn_args(Thing().method) == ("c",)
        assert utils.fn_args(Thing()) == ("a", "b")
        assert utils.fn_args(functools.partial(Thing(), 1, b=2)) == ()
        assert utils.fn_args(lambda x, *, y: x) == ("x",)
        assert utils.has_kwargs(Thing()) and not utils.has_kwargs(lambda x: x)
    """
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_files_are_read_from_their_start_while_they_are_written(tmp_path):
    path = str(tmp_path / "file")
    for mode, text in (("r+", "one\ntwo\n"), ("a+", "one\ntwo\none\ntwo\n"),
                       ("w+", "one\ntwo\n")):
        with tf.gfile.GFile(path, mode) as file:
            file.write("one\n")
            assert file.readline() == "one\n" and file.tell() == 4
            file.write("two\n")
            file.seek(0)
            assert file.read() == text and file.read() == ""
            assert file.seekable()
            for args in ((-1,), (0, 3)):
                with pytest.raises(tf.errors.InvalidArgumentError,
                                   match="position to seek to"):
                    file.seek(*args)
            with pytest.raises(TypeError):
                file.seek()
            with pytest.raises(tf.errors.InvalidArgumentError):
                file.read(-2)
    with tf.gfile.GFile(path, "r+") as file:
        file.write("new")  # The rest stays.
    assert (tmp_path / "file").read_text() == "new\ntwo\n"
    with tf.gfile.GFile(path, "w+") as file:
        assert file.read() == ""
    for mode, name in (("r", "write"), ("w", "read"), ("a", "readline")):
        with tf.gfile.GFile(path, mode) as file:
            with pytest.raises(tf.errors.PermissionDeniedError):
                getattr(file, name)(*(["x"] if name == "write" else []))
