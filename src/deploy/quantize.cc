// Converts layers to int8.
#include "deploy/quantize.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "graph/builder.h"
#include "graph/tensor_store_info.h"

namespace sluice {
namespace {

using FloatEdge = std::pair<const Node*, int>;

// A convolution or product with the nodes that are fused with it.
struct Layer {
  const Node* product = nullptr;   // Conv2D or MatMul.
  const Node* last = nullptr;      // Its output is the layer's.
  std::vector<const Node*> inner;  // All nodes before `last`.
  Output image;
  Tensor weights, bias;  // The bias may be missing.
  bool relu = false;
};

// A quantised activation: the tensor and its range.
struct Bytes {
  Output value, min, max;
};

struct Span {
  float low = 0, high = 0;
  bool is_signed() const { return low < 0; }
  // The range is symmetric or starts at zero; never empty.
  float most() const {
    return std::max({std::fabs(low), std::fabs(high), 1e-6f});
  }
};

bool AllFinite(const Tensor& t) {
  return std::ranges::all_of(t.raw_flat<float>(),
                             [](float v) { return std::isfinite(v); });
}
bool IsRank1(const Tensor& t) { return t.valid() && t.rank() == 1; }

// Finds the layers of a graph. Lives as long as the graph does.
class LayerFinder {
 public:
  LayerFinder(const InferenceGraph& g, const QuantizeOptions& options,
              QuantizedGraph* result)
      : keep_(options.keep_float.begin(), options.keep_float.end()),
        result_(result) {
    for (const auto& n : g.graph->nodes()) {
      for (const Output& in : n->inputs())
        if (in.valid()) readers_[in.node].push_back(n.get());
      for (const Node* c : n->control_inputs()) ordered_.insert(c);
    }
    for (const Output& f : g.fetches) fetched_.insert(f.node);
    for (const Output& f : g.feeds) fed_.insert(f.node);
  }

  // By the node whose output is the layer's output.
  Result<std::unordered_map<const Node*, Layer>> Find(const Graph& g) {
    std::unordered_map<const Node*, Layer> layers;
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Node*> order,
                            TopologicalOrder(g));
    std::set<const Node*> dynamic;  // Behind control flow.
    for (const Node* n : order) {
      const OpRole role = n->op().role;
      bool behind = role == OpRole::kEnter || role == OpRole::kSwitch ||
                    role == OpRole::kMerge;
      for (const Output& in : n->inputs())
        behind = behind || (in.valid() && dynamic.count(in.node) > 0);
      for (const Node* c : n->control_inputs())
        behind = behind || dynamic.count(c) > 0;
      if (behind) dynamic.insert(n);
      if (n->kind() != OpKind::kConv2D && n->kind() != OpKind::kMatMul)
        continue;
      Layer layer;
      const std::string why =
          behind ? "it is within or behind control flow" : Match(n, &layer);
      if (why.empty()) {
        result_->quantized.push_back(n->name());
        layers.emplace(layer.last, std::move(layer));
      } else {
        result_->kept.push_back(n->name() + ": " + why);
      }
    }
    return layers;
  }

 private:
  // The reason why the node stays float; empty if it can be quantised.
  std::string Match(const Node* n, Layer* layer) const {
    if (keep_.count(n->name()) > 0) return "the options say so";
    if (n->TypeAttr("T") != DType::kFloat)
      return "its type is " + DTypeName(n->TypeAttr("T"));
    if (!n->control_inputs().empty()) return "it runs after other nodes";
    if (fed_.count(n) > 0) return "it is fed";
    const bool conv = n->kind() == OpKind::kConv2D;
    layer->product = layer->last = n;
    layer->image = n->input(0);
    layer->weights = ConstantOf(n->input(1));
    if (!layer->weights.valid() || layer->weights.num_elements() == 0)
      return "its weights are not constant";
    if (!AllFinite(layer->weights)) return "its weights are not all finite";
    if (conv) {
      if (n->AttrOr<std::string>("data_format", "NHWC") != "NHWC")
        return "its images are NCHW";
      const PartialShape& image = layer->image.shape();
      if (image.rank() != 4 || image.dim(3) != layer->weights.dim(2))
        return "it is grouped, or its number of channels is not known";
    } else if (n->BoolAttr("transpose_a")) {
      return "its first factor is transposed";
    }
    // A bias, then ReLU.
    if (const Node* next = OnlyReader(layer->last)) {
      Tensor bias;
      if (next->kind() == OpKind::kBiasAdd &&
          next->AttrOr<std::string>("data_format", "NHWC") == "NHWC")
        bias = ConstantOf(next->input(1));
      if (next->kind() == OpKind::kAdd)
        bias = ConstantOf(next->input(next->input(0).node == n ? 1 : 0));
      if (IsRank1(bias) && AllFinite(bias) &&
          bias.num_elements() == Channels(*layer)) {
        layer->bias = std::move(bias);
        layer->inner.push_back(layer->last);
        layer->last = next;
      }
    }
    const Node* next = OnlyReader(layer->last);
    if (next != nullptr && next->kind() == OpKind::kRelu) {
      layer->relu = true;
      layer->inner.push_back(layer->last);
      layer->last = next;
    }
    return "";
  }

