// Static information about the TensorArrays of a graph.
#ifndef SLUICE_GRAPH_TENSOR_ARRAY_INFO_H_
#define SLUICE_GRAPH_TENSOR_ARRAY_INFO_H_

#include "graph/node.h"

namespace sluice {

// The TensorArrayV3 (TensorArrayGradV3, TensorArrayGradWithShape) that made a
// handle, traced back through ops that forward handles; null if unknown.
const Node* TensorArrayBehind(const Output& handle);

// The declared shape of the elements of the array that a handle points to; a
// gradient array has its forward array's.
PartialShape TensorArrayElementShape(const Output& handle);

// True if `o` is a flow: the scalar that orders the ops of one TensorArray.
// Traced back through ops that forward tokens. The number it carries has no
// meaning; if its gradient is missing, the flow itself is used (zeros would not
// order the reads of the gradient array after the writes of the forward array).
bool IsTensorArrayFlow(const Output& o);

// The TensorArrayV3 whose ops a flow orders; null if unknown.
const Node* TensorArrayOfFlow(const Output& flow);

}  // namespace sluice

#endif  // SLUICE_GRAPH_TENSOR_ARRAY_INFO_H_
