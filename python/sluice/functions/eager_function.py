"""Ops that call Python functions on tensors with values: `tf.py_function`.

There is no eager mode. Each call has its own graph, to which the function adds
operations. When the function asks for a value (`numpy()`, `if`, `float`), the
required operations run once. The results are computed when the function
returns. Gradients use another op, which calls the function again and
differentiates that graph.
"""

import functools

from sluice import _core
from sluice.client.session import Session
from sluice.framework import dtypes, graph as graphs, nest
from sluice.framework.conversion import (
    IndexedSlices, SparseTensor, convert_to_tensor)
from sluice.framework.elements import Tensor
from sluice.ops import gradients
from sluice.ops.script_ops import _Function, call_op
from sluice.ops.variables import Variable

_op = _core.op("EagerPyFunc")


class ValueTensor(Tensor):
    """A tensor in a `py_function`, which has a value."""

    def numpy(self):
        """Returns the value as a numpy array."""
        return self.graph.values_of([self])[0]

    def __bool__(self):
        return bool(self.numpy())

    def __int__(self):
        return int(self.numpy())

    def __float__(self):
        return float(self.numpy())

    def __complex__(self):
        return complex(self.numpy())

    def __index__(self):
        return self.numpy().__index__()

    def __array__(self, dtype=None, copy=None):
        import numpy as np
        return np.array(self.numpy(), dtype)

    def __len__(self):
        if self.shape.ndims == 0:
            raise TypeError("Scalar tensor has no `len()`")
        return len(self.numpy())

    def __iter__(self):
        if self.shape.ndims == 0:
            raise TypeError("Cannot iterate over a scalar tensor.")
        return iter([self[i] for i in range(len(self))])

    def __format__(self, how):
        return format(self.numpy() if self.shape.ndims == 0 else str(self),
                      how)

    def __str__(self):
        return (f"tf.Tensor({self.numpy()}, shape={self.shape}, "
                f"dtype={self.dtype.name})")

    def eval(self, feed_dict=None, session=None):
        """Returns the value as a numpy array."""
        return self.numpy()


class _ValueGraph(graphs.Graph):
    """The graph of one call. Values are computed on request and then cached."""

    def __init__(self):
        super().__init__()
        self._tensor_class = ValueTensor
        self._known = {}  # Values of tensors.
        self._seen = 0  # The number of operations that were settled.
        self._session = None

    def given(self, value, dtype):
        """Returns a tensor with a given value."""
        import numpy as np
        if isinstance(value, bytes):
            value = np.array(value, dtype=object)
        made = _core.op("Placeholder")(dtype=dtype, shape=value.shape)
        self._known[made] = value
        return made

    def _run(self, fetches):
        if self._session is None:
            self._session = Session(graph=self)
        feeds = {t: v for t, v in self._known.items() if self.is_feedable(t)}
        return self._session.run(fetches, feeds)

    def _settle(self):
        """Runs new operations with side effects, in their order."""
        new, self._seen = self._operations(self._seen), self.version
        for op in new:
            if not op.op_def.is_stateful or not self.is_fetchable(op) or any(
                    t in self._known or t.dtype.base_dtype in (
                        dtypes.resource, dtypes.variant) or
                    t.dtype._is_ref_dtype for t in op.outputs):
                continue
            if op.outputs:
                self._known.update(zip(op.outputs, self._run(op.outputs)))
            else:
                self._run(op)

    def values_of(self, tensors):
        """Returns the values of tensors."""
        self._settle()
        missing = [t for t in dict.fromkeys(tensors) if t not in self._known]
        if missing:
            self._known.update(zip(missing, self._run(missing)))
        return [self._known[t] for t in tensors]

    def close(self):
        """Closes the session at the end of the call."""
        if self._session is not None:
            self._session.close()
            self._session = None


def _flat(results):
    """Converts the return value of a function to a list."""
    return [] if results is None else (
        list(results) if isinstance(results, (list, tuple)) else [results])


def _converted(value, dtype):
    if isinstance(value, Variable):
        raise RuntimeError(
            f"Attempting to return a variable from an eagerly executed py_func."
            f" Only numeric data structures like Tensors or NumPy arrays should"
            f" be returned; to return the value of a variable, make sure to "
            f"obtain the Tensor backing it by calling `.read_value()` on the "
            f"variable in question: {value}")
    if value is None:
        raise ValueError(f"Expected {dtype.name}, but got None")
    return convert_to_tensor(value, dtype)


