#include "client/autodiff/loop_family.h"

#include <algorithm>
#include <optional>

#include "graph/device_scope.h"
#include "graph/exact_line.h"
#include "graph/frames.h"
#include "graph/graph.h"
#include "graph/hidden_attributes.h"
#include "graph/op_def.h"

namespace sluice {
namespace {

// On the reads and writes of a loop that may keep saved values in host memory
// (WhileOptions::swap_memory); devices check it.
AttrMap SwapsLike(const WhileContext* loop) {
  if (!loop->swap_memory) return {};
  return {{kSwapMemoryAttr, true}};
}

// ---- Contexts.

// The line of the call that made a loop.
SourceLoc LineOf(const WhileContext* loop) { return loop->loop_cond()->loc(); }

// Builds nodes in the context of a loop long after the loop was built: only the
// context applies, not the caller's scopes.
class InContext {
 public:
  InContext(ControlFlowContext* context, const Node* beside)
      : context_(context), device_(beside->device()), line_(beside->loc()) {}

 private:
  const ContextScope context_;
  const NoDeviceScope no_scopes_;
  const DeviceScope device_;
  const ExactLine line_;
};

// ---- Values.

using ValueKey = std::pair<Node*, int>;

ValueKey KeyOf(const Output& o) { return {o.node, o.index}; }

// ---- Variables of loops.

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

// Zeros that are cheaper to keep than to create each time.
std::optional<Tensor> SmallZeros(DType type, const PartialShape& shape) {
  constexpr int64_t kMax = 64;
  if (!shape.fully_known() || shape.num_elements() > kMax) return std::nullopt;
  const Result<Shape> known = shape.ToShape();
  if (!known.ok()) return std::nullopt;
  Result<Tensor> zeros = Tensor::Zeros(type, *known);
  return zeros.ok() ? std::optional<Tensor>(*std::move(zeros)) : std::nullopt;
}

// True if every iteration passes the variable on unchanged.
bool IsInvariant(const LoopVariable& v) {
  return v.next != nullptr && v.switch_node != nullptr &&
         ResolveAlias(v.next->input(0)).SameAs(Output(v.switch_node, 1));
}

bool IsConst(const Node* n) { return n->op().role == OpRole::kConst; }

// True if the variable starts at 0 and is incremented by 1: it is the index.
bool CountsIterations(const LoopVariable& v) {
  if (v.next == nullptr || v.switch_node == nullptr) return false;
  const auto is = [](const Output& o, int32_t number) {
    const Output bare = ResolveAlias(o);
    if (!IsConst(bare.node) || bare.dtype() != DType::kInt32) return false;
    const auto t = bare.node->Attr<Tensor>("value");
    return t.ok() && t->num_elements() == 1 && t->rank() == 0 &&
           t->raw_scalar<int32_t>() == number;
  };
  const Output next = ResolveAlias(v.next->input(0));
  if (next.node->kind() != OpKind::kAdd) return false;
  const Output value(v.switch_node, 1);
  const Output a = ResolveAlias(next.node->input(0)),
               b = ResolveAlias(next.node->input(1));
  return is(v.enter->input(0), 0) &&
         ((a.SameAs(value) && is(b, 1)) || (b.SameAs(value) && is(a, 1)));
}

}  // namespace

// ---- The family -------------------------------------------------------------

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
  loop->graph()->SetAttr(loop->variable(index_variable).merge, kLoopFamilyAttr,
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
  loop->batch = back->batch;
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
      const std::string name =
          v.merge->AttrOr<std::string>(kLoopFamilyAttr, "");
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
        m->SetHooks(v.merge->BoolAttr(kLoopDescendingAttr));
        for (size_t k = 0; k < loop->variables().size(); ++k)
          if (loop->variables()[k].merge->BoolAttr(kLoopDoneAttr))
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
    SLUICE_ASSIGN_OR_RETURN(const Output whose,
                            graph->FindOutput(handle.node->AttrOr<std::string>(
                                kSavedValueAttr, "")));
    auto& arrays = home->member->family_->arrays_;
    if (arrays.count(KeyOf(whose)) != 0) continue;
    // (As if it had been read twice: the last reader is unknown.)
    graph->SetAttr(handle.node, "clear_after_read", false);
    Array& array = arrays[KeyOf(whose)];
    array.handle = handle;
    array.reads = 2;
    array.last =
        graph->FindNode(handle.node->AttrOr<std::string>(kLastWriteAttr, ""));
  }
  return OkStatus();
}

