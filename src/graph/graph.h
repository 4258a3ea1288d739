// Graph: what the user built. Nodes, and the edges between them.
#ifndef SLUICE_GRAPH_GRAPH_H_
#define SLUICE_GRAPH_GRAPH_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/op_def.h"

namespace sluice {

class ControlFlow;
class Graph;
class Node;

// The user's line that made a node. `file` lives as long as the process or was
// interned by the graph.
struct SourceLoc {
  const char* file = "";
  int line = 0;
  bool known() const { return line > 0; }
  std::string ToString() const;  // "model.cc:12", or "" if unknown.
};

// One output of a node: an edge's source. Null by default.
struct Output {
  Node* node = nullptr;
  int index = 0;

  Output() = default;
  Output(Node* n, int i = 0) : node(n), index(i) {}  // NOLINT
  explicit operator bool() const { return node != nullptr; }
  bool operator==(const Output& o) const {
    return node == o.node && index == o.index;
  }
  DType dtype() const;                 // May be a reference type.
  const PartialShape& shape() const;
  std::string name() const;            // "MatMul:0".
  Graph* graph() const;
};

struct OutputHash {
  size_t operator()(const Output& o) const {
    return std::hash<Node*>()(o.node) * 31 + static_cast<size_t>(o.index);
  }
};

// Owned by its graph, which makes it valid and keeps it so: its op is
// registered, its attributes are complete and of the declared kinds, its inputs
// have the declared types. Immutable but for what Graph offers to change.
class Node {
 public:
  int id() const { return id_; }  // Dense; in order of creation.
  const std::string& name() const { return name_; }
  const OpDef& op() const { return *op_; }
  const std::string& op_name() const { return op_->name; }
  Graph* graph() const { return graph_; }
  const std::string& device() const { return device_; }
  const SourceLoc& loc() const { return loc_; }

  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  const Output& input(int i) const { return inputs_[static_cast<size_t>(i)]; }
  const std::vector<Output>& inputs() const { return inputs_; }
  DType input_type(int i) const { return input_types_[static_cast<size_t>(i)]; }
  const std::vector<Node*>& control_inputs() const { return control_inputs_; }
  int num_outputs() const { return static_cast<int>(output_types_.size()); }
  DType output_type(int i) const { return output_types_[static_cast<size_t>(i)]; }
  const PartialShape& output_shape(int i) const {
    return output_shapes_[static_cast<size_t>(i)];
  }
  // Positions [begin, end) of the inputs (outputs) that belong to the i-th
  // argument of the declaration.
  std::pair<int, int> InputRange(int arg) const;
  std::pair<int, int> OutputRange(int arg) const;

  const AttrMap& attrs() const { return attrs_; }
  const AttrValue* FindAttr(std::string_view name) const;
  // The attribute, or a clear Internal/InvalidArgument error if it is missing
  // or of another kind.
  template <typename T>
  Result<T> Attr(std::string_view name) const {
    const AttrValue* a = FindAttr(name);
    const T* v = a == nullptr ? nullptr : a->get<T>();
    if (v == nullptr) return AttrError(name);
    return *v;
  }
  // The attribute, or `fallback` if missing or of another kind. For attributes
  // that the declaration guarantees.
  template <typename T>
  T AttrOr(std::string_view name, T fallback) const {
    const AttrValue* a = FindAttr(name);
    const T* v = a == nullptr ? nullptr : a->get<T>();
    return v == nullptr ? fallback : *v;
  }
  DType TypeAttr(std::string_view name) const {
    return AttrOr<DType>(name, DType::kInvalid);
  }
  bool BoolAttr(std::string_view name) const { return AttrOr<bool>(name, false); }
  int64_t IntAttr(std::string_view name) const {
    return AttrOr<int64_t>(name, 0);
  }

  // "node 'add' (AddV2) at model.cc:12", for messages.
  std::string Describe() const;

 private:
  friend class Graph;
  Node() = default;
  Status AttrError(std::string_view name) const;

