#include "graph/tensor_proto.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/stubs/logging.h"
#include "graph/proto/tensor.pb.h"

// tensor_content is little-endian, and so are all our targets.
static_assert(std::endian::native == std::endian::little);

namespace sluice {
namespace {

Status TakeExpansion(int64_t elements, int64_t bytes_each,
                     TensorProtoLimits* limits) {
  const int64_t bytes = MultiplyOrNegative(elements, bytes_each);
  if (bytes < 0 || bytes > limits->expansion_bytes)
    return ResourceExhausted(
        "tensor: expected at most ", limits->expansion_bytes,
        " bytes beyond its serialised values, got ", elements,
        " more elements of ", bytes_each, " bytes");
  limits->expansion_bytes -= bytes;
  return OkStatus();
}

Status TooManyValues(size_t got, const Shape& shape) {
  return InvalidArgument("tensor of shape ", shape.ToString(),
                         ": expected at most ", shape.num_elements(),
                         " values, got ", got);
}

// Fills a new tensor with values get(0), ..., get(given - 1), the last one
// repeated; zeros if none are given.
template <typename T, typename Get>
Result<Tensor> FromValues(const Shape& shape, size_t given, const Get& get,
                          TensorProtoLimits* limits) {
  const auto n = static_cast<size_t>(shape.num_elements());
  if (given > n) return TooManyValues(given, shape);
  SLUICE_RETURN_IF_ERROR(
      TakeExpansion(static_cast<int64_t>(n - given), sizeof(T), limits));
  SLUICE_ASSIGN_OR_RETURN(Tensor t, Tensor::Make(DTypeOf<T>(), shape));
  T* out = t.raw<T>();
  for (size_t i = 0; i < given; ++i) out[i] = get(static_cast<int>(i));
  const T last = given == 0 ? T{} : get(static_cast<int>(given) - 1);
  std::fill(out + given, out + n, last);
  return t;
}

template <typename T, typename Field>
Result<Tensor> FromNumbers(const Shape& shape, const Field& field,
                           TensorProtoLimits* limits) {
  return FromValues<T>(
      shape, static_cast<size_t>(field.size()),
      [&](int i) { return static_cast<T>(field.Get(i)); }, limits);
}

// Q: a quantised type, V: that of its member.
template <typename Q, typename V, typename Field>
Result<Tensor> FromQuantized(const Shape& shape, const Field& field,
                             TensorProtoLimits* limits) {
  return FromValues<Q>(
      shape, static_cast<size_t>(field.size()),
      [&](int i) { return Q{static_cast<V>(field.Get(i))}; }, limits);
}

template <typename H, typename Field>
Result<Tensor> FromHalfBits(const Shape& shape, const Field& field,
                            TensorProtoLimits* limits) {
  return FromValues<H>(
      shape, static_cast<size_t>(field.size()),
      [&](int i) {
        H h;
        h.bits = static_cast<uint16_t>(field.Get(i));
        return h;
      },
      limits);
}

template <typename C, typename Field>
Result<Tensor> FromComplex(const Shape& shape, const Field& field,
                           TensorProtoLimits* limits) {
  if (field.size() % 2 != 0)
    return InvalidArgument(
        "complex tensor: expected real and imaginary parts in pairs, got ",
        field.size(), " numbers");
  return FromValues<C>(
      shape, static_cast<size_t>(field.size() / 2),
      [&](int i) { return C(field.Get(2 * i), field.Get(2 * i + 1)); }, limits);
}

Result<Tensor> FromStrings(const Shape& shape, const proto::TensorProto& p,
                           TensorProtoLimits* limits) {
  const auto n = static_cast<size_t>(shape.num_elements());
  const auto given = static_cast<size_t>(p.string_val_size());
  if (given > n) return TooManyValues(given, shape);
  const std::string last =
      given == 0 ? std::string() : p.string_val(static_cast<int>(given) - 1);
  SLUICE_RETURN_IF_ERROR(TakeExpansion(
      static_cast<int64_t>(n - given),
      static_cast<int64_t>(sizeof(std::string) + last.size()), limits));
  SLUICE_ASSIGN_OR_RETURN(Tensor t, Tensor::Make(DType::kString, shape));
  std::string* out = t.raw<std::string>();
  for (size_t i = 0; i < given; ++i) out[i] = p.string_val(static_cast<int>(i));
  std::fill(out + given, out + n, last);
  return t;
}

// The content of a string tensor: the length of every element as a varint, then
// the bytes of all of them.
Result<Tensor> FromStringContent(const Shape& shape,
                                 const std::string& content) {
  const Status malformed =
      InvalidArgument("content of a string tensor of shape ", shape.ToString(),
                      ": expected the lengths of its elements and their bytes,"
                      " got ",
                      content.size(), " bytes");
  const auto n = static_cast<size_t>(shape.num_elements());
  if (n > content.size()) return malformed;  // A length takes at least a byte.
  google::protobuf::io::CodedInputStream in(
      reinterpret_cast<const uint8_t*>(content.data()),
      static_cast<int>(content.size()));
  std::vector<uint32_t> lengths(n);
  for (uint32_t& length : lengths)
    if (!in.ReadVarint32(&length)) return malformed;
  SLUICE_ASSIGN_OR_RETURN(Tensor t, Tensor::Make(DType::kString, shape));
  auto at = static_cast<size_t>(in.CurrentPosition());
  for (size_t i = 0; i < n; ++i) {
    if (lengths[i] > content.size() - at) return malformed;
    t.raw<std::string>()[i] = content.substr(at, lengths[i]);
    at += lengths[i];
  }
  if (at != content.size()) return malformed;
  return t;
}

Result<Tensor> FromContent(DType dtype, const Shape& shape,
                           const std::string& content) {
  const auto size = static_cast<int64_t>(DTypeSize(dtype));
  const int64_t want = MultiplyOrNegative(shape.num_elements(), size);
  if (want != static_cast<int64_t>(content.size()))
    return InvalidArgument(
        "content of a tensor ", DTypeName(dtype), shape.ToString(),
        ": expected ", want < 0 ? "more than an int64 of" : absl::StrCat(want),
        " bytes, got ", content.size());
  SLUICE_ASSIGN_OR_RETURN(Tensor t, Tensor::Make(dtype, shape));
  if (want == 0) return t;
  if (dtype == DType::kBool) {  // A bool other than 0 or 1 is undefined.
    for (size_t i = 0; i < content.size(); ++i)
      t.raw<bool>()[i] = content[i] != 0;
  } else {
    std::memcpy(t.raw(), content.data(), content.size());
  }
  return t;
}

Result<Tensor> FromFields(DType dtype, const Shape& shape,
                          const proto::TensorProto& p,
                          TensorProtoLimits* limits) {
  switch (dtype) {
    case DType::kFloat:
      return FromNumbers<float>(shape, p.float_val(), limits);
    case DType::kDouble:
      return FromNumbers<double>(shape, p.double_val(), limits);
    case DType::kInt32:
      return FromNumbers<int32_t>(shape, p.int_val(), limits);
    case DType::kUint8:
      return FromNumbers<uint8_t>(shape, p.int_val(), limits);
    case DType::kInt16:
      return FromNumbers<int16_t>(shape, p.int_val(), limits);
    case DType::kInt8:
      return FromNumbers<int8_t>(shape, p.int_val(), limits);
    case DType::kUint16:
      return FromNumbers<uint16_t>(shape, p.int_val(), limits);
    case DType::kString:
      return FromStrings(shape, p, limits);
    case DType::kComplex64:
      return FromComplex<complex64>(shape, p.scomplex_val(), limits);
    case DType::kComplex128:
      return FromComplex<complex128>(shape, p.dcomplex_val(), limits);
    case DType::kInt64:
      return FromNumbers<int64_t>(shape, p.int64_val(), limits);
    case DType::kBool:
      return FromNumbers<bool>(shape, p.bool_val(), limits);
    case DType::kQint8:
      return FromQuantized<qint8, int8_t>(shape, p.int_val(), limits);
    case DType::kQuint8:
      return FromQuantized<quint8, uint8_t>(shape, p.int_val(), limits);
    case DType::kQint16:
      return FromQuantized<qint16, int16_t>(shape, p.int_val(), limits);
    case DType::kQuint16:
      return FromQuantized<quint16, uint16_t>(shape, p.int_val(), limits);
    case DType::kQint32:
      return FromQuantized<qint32, int32_t>(shape, p.int_val(), limits);
    case DType::kHalf:
      return FromHalfBits<half>(shape, p.half_val(), limits);
    case DType::kBfloat16:
      return FromHalfBits<bfloat16>(shape, p.half_val(), limits);
    case DType::kUint32:
      return FromNumbers<uint32_t>(shape, p.uint32_val(), limits);
    case DType::kUint64:
      return FromNumbers<uint64_t>(shape, p.uint64_val(), limits);
    case DType::kResource:
    case DType::kVariant:
    case DType::kInvalid:
      break;
  }
  return Internal("TensorProto: no reader for dtype ", DTypeName(dtype));
}

// Only variants without a value can be deserialised.
Result<Tensor> FromVariants(const Shape& shape, const proto::TensorProto& p,
                            TensorProtoLimits* limits) {
  for (const auto& v : p.variant_val())
    if (!v.type_name().empty())
      return Unimplemented(
          "variant tensor: expected empty variants, got a serialised '",
          v.type_name(), "', which only the process that made it can hold");
  SLUICE_RETURN_IF_ERROR(
      TakeExpansion(shape.num_elements(), sizeof(Variant), limits));
  return Tensor::Make(DType::kVariant, shape);
}

// Whether all elements have the same bits, so that one represents all.
bool AllEqual(const char* data, size_t size, size_t n) {
  return n > 1 && std::memcmp(data, data + size, (n - 1) * size) == 0;
}

// Writes the first `n` elements as values.
void AddValues(const Tensor& t, int n, proto::TensorProto* p) {
  for (int i = 0; i < n; ++i) {
    switch (t.dtype()) {
      case DType::kFloat:
        p->add_float_val(t.raw<float>()[i]);
        break;
      case DType::kDouble:
        p->add_double_val(t.raw<double>()[i]);
        break;
      case DType::kQint32:
      case DType::kInt32:
        p->add_int_val(t.raw<int32_t>()[i]);
        break;
      case DType::kQuint8:
      case DType::kUint8:
        p->add_int_val(t.raw<uint8_t>()[i]);
        break;
      case DType::kQint16:
      case DType::kInt16:
        p->add_int_val(t.raw<int16_t>()[i]);
        break;
      case DType::kQint8:
      case DType::kInt8:
        p->add_int_val(t.raw<int8_t>()[i]);
        break;
      case DType::kQuint16:
      case DType::kUint16:
        p->add_int_val(t.raw<uint16_t>()[i]);
        break;
      case DType::kHalf:
      case DType::kBfloat16:
        p->add_half_val(t.raw<uint16_t>()[i]);
        break;
      case DType::kInt64:
        p->add_int64_val(t.raw<int64_t>()[i]);
        break;
      case DType::kBool:
        p->add_bool_val(t.raw<bool>()[i]);
        break;
      case DType::kUint32:
        p->add_uint32_val(t.raw<uint32_t>()[i]);
        break;
      case DType::kUint64:
        p->add_uint64_val(t.raw<uint64_t>()[i]);
        break;
      case DType::kString:
        p->add_string_val(t.raw<std::string>()[i]);
        break;
      case DType::kComplex64:
        p->add_scomplex_val(t.raw<complex64>()[i].real());
        p->add_scomplex_val(t.raw<complex64>()[i].imag());
        break;
      case DType::kComplex128:
        p->add_dcomplex_val(t.raw<complex128>()[i].real());
        p->add_dcomplex_val(t.raw<complex128>()[i].imag());
        break;
      case DType::kResource:
      case DType::kVariant:
      case DType::kInvalid:
        break;
    }
  }
}

}  // namespace

Result<DType> DTypeFromProto(int value) {
  if (!IsValidDType(value))
    return InvalidArgument(
        "dtype: expected one of DT_FLOAT (1) to DT_UINT64 "
        "(23) or a reference to one, got ",
        value);
  return static_cast<DType>(value);
}

Result<PartialShape> ShapeFromProto(const proto::TensorShapeProto& p) {
  if (p.unknown_rank()) {
    if (p.dim_size() != 0)
      return InvalidArgument(
          "shape: expected no dimensions besides "
          "unknown_rank, got ",
          p.dim_size());
    return PartialShape();
  }
  if (p.dim_size() > kMaxRank)
    return InvalidArgument("shape: expected a rank of at most ", kMaxRank,
                           ", got ", p.dim_size());
  PartialShape shape = PartialShape::Scalar();
  for (const auto& d : p.dim()) {
    if (d.size() < -1)
      return InvalidArgument(
          "shape: expected dimensions of at least 0, or -1 for unknown, got ",
          d.size());
    shape.add_dim(d.size());
  }
  return shape;
}

void ShapeToProto(const PartialShape& shape, proto::TensorShapeProto* p) {
  p->Clear();
  if (!shape.rank_known()) p->set_unknown_rank(true);
  for (int i = 0; i < shape.rank(); ++i) p->add_dim()->set_size(shape.dim(i));
}

Result<Tensor> TensorFromProto(const proto::TensorProto& p,
                               TensorProtoLimits* limits) {
  TensorProtoLimits default_limits;
  if (limits == nullptr) limits = &default_limits;
  SLUICE_ASSIGN_OR_RETURN(const DType dtype, DTypeFromProto(p.dtype()));
  if (IsRef(dtype))
    return InvalidArgument("tensor: expected a value type, got ",
                           DTypeName(dtype));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape partial,
                          ShapeFromProto(p.tensor_shape()));
  if (!partial.fully_known())
    return InvalidArgument("tensor: expected a fully known shape, got ",
                           partial.ToString());
  SLUICE_ASSIGN_OR_RETURN(const Shape shape, partial.ToShape());
  if (dtype == DType::kResource)
    return Unimplemented(
        "tensor: expected a type that has a meaning outside "
        "its process, got resource");
  if (dtype == DType::kVariant) return FromVariants(shape, p, limits);
  if (p.tensor_content().empty()) return FromFields(dtype, shape, p, limits);
  if (dtype == DType::kString)
    return FromStringContent(shape, p.tensor_content());
  return FromContent(dtype, shape, p.tensor_content());
}

