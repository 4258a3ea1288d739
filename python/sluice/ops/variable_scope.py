"""Sharing of variables by name: `get_variable` and `variable_scope`."""

import functools
import inspect
import threading

from sluice import _core
from sluice.framework import dtypes, graph as graphs, tensor_shape
from sluice.framework.conversion import convert_to_tensor
from sluice.framework.graph import GraphKeys
from sluice.ops import init_ops, partitioned, variables
from sluice.ops.variable_copies import across_copies
from sluice.ops.variables import Variable


class _AutoReuse:
    def __repr__(self):
        return "tf.AUTO_REUSE"


AUTO_REUSE = _AutoReuse()
class VariableScope:
    """The defaults of `get_variable` in a `variable_scope`."""

    def __init__(self, reuse=None, name="", initializer=None, regularizer=None,
                 caching_device=None, partitioner=None, custom_getter=None,
                 name_scope="", dtype=dtypes.float32, use_resource=None,
                 constraint=None):
        self._name, self._reuse = name, reuse
        self._initializer, self._regularizer = initializer, regularizer
        self._caching_device, self._partitioner = caching_device, partitioner
        self._custom_getter, self._name_scope = custom_getter, name_scope
        self._dtype, self._use_resource = dtype, use_resource
        self._constraint = constraint

    name = property(lambda self: self._name, doc="The prefix of names.")
    original_name_scope = property(
        lambda self: self._name_scope,
        doc="The name scope that was entered with it, with a final slash.")
    reuse = property(lambda self: self._reuse,
                     doc="Whether variables must, may or may not exist.")
    initializer = property(lambda self: self._initializer,
                           doc="The default initializer.")
    regularizer = property(lambda self: self._regularizer,
                           doc="The default regularizer.")
    caching_device = property(lambda self: self._caching_device)
    partitioner = property(lambda self: self._partitioner)
    custom_getter = property(lambda self: self._custom_getter)
    constraint = property(lambda self: self._constraint)
    dtype = property(lambda self: self._dtype, doc="The default dtype.")
    use_resource = property(lambda self: self._use_resource)

    def reuse_variables(self):
        """Requires that variables exist from now on."""
        self._reuse = True

    def set_initializer(self, initializer):
        """Sets the default initializer."""
        self._initializer = initializer

    def set_regularizer(self, regularizer):
        """Sets the default regularizer."""
        self._regularizer = regularizer

    def set_dtype(self, dtype):
        """Sets the default dtype."""
        self._dtype = dtype

    def set_use_resource(self, use_resource):
        """Sets whether variables are resource variables."""
        self._use_resource = use_resource

    def set_custom_getter(self, custom_getter):
        """Sets the function that `get_variable` calls instead."""
        self._custom_getter = custom_getter

    def set_caching_device(self, caching_device):
        """Sets the device on which values are cached."""
        self._caching_device = caching_device

    def set_partitioner(self, partitioner):
        """Sets the default partitioner."""
        self._partitioner = partitioner

    def get_collection(self, name):
        """Returns the items of a collection that belong to this scope."""
        return graphs.get_collection(
            name, self._name + "/" if self._name else None)

    def trainable_variables(self):
        """Returns the scope's trainable variables."""
        return self.get_collection(GraphKeys.TRAINABLE_VARIABLES)

    def global_variables(self):
        """Returns the scope's global variables."""
        return self.get_collection(GraphKeys.GLOBAL_VARIABLES)

    def local_variables(self):
        """Returns the scope's local variables."""
        return self.get_collection(GraphKeys.LOCAL_VARIABLES)


class _Scopes(threading.local):
    """The current variable scope of a graph in each thread."""

    def __init__(self):
        self.scope = VariableScope(False)
        self.counts = {}

    def open(self, name):
        self.counts[name] = self.counts.get(name, 0) + 1

    def close_below(self, name):
        """Resets the counts of default names within a scope."""
        for key in self.counts:
            if key.startswith(name + "/"):
                self.counts[key] = 0


