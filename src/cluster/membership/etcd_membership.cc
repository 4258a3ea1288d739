#include "cluster/membership/etcd_membership.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "base/failpoint.h"

namespace sluice {
namespace {

using Json = nlohmann::json;

constexpr std::chrono::milliseconds kRetry{200};
// How often Open tries a server that does not answer in time: it may be
// starting or have a slow disk.
constexpr int kAsks = 3;

std::string TaskName(const std::pair<std::string, int>& key) {
  return ClusterTask{key.first, key.second, ""}.name();
}

}  // namespace

EtcdMembership::EtcdMembership(EtcdOptions options)
    : options_(std::move(options)),
      prefix_("/sluice/" + options_.name + "/"),
      client_(options_.endpoints, options_.call_patience) {}

Result<std::unique_ptr<EtcdMembership>> EtcdMembership::Open(
    EtcdOptions options) {
  std::unique_ptr<EtcdMembership> m(new EtcdMembership(std::move(options)));
  int64_t revision = 0;
  Status s = m->Refresh(&revision);
  for (int asked = 1; asked < kAsks && s.code() == StatusCode::kUnavailable;
       ++asked)
    s = m->Refresh(&revision);
  SLUICE_RETURN_IF_ERROR(s);
  m->watcher_ = std::thread([raw = m.get()] { raw->Watch(); });
  return m;
}

EtcdMembership::~EtcdMembership() { Leave(); }

void EtcdMembership::Leave() {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (stop_) return;
    stop_ = true;
    changed_.notify_all();
  }
  keeper_.Stop();
  if (lease_ != 0) (void)client_.Revoke(lease_);
  client_.Shutdown();
  if (watcher_.joinable()) watcher_.join();
}

bool EtcdMembership::Stopped() {
  std::lock_guard<std::mutex> lock(mu_);
  return stop_;
}

// ---- Watching ---------------------------------------------------------------

Result<EtcdMembership::MemberMap> EtcdMembership::List(int64_t* revision) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<EtcdEntry> entries,
                          client_.List(prefix_, revision));
  MemberMap now;
  for (const EtcdEntry& e : entries) {
    // (Ignores keys that are not tasks: others may write there.)
    const std::string rest = e.key.substr(prefix_.size());
    const size_t slash = rest.find('/');
    int task = -1;
    const Json value = Json::parse(e.value, nullptr, false);
    if (slash == std::string::npos ||
        !absl::SimpleAtoi(rest.substr(slash + 1), &task) || !value.is_object())
      continue;
    const auto text = [&value](const char* name) {
      const auto it = value.find(name);
      return it != value.end() && it->is_string() ? it->get<std::string>()
                                                  : std::string();
    };
    Member& member = now[{rest.substr(0, slash), task}];
    member.address = text("address");
    if (!absl::SimpleAtoi(text("incarnation"), &member.incarnation))
      member.incarnation = 0;  // (Not a task: none is lost with it.)
  }
  return now;
}

Status EtcdMembership::Refresh(int64_t* revision) {
  Result<MemberMap> listed = List(revision);
  std::vector<std::tuple<std::string, uint64_t, Status>> gone;
  Lost lost;
  std::string self;
  {
    std::lock_guard<std::mutex> lock(mu_);
    reached_ = listed.status();
    if (!listed.ok()) return reached_;
    MemberMap& now = *listed;
    for (const auto& [key, member] : members_) {
      const auto it = now.find(key);
      if (it != now.end() && it->second == member) continue;
      const std::string name = TaskName(key);
      gone.emplace_back(
          name, member.incarnation,
          Unavailable("task ", name, ": expected its lease in ",
                      client_.Describe(), ", cluster '", options_.name,
                      "', to be alive, got ",
                      it == now.end() ? "its expiry: the task has ended, was "
                                        "stopped or cannot reach etcd"
                                      : "that of a task started since"));
    }
    members_ = std::move(now);
    changed_.notify_all();
    if (!stop_) lost = lost_;
    self = self_task_;
  }
  if (lost)
    for (const auto& [task, incarnation, why] : gone)
      if (task != self) lost(task, incarnation, why);
  return OkStatus();
}

void EtcdMembership::Watch() {
  while (!Stopped()) {
    int64_t revision = 0;
    Status s = Refresh(&revision);
    if (s.ok())
      s = client_.Watch(prefix_, revision + 1, [this] {
        int64_t unused = 0;
        return Refresh(&unused).ok() && !Stopped();
      });
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait_for(lock, kRetry, [this] { return stop_; });
  }
}

void EtcdMembership::OnLost(Lost lost) {
  std::lock_guard<std::mutex> lock(mu_);
  lost_ = std::move(lost);
}

std::string EtcdMembership::Missing(const TaskFilter& wait_for) const {
  std::vector<std::string> missing;
  for (const auto& [job, count] : options_.expected)
    for (int i = 0; i < count; ++i)
      if (wait_for(job, i) && !members_.contains({job, i}))
        missing.push_back(TaskName({job, i}));
  if (options_.expected.empty() && members_.empty()) return "any task";
  if (missing.size() > 10) {
    const size_t more = missing.size() - 10;
    missing.resize(10);
    missing.push_back(absl::StrCat("and ", more, " more"));
  }
  return absl::StrJoin(missing, ", ");
}

