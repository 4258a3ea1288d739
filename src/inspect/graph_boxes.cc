#include "inspect/graph_boxes.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "graph/control_flow_recovery.h"
#include "passes/lower_functional.h"

namespace sluice::show {
namespace {

// Nesting beyond this depth is not readable, and each line starts with one bar
// per level.
constexpr int kDeepest = 60;

// The maximum number of result lines of a closed box.
constexpr size_t kMaxResults = 12;

std::string TitleOf(const Part& part, ControlFlowContext* c) {
  if (const CondContext* cond = c->AsCond())
    return absl::StrCat("if ", cond->branch() == 1 ? "" : "not ",
                        cond->conditional()->pred().name(), "   (", c->name(),
                        ")");
  const WhileContext* loop = c->AsWhile();
  std::vector<std::string> variables;
  for (const LoopVariable& v : loop->variables())
    variables.push_back(
        absl::StrCat(v.name, " ", part.TypeAndShape(Output(v.merge))));
  return absl::StrCat("while ", c->name(), "   (",
                      loop->forward != nullptr ? "backwards; " : "",
                      "parallel_iterations ", loop->parallel_iterations, ")  ",
                      absl::StrJoin(variables, ", "));
}

std::string NameOf(const Output& o) {
  return !o.valid() ? "?" : o.index == 0 ? o.node->name() : o.name();
}

std::string Signature(const Part& part) {
  std::vector<std::string> args;
  for (Node* a : part.body->args)
    args.push_back(absl::StrCat(a->name(), " ", part.TypeAndShape(Output(a))));
  return absl::StrCat(part.body->ref.name, "(", absl::StrJoin(args, ", "), ")");
}

std::string Results(const FunctionBody& f) {
  std::vector<std::string> results;
  for (const Output& r : f.results) results.push_back(NameOf(r));
  return "return " + absl::StrJoin(results, ", ");
}

bool InUse(const Part* part, const std::string& function) {
  for (; part->body != nullptr; part = part->outer)
    if (part->body->ref.name == function) return true;
  return false;
}

FunctionRef Named(const Node& n, const char* attr) {
  return n.AttrOr<FunctionRef>(attr, {});
}

// The scope of gradients that a node or a context is in, or "".
std::string GradientsScope(const std::string& name) {
  size_t begin = 0;
  for (size_t slash; (slash = name.find('/', begin)) != std::string::npos;
       begin = slash + 1) {
    absl::string_view part(name.data() + begin, slash - begin);
    if (!absl::ConsumePrefix(&part, "gradients")) continue;
    if (part.empty() ||
        (absl::ConsumePrefix(&part, "_") && !part.empty() &&
         std::all_of(part.begin(), part.end(),
                     [](unsigned char c) { return absl::ascii_isdigit(c); })))
      return name.substr(0, slash);
  }
  return "";
}

bool IsWithin(const Box* box, const Box* outer) {
  while (box != nullptr && box != outer) box = box->outer;
  return box != nullptr;
}

// The known shapes of a body's arguments at the node that uses it.
NodeShapes ShapesOfBody(const Part& p) {
  // (May add nodes; errors are reported when the body is shown.)
  if (!RecoverControlFlow(p.graph).ok()) return {};
  std::vector<std::pair<const Node*, PartialShape>> known;
  const bool loop = p.kind == CallKind::kWhile || p.kind == CallKind::kFor;
  for (size_t i = 0; i < p.body->args.size(); ++i) {
    const int k = static_cast<int>(i);
    // (A For passes the iteration number to its body as the first argument.)
    const int at = loop ? k - (p.kind == CallKind::kFor) : p.first_arg + k;
    PartialShape shape;
    if (at < 0)
      shape = PartialShape::Scalar();
    else if (loop && at < p.caller->num_outputs())
      shape = p.outer->ShapeOf(Output(const_cast<Node*>(p.caller), at));
    else if (!loop && at < p.caller->num_inputs())
      shape = p.outer->ShapeOf(p.caller->input(at));
    known.emplace_back(p.body->args[i], shape);
  }
  return InferShapes(*p.graph, known).value_or(NodeShapes());
}

bool HasLoops(const Graph& g) {
  return std::any_of(g.nodes().begin(), g.nodes().end(), [](const auto& n) {
    return n->op().role == OpRole::kNextIteration;
  });
}

}  // namespace

const PartialShape& Part::ShapeOf(const Output& o) const {
  const auto id = static_cast<size_t>(o.node->id());
  return id < shapes.size() && static_cast<size_t>(o.index) < shapes[id].size()
             ? shapes[id][static_cast<size_t>(o.index)]
             : o.shape();
}

std::string Part::TypeAndShape(const Output& o) const {
  return absl::StrCat(DTypeName(o.dtype()), ShapeOf(o).ToString());
}

std::string FunctionsOf(const Node& n) {
  if (KindOfCall(n) == CallKind::kNone) return "";
  std::vector<std::string> names;
  for (const AttrDef& def : n.op().attrs)
    if (const AttrValue* v = n.FindAttr(def.name))
      ForEachFunction(*v, [&](const FunctionRef& f) {
        if (std::find(names.begin(), names.end(), f.name) == names.end())
          names.push_back(f.name);
      });
  return absl::StrJoin(names, ", ");
}

std::string Part::Line(const Node& n) const {
  std::vector<std::string> inputs;
  for (const Output& in : n.inputs()) inputs.push_back(NameOf(in));
  for (const Node* c : n.control_inputs()) inputs.push_back("^" + c->name());
  std::vector<std::string> outputs;
  for (int i = 0; i < n.num_outputs(); ++i)
    outputs.push_back(TypeAndShape(Output(const_cast<Node*>(&n), i)));
  const std::string functions = FunctionsOf(n);
  return absl::StrCat(n.name(), " = ", n.op_name(),
                      functions.empty() ? "" : "[" + functions + "]", "(",
                      absl::StrJoin(inputs, ", "), ")",
                      outputs.empty() ? "" : "  ", absl::StrJoin(outputs, ", "),
                      n.device().empty() ? "" : "  @" + n.device(),
                      n.loc().known() ? "  " + n.loc().ToString() : "");
}

std::vector<std::string> Results(const Box& box) {
  std::vector<std::string> lines;
  for (const Node* n : box.results) {
    if (lines.size() == kMaxResults) {
      lines.push_back(
          absl::StrCat("gives ", box.results.size() - lines.size(), " more"));
      break;
    }
    std::vector<std::string> outputs;
    for (int i = 0; i < n->num_outputs(); ++i)
      outputs.push_back(
          box.part->TypeAndShape(Output(const_cast<Node*>(n), i)));
    lines.push_back(
        absl::StrCat("gives ", n->name(), "  ", absl::StrJoin(outputs, ", ")));
  }
  return lines;
}

void Print(const Box& box, int depth, std::string* out) {
  const std::string bar = [depth] {
    std::string s;
    for (int i = 0; i < depth; ++i) s += "│ ";
    return s;
  }();
  for (const Box::Item& item : box.items) {
    if (item.box != nullptr) {
      absl::StrAppend(out, bar, "┌ ", item.box->title, "\n");
      if (item.box->closed)
        for (const std::string& line : Results(*item.box))
          absl::StrAppend(out, bar, "│ ", line, "\n");
      else
        Print(*item.box, depth + 1, out);
      absl::StrAppend(out, bar, "└\n");
    } else if (const std::vector<const Part*>* inside =
                   item.part->Inside(item.node);
               inside == nullptr || (*inside)[0]->kind != CallKind::kCall) {
      absl::StrAppend(out, bar, item.part->Line(*item.node), "\n");
    }  // (The line of a call is its box's title.)
  }
  if (!box.last.empty()) absl::StrAppend(out, bar, box.last, "\n");
}

Status LowerForShow(Graph* g) {
  SLUICE_RETURN_IF_ERROR(RecoverControlFlow(g));
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Node*> order, TopologicalOrder(*g));
  for (Node* n : order)
    if (CanLowerInPlace(*n)) SLUICE_RETURN_IF_ERROR(LowerInPlace(*g, n));
  return OkStatus();
}

