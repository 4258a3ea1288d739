// TF_Tensor and TF_TString.
#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "capi/handles.h"

namespace sluice::capi {

Result<Shape> ShapeOf(const int64_t* dims, int num_dims) {
  SLUICE_RETURN_IF_ERROR(GivenArray(dims, num_dims, "dims"));
  return Shape::Make({dims, static_cast<size_t>(num_dims)});
}

Result<PartialShape> PartialShapeOf(const int64_t* dims, int num_dims) {
  if (num_dims < 0) return PartialShape();
  SLUICE_RETURN_IF_ERROR(GivenArray(dims, num_dims, "dims"));
  return PartialShape::Make({dims, static_cast<size_t>(num_dims)});
}

Result<Tensor> ToTensor(const TF_Tensor* t) {
  SLUICE_RETURN_IF_ERROR(Given(t, "tensor"));
  if (t->strings == nullptr) {
    if (!t->value().valid())
      return InvalidArgument(
          "tensor: expected one with a value, got one that "
          "was moved from");
    return t->value();
  }
  return ToStrings(*t->strings, t->shape);
}

Result<Tensor> ToStrings(const StringArray& from, const Shape& shape) {
  SLUICE_ASSIGN_OR_RETURN(Tensor copy, Tensor::Make(DType::kString, shape));
  std::string* out = copy.raw<std::string>();
  const TF_TString* in = from.strings();
  for (int64_t i = 0; i < shape.num_elements(); ++i)
    if (const size_t n = TF_StringGetSize(&in[i]); n > 0)
      out[i].assign(TF_StringGetDataPointer(&in[i]), n);
  return copy;
}

std::shared_ptr<StringArray> NewStrings(int64_t n, size_t bytes,
                                        int64_t owned) {
  // As many as Tensor::Make makes; fewer than overflow the size.
  if (n > (int64_t{1} << 36)) return nullptr;
  const size_t size = static_cast<size_t>(n) * sizeof(TF_TString);
  auto* s = static_cast<TF_TString*>(
      std::calloc(std::max({size, bytes, size_t{1}}), 1));
  if (s == nullptr) return nullptr;
  return std::make_shared<StringArray>(s, [s, owned] {
    for (int64_t i = 0; i < owned; ++i) TF_StringDealloc(&s[i]);
    std::free(s);
  });
}

Result<TF_Tensor*> NewTensor(Tensor t) {
  SLUICE_RETURN_IF_ERROR(t.status());
  auto made = std::make_unique<TF_Tensor>();
  made->dtype = t.dtype();
  made->shape = t.shape();
  if (t.dtype() == DType::kString) {
    made->strings = NewStrings(t.num_elements(), 0, t.num_elements());
    if (made->strings == nullptr)
      return ResourceExhausted("tensor: expected memory for ", t.num_elements(),
                               " strings, got none");
    const std::string* from = t.raw<std::string>();
    for (int64_t i = 0; i < t.num_elements(); ++i)
      TF_StringCopy(&made->strings->strings()[i], from[i].data(),
                    from[i].size());
  } else {
    made->tensor = std::move(t);
  }
  return made.release();
}

}  // namespace sluice::capi

using namespace sluice;        // NOLINT
using namespace sluice::capi;  // NOLINT

