// Ops that report to the user: assertions, printing, the time.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>

#include "absl/strings/escaping.h"
#include "absl/strings/str_join.h"
#include "exec/core/kernel.h"
#include "graph/grad.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"

namespace sluice {
namespace {

// ---- Text of tensors --------------------------------------------------------

// The first n elements, separated by blanks.
std::string Elements(const Tensor& t, int64_t n) {
  if (t.dtype() != DType::kString)
    return (t.rank() == 0 ? t : t.Rows(0, n)).Summarize(-1);
  return absl::StrJoin(t.raw_flat<std::string>().subspan(0, n), " ",
                       [](std::string* out, const std::string& s) {
                         *out += absl::Utf8SafeCEscape(s);
                       });
}

// Appends up to *left elements; nested in brackets by all dimensions but the
// last, whose elements are separated by blanks.
void AppendNested(const Tensor& t, int64_t* left, bool inner,
                  std::string* out) {
  if (t.rank() <= 1) {
    const int64_t n = std::min(*left, t.num_elements());
    if (n > 0) *out += Elements(t, n);
    *left -= n;
    if (inner && n < t.num_elements()) *out += "...";
    return;
  }
  for (int64_t i = 0; i < t.dim(0) && *left > 0; ++i) {
    *out += '[';
    const Tensor row = t.Rows(i, i + 1);
    Dims dims(t.shape().dims().begin() + 1, t.shape().dims().end());
    Result<Tensor> flat = row.Reshaped(Shape({dims.data(), dims.size()}));
    if (flat.ok()) AppendNested(*flat, left, true, out);
    *out += ']';
  }
}

// In TensorFlow's format: "[1 2][3 4]...", at most `most` elements (all if it
// is negative).
std::string Text(const Tensor& t, int64_t most) {
  std::string out;
  const int64_t n = t.num_elements();
  int64_t left = most < 0 ? n : std::min(most, n);
  const bool all = left == n;
  AppendNested(t, &left, false, &out);
  if (!all) out += "...";
  return out;
}

void Say(const KernelContext& ctx, const std::string& text,
         std::FILE* otherwise = stderr) {
  if (ctx.step().log != nullptr && *ctx.step().log) {
    (*ctx.step().log)(text);
  } else {
    std::fwrite(text.data(), 1, text.size(), otherwise);
    std::fflush(otherwise);
  }
}

// ---- Assert -----------------------------------------------------------------

// State: summarize.
Status RunAssert(KernelContext& ctx) {
  const Tensor& condition = ctx.input(0);
  if (condition.num_elements() != 1 || condition.rank() > 1)
    return InvalidArgument("condition: expected a scalar, got shape ",
                           condition.shape().ToString());
  if (condition.raw_scalar<bool>()) return OkStatus();
  std::string message = "assertion failed:";
  for (int i = 1; i < ctx.num_inputs(); ++i)
    absl::StrAppend(&message, " [", Text(ctx.input(i), ctx.state<int64_t>()),
                    "]");
  return InvalidArgument(message);
}

Status MakeAssert(const Node& n, Kernel* k) {
  k->state = std::make_shared<int64_t>(n.IntAttr("summarize"));
  k->run = RunAssert;
  return OkStatus();
}

Status AssertShape(ShapeContext& c) { return c.WithRankAtMost(0, 1).status(); }

// ---- Print ------------------------------------------------------------------

class PrintKernel {
 public:
  explicit PrintKernel(const Node& n)
      : message_(n.AttrOr<std::string>("message", "")),
        first_n_(n.IntAttr("first_n")),
        summarize_(n.IntAttr("summarize")) {}

  Status Run(KernelContext& ctx) {
    if (first_n_ < 0 ||
        printed_.fetch_add(1, std::memory_order_relaxed) < first_n_) {
      std::string text = message_;
      for (int i = 1; i < ctx.num_inputs(); ++i)
        absl::StrAppend(&text, "[", Text(ctx.input(i), summarize_), "]");
      text += '\n';
      Say(ctx, text);
    }
    ctx.set_output(0, ctx.TakeInput(0));
    return OkStatus();
  }

