#include "exec/fusion/regions.h"

#include <algorithm>
#include <map>

#include "graph/graph.h"
#include "graph/shape_context.h"

namespace sluice {
namespace {

// A region of fewer nodes with kernels than this has no benefit.
constexpr int kFewestNodes = 2;

Status RegionShape(ShapeContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i)
    c.set_output(i, PartialShape::Unknown());
  return OkStatus();
}

[[maybe_unused]] const OpRegistrar region_op =
    OpDefBuilder("_Region")
        .Input("inputs: Tin")
        .Output("outputs: Tout")
        .Attr("Tin: list(type) >= 0")
        .Attr("Tout: list(type) >= 0")
        .Stateful()
        .Family("control_flow")
        .Shape(RegionShape)
        .NoGradient("made when a step is compiled")
        .Doc("Nodes whose order was planned ahead, run as one.");

class RegionBuilder {
 public:
  RegionBuilder(Graph* graph, RegionStructure& structure)
      : graph_(graph), s_(structure) {}

  Result<FormedRegions> Build() {
    FindConsumers();
    for (int f = 0; f < s_.num_frames(); ++f) {
      const RegionFrame& frame = s_.frame(f);
      if (!frame.well_formed || frame.whole) continue;
      // Units under one guard that wait for the same slow ones.
      std::map<std::pair<int, std::vector<int>>, std::vector<int>> groups;
      for (int u : frame.order) {
        const RegionUnit& unit = s_.unit(f, u);
        if (unit.kind == RegionUnit::kChild) {
          if (s_.frame(unit.child).whole)
            SLUICE_RETURN_IF_ERROR(Replace(f, {u}, /*held=*/false));
        } else if (IsMember(unit)) {
          groups[{unit.guard, unit.slow}].push_back(u);
        }
      }
      for (auto& [key, units] : groups) {
        // What is held waits for company; what does not depend on it runs at
        // once.
        const auto after_held = std::stable_partition(
            units.begin(), units.end(),
            [&](int u) { return !s_.unit(f, u).after_held; });
        SLUICE_RETURN_IF_ERROR(
            ReplaceGroup(f, {units.begin(), after_held}, /*held=*/false));
        SLUICE_RETURN_IF_ERROR(
            ReplaceGroup(f, {after_held, units.end()}, /*held=*/true));
      }
    }
    return std::move(formed_);
  }

 private:
  struct Consumer {
    Node* node;
    int input;  // -1: a control edge.
  };

  Status ReplaceGroup(int f, const std::vector<int>& units, bool held) {
    const auto with_kernel = std::count_if(
        units.begin(), units.end(),
        [&](int u) { return s_.unit(f, u).kind == RegionUnit::kCheap; });
    return with_kernel < kFewestNodes ? OkStatus() : Replace(f, units, held);
  }

  static bool IsMember(const RegionUnit& u) {
    if (u.kind == RegionUnit::kCheap) return true;
    if (u.kind != RegionUnit::kFree) return false;
    const OpRole role = u.node->op().role;
    return role == OpRole::kNoOp
               ? u.node->kind() == OpKind::kOther
               : role == OpRole::kIdentity && !IsAlias(*u.node);
  }

  void FindConsumers() {
    consumers_.resize(graph_->nodes().size());
    for (const auto& n : graph_->nodes()) {
      for (int i = 0; i < n->num_inputs(); ++i)
        if (n->input(i).valid())
          consumers_[Id(n->input(i).node)].push_back({n.get(), i});
      for (Node* c : n->control_inputs())
        consumers_[Id(c)].push_back({n.get(), -1});
    }
  }
  static size_t Id(const Node* n) { return static_cast<size_t>(n->id()); }

  // The nodes of a unit, including those of its loops.
  void Gather(int f, int u, std::vector<Node*>* nodes) {
    const RegionUnit& unit = s_.unit(f, u);
    if (unit.child < 0) {
      nodes->push_back(const_cast<Node*>(unit.node));
      return;
    }
    for (const Node* e : s_.frames()[unit.child].enters)
      nodes->push_back(const_cast<Node*>(e));
    for (int child : s_.frame(unit.child).order)
      Gather(unit.child, child, nodes);
  }

  // Whether a node outside the region reads the value that this consumer
  // forwards.
  bool IsOutside(const Consumer& c, const std::set<const Node*>& inside) const {
    if (replaced_.count(c.node) > 0 || inside.count(c.node) > 0) return false;
    if (c.input < 0 || !IsAlias(*c.node)) return true;
    const std::vector<Consumer>& next = consumers_[Id(c.node)];
    return std::any_of(next.begin(), next.end(),
                       [&](const Consumer& n) { return IsOutside(n, inside); });
  }

