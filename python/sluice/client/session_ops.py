"""Tensors that a session keeps between steps, accessed by handle."""

from sluice import _core
from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import convert_to_tensor
from sluice.ops import array_ops

# The number of unreferenced tensors that are kept before they are deleted.
_MAX_DEAD = 10


class TensorHandle:
    """A handle of a tensor that the session keeps: `get_session_handle`.

    The tensor is deleted some time after its handle. A handle can be fed in
    place of the tensor's value.
    """

    def __init__(self, handle, dtype, session):
        self._handle = handle.decode() if isinstance(handle, bytes) else handle
        self._dtype, self._session, self._owns = dtype, session, True
        if len(session._dead_handles) > _MAX_DEAD:
            dead = session._dead_handles[:]
            del session._dead_handles[:len(dead)]
            for handle in dead:
                session._delete_handle(handle)

    def __del__(self):
        if self._owns and not self._session._closed:
            self._session._dead_handles.append(self._handle)

    @property
    def handle(self):
        """The handle as a string."""
        return self._handle

    def get_raw_handle(self):
        """Returns the handle; the caller must then delete the tensor."""
        self._owns = False
        return self._handle

    def eval(self):
        """Returns the tensor's value."""
        holder, value = _cached(self._session.graph, "read", self._dtype)
        return self._session.run(value, {holder: self._handle})

    def delete(self):
        """Deletes the tensor."""
        self.get_raw_handle()
        self._session._delete_handle(self._handle)

    def __array__(self, dtype=None):
        import numpy as np
        return np.asarray(self.eval(), dtype)

    def __str__(self):
        return self._handle


def _cached(graph, what, dtype=None):
    """Returns (placeholder, operation) that read or delete a session's tensor.

    They are made once per graph and dtype.
    """
    known = graph.__dict__.setdefault("_session_ops", {})
    if (what, dtype) not in known:
        with graph.as_default(), graphs.device(None), graphs.init_scope():
            known[what, dtype] = (
                delete_session_tensor(None) if what == "delete"
                else get_session_tensor(None, dtype))
    return known[what, dtype]


def get_session_handle(data, name=None):
    """Returns a tensor that stores `data` in the session.

    Its value in a step is a `TensorHandle`.
    """
    if not isinstance(data, _core.Tensor):
        raise TypeError("`data` must be of type Tensor.")
    made = _core.op("GetSessionHandle")(convert_to_tensor(data), name=name)
    _cached(made.graph, "delete")  # Later the graph may be finalized.
    return made


def get_session_tensor(handle, dtype, name=None):
    """Returns (placeholder of a handle, the stored tensor)."""
    del handle  # It would tell the device, but there is only one.
    with graphs.name_scope(name, "get_session_tensor"):
        holder = array_ops.placeholder(dtypes.string)
        return holder, _core.op("GetSessionTensor")(holder, dtype=dtype)


def delete_session_tensor(handle, name=None):
    """Returns (placeholder of a handle, operation that deletes its tensor)."""
    del handle
    with graphs.name_scope(name, "delete_session_tensor"):
        holder = array_ops.placeholder(dtypes.string)
        return holder, _core.op("DeleteSessionTensor")(holder)
