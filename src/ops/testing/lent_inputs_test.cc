// Memory that is lent for a step (a fed NumPy array): it is not written to, and
// not shared once the step is over. Checked for every op from its samples, and
// for ops with state one by one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <tuple>
#include <vector>

#include "base/sanitizers.h"
#include "client/control/control_flow.h"
#include "client/operators.h"
#include "graph/builder.h"
#include "ops/testing/op_instances_test_util.h"
#include "session/session.h"

namespace sluice {
namespace {

using namespace op_instances;  // NOLINT: a part of this file.

// Memory that tensors borrow. Outlives them.
class Lender {
 public:
  // The same elements in lent memory; tensors without memory of their own are
  // returned unchanged.
  Tensor Lend(const Tensor& t) {
    if (!t.has_buffer() || !IsPlain(t.dtype())) return t;
    memory_.push_back(*t.Clone());
    ++lent_;
    void* const data = memory_.back().raw();
    return Tensor(t.dtype(), t.shape(),
                  new ForeignBuffer(
                      data, t.bytes(), [this] { --lent_; },
                      ForeignBuffer::Lent::kForAStep),
                  data);
  }
  // The number of blocks that tensors still share.
  int lent() const { return lent_; }
  // The owner overwrites all of it.
  void Overwrite() {
    for (Tensor& t : memory_) std::memset(t.raw(), 'x', t.bytes());
  }

 private:
  std::vector<Tensor> memory_;
  int lent_ = 0;
};

TEST(LentMemoryTest, BorrowedTensorsAreNotWritable) {
  Lender lender;
  const Tensor t = lender.Lend(Tensor::Vector<float>({1, 2, 3, 4}));
  EXPECT_TRUE(t.borrowed());
  EXPECT_FALSE(t.unique());
  EXPECT_TRUE(t.Rows(1, 4).borrowed());
  EXPECT_FALSE(t.Clone()->borrowed());
  EXPECT_TRUE(t.Clone()->unique());
}

// ---- Every op ---------------------------------------------------------------

// The elements of data in the reverse order.
Tensor Reversed(const Tensor& t) {
  Tensor r = *t.Clone();
  if (!IsFloating(t.dtype()) && !IsComplex(t.dtype())) return r;
  const size_t size = DTypeSize(t.dtype());
  const auto n = static_cast<size_t>(t.num_elements());
  for (size_t i = 0; i < n; ++i)
    std::memcpy(r.raw<char>() + i * size, t.raw<char>() + (n - 1 - i) * size,
                size);
  return r;
}

TEST(LentInputs, AreNeitherWrittenNorKept) {
  for (const OpDef* op : OpRegistry::Global()->All()) {
    if (NeedsNoKernel(*op)) continue;
    int number = 0;
    for (const Instance& in : InstancesOf(*op)) {
      // (What a kernel reads late does not depend on the type.)
      if (kSanitized && number++ % 4 != 0) continue;
      SCOPED_TRACE(in.Name());
      Graph g;
      WithGraph use(g);
      std::vector<Output> fed, outputs;
      for (const Tensor& t : in.inputs) fed.push_back(InputNode(t, false));
      Node* const n = BuildNode(op->name, fed, in.attrs);
      ASSERT_NE(n, nullptr) << g.status();
      for (int i = 0; i < n->num_outputs(); ++i) outputs.emplace_back(n, i);
      Session session(g), other(g);
      Lender lender;
      std::vector<Tensor> variants;  // Their contents may be kept, too.
      {
        Feeds feeds;
        for (size_t i = 0; i < fed.size(); ++i)
          feeds.emplace_back(fed[i], lender.Lend(in.inputs[i]));
        // The second time, other elements are at the same address.
        for (const bool again : {false, true}) {
          Feeds own;
          for (auto& [o, t] : feeds) {
            own.emplace_back(o, again ? Reversed(t) : *t.Clone());
            if (t.borrowed()) {
              std::memcpy(t.raw(), own.back().second.raw(), t.bytes());
            } else {
              t = own.back().second;
            }
          }
          const auto got = session.Run(feeds, outputs, {n});
          for (size_t i = 0; i < feeds.size(); ++i) {
            if (feeds[i].second.borrowed()) {
              EXPECT_TRUE(feeds[i].second.Identical(own[i].second))
                  << "input " << i;
            }
          }
          if (!got.ok()) continue;
          for (const Tensor& t : *got)
            if (t.dtype() == DType::kVariant) variants.push_back(t);
          if (kSanitized || !op->facts.pure() || !variants.empty()) continue;
          const auto want = other.Run(own, outputs, {n});
          ASSERT_TRUE(want.ok()) << want.status();
          for (size_t i = 0; i < got->size(); ++i)
            EXPECT_TRUE((*got)[i].Identical((*want)[i])) << "output " << i;
        }
      }
      EXPECT_EQ(lender.lent(), 0);
    }
  }
}

// ---- Ops with state ---------------------------------------------------------

class KeptInputs : public ::testing::Test {
 protected:
  KeptInputs() : use_(graph_) {}

  // Feeds x_ to a step that returns `keep` for later; afterwards the memory of
  // x_ is reused.
  std::vector<Tensor> Keep(const std::vector<Output>& fetches,
                           const std::vector<Node*>& targets = {}) {
    EXPECT_TRUE(graph_.status().ok()) << graph_.status();
    Lender lender;
    auto got = session_.Run({{x_, lender.Lend(Numbers())}}, fetches, targets);
    EXPECT_TRUE(got.ok()) << got.status();
    EXPECT_EQ(lender.lent(), 0);
    lender.Overwrite();
    return got.ok() ? *std::move(got) : std::vector<Tensor>();
  }
  void ExpectNumbers(const Output& o, const Feeds& feeds = {}) {
    const Result<Tensor> t = session_.Run(feeds, o);
    ASSERT_TRUE(t.ok()) << t.status();
    EXPECT_TRUE(t->Reshaped(Shape({6}))->Identical(Numbers())) << t->ToString();
  }
  static Tensor Numbers() { return Tensor::Vector<float>({1, 2, 3, 4, 5, 6}); }

