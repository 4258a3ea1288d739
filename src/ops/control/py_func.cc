// Ops that call a function of the program that runs the step. The Python client
// creates these nodes and registers the function under the token.
#include "exec/core/host_functions.h"
#include "exec/core/kernel.h"
#include "graph/shape_context.h"

namespace sluice {
namespace {

class PyFuncKernel {
 public:
  explicit PyFuncKernel(const Node& n)
      : token_(n.AttrOr<std::string>("token", "")),
        types_(n.AttrOr<AttrValue::Types>("Tout", {})) {}

  Status Run(KernelContext& ctx) {
    const std::shared_ptr<const HostFunction> fn = FindHostFunction(token_);
    if (fn == nullptr)
      return FailedPrecondition(
          "token: expected that of a function of this process whose graph "
          "exists, got '",
          token_, "'");
    std::vector<Tensor> args;
    for (int i = 0; i < ctx.num_inputs(); ++i) args.push_back(ctx.TakeInput(i));
    SLUICE_ASSIGN_OR_RETURN(std::vector<Tensor> results,
                            (*fn)(std::move(args), types_));
    if (results.size() != types_.size())
      return InvalidArgument(token_, ": expected ", types_.size(),
                             " results, got ", results.size());
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i].dtype() != types_[i])
        return InvalidArgument(token_, ": expected ", DTypeName(types_[i]),
                               " as result ", i, ", got ",
                               DTypeName(results[i].dtype()));
      ctx.set_output(static_cast<int>(i), std::move(results[i]));
    }
    return OkStatus();
  }

 private:
  const std::string token_;
  const AttrValue::Types types_;
};

std::string CallsTheProgram(const Node&) {
  return "calls a function of the program";
}

SLUICE_OP(PyFunc)
    .Input("input: Tin")
    .Output("output: Tout")
    .Attr("token: string")
    .Attr("Tin: list(type) >= 0")
    .Attr("Tout: list(type) >= 0")
    .Stateful()
    .Family("encoding")
    .ReachesHost(CallsTheProgram)
    .Shape(UnknownShape)
    .Kernel(CpuState<PyFuncKernel>(/*expensive=*/true))
    .NoGradient("the function is opaque")
    .Doc("Calls a function of the program that runs the step.");

SLUICE_OP(PyFuncStateless)
    .Input("input: Tin")
    .Output("output: Tout")
    .Attr("token: string")
    .Attr("Tin: list(type) >= 0")
    .Attr("Tout: list(type) >= 0")
    .Family("encoding")
    .ReachesHost(CallsTheProgram)
    .Shape(UnknownShape)
    .Kernel(CpuState<PyFuncKernel>(/*expensive=*/true))
    .NoGradient("the function is opaque")
    .Doc("Calls a deterministic function of the program that runs the step.");

SLUICE_OP(EagerPyFunc)
    .Input("input: Tin")
    .Output("output: Tout")
    .Attr("token: string")
    .Attr("is_async: bool = false")
    .Attr("Tin: list(type) >= 0")
    .Attr("Tout: list(type) >= 0")
    .Stateful()
    .Family("encoding")
    .ReachesHost(CallsTheProgram)
    .Shape(UnknownShape)
    .Kernel(CpuState<PyFuncKernel>(/*expensive=*/true))
    .NoGradient("the Python client defines it")
    .Doc(
        "Calls a function of the program that runs the step, which receives "
        "eager tensors.");

}  // namespace
}  // namespace sluice
