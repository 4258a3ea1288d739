// Ops on single strings: substrings, lengths, case, and parsing of numbers.
#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/elements.h"
#include "ops/string/letter_case.h"
#include "ops/string/parse_number.h"

namespace sluice {
namespace {

bool IsCharStart(char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }

// ---- Substr -----------------------------------------------------------------

class SubstrKernel {
 public:
  explicit SubstrKernel(const Node& n)
      : chars_(n.AttrOr<std::string>("unit", "BYTE") == "UTF8_CHAR") {}

  Status Run(KernelContext& ctx) const {
    const Tensor& in = ctx.input(0);
    const Tensor& pos = ctx.input(1);
    const Tensor& len = ctx.input(2);
    if (!(pos.shape() == len.shape()))
      return InvalidArgument("pos and len: expected one shape, got ",
                             pos.shape().ToString(), " and ",
                             len.shape().ToString());
    SLUICE_ASSIGN_OR_RETURN(const PartialShape both,
                            BroadcastShapes(in.shape(), pos.shape()));
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(both.dims()));
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kString, shape));
    std::string* out = ctx.output(0).raw<std::string>();
    for (int64_t i = 0; i < shape.num_elements(); ++i) {
      const std::string& s =
          in.raw<std::string>()[Offset(i, shape, in.shape())];
      const int64_t at = Offset(i, shape, pos.shape());
      const int64_t p = array::IntAt(pos, at), n = array::IntAt(len, at);
      if (!(chars_ ? Chars(s, p, n, out + i) : Bytes(s, p, n, out + i)))
        return InvalidArgument("pos: expected a place in the string '",
                               absl::CHexEscape(s), "' of element ", i,
                               ", got ", p);
    }
    return OkStatus();
  }

 private:
  // The position of result element `linear` in a broadcast input.
  static int64_t Offset(int64_t linear, const Shape& out, const Shape& in) {
    int64_t offset = 0, stride = 1;
    for (int d = in.rank() - 1, o = out.rank() - 1; d >= 0; --d, --o) {
      if (in.dim(d) > 1) offset += linear % out.dim(o) * stride;
      stride *= in.dim(d);
      linear /= out.dim(o);
    }
    return offset;
  }
  // A negative position counts from the end, a negative length means the rest.
  static bool Bytes(const std::string& s, int64_t pos, int64_t len,
                    std::string* out) {
    const auto size = static_cast<int64_t>(s.size());
    if (pos < -size || pos > size) return false;
    *out = s.substr(static_cast<size_t>(pos < 0 ? pos + size : pos),
                    static_cast<size_t>(len));
    return true;
  }
  // The same in characters, except that a negative length means none, as in
  // TensorFlow.
  static bool Chars(const std::string& s, int64_t pos, int64_t len,
                    std::string* out) {
    size_t begin = 0;
    if (pos < 0) {
      begin = s.size();
      for (; pos < 0; ++pos) {
        if (begin == 0) return false;
        do --begin;
        while (begin > 0 && !IsCharStart(s[begin]));
      }
    } else {
      for (; pos > 0; --pos) {
        if (begin == s.size()) return false;
        begin = NextChar(s, begin);
      }
    }
    size_t end = begin;
    for (; len > 0 && end < s.size(); --len) end = NextChar(s, end);
    *out = s.substr(begin, end - begin);
    return true;
  }
  static size_t NextChar(const std::string& s, size_t at) {
    do ++at;
    while (at < s.size() && !IsCharStart(s[at]));
    return at;
  }

  const bool chars_;
};

Status SubstrShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape pos,
                          c.input(1).MergeWith(c.input(2)));
  SLUICE_ASSIGN_OR_RETURN(PartialShape out, BroadcastShapes(c.input(0), pos));
  c.set_output(0, std::move(out));
  return OkStatus();
}

SLUICE_OP(Substr)
    .Input("input: string")
    .Input("pos: T")
    .Input("len: T")
    .Output("output: string")
    .Attr("T: {int32, int64}")
    .Attr("unit: {'BYTE', 'UTF8_CHAR'} = 'BYTE'")
    .Family("string")
    .Shape(SubstrShape)
    .Kernel(CpuState<SubstrKernel>())
    .NoGradient("strings have no derivative")
    .Sample({{.shape = {2, 3}}, {.values = {1}}, {.values = {3}}})
    .Sample({{.shape = {2, 1}},
             {.shape = {3}, .values = {0, -2, 1}},
             {.shape = {3}, .values = {3, 1, 0}}},
            {{"unit", "UTF8_CHAR"}})
    .Doc(
        "Returns up to `len` bytes or characters of each string, starting at "
        "`pos`; a negative `pos` counts from the end.");

// ---- Length, case, strip ----------------------------------------------------

class StringLengthKernel {
 public:
  explicit StringLengthKernel(const Node& n)
      : chars_(n.AttrOr<std::string>("unit", "BYTE") == "UTF8_CHAR") {}

