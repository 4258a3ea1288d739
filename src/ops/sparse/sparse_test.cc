// Sparse tensors beyond single ops: maps between two ops, variants.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "exec/core/kernel.h"
#include "graph/builder.h"
#include "graph/graph.h"
#include "graph/shape_context.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Entries (0,1) = 1, (2,0) = 2 and (2,2) = 3 of a matrix of 3 x 3.
std::vector<Tensor> ThreeEntries() {
  return {Tensor::Of<int64_t>(Shape({3, 2}), {0, 1, 2, 0, 2, 2}),
          Tensor::Vector<float>({1, 2, 3}), Tensor::Vector<int64_t>({3, 3})};
}

Result<std::vector<Tensor>> RunSparse(const std::string& op,
                                      const std::vector<Tensor>& inputs,
                                      const AttrMap& attrs,
                                      ResourceManager* resources = nullptr) {
  Graph g;
  WithGraph use(g);
  std::vector<Output> outputs;
  for (const Tensor& t : inputs)
    outputs.push_back(Build("Placeholder", {}, {{"dtype", t.dtype()}}));
  Node* n = BuildNode(op, outputs, attrs);
  if (n == nullptr) return g.status();
  return RunKernel(*n, inputs, resources);
}

TEST(SparseTensorsMap, ReturnsRowsOnceInAnyOrder) {
  ResourceManager resources;
  const AttrMap name = {{"shared_name", "m"}};
  const auto handles =
      RunSparse("AddManySparseToTensorsMap", ThreeEntries(), name, &resources);
  ASSERT_TRUE(handles.ok()) << handles.status();
  ASSERT_THAT((*handles)[0].ToVector<int64_t>(), ElementsAre(0, 1, 2));
  AttrMap take = name;
  take["dtype"] = DType::kFloat;
  const auto got =
      RunSparse("TakeManySparseFromTensorsMap",
                {Tensor::Vector<int64_t>({2, 0})}, take, &resources);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT((*got)[0].ToVector<int64_t>(), ElementsAre(0, 0, 0, 2, 1, 1));
  EXPECT_THAT((*got)[1].ToVector<float>(), ElementsAre(2, 3, 1));
  EXPECT_THAT((*got)[2].ToVector<int64_t>(), ElementsAre(2, 3));
  const auto again =
      RunSparse("TakeManySparseFromTensorsMap",
                {Tensor::Vector<int64_t>({1, 0})}, take, &resources);
  EXPECT_EQ(again.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(again.status().message()), HasSubstr("got 0"));
  // The failed call took none of them.
  EXPECT_TRUE(RunSparse("TakeManySparseFromTensorsMap",
                        {Tensor::Vector<int64_t>({1})}, take, &resources)
                  .ok());
}

TEST(SparseTensorsMap, SingleTensorReturnsAsBatchOfOne) {
  ResourceManager resources;
  const AttrMap name = {{"shared_name", "m"}};
  const auto handle =
      RunSparse("AddSparseToTensorsMap", ThreeEntries(), name, &resources);
  ASSERT_TRUE(handle.ok()) << handle.status();
  AttrMap take = name;
  take["dtype"] = DType::kInt32;
  EXPECT_FALSE(RunSparse("TakeManySparseFromTensorsMap",
                         {Tensor::Vector<int64_t>({7})}, take, &resources)
                   .ok());
  take["dtype"] = DType::kFloat;
  const auto got = RunSparse("TakeManySparseFromTensorsMap",
                             {Tensor::Vector<int64_t>({0})}, take, &resources);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT((*got)[2].ToVector<int64_t>(), ElementsAre(1, 3, 3));
}

TEST(SerializeSparse, VariantsRoundTrip) {
  const auto held = RunSparse("SerializeManySparse", ThreeEntries(),
                              {{"out_type", DType::kVariant}});
  ASSERT_TRUE(held.ok()) << held.status();
  EXPECT_EQ((*held)[0].shape().ToString(), "[3,3]");
  const auto back =
      RunSparse("DeserializeSparse", *held, {{"dtype", DType::kFloat}});
  ASSERT_TRUE(back.ok()) << back.status();
  const std::vector<Tensor> want = ThreeEntries();
  for (size_t i = 0; i < 3; ++i)
    EXPECT_TRUE((*back)[i].Identical(want[i])) << (*back)[i].ToString();
  Tensor none(DType::kVariant, Shape({3}));
  EXPECT_EQ(RunSparse("DeserializeSparse", {none}, {{"dtype", DType::kFloat}})
                .status()
                .code(),
            StatusCode::kInvalidArgument);
}

