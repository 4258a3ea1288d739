#include "graph/builder.h"

#include <algorithm>

#include "absl/strings/str_split.h"
#include "graph/grad.h"

namespace sluice {
namespace {

// What new nodes of this thread get.
struct Scopes {
  Graph* graph = nullptr;
  std::string prefix;  // "outer/inner/" or "".
  std::string device;
  std::vector<Node*> control;
  std::vector<std::string> colocate;  // "loc:@name"
  std::map<std::string, std::string> gradient_override;
  SourceLoc loc;  // Known: overrides.
};

Graph& DefaultGraph() {
  static Graph* graph = new Graph();
  return *graph;
}

Scopes& Current() {
  thread_local Scopes scopes;
  if (scopes.graph == nullptr) scopes.graph = &DefaultGraph();
  return scopes;
}

}  // namespace

Graph& CurrentGraph() { return *Current().graph; }

WithGraph::WithGraph(Graph& g) : saved_(new Scopes(std::move(Current()))) {
  Current() = Scopes();
  Current().graph = &g;
}
WithGraph::~WithGraph() {
  auto* saved = static_cast<Scopes*>(saved_);
  Current() = std::move(*saved);
  delete saved;
}

NameScope::NameScope(const std::string& name) : saved_(Current().prefix) {
  Scopes& s = Current();
  std::lock_guard<std::recursive_mutex> lock(s.graph->mutex());
  prefix_ = s.graph->UniqueScope(s.prefix + name);
  s.prefix = prefix_ + "/";
}
NameScope::~NameScope() { Current().prefix = saved_; }

DeviceScope::DeviceScope(const std::string& device) : saved_(Current().device) {
  Scopes& s = Current();
  Result<std::string> merged = MergeDevices(device, s.device);
  if (merged.ok())
    s.device = *merged;
  else
    s.graph->RecordError(merged.status());
}
DeviceScope::~DeviceScope() { Current().device = saved_; }

ControlDependencies::ControlDependencies(std::vector<Node*> nodes)
    : saved_(Current().control.size()) {
  for (Node* n : nodes)
    if (n != nullptr) Current().control.push_back(n);
}
ControlDependencies::~ControlDependencies() { Current().control.resize(saved_); }

NoControlDependencies::NoControlDependencies() {
  saved_.swap(Current().control);
}
NoControlDependencies::~NoControlDependencies() {
  saved_.swap(Current().control);
}

ColocateWith::ColocateWith(Node* node) : saved_(Current().colocate) {
  if (node == nullptr) return;
  // Colocating with a colocated node means its group.
  std::vector<std::string>& loc = Current().colocate;
  if (const AttrValue* a = node->FindAttr("_class"))
    if (const auto* groups = a->get<AttrValue::Strings>()) {
      loc.insert(loc.end(), groups->begin(), groups->end());
      return;
    }
  loc.push_back("loc:@" + node->name());
}
ColocateWith::~ColocateWith() { Current().colocate = saved_; }

GradientOverride::GradientOverride(const std::string& op,
                                   const std::string& name)
    : saved_(Current().gradient_override) {
  Current().gradient_override[op] = name;
}
GradientOverride::~GradientOverride() { Current().gradient_override = saved_; }

AtLine::AtLine(SourceLoc loc) : saved_(Current().loc) {
  // The outermost line is the user's.
  if (!saved_.known()) Current().loc = loc;
}
AtLine::~AtLine() { Current().loc = saved_; }

Node* BuildNode(const std::string& op, std::vector<Output> inputs, AttrMap attrs,
                const std::string& name, SourceLoc loc) {
  Scopes& s = Current();
  std::lock_guard<std::recursive_mutex> lock(s.graph->mutex());
  for (const Output& o : inputs)
    if (!o) {
      // Where no error was recorded the null is the caller's own mistake.
      if (s.graph->status().ok())
        s.graph->RecordError(InvalidArgument(
            "input: expected an output, got none; building ", op,
            loc.known() ? " at " + loc.ToString() : ""));
      return nullptr;
    }
  NodeSpec spec;
  spec.op = op;
  spec.name = s.graph->UniqueName(s.prefix + (name.empty() ? op : name));
  spec.inputs = std::move(inputs);
  for (Node* c : s.control)
    if (std::find(spec.control_inputs.begin(), spec.control_inputs.end(), c) ==
        spec.control_inputs.end())
      spec.control_inputs.push_back(c);
  spec.attrs = std::move(attrs);
  if (!s.colocate.empty() && !spec.attrs.count("_class")) {
    AttrValue::Strings groups(s.colocate.begin(), s.colocate.end());
    std::sort(groups.begin(), groups.end());
    groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
    spec.attrs["_class"] = AttrValue(std::move(groups));
  }
  if (auto it = s.gradient_override.find(op); it != s.gradient_override.end())
    spec.attrs.emplace("_gradient_op_type", AttrValue(it->second));
  spec.device = s.device;
  spec.loc = s.loc.known() ? s.loc : loc;
  Result<Node*> node = s.graph->AddNode(std::move(spec));
  if (!node.ok()) {
    s.graph->RecordError(node.status());
    return nullptr;
  }
  return *node;
}

Output Build(const std::string& op, std::vector<Output> inputs, AttrMap attrs,
             const std::string& name, SourceLoc loc) {
  return Output(BuildNode(op, std::move(inputs), std::move(attrs), name, loc));
}

Output BuildError(const Status& status, SourceLoc loc) {
  Scopes& s = Current();
  std::lock_guard<std::recursive_mutex> lock(s.graph->mutex());
  if (s.loc.known()) loc = s.loc;
  s.graph->RecordError(
      loc.known() ? Status(status.code(), absl::StrCat(status.message(), "; at ",
                                                       loc.ToString()))
                  : status);
  return Output();
}

Output Constant(Tensor value, const std::string& name, SourceLoc loc) {
  const DType t = value.dtype();
  return Build("Const", {}, {{"value", std::move(value)}, {"dtype", t}}, name, loc);
}

Result<Tensor> ScalarTensor(DType dtype, double v) {
  switch (dtype) {
    case DType::kFloat: return Tensor::Scalar(static_cast<float>(v));
    case DType::kDouble: return Tensor::Scalar(v);
    case DType::kHalf: return Tensor::Scalar(half(static_cast<float>(v)));
    case DType::kBfloat16: return Tensor::Scalar(bfloat16(static_cast<float>(v)));
    case DType::kInt8: return Tensor::Scalar(static_cast<int8_t>(v));
    case DType::kInt16: return Tensor::Scalar(static_cast<int16_t>(v));
    case DType::kInt32: return Tensor::Scalar(static_cast<int32_t>(v));
    case DType::kInt64: return Tensor::Scalar(static_cast<int64_t>(v));
    case DType::kUint8: return Tensor::Scalar(static_cast<uint8_t>(v));
    case DType::kUint16: return Tensor::Scalar(static_cast<uint16_t>(v));
    case DType::kUint32: return Tensor::Scalar(static_cast<uint32_t>(v));
    case DType::kUint64: return Tensor::Scalar(static_cast<uint64_t>(v));
    case DType::kBool: return Tensor::Scalar(v != 0);
    case DType::kComplex64: return Tensor::Scalar(complex64(static_cast<float>(v)));
    case DType::kComplex128: return Tensor::Scalar(complex128(v));
    default:
      return InvalidArgument("constant: expected a numeric type, got ",
                             DTypeName(dtype));
  }
}

Output ScalarOf(DType dtype, double v, SourceLoc loc) {
  Result<Tensor> t = ScalarTensor(RemoveRef(dtype), v);
  return t.ok() ? Constant(*std::move(t), "", loc) : BuildError(t.status(), loc);
}

Output IntVector(const std::vector<int32_t>& v) {
  return Constant(Tensor::Vector<int32_t>(v), "", {});
}
Output IntVector(std::initializer_list<int32_t> v) {
  return Constant(Tensor::Vector<int32_t>(v), "", {});
}

Output Operand::Get(DType want) const {
  if (output || !literal.valid()) return output;
  if (!weak || want == DType::kInvalid || RemoveRef(want) == literal.dtype())
    return Constant(literal, "", loc);
  double v = 0;
  switch (literal.dtype()) {
    case DType::kFloat: v = literal.scalar<float>(); break;
    case DType::kDouble: v = literal.scalar<double>(); break;
    case DType::kInt32: v = literal.scalar<int32_t>(); break;
    case DType::kUint32: v = literal.scalar<uint32_t>(); break;
    case DType::kBool: v = literal.scalar<bool>() ? 1 : 0; break;
    case DType::kInt64:
      // Beyond 2^53 a double would round.
      if (RemoveRef(want) == DType::kUint64)
        return Constant(literal.BitcastTo(DType::kUint64), "", loc);
      v = static_cast<double>(literal.scalar<int64_t>());
      break;
    case DType::kUint64:
      if (RemoveRef(want) == DType::kInt64)
        return Constant(literal.BitcastTo(DType::kInt64), "", loc);
      v = static_cast<double>(literal.scalar<uint64_t>());
      break;
    default: return Constant(literal, "", loc);
  }
  if (IsInteger(RemoveRef(want)) && v != static_cast<double>(static_cast<int64_t>(v)))
    return BuildError(InvalidArgument("constant: expected ", DTypeName(want),
                                      ", got ", literal.ToString()),
                      loc);
  return ScalarOf(want, v, loc);
}

Output GradContext::DyOrZeros(int i) {
  if (dy[static_cast<size_t>(i)]) return dy[static_cast<size_t>(i)];
  return Build("ZerosLike", {Output(op, i)}, {}, "", {});
}

Result<std::string> MergeDevices(const std::string& spec,
                                 const std::string& defaults) {
  // Parts in canonical order; the short form "cpu:0" means "device:CPU:0".
  static constexpr const char* kParts[] = {"job", "replica", "task", "device"};
  std::string values[4];
  for (const std::string* text : {&spec, &defaults}) {
    for (absl::string_view part : absl::StrSplit(*text, '/', absl::SkipEmpty())) {
      const size_t colon = part.find(':');
      std::string key(part.substr(0, colon));
      std::string value(colon == absl::string_view::npos ? ""
                                                         : part.substr(colon + 1));
      int slot = -1;
      for (int i = 0; i < 4; ++i)
        if (key == kParts[i]) slot = i;
      if (slot < 0) {
        std::string upper = key;
        std::transform(upper.begin(), upper.end(), upper.begin(),
                       [](unsigned char c) { return std::toupper(c); });
        if (upper != "CPU" && upper != "GPU")
          return InvalidArgument("device: expected /job:J/replica:R/task:T/device:TYPE:N, got '",
                                 *text, "'");
        slot = 3;
        value = upper + (value.empty() ? "" : ":" + value);
      }
      if (values[slot].empty()) values[slot] = value;
    }
  }
  std::string out;
  for (int i = 0; i < 4; ++i)
    if (!values[i].empty()) absl::StrAppend(&out, "/", kParts[i], ":", values[i]);
  return out;
}

}  // namespace sluice