class _EagerFunction(_Function):
    """A function of tensors with values, which is called with arrays."""

    __slots__ = ("_input_types",)

    def __init__(self, fn, inputs, types):
        super().__init__(fn, types)
        self._input_types = [x.dtype.base_dtype for x in inputs]

    def results(self, tensors):
        """Calls the function on tensors of the default graph."""
        made = _flat(self._fn(*tensors))
        # The op reports a wrong number of results.
        return [_converted(value, dtype) for value, dtype in zip(
            made, self.types + [None] * len(made))]

    def __call__(self, *arrays):
        with _ValueGraph().as_default() as graph:
            try:
                made = self.results(
                    list(map(graph.given, arrays, self._input_types)))
                # This also runs side effects. bfloat16, which numpy does not
                # have, is returned as numbers.
                return [v.tolist() if t.dtype is dtypes.bfloat16 else v
                        for t, v in zip(made, graph.values_of(made))]
            finally:
                graph.close()


def _differentiable(tensor):
    return tensor.dtype.is_floating or tensor.dtype.is_complex


@gradients.RegisterGradient("EagerPyFunc")
def _gradient(op, *dys):
    token = op.get_attr("token").decode()
    function = next((f for f in graphs._outermost(op.graph)._functions
                     if f.token == token), None)
    if function is None:
        raise LookupError(f"py_function: expected a function of Python's, "
                          f"which a GraphDef does not hold, got none; "
                          f"{op._describe()}")
    inputs = list(op.inputs)
    wanted = [i for i, t in enumerate(inputs) if _differentiable(t)]
    given = [i for i, (t, dy) in enumerate(zip(op.outputs, dys))
             if dy is not None and _differentiable(t)]
    if not wanted or not given:
        return [None] * len(inputs)

    def backwards(*values):
        """Returns the gradients with respect to the differentiable arguments.

        `values` are the arguments and the gradients of the results.
        """
        xs, ys = values[:len(inputs)], function.results(values[:len(inputs)])
        made = gradients.gradients(
            [ys[i] for i in given], [xs[i] for i in wanted],
            list(values[len(inputs):]),
            unconnected_gradients=gradients.UnconnectedGradients.ZERO)
        return [convert_to_tensor(g) for g in made]

    passed = inputs + [dys[i] for i in given]
    made = call_op(_op, _EagerFunction(
        backwards, passed, [inputs[i].dtype.base_dtype for i in wanted]),
        passed, "EagerPyFunc")
    found = [None] * len(inputs)
    for i, gradient in zip(wanted, made):
        gradient.set_shape(inputs[i].shape)
        found[i] = gradient
    return found


def py_function(func=None, inp=None, Tout=None, name=None):
    """Calls a Python function on tensors with values in each step.

        def log_huber(x, m):
            if tf.abs(x) <= m:
                return x ** 2
            return m ** 2 * (1 - 2 * tf.log(m) + tf.log(x ** 2))

        y = tf.py_function(log_huber, [x, m], tf.float32)
        dy_dx, = tf.gradients(y, x)

    Each step calls the function with tensors of a new graph. The function adds
    operations to it, and may ask for values at any time: `t.numpy()`,
    `if t > 0:`, `for row in t:`. It may also return arrays or numbers. Tensors
    and variables of the outer graph are not accessible: pass their values.
    Exceptions fail the step in the same way as for `py_func`.

    Gradients call the function again with the same values. This repeats side
    effects and draws new random numbers.

    A call takes at least about a millisecond, because it builds and runs a
    graph. If numpy is sufficient, `py_func` is faster.

    Args:
      func: takes one tensor per input, and returns a tensor, an array or a
        number per output: a list or tuple of these, a single one, or None if
        there are no outputs. If it is None, a decorator is returned.
      inp: a list of Tensors, SparseTensors and IndexedSlices.
      Tout: a list of the dtypes of the outputs, or a dtype for one output.
      name: a name for the operation.

    Returns:
      A list of Tensors, or a Tensor if Tout is a single dtype. If there are no
      outputs, the Operation.
    """
    if func is None:
        return lambda f: functools.wraps(f)(
            lambda *args: py_function(f, list(args), Tout, name))
    if not callable(func):
        raise ValueError(f"Expected func to be callable. Received func={func} "
                         f"of type {type(func)}.")
    if not isinstance(inp, (list, tuple)):
        raise TypeError(f"inp: expected a list of tensors, got {inp!r}")
    one = not isinstance(Tout, (list, tuple))
    types = [dtypes.as_dtype(t) for t in ([Tout] if one else Tout)]
    inp = [x if isinstance(x, (SparseTensor, IndexedSlices)) else
           convert_to_tensor(x) for x in inp]

    def with_structure(*tensors):
        return func(*nest.pack_sequence_as(inp, tensors,
                                           expand_composites=True))
    structured = any(not isinstance(x, _core.Tensor) for x in inp)
    tensors = nest.flatten(inp, expand_composites=True)
    made = call_op(_op, _EagerFunction(
        with_structure if structured else func, tensors, types), tensors,
        name or "EagerPyFunc")
    return made[0] if one and isinstance(made, list) else made


# The name in tensorflow.python.ops.script_ops.
eager_py_func = py_function
