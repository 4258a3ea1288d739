// ReadyStage: a stage between "ready" and "run" for some nodes of a plan.
//
// The driver of an execution passes nodes with PlanNode::kHeld to the stage
// when they are ready, and asks it for a group to run when nothing else is
// ready. So the stage waits for no timer, and what it holds always runs: a
// stage that holds nodes back until others are done (empty() is true, and then
// false again) runs them when nothing is in flight. Plans without a stage have
// no such nodes, and pay nothing.
//
// exec/batching has the stage that runs instances of a node as one kernel,
// exec/scheduling the one that decides where bodies run; ready_stages.h beside
// this file combines several.
#ifndef SLUICE_EXEC_CORE_READY_STAGE_H_
#define SLUICE_EXEC_CORE_READY_STAGE_H_

#include <memory>
#include <span>

#include "exec/core/frame.h"

namespace sluice {

struct TraceEvent;

// The held nodes of one execution. Owned by it, used by its driver only.
class ReadyStage {
 public:
  virtual ~ReadyStage() = default;
  // Begins a step. If `seed` is not 0, groups run in a random order.
  virtual void Start(uint64_t seed) = 0;
  // Takes a live node with kHeld. False: the caller runs it now.
  virtual bool Hold(Ready r) = 0;
  // Whether it has nothing to run now.
  virtual bool empty() const = 0;
  // Nothing is in flight: what was held back is to run. Returns whether there
  // is any.
  virtual bool Release() { return false; }
  // Takes out the nodes that are to run next. The span is valid until the next
  // call of Next or Start. REQUIRES: !empty() and !running().
  virtual std::span<const Ready> Next() = 0;
  // The rest is about the nodes that Next returned last.
  // Whether so many run together, or one by one.
  virtual bool RunsTogether(size_t nodes) const { return nodes > 1; }
  // Runs them, and fills their output slots. Returns those that ran; the others
  // are held again, or, if running() is true now, other threads run them
  // meanwhile: the caller goes on with what is ready, and calls this again for
  // more of them. After an error those that ran last are not filled.
  virtual Result<std::span<const Ready>> RunTogether(StepContext* step) = 0;
  // Whether some of them are still to be returned by RunTogether; then empty()
  // is false.
  virtual bool running() const { return false; }
  // After an error of RunTogether: the node that failed. None: the caller runs
  // them one by one, for the error of the right one.
  virtual Ready failed() const { return {}; }
  // Whether they ran as one kernel, with one event in a trace, or each has its
  // own, to which Describe adds what the stage knows.
  virtual bool OfOneNode() const { return true; }
  virtual void Describe(Ready, TraceEvent*) const {}
  // Drops all held nodes: the step has failed. Waits for those that other
  // threads run.
  virtual void Clear() = 0;
};

// Decides which nodes of a plan have the stage, and makes it for each
// execution. Holds is called while the plan is built, by one thread; Make
// later, by any.
class ReadyStageMaker {
 public:
  virtual ~ReadyStageMaker() = default;
  // Whether instances of the node are held. Called for nodes whose kernels are
  // synchronous and read no variable by reference. `in_root`: it has only one
  // instance in a step.
  virtual bool Holds(const Node& node, const Kernel& kernel, bool in_root) = 0;
  // `plan` outlives the stage.
  virtual std::unique_ptr<ReadyStage> Make(const Plan& plan) const = 0;
};

}  // namespace sluice

#endif  // SLUICE_EXEC_CORE_READY_STAGE_H_
