#include <algorithm>
#include <functional>
#include <mutex>
#include <queue>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "graph/control_flow.h"
#include "graph/function.h"
#include "graph/graphdef_view.h"
#include "graph/node_names.h"
#include "graph/valid_outputs.h"

namespace sluice {
namespace {

// One import. Works in passes over the whole GraphDef: names, ops, edges,
// order, nodes, back edges; each pass may rely on the checks of earlier ones.
class Importer {
 public:
  Importer(const GraphDefView& def, Graph& g, const ImportOptions& options,
           ImportResults* results, bool internal)
      : def_(def),
        internal_(internal),
        g_(g),
        options_(options),
        results_(*results),
        limits_(options.tensor_limits),
        lines_(def.rest().debug_info(), g),
        first_(g.num_nodes()) {}

  Status Run() {
    SLUICE_RETURN_IF_ERROR(CheckVersions());
    SLUICE_RETURN_IF_ERROR(CheckMaps());
    SLUICE_RETURN_IF_ERROR(ImportFunctions());
    SLUICE_RETURN_IF_ERROR(IndexNodes());
    SLUICE_RETURN_IF_ERROR(FindOps());
    if (!HasControlFlow()) context_ = options_.context;
    SLUICE_RETURN_IF_ERROR(CollectEdges());
    SLUICE_RETURN_IF_ERROR(CheckReturnElements());
    SLUICE_ASSIGN_OR_RETURN(const std::vector<int> order, Order());
    for (int i : order) SLUICE_RETURN_IF_ERROR(AddNode(i));
    for (int i : order) SLUICE_RETURN_IF_ERROR(CloseCycles(i));
    TakeScopes(&g_, first_);
    return Return();
  }

 private:
  // The source of an input: output `index` of a node of the GraphDef, or entry
  // `index` of mapped_.
  struct Edge {
    int source = -1;
    int index = 0;
    bool back = false;  // Closes a cycle.
  };
  // Its inputs and controls are those behind the ones of the node before.
  struct Pending {
    const OpDef* op = nullptr;
    Node* node = nullptr;  // Set when it is added.
    uint32_t inputs_end = 0, controls_end = 0;
  };

  const GraphDefView::Node& node_def(int i) const { return def_.node(i); }
  Pending& pending(int i) { return nodes_[static_cast<size_t>(i)]; }
  std::span<const Edge> inputs(int i) {
    const uint32_t begin = i == 0 ? 0 : pending(i - 1).inputs_end;
    return {edges_.data() + begin, pending(i).inputs_end - begin};
  }
  // (Without an index.)
  std::span<const Edge> controls(int i) {
    const uint32_t begin = i == 0 ? 0 : pending(i - 1).controls_end;
    return {controls_.data() + begin, pending(i).controls_end - begin};
  }
  SourceLoc LineOf(std::string_view node) const {
    return lines_.empty() ? SourceLoc() : lines_.Of(std::string(node));
  }

  // `s` with the node's name, op and line.
  Status At(int i, const Status& s) const {
    if (s.ok()) return s;
    const SourceLoc loc = LineOf(node_def(i).name);
    return Status(
        s.code(),
        absl::StrCat(s.message(), "; node '", std::string(node_def(i).name),
                     "' (", std::string(node_def(i).op), ")",
                     loc.known() ? " at " : "", loc.ToString()));
  }

  // The name with the prefix.
  std::string Prefixed(std::string_view name) const {
    std::string full =
        options_.prefix.empty()
            ? std::string(name)
            : absl::StrCat(options_.prefix, "/", std::string(name));
    if (renamed_.empty()) return full;
    const auto it = renamed_.find(full);
    return it == renamed_.end() ? full : it->second;
  }

  // Renames nodes whose names are used by nodes or scopes of the graph; the new
  // names are also unused in the GraphDef.
  void RenameTaken() {
    std::unordered_set<std::string_view> scopes;
    for (const auto& node : g_.nodes()) {
      const std::string_view name = node->name();
      for (size_t at = name.find('/'); at != name.npos;
           at = name.find('/', at + 1))
        scopes.insert(name.substr(0, at));
    }
    const auto is_taken = [&](const std::string& name) {
      return g_.FindNode(name) != nullptr || scopes.count(name) != 0;
    };
    for (int i = 0; i < def_.size(); ++i) {
      const std::string name(node_def(i).name);
      const std::string full = Prefixed(name);
      if (!is_taken(full)) continue;
      int k = 1;
      while (is_taken(absl::StrCat(full, "_", k)) ||
             index_.contains(absl::StrCat(name, "_", k)))
        ++k;
      renamed_.emplace(full, absl::StrCat(full, "_", k));
    }
  }

