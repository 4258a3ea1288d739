// Conditionals and loops of primitives, for Inliner.
#include <algorithm>

#include "passes/inliner.h"

namespace sluice {

// One Switch per argument, one Merge per result.
Result<Values> Inliner::Cond(Output pred, const std::vector<Output>& args,
                             const Place& at, const Emit& on_true,
                             const Emit& on_false) {
  if (RemoveRef(pred.dtype()) != DType::kBool) {
    SLUICE_ASSIGN_OR_RETURN(pred, Add1(at, "ToBool", "pred", {pred}));
  }
  SLUICE_ASSIGN_OR_RETURN(Node * sides,
                          Add(at, "Switch", "Switch", {pred, pred}));
  Conditional* cond = nullptr;
  if (records_contexts()) {
    cond = to_->control_flow().NewConditional(at.prefix + "cond", pred,
                                              at.context, at.in_condition);
    cond->AdoptSwitch(sides);
  }
  Place places[2];
  std::vector<Output> inputs[2];
  for (int side : {1, 0}) {
    SLUICE_ASSIGN_OR_RETURN(
        Node * pivot, Add(at, "Identity", side == 1 ? "switch_t" : "switch_f",
                          {Output(sides, side)}));
    places[side] = at.Under(pivot);
    if (cond == nullptr) continue;
    places[side].context = cond->branch(side);
    places[side].in_condition = false;
    cond->branch(side)->pivot = Output(pivot);
    RecordContext(pivot, cond->branch(side));
  }
  for (const Output& arg : args) {
    // A constant needs no Switch: its readers depend on the pivot.
    if (arg.node->op().role == OpRole::kConst &&
        arg.node->control_inputs().empty()) {
      for (int side : {0, 1}) inputs[side].push_back(arg);
      continue;
    }
    SLUICE_ASSIGN_OR_RETURN(Node * sw,
                            Add(at, "Switch", "Switch", {arg, pred}));
    if (cond != nullptr) cond->AdoptSwitch(sw);
    for (int side : {0, 1}) {
      inputs[side].emplace_back(sw, side);
      places[side].anchored->insert(sw);
    }
  }
  Values v[2];
  SLUICE_ASSIGN_OR_RETURN(v[1], on_true(places[1], inputs[1]));
  SLUICE_ASSIGN_OR_RETURN(v[0], on_false(places[0], inputs[0]));
  if (v[0].outputs.size() != v[1].outputs.size())
    return InvalidArgument("branches: expected equal numbers of results, got ",
                           v[1].outputs.size(), " and ", v[0].outputs.size());
  const auto merge = [&](const Output& f, const Output& t) -> Result<Output> {
    SLUICE_ASSIGN_OR_RETURN(const Output from_f, Anchored(places[0], f));
    SLUICE_ASSIGN_OR_RETURN(const Output from_t, Anchored(places[1], t));
    // Depends on the outer pivot through its inputs.
    SLUICE_ASSIGN_OR_RETURN(const Output m, Add1(at.Under(nullptr), "Merge",
                                                 "Merge", {from_f, from_t}));
    if (at.pivot != nullptr) at.anchored->insert(m.node);
    if (cond != nullptr) cond->AdoptMerge(m.node);
    return m;
  };
  Values out;
  for (size_t i = 0; i < v[0].outputs.size(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(const Output m,
                            merge(v[0].outputs[i], v[1].outputs[i]));
    out.outputs.push_back(m);
  }
  if (v[0].effects.empty() && v[1].effects.empty()) {
    if (out.outputs.empty()) out.effects = {sides};
    return out;
  }
  Output done[2];
  for (int side : {0, 1}) {
    SLUICE_ASSIGN_OR_RETURN(
        Node * n, Add(places[side], "Identity", "done",
                      {Output(places[side].pivot)}, {}, v[side].effects));
    done[side] = Output(n);
  }
  SLUICE_ASSIGN_OR_RETURN(const Output m, merge(done[0], done[1]));
  out.effects = {m.node};
  return out;
}

// Branches [begin, end): half of them on each side of a conditional.
Result<Values> Inliner::Case(const std::vector<FunctionRef>& branches,
                             size_t begin, size_t end,
                             const std::vector<Output>& index_and_args,
                             const Place& at) {
  if (end - begin == 1)
    return Function(branches[begin], FunctionPart::kBody, false,
                    {index_and_args.begin() + 1, index_and_args.end()},
                    at.Below(absl::StrCat("branch", begin)));
  const size_t middle = begin + (end - begin) / 2;
  SLUICE_ASSIGN_OR_RETURN(
      const Output bound,
      IntConstant(at, static_cast<int64_t>(middle), DType::kInt32));
  SLUICE_ASSIGN_OR_RETURN(const Output pred,
                          Add1(at, "Less", "pred", {index_and_args[0], bound}));
  const auto half = [&](size_t from, size_t to) -> Emit {
    return [this, &branches, from, to](const Place& p,
                                       const std::vector<Output>& in) {
      return Case(branches, from, to, in, p);
    };
  };
  return Cond(pred, index_and_args, at, half(begin, middle), half(middle, end));
}

Result<Values> Inliner::Loop(const std::vector<Output>& vars,
                             std::vector<PartialShape> shapes,
                             const std::vector<bool>& pass_through,
                             int64_t parallel, const Place& at,
                             const Emit& cond, const Emit& body) {
  const std::string frame = Unique(at.prefix + "frame");
  std::vector<bool> constant = pass_through;
  std::vector<Output> all = vars;
  // The pivots depend on a variable that is not a loop constant.
  if (std::all_of(constant.begin(), constant.end(), [](bool b) { return b; })) {
    if (all.empty()) {
      SLUICE_ASSIGN_OR_RETURN(const Output token,
                              IntConstant(at, 0, DType::kInt32));
      all.push_back(token);
      shapes.push_back(PartialShape::Scalar());
      constant.push_back(false);
    } else {
      constant[0] = false;
    }
  }
  WhileContext* loop = nullptr;
  if (records_contexts()) {
    loop = to_->control_flow().NewWhile(at.prefix + "while", frame, at.context,
                                        at.in_condition);
    loop->parallel_iterations =
        static_cast<int>(std::min<int64_t>(parallel, 1 << 20));
  }
  const size_t n = all.size();
  std::vector<LoopVariable> told(n);
  std::vector<Output> current(n);
  std::vector<Node*> merges(n, nullptr);
  for (size_t i = 0; i < n; ++i) {
    // An outer constant is also a constant inside.
    if (constant[i] && all[i].node->op().role == OpRole::kConst &&
        all[i].node->control_inputs().empty()) {
      current[i] = all[i];
      continue;
    }
    SLUICE_ASSIGN_OR_RETURN(Node * enter,
                            Add(at, "Enter", "Enter", {all[i]},
                                {{"frame_name", frame},
                                 {"is_constant", bool{constant[i]}},
                                 {"parallel_iterations", parallel}}));
    current[i] = Output(enter);
    RecordContext(enter, loop);
    if (constant[i]) {
      if (loop != nullptr) loop->AdoptConstant(enter);
      continue;
    }
    NodeSpec merge;
    merge.op = "Merge";
    merge.name = Unique(at.prefix + "Merge");
    merge.inputs = {current[i], Output()};
    merge.pending_input_types = {DType::kInvalid, all[i].dtype()};
    merge.device = at.device;
    merge.loc = at.loc;
    SLUICE_ASSIGN_OR_RETURN(merges[i], to_->AddNode(std::move(merge)));
    RecordContext(merges[i], loop);
    told[i].enter = enter;
    told[i].merge = merges[i];
    current[i] = Output(merges[i]);
    SLUICE_RETURN_IF_ERROR(to_->SetShape(current[i], shapes[i]));
  }
  const auto first = static_cast<size_t>(
      std::find(constant.begin(), constant.end(), false) - constant.begin());
  Place in_cond = at.Under(merges[first]);
  in_cond.context = loop;
  in_cond.in_condition = true;
  for (const Node* m : merges)
    if (m != nullptr) in_cond.anchored->insert(m);
  const auto own = [&](std::vector<Output> v) {
    v.resize(vars.size());
    return v;
  };
  SLUICE_ASSIGN_OR_RETURN(const Values test, cond(in_cond, own(current)));
  if (test.outputs.size() != 1)
    return InvalidArgument("condition: expected one result, got ",
                           test.outputs.size());
  Output pred = test.outputs[0];
  if (RemoveRef(pred.dtype()) != DType::kBool) {
    SLUICE_ASSIGN_OR_RETURN(pred, Add1(in_cond, "ToBool", "pred", {pred}));
  }
  SLUICE_ASSIGN_OR_RETURN(pred, Add1(in_cond, "LoopCond", "LoopCond", {pred}));
  if (loop != nullptr) loop->AdoptLoopCond(pred.node);

  Place in_body;
  std::vector<Output> leaving(n);
  for (size_t i = 0; i < n; ++i) {
    if (merges[i] == nullptr) continue;
    SLUICE_ASSIGN_OR_RETURN(
        Node * sw, Add(in_cond, "Switch", "Switch", {current[i], pred}));
    leaving[i] = Output(sw, 0);
    told[i].switch_node = sw;
    told[i].body_value = Output(sw, 1);
    if (i == first) {
      SLUICE_ASSIGN_OR_RETURN(Node * pivot, Add(in_cond, "Identity",
                                                "body_pivot", {Output(sw, 1)}));
      in_body = at.Under(pivot);
      in_body.context = loop;
      in_body.in_condition = false;
    }
    in_body.anchored->insert(sw);
    current[i] = Output(sw, 1);
  }
  SLUICE_ASSIGN_OR_RETURN(Values next, body(in_body, own(current)));
  if (next.outputs.size() != vars.size())
    return InvalidArgument("body: expected ", vars.size(), " results, got ",
                           next.outputs.size());
  next.outputs.resize(n, current[n - 1]);
  Values out;
  std::vector<Node*> exits;
  std::vector<Node*> before_next = next.effects;
  before_next.insert(before_next.end(), test.effects.begin(),
                     test.effects.end());
  for (size_t i = 0; i < n; ++i) {
    if (merges[i] == nullptr) {
      out.outputs.push_back(all[i]);
      continue;
    }
    SLUICE_ASSIGN_OR_RETURN(Node * again,
                            Add(in_body, "NextIteration", "NextIteration",
                                {next.outputs[i]}, {}, before_next));
    SLUICE_RETURN_IF_ERROR(to_->SetBackEdge(merges[i], 1, Output(again)));
    SLUICE_ASSIGN_OR_RETURN(const Output exit, Add1(at.Under(nullptr), "Exit",
                                                    "Exit", {leaving[i]}));
    if (at.pivot != nullptr) at.anchored->insert(exit.node);
    out.outputs.push_back(exit);
    exits.push_back(exit.node);
    RecordContext(exit.node, loop);
    told[i].next = again;
    told[i].exit = exit.node;
    if (loop != nullptr) loop->AdoptVariable(std::move(told[i]));
  }
  out.outputs.resize(vars.size());
  if (!before_next.empty() || vars.empty()) out.effects = {exits[0]};
  return out;
}

// Which variables a body returns unchanged.
Result<std::vector<bool>> Inliner::PassThrough(const FunctionRef& ref,
                                               size_t skip, size_t vars) {
  SLUICE_ASSIGN_OR_RETURN(const FunctionBody* body, library().Instantiate(ref));
  if (body->args.size() != vars + skip || body->results.size() != vars)
    return InvalidArgument("body '", ref.name, "': expected ", vars,
                           " loop variables, got ", body->args.size() - skip,
                           " arguments and ", body->results.size(), " results");
  std::vector<bool> same(vars);
  for (size_t i = 0; i < vars; ++i) {
    Output o = body->results[i];
    while (o.node->kind() == OpKind::kIdentity &&
           o.node->control_inputs().empty())
      o = o.node->input(0);
    same[i] = o.node == body->args[i + skip];
  }
  return same;
}

Result<Values> Inliner::While(const Node& n, const std::vector<Output>& inputs,
                              const Place& at) {
  const FunctionRef cond = n.AttrOr<FunctionRef>("cond", FunctionRef{});
  const FunctionRef body = n.AttrOr<FunctionRef>("body", FunctionRef{});
  SLUICE_ASSIGN_OR_RETURN(const std::vector<bool> same,
                          PassThrough(body, 0, inputs.size()));
  std::vector<PartialShape> shapes;
  for (const Output& in : inputs) shapes.push_back(in.shape());
  return Loop(
      inputs, CallShapes(n, shapes), same,
      std::max<int64_t>(1, n.IntAttr("parallel_iterations")), at,
      [&](const Place& p, const std::vector<Output>& in) {
        return Function(cond, FunctionPart::kBody, false, in, p.Below("cond"));
      },
      [&](const Place& p, const std::vector<Output>& in) {
        return Function(body, FunctionPart::kBody, false, in, p.Below("body"));
      });
}

// for (i = start; i is not past limit; i += delta) vars = body(i, vars): a loop
// that counts down the remaining iterations.
Result<Values> Inliner::For(const Node& n, const std::vector<Output>& inputs,
                            const Place& at) {
  const FunctionRef body = n.AttrOr<FunctionRef>("body", FunctionRef{});
  const Output start = inputs[0], limit = inputs[1], delta = inputs[2];
  const std::vector<Output> vars(inputs.begin() + 3, inputs.end());
  const auto wide = [&](const Output& o) {
    return Add1(at, "Cast", "Cast", {o}, {{"DstT", DType::kInt64}});
  };
  SLUICE_ASSIGN_OR_RETURN(const Output zero, IntConstant(at, 0, DType::kInt64));
  SLUICE_ASSIGN_OR_RETURN(const Output one, IntConstant(at, 1, DType::kInt64));
  SLUICE_ASSIGN_OR_RETURN(const Output wide_start, wide(start));
  SLUICE_ASSIGN_OR_RETURN(const Output wide_limit, wide(limit));
  SLUICE_ASSIGN_OR_RETURN(const Output wide_delta, wide(delta));
  SLUICE_ASSIGN_OR_RETURN(const Output way,
                          Add1(at, "Sub", "way", {wide_limit, wide_start}));
  // delta must point to the limit.
  SLUICE_ASSIGN_OR_RETURN(const Output way_sign,
                          Add1(at, "Sign", "Sign", {way}));
  SLUICE_ASSIGN_OR_RETURN(const Output step_sign,
                          Add1(at, "Sign", "Sign", {wide_delta}));
  SLUICE_ASSIGN_OR_RETURN(const Output same_sign,
                          Add1(at, "Equal", "Equal", {way_sign, step_sign}));
  SLUICE_ASSIGN_OR_RETURN(const Output no_way,
                          Add1(at, "Equal", "Equal", {way, zero}));
  SLUICE_ASSIGN_OR_RETURN(const Output good,
                          Add1(at, "LogicalOr", "good", {same_sign, no_way}));
  SLUICE_ASSIGN_OR_RETURN(
      const Output what,
      Add1(
          at.Under(nullptr), "Const", "what", {},
          {{"value", Tensor::Scalar<std::string>(
                         "For: expected delta to lead from start to limit, got "
                         "start, limit, delta:")},
           {"dtype", DType::kString}}));
  SLUICE_ASSIGN_OR_RETURN(Node * check, Add(at, "Assert", "Assert",
                                            {good, what, start, limit, delta}));
  effects_.push_back(check);
  SLUICE_ASSIGN_OR_RETURN(const Output size,
                          Add1(at, "Abs", "Abs", {wide_delta}));
  SLUICE_ASSIGN_OR_RETURN(const Output divisor,
                          Add1(at, "Maximum", "Maximum", {size, one}));
  SLUICE_ASSIGN_OR_RETURN(const Output length, Add1(at, "Abs", "Abs", {way}));
  SLUICE_ASSIGN_OR_RETURN(const Output spare,
                          Add1(at, "Sub", "Sub", {divisor, one}));
  SLUICE_ASSIGN_OR_RETURN(const Output up,
                          Add1(at, "AddV2", "AddV2", {length, spare}));
  SLUICE_ASSIGN_OR_RETURN(const Output quotient,
                          Add1(at, "FloorDiv", "count", {up, divisor}));
  SLUICE_ASSIGN_OR_RETURN(
      Node * count, Add(at, "Identity", "count", {quotient}, {}, {check}));

  // Variables of the loop: iterations left, i, delta, then the body's.
  std::vector<Output> all = {Output(count), start, delta};
  all.insert(all.end(), vars.begin(), vars.end());
  SLUICE_ASSIGN_OR_RETURN(std::vector<bool> same,
                          PassThrough(body, 1, vars.size()));
  same.insert(same.begin(), {false, false, true});
  std::vector<PartialShape> shapes;
  for (const Output& in : inputs) shapes.push_back(in.shape());
  shapes = CallShapes(n, shapes);
  shapes.insert(shapes.begin(), 3, PartialShape::Scalar());
  SLUICE_ASSIGN_OR_RETURN(
      Values v,
      Loop(
          all, std::move(shapes), same, 10, at,
          [&](const Place& p, const std::vector<Output>& in) -> Result<Values> {
            Values test;
            SLUICE_ASSIGN_OR_RETURN(const Output none,
                                    IntConstant(p, 0, DType::kInt64));
            SLUICE_ASSIGN_OR_RETURN(const Output more,
                                    Add1(p, "Greater", "more", {in[0], none}));
            test.outputs = {more};
            return test;
          },
          [&](const Place& p, const std::vector<Output>& in) -> Result<Values> {
            std::vector<Output> args(in.begin() + 2, in.end());
            args[0] = in[1];
            SLUICE_ASSIGN_OR_RETURN(
                Values next, Function(body, FunctionPart::kBody, false, args,
                                      p.Below("body")));
            SLUICE_ASSIGN_OR_RETURN(const Output step,
                                    IntConstant(p, 1, DType::kInt64));
            SLUICE_ASSIGN_OR_RETURN(const Output left,
                                    Add1(p, "Sub", "left", {in[0], step}));
            SLUICE_ASSIGN_OR_RETURN(const Output i,
                                    Add1(p, "AddV2", "i", {in[1], in[2]}));
            next.outputs.insert(next.outputs.begin(), {left, i, in[2]});
            return next;
          }));
  v.outputs.erase(v.outputs.begin(), v.outputs.begin() + 3);
  return v;
}

}  // namespace sluice
