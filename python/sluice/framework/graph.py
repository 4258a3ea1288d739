"""Graph, and the scopes that apply to new operations."""

import contextlib
import re
import threading

from sluice import _core
from sluice.framework import constructs, members, protos
from sluice.framework.devices import DeviceSpec
from sluice.framework.elements import (  # noqa: F401 (Looked for here.)
    Operation, Tensor, _use_session)
from sluice.framework.graph_keys import GraphKeys

# Functions that make Variables of handles from the C++ library and of
# VariableDefs. ops/variables.py sets them.
_variable_of_handle = None
_variable_from_def = None
_SHARED_KEYS = (GraphKeys.GLOBAL_VARIABLES, GraphKeys.TRAINABLE_VARIABLES,
                GraphKeys.LOCAL_VARIABLES)


class _Scope:
    """A context manager that restores the previous scopes on exit."""

    __slots__ = ("_enter", "_token", "_value")

    def __init__(self, enter, value=None):
        self._enter = enter
        self._value = value
        self._token = None

    def __enter__(self):
        self._token = self._enter()
        return self._value

    def __exit__(self, *unused):
        _core.exit_scope(self._token)
        self._token = None


class _NameScope:
    """The context manager of `Graph.name_scope`; its value is the prefix."""

    __slots__ = ("_graph", "_name", "_token", "_makes_default", "_default")

    def __init__(self, graph, name, makes_default=False):
        self._graph = graph
        self._name = name
        self._makes_default = makes_default
        self._default = False

    def __enter__(self):
        self._token, prefix = _core.enter_name_scope(self._graph, self._name)
        self._default = (self._makes_default and
                         _core.get_default_graph() is not self._graph)
        if self._default:
            _core.push_default_graph(self._graph)
        return prefix

    def __exit__(self, *unused):
        if self._default:
            _core.pop_default_graph(self._graph)
        _core.exit_scope(self._token)
        self._token = None


class _DefaultGraph:
    """The context manager of `Graph.as_default`."""

    __slots__ = ("_graph",)

    def __init__(self, graph):
        self._graph = graph

    def __enter__(self):
        _core.push_default_graph(self._graph)
        return self._graph

    def __exit__(self, *unused):
        _core.pop_default_graph(self._graph)


