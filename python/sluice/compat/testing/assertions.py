"""The assertions of Abseil's `TestCase`."""

import unittest
from collections import abc


class TestCase(unittest.TestCase):
    """A unittest.TestCase with assertions about containers and exceptions."""

    def _size(self, container):
        if not isinstance(container, abc.Sized):
            self.fail(f"Expected a Sized object, got: "
                      f"{type(container).__name__!r}")
        return len(container)

    def assertLen(self, container, expected_len, msg=None):
        """Asserts the number of elements."""
        size = self._size(container)
        if size != expected_len:
            self.fail(self._formatMessage(
                msg, f"{container!r} has length of {size}, expected "
                f"{expected_len}."))

    def assertEmpty(self, container, msg=None):
        """Asserts that the container is empty."""
        size = self._size(container)
        if size:
            self.fail(self._formatMessage(
                msg, f"{container!r} has length of {size}."))

    def assertNotEmpty(self, container, msg=None):
        """Asserts that the container is not empty."""
        if not self._size(container):
            self.fail(self._formatMessage(
                msg, f"{container!r} has length of 0."))

    def assertSameElements(self, expected_seq, actual_seq, msg=None):
        """Asserts equal elements, ignoring order and repetitions."""
        expected, actual = expected_seq, actual_seq
        if isinstance(expected, (str, bytes)) or isinstance(
                actual, (str, bytes)):
            self.fail(f"Passing string/bytes to assertSameElements is usually "
                      f"a bug. Did you mean to use assertEqual?\nExpected: "
                      f"{expected!r}\nActual: {actual!r}")
        # Sets cannot be used, because elements may not be hashable.
        expected, actual = list(expected), list(actual)
        missing = [e for e in expected if e not in actual]
        unexpected = [e for e in actual if e not in expected]
        if missing or unexpected:
            self.fail(self._formatMessage(
                msg, f"Expected, but missing:\n  {missing!r}\n"
                f"Unexpected, but present:\n  {unexpected!r}"))

    def assertBetween(self, value, minv, maxv, msg=None):
        """Asserts that minv <= value <= maxv."""
        if not minv <= value <= maxv:
            self.fail(self._formatMessage(
                msg, f'"{value!r}" unexpectedly not between "{minv!r}" and '
                f'"{maxv!r}"'))

    def assertContainsSubset(self, expected_subset, actual_set, msg=None):
        """Asserts that the first is a subset of the second."""
        missing = set(expected_subset) - set(actual_set)
        if missing:
            self.fail(self._formatMessage(
                msg, f"Missing elements {missing}\nExpected: "
                f"{expected_subset}\nActual: {actual_set}"))

    def assertNoCommonElements(self, expected_seq, actual_seq, msg=None):
        """Asserts that the containers are disjoint."""
        common = set(expected_seq) & set(actual_seq)
        if common:
            self.fail(self._formatMessage(
                msg, f"Common elements {common}\nExpected: {expected_seq}\n"
                f"Actual: {actual_seq}"))

    def assertSequenceAlmostEqual(self, expected_seq, actual_seq, places=None,
                                  msg=None, delta=None):
        """Asserts that numbers are nearly equal, pairwise."""
        self.assertLen(actual_seq, len(expected_seq), msg)
        for expected, actual in zip(expected_seq, actual_seq):
            self.assertAlmostEqual(expected, actual, places=places, msg=msg,
                                   delta=delta)

    def assertContainsInOrder(self, strings, target, msg=None):
        """Asserts that a string contains these parts in this order."""
        at = 0
        for part in [strings] if isinstance(strings, str) else strings:
            found = target.find(part, at)
            if found < 0:
                self.fail(self._formatMessage(
                    msg, f"Did not find {part!r} in {target[at:]!r}"))
            at = found + len(part)

    def assertRaisesWithLiteralMatch(
            self, expected_exception, expected_exception_message,
            callable_obj=None, *args, **kwargs):
        """Asserts that a call or a with-block raises an exception.

        Its text must be equal to the expected one.
        """
        context = _Raises(self, expected_exception, expected_exception_message)
        if callable_obj is None:
            return context
        with context:
            callable_obj(*args, **kwargs)
        return None


class _Raises:
    """Asserts that the block raises an exception with the given text."""

    def __init__(self, test, kind, text):
        self._test, self._kind, self._text = test, kind, text

    def __enter__(self):
        return self

    def __exit__(self, kind, exception, trace):
        if kind is None:
            self._test.fail(f"{self._kind.__name__} not raised")
        if not issubclass(kind, self._kind):
            return False
        text = str(exception)
        if text != self._text:
            self._test.fail(f"Exception message does not match.\nExpected: "
                            f"{self._text!r}\nActual: {text!r}")
        return True
