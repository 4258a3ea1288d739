// Node and its edges, Output: what declarations of ops, kernels and gradients
// read of a graph. The graph itself, which owns and changes them, is
// graph/graph.h.
//
//   const Output x = node->input(0);
//   std::cout << node->op_name() << " of " << x.name() << x.shape().ToString();
//   const Result<bool> transposed = node->Attr<bool>("transpose_b");
#ifndef SLUICE_GRAPH_NODE_H_
#define SLUICE_GRAPH_NODE_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "graph/op_def.h"

namespace sluice {

class Graph;  // graph/graph.h
class Node;

// The user's line that made a node. `file` is a static string or interned by
// the graph.
struct SourceLoc {
  const char* file = "";
  int line = 0;
  bool known() const { return line > 0; }
  std::string ToString() const;  // "model.cc:12", or "" if unknown.
};

// One output of a node: an edge's source. Null by default.
//
// It stands for a value that is computed in a step, so it has no conversion to
// bool and no comparison that returns one: `x == y`, `!x` and `x && y` add
// nodes (client/operators.h), and `if (x > 0)` does not compile; write Cond.
struct Output {
  Node* node = nullptr;
  int index = 0;

  Output() = default;
  Output(Node* n, int i = 0) : node(n), index(i) {}  // NOLINT
  Output(int) = delete;  // A literal 0 is not a null node; write Constant(0).
  // The null output of a builder that failed with error number `error` of its
  // graph (Graph::errors).
  static Output Failed(int error) {
    Output o;
    o.index = -1 - 2 * error;
    return o;
  }
  // A null output that is not an error, with its reason (graph/none_output.h).
  static Output None(int reason) {
    Output o;
    o.index = -2 - 2 * reason;
    return o;
  }
  // False if null: never set, or building it failed.
  bool valid() const { return node != nullptr; }
  // The number of the error that made it null; -1 if none is known.
  int error() const { return Encoded(0); }
  // The number of the reason why it is null without an error, or -1.
  int reason() const { return Encoded(1); }
  // Whether both are the same edge.
  bool SameAs(const Output& o) const {
    return node == o.node && index == o.index;
  }
  // For a null output: kInvalid, unknown, "<none>", null.
  DType dtype() const;  // May be a reference type.
  const PartialShape& shape() const;
  std::string name() const;  // "MatMul:0".
  Graph* graph() const;

 private:
  // A null output's index has no other use: if negative, its parity encodes
  // which of the two it is, and the rest is the number.
  int Encoded(int kind) const {
    const int code = -1 - index;
    return node == nullptr && index < 0 && code % 2 == kind ? code / 2 : -1;
  }
};

// For containers whose keys are edges.
struct OutputHash {
  size_t operator()(const Output& o) const {
    return std::hash<Node*>()(o.node) * 31 + static_cast<size_t>(o.index);
  }
};
struct SameOutput {
  bool operator()(const Output& a, const Output& b) const {
    return a.SameAs(b);
  }
};
template <typename T>
using OutputMap = std::unordered_map<Output, T, OutputHash, SameOutput>;
using OutputSet = std::unordered_set<Output, OutputHash, SameOutput>;

// The position of the edge in `list`; list.size() if absent.
inline size_t IndexOf(const std::vector<Output>& list, const Output& o) {
  size_t i = 0;
  while (i < list.size() && !list[i].SameAs(o)) ++i;
  return i;
}
inline bool Contains(const std::vector<Output>& list, const Output& o) {
  return IndexOf(list, o) < list.size();
}

// Owned by its graph, which keeps it valid: its op is registered, its
// attributes are complete and of the declared kinds (or placeholders), its
// inputs have the declared types. Only the mutators of Graph change it.
class Node {
 public:
  int id() const { return id_; }  // Dense; in order of creation.
  const std::string& name() const { return props_->name; }
  const OpDef& op() const { return *props_->op; }
  // For messages, and for tables that the user fills in. To recognise a node,
  // use the kind or the role of its op (tools/check_layers.py).
  const std::string& op_name() const { return props_->op->name; }
  OpKind kind() const { return props_->op->kind; }
  Graph* graph() const { return graph_; }
  const std::string& device() const { return props_->device; }
  const SourceLoc& loc() const { return props_->loc; }