namespace {

// Runs when it is destroyed, unless it was taken.
struct GivenMemory {
  void* data;
  size_t len;
  void (*deallocator)(void*, size_t, void*);
  void* arg;
  GivenMemory(const GivenMemory&) = delete;
  GivenMemory(void* d, size_t l, void (*f)(void*, size_t, void*), void* a)
      : data(d), len(l), deallocator(f), arg(a) {}
  ~GivenMemory() {
    if (deallocator != nullptr) deallocator(data, len, arg);
  }
  std::function<void()> Take() {
    auto release = [d = data, l = len, f = deallocator, a = arg] {
      if (f != nullptr) f(d, l, a);
    };
    deallocator = nullptr;
    return release;
  }
};

// The bytes that the elements take; -1 for types whose elements cannot be
// given.
int64_t BytesOf(DType dtype, const Shape& shape) {
  const size_t size =
      dtype == DType::kString ? sizeof(TF_TString) : DTypeSize(dtype);
  int64_t bytes = 0;
  if (size == 0 || IsRef(dtype) ||
      __builtin_mul_overflow(shape.num_elements(), static_cast<int64_t>(size),
                             &bytes))
    return -1;
  return bytes;
}

std::unique_ptr<TF_Tensor> Described(TF_DataType dtype, const int64_t* dims,
                                     int num_dims, size_t len) {
  auto t = std::make_unique<TF_Tensor>();
  const Result<Shape> shape = ShapeOf(dims, num_dims);
  if (!shape.ok()) return nullptr;
  t->dtype = FromC(dtype);
  t->shape = *shape;
  const int64_t bytes = BytesOf(t->dtype, t->shape);
  if (bytes < 0 || len < static_cast<size_t>(bytes)) return nullptr;
  return t;
}

Result<std::unique_ptr<TF_Tensor>> Wrap(TF_DataType dtype, const int64_t* dims,
                                        int num_dims, GivenMemory* memory) {
  std::unique_ptr<TF_Tensor> t = Described(dtype, dims, num_dims, memory->len);
  if (t == nullptr)
    return InvalidArgument("tensor: expected a shape and bytes for it");
  const auto bytes = static_cast<size_t>(BytesOf(t->dtype, t->shape));
  if (memory->data == nullptr && bytes > 0)
    return InvalidArgument("tensor: expected data, got null");
  if (t->dtype == DType::kString) {
    t->strings = std::make_shared<StringArray>(
        static_cast<TF_TString*>(memory->data), memory->Take());
    return t;
  }
  constexpr size_t kAlignment = 16;
  if (bytes > 8 &&
      reinterpret_cast<uintptr_t>(memory->data) % kAlignment == 0) {
    auto* buffer = new ForeignBuffer(memory->data, memory->len, memory->Take());
    SLUICE_ASSIGN_OR_RETURN(
        t->tensor, Tensor::MakeView(t->dtype, t->shape, buffer, memory->data));
    t->shows_callers = true;
    return t;
  }
  SLUICE_ASSIGN_OR_RETURN(t->tensor, Tensor::Make(t->dtype, t->shape));
  if (bytes > 0) std::memcpy(t->tensor.raw(), memory->data, bytes);
  return t;
}

}  // namespace

extern "C" {

size_t TF_DataTypeSize(TF_DataType dt) {
  const DType t = FromC(dt);
  return IsRef(t) ? 0 : DTypeSize(t);
}

TF_Tensor* TF_NewTensor(TF_DataType dtype, const int64_t* dims, int num_dims,
                        void* data, size_t len,
                        void (*deallocator)(void* data, size_t len, void* arg),
                        void* deallocator_arg) {
  GivenMemory memory(data, len, deallocator, deallocator_arg);
  TF_Tensor* made = nullptr;
  Report(nullptr, "tensor", [&] {
    SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<TF_Tensor> t,
                            Wrap(dtype, dims, num_dims, &memory));
    made = t.release();
    return OkStatus();
  });
  return made;
}

TF_Tensor* TF_AllocateTensor(TF_DataType dtype, const int64_t* dims,
                             int num_dims, size_t len) {
  TF_Tensor* made = nullptr;
  Report(nullptr, "tensor", [&]() -> Status {
    std::unique_ptr<TF_Tensor> t = Described(dtype, dims, num_dims, len);
    if (t == nullptr) return InvalidArgument("tensor: expected a shape");
    if (t->dtype == DType::kString) {
      t->strings = NewStrings(t->shape.num_elements(), len, 0);
      if (t->strings == nullptr) return ResourceExhausted("strings");
    } else if (len > TF_TensorByteSize(t.get())) {
      if (!IsPlain(t->dtype)) return InvalidArgument("tensor: expected bytes");
      SLUICE_ASSIGN_OR_RETURN(
          const Tensor bytes,
          Tensor::Make(DType::kUint8, Shape({static_cast<int64_t>(len), 1})));
      Buffer* const buffer = bytes.buffer();
      if (buffer == nullptr) {  // So few bytes are in any tensor.
        SLUICE_ASSIGN_OR_RETURN(t->tensor, Tensor::Make(t->dtype, t->shape));
      } else {
        buffer->Ref();
        SLUICE_ASSIGN_OR_RETURN(
            t->tensor, Tensor::MakeView(t->dtype, t->shape, buffer,
                                        const_cast<void*>(bytes.raw())));
      }
    } else {
      SLUICE_ASSIGN_OR_RETURN(t->tensor, Tensor::Make(t->dtype, t->shape));
    }
    made = t.release();
    return OkStatus();
  });
  return made;
}

