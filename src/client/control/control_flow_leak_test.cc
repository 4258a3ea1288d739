// No memory outlives a step: programs of nested loops, conditionals, arrays,
// stacks, lists and recursion are interrupted at random moments - by an error,
// by a request for more memory than available, by closing the session, by a
// deadline - and then as much memory is in use as before, and the same program
// runs again as usual.
#include <malloc.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>

#include "base/sanitizers.h"
#include "client/control/control_flow.h"
#include "client/control/functions.h"
#include "client/control/higher_order.h"
#include "client/control/tensor_array.h"
#include "client/testing/client_test_util.h"
#include "client/testing/random_program_test_util.h"
#include "exec/core/kernel.h"
#include "graph/grad.h"
#include "graph/shape_context.h"
#include "ops/tensor_array/tensor_array.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

// ---- Breaking a step --------------------------------------------------------

enum class Break {
  kFail,      // The kernel fails.
  kMemory,    // It requests more memory than available.
  kClose,     // The session is closed, by the thread that runs the kernel
  kThread,    //   or by another one, some time later.
  kDeadline,  // It runs until the deadline.
};
constexpr int kBreaks = 5;

// The action of the breakable nodes in the running step. Set between steps.
struct Breaker {
  std::atomic<int64_t> runs{0};  // Runs of breakable nodes in this step.
  int64_t at = -1;               // The run that breaks the step; -1: none.
  Break how = Break::kFail;
  Session* session = nullptr;
  std::atomic<bool> close{false};  // Signals the other thread.
};
Breaker& TheBreaker() {
  static auto* const breaker = new Breaker;
  return *breaker;
}

Status RunBreakable(KernelContext& ctx) {
  Breaker& b = TheBreaker();
  if (b.runs.fetch_add(1) == b.at) {
    switch (b.how) {
      case Break::kFail:
        return Internal("broken");
      case Break::kMemory:
        return ctx.Allocate(0, DType::kFloat, Shape({int64_t{1} << 50}));
      case Break::kClose:
        SLUICE_RETURN_IF_ERROR(b.session->Close());
        break;
      case Break::kThread:
        b.close = true;
        break;
      case Break::kDeadline:
        if (ctx.step().deadline)
          std::this_thread::sleep_until(*ctx.step().deadline);
        break;
    }
  }
  ctx.set_output(0, ctx.TakeInput(0));
  return OkStatus();
}

Status BreakableShape(ShapeContext& c) {
  c.set_output(0, c.input(0));
  return OkStatus();
}

Output Breakable(Output x) { return Build("TestBreakable", {x}); }

Status BreakableGrad(GradContext& g) {
  if (g.dy[0].valid()) g.grads[0] = Breakable(g.dy[0]);
  return OkStatus();
}

SLUICE_OP(TestBreakable)
    .Input("x: T")
    .Output("y: T")
    .Attr("T: type")
    .Shape(BreakableShape)
    .Kernel(Cpu(RunBreakable))
    .Grad(BreakableGrad)
    .Family("test")
    .Doc("x; the step may break here.");

// Objects owned by handles of the running step, observed in passing.
std::vector<std::weak_ptr<const void>>& Watched() {
  static auto* const watched = new std::vector<std::weak_ptr<const void>>;
  return *watched;
}
std::mutex watched_mu;

Status RunWatch(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(const ResourceHandle* h, ctx.handle(0));
  {
    std::lock_guard<std::mutex> lock(watched_mu);
    Watched().emplace_back(std::shared_ptr<const void>(h->resource));
  }
  ctx.set_output(0, ctx.input(0));
  return OkStatus();
}

SLUICE_OP(TestWatch)
    .Input("handle: resource")
    .Output("same: resource")
    .Shape(BreakableShape)
    .Kernel(Cpu(RunWatch))
    .NoGradient("of a handle")
    .Family("test")
    .Doc("A handle, whose resource must not outlive the step.");

// Leaks that are planted: the tests must detect each of these.
enum class Leak {
  kNone,
  kTensor,   // A buffer.
  kElement,  // A row of a larger tensor.
  kScalars,  // Scalars, which have no buffer: an array that stores them as
             // words.
  kHandle,   // An empty array: only its handle.
  kObject,   // No tensor: an object as used for frames and saved lists.
};
struct Planted {
  Leak leak = Leak::kNone;
  std::vector<Tensor> tensors;
  std::vector<std::unique_ptr<std::array<char, 96>>> objects;
};
Planted& ThePlanted() {
  static auto* const planted = new Planted;
  return *planted;
}