 private:
  const std::string message_;
  const int64_t first_n_, summarize_;
  std::atomic<int64_t> printed_{0};
};

Status PrintShape(ShapeContext& c) {
  c.set_output(0, c.input(0));
  return OkStatus();
}

Status PrintGrad(GradContext& c) {
  c.grads[0] = c.dy[0];
  return OkStatus();
}

// ---- PrintV2 ----------------------------------------------------------------

class PrintV2Kernel {
 public:
  static Result<std::shared_ptr<PrintV2Kernel>> Make(const Node& n) {
    auto k = std::make_shared<PrintV2Kernel>();
    k->end_ = n.AttrOr<std::string>("end", "\n");
    k->stream_ = n.AttrOr<std::string>("output_stream", "stderr");
    k->to_file_ = k->stream_.rfind("file://", 0) == 0;
    if (k->to_file_) k->stream_ = k->stream_.substr(7);
    if (!k->to_file_ && k->stream_ != "stdout" && k->stream_ != "stderr" &&
        k->stream_ != "log(info)" && k->stream_ != "log(warning)" &&
        k->stream_ != "log(error)")
      return InvalidArgument(
          "output_stream: expected stdout, stderr, log(info), log(warning), "
          "log(error) or file://, got '",
          k->stream_, "'");
    return k;
  }

  Status Run(KernelContext& ctx) {
    if (ctx.input(0).rank() != 0)
      return InvalidArgument("input: expected a scalar, got shape ",
                             ctx.input(0).shape().ToString());
    const std::string text = ctx.input(0).raw_scalar<std::string>() + end_;
    if (!to_file_) {
      Say(ctx, text, stream_ == "stdout" ? stdout : stderr);
      return OkStatus();
    }
    std::ofstream file(stream_, std::ios::app | std::ios::binary);
    file << text;
    file.close();
    if (!file)
      return InvalidArgument(
          "output_stream: expected a file to append to, got '", stream_, "'");
    return OkStatus();
  }

 private:
  std::string end_, stream_;
  bool to_file_ = false;
};

std::string PrintV2Reach(const Node& n) {
  return n.AttrOr<std::string>("output_stream", "").starts_with("file://")
             ? "writes to a file"
             : "";
}

Status PrintV2Shape(ShapeContext& c) { return c.RequireScalar(0); }

// ---- Timestamp --------------------------------------------------------------

Status RunTimestamp(KernelContext& ctx) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto us =
      std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  ctx.set_output(0, Tensor::Scalar<double>(static_cast<double>(us) / 1e6));
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

SLUICE_OP(Assert)
    .Input("condition: bool")
    .Input("data: T")
    .Attr("T: list(type) >= 1")
    .Attr("summarize: int = 3")
    .HostOnly()
    .Stateful()
    .Family("control_flow")
    .Shape(AssertShape)
    .Kernel(MakeAssert)
    .NoGradient("it has no outputs")
    .Doc(
        "Fails the step with an error that shows the data if the condition is "
        "false.");

SLUICE_OP(Print)
    .Input("input: T")
    .Input("data: U")
    .Output("output: T")
    .Attr("T: type")
    .Attr("U: list(type) >= 0")
    .Attr("message: string = ''")
    .Attr("first_n: int = -1")
    .Attr("summarize: int = 3")
    .HostOnly()
    .Stateful()
    .Family("control_flow")
    .Shape(PrintShape)
    .Kernel(CpuState<PrintKernel>())
    .Grad(PrintGrad)
    .Sample({{.shape = {2, 2}, .dtype = DType::kFloat}},
            {{"first_n", 0}, {"U", AttrValue::Types{}}})
    .Doc("Returns its input and writes the data to the log.");

SLUICE_OP(PrintV2)
    .Input("input: string")
    .Attr("output_stream: string = 'stderr'")
    .Attr("end: string = '\n'")
    .HostOnly()
    .Stateful()
    .Family("control_flow")
    .ReachesHost(PrintV2Reach)
    .Shape(PrintV2Shape)
    .Kernel(CpuState<PrintV2Kernel>())
    .NoGradient("it has no outputs")
    .Doc("Writes a string to the log.");

SLUICE_OP(Timestamp)
    .Output("ts: double")
    .Stateful(kDiffersEachTime)
    .Family("control_flow")
    .Shape(ScalarShape)
    .Kernel(Cpu(RunTimestamp))
    .NoGradient("it has no inputs")
    .Doc("Returns the time in seconds since 1970.");

}  // namespace
}  // namespace sluice
