// A task's limits on descriptors, connections and sessions: their use by
// clients, the errors beyond them, and that everything is released.
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/sanitizers.h"
#include "cluster/server.h"
#include "cluster/services/grpc_services.h"
#include "cluster/testing/child_process_test_util.h"
#include "cluster/testing/process_test_util.h"
#include "cluster/transport/grpc/connection_listener.h"
#include "cluster/transport/grpc/credentials.h"
#include "sluice/sluice.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

// A connection that sends nothing, like a port scanner's.
class IdleConnection {
 public:
  explicit IdleConnection(const std::string& host_port) {
    const sockaddr_in a = LoopbackAddress(host_port);
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    connected_ =
        connect(fd_, reinterpret_cast<const sockaddr*>(&a), sizeof(a)) == 0;
    fcntl(fd_, F_SETFL, O_NONBLOCK);
  }
  ~IdleConnection() { close(fd_); }
  IdleConnection(const IdleConnection&) = delete;
  IdleConnection& operator=(const IdleConnection&) = delete;

  bool connected() const { return connected_; }
  // Whether the other side has closed it. (Reads pending data first.)
  bool Closed() const {
    char some[4096];
    for (;;) {
      const ssize_t n = recv(fd_, some, sizeof(some), 0);
      if (n == 0) return true;
      if (n < 0) return errno != EAGAIN && errno != EINTR;
    }
  }

 private:
  int fd_ = -1;
  bool connected_ = false;
};

std::vector<std::unique_ptr<IdleConnection>> IdleConnections(
    const std::string& address, size_t count) {
  std::vector<std::unique_ptr<IdleConnection>> all;
  for (size_t i = 0; i < count; ++i)
    all.push_back(std::make_unique<IdleConnection>(address));
  return all;
}

size_t DescriptorsOf(pid_t pid) {
  size_t count = 0;
  DIR* const dir = opendir(("/proc/" + std::to_string(pid) + "/fd").c_str());
  if (dir == nullptr) return 0;
  while (readdir(dir) != nullptr) ++count;
  closedir(dir);
  return count;
}

// Tasks "worker" and "ps" in separate processes.
class ConnectionLimitsTest : public ::testing::Test {
 protected:
  ConnectionLimitsTest() : use_(graph_) { three_ = Constant(1.0f) + 2.0f; }
  ~ConnectionLimitsTest() override {
    for (const char* name : kVariables) unsetenv(name);
  }
  // `files` limits the process's open files; a client is considered dead after
  // a second.
  void Spawn(ProcessCluster* cluster, const std::string& job, int files,
             std::vector<std::string> more = {}) {
    more.push_back("SLUICE_TEST_OPEN_FILES=" + std::to_string(files));
    cluster->Spawn(job, "", more);
  }
  Status Connect(const std::string& target) {
    Session session(target, graph_);
    return session.Run(three_).status();
  }
  void ExpectClosed(
      const std::vector<std::unique_ptr<IdleConnection>>& connections) {
    EXPECT_TRUE(BecomesTrue([&] {
      for (const auto& c : connections)
        if (!c->Closed()) return false;
      return true;
    }));
  }

  static constexpr const char* kVariables[] = {
      "SLUICE_TLS_AUTHORITY", "SLUICE_TLS_CERTIFICATE", "SLUICE_TLS_KEY"};
  static constexpr int kFiles = 256;
  Graph graph_;
  WithGraph use_;
  Output three_;
};

TEST_F(ConnectionLimitsTest, WorkerAcceptsSessionsAfterOthersEnd) {
  ProcessCluster cluster({"worker"});
  // (Under sanitizers the heartbeats of so many sessions take seconds.)
  std::vector<std::string> more;
  if (kSanitized) more.push_back("SLUICE_TEST_TIMEOUT_MS=20000");
  Spawn(&cluster, "worker", kFiles, more);
  const std::string target = cluster.target("worker");
  std::vector<std::unique_ptr<Session>> sessions;
  Status full;
  while (full.ok() && sessions.size() < kFiles) {
    sessions.push_back(std::make_unique<Session>(target, graph_));
    full = sessions.back()->Run(three_).status();
  }
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted) << full;
  EXPECT_THAT(std::string(full.message()), HasSubstr("--max-connections"));
  EXPECT_GT(sessions.size(), kFiles / 4);
  // The others are not affected.
  EXPECT_TRUE(sessions.front()->Run(three_).ok());
  sessions.clear();
  EXPECT_TRUE(BecomesTrue([&] { return Connect(target).ok(); }));
}

