"""Functions of a graph, defined in Python: `Defun`.

The body of a function is built at its first call in a graph, in a separate
graph with the same function library. Outer tensors that the body uses become
additional arguments, which each call passes.
"""

import hashlib
import inspect
import itertools

from sluice import _core
from sluice.framework import (dtypes, errors, graph as graphs, protos,
                              tensor_shape)
from sluice.framework.conversion import convert_to_tensor
from sluice.ops import gradients, variable_scope as scopes


_numbers = itertools.count()  # Numbers of gradients, unique in the registry.
_declared_names = set()  # Of all `Declare`s.


class _Body(graphs.Graph):
    """The graph of a function's body."""

    uses_resources = None  # The default `use_resource` of variables, if set.
    built_again = False  # Whether its variables exist, made by an earlier body.

    def __init__(self, outer, by_value, stateful_copies=()):
        super().__init__()
        _core.begin_body(self, outer)
        self.outer, self._by_value = outer, by_value
        self._stateful_copies = stateful_copies
        self.arguments = []
        self.captured = {}  # Arguments by the outer tensor that they represent.
        self._copies = {}  # Copies of outer operations, if captured by value.
        self.variables = []  # Variables created or requested by the body.

    def argument(self, dtype, name, shape=None):
        """Adds an argument."""
        with self.as_default(), self.control_dependencies(None), self.device(
                None), self.name_scope(None):
            made = _core.op("_Arg")(T=dtype, index=len(self.arguments),
                                    name=name)
        made.set_shape(shape)
        self.arguments.append(made)
        return made

    def capture(self, tensor):
        """Returns the tensor of the body that represents an outer tensor."""
        if tensor.graph is self:
            return tensor
        if tensor not in self.captured:
            if self._by_value:
                return self._copy(tensor.op).outputs[tensor.value_index]
            outside = tensor
            if tensor.graph is not self.outer:
                if not self.outer.building_function:
                    raise ValueError(f"{tensor!r} must be from the same graph "
                                     f"as the function's call")
                outside = self.outer.capture(tensor)
            if outside in self.captured:
                self.captured[tensor] = self.captured[outside]
                return self.captured[tensor]
            made = self.captured[tensor] = self.captured[
                outside] = self.argument(
                    tensor.dtype.base_dtype, tensor.op.name, tensor.shape)
            _core.note_capture(self, outside, made)
            if tensor.dtype == dtypes.resource:
                _core.tell_variable(self, made.op, tensor)
        return self.captured[tensor]

    def _copy(self, op):
        """Copies an outer operation with its inputs."""
        if op.op_def.is_stateful and op not in self._stateful_copies:
            raise ValueError(f"Cannot capture a stateful node (name:{op.name}, "
                             f"type:{op.type}) by value.")
        if op.type in ("Placeholder", "PlaceholderV2"):
            raise ValueError(f"Cannot capture a placeholder (name:{op.name}, "
                             f"type:{op.type}) by value.")
        if op not in self._copies:
            self._copies[op] = _core.copy_operation(self, op, [
                self._copy(t.op).outputs[t.value_index] for t in op.inputs])
        return self._copies[op]

    def variable(self, getter, name, reuse=None, **kwargs):
        """Calls `get_variable` in the outer graph."""
        if self.built_again:
            reuse = scopes.AUTO_REUSE
        with self.outer.as_default(), scopes.variable_scope(
                scopes.get_variable_scope(), reuse=reuse,
                auxiliary_name_scope=False):
            made = scopes.get_variable(name, **kwargs)
        self.add_variable(made)
        return made

    def stored_variable(self, **kwargs):
        """Makes or finds a variable by its full name in the outer graph.

        For scopes that were opened outside, which `variable` does not reach.
        """
        if self.built_again:
            kwargs["reuse"] = scopes.AUTO_REUSE
        with self.outer.as_default(), graphs.name_scope(None):
            made = scopes._getter_by_full_name()(**kwargs)
        self.add_variable(made)
        return made

    def add_variable(self, variable):
        """Records a variable that the body created or requested."""
        self.variables.append(variable)


