"""Fourier transforms of real numbers, and what goes with them."""

from sluice import _core
from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import constant_value, convert_to_tensor
from sluice.ops import array_ops, math_ops

_op = _core.op


def _sizes(x, rank, halved):
    """The sizes of the real numbers, by default: those of the last dimensions
    (the last of which has half of them, if `halved`)."""
    known = x.shape[-rank:]
    if known.is_fully_defined():
        sizes = known.as_list()
        if halved:
            sizes[-1] = max(0, 2 * (sizes[-1] - 1))
        return convert_to_tensor(sizes, dtypes.int32)
    sizes = array_ops.shape(x)[-rank:]
    if not halved:
        return sizes
    last = math_ops.maximum(0, 2 * (sizes[-1:] - 1))
    return array_ops.concat([sizes[:-1], last], 0)


def _padded(x, rank, sizes, halved):
    """x with zeros up to sizes; the op leaves out what is beyond."""
    if halved:
        sizes = array_ops.concat([sizes[:-1], sizes[-1:] // 2 + 1], 0)
    wanted, have = constant_value(sizes), x.shape[-rank:]
    if have.is_fully_defined():
        if 0 in x.shape.as_list():
            return x
        if wanted is not None:
            more = [max(0, int(w) - h)
                    for w, h in zip(wanted, have.as_list())]
            if not any(more):
                return x
            return array_ops.pad(x, [[0, 0]] * (x.shape.ndims - rank) +
                                 [[0, m] for m in more])
    more = math_ops.maximum(0, sizes - array_ops.shape(x)[-rank:])
    outer = array_ops.zeros([array_ops.rank(x) - rank], dtypes.int32)
    more = array_ops.concat([outer, more], 0)
    return array_ops.pad(x, array_ops.stack([array_ops.zeros_like(more), more],
                                            axis=1))


_COMPLEX = {dtypes.float32: dtypes.complex64,
            dtypes.float64: dtypes.complex128}


def _transform(kind, rank, doc):
    op, inverse = _op(kind), kind.startswith("I")
    types = [*(_COMPLEX.values() if inverse else _COMPLEX)]

    def transform(input_tensor, fft_length=None, name=None):
        with graphs.name_scope(name, kind.lower(),
                               [input_tensor, fft_length]) as scope:
            x = convert_to_tensor(input_tensor, dtype_hint=types[0])
            kept = x.dtype.base_dtype
            if kept not in types:
                raise ValueError(f"{kind}: expected {types[0].name} or "
                                 f"{types[1].name}, got {kept.name}")
            x.shape.with_rank_at_least(rank)
            sizes = (_sizes(x, rank, inverse) if fft_length is None
                     else convert_to_tensor(fft_length, dtypes.int32))
            made = (dict(Treal=kept.real_dtype) if inverse
                    else dict(Tcomplex=_COMPLEX[kept]))
            return op(_padded(x, rank, sizes, inverse), sizes, name=scope,
                      **made)

    transform.__name__ = kind.lower()
    transform.__doc__ = doc
    return transform


_FORWARD = """The Fourier transform of real numbers: half of it, the other half
    being its mirror image. Over the last dimensions, cut or filled up with
    zeros to the sizes `fft_length`."""
_INVERSE = """What real numbers a half of a Fourier transform is of: of the
    sizes `fft_length`, by default even."""
rfft = _transform("RFFT", 1, _FORWARD)
rfft2d = _transform("RFFT2D", 2, _FORWARD)
rfft3d = _transform("RFFT3D", 3, _FORWARD)
irfft = _transform("IRFFT", 1, _INVERSE)
irfft2d = _transform("IRFFT2D", 2, _INVERSE)
irfft3d = _transform("IRFFT3D", 3, _INVERSE)


def _shift(default, distance, doc):
    def shift(x, axes=None, name=None):
        with graphs.name_scope(name, default, [x]) as scope:
            x = convert_to_tensor(x)
            if axes is None:
                axes = list(range(x.shape.ndims))
            sizes = array_ops.gather(array_ops.shape(x), axes)
            return _op("Roll")(x, distance(sizes), axes, name=scope)
    shift.__name__ = default
    shift.__doc__ = doc
    return shift


fftshift = _shift("fftshift", lambda n: n // 2,
                  "The frequency zero in the middle of the dimensions `axes`.")
ifftshift = _shift("ifftshift", lambda n: -(n // 2), "`fftshift` undone.")
