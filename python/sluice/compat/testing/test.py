"""TensorFlow 1's test support: `TestCase`, decorators, gradients."""

import contextlib
import functools
import gc
import os
import random
import re
import socket
import sys
import tempfile
import threading
import time
import unittest
from collections import abc
from unittest import mock

import numpy as np

from sluice import version
from sluice.client import cluster, session as sessions
from sluice.compat.internals import private_names
from sluice.compat.testing import assertions
from sluice.compat.testing.gradient_checker import (
    compute_gradient, compute_gradient_error)
from sluice.framework import (
    conversion, default_session, dtypes, errors, graph as graphs, protos)
from sluice.ops import array_ops
from sluice.ops.variables import Variable


def main(argv=None):
    """Runs the tests of the program."""
    unittest.main(argv=argv)


def get_temp_dir():
    """Returns a folder for the files of tests."""
    if not hasattr(get_temp_dir, "folder"):
        get_temp_dir.folder = tempfile.mkdtemp(prefix="sluice_test_")
    return get_temp_dir.folder


def is_gpu_available(cuda_only=False, min_cuda_compute_capability=None):
    """Returns False, because there are only CPUs."""
    return False


def is_built_with_cuda():
    """Returns False, because there are only CPUs."""
    return False


def gpu_device_name():
    """Returns "", because there is no GPU."""
    return ""


def _device(graph, use_gpu):
    return contextlib.nullcontext() if use_gpu else graph.device(
        "/device:CPU:0")


def _config(config, force_gpu):
    """Returns the configuration of a test's session.

    By default operations may be placed on another device than theirs.
    """
    if config is not None:
        return config
    return protos.ConfigProto(allow_soft_placement=not force_gpu)


