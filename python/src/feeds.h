// Which fed arrays a step may read where they are.
#ifndef SLUICE_PYTHON_FEEDS_H_
#define SLUICE_PYTHON_FEEDS_H_

#include <unordered_map>
#include <vector>

#include "graph/graph.h"

namespace sluice::python {

// An array that is fed is the user's, who may write to it as soon as the step
// is over. The step itself never writes to it (it is not the only owner), but a
// variable, a queue or a fetched value may go on sharing its memory. So it is
// read in place only where everything that takes it makes new memory; where
// that is not known of an op, it is copied. (So is all that is fed to a stage
// of a partial run: later stages go on reading it.) One per session; remembers
// what it found out. Under the interpreter's lock.
class FeedSafety {
 public:
  // Whether the memory of `feed` can be shared with by nothing that outlives
  // the step.
  bool MayShare(const Output& feed, const std::vector<Output>& fetches);

 private:
  struct Known {
    int nodes;  // Of the graph when it was found out.
    bool safe;  // No consumer shares its memory.
  };
  std::unordered_map<Output, Known, OutputHash> known_;
};

}  // namespace sluice::python

#endif  // SLUICE_PYTHON_FEEDS_H_
