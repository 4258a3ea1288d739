// SessionBackend: runs a session's steps outside the session's process.
#ifndef SLUICE_SESSION_BACKEND_H_
#define SLUICE_SESSION_BACKEND_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/node.h"
#include "passes/passes.h"
#include "session/session.h"

namespace sluice {

// The kind of step that Prepare is called for.
enum class StepKind : uint8_t {
  kWhole,   // Receives all feeds and returns all fetches at once.
  kTraced,  // The same, and shows every node.
  kStaged,  // Fed in stages.
};

// One step in stages, run elsewhere. Not thread-safe. Destroying it ends the
// step. The backend must outlive it.
class BackendPartialRun {
 public:
  virtual ~BackendPartialRun() = default;
  // Feeds `values` to the arguments `args` (not fed before), and returns the
  // fetches with these numbers (not returned before) once they are available;
  // nullopt for a fetch in a branch that was not taken. The call after which
  // everything has been fed and fetched also waits for the end of the step. Of
  // the options, the timeout and the cancellation apply; either ends the whole
  // step.
  virtual Result<std::vector<std::optional<Tensor>>> Run(
      std::span<const uint32_t> args, std::span<const Tensor> values,
      std::span<const uint32_t> fetches, const RunOptions& options) = 0;
};

// A session in other processes. Owned by a Session, which validates all
// arguments before the backend sees them. Thread-safe.
class SessionBackend {
 public:
  virtual ~SessionBackend() = default;
  // Registers a kind of step and returns its handle for Run. The graph may have
  // grown since the last call; it does not change during this one.
  virtual Result<uint64_t> Prepare(const Graph& graph,
                                   const StepSignature& signature,
                                   StepKind kind) = 0;
  // The graph that each device would run, as serialised GraphDefs.
  virtual Result<std::vector<std::string>> PartitionGraphs(
      const Graph& graph, const StepSignature& signature) = 0;
  // Like Session::Run, with feeds in the order of the signature.
  virtual Result<std::vector<Tensor>> Run(uint64_t step,
                                          std::span<const Tensor> feeds,
                                          const RunOptions& options,
                                          RunMetadata* metadata) = 0;
  // Begins a step that was prepared as kStaged.
  virtual Result<std::unique_ptr<BackendPartialRun>> StartPartialRun(
      uint64_t step) = 0;
  // Full names of all devices that steps may use.
  virtual Result<std::vector<std::string>> ListDevices() = 0;
  // Removes the state in these containers, or in all containers if there are
  // none.
  virtual Status Reset(const std::vector<std::string>& containers) = 0;
  // Running steps end with Cancelled.
  virtual Status Close() = 0;
};

// Connects to `target`, "scheme://...".
using SessionBackendFactory =
    std::function<Result<std::unique_ptr<SessionBackend>>(
        const std::string& target, const SessionOptions& options)>;

// Registers the factory of a scheme, before main (by a static
// SessionBackendRegistration) or later.
void RegisterSessionBackend(const std::string& scheme,
                            SessionBackendFactory factory);
struct SessionBackendRegistration {
  SessionBackendRegistration(const std::string& scheme,
                             SessionBackendFactory factory) {
    RegisterSessionBackend(scheme, std::move(factory));
  }
};

// InvalidArgument lists the registered schemes.
Result<std::unique_ptr<SessionBackend>> ConnectSessionBackend(
    const std::string& target, const SessionOptions& options);

}  // namespace sluice

#endif  // SLUICE_SESSION_BACKEND_H_
