// What is shown of a graph (by `sluice show`, in a notebook): its nodes in
// boxes, one for each loop, branch, called function and computation of
// gradients.
#ifndef SLUICE_CLIENT_GRAPH_BOXES_H_
#define SLUICE_CLIENT_GRAPH_BOXES_H_

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/control_flow.h"
#include "graph/function.h"
#include "graph/graph.h"
#include "passes/infer_shapes.h"

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
  // More than the nodes say, where the graph has loops or is a body; or empty.
  NodeShapes shapes;
  // The outermost closed box that a node is in, for those that are in one.
  std::unordered_map<const Node*, const Box*> folded;

  const std::vector<const Part*>* Inside(const Node* n) const {
    const auto it = inside.find(n);
    return it == inside.end() ? nullptr : &it->second;
  }
  const Box* FoldOf(const Node* n) const {
    const auto it = folded.find(n);
    return it == folded.end() ? nullptr : it->second;
  }
  // Of a value of `graph`.
  const PartialShape& ShapeOf(const Output& o) const;
  std::string TypeAndShape(const Output& o) const;
  // A node's whole line; the functions that it uses in brackets.
  std::string Line(const Node& n) const;
};

// What stands in one box, in topological order.
struct Box {
  enum Kind { kWhole, kLoop, kBranch, kCall, kPart, kGradients };
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
  Box* outer = nullptr;
  int number = 0;  // Unique among all boxes of a graph.
  // Of gradients:
  std::string scope;     // "gradients", "train/gradients_1".
  bool attached = true;  // It stands among the items of `outer`.
  int nodes = 0;
  const Part* part = nullptr;
  bool closed = false;  // Its items are not shown, only its results: nodes that
                        // are read elsewhere or nowhere.
  std::vector<const Node*> results;
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
// them; a function within itself stays a node. The nodes of a scope called
// "gradients" or "gradients_N" (what computes gradients names its nodes so) are
// a box within each loop or branch that holds some.
struct BoxOptions {
  bool constants = false;
  int most = 0;  // Nodes of bodies.
  // Gradients are shown, and not only their results.
  bool gradients = false;
};
class Boxes {
 public:
  static Result<std::unique_ptr<Boxes>> Of(Graph* g, const BoxOptions& options);

  const Box& whole() const { return *parts_[0]->box; }
  const std::vector<std::unique_ptr<Part>>& parts() const { return parts_; }
  // Functional nodes for whose bodies there was no room.
  int left_out() const { return left_out_; }
  // Nodes in sight, and those in closed boxes.
  int shown() const { return shown_; }
  int folded() const { return folded_; }
  Shown Resolve(const Part* part, Output o) const;

 private:
  struct Use {
    FunctionRef ref;
    std::string title;
    Box::Kind kind;
  };

  Box* NewBox(Box* in, Box::Kind kind, std::string title, std::string label);
  Box* BoxOf(const Part* part, ControlFlowContext* c);
  Box* GradientsBox(Box* in, const std::string& name);
  static void Attach(Box* box);
  void Add(Part* part, const Node* n, Box* in);
  void FindResults(const Part& part, const std::vector<Box*>& closed);
  bool Open(Part* part, const Node* n, Box* in);
  Status Fill(Part* part);

  BoxOptions options_;
  int room_ = 0;
  int left_out_ = 0, shown_ = 0, folded_ = 0;
  std::vector<std::unique_ptr<Part>> parts_;
  std::vector<std::unique_ptr<Box>> all_;
  std::map<std::pair<const Part*, ControlFlowContext*>, Box*> boxes_;
  std::map<std::pair<const Box*, std::string>, Box*> gradients_;
};

// "f, g": the functions of a functional node that its op does not name.
std::string FunctionsOf(const Node& n);
// "gives x_grad  float[2]", a line each: what a closed box has for others.
std::vector<std::string> Results(const Box& box);
void Print(const Box& box, int depth, std::string* out);

// Functional nodes become what they mean where that can be, as a session makes
// them; so that each node in them can be placed.
Status LowerForShow(Graph* g);

}  // namespace sluice::show

#endif  // SLUICE_CLIENT_GRAPH_BOXES_H_
