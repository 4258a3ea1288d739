#include "exec/scheduling/schedule_policy.h"

#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "exec/scheduling/scheduler.h"
#include "graph/op_def.h"

namespace sluice {
namespace {

// The candidate for which cost(c) is least, the first of several.
template <typename Cost>
int Cheapest(const ScheduleRequest& r, Cost cost) {
  int best = 0;
  auto least = cost(r.candidates[0]);
  for (size_t i = 1; i < r.candidates.size(); ++i)
    if (auto c = cost(r.candidates[i]); c < least) {
      least = c;
      best = static_cast<int>(i);
    }
  return best;
}

int ByLoad(const ScheduleRequest& r) {
  return Cheapest(r, [](const ScheduleCandidate& c) { return c.load_ns; });
}

int ByLocality(const ScheduleRequest& r) {
  return Cheapest(r, [](const ScheduleCandidate& c) {
    return std::pair(-c.parameter_bytes, c.load_ns);
  });
}

int ByCost(const ScheduleRequest& r) {
  return Cheapest(r, [&r](const ScheduleCandidate& c) {
    const int64_t missing = r.parameter_bytes > c.parameter_bytes
                                ? r.parameter_bytes - c.parameter_bytes
                                : 0;
    const auto copied = static_cast<double>(missing + r.input_bytes);
    return c.load_ns + copied / r.bytes_per_s * 1e9 + r.work_ns;
  });
}

struct SchedulePolicies {
  std::mutex mu;
  // GUARDED_BY(mu)
  std::map<std::string, std::unique_ptr<const SchedulePolicy>> by_name;
};

SchedulePolicies& AllSchedulePolicies() {
  static auto* const all = [] {
    auto* const p = new SchedulePolicies;
    const auto add = [p](const char* name, int (*fn)(const ScheduleRequest&)) {
      p->by_name[name] = std::make_unique<const SchedulePolicy>(fn);
    };
    add("cost", ByCost);
    add("least_loaded", ByLoad);
    add("locality", ByLocality);
    return p;
  }();
  return *all;
}

}  // namespace

Status RegisterSchedulePolicy(const std::string& name, SchedulePolicy policy) {
  if (name.empty() || policy == nullptr)
    return InvalidArgument("schedule policy '", name,
                           "': expected a name and a function, got ",
                           name.empty() ? "no name" : "no function");
  SchedulePolicies& all = AllSchedulePolicies();
  std::lock_guard<std::mutex> lock(all.mu);
  auto& known = all.by_name[name];
  if (known != nullptr)
    return AlreadyExists("schedule policy: expected a new name, got '", name,
                         "'");
  known = std::make_unique<const SchedulePolicy>(std::move(policy));
  return OkStatus();
}

Result<const SchedulePolicy*> FindSchedulePolicy(const std::string& name) {
  SchedulePolicies& all = AllSchedulePolicies();
  std::lock_guard<std::mutex> lock(all.mu);
  const auto it = all.by_name.find(name);
  if (it != all.by_name.end()) return it->second.get();
  std::vector<std::string> names;
  for (const auto& [known, policy] : all.by_name) names.push_back(known);
  return NotFound("schedule policy: expected one that is registered (nearest: ",
                  absl::StrJoin(NearestNames(name, names), ", "), "), got '",
                  name, "'");
}

}  // namespace sluice
