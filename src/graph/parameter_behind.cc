#include "graph/parameter_behind.h"

#include "graph/frames.h"

namespace sluice {
namespace {

// Follows a token back through nodes that only forward it.
const Node* ForwardedFrom(const Output& o) {
  const Node* n = o.node;
  while (n != nullptr && n->num_inputs() > 0) {
    const OpRole role = n->op().role;
    const bool forwards = role == OpRole::kIdentity ||
                          role == OpRole::kSwitch ||
                          (role == OpRole::kEnter && IsConstantEnter(*n));
    // (The Identity of a reference is the read.)
    if (!forwards || (role == OpRole::kIdentity && IsRef(n->input(0).dtype()) &&
                      !IsRef(n->output_type(0))))
      break;
    n = n->input(0).node;
  }
  return n;
}

}  // namespace

const Node* ParameterBehind(const Output& value) {
  if (!value.valid() || IsRef(value.dtype())) return nullptr;
  const Node* const read = ForwardedFrom(value);
  if (read == nullptr || read->num_inputs() == 0) return nullptr;
  if (read->kind() != OpKind::kReadVariable &&
      !(read->op().role == OpRole::kIdentity && IsRef(read->input(0).dtype())))
    return nullptr;
  const Node* const made = ForwardedFrom(read->input(0));
  return made != nullptr && (made->kind() == OpKind::kVarHandle ||
                             made->kind() == OpKind::kRefVariable)
             ? made
             : nullptr;
}

}  // namespace sluice
