"""Hooks, which run around the steps of a monitored session."""

import collections
import os
import time

from sluice import _core
from sluice.compat import logging
from sluice.framework import (
    errors, graph as graphs, graph_io, meta_graph, protos)
from sluice.summary import writer
from sluice.training.global_step import get_global_step


class SessionRunArgs(collections.namedtuple(
        "SessionRunArgs", ["fetches", "feed_dict", "options"])):
    """The fetches, feeds and options that a hook adds to a step."""

    def __new__(cls, fetches, feed_dict=None, options=None):
        return super().__new__(cls, fetches, feed_dict, options)


SessionRunValues = collections.namedtuple(
    "SessionRunValues", ["results", "options", "run_metadata"])


class SessionRunContext:
    """The arguments and the session of a step."""

    def __init__(self, original_args, session):
        self.original_args, self.session = original_args, session
        self.stop_requested = False

    def request_stop(self):
        """Requests a stop after this step."""
        self.stop_requested = True


class SessionRunHook:
    """Called around the steps of a monitored session."""

    def begin(self):
        """Called before the session is made; may add to the graph."""

    def after_create_session(self, session, coord):
        """Called after the session is made."""

    def before_run(self, run_context):
        """Called before each step; returns SessionRunArgs or None."""

    def after_run(self, run_context, run_values):
        """Called after each step; `run_values.results` are its fetches."""

    def end(self, session):
        """Called after the last step, unless an error ended the session."""


class CheckpointSaverListener:
    """Called before and after each save of a checkpoint."""

    def begin(self):
        """Called before the session is made."""

    def before_save(self, session, global_step_value):
        """Called before a checkpoint is written."""

    def after_save(self, session, global_step_value):
        """Called after a checkpoint is written; returns True to stop."""

    def end(self, session, global_step_value):
        """Called after the last step."""


class CheckpointSaverHook(SessionRunHook):
    """Saves checkpoints: at the start, every N seconds or steps, at the end.

    Args:
      checkpoint_dir: the folder.
      save_secs, save_steps: how often; exactly one of them.
      saver: the Saver.
      checkpoint_basename: the start of the names of the checkpoints.
      scaffold: the Scaffold whose saver is used, instead of `saver`.
      listeners: CheckpointSaverListeners.
      save_graph_def: whether the graph is written to the folder.
    """

    def __init__(self, checkpoint_dir, save_secs=None, save_steps=None,
                 saver=None, checkpoint_basename="model.ckpt", scaffold=None,
                 listeners=None, save_graph_def=True):
        logging.info("Create CheckpointSaverHook.")
        if saver is not None and scaffold is not None:
            raise ValueError("You cannot provide both saver and scaffold.")
        self._dir = os.fspath(checkpoint_dir)
        self._path = os.path.join(self._dir, checkpoint_basename)
        self._saver, self._scaffold = saver, scaffold
        self._timer = SecondOrStepTimer(save_secs, save_steps)
        self._listeners = list(listeners or [])
        self._save_graph_def = save_graph_def

    def begin(self):
        self._writer = writer.FileWriterCache.get(self._dir)
        self._step = _step_tensor(self)
        for listener in self._listeners:
            listener.begin()

    def after_create_session(self, session, coord):
        step = session.run(self._step)
        if self._save_graph_def:
            graph = graphs.get_default_graph()
            definition = graph.as_graph_def(add_shapes=True)
            os.makedirs(_core.local_path(self._dir), exist_ok=True)
            graph_io.write_graph(definition, self._dir, "graph.pbtxt")
            saver = self._get_saver()
            self._writer.add_graph(graph)
            self._writer.add_meta_graph(meta_graph.create_meta_graph_def(
                graph_def=definition,
                saver_def=saver.saver_def if saver else None))
        self._save(session, step)
        self._timer.update_last_triggered_step(step)

    def before_run(self, run_context):
        return SessionRunArgs(self._step)

    def after_run(self, run_context, run_values):
        if not self._timer.should_trigger_for_step(int(run_values.results) + 1):
            return
        # The step was read before or after its increment.
        step = run_context.session.run(self._step)
        if self._timer.should_trigger_for_step(step):
            self._timer.update_last_triggered_step(step)
            if self._save(run_context.session, step):
                run_context.request_stop()

    def end(self, session):
        step = session.run(self._step)
        if step != self._timer.last_triggered_step():
            self._save(session, step)
        for listener in self._listeners:
            listener.end(session, step)

    def _save(self, session, step):
        """Returns whether a listener asks to stop."""
        logging.info("Saving checkpoints for %d into %s.", step, self._path)
        for listener in self._listeners:
            listener.before_save(session, step)
        self._get_saver().save(session, self._path, global_step=step,
                               write_meta_graph=self._save_graph_def)
        self._writer.add_session_log(
            protos.SessionLog(status=protos.SessionLog.CHECKPOINT,
                              checkpoint_path=self._path), step)
        stops = [listener.after_save(session, step)
                 for listener in self._listeners]
        if any(stops):
            logging.info("A CheckpointSaverListener requested that training be "
                         "stopped.")
        return any(stops)

    def _get_saver(self):
        if self._saver is None and self._scaffold is not None:
            return self._scaffold.saver
        if self._saver is None:
            key = graphs.GraphKeys.SAVERS
            savers = graphs.get_collection(key)
            if not savers:
                raise RuntimeError(f"No items in collection {key}. Please add "
                                   f"a saver to the collection or provide a "
                                   f"saver or scaffold.")
            if len(savers) > 1:
                raise RuntimeError(f"More than one item in collection {key}. "
                                   f"Please indicate which one to use by "
                                   f"passing it to the constructor.")
            self._saver = savers[0]
        return self._saver


