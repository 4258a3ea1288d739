#include "exec/plan.h"

#include <algorithm>
#include <map>

namespace sluice {

// Builds one plan. Steps: which frame each node runs in; numbers for nodes and
// slots; edges; counts; kernels.
class PlanBuilder {
 public:
  PlanBuilder(std::shared_ptr<const Graph> graph,
              const Plan::KernelProvider& kernels)
      : kernels_(kernels), plan_(new Plan), graph_(*graph) {
    plan_->graph_ = std::move(graph);
  }

  Result<std::shared_ptr<const Plan>> Build() {
    SLUICE_ASSIGN_OR_RETURN(order_, TopologicalOrder(graph_));
    info_.resize(order_.size());
    plan_->frames.emplace_back();
    for (Node* n : order_) SLUICE_RETURN_IF_ERROR(AssignFrame(*n));
    SLUICE_RETURN_IF_ERROR(CheckBackEdges());
    NumberNodes();
    NumberSlots();
    SLUICE_RETURN_IF_ERROR(ConnectInputs());
    ConnectEdges();
    CountTokens();
    SLUICE_RETURN_IF_ERROR(MakeKernels());
    return std::shared_ptr<const Plan>(std::move(plan_));
  }

 private:
  struct Info {
    int frame = 0;           // Where the node runs.
    int output_frame = 0;    // Where its consumers run.
    bool constant = false;   // A Const in the plan's table: does not run.
    uint32_t plan_index = 0;
  };
  Info& info(const Node* n) { return info_[static_cast<size_t>(n->id())]; }
  PlanFrame& frame(int f) { return plan_->frames[static_cast<size_t>(f)]; }
  PlanNode& plan_node(const Node* n) { return plan_->nodes[info(n).plan_index]; }

  static bool IsConstantEnter(const Node& n) {
    return n.op().role == OpRole::kEnter && n.BoolAttr("is_constant");
  }

  Status AssignFrame(const Node& n) {
    int f = 0;
    const Node* first = nullptr;
    auto meet = [&](const Node* from) {
      if (from == nullptr || info(from).constant) return OkStatus();
      // A back edge's source is assigned later; CheckBackEdges looks at it.
      if (from->op().role == OpRole::kNextIteration &&
          n.op().role == OpRole::kMerge)
        return OkStatus();
      if (first == nullptr) {
        first = from;
        f = info(from).output_frame;
      } else if (info(from).output_frame != f) {
        return InvalidArgument(
            "frames: expected all inputs from one frame, got '", first->name(),
            "' in '", frame(f).name, "' and '", from->name(), "' in '",
            frame(info(from).output_frame).name, "'; ", n.Describe());
      }
      return OkStatus();
    };
    for (const Output& in : n.inputs()) SLUICE_RETURN_IF_ERROR(meet(in.node));
    for (const Node* c : n.control_inputs()) SLUICE_RETURN_IF_ERROR(meet(c));

    Info& out = info(&n);
    out.frame = out.output_frame = f;
    switch (n.op().role) {
      case OpRole::kConst:
        out.constant = n.control_inputs().empty();
        break;
      case OpRole::kEnter: {
        SLUICE_ASSIGN_OR_RETURN(out.output_frame, ChildFrame(n, f));
        break;
      }
      case OpRole::kExit:
        if (f == 0)
          return InvalidArgument("Exit: expected to be inside a frame, got the "
                                 "root; ", n.Describe());
        out.output_frame = frame(f).parent;
        break;
      case OpRole::kNextIteration:
        if (f == 0)
          return InvalidArgument("NextIteration: expected to be inside a frame, "
                                 "got the root; ", n.Describe());
        break;
      default:
        break;
    }
    if (f != 0) plan_->has_control_flow = true;
    return OkStatus();
  }

  // Inputs of a node that come from constants of the plan have no frame; a node
  // with only such inputs runs in the root.
  Result<int> ChildFrame(const Node& enter, int parent) {
    SLUICE_ASSIGN_OR_RETURN(const std::string name,
                            enter.Attr<std::string>("frame_name"));
    const int64_t parallel = enter.IntAttr("parallel_iterations");
    if (parallel < 1)
      return InvalidArgument("parallel_iterations: expected at least 1, got ",
                             parallel, "; ", enter.Describe());
    auto [it, fresh] = frame_ids_.try_emplace(
        {parent, name}, static_cast<int>(plan_->frames.size()));
    if (fresh) {
      PlanFrame f;
      f.name = name;
      f.parent = parent;
      f.parallel_iterations =
          static_cast<uint32_t>(std::min<int64_t>(parallel, 1 << 20));
      f.index_in_parent = frame(parent).num_children++;
      frame(parent).children.push_back(it->second);
      plan_->frames.push_back(std::move(f));
      plan_->has_control_flow = true;
    } else if (frame(it->second).parallel_iterations !=
               std::min<int64_t>(parallel, 1 << 20)) {
      return InvalidArgument("parallel_iterations: expected ",
                             frame(it->second).parallel_iterations,
                             " as at the other Enters of frame '", name,
                             "', got ", parallel, "; ", enter.Describe());
    }
    ++frame(it->second).num_enters;
    return it->second;
  }

