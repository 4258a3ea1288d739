// Source lines of nodes and errors, beyond AtLine (graph/builder.h).
#ifndef SLUICE_GRAPH_EXACT_LINE_H_
#define SLUICE_GRAPH_EXACT_LINE_H_

#include "graph/builder.h"

namespace sluice {

// The line that AtLine sets for this thread; unknown if each node gets its own.
SourceLoc CurrentLine();

// Adds the line of the call that failed to an error, as BuildError does.
Status WithLine(const Status& error, SourceLoc loc);

// RAII scope in which new nodes get this line regardless of enclosing AtLines;
// if it is unknown, each node gets its own. A library function that runs a
// callback of its caller passes the CurrentLine() of its entry, so that the
// callback's nodes get the lines they would get outside. Make it a local
// variable, as all scopes.
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
