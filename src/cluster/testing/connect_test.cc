// Opening sessions over gRPC under faults: the errors, how soon they are
// returned, and that nothing is done twice or left behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "base/failpoint.h"
#include "base/sanitizers.h"
#include "cluster/server.h"
#include "cluster/services/grpc_services.h"
#include "cluster/testing/process_test_util.h"
#include "cluster/transport/grpc/credentials.h"
#include "cluster/transport/ucx/transport.h"
#include "graph/graphdef.h"
#include "sluice/sluice.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

std::string Pem(const std::string& file) { return "tests/tls/" + file; }

ServerTls TaskTls() {
  return {Pem("ca.pem"), Pem("task.pem"), Pem("task.key"), ""};
}

// Clusters with one task, "worker", optionally with a "ps".
class ConnectTest : public ::testing::Test {
 protected:
  ConnectTest() {
    for (const int port : FreePorts(2))
      EXPECT_TRUE(cluster_
                      .Add(cluster_.tasks().empty() ? "ps" : "worker", 0,
                           "127.0.0.1:" + std::to_string(port))
                      .ok());
  }
  ~ConnectTest() override {
    DisableFailpoints();
    for (const char* name : kVariables) unsetenv(name);
  }

  std::unique_ptr<Server> Start(const std::string& job,
                                const ServerTls& tls = {}) {
    ServerOptions options;
    options.cluster = cluster_;
    options.job = job;
    options.tls = tls;
    // (Connections of a busy machine under a sanitizer must live.)
    options.peer_timeout = milliseconds(kSanitized ? 10'000 : 500);
    options.connect_timeout = milliseconds(10'000);
    Result<std::unique_ptr<Server>> s = Server::Start(options);
    EXPECT_TRUE(s.ok()) << s.status();
    return s.ok() ? *std::move(s) : nullptr;
  }
  // Sets the client's TLS files through the environment, as a user does.
  static void UseTls(const ServerTls& tls) {
    const std::string* values[] = {&tls.authority, &tls.certificate, &tls.key,
                                   &tls.server_name};
    for (size_t i = 0; i < 4; ++i) setenv(kVariables[i], values[i]->c_str(), 1);
  }
  std::string target() const {
    return "grpc://" + cluster_.Find("worker", 0)->address;
  }
  Status Connect() const {
    Graph graph;
    const WithGraph use(graph);
    Session session(target(), graph);
    return session.Run(Constant(1.0f)).status();
  }
  static bool Soon(const std::function<bool()>& what) {
    for (int i = 0; i < 3000 && !what(); ++i)
      std::this_thread::sleep_for(milliseconds(10));
    return what();
  }
  std::unique_ptr<MasterStub> Stub(milliseconds patience) const {
    auto channel = grpc::CreateCustomChannel(
        cluster_.Find("worker", 0)->address, *MakeChannelCredentials({}),
        ControlChannelArguments({}, milliseconds(5000)));
    return MakeGrpcMasterStub(
        channel,
        [channel](const std::string&, milliseconds) { return channel; },
        target(), patience);
  }

  static constexpr const char* kVariables[] = {
      "SLUICE_TLS_AUTHORITY", "SLUICE_TLS_CERTIFICATE", "SLUICE_TLS_KEY",
      "SLUICE_TLS_SERVER_NAME"};
  ClusterSpec cluster_;
};

TEST_F(ConnectTest, FailedHandshakeIsReportedImmediately) {
  cluster_ = *ClusterSpec::Parse("{\"worker\": [\"" +
                                 cluster_.Find("worker", 0)->address + "\"]}");
  ServerTls wrong_name = TaskTls(), stranger = TaskTls(), authority = TaskTls();
  wrong_name.server_name = "nobody.test";
  stranger.certificate = Pem("stranger.pem");
  stranger.key = Pem("stranger.key");
  authority.authority = Pem("stranger.pem");
  const auto expect_refused = [&](const char* what) {
    SCOPED_TRACE(what);
    const auto begin = std::chrono::steady_clock::now();
    const Status s = Connect();
    EXPECT_EQ(s.code(), StatusCode::kUnavailable) << s;
    EXPECT_THAT(std::string(s.message()), HasSubstr("handshake failed"));
    EXPECT_THAT(std::string(s.message()), HasSubstr(target()));
    // (Generous for busy machines; waiting for the timeout would take 20 s.)
    EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(15'000));
  };
  {
    auto task = Start("worker", TaskTls());
    ASSERT_NE(task, nullptr);
    expect_refused("plain text");
    UseTls(stranger);
    expect_refused("a certificate that the task does not know");
    UseTls(authority);
    expect_refused("an authority that has not signed the task's");
    UseTls(wrong_name);
    expect_refused("another name");
    UseTls(TaskTls());
    EXPECT_TRUE(Connect().ok()) << Connect();
  }
  auto plain = Start("worker");
  ASSERT_NE(plain, nullptr);
  expect_refused("TLS to plain text");
}

TEST_F(ConnectTest, MasterNamesWorkerWhoseHandshakeFails) {
  auto ps = Start("ps", TaskTls());
  auto worker = Start("worker");
  ASSERT_TRUE(ps != nullptr && worker != nullptr);
  const Status s = Connect();
  EXPECT_THAT(std::string(s.message()), HasSubstr("/job:ps/replica:0/task:0"));
  EXPECT_THAT(std::string(s.message()), HasSubstr("handshake failed"));
}

// The system accepts connections for it, also while its process is stopped.
class SilentListener {
 public:
  explicit SilentListener(const std::string& host_port) {
    const sockaddr_in a = LoopbackAddress(host_port);
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    listens_ =
        bind(fd_, reinterpret_cast<const sockaddr*>(&a), sizeof(a)) == 0 &&
        listen(fd_, 16) == 0;
  }
  ~SilentListener() { close(fd_); }
  SilentListener(const SilentListener&) = delete;
  SilentListener& operator=(const SilentListener&) = delete;
  bool listens() const { return listens_; }

 private:
  int fd_ = -1;
  bool listens_ = false;
};

// Not as a failed handshake, and before the timeout for tasks that are not up.
TEST_F(ConnectTest, SilentListenerIsReportedAsSilent) {
  const SilentListener deaf(cluster_.Find("worker", 0)->address);
  ASSERT_TRUE(deaf.listens());
  const auto expect_silent = [this](const char* what) {
    SCOPED_TRACE(what);
    const auto begin = std::chrono::steady_clock::now();
    const Status s = Connect();
    EXPECT_EQ(s.code(), StatusCode::kUnavailable) << s;
    EXPECT_THAT(std::string(s.message()), HasSubstr(target()));
    EXPECT_THAT(std::string(s.message()),
                HasSubstr("although the connection was accepted"));
    EXPECT_THAT(std::string(s.message()), Not(HasSubstr("TLS")));
    // (Generous for busy machines; the timeout is 20 s.)
    EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(15'000));
  };
  expect_silent("plain text");
  UseTls(TaskTls());
  expect_silent("TLS");
}

TEST_F(ConnectTest, MasterNamesSilentTask) {
  const SilentListener deaf(cluster_.Find("ps", 0)->address);
  ASSERT_TRUE(deaf.listens());
  auto worker = Start("worker");
  ASSERT_NE(worker, nullptr);
  const Status s = Connect();
  EXPECT_THAT(std::string(s.message()), HasSubstr("/job:ps/replica:0/task:0"));
  // (Under a sanitizer one attempt to connect takes as long as the wait, so it
  // is not known how it ends.)
  if (!kSanitized) {
    EXPECT_THAT(std::string(s.message()),
                HasSubstr("although the connection was accepted"));
  }
  EXPECT_THAT(std::string(s.message()), Not(HasSubstr("TLS")));
}

TEST_F(ConnectTest, RefusedConnectionIsReported) {
  proto::CreateSessionResponse response;
  const Status s = Stub(milliseconds(500))->CreateSession({}, &response);
  EXPECT_EQ(s.code(), StatusCode::kUnavailable) << s;
  EXPECT_THAT(std::string(s.message()), HasSubstr("got none: "));
  EXPECT_THAT(std::string(s.message()), HasSubstr("refused"));
}

TEST_F(ConnectTest, MasterWaitsForLateTask) {
  auto ps = Start("ps");
  std::unique_ptr<Server> worker;
  std::thread late([&] {
    std::this_thread::sleep_for(milliseconds(300));
    worker = Start("worker");
  });
  EXPECT_TRUE(Connect().ok());
  late.join();
}

// A dead task is listed until its lease expires; by then another may have its
// place.
TEST_F(ConnectTest, TaskThatMovesDuringConnectIsFound) {
  auto ps = Start("ps");
  ASSERT_NE(ps, nullptr);
  const std::string dead = "127.0.0.1:" + std::to_string(FreePorts(1)[0]);
  ClusterSpec before;
  ASSERT_TRUE(before.Add("ps", 0, dead).ok());
  ASSERT_TRUE(
      before.Add("worker", 0, cluster_.Find("worker", 0)->address).ok());
  ServerOptions options;
  options.cluster = cluster_;
  options.job = "worker";
  options.connect_timeout = milliseconds(20'000);
  std::atomic<int> asked{0};
  options.members = [&](const TaskFilter&) -> Result<ClusterSpec> {
    return ++asked < 3 ? before : cluster_;
  };
  auto worker = Server::Start(options);
  ASSERT_TRUE(worker.ok()) << worker.status();
  Graph graph;
  const WithGraph use(graph);
  Output x;
  {
    DeviceScope on("/job:ps/task:0");
    x = ops::Neg(Constant(2.0f));
  }
  Session session((*worker)->target(), graph);
  const auto out = session.Run(x);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(out->scalar<float>(), -2);
  EXPECT_GE(asked, 3);
}

// Servers each started as a separate cluster, all with the same name.
class SessionClusterTest : public ::testing::Test {
 protected:
  SessionClusterTest() : use_(graph_) {
    for (const int port : FreePorts(3)) {
      ServerOptions options;
      addresses_.push_back("127.0.0.1:" + std::to_string(port));
      EXPECT_TRUE(options.cluster.Add("localhost", 0, addresses_.back()).ok());
      options.job = "localhost";
      Result<std::unique_ptr<Server>> s = Server::Start(options);
      EXPECT_TRUE(s.ok()) << s.status();
      if (s.ok()) servers_.push_back(*std::move(s));
    }
  }
  std::string Jobs(const std::vector<std::string>& addresses) const {
    ClusterSpec spec;
    for (size_t i = 0; i < addresses.size(); ++i)
      EXPECT_TRUE(spec.Add("w", static_cast<int>(i), addresses[i]).ok());
    return spec.ToJson();
  }
  Status Connect(const std::string& cluster) {
    SessionOptions options;
    options.cluster = cluster;
    Session session(servers_[0]->target(), graph_, options);
    return session.Run(Constant(1.0f)).status();
  }

  std::vector<std::string> addresses_;
  std::vector<std::unique_ptr<Server>> servers_;
  Graph graph_;
  WithGraph use_;
};

TEST_F(SessionClusterTest, SessionMayNameTasksFreely) {
  ASSERT_EQ(servers_.size(), 3u);
  const Output x = Placeholder<float>({});
  Output y = x;
  for (const char* device : {"/job:w/task:1", "/job:w/task:2"}) {
    DeviceScope on(device);
    y = y + Var(Constant(1.0f)) + 1.0f;
  }
  SessionOptions options;
  options.fusion = false;  // (A chain of sums would be one node.)
  // (The master need not be the first.)
  options.cluster = Jobs({addresses_[2], addresses_[0], addresses_[1]});
  Session session(servers_[0]->target(), graph_, options);
  const auto devices = session.ListDevices();
  ASSERT_TRUE(devices.ok()) << devices.status();
  EXPECT_EQ(devices->at(2), "/job:w/replica:0/task:2/device:CPU:0");
  Node* const init = GlobalVariablesInitializer();
  ASSERT_TRUE(session.RunTargets({init}).ok());
  RunOptions run;
  run.trace = run.partition_graphs = true;
  RunMetadata metadata;
  const auto out =
      session.Run({{x, Tensor::Scalar(2.0f)}}, {y}, {}, run, &metadata);
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ((*out)[0].scalar<float>(), 6);
  std::map<std::string, int> sums;
  for (const TraceEvent& e : metadata.events)
    if (e.op == "AddV2") ++sums[e.device];
  EXPECT_EQ(sums["/job:w/replica:0/task:1/device:CPU:0"], 2);
  EXPECT_EQ(sums["/job:w/replica:0/task:2/device:CPU:0"], 2);
  for (const TraceTask& t : metadata.tasks)
    EXPECT_THAT(t.name, HasSubstr("/job:w/replica:0/task:"));
  // The graphs that the devices of a cluster ran.
  ASSERT_GE(metadata.partition_graphs.size(), 2u);
  int on_two = 0;
  for (const std::string& bytes : metadata.partition_graphs) {
    const auto text = PrintTextGraphDef(bytes);
    ASSERT_TRUE(text.ok()) << text.status();
    on_two +=
        text->find("w/replica:0/task:2/device:CPU:0") != std::string::npos;
  }
  EXPECT_GE(on_two, 1);
  // Other sessions may use other names for the servers.
  EXPECT_TRUE(Connect("").ok());
  EXPECT_TRUE(Connect(Jobs({addresses_[0]})).ok());
  EXPECT_TRUE(session.Run({{x, Tensor::Scalar(2.0f)}}, y).ok());
}

TEST_F(SessionClusterTest, InvalidClusterIsAnError) {
  ASSERT_EQ(servers_.size(), 3u);
  const auto message = [&](const std::string& cluster) {
    return std::string(Connect(cluster).message());
  };
  EXPECT_THAT(message(Jobs({addresses_[1]})), HasSubstr("among its tasks"));
  const std::string again =
      "localhost" + addresses_[0].substr(addresses_[0].find(':'));
  EXPECT_THAT(message(Jobs({addresses_[0], again})),
              HasSubstr("expected a server for each task"));
  EXPECT_THAT(message("{\"w\": [3]}"), HasSubstr("expected an address"));
  proto::CreateSessionRequest request;
  for (int i = 0; i < 2000; ++i) {
    proto::SessionTask* task = request.add_task();
    task->set_job("w");
    task->set_number(i);
    task->set_address("127.0.0.1:" + std::to_string(i + 1));
  }
  proto::CreateSessionResponse response;
  EXPECT_THAT(
      std::string(
          servers_[0]->master().CreateSession(request, &response).message()),
      HasSubstr("expected at most 1024"));
}

// CreateSession is not retried if it takes longer than the client waits, and
// the session is closed when the client disconnects.
TEST_F(ConnectTest, CreateSessionIsNotRetried) {
  auto ps = Start("ps");
  auto worker = Start("worker");
  ASSERT_TRUE(ps != nullptr && worker != nullptr);
  // (The client waits for the task's first answer for one second, and then for
  // two: on a busy machine that answer takes a good part of a second.)
  ASSERT_TRUE(EnableFailpoints("master.create_session=delay(3000)").ok());
  proto::CreateSessionResponse response;
  {
    auto stub = Stub(milliseconds(1000));
    const Status s = stub->CreateSession({}, &response);
    EXPECT_EQ(s.code(), StatusCode::kUnavailable) << s;
    EXPECT_THAT(std::string(s.message()), HasSubstr("the task is up"));
    EXPECT_TRUE(Soon([&] { return worker->master().num_sessions() > 0; }));
  }
  EXPECT_EQ(FailpointHits("master.create_session"), 1);
  EXPECT_TRUE(Soon([&] {
    return worker->master().num_sessions() == 0 &&
           ps->worker().num_sessions() == 0;
  }));
}

// Pending calls have been answered by then and no longer use the task.
TEST_F(ConnectTest, ShutdownDuringCreateSessionIsReported) {
  auto ps = Start("ps");
  auto worker = Start("worker");
  ASSERT_TRUE(ps != nullptr && worker != nullptr);
  ASSERT_TRUE(EnableFailpoints("master.create_session=delay(2000)").ok());
  Status status;
  std::thread client([&] {
    proto::CreateSessionResponse response;
    status = Stub(milliseconds(10'000))->CreateSession({}, &response);
  });
  EXPECT_TRUE(Soon([] { return FailpointHits("master.create_session") > 0; }));
  worker->Stop();
  client.join();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("shuts down"));
  EXPECT_THAT(std::string(status.message()), HasSubstr(target()));
  EXPECT_TRUE(Soon([&] { return ps->worker().num_sessions() == 0; }));
}

TEST_F(ConnectTest, ShutdownDoesNotWaitForMissingTasks) {
  auto worker = Start("worker");
  ASSERT_NE(worker, nullptr);
  Status status;
  std::thread client([&] {
    proto::CreateSessionResponse response;
    status = Stub(milliseconds(10'000))->CreateSession({}, &response);
  });
  // (It polls the ps for ten seconds.)
  EXPECT_TRUE(EnableFailpoints("master.create_session=delay(0)").ok());
  EXPECT_TRUE(Soon([] { return FailpointHits("master.create_session") > 0; }));
  std::this_thread::sleep_for(milliseconds(100));
  const auto begin = std::chrono::steady_clock::now();
  worker->Stop();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(5000));
  client.join();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
}

TEST_F(ConnectTest, UcxRejectsTls) {
  ServerOptions options;
  options.cluster = cluster_;
  options.job = "worker";
  options.tls = TaskTls();
  options.transport = "ucx";
  const Status s = Server::Start(options).status();
  EXPECT_EQ(s.code(), HaveUcx() ? StatusCode::kInvalidArgument
                                : StatusCode::kUnimplemented)
      << s;
  EXPECT_THAT(std::string(s.message()), HasSubstr("expected 'grpc'"));
}

// (The cancellation may arrive before the start has been processed.)
TEST_F(ConnectTest, StepWithDeadlineCancelledAtStartEndsOnce) {
  auto ps = Start("ps");
  auto worker = Start("worker");
  ASSERT_TRUE(ps != nullptr && worker != nullptr);
  Graph graph;
  const WithGraph use(graph);
  const Output x = Constant(1.0f) + Constant(2.0f);
  Session session(target(), graph);
  ASSERT_TRUE(session.Run(x).ok());
  ASSERT_TRUE(EnableFailpoints("master.step_known=delay(300)").ok());
  Status status;
  std::thread client([&] {
    RunOptions options;
    options.timeout_ms = 20'000;
    status = session.RunByName({}, {x.name()}, {}, options).status();
  });
  EXPECT_TRUE(Soon([] { return FailpointHits("master.step_known") > 0; }));
  EXPECT_TRUE(session.Close().ok());
  client.join();
  EXPECT_EQ(status.code(), StatusCode::kCancelled) << status;
  EXPECT_TRUE(Soon([&] { return worker->master().num_sessions() == 0; }));
}

// The master gives up the session while the worker is still creating it.
TEST_F(ConnectTest, WorkerDoesNotCreateAbandonedSession) {
  auto ps = Start("ps");
  ASSERT_NE(ps, nullptr);
  Worker& worker = ps->worker();
  proto::CreateWorkerSessionRequest create;
  create.set_session(7);
  create.set_incarnation(worker.incarnation());
  create.mutable_master()->set_task(worker.task());
  create.mutable_master()->set_incarnation(worker.incarnation());
  proto::DeleteWorkerSessionRequest gone;
  gone.set_session(7);
  ASSERT_TRUE(worker.DeleteSession(gone).ok());
  EXPECT_EQ(worker.CreateSession(create).code(), StatusCode::kAborted);
  create.set_session(8);
  EXPECT_TRUE(worker.CreateSession(create).ok());
  EXPECT_EQ(worker.num_sessions(), 1u);
}

TEST_F(ConnectTest, ClientLostBeforeAttachingLeavesNothing) {
  auto ps = Start("ps");
  auto worker = Start("worker");
  ASSERT_TRUE(ps != nullptr && worker != nullptr);
  proto::CreateSessionResponse response;
  auto stub = Stub(milliseconds(10'000));
  const Status made = stub->CreateSession({}, &response);
  ASSERT_TRUE(made.ok()) << made;
  EXPECT_EQ(worker->master().num_sessions(), 1u);
  stub.reset();
  EXPECT_TRUE(Soon([&] {
    return worker->master().num_sessions() == 0 &&
           ps->worker().num_sessions() == 0;
  }));
}

}  // namespace
}  // namespace sluice
