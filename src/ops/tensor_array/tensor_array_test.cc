// TensorArray ops: their results, their errors, and their gradients outside of
// loops.
#include "ops/tensor_array/tensor_array.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "client/autodiff/gradients.h"
#include "graph/builder.h"
#include "graph/tensor_array_info.h"
#include "session/session.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A handle and the flow after the last op on it.
struct Array {
  Output handle, flow;
};

Array MakeArray(Output size, AttrMap attrs = {}) {
  attrs.emplace("dtype", DType::kFloat);
  Node* n = BuildNode("TensorArrayV3", {size}, std::move(attrs), "ta");
  return n == nullptr ? Array() : Array{Output(n, 0), Output(n, 1)};
}
Array MakeArray(int size, AttrMap attrs = {}) {
  return MakeArray(Constant<int32_t>(size), std::move(attrs));
}
void Write(Array* a, int index, Output value) {
  a->flow = Build("TensorArrayWriteV3",
                  {a->handle, Constant<int32_t>(index), value, a->flow});
}
Output Read(const Array& a, int index, DType dtype = DType::kFloat) {
  return Build("TensorArrayReadV3",
               {a.handle, Constant<int32_t>(index), a.flow},
               {{"dtype", dtype}});
}
Output Gather(const Array& a, const std::vector<int32_t>& indices,
              AttrMap attrs = {}) {
  attrs.emplace("dtype", DType::kFloat);
  return Build("TensorArrayGatherV3",
               {a.handle, Constant(Tensor::Vector(indices)), a.flow},
               std::move(attrs));
}
void Scatter(Array* a, const std::vector<int32_t>& indices, Output value) {
  a->flow =
      Build("TensorArrayScatterV3",
            {a->handle, Constant(Tensor::Vector(indices)), value, a->flow});
}
Node* Concat(const Array& a, AttrMap attrs = {}) {
  attrs.emplace("dtype", DType::kFloat);
  return BuildNode("TensorArrayConcatV3", {a.handle, a.flow}, std::move(attrs));
}
void Split(Array* a, Output value, const std::vector<int64_t>& lengths) {
  a->flow =
      Build("TensorArraySplitV3",
            {a->handle, value, Constant(Tensor::Vector(lengths)), a->flow});
}
Output Size(const Array& a) {
  return Build("TensorArraySizeV3", {a.handle, a.flow});
}
Output Floats(std::initializer_list<float> v) {
  return Constant(Tensor::Vector<float>(v));
}

class TensorArrayTest : public ::testing::Test {
 protected:
  TensorArrayTest() : use_(graph_) {}
  Tensor Eval(Output o, const Feeds& feeds = {}) {
    Result<Tensor> t = Session(graph_).Run(feeds, o);
    EXPECT_TRUE(t.ok()) << t.status();
    return t.ok() ? *t : Tensor();
  }
  std::vector<float> Values(Output o, const Feeds& feeds = {}) {
    const Tensor t = Eval(o, feeds);
    return t.dtype() == DType::kFloat ? t.ToVector<float>()
                                      : std::vector<float>();
  }
  // The step fails with this code, and its message contains these words.
  void Fails(Output o, StatusCode code, const std::vector<std::string>& words) {
    const Result<Tensor> t = Session(graph_).Run(o);
    ASSERT_FALSE(t.ok()) << t->ToString();
    EXPECT_EQ(t.status().code(), code) << t.status();
    for (const std::string& w : words)
      EXPECT_THAT(std::string(t.status().message()), HasSubstr(w));
  }

  Graph graph_;
  WithGraph use_;
};

// ---- Reading and writing ----------------------------------------------------

TEST_F(TensorArrayTest, ReadsWrittenElements) {
  Array a = MakeArray(2);
  Write(&a, 0, Floats({1, 2}));
  Write(&a, 1, Floats({3}));  // Shapes may differ.
  EXPECT_THAT(Values(Read(a, 0)), ElementsAre(1, 2));
  EXPECT_THAT(Values(Read(a, 1)), ElementsAre(3));
  EXPECT_EQ(Eval(Size(a)).scalar<int32_t>(), 2);
}

TEST_F(TensorArrayTest, HoldsEveryType) {
  for (const DType t :
       {DType::kFloat, DType::kDouble, DType::kHalf, DType::kBfloat16,
        DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64,
        DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64,
        DType::kBool, DType::kComplex64, DType::kComplex128, DType::kString}) {
    for (const Shape& shape : {Shape(), Shape({3}), Shape({2, 0})}) {
      Tensor one = *Tensor::Zeros(t, shape);
      if (t == DType::kString)
        for (int64_t i = 0; i < one.num_elements(); ++i)
          one.data<std::string>()[i] = "a string that is not short at all";
      Array a = MakeArray(2, {{"dtype", t}, {"clear_after_read", false}});
      Write(&a, 0, Constant(one));
      Write(&a, 1, Constant(one));
      EXPECT_TRUE(Eval(Read(a, 1, t)).Identical(one)) << one.ToString();
      const Tensor both = Eval(Gather(a, {1, 0}, {{"dtype", t}}));
      EXPECT_EQ(both.dim(0), 2);
      EXPECT_TRUE(both.Rows(0, 1).Reshaped(shape)->Identical(one));
      EXPECT_TRUE(both.Rows(1, 2).Reshaped(shape)->Identical(one));
    }
  }
}

