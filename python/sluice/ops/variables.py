"""Variables, whose values persist between steps."""

import contextlib
import functools
import inspect
import threading

from sluice import _core
from sluice.framework import (
    conversion, dtypes, graph as graphs, members, protos, references, scopes,
    tensor_shape)
from sluice.framework.conversion import constant, convert_to_tensor
from sluice.framework.graph import GraphKeys
from sluice.ops import (
    array_ops, control_flow, initial_values, math_ops, scatters)
from sluice.ops.variable_copies import across_copies

_op = _core.op
_variable_op = _op("VariableV2", "Variable")
_handle_op = _op("VarHandleOp", "Variable")
_assign = _op("Assign")
_assign_resource = _op("AssignVariableOp", "Assign")
_identity = _op("Identity")
_read = _op("ReadVariableOp")


class SaveSliceInfo:
    """Describes which part of a whole a variable is, for checkpoints."""

    def __init__(self, full_name, full_shape, var_offset, var_shape):
        self.full_name, self.full_shape = full_name, list(full_shape)
        self.var_offset, self.var_shape = list(var_offset), list(var_shape)

    @property
    def spec(self):
        """The whole's shape, and the part's offset and size.

        For example "10 20 0,10:5,3".
        """
        return " ".join(map(str, self.full_shape)) + " " + ":".join(
            f"{o},{n}" for o, n in zip(self.var_offset, self.var_shape))

    def to_proto(self, export_scope=None):
        """Converts to a SaveSliceInfoDef; None if outside of the scope."""
        if export_scope and not self.full_name.startswith(
                scopes.within(export_scope)):
            return None
        return protos.SaveSliceInfoDef(
            full_name=scopes.strip_name_scope(self.full_name, export_scope),
            full_shape=self.full_shape, var_offset=self.var_offset,
            var_shape=self.var_shape)

    @classmethod
    def _from_proto(cls, definition, prefix=""):
        return cls(prefix + definition.full_name, definition.full_shape,
                   definition.var_offset, definition.var_shape)


@contextlib.contextmanager
def _cached(graph, device):
    """Returns a context manager for reads cached on a device.

    If the device is None, reads remain on the variable's device.
    """
    if device is None:
        yield
        return
    with graph.colocate_with(None, ignore_existing=True), graph.device(device):
        yield


TYPE_CHECKING = False  # True for type checkers.
if TYPE_CHECKING:
    from sluice._core import Operators as _Operators
else:
    _Operators = object


_resource_by_default = False


def enable_resource_variables():
    """Makes variables resource variables by default.

    Variables and scopes may override it.
    """
    global _resource_by_default
    _resource_by_default = True


def disable_resource_variables():
    """Makes variables reference variables by default.

    Variables and scopes may override it.
    """
    global _resource_by_default
    _resource_by_default = False


def resource_variables_enabled():
    """Returns whether variables are resource variables by default."""
    return _resource_by_default


def _scope_uses_resource():
    """Returns `use_resource` of the current variable scope.

    variable_scope.py replaces this function.
    """
    return None


def _by_default(use_resource):
    if use_resource is None:
        use_resource = _scope_uses_resource()
    return _resource_by_default if use_resource is None else use_resource


class _Creators(threading.local):
    """The creator functions of a graph's variables in each thread."""

    def __init__(self):
        self.stack = []


def _creators():
    """Returns this thread's creators for the default graph, outermost first.

    The body of a function uses those of the outer graph.
    """
    graph = graphs._outermost(graphs.get_default_graph())
    return graph.__dict__.setdefault("_creators", _Creators()).stack


