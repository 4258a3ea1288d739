"""Supervisors: sessions with threads that save and write summaries."""

import contextlib
import os
import time

from sluice import compat
from sluice.compat import logging
from sluice.compat.training.monitored_session import SessionManager
from sluice.framework import (
    dtypes, errors, graph as graphs, graph_io, meta_graph, protos)
from sluice.ops import control_flow, tables, variables
from sluice.summary import summary_ops, writer
from sluice.training import global_step as global_steps
from sluice.training.checkpoints import local_path
from sluice.training.coordinator import Coordinator, LooperThread
from sluice.training.saver import Saver


class Supervisor:
    """Initializes or restores a model, saves it and writes its summaries.

        supervisor = tf.train.Supervisor(logdir="model")
        with supervisor.managed_session() as session:
            while not supervisor.should_stop():
                session.run(train)

    The graph is final once there is a supervisor for it.

    Args:
      graph: the graph; defaults to the default graph.
      ready_op: returns the names of uninitialized variables.
      ready_for_local_init_op: returns the names of uninitialized variables that
        local_init_op needs.
      is_chief: whether this process initializes and saves.
      init_op, init_feed_dict: what initializes variables, and its feeds.
      local_init_op: what initializes local variables, in every session.
      logdir: the folder of checkpoints and events.
      summary_op: returns the summaries.
      saver: the Saver.
      global_step: counts the steps.
      save_summaries_secs, save_model_secs: how often; 0 for never.
      recovery_wait_secs: how often to look whether the chief has initialized.
      stop_grace_secs: how long `stop` waits for threads.
      checkpoint_basename: the start of the names of checkpoints.
      session_manager: the SessionManager.
      summary_writer: the writer of summaries, or None.
      init_fn: called with the session after init_op.
      local_init_run_options: the RunOptions of local_init_op.
    """

    # What is not given is made, or taken from the graph's collections.
    USE_DEFAULT = 0

    def __init__(self, graph=None, ready_op=USE_DEFAULT,
                 ready_for_local_init_op=USE_DEFAULT, is_chief=True,
                 init_op=USE_DEFAULT, init_feed_dict=None,
                 local_init_op=USE_DEFAULT, logdir=None,
                 summary_op=USE_DEFAULT, saver=USE_DEFAULT,
                 global_step=USE_DEFAULT, save_summaries_secs=120,
                 save_model_secs=600, recovery_wait_secs=30,
                 stop_grace_secs=120, checkpoint_basename="model.ckpt",
                 session_manager=None, summary_writer=USE_DEFAULT,
                 init_fn=None, local_init_run_options=None):
        self._graph = graph or graphs.get_default_graph()
        keys = graphs.GraphKeys
        with self._graph.as_default():
            self.ready_op = self._or_default(
                ready_op, keys.READY_OP,
                variables.report_uninitialized_variables)
            self.ready_for_local_init_op = self._or_default(
                ready_for_local_init_op, keys.READY_FOR_LOCAL_INIT_OP,
                lambda: None)
            self.init_op = self._or_default(
                init_op, keys.INIT_OP, variables.global_variables_initializer)
            self.local_init_op = self._or_default(
                local_init_op, keys.LOCAL_INIT_OP,
                lambda: control_flow.group(
                    variables.local_variables_initializer(),
                    tables.tables_initializer()))
            self.saver = self._or_default(
                saver, keys.SAVERS,
                lambda: Saver() if variables.global_variables() else None)
            self.summary_op = self._or_default(
                summary_op, keys.SUMMARY_OP, summary_ops.merge_all)
            self.global_step = self._or_default(
                global_step, keys.GLOBAL_STEP, self._step_by_name)
        self.init_feed_dict, self._init_fn = init_feed_dict, init_fn
        self._meta_graph = meta_graph.create_meta_graph_def(
            graph_def=self._graph.as_graph_def(add_shapes=True),
            saver_def=self.saver.saver_def if self.saver else None)
        self.is_chief, self._grace = is_chief, stop_grace_secs
        self.coord = Coordinator()
        # Only the chief saves and writes.
        self._logdir = os.fspath(logdir) if is_chief and logdir else None
        self.save_summaries_secs = save_summaries_secs if is_chief else None
        self.save_model_secs = save_model_secs if is_chief else None
        self.save_path = self._logdir and os.path.join(self._logdir,
                                                       checkpoint_basename)
        self.summary_writer = None
        if is_chief and summary_writer is not Supervisor.USE_DEFAULT:
            self.summary_writer = summary_writer
        elif self._logdir:
            self.summary_writer = writer.FileWriter(self._logdir)
        self._graph_written = False
        self.session_manager = session_manager or SessionManager(
            local_init_op=self.local_init_op, ready_op=self.ready_op,
            ready_for_local_init_op=self.ready_for_local_init_op,
            graph=self._graph, recovery_wait_secs=recovery_wait_secs,
            local_init_run_options=local_init_run_options)
        if not is_chief:
            for op in self._graph.get_operations():
                if op.type in ("Variable", "VariableV2") and not op.device:
                    raise ValueError(f"When using replicas, all Variables must "
                                     f"have their device set: {op}")
        self._graph.finalize()

    @staticmethod
    def _or_default(given, key, make):
        """Returns what is given, or the first of a collection, or a new one."""
        if given is not Supervisor.USE_DEFAULT:
            return given
        there = graphs.get_collection(key)
        if len(there) > 1:
            logging.info("Found %d %s operations. Returning the first one.",
                         len(there), key)
        if there:
            return there[0]
        made = make()
        if made is not None:
            graphs.add_to_collection(key, made)
        return made

    @staticmethod
    def _step_by_name():
        try:
            step = graphs.get_default_graph().get_tensor_by_name(
                "global_step:0")
        except KeyError:
            return None
        if step.dtype.base_dtype in (dtypes.int32, dtypes.int64):
            return step
        logging.warning("Found 'global_step' is not an int type: %s",
                        step.dtype)
        return None

    def _step_of(self, session):
        return (None if self.global_step is None else
                global_steps.global_step(session, self.global_step))

    def prepare_or_wait_for_session(self, master="", config=None,
                                    wait_for_checkpoint=False,
                                    max_wait_secs=7200,
                                    start_standard_services=True):
        """Makes a session whose variables have values.

        The chief restores the latest checkpoint of the folder or initializes;
        others wait until it has. Starts the queue runners of the graph, and the
        standard services of the chief.
        """
        self.coord.clear_stop()
        if self.summary_writer is not None:
            self.summary_writer.reopen()
        if self.is_chief:
            session = self.session_manager.prepare_session(
                master, init_op=self.init_op, saver=self.saver,
                checkpoint_dir=self._logdir,
                wait_for_checkpoint=wait_for_checkpoint,
                max_wait_secs=max_wait_secs, config=config,
                init_feed_dict=self.init_feed_dict, init_fn=self._init_fn)
            self._write_graph()
            if start_standard_services:
                logging.info("Starting standard services.")
                self.start_standard_services(session)
        else:
            session = self.session_manager.wait_for_session(
                master, config=config, max_wait_secs=max_wait_secs)
        if start_standard_services:
            logging.info("Starting queue runners.")
            self.start_queue_runners(session)
        return session

    def _write_graph(self):
        if self._logdir:
            os.makedirs(local_path(self._logdir), exist_ok=True)
            graph_io.write_graph(self._graph.as_graph_def(add_shapes=True),
                                 self._logdir, "graph.pbtxt")
        if self.summary_writer is not None and not self._graph_written:
            self.summary_writer.add_graph(self._graph)
            self.summary_writer.add_meta_graph(self._meta_graph)
            self._graph_written = True

    def start_standard_services(self, sess):
        """Starts the threads that save and write summaries.

        Returns:
          The threads, which `stop` joins.

        Raises:
          RuntimeError: if this is not the chief.
        """
        if not self.is_chief:
            raise RuntimeError("Only chief supervisor can start standard "
                               "services. Because only chief supervisors can "
                               "write events.")
        if not self._logdir:
            logging.warning("Standard services need a 'logdir' passed to the "
                            "SessionManager")
            return None
        if self.global_step is not None and self.summary_writer is not None:
            self.summary_writer.add_session_log(
                protos.SessionLog(status=protos.SessionLog.START),
                self._step_of(sess))
        threads = []
        if self.save_summaries_secs and self.summary_writer is not None:
            if self.summary_op is not None:
                threads.append(SVSummaryThread(self, sess))
            if self.global_step is not None:
                threads.append(SVStepCounterThread(self, sess))
        if self.saver and self.save_model_secs:
            threads.append(SVTimerCheckpointThread(self, sess))
        for thread in threads:
            thread.start()
        return threads

    def start_queue_runners(self, sess, queue_runners=None):
        """Starts queue runners; those of the graph by default.

        Returns:
          Their threads.
        """
        if queue_runners is None:
            queue_runners = self._graph.get_collection(
                graphs.GraphKeys.QUEUE_RUNNERS)
        return [thread for runner in queue_runners
                for thread in runner.create_threads(
                    sess, coord=self.coord, daemon=True, start=True)]

    def loop(self, timer_interval_secs, target, args=None, kwargs=None):
        """Calls a function every so many seconds on a thread, until the stop.

        Without pause if `timer_interval_secs` is None. Returns the thread.
        """
        thread = LooperThread(self.coord, timer_interval_secs, target=target,
                              args=args, kwargs=kwargs)
        thread.start()
        return thread

    def stop(self, threads=None, close_summary_writer=True,
             ignore_live_threads=False):
        """Stops and joins the threads; raises the first error of any.

        Args:
          threads: further threads to join.
          close_summary_writer: whether the summary writer is closed.
          ignore_live_threads: whether threads may go on after the grace period.
        """
        self.coord.request_stop()
        try:
            self.coord.join(threads, stop_grace_period_secs=self._grace,
                            ignore_live_threads=ignore_live_threads)
        finally:
            if close_summary_writer and self.summary_writer is not None:
                self.summary_writer.add_session_log(
                    protos.SessionLog(status=protos.SessionLog.STOP))
                self.summary_writer.close()
                self._graph_written = False

    def request_stop(self, ex=None):
        """Requests the threads to stop; see Coordinator.request_stop."""
        self.coord.request_stop(ex)

    def should_stop(self):
        """Returns whether a stop was requested."""
        return self.coord.should_stop()

    def stop_on_exception(self):
        """A context manager in which an exception requests a stop."""
        return self.coord.stop_on_exception()

    def wait_for_stop(self):
        """Waits until a stop is requested."""
        self.coord.wait_for_stop()

    def summary_computed(self, sess, summary, global_step=None):
        """Writes a summary, of the current step by default."""
        if self.summary_writer is None:
            raise RuntimeError("Writing a summary requires a summary writer.")
        if global_step is None:
            global_step = self._step_of(sess)
        self.summary_writer.add_summary(summary, global_step)

    @contextlib.contextmanager
    def managed_session(self, master="", config=None,
                        start_standard_services=True,
                        close_summary_writer=True):
        """A context manager of a session, which stops the threads at its end.

        An error in the block or of a thread is raised at its end, except for
        OutOfRangeError, the end of the data.
        """
        session = None
        try:
            session = self.prepare_or_wait_for_session(
                master, config=config,
                start_standard_services=start_standard_services)
            yield session
        except Exception as e:  # noqa: BLE001
            self.request_stop(e)
        finally:
            try:
                # Raises that error.
                self.stop(close_summary_writer=close_summary_writer)
            finally:
                if session is not None:
                    session.close()

    # The names that TensorFlow had first.
    PrepareSession = prepare_or_wait_for_session
    StartQueueRunners = start_queue_runners
    StartStandardServices = start_standard_services
    Stop = stop
    RequestStop = request_stop
    Loop = loop
    ShouldStop = should_stop
    StopOnException = stop_on_exception
    WaitForStop = wait_for_stop
    SummaryComputed = summary_computed


