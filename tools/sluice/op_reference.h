// The op reference: an op's entry in the registry as text, for a terminal and
// for docs/ops.
#ifndef SLUICE_TOOLS_SLUICE_OP_REFERENCE_H_
#define SLUICE_TOOLS_SLUICE_OP_REFERENCE_H_

#include <filesystem>
#include <string>

#include "base/status.h"
#include "graph/op_def.h"

namespace sluice::cli {

// The full description of one op, for a terminal.
Result<std::string> OpText(const OpDef& op);

// Writes a Markdown page for each family of ops, and README.md, into `dir`,
// which is created if missing.
Status WriteOpReference(const std::filesystem::path& dir);

}  // namespace sluice::cli

#endif  // SLUICE_TOOLS_SLUICE_OP_REFERENCE_H_