std::shared_ptr<TensorArrayState> SomeArray(DType t, int64_t size) {
  auto decl = std::make_shared<TensorArrayDecl>();
  decl->name = "forgotten";
  decl->dtype = t;
  return std::make_shared<TensorArrayState>(decl, size);
}

// Plants one leak.
void Forget() {
  Planted& p = ThePlanted();
  const auto keep = [&p](std::shared_ptr<TensorArrayState> array) {
    p.tensors.push_back(
        Tensor::Scalar<ResourceHandle>({"", "forgotten", std::move(array)}));
  };
  switch (p.leak) {
    case Leak::kNone:
      break;
    case Leak::kTensor:
      p.tensors.emplace_back(DType::kFloat, Shape({3}));
      break;
    case Leak::kElement: {
      const auto array = SomeArray(DType::kFloat, 4);
      Tensor row;
      ASSERT_TRUE(array
                      ->Scatter(std::vector<int32_t>{0, 1, 2, 3},
                                Tensor(DType::kFloat, Shape({4, 100})))
                      .ok());
      ASSERT_TRUE(array->Read(2, &row).ok());
      p.tensors.push_back(std::move(row));
      break;
    }
    case Leak::kScalars: {
      const auto array = SomeArray(DType::kInt32, 1);
      ASSERT_TRUE(array->Write(0, Tensor::Scalar<int32_t>(7)).ok());
      keep(array);
      break;
    }
    case Leak::kHandle:
      keep(SomeArray(DType::kFloat, 0));
      break;
    case Leak::kObject:
      p.objects.push_back(std::make_unique<std::array<char, 96>>());
      break;
  }
}

// ---- The programs -----------------------------------------------------------

struct Step {
  Feeds feeds;
  std::vector<Output> fetches;
};

Output Floats(const PartialShape& shape, const std::string& name) {
  return Placeholder<float>(shape, name);
}
Tensor Fill(const Shape& shape, float scale) {
  Tensor t(DType::kFloat, shape);
  float i = 0;
  for (float& v : t.flat<float>()) v = std::sin(scale * ++i);
  return t;
}

// An array of rows, an array for each row made within the loop, and gradients
// of first and second order.
Step ArraysInNestedLoops() {
  const Output x = Floats({3, 8}, "x"), w = Floats({8}, "w");
  const TensorArray rows = TensorArray(DType::kFloat, 3).Unstack(x);
  const auto [i, h, out] = While(
      std::tuple{0, Zeros({8}), TensorArray(DType::kFloat, 3)},
      [](Output i, Output, const TensorArray&) { return i < 3; },
      [&](Output i, Output h, const TensorArray& out) {
        const Output row = rows.Read(i);
        const auto [j, g, inner] = While(
            std::tuple{0, h, TensorArray(DType::kFloat, 4)},
            [](Output j, Output, const TensorArray&) { return j < 4; },
            [&](Output j, Output g, const TensorArray& inner) {
              const Output even = ops::Equal(j % 2, 0);
              const Output next = Cond(
                  even, [&] { return Breakable(ops::Tanh(g * w + row)); },
                  [&] { return ops::Sin(Breakable(g - row)); });
              return std::tuple{j + 1, next, inner.Write(j, next * w)};
            });
        return std::tuple{i + 1, g, out.Write(i, ops::Sum(inner.Stack(), 0))};
      });
  const Output y = out.Stack() + h;
  const Output dw = Grad(y, w);
  return {{{x, Fill({3, 8}, .3f)}, {w, Fill({8}, .7f)}},
          {y, Grad(y, x), dw, Grad(dw, x)}};
}

// A loop pushes, a loop within another pops.
Step Stacks() {
  const Output x = Floats({16}, "x");
  const Output stack =
      Build("TestWatch",
            {Build("StackV2", {Constant(-1)}, {{"elem_type", DType::kFloat}})});
  const auto [n, last] = While(
      std::tuple{0, x}, [](Output i, Output) { return i < 12; },
      [&](Output i, Output h) {
        const Output next = Breakable(h * 1.5f);
        return std::tuple{i + 1, Build("StackPushV2", {stack, next})};
      });
  const auto [i, sum] = While(
      std::tuple{0, last}, [](Output i, Output) { return i < 3; },
      [&](Output i, Output sum) {
        const auto [j, inner] = While(
            std::tuple{0, sum}, [](Output j, Output) { return j < 3; },
            [&](Output j, Output inner) {
              const ControlDependencies after({inner.node});
              const Output popped =
                  Build("StackPopV2", {stack}, {{"elem_type", DType::kFloat}});
              return std::tuple{j + 1, Breakable(ops::Sin(inner + popped))};
            },
            {.shape_invariants = {{}, PartialShape::Unknown()}});
        return std::tuple{i + 1, inner};
      },
      {.shape_invariants = {{}, PartialShape::Unknown()}});
  return {{{x, Fill({16}, .4f)}}, {sum}};
}