class Graph(_core.Graph):
    """A graph of operations and tensors, which sessions run.

    Each thread adds operations to the graph of its innermost `as_default`, or
    to the default graph of the process.
    """

    __getattr__ = members.missing

    def __init__(self):
        super().__init__()
        self._handles_to_keep = set()
        self._collections = {}
        self._shared_seen = {}
        self._functions = []  # Called by ops (ops/script_ops.py).
        self._custom_gradients = []  # By number (functions/custom_gradient.py).
        self._defined = {}  # The functions of Defun (functions/function.py).
        # What declared functions take from outside, by name (the same file).
        self._captures_of_declared = {}
        # {operation: (iterator, what it does with it)}, if there are any:
        # "takes" an element, "initializes" it, or "restores" its position
        # (client/pipelines.py).
        self._iterators = None
        self._lock = threading.RLock()
        self._container = ""

    # ---- Elements.

    def get_operations(self):
        """Returns all operations in the order of their creation."""
        return self._operations(0)

    def get_operation_by_name(self, name):
        """Returns the operation with a full name; KeyError if none has it."""
        if not isinstance(name, str):
            raise TypeError(f"Operation names are strings (or similar), not "
                            f"{type(name).__name__}.")
        return self.as_graph_element(name, allow_tensor=False)

    def get_tensor_by_name(self, name):
        """Returns the tensor "name:0"; KeyError if there is none."""
        if not isinstance(name, str):
            raise TypeError(f"Tensor names are strings (or similar), not "
                            f"{type(name).__name__}.")
        return self.as_graph_element(name, allow_operation=False)

    def as_graph_element(self, obj, allow_tensor=True, allow_operation=True):
        """Returns the tensor or operation for an object or a name.

        Raises:
          TypeError: if `obj` cannot be converted to either.
          ValueError: if it belongs to another graph or is not a valid name.
          KeyError: if nothing has that name.
        """
        if not isinstance(obj, (str, bytes, _core.Tensor, _core.Operation)):
            convert = getattr(obj, "_as_graph_element", None)
            if convert is not None:
                obj = convert()
        if isinstance(obj, bytes):
            obj = obj.decode()
        kinds = ("Tensor or Operation" if allow_tensor and allow_operation
                 else "Tensor" if allow_tensor else "Operation")
        if isinstance(obj, _core.Tensor) and allow_tensor or isinstance(
                obj, _core.Operation) and allow_operation:
            if obj.graph is not self:
                raise ValueError(f"{obj} is not an element of this graph.")
            return obj
        if not isinstance(obj, str):
            raise TypeError(f"Can not convert a {type(obj).__name__} into a "
                            f"{kinds}.")
        name, colon, index = obj.rpartition(":")
        if colon and allow_tensor:
            if not index.isdigit() or ":" in name:
                raise ValueError(
                    f"The name {obj!r} looks a like a Tensor name, but is not "
                    f"a valid one. Tensor names must be of the form "
                    f'"<op_name>:<output_index>".')
            op = self._find_operation(name)
            if op is None:
                raise KeyError(
                    f"The name {obj!r} refers to a Tensor which does not "
                    f"exist. The operation, {name!r}, does not exist in the "
                    f"graph{self._hint(name)}.")
            outputs = op.outputs
            if int(index) >= len(outputs):
                raise KeyError(
                    f"The name {obj!r} refers to a Tensor which does not "
                    f"exist. The operation, {name!r}, exists but only has "
                    f"{len(outputs)} outputs.")
            return outputs[int(index)]
        if colon:
            raise ValueError(f"The name {obj!r} appears to refer to a Tensor, "
                             f"not a Operation.")
        if not allow_operation:
            op = self._find_operation(obj)
            what = ("refers to an Operation" if op is not None else
                    "looks like an (invalid) Operation name")
            raise ValueError(
                f"The name {obj!r} {what}, not a Tensor. Tensor names must be "
                f'of the form "<op_name>:<output_index>".')
        op = self._find_operation(obj)
        if op is None:
            raise KeyError(f"The name {obj!r} refers to an Operation not in "
                           f"the graph{self._hint(obj)}.")
        return op

    def _get_control_flow_context(self):
        """Returns the loop or branch under construction, or None."""
        return constructs.around(self, self._constructs(None))

    def _hint(self, name):
        near = self._nearest(name)
        return f" (nearest: {near})" if near else ""

    def as_graph_def(self, from_version=None, add_shapes=False,
                     debug_info=False):
        """Returns the graph as a GraphDef (see `sluice.GraphDef`).

        Args:
          from_version: the number of operations to skip at the start.
          add_shapes: whether to add the output shapes to the nodes, as the
            attribute "_output_shapes".
          debug_info: whether to record the lines of the program that made the
            nodes, which errors name after an import.
        """
        made = protos.GraphDef.FromString(self._export(False))
        if not debug_info:  # It would make equal graphs differ.
            made.ClearField("debug_info")
        if add_shapes:
            for node in made.node:
                shapes = node.attr["_output_shapes"].list.shape
                shapes.extend(t.shape.as_proto() for t in
                              self._find_operation(node.name).outputs)
        if from_version:
            del made.node[:from_version]
        return made

    def op_def_for_type(self, type):
        """Returns the OpDef of an op."""
        try:
            return protos.OpDef.FromString(self._op_def(type))
        except LookupError as e:
            raise _not_registered(type, e) from None

    def create_op(self, op_type, inputs, dtypes=None, input_types=None,
                  name=None, attrs=None, op_def=None, compute_shapes=True,
                  compute_device=True):
        """Adds an operation. Op functions are simpler to use.

        Args:
          op_type: the op's name.
          inputs: a list of tensors.
          dtypes: ignored; the op determines its output types.
          input_types: the types that the inputs are read as, where they are
            reference types.
          name: the name of the operation; defaults to the op's.
          attrs: AttrValues by name. Attributes that follow from the inputs may
            be omitted.
          op_def, compute_shapes: ignored.
          compute_device: whether device scopes apply.
        """
        for i, x in enumerate(inputs):
            if not isinstance(x, _core.Tensor):
                raise TypeError(f"Input #{i} is not a tensor: {x}")
        for want, x in zip(input_types or (), inputs):
            if not want.is_compatible_with(x.dtype):
                raise TypeError(
                    f"In op '{name or op_type}', input types "
                    f"({[x.dtype for x in inputs]}) are not compatible with "
                    f"expected types ({input_types})")
        messages = {k: v.SerializeToString() for k, v in (attrs or {}).items()}
        with contextlib.nullcontext() if compute_device else self.device(None):
            try:
                return self._create(op_type, inputs, name or op_type, messages)
            except LookupError as e:
                raise _not_registered(op_type, e) from None

    def switch_to_thread_local(self):
        """Makes the current device and control-dependency scopes inherited.

        Threads that enter the graph from now on start with them. What a thread
        enters itself is always local to it.
        """
        _core.share_scopes(self)

    def _repr_html_(self):
        """Returns HTML for notebooks, with loops and conditionals as boxes."""
        from sluice.framework import show
        return show.as_html(self)

    @property
    def graph_def_versions(self):
        """The VersionDef of `as_graph_def`."""
        return self.as_graph_def().versions

    @property
    def finalized(self):
        """Whether the graph is read-only."""
        return self._finalized

    def finalize(self):
        """Makes the graph read-only: adding to it raises RuntimeError."""
        self._finalized = True

    def _unsafe_unfinalize(self):
        self._finalized = False

    # ---- Scopes.

    def as_default(self):
        """Returns a context manager that makes it the thread's default."""
        return _DefaultGraph(self)

    def name_scope(self, name):
        """Returns a context manager that prefixes names with `name/`.

        The name is made unique, unless it ends with a slash. None or "" resets
        the prefix.
        """
        return self._name_scope(name)

    def _name_scope(self, name, makes_default=False):
        if name is not None and not isinstance(name, str):
            raise TypeError(f"'{name}' is not a valid scope name: expected a "
                            f"str")
        return _NameScope(self, name, makes_default)

    def unique_name(self, name, mark_as_used=True):
        """Returns `name` under the current scope, as name_1, ... if taken."""
        return self._unique_name(_core.name_prefix(self) + name, mark_as_used)

    def get_name_scope(self):
        """Returns the current name scope without the trailing slash."""
        return _core.name_prefix(self)[:-1]

    def device(self, device_name_or_function):
        """Returns a context manager that places operations on a device.

        The device completes partially specified devices of inner scopes. A
        device function gets each new operation and returns its device.
        """
        spec = device_name_or_function
        if callable(spec) and not hasattr(spec, "to_string"):
            function = spec
            spec = lambda op: _device_string(function(op))
        else:
            spec = _device_string(spec)
        return _Scope(lambda: _core.enter_device(self, spec))

    def _apply_device_functions(self, op):
        """Calls `op._set_device` with the device of a new operation.

        Device functions get `op` in place of the operation. Does nothing if
        the scopes specify no device.
        """

        def placed(device):
            if device:
                op._set_device(DeviceSpec.from_string(device))
            return op
        placed(_core.device_of_new_node(self, placed))

    def colocate_with(self, op, ignore_existing=False):
        """Returns a context manager that places operations with `op`."""
        if op is not None:
            op = _operation_of(op)
        elif not ignore_existing:
            raise ValueError("Trying to reset colocation (op is None) but "
                             "ignore_existing is not True")
        return _Scope(lambda: _core.enter_colocation(self, op,
                                                     bool(ignore_existing)))

    def control_dependencies(self, control_inputs):
        """Returns a context manager that adds control inputs to operations.

        None clears the outer control inputs and leaves loops and conditionals.
        """
        if control_inputs is not None:
            control_inputs = [_operation_of(self._control_input(c))
                              for c in control_inputs]
        return _Scope(lambda: _core.enter_control_dependencies(
            self, control_inputs))

    def _control_input(self, c):
        if hasattr(c, "_to_run_after"):
            c = c._to_run_after()
        values = getattr(c, "values", None)  # Set for IndexedSlices.
        if not isinstance(c, (_core.Operation, _core.Tensor)) and isinstance(
                values, _core.Tensor):
            return values
        return self.as_graph_element(c)

    def gradient_override_map(self, op_type_map):
        """Returns a context manager that overrides gradients of op types."""
        if not isinstance(op_type_map, dict):
            raise TypeError("op_type_map must be a dictionary mapping strings "
                            "to strings")
        return _Scope(lambda: _core.enter_gradient_override(self, op_type_map))

    def _kernel_label_map(self, op_to_kernel_label_map):
        """Returns a context manager without effect: kernels have no labels."""
        return contextlib.nullcontext()

    def container(self, container_name):
        """Returns a context manager that sets the container of new state."""
        return _Container(self, container_name)

    # ---- Collections.

    def _shared(self, name):
        """Adds variables that C++ code collected since the last call."""
        if name not in _SHARED_KEYS or _variable_of_handle is None:
            return
        seen = self._shared_seen.get(name, 0)
        new = self._collected(name, seen)
        if not new:
            return
        self._shared_seen[name] = seen + len(new)
        there = self._collections.setdefault(name, [])
        for handle in new:
            variable = _variable_of_handle(handle)
            if not any(variable is v for v in there):
                there.append(variable)

    def add_to_collection(self, name, value):
        """Adds a value to the collection `name`."""
        if self._finalized:
            raise RuntimeError("Graph is finalized and cannot be modified.")
        with self._lock:
            self._shared(name)
            self._collections.setdefault(name, []).append(value)

    def add_to_collections(self, names, value):
        """Adds a value to one or several collections."""
        names = (names,) if isinstance(names, str) else set(names)
        for name in names:
            self.add_to_collection(name, value)

    def get_collection_ref(self, name):
        """Returns the list that holds the collection."""
        with self._lock:
            self._shared(name)
            return self._collections.setdefault(name, [])

    def get_collection(self, name, scope=None):
        """Returns a copy of a collection.

        With `scope`, a regular expression, it has only the items whose names
        match it at the start.
        """
        with self._lock:
            self._shared(name)
            values = list(self._collections.get(name, []))
        if scope is None:
            return values
        regex = re.compile(scope)
        return [v for v in values
                if hasattr(v, "name") and regex.match(v.name)]

    def get_all_collection_keys(self):
        """Returns the names of the collections."""
        with self._lock:
            for name in _SHARED_KEYS:
                self._shared(name)
            return [key for key in self._collections if isinstance(key, str)]

    @property
    def collections(self):
        """The names of the collections."""
        return self.get_all_collection_keys()

    def clear_collection(self, name):
        """Removes a collection."""
        if self._finalized:
            raise RuntimeError("Graph is finalized and cannot be modified.")
        with self._lock:
            self._shared(name)
            self._collections.pop(name, None)

    def __repr__(self):
        return f"<sluice.Graph of {self.version} operations>"