  Status CheckVersions() {
    const proto::VersionDef& v = def_.rest().versions();
    if (v.min_consumer() > kGraphDefVersion)
      return InvalidArgument(
          "GraphDef: expected a minimal consumer of at most ", kGraphDefVersion,
          ", got ", v.min_consumer());
    for (int bad : v.bad_consumers())
      if (bad == kGraphDefVersion)
        return InvalidArgument("GraphDef: expected to allow consumer version ",
                               bad, ", got it among bad_consumers");
    const int producer =
        v.producer() != 0 ? v.producer() : def_.rest().version();
    if (producer < 0)
      return InvalidArgument(
          "GraphDef: expected a producer version of at "
          "least 0, got ",
          producer);
    if (g_.num_nodes() == 0 || producer < g_.producer_version)
      g_.producer_version = producer;
    return OkStatus();
  }

  Status CheckMaps() const {
    for (const auto& [key, output] : options_.input_map)
      if (output.node == nullptr || output.graph() != &g_ || output.index < 0 ||
          output.index >= output.node->num_outputs())
        return InvalidArgument(
            "input_map: expected an output of the graph for "
            "'",
            key, "', got another");
    for (const auto& [key, node] : options_.control_input_map)
      if (node == nullptr || node->graph() != &g_)
        return InvalidArgument(
            "control_input_map: expected a node of the graph "
            "for '",
            key, "', got another");
    return OkStatus();
  }

  Status ImportFunctions() {
    for (const proto::FunctionDef& f : def_.rest().library().function()) {
      const std::string& name = f.signature().name();
      if (name.empty())
        return InvalidArgument("function library: expected a name, got none");
      SLUICE_ASSIGN_OR_RETURN(std::string bytes, SerializeProto(f));
      SLUICE_RETURN_IF_ERROR(
          g_.function_library().Define(name, std::move(bytes)));
    }
    for (const proto::GradientDef& d : def_.rest().library().gradient()) {
      auto [it, added] =
          g_.function_gradients().emplace(d.function_name(), d.gradient_func());
      if (!added && it->second != d.gradient_func())
        return InvalidArgument("function library: expected one gradient of '",
                               d.function_name(), "', got '", it->second,
                               "' and '", d.gradient_func(), "'");
    }
    return OkStatus();
  }

  Status IndexNodes() {
    nodes_.resize(static_cast<size_t>(def_.size()));
    index_.reserve(nodes_.size());
    for (int i = 0; i < def_.size(); ++i) {
      const std::string_view name = node_def(i).name;
      if (name.empty())
        return At(i,
                  InvalidArgument("node ", i, ": expected a name, got none"));
      // (Each prefix is a scope, whose name the graph keeps.)
      constexpr auto kMaxScopes = 1000;
      if (name.size() > kMaxScopes &&
          std::count(name.begin(), name.end(), '/') > kMaxScopes)
        return At(i, InvalidArgument("node ", i, ": expected a name within at ",
                                     "most ", kMaxScopes, " scopes"));
      if (!index_.emplace(name, i).second)
        return At(i, InvalidArgument("duplicate node: expected each name once, "
                                     "got '",
                                     std::string(name), "' again"));
    }
    if (options_.unique_names) RenameTaken();
    return OkStatus();
  }