class _Store:
    """The variables of a graph by name, and its scopes."""

    def __init__(self):
        self._vars = {}
        self._partitioned_vars = {}
        self.scopes = _Scopes()

    def get_variable(self, name, shape=None, dtype=dtypes.float32,
                     initializer=None, regularizer=None, reuse=None,
                     trainable=None, collections=None, caching_device=None,
                     partitioner=None, validate_shape=True, use_resource=None,
                     constraint=None, synchronization=None, aggregation=None):
        """Makes or finds a variable by its full name, ignoring scopes."""
        dtype = dtypes.as_dtype(dtype).base_dtype

        def find(name, shape, initializer):
            return _make_or_find(name, shape, dtype, initializer, regularizer,
                                 reuse, trainable, collections, validate_shape,
                                 use_resource, constraint, caching_device,
                                 synchronization, aggregation)

        return _whole_or_in_parts(find, name, shape, dtype, initializer, reuse,
                                  partitioner)


def _store():
    graph = graphs.get_default_graph()
    store = graph.__dict__.get("_variable_store")
    if store is None:  # Another thread may make one concurrently.
        store = graph.__dict__.setdefault("_variable_store", _Store())
    return store


_get_default_variable_store = _store
def get_variable_scope():
    """Returns the current VariableScope."""
    return _store().scopes.scope


variables._scope_uses_resource = lambda: get_variable_scope().use_resource


def _first(*values):
    return next((v for v in values if v is not None), None)


def get_variable(name, shape=None, dtype=None, initializer=None,
                 regularizer=None, trainable=None, collections=None,
                 caching_device=None, partitioner=None, validate_shape=True,
                 use_resource=None, custom_getter=None, constraint=None,
                 synchronization=None, aggregation=None):
    """Returns the variable of a name in the current scope, or makes it.

    Whether it may or must exist depends on `reuse` of the scope.

        with tf.variable_scope("layer", reuse=tf.AUTO_REUSE):
            w = tf.get_variable("w", [784, 100])  # Always the same "layer/w".

    Args:
      name: the name within the scope.
      shape: the shape, which must be known unless the initializer is a tensor.
      dtype: defaults to that of the scope, float32.
      initializer: a function of (shape, dtype), an object of
        `tf.initializers`, or a tensor. Defaults to that of the scope, or to
        the Glorot uniform initializer (zeros for integers).
      regularizer: a function of the variable, whose result is added to the
        collection REGULARIZATION_LOSSES. Defaults to that of the scope.
      trainable: whether optimizers update it; true by default.
      collections: keys to add it to, instead of GLOBAL_VARIABLES.
      caching_device: a device that caches its value within a step, or a
        function from the operation that reads it to a device.
      partitioner: a function of (shape, dtype) that returns the number of
        parts in each dimension. The result is then a PartitionedVariable.
      validate_shape: whether the shape must be known and constant.
      use_resource: whether it is a resource variable.
      custom_getter: a function of (getter, name, ...) that is called instead.
      constraint: a function that optimizers apply to the value.
      synchronization, aggregation: options for several copies.

    Raises:
      ValueError: if `reuse` forbids the existing variable or requires a
        missing one, or if shapes, dtypes or the initializer do not match.
    """
    scope = get_variable_scope()
    if partitioner is None and dtype is not None:
        initializer = _of_type(initializer, dtypes.as_dtype(dtype).base_dtype)
    trainable, synchronization, aggregation = across_copies(
        name, trainable, synchronization, aggregation)
    if dtype is None:
        dtype = scope._dtype
    dtype = dtypes.as_dtype(dtype).base_dtype
    # The parts of a variable without a name are named after the scope.
    full_name = "/".join(n for n in (scope.name, name) if n)

    getter = _getter_by_full_name()
    for wrap in (scope._custom_getter, custom_getter):
        if wrap is not None:
            if not callable(wrap):
                raise ValueError(f"Passed a custom_getter which is not "
                                 f"callable: {wrap}")
            getter = functools.partial(wrap, getter)
    with graphs.name_scope(None):
        return getter(
            name=full_name, shape=shape, dtype=dtype,
            initializer=_first(initializer, scope._initializer),
            regularizer=_first(regularizer, scope._regularizer),
            reuse=scope._reuse, trainable=trainable, collections=collections,
            caching_device=_first(caching_device, scope._caching_device),
            partitioner=_first(partitioner, scope._partitioner),
            validate_shape=validate_shape,
            use_resource=_first(use_resource, scope._use_resource),
            constraint=_first(constraint, scope._constraint),
            synchronization=synchronization, aggregation=aggregation)