  static int64_t Channels(const Layer& l) {
    const Tensor& w = l.weights;
    return w.dim(
        w.rank() == 2 && l.product->BoolAttr("transpose_b") ? 0 : w.rank() - 1);
  }

  // The only node that reads n; null if there are other uses of its output.
  const Node* OnlyReader(const Node* n) const {
    const auto it = readers_.find(n);
    if (it == readers_.end() || it->second.size() != 1) return nullptr;
    if (fetched_.count(n) > 0 || ordered_.count(n) > 0 || fed_.count(n) > 0)
      return nullptr;
    const Node* reader = it->second[0];
    return reader->control_inputs().empty() && fed_.count(reader) == 0
               ? reader
               : nullptr;
  }

  // The value of a constant, possibly behind identities; else invalid.
  Tensor ConstantOf(Output o) const {
    while (o.valid() && o.node->kind() == OpKind::kIdentity &&
           fed_.count(o.node) == 0)
      o = o.node->input(0);
    if (!o.valid() || o.node->op().role != OpRole::kConst ||
        fed_.count(o.node) > 0)
      return Tensor();
    const AttrValue* a = o.node->FindAttr("value");
    const Tensor* t = a == nullptr ? nullptr : a->get<Tensor>();
    return t == nullptr || t->dtype() != DType::kFloat ? Tensor() : *t;
  }

  const std::set<std::string> keep_;
  QuantizedGraph* const result_;
  std::unordered_map<const Node*, std::vector<const Node*>> readers_;
  std::set<const Node*> ordered_, fetched_, fed_;
};

// The ranges of edges over the calibration steps.
Result<std::map<FloatEdge, Span>> Calibrate(
    const InferenceGraph& g, const std::vector<Output>& edges,
    const std::vector<std::vector<Tensor>>& steps, double percentile) {
  std::map<FloatEdge, Span> spans;
  Session session(*g.graph);
  for (const std::vector<Tensor>& values : steps) {
    if (values.size() != g.feeds.size())
      return InvalidArgument("calibration: expected ", g.feeds.size(),
                             " values a step, one for each feed, got ",
                             values.size());
    Feeds feeds;
    for (size_t i = 0; i < values.size(); ++i)
      feeds.emplace_back(g.feeds[i], values[i]);
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Tensor> seen,
                            session.Run(feeds, edges));
    for (size_t i = 0; i < edges.size(); ++i) {
      Span now;
      std::vector<float> sizes;
      for (const float v : seen[i].raw_flat<float>()) {
        if (!std::isfinite(v)) continue;
        now.low = std::min(now.low, v);
        now.high = std::max(now.high, v);
        if (percentile < 1) sizes.push_back(std::fabs(v));
      }
      if (!sizes.empty()) {
        const auto nth =
            sizes.begin() +
            static_cast<ptrdiff_t>(percentile *
                                   static_cast<double>(sizes.size() - 1));
        std::nth_element(sizes.begin(), nth, sizes.end());
        if (*nth > 0) {
          now.low = std::max(now.low, -*nth);
          now.high = std::min(now.high, *nth);
        }
      }
      Span& all = spans[{edges[i].node, edges[i].index}];
      all.low = std::min(all.low, now.low);
      all.high = std::max(all.high, now.high);
    }
  }
  return spans;
}

