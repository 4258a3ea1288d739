"""Queue runners: threads that fill queues."""

import atexit
import logging
import threading
import weakref

from sluice.client.session import BaseSession
from sluice.framework import (
    default_session, errors, graph as graphs, protos, registries, scopes)

_log = logging.getLogger("sluice")


class _RunnerThread(threading.Thread):
    """A thread of a queue runner, for a session."""

    def __init__(self, session, target, args, name):
        super().__init__(target=target, args=(session, *args), name=name)
        self._session = session
        _threads.add(self)

    def run(self):
        try:
            super().run()
        finally:
            self._session = None

    def ends_soon(self):
        """Returns whether the session was closed, which ends what waits."""
        return getattr(self._session, "_closed", False)


_threads = weakref.WeakSet()  # Those that were made.


@atexit.register
def _let_threads_end():
    """Waits for threads that are about to end.

    The interpreter ends daemon threads by unwinding their stacks, which is
    fatal for one that is about to raise the error of its last step.
    """
    for thread in list(_threads):
        if thread.is_alive() and thread.ends_soon():
            thread.join(5)


class QueueRunner:
    """Enqueue operations of a queue, each of which a thread repeats.

    A thread ends when the queue is closed, when its operation fails, or when
    the coordinator requests it. The last one to end because its input has ended
    closes the queue, so that readers see the end.

    Args:
      queue: the queue.
      enqueue_ops: the operations, one for each thread.
      close_op: closes the queue; defaults to `queue.close()`.
      cancel_op: closes the queue and cancels enqueues that wait.
      queue_closed_exception_types: the errors that tell that the input has
        ended, a tuple of classes; defaults to OutOfRangeError.
      queue_runner_def: a QueueRunnerDef to make it from, instead of the others.
      import_scope: the name scope into which its graph was imported.

    Raises:
      ValueError: if a queue or its operations are missing, or if there is a
        QueueRunnerDef as well.
      TypeError: if `queue_closed_exception_types` has anything but classes of
        OpErrors.
    """

    def __init__(self, queue=None, enqueue_ops=None, close_op=None,
                 cancel_op=None, queue_closed_exception_types=None,
                 queue_runner_def=None, import_scope=None):
        if queue_runner_def:
            if queue or enqueue_ops:
                raise ValueError("queue_runner_def and queue are mutually "
                                 "exclusive.")
            self._restore(queue_runner_def, import_scope)
        else:
            if not queue or not enqueue_ops:
                raise ValueError("Must provide queue and enqueue_ops.")
            closed = queue_closed_exception_types
            if closed is not None and (
                    not isinstance(closed, tuple) or not closed or
                    not all(isinstance(t, type) and
                            issubclass(t, errors.OpError) for t in closed)):
                raise TypeError(f"queue_closed_exception_types, when provided, "
                                f"must be a tuple of tf.error types, but saw: "
                                f"{closed}")
            self._queue = queue
            self._enqueue_ops = enqueue_ops
            self._close_op = queue.close() if close_op is None else close_op
            self._cancel_op = (queue.close(cancel_pending_enqueues=True)
                               if cancel_op is None else cancel_op)
            self._closed_types = closed or (errors.OutOfRangeError,)
        self._lock = threading.Lock()
        self._running = weakref.WeakKeyDictionary()  # Threads by session.
        self._exceptions_raised = []

    def _restore(self, definition, import_scope):
        graph = graphs.get_default_graph()

        def found(name):
            return graph.as_graph_element(
                scopes.within(import_scope) + name if import_scope else name)

        self._queue = found(definition.queue_name)
        self._enqueue_ops = [found(op) for op in definition.enqueue_op_name]
        self._close_op = found(definition.close_op_name)
        self._cancel_op = found(definition.cancel_op_name)
        self._closed_types = tuple(
            errors.exception_type_from_error_code(code) for code in
            definition.queue_closed_exception_types) or (
                errors.OutOfRangeError,)

    @property
    def queue(self):
        """The queue."""
        return self._queue

    @property
    def enqueue_ops(self):
        """The operations that threads repeat."""
        return self._enqueue_ops

    @property
    def close_op(self):
        """The operation that closes the queue."""
        return self._close_op

    @property
    def cancel_op(self):
        """The operation that closes the queue and cancels enqueues."""
        return self._cancel_op

    @property
    def queue_closed_exception_types(self):
        """The errors that tell that the input has ended."""
        return self._closed_types

    @property
    def exceptions_raised(self):
        """The errors of the threads; with a coordinator, it has them instead.
        """
        return self._exceptions_raised

    @property
    def name(self):
        """The name of the queue."""
        return self._queue.name

    def _run(self, session, enqueue_op, coord=None):
        """Repeats an operation; the body of a thread."""
        counted = True
        try:
            step = session.make_callable(enqueue_op)
            # The loop is all that costs time: a call of the C++ callable, and
            # one that asks whether to stop.
            if coord is None:
                while True:
                    step()
            should_stop = coord.should_stop
            while not should_stop():
                step()
        except self._closed_types:
            with self._lock:
                self._running[session] -= 1
                counted = False
                last = not self._running[session]
            if last:
                self._run_quietly(session, self._close_op)
        except Exception as e:
            if coord is not None:
                coord.request_stop(e)
                return
            _log.error("Exception in QueueRunner: %s", e)
            with self._lock:
                self._exceptions_raised.append(e)
            raise
        finally:
            if counted:
                with self._lock:
                    self._running[session] -= 1

    @staticmethod
    def _run_quietly(session, op):
        """Runs an operation that fails only if the session ends, too."""
        try:
            session.run(op)
        except Exception as e:
            _log.debug("Ignored exception: %s", e)

    def _close_on_stop(self, session, cancel_op, coord):
        """Wakes enqueues that wait when a stop is requested."""
        coord.wait_for_stop()
        self._run_quietly(session, cancel_op)

    def create_threads(self, sess, coord=None, daemon=False, start=False):
        """Makes the threads for a session.

        If earlier ones for it still run, makes none.

        Args:
          sess: the session.
          coord: a Coordinator that stops the threads and gets their errors. It
            also gets a thread that closes the queue when it requests a stop.
          daemon: whether the threads may still run when the program ends.
          start: whether to start them.

        Returns:
          The list of threads.
        """
        with self._lock:
            if self._running.get(sess, 0) > 0:
                return []
            self._running[sess] = len(self._enqueue_ops)
            self._exceptions_raised = []
        prefix = f"QueueRunnerThread-{self.name}-"
        threads = [_RunnerThread(sess, self._run, (op, coord), prefix + op.name)
                   for op in self._enqueue_ops]
        if coord:
            threads.append(threading.Thread(
                target=self._close_on_stop, args=(sess, self._cancel_op, coord),
                name=prefix + "close_on_stop"))
        for thread in threads:
            if coord:
                coord.register_thread(thread)
            if daemon:
                thread.daemon = True
            if start:
                thread.start()
        return threads

    def to_proto(self, export_scope=None):
        """Returns a QueueRunnerDef; None if the queue is outside the scope."""
        if export_scope is not None and (
                not self.queue.name.startswith(export_scope)):
            return None

        def strip(name):
            return scopes.strip_name_scope(name, export_scope)

        return protos.QueueRunnerDef(
            queue_name=strip(self.queue.name),
            enqueue_op_name=[strip(op.name) for op in self.enqueue_ops],
            close_op_name=strip(self.close_op.name),
            cancel_op_name=strip(self.cancel_op.name),
            queue_closed_exception_types=[
                errors.error_code_from_exception_type(t)
                for t in self._closed_types])

    @staticmethod
    def from_proto(queue_runner_def, import_scope=None):
        """Makes a QueueRunner of a QueueRunnerDef."""
        return QueueRunner(queue_runner_def=queue_runner_def,
                           import_scope=import_scope)


