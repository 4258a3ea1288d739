// The analysis of a graph before partitioning: frames, and which tokens are
// dead together.
#ifndef SLUICE_PASSES_PARTITION_STRUCTURE_H_
#define SLUICE_PASSES_PARTITION_STRUCTURE_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "graph/graph.h"

namespace sluice {

// Helpers that depend only on the graph.
bool IsLoopEnter(const Node& n);   // Enter of a value, constant or not.
bool IsConstEnter(const Node& n);  // Enter of a loop constant.
bool IsBackEdge(const Node& from, const Node& to);
// A constant without control inputs, which has no specific device.
bool IsAnywhere(const Node& n);
// Forwards its input and adds no ordering.
bool IsPassThrough(const Node& n);
Output StripPassThrough(Output o);
// The function that an _Arg, _Retval, _Function or _Call belongs to; else "".
std::string FunctionOf(const Node& n);

// One loop (for all entries), one function, or the root (number 0).
struct CutFrame {
  std::string name;
  int parent = -1;  // For loops.
  bool is_function = false;
  bool repeats = false;      // It contains a NextIteration.
  bool begins_once = false;  // Only in the parent's first iteration.
  int64_t parallel_iterations = 1;
  const Node* loop_cond = nullptr;
  bool has_one_cond = false;
  const Node* first = nullptr;  // For messages.
  std::vector<const Node*> enters;
  std::vector<const Node*> next_iterations;
  std::vector<const Node*> returns;  // For functions.
};

// Conditions under which tokens of one iteration of one frame are alive, as
// sets of literals all of which must hold; equal numbers mean dead together. 0
// is "always". A literal states that a predicate is live and has this value
// (its opposite is the literal with the last bit flipped), or is opaque and
// unique to one place.
class Conditions {
 public:
  using Set = std::vector<uint32_t>;  // Sorted.
  static constexpr int kAlways = 0;

  Conditions() { Intern({}); }
  // `kind` is defined by the caller; `a` and `b` identify the literal.
  uint32_t Literal(int kind, int64_t a, int64_t b);
  int One(uint32_t literal) { return Intern({literal}); }
  int And(int a, int b);
  // The condition that at least one set holds; -1 if it is not a set of this
  // kind.
  int Or(std::vector<int> sets);
  const Set& set(int id) const { return *sets_[static_cast<size_t>(id)]; }
  bool Has(int id, uint32_t literal) const;

 private:
  int Intern(Set s);
  std::map<Set, int> ids_;
  std::vector<const Set*> sets_;
  absl::flat_hash_map<std::pair<int, int>, int> ands_;
  std::map<std::tuple<int, int64_t, int64_t>, uint32_t> literals_;
};

// Constant once made; owned by one pass.
class CutStructure {
 public:
  // `order`: topological. InvalidArgument for inputs from different frames.
  static Result<CutStructure> Of(const Graph& graph,
                                 const std::vector<Node*>& order);

  const std::vector<CutFrame>& frames() const { return frames_; }
  const CutFrame& frame(int f) const { return frames_[static_cast<size_t>(f)]; }
  // The frame in which a node runs, and the one in which its consumers run.
  int frame_of(const Node* n) const { return info(n).frame; }
  int output_frame(const Node* n) const { return info(n).output_frame; }
  // The frame of a function by name.
  int function_frame(const std::string& name) const;
  // True if its token arrives in the first iteration only.
  bool once(const Node* n) const { return info(n).once; }
  // Number of the condition under which the token of an output, or of a control
  // edge from a node (index -1), is alive.
  int condition(const Node* n, int index) const;
  int condition(const Output& o) const { return condition(o.node, o.index); }
  // The condition under which all inputs of a node are alive.
  int input_condition(const Node* n) const { return info(n).inputs; }
  // The condition under which the predicate of frame `f` is live and true; -1:
  // unknown.
  int going_on(int f) const { return going_on_[static_cast<size_t>(f)]; }

 private:
  struct Info {
    int frame = 0;
    int output_frame = 0;
    bool once = false;
    int inputs = 0;         // Condition of all inputs together.
    int ports[2] = {0, 0};  // By output of a Switch; else equal.
  };
  explicit CutStructure(const Graph& graph) : info_(graph.nodes().size()) {}
  Info& info(const Node* n) { return info_[static_cast<size_t>(n->id())]; }
  const Info& info(const Node* n) const {
    return info_[static_cast<size_t>(n->id())];
  }
  Status AssignFrame(const Node& n);
  Result<int> LoopFrame(const Node& enter, int parent);
  int FunctionFrame(const Node& n);
  void FindOnce(const Node& n);
  void FindConditions(const std::vector<Node*>& order);
  void FindCondition(const Node& n);
  int MergeCondition(const Node& n);
  int ExitCondition(const Node& n);
  int Opaque(const Node& n, int port = -1);
  // The condition of a frame's entry: holds if `outside` held in the parent.
  int Begun(int f, int outside, bool constant);
  // Whether the assumptions of FindConditions about a frame hold.
  bool IsRegular(int f);
  uint32_t PredicateLiteral(Output pred, bool value);
  // The condition in the parent under which tokens of `condition`, in frame f,
  // are alive; -1 if it contains literals other than entries and `besides`.
  int Outside(int f, int condition, int64_t besides);

  std::vector<CutFrame> frames_;
  std::vector<Info> info_;
  std::map<std::pair<int, std::string>, int> frame_ids_;
  Conditions conditions_;
  std::vector<uint8_t> irregular_;  // By frame.
  std::vector<int> going_on_;       // By frame.
  // Literals of frame entries: the frame and the condition in its parent.
  absl::flat_hash_map<uint32_t, std::pair<int, int>> begun_;
};

}  // namespace sluice

#endif  // SLUICE_PASSES_PARTITION_STRUCTURE_H_