// Builds the int8 graph, node by node. Lives on one thread.
class Rewriter {
 public:
  Rewriter(const InferenceGraph& from,
           const std::unordered_map<const Node*, Layer>& layers,
           const std::map<FloatEdge, Span>& spans, QuantizedGraph* to)
      : from_(from), layers_(layers), spans_(spans), to_(to) {
    for (const auto& [unused, layer] : layers)
      for (const Node* n : layer.inner) absorbed_.insert(n);
    for (const auto& n : from.graph->nodes()) names_.insert(n->name());
  }

  Status Run() {
    to_->graph = std::make_unique<Graph>();
    to_->graph->ShareLibrary(*from_.graph);
    const WithGraph use(*to_->graph);
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Node*> order,
                            TopologicalOrder(*from_.graph));
    for (const Node* n : order) {
      if (absorbed_.count(n) > 0) continue;
      const auto it = layers_.find(n);
      if (it != layers_.end()) {
        SLUICE_RETURN_IF_ERROR(AddLayer(it->second));
      } else if (!AddMove(*n)) {
        Copy(*n);
      }
      SLUICE_RETURN_IF_ERROR(to_->graph->status());
    }
    for (const Node* m : open_merges_)
      for (int i = 0; i < m->num_inputs(); ++i)
        if (!nodes_[m]->input(i).valid())
          SLUICE_RETURN_IF_ERROR(to_->graph->SetBackEdge(
              nodes_[m], i,
              Output(nodes_[m->input(i).node], m->input(i).index)));
    for (const Output& o : from_.feeds) to_->feeds.push_back(Float(o));
    for (const Output& o : from_.fetches) to_->fetches.push_back(Float(o));
    SLUICE_RETURN_IF_ERROR(to_->graph->status());
    DropUnread();
    return OkStatus();
  }

 private:
  // ---- Edges ----------------------------------------------------------------

  // The float value of an edge, dequantised if necessary.
  Output Float(const Output& o) {
    const FloatEdge edge{o.node, o.index};
    const auto it = floats_.find(edge);
    if (it != floats_.end()) return it->second;
    const auto bytes = bytes_.find(edge);
    Output value;
    if (bytes != bytes_.end()) {
      value = Build("Dequantize",
                    {bytes->second.value, bytes->second.min, bytes->second.max},
                    {{"mode", "SCALED"}, {"narrow_range", true}},
                    Fresh(o.node->name() + "/float"), o.node->loc());
    } else {
      value = Output(nodes_[o.node], o.index);
    }
    floats_[edge] = value;
    return value;
  }

  Bytes InBytes(const Output& o) {
    const FloatEdge edge{o.node, o.index};
    const auto it = bytes_.find(edge);
    if (it != bytes_.end()) return it->second;
    const Span span = spans_.at(edge);
    const std::string name = Fresh(o.node->name() + "/bytes");
    const Bytes range = RangeOf(span, name);
    const Output q =
        Build("QuantizeV2", {Float(o), range.min, range.max},
              {{"T", span.is_signed() ? DType::kQint8 : DType::kQuint8},
               {"mode", "SCALED"},
               {"round_mode", "HALF_TO_EVEN"},
               {"narrow_range", span.is_signed()},
               {"ensure_minimum_range", 0.0f}},
              name, o.node->loc());
    return bytes_[edge] = {q, range.min, range.max};
  }

  // A name that no copied node has, nor any node in a scope of that name.
  std::string Fresh(const std::string& base) const {
    for (std::string name = base;; name += "_") {
      const auto it = names_.lower_bound(name);
      const auto below = names_.lower_bound(name + "/");
      if ((it == names_.end() || *it != name) &&
          (below == names_.end() || !below->starts_with(name + "/")))
        return name;
    }
  }

  static Bytes RangeOf(const Span& span, const std::string& name) {
    const float most = span.most();
    return {{},
            Constant(Tensor::Scalar(span.is_signed() ? -most : 0.0f),
                     name + "/min"),
            Constant(Tensor::Scalar(most), name + "/max")};
  }

  // ---- Nodes ----------------------------------------------------------------

  Status AddLayer(const Layer& l) {
    const Node& p = *l.product;
    const bool conv = p.kind() == OpKind::kConv2D;
    const std::string& name = l.last->name();
    const SourceLoc loc = p.loc();
    const Bytes image = InBytes(l.image);
    // [channels of the filter, output channels]; for a product it may be
    // transposed.
    const bool turned = !conv && p.BoolAttr("transpose_b");
    const Tensor& w = l.weights;
    const int64_t channels = w.dim(turned ? 0 : w.rank() - 1);
    const int64_t rows = w.num_elements() / channels;
    SLUICE_ASSIGN_OR_RETURN(Tensor filter,
                            Tensor::Make(DType::kQint8, w.shape()));
    SLUICE_ASSIGN_OR_RETURN(Tensor high,
                            Tensor::Make(DType::kFloat, {channels}));
    SLUICE_ASSIGN_OR_RETURN(Tensor low,
                            Tensor::Make(DType::kFloat, {channels}));
    Tensor bias = l.bias;
    if (!bias.valid()) {
      SLUICE_ASSIGN_OR_RETURN(bias, Tensor::Zeros(DType::kFloat, {channels}));
    }
    auto* to = static_cast<int8_t*>(filter.raw());
    for (int64_t c = 0; c < channels; ++c) {
      const auto at = [&](int64_t r) {
        return turned ? c * rows + r : r * channels + c;
      };
      float most = 0;
      for (int64_t r = 0; r < rows; ++r)
        most = std::max(most, std::fabs(w.raw<float>()[at(r)]));
      if (most < 1e-30f) most = 1e-6f;  // (127 / most is a number.)
      for (int64_t r = 0; r < rows; ++r)
        to[at(r)] = static_cast<int8_t>(
            std::clamp(std::nearbyint(w.raw<float>()[at(r)] * (127.0f / most)),
                       -127.0f, 127.0f));
      high.raw<float>()[c] = most;
      low.raw<float>()[c] = -most;
    }
    const std::string parts = Fresh(name + "/int8");
    std::vector<Output> inputs = {
        image.value,
        Constant(filter, parts + "/weights"),
        Constant(bias, parts + "/bias"),
        image.min,
        image.max,
        Constant(low, parts + "/weights_min"),
        Constant(high, parts + "/weights_max"),
    };
    const FloatEdge edge{l.last, 0};
    AttrMap attrs = {{"Tbias", DType::kFloat}};
    if (conv) {
      attrs["strides"] = *p.FindAttr("strides");
      attrs["dilations"] = *p.FindAttr("dilations");
      attrs["padding"] = *p.FindAttr("padding");
      if (p.AttrOr<std::string>("padding", "") == "EXPLICIT") {
        attrs["padding"] = "VALID";
        attrs["padding_list"] = *p.FindAttr("explicit_paddings");
      }
    } else {
      attrs["transpose_b"] = turned;
      attrs["input_quant_mode"] = "SCALED";
    }
    // A product without quantised readers produces floats itself.
    const bool floats = !conv && !l.relu;
    const Span out = floats ? Span{0, 1} : spans_.at(edge);
    const Bytes range = RangeOf(out, parts + "/out");
    inputs.push_back(range.min);
    inputs.push_back(range.max);
    const DType type = floats            ? DType::kFloat
                       : out.is_signed() ? DType::kQint8
                                         : DType::kQuint8;
    attrs[conv ? "out_type" : "Toutput"] = type;
    const std::string op = std::string(conv ? "QuantizedConv2DWithBias"
                                            : "QuantizedMatMulWithBias") +
                           (floats   ? "AndDequantize"
                            : l.relu ? "AndReluAndRequantize"
                                     : "AndRequantize");
    const Output made = Build(op, inputs, attrs, name, loc);
    nodes_[l.last] = made.node;
    if (floats) {
      floats_[edge] = made;
    } else if (made.valid()) {
      bytes_[edge] = {made, Output(made.node, 1), Output(made.node, 2)};
    }
    return OkStatus();
  }

  // Copies ops that move bytes just as they move floats. Returns false for
  // other ops.
  bool AddMove(const Node& n) {
    const OpKind kind = n.kind();
    if ((kind != OpKind::kMaxPool && kind != OpKind::kReshape) ||
        !n.control_inputs().empty())
      return false;
    const auto it = bytes_.find({n.input(0).node, n.input(0).index});
    if (it == bytes_.end() || floats_.count(it->first) > 0) return false;
    const Bytes in = it->second;
    Output made;
    if (kind == OpKind::kMaxPool) {
      if (n.AttrOr<std::string>("data_format", "NHWC") != "NHWC" ||
          n.AttrOr<std::string>("padding", "") == "EXPLICIT")
        return false;
      made = Build("QuantizedMaxPool", {in.value, in.min, in.max},
                   {{"ksize", *n.FindAttr("ksize")},
                    {"strides", *n.FindAttr("strides")},
                    {"padding", *n.FindAttr("padding")}},
                   n.name(), n.loc());
    } else {
      made = Build("QuantizedReshape",
                   {in.value, Float(n.input(1)), in.min, in.max}, {}, n.name(),
                   n.loc());
    }
    nodes_[&n] = made.node;
    bytes_[{&n, 0}] = {made, Output(made.node, 1), Output(made.node, 2)};
    return true;
  }

  void Copy(const Node& n) {
    std::vector<Output> inputs;
    std::vector<Node*> controls;
    for (const Output& in : n.inputs()) {
      if (nodes_.count(in.node) == 0) {  // The back edge of a loop.
        inputs.emplace_back();
        open_merges_.push_back(&n);
      } else {
        inputs.push_back(Float(in));
      }
    }
    for (const Node* c : n.control_inputs()) controls.push_back(nodes_[c]);
    nodes_[&n] =
        to_->graph->CopyNode(n, std::move(inputs), std::move(controls));
  }

  // Removes unread constants that were replaced by quantised ones.
  void DropUnread() {
    std::vector<uint8_t> read(static_cast<size_t>(to_->graph->num_nodes()));
    std::vector<const Node*> left;
    const auto visit = [&](const Node* n) {
      if (n == nullptr || read[static_cast<size_t>(n->id())] != 0) return;
      read[static_cast<size_t>(n->id())] = 1;
      left.push_back(n);
    };
    for (const Output& o : to_->fetches) visit(o.node);
    for (const Output& o : to_->feeds) visit(o.node);
    const auto follow = [&] {
      while (!left.empty()) {
        const Node* n = left.back();
        left.pop_back();
        for (const Output& in : n->inputs()) visit(in.node);
        for (const Node* c : n->control_inputs()) visit(c);
      }
    };
    StoreWriters(*to_->graph)
        .Close(
            [&](const Node* n) {
              return read[static_cast<size_t>(n->id())] != 0;
            },
            follow, visit);
    to_->graph->Retain(read);
  }

  const InferenceGraph& from_;
  const std::unordered_map<const Node*, Layer>& layers_;
  const std::map<FloatEdge, Span>& spans_;
  QuantizedGraph* const to_;
  std::set<const Node*> absorbed_;
  std::set<std::string> names_;  // Names of the source graph.
  std::unordered_map<const Node*, Node*> nodes_;
  std::map<FloatEdge, Output> floats_;
  std::map<FloatEdge, Bytes> bytes_;
  std::vector<const Node*> open_merges_;
};

}  // namespace

