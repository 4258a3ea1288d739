// TensorArray operations on many elements at once.
#include <algorithm>
#include <cstring>

#include "base/parallel.h"
#include "ops/common/elements.h"
#include "ops/tensor_array/tensor_array.h"

namespace sluice {
namespace {

using array::At;
using array::CopyRun;
using array::DimsOf;

constexpr int64_t kCopyGrain =
    32768;  // Copied elements that are worth a thread.
// Elements of at least this many bytes are joined one after the other.
constexpr size_t kJoinBytes = 1024;
bool AddExactly(int64_t a, int64_t b, int64_t* sum) {
  return !__builtin_add_overflow(a, b, sum);
}

// The shape without its first dimension.
Shape RowShape(const Shape& shape) { return Shape(shape.dims().subspan(1)); }

// Copies the elements of parts[i] to `out`, from element starts[i] on.
void JoinParts(DType type, std::span<const Tensor> parts,
               std::span<const int64_t> starts, void* out, int64_t total) {
  const auto n = static_cast<int64_t>(parts.size());
  const int64_t mean = std::max<int64_t>(1, total / std::max<int64_t>(1, n));
  ParallelFor(n, std::max<int64_t>(1, kCopyGrain / mean),
              [&](int64_t begin, int64_t end) {
                for (int64_t i = begin; i < end; ++i) {
                  const Tensor& part = parts[static_cast<size_t>(i)];
                  CopyRun(type, part.raw(),
                          At(type, out, starts[static_cast<size_t>(i)]),
                          part.num_elements());
                }
              });
}

// True for 0, 1, 2, ...
bool AreFirst(std::span<const int32_t> indices) {
  for (size_t i = 0; i < indices.size(); ++i)
    if (indices[i] != static_cast<int32_t>(i)) return false;
  return true;
}

}  // namespace

Status TensorArrayState::Gather(std::span<const int32_t> indices,
                                const PartialShape& element_shape,
                                Allocator* allocator, Tensor* out) {
  const int64_t n[] = {static_cast<int64_t>(indices.size())};
  std::vector<Tensor> parts;
  bool keep;
  {
    std::lock_guard<std::mutex> lock(mu_);
    SLUICE_RETURN_IF_ERROR(CheckOpen());
    SLUICE_RETURN_IF_ERROR(Narrow(element_shape));
    if (n[0] == 0) {
      if (!exact_)
        return Unimplemented("TensorArray '", name(),
                             "': stacking no elements: expected a fully known "
                             "element shape, got ",
                             element_shape_.ToString());
      SLUICE_ASSIGN_OR_RETURN(const Shape shape, PrependDims(n, exact_shape_));
      SLUICE_ASSIGN_OR_RETURN(*out, Tensor::Make(dtype(), shape, allocator));
      return OkStatus();
    }
    keep = is_gradient_ && AreFirst(indices);
    if (keep && stacked_.valid() && stacked_.dim(0) >= n[0]) {
      *out = stacked_.Rows(0, n[0]);
      return OkStatus();
    }
    SLUICE_RETURN_IF_ERROR(StackTaken(indices, allocator, &parts, out));
    if (parts.empty()) {
      if (keep) stacked_ = *out;
      return OkStatus();
    }
    // (Until they are joined, for other readers.)
    if (keep) std::copy(parts.begin(), parts.end(), values_.begin());
  }
  std::vector<int64_t> starts(parts.size());
  for (size_t i = 0; i < starts.size(); ++i)
    starts[i] = static_cast<int64_t>(i) * parts[0].num_elements();
  JoinParts(dtype(), parts, starts, out->raw(), out->num_elements());
  if (keep) {
    std::lock_guard<std::mutex> lock(mu_);
    if (closed_) return OkStatus();
    stacked_ = *out;
    std::fill_n(values_.begin(), parts.size(), Tensor());
  }
  return OkStatus();
}

// Takes elements, and stacks them if that is cheap; otherwise returns them in
// `parts`, with their destination in `out`.
Status TensorArrayState::StackTaken(std::span<const int32_t> indices,
                                    Allocator* allocator,
                                    std::vector<Tensor>* parts, Tensor* out) {
  const int64_t n[] = {static_cast<int64_t>(indices.size())};
  if (layout_ == Layout::kPacked) {
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, PrependDims(n, common_shape_));
    SLUICE_ASSIGN_OR_RETURN(*out, Tensor::Make(dtype(), shape, allocator));
    return CopyTaken(indices, static_cast<char*>(out->raw()));
  }
  Tensor first;
  SLUICE_RETURN_IF_ERROR(Take(indices[0], &first));
  const Shape element = first.shape();
  SLUICE_ASSIGN_OR_RETURN(const Shape shape, PrependDims(n, element));
  if (n[0] == 1) {
    SLUICE_ASSIGN_OR_RETURN(*out, first.Reshaped(shape));
    return OkStatus();
  }
  const bool whole = row_group_ != nullptr && row_group_->BeginsWith(first);
  const bool small = IsPlain(dtype()) ? first.bytes() <= kJoinBytes
                                      : first.num_elements() <= 1;
  if (!whole && small) {
    SLUICE_ASSIGN_OR_RETURN(*out, Tensor::Make(dtype(), shape, allocator));
    return JoinTaken(indices, element, first, out);
  }
  parts->reserve(indices.size());
  parts->push_back(std::move(first));
  for (size_t i = 1; i < indices.size(); ++i) {
    Tensor& part = parts->emplace_back();
    SLUICE_RETURN_IF_ERROR(Take(indices[i], &part));
    if (!(part.shape() == element))
      return Error("stacking: expected elements of one shape, got ",
                   element.ToString(), " at index ", indices[0], " and ",
                   part.shape().ToString(), " at index ", indices[i]);
  }
  if (whole) {
    Tensor joined = row_group_->Joined(*parts);
    if (joined.valid()) {
      parts->clear();
      SLUICE_ASSIGN_OR_RETURN(*out, joined.Reshaped(shape));
      return OkStatus();
    }
  }
  SLUICE_ASSIGN_OR_RETURN(*out, Tensor::Make(dtype(), shape, allocator));
  return OkStatus();
}

