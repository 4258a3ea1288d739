// TensorList ops: their results, their errors and their gradients.
#include "ops/tensor_array/tensor_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/sanitizers.h"
#include "client/autodiff/gradients.h"
#include "client/control/loops.h"
#include "graph/builder.h"
#include "session/session.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TensorListTest : public ::testing::Test {
 protected:
  TensorListTest() : use_(graph_) {}

  // ---- Ops, for items of type dtype_ ----
  Output Any() { return Constant(int32_t{-1}); }  // No shape is known.
  Output Dims(const std::vector<int32_t>& dims) { return IntVector(dims); }
  Output Empty(Output shape, int most = -1) {
    return Build("EmptyTensorList", {shape, Constant<int32_t>(most)}, Of());
  }
  Output Reserve(Output shape, int size) {
    return Build("TensorListReserve", {shape, Constant<int32_t>(size)}, Of());
  }
  Output Push(Output list, Output x) {
    return Build("TensorListPushBack", {list, x});
  }
  Node* Pop(Output list, Output shape = {}) {
    return BuildNode("TensorListPopBack", {list, shape.valid() ? shape : Any()},
                     Of());
  }
  Output Get(Output list, int i, Output shape = {}) {
    return Build("TensorListGetItem",
                 {list, Constant<int32_t>(i), shape.valid() ? shape : Any()},
                 Of());
  }
  Output Set(Output list, int i, Output x, bool resize = false) {
    return Build("TensorListSetItem", {list, Constant<int32_t>(i), x},
                 {{"resize_if_index_out_of_bounds", resize}});
  }
  Output Length(Output list) { return Build("TensorListLength", {list}); }
  Output Resize(Output list, int n) {
    return Build("TensorListResize", {list, Constant<int32_t>(n)});
  }
  Output Stack(Output list, Output shape = {}, int n = -1) {
    return Build("TensorListStack", {list, shape.valid() ? shape : Any()},
                 {{"element_dtype", dtype_}, {"num_elements", n}});
  }
  Output FromTensor(Output x, Output shape = {}) {
    return Build("TensorListFromTensor", {x, shape.valid() ? shape : Any()});
  }
  Output Gather(Output list, const std::vector<int32_t>& at,
                Output shape = {}) {
    return Build("TensorListGather",
                 {list, Dims(at), shape.valid() ? shape : Any()}, Of());
  }
  Output Scatter(Output x, const std::vector<int32_t>& at, int n = -1) {
    return Build("TensorListScatterV2",
                 {x, Dims(at), Any(), Constant<int32_t>(n)});
  }
  Output ScatterInto(Output list, Output x, const std::vector<int32_t>& at) {
    return Build("TensorListScatterIntoExistingList", {list, x, Dims(at)});
  }
  Node* Concat(Output list, Output shape = {},
               const std::vector<int64_t>& leading = {}) {
    return BuildNode("TensorListConcatV2",
                     {list, shape.valid() ? shape : Any(),
                      Constant(Tensor::Vector(leading))},
                     Of());
  }
  Output Split(Output x, const std::vector<int64_t>& lengths) {
    return Build("TensorListSplit",
                 {x, Any(), Constant(Tensor::Vector(lengths))});
  }
  AttrMap Of() { return {{"element_dtype", dtype_}}; }
  static Output Row(std::initializer_list<float> v) {
    return Constant(Tensor::Vector<float>(v));
  }

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
  void Fails(Output o, const std::vector<std::string>& words) {
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
    const Result<Tensor> t = Session(graph_).Run(o);
    ASSERT_FALSE(t.ok()) << t->ToString();
    EXPECT_EQ(t.status().code(), StatusCode::kInvalidArgument) << t.status();
    for (const std::string& w : words)
      EXPECT_THAT(std::string(t.status().message()), HasSubstr(w));
  }

  DType dtype_ = DType::kFloat;
  Graph graph_;
  WithGraph use_;
};

// ---- Items ------------------------------------------------------------------