TF_Tensor* TF_TensorMaybeMove(TF_Tensor* tensor) {
  if (tensor == nullptr || tensor->strings != nullptr ||
      tensor->cell != nullptr || tensor->shows_callers ||
      !tensor->tensor.valid() || !tensor->tensor.unique())
    return nullptr;
  auto* moved = new TF_Tensor(*tensor);
  tensor->tensor = Tensor();
  return moved;
}

void TF_DeleteTensor(TF_Tensor* tensor) { delete tensor; }

TF_DataType TF_TensorType(const TF_Tensor* tensor) {
  return ToC(tensor->dtype);
}
int TF_NumDims(const TF_Tensor* tensor) { return tensor->shape.rank(); }
int64_t TF_Dim(const TF_Tensor* tensor, int dim_index) {
  return tensor->shape.dim(dim_index);
}
size_t TF_TensorByteSize(const TF_Tensor* tensor) {
  const int64_t bytes = BytesOf(tensor->dtype, tensor->shape);
  return bytes < 0 ? 0 : static_cast<size_t>(bytes);
}

void* TF_TensorData(const TF_Tensor* tensor) {
  if (tensor->strings != nullptr) return tensor->strings->strings();
  const Tensor& value = tensor->value();
  if (!value.valid() || !IsPlain(tensor->dtype)) return nullptr;
  return const_cast<void*>(value.raw());
}

int64_t TF_TensorElementCount(const TF_Tensor* tensor) {
  return tensor->shape.num_elements();
}

void TF_TensorBitcastFrom(const TF_Tensor* from, TF_DataType type,
                          TF_Tensor* to, const int64_t* new_dims,
                          int num_new_dims, TF_Status* status) {
  Report(status, "bitcast", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(from, "bitcast: a tensor"));
    SLUICE_RETURN_IF_ERROR(Given(to, "bitcast: a tensor for the result"));
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, ShapeOf(new_dims, num_new_dims));
    const Tensor& value = from->value();
    if (from->strings == nullptr && !value.valid())
      return InvalidArgument(
          "bitcast: expected a tensor with a value, got one that was moved "
          "from");
    const DType dtype = FromC(type);
    if (!IsPlain(from->dtype) || IsRef(dtype) || !IsPlain(dtype))
      return InvalidArgument("bitcast: expected types of plain elements, got ",
                             DTypeName(from->dtype), " and ", DTypeName(dtype));
    const int64_t bytes = BytesOf(from->dtype, from->shape);
    if (BytesOf(dtype, shape) != bytes)
      return InvalidArgument("bitcast: expected ", bytes,
                             " bytes as before, got ", DTypeName(dtype),
                             shape.ToString());
    Tensor made;
    // (Memory that is lent to a kernel for its run is copied: the result may
    // outlive the run.)
    if (Buffer* const buffer = value.buffer();
        buffer != nullptr && bytes > 8 && !value.borrowed()) {
      buffer->Ref();
      SLUICE_ASSIGN_OR_RETURN(made,
                              Tensor::MakeView(dtype, shape, buffer,
                                               const_cast<void*>(value.raw())));
    } else {
      SLUICE_ASSIGN_OR_RETURN(made, Tensor::Make(dtype, shape));
      if (bytes > 0)
        std::memcpy(made.raw(), value.raw(), static_cast<size_t>(bytes));
    }
    to->dtype = dtype;
    to->shape = shape;
    to->tensor = std::move(made);
    to->strings = nullptr;
    to->cell = nullptr;
    return OkStatus();
  });
}

