#include "graph/graphdef_contexts.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/control_flow.h"
#include "graph/control_flow_recovery.h"
#include "graph/graph.h"
#include "graph/graphdef_messages.h"
#include "graph/proto/control_flow.pb.h"
#include "graph/proto/meta_graph.pb.h"

namespace sluice {
namespace {

constexpr char kWhileContexts[] = "while_context";
constexpr char kCondContexts[] = "cond_context";
// Protobuf reads messages that are nested up to 100 deep, and a construct takes
// two levels.
constexpr int kMaxNestedContexts = 40;

// Writes the contexts of a graph; see AddContexts.
class ContextWriter {
 public:
  ContextWriter(const Graph& g, const std::string& scope,
                proto::MetaGraphDef* def)
      : graph_(g), prefix_(scope.empty() ? "" : scope + "/"), def_(def) {}

  void Run() {
    for (const proto::NodeDef& n : def_->graph_def().node())
      names_.insert(n.name());
    StripFrames();
    FindConsumers();
    DivideSwitches();
    CollectValues();
    for (const auto& conditional : contexts().conditionals())
      for (const int branch : {1, 0})
        children_[conditional->outer()].push_back(conditional->branch(branch));
    for (WhileContext* loop : contexts().loops())
      children_[loop->outer()].push_back(loop);
    for (ControlFlowContext* c : children_[nullptr]) {
      proto::ControlFlowContextDef made;
      if (!Write(c, 0, &made)) continue;
      const bool loop = made.has_while_ctxt();
      (*def_->mutable_collection_def())[loop ? kWhileContexts : kCondContexts]
          .mutable_bytes_list()
          ->add_value(loop ? made.while_ctxt().SerializeAsString()
                           : made.cond_ctxt().SerializeAsString());
    }
  }

 private:
  struct Values {
    std::set<std::string> values;
    std::map<std::string, std::string> external;
  };

  ControlFlow& contexts() const { return graph_.control_flow(); }

  // The name of a value in the meta graph.
  std::string NameOf(const Output& o) const {
    std::string node = o.node->name();
    if (o.index == 1)
      if (const auto it = second_.find(o.node); it != second_.end())
        node = it->second;
    if (node.starts_with(prefix_)) node = node.substr(prefix_.size());
    return absl::StrCat(node, ":", o.index);
  }
  bool Has(const std::string& value) const {
    return names_.count(value.substr(0, value.rfind(':'))) > 0;
  }
  // Appends the name to `out`; false if the meta graph does not have the node.
  bool Find(const Output& o, std::string* out) const {
    if (!o.valid()) return false;
    *out = NameOf(o);
    return Has(*out);
  }

  // A loop's context has the name of its frame, so the frames lose the scope's
  // prefix too.
  void StripFrames() {
    if (prefix_.empty()) return;
    for (proto::NodeDef& n : *def_->mutable_graph_def()->mutable_node()) {
      const auto it = n.mutable_attr()->find("frame_name");
      if (it != n.mutable_attr()->end() && it->second.s().starts_with(prefix_))
        it->second.set_s(it->second.s().substr(prefix_.size()));
    }
  }

  // Which outputs of the conditionals' Switches are read.
  void FindConsumers() {
    for (const auto& n : graph_.nodes())
      for (const Output& in : n->inputs())
        if (in.valid() && in.node->op().role == OpRole::kSwitch &&
            in.index < 2 && in.index >= 0) {
          used_[in.node] |= 1 << in.index;
          if (const Conditional* const of = contexts().ConditionalOf(in.node);
              of == nullptr || contexts().ConditionalOf(n.get()) != of ||
              n->op().role != OpRole::kMerge)
            captures_.insert(in.node);
        }
  }
  // Whether it is the Switch of the predicate itself, whose outputs begin the
  // branches. Of an imported conditional c.pred() may be what an Identity of
  // the predicate reads.
  bool IsPivotSwitch(const Conditional& c, const Node* n) const {
    return n->input(0).SameAs(c.pred()) || n->input(0).SameAs(n->input(1));
  }

