#include "tensor/tensor.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "absl/strings/escaping.h"
#include "base/parallel.h"
#include "tensor/element_bytes.h"

namespace sluice {
namespace {

// Fewest bytes of a copy worth a thread.
constexpr int64_t kCopyGrain = 1 << 20;

bool IsObject(DType t) {
  return t == DType::kString || t == DType::kResource || t == DType::kVariant;
}

// Elements that are C++ objects (strings, resources, variants).
template <typename T>
class Objects final : public Buffer {
 public:
  static Status New(int64_t n, Buffer** buffer) {
    if (n == 1) {
      *buffer = new Objects();
      return OkStatus();
    }
    std::unique_ptr<T[]> objects(new (std::nothrow) T[static_cast<size_t>(n)]);
    if (objects == nullptr)
      return ResourceExhausted("allocation: expected memory for ", n,
                               " objects of ", sizeof(T),
                               " bytes, got none from the system");
    *buffer = new Objects(static_cast<size_t>(n), std::move(objects));
    return OkStatus();
  }

 private:
  Objects() : Buffer(nullptr, sizeof(T)) { set_data(&one_); }
  Objects(size_t n, std::unique_ptr<T[]> objects)
      : Buffer(objects.get(), n * sizeof(T)), objects_(std::move(objects)) {}
  ~Objects() override = default;
  T one_;  // A scalar needs no second allocation.
  std::unique_ptr<T[]> objects_;
};

// Allocates the memory of a tensor; null if it needs none.
Status NewBuffer(DType dtype, const Shape& shape, Allocator* allocator,
                 Buffer** buffer) {
  const int64_t n = shape.num_elements();
  const size_t size = DTypeSize(dtype);
  if (size == 0 && !IsObject(dtype))
    return InvalidArgument("tensor: expected an element type, got ",
                           DTypeName(dtype));
  if (n == 0) return shape.status();
  if (size != 0) {
    const int64_t bytes = MultiplyOrNegative(n, static_cast<int64_t>(size));
    if (bytes < 0)
      return ResourceExhausted(
          "allocation: expected fewer than 2^63 bytes for ", DTypeName(dtype),
          shape.ToString());
    if (bytes <= 8 && allocator->host_memory()) return OkStatus();
    SLUICE_ASSIGN_OR_RETURN(*buffer,
                            allocator->Allocate(static_cast<size_t>(bytes)));
  } else if (n > (int64_t{1} << 36)) {
    return ResourceExhausted("allocation: expected at most 2^36 objects, got ",
                             DTypeName(dtype), shape.ToString());
  } else if (dtype == DType::kString) {
    return Objects<std::string>::New(n, buffer);
  } else if (dtype == DType::kResource) {
    return Objects<ResourceHandle>::New(n, buffer);
  } else {
    return Objects<Variant>::New(n, buffer);
  }
  return OkStatus();
}

// Holds the reason why a tensor is invalid. Has no data.
class Reason final : public Buffer {
 public:
  explicit Reason(Status why) : Buffer(nullptr, 0), why_(std::move(why)) {
    set_data(this);
  }
  const Status& why() const { return why_; }

