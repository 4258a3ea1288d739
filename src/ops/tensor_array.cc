#include "ops/tensor_array.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/parallel.h"
#include "ops/array_util.h"
#include "ops/math_elementwise.h"
#include "ops/tensor_list.h"

namespace sluice {
namespace {

using array::At;
using array::CopyRun;
using array::DimsOf;

constexpr int64_t kCopyGrain =
    32768;                         // Elements copied that are worth a thread.
constexpr size_t kSmallRow = 256;  // Bytes that are sooner copied than shared.
// Elements of so many bytes are joined one after the other.
constexpr size_t kJoinBytes = 1024;
// Of arrays no longer than this nobody asks whether there is memory for them.
constexpr int64_t kSmallSize = int64_t{1} << 22;

bool AddExactly(int64_t a, int64_t b, int64_t* sum) {
  return !__builtin_add_overflow(a, b, sum);
}

// shape without its first dimension.
Shape RowShape(const Shape& shape) { return Shape(shape.dims().subspan(1)); }

Result<Shape> Prepend(std::span<const int64_t> first, const Shape& rest) {
  Dims dims(first.begin(), first.end());
  dims.insert(dims.end(), rest.dims().begin(), rest.dims().end());
  return array::MakeShape(dims);
}

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

TensorArrayState::TensorArrayState(
    std::shared_ptr<const TensorArrayDecl> options, int64_t size,
    bool is_gradient)
    : options_(std::move(options)),
      is_gradient_(is_gradient),
      dynamic_size_(options_->dynamic_size),
      clear_after_read_(options_->clear_after_read),
      element_shape_(options_->element_shape) {
  if (element_shape_.fully_known()) {
    Result<Shape> exact = element_shape_.ToShape();
    exact_ = exact.ok();
    if (exact_) exact_shape_ = *std::move(exact);
  }
  packed_ = exact_ && exact_shape_.rank() == 0 && IsPlain(dtype()) &&
            DTypeSize(dtype()) <= sizeof(uint64_t);
  Resize(static_cast<size_t>(size));
}

Status TensorArrayState::CheckSize(int64_t size) {
  if (size < 0 || size > INT32_MAX)
    return InvalidArgument("size: expected a number in [0, 2^31), got ", size);
  // Vectors end the process where there is no memory: ask before.
  if (size <= kSmallSize) return OkStatus();
  const std::unique_ptr<char, decltype(&std::free)> room(
      static_cast<char*>(
          std::malloc(static_cast<size_t>(size) * 2 * sizeof(Tensor))),
      &std::free);
  if (room == nullptr)
    return ResourceExhausted(
        "size: expected as many elements as fit in memory, got ", size);
  return OkStatus();
}

// ---- Errors -----------------------------------------------------------------

template <typename... Args>
Status TensorArrayState::Error(const Args&... args) const {
  return InvalidArgument("TensorArray '", name(), "': ", args...);
}

Status TensorArrayState::WrongType(DType t) const {
  return Error("expected elements of type ", DTypeName(dtype()), ", got ",
               DTypeName(t));
}

Status TensorArrayState::Closed() const {
  return InvalidArgument("TensorArray '", name(),
                         "': expected an open array, got one that was "
                         "closed");
}

// ---- Shapes -----------------------------------------------------------------

void TensorArrayState::Resize(size_t size) {
  if (packed_) {
    words_.resize(size);
  } else {
    values_.resize(size);
  }
  states_.resize(size);
  if (!shapes_.empty()) shapes_.resize(size);
}

void TensorArrayState::SetShape(size_t i, const Shape& shape) {
  if (!has_common_shape_) {
    has_common_shape_ = true;
    common_shape_ = shape;
  } else if (!shapes_.empty()) {
    shapes_[i] = shape;
  } else if (!(shape == common_shape_)) [[unlikely]] {
    shapes_.assign(length(), common_shape_);
    shapes_[i] = shape;
  }
}

Status TensorArrayState::FitElementShape(int64_t index, const Shape& shape) {
  if (exact_ ? shape == exact_shape_
             : !element_shape_.rank_known() ||
                   element_shape_.CompatibleWith(shape)) {
    if (options_->identical_element_shapes && !exact_) {
      element_shape_ = shape;
      exact_shape_ = shape;
      exact_ = true;
    }
    return OkStatus();
  }
  return Error("index ", index, ": expected an element of shape ",
               element_shape_.ToString(), ", got ", shape.ToString(),
               options_->identical_element_shapes
                   ? "; hint: infer_shape = false allows several shapes"
                   : "");
}

Status TensorArrayState::Narrow(const PartialShape& shape) {
  if (!shape.rank_known() || exact_) {
    if (exact_ && !shape.CompatibleWith(exact_shape_))
      return Error("expected elements of shape ", shape.ToString(),
                   ", got an array of ", element_shape_.ToString());
    return OkStatus();
  }
  Result<PartialShape> merged = element_shape_.MergeWith(shape);
  if (!merged.ok())
    return Error("expected elements of shape ", shape.ToString(),
                 ", got an array of ", element_shape_.ToString());
  element_shape_ = *std::move(merged);
  if (element_shape_.fully_known()) {
    SLUICE_ASSIGN_OR_RETURN(exact_shape_, element_shape_.ToShape());
    exact_ = true;
  }
  return OkStatus();
}

// ---- Single elements --------------------------------------------------------

Status TensorArrayState::GrowTo(int64_t size) {
  SLUICE_RETURN_IF_ERROR(CheckSize(size));
  Resize(static_cast<size_t>(size));
  return OkStatus();
}

Status TensorArrayState::Put(int64_t index, Tensor&& value) {
  const auto size = static_cast<int64_t>(length());
  if (index < 0 || index >= size) [[unlikely]] {
    if (index < 0 || !dynamic_size_)
      return Error("write to index ", index, ": expected one in [0, ", size,
                   "), since the array does not grow");
    SLUICE_RETURN_IF_ERROR(GrowTo(index + 1));
  }
  if (value.dtype() != dtype()) [[unlikely]]
    return WrongType(value.dtype());
  SLUICE_RETURN_IF_ERROR(FitElementShape(index, value.shape()));
  if (packed_ && value.rank() != 0) [[unlikely]]
    Unpack();
  const auto i = static_cast<size_t>(index);
  const uint8_t state = states_[i];
  if (state == 0) [[likely]] {
    SetShape(i, value.shape());
    SetElement(i, std::move(value));
    states_[i] = kWritten;
    return OkStatus();
  }
  if (state & kRead)
    return Error("write to index ", index,
                 ": expected an element that was not read yet, got one that "
                 "was");
  if (!is_gradient_)
    return Error("write to index ", index,
                 ": expected an element that was not written yet, got one that "
                 "was; an element is written once");
  return Sum(i, std::move(value));
}

Status TensorArrayState::Sum(size_t i, Tensor&& value) {
  if (!(value.shape() == ShapeOf(i)))
    return Error("gradient of index ", i, ": expected shape ",
                 ShapeOf(i).ToString(), ", got ", value.shape().ToString());
  if (states_[i] & kShapeOnly) {
    SetElement(i, std::move(value));
    states_[i] = kWritten;
    return OkStatus();
  }
  summed_ = true;
  TakeRow(i);
  const DType t = dtype();
  if (t == DType::kVariant) return AddToTensor(value, &values_[i]);
  if (!add_) add_ = simd::GetBinary(simd::BinaryOp::kAdd, CarrierType(t));
  if (!add_)
    return Error("index ", i, ": expected a type that has sums, got ",
                 DTypeName(t));
  if (packed_) {
    add_(&words_[i], std::as_const(value).raw(), &words_[i], 1);
    return OkStatus();
  }
  Tensor& have = values_[i];
  const int64_t n = have.num_elements();
  if (n == 0) return OkStatus();
  if (have.unique()) {
    add_(have.raw(), value.raw(), have.raw(), n);
  } else if (value.unique()) {
    add_(have.raw(), value.raw(), value.raw(), n);
    have = std::move(value);
  } else {
    SLUICE_ASSIGN_OR_RETURN(Tensor sum, Tensor::Make(t, have.shape()));
    add_(std::as_const(have).raw(), value.raw(), sum.raw(), n);
    have = std::move(sum);
  }
  return OkStatus();
}

Status TensorArrayState::MakeZeros(size_t i) {
  if (!(states_[i] & kShapeOnly) && !exact_)
    return Error("read of index ", i,
                 ": expected an element that was written, got one that was not "
                 "(an array whose element_shape is known gives zeros, this "
                 "one's is ",
                 element_shape_.ToString(), ")");
  const Shape& shape = states_[i] & kShapeOnly ? ShapeOf(i) : exact_shape_;
  SLUICE_ASSIGN_OR_RETURN(Tensor zeros, Tensor::Zeros(dtype(), shape));
  SetShape(i, shape);
  SetElement(i, std::move(zeros));
  states_[i] = kWritten;
  return OkStatus();
}

Status TensorArrayState::Take(int64_t index, Tensor* value) {
  if (index < 0 || index >= static_cast<int64_t>(length())) [[unlikely]]
    return Error("read of index ", index, ": expected one in [0, ", length(),
                 ")");
  const auto i = static_cast<size_t>(index);
  if (states_[i] & kCleared) [[unlikely]] {
    if (values_.size() > i && values_[i].valid()) {
      *value = values_[i];
      return OkStatus();
    }
    if (stacked_.valid() && index < stacked_.dim(0)) {
      SLUICE_ASSIGN_OR_RETURN(
          *value, stacked_.Rows(index, index + 1).Reshaped(ShapeOf(i)));
      return OkStatus();
    }
    return Error("read of index ", index,
                 ": expected an element that was not cleared, got one that a "
                 "read cleared; hint: clear_after_read = false");
  }
  if ((states_[i] & (kWritten | kShapeOnly)) != kWritten) [[unlikely]]
    SLUICE_RETURN_IF_ERROR(MakeZeros(i));
  TakeRow(i);
  if (!packed_) FetchNext(i);
  if (clear_after_read_) {
    *value = packed_ ? Element(i) : std::move(values_[i]);
    states_[i] |= kRead | kCleared;
  } else {
    *value = Element(i);
    states_[i] |= kRead;
  }
  return OkStatus();
}

// Loops read one element after the other, upwards or downwards; of a long one
// none is in a cache. The next one's buffer (the block's header is in front of
// the data) comes while this one is computed with.
inline void TensorArrayState::FetchNext(size_t i) {
  const size_t next = 2 * i - last_read_;
  last_read_ = i;
  if (next >= values_.size() || !values_[next].has_buffer()) return;
  const char* const data =
      static_cast<const char*>(std::as_const(values_[next]).raw());
  __builtin_prefetch(data);
  __builtin_prefetch(data - 64);
}

// What is small is copied, so that whoever takes it may compute in place.
void TensorArrayState::TakeRow(size_t i) {
  if (rows_left_ == 0 || values_[i].valid()) return;
  if (row_group_ != nullptr) {
    values_[i] = row_group_->Row(i, common_shape_);
    --rows_left_;
    return;
  }
  const size_t bytes = rows_.bytes() / static_cast<size_t>(rows_.dim(0));
  if (bytes > kSmallRow && rows_left_ == length() && rows_.unique()) {
    row_group_ = std::make_shared<RowGroup>(std::move(rows_));
    return TakeRow(i);
  }
  if (bytes <= kSmallRow) {
    const auto* from = static_cast<const char*>(std::as_const(rows_).raw());
    Tensor copy(dtype(), common_shape_);
    std::memcpy(copy.raw(), from + i * bytes, bytes);
    values_[i] = std::move(copy);
  } else {
    const auto row = static_cast<int64_t>(i);
    values_[i] = *rows_.Rows(row, row + 1).Reshaped(common_shape_);
  }
  if (--rows_left_ == 0) rows_ = Tensor();
}

Tensor TensorArrayState::Element(size_t i) const {
  if (!packed_) return values_[i];
  Tensor t(dtype(), Shape());
  std::memcpy(t.raw(), &words_[i], DTypeSize(dtype()));
  return t;
}

void TensorArrayState::SetElement(size_t i, Tensor&& value) {
  if (packed_) {
    std::memcpy(&words_[i], std::as_const(value).raw(), DTypeSize(dtype()));
  } else {
    values_[i] = std::move(value);
  }
}

// The first element that comes is a scalar: the others are taken for such too.
bool TensorArrayState::Pack() {
  if (has_common_shape_ || is_gradient_ || !IsPlain(dtype()) ||
      DTypeSize(dtype()) > sizeof(uint64_t) ||
      !element_shape_.CompatibleWith(Shape()))
    return false;
  packed_ = true;
  words_.resize(values_.size());
  values_.clear();
  return true;
}

void TensorArrayState::Unpack() {
  std::vector<Tensor> values(words_.size());
  for (size_t i = 0; i < values.size(); ++i)
    if ((states_[i] & (kWritten | kCleared)) == kWritten)
      values[i] = Element(i);
  values_ = std::move(values);
  words_.clear();
  packed_ = false;
}

bool TensorArrayState::WriteScalar(int64_t index, DType dtype, uint64_t bits) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto i = static_cast<size_t>(index);
  if (closed_ || !(packed_ || Pack()) || dtype != this->dtype()) return false;
  if (i == length() && dynamic_size_ && index < kSmallSize) Resize(i + 1);
  if (i >= length() || states_[i] != 0) return false;
  SetShape(i, Shape());
  words_[i] = bits;
  states_[i] = kWritten;
  return true;
}

bool TensorArrayState::ReadScalar(int64_t index, DType dtype, uint64_t* bits) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto i = static_cast<size_t>(index);
  if (closed_ || !packed_ || dtype != this->dtype() || i >= length() ||
      (states_[i] & (kWritten | kCleared | kShapeOnly)) != kWritten)
    return false;
  *bits = words_[i];
  states_[i] |= clear_after_read_ ? kRead | kCleared : kRead;
  return true;
}

