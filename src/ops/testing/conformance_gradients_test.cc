// The gradients of all ops of the registry, against finite differences and in
// loops against themselves, from the samples of their declarations: no op is
// named here except in the list of exceptions, each with its reason.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/sanitizers.h"
#include "client/autodiff/gradients.h"
#include "client/control/control_flow.h"
#include "exec/core/kernel.h"
#include "graph/builder.h"
#include "graph/grad.h"
#include "ops/testing/op_instances_test_util.h"
#include "session/session.h"

namespace sluice {
namespace {

using namespace op_instances;  // NOLINT: a part of this file.

// Ops whose gradient cannot be checked by differences, or "Op:input" if one
// input has none -> reason.
const std::map<std::string, std::string>& NotDifferenced() {
  static const auto* m = new std::map<std::string, std::string>{
      {"Complex", "complex128 out of doubles: see MissingKernels"},
      {"Cholesky", "symmetric, though one triangle is read: linalg_test.cc"},
      {"MatrixSolveLs:2", "TensorFlow gives none for l2_regularizer"},
      {"RandomGamma", "by the distribution, not by the draws: random_test.cc"},
      {"ListDiff", "a difference changes what is left"},
      {"BlockLSTM", "those of cs and h alone: nn/gradients_test.cc"},
      {"BlockLSTMV2", "those of cs and h alone: nn/gradients_test.cc"},
      {"CTCLoss", "its second output is the gradient of the first"},
      {"FakeQuantWithMinMaxArgs", "gradients pass as if nothing were rounded"},
      {"FakeQuantWithMinMaxVars", "gradients pass as if nothing were rounded"},
      {"FakeQuantWithMinMaxVarsPerChannel",
       "gradients pass as if nothing were rounded"},
      {"FusedBatchNormGrad", "through x's moments too: nn/gradients_test.cc"},
      {"FusedBatchNormGradV2", "through x's moments too: nn/gradients_test.cc"},
      {"FusedBatchNormGradV3", "through x's moments too: nn/gradients_test.cc"},
      {"FusedBatchNorm:3", "TensorFlow gives none for given moments"},
      {"FusedBatchNorm:4", "TensorFlow gives none for given moments"},
      {"FusedBatchNormV2:3", "TensorFlow gives none for given moments"},
      {"FusedBatchNormV2:4", "TensorFlow gives none for given moments"},
      {"FusedBatchNormV3:3", "TensorFlow gives none for given moments"},
      {"FusedBatchNormV3:4", "TensorFlow gives none for given moments"},
      {"QuantizeAndDequantizeV2", "gradients pass as if nothing were rounded"},
      {"QuantizeAndDequantizeV3", "gradients pass as if nothing were rounded"},
      {"QuantizeAndDequantizeV4", "gradients pass as if nothing were rounded"},
      {"MaxPool3DGradGrad", "its gradient takes no double, like TensorFlow's"},
      {"MaxPool3DGrad:0", "what is off by a step is no largest any more"},
      {"MaxPool3DGrad:1", "what is off by a step is no largest any more"},
      {"Betainc:0", "TensorFlow gives none for a"},
      {"Betainc:1", "TensorFlow gives none for b"},
      {"Polygamma:0", "defined at whole orders only"},
      {"Zeta:0", "TensorFlow gives none for x"},
      {"ImageProjectiveTransformV2:1",
       "TensorFlow gives none for the transforms"},
      {"ScaleAndTranslate:2", "TensorFlow gives none for the scale"},
      {"ScaleAndTranslate:3", "TensorFlow gives none for the translation"},
      {"PadV2:2", "TensorFlow gives none for the padding value"},
      {"MatrixDiagV2:4", "TensorFlow gives none for the padding value"},
      {"MatrixDiagV3:4", "TensorFlow gives none for the padding value"},
      {"MatrixDiagPartV2:2", "TensorFlow gives none for the padding value"},
      {"MatrixDiagPartV3:2", "TensorFlow gives none for the padding value"},
  };
  return *m;
}

// Ops whose other outputs are moments, which have no gradient in TensorFlow.
bool FirstOutputOnly(const std::string& op) {
  return op == "FusedBatchNorm" || op == "FusedBatchNormV2" ||
         op == "FusedBatchNormV3";
}

// ---- Checking one op --------------------------------------------------------

template <typename T>
struct Accuracy;
template <>
struct Accuracy<double> {
  static constexpr double kStep = 1e-5, kTolerance = 1e-5, kLoopError = 1e-10;
};
template <>
struct Accuracy<float> {
  static constexpr double kStep = 5e-3, kTolerance = 2e-3, kLoopError = 2e-5;
};

// The gradients of a random projection of an op's outputs of type T with
// respect to its inputs of that type. Builds into the ambient graph; lives for
// one test.
template <typename T>
class GradientCheck {
 public:
  explicit GradientCheck(const Instance& in) : in_(in) {}

