// The structure of a graph for the formation of regions: its frames, and in
// each the units - nodes, and child frames as a whole - with their
// dependencies, the conditions under which they are alive, and the slow units
// that they wait for.
#ifndef SLUICE_EXEC_REGION_STRUCTURE_H_
#define SLUICE_EXEC_REGION_STRUCTURE_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "exec/kernel.h"
#include "graph/graph.h"

namespace sluice {

// True if consumers may read the node's input instead: it only forwards it, and
// waits for nothing else.
bool IsAlias(const Node& n);
// The output that is read in place of `o`.
Output ResolveAlias(Output o);

// Sets of literals "predicate p is v", interned: a token under a guard is alive
// exactly if all of them hold. 0 is the empty set. Predicates are numbered such
// that one comes after those that guard it.
class Guards {
 public:
  struct Literal {
    int predicate;
    bool value;
    auto operator<=>(const Literal&) const = default;
  };
  using Set = std::vector<Literal>;  // Sorted.
  static constexpr int kNever = -1;  // A contradiction, or too many.

  Guards() { Intern({}); }
  int Intern(Set s);
  const Set& set(int id) const { return sets_[static_cast<size_t>(id)]; }
  int Union(int a, int b);
  int With(int a, Literal l) { return Union(a, Intern({l})); }
  int Without(int a, Literal l);
  bool Has(int a, Literal l) const;
  // If a and b differ in exactly one literal, and only in its value: the
  // predicate and the common set. Else {-1, kNever}.
  std::pair<int, int> Complement(int a, int b);

 private:
  std::vector<Set> sets_;
  std::map<Set, int> ids_;
};

// The unit of the formation of regions: a node, or a loop with everything in
// it, as seen from the frame that contains it.
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
  int guard = 0;
  int predicate = -1;     // kMerge: the predicate that selects the input,
  int when_true = 0;      // and the input selected if it is true.
  std::vector<int> deps;  // Units of the same frame.
  std::vector<int> slow;  // Sorted: slow units that it waits for, directly or
                          // through units that are not slow.
  std::shared_ptr<Kernel> kernel;  // For kCheap.
};

// A variable of a loop.
struct RegionLoopVariable {
  const Node* merge = nullptr;
  const Node* enter = nullptr;
  const Node* next_iteration = nullptr;
  Output init() const { return enter->input(0); }           // In the parent.
  Output next() const { return next_iteration->input(0); }  // In the body.
};

// A static frame: the root, or one loop.
struct RegionFrame {
  int parent = -1;
  int depth = 0;
  bool well_formed = true;  // A loop as While builds it (or the root).
  bool whole = false;       // All of it may be one region.
  std::string name;
  std::vector<const Node*> nodes;  // In topological order.
  std::vector<const Node*> enters, exits;
  std::vector<RegionLoopVariable> variables;
  Output condition;    // The input of its LoopCond.
  Guards::Literal go;  // The literal of the body.
  std::vector<RegionUnit> units;
  std::vector<int> order;  // Units, topologically.
};

// The structure of one graph. Made and destroyed by the thread that compiles a
// step; constant except for guards, which grow as they are combined. The graph
// outlives it and must not change. Every node is in one frame, frames come
// after their parents, and in a well-formed frame every unit's deps come before
// it in `order`.
class RegionStructure {
 public:
  // The kernel of a node; null or an error if there is none.
  using KernelSource =
      std::function<Result<std::shared_ptr<Kernel>>(const Node&)>;

  // `keep`: nodes that must not change. Returns an error if the graph is
  // malformed; Plan::Build reports the details.
  static Result<std::unique_ptr<RegionStructure>> Analyse(
      const Graph& graph, const KernelSource& kernels,
      const std::set<const Node*>& keep);

  int num_frames() const { return static_cast<int>(frames_.size()); }
  const RegionFrame& frame(int f) const {
    return frames_[static_cast<size_t>(f)];
  }
  int frame_of(const Node* n) const { return place_[Id(n)].frame; }
  int output_frame_of(const Node* n) const {
    return place_[Id(n)].output_frame;
  }
  // The unit of the frame that `n` runs in; for an Enter, that of its loop.
  int unit_of(const Node* n) const { return place_[Id(n)].unit; }
  const RegionUnit& unit(int f, int u) const {
    return frame(f).units[static_cast<size_t>(u)];
  }
  Guards& guards() { return guards_; }
  Output predicate(int p) const { return predicates_[static_cast<size_t>(p)]; }

 private:
  struct Place {
    int frame = 0, output_frame = 0, unit = -1;
  };
  explicit RegionStructure(const Graph& graph) : graph_(graph) {}
  static size_t Id(const Node* n) { return static_cast<size_t>(n->id()); }
  RegionFrame& mutable_frame(int f) { return frames_[static_cast<size_t>(f)]; }

  Status PlaceNodes();
  Status PlaceNode(const Node& n);
  void MakeUnits(int f);
  void Depend(int f, const Node& n, const Node* from);
  bool Order(int f);
  void FindLoop(int f);
  void Guard(int f);
  int PredicateOf(Output o);
  int GuardOf(int f, const Output& o);
  int GuardOfMerge(int f, RegionUnit* u);
  int GuardOfTrigger(int f, const Node& n);
  int Opaque() { return guards_.Intern({{PredicateOf(Output()), true}}); }
  int UnitSeen(int f, const Node* from) const;
  RegionUnit::Kind Classify(int f, const Node& n, std::shared_ptr<Kernel>* k);
  bool IsDetour(const RegionUnit& u);
  void FindSlow(int f);
  bool IsWhole(int f);

  const Graph& graph_;
  const KernelSource* kernels_ = nullptr;
  const std::set<const Node*>* keep_ = nullptr;
  std::vector<Place> place_;
  std::vector<RegionFrame> frames_;
  std::map<std::pair<int, std::string>, int> frame_ids_;
  Guards guards_;
  std::vector<Output> predicates_;
  OutputMap<int> predicate_ids_;
};

}  // namespace sluice

#endif  // SLUICE_EXEC_REGION_STRUCTURE_H_