class _Instance:
    """A function in a graph: name, captured tensors, and shapes.

    Each call passes the captured tensors as additional arguments. `arg_shapes`
    are the static shapes that the body was built for, `shapes` those of the
    results.
    """

    def __init__(self, name, captured, shapes, arg_shapes=()):
        self.name, self.captured, self.shapes = name, captured, shapes
        self.arg_shapes = arg_shapes

    def takes(self, shapes):
        """Returns whether the body holds for arguments of static shapes."""
        return all(_sizes(_common(s, a)) == _sizes(a)
                   for s, a in zip(shapes, self.arg_shapes))


def _sizes(shape):
    """Returns the list of the sizes, or None if the rank is not known."""
    return None if shape.ndims is None else shape.as_list()


def _common(*shapes):
    """Returns the most specific static shape that holds for all of these."""
    sizes = [_sizes(s) for s in shapes]
    if any(s is None or len(s) != len(sizes[0]) for s in sizes):
        return tensor_shape.TensorShape(None)
    return tensor_shape.TensorShape([
        each[0] if len(set(each)) == 1 else None for each in zip(*sizes)])


def define(graph, body, results, label="", name=None, names=None, out_names=(),
           doc="", noinline=False, arguments=None, captures=None, batch=False):
    """Defines the function of a body in a graph and returns its name.

    Args:
      graph: the graph of the calls.
      body: a _Body.
      results: the tensors of the body that the function returns.
      label: a prefix for a name that is derived from the function's content.
      name: the name, or None to derive it.
      names: the names of the arguments; default to those of their operations.
      out_names: the names of the results.
      doc: the description of the function.
      noinline: whether TensorFlow may not inline it.
      arguments: operations; default to all arguments of the body.
      captures: the arguments from this one on stand for outer tensors, and are
        passed on by calls of itself; default to none.
      batch: whether instances of operations in its calls run as one.
    """
    if arguments is None:
        arguments = [a.op for a in body.arguments]
    if captures is None:
        captures = len(arguments)

    def definition(name):
        return _core.make_function_def(
            body, arguments, captures, results, name,
            names or [a.name for a in arguments], list(out_names), doc,
            noinline, batch)

    if name is None:
        name = label + "_" + hashlib.sha1(definition("")).hexdigest()[:8]
    _core.define_function(graph, name, definition(name))
    return name


def call(name, inputs, node_name, shapes=()):
    """Adds a call, whose results have the given static shapes."""
    op = _core.call_function(name, inputs, node_name)
    for output, shape in zip(op.outputs, shapes):
        output.set_shape(shape)
    return op


def _results(op):
    """Returns the results of a call: a Tensor, a tuple or the Operation."""
    if not op.outputs:
        return op
    return op.outputs[0] if len(op.outputs) == 1 else tuple(op.outputs)


def _refuse_calls_without(graph, name, count):
    """Raises ValueError for calls of a function with too few arguments.

    They were made when only its declaration was known, and not what its body
    takes from outside.
    """
    def refuse(who):
        raise ValueError(
            f"Function '{name}' uses tensors or variables from outside of its "
            f"body: expected calls by its declaration only in the body and "
            f"after the first call of the Defun, got {who}")

    for op in graph.get_operations():
        if op.type == name and len(op.inputs) < count:
            refuse(f"the earlier call '{op.name}'")
    for other in _core.function_names(graph):
        if other == name:
            continue
        f = protos.FunctionDef.FromString(_core.function_def(graph, other))
        if any(n.op == name and sum(not i.startswith("^")
                                    for i in n.input) < count
               for n in f.node_def):
            refuse(f"one in the function '{other}'")


