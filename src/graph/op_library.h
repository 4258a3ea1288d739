// Ops of shared libraries that are loaded while the program runs.
//
//   SLUICE_RETURN_IF_ERROR(LoadOpLibrary("./custom_op.so").status());
//   Output y = Build("Backwards", {x});
#ifndef SLUICE_GRAPH_OP_LIBRARY_H_
#define SLUICE_GRAPH_OP_LIBRARY_H_

#include <string>
#include <vector>

#include "base/status.h"

namespace sluice {

// Loads a library that declares ops (sluice/op.h); their names. One that is
// loaded already gives them again. It stays for as long as the process, unless
// there is an error; then none of its ops is there: NotFound if it cannot be
// loaded, AlreadyExists if an op of that name is there, InvalidArgument if it
// declares one wrongly, or none. Thread-safe.
Result<std::vector<std::string>> LoadOpLibrary(const std::string& path);

}  // namespace sluice

#endif  // SLUICE_GRAPH_OP_LIBRARY_H_
