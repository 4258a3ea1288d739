"""Functions with custom gradients, and templates that share variables."""

import functools
import inspect

from sluice.framework import graph as graphs, nest, protos
from sluice.framework.conversion import convert_to_tensor
from sluice.functions import function
from sluice.ops import array_ops, gradients, tape, variable_scope as scopes

# The gradient of all nodes that custom_gradient makes. The graph keeps the
# gradient functions, so that they live as long as it. Nodes refer to them by a
# number in this attribute, which survives copying a function's body.
_NAME, _NUMBER = "CustomGradient", "_custom_gradient"


@gradients.RegisterGradient(_NAME)
def _custom_gradient(op, *grads):
    known = graphs._outermost(op.graph)._custom_gradients
    number = op.get_attr(_NUMBER)
    if number >= len(known):
        raise LookupError(f"custom_gradient: expected a function of Python's, "
                          f"which a GraphDef does not hold, got none; "
                          f"{op._describe()}")
    return known[number](op, *grads)


def _read_since(graph, start):
    """Returns the trainable variables that operations since `start` read."""
    read = {t.name for op in graph._operations(start) for t in op.inputs}
    whole = graphs._outermost(graph)
    if whole is not graph:  # Maps the names inside the body to outer names.
        read = {outer.name for outer, inner in graph.captured.items()
                if inner.name in read and outer.graph is whole}
    return [v for v in whole.get_collection(
        graphs.GraphKeys.TRAINABLE_VARIABLES) if tape._names(v) & read]


def _as_function(body, grad, results, label):
    """Makes the gradient of a node in a function's body a function itself.

    The gradient may run where the body does not exist, so it receives what it
    uses of the body as arguments.

    Returns:
      (function of a node and its results' gradients, the tensors that the node
      must read for it).
    """
    own = function._Body(body, False)
    used = [i for i, r in enumerate(results)
            if r.dtype.is_floating or r.dtype.is_complex]
    with own.as_default():
        dys = [None] * len(results)
        for i in used:
            dys[i] = own.argument(results[i].dtype.base_dtype, "dy",
                                  results[i].shape)
        given = grad(*dys)
        made = [own.capture(convert_to_tensor(g)) for g in given
                if g is not None]
    captured = [t for t in own.captured if t.graph is body]
    name = function.define(body, own, made, label + "_gradient")

    def apply(node, *dys):
        made_there = iter(function.call(
            name, [*(dys[i] for i in used),
                   *node.inputs[len(node.inputs) - len(captured):]],
            label + "_gradient", [g.shape for g in made]).outputs)
        return [None if g is None else next(made_there) for g in given] + [
            None] * len(captured)
    return apply, captured


class _Decorated:
    """A function with a custom gradient, or a method."""

    def __init__(self, f, call):
        functools.update_wrapper(self, f)
        self._f, self._call = f, call

    def __get__(self, instance, owner):
        return self if instance is None else _Decorated(
            self._f.__get__(instance, owner), self._call)

    def __call__(self, *args, **kwargs):
        return self._call(self._f, args, kwargs)


def _takes_variables(function):
    parameters = inspect.signature(function).parameters
    return "variables" in parameters or any(
        p.kind is p.VAR_KEYWORD for p in parameters.values())


def custom_gradient(f=None):
    """Decorates a function that defines its own gradient.

    f(*args) returns (result, gradient function). The gradient function maps
    the gradients of the result to those of the arguments. If f reads trainable
    variables, it also takes them as the list `variables`, and returns
    (gradients of the arguments, list of gradients of the variables). Arguments
    and results may be structures, of which it takes and returns the leaves. f
    may be a method.
    """
    if f is None:
        return custom_gradient

    def decorated(f, args, kwargs):
        if kwargs:
            raise ValueError("The custom_gradient decorator currently supports "
                             "keywords arguments only when eager execution is "
                             "enabled.")
        with graphs._default_for(nest.flatten(args)).as_default() as graph:
            return build(f, graph, args)

    def build(f, graph, structure):
        structure = nest.map_structure(convert_to_tensor, structure)
        args = nest.flatten(structure)
        start = graph.version
        made = f(*structure)
        if not (isinstance(made, (list, tuple)) and len(made) == 2 and
                callable(made[1])):
            raise TypeError(f"custom_gradient: expected a pair (result, "
                            f"function of its gradients) of {f.__name__}, got "
                            f"{made!r}")
        result, grad_fn = made
        results = [convert_to_tensor(x) for x in nest.flatten(result)]
        variables = _read_since(graph, start)
        if variables and not _takes_variables(grad_fn):
            raise TypeError("If using @custom_gradient with a function that "
                            "uses variables, then grad_fn must accept a "
                            "'variables' keyword argument.")

        def grad(*result_grads):
            if variables:
                made, more = grad_fn(*result_grads, variables=list(variables))
                if len(more) != len(variables):
                    raise ValueError("Must return gradient for each variable "
                                     "from @custom_gradient grad_fn.")
            else:
                made, more = grad_fn(*result_grads), []
            made = nest.flatten(made)
            if len(made) != len(args):
                raise ValueError(f"custom_gradient: expected {len(args)} "
                                 f"gradients of {f.__name__}, got {len(made)}")
            return made + list(more)

        n, apply, more = len(results), lambda node, *dys: grad(*dys), []
        if graph.building_function:
            apply, more = _as_function(graph, grad, results, f.__name__)
        with graph.gradient_override_map({"IdentityN": _NAME}):
            both = array_ops.identity_n(
                results + args + [v.read_value() for v in variables] + more)
        whole = graphs._outermost(graph)
        known = whole._custom_gradients
        with whole._lock:
            both[0].op._set_attr(_NUMBER, protos.AttrValue(i=len(known)))
            # The function's own computation propagates no gradients.
            known.append(lambda node, *dys: [None] * n + apply(node, *dys[:n]))
        return nest.pack_sequence_as(result, list(both[:len(results)]))
    return _Decorated(f, decorated)