  void DivideSwitches() {
    std::map<std::string, std::string> second;  // By name in the meta graph.
    for (const auto& c : contexts().conditionals())
      for (const auto& [value, node] : c->switches()) {
        if (IsPivotSwitch(*c, node)) continue;
        const auto used = used_.find(node);
        std::string name = NameOf(Output(node));
        name.resize(name.size() - 2);
        if (used == used_.end() || used->second != 3 || names_.count(name) == 0)
          continue;
        std::string other;
        for (int i = 1; other.empty() || names_.count(other) > 0; ++i)
          other = absl::StrCat(name, "_", i);
        names_.insert(other);
        second_[node] = prefix_ + other;
        second[name] = other;
      }
    if (second.empty()) return;
    proto::GraphDef divided = def_->graph_def();
    divided.clear_node();
    for (proto::NodeDef& n : *def_->mutable_graph_def()->mutable_node()) {
      for (std::string& in : *n.mutable_input())
        if (in.ends_with(":1"))
          if (const auto it = second.find(in.substr(0, in.size() - 2));
              it != second.end())
            in = it->second + ":1";
      const auto it = second.find(n.name());
      if (it != second.end()) {
        proto::NodeDef twin = n;
        twin.set_name(it->second);
        *divided.add_node() = std::move(n);
        *divided.add_node() = std::move(twin);
      } else {
        *divided.add_node() = std::move(n);
      }
    }
    *def_->mutable_graph_def() = std::move(divided);
  }

  // Makes a value known to a context: of a branch, to all that are around it.
  void Add(ControlFlowContext* c, const std::string& name) {
    if (!Has(name)) return;
    const bool branch = c != nullptr && c->AsCond() != nullptr;
    for (; c != nullptr; c = branch ? c->outer() : nullptr)
      known_[c].values.insert(name);
  }

  void CollectValues() {
    for (const auto& c : contexts().conditionals())
      for (const int i : {0, 1})
        AddExternal(c->branch(i), c->pred(), c->pred());
    for (const auto& node : graph_.nodes()) {
      Node* const n = node.get();
      if (AddPivot(n)) continue;
      const Conditional* const of = contexts().ConditionalOf(n);
      ControlFlowContext* const context = ContextOf(n);
      int used = 0;  // By the branches of a conditional.
      if (const auto it = used_.find(n);
          of != nullptr && it != used_.end() && !IsPivotSwitch(*of, n))
        used = it->second;
      for (int i = 0; i < n->num_outputs(); ++i) {
        const Output o(n, i);
        // (Nothing reads the output for the other branch.)
        if ((used == 1 || used == 2) && i != used - 1 && captures_.count(n) > 0)
          continue;
        Add(used == 0   ? context
            : used == 3 ? of->branch(i)
                        : of->branch(used - 1),
            NameOf(o));
        if (n->op().role == OpRole::kExit && context != nullptr)
          Add(context->outer(), NameOf(o));
        // (An imported conditional may have several Switches of a value.)
        if ((used & (1 << i)) != 0) AddExternal(of->branch(i), n->input(0), o);
      }
    }
    for (WhileContext* loop : contexts().loops())
      for (const auto& [value, enter] : loop->constants())
        AddExternal(loop, value, Output(enter));
  }
  // Adds a node that begins a branch, which in TensorFlow is made outside of
  // it; false for others.
  bool AddPivot(Node* n) {
    ControlFlowContext* const c = ContextOf(n);
    CondContext* const branch = c == nullptr ? nullptr : c->AsCond();
    if (branch == nullptr || branch->pivot.node != n) return false;
    const std::string name = NameOf(branch->pivot);
    if (Has(name)) known_[branch].values.insert(name);
    Add(branch->outer(), name);
    return true;
  }
  void AddExternal(ControlFlowContext* c, const Output& value,
                   const Output& inner) {
    if (!value.valid() || !Has(NameOf(inner))) return;
    Values& known = known_[c];
    const std::string name = NameOf(value);
    known.values.insert(name);
    known.external[name] = NameOf(inner);
  }