def _not_registered(op, error):
    return RuntimeError(f"Op type not registered '{op}'; {error}")


class _Container:
    """The context manager of `Graph.container`."""

    def __init__(self, graph, name):
        self._graph, self._name = graph, name

    def __enter__(self):
        self._old, self._graph._container = self._graph._container, self._name
        return self._name

    def __exit__(self, *unused):
        self._graph._container = self._old


def _device_string(device):
    if device is None:
        return None
    if hasattr(device, "to_string"):
        return device.to_string()
    if not isinstance(device, str):
        raise ValueError(f"device: expected a str, a function or None, got "
                         f"{device!r}")
    return device


def _operation_of(value):
    if isinstance(value, _core.Operation):
        return value
    if not isinstance(value, _core.Tensor):
        convert = getattr(value, "_as_graph_element", None)
        if convert is None:
            values = getattr(value, "values", None)
            if not isinstance(values, _core.Tensor):
                raise TypeError(f"Can not convert a {type(value).__name__} "
                                f"into a Tensor or Operation.")
            value = values
        else:
            value = convert()
    return value.op


# ---- The default graph -------------------------------------------------------


def get_default_graph():
    """Returns the default graph of this thread."""
    return _core.get_default_graph()


def reset_default_graph():
    """Makes a new graph the default graph of the process."""
    _core.set_default_graph(Graph())