// A list as a variable of two loops, and its gradient.
Step Lists() {
  const Output x = Floats({4}, "x");
  const Output list = Build("EmptyTensorList", {IntVector({4}), Constant(-1)},
                            {{"element_dtype", DType::kFloat}});
  const auto push = [](Output list, Output v) {
    return Build("TensorListPushBack", {list, v});
  };
  const auto [i, h, all] = While(
      std::tuple{0, x, list}, [](Output i, Output, Output) { return i < 3; },
      [&](Output i, Output h, Output list) {
        const auto [j, g, more] = While(
            std::tuple{0, h, list},
            [](Output j, Output, Output) { return j < 3; },
            [&](Output j, Output g, Output more) {
              const Output next = Breakable(ops::Sin(g * x));
              return std::tuple{j + 1, next, push(more, next)};
            });
        return std::tuple{i + 1, g, more};
      });
  const Output y = Build("TensorListStack", {all, IntVector({4})},
                         {{"element_dtype", DType::kFloat}});
  return {{{x, Fill({4}, .4f)}}, {y, Grad(y, x)}};
}

// t(x, n) = n < 2 ? x : sin(t(x, n - 1)) * t(x, n - 2) + (a loop of n)
Step Recursion() {
  const Function t = DefineFunction(
      "tree", {DType::kFloat, DType::kInt32}, {DType::kFloat},
      [](const Function& self, const std::vector<Output>& a) {
        const Output x = a[0], n = a[1];
        return Cond(
            n < 2, [&] { return Breakable(x); },
            [&] {
              const auto [i, h] = While(
                  std::tuple{0, x}, [&](Output i, Output) { return i < n; },
                  [&](Output i, Output h) {
                    return std::tuple{i + 1, Breakable(ops::Cos(h) * x)};
                  });
              return ops::Sin(self({x, n - 1})[0]) * self({x, n - 2})[0] + h;
            });
      },
      {.arg_shapes = {PartialShape({4}), PartialShape::Scalar()},
       .result_shapes = {PartialShape({4})}});
  const Output x = Floats({4}, "x");
  const Output y = t({x, Constant(5)})[0];
  return {{{x, Fill({4}, .4f)}}, {y, Grad(y, x)}};
}

// Rows of a table by number, whose gradients are gathered as slices.
Step SparseReads() {
  const Output table = Floats({6, 4}, "table");
  const Output ids = Constant(Tensor::Vector<int32_t>({5, 1, 1, 0, 2}));
  const auto [i, h] = While(
      std::tuple{0, Zeros({4})}, [](Output i, Output) { return i < 5; },
      [&](Output i, Output h) {
        const Output row = ops::GatherV2(table, ops::GatherV2(ids, i, 0), 0);
        return std::tuple{i + 1, Breakable(ops::Tanh(h + row))};
      });
  return {{{table, Fill({6, 4}, .4f)}}, {h, Grad(h, table)}};
}

// An LSTM along rows, and the gradient of its gradient.
Step LstmOfSecondOrder() {
  const Output xs = Floats({4, 2, 3}, "xs"), w = Floats({6, 12}, "w");
  const auto [c, h] = Scan(
      [&](std::pair<Output, Output> s, Output x) {
        const std::vector<Output> gates = ops::Split(
            1, Breakable(ops::MatMul(ops::ConcatV2({x, s.second}, 1), w)), 4);
        const Output c = s.first * ops::Sigmoid(gates[0]) +
                         ops::Sigmoid(gates[1]) * ops::Tanh(gates[2]);
        return std::pair{c, Breakable(ops::Tanh(c) * ops::Sigmoid(gates[3]))};
      },
      xs, std::pair{Zeros({2, 3}), Zeros({2, 3})});
  const Output dw = Grad(h, w);
  return {{{xs, Fill({4, 2, 3}, .3f)}, {w, Fill({6, 12}, .9f)}},
          {h, dw, Grad(dw, xs)}};
}

