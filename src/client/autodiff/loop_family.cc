#include "client/autodiff/loop_family.h"

#include "client/autodiff/loop_family_internal.h"
#include "graph/op_def.h"

namespace sluice {

using namespace loops;  // NOLINT: the vocabulary of this file.

namespace {

// Adds an iteration counter to the loop and returns its variable; -1 on error.
int AddCounter(WhileContext* loop) {
  const int v =
      loop->OpenVariable(ScalarOf(DType::kInt32, 0), "iterations before");
  if (v < 0) return -1;
  const ContextScope in_body(loop);
  const Output next =
      Build("AddV2", {loop->variables()[static_cast<size_t>(v)].body_value,
                      ScalarOf(DType::kInt32, 1)});
  return loop->CloseVariable(v, next) ? v : -1;
}

}  // namespace

LoopMember* LoopFamily::Of(WhileContext* loop) {
  if (loop->member != nullptr) return loop->member.get();
  if (loop->loop_cond() == nullptr) return nullptr;
  const ExactLine line(LineOf(loop));
  const ContextScope around(loop->outer(), loop->in_outer_condition());
  const NameScope scope(loop->name() + "/iterations");
  const int counter = AddCounter(loop);
  if (counter < 0) return nullptr;
  auto family = std::make_shared<LoopFamily>();
  family->count_ = Output(loop->variable(counter).exit);
  LoopMember* const m = NewMember(family, loop, counter);
  m->done_variable_ = counter;
  family->first_ = m;
  return m;
}

LoopMember* LoopFamily::NewMember(const std::shared_ptr<LoopFamily>& family,
                                  WhileContext* loop, int index_variable) {
  std::shared_ptr<LoopMember> owned(new LoopMember(family, loop));
  LoopMember* const m = owned.get();
  loop->member = std::move(owned);
  m->index_variable_ = index_variable;
  m->index_ = loop->variable(index_variable).body_value;
  loop->graph()->SetAttr(loop->variable(index_variable).merge, kFamily,
                         AttrValue(family->count_.node->name()));
  return m;
}

LoopMember* LoopFamily::NewReverse(LoopMember* of, ControlFlowContext* outer) {
  WhileContext* const back = of->loop_;
  ControlFlow& contexts = back->graph()->control_flow();
  const std::shared_ptr<LoopFamily> family = of->family_;
  const std::string name =
      CurrentNamePrefix().empty()
          ? std::string("loop")
          : CurrentNamePrefix().substr(0, CurrentNamePrefix().size() - 1);
  WhileContext* const loop = contexts.NewWhile(name, name, outer);
  loop->parallel_iterations = back->parallel_iterations;
  loop->swap_memory = back->swap_memory;
  loop->forward = back;
  const bool descending = !of->descending_;
  const ExactLine line(LineOf(back));
  const ContextScope around(outer);
  const Output begin =
      descending ? Build("Sub", {family->count_, ScalarOf(DType::kInt32, 1)},
                         {}, "last")
                 : ScalarOf(DType::kInt32, 0);
  const int v = loop->OpenVariable(begin, "index", PartialShape::Scalar());
  if (v < 0) return nullptr;
  // (Before any use of outer values: the count may be another loop's.)
  Output again;
  {
    const ContextScope in_condition(loop, true);
    const Output now(loop->variable(v).merge);
    again = descending
                ? Build("GreaterEqual", {now, ScalarOf(DType::kInt32, 0)})
                : Build("Less", {now, family->count_});
  }
  if (!loop->SetCondition(again)) return nullptr;
  {
    const ContextScope in_body(loop);
    const Output next =
        Build(descending ? "Sub" : "AddV2",
              {loop->variable(v).body_value, ScalarOf(DType::kInt32, 1)});
    if (!loop->CloseVariable(v, next)) return nullptr;
  }
  LoopMember* const m = NewMember(family, loop, v);
  m->SetHooks(descending);
  return m;
}

Status LoopFamily::Recover(Graph* graph) {
  std::map<std::string, std::shared_ptr<LoopFamily>> families;
  for (WhileContext* loop : graph->control_flow().loops())
    if (loop->member != nullptr)
      families[loop->member->family_->count_.node->name()] =
          loop->member->family_;
  for (WhileContext* loop : graph->control_flow().loops()) {
    if (loop->member != nullptr) continue;
    for (size_t i = 0; i < loop->variables().size(); ++i) {
      const LoopVariable& v = loop->variables()[i];
      const std::string name = v.merge->AttrOr<std::string>(kFamily, "");
      if (name.empty()) continue;
      SLUICE_ASSIGN_OR_RETURN(const Output count, graph->FindOutput(name));
      std::shared_ptr<LoopFamily>& family = families[name];
      if (family == nullptr) {
        family = std::make_shared<LoopFamily>();
        family->count_ = count;
        // (Back edges lose shapes.)
        SLUICE_RETURN_IF_ERROR(graph->SetShape(count, PartialShape::Scalar()));
      }
      LoopMember* const m = NewMember(family, loop, static_cast<int>(i));
      if (v.exit == count.node) {
        family->first_ = m;
        m->done_variable_ = m->index_variable_;
      } else {
        m->SetHooks(v.merge->BoolAttr(kDescending));
        for (size_t k = 0; k < loop->variables().size(); ++k)
          if (loop->variables()[k].merge->BoolAttr(kDone))
            m->done_variable_ = static_cast<int>(k);
      }
      break;
    }
  }
  for (const auto& n : graph->nodes()) {
    const Output value = SavedValueOf(n.get());
    WhileContext* const home =
        value.valid() ? InnermostWhile(ContextOf(value)) : nullptr;
    if (home == nullptr || home->member == nullptr) continue;
    Output handle = n->input(0);
    while (handle.node->op().role == OpRole::kEnter ||
           handle.node->op().role == OpRole::kIdentity ||
           handle.node->op().role == OpRole::kSwitch)
      handle = handle.node->input(0);
    if (const Output outer = SavedValueOf(handle.node); outer.valid())
      handle = outer;
    SLUICE_ASSIGN_OR_RETURN(
        const Output whose,
        graph->FindOutput(handle.node->AttrOr<std::string>(kSavedValue, "")));
    auto& arrays = home->member->family_->arrays_;
    if (arrays.count(KeyOf(whose)) != 0) continue;
    // (As if it had been read twice: the last reader is unknown.)
    graph->SetAttr(handle.node, "clear_after_read", false);
    Array& array = arrays[KeyOf(whose)];
    array.handle = handle;
    array.reads = 2;
    array.last =
        graph->FindNode(handle.node->AttrOr<std::string>(kLastWrite, ""));
  }
  return OkStatus();
}

Output LoopFamily::SavedValueOf(const Node* node) {
  if (node->op_name() != "TensorArrayReadV3") return Output();
  const std::string name = node->AttrOr<std::string>(kSavedValue, "");
  if (name.empty()) return Output();
  return node->graph()->FindOutput(name).value_or(Output());
}

LoopFamily::Array* LoopFamily::ArrayOf(Output value, LoopMember* home) {
  const auto it = arrays_.find(KeyOf(value));
  if (it != arrays_.end()) return &it->second;
  const NoControlDependencies free;
  const NameScope scope(value.node->name() + "/saved");
  Output handle;
  {
    const ControlFlowContext* const in = home->loop_;
    const InContext here(in->outer(), value.node);
    handle = Build("TensorArrayV3", {ScalarOf(DType::kInt32, 0)},
                   {{"dtype", value.dtype()},
                    {"dynamic_size", true},
                    {"clear_after_read", true},
                    {"tensor_array_name", value.name()},
                    {kSavedValue, value.name()}},
                   "array", value.node->loc());
  }
  const InContext here(ContextOf(value), value.node);
  Node* const write =
      BuildNode("TensorArrayWriteV3",
                {handle, home->index_, value, ScalarOf(DType::kFloat, 0)},
                SwapsLike(home->loop_), "write", value.node->loc());
  if (write == nullptr) return nullptr;
  return &arrays_.emplace(KeyOf(value), Array{handle, 0, nullptr, write, home})
              .first->second;
}

void LoopFamily::WriteFor(const std::vector<Output>& results) {
  std::vector<Node*> open;
  std::set<const Node*> seen;
  const auto visit = [&](Node* n) {
    if (n != nullptr && seen.insert(n).second) open.push_back(n);
  };
  for (const Output& o : results) visit(o.node);
  while (!open.empty()) {
    Node* const n = open.back();
    open.pop_back();
    for (const Output& in : n->inputs()) visit(in.node);
    for (Node* c : n->control_inputs()) visit(c);
    if (!SavedValueOf(n).valid()) continue;
    WhileContext* const loop = InnermostWhile(ContextOf(n));
    if (loop == nullptr || loop->member == nullptr) continue;
    const auto& array_of = loop->member->family_->array_of_;
    const auto it = array_of.find(n);
    if (it == array_of.end() || it->second->write == nullptr) continue;
    Node* const write = std::exchange(it->second->write, nullptr);
    // (Until then reading it is an error; with a known shape it would give
    // zeros. The shape of a handle is unknown, since TensorFlow treats an
    // array's handle as a vector before a step and as a scalar during it.)
    if (write->input(2).dtype() != DType::kResource)
      n->graph()->SetAttr(it->second->handle.node, "element_shape",
                          AttrValue(write->input(2).shape()));
    it->second->home->WaitFor(write);
    visit(write);
  }
}

// The last value of a variable is the one that leaves the loop.
bool LoopFamily::SaveLast(Array* array, LoopMember* home,
                          const LoopVariable& v) {
  if (array->last != nullptr) return true;
  const InContext here(home->loop_->outer(), v.exit);
  const NameScope scope(v.exit->name() + "/saved");
  array->last = BuildNode(
      "TensorArrayWriteV3",
      {array->handle, count_, Output(v.exit), ScalarOf(DType::kFloat, 0)},
      SwapsLike(home->loop_), "write", v.exit->loc());
  if (array->last == nullptr) return false;
  home->loop_->graph()->SetAttr(array->handle.node, kLastWrite,
                                AttrValue(array->last->name()));
  WhileContext* const around = InnermostWhile(home->loop_->outer());
  if (around != nullptr && around->member != nullptr)
    around->member->WaitFor(array->last);
  return true;
}

Conditional* LoopFamily::OriginalOf(Conditional* c) const {
  const auto it = originals_.find(c);
  return it == originals_.end() ? c : it->second;
}

}  // namespace sluice
