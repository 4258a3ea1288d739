// Collective operations among members in one process: nodes of one step, and
// steps of several sessions that share resources.
#include "client/nn/collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <random>
#include <thread>

#include "client/autodiff/gradients.h"
#include "exec/core/cancellation.h"
#include "ops/collectives/hub.h"
#include "sluice/ops.h"
#include "sluice/sluice.h"

namespace sluice {
namespace {

// So that what should end fails rather than hangs.
constexpr int64_t kHangMs = 20'000;

using ::testing::HasSubstr;

struct Member {
  int64_t rank = -1, size = 2, group = 1, instance = 1;
  std::string merge = "Add", final = "Id", hint = "auto";
};

AttrMap AttrsOf(const Member& m, bool merges = true) {
  AttrMap attrs = {{"group_size", m.size},
                   {"group_key", m.group},
                   {"instance_key", m.instance},
                   {"rank", m.rank},
                   {"communication_hint", m.hint}};
  if (merges) {
    attrs["merge_op"] = m.merge;
    attrs["final_op"] = m.final;
  }
  return attrs;
}

Output ReduceNode(Output x, const Member& m) {
  return Build("CollectiveReduce", {x}, AttrsOf(m));
}

Output OnesOf(int64_t n) {
  return Constant(*Tensor::MakeOf<float>(
      Shape({n}), std::vector<float>(static_cast<size_t>(n), 1)));
}

std::vector<float> Floats(const Tensor& t) { return t.ToVector<float>(); }

TEST(CollectivesTest, MembersOfOneStepGetTheSum) {
  for (const char* hint : {"auto", "ring", "tree", "direct"}) {
    Graph graph;
    const WithGraph use(graph);
    std::vector<Output> sums;
    for (int r = 0; r < 5; ++r)
      sums.push_back(
          ReduceNode(Constant(Tensor::Vector<float>({1.0f * r, 2.0f * r, -1})),
                     {.rank = r, .size = 5, .hint = hint}));
    Session session(graph);
    for (int step = 0; step < 3; ++step) {
      const auto got = session.Run({}, sums);
      ASSERT_TRUE(got.ok()) << hint << ": " << got.status();
      for (const Tensor& t : *got)
        EXPECT_EQ(Floats(t), (std::vector<float>{10, 20, -5}));
    }
  }
}

TEST(CollectivesTest, OtherOperations) {
  Graph graph;
  const WithGraph use(graph);
  std::vector<Output> out;
  for (int r = 0; r < 3; ++r) {
    const Output x =
        Constant(Tensor::Of<float>({3, 2}, {1.0f * r, 2, 3, 4, 5, 6.0f * r}));
    out.push_back(Build("CollectiveGather", {x},
                        AttrsOf({.rank = r, .size = 3, .instance = 1}, false)));
    out.push_back(Build("CollectiveReduceScatter", {x},
                        AttrsOf({.rank = r, .size = 3, .instance = 2})));
    AttrMap cast = AttrsOf({.rank = r, .size = 3, .instance = 3}, false);
    cast["shape"] = PartialShape({3, 2});
    if (r == 1) {
      out.push_back(Build("CollectiveBcastSend", {x}, cast));
    } else {
      cast["T"] = DType::kFloat;
      out.push_back(Build("CollectiveBcastRecv", {}, cast));
    }
    out.push_back(
        ReduceNode(x, {.rank = r, .size = 3, .instance = 4, .merge = "Max"}));
    out.push_back(
        ReduceNode(x, {.rank = r, .size = 3, .instance = 5, .final = "Div"}));
  }
  Session session(graph);
  const auto got = session.Run({}, out);
  ASSERT_TRUE(got.ok()) << got.status();
  const std::vector<float> rows[] = {{3, 6}, {9, 12}, {15, 18}};
  for (size_t r = 0; r < 3; ++r) {
    const Tensor* const t = &(*got)[r * 5];
    EXPECT_EQ(t[0].shape(), Shape({9, 2}));
    EXPECT_EQ(Floats(t[0]), (std::vector<float>{0, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5,
                                                6, 2, 2, 3, 4, 5, 12}));
    EXPECT_EQ(t[1].shape(), Shape({1, 2}));
    EXPECT_EQ(Floats(t[1]), rows[r]);
    EXPECT_EQ(Floats(t[2]), (std::vector<float>{1, 2, 3, 4, 5, 6}));
    EXPECT_EQ(Floats(t[3]), (std::vector<float>{2, 2, 3, 4, 5, 12}));
    EXPECT_EQ(Floats(t[4]), (std::vector<float>{1, 2, 3, 4, 5, 6}));
  }
}

// A step that uses a group once with one size, then with another: what does not
// fit the group that was formed must not run in it.
TEST(CollectivesTest, AStepUsesAGroupWithOneSize) {
  Graph graph;
  const WithGraph use(graph);
  std::vector<Output> out;
  for (int r = 0; r < 3; ++r) {
    const Output sum = ReduceNode(OnesOf(1'000), {.rank = r, .size = 3});
    out.push_back(Build("CollectiveGather", {sum},
                        AttrsOf({.rank = r % 2, .size = 2, .instance = 2 + r},
                                /*merges=*/false)));
  }
  Session session(graph);
  RunOptions options;
  options.timeout_ms = kHangMs;
  for (int step = 0; step < 2; ++step) {
    const Status s = session.Run({}, out, {}, options).status();
    EXPECT_EQ(s.code(), StatusCode::kInvalidArgument) << s;
    EXPECT_THAT(std::string(s.message()),
                HasSubstr("expected one of its 3 members, got '"));
  }
}

TEST(CollectivesTest, AStepUsesAGroupWithItsMembers) {
  Graph graph;
  const WithGraph use(graph);
  std::vector<Output> out;
  for (int r = 0; r < 2; ++r) {
    const Output sum = ReduceNode(OnesOf(4), {.rank = r});
    out.push_back(sum);
    if (r == 0) out.push_back(ReduceNode(sum, {.rank = -1, .instance = 2}));
  }
  Session session(graph);
  RunOptions options;
  options.timeout_ms = kHangMs;
  const Status s = session.Run({}, out, {}, options).status();
  EXPECT_EQ(s.code(), StatusCode::kInvalidArgument) << s;
  EXPECT_THAT(std::string(s.message()),
              HasSubstr("expected one of its 2 members, got '"));
}

TEST(CollectivesTest, MembersOfOneGraphNeedNoInstances) {
  Graph graph;
  const WithGraph use(graph);
  std::vector<Output> out;
  for (int r = 0; r < 2; ++r) {
    const CollectiveOptions member = {.group = {.size = 2, .rank = r}};
    const Output sum = AllReduce(OnesOf(3) * static_cast<float>(r + 1),
                                 Reduction::kSum, member);
    out.push_back(AllGather(sum, member));
  }
  Session session(graph);
  RunOptions options;
  options.timeout_ms = kHangMs;
  const auto got = session.Run({}, out, {}, options);
  ASSERT_TRUE(got.ok()) << got.status();
  for (const Tensor& t : *got) EXPECT_EQ(Floats(t), std::vector<float>(6, 3));
}

TEST(CollectivesTest, TowersOfOneSessionTrain) {
  Graph graph;
  const WithGraph use(graph);
  GradientDescentOptimizer sgd(1);
  std::vector<Node*> steps;
  std::vector<Output> values;
  for (int r = 0; r < 2; ++r) {
    Var a(OnesOf(3), absl::StrCat("a", r)), b(OnesOf(2), absl::StrCat("b", r));
    AllReduceOptimizer mean(sgd, {.group = {.size = 2, .rank = r}});
    const Output loss = ops::Sum(a, {0}) * (1.0f + static_cast<float>(r)) +
                        ops::Sum(b, {0}) * 4.0f;
    steps.push_back(mean.Minimize(loss, {.variables = {a, b}}));
    values.push_back(a);
    values.push_back(b);
  }
  Session session(graph);
  ASSERT_TRUE(session.RunTargets({GlobalVariablesInitializer()}).ok());
  RunOptions options;
  options.timeout_ms = kHangMs;
  const auto ran = session.Run({}, {}, steps, options);
  ASSERT_TRUE(ran.ok()) << ran.status();
  const auto got = session.Run(values);
  ASSERT_TRUE(got.ok()) << got.status();
  for (size_t i = 0; i < 4; i += 2) {
    EXPECT_EQ(Floats((*got)[i]), std::vector<float>(3, -0.5));
    EXPECT_EQ(Floats((*got)[i + 1]), std::vector<float>(2, -3));
  }
}

TEST(CollectivesTest, ResetKeepsGroups) {
  Graph graphs[2];
  SessionOptions options;
  options.resources = std::make_shared<ResourceManager>();
  std::vector<Output> sums;
  std::vector<std::unique_ptr<Session>> sessions;
  for (int r = 0; r < 2; ++r) {
    const WithGraph use(graphs[r]);
    sums.push_back(ReduceNode(OnesOf(2), {.rank = r}));
    sessions.push_back(std::make_unique<Session>(graphs[r], options));
  }
  const std::vector<std::string> cleared[] = {{}, {"_collectives"}};
  for (const auto& containers : cleared) {
    // The first waits in the hub while it would be dropped.
    auto first = std::async(std::launch::async, [&] {
      RunOptions o;
      o.timeout_ms = kHangMs;
      return sessions[0]->Run({}, {sums[0]}, {}, o).status();
    });
    const auto hub = [&] {
      return options.resources->LookupOrCreate<collectives::Hub>(
          collectives::Hub::kContainer, collectives::Hub::kName,
          [] { return std::make_shared<collectives::Hub>(nullptr); });
    };
    while ((*hub())->num_waiting() == 0) std::this_thread::yield();
    ASSERT_TRUE(sessions[1]->Reset(containers).ok());
    RunOptions o;
    o.timeout_ms = kHangMs;
    const auto got = sessions[1]->Run({}, {sums[1]}, {}, o);
    EXPECT_TRUE(got.ok()) << got.status();
    EXPECT_TRUE(first.get().ok());
  }
}

TEST(CollectivesTest, AGroupOfOneIsItsInput) {
  Graph graph;
  const WithGraph use(graph);
  const Output y = ReduceNode(Constant(Tensor::Vector<float>({1, 2})),
                              {.size = 1, .final = "Div"});
  Session session(graph);
  const auto got = session.Run(y);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(Floats(*got), (std::vector<float>{1, 2}));
}

// The steps of several sessions in one process.
class Sessions {
 public:
  // `build(rank)` returns what member `rank` fetches.
  Sessions(int members, const std::function<Output(int)>& build)
      : graphs_(static_cast<size_t>(members)) {
    options_.resources = std::make_shared<ResourceManager>();
    for (int r = 0; r < members; ++r) {
      Graph& g = graphs_[static_cast<size_t>(r)];
      const WithGraph use(g);
      fetches_.push_back(build(r));
      sessions_.push_back(std::make_unique<Session>(g, options_));
    }
  }
  Result<std::vector<Tensor>> Run(int rank, const RunOptions& options = {}) {
    const auto r = static_cast<size_t>(rank);
    return sessions_[r]->Run({}, {fetches_[r]}, {}, options);
  }
  // All at once.
  std::vector<Result<std::vector<Tensor>>> RunAll() {
    std::vector<std::future<Result<std::vector<Tensor>>>> runs;
    for (int r = 0; r < static_cast<int>(sessions_.size()); ++r)
      runs.push_back(
          std::async(std::launch::async, [this, r] { return Run(r); }));
    std::vector<Result<std::vector<Tensor>>> results;
    for (auto& f : runs) results.push_back(f.get());
    return results;
  }

 private:
  SessionOptions options_;
  std::vector<Graph> graphs_;
  std::vector<Output> fetches_;
  std::vector<std::unique_ptr<Session>> sessions_;
};

TEST(CollectivesTest, StepsOfSeveralSessionsMeet) {
  Sessions sessions(4, [](int r) {
    return ReduceNode(OnesOf(100'000), {.rank = r, .size = 4});
  });
  for (int step = 0; step < 20; ++step)
    for (const auto& got : sessions.RunAll()) {
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_EQ(Floats((*got)[0]), std::vector<float>(100'000, 4));
    }
}

TEST(CollectivesTest, MembersThatDoNotAgreeGetAnError) {
  struct Bad {
    const char* expected;
    std::function<Output(int)> build;
  };
  const Bad cases[] = {
      {"expected the same of all members, got Add of float[",
       [](int r) { return ReduceNode(OnesOf(3 + r), {.rank = r}); }},
      {"of double[2]",
       [](int r) {
         return ReduceNode(
             r == 0 ? OnesOf(2)
                    : Output(Constant(Tensor::Vector<double>({1, 2}))),
             {.rank = r});
       }},
      {"Min of float[2] by 2",
       [](int r) {
         return ReduceNode(OnesOf(2),
                           {.rank = r, .merge = r == 0 ? "Add" : "Min"});
       }},
      {"members that agree on its size, got ",
       [](int r) {
         return ReduceNode(OnesOf(2), {.rank = r, .size = r == 0 ? 2 : 3});
       }},
      {"expected a rank of all members or of none",
       [](int r) { return ReduceNode(OnesOf(2), {.rank = r - 1}); }},
      {"expected one member that sends, got none",
       [](int r) {
         AttrMap attrs = AttrsOf({.rank = r}, false);
         attrs["T"] = DType::kFloat;
         attrs["shape"] = PartialShape({2});
         return Build("CollectiveBcastRecv", {}, attrs);
       }},
      {"expected one member that sends, got '",
       [](int r) {
         AttrMap attrs = AttrsOf({.rank = r}, false);
         attrs["shape"] = PartialShape({2});
         return Build("CollectiveBcastSend", {OnesOf(2)}, attrs);
       }},
  };
  for (const Bad& bad : cases) {
    SCOPED_TRACE(bad.expected);
    Sessions sessions(2, bad.build);
    for (int step = 0; step < 2; ++step)
      for (const auto& got : sessions.RunAll()) {
        ASSERT_FALSE(got.ok());
        EXPECT_EQ(got.status().code(), StatusCode::kInvalidArgument)
            << got.status();
        EXPECT_THAT(std::string(got.status().message()),
                    HasSubstr(bad.expected));
      }
  }
}

TEST(CollectivesTest, AMemberDoesOneAtATime) {
  Sessions sessions(2, [](int r) -> Output {
    const Output a = ReduceNode(OnesOf(2), {.rank = r});
    return r == 1 ? a : a + ReduceNode(OnesOf(2), {.rank = r});
  });
  auto first = std::async(std::launch::async, [&] { return sessions.Run(0); });
  // (Both of its nodes wait before the group is formed.)
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  for (const Status& s : {sessions.Run(1).status(), first.get().status()}) {
    EXPECT_EQ(s.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(s.message()), HasSubstr("once at a time"));
  }
}

TEST(CollectivesTest, ACancelledMemberEndsTheCallsOfAll) {
  Sessions sessions(
      3, [](int r) { return ReduceNode(OnesOf(10), {.rank = r, .size = 3}); });
  for (int round = 0; round < 3; ++round) {
    // Two wait for the third: in the first round to form the group.
    Cancellation stop;
    RunOptions options;
    options.cancellation = &stop;
    auto first = std::async(std::launch::async,
                            [&] { return sessions.Run(0, options); });
    auto second =
        std::async(std::launch::async, [&] { return sessions.Run(1); });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    stop.Cancel();
    EXPECT_EQ(first.get().status().code(), StatusCode::kCancelled);
    const auto other = second.get();
    EXPECT_EQ(other.status().code(), StatusCode::kAborted) << other.status();
    EXPECT_THAT(other.status().message(),
                HasSubstr("one of this process that failed or was cancelled"));
    // The third hears of it too, if there was a group.
    if (round > 0) {
      EXPECT_EQ(sessions.Run(2).status().code(), StatusCode::kAborted);
    }
    // Formed anew.
    for (int step = 0; step < 2; ++step)
      for (const auto& got : sessions.RunAll())
        EXPECT_TRUE(got.ok()) << got.status();
  }
}

TEST(CollectivesTest, AFailedStepEndsTheCallsThatFollow) {
  // Member 1 fails between its two collectives, once.
  Graph graphs[2];
  std::vector<Output> fetches;
  SessionOptions options;
  options.resources = std::make_shared<ResourceManager>();
  Output bad;
  std::vector<std::unique_ptr<Session>> sessions;
  for (int r = 0; r < 2; ++r) {
    const WithGraph use(graphs[r]);
    Output x = ReduceNode(OnesOf(4), {.rank = r, .instance = 1});
    if (r == 1) {
      bad = Placeholder<int32_t>({}, "bad");
      const Output check = ops::GatherV2(OnesOf(1), bad, Constant(int32_t{0}));
      const ControlDependencies after({x.node});
      x = x + ops::GatherV2(ops::Identity(x), bad, Constant(int32_t{0})) - 2.0f;
      (void)check;
    }
    fetches.push_back(ReduceNode(x, {.rank = r, .instance = 2}));
    sessions.push_back(std::make_unique<Session>(graphs[r], options));
  }
  for (int round = 0; round < 3; ++round) {
    auto other = std::async(std::launch::async,
                            [&] { return sessions[0]->Run(fetches[0]); });
    const auto own =
        sessions[1]->Run({{bad, Tensor::Scalar<int32_t>(99)}}, fetches[1]);
    EXPECT_THAT(own.status().message(), HasSubstr("99"));
    const auto got = other.get();
    EXPECT_EQ(got.status().code(), StatusCode::kAborted) << got.status();
    other = std::async(std::launch::async,
                       [&] { return sessions[0]->Run(fetches[0]); });
    const auto mine =
        sessions[1]->Run({{bad, Tensor::Scalar<int32_t>(0)}}, fetches[1]);
    ASSERT_TRUE(mine.ok()) << mine.status();
    ASSERT_TRUE(other.get().ok());
    EXPECT_EQ(Floats(*mine), (std::vector<float>{4, 4, 4, 4}));
  }
}

// The gradients of sum_m f(all outputs of all members), by differences.
TEST(CollectivesTest, GradientsAreThoseByDifferences) {
  std::mt19937 rng(17);
  for (const char* op :
       {"CollectiveReduce", "CollectiveGather", "CollectiveReduceScatter"})
    for (const char* final : {"Id", "Div"}) {
      if (std::string(op) == "CollectiveGather" && std::string(final) == "Div")
        continue;
      SCOPED_TRACE(absl::StrCat(op, " ", final));
      constexpr int kMembers = 3;
      Graph graph;
      const WithGraph use(graph);
      std::vector<Output> xs;
      Output loss;
      for (int r = 0; r < kMembers; ++r) {
        xs.push_back(Placeholder<double>({3, 2}));
        AttrMap attrs = AttrsOf({.rank = r, .size = kMembers, .final = final},
                                std::string(op) != "CollectiveGather");
        const Output y = Build(op, {xs.back()}, attrs);
        const Output part =
            ops::Sum(ops::Square(y) * static_cast<double>(r + 1), {0, 1});
        loss = r == 0 ? part : loss + part;
      }
      const std::vector<Output> grads =
          Grad({loss}, std::vector<GradTarget>(xs.begin(), xs.end()));
      Session session(graph);
      std::vector<Tensor> values;
      for (int r = 0; r < kMembers; ++r) {
        Tensor t(DType::kDouble, {3, 2});
        for (double& v : t.flat<double>())
          v = std::uniform_real_distribution<double>(-1, 1)(rng);
        values.push_back(t);
      }
      const auto feeds = [&] {
        Feeds f;
        for (size_t r = 0; r < xs.size(); ++r) f.push_back({xs[r], values[r]});
        return f;
      };
      const auto got = session.Run(feeds(), grads);
      ASSERT_TRUE(got.ok()) << got.status();
      const auto loss_at = [&](size_t r, int64_t i, double by) {
        const Tensor kept = values[r];
        values[r] = *kept.Clone();
        values[r].flat<double>()[static_cast<size_t>(i)] += by;
        const auto l = session.Run(feeds(), loss);
        values[r] = kept;
        return l.ok() ? l->scalar<double>() : std::nan("");
      };
      for (size_t r = 0; r < xs.size(); ++r)
        for (int64_t i = 0; i < 6; ++i) {
          const double h = 1e-4;
          const double want = (loss_at(r, i, h) - loss_at(r, i, -h)) / (2 * h);
          EXPECT_NEAR((*got)[r].flat<double>()[static_cast<size_t>(i)], want,
                      1e-6);
        }
    }
}

// Other tasks, which the test plays: keeps what they are told.
class PlayedNetwork final : public collectives::Network {
 public:
  std::string task() const override { return "here"; }
  // (Peers 1 and 11 are connections to one task.)
  uint64_t IncarnationOf(collectives::Peer peer) const override {
    return peer % 10 + 100;
  }
  Status WhyLost(collectives::Peer peer) const override {
    return peer == lost ? Unavailable("task ", peer, " is gone") : OkStatus();
  }
  uint64_t SessionOf(int64_t) const override { return session; }
  void SendNote(collectives::Peer to, const collectives::Note& note) override {
    std::lock_guard<std::mutex> lock(mu_);
    notes_.push_back(note);
    to_.push_back(to);
  }
  Status SendTokens(collectives::Peer, uint64_t,
                    std::span<TokenMessage>) override {
    return OkStatus();
  }
  std::vector<collectives::Note> notes() const {
    std::lock_guard<std::mutex> lock(mu_);
    return notes_;
  }
  int count(collectives::Note::Kind kind) const {
    return static_cast<int>(receivers(kind).size());
  }
  // Of the notes of this kind, in order.
  std::vector<collectives::Peer> receivers(collectives::Note::Kind kind) const {
    std::lock_guard<std::mutex> lock(mu_);
    std::vector<collectives::Peer> all;
    for (size_t i = 0; i < notes_.size(); ++i)
      if (notes_[i].kind == kind) all.push_back(to_[i]);
    return all;
  }

  std::atomic<collectives::Peer> lost{0};
  std::atomic<uint64_t> session{0};  // That of the steps that begin.

 private:
  mutable std::mutex mu_;
  std::vector<collectives::Note> notes_;  // GUARDED_BY(mu_)
  std::vector<collectives::Peer> to_;     // GUARDED_BY(mu_): the same order.
};

// A member in a task among others; its step waits until it is stopped.
class MemberAmongOthers {
 public:
  explicit MemberAmongOthers(const Member& m)
      : network_(new PlayedNetwork),
        hub_(std::make_shared<collectives::Hub>(
            std::unique_ptr<collectives::Network>(network_))) {
    const WithGraph use(graph_);
    sum_ = ReduceNode(OnesOf(4), m);
    options_.resources = std::make_shared<ResourceManager>();
    EXPECT_TRUE(options_.resources
                    ->Create(collectives::Hub::kContainer,
                             collectives::Hub::kName, hub_)
                    .ok());
    session_ = std::make_unique<Session>(graph_, options_);
  }
  // Returns when it waits, or has ended.
  void Start() {
    run_ = std::async(std::launch::async, [this] {
      RunOptions o;
      o.cancellation = &stop_;
      o.timeout_ms = kHangMs;
      return session_->Run({}, {sum_}, {}, o).status();
    });
    const auto ended = [this] {
      return run_.wait_for(std::chrono::milliseconds(1)) ==
             std::future_status::ready;
    };
    for (int i = 0; i < kHangMs && hub_->num_waiting() == 0 && !ended(); ++i) {
    }
  }
  Status Stop() {
    stop_.Cancel();
    return run_.get();
  }
  // Of a step that ends by itself.
  Status End() { return run_.get(); }
  void Hear(collectives::Peer from, const std::string& name, int64_t size,
            int64_t rank, uint64_t nonce) {
    collectives::Note join;
    join.group = 1;
    join.member = name;
    join.size = size;
    join.rank = rank;
    join.nonce = nonce;
    hub_->OnNote(from, join);
  }
  // The name of its member, which it announces. REQUIRES: it has started.
  std::string Name() {
    const collectives::Peer peers[] = {1};
    hub_->OpenSession(1, peers);
    const auto notes = network_->notes();
    return notes.empty() ? "" : notes.back().member;
  }
  PlayedNetwork& network() { return *network_; }
  collectives::Hub& hub() { return *hub_; }
  // The step's status, if it ends because a task is lost; else "waits".
  std::string HowItEnds() {
    if (hub_->num_waiting() > 0) return "waits";
    return std::string(End().message());
  }
  // The transport marks the peer as lost, then says so.
  void MarkLost(collectives::Peer peer) { network_->lost = peer; }
  void TellLost(collectives::Peer peer) {
    hub_->OnPeerLost(peer, network_->WhyLost(peer));
  }

 private:
  PlayedNetwork* const network_;  // The hub's.
  const std::shared_ptr<collectives::Hub> hub_;
  SessionOptions options_;
  Graph graph_;
  Output sum_;
  std::unique_ptr<Session> session_;
  Cancellation stop_;
  std::future<Status> run_;
};

using NoteKind = collectives::Note::Kind;

TEST(CollectivesTest, ATaskOutsideAGroupDoesNotEndIt) {
  MemberAmongOthers here({.rank = 2, .size = 3});
  // Formed by others, who may be running it.
  here.Hear(1, "a", 2, 0, 11);
  here.Hear(2, "b", 2, 1, 12);
  here.Start();
  EXPECT_EQ(here.network().count(NoteKind::kAbort), 0);
  EXPECT_EQ(here.Stop().code(), StatusCode::kCancelled);
  for (const auto& note : here.network().notes())
    for (const uint64_t nonce : note.nonces) EXPECT_GT(nonce, 12u);
}

TEST(CollectivesTest, MembersThatDisagreeEndOnlyTheirOwnAttempt) {
  MemberAmongOthers here({.rank = 2, .size = 3});
  here.Start();
  here.Hear(1, "a", 2, 0, 11);
  const Status s = here.End();
  EXPECT_THAT(std::string(s.message()), HasSubstr("agree on its size, got 3"));
  EXPECT_EQ(here.network().count(NoteKind::kAbort), 1);
  for (const auto& note : here.network().notes())
    for (const uint64_t nonce : note.nonces) EXPECT_NE(nonce, 11u);
}

TEST(CollectivesTest, AJoinOfALostTaskIsDropped) {
  MemberAmongOthers here({.rank = 0, .size = 2});
  here.network().lost = 1;
  here.Hear(1, "a", 2, 1, 11);
  here.Start();
  EXPECT_EQ(here.network().count(NoteKind::kCall), 0);
  here.Hear(2, "a", 2, 1, 12);
  EXPECT_EQ(here.network().count(NoteKind::kCall), 1);
  EXPECT_EQ(here.Stop().code(), StatusCode::kCancelled);
}

using Peers = std::vector<collectives::Peer>;

// It was opened with the next incarnation of the task.
TEST(CollectivesTest, ALossDoesNotConcernASessionWithoutTheTask) {
  MemberAmongOthers here({.rank = 0, .size = 2});
  here.hub().OpenSession(1, Peers{1});
  here.hub().OpenSession(2, Peers{2});
  here.network().session = 2;
  here.Start();
  here.MarkLost(1);
  here.TellLost(1);
  ASSERT_EQ(here.HowItEnds(), "waits");
  EXPECT_EQ(here.network().count(NoteKind::kAbort), 0);
  here.Hear(2, "a", 2, 1, 12);
  EXPECT_EQ(here.network().count(NoteKind::kCall), 1);
  EXPECT_EQ(here.Stop().code(), StatusCode::kCancelled);
}

// The others of its group may be waiting too, in sessions of their own: whether
// the loss concerns them, their tasks know.
TEST(CollectivesTest, ALossEndsTheWaitsOfSessionsWithTheTaskAndNoOthers) {
  MemberAmongOthers here({.rank = 0, .size = 3});
  here.hub().OpenSession(1, Peers{1, 2});
  here.network().session = 1;
  here.Start();
  here.Hear(2, "b", 3, 1, 12);
  here.MarkLost(1);
  here.TellLost(1);
  EXPECT_THAT(here.HowItEnds(), HasSubstr("lost a task: task 1 is gone"));
  for (const auto& note : here.network().notes())
    for (const uint64_t nonce : note.nonces) EXPECT_NE(nonce, 12u);
  // Its next step waits for the task's next incarnation.
  here.Start();
  ASSERT_EQ(here.HowItEnds(), "waits");
  here.Hear(3, "a", 3, 2, 13);
  EXPECT_EQ(here.network().count(NoteKind::kCall), 2);
  EXPECT_EQ(here.Stop().code(), StatusCode::kCancelled);
}

// A step that begins to wait after the loss was told would not be told again.
TEST(CollectivesTest, ALossBeforeACallIsReportedByTheCallOnce) {
  enum { kTold, kMarked, kBeforeTheSession };
  for (const int how : {kTold, kMarked, kBeforeTheSession}) {
    SCOPED_TRACE(how);
    MemberAmongOthers here({.rank = 0, .size = 2});
    here.network().session = 1;
    if (how != kBeforeTheSession) here.hub().OpenSession(1, Peers{1});
    here.MarkLost(1);
    if (how == kTold) here.TellLost(1);
    if (how == kBeforeTheSession) here.hub().OpenSession(1, Peers{1});
    here.Start();
    ASSERT_THAT(here.HowItEnds(), HasSubstr("lost a task: task 1 is gone"));
    here.Start();
    if (how == kMarked) here.TellLost(1);
    ASSERT_EQ(here.HowItEnds(), "waits");
    here.Hear(2, "a", 2, 1, 12);
    EXPECT_EQ(here.network().count(NoteKind::kCall), 1);
    EXPECT_EQ(here.Stop().code(), StatusCode::kCancelled);
  }
}

// Of the losses of a group's tasks, each is reported, also when the group was
// ended by another task that noticed it first.
TEST(CollectivesTest, ALossThatAnotherTaskHasToldIsNotReportedAgain) {
  MemberAmongOthers here({.rank = 0, .size = 3});
  here.hub().OpenSession(1, Peers{1, 2});
  here.network().session = 1;
  here.Start();
  here.Hear(1, "a", 3, 1, 11);
  here.Hear(2, "b", 3, 2, 12);
  ASSERT_EQ(here.network().count(NoteKind::kCall), 2);
  collectives::Note over;
  over.kind = NoteKind::kAbort;
  over.group = 1;
  over.nonces = {11};
  over.why = Unavailable("task 1 is gone");
  over.lost = here.network().IncarnationOf(1);
  here.hub().OnNote(2, over);
  EXPECT_THAT(here.HowItEnds(), HasSubstr("task 1 is gone"));
  here.MarkLost(1);
  here.TellLost(1);
  here.Start();
  ASSERT_EQ(here.HowItEnds(), "waits");
  here.MarkLost(2);
  here.TellLost(2);
  EXPECT_THAT(here.HowItEnds(), HasSubstr("lost a task: task 2 is gone"));
}

TEST(CollectivesTest, AGroupIsNotFormedWithATaskThatIsMarkedAsLost) {
  MemberAmongOthers here({.rank = 0, .size = 3});
  here.hub().OpenSession(1, Peers{2, 3});
  here.network().session = 1;
  here.Start();
  here.Hear(1, "a", 3, 1, 11);
  here.MarkLost(1);
  here.Hear(2, "b", 3, 2, 12);
  EXPECT_EQ(here.network().count(NoteKind::kCall), 0);
  here.Hear(3, "a", 3, 1, 13);
  EXPECT_EQ(here.network().receivers(NoteKind::kCall), (Peers{3, 2}));
  here.TellLost(1);
  ASSERT_EQ(here.HowItEnds(), "waits");
  EXPECT_EQ(here.Stop().code(), StatusCode::kCancelled);
}

// Its join, which it announces once over each, would not come again.
TEST(CollectivesTest, ATaskThatLosesOneOfTwoConnectionsKeepsItsPlace) {
  MemberAmongOthers here({.rank = 0, .size = 3});
  here.hub().OpenSession(1, Peers{11, 2});
  here.network().session = 1;
  here.Start();
  here.Hear(1, "a", 3, 1, 11);
  here.MarkLost(1);
  here.TellLost(1);
  ASSERT_EQ(here.HowItEnds(), "waits");
  here.Hear(2, "b", 3, 2, 12);
  EXPECT_EQ(here.network().receivers(NoteKind::kCall), (Peers{11, 2}));
  EXPECT_EQ(here.Stop().code(), StatusCode::kCancelled);
}

TEST(CollectivesTest, APeerCannotBeAMemberOfThisTask) {
  MemberAmongOthers here({.rank = 0, .size = 2});
  here.Start();
  here.Hear(1, here.Name(), 3, 1, 11);
  here.Hear(2, "a", 2, 1, 12);
  EXPECT_EQ(here.network().count(NoteKind::kCall), 1);
  EXPECT_EQ(here.Stop().code(), StatusCode::kCancelled);
}

TEST(CollectivesTest, BadAttributesAreErrors) {
  const auto error = [](const Member& m) {
    Graph graph;
    const WithGraph use(graph);
    const Output y = ReduceNode(OnesOf(2), m);
    Session session(graph);
    return std::string(session.Run(y).status().message());
  };
  EXPECT_THAT(error({.size = 0}), HasSubstr("expected 1 to 65536 members"));
  EXPECT_THAT(error({.instance = -1}), HasSubstr("instance_key: expected 0"));
  EXPECT_THAT(error({.rank = 2}), HasSubstr("rank: expected 0 to 1"));
  Graph graph;
  const WithGraph use(graph);
  const Output y = ReduceNode(OnesOf(2), {.merge = "Mul"});
  EXPECT_EQ(Grad(ops::Sum(y, {0}), y.node->input(0)).node, nullptr);
  EXPECT_THAT(std::string(graph.status().message()),
              HasSubstr("expected merge_op Add, got Mul"));
  Graph uneven;
  const WithGraph too(uneven);
  const Output part =
      Build("CollectiveReduceScatter", {OnesOf(3)}, AttrsOf({}));
  EXPECT_EQ(Grad(ops::Sum(part, {0}), part.node->input(0)).node, nullptr);
  EXPECT_THAT(std::string(uneven.status().message()),
              HasSubstr("expected a multiple of 2 rows, got 3"));
}

}  // namespace
}  // namespace sluice