// Takes packed elements and copies them consecutively to `to`.
Status TensorArrayState::CopyTaken(std::span<const int32_t> indices, char* to) {
  const Shape element = common_shape_;
  const size_t bytes = packed_.bytes();
  for (const int32_t index : indices) {
    const auto i = static_cast<size_t>(index);
    if (i < length() && layout_ == Layout::kPacked &&
        (states_[i] & (kWritten | kCleared | kShapeOnly)) == kWritten)
        [[likely]] {
      const char* const from = PackedAt(i);
      if (bytes == 4) {
        std::memcpy(to, from, 4);
      } else {
        std::memcpy(to, from, bytes);
      }
      MarkRead(i);
    } else {
      Tensor part;
      SLUICE_RETURN_IF_ERROR(Take(index, &part));
      if (!(part.shape() == element))
        return Error("stacking: expected elements of one shape, got ",
                     element.ToString(), " at index ", indices[0], " and ",
                     part.shape().ToString(), " at index ", index);
      std::memcpy(to, std::as_const(part).raw(), bytes);
    }
    to += bytes;
  }
  return OkStatus();
}

// Small elements are copied directly to their places.
Status TensorArrayState::JoinTaken(std::span<const int32_t> indices,
                                   const Shape& element, const Tensor& first,
                                   Tensor* out) {
  const DType t = dtype();
  const int64_t block = element.num_elements();
  const size_t bytes = IsPlain(t) ? first.bytes() : 0;
  char* to = static_cast<char*>(out->raw());
  const auto copy = [&](const Tensor& from, int64_t i) {
    if (bytes == 4) {
      std::memcpy(to + i * 4, from.raw(), 4);
    } else if (bytes == 8) {
      std::memcpy(to + i * 8, from.raw(), 8);
    } else if (block > 0) {
      CopyRun(t, from.raw(), At(t, to, i * block), block);
    }
  };
  copy(first, 0);
  Tensor part;
  for (size_t i = 1; i < indices.size(); ++i) {
    SLUICE_RETURN_IF_ERROR(Take(indices[i], &part));
    if (!(part.shape() == element))
      return Error("stacking: expected elements of one shape, got ",
                   element.ToString(), " at index ", indices[0], " and ",
                   part.shape().ToString(), " at index ", indices[i]);
    copy(part, static_cast<int64_t>(i));
  }
  return OkStatus();
}

