// Optimiser ops against values recorded from TensorFlow 2.21 (double).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <thread>

#include "graph/builder.h"
#include "session/session.h"

namespace sluice {
namespace {

// One op applied once: the variables start as VariableStart says, the gradient
// is fixed; afterwards all variables, one after the other, hold `want`.
struct Recorded {
  const char* op;
  int variables;
  std::vector<double> scalars;  // In the order of the op's inputs.
  AttrMap attrs;
  std::vector<double> want;
};

const std::vector<Recorded>& Cases() {
  static const auto* cases = new std::vector<Recorded>{
      {"ApplyGradientDescent",
       1,
       {0.1},
       {},
       {0.97, -1.96, 0.45, 0.244, -0.68, 2.98}},
      {"ApplyMomentum",
       2,
       {0.1, 0.8},
       {},
       {0.922, -2.048, 0.422, 0.226, -0.718, 2.852, 0.78, 0.48, 0.78, 0.24,
        -0.32, 1.48}},
      {"ApplyAdagrad",
       2,
       {0.1},
       {},
       {0.963884244, -1.96436517, 0.435450278, 0.237450884, -0.678741876,
        2.98438262, 0.69, 1.26, 0.6, 0.2286, 0.965, 1.64}},
      {"ApplyAdagradV2",
       2,
       {0.1, 0.01},
       {},
       {0.964313855, -1.96467982, 0.43627299, 0.237707974, -0.679459955,
        2.98450363, 0.69, 1.26, 0.6, 0.2286, 0.965, 1.64}},
      {"ApplyAdadelta",
       3,
       {0.1, 0.9, 0.01},
       {},
       {0.970423381, -1.96284388, 0.4481302, 0.242956558, -0.681933169,
        2.98175514, 0.549, 1.006, 0.34, 0.20286, 0.4765, 1.444, 0.488747764,
        0.793805774, 0.356904762, 0.255496101, 0.451330935, 1.08332875}},
      {"ApplyRMSProp",
       3,
       {0.1, 0.9, 0.8, 0.01},
       {},
       {0.533208305, -2.65364954, 0.122151241, 0.010328517, -1.00964093,
        2.02341377, 0.549, 1.006, 0.34, 0.20286, 0.4765, 1.444, 0.466791695,
        0.653649544, 0.377848759, 0.239671483, 0.259640932, 0.976586234}},
      {"ApplyCenteredRMSProp",
       4,
       {0.1, 0.9, 0.8, 0.01},
       {},
       {0.488101162, NAN,   0.0561427762, -0.0527375114, -1.01927333, NAN,
        0.57,        0.95,  0.365,        0.2085,        0.3575,      1.46,
        0.489,       0.796, 0.355,        0.25536,       0.454,       1.084,
        0.511898838, NAN,   0.443857224,  0.302737511,   0.26927333,  NAN}},
      {"ApplyAdam",
       3,
       {0.7, 0.95, 0.1, 0.9, 0.99, 0.01},
       {},
       {0.94237369, -2.07555793, 0.455732183, 0.221202658, -0.789121648,
        2.90108331, 0.57, 0.95, 0.365, 0.2085, 0.3575, 1.46, 0.5289, 0.8596,
        0.3655, 0.280536, 0.4504, 1.1884}},
      {"ApplyAdaMax",
       3,
       {0.7, 0.1, 0.9, 0.99, 0.01},
       {},
       {0.646840149, -2.36482335, 0.261437908, 0.010757315, -0.917840376,
        2.59376739, 0.57, 0.95, 0.365, 0.2085, 0.3575, 1.46, 0.528, 0.858, 0.5,
        0.2805, 0.7, 1.188}},
      {"ApplyFtrl",
       3,
       {0.1, 0.05, 0.03, -0.5},
       {},
       {-0.026614817, -0.167517828, 0, -0.0586390504, -0.19209531,
        -0.0682861441, 0.69, 1.26, 0.6, 0.2286, 0.965, 1.64, 0.272676163,
        1.94043402, -0.048276788, 0.333884147, 1.94856273, 0.928586497}},
      {"ApplyFtrlV2",
       3,
       {0.1, 0.05, 0.03, 0.02, -0.5},
       {},
       {-0.0313957179, -0.160428754, 0, -0.0607046484, -0.18905993,
        -0.0776128721, 0.69, 1.26, 0.6, 0.2286, 0.965, 1.64, 0.312676163,
        1.86043402, -0.028276788, 0.343884147, 1.91856273, 1.0485865}},
      {"ApplyProximalGradientDescent",
       1,
       {0.1, 0.05, 0.03},
       {},
       {0.962113659, -1.94915254, 0.443668993, 0.238285145, -0.672981057,
        2.96610169}},
      {"ApplyProximalAdagrad",
       2,
       {0.1, 0.05, 0.03},
       {},
       {0.954417999, -1.95468669, 0.427340224, 0.225577886, -0.671600995,
        2.97351251, 0.69, 1.26, 0.6, 0.2286, 0.965, 1.64}},
      {"ApplyAddSign",
       2,
       {0.1, 0.1, 0.6, 0.85},
       {},
       {0.979, -2.02, 0.465, 0.2458, -0.785, 2.986, 0.555, 0.875, 0.3725,
        0.20025, 0.29875, 1.39}},
      {"ApplyPowerSign",
       2,
       {0.1, 1.2, 0.6, 0.85},
       {},
       {0.938367004, -1.98052991, 0.397278339, 0.237673401, -0.715927342,
        2.95891134, 0.555, 0.875, 0.3725, 0.20025, 0.29875, 1.39}},
      {"ApplyAdagradDA",
       3,
       {0.1, 0.05, 0.03},
       {},
       {-0.0939243919, -0.0538031168, -0.08812999, -0.024786033, 0.00766451129,
        -0.146986395, 0.9, 0.7, 0.85, 0.285, -0.225, 1.8, 0.623333333,
        1.02666667, 0.616666667, 0.286933333, 0.94, 1.24}},
      {"SparseApplyMomentum",
       2,
       {0.1, 0.8},
       {},
       {0.902, -2.094, 0.5, 0.25, -0.818, 2.912, 0.98, 0.94, 0.35, 0.225, 0.68,
        0.88}},
      {"SparseApplyAdagrad",
       2,
       {0.1},
       {},
       {0.945767386, -2.00571144, 0.5, 0.25, -0.789911406, 3.03015113, 0.85,
        1.1036, 0.35, 0.225, 0.565, 1.76}},
      {"SparseApplyAdagradV2",
       2,
       {0.1, 0.01},
       {},
       {0.946349309, -2.00565758, 0.5, 0.25, -0.789387404, 3.02992556, 0.85,
        1.1036, 0.35, 0.225, 0.565, 1.76}},
      {"SparseApplyAdadelta",
       3,
       {0.1, 0.9, 0.01},
       {},
       {0.951396308, -2.00561682, 0.5, 0.25, -0.78045015, 3.03634006, 0.565,
        0.99036, 0.35, 0.225, 0.4365, 1.456, 0.503623188, 0.780315486,
        0.366666667, 0.283333333, 0.414272116, 1.093206}},
      {"SparseApplyRMSProp",
       3,
       {0.1, 0.9, 0.8, 0.01},
       {},
       {0.507395286, -2.69933225, 0.5, 0.25, -1.1548963, 2.07303642, 0.565,
        0.99036, 0.35, 0.225, 0.4365, 1.456, 0.492604714, 0.699332254,
        0.366666667, 0.283333333, 0.404896297, 0.926963578}},
      {"SparseApplyFtrl",
       3,
       {0.1, 0.05, 0.03, -0.5},
       {},
       {0.0420542661, -0.0862227038, 0.5, 0.25, -0.154219627, 0.0752009624,
        0.85, 1.1036, 0.35, 0.225, 0.565, 1.76, -0.440244432, 0.960963282,
        0.366666667, 0.283333333, 1.21846786, -1.05216556}},
      {"SparseApplyFtrlV2",
       3,
       {0.1, 0.05, 0.03, 0.02, -0.5},
       {},
       {0.0377437096, -0.0786507012, 0.5, 0.25, -0.150260093, 0.066196347, 0.85,
        1.1036, 0.35, 0.225, 0.565, 1.76, -0.400244432, 0.880963282,
        0.366666667, 0.283333333, 1.18846786, -0.932165562}},
      {"SparseApplyProximalGradientDescent",
       1,
       {0.1, 0.05, 0.03},
       {},
       {0.94217348, -1.99501496, 0.5, 0.25, -0.772681954, 3.02592223}},
      {"SparseApplyProximalAdagrad",
       2,
       {0.1, 0.05, 0.03},
       {},
       {0.937294209, -1.99525402, 0.5, 0.25, -0.780145834, 3.01955402, 0.85,
        1.1036, 0.35, 0.225, 0.565, 1.76}},
      {"SparseApplyCenteredRMSProp",
       4,
       {0.1, 0.9, 0.8, 0.01},
       {},
       {0.437611155, NAN,     0.5,         0.25,        -1.20474579, NAN,
        0.59,        0.996,   0.35,        0.225,       0.4575,      1.4,
        0.505,       0.78036, 0.366666667, 0.283333333, 0.414,       1.096,
        0.562388845, NAN,     0.425,       0.3625,      0.454745793, NAN}},
      {"SparseApplyAdagradDA",
       3,
       {0.1, 0.05, 0.03},
       {},
       {-0.106256708, -0.107232248, 0.5, 0.25, -0.0840226639, -0.0893472257,
        1.1, 1.16, 0.35, 0.225, 0.775, 1.2, 0.783333333, 0.870266667,
        0.366666667, 0.283333333, 0.54, 1.36}},
      {"ApplyMomentum",
       2,
       {0.1, 0.8},
       {{"use_nesterov", true}},
       {0.9076, -1.9984, 0.3876, 0.2248, -0.6544, 2.8616, 0.78, 0.48, 0.78,
        0.24, -0.32, 1.48}},
      {"ApplyAdam",
       3,
       {0.7, 0.95, 0.1, 0.9, 0.99, 0.01},
       {{"use_nesterov", true}},
       {0.945103358, -2.06482075, 0.45409488, 0.223253692, -0.7775493,
        2.90961995, 0.57, 0.95, 0.365, 0.2085, 0.3575, 1.46, 0.5289, 0.8596,
        0.3655, 0.280536, 0.4504, 1.1884}},
      {"ApplyAdagrad",
       2,
       {0.1},
       {{"update_slots", false}},
       {0.961270167, -1.9618615, 0.415484575, 0.237350889, -0.648433325,
        2.98418861, 0.6, 1.1, 0.35, 0.225, 0.475, 1.6}},
      {"ApplyFtrl",
       3,
       {0.1, 0.05, 0.03, -0.7},
       {},
       {-0.00830232288, -0.215707203, 0.0258515271, -0.0783323781, -0.260993009,
        -0.043891563, 0.69, 1.26, 0.6, 0.2286, 0.965, 1.64, 0.114529685,
        2.59879517, -0.232348449, 0.333501163, 2.61130548, 0.673176293}},
      {"ApplyFtrlV2",
       3,
       {0.1, 0.05, 0.03, 0.02, -0.5},
       {{"multiply_linear_by_lr", true}},
       {-0.605103832, -0.851613446, -0.412725719, -0.587432119, -0.598836227,
        -0.917018393, 0.69, 1.26, 0.6, 0.2286, 0.965, 1.64, 0.511267616,
        0.966043402, 0.327172321, 0.289388415, 0.596856273, 1.18485865}},
      {"ApplyProximalGradientDescent",
       1,
       {0.1, 0, 0.03},
       {},
       {0.967098704, -1.95413759, 0.448654038, 0.243270189, -0.677966102,
        2.97108674}},
      {"ApplyAdagradDA",
       3,
       {0.1, 0, 0.03},
       {},
       {-0.11270927, -0.0684766942, -0.107014988, -0.0523260696, 0.0229935339,
        -0.160348795, 0.9, 0.7, 0.85, 0.285, -0.225, 1.8, 0.623333333,
        1.02666667, 0.616666667, 0.286933333, 0.94, 1.24}},
  };
  return *cases;
}

// [3, 2]; slots are positive.
std::vector<double> VariableStart(int i) {
  std::vector<double> v = {1, -2, .5, .25, -.75, 3};
  if (i > 0)
    for (double& x : v) x = std::abs(x / (1 + i)) + .1 * i;
  return v;
}

template <typename T>
Tensor Of(const Shape& shape, const std::vector<double>& values) {
  std::vector<T> v;
  for (double x : values) v.push_back(static_cast<T>(x));
  return Tensor::Of<T>(shape, v);
}

// What is compared of an element, of complex numbers the real part.
template <typename T>
double RealPart(T x) {
  return static_cast<double>(x);
}
double RealPart(complex128 x) { return x.real(); }

// A graph with one op and its variables, by handle or by reference.
template <typename T>
struct OneUpdate {
  OneUpdate(const Recorded& c, bool resource) {
    WithGraph use(graph);
    const std::string name = (resource ? "Resource" : "") + std::string(c.op);
    const OpDef* def = OpRegistry::Global()->Find(name);
    if (def == nullptr) {
      graph.RecordError(NotFound(name));
      return;
    }
    const bool sparse = def->FindAttr("Tindices") != nullptr;
    std::vector<Output> inputs;
    size_t scalar = 0;
    for (const ArgDef& a : def->inputs) {
      if (a.is_ref || a.type == DType::kResource) {
        inputs.push_back(AddVariable(resource));
      } else if (a.name == "grad" || a.name == "delta") {
        std::vector<double> g = {.3, -.4, .5, .06, -.7, .2};
        if (sparse) g.resize(4);
        inputs.push_back(Constant(Of<T>(Shape({sparse ? 2 : 3, 2}), g)));
      } else if (a.name == "indices") {
        inputs.push_back(Constant(Tensor::Vector<int32_t>({2, 0})));
      } else if (a.name == "global_step") {
        inputs.push_back(Constant(Tensor::Scalar<int64_t>(3)));
      } else {
        inputs.push_back(
            Constant(Tensor::Scalar<T>(static_cast<T>(c.scalars[scalar++]))));
      }
    }
    update = BuildNode(name, inputs, c.attrs);
  }