def grad_pass_through(f):
    """Returns a function like f whose gradient is that of the identity.

        y = tf.grad_pass_through(tf.round)(x)  # dy/dx is 1.

    Variables that f reads get no gradients.
    """
    @custom_gradient
    def passed_through(*args):
        def grad(*dys, variables=None):
            return dys if variables is None else (
                dys, [None] * len(variables))
        return f(*args), grad
    return functools.wraps(f)(passed_through)


def recompute_grad(f):
    """Returns a function like f that its gradient computes again.

    The values between its arguments and results need not be kept until then.
    The variables that f uses get gradients, too.
    """
    @custom_gradient
    def recomputed(*args):
        scope = scopes.get_variable_scope()

        def grad(*dys, variables=None):
            with graphs.control_dependencies([d for d in dys if d is not None]):
                again = nest.map_structure(array_ops.identity, list(args))
                with scopes.variable_scope(scope, reuse=True):
                    results = nest.flatten(f(*again))
            xs = nest.flatten(again)
            made = gradients.gradients(results, xs + list(variables or []),
                                       list(dys))
            return made if variables is None else (
                made[:len(xs)], made[len(xs):])
        return f(*args), grad
    return functools.wraps(f)(recomputed)


class Template:
    """A function that creates variables in its first call and reuses them."""

    def __init__(self, name, func, create_scope_now=False, unique_name=None,
                 custom_getter=None):
        self._func, self._name = func, name
        self._unique_name, self._custom_getter = unique_name, custom_getter
        self._scope, self._called = None, False
        if create_scope_now:
            # The first call must get the scope's name for its operations.
            with self._opened(auxiliary_name_scope=False) as self._scope:
                pass

    def _opened(self, **kwargs):
        return scopes.variable_scope(
            self._unique_name, self._name, custom_getter=self._custom_getter,
            **kwargs)

    def __call__(self, *args, **kwargs):
        if self._scope is None:
            entered = self._opened()
        else:
            entered = scopes.variable_scope(self._scope,
                                            reuse=self._called or None)
        with entered as scope:
            self._scope = self._scope or scope
            trained = graphs.GraphKeys.TRAINABLE_VARIABLES
            before = len(graphs.get_collection_ref(trained))
            result = self._func(*args, **kwargs)
            more = graphs.get_collection_ref(trained)[before:]
            if self._called and more:
                raise ValueError(
                    f"New variable(s) created when calling a template after "
                    f"the first time, perhaps you used tf.Variable when you "
                    f"meant tf.get_variable: {more}")
            self._called = True
            return result

    name = property(lambda self: self._name, doc="The given name.")
    func = property(lambda self: self._func, doc="The function.")
    variable_scope = property(lambda self: self._scope,
                              doc="The scope of its variables.")
    var_scope = variable_scope

    @property
    def variable_scope_name(self):
        """The name of its variable scope."""
        return self._scope.name if self._scope else None

    @property
    def global_variables(self):
        """Its global variables."""
        return self._scope.global_variables() if self._scope else []

    @property
    def trainable_variables(self):
        """Its trainable variables."""
        return self._scope.trainable_variables() if self._scope else []

    def _own(self, key):
        if self._scope is None:
            return []
        return graphs.get_collection(key, self._scope.name + "/")

    @property
    def local_variables(self):
        """Its local variables."""
        return self._own(graphs.GraphKeys.LOCAL_VARIABLES)

    @property
    def non_trainable_variables(self):
        """Its variables that are not trainable."""
        trained = set(map(id, self.trainable_variables))
        return [v for v in self.global_variables if id(v) not in trained]

    non_trainable_weights = non_trainable_variables
    _variables_created = property(lambda self: self._called)
    variables = weights = global_variables
    trainable_weights = trainable_variables


def make_template(name_, func_, create_scope_now_=False, unique_name_=None,
                  custom_getter_=None, **kwargs):
    """Returns a function that shares variables between its calls.

    It calls `func_` with the given keyword arguments. The first call creates
    the variables by `get_variable`, and later calls reuse them.
    """
    if kwargs:
        func_ = functools.partial(func_, **kwargs)
    if name_ is None:
        raise ValueError("name cannot be None.")
    return Template(name_, func_, create_scope_now_, unique_name_,
                    custom_getter_)
