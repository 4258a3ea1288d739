"""The base class of optimizers, and the most common ones.

The library's optimizers (src/client/nn) compute gradients, make slots, and
build and order the updates. The classes here are TensorFlow's: their arguments,
and the methods that programs override.
"""

import collections
import weakref

from sluice import _core
from sluice.framework import graph as graphs
from sluice.framework.conversion import (
    IndexedSlices, convert_to_tensor, convert_to_tensor_or_indexed_slices)
from sluice.framework.graph import GraphKeys
from sluice.ops import array_ops, control_flow, math_ops
from sluice.ops.gradients import _list, gradients
from sluice.ops.variables import (
    Variable, _remember_by_handle, _variable_of_handle)
from sluice.training import slot_creator


class Optimizer:
    """The base class of optimizers, which compute and apply gradients.

    A subclass creates the slots of variables (`_create_slots`) and the tensors
    shared by all updates (`_prepare`), and applies gradients (`_apply_dense`,
    `_apply_sparse`, `_resource_apply_dense`, `_resource_apply_sparse`).

    An update runs after all reads of its variable by the loss and the
    gradients, so that a step computes with the values at its start.
    """

    GATE_NONE, GATE_OP, GATE_GRAPH = 0, 1, 2
    # Of the hyperparameters that may change from step to step, in the library's
    # order: the names of the attributes with the value (a number, a tensor or a
    # function; None: _prepare is overridden) and with its tensor.
    _hyperparameters = ()
    # Of those that variables are initialized with, by the library's names.
    _initial_values = {}

    def __init__(self, use_locking, name):
        if not name:
            raise ValueError("Must specify the optimizer name")
        self._use_locking = bool(use_locking)
        self._name = name
        # The library's optimizers by graph; they own the slots.
        self._built = weakref.WeakKeyDictionary()

    def _build(self):
        """Returns the library's optimizer for one graph."""
        return _core.Optimizer.own(self._name)

    def _in(self, graph):
        built = self._built.get(graph)
        if built is None:
            built = self._built[graph] = self._build()
            built.use_locks(self._use_locking)
        return built

    def get_name(self):
        """Returns the name, which is the prefix of scopes and slots."""
        return self._name

    def minimize(self, loss, global_step=None, var_list=None, gate_gradients=1,
                 aggregation_method=None, colocate_gradients_with_ops=False,
                 name=None, grad_loss=None):
        """Returns an operation that runs one training step.

        Args:
          loss: the tensor to minimize.
          global_step: a variable that counts the steps.
          var_list: the variables to update; defaults to all trainable ones.
          gate_gradients: GATE_NONE, GATE_OP or GATE_GRAPH.
          name: the name of the operation.
          grad_loss: the gradient of the loss; defaults to one.

        Raises:
          ValueError: if no variable has a gradient.
        """
        grads = self.compute_gradients(
            loss, var_list, gate_gradients, aggregation_method,
            colocate_gradients_with_ops, grad_loss)
        if all(g is None for g, _ in grads):
            raise ValueError(
                f"No gradients provided for any variable, check your graph for "
                f"ops that do not support gradients, between variables "
                f"{[str(v) for _, v in grads]} and loss {loss}.")
        return self.apply_gradients(grads, global_step, name)

    def compute_gradients(self, loss, var_list=None, gate_gradients=1,
                          aggregation_method=None,
                          colocate_gradients_with_ops=False, grad_loss=None):
        """Returns [(gradient or None, variable)]: the first half of `minimize`.

        The loss may be a function that returns it.
        """
        if callable(loss):
            loss = loss()
        if gate_gradients not in (0, 1, 2):
            raise ValueError(f"gate_gradients must be one of: Optimizer."
                             f"GATE_NONE, Optimizer.GATE_OP, Optimizer."
                             f"GATE_GRAPH. Not {gate_gradients}")
        loss = convert_to_tensor(loss)
        if var_list is None:
            var_list = loss.graph.get_collection(
                GraphKeys.TRAINABLE_VARIABLES)
        var_list = _list(var_list)
        if not var_list:
            raise ValueError("No variables to optimize.")
        if grad_loss is not None:
            grad_loss = convert_to_tensor(grad_loss)
        if not all(isinstance(v, Variable) for v in var_list):
            grads = gradients(
                loss, var_list, grad_loss,
                colocate_gradients_with_ops=colocate_gradients_with_ops,
                gate_gradients=gate_gradients == self.GATE_OP)
            if gate_gradients == self.GATE_GRAPH:
                grads = control_flow.tuple(grads)
            return list(zip(grads, var_list))
        grads = self._in(loss.graph).compute(
            loss, [v._ref() for v in var_list], grad_loss, gate_gradients,
            bool(colocate_gradients_with_ops))
        return [(IndexedSlices(*g) if type(g) is tuple else g, v)
                for g, v in zip(grads, var_list)]

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        """Returns an operation that applies gradients.

        This is the second half of `minimize`.
        """
        pairs = list(grads_and_vars)
        if not pairs:
            raise ValueError("No variables provided.")
        for pair in pairs:
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise TypeError(f"apply_gradients: expected pairs of a "
                                f"gradient and its variable, got {pair!r}")
        if all(g is None for g, _ in pairs):
            raise ValueError(f"No gradients provided for any variable: "
                             f"{[str(v) for _, v in pairs]}.")
        pairs = [(_gradient(g), v) for g, v in pairs]
        for g, v in pairs:
            if not isinstance(v, Variable):
                raise NotImplementedError(f"Trying to update a Tensor {v}")
            if v.constraint is not None and isinstance(g, IndexedSlices):
                raise RuntimeError("Cannot use a constraint function on a "
                                   "sparse variable.")
        for _, v in pairs:
            _remember_by_handle(v)
        graph = pairs[0][1].graph
        with graph.as_default():
            train = self._in(graph).apply(
                self, name or self._name, [(g, v._ref()) for g, v in pairs],
                None if global_step is None else global_step._ref(),
                all(getattr(type(self), m) is getattr(Optimizer, m)
                    for m in ("_apply_sparse", "_resource_apply_sparse")))
        collection = graphs.get_collection_ref(GraphKeys.TRAIN_OP)
        if train not in collection:
            collection.append(train)
        return train

    def get_slot(self, var, name):
        """Returns the slot of a variable, or None."""
        built = self._built.get(var.graph)
        return built and _variable(built.slot(var._ref(), name))

    def get_slot_names(self):
        """Returns the names of the slots."""
        return sorted(self._slots)

    def variables(self):
        """Returns the optimizer's variables in the default graph by name."""
        built = self._built.get(graphs.get_default_graph())
        return [_variable(h) for h in built.variables()] if built else []

    # ---- For subclasses. Built-in optimizers are built by the library.

    def _prepare(self):
        """Builds the tensors that all updates share."""
        names = self._in(graphs.get_default_graph()).numbers()
        for name, (value, tensor) in zip(names, self._hyperparameters):
            if value is not None:
                setattr(self, tensor, convert_to_tensor(self._call_if_callable(
                    getattr(self, value)), name=name))

    def _create_slots(self, var_list):
        """Creates the slots of variables."""
        for graph in {v.graph: None for v in var_list}:
            self._in(graph).create(
                self, [v._ref() for v in var_list if v.graph is graph],
                {name: self._call_if_callable(getattr(self, value))
                 for name, value in self._initial_values.items()})

    def _finish(self, update_ops, name_scope):
        """Returns the operation that follows the updates."""
        return self._in(update_ops[0].graph).finish(
            [graphs._operation_of(op) for op in update_ops], name_scope,
            self._tensors())

    def _apply_dense(self, grad, var):
        return self._in(var.graph).update(grad, var._ref(), self._tensors())

    _apply_sparse = _resource_apply_dense = _apply_dense

    def _resource_apply_sparse(self, grad, handle, indices):
        return self._in(handle.graph).update(
            IndexedSlices(grad, indices), handle._ref(), self._tensors())

    def _tensors(self):
        """Returns the tensors of the hyperparameters."""
        return [getattr(self, tensor) for _, tensor in self._hyperparameters]

    @property
    def _slots(self):
        """The slots by their names and TensorFlow's keys of variables."""
        slots = {}
        for graph, built in self._built.items():
            for name in built.slot_names():
                slots.setdefault(name, {}).update(
                    {(graph, v.op.name): self.get_slot(v, name) for v in
                     list(graph.__dict__["_variables_by_handle"].values())
                     if self.get_slot(v, name) is not None})
        return slots

    def _slot_dict(self, slot_name):
        """Returns the slots of a name by TensorFlow's keys of variables.

        A slot that is set there is the optimizer's.
        """
        return _SlotsOfName(self, slot_name)

    def _call_if_callable(self, param):
        return param() if callable(param) else param

    def _get_or_make_slot(self, var, val, slot_name, op_name):
        """Returns a slot, which is created with a value if it is missing."""
        if self.get_slot(var, slot_name) is None:
            made = slot_creator.create_slot(var, val, op_name)
            self._in(var.graph).add_slot(var._ref(), slot_name,
                                         _remember_by_handle(made))
        return self.get_slot(var, slot_name)

    def _get_or_make_slot_with_initializer(self, var, initializer, shape, dtype,
                                           slot_name, op_name):
        return self._get_or_make_slot(
            var, lambda: initializer(shape, dtype=dtype), slot_name, op_name)

    def _zeros_slot(self, var, slot_name, op_name):
        """Returns a slot that is initialized with zeros."""
        shape = var.shape
        return self._get_or_make_slot(
            var, lambda: array_ops.zeros(
                shape if shape.is_fully_defined()
                else array_ops.shape(var.initial_value), var.dtype.base_dtype),
            slot_name, op_name)

    def _create_non_slot_variable(self, initial_value, name, colocate_with):
        built = self._in(colocate_with.graph)
        if built.non_slot(name) is None:
            with graphs.colocate_with(colocate_with.op):
                made = self._new_non_slot(initial_value, name,
                                          colocate_with._ref())
            built.add_non_slot(name, made)
        return _variable(built.non_slot(name))

    def _get_non_slot_variable(self, name, graph=None):
        built = self._built.get(graph)
        return built and _variable(built.non_slot(name))

    def _rate(self, value, var):
        """Casts a hyperparameter to the dtype of a variable."""
        return math_ops.cast(value, var.dtype.base_dtype)

    # ---- Called by _core, with the handles of variables.

    def _create_all(self, handles):
        with graphs.init_scope():
            self._create_slots([_variable_of_handle(h) for h in handles])

    def _new_slot(self, handle, suffix, initial):
        made = slot_creator.create_slot(_variable_of_handle(handle), initial,
                                        suffix)
        return _remember_by_handle(made)

    def _new_non_slot(self, initial, name, handle):
        made = Variable(initial, trainable=False, name=name,
                        use_resource=_variable_of_handle(handle)._resource)
        return _remember_by_handle(made)

    def _dense(self, grad, handle):
        var = _variable_of_handle(handle)
        apply = (self._resource_apply_dense if var._resource
                 else self._apply_dense)
        updated = apply(grad, var)
        if var.constraint is None:
            return updated
        with graphs.control_dependencies([updated]):
            # A cached read of the variable could precede the update.
            return var.assign(var.constraint(var.read_value()),
                              self._use_locking)

    def _sparse(self, grad, handle):
        var = _variable_of_handle(handle)
        if var._resource:
            return self._resource_apply_sparse(grad[0], var, grad[1])
        return self._apply_sparse(IndexedSlices(*grad), var)


