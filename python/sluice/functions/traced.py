"""`tf.function`: functions of the graph, one per signature of arguments."""

import functools
import inspect
import re

from sluice import _core
from sluice.framework import graph as graphs, nest
from sluice.framework.conversion import IndexedSlices, convert_to_tensor, parts
from sluice.framework.references import _Reference
from sluice.framework.specs import TensorSpec
from sluice.framework.type_spec import TypeSpec
from sluice.functions.concrete import ConcreteFunction
from sluice.functions.function import _Body, call, define
from sluice.ops import variable_scope as scopes


def _of_parts(value):
    """Converts the parts of IndexedSlices to tensors."""
    return IndexedSlices(*map(convert_to_tensor, parts(value))) if isinstance(
        value, IndexedSlices) else value


def _spec_of(value):
    """Returns the spec of a tensor or composite tensor, or None."""
    if isinstance(value, _core.Tensor):
        return TensorSpec(value.shape, value.dtype.base_dtype)
    spec = getattr(value, "_type_spec", None)
    return spec if isinstance(spec, TypeSpec) else None


def _tensors(spec, value):
    """Returns the component tensors of a value with a spec."""
    if isinstance(value, _core.Tensor):
        return [value]
    return nest.flatten(spec._to_components(value), expand_composites=True)


def _of_tensors(spec, tensors):
    """Makes the value of a spec from the next tensors of an iterator."""
    if isinstance(spec, TensorSpec):
        return next(tensors)
    return nest.pack_sequence_as(
        spec, [next(tensors) for _ in nest.flatten(spec, True)],
        expand_composites=True)


class _Outputs:
    """The return value of a body: a structure, and its tensors in the body.

    The structure consists of tensors, composite tensors and None.
    """

    def __init__(self, body, returned):
        self.tensors = []

        def leaf(value):
            if value is None or isinstance(value, _core.Operation):
                return None
            value = _of_parts(value)
            if _spec_of(value) is None:
                value = convert_to_tensor(value)
            spec = _spec_of(value)
            made = [body.capture(t) for t in _tensors(spec, value)]
            self.tensors.extend(made)
            return _of_tensors(spec, iter(made))
        self.structure = nest.map_structure(leaf, returned)
        self._specs = [None if leaf is None else _spec_of(leaf)
                       for leaf in nest.flatten(self.structure)]

    def of_call(self, op):
        """Returns the structure with the outputs of a call."""
        if not self.tensors:
            return op
        outputs = iter(op.outputs)
        return nest.pack_sequence_as(self.structure, [
            spec and _of_tensors(spec, outputs) for spec in self._specs])


class _TracedBody(_Body):
    """A body whose operations may have control inputs from outside.

    The calls have them instead.
    """

    def __init__(self, outer):
        super().__init__(outer, False)
        self.control_captures = {}  # Outer operations.

    def control_dependencies(self, control_inputs):
        """Returns a context manager that adds control inputs to operations."""
        if control_inputs is not None:
            control_inputs = [c for c in control_inputs
                              if not self._captures_control(c)]
        return super().control_dependencies(control_inputs)

    def _captures_control(self, c):
        if not isinstance(c, (_core.Operation, _core.Tensor)):
            return False
        op = getattr(c, "op", c)
        outer = self.outer
        while outer is not op.graph and outer.building_function:
            outer = outer.outer
        if op.graph is self or outer is not op.graph:
            return False
        self.control_captures[op] = None
        return True


class _Trace:
    """A function's body with its name in the graph, outputs and captures."""

    def __init__(self, name, label, body, outputs, arguments):
        self.name, self.label, self.body = name, label, body
        self.outputs = outputs
        self.arguments = arguments  # The arguments without captured tensors.
        self.captured = [t for t in body.captured if t.graph is body.outer]
        self.control_captures = list(body.control_captures)
        self.concrete = None  # The result of get_concrete_function.

    def call(self, tensors):
        """Adds a call to the default graph; returns its results."""
        with graphs.control_dependencies(self.control_captures):
            return self.outputs.of_call(call(
                self.name, tensors + self.captured, self.label,
                [t.shape for t in self.outputs.tensors]))


def _is_array(value):
    return isinstance(value, _core.Tensor) or hasattr(
        value, "__array_interface__") or hasattr(value, "__array_struct__")


