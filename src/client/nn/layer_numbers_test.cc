// Layers beside what TensorFlow recorded: values, gradients, and the variables
// by name after training steps.
#include <functional>

#include "client/nn/attention.h"
#include "client/nn/convolutions.h"
#include "client/nn/normalization.h"
#include "client/nn/pooling.h"
#include "client/nn/training_record_test_util.h"
#include "client/reductions.h"
#include "client/variable_scope.h"

namespace sluice {
namespace {

using LayerNumbersTest = ClientTest;

Shape RecordedShape(const std::string& name, const std::string& key) {
  std::vector<int64_t> dims;
  for (const double d : Recorded(name, key))
    dims.push_back(static_cast<int64_t>(d));
  return Shape(dims);
}

Output RecordedTensor(const std::string& name, const std::string& key,
                      const Shape& shape, DType dtype = DType::kFloat) {
  return Constant(TensorOf(dtype, shape, Recorded(name, key)));
}

// A layer of `x`; `training` is true, false or a bool scalar.
using MakeLayer = std::function<Output(Output x, Operand training)>;

std::map<std::string, MakeLayer> RecordedLayers() {
  std::map<std::string, MakeLayer> layers;
  const auto add = [&](const std::string& name,
                       const std::function<Output(Output)>& make) {
    layers[name] = [make](Output x, const Operand&) { return make(x); };
  };
  add("dense", [](Output x) { return Dense(x, 4, {.activation = ops::Relu}); });
  add("dense_rank3", [](Output x) {
    return Dense(x, 3, {.activation = ops::Tanh, .use_bias = false});
  });
  add("dense_gelu",
      [](Output x) { return Dense(x, 3, {.activation = Gelu, .name = "fc"}); });
  add("embedding", [](Output x) { return Embedding(x, 6, 3); });
  constexpr Padding kSame = Padding::kSame;
  add("conv1d", [](Output x) {
    return Conv1D(x, 3, 3, {.strides = 2, .padding = kSame});
  });
  add("conv1d_dilated",
      [](Output x) { return Conv1D(x, 2, 3, {.dilations = 2}); });
  add("conv2d",
      [](Output x) { return Conv2D(x, 4, 3, {.activation = ops::Relu}); });
  add("conv2d_same", [](Output x) {
    return Conv2D(x, 2, {2, 3}, {.strides = {2, 1}, .padding = kSame});
  });
  add("conv2d_dilated", [](Output x) {
    return Conv2D(x, 2, 2,
                  {.padding = kSame, .dilations = 2, .use_bias = false});
  });
  add("conv3d", [](Output x) {
    return Conv3D(x, 2, {2, 2, 3}, {.strides = {1, 2, 2}, .padding = kSame});
  });
  for (const Padding padding : {kSame, Padding::kValid}) {
    const std::string name = padding == kSame ? "same" : "valid";
    add("conv2d_transpose_" + name, [padding](Output x) {
      return Conv2DTranspose(x, 2, 3, {.strides = 2, .padding = padding});
    });
    add("conv3d_transpose_" + name, [padding](Output x) {
      return Conv3DTranspose(x, 2, {2, 3, 1},
                             {.strides = {1, 2, 2}, .padding = padding});
    });
  }
  for (const std::string n : {"1d", "2d", "3d"}) {
    const PoolingOptions same = {.strides = 2, .padding = kSame};
    add("max_pooling" + n, [](Output x) { return MaxPooling(x, 2); });
    add("max_pooling" + n + "_same",
        [same](Output x) { return MaxPooling(x, 3, same); });
    add("global_max_pooling" + n, [](Output x) { return GlobalMaxPooling(x); });
    add("average_pooling" + n, [](Output x) { return AveragePooling(x, 2); });
    add("average_pooling" + n + "_same",
        [same](Output x) { return AveragePooling(x, 3, same); });
    add("global_average_pooling" + n,
        [](Output x) { return GlobalAveragePooling(x); });
  }
  layers["batch_normalization"] = [](Output x, const Operand& training) {
    return BatchNorm(x, training, {.momentum = 0.9});
  };
  layers["batch_normalization_axis1"] = [](Output x, const Operand& training) {
    return BatchNorm(
        x, training,
        {.axis = 1, .momentum = 0.8, .epsilon = 0.01, .scale = false});
  };
  layers["batch_normalization_images"] = layers["batch_normalization"];
  add("depthwise_conv1d", [](Output x) {
    return DepthwiseConv1D(x, 3,
                           {.padding = kSame,
                            .dilations = 2,
                            .depth_multiplier = 2,
                            .activation = ops::Tanh});
  });
  add("depthwise_conv2d", [](Output x) {
    return DepthwiseConv2D(x, {2, 3}, {.strides = 2, .depth_multiplier = 2});
  });
  add("separable_conv1d", [](Output x) {
    return SeparableConv1D(x, 3, 3,
                           {.strides = 2,
                            .padding = kSame,
                            .depth_multiplier = 2,
                            .activation = ops::Relu});
  });
  add("separable_conv2d", [](Output x) {
    return SeparableConv2D(
        x, 4, {3, 2},
        {.padding = kSame, .dilations = {1, 2}, .activation = ops::Tanh});
  });
  add("separable_conv2d_strided", [](Output x) {
    return SeparableConv2D(
        x, 2, 2, {.strides = 2, .depth_multiplier = 3, .use_bias = false});
  });
  add("dense_max_norm", [](Output x) {
    return Dense(
        x, 4,
        {.kernel_constraint = MaxNorm(0.7), .bias_constraint = NonNegative()});
  });
  add("conv2d_unit_norm", [](Output x) {
    return Conv2D(x, 4, 3, {.kernel_constraint = UnitNorm({0, 1, 2})});
  });
  add("dense_min_max_norm", [](Output x) {
    return Dense(x, 4,
                 {.use_bias = false,
                  .kernel_constraint = MinMaxNorm(0.9, 1.1, 0.4, {1})});
  });
  add("separable_conv2d_constrained", [](Output x) {
    return SeparableConv2D(x, 4, 2,
                           {.depthwise_constraint = NonNegative(),
                            .pointwise_constraint = MaxNorm(0.5, {0, 1, 2})});
  });
  layers["batch_renormalization"] = [](Output x, const Operand& training) {
    return BatchNorm(
        x, training,
        {.momentum = 0.9, .renorm = RenormOptions{.momentum = 0.8}});
  };
  layers["batch_renormalization_limited"] = [](Output x,
                                               const Operand& training) {
    return BatchNorm(
        x, training,
        {.momentum = 0.9,
         .renorm = RenormOptions{
             .momentum = 0.7, .min_r = 0.95, .max_r = 1.02, .max_d = 0.01}});
  };
  add("layer_normalization", [](Output x) { return LayerNorm(x); });
  add("layer_normalization_axes", [](Output x) {
    return LayerNorm(x, {.first_axis = 2, .epsilon = 1e-5});
  });
  add("attention", [](Output x) { return MultiHeadAttention(x, 2, 3); });
  add("attention_causal",
      [](Output x) { return MultiHeadAttention(x, 2, 3, {.causal = true}); });
  add("attention_masked", [](Output x) {
    const std::string name = "layer.attention_masked";
    return MultiHeadAttention(
        x, 2, 3,
        {.value = RecordedTensor(name, "memory", {2, 5, 6}),
         .mask =
             ops::Cast(RecordedTensor(name, "mask", {2, 7, 5}, DType::kInt32),
                       DType::kBool),
         .value_size = 4,
         .output_size = 5,
         .use_bias = false,
         .name = "attend"});
  });
  return layers;
}

TEST_F(LayerNumbersTest, AreTensorFlows) {
  for (const auto& [kind, make] : RecordedLayers())
    for (const bool decided_in_a_step : {false, true}) {
      const std::string name = "layer." + kind;
      SCOPED_TRACE(name +
                   (decided_in_a_step ? ", training decided in a step" : ""));
      if (decided_in_a_step && kind.find("batch") == std::string::npos)
        continue;
      Graph g;
      const WithGraph use(g);
      const bool ids = kind == "embedding";
      const Output x = RecordedTensor(name, "x", RecordedShape(name, "x.shape"),
                                      ids ? DType::kInt32 : DType::kFloat);
      const Output flag = Placeholder<bool>({});
      const Operand trains = decided_in_a_step ? Operand(flag) : Operand(true);
      const Operand tests = decided_in_a_step ? Operand(flag) : Operand(false);
      Output y, tested;
      {
        const VariableScope scope("", {.reuse = Reuse::kAuto});
        y = make(x, trains);
      }
      const std::vector<Node*> updates = UpdateOps();  // Not those of `tested`.
      {
        const VariableScope scope("", {.reuse = Reuse::kAlways});
        tested = make(x, tests);
      }
      const Output loss = ops::Sum(ops::Square(y), AllAxes(y)) / 2;
      ASSERT_TRUE(g.status().ok()) << g.status();
      EXPECT_EQ(y.shape().ToString(),
                RecordedShape(name, "y.shape").ToString());

      // The same variables, by name and shape.
      std::vector<std::string> names, expected;
      for (const Var& v : GlobalVariables())
        names.push_back(v.name() + v.shape().ToString());
      std::vector<Node*> assign;
      for (const auto& [key, numbers] : TrainingRecords().at(name)) {
        if (key.rfind("var:", 0) != 0) continue;
        const std::string variable = key.substr(4);
        const Shape shape = RecordedShape(name, "shape:" + variable);
        expected.push_back(variable + shape.ToString());
        Node* const handle = g.FindNode(variable);
        ASSERT_NE(handle, nullptr) << variable;
        assign.push_back(Var::FromHandle(Output(handle))
                             .Assign(TensorOf(DType::kFloat, shape, numbers)));
      }
      EXPECT_THAT(names, ::testing::UnorderedElementsAreArray(expected));

      Node* train = nullptr;
      if (!TrainableVariables().empty()) {
        const ControlDependencies updated(updates);
        train = GradientDescentOptimizer(0.02).Minimize(loss);
        ASSERT_NE(train, nullptr) << g.status();
      }
      const Output dx = ids ? Output() : Grad(loss, x);
      Session session(g);
      ASSERT_TRUE(session.RunTargets(assign).ok());
      const auto run = [&](const Output& o, bool training) {
        const Result<Tensor> t =
            session.Run(Feeds{{flag, Tensor::Scalar<bool>(training)}}, o);
        EXPECT_TRUE(t.ok()) << t.status();
        return t.ok() ? NumbersOf(*t) : Numbers();
      };
      ExpectNear(run(y, true), Recorded(name, "y"), 2e-5);
      if (!ids) ExpectNear(run(dx, true), Recorded(name, "dx"), 1e-4);
      for (int i = 0; i < 3 && train != nullptr; ++i) {
        const Status s = session.RunTargets(
            {train}, Feeds{{flag, Tensor::Scalar<bool>(true)}});
        ASSERT_TRUE(s.ok()) << s;
      }
      for (const Var& v : GlobalVariables()) {
        SCOPED_TRACE(v.name());
        ExpectNear(run(v.value(), true), Recorded(name, "after:" + v.name()),
                   1e-4);
      }
      ExpectNear(run(tested, false), Recorded(name, "tested"), 1e-4);
    }
}

TEST_F(LayerNumbersTest, DropoutDrawsTensorFlowsNumbers) {
  SetRandomSeed(3);
  const Output x = RecordedTensor("layer.dropout", "x", {4, 5});
  ExpectNear(NumbersOf(Eval(Dropout(x, 0.4, true, {.seed = 7}))),
             Recorded("layer.dropout", "y"), 1e-6);
  ExpectNear(NumbersOf(Eval(
                 Dropout(x, 0.4, true, {.seed = 7, .noise_shape = {-1, 1}}))),
             Recorded("layer.dropout", "rows"), 1e-6);
}

TEST_F(LayerNumbersTest, RegularizersAreKeras) {
  const Output x = RecordedTensor("regularizer", "x", {4, 3});
  for (const auto& [key, made] :
       std::map<std::string, Regularizer>{{"l1", L1Regularizer(0.3)},
                                          {"l2", L2Regularizer(0.2)},
                                          {"l1l2", L1L2Regularizer(0.1, 0.02)}})
    ExpectNear(NumbersOf(Eval(made(x))), Recorded("regularizer", key), 1e-5);
}

}  // namespace
}  // namespace sluice
