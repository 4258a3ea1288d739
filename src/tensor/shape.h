// Shapes: Shape is fully known (a tensor has one), PartialShape may have
// unknown dimensions or an unknown rank (an edge of a graph has one).
//
//   Shape image({28, 28, 1});
//   PartialShape batch({-1, 784});  // Any number of rows.
//   bool fits = batch.CompatibleWith(Shape({64, image.num_elements()}));
#ifndef SLUICE_TENSOR_SHAPE_H_
#define SLUICE_TENSOR_SHAPE_H_

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "base/status.h"

namespace sluice {

inline constexpr int kMaxRank = 8;

using Dims = absl::InlinedVector<int64_t, 4>;

// The dimensions of a tensor, rank 0 to 8. A value type, made to be cheap to
// move and to copy at low ranks: up to four dimensions live inline. Invariants
// of a valid shape (every tensor's shape is valid): each dimension >= 0; the
// number of elements fits in an int64.
class Shape {
 public:
  Shape() : num_elements_(1), rank_(0) {}
  // Dimensions that no tensor can have (see Make) give a shape that is not
  // valid(): it keeps them and has no elements, and every function that takes a
  // shape rejects it with an error.
  Shape(std::initializer_list<int64_t> dims);
  explicit Shape(std::span<const int64_t> dims);
  Shape(const Shape& o) : num_elements_(o.num_elements_), rank_(o.rank_) {
    CopyDims(o);
  }
  Shape(Shape&& o) noexcept : num_elements_(o.num_elements_), rank_(o.rank_) {
    StealDims(o);
  }
  Shape& operator=(const Shape& o) {
    if (this != &o) {
      if (rank_ > kInline) delete[] heap_;
      num_elements_ = o.num_elements_;
      rank_ = o.rank_;
      CopyDims(o);
    }
    return *this;
  }
  Shape& operator=(Shape&& o) noexcept {
    if (this != &o) {
      if (rank_ > kInline) delete[] heap_;
      num_elements_ = o.num_elements_;
      rank_ = o.rank_;
      StealDims(o);
    }
    return *this;
  }
  ~Shape() {
    if (rank_ > kInline) delete[] heap_;
  }

  void MakeScalar() {
    if (rank_ > kInline) delete[] heap_;
    num_elements_ = 1;
    rank_ = 0;
  }

  // InvalidArgument if a dimension is negative, the rank is above 8 or the
  // number of elements overflows an int64.
  static Result<Shape> Make(std::span<const int64_t> dims);

  bool valid() const { return num_elements_ != 0 || status().ok(); }
  // OK if valid(), else the error that Make returns for the dimensions.
  Status status() const;

  int rank() const { return rank_; }
  // -1 if there is no dimension i.
  int64_t dim(int i) const {
    const auto at = static_cast<size_t>(i);
    return at < rank_ ? dims()[at] : -1;
  }
  int64_t operator[](int i) const { return dim(i); }
  std::span<const int64_t> dims() const {
    return {rank_ > kInline ? heap_ : inline_, rank_};
  }
  int64_t num_elements() const { return num_elements_; }
  bool operator==(const Shape& o) const {
    return rank_ == o.rank_ && std::memcmp(dims().data(), o.dims().data(),
                                           rank_ * sizeof(int64_t)) == 0;
  }
  // "[2,3]"; "[]" for a scalar.
  std::string ToString() const;

 private:
  static constexpr size_t kInline = 4;
  // An invalid shape of too many dimensions keeps one more than the maximum.
  static constexpr size_t kMaxKept = kMaxRank + 1;
  // Scalars copy nothing; up to four dimensions are one copy of fixed size.
  void CopyDims(const Shape& o) {
    if (rank_ == 0) return;
    if (rank_ <= kInline) {
      std::memcpy(inline_, o.inline_, sizeof(inline_));
    } else {
      // (A constant size: this is inlined into the loops of regions, and a
      // computed size made them 15% slower.)
      heap_ = new int64_t[kMaxKept];
      std::memcpy(heap_, o.heap_, rank_ * sizeof(int64_t));
    }
  }
  void StealDims(Shape& o) {
    if (rank_ == 0) return;
    if (rank_ <= kInline) {
      std::memcpy(inline_, o.inline_, sizeof(inline_));
    } else {
      heap_ = o.heap_;
      o.rank_ = 0;
      o.num_elements_ = 1;
    }
  }