def name_scope(name, default_name=None, values=None):
    """Returns a context manager for a name scope.

    Names get the prefix `name/` (or `default_name/`). The graph of `values`
    becomes the default graph.

    Raises:
      ValueError: if there are values but no name, or if the values belong to
        different graphs.
      TypeError: if `default_name` is not a str.
    """
    if default_name is not None and not isinstance(default_name, str):
        raise TypeError(f"`default_name` type ({type(default_name)}) is not a "
                        f"string type. You likely meant to pass this into the "
                        f"`values` kwarg.")
    if name is None and default_name is None and values is not None:
        raise ValueError("At least one of name (None) and default_name (None) "
                         "must be provided.")
    return _default_for(values)._name_scope(
        default_name if name is None else name, makes_default=True)


def _default_for(values):
    """Returns the graph of the values, or else the default graph.

    The body of a function accepts values of any graph.
    """
    default = _core.get_default_graph()
    if not values or default.building_function:
        return default
    return _get_graph_from_inputs(values)


def _outermost(graph):
    """Returns the outermost graph around a function body, or the graph."""
    while graph.building_function:
        graph = graph.outer
    return graph


def _get_graph_from_inputs(op_input_list, graph=None):
    """Returns the graph of the values, or else the default graph.

    Raises:
      ValueError: if the values belong to different graphs, or not to `graph`.
      TypeError: if `graph` is not a Graph.
    """
    if graph is not None and not isinstance(graph, _core.Graph):
        raise TypeError(f"Input graph needs to be a Graph: {graph}")
    first = None
    for value in op_input_list:
        its = getattr(value, "graph", None)
        if not isinstance(its, _core.Graph):
            continue
        if graph is None:
            graph, first = its, value
        elif its is not graph:
            raise ValueError(f"{value} is not from the passed-in graph."
                             if first is None else
                             f"{value} must be from the same graph as "
                             f"{first}.")
    return graph or _core.get_default_graph()


