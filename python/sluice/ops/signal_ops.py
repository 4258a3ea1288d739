"""Signal processing: real Fourier and cosine transforms, framing, mel scale."""

import math

from sluice import _core
from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import constant_value, convert_to_tensor
from sluice.ops import array_ops, math_ops

_op = _core.op


def _sizes(x, rank, halved):
    """Returns the default sizes of the real signal in the last dimensions.

    If `halved`, the last dimension of x has only half of the frequencies.
    """
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
    """Pads x with zeros to sizes; the op cuts longer dimensions."""
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


def _transform(kind, rank, doc):
    op, inverse = _op(kind), kind.startswith("I")
    types = [*(dtypes.COMPLEX.values() if inverse else dtypes.COMPLEX)]

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
                    else dict(Tcomplex=dtypes.COMPLEX[kept]))
            return op(_padded(x, rank, sizes, inverse), sizes, name=scope,
                      **made)

    transform.__name__ = kind.lower()
    transform.__doc__ = doc
    return transform


_FORWARD = """Computes the Fourier transform of real numbers.

    Returns only half of it, because the other half is its mirror image. The
    last dimensions are cut or padded with zeros to the sizes `fft_length`.
    """
_INVERSE = """Computes the inverse Fourier transform to real numbers.

    The input is half of a transform. The result has the sizes `fft_length`,
    which default to even sizes.
    """
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
                  "Moves the zero frequency to the middle of `axes`.")
