"""The optimizers of `tf.contrib.opt`."""

from sluice import _core
from sluice.framework.default_session import get_default_session
from sluice.compat import logging
from sluice.framework import graph as graphs
from sluice.framework.conversion import convert_to_tensor
from sluice.ops import array_ops
from sluice.ops.gradients import _list, gradients
from sluice.ops.variables import Variable, trainable_variables
from sluice.training.optimizer import AdamOptimizer, MomentumOptimizer


class NadamOptimizer(AdamOptimizer):
    """Adam with Nesterov momentum (Dozat, 2016).

    A gradient of rows lets the moments of all rows decay, but moves only its
    own.
    """

    def _build(self):
        return _core.Optimizer.adam(self._name, True, "moments")


class LazyAdamOptimizer(AdamOptimizer):
    """Adam that updates only rows with a gradient.

    The moments of the other rows do not decay.
    """

    def _build(self):
        return _core.Optimizer.adam(self._name, False, "lazy")


class AdaMaxOptimizer(AdamOptimizer):
    """Adam with the infinity norm (Kingma and Ba, 2014, section 7)."""

    _initial_values = {"beta1": "_beta1"}

    def __init__(self, learning_rate=0.001, beta1=0.9, beta2=0.999,
                 epsilon=1e-8, use_locking=False, name="AdaMax"):
        super().__init__(learning_rate, beta1, beta2, epsilon, use_locking,
                         name)

    def _build(self):
        return _core.Optimizer.ada_max(self._name)

    def _get_beta_accumulators(self):
        """Returns the variable of the power of beta1."""
        return self._get_non_slot_variable("beta1_power",
                                           graphs.get_default_graph())

    _beta1_power = property(_get_beta_accumulators)


class DecoupledWeightDecayExtension:
    """Adds decoupled weight decay to an optimizer.

    See Loshchilov and Hutter (2017). Derive a class from this one and the
    optimizer.

    Args:
      weight_decay: the fraction of a variable that is subtracted per step.
    """

    def __init__(self, weight_decay, **kwargs):
        self._weight_decay, self._decay_var_list = weight_decay, None
        super().__init__(**kwargs)

    def minimize(self, loss, global_step=None, var_list=None, gate_gradients=1,
                 aggregation_method=None, colocate_gradients_with_ops=False,
                 name=None, grad_loss=None, decay_var_list=None):
        """Returns an operation that runs one training step.

        If `decay_var_list` is given, only these variables decay.
        """
        self._decay_only(decay_var_list)
        return super().minimize(
            loss, global_step, var_list, gate_gradients, aggregation_method,
            colocate_gradients_with_ops, name, grad_loss)

    def apply_gradients(self, grads_and_vars, global_step=None, name=None,
                        decay_var_list=None):
        """Returns an operation that applies gradients and weight decay."""
        if decay_var_list:
            self._decay_only(decay_var_list)
        return super().apply_gradients(grads_and_vars, global_step, name)

    def _decay_only(self, var_list):
        self._decay_var_list = [v._ref() for v in var_list] if (
            var_list) else None

    def _prepare(self):
        self._weight_decay_tensor = convert_to_tensor(
            self._call_if_callable(self._weight_decay), name="weight_decay")
        super()._prepare()

    def _decays(self, var):
        return self._decay_var_list is None or any(
            var._ref() is v for v in self._decay_var_list)

    def _after_decay(self, var, indices, apply):
        """Applies an update after the variable, or its rows, have decayed."""
        if not self._decays(var):
            return apply()
        lost = self._in(var.graph).decay(
            var._ref(), self._weight_decay_tensor, indices)
        with graphs.control_dependencies([lost]):
            return apply()

    def _apply_dense(self, grad, var):
        return self._after_decay(
            var, None, lambda: super(DecoupledWeightDecayExtension,
                                     self)._apply_dense(grad, var))

    def _resource_apply_dense(self, grad, var):
        return self._after_decay(
            var, None, lambda: super(DecoupledWeightDecayExtension,
                                     self)._resource_apply_dense(grad, var))

    def _apply_sparse(self, grad, var):
        return self._after_decay(
            var, grad.indices, lambda: super(
                DecoupledWeightDecayExtension, self)._apply_sparse(grad, var))

    def _resource_apply_sparse(self, grad, var, indices):
        return self._after_decay(
            var, indices, lambda: super(
                DecoupledWeightDecayExtension,
                self)._resource_apply_sparse(grad, var, indices))


