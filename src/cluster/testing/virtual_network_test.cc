#include "cluster/testing/virtual_network.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "cluster/testing/transport_test_util.h"
#include "cluster/transport/transport_base.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;

struct LocalTask {
  explicit LocalTask(const std::string& name) {
    TransportOptions options;
    options.task = name;
    transport = std::make_unique<LocalTransport>(options);
    EXPECT_TRUE(transport->Start(&handler).ok());
  }
  PeerAddress where() const {
    return {transport->options().task, transport->address(),
            transport->incarnation()};
  }
  RecordingHandler handler;
  std::unique_ptr<LocalTransport> transport;
};

TEST(LocalTransportTest, TokensAreDeliveredOnTheSendingThread) {
  LocalTask a("/job:w/task:0"), b("/job:w/task:1");
  const PeerId to = *a.transport->Connect(b.where());
  std::thread::id ran;
  b.handler.on_tokens = [&](auto...) { ran = std::this_thread::get_id(); };
  TokenMessage m = TokenOf(3, Tensor::Scalar(1.5f));
  ASSERT_TRUE(a.transport->SendTokens(to, 9, 2, {&m, 1}).ok());
  ASSERT_EQ(b.handler.tokens.size(), 1u);
  EXPECT_EQ(ran, std::this_thread::get_id());
  EXPECT_EQ(b.handler.tokens[0].step, 9u);
  EXPECT_EQ(b.handler.tokens[0].partition, 2u);
  EXPECT_EQ(b.handler.tokens[0].token.value.scalar<float>(), 1.5f);
  EXPECT_EQ(b.transport->TaskOf(b.handler.tokens[0].from), "/job:w/task:0");
}

TEST(LocalTransportTest, TokensDoNotOvertakeControls) {
  LocalTask a("/job:w/task:0"), b("/job:w/task:1");
  const PeerId to = *a.transport->Connect(b.where());
  for (uint32_t i = 0; i < 200; ++i) {
    TokenMessage m = TokenOf(i, Tensor::Scalar(1.0f));
    ASSERT_TRUE(
        a.transport->SendControl(to, static_cast<uint8_t>(i), "x").ok());
    ASSERT_TRUE(a.transport->SendTokens(to, 1, 0, {&m, 1}).ok());
  }
  ASSERT_TRUE(b.handler.AwaitTokens(200));
  for (uint32_t i = 0; i < 200; ++i) {
    EXPECT_EQ(b.handler.log[2 * i], "c" + std::to_string(i));
    EXPECT_EQ(b.handler.log[2 * i + 1], "t" + std::to_string(i));
  }
}

TEST(LocalTransportTest, ATaskMayBeItsOwnPeer) {
  LocalTask a("/job:w/task:0");
  const PeerId self = *a.transport->Connect(a.where());
  EXPECT_EQ(*a.transport->Connect(a.where()), self);
  TokenMessage m = TokenOf(1, Tensor());
  ASSERT_TRUE(a.transport->SendTokens(self, 1, 0, {&m, 1}).ok());
  ASSERT_TRUE(a.transport->SendControl(self, 4, "abc").ok());
  ASSERT_TRUE(a.handler.AwaitControls(1));
  EXPECT_EQ(a.handler.controls[0].second, "abc");
  EXPECT_EQ(a.handler.tokens.size(), 1u);
}

TEST(LocalTransportTest, EitherSideMayConnect) {
  LocalTask a("/job:w/task:0"), b("/job:w/task:1");
  const PeerId ab = *a.transport->Connect(b.where());
  const PeerId ba = *b.transport->Connect(a.where());
  ASSERT_TRUE(a.transport->SendControl(ab, 1, "").ok());
  ASSERT_TRUE(b.transport->SendControl(ba, 2, "").ok());
  EXPECT_TRUE(a.handler.AwaitControls(1));
  EXPECT_TRUE(b.handler.AwaitControls(1));
}

