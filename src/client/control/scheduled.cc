#include "client/control/scheduled.h"

#include <algorithm>
#include <map>
#include <utility>

#include "client/control/tensor_array.h"
#include "client/types_and_shapes.h"
#include "client/variables.h"
#include "graph/control_flow.h"
#include "graph/device_name.h"
#include "graph/device_scope.h"
#include "graph/exact_line.h"
#include "graph/graph.h"
#include "graph/hidden_attributes.h"
#include "graph/parameter_behind.h"

namespace sluice::internal {
namespace {

bool IsHandleType(DType t) { return IsRef(t) || t == DType::kResource; }

// Whether a node is placed with the state that it makes or reads.
bool TouchesState(const Node& n) {
  for (int i = 0; i < n.num_outputs(); ++i)
    if (IsHandleType(n.output_type(i))) return true;
  for (const Output& in : n.inputs())
    if (in.valid() && IsHandleType(in.dtype())) return true;
  return false;
}

// The device that a node would get in a scope of `device`.
Result<std::string> DeviceWithin(const std::string& device) {
  // (The scope would record an error without the line.)
  SLUICE_RETURN_IF_ERROR(DeviceName::Parse(device).status());
  const DeviceScope scope(device);
  return DeviceOfNewNode();
}

// One call of Scheduled without parts. Lives on one thread, which holds the
// graph's mutex.
class ScheduledBuilder {
 public:
  ScheduledBuilder(const std::vector<std::string>& devices,
                   const ScheduledFn& body, const ScheduledOptions& options,
                   SourceLoc loc)
      : graph_(CurrentGraph()),
        devices_(devices),
        body_(body),
        options_(options),
        loc_(loc),
        scope_(options.name.empty() ? "scheduled" : options.name),
        what_(absl::StrCat("scheduled body '", scope_.prefix(), "'")),
        body_prefix_(NameScope("body").prefix()),
        bodies_before_(++bodies_) {}

  // One output per result; empty if an error was recorded.
  std::vector<Output> Run(const std::vector<Output>& inputs) {
    if (!Check() || !Decide(inputs)) return {};
    const std::vector<Operand> merged =
        Among(0, static_cast<int>(devices_.size()), inputs);
    std::vector<Output> results;
    for (const Operand& o : merged) {
      results.push_back(o.Get(DType::kInvalid));
      if (!results.back().valid()) return {};
    }
    if (results.empty()) {
      BuildError(InvalidArgument(what_, ": expected a result, got none"), loc_);
      return {};
    }
    AwaitCaptures();
    TellParameters();
    results.insert(results.begin(), Output(schedule_, 1));
    const DeviceScope at_home(options_.home);
    Node* const done = BuildNode("ScheduleDone", results, {}, "done", loc_);
    if (done == nullptr) return {};
    for (size_t i = 0; i + 1 < results.size(); ++i)
      results[i] = Output(done, static_cast<int>(i));
    results.pop_back();
    return results;
  }

 private:
  bool Fail(const Status& s) const {
    BuildError(s, loc_);
    return false;
  }

  bool Check() {
    if (devices_.empty())
      return Fail(
          InvalidArgument(what_, ": expected at least one device, got none"));
    for (const std::string& d : devices_) {
      const Result<std::string> name = DeviceWithin(d);
      if (!name.ok())
        return Fail(Status(name.status().code(),
                           absl::StrCat(what_, ": ", name.status().message())));
      names_.push_back(*name);
    }
    const Result<std::string> home = DeviceWithin(options_.home);
    if (!home.ok())
      return Fail(
          Status(home.status().code(),
                 absl::StrCat(what_, ": home: ", home.status().message())));
    home_ = *home;
    if (!(options_.ns_per_row >= 0) || !(options_.bytes_per_s > 0))
      return Fail(InvalidArgument(
          what_, ": expected ns_per_row of at least 0 and a positive ",
          "bytes_per_s, got ", options_.ns_per_row, " and ",
          options_.bytes_per_s));
    return true;
  }

  bool Decide(const std::vector<Output>& inputs) {
    std::vector<Output> shapes;
    AttrValue::Ints bytes;
    for (const Output& x : inputs) {
      // (Shapes are read where the value is, and are on the host.)
      shapes.push_back(Build("Shape", {x}, {}, "shape", loc_));
      if (!shapes.back().valid()) return false;
      const DType t = RemoveRef(x.dtype());
      bytes.push_back(IsPlain(t) ? static_cast<int64_t>(DTypeSize(t)) : 8);
    }
    const DeviceScope at_home(options_.home);
    schedule_ =
        BuildNode("Schedule", shapes,
                  {{"N", static_cast<int64_t>(shapes.size())},
                   {"devices", AttrValue::Strings(names_)},
                   {"body", scope_.prefix()},
                   {"policy", options_.policy},
                   {"element_bytes", bytes},
                   {"ns_per_row", static_cast<float>(options_.ns_per_row)},
                   {"bytes_per_s", static_cast<float>(options_.bytes_per_s)}},
                  "schedule", loc_);
    return schedule_ != nullptr;
  }

