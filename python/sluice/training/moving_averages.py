"""Moving averages of variables and tensors."""

import contextlib
import functools
import itertools

from sluice import _core
from sluice.framework import dtypes, graph as graphs
from sluice.framework.graph import GraphKeys
from sluice.framework.node_def import VARIABLE_OPS
from sluice.ops import (
    array_ops, init_ops, math_ops, variable_scope as scopes, variables)
from sluice.ops.variables import Variable
from sluice.training import slot_creator


def assign_moving_average(variable, value, decay, zero_debias=True, name=None):
    """Updates a variable to decay * variable + (1 - decay) * value.

    Returns the new value. With `zero_debias`, corrects for the initial value of
    zero (Kingma and Ba, 2014).
    """
    with graphs.name_scope(name, "AssignMovingAvg",
                           [variable, value, decay]) as scope:
        done = _core.assign_moving_average(
            scope, variable._ref(), value, decay,
            functools.partial(_beside, variable) if zero_debias else None)
        if not variable._resource:
            return done.outputs[0]
        with graphs.control_dependencies([done]):
            return variable.read_value()


def _another(name):
    """Returns a variable name that is unused in the scope.

    If the scope reuses variables, returns `name`.
    """
    scope = scopes.get_variable_scope()
    if scope.reuse:
        return name
    taken = {v.op.name for v in scope.global_variables()}
    names = itertools.chain([name], (f"{name}_{i}" for i in itertools.count(1)))
    return next(n for n in names if f"{scope.name}/{n}" not in taken)


def _beside(variable, handle, name, shape):
    """Makes a variable of zeros beside an average; returns its handle."""
    del handle
    with scopes.variable_scope(variable.op.name), graphs.colocate_with(
            variable.op):
        return scopes.get_variable(
            _another(name), shape, variable.dtype.base_dtype, init_ops.Zeros(),
            trainable=False)._ref()


def weighted_moving_average(value, decay, weight, truediv=True,
                            collections=None, name=None):
    """Computes the weighted mean of all values, with exponential decay.

    Args:
      value: a tensor.
      decay: the factor by which older weights decay in each step.
      weight: the weight of this value.
      truediv: whether integers are divided with true division.
      collections: the collections of the variables; default to
        GLOBAL_VARIABLES.
    """
    collections = collections or [GraphKeys.GLOBAL_VARIABLES]
    with scopes.variable_scope(name, "WeightedMovingAvg",
                               [value, weight, decay]):
        sums = [scopes.get_variable(
            label, shape=value.shape, dtype=value.dtype.base_dtype,
            initializer=init_ops.Zeros(), trainable=False,
            collections=collections)
            for label in ("value_x_weight", "weight")]
        dtype = value.dtype.base_dtype
        weight = math_ops.cast(weight, dtype)
        decay = math_ops.cast(decay, dtype)
        total, weights = (
            assign_moving_average(v, x, decay, zero_debias=False)
            for v, x in zip(sums, (value * weight, weight)))
        divide = math_ops.truediv if truediv else math_ops.div
        return divide(total, weights, name="result")


class ExponentialMovingAverage:
    """Maintains moving averages of variables.

    Running the result of `apply` updates them:
    average = decay * average + (1 - decay) * variable.

    Args:
      decay: the decay of the averages.
      num_updates: the number of updates; while it is small, the decay is
        lower.
      zero_debias: whether to correct averages of tensors for the initial value
        of zero.
      name: the suffix of the averages' names.
    """

    def __init__(self, decay, num_updates=None, zero_debias=False,
                 name="ExponentialMovingAverage"):
        self._decay, self._num_updates = decay, num_updates
        self._zero_debias, self._name = zero_debias, name
        self._averages = {}

    name = property(lambda self: self._name, doc="The suffix of names.")

    def apply(self, var_list=None):
        """Returns an operation that updates the averages.

        It averages variables (by default the trainable ones) and tensors, and
        creates missing averages.
        """
        if var_list is None:
            var_list = variables.trainable_variables()
        for x in var_list:
            base = x.dtype.base_dtype
            if base not in (dtypes.float16, dtypes.bfloat16, dtypes.float32,
                            dtypes.float64):
                raise TypeError(f"The variables must be half, float, or "
                                f"double: {x.name}")
        of = [x for x in var_list if isinstance(x, Variable)]
        for v in of:
            variables._remember_by_handle(v)
        return _core.move_averages(
            self, self._decay, self._num_updates, self._zero_debias,
            self._name, [v._ref() for v in of],
            [x for x in var_list if not isinstance(x, Variable)])

    # ---- Called by _core; they return handles.

    def _average_of(self, x, is_variable):
        if is_variable:
            x = variables._variable_of_handle(x)
        if x.name not in self._averages:
            self._averages[x.name] = self._make(x)
        return self._averages[x.name]._ref()

    def _of_debiased(self, handle, name, shape):
        return _beside(variables._variable_of_handle(handle), handle, name,
                       shape)

    def _make(self, x):
        of_variable = isinstance(x, Variable)
        if of_variable:
            first = x.initialized_value
        else:
            first = lambda: array_ops.zeros_like(  # noqa: E731
                x, optimize=True)
        near = x.op if of_variable or x.op.type in VARIABLE_OPS else None
        beside = (contextlib.nullcontext() if near is None
                  else graphs.colocate_with(near))
        with graphs.control_dependencies(None), graphs.name_scope(
                None), beside:
            average = Variable(first, trainable=False,
                               name=slot_creator.full_name(x, self._name),
                               use_resource=of_variable and x._resource)
        variables._remember_by_handle(average)
        if of_variable:
            graphs.add_to_collection(GraphKeys.MOVING_AVERAGE_VARIABLES, x)
        return average

    def average(self, var):
        """Returns the variable with the average of a variable or tensor."""
        return self._averages.get(var.name)

    def average_name(self, var):
        """Returns the name of a variable's average in checkpoints."""
        known = self._averages.get(var.name)
        return known.op.name if known is not None else (
            graphs.get_default_graph().unique_name(
                f"{var.op.name}/{self._name}", mark_as_used=False))

    def variables_to_restore(self, moving_avg_variables=None):
        """Returns {name in a checkpoint: variable}.

        Variables that have an average are restored from it.
        """
        if moving_avg_variables is None:
            moving_avg_variables = variables.trainable_variables() + (
                variables.moving_average_variables())
        restored = {}
        for v in moving_avg_variables:
            restored.setdefault(self.average_name(v), v)
        averaged = {id(v) for v in restored.values()}
        for v in variables.global_variables():
            if id(v) not in averaged and v.op.name not in restored:
                restored[v.op.name] = v
        return restored