  // Reports all unknown ops at once: users who port a graph want the whole
  // list.
  Status FindOps() {
    for (int i = 0; i < def_.size() && !internal_; ++i)
      if (IsInternalOp(node_def(i).op, g_.function_library()))
        return At(i,
                  InvalidArgument("op: expected one that graphs may contain, "
                                  "got an internal one"));
    int first = -1;
    std::set<std::string> others;
    absl::flat_hash_map<std::string_view, const OpDef*> known;
    for (int i = 0; i < def_.size(); ++i) {
      const std::string_view op = node_def(i).op;
      const OpDef*& found = known[op];
      if (found == nullptr) found = OpRegistry::Global()->Find(op);
      if (found == nullptr) found = g_.function_library().FindOp(op);
      pending(i).op = found;
      if (found != nullptr) continue;
      if (first < 0)
        first = i;
      else if (op != node_def(first).op)
        others.emplace(op);
    }
    if (first < 0) return OkStatus();
    Status s = OpRegistry::Global()->Lookup(node_def(first).op).status();
    if (s.ok()) return Internal("op registry changed during an import");
    if (!others.empty())
      s = Status(s.code(), absl::StrCat(s.message(), "; other unknown ops: ",
                                        absl::StrJoin(others, ", ")));
    return At(first, s);
  }

  bool HasControlFlow() const {
    return std::any_of(nodes_.begin(), nodes_.end(), [](const Pending& p) {
      return p.op->role == OpRole::kSwitch || p.op->role == OpRole::kMerge ||
             p.op->role == OpRole::kEnter;
    });
  }

  Status CollectEdges() {
    size_t inputs = 0;
    for (int i = 0; i < def_.size(); ++i) inputs += def_.inputs(i).size();
    edges_.reserve(inputs);
    for (int i = 0; i < def_.size(); ++i)
      SLUICE_RETURN_IF_ERROR(CollectEdges(i));
    return OkStatus();
  }

  Status CollectEdges(int i) {
    Pending& p = pending(i);
    bool controls_began = false;
    for (const std::string_view text : def_.inputs(i)) {
      InputName in;
      if (text.empty() || std::any_of(text.begin(), text.end(), [](char c) {
            return c == ':' || c == '^';
          })) {
        const Result<InputName> parsed = ParseInputName(text);
        if (!parsed.ok()) return At(i, parsed.status());
        in = *parsed;
      } else {
        in.node = text;
      }
      if (controls_began && !in.control)
        return At(i, InvalidArgument("input: expected control inputs after all "
                                     "others, got '",
                                     std::string(text), "' after one"));
      controls_began = in.control;
      if (in.control && MapControl(in)) continue;
      if (!in.control && MapInput(in)) continue;
      const auto it = index_.find(in.node);
      if (it == index_.end()) return At(i, NoSuchInput(std::string(text), in));
      Edge e;
      e.source = it->second;
      if (in.control) {
        controls_.push_back(e);
        continue;
      }
      e.index = in.index;
      e.back = p.op->role == OpRole::kMerge &&
               pending(e.source).op->role == OpRole::kNextIteration;
      edges_.push_back(e);
    }
    p.inputs_end = static_cast<uint32_t>(edges_.size());
    p.controls_end = static_cast<uint32_t>(controls_.size());
    return OkStatus();
  }

  bool MapControl(const InputName& in) {
    if (options_.control_input_map.empty()) return false;
    auto it = options_.control_input_map.find(std::string(in.node));
    if (it == options_.control_input_map.end()) return false;
    controls_.push_back({-1, AddMapped(Output(it->second))});
    return true;
  }

  // The replacement of an output; or null.
  Output Mapped(const InputName& in) {
    if (options_.input_map.empty()) return Output();
    const std::string node(in.node);
    auto it = options_.input_map.find(absl::StrCat(node, ":", in.index));
    if (it == options_.input_map.end() && in.index == 0)
      it = options_.input_map.find(node);
    if (it == options_.input_map.end()) return Output();
    used_keys_.insert(it->first);
    return it->second;
  }

  bool MapInput(const InputName& in) {
    const Output mapped = Mapped(in);
    if (mapped.valid()) edges_.push_back({-1, AddMapped(mapped)});
    return mapped.valid();
  }

  int AddMapped(const Output& o) {
    mapped_.push_back(o);
    return static_cast<int>(mapped_.size()) - 1;
  }
  const Output& MappedBy(const Edge& e) const {
    return mapped_[static_cast<size_t>(e.index)];
  }

  Status NoSuchInput(const std::string& text, const InputName& in) const {
    std::vector<std::string> names;
    for (int i = 0; i < def_.size(); ++i) names.emplace_back(node_def(i).name);
    const std::vector<std::string> near = NearestNames(in.node, names);
    return InvalidArgument(
        "input: expected a node of the GraphDef, got '", text, "'",
        near.empty() ? "" : "; nearest: ", absl::StrJoin(near, ", "));
  }

