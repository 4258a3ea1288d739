// Names of nodes that TensorFlow's C API accepts.
#ifndef SLUICE_GRAPH_ANY_NAMES_H_
#define SLUICE_GRAPH_ANY_NAMES_H_

namespace sluice::internal {

// While one exists, Graph::AddNode accepts names with any characters on this
// thread. GraphDefs with such names can be written and, as in TensorFlow, not
// imported.
class AnyNodeNames {
 public:
  AnyNodeNames();
  ~AnyNodeNames();
  AnyNodeNames(const AnyNodeNames&) = delete;
  static bool Allowed();
};

}  // namespace sluice::internal

#endif  // SLUICE_GRAPH_ANY_NAMES_H_
