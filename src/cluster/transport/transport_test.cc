// Tests for every transport between processes.
#include "cluster/transport/transport.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <netdb.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/failpoint.h"
#include "cluster/testing/meeting_steps_test_util.h"
#include "cluster/testing/transport_test_util.h"
#include "cluster/transport/grpc/transport.h"
#include "cluster/transport/ucx/transport.h"
#include "cluster/transport/wire.h"

extern char** environ;

namespace sluice {
namespace {

using std::chrono::milliseconds;

enum class Kind { kGrpc, kGrpcWithoutMemory, kUcx };

const char* NameOf(Kind kind) { return kind == Kind::kUcx ? "ucx" : "grpc"; }

std::unique_ptr<Transport> TransportOfKind(Kind kind, const std::string& task,
                                           milliseconds timeout) {
  if (kind == Kind::kUcx) {
    UcxTransportOptions options;
    options.task = task;
    options.peer_timeout = timeout;
    options.local_shortcut = false;
    return MakeUcxTransport(options);
  }
  GrpcTransportOptions options;
  options.task = task;
  options.peer_timeout = timeout;
  options.local_shortcut = false;
  options.shared_memory = kind == Kind::kGrpc;
  return std::make_unique<GrpcTransport>(options);
}

struct Task {
  Task(Kind kind, const std::string& name,
       milliseconds timeout = milliseconds(20000))
      : name(name), transport(TransportOfKind(kind, name, timeout)) {
    const Status s = transport->Start(&handler);
    EXPECT_TRUE(s.ok()) << s;
  }
  ~Task() { transport->Shutdown(); }
  PeerAddress where() const {
    return {name, transport->address(), transport->incarnation()};
  }
  PeerId Connect(const Task& to) {
    const Result<PeerId> id = transport->Connect(to.where());
    EXPECT_TRUE(id.ok()) << id.status();
    return id.ok() ? *id : 0;
  }
  const std::string name;
  RecordingHandler handler;
  std::unique_ptr<Transport> transport;
};

class TransportTest : public testing::TestWithParam<Kind> {
 protected:
  void TearDown() override { DisableFailpoints(); }
};

TEST_P(TransportTest, MessagesArriveInOrder) {
  Task a(GetParam(), "/job:w/task:0"), b(GetParam(), "/job:w/task:1");
  const PeerId to = a.Connect(b);
  EXPECT_EQ(a.Connect(b), to);
  for (uint32_t i = 0; i < 500; ++i) {
    TokenMessage m = TokenOf(i, Tensor::Scalar(static_cast<float>(i)), i);
    ASSERT_TRUE(a.transport->SendTokens(to, 3, 4, {&m, 1}).ok());
    ASSERT_TRUE(
        a.transport->SendControl(to, static_cast<uint8_t>(i), "abc").ok());
  }
  ASSERT_TRUE(b.handler.AwaitControls(500));
  ASSERT_EQ(b.handler.tokens.size(), 500u);
  for (uint32_t i = 0; i < 500; ++i) {
    EXPECT_EQ(b.handler.tokens[i].token.edge, i);
    EXPECT_EQ(b.handler.tokens[i].token.value.scalar<float>(),
              static_cast<float>(i));
    EXPECT_EQ(b.handler.log[2 * i], "t" + std::to_string(i));
    EXPECT_EQ(b.handler.controls[i].first, static_cast<uint8_t>(i));
  }
  EXPECT_EQ(b.transport->TaskOf(b.handler.tokens[0].from), "/job:w/task:0");
  EXPECT_EQ(b.transport->IncarnationOf(b.handler.tokens[0].from),
            a.transport->incarnation());
}

TEST_P(TransportTest, MessagesPassBothWaysWhicheverSideConnects) {
  for (const bool both : {false, true}) {
    Task a(GetParam(), "/job:w/task:0"), b(GetParam(), "/job:w/task:1");
    const PeerId to = a.Connect(b);
    if (both) b.Connect(a);
    ASSERT_TRUE(a.transport->SendControl(to, 1, "there").ok());
    ASSERT_TRUE(b.handler.AwaitControls(1));
    const PeerId back = *b.transport->Connect(a.where());
    ASSERT_TRUE(b.transport->SendControl(back, 2, "back").ok());
    ASSERT_TRUE(a.handler.AwaitControls(1));
    EXPECT_EQ(a.handler.controls[0].second, "back");
    EXPECT_EQ(a.handler.losses(), 0u);
    EXPECT_EQ(b.handler.losses(), 0u);
  }
}

// Tasks of different clusters may have the same name.
TEST_P(TransportTest, EqualNamesAtDifferentAddressesAreDifferentPeers) {
  if (GetParam() == Kind::kUcx)
    GTEST_SKIP() << "UCX's addresses do not tell tasks apart";
  const char* const name = "/job:localhost/task:0";
  Task a(GetParam(), name), b(GetParam(), name), c(GetParam(), name);
  const PeerId to_b = a.Connect(b), to_c = a.Connect(c);
  EXPECT_NE(to_b, to_c);
  ASSERT_TRUE(a.transport->SendControl(to_b, 1, "").ok());
  ASSERT_TRUE(a.transport->SendControl(to_c, 2, "").ok());
  ASSERT_TRUE(c.transport->SendControl(c.Connect(b), 3, "").ok());
  ASSERT_TRUE(c.handler.AwaitControls(1));
  ASSERT_TRUE(b.handler.AwaitControls(2));
  EXPECT_EQ(c.handler.controls[0].first, 2);
  EXPECT_EQ(a.Connect(b), to_b);
  EXPECT_EQ(a.Connect(c), to_c);
  for (Task* t : {&a, &b, &c}) EXPECT_EQ(t->handler.losses(), 0u);
}

TEST_P(TransportTest, LargeTensorsInBothDirectionsDoNotBlock) {
  Task a(GetParam(), "/job:w/task:0"), b(GetParam(), "/job:w/task:1");
  const PeerId ab = a.Connect(b), ba = b.Connect(a);
  constexpr int kTensors = 6;
  constexpr int64_t kElements = 2'000'003;
  std::vector<Tensor> tensors;
  for (int i = 0; i < kTensors; ++i) {
    Tensor t(DType::kInt32, Shape({kElements}));
    for (int64_t j = 0; j < kElements; ++j)
      t.data<int32_t>()[j] = static_cast<int32_t>(j * (i + 1));
    tensors.push_back(std::move(t));
  }
  for (uint32_t i = 0; i < kTensors; ++i) {
    TokenMessage m = TokenOf(i, tensors[i]), n = TokenOf(i, tensors[i]);
    ASSERT_TRUE(a.transport->SendTokens(ab, 1, 0, {&m, 1}).ok());
    ASSERT_TRUE(b.transport->SendTokens(ba, 1, 0, {&n, 1}).ok());
  }
  ASSERT_TRUE(a.transport->SendControl(ab, 9, "").ok());
  ASSERT_TRUE(b.transport->SendControl(ba, 9, "").ok());
  for (Task* t : {&a, &b}) {
    ASSERT_TRUE(t->handler.AwaitControls(1));
    ASSERT_EQ(t->handler.tokens.size(), size_t{kTensors});
    EXPECT_EQ(t->handler.log.back(), "c9");
    for (const auto& got : t->handler.tokens)
      EXPECT_TRUE(got.token.value.Identical(tensors[got.token.edge]));
  }
}

TEST_P(TransportTest, StringsEmptyTensorsAndDeadTokensArrive) {
  Task a(GetParam(), "/job:w/task:0"), b(GetParam(), "/job:w/task:1");
  const PeerId to = a.Connect(b);
  Tensor strings(DType::kString, Shape({3}));
  strings.data<std::string>()[0] = std::string(300000, 'x');
  strings.data<std::string>()[2] = "tail";
  std::vector<TokenMessage> batch;
  batch.push_back(TokenOf(0, strings));
  batch.push_back(TokenOf(1, Tensor(DType::kDouble, Shape({0, 3}))));
  batch.push_back(TokenOf(2, Tensor()));
  batch.back().dead = true;
  ASSERT_TRUE(a.transport->SendTokens(to, 1, 0, batch).ok());
  ASSERT_TRUE(b.handler.AwaitTokens(3));
  for (const auto& got : b.handler.tokens) {
    if (got.token.edge == 0) {
      EXPECT_TRUE(got.token.value.Identical(strings));
    } else if (got.token.edge == 1) {
      EXPECT_EQ(got.token.value.shape(), Shape({0, 3}));
    }
    EXPECT_EQ(got.token.dead, got.token.edge == 2);
  }
  TokenMessage handle = TokenOf(1, Tensor(DType::kResource, Shape()));
  EXPECT_EQ(a.transport->SendTokens(to, 1, 0, {&handle, 1}).code(),
            StatusCode::kInvalidArgument);
}

TEST_P(TransportTest, HandlersAndThreadsMaySendConcurrently) {
  Task a(GetParam(), "/job:w/task:0"), b(GetParam(), "/job:w/task:1");
  const PeerId to = a.Connect(b);
  b.handler.mu.lock();
  b.handler.on_tokens = [&](PeerId from, uint64_t step, uint32_t,
                            std::span<TokenMessage> batch) {
    for (const TokenMessage& m : batch) {
      TokenMessage back = TokenOf(m.edge, m.value);
      EXPECT_TRUE(b.transport->SendTokens(from, step, 7, {&back, 1}).ok());
    }
  };
  b.handler.mu.unlock();
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (uint32_t i = 0; i < 250; ++i) {
        TokenMessage m = TokenOf(
            t * 250 + i, i % 50 == 0 ? Tensor(DType::kFloat, Shape({50000}))
                                     : Tensor::Scalar(1.0f));
        EXPECT_TRUE(a.transport->SendTokens(to, t, 0, {&m, 1}).ok());
      }
    });
  for (std::thread& t : threads) t.join();
  ASSERT_TRUE(a.handler.AwaitTokens(1000));
  std::vector<int> seen(1000);
  for (const auto& got : a.handler.tokens) {
    EXPECT_EQ(got.partition, 7u);
    ++seen[got.token.edge];
  }
  EXPECT_EQ(seen, std::vector<int>(1000, 1));
}