// ---- Boxes ------------------------------------------------------------------

Result<std::unique_ptr<Boxes>> Boxes::Of(Graph* g, const BoxOptions& options) {
  auto boxes = std::make_unique<Boxes>();
  boxes->options_ = options;
  boxes->room_ = options.most;
  auto whole = std::make_unique<Part>();
  whole->graph = g;
  SLUICE_RETURN_IF_ERROR(RecoverControlFlow(g));  // (May add nodes.)
  if (HasLoops(*g)) {
    SLUICE_ASSIGN_OR_RETURN(whole->shapes, InferShapes(*g));
  }
  whole->box = boxes->NewBox(nullptr, Box::kWhole, "", "");
  boxes->parts_.push_back(std::move(whole));
  SLUICE_RETURN_IF_ERROR(boxes->Fill(boxes->parts_[0].get()));
  // (parts_ grows.) An invalid body is shown as far as possible.
  for (size_t i = 1; i < boxes->parts_.size(); ++i)
    if (const Status s = boxes->Fill(boxes->parts_[i].get()); !s.ok())
      boxes->parts_[i]->box->last = std::string(s.message());
  return boxes;
}

Box* Boxes::NewBox(Box* in, Box::Kind kind, std::string title,
                   std::string label) {
  all_.push_back(std::make_unique<Box>());
  Box* const box = all_.back().get();
  box->kind = kind;
  box->title = std::move(title);
  box->label = std::move(label);
  box->outer = in;
  box->number = static_cast<int>(all_.size());
  if (in != nullptr) in->items.push_back({nullptr, nullptr, box});
  return box;
}