TEST_F(TensorListTest, PopsInReverseOrder) {
  const Output list = Push(Push(Empty(Any()), Row({1})), Row({2, 3}));
  EXPECT_EQ(Eval(Length(list)).scalar<int32_t>(), 2);
  Node* pop = Pop(list);
  EXPECT_THAT(Values(Output(pop, 1)), ElementsAre(2, 3));
  EXPECT_THAT(Values(Output(Pop(Output(pop, 0)), 1)), ElementsAre(1));
  // Lists are values: the pops changed nothing.
  EXPECT_EQ(Eval(Build("AddV2", {Length(list), Length(Output(pop, 0))}))
                .scalar<int32_t>(),
            3);
}

TEST_F(TensorListTest, PopOfEmptyListIsAnError) {
  Fails(Output(Pop(Empty(Any())), 1), {"empty"});
}

TEST_F(TensorListTest, PushBeyondDeclaredCapacityIsAnError) {
  const Output full = Push(Empty(Any(), 1), Row({1}));
  Fails(Length(Push(full, Row({1}))), {"at most 1", "max_num_elements"});
  Fails(Length(Resize(full, 2)), {"at most 1"});
}

TEST_F(TensorListTest, ItemsMustFitTheDeclaredShape) {
  const Output list = Empty(Dims({-1, 2}));
  Fails(Length(Push(list, Row({1}))), {"[?,2]", "[1]"});
  const Output long_list = Reserve(Dims({-1, 2}), 2);
  Fails(Length(Set(long_list, 0, Row({1}))), {"[?,2]", "[1]"});
  Fails(Length(ScatterInto(long_list, Row({1}), {0})), {"[?,2]", "[]"});
  EXPECT_THAT(Eval(Build("TensorListElementShape", {list},
                         {{"shape_type", DType::kInt64}}))
                  .ToVector<int64_t>(),
              ElementsAre(-1, 2));
  EXPECT_EQ(Eval(Build("TensorListElementShape", {Empty(Any())},
                       {{"shape_type", DType::kInt32}}))
                .scalar<int32_t>(),
            -1);
}

TEST_F(TensorListTest, TypesMustAgree) {
  const Output list = Empty(Any());
  Fails(Length(Push(list, Constant<int32_t>(1))), {"int32", "float"});
  dtype_ = DType::kDouble;
  Fails(Get(Push(list, Row({1})), 0), {"double", "float"});
  Fails(Length(Build("ZerosLike",
                     {Build("Placeholder", {}, {{"dtype", DType::kVariant}})})),
        {});
}

TEST_F(TensorListTest, SetItemReplacesItem) {
  const Output list = Reserve(Any(), 3);
  const Output set = Set(Set(list, 1, Row({1})), 1, Row({5, 6}));
  EXPECT_THAT(Values(Get(set, 1)), ElementsAre(5, 6));
  for (const int i : {-1, 3}) {
    Fails(Get(list, i), {absl::StrCat(i), "[0, 3)"});
    Fails(Length(Set(list, i, Row({1}))), {absl::StrCat(i), "[0, 3)"});
  }
  EXPECT_EQ(
      Eval(Length(Set(list, 7, Row({1}), /*resize=*/true))).scalar<int32_t>(),
      8);
  Fails(Length(Set(list, -1, Row({1}), true)), {"-1"});
}

TEST_F(TensorListTest, UnsetItemsAreZeroIfShapeIsKnown) {
  EXPECT_THAT(Values(Get(Reserve(Dims({2}), 1), 0)), ElementsAre(0, 0));
  EXPECT_THAT(Values(Get(Reserve(Any(), 1), 0, Dims({2}))), ElementsAre(0, 0));
  EXPECT_THAT(Values(Output(Pop(Reserve(Any(), 1), Dims({2})), 1)),
              ElementsAre(0, 0));
  // The other items provide the shape, too.
  EXPECT_THAT(Values(Get(Set(Reserve(Any(), 2), 1, Row({1, 2})), 0)),
              ElementsAre(0, 0));
  Fails(Get(Reserve(Any(), 1), 0), {"element_shape"});
  Fails(Get(Reserve(Dims({-1}), 1), 0), {"[?]"});
  Fails(Output(Pop(Reserve(Any(), 1)), 1), {"element_shape"});
}