TEST_P(TransportTest, SlowHandlerDoesNotStopHeartbeats) {
  Task a(GetParam(), "/job:w/task:0", milliseconds(600));
  Task b(GetParam(), "/job:w/task:1", milliseconds(600));
  const PeerId to = a.Connect(b);
  b.handler.mu.lock();
  b.handler.on_control = [](auto...) {
    std::this_thread::sleep_for(milliseconds(1300));
  };
  b.handler.mu.unlock();
  ASSERT_TRUE(a.transport->SendControl(to, 1, "").ok());
  ASSERT_TRUE(b.handler.AwaitControls(1));
  EXPECT_EQ(a.handler.losses(), 0u);
  EXPECT_EQ(b.handler.losses(), 0u);
}

// (Another thread takes over reading when a message has taken 5 ms.)
TEST_P(TransportTest, MessagesArriveDuringSlowReads) {
  Task a(GetParam(), "/job:w/task:0"), b(GetParam(), "/job:w/task:1");
  const PeerId to = a.Connect(b);
  ASSERT_TRUE(a.transport->SendControl(to, 1, "").ok());
  ASSERT_TRUE(b.handler.AwaitControls(1));
  const char* kind = NameOf(GetParam());
  ASSERT_TRUE(EnableFailpoints(absl::StrCat(kind, ".read=delay(30)@0*4")).ok());
  for (size_t i = 2; i < 20; ++i) {
    ASSERT_TRUE(a.transport->SendControl(to, 1, "").ok());
    ASSERT_TRUE(b.handler.AwaitControls(i)) << "message " << i;
  }
  DisableFailpoints();
  EXPECT_EQ(a.handler.losses(), 0u);
}