class _SlotsOfName(collections.UserDict):
    """Slots by (graph, name of the variable's operation)."""

    def __init__(self, optimizer, slot_name):
        super().__init__()
        self.data = optimizer._slots.get(slot_name, {})
        self._optimizer, self._name = optimizer, slot_name

    def __setitem__(self, key, slot):
        graph, of = key
        handle = graph.get_operation_by_name(of).outputs[0]
        self._optimizer._in(graph).add_slot(handle, self._name,
                                            _remember_by_handle(slot))
        super().__setitem__(key, slot)


def _variable(handle):
    return None if handle is None else _variable_of_handle(handle)


def _gradient(value):
    """Converts a value to a gradient; None remains None."""
    if value is None:
        return None
    try:
        return convert_to_tensor_or_indexed_slices(value)
    except (TypeError, ValueError):
        raise TypeError(f"Gradient must be convertible to a Tensor or "
                        f"IndexedSlices, or None: {value}") from None


class GradientDescentOptimizer(Optimizer):
    """Updates var -= learning_rate * gradient.

        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)

    Args:
      learning_rate: a number or a scalar tensor.
      use_locking: whether updates of a variable are mutually exclusive.
      name: the name of the operations.
    """

    _hyperparameters = (("_learning_rate", "_learning_rate_tensor"),)

    def __init__(self, learning_rate, use_locking=False,
                 name="GradientDescent"):
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate

    def _build(self):
        return _core.Optimizer.gradient_descent(self._name)


