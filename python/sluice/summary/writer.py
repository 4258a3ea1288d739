"""Event files: writers of summaries, graphs and logs, and a reader."""

import os
import threading
import time
import warnings

from sluice import _core
from sluice.framework import graph as graphs, meta_graph, protos


def _graph_def(graph, graph_def):
    if graph is not None and graph_def is not None:
        raise ValueError("Please pass only graph, or graph_def (deprecated), "
                         "but not both.")
    given = graph if graph is not None else graph_def
    if isinstance(given, graphs.Graph):
        return given.as_graph_def(add_shapes=True)
    if not protos.is_message(given, "GraphDef"):
        raise TypeError("The passed graph must be an instance of `Graph` or "
                        "the deprecated `GraphDef`")
    return given


class FileWriter:
    """Writes an event file, which TensorBoard shows.

    Events are written on a thread of their own. Threads may share a writer.

    Args:
      logdir: the folder in which the file is made; it is made where needed.
      graph: a graph to write, or None.
      max_queue: not used: events wait in memory, up to a limit in bytes.
      flush_secs: how often events are handed to the system.
      graph_def: a GraphDef to write; a Graph is better.
      filename_suffix: added to the name of the file.
      session: not used: the writer runs no steps.

    Raises:
      errors.OpError: if the file cannot be written, from any method.
    """

    def __init__(self, logdir, graph=None, max_queue=10, flush_secs=120,
                 graph_def=None, filename_suffix=None, session=None):
        del max_queue, session
        self._logdir = os.fspath(logdir)
        self._flush_secs = flush_secs
        self._suffix = filename_suffix or ""
        self._closed = False
        self._run_tags = set()  # Whose metadata were written.
        self._writer = self._open()
        if graph is not None or graph_def is not None:
            self.add_graph(graph, graph_def=graph_def)
            self.add_meta_graph(meta_graph.create_meta_graph_def(
                graph_def=_graph_def(graph, graph_def)))

    def _open(self):
        return _core.EventWriter(self._logdir, self._flush_secs, self._suffix)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.close()

    def get_logdir(self):
        """Returns the folder of the file."""
        return self._logdir

    def add_summary(self, summary, global_step=None):
        """Writes a summary.

        Args:
          summary: a Summary, or the bytes that a summary operation returns.
          global_step: the training step, or None.
        """
        if not isinstance(summary, bytes):
            summary = summary.SerializeToString()
        if self._is_open():
            self._writer.add_summary(summary, int(global_step or 0))

    def add_event(self, event):
        """Writes an Event as it is."""
        if self._is_open():
            self._writer.add_event(event.SerializeToString())

    def _add(self, global_step, **what):
        step = {} if global_step is None else {"step": int(global_step)}
        self.add_event(protos.Event(wall_time=time.time(), **step, **what))

    def add_session_log(self, session_log, global_step=None):
        """Writes a SessionLog."""
        self._add(global_step, session_log=session_log)

    def add_graph(self, graph, global_step=None, graph_def=None):
        """Writes a graph.

        Args:
          graph: a Graph, or a GraphDef.
          graph_def: a GraphDef, instead of `graph`.

        Raises:
          ValueError: if both are given.
          TypeError: if they are something else, or if neither is given.
        """
        made = _graph_def(graph, graph_def)
        self._add(global_step, graph_def=made.SerializeToString())

    def add_meta_graph(self, meta_graph_def, global_step=None):
        """Writes a MetaGraphDef; TypeError if it is something else."""
        if not protos.is_message(meta_graph_def, "MetaGraphDef"):
            raise TypeError(f"meta_graph_def must be type MetaGraphDef, saw "
                            f"type: {type(meta_graph_def)}")
        self._add(global_step,
                  meta_graph_def=meta_graph_def.SerializeToString())

    def add_run_metadata(self, run_metadata, tag, global_step=None):
        """Writes the RunMetadata of a step.

        Raises:
          ValueError: if the tag was used before.
        """
        if tag in self._run_tags:
            raise ValueError("The provided tag was already used for this event "
                             "type")
        self._run_tags.add(tag)
        self._add(global_step, tagged_run_metadata=protos.TaggedRunMetadata(
            tag=tag, run_metadata=run_metadata.SerializeToString()))

    def flush(self):
        """Waits until what was added is with the system."""
        if self._is_open():
            self._writer.flush()

    def close(self):
        """Writes what was added, and closes the file, unless it is closed."""
        if not self._closed:
            self._closed = True
            self._writer.close()

    def reopen(self):
        """Makes another file, unless this one is open."""
        if self._closed:
            self._writer = self._open()
            self._closed = False

    def _is_open(self):
        if self._closed:
            warnings.warn("Attempting to use a closed FileWriter. The "
                          "operation will be a noop unless the FileWriter is "
                          "explicitly reopened.", stacklevel=3)
        return not self._closed


class FileWriterCache:
    """The writers of this program, one for each folder."""

    _writers = {}
    _lock = threading.Lock()

    @staticmethod
    def clear():
        """Closes all writers."""
        with FileWriterCache._lock:
            for writer in FileWriterCache._writers.values():
                writer.close()
            FileWriterCache._writers.clear()

    @staticmethod
    def get(logdir):
        """Returns the writer of a folder."""
        logdir = os.fspath(logdir)
        with FileWriterCache._lock:
            if logdir not in FileWriterCache._writers:
                FileWriterCache._writers[logdir] = FileWriter(
                    logdir, graph=graphs.get_default_graph())
            return FileWriterCache._writers[logdir]


class _EventIterator:
    """See `summary_iterator`."""

    def __init__(self, path):
        self._reader = _core.EventReader(path)

    def __iter__(self):
        return self

    def __next__(self):
        event = self._reader.read()
        if event is None:
            raise StopIteration
        return protos.Event.FromString(event)


def summary_iterator(path):
    """Iterates over the Events of a file.

    At the end of the file the iterator stops. It goes on from there if more
    events are written.

    Raises:
      errors.DataLossError: if the file is corrupt.
    """
    return _EventIterator(os.fspath(path))
