#include "client/op_builder.h"

#include <algorithm>

#include "client/initializers.h"
#include "client/types_and_shapes.h"
#include "graph/graph.h"

namespace sluice {
namespace {

bool Allows(const AttrDef& attr, DType t) {
  return attr.allowed_types.empty() ||
         std::find(attr.allowed_types.begin(), attr.allowed_types.end(), t) !=
             attr.allowed_types.end();
}

}  // namespace

OpCall::OpCall(const char* op, const std::string& name, SourceLoc loc)
    : op_name_(op),
      op_(OpRegistry::Global()->Find(op)),
      name_(name),
      loc_(loc) {}

OpCall& OpCall::In(const Operand& x) {
  args_.push_back({x});
  return *this;
}

OpCall& OpCall::In(const Operands& xs) {
  args_.push_back(xs.items());
  return *this;
}

OpCall& OpCall::Attr(const char* name, AttrValue value) {
  attrs_[name] = std::move(value);
  return *this;
}

// The type of bare numbers among the arguments with type attribute `attr`.
DType OpCall::TypeOf(const std::string& attr) const {
  if (const auto it = attrs_.find(attr); it != attrs_.end()) {
    const DType* given = it->second.get<DType>();
    if (given != nullptr) return *given;
  }
  DType natural = DType::kInvalid;
  for (size_t i = 0; i < args_.size() && i < op_->inputs.size(); ++i) {
    if (op_->inputs[i].type_attr != attr) continue;
    for (const Operand& x : args_[i]) {
      if (x.output.valid()) return RemoveRef(x.output.dtype());
      if (!x.literal.valid()) continue;
      if (!x.weak) return x.literal.dtype();
      const DType t = NaturalType(x);
      if (natural == DType::kInvalid || IsFloating(t)) natural = t;
    }
  }
  const AttrDef* def = op_->FindAttr(attr);
  if (def == nullptr || natural == DType::kInvalid || Allows(*def, natural))
    return natural;
  if (IsInteger(natural) && Allows(*def, DType::kFloat)) return DType::kFloat;
  const DType* preset =
      def->default_value ? def->default_value->get<DType>() : nullptr;
  return preset != nullptr ? *preset : natural;
}

std::vector<Output> OpCall::Inputs() const {
  std::vector<Output> inputs;
  for (size_t i = 0; i < args_.size(); ++i) {
    DType want = DType::kInvalid;
    if (op_ != nullptr && i < op_->inputs.size()) {
      const ArgDef& arg = op_->inputs[i];
      want = arg.type != DType::kInvalid ? arg.type
             : arg.type_attr.empty()     ? DType::kInvalid
                                         : TypeOf(arg.type_attr);
    }
    for (const Operand& x : args_[i]) {
      if (x.output.valid()) {
        inputs.push_back(x.output);
      } else if (!x.literal.valid()) {
        inputs.push_back(x.Get());
      } else {
        inputs.push_back(
            x.Get(want == DType::kInvalid && x.weak ? NaturalType(x) : want));
      }
    }
  }
  return inputs;
}

// A random op without a seed of its own derives one from the graph's.
void OpCall::SetSeeds() {
  if (op_ == nullptr || op_->FindAttr("seed") == nullptr ||
      op_->FindAttr("seed2") == nullptr)
    return;
  const AttrValue none = int64_t{0};
  if (attrs_.try_emplace("seed", none).first->second != none ||
      attrs_.try_emplace("seed2", none).first->second != none)
    return;
  const auto [seed, seed2] = SeedsFor({});
  attrs_["seed"] = seed;
  attrs_["seed2"] = seed2;
}

Node* OpCall::Run() {
  if (done_) return node_;
  done_ = true;
  // (AddNode sees one list of inputs, and can tell the length of at most one
  // argument from it.)
  for (size_t i = 0; op_ != nullptr && i < op_->inputs.size(); ++i)
    if (const std::string& n = op_->inputs[i].number_attr;
        !n.empty() && i < args_.size())
      attrs_.try_emplace(n, static_cast<int64_t>(args_[i].size()));
  SetSeeds();
  std::vector<Output> inputs = Inputs();
  size_t at = 0;
  for (size_t i = 0; op_ != nullptr && i < op_->inputs.size(); ++i) {
    if (i >= args_.size()) break;
    const size_t end = at + args_[i].size();
    AttrValue::Types types;
    for (; at < end; ++at)
      if (inputs[at].valid()) types.push_back(RemoveRef(inputs[at].dtype()));
    if (const std::string& list = op_->inputs[i].type_list_attr;
        !list.empty() && types.size() == args_[i].size())
      attrs_.try_emplace(list, std::move(types));
  }
  node_ = BuildNode(op_name_, std::move(inputs), attrs_, name_, loc_);
  failure_ = CurrentGraph().Failure();
  return node_;
}

Output OpCall::Out(int arg) {
  const Node* node = Run();
  if (node == nullptr) return failure_;
  return Output(node_, node->OutputRange(arg).first);
}

// The length that a list would have had, as far as the call determines it.
size_t OpCall::ExpectedLength(const ArgDef& arg) const {
  for (size_t i = 0; i < args_.size() && i < op_->inputs.size(); ++i) {
    const ArgDef& in = op_->inputs[i];
    if ((!arg.number_attr.empty() && in.number_attr == arg.number_attr) ||
        (!arg.type_list_attr.empty() &&
         in.type_list_attr == arg.type_list_attr))
      return args_[i].size();
  }
  const auto it = attrs_.find(arg.number_attr.empty() ? arg.type_list_attr
                                                      : arg.number_attr);
  if (it == attrs_.end()) return 0;
  if (const auto* types = it->second.get<AttrValue::Types>())
    return types->size();
  const int64_t* n = it->second.get<int64_t>();
  // A length that no graph could have is an error already, and is not used.
  constexpr int64_t kMax = 1 << 16;
  return n == nullptr ? 0
                      : static_cast<size_t>(std::clamp<int64_t>(*n, 0, kMax));
}

std::vector<Output> OpCall::List(int arg) {
  const size_t expected =
      op_ == nullptr || static_cast<size_t>(arg) >= op_->outputs.size()
          ? 0
          : ExpectedLength(op_->outputs[static_cast<size_t>(arg)]);
  Node* node = Run();
  if (node == nullptr) return std::vector<Output>(expected, failure_);
  const auto [begin, end] = node->OutputRange(arg);
  std::vector<Output> outputs;
  for (int i = begin; i < end; ++i) outputs.emplace_back(node, i);
  return outputs;
}

}  // namespace sluice