// (Messages sent while the sender's reader is busy are sent together.)
TEST_P(TransportTest, StepsOfOneMessageDoNotWaitForEachOther) {
  constexpr size_t kSteps = 5;
  MeetingSteps steps(kSteps);
  Task a(GetParam(), "/job:w/task:0"), b(GetParam(), "/job:w/task:1");
  const PeerId to = a.Connect(b), back = b.Connect(a);
  b.handler.mu.lock();
  b.handler.on_tokens = [&](PeerId, uint64_t step, uint32_t,
                            std::span<TokenMessage> batch) {
    steps.Deliver(step, batch);
  };
  b.handler.mu.unlock();
  ASSERT_TRUE(a.transport->SendControl(to, 1, "").ok());
  ASSERT_TRUE(b.handler.AwaitControls(1));
  const int64_t before = a.transport->stats().frames_sent;
  const std::string read = absl::StrCat(NameOf(GetParam()), ".read");
  ASSERT_TRUE(EnableFailpoints(read + "=delay(100)*1").ok());
  ASSERT_TRUE(b.transport->SendControl(back, 1, "").ok());
  while (FailpointHits(read) == 0) std::this_thread::yield();
  for (uint64_t step = 0; step < kSteps; ++step) {
    TokenMessage token = TokenOf(0, Tensor::Scalar<int32_t>(1));
    ASSERT_TRUE(a.transport->SendTokens(to, step, 0, {&token, 1}).ok());
  }
  EXPECT_TRUE(steps.Await());
  EXPECT_LT(a.transport->stats().frames_sent - before, int64_t{kSteps});
}

TEST_P(TransportTest, TaskThatShutsDownIsLostImmediately) {
  Task a(GetParam(), "/job:w/task:0");
  auto b = std::make_unique<Task>(GetParam(), "/job:w/task:1");
  const PeerId to = a.Connect(*b);
  ASSERT_TRUE(a.transport->SendControl(to, 1, "").ok());
  ASSERT_TRUE(b->handler.AwaitControls(1));
  b.reset();
  ASSERT_TRUE(a.handler.AwaitLost(1));
  EXPECT_EQ(a.handler.lost[0].first, to);
  EXPECT_NE(a.handler.lost[0].second.message().find("/job:w/task:1"),
            std::string::npos);
  EXPECT_FALSE(a.transport->SendControl(to, 1, "").ok());
}