def _static(value):
    """Returns the cache key of a value that is part of the function."""
    try:
        hash(value)
    except TypeError:
        return _Reference(value)  # Keeps it alive, so its id stays unique.
    return type(value), value


class _Method(functools.partial):
    """A Function bound to an object."""

    def get_concrete_function(self, *args, **kwargs):
        """See Function.get_concrete_function."""
        if not args and not kwargs:
            args = self.func.input_signature or ()
        return self.func.get_concrete_function(*self.args, *args, **kwargs)

    def __getattr__(self, name):
        return getattr(self.func, name)


def _check_signature(signature):
    if not isinstance(signature, (list, tuple)):
        raise TypeError(f"input_signature must be either a tuple or a list, "
                        f"got {type(signature)}.")
    wrong = [s for s in nest.flatten(signature) if not isinstance(s, TypeSpec)]
    if wrong:
        raise TypeError(f"input_signature must be a possibly nested sequence "
                        f"of TensorSpec objects, got invalid args {wrong} with "
                        f"types {[type(s) for s in wrong]}.")
    return tuple(signature)


class Function:
    """A function made by `function`. Calling it adds a call to the graph."""

    def __init__(self, python_function, input_signature=None):
        self.python_function = python_function
        self.input_signature = None if input_signature is None else (
            _check_signature(input_signature))
        self._signature = inspect.signature(python_function)
        functools.update_wrapper(self, python_function)
        self.__name__ = getattr(python_function, "__name__",
                                type(python_function).__name__)

    def __get__(self, instance, owner):
        return self if instance is None else _Method(self, instance)

    def _by(self, spec, value):
        """Converts a value, or a structure, according to input_signature.

        Leaves may also be specs.
        """
        if isinstance(spec, dict):
            return {k: self._by(s, value[k]) for k, s in spec.items()}
        if isinstance(spec, (list, tuple)):
            return [self._by(s, v) for s, v in zip(spec, value)]
        if not isinstance(value, TypeSpec):
            if isinstance(spec, TensorSpec):
                value = convert_to_tensor(value, spec.dtype)
            if spec.is_compatible_with(value):
                return value
        elif spec.is_compatible_with(value):
            return spec
        if not isinstance(spec, TensorSpec) or isinstance(value, TypeSpec):
            raise ValueError(f"{self.__name__}: expected {spec}, as "
                             f"input_signature says, got {value!r}")
        raise ValueError(f"{self.__name__}: expected the shape {spec.shape} of "
                         f"input_signature, got {value.shape}")

    def _leaves(self, args, kwargs):
        """Returns (structure of the arguments, [(name, spec or None, value)]).

        Arrays are converted to tensors, and so are values that
        `input_signature` declares as tensors.
        """
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        args, signed = list(bound.args), {}
        if self.input_signature is not None:
            specs = list(self.input_signature)
            first = len(args) - len(specs)  # 1 if there is a `self`.
            if first not in (0, 1):
                raise ValueError(
                    f"{self.__name__}: expected {len(specs)} arguments, as "
                    f"input_signature says, got {len(args)}")
            args[first:] = self._by(specs, args[first:])
            signed = dict(enumerate(specs, first))
        names = self._names(len(args))
        leaves = []

        def add(name, value, specs):
            for i, leaf in enumerate(nest.flatten(value)):
                if isinstance(leaf, TypeSpec):
                    spec = leaf
                else:
                    leaf = convert_to_tensor(leaf) if _is_array(leaf) else (
                        _of_parts(leaf))
                    spec = specs[i] if specs else _spec_of(leaf)
                leaves.append((name, spec, leaf))
        for i, arg in enumerate(args):
            add(names[i], arg, nest.flatten(signed[i]) if i in signed else None)
        for name, arg in sorted(bound.kwargs.items()):
            add(name, arg, None)
        return [args, dict(bound.kwargs)], leaves

    def _names(self, count):
        """Returns the names of the positional arguments."""
        names, more = [], "args"
        for p in self._signature.parameters.values():
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
                names.append(p.name)
            elif p.kind == p.VAR_POSITIONAL:
                more = p.name
        return names + [f"{more}_{i}" for i in range(count - len(names))]

    def _find(self, graph, structure, leaves):
        """Returns the _Trace for the arguments, which is made once."""
        key = (self, str(nest.map_structure(lambda _: 0, structure)), *(
            _static(leaf) if spec is None else spec for _, spec, leaf in leaves))
        outermost = graphs._outermost(graph)
        trace = graph._defined.get(key) or outermost._defined.get(key)
        if trace is None:
            trace = self._trace(graph, structure, leaves)
            (graph if trace.captured or trace.control_captures
             else outermost)._defined[key] = trace
        return trace

    def __call__(self, *args, **kwargs):
        structure, leaves = self._leaves(args, kwargs)
        tensors = []
        for name, spec, leaf in leaves:
            if isinstance(leaf, TypeSpec):
                raise TypeError(f"{self.__name__}: expected a value of the "
                                f"argument {name!r}, got {leaf}")
            if spec is not None:
                tensors.extend(_tensors(spec, leaf))
        return self._find(graphs.get_default_graph(), structure,
                          leaves).call(tensors)

    def get_concrete_function(self, *args, **kwargs):
        """Returns the function of the graph for the given arguments.

        Args:
          *args, **kwargs: the arguments of a call, in which TensorSpecs
            (SparseTensorSpecs, ...) may replace tensors. They may be omitted
            if there is an input_signature.
        """
        if not args and not kwargs:
            args = self.input_signature or ()
        structure, leaves = self._leaves(args, kwargs)
        trace = self._find(graphs.get_default_graph(), structure, leaves)
        if trace.concrete is None:
            trace.concrete = ConcreteFunction(self, trace, structure, leaves)
        return trace.concrete

    def _trace(self, graph, structure, leaves):
        outermost = graphs._outermost(graph)
        before = len(outermost.get_collection(
            graphs.GraphKeys.GLOBAL_VARIABLES))
        body = _TracedBody(graph)

        def argument(name, spec, leaf):
            if spec is None:
                return leaf
            return _of_tensors(spec, iter([
                body.argument(s.dtype.base_dtype, _op_name(s.name or name),
                              s.shape)
                for s in nest.flatten(spec, expand_composites=True)]))
        with body.as_default(), scopes.variable_scope(
                "", custom_getter=body.variable):
            args, kwargs = nest.pack_sequence_as(
                structure, [argument(*leaf) for leaf in leaves])
            arguments = list(body.arguments)
            outputs = _Outputs(body, self.python_function(*args, **kwargs))
        if (self, "traced") in outermost._defined and before != len(
                outermost.get_collection(graphs.GraphKeys.GLOBAL_VARIABLES)):
            raise ValueError("tf.function-decorated function tried to create "
                             "variables on non-first call.")
        outermost._defined[self, "traced"] = True
        _core.order_effects(body)

        label = self.__name__.strip("<>")
        name = define(graph, body, outputs.tensors, "__inference_" + label,
                      doc=inspect.getdoc(self.python_function) or "")
        return _Trace(name, label, body, outputs, arguments)