class _Creation(type):
    """Metaclass that calls the functions of `variable_creator_scope`."""

    @property
    def __signature__(cls):  # Hides the signature of __call__.
        own = inspect.signature(cls.__init__)
        return own.replace(parameters=list(own.parameters.values())[1:])

    def __call__(cls, *args, **kwargs):
        creators = _creators()
        if not creators or cls is not Variable:
            return super().__call__(*args, **kwargs)
        given = inspect.signature(cls.__init__).bind(None, *args, **kwargs)
        given.apply_defaults()
        getter = super().__call__
        for creator in creators:
            getter = functools.partial(creator, getter)
        return getter(**dict(list(given.arguments.items())[1:]))


@contextlib.contextmanager
def variable_creator_scope(variable_creator):
    """Makes a function create the variables of the default graph.

    It is a context manager. The function is variable_creator(next_creator,
    **arguments of Variable). Of several, the innermost is called first.
    """
    # A unique object, because the same function may be there twice.
    stack, own = _creators(), functools.partial(variable_creator)
    stack.append(own)
    try:
        yield
    finally:
        stack.remove(own)


class Variable(scatters.Scattered, _Operators, metaclass=_Creation):
    """A value that a session keeps between steps.

    Its initializer sets it to `initial_value`, and its `assign` methods change
    it. As a tensor it represents its value in the step. With `use_resource` it
    is a resource variable, whose reads are ordered by control dependencies.
    Otherwise edges carry references to it, as in TensorFlow 1.

    Args:
      initial_value: a value, a tensor, or a function that returns one.
      trainable: whether optimizers update it by default.
      collections: keys to add it to, instead of GLOBAL_VARIABLES.
      validate_shape: whether its shape must be known and constant.
      name: the name; defaults to "Variable" and is made unique.
      dtype: the dtype of the initial value.
    """

    __getattr__ = members.missing

    def __init__(self, initial_value=None, trainable=None, collections=None,
                 validate_shape=True, caching_device=None, name=None,
                 variable_def=None, dtype=None, expected_shape=None,
                 import_scope=None, constraint=None, use_resource=None,
                 synchronization=None, aggregation=None, shape=None):
        if variable_def is not None:
            if initial_value is not None:
                raise ValueError("variable_def and initial_value are mutually "
                                 "exclusive.")
            self.__dict__.update(
                Variable.from_proto(variable_def, import_scope).__dict__)
            return
        if initial_value is None:
            raise ValueError("initial_value must be specified.")
        within = graphs.get_default_graph()
        if within.building_function:  # The outer graph owns the variable.
            if use_resource is None:
                use_resource = within.uses_resources
            with within.outer.as_default():
                self.__init__(
                    initial_value, trainable, collections, validate_shape,
                    caching_device, name, None, dtype, None, None, constraint,
                    use_resource, synchronization, aggregation, shape)
            within.add_variable(self)
            return
        if constraint is not None and not callable(constraint):
            raise ValueError("The `constraint` argument must be a callable.")
        trainable, self._synchronization, self._aggregation = (
            across_copies(name, trainable, synchronization, aggregation))
        self._trainable = bool(trainable)
        self._constraint = constraint
        self._resource = bool(_by_default(use_resource))
        if self._resource and type(self) is Variable:
            self.__class__ = ResourceVariable
        if collections is None:
            collections = [GraphKeys.GLOBAL_VARIABLES]
        if not isinstance(collections, (list, tuple, set)):
            raise ValueError(f"collections argument to Variable constructor "
                             f"must be a list, tuple, or set. Got "
                             f"{collections} of type {type(collections)}")
        collections = list(collections)
        if self._trainable and GraphKeys.TRAINABLE_VARIABLES not in collections:
            collections.append(GraphKeys.TRAINABLE_VARIABLES)
        if dtype is not None:
            dtype = dtypes.as_dtype(dtype).base_dtype
        self._graph = graphs.get_default_graph()
        # Variables belong to no loop or branch and have no dependencies.
        with self._graph.control_dependencies(None), graphs.name_scope(
                name, "Variable", None if callable(initial_value)
                else [initial_value]) as scope:
            self._build(initial_value, scope, dtype, validate_shape, shape,
                        caching_device)
        self._graph.add_to_collections(collections, self)

    def _build(self, initial_value, scope, dtype, validate_shape, shape,
               caching_device):
        graph = self._graph
        if callable(initial_value):
            # The initializer is colocated with the variable below, so that
            # device functions see only the variable.
            first = graph.version
            with graph.device(None), graph.name_scope("Initializer") as within:
                initial = convert_to_tensor(initial_value(), dtype,
                                            name="initial_value")
            graph._colocate_since(first, within, scope[:-1])
        else:
            with graph.name_scope("Initializer" if self._resource else scope):
                initial = convert_to_tensor(initial_value, dtype,
                                            name="initial_value")
        if validate_shape and shape is None and not self._resource and (
                not initial.shape.is_fully_defined()):
            raise ValueError(
                f"initial_value must have a shape specified: {initial}")
        known = tensor_shape.as_shape(
            shape if shape is not None else initial.shape
            if validate_shape or self._resource else None)
        if not initial.shape.is_compatible_with(known):
            raise ValueError(f"The initial value's shape ({initial.shape}) is "
                             f"not compatible with the explicitly supplied "
                             f"`shape` argument ({known}).")
        self._initial_value = initial
        base = initial.dtype.base_dtype
        if self._resource:
            self._handle = _handle_op(
                base, known, shared_name=scope[:-1], name=scope,
                container=graph._container)
        else:
            self._handle = _variable_op(known, base, name=scope,
                                        container=graph._container)
        with graph.name_scope(scope + "Initializer/"):
            first = initial_values.guarded(initial)
        # As in TensorFlow, these names are within the variable's scope.
        with graph.name_scope(scope), graph.colocate_with(self._handle.op):
            if self._resource:
                with graph.name_scope("IsInitialized"):
                    _op("VarIsInitializedOp")(self._handle)
                self._initializer = _assign_resource(
                    self._handle, first, name="Assign")
                with graph.name_scope("Read"), _cached(graph, caching_device):
                    self._snapshot = _read(self._handle, base)
                self._is_cached = caching_device is not None
            else:
                self._initializer = _assign(
                    self._handle, first, validate_shape=validate_shape,
                    name="Assign").op
                with _cached(graph, caching_device):
                    self._snapshot = _identity(self._handle, name="read")

    @classmethod
    def _of_handle(cls, handle):
        """Makes a Variable for a variable that exists in the graph."""
        self = cls.__new__(cls)
        graph, name = handle.graph, handle.op.name
        self._graph, self._handle = graph, handle
        self._resource = handle.dtype is dtypes.resource
        self._trainable, self._constraint = False, None
        _, self._synchronization, self._aggregation = across_copies(
            name, None, None, None)
        self._initializer = graph._find_operation(name + "/Assign")
        self._initial_value = (None if self._initializer is None
                               else self._initializer.inputs[1])
        read = graph._find_operation(
            name + ("/Read/ReadVariableOp" if self._resource else "/read"))
        with graph.as_default():
            self._snapshot = (read.outputs[0] if read is not None
                              else self.read_value())
        return self

    # ---- Properties.

    @property
    def name(self):
        """The name with an output number: "w:0"."""
        return self._handle.name

    @property
    def op(self):
        """The operation that produces the handle or reference."""
        return self._handle.op

    @property
    def handle(self):
        """The handle of a resource variable."""
        if not self._resource:
            raise AttributeError("handle: expected a resource variable, got "
                                 "one behind a reference")
        return self._handle

    SaveSliceInfo = SaveSliceInfo
    _save_slice_info = None  # Set for a part of a partitioned variable.
    _is_cached = False  # Whether a device caches its value.

    def _set_save_slice_info(self, info):
        self._save_slice_info = info

    @property
    def _shared_name(self):
        return self.name[:self.name.index(":")]

    @property
    def graph(self):
        """The graph of the variable."""
        return self._graph

    @property
    def device(self):
        """The requested device."""
        return self._handle.device

    @property
    def dtype(self):
        """The dtype; a reference type unless it is a resource variable."""
        return (self._snapshot.dtype if self._resource else self._handle.dtype)

    @property
    def shape(self):
        """The static shape."""
        if self._resource:
            return tensor_shape.TensorShape._of(self.op._attr("shape"))
        return self._handle.shape

    def get_shape(self):
        """Returns the static shape."""
        return self.shape

    def set_shape(self, shape):
        """Merges a shape into the static shape of its values."""
        (self._snapshot if self._resource else self._handle).set_shape(shape)

    @property
    def trainable(self):
        """Whether optimizers update it by default."""
        return self._trainable

    @property
    def synchronization(self):
        """When copies would be synchronized."""
        return self._synchronization

    @property
    def aggregation(self):
        """How copies would be aggregated."""
        return self._aggregation

    @property
    def constraint(self):
        """A function that is applied after updates, or None."""
        return self._constraint

    @property
    def initializer(self):
        """The operation that assigns the initial value."""
        return self._initializer

    create = initializer  # The name in `tensorflow.python.ops.resources`.

    @property
    def initial_value(self):
        """The tensor of the initial value."""
        return self._initial_value

    # ---- Reading.

    def value(self):
        """Returns a tensor of the value at an unspecified time in the step.

        A reference variable returns the same tensor each time.
        """
        if self._resource and not self._is_cached:
            return self.read_value()
        return self._snapshot

    def read_value(self):
        """Returns a new read of the value, ordered by its dependencies."""
        if not self._resource:
            return _identity(self._handle, name="read")
        with self._graph.colocate_with(self._handle.op):
            value = _read(self._handle, self.op._attr("dtype"))
        if value._dims is None and self.shape.ndims is not None:
            # The handle is an argument of a function without a static shape.
            value = _op("EnsureShape")(value, shape=self.shape)
        return value

    def initialized_value(self):
        """Returns the value, or the initial value if it is uninitialized."""
        # (That of a variable which starts from a checkpoint is a tensor.)
        assign = getattr(self._initializer, "op", self._initializer)
        made = control_flow.cond(is_variable_initialized(self), self.read_value,
                                 lambda: assign.inputs[1])
        made.op._is_initialized_value = True  # Read by `initial_values`.
        return made

    def _as_graph_element(self):
        return self._snapshot

    def _to_run_after(self):
        """Returns the tensor for control dependencies on the variable.

        It does not read a reference variable, which may be uninitialized.
        """
        return self._snapshot if self._resource else self._handle

    def _ref(self):
        return self._handle

    def eval(self, session=None):
        """Returns the value in a session."""
        return self._snapshot.eval(session=session)

    def load(self, value, session=None):
        """Sets the value in a session without adding operations."""
        session = graphs._use_session(session, self._graph, "load")
        session.run(self.initializer, {self.initializer.inputs[1]: value})

    # ---- Updates.

    def _update(self, reference, resource, value, name, use_locking,
                read_value):
        base = self.dtype.base_dtype
        if not self._resource:
            new = _op(reference)(self._handle, value,
                                 use_locking=bool(use_locking), name=name)
            return new if read_value else new.op
        with self._graph.colocate_with(self._handle.op):
            done = _op(resource)(
                self._handle, convert_to_tensor(value, base), name=name)
            if not read_value:
                return done
            # The graph of `done` may be the body of a function.
            with done.graph.control_dependencies([done]):
                return _read(self._handle, base)

    def assign(self, value, use_locking=False, name=None, read_value=True):
        """Assigns a value; returns the new value."""
        return self._update("Assign", "AssignVariableOp", value,
                            name, use_locking, read_value)

    def assign_add(self, delta, use_locking=False, name=None,
                   read_value=True):
        """Adds to the value; returns the new value."""
        return self._update("AssignAdd", "AssignAddVariableOp", delta,
                            name, use_locking, read_value)

    def assign_sub(self, delta, use_locking=False, name=None,
                   read_value=True):
        """Subtracts from the value; returns the new value."""
        return self._update("AssignSub", "AssignSubVariableOp", delta,
                            name, use_locking, read_value)

    def count_up_to(self, limit):
        """Increments the value up to a limit; returns the previous value.

        At the limit it fails with OutOfRangeError.
        """
        if self._resource:
            return _op("ResourceCountUpTo")(self._handle, limit=limit,
                                            T=self.dtype)
        return _op("CountUpTo")(self._handle, limit=limit)

    def sparse_read(self, indices, name=None):
        """Returns the rows with the given indices."""
        if self._resource:
            return _op("ResourceGather", "Gather")(
                self._handle, indices, dtype=self.dtype, name=name)
        return _op("GatherV2")(self._snapshot, indices, 0, name=name)

    def gather_nd(self, indices, name=None):
        """Returns the slices at the given coordinates."""
        if self._resource:
            return _op("ResourceGatherNd", "GatherNd")(
                self._handle, indices, dtype=self.dtype, name=name)
        return _op("GatherNd")(self._snapshot, indices, name=name)

    def is_initialized(self, name=None):
        """Returns whether a resource variable is initialized, as a tensor."""
        if not self._resource:
            raise AttributeError("is_initialized: expected a resource "
                                 "variable, got one behind a reference")
        return _op("VarIsInitializedOp")(self._handle, name=name)

    # ---- Tensor behaviour.

    def __getitem__(self, key):
        """Returns a slice, whose `assign(value)` updates the variable."""
        part = self.value()[key]
        if part.op.type == "StridedSlice":
            part.assign = functools.partial(self._assign_part, part.op)
        return part

    def _assign_part(self, read, value, name=None):
        begin, end, strides = read.inputs[1:]
        masks = {m: read._attr(m) for m in (
            "begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask",
            "shrink_axis_mask")}
        if self._resource or not isinstance(value, _core.Tensor):
            value = convert_to_tensor(value, self.dtype.base_dtype)
        if not self._resource:
            return _op("StridedSliceAssign")(
                self._handle, begin, end, strides, value, name=name, **masks)
        done = _op("ResourceStridedSliceAssign")(
            self._handle, begin, end, strides, value, name=name, **masks)
        with done.graph.control_dependencies([done]):
            return self.read_value()

    def __bool__(self):
        return not self._resource or bool(self.value())

    def __iter__(self):
        raise TypeError("'Variable' object is not iterable.")

    def __hash__(self):
        return id(self)

    def __eq__(self, other):
        return self is other

    def __repr__(self):
        return (f"<tf.Variable '{self.name}' shape={self.shape} "
                f"dtype={self.dtype.name}>")

    def to_proto(self, export_scope=None):
        """Converts to a VariableDef, with names relative to a scope.

        Returns None if the variable is outside of the scope.
        """
        if export_scope and not self.name.startswith(
                scopes.within(export_scope)):
            return None

        def name(of):
            return scopes.strip_name_scope(of.name, export_scope)
        return protos.VariableDef(
            variable_name=name(self), initializer_name=name(self.initializer),
            initial_value_name=name(self.initial_value),
            snapshot_name=name(self._snapshot), is_resource=self._resource,
            trainable=bool(self._trainable),
            save_slice_info_def=self._save_slice_info and
            self._save_slice_info.to_proto(export_scope))

    @staticmethod
    def from_proto(variable_def, import_scope=None):
        """Returns the default graph's variable that a VariableDef names."""
        prefix = import_scope + "/" if import_scope else ""
        return Variable._from_def(variable_def, graphs.get_default_graph(),
                                  prefix)

    @classmethod
    def _from_def(cls, definition, graph, prefix):
        self = cls._of_handle(graph.get_tensor_by_name(
            prefix + definition.variable_name))
        self._trainable = definition.trainable
        if definition.HasField("save_slice_info_def"):
            self._set_save_slice_info(SaveSliceInfo._from_proto(
                definition.save_slice_info_def, prefix))
        self._initializer = graph.get_operation_by_name(
            prefix + definition.initializer_name)
        self._snapshot = graph.get_tensor_by_name(
            prefix + definition.snapshot_name)
        initial = definition.initial_value_name
        self._initial_value = (
            graph.get_tensor_by_name(prefix + initial) if initial
            else self._initializer.inputs[1])
        return self