class _DefinedFunction:
    """A function made by `Defun`. Calling it adds a call to the graph."""

    def __init__(self, func, argument_names, types, func_name=None,
                 grad_func=None, python_grad_func=None, out_names=None,
                 shape_func=None, capture_by_value=False, noinline=False,
                 whitelisted_stateful_ops=(), batch=False, input_shapes=None):
        if input_shapes is not None:
            input_shapes = [tensor_shape.as_shape(s) for s in input_shapes]
            if len(input_shapes) != len(types):
                raise ValueError(f"input_shapes: expected {len(types)} shapes, "
                                 f"one for each argument, got "
                                 f"{len(input_shapes)}")
        self._input_shapes = input_shapes
        self._func, self._argument_names = func, argument_names
        self._types, self._func_name = types, func_name
        self._grad_func, self._python_grad_func = grad_func, python_grad_func
        self._out_names, self._shape_func = out_names, shape_func
        self._by_value, self._noinline = capture_by_value, noinline
        self._batch = batch
        self._stateful_copies = set(whitelisted_stateful_ops or ())
        self._gradient_name = None
        self.__doc__ = func.__doc__

    def _label(self):
        name = getattr(self._func, "__name__", "function")
        return self._func_name or name.strip("<>")  # <lambda>

    def _in(self, graph, shapes=None):
        """Returns the _Instance in a graph for arguments of static shapes.

        Each is made once: the first for the shapes of the first call, others
        for all shapes so far. A function that is declared, whose calls within
        may have other shapes, is made for the given `input_shapes` or for any.
        """
        if self._grad_func is not None and self._python_grad_func is not None:
            raise ValueError(f"Gradient defined twice for function "
                             f"{self._label()}: expected grad_func or "
                             f"python_grad_func, got both")
        known = []
        for where in (graph, graphs._outermost(graph)):
            known += [i for i in where._defined.get(self, ())
                      if i not in known]
        for made in known:
            if shapes is None or self._input_shapes or made.takes(shapes):
                return made
        declared = self._func_name in _declared_names
        if self._input_shapes is not None:
            shapes = self._input_shapes
        elif shapes is None or declared:
            shapes = [tensor_shape.TensorShape(None)] * len(self._types)
        elif known:
            shapes = [_common(*each) for each in zip(
                shapes, *(i.arg_shapes for i in known))]
        made, types = self._build(graph, shapes, len(known))
        if declared and made.captured:
            _refuse_calls_without(graph, made.name,
                                  len(self._types) + len(made.captured))
            graph._captures_of_declared[made.name] = made.captured
        where = graph if made.captured else graphs._outermost(graph)
        where._defined.setdefault(self, []).append(made)
        if self._grad_func is not None:
            gradient = self._grad_func
            if isinstance(gradient, _OverloadedFunction):
                gradient = gradient.instantiate(types)
            _core.set_function_gradient(graph, made.name,
                                        gradient._in(graph).name)
        return made

    def _build(self, graph, shapes, earlier):
        """Returns (the _Instance, the dtypes of all arguments and results).

        Args:
          graph: the graph of the calls.
          shapes: the static shapes of the arguments.
          earlier: how many instances there are.
        """
        body = _Body(graph, self._by_value, self._stateful_copies)
        body.built_again = earlier > 0
        with body.as_default(), scopes.variable_scope(
                "", custom_getter=body.variable):
            results = self._func(*[
                body.argument(t, n, s) for t, n, s in zip(
                    self._types, self._argument_names, shapes)])
            if results is None or isinstance(results, _core.Operation):
                results = []
            elif not isinstance(results, (list, tuple)):
                results = [results]
            if any(r is None for r in results):
                raise ValueError("Function can not return None.")
            results = [body.capture(convert_to_tensor(r)) for r in results]
        names = list(self._argument_names) + [
            a.op.name for a in body.arguments[len(self._types):]]
        out_names = list(self._out_names or [])
        if out_names and len(out_names) != len(results):
            raise errors.InvalidArgumentError(
                None, None, f"output names must be either empty or equal in "
                f"size to outputs. output names size = {len(out_names)} "
                f"outputs size = {len(results)}")

        own_name = self._func_name
        if own_name is not None and earlier:
            own_name = f"{own_name}_{earlier}"
        name = define(graph, body, results, self._label(), own_name, names,
                      out_names, inspect.getdoc(self._func) or "",
                      bool(self._noinline), captures=len(self._types),
                      batch=bool(self._batch))
        captured = [t for t in body.captured if t.graph is graph]
        return _Instance(name, captured, [r.shape for r in results], shapes), [
            t.dtype.base_dtype for t in body.arguments + results]

    def add_to_graph(self, g):
        """Defines the function in a graph, as calls do."""
        self._in(g)

    @property
    def name(self):
        """The name in the default graph."""
        return self._in(graphs.get_default_graph()).name

    @property
    def declared_input_types(self):
        """The dtypes of the arguments."""
        return tuple(self._types)

    @property
    def captured_inputs(self):
        """The tensors of the default graph that calls pass as arguments."""
        return self._in(graphs.get_default_graph()).captured

    @property
    def definition(self):
        """The FunctionDef in the default graph."""
        graph = graphs.get_default_graph()
        return protos.FunctionDef.FromString(
            _core.function_def(graph, self._in(graph).name))

    @property
    def grad_func_name(self):
        """The name of its gradient function, or None."""
        return None if self._grad_func is None else self._grad_func.name

    @property
    def python_grad_func(self):
        """The Python function that builds its gradient, or None."""
        return self._python_grad_func

    def __call__(self, *args, **kwargs):
        graph = graphs.get_default_graph()
        node_name = kwargs.pop("name", None)
        # Bodies are always inlined and never compiled.
        for ignored in ("noinline", "compiled", "separate_compiled_gradients"):
            kwargs.pop(ignored, None)
        if kwargs:
            raise ValueError(f"Unknown keyword arguments: {list(kwargs)}")
        if len(args) != len(self._types):
            raise ValueError(f"Expected number of arguments: "
                             f"{len(self._types)}, received: {len(args)}")
        inputs = [convert_to_tensor(a, t) for a, t in zip(args, self._types)]
        for i, (given, want) in enumerate(
                zip(inputs, self._input_shapes or ())):
            if not given.shape.is_compatible_with(want):
                raise ValueError(f"Argument {i} of {self._label()}: expected "
                                 f"shape {want}, got {given.shape} of {given}")
        made = self._in(graph, [i.shape for i in inputs])
        inputs += made.captured
        own = {} if self._python_grad_func is None else {
            made.name: self._register_gradient()}
        with graph.gradient_override_map(own):
            results = _results(call(made.name, inputs,
                                    node_name or self._label(), made.shapes))
        if self._shape_func is not None:
            outputs = results if isinstance(results, tuple) else [results]
            for output, shape in zip(outputs,
                                     self._shape_func(outputs[0].op)):
                output.set_shape(shape)
        return results

    def _register_gradient(self):
        if self._gradient_name is None:
            self._gradient_name = f"{self._label()}_gradient_{next(_numbers)}"
            gradients.RegisterGradient(self._gradient_name)(
                self._python_grad_func)
        return self._gradient_name