// Gradients within a body: three steps of training, each by a loop's gradient.
Step TrainingInTheGraph() {
  const Output w0 = Floats({4}, "w"), x = Floats({4}, "x");
  const auto [step, w] = While(
      std::tuple{0, w0}, [](Output step, Output) { return step < 3; },
      [&](Output step, Output w) {
        const auto [i, y] = While(
            std::tuple{0, x}, [](Output i, Output) { return i < 3; },
            [&](Output i, Output y) {
              return std::tuple{i + 1, Breakable(ops::Tanh(y * w))};
            });
        return std::tuple{step + 1, w - Grad(y, w) * .1f};
      });
  return {{{w0, Fill({4}, .4f)}, {x, Fill({4}, .8f)}}, {w}};
}

// Kernels that block: iterations wait for each other's lock.
Step Locks() {
  const Output x = Floats({8}, "x");
  const Output mutex = Build("MutexV2", {}, {{"shared_name", "the mutex"}});
  const auto [i, sum] = While(
      std::tuple{0, x}, [](Output i, Output) { return i < 40; },
      [&](Output i, Output sum) {
        Output lock;
        {
          const ControlDependencies in_turn({i.node});
          lock = Build("MutexLock", {mutex});
        }
        Output work;
        {
          const ControlDependencies locked({lock.node});
          work = Breakable(x * ops::Cast(i, DType::kFloat));
        }
        Node* release;
        {
          const ControlDependencies done({work.node});
          release = BuildNode("ConsumeMutexLock", {lock});
        }
        const ControlDependencies released({release});
        return std::tuple{i + 1, ops::Identity(work) + sum};
      });
  return {{{x, Fill({8}, .4f)}}, {sum}};
}

// Kernels that run long enough to overlap with others.
Step LongKernels() {
  const Output x = Floats({96, 96}, "x");
  const auto [i, a, b, c] = While(
      std::tuple{0, x, x * .5f, x * .25f},
      [](Output i, Output, Output, Output) { return i < 4; },
      [&](Output i, Output a, Output b, Output c) {
        return std::tuple{i + 1, ops::Tanh(ops::MatMul(a, Breakable(x))),
                          ops::Tanh(ops::MatMul(b, x)),
                          ops::Tanh(ops::MatMul(Breakable(c), b))};
      });
  const Output y = a + b + c;
  return {{{x, Fill({96, 96}, .4f)}}, {y, Grad(y, x)}};
}

// ---- Execution --------------------------------------------------------------

class LeakTest : public ::testing::Test {
 protected:
  enum Kind { kDefault, kNoRegions, kSeeded, kThreads, kKinds };

  static SessionOptions OptionsFor(int kind, uint64_t seed) {
    SessionOptions o;
    o.regions = kind != kNoRegions;
    o.intra_op_threads = 1;
    if (kind == kSeeded) o.scheduler_seed = seed;
    if (kind == kThreads) {
      o.regions = false;
      o.inter_op_threads = 2;
    }
    return o;
  }
  // Bytes that the program has allocated and not freed; 0 if a sanitizer
  // replaces malloc (and checks leaks itself).
  static int64_t HeapBytes() {
    if (kSanitized) return 0;
    const struct mallinfo2 info = mallinfo2();
    return static_cast<int64_t>(info.uordblks + info.hblkhd);
  }
  static int64_t Live() { return Allocator::Cpu()->stats().live_bytes; }
  static void ExpectNothingWatched() {
    std::lock_guard<std::mutex> lock(watched_mu);
    for (const auto& w : Watched()) EXPECT_TRUE(w.expired());
    Watched().clear();
  }

  // A session of one kind, for several steps.
  struct Running {
    std::unique_ptr<Session> session;
    Session::Callable run;
    std::vector<Tensor> fed;
    int64_t runs = 0;  // Runs of breakable nodes in an uninterrupted step.
  };

  Running Open(Graph& graph, const Step& step, int kind, uint64_t seed) {
    Running r;
    r.session = std::make_unique<Session>(graph, OptionsFor(kind, seed));
    std::vector<Output> feeds;
    for (const auto& [o, t] : step.feeds) {
      feeds.push_back(o);
      r.fed.push_back(t);
    }
    Result<Session::Callable> c = r.session->MakeCallable(feeds, step.fetches);
    EXPECT_TRUE(c.ok()) << c.status();
    if (c.ok()) r.run = *c;
    TheBreaker().at = -1;
    ExpectTheSame(r);
    r.runs = TheBreaker().runs;
    return r;
  }