class TestCase(assertions.TestCase):
    """A test with its own graph, sessions, and assertions on arrays."""

    # Not in setUp, which a derived class may not call.
    _cached_session = None
    _threads = ()

    def _skip_session(self):
        if self._testMethodName == "test_session":
            self.skipTest("Not a test.")

    def setUp(self):
        super().setUp()
        self._skip_session()
        self._threads = []
        random.seed(87654321)
        np.random.seed(87654321)
        try:
            graphs.reset_default_graph()
        except AssertionError:  # The test runs inside an `as_default`.
            scope = graphs.Graph().as_default()
            scope.__enter__()
            self.addCleanup(scope.__exit__)
        graphs.set_random_seed(87654321)

    def tearDown(self):
        for thread in self._threads:
            if not thread.joined:
                self.fail("A checked thread was not joined.")
        if self._cached_session is not None:
            self._cached_session.close()
            self._cached_session = None
        super().tearDown()

    def get_temp_dir(self):
        """Returns a folder for the files of this test, of no other one."""
        if not hasattr(self, "_folder"):
            self._folder = tempfile.mkdtemp(dir=get_temp_dir())
        return self._folder

    @contextlib.contextmanager
    def session(self, graph=None, config=None, use_gpu=True, force_gpu=False):
        """Makes a new default session.

        Without `use_gpu`, operations added in it are placed on the CPU.
        """
        with sessions.Session(graph=graph,
                              config=_config(config, force_gpu)) as session:
            with _device(session.graph, use_gpu or force_gpu):
                yield session

    @contextlib.contextmanager
    def cached_session(self, graph=None, config=None, use_gpu=True,
                       force_gpu=False):
        """Makes the test's session the default.

        All calls must have the same arguments.
        """
        asked = (graph, config, force_gpu)
        if self._cached_session is not None:
            for name, value, first in zip(("graph", "config", "force_gpu"),
                                          asked, self._asked):
                if value is not first:
                    raise ValueError(
                        f"The {name} value used to get the cached session is "
                        f"different than the one that was used to create the "
                        f"session. Maybe create a new session with "
                        f"self.session()")
        with self._shared(*asked, use_gpu) as session:
            yield session

    @contextlib.contextmanager
    def _shared(self, graph=None, config=None, force_gpu=False, use_gpu=True):
        if self._cached_session is None:
            self._asked = (graph, config, force_gpu)
            self._cached_session = sessions.Session(
                graph=graph or graphs.get_default_graph(),
                config=_config(config, force_gpu))
        session = self._cached_session
        with session.graph.as_default(), session.as_default(), _device(
                session.graph, use_gpu or force_gpu):
            yield session

    def test_session(self, graph=None, config=None, use_gpu=True,
                     force_gpu=False):
        """Makes a new session for a given graph, or uses the test's session."""
        self._skip_session()
        if graph is not None:
            return self.session(graph, config, use_gpu, force_gpu)
        return self._shared(None, config, force_gpu, use_gpu)

    def evaluate(self, tensors):
        """Evaluates tensors in the default session or the test's session."""
        session = default_session.get_default_session()
        if session is not None:
            return session.run(tensors)
        with self._shared() as session:
            return session.run(tensors)

    def _value(self, a):
        """Evaluates a tensor or variable, or those in a list."""
        if isinstance(a, (graphs.Tensor, Variable)):
            return self.evaluate(a)
        if type(a) in (list, tuple):
            return [self._value(x) for x in a]
        return a

    def _array(self, a):
        a = self._value(a)
        if isinstance(a, (conversion.SparseTensorValue,
                          conversion.IndexedSlicesValue)):
            return a
        return np.asarray(a)

    def assertShapeEqual(self, np_array, tf_tensor, msg=None):
        """Asserts that both have the same static shape."""
        self.assertAllEqual(np_array.shape, tf_tensor.shape.as_list(), msg)

    def assertAllEqual(self, a, b, msg=None):
        """Asserts that all elements are equal; supports ragged rows."""
        a, b = self._value(a), self._value(b)
        if isinstance(a, conversion.SparseTensorValue):
            self.assertIsInstance(b, conversion.SparseTensorValue, msg)
            for x, y in zip(a, b):
                self.assertAllEqual(x, y, msg)
            return
        try:
            a, b = self._array(a), self._array(b)
        except ValueError:  # The lists do not convert to arrays.
            self.assertTrue(np.iterable(a) and np.iterable(b) and
                            len(a) == len(b),
                            f"lengths differ: {a} and {b}. {msg or ''}")
            for x, y in zip(a, b):
                self.assertAllEqual(x, y, msg)
            return
        self.assertEqual(a.shape, b.shape, f"shapes differ: {a.shape} and "
                         f"{b.shape}. {msg or ''}")
        if {a.dtype.kind, b.dtype.kind} == {"S", "U"}:  # b"a" equals "a".
            a, b = (x if x.dtype.kind == "S" else np.char.encode(x, "utf-8")
                    for x in (a, b))
        same = a == b
        if a.dtype.kind in "fc" and b.dtype.kind in "fc":
            same = np.logical_or(same, np.logical_and(np.isnan(a),
                                                      np.isnan(b)))
        if not np.all(same):
            where = np.where(np.logical_not(same)) if a.ndim else ()
            raise self.failureException(
                f"not equal where = {where}, not equal lhs = "
                f"{a[where]}, not equal rhs = "
                f"{b[where]}. {msg or ''}")

    def assertNotAllEqual(self, a, b, msg=None):
        """Asserts that some elements differ."""
        try:
            self.assertAllEqual(a, b)
        except AssertionError:
            return
        raise self.failureException(f"The two values are equal at all "
                                    f"elements. {msg or ''}")

    def assertAllClose(self, a, b, rtol=1e-6, atol=1e-6, msg=None):
        """Asserts that all elements are close, also in nested structures."""
        self._assert_close(a, b, rtol, atol, msg or "", "")

    def _assert_close(self, a, b, rtol, atol, msg, path):
        a, b = (x._asdict() if hasattr(x, "_asdict") else x for x in (a, b))
        if isinstance(a, abc.Mapping) != isinstance(b, abc.Mapping):
            raise ValueError(f"Can't compare dict to non-dict, a{path} vs "
                             f"b{path}. {msg}")
        if isinstance(a, abc.Mapping):
            self.assertEqual(set(a), set(b),
                             f"mismatched keys: a{path} has keys {list(a)}, "
                             f"but b{path} has keys {list(b)}. {msg}")
            for key in a:
                self._assert_close(a[key], b[key], rtol, atol, msg,
                                   f"{path}[{key}]")
            return
        told = f"Mismatched value: a{path} is different from b{path}. {msg}"
        if not isinstance(a, (list, tuple)):
            self._assert_arrays_close(a, b, rtol, atol, told)
            return
        try:
            self._assert_arrays_close(a, b, rtol, atol, told)
        except (ValueError, TypeError):  # These are sequences of arrays.
            if len(a) != len(b):
                raise ValueError(
                    f"Mismatched length: a{path} has {len(a)} items, but "
                    f"b{path} has {len(b)} items. {msg}") from None
            for i, (x, y) in enumerate(zip(a, b)):
                self._assert_close(x, y, rtol, atol, msg, f"{path}[{i}]")

    def _assert_arrays_close(self, a, b, rtol, atol, msg):
        a, b = self._array(a), self._array(b)
        self.assertEqual(a.shape, b.shape, f"Shape mismatch: expected "
                         f"{a.shape}, got {b.shape}. {msg}")
        if np.allclose(a, b, rtol, atol, equal_nan=True):
            return
        # Booleans and unsigned integers are converted before subtraction.
        apart = np.abs(np.subtract(a, b, dtype=np.result_type(a, b, 1.0)))
        near = atol + rtol * np.abs(b)
        far = (apart > near) | (np.isnan(a) != np.isnan(b))
        where = np.where(far) if a.ndim else ()
        np.testing.assert_allclose(
            a, b, rtol=rtol, atol=atol, err_msg="\n".join([msg] + [
                f"not close {name} = {value}" for name, value in (
                    ("where", where), ("lhs", a[where]), ("rhs", b[where]),
                    ("dif", apart[where]), ("tol", near[where]))]))

    def assertAllCloseAccordingToType(
            self, a, b, rtol=1e-6, atol=1e-6, float_rtol=1e-6, float_atol=1e-6,
            half_rtol=1e-3, half_atol=1e-3, bfloat16_rtol=1e-2,
            bfloat16_atol=1e-2, msg=None):
        """Calls `assertAllClose` with tolerances for the elements' dtype."""
        a, b = self._array(a), self._array(b)
        types = (a.dtype, b.dtype)
        if np.float32 in types or np.complex64 in types:
            rtol, atol = max(rtol, float_rtol), max(atol, float_atol)
        if np.float16 in types:
            rtol, atol = max(rtol, half_rtol), max(atol, half_atol)
        self.assertAllClose(a, b, rtol, atol, msg)

    def assertNotAllClose(self, a, b, rtol=1e-6, atol=1e-6, msg=None):
        """Asserts that some elements are not close."""
        try:
            self.assertAllClose(a, b, rtol, atol)
        except AssertionError:
            return
        raise self.failureException(f"The two values are close at all "
                                    f"elements. {msg or ''}")

    def assertArrayNear(self, farray1, farray2, err, msg=None):
        """Asserts that elements differ by at most `err`."""
        self.assertEqual(len(farray1), len(farray2), msg)
        for a, b in zip(farray1, farray2):
            self.assertNear(float(a), float(b), err, msg)

    def assertNear(self, f1, f2, err, msg=None):
        """Asserts that two numbers differ by at most `err`."""
        self.assertTrue(f1 == f2 or abs(f1 - f2) <= err,
                        f"{f1} != {f2} +/- {err}. {msg or ''}")

    def assertNDArrayNear(self, ndarray1, ndarray2, err, msg=None):
        """Asserts that the norm of the difference is less than `err`."""
        self.assertTrue(
            np.linalg.norm(np.subtract(ndarray1, ndarray2)) < err, msg)

    def assertAllInRange(self, target, lower_bound, upper_bound,
                         open_lower_bound=False, open_upper_bound=False):
        """Asserts that all elements lie between two bounds."""
        target = self._array(target)
        if target.dtype.kind not in "fiu":
            raise AssertionError(f"The value of {target} does not have an "
                                 f"ordered numeric type, instead it has type: "
                                 f"{target.dtype}")
        if np.isnan(target).any():
            raise AssertionError(f"{np.isnan(target).sum()} of the "
                                 f"{target.size} element(s) are NaN")
        low = target <= lower_bound if open_lower_bound else (
            target < lower_bound)
        high = target >= upper_bound if open_upper_bound else (
            target > upper_bound)
        outside = np.logical_not(np.logical_and(~low, ~high))
        self.assertFalse(np.any(outside), f"outside of [{lower_bound}, "
                         f"{upper_bound}]: {target[outside]}")

    def assertAllGreaterEqual(self, a, comparison_target):
        """Asserts that no element is less."""
        self.assertGreaterEqual(np.min(self._array(a)),
                                       self._value(comparison_target))

    def assertAllLessEqual(self, a, comparison_target):
        """Asserts that no element is greater."""
        self.assertLessEqual(np.max(self._array(a)),
                                    self._value(comparison_target))

    def assertAllGreater(self, a, comparison_target):
        """Asserts that all elements are greater."""
        self.assertGreater(np.min(self._array(a)),
                                  self._value(comparison_target))

    def assertAllLess(self, a, comparison_target):
        """Asserts that all elements are less."""
        self.assertLess(np.max(self._array(a)),
                               self._value(comparison_target))

    def assertAllInSet(self, target, expected_set):
        """Asserts that all elements are in a set."""
        found = set(np.unique(self._array(target)).tolist())
        self.assertFalse(found - set(expected_set))

    def assertDeviceEqual(self, device1, device2, msg=None):
        """Asserts that two names denote the same device."""
        self.assertEqual(private_names.canonical_name(device1),
                         private_names.canonical_name(device2), msg)

    def assertStartsWith(self, actual, expected_start, msg=None):
        """Asserts that a string has a prefix."""
        self.assertTrue(actual.startswith(expected_start),
                        f"{actual!r} does not start with {expected_start!r}. "
                        f"{msg or ''}")

    def assertDTypeEqual(self, target, expected_dtype):
        """Asserts the dtype of the elements."""
        self.assertEqual(self._array(target).dtype, np.dtype(
            dtypes.as_dtype(expected_dtype).as_numpy_dtype))

    def assertProtoEquals(self, expected_message_maybe_ascii, message,
                          msg=None):
        """Asserts that a message equals another one or a text form."""
        expected = expected_message_maybe_ascii
        if isinstance(expected, (str, bytes)):
            from google.protobuf import text_format
            expected = text_format.Merge(expected, type(message)())
        if expected != message:
            self.assertMultiLineEqual(str(expected), str(message), msg)
            self.fail(f"messages of different classes: {type(expected)} and "
                      f"{type(message)}")

    def assertProtoEqualsVersion(
            self, expected, actual,
            producer=version.GRAPH_DEF_VERSION,
            min_consumer=version.GRAPH_DEF_VERSION_MIN_CONSUMER, msg=None):
        """Asserts that a GraphDef equals a text form without versions."""
        self.assertProtoEquals(
            f"versions {{ producer: {producer} min_consumer: {min_consumer} }} "
            f"{expected}", actual, msg)

    @contextlib.contextmanager
    def captureWritesToStream(self, stream):
        """Captures what the process writes to a stream, such as sys.stderr.

        It is a context manager. `contents` of its value returns the output.
        """
        number = stream.fileno()
        # The file stays open, because `contents` may be called later.
        kept = tempfile.TemporaryFile("w+b")
        with os.fdopen(os.dup(number), "wb") as before:
            stream.flush()
            os.dup2(kept.fileno(), number)
            try:
                yield _Captured(stream, kept)
            finally:
                stream.flush()
                os.dup2(before.fileno(), number)

    @contextlib.contextmanager
    def assertRaisesWithPredicateMatch(self, exception_type,
                                       expected_err_re_or_predicate):
        """Asserts that the block raises an exception.

        Its text, which includes the name of the failed operation, must match a
        regular expression or satisfy a function.
        """
        try:
            yield
        except Exception as e:  # Another type of exception also fails.
            text = str(e)
            if isinstance(e, errors.OpError):
                text = e.message + (f"\nCaused by: {e.op.name}" if e.op
                                    else "")
            if not isinstance(e, exception_type) or not (
                    expected_err_re_or_predicate(e)
                    if callable(expected_err_re_or_predicate) else
                    re.search(expected_err_re_or_predicate, text)):
                raise AssertionError(f"Exception of type {type(e)}: "
                                     f"{text}") from e
        else:
            self.fail(f"{exception_type.__name__} not raised")

    def assertRaisesOpError(self, expected_err_re_or_predicate):
        """Asserts that a step fails with an error."""
        return self.assertRaisesWithPredicateMatch(
            errors.OpError, expected_err_re_or_predicate)

    def assertRaisesIncompatibleShapesError(
            self, exception_type=errors.InvalidArgumentError):
        """Asserts an error about incompatible shapes."""
        return self.assertRaisesWithPredicateMatch(
            exception_type, "Incompatible shapes|Dimensions must be equal|"
            "required broadcastable shapes")

    def checkedThread(self, target, args=None, kwargs=None):
        """Makes a thread whose `join` fails the test if the target raises."""
        thread = _CheckedThread(self, target, args or (), kwargs or {})
        self._threads = [*self._threads, thread]
        return thread

    assertItemsEqual = unittest.TestCase.assertCountEqual