TEST_F(TensorArrayTest, ElementCanBeWrittenOnce) {
  Array a = MakeArray(2, {{"tensor_array_name", "results"}});
  Write(&a, 1, Floats({1}));
  Write(&a, 1, Floats({2}));
  Fails(Size(a), StatusCode::kInvalidArgument,
        {"'results'", "index 1", "written once"});
}

TEST_F(TensorArrayTest, ReadClearsElementByDefault) {
  Array a = MakeArray(1);
  Write(&a, 0, Floats({1}));
  Output once = Read(a, 0);
  Array after = a;
  {
    const ControlDependencies deps({once.node});
    after.flow = Build("Identity", {a.flow});
  }
  Fails(Read(after, 0), StatusCode::kInvalidArgument,
        {"'ta'", "index 0", "clear_after_read = false"});

  Array kept = MakeArray(1, {{"clear_after_read", false}});
  Write(&kept, 0, Floats({1}));
  EXPECT_THAT(Values(Build("AddV2", {Read(kept, 0), Read(kept, 0)})),
              ElementsAre(2));
  // It may not be written again even then.
  const Output read = Read(kept, 0);
  {
    const ControlDependencies deps({read.node});
    kept.flow = Build("Identity", {kept.flow});
  }
  Write(&kept, 0, Floats({1}));
  Fails(kept.flow, StatusCode::kInvalidArgument, {"index 0", "read"});
}

TEST_F(TensorArrayTest, IndicesOutOfRangeAreErrors) {
  for (const int i : {-1, 2, 1000000}) {
    Array a = MakeArray(2);
    Fails(Read(a, i), StatusCode::kInvalidArgument,
          {"'ta", absl::StrCat("index ", i), "[0, 2)"});
    Write(&a, i, Floats({1}));
    Fails(a.flow, StatusCode::kInvalidArgument,
          {absl::StrCat("index ", i), "does not grow"});
  }
}

TEST_F(TensorArrayTest, ADynamicArrayGrows) {
  Array a = MakeArray(0, {{"dynamic_size", true}});
  EXPECT_EQ(Eval(Size(a)).scalar<int32_t>(), 0);
  Write(&a, 5, Floats({1}));
  EXPECT_EQ(Eval(Size(a)).scalar<int32_t>(), 6);
  EXPECT_THAT(Values(Read(a, 5)), ElementsAre(1));
  Fails(Read(a, 6), StatusCode::kInvalidArgument, {"index 6", "[0, 6)"});
  Write(&a, -1, Floats({1}));
  Fails(a.flow, StatusCode::kInvalidArgument, {"index -1"});
}

TEST_F(TensorArrayTest, InvalidSizesAreErrors) {
  Fails(Size(MakeArray(-1)), StatusCode::kInvalidArgument, {"size", "-1"});
  const Result<Tensor> t = Session(graph_).Run(Size(MakeArray(INT32_MAX)));
  EXPECT_TRUE(t.ok() || t.status().code() == StatusCode::kResourceExhausted)
      << t.status();
}

TEST_F(TensorArrayTest, UnwrittenElementIsZeroIfShapeIsKnown) {
  Array known = MakeArray(2, {{"element_shape", PartialShape({2})}});
  EXPECT_THAT(Values(Read(known, 1)), ElementsAre(0, 0));
  Array unknown = MakeArray(2);
  Fails(Read(unknown, 1), StatusCode::kInvalidArgument,
        {"index 1", "written", "element_shape"});
  // One write determines the shape of all if they are identical.
  Array inferred = MakeArray(2, {{"identical_element_shapes", true}});
  Write(&inferred, 0, Floats({1, 2, 3}));
  EXPECT_THAT(Values(Gather(inferred, {0, 1})), ElementsAre(1, 2, 3, 0, 0, 0));
}