  // What the context around captured is known by its name outside of that. The
  // captured value itself is not taken for another one here: TensorFlow takes
  // all Enters among the values of a loop for the loop's own.
  void InheritExternal(ControlFlowContext* c) {
    if (c->outer() == nullptr) return;
    Values& known = known_[c];
    for (const auto& [original, captured] : known_[c->outer()].external) {
      const auto it = known.external.find(captured);
      if (it == known.external.end() || original == captured) continue;
      known.external.emplace(original, it->second);
      known.values.insert(original);
      if (c->AsWhile() == nullptr) {
        it->second = captured;
      } else {
        known.values.erase(captured);
        known.external.erase(it);
      }
    }
  }

  void WriteValues(ControlFlowContext* c, proto::ValuesDef* def) {
    const Values& known = known_[c];
    for (const std::string& name : known.values) def->add_values(name);
    for (const auto& [name, value] : known.external)
      (*def->mutable_external_values())[name] = value;
  }
  template <typename Def>
  void WriteNested(ControlFlowContext* c, int depth, Def* def) {
    for (ControlFlowContext* inner : children_[c]) {
      proto::ControlFlowContextDef made;
      if (Write(inner, depth + 1, &made))
        *def->add_nested_contexts() = std::move(made);
    }
  }

  // False if the meta graph lacks a node of the context.
  bool Write(ControlFlowContext* c, int depth,
             proto::ControlFlowContextDef* made) {
    if (depth >= kMaxNestedContexts) return false;
    InheritExternal(c);
    if (WhileContext* loop = c->AsWhile())
      return WriteLoop(loop, depth, made->mutable_while_ctxt());
    return WriteBranch(c->AsCond(), depth, made->mutable_cond_ctxt());
  }

  bool WriteBranch(CondContext* c, int depth, proto::CondContextDef* def) {
    std::string name = c->name();
    while (name.ends_with("/")) name.pop_back();
    // (TensorFlow gives each branch a name of its own.)
    def->set_context_name(WithoutPrefix(name) + "/cond_text" +
                          (c->branch() == 1 ? "" : "_1"));
    def->set_branch(c->branch());
    if (!Find(c->conditional()->pred(), def->mutable_pred_name()) ||
        !Find(c->pivot, def->mutable_pivot_name()))
      return false;
    WriteValues(c, def->mutable_values_def());
    WriteNested(c, depth, def);
    return true;
  }

  // A value of the body that a control edge can begin at. Of an imported loop
  // the body value is the Switch's output, which has none: there an edge from
  // the Switch would also be taken in the last iteration.
  Output BodyPivot(const WhileContext& loop) const {
    const Output pivot = loop.body_pivot();
    if (!pivot.valid() || pivot.node->op().role != OpRole::kSwitch)
      return pivot;
    Output other;
    for (const auto& n : graph_.nodes()) {
      if (n->op().role != OpRole::kIdentity || n->num_outputs() != 1 ||
          n->num_inputs() != 1 || ContextOf(n.get()) != &loop)
        continue;
      const Output& in = n->input(0);
      if (in.SameAs(pivot)) return Output(n.get());
      if (!other.valid() && in.valid() && in.index == 1 &&
          in.node->op().role == OpRole::kSwitch &&
          loop.VariableOf(in.node) >= 0)
        other = Output(n.get());
    }
    return other;
  }

