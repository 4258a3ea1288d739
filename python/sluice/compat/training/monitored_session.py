"""Sessions that initialize their graph, call hooks and stop their threads."""

import inspect
import time

from sluice import compat
from sluice.client.session import Session
from sluice.compat import logging
from sluice.compat.training.session_hooks import (
    CheckpointSaverHook, SessionRunArgs, SessionRunContext, SessionRunValues,
    StepCounterHook, SummarySaverHook)
from sluice.framework import errors, graph as graphs, protos
from sluice.ops import control_flow, tables, variables
from sluice.summary import summary_ops
from sluice.training import checkpoints
from sluice.training.coordinator import Coordinator
from sluice.training.queue_runner import start_queue_runners
from sluice.training.saver import Saver


# What a step fails with if a task of the cluster was lost.
_LOST = (errors.AbortedError, errors.UnavailableError)
# Seconds before the next try to make a session.
_PAUSE = 0.1


class Scaffold:
    """The operations that initialize a graph.

    `finalize` creates those that are not given.

    Args:
      init_op: initializes the variables; defaults to all global variables.
      init_feed_dict: the feeds of `init_op`.
      init_fn: a function that is called with (scaffold, session) afterwards.
      ready_op: returns the names of uninitialized variables.
      ready_for_local_init_op: returns the names of uninitialized variables that
        local_init_op needs.
      local_init_op: initializes the local variables.
      summary_op: makes the summaries; defaults to all of them.
      saver: the Saver; defaults to one for all variables.
    """

    def __init__(self, init_op=None, init_feed_dict=None, init_fn=None,
                 ready_op=None, ready_for_local_init_op=None,
                 local_init_op=None, summary_op=None, saver=None,
                 copy_from_scaffold=None, local_init_feed_dict=None):
        base = copy_from_scaffold
        if base is not None and not isinstance(base, Scaffold):
            raise TypeError(f"copy_from_scaffold is not a Scaffold instance. "
                            f"Got {base!r}")
        first = lambda own, name: own if own is not None or (  # noqa: E731
            base is None) else getattr(base, name)
        self.init_op = first(init_op, "init_op")
        self.init_feed_dict = first(init_feed_dict, "init_feed_dict")
        self.init_fn = first(init_fn, "init_fn")
        self.ready_op = first(ready_op, "ready_op")
        self.ready_for_local_init_op = first(ready_for_local_init_op,
                                             "ready_for_local_init_op")
        self.local_init_op = first(local_init_op, "local_init_op")
        self.local_init_feed_dict = first(local_init_feed_dict,
                                          "local_init_feed_dict")
        self.summary_op = first(summary_op, "summary_op")
        self.saver = first(saver, "saver")

    def finalize(self):
        """Creates missing operations and finalizes the graph.

        An operation is missing if it is neither given nor in a collection.
        """
        for name, make in (
                ("init_op", lambda: control_flow.group(
                    variables.global_variables_initializer())),
                ("ready_op", variables.report_uninitialized_variables),
                ("ready_for_local_init_op",
                 lambda: variables.report_uninitialized_variables(
                     variables.global_variables())),
                ("local_init_op", lambda: control_flow.group(
                    variables.local_variables_initializer(),
                    tables.tables_initializer())),
                ("summary_op", summary_ops.merge_all)):
            if getattr(self, name) is None:
                setattr(self, name, self.get_or_default(
                    name, getattr(graphs.GraphKeys, name.upper()), make))
        if self.saver is None:
            self.saver = self.get_or_default(
                "saver", graphs.GraphKeys.SAVERS,
                lambda: Saver(sharded=True, allow_empty=True))
        self.saver.build()
        graphs.get_default_graph().finalize()
        return self

    @staticmethod
    def get_or_default(arg_name, collection_key, default_constructor):
        """Returns the item of a collection of the default graph.

        Adds a default if there is none.
        """
        there = graphs.get_collection(collection_key)
        if len(there) > 1:
            raise RuntimeError(f"More than one item found in the collection "
                               f"'{collection_key}' for {arg_name}: {there}")
        if not there:
            there = [default_constructor()]
            if there[0] is not None:
                graphs.add_to_collection(collection_key, there[0])
        return there[0]


