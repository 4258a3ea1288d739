// Which calls of Python were going on when a node was made.
#ifndef SLUICE_PYTHON_STACKS_H_
#define SLUICE_PYTHON_STACKS_H_

#include <vector>

#include "py.h"

namespace sluice::python {

// The stacks of a graph's nodes. As one is mostly like that before it but for
// its end, they are a tree. Under the interpreter's lock.
class Stacks {
 public:
  // This thread's stack now is that of the nodes [first, end), by id, but for
  // those that have one.
  void Record(int first, int end);
  // [(file, line, function)], outermost first.
  py::list Of(int node) const;

 private:
  // A call: that which made it, the code, and where in this the next was made.
  struct Frame {
    int caller;
    py::object code;
    int place;  // Of PlaceOf.
  };
  std::vector<Frame> frames_;
  std::vector<int> last_;     // The stack before: its frames, outermost first.
  std::vector<int> of_node_;  // The innermost frame; or -1.
};

}  // namespace sluice::python

#endif  // SLUICE_PYTHON_STACKS_H_
