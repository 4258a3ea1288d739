"""Layer, the base class of layers."""

import copy
import inspect
import numbers
import re

from sluice import _core
from sluice.framework import dtypes, graph as graphs, nest, tensor_shape
from sluice.framework.conversion import SparseTensor, convert_to_tensor
from sluice.framework.graph import GraphKeys
from sluice.ops import array_ops, math_ops, variable_scope as scopes
from sluice.ops.partitioned import parts_of
from sluice.ops.variable_copies import VariableSynchronization
from sluice.ops.variables import trainable_variables


class InputSpec:
    """The required dtype, shape or rank of an input of a layer."""

    def __init__(self, dtype=None, shape=None, ndim=None, max_ndim=None,
                 min_ndim=None, axes=None):
        self.dtype = None if dtype is None else dtypes.as_dtype(dtype)
        self.shape = shape
        self.ndim = len(shape) if shape is not None else ndim
        self.max_ndim, self.min_ndim = max_ndim, min_ndim
        self.axes = {int(k): v for k, v in (axes or {}).items()}

    def __repr__(self):
        fields = ", ".join(f"{k}={v}" for k, v in self.__dict__.items() if v)
        return f"InputSpec({fields})"

    def _check(self, x, what):
        """Raises ValueError if a tensor does not match."""
        n = x.shape.ndims
        if n is None and (self.ndim, self.max_ndim, self.min_ndim) != (
                None, None, None):
            raise ValueError(f"{what} requires a defined rank, but the rank "
                             f"of the input is unknown.")
        if n is None:
            return
        for wrong, rule in (
                (self.ndim is not None and n != self.ndim,
                 f"expected ndim={self.ndim}"),
                (self.max_ndim is not None and n > self.max_ndim,
                 f"expected max_ndim={self.max_ndim}"),
                (self.min_ndim is not None and n < self.min_ndim,
                 f"expected min_ndim={self.min_ndim}")):
            if wrong:
                raise ValueError(f"{what}: {rule}, found ndim={n}. Full shape "
                                 f"received: {x.shape.as_list()}")
        if self.dtype is not None and x.dtype.base_dtype != self.dtype:
            raise ValueError(f"{what}: expected dtype={self.dtype.name}, found "
                             f"dtype={x.dtype.name}")
        dims = x.shape.as_list()
        for axis, size in self.axes.items():
            if size is not None and dims[axis] not in (size, None):
                raise ValueError(
                    f"{what}: expected axis {axis} of input shape to have "
                    f"value {size} but received input with shape {dims}")
        for axis, size in enumerate(self.shape or ()):
            if size is not None and dims[axis] not in (size, None):
                raise ValueError(f"{what}: expected shape={self.shape}, found "
                                 f"shape={dims}")


def _snake(name):
    """Converts a class name: "Conv2D" becomes "conv2d"."""
    name = re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", name)
    name = re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()
    return "private" + name if name.startswith("_") else name


def _numbered(base):
    """Returns a unique default name: `base`_1, `base`_2, ..."""
    counts = graphs.get_default_graph().__dict__.setdefault("_layer_counts", {})
    counts[base] = counts.get(base, 0) + 1
    return f"{base}_{counts[base]}"


def _add_once(key, values):
    collection = graphs.get_collection_ref(key)
    for value in values:
        if not any(value is v for v in collection):
            collection.append(value)


def _depends(value, sources):
    """Returns whether a tensor or an operation is computed from a source."""
    sources = set(sources)
    seen, waiting = set(), [value]
    while waiting:
        x = waiting.pop()
        if x in sources:
            return True
        op = getattr(x, "op", x)
        if op not in seen:
            seen.add(op)
            waiting += [*op.inputs, *op.control_inputs]
    return False


