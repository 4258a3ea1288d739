"""Less common optimizers."""

from sluice import _core
from sluice.ops import math_ops
from sluice.training.optimizer import Optimizer


def _not_negative(**values):
    for name, value in values.items():
        if value < 0.0:
            raise ValueError(f"{name} {value} needs to be greater than or "
                             f"equal to zero")


class AdadeltaOptimizer(Optimizer):
    """The Adadelta optimizer (Zeiler, 2012).

    It has the slots "accum" and "accum_update".
    """

    _hyperparameters = (("_lr", "_lr_t"), ("_rho", "_rho_t"),
                        ("_epsilon", "_epsilon_t"))

    def __init__(self, learning_rate=0.001, rho=0.95, epsilon=1e-8,
                 use_locking=False, name="Adadelta"):
        super().__init__(use_locking, name)
        self._lr, self._rho, self._epsilon = learning_rate, rho, epsilon

    def _build(self):
        return _core.Optimizer.adadelta(self._name)


# Of optimizers with a penalty.
_RATE = ("_learning_rate", "_learning_rate_tensor")
_PENALTIES = (("_l1_regularization_strength",
               "_l1_regularization_strength_tensor"),
              ("_l2_regularization_strength",
               "_l2_regularization_strength_tensor"))


class AdagradDAOptimizer(Optimizer):
    """Adagrad dual averaging (Duchi et al., 2011) for sparse linear models."""

    _hyperparameters = (_RATE, *_PENALTIES, (None, "_global_step_on_worker"))

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
        self._initial_gradient_squared_accumulator_value = (
            initial_gradient_squared_accumulator_value)
        self._l1_regularization_strength = l1_regularization_strength
        self._l2_regularization_strength = l2_regularization_strength

    def _build(self):
        return _core.Optimizer.adagrad_da(
            self._name, self._initial_gradient_squared_accumulator_value)

    def _prepare(self):
        super()._prepare()
        self._global_step_on_worker = math_ops.cast(self._global_step,
                                                    "int64") + 1


class FtrlOptimizer(Optimizer):
    """The follow-the-regularized-leader optimizer (McMahan et al., 2013).

    `beta` is the paper's: a variable's rate is
    `learning_rate / (beta + accumulator ** -learning_rate_power)`.
    """

    def __init__(self, learning_rate, learning_rate_power=-0.5,
                 initial_accumulator_value=0.1, l1_regularization_strength=0.0,
                 l2_regularization_strength=0.0, use_locking=False, name="Ftrl",
                 accum_name=None, linear_name=None,
                 l2_shrinkage_regularization_strength=0.0, beta=None):
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
        self._learning_rate = learning_rate
        self._learning_rate_power = learning_rate_power
        self._initial_accumulator_value = initial_accumulator_value
        self._l1_regularization_strength = l1_regularization_strength
        self._l2_regularization_strength = l2_regularization_strength
        self._l2_shrinkage_regularization_strength = (
            l2_shrinkage_regularization_strength)
        self._accum_name, self._linear_name = accum_name, linear_name
        self._beta = beta or 0.0

    def _prepare(self):
        super()._prepare()
        if self._beta:
            # The update divides by n^-p / rate + 2 l2; the paper's beta is
            # another summand, beta / rate.
            self._l2_regularization_strength_tensor += self._beta / (
                2.0 * self._learning_rate_tensor)

    @property
    def _hyperparameters(self):
        shrinkage = (("_l2_shrinkage_regularization_strength",
                      "_l2_shrinkage_regularization_strength_tensor"),)
        shrinks = self._l2_shrinkage_regularization_strength > 0
        return (_RATE, *_PENALTIES, *(shrinkage if shrinks else ()),
                ("_learning_rate_power", "_learning_rate_power_tensor"))

    def _build(self):
        return _core.Optimizer.ftrl(
            self._name, self._initial_accumulator_value,
            self._l2_shrinkage_regularization_strength, self._accum_name or "",
            self._linear_name or "")


class ProximalGradientDescentOptimizer(Optimizer):
    """Gradient descent with a proximal step (Duchi and Singer, 2009)."""

    _hyperparameters = (_RATE, *_PENALTIES)

    def __init__(self, learning_rate, l1_regularization_strength=0.0,
                 l2_regularization_strength=0.0, use_locking=False,
                 name="ProximalGradientDescent"):
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._l1_regularization_strength = l1_regularization_strength
        self._l2_regularization_strength = l2_regularization_strength

    def _build(self):
        return _core.Optimizer.proximal_gradient_descent(self._name)


class ProximalAdagradOptimizer(Optimizer):
    """Adagrad with a proximal step (slot "accumulator")."""

    _hyperparameters = (_RATE, *_PENALTIES)

    def __init__(self, learning_rate, initial_accumulator_value=0.1,
                 l1_regularization_strength=0.0, l2_regularization_strength=0.0,
                 use_locking=False, name="ProximalAdagrad"):
        if initial_accumulator_value <= 0.0:
            raise ValueError(f"initial_accumulator_value must be positive: "
                             f"{initial_accumulator_value}")
        super().__init__(use_locking, name)
        self._learning_rate = learning_rate
        self._initial_accumulator_value = initial_accumulator_value
        self._l1_regularization_strength = l1_regularization_strength
        self._l2_regularization_strength = l2_regularization_strength

    def _build(self):
        return _core.Optimizer.proximal_adagrad(
            self._name, self._initial_accumulator_value)
