#include "exec/core/plan.h"

#include <algorithm>
#include <map>

#include "exec/core/ready_stage.h"
#include "graph/frames.h"
#include "graph/graph.h"
#include "graph/tensor_store_info.h"

namespace sluice {

absl::uint128 NameHash(std::string_view name) {
  constexpr absl::uint128 kPrime = absl::MakeUint128(0x1000000u, 0x13bu);
  absl::uint128 h = absl::MakeUint128(0x6c62272e07bb0142u, 0x62b821756295c58du);
  for (const char c : name) h = (h ^ static_cast<unsigned char>(c)) * kPrime;
  return h;
}

// Builds one plan. Steps: frames; which nodes run; numbers for nodes and slots;
// edges; counts; kernels.
class PlanBuilder {
 public:
  PlanBuilder(std::shared_ptr<const Graph> graph,
              const Plan::KernelProvider& kernels,
              std::shared_ptr<ReadyStageMaker> stage)
      : kernels_(kernels),
        stage_(std::move(stage)),
        plan_(new Plan),
        graph_(*graph) {
    plan_->graph_ = std::move(graph);
  }

  Result<std::shared_ptr<const Plan>> Build() {
    SLUICE_ASSIGN_OR_RETURN(order_, TopologicalOrder(graph_));
    info_.resize(order_.size());
    SLUICE_ASSIGN_OR_RETURN(Frames frames, Frames::Of(graph_, order_));
    frames_ = &frames;
    SLUICE_RETURN_IF_ERROR(frames.CheckBackEdges(order_));
    SLUICE_RETURN_IF_ERROR(MakeFrames());
    DecideWhatRuns();
    SLUICE_RETURN_IF_ERROR(NumberNodes());
    FindConstantArguments();
    NumberSlots();
    SLUICE_RETURN_IF_ERROR(ConnectInputs());
    SLUICE_RETURN_IF_ERROR(CheckCalls());
    ConnectEdges();
    CountTokens();
    SLUICE_RETURN_IF_ERROR(MakeKernels());
    return std::shared_ptr<const Plan>(std::move(plan_));
  }

 private:
  struct Info {
    bool runs = true;
    uint32_t child = 0;       // Call: index among the children.
    uint32_t plan_index = 0;  // For nodes that run.
    uint32_t constant = 0;    // Slot of a Const in the plan's table.
  };
  Info& info(const Node* n) { return info_[static_cast<size_t>(n->id())]; }
  // Numbered as in frames_.
  PlanFrame& frame(int f) { return plan_->frames[static_cast<size_t>(f)]; }
  PlanFrame& frame_of(const Node* n) { return frame(frames_->frame_of(n)); }
  PlanFrame& output_frame(const Node* n) {
    return frame(frames_->output_frame(n));
  }
  PlanNode& plan_node(const Node* n) {
    return plan_->nodes[info(n).plan_index];
  }

  static constexpr int64_t kMaxParallelIterations = 1 << 20;

  static bool IsConst(const Node& n) { return n.op().role == OpRole::kConst; }

  // The source from which `consumer` reads `o`. An Identity of a variable takes
  // a snapshot when it runs; but a consumer with its own control inputs reads
  // the value as it is after them ("update, then average the new values").
  static Output Source(const Node& consumer, Output o) {
    o = ResolveAlias(o);
    if (consumer.control_inputs().empty() ||
        consumer.op().role == OpRole::kMerge)
      return o;
    while (o.node->op().role == OpRole::kIdentity &&
           o.node->control_inputs().empty() && IsRef(o.node->input(0).dtype()))
      o = ResolveAlias(o.node->input(0));
    return o;
  }

  // Calls fn(node, port) for each running node that a consumer of `n`, by a
  // control edge or as the value of a constant, has to wait for.
  template <typename Fn>
  void ForEachWait(const Node* n, const Fn& fn) {
    Output o(const_cast<Node*>(n), -1);
    if (IsAlias(*n)) o = ResolveAlias(n->input(0));
    if (info(o.node).runs) {
      fn(o.node, o.node->op().role == OpRole::kSwitch ? o.index : -1);
    } else {  // (Constants that wait for constants do run.)
      for (const Node* c : o.node->control_inputs()) ForEachWait(c, fn);
    }
  }