  // Stores the dimensions as they are, except those beyond kMaxKept.
  void SetDims(std::span<const int64_t> dims, int64_t num_elements);

  union {
    int64_t inline_[kInline];
    int64_t* heap_;
  };
  int64_t num_elements_;
  uint8_t rank_;
};

// What is known about a shape before a step runs. -1 is an unknown dimension. A
// PartialShape that no shape can fit (more than 8 dimensions, one below -1, an
// invalid Shape) is not valid(), and nodes that use it are rejected.
class PartialShape {
 public:
  // Unknown rank.
  PartialShape() = default;
  // InvalidArgument if it would not be valid().
  static Result<PartialShape> Make(std::span<const int64_t> dims);
  PartialShape(std::initializer_list<int64_t> dims)
      : known_(true), dims_(dims) {}
  explicit PartialShape(std::span<const int64_t> dims)
      : known_(true), dims_(dims.begin(), dims.end()) {}
  PartialShape(const Shape& s)  // NOLINT: a Shape is a PartialShape.
      : PartialShape(s.dims()) {
    if (!s.valid()) MarkInvalid();
  }
  static PartialShape Unknown() { return PartialShape(); }
  static PartialShape Scalar() {
    return PartialShape(std::span<const int64_t>());
  }
  static PartialShape OfRank(int rank);

  bool valid() const { return status().ok(); }
  // OK if valid(), else the reason why not.
  Status status() const;
  bool rank_known() const { return known_; }
  // -1 if unknown.
  int rank() const { return known_ ? static_cast<int>(dims_.size()) : -1; }
  // -1 if the dimension or the rank is unknown, or there is no dimension i.
  int64_t dim(int i) const {
    const auto at = static_cast<size_t>(i);
    return at < dims_.size() ? dims_[at] : -1;
  }
  // If there is no dimension i, the shape becomes invalid.
  void set_dim(int i, int64_t d) {
    const auto at = static_cast<size_t>(i);
    if (at < dims_.size())
      dims_[at] = d;
    else
      MarkInvalid();
  }
  void add_dim(int64_t d) {
    known_ = true;
    dims_.push_back(d);
  }
  const Dims& dims() const { return dims_; }
  bool fully_known() const;
  // InvalidArgument unless fully_known(), and if the element count overflows.
  Result<Shape> ToShape() const;
  // Number of elements, or -1 if not fully known.
  int64_t num_elements() const;
  // True if some shape fits both.
  bool CompatibleWith(const PartialShape& o) const;
  // What is known from either; InvalidArgument if they contradict each other.
  Result<PartialShape> MergeWith(const PartialShape& o) const;
  // What holds for a tensor that may have either shape (a Merge).
  PartialShape Union(const PartialShape& o) const;
  bool operator==(const PartialShape& o) const {
    return known_ == o.known_ && dims_ == o.dims_;
  }
  // "[?,784]"; "<unknown>".
  std::string ToString() const;

 private:
  static constexpr int64_t kInvalidDim = INT64_MIN;
  // Adds a dimension that no shape can have.
  void MarkInvalid() { add_dim(kInvalidDim); }

  bool known_ = false;
  Dims dims_;
};

// a * b, or -1 if it overflows. REQUIRES: a, b >= 0.
inline int64_t MultiplyOrNegative(int64_t a, int64_t b) {
  int64_t r;
  return __builtin_mul_overflow(a, b, &r) ? -1 : r;
}

}  // namespace sluice

#endif  // SLUICE_TENSOR_SHAPE_H_
