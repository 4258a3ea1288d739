"""`tf.wrap_function`: a graph built once by a Python function, and parts of it.

Unlike calls of `tf.function`, a call runs only what its results depend on, in
the order that the graph requires.
"""

from sluice import _core
from sluice.framework import graph as graphs, nest, protos, specs
from sluice.framework.conversion import (
    IndexedSlices, SparseTensor, convert_to_tensor, parts)
from sluice.framework.graph import GraphKeys
from sluice.functions.function import _Body, call, define
from sluice.ops import variable_scope as scopes


class _WrappedBody(_Body):
    """A wrapped graph.

    Its variables belong to the outer graph, and are also in its own
    collections. `get_variable` finds them by their names in the wrapped graph.
    """

    uses_resources = True
    stored_variable = None

    def add_variable(self, variable):
        """Records a variable that the body created or requested."""
        if any(variable is v for v in self.variables):
            return
        super().add_variable(variable)
        self.add_to_collection(GraphKeys.GLOBAL_VARIABLES, variable)
        if variable.trainable:
            self.add_to_collection(GraphKeys.TRAINABLE_VARIABLES, variable)


def _needed(graph, sources, fetches):
    """Returns the names of the operations between sources and fetches."""
    needed, waiting = set(), []

    def visit(part):
        op = getattr(part, "op", part)
        if part in sources or op.name in needed:
            return
        if op.type == "_Arg":
            raise ValueError(f"Unable to lift tensor {part!r}: it depends on "
                             f"the input {op.name!r}, which is not fed")
        needed.add(op.name)
        waiting.append(op)

    for fetch in fetches:
        visit(fetch)
    while waiting:
        op = waiting.pop()
        for part in op.inputs:
            visit(part)
        for before in op.control_inputs:
            if not any(before is s.op for s in sources
                       if before.type == "_Arg"):
                visit(before)
    return needed


def _lift(graph, feeds, fetches):
    """Copies the part of a graph that computes fetches to a new body.

    Returns:
      (the body, its arguments for `feeds`, the fetches in the body). The body
      captures the same outer tensors.
    """
    body = _Body(graph.outer, False)
    inside = {inner: outer for outer, inner in graph.captured.items()
              if outer.graph is graph.outer}
    needed = _needed(graph, {*feeds, *inside}, fetches)
    stands = {}
    for i, t in enumerate(feeds):
        name = t.op.name
        while name in needed:  # The operation of the feed may be needed too.
            name = f"{name}_arg_{i}"
        stands[t] = body.argument(t.dtype.base_dtype, name, t.shape)
    for inner, outer in inside.items():
        stands[inner] = body.capture(outer)
    made = protos.GraphDef()
    made.node.extend(n for n in graph.as_graph_def().node if n.name in needed)
    renamed = {t.name: s for t, s in stands.items()}
    renamed.update({"^" + t.op.name: s for t, s in stands.items()
                    if t.op.type == "_Arg"})
    wanted = [f for f in fetches if f not in stands]
    found = dict(zip(wanted, body._import(
        made.SerializeToString(), "", renamed, [f.name for f in wanted])))
    return body, [stands[t] for t in feeds], [
        stands[f] if f in stands else found[f] for f in fetches]


