"""Gradients: the operations that compute them."""

import enum
from collections import abc

from sluice import _core
from sluice.framework import graph as graphs
from sluice.framework.conversion import (
    IndexedSlices, constant, convert_to_tensor)
from sluice.ops import array_ops, control_flow, math_ops, tensor_array
from sluice.ops.variables import Variable


class UnconnectedGradients(enum.Enum):
    """What an x gets that no y depends on."""

    NONE = "none"
    ZERO = "zero"

    @classmethod
    def _missing_(cls, value):
        raise ValueError(f"Unknown value for unconnected_gradients: "
                         f"{value!r}")


class AggregationMethod:
    """How gradients are added up; they all give the same sum."""

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
    """d(sum of ys) / dx for each x: a list of tensors, IndexedSlices and Nones.

    Args:
      ys: tensors, or one.
      xs: tensors and variables, or one.
      grad_ys: the gradients of the ys (None: ones).
      name: of the scope.
      colocate_gradients_with_ops: whether gradients are on their ops' devices.
      gate_gradients: whether an op's gradients are ready together.
      aggregation_method: one of AggregationMethod.
      stop_gradients: tensors beyond which nothing flows back.
      unconnected_gradients: what an x gets that no y depends on.

    Raises:
      LookupError: if an op on the way has no gradient.
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
    """A gradient in the shape of what it is of: programs give [g] for g."""
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


_registered = {}  # Functions of Python's, by op or name.


class RegisterGradient:
    """A decorator that registers a function as the gradient of an op.

        @tf.RegisterGradient("Sub")
        def _sub_grad(op, grad):
            return grad, -grad

    Under a name that is no op's it is for `Graph.gradient_override_map`.
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
    """Registers that no gradients flow through ops of a type."""
    _core.register_gradient(op_type, None)
    _registered[op_type] = None


NoGradient = no_gradient = NotDifferentiable


def get_gradient_function(op):
    """The function that gives the gradient of an operation: of (operation,
    gradients of its results). None if nothing flows through it.

    Raises:
      LookupError: if nothing is registered under the name that
        `Graph.gradient_override_map` gave it.
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
    """The matrices of second derivatives of sum(ys), one per x; in the x's
    shape twice.

    Args are those of `gradients`.

    Raises:
      ValueError: if the ys do not depend on an x, or not to the second order.
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