Box* Boxes::BoxOf(const Part* part, ControlFlowContext* c) {
  if (c == nullptr) return part->box;
  if (const auto it = boxes_.find({part, c}); it != boxes_.end())
    return it->second;
  const std::string title = TitleOf(*part, c);
  Box* const box =
      NewBox(GradientsBox(BoxOf(part, c->outer()), c->name()),
             c->AsWhile() != nullptr ? Box::kLoop : Box::kBranch, title, title);
  boxes_[{part, c}] = box;
  return box;
}

// The box for the scope `name` within `in`: a box of gradients if the name
// indicates that and `in` is not in such a box.
Box* Boxes::GradientsBox(Box* in, const std::string& name) {
  const std::string scope = GradientsScope(name);
  if (scope.empty()) return in;
  for (const Box* b = in; b != nullptr; b = b->outer)
    if (b->scope == scope) return in;
  Box*& box = gradients_[{in, scope}];
  if (box == nullptr) {
    box = NewBox(nullptr, Box::kGradients, "", "");
    box->outer = in;
    box->scope = scope;
    box->attached = false;
    box->closed = !options_.gradients;
  }
  return box;
}

void Boxes::Attach(Box* box) {
  if (box->attached) return;
  box->attached = true;
  box->outer->items.push_back({nullptr, nullptr, box});
}

void Boxes::Add(Part* part, const Node* n, Box* in) {
  const Box* fold = nullptr;
  for (Box* b = in; b != nullptr; b = b->outer) {
    if (b->kind == Box::kGradients) ++b->nodes;
    if (b->closed) fold = b;
  }
  ++(fold == nullptr ? shown_ : folded_);
  if (fold != nullptr) part->folded[n] = fold;
  if (fold != nullptr || !Open(part, n, in))
    in->items.push_back({n, part, nullptr});
}