class SessionManager:
    """Makes sessions for an initialized graph."""

    def __init__(self, local_init_op=None, ready_op=None,
                 ready_for_local_init_op=None, graph=None,
                 recovery_wait_secs=30, local_init_run_options=None,
                 local_init_feed_dict=None):
        if ready_for_local_init_op is not None and local_init_op is None:
            raise ValueError(f"If you pass a ready_for_local_init_op you must "
                             f"also pass a local_init_op , "
                             f"ready_for_local_init_op "
                             f"[{ready_for_local_init_op}]")
        self._graph = graph or graphs.get_default_graph()
        self._local_init_op, self._ready_op = local_init_op, ready_op
        self._ready_for_local = ready_for_local_init_op
        self._wait_secs = recovery_wait_secs
        self._options, self._feeds = local_init_run_options, (
            local_init_feed_dict)

    def prepare_session(self, master="", init_op=None, saver=None,
                        checkpoint_dir=None, checkpoint_filename_with_path=None,
                        wait_for_checkpoint=False, max_wait_secs=7200,
                        config=None, init_feed_dict=None, init_fn=None):
        """Makes a session, and restores a checkpoint or runs the init operations.

        Args:
          saver, checkpoint_dir, checkpoint_filename_with_path,
            wait_for_checkpoint, max_wait_secs: see `recover_session`.

        Raises:
          RuntimeError: if a variable is uninitialized afterwards.
        """
        session, restored = self._restored(
            master, saver, checkpoint_dir, checkpoint_filename_with_path,
            wait_for_checkpoint, max_wait_secs, config)
        if restored:
            init_op = init_fn = None
        elif init_op is None and not init_fn and self._local_init_op is None:
            session.close()
            raise RuntimeError("Model is not initialized and no init_op or "
                               "init_fn or local_init_op was given")
        if master and (init_op is not None or init_fn):
            _, kept = self._values(session)
            if kept:
                logging.warning(
                    "Initializing variables of the cluster at %s again that "
                    "hold values: %s. These values are lost.", master, kept)
        if init_op is not None:
            session.run(init_op, init_feed_dict)
        if init_fn:
            init_fn(session)
        missing = self._local_init(session)
        what = f"Init op: {init_op}, init fn: {init_fn}, "
        if missing:
            session.close()
            raise RuntimeError(f"Init operations did not make model ready for "
                               f"local_init.  {what}error: {missing}")
        missing = self._missing(session, self._ready_op)
        if missing:
            session.close()
            raise RuntimeError(f"Init operations did not make model ready.  "
                               f"{what}local_init_op: {self._local_init_op}, "
                               f"error: {missing}")
        return session

    def recover_session(self, master="", saver=None, checkpoint_dir=None,
                        checkpoint_filename_with_path=None,
                        wait_for_checkpoint=False, max_wait_secs=7200,
                        config=None):
        """Makes a session, and restores the variables of a checkpoint.

        Args:
          saver: the Saver; without it, nothing is restored.
          checkpoint_dir: the folder whose latest checkpoint is restored.
          checkpoint_filename_with_path: the checkpoint, instead.
          wait_for_checkpoint: whether to wait until the folder has one.
          max_wait_secs: how long to wait.

        Returns:
          (session, whether everything is initialized by the checkpoint).
        """
        session, restored = self._restored(
            master, saver, checkpoint_dir, checkpoint_filename_with_path,
            wait_for_checkpoint, max_wait_secs, config)
        missing = self._local_init(session)
        if not restored:
            return session, False
        what = checkpoint_dir or checkpoint_filename_with_path
        if missing:
            logging.info("Restoring model from %s did not make model ready for "
                         "local init: %s", what, missing)
            return session, False
        missing = self._missing(session, self._ready_op)
        if missing:
            logging.info("Restoring model from %s did not make model ready: %s",
                         what, missing)
            return session, False
        logging.info("Restored model from %s", what)
        return session, True

    def _restored(self, master, saver, folder, path, wait, max_wait_secs,
                  config):
        """Returns a session, and whether a checkpoint was restored in it."""
        if folder and path:
            raise ValueError("Can not provide both checkpoint_dir and "
                             "checkpoint_filename_with_path.")
        session = Session(master, graph=self._graph, config=config)
        if not saver or not (folder or path):
            return session, False
        try:
            if path:
                saver.restore(session, path)
                return session, True
            state = checkpoints.get_checkpoint_state(folder)
            until = time.monotonic() + max_wait_secs
            while state is None and wait and time.monotonic() < until:
                logging.info("Waiting for checkpoint to be available.")
                time.sleep(self._wait_secs)
                state = checkpoints.get_checkpoint_state(folder)
            if state is None:
                return session, False
            saver.restore(session, state.model_checkpoint_path)
            saver.recover_last_checkpoints(
                list(state.all_model_checkpoint_paths))
        except BaseException:
            session.close()
            raise
        return session, True

    def wait_for_session(self, master="", config=None,
                         max_wait_secs=float("Inf")):
        """Makes a session once another session has initialized the graph."""
        until = time.monotonic() + max_wait_secs
        while True:
            session = Session(master, graph=self._graph, config=config)
            if not (self._local_init(session) or
                    self._missing(session, self._ready_op)):
                return session
            session.close()
            if time.monotonic() + self._wait_secs > until:
                raise errors.DeadlineExceededError(
                    None, None, f"Session was not ready after waiting "
                    f"{max_wait_secs} secs.")
            time.sleep(self._wait_secs)

    def _values(self, session):
        """Returns (uninitialized, initialized) non-local variables of a graph.

        Both are descriptions for messages; "" stands for none.
        """
        with self._graph.as_default():
            known = {v.op.name: v for v in variables.global_variables()}
            local = {v.op.name for v in variables.local_variables()}
        try:
            found = (None if self._ready_op is None else
                     session.run(self._ready_op))
        except errors.FailedPreconditionError as e:
            if "uninitialized" not in str(e):
                raise
            return str(e), ""
        if found is None or found.dtype.kind == "i":
            return "", ""
        missing = [name for name in map(compat.as_str_any, found)
                   if name not in local]
        kept = [name for name in known if name not in missing]
        step = self._global_step()
        if step is not None and step.op.name in kept:
            kept.remove(step.op.name)
            kept.insert(0, f"{step.op.name} = {session.run(step)}")
        return self._in_words(missing, known), self._in_words(kept, known)

    def _global_step(self):
        """Returns the graph's global step, or None."""
        there = self._graph.get_collection(graphs.GraphKeys.GLOBAL_STEP)
        return there[0] if there else None

    @staticmethod
    def _in_words(names, known, limit=10):
        where = lambda name: (  # noqa: E731
            f" ({known[name].device})"
            if name in known and known[name].device else "")
        text = ", ".join(name + where(name) for name in names[:limit])
        more = len(names) - limit
        return text + (f" and {more} more" if more > 0 else "")

    def _continue_session(self, master, config):
        """Makes a session that uses the values that a cluster kept.

        Returns (session, ""), or (None, names of variables without values). The
        graph must have been initialized.
        """
        session = Session(master, graph=self._graph, config=config)
        try:
            lost, kept = self._values(session)
            lost = lost or self._local_init(session) or self._missing(
                session, self._ready_op)
        except BaseException:
            session.close()
            raise
        if lost:
            session.close()
            return None, lost
        logging.warning("No variable was lost; training goes on with the "
                        "values that the cluster holds: %s.", kept or "none")
        return session, ""

    def _local_init(self, session):
        """Runs the local init operations if the session is ready for them.

        Otherwise returns a description of what is missing.
        """
        if self._local_init_op is None:
            return ""
        missing = self._missing(session, self._ready_for_local)
        if not missing:
            session.run(self._local_init_op, self._feeds, self._options)
        return missing

    @staticmethod
    def _missing(session, op):
        """Describes uninitialized variables: the result or failure of `op`."""
        if op is None:
            return ""
        try:
            found = session.run(op)
        except errors.FailedPreconditionError as e:
            if "uninitialized" not in str(e):
                raise
            return str(e)
        # Numbers come from assert_variables_initialized.
        if found is None or found.dtype.kind == "i" or not found.size:
            return ""
        return "Variables not initialized: " + ", ".join(
            map(compat.as_str_any, found))


