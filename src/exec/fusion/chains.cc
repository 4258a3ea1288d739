#include "exec/fusion/chains.h"

#include <algorithm>
#include <map>

#include "exec/core/checked_kernel.h"
#include "exec/fusion/chain_program.h"
#include "graph/graph.h"
#include "graph/shape_context.h"

namespace sluice {
namespace {

// Filled by static initialisers, in any order.
std::vector<BlockFormFinder>& Finders() {
  static auto* finders = new std::vector<BlockFormFinder>;
  return *finders;
}

Status ChainShape(ShapeContext& c) {
  for (int i = 0; i < c.num_outputs(); ++i)
    c.set_output(i, PartialShape::Unknown());
  return OkStatus();
}

[[maybe_unused]] const OpRegistrar chain_op =
    OpDefBuilder("_Chain")
        .Input("inputs: Tin")
        .Output("outputs: Tout")
        .Attr("Tin: list(type) >= 0")
        .Attr("Tout: list(type) >= 1")
        .Family("math")
        .Shape(ChainShape)
        .Kernel([](const Node&, Kernel*) {
          return Unimplemented("chain: expected one made for a plan");
        })
        .NoGradient("made when a step is compiled")
        .Doc("Elementwise ops that run as one, block by block.");

// Up to this size nodes are cheaper in a region, where they may be in
// registers.
constexpr int64_t kSmallElements = 8192;
// The name of a chain lists at most this many of its ops.
constexpr size_t kMaxNamesShown = 8;

class ChainBuilder {
 public:
  ChainBuilder(Graph* graph, const RegionStructure::KernelSource& kernels,
               const std::set<const Node*>& keep)
      : graph_(graph), kernels_(kernels), keep_(keep) {}

  Result<RegionKernels> Build() {
    const size_t size = graph_->nodes().size();
    SLUICE_ASSIGN_OR_RETURN(order_, TopologicalOrder(*graph_));
    members_.resize(size);
    int found = 0;
    for (const auto& n : graph_->nodes()) found += FindMember(*n);
    if (found < 2) return RegionKernels();
    SLUICE_RETURN_IF_ERROR(FindGuards());
    FindReaders();
    FindWaits();
    FindLevels();
    // Chains by their first node, in order.
    std::map<size_t, std::vector<Node*>> chains;
    root_.resize(size);
    for (size_t i = 0; i < size; ++i) root_[i] = i;
    for (Node* n : order_)
      for (const Output& in : n->inputs())
        if (in.valid() && Joins(Resolved(in), *n))
          root_[Root(Id(n))] = Root(Source(in));
    for (Node* n : order_)
      if (members_[Id(n)].kernel != nullptr) chains[Root(Id(n))].push_back(n);
    for (const auto& [root, nodes] : chains)
      for (size_t i = 0; i < nodes.size(); i += ChainProgram::kMaxChainNodes)
        SLUICE_RETURN_IF_ERROR(Replace(
            {nodes.begin() + static_cast<ptrdiff_t>(i),
             nodes.begin() +
                 static_cast<ptrdiff_t>(std::min(
                     nodes.size(), i + ChainProgram::kMaxChainNodes))}));
    return std::move(made_);
  }

 private:
  static constexpr int kControl = -1;
  struct Member {
    std::shared_ptr<Kernel> kernel;  // Null: not a member.
    BlockForm form;
    int guard = 0, frame = 0, level = 0;
  };
  struct Reader {
    Node* node;
    int input;  // Or kControl.
  };

  static size_t Id(const Node* n) { return static_cast<size_t>(n->id()); }
  static Output Resolved(const Output& o) { return ResolveAlias(o); }
  static size_t Source(const Output& o) { return Id(Resolved(o).node); }
  size_t Root(size_t i) {
    while (root_[i] != i) i = root_[i] = root_[root_[i]];
    return i;
  }