def _getter_by_full_name():
    """Returns a function that makes or finds variables by their full names."""
    # (The body of a function shares the variables of the graph around it.)
    around = getattr(graphs.get_default_graph(), "stored_variable", None)
    return around or _store().get_variable


def _of_type(initializer, dtype):
    """Converts an initializer that is not a function to the dtype.

    Raises ValueError if its dtype differs.
    """
    if initializer is None or callable(initializer):
        return initializer
    if not hasattr(initializer, "dtype"):
        initializer = _core.as_array(initializer, dtype)
    given = dtypes.as_dtype(initializer.dtype).base_dtype
    if given is not dtype:
        raise ValueError(f"Initializer type '{given}' and explicit dtype "
                         f"'{dtype}' don't match.")
    return initializer


def _whole_or_in_parts(find, name, shape, dtype, initializer, reuse,
                       partitioner):
    """Returns find(name, shape, initializer), or a partitioned variable.

    The parts of a partitioned variable are found in the same way.
    """
    whole = _store()._partitioned_vars.get(name)
    if whole is not None and reuse:
        asked = whole.partitions if partitioner is None or shape is None else (
            list(partitioner(shape=whole.shape, dtype=dtype)))
        if asked != whole.partitions:
            raise ValueError(
                f"Trying to reuse partitioned variable {name}, but specified "
                f"partitions {asked} and found partitions {whole.partitions}.")
        return whole
    known = None if shape is None else tensor_shape.as_shape(shape)
    if partitioner is not None and not callable(partitioner):
        raise ValueError(f"Partitioner must be callable, but received: "
                         f"{partitioner}")
    if partitioner is None or known is not None and known.ndims == 0:
        return find(name, shape, initializer)
    if known is None:
        known = convert_to_tensor(initializer).shape
    if not known.is_fully_defined():
        raise ValueError(
            f"Shape of a new partitioned variable ({name}) must be fully "
            f"defined, but instead was {known}.")
    made = _store()._partitioned_vars[name] = partitioned.make(
        name, known, dtype, partitioner,
        _default_initializer(name, dtype, initializer), find)
    return made


def _default_initializer(name, dtype, initializer):
    if initializer is not None:
        return initializer
    if dtype.is_floating:
        return init_ops.GlorotUniform(dtype=dtype)
    if dtype.is_integer or dtype.is_bool or dtype is dtypes.string:
        return init_ops.Zeros(dtype)
    raise ValueError(f"An initializer for variable {name} of {dtype!r} is "
                     f"required")


def _check_shared(known, name, shape, dtype, reuse):
    """Raises ValueError unless an existing variable can be reused."""
    line = known.op._line
    at = f" Originally defined at {line[0]}:{line[1]}." if line else ""
    if reuse is False:  # For None, passed by a getter, either is allowed.
        raise ValueError(
            f"Variable {name} already exists, disallowed. Did you mean to set "
            f"reuse=True or reuse=tf.AUTO_REUSE in VarScope?{at}")
    if shape is not None and not shape.is_compatible_with(known.shape):
        raise ValueError(
            f"Trying to share variable {name}, but specified shape {shape} and "
            f"found shape {known.shape}.{at}")
    if not dtype.is_compatible_with(known.dtype.base_dtype):
        raise ValueError(
            f"Trying to share variable {name}, but specified dtype "
            f"{dtype.name} and found dtype {known.dtype.base_dtype.name}.{at}")