TEST_F(TensorArrayTest, ElementsMustFitTheDeclaredShape) {
  Array a = MakeArray(2, {{"element_shape", PartialShape({-1, 2})}});
  Write(&a, 0, Constant(Tensor(DType::kFloat, Shape({5, 2}))));
  EXPECT_EQ(Eval(Read(a, 0)).dim(0), 5);
  Write(&a, 1, Floats({1, 2}));
  Fails(a.flow, StatusCode::kInvalidArgument, {"index 1", "[?,2]", "[2]"});

  Array same = MakeArray(2, {{"identical_element_shapes", true}});
  Write(&same, 0, Floats({1, 2}));
  Write(&same, 1, Floats({1}));
  Fails(same.flow, StatusCode::kInvalidArgument,
        {"index 1", "[2]", "[1]", "infer_shape"});
}

TEST_F(TensorArrayTest, TypesMustAgree) {
  Array a = MakeArray(1);
  Array wrong = a;
  Write(&wrong, 0, Constant<int32_t>(1));
  Fails(wrong.flow, StatusCode::kInvalidArgument, {"float", "int32"});
  Fails(Read(a, 0, DType::kDouble), StatusCode::kInvalidArgument,
        {"float", "double"});
  Write(&a, 0, Floats({1}));
  Fails(Build("TensorArrayReadV3",
              {Build("VarHandleOp", {},
                     {{"dtype", DType::kFloat}, {"shape", PartialShape({1})}}),
               Constant<int32_t>(0), a.flow},
              {{"dtype", DType::kFloat}}),
        StatusCode::kInvalidArgument, {"expected a TensorArray", "Variable"});
}

TEST_F(TensorArrayTest, ClosedArrayCannotBeUsed) {
  Array a = MakeArray(1);
  Write(&a, 0, Floats({1}));
  Node* close = nullptr;
  {
    const ControlDependencies after({a.flow.node});
    close = BuildNode("TensorArrayCloseV3", {a.handle});
  }
  const ControlDependencies after({close});
  Fails(Size(a), StatusCode::kInvalidArgument, {"'ta'", "closed"});
}

TEST_F(TensorArrayTest, EveryStepHasItsOwnArray) {
  Array a = MakeArray(1);
  Write(&a, 0, Floats({1}));
  const Output read = Read(a, 0);
  Session session(graph_);
  for (int i = 0; i < 3; ++i) {
    const Result<Tensor> t = session.Run(read);
    ASSERT_TRUE(t.ok()) << t.status();
  }
}

// ---- Batched access ---------------------------------------------------------

TEST_F(TensorArrayTest, GatherStacksInIndexOrder) {
  Array a = MakeArray(3, {{"clear_after_read", false}});
  for (int i = 0; i < 3; ++i)
    Write(&a, i, Floats({1.0f * static_cast<float>(i), 10}));
  EXPECT_THAT(Values(Gather(a, {2, 0, 2})), ElementsAre(2, 10, 0, 10, 2, 10));
  const Tensor one = Eval(Gather(a, {1}));
  EXPECT_TRUE(one.shape() == Shape({1, 2}));
}

TEST_F(TensorArrayTest, EmptyGatherNeedsAShape) {
  Array a = MakeArray(0);
  const Tensor t =
      Eval(Gather(a, {}, {{"element_shape", PartialShape({2, 3})}}));
  EXPECT_TRUE(t.shape() == Shape({0, 2, 3}));
  Fails(Gather(a, {}), StatusCode::kUnimplemented, {"element shape"});
  Array known = MakeArray(0, {{"element_shape", PartialShape({2})}});
  EXPECT_TRUE(Eval(Gather(known, {})).shape() == Shape({0, 2}));
}

TEST_F(TensorArrayTest, GatherRequiresEqualShapes) {
  for (const bool scalar_first : {false, true}) {
    Array a = MakeArray(2);
    Write(&a, 0, scalar_first ? Constant(1.0f) : Floats({1, 2}));
    Write(&a, 1, Floats({1, 2, 3}));
    Fails(Gather(a, {0, 1}), StatusCode::kInvalidArgument,
          {scalar_first ? "[] at" : "[2] at", "[3]", "index 1"});
  }
}

TEST_F(TensorArrayTest, ScatterSplitsRows) {
  Array a = MakeArray(4);
  Scatter(&a, {3, 1}, Constant(Tensor::Of<float>({2, 2}, {1, 2, 3, 4})));
  EXPECT_THAT(Values(Read(a, 3)), ElementsAre(1, 2));
  EXPECT_THAT(Values(Read(a, 1)), ElementsAre(3, 4));
  // Scatter determines the shape: unwritten elements are zeros.
  EXPECT_THAT(Values(Read(a, 0)), ElementsAre(0, 0));

  Array scalars = MakeArray(2);
  Scatter(&scalars, {0, 1}, Floats({5, 6}));
  const Tensor t = Eval(Read(scalars, 1));
  EXPECT_TRUE(t.shape() == Shape());
  EXPECT_EQ(t.scalar<float>(), 6);

  Array dynamic = MakeArray(0, {{"dynamic_size", true}});
  Scatter(&dynamic, {0, 7}, Floats({5, 6}));
  EXPECT_EQ(Eval(Size(dynamic)).scalar<int32_t>(), 8);
}