def _install_operators():
    def forward(name):
        def method(self, *args):
            return getattr(graphs.Tensor, name)(self.value(), *args)
        method.__name__ = name
        return method

    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow",
                 "matmul", "and", "or", "xor"):
        for form in (f"__{name}__", f"__r{name}__"):
            setattr(Variable, form, forward(form))
    for name in ("lt", "le", "gt", "ge", "neg", "abs", "invert"):
        setattr(Variable, f"__{name}__", forward(f"__{name}__"))
    Variable.__array_priority__ = 100


_install_operators()
references.install(graphs.Tensor, Variable)
class _IsResource(_Creation):

    def __instancecheck__(cls, instance):
        return isinstance(instance, Variable) and instance._resource


class ResourceVariable(Variable, metaclass=_IsResource):
    """A Variable with `use_resource`. Any resource variable is an instance."""

    def __init__(self, *args, **kwargs):
        kwargs["use_resource"] = True
        super().__init__(*args, **kwargs)


def _to_tensor(value, dtype=None, name=None, as_ref=False):
    if dtype is not None and not dtype.is_compatible_with(
            value.dtype.base_dtype):
        raise ValueError(
            f"Incompatible type conversion requested to type '{dtype.name}' "
            f"for variable of type '{value.dtype.name}'")
    return value._ref() if as_ref else value.value()