  // The results of the body on the chosen one of devices [begin, end).
  std::vector<Operand> Among(int begin, int end,
                             const std::vector<Output>& inputs) {
    if (end - begin == 1) return On(begin, inputs);
    const int middle = begin + (end - begin) / 2;
    Output first;
    {
      const DeviceScope at_home(options_.home);
      first =
          Build("Less",
                {Output(schedule_), Constant(Tensor::Scalar<int32_t>(middle))},
                {}, absl::StrCat("before_", middle), loc_);
    }
    std::vector<Operand> merged;
    for (const Output& o : BuildCond(
             Operand(first, loc_.file, loc_.line),
             [&] { return Among(begin, middle, inputs); },
             [&] { return Among(middle, end, inputs); }, "on", loc_)) {
      if (o.valid())
        if (Conditional* const c =
                graph_.control_flow().ConditionalOf(o.node)) {
          KeepAtHome(c);
          graph_.SetDevice(o.node, home_);
        }
      merged.emplace_back(o, loc_.file, loc_.line);
    }
    return merged;
  }

  // Else placement would put a Merge on the device of one of its inputs, and
  // the Switches of values that are fed with their readers, so that these
  // values would be sent whether the replica there runs or not.
  void KeepAtHome(Conditional* c) {
    outermost_ = c;
    if (!c->device.empty()) return;
    c->device = home_;
    for (const auto& [value, node] : c->switches())
      if (!IsHandleType(value.dtype())) graph_.SetDevice(node, home_);
  }

  // The replica on one device.
  std::vector<Operand> On(int device, const std::vector<Output>& inputs) {
    const int first = graph_.num_nodes();
    const ControlFlowContext* const here = CurrentContext();
    const std::string name = names_[static_cast<size_t>(device)];
    std::vector<Operand> results;
    {
      // (One scope for all, so that GetVariable finds the same variables.)
      const NameScope body(body_prefix_ + "/");
      const DeviceFunctionScope on([&, here](const Node* n) -> std::string {
        const bool inside = !TouchesState(*n) &&
                            (here == nullptr || CurrentContext() != nullptr);
        const sluice::Result<DeviceName> ours =
            DeviceName::Parse(inside ? name : home_);
        const sluice::Result<DeviceName> asked = DeviceName::Parse(n->device());
        // (The placer reports an invalid name.)
        if (!ours.ok() || !asked.ok()) return n->device();
        return asked->WithDefaults(*ours).ToString();
      });
      results = body_(inputs);
      for (Operand& o : results) {
        // Made here, so that the number is where the body is.
        const Output value = o.Get(o.weak ? NaturalType(o) : DType::kInvalid);
        o = Operand(value, loc_.file, loc_.line);
      }
    }
    if (here == nullptr) PlaceInitializers(first);
    for (int id = first; id < graph_.num_nodes(); ++id) {
      Node* const n = graph_.nodes()[static_cast<size_t>(id)].get();
      if (here != nullptr && !IsInside(ContextOf(n), here)) continue;
      graph_.SetAttr(n, kScheduledAttr, AttrValue(scope_.prefix()));
      for (const Output& in : n->inputs()) {
        Note(in);
        if (here == nullptr) captures_.push_back(in.node);
      }
      may_wait_ = may_wait_ || n->op().facts.waits ||
                  n->op().role == OpRole::kFunctional ||
                  n->op().role == OpRole::kCall;
    }
    return results;
  }

  // Outside of all constructs, what computes the initial values of the body's
  // variables cannot be told from the body when it is built.
  void PlaceInitializers(int first) {
    std::vector<Node*> left;
    for (int id = first; id < graph_.num_nodes(); ++id)
      if (Node* const n = graph_.nodes()[static_cast<size_t>(id)].get();
          n->kind() == OpKind::kAssign && n->device() == home_)
        left.push_back(n);
    std::vector<uint8_t> seen(static_cast<size_t>(graph_.num_nodes()));
    while (!left.empty()) {
      const Node* const n = left.back();
      left.pop_back();
      for (const Output& in : n->inputs()) {
        if (in.node->id() < first ||
            std::exchange(seen[static_cast<size_t>(in.node->id())], 1) != 0)
          continue;
        graph_.SetDevice(in.node, home_);
        left.push_back(in.node);
      }
    }
  }