TEST_F(TensorArrayTest, ScatterRejectsMismatches) {
  Array few = MakeArray(2);
  Scatter(&few, {0}, Floats({5, 6}));
  Fails(few.flow, StatusCode::kInvalidArgument, {"1 indices", "2 rows"});
  Array outside = MakeArray(2);
  Scatter(&outside, {0, 2}, Floats({5, 6}));
  Fails(outside.flow, StatusCode::kInvalidArgument, {"index 2", "[0, 2)"});
  Array negative = MakeArray(2);
  Scatter(&negative, {0, -1}, Floats({5, 6}));
  Fails(negative.flow, StatusCode::kInvalidArgument, {"index -1"});
  Array twice = MakeArray(2);
  Scatter(&twice, {1, 1}, Floats({5, 6}));
  Fails(twice.flow, StatusCode::kInvalidArgument, {"index 1", "once"});
}

TEST_F(TensorArrayTest, ConcatJoinsRowsOfDifferentLengths) {
  Array a = MakeArray(3);
  Write(&a, 0, Constant(Tensor::Of<float>({1, 2}, {1, 2})));
  Write(&a, 1, Constant(Tensor(DType::kFloat, Shape({0, 2}))));
  Write(&a, 2, Constant(Tensor::Of<float>({2, 2}, {3, 4, 5, 6})));
  Node* n = Concat(a);
  const auto out = Session(graph_).Run({Output(n, 0), Output(n, 1)});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_TRUE((*out)[0].shape() == Shape({3, 2}));
  EXPECT_THAT((*out)[0].ToVector<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT((*out)[1].ToVector<int64_t>(), ElementsAre(1, 0, 2));
}

TEST_F(TensorArrayTest, ConcatRejectsMismatches) {
  Array scalars = MakeArray(1);
  Write(&scalars, 0, Constant(1.0f));
  Fails(Output(Concat(scalars), 0), StatusCode::kInvalidArgument,
        {"scalar", "index 0"});
  Array mixed = MakeArray(2);
  Write(&mixed, 0, Constant(Tensor(DType::kFloat, Shape({1, 2}))));
  Write(&mixed, 1, Constant(Tensor(DType::kFloat, Shape({1, 3}))));
  Fails(Output(Concat(mixed), 0), StatusCode::kInvalidArgument,
        {"[1,2]", "[1,3]"});
  Array empty = MakeArray(0);
  Fails(Output(Concat(empty), 0), StatusCode::kUnimplemented, {"except0"});
  const Tensor t =
      Eval(Concat(empty, {{"element_shape_except0", PartialShape({4})}}));
  EXPECT_TRUE(t.shape() == Shape({0, 4}));
}

TEST_F(TensorArrayTest, SplitGivesEachElementItsRows) {
  Array a = MakeArray(3);
  Split(&a, Floats({1, 2, 3}), {2, 0, 1});
  EXPECT_THAT(Values(Read(a, 0)), ElementsAre(1, 2));
  EXPECT_THAT(Values(Read(a, 1)), ElementsAre());
  EXPECT_THAT(Values(Read(a, 2)), ElementsAre(3));
}

TEST_F(TensorArrayTest, SplitRefusesLengthsThatDoNotFit) {
  const std::vector<std::pair<std::vector<int64_t>, std::string>> cases = {
      {{1, 1}, "got 2"},
      {{4, -1}, "-1"},
      {{3}, "1 lengths"},
      {{1, 1, 1}, "3 lengths"},
      {{INT64_MAX, INT64_MAX}, "lengths"}};
  for (const auto& [lengths, word] : cases) {
    Array a = MakeArray(2);
    Split(&a, Floats({1, 2, 3}), lengths);
    Fails(a.flow, StatusCode::kInvalidArgument, {word});
  }
}

// ---- Shapes -----------------------------------------------------------------

TEST_F(TensorArrayTest, ReadsHaveTheDeclaredShape) {
  Array a = MakeArray(3, {{"element_shape", PartialShape({-1, 2})}});
  EXPECT_EQ(Read(a, 0).shape(), PartialShape({-1, 2}));
  EXPECT_EQ(Gather(a, {0, 1}).shape(), PartialShape({2, -1, 2}));
  EXPECT_EQ(Output(Concat(a), 0).shape(), PartialShape({-1, 2}));
  Node* grad = BuildNode("TensorArrayGradWithShape",
                         {a.handle, a.flow, Constant(Tensor::Vector({5}))},
                         {{"source", "s"}});
  EXPECT_EQ(Read({Output(grad, 0), Output(grad, 1)}, 0).shape(),
            PartialShape({5, -1, 2}));
  EXPECT_FALSE(Read(MakeArray(3), 0).shape().rank_known());
}

TEST_F(TensorArrayTest, FlowsAreRecognized) {
  Array a = MakeArray(3);
  EXPECT_TRUE(IsTensorArrayFlow(a.flow));
  EXPECT_FALSE(IsTensorArrayFlow(a.handle));
  Write(&a, 0, Floats({1}));
  EXPECT_TRUE(IsTensorArrayFlow(Build("Identity", {a.flow})));
  EXPECT_FALSE(IsTensorArrayFlow(Read(a, 0)));
  EXPECT_FALSE(IsTensorArrayFlow(Constant(1.0f)));
}

// ---- Gradients --------------------------------------------------------------

class TensorArrayGradTest : public TensorArrayTest {
 protected:
  // d sum(weights * y) / dx by Grad, against central differences at `at`.
  void Check(Output x, Output y, const Tensor& at) {
    std::mt19937 rng(7);
    const Tensor y0 = Eval(y, {{x, at}});
    Tensor weights(DType::kDouble, y0.shape());
    for (int64_t i = 0; i < weights.num_elements(); ++i)
      weights.data<double>()[i] =
          std::uniform_real_distribution<double>(-1, 1)(rng);
    const Output loss = Build("Mul", {y, Constant(weights)});
    const Output g = Grad(loss, x);
    ASSERT_TRUE(g.valid()) << graph_.status();
    const Tensor got = Eval(g, {{x, at}});
    ASSERT_TRUE(got.shape() == at.shape()) << got.ToString();
    constexpr double kStep = 1e-5;
    for (int64_t i = 0; i < at.num_elements(); ++i) {
      double sums[2];
      for (const int side : {0, 1}) {
        Tensor moved = *at.Clone();
        moved.data<double>()[i] += side == 0 ? -kStep : kStep;
        const Tensor l = Eval(loss, {{x, moved}});
        sums[side] = 0;
        for (const double v : l.flat<double>()) sums[side] += v;
      }
      EXPECT_NEAR(got.data<double>()[i], (sums[1] - sums[0]) / (2 * kStep),
                  1e-6)
          << "element " << i;
    }
  }
  Output Input(const PartialShape& shape) {
    return Build("Placeholder", {},
                 {{"dtype", DType::kDouble}, {"shape", shape}});
  }
  Tensor Random(const Shape& shape) {
    Tensor t(DType::kDouble, shape);
    for (int64_t i = 0; i < t.num_elements(); ++i)
      t.data<double>()[i] = std::uniform_real_distribution<double>(-2, 2)(rng_);
    return t;
  }
  std::mt19937 rng_{12};
  const AttrMap kDouble = {{"dtype", DType::kDouble}};
  const AttrMap kKept = {{"dtype", DType::kDouble},
                         {"clear_after_read", false}};
};

TEST_F(TensorArrayGradTest, ReadGradientReachesTheWrite) {
  const Output x = Input({3});
  Array a = MakeArray(2, kDouble);
  Write(&a, 1, Build("Sin", {x}));
  Check(x, Build("Square", {Read(a, 1, DType::kDouble)}), Random({3}));
}

TEST_F(TensorArrayGradTest, GradientsOfSeveralReadsAddUp) {
  const Output x = Input({3});
  Array a = MakeArray(1, kKept);
  Write(&a, 0, Build("Sin", {x}));
  const Output once = Build("Square", {Read(a, 0, DType::kDouble)});
  const Output again =
      Build("Mul", {once, Build("Exp", {Read(a, 0, DType::kDouble)})});
  const Output stacked =
      Build("Sum", {Gather(a, {0, 0}, kDouble), Constant<int32_t>(0)});
  Check(x, Build("AddN", {once, again, stacked}), Random({3}));
}

TEST_F(TensorArrayGradTest, ScalarGradientsAddUp) {
  const Output x = Input(PartialShape::Scalar());
  Array a = MakeArray(1, kKept);
  Write(&a, 0, Build("Sin", {x}));
  Check(x,
        Build("Mul", {Read(a, 0, DType::kDouble),
                      Build("Exp", {Read(a, 0, DType::kDouble)})}),
        Random({}));
}

TEST_F(TensorArrayGradTest, UnreadElementsHaveZeroGradient) {
  const Output x = Input({2, 3});
  Array a = MakeArray(3, kDouble);
  Scatter(&a, {2, 0}, Build("Sin", {x}));
  Check(x, Build("Square", {Read(a, 2, DType::kDouble)}), Random({2, 3}));
}

TEST_F(TensorArrayGradTest, UnreadElementsOfDifferentShapesHaveZeroGradient) {
  const Output x = Input({2}), y = Input({3});
  Array a = MakeArray(2, kDouble);
  Write(&a, 0, x);
  Write(&a, 1, y);
  const Output read = Read(a, 0, DType::kDouble);
  const std::vector<Output> g = Grad({read}, {x, y});
  EXPECT_THAT(
      Eval(g[0], {{x, Random({2})}, {y, Random({3})}}).ToVector<double>(),
      ElementsAre(1, 1));
  EXPECT_THAT(
      Eval(g[1], {{x, Random({2})}, {y, Random({3})}}).ToVector<double>(),
      ElementsAre(0, 0, 0));
}

TEST_F(TensorArrayGradTest, DifferentiatesGatherAndScatter) {
  const Output x = Input({4, 2});
  Array a = MakeArray(4, kKept);
  Scatter(&a, {3, 1, 0, 2}, Build("Tanh", {x}));
  Check(x, Build("Square", {Gather(a, {0, 0, 3, 1}, kDouble)}), Random({4, 2}));
}

TEST_F(TensorArrayGradTest, DifferentiatesConcatAndSplit) {
  const Output x = Input({5, 2});
  Array a = MakeArray(3, kDouble);
  Split(&a, Build("Tanh", {x}), {2, 0, 3});
  Check(x, Build("Square", {Output(Concat(a, kDouble), 0)}), Random({5, 2}));
}

TEST_F(TensorArrayGradTest, DifferentiatesGrowingArray) {
  const Output x = Input({2});
  Array a = MakeArray(0, {{"dtype", DType::kDouble}, {"dynamic_size", true}});
  Write(&a, 0, x);
  Write(&a, 3, Build("Sin", {x}));
  Check(x, Build("Square", {Read(a, 3, DType::kDouble)}), Random({2}));
}

TEST_F(TensorArrayGradTest, SeparateGradientCallsAreIndependent) {
  const Output x = Input({2});
  Array a = MakeArray(1, kKept);
  Write(&a, 0, x);
  const Output read = Read(a, 0, DType::kDouble);
  const Output one = Grad(Build("Square", {read}), x);
  const Output two = Grad(Build("Exp", {read}), x);
  const auto got =
      Session(graph_).Run({{x, Tensor::Vector<double>({3, 0})}}, {one, two});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT((*got)[0].ToVector<double>(), ElementsAre(6, 0));
  EXPECT_NEAR((*got)[1].data<double>()[0], std::exp(3.0), 1e-12);
}

TEST_F(TensorArrayGradTest, SecondOrderIsSupported) {
  const Output x = Input({3});
  Array a = MakeArray(2, kDouble);
  Write(&a, 1, Build("Sin", {x}));
  const Output y = Build("Square", {Read(a, 1, DType::kDouble)});
  Check(x, Build("Square", {Grad(y, x)}), Random({3}));
}

TEST_F(TensorArrayGradTest, SecondOrderOfSummedGradientsIsSupported) {
  const Output x = Input({3});
  Array a = MakeArray(1, kKept);
  Write(&a, 0, Build("Sin", {x}));
  const Output y = Build("Mul", {Build("Square", {Read(a, 0, DType::kDouble)}),
                                 Build("Exp", {Read(a, 0, DType::kDouble)})});
  const Output g = Grad(y, x);
  Check(x, Build("Square", {g}), Random({3}));
  Check(x, Grad(Build("Square", {g}), x), Random({3}));
}

TEST_F(TensorArrayGradTest, SecondOrderOfGatherAndScatterIsSupported) {
  const Output x = Input({3, 2});
  Array a = MakeArray(3, kDouble);
  Scatter(&a, {2, 1, 0}, Build("Sin", {x}));
  const Output y = Build("Square", {Gather(a, {0, 1, 2}, kDouble)});
  Check(x, Build("Square", {Grad(y, x)}), Random({3, 2}));
}

TEST_F(TensorArrayGradTest, SecondOrderOfConcatAndSplitIsSupported) {
  const Output x = Input({3, 2});
  Array a = MakeArray(2, kDouble);
  Split(&a, Build("Sin", {x}), {1, 2});
  const Output y = Build("Square", {Output(Concat(a, kDouble), 0)});
  Check(x, Build("Square", {Grad(y, x)}), Random({3, 2}));
}

TEST_F(TensorArrayGradTest, GradWithShapePrependsTheShape) {
  Array a = MakeArray(2, kDouble);
  Write(&a, 0, Constant(Tensor::Vector<double>({1, 2})));
  Node* n = BuildNode("TensorArrayGradWithShape",
                      {a.handle, a.flow, Constant(Tensor::Vector({3}))},
                      {{"source", "s"}});
  Array g = {Output(n, 0), Output(n, 1)};
  EXPECT_TRUE(Eval(Read(g, 0, DType::kDouble)).shape() == Shape({3, 2}));
  Write(&g, 0, Constant(Tensor::Vector<double>({1, 2})));
  Fails(g.flow, StatusCode::kInvalidArgument, {"[3,2]", "[2]"});
}

// ---- The array alone --------------------------------------------------------

std::shared_ptr<TensorArrayState> NewArray(int64_t size, bool clear = true) {
  auto options = std::make_shared<TensorArrayDecl>();
  options->name = "array";
  options->dtype = DType::kFloat;
  options->clear_after_read = clear;
  return std::make_shared<TensorArrayState>(options, size);
}

TEST(TensorArrayStateTest, ThreadsMayWriteAndReadDisjointIndices) {
  constexpr int kThreads = 8, kEach = 500;
  const auto array = NewArray(kThreads * kEach);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&array, t] {
      for (int i = t; i < kThreads * kEach; i += kThreads) {
        Tensor value(DType::kFloat, Shape({4}));
        std::fill_n(value.data<float>(), 4, static_cast<float>(i));
        ASSERT_TRUE(array->Write(i, std::move(value)).ok());
        if (i % 3 == 0) {
          Tensor read;
          ASSERT_TRUE(array->Read(i, &read).ok());
          ASSERT_EQ(read.data<float>()[3], static_cast<float>(i));
        }
      }
    });
  for (std::thread& t : threads) t.join();
  for (int i = 0; i < kThreads * kEach; ++i) {
    Tensor read;
    EXPECT_EQ(array->Read(i, &read).ok(), i % 3 != 0) << i;
  }
}

