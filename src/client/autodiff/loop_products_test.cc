// Which sums of a gradient loop are recognised as products to compute after it.
#include "client/autodiff/loop_products.h"

#include "client/control/control_flow.h"
#include "client/control/tensor_array.h"
#include "client/testing/client_test_util.h"
#include "graph/control_flow.h"

namespace sluice {
namespace {

constexpr int kWide = 16;

// A loop of five iterations whose body the tests extend as a walk does.
class LoopProductsTest : public ClientTest {
 protected:
  LoopProductsTest() {
    Output in_body;
    While(
        std::tuple{0, 1.0}, [](Output i, Output) { return i < 5; },
        [&](Output i, Output a) {
          in_body = ops::Tanh(a);
          return std::tuple{i + 1, in_body};
        });
    loop_ = LoopFamily::Of(InnermostWhile(ContextOf(in_body)));
  }

  // An array whose elements are the rows of a tensor; `reads` nodes read it.
  TensorArray RowsRead(int reads) {
    const TensorArray rows =
        TensorArray(DType::kDouble, 5,
                    {.clear_after_read = false, .element_shape = {4, kWide}})
            .Unstack(Placeholder<double>({5, 4, kWide}));
    const ContextScope in_body(loop_->loop());
    for (int i = 0; i < reads; ++i) rows.Read(loop_->index());
    return rows;
  }

  // A matrix that each iteration computes.
  Output InBody(const PartialShape& shape) {
    const Output outside = Placeholder<double>(shape);
    const ContextScope in_body(loop_->loop());
    return ops::Tanh(outside);
  }

  LoopSum ProductOfRows(const Output& a, const Output& b,
                        const AttrMap& sides = {{"transpose_a", true}}) {
    const Output w = Placeholder<double>({kWide, kWide});
    const ContextScope in_body(loop_->loop());
    return {w, Gradient(Build("MatMul", {a, b}, sides))};
  }

  // The gradient of the flow of an array if `value` is that of its element
  // number `index`.
  LoopSum WriteTo(const TensorArray& rows, const Output& value,
                  const Output& index) {
    const ContextScope in_body(loop_->loop());
    Node* const grad =
        BuildNode("TensorArrayGradV3", {rows.handle(), rows.flow()},
                  {{"source", AttrValue("gradients")}});
    return {rows.flow(),
            Gradient(Build("TensorArrayWriteV3",
                           {Output(grad, 0), index, value, Output(grad, 1)}))};
  }

  std::vector<LoopProduct> Recognised(const std::vector<LoopSum>& sums) {
    EXPECT_TRUE(graph_.status().ok()) << graph_.status();
    ArrayUses uses(&graph_, graph_.num_nodes());
    return LoopProducts(*loop_, sums, &uses).ProductsOf(sums[0]);
  }

  LoopMember* loop_ = nullptr;
};

TEST_F(LoopProductsTest, AreThoseOfFewRows) {
  const Output a = InBody({1, kWide}), b = InBody({1, kWide});
  const auto found = Recognised({ProductOfRows(a, b)});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].a.SameAs(a));
  EXPECT_TRUE(found[0].b.SameAs(b));
  EXPECT_FALSE(found[0].columns);
  EXPECT_FALSE(found[0].rows.has_value());
  EXPECT_TRUE(
      Recognised({ProductOfRows(InBody({2, kWide}), InBody({2, kWide}))})
          .empty());
}

TEST_F(LoopProductsTest, AreThoseOfSingleColumns) {
  const AttrMap columns = {{"transpose_b", true}};
  const Output a = InBody({kWide, 1}), b = InBody({kWide, 1});
  const auto found = Recognised({ProductOfRows(a, b, columns)});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].a.SameAs(a));
  EXPECT_TRUE(found[0].b.SameAs(b));
  EXPECT_TRUE(found[0].columns);
  EXPECT_TRUE(Recognised({ProductOfRows(InBody({kWide, 2}), InBody({kWide, 2}),
                                        columns)})
                  .empty());
  EXPECT_TRUE(Recognised({ProductOfRows(a, InBody({2, 1}), columns)}).empty());
}

