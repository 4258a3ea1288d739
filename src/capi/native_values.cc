// The native C API: versions, statuses, tensors and buffers.
#include <array>
#include <new>

#include "absl/strings/ascii.h"
#include "capi/native.h"

namespace sluice::capi {
namespace {

// The status of an error for whose message there is no memory.
sl_status* NoMemory() {
  static auto* const status = [] {
    auto* s = new sl_status;
    s->code = StatusCode::kResourceExhausted;
    s->message = "status: expected memory for a message, got none";
    return s;
  }();
  return status;
}
// (Made before memory is short.)
[[maybe_unused]] const sl_status* const made_early = NoMemory();

}  // namespace

sl_status* NativeStatus(const Status& s) noexcept {
  if (s.ok()) return nullptr;
  try {
    auto made = std::make_unique<sl_status>();
    made->code = s.code();
    made->message.assign(s.message().data(), s.message().size());
    return made.release();
  } catch (...) {
    return NoMemory();
  }
}

Status TakeStatus(sl_status* status) {
  if (status == nullptr) return OkStatus();
  SLUICE_RETURN_IF_ERROR(GivenHandle(status, "status of a callback"));
  Status s(status->code, status->message);
  sl_status_free(status);
  return s;
}

Result<Shape> ShapeFromNative(const int64_t* dims, int32_t rank) {
  if (rank < 0) return InvalidArgument("rank: expected at least 0, got ", rank);
  SLUICE_RETURN_IF_ERROR(GivenList(dims, static_cast<size_t>(rank), "dims"));
  return Shape::Make({dims, static_cast<size_t>(rank)});
}

Result<PartialShape> PartialFromNative(const int64_t* dims, int64_t rank) {
  if (rank < 0) return PartialShape();
  SLUICE_RETURN_IF_ERROR(GivenList(dims, static_cast<size_t>(rank), "dims"));
  return PartialShape::Make({dims, static_cast<size_t>(rank)});
}

Result<Tensor> FedValue(const sl_tensor* t) {
  SLUICE_RETURN_IF_ERROR(GivenHandle(t, "tensor"));
  if (!t->copies) return t->value;
  SLUICE_ASSIGN_OR_RETURN(Tensor now,
                          Tensor::Make(t->value.dtype(), t->value.shape()));
  if (now.bytes() > 0) std::memcpy(now.raw(), t->lent, now.bytes());
  return now;
}

Result<Tensor> KeptValue(const sl_tensor* t) {
  SLUICE_ASSIGN_OR_RETURN(Tensor now, FedValue(t));
  if (now.borrowed()) return now.Clone();
  return now;
}

Result<std::string> TextFromNative(const sl_string& s) {
  SLUICE_RETURN_IF_ERROR(GivenList(s.data, s.size, "bytes of a string"));
  return s.size == 0 ? std::string() : std::string(s.data, s.size);
}

Result<Tensor> StringsFromNative(const int64_t* dims, int32_t rank,
                                 const sl_string* strings) {
  SLUICE_ASSIGN_OR_RETURN(const Shape shape, ShapeFromNative(dims, rank));
  const auto n = static_cast<size_t>(shape.num_elements());
  SLUICE_RETURN_IF_ERROR(GivenList(strings, n, "strings"));
  SLUICE_ASSIGN_OR_RETURN(Tensor value, Tensor::Make(DType::kString, shape));
  for (size_t i = 0; i < n; ++i) {
    SLUICE_ASSIGN_OR_RETURN(value.raw<std::string>()[i],
                            TextFromNative(strings[i]));
  }
  return value;
}

sl_buffer* NewNativeBuffer(std::string bytes) {
  auto made = std::make_unique<sl_buffer>();
  made->bytes = std::move(bytes);
  return made.release();
}

namespace {

// The size of plain elements of this type and shape.
Result<size_t> PlainSize(sl_dtype dtype, const Shape& shape) {
  const DType t = TypeFromNative(dtype);
  int64_t bytes = 0;
  if (IsRef(t) || !IsPlain(t))
    return InvalidArgument(
        "dtype: expected one of plain elements, got ",
        IsValidDType(dtype) ? DTypeName(t) : absl::StrCat(dtype));
  if (__builtin_mul_overflow(shape.num_elements(),
                             static_cast<int64_t>(DTypeSize(t)), &bytes))
    return InvalidArgument("shape: expected one that fits into memory, got ",
                           shape.ToString());
  return static_cast<size_t>(bytes);
}

// The shape of given memory, checked against its size.
Result<Shape> ShapeOfMemory(sl_dtype dtype, const int64_t* dims, int32_t rank,
                            const void* data, size_t size) {
  SLUICE_ASSIGN_OR_RETURN(const Shape shape, ShapeFromNative(dims, rank));
  SLUICE_ASSIGN_OR_RETURN(const size_t bytes, PlainSize(dtype, shape));
  if (size != bytes)
    return InvalidArgument("data: expected ", bytes, " bytes for ",
                           DTypeName(TypeFromNative(dtype)), shape.ToString(),
                           ", got ", size);
  if (size > 0 && data == nullptr)
    return InvalidArgument("data: expected ", bytes, " bytes, got null");
  return shape;
}

// Whether tensors can show the memory as it is.
bool CanBeShown(const void* data, size_t size) {
  constexpr size_t kAlignment = 16;
  return size > sizeof(uint64_t) &&
         reinterpret_cast<uintptr_t>(data) % kAlignment == 0;
}

// Copies elements that another tensor shares.
Status OwnElements(sl_tensor* tensor) {
  if (tensor->value.unique()) return OkStatus();
  SLUICE_ASSIGN_OR_RETURN(tensor->value, tensor->value.Clone());
  return OkStatus();
}

// Takes `text` up to `end` and `end` itself off it; all of it if it has none.
std::string_view TakeUpTo(std::string_view end, std::string_view* text) {
  const size_t at = text->find(end);
  const std::string_view taken = text->substr(0, at);
  text->remove_prefix(at == std::string_view::npos ? text->size()
                                                   : at + end.size());
  return taken;
}
sl_string TextToNative(std::string_view s) { return {s.data(), s.size()}; }

// The file and the line that a text begins with: "model.c:12, ...".
void ReadPlace(std::string_view text, sl_origin* origin) {
  // (A file may have a colon in its name.)
  for (size_t colon = text.find(':'); colon != std::string_view::npos;
       colon = text.find(':', colon + 1)) {
    int64_t line = 0;
    for (size_t i = colon + 1;
         i < text.size() && line <= INT32_MAX &&
         absl::ascii_isdigit(static_cast<unsigned char>(text[i]));
         ++i)
      line = 10 * line + (text[i] - '0');
    if (line == 0 || line > INT32_MAX) continue;
    origin->file = TextToNative(text.substr(0, colon));
    origin->line = static_cast<int32_t>(line);
    return;
  }
}

// What a message says in the form of Node::Describe, or of a node that could
// not be built.
sl_origin OriginIn(std::string_view message) {
  sl_origin origin = {};
  constexpr std::string_view kNode = "node '", kAt = " at ",
                             kBuilding = "; building ", kLine = "; at ";
  size_t begin = message.find(kNode);
  // (Not the end of another word.)
  while (begin != std::string_view::npos && begin > 0 &&
         message[begin - 1] != ' ')
    begin = message.find(kNode, begin + 1);
  if (begin != std::string_view::npos &&
      message.find("' (", begin) != std::string_view::npos) {
    message.remove_prefix(begin + kNode.size());
    origin.node = TextToNative(TakeUpTo("' (", &message));
    origin.op = TextToNative(TakeUpTo(")", &message));
    if (message.starts_with(kAt))
      ReadPlace(message.substr(kAt.size()), &origin);
    return origin;
  }
  if (const size_t at = message.find(kBuilding); at != std::string_view::npos) {
    std::string_view op = message.substr(at + kBuilding.size());
    origin.op = TextToNative(op.substr(0, op.find_first_of(";, ")));
  }
  if (const size_t at = message.rfind(kLine); at != std::string_view::npos)
    ReadPlace(message.substr(at + kLine.size()), &origin);
  return origin;
}

void StoreTensor(Tensor value, sl_tensor** made) {
  auto t = std::make_unique<sl_tensor>();
  t->value = std::move(value);
  *made = t.release();
}

}  // namespace
}  // namespace sluice::capi