  // The edges into a region that only order it.
  std::vector<Node*> ControlInputs(const std::vector<Node*>& nodes,
                                   const std::set<const Node*>& inside) const {
    std::vector<Node*> control;
    std::set<const Node*> have;
    // Constants are part of the program, but their control inputs are not.
    // These may be other constants, with control inputs in turn, and even nodes
    // of the region.
    std::vector<const Node*> constants;
    auto add = [&](Node* c) {
      const Node* from = IsAlias(*c) ? ResolveAlias(c->input(0)).node : c;
      const bool constant = from->op().role == OpRole::kConst;
      if (inside.count(from) != 0 || !have.insert(constant ? from : c).second)
        return;
      if (constant)
        constants.push_back(from);
      else
        control.push_back(c);
    };
    for (const Node* n : nodes) {
      for (Node* c : n->control_inputs()) add(c);
      for (const Output& in : n->inputs()) {
        const Node* from = ResolveAlias(in).node;
        if (from->op().role == OpRole::kConst && inside.count(from) == 0)
          for (Node* c : from->control_inputs()) add(c);
      }
    }
    while (!constants.empty()) {
      const Node* n = constants.back();
      constants.pop_back();
      for (Node* c : n->control_inputs()) add(c);
    }
    return control;
  }

  Status Replace(int f, const std::vector<int>& units, bool held) {
    std::vector<Node*> nodes;
    for (int u : units) Gather(f, u, &nodes);
    const std::set<const Node*> inside(nodes.begin(), nodes.end());
    struct Reader {
      Consumer consumer;
      int output;   // Region output; or, for a control edge,
      Node* after;  // its source node.
    };
    std::vector<Output> outputs;
    std::vector<Reader> readers;
    OutputMap<int> numbers;
    for (Node* n : nodes)
      for (const Consumer& c : consumers_[Id(n)]) {
        if (!IsOutside(c, inside)) continue;
        int number = -1;
        if (c.input >= 0) {
          const Output o = c.node->input(c.input);
          number = numbers.try_emplace(o, static_cast<int>(outputs.size()))
                       .first->second;
          if (static_cast<size_t>(number) == outputs.size())
            outputs.push_back(o);
        }
        readers.push_back({c, number, n});
      }
    CompiledRegion region = CompileRegion(s_, f, units, outputs);
    if (region.program == nullptr) return OkStatus();
    const bool expensive =
        held && std::any_of(units.begin(), units.end(), [&](int u) {
          const RegionUnit& unit = s_.unit(f, u);
          return unit.is_held && unit.kernel->expensive;
        });
    SLUICE_ASSIGN_OR_RETURN(Node * made,
                            Add(*nodes.front(), region, outputs,
                                ControlInputs(nodes, inside), expensive));
    for (const Reader& r : readers) {
      if (r.output >= 0) {
        SLUICE_RETURN_IF_ERROR(graph_->ReplaceInput(
            r.consumer.node, r.consumer.input, Output(made, r.output)));
      } else {
        graph_->ReplaceControlInput(r.consumer.node, r.after, made);
      }
      consumers_[Id(made)].push_back(r.consumer);
    }
    replaced_.insert(nodes.begin(), nodes.end());
    if (held) formed_.held.push_back({made, std::move(region)});
    return OkStatus();
  }

  // `expensive`: besides what loops say.
  Result<Node*> Add(const Node& first, const CompiledRegion& region,
                    const std::vector<Output>& outputs,
                    std::vector<Node*> control, bool expensive) {
    NodeSpec spec;
    spec.op = "_Region";
    spec.name = graph_->UniqueName(absl::StrCat("region/", first.name()));
    spec.device = first.device();
    spec.loc = first.loc();
    AttrValue::Types in, out;
    for (const Output& i : region.inputs) in.push_back(RemoveRef(i.dtype()));
    for (const Output& o : outputs) out.push_back(RemoveRef(o.dtype()));
    spec.attrs["Tin"] = AttrValue(std::move(in));
    spec.attrs["Tout"] = AttrValue(std::move(out));
    spec.inputs = region.inputs;
    spec.control_inputs = std::move(control);
    SLUICE_ASSIGN_OR_RETURN(Node * made, graph_->AddNode(std::move(spec)));
    consumers_.resize(graph_->nodes().size());
    for (int i = 0; i < made->num_inputs(); ++i)
      consumers_[Id(made->input(i).node)].push_back({made, i});
    for (const Node* c : made->control_inputs())
      consumers_[Id(c)].push_back({made, -1});
    for (size_t i = 0; i < outputs.size(); ++i)
      SLUICE_RETURN_IF_ERROR(graph_->SetShape(Output(made, static_cast<int>(i)),
                                              outputs[i].shape()));
    auto kernel = std::make_shared<Kernel>();
    kernel->state = region.program;
    kernel->run = [](KernelContext& ctx) {
      return ctx.state<RegionProgram>().Run(ctx);
    };
    kernel->expensive = !region.program->loops.empty() || expensive;
    formed_.kernels[made] = std::move(kernel);
    return made;
  }

  Graph* graph_;
  RegionStructure& s_;
  std::vector<std::vector<Consumer>> consumers_;  // By node.
  std::set<const Node*> replaced_;  // Nodes that a region replaces.
  FormedRegions formed_;
};

}  // namespace

Result<FormedRegions> FormRegions(Graph* graph,
                                  const RegionStructure::KernelSource& kernels,
                                  const std::set<const Node*>& keep,
                                  const std::set<const Node*>& held) {
  SLUICE_ASSIGN_OR_RETURN(
      std::unique_ptr<RegionStructure> structure,
      RegionStructure::Analyse(*graph, kernels, keep, held));
  return RegionBuilder(graph, *structure).Build();
}

}  // namespace sluice
