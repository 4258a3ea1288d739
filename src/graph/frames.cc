#include "graph/frames.h"

#include "graph/graph.h"
#include "graph/hidden_attributes.h"

namespace sluice {
namespace {

// For messages. An _Arg that stands for a fed edge is called by that edge.
std::string Named(const Node& n) {
  const auto edge = n.AttrOr<std::string>(kFedEdgeAttr, "");
  return edge.empty() ? absl::StrCat("'", n.name(), "'")
                      : absl::StrCat("the fed '", edge, "'");
}

bool BeginsFunction(const Node& n) {
  return n.num_inputs() == 0 && n.op().role != OpRole::kCall &&
         !FunctionOf(n).empty();
}

}  // namespace

bool IsBackEdge(const Node& from, const Node& to) {
  return from.op().role == OpRole::kNextIteration &&
         to.op().role == OpRole::kMerge;
}

bool IsConstantEnter(const Node& n) {
  return n.op().role == OpRole::kEnter && n.BoolAttr("is_constant");
}

bool IsFloatingConstant(const Node& n) {
  return n.op().role == OpRole::kConst && n.control_inputs().empty();
}

bool IsAlias(const Node& n) {
  return (n.op().role == OpRole::kIdentity ||
          n.op().role == OpRole::kLoopCond) &&
         n.control_inputs().empty() && n.num_inputs() == 1 &&
         IsRef(n.input(0).dtype()) == IsRef(n.output_type(0));
}

Output ResolveAlias(Output o) {
  while (IsAlias(*o.node)) o = o.node->input(0);
  return o;
}

std::string FunctionOf(const Node& n) {
  switch (n.op().role) {
    case OpRole::kArg:
    case OpRole::kRetval:
    case OpRole::kCall:
      return n.AttrOr<std::string>("function", "");
    default:
      return n.kind() == OpKind::kFunctionStart
                 ? n.AttrOr<std::string>("function", "")
                 : "";
  }
}

Result<Frames> Frames::Of(const Graph& graph, const std::vector<Node*>& order) {
  Frames frames(graph.nodes().size());
  frames.frames_.emplace_back();
  for (const Node* n : order) SLUICE_RETURN_IF_ERROR(frames.Assign(*n));
  return frames;
}

int Frames::function_frame(const std::string& name) const {
  const auto it = ids_.find({-1, name});
  return it == ids_.end() ? -1 : it->second;
}

int Frames::FunctionFrame(const Node& n) {
  const auto [it, fresh] = ids_.try_emplace({-1, FunctionOf(n)}, size());
  if (fresh) {
    GraphFrame f;
    f.kind = GraphFrame::Kind::kFunction;
    f.name = it->first.second;
    f.first = &n;
    frames_.push_back(std::move(f));
  }
  return it->second;
}

Result<int> Frames::LoopFrame(const Node& enter, int parent) {
  SLUICE_ASSIGN_OR_RETURN(std::string name,
                          enter.Attr<std::string>("frame_name"));
  const auto [it, fresh] = ids_.try_emplace({parent, std::move(name)}, size());
  if (fresh) {
    GraphFrame f;
    f.kind = GraphFrame::Kind::kLoop;
    f.name = it->first.second;
    f.parent = parent;
    f.depth = mutable_frame(parent).depth + 1;
    f.first = &enter;
    f.parallel_iterations = enter.IntAttr("parallel_iterations");
    frames_.push_back(std::move(f));
  }
  mutable_frame(it->second).enters.push_back(&enter);
  return it->second;
}

// All inputs of a node come from one frame, in which it runs.
Result<int> Frames::FrameOfInputs(const Node& n) {
  int f = 0;
  const Node* first = nullptr;
  if (BeginsFunction(n)) {
    f = FunctionFrame(n);
    first = &n;
    places_[static_cast<size_t>(n.id())].output_frame = f;
  }
  const auto meet = [&](const Node* from) {
    if (from == nullptr || IsFloatingConstant(*from) || IsBackEdge(*from, n))
      return OkStatus();
    if (first == nullptr) {
      first = from;
      f = output_frame(from);
    } else if (output_frame(from) != f) {
      return InvalidArgument("frames: expected all inputs from one frame, got ",
                             Named(*first), " in ", Describe(f), " and ",
                             Named(*from), " in ", Describe(output_frame(from)),
                             "; ", n.Describe());
    }
    return OkStatus();
  };
  for (const Output& in : n.inputs()) SLUICE_RETURN_IF_ERROR(meet(in.node));
  for (const Node* c : n.control_inputs()) SLUICE_RETURN_IF_ERROR(meet(c));
  return f;
}

Status Frames::Assign(const Node& n) {
  SLUICE_ASSIGN_OR_RETURN(const int f, FrameOfInputs(n));
  Place& place = places_[static_cast<size_t>(n.id())];
  place.frame = place.output_frame = f;
  mutable_frame(f).nodes.push_back(&n);
  switch (n.op().role) {
    case OpRole::kEnter: {
      SLUICE_ASSIGN_OR_RETURN(place.output_frame, LoopFrame(n, f));
      break;
    }
    case OpRole::kExit:
    case OpRole::kNextIteration: {
      GraphFrame& loop = mutable_frame(f);
      if (!loop.is_loop())
        return InvalidArgument(n.op_name(),
                               ": expected to be inside a frame, got ",
                               Describe(f), "; ", n.Describe());
      if (n.op().role == OpRole::kExit) {
        place.output_frame = loop.parent;
        loop.exits.push_back(&n);
      } else {
        loop.next_iterations.push_back(&n);
      }
      break;
    }
    case OpRole::kLoopCond:
      mutable_frame(f).loop_conds.push_back(&n);
      break;
    case OpRole::kRetval:
      if (!FunctionOf(n).empty()) mutable_frame(f).returns.push_back(&n);
      break;
    case OpRole::kCall:
      FunctionFrame(n);
      break;
    default:
      break;
  }
  return OkStatus();
}

Status Frames::CheckBackEdges(const std::vector<Node*>& order) const {
  for (const Node* n : order)
    for (const Output& in : n->inputs()) {
      if (in.node == nullptr)
        return InvalidArgument(n->op_name(),
                               ": expected every input connected, got an open "
                               "back edge; ",
                               n->Describe());
      if (IsBackEdge(*in.node, *n) && frame_of(in.node) != frame_of(n))
        return InvalidArgument(
            "frames: expected the NextIteration of a Merge in its frame, ",
            Describe(frame_of(n)), ", got '", in.node->name(), "' in ",
            Describe(frame_of(in.node)), "; ", n->Describe());
    }
  return OkStatus();
}

std::string Frames::Describe(int f) const {
  constexpr int kMaxLevels = 4;
  std::string out;
  for (int level = 0; f > 0; ++level, f = (*this)[f].parent) {
    if (level > 0) absl::StrAppend(&out, " in ");
    if (level == kMaxLevels) return out + "...";
    const GraphFrame& frame = (*this)[f];
    absl::StrAppend(&out, frame.is_function() ? "function '" : "frame '",
                    frame.name, "'");
    if (frame.is_loop())
      absl::StrAppend(&out, " (entered at '", frame.first->name(), "')");
  }
  return out.empty() ? "the root" : out;
}

}  // namespace sluice