TensorFlowTestCase = TestCase


class _Captured:

    def __init__(self, stream, kept):
        self._stream, self._kept = stream, kept

    def contents(self):
        """Returns everything written so far."""
        self._stream.flush()
        number = self._kept.fileno()
        return os.pread(number, os.fstat(number).st_size, 0).decode(
            errors="replace")


class _CheckedThread:

    def __init__(self, test, target, args, kwargs):
        self._test, self._error, self.joined = test, None, False

        def run():
            try:
                target(*args, **kwargs)
            except BaseException as e:  # `join` reports it.
                self._error = e
        self._thread = threading.Thread(target=run, daemon=True)

    def start(self):
        """Starts the thread."""
        self._thread.start()

    def join(self):
        """Waits until the thread ends; fails if it raised an exception."""
        self._thread.join()
        self.joined = True
        if self._error is not None:
            self._test.fail(f"Error in checkedThread: {self._error}")

    def is_alive(self):
        """Returns whether the thread is running."""
        return self._thread.is_alive()


# ---- Decorators and functions of TensorFlow's own tests (test_util) ----------


def _optional(decorate):
    """Allows using a decorator with and without arguments."""
    @functools.wraps(decorate)
    def either(*args, **kwargs):
        if len(args) == 1 and callable(args[0]) and not kwargs:
            return decorate(args[0])
        return lambda f: decorate(f, *args, **kwargs)
    return either


