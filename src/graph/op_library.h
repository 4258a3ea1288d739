// Ops from shared libraries that are loaded at run time.
//
//   SLUICE_RETURN_IF_ERROR(LoadOpLibrary("./custom_op.so").status());
//   Output y = Build("Backwards", {x});
#ifndef SLUICE_GRAPH_OP_LIBRARY_H_
#define SLUICE_GRAPH_OP_LIBRARY_H_

#include <string>
#include <vector>

#include "base/status.h"

namespace sluice {

// Loads a library that declares ops (sluice/op.h) and returns their names, also
// if it is already loaded. The library is never unloaded, except on an error,
// which leaves none of its ops registered: NotFound if it cannot be loaded,
// AlreadyExists if an op of that name exists, InvalidArgument if a declaration
// is invalid or there is none. Thread-safe.
Result<std::vector<std::string>> LoadOpLibrary(const std::string& path);

}  // namespace sluice

#endif  // SLUICE_GRAPH_OP_LIBRARY_H_
