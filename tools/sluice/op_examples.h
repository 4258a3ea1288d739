// Worked examples of ops: calls with small inputs (op_examples.tsv) and their
// results, computed on demand.
#ifndef SLUICE_TOOLS_SLUICE_OP_EXAMPLES_H_
#define SLUICE_TOOLS_SLUICE_OP_EXAMPLES_H_

#include <string>
#include <vector>

#include "base/status.h"

namespace sluice::cli {

// The examples of `op`, each as one or more lines of text:
//   MatMul([[1, 2], [3, 4]], [[1, 1]], transpose_b=true) = [[3], [7]]
// Empty for an op that has none.
Result<std::vector<std::string>> ExamplesOf(const std::string& op);

// The names of the ops that have examples, unique and sorted.
std::vector<std::string> OpsWithExamples();

}  // namespace sluice::cli

#endif  // SLUICE_TOOLS_SLUICE_OP_EXAMPLES_H_
