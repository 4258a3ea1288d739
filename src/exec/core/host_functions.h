// Functions of the host program that ops call by name.
#ifndef SLUICE_EXEC_CORE_HOST_FUNCTIONS_H_
#define SLUICE_EXEC_CORE_HOST_FUNCTIONS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "tensor/tensor.h"

namespace sluice {

// Called on any thread, possibly concurrently. `types` are the declared types
// of the op's results; the op checks the results against them.
using HostFunction = std::function<Result<std::vector<Tensor>>(
    std::vector<Tensor> args, const std::vector<DType>& types)>;

// The process-wide table of functions, by token. The caller that adds a
// function removes it; running calls keep it alive.
void AddHostFunction(const std::string& token, HostFunction fn);
void RemoveHostFunction(const std::string& token);
// Null if there is none.
std::shared_ptr<const HostFunction> FindHostFunction(const std::string& token);

}  // namespace sluice

#endif  // SLUICE_EXEC_CORE_HOST_FUNCTIONS_H_
