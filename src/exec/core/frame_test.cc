// The evaluation rules, one token at a time: no kernels, no threads.
#include "exec/core/frame.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "graph/builder.h"
#include "graph/graph.h"

namespace sluice {
namespace {

// A graph of primitives, and a step over it that the test drives manually.
// Helpers: Arg/Op/... build; Fire(name) takes the named node from the ready
// list and runs it.
class FrameTest : public ::testing::Test {
 protected:
  FrameTest() : graph_(std::make_shared<Graph>()), use_(*graph_) {}

  Output Arg(int index, DType t = DType::kFloat) {
    Output& o = args_[index];
    if (!o.valid())
      o = Build("_Arg", {}, {{"T", t}, {"index", index}},
                absl::StrCat("arg", index));
    return o;
  }
  void Retval(Output o, int index) {
    BuildNode("_Retval", {o}, {{"index", index}}, absl::StrCat("ret", index));
  }
  Output Add(Output a, Output b, const std::string& name) {
    return Build("AddV2", {a, b}, {}, name);
  }
  Output Enter(Output o, const std::string& frame, const std::string& name,
               bool constant = false, int parallel = 10) {
    return Build("Enter", {o},
                 {{"frame_name", frame},
                  {"is_constant", constant},
                  {"parallel_iterations", parallel}},
                 name);
  }
  Output OpenMerge(Output first, const std::string& name) {
    NodeSpec s;
    s.op = "Merge";
    s.name = name;
    s.inputs = {first, Output()};
    s.pending_input_types = {first.dtype(), first.dtype()};
    Result<Node*> n = graph_->AddNode(std::move(s));
    EXPECT_TRUE(n.ok()) << n.status();
    return Output(*n);
  }
  Node* Switch(Output data, Output pred, const std::string& name) {
    return BuildNode("Switch", {data, pred}, {}, name);
  }

  // while (p(i)) i = add(i, i): nodes e, m, p, sw, add, n, x, whose predicate
  // and sum the test computes itself.
  Output Loop(Output init, int parallel = 10) {
    Output e = Enter(init, "loop", "e", false, parallel);
    Output m = OpenMerge(e, "m");
    Output p = Build("Less", {m, m}, {}, "p");
    Node* sw = Switch(m, Build("LoopCond", {p}, {}, "c"), "sw");
    Output add = Add(Output(sw, 1), Output(sw, 1), "add");
    Output n = Build("NextIteration", {add}, {}, "n");
    EXPECT_TRUE(graph_->SetBackEdge(m.node, 1, n).ok());
    return Build("Exit", {Output(sw, 0)}, {}, "x");
  }

  void Start() {
    ASSERT_TRUE(graph_->status().ok()) << graph_->status();
    Result<std::shared_ptr<const Plan>> plan =
        Plan::Build(graph_, [](const Node&, std::shared_ptr<Kernel>* k) {
          *k = std::make_shared<Kernel>();
          return OkStatus();
        });
    ASSERT_TRUE(plan.ok()) << plan.status();
    plan_ = *plan;
    tokens_ = std::make_unique<Tokens>(*plan_);
    tokens_->Start();
  }
  Status BuildError() {
    return Plan::Build(graph_,
                       [](const Node&, std::shared_ptr<Kernel>* k) {
                         *k = std::make_shared<Kernel>();
                         return OkStatus();
                       })
        .status();
  }

