// Recurrent networks against values recorded from TensorFlow 2.21
// (compat.v1.nn.dynamic_rnn, bidirectional_dynamic_rnn and its RNN cells).
#include "client/nn/rnn.h"

#include <cmath>
#include <random>

#include "client/testing/client_test_util.h"
#include "client/variable_scope.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

// The values of inputs and weights in the recordings.
Tensor RnnWave(const Shape& shape, float scale, float step) {
  Tensor t(DType::kFloat, shape);
  float* p = t.data<float>();
  for (int64_t i = 0; i < t.num_elements(); ++i)
    p[i] = scale * std::sin(step * static_cast<float>(i + 1));  // As recorded.
  return t;
}

// The sum of a tensor's elements, and the sum weighted by cos(0), cos(1), ...
std::pair<double, double> RnnSums(const Tensor& t) {
  double sum = 0, weighted = 0;
  for (int64_t i = 0; i < t.num_elements(); ++i) {
    sum += t.data<float>()[i];
    weighted += t.data<float>()[i] * std::cos(static_cast<double>(i));
  }
  return {sum, weighted};
}

struct Recording {
  std::string name;
  std::function<RnnCell()> make;
  std::vector<int32_t> lengths;  // Of a batch of 2; empty: all 3.
  std::vector<std::string> weights;
  std::vector<float> outputs;
  std::vector<std::vector<float>> states;
  // Gradients of sum(outputs^2) + sum(states) with respect to the weights and
  // then the inputs.
  std::vector<std::pair<double, double>> gradients;
};

const std::vector<Recording>& Recordings() {
  static const auto* const kRecordings = new std::vector<Recording>{
      {"basic",
       [] { return BasicRnnCell(2); },
       {3, 1},
       {"basic_rnn_cell/kernel", "basic_rnn_cell/bias"},
       {0.7593773f, 0.7785991f, -0.2419827f, 0.05245854f, -0.3000898f,
        -0.02945801f, 0.5850295f, 0.5607621f, 0, 0, 0, 0},
       {{-0.3000898f, -0.02945801f, 0.5850295f, 0.5607621f}},
       {{0.7021841, -3.022552}, {4.526379, 3.212279}, {3.144328, 3.048665}}},
      {"gru",
       [] { return GruCell(2); },
       {3, 1},
       {"gru_cell/gates/kernel", "gru_cell/gates/bias",
        "gru_cell/candidate/kernel", "gru_cell/candidate/bias"},
       {0.3247724f, 0.3909895f, 0.2542803f, 0.4036709f, -0.03328915f,
        0.1031018f, 0.2853509f, 0.291618f, 0, 0, 0, 0},
       {{-0.03328915f, 0.1031018f, 0.2853509f, 0.291618f}},
       {{-1.51547, -0.5271383},
        {-0.6107781, 0.3096721},
        {0.869293, 0.02874082},
        {3.068846, 2.284164},
        {2.200476, 0.3235072}}},
      {"lstm",
       [] { return LstmCell(2); },
       {3, 1},
       {"lstm_cell/kernel", "lstm_cell/bias"},
       {0.10594f, 0.1147771f, 0.2056284f, 0.1556492f, 0.1783264f, 0.1240726f,
        0.1130816f, 0.1020702f, 0, 0, 0, 0},
       {{0.3192942f, 0.2244887f, 0.3968808f, 0.3200794f},
        {0.1783264f, 0.1240726f, 0.1130816f, 0.1020702f}},
       {{1.692591, 0.4831615}, {7.147239, -2.728173}, {3.269606, 0.3190057}}},
      {"lstm with everything",
       [] {
         return LstmCell(2, {.peepholes = true,
                             .cell_clip = 0.06,
                             .projection = 3,
                             .projection_clip = 0.03});
       },
       {},
       {"lstm_cell/kernel", "lstm_cell/bias", "lstm_cell/w_f_diag",
        "lstm_cell/w_i_diag", "lstm_cell/w_o_diag",
        "lstm_cell/projection/kernel"},
       {0.006862575f, 0.003592573f, -0.001367072f, 0.01183786f, 0.006517375f,
        -0.001868336f, -0.01697513f, -0.01088854f, 0.0003190992f, 0.0092398f,
        0.005436194f, -0.0009241397f, 0.007823143f, 0.003944037f, -0.001790012f,
        -0.01604989f, -0.009851692f, 0.0009799114f},
       {{-0.06f, -0.06f, -0.06f, -0.06f},
        {-0.01697513f, -0.01088854f, 0.0003190992f, -0.01604989f, -0.009851692f,
         0.0009799114f}},
       {{0.0370252, 0.03146849},
        {-0.02257666, -0.02442033},
        {0, 0},
        {0, 0},
        {0.001424435, 0.001778078},
        {-0.3967509, 0.0183537},
        {0.02269409, -0.008860956}}},
      {"two layers",
       [] {
         return MultiRnnCell({LstmCell(2), GruCell(2)});
       },
       {2, 3},
       {"multi_rnn_cell/cell_0/lstm_cell/kernel",
        "multi_rnn_cell/cell_0/lstm_cell/bias",
        "multi_rnn_cell/cell_1/gru_cell/gates/kernel",
        "multi_rnn_cell/cell_1/gru_cell/gates/bias",
        "multi_rnn_cell/cell_1/gru_cell/candidate/kernel",
        "multi_rnn_cell/cell_1/gru_cell/candidate/bias"},
       {0.1525227f, 0.2365217f, 0.2313465f, 0.3557852f, 0, 0, 0.1505948f,
        0.2363341f, 0.2248701f, 0.3472939f, 0.2657938f, 0.4050299f},
       {{0.6157452f, 0.3844128f, 0.4562474f, 0.3254926f},
        {0.2056284f, 0.1556492f, 0.2301855f, 0.1736696f},
        {0.2313465f, 0.3557852f, 0.2657938f, 0.4050299f}},
       {{4.124557, -0.3800362},
        {8.807065, -2.88703},
        {-0.5117567, 0.03509713},
        {-0.9514653, 0.5532207},
        {2.379295, 0.5361515},
        {4.543166, 3.364003},
        {3.522834, -0.3178836}}},
  };
  return *kRecordings;
}