conversion.register_tensor_conversion_function(Variable, _to_tensor, 0)


def _variable_of_handle(handle):
    """Returns the Variable of a handle, which is made if there is none."""
    graph = handle.graph
    known = graph.__dict__.setdefault("_variables_by_handle", {})
    if handle.name not in known:
        for key in (GraphKeys.GLOBAL_VARIABLES, GraphKeys.LOCAL_VARIABLES,
                    GraphKeys.TRAINABLE_VARIABLES):
            for v in graph._collections.get(key, []):
                if isinstance(v, Variable) and v._handle is handle:
                    known[handle.name] = v
                    return v
        known[handle.name] = Variable._of_handle(handle)
    return known[handle.name]


def _remember_by_handle(variable):
    """Makes a variable that of its handle, which is returned."""
    handle = variable._ref()
    handle.graph.__dict__.setdefault("_variables_by_handle", {})[
        handle.name] = variable
    return handle


graphs._variable_of_handle = _variable_of_handle
graphs._variable_from_def = Variable._from_def


# ---- Collections of variables ------------------------------------------------


def global_variables(scope=None):
    """Returns the global variables, which sessions of a cluster share."""
    return graphs.get_collection(GraphKeys.GLOBAL_VARIABLES, scope)


all_variables = global_variables


def _all_saveable_objects(scope=None):
    """Returns the variables and SaveableObjects that savers save by default."""
    return (graphs.get_collection(GraphKeys.GLOBAL_VARIABLES, scope) +
            graphs.get_collection(GraphKeys.SAVEABLE_OBJECTS, scope))