  Status Run(KernelContext& ctx) const {
    const Tensor& in = ctx.input(0);
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kInt32, in.shape()));
    int32_t* out = ctx.output(0).raw<int32_t>();
    for (const std::string& s : in.raw_flat<std::string>())
      *out++ = static_cast<int32_t>(
          chars_ ? std::count_if(s.begin(), s.end(), IsCharStart)
                 : static_cast<int64_t>(s.size()));
    return OkStatus();
  }

 private:
  const bool chars_;
};

// StringLower and StringUpper: ASCII letters, or all of Unicode with
// language-independent rules.
class StringCaseKernel {
 public:
  static Result<std::shared_ptr<StringCaseKernel>> Make(const Node& n) {
    auto k = std::make_shared<StringCaseKernel>();
    const std::string encoding = n.AttrOr<std::string>("encoding", "");
    if (!encoding.empty() && encoding != "utf-8")
      return InvalidArgument("encoding: expected 'utf-8' or '', got '",
                             encoding, "'");
    k->unicode_ = !encoding.empty();
    k->upper_ = n.op_name() == "StringUpper";
    return k;
  }

  Status Run(KernelContext& ctx) const {
    const Tensor& in = ctx.input(0);
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kString, in.shape()));
    std::string* out = ctx.output(0).raw<std::string>();
    for (const std::string& s : in.raw_flat<std::string>()) {
      if (unicode_) {
        SLUICE_ASSIGN_OR_RETURN(*out, upper_ ? Utf8Upper(s) : Utf8Lower(s));
      } else {
        *out = upper_ ? absl::AsciiStrToUpper(s) : absl::AsciiStrToLower(s);
      }
      ++out;
    }
    return OkStatus();
  }

 private:
  bool unicode_ = false, upper_ = false;
};

Status RunStringStrip(KernelContext& ctx) {
  const Tensor& in = ctx.input(0);
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kString, in.shape()));
  std::string* out = ctx.output(0).raw<std::string>();
  for (const std::string& s : in.raw_flat<std::string>())
    *out++ = std::string(absl::StripAsciiWhitespace(s));
  return OkStatus();
}

SLUICE_OP(StringLength)
    .Input("input: string")
    .Output("output: int32")
    .Attr("unit: {'BYTE', 'UTF8_CHAR'} = 'BYTE'")
    .Family("string")
    .Shape(UnchangedShape)
    .Kernel(CpuState<StringLengthKernel>())
    .NoGradient("strings have no derivative")
    .Sample({{.shape = {2, 3}}})
    .Doc("The length of each string in bytes or characters.");

SLUICE_OP(StringLower)
    .Input("input: string")
    .Output("output: string")
    .Attr("encoding: string = ''")
    .Family("string")
    .Shape(UnchangedShape)
    .Kernel(CpuState<StringCaseKernel>())
    .NoGradient("strings have no derivative")
    .Sample({{.shape = {2, 3}}})
    .Doc(
        "Converts strings to lower case: ASCII only, or Unicode with encoding "
        "'utf-8'.");

SLUICE_OP(StringUpper)
    .Input("input: string")
    .Output("output: string")
    .Attr("encoding: string = ''")
    .Family("string")
    .Shape(UnchangedShape)
    .Kernel(CpuState<StringCaseKernel>())
    .NoGradient("strings have no derivative")
    .Sample({{.shape = {2, 3}}}, {{"encoding", "utf-8"}})
    .Doc(
        "Converts strings to upper case: ASCII only, or Unicode with encoding "
        "'utf-8'.");

SLUICE_OP(StringStrip)
    .Input("input: string")
    .Output("output: string")
    .Family("string")
    .Shape(UnchangedShape)
    .Kernel(Cpu(RunStringStrip))
    .NoGradient("strings have no derivative")
    .Sample({{.shape = {2, 3}}})
    .Doc("Removes white space from both ends of the strings.");

// ---- Numbers ----------------------------------------------------------------

template <typename T>
struct StringToNumberKernel {
  static Status Run(KernelContext& ctx) {
    const Tensor& in = ctx.input(0);
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DTypeOf<T>(), in.shape()));
    T* out = ctx.output(0).template raw<T>();
    for (const std::string& s : in.raw_flat<std::string>())
      if (!ParseNumberText(s, out++))
        return InvalidArgument("string_tensor: expected ",
                               DTypeName(DTypeOf<T>()), " as text, got '",
                               absl::CHexEscape(s), "'");
    return OkStatus();
  }
};

SLUICE_OP(StringToNumber)
    .Input("string_tensor: string")
    .Output("output: out_type")
    .Attr("out_type: {float, double, int32, int64, uint32, uint64} = DT_FLOAT")
    .Family("string")
    .Shape(UnchangedShape)
    .Kernel(CpuFor<StringToNumberKernel, float, double, int32_t, int64_t,
                   uint32_t, uint64_t>("out_type"))
    .NoGradient("strings have no derivative")
    .Sample({{.shape = {2, 3}}})
    .Doc("Parses strings as numbers.");

}  // namespace
}  // namespace sluice
