// Gradients of the ops that move elements, against differences of the results
// for the recorded cases: with everything known while building, and with
// nothing known.
#include "client/autodiff/gradients.h"

#include <cmath>
#include <random>
#include <set>

#include "gtest/gtest.h"
#include "ops/array/test_util.h"
#include "ops/common/grad_nodes.h"
#include "session/session.h"

namespace sluice {
namespace {

// sum(outputs * weights) of a case as a function of its float input `wrt`.
struct Loss {
  Output x, value, gradient;
};

// Small integers, so that sums of floats are exact.
Tensor Weights(const Shape& shape, std::mt19937* random) {
  Tensor t(DType::kFloat, shape);
  for (float& v : t.flat<float>()) v = static_cast<float>((*random)() % 9) - 4;
  return t;
}

Output DenseOf(const Gradient& g, Output x) {
  if (!g.is_sparse()) return g.dense;
  return Build("ScatterNd", {grad::ExpandDims(g.indices, 1), g.values,
                             grad::ShapeOf(x, g.indices.dtype())});
}

// Builds into the ambient graph. nullopt if no gradient flows.
Result<Loss> BuildLoss(const RecordedCase& c, int wrt, bool known,
                       std::mt19937* random) {
  Loss loss;
  std::vector<Output> inputs;
  for (int i = 0; i < static_cast<int>(c.inputs.size()); ++i) {
    const Tensor& t = c.inputs[static_cast<size_t>(i)];
    const PartialShape shape = known ? PartialShape(t.shape()) : PartialShape();
    if (i == wrt)
      loss.x =
          Build("Placeholder", {}, {{"dtype", t.dtype()}, {"shape", shape}});
    inputs.push_back(i == wrt ? loss.x
                     : known  ? Constant(t)
                              : Build("PlaceholderWithDefault", {Constant(t)},
                                      {{"shape", PartialShape()}}));
  }
  Node* node = BuildNode(c.op, inputs, c.attrs);
  if (node == nullptr) return CurrentGraph().status();
  std::vector<Output> sums;
  for (int i = 0; i < node->num_outputs(); ++i) {
    const Tensor& out = c.outputs[static_cast<size_t>(i)];
    if (out.dtype() != DType::kFloat) continue;
    const Output weighted =
        grad::Mul(Output(node, i), Constant(Weights(out.shape(), random)));
    sums.push_back(Build("Sum", {Build("Reshape", {weighted, IntVector({-1})}),
                                 IntVector({0})}));
  }
  if (sums.empty()) return loss;
  loss.value = sums.size() == 1 ? sums[0] : Build("AddN", sums);
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Gradient> gs,
                          Gradients({loss.value}, {loss.x}));
  if (gs[0]) loss.gradient = DenseOf(gs[0], loss.x);
  SLUICE_RETURN_IF_ERROR(CurrentGraph().status());
  return loss;
}

void CheckCase(const RecordedCase& c, bool known, int* checked) {
  const std::string where =
      absl::StrCat("tests/cases/array_ops.txt:", c.line, ": ", c.op,
                   known ? ", all known" : ", nothing known");
  for (int wrt = 0; wrt < static_cast<int>(c.inputs.size()); ++wrt) {
    const Tensor& x = c.inputs[static_cast<size_t>(wrt)];
    if (x.dtype() != DType::kFloat || x.num_elements() == 0) continue;
    std::mt19937 random(20161102);  // The same weights for every input.
    Graph graph;
    WithGraph use(graph);
    const Result<Loss> loss = BuildLoss(c, wrt, known, &random);
    ASSERT_TRUE(loss.ok()) << where << ": " << loss.status();
    if (!loss->gradient.valid()) continue;
    Session session(graph);
    const Result<Tensor> got = session.Run({{loss->x, x}}, loss->gradient);
    ASSERT_TRUE(got.ok()) << where << ": input " << wrt << ": " << got.status();
    ASSERT_EQ(got->shape().ToString(), x.shape().ToString()) << where;
    const Result<Session::Callable> f =
        session.MakeCallable({loss->x}, {loss->value});
    ASSERT_TRUE(f.ok()) << where << ": " << f.status();
    const auto at = [&](int64_t i, float delta) {
      Tensor moved = *x.Clone();
      moved.data<float>()[i] += delta;
      const auto out = f->Run({moved});
      return out.ok() ? (*out)[0].scalar<float>() : std::nanf("");
    };
    const int64_t step = std::max<int64_t>(1, x.num_elements() / 24);
    for (int64_t i = 0; i < x.num_elements(); i += step) {
      const float want = (at(i, 0.25f) - at(i, -0.25f)) / 0.5f;
      EXPECT_NEAR(got->data<float>()[i], want, 1e-3)
          << where << ": input " << wrt << ", element " << i;
      ++*checked;
    }
  }
}

// A row that is named by two indices of a stitch is overwritten, but as in
// TensorFlow both sources get its gradient.
bool NamesARowTwice(const RecordedCase& c) {
  std::set<int64_t> seen;
  for (const Tensor& t : c.inputs)
    if (t.dtype() == DType::kInt32)
      for (int32_t i : t.flat<int32_t>())
        if (!seen.insert(i).second) return true;
  return false;
}

// A difference changes which values are distinct or remain.
bool DependsOnEquality(const std::string& op) {
  return op == "ListDiff" || op.rfind("Unique", 0) == 0;
}

TEST(ArrayGradients, MatchFiniteDifferences) {
  int checked = 0;
  for (const RecordedCase& c : ReadCases()) {
    const OpDef* op = OpRegistry::Global()->Find(c.op);
    ASSERT_NE(op, nullptr) << c.op;
    if (c.error || op->grad == nullptr) continue;
    if (c.op == "DynamicStitch" && NamesARowTwice(c)) continue;
    if (DependsOnEquality(c.op)) continue;
    for (bool known : {true, false}) CheckCase(c, known, &checked);
  }
  EXPECT_GT(checked, 2000);
}

}  // namespace
}  // namespace sluice