TEST_F(LoopProductsTest, AreAllThatATermAdds) {
  const Output row = InBody({1, kWide}), column = InBody({kWide, 1});
  const LoopSum of_rows = ProductOfRows(row, row);
  const LoopSum of_columns =
      ProductOfRows(column, column, {{"transpose_b", true}});
  const Output other = InBody({kWide, kWide});
  const auto sum = [&](const std::vector<Output>& terms) {
    const ContextScope in_body(loop_->loop());
    return LoopSum{of_rows.x, Gradient(Build("AddN", terms))};
  };
  const Output a = of_rows.term.dense, b = of_columns.term.dense;
  const auto found = Recognised({sum({a, b})});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_FALSE(found[0].columns);
  EXPECT_TRUE(found[1].columns);
  EXPECT_TRUE(Recognised({sum({a, other, b})}).empty());
}

TEST_F(LoopProductsTest, AreNotThoseOfUnknownShapesOrOtherSides) {
  const Output row = InBody({1, kWide});
  EXPECT_TRUE(Recognised({ProductOfRows(InBody({-1, kWide}), row)}).empty());
  EXPECT_TRUE(Recognised({ProductOfRows(
                             row, InBody({kWide, 1}),
                             {{"transpose_a", true}, {"transpose_b", true}})})
                  .empty());
  EXPECT_TRUE(Recognised({ProductOfRows(InBody({kWide, 1}), row, {})}).empty());
}

TEST_F(LoopProductsTest, AreNotThoseThatABranchComputes) {
  const Output row = InBody({1, kWide});
  LoopSum sum = ProductOfRows(row, row);
  {
    const ContextScope in_body(loop_->loop());
    sum.term = Cond(
        ops::Equal(loop_->index(), 1),
        [&] {
          return Build("MatMul", {row, row}, {{"transpose_a", true}});
        },
        [&] { return sum.term.dense; });
  }
  EXPECT_TRUE(Recognised({sum}).empty());
}

TEST_F(LoopProductsTest, UseRowsThatTheLoopWritesAlready) {
  const TensorArray rows = RowsRead(1);
  const Output a = InBody({4, kWide}), b = InBody({4, kWide});
  const LoopSum product = ProductOfRows(a, b);
  EXPECT_TRUE(Recognised({product}).empty()) << "too many rows to write";
  const LoopSum other = WriteTo(RowsRead(1), a, loop_->index());
  const LoopSum flow = WriteTo(rows, b, loop_->index());
  const auto found = Recognised({product, other, flow});
  ASSERT_EQ(found.size(), 1u);
  ASSERT_TRUE(found[0].rows.has_value());
  EXPECT_TRUE(found[0].rows->array.SameAs(rows.handle()));
  EXPECT_EQ(found[0].rows->flow, 2);
}

TEST_F(LoopProductsTest, UseNoRowsThatMayBeOthersOrElsewhere) {
  const Output a = InBody({4, kWide}), b = InBody({4, kWide});
  const LoopSum product = ProductOfRows(a, b);
  EXPECT_TRUE(
      Recognised({product, WriteTo(RowsRead(2), b, loop_->index())}).empty());
  EXPECT_TRUE(
      Recognised({product, WriteTo(RowsRead(0), b, loop_->index())}).empty());
  EXPECT_TRUE(
      Recognised({product, WriteTo(RowsRead(1), a, loop_->index())}).empty());
  Output backwards;
  {
    const ContextScope in_body(loop_->loop());
    backwards = 4 - loop_->index();
  }
  EXPECT_TRUE(
      Recognised({product, WriteTo(RowsRead(1), b, backwards)}).empty());
}

TEST_F(LoopProductsTest, LookAtEachNodeOnceForAllArrays) {
  const TensorArray once = RowsRead(1), twice = RowsRead(2);
  ArrayUses uses(&graph_, graph_.num_nodes());
  EXPECT_EQ(uses.num_visits(), 0) << "nothing is looked for yet";
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(uses.HoldsRowsReadOnce(once.handle()));
    EXPECT_FALSE(uses.HoldsRowsReadOnce(twice.handle()));
  }
  EXPECT_EQ(uses.num_visits(), graph_.num_nodes());
}

}  // namespace
}  // namespace sluice
