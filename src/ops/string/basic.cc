// Numbers to strings, and concatenation of strings.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <iterator>
#include <string>
#include <type_traits>
#include <vector>

#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "tensor/compute_type.h"

namespace sluice {
namespace {

// ---- AsString ---------------------------------------------------------------

class AsStringKernel {
  static constexpr int64_t kMaxDigits = 4096;
  template <typename T>
  static constexpr bool IsReal =
      std::is_same_v<T, half> || std::is_same_v<T, bfloat16> ||
      std::is_floating_point_v<T>;

 public:
  static Result<std::shared_ptr<AsStringKernel>> Make(const Node& n) {
    auto k = std::make_shared<AsStringKernel>();
    const DType t = k->type_ = n.TypeAttr("T");
    const int64_t precision = n.AttrOr<int64_t>("precision", -1);
    const int64_t width = n.AttrOr<int64_t>("width", -1);
    const bool scientific = n.BoolAttr("scientific");
    const bool shortest = n.BoolAttr("shortest");
    const std::string fill = n.AttrOr<std::string>("fill", "");
    const bool fraction = IsFloating(t) || IsComplex(t);
    if (t == DType::kVariant) return NoKernelFor(n, t);
    if (fill.size() > 1)
      return InvalidArgument("fill: expected at most one character, got '",
                             fill, "'");
    if (!fill.empty() &&
        std::string("0+- #").find(fill[0]) == std::string::npos)
      return InvalidArgument(
          "fill: expected one of '0', '+', '-', '#' and ' ', got '", fill, "'");
    if (scientific && shortest)
      return InvalidArgument(
          "scientific, shortest: expected at most one of them, got both");
    if (!fraction && (scientific || shortest || precision >= 0))
      return InvalidArgument(
          "scientific, shortest, precision: expected none of them for ",
          DTypeName(t), ", got one");
    if (precision > kMaxDigits || width > kMaxDigits)
      return InvalidArgument("precision, width: expected at most ", kMaxDigits,
                             ", got ", precision, " and ", width);
    k->width_ = static_cast<size_t>(std::max<int64_t>(width, 0));
    k->left_ = fill == "-";
    k->plain_ = fill.empty() && width < 0;
    k->digits_ = precision >= 0 ? static_cast<int>(precision) : 6;
    k->chars_ = shortest     ? std::chars_format::general
                : scientific ? std::chars_format::scientific
                             : std::chars_format::fixed;
    std::string flags = "%" + fill;
    if (width >= 0) absl::StrAppend(&flags, width);
    if (precision >= 0) absl::StrAppend(&flags, ".", precision);
    if (fraction) {
      k->format_ = flags + (shortest ? "g" : scientific ? "e" : "f");
    } else {
      const bool is_unsigned = t == DType::kUint8 || t == DType::kUint16 ||
                               t == DType::kUint32 || t == DType::kUint64;
      k->format_ = flags + (is_unsigned ? "llu" : "lld");
    }
    return k;
  }

  Status Run(KernelContext& ctx) const {
    const Tensor& x = ctx.input(0);
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kString, x.shape()));
    std::string* out = ctx.output(0).raw<std::string>();
    switch (type_) {
      case DType::kFloat:
        return Fill<float>(x, out);
      case DType::kDouble:
        return Fill<double>(x, out);
      case DType::kHalf:
        return Fill<half>(x, out);
      case DType::kBfloat16:
        return Fill<bfloat16>(x, out);
      case DType::kInt8:
        return Fill<int8_t>(x, out);
      case DType::kInt16:
        return Fill<int16_t>(x, out);
      case DType::kInt32:
        return Fill<int32_t>(x, out);
      case DType::kInt64:
        return Fill<int64_t>(x, out);
      case DType::kUint8:
        return Fill<uint8_t>(x, out);
      case DType::kUint16:
        return Fill<uint16_t>(x, out);
      case DType::kUint32:
        return Fill<uint32_t>(x, out);
      case DType::kUint64:
        return Fill<uint64_t>(x, out);
      case DType::kBool:
        return Fill<bool>(x, out);
      case DType::kString:
        return Fill<std::string>(x, out);
      case DType::kComplex64:
        return Fill<complex64>(x, out);
      case DType::kComplex128:
        return Fill<complex128>(x, out);
      default:
        return Internal("AsString: expected a type it knows, got ",
                        DTypeName(type_));
    }
  }