  bool FindMember(const Node& n) {
    if (n.op().role != OpRole::kCompute || !n.op().kernel ||
        !n.op().facts.pure() || n.num_outputs() != 1 || n.num_inputs() < 1 ||
        n.num_inputs() > 3 || !n.control_inputs().empty() ||
        keep_.count(&n) > 0 || IsRef(n.output_type(0)) ||
        !IsPlain(n.output_type(0)))
      return false;
    for (const Output& in : n.inputs())
      if (!in.valid() || IsRef(in.dtype()) || !IsPlain(in.dtype()))
        return false;
    const int64_t elements = n.output_shape(0).num_elements();
    if (elements >= 0 && elements <= kSmallElements) return false;
    Result<std::shared_ptr<Kernel>> kernel = kernels_(n);
    if (!kernel.ok() || *kernel == nullptr || (*kernel)->run == nullptr)
      return false;
    const std::optional<BlockForm> form = FindBlockForm(n, Unchecked(**kernel));
    if (!form) return false;
    Member& m = members_[Id(&n)];
    m.kernel = *std::move(kernel);
    m.form = *form;
    return true;
  }

  // In which frame each member is, and when it is live.
  Status FindGuards() {
    const bool flat =
        std::none_of(order_.begin(), order_.end(), [](const Node* n) {
          const OpRole role = n->op().role;
          return role == OpRole::kSwitch || role == OpRole::kEnter ||
                 role == OpRole::kCall;
        });
    if (flat) return OkStatus();
    const auto nothing = [](const Node&) -> Result<std::shared_ptr<Kernel>> {
      return std::shared_ptr<Kernel>();
    };
    SLUICE_ASSIGN_OR_RETURN(
        structure_, RegionStructure::Analyse(*graph_, nothing, keep_, {}));
    for (const auto& n : graph_->nodes()) {
      Member& m = members_[Id(n.get())];
      if (m.kernel == nullptr) continue;
      m.frame = structure_->frame_of(n.get());
      const int unit = structure_->unit_of(n.get());
      if (!structure_->frame(m.frame).well_formed || unit < 0) {
        m.kernel = nullptr;
        continue;
      }
      m.guard = structure_->unit(m.frame, unit).guard;
    }
    return OkStatus();
  }

  void FindReaders() {
    readers_.resize(graph_->nodes().size());
    users_.resize(graph_->nodes().size());
    for (const auto& n : graph_->nodes()) {
      for (int i = 0; i < n->num_inputs(); ++i) {
        if (!n->input(i).valid()) continue;
        readers_[Id(n->input(i).node)].push_back({n.get(), i});
        if (!IsAlias(*n)) users_[Source(n->input(i))].push_back({n.get(), i});
      }
      for (const Node* c : n->control_inputs()) {
        readers_[Id(c)].push_back({n.get(), kControl});
        const Node* from = IsAlias(*c) ? Resolved(c->input(0)).node : c;
        users_[Id(from)].push_back({n.get(), kControl});
      }
    }
  }

  // Whether some node may wait for another one without an edge between them (a
  // transfer, a lock): then a chain must not delay a result until the inputs of
  // another one are available.
  void FindWaits() {
    for (const Node* n : order_) {
      if (n->op().role == OpRole::kRecv) waits_ = true;
      if (waits_ || n->op().role != OpRole::kCompute || !n->op().kernel ||
          members_[Id(n)].kernel != nullptr)
        continue;
      Result<std::shared_ptr<Kernel>> kernel = kernels_(*n);
      waits_ =
          kernel.ok() && *kernel != nullptr && (*kernel)->run_async != nullptr;
    }
  }

  // Whether the edge from `from` to `to` may be within a chain, if they have
  // the same level.
  bool MayJoin(const Output& from, const Node& to) const {
    const Member &a = members_[Id(from.node)], &b = members_[Id(&to)];
    if (a.kernel == nullptr || b.kernel == nullptr || a.frame != b.frame ||
        a.guard != b.guard || from.node->device() != to.device())
      return false;
    if (waits_)  // All results have one reader.
      for (const Reader& r : users_[Id(from.node)])
        if (r.node != &to || r.input == kControl) return false;
    // If the shapes are known to differ, the smaller one must come first.
    const int64_t x = from.shape().num_elements();
    const int64_t y = to.output_shape(0).num_elements();
    return x < 0 || y < 0 || x == y;
  }
  bool Joins(const Output& from, const Node& to) const {
    return MayJoin(from, to) &&
           members_[Id(from.node)].level == members_[Id(&to)].level;
  }
  // Whether an edge of a path stays within a chain, as far as is known. (Nodes
  // that only forward a value are in the chain.)
  bool StaysWithin(const Node* from, const Node* to) const {
    if (from == nullptr || to == nullptr) return false;
    return IsAlias(*to) ||
           MayJoin(Resolved(Output(const_cast<Node*>(from), 0)), *to);
  }