Result<ClusterSpec> EtcdMembership::Members(std::chrono::milliseconds patience,
                                            const TaskFilter& wait_for) {
  std::unique_lock<std::mutex> lock(mu_);
  changed_.wait_for(lock, patience, [this, &wait_for] {
    return stop_ || Missing(wait_for).empty();
  });
  if (stop_) return Cancelled("cluster '", options_.name, "': left");
  if (const std::string missing = Missing(wait_for); !missing.empty()) {
    std::vector<std::string> there;
    for (const auto& [key, member] : members_) there.push_back(TaskName(key));
    return Unavailable("cluster '", options_.name, "' in ", client_.Describe(),
                       ": expected ", missing, " to register within ",
                       patience.count(), " ms, got ",
                       there.empty() ? "none" : absl::StrJoin(there, ", "),
                       reached_.ok() ? "" : "; ", reached_.message());
  }
  return Spec(members_);
}

Result<ClusterSpec> EtcdMembership::Present() {
  MemberMap known;
  {
    std::lock_guard<std::mutex> lock(mu_);
    known = members_;
    // (Do not wait for an unreachable etcd.)
    if (stop_ || !reached_.ok()) return Spec(known);
  }
  // The watch may lag behind.
  int64_t unused = 0;
  const Result<MemberMap> now = List(&unused);
  return Spec(now.ok() ? *now : known);
}

Result<ClusterSpec> EtcdMembership::Spec(const MemberMap& members) const {
  ClusterSpec spec;
  for (const auto& [key, member] : members)
    SLUICE_RETURN_IF_ERROR(Annotate(
        spec.Add(key.first, key.second, member.address),
        absl::StrCat("cluster '", options_.name, "' in ", client_.Describe())));
  return spec;
}

// ---- This task's registration -----------------------------------------------

Status EtcdMembership::Take(std::string* owner) {
  SLUICE_RETURN_IF_ERROR(SLUICE_FAILPOINT("etcd.take").error);
  std::chrono::seconds granted{0};
  SLUICE_ASSIGN_OR_RETURN(const int64_t lease,
                          client_.Grant(options_.lease, &granted));
  const Result<std::optional<std::string>> taken = client_.Claim(self_, lease);
  if (!taken.ok() || taken->has_value()) (void)client_.Revoke(lease);
  SLUICE_RETURN_IF_ERROR(taken.status());
  owner->clear();
  if (taken->has_value()) {
    *owner = **taken;
    return OkStatus();
  }
  lease_ = lease;
  lease_time_ = granted;
  return OkStatus();
}

Status EtcdMembership::Join(const ClusterTask& self, uint64_t incarnation,
                            std::function<void(const Status&)> evicted) {
  {
    ClusterSpec valid;
    SLUICE_RETURN_IF_ERROR(valid.Add(self.job, self.task, self.address));
  }
  {
    std::lock_guard<std::mutex> lock(mu_);
    self_task_ = self.name();
  }
  self_.key = absl::StrCat(prefix_, self.job, "/", self.task);
  self_.value = Json{{"address", self.address},
                     {"incarnation", absl::StrCat(incarnation)}}
                    .dump();
  evicted_ = std::move(evicted);
  // A task that has just died still has its lease.
  const auto until = std::chrono::steady_clock::now() + 2 * options_.lease +
                     options_.call_patience;
  std::string owner;
  for (;;) {
    const Status s = Take(&owner);
    const bool late = std::chrono::steady_clock::now() > until;
    if (!s.ok() && (late || s.code() != StatusCode::kUnavailable)) return s;
    if (s.ok() && owner.empty()) break;
    if (s.ok() && late)
      return AlreadyExists("task ", self_task_, " of cluster '", options_.name,
                           "' in ", client_.Describe(),
                           ": expected an unused number, got one that is "
                           "taken: ",
                           owner);
    std::unique_lock<std::mutex> lock(mu_);
    if (changed_.wait_for(lock, kRetry, [this] { return stop_; }))
      return Cancelled("cluster '", options_.name, "': left");
  }
  keeper_.Every(std::chrono::milliseconds(lease_time_) / 4, [this] { Keep(); });
  return OkStatus();
}

// Runs four times per lease duration.
void EtcdMembership::Keep() {
  if (Stopped() || lease_ == 0) return;
  if (!SLUICE_FAILPOINT("etcd.keep_alive").error.ok()) return;
  const Result<bool> alive = client_.KeepAlive(lease_);
  if (!alive.ok() || *alive) return;  // (Unreachable: retry next time.)
  std::string owner;
  const Status s = Take(&owner);
  // (The old key may briefly outlive its lease: retry next time.)
  if (Stopped() || !s.ok() || owner == self_.value) return;
  if (owner.empty()) {
    std::fprintf(stderr,
                 "sluice: %s: its lease in %s had expired; it is registered "
                 "again\n",
                 self_task_.c_str(), client_.Describe().c_str());
    return;
  }
  lease_ = 0;
  if (evicted_ == nullptr) return;
  evicted_(Aborted("task ", self_task_, ": expected to keep its place in ",
                   client_.Describe(), ", cluster '", options_.name,
                   "', got another owner: ", owner));
}

}  // namespace sluice