  bool WriteLoop(WhileContext* loop, int depth, proto::WhileContextDef* def) {
    if (loop->loop_cond() == nullptr || loop->variables().empty()) return false;
    // (The frame's name, by which TensorFlow names what it adds to the loop.)
    def->set_context_name(loop->frame_name().starts_with(prefix_)
                              ? WithoutPrefix(loop->frame_name())
                              : loop->frame_name());
    def->set_parallel_iterations(loop->parallel_iterations);
    def->set_back_prop(loop->back_prop);
    def->set_swap_memory(loop->swap_memory);
    if (!Find(Output(loop->loop_cond()), def->mutable_pivot_name()) ||
        !Find(loop->condition_pivot(), def->mutable_pivot_for_pred_name()) ||
        !Find(BodyPivot(*loop), def->mutable_pivot_for_body_name()))
      return false;
    for (const LoopVariable& v : loop->variables()) {
      std::string name;
      if (v.exit != nullptr && Find(Output(v.exit), &name))
        def->add_loop_exit_names(name);
      if (v.enter != nullptr && Find(Output(v.enter), &name))
        def->add_loop_enter_names(name);
    }
    if (loop->maximum_iterations.valid() &&
        !Find(loop->maximum_iterations, def->mutable_maximum_iterations_name()))
      def->clear_maximum_iterations_name();
    WriteValues(loop, def->mutable_values_def());
    WriteNested(loop, depth, def);
    return true;
  }

  std::string WithoutPrefix(const std::string& name) const {
    return name.starts_with(prefix_) ? name.substr(prefix_.size()) : name;
  }

  const Graph& graph_;
  const std::string prefix_;
  proto::MetaGraphDef* const def_;
  std::unordered_set<std::string> names_;      // Of nodes in the meta graph.
  std::unordered_map<const Node*, int> used_;  // Bit i: output i is read.
  // Switches that nodes of a branch read. (TensorFlow makes others, of values
  // that a branch returns as they are, within the branch, like its other
  // nodes.)
  std::unordered_set<const Node*> captures_;
  // Of divided Switches, the names of those whose output 1 is read.
  std::unordered_map<const Node*, std::string> second_;
  std::map<ControlFlowContext*, Values> known_;
  // In the order of creation; null: what is in no other.
  std::map<ControlFlowContext*, std::vector<ControlFlowContext*>> children_;
};

// Collects what the definitions of contexts say; see ApplyContexts.
class ContextReader {
 public:
  ContextReader(const proto::MetaGraphDef& def, const std::string& prefix,
                const Graph& g)
      : prefix_(prefix), graph_(g) {
    ReadCollection<proto::WhileContextDef>(def, kWhileContexts);
    ReadCollection<proto::CondContextDef>(def, kCondContexts);
    for (const auto& [node, of] : switches_)
      described_.conditionals[of].switches.insert(node);
  }

  const DescribedContexts& described() const { return described_; }

  // Takes over what is said about loops.
  void Apply(const std::vector<WhileContext*>& loops) const {
    for (WhileContext* loop : loops) {
      const auto it = loops_.find(loop->frame_name());
      if (it == loops_.end()) continue;
      loop->back_prop = it->second.back_prop;
      loop->swap_memory = it->second.swap_memory;
      if (it->second.maximum_iterations.valid())
        loop->maximum_iterations = it->second.maximum_iterations;
    }
  }

 private:
  struct DescribedLoop {
    bool back_prop, swap_memory;
    Output maximum_iterations;  // Null if there is no such integer.
  };

  template <typename Def>
  void ReadCollection(const proto::MetaGraphDef& def, const char* key) {
    const auto it = def.collection_def().find(key);
    if (it == def.collection_def().end()) return;
    for (const std::string& bytes : it->second.bytes_list().value()) {
      Def context;
      if (ParseMessage(bytes, "ContextDef", &context).ok()) Read(context);
    }
  }

  // Null if there is no such value.
  Output Find(const std::string& name) const {
    const Result<Output> found = graph_.FindOutput(prefix_ + name);
    return found.ok() ? *found : Output();
  }

