// Malformed control flow gives an error that explains it, before the step or
// during it, for any schedule: never a hang.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "client/control/loops.h"
#include "client/operators.h"
#include "session/session.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

Output Num(float v) { return Constant(v); }
Output EnterOf(Output o, const std::string& frame, bool constant = false,
               int parallel = 10) {
  return ops::Enter(o, frame,
                    {.is_constant = constant, .parallel_iterations = parallel});
}
// Fed false, 1, or, of an unknown shape, {true, false}; "none" with nothing.
Output FedAs(DType t, PartialShape shape, const std::string& name) {
  return Build("Placeholder", {}, {{"dtype", t}, {"shape", std::move(shape)}},
               name);
}
// while (i < 3) i = next(i), by hand; `condition` replaces i < 3.
Output LoopOf(const std::function<Output(Output)>& condition,
              const std::function<Output(Output)>& next) {
  const Output i = OpenMerge(EnterOf(Num(0), "loop"));
  const auto [done, again] =
      ops::Switch(i, Build("LoopCond", {condition(i)}, {}, "go"));
  CloseMerge(i, next(again));
  return ops::Exit(done);
}
Output Below3(Output i) { return ops::Less(i, EnterOf(Num(3), "loop", true)); }
Output PlusOne(Output i) {
  return ops::NextIteration(ops::AddV2(i, EnterOf(Num(1), "loop", true)));
}

struct Malformed {
  const char* name;
  std::function<Output()> build;  // The fetch; null: an error before the step.
  std::vector<std::string> says;  // Empty: not an error.
};

void PrintTo(const Malformed& m, std::ostream* out) { *out << m.name; }

std::vector<Malformed> All() {
  return {
      {"MergeWithNoLiveInput",
       [] {
         const auto [no, yes] = ops::Switch(Num(1), Constant(true));
         const auto [no2, yes2] = ops::Switch(Num(2), Constant(true));
         return Output(BuildNode("Merge", {no, no2}, {}, "both"), 0);
       },
       {"fetch: expected a value, got none from 'both", "not taken"}},
      {"MergeThatFeedsAnother",
       [] {
         const Output p = FedAs(DType::kBool, PartialShape::Scalar(), "p");
         const auto [no, yes] = ops::Switch(Num(1), p);
         const auto [no2, yes2] = ops::Switch(no, p);
         // Live if p is false, and true.
         return ops::AddV2(ops::Merge({yes2}).output, Num(1));
       },
       {"fetch: expected a value, got none from", "not taken"}},
      {"MergeOfNothing",
       [] {
         return Build("Merge", {}, {{"N", 0}, {"T", DType::kFloat}});
       },
       {"(Merge)"}},
      {"MergeOfALoopWithoutABackEdge",
       [] {
         const Output i = OpenMerge(EnterOf(Num(0), "loop"), "open");
         const auto [done, again] =
             ops::Switch(i, Build("LoopCond", {Below3(i)}));
         return ops::Exit(done);
       },
       {"'open'", "back edge"}},
      {"NextIterationOutsideAFrame",
       [] { return Build("NextIteration", {Num(1)}, {}, "next"); },
       {"'next' (NextIteration)", "frame"}},
      {"NextIterationOfTheFrameAround",
       [] {
         // The back edge of the inner loop comes from the outer one.
         const Output i = OpenMerge(EnterOf(Num(0), "outer"), "i");
         const Output j = OpenMerge(EnterOf(i, "inner"), "j");
         CloseMerge(j, ops::NextIteration(i, {.name = "wrong"}));
         const auto [done, again] = ops::Switch(
             j, Build("LoopCond", {ops::Less(j, EnterOf(i, "inner", true))}));
         const auto [end, more] = ops::Switch(
             i,
             Build("LoopCond", {ops::Less(i, EnterOf(Num(3), "outer", true))}));
         CloseMerge(i, ops::NextIteration(more));
         return ops::AddV2(ops::Exit(end), ops::Exit(ops::Exit(done)));
       },
       {"frame", "'outer'", "'inner'"}},
      {"EntersWhoseFrameNamesDisagree",
       [] {
         return LoopOf(
             [](Output i) {
               return ops::Less(i, EnterOf(Num(3), "pool", true));
             },
             PlusOne);
       },
       {"frame", "'loop'", "'pool'"}},
      {"EntersWhoseParallelIterationsDisagree",
       [] {
         return LoopOf(
             [](Output i) {
               return ops::Less(i, EnterOf(Num(3), "loop", true, 5));
             },
             PlusOne);
       },
       {"parallel_iterations", "10", "5"}},
      {"ExitWithoutEnter",
       [] { return ops::Exit(Num(1), {.name = "out"}); },
       {"'out' (Exit)", "frame"}},
      {"ExitOfTheLoopAround",
       [] {
         const Output in = EnterOf(Num(1), "loop", true);
         return ops::Exit(ops::Exit(in), {.name = "out"});
       },
       {"'out' (Exit)", "frame"}},
      {"PredicateThatIsNoBoolean",
       [] { return LoopOf([](Output i) { return i; }, PlusOne); },
       {"(LoopCond)", "bool", "float"}},
      {"PredicateThatIsNoScalar",
       [] {
         return LoopOf(
             [](Output) {
               return EnterOf(FedAs(DType::kBool, PartialShape::Unknown(), "p"),
                              "loop", true);
             },
             PlusOne);
       },
       {"bool scalar", "[2]"}},
      {"PredicateThatIsEmpty",
       [] {
         return LoopOf(
             [](Output) {
               return EnterOf(
                   FedAs(DType::kBool, PartialShape::Unknown(), "none"), "loop",
                   true);
             },
             PlusOne);
       },
       {"bool scalar", "[0]"}},
      {"NodeOfTwoFrames",
       [] {
         const Output a = EnterOf(Num(1), "one", true);
         const Output b = EnterOf(Num(2), "two", true);
         return ops::Exit(ops::AddV2(a, b, {.name = "mixed"}));
       },
       {"'mixed'", "'one'", "'two'"}},
      {"NodeInAndOutOfAFrame",
       [] {
         return LoopOf(Below3, [](Output i) {
           return ops::NextIteration(ops::AddV2(i, Num(1), {.name = "mixed"}));
         });
       },
       {}},  // (A constant may be read anywhere: this one runs.)
      {"NoIterationAtATime",
       [] {
         const Output i = OpenMerge(EnterOf(Num(0), "loop", false, 0));
         const auto [done, again] = ops::Switch(
             i, Build("LoopCond",
                      {ops::Less(i, EnterOf(Num(3), "loop", true, 0))}));
         CloseMerge(i, ops::NextIteration(ops::AddV2(again, again)));
         return ops::Exit(done);
       },
       {"parallel_iterations", "at least 1, got 0"}},
      {"ValueFromOutsideInAFrame",
       [] {
         const Output x = FedAs(DType::kFloat, {}, "x");
         return LoopOf(Below3, [x](Output i) {
           return ops::NextIteration(ops::AddV2(i, x, {.name = "mixed"}));
         });
       },
       {"'mixed'", "'loop'"}},
      {"FetchWithinAFrame",
       [] {
         return ops::AddV2(EnterOf(Num(1), "loop"), EnterOf(Num(2), "loop"));
       },
       {"loop"}},
      {"CycleWithoutNextIteration",
       [] {
         const Output i = OpenMerge(EnterOf(Num(0), "loop"), "i");
         const auto [done, again] =
             ops::Switch(i, Build("LoopCond", {Below3(i)}));
         CloseMerge(i, ops::AddV2(again, again));
         return ops::Exit(done);
       },
       {"NextIteration"}},
      {"FrameThatNothingLeaves",
       [] {
         // Both the loop's predicate and its Exit exist, but the branch that
         // leads to the Exit is never taken.
         const Output i = OpenMerge(EnterOf(Num(0), "loop"));
         const auto [done, again] =
             ops::Switch(i, Build("LoopCond", {Below3(i)}));
         const auto [no, yes] = ops::Switch(done, Below3(done));
         CloseMerge(i, PlusOne(again));
         return ops::Exit(yes);
       },
       {"fetch: expected a value, got none"}},
      {"TwoLiveExits",
       [] {
         const Output i = OpenMerge(EnterOf(Num(0), "loop"));
         const auto [done, again] =
             ops::Switch(i, Build("LoopCond", {Below3(i)}));
         CloseMerge(i, PlusOne(again));
         return ops::Exit(again, {.name = "often"});
       },
       {"'often' (Exit)", "one live token", "a second"}},
  };
}