Status TensorArrayState::Write(int64_t index, Tensor value) {
  std::lock_guard<std::mutex> lock(mu_);
  SLUICE_RETURN_IF_ERROR(CheckOpen());
  return Put(index, std::move(value));
}

Status TensorArrayState::Read(int64_t index, Tensor* value) {
  std::lock_guard<std::mutex> lock(mu_);
  SLUICE_RETURN_IF_ERROR(CheckOpen());
  return Take(index, value);
}

// ---- Many elements ----------------------------------------------------------

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
      SLUICE_ASSIGN_OR_RETURN(const Shape shape, Prepend(n, exact_shape_));
      SLUICE_ASSIGN_OR_RETURN(*out, Tensor::Make(dtype(), shape, allocator));
      return OkStatus();
    }
    keep = is_gradient_ && !packed_ && AreFirst(indices);
    if (keep && stacked_.valid() && stacked_.dim(0) >= n[0]) {
      *out = stacked_.Rows(0, n[0]);
      return OkStatus();
    }
    SLUICE_RETURN_IF_ERROR(StackTaken(indices, allocator, &parts, out));
    if (parts.empty()) {
      if (keep) stacked_ = *out;
      return OkStatus();
    }
    // (Until they are joined, for others who want them.)
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

// Takes elements, and stacks them if that is quickly done; else `parts` are
// these, and `out` the room for them.
Status TensorArrayState::StackTaken(std::span<const int32_t> indices,
                                    Allocator* allocator,
                                    std::vector<Tensor>* parts, Tensor* out) {
  const int64_t n[] = {static_cast<int64_t>(indices.size())};
  Tensor first;
  SLUICE_RETURN_IF_ERROR(Take(indices[0], &first));
  const Shape element = first.shape();
  SLUICE_ASSIGN_OR_RETURN(const Shape shape, Prepend(n, element));
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

// Small elements each go straight to their place.
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

// Rows for all elements of an array to which nothing was written before.
bool TensorArrayState::ScatterAll(std::span<const int32_t> indices,
                                  Tensor* value, const Shape& element) {
  if (packed_ || !IsPlain(dtype()) || indices.size() != length() ||
      value->num_elements() == 0 || !shapes_.empty() ||
      (has_common_shape_ && !(common_shape_ == element)))
    return false;
  for (size_t i = 0; i < length(); ++i)
    if (indices[i] != static_cast<int32_t>(i) ||
        (states_[i] != 0 && states_[i] != (kWritten | kShapeOnly)))
      return false;
  has_common_shape_ = true;
  common_shape_ = element;
  std::fill(states_.begin(), states_.end(), kWritten);
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
  if (element.rank() == 0 && !packed_) Pack();
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
          "joining: expected one shape but for the first dimension, "
          "got ",
          parts[0].shape().ToString(), " at index 0 and ", s.ToString(),
          " at index ", i);
    starts[i] = elements;
    lengths->data<int64_t>()[i] = s.dim(0);
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

Status TensorArrayState::Size(int32_t* size) {
  std::lock_guard<std::mutex> lock(mu_);
  SLUICE_RETURN_IF_ERROR(CheckOpen());
  *size = static_cast<int32_t>(length());
  return OkStatus();
}

Status TensorArrayState::Close() {
  std::lock_guard<std::mutex> lock(mu_);
  closed_ = true;
  values_.clear();
  rows_ = Tensor();
  rows_left_ = 0;
  row_group_.reset();
  stacked_ = Tensor();
  words_.clear();
  states_.clear();
  shapes_.clear();
  gradients_.clear();
  return OkStatus();
}

// ---- Gradient arrays --------------------------------------------------------

Status TensorArrayState::Gradient(const std::string& source,
                                  const Shape* prepend, Tensor* handle) {
  std::lock_guard<std::mutex> lock(mu_);
  SLUICE_RETURN_IF_ERROR(CheckOpen());
  for (const auto& [of, gradient] : gradients_) {
    if (of == source) {
      *handle = gradient;
      return OkStatus();
    }
  }
  dynamic_size_ = false;
  auto options = std::make_shared<TensorArrayDecl>(*options_);
  options->name = absl::StrCat(name(), "@", source);
  options->dynamic_size = false;
  // Each write of the forward array reads once, unless several added up in it.
  options->clear_after_read = !summed_;
  options->element_shape = element_shape_;
  if (prepend != nullptr)
    options->element_shape = array::JoinShapes(*prepend, element_shape_);
  auto gradient = std::make_shared<TensorArrayState>(
      options, static_cast<int64_t>(length()), true);
  {
    std::lock_guard<std::mutex> theirs(gradient->mu_);
    SLUICE_RETURN_IF_ERROR(gradient->CopyShapes(*this, prepend));
    gradient->row_group_ = row_group_;
  }
  *handle =
      Tensor::Scalar<ResourceHandle>({"", options->name, std::move(gradient)});
  gradients_.emplace_back(source, *handle);
  return OkStatus();
}

Status TensorArrayState::CopyShapes(const TensorArrayState& forward,
                                    const Shape* prepend) {
  const auto with = [prepend](const Shape& s) -> Result<Shape> {
    if (prepend == nullptr) return s;
    return Prepend(prepend->dims(), s);
  };
  has_common_shape_ = forward.has_common_shape_;
  SLUICE_ASSIGN_OR_RETURN(common_shape_, with(forward.common_shape_));
  shapes_.clear();
  for (const Shape& s : forward.shapes_) {
    SLUICE_ASSIGN_OR_RETURN(Shape shape, with(s));
    shapes_.push_back(std::move(shape));
  }
  for (size_t i = 0; i < states_.size(); ++i)
    if (forward.states_[i] & kWritten) states_[i] = kWritten | kShapeOnly;
  return OkStatus();
}

}  // namespace sluice