def extend_with_decoupled_weight_decay(base_optimizer):
    """Returns a subclass of an optimizer with weight decay.

    The first argument of its constructor is `weight_decay`.
    """
    class Extended(DecoupledWeightDecayExtension, base_optimizer):
        __doc__ = f"{base_optimizer.__name__} with weight decay."

        def __init__(self, weight_decay, *args, **kwargs):
            self._weight_decay, self._decay_var_list = weight_decay, None
            base_optimizer.__init__(self, *args, **kwargs)

    Extended.__name__ = (f"OptimizerWithDecoupledWeightDecay"
                         f"{base_optimizer.__name__}")
    return Extended


class AdamWOptimizer(DecoupledWeightDecayExtension, AdamOptimizer):
    """Adam with weight decay."""

    def __init__(self, weight_decay, learning_rate=0.001, beta1=0.9,
                 beta2=0.999, epsilon=1e-8, use_locking=False, name="AdamW"):
        super().__init__(
            weight_decay, learning_rate=learning_rate, beta1=beta1,
            beta2=beta2, epsilon=epsilon, use_locking=use_locking, name=name)


class MomentumWOptimizer(DecoupledWeightDecayExtension, MomentumOptimizer):
    """Momentum with weight decay."""

    def __init__(self, weight_decay, learning_rate, momentum,
                 use_locking=False, name="MomentumW", use_nesterov=False):
        super().__init__(
            weight_decay, learning_rate=learning_rate, momentum=momentum,
            use_locking=use_locking, name=name, use_nesterov=use_nesterov)


