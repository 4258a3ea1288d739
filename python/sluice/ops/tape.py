"""GradientTape: gradients of the operations that a with-block adds."""

import contextlib

from sluice.framework import graph as graphs, nest
from sluice.ops import array_ops, gradients as _gradients
from sluice.ops.gradients import UnconnectedGradients
from sluice.ops.variables import Variable


def _names(value):
    """Returns the names of the tensors that read a tensor or variable."""
    if isinstance(value, Variable):
        return {value._handle.name, value._snapshot.name}
    return {value.name}


class GradientTape:
    """Records the operations that a with-block adds, to compute gradients.

        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
        dy_dx = tape.gradient(y, x)

    Args:
      persistent: whether gradients may be computed more than once.
      watch_accessed_variables: whether to watch trainable variables.
    """

    def __init__(self, persistent=False, watch_accessed_variables=True):
        self._persistent = persistent
        self._watch_variables = watch_accessed_variables
        self._graph = graphs.get_default_graph()
        self._spans, self._watched = [], []
        self._recording = self._used = False

    def __enter__(self):
        self._start()
        return self

    def __exit__(self, *unused):
        if self._recording:
            self._stop()

    def _start(self):
        if self._recording:
            raise ValueError("Tape is already recording.")
        self._spans.append([self._graph.version, None])
        self._recording = True

    def _stop(self):
        self._spans[-1][1] = self._graph.version
        self._recording = False

    def watch(self, tensor):
        """Enables gradients with respect to tensors."""
        self._watched += nest.flatten(tensor)

    @contextlib.contextmanager
    def stop_recording(self):
        """Returns a context manager that pauses recording."""
        if not self._recording:
            raise ValueError("Tape is not recording.")
        self._stop()
        try:
            yield
        finally:
            self._start()

    def reset(self):
        """Discards everything recorded so far."""
        recording = self._recording
        self._recording = False
        self._spans, self._watched = [], []
        if recording:
            self._start()

    def watched_variables(self):
        """Returns the watched variables that recorded operations read."""
        recorded = self._recorded()
        inputs = {t.name for op in recorded for t in op.inputs}
        return tuple(v for v in self._graph.get_collection(
            graphs.GraphKeys.TRAINABLE_VARIABLES)
                     if self._is_watched(v) and _names(v) & inputs)

    def _recorded(self):
        ops = self._graph.get_operations()
        found = []
        for start, end in self._spans:
            found += ops[start:self._graph.version if end is None else end]
        return found

    def _is_watched(self, source):
        return any(source is w for w in self._watched) or (
            isinstance(source, Variable) and self._watch_variables and
            source.trainable)

    def gradient(self, target, sources, output_gradients=None,
                 unconnected_gradients=UnconnectedGradients.NONE):
        """Returns the gradients of targets with respect to watched sources.

        The result has the structure of `sources`, with None for sources that
        are not connected to the targets.
        """
        if self._used and not self._persistent:
            raise RuntimeError("A non-persistent GradientTape can only be used "
                               "to compute one set of gradients (or "
                               "jacobians)")
        if self._recording and not self._persistent:
            self._stop()
        self._used = True
        recorded = self._recorded()
        # (Arguments of a function's body stand for values from before.)
        within = {t.name for op in recorded for t in op.outputs
                  if op.type != "_Arg"}
        flat = nest.flatten(sources)
        # Sources that are not watched have no gradients, and operations that
        # are not recorded propagate none.
        known = [self._is_watched(s) or bool(_names(s) & within) for s in flat]
        kept = set().union(*map(_names, flat))
        stops = {t.name: t for op in recorded for t in op.inputs
                 if t.name not in within and t.name not in kept}
        targets = nest.flatten(target)
        grads = None if output_gradients is None else nest.flatten(
            output_gradients)
        reached = [i for i, t in enumerate(targets)
                   if _names(t) & (within | kept)]
        wanted = [s for s, w in zip(flat, known) if w]
        found = iter(_gradients.gradients(
            [targets[i] for i in reached], wanted,
            None if grads is None else [grads[i] for i in reached],
            stop_gradients=list(stops.values()))
                     if reached and wanted else [None] * len(wanted))
        results = [next(found) if w else None for w in known]
        if UnconnectedGradients(unconnected_gradients) is (
                UnconnectedGradients.ZERO):
            results = [array_ops.zeros_like(s) if g is None else g
                       for g, s in zip(results, flat)]
        return nest.pack_sequence_as(sources, results)