class RnnTest : public ClientTest {
 protected:
  // A network of [2, 3, 2] inputs.
  struct Built {
    Output x;
    RnnCell cell;
    RnnResult result;
  };
  enum class As { kDynamic, kTimeMajor, kUnknownSizes, kStatic };

  static Built BuildRnn(const Recording& r, As as) {
    Built b;
    b.cell = r.make();
    RnnOptions o;
    if (!r.lengths.empty())
      o.sequence_length = Operand(Constant(Tensor::Vector<int32_t>(r.lengths)));
    b.x = as == As::kUnknownSizes ? Placeholder<float>({-1, -1, 2})
                                  : Placeholder<float>({2, 3, 2});
    if (as == As::kTimeMajor) {
      o.time_major = true;
      b.result =
          DynamicRnn(b.cell, ops::Transpose(b.x, IntVector({1, 0, 2})), o);
      b.result.outputs = ops::Transpose(b.result.outputs, IntVector({1, 0, 2}));
    } else if (as == As::kStatic) {
      const StaticRnnResult s =
          StaticRnn(b.cell, ops::Unpack(b.x, 3, {.axis = 1}), o);
      b.result.outputs = ops::Pack(s.outputs, {.axis = 1});
      b.result.state = s.state;
    } else {
      b.result = DynamicRnn(b.cell, b.x, o);
    }
    return b;
  }

  void SetWeights(const std::vector<Var>& vars) {
    for (const Var& v : vars) {
      const Result<Shape> shape = v.shape().ToShape();
      ASSERT_TRUE(shape.ok()) << v.name();
      RunNode(v.Assign(Constant(RnnWave(*shape, 0.5f, 0.7f))));
    }
  }
  static Feeds Inputs(Output x) {
    return {{x, RnnWave({2, 3, 2}, 1.0f, 0.9f)}};
  }
  std::string BuildErrorOf() { return std::string(graph_.status().message()); }
};

