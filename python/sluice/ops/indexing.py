"""NumPy-style indexing: tensor[...]."""

from sluice import _core
from sluice.framework import dtypes, graph as graphs, tensor_shape
from sluice.framework.conversion import constant, convert_to_tensor
from sluice.ops import array_ops

_op = _core.op
_pack = _op("Pack", "stack")
_strided_slice = _op("StridedSlice", "strided_slice")
_INDICES = ("Only integers, slices (`:`), ellipsis (`...`), tf.newaxis "
            "(`None`) and scalar tf.int32/tf.int64 tensors are valid indices")


def _getitem(tensor, key):
    """Indexes a tensor by integers, slices, `...`, newaxis or a mask."""
    if isinstance(key, bool) or isinstance(
            key, _core.Tensor) and key.dtype.is_bool or (
            hasattr(key, "dtype") and getattr(key, "ndim", 0) and
            getattr(key.dtype, "kind", "") == "b"):
        return array_ops.boolean_mask(tensor, key)
    keys = key if isinstance(key, (list, tuple)) else (key,)
    begin, end, strides = [], [], []
    masks = dict(begin_mask=0, end_mask=0, ellipsis_mask=0, new_axis_mask=0,
                 shrink_axis_mask=0)
    for i, k in enumerate(keys):
        bit = 1 << i
        if isinstance(k, slice):
            begin.append(0 if k.start is None else _index(k.start))
            end.append(0 if k.stop is None else _index(k.stop))
            strides.append(1 if k.step is None else _index(k.step))
            masks["begin_mask"] |= bit if k.start is None else 0
            masks["end_mask"] |= bit if k.stop is None else 0
        elif k is Ellipsis or k is None:
            begin.append(0)
            end.append(0)
            strides.append(1)
            masks["new_axis_mask" if k is None else "ellipsis_mask"] |= bit
        else:
            k = _index(k)
            begin.append(k)
            end.append(k + 1)
            strides.append(1)
            masks["shrink_axis_mask"] |= bit
            # For -1, end = begin + 1 = 0 would give an empty slice.
            if isinstance(k, int) and k == -1:
                masks["end_mask"] |= bit
    with graphs.name_scope("strided_slice") as scope:
        if begin:
            kind = _index_type(begin + end + strides)
            parts = [_pack_indices(p, kind) for p in (begin, end, strides)]
        else:
            parts = [constant([], dtypes.int32, name=n)
                     for n in ("begin", "end", "strides")]
        return _strided_slice(tensor, *parts, name=scope, **masks)


def _index(k):
    if isinstance(k, int):
        return k
    if isinstance(k, tensor_shape.Dimension):
        return k.value
    if isinstance(getattr(k, "dtype", None), dtypes.DType):
        made = convert_to_tensor(k)  # _index_type checks its dtype.
        if not made._dims:
            return made
    elif hasattr(k, "__index__"):
        return k.__index__()
    raise TypeError(f"{_INDICES}, got {k!r}")


def _index_type(values):
    types = {v.dtype.base_dtype for v in values if isinstance(v, _core.Tensor)}
    bad = types - {dtypes.int32, dtypes.int64}
    if bad:
        raise TypeError(f"{_INDICES}, got a tensor of {bad.pop().name}")
    return dtypes.int64 if dtypes.int64 in types else dtypes.int32


def _pack_indices(values, kind):
    if any(isinstance(v, _core.Tensor) for v in values):
        return _pack([v if isinstance(v, _core.Tensor) and v.dtype is kind
                      else _op("Cast")(v, kind)
                      if isinstance(v, _core.Tensor) else constant(v, kind)
                      for v in values])
    return constant(values, kind, name="stack")


graphs.Tensor.__getitem__ = _getitem