  Status CheckBackEdges() {
    for (const Node* n : order_) {
      if (n->op().role != OpRole::kMerge) continue;
      for (const Output& in : n->inputs()) {
        if (in.node == nullptr)
          return InvalidArgument("Merge: expected every input connected, got an "
                                 "open back edge; ", n->Describe());
        if (in.node->op().role == OpRole::kNextIteration &&
            info(in.node).frame != info(n).frame)
          return InvalidArgument(
              "frames: expected the NextIteration of a Merge in its frame '",
              frame(info(n).frame).name, "', got '", in.node->name(), "' in '",
              frame(info(in.node).frame).name, "'; ", n->Describe());
      }
    }
    return OkStatus();
  }

  void NumberNodes() {
    std::vector<std::vector<Node*>> by_frame(plan_->frames.size());
    for (Node* n : order_)
      if (!info(n).constant)
        by_frame[static_cast<size_t>(info(n).frame)].push_back(n);
    for (size_t f = 0; f < by_frame.size(); ++f) {
      PlanFrame& pf = plan_->frames[f];
      pf.first_node = static_cast<uint32_t>(plan_->nodes.size());
      for (Node* n : by_frame[f]) {
        info(n).plan_index = static_cast<uint32_t>(plan_->nodes.size());
        PlanNode p = {};
        p.node = n;
        p.role = n->op().role;
        p.local = pf.num_nodes++;
        if (p.role == OpRole::kMerge) {
          p.aux = static_cast<uint32_t>(pf.initial_merges.size());
          pf.initial_merges.emplace_back();
        }
        if (p.role == OpRole::kEnter)
          p.aux = frame(info(n).output_frame).index_in_parent;
        if (IsConstantEnter(*n)) p.flags |= PlanNode::kConstantEnter;
        // Control edges from both branches of a conditional may meet in one.
        if (n->op_name() == "ControlTrigger") p.flags |= PlanNode::kNeverDead;
        plan_->nodes.push_back(p);
      }
    }
    for (PlanNode& p : plan_->nodes)  // Addresses are final now.
      if (p.role == OpRole::kExit) {
        PlanFrame& pf = frame(info(p.node).frame);
        p.aux = static_cast<uint32_t>(pf.exits.size());
        pf.exits.push_back(&p);
      }
    for (PlanFrame& pf : plan_->frames) pf.later_merges = pf.initial_merges;
  }

  void NumberSlots() {
    for (Node* n : order_) {
      const auto outputs = static_cast<uint32_t>(n->num_outputs());
      if (info(n).constant) {
        constant_slots_[n] = static_cast<uint32_t>(plan_->constants.size());
        plan_->constants.push_back(n->AttrOr<Tensor>("value", Tensor()));
        continue;
      }
      PlanNode& p = plan_node(n);
      PlanFrame& target = frame(info(n).output_frame);
      uint32_t& next = (p.flags & PlanNode::kConstantEnter) != 0
                           ? target.num_constant_slots
                           : target.num_slots;
      p.first_output = next;
      p.num_outputs = outputs;
      next += outputs;
      if (p.role == OpRole::kConst) {  // Ordered by control edges: runs.
        p.aux = static_cast<uint32_t>(plan_->constants.size());
        plan_->constants.push_back(n->AttrOr<Tensor>("value", Tensor()));
      }
    }
    for (PlanFrame& f : plan_->frames) f.slot_uses.resize(f.num_slots, 0);
  }

  InputRef RefTo(const Output& o) {
    if (info(o.node).constant)
      return {InputRef::kPlan, constant_slots_.at(o.node)};
    const PlanNode& p = plan_node(o.node);
    const uint32_t slot = p.first_output + static_cast<uint32_t>(o.index);
    return {(p.flags & PlanNode::kConstantEnter) != 0 ? InputRef::kFrame
                                                      : InputRef::kIteration,
            slot};
  }