Output LoopFamily::SavedValueOf(const Node* node) {
  if (node->kind() != OpKind::kTensorArrayRead) return Output();
  const std::string name = node->AttrOr<std::string>(kSavedValueAttr, "");
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
                    {kSavedValueAttr, value.name()}},
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
  home->loop_->graph()->SetAttr(array->handle.node, kLastWriteAttr,
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

// The members: what one loop reads from the others, and the order that this
// imposes.

// ---- Order ------------------------------------------------------------------

void LoopMember::SetHooks(bool descending) {
  descending_ = descending;
  loop_->graph()->SetAttr(loop_->variable(index_variable_).merge,
                          kLoopDescendingAttr, AttrValue(descending));
  loop_->capture_hook = [this](Output value) { return Import(value); };
  loop_->rewrite_hook = [this](NodeSpec* spec) { Rewrite(spec); };
}

Node* LoopMember::Done() {
  if (done_variable_ >= 0) return loop_->variable(done_variable_).exit;
  const ExactLine line(LineOf(loop_));
  // A separate variable, which a step without later loops does not run: the
  // index would also run the writes.
  const ContextScope around(loop_->outer(), loop_->in_outer_condition());
  const int v = loop_->OpenVariable(ScalarOf(DType::kInt32, 0), "done");
  if (v < 0) return nullptr;
  {
    const ContextScope in_body(loop_);
    const Output next = Build("Identity", {loop_->variable(v).body_value});
    if (!next.valid() || !loop_->CloseVariable(v, next)) return nullptr;
  }
  done_variable_ = v;
  loop_->graph()->SetAttr(loop_->variable(v).merge, kLoopDoneAttr,
                          AttrValue(true));
  return loop_->variable(v).exit;
}

void LoopMember::WaitFor(Node* node) {
  Graph* const g = loop_->graph();
  if (trigger_ != nullptr) {
    g->AddControlEdge(node, trigger_).IgnoreError();
    return;
  }
  Node* const done = Done();
  if (done == nullptr) return;
  const ExactLine line(LineOf(loop_));
  const ContextScope in_body(loop_);
  // (It also runs after dead nodes: those of an untaken branch.)
  const ControlDependencies after({node});
  trigger_ = BuildNode("ControlTrigger", {}, {}, "written");
  if (trigger_ == nullptr) return;
  // (Its value waits, not the NextIteration, which does not run as a node if
  // the whole loop is planned ahead.)
  g->AddControlEdge(trigger_,
                    loop_->variable(done_variable_).next->input(0).node)
      .IgnoreError();
  // Outer loops that other loops follow must not finish before this loop does.
  WhileContext* const around = InnermostWhile(loop_->outer());
  if (around != nullptr && around->member != nullptr)
    around->member->WaitFor(done);
}

void LoopMember::RunAfter(LoopMember* other) {
  // The first loop's count is the initial value of the others. Within loops of
  // one family the order follows from those.
  if (other == family_->first_ || !after_.insert(other).second) return;
  if (Node* const done = other->Done()) BeginAfter(done);
}

void LoopMember::BeginAfter(Node* node) {
  // (If the two are in mirrored loops, the order follows from those.)
  if (!IsInside(InnermostWhile(loop_->outer()),
                InnermostWhile(ControlContextOf(node))))
    return;
  const Result<Node*> here =
      CaptureControl(loop_->outer(), node, LineOf(loop_));
  if (!here.ok()) {
    loop_->graph()->RecordError(here.status());
    return;
  }
  loop_->graph()
      ->AddControlEdge(*here, loop_->variable(index_variable_).enter)
      .IgnoreError();
}

// ---- Contexts ---------------------------------------------------------------

Conditional* ConditionalLike(const Conditional& original,
                             ControlFlowContext* outer) {
  Graph* const graph = original.pred().graph();
  const ExactLine line(original.pred().node->loc());
  const Result<Output> pred = Capture(outer, original.pred(), "pred");
  if (!pred.ok()) {
    graph->RecordError(pred.status());
    return nullptr;
  }
  const ContextScope around(outer);
  const NameScope scope(original.name() + "_grad");
  Conditional* const made =
      graph->control_flow().NewConditional(scope.prefix(), *pred, outer);
  made->device = original.device;
  made->AddPivots();
  return made;
}

ControlFlowContext* LoopMember::Mirror(ControlFlowContext* c) {
  if (c == nullptr || c->AsWhile() != nullptr) return loop_;
  Conditional* const here = Mirror(c->AsCond()->conditional());
  return here == nullptr ? nullptr : here->branch(c->AsCond()->branch());
}

Conditional* LoopMember::Mirror(Conditional* c) {
  if (InnermostWhile(c->outer()) == loop_) return c;
  Conditional* const original = family_->OriginalOf(c);
  if (InnermostWhile(original->outer()) == loop_) return original;
  const auto it = mirrors_.find(original);
  if (it != mirrors_.end()) return it->second;
  ControlFlowContext* const outer = Mirror(original->outer());
  Conditional* const made = ConditionalLike(*original, outer);
  if (made == nullptr) return nullptr;
  mirrors_[original] = made;
  family_->originals_[made] = original;
  return made;
}

// ---- Values -----------------------------------------------------------------

Output LoopMember::Import(Output value) {
  // Follow the value back to its origin.
  for (;;) {
    WhileContext* const home = InnermostWhile(ContextOf(value));
    LoopMember* const from = home == nullptr ? nullptr : home->member.get();
    if (from == nullptr || from->family_ != family_) return Output();
    if (from == this) return value;
    Node* const n = value.node;
    if (const Output saved = LoopFamily::SavedValueOf(n); saved.valid()) {
      value = saved;
      continue;
    }
    const Output bare = ResolveAlias(value);
    if (!(bare.SameAs(value))) {
      value = bare;
      continue;
    }
    const auto capture = [&](ControlFlowContext* into, Output around) {
      const Result<Output> here = Capture(into, around, "saved");
      if (here.ok()) return *here;
      loop_->graph()->RecordError(here.status());
      return Output();
    };
    if (IsConst(n)) {
      ControlFlowContext* where = CurrentContext();
      if (InnermostWhile(where) != loop_) where = loop_;
      Output& mine = constants_[{n, where}];
      if (!mine.valid()) {
        const InContext here(where, n);
        mine = Build("Const", {},
                     {{"value", *n->FindAttr("value")},
                      {"dtype", *n->FindAttr("dtype")}},
                     "Const");
      }
      return mine;
    }
    if (IsConstantEnter(*n)) return capture(loop_, n->input(0));
    const int variable = home->VariableOf(n);
    if (variable >= 0 && n->op().role != OpRole::kExit) {
      const LoopVariable& v = home->variable(variable);
      if (variable == from->index_variable_ || CountsIterations(v))
        return index_;
      if (IsInvariant(v)) return capture(loop_, v.enter->input(0));
      value = Output(v.switch_node, 1);
    } else if (n->op().role == OpRole::kSwitch) {
      if (Conditional* c = loop_->graph()->control_flow().ConditionalOf(n)) {
        Conditional* const here = Mirror(c);
        return here == nullptr
                   ? Output()
                   : capture(here->branch(value.index), n->input(0));
      }
    }
    return Read(value, from, from->NextOf(value));
  }
}

int LoopMember::NextOf(const Output& value) const {
  if (descending_ || IsRef(value.dtype()) || ContextOf(value) != loop_ ||
      value.node->op().role == OpRole::kSwitch)
    return -1;
  for (size_t i = 0; i < loop_->variables().size(); ++i) {
    const LoopVariable& v = loop_->variables()[i];
    if (v.next != nullptr && v.exit != nullptr && v.switch_node != nullptr &&
        ResolveAlias(v.next->input(0)).SameAs(value))
      return static_cast<int>(i);
  }
  return -1;
}

Output LoopMember::Read(Output value, LoopMember* from, int next_of) {
  const auto it = reads_.find(KeyOf(value));
  if (it != reads_.end()) return it->second;
  const Output saved =
      next_of < 0 ? value
                  : Output(from->loop_->variable(next_of).switch_node, 1);
  LoopFamily::Array* const array = family_->ArrayOf(saved, from);
  if (array == nullptr) return Output();
  Output place = index_;
  if (next_of >= 0) {
    if (!family_->SaveLast(array, from, from->loop_->variable(next_of)))
      return Output();
    BeginAfter(array->last);
    if (!next_index_.valid()) {
      const InContext here(loop_, index_.node);
      next_index_ = Build("AddV2", {index_, ScalarOf(DType::kInt32, 1)}, {},
                          "next_index");
    }
    place = next_index_;
  }
  ControlFlowContext* const where = Mirror(ContextOf(value));
  if (where == nullptr) return Output();
  RunAfter(from);
  const InContext here(where, value.node);
  AttrMap attrs = SwapsLike(from->loop_);
  attrs["dtype"] = value.dtype();
  attrs[kSavedValueAttr] = value.name();
  const Output read = Build(
      "TensorArrayReadV3", {array->handle, place, ScalarOf(DType::kFloat, 0)},
      std::move(attrs), value.node->name() + "/saved/read");
  if (!read.valid()) return Output();
  loop_->graph()->SetShape(read, value.shape()).IgnoreError();
  // The last reader may take over the buffer; with several readers the last one
  // is unknown.
  if (++array->reads == 2 ||
      InnermostWhile(loop_->outer()) != InnermostWhile(from->loop_->outer())) {
    const WhileContext* const a = InnermostWhile(loop_->outer());
    const WhileContext* const b = InnermostWhile(from->loop_->outer());
    const bool once = array->reads == 1 && a != nullptr && b != nullptr &&
                      a->member != nullptr && b->member != nullptr &&
                      a->member->family_ == b->member->family_;
    if (!once)
      loop_->graph()->SetAttr(array->handle.node, "clear_after_read", false);
  }
  reads_[KeyOf(value)] = read;
  family_->array_of_[read.node] = array;
  return read;
}

void LoopMember::Rewrite(NodeSpec* spec) {
  if (spec->inputs.size() != 1 || !spec->inputs[0].valid()) return;
  const bool zeros = spec->op == "ZerosLike";
  if (!zeros && spec->op != "Shape" && spec->op != "Size" && spec->op != "Rank")
    return;
  const Output value = spec->inputs[0];
  WhileContext* const home = InnermostWhile(ContextOf(value));
  if (home == nullptr || home == loop_ || home->member == nullptr ||
      home->member->family_ != family_ || !IsPlain(RemoveRef(value.dtype())))
    return;
  const std::string op = zeros ? "Shape" : spec->op;
  const auto it = spec->attrs.find("out_type");
  const DType type =
      it == spec->attrs.end() ? DType::kInt32 : *it->second.get<DType>();
  Output shape;
  if (!zeros || !value.shape().fully_known()) {
    Output& made = family_->shapes_[{op + DTypeName(type), KeyOf(value)}];
    if (!made.valid()) {
      const InContext here(ContextOf(value), value.node);
      AttrMap attrs;
      if (op != "Rank") attrs["out_type"] = AttrValue(type);
      made = Build(op, {value}, attrs, value.node->name() + "/" + op);
    }
    shape = made;
  } else {
    const std::optional<Tensor> small =
        SmallZeros(RemoveRef(value.dtype()), value.shape());
    if (small.has_value()) {
      spec->op = "Const";
      spec->inputs.clear();
      spec->attrs = {{"value", *small}, {"dtype", small->dtype()}};
      return;
    }
    const Dims& dims = value.shape().dims();
    shape = Constant(Tensor::Vector<int64_t>(
        std::span<const int64_t>(dims.begin(), dims.end())));
  }
  if (!shape.valid()) return;
  if (zeros) {
    spec->op = "Fill";
    spec->inputs = {shape, ScalarOf(RemoveRef(value.dtype()), 0)};
  } else {
    spec->op = "Identity";
    spec->inputs = {shape};
  }
  spec->attrs.clear();
}

}  // namespace sluice
