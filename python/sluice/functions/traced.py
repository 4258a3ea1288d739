"""`tf.function`: Python functions as functions of the graph, one for each kind
of arguments that they are called with."""

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
    """IndexedSlices whose parts are tensors; all else as it is."""
    return IndexedSlices(*map(convert_to_tensor, parts(value))) if isinstance(
        value, IndexedSlices) else value


def _spec_of(value):
    """What is known of a tensor, or of what is made of some; else None."""
    if isinstance(value, _core.Tensor):
        return TensorSpec(value.shape, value.dtype.base_dtype)
    spec = getattr(value, "_type_spec", None)
    return spec if isinstance(spec, TypeSpec) else None


def _tensors(spec, value):
    """The tensors that a value of this spec is made of."""
    if isinstance(value, _core.Tensor):
        return [value]
    return nest.flatten(spec._to_components(value), expand_composites=True)


def _of_tensors(spec, tensors):
    """The value of this spec that is made of the next tensors."""
    if isinstance(spec, TensorSpec):
        return next(tensors)
    return nest.pack_sequence_as(
        spec, [next(tensors) for _ in nest.flatten(spec, True)],
        expand_composites=True)


class _Outputs:
    """What a body returned: a structure of tensors, of what is made of some,
    and of None, all of the body; and the tensors in it."""

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
        """The same structure of what a call gives."""
        if not self.tensors:
            return op
        outputs = iter(op.outputs)
        return nest.pack_sequence_as(self.structure, [
            spec and _of_tensors(spec, outputs) for spec in self._specs])


class _Trace:
    """A body that was built: its name in the graph, the outer tensors that
    calls pass too, the graph of the body and what it returns there."""

    def __init__(self, name, label, body, outputs, arguments):
        self.name, self.label, self.body = name, label, body
        self.outputs = outputs
        self.arguments = arguments  # Those that stand for arguments of calls.
        self.captured = [t for t in body.captured if t.graph is body.outer]
        self.concrete = None  # What get_concrete_function made of it.

    def call(self, tensors):
        """A call in the default graph: what it gives."""
        return self.outputs.of_call(call(
            self.name, tensors + self.captured, self.label,
            [t.shape for t in self.outputs.tensors]))


def _is_array(value):
    return isinstance(value, _core.Tensor) or hasattr(
        value, "__array_interface__") or hasattr(value, "__array_struct__")


def _static(value):
    """What stands for a value that is part of the function."""
    try:
        hash(value)
    except TypeError:
        return _Reference(value)  # (Held: another could be where it was.)
    return type(value), value


class _Method(functools.partial):
    """A Function as a method of an object."""

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
    """What `function` makes: called, it adds a call to the graph."""

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
        """A value (or a structure of them, or specs of these) as
        input_signature says."""
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
        """(the arguments' structure, of each of its leaves: its name, its spec
        or None, the value), tensors made of those that are arrays, or that
        `input_signature` says are tensors."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        args, signed = list(bound.args), {}
        if self.input_signature is not None:
            specs = list(self.input_signature)
            first = len(args) - len(specs)  # (`self` may come before.)
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
        """The names of the arguments that have a place."""
        names, more = [], "args"
        for p in self._signature.parameters.values():
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
                names.append(p.name)
            elif p.kind == p.VAR_POSITIONAL:
                more = p.name
        return names + [f"{more}_{i}" for i in range(count - len(names))]

    def _find(self, graph, structure, leaves):
        """The _Trace for such arguments."""
        key = (self, str(nest.map_structure(lambda _: 0, structure)), *(
            _static(leaf) if spec is None else spec for _, spec, leaf in leaves))
        outermost = graphs._outermost(graph)
        trace = graph._defined.get(key) or outermost._defined.get(key)
        if trace is None:
            trace = self._trace(graph, structure, leaves)
            (graph if trace.captured else outermost)._defined[key] = trace
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
        """The function of the graph for arguments like these, which calls are
        made of: its graph, inputs, outputs and variables.

        Args:
          *args, **kwargs: as for a call, with TensorSpecs (SparseTensorSpecs,
            ...) where tensors are given; none, if there is an
            input_signature.
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
        body = _Body(graph, False)

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
    """An operation's name like an argument's."""
    return re.sub(r"[^A-Za-z0-9_.\\/-]", "_", name).lstrip("_/\\-") or "arg"


def function(func=None, input_signature=None, autograph=True,
             experimental_implements=None, experimental_autograph_options=None,
             experimental_relax_shapes=False, experimental_compile=None):
    """A decorator: the function's body becomes a function of the graph.

        @tf.function
        def scaled(x, by=2.0):
            return {"scaled": x * by}

        y = scaled(tf.constant([1.0]))["scaled"]

    It is built once for each types and shapes of the tensors that it is called
    with, and for each value of its other arguments. What it changes is changed
    in the program's order. Python's own `if` and `while` see no values: use
    `tf.cond` and `tf.while_loop`.

    Args:
      func: the function; without it, a decorator is returned.
      input_signature: TensorSpecs of the arguments (or SparseTensorSpecs, ...;
        in structures, too), which are all tensors then, and of any shape that
        fits: one body for all of them.
      autograph, experimental_implements, experimental_autograph_options,
      experimental_relax_shapes, experimental_compile: without effect.
    """
    if func is None:
        return lambda f: Function(f, input_signature)
    return Function(func, input_signature)


defun = function  # (Its name in tensorflow.python.eager.function.)
