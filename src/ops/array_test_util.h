// Running one op in tests, with its shape function checked along the way.
#ifndef SLUICE_OPS_ARRAY_TEST_UTIL_H_
#define SLUICE_OPS_ARRAY_TEST_UTIL_H_

#include <string>
#include <utility>
#include <vector>

#include "exec/kernel.h"
#include "graph/builder.h"

namespace sluice {

// Adds `op` to the ambient graph: on constants, or on placeholders of which
// nothing but the type is known.
inline Result<Node*> AddOp(const std::string& op,
                           const std::vector<Tensor>& inputs,
                           const AttrMap& attrs, bool constants) {
  Graph& g = CurrentGraph();
  std::vector<Output> outputs;
  for (const Tensor& t : inputs)
    outputs.push_back(constants
                          ? Constant(t)
                          : Build("Placeholder", {}, {{"dtype", t.dtype()}}));
  Node* node = BuildNode(op, outputs, attrs);
  if (node == nullptr) return g.status();
  return node;
}

// The outputs of `op`. An error says whether it came while building on inputs
// of which all is known, or from the kernel. Internal if the shapes inferred,
// with or without the inputs' values, do not fit those computed.
inline Result<std::vector<Tensor>> RunOp(const std::string& op,
                                         const std::vector<Tensor>& inputs,
                                         const AttrMap& attrs = {}) {
  Graph g;
  WithGraph use(g);
  SLUICE_ASSIGN_OR_RETURN(Node * unknown, AddOp(op, inputs, attrs, false));
  SLUICE_ASSIGN_OR_RETURN(std::vector<Tensor> out, RunKernel(*unknown, inputs));
  SLUICE_ASSIGN_OR_RETURN(Node * known, AddOp(op, inputs, attrs, true));
  for (const Node* n : {unknown, known}) {
    for (int i = 0; i < n->num_outputs(); ++i) {
      const Tensor& t = out[static_cast<size_t>(i)];
      if (!t.valid()) return Internal(op, ": output ", i, " was not set");
      if (t.dtype() != n->output_type(i))
        return Internal(op, ": output ", i, ": expected ",
                        DTypeName(n->output_type(i)), ", got ",
                        DTypeName(t.dtype()));
      if (!n->output_shape(i).CompatibleWith(t.shape()))
        return Internal(op, ": inferred shape: expected one that fits ",
                        t.shape().ToString(), ", got ",
                        n->output_shape(i).ToString());
    }
  }
  return out;
}

}  // namespace sluice

#endif  // SLUICE_OPS_ARRAY_TEST_UTIL_H_