TEST_F(RnnTest, OutputsMatchTensorFlow) {
  for (const Recording& r : Recordings()) {
    for (const As as :
         {As::kDynamic, As::kTimeMajor, As::kUnknownSizes, As::kStatic}) {
      SCOPED_TRACE(absl::StrCat(r.name, " as ", static_cast<int>(as)));
      Built b = BuildRnn(r, as);
      ASSERT_TRUE(graph_.status().ok()) << graph_.status();
      if (as != As::kUnknownSizes) {
        EXPECT_EQ(b.result.outputs.shape(),
                  PartialShape({2, 3, b.cell.output_size()}));
      }
      SetWeights(b.cell.variables());
      EXPECT_THAT(Values<float>(b.result.outputs, Inputs(b.x)),
                  Pointwise(FloatNear(2e-6f), r.outputs));
      ASSERT_EQ(b.result.state.size(), r.states.size());
      for (size_t i = 0; i < r.states.size(); ++i)
        EXPECT_THAT(Values<float>(b.result.state[i], Inputs(b.x)),
                    Pointwise(FloatNear(2e-6f), r.states[i]));
    }
  }
}

TEST_F(RnnTest, GradientsMatchTensorFlow) {
  for (const Recording& r : Recordings()) {
    for (const As as : {As::kDynamic, As::kUnknownSizes, As::kStatic}) {
      SCOPED_TRACE(absl::StrCat(r.name, " as ", static_cast<int>(as)));
      Built b = BuildRnn(r, as);
      const std::vector<Var> vars = b.cell.variables();
      Output loss =
          ops::Sum(b.result.outputs * b.result.outputs, IntVector({0, 1, 2}));
      for (const Output& s : b.result.state)
        loss = loss + ops::Sum(s, IntVector({0, 1}));
      std::vector<GradTarget> targets(vars.begin(), vars.end());
      targets.emplace_back(b.x);
      const auto grads = Gradients({loss}, targets);
      ASSERT_TRUE(grads.ok()) << grads.status();
      SetWeights(vars);
      for (size_t i = 0; i < targets.size(); ++i) {
        const Tensor g = Eval((*grads)[i].dense, Inputs(b.x));
        const auto [sum, weighted] = RnnSums(g);
        EXPECT_NEAR(sum, r.gradients[i].first, 2e-5) << i;
        EXPECT_NEAR(weighted, r.gradients[i].second, 2e-5) << i;
      }
    }
  }
}

// Gradients of f(x) = |d sum(y^2) / dx|^2, in double: through the loop, its
// gradient's loop, and the gradient of that.
TEST_F(RnnTest, SecondOrderMatchesFiniteDifferences) {
  const std::pair<const char*, RnnCell> cells[] = {
      {"lstm", LstmCell(2, {.initializer = init::RandomNormal(0, 1, 5)})},
      {"gru", GruCell(2, {.initializer = init::RandomNormal(0, 1, 6)})},
      {"peepholes", LstmCell(2, {.peepholes = true,
                                 .initializer = init::RandomNormal(0, 1, 7)})}};
  for (const auto& [name, cell] : cells) {
    SCOPED_TRACE(name);
    const Output x = Placeholder<double>({2, 3, 2});
    const Output y =
        DynamicRnn(cell, x,
                   {.sequence_length =
                        Operand(Constant(Tensor::Vector<int32_t>({3, 2})))})
            .outputs;
    const Output dx = Grad(ops::Sum(y * y, IntVector({0, 1, 2})), x);
    const Output f = ops::Sum(dx * dx, IntVector({0, 1, 2}));
    const Output df = Grad(f, x);
    ASSERT_TRUE(graph_.status().ok()) << graph_.status();
    Initialize();
    Tensor at(DType::kDouble, {2, 3, 2});
    for (int i = 0; i < 12; ++i) at.data<double>()[i] = std::sin(i + 1.0);
    const std::vector<double> slopes = Values<double>(df, {{x, at}});
    ASSERT_EQ(slopes.size(), 12u);
    for (int i = 0; i < 12; ++i) {
      constexpr double kStep = 1e-5;
      double sides[2];
      for (const int side : {0, 1}) {
        Tensor moved(DType::kDouble, {2, 3, 2});
        std::copy_n(at.data<double>(), 12, moved.data<double>());
        moved.data<double>()[i] += side == 1 ? kStep : -kStep;
        sides[side] = Eval(f, {{x, moved}}).scalar<double>();
      }
      EXPECT_NEAR(slopes[static_cast<size_t>(i)],
                  (sides[1] - sides[0]) / (2 * kStep), 1e-7)
          << i;
    }
  }
}

