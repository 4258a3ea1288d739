// The op reference: what the registry knows of an op as text, for a terminal
// and for docs/ops.
#ifndef SLUICE_TOOLS_SLUICE_OP_REFERENCE_H_
#define SLUICE_TOOLS_SLUICE_OP_REFERENCE_H_

#include <filesystem>
#include <string>

#include "base/status.h"
#include "graph/op_def.h"

namespace sluice::cli {

// All about one op, for a terminal.
Result<std::string> OpText(const OpDef& op);

// A page of Markdown for each family of ops, and README.md, into `dir`, which
// is made where it is missing.
Status WriteOpReference(const std::filesystem::path& dir);

}  // namespace sluice::cli

#endif  // SLUICE_TOOLS_SLUICE_OP_REFERENCE_H_