TEST_F(TensorListTest, InvalidSizesAreErrors) {
  Fails(Length(Reserve(Any(), -1)), {"num_elements", "-1"});
  Fails(Length(Resize(Empty(Any()), -1)), {"size", "-1"});
}

TEST_F(TensorListTest, ResizeTruncatesAndExtends) {
  const Output list = Push(Push(Empty(Dims({1})), Row({1})), Row({2}));
  EXPECT_THAT(Values(Stack(Resize(list, 1))), ElementsAre(1));
  EXPECT_THAT(Values(Stack(Resize(list, 3))), ElementsAre(1, 2, 0));
}

TEST_F(TensorListTest, ListsCanBeItems) {
  const Output inner = Push(Empty(Any()), Row({1, 2}));
  dtype_ = DType::kVariant;
  const Output outer = Push(Empty(Any()), inner);
  const Output got = Get(outer, 0);
  dtype_ = DType::kFloat;
  EXPECT_THAT(Values(Get(got, 0)), ElementsAre(1, 2));
}

// ---- In place ---------------------------------------------------------------

// A loop that pushes n times: linear only if a push does not copy.
TEST_F(TensorListTest, OnlySharedListsAreCopied) {
  const Output n = Build("Placeholder", {}, {{"dtype", DType::kInt32}});
  const auto enter = [](Output o, bool constant) {
    return Build("Enter", {o},
                 {{"frame_name", "f"}, {"is_constant", constant}});
  };
  const Output i = OpenMerge(enter(Constant<int32_t>(0), false));
  const Output list = OpenMerge(enter(Empty(Any()), false));
  const Output again = Build("LoopCond", {Build("Less", {i, enter(n, true)})});
  const Output i_body(BuildNode("Switch", {i, again}), 1);
  Node* list_switch = BuildNode("Switch", {list, again});
  const Output pushed =
      Push(Output(list_switch, 1),
           Build("Cast", {i_body}, {{"DstT", DType::kFloat}}));
  CloseMerge(
      i, Build("NextIteration",
               {Build("AddV2", {i_body, enter(Constant<int32_t>(1), true)})}));
  CloseMerge(list, Build("NextIteration", {pushed}));
  const Output done = Build("Exit", {Output(list_switch, 0)});
  // (Quadratic would take minutes.)
  constexpr int32_t kCount = kSanitized ? 20'000 : 200'000;
  const Feeds feeds = {{n, Tensor::Scalar<int32_t>(kCount)}};
  EXPECT_EQ(Eval(Length(done), feeds).scalar<int32_t>(), kCount);
  const Tensor all = Eval(Stack(done), feeds);
  EXPECT_EQ(all.data<float>()[kCount - 1], static_cast<float>(kCount - 1));
}

TEST_F(TensorListTest, DeepListsAreDestroyedWithoutRecursion) {
  Variant v;
  for (int i = 0; i < 200000; ++i) {
    auto list = std::make_shared<TensorList>();
    list->dtype = DType::kVariant;
    list->items.push_back(Tensor::Scalar<Variant>(v));
    v = Variant(std::move(list));
  }
  Variant sum = v;
  EXPECT_FALSE(AddToVariant(v, &sum).ok());
  EXPECT_FALSE(ZerosLikeVariant(v).ok());
}

// ---- Whole lists ------------------------------------------------------------

TEST_F(TensorListTest, StackInvertsFromTensor) {
  const Output x = Constant(Tensor::Of<float>({3, 2}, {1, 2, 3, 4, 5, 6}));
  const Output list = FromTensor(x, Dims({2}));
  EXPECT_EQ(Eval(Length(list)).scalar<int32_t>(), 3);
  EXPECT_THAT(Values(Get(list, 1)), ElementsAre(3, 4));
  EXPECT_TRUE(Eval(Stack(list)).Identical(Eval(x)));
  const Output scalars = FromTensor(Row({7, 8}));
  EXPECT_TRUE(Eval(Get(scalars, 1)).Identical(Tensor::Scalar<float>(8)));
}

