"""`tf.function`: Python functions as functions of the graph, one for each kind
of arguments that they are called with."""

import functools
import inspect
import operator

from sluice import _core, nest
from sluice.framework import graph as graphs
from sluice.framework.conversion import (
    IndexedSlices, SparseTensor, convert_to_tensor, parts)
from sluice.framework.function import _Body, call, define
from sluice.framework.references import _Reference


class _Trace:
    """A body that was built: its name in the graph, the outer tensors that
    calls pass too, what is known of its results' shapes, and what it returns: a
    structure of functions that find it among the results, and of None."""

    def __init__(self, name, captured, shapes, structure):
        self.name, self.captured = name, captured
        self.shapes, self.structure = shapes, structure


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


class Function:
    """What `function` makes: called, it adds a call to the graph."""

    def __init__(self, python_function, input_signature=None):
        self.python_function = python_function
        self.input_signature = input_signature
        self._signature = inspect.signature(python_function)
        functools.update_wrapper(self, python_function)
        self.__name__ = getattr(python_function, "__name__",
                                type(python_function).__name__)

    def __get__(self, instance, owner):
        return self if instance is None else functools.partial(self, instance)

    def _by(self, spec, value):
        """A value (or a structure of them) as input_signature says."""
        if isinstance(spec, dict):
            return {k: self._by(s, value[k]) for k, s in spec.items()}
        if isinstance(spec, (list, tuple)):
            return [self._by(s, v) for s, v in zip(spec, value)]
        made = convert_to_tensor(value, spec.dtype)
        if not made.shape.is_compatible_with(spec.shape):
            raise ValueError(f"{self.__name__}: expected the shape "
                             f"{spec.shape} of input_signature, got "
                             f"{made.shape}")
        return made

    def _leaves(self, args, kwargs):
        """(the arguments' structure, its leaves), tensors made of those that
        are arrays, or that `input_signature` says are tensors."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        args = list(bound.args)
        if self.input_signature is not None:
            specs = list(self.input_signature)
            first = len(args) - len(specs)  # (`self` may come before.)
            if first not in (0, 1):
                raise ValueError(
                    f"{self.__name__}: expected {len(specs)} arguments, as "
                    f"input_signature says, got {len(args)}")
            args[first:] = self._by(specs, args[first:])
        structure = [args, dict(bound.kwargs)]
        return structure, [convert_to_tensor(v) if _is_array(v) else v
                           for v in nest.flatten(structure)]

    def __call__(self, *args, **kwargs):
        graph = graphs.get_default_graph()
        structure, leaves = self._leaves(args, kwargs)
        tensors = [v for v in leaves if isinstance(v, _core.Tensor)]
        signed = self.input_signature is not None
        key = (self, str(nest.map_structure(lambda _: 0, structure)), *(
            (v.dtype.base_dtype, None if signed else str(v.shape))
            if isinstance(v, _core.Tensor) else _static(v) for v in leaves))
        outermost = graphs._outermost(graph)
        trace = graph._defined.get(key) or outermost._defined.get(key)
        if trace is None:
            trace = self._trace(graph, structure, leaves)
            (graph if trace.captured else outermost)._defined[key] = trace
        op = call(trace.name, tensors + trace.captured,
                  self.__name__.strip("<>"), trace.shapes)
        results = op.outputs
        if not results:
            return op
        return nest.map_structure(
            lambda find: find and find(results), trace.structure)

    def _trace(self, graph, structure, leaves):
        from sluice.ops import variable_scope as scopes
        outermost = graphs._outermost(graph)
        before = len(outermost.get_collection(
            graphs.GraphKeys.GLOBAL_VARIABLES))
        body = _Body(graph, False)
        with body.as_default(), scopes.variable_scope(
                "", custom_getter=body.variable):
            inside = [body.argument(v.dtype.base_dtype, f"arg_{i}",
                                    None if self.input_signature else v.shape)
                      if isinstance(v, _core.Tensor) else v
                      for i, v in enumerate(leaves)]
            args, kwargs = nest.pack_sequence_as(structure, inside)
            returned = self.python_function(*args, **kwargs)
            results = []

            def found(value):
                """What finds it among a call's results."""
                if value is None or isinstance(value, _core.Operation):
                    return None
                kind, first = type(value), len(results)
                results.extend(body.capture(convert_to_tensor(part))
                               for part in parts(value))
                if not isinstance(value, (IndexedSlices, SparseTensor)):
                    return operator.itemgetter(first)
                last = len(results)
                return lambda outputs: kind(*outputs[first:last])
            structure = nest.map_structure(found, returned)
        if (self, "traced") in outermost._defined and before != len(
                outermost.get_collection(graphs.GraphKeys.GLOBAL_VARIABLES)):
            raise ValueError("tf.function-decorated function tried to create "
                             "variables on non-first call.")
        outermost._defined[self, "traced"] = True
        _core.order_effects(body)

        name = define(graph, body, results,
                      "__inference_" + self.__name__.strip("<>"),
                      doc=inspect.getdoc(self.python_function) or "")
        return _Trace(name, [t for t in body.captured if t.graph is graph],
                      [r.shape for r in results], structure)


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
      input_signature: TensorSpecs of the arguments, which are all tensors then,
        and of any shape that fits: one body for all of them.
      autograph, experimental_implements, experimental_autograph_options,
      experimental_relax_shapes, experimental_compile: without effect.
    """
    if func is None:
        return lambda f: Function(f, input_signature)
    return Function(func, input_signature)


defun = function  # (Its name in tensorflow.python.eager.function.)
