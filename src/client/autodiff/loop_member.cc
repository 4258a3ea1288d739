// The values that one loop of a family reads from the others, and the order
// that this imposes.
#include <algorithm>
#include <optional>

#include "client/autodiff/loop_family_internal.h"
#include "graph/frames.h"
#include "graph/op_def.h"

namespace sluice {

using namespace loops;  // NOLINT: the vocabulary of this file.

namespace {

// Zeros that are cheaper to keep than to create each time.
std::optional<Tensor> SmallZeros(DType type, const PartialShape& shape) {
  constexpr int64_t kMost = 64;
  if (!shape.fully_known() || shape.num_elements() > kMost) return std::nullopt;
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

bool IsConst(const Node* n) { return n->op_name() == "Const"; }

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
  if (next.node->op_name() != "AddV2" && next.node->op_name() != "Add")
    return false;
  const Output value(v.switch_node, 1);
  const Output a = ResolveAlias(next.node->input(0)),
               b = ResolveAlias(next.node->input(1));
  return is(v.enter->input(0), 0) &&
         ((a.SameAs(value) && is(b, 1)) || (b.SameAs(value) && is(a, 1)));
}

}  // namespace

// ---- Order ------------------------------------------------------------------

void LoopMember::SetHooks(bool descending) {
  descending_ = descending;
  loop_->graph()->SetAttr(loop_->variable(index_variable_).merge, kDescending,
                          AttrValue(descending));
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
  loop_->graph()->SetAttr(loop_->variable(v).merge, kDone, AttrValue(true));
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
  attrs[kSavedValue] = value.name();
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
