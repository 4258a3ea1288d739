"""Python operators of tensors."""

from sluice import _core
from sluice.framework import graph as graphs
from sluice.framework.conversion import convert_to_tensor
from sluice.ops import math_ops

_op = _core.op
_PLAIN = (int, float, complex, str, bytes, list, tuple)


def _arithmetic(op, reflected_op, name):
    """Returns the methods __name__ and __rname__ for an op.

    The dtype of the tensor operand determines that of the other operand.
    `reflected_op` accepts either order.
    """
    def forward(x, y):
        if isinstance(y, _core.Tensor):
            return op(x, y)
        try:
            return op(x, y)
        except (TypeError, ValueError):
            # The other operand may implement the operation.
            if hasattr(type(y), f"__r{name}__") and not isinstance(
                    y, _PLAIN) and not hasattr(y, "__array__"):
                return NotImplemented
            raise

    def reflected(y, x):
        return reflected_op(x, y)

    return forward, reflected


def _truediv_operator(x, y):
    return math_ops.truediv(x, y, "truediv")


def _truediv_reflected(y, x):
    with graphs.name_scope("truediv") as scope:
        x = convert_to_tensor(x, y.dtype.base_dtype, name="x")
        return math_ops.truediv(x, y, scope)


def _pow_operator(x, y):
    return math_ops.pow(x, y, name="pow")


def _matmul_operator(x, y):
    return math_ops.matmul(x, y, name="matmul")


def _matmul_reflected(y, x):
    return math_ops.matmul(convert_to_tensor(x, y.dtype.base_dtype), y,
                           name="matmul")


def _logical(kind, integer_kind, name):
    boolean, integer = _op(kind, name, True), _op(integer_kind, name, True)

    def forward(x, y):
        return (boolean if x.dtype.is_bool else integer)(x, y)

    def reflected(y, x):
        return forward(convert_to_tensor(x, y.dtype.base_dtype), y)
    return forward, reflected


def _exclusive_or():
    bits = _op("BitwiseXor", "xor", True)

    def forward(x, y):
        return (math_ops.logical_xor(x, y, "xor") if x.dtype.is_bool
                else bits(x, y))

    def reflected(y, x):
        if y.dtype.is_bool:
            return math_ops.logical_xor(x, y, "xor")
        return bits(convert_to_tensor(x, y.dtype.base_dtype), y)
    return forward, reflected


def _invert(x):
    if x.dtype.is_bool:
        return math_ops.logical_not(x)
    return _op("Invert")(x)


def install_operators(cls):
    """Adds the operators of tensors to a class."""
    def both(name, pair):
        setattr(cls, f"__{name}__", pair[0])
        setattr(cls, f"__r{name}__", pair[1])

    both("add", _arithmetic(math_ops.adder("add"), math_ops.adder("add", True),
                            "add"))
    for name, kind in (("sub", "Sub"), ("mul", "Mul"),
                       ("floordiv", "FloorDiv"), ("mod", "FloorMod"),
                       ("pow", "Pow")):
        both(name, _arithmetic(_op(kind, name), _op(kind, name, True), name))
    cls.__pow__ = _pow_operator
    both("truediv", (_truediv_operator, _truediv_reflected))
    both("matmul", (_matmul_operator, _matmul_reflected))
    both("and", _logical("LogicalAnd", "BitwiseAnd", "and"))
    both("or", _logical("LogicalOr", "BitwiseOr", "or"))
    both("xor", _exclusive_or())
    for name, op in (("lt", math_ops.less), ("le", math_ops.less_equal),
                     ("gt", math_ops.greater), ("ge", math_ops.greater_equal)):
        setattr(cls, f"__{name}__", _comparison(op))
    cls.__neg__ = lambda x: math_ops.negative(x)
    cls.__abs__ = lambda x: math_ops.abs(x)
    cls.__invert__ = _invert


def _comparison(op):
    return lambda x, y: op(x, y)


install_operators(graphs.Tensor)