  // Against central differences, and then in loops.
  void Run(bool in_loops) {
    for (size_t i = 0; i < in_.inputs.size(); ++i) {
      const Tensor& t = in_.inputs[i];
      const bool data =
          t.dtype() == DTypeOf<T>() &&
          !NotDifferenced().count(absl::StrCat(in_.op->name, ":", i));
      args_.push_back(InputNode(t, !data));
      if (data) which_.push_back(i);
    }
    node_ = BuildNode(in_.op->name, args_, in_.attrs);
    ASSERT_NE(node_, nullptr) << CurrentGraph().status();
    const Result<std::vector<Tensor>> out = RunKernel(*node_, in_.inputs);
    ASSERT_TRUE(out.ok()) << out.status();
    std::mt19937 rng(kInstanceSeed);
    std::uniform_real_distribution<double> draw(-1, 1);
    weights_.resize(out->size());
    for (size_t i = 0; i < out->size(); ++i) {
      if ((*out)[i].dtype() != DTypeOf<T>() ||
          (i > 0 && FirstOutputOnly(in_.op->name)))
        continue;
      weights_[i] = Tensor(DTypeOf<T>(), (*out)[i].shape());
      for (T& w : weights_[i].template flat<T>()) w = static_cast<T>(draw(rng));
      has_outputs_ = true;
    }
    if (!has_outputs_ || which_.empty()) return;
    alone_ = GradientsOf(Projected(node_));
    session_.emplace(CurrentGraph());
    CompareWithDifferences();
    if (!in_loops) return;
    CompareInLoop(/*captured=*/false);
    CompareInLoop(/*captured=*/true);
  }

 private:
  // How a loop changes its variables: to another value within the range of the
  // sample.
  static constexpr double kShrink = 1 - 1.0 / 256;

  // The sum of the node's outputs, each element times its weight.
  Output Projected(Node* n) const {
    std::vector<Output> terms;
    for (size_t i = 0; i < weights_.size(); ++i) {
      if (!weights_[i].valid()) continue;
      const Output weighted =
          Build("Mul", {Output(n, static_cast<int>(i)), Constant(weights_[i])});
      terms.push_back(Build(
          "Sum",
          {Build("Reshape", {weighted, IntVector({-1})}), IntVector({0})}));
    }
    return Build("AddN", terms);
  }

  std::vector<Output> GradientsOf(Output y) const {
    std::vector<GradTarget> xs;
    for (size_t i : which_) xs.emplace_back(args_[i]);
    return Grad({y}, xs, {.unconnected = Unconnected::kZero});
  }

  // The values of `gradients` for inputs that are `scale` times the sample's.
  Result<std::vector<Tensor>> Values(const std::vector<Output>& gradients,
                                     double scale) {
    Feeds feeds;
    for (size_t i : which_) {
      SLUICE_ASSIGN_OR_RETURN(Tensor t, in_.inputs[i].Clone());
      for (T& v : t.flat<T>()) v = static_cast<T>(v * scale);
      feeds.emplace_back(args_[i], t);
    }
    return session_->Run(feeds, gradients);
  }

  void CompareWithDifferences() {
    const Result<std::vector<Tensor>> got = Values(alone_, 1);
    ASSERT_TRUE(got.ok()) << got.status();
    for (size_t x = 0; x < which_.size(); ++x) {
      const Tensor& at = in_.inputs[which_[x]];
      ASSERT_EQ((*got)[x].shape(), at.shape()) << "input " << which_[x];
      for (int64_t k = 0; k < at.num_elements(); ++k) {
        const double value = static_cast<double>(at.data<T>()[k]);
        const double h = Accuracy<T>::kStep * std::max(1.0, std::abs(value));
        double side[2];
        for (int s = 0; s < 2; ++s) {
          std::vector<Tensor> moved = in_.inputs;
          moved[which_[x]] = *at.Clone();
          moved[which_[x]].template data<T>()[k] =
              static_cast<T>(value + (s == 0 ? h : -h));
          const Result<double> f = ProjectedAt(moved);
          ASSERT_TRUE(f.ok()) << f.status();
          side[s] = *f;
        }
        ExpectNear((side[0] - side[1]) / (2 * h), (*got)[x].data<T>()[k],
                   Accuracy<T>::kTolerance, x, k);
      }
    }
  }

  // The same as Projected, summed in double.
  Result<double> ProjectedAt(const std::vector<Tensor>& inputs) const {
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Tensor> out,
                            RunKernel(*node_, inputs));
    double sum = 0;
    for (size_t i = 0; i < out.size(); ++i)
      for (int64_t k = 0; weights_[i].valid() && k < weights_[i].num_elements();
           ++k)
        sum += static_cast<double>(out[i].data<T>()[k]) *
               static_cast<double>(weights_[i].data<T>()[k]);
    return sum;
  }