class SVSummaryThread(LooperThread):
    """Writes summaries every so often."""

    def __init__(self, sv, sess):
        super().__init__(sv.coord, sv.save_summaries_secs)
        self._sv, self._sess = sv, sess

    def run_loop(self):
        fetches = [self._sv.summary_op]
        if self._sv.global_step is not None:
            fetches.append(self._sv.global_step)
        values = self._sess.run(fetches)
        step = values[1] if len(values) > 1 else None
        if self._sv.summary_writer is not None:
            logging.info("Recording summary at step %s.", step)
            self._sv.summary_writer.add_summary(values[0], step)


class SVStepCounterThread(LooperThread):
    """Writes the steps per second every so often."""

    def __init__(self, sv, sess, step_counter=None):
        super().__init__(sv.coord, sv.save_summaries_secs)
        self._sv, self._sess = sv, sess
        self._counter = (sv.global_step if step_counter is None else
                         step_counter)
        self._last_time, self._last_step = 0.0, 0

    def _step(self):
        return global_steps.global_step(self._sess, self._counter)

    def start_loop(self):
        self._last_time, self._last_step = time.time(), self._step()

    def run_loop(self):
        step, now = self._step(), time.time()
        added, elapsed = step - self._last_step, now - self._last_time
        self._last_step, self._last_time = step, now
        rate = added / elapsed if elapsed > 0 else float("inf")
        tag = f"{compat.as_str_any(self._counter.op.name)}/sec"
        if self._sv.summary_writer is not None:
            self._sv.summary_writer.add_summary(protos.Summary(value=[
                protos.Summary.Value(tag=tag, simple_value=rate)]), step)
        logging.log_first_n(logging.INFO, "%s: %g", 10, tag, rate)


