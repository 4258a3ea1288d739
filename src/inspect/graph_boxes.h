// The boxes in which a graph is displayed (by `sluice show`, in a notebook):
// one box for each loop, branch, called function and gradient computation.
#ifndef SLUICE_INSPECT_GRAPH_BOXES_H_
#define SLUICE_INSPECT_GRAPH_BOXES_H_

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "graph/control_flow.h"
#include "graph/function.h"
#include "graph/node.h"
#include "passes/infer_shapes.h"

namespace sluice::show {

struct Box;

// A displayed graph: the whole graph, or a function's body at the functional
// node that uses it.
struct Part {
  Graph* graph = nullptr;
  int number = 0;  // 0: the whole graph.
  int depth = 0;
  Box* box = nullptr;
  // Only for a body:
  const FunctionBody* body = nullptr;
  const Part* outer = nullptr;
  const Node* caller = nullptr;
  CallKind kind = CallKind::kNone;
  bool condition = false;  // The body is a loop's condition.
  int first_arg = 0;       // The input that is the first argument.
  // The bodies shown for each functional node; other functional nodes are
  // shown as plain nodes.
  std::map<const Node*, std::vector<const Part*>> inside;
  // Refined shapes, if the graph has loops or is a body; else empty.
  NodeShapes shapes;
  // The outermost closed box of each node that is in a closed box.
  std::unordered_map<const Node*, const Box*> folded;

  const std::vector<const Part*>* Inside(const Node* n) const {
    const auto it = inside.find(n);
    return it == inside.end() ? nullptr : &it->second;
  }
  const Box* FoldOf(const Node* n) const {
    const auto it = folded.find(n);
    return it == folded.end() ? nullptr : it->second;
  }
  // `o` is a value of `graph`.
  const PartialShape& ShapeOf(const Output& o) const;
  std::string TypeAndShape(const Output& o) const;
  // The full line for a node, with the functions that it uses in brackets.
  std::string Line(const Node& n) const;
};

// The contents of one box, in topological order.
struct Box {
  enum Kind { kWhole, kLoop, kBranch, kCall, kPart, kGradients };
  struct Item {
    const Node* node;  // Null for a box.
    const Part* part;
    Box* box;
  };
  Kind kind = kWhole;
  std::string title;  // In printed output.
  std::string label;  // In drawings.
  std::vector<Item> items;
  std::string last;  // The last line in printed output; or "".
  Box* outer = nullptr;
  int number = 0;  // Unique among all boxes of a graph.
  // Only for gradients:
  std::string scope;     // "gradients", "train/gradients_1".
  bool attached = true;  // It is one of the items of `outer`.
  int nodes = 0;
  const Part* part = nullptr;
  bool closed = false;  // Its items are hidden and only its results shown:
                        // nodes that are read outside of it or not at all.
  std::vector<const Node*> results;
};

// A value as displayed: arguments and results of a call are traced to the node
// that makes the value; values that pass through a loop belong to the loop's
// node.
struct Shown {
  const Part* part = nullptr;
  const Node* node = nullptr;
  int index = 0;
};

// The boxes of a graph, which must outlive them. The branches of a conditional
// are adjacent boxes in the box around the conditional. The bodies of
// functional nodes are boxes too, outer ones first, until they contain `most`
// nodes; a recursive call stays a node. The nodes of a scope called "gradients"
// or "gradients_N" (the names that gradient computations use) form one box
// within each loop or branch that contains such nodes.
struct BoxOptions {
  bool constants = false;
  int most = 0;  // The most nodes of bodies to show.
  // Whether to show the nodes of gradients as well as their results.
  bool gradients = false;
};
class Boxes {
 public:
  static Result<std::unique_ptr<Boxes>> Of(Graph* g, const BoxOptions& options);

  const Box& whole() const { return *parts_[0]->box; }
  const std::vector<std::unique_ptr<Part>>& parts() const { return parts_; }
  // The number of functional nodes whose bodies did not fit.
  int left_out() const { return left_out_; }
  // The number of visible nodes, and of nodes in closed boxes.
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

// "f, g": the functions of a functional node other than the one that its op
// names.
std::string FunctionsOf(const Node& n);
// "gives x_grad  float[2]", one line each: the results of a closed box.
std::vector<std::string> Results(const Box& box);
void Print(const Box& box, int depth, std::string* out);

// Inlines functional nodes where possible, as a session does, so that each node
// in them can be placed.
Status LowerForShow(Graph* g);

}  // namespace sluice::show

#endif  // SLUICE_INSPECT_GRAPH_BOXES_H_
