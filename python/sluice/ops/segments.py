"""Histograms, and reductions over segments."""

from sluice import _core
from sluice.framework import dtypes, graph as graphs
from sluice.framework.conversion import constant, convert_to_tensor
from sluice.ops.math_ops import (
    cast, floor, maximum, minimum, reduce_max, reduce_prod, sqrt,
    unsorted_segment_sum)

_op = _core.op
_shape = _op("Shape")


def histogram_fixed_width(values, value_range, nbins=100, dtype=dtypes.int32,
                          name=None):
    """Counts the values in each of `nbins` bins of equal width."""
    return _op("HistogramFixedWidth", "histogram_fixed_width")(
        values, value_range, nbins, dtype=dtype, name=name)


def bincount(arr, weights=None, minlength=None, maxlength=None,
             dtype=dtypes.int32, name=None):
    """Counts the occurrences of each integer, or sums their weights."""
    with graphs.name_scope(name, "bincount", [arr, weights]):
        arr = cast(arr, dtypes.int32)
        any_ = cast(reduce_prod(_shape(arr)) > 0, dtypes.int32)
        size = any_ * (reduce_max(arr) + 1)
        if minlength is not None:
            size = maximum(cast(minlength, dtypes.int32), size)
        if maxlength is not None:
            size = minimum(cast(maxlength, dtypes.int32), size)
        weights = constant([], dtype) if weights is None else (
            convert_to_tensor(weights))
        return _op("Bincount")(arr, size, weights)


def unsorted_segment_mean(data, segment_ids, num_segments, name=None):
    """Computes the mean of the slices of each segment."""
    return _over_counts(data, segment_ids, num_segments, lambda n: n, name,
                        "UnsortedSegmentMean")


def unsorted_segment_sqrt_n(data, segment_ids, num_segments, name=None):
    """Divides the sum of each segment by the root of its number of slices."""
    return _over_counts(data, segment_ids, num_segments, sqrt, name,
                        "UnsortedSegmentSqrtN")


def _over_counts(data, segment_ids, num_segments, scale, name, default):
    with graphs.name_scope(name, default, [data]):
        data, ids = convert_to_tensor(data), convert_to_tensor(segment_ids)
        ones = _op("Fill")(_shape(ids), constant(1, data.dtype.base_dtype))
        counts = maximum(unsorted_segment_sum(ones, ids, num_segments), 1)
        inner = len(data.shape) - len(ids.shape)
        counts = _op("Reshape")(counts, _op("ConcatV2")(
            [_shape(counts), constant([1] * inner, dtypes.int32)], 0))
        return unsorted_segment_sum(data, ids, num_segments) / scale(counts)


def _sparse_segments(kind, doc):
    def reduce(data, indices, segment_ids, name=None, num_segments=None):
        if num_segments is None:
            return _op("SparseSegment" + kind)(data, indices, segment_ids,
                                               name=name)
        return _op(f"SparseSegment{kind}WithNumSegments")(
            data, indices, segment_ids, num_segments, name=name)
    reduce.__doc__ = doc
    return reduce


sparse_segment_sum = _sparse_segments(
    "Sum", "Computes the sum of the rows at `indices` in each segment.")
sparse_segment_mean = _sparse_segments(
    "Mean", "Computes the mean of the rows at `indices` in each segment.")
sparse_segment_sqrt_n = _sparse_segments(
    "SqrtN", "Divides the sum of the rows at `indices` in each segment by the "
    "root of their number.")


def histogram_fixed_width_bins(values, value_range, nbins=100,
                               dtype=dtypes.int32, name=None):
    """Returns the bin of each value, with bins of equal width."""
    with graphs.name_scope(name, "histogram_fixed_width_bins",
                           [values, value_range, nbins]):
        values = convert_to_tensor(values, name="values")
        value_range = cast(value_range, values.dtype)
        low, high = value_range[0], value_range[1]
        scaled = (values - low) / (high - low) * cast(nbins, values.dtype)
        return cast(minimum(maximum(floor(scaled), 0),
                            cast(nbins - 1, values.dtype)), dtype)
