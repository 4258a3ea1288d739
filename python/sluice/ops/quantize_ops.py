"""Quantization of floats to integers and back."""

from sluice import _core
from sluice.framework.conversion import convert_to_tensor

_op = _core.op


def _axis(input, axis):
    """Normalizes the axis with separate ranges; -1 means a single range."""
    if axis is None:
        return -1
    n = input.shape.ndims
    if axis < 0 and n is None:
        raise ValueError("input should have known rank to use negative axis.")
    return axis % n if axis < 0 else axis


def quantize(input, min_range, max_range, T, mode="MIN_COMBINED",
             round_mode="HALF_AWAY_FROM_ZERO", name=None, narrow_range=False,
             axis=None, ensure_minimum_range=0.01):
    """Quantizes floats to integers of type T.

    Returns:
      (the integers, the float of the lowest integer, that of the highest).
    """
    x = convert_to_tensor(input)
    return _op("QuantizeV2")(
        x, min_range, max_range, T=T, mode=mode, round_mode=round_mode,
        narrow_range=narrow_range, axis=_axis(x, axis),
        ensure_minimum_range=ensure_minimum_range, name=name)


def _there_and_back(kind, doc):
    def apply(input, input_min, input_max, signed_input=True, num_bits=8,
              range_given=False, round_mode="HALF_TO_EVEN", name=None,
              narrow_range=False, axis=None):
        x = convert_to_tensor(input)
        return _op(kind)(x, input_min, input_max, signed_input=signed_input,
                         num_bits=num_bits, range_given=range_given,
                         round_mode=round_mode, narrow_range=narrow_range,
                         axis=_axis(x, axis), name=name)
    apply.__doc__ = doc
    return apply


quantize_and_dequantize = _there_and_back(
    "QuantizeAndDequantizeV2",
    "Rounds numbers like integers of `num_bits`; passes gradients unchanged.")
quantize_and_dequantize_v2 = _there_and_back(
    "QuantizeAndDequantizeV4",
    "Works like `quantize_and_dequantize`; gradients are 0 out of range.")
