// What loop_family.cc and loop_member.cc have in common. Not for others.
#ifndef SLUICE_CLIENT_LOOP_FAMILY_INTERNAL_H_
#define SLUICE_CLIENT_LOOP_FAMILY_INTERNAL_H_

#include "client/loop_family.h"
#include "graph/device_scope.h"
#include "graph/exact_line.h"

namespace sluice::loops {

// ---- Attributes that let an imported graph be differentiated again.

// On an array and on its reads: which value it holds.
inline constexpr const char* kSavedValue = "_saved_value";

// On an array of a variable's values: the node that writes the last one.
inline constexpr const char* kLastWrite = "_saved_last";

// On the Merge of a loop's index: the family that the loop is of (the name of
// the Exit that says how often its loops run), and how the index goes.
inline constexpr const char* kFamily = "_loop_family";
inline constexpr const char* kDescending = "_loop_descending";
// On the Merge of the variable that waits for the loop's writes, where that is
// not the index.
inline constexpr const char* kDone = "_loop_done";

// On the writes and reads of a loop that may keep what it saves in the host's
// memory (WhileOptions::swap_memory); devices look at it.
inline AttrMap SwapsLike(const WhileContext* loop) {
  if (!loop->swap_memory) return {};
  return {{"_swap_memory", true}};
}

// ---- Places.

// The line of the call that made a loop.
inline SourceLoc LineOf(const WhileContext* loop) {
  return loop->loop_cond()->loc();
}

// A node that is built among others of a loop, long after them: only the place
// counts, not the scopes of whoever asked.
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

#endif  // SLUICE_CLIENT_LOOP_FAMILY_INTERNAL_H_
