"""Updates of rows and slices of variables."""

from sluice import _core
from sluice.framework import conversion, graph as graphs
from sluice.ops import array_ops, math_ops

_op = _core.op


class Scattered:
    """Mixin of variables with methods that update a part of the value.

    Each method returns the new value.
    """

    def _scatter_slices(self, kind, slices, use_locking, name):
        if not isinstance(slices, conversion.IndexedSlices):
            raise TypeError(f"sparse_delta is not IndexedSlices: {slices}")
        return _scatter(kind, self, slices.indices, slices.values, use_locking,
                        name)

    def scatter_sub(self, sparse_delta, use_locking=False, name=None):
        """Subtracts IndexedSlices."""
        return self._scatter_slices("ScatterSub", sparse_delta, use_locking,
                                    name)

    def scatter_add(self, sparse_delta, use_locking=False, name=None):
        """Adds IndexedSlices."""
        return self._scatter_slices("ScatterAdd", sparse_delta, use_locking,
                                    name)

    def scatter_mul(self, sparse_delta, use_locking=False, name=None):
        """Multiplies rows by IndexedSlices."""
        return self._scatter_slices("ScatterMul", sparse_delta, use_locking,
                                    name)

    def scatter_div(self, sparse_delta, use_locking=False, name=None):
        """Divides rows by IndexedSlices."""
        return self._scatter_slices("ScatterDiv", sparse_delta, use_locking,
                                    name)

    def scatter_max(self, sparse_delta, use_locking=False, name=None):
        """Takes the elementwise maximum of rows and IndexedSlices."""
        return self._scatter_slices("ScatterMax", sparse_delta, use_locking,
                                    name)

    def scatter_min(self, sparse_delta, use_locking=False, name=None):
        """Takes the elementwise minimum of rows and IndexedSlices."""
        return self._scatter_slices("ScatterMin", sparse_delta, use_locking,
                                    name)

    def scatter_update(self, sparse_delta, use_locking=False, name=None):
        """Replaces rows by IndexedSlices."""
        return self._scatter_slices("ScatterUpdate", sparse_delta, use_locking,
                                    name)

    def batch_scatter_update(self, sparse_delta, use_locking=False, name=None):
        """Replaces rows in each batch; see `batch_scatter_update`."""
        return batch_scatter_update(self, sparse_delta.indices,
                                    sparse_delta.values, use_locking, name)

    def scatter_nd_sub(self, indices, updates, name=None):
        """Subtracts from slices at coordinates."""
        return _scatter("ScatterNdSub", self, indices, updates, False, name)

    def scatter_nd_add(self, indices, updates, name=None):
        """Adds to slices at coordinates."""
        return _scatter("ScatterNdAdd", self, indices, updates, False, name)

    def scatter_nd_update(self, indices, updates, name=None):
        """Replaces slices at coordinates."""
        return _scatter("ScatterNdUpdate", self, indices, updates, False, name)


def _scatter(kind, ref, indices, updates, use_locking, name):
    if isinstance(ref, Scattered) and ref._resource:
        done = _op("Resource" + kind)(
            ref._handle, indices,
            conversion.convert_to_tensor(updates, ref.dtype.base_dtype),
            name=name)
        with done.graph.control_dependencies([done]):
            return ref.read_value()
    return _op(kind)(ref, indices, updates, use_locking=use_locking, name=name)


def _function(kind, doc, locking=False):
    def scatter(ref, indices, updates, use_locking=locking, name=None):
        return _scatter(kind, ref, indices, updates, use_locking, name)
    scatter.__doc__ = doc
    return scatter


scatter_update = _function("ScatterUpdate", "Replaces rows.", True)
scatter_add = _function("ScatterAdd", "Adds to rows.")
scatter_sub = _function("ScatterSub", "Subtracts from rows.")
scatter_mul = _function("ScatterMul", "Multiplies rows.")
scatter_div = _function("ScatterDiv", "Divides rows.")
scatter_max = _function("ScatterMax", "Takes the maximum of rows.")
scatter_min = _function("ScatterMin", "Takes the minimum of rows.")
scatter_nd_update = _function("ScatterNdUpdate",
                              "Replaces slices at coordinates.", True)
scatter_nd_add = _function("ScatterNdAdd", "Adds to slices at coordinates.")
scatter_nd_sub = _function("ScatterNdSub",
                           "Subtracts from slices at coordinates.")


def batch_scatter_update(ref, indices, updates, use_locking=True, name=None):
    """Replaces slices of a variable in each batch.

    For indices of shape [a, b], assigns ref[i, indices[i, j]] = updates[i, j].

    Args:
      ref: the variable.
      indices: integers; the last dimension contains indices of slices.
      updates: the slices, of shape indices.shape + shape of a slice.
      use_locking: ignored for resource variables.
    """
    with graphs.name_scope(name, "batch_scatter_update"):
        indices = conversion.convert_to_tensor(indices, name="indices")
        rank = indices.shape.ndims
        if rank is None:
            raise ValueError("batch_gather does not allow indices with unknown "
                             "shape.")
        last = array_ops.expand_dims(indices, -1)
        sizes = array_ops.shape(indices, out_type=last.dtype.base_dtype)
        coordinates = []  # One tensor for each dimension before the last.
        for i in range(rank - 1):
            along = [1] * (rank + 1)
            along[i] = -1
            numbers = array_ops.reshape(math_ops.range(sizes[i]), along)
            coordinates.append(numbers * array_ops.ones_like(last))
        return scatter_nd_update(
            ref, array_ops.concat(coordinates + [last], -1), updates,
            use_locking)