@_optional
def run_in_graph_and_eager_modes(f, _=None, graph=None, config=None,
                                 use_gpu=True, force_gpu=False,
                                 reset_test=True,
                                 assert_no_eager_garbage=False):
    """Decorates a test to run in the test's session."""
    if isinstance(f, type):
        raise ValueError("`run_in_graph_and_eager_modes` only supports test "
                         "methods.")

    @functools.wraps(f)
    def decorated(self, *args, **kwargs):
        with self.test_session(graph=graph, config=config, use_gpu=use_gpu):
            f(self, *args, **kwargs)
    return decorated


def run_all_in_graph_and_eager_modes(cls):
    """Decorates a class: `run_in_graph_and_eager_modes` for all tests."""
    for name, value in list(vars(cls).items()):
        if (callable(value) and name != "test_session" and
                name.startswith(unittest.TestLoader.testMethodPrefix)):
            setattr(cls, name, run_in_graph_and_eager_modes(value))
    return cls


@_optional
def _as_it_is(f, *unused_args, **unused_kwargs):
    """A decorator without effect, because tests run in graphs."""
    return f


run_v1_only = run_deprecated_v1 = deprecated_graph_mode_only = _as_it_is
run_all_without_tensor_float_32 = run_without_tensor_float_32 = _as_it_is
with_c_api = enable_c_api = disable_c_api = _as_it_is
with_control_flow_v2 = assert_no_new_pyobjects_executing_eagerly = _as_it_is
run_in_async_and_sync_mode = with_forward_compatibility_horizons = _as_it_is
disable_tfrt = disable_asan = disable_tsan = run_functions_eagerly = _as_it_is
run_all_in_deprecated_graph_mode_only = _as_it_is
disable_xla = disable_all_xla = xla_allow_fallback = _as_it_is
enable_output_all_intermediates = enable_tf_xla_constant_folding = _as_it_is
build_as_function_and_v1_graph = _as_it_is
enable_control_flow_v2 = disable_control_flow_v2 = _as_it_is


