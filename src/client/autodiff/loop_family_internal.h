// Shared by loop_family.cc and loop_member.cc. Internal.
#ifndef SLUICE_CLIENT_AUTODIFF_LOOP_FAMILY_INTERNAL_H_
#define SLUICE_CLIENT_AUTODIFF_LOOP_FAMILY_INTERNAL_H_

#include "client/autodiff/loop_family.h"
#include "graph/device_scope.h"
#include "graph/exact_line.h"

namespace sluice::loops {

// ---- Attributes that let an imported graph be differentiated again.

// On an array and its reads: the value that the array holds.
inline constexpr const char* kSavedValue = "_saved_value";

// On an array of a variable's values: the node that writes the last one.
inline constexpr const char* kLastWrite = "_saved_last";

// On the Merge of a loop's index: the family of the loop (the name of the Exit
// that provides the iteration count) and the direction of the index.
inline constexpr const char* kFamily = "_loop_family";
inline constexpr const char* kDescending = "_loop_descending";
// On the Merge of the variable that waits for the loop's writes, unless that is
// the index.
inline constexpr const char* kDone = "_loop_done";

// On the reads and writes of a loop that may keep saved values in host memory
// (WhileOptions::swap_memory); devices check it.
inline AttrMap SwapsLike(const WhileContext* loop) {
  if (!loop->swap_memory) return {};
  return {{"_swap_memory", true}};
}

// ---- Contexts.

// The line of the call that made a loop.
inline SourceLoc LineOf(const WhileContext* loop) {
  return loop->loop_cond()->loc();
}

// Builds nodes in the context of a loop long after the loop was built: only the
// context applies, not the caller's scopes.
class InContext {
 public:
  InContext(ControlFlowContext* context, const Node* beside)
      : context_(context), device_(beside->device()), line_(beside->loc()) {}

 private:
  const ContextScope context_;
  const NoDeviceScope no_scopes_;
  const DeviceScope device_;
  const ExactLine line_;
};

// ---- Values.

using ValueKey = std::pair<Node*, int>;

inline ValueKey KeyOf(const Output& o) { return {o.node, o.index}; }

}  // namespace sluice::loops

#endif  // SLUICE_CLIENT_AUTODIFF_LOOP_FAMILY_INTERNAL_H_
