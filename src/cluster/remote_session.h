// The client side of a session whose steps a master runs.
#ifndef SLUICE_CLUSTER_REMOTE_SESSION_H_
#define SLUICE_CLUSTER_REMOTE_SESSION_H_

#include <memory>

#include "cluster/common/stubs.h"
#include "session/backend.h"

namespace sluice {

// Opens a session at the master, and keeps it attended until it is closed (or
// the backend destroyed), which also destroys the stub once the calls that are
// running have returned.
Result<std::unique_ptr<SessionBackend>> OpenRemoteSession(
    std::unique_ptr<MasterStub> master, const SessionOptions& options);

}  // namespace sluice

#endif  // SLUICE_CLUSTER_REMOTE_SESSION_H_