// The nodes of closed boxes that are read outside of them, or not at all.
void Boxes::FindResults(const Part& part, const std::vector<Box*>& closed) {
  if (closed.empty()) return;
  std::unordered_map<const Node*, bool> read;  // True: read outside.
  for (const auto& n : part.graph->nodes())
    for (const Output& in : n->inputs())
      if (const Box* fold = in.valid() ? part.FoldOf(in.node) : nullptr)
        read[in.node] |= part.FoldOf(n.get()) != fold;
  for (const auto& n : part.graph->nodes()) {
    const Box* const fold = part.FoldOf(n.get());
    if (fold == nullptr || n->num_outputs() == 0) continue;
    const auto it = read.find(n.get());
    if (it != read.end() && !it->second) continue;
    for (Box* b : closed)
      if (b == fold) b->results.push_back(n.get());
  }
}

Status Boxes::Fill(Part* part) {
  SLUICE_RETURN_IF_ERROR(RecoverControlFlow(part->graph));
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Node*> order,
                          TopologicalOrder(*part->graph));
  std::unordered_map<const Node*, Box*> box_of;
  std::vector<Box*> gradients;
  const size_t first_box = all_.size();
  for (const Node* n : order) {
    if (!options_.constants && n->op().role == OpRole::kConst) continue;
    if (part->body != nullptr && n->op().role == OpRole::kArg) continue;
    Box* const in = GradientsBox(BoxOf(part, ContextOf(n)), n->name());
    // A box of gradients comes before its readers, and therefore after most of
    // the nodes that it reads.
    const auto reads = [&](const Node* from) {
      const auto it = box_of.find(from);
      if (it == box_of.end()) return;
      for (Box* b = it->second; b != nullptr; b = b->outer)
        if (!b->attached && !IsWithin(in, b)) Attach(b);
    };
    for (const Output& o : n->inputs())
      if (o.valid()) reads(o.node);
    for (const Node* c : n->control_inputs()) reads(c);
    box_of[n] = in;
    Add(part, n, in);
  }
  for (size_t i = first_box; i < all_.size(); ++i)
    if (Box* b = all_[i].get();
        b->kind == Box::kGradients && IsWithin(b, part->box)) {
      Attach(b);
      b->part = part;
      b->label = absl::StrCat(b->scope, "   (", b->nodes,
                              b->nodes == 1 ? " node" : " nodes",
                              b->closed ? ", folded)" : ")");
      b->title = b->label;
      if (b->closed) gradients.push_back(b);
    }
  FindResults(*part, gradients);
  if (part->body != nullptr) part->box->last = Results(*part->body);
  return OkStatus();
}