  Status MakeFrames() {
    plan_->has_control_flow = frames_->size() > 1;
    plan_->frames.resize(static_cast<size_t>(frames_->size()));
    for (int f = 0; f < frames_->size(); ++f) {
      const GraphFrame& from = (*frames_)[f];
      PlanFrame& to = frame(f);
      to.name = from.name;
      to.parent = from.parent;
      to.is_function = from.is_function();
      to.num_enters =
          from.is_function() ? 1 : static_cast<uint32_t>(from.enters.size());
      to.parallel_iterations = static_cast<uint32_t>(
          std::min(from.parallel_iterations, kMaxParallelIterations));
      for (const Node* enter : from.enters)
        SLUICE_RETURN_IF_ERROR(CheckParallelIterations(from, *enter));
    }
    for (const Node* n : order_) {
      if (n->op().role == OpRole::kEnter) {
        const int child = frames_->output_frame(n);
        const GraphFrame& loop = (*frames_)[child];
        if (loop.first == n)
          frame(child).index_in_parent =
              AddChild(loop.parent, child, loop.name);
      } else if (n->op().role == OpRole::kCall) {
        info(n).child =
            AddChild(frames_->frame_of(n),
                     frames_->function_frame(FunctionOf(*n)), n->name());
      } else if (n->op().role == OpRole::kRetval) {
        SLUICE_RETURN_IF_ERROR(CheckRetval(*n));
      }
    }
    return OkStatus();
  }

  static Status CheckParallelIterations(const GraphFrame& loop,
                                        const Node& enter) {
    const int64_t parallel = enter.IntAttr("parallel_iterations");
    if (parallel < 1)
      return InvalidArgument("parallel_iterations: expected at least 1, got ",
                             parallel, "; ", enter.Describe());
    if (parallel != loop.parallel_iterations)
      return InvalidArgument("parallel_iterations: expected ",
                             loop.parallel_iterations,
                             " as at the other Enters of frame '", loop.name,
                             "', got ", parallel, "; ", enter.Describe());
    return OkStatus();
  }

  Status CheckRetval(const Node& n) const {
    const int f = frames_->frame_of(&n);
    const std::string function = FunctionOf(n);
    if (f == (function.empty() ? 0 : frames_->function_frame(function)))
      return OkStatus();
    return InvalidArgument("fetch: expected an edge outside loops, got '",
                           n.input(0).name(), "' in ", frames_->Describe(f),
                           " (fetch a result of the loop, the output of an "
                           "Exit); ",
                           n.input(0).node->Describe());
  }

  // Returns its number among the parent's children. `name` tells it apart from
  // the others, in every partition alike.
  uint32_t AddChild(int parent, int child, const std::string& name) {
    PlanFrame& f = frame(parent);
    f.children.push_back(child);
    f.child_hashes.push_back(NameHash(name));
    return f.num_children++;
  }

  // Aliases do not run, nor do constants: their readers wait for what the
  // constant waits for. But a Merge needs a token to tell its inputs apart, so
  // a constant that it reads, in one branch of a conditional, does run. So does
  // one that waits for many nodes, or for another constant that waits: readers
  // would look through all of that, each for itself.
  void DecideWhatRuns() {
    constexpr size_t kFewWaits = 4;
    for (Node* n : order_) info(n).runs = !IsConst(*n) && !IsAlias(*n);
    for (const Node* n : order_) {
      if (IsConst(*n))
        info(n).runs =
            n->control_inputs().size() > kFewWaits ||
            std::any_of(n->control_inputs().begin(), n->control_inputs().end(),
                        [this](const Node* c) { return IsIdleConst(*c); });
      if (n->op().role == OpRole::kMerge)
        for (const Output& in : n->inputs()) {
          const Output from = ResolveAlias(in);
          if (IsConst(*from.node) && !from.node->control_inputs().empty())
            info(from.node).runs = true;
        }
    }
  }

