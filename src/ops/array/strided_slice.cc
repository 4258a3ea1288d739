#include "ops/array/strided_slice.h"

#include <algorithm>

#include "graph/shape_context.h"

namespace sluice::array {
namespace {

constexpr int64_t kNewAxis = -1;

// The entries as given, assigned to the dimensions that they refer to.
struct DenseSlice {
  Dims begin, end, stride;
  uint32_t begin_mask = 0, end_mask = 0, shrink_mask = 0;
  Dims result_from;
};

Result<DenseSlice> Spread(int rank, const Tensor* begin, const Tensor* end,
                          const Tensor& strides, const SliceMasks& masks) {
  const int entries = static_cast<int>(strides.num_elements());
  const auto bit = [](int64_t mask, int i) { return ((mask >> i) & 1) != 0; };
  int ellipsis = entries;  // If omitted, it is at the end.
  for (int i = 0; i < entries; ++i) {
    if (!bit(masks.ellipsis, i)) continue;
    if (ellipsis != entries)
      return InvalidArgument("slice: expected at most one ellipsis, got more");
    ellipsis = i;
  }
  int new_axes_after = 0;
  for (int i = ellipsis + 1; i < entries; ++i)
    new_axes_after += bit(masks.new_axis, i);
  DenseSlice d;
  const auto push = [&](int64_t b, int64_t e, int64_t s, bool b_mask,
                        bool e_mask) {
    const auto here = static_cast<uint32_t>(1) << d.stride.size();
    d.begin.push_back(b);
    d.end.push_back(e);
    d.stride.push_back(s);
    if (b_mask) d.begin_mask |= here;
    if (e_mask) d.end_mask |= here;
  };
  for (int i = 0; i <= entries; ++i) {
    const int full = static_cast<int>(d.stride.size());
    if (i == ellipsis) {
      // All dimensions that the entries after it do not use.
      const int after = std::max(0, entries - ellipsis - 1) - new_axes_after;
      const int next = std::clamp(rank - after, full, rank);
      for (int k = full; k < next; ++k) {
        d.result_from.push_back(k);
        push(0, 0, 1, true, true);
      }
    } else if (i == entries) {
      break;
    } else if (bit(masks.new_axis, i)) {
      d.result_from.push_back(kNewAxis);
    } else {
      if (full == rank)
        return InvalidArgument("slice: expected at most ", rank,
                               " indices, one per dimension, got more");
      if (bit(masks.shrink, i))
        d.shrink_mask |= static_cast<uint32_t>(1) << full;
      else
        d.result_from.push_back(full);
      push(begin != nullptr ? IntAt(*begin, i) : 0,
           end != nullptr ? IntAt(*end, i) : 0, IntAt(strides, i),
           bit(masks.begin, i), bit(masks.end, i));
    }
  }
  return d;
}

// Strides of `value` along each dimension of the sliced tensor; 0 where it is
// broadcast or lacks the dimension.
Result<Dims> StridesInSlice(const SliceSpec& spec, const Shape& value) {
  const int rank = spec.result.rank();
  const int missing = rank - value.rank();
  const Dims dense = DenseStrides(value.dims());
  Dims out(spec.size.size(), 0);
  bool fits = missing >= 0;
  for (int i = 0; fits && i < value.rank(); ++i) {
    const int at = i + missing;
    const int64_t from = spec.result_from[static_cast<size_t>(at)];
    const int64_t size = value[i];
    fits = size == spec.result.dim(at) || size == 1;
    if (from != kNewAxis && size != 1)
      out[static_cast<size_t>(from)] = dense[static_cast<size_t>(i)];
  }
  if (!fits)
    return InvalidArgument("value: expected the shape of the slice, ",
                           spec.result.ToString(), ", got ", value.ToString());
  return out;
}

// The offset of the slice's first element in x, and its strides.
int64_t Place(const Shape& x, const SliceSpec& spec, Dims* strides) {
  *strides = DenseStrides(x.dims());
  int64_t offset = 0;
  for (size_t i = 0; i < spec.size.size(); ++i) {
    if (spec.size[i] == 0) return 0;
    offset += spec.begin[i] * (*strides)[i];
    // An unused stride may be too large to multiply.
    (*strides)[i] = spec.size[i] == 1 ? 0 : (*strides)[i] * spec.stride[i];
  }
  return offset;
}

}  // namespace

Result<SliceSpec> MakeSliceSpec(const PartialShape& input, const Tensor* begin,
                                const Tensor* end, const Tensor& strides,
                                const SliceMasks& masks) {
  const int64_t entries = strides.num_elements();
  if (strides.rank() != 1 || entries > 31)
    return InvalidArgument(
        "strides: expected a vector of at most 31 entries, got shape ",
        strides.shape().ToString());
  for (const Tensor* t : {begin, end})
    if (t != nullptr && (t->rank() != 1 || t->num_elements() != entries))
      return InvalidArgument("begin and end: expected vectors of ", entries,
                             " entries, as strides has, got shape ",
                             t->shape().ToString());
  const int rank = input.rank();
  SLUICE_ASSIGN_OR_RETURN(DenseSlice d,
                          Spread(rank, begin, end, strides, masks));
  SliceSpec spec;
  spec.whole = true;
  for (int i = 0; i < rank; ++i) {
    const auto at = static_cast<size_t>(i);
    const int64_t dim = input.dim(i), stride = d.stride[at];
    const bool shrink = (d.shrink_mask >> i) & 1;
    const bool begin_masked = (d.begin_mask >> i) & 1;
    const bool end_masked = (d.end_mask >> i) & 1;
    if (stride == 0)
      return InvalidArgument(
          "strides: expected non-zero strides, got 0 for "
          "dimension ",
          i);
    if (shrink && stride < 0)
      return InvalidArgument(
          "strides: expected 1 where a single index is taken, got ", stride);
    // The dimensions covered by the ellipsis are known without begin and end.
    const bool known = shrink ? begin != nullptr
                              : (begin_masked || begin != nullptr) &&
                                    (end_masked || end != nullptr);
    int64_t from = 0, size = -1;
    if (shrink) {
      size = 1;
      if (known && dim >= 0) {
        from = d.begin[at] < 0 ? d.begin[at] + dim : d.begin[at];
        if (from < 0 || from >= dim)
          return InvalidArgument("slice index ", d.begin[at], " of dimension ",
                                 i, " out of bounds: expected a value in [",
                                 -dim, ", ", dim, ")");
      }
    } else if (known && dim >= 0) {
      const int64_t low = stride > 0 ? 0 : -1;
      const int64_t high = stride > 0 ? dim : dim - 1;
      const auto clamp = [&](int64_t x) {
        return std::clamp(x < 0 ? x + dim : x, low, high);
      };
      from = begin_masked ? (stride > 0 ? low : high) : clamp(d.begin[at]);
      const int64_t to =
          end_masked ? (stride > 0 ? high : low) : clamp(d.end[at]);
      const int64_t length = to - from;
      size = length == 0 || (length < 0) != (stride < 0)
                 ? 0
                 : length / stride + (length % stride != 0);
    }
    spec.whole &= from == 0 && size == dim && (stride == 1 || dim <= 1);
    spec.begin.push_back(from);
    spec.stride.push_back(stride);
    spec.size.push_back(size);
  }
  spec.result = PartialShape::Scalar();
  for (int64_t from : d.result_from)
    spec.result.add_dim(
        from == kNewAxis ? 1 : spec.size[static_cast<size_t>(from)]);
  spec.result_from = std::move(d.result_from);
  return spec;
}

NodeSlice::NodeSlice(const Node& n, int bounds, const PartialShape& sliced)
    : masks_(n), bounds_(bounds) {
  const std::optional<Tensor> begin = ConstantValue(n.input(bounds)),
                              end = ConstantValue(n.input(bounds + 1)),
                              strides = ConstantValue(n.input(bounds + 2));
  if (!begin || !end || !strides || !sliced.fully_known()) return;
  Result<Shape> shape = sliced.ToShape();
  Result<SliceSpec> spec =
      MakeSliceSpec(sliced, &*begin, &*end, *strides, masks_);
  if (!shape.ok() || !spec.ok()) return;  // (Run tells.)
  known_shape_ = *std::move(shape);
  known_ = *std::move(spec);
}

Result<const SliceSpec*> NodeSlice::Of(const Shape& sliced,
                                       const KernelContext& ctx,
                                       SliceSpec* made) const {
  if (known_.has_value() && sliced == known_shape_) return &*known_;
  SLUICE_ASSIGN_OR_RETURN(
      *made, MakeSliceSpec(sliced, &ctx.input(bounds_), &ctx.input(bounds_ + 1),
                           ctx.input(bounds_ + 2), masks_));
  return made;
}

void ReadSlice(const Tensor& x, const SliceSpec& spec, Tensor* result) {
  if (result->num_elements() == 0) return;
  Dims from;
  const int64_t offset = Place(x.shape(), spec, &from);
  const Dims to = DenseStrides(SpanOf(spec.size));
  CopyStrided(x.dtype(), SpanOf(spec.size), At(x.dtype(), x.raw(), offset),
              SpanOf(from), result->raw(), SpanOf(to));
}

Status WriteSlice(const SliceSpec& spec, const Tensor& value, Tensor* x) {
  SLUICE_ASSIGN_OR_RETURN(const Dims from, StridesInSlice(spec, value.shape()));
  for (int64_t size : spec.size)
    if (size == 0) return OkStatus();
  Dims to;
  const int64_t offset = Place(x->shape(), spec, &to);
  CopyStrided(x->dtype(), SpanOf(spec.size), value.raw(), SpanOf(from),
              At(x->dtype(), x->raw(), offset), SpanOf(to));
  return OkStatus();
}

}  // namespace sluice::array