def _make_or_find(name, shape, dtype, initializer, regularizer, reuse,
                  trainable, collections, validate_shape, use_resource,
                  constraint, caching_device, synchronization, aggregation):
    store = _store()
    shape = None if shape is None else tensor_shape.as_shape(shape)
    known = store._vars.get(name)
    if known is not None:
        _check_shared(known, name, shape, dtype, reuse)
        return known
    if reuse is True:
        near = _core.nearest_names(name, list(store._vars))
        hint = f" (nearest: {', '.join(near)})" if near else ""
        raise ValueError(
            f"Variable {name} does not exist, or was not created with "
            f"tf.get_variable(). Did you mean to set reuse=tf.AUTO_REUSE in "
            f"VarScope?{hint}")
    if initializer is None and shape is None:
        raise ValueError(f"Variable {name} did not get an initializer, so its "
                         f"`shape` argument must be specified.")
    initializer = _default_initializer(name, dtype, initializer)
    if isinstance(initializer, type):
        initializer = initializer()
    if callable(initializer):
        if shape is not None and not shape.is_fully_defined():
            raise ValueError(
                f"Shape of a new variable ({name}) must be fully defined, but "
                f"instead was {shape}.")
        if shape is not None:
            first = functools.partial(init_ops.first_value, initializer,
                                      shape.as_list(), dtype)
        elif _needs_arguments(initializer):
            raise ValueError(
                "The initializer passed is not valid. It should be a callable "
                "with no arguments and the shape should not be provided or an "
                "instance of `tf.keras.initializers.*' and `shape` should be "
                "fully defined.")
        else:
            first = initializer
    else:
        if shape is not None:
            raise ValueError("If initializer is a constant, do not specify "
                             "shape.")
        first, dtype = initializer, None  # The initializer has a dtype.
    variable = Variable(
        first, trainable=trainable, collections=collections,
        validate_shape=validate_shape, name=name, dtype=dtype,
        constraint=constraint, use_resource=use_resource,
        caching_device=caching_device, synchronization=synchronization,
        aggregation=aggregation)
    if shape is not None and validate_shape and not (
            variable.shape.is_compatible_with(shape)):
        raise ValueError(f"Initializer of variable {name} gives shape "
                         f"{variable.shape}, where {shape} was specified.")
    store._vars[name] = variable
    if regularizer:  # Programs also pass {} for none.
        with graphs.colocate_with(variable.op), graphs.name_scope(
                name + "/Regularizer/"):
            loss = regularizer(variable.value())
        if loss is not None:
            graphs.add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)
    return variable


def _needs_arguments(function):
    return any(p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD
               for p in init_ops.parameters_of(function).values())


def get_local_variable(name, *args, **kwargs):
    """Calls `get_variable` for a local variable."""
    kwargs["trainable"] = False
    kwargs["collections"] = list(kwargs.get("collections") or []) + [
        GraphKeys.LOCAL_VARIABLES]
    return get_variable(name, *args, **kwargs)


get_local_variable.__signature__ = inspect.signature(get_variable)


