#include "session/backend.h"

#include <map>
#include <mutex>

#include "base/cluster_library.h"

namespace sluice {
namespace {

struct Registry {
  std::mutex mu;
  std::map<std::string, SessionBackendFactory> factories;  // GUARDED_BY(mu)
};
Registry& TheRegistry() {
  static Registry* registry = new Registry;  // Used until the process ends.
  return *registry;
}

// Null if the scheme is not registered.
SessionBackendFactory FactoryOf(const std::string& target) {
  const size_t end = target.find("://");
  if (end == std::string::npos) return nullptr;
  Registry& r = TheRegistry();
  std::lock_guard<std::mutex> lock(r.mu);
  auto it = r.factories.find(target.substr(0, end));
  return it == r.factories.end() ? nullptr : it->second;
}

}  // namespace

void RegisterSessionBackend(const std::string& scheme,
                            SessionBackendFactory factory) {
  Registry& r = TheRegistry();
  std::lock_guard<std::mutex> lock(r.mu);
  r.factories[scheme] = std::move(factory);
}

Result<std::unique_ptr<SessionBackend>> ConnectSessionBackend(
    const std::string& target, const SessionOptions& options) {
  SessionBackendFactory factory = FactoryOf(target);
  if (factory == nullptr) {
    // The cluster library registers its scheme when it is loaded.
    SLUICE_RETURN_IF_ERROR(DistSymbol("sluice_worker_main").status());
    factory = FactoryOf(target);
  }
  if (factory == nullptr) {
    std::string schemes;
    Registry& r = TheRegistry();
    std::lock_guard<std::mutex> lock(r.mu);
    for (const auto& [scheme, unused] : r.factories)
      absl::StrAppend(&schemes, schemes.empty() ? "" : ", ", scheme, "://");
    return InvalidArgument("session target: expected one of ", schemes,
                           ", got '", target, "'");
  }
  return factory(target, options);
}

}  // namespace sluice
