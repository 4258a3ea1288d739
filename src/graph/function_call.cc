// Functional nodes: which functions they call, the required signatures, and
// what is known about the results.
#include <algorithm>

#include "graph/function.h"
#include "graph/tensor_store_info.h"

namespace sluice {
namespace {

using Types = std::vector<DType>;

// "(int32, float)"
std::string Text(const Types& types) {
  std::string s = "(";
  for (size_t i = 0; i < types.size(); ++i)
    absl::StrAppend(&s, i > 0 ? ", " : "", DTypeName(types[i]));
  return s + ")";
}

Types InputTypes(const Node& n, int first) {
  Types types;
  for (int i = first; i < n.num_inputs(); ++i)
    types.push_back(RemoveRef(n.input_type(i)));
  return types;
}

Types OutputTypes(const Node& n) {
  Types types;
  for (int i = 0; i < n.num_outputs(); ++i) types.push_back(n.output_type(i));
  return types;
}

FunctionRef Ref(const Node& n, const char* attr) {
  return n.AttrOr<FunctionRef>(attr, FunctionRef{});
}

// The types without those of the stores of gradients that follow the first
// `count` (NumStoresOfGradients).
Types WithoutStores(Types types, size_t count) {
  while (types.size() > count && types.back() == DType::kResource)
    types.pop_back();
  return types;
}

// Checks that the function in attribute `attr` takes `args` and returns
// `results` (null: any one tensor).
Status CheckFunction(const Node& n, const FunctionRef& ref, const char* attr,
                     const Types& args, const Types* results) {
  Types want_args, want_results;
  const std::string what =
      attr == nullptr
          ? absl::StrCat("function '", ref.name, "'")
          : absl::StrCat("attribute '", attr, "', function '", ref.name, "'");
  if (Status s = n.graph()->function_library().Signature(ref, &want_args,
                                                         &want_results);
      !s.ok())
    return attr == nullptr
               ? s
               : Annotate(s, absl::StrCat("attribute '", attr, "'"));
  const auto fail = [&](const auto&... how) {
    return InvalidArgument(what, ": expected ", how..., "; it is ",
                           n.graph()->function_library().Describe(ref));
  };
  if (want_args != args)
    return fail("arguments ", Text(want_args), " as declared, got ",
                Text(args));
  if (results != nullptr && want_results != *results)
    return fail("results ", Text(*results), " as the node returns, got ",
                Text(want_results));
  if (results == nullptr && want_results.size() != 1)
    return fail("one result, got ", Text(want_results));
  return OkStatus();
}

void UniteWith(const std::vector<PartialShape>& other,
               std::vector<PartialShape>* shapes) {
  for (size_t i = 0; i < shapes->size(); ++i)
    (*shapes)[i] = (*shapes)[i].Union(other[i]);
}

// The shapes of loop variables that hold in all iterations: what is certain
// about the initial values and all values that the body computes from them.
std::vector<PartialShape> LoopShapes(const Node& n, const FunctionRef& body,
                                     bool counted,
                                     std::vector<PartialShape> vars) {
  FunctionLibrary& library = n.graph()->function_library();
  for (int rounds = 0; rounds < 8; ++rounds) {
    std::vector<PartialShape> args = vars;
    if (counted) args.insert(args.begin(), PartialShape::Scalar());
    std::vector<PartialShape> next = vars;
    UniteWith(library.ResultShapes(body, args, vars.size()), &next);
    if (next == vars) return vars;
    vars = std::move(next);
  }
  return std::vector<PartialShape>(vars.size());
}

}  // namespace

CallKind KindOfCall(const Node& n) {
  if (n.op().role != OpRole::kFunctional) return CallKind::kNone;
  switch (n.kind()) {
    case OpKind::kIf:
      return CallKind::kIf;
    case OpKind::kWhile:
      return CallKind::kWhile;
    case OpKind::kCase:
      return CallKind::kCase;
    case OpKind::kFor:
      return CallKind::kFor;
    case OpKind::kSymbolicGradient:
      return CallKind::kGradient;
    case OpKind::kSavingCall:
      return CallKind::kSavingCall;
    case OpKind::kSavedGradient:
      return CallKind::kSavedGradient;
    default:
      return CallKind::kCall;
  }
}

FunctionRef CalledFunction(const Node& n, int* first_arg) {
  *first_arg = n.kind() == OpKind::kRemoteCall ? 1 : 0;
  if (n.kind() == OpKind::kPartitionedCall || n.kind() == OpKind::kRemoteCall)
    return Ref(n, "f");
  AttrMap attrs;
  for (const AttrDef& def : n.op().attrs)
    if (const AttrValue* v = n.FindAttr(def.name)) attrs.emplace(def.name, *v);
  FunctionRef ref{n.op_name(), nullptr};
  if (!attrs.empty()) ref.attrs = std::make_shared<AttrMap>(std::move(attrs));
  return ref;
}

Status CheckCall(const Node& n) {
  const Types outputs = OutputTypes(n);
  switch (KindOfCall(n)) {
    case CallKind::kNone:
      return OkStatus();
    case CallKind::kCall: {
      int first = 0;
      const FunctionRef f = CalledFunction(n, &first);
      return CheckFunction(n, f, f.name == n.op_name() ? nullptr : "f",
                           InputTypes(n, first), &outputs);
    }
    case CallKind::kGradient: {
      Types args, results;
      SLUICE_RETURN_IF_ERROR(n.graph()->function_library().Signature(
          Ref(n, "f"), &args, &results));
      Types want = args;
      want.insert(want.end(), results.begin(), results.end());
      if (want != InputTypes(n, 0))
        return InvalidArgument(
            "SymbolicGradient of '", Ref(n, "f").name,
            "': expected its arguments and the gradients of "
            "its results, ",
            Text(want), ", got ", Text(InputTypes(n, 0)), "; it is ",
            n.graph()->function_library().Describe(Ref(n, "f")));
      if (args.size() != outputs.size())
        return InvalidArgument(
            "SymbolicGradient of '", Ref(n, "f").name, "': expected ",
            args.size(), " outputs, one per argument, got ", outputs.size());
      return OkStatus();
    }
    case CallKind::kSavingCall: {
      const Types results(outputs.begin(), outputs.end() - 1);
      Types args, unused;
      SLUICE_RETURN_IF_ERROR(
          n.graph()->function_library().Signature(Ref(n, "f"), &args, &unused));
      return CheckFunction(n, Ref(n, "f"), "f",
                           WithoutStores(InputTypes(n, 0), args.size()),
                           &results);
    }
    case CallKind::kSavedGradient: {
      Types args, results;
      SLUICE_RETURN_IF_ERROR(n.graph()->function_library().Signature(
          Ref(n, "f"), &args, &results));
      const size_t given = n.AttrOr<Types>("Tin", {}).size();
      Types want = results;
      if (given > 0) want.insert(want.begin(), args.begin(), args.end());
      if (want != WithoutStores(InputTypes(n, 1), want.size()))
        return InvalidArgument(
            "SavedGradient of '", Ref(n, "f").name,
            "': expected its arguments or none, and the gradients of its "
            "results, ",
            Text(want), ", got ", Text(InputTypes(n, 1)), "; it is ",
            n.graph()->function_library().Describe(Ref(n, "f")));
      if (args.size() != outputs.size())
        return InvalidArgument(
            "SavedGradient of '", Ref(n, "f").name, "': expected ", args.size(),
            " outputs, one per argument, got ", outputs.size());
      return OkStatus();
    }
    case CallKind::kIf:
      for (const char* branch : {"then_branch", "else_branch"})
        SLUICE_RETURN_IF_ERROR(CheckFunction(n, Ref(n, branch), branch,
                                             InputTypes(n, 1), &outputs));
      return OkStatus();
    case CallKind::kCase:
      for (const FunctionRef& f :
           n.AttrOr<AttrValue::Functions>("branches", {}))
        SLUICE_RETURN_IF_ERROR(
            CheckFunction(n, f, "branches", InputTypes(n, 1), &outputs));
      return OkStatus();
    case CallKind::kWhile:
      SLUICE_RETURN_IF_ERROR(
          CheckFunction(n, Ref(n, "cond"), "cond", InputTypes(n, 0), nullptr));
      return CheckFunction(n, Ref(n, "body"), "body", InputTypes(n, 0),
                           &outputs);
    case CallKind::kFor: {
      Types args = InputTypes(n, 3);
      args.insert(args.begin(), DType::kInt32);
      return CheckFunction(n, Ref(n, "body"), "body", args, &outputs);
    }
  }
  return OkStatus();
}

std::vector<PartialShape> CallShapes(const Node& n,
                                     const std::vector<PartialShape>& inputs) {
  FunctionLibrary& library = n.graph()->function_library();
  const auto count = static_cast<size_t>(n.num_outputs());
  const auto from = [&inputs](size_t first) {
    return std::vector<PartialShape>(
        inputs.begin() + static_cast<ptrdiff_t>(std::min(first, inputs.size())),
        inputs.end());
  };
  std::vector<PartialShape> shapes(count);
  switch (KindOfCall(n)) {
    case CallKind::kNone:
      break;
    case CallKind::kCall: {
      int first = 0;
      const FunctionRef f = CalledFunction(n, &first);
      shapes = library.ResultShapes(f, from(static_cast<size_t>(first)), count);
      break;
    }
    case CallKind::kGradient:
      for (size_t i = 0; i < count && i < inputs.size(); ++i)
        if (RemoveRef(n.input_type(static_cast<int>(i))) != DType::kResource)
          shapes[i] = inputs[i];
      break;
    case CallKind::kSavingCall:
      shapes = library.ResultShapes(
          Ref(n, "f"), {inputs.begin(), inputs.end() - NumStoresOfGradients(n)},
          count - 1);
      shapes.push_back(PartialShape::Scalar());
      break;
    case CallKind::kSavedGradient:
      if (n.AttrOr<Types>("Tin", {}).empty()) break;
      for (size_t i = 0; i < count && i + 1 < inputs.size(); ++i)
        if (n.output_type(static_cast<int>(i)) ==
            RemoveRef(n.input_type(static_cast<int>(i + 1))))
          shapes[i] = inputs[i + 1];
        else if (n.output_type(static_cast<int>(i)) == DType::kVariant)
          shapes[i] = PartialShape::Scalar();  // A deferred sum.
      break;
    case CallKind::kIf:
      shapes = library.ResultShapes(Ref(n, "then_branch"), from(1), count);
      UniteWith(library.ResultShapes(Ref(n, "else_branch"), from(1), count),
                &shapes);
      break;
    case CallKind::kCase: {
      bool first = true;
      for (const FunctionRef& f :
           n.AttrOr<AttrValue::Functions>("branches", {})) {
        const auto these = library.ResultShapes(f, from(1), count);
        if (first)
          shapes = these;
        else
          UniteWith(these, &shapes);
        first = false;
      }
      break;
    }
    case CallKind::kWhile:
      shapes = LoopShapes(n, Ref(n, "body"), false, inputs);
      break;
    case CallKind::kFor:
      shapes = LoopShapes(n, Ref(n, "body"), true, from(3));
      break;
  }
  // Additional shapes recorded by a front end.
  const auto known = n.AttrOr<AttrValue::Shapes>("output_shapes", {});
  if (known.size() == count)
    for (size_t i = 0; i < count; ++i)
      if (Result<PartialShape> m = shapes[i].MergeWith(known[i]); m.ok())
        shapes[i] = *std::move(m);
  return shapes;
}

}  // namespace sluice