def _counted(count):
    """Makes a decorator that asserts that `count()` does not grow in a test."""
    def decorate(f):
        @functools.wraps(f)
        def decorated(self, *args, **kwargs):
            gc.collect()
            before = count()
            with graphs.Graph().as_default():
                f(self, *args, **kwargs)
            gc.collect()
            self.assertLessEqual(count(), before,
                                 f"more are left after {f.__name__}")
        return decorated
    return decorate


assert_no_new_tensors = _counted(lambda: sum(
    isinstance(o, graphs.Tensor) for o in gc.get_objects()))


def assert_no_garbage_created(f):
    """Decorates a test to assert that it leaves no reference cycles."""
    @functools.wraps(f)
    def decorated(self, *args, **kwargs):
        gc.collect()
        gc.disable()
        try:
            f(self, *args, **kwargs)
            self.assertEqual(gc.collect(), 0, "objects refer to each other")
        finally:
            gc.enable()
    return decorated


@_optional
def run_gpu_only(f, *unused_args):
    """Decorates a test to skip it, because there is no GPU."""
    return unittest.skip("Test requires GPU")(f)


run_cuda_only = run_gpu_only
run_v2_only = _optional(lambda f, *unused: unittest.skip(
    "Test requires TensorFlow 2")(f))
py_func_if_in_function = also_run_as_tf_function = _as_it_is