bool TF_TensorIsAligned(const TF_Tensor* tensor) {
  return reinterpret_cast<uintptr_t>(TF_TensorData(tensor)) % 64 == 0;
}

// ---- Strings ----------------------------------------------------------------

void TF_StringInit(TF_TString* t) { std::memset(t, 0, sizeof(*t)); }

TF_TString_Type TF_StringGetType(const TF_TString* t) {
  return static_cast<TF_TString_Type>(t->u.raw.raw[0] & TF_TSTR_TYPE_MASK);
}

size_t TF_StringGetSize(const TF_TString* t) {
  switch (TF_StringGetType(t)) {
    case TF_TSTR_SMALL:
      return t->u.smll.size >> 2;
    case TF_TSTR_OFFSET:
      return t->u.offset.size >> 2;
    default:
      return t->u.large.size >> 2;
  }
}

size_t TF_StringGetCapacity(const TF_TString* t) {
  switch (TF_StringGetType(t)) {
    case TF_TSTR_SMALL:
      return sizeof(t->u.smll.str) - 1;
    case TF_TSTR_LARGE:
      return t->u.large.cap;
    default:
      return 0;
  }
}

const char* TF_StringGetDataPointer(const TF_TString* t) {
  switch (TF_StringGetType(t)) {
    case TF_TSTR_SMALL:
      return t->u.smll.str;
    case TF_TSTR_LARGE:
      return t->u.large.ptr;
    case TF_TSTR_OFFSET:
      return reinterpret_cast<const char*>(t) + t->u.offset.offset;
    default:
      return t->u.view.ptr;
  }
}

void TF_StringDealloc(TF_TString* t) {
  if (TF_StringGetType(t) == TF_TSTR_LARGE) std::free(t->u.large.ptr);
  TF_StringInit(t);
}

void TF_StringCopy(TF_TString* dst, const char* src, size_t size) {
  if (src == nullptr) size = 0;
  TF_TString made;
  TF_StringInit(&made);
  if (size < sizeof(made.u.smll.str)) {
    made.u.smll.size = static_cast<uint8_t>(size << 2);
    if (size > 0) std::memcpy(made.u.smll.str, src, size);
  } else if (auto* bytes = static_cast<char*>(std::malloc(size + 1))) {
    std::memcpy(bytes, src, size);
    bytes[size] = 0;
    made.u.large.size = size << 2 | TF_TSTR_LARGE;
    made.u.large.cap = size;
    made.u.large.ptr = bytes;
  }
  TF_StringDealloc(dst);
  *dst = made;
}

void TF_StringAssignView(TF_TString* dst, const char* src, size_t size) {
  TF_StringDealloc(dst);
  if (src == nullptr) return;
  dst->u.view.size = size << 2 | TF_TSTR_VIEW;
  dst->u.view.ptr = src;
}

char* TF_StringResizeUninitialized(TF_TString* t, size_t size) {
  const size_t kept = std::min(size, TF_StringGetSize(t));
  const bool large = TF_StringGetType(t) == TF_TSTR_LARGE;
  if (size < sizeof(t->u.smll.str)) {
    TF_TString made;
    TF_StringInit(&made);
    made.u.smll.size = static_cast<uint8_t>(size << 2);
    if (kept > 0)
      std::memcpy(made.u.smll.str, TF_StringGetDataPointer(t), kept);
    if (large) std::free(t->u.large.ptr);
    *t = made;
    return t->u.smll.str;
  }
  if (size > SIZE_MAX >> 2) return nullptr;
  if (!large || size > t->u.large.cap) {
    auto* bytes = static_cast<char*>(
        large ? std::realloc(t->u.large.ptr, size + 1) : std::malloc(size + 1));
    if (bytes == nullptr) return nullptr;
    if (!large && kept > 0)
      std::memcpy(bytes, TF_StringGetDataPointer(t), kept);
    t->u.large.ptr = bytes;
    t->u.large.cap = size;
  }
  t->u.large.size = size << 2 | TF_TSTR_LARGE;
  t->u.large.ptr[size] = 0;
  return t->u.large.ptr;
}

