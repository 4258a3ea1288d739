"""Synchronous training by several workers (OSDI'16, section 4.4)."""

import time

from sluice import _core
from sluice.compat.training.session_hooks import SessionRunHook
from sluice.framework import graph as graphs
from sluice.framework.conversion import IndexedSlices
from sluice.ops import control_flow
from sluice.ops.queues import FIFOQueue
from sluice.ops.variables import global_variables, report_uninitialized_variables
from sluice.framework.dtypes import int32
from sluice.training.optimizer import Optimizer
from sluice.training.queue_runner import QueueRunner


class SyncReplicasOptimizer(Optimizer):
    """Applies the mean of several workers' gradients.

    Each worker builds the same graph and runs its own steps, which add its
    gradients to accumulators beside the variables. The chief's update waits for
    `replicas_to_aggregate` of them, applies their mean with `opt` and lets the
    workers go on. Gradients of earlier steps are dropped. With fewer gradients
    than replicas the others are backup workers.

    Args:
      opt: the optimizer that applies the means.
      replicas_to_aggregate: the number of gradients in an update.
      total_num_replicas: the number of workers; defaults to
        `replicas_to_aggregate`.
      variable_averages: an ExponentialMovingAverage, applied after each update.
      variables_to_average: its variables; required with `variable_averages`.
      use_locking: as for other optimizers.
      name: the prefix of the nodes' names.
    """

    def __init__(self, opt, replicas_to_aggregate, total_num_replicas=None,
                 variable_averages=None, variables_to_average=None,
                 use_locking=False, name="sync_replicas"):
        if total_num_replicas is None:
            total_num_replicas = replicas_to_aggregate
        super().__init__(use_locking, name)
        self._opt = opt
        self._replicas_to_aggregate = replicas_to_aggregate
        self._total_num_replicas = total_num_replicas
        self._variable_averages = variable_averages
        self._variables_to_average = variables_to_average
        self._made = None
        self.local_step_init_op = self.chief_init_op = None
        self.ready_for_local_init_op = None

    def compute_gradients(self, *args, **kwargs):
        """Returns [(gradient or None, variable)], computed by `opt`."""
        return self._opt.compute_gradients(*args, **kwargs)

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        """Returns a worker's step, which adds the gradients and waits.

        Args:
          grads_and_vars: the result of `compute_gradients`.
          global_step: the variable that counts updates; required.

        Raises:
          ValueError: if there is no global step, no gradient, or averages
            without variables.
        """
        grads_and_vars = list(grads_and_vars)
        if not grads_and_vars:
            raise ValueError("Must supply at least one variable")
        if global_step is None:
            raise ValueError("Global step is required to check staleness")
        if (self._variable_averages is not None and
                self._variables_to_average is None):
            raise ValueError("expected variables_to_average, which "
                             "variable_averages is applied to, got None")
        pairs = [(g, v) for g, v in grads_and_vars if g is not None]
        if not pairs:
            raise ValueError("expected a gradient for some variable, got none "
                             f"for {[v.name for _, v in grads_and_vars]}")
        variables = [v for _, v in pairs]

        def apply(means):
            grads = [IndexedSlices(*m) if isinstance(m, tuple) else m
                     for m in means]
            return self._opt.apply_gradients(
                list(zip(grads, variables)), global_step, name)

        def average():
            return self._variable_averages.apply(self._variables_to_average)

        self.ready_for_local_init_op = report_uninitialized_variables(
            global_variables())
        self._made = _core.SyncReplicas(
            [g for g, _ in pairs], [v._ref() for v in variables],
            global_step._ref(), self._total_num_replicas,
            self._replicas_to_aggregate, apply,
            None if self._variable_averages is None else average)
        self.chief_init_op = control_flow.group(
            self._made.chief_init, self._made.local_init)
        self.local_step_init_op = self._made.local_init
        with graphs.device(global_step.device):
            # (A runner has a queue that it closes at its end. Workers of a later
            # chief still need that of the tokens.)
            unused = FIFOQueue(1, [int32], shapes=[()], name="dummy_queue",
                               shared_name="dummy_queue")
        self._runner = QueueRunner(unused, [self._made.update])
        return self._made.train

    def _check_made(self, what):
        if self._made is None:
            raise ValueError(f"{what} should be called after apply_gradients().")

    def get_chief_queue_runner(self):
        """Returns the QueueRunner of the updates, which the chief starts."""
        self._check_made("get_chief_queue_runner()")
        return self._runner

    def get_init_tokens_op(self, num_tokens=-1):
        """Returns an operation that puts the first tokens into the queue.

        The chief runs it once, when variables have their values.

        Args:
          num_tokens: how many; -1: `replicas_to_aggregate`.

        Raises:
          ValueError: if there are too few for the first update.
        """
        self._check_made("get_init_tokens_op()")
        needed = self._replicas_to_aggregate - self._total_num_replicas
        if num_tokens == -1:
            num_tokens = self._replicas_to_aggregate
        elif num_tokens < needed:
            raise ValueError(f"Too few tokens to finish the first step: "
                             f"{num_tokens} (given) vs {needed} (needed)")
        if num_tokens > 0:
            return self._made.put_tokens(num_tokens)
        return control_flow.no_op(name="no_init_tokens")

    def make_session_run_hook(self, is_chief, num_tokens=-1):
        """Returns a hook that initializes, and runs the chief's updates."""
        return _SyncReplicasHook(self, is_chief, num_tokens)

    def get_slot(self, *args, **kwargs):
        """Returns a slot of `opt`."""
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args, **kwargs):
        """Returns the names of the slots of `opt`."""
        return self._opt.get_slot_names(*args, **kwargs)

    def variables(self):
        """Returns the slots and other variables of `opt`."""
        return self._opt.variables()


class _SyncReplicasHook(SessionRunHook):
    """Prepares a worker; for the chief, also runs the updates on a thread."""

    _RETRY_SECONDS = 0.1

    def __init__(self, optimizer, is_chief, num_tokens):
        self._optimizer = optimizer
        self._is_chief, self._num_tokens = is_chief, num_tokens

    def begin(self):
        made = self._optimizer._made
        if made is None:
            raise ValueError("SyncReplicasOptimizer.apply_gradient should be "
                             "called before using the hook.")
        self._ready = made.ready
        if self._is_chief:
            self._tokens = self._optimizer.get_init_tokens_op(self._num_tokens)

    def after_create_session(self, session, coord):
        if self._is_chief:
            session.run(self._optimizer.chief_init_op)
            session.run(self._tokens)
            self._optimizer.get_chief_queue_runner().create_threads(
                session, coord=coord, daemon=True, start=True)
            return
        while not session.run(self._ready):
            if coord is not None and coord.should_stop():
                return
            time.sleep(self._RETRY_SECONDS)
        session.run(self._optimizer.local_step_init_op)