class AdagradOptimizer(Optimizer):
    """Updates var -= learning_rate * gradient / sqrt(accumulator).

    The slot "accumulator" is the sum of squared gradients.

    Args:
      learning_rate: a number or a scalar tensor.
      initial_accumulator_value: the initial value of the slot; must be > 0.
      use_locking: whether updates of a variable are mutually exclusive.
      name: the name of the operations and the slot.
    """

    _hyperparameters = (("_learning_rate", "_learning_rate_tensor"),)

    def __init__(self, learning_rate, initial_accumulator_value=0.1,
                 use_locking=False, name="Adagrad"):
        if initial_accumulator_value <= 0.0:
            raise ValueError(f"initial_accumulator_value must be positive: "
                             f"{initial_accumulator_value}")
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._initial_accumulator_value = initial_accumulator_value

    def _build(self):
        return _core.Optimizer.adagrad(self._name,
                                       self._initial_accumulator_value)


class MomentumOptimizer(Optimizer):
    """Gradient descent with momentum.

    Updates accum = momentum * accum + gradient, then
    var -= learning_rate * accum. With `use_nesterov`, the latter is
    var -= learning_rate * (gradient + momentum * accum).

    Args:
      learning_rate, momentum: numbers or scalar tensors.
      use_locking: whether updates of a variable are mutually exclusive.
      name: the name of the operations and the slot ("momentum").
      use_nesterov: whether to use Nesterov momentum (Sutskever et al., 2013).
    """

    _hyperparameters = (("_learning_rate", "_learning_rate_tensor"),
                        ("_momentum", "_momentum_tensor"))

    def __init__(self, learning_rate, momentum, use_locking=False,
                 name="Momentum", use_nesterov=False):
        super().__init__(use_locking, name)
        self._learning_rate, self._momentum = learning_rate, momentum
        self._use_nesterov = bool(use_nesterov)

    def _build(self):
        return _core.Optimizer.momentum(self._name, self._use_nesterov)