class SessionCreator:
    """Makes sessions for monitored sessions."""

    def create_session(self):
        """Makes a session with an initialized graph."""
        raise NotImplementedError


class _Creator(SessionCreator):
    def __init__(self, scaffold=None, master="", config=None):
        self._scaffold = scaffold or Scaffold()
        self._master, self._config = master, config

    def _manager(self):
        self._scaffold.finalize()
        s = self._scaffold
        return SessionManager(
            s.local_init_op, s.ready_op, s.ready_for_local_init_op,
            recovery_wait_secs=0.5,
            local_init_feed_dict=s.local_init_feed_dict)


class ChiefSessionCreator(_Creator):
    """Makes sessions that initialize the graph, or restore a checkpoint.

    After the loss of a task, another session is made. If no variable was lost,
    it continues with the values that the cluster holds. Otherwise it
    restores the latest checkpoint. Without one, it initializes all variables
    again and logs a warning.

    Args:
      checkpoint_dir: the folder of the checkpoints, or None.
      checkpoint_filename_with_path: a checkpoint, instead of the folder.
      reinitialize_lost_state: if false, raise DataLossError instead.
    """

    def __init__(self, scaffold=None, master="", config=None,
                 checkpoint_dir=None, checkpoint_filename_with_path=None, *,
                 reinitialize_lost_state=True):
        super().__init__(scaffold, master, config)
        self._checkpoint_dir = checkpoint_dir
        self._checkpoint = checkpoint_filename_with_path
        self._reinitialize = bool(reinitialize_lost_state)
        self._initialized = False  # Whether an earlier session did it.

    def create_session(self):
        manager, s = self._manager(), self._scaffold
        if self._initialized:
            session, lost = manager._continue_session(self._master,
                                                      self._config)
            if session is not None:
                return session
            self._tell(lost)
        session = manager.prepare_session(
            self._master, s.init_op, s.saver, self._checkpoint_dir,
            self._checkpoint, config=self._config,
            init_feed_dict=s.init_feed_dict,
            init_fn=s.init_fn and (lambda session: s.init_fn(s, session)))
        self._initialized = True
        return session


    def _tell(self, lost):
        """Says what happens to lost variables."""
        there = self._checkpoint or self._checkpoint_dir and (
            checkpoints.latest_checkpoint(self._checkpoint_dir))
        if there:
            logging.warning("The values of variables are lost: %s. Training "
                            "goes on from the checkpoint %s.", lost, there)
            return
        what = (f"The values of variables are lost: {lost}. There is no "
                f"checkpoint to restore them from")
        if not self._reinitialize:
            raise errors.DataLossError(
                None, None, f"{what}, and reinitialize_lost_state is False: "
                f"training ends here.")
        logging.warning("%s: training starts again from the initial values of "
                        "all variables.", what)


