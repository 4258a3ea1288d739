// Optimizer ops in addition to the recorded cases (recorded_ops_test.cc):
// errors, odd shapes, threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "graph/builder.h"
#include "session/session.h"

namespace sluice {
namespace {

// Returns the op's error; and the first variable's value afterwards, if
// requested.
Status UpdateWith(const std::string& op, const std::vector<Tensor>& variables,
                  const std::vector<Tensor>& rest, Tensor* first = nullptr) {
  Graph g;
  WithGraph use(g);
  std::vector<Node*> starts;
  std::vector<Output> inputs;
  for (const Tensor& t : variables) {
    const Output v =
        Build("VarHandleOp", {},
              {{"dtype", t.dtype()}, {"shape", PartialShape::Unknown()}});
    inputs.push_back(v);
    starts.push_back(BuildNode("AssignVariableOp", {v, Constant(t)}));
  }
  for (const Tensor& t : rest)
    inputs.push_back(Build("PlaceholderWithDefault", {Constant(t)},
                           {{"shape", PartialShape::Unknown()}}));
  Node* update = BuildNode(op, inputs);
  SLUICE_RETURN_IF_ERROR(g.status());
  Session session(g);
  SLUICE_RETURN_IF_ERROR(session.RunTargets(starts));
  SLUICE_RETURN_IF_ERROR(session.RunTargets({update}));
  if (first == nullptr) return OkStatus();
  SLUICE_ASSIGN_OR_RETURN(
      *first, session.Run(Build("ReadVariableOp", {inputs[0]},
                                {{"dtype", variables[0].dtype()}})));
  return OkStatus();
}

TEST(Training, MismatchedShapesAreErrors) {
  const Tensor two = Tensor::Vector<float>({1, 2});
  const Tensor three = Tensor::Vector<float>({1, 2, 3});
  const Tensor lr = Tensor::Scalar<float>(.1f);
  EXPECT_TRUE(UpdateWith("ResourceApplyAdagrad", {two, two}, {lr, two}).ok());
  for (const Status& s :
       {UpdateWith("ResourceApplyAdagrad", {two, two}, {lr, three}),
        UpdateWith("ResourceApplyAdagrad", {two, three}, {lr, two}),
        UpdateWith("ResourceApplyAdagrad", {two, two}, {two, two})})
    EXPECT_EQ(s.code(), StatusCode::kInvalidArgument) << s;
}

TEST(Training, AnIndexOutOfRangeIsAnErrorThatNamesIt) {
  const Tensor v = Tensor::Of<float>(Shape({2, 1}), {1, 2});
  const Tensor g = Tensor::Of<float>(Shape({2, 1}), {1, 1});
  const Status s = UpdateWith(
      "ResourceSparseApplyAdagrad", {v, v},
      {Tensor::Scalar<float>(.1f), g, Tensor::Vector<int32_t>({0, 2})});
  EXPECT_EQ(s.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(s.message()),
      ::testing::HasSubstr("Index 2 at offset 1 in indices is out of range"));
}

TEST(Training, EmptyVariablesAndScalarsAreUpdated) {
  const Tensor lr = Tensor::Scalar<float>(.1f);
  const Tensor empty(DType::kFloat, Shape({0, 3}));
  Tensor got;
  ASSERT_TRUE(
      UpdateWith("ResourceApplyAdagrad", {empty, empty}, {lr, empty}, &got)
          .ok());
  EXPECT_EQ(got.shape(), empty.shape());
  ASSERT_TRUE(
      UpdateWith("ResourceApplyMomentum", {lr, lr}, {lr, lr, lr}, &got).ok());
  EXPECT_FLOAT_EQ(got.scalar<float>(), .1f - .1f * (.1f * .1f + .1f));
}

TEST(Training, ConcurrentUpdatesAreNotLost) {
  Graph g;
  WithGraph use(g);
  const Shape shape({1000});
  std::vector<float> ones(1000, 1);
  const AttrMap attrs = {{"dtype", DType::kFloat},
                         {"shape", PartialShape(shape)}};
  const Output v = Build("VarHandleOp", {}, attrs);
  const Output one = Constant(Tensor::Of<float>(shape, ones));
  Node* start = BuildNode("AssignVariableOp", {v, one});
  Node* update =
      BuildNode("ResourceApplyGradientDescent", {v, Constant(1.0f), one});
  const Output read = Build("ReadVariableOp", {v}, {{"dtype", DType::kFloat}});
  Session session(g);
  ASSERT_TRUE(session.RunTargets({start}).ok());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        EXPECT_TRUE(session.RunTargets({update}).ok());
        const Result<Tensor> now = session.Run(read);
        ASSERT_TRUE(now.ok());
        // Consistent: all elements have seen the same updates.
        EXPECT_EQ(now->flat<float>().front(), now->flat<float>().back());
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(session.Run(read)->scalar<float>(), 1 - 200);
}

}  // namespace
}  // namespace sluice