TEST_F(RnnTest, WeightNamesMatchTensorFlow) {
  for (const Recording& r : Recordings()) {
    Graph g;
    const WithGraph use(g);
    const Built b = BuildRnn(r, As::kDynamic);
    std::vector<std::string> names, wanted;
    for (const Var& v : b.cell.variables()) names.push_back(v.name());
    for (const std::string& w : r.weights) wanted.push_back("rnn/" + w);
    EXPECT_EQ(names, wanted);
  }
}

TEST_F(RnnTest, BidirectionalOutputsMatchTensorFlow) {
  const RnnCell forward = LstmCell(1), backward = LstmCell(1);
  const Output x = Placeholder<float>({2, 3, 2});
  const Output lengths = Constant(Tensor::Vector<int64_t>({3, 2}));
  const BidirectionalRnnResult r = BidirectionalDynamicRnn(
      forward, backward, x, {.sequence_length = Operand(lengths)});
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  EXPECT_EQ(backward.variables()[0].name(),
            "bidirectional_rnn/bw/lstm_cell/kernel");
  SetWeights(GlobalVariables());
  const Output y = ops::ConcatV2({r.forward.outputs, r.backward.outputs}, 2);
  const auto near = [](std::vector<float> v) {
    return Pointwise(FloatNear(2e-6f), v);
  };
  EXPECT_THAT(Values<float>(y, Inputs(x)),
              near({0.1242961f, 0.3558464f, 0.3606567f, 0.3312661f, 0.3979413f,
                    0.09954516f, 0.04030682f, 0.2087435f, 0.2540109f,
                    0.2181186f, 0, 0}));
  EXPECT_THAT(Values<float>(r.forward.state[0], Inputs(x)),
              near({0.8003176f, 0.4953514f}));
  EXPECT_THAT(Values<float>(r.backward.state[0], Inputs(x)),
              near({0.8060737f, 0.4413829f}));
  // Without lengths each whole sequence is reversed; time-major is the same.
  const Output major = ops::Transpose(x, IntVector({1, 0, 2}));
  const Output plain =
      BidirectionalDynamicRnn(forward, backward, x).backward.outputs;
  const Output turned =
      BidirectionalDynamicRnn(forward, backward, major, {.time_major = true})
          .backward.outputs;
  EXPECT_EQ(
      Values<float>(plain, Inputs(x)),
      Values<float>(ops::Transpose(turned, IntVector({1, 0, 2})), Inputs(x)));
}

// Adds its input to its state and counts its calls.
RnnCell Counting(const Var& calls) {
  return FunctionCell(1, {1}, [calls](Output x, const RnnState& s) {
    const ControlDependencies counted({calls.AssignAdd(1)});
    const Output sum = s[0] + x;
    return RnnStep{sum * 10, {sum}};
  });
}

