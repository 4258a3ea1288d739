#include "tensor/tensor.h"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "absl/strings/escaping.h"

namespace sluice {
namespace {

// Elements that are C++ objects (strings, resources, variants).
template <typename T>
class Objects final : public Buffer {
 public:
  static Status New(int64_t n, Buffer** buffer) {
    std::unique_ptr<T[]> objects(new (std::nothrow) T[static_cast<size_t>(n)]);
    if (objects == nullptr)
      return ResourceExhausted("allocation: expected memory for ", n,
                               " objects of ", sizeof(T),
                               " bytes, got none from the system");
    *buffer = new Objects(static_cast<size_t>(n), std::move(objects));
    return OkStatus();
  }

 private:
  Objects(size_t n, std::unique_ptr<T[]> objects)
      : Buffer(objects.get(), n * sizeof(T)), objects_(std::move(objects)) {}
  ~Objects() override = default;
  std::unique_ptr<T[]> objects_;
};

// The memory of a tensor; null for one that has none.
Status NewBuffer(DType dtype, const Shape& shape, Allocator* allocator,
                 Buffer** buffer) {
  const int64_t n = shape.num_elements();
  if (n == 0) return OkStatus();
  const size_t size = DTypeSize(dtype);
  if (size != 0) {
    const int64_t bytes = MultiplyOrNegative(n, static_cast<int64_t>(size));
    if (bytes < 0)
      return ResourceExhausted(
          "allocation: expected fewer than 2^63 bytes for ", DTypeName(dtype),
          shape.ToString());
    if (bytes <= 8) return OkStatus();
    SLUICE_ASSIGN_OR_RETURN(*buffer,
                            allocator->Allocate(static_cast<size_t>(bytes)));
  } else if (n > (int64_t{1} << 36)) {
    return ResourceExhausted("allocation: expected at most 2^36 objects, got ",
                             DTypeName(dtype), shape.ToString());
  } else if (dtype == DType::kString) {
    return Objects<std::string>::New(n, buffer);
  } else if (dtype == DType::kResource) {
    return Objects<ResourceHandle>::New(n, buffer);
  } else if (dtype == DType::kVariant) {
    return Objects<Variant>::New(n, buffer);
  } else {
    return InvalidArgument("tensor: expected an element type, got ",
                           DTypeName(dtype));
  }
  return OkStatus();
}

// Shortest text that reads back as the same value.
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
      return FloatText(t.data<float>()[i], 9);
    case DType::kDouble:
      return FloatText(t.data<double>()[i], 17);
    case DType::kHalf:
      return FloatText(t.data<half>()[i], 9);
    case DType::kBfloat16:
      return FloatText(t.data<bfloat16>()[i], 9);
    case DType::kInt8:
    case DType::kQint8:
      return absl::StrCat(int{t.data<int8_t>()[i]});
    case DType::kUint8:
    case DType::kQuint8:
      return absl::StrCat(int{t.data<uint8_t>()[i]});
    case DType::kInt16:
    case DType::kQint16:
      return absl::StrCat(int{t.data<int16_t>()[i]});
    case DType::kUint16:
    case DType::kQuint16:
      return absl::StrCat(int{t.data<uint16_t>()[i]});
    case DType::kInt32:
    case DType::kQint32:
      return absl::StrCat(t.data<int32_t>()[i]);
    case DType::kUint32:
      return absl::StrCat(t.data<uint32_t>()[i]);
    case DType::kInt64:
      return absl::StrCat(t.data<int64_t>()[i]);
    case DType::kUint64:
      return absl::StrCat(t.data<uint64_t>()[i]);
    case DType::kBool:
      return t.data<bool>()[i] ? "1" : "0";
    case DType::kComplex64: {
      const complex64 c = t.data<complex64>()[i];
      return absl::StrCat("(", FloatText(c.real(), 9), ",",
                          FloatText(c.imag(), 9), ")");
    }
    case DType::kComplex128: {
      const complex128 c = t.data<complex128>()[i];
      return absl::StrCat("(", FloatText(c.real(), 17), ",",
                          FloatText(c.imag(), 17), ")");
    }
    case DType::kString:
      return absl::StrCat("\"", absl::CEscape(t.data<std::string>()[i]), "\"");
    case DType::kResource: {
      const ResourceHandle& h = t.data<ResourceHandle>()[i];
      return absl::StrCat("<", h.resource ? h.resource->TypeName() : "resource",
                          " '", h.name, "'>");
    }
    case DType::kVariant: {
      const Variant& v = t.data<Variant>()[i];
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

Tensor::Tensor(DType dtype, const Shape& shape)
    : buffer_(nullptr), bits_(0), shape_(shape), dtype_(dtype) {
  const Status s = NewBuffer(dtype, shape, Allocator::Cpu(), &buffer_);
  if (!s.ok()) {
    fprintf(stderr, "Tensor: %s\n", std::string(s.message()).c_str());
    std::abort();
  }
  if (buffer_ != nullptr) data_ = buffer_->data();
}

Result<Tensor> Tensor::Zeros(DType dtype, const Shape& shape) {
  SLUICE_ASSIGN_OR_RETURN(Tensor t, Make(dtype, shape));
  if (IsPlain(dtype)) std::memset(t.raw(), 0, t.bytes());
  return t;
}

size_t Tensor::bytes() const {
  const auto n = static_cast<size_t>(num_elements());
  switch (dtype_) {
    case DType::kString:
      return n * sizeof(std::string);
    case DType::kResource:
      return n * sizeof(ResourceHandle);
    case DType::kVariant:
      return n * sizeof(Variant);
    default:
      return n * DTypeSize(dtype_);
  }
}

Result<Tensor> Tensor::Reshaped(const Shape& shape) const {
  if (shape.num_elements() != num_elements())
    return InvalidArgument("reshape: expected ", num_elements(),
                           " elements, got shape ", shape.ToString(), " with ",
                           shape.num_elements());
  Tensor t = *this;
  t.shape_ = shape;
  return t;
}

Tensor Tensor::Rows(int64_t begin, int64_t end) const {
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
  if (buffer_ == nullptr || (IsPlain(dtype_) && t.bytes() <= 8)) {
    std::memcpy(&t.bits_, from, t.bytes());
    return t;
  }
  t.buffer_ = buffer_;
  buffer_->Ref();
  t.data_ = const_cast<char*>(from);
  return t;
}

Tensor Tensor::BitcastTo(DType dtype) const {
  Tensor t = *this;
  t.dtype_ = dtype;
  return t;
}

Result<Tensor> Tensor::Clone() const {
  SLUICE_ASSIGN_OR_RETURN(Tensor t, Make(dtype_, shape_));
  if (IsPlain(dtype_)) {
    std::memcpy(t.raw(), raw(), bytes());
  } else if (dtype_ == DType::kString) {
    std::copy_n(data<std::string>(), num_elements(), t.data<std::string>());
  } else if (dtype_ == DType::kResource) {
    std::copy_n(data<ResourceHandle>(), num_elements(),
                t.data<ResourceHandle>());
  } else {
    std::copy_n(data<Variant>(), num_elements(), t.data<Variant>());
  }
  return t;
}

bool Tensor::Identical(const Tensor& o) const {
  if (dtype_ != o.dtype_ || !(shape_ == o.shape_)) return false;
  if (dtype_ == DType::kString)
    return std::equal(flat<std::string>().begin(), flat<std::string>().end(),
                      o.flat<std::string>().begin());
  if (dtype_ == DType::kResource) {
    for (int64_t i = 0; i < num_elements(); ++i)
      if (data<ResourceHandle>()[i].resource !=
          o.data<ResourceHandle>()[i].resource)
        return false;
    return true;
  }
  if (dtype_ == DType::kVariant) {
    for (int64_t i = 0; i < num_elements(); ++i)
      if (data<Variant>()[i].value() != o.data<Variant>()[i].value())
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
  if (!valid()) return "invalid";
  return absl::StrCat(DTypeName(dtype_), shape_.ToString(), " ",
                      Summarize(max_elements));
}

}  // namespace sluice
