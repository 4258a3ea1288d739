// Graph: what the user built. It owns the nodes (graph/node.h) and changes
// them.
//
//   Graph graph;
//   WithGraph use(graph);  // graph/builder.h: this thread builds into it.
//   Output y = ops::Neg(Constant(1.0f));
//   for (const auto& node : graph.nodes()) std::cout << node->name() << "\n";
//   Result<Output> found = graph.FindOutput("Neg:0");  // y
#ifndef SLUICE_GRAPH_GRAPH_H_
#define SLUICE_GRAPH_GRAPH_H_

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/name_index.h"
#include "graph/node.h"

namespace sluice {

class ControlFlow;
class FunctionLibrary;  // graph/function.h

// What AddNode needs to know.
struct NodeSpec {
  std::string op;
  std::string name;            // Exact; AlreadyExists if taken. "" = the op's,
                               // made unique.
  std::vector<Output> inputs;  // A null Output only where a back edge follows.
  std::vector<Node*> control_inputs;
  AttrMap attrs;  // Types and counts may be left to inference.
  std::string device;
  SourceLoc loc;
  // Types of null inputs (back edges of a Merge); else ignored.
  std::vector<DType> pending_input_types;
};

// Owns nodes; a graph that a user builds only grows. Not thread-safe except
// mutex(): code that changes the graph while sessions run it must hold the
// mutex, as the builders of graph/builder.h do; sessions hold it while they
// read.
class Graph {
 public:
  Graph();
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Validates everything, infers attributes and shapes.
  Result<Node*> AddNode(NodeSpec spec);
  // Copies a valid node of another graph, with inputs of this graph in place of
  // its own (null: a back edge that is set later). Types and shapes are kept,
  // not inferred again, and are shared. The name must be free.
  Node* CopyNode(const Node& from, std::vector<Output> inputs,
                 std::vector<Node*> control_inputs);
  // The same under another name (which must be free), on another device.
  Node* CopyNode(const Node& from, std::string name, std::string device,
                 SourceLoc loc, std::vector<Output> inputs,
                 std::vector<Node*> control_inputs);
  // Infers the shapes of a node's outputs again and merges the result. Errors
  // are ignored: a node in a branch that is never taken may not fit its inputs.
  void RefineShapes(Node* node);
  // Replaces `node` by an IdentityN of `values`, one per output and of the same
  // type, that runs after `controls`.
  Status TurnIntoIdentity(Node* node, std::vector<Output> values,
                          std::vector<Node*> controls);
  // Replaces `node` by a NoOp. REQUIRES: its outputs have no consumers.
  Status TurnIntoNoOp(Node* node, std::vector<Node*> controls);
  // Closes a cycle: sets input `index` of `merge`, which was left null, to
  // `source`, which must be a NextIteration.
  Status SetBackEdge(Node* merge, int index, Output source);
  Status AddControlEdge(Node* from, Node* to);
  // Merges `shape`, given by the user, into the inferred shape.
  Status SetShape(Output o, const PartialShape& shape);
  void SetDevice(Node* node, std::string device);
  void SetAttr(Node* node, const std::string& name, AttrValue value);

  // For passes, which work on a copy of the user's graph:
  // Changes one input to another source of the same type.
  Status ReplaceInput(Node* node, int index, Output source);
  // Makes `node` wait for `to` instead of `from`.
  void ReplaceControlInput(Node* node, const Node* from, Node* to);
  void SetControlInputs(Node* node, std::vector<Node*> nodes) {
    node->control_inputs_ = std::move(nodes);
  }
  // Makes the node a Const of the type of its output 0 with the same name; its
  // other outputs, inputs and control inputs are removed.
  Status TurnIntoConstant(Node* node, Tensor value);
  // Removes the nodes whose mark, by id, is 0, and renumbers the others.
  // Returns the removed nodes. REQUIRES: no remaining node reads a removed one.
  std::vector<std::unique_ptr<Node>> Retain(const std::vector<uint8_t>& keep);

  const std::vector<std::unique_ptr<Node>>& nodes() const { return nodes_; }
  int num_nodes() const { return static_cast<int>(nodes_.size()); }
  void Reserve(size_t nodes) { nodes_.reserve(nodes); }
  Node* FindNode(std::string_view name) const;  // Null if absent.
  // "name:1", or "name" for output 0. NotFound names the nearest.
  Result<Output> FindOutput(std::string_view name) const;
  Result<Node*> LookupNode(std::string_view name) const;
  // `base`, or the first of base_1, base_2, ... that is free; reserves nothing.
  std::string UniqueName(const std::string& base);
  // Like UniqueName for the prefix of a scope, and reserves it.
  std::string UniqueScope(const std::string& base);