  // "name" or "name@iteration", oldest first: what is ready.
  std::vector<std::string> ReadyNames() {
    std::vector<std::string> out;
    for (size_t i = 0; i < tokens_->ready().size(); ++i) {
      const Ready& r = tokens_->ready()[i];
      std::string s = r.node->node->name();
      if (r.iteration->frame->plan->parent >= 0)
        absl::StrAppend(&s, "@", r.iteration->index);
      if (Tokens::IsDead(r)) s += " dead";
      out.push_back(s);
    }
    std::sort(out.begin(), out.end());
    return out;
  }
  // Runs the ready node of that name; compute nodes return `value`.
  Status Fire(const std::string& name, Tensor value = Tensor::Scalar(1.f),
              int64_t iteration = -1) {
    ReadyList& ready = tokens_->ready();
    for (size_t i = 0; i < ready.size(); ++i) {
      if (ready[i].node->node->name() != name) continue;
      if (iteration >= 0 && ready[i].iteration->index != iteration) continue;
      const Ready r = ready[i];
      std::swap(ready[i], ready.back());
      ready.pop_back();
      if (r.node->role == OpRole::kRetval) {
        if (Tokens::IsDead(r)) {
          dead_.insert(name);
        } else {
          got_[name] = tokens_->Input(r, 0);
        }
        tokens_->Complete(r);
        return OkStatus();
      }
      if (r.node->role != OpRole::kCompute) return tokens_->Move(r, nullptr);
      if (Tokens::IsDead(r)) {
        tokens_->CompleteDead(r);
      } else {
        Tokens::OutputSlots(r)[0] = std::move(value);
        tokens_->Complete(r);
      }
      return OkStatus();
    }
    return NotFound(name, " is not ready");
  }
  void FireAll(std::initializer_list<const char*> names) {
    for (const char* n : names) {
      Status s = Fire(n);
      ASSERT_TRUE(s.ok()) << s;
    }
  }
  // One iteration of Loop from m on, with this value of the predicate.
  void Iterate(bool go_on) {
    FireAll({"m"});
    ASSERT_TRUE(Fire("p", Tensor::Scalar(go_on)).ok());
    FireAll({"sw"});
    if (go_on) FireAll({"add", "n"});
  }