  // A loop of two iterations that sums the projection, doubled in the second
  // one. Its data is `captured` from outside, like everything else then, or is
  // a loop variable that shrinks a little; everything else is in the loop then.
  void CompareInLoop(bool captured) {
    SCOPED_TRACE(captured ? "in a loop, captured" : "in a loop, carried");
    const Output one = ScalarOf(DTypeOf<T>(), 1);
    std::vector<Output> init{one, ScalarOf(DTypeOf<T>(), 0)};
    for (size_t i : which_)
      if (!captured) init.push_back(args_[i]);
    const std::vector<Output> last = While(
        init,
        [&](const std::vector<Output>& v) {
          return Build("Less", {v[0], ScalarOf(DTypeOf<T>(), 2.5)});
        },
        [&](const std::vector<Output>& v) {
          std::vector<Output> args = args_, next = v;
          for (size_t i = 0; !captured && i < args.size(); ++i) {
            const auto at = std::find(which_.begin(), which_.end(), i);
            args[i] = at == which_.end()
                          ? InputNode(in_.inputs[i], true)
                          : v[2 + static_cast<size_t>(at - which_.begin())];
          }
          Node* n = BuildNode(in_.op->name, args, in_.attrs);
          if (n == nullptr) return next;
          next[0] = Build("Add", {v[0], ScalarOf(DTypeOf<T>(), 1)});
          next[1] = Build("Add", {v[1], Build("Mul", {v[0], Projected(n)})});
          for (size_t i = 2; i < v.size(); ++i)
            next[i] = Build("Mul", {v[i], ScalarOf(DTypeOf<T>(), kShrink)});
          return next;
        });
    ASSERT_TRUE(CurrentGraph().status().ok()) << CurrentGraph().status();
    const auto got = Values(GradientsOf(last[1]), 1);
    ASSERT_TRUE(got.ok()) << got.status();
    const auto first = Values(alone_, 1);
    const auto second = Values(alone_, captured ? 1 : kShrink);
    ASSERT_TRUE(first.ok() && second.ok()) << second.status();
    for (size_t x = 0; x < which_.size(); ++x) {
      ASSERT_EQ((*got)[x].shape(), (*first)[x].shape());
      for (int64_t k = 0; k < (*got)[x].num_elements(); ++k) {
        const auto by = [&](const Tensor& t) {
          return static_cast<double>(t.data<T>()[k]);
        };
        ExpectNear(
            by((*first)[x]) + 2 * (captured ? 1 : kShrink) * by((*second)[x]),
            (*got)[x].template data<T>()[k], Accuracy<T>::kLoopError, x, k);
      }
    }
  }

  void ExpectNear(double want, T got, double tolerance, size_t x,
                  int64_t k) const {
    EXPECT_NEAR(static_cast<double>(got), want,
                tolerance * std::max(1.0, std::abs(want)))
        << "input " << which_[x] << ", element " << k;
  }

  const Instance& in_;
  std::vector<Output> args_;
  std::vector<size_t> which_;  // The differentiated inputs.
  Node* node_ = nullptr;
  std::vector<Tensor> weights_;  // By output; invalid if it is of another type.
  bool has_outputs_ = false;
  std::vector<Output> alone_;  // By which_: the gradients of the op alone.
  std::optional<Session> session_;
};

// The sample in double, or in float if the op does not support double.
std::optional<Instance> MostExact(const OpDef& op, const OpSample& s) {
  const std::vector<std::string> open = OpenTypes(s, ArgsOf(op, s));
  if (open.empty()) return Make(op, s, "", DType::kInvalid);
  const std::vector<DType>& allowed = op.FindAttr(open[0])->allowed_types;
  for (DType t : {DType::kDouble, DType::kFloat})
    if (allowed.empty() || std::count(allowed.begin(), allowed.end(), t))
      return Make(op, s, open[0], t);
  return std::nullopt;
}

TEST(Conformance, GradientsMatchDifferencesAloneAndInLoops) {
  // (Sanitizers are slow here and run only a few of the loops.)
  int number = 0;
  for (const OpDef* op : OpRegistry::Global()->All()) {
    if (!grad::HasGradient(*op) || NeedsNoKernel(*op) ||
        NotDifferenced().count(op->name))
      continue;
    for (const OpSample& s : op->samples) {
      const std::optional<Instance> in = MostExact(*op, s);
      if (!in) continue;
      SCOPED_TRACE(in->Name());
      const bool in_loops = number++ % (kSanitized ? 8 : 1) == 0;
      const auto is = [](DType t) {
        return [t](const Tensor& x) { return x.dtype() == t; };
      };
      Graph g;
      WithGraph use(g);
      if (std::any_of(in->inputs.begin(), in->inputs.end(), is(DType::kDouble)))
        GradientCheck<double>(*in).Run(in_loops);
      else
        GradientCheck<float>(*in).Run(in_loops);
    }
  }
}

}  // namespace
}  // namespace sluice
