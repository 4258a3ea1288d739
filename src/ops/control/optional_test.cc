// Optionals, and sums and zeros of them.
#include "ops/tensor_array/optional.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/sanitizers.h"
#include "client/control/control_flow.h"
#include "client/operators.h"
#include "graph/builder.h"
#include "session/session.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class OptionalTest : public ::testing::Test {
 protected:
  OptionalTest() : use_(graph_) {}

  static Output Of(const std::vector<Output>& values) {
    return Build("OptionalFromValue", values);
  }
  static Output None() { return Build("OptionalNone", {}); }
  static Output Pair() {
    return Of({Constant(Tensor::Vector<float>({1, 2})), Constant(3)});
  }
  static Node* Get(Output optional) {
    return BuildNode(
        "OptionalGetValue", {optional},
        {{"output_types", AttrValue::Types{DType::kFloat, DType::kInt32}},
         {"output_shapes", AttrValue::Shapes(2)}});
  }
  Tensor Eval(Output o) {
    EXPECT_TRUE(graph_.status().ok()) << graph_.status();
    Result<Tensor> t = Session(graph_).Run(o);
    EXPECT_TRUE(t.ok()) << t.status();
    return t.ok() ? *t : Tensor();
  }
  bool Has(Output optional) {
    return Eval(Build("OptionalHasValue", {optional})).scalar<bool>();
  }

  Graph graph_;
  WithGraph use_;
};

TEST_F(OptionalTest, ZerosLikeKeepsTypesAndShapes) {
  Node* zeros = Get(Build("ZerosLike", {Pair()}));
  EXPECT_THAT(Eval(Output(zeros, 0)).ToVector<float>(), ElementsAre(0, 0));
  EXPECT_EQ(Eval(Output(zeros, 1)).scalar<int32_t>(), 0);
  EXPECT_FALSE(Has(Build("ZerosLike", {None()})));
}

TEST_F(OptionalTest, AddNSumsElementwise) {
  const Output pair = Pair();
  Node* sum = Get(Build("AddN", {pair, Pair(), pair}));
  EXPECT_THAT(Eval(Output(sum, 0)).ToVector<float>(), ElementsAre(3, 6));
  EXPECT_EQ(Eval(Output(sum, 1)).scalar<int32_t>(), 9);
  EXPECT_THAT(Eval(Output(Get(pair), 0)).ToVector<float>(), ElementsAre(1, 2));
  EXPECT_FALSE(Has(Build("AddN", {None(), None()})));
}

TEST_F(OptionalTest, AddNRequiresEqualStructure) {
  const auto error = [this](const std::vector<Output>& terms) {
    return std::string(
        Session(graph_).Run(Build("AddN", terms)).status().message());
  };
  EXPECT_THAT(error({Pair(), None()}), HasSubstr("got 2 and 0"));
  EXPECT_THAT(error({Of({Constant(1.f)}), Of({Constant(1)})}),
              HasSubstr("expected float of shape []"));
  const Output list = Build("EmptyTensorList", {Constant(-1), Constant(-1)},
                            {{"element_dtype", DType::kFloat}});
  EXPECT_THAT(error({list, Pair()}), HasSubstr("TensorList and Optional"));
  EXPECT_THAT(error({Pair(), list}), HasSubstr("Optional and TensorList"));
}

TEST_F(OptionalTest, DeepNestingIsSupported) {
  // Destroying them does not need a stack of their depth. (Frames are larger
  // under sanitizers.)
  constexpr int kDepth = kSanitized ? 20'000 : 200'000;
  const std::vector<Output> deep = While(
      std::vector<Output>{Constant(0), Of({Constant(1.f)})},
      [](const std::vector<Output>& v) { return v[0] < kDepth; },
      [](const std::vector<Output>& v) {
        return std::vector<Output>{v[0] + 1, Of({v[1]})};
      });
  EXPECT_TRUE(Has(deep[1]));
  EXPECT_THAT(std::string(Session(graph_)
                              .Run(Build("ZerosLike", {deep[1]}))
                              .status()
                              .message()),
              HasSubstr("levels of nesting"));
}

// Optionals that are made for all instances of a batch.
class OptionalBatchTest : public OptionalTest {
 protected:
  // Runs the node for all instances at once.
  static Status RunAll(Node* n, std::vector<BatchValue>* inputs,
                       std::vector<BatchValue>* outputs) {
    Kernel kernel;
    SLUICE_RETURN_IF_ERROR(n->op().kernel(*n, &kernel));
    std::vector<BatchValue*> in;
    size_t count = 0;
    for (BatchValue& v : *inputs) {
      in.push_back(&v);
      if (v.is_each) count = v.each.size();
    }
    outputs->resize(static_cast<size_t>(n->num_outputs()));
    BatchCall call{*n, kernel, count, Allocator::Cpu(), in, kLast, *outputs};
    return FindObjectForm(*n).kernel(call);
  }

  static constexpr int kWide = 20;  // More than is compared by value.

