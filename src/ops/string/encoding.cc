// Bytes to tensors and back: raw elements, base64, compressed streams, and
// serialised tensors with type and shape.
#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "graph/tensor_proto.h"
#include "io/inflate.h"
#include "ops/common/elements.h"
#include "ops/common/tensor_bytes.h"

namespace sluice {
namespace {

// ---- Raw --------------------------------------------------------------------

// Reverses the bytes of each number. (A complex number counts as two.)
void SwapBytes(DType t, void* data, int64_t n) {
  size_t size = DTypeSize(t);
  if (IsComplex(t)) {
    size /= 2;
    n *= 2;
  }
  auto* p = static_cast<char*>(data);
  for (int64_t i = 0; size > 1 && i < n; ++i, p += size)
    std::reverse(p, p + size);
}

// DecodeRaw, and with a second input DecodePaddedRaw.
class DecodeRawKernel {
 public:
  explicit DecodeRawKernel(const Node& n)
      : type_(n.TypeAttr("out_type")), little_(n.BoolAttr("little_endian")) {}

  Status Run(KernelContext& ctx) const {
    const Tensor& in = ctx.input(0);
    const auto strings = in.raw_flat<std::string>();
    const auto size = static_cast<int64_t>(DTypeSize(type_));
    int64_t bytes =
        strings.empty() ? 0 : static_cast<int64_t>(strings[0].size());
    const bool padded = ctx.num_inputs() == 2;
    if (padded) {
      if (ctx.input(1).rank() != 0)
        return InvalidArgument("fixed_length: expected a scalar, got shape ",
                               ctx.input(1).shape().ToString());
      bytes = ctx.input(1).raw_scalar<int32_t>();
      if (bytes <= 0)
        return InvalidArgument("fixed_length: expected a value > 0, got ",
                               bytes);
    }
    for (size_t i = 0; !padded && i < strings.size(); ++i)
      if (static_cast<int64_t>(strings[i].size()) != bytes)
        return InvalidArgument("bytes: expected strings of one length, got ",
                               bytes, " and, as element ", i, ", ",
                               strings[i].size(), " bytes");
    if (bytes % size != 0)
      return InvalidArgument(
          padded ? "fixed_length" : "bytes", ": expected a multiple of ", size,
          ", the size of ", DTypeName(type_), ", got ", bytes);
    Dims dims = array::DimsOf(in.shape());
    dims.push_back(bytes / size);
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(dims));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, type_, shape));
    Tensor& out = ctx.output(0);
    auto* to = static_cast<char*>(out.raw());
    const auto width = static_cast<size_t>(bytes);
    for (const std::string& s : strings) {
      if (width == 0) break;
      const size_t n = std::min(s.size(), width);
      std::memcpy(to, s.data(), n);
      std::memset(to + n, 0, width - n);
      to += width;
    }
    if (!little_) SwapBytes(type_, out.raw(), out.num_elements());
    // Any nonzero byte is true; a bool must be stored as 0 or 1.
    if (type_ == DType::kBool)
      for (uint8_t* b = out.raw<uint8_t>();
           b != out.raw<uint8_t>() + out.num_elements(); ++b)
        *b = *b != 0;
    return OkStatus();
  }

 private:
  const DType type_;
  const bool little_;
};

Status DecodeRawShape(ShapeContext& c) {
  PartialShape out = c.input(0);
  int64_t width = -1;
  if (c.num_inputs() == 2) {
    SLUICE_RETURN_IF_ERROR(c.RequireScalar(1));
    const auto size =
        static_cast<int64_t>(DTypeSize(c.node().TypeAttr("out_type")));
    if (const auto n = c.ConstantInt(1)) {
      if (*n <= 0 || *n % size != 0)
        return InvalidArgument("fixed_length: expected a multiple of ", size,
                               " above 0, got ", *n);
      width = *n / size;
    }
  }
  if (!out.rank_known()) return OkStatus();
  out.add_dim(width);
  c.set_output(0, std::move(out));
  return OkStatus();
}