class RMSPropOptimizer(Optimizer):
    """Divides gradients by their root mean square; supports momentum."""

    _hyperparameters = (("_learning_rate", "_learning_rate_tensor"),
                        ("_decay", "_decay_tensor"),
                        ("_momentum", "_momentum_tensor"),
                        ("_epsilon", "_epsilon_tensor"))

    def __init__(self, learning_rate, decay=0.9, momentum=0.0, epsilon=1e-10,
                 use_locking=False, centered=False, name="RMSProp"):
        super().__init__(use_locking, name)
        # `centered` uses the variance of the gradients, not the mean square.
        self._centered = bool(centered)
        self._learning_rate, self._decay = learning_rate, decay
        self._momentum, self._epsilon = momentum, epsilon

    def _build(self):
        return _core.Optimizer.rms_prop(self._name, self._centered)


class AdamOptimizer(Optimizer):
    """The Adam optimizer (Kingma and Ba, 2014).

    It uses bias-corrected moving averages of the gradients and of their squares
    (the slots "m" and "v").

        train = tf.train.AdamOptimizer(1e-3).minimize(loss)

    Args:
      learning_rate: a number, a scalar tensor, or a function that returns one.
      beta1, beta2: the decay of the averages.
      epsilon: a number added to the root of `v` ("epsilon hat" of the paper).
      use_locking: whether updates of a variable are mutually exclusive.
      name: the name of the operations and the slots.
    """

    _hyperparameters = (("_lr", "_lr_t"), ("_beta1", "_beta1_t"),
                        ("_beta2", "_beta2_t"), ("_epsilon", "_epsilon_t"))
    _initial_values = {"beta1": "_beta1", "beta2": "_beta2"}

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999,
                 epsilon=1e-8, use_locking=False, name="Adam"):
        super().__init__(use_locking, name)
        self._lr, self._beta1, self._beta2 = learning_rate, beta1, beta2
        self._epsilon = epsilon

    def _build(self):
        return _core.Optimizer.adam(self._name, False, "all")

    def _get_beta_accumulators(self):
        """Returns the variables of the powers of the betas."""
        graph = graphs.get_default_graph()
        return tuple(self._get_non_slot_variable(n, graph)
                     for n in ("beta1_power", "beta2_power"))

    _beta1_power = property(lambda self: self._get_beta_accumulators()[0])
    _beta2_power = property(lambda self: self._get_beta_accumulators()[1])