TEST_F(TensorListTest, StackInfersShapes) {
  EXPECT_EQ(Stack(Reserve(Dims({2, -1}), 3)).shape(),
            PartialShape({-1, 2, -1}));
  EXPECT_EQ(Stack(Reserve(Any(), 3), Dims({2}), 3).shape(),
            PartialShape({3, 2}));
  EXPECT_EQ(Get(Push(Empty(Dims({2})), Row({1, 2})), 0).shape(),
            PartialShape({2}));
  EXPECT_EQ(Get(FromTensor(Constant(Tensor(DType::kFloat, Shape({2, 3})))), 0)
                .shape(),
            PartialShape({3}));
}

TEST_F(TensorListTest, StackFillsUnsetItemsAndRejectsMismatches) {
  const Output some = Set(Reserve(Any(), 3), 1, Row({1, 2}));
  EXPECT_THAT(Values(Stack(some)), ElementsAre(0, 0, 1, 2, 0, 0));
  EXPECT_TRUE(Eval(Stack(Empty(Dims({2})))).shape() == Shape({0, 2}));
  Fails(Stack(Empty(Any())), {"element_shape"});
  Fails(Stack(Reserve(Any(), 2)), {"element_shape"});
  Fails(Stack(some, Any(), 2), {"2", "3", "num_elements"});
  Fails(Stack(Set(some, 2, Row({1}))), {"[2]", "[1]", "index 2"});
  Fails(Stack(some, Dims({3})), {"[3]", "[2]"});
}

TEST_F(TensorListTest, GatherReadsItemsInIndexOrder) {
  const Output list =
      FromTensor(Constant(Tensor::Of<float>({3, 2}, {1, 2, 3, 4, 5, 6})));
  EXPECT_THAT(Values(Gather(list, {2, 0, 2})), ElementsAre(5, 6, 1, 2, 5, 6));
  EXPECT_TRUE(Eval(Gather(list, {})).shape() == Shape({0, 2}));
  Fails(Gather(list, {3}), {"indices[0]", "[0, 3)"});
  Fails(Gather(list, {-1}), {"-1"});
}

TEST_F(TensorListTest, ScatterSetsItems) {
  const Output x = Constant(Tensor::Of<float>({2, 2}, {1, 2, 3, 4}));
  EXPECT_THAT(Values(Stack(Scatter(x, {2, 0}))), ElementsAre(3, 4, 0, 0, 1, 2));
  EXPECT_EQ(Eval(Length(Scatter(x, {2, 0}, 5))).scalar<int32_t>(), 5);
  Fails(Length(Scatter(x, {2, 0}, 2)), {"[0, 2)"});
  Fails(Length(Scatter(x, {-1, 0})), {"-1"});
  Fails(Length(Scatter(x, {0})), {"per index"});
  Fails(Length(Scatter(x, {0, 1}, -2)), {"num_elements", "-2"});
  const Output old = Build("TensorListScatter", {x, Dims({1, 0}), Any()});
  EXPECT_THAT(Values(Stack(old)), ElementsAre(3, 4, 1, 2));
  // Into a list that is long enough, or is extended.
  EXPECT_THAT(Values(Stack(ScatterInto(Scatter(x, {0, 1}), x, {3, 1}))),
              ElementsAre(1, 2, 3, 4, 0, 0, 1, 2));
}

