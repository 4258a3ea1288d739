"""`tf.test`: the support for TensorFlow's tests."""

import collections
import functools
import unittest

import numpy as np
import pytest

import sluice.compat.v1 as tf
from sluice.compat.testing import test as tf_test

Pair = collections.namedtuple("Pair", "a b")


class AssertionsTest(tf.test.TestCase):
    """Assertions succeed and fail as they should."""

    def _check(self, name, holds, fails):
        for args in holds:
            getattr(self, name)(*args)
        for args in fails:
            with self.assertRaises(self.failureException):
                getattr(self, name)(*args)

    def test_assertions_about_containers(self):
        self._check("assertLen", [([1, 2], 2), ("ab", 2)],
                    [([1], 2), (3, 1)])
        self._check("assertEmpty", [([],), ({},)], [([1],), (0,)])
        self._check("assertNotEmpty", [([1],)], [("",), (5,)])
        self._check("assertSameElements",
                    [([1, 2], [2, 1, 1]), ([[1]], ([1],))],
                    [([1], [2]), ([1], []), ("ab", "ba")])
        self._check("assertBetween", [(2, 2, 3), (3, 2, 3)],
                    [(1, 2, 3), (4, 2, 3)])
        self._check("assertContainsSubset", [([1], {1, 2}), ([], [])],
                    [([1, 3], [1, 2])])

        self._check("assertNoCommonElements", [([1], [2])], [([1, 2], [2])])
        self._check("assertSequenceAlmostEqual", [([1.0], [1.0 + 1e-9])],
                    [([1.0], [1.1]), ([1.0], [1.0, 2.0])])
        self._check("assertContainsInOrder", [(["a", "b"], "xaybz"),
                                              ("a", "a")],
                    [(["b", "a"], "xaybz"), (["a", "a"], "a")])

    def test_assertions_about_numbers(self):
        self._check("assertAllClose",
                    [({"a": [1.0, {"b": (2.0,)}]}, {"a": [1.0, {"b": (2.0,)}]}),
                     (Pair(1.0, 2.0), {"a": 1.0, "b": 2.0}), ([np.inf],) * 2],
                    [(np.float16(1.0), 1.0005), ({"a": 1.0}, {"b": 1.0}),
                     (1.0, [1.0]), ([np.inf], [-np.inf])])
        with self.assertRaisesRegex(ValueError, r"dict to non-dict, a\[c\]"):
            self.assertAllClose({"c": {"a": 1.0}}, {"c": 1.0})
        with self.assertRaisesRegex(AssertionError, r"a\[c\]\[1\] is diff"):
            self.assertAllClose({"c": [(1.0, 2.0), 3.0]},
                                {"c": [(1.0, 2.0), 4.0]})
        self._check("assertAllInRange", [([1.0, 2.0], 1, 2), ([], 0, 1)],
                    [([np.nan], 0, 1), ([True], 0, 1), (["a"], 0, 1)])
        self._check("assertAllGreater", [([1, 2], tf.constant(0))],
                    [([1, 2], tf.constant(1))])
        one = tf.SparseTensor([[0]], [1], [2])
        self._check("assertAllEqual", [(["a"], [b"a"]), (one, one)],
                    [(["a"], [b"b"]), (one, tf.SparseTensor([[1]], [1], [2]))])

    def test_unexpected_exceptions_are_failures(self):
        for kind, words in ((TypeError, "no"), (ValueError, "yes")):
            with self.assertRaises(AssertionError):
                with self.assertRaisesWithPredicateMatch(ValueError, "^no"):
                    raise kind(words)
        with self.cached_session() as session:
            with self.assertRaisesOpError("Caused by: named"):
                session.run(tf.check_numerics(np.nan, "m", name="named"))
        with self.assertRaisesIncompatibleShapesError(ValueError):
            tf.add([1, 2], [1, 2, 3])

    def test_cached_session_requires_equal_arguments(self):
        with self.cached_session() as one:
            pass
        with self.cached_session(use_gpu=False) as two:
            assert two is one
            assert tf.constant(1).device == "/device:CPU:0"
        for other in ({"graph": tf.Graph()}, {"config": tf.ConfigProto()},
                      {"force_gpu": True}):
            with self.assertRaisesRegex(ValueError, "Maybe create a new"):
                with self.cached_session(**other):
                    pass
        with self.test_session(config=tf.ConfigProto()) as three:
            assert three is one

    def test_errors_that_skip(self):
        for kind, texts, skips in ((ValueError, None, True),
                                   (ValueError, "boo", True),
                                   (ValueError, ["x", "y"], False),
                                   (TypeError, None, False)):
            with self.assertRaises(
                    unittest.SkipTest if skips else ValueError):
                with tf_test.skip_if_error(self, kind, texts):
                    raise ValueError("boo")

    def test_exception_texts_are_matched_literally(self):
        def fail(text):
            raise ValueError(text)

        match = functools.partial(self.assertRaisesWithLiteralMatch,
                                  ValueError, "a.c")
        match(fail, "a.c")
        with match():
            fail("a.c")
        for other in (lambda: fail("abc"), lambda: None):
            with self.assertRaises(self.failureException):
                match(other)
        with self.assertRaises(KeyError):
            with match():
                raise KeyError("a.c")

    def test_lists_may_contain_tensors_and_ragged_rows(self):
        ragged = [[1.0, 2.0], [3.0]]
        rows = [tf.constant(row) for row in ragged]
        scalars = [tf.constant(1.0), tf.constant(2.0)]
        for name in ("assertAllEqual", "assertAllClose"):
            self._check(
                name, [(scalars, [1, 2]), (rows, ragged), (ragged, rows),
                       ([np.array([1, 2]), np.array([3])], ragged)],
                [(scalars, [1, 3]), (ragged, [[1.0, 2.0], [4.0]]),
                 (ragged, [[1.0, 2.0], [3.0, 3.0]])])
        with self.assertRaisesRegex(ValueError, "Mismatched length: a has 2"):
            self.assertAllClose(rows, [[1.0, 2.0]])