class SecondOrStepTimer:
    """A timer that triggers every N seconds or steps."""

    def __init__(self, every_secs=None, every_steps=None):
        if (every_secs is None) == (every_steps is None):
            raise ValueError("Exactly one of every_secs and every_steps should "
                             "be provided.")
        self._secs, self._steps = every_secs, every_steps
        self.reset()

    def reset(self):
        """Makes the next step trigger."""
        self._last_step = self._last_time = None

    def should_trigger_for_step(self, step):
        """Returns whether the step triggers the timer."""
        if self._last_step is None:
            return True
        if step == self._last_step:
            return False
        if self._secs is not None:
            return time.time() >= self._last_time + self._secs
        return step >= self._last_step + self._steps

    def update_last_triggered_step(self, step):
        """Records a trigger.

        Returns the (seconds, steps) since the previous one, or (None, None).
        """
        now, last = time.time(), (self._last_time, self._last_step)
        self._last_time, self._last_step = now, step
        return (None, None) if last[0] is None else (now - last[0],
                                                     step - last[1])

    def last_triggered_step(self):
        """Returns the step of the last trigger, or None."""
        return self._last_step


def _step_tensor(hook):
    step = get_global_step()
    if step is None:
        raise RuntimeError(f"Global step should be created to use "
                           f"{type(hook).__name__}.")
    return step


class StopAtStepHook(SessionRunHook):
    """Stops after a number of steps, or at a step.

    Args:
      num_steps: the number of steps from the start of the session.
      last_step: the global step after which it stops.
    """

    def __init__(self, num_steps=None, last_step=None):
        if (num_steps is None) == (last_step is None):
            raise ValueError("Exactly one of num_steps or last_step must be "
                             "specified.")
        self._num_steps, self._last_step = num_steps, last_step

    def begin(self):
        self._step = _step_tensor(self)

    def after_create_session(self, session, coord):
        if self._last_step is None:
            self._last_step = session.run(self._step) + self._num_steps

    def before_run(self, run_context):
        return SessionRunArgs(self._step)

    def after_run(self, run_context, run_values):
        # The step may have been read before or after its increment.
        if run_values.results + 1 >= self._last_step:
            if run_context.session.run(self._step) >= self._last_step:
                run_context.request_stop()


class LoggingTensorHook(SessionRunHook):
    """Logs tensors every N steps or seconds, or at the end.

    Args:
      tensors: {tag: tensor or its name}, or a list of names.
      formatter: a function from {tag: value} to the text.
    """

    def __init__(self, tensors, every_n_iter=None, every_n_secs=None,
                 at_end=False, formatter=None):
        if every_n_iter is not None and every_n_iter <= 0:
            raise ValueError(f"invalid every_n_iter={every_n_iter}.")
        self._timer = None
        if not at_end or every_n_iter is not None or every_n_secs is not None:
            if (every_n_iter is None) == (every_n_secs is None):
                raise ValueError("either at_end and/or exactly one of "
                                 "every_n_iter and every_n_secs must be "
                                 "provided.")
            self._timer = SecondOrStepTimer(every_n_secs, every_n_iter)
        self._tensors = dict(tensors) if isinstance(tensors, dict) else {
            t: t for t in tensors}
        self._at_end, self._formatter = at_end, formatter

    def begin(self):
        graph = graphs.get_default_graph()
        self._fetches = {tag: graph.as_graph_element(t)
                         for tag, t in self._tensors.items()}
        self._count = 0
        if self._timer:
            self._timer.reset()

    def before_run(self, run_context):
        self._due = self._timer is not None and (
            self._timer.should_trigger_for_step(self._count))
        return SessionRunArgs(self._fetches) if self._due else None

    def after_run(self, run_context, run_values):
        if self._due:
            self._log(run_values.results)
        self._count += 1

    def end(self, session):
        if self._at_end:
            self._log(session.run(self._fetches))

    def _log(self, values):
        seconds = None
        if self._timer:
            seconds, _ = self._timer.update_last_triggered_step(self._count)
        if self._formatter:
            logging.info(self._formatter(values))
            return
        text = ", ".join(f"{tag} = {values[tag]}" for tag in self._fetches)
        logging.info(text if seconds is None
                     else f"{text} ({seconds:.3f} sec)")


