// The client's end of a session whose steps a master runs.
#ifndef SLUICE_DIST_REMOTE_SESSION_H_
#define SLUICE_DIST_REMOTE_SESSION_H_

#include <memory>

#include "dist/stubs.h"
#include "session/backend.h"

namespace sluice {

// Opens a session there, and tells the master that we live as long as it does.
Result<std::unique_ptr<SessionBackend>> OpenRemoteSession(
    std::unique_ptr<MasterStub> master, const SessionOptions& options);

}  // namespace sluice

#endif  // SLUICE_DIST_REMOTE_SESSION_H_