  Status CheckReturnElements() {
    for (const std::string& element : options_.return_elements) {
      Result<InputName> in = ParseInputName(element);
      if (!in.ok() || in->control)
        return InvalidArgument(
            "return element: expected 'node' or "
            "'node:index', got '",
            element, "'");
      if (!index_.contains(in->node))
        return Status(StatusCode::kNotFound,
                      absl::StrCat("return element: ",
                                   NoSuchInput(element, *in).message()));
    }
    return OkStatus();
  }

  // Indices of nodes such that each comes after its inputs, except for back
  // edges; otherwise in the order of the GraphDef.
  Result<std::vector<int>> Order() {
    const auto n = static_cast<size_t>(def_.size());
    std::vector<int> order;
    order.reserve(n);
    bool ordered = true;
    for (int i = 0; i < def_.size(); ++i) {
      ForEachSource(i, [&](int source) { ordered &= source < i; });
      order.push_back(i);
    }
    if (ordered) return order;  // (As most writers write them.)
    order.clear();
    std::vector<int> waits(n, 0);
    std::vector<std::vector<int>> consumers(n);
    for (int i = 0; i < def_.size(); ++i)
      ForEachSource(i, [&](int source) {
        ++waits[static_cast<size_t>(i)];
        consumers[static_cast<size_t>(source)].push_back(i);
      });
    std::priority_queue<int, std::vector<int>, std::greater<int>> ready;
    for (int i = 0; i < def_.size(); ++i)
      if (waits[static_cast<size_t>(i)] == 0) ready.push(i);
    while (!ready.empty()) {
      const int i = ready.top();
      ready.pop();
      order.push_back(i);
      for (int c : consumers[static_cast<size_t>(i)])
        if (--waits[static_cast<size_t>(c)] == 0) ready.push(c);
    }
    if (order.size() != n) return CycleError(waits);
    return order;
  }

  template <typename Fn>
  void ForEachSource(int i, const Fn& fn) {
    for (const Edge& e : inputs(i))
      if (e.source >= 0 && !e.back) fn(e.source);
    for (const Edge& e : controls(i))
      if (e.source >= 0) fn(e.source);
  }

  // Walks back along waiting nodes until one repeats.
  Status CycleError(const std::vector<int>& waits) {
    int at = 0;
    while (waits[static_cast<size_t>(at)] == 0) ++at;
    std::unordered_map<int, size_t> seen;
    std::vector<std::string> path;
    while (seen.emplace(at, path.size()).second) {
      path.emplace_back(node_def(at).name);
      int next = -1;
      ForEachSource(at, [&](int source) {
        if (waits[static_cast<size_t>(source)] > 0) next = source;
      });
      at = next;
    }
    path.erase(path.begin(), path.begin() + static_cast<ptrdiff_t>(seen[at]));
    path.push_back(path.front());
    std::reverse(path.begin(), path.end());
    constexpr size_t kMax = 12;
    if (path.size() > kMax) {
      path.erase(path.begin() + kMax / 2, path.end() - kMax / 2);
      path.insert(path.begin() + kMax / 2, "...");
    }
    return At(at,
              InvalidArgument("cycle: expected a NextIteration into a Merge "
                              "to close it, got ",
                              absl::StrJoin(path, " -> ")));
  }

