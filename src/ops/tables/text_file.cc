// Tables that are initialised from the lines of a text file.
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "graph/op_def.h"
#include "io/file.h"
#include "ops/string/parse_number.h"
#include "ops/tables/table.h"

namespace sluice {
namespace {

using tables::Table;
using tables::TableInput;

constexpr int64_t kWholeLine = -2;
constexpr int64_t kLineNumber = -1;

class TextFileKernel {
 public:
  static Result<std::shared_ptr<TextFileKernel>> Make(const Node& n) {
    auto k = std::make_shared<TextFileKernel>(n);
    if (k->delimiter_.size() != 1)
      return InvalidArgument("delimiter: expected one character, got '",
                             k->delimiter_, "'");
    return k;
  }
  explicit TextFileKernel(const Node& n)
      : key_(n.IntAttr("key_index")),
        value_(n.IntAttr("value_index")),
        vocabulary_(n.IntAttr("vocab_size")),
        offset_(n.IntAttr("offset")),
        delimiter_(n.AttrOr<std::string>("delimiter", "\t")) {}

  Status Run(KernelContext& ctx) const {
    SLUICE_ASSIGN_OR_RETURN(Table * table, TableInput(ctx));
    const Tensor& name = ctx.input(1);
    if (name.rank() != 0)
      return InvalidArgument("filename: expected a scalar, got shape ",
                             name.shape().ToString());
    // As in TensorFlow, nothing happens the second time.
    if (table->initialized()) return OkStatus();
    const std::string& path = name.raw_scalar<std::string>();
    SLUICE_RETURN_IF_ERROR(CheckIndex("key", key_, table->options().key_type));
    SLUICE_RETURN_IF_ERROR(
        CheckIndex("value", value_, table->options().value_type));
    SLUICE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
    SLUICE_ASSIGN_OR_RETURN(const std::vector<absl::string_view> lines,
                            LinesOf(text, path));
    const Shape shape({static_cast<int64_t>(lines.size())});
    SLUICE_ASSIGN_OR_RETURN(Tensor keys,
                            Tensor::Make(table->options().key_type, shape));
    SLUICE_ASSIGN_OR_RETURN(Tensor values,
                            Tensor::Make(table->options().value_type, shape));
    const int64_t columns = std::max(key_, value_) + 1;
    std::vector<absl::string_view> fields;
    for (size_t i = 0; i < lines.size(); ++i) {
      if (columns > 0) {
        fields = absl::StrSplit(lines[i], delimiter_[0]);
        if (static_cast<int64_t>(fields.size()) < columns)
          return InvalidArgument("file '", path, "' line ", i,
                                 ": expected at least ", columns,
                                 " columns, got ", fields.size());
      }
      for (Tensor* t : {&keys, &values}) {
        const int64_t index = t == &keys ? key_ : value_;
        const auto line = static_cast<int64_t>(i);
        if (index == kLineNumber)
          t->raw<int64_t>()[i] = line + offset_;
        else if (!Set(index == kWholeLine ? lines[i]
                                          : fields[static_cast<size_t>(index)],
                      line, t))
          return InvalidArgument(
              "file '", path, "' line ", i, ": expected a valid ",
              DTypeName(t->dtype()), ", got '",
              index == kWholeLine ? lines[i]
                                  : fields[static_cast<size_t>(index)],
              "'");
      }
    }
    return Annotate(table->Initialize(keys, values),
                    absl::StrCat("file '", path, "'"));
  }

 private:
  static Status CheckIndex(const char* what, int64_t index, DType type) {
    if (index == kLineNumber && type != DType::kInt64)
      return InvalidArgument(what, "_index: expected a table with int64 ", what,
                             "s for line numbers, got ", DTypeName(type));
    return OkStatus();
  }

  // The lines that are read, without their ends.
  Result<std::vector<absl::string_view>> LinesOf(
      const std::string& text, const std::string& path) const {
    std::vector<absl::string_view> lines;
    size_t begin = 0;
    while (begin < text.size()) {
      if (vocabulary_ >= 0 && static_cast<int64_t>(lines.size()) == vocabulary_)
        break;
      const size_t end = std::min(text.find('\n', begin), text.size());
      size_t last = end;
      while (last > begin && text[last - 1] == '\r') --last;
      if (last == begin)
        return InvalidArgument("file '", path,
                               "': expected no empty line, got ",
                               "one at byte ", begin);
      lines.emplace_back(text.data() + begin, last - begin);
      begin = end + 1;
    }
    if (lines.empty())
      return OutOfRange("file '", path, "': expected at least one line, got ",
                        "none");
    if (vocabulary_ >= 0 && static_cast<int64_t>(lines.size()) < vocabulary_)
      return InvalidArgument("vocab_size: expected ", vocabulary_,
                             " lines in file '", path, "', got ", lines.size());
    return lines;
  }

  static bool Set(absl::string_view text, int64_t i, Tensor* t) {
    switch (t->dtype()) {
      case DType::kString:
        t->raw<std::string>()[i] = std::string(text);
        return true;
      case DType::kInt32:
        return ParseNumberText(text, t->raw<int32_t>() + i);
      case DType::kInt64:
        return ParseNumberText(text, t->raw<int64_t>() + i);
      case DType::kFloat:
        return ParseNumberText(text, t->raw<float>() + i);
      case DType::kDouble:
        return ParseNumberText(text, t->raw<double>() + i);
      default:
        return false;
    }
  }

  const int64_t key_, value_, vocabulary_, offset_;
  const std::string delimiter_;
};

Status TextFileShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(state::RequireHandle(c, 0));
  return c.RequireScalar(1);
}

#define SLUICE_TEXT_FILE_OP(Name, handle)                                     \
  SLUICE_OP(Name)                                                             \
      .Input(handle)                                                          \
      .Input("filename: string")                                              \
      .Attr("key_index: int >= -2")                                           \
      .Attr("value_index: int >= -2")                                         \
      .Attr("vocab_size: int >= -1 = -1")                                     \
      .Attr("delimiter: string = '\t'")                                       \
      .Attr("offset: int = 0")                                                \
      .Family("data_flow")                                                    \
      .ReachesHost([](const Node&) -> std::string { return "reads a file"; }) \
      .Shape(TextFileShape)                                                   \
      .Kernel(CpuState<TextFileKernel>(/*expensive=*/true))                   \
      .NoGradient("a table has no derivative")                                \
      .Doc("Fills a table that is initialised once from the lines of a file.")

SLUICE_TEXT_FILE_OP(InitializeTableFromTextFile, "table_handle: Ref(string)");
SLUICE_TEXT_FILE_OP(InitializeTableFromTextFileV2, "table_handle: resource")
    .Stateful();

}  // namespace
}  // namespace sluice
