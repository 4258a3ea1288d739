// What the small library is for: a program on a small device that trains a
// network with loops and gradients. The loop over the training steps is in the
// graph. The first part is also written as TensorFlow's GraphDef, read back and
// run by name, the network is saved and restored, and the last part does what
// the small build leaves out.
#include <cstdio>
#include <filesystem>

#include "sluice/sluice.h"

using namespace sluice;

namespace {

int Fail(const Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

// The sum 1 + x + ... + x^9 by a loop, and its slope at x.
Result<std::string> Powers() {
  Graph graph;
  const WithGraph use(graph);
  Output x = Placeholder<float>({}, "x");
  auto [i, power, sum] = While(
      std::tuple{0, 1.0f, 0.0f},
      [](Output i, Output, Output) { return i < 10; },
      [&](Output i, Output power, Output sum) {
        return std::tuple{i + 1, power * x, sum + power};
      });
  ops::Identity(i, {.name = "i"});
  ops::Identity(sum, {.name = "sum"});
  ops::Identity(Grad(sum, x), {.name = "slope"});
  SLUICE_RETURN_IF_ERROR(graph.status());
  return ExportGraphDef(graph);
}

Status RunPowers() {
  SLUICE_ASSIGN_OR_RETURN(const std::string bytes, Powers());
  Graph graph;
  SLUICE_RETURN_IF_ERROR(ImportGraphDef(bytes, graph));
  Session session(graph);
  SLUICE_ASSIGN_OR_RETURN(
      const auto out,
      session.RunByName({{"x", Tensor::Scalar(2.0f)}}, {"i", "sum", "slope"}));
  std::printf("%d %g %g\n", out[0].scalar<int32_t>(), out[1].scalar<float>(),
              out[2].scalar<float>());
  return OkStatus();
}

// Saves the variables, changes one, and takes the checkpoint that the folder
// names as its latest: what it restores.
Result<float> SaveAndRestore(Session& session, Saver& saver, Var& v,
                             Node* change) {
  std::string pattern =
      (std::filesystem::temp_directory_path() / "sluice_small_XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) return Internal("no folder");
  const std::string folder = pattern;
  const auto saved = [&]() -> Result<float> {
    SLUICE_RETURN_IF_ERROR(saver.Save(session, folder + "/ckpt", 7).status());
    SLUICE_RETURN_IF_ERROR(session.RunTargets({change}));
    SLUICE_ASSIGN_OR_RETURN(const Tensor other, session.Run(v));
    if (other.data<float>()[0] != 0) return Internal("nothing was assigned");
    SLUICE_ASSIGN_OR_RETURN(const std::string latest, LatestCheckpoint(folder));
    SLUICE_RETURN_IF_ERROR(saver.Restore(session, latest));
    SLUICE_ASSIGN_OR_RETURN(const Tensor t, session.Run(v));
    return t.data<float>()[0];
  }();
  std::filesystem::remove_all(folder);
  return saved;
}

std::string CodeOf(const Status& status) {
  return absl::StatusCodeToString(status.code());
}

// Elements of any type are moved and cast; the small build computes with few.
void LeftOut() {
  Graph graph;
  const WithGraph use(graph);
  Output h = ops::Cast(Constant(1.5f), DType::kHalf);
  Output back = ops::Cast(ops::Reshape(h, {1}), DType::kFloat);
  Output sum = ops::Add(h, h), total = ops::Sum(ops::Reshape(h, {1}), {0});
  Session session(graph);
  for (const Output& x : {back, sum, total}) {
    const auto value = session.Run(x);
    std::printf(
        "%s\n",
        (value.ok() ? value->ToString() : CodeOf(value.status())).c_str());
  }
  const auto text = ExportGraphDef(graph, /*text=*/true);
  std::printf("%s\n", CodeOf(text.status()).c_str());
}

}  // namespace

int main() {
  if (Status s = RunPowers(); !s.ok()) return Fail(s);

  SetRandomSeed(1);
  // A network of two layers learns XOR in one run.
  Output bits = Constant(Tensor::Of<float>({4, 2}, {0, 0, 0, 1, 1, 0, 1, 1}));
  Output parity = Constant(Tensor::Of<float>({4, 1}, {0, 1, 1, 0}));
  Var w1(RandomNormal({2, 8}), "w1"), b1(Zeros({8}), "b1");
  Var w2(RandomNormal({8, 1}), "w2"), b2(Zeros({1}), "b2");
  auto predict = [&] {
    Output hidden = ops::Tanh(ops::MatMul(bits, w1) + b1);
    return ops::Sigmoid(ops::MatMul(hidden, w2) + b2);
  };
  GradientDescentOptimizer optimizer(2.0);
  auto [steps, loss] = While(
      std::tuple{0, 1.0f},
      [](Output steps, Output loss) {
        return ops::LogicalAnd(loss > 1e-3f, steps < 20000);
      },
      [&](Output steps, Output) {
        Output error = predict() - parity;
        Output loss = ops::Mean(error * error, {0, 1});
        ControlDependencies updated({optimizer.Minimize(loss)});
        return std::tuple{steps + 1, ops::Identity(loss)};
      },
      {.parallel_iterations = 1});
  Output learned = ops::Round(predict());
  Node* clear = b2.Assign(Zeros({1}));
  Saver saver;

  Session session;
  if (Status s = session.RunTargets({GlobalVariablesInitializer()}); !s.ok())
    return Fail(s);
  const auto trained = session.Run({steps, loss});
  if (!trained.ok()) return Fail(trained.status());
  const auto values = session.Run(learned);
  if (!values.ok()) return Fail(values.status());
  std::printf("%s %s\n", (*trained)[1].scalar<float>() <= 1e-3f ? "yes" : "no",
              values->ToString().c_str());
  const auto before = session.Run(b2);
  if (!before.ok()) return Fail(before.status());
  const auto restored = SaveAndRestore(session, saver, b2, clear);
  if (!restored.ok()) return Fail(restored.status());
  std::printf("%s\n",
              *restored == before->data<float>()[0] ? "the same" : "another");
  LeftOut();
  return 0;
}
