"""Programs and tests that were written for TensorFlow 1."""

import subprocess
import sys
import textwrap

import numpy as np

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


def test_insides_of_tensorflow_have_the_public_names(tmp_path):
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


def test_names_beside_the_ops(run):
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


def test_prints_go_to_standard_error(run, capfd):
    x = tf.Print(tf.constant(1.0), [tf.constant([7, 8])], message="seen: ")
    assert run(x) == 1.0
    assert "seen: [7 8]" in capfd.readouterr().err
