// Ops from shared libraries that are loaded at run time.
//
//   SLUICE_RETURN_IF_ERROR(LoadOpLibrary("./custom_op.so").status());
//   Output y = Build("Backwards", {x});
#ifndef SLUICE_GRAPH_OP_LIBRARY_H_
#define SLUICE_GRAPH_OP_LIBRARY_H_

#include <functional>
#include <string>
#include <vector>

#include "base/status.h"

namespace sluice {

// Loads a library that declares ops (sluice/op.h, or in C tensorflow/c/ops.h)
// and returns their names, also if it is already loaded. A function of the
// library named TF_InitKernel is called once, on this thread. The library is
// never unloaded, except on an error, which leaves none of its ops registered:
// NotFound if it cannot be loaded, AlreadyExists if an op of that name exists,
// InvalidArgument if a declaration is invalid or there is none,
// FailedPrecondition if the library itself calls this while it is loaded.
// Thread-safe.
Result<std::vector<std::string>> LoadOpLibrary(const std::string& path);

namespace internal {

// For registrations that are calls of functions, as the C API's are. Both
// return false and do nothing unless this thread is within LoadOpLibrary.
//
// Keeps `undo`, which is called if the library cannot be loaded, before it is
// closed; later ones are called first.
bool UndoUnlessLoaded(std::function<void()> undo);
// Makes the load fail with the first such error.
bool FailLoad(const Status& why);

}  // namespace internal
}  // namespace sluice

#endif  // SLUICE_GRAPH_OP_LIBRARY_H_
