// The structure of a graph for the formation of regions: its frames, and in
// each the units - nodes, and child frames as a whole - with their
// dependencies, the conditions under which they are alive, and the slow units
// that they wait for.
#ifndef SLUICE_EXEC_FUSION_REGION_STRUCTURE_H_
#define SLUICE_EXEC_FUSION_REGION_STRUCTURE_H_

#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "exec/core/kernel.h"
#include "graph/liveness.h"

namespace sluice {

// What the formation of regions takes or leaves as a whole: a node, or a loop
// with all that is in it, seen from the frame that it stands in.
struct RegionUnit {
  enum Kind : uint8_t {
    kFree,   // No work when it runs, or does not run.
    kCheap,  // A kernel that returns soon.
    kMerge,  // The Merge of a conditional.
    kChild,  // A loop.
    kSlow,   // Everything else: not for regions.
  };
  const Node* node = nullptr;  // Null for a child frame.
  int child = -1;
  Kind kind = kSlow;
  int guard = 0;          // When it is live in its frame. (Not where it runs
                          // in a loop: see RegionFrame::parts.)
  Output predicate;       // kMerge: what it chooses by,
  int when_true = 0;      // and the input it takes then.
  std::vector<int> deps;  // Units of the same frame.
  std::vector<int> slow;  // Sorted: slow units that it waits for, directly or
                          // through units that are not slow; without those
                          // that another of them waits for.
  std::shared_ptr<Kernel> kernel;  // For kCheap.
  bool is_held = false;            // A stage of the ready list holds it.
  bool after_held = false;  // It is held, or depends on such a unit, directly
                            // or through units that are not slow.
};

// A variable of a loop.
struct RegionLoopVariable {
  const Node* merge = nullptr;
  const Node* enter = nullptr;
  const Node* next_iteration = nullptr;
  Output init() const { return enter->input(0); }           // In the parent.
  Output next() const { return next_iteration->input(0); }  // In the body.
};

// The parts of an iteration of a loop: before the predicate is known, if it is
// true, and if it is false.
enum class RegionPart : uint8_t { kHead, kBody, kTail };

// What is known of a frame beyond GraphFrame: units, and the parts of a loop.
struct RegionFrame {
  bool well_formed =
      true;            // The root, a function or a loop as While builds it.
  bool whole = false;  // A loop all of which may be one region.
  std::vector<RegionLoopVariable> variables;
  Output condition;  // The input of a loop's LoopCond.
  Literal go = 0;    // Holds in the body of a loop.
  std::vector<RegionUnit> units;
  std::vector<int> order;  // Units, topologically.
  // In a whole loop, by unit: the part of an iteration that it runs in.
  std::vector<RegionPart> parts;
};

// The units of all frames of one graph. Owned by the pass that asked for it and
// used by its thread alone. Nothing changes after Analyse but the conditions,
// which grow as they are combined. Nodes may be added to the graph meanwhile;
// those that are known must stay as they are. In a frame that is well formed,
// every unit's deps come before it in `order`.
class RegionStructure {
 public:
  // The kernel of a node; null or an error if there is none.
  using KernelSource =
      std::function<Result<std::shared_ptr<Kernel>>(const Node&)>;

  // `keep`: nodes that must stay as they are. `held`: nodes whose instances a
  // stage of the ready list runs together; they are cheap. Errors: those of
  // Frames.
  static Result<std::unique_ptr<RegionStructure>> Analyse(
      const Graph& graph, const KernelSource& kernels,
      const std::set<const Node*>& keep, const std::set<const Node*>& held);

  const Frames& frames() const { return frames_; }
  int num_frames() const { return frames_.size(); }
  const RegionFrame& frame(int f) const {
    return region_frames_[static_cast<size_t>(f)];
  }
  int frame_of(const Node* n) const { return frames_.frame_of(n); }
  // The unit of the frame that `n` runs in; for an Enter, that of its loop.
  int unit_of(const Node* n) const { return unit_of_[Id(n)]; }
  const RegionUnit& unit(int f, int u) const {
    return frame(f).units[static_cast<size_t>(u)];
  }
  // Those of guards.
  Conditions& conditions() { return liveness_.conditions(); }
  // The predicate of a literal; null if it is about something else.
  Output predicate(Literal l) const { return liveness_.predicate(l); }

 private:
  RegionStructure(const Graph& graph, const std::vector<Node*>& order,
                  Frames frames);
  static size_t Id(const Node* n) { return static_cast<size_t>(n->id()); }
  RegionFrame& mutable_frame(int f) {
    return region_frames_[static_cast<size_t>(f)];
  }

  void MakeUnits(int f);
  void Depend(int f, const Node& n, const Node* from);
  bool Order(int f);
  bool FindLoop(int f);
  bool FindGuards(int f);
  void FindChoice(int f, RegionUnit* merge);
  int UnitSeen(int f, const Node* from) const;
  RegionUnit::Kind Classify(int f, RegionUnit* u);
  RegionUnit::Kind ClassifyKernel(int f, RegionUnit* u);
  bool IsDetour(const RegionUnit& u);
  void FindSlow(int f);
  bool IsWhole(int f);
  bool FindParts(int f);

  const KernelSource* kernels_ = nullptr;
  const std::set<const Node*>* keep_ = nullptr;
  const std::set<const Node*>* held_ = nullptr;
  const Frames frames_;
  Liveness liveness_;
  std::vector<int> unit_of_;  // By node id.
  std::vector<RegionFrame> region_frames_;
};

}  // namespace sluice

#endif  // SLUICE_EXEC_FUSION_REGION_STRUCTURE_H_
