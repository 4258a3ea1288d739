// The names of functions that TF_GraphToFunction makes with
// append_hash_to_fn_name.
#ifndef SLUICE_CAPI_FUNCTION_HASH_H_
#define SLUICE_CAPI_FUNCTION_HASH_H_

#include <string>
#include <string_view>

#include "base/status.h"

namespace sluice::capi {

// Eleven letters and digits that depend on all of the serialised FunctionDef
// but its name: those that TensorFlow appends to the name of a function of the
// same nodes.
Result<std::string> FunctionHash(std::string_view function_def);

}  // namespace sluice::capi

#endif  // SLUICE_CAPI_FUNCTION_HASH_H_