TEST_F(RnnTest, StopsAfterTheLongestSequence) {
  const Var calls(0, "calls");
  const Output x = Placeholder<float>({3, -1, 1});
  const Output lengths = Placeholder<int32_t>({-1});
  const RnnResult r =
      DynamicRnn(Counting(calls), x, {.sequence_length = Operand(lengths)});
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  struct Case {
    std::vector<int32_t> lengths;
    std::vector<float> outputs, state;
    int calls;
  };
  // The inputs are 1 2 3 4, 5 6 7 8 and 9 10 11 12. One step always runs, to
  // determine the outputs' shape.
  const Case cases[] = {
      {{0, 1, 2}, {0, 0, 0, 0, 50, 0, 0, 0, 90, 190, 0, 0}, {0, 5, 19}, 2},
      {{0, 0, 0}, std::vector<float>(12), {0, 0, 0}, 1},
      {{4, 7, 0},
       {10, 30, 60, 100, 50, 110, 180, 260, 0, 0, 0, 0},
       {10, 26, 0},
       4},
      {{-3, 3, 2},
       {0, 0, 0, 0, 50, 110, 180, 0, 90, 190, 0, 0},
       {0, 18, 19},
       3},
  };
  Tensor rows(DType::kFloat, {3, 4, 1});
  for (int i = 0; i < 12; ++i)
    rows.data<float>()[i] = static_cast<float>(i + 1);
  for (const Case& c : cases) {
    Initialize();
    const auto out =
        session_.Run({{x, rows}, {lengths, Tensor::Vector<int32_t>(c.lengths)}},
                     {r.outputs, r.state[0]});
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ((*out)[0].ToVector<float>(), c.outputs);
    EXPECT_EQ((*out)[1].ToVector<float>(), c.state);
    EXPECT_THAT(Values<int32_t>(calls), ElementsAre(c.calls));
  }
  const Status wrong =
      session_
          .Run({{x, rows}, {lengths, Tensor::Vector<int32_t>({1, 2})}},
               r.outputs)
          .status();
  EXPECT_THAT(std::string(wrong.message()),
              HasSubstr("expected sequence lengths of shape"));
}

TEST_F(RnnTest, ZeroStepsOrSequencesGiveEmptyOutputs) {
  const RnnCell cell = LstmCell(2);
  const Output x = Placeholder<float>({2, -1, 3});
  const Output none = Placeholder<float>({-1, 4, 3});
  const RnnResult no_steps = DynamicRnn(cell, x);
  const RnnResult no_rows = DynamicRnn(cell, none);
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  Initialize();
  const Feeds empty = {{x, Tensor(DType::kFloat, {2, 0, 3})}};
  EXPECT_EQ(Eval(no_steps.outputs, empty).shape(), Shape({2, 0, 2}));
  EXPECT_THAT(Values<float>(no_steps.state[0], empty), ElementsAre(0, 0, 0, 0));
  const Feeds nobody = {{none, Tensor(DType::kFloat, {0, 4, 3})}};
  EXPECT_EQ(Eval(no_rows.outputs, nobody).shape(), Shape({0, 4, 2}));
  EXPECT_EQ(Eval(no_rows.state[1], nobody).shape(), Shape({0, 2}));
}

TEST_F(RnnTest, StateCarriesOverBetweenCalls) {
  const RnnCell cell = MultiRnnCell({LstmCell(2), BasicRnnCell(3)});
  const Output x = Placeholder<float>({2, 3, 2});
  const RnnResult whole = DynamicRnn(cell, x);
  const std::vector<Output> parts = ops::SplitV(x, IntVector({1, 2}), 1, 2);
  const RnnResult first = DynamicRnn(cell, parts[0]);
  const RnnResult second =
      DynamicRnn(cell, parts[1], {.initial_state = first.state});
  // By hand, too.
  RnnState state = cell.ZeroState(2);
  Output y;
  for (const Output& row : ops::Unpack(x, 3, {.axis = 1})) {
    RnnStep step = cell(row, state);
    y = step.output;
    state = step.state;
  }
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  EXPECT_EQ(GlobalVariables().size(), 4u);  // Those of one cell.
  SetWeights(cell.variables());
  for (size_t i = 0; i < 3; ++i) {
    const std::vector<float> want = Values<float>(whole.state[i], Inputs(x));
    EXPECT_THAT(Values<float>(second.state[i], Inputs(x)),
                Pointwise(FloatNear(1e-6f), want));
    EXPECT_THAT(Values<float>(state[i], Inputs(x)),
                Pointwise(FloatNear(1e-6f), want));
  }
  EXPECT_EQ(y.shape().ToString(), "[2,3]");
}

