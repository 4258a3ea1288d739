#include "cluster/membership/etcd_election.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/failpoint.h"
#include "cluster/membership/cluster_resolver.h"

namespace sluice {
namespace {

// A candidate looks at least so often.
constexpr std::chrono::milliseconds kLooks{500};
// Calls take part of the lease; the office ends before it.
constexpr int kSafePart = 5;  // One fifth.
// How long Join asks, since etcd may be starting too.
constexpr std::chrono::seconds kJoinPatience{10};
constexpr std::chrono::milliseconds kJoinPause{100};

std::string ThisCandidate() {
  char host[256] = {};
  if (gethostname(host, sizeof(host) - 1) != 0) host[0] = '\0';
  return absl::StrCat("process ", getpid(), " on ", host);
}

}  // namespace

EtcdElection::EtcdElection(EtcdOptions options)
    : options_(std::move(options)),
      folder_("/sluice-chief/" + options_.name + "/"),
      client_(options_.endpoints, options_.call_patience) {}

Result<std::unique_ptr<EtcdElection>> EtcdElection::Join(EtcdOptions options) {
  // (A call that waits for longer costs the office.)
  options.call_patience =
      std::min(options.call_patience,
               std::chrono::milliseconds(options.lease) / kSafePart);
  std::unique_ptr<EtcdElection> e(new EtcdElection(std::move(options)));
  const auto end = Clock::now() + kJoinPatience;
  Status looked = e->Look();
  while (looked.code() == StatusCode::kUnavailable && Clock::now() < end) {
    std::this_thread::sleep_for(kJoinPause);  // (Some errors come at once.)
    looked = e->Look();
  }
  SLUICE_RETURN_IF_ERROR(looked);
  e->told_ = e->elected();
  const std::chrono::milliseconds lease(e->options_.lease);
  e->runner_.Every(std::min(lease / 4, kLooks),
                   [raw = e.get()] { raw->Tick(); });
  return e;
}

EtcdElection::~EtcdElection() {
  runner_.Stop();
  if (lease_ != 0) (void)client_.Revoke(lease_);
}

bool EtcdElection::elected() {
  std::lock_guard<std::mutex> lock(mu_);
  return Clock::now() < until_;
}

void EtcdElection::OnChange(std::function<void()> changed) {
  std::lock_guard<std::mutex> lock(mu_);
  changed_ = std::move(changed);
}

Status EtcdElection::Look() {
  int64_t revision = 0;
  SLUICE_ASSIGN_OR_RETURN(const std::vector<EtcdEntry> entries,
                          client_.List(folder_, &revision));
  return entries.empty() ? Campaign() : OkStatus();
}

Status EtcdElection::Campaign() {
  const auto asked = Clock::now();
  std::chrono::seconds granted{0};
  SLUICE_ASSIGN_OR_RETURN(const int64_t lease,
                          client_.Grant(options_.lease, &granted));
  const Result<std::optional<std::string>> owner =
      client_.Claim({folder_ + "chief", ThisCandidate()}, lease);
  if (!owner.ok() || owner->has_value()) {
    (void)client_.Revoke(lease);
    return owner.status();
  }
  lease_ = lease;
  std::lock_guard<std::mutex> lock(mu_);
  until_ = asked + granted - granted / kSafePart;
  return OkStatus();
}

void EtcdElection::Renew() {
  if (!SLUICE_FAILPOINT("election.renew").error.ok()) return;
  const auto asked = Clock::now();
  const Result<bool> alive = client_.KeepAlive(lease_);
  std::lock_guard<std::mutex> lock(mu_);
  // (While etcd does not answer, the office lasts as long as the lease is known
  // to.)
  if (alive.ok() && *alive && Clock::now() < until_)
    until_ = asked + options_.lease - options_.lease / kSafePart;
  else if (alive.ok())
    until_ = Clock::time_point::min();
}

void EtcdElection::Tick() {
  if (lease_ != 0) Renew();
  if (lease_ != 0 && !elected()) {
    // (Who was late must not hold the office again without all knowing.)
    (void)client_.Revoke(lease_);
    lease_ = 0;
  } else if (lease_ == 0) {
    (void)Look();  // (Unreachable: again at the next tick.)
  }
  if (const bool now = elected(); now != told_) {
    told_ = now;
    std::function<void()> changed;
    {
      std::lock_guard<std::mutex> lock(mu_);
      changed = changed_;
    }
    if (changed) changed();
  }
}

}  // namespace sluice

extern "C" void sluice_join_election(
    const std::string* source, std::unique_ptr<sluice::ChiefElection>* election,
    sluice::Status* status) {
  sluice::Result<sluice::ClusterSource> parsed =
      sluice::ClusterSource::Parse(*source);
  *status = parsed.status();
  if (!parsed.ok()) return;
  if (parsed->scheme != "etcd") {
    *status = sluice::InvalidArgument(
        "election: expected etcd://host:port/name, got '", *source, "'");
    return;
  }
  sluice::Result<sluice::EtcdOptions> options = sluice::EtcdOptionsOf(*parsed);
  *status = options.status();
  if (!options.ok()) return;
  auto joined = sluice::EtcdElection::Join(*std::move(options));
  *status = joined.status();
  if (joined.ok()) *election = *std::move(joined);
}