TEST_P(TransportTest, LostPeerMayCloseAfterShutdown) {
  auto a = std::make_unique<Task>(GetParam(), "/job:w/task:0");
  auto b = std::make_unique<Task>(GetParam(), "/job:w/task:1");
  const PeerId to = a->Connect(*b);
  ASSERT_TRUE(a->transport->SendControl(to, 1, "").ok());
  ASSERT_TRUE(b->handler.AwaitControls(1));
  const char* kind = NameOf(GetParam());
  // (The first is b's own.)
  ASSERT_TRUE(
      EnableFailpoints(absl::StrCat(kind, ".close=delay(700)@1*1")).ok());
  b.reset();
  while (a->transport->SendControl(to, 1, "").ok())
    std::this_thread::sleep_for(milliseconds(1));
  // (Work that has not begun by then does not begin.)
  while (FailpointHits(absl::StrCat(kind, ".close")) < 2)
    std::this_thread::sleep_for(milliseconds(1));
  a.reset();
}

TEST_P(TransportTest, DisconnectIsSeenByThePeer) {
  Task a(GetParam(), "/job:w/task:0"), b(GetParam(), "/job:w/task:1");
  const PeerId to = a.Connect(b);
  ASSERT_TRUE(a.transport->SendControl(to, 1, "").ok());
  ASSERT_TRUE(b.handler.AwaitControls(1));
  a.transport->Disconnect(to, Unavailable("no longer wanted"));
  EXPECT_EQ(a.transport->Lost(to).message(), "no longer wanted");
  ASSERT_TRUE(b.handler.AwaitLost(1));
  EXPECT_FALSE(a.transport->SendControl(to, 1, "").ok());
  const PeerId again = a.Connect(b);
  EXPECT_NE(again, to);
  EXPECT_TRUE(a.transport->Lost(again).ok());
  ASSERT_TRUE(a.transport->SendControl(again, 2, "").ok());
  ASSERT_TRUE(b.handler.AwaitControls(2));
  EXPECT_EQ(a.handler.losses(), 0u);
}

TEST_P(TransportTest, IncarnationZeroMatchesAny) {
  Task a(GetParam(), "/job:w/task:0"), b(GetParam(), "/job:w/task:1");
  PeerAddress where = b.where();
  where.incarnation = 0;
  const PeerId to = *a.transport->Connect(where);
  b.handler.mu.lock();
  b.handler.on_control = [&](PeerId from, auto...) {
    EXPECT_TRUE(b.transport->SendControl(from, 2, "").ok());
  };
  b.handler.mu.unlock();
  ASSERT_TRUE(a.transport->SendControl(to, 1, "").ok());
  ASSERT_TRUE(a.handler.AwaitControls(1));
  EXPECT_EQ(a.transport->IncarnationOf(to), b.transport->incarnation());
  EXPECT_EQ(a.handler.losses(), 0u);
}

TEST_P(TransportTest, WrongIncarnationIsAnError) {
  Task a(GetParam(), "/job:w/task:0"), b(GetParam(), "/job:w/task:1");
  PeerAddress where = b.where();
  where.incarnation ^= 5;
  ASSERT_TRUE(a.transport->Connect(where).ok());
  ASSERT_TRUE(a.handler.AwaitLost(1));
  EXPECT_EQ(a.handler.lost[0].second.code(), StatusCode::kAborted)
      << a.handler.lost[0].second;
  const PeerId to = a.Connect(b);
  ASSERT_TRUE(a.transport->SendControl(to, 1, "").ok());
  EXPECT_TRUE(b.handler.AwaitControls(1));
}

TEST_P(TransportTest, FailpointsLoseThePeerWithoutHanging) {
  const std::string kind = NameOf(GetParam());
  for (const std::string& spec :
       {kind + ".write=drop@3*1", kind + ".read=error(bad)@3*1"}) {
    SCOPED_TRACE(spec);
    Task a(GetParam(), "/job:w/task:0", milliseconds(1000));
    Task b(GetParam(), "/job:w/task:1", milliseconds(1000));
    const PeerId to = a.Connect(b);
    ASSERT_TRUE(EnableFailpoints(spec).ok());
    for (int i = 0; i < 50; ++i) {
      (void)a.transport->SendControl(to, 1, "x");
      std::this_thread::sleep_for(milliseconds(1));
    }
    EXPECT_TRUE(b.handler.AwaitLost(1));
    EXPECT_TRUE(a.handler.AwaitLost(1));
    DisableFailpoints();
  }
}