  // Records the variable that a value of a body was read from, if it is one.
  void Note(Output value) {
    const Node* const variable = ParameterBehind(value);
    if (variable == nullptr) return;
    parameters_.try_emplace(variable->name(), [&] {
      const PartialShape shape =
          variable->AttrOr<PartialShape>("shape", PartialShape());
      const DType type = variable->AttrOr<DType>("dtype", DType::kFloat);
      if (!shape.fully_known() || !IsPlain(type)) return int64_t{0};
      int64_t bytes = static_cast<int64_t>(DTypeSize(type));
      for (const int64_t d : shape.dims()) bytes *= d;
      return bytes;
    }());
  }

  // The decision waits for everything that the body uses, so that a body that
  // was given room on a device always ends.
  void AwaitCaptures() {
    if (outermost_ != nullptr)
      for (const auto& [value, node] : outermost_->switches())
        captures_.push_back(value.node);
    for (Node* const n : captures_) {
      if (n->id() >= schedule_->id()) continue;
      const sluice::Result<Node*> here =
          CaptureControl(CurrentContext(), n, loc_);
      if (here.ok() && (*here)->id() < schedule_->id())
        graph_.AddControlEdge(*here, schedule_).IgnoreError();
      else
        may_wait_ = true;
    }
    // (One that waits for others within may need them to be given room first;
    // one with a single device is behind no Switch that would hold it back.)
    if (may_wait_ || bodies_ != bodies_before_ || devices_.size() == 1)
      graph_.SetAttr(schedule_, "limited", AttrValue(false));
  }

  void TellParameters() {
    AttrValue::Strings names;
    int64_t bytes = 0;
    for (const auto& [name, size] : parameters_) {
      names.push_back(name);
      bytes += size;
    }
    graph_.SetAttr(schedule_, "parameters", AttrValue(std::move(names)));
    graph_.SetAttr(schedule_, "parameter_bytes", AttrValue(bytes));
  }

  Graph& graph_;
  const std::vector<std::string>& devices_;
  const ScheduledFn& body_;
  const ScheduledOptions& options_;
  const SourceLoc loc_;
  const NameScope scope_;
  const std::string what_;
  std::vector<std::string> names_;  // Of the devices, with the scopes around.
  std::string home_;
  const std::string body_prefix_;  // The name scope of the body.
  Node* schedule_ = nullptr;
  std::map<std::string, int64_t> parameters_;  // Bytes by variable.
  std::vector<Node*> captures_;
  Conditional* outermost_ = nullptr;
  bool may_wait_ = false;
  // How many were built so far on this thread, which tells those within.
  static inline thread_local int64_t bodies_ = 0;
  const int64_t bodies_before_;
};

// One call of Scheduled in parts: a loop over the parts, whose body is a call
// without parts. Lives on one thread, which holds the graph's mutex.
class PartsBuilder {
 public:
  PartsBuilder(const std::vector<std::string>& devices, const ScheduledFn& body,
               const ScheduledOptions& options, SourceLoc loc)
      : devices_(devices),
        body_(body),
        options_(options),
        loc_(loc),
        outside_(CurrentLine()),
        at_(loc),
        scope_(options.name.empty() ? "scheduled" : options.name),
        what_(absl::StrCat("scheduled body '", scope_.prefix(), "'")) {}

  // As ScheduledBuilder.
  std::vector<Output> Run(const std::vector<Output>& inputs) {
    if (options_.rows_per_part < 0 || options_.rows_per_part > INT32_MAX) {
      BuildError(InvalidArgument(what_, ": expected rows_per_part from 0 to ",
                                 INT32_MAX, ", got ", options_.rows_per_part),
                 loc_);
      return {};
    }
    if (inputs.empty()) {
      BuildError(InvalidArgument(
                     what_, ": expected an input to cut into parts, got none"),
                 loc_);
      return {};
    }
    if (!Count(inputs)) return {};
    const std::vector<Output> out = BuildWhile(
        {Operand(Constant(Tensor::Scalar<int32_t>(0)))},
        [&](const std::vector<Output>& v) {
          const DeviceScope at_home(options_.home);
          return std::vector<Operand>{Operand(Build("Less", {v[0], parts_}))};
        },
        [&](const std::vector<Output>& v) {
          if (!Part(v[0], inputs))
            return std::vector<Operand>{Operand(CurrentGraph().Failure())};
          const DeviceScope at_home(options_.home);
          return std::vector<Operand>{Operand(Build("AddV2", {v[0], one_}))};
        },
        {.name = "parts"}, loc_);
    if (!out[0].valid()) return {};
    std::vector<Output> results;
    const DeviceScope at_home(options_.home);
    for (const TensorArray& a : arrays_) {
      results.push_back(a.Concat(nullptr, loc_));
      if (!results.back().valid()) return {};
    }
    return results;
  }

 private:
  static Output AsVector(const Output& o) {
    return Build("Reshape", {o, IntVector({1})});
  }