class WrappedFunction:
    """A function made by `wrap_function`. Calling it adds a call to the graph.

    `graph` is the wrapped graph.
    """

    def __init__(self, graph, feeds, structures, fetches, name, signature,
                 keywords=None):
        self.graph, self._feeds = graph, feeds
        self._structures = structures  # Structures of TensorSpecs by argument.
        self.structured_outputs = fetches
        self.structured_input_signature = signature
        self._keywords = keywords  # The names of arguments, or None.
        self._label = name
        self._parts = [p for f in nest.flatten(fetches) if f is not None
                       for p in parts(f)]

    @property
    def inputs(self):
        """The input tensors of the graph: arguments, then captured tensors."""
        return self._feeds + [
            inner for outer, inner in self.graph.captured.items()
            if outer.graph is self.graph.outer]

    @property
    def outputs(self):
        """The output tensors of the graph."""
        return [p for p in self._parts if isinstance(p, _core.Tensor)]

    @property
    def captured_inputs(self):
        """The outer tensors that calls pass as additional arguments."""
        return [t for t in self.graph.captured if t.graph is self.graph.outer]

    @property
    def variables(self):
        """The variables that the function created or requested."""
        return tuple(self.graph.variables)

    @property
    def trainable_variables(self):
        """The variables that optimizers update."""
        return tuple(v for v in self.variables if v.trainable)

    @property
    def name(self):
        """The name in the default graph."""
        return self._defined(graphs.get_default_graph())[0]

    def _defined(self, graph):
        """Returns (name in a graph, captured tensors); defines it if needed."""
        where = graph if self.graph.captured else graphs._outermost(graph)
        if self not in where._defined:
            body, arguments, found = _lift(self.graph, self._feeds, self._parts)
            results = [p for p in found if isinstance(p, _core.Tensor)]
            captured = [t for t in body.captured if t.graph is body.outer]
            arguments = [a.op for a in arguments] + [
                body.captured[t].op for t in captured]
            name = define(graph, body, results, "__inference_" + self._label,
                          arguments=arguments)
            where._defined[self] = name, captured
        return where._defined[self]

    def _arguments(self, args, kwargs):
        if kwargs and self._keywords is None:
            raise NotImplementedError(
                f"Keyword arguments are not supported when calling a "
                f"wrap_function-decorated function. Got {kwargs}.")
        args, rest = list(args), dict(kwargs)
        for name in (self._keywords or [])[len(args):]:
            if name in rest:
                args.append(rest.pop(name))
        if rest or len(args) != len(self._structures):
            raise TypeError(f"{self._label}: expected {len(self._structures)} "
                            f"arguments, got {len(args)}" + "".join(
                                f", and {name!r}" for name in rest))
        values = [value for structure, arg in zip(self._structures, args)
                  for spec, value in zip(nest.flatten(structure),
                                         nest.flatten_up_to(structure, arg))
                  if isinstance(spec, specs.TypeSpec)
                  for value in (nest.flatten(spec._to_components(value), True)
                                if not isinstance(spec, specs.TensorSpec)
                                else [value])]
        tensors = []
        for value, feed in zip(values, self._feeds):
            t = convert_to_tensor(value, feed.dtype.base_dtype)
            if not t.shape.is_compatible_with(feed.shape):
                raise ValueError(
                    f"Tensor {t} is not compatible with the shape this "
                    f"function was traced with. Expected shape {feed.shape}, "
                    f"but got shape {t.shape}.")
            tensors.append(t)
        return tensors

    def __call__(self, *args, **kwargs):
        tensors = self._arguments(args, kwargs)
        name, captured = self._defined(graphs.get_default_graph())
        op = call(name, tensors + captured, self._label,
                  [t.shape for t in self.outputs])
        results = iter(op.outputs)

        def result(fetch):
            if fetch is None or isinstance(fetch, _core.Operation):
                return None
            made = [next(results) for _ in parts(fetch)]
            return type(fetch)(*made) if len(made) > 1 else made[0]
        return nest.map_structure(result, self.structured_outputs)

    def prune(self, feeds, fetches, name=None, input_signature=None,
              are_keyword_args_also_positional=False):
        """Returns the function of a part of the graph.

        Args:
          feeds: the inputs of the part: tensors of `graph`, or their names.
          fetches: a structure of results: tensors, operations to run,
            TensorInfos, or names.
          name: the name of the function; defaults to "pruned".
          input_signature: the new `structured_input_signature`.
          are_keyword_args_also_positional: ignored; they always are.

        Raises:
          KeyError: if there is no element with a given name.
          ValueError: if a fetch depends on an input that is not fed, or an
            element belongs to another graph.
        """
        inside = {t for outer, t in self.graph.captured.items()}
        tensors = []
        for feed in nest.flatten(feeds):
            feed = self.graph.as_graph_element(feed)
            if not isinstance(feed, _core.Tensor):
                raise ValueError(f"All members of argument `feeds` must be "
                                 f"tensors. Got {feed} with type {type(feed)}.")
            if feed not in inside:  # Captured tensors are passed anyway.
                tensors.append(feed)
        made = WrappedFunction(
            self.graph, tensors,
            [specs.TensorSpec.from_tensor(t) for t in tensors],
            nest.map_structure(self._fetch, fetches), name or "pruned",
            input_signature, [t.op.name for t in tensors])
        made._defined(graphs.get_default_graph())
        return made

    def _fetch(self, fetch):
        if isinstance(fetch, (IndexedSlices, SparseTensor)):
            return type(fetch)(*map(self._fetch, parts(fetch)))
        if not protos.is_message(fetch, "TensorInfo"):
            return self.graph.as_graph_element(fetch)
        if fetch.WhichOneof("encoding") == "coo_sparse":
            sparse = fetch.coo_sparse
            return SparseTensor(*map(self.graph.get_tensor_by_name, (
                sparse.indices_tensor_name, sparse.values_tensor_name,
                sparse.dense_shape_tensor_name)))
        element = self.graph.as_graph_element(fetch.name)
        if isinstance(element, _core.Tensor) and fetch.HasField("tensor_shape"):
            element.set_shape(fetch.tensor_shape)
        return element


def wrap_function(fn, signature, name=None):
    """Wraps the graph that a TensorFlow 1 function builds as a function.

        def f(x, do_add):
            v = tf.Variable(5.0)
            op = v.assign_add(x) if do_add else v.assign_sub(x)
            with tf.control_dependencies([op]):
                return v.read_value()

        add = tf.wrap_function(f, [tf.TensorSpec((), tf.float32), True])
        y = add(1.0)

    A call runs only what its results depend on. Variables belong to the outer
    graph and are listed in `variables`.

    Args:
      fn: the function, which is called once.
      signature: a list of its arguments: TensorSpecs (or SparseTensorSpecs,
        ..., also nested) for the arguments of calls, and other values, which
        become part of the function.
      name: the name of the function.
    """
    body = _WrappedBody(graphs.get_default_graph(), False)
    feeds = []

    def argument(spec):
        if not isinstance(spec, specs.TypeSpec):
            return spec
        made = [body.argument(s.dtype, s.name or "Placeholder", s.shape)
                for s in nest.flatten(spec, expand_composites=True)]
        feeds.extend(made)
        return nest.pack_sequence_as(spec, made, expand_composites=True)

    def output(value):
        if value is None:
            return None
        if isinstance(value, (IndexedSlices, SparseTensor)):
            return type(value)(*map(output, parts(value)))
        if isinstance(value, _core.Operation):
            raise TypeError(f"wrap_function: expected tensors and None to be "
                            f"returned, got the operation {value.name!r}")
        return body.capture(convert_to_tensor(value))

    with body.as_default(), scopes.variable_scope("", use_resource=True):
        returned = fn(*[nest.map_structure(argument, s) for s in signature])
        fetches = nest.map_structure(output, returned)
    return WrappedFunction(
        body, feeds, [s for s in signature if any(
            isinstance(leaf, specs.TypeSpec) for leaf in nest.flatten(s))],
        fetches, "wrapped_function" + (f"_{name}" if name else ""),
        (tuple(signature), {}))
