// libsluice_dist holds what clusters take (src/dist). It brings gRPC, which
// takes long to load, so it is loaded by the first who needs it.
#ifndef SLUICE_BASE_DIST_LIBRARY_H_
#define SLUICE_BASE_DIST_LIBRARY_H_

#include "base/status.h"

namespace sluice {

// Loads the library, from where this one was loaded from, and finds an
// extern "C" function in it. Thread-safe. Unimplemented, with the reason, if
// there is none.
Result<void*> DistSymbol(const char* name);

}  // namespace sluice

#endif  // SLUICE_BASE_DIST_LIBRARY_H_
