// Collective operations among the members of a group, and data-parallel
// training on them: every member has a copy of the model, and all apply the
// mean of their gradients.
//
//   GradientDescentOptimizer sgd(0.1);
//   AllReduceOptimizer mean(sgd, {.group = {.size = workers}});
//   Node* train = mean.Minimize(loss);
//   Node* same_start = mean.BroadcastVariables(/*root=*/worker == 0);
//
// Each member runs its own steps, in a session and a graph of its own, on a
// task of one cluster; or members are several devices or nodes of one session.
// docs/design/043-collectives.md says how a group is formed, and what happens
// when it loses a member.
#ifndef SLUICE_CLIENT_NN_COLLECTIVES_H_
#define SLUICE_CLIENT_NN_COLLECTIVES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/nn/optimizer.h"

namespace sluice {

struct CollectiveGroup {
  int64_t size = 1;  // The number of members.
  // Names the group, in all processes of a cluster.
  int64_t key = 1;
  // This member's place; -1: in the order of the members' devices, of which
  // each then has one member.
  int64_t rank = -1;
};

enum class Reduction : uint8_t { kSum, kMean, kProduct, kMin, kMax };

struct CollectiveOptions {
  CollectiveGroup group = {};
  // Which operation of the members is the same one. 0: the number of this
  // member's operations in this graph so far (those of the group with the same
  // rank and device), plus one, so that members that build the same agree.
  int64_t instance = 0;
  // "auto", "ring", "tree" or "direct" (to all).
  std::string algorithm = "auto";
};

// These build one node of the family "collectives" (docs/ops/collectives.md).
// All members run it, with values of one type (half, bfloat16, float, double,
// int32, int64) and shape. Errors are recorded in the graph. AllReduce with
// kSum or kMean, AllGather and ReduceScatter have gradients.
Output AllReduce(const Operand& x, Reduction how,
                 const CollectiveOptions& options, SourceLoc loc = CallerLoc());
// All values along the first dimension, in the order of ranks.
Output AllGather(const Operand& x, const CollectiveOptions& options,
                 SourceLoc loc = CallerLoc());
// This member's share of the rows of the reduced value: with d rows and n
// members, rows [d r / n, d (r + 1) / n) of rank r. It has a gradient if n
// divides d.
Output ReduceScatter(const Operand& x, Reduction how,
                     const CollectiveOptions& options,
                     SourceLoc loc = CallerLoc());
// The root's x. `x` of the others gives type and shape, which must be known,
// and is not computed.
Output Broadcast(const Operand& x, bool root, const CollectiveOptions& options,
                 SourceLoc loc = CallerLoc());

struct AllReduceOptions {
  CollectiveGroup group = {};
  // Gradients are reduced together, in the order in which they are computed,
  // until they have this many bytes: fewer messages, and the first are sent
  // while later ones are computed. 0: each alone.
  int64_t bucket_bytes = int64_t{4} << 20;
  std::string algorithm = "auto";
};

// The mean of all members' gradients, in the order of `grads`. Sparse ones
// become dense. InvalidArgument for a gradient whose type cannot be reduced.
Result<std::vector<GradAndVar>> AllReduceGradients(
    const std::vector<GradAndVar>& grads, const AllReduceOptions& options,
    SourceLoc loc = CallerLoc());

// Applies the mean of all members' gradients by another optimizer, which
// outlives it. Used by the thread that builds the graph.
class AllReduceOptimizer {
 public:
  AllReduceOptimizer(Optimizer& optimizer, AllReduceOptions options)
      : optimizer_(optimizer), options_(std::move(options)) {}

  // A step of this member. Null on error, which is recorded in the graph.
  Node* Minimize(Output loss, const MinimizeOptions& options = {},
                 SourceLoc loc = CallerLoc());
  // The second half of it; the first is Optimizer::ComputeGradients.
  Node* ApplyGradients(const std::vector<GradAndVar>& grads,
                       const MinimizeOptions& options = {},
                       SourceLoc loc = CallerLoc());
  // A node that gives all members the root's values of `variables` (empty: all
  // of the graph). Run by every member at the start and when the group has been
  // formed anew: members may have lost different steps. Null on error.
  Node* BroadcastVariables(bool root, std::vector<Var> variables = {},
                           SourceLoc loc = CallerLoc());

 private:
  Optimizer& optimizer_;
  const AllReduceOptions options_;
};

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_COLLECTIVES_H_