// A task in a separate process: this program, running only the test
// TransportChild.DISABLED_Run.
class Child {
 public:
  Child(Kind kind, const std::string& name,
        milliseconds timeout = milliseconds(1000)) {
    const std::string what =
        absl::StrCat(static_cast<int>(kind), " ", timeout.count(), " ", name);
    setenv("SLUICE_TRANSPORT_CHILD", what.c_str(), 1);
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 3);
    std::string self = "/proc/self/exe";
    std::string filter = "--gtest_filter=TransportChild.DISABLED_Run";
    std::string disabled = "--gtest_also_run_disabled_tests";
    std::string brief = "--gtest_brief=1";
    char* argv[] = {self.data(), filter.data(), disabled.data(), brief.data(),
                    nullptr};
    // (It must run its one test, whatever our shard is.)
    std::vector<char*> envp;
    for (char** e = environ; *e != nullptr; ++e)
      if (!std::string_view(*e).starts_with("GTEST_")) envp.push_back(*e);
    envp.push_back(nullptr);
    EXPECT_EQ(
        posix_spawn(&pid_, self.c_str(), &actions, nullptr, argv, envp.data()),
        0);
    posix_spawn_file_actions_destroy(&actions);
    unsetenv("SLUICE_TRANSPORT_CHILD");
    close(ends[1]);
    uint64_t size[2] = {};
    EXPECT_EQ(read(ends[0], size, sizeof(size)), ssize_t{sizeof(size)});
    where_.task = name;
    where_.incarnation = size[0];
    where_.address.resize(size[1]);
    EXPECT_EQ(read(ends[0], where_.address.data(), size[1]),
              static_cast<ssize_t>(size[1]));
    close(ends[0]);
  }
  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  void Signal(int signal) { kill(pid_, signal); }
  const PeerAddress& where() const { return where_; }

 private:
  pid_t pid_ = 0;
  PeerAddress where_;
};

// Echoes everything until it is killed. Disabled because it is not a test but
// the second process of the tests above, which run it by name (class Child).
TEST(TransportChild, DISABLED_Run) {
  const char* what = std::getenv("SLUICE_TRANSPORT_CHILD");
  if (what == nullptr) return;
  const std::vector<std::string> words = absl::StrSplit(what, ' ');
  Task task(static_cast<Kind>(std::stoi(words.at(0))), words.at(2),
            milliseconds(std::stoi(words.at(1))));
  task.handler.mu.lock();
  task.handler.on_tokens = [&](PeerId from, uint64_t step, uint32_t partition,
                               std::span<TokenMessage> batch) {
    std::vector<TokenMessage> back(batch.begin(), batch.end());
    (void)task.transport->SendTokens(from, step, partition, back);
  };
  task.handler.mu.unlock();
  const PeerAddress where = task.where();
  const uint64_t size[] = {where.incarnation, where.address.size()};
  if (write(3, size, sizeof(size)) < 0 ||
      write(3, where.address.data(), where.address.size()) < 0)
    return;
  task.handler.Await([&] { return getppid() == 1; });
}

TEST_P(TransportTest, KilledProcessIsLost) {
  Task a(GetParam(), "/job:w/task:0", milliseconds(5000));
  Child child(GetParam(), "/job:w/task:1");
  const PeerId to = *a.transport->Connect(child.where());
  Tensor large(DType::kFloat, Shape({1000000}));
  for (int i = 0; i < 1000000; ++i)
    large.data<float>()[i] = static_cast<float>(i);
  TokenMessage m = TokenOf(1, large);
  ASSERT_TRUE(a.transport->SendTokens(to, 1, 2, {&m, 1}).ok());
  ASSERT_TRUE(a.handler.AwaitTokens(1));
  EXPECT_TRUE(a.handler.tokens[0].token.value.Identical(large));
  child.Signal(SIGKILL);
  ASSERT_TRUE(a.handler.AwaitLost(1));
  EXPECT_EQ(a.handler.lost[0].second.code(), StatusCode::kUnavailable);
  const std::string why(a.handler.lost[0].second.message());
  EXPECT_NE(why.find("/job:w/task:1"), why.npos) << why;
  // By its end, even before the parent calls wait, not by its silence.
  EXPECT_EQ(why.find("expected a heartbeat"), why.npos) << why;
}

