// libsluice_cluster holds the cluster runtime (src/cluster). It depends on
// gRPC, which takes long to load, so it is loaded on first use.
#ifndef SLUICE_BASE_CLUSTER_LIBRARY_H_
#define SLUICE_BASE_CLUSTER_LIBRARY_H_

#include "base/status.h"

namespace sluice {

// Loads the library, preferably from the directory of this one, and finds an
// extern "C" function in it. Thread-safe. Unimplemented, with the reason, if
// either is missing.
Result<void*> DistSymbol(const char* name);

}  // namespace sluice

#endif  // SLUICE_BASE_CLUSTER_LIBRARY_H_
