#include "tensor/shape.h"

#include <cstdlib>

#include "absl/strings/str_join.h"

namespace sluice {

Result<Shape> Shape::Make(std::span<const int64_t> dims) {
  if (dims.size() > kMaxRank)
    return InvalidArgument("shape: expected at most ", kMaxRank,
                           " dimensions, got ", dims.size());
  Shape s;
  s.rank_ = static_cast<uint8_t>(dims.size());
  int64_t* out = s.inline_;
  if (s.rank_ > kInline) out = s.heap_ = new int64_t[kMaxRank];
  int64_t n = 1;
  bool empty = false;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] < 0)
      return InvalidArgument("shape: expected dimensions >= 0, got [",
                             absl::StrJoin(dims, ","), "]");
    out[i] = dims[i];
    if (dims[i] == 0) empty = true;
    // An empty tensor's other dimensions must not overflow either: products
    // of subsets of them are computed everywhere.
    n = MultiplyOrNegative(n, dims[i] == 0 ? 1 : dims[i]);
    if (n < 0)
      return InvalidArgument("shape: expected fewer than 2^63 elements, got [",
                             absl::StrJoin(dims, ","), "]");
  }
  s.num_elements_ = empty ? 0 : n;
  return s;
}

Shape::Shape(std::span<const int64_t> dims) : num_elements_(1), rank_(0) {
  Result<Shape> s = Make(dims);
  if (!s.ok()) {
    fprintf(stderr, "Shape: %s\n", std::string(s.status().message()).c_str());
    std::abort();  // Our own bug: sizes from outside go through Make.
  }
  *this = *std::move(s);
}

Shape::Shape(std::initializer_list<int64_t> dims)
    : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}

std::string Shape::ToString() const {
  return absl::StrCat("[", absl::StrJoin(dims(), ","), "]");
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
