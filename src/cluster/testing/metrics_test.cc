// What monitoring systems see of a task: metrics and health.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <thread>

#include "absl/strings/str_split.h"
#include "cluster/monitoring/metrics_server.h"
#include "cluster/task_server.h"
#include "cluster/testing/process_test_util.h"
#include "sluice/sluice.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

// A connection; -1 if nothing listens.
int Connect(const std::string& address) {
  const int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in a = LoopbackAddress(address);
  if (connect(s, reinterpret_cast<const sockaddr*>(&a), sizeof(a)) == 0)
    return s;
  close(s);
  return -1;
}

// The answer to a request, with its head; "" if nothing listens. (The server
// may close the connection before it has read all.)
std::string Ask(const std::string& address, const std::string& request) {
  const int s = Connect(address);
  if (s < 0) return "";
  (void)send(s, request.data(), request.size(), MSG_NOSIGNAL);
  std::string answer;
  char buffer[4096];
  for (ssize_t n; (n = recv(s, buffer, sizeof(buffer), 0)) > 0;)
    answer.append(buffer, static_cast<size_t>(n));
  close(s);
  return answer;
}
std::string Get(const std::string& address, const std::string& path) {
  return Ask(address, "GET " + path +
                          " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
}

// A call of gRPC's health protocol; the status of the service, -1 for an error.
int Health(const std::string& target, const std::string& service) {
  grpc::GenericStub stub(
      grpc::CreateChannel(target.substr(std::string("grpc://").size()),
                          grpc::InsecureChannelCredentials()));
  proto::HealthCheckRequest request;
  request.set_service(service);
  const std::string bytes = request.SerializeAsString();
  const grpc::Slice slice(bytes.data(), bytes.size());
  const grpc::ByteBuffer in(&slice, 1);
  grpc::ByteBuffer out;
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  grpc::Status status;
  const auto call = stub.PrepareUnaryCall(
      &context, "/grpc.health.v1.Health/Check", in, &queue);
  call->StartCall();
  call->Finish(&out, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  EXPECT_TRUE(queue.Next(&tag, &ok));
  if (!status.ok()) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
    return -1;
  }
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(out.Dump(&slices).ok());
  std::string all;
  for (const grpc::Slice& part : slices)
    all.append(reinterpret_cast<const char*>(part.begin()), part.size());
  proto::HealthCheckResponse response;
  EXPECT_TRUE(response.ParseFromString(all));
  return response.status();
}

TEST(MetricsTest, TextHasHelpTypeAndLabelsOfEachFamily) {
  TaskMetrics m;
  m.status.set_task("/job:ps/replica:0/task:3");
  m.status.set_clock_ns(5'000'000'000);
  m.status.mutable_counters()->set_steps(7);
  m.status.mutable_counters()->set_failed_steps(1);
  m.status.mutable_counters()->set_started_ns(2'000'000'000);
  m.status.mutable_counters()->set_cpu_ns(1'234'567'890'000'000);
  proto::PipelineStageCounters* const stage =
      m.status.mutable_counters()->add_stage();
  stage->set_pipeline("in\\put\n\"");
  stage->set_stage("map");
  stage->set_elements(12);
  stage->set_full_ns(1'500'000'000);
  const std::string text = MetricsText(m);
  EXPECT_THAT(text, HasSubstr("sluice_pipeline_elements_total{job=\"ps\","
                              "task=\"3\",pipeline=\"in\\\\put\\n\\\"\","
                              "stage=\"map\"} 12\n"));
  EXPECT_THAT(text, HasSubstr("stage=\"map\"} 1.5\n"));
  // Names of other programs: pages stay UTF-8, and no sample is there twice.
  for (const int64_t number : {1, 2, 2}) {
    proto::PipelineStageCounters* const odd =
        m.status.mutable_counters()->add_stage();
    odd->set_pipeline("\xff\xc3\xa9");
    odd->set_stage(number == 1 ? "\xe0\x80\x80" : "s");
    odd->set_number(number);
  }
  const std::string page = MetricsText(m);
  EXPECT_THAT(page, HasSubstr("pipeline=\"\xef\xbf\xbd\xc3\xa9\",stage=\""
                              "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"} 0\n"));
  std::set<std::string> samples;
  for (const auto& line : absl::StrSplit(page, '\n'))
    if (!line.empty() && line[0] != '#') {
      EXPECT_TRUE(samples.emplace(line.substr(0, line.rfind(' '))).second)
          << line;
    }
  EXPECT_THAT(text, HasSubstr("# TYPE sluice_steps_total counter\n"
                              "sluice_steps_total{job=\"ps\",task=\"3\","
                              "outcome=\"succeeded\"} 7\n"
                              "sluice_steps_total{job=\"ps\",task=\"3\","
                              "outcome=\"failed\"} 1\n"));
  EXPECT_THAT(text,
              HasSubstr("sluice_uptime_seconds{job=\"ps\",task=\"3\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("sluice_cpu_seconds_total{job=\"ps\",task=\"3\"} "
                              "1234567.89"));
  // Each sample belongs to the family that was described last.
  std::string family;
  for (const auto line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words[0] == "#") {
      family = words[2];
    } else {
      EXPECT_EQ(words[0].substr(0, words[0].find('{')), family);
      EXPECT_EQ(words.size(), 2u) << line;
    }
  }
}

class TaskMonitoringTest : public ::testing::Test {
 protected:
  TaskMonitoringTest() {
    TaskServerOptions options;
    options.cluster =
        absl::StrCat("{\"worker\": [\"127.0.0.1:", FreePorts(1)[0], "\"]}");
    options.job = "worker";
    options.metrics = "127.0.0.1:0";
    auto task = TaskServer::Start(options);
    EXPECT_TRUE(task.ok()) << task.status();
    if (task.ok()) task_ = *std::move(task);
  }
  std::unique_ptr<TaskServer> task_;
};

TEST_F(TaskMonitoringTest, ServesMetricsAndHealthOverHttp) {
  ASSERT_NE(task_, nullptr);
  Graph graph;
  const WithGraph use(graph);
  const Output x = Constant(1.0f) + Constant(2.0f);
  Session session(task_->target(), graph);
  ASSERT_TRUE(session.Run(x).ok());
  const std::string metrics = Get(task_->metrics(), "/metrics");
  EXPECT_THAT(metrics, HasSubstr("200 OK"));
  EXPECT_THAT(metrics, HasSubstr("text/plain; version=0.0.4"));
  EXPECT_THAT(metrics, HasSubstr("sluice_steps_total{job=\"worker\",task=\"0\","
                                 "outcome=\"succeeded\"} 1\n"));
  EXPECT_THAT(Get(task_->metrics(), "/healthz"), HasSubstr("200 OK"));
  EXPECT_THAT(Get(task_->metrics(), "/other"), HasSubstr("404"));
  task_->Drain();
  EXPECT_THAT(Get(task_->metrics(), "/healthz"), HasSubstr("503"));
  EXPECT_THAT(Get(task_->metrics(), "/metrics"),
              HasSubstr("sluice_draining{job=\"worker\",task=\"0\"} 1\n"));
  const std::string address = task_->metrics();
  task_->Stop();
  EXPECT_EQ(Get(address, "/metrics"), "");
}

TEST_F(TaskMonitoringTest, SlowAndLargeRequestsDoNotHoldTheTask) {
  ASSERT_NE(task_, nullptr);
  const std::string large(1 << 20, 'x');
  EXPECT_THAT(Ask(task_->metrics(),
                  "POST /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                  "Content-Length: 1048576\r\n\r\n" +
                      large),
              HasSubstr(" 413 "));
  const int slow = Connect(task_->metrics());
  ASSERT_GE(slow, 0);
  std::atomic<bool> stopped{false};
  std::thread drips([&] {
    ASSERT_EQ(send(slow, "GET /m", 6, MSG_NOSIGNAL), 6);
    while (!stopped) {
      (void)send(slow, "x", 1, MSG_NOSIGNAL);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  task_->Stop();
  stopped = true;
  drips.join();
  close(slow);
}

TEST_F(TaskMonitoringTest, AnswersGrpcHealthChecks) {
  ASSERT_NE(task_, nullptr);
  EXPECT_EQ(Health(task_->target(), ""), proto::HealthCheckResponse::SERVING);
  EXPECT_EQ(Health(task_->target(), "sluice.proto.MasterService"),
            proto::HealthCheckResponse::SERVING);
  EXPECT_EQ(Health(task_->target(), "other"), -1);
  task_->Drain();
  EXPECT_EQ(Health(task_->target(), ""),
            proto::HealthCheckResponse::NOT_SERVING);
}

TEST_F(TaskMonitoringTest, AddressesThatAreNotPossibleAreErrors) {
  ASSERT_NE(task_, nullptr);
  const auto error = [](const std::string& address) {
    TaskServerOptions options;
    options.cluster =
        absl::StrCat("{\"worker\": [\"127.0.0.1:", FreePorts(1)[0], "\"]}");
    options.job = "worker";
    options.metrics = address;
    return std::string(TaskServer::Start(options).status().message());
  };
  EXPECT_THAT(error("nonsense"), HasSubstr("'nonsense'"));
  EXPECT_THAT(error("0.0.0.0:0"), HasSubstr("beyond this machine"));
  EXPECT_THAT(error(task_->metrics()), HasSubstr("free port"));
}

}  // namespace
}  // namespace sluice