using namespace sluice;        // NOLINT
using namespace sluice::capi;  // NOLINT

extern "C" {

int32_t sl_abi_version(void) { return SL_ABI_VERSION; }
const char* sl_version(void) { return SLUICE_VERSION; }

// ---- Statuses ---------------------------------------------------------------

sl_status* sl_status_new(int32_t code, const char* message) {
  if (code == SL_OK) return nullptr;
  const bool known = code > SL_OK && code <= SL_DATA_LOSS;
  return Outcome("status", [&] {
    return Status(known ? static_cast<StatusCode>(code) : StatusCode::kUnknown,
                  TextOf(message));
  });
}

int32_t sl_status_code(const sl_status* status) {
  if (status == nullptr) return SL_OK;
  return GivenHandle(status, "status").ok() ? static_cast<int32_t>(status->code)
                                            : SL_INVALID_ARGUMENT;
}

const char* sl_status_message(const sl_status* status) {
  if (status == nullptr) return "";
  return GivenHandle(status, "status").ok()
             ? status->message.c_str()
             : "status: expected one, got a handle of another kind";
}

sl_origin sl_status_origin(const sl_status* status) {
  return status != nullptr && GivenHandle(status, "status").ok()
             ? OriginIn(status->message)
             : sl_origin();
}

void sl_status_free(sl_status* status) {
  if (status != NoMemory() && GivenHandle(status, "status").ok()) delete status;
}

// ---- Tensors ----------------------------------------------------------------

size_t sl_dtype_size(sl_dtype dtype) {
  const DType t = TypeFromNative(dtype);
  return IsRef(t) ? 0 : DTypeSize(t);
}

const char* sl_dtype_name(sl_dtype dtype) {
  static const auto* const names = [] {
    auto* all = new std::array<std::string, SL_UINT64 + 1>;
    for (size_t t = 0; t < all->size(); ++t)
      (*all)[t] = DTypeName(TypeFromNative(static_cast<sl_dtype>(t)));
    return all;
  }();
  const bool known = dtype > 0 && static_cast<size_t>(dtype) < names->size();
  return (*names)[known ? static_cast<size_t>(dtype) : 0].c_str();
}

sl_status* sl_tensor_new(sl_dtype dtype, const int64_t* dims, int32_t rank,
                         sl_tensor** made) {
  return Outcome("tensor", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(GivenRoom(made));
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, ShapeFromNative(dims, rank));
    const DType t = TypeFromNative(dtype);
    if (t != DType::kString)
      SLUICE_RETURN_IF_ERROR(PlainSize(dtype, shape).status());
    SLUICE_ASSIGN_OR_RETURN(Tensor value, Tensor::Make(t, shape));
    StoreTensor(std::move(value), made);
    return OkStatus();
  });
}

