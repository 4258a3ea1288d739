// Parts of tensors: which elements of a partitioned variable a checkpoint or a
// device holds.
//
//   Result<ShapeAndSlice> part = ParseShapeAndSlice("10 20 0,4:-");
//   // part->shape is [10,20], part->slice rows 0 to 3 of it, and
//   // part->slice_shape [4,20].
#ifndef SLUICE_CHECKPOINT_TENSOR_SLICE_H_
#define SLUICE_CHECKPOINT_TENSOR_SLICE_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "tensor/shape.h"

namespace sluice {

// A range in each dimension. A value type.
class TensorSlice {
 public:
  static constexpr int64_t kFull = -1;
  struct Extent {
    int64_t start = 0;
    int64_t length = kFull;  // kFull: the whole dimension (start is 0).
    bool operator==(const Extent&) const = default;
  };

  // All of a tensor of that rank.
  // (A rank that no tensor has gives a slice that fits none.)
  explicit TensorSlice(int rank = 0)
      : extents_(static_cast<size_t>(std::clamp(rank, 0, kMaxRank + 1))) {}
  explicit TensorSlice(std::vector<Extent> extents)
      : extents_(std::move(extents)) {}
  // TensorFlow's text form: "0,4:-" is [0, 4) of the first dimension and all of
  // the second. InvalidArgument if it is malformed.
  static Result<TensorSlice> Parse(std::string_view text);
  std::string ToString() const;  // What Parse reads.

  int rank() const { return static_cast<int>(extents_.size()); }
  const std::vector<Extent>& extents() const { return extents_; }
  // The same slice with every extent that covers its dimension as kFull is
  // written that way. InvalidArgument if the slice does not fit the shape.
  Result<TensorSlice> Resolved(const Shape& shape) const;
  // The shape of the slice of a tensor. InvalidArgument if it does not fit.
  Result<Shape> ShapeOf(const Shape& shape) const;
  // True if it is all of a tensor of that shape.
  bool Covers(const Shape& shape) const;
  bool operator==(const TensorSlice&) const = default;

 private:
  std::vector<Extent> extents_;
};

struct ShapeAndSlice {
  Shape shape;
  TensorSlice slice;
  Shape slice_shape;
};
// TensorFlow's text for a part of a variable, as saving ops take it: the
// dimensions of the whole and the slice, separated by blanks.
Result<ShapeAndSlice> ParseShapeAndSlice(std::string_view text);

}  // namespace sluice

#endif  // SLUICE_CHECKPOINT_TENSOR_SLICE_H_
