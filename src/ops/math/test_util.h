// Running single ops in tests.
#ifndef SLUICE_OPS_MATH_TEST_UTIL_H_
#define SLUICE_OPS_MATH_TEST_UTIL_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "client/autodiff/gradients.h"
#include "graph/builder.h"
#include "session/session.h"

namespace sluice {

// The outputs of one node on fed inputs.
inline Result<std::vector<Tensor>> RunOpAll(const std::string& op,
                                            const std::vector<Tensor>& inputs,
                                            const AttrMap& attrs = {}) {
  Graph g;
  WithGraph use(g);
  std::vector<Output> args;
  Feeds feeds;
  for (const Tensor& t : inputs) {
    args.push_back(Build("Placeholder", {}, {{"dtype", t.dtype()}}));
    feeds.emplace_back(args.back(), t);
  }
  Node* n = BuildNode(op, args, attrs);
  if (n == nullptr) return g.status();
  std::vector<Output> fetches;
  for (int i = 0; i < n->num_outputs(); ++i) fetches.emplace_back(n, i);
  Session session(g);
  return session.Run(feeds, fetches);
}

inline Result<Tensor> RunOp(const std::string& op,
                            const std::vector<Tensor>& inputs,
                            const AttrMap& attrs = {}) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Tensor> all,
                          RunOpAll(op, inputs, attrs));
  return all[0];
}

// Expects output 0 to have this shape and exactly these elements.
template <typename T>
void ExpectOp(const std::string& op, const std::vector<Tensor>& inputs,
              const AttrMap& attrs, const Shape& shape,
              const std::vector<T>& want) {
  const Result<Tensor> got = RunOp(op, inputs, attrs);
  ASSERT_TRUE(got.ok()) << op << ": " << got.status();
  ASSERT_EQ(got->dtype(), DTypeOf<T>()) << op;
  EXPECT_TRUE(got->shape() == shape) << op << ": " << got->shape().ToString();
  EXPECT_EQ(got->ToVector<T>(), want) << op;
}

// The same within `tolerance`, relative to max(1, |want|).
template <typename T>
void ExpectNear(const std::string& op, const std::vector<Tensor>& inputs,
                const AttrMap& attrs, const std::vector<T>& want,
                double tolerance) {
  const Result<Tensor> got = RunOp(op, inputs, attrs);
  ASSERT_TRUE(got.ok()) << op << ": " << got.status();
  const std::vector<T> values = got->ToVector<T>();
  ASSERT_EQ(values.size(), want.size()) << op;
  for (size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(values[i], want[i],
                tolerance * std::max(1.0, std::abs(double{want[i]})))
        << op << " element " << i;
}

inline void ExpectInvalid(const std::string& op,
                          const std::vector<Tensor>& inputs,
                          const AttrMap& attrs, const std::string& message) {
  const Result<Tensor> got = RunOp(op, inputs, attrs);
  ASSERT_FALSE(got.ok()) << op;
  EXPECT_EQ(got.status().code(), StatusCode::kInvalidArgument) << got.status();
  EXPECT_THAT(std::string(got.status().message()), testing::HasSubstr(message));
}

// Compares the gradient of sum(op(inputs)) along each double input with finite
// differences. With `unknown_shapes` the graph knows nothing of the shapes.
inline void ExpectGradients(const std::string& op,
                            const std::vector<Tensor>& inputs,
                            const AttrMap& attrs = {},
                            bool unknown_shapes = false) {
  Graph g;
  WithGraph use(g);
  std::vector<Output> args;
  std::vector<GradTarget> targets;
  std::vector<size_t> places;
  Feeds feeds;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& t = inputs[i];
    if (t.dtype() != DType::kDouble && !unknown_shapes) {
      args.push_back(Constant(t));
      continue;
    }
    args.push_back(
        Build("Placeholder", {},
              {{"dtype", t.dtype()},
               {"shape",
                unknown_shapes ? PartialShape() : PartialShape(t.shape())}}));
    feeds.emplace_back(args.back(), t);
    if (t.dtype() != DType::kDouble) continue;
    targets.emplace_back(args.back());
    places.push_back(feeds.size() - 1);
  }
  const Output y = Build(op, args, attrs);
  ASSERT_TRUE(y.valid()) << g.status();
  const Output sum =
      Build("Sum", {Build("Square", {Build("Reshape", {y, IntVector({-1})})}),
                    IntVector({0})});
  GradientOptions options;
  options.unconnected = Unconnected::kZero;
  const auto gradients = Gradients({sum}, targets, options);
  ASSERT_TRUE(gradients.ok()) << op << ": " << gradients.status();
  Session session(g);
  for (size_t k = 0; k < targets.size(); ++k) {
    const Result<Tensor> got =
        session.Run(feeds, Densify((*gradients)[k], targets[k].output));
    ASSERT_TRUE(got.ok()) << op << ": " << got.status();
    const Tensor x = feeds[places[k]].second;
    ASSERT_TRUE(got->shape() == x.shape()) << op << ' ' << got->ToString();
    for (int64_t i = 0; i < x.num_elements(); ++i) {
      constexpr double kStep = 1e-5;
      double f[2];
      for (int side = 0; side < 2; ++side) {
        Result<Tensor> moved = x.Clone();
        moved->data<double>()[i] += side == 0 ? -kStep : kStep;
        Feeds at = feeds;
        at[places[k]].second = *moved;
        const Result<Tensor> value = session.Run(at, sum);
        ASSERT_TRUE(value.ok()) << value.status();
        f[side] = value->scalar<double>();
      }
      const double want = (f[1] - f[0]) / (2 * kStep);
      EXPECT_NEAR(got->data<double>()[i], want, 1e-4 * (1 + std::abs(want)))
          << op << " input " << k << " element " << i;
    }
  }
}

}  // namespace sluice

#endif  // SLUICE_OPS_MATH_TEST_UTIL_H_