  // A constant that does not run although it has control inputs.
  bool IsIdleConst(const Node& n) {
    const Node& from = IsAlias(n) ? *ResolveAlias(n.input(0)).node : n;
    return IsConst(from) && !info(&from).runs && !from.control_inputs().empty();
  }

  // An attribute that determines the size of a table. (Checked because plans
  // may come from other processes.)
  static Result<uint32_t> Place(const Node& n, const char* attr,
                                int64_t most = 1 << 20) {
    const int64_t v = n.IntAttr(attr);
    if (v >= 0 && v < most) return static_cast<uint32_t>(v);
    return InvalidArgument(attr, ": expected a number below ", most, ", got ",
                           v, "; ", n.Describe());
  }

  Status NumberNodes() {
    std::vector<std::vector<Node*>> by_frame(plan_->frames.size());
    for (Node* n : order_)
      if (info(n).runs)
        by_frame[static_cast<size_t>(frames_->frame_of(n))].push_back(n);
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
        if (p.role == OpRole::kEnter) p.aux = output_frame(n).index_in_parent;
        if (p.role == OpRole::kCall) p.aux = info(n).child;
        if (p.role == OpRole::kRetval && !FunctionOf(*n).empty())
          p.role = OpRole::kReturn;
        if (p.role == OpRole::kSend || p.role == OpRole::kRecv)
          SLUICE_RETURN_IF_ERROR(NoteTransfer(&p));
        if (IsConstantEnter(*n)) p.flags |= PlanNode::kConstant;
        // Control edges from both branches of a conditional may meet in a
        // ControlTrigger.
        if (n->kind() == OpKind::kControlTrigger)
          p.flags |= PlanNode::kNeverDead;
        plan_->nodes.push_back(p);
      }
    }
    for (PlanNode& p : plan_->nodes)  // Addresses are final now.
      if (p.role == OpRole::kExit) {
        PlanFrame& pf = frame_of(p.node);
        p.aux = static_cast<uint32_t>(pf.exits.size());
        pf.exits.push_back(&p);
      }
    for (PlanFrame& pf : plan_->frames) pf.later_merges = pf.initial_merges;
    return OkStatus();
  }

  Status NoteTransfer(PlanNode* p) {
    const Node& n = *p->node;
    SLUICE_ASSIGN_OR_RETURN(const uint32_t edge, Place(n, "edge", UINT32_MAX));
    SLUICE_ASSIGN_OR_RETURN(const uint32_t group, Place(n, "group"));
    if (p->role == OpRole::kSend) {
      SLUICE_ASSIGN_OR_RETURN(const uint32_t to, Place(n, "destination"));
      p->aux = static_cast<uint32_t>(plan_->sends.size());
      plan_->sends.push_back({to, edge, group, n.BoolAttr("leads_group")});
      return OkStatus();
    }
    p->aux = edge;
    plan_->num_edges_in = std::max(plan_->num_edges_in, edge + 1);
    if (plan_->dead_groups.size() <= group)
      plan_->dead_groups.resize(group + 1);
    plan_->dead_groups[group].push_back(edge);
    return OkStatus();
  }

  // Marks the arguments that all calls of a recursion share.
  void FindConstantArguments() {
    const auto around = [&](const PlanNode& call) {
      const int f = frames_->frame_of(call.node);
      return frame(f).children[call.aux] == f ? f : -1;
    };
    // By function, what its calls within itself pass on.
    std::map<int, std::vector<bool>> passed_on;
    for (const PlanNode& p : plan_->nodes) {
      if (p.role != OpRole::kCall || around(p) < 0) continue;
      std::vector<bool> own;
      for (int i = 0; i < p.node->num_inputs(); ++i) {
        const Node& from = *Source(*p.node, p.node->input(i)).node;
        own.push_back(from.op().role == OpRole::kArg &&
                      from.IntAttr("index") == i &&
                      !IsRef(from.output_type(0)));
      }
      std::vector<bool>& all =
          passed_on.try_emplace(around(p), own).first->second;
      for (size_t i = 0; i < all.size(); ++i)
        all[i] = all[i] && i < own.size() && own[i];
    }
    for (PlanNode& p : plan_->nodes) {
      if (p.role != OpRole::kArg) continue;
      const auto it = passed_on.find(frames_->frame_of(p.node));
      const auto index = static_cast<size_t>(p.node->IntAttr("index"));
      if (it != passed_on.end() && index < it->second.size() &&
          it->second[index])
        p.flags |= PlanNode::kConstant;
    }
  }

  void NumberSlots() {
    for (Node* n : order_) {
      if (IsConst(*n)) {
        info(n).constant = static_cast<uint32_t>(plan_->constants.size());
        plan_->constants.push_back(n->AttrOr<Tensor>("value", Tensor()));
      }
      if (!info(n).runs) continue;
      PlanNode& p = plan_node(n);
      PlanFrame& target = output_frame(n);
      uint32_t& next = (p.flags & PlanNode::kConstant) != 0
                           ? target.num_constant_slots
                           : target.num_slots;
      p.first_output = next;
      p.num_outputs = static_cast<uint32_t>(n->num_outputs());
      next += p.num_outputs;
      if (IsConst(*n)) p.aux = info(n).constant;
    }
    for (PlanFrame& f : plan_->frames) f.slot_uses.resize(f.num_slots, 0);
  }

  InputRef RefTo(const Output& o) {
    if (!info(o.node).runs) return {InputRef::kPlan, info(o.node).constant};
    const PlanNode& p = plan_node(o.node);
    const uint32_t slot = p.first_output + static_cast<uint32_t>(o.index);
    return {(p.flags & PlanNode::kConstant) != 0 ? InputRef::kFrame
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
        const Output in = Source(n, n.input(i));
        InputRef ref = RefTo(in);
        if (ref.table == InputRef::kIteration)
          ++frame_of(&n).slot_uses[ref.index];
        // A value is wanted where a reference comes: read when the node starts.
        if (IsRef(in.dtype()) && !IsRef(n.input_type(i))) {
          if (p.role == OpRole::kMerge)
            return InvalidArgument(
                "Merge: expected values, got a reference from '", in.name(),
                "'; ", n.Describe());
          plan_->reads.push_back(ref);
          ref = {InputRef::kLocal, p.num_reads};
          if (++p.num_reads == UINT16_MAX)
            return InvalidArgument("inputs: expected fewer than ", UINT16_MAX,
                                   " variables, got more; ", n.Describe());
        }
        plan_->inputs.push_back(ref);
      }
      PlanFrame& f = frame_of(&n);
      if (p.role == OpRole::kReturn) {
        SLUICE_ASSIGN_OR_RETURN(p.aux, Place(n, "index"));
        ++f.num_returns;
      }
      if (p.role == OpRole::kArg || p.role == OpRole::kRetval) {
        SLUICE_ASSIGN_OR_RETURN(p.aux, Place(n, "index"));
        auto& list = p.role == OpRole::kRetval ? plan_->retvals
                     : f.is_function           ? f.args
                                               : plan_->args;
        if (list.size() <= p.aux) list.resize(p.aux + 1, nullptr);
        list[p.aux] = &p;
      }
    }
    return OkStatus();
  }

  // Checks that calls match the arguments and results of their functions.
  Status CheckCalls() {
    std::map<int, std::vector<DType>> results;  // By function.
    for (const PlanNode& p : plan_->nodes) {
      if (p.role != OpRole::kReturn) continue;
      std::vector<DType>& types = results[frames_->frame_of(p.node)];
      types.resize(std::max<size_t>(types.size(), p.aux + 1), DType::kInvalid);
      types[p.aux] = RemoveRef(p.node->input_type(0));
    }
    for (const PlanNode& p : plan_->nodes) {
      if (p.role != OpRole::kCall) continue;
      const int callee = frame_of(p.node).children[static_cast<size_t>(p.aux)];
      const PlanFrame& f = frame(callee);
      const std::vector<DType>& types = results[callee];
      bool good =
          f.args.size() <= p.num_inputs && types.size() <= p.num_outputs;
      for (size_t i = 0; good && i < f.args.size(); ++i)
        good = f.args[i] == nullptr ||
               f.args[i]->node->output_type(0) ==
                   p.node->input(static_cast<int>(i)).dtype();
      // (Results that are read after no call may have been left out.)
      for (size_t i = 0; good && i < types.size(); ++i)
        good = types[i] == DType::kInvalid ||
               types[i] == p.node->output_type(static_cast<int>(i));
      if (!good)
        return Internal(
            "call: expected the arguments and results of function '", f.name,
            "', got others; ", p.node->Describe());
    }
    return OkStatus();
  }

  void ConnectEdges() {
    struct Found {
      uint32_t from;  // Number in Plan::nodes.
      PlanEdge edge;
      bool reads_store;  // The consumer does.
    };
    std::vector<Found> found;
    found.reserve(plan_->inputs.size());
    incoming_.resize(plan_->nodes.size());
    // By node: the last node found to wait for it, and for which of its ports.
    struct Have {
      size_t consumer = SIZE_MAX;
      uint32_t ports = 0;  // Bit 0: all; bit 1 + i: port i.
    };
    std::vector<Have> have(order_.size());
    for (const PlanNode& p : plan_->nodes) {
      const bool merge = p.role == OpRole::kMerge;
      const auto to = static_cast<size_t>(&p - plan_->nodes.data());
      auto had = [&](const Node* from) -> uint32_t& {
        Have& h = have[static_cast<size_t>(from->id())];
        if (h.consumer != to) h = {to, 0};
        return h.ports;
      };
      auto connect = [&](const Node* from, int port, int merge_input) {
        PlanNode& source = plan_node(from);
        ++source.num_edges;
        if (merge_input != -1) source.flags |= PlanNode::kFeedsMerge;
        found.push_back({info(from).plan_index,
                         {p.local, port, merge_input},
                         ReadsStore(*p.node)});
        ++incoming_[to];
        if (merge_input < 0) had(from) |= 1u << (port + 1);
      };
      auto wait = [&](const Node* from, int port) {
        const uint32_t ports = had(from);
        if (port < 0 ? ports != 0 : (ports >> (port + 1) & 1) != 0) return;
        connect(from, port, merge ? PlanEdge::kMergeControl : -1);
      };
      for (int i = 0; i < p.node->num_inputs(); ++i) {
        const Output in = Source(*p.node, p.node->input(i));
        if (info(in.node).runs)
          connect(in.node,
                  in.node->op().role == OpRole::kSwitch ? in.index : -1,
                  merge ? i : -1);
      }
      // A Merge fires on one of its inputs and does not wait for the others.
      if (merge) {
        incoming_[to] = 0;
      } else {
        for (const Output& o : p.node->inputs()) {
          const Node* in = ResolveAlias(o).node;
          if (!info(in).runs)
            for (const Node* c : in->control_inputs()) ForEachWait(c, wait);
        }
      }
      for (const Node* c : p.node->control_inputs()) ForEachWait(c, wait);
    }
    // By source, in the order in which they were found, but those to reads of
    // stores first: what becomes ready last runs first, and a read that runs
    // after the write of its key need not wait.
    std::vector<uint32_t> next(plan_->nodes.size());
    uint32_t edges = 0;
    for (size_t i = 0; i < next.size(); ++i) {
      plan_->nodes[i].first_edge = next[i] = edges;
      edges += plan_->nodes[i].num_edges;
    }
    plan_->edges.resize(edges);
    for (const bool reads : {true, false})
      for (const Found& e : found)
        if (e.reads_store == reads) plan_->edges[next[e.from]++] = e.edge;
  }

  void CountTokens() {
    for (PlanFrame& f : plan_->frames) f.initial_pending.resize(f.num_nodes, 0);
    for (const PlanNode& p : plan_->nodes) {
      const Node& n = *p.node;
      PlanFrame& f = frame_of(&n);
      uint32_t pending =
          incoming_[static_cast<size_t>(&p - plan_->nodes.data())];
      if (p.role == OpRole::kMerge) {
        // Ready after its control inputs and either one live data input or all
        // dead ones that can arrive in this iteration: in the first those from
        // outside, later those of NextIteration.
        uint32_t back = 0;
        int32_t constant = -1;  // A constant counts as an arrived token.
        for (int32_t i = 0; i < n.num_inputs(); ++i) {
          if (n.input(i).node->op().role == OpRole::kNextIteration) ++back;
          if (!info(ResolveAlias(n.input(i)).node).runs) constant = i;
        }
        const auto all = static_cast<uint32_t>(n.num_inputs());
        f.initial_merges[p.aux] = {constant, all - back};
        f.later_merges[p.aux] = {constant, back > 0 ? back : all};
        if (constant < 0) ++pending;
      }
      f.initial_pending[p.local] = pending;
      if (pending == 0 && p.role != OpRole::kArg) f.sources.push_back(p.local);
    }
    for (PlanFrame& f : plan_->frames) {
      f.first_pending = f.initial_pending;
      for (const PlanNode* arg : f.args)
        if (arg != nullptr) DeliverArgument(*arg, &f);
    }
  }

  // Puts the token of a function's argument into the initial state of its
  // frame. As in Tokens, a Merge takes the first of several.
  void DeliverArgument(const PlanNode& arg, PlanFrame* f) {
    for (uint32_t i = 0; i < arg.num_edges; ++i) {
      const PlanEdge& e = plan_->edges[arg.first_edge + i];
      if (e.merge_input >= 0) {
        int32_t& chosen = f->initial_merges[plan_->node(*f, e.dst).aux].chosen;
        if (chosen >= 0) {  // Not read.
          if ((arg.flags & PlanNode::kConstant) == 0)
            --f->slot_uses[arg.first_output];
          continue;
        }
        chosen = e.merge_input;
      }
      if (--f->first_pending[e.dst] == 0) f->sources.push_back(e.dst);
    }
  }

  Status MakeKernels() {
    plan_->cost.reset(new std::atomic<uint32_t>[plan_->nodes.size()]());
    plan_->kernels_.reserve(plan_->nodes.size());
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
        if (p.node->op().facts.waits) p.flags |= PlanNode::kWaits;
        if (k->try_run != nullptr || k->needs != nullptr) {
          p.flags |= PlanNode::kWaitsInStep;
          p.aux = static_cast<uint32_t>(plan_->waiting_kernels.size());
          plan_->waiting_kernels.push_back(k.get());
        }
      } else {
        p.run = k->run;
      }
      if (k->expensive) p.flags |= PlanNode::kExpensive;
      if (stage_ != nullptr && k->run_async == nullptr && p.num_reads == 0 &&
          stage_->Holds(*p.node, *k, frame_of(p.node).is_root())) {
        p.flags |= PlanNode::kHeld;
        plan_->stage = stage_;
      }
      plan_->kernels_.push_back(std::move(k));
    }
    return OkStatus();
  }

  const Plan::KernelProvider& kernels_;
  const std::shared_ptr<ReadyStageMaker> stage_;
  std::unique_ptr<Plan> plan_;
  const Graph& graph_;
  std::vector<Node*> order_;
  std::vector<Info> info_;
  const Frames* frames_ = nullptr;  // While Build runs.
  std::vector<uint32_t> incoming_;  // Tokens that each node waits for.
};

Result<std::shared_ptr<const Plan>> Plan::Build(
    std::shared_ptr<const Graph> graph, const KernelProvider& kernels,
    std::shared_ptr<ReadyStageMaker> stage) {
  return PlanBuilder(std::move(graph), kernels, std::move(stage)).Build();
}

}  // namespace sluice