void TF_StringReserve(TF_TString* t, size_t capacity) {
  const size_t size = TF_StringGetSize(t);
  if (capacity < sizeof(t->u.smll.str) || capacity <= TF_StringGetCapacity(t))
    return;
  // (The capacity stays when the string gets its size again.)
  const size_t wanted = std::max(capacity, size);
  if (TF_StringResizeUninitialized(t, wanted) == nullptr) return;
  t->u.large.size = size << 2 | TF_TSTR_LARGE;
  t->u.large.ptr[size] = 0;
}

void TF_StringAppendN(TF_TString* t, const char* src, size_t size) {
  if (size == 0 || src == nullptr) return;
  const size_t before = TF_StringGetSize(t);
  if (size > SIZE_MAX - before) return;
  // Its own bytes move with it; those that it only shows stay.
  const TF_TString_Type type = TF_StringGetType(t);
  const bool owns = type == TF_TSTR_SMALL || type == TF_TSTR_LARGE;
  const char* const own = TF_StringGetDataPointer(t);
  const bool inside = owns && src >= own && src < own + before;
  const size_t at = inside ? static_cast<size_t>(src - own) : 0;
  TF_TString_ReserveAmortized(t, before + size);
  char* const bytes = TF_StringResizeUninitialized(t, before + size);
  if (bytes != nullptr)
    std::memcpy(bytes + before, inside ? bytes + at : src, size);
}

size_t TF_StringEncodedSize(size_t len) {
  size_t bytes = len + 1;
  for (size_t rest = len >> 7; rest != 0; rest >>= 7) ++bytes;
  return bytes;
}

size_t TF_StringEncode(const char* src, size_t src_len, char* dst,
                       size_t dst_len, TF_Status* status) {
  size_t written = 0;
  Report(status, "string", [&]() -> Status {
    const size_t bytes = TF_StringEncodedSize(src_len);
    if (src_len > 0) SLUICE_RETURN_IF_ERROR(Given(src, "string: bytes"));
    SLUICE_RETURN_IF_ERROR(Given(dst, "string: room for it"));
    if (dst_len < bytes || bytes < src_len)
      return OutOfRange("string: expected room for ", bytes, " bytes, got ",
                        dst_len);
    size_t rest = src_len;
    for (; rest >= 0x80; rest >>= 7) *dst++ = static_cast<char>(rest | 0x80);
    *dst++ = static_cast<char>(rest);
    if (src_len > 0) std::memcpy(dst, src, src_len);
    written = bytes;
    return OkStatus();
  });
  return written;
}

size_t TF_StringDecode(const char* src, size_t src_len, const char** dst,
                       size_t* dst_len, TF_Status* status) {
  size_t read = 0;
  Report(status, "string", [&]() -> Status {
    if (src_len > 0) SLUICE_RETURN_IF_ERROR(Given(src, "string: bytes"));
    SLUICE_RETURN_IF_ERROR(Given(dst, "string: room for the result"));
    SLUICE_RETURN_IF_ERROR(Given(dst_len, "string: room for the length"));
    uint64_t len = 0;
    size_t at = 0;
    for (int shift = 0;; shift += 7) {
      if (at == src_len || shift > 63)
        return InvalidArgument("string: expected a varint, got ", src_len,
                               " malformed bytes");
      const auto byte = static_cast<unsigned char>(src[at++]);
      len |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    if (len > src_len - at)
      return InvalidArgument("string: expected ", len, " bytes, got ",
                             src_len - at);
    *dst = src + at;
    *dst_len = len;
    read = at + len;
    return OkStatus();
  });
  return read;
}

}  // extern "C"