TEST(TensorArrayStateTest, ThreadsMayAddToOneGradient) {
  constexpr int kThreads = 8, kEach = 200;
  const auto array = NewArray(1);
  ASSERT_TRUE(array->Write(0, Tensor::Vector<float>({0, 0, 0})).ok());
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&array] {
      Tensor handle;
      ASSERT_TRUE(array->Gradient("gradients", nullptr, &handle).ok());
      auto* g = static_cast<TensorArrayState*>(
          handle.scalar<ResourceHandle>().resource.get());
      for (int i = 0; i < kEach; ++i)
        ASSERT_TRUE(g->Write(0, Tensor::Vector<float>({1, 2, 3})).ok());
    });
  for (std::thread& t : threads) t.join();
  Tensor handle, sum;
  ASSERT_TRUE(array->Gradient("gradients", nullptr, &handle).ok());
  ASSERT_TRUE(static_cast<TensorArrayState*>(
                  handle.scalar<ResourceHandle>().resource.get())
                  ->Read(0, &sum)
                  .ok());
  EXPECT_THAT(sum.ToVector<float>(),
              ElementsAre(kThreads * kEach, 2 * kThreads * kEach,
                          3 * kThreads * kEach));
}

TEST(TensorArrayStateTest, SumsDoNotChangeSharedTensors) {
  const auto array = NewArray(1);
  ASSERT_TRUE(array->Write(0, Tensor::Vector<float>({0, 0, 0})).ok());
  Tensor handle;
  ASSERT_TRUE(array->Gradient("gradients", nullptr, &handle).ok());
  auto* g = static_cast<TensorArrayState*>(
      handle.scalar<ResourceHandle>().resource.get());
  const Tensor one = Tensor::Vector<float>({1, 1, 1});
  const Tensor two = Tensor::Vector<float>({2, 2, 2});
  ASSERT_TRUE(g->Write(0, one).ok());
  ASSERT_TRUE(g->Write(0, two).ok());
  ASSERT_TRUE(g->Write(0, two).ok());
  EXPECT_THAT(one.ToVector<float>(), ElementsAre(1, 1, 1));
  EXPECT_THAT(two.ToVector<float>(), ElementsAre(2, 2, 2));
  Tensor sum;
  ASSERT_TRUE(g->Read(0, &sum).ok());
  EXPECT_THAT(sum.ToVector<float>(), ElementsAre(5, 5, 5));
}

