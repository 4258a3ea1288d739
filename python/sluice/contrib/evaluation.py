"""Evaluation loops, which run steps until a hook stops them.

`tf.contrib.training.evaluate_once` and `tensorflow.python.training.evaluation`.
"""

import math

from sluice.compat import logging
from sluice.compat.training.monitored_session import (
    ChiefSessionCreator, MonitoredSession)
from sluice.compat.training.session_hooks import (
    FinalOpsHook, SessionRunArgs, SessionRunHook)
from sluice.framework import dtypes, graph as graphs
from sluice.framework.graph import GraphKeys
from sluice.ops import array_ops, init_ops, variable_scope


def get_or_create_eval_step():
    """Returns the local variable that counts evaluation steps."""
    found = graphs.get_collection(GraphKeys.EVAL_STEP)
    if len(found) > 1:
        raise ValueError("Multiple tensors added to tf.GraphKeys.EVAL_STEP")
    return found[0] if found else variable_scope.get_variable(
        "eval_step", [], dtypes.int64, init_ops.Zeros(), trainable=False,
        collections=[GraphKeys.LOCAL_VARIABLES, GraphKeys.EVAL_STEP])


class StopAfterNEvalsHook(SessionRunHook):
    """Stops after N evaluation steps, or never if N is None."""

    def __init__(self, num_evals, log_progress=True):
        self._num_evals, self._log_progress = num_evals, log_progress
        self._frequency = (1 if num_evals is None or num_evals < 20
                           else math.floor(num_evals / 10))
        self._evals_completed = None

    def _set_evals_completed_tensor(self, updated_eval_step):
        self._evals_completed = updated_eval_step

    def before_run(self, run_context):
        return SessionRunArgs({"evals_completed": self._evals_completed})

    def after_run(self, run_context, run_values):
        done = run_values.results["evals_completed"]
        last = self._num_evals is not None and done >= self._num_evals
        if self._log_progress and (last or done % self._frequency == 0):
            logging.info("Evaluation [%d/%s]", done,
                         "inf" if self._num_evals is None else self._num_evals)
        if last:
            run_context.request_stop()


def evaluate_once(checkpoint_path, master="", scaffold=None, eval_ops=None,
                  feed_dict=None, final_ops=None, final_ops_feed_dict=None,
                  hooks=None, config=None):
    """Runs `eval_ops` until a hook stops, then returns `final_ops` values.

    Args:
      checkpoint_path: the checkpoint to restore, or None.
      eval_ops: operations or tensors to run in each step: one, or a list or
        dict of them.
    """
    step = get_or_create_eval_step()
    hooks = list(hooks or [])
    if eval_ops is not None:
        counted = step.assign_add(1, use_locking=True)
        if isinstance(eval_ops, dict):
            eval_ops["update_eval_step"] = counted
            updates = list(eval_ops.values())
        else:
            several = isinstance(eval_ops, (list, tuple))
            eval_ops = updates = [
                *(eval_ops if several else [eval_ops]), counted]
        with graphs.control_dependencies(updates):
            done = array_ops.identity(step.read_value())
        for hook in hooks:
            if isinstance(hook, StopAfterNEvalsHook):
                hook._set_evals_completed_tensor(done)
    last = FinalOpsHook(final_ops, final_ops_feed_dict)
    with MonitoredSession(
            ChiefSessionCreator(scaffold, master, config,
                                checkpoint_filename_with_path=checkpoint_path),
            [*hooks, last]) as session:
        while eval_ops is not None and not session.should_stop():
            session.run(eval_ops, feed_dict)
    return last.final_ops_values


# The internal names in TensorFlow.
_StopAfterNEvalsHook = StopAfterNEvalsHook
_evaluate_once = evaluate_once
_get_or_create_eval_step = get_or_create_eval_step