  using Names = std::vector<std::string>;
  std::shared_ptr<Graph> graph_;
  WithGraph use_;
  std::map<int, Output> args_;
  std::shared_ptr<const Plan> plan_;
  std::unique_ptr<Tokens> tokens_;
  std::map<std::string, Tensor> got_;
  std::set<std::string> dead_;
};

TEST_F(FrameTest, NodeIsReadyWhenAllTokensHaveArrived) {
  Retval(Add(Arg(0), Arg(1), "add"), 0);
  Start();
  tokens_->Feed(0, Tensor::Scalar(1.f));
  EXPECT_EQ(ReadyNames(), Names{});
  tokens_->Feed(1, Tensor::Scalar(2.f));
  EXPECT_EQ(ReadyNames(), Names{"add"});
  FireAll({"add", "ret0"});
  EXPECT_EQ(got_["ret0"].scalar<float>(), 1.f);
}

TEST_F(FrameTest, ControlEdgeDelaysANode) {
  Output a = Add(Arg(0), Arg(0), "a"), other = Arg(1);
  {
    ControlDependencies after({a.node});
    Retval(Add(other, other, "b"), 0);
  }
  Start();
  tokens_->Feed(1, Tensor::Scalar(1.f));
  tokens_->Feed(0, Tensor::Scalar(1.f));
  EXPECT_EQ(ReadyNames(), Names{"a"});
  FireAll({"a"});
  EXPECT_EQ(ReadyNames(), Names{"b"});
}

TEST_F(FrameTest, SwitchSendsALiveAndADeadToken) {
  Node* sw = Switch(Arg(0), Arg(1, DType::kBool), "sw");
  Output f = Add(Output(sw, 0), Output(sw, 0), "f");
  Output t = Add(Output(sw, 1), Output(sw, 1), "t");
  Output m = Build("Merge", {f, t}, {}, "m");
  Retval(m, 0);
  Retval(Output(m.node, 1), 1);
  Start();
  tokens_->Feed(0, Tensor::Scalar(5.f));
  tokens_->Feed(1, Tensor::Scalar(true));
  FireAll({"sw"});
  EXPECT_EQ(ReadyNames(), (Names{"f dead", "t"}));
  FireAll({"f"});
  EXPECT_EQ(ReadyNames(), Names{"t"});
  FireAll({"t", "m", "ret0", "ret1"});
  EXPECT_EQ(got_["ret1"].scalar<int32_t>(), 1);
}

TEST_F(FrameTest, MergeOfDeadInputsIsDead) {
  Node* sw = Switch(Arg(0), Arg(1, DType::kBool), "sw");
  Output a = Add(Output(sw, 0), Arg(0), "a");
  Output b = Add(Output(sw, 0), Output(sw, 0), "b");
  Retval(Build("Merge", {a, b}, {}, "m"), 0);
  Start();
  tokens_->Feed(0, Tensor::Scalar(5.f));
  tokens_->Feed(1, Tensor::Scalar(true));
  FireAll({"sw", "a"});
  EXPECT_EQ(ReadyNames(), Names{"b dead"});
  FireAll({"b"});
  EXPECT_EQ(ReadyNames(), Names{"m dead"});
  FireAll({"m", "ret0"});
  EXPECT_TRUE(dead_.count("ret0"));
}

TEST_F(FrameTest, SecondLiveInputOfAMergeIsDropped) {
  Output a = Add(Arg(0), Arg(0), "a"), b = Add(Arg(0), Arg(0), "b");
  Retval(Build("Merge", {a, b}, {}, "m"), 0);
  Start();
  tokens_->Feed(0, Tensor::Scalar(1.f));
  const Tensor big(DType::kFloat, Shape({100}));
  ASSERT_TRUE(Fire("b", big).ok());
  ASSERT_TRUE(Fire("a", Tensor(DType::kFloat, Shape({7}))).ok());
  EXPECT_EQ(ReadyNames(), Names{"m"});
  FireAll({"m", "ret0"});
  EXPECT_EQ(got_["ret0"].num_elements(), 100);
}

TEST_F(FrameTest, DeadControlInputMakesANodeDead) {
  Node* sw = Switch(Arg(0), Arg(1, DType::kBool), "sw");
  Output taken = Add(Output(sw, 0), Output(sw, 0), "taken");
  {
    ControlDependencies after({taken.node});
    Retval(Add(Arg(0), Arg(0), "after"), 0);
  }
  Start();
  tokens_->Feed(0, Tensor::Scalar(1.f));
  tokens_->Feed(1, Tensor::Scalar(true));
  FireAll({"sw", "taken"});
  EXPECT_EQ(ReadyNames(), Names{"after dead"});
}

TEST_F(FrameTest, LoopRunsUntilThePredicateIsFalse) {
  Retval(Loop(Arg(0)), 0);
  Start();
  tokens_->Feed(0, Tensor::Scalar(1.f));
  FireAll({"e"});
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(ReadyNames(), Names{absl::StrCat("m@", i)});
    Iterate(true);
    if (i == 0) {
      EXPECT_EQ(ReadyNames(), (Names{"m@1", "x@0 dead"}));
    }
    FireAll({"x"});
    EXPECT_EQ(tokens_->iterations_alive(), 2) << "root and one of the loop";
  }
  Iterate(false);
  EXPECT_EQ(ReadyNames(), (Names{"add@5 dead", "x@5"}));
  FireAll({"x", "add", "n"});
  EXPECT_EQ(tokens_->frames_alive(), 1);
  FireAll({"ret0"});
  EXPECT_EQ(got_.size(), 1u);
}

TEST_F(FrameTest, DeadExitReachesTheParentOnlyWhenTheFrameEnds) {
  Node* sw = Switch(Arg(0), Arg(1, DType::kBool), "branch");
  Retval(Loop(Output(sw, 0)), 0);
  Start();
  tokens_->Feed(0, Tensor::Scalar(1.f));
  tokens_->Feed(1, Tensor::Scalar(true));
  FireAll({"branch"});
  EXPECT_EQ(ReadyNames(), Names{"e dead"});
  FireAll({"e", "m", "p", "sw"});
  EXPECT_EQ(ReadyNames(), (Names{"add@0 dead", "x@0 dead"}));
  FireAll({"x", "add"});
  EXPECT_EQ(tokens_->frames_alive(), 2);
  FireAll({"n"});
  EXPECT_EQ(tokens_->frames_alive(), 1);
  EXPECT_EQ(ReadyNames(), Names{"ret0 dead"});
}

TEST_F(FrameTest, ParallelIterationsBoundsTheIterationsThatExist) {
  Retval(Loop(Arg(0), 3), 0);
  Start();
  tokens_->Feed(0, Tensor::Scalar(1.f));
  FireAll({"e"});
  // The dead Exit of each is not fired, so none of them is done.
  for (int i = 0; i < 3; ++i) Iterate(true);
  EXPECT_EQ(ReadyNames(), (Names{"x@0 dead", "x@1 dead", "x@2 dead"}))
      << "the token for iteration 3 waits";
  EXPECT_EQ(tokens_->iterations_alive(), 4);
  // Iteration 1 is done, but not before iteration 0.
  ASSERT_TRUE(Fire("x", Tensor(), 1).ok());
  EXPECT_EQ(tokens_->iterations_alive(), 4);
  // With iteration 0 both end, which makes room for iteration 3.
  ASSERT_TRUE(Fire("x", Tensor(), 0).ok());
  EXPECT_EQ(tokens_->iterations_alive(), 3);
  EXPECT_EQ(ReadyNames(), (Names{"m@3", "x@2 dead"}));
}

TEST_F(FrameTest, LoopConstantIsReadInEveryIterationAndMayArriveLate) {
  Output e = Enter(Arg(0), "loop", "e");
  Output k = Enter(Arg(1), "loop", "k", true);
  Output m = OpenMerge(e, "m");
  Node* sw = Switch(
      m, Build("LoopCond", {Build("Less", {m, m}, {}, "p")}, {}, "c"), "sw");
  Output add = Add(Output(sw, 1), k, "add");
  ASSERT_TRUE(
      graph_->SetBackEdge(m.node, 1, Build("NextIteration", {add}, {}, "n"))
          .ok());
  Retval(Build("Exit", {Output(sw, 0)}, {}, "x"), 0);
  Start();
  tokens_->Feed(0, Tensor::Scalar(1.f));
  FireAll({"e", "m"});
  ASSERT_TRUE(Fire("p", Tensor::Scalar(true)).ok());
  FireAll({"sw"});
  EXPECT_EQ(ReadyNames(), Names{"x@0 dead"}) << "add waits for the constant";
  FireAll({"x"});
  tokens_->Feed(1, Tensor(DType::kFloat, Shape({50})));
  FireAll({"k"});
  EXPECT_EQ(ReadyNames(), Names{"add@0"});
  EXPECT_EQ(tokens_->Input(tokens_->ready()[0], 1).num_elements(), 50);
  FireAll({"add", "n", "m"});
  ASSERT_TRUE(Fire("p", Tensor::Scalar(true)).ok());
  FireAll({"sw", "x"});
  EXPECT_EQ(ReadyNames(), Names{"add@1"});
  EXPECT_EQ(tokens_->Input(tokens_->ready()[0], 1).num_elements(), 50);
}

TEST_F(FrameTest, FrameWaitsForEveryEnter) {
  Output e = Enter(Arg(0), "loop", "e");
  Output unused = Enter(Arg(1), "loop", "u");
  Retval(Build("Exit", {e}, {}, "x"), 0);
  Retval(Build("Exit", {unused}, {}, "y"), 1);
  Start();
  tokens_->Feed(0, Tensor::Scalar(1.f));
  FireAll({"e", "x", "ret0"});
  EXPECT_EQ(tokens_->frames_alive(), 2);
  tokens_->Feed(1, Tensor::Scalar(1.f));
  FireAll({"u", "y"});
  EXPECT_EQ(tokens_->frames_alive(), 1);
  EXPECT_EQ(ReadyNames(), Names{"ret1"});
}

TEST_F(FrameTest, SecondLiveExitIsAnError) {
  Output e = Enter(Arg(0), "loop", "e");
  Output m = OpenMerge(e, "m");
  ASSERT_TRUE(
      graph_->SetBackEdge(m.node, 1, Build("NextIteration", {m}, {}, "n"))
          .ok());
  Retval(Build("Exit", {m}, {}, "x"), 0);
  Start();
  tokens_->Feed(0, Tensor::Scalar(1.f));
  FireAll({"e", "m", "x", "n", "m"});
  const Status s = Fire("x");
  EXPECT_EQ(s.code(), StatusCode::kInvalidArgument) << s;
}

TEST_F(FrameTest, InputsFromDifferentFramesAreRefused) {
  Output e = Enter(Arg(0), "loop", "e");
  Retval(Build("Exit", {Add(e, Arg(1), "bad")}, {}, "x"), 0);
  const Status s = BuildError();
  EXPECT_EQ(s.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(s.message().find("node 'bad'"), std::string::npos) << s;
}

TEST_F(FrameTest, ExitOutsideAFrameIsRefused) {
  Retval(Build("Exit", {Arg(0)}, {}, "x"), 0);
  EXPECT_EQ(BuildError().code(), StatusCode::kInvalidArgument);
}

TEST_F(FrameTest, ClearDuringLoopReleasesEverything) {
  Retval(Loop(Arg(0)), 0);
  Start();
  const Tensor big(DType::kFloat, Shape({1000}));
  const int64_t live = Allocator::Cpu()->stats().live_bytes;
  for (int step = 0; step < 3; ++step) {
    tokens_->Feed(0, Tensor(DType::kFloat, Shape({1000})));
    FireAll({"e", "m"});
    ASSERT_TRUE(Fire("p", Tensor::Scalar(true)).ok());
    FireAll({"sw"});
    ASSERT_TRUE(Fire("add", Tensor(DType::kFloat, Shape({1000}))).ok());
    EXPECT_GT(Allocator::Cpu()->stats().live_bytes, live);
    tokens_->Clear();
    EXPECT_EQ(Allocator::Cpu()->stats().live_bytes, live);
    EXPECT_EQ(tokens_->frames_alive(), 0);
    tokens_->Start();
  }
}

// Steps that end at random points: frames and iterations are reused, however a
// step ended, and hold no tokens.
TEST_F(FrameTest, FramesOfAbortedStepsAreReused) {
  constexpr int kParallel = 3;
  Retval(Loop(Arg(0), kParallel), 0);
  Start();
  std::mt19937 random(11);
  const int64_t live = Allocator::Cpu()->stats().live_bytes;
  int whole = 0;
  for (int step = 0; step < 300; ++step) {
    tokens_->Feed(0, Tensor(DType::kFloat, Shape({1000})));
    ReadyList& ready = tokens_->ready();
    for (unsigned left = random() % 60; left > 0 && !ready.empty(); --left) {
      std::swap(ready[random() % ready.size()], ready.back());
      const std::string name = ready.back().node->node->name();
      ASSERT_TRUE(Fire(name, name == "p" ? Tensor::Scalar(random() % 4 != 0)
                                         : Tensor(DType::kFloat, Shape({1000})))
                      .ok());
    }
    whole += ready.empty() ? 1 : 0;
    got_.clear();
    tokens_->Clear();
    ASSERT_EQ(Allocator::Cpu()->stats().live_bytes, live) << "step " << step;
    // The root and its iteration, the loop and its.
    ASSERT_LE(tokens_->frames_and_iterations_made(), 3u + kParallel);
    tokens_->Start();
  }
  EXPECT_GT(whole, 20);
  EXPECT_LT(whole, 280);
}

TEST_F(FrameTest, BufferIsFreedByItsLastReader) {
  Output a = Add(Arg(0), Arg(0), "a");
  Output b = Add(a, Arg(1), "b"), c = Add(a, Arg(1), "c");
  Retval(Add(b, c, "d"), 0);
  Start();
  const int64_t live = Allocator::Cpu()->stats().live_bytes;
  tokens_->Feed(0, Tensor::Scalar(1.f));
  tokens_->Feed(1, Tensor::Scalar(1.f));
  ASSERT_TRUE(Fire("a", Tensor(DType::kFloat, Shape({1000}))).ok());
  FireAll({"b"});
  EXPECT_GT(Allocator::Cpu()->stats().live_bytes, live);
  FireAll({"c"});
  EXPECT_EQ(Allocator::Cpu()->stats().live_bytes, live);
}

TEST_F(FrameTest, DescribesWaitingNodes) {
  Retval(Loop(Add(Arg(0), Arg(1), "start")), 0);
  Start();
  tokens_->Feed(0, Tensor::Scalar(1.f));
  const std::string text = tokens_->DescribeWaiting(5);
  EXPECT_NE(text.find("node 'start' (AddV2)"), std::string::npos) << text;
  EXPECT_NE(text.find("waits for 1 of 2 inputs"), std::string::npos) << text;
}

// ---- Calls ------------------------------------------------------------------

// f(x) = p(x) ? f(step(x)) : x, by name: nodes start, x, p, sw, step, again, m,
// and ret of the body, whose predicate and step the test computes itself.
class CallTest : public FrameTest {
 protected:
  Output Called(const std::string& function, std::vector<Output> args,
                const std::string& name) {
    return Build(
        "_Call", std::move(args),
        {{"Tout", AttrValue::Types{DType::kFloat}}, {"function", function}},
        name);
  }
  Output Param(const std::string& function, int index,
               const std::string& name) {
    return Build(
        "_Arg", {},
        {{"T", DType::kFloat}, {"index", index}, {"function", function}}, name);
  }
  void Result(const std::string& function, Output o, const std::string& name) {
    BuildNode("_Retval", {o}, {{"index", 0}, {"function", function}}, name);
  }
  void DefineF() {
    BuildNode("_Function", {}, {{"function", "f"}}, "start");
    const Output x = Param("f", 0, "x");
    Node* sw = Switch(x, Build("Less", {x, x}, {}, "p"), "sw");
    const Output step = Add(Output(sw, 1), Output(sw, 1), "step");
    const Output again = Called("f", {step}, "again");
    Result("f", Build("Merge", {Output(sw, 0), again}, {}, "m"), "ret");
  }
  // The ready node of that name in the frame `depth` calls down.
  Status FireAt(uint32_t depth, const std::string& name,
                Tensor value = Tensor::Scalar(1.f)) {
    ReadyList& ready = tokens_->ready();
    for (size_t i = 0; i < ready.size(); ++i)
      if (ready[i].node->node->name() == name &&
          ready[i].iteration->frame->depth == depth) {
        std::swap(ready[i], ready.back());
        return FireLast(std::move(value));
      }
    return NotFound(name, " is not ready at depth ", depth);
  }
  Status FireLast(Tensor value) {
    const Ready r = tokens_->ready().back();
    tokens_->ready().pop_back();
    if (r.node->role != OpRole::kCompute) return tokens_->Move(r, nullptr);
    if (Tokens::IsDead(r)) {
      tokens_->CompleteDead(r);
    } else {
      Tokens::OutputSlots(r)[0] = std::move(value);
      tokens_->Complete(r);
    }
    return OkStatus();
  }
  void Run(uint32_t depth, std::initializer_list<const char*> names) {
    for (const char* n : names) {
      const Status s = FireAt(depth, n);
      ASSERT_TRUE(s.ok()) << s;
    }
  }
};

TEST_F(CallTest, CallCreatesFrameWithItsArguments) {
  DefineF();
  Retval(Called("f", {Arg(0)}, "call"), 0);
  Start();
  EXPECT_EQ(ReadyNames(), Names{});
  tokens_->Feed(0, Tensor::Scalar(7.f));
  EXPECT_EQ(ReadyNames(), Names{"call"});
  FireAll({"call"});
  EXPECT_EQ(tokens_->frames_alive(), 2);
  EXPECT_EQ(ReadyNames(), (Names{"p", "start"}));
  FireAll({"start"});
  ASSERT_TRUE(Fire("p", Tensor::Scalar(false)).ok());
  FireAll({"sw", "m"});
  // The result has arrived; the call is done when its frame is.
  EXPECT_EQ(ReadyNames(), (Names{"ret", "step dead"}));
  FireAll({"ret"});
  EXPECT_EQ(ReadyNames(), Names{"step dead"});
  FireAll({"step"});
  EXPECT_EQ(ReadyNames(), Names{"again dead"});
  FireAll({"again"});
  EXPECT_EQ(ReadyNames(), Names{"ret0"});
  EXPECT_EQ(tokens_->frames_alive(), 1);
  FireAll({"ret0"});
  EXPECT_EQ(got_["ret0"].scalar<float>(), 7.f);
}

TEST_F(CallTest, FramesNestAndAreReused) {
  DefineF();
  Retval(Called("f", {Called("f", {Arg(0)}, "first")}, "second"), 0);
  Start();
  tokens_->Feed(0, Tensor::Scalar(0.f));
  float value = 0;
  for (const char* call : {"first", "second"}) {
    FireAll({call});
    for (uint32_t depth = 1; depth <= 3; ++depth) {
      Run(depth, {"start"});
      ASSERT_TRUE(FireAt(depth, "p", Tensor::Scalar(depth < 3)).ok());
      Run(depth, {"sw"});
      if (depth == 3) break;
      ASSERT_TRUE(FireAt(depth, "step", Tensor::Scalar(++value)).ok());
      Run(depth, {"again"});
    }
    EXPECT_EQ(tokens_->frames_alive(), 4);
    Run(3, {"step", "again"});  // Dead.
    for (uint32_t depth = 3; depth >= 1; --depth) {
      Run(depth, {"m", "ret"});
      EXPECT_EQ(tokens_->frames_alive(), static_cast<int>(depth));
    }
  }
  FireAll({"ret0"});
  EXPECT_EQ(got_["ret0"].scalar<float>(), 4.f);
  EXPECT_EQ(tokens_->iterations_alive(), 1);
}

TEST_F(CallTest, ConcurrentCallsHaveSeparateFrames) {
  DefineF();
  Retval(Add(Called("f", {Arg(0)}, "a"), Called("f", {Arg(1)}, "b"), "sum"), 0);
  Start();
  tokens_->Feed(0, Tensor::Scalar(1.f));
  tokens_->Feed(1, Tensor::Scalar(2.f));
  FireAll({"a", "b"});
  EXPECT_EQ(tokens_->frames_alive(), 3);
  EXPECT_EQ(ReadyNames(), (Names{"p", "p", "start", "start"}));
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(Fire("p", Tensor::Scalar(false)).ok());
    FireAll({"start", "sw", "m", "ret", "step", "again"});
  }
  EXPECT_EQ(ReadyNames(), Names{"sum"});
  EXPECT_EQ(tokens_->frames_alive(), 1);
}

// What each call within a function passes on as it is stays in the frame of the
// outermost call, which the others read.
TEST_F(CallTest, CallsOfARecursionShareWhatTheyPassOn) {
  BuildNode("_Function", {}, {{"function", "g"}}, "start");
  const Output x = Param("g", 0, "x"), w = Param("g", 1, "w"),
               v = Param("g", 2, "v");
  Node* sw = Switch(x, Build("Less", {x, x}, {}, "p"), "sw");
  const Output step = Add(Output(sw, 1), Add(w, v, "sum"), "step");
  const Output left = Called("g", {step, w, v}, "left"),
               right = Called("g", {step, w, step}, "right");
  Result("g",
         Build("Merge", {Output(sw, 0), Add(left, right, "both")}, {}, "m"),
         "ret");
  Retval(Add(Called("g", {Arg(0), Arg(1), Arg(0)}, "a"),
             Called("g", {Arg(0), Arg(2), Arg(0)}, "b"), "end"),
         0);
  Start();
  // (v is not the same in all.)
  for (const PlanNode& n : plan_->nodes) {
    if (n.role != OpRole::kArg) continue;
    EXPECT_EQ((n.flags & PlanNode::kConstant) != 0, n.node->name() == "w")
        << n.node->name();
  }
  Tensor first = Tensor::Vector<float>({1, 2, 3}),
         second = Tensor::Vector<float>({4, 5, 6});
  tokens_->Feed(0, Tensor::Scalar(0.f));
  tokens_->Feed(1, first);
  tokens_->Feed(2, second);
  const auto read = [&](uint32_t depth) -> const Tensor* {
    ReadyList& ready = tokens_->ready();
    for (size_t i = 0; i < ready.size(); ++i)
      if (ready[i].node->node->name() == "sum" &&
          ready[i].iteration->frame->depth == depth)
        return &tokens_->Input(ready[i], 0);
    return nullptr;
  };
  for (const auto& [call, value] : {std::pair{"a", &first}, {"b", &second}}) {
    FireAll({call});
    const Tensor* const outer = read(1);
    ASSERT_NE(outer, nullptr);
    EXPECT_TRUE(outer->SharesBufferWith(*value));
    EXPECT_FALSE(value->unique());
    Run(1, {"start", "sum"});
    ASSERT_TRUE(FireAt(1, "p", Tensor::Scalar(true)).ok());
    Run(1, {"sw", "step"});
    for (const char* inner : {"left", "right"}) {
      Run(1, {inner});
      EXPECT_EQ(read(2), outer) << inner;
      Run(2, {"start", "sum"});
      ASSERT_TRUE(FireAt(2, "p", Tensor::Scalar(false)).ok());
      Run(2, {"sw", "m", "ret", "step", "left", "right", "both"});
    }
    Run(1, {"both", "m", "ret"});
    EXPECT_TRUE(value->unique()) << "kept after the call";
  }
  FireAll({"end", "ret0"});
  EXPECT_EQ(tokens_->frames_alive(), 1);
}

TEST_F(CallTest, DeadArgumentMakesCallDeadWithoutFrame) {
  DefineF();
  Node* sw = Switch(Arg(0), Arg(1, DType::kBool), "branch");
  Retval(Called("f", {Output(sw, 1)}, "call"), 0);
  Start();
  tokens_->Feed(0, Tensor::Scalar(1.f));
  tokens_->Feed(1, Tensor::Scalar(false));
  FireAll({"branch"});
  EXPECT_EQ(ReadyNames(), Names{"call dead"});
  FireAll({"call"});
  EXPECT_EQ(tokens_->frames_alive(), 1);
  EXPECT_EQ(ReadyNames(), Names{"ret0 dead"});
}

TEST_F(CallTest, MissingResultMakesTheCallDead) {
  BuildNode("_Function", {}, {{"function", "g"}}, "start");
  const Output x = Param("g", 0, "x");
  Node* sw = Switch(x, Build("Less", {x, x}, {}, "p"), "sw");
  Result("g", Output(sw, 1), "ret");
  Retval(Called("g", {Arg(0)}, "call"), 0);
  Start();
  tokens_->Feed(0, Tensor::Scalar(1.f));
  FireAll({"call", "start"});
  ASSERT_TRUE(Fire("p", Tensor::Scalar(false)).ok());
  FireAll({"sw"});
  EXPECT_EQ(ReadyNames(), Names{"ret dead"});
  FireAll({"ret"});
  EXPECT_EQ(ReadyNames(), Names{"ret0 dead"});
  EXPECT_EQ(tokens_->frames_alive(), 1);
}

TEST_F(CallTest, CallDepthIsLimited) {
  DefineF();
  Retval(Called("f", {Arg(0)}, "call"), 0);
  Start();
  tokens_->Clear();
  tokens_->Start(2);
  tokens_->Feed(0, Tensor::Scalar(1.f));
  FireAll({"call"});
  for (uint32_t depth = 1; depth <= 2; ++depth) {
    Run(depth, {"start"});
    ASSERT_TRUE(FireAt(depth, "p", Tensor::Scalar(true)).ok());
    Run(depth, {"sw", "step"});
    const Status s = FireAt(depth, "again");
    EXPECT_EQ(s.ok(), depth < 2) << s;
    if (!s.ok()) {
      EXPECT_EQ(s.code(), StatusCode::kResourceExhausted);
      EXPECT_NE(s.message().find("function 'f'"), absl::string_view::npos) << s;
    }
  }
  EXPECT_NE(tokens_->DescribeWaiting(8).find("function 'f' at call depth 2"),
            std::string::npos)
      << tokens_->DescribeWaiting(8);
  tokens_->Clear(false);
}

TEST_F(CallTest, LoopRunsInsideFunction) {
  BuildNode("_Function", {}, {{"function", "g"}}, "start");
  Result("g", Loop(Param("g", 0, "in")), "ret");
  Retval(Called("g", {Arg(0)}, "call"), 0);
  Start();
  tokens_->Feed(0, Tensor::Scalar(1.f));
  FireAll({"call", "start", "e"});
  EXPECT_EQ(tokens_->frames_alive(), 3);
  Iterate(true);
  Iterate(false);
  FireAll({"x", "x"});  // That of iteration 0 is dead.
  EXPECT_EQ(ReadyNames(), (Names{"add@1 dead", "ret"}));
  FireAll({"ret", "add", "n"});
  EXPECT_EQ(ReadyNames(), Names{"ret0"});
  EXPECT_EQ(tokens_->frames_alive(), 1);
}

TEST_F(CallTest, MismatchedCallsAreRefused) {
  DefineF();
  Retval(Called("f", {}, "call"), 0);
  EXPECT_NE(BuildError().message().find("results of function 'f'"),
            absl::string_view::npos)
      << BuildError();
}

}  // namespace
}  // namespace sluice
