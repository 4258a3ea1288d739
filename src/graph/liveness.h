// Liveness: under which conditions the tokens of a graph are live, found from
// its Switches, Merges and loops before anything runs. Partitions send one dead
// token for all that die together; regions turn conditions into jumps.
#ifndef SLUICE_GRAPH_LIVENESS_H_
#define SLUICE_GRAPH_LIVENESS_H_

#include <cstdint>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "graph/frames.h"

namespace sluice {

// A fact about one iteration of one frame, such as "predicate p is live and
// true". Literals of a predicate come in pairs: `l ^ 1` says the opposite.
using Literal = uint32_t;
inline Literal Opposite(Literal l) { return l ^ 1; }

// Conditions: interned sets of literals, all of which must hold. Equal numbers
// mean equal conditions.
class Conditions {
 public:
  using Set = std::vector<Literal>;  // Sorted.
  static constexpr int kAlways = 0;  // The empty set.

  Conditions() { Intern({}); }
  const Set& set(int id) const { return *sets_[static_cast<size_t>(id)]; }
  bool Has(int id, Literal literal) const;
  // True if a predicate must be both true and false.
  bool IsContradiction(int id) const;

  int Intern(Set s);
  int One(Literal literal) { return Intern({literal}); }
  int And(int a, int b);
  // That at least one of the conditions holds; -1 if no set of literals says
  // so. `a or (a and b)` is a; `(a and p) or (a and not p)` is a, since a
  // predicate that is switched by is live.
  int Or(std::vector<int> conditions);
  // The literal that `a` has and `b` has the opposite of, if that is all that
  // they differ in, and what they share; else {0, -1}.
  std::pair<Literal, int> Complement(int a, int b);

 private:
  std::map<Set, int> ids_;
  std::vector<const Set*> sets_;
  absl::flat_hash_map<std::pair<int, int>, int> ands_;
};

// Under which condition each token of one graph is live, relative to one
// iteration of the frame that it is in. Immutable but for conditions(), which
// grow as they are combined; the graph and its frames must outlive it.
class Liveness {
 public:
  // `order`: all nodes in topological order. No input may be unconnected.
  static Liveness Of(const Graph& graph, const std::vector<Node*>& order,
                     const Frames& frames);

  // The condition under which the token of an output, or of a control edge out
  // of a node (index -1), is live.
  int condition(const Node* n, int index) const;
  int condition(const Output& o) const { return condition(o.node, o.index); }
  // The condition under which all inputs of a node are live.
  int input_condition(const Node* n) const { return info(n).inputs; }
  // True if the node has a token in the first iteration of its frame only.
  bool once(const Node* n) const { return info(n).once; }
  // True if the loop begins in the first iteration of the frame around it only.
  bool begins_once(int f) const { return begins_once_[Index(f)] != 0; }
  // True if all variables of the loop live until its predicate is false, and
  // all its constants live as long; for a function, if every call gives all
  // results.
  bool is_regular(int f) const { return irregular_[Index(f)] == 0; }
  // The condition under which a loop's predicate is live and true; -1 if the
  // loop has no predicate or several.
  int going_on(int f) const { return going_on_[Index(f)]; }
  // `condition`, of a token in frame f, if the frame is known to have begun.
  int Within(int f, int condition);

  Literal PredicateLiteral(Output predicate, bool value);
  // The predicate, past aliases, that a literal is about; null for a literal
  // about something else.
  Output predicate(Literal literal) const;
  Conditions& conditions() { return conditions_; }
  const Conditions& conditions() const { return conditions_; }

 private:
  enum class Kind : uint8_t { kPredicate, kOpaque, kBegun, kBegunConstant };
  struct Info {
    bool once = false;
    int inputs = 0;  // The condition of all inputs together.
    int ports[2] = {0,
                    0};  // Those of a Switch's outputs; else both the node's.
  };
  Liveness(const Graph& graph, const Frames& frames);
  static size_t Index(int f) { return static_cast<size_t>(f); }
  Info& info(const Node* n) { return info_[static_cast<size_t>(n->id())]; }
  const Info& info(const Node* n) const {
    return info_[static_cast<size_t>(n->id())];
  }
  void FindOnce(const Node& n);
  void FindConditions(const std::vector<Node*>& order);
  void FindCondition(const Node& n);
  int MergeCondition(const Node& n);
  int ExitCondition(const Node& n);
  bool IsRegular(int f);
  Literal MakeLiteral(Kind kind, int64_t a, int64_t b);
  // A condition that nothing else has: of the node, or of one of its outputs.
  int Opaque(const Node& n);
  // That frame f began, given the condition under which a token enters it.
  int Begun(int f, int outside, bool constant);
  // What must hold outside frame f for `condition`, a condition within it:
  // conditions under which tokens enter. -1 if it depends on anything else but
  // the literal `besides`.
  int Outside(int f, int condition, int64_t besides);

  const Frames& frames_;
  std::vector<Info> info_;  // By node id.
  Conditions conditions_;
  std::map<std::tuple<Kind, int64_t, int64_t>, Literal> literals_;
  std::vector<Output> predicates_;    // By literal / 2.
  std::vector<uint8_t> irregular_;    // By frame.
  std::vector<uint8_t> begins_once_;  // By frame.
  std::vector<int> going_on_;         // By frame.
  // By literal that says that a frame began: the frame and the condition
  // outside.
  absl::flat_hash_map<Literal, std::pair<int, int>> begun_;
};

}  // namespace sluice

#endif  // SLUICE_GRAPH_LIVENESS_H_