  Status AddNode(int i) {
    const GraphDefView::Node& def = node_def(i);
    Pending& p = pending(i);
    NodeSpec spec;
    spec.op = p.op->name;
    spec.name = Prefixed(def.name);
    spec.device =
        def.device.empty() ? options_.default_device : std::string(def.device);
    spec.loc = LineOf(def.name);
    for (const GraphDefView::Attr& a : def_.attrs(i)) {
      Result<AttrValue> v = a.message != nullptr
                                ? AttrFromProto(*a.message, &limits_)
                                : SimpleAttr(a.simple);
      if (!v.ok())
        return At(
            i, Annotate(v.status(),
                        absl::StrCat("attribute '", std::string(a.name), "'")));
      if (a.name == kSourceLineAttr)
        spec.loc = SourceLine(*v);
      else
        spec.attrs.emplace(a.name, *std::move(v));
    }
    SLUICE_RETURN_IF_ERROR(At(i, CheckAttrs(*p.op, spec.attrs)));
    if (!options_.prefix.empty() || !renamed_.empty()) {
      PrefixColocation(&spec.attrs);
      PrefixNames(*p.op, &spec.attrs);
    }
    bool depends = false;
    const std::span<const Edge> from = inputs(i);
    spec.inputs.reserve(from.size());
    for (const Edge& e : from) {
      if (e.back) {
        spec.pending_input_types.resize(spec.inputs.size(), DType::kInvalid);
        spec.pending_input_types.push_back(MergeType(*p.op, spec.attrs));
        spec.inputs.emplace_back();
      } else if (e.source >= 0) {
        spec.inputs.emplace_back(pending(e.source).node, e.index);
        depends = true;
      } else {
        spec.inputs.push_back(MappedBy(e));
      }
    }
    for (const Edge& e : controls(i)) {
      const bool mapped = e.source < 0;
      spec.control_inputs.push_back(mapped ? MappedBy(e).node
                                           : pending(e.source).node);
      depends = depends || !mapped;
    }
    // Other nodes run after these already.
    if (!depends)
      spec.control_inputs.insert(spec.control_inputs.end(),
                                 options_.control_dependencies.begin(),
                                 options_.control_dependencies.end());
    if (context_ != nullptr)
      SLUICE_RETURN_IF_ERROR(
          At(i, PrepareForContext(context_, options_.in_condition, &spec)));
    Result<Node*> node = g_.AddNode(std::move(spec));
    if (!node.ok()) {
      const bool named =
          node.status().message().find("node '") != absl::string_view::npos;
      return named ? node.status() : At(i, node.status());
    }
    p.node = *node;
    if (context_ != nullptr) g_.control_flow().SetContext(p.node, context_);
    if (def.debug_info != nullptr) {
      SLUICE_ASSIGN_OR_RETURN(g_.original_names()[p.node->name()],
                              SerializeProto(*def.debug_info));
    }
    return OkStatus();
  }

  // Checks for attributes that a serialised node must have but a builder may
  // leave to inference.
  static Status CheckAttrs(const OpDef& op, const AttrMap& attrs) {
    for (const AttrDef& def : op.attrs) {
      auto it = attrs.find(def.name);
      if (it == attrs.end()) {
        if (def.default_value) continue;
        return InvalidArgument("attribute '", def.name,
                               "': expected a value, got none");
      }
      auto good = [](DType t) { return t != DType::kInvalid && !IsRef(t); };
      const DType* type = it->second.get<DType>();
      const auto* types = it->second.get<AttrValue::Types>();
      if ((type != nullptr && !good(*type)) ||
          (types != nullptr &&
           !std::all_of(types->begin(), types->end(), good)))
        return InvalidArgument("attribute '", def.name,
                               "': expected value types, got ",
                               it->second.ToString());
    }
    return OkStatus();
  }

  // Parses "model.cc:12", as stored in function bodies.
  SourceLoc SourceLine(const AttrValue& v) {
    const std::string* text = v.get<std::string>();
    const size_t colon = text == nullptr ? std::string::npos : text->rfind(':');
    SourceLoc loc;
    if (colon == std::string::npos ||
        !absl::SimpleAtoi(text->substr(colon + 1), &loc.line))
      return SourceLoc();
    loc.file = g_.function_library().Intern(text->substr(0, colon));
    return loc;
  }

  static DType MergeType(const OpDef& op, const AttrMap& attrs) {
    auto it = attrs.find("T");
    const DType* t = it == attrs.end() ? nullptr : it->second.get<DType>();
    if (t == nullptr) return DType::kInvalid;
    return !op.inputs.empty() && op.inputs[0].is_ref ? MakeRef(*t) : *t;
  }

  // "loc:@x" names a node of the GraphDef, which may be renamed.
  void PrefixColocation(AttrMap* attrs) const {
    auto it = attrs->find(kColocationAttr);
    const auto* list =
        it == attrs->end() ? nullptr : it->second.get<AttrValue::Strings>();
    if (list == nullptr) return;
    AttrValue::Strings out = *list;
    for (std::string& s : out)
      if (s.starts_with("loc:@")) s = "loc:@" + Prefixed(s.substr(5));
    it->second = AttrValue(std::move(out));
  }

