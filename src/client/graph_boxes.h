// What is shown of a graph (by `sluice show`, in a notebook): its nodes in
// boxes, one for each loop, branch and called function.
#ifndef SLUICE_CLIENT_GRAPH_BOXES_H_
#define SLUICE_CLIENT_GRAPH_BOXES_H_

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "graph/control_flow.h"
#include "graph/function.h"
#include "graph/graph.h"

namespace sluice::show {

struct Box;

// A graph that is shown: the whole one, or a function's body where a functional
// node uses it.
struct Part {
  Graph* graph = nullptr;
  int number = 0;  // 0: the whole one.
  int depth = 0;
  Box* box = nullptr;
  // Of a body, and of the node that uses it:
  const FunctionBody* body = nullptr;
  const Part* outer = nullptr;
  const Node* caller = nullptr;
  CallKind kind = CallKind::kNone;
  bool condition = false;  // Of a loop.
  int first_arg = 0;       // The input that is the first argument.
  // The bodies of functional nodes that are shown; others stay plain nodes.
  std::map<const Node*, std::vector<const Part*>> inside;

  const std::vector<const Part*>* Inside(const Node* n) const {
    const auto it = inside.find(n);
    return it == inside.end() ? nullptr : &it->second;
  }
};

// What stands in one box, in topological order.
struct Box {
  enum Kind { kWhole, kLoop, kBranch, kCall, kPart };
  struct Item {
    const Node* node;  // Null for a box.
    const Part* part;
    Box* box;
  };
  Kind kind = kWhole;
  std::string title;  // In print.
  std::string label;  // Drawn.
  std::vector<Item> items;
  std::string last;  // A last line, in print; or "".
};

// A value as it is shown: what passes through arguments and results of a call
// comes from where it is made; what passes a loop comes from the loop's node.
struct Shown {
  const Part* part = nullptr;
  const Node* node = nullptr;
  int index = 0;
};

// The boxes of a graph, which outlives them. The branches of a conditional are
// boxes side by side in that of what is around it. The bodies of functional
// nodes are boxes too, the outer ones first, until there are `most` nodes in
// them; a function within itself stays a node.
class Boxes {
 public:
  static Result<std::unique_ptr<Boxes>> Of(Graph* g, bool constants, int most);

  const Box& whole() const { return *parts_[0]->box; }
  const std::vector<std::unique_ptr<Part>>& parts() const { return parts_; }
  // Functional nodes for whose bodies there was no room.
  int left_out() const { return left_out_; }
  Shown Resolve(const Part* part, Output o) const;

 private:
  struct Use {
    FunctionRef ref;
    std::string title;
    Box::Kind kind;
  };

  Box* NewBox(Box* in, Box::Kind kind, std::string title, std::string label);
  Box* BoxOf(const Part* part, ControlFlowContext* c);
  bool Open(Part* part, const Node* n, Box* in);
  Status Fill(Part* part);

  bool constants_ = false;
  int room_ = 0;
  int left_out_ = 0;
  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<std::unique_ptr<Box>> all_;
  std::map<std::pair<const Part*, ControlFlowContext*>, Box*> boxes_;
};

std::string TypeAndShape(const Output& o);
// A node's whole line; the functions that it uses in brackets.
std::string Line(const Node& n);
// "f, g": the functions of a functional node that its op does not name.
std::string FunctionsOf(const Node& n);
void Print(const Box& box, int depth, std::string* out);

// Functional nodes become what they mean where that can be, as a session makes
// them; so that each node in them can be placed.
Status LowerForShow(Graph* g);

}  // namespace sluice::show

#endif  // SLUICE_CLIENT_GRAPH_BOXES_H_