class WorkerSessionCreator(_Creator):
    """Makes sessions that wait until the chief has initialized the graph."""

    def __init__(self, scaffold=None, master="", config=None,
                 max_wait_secs=30 * 60):
        super().__init__(scaffold, master, config)
        self._max_wait_secs = max_wait_secs

    def create_session(self):
        return self._manager().wait_for_session(self._master, self._config,
                                                self._max_wait_secs)


def _without_conflict(ours, theirs, what):
    both = set(ours) & set(theirs)
    if both:
        raise RuntimeError(f"Same tensor is fed by {what}. Conflict(s): "
                           f"{list(both)}")


class _Monitored:
    """The base class of monitored sessions, which are context managers.

    OutOfRangeError (the end of the data) and StopIteration leave the
    with-block without error.
    """

    _recovers = False

    def __init__(self, session_creator=None, hooks=None,
                 stop_grace_period_secs=120):
        self._hooks = list(hooks or [])
        self._creator = session_creator or ChiefSessionCreator()
        self._grace = stop_grace_period_secs
        self._built = graphs.get_default_graph()
        self._was_finalized = self._built.finalized
        for hook in self._hooks:
            hook.begin()
        self._session = None
        self._create()

    def _create(self):
        """Makes a session; again, if a task is lost meanwhile."""
        while True:
            try:
                return self._create_once()
            except _LOST as e:
                if not self._recovers:
                    raise
                logging.warning("A session could not be made and is made "
                                "again: %s", e)
                self._end_lost_session()
                time.sleep(_PAUSE)

    def _create_once(self):
        self._stopped = False
        # A thread that meets the end of its data must not end the program
        # without an error, unless it is a queue runner, which closes its queue.
        self._coordinator = Coordinator(clean_stop_exception_types=())
        # (After a loss, another graph may be the default.)
        with self._built.as_default():
            self._session = self._creator.create_session()
            if self._session.graph.get_collection(
                    graphs.GraphKeys.QUEUE_RUNNERS):
                start_queue_runners(self._session, self._coordinator)
            for hook in self._hooks:
                hook.after_create_session(self._session, self._coordinator)

    @property
    def graph(self):
        """The graph of the session."""
        return None if self._session is None else self._session.graph

    def should_stop(self):
        """Returns whether a hook or a thread requested a stop.

        A thread that failed because a task was lost is a reason to make a new
        session, in a MonitoredSession; another failure is raised when the
        session is closed.
        """
        if self._session is None:
            return True
        try:
            self._coordinator.raise_requested_exception()
        except _LOST as e:
            if not self._recovers:
                raise
            self._recreate(e)
            return False
        except Exception:
            if not self._recovers:
                raise
            return True
        return self._stopped or self._coordinator.should_stop()

    def run(self, fetches, feed_dict=None, options=None, run_metadata=None):
        """Runs a step with the hooks; returns the values of `fetches`."""
        return self._recovering(lambda: self._step(
            fetches, feed_dict, options, run_metadata))

    def _recovering(self, step):
        """Calls `step`; again in a new session if a task was lost."""
        while True:
            try:
                return step()
            except _LOST as e:
                # A task was lost, with the state that it held.
                if not self._recovers:
                    raise
                self._recreate(e)
            except Exception:
                # What fails after a thread met the loss fails for that reason.
                lost = self._loss_of_thread()
                if lost is None:
                    raise
                self._recreate(lost)

    def _recreate(self, loss):
        logging.warning("The session ended and is recreated: %s", loss)
        self._end_lost_session()
        self._create()

    def _loss_of_thread(self):
        """Returns the error of a thread that lost a task, or None."""
        if not self._recovers or self._session is None:
            return None
        try:
            self._coordinator.raise_requested_exception()
        except _LOST as e:
            return e
        except Exception:
            pass  # The step's own error is raised.
        return None

    def _end_lost_session(self):
        if self._session is None:
            return
        try:
            self._end_session()
        except _LOST as e:  # A thread met the same loss.
            logging.info("A thread of the session ended: %s", e)

    def _step(self, fetches, feed_dict=None, options=None,
              run_metadata=None):
        if self._session is None:
            raise RuntimeError("Attempted to use a closed Session.")
        if self._stopped:
            raise RuntimeError("Run called even after should_stop requested.")
        context = SessionRunContext(SessionRunArgs(fetches, feed_dict),
                                    self._session)
        options, wanted, feeds = options or protos.RunOptions(), {}, {}
        for i, hook in enumerate(self._hooks):
            added = hook.before_run(context)
            if added is None:
                continue
            if added.fetches is not None:
                wanted[i] = added.fetches
            if added.feed_dict:
                _without_conflict(feeds, added.feed_dict, "two hooks")
                feeds.update(added.feed_dict)
            if added.options is not None:
                options.trace_level = max(options.trace_level,
                                          added.options.trace_level)
                options.timeout_in_ms = max(options.timeout_in_ms,
                                            added.options.timeout_in_ms)
                options.output_partition_graphs |= (
                    added.options.output_partition_graphs)
                options.report_tensor_allocations_upon_oom |= (
                    added.options.report_tensor_allocations_upon_oom)
                if added.options.HasField("debug_options"):
                    options.debug_options.MergeFrom(
                        added.options.debug_options)
        _without_conflict(feeds, feed_dict or {}, "a SessionRunHook and user")
        feeds.update(feed_dict or {})
        metadata = run_metadata or protos.RunMetadata()
        try:
            results, of_hooks = self._session.run(
                [fetches, [wanted[i] for i in wanted]], feeds, options,
                metadata)
        except errors.OpError:
            # A queue that was closed by the failure of a thread is reported by
            # that failure.
            self._coordinator.raise_requested_exception()
            raise
        of_hooks = dict(zip(wanted, of_hooks))
        for i, hook in enumerate(self._hooks):
            hook.after_run(context, SessionRunValues(
                of_hooks.get(i), options, metadata))
        self._stopped = self._stopped or context.stop_requested
        return results

    def run_step_fn(self, step_fn):
        """Calls a function of a StepContext `step_context`.

        The function may run steps in the underlying session.
        """
        names = [p for p in inspect.signature(step_fn).parameters
                 if p != "self"]
        if names != ["step_context"]:
            raise ValueError(f"`step_fn` may either have one `step_context` "
                             f"argument, or `self` and `step_context` "
                             f"arguments if it's an instance method. Got "
                             f"{tuple(names)} instead.")
        return self._recovering(lambda: step_fn(StepContext(self)))

    def _end_session(self):
        self._coordinator.request_stop()
        try:
            self._coordinator.join(stop_grace_period_secs=self._grace,
                                   ignore_live_threads=True)
        finally:
            session, self._session = self._session, None
            session.close()

    def close(self):
        """Calls the hooks' `end` and ends the session and its threads.

        Raises:
          RuntimeError: if the session is closed already.
        """
        self._close(None)

    def _close(self, error):
        if self._session is None:
            if error is None:
                raise RuntimeError("Session is already closed. Note that "
                                   "leaving a with-block closes it.")
            return
        try:
            if error is None:
                for hook in self._hooks:
                    hook.end(self._session)
        finally:
            self._end_session()
            if not self._was_finalized:  # It is final only while running.
                self._built._unsafe_unfinalize()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        quiet = kind is None or issubclass(kind, (errors.OutOfRangeError,
                                                  StopIteration))
        self._close(None if quiet else value)
        return quiet and kind is not None


