"""Coordination of threads that stop together."""

import contextlib
import sys
import threading
import time

from sluice.framework import errors


class Coordinator:
    """Stops threads together.

    Each thread checks `should_stop`, and any may call `request_stop`. `join`
    waits for all threads and raises the error of one of them.

    Args:
      clean_stop_exception_types: exceptions that request a stop but are not
        failures; default to OutOfRangeError.
    """

    def __init__(self, clean_stop_exception_types=None):
        if clean_stop_exception_types is None:
            clean_stop_exception_types = (errors.OutOfRangeError,)
        self._clean = tuple(clean_stop_exception_types)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._raised = None  # The error of a thread, with its traceback.
        self._registered_threads = set()
        self._joined = False

    def request_stop(self, ex=None):
        """Requests all threads to stop.

        Only the first error is kept. After `join` it is raised at once, since
        nothing would report it.

        Args:
          ex: the error that is the reason, or sys.exc_info(); None if there is
            none. Only an error that is being handled has a traceback.
        """
        error = ex
        if isinstance(ex, tuple):
            error = ex[1] if len(ex) == 3 and isinstance(
                ex[1], BaseException) else ValueError(
                    f"ex must be a tuple or sys.exc_info must return the "
                    f"current exception: {ex}")
            if len(ex) == 3 and ex[2] is not None:
                error = error.with_traceback(ex[2])
        elif ex is not None and not isinstance(ex, BaseException):
            error = sys.exc_info()[1] or ValueError(
                f"ex must be a tuple or sys.exc_info must return the current "
                f"exception: {ex}")
        if isinstance(error, self._clean):
            error = None
        with self._lock:
            if self._joined:
                if error is not None:
                    raise error
                return
            if not self._stop.is_set():
                self._raised = error
                self._stop.set()

    def clear_stop(self):
        """Clears the stop flag."""
        with self._lock:
            self._joined = False
            self._raised = None
            self._stop.clear()

    def should_stop(self):
        """Returns whether a stop was requested."""
        return self._stop.is_set()

    @contextlib.contextmanager
    def stop_on_exception(self):
        """A context manager in which an exception requests a stop."""
        try:
            yield
        except:  # noqa: E722
            self.request_stop(sys.exc_info())

    def wait_for_stop(self, timeout=None):
        """Waits until a stop is requested or `timeout` seconds have passed.

        Returns whether a stop was requested.
        """
        return self._stop.wait(timeout)

    def register_thread(self, thread):
        """Adds a thread that `join` waits for."""
        with self._lock:
            self._registered_threads.add(thread)

    def join(self, threads=None, stop_grace_period_secs=120,
             ignore_live_threads=False):
        """Waits until all threads have stopped; raises the error of one.

        Raises:
          RuntimeError: if threads still run after the grace period.
        """
        with self._lock:
            threads = self._registered_threads | set(threads or ())
        while any(t.is_alive() for t in threads) and not self.wait_for_stop(
                0.05):
            pass
        until = time.monotonic() + stop_grace_period_secs
        for t in threads:
            t.join(max(0.0, until - time.monotonic()))
        still = [t.name for t in threads if t.is_alive()]
        with self._lock:
            self._joined = True
            self._registered_threads = set()
            if self._raised is not None:
                raise self._raised
        if still and not ignore_live_threads:
            raise RuntimeError(f"Coordinator stopped with threads still "
                               f"running: {' '.join(still)}")

    @property
    def joined(self):
        """Whether `join` has returned."""
        return self._joined

    def raise_requested_exception(self):
        """Raises the error with which a thread requested a stop, if any."""
        with self._lock:
            if self._raised is not None:
                raise self._raised


class LooperThread(threading.Thread):
    """A thread that calls a function repeatedly until a coordinator stops it.

    Args:
      coord: the coordinator.
      timer_interval_secs: the interval between calls; None for no pause.
      target, args, kwargs: a function and its arguments, instead of
        `run_loop`.
    """

    def __init__(self, coord, timer_interval_secs, target=None, args=None,
                 kwargs=None):
        if not isinstance(coord, Coordinator):
            raise ValueError(f"'coord' argument must be a Coordinator: "
                             f"{coord}")
        super().__init__(daemon=True)
        self._coord, self._interval = coord, timer_interval_secs
        self._call = target, tuple(args or ()), dict(kwargs or {})
        if target is None and (args or kwargs):
            raise ValueError("'args' and 'kwargs' argument require that you "
                             "also pass 'target'")
        coord.register_thread(self)

    @staticmethod
    def loop(coord, timer_interval_secs, target, args=None, kwargs=None):
        """Starts a LooperThread."""
        thread = LooperThread(coord, timer_interval_secs, target, args, kwargs)
        thread.start()
        return thread

    def run(self):
        with self._coord.stop_on_exception():
            self.start_loop()
            at = time.monotonic()
            while not self._coord.should_stop():
                self.run_loop()
                if self._interval is None:
                    continue
                at += self._interval
                if self._coord.wait_for_stop(max(0.0, at - time.monotonic())):
                    break
            self.stop_loop()

    def start_loop(self):
        """Called once, before the loop."""

    def run_loop(self):
        """Called repeatedly."""
        target, args, kwargs = self._call
        if target is not None:
            target(*args, **kwargs)

    def stop_loop(self):
        """Called once, after the loop."""