TEST(TensorArrayStateTest, ClearingReadsMoveTheTensor) {
  const auto array = NewArray(1);
  Tensor big(DType::kFloat, Shape({1000}));
  const void* data = std::as_const(big).raw();
  ASSERT_TRUE(array->Write(0, std::move(big)).ok());
  Tensor read;
  ASSERT_TRUE(array->Read(0, &read).ok());
  EXPECT_EQ(std::as_const(read).raw(), data);
  EXPECT_TRUE(read.unique());
}

// The rows of one tensor, small ones and large ones, read in any order: each
// keeps its value, independent of the others, and the tensor is freed when the
// last one was read.
TEST(TensorArrayStateTest, ReadRowsAreIndependent) {
  for (const int64_t width : {1, 3, 100}) {
    constexpr int kRows = 5;
    const auto array = NewArray(kRows);
    Tensor rows(DType::kFloat, Shape({kRows, width}));
    for (int64_t i = 0; i < kRows * width; ++i)
      rows.data<float>()[i] = static_cast<float>(i);
    const Tensor before = *rows.Clone();
    const std::vector<int32_t> all = {0, 1, 2, 3, 4};
    ASSERT_TRUE(array->Scatter(all, rows).ok());
    EXPECT_FALSE(
        array->Write(2, *Tensor::Make(DType::kFloat, Shape({width}))).ok());
    for (const int i : {4, 0, 2, 1, 3}) {
      Tensor row;
      ASSERT_TRUE(array->Read(i, &row).ok());
      EXPECT_EQ(row.shape(), Shape({width}));
      EXPECT_EQ(row.data<float>()[width - 1],
                static_cast<float>((i + 1) * width - 1));
      if (row.unique()) row.data<float>()[0] = -1;
      EXPECT_FALSE(array->Read(i, &row).ok());
    }
    EXPECT_TRUE(rows.Identical(before));
    EXPECT_TRUE(rows.unique()) << width;
  }
}

