// ReadyStage: a stage between "ready" and "run" for some nodes of a plan.
//
// The driver of an execution passes nodes with PlanNode::kHeld to the stage
// when they are ready, and asks it for a group to run when nothing else is
// ready. So the stage waits for no timer, and what it holds always runs: a
// driver never gives up its role while the stage holds nodes and no kernel is
// in flight. Plans without a stage have no such nodes, and pay nothing.
//
// exec/batching has the stage that runs instances of a node as one kernel.
#ifndef SLUICE_EXEC_CORE_READY_STAGE_H_
#define SLUICE_EXEC_CORE_READY_STAGE_H_

#include <memory>
#include <span>

#include "exec/core/frame.h"

namespace sluice {

// The held nodes of one execution. Owned by it, used by its driver only.
class ReadyStage {
 public:
  virtual ~ReadyStage() = default;
  // Begins a step. If `seed` is not 0, groups run in a random order.
  virtual void Start(uint64_t seed) = 0;
  // Takes a live node with kHeld. False: the caller runs it now.
  virtual bool Hold(Ready r) = 0;
  virtual bool empty() const = 0;
  // Takes out the nodes that are to run next, instances of one node. The span
  // is valid until the next call of Hold, Next or Start. REQUIRES: !empty().
  virtual std::span<const Ready> Next() = 0;
  // Runs the kernel once for all nodes that Next returned last, and fills their
  // output slots. After an error none is filled, and the caller runs them one
  // by one, for the error of the right one.
  virtual Status RunTogether(StepContext* step) = 0;
  // Drops all held nodes: the step has failed.
  virtual void Clear() = 0;
};

// Decides which nodes of a plan have the stage, and makes it for each
// execution. Holds is called while the plan is built, by one thread; Make
// later, by any.
class ReadyStageMaker {
 public:
  virtual ~ReadyStageMaker() = default;
  // Whether instances of the node are held. Called for nodes in the frames of
  // loops and functions, whose kernels are synchronous and read no variable by
  // reference.
  virtual bool Holds(const Node& node, const Kernel& kernel) = 0;
  // `plan` outlives the stage.
  virtual std::unique_ptr<ReadyStage> Make(const Plan& plan) const = 0;
};

}  // namespace sluice

#endif  // SLUICE_EXEC_CORE_READY_STAGE_H_