def skip_if(condition):
    """Decorates a test to skip it if a condition holds.

    The condition is a value or a function.
    """
    def decorate(f):
        @functools.wraps(f)
        def decorated(*args, **kwargs):
            if not (condition() if callable(condition) else condition):
                f(*args, **kwargs)
        return decorated
    return decorate


@contextlib.contextmanager
def skip_if_error(test_obj, error_type, messages=None):
    """A context manager that skips the test on an error of a type.

    If messages are given, the error must contain one of them.
    """
    try:
        yield
    except error_type as e:
        texts = [messages] if isinstance(messages, str) else messages
        if texts and not any(text in str(e) for text in texts):
            raise
        test_obj.skipTest(f"Skipping error: {type(e)}: {e}")


@contextlib.contextmanager
def device(use_gpu):
    """A context manager that places operations on the CPU."""
    with graphs.device("/device:CPU:0"):
        yield


use_gpu = force_gpu = force_cpu = functools.partial(device, False)


def IsGoogleCudaEnabled():
    """Returns False, because there are only CPUs."""
    return False


CudaSupportsHalfMatMulAndConv = GpuSupportsHalfMatMulAndConv = (
    IsGoogleCudaEnabled)
IsMklEnabled = IsBuiltWithROCm = is_xla_enabled = IsGoogleCudaEnabled
is_built_with_rocm = is_built_with_gpu_support = IsGoogleCudaEnabled
is_built_with_xla = IsGoogleCudaEnabled


def _moved(x, order):
    if isinstance(x, graphs.Tensor):
        return array_ops.transpose(x, order)
    return [x[i] for i in order]


def NHWCToNCHW(input_tensor):
    """Transposes a tensor (or a shape) from NHWC to NCHW."""
    n = len(input_tensor.shape if isinstance(input_tensor, graphs.Tensor)
            else input_tensor)
    return _moved(input_tensor, [0, n - 1, *range(1, n - 1)])


def NCHWToNHWC(input_tensor):
    """Transposes a tensor (or a shape) from NCHW to NHWC."""
    n = len(input_tensor.shape if isinstance(input_tensor, graphs.Tensor)
            else input_tensor)
    return _moved(input_tensor, [0, *range(2, n), 1])


def assert_ops_in_graph(expected_ops, graph):
    """Asserts that a graph has the operations {name: type}.

    Returns {name: NodeDef}.
    """
    found = {}
    for name, kind in expected_ops.items():
        op = graph._find_operation(name)
        if op is None or op.type != kind:
            raise ValueError(f"Expected op for node {name} is different: "
                             f"expected {kind}, got "
                             f"{op.type if op else 'none'}")
        found[name] = op.node_def
    return found


def assert_meta_graph_protos_equal(tester, a, b):
    """Asserts that two MetaGraphDefs have the same nodes and collections."""
    assert_equal_graph_def(a.graph_def, b.graph_def)
    tester.assertEqual(set(a.collection_def), set(b.collection_def))
    for key, collection in a.collection_def.items():
        tester.assertEqual(collection, b.collection_def[key])


