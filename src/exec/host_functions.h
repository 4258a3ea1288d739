// Functions of the program that runs the steps, which ops call by name.
#ifndef SLUICE_EXEC_HOST_FUNCTIONS_H_
#define SLUICE_EXEC_HOST_FUNCTIONS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "tensor/tensor.h"

namespace sluice {

// Called on any thread, by several at once. The types are those of the results
// that the op is declared to have; it checks that they are.
using HostFunction = std::function<Result<std::vector<Tensor>>(
    std::vector<Tensor> args, const std::vector<DType>& types)>;

// The process's, by token. Whoever adds one removes it; a call that has begun
// keeps it alive.
void AddHostFunction(const std::string& token, HostFunction fn);
void RemoveHostFunction(const std::string& token);
// Null: there is none.
std::shared_ptr<const HostFunction> FindHostFunction(const std::string& token);

}  // namespace sluice

#endif  // SLUICE_EXEC_HOST_FUNCTIONS_H_
