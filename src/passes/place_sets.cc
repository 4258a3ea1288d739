#include "passes/place_sets.h"

#include <algorithm>

#include "graph/hidden_attributes.h"

namespace sluice {

// ---- DeviceSets -------------------------------------------------------------

DeviceSets::DeviceSets(int devices) : devices_(devices) {
  Intern({});  // kNone.
  Where([](int) { return true; });
  for (int d = 0; d < devices; ++d) just_.push_back(Intern({d}));
}

DeviceSets::Id DeviceSets::Intern(std::vector<int> members) {
  const auto [it, added] =
      ids_.emplace(std::move(members), static_cast<Id>(sets_.size()));
  if (added) sets_.push_back(it->first);
  return it->second;
}

DeviceSets::Id DeviceSets::Where(const std::function<bool(int)>& in) {
  std::vector<int> members;
  for (int d = 0; d < devices_; ++d)
    if (in(d)) members.push_back(d);
  return Intern(std::move(members));
}

DeviceSets::Id DeviceSets::Single(int device) {
  return just_[static_cast<size_t>(device)];
}

DeviceSets::Id DeviceSets::Intersect(Id a, Id b) {
  if (a == b || b == kAll) return a;
  if (a == kAll) return b;
  if (a > b) std::swap(a, b);
  const uint64_t key = (static_cast<uint64_t>(a) << 32) |
                       static_cast<uint64_t>(static_cast<uint32_t>(b));
  if (auto it = intersections_.find(key); it != intersections_.end())
    return it->second;
  std::vector<int> both;
  std::set_intersection(Members(a).begin(), Members(a).end(),
                        Members(b).begin(), Members(b).end(),
                        std::back_inserter(both));
  return intersections_[key] = Intern(std::move(both));
}

bool DeviceSets::Has(Id set, int device) const {
  if (set == kAll) return true;
  const std::vector<int>& members = Members(set);
  return std::binary_search(members.begin(), members.end(), device);
}

// ---- Feasibility ------------------------------------------------------------

namespace {

bool IsKernelOp(const Node& n) {
  return n.op().role == OpRole::kCompute || n.op().role == OpRole::kFunctional;
}

}  // namespace

std::string DescribeAsked(const Node& n) {
  return n.AttrOr<std::string>(kFedNodeAttr, n.Describe());
}

Feasibility::Feasibility(const PlacementOptions& options, DeviceSets* sets)
    : options_(options), sets_(*sets) {
  const std::vector<PlaceableDevice>& devices = options.devices;
  const auto where = [&](const auto& in) {
    return sets_.Where(
        [&](int d) { return in(devices[static_cast<size_t>(d)].name); });
  };
  cpus_ = where([](const DeviceName& d) { return d.type == "CPU"; });
  std::map<std::string, Id> types, tasks;
  for (size_t i = 0; i < devices.size(); ++i) {
    const DeviceName& name = devices[i].name;
    const DeviceName task = name.Task();
    const auto [it, new_task] = tasks.emplace(task.ToString(), 0);
    if (new_task)
      it->second = where([&](const DeviceName& d) { return d.Task() == task; });
    task_of_.push_back(it->second);
    if (!types.emplace(name.type, 0).second) continue;
    type_example_.push_back(static_cast<int>(i));
    of_type_.push_back(
        where([&](const DeviceName& d) { return d.type == name.type; }));
  }
}

DeviceSets::Id Feasibility::CpusIfAny(Id set) {
  const Id of_these = sets_.Intersect(set, cpus_);
  return of_these == DeviceSets::kNone ? set : of_these;
}

std::string Feasibility::Names(Id set) const {
  constexpr size_t kMax = 8;
  std::string names;
  const std::vector<int>& members = sets_.Members(set);
  for (size_t i = 0; i < std::min(members.size(), kMax); ++i)
    absl::StrAppend(
        &names, i == 0 ? "" : ", ",
        options_.devices[static_cast<size_t>(members[i])].name.ToString());
  if (members.size() > kMax)
    absl::StrAppend(&names, " and ", members.size() - kMax, " more");
  return members.empty() ? "none" : names;
}

Result<Feasibility::Requested> Feasibility::Parse(const Node& n) {
  const auto [it, added] = asked_.try_emplace(n.device());
  Requested& asked = it->second;
  if (!added) return asked;
  const Result<DeviceName> name = DeviceName::Parse(n.device());
  if (!name.ok())
    return InvalidArgument(name.status().message(), "; ", DescribeAsked(n));
  const auto where = [&](const DeviceName& constraint) {
    return sets_.Where([&](int d) {
      return constraint.Matches(options_.devices[static_cast<size_t>(d)].name);
    });
  };
  asked.match = where(*name);
  if (asked.match == DeviceSets::kNone) {
    asked.task = where(name->Task());
    return asked;
  }
  std::vector<uint8_t> near(options_.devices.size(), 0);
  for (const int d : sets_.Members(asked.match))
    for (const int other : sets_.Members(task_of(d)))
      near[static_cast<size_t>(other)] = 1;
  asked.task =
      sets_.Where([&](int d) { return near[static_cast<size_t>(d)] != 0; });
  return asked;
}

DeviceSets::Id Feasibility::Kernels(const Node& n, Status* why) {
  // Nodes that move tokens run on the host; values are copied as needed.
  if (!IsKernelOp(n)) return DeviceSets::kAll;
  const OpDef* op = &n.op();
  key_.assign(reinterpret_cast<const char*>(&op), sizeof(op));
  for (int i = 0; i < n.num_inputs(); ++i)
    key_ += static_cast<char>(n.input_type(i));
  for (int i = 0; i < n.num_outputs(); ++i)
    key_ += static_cast<char>(n.output_type(i));
  Kernel& kernel = kernels_[key_];
  kernel.types.resize(type_example_.size(), 0);
  // That one node has no kernel does not rule out others: attributes may be the
  // reason.
  bool grown = false;
  for (size_t t = 0; t < type_example_.size(); ++t) {
    if (kernel.types[t] != 0) continue;
    const PlaceableDevice& device =
        options_.devices[static_cast<size_t>(type_example_[t])];
    const Status s = device.has_kernel ? device.has_kernel(n) : OkStatus();
    if (s.ok()) {
      kernel.types[t] = 1;
      grown = true;
    } else if (why != nullptr) {
      // An error of the attributes says more than that there is no kernel.
      const bool first = why->ok() || why->code() == StatusCode::kUnimplemented;
      *why = Status(first ? s.code() : why->code(),
                    absl::StrCat(why->message(), why->ok() ? "" : "; ",
                                 device.name.type, ": ", s.message()));
    }
  }
  if (grown)
    kernel.devices = sets_.Where([&](int d) {
      for (size_t t = 0; t < of_type_.size(); ++t)
        if (kernel.types[t] != 0 && sets_.Has(of_type_[t], d)) return true;
      return false;
    });
  return kernel.devices;
}

Result<Feasibility::Choice> Feasibility::Of(const Node& n) {
  SLUICE_ASSIGN_OR_RETURN(const Requested asked, Parse(n));
  if (asked.match == DeviceSets::kNone &&
      (!options_.soft_placement || asked.task == DeviceSets::kNone))
    return InvalidArgument("device: expected one of ", Names(DeviceSets::kAll),
                           ", got '", n.device(), "'; ", DescribeAsked(n));
  const Id kernels = Kernels(n, nullptr);
  Choice choice;
  choice.may = sets_.Intersect(asked.match, kernels);
  choice.last_resort = sets_.Intersect(asked.task, kernels);
  if (choice.may != DeviceSets::kNone) return choice;
  if (options_.soft_placement && choice.last_resort != DeviceSets::kNone) {
    choice.may = CpusIfAny(choice.last_resort);
    choice.softened = true;
    return choice;
  }
  Status refusal;
  Kernels(n, &refusal);
  const std::string why(refusal.message());
  if (kernels == DeviceSets::kNone &&
      refusal.code() != StatusCode::kUnimplemented)
    return Status(refusal.code(), absl::StrCat(why, "; ", DescribeAsked(n)));
  if (kernels == DeviceSets::kNone)
    return Unimplemented("device: expected a kernel for ", n.op_name(),
                         " on some device, got none (", why, "); ",
                         DescribeAsked(n));
  return InvalidArgument("device: expected one with a kernel for ", n.op_name(),
                         " (", Names(kernels), "), got '", n.device(), "' (",
                         why, "); ", DescribeAsked(n));
}

}  // namespace sluice
