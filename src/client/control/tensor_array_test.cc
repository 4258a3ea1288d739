// TensorArrays as users see them.
#include "client/control/tensor_array.h"

#include "client/control/control_flow.h"
#include "client/control/loops.h"
#include "client/testing/client_test_util.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TensorArrayClientTest : public ClientTest {
 protected:
  void ExpectError(const std::vector<std::string>& words) {
    ASSERT_FALSE(graph_.status().ok());
    for (const std::string& w : words)
      EXPECT_THAT(std::string(graph_.status().message()), HasSubstr(w));
  }
};

TEST_F(TensorArrayClientTest, ReadsSeeEarlierWrites) {
  const TensorArray a = TensorArray(DType::kFloat, 3)
                            .Write(2, Constant(3.0f))
                            .Write(0, 1.0f)
                            .Write(1, 2);  // Numbers take the array's type.
  EXPECT_THAT(Values<float>(a.Stack()), ElementsAre(1, 2, 3));
  EXPECT_THAT(Values<float>(a.Gather({2, 0})), ElementsAre(3, 1));
  EXPECT_THAT(Values<float>(a.Read(1)), ElementsAre(2));
  EXPECT_EQ(Eval(a.Size()).scalar<int32_t>(), 3);
}

TEST_F(TensorArrayClientTest, ElementShapeIsInferredFromWrites) {
  TensorArray a(DType::kFloat, 3);
  EXPECT_FALSE(a.element_shape().rank_known());
  a = a.Write(0, Constant(Tensor(DType::kFloat, Shape({2, 4}))));
  EXPECT_EQ(a.Read(1).shape(), PartialShape({2, 4}));
  EXPECT_EQ(a.Stack().shape(), PartialShape({3, 2, 4}));
  EXPECT_EQ(a.Concat().shape(), PartialShape({6, 4}));
}

TEST_F(TensorArrayClientTest, MismatchedElementShapeReportsTheLine) {
  TensorArray a(DType::kFloat, 3, {.name = "results"});
  a = a.Write(0, Constant(Tensor(DType::kFloat, Shape({2}))));
  const int line = __LINE__ + 1;
  const TensorArray b = a.Write(1, Constant(1.0f));
  EXPECT_FALSE(b);
  ExpectError({"'results'", "[2]", "[]", "infer_shape", Here(line, __FILE__)});
}

TEST_F(TensorArrayClientTest, DeclaredShapeIsCheckedWithoutInference) {
  TensorArray a(DType::kFloat, 3,
                {.infer_shape = false, .element_shape = {-1, 2}});
  a = a.Write(0, Constant(Tensor(DType::kFloat, Shape({1, 2}))));
  a = a.Write(1, Constant(Tensor(DType::kFloat, Shape({5, 2}))));
  EXPECT_TRUE(a);
  EXPECT_EQ(a.element_shape(), PartialShape({-1, 2}));
  EXPECT_FALSE(a.Write(2, Constant(Tensor(DType::kFloat, Shape({5, 3})))));
  ExpectError({"[?,2]", "[5,3]"});
}

TEST_F(TensorArrayClientTest, WriteRejectsOtherTypes) {
  EXPECT_FALSE(TensorArray(DType::kFloat, 1).Write(0, Constant<int32_t>(1)));
  ExpectError({"float", "int32"});
}

TEST_F(TensorArrayClientTest, OperationsOnInvalidArrayReturnNull) {
  TensorArray a(DType::kFloat, Constant(1.5f));
  EXPECT_FALSE(a);
  EXPECT_FALSE(a.Write(0, 1.0f));
  EXPECT_FALSE(a.Unstack(Constant(Tensor::Vector<float>({1}))));
  EXPECT_FALSE(a.Read(0).valid());
  EXPECT_FALSE(a.Stack().valid());
  EXPECT_FALSE(a.Concat().valid());
  EXPECT_FALSE(a.Size().valid());
  EXPECT_FALSE(a.Identity());
  EXPECT_FALSE(a.Grad("g"));
  ExpectError({"size", "int32"});
}

