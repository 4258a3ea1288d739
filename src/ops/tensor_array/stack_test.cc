// Stacks: their ops and their errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"
#include "session/session.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class StackTest : public ::testing::TestWithParam<bool> {
 protected:
  StackTest() : use_(graph_) {}
  // The current version of the op, or the older one.
  std::string Op(const std::string& op) { return GetParam() ? op : op + "V2"; }
  Output Make(int max_size = -1, DType t = DType::kFloat) {
    std::vector<Output> inputs;
    if (!GetParam()) inputs.push_back(Constant<int32_t>(max_size));
    return Build(Op("Stack"), inputs,
                 {{"elem_type", t}, {"stack_name", "saved"}});
  }
  Output Push(Output handle, Output value) {
    return Build(Op("StackPush"), {handle, value}, {{"swap_memory", true}});
  }
  Output Pop(Output handle, DType t = DType::kFloat) {
    return Build(Op("StackPop"), {handle}, {{"elem_type", t}});
  }
  void Fails(Output o, const std::vector<std::string>& words) {
    const Result<Tensor> t = Session(graph_).Run(o);
    ASSERT_FALSE(t.ok()) << t->ToString();
    EXPECT_EQ(t.status().code(), StatusCode::kInvalidArgument) << t.status();
    for (const std::string& w : words)
      EXPECT_THAT(std::string(t.status().message()), HasSubstr(w));
  }
  Graph graph_;
  WithGraph use_;
};

Output Saved(std::initializer_list<float> v) {
  return Constant(Tensor::Vector<float>(v));
}

TEST_P(StackTest, PopsInReverseOrder) {
  const Output s = Make();
  const Output one = Push(s, Saved({1}));
  Output two, last, first;
  {
    const ControlDependencies after({one.node});
    two = Push(s, Saved({2, 2}));
  }
  {
    const ControlDependencies after({two.node});
    last = Pop(s);
  }
  {
    const ControlDependencies after({last.node});
    first = Pop(s);
  }
  Session session(graph_);
  for (int i = 0; i < 2; ++i) {
    const auto got = session.Run({two, last, first});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_THAT((*got)[0].ToVector<float>(), ElementsAre(2, 2));
    EXPECT_THAT((*got)[1].ToVector<float>(), ElementsAre(2, 2));
    EXPECT_THAT((*got)[2].ToVector<float>(), ElementsAre(1));
  }
}

TEST_P(StackTest, HoldsEveryType) {
  const Output s = Make(-1, DType::kString);
  const Output pushed =
      Push(s, Constant(Tensor::Scalar<std::string>("a long enough string")));
  const ControlDependencies after({pushed.node});
  const Result<Tensor> t = Session(graph_).Run(Pop(s, DType::kString));
  ASSERT_TRUE(t.ok()) << t.status();
  EXPECT_EQ(t->scalar<std::string>(), "a long enough string");
}

TEST_P(StackTest, PopOfEmptyStackIsAnError) {
  Fails(Pop(Make()), {"'saved'", "empty"});
}

TEST_P(StackTest, TypesMustAgree) {
  Fails(Push(Make(), Constant<int32_t>(1)), {"'saved'", "float", "int32"});
  Fails(Pop(Make(), DType::kDouble), {"'saved'", "float", "double"});
}

TEST_P(StackTest, AClosedStackIsRefused) {
  const Output s = Make();
  Node* close = BuildNode(Op("StackClose"), {s});
  ASSERT_NE(close, nullptr);
  const ControlDependencies after({close});
  Fails(Push(s, Saved({1})), {"'saved'", "closed"});
  Fails(Pop(s), {"'saved'", "closed"});
}

INSTANTIATE_TEST_SUITE_P(Spellings, StackTest, ::testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "Older" : "V2";
                         });

class StackV2Test : public StackTest {};

TEST_P(StackV2Test, EnforcesTheSizeLimit) {
  const Output s = Make(1);
  const Output one = Push(s, Saved({1}));
  const ControlDependencies after({one.node});
  Fails(Push(s, Saved({2})), {"'saved'", "at most 1"});
  Fails(Push(Make(0), Saved({2})), {"'saved'", "at most 0"});
}

TEST_P(StackV2Test, OtherResourcesAreRefused) {
  const Output array = Build("TensorArrayV3", {Constant<int32_t>(1)},
                             {{"dtype", DType::kFloat}});
  Fails(Push(array, Saved({1})), {"expected a stack", "TensorArray"});
}

// Pushed tensors are neither copied nor kept beyond the step, even if it fails.
TEST_P(StackV2Test, StepEndReleasesEverything) {
  Tensor big(DType::kFloat, Shape({1000}));
  std::fill_n(big.data<float>(), 1000, 1.0f);
  const Output s = Make(2);
  Output last;
  for (int i = 0; i < 3; ++i) {
    std::vector<Node*> before;
    if (last.valid()) before.push_back(last.node);
    const ControlDependencies after(before);
    last = Push(s, Build("Square", {Constant(big)}));
  }
  SessionOptions options;
  options.constant_folding = false;
  options.common_subexpressions = false;
  Session session(graph_, options);
  EXPECT_FALSE(session.Run(last).ok());
  const int64_t before = Allocator::Cpu()->stats().live_bytes;
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(session.Run(last).ok());
    EXPECT_EQ(Allocator::Cpu()->stats().live_bytes, before);
  }
}

INSTANTIATE_TEST_SUITE_P(Spellings, StackV2Test, ::testing::Values(false),
                         [](const auto&) { return "V2"; });

}  // namespace
}  // namespace sluice