TEST_P(TransportTest, StoppedProcessIsLostAndLargeSendDoesNotHang) {
  Task a(GetParam(), "/job:w/task:0", milliseconds(1000));
  Child child(GetParam(), "/job:w/task:1");
  const PeerId to = *a.transport->Connect(child.where());
  TokenMessage m = TokenOf(1, Tensor::Scalar(1.0f));
  ASSERT_TRUE(a.transport->SendTokens(to, 1, 2, {&m, 1}).ok());
  ASSERT_TRUE(a.handler.AwaitTokens(1));
  child.Signal(SIGSTOP);
  for (uint32_t i = 0; i < 4; ++i) {
    TokenMessage n = TokenOf(i, Tensor(DType::kFloat, Shape({5000000})));
    ASSERT_TRUE(a.transport->SendTokens(to, 1, 2, {&n, 1}).ok());
  }
  ASSERT_TRUE(a.handler.AwaitLost(1));
  EXPECT_EQ(a.handler.lost[0].second.code(), StatusCode::kUnavailable);
}

// Heap bytes in use (0 under sanitizers).
int64_t HeapBytes() {
  const struct mallinfo2 m = mallinfo2();
  return static_cast<int64_t>(m.uordblks + m.hblkhd);
}

// The network gets at most a window, and queued messages cost only their own
// bytes; large values cost none. When the peer resumes, it receives everything.
TEST_P(TransportTest, MessagesForStoppedPeerQueueCompactly) {
  constexpr int64_t kMB = 1 << 20;
#ifdef SLUICE_SANITIZED
  constexpr uint32_t kSmall = 20'000, kMiddle = 100;  // (These take long.)
#else
  constexpr uint32_t kSmall = 200'000, kMiddle = 1'000;
#endif
  Task a(GetParam(), "/job:w/task:0");
  Child child(GetParam(), "/job:w/task:1", milliseconds(20000));
  const PeerId to = *a.transport->Connect(child.where());
  const auto send = [&](uint32_t edge, const Tensor& value) {
    TokenMessage m = TokenOf(edge, value);
    ASSERT_TRUE(a.transport->SendTokens(to, 1, 2, {&m, 1}).ok());
  };
  const Tensor large(DType::kFloat, Shape({kMB / 4}));
  send(0, large);
  ASSERT_TRUE(a.handler.AwaitTokens(1));
  child.Signal(SIGSTOP);
  const int64_t heap = HeapBytes(), sent = a.transport->stats().bytes_sent;
  for (uint32_t i = 0; i < kSmall; ++i)
    send(1 + i, Tensor::Scalar(static_cast<float>(i)));
  EXPECT_LT(HeapBytes() - heap, 32 * kMB);
  const Tensor middle(DType::kFloat, Shape({10'000}));
  for (uint32_t i = 0; i < kMiddle; ++i) send(1 + kSmall + i, middle);
  EXPECT_LT(a.transport->stats().bytes_sent - sent, 16 * kMB);
  EXPECT_LT(HeapBytes() - heap, (32 + 64) * kMB);
  child.Signal(SIGCONT);
  EXPECT_TRUE(a.handler.AwaitTokens(1 + kSmall + kMiddle));
  const TransportStats stats = a.transport->stats();
  // (The window takes some 5,000 frames of one token each.)
  EXPECT_LT(stats.frames_sent, 5'500 + stats.tokens_sent / 100);
  child.Signal(SIGSTOP);
  const int64_t before = HeapBytes();
  for (int i = 0; i < 50; ++i) send(0, large);
  EXPECT_LT(HeapBytes() - before, 16 * kMB);
  EXPECT_EQ(a.handler.losses(), 0u);
}

struct GrpcTask {
  explicit GrpcTask(GrpcTransportOptions options) {
    options.local_shortcut = false;
    options.task = options.task.empty() ? "/job:w/task:0" : options.task;
    transport = std::make_unique<GrpcTransport>(options);
    status = transport->Start(&handler);
  }
  RecordingHandler handler;
  std::unique_ptr<GrpcTransport> transport;
  Status status;
};

TlsFiles TestFiles(const std::string& who) {
  const std::string folder = "tests/tls/";
  return {folder + "ca.pem", folder + who + ".pem", folder + who + ".key", ""};
}

TEST(GrpcTransportTest, TlsRequiresCertificatesOfBothSides) {
  GrpcTransportOptions options;
  options.task = "/job:w/task:1";
  options.tls = TestFiles("task");
  GrpcTask b(options);
  ASSERT_TRUE(b.status.ok()) << b.status;
  const PeerAddress where = {options.task, b.transport->address(),
                             b.transport->incarnation()};
  options.task = "/job:w/task:0";
  GrpcTask a(options);
  const PeerId to = *a.transport->Connect(where);
  ASSERT_TRUE(a.transport->SendControl(to, 1, "secret").ok());
  ASSERT_TRUE(b.handler.AwaitControls(1));

  // One without a certificate, and one that no authority signed.
  GrpcTransportOptions plain;
  plain.task = "/job:w/task:2";
  GrpcTransportOptions stranger = plain;
  stranger.task = "/job:w/task:3";
  stranger.tls = TestFiles("stranger");
  for (const GrpcTransportOptions& o : {plain, stranger}) {
    GrpcTask c(o);
    ASSERT_TRUE(c.status.ok()) << c.status;
    const PeerId id = *c.transport->Connect(where);
    (void)c.transport->SendControl(id, 2, "");
    ASSERT_TRUE(c.handler.AwaitLost(1));
  }
  EXPECT_EQ(b.handler.controls.size(), 1u);
}

TEST(GrpcTransportTest, PlainTextListensOnLoopbackByDefault) {
  GrpcTransportOptions options;
  for (const char* here : {"127.0.0.1:0", "127.1.2.3:0", "localhost:0"}) {
    options.listen = here;
    EXPECT_TRUE(GrpcTask(options).status.ok()) << here;
  }
  for (const char* beyond : {"127.0.0.1.example.org:0", "127.example.org:0",
                             "localhost.example.org:0", "0.0.0.0:0"}) {
    options.listen = beyond;
    EXPECT_EQ(GrpcTask(options).status.code(), StatusCode::kInvalidArgument)
        << beyond;
  }
  options.plain_beyond_loopback = true;
  EXPECT_TRUE(GrpcTask(options).status.ok());
  options.plain_beyond_loopback = false;
  options.tls = TestFiles("task");
  EXPECT_TRUE(GrpcTask(options).status.ok());
  options.tls.key = "tests/tls/README.md";
  EXPECT_EQ(GrpcTask(options).status.code(), StatusCode::kInvalidArgument);
}

// The number of this process's sockets that accept connections from other
// machines.
int ListensBeyondLoopback() {
  int count = 0;
  for (int fd = 3; fd < 1024; ++fd) {
    int listens = 0;
    socklen_t size = sizeof(listens);
    sockaddr_storage address = {};
    socklen_t length = sizeof(address);
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 ||
        listens == 0 ||
        getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0)
      continue;
    char host[NI_MAXHOST] = "";
    if ((address.ss_family != AF_INET && address.ss_family != AF_INET6) ||
        getnameinfo(reinterpret_cast<sockaddr*>(&address), length, host,
                    sizeof(host), nullptr, 0, NI_NUMERICHOST) != 0)
      continue;
    const std::string_view at = host;
    count += !at.starts_with("127.") && at != "::1";
  }
  return count;
}

TEST(UcxTransportTest, ListensOnLoopbackDespiteEnvironment) {
  if (!HaveUcx()) GTEST_SKIP() << "this build is without UCX";
  const int before = ListensBeyondLoopback();
  setenv("UCX_NET_DEVICES", "all", 1);
  {
    UcxTransportOptions options;
    options.task = "/job:w/task:0";
    RecordingHandler handler;
    const auto transport = MakeUcxTransport(options);
    const Status s = transport->Start(&handler);
    EXPECT_TRUE(s.ok()) << s;
    EXPECT_EQ(ListensBeyondLoopback(), before);
  }
  unsetenv("UCX_NET_DEVICES");
}

// More than the network accepts at once.
TEST(UcxTransportTest, ShutdownSendsQueuedMessages) {
  if (!HaveUcx()) GTEST_SKIP() << "this build is without UCX";
  constexpr uint32_t kTokens = 100'000;
  Task a(Kind::kUcx, "/job:w/task:0");
  Task b(Kind::kUcx, "/job:w/task:1");
  const PeerId to = a.Connect(b);
  for (uint32_t i = 0; i < kTokens; ++i) {
    TokenMessage m = TokenOf(i, Tensor::Scalar(1.0f));
    ASSERT_TRUE(a.transport->SendTokens(to, 1, 2, {&m, 1}).ok());
  }
  a.transport->Shutdown();
  EXPECT_EQ(a.transport->stats().tokens_sent, kTokens);
}

TEST(UcxTransportTest, AnswerToADisconnectedLinkMakesNoNewOne) {
  if (!HaveUcx()) GTEST_SKIP() << "this build is without UCX";
  Task a(Kind::kUcx, "/job:w/task:0"), b(Kind::kUcx, "/job:w/task:1");
  ASSERT_TRUE(EnableFailpoints("ucx.answered=delay(200)*1").ok());
  const PeerId to = a.Connect(b);
  ASSERT_TRUE(a.transport->SendControl(to, 1, "").ok());
  while (FailpointHits("ucx.answered") < 1)
    std::this_thread::sleep_for(milliseconds(1));
  a.transport->Disconnect(to, Unavailable("no longer wanted"));
  EXPECT_EQ(a.transport->Lost(to + 1).code(), StatusCode::kInvalidArgument);
  ASSERT_TRUE(b.handler.AwaitLost(1));
  const PeerId again = a.Connect(b);
  ASSERT_TRUE(a.transport->SendControl(again, 2, "").ok());
  ASSERT_TRUE(b.handler.AwaitControls(2));
  EXPECT_EQ(a.handler.losses(), 0u);
  DisableFailpoints();
}

TEST(GrpcTransportTest, AnAddressWithoutATaskIsALostPeer) {
  GrpcTask a((GrpcTransportOptions()));
  const PeerId to = *a.transport->Connect({"/job:w/task:1", "127.0.0.1:1", 0});
  ASSERT_TRUE(a.handler.AwaitLost(1));
  EXPECT_EQ(a.handler.lost[0].first, to);
  EXPECT_NE(a.handler.lost[0].second.message().find("/job:w/task:1"),
            std::string::npos);
}

// A peer that sends arbitrary messages.
class Liar final
    : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  explicit Liar(const std::string& address, std::vector<std::string> messages)
      : messages_(std::move(messages)),
        stub_(
            grpc::CreateChannel(address, grpc::InsecureChannelCredentials())) {
    stub_.PrepareBidiStreamingCall(&context_, "/sluice.Transport/Exchange", {},
                                   this);
    StartRead(&in_);
    Next();
    StartCall();
  }
  grpc::Status Await() {
    std::unique_lock<std::mutex> lock(mu_);
    changed_.wait(lock, [&] { return done_; });
    return status_;
  }

 private:
  void Next() {
    if (sent_ == messages_.size()) return;
    const grpc::Slice slice(messages_[sent_++]);
    out_ = grpc::ByteBuffer(&slice, 1);
    StartWrite(&out_);
  }
  void OnWriteDone(bool ok) override {
    if (ok) Next();
  }
  void OnReadDone(bool ok) override {
    if (ok) StartRead(&in_);
  }
  void OnDone(const grpc::Status& s) override {
    std::lock_guard<std::mutex> lock(mu_);
    done_ = true;
    status_ = s;
    changed_.notify_all();
  }

  const std::vector<std::string> messages_;
  size_t sent_ = 0;
  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::ByteBuffer in_, out_;
  std::mutex mu_;
  std::condition_variable changed_;
  bool done_ = false;
  grpc::Status status_;
};

TEST(GrpcTransportTest, OnlyPeersThatSendGarbageAreDropped) {
  GrpcTask a((GrpcTransportOptions()));
  FrameWriter writer(64);
  writer.AddHello({99, 0, "/job:w/task:9", ""});
  const std::string hello = writer.Take().bytes;
  ASSERT_TRUE(writer.AddControl(1, "x").ok());
  const std::string control = writer.Take().bytes;
  const std::vector<std::vector<std::string>> lies = {
      {"nonsense"},
      {""},
      {control},
      {hello, hello},
      {hello, "SLC1 and bytes that nobody announced"},
      {hello, control.substr(0, control.size() - 1)},
      {hello, control, control},
      {hello, "SLR1" + std::string("\1\0\0\0", 4)},
      {hello, "SLM1 is no token"},
      {hello, "SLM1" + std::string(16, 'x'), "SLM1" + std::string(16, 'y')},
      {hello, "SLM1" + std::string(16, 'x'), "SLR1" + std::string(4, '\1')}};
  for (const auto& lie : lies) {
    const std::string address = a.transport->address();
    Liar liar(address.substr(0, address.find('#')), lie);
    EXPECT_FALSE(liar.Await().ok());
  }
  EXPECT_TRUE(a.handler.AwaitLost(8));
  GrpcTransportOptions other;
  other.task = "/job:w/task:1";
  GrpcTask b(other);
  const PeerId to =
      *b.transport->Connect({"/job:w/task:0", a.transport->address(), 0});
  ASSERT_TRUE(b.transport->SendControl(to, 7, "").ok());
  EXPECT_TRUE(a.handler.Await([&] {
    return !a.handler.controls.empty() && a.handler.controls.back().first == 7;
  }));
}

std::vector<Kind> Kinds() {
  std::vector<Kind> kinds = {Kind::kGrpc, Kind::kGrpcWithoutMemory};
  if (HaveUcx()) kinds.push_back(Kind::kUcx);
  return kinds;
}
INSTANTIATE_TEST_SUITE_P(All, TransportTest, testing::ValuesIn(Kinds()),
                         [](const auto& info) {
                           return std::string(info.param == Kind::kGrpc ? "Grpc"
                                              : info.param == Kind::kUcx
                                                  ? "Ucx"
                                                  : "GrpcAlone");
                         });

}  // namespace
}  // namespace sluice
