// EtcdClient: the few calls to etcd that membership takes (version 3, gRPC).
#ifndef SLUICE_DIST_ETCD_CLIENT_H_
#define SLUICE_DIST_ETCD_CLIENT_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"

namespace sluice {

struct EtcdEntry {
  std::string key, value;
};

// Calls block, each at most as long as its patience for each server; those of
// other threads end with Cancelled at Shutdown. A server that does not answer
// is passed over for the next one. Errors name etcd's address. Thread-safe.
class EtcdClient {
 public:
  // `endpoints`: "host:port", those of one etcd cluster; at least one.
  EtcdClient(std::vector<std::string> endpoints,
             std::chrono::milliseconds patience);
  ~EtcdClient();
  EtcdClient(const EtcdClient&) = delete;
  EtcdClient& operator=(const EtcdClient&) = delete;

  // All keys that begin with this, and as of which revision.
  Result<std::vector<EtcdEntry>> List(const std::string& prefix,
                                      int64_t* revision);
  // A lease's number, and how many seconds it really has.
  Result<int64_t> Grant(std::chrono::seconds wanted,
                        std::chrono::seconds* granted);
  // False if the lease has ended.
  Result<bool> KeepAlive(int64_t lease);
  Status Revoke(int64_t lease);
  // Writes the key, if there is none, for as long as the lease lives. Else the
  // value that it has.
  Result<std::optional<std::string>> Claim(const EtcdEntry& entry,
                                           int64_t lease);
  // Calls `changed` after each change from that revision on, until the
  // connection or `changed` ends it; says why it ended.
  Status Watch(const std::string& prefix, int64_t revision,
               const std::function<bool()>& changed);
  // No call comes through after it.
  void Shutdown();

  std::string Describe() const;  // "etcd at host:port, host:port"

 private:
  class Call;
  using Channel = std::shared_ptr<grpc::Channel>;
  // The call at the server that answered last, or at one that answers.
  Status Try(const std::function<grpc::Status(const Channel&,
                                              grpc::ClientContext*)>& call);

  const std::vector<std::string> endpoints_;
  const std::chrono::milliseconds patience_;
  std::vector<Channel> channels_;  // By endpoint.
  mutable std::mutex mu_;
  size_t current_ = 0;                        // GUARDED_BY(mu_)
  bool stopped_ = false;                      // GUARDED_BY(mu_)
  std::set<grpc::ClientContext*> under_way_;  // GUARDED_BY(mu_)
};

}  // namespace sluice

#endif  // SLUICE_DIST_ETCD_CLIENT_H_