# After so many runs without a new step, StepCounterHook warns.
_RUNS_OF_ONE_STEP = 20


class StepCounterHook(SessionRunHook):
    """Logs the steps per second, and writes them as a summary.

    Args:
      every_n_steps, every_n_secs: how often.
      output_dir: the folder of the summaries, or None.
      summary_writer: the writer of the summaries, instead of `output_dir`.
    """

    def __init__(self, every_n_steps=100, every_n_secs=None, output_dir=None,
                 summary_writer=None):
        self._timer = SecondOrStepTimer(
            every_n_secs, None if every_n_secs is not None else every_n_steps)
        self._output_dir, self._writer = output_dir, summary_writer

    def begin(self):
        self._step = _step_tensor(self)
        if self._writer is None and self._output_dir:
            self._writer = writer.FileWriterCache.get(self._output_dir)
        self._tag = f"{self._step.op.name}/sec"
        self._last, self._unchanged = None, 0

    def before_run(self, run_context):
        return SessionRunArgs(self._step)

    def _check(self, step):
        """Warns if the step stays the same in many runs.

        (It may stay in some, such as those that only accumulate gradients.)
        """
        self._unchanged = self._unchanged + 1 if step == self._last else 0
        if self._unchanged == _RUNS_OF_ONE_STEP:
            self._unchanged = 0
            logging.log_first_n(
                logging.WARN,
                "It seems that global step (tf.train.get_global_step) has not "
                "been increased. Current value (could be stable): %s vs "
                "previous value: %s. You could increase the global step by "
                "passing tf.train.get_global_step() to "
                "Optimizer.apply_gradients or Optimizer.minimize.", 5, step,
                self._last)
        self._last = step

    def after_run(self, run_context, run_values):
        self._check(int(run_values.results))
        if not self._timer.should_trigger_for_step(int(run_values.results) + 1):
            return
        # The step was read before or after its increment.
        step = int(run_context.session.run(self._step))
        if self._timer.should_trigger_for_step(step):
            seconds, steps = self._timer.update_last_triggered_step(step)
            if seconds:
                self._log_and_record(steps, seconds, step)

    def _log_and_record(self, elapsed_steps, elapsed_time, global_step):
        rate = elapsed_steps / elapsed_time
        if self._writer is not None:
            self._writer.add_summary(protos.Summary(value=[
                protos.Summary.Value(tag=self._tag, simple_value=rate)]),
                global_step)
        logging.info("%s: %g", self._tag, rate)


class SummarySaverHook(SessionRunHook):
    """Writes summaries, with those of the first step.

    Args:
      save_steps, save_secs: how often; exactly one of them.
      output_dir: the folder of the event file.
      summary_writer: the writer, instead of `output_dir`.
      scaffold: the Scaffold whose summary_op is run.
      summary_op: the operation to run, or a list of them, instead of
        `scaffold`.
    """

    def __init__(self, save_steps=None, save_secs=None, output_dir=None,
                 summary_writer=None, scaffold=None, summary_op=None):
        if (scaffold is None) == (summary_op is None):
            raise ValueError("Exactly one of scaffold or summary_op must be "
                             "provided.")
        self._timer = SecondOrStepTimer(save_secs, save_steps)
        self._output_dir, self._writer = output_dir, summary_writer
        self._scaffold, self._summary_op = scaffold, summary_op

    def begin(self):
        if self._writer is None and self._output_dir:
            self._writer = writer.FileWriterCache.get(self._output_dir)
        self._step = _step_tensor(self)
        self._next_step = None
        self._timer.reset()

    def _summaries(self):
        found = self._summary_op
        if found is None:
            found = self._scaffold.summary_op
        if found is None:
            return None
        return list(found) if isinstance(found, (list, tuple)) else [found]

    def before_run(self, run_context):
        self._due = self._next_step is None or (
            self._timer.should_trigger_for_step(self._next_step))
        fetches = {"global_step": self._step}
        summaries = self._summaries() if self._due else None
        if summaries is not None:
            fetches["summary"] = summaries
        return SessionRunArgs(fetches)

    def after_run(self, run_context, run_values):
        if self._writer is None:
            return
        # The step was read before its increment or, if it is what is expected
        # afterwards, after it.
        step = int(run_values.results["global_step"])
        if step != self._next_step:
            step += 1
        if self._next_step is None or self._due:
            step = int(run_context.session.run(self._step))
        if self._next_step is None:
            self._writer.add_session_log(
                protos.SessionLog(status=protos.SessionLog.START), step)
        if self._due:
            self._timer.update_last_triggered_step(step)
            for summary in run_values.results.get("summary", ()):
                self._writer.add_summary(summary, step)
        self._next_step = step + 1

    def end(self, session=None):
        if self._writer is not None:
            self._writer.flush()


