"""Ops that call functions of Python."""

from sluice import _core
from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import convert_to_tensor

_py_func = _core.op("PyFunc")
_py_func_stateless = _core.op("PyFuncStateless")


class _Function:
    """What a graph holds of a function that its ops call."""

    __slots__ = ("_fn", "types", "token", "__weakref__")

    def __init__(self, fn, types):
        self._fn, self.types = fn, types
        self.token = _core.add_function(self)

    def __call__(self, *args):
        return self._fn(*args)


def call_op(op, function, inputs, name):
    """The results of an op that calls a _Function."""
    graph = inputs[0].graph if inputs else graphs.get_default_graph()
    # (The graph of a function's body ends before calls of that run.)
    graphs._outermost(graph)._functions.append(function)
    return op(inputs, token=function.token, Tout=function.types, name=name)


def py_func(func, inp, Tout, stateful=True, name=None):
    """What a function of Python gives for arrays.

        def log_of_big(x):
            return np.log(x) if x.max() > 100 else x

        y = tf.py_func(log_of_big, [x], tf.float32)

    The function is called in each step, on the thread that runs the step, with
    the interpreter's lock. What it raises is the step's error: ValueError and
    TypeError as InvalidArgumentError, StopIteration as OutOfRangeError,
    NotImplementedError as UnimplementedError, MemoryError as
    ResourceExhaustedError, others as UnknownError. Nothing is known of the
    results' shapes (`Tensor.set_shape`), and there is no gradient but one of
    your own (`tf.RegisterGradient`, `Graph.gradient_override_map`). The graph
    holds the function; a GraphDef does not.

    Args:
      func: takes one array per input, and gives an array per output: a list or
        tuple of these, one alone, or None if there are no outputs.
      inp: a list of Tensors.
      Tout: the type of each output, or one type for one output.
      stateful: whether it may give something else for the same inputs, or do
        something besides. One that may not is called only if its results are
        needed, and once for the same inputs.
      name: a name for the operation.

    Returns:
      A list of Tensors, or a Tensor if Tout is one type; the Operation if there
      are no outputs.
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
    """The same as `py_func`."""
    return py_func(func, inp, Tout, stateful, name)