TEST(TensorArrayStateTest, KeptRowsCanBeReadAgainAndStacked) {
  const Tensor rows = Tensor::Of<double>(Shape({3, 2}), {1, 2, 3, 4, 5, 6});
  auto options = std::make_shared<TensorArrayDecl>();
  options->dtype = DType::kDouble;
  options->clear_after_read = false;
  options->dynamic_size = true;
  TensorArrayState grown(options, 0);
  ASSERT_TRUE(grown.Scatter(std::vector<int32_t>{0, 1, 2}, rows).ok());
  ASSERT_TRUE(grown.Write(3, Tensor::Vector<double>({7, 8})).ok());
  for (int times = 0; times < 2; ++times) {
    Tensor row, all;
    ASSERT_TRUE(grown.Read(1, &row).ok());
    EXPECT_THAT(row.ToVector<double>(), ElementsAre(3, 4));
    ASSERT_TRUE(grown
                    .Gather(std::vector<int32_t>{3, 2, 0, 1}, PartialShape(),
                            Allocator::Cpu(), &all)
                    .ok());
    EXPECT_THAT(all.ToVector<double>(), ElementsAre(7, 8, 5, 6, 1, 2, 3, 4));
  }
}

TEST(TensorArrayStateTest, GradientRowsAddUp) {
  const auto array = NewArray(2);
  for (int i = 0; i < 2; ++i)
    ASSERT_TRUE(array->Write(i, Tensor::Vector<float>({0, 0, 0})).ok());
  Tensor handle, sum;
  ASSERT_TRUE(array->Gradient("gradients", nullptr, &handle).ok());
  auto* g = static_cast<TensorArrayState*>(
      handle.scalar<ResourceHandle>().resource.get());
  const Tensor rows = Tensor::Of<float>(Shape({2, 3}), {1, 2, 3, 4, 5, 6});
  for (int times = 0; times < 2; ++times)
    ASSERT_TRUE(g->Scatter(std::vector<int32_t>{0, 1}, rows).ok());
  ASSERT_TRUE(g->Write(1, Tensor::Vector<float>({10, 10, 10})).ok());
  ASSERT_TRUE(g->Read(0, &sum).ok());
  EXPECT_THAT(sum.ToVector<float>(), ElementsAre(2, 4, 6));
  ASSERT_TRUE(g->Read(1, &sum).ok());
  EXPECT_THAT(sum.ToVector<float>(), ElementsAre(18, 20, 22));
  EXPECT_THAT(rows.ToVector<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
}

// After a step, even one that failed with elements in the array, nothing
// remains.
TEST_F(TensorArrayTest, StepEndReleasesEverything) {
  const Output n = Build("Placeholder", {}, {{"dtype", DType::kInt32}});
  Array a = MakeArray(n, {{"clear_after_read", false}});
  Tensor big(DType::kFloat, Shape({1000}));
  std::fill_n(big.data<float>(), 1000, 1.0f);
  for (int i = 0; i < 3; ++i) Write(&a, i, Build("Square", {Constant(big)}));
  const Output sum = Build("Sum", {Gather(a, {0, 1, 2}), Constant<int32_t>(0)});
  SessionOptions options;
  options.constant_folding = false;
  Session session(graph_, options);
  ASSERT_TRUE(session.Run({{n, Tensor::Scalar<int32_t>(3)}}, sum).ok());
  const int64_t before = Allocator::Cpu()->stats().live_bytes;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(session.Run({{n, Tensor::Scalar<int32_t>(3)}}, sum).ok());
    EXPECT_FALSE(session.Run({{n, Tensor::Scalar<int32_t>(2)}}, sum).ok());
    EXPECT_EQ(Allocator::Cpu()->stats().live_bytes, before);
  }
}

}  // namespace
}  // namespace sluice
