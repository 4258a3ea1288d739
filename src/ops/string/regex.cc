// Regular expressions, with RE2: linear time in the text for any pattern.
#include <re2/re2.h>

#include <memory>
#include <mutex>
#include <string>

#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"

namespace sluice {
namespace {

Result<std::shared_ptr<const RE2>> CompilePattern(const std::string& pattern) {
  auto re = std::make_shared<const RE2>(pattern, RE2::Quiet);
  if (re->ok()) return re;
  return InvalidArgument("pattern: expected a regular expression of RE2, got '",
                         pattern, "': ", re->error());
}

// The compiled pattern of the last run: most graphs always use the same one.
class LastPattern {
 public:
  Result<std::shared_ptr<const RE2>> Get(const std::string& pattern) {
    {
      std::lock_guard<std::mutex> lock(mu_);
      if (last_ != nullptr && last_->pattern() == pattern) return last_;
    }
    SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<const RE2> re,
                            CompilePattern(pattern));
    std::lock_guard<std::mutex> lock(mu_);
    last_ = re;
    return re;
  }

 private:
  std::mutex mu_;
  std::shared_ptr<const RE2> last_;
};

Result<std::string> ScalarText(const Tensor& t, const char* what) {
  if (t.rank() != 0)
    return InvalidArgument(what, ": expected a scalar, got shape ",
                           t.shape().ToString());
  return t.raw_scalar<std::string>();
}

Status MatchAll(KernelContext& ctx, const RE2& re) {
  const Tensor& in = ctx.input(0);
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kBool, in.shape()));
  bool* out = ctx.output(0).raw<bool>();
  for (const std::string& s : in.raw_flat<std::string>())
    *out++ = RE2::FullMatch(s, re);
  return OkStatus();
}

// A rewrite with a group that the pattern lacks changes nothing, as in
// TensorFlow; RE2 would also log an error for every string.
Status ReplaceIn(KernelContext& ctx, const RE2& re, const std::string& rewrite,
                 bool global) {
  const Tensor& in = ctx.input(0);
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kString, in.shape()));
  std::string* out = ctx.output(0).raw<std::string>();
  const bool groups = RE2::MaxSubmatch(rewrite) <= re.NumberOfCapturingGroups();
  for (const std::string& s : in.raw_flat<std::string>()) {
    *out = s;
    if (groups && global) RE2::GlobalReplace(out, re, rewrite);
    if (groups && !global) RE2::Replace(out, re, rewrite);
    ++out;
  }
  return OkStatus();
}

class RegexMatchKernel {
 public:
  explicit RegexMatchKernel(const Node&) {}
  Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(const std::string pattern,
                            ScalarText(ctx.input(1), "pattern"));
    SLUICE_ASSIGN_OR_RETURN(const auto re, pattern_.Get(pattern));
    return MatchAll(ctx, *re);
  }

 private:
  LastPattern pattern_;
};

class RegexReplaceKernel {
 public:
  explicit RegexReplaceKernel(const Node& n)
      : global_(n.BoolAttr("replace_global")) {}
  Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(const std::string pattern,
                            ScalarText(ctx.input(1), "pattern"));
    SLUICE_ASSIGN_OR_RETURN(const std::string rewrite,
                            ScalarText(ctx.input(2), "rewrite"));
    SLUICE_ASSIGN_OR_RETURN(const auto re, pattern_.Get(pattern));
    return ReplaceIn(ctx, *re, rewrite, global_);
  }

 private:
  const bool global_;
  LastPattern pattern_;
};

class StaticRegexKernel {
 public:
  static Result<std::shared_ptr<StaticRegexKernel>> Make(const Node& n) {
    auto k = std::make_shared<StaticRegexKernel>();
    SLUICE_ASSIGN_OR_RETURN(
        k->re_, CompilePattern(n.AttrOr<std::string>("pattern", "")));
    k->replaces_ = n.op_name() == "StaticRegexReplace";
    k->rewrite_ = n.AttrOr<std::string>("rewrite", "");
    k->global_ = k->replaces_ && n.BoolAttr("replace_global");
    return k;
  }
  Status Run(KernelContext& ctx) const {
    return replaces_ ? ReplaceIn(ctx, *re_, rewrite_, global_)
                     : MatchAll(ctx, *re_);
  }

 private:
  std::shared_ptr<const RE2> re_;
  std::string rewrite_;
  bool replaces_ = false, global_ = false;
};

Status RegexShape(ShapeContext& c) {
  for (int i = 1; i < c.num_inputs(); ++i)
    SLUICE_RETURN_IF_ERROR(c.RequireScalar(i));
  c.set_output(0, c.input(0));
  return OkStatus();
}

SLUICE_OP(RegexReplace)
    .Input("input: string")
    .Input("pattern: string")
    .Input("rewrite: string")
    .Output("output: string")
    .Attr("replace_global: bool = true")
    .Family("string")
    .Shape(RegexShape)
    .Kernel(CpuState<RegexReplaceKernel>())
    .NoGradient("strings have no derivative")
    .Sample({{.shape = {2, 3}}, {.values = {0}}, {.values = {1}}})
    .Doc(
        "Replaces matches of the regular expression (all of them, or the "
        "first); \\1 in `rewrite` stands for a group.");

SLUICE_OP(RegexFullMatch)
    .Input("input: string")
    .Input("pattern: string")
    .Output("output: bool")
    .Family("string")
    .Shape(RegexShape)
    .Kernel(CpuState<RegexMatchKernel>())
    .NoGradient("strings have no derivative")
    .Sample({{.shape = {2, 3}}, {.values = {0}}})
    .Doc("Whether each string as a whole matches the regular expression.");

SLUICE_OP(StaticRegexReplace)
    .Input("input: string")
    .Output("output: string")
    .Attr("pattern: string")
    .Attr("rewrite: string")
    .Attr("replace_global: bool = true")
    .Family("string")
    .Shape(UnchangedShape)
    .Kernel(CpuState<StaticRegexKernel>())
    .NoGradient("strings have no derivative")
    .Sample({{.shape = {2, 3}}}, {{"pattern", "[0-4]"}, {"rewrite", "<\\0>"}})
    .Doc("Like RegexReplace, with pattern and rewrite given as attributes.");

SLUICE_OP(StaticRegexFullMatch)
    .Input("input: string")
    .Output("output: bool")
    .Attr("pattern: string")
    .Family("string")
    .Shape(UnchangedShape)
    .Kernel(CpuState<StaticRegexKernel>())
    .NoGradient("strings have no derivative")
    .Sample({{.shape = {2, 3}}}, {{"pattern", "0.*"}})
    .Doc("Like RegexFullMatch, with the pattern given as an attribute.");

}  // namespace
}  // namespace sluice