class StepContext:
    """The argument of a step function."""

    def __init__(self, monitored):
        self._monitored = monitored

    @property
    def session(self):
        """The underlying session, which does not call hooks."""
        return self._monitored._session

    def run_with_hooks(self, *args, **kwargs):
        """Runs a step that calls the hooks."""
        return self._monitored._step(*args, **kwargs)

    def request_stop(self):
        """Leaves the with-block."""
        raise StopIteration("step_fn has requested the iterations to stop.")


class MonitoredSession(_Monitored):
    """A session that initializes its graph and calls hooks around its steps.

    It is recreated when a task of the cluster is lost.

        with tf.train.MonitoredSession(hooks=[...]) as session:
            while not session.should_stop():
                session.run(train)
    """

    _recovers = True
    StepContext = StepContext


class SingularMonitoredSession(_Monitored):
    """A monitored session that ends when a task is lost."""

    def __init__(self, hooks=None, scaffold=None, master="", config=None,
                 checkpoint_dir=None, stop_grace_period_secs=120,
                 checkpoint_filename_with_path=None):
        super().__init__(ChiefSessionCreator(
            scaffold, master, config, checkpoint_dir,
            checkpoint_filename_with_path), hooks, stop_grace_period_secs)

    def raw_session(self):
        """Returns the underlying session."""
        return self._session


