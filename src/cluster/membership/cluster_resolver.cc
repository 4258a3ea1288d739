#include "cluster/membership/cluster_resolver.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "cluster/membership/etcd_membership.h"
#include "session/backend.h"

namespace sluice {
namespace {

const std::set<std::string>& SettingsOf(const std::string& scheme) {
  static const auto* const settings =
      new std::map<std::string, std::set<std::string>>{
          {"etcd", {"lease"}},
          {"slurm", {"port"}},
          {"mpi", {"port", "hosts", "hostfile"}},
          {"kubernetes", {"port", "service", "namespace", "domain"}}};
  static const auto* const none = new std::set<std::string>;
  const auto it = settings->find(scheme);
  return it == settings->end() ? *none : it->second;
}

std::optional<std::string> OfThisProcess(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

class FixedResolver final : public ClusterResolver {
 public:
  FixedResolver(ClusterSpec cluster, Result<ClusterTask> self, std::string bind)
      : cluster_(std::move(cluster)),
        self_(std::move(self)),
        bind_(std::move(bind)) {}
  Result<ClusterSpec> Cluster(const TaskFilter&) override { return cluster_; }
  Result<ClusterTask> Self() override { return self_; }
  std::string Bind() override { return bind_; }

 private:
  const ClusterSpec cluster_;
  const Result<ClusterTask> self_;
  const std::string bind_;
};

Status NoTask() {
  return FailedPrecondition(
      "task: expected a job and a number for this process, got none (it is a "
      "client)");
}

class EtcdResolver final : public ClusterResolver {
 public:
  EtcdResolver(std::unique_ptr<EtcdMembership> membership,
               ResolverOptions options)
      : membership_(std::move(membership)), options_(std::move(options)) {}
  Result<ClusterSpec> Cluster(const TaskFilter& wait_for) override {
    return membership_->Members(options_.patience, wait_for);
  }
  Result<ClusterSpec> Present() override { return membership_->Present(); }
  Result<ClusterTask> Self() override {
    if (options_.job.empty()) return NoTask();
    return ClusterTask{options_.job, options_.task, options_.address};
  }
  bool changes() const override { return true; }
  Status Join(uint64_t incarnation,
              std::function<void(const Status&)> evicted) override {
    SLUICE_ASSIGN_OR_RETURN(const ClusterTask self, Self());
    return membership_->Join(self, incarnation, std::move(evicted));
  }
  void OnLost(Lost lost) override { membership_->OnLost(std::move(lost)); }
  void Leave() override { membership_->Leave(); }

 private:
  const std::unique_ptr<EtcdMembership> membership_;
  const ResolverOptions options_;
};

Result<std::unique_ptr<SessionBackend>> OpenAtMaster(
    const std::string& target, const SessionOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const auto resolver, MakeClusterResolver(target));
  SLUICE_ASSIGN_OR_RETURN(const std::string master, resolver->Master());
  return ConnectSessionBackend(master, options);
}
const SessionBackendRegistration from_file("file", OpenAtMaster);
const SessionBackendRegistration from_etcd("etcd", OpenAtMaster);
const SessionBackendRegistration from_slurm("slurm", OpenAtMaster);
const SessionBackendRegistration from_mpi("mpi", OpenAtMaster);
const SessionBackendRegistration from_kubernetes("kubernetes", OpenAtMaster);

}  // namespace

Result<ClusterSource> ClusterSource::Parse(std::string_view text) {
  ClusterSource s;
  const std::string all(text);
  const size_t colon = all.find("://");
  const std::string word = all.substr(0, std::min(all.find('?'), colon));
  const bool environment =
      word == "slurm" || word == "mpi" || word == "kubernetes";
  if (all.starts_with('{')) {
    s.scheme = "json";
    s.rest = all;
  } else if (colon == std::string::npos && !environment) {
    s.scheme = "file";
    s.rest = all;
  } else if (word == "file") {
    s.scheme = word;
    s.rest = all.substr(colon + 3);
  } else if (environment || word == "etcd") {
    s.scheme = word;
    const size_t question = all.find('?');
    const size_t begin = colon == std::string::npos || colon > question
                             ? word.size()
                             : colon + 3;
    if (begin < std::min(question, all.size()))
      s.rest = all.substr(begin, std::min(question, all.size()) - begin);
    if (question != std::string::npos)
      for (const absl::string_view part :
           absl::StrSplit(absl::string_view(all).substr(question + 1), '&',
                          absl::SkipEmpty())) {
        const std::pair<std::string, std::string> kv =
            absl::StrSplit(part, absl::MaxSplits('=', 1));
        s.options.push_back(kv);
      }
  } else {
    return InvalidArgument(
        "cluster: expected a file, etcd://, slurm, mpi or kubernetes, got '",
        all, "'");
  }
  if (s.scheme != "json" &&
      s.rest.empty() == (s.scheme == "file" || s.scheme == "etcd"))
    return InvalidArgument("cluster: expected ",
                           s.scheme == "etcd" ? "etcd://host:port/name"
                           : s.scheme == "file"
                               ? "a file"
                               : s.scheme + " alone or with ?options",
                           ", got '", all, "'");
  SLUICE_RETURN_IF_ERROR(Annotate(s.Jobs().status(), all));
  return s;
}

std::string ClusterSource::Option(const std::string& name) const {
  for (const auto& [key, value] : options)
    if (key == name) return value;
  return "";
}

Result<std::vector<std::pair<std::string, int>>> ClusterSource::Jobs() const {
  const std::set<std::string>& settings = SettingsOf(scheme);
  std::vector<std::pair<std::string, int>> jobs;
  std::set<std::string> seen;
  for (const auto& [key, value] : options) {
    if (!seen.insert(key).second)
      return InvalidArgument("option '", key, "': expected once, got it again");
    if (settings.contains(key)) continue;
    int count = 0;
    ClusterSpec valid;
    if (!valid.Add(key, 0, "host:1").ok() || !absl::SimpleAtoi(value, &count) ||
        count < 1 || count > 1 << 16)
      return InvalidArgument("option '", key, "=", value,
                             "': expected JOB=COUNT",
                             settings.empty() ? "" : ", or one of ",
                             absl::StrJoin(settings, ", "));
    jobs.emplace_back(key, count);
  }
  return jobs;
}

Result<std::string> ClusterResolver::Master() {
  SLUICE_ASSIGN_OR_RETURN(const ClusterSpec cluster, Cluster());
  const ClusterTask* master = nullptr;
  const std::vector<std::string> likely = {"chief", "master", "worker"};
  size_t best = likely.size() + 1;
  for (const ClusterTask& t : cluster.tasks()) {  // Sorted by job and number.
    const auto rank = static_cast<size_t>(
        std::find(likely.begin(), likely.end(), t.job) - likely.begin());
    if (rank >= best) continue;
    best = rank;
    master = &t;
  }
  if (master == nullptr)
    return FailedPrecondition("cluster: expected a task, got none");
  return "grpc://" + master->address;
}

Result<std::unique_ptr<ClusterResolver>> MakeClusterResolver(
    std::string_view source, ResolverOptions options) {
  SLUICE_ASSIGN_OR_RETURN(const ClusterSource s, ClusterSource::Parse(source));
  if (s.scheme == "etcd") return MakeEtcdResolver(s, options);
  EnvironmentCluster c;
  Result<ClusterTask> self = NoTask();
  if (s.scheme == "file") {
    SLUICE_ASSIGN_OR_RETURN(c.cluster, ClusterSpec::Load(s.rest));
  } else if (s.scheme == "json") {
    SLUICE_ASSIGN_OR_RETURN(c.cluster, ClusterSpec::Parse(s.rest));
  } else {
    const EnvironmentReader e =
        options.environment ? options.environment : OfThisProcess;
    SLUICE_ASSIGN_OR_RETURN(c, s.scheme == "slurm" ? ClusterFromSlurm(s, e)
                               : s.scheme == "mpi"
                                   ? ClusterFromMpi(s, e)
                                   : ClusterFromKubernetes(s, e));
    self = c.self;
  }
  if (!options.job.empty()) {
    SLUICE_ASSIGN_OR_RETURN(self, c.cluster.Find(options.job, options.task));
    if (self->name() != c.self.name()) c.bind.clear();
  }
  return std::unique_ptr<ClusterResolver>(std::make_unique<FixedResolver>(
      std::move(c.cluster), std::move(self), std::move(c.bind)));
}

Result<EtcdOptions> EtcdOptionsOf(const ClusterSource& source) {
  EtcdOptions etcd;
  const size_t slash = source.rest.find('/');
  if (slash != std::string::npos) etcd.name = source.rest.substr(slash + 1);
  etcd.endpoints =
      absl::StrSplit(source.rest.substr(0, slash), ',', absl::SkipEmpty());
  ClusterSpec valid;
  int number = 0;
  for (const std::string& e : etcd.endpoints)
    SLUICE_RETURN_IF_ERROR(
        Annotate(valid.Add("etcd", number++, e), "etcd://" + source.rest));
  if (etcd.endpoints.empty() || etcd.name.empty() ||
      etcd.name.find('/') != std::string::npos)
    return InvalidArgument(
        "cluster: expected etcd://host:port[,host:port]/name, got 'etcd://",
        source.rest, "'");
  SLUICE_ASSIGN_OR_RETURN(const auto jobs, source.Jobs());
  etcd.expected.insert(jobs.begin(), jobs.end());
  if (const std::string lease = source.Option("lease"); !lease.empty()) {
    int seconds = 0;
    if (!absl::SimpleAtoi(lease, &seconds) || seconds < 1 || seconds > 86400)
      return InvalidArgument("option 'lease': expected seconds, got '", lease,
                             "'");
    etcd.lease = std::chrono::seconds(seconds);
  }
  return etcd;
}

Result<std::unique_ptr<ClusterResolver>> MakeEtcdResolver(
    const ClusterSource& source, const ResolverOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(EtcdOptions etcd, EtcdOptionsOf(source));
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<EtcdMembership> membership,
                          EtcdMembership::Open(std::move(etcd)));
  return std::unique_ptr<ClusterResolver>(
      std::make_unique<EtcdResolver>(std::move(membership), options));
}

}  // namespace sluice