class Layer:
    """A function with variables, which are created in its first call.

    A subclass creates variables in `build(input_shape)` with `add_weight`, and
    computes its output in `call(inputs)`. Variables and operations are in a
    variable scope with the name of the layer.

    Args:
      trainable: whether optimizers update its variables by default.
      name: the name of the layer; defaults to that of the class, made unique.
      dtype: the dtype of its variables; defaults to that of the first input.
      activity_regularizer: a function from the output to a loss.
    """

    def __init__(self, trainable=True, name=None, dtype=None,
                 activity_regularizer=None, **kwargs):
        scope, self._reuse = kwargs.pop("_scope", None), kwargs.pop("_reuse",
                                                                    None)
        if kwargs:
            raise TypeError(f"Keyword argument not understood: "
                            f"{', '.join(sorted(kwargs))}")
        self.trainable = trainable
        self.built = False
        self.input_spec = None
        self._activity_regularizer = activity_regularizer
        self._dtype = None if dtype is None else dtypes.as_dtype(
            dtype).base_dtype
        self._trainable_weights, self._non_trainable_weights = [], []
        self._losses, self._updates = [], []
        self._call_inputs = []
        if isinstance(name, scopes.VariableScope):
            name = name.name
        self._base_name = name or _snake(type(self).__name__)
        self._name = name or _numbered(self._base_name)
        self._scope = self._current_scope = None
        if scope:
            with scopes.variable_scope(scope) as captured:
                self._scope = captured

    name = property(lambda self: self._name, doc="The name of the layer.")
    dtype = property(lambda self: None if self._dtype is None else
                     self._dtype.name, doc="The dtype of its variables.")
    activity_regularizer = property(lambda self: self._activity_regularizer)

    @property
    def scope_name(self):
        """The name of its variable scope, which the first call determines."""
        if self._scope is None:
            raise ValueError(f'No name available for layer scope because the '
                             f'layer "{self._name}" has not been used yet.')
        return self._scope.name

    # ---- Contents.

    @property
    def trainable_weights(self):
        """The variables that optimizers update."""
        return list(self._trainable_weights) if self.trainable else []

    @property
    def non_trainable_weights(self):
        """The other variables."""
        return ([] if self.trainable else list(self._trainable_weights)) + list(
            self._non_trainable_weights)

    weights = property(lambda self: self.trainable_weights +
                       self.non_trainable_weights, doc="All variables.")
    variables = property(lambda self: self.weights, doc="All variables.")
    trainable_variables = property(lambda self: self.trainable_weights)
    non_trainable_variables = property(lambda self: self.non_trainable_weights)
    losses = property(lambda self: list(self._losses),
                      doc="The losses that the layer added.")
    updates = property(lambda self: list(self._updates),
                       doc="The operations to be run in each step.")

    def count_params(self):
        """Returns the number of elements of its variables."""
        if not self.built:
            raise ValueError(f"You tried to call `count_params` on "
                             f"{self._name}, but the layer isn't built.")
        return sum(v.shape.num_elements() for v in self.weights)

    def get_config(self):
        """Returns the arguments that all layers have."""
        return {"name": self._name, "trainable": self.trainable,
                "dtype": self.dtype}

    # ---- For subclasses.

    def build(self, input_shape):
        """Creates the variables for inputs of a shape."""
        self.built = True

    def call(self, inputs, **kwargs):
        """Computes the output of the layer."""
        return inputs

    def compute_output_shape(self, input_shape):
        """Returns the shape of the output for inputs of a shape."""
        def placeholders(shapes):
            if _is_shape(shapes):
                return array_ops.placeholder(self._dtype or dtypes.float32,
                                             shapes)
            return nest._like(shapes, [placeholders(s)
                                       for s in nest._children(shapes)])

        with graphs.Graph().as_default():
            made = self._unbuilt({}, False)(placeholders(input_shape))
        return nest.map_structure(lambda t: t.shape, made)

    def __deepcopy__(self, memo):
        """Copies the layer, and layers in it, to the state before any call.

        Other members (functions, tensors) are shared.
        """
        return self._unbuilt(memo, True)

    def _unbuilt(self, memo, in_scope):
        """Returns an unbuilt copy.

        Unless `in_scope`, it creates its own variables in the scope of its
        first call.
        """
        if id(self) in memo:
            return memo[id(self)]
        made = memo[id(self)] = copy.copy(self)

        def fresh(x):
            if isinstance(x, Layer):
                return x._unbuilt(memo, in_scope)
            if type(x) in (list, tuple):
                return type(x)(fresh(y) for y in x)
            return {k: fresh(y) for k, y in x.items()} if (
                type(x) is dict) else x

        for name, value in vars(self).items():
            setattr(made, name, fresh(value))
        made.built = False
        if self.built or not in_scope:
            made._scope = None
        if not in_scope:
            made._reuse = None
        made._current_scope = None
        made._trainable_weights, made._non_trainable_weights = [], []
        made._losses, made._updates = [], []
        made._call_inputs = []
        return made

    def add_weight(self, name, shape, dtype=None, initializer=None,
                   regularizer=None, trainable=None, constraint=None,
                   use_resource=None, synchronization=None, aggregation=None,
                   partitioner=None):
        """Creates a variable in the layer's scope, or reuses it."""
        self._set_scope()
        if synchronization == VariableSynchronization.ON_READ:
            if trainable:
                raise ValueError(
                    "Synchronization value can be set to "
                    "VariableSynchronization.ON_READ only for non-trainable "
                    "variables. You have specified trainable=True and "
                    "synchronization=VariableSynchronization.ON_READ.")
            trainable = False
        trainable = (trainable is None or bool(trainable)) and self.trainable
        before = graphs.get_collection(GraphKeys.GLOBAL_VARIABLES)
        with self._entered(self.built or self._reuse):
            variable = scopes.get_variable(
                name, shape, dtype or self._dtype or dtypes.float32,
                initializer=initializer, trainable=trainable,
                constraint=constraint, use_resource=use_resource,
                partitioner=partitioner)
            # A shared variable already has its loss.
            if regularizer is not None and not any(
                    p is v for p in parts_of(variable) for v in before):
                with graphs.name_scope(name + "/Regularizer"):
                    for part in parts_of(variable):
                        loss = regularizer(part)
                        if loss is not None:
                            self.add_loss(loss)
        known = self._trainable_weights + self._non_trainable_weights
        among = trainable_variables()
        for part in parts_of(variable):
            if not any(part is v for v in known):
                (self._trainable_weights
                 if trainable and any(part is v for v in among)
                 else self._non_trainable_weights).append(part)
        return variable

    add_variable = add_weight

    def add_loss(self, losses, inputs=None):
        """Adds to the layer's losses and to REGULARIZATION_LOSSES."""
        added = [x() if callable(x) else x for x in nest.flatten(losses)]
        added = [convert_to_tensor(x) for x in added if x is not None]
        self._losses += added
        _add_once(GraphKeys.REGULARIZATION_LOSSES, added)

    def add_update(self, updates, inputs=None):
        """Adds operations (UPDATE_OPS) to be run in each step."""
        self._updates += [getattr(u, "op", u) for u in nest.flatten(updates)
                          if u is not None]

    def get_losses_for(self, inputs):
        """Returns the losses that depend on some of `inputs`.

        If `inputs` is None, these are the ones that depend on no inputs.
        """
        return self._for(self._losses, inputs)

    def get_updates_for(self, inputs):
        """Returns the updates that depend on some of `inputs`.

        If `inputs` is None, these are the ones that depend on no inputs.
        """
        return self._for(self._updates, inputs)

    def _for(self, added, inputs):
        of_calls = [x for x in added if _depends(x, self._call_inputs)]
        if inputs is None:
            return [x for x in added if not any(x is y for y in of_calls)]
        return [x for x in of_calls if _depends(x, nest.flatten(inputs))]

    # ---- Calls.

    def _set_scope(self, scope=None):
        if self._scope is not None:
            return
        if self._reuse:
            opened = scopes.variable_scope(scope or self._base_name)
        else:
            opened = scopes.variable_scope(scope, self._base_name)
        with opened as captured:
            self._scope = captured

    def _entered(self, reuse):
        return _Entered(self, reuse)

    def _check_inputs(self, tensors):
        specs = self.input_spec
        if specs is None:
            return
        specs = specs if isinstance(specs, (list, tuple)) else [specs]
        if len(tensors) != len(specs):
            raise ValueError(f"Layer {self._name} expects {len(specs)} inputs, "
                             f"but it received {len(tensors)} input tensors. "
                             f"Inputs received: {tensors}")
        for i, (x, spec) in enumerate(zip(tensors, specs)):
            if spec is not None:
                spec._check(x, f"Input {i} of layer {self._name} is "
                            f"incompatible with the layer")

    def __call__(self, inputs, *args, **kwargs):
        self._set_scope(kwargs.pop("scope", None))
        with self._entered(True if self.built else self._reuse) as scope:
            inputs = nest.map_structure(_input_of, inputs)
            tensors = nest.flatten(inputs)
            self._check_inputs(tensors)
            self._call_inputs += tensors
            if not self.built:
                if self._dtype is None and tensors:
                    self._dtype = tensors[0].dtype.base_dtype
                self.build(nest.map_structure(lambda x: x.shape, inputs))
                self.built = True
            if "scope" in inspect.signature(self.call).parameters:
                kwargs["scope"] = scope
            outputs = self.call(inputs, *args, **kwargs)
            if outputs is None:
                raise ValueError(f"A layer's `call` method should return a "
                                 f"Tensor or a list of Tensors, not None "
                                 f"(layer: {self._name}).")
            if self._activity_regularizer is not None:
                self._regularize(nest.flatten(outputs))
        _add_once(GraphKeys.UPDATE_OPS, self._updates)
        return outputs

    def apply(self, inputs, *args, **kwargs):
        """Calls the layer."""
        return self(inputs, *args, **kwargs)

    def _regularize(self, outputs):
        with graphs.name_scope("ActivityRegularizer"):
            for x in outputs:
                loss = self._activity_regularizer(x)
                self.add_loss(loss / math_ops.cast(array_ops.shape(x)[0],
                                                   loss.dtype))