TEST_F(TensorListTest, ConcatJoinsAndReturnsLengths) {
  const Output list =
      Push(Push(Push(Empty(Any()), Row({1})), Row({})), Row({2, 3}));
  Node* n = Concat(list);
  EXPECT_THAT(Values(Output(n, 0)), ElementsAre(1, 2, 3));
  EXPECT_THAT(Eval(Output(n, 1)).ToVector<int64_t>(), ElementsAre(1, 0, 2));
  const Output some = Set(Reserve(Any(), 2), 1, Row({5}));
  EXPECT_THAT(Values(Concat(some, Any(), {2, 9})), ElementsAre(0, 0, 5));
  EXPECT_THAT(Values(Concat(some, Dims({1}))), ElementsAre(0, 5));
  Fails(Concat(some), {"item 0", "leading_dims"});
  Fails(Concat(Empty(Any())), {"element_shape"});
  EXPECT_TRUE(Eval(Concat(Empty(Dims({-1, 2})))).shape() == Shape({0, 2}));
  Fails(Concat(Push(Empty(Any()), Constant(1.0f))), {"scalars"});
  Fails(Concat(list, Dims({})), {"scalars"});
  Fails(Concat(Push(list, Constant(Tensor(DType::kFloat, Shape({1, 2}))))),
        {"equal shapes"});
  Node* old = BuildNode("TensorListConcat", {list}, Of());
  EXPECT_THAT(Values(Output(old, 0)), ElementsAre(1, 2, 3));
}

TEST_F(TensorListTest, SplitCutsRowsByLengths) {
  const Output list = Split(Row({1, 2, 3}), {2, 0, 1});
  EXPECT_THAT(Values(Get(list, 0)), ElementsAre(1, 2));
  EXPECT_THAT(Values(Get(list, 1)), ElementsAre());
  EXPECT_THAT(Values(Get(list, 2)), ElementsAre(3));
  Fails(Length(Split(Row({1, 2, 3}), {2})), {"3", "2"});
  Fails(Length(Split(Row({1, 2, 3}), {4, -1})), {"-1"});
}

TEST_F(TensorListTest, FromTensorChecksTheShape) {
  Fails(Length(FromTensor(Row({1}), Dims({2}))), {"[2]", "[]"});
  EXPECT_FALSE(FromTensor(Constant(1.0f)).valid());
  EXPECT_FALSE(graph_.status().ok());
}

TEST_F(TensorListTest, BatchesOfListsCanBeConcatenatedAndPushed) {
  const Output list = Push(Empty(Any()), Row({1}));
  const Output two = Build("Pack", {list, list});
  const Output joined = Build("TensorListConcatLists", {two, two}, Of());
  const Output pushed =
      Build("TensorListPushBackBatch",
            {joined, Constant(Tensor::Of<float>({2, 1}, {8, 9}))});
  Node* lists = BuildNode("Unpack", {pushed}, {{"num", 2}});
  EXPECT_THAT(Values(Stack(Output(lists, 0))), ElementsAre(1, 1, 8));
  EXPECT_THAT(Values(Stack(Output(lists, 1))), ElementsAre(1, 1, 9));
  Fails(Build("TensorListPushBackBatch", {two, Row({1})}), {"[2]", "[1]"});
}

// ---- Sums and zeros ---------------------------------------------------------

TEST_F(TensorListTest, AddNSumsListsItemwise) {
  const Output a = Set(Set(Reserve(Any(), 3), 0, Row({1, 2})), 1, Row({3}));
  const Output b = Set(Set(Reserve(Any(), 3), 0, Row({5, 5})), 2, Row({4}));
  const Output sum = Build("AddN", {a, b, a});
  EXPECT_THAT(Values(Get(sum, 0)), ElementsAre(7, 9));
  EXPECT_THAT(Values(Get(sum, 1)), ElementsAre(6));
  EXPECT_THAT(Values(Get(sum, 2)), ElementsAre(4));
  EXPECT_THAT(Values(Get(a, 0)), ElementsAre(1, 2));
  Fails(Length(Build("AddN", {a, Reserve(Any(), 2)})), {"3", "2"});
  Fails(Length(Build("AddN", {a, Set(a, 0, Row({1}))})), {"[2]", "[1]"});
}