class ProfilerHook(SessionRunHook):
    """Traces steps: for chrome://tracing, ui.perfetto.dev, and TensorBoard.

    The trace of a step is the file timeline-<global step>.json, and a
    RunMetadata "step_<global step>" in the event file. Traced steps are slower:
    each operation runs by itself.

    Args:
      save_steps, save_secs: how often; exactly one of them.
      output_dir: the folder of the files.
      show_dataflow, show_memory: have no effect: a trace has the edges that the
        library measures.
    """

    def __init__(self, save_steps=None, save_secs=None, output_dir="",
                 show_dataflow=True, show_memory=False):
        del show_dataflow, show_memory
        self._timer = SecondOrStepTimer(save_secs, save_steps)
        self._output_dir = output_dir

    def begin(self):
        self._writer = writer.FileWriterCache.get(self._output_dir or ".")
        self._step = _step_tensor(self)
        self._next_step = None
        self._timer.reset()

    def before_run(self, run_context):
        self._due = self._next_step is not None and (
            self._timer.should_trigger_for_step(self._next_step))
        options = protos.RunOptions(
            trace_level=protos.RunOptions.FULL_TRACE) if self._due else None
        return SessionRunArgs({"global_step": self._step}, options=options)

    def after_run(self, run_context, run_values):
        # The step was read before or after its increment.
        step = int(run_values.results["global_step"]) + 1
        if self._next_step is None or (
                self._due or self._timer.should_trigger_for_step(step + 1)):
            step = int(run_context.session.run(self._step))
        if self._next_step is None:
            self._timer.update_last_triggered_step(step - 1)
        if self._due:
            self._timer.update_last_triggered_step(step)
            metadata = run_values.run_metadata
            path = os.path.join(self._output_dir, f"timeline-{step}.json")
            with open(_core.local_path(path), "w") as f:
                f.write(metadata.chrome_trace)
            self._writer.add_run_metadata(metadata, f"step_{step}", step)
        self._next_step = step + 1

    def end(self, session):
        self._writer.flush()


class NanLossDuringTrainingError(RuntimeError):
    """Raised if the loss becomes NaN."""

    def __str__(self):
        return "NaN loss during training."


class NanTensorHook(SessionRunHook):
    """Raises an error or stops if a loss becomes NaN."""

    def __init__(self, loss_tensor, fail_on_nan_loss=True):
        self._loss, self._fail = loss_tensor, fail_on_nan_loss

    def before_run(self, run_context):
        return SessionRunArgs(self._loss)

    def after_run(self, run_context, run_values):
        value = run_values.results
        if (value != value).any() if hasattr(value, "any") else value != value:
            logging.error("Model diverged with loss = NaN.")
            if self._fail:
                raise NanLossDuringTrainingError
            run_context.request_stop()


class FinalOpsHook(SessionRunHook):
    """Evaluates tensors at the end and stores them in `final_ops_values`."""

    def __init__(self, final_ops, final_ops_feed_dict=None):
        self._ops, self._feeds = final_ops, final_ops_feed_dict
        self.final_ops_values = None

    def end(self, session):
        if self._ops is not None:
            try:
                self.final_ops_values = session.run(self._ops, self._feeds)
            except (errors.OutOfRangeError, StopIteration):
                logging.warning(
                    "The final ops reached the end of their data. This "
                    "typically means that they have a dependency back to some "
                    "input source, which they should not have.")
                raise


class FeedFnHook(SessionRunHook):
    """Feeds the result of a function in each step."""

    def __init__(self, feed_fn):
        self._feed_fn = feed_fn

    def before_run(self, run_context):
        return SessionRunArgs(None, self._feed_fn())


class GlobalStepWaiterHook(SessionRunHook):
    """Waits before the first step until the global step reaches a value."""

    def __init__(self, wait_until_step):
        self._until, self._done = wait_until_step, wait_until_step <= 0

    def begin(self):
        self._step = _step_tensor(self)

    def before_run(self, run_context):
        while not self._done:
            self._done = run_context.session.run(self._step) >= self._until
            if not self._done:
                time.sleep(0.5)
