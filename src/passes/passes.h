// Passes: transformations of a graph before it becomes a plan. Pruning copies
// the part that a step runs; the others edit that copy. Each pass preserves the
// results of the graph, including state, control edges, frames and random ops;
// a session can disable those that only save time. Each takes time linear in
// nodes and edges.
//
// Their order is that of session/compile.cc. "Needs" and "leaves" name the
// properties of passes/properties.h; a pass keeps those that it needs.
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

// Copies the nodes that the fetches and targets need, given the feeds. Feeds
// become _Arg nodes (index: position among the feeds), fetches _Retval nodes
// (index: position among the fetches). Other nodes keep their names.
// Needs nothing of `graph`. Leaves: connected.
Result<std::unique_ptr<Graph>> Prune(const Graph& graph,
                                     const StepSignature& s);

// Whether control edges from this node, if it is fed, wait for the feed
// instead: true for placeholders, which would fail.
bool IsFedInPlace(const Node& n);

// Orders reads of reference variables. A node that reads a variable and has
// another input that waits for a write of a variable gets its own control edge
// from the write: TensorFlow omits that edge if an input has it, although the
// value read depends on it. If a loop writes a variable, reads of it outside
// that the loop uses are moved into the loop, to run in each iteration
// (docs/design/011-reference-reads.md). Resource variables are not affected.
// Needs: connected, lowered (inlined bodies read variables, too).
Status OrderReads(Graph* graph);

// Computes a node's outputs from constant inputs; an error means "leave it".
using Evaluator = std::function<Result<std::vector<Tensor>>(
    const Node&, std::vector<Tensor> inputs)>;

// Nodes whose inputs are all constant become constants, and so do known shapes.
// Not folded: ops that are not_foldable, nodes ordered by control edges,
// control flow and its dependents (they may be dead; a constant never is),
// results above 10 MB, and nodes whose kernels fail (the step reports the
// error).
// Needs: connected. Runs after OrderReads, whose control edges keep reads from
// being folded.
Status FoldConstants(Graph* graph, const Evaluator& evaluate);

// Merges nodes that compute the same function of the same inputs: the first one
// replaces the others, which are left without readers. Not merged: ops that
// are not_mergeable, references, and control-flow primitives.
// Needs: connected. Runs after FoldConstants, which makes equal constants.
Status MergeCommonSubexpressions(Graph* graph);

// Sums of matrix products without other readers, and sums of one such product
// and one other term, become a chain of MatMulAdd, which accumulates the
// products in place. This is the gradient of weights that a recurrent network
// uses in every time step. Without this pass an unrolled network would hold a
// matrix of the weights' size for each time step, and a loop would write two in
// each iteration. The replaced nodes are left without readers.
// Needs: connected. Runs after MergeCommonSubexpressions, which gives a product
// all its readers.
Status AccumulateProducts(Graph* graph);

// Fuses convolutions and matrix products with the ops that follow them: a bias
// (or, for a convolution, a batch normalisation with known statistics) and an
// activation become one node with the product (_FusedConv2D, _FusedMatMul), if
// the intermediate values have no other readers, the intermediate nodes have no
// control inputs, their control outputs can start from the fused node, and all
// are on one device. The replaced nodes are left without readers. Nodes in
// `keep` are not changed.
// Needs: connected, lowered. Runs before chains and regions, which
// take single elementwise nodes.
Status FuseProducts(Graph* graph, const std::vector<Node*>& keep);

// A node of a branch reads values that are held anyway past the Switch that
// hands them to the branch: loop constants, and arguments of a function that
// each of its calls within itself passes on as they are. One other input or
// control input of the node must tell that the branch is taken; otherwise one
// Switch stays. Switches without readers are left.
// Needs: connected, lowered. Leaves the values of each node, and when it is
// dead, as they were. Runs before regions.
Status SkipSwitches(Graph* graph);

// Adam's update for a gradient of some rows, which TensorFlow's optimizers
// build from some twenty nodes (client/nn/adam_optimizers.h), becomes one node
// (SparseApplyAdam), if the moments between have no other readers and the step
// needs none of the nodes in `keep` by name. The sums of repeated rows before
// it are left out. The replaced nodes are left without readers.
// Needs: connected, lowered. Runs before OrderReads, whose control edges would
// be in the way, and FoldConstants. Takes time linear in the graph for each
// update.
Status FuseSparseAdam(Graph* graph, const std::vector<Node*>& keep);

// Makes ops that join the elements of a gradient array wait for the end of the
// loop that wrote them: then only the array refers to the elements, and rows of
// one buffer are joined without a copy.
// Needs: connected, lowered. Runs last before placement: its control edges
// would keep nodes from being merged.
Status JoinAfterLoops(Graph* graph);

// Removes and returns the nodes that are not needed by a boundary node (_Arg,
// _Retval, _Call, transfers to other partitions) or a target. Needs: connected.
std::vector<std::unique_ptr<Node>> DropUnread(
    Graph* graph, const std::vector<Node*>& targets);

// As DropUnread, and without the results of functions that are read after no
// call (gradients of integer arguments, for example), unless what they need has
// effects, or some results of the function may be dead. Needs: connected,
// lowered.
Result<std::vector<std::unique_ptr<Node>>> DropUnreadResults(
    Graph* graph, const std::vector<Node*>& targets);

}  // namespace sluice

#endif  // SLUICE_PASSES_PASSES_H_
