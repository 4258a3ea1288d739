#include "ops/tensor_array/tensor_array.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "ops/common/carrier_type.h"
#include "ops/common/elements.h"
#include "ops/tensor_array/tensor_list.h"

namespace sluice {
namespace {

// Elements up to this size are copied: from 10,000 iterations on a saved tensor
// and its header are no longer in a cache, so copying is cheaper than accessing
// it.
constexpr size_t kSmallRow = 512;
static_assert(kSmallRow <= ElementChunks::kMaxBytes);
constexpr size_t kLine = 64;       // The processor's cache line.
constexpr size_t kFetched = 1024;  // The most bytes to prefetch.
// Arrays up to this length are allocated without checking the memory limit.
constexpr int64_t kSmallSize = int64_t{1} << 22;

void Fetch(const char* data, size_t bytes) {
  for (size_t b = 0; b < std::min(bytes, kFetched); b += kLine)
    __builtin_prefetch(data + b);
}

}  // namespace

TensorArrayState::TensorArrayState(
    std::shared_ptr<const TensorArrayDecl> options, int64_t size, Memory memory,
    bool is_gradient)
    : options_(std::move(options)),
      memory_(memory),
      is_gradient_(is_gradient),
      dynamic_size_(options_->dynamic_size),
      clear_after_read_(options_->clear_after_read),
      element_shape_(options_->element_shape) {
  if (element_shape_.fully_known()) {
    Result<Shape> exact = element_shape_.ToShape();
    exact_ = exact.ok();
    if (exact_) exact_shape_ = *std::move(exact);
  }
  Resize(static_cast<size_t>(size));
}

Status TensorArrayState::CheckSize(int64_t size) {
  if (size < 0 || size > INT32_MAX)
    return InvalidArgument("size: expected a number in [0, 2^31), got ", size);
  // Vectors end the process if they run out of memory, so check first.
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

Status TensorArrayState::WrongType(DType t) const {
  return Error("expected elements of type ", DTypeName(dtype()), ", got ",
               DTypeName(t));
}

Status TensorArrayState::NoMemory() const {
  return ResourceExhausted(
      "TensorArray '", name(), "': expected memory for one more element of ",
      DTypeName(dtype()), common_shape_.ToString(), ", got none");
}

Status TensorArrayState::Closed() const {
  return InvalidArgument("TensorArray '", name(),
                         "': expected an open array, got one that was "
                         "closed");
}

// ---- Shapes -----------------------------------------------------------------

void TensorArrayState::Resize(size_t size) {
  if (layout_ == Layout::kTensors) values_.resize(size);
  states_.resize(size);
  if (!shapes_.empty()) shapes_.resize(size);
}

// The first element determines the layout: elements of one small size are
// packed.
Status TensorArrayState::Lay(const Shape& first) {
  const size_t bytes =
      static_cast<size_t>(first.num_elements()) * DTypeSize(dtype());
  const size_t most = memory_ == Memory::kHost ? kSmallRow : sizeof(uint64_t);
  if (bytes > 0 && bytes <= most && shapes_.empty() &&
      (!has_common_shape_ || common_shape_ == first)) {
    layout_ = Layout::kPacked;
    has_common_shape_ = true;
    common_shape_ = first;
    scalar_bytes_ = first.rank() == 0 && bytes <= sizeof(uint64_t) ? bytes : 0;
    packed_.Begin(bytes);
    return OkStatus();
  }
  SLUICE_RETURN_IF_ERROR(CheckSize(static_cast<int64_t>(length())));
  layout_ = Layout::kTensors;
  values_.resize(length());
  return OkStatus();
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
  if (size > static_cast<int64_t>(states_.capacity()) || size > INT32_MAX)
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
  const auto i = static_cast<size_t>(index);
  const uint8_t state = states_[i];
  if (state == 0) [[likely]]
    return SetElement(i, std::move(value));
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
  if (states_[i] & kShapeOnly) return SetElement(i, std::move(value));
  summed_ = true;
  const DType t = dtype();
  const bool packed = layout_ == Layout::kPacked;
  if (t == DType::kVariant) return AddToTensor(value, &values_[i]);
  if (!add_) add_ = simd::GetBinary(simd::BinaryOp::kAdd, CarrierType(t));
  if (!add_)
    return Error("index ", i, ": expected a type that has sums, got ",
                 DTypeName(t));
  if (packed) {
    if (states_[i] & kInRows) SLUICE_RETURN_IF_ERROR(PackRow(i));
    char* const have = packed_.At(i);
    add_(have, std::as_const(value).raw(), have, common_shape_.num_elements());
    return OkStatus();
  }
  TakeRow(i);
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
                 ": expected an element that was written, got an unwritten one "
                 "(with a known element_shape it would be zeros; this "
                 "array's is ",
                 element_shape_.ToString(), ")");
  const Shape& shape = states_[i] & kShapeOnly ? ShapeOf(i) : exact_shape_;
  SLUICE_ASSIGN_OR_RETURN(Tensor zeros, Tensor::Zeros(dtype(), shape));
  return SetElement(i, std::move(zeros));
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
  if (layout_ == Layout::kPacked) {
    *value = Element(i);
    if (!value->valid()) [[unlikely]]
      return value->status();
    FetchNext(i);
    MarkRead(i);
    return OkStatus();
  }
  TakeRow(i);
  FetchNext(i);
  if (clear_after_read_) {
    *value = std::move(values_[i]);
    states_[i] |= kRead | kCleared;
  } else {
    *value = values_[i];
    states_[i] |= kRead;
  }
  return OkStatus();
}

// Loops read one element after the other, in either direction; a long array is
// not in any cache. The next element is prefetched while this one is used. (For
// elements up to a cache line the processor prefetches by itself.)
inline void TensorArrayState::FetchNext(size_t i) {
  const size_t next = 2 * i - last_read_;
  last_read_ = i;
  if (next >= length()) return;
  if (layout_ == Layout::kPacked) {
    if (packed_.bytes() > kLine &&
        (states_[next] & (kWritten | kCleared | kShapeOnly)) == kWritten)
      Fetch(PackedAt(next), packed_.bytes());
  } else if (values_[next].has_buffer()) {
    const Tensor& t = values_[next];
    const char* const data = static_cast<const char*>(t.raw());
    __builtin_prefetch(data - kLine);  // The header of the block.
    Fetch(data, t.bytes());
  }
}

// Turns a row that is too large to be packed into an element when it is needed.
void TensorArrayState::TakeRow(size_t i) {
  if (rows_left_ == 0 || values_[i].valid()) return;
  if (row_group_ == nullptr && rows_left_ == length() && rows_.unique())
    row_group_ = std::make_shared<RowGroup>(std::move(rows_));
  if (row_group_ != nullptr) {
    values_[i] = row_group_->Row(i, common_shape_);
    --rows_left_;
    return;
  }
  const auto row = static_cast<int64_t>(i);
  values_[i] = *rows_.Rows(row, row + 1).Reshaped(common_shape_);
  if (--rows_left_ == 0) rows_ = Tensor();
}

// Turns a row that is added to into a separate element.
Status TensorArrayState::PackRow(size_t i) {
  char* const to = packed_.Make(i, length());
  if (to == nullptr) return NoMemory();
  std::memcpy(to, PackedAt(i), packed_.bytes());
  states_[i] &= static_cast<uint8_t>(~kInRows);
  if (--rows_left_ == 0) rows_ = Tensor();
  return OkStatus();
}

// Returns a copy, which the caller may write to.
Tensor TensorArrayState::Element(size_t i) const {
  Tensor t(dtype(), common_shape_);
  if (t.valid()) std::memcpy(t.raw(), PackedAt(i), packed_.bytes());
  return t;
}

// The first write of the element.
Status TensorArrayState::SetElement(size_t i, Tensor&& value) {
  if (layout_ == Layout::kNone) [[unlikely]]
    SLUICE_RETURN_IF_ERROR(Lay(value.shape()));
  if (layout_ == Layout::kPacked) {
    if (value.shape() == common_shape_) [[likely]] {
      char* const to = packed_.Make(i, length());
      if (to == nullptr) [[unlikely]]
        return NoMemory();
      std::memcpy(to, std::as_const(value).raw(), packed_.bytes());
      states_[i] = kWritten;
      return OkStatus();
    }
    SLUICE_RETURN_IF_ERROR(Unpack());
  }
  SetShape(i, value.shape());
  values_[i] = std::move(value);
  states_[i] = kWritten;
  return OkStatus();
}

// Called when an element has a different shape from the ones before.
Status TensorArrayState::Unpack() {
  SLUICE_RETURN_IF_ERROR(CheckSize(static_cast<int64_t>(length())));
  values_.resize(length());
  for (size_t i = 0; i < values_.size(); ++i) {
    if ((states_[i] & (kWritten | kCleared | kShapeOnly)) == kWritten) {
      values_[i] = Element(i);
      SLUICE_RETURN_IF_ERROR(values_[i].status());
    }
    states_[i] &= static_cast<uint8_t>(~kInRows);
  }
  layout_ = Layout::kTensors;
  scalar_bytes_ = 0;
  packed_.Clear();
  rows_ = Tensor();
  rows_left_ = 0;
  return OkStatus();
}

// If the first element is a scalar, the others are assumed to be scalars too.
bool TensorArrayState::LayScalars() {
  return layout_ == Layout::kNone && IsPlain(dtype()) &&
         DTypeSize(dtype()) <= sizeof(uint64_t) &&
         element_shape_.CompatibleWith(Shape()) &&
         (!has_common_shape_ || common_shape_.rank() == 0) &&
         Lay(Shape()).ok() && scalar_bytes_ != 0;
}

bool TensorArrayState::WriteScalar(int64_t index, DType dtype, uint64_t bits) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto i = static_cast<size_t>(index);
  if (closed_ || dtype != this->dtype() || !(scalar_bytes_ || LayScalars()))
    return false;
  if (i == length() && dynamic_size_ && index < kSmallSize) Resize(i + 1);
  if (i >= length() ||
      (states_[i] != 0 && states_[i] != (kWritten | kShapeOnly)))
    return false;
  char* const to = packed_.Make(i, length());
  if (to == nullptr) return false;
  if (scalar_bytes_ == 4) {
    std::memcpy(to, &bits, 4);
  } else if (scalar_bytes_ == 8) {
    std::memcpy(to, &bits, 8);
  } else {
    std::memcpy(to, &bits, scalar_bytes_);
  }
  states_[i] = kWritten;
  return true;
}