  Output AddVariable(bool resource) {
    const int i = static_cast<int>(reads.size());
    const AttrMap attrs = {{"dtype", DTypeOf<T>()},
                           {"shape", PartialShape({3, 2})},
                           {"shared_name", "v" + std::to_string(i)}};
    const Output start = Constant(Of<T>(Shape({3, 2}), VariableStart(i)));
    if (resource) {
      const Output v = Build("VarHandleOp", {}, attrs);
      starts.push_back(BuildNode("AssignVariableOp", {v, start}));
      reads.push_back(Build("ReadVariableOp", {v}, {{"dtype", DTypeOf<T>()}}));
      return v;
    }
    const Output v = Build("VariableV2", {}, attrs);
    starts.push_back(BuildNode("Assign", {v, start}));
    reads.push_back(Build("Identity", {v}));
    return v;
  }

  // The variables after one update.
  Result<std::vector<double>> Run() {
    SLUICE_RETURN_IF_ERROR(graph.status());
    Session session(graph);
    SLUICE_RETURN_IF_ERROR(session.RunTargets(starts));
    SLUICE_RETURN_IF_ERROR(session.RunTargets({update}));
    SLUICE_ASSIGN_OR_RETURN(const std::vector<Tensor> now, session.Run(reads));
    std::vector<double> out;
    for (const Tensor& t : now)
      for (T x : t.flat<T>()) out.push_back(RealPart(x));
    return out;
  }