TEST(LocalTransportTest, ShutdownIsReportedToPeerOnce) {
  LocalTask a("/job:w/task:0"), b("/job:w/task:1");
  const PeerId to = *a.transport->Connect(b.where());
  b.transport->Shutdown();
  ASSERT_TRUE(a.handler.AwaitLost(1));
  EXPECT_EQ(a.handler.lost[0].first, to);
  EXPECT_NE(a.handler.lost[0].second.message().find("/job:w/task:1"),
            std::string::npos);
  EXPECT_EQ(a.transport->SendControl(to, 1, "").code(),
            StatusCode::kUnavailable);
  EXPECT_TRUE(b.handler.lost.empty());
}

// However many connect and disconnect; their numbers are never reused.
TEST(LocalTransportTest, OldLostPeersAreForgottenAndStayLost) {
  LocalTask a("/job:w/task:0"), b("/job:w/task:1");
  std::vector<PeerId> peers;
  for (size_t i = 0; i < kMaxLostPeers + 2; ++i) {
    peers.push_back(*a.transport->Connect(b.where()));
    a.transport->Disconnect(peers.back(), Aborted("number ", i));
  }
  const PeerId here = *a.transport->Connect(b.where());
  EXPECT_EQ(here, peers.back() + 1);
  EXPECT_TRUE(a.transport->Lost(here).ok());
  EXPECT_EQ(a.transport->Lost(here + 1).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(a.transport->Lost(peers.back()).code(), StatusCode::kAborted);
  EXPECT_EQ(a.transport->TaskOf(peers.back()), "/job:w/task:1");
  for (const PeerId forgotten : {peers[0], peers[1]}) {
    EXPECT_EQ(a.transport->TaskOf(forgotten), "");
    const Status s = a.transport->Lost(forgotten);
    EXPECT_EQ(s.code(), StatusCode::kUnavailable) << s;
    EXPECT_EQ(a.transport->SendControl(forgotten, 1, "").code(), s.code());
  }
}

TEST(LocalTransportTest, HandlesCannotBeSent) {
  LocalTask a("/job:w/task:0"), b("/job:w/task:1");
  const PeerId to = *a.transport->Connect(b.where());
  TokenMessage m = TokenOf(1, Tensor(DType::kResource, Shape()));
  const Status s = a.transport->SendTokens(to, 1, 0, {&m, 1});
  EXPECT_EQ(s.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(s.message().find("resource"), std::string::npos);
}

TEST(LocalTransportTest, ThreadsMaySendDuringShutdown) {
  for (int round = 0; round < 20; ++round) {
    LocalTask a("/job:w/task:0");
    auto b = std::make_unique<LocalTask>("/job:w/task:1");
    const PeerId to = *a.transport->Connect(b->where());
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 100; ++i) {
          TokenMessage m = TokenOf(1, Tensor::Scalar(i));
          (void)a.transport->SendTokens(to, 1, 0, {&m, 1});
          (void)a.transport->SendControl(to, 1, "");
        }
      });
    b.reset();
    for (std::thread& t : threads) t.join();
    EXPECT_TRUE(a.handler.AwaitLost(1));
  }
}

struct VirtualTask {
  VirtualTask(VirtualNetwork* network, const std::string& name) {
    TransportOptions options;
    options.task = name;
    transport = network->Join(options);
    EXPECT_TRUE(transport->Start(&handler).ok());
  }
  PeerAddress where(const std::string& name) const {
    return {name, transport->address(), transport->incarnation()};
  }
  RecordingHandler handler;
  std::unique_ptr<Transport> transport;
};

VirtualNetworkOptions Bad(uint64_t seed) {
  VirtualNetworkOptions options;
  options.seed = seed;
  options.drop = 0.2;
  options.duplicate = 0.2;
  return options;
}

