// Libraries of Sluice that are loaded on first use, because what they depend on
// takes long to load. libsluice_cluster holds the cluster runtime (src/cluster)
// and depends on gRPC.
#ifndef SLUICE_BASE_CLUSTER_LIBRARY_H_
#define SLUICE_BASE_CLUSTER_LIBRARY_H_

#include "base/status.h"

namespace sluice {

// Loads a library of Sluice by its path relative to libsluice's directory, or
// from the search path. Null on failure, with the reason in dlerror().
// Thread-safe.
void* OpenOwnLibrary(const char* path);

// Loads libsluice_cluster, preferably from the directory of libsluice, and
// finds an extern "C" function in it. Thread-safe. Unimplemented, with the
// reason, if either is missing.
Result<void*> DistSymbol(const char* name);

}  // namespace sluice

#endif  // SLUICE_BASE_CLUSTER_LIBRARY_H_