class variable_scope:
    """A context manager in which `get_variable` prefixes names with `name/`.

    Operations get a name scope of the same name. A VariableScope in place of a
    name re-enters that scope. If `name_or_scope` is None, `default_name` is
    made unique and used. `reuse` is True if variables must exist, AUTO_REUSE if
    they may exist, and None to inherit it. The other arguments are defaults of
    `get_variable`.
    """

    def __init__(self, name_or_scope, default_name=None, values=None,
                 initializer=None, regularizer=None, caching_device=None,
                 partitioner=None, custom_getter=None, reuse=None, dtype=None,
                 use_resource=None, constraint=None, auxiliary_name_scope=True):
        if name_or_scope is None and default_name is None:
            raise TypeError("If default_name is None then name_or_scope is "
                            "required")
        if reuse not in (None, False, True, AUTO_REUSE) or type(reuse) is int:
            raise ValueError(f"The reuse parameter must be True or False or "
                             f"None, got {reuse!r}.")
        if name_or_scope is None and reuse:
            raise ValueError("reuse=True cannot be used without a "
                             "name_or_scope")
        self._args = (name_or_scope, default_name)
        self._values = values
        self._reuse = reuse
        self._defaults = dict(
            initializer=initializer, regularizer=regularizer,
            caching_device=caching_device, partitioner=partitioner,
            dtype=dtype, use_resource=use_resource, constraint=constraint)
        self._custom_getter = custom_getter
        if not isinstance(auxiliary_name_scope, bool):
            raise TypeError(f"The auxiliary_name_scope must be `True` or "
                            f"`False`, while get {auxiliary_name_scope}")
        self._auxiliary = auxiliary_name_scope

    def __enter__(self):
        self._graph = graphs._default_for(self._values).as_default()
        self._graph.__enter__()
        try:
            return self._open()
        except BaseException:
            self._graph.__exit__(None, None, None)
            raise

    def _open(self):
        scopes = _store().scopes
        outer = scopes.scope
        name_or_scope, default_name = self._args
        name_scope = None
        if isinstance(name_or_scope, VariableScope):
            name, base = name_or_scope.name, name_or_scope
            if self._auxiliary:
                name_scope = name_or_scope.name.split("/")[-1]
        else:
            base = outer
            local = name_or_scope
            if local is None:
                local = self._unique(scopes, outer.name, default_name)
            name = f"{outer.name}/{local}" if outer.name else local
            if self._auxiliary and local:
                name_scope = (default_name if name_or_scope is None
                              else local)
        entered = VariableScope(
            self._reuse or base._reuse, name, base._initializer,
            base._regularizer, base._caching_device, base._partitioner,
            base._custom_getter, base._name_scope, base._dtype,
            base._use_resource)
        for field, value in self._defaults.items():
            if value is not None:
                setattr(entered, "_" + field, value)
        if self._custom_getter is not None:
            inner, own = base._custom_getter, self._custom_getter
            entered._custom_getter = own if inner is None else (
                lambda getter, *a, **k: own(functools.partial(inner, getter),
                                            *a, **k))
        self._names = None
        if name_scope:
            self._names = graphs.name_scope(name_scope)
            prefix = self._names.__enter__()
            if not isinstance(name_or_scope, VariableScope):
                entered._name_scope = prefix
        scopes.open(name)
        self._counts = dict(scopes.counts)
        self._scopes, self._outer, self._entered = scopes, outer, entered
        scopes.scope = entered
        return entered

    @staticmethod
    def _unique(scopes, prefix, default_name):
        full = f"{prefix}/{default_name}" if prefix else default_name
        if not scopes.counts.get(full):
            return default_name
        i = 1
        while scopes.counts.get(f"{full}_{i}"):
            i += 1
        return f"{default_name}_{i}"

    def __exit__(self, *exc):
        if self._scopes.scope is not self._entered:
            raise RuntimeError(f"Improper nesting of variable_scope: expected "
                               f"to leave '{self._scopes.scope.name}' first, "
                               f"got '{self._entered.name}'")
        if isinstance(self._args[0], VariableScope):
            self._scopes.counts = self._counts
        else:
            self._scopes.close_below(self._scopes.scope.name)
        self._scopes.scope = self._outer
        if self._names is not None:
            self._names.__exit__(*exc)
        self._graph.__exit__(*exc)


def variable_op_scope(values, name_or_scope, default_name=None, **kwargs):
    """Calls `variable_scope` with the arguments of its predecessor."""
    return variable_scope(name_or_scope, default_name, values, **kwargs)


def no_regularizer(_):
    """A regularizer that adds no loss."""
    return None


def create_partitioned_variables(shape, slicing, initializer,
                                 dtype=dtypes.float32, trainable=True,
                                 collections=None, name=None, reuse=None):
    """Makes a partitioned variable and returns its list of parts.

    `slicing` is the number of parts in each dimension.
    """
    if len(shape) != len(slicing):
        raise ValueError(f"The 'shape' and 'slicing' of a new Partitioned "
                         f"Variable must have the length: shape: {shape}, "
                         f"slicing: {slicing}")
    if not shape:
        raise ValueError(f"A partitioned Variable must have rank at least 1: "
                         f"shape: {shape}")
    with variable_scope(name, "PartitionedVariable", reuse=reuse):
        return list(get_variable(
            None, shape=shape, dtype=dtype, initializer=initializer,
            trainable=trainable, collections=collections,
            partitioner=lambda **unused: list(slicing)))