def local_variables(scope=None):
    """Returns the local variables of the default graph."""
    return graphs.get_collection(GraphKeys.LOCAL_VARIABLES, scope)


def model_variables(scope=None):
    """Returns the collection MODEL_VARIABLES of the default graph."""
    return graphs.get_collection(GraphKeys.MODEL_VARIABLES, scope)


def trainable_variables(scope=None):
    """Returns the variables that optimizers update."""
    return graphs.get_collection(GraphKeys.TRAINABLE_VARIABLES, scope)


def moving_average_variables(scope=None):
    """Returns the variables with moving averages."""
    return graphs.get_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, scope)


def variables_initializer(var_list, name="init"):
    """Returns an operation that initializes the given variables."""
    return control_flow.group(*[v.initializer for v in var_list], name=name)


initialize_variables = variables_initializer


def global_variables_initializer():
    """Returns an operation that initializes all current global variables."""
    return variables_initializer(global_variables())


initialize_all_variables = global_variables_initializer


def local_variables_initializer():
    """Returns an operation that initializes all current local variables."""
    return variables_initializer(local_variables())


initialize_local_variables = local_variables_initializer


def is_variable_initialized(variable):
    """Returns whether a variable or reference is initialized, as a tensor."""
    if isinstance(variable, _core.Tensor):
        return _op("IsVariableInitialized")(variable)
    if variable._resource:
        return _op("VarIsInitializedOp")(variable._handle)
    return _op("IsVariableInitialized")(variable._handle)