  // The same for attributes that are names. Frames are renamed too, since those
  // of a graph that is imported twice are different.
  void PrefixNames(const OpDef& op, AttrMap* attrs) const {
    const auto prefix = [&](const char* attr) {
      auto it = attrs->find(attr);
      if (it == attrs->end()) return;
      if (const std::string* name = it->second.get<std::string>())
        it->second = AttrValue(Prefixed(*name));
    };
    for (const char* attr : kNamingAttrs) prefix(attr);
    // The variables of a scheduled body.
    if (op.name == "Schedule")
      if (auto it = attrs->find("parameters"); it != attrs->end())
        if (const auto* names = it->second.get<AttrValue::Strings>()) {
          AttrValue::Strings all = *names;
          for (std::string& name : all) name = Prefixed(name);
          it->second = AttrValue(std::move(all));
        }
    if (op.role != OpRole::kEnter) return;
    prefix("frame_name");
    auto frame = attrs->find("frame_name");
    if (renamed_.empty() || frame == attrs->end()) return;
    if (const std::string* name = frame->second.get<std::string>())
      frame->second = AttrValue(absl::StrCat(*name, "_", first_));
  }

  Status CloseCycles(int i) {
    const Pending& p = pending(i);
    const std::span<const Edge> from = inputs(i);
    for (size_t k = 0; k < from.size(); ++k) {
      const Edge& e = from[k];
      if (!e.back) continue;
      const Node* source = pending(e.source).node;
      if (e.index >= source->num_outputs())
        return At(i, InvalidArgument("input ", k, ": expected output 0 of '",
                                     source->name(), "', got ", e.index));
      SLUICE_RETURN_IF_ERROR(
          g_.SetBackEdge(p.node, static_cast<int>(k),
                         Output(pending(e.source).node, e.index)));
    }
    return OkStatus();
  }

  Status Return() {
    results_.nodes.reserve(nodes_.size());
    for (const Pending& p : nodes_) results_.nodes.push_back(p.node);
    for (const std::string& element : options_.return_elements) {
      SLUICE_ASSIGN_OR_RETURN(const InputName in, ParseInputName(element));
      Node* node = pending(index_.at(in.node)).node;
      if (element.find(':') == std::string::npos) {
        results_.return_nodes.push_back(node);
        continue;
      }
      if (const Output mapped = Mapped(in); mapped.valid()) {
        results_.return_outputs.push_back(mapped);
        continue;
      }
      if (in.index >= node->num_outputs())
        return NotFound("return element: expected ", ValidOutputs(*node),
                        " of ", node->Describe(), ", got '", element, "'");
      results_.return_outputs.emplace_back(node, in.index);
    }
    for (const auto& [key, output] : options_.input_map)
      if (!used_keys_.count(key)) results_.unused_input_map_keys.push_back(key);
    return OkStatus();
  }

  const GraphDefView& def_;
  const bool internal_;  // Accepts internal ops.
  Graph& g_;
  const ImportOptions& options_;
  ImportResults& results_;
  TensorProtoLimits limits_;  // The remaining limits.
  const LineTable lines_;
  const int first_;  // Nodes before the import.
  ControlFlowContext* context_ = nullptr;
  absl::flat_hash_map<std::string_view, int> index_;      // Name -> position.
  std::unordered_map<std::string, std::string> renamed_;  // Full names.
  std::vector<Pending> nodes_;                            // By position.
  std::vector<Edge> edges_, controls_;
  std::vector<Output> mapped_;  // What the caller's maps gave.
  std::set<std::string> used_keys_;
};

}  // namespace

Status ImportParsed(const proto::GraphDef& def, Graph& g,
                    const ImportOptions& options, ImportResults* results) {
  return Importer(GraphDefView(def), g, options, results, true).Run();
}

Status ImportGraphDef(std::string_view bytes, Graph& g,
                      const ImportOptions& options, ImportResults* results) {
  GraphDefView def;
  SLUICE_RETURN_IF_ERROR(def.Parse(bytes));
  ImportResults ignored;
  if (results == nullptr) results = &ignored;
  *results = {};
  std::lock_guard<std::recursive_mutex> lock(g.mutex());
  return Importer(def, g, options, results, options.internal_ops).Run();
}

}  // namespace sluice
