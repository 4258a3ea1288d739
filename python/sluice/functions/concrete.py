"""Concrete functions: `tf.function` for one signature of arguments."""

import inspect

from sluice import _core
from sluice.framework import graph as graphs, nest, protos
from sluice.framework.conversion import convert_to_tensor, parts
from sluice.framework.specs import TensorSpec
from sluice.framework.type_spec import TypeSpec
from sluice.functions.function import define


def _described(value):
    """Formats a structure of specs and values for messages."""
    if isinstance(value, dict):
        inner = ", ".join(f"[{k!r}, {_described(v)}]" for k, v in value.items())
        return f"Dict[{inner}]"
    if isinstance(value, (list, tuple)):
        kind = "List" if isinstance(value, list) else "Tuple"
        return f"{kind}[{', '.join(map(_described, value))}]"
    return repr(value) if isinstance(value, TypeSpec) else f"Literal[{value!r}]"


def _unnamed(spec):
    return TensorSpec(spec.shape, spec.dtype) if isinstance(
        spec, TensorSpec) else spec


class ConcreteFunction:
    """A single function of the graph: the result of `get_concrete_function`.

    Calling it with tensors adds a call to the graph. A call takes either the
    arguments of the Python function or all tensors, in order or by the names of
    `inputs`. Values that are part of the function may be omitted, but must not
    differ.
    """

    def __init__(self, function, trace, structure, leaves):
        self._python_signature = function._signature
        self._trace, self._structure, self._leaves = trace, structure, leaves
        self.graph = trace.body
        named = iter(trace.arguments)

        def spec(name, spec, leaf):
            if spec is None:
                return leaf
            mine = [next(named) for _ in nest.flatten(
                spec, expand_composites=True)]
            if type(spec) is not TensorSpec:
                return spec
            return TensorSpec.from_spec(spec, spec.name or mine[0].op.name)
        args, kwargs = nest.pack_sequence_as(
            structure, [spec(*leaf) for leaf in leaves])
        self.structured_input_signature = tuple(args), kwargs

    @property
    def name(self):
        """The name in the graph."""
        return self._trace.name

    @property
    def inputs(self):
        """The input tensors of the body: arguments, then captured tensors."""
        return list(self.graph.arguments)

    @property
    def outputs(self):
        """The output tensors of the body."""
        return list(self._trace.outputs.tensors)

    @property
    def structured_outputs(self):
        """The outputs (and Nones) in the structure that Python returned."""
        return self._trace.outputs.structure

    @property
    def captured_inputs(self):
        """The outer tensors that calls pass as additional arguments."""
        return list(self._trace.captured)

    @property
    def variables(self):
        """The variables that the function created, requested or used."""
        found = list(self.graph.variables)
        outermost = graphs._outermost(self.graph.outer)
        for key in (graphs.GraphKeys.GLOBAL_VARIABLES,
                    graphs.GraphKeys.LOCAL_VARIABLES):
            found += [v for v in outermost.get_collection(key)
                      if getattr(v, "_handle", None) in self.graph.captured or
                      getattr(v, "_snapshot", None) in self.graph.captured]
        return tuple({id(v): v for v in found}.values())

    @property
    def trainable_variables(self):
        """The variables that optimizers update."""
        return tuple(v for v in self.variables if v.trainable)

    def _of_outputs(self, what):
        def leaf(value):
            if value is None:
                return None
            made = [what(t) for t in parts(value)]
            return made[0] if isinstance(value, _core.Tensor) else made
        return nest.map_structure(leaf, self.structured_outputs)

    @property
    def output_dtypes(self):
        """The dtypes of the results, in their structure."""
        return self._of_outputs(lambda t: t.dtype)

    @property
    def output_shapes(self):
        """The static shapes of the results, in their structure."""
        return self._of_outputs(lambda t: t.shape)

    @property
    def function_def(self):
        """The function as a FunctionDef."""
        return protos.FunctionDef.FromString(
            _core.function_def(self.graph.outer, self.name))

    def add_to_graph(self, g=None):
        """Defines the function in a graph (the default one), as calls do."""
        g = graphs._outermost(graphs.get_default_graph() if g is None else g)
        if g is graphs._outermost(self.graph.outer) or self in g._defined:
            return
        if self._trace.captured:
            raise ValueError(f"{self.name}: expected a call in the graph of "
                             f"what it uses, {self._trace.captured[0].name!r}, "
                             f"got another graph")
        define(g, self.graph, self.outputs, name=self.name)
        g._defined[self] = True

    def _whole(self, args, kwargs):
        """Returns [(spec, value)] for the arguments of the Python function.

        Values that are part of the function may be missing. Returns None if
        the arguments do not match.
        """
        signature = self._python_signature
        try:
            bound = signature.bind_partial(*args, **kwargs)
        except TypeError:
            return None
        traced = signature.bind_partial(*self._structure[0],
                                        **self._structure[1])
        fixed = {id(leaf) for _, spec, leaf in self._leaves if spec is None}
        for name, value in traced.arguments.items():
            if all(id(leaf) in fixed for leaf in nest.flatten(value)):
                bound.arguments.setdefault(name, value)
        bound = inspect.BoundArguments(signature, {
            name: bound.arguments[name] for name in signature.parameters
            if name in bound.arguments})
        structure = [list(bound.args), dict(bound.kwargs)]
        try:
            given = nest.flatten_up_to(self._structure, structure,
                                       check_types=False)
        except (TypeError, ValueError):
            return None
        found = []
        for (_, spec, leaf), value in zip(self._leaves, given):
            if spec is not None:
                found.append((spec, value))
            elif value is not leaf and not _equal(value, leaf):
                return None
        return found

    def _one_by_one(self, args, kwargs):
        """Returns [(spec, value)] for tensors given one by one."""
        rest = dict(kwargs)
        tensors = self._trace.arguments
        if len(args) > len(tensors):
            raise TypeError(f"{self._trace.label}: expected "
                            f"{self._describe_inputs()}, got {len(args)} "
                            f"arguments that have no name")
        given = list(args)
        for t in tensors[len(args):]:
            if t.op.name not in rest:
                raise TypeError(f"{self._trace.label}: expected "
                                f"{self._describe_inputs()}, got no "
                                f"{t.op.name!r}")
            given.append(rest.pop(t.op.name))
        if rest:
            raise TypeError(f"{self._trace.label}: expected "
                            f"{self._describe_inputs()}, got "
                            f"{sorted(rest)[0]!r}, too")
        return [(TensorSpec.from_tensor(t), v) for t, v in zip(tensors, given)]

    def _describe_inputs(self):
        return self._python_arguments() + ", or its tensors " + repr(
            [t.op.name for t in self._trace.arguments])

    def _python_arguments(self):
        return "(" + ", ".join(f"{name}: {_described(value)}" for name, _, value
                               in self._parameters()) + ")"

    def __call__(self, *args, **kwargs):
        found = self._whole(args, kwargs)
        if found is None and self._leaves and self._leaves[0][1] is None:
            # For a method, the object is part of the function.
            found = self._whole((self._leaves[0][2], *args), kwargs)
        if found is None:
            found = self._one_by_one(args, kwargs)
        tensors = []
        for spec, value in found:
            if isinstance(spec, TensorSpec):
                value = convert_to_tensor(value, spec.dtype)
            if not spec.is_compatible_with(value):
                raise ValueError(f"{self._trace.label}: expected {spec}, got "
                                 f"{value!r}")
            tensors += nest.flatten(spec._to_components(value),
                                    expand_composites=True)
        self.add_to_graph()
        return self._trace.call(tensors)

    def _parameters(self):
        """Returns (name, kind, spec or value) of each argument."""
        def shown(_, spec, leaf):
            if spec is None or isinstance(leaf, TypeSpec):
                return leaf
            return _unnamed(spec)
        args, kwargs = nest.pack_sequence_as(
            self._structure, [shown(*leaf) for leaf in self._leaves])
        parameters = list(self._python_signature.parameters.values())
        places = [p for p in parameters if p.kind in (
            p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        more = next((p.name for p in parameters
                     if p.kind == p.VAR_POSITIONAL), "args")
        return [
            (places[i].name if i < len(places) else
             f"{more}_{i - len(places)}",
             places[i].kind.name if i < len(places) else "POSITIONAL_ONLY", a)
            for i, a in enumerate(args)] + [
                (k, "KEYWORD_ONLY", v) for k, v in kwargs.items()]

    def pretty_printed_signature(self, verbose=True):
        """Returns a description of the arguments, results and captures.

        It has several lines, or one if `verbose` is false.
        """
        out = _described(nest.map_structure(
            lambda v: v if v is None else _unnamed(
                TensorSpec.from_tensor(v) if isinstance(v, _core.Tensor)
                else v._type_spec), self.structured_outputs))
        if not verbose:
            return f"{self._trace.label}{self._python_arguments()} -> {out}"
        lines = ["Input Parameters:"]
        lines += [f"  {name} ({kind}): {_described(value)}"
                  for name, kind, value in self._parameters()] or ["  None"]
        lines += ["Output Type:", "  " + out, "Captures:"]
        lines += [f"  {t.name}: {_unnamed(TensorSpec.from_tensor(t))}"
                  for t in self._trace.captured] or ["  None"]
        return "\n".join(lines)

    def __str__(self):
        return "ConcreteFunction " + self.pretty_printed_signature()

    def __repr__(self):
        return (f"<ConcreteFunction "
                f"{self.pretty_printed_signature(verbose=False)}>")


def _equal(a, b):
    """Returns whether two values that are part of a function are equal."""
    try:
        return type(a) is type(b) and bool(a == b)
    except (TypeError, ValueError):
        return False