  // Optionals of rows [first + i, 10], a vector of `shared` that is the same
  // of all, and the vector [first + i, 0, 0].
  static std::vector<Tensor> Batch(int count, int first, Tensor* rows,
                                   const Tensor& shared) {
    std::vector<BatchValue> in(3), out;
    in[0].is_stacked = in[1].is_shared = in[2].is_each = true;
    in[0].stacked = Tensor(DType::kFloat, {count, 2});
    in[1].shared = shared;
    for (int i = 0; i < count; ++i) {
      in[0].stacked.raw<float>()[2 * i] = static_cast<float>(first + i);
      in[0].stacked.raw<float>()[2 * i + 1] = 10;
      in[2].each.push_back(Tensor::Vector<int32_t>({first + i, 0, 0}));
    }
    if (rows != nullptr) *rows = in[0].stacked;
    Node* const pack =
        Of({Constant(Tensor::Vector<float>({0, 0})), Constant(shared),
            Constant(Tensor::Vector<int32_t>({0, 0, 0}))})
            .node;
    EXPECT_TRUE(RunAll(pack, &in, &out).ok());
    EXPECT_TRUE(out[0].is_each);
    return out[0].each;
  }

  static Tensor Wide(float value) {
    Tensor t(DType::kFloat, {kWide});
    std::fill_n(t.raw<float>(), kWide, value);
    return t;
  }
  std::vector<Tensor> Batch(int count, int first, Tensor* rows) {
    return Batch(count, first, rows, wide_);
  }

  static Node* Unpack(const PartialShape& row = PartialShape({2}),
                      int64_t shared = kWide) {
    const DType f = DType::kFloat;
    return BuildNode(
        "OptionalGetValue", {None()},
        {{"output_types", AttrValue::Types{f, f, DType::kInt32}},
         {"output_shapes",
          AttrValue::Shapes{row, PartialShape({shared}), PartialShape({3})}}});
  }

  const Tensor wide_ = Wide(7);
  static inline const std::vector<bool> kLast = {true, true, true};
};

TEST_F(OptionalBatchTest, EachHasItsRow) {
  const std::vector<Tensor> optionals = Batch(3, 5, nullptr);
  Node* const get = Unpack();
  for (int i = 2; i >= 0; --i) {
    const auto got = RunKernel(*get, {optionals[static_cast<size_t>(i)]});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_THAT((*got)[0].ToVector<float>(),
                ElementsAre(static_cast<float>(5 + i), 10));
    EXPECT_TRUE((*got)[1].SharesBufferWith(wide_));
    EXPECT_THAT((*got)[2].ToVector<int32_t>(), ElementsAre(5 + i, 0, 0));
  }
}

TEST_F(OptionalBatchTest, RowsInOrderAreStackedWithoutACopy) {
  Tensor rows;
  std::vector<Tensor> optionals = Batch(3, 5, &rows);
  std::vector<BatchValue> in(1), out;
  in[0].is_each = true;
  in[0].each = {optionals[1], optionals[2]};
  ASSERT_TRUE(RunAll(Unpack(), &in, &out).ok());
  ASSERT_TRUE(out[0].is_stacked);
  EXPECT_TRUE(out[0].stacked.SharesBufferWith(rows));
  EXPECT_THAT(out[0].stacked.ToVector<float>(), ElementsAre(6, 10, 7, 10));
}

TEST_F(OptionalBatchTest, RowsOfSeveralBatchesAreStacked) {
  Tensor rows;
  std::vector<Tensor> a = Batch(3, 5, &rows), b = Batch(2, 20, nullptr);
  std::vector<BatchValue> in(1), out;
  in[0].is_each = true;
  // (One of them has another reader, and keeps its values.)
  in[0].each = {std::move(b[1]), a[2], std::move(a[0])};
  ASSERT_TRUE(RunAll(Unpack(), &in, &out).ok());
  ASSERT_TRUE(out[0].is_stacked);
  EXPECT_FALSE(out[0].stacked.SharesBufferWith(rows));
  EXPECT_THAT(out[0].stacked.ToVector<float>(),
              ElementsAre(21, 10, 7, 10, 5, 10));
  ASSERT_TRUE(out[1].is_shared && out[2].is_each);
  EXPECT_TRUE(out[1].shared.SharesBufferWith(wide_));
  EXPECT_EQ(out[2].each[0].raw<int32_t>()[0], 21);
  EXPECT_EQ(out[2].each[1].raw<int32_t>()[0], 7);
  EXPECT_EQ(out[2].each[2].raw<int32_t>()[0], 5);
  const auto again = RunKernel(*Unpack(), {a[2]});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)[2].raw<int32_t>()[0], 7);
}

// Instances with other weights are no company.
TEST_F(OptionalBatchTest, WhatBatchesShareDecidesWhoFits) {
  const auto fits = FindObjectForm(*Unpack()).fits;
  const std::vector<Tensor> a = Batch(3, 5, nullptr), b = Batch(2, 6, nullptr),
                            c = Batch(2, 5, nullptr, Wide(17));
  EXPECT_TRUE(fits(a[0], a[2]));
  EXPECT_TRUE(fits(a[0], b[1]));
  EXPECT_FALSE(fits(a[0], c[0]));
  const Result<Tensor> alone = Session(graph_).Run(Pair());
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_FALSE(fits(a[0], *alone));
  EXPECT_TRUE(fits(*alone, *alone));
}