def _is_shape(value):
    return not nest.is_nested(value) or isinstance(value, (list, tuple)) and (
        all(d is None or isinstance(d, (numbers.Integral,
                                        tensor_shape.Dimension))
            for d in value))


def _input_of(value):
    return value if isinstance(value, (_core.Tensor, SparseTensor)) else (
        convert_to_tensor(value))


class _Entered:
    """A context manager for a layer's variable scope and its name scope."""

    def __init__(self, layer, reuse):
        self._layer = layer
        self._variables = scopes.variable_scope(
            layer._scope, reuse=reuse, auxiliary_name_scope=False)

    def __enter__(self):
        self._outer = self._layer._current_scope
        scope = self._layer._current_scope = self._variables.__enter__()
        self._names = graphs.name_scope(scope.original_name_scope)
        self._names.__enter__()
        return scope

    def __exit__(self, *exc):
        self._names.__exit__(*exc)
        self._variables.__exit__(*exc)
        self._layer._current_scope = self._outer


def last_dimension(shape, axis, what):
    """Returns the size of a dimension; ValueError if it is unknown."""
    size = tensor_shape.as_shape(shape).as_list()[axis]
    if size is None:
        raise ValueError(f"The {what} of the inputs should be defined. Found "
                         f"`None`.")
    return size


