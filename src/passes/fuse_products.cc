#include <algorithm>

#include "graph/hidden_attributes.h"
#include "passes/passes.h"

namespace sluice {
namespace {

// Fuses each product with the nodes that follow it.
class ProductFuser {
 public:
  ProductFuser(Graph* graph, const std::vector<Node*>& keep)
      : graph_(graph), readers_(graph->nodes().size()) {
    for (const auto& n : graph->nodes()) {
      for (int i = 0; i < n->num_inputs(); ++i)
        if (n->input(i).valid())
          readers_[Id(n->input(i).node)].push_back({n.get(), i});
      for (const Node* c : n->control_inputs())
        readers_[Id(c)].push_back({n.get(), kControl});
    }
    for (const Node* n : keep) readers_[Id(n)].push_back({nullptr, kControl});
  }

  // Fuses a product; other nodes are left unchanged.
  Status Fuse(Node* product) {
    const char* const fused = FusedOp(product->kind());
    if (fused == nullptr || !IsFloating(RemoveRef(product->output_type(0))))
      return OkStatus();
    Found f;
    f.nodes = {product};
    f.inputs = {product->input(0), product->input(1)};
    if (!FindBias(&f) && !FindNorm(&f)) return OkStatus();
    FindActivation(&f);
    return Replace(f, fused);
  }

 private:
  // The op that computes a product with what follows it; null for others.
  static const char* FusedOp(OpKind product) {
    switch (product) {
      case OpKind::kMatMul:
        return "_FusedMatMul";
      case OpKind::kConv2D:
        return "_FusedConv2D";
      case OpKind::kDepthwiseConv2D:
        return "_FusedDepthwiseConv2dNative";
      default:
        return nullptr;
    }
  }
  // What the fused ops call an activation; null for other kinds.
  static const char* ActivationName(OpKind kind) {
    switch (kind) {
      case OpKind::kRelu:
        return "Relu";
      case OpKind::kRelu6:
        return "Relu6";
      case OpKind::kElu:
        return "Elu";
      case OpKind::kSelu:
        return "Selu";
      case OpKind::kLeakyRelu:
        return "LeakyRelu";
      case OpKind::kTanh:
        return "Tanh";
      case OpKind::kSigmoid:
        return "Sigmoid";
      case OpKind::kSoftplus:
        return "Softplus";
      case OpKind::kSoftsign:
        return "Softsign";
      default:
        return nullptr;
    }
  }

  static constexpr int kControl = -1;
  struct Reader {
    Node* node;  // Null: the step itself.
    int input;   // Or kControl.
  };
  // The product and the nodes that follow it.
  struct Found {
    std::vector<Node*> nodes;
    AttrValue::Strings ops;  // Ops of the nodes after the product.
    std::vector<Output> inputs;
    AttrMap attrs;
  };

  static size_t Id(const Node* n) { return static_cast<size_t>(n->id()); }

  // The only reader of the last of these nodes, if it is on the same device and
  // waits only for its inputs. (Nodes that only forward a value are skipped.)
  Reader Next(const Found& f) const {
    const Node* last = f.nodes.back();
    for (;;) {
      Reader r = {nullptr, kControl};
      for (const Reader& reader : readers_[Id(last)]) {
        if (reader.node == nullptr) return {};
        if (reader.input == kControl) continue;
        if (r.node != nullptr) return {};
        r = reader;
      }
      if (r.node == nullptr || !r.node->control_inputs().empty() ||
          r.node->input(r.input).index != 0 ||
          r.node->device() != last->device() || r.node->num_outputs() == 0 ||
          IsRef(r.node->output_type(0)))
        return {};
      if (r.node->kind() != OpKind::kIdentity) return r;
      if (readers_[Id(r.node)].size() != 1) return {};
      last = r.node;
    }
  }

