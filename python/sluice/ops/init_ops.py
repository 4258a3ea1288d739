"""Initializers of variables."""

import inspect
import itertools
import math

from sluice import _core
from sluice.framework import dtypes
from sluice.framework.conversion import constant
from sluice.ops import array_ops, math_ops, random_ops


class Initializer:
    """Makes the initial value of a variable: `initializer(shape, dtype)`."""

    def __call__(self, shape, dtype=None, partition_info=None):
        raise NotImplementedError

    def get_config(self):
        """Returns the constructor arguments as a dict."""
        config = {name: getattr(self, name)
                  for name in inspect.signature(type(self)).parameters
                  if hasattr(self, name)}
        if "dtype" in config:
            config["dtype"] = dtypes.as_dtype(config["dtype"]).name
        return config

    @classmethod
    def from_config(cls, config):
        """Makes an initializer from the result of `get_config`."""
        return cls(**config)


def parameters_of(function):
    """Returns the parameters of a function; {} if they are unknown."""
    try:
        return inspect.signature(function).parameters
    except ValueError:
        return {}


def first_value(initializer, shape, dtype, partition_info=None):
    """Calls an initializer.

    It gets `partition_info` only if it has a parameter of this name.
    """
    if "partition_info" in parameters_of(initializer):
        return initializer(shape, dtype=dtype, partition_info=partition_info)
    return initializer(shape, dtype=dtype)


def _floating(dtype):
    dtype = dtypes.as_dtype(dtype)
    if not dtype.is_floating:
        raise ValueError(f"Expected floating point type, got {dtype}.")
    return dtype


class Zeros(Initializer):
    """Initializes with zeros."""

    def __init__(self, dtype=dtypes.float32):
        self.dtype = dtypes.as_dtype(dtype)

    def __call__(self, shape, dtype=None, partition_info=None):
        return array_ops.zeros(shape, dtype or self.dtype)


class Ones(Initializer):
    """Initializes with ones."""

    def __init__(self, dtype=dtypes.float32):
        self.dtype = dtypes.as_dtype(dtype)

    def __call__(self, shape, dtype=None, partition_info=None):
        return array_ops.ones(shape, dtype or self.dtype)


class Constant(Initializer):
    """Initializes with one or several constants."""

    def __init__(self, value=0, dtype=dtypes.float32, verify_shape=False):
        import numpy as np
        if not (np.isscalar(value) or isinstance(
                value, (list, tuple, np.ndarray))):
            raise TypeError(f"Invalid type for initial value: {type(value)} "
                            f"(expected Python scalar, list or tuple of "
                            f"values, or numpy.ndarray).")
        self.value = value
        self.dtype = dtypes.as_dtype(dtype)
        self.verify_shape = verify_shape

    def __call__(self, shape, dtype=None, partition_info=None,
                 verify_shape=None):
        return constant(self.value, dtype or self.dtype, shape,
                        verify_shape=self.verify_shape
                        if verify_shape is None else verify_shape)


class RandomUniform(Initializer):
    """Initializes with uniform random numbers from [minval, maxval)."""

    def __init__(self, minval=0, maxval=None, seed=None, dtype=dtypes.float32):
        self.minval, self.maxval, self.seed = minval, maxval, seed
        self.dtype = dtypes.as_dtype(dtype)

    def __call__(self, shape, dtype=None, partition_info=None):
        return random_ops.random_uniform(shape, self.minval, self.maxval,
                                         dtype or self.dtype, self.seed)


class RandomNormal(Initializer):
    """Initializes with normally distributed numbers."""

    _draw = staticmethod(random_ops.random_normal)

    def __init__(self, mean=0.0, stddev=1.0, seed=None, dtype=dtypes.float32):
        self.mean, self.stddev, self.seed = mean, stddev, seed
        self.dtype = _floating(dtype)

    def __call__(self, shape, dtype=None, partition_info=None):
        return self._draw(shape, self.mean, self.stddev, dtype or self.dtype,
                          self.seed)


class TruncatedNormal(RandomNormal):
    """Initializes with normal numbers within two standard deviations."""

    _draw = staticmethod(random_ops.truncated_normal)


def _fans(shape):
    if not shape:
        return 1, 1
    if len(shape) == 1:
        return shape[0], shape[0]
    if len(shape) == 2:
        return shape
    field = 1
    for d in shape[:-2]:
        field *= d
    return shape[-2] * field, shape[-1] * field