TEST(VirtualNetworkTest, TokensArriveOnceAndDoNotOvertakeControls) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    VirtualNetwork network(Bad(seed));
    VirtualTask a(&network, "a"), b(&network, "b");
    const PeerId to = *a.transport->Connect(b.where("b"));
    std::vector<std::string> sent;
    for (uint32_t i = 0; i < 30; ++i) {
      std::vector<TokenMessage> batch;
      for (uint32_t j = 0; j < 4; ++j)
        batch.push_back(TokenOf(4 * i + j, Tensor::Scalar(j), i));
      ASSERT_TRUE(a.transport->SendTokens(to, 1, 0, batch).ok());
      if (i % 10 == 9) {
        ASSERT_TRUE(
            a.transport->SendControl(to, static_cast<uint8_t>(i), "").ok());
      }
    }
    network.Run();
    ASSERT_EQ(b.handler.tokens.size(), 120u);
    bool reordered = false;
    for (size_t i = 0; i < b.handler.log.size(); ++i) {
      const std::string& entry = b.handler.log[i];
      const uint32_t number =
          static_cast<uint32_t>(std::stoul(entry.substr(1)));
      if (entry[0] == 'c') {
        EXPECT_EQ(i, (number + 1) * 4 + (number - 9) / 10);
      } else {
        reordered |= i > 0 && b.handler.log[i - 1][0] == 't' &&
                     number < std::stoul(b.handler.log[i - 1].substr(1));
      }
    }
    EXPECT_TRUE(reordered);
    EXPECT_GT(network.counts().dropped, 0);
    EXPECT_GT(network.counts().duplicated, 0);
    EXPECT_TRUE(a.handler.lost.empty());
  }
}

TEST(VirtualNetworkTest, TheSameSeedGivesTheSameRun) {
  const auto run = [](uint64_t seed) {
    VirtualNetwork network(Bad(seed));
    VirtualTask a(&network, "a"), b(&network, "b");
    const PeerId to = *a.transport->Connect(b.where("b"));
    for (uint32_t i = 0; i < 50; ++i) {
      TokenMessage m = TokenOf(i, Tensor::Scalar(i));
      EXPECT_TRUE(a.transport->SendTokens(to, 1, 0, {&m, 1}).ok());
    }
    network.Run();
    return b.handler.log;
  };
  EXPECT_EQ(run(7), run(7));
  EXPECT_NE(run(7), run(8));
}

// Whichever thread runs first, if each task has one.
TEST(VirtualNetworkTest, MessageFateIsIndependentOfOtherTasks) {
  using Arrivals = std::vector<std::pair<int64_t, std::string>>;
  const auto run = [](bool in_turn) {
    VirtualNetwork network(Bad(7));
    VirtualTask a(&network, "a"), b(&network, "b"), c(&network, "c");
    const PeerId from_a = *a.transport->Connect(b.where("b"));
    const PeerId from_c = *c.transport->Connect(b.where("b"));
    std::map<std::string, Arrivals> arrivals;
    b.handler.on_tokens = [&](PeerId from, uint64_t, uint32_t,
                              std::span<TokenMessage> batch) {
      for (const TokenMessage& m : batch)
        arrivals[b.transport->TaskOf(from)].emplace_back(
            network.now_us(), std::to_string(m.edge));
    };
    const auto send = [](VirtualTask& task, PeerId to, uint32_t i) {
      TokenMessage m[] = {TokenOf(i, Tensor::Scalar(i)),
                          TokenOf(100 + i, Tensor::Scalar(i))};
      EXPECT_TRUE(task.transport->SendTokens(to, 1, 0, m).ok());
    };
    for (uint32_t i = 0; i < 50; ++i) {
      send(a, from_a, i);
      if (in_turn) send(c, from_c, i);
    }
    for (uint32_t i = 0; !in_turn && i < 50; ++i) send(c, from_c, i);
    network.Run();
    return arrivals;
  };
  const auto arrivals = run(true);
  EXPECT_EQ(arrivals.at("a").size(), 100u);
  EXPECT_EQ(arrivals, run(false));
}