def assert_equal_graph_def(actual, expected):
    """Asserts that two GraphDefs have the same nodes, in any order."""
    for value, name in ((actual, "actual"), (expected, "expected")):
        if not protos.is_message(value, "GraphDef"):
            raise TypeError(f"Expected tf.GraphDef for {name}, got "
                            f"{type(value).__name__}")

    def nodes(graph_def):
        return {n.name: str(n) for n in graph_def.node}

    a, b = nodes(actual), nodes(expected)
    if a != b:
        differ = sorted(n for n in {**a, **b} if a.get(n) != b.get(n))
        raise AssertionError(f"graphs differ in {differ}")


@contextlib.contextmanager
def fft_kernel_label_map():
    """A context manager without effect, because there is one FFT kernel."""
    yield


def set_producer_version(graph, producer_version):
    """Sets the producer version of a graph."""
    graph._import(protos.GraphDef(versions=protos.VersionDef(
        producer=producer_version)).SerializeToString(), "", {}, [])


def create_local_cluster(num_workers, num_ps, protocol="grpc",
                         worker_config=None, ps_config=None):
    """Starts a cluster in this process, which clients may reset.

    Returns (servers of job "worker", servers of job "ps").
    """
    def free():
        with socket.socket() as s:
            s.bind(("localhost", 0))
            return f"localhost:{s.getsockname()[1]}"

    spec = cluster.ClusterSpec({"worker": [free() for _ in range(num_workers)],
                                "ps": [free() for _ in range(num_ps)]})
    return tuple([cluster.Server(spec, job, i, protocol=protocol,
                                 config=config, allow_reset=True)
                  for i in range(n)]
                 for job, n, config in (("worker", num_workers, worker_config),
                                        ("ps", num_ps, ps_config)))


class StubOutForTesting:
    """Replaces attributes until `UnsetAll` is called."""

    def __init__(self):
        self._changed = []

    def Set(self, parent, child_name, new_child):
        """Replaces an attribute."""
        self._changed.append((parent, child_name, parent.__dict__.get(
            child_name, getattr(parent, child_name))))
        setattr(parent, child_name, new_child)

    SmartSet = Set

    def UnsetAll(self):
        """Restores all attributes."""
        while self._changed:
            setattr(*self._changed.pop())

    SmartUnsetAll = CleanUp = UnsetAll

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.UnsetAll()


def get_node_def_from_graph(node_name, graph_def):
    """Returns the node with a name, or None."""
    return next((n for n in graph_def.node if n.name == node_name), None)


class Benchmark:
    """The base class of benchmarks, which are methods `benchmark...`."""

    def report_benchmark(self, iters=None, cpu_time=None, wall_time=None,
                         throughput=None, extras=None, name=None):
        """Prints measurements."""
        values = dict(iters=iters, cpu_time=cpu_time, wall_time=wall_time,
                      throughput=throughput, **(extras or {}))
        name = name or sys._getframe(1).f_code.co_name
        print(f"{type(self).__name__}.{name}: " + ", ".join(
            f"{k}={v}" for k, v in values.items() if v is not None))

    def run_op_benchmark(self, sess, op_or_tensor, feed_dict=None,
                         burn_iters=2, min_iters=10, store_trace=False,
                         store_memory_usage=True, name=None, extras=None,
                         mbs=0):
        """Runs an operation repeatedly; reports and returns the median time."""
        for _ in range(burn_iters):
            sess.run(op_or_tensor, feed_dict)
        times = []
        for _ in range(min_iters):
            start = time.perf_counter()
            sess.run(op_or_tensor, feed_dict)
            times.append(time.perf_counter() - start)
        result = dict(iters=min_iters, wall_time=float(np.median(times)),
                      name=name or sys._getframe(1).f_code.co_name,
                      throughput=mbs / float(np.median(times)) if mbs
                      else None, extras=extras)
        self.report_benchmark(**result)
        return result


def test_src_dir_path(relative_path):
    """Returns a path relative to the folder of the program."""
    return os.path.join(os.path.dirname(os.path.abspath(sys.argv[0])),
                        relative_path)


test_src_dir_path.__test__ = False  # Otherwise pytest would collect it.
