"""Ops that call Python functions."""

from sluice import _core
from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import convert_to_tensor

_py_func = _core.op("PyFunc")
_py_func_stateless = _core.op("PyFuncStateless")


class _Function:
    """A Python function that a graph keeps for its ops."""

    __slots__ = ("_fn", "types", "token", "__weakref__")

    def __init__(self, fn, types):
        self._fn, self.types = fn, types
        self.token = _core.add_function(self)

    def __call__(self, *args):
        return self._fn(*args)


def call_op(op, function, inputs, name):
    """Adds an op that calls a _Function; returns its results."""
    graph = inputs[0].graph if inputs else graphs.get_default_graph()
    # A graph of a function's body may be freed before the function runs.
    graphs._outermost(graph)._functions.append(function)
    return op(inputs, token=function.token, Tout=function.types, name=name)


def py_func(func, inp, Tout, stateful=True, name=None):
    """Calls a Python function on arrays in each step.

        def log_of_big(x):
            return np.log(x) if x.max() > 100 else x

        y = tf.py_func(log_of_big, [x], tf.float32)

    The function runs on the thread that runs the step, and holds the
    interpreter's lock. An exception fails the step: ValueError and TypeError as
    InvalidArgumentError, StopIteration as OutOfRangeError, NotImplementedError
    as UnimplementedError, MemoryError as ResourceExhaustedError, others as
    UnknownError. The static shapes of the results are unknown
    (`Tensor.set_shape`). There is no gradient unless you define one
    (`tf.RegisterGradient`, `Graph.gradient_override_map`). The graph keeps the
    function, but a GraphDef does not.

    Args:
      func: takes one array per input and returns one array per output: a list
        or tuple of these, a single array, or None if there are no outputs.
      inp: a list of Tensors.
      Tout: a list of the dtypes of the outputs, or a dtype for one output.
      stateful: whether the results may differ for the same inputs, or the
        function has side effects. A stateless function is called only if its
        results are needed, and once for the same inputs.
      name: a name for the operation.

    Returns:
      A list of Tensors, or a Tensor if Tout is a single dtype. If there are no
      outputs, the Operation.
    """
    if not callable(func):
        raise ValueError(f"Expected func to be callable, got func to be of "
                         f"type {type(func)}")
    if not isinstance(inp, (list, tuple)):
        raise TypeError(f"inp: expected a list of tensors, got {inp!r}")
    one = not isinstance(Tout, (list, tuple))
    types = [dtypes.as_dtype(t) for t in ([Tout] if one else Tout)]
    made = call_op(_py_func if stateful else _py_func_stateless,
                   _Function(func, types), [convert_to_tensor(x) for x in inp],
                   name or "PyFunc")
    return made[0] if one and isinstance(made, list) else made


def numpy_function(func, inp, Tout, stateful=True, name=None):
    """Calls `py_func`."""
    return py_func(func, inp, Tout, stateful, name)