 private:
  ~Reason() override = default;
  const Status why_;
};

// Shortest text that parses to the same value.
std::string FloatText(double v, int digits) {
  char buf[40];
  for (int d = 6; d <= digits; d += 1) {
    snprintf(buf, sizeof(buf), "%.*g", d, v);
    const double back = strtod(buf, nullptr);
    if (digits <= 9 ? static_cast<float>(back) == static_cast<float>(v)
                    : back == v)
      break;
  }
  return buf;
}

std::string ElementText(const Tensor& t, int64_t i) {
  switch (t.dtype()) {
    case DType::kFloat:
      return FloatText(t.raw<float>()[i], 9);
    case DType::kDouble:
      return FloatText(t.raw<double>()[i], 17);
    case DType::kHalf:
      return FloatText(t.raw<half>()[i], 9);
    case DType::kBfloat16:
      return FloatText(t.raw<bfloat16>()[i], 9);
    case DType::kInt8:
    case DType::kQint8:
      return absl::StrCat(int{t.raw<int8_t>()[i]});
    case DType::kUint8:
    case DType::kQuint8:
      return absl::StrCat(int{t.raw<uint8_t>()[i]});
    case DType::kInt16:
    case DType::kQint16:
      return absl::StrCat(int{t.raw<int16_t>()[i]});
    case DType::kUint16:
    case DType::kQuint16:
      return absl::StrCat(int{t.raw<uint16_t>()[i]});
    case DType::kInt32:
    case DType::kQint32:
      return absl::StrCat(t.raw<int32_t>()[i]);
    case DType::kUint32:
      return absl::StrCat(t.raw<uint32_t>()[i]);
    case DType::kInt64:
      return absl::StrCat(t.raw<int64_t>()[i]);
    case DType::kUint64:
      return absl::StrCat(t.raw<uint64_t>()[i]);
    case DType::kBool:
      return t.raw<bool>()[i] ? "1" : "0";
    case DType::kComplex64: {
      const complex64 c = t.raw<complex64>()[i];
      return absl::StrCat("(", FloatText(c.real(), 9), ",",
                          FloatText(c.imag(), 9), ")");
    }
    case DType::kComplex128: {
      const complex128 c = t.raw<complex128>()[i];
      return absl::StrCat("(", FloatText(c.real(), 17), ",",
                          FloatText(c.imag(), 17), ")");
    }
    case DType::kString:
      return absl::StrCat("\"", absl::CEscape(t.raw<std::string>()[i]), "\"");
    case DType::kResource: {
      const ResourceHandle& h = t.raw<ResourceHandle>()[i];
      return absl::StrCat("<", h.resource ? h.resource->TypeName() : "resource",
                          " '", h.name, "'>");
    }
    case DType::kVariant: {
      const Variant& v = t.raw<Variant>()[i];
      return absl::StrCat("<", v.empty() ? "empty" : v.value()->TypeName(),
                          ">");
    }
    case DType::kInvalid:
      break;
  }
  return "?";
}

}  // namespace

Result<Tensor> Tensor::Make(DType dtype, const Shape& shape,
                            Allocator* allocator) {
  Tensor t;
  SLUICE_RETURN_IF_ERROR(NewBuffer(dtype, shape, allocator, &t.buffer_));
  if (t.buffer_ != nullptr) t.data_ = t.buffer_->data();
  t.shape_ = shape;
  t.dtype_ = dtype;
  return t;
}

Tensor::Tensor(DType dtype, const Shape& shape, const char* file, int line)
    : buffer_(nullptr), bits_(0), shape_(shape), dtype_(dtype) {
  const Status s = NewBuffer(dtype, shape, Allocator::Cpu(), &buffer_);
  if (!s.ok()) [[unlikely]]
    *this = OrInvalid(s, file, line);
  else if (buffer_ != nullptr)
    data_ = buffer_->data();
}

Result<Tensor> Tensor::MakeView(DType dtype, const Shape& shape, Buffer* buffer,
                                void* data) {
  Tensor t(dtype, shape, buffer, data);
  SLUICE_RETURN_IF_ERROR(t.status());
  return t;
}

Tensor::Tensor(DType dtype, const Shape& shape, Buffer* buffer, void* data)
    : buffer_(buffer), data_(data), shape_(shape), dtype_(dtype) {
  const auto fits = [&] {
    if (buffer == nullptr) return shape.num_elements() == 0;
    // (An empty tensor may point anywhere.)
    const auto from = reinterpret_cast<uintptr_t>(data),
               begin = reinterpret_cast<uintptr_t>(buffer->data());
    const int64_t element = static_cast<int64_t>(ElementBytes(dtype));
    const int64_t need = MultiplyOrNegative(shape.num_elements(), element);
    return need == 0 ||
           (need > 0 && from >= begin && from - begin <= buffer->bytes() &&
            static_cast<size_t>(need) <= buffer->bytes() - (from - begin));
  };
  Status error = shape.status();
  if (error.ok() && DTypeSize(dtype) == 0 && !IsObject(dtype))
    error = InvalidArgument("view: expected an element type, got ",
                            DTypeName(dtype));
  if (error.ok() && !fits())
    error = InvalidArgument("view: expected a buffer that holds a ",
                            DTypeName(dtype), shape.ToString(), ", got ",
                            buffer == nullptr ? 0 : buffer->bytes(), " bytes");
  if (error.ok()) return;
  *this = Invalid(error);
}

Tensor Tensor::Invalid(const Status& why) {
  Tensor t;
  t.shape_ = Shape({0});
  auto* const reason = new Reason(
      why.ok() ? Internal("tensor: expected an error, got none") : why);
  t.buffer_ = reason;
  t.data_ = reason->data();
  return t;
}

Tensor Tensor::OrInvalid(Result<Tensor> made, const char* file, int line) {
  if (made.ok()) return *std::move(made);
  return Invalid(
      Status(made.status().code(),
             absl::StrCat(made.status().message(), "; at ", file, ":", line)));
}

Status Tensor::status() const {
  if (valid()) return OkStatus();
  if (buffer_ != nullptr) return static_cast<const Reason*>(buffer_)->why();
  return InvalidArgument(
      "tensor: expected a value, got none (it was never set, or moved from)");
}

Status Tensor::CheckType(DType asked) const {
  if (dtype_ == asked) return OkStatus();
  if (!valid())
    return InvalidArgument("tensor: expected one of ", DTypeName(asked),
                           ", got an invalid one: ", status().message());
  return InvalidArgument("tensor: expected one of ", DTypeName(asked), ", got ",
                         DTypeName(dtype_), shape_.ToString());
}

Status Tensor::CheckScalar(DType asked) const {
  SLUICE_RETURN_IF_ERROR(CheckType(asked));
  if (num_elements() >= 1) return OkStatus();
  return InvalidArgument("tensor: expected an element, got none in ",
                         DTypeName(dtype_), shape_.ToString());
}

Status Tensor::CheckCount(const Shape& shape, size_t values) {
  SLUICE_RETURN_IF_ERROR(shape.status());
  if (static_cast<size_t>(shape.num_elements()) == values) return OkStatus();
  return InvalidArgument("tensor: expected ", shape.num_elements(),
                         " values for the shape ", shape.ToString(), ", got ",
                         values);
}

void Tensor::Misused(const char* accessor, const Status& why, const char* file,
                     int line) {
  fprintf(stderr, "Tensor::%s: %s; at %s:%d\n", accessor,
          std::string(why.message()).c_str(), file, line);
  std::abort();
}

Result<Tensor> Tensor::Zeros(DType dtype, const Shape& shape) {
  SLUICE_ASSIGN_OR_RETURN(Tensor t, Make(dtype, shape));
  if (IsPlain(dtype)) std::memset(t.raw(), 0, t.bytes());
  return t;
}

size_t Tensor::bytes() const {
  return static_cast<size_t>(num_elements()) * ElementBytes(dtype_);
}

Result<Tensor> Tensor::Reshaped(const Shape& shape) const {
  SLUICE_RETURN_IF_ERROR(status());
  if (shape.num_elements() == 0) SLUICE_RETURN_IF_ERROR(shape.status());
  if (shape.num_elements() != num_elements())
    return InvalidArgument("reshape: expected ", num_elements(),
                           " elements, got shape ", shape.ToString(), " with ",
                           shape.num_elements());
  Tensor t = *this;
  t.shape_ = shape;
  return t;
}

Tensor Tensor::Rows(int64_t begin, int64_t end) const {
  if (!valid()) return *this;
  if (rank() < 1)
    return Invalid(InvalidArgument("rows: expected a tensor of rank >= 1, got ",
                                   DTypeName(dtype_), shape_.ToString()));
  if (begin < 0 || begin > end || end > dim(0))
    return Invalid(InvalidArgument(
        "rows: expected 0 <= begin <= end <= ", dim(0), " for ",
        DTypeName(dtype_), shape_.ToString(), ", got ", begin, " to ", end));
  Dims dims(shape_.dims().begin(), shape_.dims().end());
  const int64_t rows = std::max<int64_t>(1, dims[0]);
  dims[0] = end - begin;
  const Shape shape(std::span<const int64_t>(dims.data(), dims.size()));
  const size_t row_bytes = bytes() / static_cast<size_t>(rows);
  Tensor t;
  t.shape_ = shape;
  t.dtype_ = dtype_;
  if (t.num_elements() == 0) return t;
  const char* from =
      static_cast<const char*>(raw()) + static_cast<size_t>(begin) * row_bytes;
  if (buffer_ == nullptr ||
      (IsPlain(dtype_) && t.bytes() <= 8 && buffer_->host_memory())) {
    std::memcpy(&t.bits_, from, t.bytes());
    return t;
  }
  t.buffer_ = buffer_;
  buffer_->Ref();
  t.data_ = const_cast<char*>(from);
  return t;
}

Tensor Tensor::BitcastTo(DType dtype) const {
  if (!valid()) return *this;
  if (dtype != dtype_ &&
      (!IsPlain(dtype) || DTypeSize(dtype) != DTypeSize(dtype_)))
    return Invalid(InvalidArgument(
        "bitcast: expected a type whose elements are of the size of ",
        DTypeName(dtype_), "'s, got ", DTypeName(dtype)));
  Tensor t = *this;
  t.dtype_ = dtype;
  return t;
}

Result<Tensor> Tensor::Clone() const {
  SLUICE_RETURN_IF_ERROR(status());
  SLUICE_ASSIGN_OR_RETURN(Tensor t, Make(dtype_, shape_));
  if (IsPlain(dtype_)) {
    // (Large ones are bound by memory, of which one core gets a part.)
    ParallelFor(static_cast<int64_t>(bytes()), kCopyGrain,
                [&](int64_t begin, int64_t end) {
                  std::memcpy(t.raw<char>() + begin, raw<char>() + begin,
                              static_cast<size_t>(end - begin));
                });
  } else if (dtype_ == DType::kString) {
    std::copy_n(raw<std::string>(), num_elements(), t.raw<std::string>());
  } else if (dtype_ == DType::kResource) {
    std::copy_n(raw<ResourceHandle>(), num_elements(), t.raw<ResourceHandle>());
  } else {
    std::copy_n(raw<Variant>(), num_elements(), t.raw<Variant>());
  }
  return t;
}

bool Tensor::Identical(const Tensor& o) const {
  if (dtype_ != o.dtype_ || !(shape_ == o.shape_)) return false;
  if (dtype_ == DType::kString)
    return std::equal(raw_flat<std::string>().begin(),
                      raw_flat<std::string>().end(),
                      o.raw_flat<std::string>().begin());
  if (dtype_ == DType::kResource) {
    for (int64_t i = 0; i < num_elements(); ++i)
      if (raw<ResourceHandle>()[i].resource !=
          o.raw<ResourceHandle>()[i].resource)
        return false;
    return true;
  }
  if (dtype_ == DType::kVariant) {
    for (int64_t i = 0; i < num_elements(); ++i)
      if (raw<Variant>()[i].value() != o.raw<Variant>()[i].value())
        return false;
    return true;
  }
  return std::memcmp(raw(), o.raw(), bytes()) == 0;
}

std::string Tensor::Summarize(int max_elements) const {
  std::string out;
  const int64_t n = num_elements();
  const int64_t shown =
      max_elements < 0 ? n : std::min<int64_t>(n, max_elements);
  for (int64_t i = 0; i < shown; ++i) {
    if (i > 0) out += ' ';
    out += ElementText(*this, i);
  }
  if (shown < n) out += "...";
  return out;
}

std::string Tensor::ToString(int max_elements) const {
  if (!valid())
    return buffer_ == nullptr ? "invalid"
                              : absl::StrCat("invalid: ", status().message());
  return absl::StrCat(DTypeName(dtype_), shape_.ToString(), " ",
                      Summarize(max_elements));
}

}  // namespace sluice
