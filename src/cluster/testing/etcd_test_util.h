// An etcd server for one test.
#ifndef SLUICE_CLUSTER_TESTING_ETCD_TEST_UTIL_H_
#define SLUICE_CLUSTER_TESTING_ETCD_TEST_UTIL_H_

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "cluster/membership/etcd_client.h"
#include "cluster/testing/child_process_test_util.h"

namespace sluice {

// Listens on a free local port, with its data in a temporary directory, until
// it is destroyed. `endpoint()` is "" if etcd is not installed.
class TestEtcd {
 public:
  TestEtcd() {
    // In memory where possible, because etcd syncs to disk at each write.
    std::string pattern =
        (access("/dev/shm", W_OK) == 0 ? "/dev/shm/" : ::testing::TempDir()) +
        "sluice_etcd_XXXXXX";
    if (mkdtemp(pattern.data()) != nullptr) folder_ = pattern;
    for (int attempt = 0; attempt < 10 && endpoint_.empty(); ++attempt) {
      peer_port_ = UnusedPort();
      port_ = UnusedPort();
      Start();
    }
  }
  ~TestEtcd() {
    process_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  const std::string& endpoint() const { return endpoint_; }
  void Kill() { process_.reset(); }
  void Signal(int signal) { process_->Signal(signal); }
  // Restarts with the same data and ports.
  void Start() {
    const std::string client = "http://127.0.0.1:" + std::to_string(port_);
    const std::string peer = "http://127.0.0.1:" + std::to_string(peer_port_);
    const std::string log = folder_ + "/log";
    process_ = std::make_unique<ChildProcess>(
        "etcd",
        std::vector<std::string>{
            "--name", "test", "--data-dir", folder_ + "/data",
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
            "--initial-cluster", "test=" + peer,
            // (A single server can use short timeouts, which allow short
            // leases.)
            "--heartbeat-interval", "100", "--election-timeout", "500"},
        std::vector<std::string>{"ETCD_UNSUPPORTED_ARCH="}, log);
    const std::string at = client.substr(7);
    EtcdClient asks({at}, std::chrono::milliseconds(2000));
    int64_t revision = 0;
    const bool up = BecomesTrue(
        [&] { return process_->Ended() || asks.List("/", &revision).ok(); });
    endpoint_ = up && !process_->Ended() ? at : "";
    if (!endpoint_.empty()) return;
    std::ifstream said(log);
    log_ = std::string(std::istreambuf_iterator<char>(said), {});
  }
  // Its output, if it did not start.
  const std::string& log() const { return log_; }

 private:
  std::string folder_, endpoint_, log_;
  int port_ = 0, peer_port_ = 0;
  std::unique_ptr<ChildProcess> process_;
};

}  // namespace sluice

#endif  // SLUICE_CLUSTER_TESTING_ETCD_TEST_UTIL_H_