ifftshift = _shift("ifftshift", lambda n: -(n // 2), "Inverts `fftshift`.")


# ---- Framing -----------------------------------------------------------------


def frame(signal, frame_length, frame_step, pad_end=False, pad_value=0,
          axis=-1, name=None):
    """Splits a dimension into frames: [frames, frame_length].

    With `pad_end`, the last frames extend beyond the end and are padded with
    `pad_value`.
    """
    with graphs.name_scope(name, "frame", [signal, frame_length, frame_step]):
        x = convert_to_tensor(signal)
        n, rank = _size(x, axis), x.shape.ndims
        at_least = max if isinstance(n, int) else math_ops.maximum
        if pad_end:
            count = at_least(0, -(-n // frame_step))
            more = at_least(0, frame_length + frame_step * (count - 1) - n)
            around = [[0, 0] for _ in range(rank)]
            around[axis][1] = more
            x = array_ops.pad(x, around, constant_values=pad_value)
        else:
            count = at_least(0, 1 + (n - frame_length) // frame_step)
        return array_ops.gather(x, _places(count, frame_length, frame_step),
                                axis=axis % rank)


def overlap_and_add(signal, frame_step, name=None):
    """Adds overlapping frames with a distance of `frame_step`.

    The frames are the last two dimensions.
    """
    with graphs.name_scope(name, "overlap_and_add", [signal, frame_step]):
        x = convert_to_tensor(signal)
        count, length = _size(x, -2), _size(x, -1)
        whole = (count - 1) * frame_step + length
        places = array_ops.reshape(_places(count, length, frame_step), [-1])
        outer = array_ops.shape(x)[:-2]
        columns = array_ops.transpose(
            array_ops.reshape(x, [-1, count * length]))
        total = array_ops.transpose(
            math_ops.unsorted_segment_sum(columns, places, whole))
        total = array_ops.reshape(total, array_ops.concat([outer, [whole]], 0))
        if x.shape.ndims is not None and isinstance(whole, int):
            total.set_shape(x.shape[:-2].concatenate([whole]))
        return total


def _size(x, axis):
    """Returns the size of a dimension, as a number if it is known."""
    if x.shape.ndims is None:
        raise ValueError("signal: expected a known rank")
    known = x.shape.as_list()[axis]
    return array_ops.shape(x)[axis] if known is None else known


def _places(count, length, step):
    """Returns the indices of the elements of frames: [frames, length]."""
    starts = math_ops.range(count) * step
    return array_ops.expand_dims(starts, 1) + math_ops.range(length)


def _cosine_window(default, mean, doc):
    def window(window_length, periodic=True, dtype=dtypes.float32, name=None):
        with graphs.name_scope(name, default, [window_length, periodic]):
            n = convert_to_tensor(window_length, dtypes.int32)
            if constant_value(n) == 1:
                return array_ops.ones([1], dtype)
            # A periodic window of even length is cut from a longer one.
            even = (1 - n % 2) * math_ops.cast(periodic, dtypes.int32)
            at = math_ops.cast(math_ops.range(n), dtype)
            turn = at * (2 * math.pi) / math_ops.cast(n + even - 1, dtype)
            return mean - (1 - mean) * math_ops.cos(turn)
    window.__name__ = default
    window.__doc__ = doc
    return window


hann_window = _cosine_window("hann_window", 0.5,
                             "Returns a Hann window, a cosine from 0 to 1.")
hamming_window = _cosine_window("hamming_window", 0.54,
                                "Returns a Hamming window, a cosine from 0.08 "
                                "to 1.")


def _power_of_two(n):
    known = constant_value(convert_to_tensor(n))
    if known is None:
        raise ValueError("fft_length: expected one where the frames' length is "
                         "not known")
    return 1 << (int(known) - 1).bit_length()


def stft(signals, frame_length, frame_step, fft_length=None,
         window_fn=hann_window, pad_end=False, name=None):
    """Computes the short-time Fourier transform of signals.

    The length of the transforms defaults to the next power of two.
    """
    with graphs.name_scope(name, "stft", [signals, frame_length, frame_step]):
        frames = frame(signals, frame_length, frame_step, pad_end=pad_end)
        if window_fn is not None:
            frames *= window_fn(frame_length, dtype=frames.dtype)
        return rfft(frames, [_power_of_two(frame_length) if fft_length is None
                             else fft_length])


def inverse_stft(stfts, frame_length, frame_step, fft_length=None,
                 window_fn=hann_window, name=None):
    """Computes the inverse of `stft`.

    It is exact if `window_fn` comes from `inverse_stft_window_fn`.
    """
    with graphs.name_scope(name, "inverse_stft", [stfts]):
        x = convert_to_tensor(stfts)
        n = _power_of_two(frame_length) if fft_length is None else fft_length
        frames = irfft(x, [n])[..., :frame_length]
        short = math_ops.maximum(0, frame_length - array_ops.shape(frames)[-1])
        frames = array_ops.pad(frames, [[0, 0]] * (x.shape.ndims - 1) +
                               [[0, short]])
        frames.set_shape(x.shape[:-1].concatenate([frame_length]))
        if window_fn is not None:
            frames *= window_fn(frame_length, dtype=frames.dtype)
        return overlap_and_add(frames, frame_step)


def inverse_stft_window_fn(frame_step, forward_window_fn=hann_window,
                           name=None):
    """Returns the window function for `inverse_stft` to invert `stft`."""
    def window_fn(frame_length, dtype):
        with graphs.name_scope(name, "inverse_stft_window_fn",
                               [forward_window_fn]):
            window = forward_window_fn(frame_length, dtype=dtype)
            overlaps = -(-frame_length // frame_step)
            squares = array_ops.pad(math_ops.square(window), [
                [0, overlaps * frame_step - frame_length]])
            total = math_ops.reduce_sum(array_ops.reshape(
                squares, [overlaps, frame_step]), 0)
            return window / array_ops.tile(total, [overlaps])[:frame_length]
    return window_fn


# ---- Cosine transforms -------------------------------------------------------


def dct(input, type=2, n=None, axis=-1, norm=None, name=None):
    """Computes the discrete cosine transform of the last dimension.

    The dimension is cut or padded with zeros to the size `n`.
    """
    if axis != -1:
        raise NotImplementedError(f"axis must be -1. Got: {axis}")
    if type not in (1, 2, 3, 4):
        raise ValueError(f"Types I, II, III and IV (I)DCT are supported. Got "
                         f"type {type}")
    allowed = [None] if type == 1 else [None, "ortho"]
    if norm not in allowed:
        raise ValueError(f"norm: expected one of {allowed}, got {norm!r}")
    with graphs.name_scope(name, "dct", [input]):
        x = convert_to_tensor(input, dtype_hint=dtypes.float32)
        if n is not None:
            have = _size(x, -1)
            more = (max if isinstance(have, int) else math_ops.maximum)(
                0, n - have)
            x = array_ops.pad(x[..., :n], [[0, 0]] * (x.shape.ndims - 1) +
                              [[0, more]])
        n = array_ops.shape(x)[-1]
        size = math_ops.cast(n, x.dtype)
        if type == 1:
            mirrored = array_ops.concat(
                [x, array_ops.reverse(x[..., 1:-1], [-1])], -1)
            return math_ops.real(rfft(mirrored))
        if type == 4:
            # Type 4 is given by the odd frequencies of a transform of size 2n.
            x = array_ops.pad(x, [[0, 0]] * (x.shape.ndims - 1) + [[0, n]])
            odd = _dct2(x, 2 * n, 2 * size)[..., 1::2]
            return odd if norm is None else odd * math_ops.rsqrt(2 * size)
        if type == 2:
            made = _dct2(x, n, size)
            return made if norm is None else made * _even_weights(
                0.5 * math_ops.rsqrt(size), 2 ** 0.5, n)
        x *= size if norm is None else _even_weights(math_ops.sqrt(size),
                                                     0.5 ** 0.5, n)
        turned = _turns(n, size, 1) * math_ops.complex(
            x, array_ops.zeros_like(x))
        return irfft(turned, array_ops.stack([2 * n]))[..., :n]


def idct(input, type=2, n=None, axis=-1, norm=None, name=None):
    """Computes the inverse of `dct`; without `norm`, scaled by 2 n."""
    return dct(input, {2: 3, 3: 2}.get(type, type), n, axis, norm, name)


def _turns(n, size, sign):
    """Returns 2 exp(sign i pi k / (2 n)) for each k."""
    angle = math_ops.cast(math_ops.range(n), size.dtype) * (
        sign * math.pi / 2) / size
    return math_ops.complex(2 * math_ops.cos(angle), 2 * math_ops.sin(angle))


def _dct2(x, n, size):
    return math_ops.real(rfft(x, array_ops.stack([2 * n]))[..., :n] *
                         _turns(n, size, -1))


def _even_weights(first, ratio, n):
    """Returns [first, first ratio, first ratio, ...]."""
    return first * array_ops.concat(
        [array_ops.ones([1], first.dtype),
         array_ops.fill(array_ops.stack([n - 1]),
                        convert_to_tensor(ratio, first.dtype))], 0)


# ---- Mel scale ---------------------------------------------------------------


def _mel(hertz, name):
    return math_ops.multiply(math_ops.log(1.0 + hertz / 700.0), 1127.0, name)


def linear_to_mel_weight_matrix(
        num_mel_bins=20, num_spectrogram_bins=129, sample_rate=8000,
        lower_edge_hertz=125.0, upper_edge_hertz=3800.0, dtype=dtypes.float32,
        name=None):
    """Returns a matrix [num_spectrogram_bins, num_mel_bins] of mel filters.

    It converts spectrograms to mel bands. The filters are triangles whose
    centres are equidistant on the mel scale. The first row (the zero frequency)
    is zero.
    """
    dtype = dtypes.as_dtype(dtype)
    numbers = [x for x in (num_mel_bins, num_spectrogram_bins, sample_rate)
               if not isinstance(x, _core.Tensor)]
    if not all(x > 0 for x in numbers):
        raise ValueError(f"num_mel_bins, num_spectrogram_bins, sample_rate "
                         f"must be positive. Got: {numbers}")
    if lower_edge_hertz < 0.0:
        raise ValueError(f"lower_edge_hertz must be non-negative. Got: "
                         f"{lower_edge_hertz}")
    if lower_edge_hertz >= upper_edge_hertz:
        raise ValueError(f"lower_edge_hertz {lower_edge_hertz:.1f} >= "
                         f"upper_edge_hertz {upper_edge_hertz:.1f}")
    if not isinstance(sample_rate, _core.Tensor) and (
            upper_edge_hertz > sample_rate / 2):
        raise ValueError(f"upper_edge_hertz must not be larger than the "
                         f"Nyquist frequency (sample_rate / 2). Got "
                         f"{upper_edge_hertz} for sample_rate: {sample_rate}")
    if not dtype.is_floating:
        raise ValueError(f"dtype must be a floating point type. Got: {dtype}")
    with graphs.name_scope(name, "linear_to_mel_weight_matrix"):
        rate = math_ops.cast(sample_rate, dtype)
        ends = [convert_to_tensor(x, dtype) for x in (
            0.0, lower_edge_hertz, upper_edge_hertz)]
        bins = math_ops.linspace(ends[0], rate / 2.0, num_spectrogram_bins)[1:]
        bins = array_ops.expand_dims(_mel(bins, "bins"), 1)
        edges = math_ops.linspace(_mel(ends[1], "lower"),
                                  _mel(ends[2], "upper"), num_mel_bins + 2)
        lower, middle, upper = edges[:-2], edges[1:-1], edges[2:]
        rising = (bins - lower) / (middle - lower)
        falling = (upper - bins) / (upper - middle)
        zero = convert_to_tensor(0.0, dtype)
        return array_ops.pad(
            math_ops.maximum(zero, math_ops.minimum(rising, falling)),
            [[1, 0], [0, 0]])


def mfccs_from_log_mel_spectrograms(log_mel_spectrograms, name=None):
    """Computes MFCCs: the type-2 DCT over mel bands, scaled as in HTK."""
    with graphs.name_scope(name, "mfccs_from_log_mel_spectrograms"):
        bands = convert_to_tensor(log_mel_spectrograms, dtypes.float32)
        n = bands.shape.as_list()[-1] if bands.shape.ndims else None
        if n is None:
            n = array_ops.shape(bands)[-1]
        elif n == 0:
            raise ValueError(f"num_mel_bins must be positive. Got: "
                             f"{log_mel_spectrograms}")
        return dct(bands) * math_ops.rsqrt(math_ops.cast(n, dtypes.float32) *
                                           2.0)