  // Nodes that wait for one of the nodes other than the last will wait for all
  // of them. That affects only timing if their other inputs are always
  // available and independent of the waiting nodes: parameters.
  bool MayWaitForAll(const Found& f) const {
    bool waits = false;
    for (size_t i = 0; i + 1 < f.nodes.size(); ++i)
      for (const Reader& r : readers_[Id(f.nodes[i])])
        waits = waits || r.input == kControl;
    if (!waits) return true;
    constexpr size_t kMaxExamined = 64;
    std::vector<const Node*> above;
    const auto add = [&](const Node* n) {
      if (std::find(above.begin(), above.end(), n) == above.end())
        above.push_back(n);
    };
    for (size_t i = 2; i < f.inputs.size(); ++i) add(f.inputs[i].node);
    for (size_t i = 0; i < above.size(); ++i) {
      const Node& n = *above[i];
      const OpRole role = n.op().role;
      if (i == kMaxExamined ||
          (role != OpRole::kConst && role != OpRole::kArg &&
           role != OpRole::kIdentity && !IsParameter(n) &&
           (role != OpRole::kCompute || !n.op().facts.pure())))
        return false;
      for (const Output& in : n.inputs()) add(in.node);
      for (const Node* c : n.control_inputs()) add(c);
    }
    for (size_t i = 0; i + 1 < f.nodes.size(); ++i)
      for (const Reader& r : readers_[Id(f.nodes[i])])
        if (r.input == kControl &&
            std::find(above.begin(), above.end(), r.node) != above.end())
          return false;
    return true;
  }
  static bool IsParameter(const Node& n) {
    return n.kind() == OpKind::kVarHandle || n.kind() == OpKind::kRefVariable ||
           n.kind() == OpKind::kReadVariable;
  }

  static bool ChannelsLast(const Node& n) {
    return !n.AttrOr<std::string>("data_format", "NHWC").starts_with("NC");
  }

  bool FindBias(Found* f) const {
    const Reader r = Next(*f);
    if (r.node == nullptr) return false;
    const Node& product = *f->nodes[0];
    if (r.node->kind() == OpKind::kBiasAdd) {
      if (r.input != 0 || ChannelsLast(*r.node) != ChannelsLast(product))
        return false;
    } else if (r.node->kind() != OpKind::kAdd ||
               !AddsVector(product, r.node->input(1 - r.input))) {
      return false;
    }
    f->nodes.push_back(r.node);
    f->ops.push_back("BiasAdd");
    f->inputs.push_back(r.node->input(1 - r.input));
    return true;
  }

  // Whether `v` is known to be a vector with one element per channel.
  static bool AddsVector(const Node& product, const Output& v) {
    const PartialShape &p = product.output_shape(0), &s = v.shape();
    return p.rank_known() && s.rank_known() && s.rank() == 1 && s.dim(0) >= 0 &&
           p.dim(p.rank() - 1) == s.dim(0) && ChannelsLast(product);
  }

  // A batch normalisation with known statistics.
  bool FindNorm(Found* f) const {
    const Reader r = Next(*f);
    if (r.node == nullptr || r.input != 0 ||
        f->nodes[0]->kind() != OpKind::kConv2D ||
        r.node->kind() != OpKind::kBatchNorm ||
        r.node->AttrOr<bool>("is_training", true) ||
        ChannelsLast(*r.node) != ChannelsLast(*f->nodes[0]))
      return false;
    for (int i = 0; i < 5; ++i)
      if (RemoveRef(r.node->input_type(i)) != DType::kFloat) return false;
    // Its other outputs would have to be computed as well.
    for (const Reader& reader : readers_[Id(r.node)])
      if (reader.node == nullptr || reader.input == kControl ||
          reader.node->input(reader.input).index != 0)
        return false;
    f->nodes.push_back(r.node);
    f->ops.push_back("FusedBatchNorm");
    for (int i = 1; i < 5; ++i) f->inputs.push_back(r.node->input(i));
    f->attrs["epsilon"] = r.node->AttrOr<float>("epsilon", 1e-4f);
    return true;
  }

  void FindActivation(Found* f) const {
    const Reader r = Next(*f);
    if (r.node == nullptr) return;
    const char* const name = ActivationName(r.node->kind());
    if (name == nullptr) return;
    f->nodes.push_back(r.node);
    f->ops.push_back(name);
    if (r.node->kind() == OpKind::kLeakyRelu)
      f->attrs["leakyrelu_alpha"] = r.node->AttrOr<float>("alpha", 0.2f);
  }