def report_uninitialized_variables(
        var_list=None, name="report_uninitialized_variables"):
    """Returns the names of uninitialized variables as a string tensor."""
    if var_list is None:
        var_list = global_variables() + local_variables()
    with graphs.name_scope(name):
        if not var_list:
            return constant([], dtypes.string, [0])
        missing = math_ops.logical_not(array_ops.stack(
            [is_variable_initialized(v) for v in var_list]))
        names = constant([v.op.name for v in var_list])
        return array_ops.boolean_mask(names, missing)


def assert_variables_initialized(var_list=None):
    """Returns a tensor that fails if a variable is uninitialized."""
    if var_list is None:
        var_list = global_variables() + local_variables()
    if not var_list:
        return None
    with graphs.control_dependencies([v.value().op for v in var_list]):
        return array_ops.stack([array_ops.rank(v.value()) for v in var_list])


def variable_op(shape, dtype, name="Variable", set_shape=True, container="",
                shared_name=""):
    """Makes a reference to a variable, without the features of `Variable`."""
    return _op("VariableV2")(shape if set_shape else None, dtype, name=name,
                             container=container, shared_name=shared_name)


def variable_op_v2(shape, dtype, name="Variable", container="",
                   shared_name=""):
    """Calls `variable_op` with a known shape."""
    return variable_op(shape, dtype, name, True, container, shared_name)


