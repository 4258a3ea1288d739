#include "tensor/shape.h"

#include <algorithm>

#include "absl/strings/str_join.h"

namespace sluice {

namespace {

// The number of elements of such a shape. InvalidArgument as in Shape::Make.
Result<int64_t> CountElements(std::span<const int64_t> dims) {
  if (dims.size() > kMaxRank)
    return InvalidArgument("shape: expected at most ", kMaxRank,
                           " dimensions, got ", dims.size());
  int64_t n = 1;
  bool empty = false;
  for (const int64_t d : dims) {
    if (d < 0)
      return InvalidArgument("shape: expected dimensions >= 0, got [",
                             absl::StrJoin(dims, ","), "]");
    if (d == 0) empty = true;
    // An empty tensor's other dimensions must not overflow either: products
    // of subsets of them are computed everywhere.
    n = MultiplyOrNegative(n, d == 0 ? 1 : d);
    if (n < 0)
      return InvalidArgument("shape: expected fewer than 2^63 elements, got [",
                             absl::StrJoin(dims, ","), "]");
  }
  return empty ? 0 : n;
}

}  // namespace

void Shape::SetDims(std::span<const int64_t> dims, int64_t num_elements) {
  rank_ = static_cast<uint8_t>(std::min(dims.size(), kMaxKept));
  num_elements_ = num_elements;
  int64_t* out = inline_;
  if (rank_ > kInline) out = heap_ = new int64_t[kMaxKept];
  std::copy_n(dims.begin(), rank_, out);
}

Result<Shape> Shape::Make(std::span<const int64_t> dims) {
  SLUICE_ASSIGN_OR_RETURN(const int64_t n, CountElements(dims));
  Shape s;
  s.SetDims(dims, n);
  return s;
}

Shape::Shape(std::span<const int64_t> dims) {
  SetDims(dims, CountElements(dims).value_or(0));
}

Status Shape::status() const {
  if (rank_ > kMaxRank)
    return InvalidArgument("shape: expected at most ", kMaxRank,
                           " dimensions, got more");
  return CountElements(dims()).status();
}

Shape::Shape(std::initializer_list<int64_t> dims)
    : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}

std::string Shape::ToString() const {
  return absl::StrCat("[", absl::StrJoin(dims(), ","), "]");
}

Result<PartialShape> PartialShape::Make(std::span<const int64_t> dims) {
  PartialShape s(dims);
  SLUICE_RETURN_IF_ERROR(s.status());
  return s;
}

PartialShape PartialShape::OfRank(int rank) {
  PartialShape s = Scalar();
  if (rank < 0)
    s.MarkInvalid();
  else
    s.dims_.assign(static_cast<size_t>(rank), -1);
  return s;
}

Status PartialShape::status() const {
  std::span<const int64_t> dims(dims_.data(), dims_.size());
  const bool marked = !dims.empty() && dims.back() == kInvalidDim;
  if (marked) dims = dims.first(dims.size() - 1);
  if (dims.size() > kMaxRank)
    return InvalidArgument("shape: expected at most ", kMaxRank,
                           " dimensions, got ", dims.size());
  if (marked)
    return InvalidArgument("shape: expected one that a tensor can have, got [",
                           absl::StrJoin(dims, ","), "]");
  for (const int64_t d : dims)
    if (d < -1)
      return InvalidArgument(
          "shape: expected dimensions >= 0, or -1 for an unknown one, got [",
          absl::StrJoin(dims, ","), "]");
  return OkStatus();
}

Result<Shape> PartialShape::ToShape() const {
  if (!fully_known())
    return InvalidArgument("shape: expected a fully known one, got ",
                           ToString());
  return Shape::Make({dims_.data(), dims_.size()});
}

bool PartialShape::fully_known() const {
  if (!known_) return false;
  for (int64_t d : dims_)
    if (d < 0) return false;
  return true;
}

int64_t PartialShape::num_elements() const {
  if (!fully_known()) return -1;
  int64_t n = 1;
  for (int64_t d : dims_) {
    n = MultiplyOrNegative(n, d);
    if (n < 0) return -1;
  }
  return n;
}

bool PartialShape::CompatibleWith(const PartialShape& o) const {
  if (!known_ || !o.known_) return true;
  if (dims_.size() != o.dims_.size()) return false;
  for (size_t i = 0; i < dims_.size(); ++i)
    if (dims_[i] >= 0 && o.dims_[i] >= 0 && dims_[i] != o.dims_[i])
      return false;
  return true;
}

Result<PartialShape> PartialShape::MergeWith(const PartialShape& o) const {
  if (!known_) return o;
  if (!o.known_) return *this;
  if (!CompatibleWith(o))
    return InvalidArgument("shapes ", ToString(), " and ", o.ToString(),
                           " are not compatible");
  PartialShape out = *this;
  for (size_t i = 0; i < dims_.size(); ++i)
    if (out.dims_[i] < 0) out.dims_[i] = o.dims_[i];
  return out;
}

PartialShape PartialShape::Union(const PartialShape& o) const {
  if (!known_ || !o.known_ || dims_.size() != o.dims_.size()) return Unknown();
  PartialShape out = *this;
  for (size_t i = 0; i < dims_.size(); ++i)
    if (out.dims_[i] != o.dims_[i]) out.dims_[i] = -1;
  return out;
}

std::string PartialShape::ToString() const {
  if (!known_) return "<unknown>";
  return absl::StrCat("[",
                      absl::StrJoin(dims_, ",",
                                    [](std::string* out, int64_t d) {
                                      if (d < 0)
                                        out->append("?");
                                      else
                                        absl::StrAppend(out, d);
                                    }),
                      "]");
}

}  // namespace sluice