// Stores rows for all elements of an array that has not been written to.
bool TensorArrayState::ScatterAll(std::span<const int32_t> indices,
                                  Tensor* value, const Shape& element) {
  if (!IsPlain(dtype()) || indices.size() != length() ||
      value->num_elements() == 0 || !shapes_.empty() ||
      (has_common_shape_ && !(common_shape_ == element)))
    return false;
  for (size_t i = 0; i < length(); ++i)
    if (indices[i] != static_cast<int32_t>(i) ||
        (states_[i] != 0 && states_[i] != (kWritten | kShapeOnly)))
      return false;
  if (layout_ == Layout::kNone && !Lay(element).ok()) return false;
  has_common_shape_ = true;
  common_shape_ = element;
  std::fill(states_.begin(), states_.end(),
            static_cast<uint8_t>(layout_ == Layout::kPacked ? kWritten | kInRows
                                                            : kWritten));
  rows_ = std::move(*value);
  rows_left_ = length();
  row_group_.reset();
  return true;
}

Status TensorArrayState::Scatter(std::span<const int32_t> indices,
                                 Tensor value) {
  const auto n = static_cast<int64_t>(indices.size());
  if (value.rank() < 1)
    return Error("scatter: expected a value of rank at least 1, got shape ",
                 value.shape().ToString());
  if (value.dim(0) != n)
    return Error("scatter: expected one index per row, got ", n,
                 " indices and ", value.dim(0), " rows");
  if (value.dtype() != dtype()) return WrongType(value.dtype());
  const Shape element = RowShape(value.shape());
  const DType t = dtype();
  const auto bytes = static_cast<size_t>(element.num_elements()) * DTypeSize(t);
  const char* from = static_cast<const char*>(std::as_const(value).raw());
  std::lock_guard<std::mutex> lock(mu_);
  SLUICE_RETURN_IF_ERROR(CheckOpen());
  SLUICE_RETURN_IF_ERROR(Narrow(element));
  int64_t most = -1;
  for (const int32_t i : indices) most = std::max<int64_t>(most, i);
  if (most >= static_cast<int64_t>(length())) {
    if (!dynamic_size_)
      return Error("scatter to index ", most, ": expected one in [0, ",
                   length(), "), since the array does not grow");
    SLUICE_RETURN_IF_ERROR(GrowTo(most + 1));
  }
  if (n > 0 && FitElementShape(0, element).ok() &&
      ScatterAll(indices, &value, element))
    return OkStatus();
  for (int64_t i = 0; i < n; ++i) {
    Tensor row;
    if (IsPlain(t) && bytes > 0 && bytes <= 8) {
      row = Tensor(t, element);
      std::memcpy(row.raw(), from + static_cast<size_t>(i) * bytes, bytes);
    } else {
      SLUICE_ASSIGN_OR_RETURN(row, value.Rows(i, i + 1).Reshaped(element));
    }
    SLUICE_RETURN_IF_ERROR(
        Put(indices[static_cast<size_t>(i)], std::move(row)));
  }
  return OkStatus();
}

