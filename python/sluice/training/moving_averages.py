"""Moving averages of variables and tensors."""

import contextlib
import itertools

from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import convert_to_tensor
from sluice.framework.graph import GraphKeys
from sluice.framework.node_def import VARIABLE_OPS
from sluice.ops import (
    array_ops, control_flow, init_ops, math_ops, variable_scope as scopes,
    variables)
from sluice.ops.variables import Variable
from sluice.training import slot_creator


def assign_moving_average(variable, value, decay, zero_debias=True, name=None):
    """Updates a variable to decay * variable + (1 - decay) * value.

    Returns the new value. With `zero_debias`, corrects for the initial value of
    zero (Kingma and Ba, 2014).
    """
    with graphs.name_scope(name, "AssignMovingAvg",
                           [variable, value, decay]) as scope:
        with graphs.colocate_with(variable.op):
            dtype = variable.dtype.base_dtype
            rest = math_ops.cast(
                convert_to_tensor(1.0 - decay, name="decay"), dtype)
            value = math_ops.cast(value, dtype)
            if zero_debias:
                delta = _debiased(variable, value, rest)
            else:
                delta = (variable.value() - value) * rest
            return variables.assign_sub(variable, delta, name=scope)


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


def _debiased(variable, value, rest):
    """Returns the amount to subtract from a debiased average."""
    with scopes.variable_scope(variable.op.name, values=[variable, value]):
        dtype = variable.dtype.base_dtype
        biased = scopes.get_variable(
            _another("biased"), variable.shape, dtype, init_ops.Zeros(),
            trainable=False)
        steps = scopes.get_variable(_another("local_step"), [], dtype,
                                    init_ops.Zeros(), trainable=False)
        moved = variables.assign_sub(biased, (biased.value() - value) * rest)
        count = variables.assign_add(steps, 1)
        return variable.value() - moved / (1 - math_ops.pow(1.0 - rest, count))


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
        of_tensors = []
        for x in var_list:
            base = x.dtype.base_dtype
            if base not in (dtypes.float16, dtypes.bfloat16, dtypes.float32,
                            dtypes.float64):
                raise TypeError(f"The variables must be half, float, or "
                                f"double: {x.name}")
            if x.name not in self._averages:
                self._averages[x.name] = self._make(x)
            if not isinstance(x, Variable):
                of_tensors.append(x.name)
        with graphs.name_scope(self._name) as scope:
            decay = convert_to_tensor(self._decay, name="decay")
            if self._num_updates is not None:
                n = math_ops.cast(self._num_updates, dtypes.float32)
                decay = math_ops.minimum(decay, (1.0 + n) / (10.0 + n))
            updates = [assign_moving_average(
                self._averages[x.name],
                x.value() if isinstance(x, Variable) else x, decay,
                self._zero_debias and x.name in of_tensors)
                       for x in var_list]
            return control_flow.group(*updates, name=scope)

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