TEST_F(RnnTest, DoubleInputsComputeInDouble) {
  const Output x = Placeholder<double>({1, 3, 2});
  const RnnCell cell = LstmCell(2);
  const RnnResult r = DynamicRnn(cell, x);
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  EXPECT_EQ(r.outputs.dtype(), DType::kDouble);
  for (const Var& v : cell.variables()) {
    EXPECT_EQ(v.dtype(), DType::kDouble);
    RunNode(v.Assign(ops::Fill(ops::Shape(v.value()),
                               Constant(Tensor::Scalar<double>(0.25)))));
  }
  Tensor ones(DType::kDouble, {1, 3, 2});
  for (double& v : ones.flat<double>()) v = 1;
  double c = 0, h = 0;
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  for (int t = 0; t < 3; ++t) {
    const double z = 0.25 * (1 + 1 + h + h) + 0.25;
    c = sigmoid(z + 1) * c + sigmoid(z) * std::tanh(z);
    h = sigmoid(z) * std::tanh(c);
  }
  EXPECT_NEAR(Values<double>(r.state[1], {{x, ones}})[1], h, 1e-14);
}

TEST_F(RnnTest, DropoutKeepsTheGivenFraction) {
  SetRandomSeed(7);
  const Output x = ops::Fill(IntVector({100, 5, 8}), 1.0f);
  const auto echo = [] {
    return FunctionCell(8, {8}, [](Output x, const RnnState& s) {
      return RnnStep{x, {s[0] + 1}};
    });
  };
  const Output keep = Placeholder<float>({});
  const RnnCell dropped = DropoutWrapper(
      echo(), {.input_keep = 0.8, .output_keep = keep, .seed = 3});
  const RnnResult r = DynamicRnn(dropped, x);
  const RnnCell all = DropoutWrapper(echo(), {});
  const RnnResult same = DynamicRnn(all, x);
  const RnnCell forgetful = DropoutWrapper(echo(), {.state_keep = 0.5});
  const RnnResult forgot = DynamicRnn(forgetful, x);
  const RnnCell lstm = DropoutWrapper(LstmCell(3), {.state_keep = 0.5});
  EXPECT_TRUE(lstm.IsMemory(0));
  EXPECT_FALSE(lstm.IsMemory(1));
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  const std::vector<float> y =
      Values<float>(r.outputs, {{keep, Tensor::Scalar(0.5f)}});
  double kept = 0;
  for (const float v : y) {
    EXPECT_TRUE(v == 0 || std::fabs(v - 1 / (0.8f * 0.5f)) < 1e-5f) << v;
    kept += v != 0;
  }
  EXPECT_NEAR(kept / static_cast<double>(y.size()), 0.4, 0.04);
  EXPECT_THAT(Values<float>(same.outputs), Each(1));
  EXPECT_THAT(Values<float>(same.state[0]), Each(5));
  // 2 ((2 ... + 1) kept or not) + 1) kept or not: few survive all five.
  int zeros = 0;
  for (const float v : Values<float>(forgot.state[0])) zeros += v == 0;
  EXPECT_NEAR(zeros / 800.0, 0.5, 0.1);
  DynamicRnn(DropoutWrapper(echo(), {.input_keep = 0.0}), x);
  EXPECT_THAT(BuildErrorOf(),
              HasSubstr("input_keep: expected a probability above 0"));
}

