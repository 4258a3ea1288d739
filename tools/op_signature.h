// How an op looks in C++ (sluice/ops.h): the names of its builder's arguments
// and of the fields of its options. What the builders and the op reference
// share.
#ifndef SLUICE_TOOLS_OP_SIGNATURE_H_
#define SLUICE_TOOLS_OP_SIGNATURE_H_

#include <set>
#include <string>
#include <vector>

#include "graph/op_def.h"

namespace sluice {

// A C++ identifier for an argument or attribute, not among `taken`, to which it
// is added.
std::string Identifier(const std::string& name, std::set<std::string>* taken);

// True if the argument stands for several tensors.
bool IsListArg(const ArgDef& arg);

struct OpSignature {
  struct Field {
    const AttrDef* attr;
    std::string id;
  };
  std::vector<std::string> inputs;  // Identifiers, one per input argument.
  // Attributes that the inputs do not tell: arguments, and fields of the
  // options.
  std::vector<Field> required, optional;
};
OpSignature SignatureOf(const OpDef& op);

}  // namespace sluice

#endif  // SLUICE_TOOLS_OP_SIGNATURE_H_
