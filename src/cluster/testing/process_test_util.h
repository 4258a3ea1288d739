// Tasks in separate processes: this test program, started again with
// environment variables that make process_test.cc run a task.
#ifndef SLUICE_CLUSTER_TESTING_PROCESS_TEST_UTIL_H_
#define SLUICE_CLUSTER_TESTING_PROCESS_TEST_UTIL_H_

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "base/sanitizers.h"
#include "cluster/common/cluster.h"

namespace sluice {

// Ports that had no listener a moment ago.
inline std::vector<int> FreePorts(size_t count) {
  std::vector<int> ports, sockets;
  while (ports.size() < count) {
    const int s = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in a{};
    a.sin_family = AF_INET;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(a);
    if (s < 0 || bind(s, reinterpret_cast<sockaddr*>(&a), size) != 0 ||
        getsockname(s, reinterpret_cast<sockaddr*>(&a), &size) != 0)
      break;
    sockets.push_back(s);
    ports.push_back(ntohs(a.sin_port));
  }
  for (const int s : sockets) close(s);
  return ports;
}

// Of "host:port", the port of this machine.
inline sockaddr_in LoopbackAddress(const std::string& host_port) {
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  a.sin_port = htons(static_cast<uint16_t>(
      std::stoi(host_port.substr(host_port.rfind(':') + 1))));
  return a;
}

// The time in which the processes below detect a dead one. (Tests allow three
// times as long, for busy machines.)
constexpr std::chrono::milliseconds kProcessTimeout{kSanitized ? 5000 : 1000};

// A cluster of jobs with one task each. The destructor kills its processes.
class ProcessCluster {
 public:
  explicit ProcessCluster(const std::vector<std::string>& jobs) {
    const std::vector<int> ports = FreePorts(jobs.size());
    EXPECT_EQ(ports.size(), jobs.size());
    for (size_t i = 0; i < ports.size(); ++i)
      EXPECT_TRUE(
          spec_.Add(jobs[i], 0, "127.0.0.1:" + std::to_string(ports[i])).ok());
    file_ = ::testing::TempDir() + "cluster" + std::to_string(getpid()) + "_" +
            std::to_string(ports[0]) + ".json";
    std::ofstream(file_) << spec_.ToJson();
  }
  ~ProcessCluster() {
    for (const auto& [name, pid] : children_) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    unlink(file_.c_str());
  }
  ProcessCluster(const ProcessCluster&) = delete;
  ProcessCluster& operator=(const ProcessCluster&) = delete;

  // `role`: a job, or "client" (of `target`). `more`: environment variables.
  void Spawn(const std::string& role, const std::string& target = "",
             const std::vector<std::string>& more = {}) {
    // (Builds the environment before fork: the child must not allocate.)
    std::vector<std::string> environment = {"SLUICE_TEST_CHILD=" + role,
                                            "SLUICE_TEST_CLUSTER=" + file_,
                                            "SLUICE_TEST_TARGET=" + target};
    environment.insert(environment.end(), more.begin(), more.end());
    for (char** e = environ; *e != nullptr; ++e) environment.push_back(*e);
    std::vector<char*> pointers;
    for (std::string& e : environment) pointers.push_back(e.data());
    pointers.push_back(nullptr);
    char name[] = "cluster_test";
    char* const arguments[] = {name, nullptr};
    const pid_t pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);  // (execve preserves it.)
      execve("/proc/self/exe", arguments, pointers.data());
      _exit(127);
    }
    ASSERT_GT(pid, 0);
    children_[role] = pid;
  }
  void Signal(const std::string& role, int signal) {
    ASSERT_EQ(kill(children_.at(role), signal), 0);
    if (signal != SIGKILL) return;
    waitpid(children_.at(role), nullptr, 0);
    children_.erase(role);
  }
  pid_t pid(const std::string& role) const { return children_.at(role); }

  const ClusterSpec& spec() const { return spec_; }
  std::string target(const std::string& job) const {
    return "grpc://" + spec_.Find(job, 0)->address;
  }

 private:
  ClusterSpec spec_;
  std::string file_;
  std::map<std::string, pid_t> children_;
};

}  // namespace sluice

#endif  // SLUICE_CLUSTER_TESTING_PROCESS_TEST_UTIL_H_
