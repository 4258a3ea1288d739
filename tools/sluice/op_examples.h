// Worked examples of ops: calls with small inputs (op_examples.tsv) and what
// the op makes of them, computed when it is asked for.
#ifndef SLUICE_TOOLS_SLUICE_OP_EXAMPLES_H_
#define SLUICE_TOOLS_SLUICE_OP_EXAMPLES_H_

#include <string>
#include <vector>

#include "base/status.h"

namespace sluice::cli {

// The examples of `op`, each as text of a line or several:
//   MatMul([[1, 2], [3, 4]], [[1, 1]], transpose_b=true) = [[3], [7]]
// None for an op that has none.
Result<std::vector<std::string>> ExamplesOf(const std::string& op);

// The names that have examples, each once, in alphabetical order.
std::vector<std::string> OpsWithExamples();

}  // namespace sluice::cli

#endif  // SLUICE_TOOLS_SLUICE_OP_EXAMPLES_H_