  // A whole step returns the same results as the first one.
  void ExpectTheSame(Running& r) {
    TheBreaker().runs = 0;
    const Result<std::vector<Tensor>> got = r.run.Run(r.fed);
    ASSERT_TRUE(got.ok()) << got.status();
    if (want_.empty())
      for (const Tensor& t : *got) want_.push_back(t.ToVector<float>());
    for (size_t i = 0; i < want_.size(); ++i)
      EXPECT_THAT((*got)[i].ToVector<float>(),
                  ::testing::Pointwise(::testing::FloatNear(1e-4f), want_[i]));
  }

  // Interrupts steps in every way, `rounds` of them.
  void BreakOff(Graph& graph, const Step& step, int rounds, uint64_t seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    ASSERT_TRUE(graph.status().ok()) << graph.status();
    std::mt19937_64 random(seed);
    want_.clear();
    Running open[kKinds];
    for (int round = 0; round < rounds; ++round) {
      const int kind = static_cast<int>(random() % kKinds);
      Running& r = open[kind];
      if (r.session == nullptr) r = Open(graph, step, kind, 1 + random() % 99);
      if (::testing::Test::HasFailure() || r.runs == 0) return;
      Breaker& b = TheBreaker();
      b.how = static_cast<Break>(random() % kBreaks);
      b.at = static_cast<int64_t>(random() % static_cast<uint64_t>(r.runs));
      b.session = r.session.get();
      b.runs = 0;
      b.close = false;
      SCOPED_TRACE("round " + std::to_string(round) + ", session " +
                   std::to_string(kind) + ", broken in way " +
                   std::to_string(static_cast<int>(b.how)) + " by run " +
                   std::to_string(b.at) + " of " + std::to_string(r.runs));
      const int64_t before = Live();
      const Status s = RunBroken(r, random() % 20000);
      b.at = -1;
      ++ended_[s.code()];
      const bool closes = b.how == Break::kClose || b.how == Break::kThread;
      if (b.how == Break::kFail) {
        EXPECT_EQ(s.code(), StatusCode::kInternal) << s;
      } else if (b.how == Break::kMemory) {
        EXPECT_EQ(s.code(), StatusCode::kResourceExhausted) << s;
      }
      EXPECT_EQ(Live(), before) << s;
      ExpectNothingWatched();
      if (closes) {
        r = Running();
      } else {
        ExpectTheSame(r);
        EXPECT_EQ(Live(), before);
        ExpectNothingWatched();
      }
      if (::testing::Test::HasFailure()) return;
    }
  }

  // Less than the size of a leaked object, more than pools that are still
  // growing.
  static constexpr int64_t kLeast = 64;
  // The heap growth per step if every other step is interrupted: the minimum
  // over several stretches, since pools and caches stop growing at some point.
  int64_t HeapGrowth(Graph& graph, const Step& step, int kind) {
    constexpr int kStretches = kSanitized ? 1 : 40;
    constexpr int kRounds = kSanitized ? 10 : 40;
    want_.clear();
    Running r = Open(graph, step, kind, 1);
    std::mt19937_64 random(1);
    Breaker& b = TheBreaker();
    b.session = r.session.get();
    int64_t least = INT64_MAX;
    for (int stretch = 0; stretch < kStretches && r.runs > 0 && least >= kLeast;
         ++stretch) {
      const int64_t before = HeapBytes();
      for (int round = 0; round < kRounds; ++round) {
        b.how = random() % 2 == 0 ? Break::kFail : Break::kMemory;
        b.at = static_cast<int64_t>(random() % static_cast<uint64_t>(r.runs));
        b.runs = 0;
        EXPECT_FALSE(r.run.Run(r.fed).ok());
        b.at = -1;
        EXPECT_TRUE(r.run.Run(r.fed).ok());
        Forget();
        ExpectNothingWatched();
      }
      least = std::min(least, (HeapBytes() - before) / kRounds);
    }
    return least;
  }

