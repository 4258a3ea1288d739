// Compares the ops that move elements with what TensorFlow computed for the
// same inputs: tests/cases/array_ops.txt, made by record_array_ops.py there.
#include <cmath>

#include "graph/graph.h"
#include "gtest/gtest.h"
#include "ops/array/test_util.h"

namespace sluice {
namespace {

// Equal elements; NaN equals NaN, and floats may differ in the last bit.
bool Same(const Tensor& want, const Tensor& got) {
  if (want.dtype() != got.dtype() || !(want.shape() == got.shape()))
    return false;
  if (want.dtype() != DType::kFloat) return want.Identical(got);
  for (int64_t i = 0; i < want.num_elements(); ++i) {
    const float w = want.data<float>()[i], g = got.data<float>()[i];
    if (std::isnan(w) != std::isnan(g) ||
        (!std::isnan(w) && std::abs(w - g) > 1e-6f * std::abs(w)))
      return false;
  }
  return true;
}

TEST(ArrayOps, MatchTensorFlowRecordings) {
  std::vector<RecordedCase> cases = ReadCases();
  ASSERT_GT(cases.size(), 300u);
  for (const RecordedCase& c : cases) {
    const std::string where =
        absl::StrCat("tests/cases/array_ops.txt:", c.line, ": ", c.op);
    const Result<std::vector<Tensor>> got =
        RunRecorded(c.op, c.inputs, c.attrs);
    if (c.error) {
      EXPECT_FALSE(got.ok())
          << where << ": TensorFlow refuses this; got " << (*got)[0].ToString();
      EXPECT_NE(got.status().code(), StatusCode::kInternal)
          << where << ": " << got.status();
      continue;
    }
    if (!got.ok()) {
      ADD_FAILURE() << where << ": " << got.status();
      continue;
    }
    ASSERT_EQ(got->size(), c.outputs.size()) << where;
    for (size_t i = 0; i < got->size(); ++i)
      EXPECT_TRUE(Same(c.outputs[i], (*got)[i]))
          << where << ": output " << i << ": expected "
          << c.outputs[i].ToString(40) << ", got " << (*got)[i].ToString(40);
  }
}

// With constant inputs, errors are found while building.
TEST(ArrayOps, InferredShapesAreExactForConstants) {
  // Results whose size depends on the values themselves.
  const std::vector<std::string> by_value = {"Where",
                                             "Unique",
                                             "UniqueV2",
                                             "UniqueWithCounts",
                                             "UniqueWithCountsV2",
                                             "ListDiff",
                                             "DynamicPartition",
                                             "BroadcastGradientArgs"};
  for (const RecordedCase& c : ReadCases()) {
    if (c.error || std::count(by_value.begin(), by_value.end(), c.op)) continue;
    Graph g;
    WithGraph use(g);
    const Result<Node*> node = AddOp(c.op, c.inputs, c.attrs, true);
    ASSERT_TRUE(node.ok()) << c.line << ": " << node.status();
    for (int i = 0; i < (*node)->num_outputs(); ++i) {
      // With a 0 in the shape, a -1 could be anything.
      if (c.outputs[static_cast<size_t>(i)].num_elements() == 0) continue;
      EXPECT_EQ((*node)->output_shape(i).ToString(),
                c.outputs[static_cast<size_t>(i)].shape().ToString())
          << "tests/cases/array_ops.txt:" << c.line << ": " << c.op;
    }
  }
}

}  // namespace
}  // namespace sluice