TEST_F(TensorArrayClientTest, UnstackSplitsRows) {
  const Output x = Placeholder<float>();
  const Output n = Placeholder<int32_t>({});
  const TensorArray a = TensorArray(DType::kFloat, n).Unstack(x);
  const Feeds feeds = {{x, Tensor::Of<float>({3, 2}, {1, 2, 3, 4, 5, 6})},
                       {n, Tensor::Scalar<int32_t>(3)}};
  EXPECT_THAT(Values<float>(a.Read(2), feeds), ElementsAre(5, 6));
  EXPECT_THAT(Values<float>(a.Stack(), feeds), ElementsAre(1, 2, 3, 4, 5, 6));
  // A known shape is inferred through.
  const TensorArray known =
      TensorArray(DType::kFloat, 2)
          .Unstack(Constant(Tensor::Of<float>({2, 2}, {1, 2, 3, 4})));
  EXPECT_EQ(known.Read(0).shape(), PartialShape({2}));
  EXPECT_EQ(known.Stack().shape(), PartialShape({2, 2}));
}

TEST_F(TensorArrayClientTest, ScatterSplitAndConcatMoveRows) {
  const TensorArray scattered =
      TensorArray(DType::kFloat, 4)
          .Scatter({3, 0}, Constant(Tensor::Vector<float>({1, 2})));
  EXPECT_THAT(Values<float>(scattered.Stack()), ElementsAre(2, 0, 0, 1));

  const Output x = Constant(Tensor::Vector<float>({1, 2, 3}));
  const TensorArray split =
      TensorArray(DType::kFloat, 2, {.infer_shape = false}).Split(x, {1, 2});
  EXPECT_THAT(Values<float>(split.Read(1)), ElementsAre(2, 3));
  Output lengths;
  const Output joined = split.Concat(&lengths);
  EXPECT_THAT(Values<float>(joined), ElementsAre(1, 2, 3));
  EXPECT_THAT(Values<int64_t>(lengths), ElementsAre(1, 2));
  // Equal lengths determine the shape of the elements.
  const TensorArray equal = TensorArray(DType::kFloat, 3).Split(x, {1, 1, 1});
  EXPECT_EQ(equal.element_shape(), PartialShape({1}));
}

TEST_F(TensorArrayClientTest, DynamicArrayGrowsToItsLastIndex) {
  const TensorArray a = TensorArray(DType::kInt64, 0, {.dynamic_size = true})
                            .Write(4, int64_t{7});
  EXPECT_EQ(Eval(a.Size()).scalar<int32_t>(), 5);
  EXPECT_THAT(Values<int64_t>(a.Stack()), ElementsAre(0, 0, 0, 0, 7));
}

TEST_F(TensorArrayClientTest, IdentityWaitsForControlDependencies) {
  TensorArray a(DType::kFloat, 1);
  const TensorArray written = a.Write(0, 5.0f);
  {
    const ControlDependencies after({written.flow().node});
    a = a.Identity();
  }
  EXPECT_EQ(Eval(a.Read(0)).scalar<float>(), 5);
}

TEST_F(TensorArrayClientTest, GradientArrayAddsWrites) {
  const TensorArray a =
      TensorArray(DType::kFloat, 2).Write(0, 1.0f).Write(1, 2.0f);
  const TensorArray g = a.Grad("mine").Write(0, 3.0f).Write(0, 4.0f);
  EXPECT_THAT(Values<float>(g.Stack()), ElementsAre(7, 0));
}

TEST_F(TensorArrayClientTest, HandleKeepsTypeAndShape) {
  const TensorArray a = TensorArray(DType::kDouble, 1, {.element_shape = {3}});
  const TensorArray same = TensorArray::FromHandle(a.handle(), a.flow());
  EXPECT_EQ(same.dtype(), DType::kDouble);
  EXPECT_EQ(same.element_shape(), PartialShape({3}));
  EXPECT_THAT(Values<double>(same.Read(0)), ElementsAre(0, 0, 0));
}

