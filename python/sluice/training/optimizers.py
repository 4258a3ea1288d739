"""Less common optimizers."""

from sluice.ops import math_ops
from sluice.training.optimizer import Optimizer, _like, _OneOp, one_op


def _not_negative(**values):
    for name, value in values.items():
        if value < 0.0:
            raise ValueError(f"{name} {value} needs to be greater than or "
                             f"equal to zero")


@one_op
class AdadeltaOptimizer(Optimizer):
    """The Adadelta optimizer (Zeiler, 2012).

    It has the slots "accum" and "accum_update".
    """

    _kind, _slot_names = "Adadelta", ("accum", "accum_update")

    def __init__(self, learning_rate=0.001, rho=0.95, epsilon=1e-8,
                 use_locking=False, name="Adadelta"):
        super().__init__(use_locking, name)
        self._lr, self._rho, self._epsilon = learning_rate, rho, epsilon

    def _numbers(self):
        return (("lr", self._lr), ("rho", self._rho),
                ("epsilon", self._epsilon))

    def _create_slots(self, var_list):
        for v in var_list:
            for slot in self._slot_names:
                self._zeros_slot(v, slot, self._name)


@one_op
class AdagradDAOptimizer(Optimizer):
    """Adagrad dual averaging (Duchi et al., 2011) for sparse linear models."""

    _kind, _numbers_first = "AdagradDA", False
    _slot_names = ("gradient_accumulator", "gradient_squared_accumulator")

    def __init__(self, learning_rate, global_step,
                 initial_gradient_squared_accumulator_value=0.1,
                 l1_regularization_strength=0.0, l2_regularization_strength=0.0,
                 use_locking=False, name="AdagradDA"):
        if initial_gradient_squared_accumulator_value <= 0.0:
            raise ValueError("initial_gradient_squared_accumulator_value must "
                             "be positive: "
                             f"{initial_gradient_squared_accumulator_value}")
        super().__init__(use_locking, name)
        self._learning_rate, self._global_step = learning_rate, global_step
        self._initial = initial_gradient_squared_accumulator_value
        self._l1 = l1_regularization_strength
        self._l2 = l2_regularization_strength

    def _numbers(self):
        return (("learning_rate", self._learning_rate), ("l1", self._l1),
                ("l2", self._l2))

    def _prepare(self):
        _OneOp._prepare(self)
        self._step = math_ops.cast(self._global_step, "int64") + 1

    def _arguments(self, var):
        return _OneOp._arguments(self, var) + [self._step]

    def _create_slots(self, var_list):
        for v in var_list:
            self._zeros_slot(v, "gradient_accumulator", self._name)
            self._get_or_make_slot(
                v, lambda v=v: _like(v, self._initial),
                "gradient_squared_accumulator", self._name)


@one_op
class FtrlOptimizer(Optimizer):
    """The follow-the-regularized-leader optimizer (McMahan et al., 2013)."""

    _numbers_first, _slot_names = False, ("accum", "linear")

    def __init__(self, learning_rate, learning_rate_power=-0.5,
                 initial_accumulator_value=0.1, l1_regularization_strength=0.0,
                 l2_regularization_strength=0.0, use_locking=False, name="Ftrl",
                 accum_name=None, linear_name=None,
                 l2_shrinkage_regularization_strength=0.0):
        _not_negative(
            initial_accumulator_value=initial_accumulator_value,
            l1_regularization_strength=l1_regularization_strength,
            l2_regularization_strength=l2_regularization_strength,
            l2_shrinkage_regularization_strength=(
                l2_shrinkage_regularization_strength))
        if learning_rate_power > 0.0:
            raise ValueError(f"learning_rate_power {learning_rate_power} needs "
                             f"to be negative or zero")
        super().__init__(use_locking, name)
        self._learning_rate, self._power = learning_rate, learning_rate_power
        self._initial = initial_accumulator_value
        self._l1 = l1_regularization_strength
        self._l2 = l2_regularization_strength
        self._shrinkage = l2_shrinkage_regularization_strength
        self._kind = "FtrlV2" if self._shrinkage > 0 else "Ftrl"
        self._slot_ops = accum_name or name, linear_name or name

    def _numbers(self):
        shrinkage = (("l2_shrinkage", self._shrinkage),) if (
            self._shrinkage > 0) else ()
        return (("learning_rate", self._learning_rate), ("l1", self._l1),
                ("l2", self._l2), *shrinkage,
                ("learning_rate_power", self._power))

    def _create_slots(self, var_list):
        for v in var_list:
            self._get_or_make_slot(v, lambda v=v: _like(v, self._initial),
                                   "accum", self._slot_ops[0])
            self._zeros_slot(v, "linear", self._slot_ops[1])


@one_op
class ProximalGradientDescentOptimizer(Optimizer):
    """Gradient descent with a proximal step (Duchi and Singer, 2009)."""

    _kind = "ProximalGradientDescent"

    def __init__(self, learning_rate, l1_regularization_strength=0.0,
                 l2_regularization_strength=0.0, use_locking=False,
                 name="ProximalGradientDescent"):
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._l1 = l1_regularization_strength
        self._l2 = l2_regularization_strength

    def _numbers(self):
        return (("learning_rate", self._learning_rate), ("l1", self._l1),
                ("l2", self._l2))


@one_op
class ProximalAdagradOptimizer(Optimizer):
    """Adagrad with a proximal step (slot "accumulator")."""

    _kind, _slot_names = "ProximalAdagrad", ("accumulator",)

    def __init__(self, learning_rate, initial_accumulator_value=0.1,
                 l1_regularization_strength=0.0, l2_regularization_strength=0.0,
                 use_locking=False, name="ProximalAdagrad"):
        if initial_accumulator_value <= 0.0:
            raise ValueError(f"initial_accumulator_value must be positive: "
                             f"{initial_accumulator_value}")
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._initial = initial_accumulator_value
        self._l1 = l1_regularization_strength
        self._l2 = l2_regularization_strength

    def _numbers(self):
        return (("learning_rate", self._learning_rate), ("l1", self._l1),
                ("l2", self._l2))

    def _create_slots(self, var_list):
        for v in var_list:
            self._get_or_make_slot(v, lambda v=v: _like(v, self._initial),
                                   "accumulator", self._name)