  // The level of a node is the maximum number of times that a path from it to
  // the end leaves a chain. No path between two members of one level passes
  // through nodes outside of their chain, so chains of one level never form a
  // cycle. A node whose readers are all in a chain is in it too, whatever else
  // they wait for. A loop counts as one node of the frame that contains it.
  void FindLevels() {
    if (structure_ == nullptr) {
      for (auto it = order_.rbegin(); it != order_.rend(); ++it) {
        const int level = members_[Id(*it)].level;
        const auto see = [&](const Node* from) {
          int& other = members_[Id(from)].level;
          other = std::min(other, level - (StaysWithin(from, *it) ? 0 : 1));
        };
        for (const Output& in : (*it)->inputs()) see(in.node);
        for (const Node* c : (*it)->control_inputs()) see(c);
      }
      return;
    }
    for (int f = 0; f < structure_->num_frames(); ++f) {
      const RegionFrame& frame = structure_->frame(f);
      std::vector<int> levels(frame.units.size());
      for (auto it = frame.order.rbegin(); it != frame.order.rend(); ++it) {
        const RegionUnit& u = structure_->unit(f, *it);
        const int level = levels[static_cast<size_t>(*it)];
        if (u.node != nullptr) members_[Id(u.node)].level = level;
        for (int d : u.deps) {
          int& other = levels[static_cast<size_t>(d)];
          const bool within = StaysWithin(structure_->unit(f, d).node, u.node);
          other = std::min(other, level - (within ? 0 : 1));
        }
      }
    }
  }

  Status Replace(const std::vector<Node*>& nodes) {
    if (nodes.size() < 2) return OkStatus();
    std::vector<ChainProgram::Instr> instrs;
    std::vector<Output> inputs;
    std::vector<DType> types;
    std::map<const Node*, int> number;  // Instruction number.
    for (size_t i = 0; i < nodes.size(); ++i)
      number[nodes[i]] = static_cast<int>(i);
    // The chain's inputs come first.
    std::vector<std::vector<int>> in(nodes.size());  // Instructions: ~number.
    for (size_t i = 0; i < nodes.size(); ++i)
      for (const Output& o : nodes[i]->inputs()) {
        const Output from = Resolved(o);
        if (auto it = number.find(from.node); it != number.end()) {
          in[i].push_back(~it->second);
          continue;
        }
        const size_t place = IndexOf(inputs, from);
        if (place == inputs.size()) inputs.push_back(from);
        in[i].push_back(static_cast<int>(place));
      }
    if (inputs.size() > ChainProgram::kMaxInputs) return OkStatus();
    for (const Output& o : inputs) types.push_back(RemoveRef(o.dtype()));
    const auto first = static_cast<int>(inputs.size());
    bool expensive = false;
    for (size_t i = 0; i < nodes.size(); ++i) {
      const Member& m = members_[Id(nodes[i])];
      ChainProgram::Instr& instr = instrs.emplace_back();
      instr.node = nodes[i];
      instr.kernel = m.kernel;
      instr.state = Unchecked(*m.kernel).state.get();
      instr.form = m.form;
      instr.num_inputs = nodes[i]->num_inputs();
      instr.type = nodes[i]->output_type(0);
      for (size_t k = 0; k < in[i].size(); ++k)
        instr.in[k] = in[i][k] < 0 ? first + ~in[i][k] : in[i][k];
      expensive = expensive || m.kernel->expensive;
    }
    std::vector<int> outputs;
    std::vector<std::pair<Reader, int>> outside;  // And the output read.
    std::vector<std::pair<Reader, Node*>> after;
    for (size_t i = 0; i < nodes.size(); ++i) {
      const size_t before = outside.size();
      FindOutside(nodes[i], number, static_cast<int>(outputs.size()), &outside,
                  &after);
      if (outside.size() > before)
        outputs.push_back(first + static_cast<int>(i));
    }
    if (outputs.empty()) return OkStatus();
    SLUICE_ASSIGN_OR_RETURN(Node * made, Add(nodes, inputs, types, outputs));
    for (const auto& [r, output] : outside)
      SLUICE_RETURN_IF_ERROR(
          graph_->ReplaceInput(r.node, r.input, Output(made, output)));
    for (const auto& [r, node] : after)
      graph_->ReplaceControlInput(r.node, node, made);
    auto kernel = std::make_shared<Kernel>();
    kernel->state = std::make_shared<ChainProgram>(
        std::move(instrs), std::move(types), std::move(outputs));
    kernel->run = [](KernelContext& ctx) {
      return ctx.state<const ChainProgram>().Run(ctx);
    };
    kernel->expensive = expensive;
    made_[made] = std::move(kernel);
    return OkStatus();
  }