// Such as a depth, which is the same in one batch and differs from the next's.
TEST_F(OptionalBatchTest, SmallEqualValuesDoNotDecideWhoFits) {
  const std::vector<Tensor> a = Batch(2, 5, nullptr,
                                      Tensor::Vector<float>({1, 2})),
                            b = Batch(2, 8, nullptr,
                                      Tensor::Vector<float>({3, 4}));
  Node* const get = Unpack(PartialShape({2}), 2);
  EXPECT_TRUE(FindObjectForm(*get).fits(a[0], b[0]));
  std::vector<BatchValue> in(1), out;
  in[0].is_each = true;
  in[0].each = {a[1], b[0]};
  ASSERT_TRUE(RunAll(get, &in, &out).ok());
  ASSERT_TRUE(out[1].is_each);
  EXPECT_THAT(out[1].each[0].ToVector<float>(), ElementsAre(1, 2));
  EXPECT_THAT(out[1].each[1].ToVector<float>(), ElementsAre(3, 4));
}

// One batch has stacked what another has kept one by one.
TEST_F(OptionalBatchTest, ValuesInOtherFormsAreStackedToo) {
  const auto batch = [](bool stacked, float first) {
    std::vector<BatchValue> in(1), out;
    if (stacked) {
      in[0].is_stacked = true;
      in[0].stacked = Tensor(DType::kFloat, {2, 1});
      for (int i = 0; i < 2; ++i)
        in[0].stacked.raw<float>()[i] = first + static_cast<float>(i);
    } else {
      in[0].is_each = true;
      in[0].each = {Tensor::Vector<float>({first}),
                    Tensor::Vector<float>({first + 1})};
    }
    Node* const pack = Of({Constant(Tensor::Vector<float>({0}))}).node;
    Kernel kernel;
    EXPECT_TRUE(pack->op().kernel(*pack, &kernel).ok());
    std::vector<BatchValue*> inputs = {&in[0]};
    out.resize(1);
    BatchCall call{*pack, kernel, 2, Allocator::Cpu(), inputs, kLast, out};
    EXPECT_TRUE(FindObjectForm(*pack).kernel(call).ok());
    return out[0].each;
  };
  const std::vector<Tensor> a = batch(true, 1), b = batch(false, 11);
  Node* const get =
      BuildNode("OptionalGetValue", {None()},
                {{"output_types", AttrValue::Types{DType::kFloat}},
                 {"output_shapes", AttrValue::Shapes{PartialShape({1})}}});
  const auto all = [&](std::vector<Tensor> optionals) {
    std::vector<BatchValue> in(1), out;
    in[0].is_each = true;
    in[0].each = std::move(optionals);
    EXPECT_TRUE(RunAll(get, &in, &out).ok());
    std::vector<float> values;
    if (out[0].is_stacked) return out[0].stacked.ToVector<float>();
    for (const Tensor& t : out[0].each) values.push_back(t.raw<float>()[0]);
    return values;
  };
  EXPECT_THAT(all({a[0], a[1], b[1], b[0]}), ElementsAre(1, 2, 12, 11));
  EXPECT_THAT(all({b[1], a[0], b[0], a[1]}), ElementsAre(12, 1, 11, 2));
}

TEST_F(OptionalBatchTest, PlacesAreThoseOfTheRows) {
  const auto place = FindObjectForm(*Unpack()).place;
  Tensor rows;
  const std::vector<Tensor> optionals = Batch(3, 5, &rows);
  for (size_t i = 0; i < 3; ++i)
    EXPECT_EQ(place(optionals[i]), rows.raw<float>() + 2 * i);
  const Result<Tensor> alone = Session(graph_).Run(Pair());
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_EQ(place(*alone), nullptr);
  EXPECT_EQ(place(Tensor::Scalar(1)), nullptr);
}

// Then they run one by one, with the error of the right one, if there is one.
TEST_F(OptionalBatchTest, WhatDoesNotFitIsRefusedAndKept) {
  const auto refused = [](std::vector<Tensor> optionals, Node* n) {
    std::vector<BatchValue> in(1), out;
    in[0].is_each = true;
    in[0].each = std::move(optionals);
    EXPECT_FALSE(RunAll(n, &in, &out).ok());
    const auto kept = RunKernel(*Unpack(), {in[0].each[0]});
    ASSERT_TRUE(kept.ok()) << kept.status();
    EXPECT_EQ((*kept)[2].raw<int32_t>()[0], 5);
  };
  refused(Batch(2, 5, nullptr), Unpack(PartialShape({3})));
  std::vector<Tensor> mixed = Batch(2, 5, nullptr);
  const Result<Tensor> alone = Session(graph_).Run(Pair());
  ASSERT_TRUE(alone.ok()) << alone.status();
  mixed[1] = *alone;
  refused(std::move(mixed), Unpack());
  std::vector<Tensor> other = Batch(2, 5, nullptr);
  other[1] = Tensor::Scalar<Variant>(Variant());
  refused(std::move(other), Unpack());
}

}  // namespace
}  // namespace sluice