class VarianceScaling(Initializer):
    """Initializes with random numbers of variance scale / n.

    n is the number of inputs (`fan_in`) or outputs (`fan_out`), or their mean
    (`fan_avg`).
    """

    def __init__(self, scale=1.0, mode="fan_in",
                 distribution="truncated_normal", seed=None,
                 dtype=dtypes.float32):
        if scale <= 0:
            raise ValueError(f"Argument `scale` must be positive, got {scale}")
        if mode not in ("fan_in", "fan_out", "fan_avg"):
            raise ValueError(f"Argument `mode` should be one of ['fan_in', "
                             f"'fan_out', 'fan_avg'], got {mode}")
        if distribution not in ("normal", "uniform", "truncated_normal",
                                "untruncated_normal"):
            raise ValueError(f"Invalid `distribution`: {distribution}")
        self.scale, self.mode, self.distribution = scale, mode, distribution
        self.seed, self.dtype = seed, _floating(dtype)

    def __call__(self, shape, dtype=None, partition_info=None):
        dtype = dtype or self.dtype
        dims = [int(d) for d in (partition_info.full_shape
                                 if partition_info else shape)]
        fan_in, fan_out = _fans(dims)
        n = {"fan_in": fan_in, "fan_out": fan_out,
             "fan_avg": (fan_in + fan_out) / 2.0}[self.mode]
        variance = self.scale / max(1.0, n)
        if self.distribution == "uniform":
            limit = math.sqrt(3.0 * variance)
            return random_ops.random_uniform(shape, -limit, limit, dtype,
                                             self.seed)
        if self.distribution == "untruncated_normal":
            return random_ops.random_normal(shape, 0.0, math.sqrt(variance),
                                            dtype, self.seed)
        # 0.8796... is the standard deviation after truncation at two of them.
        stddev = math.sqrt(variance) / 0.87962566103423978
        return random_ops.truncated_normal(shape, 0.0, stddev, dtype,
                                           self.seed)


class GlorotUniform(VarianceScaling):
    """Uniform initializer of variance 2 / (inputs + outputs); the default."""

    def __init__(self, seed=None, dtype=dtypes.float32):
        super().__init__(1.0, "fan_avg", "uniform", seed, dtype)


class GlorotNormal(VarianceScaling):
    """Normal initializer of variance 2 / (inputs + outputs)."""

    def __init__(self, seed=None, dtype=dtypes.float32):
        super().__init__(1.0, "fan_avg", "truncated_normal", seed, dtype)


class Identity(Initializer):
    """Initializes with the identity matrix times `gain`."""

    def __init__(self, gain=1.0, dtype=dtypes.float32):
        self.gain, self.dtype = gain, _floating(dtype)

    def __call__(self, shape, dtype=None, partition_info=None):
        import numpy as np
        if len(shape) != 2:
            raise ValueError("Identity matrix initializer can only be used for "
                             "2D matrices")
        return constant(self.gain * np.eye(*[int(d) for d in shape]),
                        dtype or self.dtype)


class Orthogonal(Initializer):
    """Initializes with `gain` times an orthogonal matrix (Saxe et al., 2013).

    For higher ranks, all dimensions but the last are flattened.
    """

    def __init__(self, gain=1.0, seed=None, dtype=dtypes.float32):
        self.gain, self.seed = gain, seed
        self.dtype = _floating(dtype)

    def __call__(self, shape, dtype=None, partition_info=None):
        dims = [int(d) for d in shape]
        if len(dims) < 2:
            raise ValueError("The tensor to initialize must be at least "
                             "two-dimensional")
        rows, columns = math.prod(dims[:-1]), dims[-1]
        drawn = random_ops.random_normal(
            [max(rows, columns), min(rows, columns)], dtype=dtype or self.dtype,
            seed=self.seed)
        q, r = _core.op("Qr")(drawn, full_matrices=False)
        # Makes the distribution over orthogonal matrices uniform.
        q = q * _core.op("Sign")(array_ops.diag_part(r))
        if rows < columns:
            q = array_ops.matrix_transpose(q)
        return self.gain * array_ops.reshape(q, dims)


def _orthogonal(n, dtype, seed):
    """Returns a uniformly distributed random orthogonal matrix."""
    q, r = _core.op("Qr")(random_ops.random_normal([n, n], dtype=dtype,
                                                   seed=seed))
    return q * _core.op("Sign")(array_ops.diag_part(r))