Result<QuantizedGraph> Quantize(
    const InferenceGraph& graph,
    const std::vector<std::vector<Tensor>>& calibration,
    const QuantizeOptions& options) {
  if (graph.graph == nullptr)
    return InvalidArgument("quantize: expected a graph, got none");
  if (calibration.empty())
    return InvalidArgument("calibration: expected at least one step of values");
  if (!(options.percentile > 0 && options.percentile <= 1))
    return InvalidArgument("percentile: expected a number in (0, 1], got ",
                           options.percentile);
  QuantizedGraph result;
  std::unordered_map<const Node*, Layer> layers;
  SLUICE_ASSIGN_OR_RETURN(
      layers, LayerFinder(graph, options, &result).Find(*graph.graph));
  std::vector<Output> edges;
  std::set<FloatEdge> known;
  const auto add = [&](const Output& o) {
    if (known.insert({o.node, o.index}).second) edges.push_back(o);
  };
  for (const auto& [last, layer] : layers) {
    add(layer.image);
    add(Output(const_cast<Node*>(last)));
  }
  std::map<FloatEdge, Span> spans;
  SLUICE_ASSIGN_OR_RETURN(
      spans, Calibrate(graph, edges, calibration, options.percentile));
  SLUICE_RETURN_IF_ERROR(Rewriter(graph, layers, spans, &result).Run());
  return result;
}

}  // namespace sluice