  void Read(const proto::WhileContextDef& def) {
    DescribedLoop loop = {def.back_prop(), def.swap_memory(), Output()};
    const Output most = Find(def.maximum_iterations_name());
    if (most.valid() &&
        (most.dtype() == DType::kInt32 || most.dtype() == DType::kInt64))
      loop.maximum_iterations = most;
    loops_[prefix_ + def.context_name()] = loop;
    for (int i = 0; i < def.loop_enter_names_size(); ++i)
      if (const Output enter = Find(def.loop_enter_names(i)); enter.valid())
        described_.enters.emplace(enter.node, i);
    ReadNested(def);
  }

  // Both branches of a conditional have their pivots from one Switch.
  void Read(const proto::CondContextDef& def) {
    const Output pred = Find(def.pred_name()), pivot = Find(def.pivot_name());
    const int branch = def.branch();
    const auto is_of_branch = [branch](const Output& o) {
      return o.valid() && o.node->op().role == OpRole::kSwitch &&
             o.index == branch;
    };
    if (pred.valid() && pred.dtype() == DType::kBool && pivot.valid() &&
        (branch == 0 || branch == 1) &&
        pivot.node->op().role == OpRole::kIdentity &&
        pivot.node->num_inputs() > 0 && is_of_branch(pivot.node->input(0))) {
      std::vector<DescribedConditional>& conditionals = described_.conditionals;
      const Node* const at = pivot.node->input(0).node;
      const auto [it, is_new] = by_pivot_.emplace(at, conditionals.size());
      const std::string& name = def.context_name();
      if (is_new) {  // (WriteBranch adds the last part of the name again.)
        conditionals.emplace_back();
        conditionals.back().name =
            prefix_ + name.substr(0, std::min(name.size(), name.rfind('/')));
        conditionals.back().pred = pred;
      }
      conditionals[it->second].pivots[branch] = pivot;
      // (The contexts around list the values too, and come before.)
      switches_[at] = it->second;
      const auto& external = def.values_def().external_values();
      for (const std::string& value : def.values_def().values())
        if (external.count(value) == 0)
          if (const Output o = Find(value); is_of_branch(o))
            switches_[o.node] = it->second;
    }
    ReadNested(def);
  }

  template <typename Def>
  void ReadNested(const Def& def) {
    for (const proto::ControlFlowContextDef& inner : def.nested_contexts()) {
      if (inner.has_while_ctxt()) Read(inner.while_ctxt());
      if (inner.has_cond_ctxt()) Read(inner.cond_ctxt());
    }
  }

  const std::string prefix_;
  const Graph& graph_;
  std::map<std::string, DescribedLoop> loops_;  // By frame.
  DescribedContexts described_;
  std::unordered_map<const Node*, size_t> by_pivot_;  // By its Switch.
  std::unordered_map<const Node*, size_t> switches_;  // Of the innermost.
};

}  // namespace

void AddContexts(const Graph& g, const std::string& scope,
                 proto::MetaGraphDef* def) {
  ContextWriter(g, scope, def).Run();
}

Result<std::string> WithContexts(const Graph& g, const std::string& scope,
                                 std::string_view meta_graph) {
  proto::MetaGraphDef def;
  SLUICE_RETURN_IF_ERROR(ParseMessage(meta_graph, "MetaGraphDef", &def));
  AddContexts(g, scope, &def);
  return SerializeProto(def);
}

void ApplyContexts(const proto::MetaGraphDef& def, const std::string& prefix,
                   Graph* g) {
  if (def.collection_def().count(kWhileContexts) == 0 &&
      def.collection_def().count(kCondContexts) == 0)
    return;
  const ContextReader reader(def, prefix, *g);
  if (RecoverControlFlow(g, reader.described()).ok())
    reader.Apply(g->control_flow().loops());
}

Status ApplyContexts(std::string_view meta_graph, const std::string& prefix,
                     Graph* g) {
  proto::MetaGraphDef def;
  SLUICE_RETURN_IF_ERROR(ParseMessage(meta_graph, "MetaGraphDef", &def));
  ApplyContexts(def, prefix, g);
  return OkStatus();
}

}  // namespace sluice