TEST_F(TensorArrayClientTest, GradientsFlowThroughArrays) {
  const Output x = Placeholder<float>({2, 2});
  const TensorArray in = TensorArray(DType::kFloat, 2).Unstack(x);
  TensorArray out(DType::kFloat, 2);
  for (int i = 0; i < 2; ++i) {
    const Output row = in.Read(i);
    out = out.Write(1 - i, row * row);
  }
  const Output g = Grad(out.Stack(), x);
  EXPECT_THAT(Values<float>(g, {{x, Tensor::Of<float>({2, 2}, {1, 2, 3, 4})}}),
              ElementsAre(2, 4, 6, 8));
}

// Hand-built loops carry only the flow; the handle is a loop constant.
TEST_F(TensorArrayClientTest, HandBuiltLoopCarriesTheFlow) {
  constexpr int kCount = 1000;
  const TensorArray a(DType::kInt32, kCount);
  const std::string frame = "loop";
  const Output i = OpenMerge(ops::Enter(0, frame));
  const Output flow = OpenMerge(ops::Enter(a.flow(), frame));
  const Output again =
      ops::LoopCond(i < ops::Enter(kCount, frame, {.is_constant = true}));
  auto [i_done, i_body] = ops::Switch(i, again);
  auto [flow_done, flow_body] = ops::Switch(flow, again);
  const TensorArray body =
      TensorArray::FromHandle(
          ops::Enter(a.handle(), frame, {.is_constant = true}), flow_body)
          .Write(i_body, i_body * i_body);
  EXPECT_EQ(body.dtype(), DType::kInt32);
  CloseMerge(i, ops::NextIteration(i_body + 1));
  CloseMerge(flow, ops::NextIteration(body.flow()));
  const Output flow_out = ops::Exit(flow_done);
  const std::vector<int32_t> got =
      Values<int32_t>(TensorArray::FromHandle(a.handle(), flow_out).Stack());
  ASSERT_EQ(got.size(), static_cast<size_t>(kCount));
  for (int k = 0; k < kCount; ++k)
    EXPECT_EQ(got[static_cast<size_t>(k)], k * k);
}

TEST_F(TensorArrayClientTest, ArrayCanBeLoopVariable) {
  const Output n = Placeholder<int32_t>({});
  const Output x = Placeholder<float>({-1, 2});
  const TensorArray rows = TensorArray(DType::kFloat, n).Unstack(x);
  const auto [i, sum, filled] = While(
      std::tuple{0, Constant(Tensor::Vector<float>({0, 0})),
                 TensorArray(DType::kFloat, n)},
      [&](Output i, Output, const TensorArray&) { return i < n; },
      [&](Output i, Output sum, const TensorArray& out) {
        const Output next = sum + rows.Read(i);
        return std::tuple{i + 1, next, out.Write(i, next)};
      });
  // The shape of the body's write is known outside.
  EXPECT_EQ(filled.Read(0).shape(), PartialShape({2}));
  const Feeds feeds = {{n, Tensor::Scalar<int32_t>(3)},
                       {x, Tensor::Of<float>({3, 2}, {1, 2, 3, 4, 5, 6})}};
  EXPECT_THAT(Values<float>(filled.Stack(), feeds),
              ElementsAre(1, 2, 4, 6, 9, 12));
  // Only the flow is a loop variable: the handles are loop constants.
  int handles = 0;
  for (const auto& node : graph_.nodes())
    if (node->op_name() == "Merge" && node->output_type(0) == DType::kResource)
      ++handles;
  EXPECT_EQ(handles, 0);
}