def add_queue_runner(qr, collection=graphs.GraphKeys.QUEUE_RUNNERS):
    """Adds a QueueRunner to those that `start_queue_runners` starts.

    Args:
      qr: the QueueRunner.
      collection: the collection that gets it.
    """
    graphs.add_to_collection(collection, qr)


def start_queue_runners(sess=None, coord=None, daemon=True, start=True,
                        collection=graphs.GraphKeys.QUEUE_RUNNERS):
    """Starts the threads of all QueueRunners of the session's graph.

    Args:
      sess: the session; defaults to the default session.
      coord: a Coordinator for the threads.
      daemon: whether the threads may still run when the program ends.
      start: whether to start the threads, rather than only make them.
      collection: the collection of QueueRunners.

    Returns:
      The list of threads.

    Raises:
      ValueError: if there is no session.
      TypeError: if `sess` is not a session.
    """
    if sess is None:
        sess = default_session.get_default_session()
        if sess is None:
            raise ValueError(
                "Cannot start queue runners: No default session is registered. "
                "Use `with sess.as_default()` or pass an explicit session to "
                "tf.start_queue_runners(sess=sess)")
    if not isinstance(sess, BaseSession):
        # These start their queue runners themselves.
        if type(sess).__name__ in ("MonitoredSession",
                                   "SingularMonitoredSession"):
            return []
        raise TypeError(f"sess must be a `tf.Session` object. Given class: "
                        f"{type(sess)}")
    with sess.graph.as_default():
        return [thread for runner in graphs.get_collection(collection)
                for thread in runner.create_threads(sess, coord, daemon, start)]


registries.register_proto_function(
    graphs.GraphKeys.QUEUE_RUNNERS,
    proto_type=lambda: protos.QueueRunnerDef(),  # (Loads protobuf when used.)
    to_proto=QueueRunner.to_proto, from_proto=QueueRunner.from_proto)