  // The functions that nodes may call; shared with graphs made from this one.
  FunctionLibrary& function_library() const { return *function_library_; }
  void ShareLibrary(const Graph& from) {
    function_library_ = from.function_library_;
  }
  void UseLibrary(std::shared_ptr<FunctionLibrary> l) {
    function_library_ = std::move(l);
  }
  // Functions by name, each a serialised FunctionDef (kept as received).
  const std::map<std::string, std::string>& functions() const;
  // Maps a function's name to the function that computes its gradient.
  std::map<std::string, std::string>& function_gradients();
  const std::map<std::string, std::string>& function_gradients() const;

  // The origin of imported nodes that were rewritten, by node name: a
  // serialised NodeDef.ExperimentalDebugInfo (kept as received).
  std::map<std::string, std::string>& original_names() {
    return original_names_;
  }
  const std::map<std::string, std::string>& original_names() const {
    return original_names_;
  }

  // "trainable_variables" -> variables, and other collections of the client.
  std::map<std::string, std::vector<Output>>& collections() {
    return collections_;
  }

  // Graph-level seed for random ops (sluice::SetRandomSeed), and how many ops
  // without a seed of their own have used it, which seeds the next one, as in
  // TensorFlow.
  std::optional<int64_t> seed;
  int seeded_ops = 0;
  int producer_version = 0;  // From an imported GraphDef.

  // Builders do not return errors: they record them here, until cleared, and
  // return null outputs; anything built on a null output is null too. A fetch
  // or target that is null fails with the error behind it; the rest of the
  // graph runs. At most kMaxErrors are kept.
  static constexpr size_t kMaxErrors = 1000;
  const std::vector<Status>& errors() const { return errors_; }
  // The first error; OK if there is none.
  Status status() const { return errors_.empty() ? Status() : errors_[0]; }
  void RecordError(Status s);
  void ClearErrors() {
    errors_.clear();
    null_nodes_.clear();
    failure_ = Output();
  }
  // The null output that stands for the latest failure.
  Output Failure() const { return failure_; }
  // Makes the failure behind `null` the latest one again, so that anything
  // built on it fails for the same reason. Records `otherwise` if `null` has no
  // known error.
  void PropagateFailure(const Output& null, const Status& otherwise);
  // The error behind a null output; null if there is none.
  const Status* ErrorOf(const Output& null) const;
  // A null Node* cannot say which error made it null. So builders that return
  // one count it for the latest failure, and OrFailure, which turns it into an
  // output, takes it back.
  void CountNullNode(bool take_back);
  // All errors, first those for which more null nodes were counted than taken
  // back.
  std::vector<Status> ErrorsOfNullNodes() const;

  // In the body of a function: captures an output of another graph as a value
  // of this one. Null in other graphs, where using such an output is an error.
  std::function<Result<Output>(const Output&)> capture;

  // A copy of `s` that lives as long as the graph.
  const char* Intern(const std::string& s);

  std::recursive_mutex& mutex() { return mu_; }

  // Expires when the graph is destroyed, for objects that refer to it.
  std::weak_ptr<const void> alive() const { return alive_; }

  // Which conditional or loop each node belongs to (graph/control_flow.h).
  ControlFlow& control_flow() const { return *control_flow_; }

 private:
  // The node's properties, for writing.
  Node::Props& Change(Node* node);
  int FindId(std::string_view name) const;  // -1 if absent.
  void IndexNames() const;

  std::vector<std::unique_ptr<Node>> nodes_;
  // Properties that were replaced after a copy; callers may hold references.
  std::vector<std::shared_ptr<Node::Props>> outdated_;
  // Indexes nodes_[0, indexed_); copied nodes are added on the next look-up.
  mutable NameIndex by_name_;
  mutable size_t indexed_ = 0;
  std::unordered_map<std::string, int> name_counts_;
  std::unordered_set<std::string> scopes_;
  std::map<std::string, std::string> original_names_;
  std::shared_ptr<FunctionLibrary> function_library_;
  std::map<std::string, std::vector<Output>> collections_;
  std::unordered_set<std::string> interned_;
  std::vector<Status> errors_;
  std::vector<int> null_nodes_;  // By error; missing: 0.
  Output failure_;
  std::recursive_mutex mu_;
  std::unique_ptr<ControlFlow> control_flow_;
  const std::shared_ptr<const void> alive_ = std::make_shared<char>();
};

// Nodes in an order in which every node comes after its inputs, except for back
// edges (NextIteration -> Merge). InvalidArgument names a cycle without a back
// edge. With `only`: only the nodes that it marks, by id.
Result<std::vector<Node*>> TopologicalOrder(
    const Graph& graph, const std::vector<uint8_t>* only = nullptr);

}  // namespace sluice

#endif  // SLUICE_GRAPH_GRAPH_H_