  int num_inputs() const { return static_cast<int>(inputs_.size()); }
  // Null if there is no input i. (Likewise below: kInvalid, an unknown shape,
  // an empty range.)
  const Output& input(int i) const {
    static const Output kNone;
    return Has(inputs_, i) ? inputs_[static_cast<size_t>(i)] : kNone;
  }
  const std::vector<Output>& inputs() const { return inputs_; }
  DType input_type(int i) const {
    return Has(props_->input_types, i)
               ? props_->input_types[static_cast<size_t>(i)]
               : DType::kInvalid;
  }
  const std::vector<Node*>& control_inputs() const { return control_inputs_; }
  int num_outputs() const {
    return static_cast<int>(props_->output_types.size());
  }
  DType output_type(int i) const {
    return Has(props_->output_types, i)
               ? props_->output_types[static_cast<size_t>(i)]
               : DType::kInvalid;
  }
  const PartialShape& output_shape(int i) const {
    if (Has(props_->output_shapes, i))
      return props_->output_shapes[static_cast<size_t>(i)];
    static const PartialShape unknown;
    return unknown;
  }
  // Positions [begin, end) of the inputs (outputs) that belong to the i-th
  // argument of the declaration.
  std::pair<int, int> InputRange(int arg) const;
  std::pair<int, int> OutputRange(int arg) const;

  const AttrMap& attrs() const { return props_->attrs; }
  const AttrValue* FindAttr(std::string_view name) const;
  // The attribute, or an Internal/InvalidArgument error if it is missing or of
  // another kind.
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
  bool BoolAttr(std::string_view name) const {
    return AttrOr<bool>(name, false);
  }
  int64_t IntAttr(std::string_view name) const {
    return AttrOr<int64_t>(name, 0);
  }
  // True if one was copied from the other and the attributes are still shared.
  bool SharesAttrs(const Node& o) const { return props_ == o.props_; }
  // True if a declared attribute is a placeholder for one of the function that
  // the node is to be part of. Such a node cannot run, and the shapes of its
  // outputs are unknown.
  bool has_placeholders() const { return props_->has_placeholders; }
  // InvalidArgument, naming the attribute, if there is one.
  Status CheckNoPlaceholders() const;

  // The op that the user built, even if a pass changed the node; for messages.
  const std::string& built_as() const {
    return props_->built_as.empty() ? op_name() : props_->built_as;
  }
  // "node 'add' (AddV2) at model.cc:12", for messages.
  std::string Describe() const;

 private:
  friend class Graph;
  // Everything but the edges; shared by the copies of a node in other graphs.
  struct Props {
    std::string name;
    const OpDef* op = nullptr;
    std::string device;
    SourceLoc loc;
    std::vector<DType> input_types;  // As declared: reference or value.
    std::vector<DType> output_types;
    std::vector<PartialShape> output_shapes;
    AttrMap attrs;
    bool has_placeholders = false;  // Among the declared attributes.
    std::string built_as;  // The op's name before a pass changed it; or "".
  };
  Node() = default;
  template <typename T>
  static bool Has(const std::vector<T>& items, int i) {
    return static_cast<size_t>(i) < items.size();
  }
  Status AttrError(std::string_view name) const;

  int id_ = 0;
  // True if a copy of the node shares props_ and may read it at any time;
  // changes are then made to a fresh `props_`. Guarded by the graph's mutex.
  mutable bool copied_ = false;
  Graph* graph_ = nullptr;
  std::shared_ptr<Props> props_;
  std::vector<Output> inputs_;
  std::vector<Node*> control_inputs_;
};

inline DType Output::dtype() const {
  return node == nullptr ? DType::kInvalid : node->output_type(index);
}
inline const PartialShape& Output::shape() const {
  static const PartialShape unknown;
  return node == nullptr ? unknown : node->output_shape(index);
}
inline Graph* Output::graph() const {
  return node == nullptr ? nullptr : node->graph();
}

}  // namespace sluice

#endif  // SLUICE_GRAPH_NODE_H_