SLUICE_OP(DecodeRaw)
    .Input("bytes: string")
    .Output("output: out_type")
    .Attr(
        "out_type: {half, float, double, int32, uint16, uint8, int16, int8, "
        "int64, complex64, complex128, bool, bfloat16}")
    .Attr("little_endian: bool = true")
    .Family("encoding")
    .Shape(DecodeRawShape)
    .Kernel(CpuState<DecodeRawKernel>())
    .NoGradient("strings have no derivative")
    .Sample({{.shape = {2}, .values = {1, 2}}}, {{"out_type", DType::kUint8}})
    .Doc(
        "Interprets the bytes of each string as elements of a type, in an "
        "additional dimension.");

SLUICE_OP(DecodePaddedRaw)
    .Input("input_bytes: string")
    .Input("fixed_length: int32")
    .Output("output: out_type")
    .Attr(
        "out_type: {half, float, double, int32, uint16, uint8, int16, int8, "
        "int64, bfloat16}")
    .Attr("little_endian: bool = true")
    .Family("encoding")
    .Shape(DecodeRawShape)
    .Kernel(CpuState<DecodeRawKernel>())
    .NoGradient("strings have no derivative")
    .Sample({{.shape = {2}, .values = {1, 23}}, {.values = {4}}},
            {{"out_type", DType::kInt16}})
    .Doc(
        "Like DecodeRaw, with each string truncated or zero-padded to a fixed "
        "number of bytes.");

// ---- Base64 -----------------------------------------------------------------

class EncodeBase64Kernel {
 public:
  explicit EncodeBase64Kernel(const Node& n) : pad_(n.BoolAttr("pad")) {}
  Status Run(KernelContext& ctx) const {
    const Tensor& in = ctx.input(0);
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kString, in.shape()));
    std::string* out = ctx.output(0).raw<std::string>();
    for (const std::string& s : in.raw_flat<std::string>()) {
      absl::WebSafeBase64Escape(s, out);
      if (pad_) out->append((4 - out->size() % 4) % 4, '=');
      ++out;
    }
    return OkStatus();
  }

 private:
  const bool pad_;
};

// (Abseil's decoder also accepts white space and dots.)
bool IsWebSafeBase64(absl::string_view s) {
  for (char c : s)
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '-' &&
        c != '_')
      return false;
  return true;
}

Status RunDecodeBase64(KernelContext& ctx) {
  const Tensor& in = ctx.input(0);
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kString, in.shape()));
  std::string* out = ctx.output(0).raw<std::string>();
  for (const std::string& s : in.raw_flat<std::string>()) {
    absl::string_view text = s;
    if (text.size() % 4 == 0)
      for (int i = 0; i < 2 && !text.empty() && text.back() == '='; ++i)
        text.remove_suffix(1);
    if (text.size() % 4 == 1 || !IsWebSafeBase64(text) ||
        !absl::WebSafeBase64Unescape(text, out))
      return InvalidArgument("input: expected base64 with - and _, got '",
                             absl::CHexEscape(s), "'");
    ++out;
  }
  return OkStatus();
}

SLUICE_OP(EncodeBase64)
    .Input("input: string")
    .Output("output: string")
    .Attr("pad: bool = false")
    .Family("encoding")
    .Shape(UnchangedShape)
    .Kernel(CpuState<EncodeBase64Kernel>())
    .NoGradient("strings have no derivative")
    .Sample({{.shape = {2, 3}}})
    .Doc("Encodes each string in URL-safe base64.");

SLUICE_OP(DecodeBase64)
    .Input("input: string")
    .Output("output: string")
    .Family("encoding")
    .Shape(UnchangedShape)
    .Kernel(Cpu(RunDecodeBase64))
    .NoGradient("strings have no derivative")
    .Sample({{.shape = {2}, .values = {12, 3456}}})
    .Doc("Decodes URL-safe base64, with or without padding.");