  // A node with control inputs reads a reference when these are done, even one
  // that was forwarded by an Identity. The nodes after the product wait only
  // for it, and read the earlier value.
  static bool ReadsLater(const Found& f) {
    if (f.nodes[0]->control_inputs().empty()) return false;
    for (size_t i = 2; i < f.inputs.size(); ++i) {
      Output o = f.inputs[i];
      while (o.node->kind() == OpKind::kIdentity &&
             o.node->control_inputs().empty() && !IsRef(o.dtype()))
        o = o.node->input(0);
      if (IsRef(o.dtype())) return true;
    }
    return false;
  }

  Status Replace(const Found& f, const std::string& op) {
    Node* const product = f.nodes[0];
    Node* const last = f.nodes.back();
    for (const Reader& r : readers_[Id(last)])
      if (r.node == nullptr) return OkStatus();  // The step needs it by name.
    if (!MayWaitForAll(f) || ReadsLater(f)) return OkStatus();
    NodeSpec spec;
    spec.op = op;
    std::string name = product->name() + "/" + product->op_name();
    AttrValue::Strings from;
    for (const Node* n : f.nodes) {
      if (n != product) name += "-" + n->op_name();
      from.push_back(n->Describe());
    }
    spec.name = graph_->UniqueName(name);
    spec.device = product->device();
    spec.loc = product->loc();
    spec.inputs = f.inputs;
    spec.control_inputs = product->control_inputs();
    spec.attrs = f.attrs;
    for (const char* attr :
         {"T", "strides", "use_cudnn_on_gpu", "padding", "explicit_paddings",
          "data_format", "dilations", "transpose_a", "transpose_b"})
      if (const AttrValue* a = product->FindAttr(attr)) spec.attrs[attr] = *a;
    spec.attrs["num_args"] = static_cast<int64_t>(f.inputs.size()) - 2;
    spec.attrs["fused_ops"] = f.ops;
    if (product->kind() == OpKind::kConv2D) {
      AttrValue::Types types;
      for (size_t i = 2; i < f.inputs.size(); ++i)
        types.push_back(RemoveRef(f.inputs[i].dtype()));
      spec.attrs["TArgs"] = AttrValue(std::move(types));
      spec.attrs["num_host_args"] = int64_t{0};
    }
    spec.attrs[kFusedFromAttr] = std::move(from);
    // Errors are attributed to the user's nodes.
    Result<Node*> added = graph_->AddNode(std::move(spec));
    if (!added.ok()) return OkStatus();
    Node* const made = *added;
    readers_.resize(graph_->nodes().size());
    for (int i = 0; i < made->num_inputs(); ++i)
      readers_[Id(made->input(i).node)].push_back({made, i});
    for (const Node* c : made->control_inputs())
      readers_[Id(c)].push_back({made, kControl});
    SLUICE_RETURN_IF_ERROR(
        graph_->SetShape(Output(made, 0), last->output_shape(0)));
    for (const Node* n : f.nodes)
      for (const Reader& r : readers_[Id(n)])
        if (n != last && r.input == kControl) {
          graph_->ReplaceControlInput(r.node, n, made);
          readers_[Id(made)].push_back(r);
        }
    for (const Reader& r : readers_[Id(last)]) {
      if (r.input == kControl)
        graph_->ReplaceControlInput(r.node, last, made);
      else
        SLUICE_RETURN_IF_ERROR(
            graph_->ReplaceInput(r.node, r.input, Output(made, 0)));
      readers_[Id(made)].push_back(r);
    }
    return OkStatus();
  }

  Graph* const graph_;
  std::vector<std::vector<Reader>> readers_;  // By id.
};

}  // namespace

Status FuseProducts(Graph* graph, const std::vector<Node*>& keep) {
  const size_t size = graph->nodes().size();
  ProductFuser fuser(graph, keep);
  for (size_t i = 0; i < size; ++i)
    SLUICE_RETURN_IF_ERROR(fuser.Fuse(graph->nodes()[i].get()));
  return OkStatus();
}

}  // namespace sluice
