// Calls of a function in its own body, for what defines functions.
#ifndef SLUICE_CLIENT_CONTROL_OWN_CALLS_H_
#define SLUICE_CLIENT_CONTROL_OWN_CALLS_H_

#include <cstddef>
#include <string>

#include "base/status.h"
#include "graph/function.h"

namespace sluice {

// The calls of a function in its own body were built before all of its captures
// were known: adds the captures, its arguments from `first` on, to them. The
// library has the function's declaration with all arguments. InvalidArgument if
// the body passes the function to an op other than a call.
Status PassCapturesOn(const std::string& name, size_t first,
                      const FunctionBody& body);

}  // namespace sluice

#endif  // SLUICE_CLIENT_CONTROL_OWN_CALLS_H_
