// What a graph says of its TensorArrays before a step runs.
#ifndef SLUICE_GRAPH_TENSOR_ARRAY_INFO_H_
#define SLUICE_GRAPH_TENSOR_ARRAY_INFO_H_

#include "graph/graph.h"

namespace sluice {

// The TensorArrayV3 (TensorArrayGradV3, TensorArrayGradWithShape) that made a
// handle, followed back through whatever passes handles on; null if unknown.
const Node* TensorArrayBehind(const Output& handle);

// The declared shape of the elements of the array that a handle points to; a
// gradient array has its forward array's.
PartialShape TensorArrayElementShape(const Output& handle);

// True if `o` is a flow: the scalar that orders the ops of one TensorArray.
// Followed back through whatever passes tokens on. The number it carries means
// nothing; where its gradient is missing, the flow itself will do (zeros would
// not order what reads the gradient array after the writes of the forward one).
bool IsTensorArrayFlow(const Output& o);

// The TensorArrayV3 whose ops a flow orders; null if unknown.
const Node* TensorArrayOfFlow(const Output& flow);

}  // namespace sluice

#endif  // SLUICE_GRAPH_TENSOR_ARRAY_INFO_H_
