// EtcdClient: the few etcd calls that membership needs (version 3, gRPC).
#ifndef SLUICE_CLUSTER_MEMBERSHIP_ETCD_CLIENT_H_
#define SLUICE_CLUSTER_MEMBERSHIP_ETCD_CLIENT_H_

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

// Calls block for at most `patience` per server; at Shutdown they return
// Cancelled. If a server does not answer, the next one is tried. Errors name
// etcd's address. Thread-safe.
class EtcdClient {
 public:
  // `endpoints`: "host:port" of the servers of one etcd cluster; at least one.
  EtcdClient(std::vector<std::string> endpoints,
             std::chrono::milliseconds patience);
  ~EtcdClient();
  EtcdClient(const EtcdClient&) = delete;
  EtcdClient& operator=(const EtcdClient&) = delete;

  // All keys with this prefix, and the revision of the snapshot.
  Result<std::vector<EtcdEntry>> List(const std::string& prefix,
                                      int64_t* revision);
  // The ID of a new lease, and the duration that was granted.
  Result<int64_t> Grant(std::chrono::seconds wanted,
                        std::chrono::seconds* granted);
  // False if the lease has ended.
  Result<bool> KeepAlive(int64_t lease);
  Status Revoke(int64_t lease);
  // Writes the key under the lease if it does not exist; else returns its
  // value.
  Result<std::optional<std::string>> Claim(const EtcdEntry& entry,
                                           int64_t lease);
  // Calls `changed` after each change from that revision on, until the
  // connection ends, the server has no leader, or `changed` returns false;
  // returns the reason.
  Status Watch(const std::string& prefix, int64_t revision,
               const std::function<bool()>& changed);
  // Cancels all calls, current and future.
  void Shutdown();

  std::string Describe() const;  // "etcd at host:port, host:port"

 private:
  class Call;
  using Channel = std::shared_ptr<grpc::Channel>;
  // Makes the call at the server that answered last, or else at the next one
  // that answers.
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

#endif  // SLUICE_CLUSTER_MEMBERSHIP_ETCD_CLIENT_H_