class SVTimerCheckpointThread(LooperThread):
    """Saves every so often."""

    def __init__(self, sv, sess):
        super().__init__(sv.coord, sv.save_model_secs)
        self._sv, self._sess = sv, sess

    def run_loop(self):
        sv = self._sv
        logging.info("Saving checkpoint to path %s", sv.save_path)
        sv.saver.save(self._sess, sv.save_path, global_step=sv.global_step)
        if sv.summary_writer is not None and sv.global_step is not None:
            sv.summary_writer.add_session_log(
                protos.SessionLog(status=protos.SessionLog.CHECKPOINT,
                                  checkpoint_path=sv.save_path),
                sv._step_of(self._sess))


def basic_train_loop(supervisor, train_step_fn, args=None, kwargs=None,
                     master=""):
    """Calls `train_step_fn(session, *args, **kwargs)` until a stop.

    The session is the supervisor's. If a task is lost (AbortedError), the loop
    continues in a new session.

    Args:
      supervisor: the Supervisor that makes the sessions and is asked to stop.
      train_step_fn: runs a step.
      args, kwargs: more arguments of it.
      master: the target of the server, or "" for this process.
    """
    while True:
        try:
            with supervisor.managed_session(master) as session:
                while not supervisor.should_stop():
                    train_step_fn(session, *(args or ()), **(kwargs or {}))
            return
        except errors.AbortedError as e:
            logging.info("The session ended and is recreated: %s", e)