  // The readers of a node, or of nodes that forward its value, outside the
  // chain.
  void FindOutside(Node* n, const std::map<const Node*, int>& inside,
                   int output, std::vector<std::pair<Reader, int>>* outside,
                   std::vector<std::pair<Reader, Node*>>* after) {
    for (const Reader& r : readers_[Id(n)]) {
      if (inside.count(r.node) > 0) continue;
      if (r.input == kControl)
        after->push_back({r, n});
      else if (IsAlias(*r.node) && r.node->op().role != OpRole::kLoopCond &&
               keep_.count(r.node) == 0)  // (A loop: by its condition.)
        FindOutside(r.node, inside, output, outside, after);
      else
        outside->push_back({r, output});
    }
  }

  Result<Node*> Add(const std::vector<Node*>& nodes,
                    const std::vector<Output>& inputs,
                    const std::vector<DType>& types,
                    const std::vector<int>& outputs) {
    const Node& last = *nodes.back();
    NodeSpec spec;
    spec.op = "_Chain";
    std::string name = last.name() + "/";
    for (size_t i = 0; i < nodes.size() && i < kMaxNamesShown; ++i)
      absl::StrAppend(&name, i == 0 ? "" : "-", nodes[i]->op_name());
    if (nodes.size() > kMaxNamesShown)
      absl::StrAppend(&name, "-and-", nodes.size() - kMaxNamesShown, "-more");
    spec.name = graph_->UniqueName(name);
    spec.device = last.device();
    spec.loc = last.loc();
    AttrValue::Types out;
    for (int v : outputs)
      out.push_back(
          nodes[static_cast<size_t>(v) - inputs.size()]->output_type(0));
    spec.attrs["Tin"] = AttrValue(AttrValue::Types(types.begin(), types.end()));
    spec.attrs["Tout"] = AttrValue(std::move(out));
    spec.inputs = inputs;
    SLUICE_ASSIGN_OR_RETURN(Node * made, graph_->AddNode(std::move(spec)));
    readers_.resize(graph_->nodes().size());
    for (int i = 0; i < made->num_inputs(); ++i)
      readers_[Id(made->input(i).node)].push_back({made, i});
    for (size_t o = 0; o < outputs.size(); ++o)
      SLUICE_RETURN_IF_ERROR(graph_->SetShape(
          Output(made, static_cast<int>(o)),
          nodes[static_cast<size_t>(outputs[o]) - inputs.size()]->output_shape(
              0)));
    return made;
  }

  Graph* const graph_;
  const RegionStructure::KernelSource& kernels_;
  const std::set<const Node*>& keep_;
  std::vector<Node*> order_;
  std::vector<Member> members_;  // By id; the level is that of any node.
  std::vector<std::vector<Reader>> readers_;  // By id.
  // The same, past nodes that only forward a value.
  std::vector<std::vector<Reader>> users_;
  bool waits_ = false;
  // Null: there are neither loops nor conditionals nor calls.
  std::unique_ptr<RegionStructure> structure_;
  std::vector<size_t> root_;  // By id: union-find parent.
  RegionKernels made_;
};

}  // namespace

BlockFormRegistrar::BlockFormRegistrar(BlockFormFinder finder) {
  Finders().push_back(finder);
}

std::optional<BlockForm> FindBlockForm(const Node& n, const Kernel& k) {
  for (const BlockFormFinder finder : Finders())
    if (std::optional<BlockForm> form = finder(n, k)) return form;
  return std::nullopt;
}

Result<RegionKernels> FormChains(Graph* graph,
                                 const RegionStructure::KernelSource& kernels,
                                 const std::set<const Node*>& keep) {
  return ChainBuilder(graph, kernels, keep).Build();
}

}  // namespace sluice