TEST_F(TensorListTest, ZerosLikeKeepsItemShapes) {
  const Output a = Set(Set(Reserve(Any(), 3), 0, Row({1, 2})), 1, Row({3}));
  const Output zeros = Build("ZerosLike", {a});
  EXPECT_THAT(Values(Get(zeros, 0)), ElementsAre(0, 0));
  EXPECT_THAT(Values(Get(zeros, 1)), ElementsAre(0));
  EXPECT_EQ(Eval(Length(zeros)).scalar<int32_t>(), 3);
}

TEST_F(TensorListTest, StepEndReleasesEverything) {
  const Output x = Build("Placeholder", {}, {{"dtype", DType::kFloat}});
  Output list = Empty(Any());
  for (int i = 0; i < 4; ++i) list = Push(list, Build("Square", {x}));
  const Output y = Stack(list);
  const Output fails = Build("AddV2", {y, Get(list, 9)});
  Session session(graph_);
  const Feeds feeds = {{x, Tensor(DType::kFloat, Shape({1000}))}};
  ASSERT_TRUE(session.Run(feeds, y).ok());
  EXPECT_FALSE(session.Run(feeds, fails).ok());
  const int64_t before = Allocator::Cpu()->stats().live_bytes;
  ASSERT_TRUE(session.Run(feeds, y).ok());
  EXPECT_FALSE(session.Run(feeds, fails).ok());
  EXPECT_EQ(Allocator::Cpu()->stats().live_bytes, before);
}

// ---- Gradients --------------------------------------------------------------

class TensorListGradTest : public TensorListTest {
 protected:
  TensorListGradTest() { dtype_ = DType::kDouble; }
  Output Input(const PartialShape& shape) {
    return Build("Placeholder", {},
                 {{"dtype", DType::kDouble}, {"shape", shape}});
  }
  // Gradients of sum(w y) with respect to x, once and (through its square)
  // twice.
  void Check(Output x, Output y, const Shape& shape) {
    CheckOnce(x, y, shape);
    CheckOnce(x, Build("Square", {Grad(y, x)}), shape);
  }
  void CheckOnce(Output x, Output y, const Shape& shape) {
    ASSERT_TRUE(y.valid()) << graph_.status();
    std::mt19937 rng(11);
    std::uniform_real_distribution<double> draw(-1, 1);
    Tensor at(DType::kDouble, shape);
    for (double& v : at.flat<double>()) v = draw(rng);
    Tensor w = *Eval(y, {{x, at}}).Clone();
    for (double& v : w.flat<double>()) v = draw(rng);
    const Output loss = Build("Mul", {y, Constant(w)});
    const Output g = Grad(loss, x);
    ASSERT_TRUE(g.valid()) << graph_.status();
    const Tensor got = Eval(g, {{x, at}});
    ASSERT_TRUE(got.shape() == shape) << got.ToString();
    constexpr double kStep = 1e-5;
    for (int64_t i = 0; i < at.num_elements(); ++i) {
      double sums[2] = {0, 0};
      for (const int side : {0, 1}) {
        Tensor moved = *at.Clone();
        moved.data<double>()[i] += side == 0 ? -kStep : kStep;
        const Tensor l = Eval(loss, {{x, moved}});
        for (const double v : l.flat<double>()) sums[side] += v;
      }
      EXPECT_NEAR(got.data<double>()[i], (sums[1] - sums[0]) / (2 * kStep),
                  1e-6)
          << "element " << i;
    }
  }
  Output Sin(Output x) { return Build("Sin", {x}); }
};

TEST_F(TensorListGradTest, DifferentiatesPushAndPop) {
  const Output x = Input({3});
  const Output list = Push(Push(Empty(Any()), Sin(x)), Build("Exp", {x}));
  Node* last = Pop(list);
  Check(x, Build("Square", {Output(last, 1)}), Shape({3}));
  Check(x, Build("Mul", {Output(last, 1), Output(Pop(Output(last, 0)), 1)}),
        Shape({3}));
}

