#include "exec/core/host_functions.h"

#include <mutex>
#include <unordered_map>
#include <utility>

namespace sluice {
namespace {

struct Registry {
  std::mutex mu;
  std::unordered_map<std::string, std::shared_ptr<const HostFunction>>
      functions;  // GUARDED_BY(mu)
};
Registry& TheRegistry() {
  static auto* const registry = new Registry;  // Never destroyed.
  return *registry;
}

}  // namespace

void AddHostFunction(const std::string& token, HostFunction fn) {
  auto added = std::make_shared<const HostFunction>(std::move(fn));
  Registry& r = TheRegistry();
  const std::lock_guard<std::mutex> lock(r.mu);
  r.functions[token] = std::move(added);
}

void RemoveHostFunction(const std::string& token) {
  Registry& r = TheRegistry();
  std::shared_ptr<const HostFunction> removed;  // Destroyed without the lock.
  const std::lock_guard<std::mutex> lock(r.mu);
  const auto it = r.functions.find(token);
  if (it == r.functions.end()) return;
  removed = std::move(it->second);
  r.functions.erase(it);
}

std::shared_ptr<const HostFunction> FindHostFunction(const std::string& token) {
  Registry& r = TheRegistry();
  const std::lock_guard<std::mutex> lock(r.mu);
  const auto it = r.functions.find(token);
  return it == r.functions.end() ? nullptr : it->second;
}

}  // namespace sluice
