"""Symbolic gradients."""

import enum
from collections import abc

from sluice import _core
from sluice.framework import graph as graphs
from sluice.framework.conversion import (
    IndexedSlices, constant, convert_to_tensor)
from sluice.ops import array_ops, control_flow, math_ops, tensor_array
from sluice.ops.variables import Variable


class UnconnectedGradients(enum.Enum):
    """The gradient with respect to an x that no y depends on."""

    NONE = "none"
    ZERO = "zero"

    @classmethod
    def _missing_(cls, value):
        raise ValueError(f"Unknown value for unconnected_gradients: "
                         f"{value!r}")


class AggregationMethod:
    """Methods of summing gradients, which all give the same result."""

    ADD_N = 0
    DEFAULT = ADD_N
    EXPERIMENTAL_TREE = 1
    EXPERIMENTAL_ACCUMULATE_N = 2


def _target(x):
    if isinstance(x, Variable):
        return x._ref()
    if isinstance(x, IndexedSlices):
        return x.values
    return convert_to_tensor(x)


def _list(values):
    several = isinstance(values, (list, tuple, abc.ValuesView))
    return list(values) if several else [values]


def gradients(ys, xs, grad_ys=None, name="gradients",
              colocate_gradients_with_ops=False, gate_gradients=False,
              aggregation_method=None, stop_gradients=None,
              unconnected_gradients=UnconnectedGradients.NONE):
    """Returns d(sum of ys) / dx for each x.

    Args:
      ys: a tensor or a list of tensors.
      xs: a tensor or variable, or a list of these.
      grad_ys: the gradients with respect to the ys; default to ones.
      name: the name scope.
      colocate_gradients_with_ops: whether to place gradients with their ops.
      gate_gradients: whether all gradients of an op are used only once they
        are all computed.
      aggregation_method: an AggregationMethod.
      stop_gradients: tensors that are treated as constants.
      unconnected_gradients: the gradient with respect to an x that no y
        depends on.

    Returns:
      A list of tensors, IndexedSlices and Nones.

    Raises:
      LookupError: if an op between ys and xs has no gradient.
    """
    if aggregation_method not in (None, 0, 1, 2):
        raise ValueError(f"Invalid `aggregation_method` specified "
                         f"{aggregation_method}. Accepted values are "
                         f"[0, 1, 2].")
    ys, xs = _list(ys), _list(xs)
    with graphs._default_for(ys + xs).as_default():
        return _gradients(ys, xs, grad_ys, name,
                          bool(colocate_gradients_with_ops),
                          bool(gate_gradients), stop_gradients,
                          UnconnectedGradients(unconnected_gradients))


def _like(y, grad):
    """Reshapes a gradient to the shape of y: programs pass [g] for g."""
    known = y.shape.is_fully_defined() and grad.shape.is_fully_defined()
    if known and grad.shape != y.shape and (
            grad.shape.num_elements() == y.shape.num_elements()):
        return _core.op("Reshape")(grad, y.shape.as_list())
    return grad


def _gradients(ys, xs, grad_ys, name, colocate, gate, stop_gradients,
               unconnected):
    ys = [_target(y) if not isinstance(y, Variable) else y.value()
          for y in ys]
    stops = [] if stop_gradients is None else [
        _target(x) for x in _list(stop_gradients)]
    for y, grad in zip(ys, _list(grad_ys) if grad_ys is not None
                       else [None] * len(ys)):
        if grad is None and y.dtype.is_complex:
            raise TypeError(f"Gradients of complex tensors must set grad_ys "
                            f"(y.dtype = {y.dtype!r})")
    if grad_ys is None:
        grad_ys = []
    else:
        grad_ys = _list(grad_ys)
        if len(grad_ys) != len(ys):
            raise ValueError(f"Passed {len(grad_ys)} grad_ys for {len(ys)} ys")
        grad_ys = [
            g if g is None or isinstance(g, IndexedSlices) else
            _like(y, convert_to_tensor(g, y.dtype.base_dtype,
                                       name=f"grad_ys_{i}"))
            for i, (g, y) in enumerate(zip(grad_ys, ys))]
    made = _core.gradients(ys, [_target(x) for x in xs], grad_ys, stops,
                           name or "gradients",
                           unconnected is UnconnectedGradients.ZERO,
                           colocate, gate)
    return [IndexedSlices(*g) if type(g) is tuple else g for g in made]


_registered = {}  # Python functions by op type or name.


class RegisterGradient:
    """A decorator that registers a function as the gradient of an op.

        @tf.RegisterGradient("Sub")
        def _sub_grad(op, grad):
            return grad, -grad

    A name that is not an op type is for `Graph.gradient_override_map`.
    """

    def __init__(self, op_type):
        if not isinstance(op_type, str):
            raise TypeError("op_type must be a string")
        self._op_type = op_type

    def __call__(self, f):
        _core.register_gradient(self._op_type, f)
        _registered[self._op_type] = f
        return f


def NotDifferentiable(op_type):
    """Registers an op type as not differentiable."""
    _core.register_gradient(op_type, None)
    _registered[op_type] = None


NoGradient = no_gradient = NotDifferentiable


def get_gradient_function(op):
    """Returns the gradient function of an operation.

    It is a function of (operation, *gradients of its outputs), or None if the
    operation is not differentiable.

    Raises:
      LookupError: if `Graph.gradient_override_map` selected a name that is not
        registered.
    """
    if not op.outputs:
        return None
    name = op.type
    if "_gradient_op_type" in op._attr_names():
        name = op.get_attr("_gradient_op_type").decode()
    if name in _registered:
        return _registered[name]
    if name != op.type:
        raise LookupError(f"gradient registry has no entry for: {name}")
    return lambda op, *grads: gradients(op.outputs, list(op.inputs), grads)


def hessians(ys, xs, name="hessians", colocate_gradients_with_ops=False,
             gate_gradients=False, aggregation_method=None):
    """Returns the Hessian matrices of sum(ys), one per x.

    The shape of each is the shape of x repeated twice. The arguments are those
    of `gradients`.

    Raises:
      ValueError: if the ys do not depend on an x, or only linearly.
    """
    xs = _list(xs)
    options = {"colocate_gradients_with_ops": colocate_gradients_with_ops,
               "gate_gradients": gate_gradients,
               "aggregation_method": aggregation_method}
    result = []
    for grad, x in zip(gradients(ys, xs, name=name, **options), xs):
        if isinstance(grad, IndexedSlices):
            grad = convert_to_tensor(grad)
        flat = array_ops.reshape(grad, [-1])
        n = array_ops.size(x)

        def row(i, rows, flat=flat, x=x):
            second, = gradients(flat[i], x, **options)
            return i + 1, rows.write(i, convert_to_tensor(second))

        _, rows = control_flow.while_loop(
            lambda i, _, n=n: i < n, row,
            [constant(0), tensor_array.TensorArray(x.dtype.base_dtype, n)])
        result.append(array_ops.reshape(
            rows.stack(),
            array_ops.concat([array_ops.shape(x), array_ops.shape(x)], 0)))
    return result