Status TensorArrayState::Concat(const PartialShape& element_shape_except0,
                                Allocator* allocator, Tensor* out,
                                Tensor* lengths) {
  std::vector<Tensor> parts;
  Dims tail;
  {
    std::lock_guard<std::mutex> lock(mu_);
    SLUICE_RETURN_IF_ERROR(CheckOpen());
    if (length() == 0) {
      PartialShape rest = element_shape_except0;
      if (!rest.fully_known() && element_shape_.rank() >= 1) {
        SLUICE_ASSIGN_OR_RETURN(
            rest, rest.MergeWith(array::SubShape(element_shape_, 1,
                                                 element_shape_.rank())));
      }
      if (!rest.fully_known())
        return Unimplemented("TensorArray '", name(),
                             "': joining no elements: expected a fully known "
                             "element_shape_except0, got ",
                             element_shape_except0.ToString());
      tail = rest.dims();
    }
    parts.resize(length());
    for (size_t i = 0; i < parts.size(); ++i)
      SLUICE_RETURN_IF_ERROR(Take(static_cast<int64_t>(i), &parts[i]));
  }
  SLUICE_ASSIGN_OR_RETURN(
      *lengths,
      Tensor::Make(DType::kInt64, Shape({static_cast<int64_t>(parts.size())}),
                   allocator));
  int64_t rows = 0, elements = 0;
  std::vector<int64_t> starts(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    const Shape& s = parts[i].shape();
    if (s.rank() < 1)
      return Error(
          "joining: expected elements of rank at least 1, got a "
          "scalar at index ",
          i, "; hint: stack scalars");
    const Shape rest = RowShape(s);
    if (i == 0) tail = DimsOf(rest);
    if (!element_shape_except0.CompatibleWith(rest))
      return Error("joining: expected elements of shape ",
                   element_shape_except0.ToString(),
                   " but for the first dimension, got ", s.ToString(),
                   " at index ", i);
    if (!std::equal(tail.begin(), tail.end(), rest.dims().begin(),
                    rest.dims().end()))
      return Error(
          "joining: expected equal shapes except in the first dimension, "
          "got ",
          parts[0].shape().ToString(), " at index 0 and ", s.ToString(),
          " at index ", i);
    starts[i] = elements;
    lengths->raw<int64_t>()[i] = s.dim(0);
    if (!AddExactly(rows, s.dim(0), &rows) ||
        !AddExactly(elements, s.num_elements(), &elements))
      return Error("joining: expected a size that fits in 63 bits");
  }
  tail.insert(tail.begin(), rows);
  SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(tail));
  if (parts.size() == 1) {
    *out = std::move(parts[0]);
    return OkStatus();
  }
  SLUICE_ASSIGN_OR_RETURN(*out, Tensor::Make(dtype(), shape, allocator));
  if (elements > 0) JoinParts(dtype(), parts, starts, out->raw(), elements);
  return OkStatus();
}

Status TensorArrayState::Split(const Tensor& value,
                               std::span<const int64_t> lengths) {
  if (value.rank() < 1)
    return Error("split: expected a value of rank at least 1, got shape ",
                 value.shape().ToString());
  if (value.dtype() != dtype()) return WrongType(value.dtype());
  int64_t total = 0;
  for (const int64_t l : lengths)
    if (l < 0 || !AddExactly(total, l, &total))
      return Error("split: expected lengths >= 0, got ", l);
  if (total != value.dim(0))
    return Error("split: expected lengths whose sum is the number of rows, ",
                 value.dim(0), ", got ", total);
  const auto n = static_cast<int64_t>(lengths.size());
  std::lock_guard<std::mutex> lock(mu_);
  SLUICE_RETURN_IF_ERROR(CheckOpen());
  const auto size = static_cast<int64_t>(length());
  if (n > size && dynamic_size_) {
    SLUICE_RETURN_IF_ERROR(GrowTo(n));
  } else if (n != size) {
    return Error("split: expected one length per element, got ", n,
                 " lengths for an array of ", size);
  }
  int64_t row = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t end = row + lengths[static_cast<size_t>(i)];
    SLUICE_RETURN_IF_ERROR(Put(i, value.Rows(row, end)));
    row = end;
  }
  return OkStatus();
}

}  // namespace sluice