bool TensorArrayState::ReadScalar(int64_t index, DType dtype, uint64_t* bits) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto i = static_cast<size_t>(index);
  if (closed_ || !scalar_bytes_ || dtype != this->dtype() || i >= length() ||
      (states_[i] & (kWritten | kCleared | kShapeOnly)) != kWritten)
    return false;
  const char* const from = PackedAt(i);
  uint64_t word = 0;
  if (scalar_bytes_ == 4) {
    std::memcpy(&word, from, 4);
  } else if (scalar_bytes_ == 8) {
    std::memcpy(&word, from, 8);
  } else {
    std::memcpy(&word, from, scalar_bytes_);
  }
  *bits = word;
  MarkRead(i);
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

Status TensorArrayState::Size(int32_t* size) {
  std::lock_guard<std::mutex> lock(mu_);
  SLUICE_RETURN_IF_ERROR(CheckOpen());
  *size = static_cast<int32_t>(length());
  return OkStatus();
}

Status TensorArrayState::Close() {
  std::lock_guard<std::mutex> lock(mu_);
  closed_ = true;
  layout_ = Layout::kNone;
  scalar_bytes_ = 0;
  packed_.Clear();
  values_.clear();
  rows_ = Tensor();
  rows_left_ = 0;
  row_group_.reset();
  stacked_ = Tensor();
  states_.clear();
  shapes_.clear();
  gradients_.clear();
  return OkStatus();
}

Result<Shape> TensorArrayState::PrependDims(std::span<const int64_t> first,
                                            const Shape& rest) {
  Dims dims(first.begin(), first.end());
  dims.insert(dims.end(), rest.dims().begin(), rest.dims().end());
  return array::MakeShape(dims);
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
  // Each write of the forward array reads the gradient once, unless elements
  // were summed in it or still may be.
  options->clear_after_read = !(summed_ || options_->may_sum);
  options->may_sum = !options_->clear_after_read;
  options->element_shape = element_shape_;
  if (prepend != nullptr)
    options->element_shape = array::JoinShapes(*prepend, element_shape_);
  auto gradient = std::make_shared<TensorArrayState>(
      options, static_cast<int64_t>(length()), memory_, true);
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
    return PrependDims(prepend->dims(), s);
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
