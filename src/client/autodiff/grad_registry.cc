#include <map>
#include <mutex>

#include "client/autodiff/function_gradients.h"
#include "client/autodiff/gradients.h"
#include "graph/hidden_attributes.h"
#include "graph/op_library.h"

namespace sluice {
namespace {

struct Registry {
  std::mutex mu;
  std::map<std::string, UserGradient> functions;  // GUARDED_BY(mu)
};

Registry& Global() {
  static Registry* const registry = new Registry();
  return *registry;
}

}  // namespace

Status RegisterGradient(const std::string& op_or_name, UserGradient fn) {
  if (fn == nullptr)
    return InvalidArgument("gradient '", op_or_name,
                           "': expected a function, got none");
  const OpDef* op = OpRegistry::Global()->Find(op_or_name);
  if (op != nullptr && grad::HasGradient(*op))
    return AlreadyExists("gradient '", op_or_name,
                         "': expected a new name, got an op that has a "
                         "gradient; hint: register it under another name and "
                         "use GradientOverride");
  Registry& r = Global();
  {
    std::lock_guard<std::mutex> lock(r.mu);
    if (!r.functions.emplace(op_or_name, std::move(fn)).second)
      return AlreadyExists("gradient '", op_or_name,
                           "': expected a new name, got one that is taken");
  }
  // (A library that fails to load is closed, and the function with it.)
  (void)internal::UndoUnlessLoaded([op_or_name] {
    Registry& all = Global();
    std::lock_guard<std::mutex> lock(all.mu);
    all.functions.erase(op_or_name);
  });
  return OkStatus();
}

Result<UserGradient> FindGradient(const Node& node) {
  const std::string name =
      node.AttrOr<std::string>(kGradientOpTypeAttr, node.op_name());
  {
    Registry& r = Global();
    std::lock_guard<std::mutex> lock(r.mu);
    const auto it = r.functions.find(name);
    if (it != r.functions.end()) return it->second;
  }
  if (node.op().role == OpRole::kFunctional) return UserGradient(CallGradient);
  const OpDef* op =
      name == node.op_name() ? &node.op() : OpRegistry::Global()->Find(name);
  if (op != nullptr && op->grad != nullptr) return UserGradient(op->grad);
  if (op != nullptr && !op->no_grad_reason.empty()) return UserGradient();
  return NotFound("gradient '", name, "': expected a registered function");
}

}  // namespace sluice