TEST_F(TensorListGradTest, DifferentiatesGetAndSet) {
  const Output x = Input({2});
  const Output list =
      Set(Set(Set(Reserve(Any(), 3), 0, Sin(x)), 2, Build("Exp", {x})), 0,
          Build("Square", {x}));
  Check(x, Build("Mul", {Get(list, 0), Build("Sin", {Get(list, 2)})}),
        Shape({2}));
  const Output longer = Set(list, 4, Sin(x), /*resize=*/true);
  Check(x, Build("Mul", {Get(longer, 0), Build("Sin", {Get(longer, 4)})}),
        Shape({2}));
}

TEST_F(TensorListGradTest, DifferentiatesStackAndFromTensor) {
  for (const PartialShape& known :
       {PartialShape({3, 2}), PartialShape({-1, -1})}) {
    const Output x = Input(known);
    Check(x, Build("Square", {Stack(FromTensor(Sin(x)))}), Shape({3, 2}));
  }
}

TEST_F(TensorListGradTest, DifferentiatesGatherWithRepeatsAndScatter) {
  const Output x = Input({3, 2});
  Check(x, Build("Square", {Gather(Scatter(Sin(x), {2, 0, 1}), {1, 1, 2})}),
        Shape({3, 2}));
}

TEST_F(TensorListGradTest, DifferentiatesScatterIntoList) {
  const Output x = Input({2, 2});
  const Output list = FromTensor(Sin(x));
  const Output more = ScatterInto(list, Build("Exp", {x}), {1, 3});
  Check(x, Build("Square", {Gather(more, {0, 1, 3})}), Shape({2, 2}));
}

TEST_F(TensorListGradTest, DifferentiatesConcatAndSplit) {
  const Output x = Input({4, 2});
  Check(x, Build("Square", {Output(Concat(Split(Sin(x), {1, 0, 3})), 0)}),
        Shape({4, 2}));
  Check(x, Build("Square", {Get(Split(Sin(x), {1, 0, 3}), 2)}), Shape({4, 2}));
}

TEST_F(TensorListGradTest, DifferentiatesResize) {
  const Output x = Input({3, 2});
  Check(x, Build("Square", {Stack(Resize(FromTensor(Sin(x)), 2))}),
        Shape({3, 2}));
  Check(x, Build("Square", {Get(Resize(FromTensor(Sin(x)), 5), 1)}),
        Shape({3, 2}));
}

TEST_F(TensorListGradTest, DifferentiatesSumsOfNestedLists) {
  const Output x = Input({2});
  const Output inner = Push(Empty(Any()), Sin(x));
  dtype_ = DType::kVariant;
  const Output outer = Push(Empty(Any()), inner);
  const Output once = Get(outer, 0), again = Get(outer, 0);
  dtype_ = DType::kDouble;
  CheckOnce(x, Build("Mul", {Get(once, 0), Build("Exp", {Get(again, 0)})}),
            Shape({2}));
}

TEST_F(TensorListGradTest, RejectsBatchesOfLists) {
  const Output x = Input({1});
  const Output list = Push(Empty(Any()), x);
  const Output joined = Build("TensorListConcatLists", {list, list}, Of());
  EXPECT_FALSE(Grad(Get(joined, 0), x).valid());
  EXPECT_THAT(std::string(graph_.status().message()),
              HasSubstr("TensorListConcatLists"));
}

TEST_F(TensorListTest, InnerListMayHaveOtherItemShape) {
  // The outer list's items are scalars, the inner list's are not.
  const Output inner = Push(Empty(Any()), Row({1, 2, 3}));
  dtype_ = DType::kVariant;
  const Output outer = Push(Empty(Dims({})), inner);
  Node* popped = Pop(outer);
  dtype_ = DType::kFloat;
  Node* item = Pop(Output(popped, 1));
  EXPECT_FALSE(item->output_shape(1).rank_known());
  EXPECT_THAT(Values(Output(item, 1)), ElementsAre(1, 2, 3));
}

}  // namespace
}  // namespace sluice
