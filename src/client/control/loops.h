// Loops built by hand from the five primitives. (Most code uses While instead.)
//
//   Output i = OpenMerge(ops::Enter(0, "loop"));
//   auto [done, again] = ops::Switch(i, ops::LoopCond(i < 10));
//   CloseMerge(i, ops::NextIteration(again + 1));
//   Output ten = ops::Exit(done);
#ifndef SLUICE_CLIENT_CONTROL_LOOPS_H_
#define SLUICE_CLIENT_CONTROL_LOOPS_H_

#include <string>

#include "graph/builder.h"

namespace sluice {

// A Merge of `enter` and of an input that stays open until CloseMerge is
// called, which must happen before a session runs the graph.
Output OpenMerge(const Operand& enter, const std::string& name = "Merge",
                 SourceLoc loc = CallerLoc());

// Closes the cycle: `next` is the output of a NextIteration. Errors are
// recorded in the graph.
void CloseMerge(Output merge, Output next, SourceLoc loc = CallerLoc());

}  // namespace sluice

#endif  // SLUICE_CLIENT_CONTROL_LOOPS_H_