class ConvolutionDeltaOrthogonal(Initializer):
    """Initializes a convolution kernel with an orthogonal matrix at its centre.

    The matrix is scaled by `gain`, and the rest is zero (Xiao et al., 2018).
    """

    def __init__(self, gain=1.0, seed=None, dtype=dtypes.float32):
        self.gain, self.seed = gain, seed
        self.dtype = _floating(dtype)

    def __call__(self, shape, dtype=None, partition_info=None):
        dims = [int(d) for d in shape]
        if not 3 <= len(dims) <= 5:
            raise ValueError("The tensor to initialize must be at least "
                             "three-dimensional and at most five-dimensional")
        if dims[-2] > dims[-1]:
            raise ValueError("In_filters cannot be greater than out_filters.")
        q = _orthogonal(dims[-1], dtype or self.dtype, self.seed)
        return array_ops.scatter_nd(
            [[(d - 1) // 2 for d in dims[:-2]]],
            array_ops.expand_dims(self.gain * q[:dims[-2]], 0), dims)


class _ConvolutionOrthogonal(Initializer):
    """Initializes a norm-preserving convolution kernel times `gain`.

    It is a product of kernels of size 2, made of projections (Xiao et al.,
    2018).
    """

    _dimensions = 0

    def __init__(self, gain=1.0, seed=None, dtype=dtypes.float32):
        self.gain, self.seed = gain, seed
        self.dtype = _floating(dtype)

    def _seeds(self):
        return itertools.repeat(None) if self.seed is None else (
            itertools.count(self.seed))

    def _projection(self, n, dtype, seeds):
        """Returns a random symmetric projection."""
        q = _orthogonal(n, dtype, next(seeds))
        kept = random_ops.random_normal([n], dtype=dtype, seed=next(seeds)) > 0
        columns = q * math_ops.cast(kept, dtype)
        return math_ops.matmul(columns, columns, transpose_b=True)

    def _block(self, n, dtype, seeds):
        """Returns a kernel of size 2 in each dimension: {position: matrix}."""
        one = _core.op("Diag")(array_ops.ones([n], dtype))
        block = {(): one}
        for _ in range(self._dimensions):
            p = self._projection(n, dtype, seeds)
            block = {place + (i,): math_ops.matmul(matrix, side)
                     for place, matrix in block.items()
                     for i, side in enumerate((p, one - p))}
        return block

    def __call__(self, shape, dtype=None, partition_info=None):
        dims, dtype = [int(d) for d in shape], dtype or self.dtype
        if len(dims) != self._dimensions + 2:
            raise ValueError(f"The tensor to initialize must be "
                             f"{self._dimensions + 2}-dimensional")
        if dims[-2] > dims[-1]:
            raise ValueError("In_filters cannot be greater than out_filters.")
        if len(set(dims[:-2])) > 1:
            raise ValueError("Kernel sizes must be equal.")
        seeds, n = self._seeds(), dims[-1]
        first = _orthogonal(n, dtype, next(seeds))[:dims[-2]]
        kernel = {(0,) * self._dimensions: first}
        for _ in range(dims[0] - 1):
            block, product = self._block(n, dtype, seeds), {}
            for (a, x), (b, y) in itertools.product(kernel.items(),
                                                    block.items()):
                place = tuple(i + j for i, j in zip(a, b))
                product.setdefault(place, []).append(math_ops.matmul(x, y))
            kernel = {p: math_ops.add_n(parts) for p, parts in product.items()}
        return self.gain * array_ops.reshape(
            array_ops.stack([kernel[p] for p in sorted(kernel)]), dims)


class ConvolutionOrthogonal1D(_ConvolutionOrthogonal):
    __doc__ = _ConvolutionOrthogonal.__doc__
    _dimensions = 1


class ConvolutionOrthogonal2D(_ConvolutionOrthogonal):
    __doc__ = _ConvolutionOrthogonal.__doc__
    _dimensions = 2


class ConvolutionOrthogonal3D(_ConvolutionOrthogonal):
    __doc__ = _ConvolutionOrthogonal.__doc__
    _dimensions = 3


# The names that TensorFlow uses in `init_ops`.
convolutional_delta_orthogonal = ConvolutionDeltaOrthogonal
convolutional_orthogonal_1d = ConvolutionOrthogonal1D
convolutional_orthogonal_2d = ConvolutionOrthogonal2D
convolutional_orthogonal_3d = ConvolutionOrthogonal3D


class UniformUnitScaling(Initializer):
    """Uniform initializer that preserves the scale of a layer's inputs.

    The bound is factor * sqrt(3 / inputs).
    """

    def __init__(self, factor=1.0, seed=None, dtype=dtypes.float32):
        self.factor, self.seed = factor, seed
        self.dtype = _floating(dtype)

    def __call__(self, shape, dtype=None, partition_info=None):
        dims = partition_info.full_shape if partition_info else shape
        inputs = max(math.prod(int(d) for d in dims[:-1]), 1)
        limit = math.sqrt(3 / inputs) * self.factor
        return random_ops.random_uniform(shape, -limit, limit,
                                         dtype or self.dtype, self.seed)


def _scaling(scale, distribution, doc):
    def initializer(seed=None):
        return VarianceScaling(scale, "fan_in", distribution, seed)
    initializer.__doc__ = doc
    return initializer


he_normal = _scaling(2.0, "truncated_normal", "Normal (He et al., 2015).")
he_uniform = _scaling(2.0, "uniform", "Uniform (He et al., 2015).")
lecun_normal = _scaling(1.0, "truncated_normal", "Normal (LeCun et al., 1998).")
lecun_uniform = _scaling(1.0, "uniform", "Uniform (LeCun et al., 1998).")
