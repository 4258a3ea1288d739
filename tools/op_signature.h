// An op's C++ signature (sluice/ops.h): the names of its builder's arguments
// and of the fields of its options. Shared by the builders and the op
// reference.
#ifndef SLUICE_TOOLS_OP_SIGNATURE_H_
#define SLUICE_TOOLS_OP_SIGNATURE_H_

#include <set>
#include <string>
#include <vector>

#include "graph/op_def.h"

namespace sluice {

// A C++ identifier for an argument or attribute that is not in `taken`; adds it
// there.
std::string Identifier(const std::string& name, std::set<std::string>* taken);

// True if the argument is a list of tensors.
bool IsListArg(const ArgDef& arg);

struct OpSignature {
  struct Field {
    const AttrDef* attr;
    std::string id;
  };
  std::vector<std::string> inputs;  // Identifiers, one per input argument.
  // Attributes that cannot be inferred from the inputs: arguments, and fields
  // of the options.
  std::vector<Field> required, optional;
};
OpSignature SignatureOf(const OpDef& op);

}  // namespace sluice

#endif  // SLUICE_TOOLS_OP_SIGNATURE_H_
