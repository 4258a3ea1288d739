"""`tf.wrap_function`: a graph that a function of Python builds once, and parts
of it, as functions that are called.

Unlike those of `tf.function`, a call runs only what its results need, in no
order but that of the graph.
"""

from sluice import _core
from sluice.framework import graph as graphs, nest, protos, specs
from sluice.framework.conversion import (
    IndexedSlices, SparseTensor, convert_to_tensor, parts)
from sluice.framework.graph import GraphKeys
from sluice.functions.function import _Body, call, define
from sluice.ops import variable_scope as scopes


class _WrappedBody(_Body):
    """A graph that was wrapped. Its variables are the outer graph's, and in its
    own collections, too; it finds them by the names that it gave them."""

    uses_resources = True

    def add_variable(self, variable):
        """Takes note of a variable that was made or asked for within."""
        if any(variable is v for v in self.variables):
            return
        super().add_variable(variable)
        self.add_to_collection(GraphKeys.GLOBAL_VARIABLES, variable)
        if variable.trainable:
            self.add_to_collection(GraphKeys.TRAINABLE_VARIABLES, variable)


def _needed(graph, sources, fetches):
    """The names of the operations that fetches need, from some tensors on."""
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
    """(a new body with what `fetches` need of a graph, its arguments, which are
    for `feeds` and for what the graph captured, what the fetches are there)."""
    body = _Body(graph.outer, False)
    inside = {inner: outer for outer, inner in graph.captured.items()
              if outer.graph is graph.outer}
    needed = _needed(graph, {*feeds, *inside}, fetches)
    stands = {}
    for i, t in enumerate(feeds):
        name = t.op.name
        while name in needed:  # (Of an operation that stays, too.)
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
    """What `wrap_function` makes: called with tensors, it adds a call to the
    graph. `graph` is what was built."""

    def __init__(self, graph, feeds, structures, fetches, name, signature,
                 keywords=None):
        self.graph, self._feeds = graph, feeds
        self._structures = structures  # Of TensorSpecs: one for each argument.
        self.structured_outputs = fetches
        self.structured_input_signature = signature
        self._keywords = keywords  # The arguments' names, if they may be given.
        self._label = name
        self._parts = [p for f in nest.flatten(fetches) if f is not None
                       for p in parts(f)]

    @property
    def inputs(self):
        """The graph's tensors that calls give: arguments, then those that stand
        for what is outside."""
        return self._feeds + [
            inner for outer, inner in self.graph.captured.items()
            if outer.graph is self.graph.outer]

    @property
    def outputs(self):
        """The graph's tensors that calls return."""
        return [p for p in self._parts if isinstance(p, _core.Tensor)]

    @property
    def captured_inputs(self):
        """The tensors from outside that calls pass, too."""
        return [t for t in self.graph.captured if t.graph is self.graph.outer]

    @property
    def variables(self):
        """The variables that were made or asked for within."""
        return tuple(self.graph.variables)

    @property
    def trainable_variables(self):
        """Those that optimizers update."""
        return tuple(v for v in self.variables if v.trainable)

    @property
    def name(self):
        """Its name in the graph."""
        return self._defined(graphs.get_default_graph())[0]

    def _defined(self, graph):
        """(the name in a graph, the outer tensors that calls pass)."""
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
        """The function of a part of the graph.

        Args:
          feeds: the part's inputs: tensors of `graph`, or their names.
          fetches: a structure of what it gives: tensors, operations, which a
            call runs, TensorInfos, or names.
          name: what it is called; "pruned" by default.
          input_signature: what `structured_input_signature` is to be.
          are_keyword_args_also_positional: no matter: they are.

        Raises:
          KeyError: for names that are not there.
          ValueError: if a fetch needs an input that is not among the feeds, or
            anything is of another graph.
        """
        inside = {t for outer, t in self.graph.captured.items()}
        tensors = []
        for feed in nest.flatten(feeds):
            feed = self.graph.as_graph_element(feed)
            if not isinstance(feed, _core.Tensor):
                raise ValueError(f"All members of argument `feeds` must be "
                                 f"tensors. Got {feed} with type {type(feed)}.")
            if feed not in inside:  # (They are passed anyway.)
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
    """Builds the graph of a function of TensorFlow 1's kind, once, and makes a
    function of it.

        def f(x, do_add):
            v = tf.Variable(5.0)
            op = v.assign_add(x) if do_add else v.assign_sub(x)
            with tf.control_dependencies([op]):
                return v.read_value()

        add = tf.wrap_function(f, [tf.TensorSpec((), tf.float32), True])
        y = add(1.0)

    A call runs what its results need and no more. Variables belong to the graph
    around it; `variables` has them.

    Args:
      fn: the function.
      signature: its arguments, a list: TensorSpecs (or SparseTensorSpecs, ...;
        in structures, too) of what calls give, and other values, which are part of it.
      name: what it is called.
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