sl_status* sl_tensor_copy(sl_dtype dtype, const int64_t* dims, int32_t rank,
                          const void* data, size_t size, sl_tensor** made) {
  return Outcome("tensor", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(GivenRoom(made));
    SLUICE_ASSIGN_OR_RETURN(const Shape shape,
                            ShapeOfMemory(dtype, dims, rank, data, size));
    SLUICE_ASSIGN_OR_RETURN(Tensor value,
                            Tensor::Make(TypeFromNative(dtype), shape));
    if (size > 0) std::memcpy(value.raw(), data, size);
    StoreTensor(std::move(value), made);
    return OkStatus();
  });
}

sl_status* sl_tensor_borrow(sl_dtype dtype, const int64_t* dims, int32_t rank,
                            void* data, size_t size, void (*release)(void* arg),
                            void* arg, sl_tensor** made) {
  // Once the buffer owns the memory, its last user releases it.
  bool owned = false;
  sl_status* const status = Outcome("tensor", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(GivenRoom(made));
    SLUICE_ASSIGN_OR_RETURN(const Shape shape,
                            ShapeOfMemory(dtype, dims, rank, data, size));
    const DType t = TypeFromNative(dtype);
    auto handle = std::make_unique<sl_tensor>();
    if (CanBeShown(data, size)) {
      auto* const buffer = new ForeignBuffer(data, size, [release, arg] {
        if (release != nullptr) release(arg);
      });
      owned = true;
      SLUICE_ASSIGN_OR_RETURN(handle->value,
                              Tensor::MakeView(t, shape, buffer, data));
    } else {
      SLUICE_ASSIGN_OR_RETURN(handle->value, Tensor::Make(t, shape));
      if (size > 0) std::memcpy(handle->value.raw(), data, size);
    }
    *made = handle.release();
    return OkStatus();
  });
  if (!owned && release != nullptr) release(arg);
  return status;
}