  int id_ = 0;
  std::string name_;
  const OpDef* op_ = nullptr;
  Graph* graph_ = nullptr;
  std::string device_;
  SourceLoc loc_;
  std::vector<Output> inputs_;
  std::vector<DType> input_types_;  // As declared: a reference or a value.
  std::vector<Node*> control_inputs_;
  std::vector<DType> output_types_;
  std::vector<PartialShape> output_shapes_;
  AttrMap attrs_;
};

// What AddNode needs to know.
struct NodeSpec {
  std::string op;
  std::string name;            // Exact; AlreadyExists if taken. "" = the op's,
                               // made unique.
  std::vector<Output> inputs;  // A null Output only where a back edge follows.
  std::vector<Node*> control_inputs;
  AttrMap attrs;               // Types and counts may be left to inference.
  std::string device;
  SourceLoc loc;
  // Types of null inputs (back edges of a Merge); else ignored.
  std::vector<DType> pending_input_types;
};

// Owns nodes, never removes one: a graph only grows. Not thread-safe but for
// mutex(): whoever changes the graph while sessions run it holds it, as the
// builders of graph/builder.h do, and sessions hold it while they read.
class Graph {
 public:
  Graph();
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Validates everything, infers attributes and shapes.
  Result<Node*> AddNode(NodeSpec spec);
  // A copy of a valid node of another graph, with inputs of this one in place
  // of its own (null: a back edge that follows). Types and shapes are kept, not
  // inferred again. The name must be free.
  Node* CopyNode(const Node& from, std::vector<Output> inputs,
                 std::vector<Node*> control_inputs);
  // Closes a cycle: gives input `index` of `merge`, which was left null, its
  // source. The source must be a NextIteration.
  Status SetBackEdge(Node* merge, int index, Output source);
  Status AddControlEdge(Node* from, Node* to);
  // Records what the user knows: merges `shape` into the inferred one.
  Status SetShape(Output o, const PartialShape& shape);
  // Changes one input to another source of the same type (for passes).
  Status ReplaceInput(Node* node, int index, Output source);
  void SetDevice(Node* node, std::string device) { node->device_ = std::move(device); }
  void SetAttr(Node* node, const std::string& name, AttrValue value) {
    node->attrs_[name] = std::move(value);
  }

  const std::vector<std::unique_ptr<Node>>& nodes() const { return nodes_; }
  int num_nodes() const { return static_cast<int>(nodes_.size()); }
  Node* FindNode(std::string_view name) const;  // Null if absent.
  // "name:1", or "name" for output 0. NotFound names the nearest.
  Result<Output> FindOutput(std::string_view name) const;
  Result<Node*> LookupNode(std::string_view name) const;
  // `base`, or base_1, base_2, ... whichever is free; reserves nothing.
  std::string UniqueName(const std::string& base);
  // Like UniqueName for the prefix of a scope, and reserves it.
  std::string UniqueScope(const std::string& base);

  // Functions by name, each a serialised FunctionDef (kept as it came).
  std::map<std::string, std::string>& functions() { return functions_; }
  const std::map<std::string, std::string>& functions() const { return functions_; }
  // The function that computes another one's gradient, by that one's name.
  std::map<std::string, std::string>& function_gradients() {
    return function_gradients_;
  }
  const std::map<std::string, std::string>& function_gradients() const {
    return function_gradients_;
  }

  // "trainable_variables" -> variables, and whatever else the client collects.
  std::map<std::string, std::vector<Output>>& collections() { return collections_; }

  // Graph-level seed for random ops (sluice::SetRandomSeed); and how many ops
  // have been added, which seeds those without one, as TensorFlow does.
  std::optional<int64_t> seed;
  int producer_version = 0;  // Of an imported GraphDef.

  // The first error of a builder, until cleared: builders do not return errors,
  // they make null outputs, and Session::Run reports this.
  const Status& status() const { return status_; }
  void RecordError(const Status& s);
  void ClearError() { status_ = OkStatus(); }

  // A copy of `s` that lives as long as the graph.
  const char* Intern(const std::string& s);

  std::recursive_mutex& mutex() { return mu_; }

  // Which conditional or loop each node belongs to (graph/control_flow.h).
  ControlFlow& control_flow() const { return *control_flow_; }

 private:
  std::vector<std::unique_ptr<Node>> nodes_;
  std::unordered_map<std::string, Node*> by_name_;
  std::unordered_map<std::string, int> name_counts_;
  std::unordered_set<std::string> scopes_;
  std::map<std::string, std::string> functions_, function_gradients_;
  std::map<std::string, std::vector<Output>> collections_;
  std::unordered_set<std::string> interned_;
  Status status_;
  std::recursive_mutex mu_;
  std::unique_ptr<ControlFlow> control_flow_;
};

inline DType Output::dtype() const { return node->output_type(index); }
inline const PartialShape& Output::shape() const {
  return node->output_shape(index);
}
inline Graph* Output::graph() const { return node->graph(); }

// Nodes such that every node comes after its inputs, but for back edges
// (NextIteration -> Merge). InvalidArgument names a cycle without one.
Result<std::vector<Node*>> TopologicalOrder(const Graph& graph);

}  // namespace sluice

#endif  // SLUICE_GRAPH_GRAPH_H_
