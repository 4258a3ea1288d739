#include "checkpoint/tensor_slice.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "checkpoint/ordered_code.h"
#include "checkpoint/proto/checkpoint.pb.h"

namespace sluice {

Result<TensorSlice> TensorSlice::Parse(std::string_view given) {
  const absl::string_view text(given.data(), given.size());
  std::vector<Extent> extents;
  if (text.empty()) return TensorSlice(std::move(extents));
  for (const absl::string_view part : absl::StrSplit(text, ':')) {
    Extent e;
    if (part != "-") {
      const std::vector<absl::string_view> numbers = absl::StrSplit(part, ',');
      if (numbers.size() != 2 || !absl::SimpleAtoi(numbers[0], &e.start) ||
          !absl::SimpleAtoi(numbers[1], &e.length))
        return InvalidArgument(
            "slice: Expected a pair of numbers or '-' but "
            "got '",
            part, "': string = ", text);
      if (e.start < 0 || e.length <= 0)
        return InvalidArgument(
            "slice: Expected non-negative start and positive length but got "
            "start = ",
            e.start, ", length = ", e.length, ": string = ", text);
    }
    extents.push_back(e);
  }
  return TensorSlice(std::move(extents));
}

Result<TensorSlice> TensorSlice::FromProto(const proto::TensorSliceProto& p) {
  std::vector<Extent> extents;
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

void TensorSlice::ToProto(proto::TensorSliceProto* p) const {
  for (const Extent& e : extents_) {
    auto* const to = p->add_extent();
    if (e.length == kFull) continue;
    to->set_start(e.start);
    to->set_length(e.length);
  }
}

std::string TensorSlice::ToString() const {
  std::string out;
  for (const Extent& e : extents_) {
    if (&e != extents_.data()) out += ':';
    out += e.length == kFull ? "-" : absl::StrCat(e.start, ",", e.length);
  }
  return out;
}

Result<Shape> TensorSlice::ShapeOf(const Shape& shape) const {
  if (shape.rank() != rank())
    return InvalidArgument("slice '", ToString(), "': expected rank ",
                           shape.rank(), " as of shape ", shape.ToString(),
                           ", got ", rank());
  Dims dims;
  for (int d = 0; d < rank(); ++d) {
    const Extent& e = extents_[static_cast<size_t>(d)];
    if (e.length == kFull) {
      dims.push_back(shape.dim(d));
      continue;
    }
    if (e.start < 0 || e.length < 0 || e.start > shape.dim(d) ||
        e.length > shape.dim(d) - e.start)
      return InvalidArgument("slice '", ToString(),
                             "': expected extents within shape ",
                             shape.ToString(), ", got ", e.start, ",", e.length,
                             " in dimension ", d);
    dims.push_back(e.length);
  }
  return Shape::Make(dims);
}

Result<TensorSlice> TensorSlice::Resolved(const Shape& shape) const {
  SLUICE_RETURN_IF_ERROR(ShapeOf(shape).status());
  TensorSlice out = *this;
  for (int d = 0; d < rank(); ++d)
    if (extents_[static_cast<size_t>(d)].length == shape.dim(d))
      out.extents_[static_cast<size_t>(d)] = {};
  return out;
}

bool TensorSlice::Covers(const Shape& shape) const {
  const auto resolved = Resolved(shape);
  return resolved.ok() &&
         std::all_of(resolved->extents_.begin(), resolved->extents_.end(),
                     [](const Extent& e) { return e.length == kFull; });
}

Result<ShapeAndSlice> ParseShapeAndSlice(std::string_view given) {
  const absl::string_view text(given.data(), given.size());
  std::vector<absl::string_view> parts = absl::StrSplit(text, ' ');
  if (parts.size() < 2)
    return InvalidArgument(
        "Need least two elements in shape_and_slice specification: ", text);
  ShapeAndSlice out;
  SLUICE_ASSIGN_OR_RETURN(out.slice,
                          TensorSlice::Parse(std::string(parts.back())));
  parts.pop_back();
  Dims dims;
  for (const absl::string_view part : parts) {
    int64_t dim = 0;
    if (!absl::SimpleAtoi(part, &dim))
      return InvalidArgument("Non numerical dimension in shape_and_slice: ",
                             text);
    if (dim < 0)
      return InvalidArgument(
          "Dimension must be non negative in shape_and_slice: ", text);
    dims.push_back(dim);
  }
  SLUICE_ASSIGN_OR_RETURN(out.shape, Shape::Make(dims));
  SLUICE_ASSIGN_OR_RETURN(out.slice_shape, out.slice.ShapeOf(out.shape));
  return out;
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
