// Loops from the five primitives, by hand. (While builds them for most.)
//
//   Output i = OpenMerge(ops::Enter(0, "loop"));
//   auto [done, again] = ops::Switch(i, ops::LoopCond(i < 10));
//   CloseMerge(i, ops::NextIteration(again + 1));
//   Output ten = ops::Exit(done);
#ifndef SLUICE_CLIENT_LOOPS_H_
#define SLUICE_CLIENT_LOOPS_H_

#include <string>

#include "graph/builder.h"

namespace sluice {

// A Merge of `enter` and of an input that stays open until CloseMerge, which
// must follow before a session runs the graph.
Output OpenMerge(const Operand& enter, const std::string& name = "Merge",
                 SourceLoc loc = CallerLoc());

// Closes the cycle: `next` is the output of a NextIteration. Errors are
// recorded in the graph.
void CloseMerge(Output merge, Output next, SourceLoc loc = CallerLoc());

}  // namespace sluice

#endif  // SLUICE_CLIENT_LOOPS_H_