TEST_F(ConnectionLimitsTest, IdleConnectionsDoNotBlockClients) {
  ProcessCluster cluster({"worker"});
  Spawn(&cluster, "worker", kFiles);
  const std::string target = cluster.target("worker");
  ASSERT_TRUE(Connect(target).ok());
  const auto idle =
      IdleConnections(cluster.spec().Find("worker", 0)->address, 2 * kFiles);
  ExpectClosed(idle);  // Although we keep them open.
  const Status s = Connect(target);
  EXPECT_TRUE(s.ok()) << s;
}

TEST_F(ConnectionLimitsTest, ConnectionsWithoutCertificateDoNotBlockClients) {
  ProcessCluster cluster({"worker"});
  Spawn(&cluster, "worker", kFiles, {"SLUICE_TEST_TLS=tests/tls"});
  setenv(kVariables[0], "tests/tls/ca.pem", 1);
  setenv(kVariables[1], "tests/tls/task.pem", 1);
  setenv(kVariables[2], "tests/tls/task.key", 1);
  const std::string target = cluster.target("worker");
  const Status before = Connect(target);
  ASSERT_TRUE(before.ok()) << before;
  const auto idle =
      IdleConnections(cluster.spec().Find("worker", 0)->address, 2 * kFiles);
  ExpectClosed(idle);
  const Status s = Connect(target);
  EXPECT_TRUE(s.ok()) << s;
}

TEST_F(ConnectionLimitsTest, SessionUsesOneDescriptor) {
  ProcessCluster cluster({"ps", "worker"});
  for (const std::string job : {"ps", "worker"}) Spawn(&cluster, job, 1024);
  const std::string target = cluster.target("worker");
  // (The first session's connections are shared.)
  Session first(target, graph_);
  ASSERT_TRUE(first.Run(three_).ok());
  constexpr size_t kSessions = 20, kOthers = 6;
  const size_t ps = DescriptorsOf(cluster.pid("ps"));
  const size_t worker = DescriptorsOf(cluster.pid("worker"));
  std::vector<std::unique_ptr<Session>> sessions;
  for (size_t i = 0; i < kSessions; ++i) {
    sessions.push_back(std::make_unique<Session>(target, graph_));
    ASSERT_TRUE(sessions.back()->Run(three_).ok());
  }
  EXPECT_TRUE(BecomesTrue([&] {
    return DescriptorsOf(cluster.pid("worker")) <= worker + kSessions + kOthers;
  })) << DescriptorsOf(cluster.pid("worker"))
      << " descriptors, " << worker << " before";
  EXPECT_LE(DescriptorsOf(cluster.pid("ps")), ps + kOthers);
}