class _OverloadedFunction:
    """A function whose argument dtypes are determined by each call."""

    def __init__(self, func, argument_names, **options):
        self._func, self._argument_names = func, argument_names
        self._options = options
        self._instances = {}
        self.__doc__ = func.__doc__

    def instantiate(self, input_types):
        """Returns the _DefinedFunction for the given dtypes."""
        types = tuple(dtypes.as_dtype(t).base_dtype for t in input_types)
        if types not in self._instances:
            options = dict(self._options)
            name = options.pop("func_name", None)
            if name is not None:
                name = "_".join([name] + [t.name for t in types])
            self._instances[types] = _DefinedFunction(
                self._func, _names(self._argument_names, len(types)), types,
                func_name=name, **options)
        return self._instances[types]

    def __call__(self, *args, **kwargs):
        args = [convert_to_tensor(a) for a in args]
        return self.instantiate([a.dtype for a in args])(*args, **kwargs)


def _names(names, count):
    """Returns `count` argument names, with generated ones for *args."""
    return list(names[:count]) + [f"arg{i}" for i in range(len(names), count)]


class Defun:
    """Decorates a Python function to become a function of the graph.

        @tf.Defun(tf.float32, tf.float32)
        def weighted(x, w):
            return x * w + 1

        y = weighted(x, 2.0)

    The body is built once and called many times. Without dtypes, they are
    determined by each call. Outer tensors and variables that the body uses are
    passed by each call. The function is differentiable, and is included in
    `Graph.as_graph_def`. For recursive functions see `Declare`.

    Args:
      *input_types: the dtypes of the arguments.
      func_name: the name in the graph; derived from the body by default.
      grad_func: the gradient, a Defun from the arguments and the gradients of
        the results to the gradients of the arguments.
      python_grad_func: the gradient as a Python function of the operation of
        the call and the gradients of its results.
      out_names: the names of the results.
      shape_func: a function from the operation of a call to the shapes of its
        results.
      noinline: whether TensorFlow may not inline the function.
      capture_by_value: whether to copy outer operations instead of passing
        their tensors.
      whitelisted_stateful_ops: stateful outer operations that may be copied.
      batch: for recursive functions, whether instances of the same operation in
        different calls, and in loops and functions within, run as one where
        they can. Results are equal within rounding. (Not in TensorFlow.)
      input_shapes: the static shapes of the arguments, None where one is not
        known; calls with others are errors. By default the body is built for
        the shapes of the first call, and once more if a call has others; that
        of a declared function for any shapes. (Not in TensorFlow.)
    """

    def __init__(self, *input_types, **kwargs):
        self._types = tuple(dtypes.as_dtype(t) for t in input_types)
        known = ("func_name", "grad_func", "python_grad_func", "out_names",
                 "shape_func", "noinline", "capture_by_value",
                 "whitelisted_stateful_ops", "batch", "input_shapes",
                 "compiled", "separate_compiled_gradients")
        for name in kwargs:
            if name not in known:
                near = ", ".join(_core.nearest_names(name, list(known)))
                raise TypeError(f"Defun: unexpected keyword argument {name!r}"
                                f"{f' (nearest: {near})' if near else ''}")
        self._options = {name: value for name, value in kwargs.items()
                         if "compiled" not in name}

    def __call__(self, func):
        if not callable(func):
            raise ValueError(f"func {func!r} must be callable")
        parameters = list(inspect.signature(func).parameters.values())
        if any(p.default is not p.empty or p.kind in (
                p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in parameters):
            raise ValueError("Functions with argument defaults or keywords "
                             "arguments are not supported. "
                             f"{func!r}")
        names = [p.name for p in parameters if p.kind != p.VAR_POSITIONAL]
        varargs = len(names) < len(parameters)
        given = len(self._types)
        if given or not parameters:
            if given < len(names):
                raise ValueError("The function has more arguments than the "
                                 "number of specified input types.")
            if given > len(names) and not varargs:
                raise ValueError("The function has fewer arguments than the "
                                 "number of specified input types.")
            return _DefinedFunction(func, _names(names, given), self._types,
                                    **self._options)
        return _OverloadedFunction(func, names, **self._options)


class Declare:
    """Declares a function that a Defun of the same name defines later.

    This enables recursive functions.

        fac = tf.Declare("Fac", [("n", tf.int32)], [("result", tf.int32)])

        @tf.Defun(tf.int32, func_name="Fac", out_names=["result"])
        def defined(n):
            return tf.cond(n <= 1, lambda: 1, lambda: n * fac(n - 1))

    The body may use outer tensors and variables, which calls within it pass on.
    Calls outside then come after the first call of the Defun (`defined(10)`),
    when these are known; earlier ones make that call an error.

    An output may have a static shape as a third element, which the results of
    calls then have: `[("state", tf.float32, [1, 128])]`. (Not in TensorFlow.)
    """

    def __init__(self, func_name, inputs, outputs):
        self.name = func_name
        _declared_names.add(func_name)
        self._inputs = [(n, dtypes.as_dtype(t)) for n, t in inputs]
        self._outputs = [(o[0], dtypes.as_dtype(o[1])) for o in outputs]
        self._shapes = [tensor_shape.as_shape(o[2] if len(o) > 2 else None)
                        for o in outputs]

    def __call__(self, *inputs, **kwargs):
        graph = graphs.get_default_graph()
        if len(inputs) != len(self._inputs):
            raise ValueError(f"Expected number of arguments: "
                             f"{len(self._inputs)}, received: {len(inputs)}")
        if _core.function_def(graph, self.name) is None:
            _core.declare_function(
                graph, self.name, [t for _, t in self._inputs],
                [n for n, _ in self._inputs], [t for _, t in self._outputs],
                [n for n, _ in self._outputs])
        where, captured = graph, None
        while where is not None and captured is None:
            captured = where._captures_of_declared.get(self.name)
            where = getattr(where, "outer", None)
        return _results(call(
            self.name, [convert_to_tensor(a, t)
                        for a, (_, t) in zip(inputs, self._inputs)] +
            (captured or []), kwargs.pop("name", None) or self.name,
            self._shapes))