  Graph graph_;
  WithGraph use_;
  const Output x_ =
      Build("Placeholder", {},
            {{"dtype", DType::kFloat}, {"shape", PartialShape({6})}});
  Session session_{graph_};
};

TEST_F(KeptInputs, VariablesCopyBorrowedValues) {
  const AttrMap kind = {{"dtype", DType::kFloat}, {"shape", PartialShape()}};
  for (const bool resource : {false, true}) {
    const Output v = Build(resource ? "VarHandleOp" : "VariableV2", {}, kind);
    const char* const assign = resource ? "AssignVariableOp" : "Assign";
    const AttrMap any = {{"validate_shape", false}};
    const Output read =
        resource ? Build("ReadVariableOp", {v}, {{"dtype", DType::kFloat}})
                 : Build("Identity", {v});
    const Output yes = Constant(true);
    for (const Output& value :
         {x_, Build("Identity", {x_}),
          Build("Reshape", {x_, IntVector({2, 3})}),
          Build("Squeeze", {Build("ExpandDims", {x_, Constant(0)})}),
          Cond(
              yes, [this] { return x_; }, [this] { return -x_; })}) {
      Keep({}, {BuildNode(assign, {v, value}, any)});
      ExpectNumbers(read);
    }
  }
}

TEST_F(KeptInputs, SessionHandlesCopyBorrowedValues) {
  const Tensor handle = Keep({Build("GetSessionHandle", {x_})})[0];
  const Output holder = Build("Placeholder", {}, {{"dtype", DType::kString}});
  ExpectNumbers(Build("GetSessionTensor", {holder}, {{"dtype", DType::kFloat}}),
                {{holder, handle}});
}

TEST_F(KeptInputs, ListsAndOptionalsCopyBorrowedValues) {
  const AttrMap of = {{"element_dtype", DType::kFloat}};
  const Output any = Constant(int32_t{-1}), one = Constant(int32_t{1});
  const Output row = Build("ExpandDims", {x_, Constant(0)});
  const Output list = Build("TensorListReserve", {any, one}, of);
  const Output zero = Constant(int32_t{0}), zeros = IntVector({0});
  const Output holder = Build("Placeholder", {}, {{"dtype", DType::kVariant}});
  const Output stacked = Build("TensorListStack", {holder, any}, of);
  for (const Output& made :
       {Build("TensorListPushBack",
              {Build("EmptyTensorList", {any, any}, of), x_}),
        Build("TensorListSetItem", {list, zero, x_}),
        Build("TensorListFromTensor", {row, any}),
        Build("TensorListScatterV2", {row, zeros, any, one}),
        Build("TensorListScatterIntoExistingList", {list, row, zeros}),
        Build("TensorListPushBackBatch",
              {Build("Reshape", {Build("EmptyTensorList", {any, any}, of),
                                 IntVector({1})}),
               row}),
        Build("TensorListSplit",
              {row, any, Constant(Tensor::Vector<int64_t>({1}))})}) {
    SCOPED_TRACE(made.node->op_name());
    const std::vector<Tensor> kept = Keep({made});
    ASSERT_EQ(kept.size(), 1u);
    ExpectNumbers(stacked, {{holder, *kept[0].Reshaped(Shape())}});
  }
  const Tensor kept = Keep({Build("OptionalFromValue", {std::vector{x_}})})[0];
  Node* const value =
      BuildNode("OptionalGetValue", {holder},
                {{"output_types", AttrValue::Types{DType::kFloat}},
                 {"output_shapes", AttrValue::Shapes(1)}});
  ExpectNumbers(value, {{holder, kept}});
}

TEST_F(KeptInputs, SparseTensorsMapCopiesBorrowedValues) {
  const Output indices = Build(
      "Reshape", {Build("Range", {Constant<int64_t>(0), Constant<int64_t>(6),
                                  Constant<int64_t>(1)}),
                  IntVector({6, 1})});
  const Output shape = Constant(Tensor::Vector<int64_t>({6}));
  const AttrMap map = {{"shared_name", "map"}};
  const Tensor handle =
      Keep({Build("AddSparseToTensorsMap", {indices, x_, shape}, map)})[0];
  AttrMap take = map;
  take["dtype"] = DType::kFloat;
  ExpectNumbers(
      Output(BuildNode("TakeManySparseFromTensorsMap",
                       {Constant(*handle.Reshaped(Shape({1})))}, take),
             1));
  const Tensor parts = Keep({Build("SerializeSparse", {indices, x_, shape},
                                   {{"out_type", DType::kVariant}})})[0];
  const Output holder = Build("Placeholder", {}, {{"dtype", DType::kVariant}});
  ExpectNumbers(Output(BuildNode("DeserializeSparse", {holder},
                                 {{"dtype", DType::kFloat}}),
                       1),
                {{holder, parts}});
}

// Whole steps and the state they leave for later ones: plans, regions, loops.
TEST_F(KeptInputs, LoopsAndRegionsDoNotKeepBorrowedValues) {
  const auto [i, y] = While(
      std::tuple{0, x_}, [](Output i, Output) { return i < 3; },
      [this](Output i, Output y) {
        return std::tuple{i + 1, y * x_};
      });
  for (int step = 0; step < 3; ++step) Keep({}, {y.node});
}

}  // namespace
}  // namespace sluice