def test_checked_threads_must_be_joined():
    class Case(tf.test.TestCase):

        def test_it(self):
            self.checkedThread(lambda: None).start()

    result = unittest.TestResult()
    Case("test_it").run(result)
    assert "was not joined" in result.failures[0][1]
    # The method `test_session` is not a test.
    Case("test_session").run(result)
    assert len(result.skipped) == 1


def test_gradient_check_restores_other_tensors(run):
    x, y = tf.constant([3.0]), tf.constant([5.0])
    with tf.Session():
        (dx, _), (dy, _) = tf.test.compute_gradient(
            [x, y], [[1], [1]], x * y, [1], [np.ones(1), np.ones(1)])
        assert (dx, dy) == (5.0, 3.0)
        for wrong in ((tf.constant([1]), [1], x, [1]), (y, [1], x, [1]),
                      (x, [1], x * 2, [1], np.ones(3))):
            with pytest.raises(AssertionError):
                tf.test.compute_gradient(*wrong)


def test_graphs_are_compared_as_messages():
    with pytest.raises(TypeError, match="Expected tf.GraphDef for expected"):
        tf.test.assert_equal_graph_def(tf.GraphDef(), tf.Graph())


def test_failure_messages_match_tensorflow():
    case = tf.test.TestCase()
    for words, check, a, b in (
            ("not equal lhs = .1.", case.assertAllEqual, [1, 2], [3, 2]),
            ("not close dif = .0.5.", case.assertAllClose, [1.0], [1.5]),
            ("not close dif = 0.5", case.assertAllClose, 1.0, 1.5),
            ("(?s)where = .array..1.*dif = .2.", case.assertAllClose,
             [np.nan, 1.0], [np.nan, 3.0]),
            ("not close dif = .1.", case.assertAllClose, [True, True],
             [True, False]),
            ("not close dif = .2.", case.assertAllClose, np.uint8([3]),
             np.uint8([5])),
            ("mismatched keys", case.assertAllClose, {"a": 1}, {"b": 1})):
        with pytest.raises(AssertionError, match=words):
            check(a, b)


def test_tests_have_folders_of_their_own():
    class Two(tf.test.TestCase):
        def one(self):
            """Does nothing."""

        other = one

    one, other = Two("one").get_temp_dir(), Two("other")
    assert other.get_temp_dir() == other.get_temp_dir() != one
    assert one.startswith(tf.test.get_temp_dir())


def test_sessions_of_tests_place_operations_on_devices_that_exist():
    class Test(tf.test.TestCase):
        def one(self):
            """Runs an operation of another device."""
            with tf.device("/cpu:7"):
                x = tf.constant([1.0])
            assert self.evaluate(x) == 1
            with self.session() as session:
                assert session.run(x) == 1
            with self.session(config=tf.ConfigProto()) as session:
                with self.assertRaises(tf.errors.InvalidArgumentError):
                    session.run(x)

    result = unittest.TestResult()
    Test("one").run(result)
    assert result.wasSuccessful(), result.errors + result.failures