class ExternalOptimizerInterface:
    """The base class of interfaces to external optimizers.

    They see the variables as one vector. Subclasses implement `_minimize`.

    Args:
      loss: the scalar to minimize.
      var_list: the variables; default to all trainable ones.
      equalities: tensors that must be 0.
      inequalities: tensors that must not be negative.
      var_to_bounds: {variable: (lower, upper)}, numbers or arrays.
      optimizer_kwargs: arguments of the optimizer.
    """

    def __init__(self, loss, var_list=None, equalities=None,
                 inequalities=None, var_to_bounds=None, **optimizer_kwargs):
        self._loss, self.optimizer_kwargs = loss, optimizer_kwargs
        self._equalities = list(equalities or [])
        self._inequalities = list(inequalities or [])
        self._vars = list(trainable_variables() if var_list is None
                          else _list(var_list))
        self._fed = [array_ops.placeholder(v.dtype.base_dtype, v.shape)
                     for v in self._vars]
        self._updates = [v.assign(p) for v, p in zip(self._vars, self._fed)]
        self._sizes = [v.shape.num_elements() for v in self._vars]
        self._packed_bounds = self._bounds(var_to_bounds or {})
        self._packed = self._pack([
            v.value() if isinstance(v, Variable) else v for v in self._vars])
        self._loss_grad = self._slopes(loss)
        self._equality_grads = [self._slopes(e) for e in self._equalities]
        self._inequality_grads = [self._slopes(i) for i in self._inequalities]

    def _bounds(self, var_to_bounds):
        import numpy as np
        if not var_to_bounds:
            return None
        by_ref = {v._ref(): bounds for v, bounds in var_to_bounds.items()}
        found = []
        for v in self._vars:
            low, high = by_ref.get(v._ref(), (-np.inf, np.inf))
            shape = v.shape.as_list()
            found += zip(np.broadcast_to(low, shape).ravel().tolist(),
                         np.broadcast_to(high, shape).ravel().tolist())
        return found

    @staticmethod
    def _pack(tensors):
        return array_ops.concat([array_ops.reshape(t, [-1]) for t in tensors],
                                0)

    def _slopes(self, tensor):
        return self._pack([
            array_ops.zeros_like(v) if g is None else convert_to_tensor(g)
            for g, v in zip(gradients(tensor, self._vars), self._vars)])

    def _unpack(self, vector):
        """Returns the feeds for a vector of all variables."""
        import numpy as np
        ends = np.cumsum(self._sizes)[:-1]
        return {p: part.reshape(p.shape.as_list())
                for p, part in zip(self._fed, np.split(vector, ends))}

    def minimize(self, session=None, feed_dict=None, fetches=None,
                 step_callback=None, loss_callback=None, **run_kwargs):
        """Minimizes the loss in a session.

        Args:
          feed_dict: the feeds of all steps.
          fetches: values that are passed to `loss_callback`.
          step_callback: a function of the vector, called after each step.
          loss_callback: a function that is called after each loss computation.
          run_kwargs: arguments of `Session.run`.
        """
        session = session or get_default_session()
        feed_dict, fetches = dict(feed_dict or {}), list(fetches or [])

        def run(targets, vector):
            session.run(self._updates, self._unpack(vector))
            return session.run(targets, feed_dict, **run_kwargs)

        def function(value, slopes, callback=None):
            def both(vector):
                targets = [value, slopes] + (fetches if callback else [])
                got, slope, *more = run(targets, vector)
                if callback is not None:
                    callback(*more)
                return got, slope.astype("float64")
            return both

        start = session.run(self._packed, feed_dict, **run_kwargs)
        result = self._minimize(
            initial_val=start,
            loss_grad_func=function(self._loss, self._loss_grad,
                                    loss_callback),
            **self._constraint_functions(run),
            packed_bounds=self._packed_bounds, step_callback=step_callback,
            optimizer_kwargs=self.optimizer_kwargs)
        session.run(self._updates, self._unpack(result))

    def _constraint_functions(self, run):
        def of(tensors):
            return [lambda vector, t=t: run(t, vector) for t in tensors]

        return dict(equality_funcs=of(self._equalities),
                    equality_grad_funcs=of(self._equality_grads),
                    inequality_funcs=of(self._inequalities),
                    inequality_grad_funcs=of(self._inequality_grads))

    def _minimize(self, initial_val, loss_grad_func, equality_funcs,
                  equality_grad_funcs, inequality_funcs, inequality_grad_funcs,
                  packed_bounds, step_callback, optimizer_kwargs):
        raise NotImplementedError("To use ExternalOptimizerInterface, subclass "
                                  "from it and implement the _minimize() "
                                  "method.")


class ScipyOptimizerInterface(ExternalOptimizerInterface):
    """Minimizes a loss with `scipy.optimize.minimize`.

    Arguments such as `method` and `options` are passed to it. The default
    method is "L-BFGS-B", or "SLSQP" if there are constraints.
    """

    def _minimize(self, initial_val, loss_grad_func, equality_funcs,
                  equality_grad_funcs, inequality_funcs, inequality_grad_funcs,
                  packed_bounds, step_callback, optimizer_kwargs):
        import scipy.optimize
        constraints = [
            {"type": kind, "fun": function, "jac": slopes}
            for kind, functions, jacobians in (
                ("eq", equality_funcs, equality_grad_funcs),
                ("ineq", inequality_funcs, inequality_grad_funcs))
            for function, slopes in zip(functions, jacobians)]
        given = {"method": "SLSQP" if constraints else "L-BFGS-B",
                 **optimizer_kwargs}
        for what in ("fun", "jac", "x0", "bounds", "constraints", "callback"):
            if what in given:
                raise ValueError(f"Optimizer keyword arg '{what}' is set "
                                 f"automatically and cannot be injected "
                                 f"manually")
        if constraints:
            given["constraints"] = constraints
        result = scipy.optimize.minimize(
            loss_grad_func, initial_val.astype("float64"), jac=True,
            callback=step_callback, bounds=packed_bounds, **given)
        logging.info("Optimization terminated with:\n  Message: %s\n  "
                     "Objective function value: %f\n  Number of iterations: "
                     "%s\n  Number of functions evaluations: %s",
                     result.message, result.fun, getattr(result, "nit", "?"),
                     getattr(result, "nfev", "?"))
        return result["x"]