Status TensorToProto(const Tensor& tensor, proto::TensorProto* p) {
  p->Clear();
  if (!tensor.valid() || tensor.dtype() == DType::kResource)
    return InvalidArgument(
        "TensorProto: expected a tensor of plain elements "
        "or strings, got ",
        DTypeName(tensor.dtype()));
  p->set_dtype(static_cast<proto::DataType>(tensor.dtype()));
  ShapeToProto(tensor.shape(), p->mutable_tensor_shape());
  const int64_t n = tensor.num_elements();
  if (tensor.dtype() == DType::kVariant) {
    for (const Variant& v : tensor.raw_flat<Variant>())
      if (!v.empty())
        return InvalidArgument("TensorProto: expected empty variants, got a ",
                               v.value()->TypeName());
    return OkStatus();
  }
  if (tensor.dtype() == DType::kString) {
    AddValues(tensor, static_cast<int>(n), p);
    return OkStatus();
  }
  const char* data = static_cast<const char*>(tensor.raw());
  const size_t size = DTypeSize(tensor.dtype());
  if (n == 1 || AllEqual(data, size, static_cast<size_t>(n)))
    AddValues(tensor, 1, p);
  else if (n > 0)
    p->set_tensor_content(data, static_cast<size_t>(n) * size);
  return OkStatus();
}

Result<Tensor> ParseTensorProto(std::string_view bytes,
                                TensorProtoLimits* limits) {
  google::protobuf::LogSilencer quiet;  // The error is returned instead.
  proto::TensorProto p;
  if (bytes.size() > INT32_MAX ||
      !p.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return InvalidArgument("TensorProto: expected a serialised message, got ",
                           bytes.size(), " malformed bytes");
  return TensorFromProto(p, limits);
}

Result<std::string> SerializeTensorProto(const Tensor& tensor) {
  proto::TensorProto p;
  SLUICE_RETURN_IF_ERROR(TensorToProto(tensor, &p));
  if (p.ByteSizeLong() > INT32_MAX)
    return ResourceExhausted("TensorProto: expected at most 2 GiB, got ",
                             p.ByteSizeLong(), " bytes");
  return p.SerializeAsString();
}

}  // namespace sluice