TEST_F(RnnTest, InvalidUsesReportTheUsersLine) {
  const Output x = Placeholder<float>({2, 3, 4});
  const Output flat = Placeholder<float>({2});
  const Output unknown = Placeholder<float>({2, 3, -1});
  const RnnCell lstm = LstmCell(2);
  DynamicRnn(lstm, x);
  int line = 0;
  struct Wrong {
    std::function<Output()> build;
    std::string says;
  };
  const Wrong wrongs[] = {
      {[&] {
         line = __LINE__ + 1;
         return DynamicRnn(RnnCell(), x).outputs;
       },
       "expected a cell, got none"},
      {[&] {
         line = __LINE__ + 1;
         return DynamicRnn(lstm, flat).outputs;
       },
       "RNN 'rnn_2': expected inputs [batch, time, ...], got shape [2]"},
      {[&] {
         line = __LINE__ + 1;
         return DynamicRnn(LstmCell(2), unknown).outputs;
       },
       "cell 'lstm_cell': expected an input [batch, depth] at each step of a "
       "sequence, with a depth that is known"},
      {[&] {
         line = __LINE__ + 1;
         return DynamicRnn(LstmCell(2), Placeholder<float>({-1, 4})).outputs;
       },
       "cell 'lstm_cell': expected an input [batch, depth]"},
      {[&] {
         line = __LINE__ + 1;
         return DynamicRnn(lstm, Placeholder<float>({2, 3, 5})).outputs;
       },
       "weight 'rnn/lstm_cell/kernel': expected float[6,8] as in the cell's "
       "first use, got float[7,8]"},
      {[&] {
         line = __LINE__ + 1;
         return DynamicRnn(lstm, x, {.initial_state = {x}}).outputs;
       },
       "expected 2 initial states, got 1"},
      {[&] {
         line = __LINE__ + 1;
         return DynamicRnn(lstm, x, {.initial_state = lstm.ZeroState(3)})
             .outputs;
       },
       "expected initial state 0 of shape [2,2], got [3,2]"},
      {[&] {
         const Output three = Constant(Tensor::Vector<int32_t>({1, 2, 3}));
         line = __LINE__ + 1;
         return DynamicRnn(lstm, x, {.sequence_length = three}).outputs;
       },
       "expected sequence lengths that are integers of shape [2], got int32 of "
       "shape [3]"},
      {[&] {
         const RnnCell two =
             FunctionCell(1, {1}, [](Output x, const RnnState&) {
               return RnnStep{x, {}};
             });
         line = __LINE__ + 1;
         return DynamicRnn(two, x).outputs;
       },
       "expected an output and 1 states from the cell, got 0"},
      {[&] {
         line = __LINE__ + 1;
         StaticRnn(lstm, {});
         return Output();
       },
       "expected at least one input, got none"},
  };
  for (const Wrong& w : wrongs) {
    EXPECT_FALSE(w.build().valid());
    EXPECT_THAT(BuildErrorOf(),
                AllOf(HasSubstr(w.says), HasSubstr(Here(line, __FILE__))));
    graph_.ClearErrors();
  }
}

TEST_F(RnnTest, WeightNamesInAVariableScopeMatchTensorFlow) {
  const VariableScope scope("model");
  const Output x = Zeros({2, 3, 4});
  (void)DynamicRnn(LstmCell(2), x, {});
  (void)DynamicRnn(MultiRnnCell({LstmCell(2), LstmCell(2)}), x,
                   {.scope = "stack"});
  (void)BidirectionalDynamicRnn(LstmCell(2), LstmCell(2), x, {});
  ASSERT_TRUE(graph_.status().ok()) << graph_.status();
  std::vector<std::string> kernels;
  for (const Var& v : GlobalVariables())
    if (v.name().ends_with("/kernel")) kernels.push_back(v.name());
  EXPECT_THAT(kernels, ::testing::ElementsAre(
                           "model/rnn/lstm_cell/kernel",
                           "model/stack/multi_rnn_cell/cell_0/lstm_cell/kernel",
                           "model/stack/multi_rnn_cell/cell_1/lstm_cell/kernel",
                           "model/bidirectional_rnn/fw/lstm_cell/kernel",
                           "model/bidirectional_rnn/bw/lstm_cell/kernel"));
}

}  // namespace
}  // namespace sluice