  Graph graph;
  std::vector<Node*> starts;
  std::vector<Output> reads;
  Node* update = nullptr;
};

// All cases, or those of some optimisers, of rows and of all.
template <typename T>
void CheckAll(double tolerance, const std::set<std::string>& only = {}) {
  for (const Recorded& c : Cases()) {
    const std::string name(c.op);
    if (!only.empty() &&
        !only.count(name.substr(name.find("Apply") + std::strlen("Apply"))))
      continue;
    for (bool resource : {true, false}) {
      SCOPED_TRACE(std::string(c.op) + (resource ? ", by handle" : ", by ref"));
      OneUpdate<T> one(c, resource);
      const Result<std::vector<double>> got = one.Run();
      ASSERT_TRUE(got.ok()) << got.status();
      ASSERT_EQ(got->size(), c.want.size());
      for (size_t i = 0; i < got->size(); ++i) {
        if (std::isnan(c.want[i])) {  // The root of a negative number.
          EXPECT_TRUE(std::isnan((*got)[i]) || IsComplex(DTypeOf<T>())) << i;
        } else {
          EXPECT_NEAR((*got)[i], c.want[i],
                      tolerance * (1 + std::abs(c.want[i])))
              << i;
        }
      }
    }
  }
}

TEST(Training, EveryOptimiserMovesAsTensorFlows) { CheckAll<double>(1e-8); }
TEST(Training, EveryOptimiserMovesAsTensorFlowsInFloat) {
  CheckAll<float>(1e-5);
}
TEST(Training, EveryOptimiserTakesBfloat16) { CheckAll<bfloat16>(0.1); }
TEST(Training, SomeTakeComplexNumbersAsTensorFlows) {
  CheckAll<complex128>(1e-8, {"Adadelta", "Adagrad", "AdagradV2",
                              "CenteredRMSProp", "Momentum", "RMSProp"});
}

// Gives the op's error; the first variable as it is then, if asked for.
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

TEST(Training, ShapesThatDoNotFitAreErrors) {
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

TEST(Training, UpdatesOfManyThreadsAreAllSeen) {
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
        // Whole: all elements have seen the same updates.
        EXPECT_EQ(now->flat<float>().front(), now->flat<float>().back());
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(session.Run(read)->scalar<float>(), 1 - 200);
}

}  // namespace
}  // namespace sluice