  Status ConnectInputs() {
    for (PlanNode& p : plan_->nodes) {
      const Node& n = *p.node;
      p.first_input = static_cast<uint32_t>(plan_->inputs.size());
      p.num_inputs = static_cast<uint32_t>(n.num_inputs());
      p.first_read = static_cast<uint32_t>(plan_->reads.size());
      for (int i = 0; i < n.num_inputs(); ++i) {
        const Output& in = n.input(i);
        InputRef ref = RefTo(in);
        if (ref.table == InputRef::kIteration)
          ++frame(info(&n).frame).slot_uses[ref.index];
        // A value is wanted where a reference comes: read when the node starts.
        if (IsRef(in.dtype()) && !IsRef(n.input_type(i))) {
          if (p.role == OpRole::kMerge)
            return InvalidArgument("Merge: expected values, got a reference from '",
                                   in.name(), "'; ", n.Describe());
          plan_->reads.push_back(ref);
          ref = {InputRef::kLocal, p.num_reads};
          if (++p.num_reads == UINT16_MAX)
            return InvalidArgument("inputs: expected fewer than ", UINT16_MAX,
                                   " variables, got more; ", n.Describe());
        }
        plan_->inputs.push_back(ref);
      }
      if (p.role == OpRole::kArg || p.role == OpRole::kRetval) {
        p.aux = static_cast<uint32_t>(n.IntAttr("index"));
        auto& list = p.role == OpRole::kArg ? plan_->args : plan_->retvals;
        if (list.size() <= p.aux) list.resize(p.aux + 1, nullptr);
        list[p.aux] = &p;
      }
    }
    return OkStatus();
  }

  void ConnectEdges() {
    std::vector<std::vector<PlanEdge>> out(plan_->nodes.size());
    for (const PlanNode& p : plan_->nodes) {
      for (int i = 0; i < p.node->num_inputs(); ++i) {
        const Output& in = p.node->input(i);
        if (info(in.node).constant) continue;
        out[info(in.node).plan_index].push_back(
            {p.local, in.node->op().role == OpRole::kSwitch ? in.index : -1,
             p.role == OpRole::kMerge ? i : -1});
      }
      for (const Node* c : p.node->control_inputs())
        if (!info(c).constant)
          out[info(c).plan_index].push_back(
              {p.local, -1,
               p.role == OpRole::kMerge ? PlanEdge::kMergeControl : -1});
    }
    for (size_t i = 0; i < out.size(); ++i) {
      plan_->nodes[i].first_edge = static_cast<uint32_t>(plan_->edges.size());
      plan_->nodes[i].num_edges = static_cast<uint32_t>(out[i].size());
      plan_->edges.insert(plan_->edges.end(), out[i].begin(), out[i].end());
    }
  }

  void CountTokens() {
    for (PlanFrame& f : plan_->frames) f.initial_pending.resize(f.num_nodes, 0);
    for (const PlanNode& p : plan_->nodes) {
      const Node& n = *p.node;
      PlanFrame& f = frame(info(&n).frame);
      uint32_t pending = 0;
      for (const Node* c : n.control_inputs())
        if (!info(c).constant) ++pending;
      if (p.role == OpRole::kMerge) {
        // Ready after its control inputs and either one live data input or all
        // the dead ones that can come in this iteration: in the first those
        // from outside, later those of NextIteration.
        ++pending;
        uint32_t back = 0;
        bool always_live = false;
        for (const Output& in : n.inputs()) {
          if (in.node->op().role == OpRole::kNextIteration) ++back;
          if (info(in.node).constant) always_live = true;
        }
        const auto all = static_cast<uint32_t>(n.num_inputs());
        f.initial_merges[p.aux].dead_left = all - back;
        f.later_merges[p.aux].dead_left = back > 0 ? back : all;
        if (always_live) {  // A constant is a token that came long ago.
          int32_t chosen = 0;
          while (!info(n.input(chosen).node).constant) ++chosen;
          f.initial_merges[p.aux].chosen = chosen;
          f.later_merges[p.aux].chosen = chosen;
          --pending;
        }
      } else {
        for (const Output& in : n.inputs())
          if (!info(in.node).constant) ++pending;
      }
      f.initial_pending[p.local] = pending;
      if (pending == 0 && p.role != OpRole::kArg) f.sources.push_back(p.local);
    }
  }

  Status MakeKernels() {
    plan_->cost.reset(new std::atomic<uint32_t>[plan_->nodes.size()]());
    for (PlanNode& p : plan_->nodes) {
      if (p.role != OpRole::kCompute) continue;
      std::shared_ptr<Kernel> k;
      if (Status s = kernels_(*p.node, &k); !s.ok())
        return Status(s.code(),
                      absl::StrCat(s.message(), "; ", p.node->Describe()));
      p.state = k->state.get();
      if (k->run_async != nullptr) {
        p.run_async = k->run_async;
        p.flags |= PlanNode::kAsync;
      } else {
        p.run = k->run;
      }
      if (k->expensive) p.flags |= PlanNode::kExpensive;
      plan_->kernels_.push_back(std::move(k));
    }
    return OkStatus();
  }

  const Plan::KernelProvider& kernels_;
  std::unique_ptr<Plan> plan_;
  const Graph& graph_;
  std::vector<Node*> order_;
  std::vector<Info> info_;
  std::map<std::pair<int, std::string>, int> frame_ids_;
  std::map<const Node*, uint32_t> constant_slots_;
};

Result<std::shared_ptr<const Plan>> Plan::Build(
    std::shared_ptr<const Graph> graph, const KernelProvider& kernels) {
  return PlanBuilder(std::move(graph), kernels).Build();
}

}  // namespace sluice
