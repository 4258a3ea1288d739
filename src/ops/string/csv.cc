// DecodeCSV: lines of comma-separated values (RFC 4180) to columns.
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/elements.h"
#include "ops/string/parse_number.h"

namespace sluice {
namespace {

class DecodeCsvKernel {
 public:
  static Result<std::shared_ptr<DecodeCsvKernel>> Make(const Node& n) {
    auto k = std::make_shared<DecodeCsvKernel>();
    const auto delimiter = n.AttrOr<std::string>("field_delim", ",");
    if (delimiter.size() != 1)
      return InvalidArgument("field_delim: expected one character, got '",
                             delimiter, "'");
    k->delimiter_ = delimiter[0];
    k->quotes_ = n.BoolAttr("use_quote_delim");
    k->missing_ = n.AttrOr<std::string>("na_value", "");
    k->columns_ = n.AttrOr<AttrValue::Ints>("select_cols", {});
    if (!k->columns_.empty() &&
        static_cast<int>(k->columns_.size()) != n.num_outputs())
      return InvalidArgument("select_cols: expected ", n.num_outputs(),
                             " columns, one for each default, got ",
                             k->columns_.size());
    int64_t before = -1;
    for (int64_t c : k->columns_) {
      if (c <= before)
        return InvalidArgument(
            "select_cols: expected increasing columns >= 0, got ", c, " after ",
            before);
      before = c;
    }
    return k;
  }

  Status Run(KernelContext& ctx) const {
    const Tensor& records = ctx.input(0);
    const auto n = static_cast<size_t>(ctx.num_outputs());
    for (int f = 0; f < ctx.num_outputs(); ++f) {
      const Tensor& d = ctx.input(f + 1);
      if (d.rank() > 1 || d.num_elements() > 1)
        return InvalidArgument(
            "record_defaults: expected at most one value "
            "for field ",
            f, ", got shape ", d.shape().ToString());
      SLUICE_RETURN_IF_ERROR(ctx.Allocate(f, d.dtype(), records.shape()));
    }
    std::vector<std::string> fields;
    for (int64_t r = 0; r < records.num_elements(); ++r) {
      fields.clear();
      const Status split = Split(records.raw<std::string>()[r], &fields);
      if (!split.ok())
        return Annotate(split, absl::StrCat("records: record ", r));
      if (fields.size() != n)
        return InvalidArgument("records: expected ", n, " fields in record ", r,
                               ", got ", fields.size());
      for (int f = 0; f < ctx.num_outputs(); ++f)
        SLUICE_RETURN_IF_ERROR(SetField(fields[static_cast<size_t>(f)], f, r,
                                        ctx.input(f + 1), &ctx.output(f)));
    }
    return OkStatus();
  }

 private:
  Status SetField(const std::string& text, int f, int64_t r,
                  const Tensor& default_value, Tensor* out) const {
    if (text.empty() || text == missing_) {
      if (default_value.num_elements() != 1)
        return InvalidArgument("records: expected field ", f,
                               ", which has no default, in record ", r);
      array::CopyRun(out->dtype(), default_value.raw(),
                     array::At(out->dtype(), out->raw(), r), 1);
      return OkStatus();
    }
    bool ok = true;
    switch (out->dtype()) {
      case DType::kString:
        out->raw<std::string>()[r] = text;
        break;
      case DType::kInt32:
        ok = ParseNumberText(text, out->raw<int32_t>() + r);
        break;
      case DType::kInt64:
        ok = ParseNumberText(text, out->raw<int64_t>() + r);
        break;
      case DType::kFloat:
        ok = ParseNumberText(text, out->raw<float>() + r);
        break;
      default:
        ok = ParseNumberText(text, out->raw<double>() + r);
    }
    if (ok) return OkStatus();
    return InvalidArgument("records: expected ", DTypeName(out->dtype()),
                           " in field ", f, " of record ", r, ", got '",
                           absl::CHexEscape(text), "'");
  }

  // The selected fields of one record. Line ends between fields are skipped.
  Status Split(const std::string& in, std::vector<std::string>* out) const {
    int64_t column = 0;
    const auto wanted = [&] {
      return columns_.empty() ||
             (out->size() < columns_.size() && columns_[out->size()] == column);
    };
    size_t at = 0;
    while (at < in.size()) {
      if (in[at] == '\n' || in[at] == '\r') {
        ++at;
        continue;
      }
      std::string field;
      if (quotes_ && in[at] == '"') {
        SLUICE_RETURN_IF_ERROR(Quoted(in, &at, &field));
      } else {
        for (; at < in.size() && in[at] != delimiter_; ++at) {
          if ((quotes_ && in[at] == '"') || in[at] == '\n' || in[at] == '\r')
            return InvalidArgument(
                "expected no quote and no line end in a field without quotes, "
                "got '",
                absl::CHexEscape(in), "'");
          field += in[at];
        }
        ++at;
      }
      if (wanted()) {
        out->push_back(std::move(field));
        if (out->size() == columns_.size()) return OkStatus();
      }
      ++column;
    }
    if (!in.empty() && in.back() == delimiter_ && wanted()) out->emplace_back();
    return OkStatus();
  }

  // Parses a quoted field, from the opening quote to past the delimiter.
  Status Quoted(const std::string& in, size_t* at, std::string* field) const {
    for (size_t i = *at + 1; i < in.size(); ++i) {
      if (in[i] != '"') {
        *field += in[i];
      } else if (i + 1 == in.size() || in[i + 1] == delimiter_) {
        *at = i + 2;
        return OkStatus();
      } else if (in[i + 1] == '"') {
        *field += in[i++];
      } else {
        break;
      }
    }
    return InvalidArgument(
        "expected a quote at the end of a field and double quotes within it, "
        "got '",
        absl::CHexEscape(in), "'");
  }

  char delimiter_ = ',';
  bool quotes_ = true;
  std::string missing_;
  AttrValue::Ints columns_;  // Empty: all.
};

Status DecodeCsvShape(ShapeContext& c) {
  for (int i = 1; i < c.num_inputs(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(const PartialShape d, c.WithRankAtMost(i, 1));
    if (d.rank() == 1 && d.dim(0) > 1)
      return InvalidArgument(
          "record_defaults: expected at most one value each, got shape ",
          d.ToString());
  }
  c.set_all_outputs(c.input(0));
  return OkStatus();
}

SLUICE_OP(DecodeCSV)
    .Input("records: string")
    .Input("record_defaults: OUT_TYPE")
    .Output("output: OUT_TYPE")
    .Attr("OUT_TYPE: list({float, double, int32, int64, string}) >= 1")
    .Attr("field_delim: string = ','")
    .Attr("use_quote_delim: bool = true")
    .Attr("na_value: string = ''")
    .Attr("select_cols: list(int) = []")
    .Family("encoding")
    .Shape(DecodeCsvShape)
    .Kernel(CpuState<DecodeCsvKernel>())
    .NoGradient("strings have no derivative")
    .Sample({{.shape = {2}}, {.shape = {1}, .dtype = DType::kFloat}},
            {{"OUT_TYPE", AttrValue::Types{DType::kFloat}}})
    .Doc(
        "Parses lines of comma-separated values into one tensor per column, "
        "each with its own type.");

}  // namespace
}  // namespace sluice