_DEFAULT = object()


def MonitoredTrainingSession(
        master="", is_chief=True, checkpoint_dir=None, scaffold=None,
        hooks=None, chief_only_hooks=None, save_checkpoint_secs=_DEFAULT,
        save_summaries_steps=_DEFAULT, save_summaries_secs=_DEFAULT,
        config=None, stop_grace_period_secs=120, log_step_count_steps=100,
        max_wait_secs=7200, save_checkpoint_steps=_DEFAULT, summary_dir=None,
        save_graph_def=True, *, reinitialize_lost_state=True):
    """Makes a MonitoredSession for training.

    The session of the chief restores the latest checkpoint or initializes the
    graph, and saves checkpoints and summaries; the others wait for it.

    Args:
      master: the target of the server, or "" for this process.
      is_chief: whether this is the chief.
      checkpoint_dir: the folder of the checkpoints; without it, none are saved.
      scaffold: the operations that initialize the graph.
      hooks, chief_only_hooks: hooks that are called around steps.
      save_checkpoint_secs, save_checkpoint_steps: how often checkpoints are
        saved; every 600 seconds by default, never if None or 0.
      save_summaries_steps, save_summaries_secs: how often summaries are
        written; every 100 steps by default, never if None or 0.
      log_step_count_steps: how often the steps per second are written.
      summary_dir: the folder of the summaries, instead of `checkpoint_dir`.
      save_graph_def: whether the graph is written to both.
      reinitialize_lost_state: whether the chief restarts from initial values,
        with a warning, if variables are lost with a task and there is no
        checkpoint. If false, it raises DataLossError.
    """
    if save_summaries_steps is _DEFAULT and save_summaries_secs is _DEFAULT:
        save_summaries_steps, save_summaries_secs = 100, None
    if save_checkpoint_secs is _DEFAULT and save_checkpoint_steps is _DEFAULT:
        save_checkpoint_secs, save_checkpoint_steps = 600, None
    given = lambda value: None if value is _DEFAULT else value  # noqa: E731
    hooks, scaffold = list(hooks or []), scaffold or Scaffold()
    if not is_chief:
        return MonitoredSession(
            WorkerSessionCreator(scaffold, master, config, max_wait_secs),
            hooks, stop_grace_period_secs)
    ours = list(chief_only_hooks or [])
    summary_dir = summary_dir or checkpoint_dir
    steps, seconds = given(save_summaries_steps), given(save_summaries_secs)
    if summary_dir and (log_step_count_steps or 0) > 0:
        ours.append(StepCounterHook(every_n_steps=log_step_count_steps,
                                    output_dir=summary_dir))
    if summary_dir and (steps or seconds):
        ours.append(SummarySaverHook(steps, seconds, summary_dir,
                                     scaffold=scaffold))
    steps, seconds = given(save_checkpoint_steps), given(save_checkpoint_secs)
    if checkpoint_dir and (steps or seconds):
        ours.append(CheckpointSaverHook(
            checkpoint_dir, seconds, steps, scaffold=scaffold,
            save_graph_def=save_graph_def))
    return MonitoredSession(
        ChiefSessionCreator(
            scaffold, master, config, checkpoint_dir,
            reinitialize_lost_state=reinitialize_lost_state),
        ours + hooks, stop_grace_period_secs)
