// Formatting tensors into text.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/elements.h"

namespace sluice {
namespace {

// One tensor as TensorFlow's tf.print and tf.strings.format show it: nested
// brackets with one line per row, with only the first and last `ends` entries
// of every dimension.
class TensorText {
 public:
  TensorText(const Tensor& t, int64_t summarize)
      : tensor_(t),
        ends_(summarize < 0 ? t.num_elements()
                            : std::min(summarize, t.num_elements())) {}

  std::string Write() {
    const int64_t n = tensor_.num_elements();
    // As in TensorFlow, bools are then shown as nothing, and complex numbers as
    // "?".
    if (tensor_.dtype() == DType::kBool && ends_ == 0) return out_;
    if (IsComplex(tensor_.dtype())) {
      if (tensor_.rank() > 0) out_ += '[';
      for (int64_t i = 0; i < ends_; ++i) out_ += i > 0 ? " ?" : "?";
      if (ends_ < n) out_ += "...";
      if (tensor_.rank() > 0) out_ += ']';
      return out_;
    }
    if (tensor_.rank() == 0 && ends_ == 0) return "...";
    Dimension(0, 0);
    return out_;
  }

 private:
  void Dimension(int d, int64_t at) {
    if (d == tensor_.rank()) {
      Element(at);
      return;
    }
    out_ += '[';
    const int64_t n = tensor_.dim(d);
    const int64_t inner =
        array::Product(tensor_.shape().dims(), d + 1, tensor_.rank());
    for (int64_t i = 0; i < ends_ && i < n; ++i) {
      if (i > 0) Space(d);
      Dimension(d + 1, at + i * inner);
    }
    if (n > 2 * ends_) {
      Space(d);
      out_ += "...";
    }
    for (int64_t i = std::max(ends_, n - ends_); i < n; ++i) {
      Space(d);
      Dimension(d + 1, at + i * inner);
    }
    out_ += ']';
  }

  void Space(int d) {
    const int inner = tensor_.rank() - d - 1;
    out_.append(static_cast<size_t>(inner), '\n');
    out_.append(inner == 0 ? 1 : static_cast<size_t>(d) + 1, ' ');
  }

  void Element(int64_t i) {
    switch (tensor_.dtype()) {
      case DType::kString:
        absl::StrAppend(&out_, "\"",
                        absl::Utf8SafeCEscape(tensor_.raw<std::string>()[i]),
                        "\"");
        return;
      case DType::kBool:
        out_ += tensor_.raw<bool>()[i] ? '1' : '0';
        return;
      case DType::kFloat:
        return Fraction(tensor_.raw<float>()[i]);
      case DType::kHalf:
        return Fraction(static_cast<float>(tensor_.raw<half>()[i]));
      case DType::kBfloat16:
        return Fraction(static_cast<float>(tensor_.raw<bfloat16>()[i]));
      case DType::kDouble:
        return Fraction(tensor_.raw<double>()[i]);
      case DType::kResource:
      case DType::kVariant:
        out_ += '?';
        return;
      case DType::kUint64:
        absl::StrAppend(&out_, tensor_.raw<uint64_t>()[i]);
        return;
      default:
        absl::StrAppend(&out_, array::IntAt(tensor_, i));
    }
  }

  // With few digits if they represent the number exactly, else with all digits.
  template <typename T>
  void Fraction(T v) {
    constexpr bool kDouble = std::is_same_v<T, double>;
    char text[40];
    std::snprintf(text, sizeof(text), "%.*g", kDouble ? 15 : 6,
                  static_cast<double>(v));
    if (static_cast<T>(std::strtod(text, nullptr)) != v)
      std::snprintf(text, sizeof(text), "%.*g", kDouble ? 17 : 9,
                    static_cast<double>(v));
    out_ += v != v ? "nan" : text;
  }

  const Tensor& tensor_;
  const int64_t ends_;
  std::string out_;
};

class StringFormatKernel {
 public:
  static Result<std::shared_ptr<StringFormatKernel>> Make(const Node& n) {
    auto k = std::make_shared<StringFormatKernel>();
    const std::string text = n.AttrOr<std::string>("template", "%s");
    const std::string place = n.AttrOr<std::string>("placeholder", "%s");
    k->summarize_ = n.AttrOr<int64_t>("summarize", 3);
    size_t begin = 0;
    for (size_t at;
         !place.empty() && (at = text.find(place, begin)) != std::string::npos;
         begin = at + place.size())
      k->pieces_.push_back(text.substr(begin, at - begin));
    k->pieces_.push_back(text.substr(begin));
    if (static_cast<int>(k->pieces_.size()) != n.num_inputs() + 1)
      return InvalidArgument("template: expected a placeholder for each of ",
                             n.num_inputs(), " inputs, got ",
                             k->pieces_.size() - 1);
    return k;
  }

  Status Run(KernelContext& ctx) const {
    std::string out = pieces_[0];
    for (int i = 0; i < ctx.num_inputs(); ++i)
      absl::StrAppend(&out, TensorText(ctx.input(i), summarize_).Write(),
                      pieces_[static_cast<size_t>(i) + 1]);
    ctx.set_output(0, Tensor::Scalar<std::string>(std::move(out)));
    return OkStatus();
  }

 private:
  std::vector<std::string> pieces_;  // The text between the placeholders.
  int64_t summarize_ = 3;
};

SLUICE_OP(StringFormat)
    .Input("inputs: T")
    .Output("output: string")
    .Attr("T: list(type) >= 0")
    .Attr("template: string = '%s'")
    .Attr("placeholder: string = '%s'")
    .Attr("summarize: int = 3")
    .Family("string")
    .Shape(ScalarShape)
    .Kernel(CpuState<StringFormatKernel>())
    .NoGradient("strings have no derivative")
    .Sample({{.shape = {2, 9}}, {.shape = {2}, .dtype = DType::kInt32}},
            {{"T", AttrValue::Types{DType::kFloat, DType::kInt32}},
             {"template", "%s and %s"}})
    .Doc(
        "Replaces each placeholder of the template by the text of a tensor, "
        "with at most the first and last `summarize` entries of each "
        "dimension.");

}  // namespace
}  // namespace sluice