sl_status* sl_tensor_lend(sl_dtype dtype, const int64_t* dims, int32_t rank,
                          const void* data, size_t size, sl_tensor** made) {
  return Outcome("tensor", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(GivenRoom(made));
    SLUICE_ASSIGN_OR_RETURN(const Shape shape,
                            ShapeOfMemory(dtype, dims, rank, data, size));
    const DType t = TypeFromNative(dtype);
    auto handle = std::make_unique<sl_tensor>();
    handle->lent = size == 0 ? nullptr : data;
    handle->copies = size > 0 && !CanBeShown(data, size);
    if (size == 0 || handle->copies) {
      SLUICE_ASSIGN_OR_RETURN(handle->value, Tensor::Make(t, shape));
    } else {
      // (Nothing writes into lent memory.)
      auto* const memory = const_cast<void*>(data);
      SLUICE_ASSIGN_OR_RETURN(
          handle->value,
          Tensor::MakeView(t, shape,
                           new ForeignBuffer(memory, size, nullptr,
                                             ForeignBuffer::Lent::kForAStep),
                           memory));
    }
    *made = handle.release();
    return OkStatus();
  });
}

sl_status* sl_tensor_strings(const int64_t* dims, int32_t rank,
                             const sl_string* strings, sl_tensor** made) {
  return Outcome("tensor", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(GivenRoom(made));
    SLUICE_ASSIGN_OR_RETURN(Tensor value,
                            StringsFromNative(dims, rank, strings));
    StoreTensor(std::move(value), made);
    return OkStatus();
  });
}

sl_dtype sl_tensor_dtype(const sl_tensor* tensor) {
  return GivenHandle(tensor, "tensor").ok()
             ? static_cast<sl_dtype>(tensor->value.dtype())
             : 0;
}
int32_t sl_tensor_rank(const sl_tensor* tensor) {
  return GivenHandle(tensor, "tensor").ok() ? tensor->value.rank() : -1;
}
int64_t sl_tensor_dim(const sl_tensor* tensor, int32_t dim) {
  return GivenHandle(tensor, "tensor").ok() && dim >= 0 ? tensor->value.dim(dim)
                                                        : -1;
}
int64_t sl_tensor_count(const sl_tensor* tensor) {
  return GivenHandle(tensor, "tensor").ok() ? tensor->value.num_elements() : 0;
}
size_t sl_tensor_size(const sl_tensor* tensor) {
  return GivenHandle(tensor, "tensor").ok() && IsPlain(tensor->value.dtype())
             ? tensor->value.bytes()
             : 0;
}

const void* sl_tensor_data(const sl_tensor* tensor) {
  if (!GivenHandle(tensor, "tensor").ok() || !IsPlain(tensor->value.dtype()))
    return nullptr;
  return tensor->lent != nullptr ? tensor->lent : tensor->value.raw();
}

void* sl_tensor_write(sl_tensor* tensor) {
  if (!GivenHandle(tensor, "tensor").ok() || tensor->lent != nullptr ||
      !IsPlain(tensor->value.dtype()))
    return nullptr;
  const Status own =
      WithoutThrowing("tensor", [&] { return OwnElements(tensor); });
  return own.ok() ? tensor->value.raw() : nullptr;
}

sl_string sl_tensor_string(const sl_tensor* tensor, int64_t i) {
  if (!GivenHandle(tensor, "tensor").ok() ||
      tensor->value.dtype() != DType::kString || i < 0 ||
      i >= tensor->value.num_elements())
    return {nullptr, 0};
  const std::string& s = tensor->value.raw<std::string>()[i];
  return {s.data(), s.size()};
}

sl_status* sl_tensor_set_string(sl_tensor* tensor, int64_t i, sl_string value) {
  return Outcome("tensor", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(GivenHandle(tensor, "tensor"));
    if (tensor->value.dtype() != DType::kString)
      return InvalidArgument("tensor: expected one of strings, got ",
                             DTypeName(tensor->value.dtype()));
    if (i < 0 || i >= tensor->value.num_elements())
      return InvalidArgument("element: expected one of ",
                             tensor->value.num_elements(), ", got ", i);
    SLUICE_ASSIGN_OR_RETURN(std::string text, TextFromNative(value));
    SLUICE_RETURN_IF_ERROR(OwnElements(tensor));
    tensor->value.raw<std::string>()[i] = std::move(text);
    return OkStatus();
  });
}

void sl_tensor_free(sl_tensor* tensor) {
  if (GivenHandle(tensor, "tensor").ok()) delete tensor;
}

sl_string sl_buffer_bytes(const sl_buffer* buffer) {
  if (!GivenHandle(buffer, "buffer").ok()) return {nullptr, 0};
  return {buffer->bytes.data(), buffer->bytes.size()};
}
void sl_buffer_free(sl_buffer* buffer) {
  if (GivenHandle(buffer, "buffer").ok()) delete buffer;
}

}  // extern "C"
