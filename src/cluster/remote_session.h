// The client side of a session whose steps a master runs.
#ifndef SLUICE_CLUSTER_REMOTE_SESSION_H_
#define SLUICE_CLUSTER_REMOTE_SESSION_H_

#include <memory>

#include "cluster/common/stubs.h"
#include "session/backend.h"

namespace sluice {

// Opens a session at the master, and keeps it attended until the backend is
// destroyed.
Result<std::unique_ptr<SessionBackend>> OpenRemoteSession(
    std::unique_ptr<MasterStub> master, const SessionOptions& options);

}  // namespace sluice

#endif  // SLUICE_CLUSTER_REMOTE_SESSION_H_