TEST_F(TensorArrayClientTest, LoopsAndBranchesCannotReplaceOneArrayByAnother) {
  const TensorArray a(DType::kFloat, 2, {.name = "A"});
  const TensorArray b(DType::kFloat, 2, {.name = "B"});
  While(
      std::tuple{0, a, b},
      [](Output i, TensorArray, TensorArray) { return i < 2; },
      [](Output i, TensorArray u, TensorArray v) {
        return std::tuple{i + 1, v.Write(i, 1.0f), u.Write(i, 2.0f)};
      });
  EXPECT_THAT(std::string(graph_.status().message()),
              HasSubstr("loop variable 1: expected the TensorArray that enters "
                        "the loop, 'A', got 'B'"));
  graph_.ClearErrors();
  Cond(
      Constant(true), [&] { return a.Write(0, 1.0f); },
      [&] { return b.Write(0, 2.0f); });
  EXPECT_THAT(std::string(graph_.status().message()),
              HasSubstr("expected one TensorArray as result 0 from both "
                        "branches, 'A', got 'B'"));
}

TEST_F(TensorArrayClientTest, NestedLoopsFillOneArray) {
  const TensorArray a(DType::kInt32, 12);
  const auto [i, filled] = While(
      std::tuple{0, a}, [](Output i, const TensorArray&) { return i < 3; },
      [](Output i, const TensorArray& outer) {
        const auto [j, inner] = While(
            std::tuple{0, outer},
            [](Output j, const TensorArray&) { return j < 4; },
            [&](Output j, const TensorArray& out) {
              return std::tuple{j + 1, out.Write(i * 4 + j, i * 10 + j)};
            });
        return std::tuple{i + 1, inner};
      });
  EXPECT_THAT(Values<int32_t>(filled.Stack()),
              ElementsAre(0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23));
}

TEST_F(TensorArrayClientTest, ConditionalMayWriteInOneBranch) {
  const Output p = Placeholder<bool>({});
  const TensorArray a =
      TensorArray(DType::kFloat, 1, {.element_shape = PartialShape::Scalar()});
  const TensorArray after = Cond(
      p, [&] { return a.Write(0, 5.0f); }, [&] { return a; });
  const Output read = after.Read(0);
  EXPECT_THAT(Values<float>(read, {{p, Tensor::Scalar(true)}}), ElementsAre(5));
  EXPECT_THAT(Values<float>(read, {{p, Tensor::Scalar(false)}}),
              ElementsAre(0));
}

TEST_F(TensorArrayClientTest, SecondWriteInLoopNamesIndexAndArray) {
  const auto [i, filled] = While(
      std::tuple{0, TensorArray(DType::kInt32, 9, {.name = "results"})},
      [](Output i, const TensorArray&) { return i < 5; },
      [](Output i, const TensorArray& out) {
        return std::tuple{i + 1, out.Write(i / 2, i)};
      });
  const Result<Tensor> t = session_.Run(filled.Stack());
  ASSERT_FALSE(t.ok());
  EXPECT_THAT(std::string(t.status().message()),
              ::testing::AllOf(HasSubstr("'results'"), HasSubstr("index 0"),
                               HasSubstr("once")));
}

// Many concurrent iterations, in any order.
TEST_F(TensorArrayClientTest, ParallelIterationsKeepAllWrites) {
  constexpr int kCount = 300;
  const TensorArray in =
      TensorArray(DType::kFloat, kCount).Unstack(Placeholder<float>({kCount}));
  const auto [i, filled] = While(
      std::tuple{0, TensorArray(DType::kFloat, kCount)},
      [](Output i, const TensorArray&) { return i < kCount; },
      [&](Output i, const TensorArray& out) {
        return std::tuple{i + 1, out.Write(kCount - 1 - i, in.Read(i))};
      });
  const Output x = graph_.FindNode("Placeholder");
  Tensor fed(DType::kFloat, Shape({kCount}));
  for (int k = 0; k < kCount; ++k) fed.data<float>()[k] = static_cast<float>(k);
  const Output y = filled.Stack();
  for (const uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(seed);
    SessionOptions options;
    options.scheduler_seed = seed;
    options.inter_op_threads = 3;
    Session session(graph_, options);
    const Result<Tensor> t = session.Run({{x, fed}}, y);
    ASSERT_TRUE(t.ok()) << t.status();
    for (int k = 0; k < kCount; ++k)
      ASSERT_EQ(t->data<float>()[k], static_cast<float>(kCount - 1 - k));
  }
}

}  // namespace
}  // namespace sluice
