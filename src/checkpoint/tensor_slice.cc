#include "checkpoint/tensor_slice.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

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
    if (e.length == kFull && e.start == 0) {
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

}  // namespace sluice
