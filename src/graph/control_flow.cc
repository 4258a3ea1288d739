#include "graph/control_flow.h"

#include <algorithm>
#include <utility>

#include "graph/exact_line.h"
#include "graph/frames.h"
#include "graph/graph.h"
#include "graph/hidden_attributes.h"

namespace sluice {
namespace {

using Lock = std::lock_guard<std::recursive_mutex>;

void RecordAt(Graph* g, const Status& s, SourceLoc loc) {
  if (g == &CurrentGraph()) {  // Uses the line of AtLine.
    BuildError(s, loc);
    return;
  }
  g->RecordError(WithLine(s, loc));
}

// Adds a node that moves tokens, without a device: placement puts it where its
// loop's tokens are used. Users do not build such nodes, so no ambient scope
// but AtLine applies.
Node* AddMover(Graph* g, ControlFlowContext* context, const std::string& op,
               const std::string& name, std::vector<Output> inputs,
               std::vector<Node*> after, AttrMap attrs, SourceLoc loc) {
  NodeSpec spec;
  spec.op = op;
  spec.name = g->UniqueName(name);
  if (op == "Merge" || op == "RefMerge")
    spec.pending_input_types.assign(inputs.size(), inputs[0].dtype());
  spec.inputs = std::move(inputs);
  spec.control_inputs = std::move(after);
  spec.attrs = std::move(attrs);
  const SourceLoc line = CurrentLine();
  spec.loc = line.known() ? line : loc;
  const Result<Node*> node = g->AddNode(std::move(spec));
  if (!node.ok()) {
    g->RecordError(node.status());
    return nullptr;
  }
  g->control_flow().SetContext(*node, context);
  return *node;
}

// The name of a loop variable's initial value, for messages.
std::string Entering(const Node& merge) {
  const Node* const enter = merge.input(0).node;
  return enter == nullptr || enter->num_inputs() == 0 ||
                 !enter->input(0).valid()
             ? "it"
             : absl::StrCat("'", enter->input(0).name(), "'");
}

// "Enter" or "RefEnter", depending on the value's type.
std::string ForType(const char* op, const Output& value) {
  return IsRef(value.dtype()) ? absl::StrCat("Ref", op) : op;
}

// The pivot that new nodes of a context wait for if no other input ties them to
// it.
Output PivotOf(ControlFlowContext* context, bool in_condition) {
  if (CondContext* cond = context->AsCond()) return cond->pivot;
  WhileContext* loop = context->AsWhile();
  return in_condition ? loop->condition_pivot() : loop->body_pivot();
}

// The pivot of the innermost context that has one, from `context` outwards.
Output NearestPivot(ControlFlowContext* context, bool in_condition) {
  for (; context != nullptr; context = context->outer()) {
    if (const Output pivot = PivotOf(context, in_condition); pivot.valid())
      return pivot;
    in_condition = context->in_outer_condition();
  }
  return Output();
}

// True if `shape` is at least as precise as `bound`.
bool AtMost(const PartialShape& shape, const PartialShape& bound) {
  if (!bound.rank_known()) return true;
  if (shape.rank() != bound.rank()) return false;
  for (int i = 0; i < bound.rank(); ++i)
    if (bound.dim(i) >= 0 && bound.dim(i) != shape.dim(i)) return false;
  return true;
}

Status NotReachable(const char* what, const std::string& name,
                    ControlFlowContext* home, ControlFlowContext* context) {
  const WhileContext* inner = InnermostWhile(home);
  const WhileContext* here = InnermostWhile(context);
  return InvalidArgument(
      what, ": expected one from outside of loops",
      here == nullptr
          ? ""
          : absl::StrCat(" or of loop '", here->name(), "' or around it"),
      ", got '", name, "' of loop '", inner == nullptr ? "" : inner->name(),
      "' (values leave a loop as its results)");
}

// Captures a value into `context`, through every context between its own and
// that; `target` is the context that uses it.
Result<Output> CaptureFrom(ControlFlowContext* home,
                           ControlFlowContext* context,
                           ControlFlowContext* target, Output value,
                           const std::string& consumer, SourceLoc loc) {
  if (home == context) return value;
  if (context == nullptr || IsInside(home, context)) {
    // A value of a nested branch: it may be dead but is in the same frame.
    if (InnermostWhile(home) == InnermostWhile(context)) return value;
    return NotReachable("input", value.name(), home, target);
  }
  WhileContext* loop = context->AsWhile();
  if (loop != nullptr && loop->capture_hook) {
    const size_t errors_before = value.graph()->errors().size();
    const Output hooked = loop->capture_hook(value);
    if (hooked.valid()) return hooked;
    if (value.graph()->errors().size() > errors_before)
      return value.graph()->errors().back();
  }
  SLUICE_ASSIGN_OR_RETURN(
      const Output around,
      CaptureFrom(home, context->outer(), target, value, consumer, loc));
  // (A hook may have captured it directly into this context.)
  if (IsInside(ContextOf(around), context)) return around;
  const Output taken =
      loop != nullptr ? loop->CaptureValue(around, consumer, loc)
                      : context->AsCond()->conditional()->CaptureValue(
                            around, context->AsCond()->branch(), consumer, loc);
  if (taken.valid()) return taken;
  const Status* const error = value.graph()->ErrorOf(value.graph()->Failure());
  return error == nullptr ? Internal("capture of '", value.name(), "' failed")
                          : *error;
}

// Whether the value, which is captured into `context`, is available only in
// iterations of the innermost loop (`in_condition`: including the last, false
// one).
bool HoldsToIteration(ControlFlowContext* context, bool in_condition,
                      const Node* node) {
  if (IsConstantEnter(*node)) return false;
  const WhileContext* const loop = context->AsWhile();
  return loop == nullptr || in_condition || !loop->RunsOnceMoreThanBody(node);
}

}  // namespace

// ---- Questions --------------------------------------------------------------

ControlFlowContext* ContextOf(const Node* node) {
  return node->graph()->control_flow().ContextOf(node);
}

ControlFlowContext* ControlContextOf(const Node* node) {
  ControlFlowContext* c = ContextOf(node);
  if (c == nullptr || node->op().role != OpRole::kExit) return c;
  WhileContext* loop = c->AsWhile();
  return loop != nullptr && loop->VariableOf(node) >= 0 ? loop->outer() : c;
}

ControlFlowContext* ContextOf(const Output& value) {
  const Node* node = value.node;
  if (node->op().role == OpRole::kSwitch)
    if (Conditional* c = node->graph()->control_flow().ConditionalOf(node))
      return c->branch(value.index);
  return ControlContextOf(node);
}

bool IsInside(const ControlFlowContext* a, const ControlFlowContext* b) {
  while (a != nullptr && a != b) a = a->outer();
  return a == b;
}

WhileContext* InnermostWhile(ControlFlowContext* c) {
  for (; c != nullptr; c = c->outer())
    if (WhileContext* loop = c->AsWhile()) return loop;
  return nullptr;
}

WhileContext* OutermostWhile(ControlFlowContext* c) {
  WhileContext* found = nullptr;
  for (; c != nullptr; c = c->outer())
    if (WhileContext* loop = c->AsWhile()) found = loop;
  return found;
}

ControlFlowContext* CommonContext(ControlFlowContext* a,
                                  ControlFlowContext* b) {
  while (!IsInside(b, a)) a = a->outer();
  return a;
}

// ---- Captures ---------------------------------------------------------------

Result<Output> Capture(ControlFlowContext* context, Output value,
                       const std::string& consumer, SourceLoc loc) {
  return CaptureFrom(ContextOf(value), context, context, value, consumer, loc);
}

Result<Node*> CaptureControl(ControlFlowContext* context, Node* node,
                             SourceLoc loc) {
  ControlFlowContext* home = ControlContextOf(node);
  WhileContext* frame = InnermostWhile(context);
  if (InnermostWhile(home) == frame) return node;
  if (frame == nullptr || IsInside(home, frame))
    return NotReachable("control input", node->name(), home, context);
  SLUICE_ASSIGN_OR_RETURN(Node* const around,
                          CaptureControl(frame->outer(), node, loc));
  Node* const taken = frame->AddNodeAfter(around, loc);
  if (taken != nullptr) return taken;
  return node->graph()->status();
}

Status PrepareForContext(ControlFlowContext* context, bool in_condition,
                         NodeSpec* spec) {
  const auto fail = [spec](const Status& s) {
    return Status(
        s.code(),
        absl::StrCat(s.message(), "; node '", spec->name, "' (", spec->op, ")",
                     spec->loc.known()
                         ? absl::StrCat(" at ", spec->loc.ToString())
                         : ""));
  };
  bool held = false;  // Tied to each iteration, or to the branch.
  for (Node*& c : spec->control_inputs) {
    if (context != nullptr && c->graph() != context->graph()) continue;
    held |= context != nullptr && IsInside(ControlContextOf(c), context) &&
            HoldsToIteration(context, in_condition, c);
    const Result<Node*> here = CaptureControl(context, c, spec->loc);
    if (!here.ok()) return fail(here.status());
    c = *here;
  }
  for (Output& in : spec->inputs) {
    // (AddNode reports inputs from another graph.)
    if (!in.valid() || (context != nullptr && in.graph() != context->graph()))
      continue;
    const Result<Output> here = Capture(context, in, spec->name, spec->loc);
    if (!here.ok()) return fail(here.status());
    in = *here;
    held |=
        context == nullptr || HoldsToIteration(context, in_condition, in.node);
  }
  if (context == nullptr || held) return OkStatus();
  if (context->AsCond() != nullptr && !spec->inputs.empty()) return OkStatus();
  if (const Output pivot = PivotOf(context, in_condition); pivot.valid())
    if (std::find(spec->control_inputs.begin(), spec->control_inputs.end(),
                  pivot.node) == spec->control_inputs.end())
      spec->control_inputs.push_back(pivot.node);
  return OkStatus();
}

// ---- ControlFlow ------------------------------------------------------------

Conditional* ControlFlow::NewConditional(const std::string& name, Output pred,
                                         ControlFlowContext* outer,
                                         bool in_outer_condition) {
  auto made = std::make_unique<Conditional>();
  made->graph_ = graph_;
  made->name_ = name;
  made->pred_ = pred;
  for (int i = 0; i < 2; ++i) {
    std::unique_ptr<CondContext> branch(new CondContext(
        graph_, name, outer, in_outer_condition, made.get(), i));
    made->branches_[i] = branch.get();
    contexts_.push_back(std::move(branch));
  }
  conditionals_.push_back(std::move(made));
  return conditionals_.back().get();
}

WhileContext* ControlFlow::NewWhile(const std::string& name,
                                    const std::string& frame_name,
                                    ControlFlowContext* outer,
                                    bool in_outer_condition) {
  std::unique_ptr<WhileContext> loop(
      new WhileContext(graph_, name, outer, in_outer_condition, frame_name));
  loops_.push_back(loop.get());
  contexts_.push_back(std::move(loop));
  return loops_.back();
}

void ControlFlow::SetContext(const Node* node, ControlFlowContext* context) {
  const auto id = static_cast<size_t>(node->id());
  if (id >= context_of_.size()) {
    if (context == nullptr) return;
    context_of_.resize(id + 1);
  }
  context_of_[id] = context;
}

Conditional* ControlFlow::ConditionalOf(const Node* node) const {
  const auto it = conditional_of_.find(node);
  return it == conditional_of_.end() ? nullptr : it->second;
}

// ---- Conditional ------------------------------------------------------------

void Conditional::AdoptSwitch(Node* node) {
  switches_.emplace(node->input(0), node);
  graph_->control_flow().conditional_of_.emplace(node, this);
}

void Conditional::AdoptMerge(Node* node) {
  merges_.push_back(node);
  graph_->control_flow().conditional_of_.emplace(node, this);
}

void Conditional::AddPivots(SourceLoc loc) {
  const Lock lock(graph_->mutex());
  for (int i = 0; i < 2; ++i) {
    const Output side = CaptureValue(pred_, i, name_, loc);
    if (!side.valid()) return;
    branches_[i]->pivot = Output(AddMover(
        graph_, branches_[i], "Identity",
        name_ + (i == 1 ? "/switch_t" : "/switch_f"), {side}, {}, {}, loc));
  }
}

Output Conditional::CaptureValue(Output value, int branch,
                                 const std::string& consumer, SourceLoc loc) {
  const Lock lock(graph_->mutex());
  const auto it = switches_.find(value);
  if (it != switches_.end()) return Output(it->second, branch);
  Node* node = AddMover(graph_, outer(), ForType("Switch", value),
                        (consumer.empty() ? name_ : consumer) + "/Switch",
                        {value, pred_}, {}, {}, loc);
  if (node == nullptr) return Output();
  if (!device.empty() && value.dtype() != DType::kResource &&
      !IsRef(value.dtype()))
    graph_->SetDevice(node, device);
  AdoptSwitch(node);
  return Output(node, branch);
}

Node* Conditional::AddMerge(Output if_false, Output if_true, SourceLoc loc) {
  const Lock lock(graph_->mutex());
  std::vector<Output> inputs = {if_false, if_true};
  for (size_t i = 0; i < 2; ++i) {
    if (!inputs[i].valid()) return nullptr;
    const Result<Output> in =
        Capture(branches_[i], inputs[i], name_ + "/Merge", loc);
    if (!in.ok()) {
      RecordAt(graph_, in.status(), loc);
      return nullptr;
    }
    inputs[i] = *in;
  }
  if (IsRef(inputs[0].dtype()) != IsRef(inputs[1].dtype())) {
    const size_t ref = IsRef(inputs[0].dtype()) ? 0 : 1;
    inputs[ref] =
        Output(AddMover(graph_, branches_[ref], "Identity", name_ + "/Identity",
                        {inputs[ref]}, {}, {}, loc));
    if (!inputs[ref].valid()) return nullptr;
  }
  Node* node = AddMover(graph_, outer(), ForType("Merge", inputs[0]),
                        name_ + "/Merge", inputs, {}, {}, loc);
  if (node == nullptr) return nullptr;
  if (!device.empty()) graph_->SetDevice(node, device);
  AdoptMerge(node);
  return node;
}

// ---- WhileContext -----------------------------------------------------------

int WhileContext::VariableOf(const Node* node) const {
  const auto it = variable_of_.find(node);
  return it == variable_of_.end() ? -1 : it->second;
}

Output WhileContext::condition_pivot() const {
  return variables_.empty() || variables_[0].merge == nullptr
             ? Output()
             : Output(variables_[0].merge);
}

Output WhileContext::body_pivot() const {
  return variables_.empty() ? Output() : variables_[0].body_value;
}

bool WhileContext::RunsOnceMoreThanBody(const Node* node) const {
  return node->id() < condition_end_ && node->op().role != OpRole::kSwitch &&
         ContextOf(node) == this;
}

void WhileContext::Index(int variable) {
  const LoopVariable& v = variables_[static_cast<size_t>(variable)];
  for (const Node* n :
       {v.enter, v.merge, v.switch_node, v.next, v.exit, v.body_value.node})
    if (n != nullptr) variable_of_[n] = variable;
}

int WhileContext::AdoptVariable(LoopVariable variable) {
  variables_.push_back(std::move(variable));
  const int index = static_cast<int>(variables_.size()) - 1;
  Index(index);
  return index;
}

void WhileContext::AdoptConstant(Node* enter) {
  constants_.emplace(enter->input(0), enter);
}

Node* WhileContext::AddEnter(Output value, bool constant,
                             const std::string& name,
                             const std::vector<Node*>& after, SourceLoc loc) {
  Node* const enter =
      AddMover(graph(), this, ForType("Enter", value), name, {value}, after,
               {{"frame_name", frame_name_},
                {"is_constant", constant},
                {"parallel_iterations", parallel_iterations}},
               loc);
  if (batch && enter != nullptr) graph()->SetAttr(enter, kBatchAttr, true);
  return enter;
}

int WhileContext::OpenVariable(Output init, const std::string& name,
                               const std::optional<PartialShape>& invariant,
                               const std::vector<Node*>& after, SourceLoc loc) {
  const Lock lock(graph()->mutex());
  if (!init.valid()) return -1;
  const Result<Output> around =
      Capture(outer(), init, this->name() + "/Enter", loc);
  if (!around.ok()) {
    RecordAt(graph(), around.status(), loc);
    return -1;
  }
  std::vector<Node*> controls = after;
  // A constant of an outer loop is also available in its last, dead iteration,
  // in which this loop must not begin.
  if (outer() != nullptr &&
      !HoldsToIteration(outer(), in_outer_condition(), around->node))
    if (const Output pivot = NearestPivot(outer(), in_outer_condition());
        pivot.valid())
      controls.push_back(pivot.node);
  LoopVariable v;
  v.name = name.empty() ? absl::StrCat("variable ", variables_.size()) : name;
  const PartialShape shape = invariant.value_or(around->shape());
  if (!AtMost(around->shape(), shape)) {
    RecordAt(graph(),
             InvalidArgument("loop '", this->name(), "': ", v.name,
                             ": expected an initial value that fits its shape "
                             "invariant ",
                             shape.ToString(), ", got shape ",
                             around->shape().ToString()),
             loc);
    return -1;
  }
  v.enter = AddEnter(*around, false, this->name() + "/Enter", controls, loc);
  if (v.enter == nullptr) return -1;
  v.merge = AddMover(graph(), this, ForType("Merge", Output(v.enter)),
                     this->name() + "/Merge", {Output(v.enter), Output()}, {},
                     {}, loc);
  if (v.merge == nullptr) return -1;
  if (const Status s = graph()->SetShape(Output(v.merge), shape); !s.ok()) {
    RecordAt(graph(), s, loc);
    return -1;
  }
  const int index = AdoptVariable(std::move(v));
  if (loop_cond_ != nullptr && !AddSwitch(index, loc)) return -1;
  return index;
}

bool WhileContext::AddSwitch(int variable, SourceLoc loc) {
  LoopVariable& v = variables_[static_cast<size_t>(variable)];
  const Output value(v.merge);
  v.switch_node =
      AddMover(graph(), this, ForType("Switch", value), name() + "/Switch",
               {value, Output(loop_cond_)}, {}, {}, loc);
  if (v.switch_node == nullptr) return false;
  v.body_value = Output(
      AddMover(graph(), this, IsRef(value.dtype()) ? "RefIdentity" : "Identity",
               name() + "/Identity", {Output(v.switch_node, 1)}, {}, {}, loc));
  v.exit = AddMover(graph(), this, ForType("Exit", value), name() + "/Exit",
                    {Output(v.switch_node, 0)}, {}, {}, loc);
  Index(variable);
  return v.body_value.valid() && v.exit != nullptr;
}

bool WhileContext::SetCondition(Output pred, SourceLoc loc) {
  const Lock lock(graph()->mutex());
  if (!pred.valid()) return false;
  if (RemoveRef(pred.dtype()) != DType::kBool ||
      !pred.shape().CompatibleWith(PartialShape::Scalar())) {
    RecordAt(graph(),
             InvalidArgument("loop '", name(),
                             "': expected a condition that is a boolean "
                             "scalar, got ",
                             DTypeName(pred.dtype()), " of shape ",
                             pred.shape().ToString()),
             loc);
    return false;
  }
  const Result<Output> here = Capture(this, pred, name() + "/LoopCond", loc);
  if (!here.ok()) {
    RecordAt(graph(), here.status(), loc);
    return false;
  }
  // A loop-invariant predicate must still be sent once in each iteration.
  std::vector<Node*> after;
  if (IsConstantEnter(*here->node) && condition_pivot().valid())
    after.push_back(condition_pivot().node);
  loop_cond_ = AddMover(graph(), this, "LoopCond", name() + "/LoopCond",
                        {*here}, after, {}, loc);
  if (loop_cond_ == nullptr) return false;
  condition_end_ = loop_cond_->id();
  for (size_t i = 0; i < variables_.size(); ++i)
    if (!AddSwitch(static_cast<int>(i), loc)) return false;
  return true;
}

bool WhileContext::CloseVariable(int index, Output next, SourceLoc loc) {
  const Lock lock(graph()->mutex());
  if (!next.valid() || index < 0) return false;
  LoopVariable& v = variables_[static_cast<size_t>(index)];
  const Result<Output> here =
      Capture(this, next, name() + "/NextIteration", loc);
  if (!here.ok()) {
    RecordAt(graph(), here.status(), loc);
    return false;
  }
  const Output value(v.merge);
  if (RemoveRef(here->dtype()) != RemoveRef(value.dtype())) {
    RecordAt(graph(),
             InvalidArgument("loop '", name(), "': ", v.name, ": expected ",
                             DTypeName(value.dtype()), " from the body, as ",
                             Entering(*v.merge), " enters the loop, got ",
                             DTypeName(here->dtype())),
             loc);
    return false;
  }
  if (!AtMost(here->shape(), value.shape())) {
    RecordAt(
        graph(),
        InvalidArgument(
            "loop '", name(), "': ", v.name, ": expected shape ",
            value.shape().ToString(), " after every iteration, as ",
            Entering(*v.merge), " enters the loop, got ",
            here->shape().ToString(),
            " from the body (use a less specific shape invariant to allow it)"),
        loc);
    return false;
  }
  // A constant, or a value of the condition, would also arrive in the last
  // iteration, which does not run the body.
  std::vector<Node*> after;
  if ((IsConstantEnter(*here->node) || RunsOnceMoreThanBody(here->node)) &&
      body_pivot().valid())
    after.push_back(body_pivot().node);
  const bool ref = IsRef(v.merge->input_type(1)) && IsRef(here->dtype());
  v.next = AddMover(graph(), this, ref ? "RefNextIteration" : "NextIteration",
                    name() + "/NextIteration", {*here}, after, {}, loc);
  if (v.next == nullptr) return false;
  Index(index);
  const Status s = graph()->SetBackEdge(v.merge, 1, Output(v.next));
  if (!s.ok()) RecordAt(graph(), s, loc);
  return s.ok();
}

Node* WhileContext::AddExit(int index, SourceLoc loc) {
  const Lock lock(graph()->mutex());
  LoopVariable& v = variables_[static_cast<size_t>(index)];
  if (v.exit == nullptr && v.switch_node != nullptr) {
    const Output last(v.switch_node, 0);
    v.exit = AddMover(graph(), this, ForType("Exit", last), name() + "/Exit",
                      {last}, {}, {}, loc);
    Index(index);
  }
  return v.exit;
}

Output WhileContext::CaptureValue(Output value, const std::string& consumer,
                                  SourceLoc loc) {
  const Lock lock(graph()->mutex());
  const auto it = constants_.find(value);
  if (it != constants_.end()) return Output(it->second);
  Node* enter = AddEnter(
      value, true, (consumer.empty() ? name() : consumer) + "/Enter", {}, loc);
  if (enter == nullptr) return Output();
  AdoptConstant(enter);
  return Output(enter);
}

Node* WhileContext::AddNodeAfter(Node* node, SourceLoc loc) {
  const Lock lock(graph()->mutex());
  const auto it = controls_.find(node);
  if (it != controls_.end()) return it->second;
  // Only data can enter a frame: use a constant that runs after the node.
  NodeSpec spec;
  spec.op = "Const";
  spec.name = graph()->UniqueName(name() + "/after/" + node->name());
  spec.control_inputs = {node};
  spec.attrs = {{"value", Tensor::Scalar(true)}, {"dtype", DType::kBool}};
  spec.device = node->device();
  const SourceLoc line = CurrentLine();
  spec.loc = line.known() ? line : loc;
  Status s = PrepareForContext(outer(), in_outer_condition(), &spec);
  const Result<Node*> done =
      s.ok() ? graph()->AddNode(std::move(spec)) : Result<Node*>(s);
  if (!done.ok()) {
    RecordAt(graph(), done.status(), loc);
    return nullptr;
  }
  graph()->control_flow().SetContext(*done, outer());
  const Output enter = CaptureValue(Output(*done), (*done)->name(), loc);
  if (enter.valid()) controls_.emplace(node, enter.node);
  return enter.node;
}

}  // namespace sluice