// Creates boxes for the bodies of `n`, if it has any and they fit.
bool Boxes::Open(Part* part, const Node* n, Box* in) {
  const CallKind actual = KindOfCall(*n);
  const CallKind kind =
      actual == CallKind::kSavingCall ? CallKind::kCall : actual;
  std::vector<Use> uses;
  int first_arg = kind == CallKind::kFor ? 3 : 1;
  switch (actual) {
    case CallKind::kNone:
    case CallKind::kGradient:
    case CallKind::kSavedGradient:
      return false;
    case CallKind::kSavingCall:
      first_arg = 0;
      uses.push_back({Named(*n, "f"), "call ", Box::kCall});
      break;
    case CallKind::kCall:
      uses.push_back({CalledFunction(*n, &first_arg), "call ", Box::kCall});
      break;
    case CallKind::kIf:
      uses.push_back({Named(*n, "then_branch"),
                      "if " + NameOf(n->input(0)) + "   (" + n->name() + ")",
                      Box::kBranch});
      uses.push_back(
          {Named(*n, "else_branch"),
           "if not " + NameOf(n->input(0)) + "   (" + n->name() + ")",
           Box::kBranch});
      break;
    case CallKind::kCase: {
      const auto branches = n->AttrOr<AttrValue::Functions>("branches", {});
      for (size_t i = 0; i < branches.size(); ++i)
        uses.push_back(
            {branches[i],
             absl::StrCat("case ", i,
                          i + 1 == branches.size() ? " or else" : "", " of ",
                          NameOf(n->input(0)), "   (", n->name(), ")"),
             Box::kBranch});
      break;
    }
    case CallKind::kWhile:
      first_arg = 0;
      uses.push_back({Named(*n, "cond"), "condition", Box::kPart});
      uses.push_back({Named(*n, "body"), "body", Box::kPart});
      break;
    case CallKind::kFor:
      uses.push_back({Named(*n, "body"), "body", Box::kPart});
      break;
  }
  if (uses.empty()) return false;
  for (const Use& u : uses)
    if (InUse(part, u.ref.name)) return false;
  std::vector<const FunctionBody*> bodies;
  int nodes = 0;
  bool fits = part->depth < kDeepest;
  for (size_t i = 0; fits && i < uses.size(); ++i) {
    const Result<const FunctionBody*> body =
        part->graph->function_library().Instantiate(uses[i].ref);
    if (!body.ok()) return false;
    bodies.push_back(*body);
    nodes += (*body)->graph->num_nodes();
    fits = nodes <= room_;
  }
  if (!fits) {
    ++left_out_;
    return false;
  }
  room_ -= nodes;
  if (kind == CallKind::kWhile || kind == CallKind::kFor) {
    const std::string title = absl::StrCat(
        kind == CallKind::kFor ? "for " : "while ", n->name(),
        kind == CallKind::kFor
            ? ""
            : absl::StrCat("   (parallel_iterations ",
                           n->AttrOr<int64_t>("parallel_iterations", 10), ")"));
    in = NewBox(in, Box::kLoop, title, title);
    in->items.push_back({n, part, nullptr});
  }
  std::vector<const Part*>& inside = part->inside[n];
  for (size_t i = 0; i < uses.size(); ++i) {
    auto p = std::make_unique<Part>();
    p->graph = bodies[i]->graph.get();
    p->number = static_cast<int>(parts_.size());
    p->depth = part->depth + 1;
    p->body = bodies[i];
    p->outer = part;
    p->caller = n;
    p->kind = kind;
    p->condition = kind == CallKind::kWhile && i == 0;
    p->first_arg = first_arg;
    p->shapes = ShapesOfBody(*p);
    const std::string& what = uses[i].title;
    if (kind == CallKind::kCall)
      p->box =
          NewBox(in, Box::kCall,
                 absl::StrCat(what, Signature(*p), "   (", part->Line(*n), ")"),
                 absl::StrCat(what, uses[i].ref.name, "   (", n->name(), ")"));
    else
      p->box = NewBox(in, uses[i].kind, absl::StrCat(what, "  ", Signature(*p)),
                      what);
    inside.push_back(p.get());
    parts_.push_back(std::move(p));
  }
  // A conditional's node joins the results of its branches. A call has no line,
  // but nodes that wait for it may need a place.
  if (kind != CallKind::kWhile && kind != CallKind::kFor)
    (kind == CallKind::kCall ? inside[0]->box : in)
        ->items.push_back({n, part, nullptr});
  return true;
}

Shown Boxes::Resolve(const Part* part, Output o) const {
  while (o.valid()) {
    if (part->body != nullptr && o.node->op().role == OpRole::kArg) {
      const auto& args = part->body->args;
      const int k = static_cast<int>(
          std::find(args.begin(), args.end(), o.node) - args.begin());
      if (part->kind == CallKind::kWhile || part->kind == CallKind::kFor)
        return {part->outer, part->caller,
                part->kind == CallKind::kFor ? std::max(0, k - 1) : k};
      const int input = part->first_arg + k;
      if (input >= part->caller->num_inputs()) return {};
      o = part->caller->input(input);
      part = part->outer;
      continue;
    }
    const std::vector<const Part*>* const inside = part->Inside(o.node);
    if (inside == nullptr || (*inside)[0]->kind != CallKind::kCall)
      return {part, o.node, o.index};
    const auto index = static_cast<size_t>(o.index);
    part = (*inside)[0];
    if (index >= part->body->results.size()) return {};
    o = part->body->results[index];
  }
  return {};
}

}  // namespace sluice::show
