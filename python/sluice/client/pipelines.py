"""The pipelines of datasets, as a session runs them beside its steps.

An iterator (data/iterator.py) has operations in the graph: its `initializer`,
which a step runs without any effect of its own (but that a saved position is
set to the beginning, unless it was restored and the pipeline has not started
since), and those that take elements; and savers have operations that restore
its position.
`Graph._iterators` says which they are. A session with such a graph looks, once
for each kind of step, which of them the step reaches. An initializer notes the
feeds; the pipeline starts before the first step that takes an element, since
what its functions read, such as tables, may be initialized in between. So does
one whose position was restored, with the feeds that it had.
"""

import threading

from sluice import _core
from sluice.framework import nest

_MOST_KINDS = 1000  # Of steps whose analysis is kept.


class _Kind:
    """The iterators that the steps of one kind reach."""

    __slots__ = ("initialized", "restored", "needed")

    def __init__(self, initialized, restored, needed):
        self.initialized, self.restored = initialized, restored
        self.needed = needed  # [(iterator, operation that takes an element)].


class Pipelines:
    """Starts the pipelines of one session. Thread-safe.

    Args:
      expand_fetch: what `session._expand_fetch` is.
    """

    def __init__(self, expand_fetch):
        self._expand_fetch = expand_fetch
        self._kinds = {}  # By the names of fetched operations and of feeds.
        self._lock = threading.Lock()  # Held while a pipeline starts.
        self._feeds = {}  # Of initialized iterators that are to start.
        self._latest_feeds = {}  # Of those that have started.
        self._started = set()  # The iterators that were started here.

    def kind_of(self, graph, fetches, feeds):
        """Returns the kind of a step: None if it reaches no iterator.

        Args:
          graph: the graph, which has iterators.
          fetches: a structure of fetches.
          feeds: the keys of the feeds.
        """
        fetched = {op.name: op for op in self._operations(fetches, graph)}
        fed = frozenset(t.name for t in _fed(feeds, graph))
        key = (frozenset(fetched), fed)
        if key not in self._kinds:
            if len(self._kinds) >= _MOST_KINDS:
                self._kinds.clear()
            self._kinds[key] = _reached(graph, fetched.values(), fed)
        return self._kinds[key]

    def _operations(self, fetch, graph):
        if isinstance(fetch, _core.Tensor):
            return [fetch.op]
        if isinstance(fetch, _core.Operation):
            return [fetch]
        if isinstance(fetch, dict):
            fetch = fetch.values()
        elif not isinstance(fetch, (list, tuple)):
            fetch = self._expand_fetch(fetch, graph)[0]
        return [op for part in fetch for op in self._operations(part, graph)]

    def before(self, session, kind):
        """Starts the pipelines that a step needs and that do not run yet.

        Raises:
          errors.FailedPreconditionError: if an iterator was not initialized.
        """
        for iterator, op in kind.needed:
            if iterator not in self._started:
                self._start(session, iterator, op)

    def after(self, kind, feed_dict):
        """Notes the feeds of iterators that a successful step initialized."""
        for iterator in kind.initialized:
            with self._lock:
                # (The program may reuse its arrays before the pipeline starts.)
                self._feeds[iterator] = {
                    key: value.copy() if hasattr(value, "copy") else value
                    for key, value in (feed_dict or {}).items()}
                self._started.discard(iterator)
        for iterator in kind.restored:
            with self._lock:
                self._feeds.setdefault(iterator,
                                       self._latest_feeds.get(iterator))
                self._started.discard(iterator)

    def _start(self, session, iterator, op):
        with self._lock:
            if iterator in self._started:
                return  # Another thread has started it.
            if iterator in self._feeds:
                feeds = self._feeds[iterator]
            elif iterator._one_shot:
                feeds = None
            elif op._get_control_flow_context() is not None:
                return  # A branch that may not be taken: it checks by itself.
            else:
                raise iterator._uninitialized(op)
            iterator._start(session, feeds)
            self._feeds.pop(iterator, None)
            if iterator._saveable is not None:
                self._latest_feeds[iterator] = feeds
            self._started.add(iterator)


def _fed(keys, graph):
    """Returns the tensors that feeds stand for; other keys are skipped."""
    tensors = []
    for key in keys:
        for part in nest.flatten(key, expand_composites=True):
            try:
                tensors.append(graph.as_graph_element(part,
                                                      allow_operation=False))
            except (KeyError, TypeError, ValueError):
                pass  # The step will raise what is to be raised.
    return tensors


def _reached(graph, operations, fed):
    """Returns the _Kind of steps that run operations; None if it is empty."""
    iterators = graph._iterators
    seen, initialized, restored, needed = set(), [], [], []
    pending = list(operations)
    while pending:
        op = pending.pop()
        name = op.name
        if name in seen:
            continue
        seen.add(name)
        if name in iterators:
            iterator, does = iterators[name]
            if does == "takes":
                needed.append((iterator, op))
            else:
                (restored if does == "restores" else initialized).append(
                    iterator)
        pending += op.control_inputs
        pending += [t.op for t in op.inputs if t.name not in fed]
    if not (initialized or restored or needed):
        return None
    return _Kind(initialized, restored, needed)