 private:
  template <typename T>
  Status Fill(const Tensor& x, std::string* out) const {
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
        if (plain_) {
          char digits[24];
          out[i].assign(digits, std::to_chars(std::begin(digits),
                                              std::end(digits), x.raw<T>()[i])
                                    .ptr);
          continue;
        }
      }
      if constexpr (IsReal<T>) {
        if (plain_) {
          // (Also those of the greatest double, with the most digits allowed.)
          char digits[320 + kMaxDigits];
          const auto v = static_cast<ComputeType<T>>(x.raw<T>()[i]);
          out[i].assign(digits,
                        std::to_chars(std::begin(digits), std::end(digits),
                                      double{v}, chars_, digits_)
                            .ptr);
          continue;
        }
      }
      out[i] = Text(x.raw<T>()[i]);
    }
    return OkStatus();
  }
  std::string Text(bool v) const { return v ? "true" : "false"; }
  std::string Text(const std::string& v) const {
    if (v.size() >= width_) return v;
    const std::string spaces(width_ - v.size(), ' ');
    return left_ ? v + spaces : spaces + v;
  }
  template <typename F>
  std::string Text(const std::complex<F>& v) const {
    return absl::StrCat("(", Text(v.real()), ",", Text(v.imag()), ")");
  }
  template <typename T>
  std::string Text(T v) const {
    if constexpr (std::is_integral_v<T> && std::is_unsigned_v<T>)
      return Print(static_cast<unsigned long long>(v));  // NOLINT: printf's.
    else if constexpr (std::is_integral_v<T>)
      return Print(static_cast<long long>(v));  // NOLINT
    else
      return Print(static_cast<double>(static_cast<float>(v)));
  }
  std::string Text(double v) const { return Print(v); }

  template <typename T>
  std::string Print(T v) const {
    char some[64];
    const int n = std::snprintf(some, sizeof(some), format_.c_str(), v);
    if (n < static_cast<int>(sizeof(some))) return std::string(some, n);
    std::string all(static_cast<size_t>(n), '\0');
    std::snprintf(all.data(), all.size() + 1, format_.c_str(), v);
    return all;
  }

  DType type_ = DType::kInvalid;
  std::string format_;  // For printf; built from checked parts.
  bool plain_ = false;  // It adds nothing to the digits of a number...
  int digits_ = 6;      // ...of this precision and form, if it is a float.
  std::chars_format chars_ = std::chars_format::fixed;
  size_t width_ = 0;   // For strings: the minimum width in bytes,
  bool left_ = false;  // and whether they are left-aligned.
};

SLUICE_OP(AsString)
    .Input("input: T")
    .Output("output: string")
    .Attr(
        "T: {float, double, int32, uint8, int16, int8, int64, bfloat16, "
        "uint16, half, uint32, uint64, complex64, complex128, bool, variant, "
        "string}")
    .Attr("precision: int = -1")
    .Attr("scientific: bool = false")
    .Attr("shortest: bool = false")
    .Attr("width: int = -1")
    .Attr("fill: string = ''")
    .Family("string")
    .Shape(UnchangedShape)
    .Kernel(CpuState<AsStringKernel>())
    .NoGradient("strings have no derivative")
    .Sample({{.shape = {2, 3}}})
    .Doc("Formats the elements as text, like printf.");

// ---- StringJoin -------------------------------------------------------------

class StringJoinKernel {
 public:
  explicit StringJoinKernel(const Node& n)
      : separator_(n.AttrOr<std::string>("separator", "")) {}

  Status Run(KernelContext& ctx) const {
    Shape shape;
    bool found = false;
    for (int i = 0; i < ctx.num_inputs(); ++i) {
      const Tensor& t = ctx.input(i);
      if (t.rank() == 0) continue;
      if (found && !(t.shape() == shape))
        return InvalidArgument(
            "inputs: expected scalars and tensors of one shape, got shapes ",
            shape.ToString(), " and ", t.shape().ToString());
      shape = t.shape();
      found = true;
    }
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kString, shape));
    std::string* out = ctx.output(0).raw<std::string>();
    for (int64_t k = 0; k < shape.num_elements(); ++k)
      for (int i = 0; i < ctx.num_inputs(); ++i) {
        const Tensor& t = ctx.input(i);
        if (i > 0) out[k] += separator_;
        out[k] += t.raw<std::string>()[t.rank() == 0 ? 0 : k];
      }
    return OkStatus();
  }

 private:
  const std::string separator_;
};

Status StringJoinShape(ShapeContext& c) {
  PartialShape all = PartialShape::Scalar();
  bool known = true;
  for (int i = 0; i < c.num_inputs(); ++i) {
    const PartialShape& s = c.input(i);
    known = known && s.rank_known();
    if (!s.rank_known() || s.rank() == 0) continue;
    if (all.rank() == 0) {
      all = s;
    } else {
      SLUICE_ASSIGN_OR_RETURN(all, all.MergeWith(s));
    }
  }
  c.set_output(0, known || all.rank() > 0 ? all : PartialShape::Unknown());
  return OkStatus();
}

SLUICE_OP(StringJoin)
    .Input("inputs: N * string")
    .Output("output: string")
    .Attr("N: int >= 0")
    .Attr("separator: string = ''")
    .Family("string")
    .Shape(StringJoinShape)
    .Kernel(CpuState<StringJoinKernel>())
    .NoGradient("strings have no derivative")
    .Doc("Concatenates strings elementwise; scalars are broadcast.");

}  // namespace
}  // namespace sluice
