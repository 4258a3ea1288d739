#include "session/backend.h"

#include <map>
#include <mutex>

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

}  // namespace

void RegisterSessionBackend(const std::string& scheme,
                            SessionBackendFactory factory) {
  Registry& r = TheRegistry();
  std::lock_guard<std::mutex> lock(r.mu);
  r.factories[scheme] = std::move(factory);
}

Result<std::unique_ptr<SessionBackend>> ConnectSessionBackend(
    const std::string& target, const SessionOptions& options) {
  SessionBackendFactory factory;
  std::string schemes;
  {
    Registry& r = TheRegistry();
    std::lock_guard<std::mutex> lock(r.mu);
    const size_t end = target.find("://");
    if (end != std::string::npos)
      if (auto it = r.factories.find(target.substr(0, end));
          it != r.factories.end())
        factory = it->second;
    for (const auto& [scheme, unused] : r.factories)
      absl::StrAppend(&schemes, schemes.empty() ? "" : ", ", scheme, "://");
  }
  if (factory == nullptr)
    return InvalidArgument("session target: expected one of ", schemes, ", got '",
                           target, "'");
  return factory(target, options);
}

}  // namespace sluice