def device(device_name_or_function):
    """Calls `Graph.device` of the default graph."""
    return get_default_graph().device(device_name_or_function)


def control_dependencies(control_inputs):
    """Calls `Graph.control_dependencies` of the default graph."""
    return get_default_graph().control_dependencies(control_inputs)


def colocate_with(op, ignore_existing=False):
    """Calls `Graph.colocate_with` of the default graph."""
    return get_default_graph().colocate_with(op, ignore_existing)


def container(container_name):
    """Calls `Graph.container` of the default graph."""
    return get_default_graph().container(container_name)


def get_name_scope():
    """Returns the current name scope of the default graph."""
    return get_default_graph().get_name_scope()


def init_scope():
    """Returns a context manager that leaves all loops and branches.

    It also clears the control dependencies.
    """
    return get_default_graph().control_dependencies(None)


def add_to_collection(name, value):
    """Adds a value to a collection of the default graph."""
    get_default_graph().add_to_collection(name, value)


def add_to_collections(names, value):
    """Adds a value to several collections of the default graph."""
    get_default_graph().add_to_collections(names, value)


def get_collection(key, scope=None):
    """Returns a copy of a collection of the default graph."""
    return get_default_graph().get_collection(key, scope)


def get_collection_ref(key):
    """Returns the list that holds a collection of the default graph."""
    return get_default_graph().get_collection_ref(key)


def _truncated(seed):
    return None if seed is None else int(seed) % (2**31 - 1)


def set_random_seed(seed):
    """Sets the graph-level seed of the default graph."""
    get_default_graph().seed = _truncated(seed)


def get_seed(op_seed):
    """Returns (graph seed, op seed) for a random op, as TensorFlow does.

    An op without a seed gets one from a counter.
    """
    return get_default_graph()._seeds_for(_truncated(op_seed))