  // The number of rows and of parts.
  bool Count(const std::vector<Output>& inputs) {
    std::vector<Output> shapes;
    for (const Output& x : inputs) shapes.push_back(Build("Shape", {x}));
    const DeviceScope at_home(options_.home);
    one_ = Constant(Tensor::Scalar<int32_t>(1));
    size_ =
        Constant(Tensor::Scalar(static_cast<int32_t>(options_.rows_per_part)));
    std::vector<Node*> checks;
    for (const Output& shape : shapes) {
      const Output n =
          Build("StridedSlice",
                {shape, IntVector({0}), IntVector({1}), IntVector({1})},
                {{"shrink_axis_mask", int64_t{1}}}, "rows");
      if (!n.valid()) return false;
      if (!rows_.valid()) {
        rows_ = n;
        continue;
      }
      const Output message = Constant(Tensor::Scalar<std::string>(absl::StrCat(
          what_, ": expected inputs of as many rows as the first, got")));
      checks.push_back(
          BuildNode("Assert", {Build("Equal", {n, rows_}), message, rows_, n}));
      if (checks.back() == nullptr) return false;
    }
    const ControlDependencies checked(checks);
    // (Without rows there is one part, which has none.)
    const Output last = Build("Sub", {size_, one_});
    parts_ =
        Build("Maximum",
              {Build("FloorDiv", {Build("AddV2", {rows_, last}), size_}), one_},
              {}, "parts");
    return parts_.valid();
  }

  // Places part i; writes its results to the arrays.
  bool Part(const Output& i, const std::vector<Output>& inputs) {
    WhileContext* const loop = CurrentContext()->AsWhile();
    Output begin, end;
    {
      const DeviceScope at_home(options_.home);
      begin = Build("Mul", {i, size_});
      end = Build("Minimum", {Build("AddV2", {begin, size_}), rows_});
    }
    std::vector<Output> rows;
    for (const Output& x : inputs)
      rows.push_back(Build("StridedSlice",
                           {x, AsVector(begin), AsVector(end), IntVector({1})},
                           {}, "part"));
    if (std::any_of(rows.begin(), rows.end(),
                    [](const Output& o) { return !o.valid(); }))
      return false;
    ScheduledOptions whole = options_;
    whole.name = "part";
    std::vector<Output> values;
    {
      const ExactLine callers(outside_);
      values = ScheduledBuilder(devices_, body_, whole, loc_).Run(rows);
    }
    if (values.empty()) return false;
    const DeviceScope at_home(options_.home);
    for (const Output& value : values) {
      TensorArray array;
      {
        const ContextScope outside(loop->outer(), loop->in_outer_condition());
        array =
            TensorArray(value.dtype(), parts_, {.infer_shape = false}, loc_);
      }
      const int index = loop->OpenVariable(
          array.flow(), absl::StrCat("result ", arrays_.size()), std::nullopt,
          {}, loc_);
      if (index < 0) return false;
      const auto with = [&](Output flow) {
        const Output* next = &flow;
        return array.Unflatten(next);
      };
      const LoopVariable v = loop->variable(index);
      const TensorArray written = with(v.body_value).Write(i, value, loc_);
      if (!written || !loop->CloseVariable(index, written.flow(), loc_))
        return false;
      arrays_.push_back(with(Output(v.exit)));
    }
    return true;
  }

  const std::vector<std::string>& devices_;
  const ScheduledFn& body_;
  const ScheduledOptions& options_;
  const SourceLoc loc_, outside_;
  const AtLine at_;
  const NameScope scope_;
  const std::string what_;
  Output rows_, parts_, size_, one_;
  std::vector<TensorArray> arrays_;  // After the loop.
};

}  // namespace

std::vector<Output> BuildScheduled(const std::vector<std::string>& devices,
                                   const std::vector<Operand>& inputs,
                                   const ScheduledFn& body,
                                   const ScheduledOptions& options,
                                   SourceLoc loc) {
  Graph& g = CurrentGraph();
  const std::lock_guard<std::recursive_mutex> lock(g.mutex());
  std::vector<Output> values;
  size_t results = 0;
  const ScheduledFn counted = [&](const std::vector<Output>& v) {
    std::vector<Operand> out = body(v);
    results = out.size();
    return out;
  };
  std::vector<Output> out;
  bool there = true;
  for (const Operand& x : inputs) {
    Output value = x.Get(x.weak ? NaturalType(x) : DType::kInvalid);
    // (A reference is read where the body is scheduled.)
    if (value.valid() && IsRef(value.dtype()))
      value = Build("Identity", {value}, {}, "", loc);
    there = there && value.valid();
    values.push_back(value);
  }
  if (there)
    out = options.rows_per_part == 0
              ? ScheduledBuilder(devices, counted, options, loc).Run(values)
              : PartsBuilder(devices, counted, options, loc).Run(values);
  if (out.empty()) out.assign(results, g.Failure());
  return out;
}

}  // namespace sluice::internal
