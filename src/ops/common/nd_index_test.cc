// The ops that select slices by rows of indices, on tensors and on variables.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"
#include "session/session.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The rows 1, 9 and 0 of a vector.
Output SomeRows() { return Constant(Tensor::Of<int32_t>({3, 1}, {1, 9, 0})); }

// The result of an op on a vector of four floats, with three updates if it
// takes any.
Result<Tensor> RunOnVector(const std::string& op, const char* policy) {
  Graph g;
  const WithGraph use(g);
  const Output vector = Constant(Tensor::Vector<float>({1, 2, 3, 4}));
  const Output updates = Constant(Tensor::Vector<float>({10, 20, 30}));
  std::vector<Output> inputs = {vector, SomeRows(), updates};
  if (op == "GatherNd") inputs.pop_back();
  if (op == "ScatterNd")
    inputs = {SomeRows(), updates, Constant(Tensor::Vector<int32_t>({4}))};
  return Session(g).Run(Build(op, inputs, {{"bad_indices_policy", policy}}));
}

TEST(NdIndexOps, SkipIndicesOutOfRangeOnlyIfTold) {
  const auto result = [](const char* op) {
    const Result<Tensor> r = RunOnVector(op, "IGNORE");
    return r.ok() ? r->ToVector<float>() : std::vector<float>();
  };
  EXPECT_THAT(result("GatherNd"), ElementsAre(2, 0, 1));
  EXPECT_THAT(result("ScatterNd"), ElementsAre(30, 10, 0, 0));
  EXPECT_THAT(result("TensorScatterUpdate"), ElementsAre(30, 10, 3, 4));
  EXPECT_THAT(result("TensorScatterSub"), ElementsAre(-29, -8, 3, 4));
  EXPECT_THAT(result("TensorScatterMax"), ElementsAre(30, 10, 3, 4));
  EXPECT_THAT(result("ScatterNdNonAliasingAdd"), ElementsAre(31, 12, 3, 4));
  for (const char* op : {"GatherNd", "ScatterNd", "TensorScatterAdd",
                         "ScatterNdNonAliasingAdd"}) {
    for (const char* policy : {"", "DEFAULT", "ERROR"})
      EXPECT_THAT(std::string(RunOnVector(op, policy).status().message()),
                  HasSubstr("to index into shape [4], got [9]"))
          << op << " " << policy;
    EXPECT_THAT(
        std::string(RunOnVector(op, "Ignore").status().message()),
        HasSubstr("bad_indices_policy: expected '', DEFAULT, ERROR or IGNORE, "
                  "got 'Ignore'"))
        << op;
  }
}

TEST(NdIndexOps, CombineBooleansByLogic) {
  const auto combined = [](const std::string& op) {
    Graph g;
    const WithGraph use(g);
    const Tensor old = Tensor::Vector<bool>({false, false, true, true});
    const Output updates =
        Constant(Tensor::Vector<bool>({false, true, false, true}));
    const Output indices = Constant(Tensor::Of<int32_t>({4, 1}, {0, 1, 2, 3}));
    Session s(g);
    Result<Tensor> r = Tensor();
    if (op.starts_with("Resource")) {
      const Output handle =
          Build("VarHandleOp", {},
                {{"dtype", DType::kBool}, {"shape", PartialShape({4})}});
      Node* assign = BuildNode("AssignVariableOp", {handle, Constant(old)});
      Node* update = BuildNode(op, {handle, indices, updates});
      const Output read =
          Build("ReadVariableOp", {handle}, {{"dtype", DType::kBool}});
      EXPECT_TRUE(s.RunTargets({assign}).ok());
      EXPECT_TRUE(s.RunTargets({update}).ok());
      r = s.Run(read);
    } else {
      r = s.Run(Build(op, {Constant(old), indices, updates}));
    }
    return r.ok() ? r->ToVector<bool>() : std::vector<bool>();
  };
  for (const char* op :
       {"TensorScatterAdd", "ScatterNdNonAliasingAdd", "ResourceScatterNdAdd"})
    EXPECT_THAT(combined(op), ElementsAre(false, true, true, true)) << op;
  EXPECT_THAT(combined("ResourceScatterNdSub"),
              ElementsAre(false, true, true, false));
}

}  // namespace
}  // namespace sluice
