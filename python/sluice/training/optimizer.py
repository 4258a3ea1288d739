"""The base class of optimizers, and the most common ones."""

from sluice import _core
from sluice.framework import graph as graphs
from sluice.framework.conversion import (
    IndexedSlices, constant, convert_to_tensor,
    convert_to_tensor_or_indexed_slices)
from sluice.framework.graph import GraphKeys
from sluice.ops import array_ops, control_flow, math_ops
from sluice.ops.gradients import _list, gradients
from sluice.ops.variables import Variable, _variable_of_handle
from sluice.training import slot_creator

_op = _core.op


class Optimizer:
    """The base class of optimizers, which compute and apply gradients.

    A subclass creates the slots of variables (`_create_slots`) and the tensors
    shared by all updates (`_prepare`), and applies gradients (`_apply_dense`,
    `_apply_sparse`, `_resource_apply_dense`, `_resource_apply_sparse`).

    An update runs after all reads of its variable by the loss and the
    gradients, so that a step computes with the values at its start.
    """

    GATE_NONE, GATE_OP, GATE_GRAPH = 0, 1, 2
    # Whether _apply_sparse accepts repeated indices.
    _accepts_repeated_indices = False

    def __init__(self, use_locking, name):
        if not name:
            raise ValueError("Must specify the optimizer name")
        self._use_locking = bool(use_locking)
        self._name = name
        self._slots = {}
        self._non_slots = {}
        self._core = _core.Optimizer(name, self._accepts_repeated_indices)

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
        grads = self._core.compute(
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
        constrained = [v for g, v in pairs
                       if g is not None and v.constraint is not None]
        finishes = bool(constrained) or (
            type(self)._finish is not Optimizer._finish)
        refs = [(g, v._ref()) for g, v in pairs]
        with pairs[0][1].graph.as_default():
            with graphs.init_scope():
                self._create_slots([v for g, v in pairs if g is not None])
            if finishes or global_step is not None:
                train = self._apply_and_finish(refs, constrained, finishes,
                                               global_step, name)
            else:
                train = self._core.apply(self, name or self._name, refs, None)
        collection = graphs.get_collection_ref(GraphKeys.TRAIN_OP)
        if train not in collection:
            collection.append(train)
        return train

    def _apply_and_finish(self, refs, constrained, finishes, global_step, name):
        """Applies gradients, runs the finishing operations and counts the step.

        The last operation gets the name of the scope.
        """
        with graphs.name_scope(name, self._name) as scope:
            train = self._core.apply(_Updates(self, scope), "update", refs,
                                     None)
            if finishes:
                updates = [train]
                with graphs.control_dependencies([train]):
                    # Cached reads of variables could precede the updates.
                    for v in constrained:
                        updates.append(v.assign(v.constraint(v.read_value()),
                                                self._use_locking))
                train = self._finish(
                    updates, scope if global_step is None else "update")
            if global_step is None:
                return train
            with graphs.control_dependencies([train]), graphs.colocate_with(
                    global_step.op):
                return graphs._operation_of(global_step.assign_add(
                    1, name=scope, read_value=False))

    def get_slot(self, var, name):
        """Returns the slot of a variable, or None."""
        return self._slots.get(name, {}).get(_key(var))

    def get_slot_names(self):
        """Returns the names of the slots."""
        return sorted(self._slots)

    def variables(self):
        """Returns the optimizer's variables in the default graph by name."""
        graph = graphs.get_default_graph()
        return sorted(
            (v for kept in (self._non_slots, *self._slots.values())
             for v in kept.values() if v.graph is graph),
            key=lambda v: v.name)

    # ---- For subclasses.

    def _prepare(self):
        """Builds the tensors that all updates share."""

    def _create_slots(self, var_list):
        """Creates the slots of variables."""

    def _finish(self, update_ops, name_scope):
        """Returns the operation that follows the updates."""
        return control_flow.group(*update_ops, name=name_scope)

    def _apply_dense(self, grad, var):
        raise NotImplementedError()

    def _apply_sparse(self, grad, var):
        raise NotImplementedError()

    def _resource_apply_dense(self, grad, handle):
        raise NotImplementedError()

    def _resource_apply_sparse(self, grad, handle, indices):
        raise NotImplementedError()

    def _call_if_callable(self, param):
        return param() if callable(param) else param

    def _slot_dict(self, slot_name):
        return self._slots.setdefault(slot_name, {})

    def _get_or_make_slot(self, var, val, slot_name, op_name):
        """Returns a slot, which is created with a value if it is missing."""
        slots, key = self._slot_dict(slot_name), _key(var)
        if key not in slots:
            slots[key] = slot_creator.create_slot(var, val, op_name)
        return slots[key]

    def _get_or_make_slot_with_initializer(self, var, initializer, shape, dtype,
                                           slot_name, op_name):
        return self._get_or_make_slot(
            var, lambda: initializer(shape, dtype=dtype), slot_name, op_name)

    def _zeros_slot(self, var, slot_name, op_name):
        """Returns a slot that is initialized with zeros."""
        return self._get_or_make_slot(var, lambda: _like(var, 0.0), slot_name,
                                      op_name)

    def _create_non_slot_variable(self, initial_value, name, colocate_with):
        key = (name, id(colocate_with.graph))
        if key not in self._non_slots:
            with graphs.colocate_with(colocate_with.op):
                self._non_slots[key] = Variable(
                    initial_value, trainable=False, name=name,
                    use_resource=colocate_with._resource)
        return self._non_slots[key]

    def _get_non_slot_variable(self, name, graph=None):
        return self._non_slots.get((name, id(graph)))

    def _rate(self, value, var):
        """Casts a hyperparameter to the dtype of a variable."""
        return math_ops.cast(value, var.dtype.base_dtype)

    # ---- Called by _core.

    def _dense(self, grad, handle):
        var = _variable_of_handle(handle)
        if var._resource:
            return self._resource_apply_dense(grad, var)
        return self._apply_dense(grad, var)

    def _sparse(self, grad, handle):
        var = _variable_of_handle(handle)
        if var._resource:
            return self._resource_apply_sparse(grad[0], var, grad[1])
        return self._apply_sparse(IndexedSlices(*grad), var)


class _Updates:
    """Calls the functions of an optimizer for _core, in name scopes.

    The updates are in a nested scope, because the name of the outer scope
    belongs to their group.
    """

    def __init__(self, optimizer, scope):
        self._optimizer, self._scope = optimizer, scope

    def _prepare(self):
        with graphs.name_scope(self._scope):
            self._optimizer._prepare()

    def _update_scope(self, handle):
        return graphs.name_scope(f"{self._scope}update_{handle.op.name}/")

    def _dense(self, grad, handle):
        with self._update_scope(handle):
            return self._optimizer._dense(grad, handle)

    def _sparse(self, grad, handle):
        with self._update_scope(handle):
            return self._optimizer._sparse(grad, handle)


def _gradient(value):
    """Converts a value to a gradient; None remains None."""
    if value is None:
        return None
    try:
        return convert_to_tensor_or_indexed_slices(value)
    except (TypeError, ValueError):
        raise TypeError(f"Gradient must be convertible to a Tensor or "
                        f"IndexedSlices, or None: {value}") from None


def _key(var):
    """Returns the key of a variable, which is unique across graphs."""
    return var.graph, var.name


def _like(var, value):
    """Returns a tensor with a variable's shape, filled with a value."""
    shape, dtype = var.shape, var.dtype.base_dtype
    if shape.is_fully_defined():
        return constant(value, dtype, shape)
    return _op("Fill")(_op("Shape")(var.initial_value), constant(value, dtype))


class _OneOp:
    """The base class of optimizers whose update of a variable is one op.

    Others are in training/optimizers.py. A subclass defines the op (`_kind`),
    its hyperparameters (`_numbers`), the names of its slots (`_slot_names`) and
    whether the hyperparameters precede the gradient (`_numbers_first`).
    """

    _kind = None
    _numbers_first = True
    _slot_names = ()

    def _numbers(self):
        """Returns (name, value) of the hyperparameters."""
        raise NotImplementedError

    def _prepare(self):
        self._tensors = [convert_to_tensor(self._call_if_callable(v), name=n)
                         for n, v in self._numbers()]

    def _update(self, prefix, var, *grad):
        slots = [self.get_slot(var, n)._ref() for n in self._slot_names]
        numbers = self._arguments(var)
        before, after = (numbers, []) if self._numbers_first else ([], numbers)
        return _op(prefix + self._kind)(
            var._ref(), *slots, *before, *grad, *after,
            use_locking=self._use_locking)

    def _arguments(self, var):
        return [self._rate(t, var) for t in self._tensors]

    def _apply_dense(self, grad, var):
        return self._update("Apply", var, grad)

    def _resource_apply_dense(self, grad, var):
        return self._update("ResourceApply", var, grad)

    def _apply_sparse(self, grad, var):
        return self._update("SparseApply", var, grad.values, grad.indices)

    def _resource_apply_sparse(self, grad, var, indices):
        return self._update("ResourceSparseApply", var, grad, indices)


def one_op(cls):
    """Adds the members of `_OneOp` to a class.

    The class can then have Optimizer as its only base.
    """
    for name, value in vars(_OneOp).items():
        if not name.startswith("__") and name not in vars(cls):
            setattr(cls, name, value)
    return cls


class GradientDescentOptimizer(Optimizer):
    """Updates var -= learning_rate * gradient.

        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)

    Args:
      learning_rate: a number or a scalar tensor.
      use_locking: whether updates of a variable are mutually exclusive.
      name: the name of the operations.
    """

    _accepts_repeated_indices = True

    def __init__(self, learning_rate, use_locking=False,
                 name="GradientDescent"):
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate

    def _prepare(self):
        self._learning_rate_tensor = convert_to_tensor(
            self._call_if_callable(self._learning_rate), name="learning_rate")

    def _apply_dense(self, grad, var):
        return _op("ApplyGradientDescent")(
            var._ref(), self._rate(self._learning_rate_tensor, var), grad,
            use_locking=self._use_locking)

    def _resource_apply_dense(self, grad, var):
        return _op("ResourceApplyGradientDescent")(
            var._ref(), self._rate(self._learning_rate_tensor, var), grad,
            use_locking=self._use_locking)

    def _apply_sparse(self, grad, var):
        return _op("ScatterSub")(
            var._ref(), grad.indices,
            grad.values * self._rate(self._learning_rate_tensor, var),
            use_locking=self._use_locking)

    def _resource_apply_sparse(self, grad, var, indices):
        return _op("ResourceScatterSub")(
            var._ref(), indices,
            grad * self._rate(self._learning_rate_tensor, var))


@one_op
class AdagradOptimizer(Optimizer):
    """Updates var -= learning_rate * gradient / sqrt(accumulator).

    The slot "accumulator" is the sum of squared gradients.

    Args:
      learning_rate: a number or a scalar tensor.
      initial_accumulator_value: the initial value of the slot; must be > 0.
      use_locking: whether updates of a variable are mutually exclusive.
      name: the name of the operations and the slot.
    """

    _kind, _slot_names = "Adagrad", ("accumulator",)

    def __init__(self, learning_rate, initial_accumulator_value=0.1,
                 use_locking=False, name="Adagrad"):
        if initial_accumulator_value <= 0.0:
            raise ValueError(f"initial_accumulator_value must be positive: "
                             f"{initial_accumulator_value}")
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._initial = initial_accumulator_value

    def _numbers(self):
        return (("learning_rate", self._learning_rate),)

    def _create_slots(self, var_list):
        for v in var_list:
            self._get_or_make_slot(
                v, lambda v=v: _like(v, self._initial), "accumulator",
                self._name)


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

    def __init__(self, learning_rate, momentum, use_locking=False,
                 name="Momentum", use_nesterov=False):
        super().__init__(use_locking, name)
        self._learning_rate, self._momentum = learning_rate, momentum
        self._use_nesterov = bool(use_nesterov)

    def _create_slots(self, var_list):
        for v in var_list:
            self._zeros_slot(v, "momentum", self._name)

    def _prepare(self):
        self._learning_rate_tensor = convert_to_tensor(
            self._call_if_callable(self._learning_rate), name="learning_rate")
        self._momentum_tensor = convert_to_tensor(
            self._call_if_callable(self._momentum), name="momentum")

    def _apply(self, op, var, *grad):
        return _op(op)(
            var._ref(), self.get_slot(var, "momentum")._ref(),
            self._rate(self._learning_rate_tensor, var), *grad,
            self._rate(self._momentum_tensor, var),
            use_locking=self._use_locking, use_nesterov=self._use_nesterov)

    def _apply_dense(self, grad, var):
        return self._apply("ApplyMomentum", var, grad)

    def _resource_apply_dense(self, grad, var):
        return self._apply("ResourceApplyMomentum", var, grad)

    def _apply_sparse(self, grad, var):
        return self._apply("SparseApplyMomentum", var, grad.values,
                           grad.indices)

    def _resource_apply_sparse(self, grad, var, indices):
        return self._apply("ResourceSparseApplyMomentum", var, grad, indices)


@one_op
class RMSPropOptimizer(Optimizer):
    """Divides gradients by their root mean square; supports momentum."""

    def __init__(self, learning_rate, decay=0.9, momentum=0.0, epsilon=1e-10,
                 use_locking=False, centered=False, name="RMSProp"):
        super().__init__(use_locking, name)
        # `centered` uses the variance of the gradients, not the mean square.
        self._kind = "CenteredRMSProp" if centered else "RMSProp"
        self._slot_names = ["mg"] * bool(centered) + ["rms", "momentum"]
        self._learning_rate, self._decay = learning_rate, decay
        self._momentum, self._epsilon = momentum, epsilon

    def _create_slots(self, var_list):
        for v in var_list:
            self._get_or_make_slot(v, lambda v=v: _like(v, 1.0), "rms",
                                   self._name)
            for name in self._slot_names:
                self._zeros_slot(v, name, self._name)

    def _numbers(self):
        return (("learning_rate", self._learning_rate),
                ("decay", self._decay), ("momentum", self._momentum),
                ("epsilon", self._epsilon))


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

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999,
                 epsilon=1e-8, use_locking=False, name="Adam"):
        super().__init__(use_locking, name)
        self._lr, self._beta1, self._beta2 = learning_rate, beta1, beta2
        self._epsilon = epsilon

    def _create_slots(self, var_list):
        first = min(var_list, key=lambda v: v.name)
        for beta, name in ((self._beta1, "beta1_power"),
                           (self._beta2, "beta2_power")):
            self._create_non_slot_variable(self._call_if_callable(beta), name,
                                           first)
        for v in var_list:
            self._zeros_slot(v, "m", self._name)
            self._zeros_slot(v, "v", self._name)

    def _prepare(self):
        # Subclasses in programs use these names of TensorFlow.
        self._lr_t, self._beta1_t, self._beta2_t, self._epsilon_t = (
            convert_to_tensor(self._call_if_callable(v), name=n)
            for v, n in ((self._lr, "learning_rate"), (self._beta1, "beta1"),
                         (self._beta2, "beta2"), (self._epsilon, "epsilon")))

    def _rates(self, var):
        """Returns learning rate, betas and epsilon in a variable's dtype."""
        return [self._rate(t, var) for t in (
            self._lr_t, self._beta1_t, self._beta2_t, self._epsilon_t)]

    def _get_beta_accumulators(self):
        """Returns the variables of the powers of the betas."""
        graph = graphs.get_default_graph()
        return tuple(self._get_non_slot_variable(n, graph)
                     for n in ("beta1_power", "beta2_power"))

    _beta1_power = property(lambda self: self._get_beta_accumulators()[0])
    _beta2_power = property(lambda self: self._get_beta_accumulators()[1])

    def _powers(self, var):
        return [self._get_non_slot_variable(n, var.graph)
                for n in ("beta1_power", "beta2_power")]

    def _apply(self, op, var, *grad, **attributes):
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        return _op(op)(
            var._ref(), m._ref(), v._ref(),
            *(self._rate(p.value(), var) for p in self._powers(var)),
            *self._rates(var), *grad, use_locking=self._use_locking,
            **attributes)

    def _apply_dense(self, grad, var):
        return self._apply("ApplyAdam", var, grad)

    def _resource_apply_dense(self, grad, var):
        return self._apply("ResourceApplyAdam", var, grad)

    def _apply_rows(self, grad, var, indices, **attributes):
        # (TensorFlow lacks the op; its several ops are much slower.)
        return self._apply(
            "ResourceSparseApplyAdam" if var._resource else "SparseApplyAdam",
            var, grad, indices, **attributes)

    def _apply_sparse(self, grad, var):
        return self._apply_rows(grad.values, var, grad.indices)

    def _resource_apply_sparse(self, grad, var, indices):
        return self._apply_rows(grad, var, indices)

    @property
    def _accepts_repeated_indices(self):
        # The op does; what a subclass does with rows may not.
        return all(getattr(type(self), name) is getattr(AdamOptimizer, name)
                   for name in ("_apply", "_apply_rows", "_apply_sparse",
                                "_resource_apply_sparse"))

    def _finish(self, update_ops, name_scope):
        graph = update_ops[0].graph
        with graphs.control_dependencies(update_ops):
            updates = []
            for name, beta in zip(("beta1_power", "beta2_power"),
                                  (self._beta1_t, self._beta2_t)):
                power = self._get_non_slot_variable(name, graph)
                with graphs.colocate_with(power.op):
                    updates.append(power.assign(power.read_value() * self._rate(
                        beta, power), self._use_locking))
        return control_flow.group(*update_ops, *updates, name=name_scope)
