// Optimizer ops in addition to the recorded cases (recorded_ops_test.cc):
// errors, odd shapes, threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/sanitizers.h"
#include "graph/builder.h"
#include "graph/op_def.h"
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

Tensor CastTo(const Tensor& t, DType dtype) {
  Graph g;
  const WithGraph use(g);
  const Output out = Build("Cast", {Constant(t)}, {{"DstT", dtype}});
  Session session(g);
  const Result<Tensor> value = session.Run(out);
  EXPECT_TRUE(value.ok()) << value.status();
  return value.ok() ? *value : Tensor();
}

// The variables after one update, while those in `shared` (a bit for each) have
// snapshots, which are checked to stay as they are.
std::vector<Tensor> UpdateBeside(const std::string& op,
                                 const std::vector<Tensor>& variables,
                                 const std::vector<Tensor>& rest,
                                 unsigned shared) {
  Graph g;
  const WithGraph use(g);
  std::vector<Output> inputs, values, reads;
  std::vector<Node*> starts;
  for (const Tensor& t : variables) {
    const AttrMap attrs = {{"dtype", t.dtype()},
                           {"shape", PartialShape(t.shape())}};
    inputs.push_back(Build("VarHandleOp", {}, attrs));
    values.push_back(Build("Placeholder", {}, attrs));
    starts.push_back(
        BuildNode("AssignVariableOp", {inputs.back(), values.back()}));
    reads.push_back(
        Build("ReadVariableOp", {inputs.back()}, {{"dtype", t.dtype()}}));
  }
  std::vector<Output> all = inputs;
  for (const Tensor& t : rest) all.push_back(Constant(t));
  Node* const update = BuildNode(op, all);
  EXPECT_TRUE(g.status().ok()) << g.status();
  if (!g.status().ok()) return {};
  Session session(g);
  for (size_t k = 0; k < variables.size(); ++k) {
    // (A value of its own, which only the variable refers to.)
    Result<Tensor> own = variables[k].Clone();
    EXPECT_TRUE(own.ok()) << own.status();
    const Status s =
        session.RunTargets({starts[k]}, {{values[k], *std::move(own)}});
    EXPECT_TRUE(s.ok()) << s;
  }
  std::vector<std::pair<size_t, Tensor>> snapshots;
  for (size_t k = 0; k < variables.size(); ++k) {
    if ((shared >> k & 1) == 0) continue;
    const Result<Tensor> value = session.Run(reads[k]);
    EXPECT_TRUE(value.ok()) << value.status();
    if (value.ok()) snapshots.emplace_back(k, *value);
  }
  const Status s = session.RunTargets({update});
  EXPECT_TRUE(s.ok()) << s;
  for (const auto& [k, snapshot] : snapshots)
    EXPECT_TRUE(snapshot.Identical(variables[k])) << "snapshot of " << k;
  const Result<std::vector<Tensor>> now = session.Run(reads);
  EXPECT_TRUE(now.ok()) << now.status();
  return now.ok() ? *now : std::vector<Tensor>();
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

// An update that finds its variables shared, with a checkpoint that is being
// written for instance, leaves what the others see, and its result is that of
// an update in place, bit for bit, however many of them are shared.
TEST(Training, UpdatesBesideSnapshotsAreThoseInPlace) {
  constexpr unsigned kSeed = 11;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  std::mt19937 random(kSeed);
  std::uniform_real_distribution<float> values(.1f, .9f);
  // (More than two threads' grains and no multiple of any block.)
  constexpr int64_t kElements = 3 * 16384 + 1027;
  int tried = 0;
  for (const OpDef* const def : OpRegistry::Global()->All()) {
    const std::string op = def->name;
    if (!op.starts_with("ResourceApply")) continue;
    for (const DType dtype : {DType::kFloat, DType::kDouble, DType::kHalf}) {
      if (kSanitized && dtype != DType::kFloat) continue;
      SCOPED_TRACE(absl::StrCat(op, " of ", DTypeName(dtype)));
      const auto make = [&](const Shape& shape) {
        std::vector<float> v(static_cast<size_t>(shape.num_elements()));
        for (float& x : v) x = values(random);
        return CastTo(Tensor::Of<float>(shape, v), dtype);
      };
      std::vector<Tensor> variables, rest;
      for (const ArgDef& a : def->inputs) {
        if (a.type == DType::kResource)
          variables.push_back(make(Shape({kElements})));
        else if (a.name == "global_step")
          rest.push_back(Tensor::Scalar<int64_t>(3));
        else
          rest.push_back(a.name == "grad" || a.name == "delta"
                             ? make(Shape({kElements}))
                             : make(Shape({})));
      }
      const auto shared_with = [&](unsigned mask) {
        return UpdateBeside(op, variables, rest, mask);
      };
      const std::vector<Tensor> in_place = shared_with(0);
      ASSERT_EQ(in_place.size(), variables.size());
      const unsigned all = (1u << variables.size()) - 1;
      for (unsigned mask = 1; mask <= all; ++mask) {
        const std::vector<Tensor> beside = shared_with(mask);
        ASSERT_EQ(beside.size(), variables.size());
        for (size_t k = 0; k < variables.size(); ++k)
          EXPECT_TRUE(beside[k].Identical(in_place[k]))
              << "variable " << k << ", shared " << mask;
      }
      ++tried;
    }
  }
  EXPECT_GE(tried, (kSanitized ? 1 : 3) * 16);
}

// The same of updates of some rows, and of sums, which need what they do not
// write.
TEST(Training, UpdatesOfRowsBesideSnapshotsKeepTheOtherRows) {
  const Tensor v = Tensor::Of<float>(Shape({3, 2}), {1, 2, 3, 4, 5, 6});
  const Tensor accum = Tensor::Of<float>(Shape({3, 2}), {1, 1, 1, 1, 1, 1});
  const std::vector<Tensor> rest = {Tensor::Scalar<float>(.1f),
                                    Tensor::Of<float>(Shape({1, 2}), {1, 1}),
                                    Tensor::Vector<int32_t>({1})};
  const auto in_place =
      UpdateBeside("ResourceSparseApplyAdagrad", {v, accum}, rest, 0);
  const auto beside =
      UpdateBeside("ResourceSparseApplyAdagrad", {v, accum}, rest, 3);
  ASSERT_EQ(in_place.size(), 2u);
  ASSERT_EQ(beside.size(), 2u);
  for (size_t k = 0; k < 2; ++k)
    EXPECT_TRUE(beside[k].Identical(in_place[k])) << beside[k].ToString();
  EXPECT_EQ(beside[0].flat<float>()[0], 1);
  EXPECT_EQ(beside[0].flat<float>()[5], 6);
}

// Threads divide the rows, and a row that is named many times is still updated
// once for each of its indices, in their order.
TEST(Training, UpdatesOfRowsDoNotDependOnTheNumberOfThreads) {
  constexpr int64_t kRows = 40, kColumns = 300, kIndices = 500;
  constexpr unsigned kSeed = 31;
  SCOPED_TRACE(kSeed);
  std::mt19937 rng(kSeed);
  std::vector<float> v(kRows * kColumns), sums(v.size(), 0.1f),
      grad(kIndices * kColumns);
  for (auto* to : {&v, &grad})
    for (float& x : *to) x = static_cast<float>(rng() % 2001) / 1000 - 1;
  std::vector<int32_t> indices(kIndices);
  // (The last row is never named.)
  for (int32_t& i : indices) i = static_cast<int32_t>(rng() % (kRows - 1));
  const auto updated = [&](int threads) {
    Graph g;
    const WithGraph use(g);
    const AttrMap attrs = {{"dtype", DType::kFloat},
                           {"shape", PartialShape({kRows, kColumns})}};
    const Output var = Build("VarHandleOp", {}, attrs),
                 accum = Build("VarHandleOp", {}, attrs);
    const Shape shape({kRows, kColumns});
    const std::vector<Node*> starts = {
        BuildNode("AssignVariableOp",
                  {var, Constant(Tensor::Of<float>(shape, v))}),
        BuildNode("AssignVariableOp",
                  {accum, Constant(Tensor::Of<float>(shape, sums))})};
    Node* const update =
        BuildNode("ResourceSparseApplyAdagrad",
                  {var, accum, Constant(0.1f),
                   Constant(Tensor::Of<float>({kIndices, kColumns}, grad)),
                   Constant(Tensor::Vector<int32_t>(indices))});
    const Output read =
        Build("ReadVariableOp", {var}, {{"dtype", DType::kFloat}});
    SessionOptions options;
    options.intra_op_threads = threads;
    Session session(g, options);
    EXPECT_TRUE(session.RunTargets(starts).ok());
    EXPECT_TRUE(session.RunTargets({update}).ok());
    return session.Run(read);
  };
  const Result<Tensor> alone = updated(1), divided = updated(3);
  ASSERT_TRUE(alone.ok()) << alone.status();
  ASSERT_TRUE(divided.ok()) << divided.status();
  EXPECT_TRUE(divided->Identical(*alone));
  // Adagrad's rule in double, one index after the other.
  std::vector<double> want(v.begin(), v.end()), accum(v.size(), 0.1f);
  for (size_t i = 0; i < indices.size(); ++i)
    for (size_t c = 0; c < kColumns; ++c) {
      const size_t at = static_cast<size_t>(indices[i]) * kColumns + c;
      const double d = grad[i * kColumns + c];
      accum[at] += d * d;
      want[at] -= 0.1f * d / std::sqrt(accum[at]);
    }
  for (size_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(divided->flat<float>()[i], want[i], 1e-5) << "element " << i;
}

// Neither the variable nor what shares it is changed by one that fails.
TEST(Training, AnUpdateThatFailsBesideASnapshotChangesNothing) {
  Graph g;
  const WithGraph use(g);
  const Tensor two = Tensor::Vector<float>({1, 2});
  const Output v =
      Build("VarHandleOp", {},
            {{"dtype", DType::kFloat}, {"shape", PartialShape::Unknown()}});
  Node* const start = BuildNode("AssignVariableOp", {v, Constant(two)});
  const Output delta = Build("PlaceholderWithDefault",
                             {Constant(Tensor::Vector<float>({1, 2, 3}))},
                             {{"shape", PartialShape::Unknown()}});
  Node* const update =
      BuildNode("ResourceApplyGradientDescent", {v, Constant(1.f), delta});
  const Output read = Build("ReadVariableOp", {v}, {{"dtype", DType::kFloat}});
  Session session(g);
  ASSERT_TRUE(session.RunTargets({start}).ok());
  const Result<Tensor> snapshot = session.Run(read);
  ASSERT_TRUE(snapshot.ok()) << snapshot.status();
  EXPECT_EQ(session.RunTargets({update}).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(snapshot->Identical(two));
  const Result<Tensor> now = session.Run(read);
  ASSERT_TRUE(now.ok()) << now.status();
  EXPECT_TRUE(now->Identical(two)) << now->ToString();
}

}  // namespace
}  // namespace sluice