TEST(SerializeSparse, HugeRowCountIsRefused) {
  std::vector<Tensor> in = ThreeEntries();
  in[2] = Tensor::Vector<int64_t>({int64_t{1} << 36, 3});
  for (const char* op : {"SerializeManySparse", "AddManySparseToTensorsMap"}) {
    ResourceManager resources;
    EXPECT_EQ(RunSparse(op, in, {}, &resources).status().code(),
              StatusCode::kInvalidArgument)
        << op;
  }
}

TEST(SerializeSparse, RowsOutOfOrderAreRefused) {
  std::vector<Tensor> in = ThreeEntries();
  in[0] = Tensor::Of<int64_t>(Shape({3, 2}), {2, 1, 0, 0, 2, 2});
  EXPECT_THAT(
      std::string(RunSparse("SerializeManySparse", in, {}).status().message()),
      HasSubstr("order of rows"));
}

Output FedSparse(DType dtype, const PartialShape& shape) {
  return Build("Placeholder", {}, {{"dtype", dtype}, {"shape", shape}});
}

TEST(SparseConcat, InfersEntryCountAndShape) {
  Graph g;
  WithGraph use(g);
  const auto concat = [](int64_t n0, int64_t n1, const Output& shape0,
                         const Output& shape1, int64_t axis) {
    return BuildNode(
        "SparseConcat",
        {FedSparse(DType::kInt64, {n0, -1}), FedSparse(DType::kInt64, {-1, -1}),
         FedSparse(DType::kFloat, {-1}), FedSparse(DType::kFloat, {n1}), shape0,
         shape1},
        {{"concat_dim", axis}, {"N", 2}});
  };
  const auto vector = [](std::vector<int64_t> v) {
    return Constant(Tensor::Vector<int64_t>(std::move(v)));
  };
  const Output one = FedSparse(DType::kInt64, PartialShape(Dims{}));
  const Output partly = Build("Pack", {one, Constant(int64_t{3})}, {{"N", 2}});
  Node* n = concat(3, 4, vector({2, 3}), vector({5, 3}), -2);
  ASSERT_NE(n, nullptr) << g.status();
  EXPECT_EQ(n->output_shape(0).ToString(), "[7,2]");
  EXPECT_EQ(n->output_shape(1).ToString(), "[7]");
  EXPECT_EQ(ConstantAsShape(Output(n, 2))->ToString(), "[7,3]");
  n = concat(3, -1, vector({2, 3}), partly, 1);
  ASSERT_NE(n, nullptr) << g.status();
  EXPECT_EQ(n->output_shape(0).ToString(), "[?,2]");
  EXPECT_EQ(n->output_shape(1).ToString(), "[?]");
  EXPECT_EQ(ConstantAsShape(Output(n, 2))->ToString(), "[2,6]");
  n = concat(3, 4, vector({2, 3}), partly, 0);
  ASSERT_NE(n, nullptr) << g.status();
  EXPECT_EQ(ConstantAsShape(Output(n, 2))->ToString(), "[?,3]");
  // Overflowing sums and invalid axes are left to the kernel.
  n = concat(3, 4, vector({INT64_MAX, 3}), vector({1, 3}), 0);
  ASSERT_NE(n, nullptr) << g.status();
  EXPECT_EQ(ConstantAsShape(Output(n, 2))->ToString(), "[?,3]");
  n = concat(3, 4, vector({2, 3}), vector({5, 3}), 2);
  ASSERT_NE(n, nullptr) << g.status();
  EXPECT_EQ(ConstantAsShape(Output(n, 2))->ToString(), "[?,?]");
}

}  // namespace
}  // namespace sluice