# ---- Assignment functions ----------------------------------------------------


def _assigns(ref):
    """Returns whether `ref` is not a reference and has a method `assign`."""
    return not ref.dtype._is_ref_dtype and hasattr(ref, "assign")


def assign(ref, value, validate_shape=None, use_locking=None, name=None):
    """Assigns a value to a variable; returns the new value."""
    if _assigns(ref):
        return ref.assign(value, name=name)
    return _assign(ref, value,
                   validate_shape=True if validate_shape is None
                   else validate_shape,
                   use_locking=True if use_locking is None else use_locking,
                   name=name)


def assign_add(ref, value, use_locking=None, name=None):
    """Adds to a variable; returns the new value."""
    if _assigns(ref):
        return ref.assign_add(value, name=name)
    return _op("AssignAdd")(ref, value, use_locking=bool(use_locking),
                            name=name)


def assign_sub(ref, value, use_locking=None, name=None):
    """Subtracts from a variable; returns the new value."""
    if _assigns(ref):
        return ref.assign_sub(value, name=name)
    return _op("AssignSub")(ref, value, use_locking=bool(use_locking),
                            name=name)


def count_up_to(ref, limit, name=None):
    """Increments a variable up to a limit; returns the previous value.

    At the limit it fails with OutOfRangeError.
    """
    if isinstance(ref, Variable):
        return ref.count_up_to(limit)
    return _op("CountUpTo")(ref, limit=limit, name=name)