// Nor one that no client ever uses.
TEST_F(ConnectionLimitsTest, EmptySessionUsesNoDescriptor) {
  ProcessCluster cluster({"ps", "worker"});
  for (const std::string job : {"ps", "worker"}) Spawn(&cluster, job, 1024);
  Session first(cluster.target("worker"), graph_);
  ASSERT_TRUE(first.Run(three_).ok());
  constexpr int kSessions = 50;
  constexpr size_t kOthers = 6;
  const size_t ps = DescriptorsOf(cluster.pid("ps"));
  const size_t worker = DescriptorsOf(cluster.pid("worker"));
  const auto channel = grpc::CreateCustomChannel(
      cluster.spec().Find("worker", 0)->address, *MakeChannelCredentials({}),
      ControlChannelArguments({}, milliseconds(5000)));
  const auto stub = MakeGrpcMasterStub(
      channel, [channel](const std::string&, milliseconds) { return channel; },
      cluster.target("worker"), milliseconds(10'000));
  proto::CreateSessionResponse response;
  for (int i = 0; i < kSessions; ++i)
    ASSERT_TRUE(stub->CreateSession({}, &response).ok());
  EXPECT_LE(DescriptorsOf(cluster.pid("worker")), worker + kOthers);
  EXPECT_LE(DescriptorsOf(cluster.pid("ps")), ps + kOthers);
}

int64_t ThreadsOfProcess(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind("Threads:", 0) == 0) return std::stoll(line.substr(8));
  return 0;
}

TEST_F(ConnectionLimitsTest, ThreadsOfManyClientsAreBoundedAndGivenBack) {
  ProcessCluster cluster({"ps", "worker"});
  for (const std::string job : {"ps", "worker"})
    Spawn(&cluster, job, 4096, {"SLUICE_TEST_TIMEOUT_MS=30000"});
  const std::string target = cluster.target("worker");
  ASSERT_TRUE(Connect(target).ok());
  const std::map<std::string, int64_t> before = {
      {"ps", ThreadsOfProcess(cluster.pid("ps"))},
      {"worker", ThreadsOfProcess(cluster.pid("worker"))}};
  constexpr int kClients = 100;
  std::atomic<int> good{0};
  {
    std::vector<std::thread> clients;
    for (int i = 0; i < kClients; ++i)
      clients.emplace_back([&, i] {
        Graph graph;
        const WithGraph use(graph);
        Output x = Constant(static_cast<float>(i));
        {
          DeviceScope on("/job:ps/task:0");
          x = x + 1.0f;
        }
        Session session(target, graph);
        const auto run = session.StartPartialRun({}, {x});
        good += run.ok() && session.Run(x).ok();
      });
    for (std::thread& t : clients) t.join();
  }
  EXPECT_EQ(good, kClients);
  for (const auto& [job, threads] : before)
    EXPECT_TRUE(BecomesTrue([&, job = job, threads = threads] {
      return ThreadsOfProcess(cluster.pid(job)) <= threads + 24;
    })) << job
        << ": " << ThreadsOfProcess(cluster.pid(job)) << " threads, " << threads
        << " before";
}

// The limit of the process, not one caused by clients.
TEST_F(ConnectionLimitsTest, ListenerWaitsForFreeDescriptor) {
  ConnectionListener listener;
  const Result<int> port = listener.Listen("127.0.0.1:0");
  ASSERT_TRUE(port.ok()) << port.status();
  std::atomic<int> accepted{0};
  listener.Start({100, 100}, milliseconds(1000), [&accepted](int fd) {
    close(fd);
    ++accepted;
  });
  const auto connected =
      std::make_unique<IdleConnection>("127.0.0.1:" + std::to_string(*port));
  ASSERT_TRUE(BecomesTrue([&] { return accepted == 1; }));
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  a.sin_port = htons(static_cast<uint16_t>(*port));
  const int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int free = dup(client);
  close(free);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {static_cast<rlim_t>(free), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_EQ(connect(client, reinterpret_cast<const sockaddr*>(&a), sizeof(a)),
            0);
  std::this_thread::sleep_for(milliseconds(200));  // (It retries meanwhile.)
  EXPECT_EQ(accepted, 1);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(BecomesTrue([&] { return accepted == 2; }));
  listener.Stop();
  close(client);
}

// A task in this process with a long peer timeout.
class TaskLimitsTest : public ConnectionLimitsTest {
 protected:
  std::unique_ptr<Server> Start(
      const std::function<void(ServerOptions*)>& adjust) {
    ServerOptions options;
    address_ = "127.0.0.1:" + std::to_string(UnusedPort());
    EXPECT_TRUE(options.cluster.Add("worker", 0, address_).ok());
    options.job = "worker";
    options.peer_timeout = milliseconds(60'000);
    adjust(&options);
    Result<std::unique_ptr<Server>> s = Server::Start(options);
    EXPECT_TRUE(s.ok()) << s.status();
    return s.ok() ? *std::move(s) : nullptr;
  }
  std::unique_ptr<MasterStub> Stub() {
    auto channel = grpc::CreateCustomChannel(
        address_, *MakeChannelCredentials({}),
        ControlChannelArguments({}, milliseconds(5000)));
    return MakeGrpcMasterStub(
        channel,
        [channel](const std::string&, milliseconds) { return channel; },
        "grpc://" + address_, milliseconds(10'000));
  }
  std::string address_;
};

TEST_F(TaskLimitsTest, SessionsOfLostClientEndImmediately) {
  const auto task = Start([](ServerOptions*) {});
  ASSERT_NE(task, nullptr);
  auto stub = Stub();
  proto::CreateSessionResponse response;
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(stub->CreateSession({}, &response).ok());
  EXPECT_EQ(task->master().num_sessions(), 3u);
  stub.reset();
  // (By timeout alone they would end after four minutes.)
  EXPECT_TRUE(BecomesTrue([&] { return task->master().num_sessions() == 0; }));
}

TEST_F(TaskLimitsTest, SessionLimitErrorNamesTheOption) {
  const auto task = Start([](ServerOptions* o) {
    o->max_sessions = 3;
    o->max_sessions_per_peer = 3;
  });
  ASSERT_NE(task, nullptr);
  std::vector<std::unique_ptr<Session>> sessions;
  for (int i = 0; i < 3; ++i) {
    sessions.push_back(std::make_unique<Session>(task->target(), graph_));
    ASSERT_TRUE(sessions.back()->Run(three_).ok());
  }
  const Status s = Connect(task->target());
  EXPECT_EQ(s.code(), StatusCode::kResourceExhausted) << s;
  EXPECT_THAT(std::string(s.message()), HasSubstr("at most 3"));
  EXPECT_THAT(std::string(s.message()), HasSubstr("--max-sessions"));
  sessions.pop_back();
  EXPECT_TRUE(BecomesTrue([&] { return Connect(task->target()).ok(); }));
}

TEST_F(TaskLimitsTest, SessionPerPeerLimitErrorNamesTheOption) {
  const auto task = Start([](ServerOptions* o) {
    o->max_sessions = 3;
    o->max_sessions_per_peer = 1;
  });
  ASSERT_NE(task, nullptr);
  Session session(task->target(), graph_);
  ASSERT_TRUE(session.Run(three_).ok());
  const Status s = Connect(task->target());
  EXPECT_EQ(s.code(), StatusCode::kResourceExhausted) << s;
  EXPECT_THAT(std::string(s.message()), HasSubstr("ipv4:127.0.0.1"));
  EXPECT_THAT(std::string(s.message()), HasSubstr("--max-sessions-per-peer"));
}

TEST_F(TaskLimitsTest, ConnectionLimitErrorNamesTheOption) {
  const auto task = Start([](ServerOptions* o) {
    o->max_connections = 10;
    o->max_connections_per_peer = 4;
  });
  ASSERT_NE(task, nullptr);
  // (Idle ones are closed after two minutes here.)
  auto idle = IdleConnections(address_, 4);
  const Status s = Connect(task->target());
  EXPECT_EQ(s.code(), StatusCode::kResourceExhausted) << s;
  EXPECT_THAT(std::string(s.message()), HasSubstr("at most 4"));
  EXPECT_THAT(std::string(s.message()),
              HasSubstr("--max-connections-per-peer"));
  idle.clear();
  EXPECT_TRUE(BecomesTrue([&] { return Connect(task->target()).ok(); }));
}

TEST_F(TaskLimitsTest, ConnectionLimitAboveFileLimitFailsAtStart) {
  ServerOptions options;
  ASSERT_TRUE(options.cluster
                  .Add("worker", 0, "127.0.0.1:" + std::to_string(UnusedPort()))
                  .ok());
  options.job = "worker";
  options.max_connections = size_t{1} << 30;
  const Status s = Server::Start(options).status();
  EXPECT_EQ(s.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(s.message()), HasSubstr("ulimit -n"));
}

}  // namespace
}  // namespace sluice