  Status RunBroken(Running& r, uint64_t delay) {
    Breaker& b = TheBreaker();
    RunOptions options;
    if (b.how == Break::kDeadline) options.timeout_ms = 4;
    std::thread other;
    if (b.how == Break::kThread)
      other = std::thread([&] {
        while (!b.close) std::this_thread::yield();
        for (std::atomic<uint64_t> i{0}; i < delay; ++i) {
        }
        EXPECT_TRUE(r.session->Close().ok());
      });
    const Status s = r.run.Run(r.fed, options).status();
    b.close = true;  // (The step may end early.)
    if (other.joinable()) other.join();
    return s;
  }

  std::vector<std::vector<float>> want_;
  std::map<StatusCode, int> ended_;
};

struct NamedProgram {
  const char* name;
  Step (*build)();
};
class StepLeakTest : public LeakTest,
                     public ::testing::WithParamInterface<NamedProgram> {};

TEST_P(StepLeakTest, AbortedStepLeavesNothing) {
  Graph graph;
  const WithGraph use(graph);
  const Step step = GetParam().build();
  BreakOff(graph, step, kSanitized ? 50 : 80, 1);
  // Every way of ending occurs.
  EXPECT_GT(ended_[StatusCode::kInternal], 0);
  EXPECT_GT(ended_[StatusCode::kResourceExhausted], 0);
  EXPECT_GT(ended_[StatusCode::kCancelled], 0);
  EXPECT_GT(ended_[StatusCode::kDeadlineExceeded], 0);
}

TEST_P(StepLeakTest, HeapDoesNotGrowWithSteps) {
  Graph graph;
  const WithGraph use(graph);
  const Step step = GetParam().build();
  for (int kind = 0; kind < kKinds; ++kind)
    EXPECT_LT(HeapGrowth(graph, step, kind), kLeast)
        << "bytes a step, " << kind;
}

INSTANTIATE_TEST_SUITE_P(
    Programs, StepLeakTest,
    ::testing::Values(NamedProgram{"ArraysInNestedLoops", ArraysInNestedLoops},
                      NamedProgram{"Stacks", Stacks},
                      NamedProgram{"Lists", Lists},
                      NamedProgram{"Recursion", Recursion},
                      NamedProgram{"SparseReads", SparseReads},
                      NamedProgram{"LstmOfSecondOrder", LstmOfSecondOrder},
                      NamedProgram{"TrainingInTheGraph", TrainingInTheGraph},
                      NamedProgram{"Locks", Locks},
                      NamedProgram{"LongKernels", LongKernels}),
    [](const auto& p) { return p.param.name; });

// One of the checks detects each kind of leak: the bytes of live tensors, or
// those of the heap.
TEST_F(LeakTest, ChecksDetectEveryKindOfLeak) {
  Graph graph;
  const WithGraph use(graph);
  const Step step = TrainingInTheGraph();
  // (Under a sanitizer mallinfo reports nothing; LeakSanitizer checks instead.)
  if (HeapBytes() == 0)
    GTEST_SKIP() << "expected a malloc that counts, got a sanitizer's";
  Planted& p = ThePlanted();
  for (const Leak leak : {Leak::kTensor, Leak::kElement, Leak::kScalars,
                          Leak::kHandle, Leak::kObject}) {
    p.leak = leak;
    const int64_t before = Live();
    const int64_t growth = HeapGrowth(graph, step, kDefault);
    EXPECT_TRUE(Live() > before || growth >= kLeast) << static_cast<int>(leak);
    p = Planted();
  }
}

TEST_F(LeakTest, AbortedRandomProgramLeavesNothing) {
  for (uint64_t seed = 1; seed <= 60; seed += kSanitized ? 4 : 1) {
    SCOPED_TRACE("program " + std::to_string(seed));
    const random_program::Program program = random_program::Maker(seed).Make();
    Graph graph;
    const WithGraph use(graph);
    const Output x0 = Placeholder<double>({2}), x1 = Placeholder<double>({2});
    const Output y =
        random_program::GraphBuilder({x0, x1}, Breakable).Build(program);
    const std::vector<Output> g =
        Grad({y}, {x0, x1}, {.unconnected = Unconnected::kZero});
    std::vector<Output> fetches;
    for (const Output& o : {y, g[0], g[1]})
      fetches.push_back(ops::Cast(o, DType::kFloat));
    BreakOff(graph,
             {{{x0, Tensor::Vector<double>({.3, -.8})},
               {x1, Tensor::Vector<double>({1.1, .4})}},
              fetches},
             8, seed);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace sluice
