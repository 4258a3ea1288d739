// Which line of the client's program nodes bear, beyond AtLine
// (graph/builder.h): for code that others' code runs within.
#ifndef SLUICE_GRAPH_EXACT_LINE_H_
#define SLUICE_GRAPH_EXACT_LINE_H_

#include "graph/builder.h"

namespace sluice {

// The line that AtLine gives to what this thread builds; unknown where each
// node bears its own.
SourceLoc CurrentLine();

// While one of these lives, what is built bears this line whatever AtLine is
// around; if it is unknown, each node its own. A library function that calls
// its caller back passes what CurrentLine() was when it was called, so that the
// caller's code is seen as it would be outside. A local variable, as all
// scopes.
class ExactLine {
 public:
  explicit ExactLine(SourceLoc line);
  ~ExactLine();
  ExactLine(const ExactLine&) = delete;

 private:
  const SourceLoc saved_;
};

}  // namespace sluice

#endif  // SLUICE_GRAPH_EXACT_LINE_H_
