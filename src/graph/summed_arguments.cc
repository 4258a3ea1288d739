#include "graph/summed_arguments.h"

#include <map>
#include <set>
#include <string>
#include <utility>

#include "graph/node.h"

namespace sluice {
namespace {

// Gradients of at most so many elements are cheaper to add at once.
constexpr int64_t kSmallGradient = 64;

// An argument of a function, as its name and number.
using Argument = std::pair<std::string, int>;

// The calls within one recursion. Lives for one question.
class RecursionArguments {
 public:
  explicit RecursionArguments(FunctionLibrary* library) : library_(*library) {}

  // Visits the functions that take part in the recursion of f.
  void Visit(const FunctionRef& f) {
    std::vector<FunctionRef> open = {f};
    std::set<std::string> seen = {f.name};
    while (!open.empty()) {
      const FunctionRef at = std::move(open.back());
      open.pop_back();
      const Result<const FunctionBody*> body = library_.Instantiate(at);
      if (!body.ok()) continue;
      std::vector<FunctionRef> callees;
      VisitBody(**body, &callees);
      for (FunctionRef& callee : callees)
        if (seen.insert(callee.name).second) open.push_back(std::move(callee));
    }
    // An argument that varies makes those vary to which it is passed.
    std::vector<Argument> varying(varies_.begin(), varies_.end());
    while (!varying.empty()) {
      const Argument from = std::move(varying.back());
      varying.pop_back();
      for (const Argument& to : passed_to_[from])
        if (varies_.insert(to).second) varying.push_back(to);
    }
  }
  bool Varies(const Argument& a) const { return varies_.count(a) != 0; }

 private:
  void VisitBody(const FunctionBody& body, std::vector<FunctionRef>* callees) {
    // The arguments that outputs are equal to.
    OutputMap<int> argument;
    for (size_t i = 0; i < body.args.size(); ++i)
      argument[Output(body.args[i])] = static_cast<int>(i);
    for (const Node* n : body.order) {
      PassOn(*n, &argument);
      const auto call = [&](const FunctionRef& f, int first_input,
                            int first_arg) {
        if (!library_.IsRecursive(f.name)) return;
        for (int i = first_input; i < n->num_inputs(); ++i) {
          const auto it = argument.find(n->input(i));
          Argument to(f.name, first_arg + i - first_input);
          if (it == argument.end())
            varies_.insert(std::move(to));
          else
            passed_to_[{body.ref.name, it->second}].push_back(std::move(to));
        }
        callees->push_back(f);
      };
      const auto named = [&](const char* attr) {
        return n->AttrOr<FunctionRef>(attr, FunctionRef{});
      };
      switch (KindOfCall(*n)) {
        case CallKind::kCall: {
          int first = 0;
          const FunctionRef f = CalledFunction(*n, &first);
          call(f, first, 0);
          break;
        }
        case CallKind::kIf:
          call(named("then_branch"), 1, 0);
          call(named("else_branch"), 1, 0);
          break;
        case CallKind::kCase:
          for (const FunctionRef& f :
               n->AttrOr<AttrValue::Functions>("branches", {}))
            call(f, 1, 0);
          break;
        case CallKind::kWhile:
          call(named("cond"), 0, 0);
          call(named("body"), 0, 0);
          VisitLoopBody(named("body"), 0);
          break;
        case CallKind::kFor:
          call(named("body"), 3, 1);
          VisitLoopBody(named("body"), 1);
          break;
        default:
          break;
      }
    }
  }

  // The outputs of nodes that pass on an argument.
  static void PassOn(const Node& n, OutputMap<int>* argument) {
    const OpRole role = n.op().role;
    const bool moves =
        role == OpRole::kIdentity || role == OpRole::kSwitch ||
        (role == OpRole::kEnter && n.AttrOr<bool>("is_constant", false));
    if (!moves) return;
    const auto it = argument->find(n.input(0));
    if (it == argument->end()) return;
    const int from = it->second;
    for (int i = 0; i < n.num_outputs(); ++i)
      (*argument)[Output(const_cast<Node*>(&n), i)] = from;
  }

  // The body of a functional loop gets its own results in the next iteration.
  void VisitLoopBody(const FunctionRef& f, int first_arg) {
    const Result<const FunctionBody*> body = library_.Instantiate(f);
    if (!body.ok()) return;
    for (size_t i = 0; i < (*body)->results.size(); ++i) {
      const Node* n = (*body)->results[i].node;
      while (n->op().role == OpRole::kIdentity) n = n->input(0).node;
      const size_t arg = i + static_cast<size_t>(first_arg);
      if (arg >= (*body)->args.size() || n != (*body)->args[arg])
        varies_.insert({f.name, static_cast<int>(arg)});
    }
  }

  FunctionLibrary& library_;
  std::map<Argument, std::vector<Argument>> passed_to_;
  std::set<Argument> varies_;
};

bool HasGradient(DType t) {
  return IsFloating(t) || IsComplex(t) || t == DType::kResource ||
         t == DType::kVariant;
}

}  // namespace

std::vector<bool> SummedArguments(FunctionLibrary& library,
                                  const FunctionRef& f) {
  const Result<const FunctionBody*> body = library.Instantiate(f);
  if (!body.ok() || library.RecomputesInGradient(f.name)) return {};
  RecursionArguments arguments(&library);
  arguments.Visit(f);
  std::vector<bool> summed;
  for (const Node* arg : (*body)->args) {
    const DType t = RemoveRef(arg->output_type(0));
    const PartialShape shape =
        t == DType::kResource ? ToldVariableShape(*arg) : arg->output_shape(0);
    const bool small =
        shape.fully_known() && shape.num_elements() <= kSmallGradient;
    const bool varies =
        arguments.Varies({f.name, static_cast<int>(summed.size())});
    summed.push_back(!HasGradient(t) ||
                     (t != DType::kVariant && !small && !varies));
  }
  return summed;
}

}  // namespace sluice
