"""Distribution: the base class of distributions."""

import contextlib

from sluice import _core
from sluice.contrib.distributions import kullback_leibler
from sluice.framework import dtypes, graph as graphs, tensor_shape
from sluice.framework.conversion import constant_value, convert_to_tensor
from sluice.ops import array_ops, math_ops


class ReparameterizationType:
    """Tells whether samples have gradients with respect to parameters."""

    def __init__(self, rep_type):
        self._rep_type = rep_type

    def __repr__(self):
        return f"<Reparameterization Type: {self._rep_type}>"

    def __eq__(self, other):
        return self is other

    __hash__ = object.__hash__


FULLY_REPARAMETERIZED = ReparameterizationType("FULLY_REPARAMETERIZED")
NOT_REPARAMETERIZED = ReparameterizationType("NOT_REPARAMETERIZED")


def _by_other(name, other, of_other):
    """Makes a public method that calls `_name`, or else `_other`.

    The result of `_other` is converted by `of_other`.
    """
    def function(self, value, name=name, **kwargs):
        return self._of_value(value, name, (f"_{own}", None),
                              (f"_{other}", of_other), kwargs)
    own = name
    return function


class Distribution:
    """A probability distribution, or a batch of them.

    Subclasses implement methods with an underscore: `_sample_n`, `_log_prob` or
    `_prob`, `_cdf` or `_log_cdf`, `_mean`, `_entropy`, `_batch_shape`,
    `_event_shape` and so on. Methods that follow from others are optional.

    Args:
      dtype: the dtype of samples.
      reparameterization_type: FULLY_REPARAMETERIZED if samples have gradients
        with respect to the parameters.
      validate_args: whether to check parameters and values in each step.
      allow_nan_stats: whether undefined statistics are NaN instead of errors.
      parameters: the constructor arguments by name.
      graph_parents: the tensors that the distribution depends on.
    """

    def __init__(self, dtype, reparameterization_type, validate_args,
                 allow_nan_stats, parameters=None, graph_parents=None,
                 name=None):
        for i, t in enumerate(graph_parents or ()):
            if not isinstance(t, _core.Tensor):
                raise ValueError(f"Graph parent item {i} is not a Tensor; {t}.")
        if not name or name[-1] != "/":
            with graphs.name_scope(name or type(self).__name__) as name:
                pass
        self._dtype, self._name = dtype, name
        self._reparameterization_type = reparameterization_type
        self._allow_nan_stats = allow_nan_stats
        self._validate_args = validate_args
        self._parameters = dict(parameters or {})
        self._graph_parents = list(graph_parents or ())

    name = property(lambda self: self._name, doc="The name scope.")
    dtype = property(lambda self: self._dtype, doc="The dtype of samples.")
    reparameterization_type = property(
        lambda self: self._reparameterization_type,
        doc="Whether samples have gradients with respect to parameters.")
    allow_nan_stats = property(
        lambda self: self._allow_nan_stats,
        doc="Whether undefined statistics are NaN instead of errors.")
    validate_args = property(
        lambda self: self._validate_args,
        doc="Whether parameters and values are checked in each step.")

    @property
    def parameters(self):
        """The constructor arguments by name."""
        return {k: v for k, v in self._parameters.items()
                if not k.startswith("__") and k != "self"}

    def copy(self, **override_parameters_kwargs):
        """Returns a copy with some arguments replaced."""
        return type(self)(**{**self.parameters, **override_parameters_kwargs})

    @classmethod
    def param_shapes(cls, sample_shape, name="DistributionParamShapes"):
        """Returns {parameter: shape} for samples of a shape."""
        with graphs.name_scope(name, values=[sample_shape]):
            return cls._param_shapes(sample_shape)

    @classmethod
    def param_static_shapes(cls, sample_shape):
        """Returns {parameter: TensorShape} for samples of a shape."""
        if isinstance(sample_shape, tensor_shape.TensorShape):
            if not sample_shape.is_fully_defined():
                raise ValueError("TensorShape sample_shape must be fully "
                                 "defined")
            sample_shape = sample_shape.as_list()
        found = {}
        for name, shape in cls.param_shapes(sample_shape).items():
            known = constant_value(shape)
            if known is None:
                raise ValueError("sample_shape must be a fully-defined "
                                 "TensorShape or list/tuple")
            found[name] = tensor_shape.TensorShape(known)
        return found

    # ---- Shapes.

    def _batch_shape(self):
        return tensor_shape.TensorShape(None)

    def _event_shape(self):
        return tensor_shape.TensorShape(None)

    @property
    def batch_shape(self):
        """The static shape of the batch of distributions."""
        return tensor_shape.as_shape(self._batch_shape())

    @property
    def event_shape(self):
        """The static shape of a sample of one distribution."""
        return tensor_shape.as_shape(self._event_shape())

    def _shape_tensor(self, known, compute, name):
        with self._name_scope(name):
            if known.is_fully_defined():
                return convert_to_tensor(known.as_list(), dtypes.int32)
            return compute()

    def batch_shape_tensor(self, name="batch_shape_tensor"):
        """Returns the shape of the batch of distributions as a tensor."""
        return self._shape_tensor(
            self.batch_shape, lambda: self._called("batch_shape_tensor"), name)

    def event_shape_tensor(self, name="event_shape_tensor"):
        """Returns the shape of a sample of one distribution as a tensor."""
        return self._shape_tensor(
            self.event_shape, lambda: self._called("event_shape_tensor"), name)

    def _is_scalar(self, known, compute, name):
        with self._name_scope(name):
            if known.ndims is not None:
                return convert_to_tensor(known.ndims == 0, name=name)
            return math_ops.equal(array_ops.shape(compute())[0], 0, name=name)

    def is_scalar_event(self, name="is_scalar_event"):
        """Returns whether a sample of one distribution is a scalar."""
        return self._is_scalar(self.event_shape, self.event_shape_tensor, name)

    def is_scalar_batch(self, name="is_scalar_batch"):
        """Returns whether there is a single distribution."""
        return self._is_scalar(self.batch_shape, self.batch_shape_tensor, name)

    # ---- Samples.

    def sample(self, sample_shape=(), seed=None, name="sample"):
        """Draws samples of shape `sample_shape` from each distribution."""
        return self._call_sample_n(sample_shape, seed, name)

    def _call_sample_n(self, sample_shape, seed, name, **kwargs):
        with self._name_scope(name, [sample_shape]):
            wanted = convert_to_tensor(sample_shape, dtypes.int32,
                                       name="sample_shape")
            wanted, n = self._expand_sample_shape_to_vector(wanted,
                                                            "sample_shape")
            samples = self._called("sample_n", n, seed, **kwargs)
            result = array_ops.reshape(samples, array_ops.concat(
                [wanted, array_ops.shape(samples)[1:]], 0))
            return self._set_sample_static_shape(result, wanted)

    def _expand_sample_shape_to_vector(self, x, name):
        """Returns (the shape as a vector, its product)."""
        n = math_ops.reduce_prod(x)
        rank = x.shape.ndims
        if rank == 0 or rank is None:
            vector = array_ops.reshape(x, [-1])
            if rank == 0:
                vector.set_shape([1])
            return vector, n
        if rank != 1:
            raise ValueError(f"Input {name} (\"{x}\") must be a scalar or "
                             f"vector.")
        return x, n

    def _set_sample_static_shape(self, x, sample_shape):
        """Sets the static shape of a sample."""
        known = tensor_shape.TensorShape(constant_value(sample_shape))
        ends = self.batch_shape, self.event_shape
        if known.ndims is not None and None not in (e.ndims for e in ends):
            x.set_shape(known.concatenate(ends[0]).concatenate(ends[1]))
        elif x.shape.ndims is not None:
            dims = x.shape.as_list()
            if known.ndims is not None:
                dims[:known.ndims] = known.as_list()
            event = ends[1].as_list() if ends[1].ndims else []
            if event:
                dims[-len(event):] = event
            x.set_shape(dims)
        return x

    # ---- Functions of values.

    def _called(self, name, *args, **kwargs):
        method = getattr(self, "_" + name, None)
        if method is None:
            raise NotImplementedError(f"{name} is not implemented: "
                                      f"{type(self).__name__}")
        return method(*args, **kwargs)

    def _of_value(self, value, name, own, other, kwargs):
        with self._name_scope(name, [value]):
            value = convert_to_tensor(value, name="value",
                                      preferred_dtype=self.dtype)
            failed = None
            for method, then in (own, other):
                try:
                    found = self._called(method.lstrip("_"), value, **kwargs)
                    return found if then is None else then(found)
                except NotImplementedError as e:
                    failed = failed or e
            raise failed

    log_prob = _by_other("log_prob", "prob", math_ops.log)
    log_prob.__doc__ = "Returns the logarithm of `prob`."
    prob = _by_other("prob", "log_prob", math_ops.exp)
    prob.__doc__ = "Returns the density or probability of values."
    log_cdf = _by_other("log_cdf", "cdf", math_ops.log)
    log_cdf.__doc__ = "Returns the logarithm of `cdf`."
    cdf = _by_other("cdf", "log_cdf", math_ops.exp)
    cdf.__doc__ = "Returns the cumulative distribution function of values."

    def log_survival_function(self, value, name="log_survival_function",
                              **kwargs):
        """Returns the logarithm of `survival_function`."""
        return self._survival("log_survival_function", value, name, kwargs,
                              lambda p: math_ops.log1p(-p))

    def survival_function(self, value, name="survival_function", **kwargs):
        """Returns the probability that a sample is greater than a value."""
        return self._survival("survival_function", value, name, kwargs,
                              lambda p: 1 - p)

    def _survival(self, own, value, name, kwargs, of_cdf):
        with self._name_scope(name, [value]):
            value = convert_to_tensor(value, name="value",
                                      preferred_dtype=self.dtype)
            try:
                return self._called(own, value, **kwargs)
            except NotImplementedError as e:
                try:
                    return of_cdf(self.cdf(value, **kwargs))
                except NotImplementedError:
                    raise e from None

    def quantile(self, value, name="quantile", **kwargs):
        """Returns the inverse of the cumulative distribution function."""
        with self._name_scope(name, [value]):
            return self._called("quantile", convert_to_tensor(
                value, name="value", preferred_dtype=self.dtype), **kwargs)

    # ---- Statistics.

    def entropy(self, name="entropy", **kwargs):
        """Returns the Shannon entropy in nats."""
        with self._name_scope(name):
            return self._called("entropy", **kwargs)

    def mean(self, name="mean", **kwargs):
        """Returns the mean."""
        with self._name_scope(name):
            return self._called("mean", **kwargs)

    def mode(self, name="mode", **kwargs):
        """Returns the mode."""
        with self._name_scope(name):
            return self._called("mode", **kwargs)

    def covariance(self, name="covariance", **kwargs):
        """Returns the covariance of the elements of a sample."""
        with self._name_scope(name):
            return self._called("covariance", **kwargs)

    def variance(self, name="variance", **kwargs):
        """Returns the variance."""
        return self._spread("variance", "stddev", math_ops.square, name, kwargs)

    def stddev(self, name="stddev", **kwargs):
        """Returns the standard deviation."""
        return self._spread("stddev", "variance", math_ops.sqrt, name, kwargs)

    def _spread(self, own, other, of_other, name, kwargs):
        with self._name_scope(name):
            try:
                return self._called(own, **kwargs)
            except NotImplementedError as e:
                try:
                    return of_other(self._called(other, **kwargs))
                except NotImplementedError:
                    raise e from None

    def cross_entropy(self, other, name="cross_entropy"):
        """Returns the cross-entropy with another distribution in nats."""
        with self._name_scope(name):
            return kullback_leibler.cross_entropy(self, other,
                                                  self._allow_nan_stats)

    def kl_divergence(self, other, name="kl_divergence"):
        """Returns the Kullback-Leibler divergence from `other` in nats."""
        with self._name_scope(name):
            return kullback_leibler.kl_divergence(self, other,
                                                  self._allow_nan_stats)

    @contextlib.contextmanager
    def _name_scope(self, name=None, values=None):
        with graphs.name_scope(self.name), graphs.name_scope(
                name, values=[*(values or ()), *self._graph_parents]) as scope:
            yield scope

    def __str__(self):
        known = "".join(
            f", {what}={dims}" for what, dims in (
                ("batch_shape", self.batch_shape),
                ("event_shape", self.event_shape)) if dims.ndims is not None)
        return (f'tfp.distributions.{type(self).__name__}("{self.name}"{known}'
                f", dtype={self.dtype.name})")

    def __repr__(self):
        return (f"<tfp.distributions.{type(self).__name__} '{self.name}' "
                f"batch_shape={self.batch_shape} event_shape="
                f"{self.event_shape} dtype={self.dtype.name}>")
