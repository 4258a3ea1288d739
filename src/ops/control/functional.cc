// Calls of functions: plain calls, conditionals and loops. They have no
// kernels: passes/lower_functional.h inlines the bodies, with control flow
// primitives where needed.
#include "exec/core/kernel.h"
#include "graph/call_hook.h"
#include "graph/function.h"
#include "graph/grad.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"

namespace sluice {
namespace {

constexpr const char* kByItsBody =
    "differentiated by the bodies of its functions";

Status CallShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(CheckCall(c.node()));
  std::vector<PartialShape> inputs;
  for (int i = 0; i < c.num_inputs(); ++i) inputs.push_back(c.input(i));
  const std::vector<PartialShape> shapes = CallShapes(c.node(), inputs);
  for (int i = 0; i < c.num_outputs(); ++i)
    c.set_output(i, shapes[static_cast<size_t>(i)]);
  return OkStatus();
}

OpDefBuilder Functional(const char* name) {
  return OpDefBuilder(name)
      .Family("control_flow")
      .Role(OpRole::kFunctional)
      .Shape(CallShape)
      .NoGradient(kByItsBody);
}

OpDefBuilder If(const char* name) {
  return Functional(name)
      .Kind(OpKind::kIf)
      .Input("cond: Tcond")
      .Input("input: Tin")
      .Output("output: Tout")
      .Attr("Tcond: type")
      .Attr("Tin: list(type) >= 0")
      .Attr("Tout: list(type) >= 0")
      .Attr("then_branch: func")
      .Attr("else_branch: func")
      .Attr("output_shapes: list(shape) = []")
      .Doc(
          "Calls then_branch if the condition is true, else else_branch. A "
          "number is true if it is not zero, and a non-scalar tensor if it is "
          "not empty.");
}

OpDefBuilder Case(const char* name) {
  return Functional(name)
      .Kind(OpKind::kCase)
      .Input("branch_index: int32")
      .Input("input: Tin")
      .Output("output: Tout")
      .Attr("Tin: list(type) >= 0")
      .Attr("Tout: list(type) >= 0")
      .Attr("branches: list(func) >= 1")
      .Attr("output_shapes: list(shape) = []")
      .Doc(
          "Calls the branch that the index selects; the last one if the index "
          "is out of range.");
}

OpDefBuilder While(const char* name) {
  return Functional(name)
      .Kind(OpKind::kWhile)
      .Input("input: T")
      .Output("output: T")
      .Attr("T: list(type) >= 0")
      .Attr("cond: func")
      .Attr("body: func")
      .Attr("output_shapes: list(shape) = []")
      .Attr("parallel_iterations: int = 10")
      .Doc(
          "Repeats values = body(values) while cond(values) is true, and "
          "returns the final values.");
}

OpDefBuilder CallOp(const char* name) {
  return Functional(name)
      .Kind(OpKind::kPartitionedCall)
      .Input("args: Tin")
      .Output("output: Tout")
      .Attr("Tin: list(type) >= 0")
      .Attr("Tout: list(type) >= 0")
      .Attr("f: func")
      .Attr("config: string = ''")
      .Attr("config_proto: string = ''")
      .Attr("executor_type: string = ''")
      .Doc("Calls a function.");
}

[[maybe_unused]] const OpRegistrar if_op(If("If").Stateful());
[[maybe_unused]] const OpRegistrar stateless_if_op(If("StatelessIf"));
[[maybe_unused]] const OpRegistrar case_op(Case("Case").Stateful());
[[maybe_unused]] const OpRegistrar stateless_case_op(Case("StatelessCase"));
[[maybe_unused]] const OpRegistrar while_op(While("While").Stateful());
[[maybe_unused]] const OpRegistrar stateless_while_op(While("StatelessWhile"));
[[maybe_unused]] const OpRegistrar partitioned_call_op(
    CallOp("PartitionedCall"));
[[maybe_unused]] const OpRegistrar stateful_call_op(
    CallOp("StatefulPartitionedCall").Stateful());

[[maybe_unused]] const OpRegistrar for_op(
    Functional("For")
        .Kind(OpKind::kFor)
        .Input("start: int32")
        .Input("limit: int32")
        .Input("delta: int32")
        .Input("input: T")
        .Output("output: T")
        .Attr("T: list(type) >= 0")
        .Attr("body: func")
        .Doc("Repeats input = body(i, input) for each i from start to limit in "
             "steps of delta, and returns the final input."));

[[maybe_unused]] const OpRegistrar gradient_op(
    Functional("SymbolicGradient")
        .Kind(OpKind::kSymbolicGradient)
        .Input("input: Tin")
        .Output("output: Tout")
        .Attr("Tin: list(type) >= 1")
        .Attr("Tout: list(type) >= 1")
        .Attr("f: func")
        .Doc("Computes the gradients of a function with respect to its "
             "arguments. The inputs are the arguments followed by the "
             "gradients of the results."));

OpDefBuilder SavingCallOp(const char* name) {
  return Functional(name)
      .Kind(OpKind::kSavingCall)
      .Input("args: Tin")
      .Output("output: Tout")
      .Output("saved: variant")
      .Attr("Tin: list(type) >= 0")
      .Attr("Tout: list(type) >= 0")
      .Attr("f: func")
      .Doc(
          "Calls a function, and returns also the values that SavedGradient "
          "needs for its gradient.");
}

[[maybe_unused]] const OpRegistrar saving_call_op(SavingCallOp("SavingCall"));
[[maybe_unused]] const OpRegistrar stateful_saving_call_op(
    SavingCallOp("StatefulSavingCall").Stateful());

[[maybe_unused]] const OpRegistrar saved_gradient_op(
    Functional("SavedGradient")
        .Kind(OpKind::kSavedGradient)
        .Input("saved: variant")
        .Input("args: Tin")
        .Input("dy: Tdy")
        .Output("output: Tout")
        .Attr("Tin: list(type) >= 0")
        .Attr("Tdy: list(type) >= 1")
        .Attr("Tout: list(type) >= 1")
        .Attr("f: func")
        .Doc("Computes the gradients of a function with respect to its "
             "arguments, from what a SavingCall of it saved and the gradients "
             "of the results. The arguments of the call serve only to "
             "differentiate the node itself; without them it has no "
             "gradient."));

[[maybe_unused]] const OpRegistrar remote_call_op(
    Functional("RemoteCall")
        .Kind(OpKind::kRemoteCall)
        .Input("target: string")
        .Input("args: Tin")
        .Output("output: Tout")
        .Attr("Tin: list(type) >= 1")
        .Attr("Tout: list(type) >= 1")
        .Attr("f: func")
        .Stateful()
        .Doc("Calls a function that may run on another device."));

// (Malformed ones may come with an imported function.)
Status GradientOutsideShape(ShapeContext& c) {
  const auto count = [&c](const char* list) {
    return static_cast<int>(c.node().AttrOr<AttrValue::Types>(list, {}).size());
  };
  const int xs = count("Tx");
  if (count("Tdy") != count("Ty") || c.num_outputs() != xs ||
      c.node().AttrOr<AttrValue::Bools>(kIsOuterAttr, {}).size() !=
          static_cast<size_t>(xs + count("Tstop")))
    return InvalidArgument(
        "gradients outside: expected one for each y, and one result for each "
        "x, got ",
        count("Tdy"), " for ", count("Ty"), " and ", c.num_outputs(), " for ",
        xs);
  const int first = 2 * count("Ty");
  for (int i = 0; i < xs; ++i)
    c.set_output(i, c.node().input(first + i).dtype() == DType::kResource
                        ? c.ResourceShape(first + i)
                        : c.input(first + i));
  return OkStatus();
}

[[maybe_unused]] const OpRegistrar gradient_outside_op(
    OpDefBuilder(kGradientOutsideOp)
        .Input("y: Ty")
        .Input("dy: Tdy")
        .Input("x: Tx")
        .Input("stop: Tstop")
        .Output("dx: Tout")
        .Attr("Ty: list(type) >= 1")
        .Attr("Tdy: list(type) >= 1")
        .Attr("Tx: list(type) >= 1")
        .Attr("Tstop: list(type) >= 0")
        .Attr("Tout: list(type) >= 1")
        .Family("control_flow")
        .Shape(GradientOutsideShape)
        .Kernel([](const Node&, Kernel*) {
          return FailedPrecondition(
              "gradients that go on outside of a function's body: expected a "
              "call of the function in the graph that defines it, got its body "
              "elsewhere; hint: pass what they go through as arguments");
        })
        .Grad(grad::Undefined)
        .Doc("Stands, in the body of a function, for the gradients of captured "
             "values with respect to outer values that these depend on."));

// ---- Helpers of lowered conditionals ----------------------------------------

template <typename T>
bool Truth(const T& v) {
  if constexpr (std::is_same_v<T, std::string>) {
    return !v.empty();
  } else {
    return v != T(0);
  }
}

template <typename T>
struct ToBoolKernel {
  static Status Run(KernelContext& ctx) {
    const Tensor& x = ctx.input(0);
    ctx.set_output(0, Tensor::Scalar(x.rank() == 0 ? Truth(x.raw_scalar<T>())
                                                   : x.num_elements() > 0));
    return OkStatus();
  }
};

SLUICE_OP(ToBool)
    .Input("input: T")
    .Output("output: bool")
    .Attr(
        "T: {half, bfloat16, float, double, int8, int16, int32, int64, uint8, "
        "uint16, uint32, uint64, bool, string}")
    .Family("control_flow")
    .Shape(ScalarShape)
    .Kernel(CpuFor<ToBoolKernel, half, bfloat16, float, double, int8_t, int16_t,
                   int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t,
                   bool, std::string>("T"))
    .NoGradient("its output is boolean")
    .Sample({{.shape = {}, .values = {2}}})
    .Sample({{.shape = {0}}})
    .Doc(
        "Converts to bool: a scalar is true if it is not zero (for a string: "
        "not empty), any other tensor if it has elements.");

}  // namespace
}  // namespace sluice
