// Passes: what is done to a graph before it becomes a plan. Pruning copies the
// part that a step runs; the others edit that copy. Each leaves what the graph
// computes as it is, with state, control edges, frames and random ops; a
// session can switch all but pruning off. Each takes time linear in nodes and
// edges.
#ifndef SLUICE_PASSES_PASSES_H_
#define SLUICE_PASSES_PASSES_H_

#include <functional>
#include <memory>
#include <vector>

#include "graph/graph.h"

namespace sluice {

// The part of a graph that one kind of step runs.
struct StepSignature {
  std::vector<Output> feeds;
  std::vector<Output> fetches;
  std::vector<Node*> targets;
};

// The nodes that the fetches and targets need when the feeds are given. Fed
// edges become _Arg nodes (index: position among the feeds), fetches _Retval
// nodes (index: position among the fetches). Other nodes keep their names.
Result<std::unique_ptr<Graph>> Prune(const Graph& graph,
                                     const StepSignature& s);

// Whether what waits for this node waits for what is fed in its place: it is a
// placeholder, which would fail.
bool IsFedInPlace(const Node& n);

// What reads a variable, and has another input that waits for a change of one,
// reads after that: it gets a control edge of its own, which TensorFlow leaves
// out where an input has it, though what a reader sees depends on it; and what a
// loop that changes a variable takes from a read outside is read within it, in
// each iteration (docs/design/011-reference-reads.md). References alone; others are not
// touched.
Status OrderReads(Graph* graph);

// Computes a node's outputs from constant inputs; an error means "leave it".
using Evaluator = std::function<Result<std::vector<Tensor>>(
    const Node&, std::vector<Tensor> inputs)>;

// Nodes whose inputs are all constant become constants, and shapes that are
// known do too. Left alone: stateful ops, nodes ordered by control edges,
// control flow and what depends on it (it may be dead, a constant never is),
// results above 10 MB, and kernels that fail (the step will say so).
Status FoldConstants(Graph* graph, const Evaluator& evaluate);

// Nodes that compute the same from the same become one: the first is read in
// place of the others, which stay without readers. Left alone: stateful ops,
// references, and the primitives of control flow.
Status MergeCommonSubexpressions(Graph* graph);

// Sums of matrix products that nobody else reads, and of one with one other
// term, become a chain of MatMulAdd, which adds each product where the sum
// lies: the gradient of weights that a network uses in every step, which would
// otherwise hold a matrix of the weights' size for each step of an unrolled
// one, and write two in each iteration of a loop. What they stand for stays
// without readers.
Status AccumulateProducts(Graph* graph);

// Convolutions and matrix products take what follows them along: a bias (or, of
// a convolution, the normalisation of a batch by what is known before) and an
// activation become one node with the product (_FusedConv2D, _FusedMatMul),
// where nobody else reads what is between, no control edge ends there, what
// begins there may as well begin behind it, and all are on one device. What
// they stand for stays without readers. Left alone: what `keep` has.
Status FuseProducts(Graph* graph, const std::vector<Node*>& keep);

// What joins the elements of a gradient array waits for the whole of the loop
// that wrote them: then nobody but the array has these, and rows of one piece
// of memory need no copy to be one tensor again.
Status JoinAfterLoops(Graph* graph);

// Removes the nodes that nothing that enters or leaves (_Arg, _Retval, and what
// crosses to other partitions) and no target needs, and gives them.
std::vector<std::unique_ptr<Node>> DropUnread(
    Graph* graph, const std::vector<Node*>& targets);

}  // namespace sluice

#endif  // SLUICE_PASSES_PASSES_H_