def _op_name(name):
    """Converts the name of an argument to a valid operation name."""
    return re.sub(r"[^A-Za-z0-9_.\\/-]", "_", name).lstrip("_/\\-") or "arg"


def function(func=None, input_signature=None, autograph=True,
             experimental_implements=None, experimental_autograph_options=None,
             experimental_relax_shapes=False, experimental_compile=None):
    """Decorates a Python function to become a function of the graph.

        @tf.function
        def scaled(x, by=2.0):
            return {"scaled": x * by}

        y = scaled(tf.constant([1.0]))["scaled"]

    The body is built once for each combination of tensor dtypes and shapes and
    of values of other arguments. Side effects happen in program order. Python's
    `if` and `while` do not see values of tensors: use `tf.cond` and
    `tf.while_loop`.

    Args:
      func: the function; if it is None, a decorator is returned.
      input_signature: the TensorSpecs (or SparseTensorSpecs, ..., also nested)
        of the arguments, which must then be tensors. There is a single body for
        all compatible shapes.
      autograph, experimental_implements, experimental_autograph_options,
      experimental_relax_shapes, experimental_compile: ignored.
    """
    if func is None:
        return lambda f: Function(f, input_signature)
    return Function(func, input_signature)


defun = function  # The name in tensorflow.python.eager.function.