TEST(VirtualNetworkTest, LargeTensorsAndStringsArrive) {
  VirtualNetwork network({});
  VirtualTask a(&network, "a"), b(&network, "b");
  const PeerId to = *a.transport->Connect(b.where("b"));
  Tensor large(DType::kFloat, Shape({100000}));
  for (int i = 0; i < 100000; ++i)
    large.data<float>()[i] = static_cast<float>(i);
  Tensor strings(DType::kString, Shape({2}));
  strings.data<std::string>()[0] = std::string(100000, 'x');
  std::vector<TokenMessage> batch;
  batch.push_back(TokenOf(0, large));
  batch.push_back(TokenOf(1, strings));
  ASSERT_TRUE(a.transport->SendTokens(to, 1, 0, batch).ok());
  network.Run();
  ASSERT_EQ(b.handler.tokens.size(), 2u);
  for (const auto& got : b.handler.tokens)
    EXPECT_TRUE(
        got.token.value.Identical(got.token.edge == 0 ? large : strings));
}

TEST(VirtualNetworkTest, ATruncatedFrameDropsThePeerOnBothSides) {
  VirtualNetworkOptions options;
  options.truncate = 1;
  VirtualNetwork network(options);
  VirtualTask a(&network, "a"), b(&network, "b");
  const PeerId to = *a.transport->Connect(b.where("b"));
  ASSERT_TRUE(a.transport->SendControl(to, 1, "hello").ok());
  network.Run();
  ASSERT_EQ(b.handler.lost.size(), 1u);
  ASSERT_EQ(a.handler.lost.size(), 1u);
  EXPECT_NE(b.handler.lost[0].second.message().find("task 'a'"),
            std::string::npos);
  EXPECT_TRUE(b.handler.controls.empty());
}

TEST(VirtualNetworkTest, KilledTaskIsLostAfterTimeoutAndMayReturn) {
  VirtualNetwork network({});
  VirtualTask a(&network, "a");
  auto b = std::make_unique<VirtualTask>(&network, "b");
  const PeerAddress old = b->where("b");
  const PeerId to = *a.transport->Connect(old);
  ASSERT_TRUE(a.transport->SendControl(to, 1, "").ok());
  network.Run();
  network.Kill("b");
  ASSERT_TRUE(a.transport->SendControl(to, 2, "").ok());
  network.RunUntil(network.now_us() + 4'000'000);
  EXPECT_TRUE(a.handler.lost.empty());
  network.Run();
  ASSERT_EQ(a.handler.lost.size(), 1u);
  EXPECT_EQ(b->handler.controls.size(), 1u);
  EXPECT_TRUE(b->handler.lost.empty());

  VirtualTask again(&network, "b");
  const PeerId stale = *a.transport->Connect(old);
  network.Run();
  ASSERT_EQ(a.handler.lost.size(), 2u);
  EXPECT_EQ(a.handler.lost[1].first, stale);
  EXPECT_EQ(a.handler.lost[1].second.code(), StatusCode::kAborted);
  const PeerId fresh = *a.transport->Connect(again.where("b"));
  ASSERT_TRUE(a.transport->SendControl(fresh, 3, "").ok());
  network.Run();
  ASSERT_EQ(again.handler.controls.size(), 1u);
}

TEST(VirtualNetworkTest, PausedTaskIsLostOnlyAfterTimeout) {
  VirtualNetwork network({});
  VirtualTask a(&network, "a"), b(&network, "b");
  const PeerId to = *a.transport->Connect(b.where("b"));
  network.Run();
  network.Pause("b");
  ASSERT_TRUE(a.transport->SendControl(to, 1, "").ok());
  network.RunUntil(network.now_us() + 1'000'000);
  EXPECT_TRUE(b.handler.controls.empty());
  network.Resume("b");
  network.Run();
  EXPECT_EQ(b.handler.controls.size(), 1u);
  EXPECT_TRUE(a.handler.lost.empty());
  network.Pause("b");
  network.Run();
  EXPECT_EQ(a.handler.lost.size(), 1u);
  network.Resume("b");
  network.Run();
  EXPECT_EQ(b.handler.lost.size(), 1u);
}

}  // namespace
}  // namespace sluice