def as_function(cls, reuse=True, training=None):
    """Makes a function that creates and calls a layer of a class.

    Its arguments are `inputs` and those of the class. The name is that of the
    variable scope, and `reuse` says whether the variables must exist.
    `training` lists (position, name, default) of arguments of the call.
    """
    to_call = list(training or ())
    own = [p for p in inspect.signature(cls.__init__).parameters.values()
           if p.name != "self" and p.kind is not p.VAR_KEYWORD]
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter("inputs", kind)] + own + (
        [inspect.Parameter("reuse", kind, default=None)] if reuse else [])
    for at, name, default in to_call:
        parameters.insert(at, inspect.Parameter(name, kind, default=default))
    signature = inspect.Signature(parameters)
    called = [name for _, name, _ in to_call]

    def function(*args, **kwargs):
        for name in kwargs:  # bind() would report missing arguments first.
            if name not in signature.parameters:
                near = ", ".join(_core.nearest_names(
                    name, list(signature.parameters)))
                raise TypeError(
                    f"{function.__name__}() got an unexpected keyword argument "
                    f"'{name}'{f' (nearest: {near})' if near else ''}")
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError as e:
            raise TypeError(f"{function.__name__}() {e}") from None
        inputs = given.pop("inputs")
        shared = given.pop("reuse", None)
        at_call = {k: given.pop(k) for k in called if k in given}
        layer = cls(**given, _scope=given.get("name"), _reuse=shared)
        return layer(inputs, **at_call)

    function.__signature__ = signature
    function.__name__ = function.__qualname__ = _snake(cls.__name__)
    function.__doc__ = cls.__doc__
    return function
