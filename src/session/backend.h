// SessionBackend: who runs a session's steps where the session does not itself.
#ifndef SLUICE_SESSION_BACKEND_H_
#define SLUICE_SESSION_BACKEND_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "passes/passes.h"
#include "session/session.h"

namespace sluice {

// What a step is prepared for.
enum class StepKind : uint8_t {
  kWhole,   // Is given its feeds and gives its fetches at once.
  kTraced,  // The same, and shows every node.
  kStaged,  // Is fed in stages.
};

// One step in stages, run elsewhere. Not thread-safe. Ends the step as it dies;
// outlived by its backend.
class BackendPartialRun {
 public:
  virtual ~BackendPartialRun() = default;
  // Feeds `values` to the arguments `args` (not fed before), and gives the
  // fetches of these numbers (not given before) when they are there: none of
  // one that lies in a branch that was not taken. With the last feed it waits
  // for the step's end, too. Of the options the timeout and the cancellation
  // count: either ends the whole step.
  virtual Result<std::vector<std::optional<Tensor>>> Run(
      std::span<const uint32_t> args, std::span<const Tensor> values,
      std::span<const uint32_t> fetches, const RunOptions& options) = 0;
};

// A session in other processes. Owned by a Session, which checks what it is
// given before the backend sees it. Thread-safe.
class SessionBackend {
 public:
  virtual ~SessionBackend() = default;
  // Makes a kind of step known; what Run knows it by. The graph may have grown
  // since the last call; it does not change during this one.
  virtual Result<uint64_t> Prepare(const Graph& graph,
                                   const StepSignature& signature,
                                   StepKind kind) = 0;
  // What each device would run, as serialised GraphDefs.
  virtual Result<std::vector<std::string>> PartitionGraphs(
      const Graph& graph, const StepSignature& signature) = 0;
  // As Session::Run; feeds in the order of the signature.
  virtual Result<std::vector<Tensor>> Run(uint64_t step,
                                          std::span<const Tensor> feeds,
                                          const RunOptions& options,
                                          RunMetadata* metadata) = 0;
  // Begins a step that was prepared for it.
  virtual Result<std::unique_ptr<BackendPartialRun>> StartPartialRun(
      uint64_t step) = 0;
  // Full names of all devices that steps may use.
  virtual Result<std::vector<std::string>> ListDevices() = 0;
  // Forgets what these containers hold; all of them if there are none.
  virtual Status Reset(const std::vector<std::string>& containers) = 0;
  // Running steps end with Cancelled.
  virtual Status Close() = 0;
};

// Connects to `target`, "scheme://...".
using SessionBackendFactory =
    std::function<Result<std::unique_ptr<SessionBackend>>(
        const std::string& target, const SessionOptions& options)>;

// Whoever implements a scheme says so, before main (a static
// SessionBackendRegistration) or later.
void RegisterSessionBackend(const std::string& scheme,
                            SessionBackendFactory factory);
struct SessionBackendRegistration {
  SessionBackendRegistration(const std::string& scheme,
                             SessionBackendFactory factory) {
    RegisterSessionBackend(scheme, std::move(factory));
  }
};

// InvalidArgument names the schemes that there are.
Result<std::unique_ptr<SessionBackend>> ConnectSessionBackend(
    const std::string& target, const SessionOptions& options);

}  // namespace sluice

#endif  // SLUICE_SESSION_BACKEND_H_