class MalformedLoops : public ::testing::TestWithParam<Malformed> {};

TEST_P(MalformedLoops, FailWithoutHanging) {
  const Malformed& m = GetParam();
  Graph graph;
  const WithGraph use(graph);
  const Output fetched = m.build();
  Feeds feeds;
  for (const auto& n : graph.nodes()) {
    if (n->op_name() != "Placeholder") continue;
    const Output o(n.get());
    const Tensor two = Tensor::Vector<bool>({true, false});
    if (n->name() == "p" && o.shape().rank() < 0) {
      feeds.emplace_back(o, two);
    } else if (n->name() == "none") {
      feeds.emplace_back(o, *Tensor::Make(DType::kBool, Shape({0})));
    } else if (o.dtype() == DType::kBool) {
      feeds.emplace_back(o, Tensor::Scalar(false));
    } else {
      feeds.emplace_back(o, Tensor::Scalar(1.f));
    }
  }
  for (const bool regions : {true, false}) {
    for (const uint64_t seed : {0, 1, 2, 3}) {
      SessionOptions options;
      options.regions = regions;
      options.scheduler_seed = seed;
      Session session(graph, options);
      RunOptions run;
      run.timeout_ms = 20'000;
      Status s = graph.status();
      if (s.ok()) s = session.Run(feeds, {fetched}, {}, run).status();
      EXPECT_NE(s.code(), StatusCode::kDeadlineExceeded) << s;
      EXPECT_EQ(s.ok(), m.says.empty()) << s;
      for (const std::string& words : m.says)
        EXPECT_THAT(std::string(s.message()), HasSubstr(words));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, MalformedLoops, ::testing::ValuesIn(All()),
                         [](const auto& p) { return p.param.name; });

}  // namespace
}  // namespace sluice
