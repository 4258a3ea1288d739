#include "graph/graphdef_contexts.h"

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
            in.index < 2 && in.index >= 0)
          used_[in.node] |= 1 << in.index;
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
    for (const auto& node : graph_.nodes()) {
      Node* const n = node.get();
      const Conditional* const of = contexts().ConditionalOf(n);
      ControlFlowContext* const context = ContextOf(n);
      for (int i = 0; i < n->num_outputs(); ++i) {
        ControlFlowContext* c = context;
        if (of != nullptr && n->op().role == OpRole::kSwitch &&
            !IsPivotSwitch(*of, n)) {
          const auto used = used_.find(n);
          if (used == used_.end()) {
            c = context;
          } else {
            const int branch =
                used->second == 3 ? i : (used->second == 1 ? 0 : 1);
            c = of->branch(branch);
          }
        }
        Add(c, NameOf(Output(n, i)));
        if (n->op().role == OpRole::kExit && context != nullptr)
          Add(context->outer(), NameOf(Output(n, i)));
      }
    }
    for (const auto& c : contexts().conditionals())
      for (CondContext* branch : {c->branch(0), c->branch(1)}) {
        AddExternal(branch, c->pred(), c->pred());
        for (const auto& [value, node] : c->switches())
          if (!IsPivotSwitch(*c, node)) {
            const auto used = used_.find(node);
            if (used != used_.end() &&
                (used->second & (1 << branch->branch())) != 0)
              AddExternal(branch, value, Output(node, branch->branch()));
          }
      }
    for (WhileContext* loop : contexts().loops())
      for (const auto& [value, enter] : loop->constants())
        AddExternal(loop, value, Output(enter));
  }
  void AddExternal(ControlFlowContext* c, const Output& value,
                   const Output& inner) {
    if (!value.valid() || !Has(NameOf(inner))) return;
    Values& known = known_[c];
    const std::string name = NameOf(value);
    known.values.insert(name);
    known.external[name] = NameOf(inner);
  }

  // What the context around captured is known by its name outside of that. (Not
  // also by that of an Enter there: TensorFlow takes all Enters among the
  // values of a loop for the loop's own.)
  void InheritExternal(ControlFlowContext* c) {
    if (c->outer() == nullptr) return;
    Values& known = known_[c];
    const bool in_loop = c->outer()->AsWhile() != nullptr;
    std::set<std::string> replaced;
    for (const auto& [original, captured] : known_[c->outer()].external) {
      const auto it = known.external.find(captured);
      if (it == known.external.end() || original == captured) continue;
      const std::string value = it->second;
      known.external.emplace(original, value);
      known.values.insert(original);
      if (in_loop && c->AsWhile() != nullptr) replaced.insert(captured);
    }
    for (const std::string& name : replaced) {
      known.external.erase(name);
      known.values.erase(name);
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
  // Of divided Switches, the names of those whose output 1 is read.
  std::unordered_map<const Node*, std::string> second_;
  std::map<ControlFlowContext*, Values> known_;
  // In the order of creation; null: what is in no other.
  std::map<ControlFlowContext*, std::vector<ControlFlowContext*>> children_;
};

// Takes over what the definitions of loops say; see ApplyContexts.
class ContextReader {
 public:
  ContextReader(const std::string& prefix, Graph* g) : prefix_(prefix) {
    graph_ = g;
    for (WhileContext* loop : g->control_flow().loops())
      loops_.emplace(loop->frame_name(), loop);
  }

  void Apply(const proto::WhileContextDef& def) {
    const auto it = loops_.find(prefix_ + def.context_name());
    if (it != loops_.end()) {
      WhileContext& loop = *it->second;
      loop.back_prop = def.back_prop();
      loop.swap_memory = def.swap_memory();
      if (!def.maximum_iterations_name().empty()) {
        const Result<Output> most =
            graph_->FindOutput(prefix_ + def.maximum_iterations_name());
        if (most.ok() &&
            (most->dtype() == DType::kInt32 || most->dtype() == DType::kInt64))
          loop.maximum_iterations = *most;
      }
    }
    for (const proto::ControlFlowContextDef& inner : def.nested_contexts())
      Apply(inner);
  }
  void Apply(const proto::CondContextDef& def) {
    for (const proto::ControlFlowContextDef& inner : def.nested_contexts())
      Apply(inner);
  }

 private:
  void Apply(const proto::ControlFlowContextDef& def) {
    if (def.has_while_ctxt()) Apply(def.while_ctxt());
    if (def.has_cond_ctxt()) Apply(def.cond_ctxt());
  }

  const std::string prefix_;
  Graph* graph_;
  std::map<std::string, WhileContext*> loops_;  // By frame.
};

template <typename Def>
void ApplyCollection(const proto::MetaGraphDef& def, const char* key,
                     ContextReader* reader) {
  const auto it = def.collection_def().find(key);
  if (it == def.collection_def().end()) return;
  for (const std::string& bytes : it->second.bytes_list().value()) {
    Def context;
    if (ParseMessage(bytes, "ContextDef", &context).ok())
      reader->Apply(context);
  }
}

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
  if (!RecoverControlFlow(g).ok()) return;
  ContextReader reader(prefix, g);
  ApplyCollection<proto::WhileContextDef>(def, kWhileContexts, &reader);
  ApplyCollection<proto::CondContextDef>(def, kCondContexts, &reader);
}

Status ApplyContexts(std::string_view meta_graph, const std::string& prefix,
                     Graph* g) {
  proto::MetaGraphDef def;
  SLUICE_RETURN_IF_ERROR(ParseMessage(meta_graph, "MetaGraphDef", &def));
  ApplyContexts(def, prefix, g);
  return OkStatus();
}

}  // namespace sluice
