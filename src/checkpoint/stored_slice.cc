#include "checkpoint/stored_slice.h"

#include <algorithm>

#include "checkpoint/ordered_code.h"
#include "checkpoint/proto/checkpoint.pb.h"

namespace sluice {

Result<TensorSlice> SliceFromProto(const proto::TensorSliceProto& p) {
  std::vector<TensorSlice::Extent> extents;
  for (const auto& e : p.extent()) {
    if (e.has_length_case() == proto::TensorSliceProto::Extent::kLength) {
      if (e.start() < 0 || e.length() < 0)
        return InvalidArgument("slice: expected no negative extent, got ",
                               e.start(), ",", e.length());
      extents.push_back({e.start(), e.length()});
    } else if (e.start() != 0) {
      return InvalidArgument(
          "slice: expected a whole dimension to start at 0, "
          "got ",
          e.start());
    } else {
      extents.push_back({});
    }
  }
  return TensorSlice(std::move(extents));
}

void SliceToProto(const TensorSlice& slice, proto::TensorSliceProto* p) {
  for (const TensorSlice::Extent& e : slice.extents()) {
    auto* const to = p->add_extent();
    if (e.length == TensorSlice::kFull) continue;
    to->set_start(e.start);
    to->set_length(e.length);
  }
}

namespace {

// What two slices share in one dimension.
struct SharedExtent {
  int64_t begin = 0, length = 0;  // In the tensor.
};
SharedExtent Shared(int64_t dim, const TensorSlice::Extent& a,
                    const TensorSlice::Extent& b) {
  const auto end = [&](const TensorSlice::Extent& e) {
    return e.length == TensorSlice::kFull ? dim : e.start + e.length;
  };
  const int64_t begin = std::max(a.start, b.start);
  return {begin, std::max<int64_t>(std::min(end(a), end(b)) - begin, 0)};
}

int64_t LengthOf(int64_t dim, const TensorSlice::Extent& e) {
  return e.length == TensorSlice::kFull ? dim : e.length;
}

}  // namespace

int64_t SharedElements(const Shape& shape, const TensorSlice& from,
                       const TensorSlice& to) {
  int64_t elements = 1;
  for (size_t d = 0; d < from.extents().size(); ++d)
    elements *= Shared(shape.dim(static_cast<int>(d)), from.extents()[d],
                       to.extents()[d])
                    .length;
  return elements;
}

void ForEachSharedRun(const Shape& shape, const TensorSlice& from,
                      const TensorSlice& to,
                      absl::FunctionRef<bool(const SliceRun&)> fn) {
  if (SharedElements(shape, from, to) == 0) return;
  const int rank = shape.rank();
  int64_t from_strides[kMaxRank], to_strides[kMaxRank], lengths[kMaxRank];
  SliceRun run{0, 0, 1};
  int64_t from_stride = 1, to_stride = 1;
  for (int d = rank - 1; d >= 0; --d) {
    const auto at = static_cast<size_t>(d);
    const auto& f = from.extents()[at];
    const auto& t = to.extents()[at];
    const SharedExtent both = Shared(shape.dim(d), f, t);
    from_strides[d] = from_stride;
    to_strides[d] = to_stride;
    lengths[d] = both.length;
    run.from += (both.begin - f.start) * from_stride;
    run.to += (both.begin - t.start) * to_stride;
    from_stride *= LengthOf(shape.dim(d), f);
    to_stride *= LengthOf(shape.dim(d), t);
  }
  // The innermost dimensions in which elements follow each other in both.
  int outer = rank;
  while (outer > 0 && from_strides[outer - 1] == run.count &&
         to_strides[outer - 1] == run.count) {
    --outer;
    run.count *= lengths[outer];
  }
  int64_t position[kMaxRank] = {};
  for (;;) {
    if (!fn(run)) return;
    int d = outer - 1;
    for (; d >= 0; --d) {
      run.from += from_strides[d];
      run.to += to_strides[d];
      if (++position[d] < lengths[d]) break;
      run.from -= lengths[d] * from_strides[d];
      run.to -= lengths[d] * to_strides[d];
      position[d] = 0;
    }
    if (d < 0) return;
  }
}

std::string SliceKey(const std::string& name, const TensorSlice& slice) {
  std::string key;
  AppendOrderedUnsigned(0, &key);  // Before the names of all tensors.
  AppendOrderedString(name, &key);
  AppendOrderedUnsigned(static_cast<uint64_t>(slice.rank()), &key);
  for (const TensorSlice::Extent& e : slice.extents()) {
    AppendOrderedSigned(e.start, &key);
    AppendOrderedSigned(e.length, &key);
  }
  return key;
}

}  // namespace sluice