// ---- Compressed -------------------------------------------------------------

class DecodeCompressedKernel {
 public:
  static Result<std::shared_ptr<DecodeCompressedKernel>> Make(const Node& n) {
    auto k = std::make_shared<DecodeCompressedKernel>();
    k->type_ = n.AttrOr<std::string>("compression_type", "");
    if (!k->type_.empty() && k->type_ != "ZLIB" && k->type_ != "GZIP")
      return InvalidArgument(
          "compression_type: expected '', 'ZLIB' or 'GZIP', got '", k->type_,
          "'");
    return k;
  }

  Status Run(KernelContext& ctx) const {
    const Tensor& in = ctx.input(0);
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kString, in.shape()));
    std::string* out = ctx.output(0).raw<std::string>();
    // The limit for all strings together: compressed data can expand a
    // thousandfold.
    size_t left = size_t{2} << 30;
    for (const std::string& s : in.raw_flat<std::string>()) {
      if (type_.empty()) {
        *out++ = s;
        continue;
      }
      SLUICE_ASSIGN_OR_RETURN(
          *out,
          InflateStream(
              s, type_ == "GZIP" ? StreamFormat::kGzip : StreamFormat::kZlib,
              left));
      left -= out++->size();
    }
    return OkStatus();
  }

 private:
  std::string type_;
};

SLUICE_OP(DecodeCompressed)
    .Input("bytes: string")
    .Output("output: string")
    .Attr("compression_type: string = ''")
    .Family("encoding")
    .Shape(UnchangedShape)
    .Kernel(CpuState<DecodeCompressedKernel>())
    .NoGradient("strings have no derivative")
    .Sample({{.shape = {2, 3}}})
    .Doc("Decompresses strings in zlib or gzip format.");

// ---- Tensors ----------------------------------------------------------------

// (TensorFlow serialises strings here as in graphs.)
Status RunSerializeTensor(KernelContext& ctx) {
  const Tensor& in = ctx.input(0);
  SLUICE_ASSIGN_OR_RETURN(std::string bytes, in.dtype() == DType::kString
                                                 ? SerializeTensorProto(in)
                                                 : TensorContentProto(in));
  ctx.set_output(0, Tensor::Scalar<std::string>(std::move(bytes)));
  return OkStatus();
}

class ParseTensorKernel {
 public:
  explicit ParseTensorKernel(const Node& n) : type_(n.TypeAttr("out_type")) {}
  Status Run(KernelContext& ctx) const {
    const Tensor& in = ctx.input(0);
    if (in.rank() != 0)
      return InvalidArgument("serialized: expected a scalar, got shape ",
                             in.shape().ToString());
    SLUICE_ASSIGN_OR_RETURN(Tensor t,
                            ParseTensorProto(in.raw_scalar<std::string>()));
    if (t.dtype() != type_)
      return InvalidArgument("serialized: expected a tensor of ",
                             DTypeName(type_), ", got one of ",
                             DTypeName(t.dtype()));
    ctx.set_output(0, std::move(t));
    return OkStatus();
  }

 private:
  const DType type_;
};

Status ParseTensorShape(ShapeContext& c) { return c.RequireScalar(0); }

SLUICE_OP(SerializeTensor)
    .Input("tensor: T")
    .Output("serialized: string")
    .Attr("T: type")
    .Family("encoding")
    .Shape(ScalarShape)
    .Kernel(Cpu(RunSerializeTensor))
    .NoGradient("strings have no derivative")
    .Sample({{.shape = {2, 3}}})
    .Doc("Serialises a tensor as a TensorProto.");

SLUICE_OP(ParseTensor)
    .Input("serialized: string")
    .Output("output: out_type")
    .Attr("out_type: type")
    .Family("encoding")
    .Shape(ParseTensorShape)
    .Kernel(CpuState<ParseTensorKernel>())
    .NoGradient("strings have no derivative")
    .Doc("Parses a serialised TensorProto.");

}  // namespace
}  // namespace sluice
