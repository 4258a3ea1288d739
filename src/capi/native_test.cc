// The native C API: programs in C, gradients in C, handles on several threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string>
#include <thread>
#include <vector>

#include "capi/testing/native_program.h"
#include "sluice/c_api.h"
#include "tensorflow/c/ops.h"

namespace {

using ::testing::TempDir;

std::string OrNothing(const char* wrong) {
  return wrong == nullptr ? "" : wrong;
}

TEST(NativeProgramTest, Trains) { EXPECT_EQ(OrNothing(sl_test_trains()), ""); }
TEST(NativeProgramTest, Loops) { EXPECT_EQ(OrNothing(sl_test_loops()), ""); }
TEST(NativeProgramTest, Branches) {
  EXPECT_EQ(OrNothing(sl_test_branches()), "");
}
TEST(NativeProgramTest, RecursiveFunctions) {
  EXPECT_EQ(OrNothing(sl_test_functions()), "");
}
TEST(NativeProgramTest, ErrorsNameTheLineOfTheCProgram) {
  EXPECT_EQ(OrNothing(sl_test_lines()), "");
}
TEST(NativeProgramTest, AttributesAndNamedInputs) {
  EXPECT_EQ(OrNothing(sl_test_attributes()), "");
}
TEST(NativeProgramTest, CheckpointsByOps) {
  const std::string path = TempDir() + "native_checkpoint";
  EXPECT_EQ(OrNothing(sl_test_checkpoint(path.c_str())), "");
}
TEST(NativeProgramTest, LentMemoryIsReadEachStepAndNotKept) {
  EXPECT_EQ(OrNothing(sl_test_lent()), "");
}
TEST(NativeProgramTest, ImportsSessionsAndOptionsOfRuns) {
  EXPECT_EQ(OrNothing(sl_test_graphs()), "");
}
TEST(NativeProgramTest, RegistryOfOps) {
  EXPECT_EQ(OrNothing(sl_test_registry()), "");
}

TEST(NativeProgramTest, SlopeThatFailedIsAnError) {
  EXPECT_EQ(OrNothing(sl_test_slopes()), "");
}
TEST(NativeProgramTest, NodesWithoutOutputsAreOk) {
  EXPECT_EQ(OrNothing(sl_test_nodes_without_outputs()), "");
}
TEST(NativeProgramTest, CallsWithoutResultsReportErrors) {
  EXPECT_EQ(OrNothing(sl_test_calls_without_results()), "");
}
TEST(NativeProgramTest, GradientsOfNodesOfOtherGraphsAreErrors) {
  EXPECT_EQ(OrNothing(sl_test_other_graphs()), "");
}
TEST(NativeProgramTest, ResultsMayOverlapArguments) {
  EXPECT_EQ(OrNothing(sl_test_overlaps()), "");
}
TEST(NativeProgramTest, AttributesThatTheOpDoesNotDeclareAreErrors) {
  EXPECT_EQ(OrNothing(sl_test_undeclared()), "");
}

TEST(NativeProgramTest, StatusesSayWhichNodeAndLine) {
  EXPECT_EQ(OrNothing(sl_test_origins()), "");
}
TEST(NativeProgramTest, ConstantsAndElementsOfStrings) {
  EXPECT_EQ(OrNothing(sl_test_strings()), "");
}
TEST(NativeProgramTest, ElementsOfLists) {
  EXPECT_EQ(OrNothing(sl_test_items()), "");
}
TEST(NativeProgramTest, SparseSlopesUpdateRows) {
  EXPECT_EQ(OrNothing(sl_test_sparse_slopes()), "");
}
TEST(NativeProgramTest, ListsVariables) {
  EXPECT_EQ(OrNothing(sl_test_variables()), "");
}
TEST(NativeProgramTest, RunsForWhichNoThreadWaits) {
  EXPECT_EQ(OrNothing(sl_test_async()), "");
}

// The message of a status, which this frees.
std::string TakeMessage(sl_status* s) {
  std::string message = sl_status_message(s);
  sl_status_free(s);
  return message;
}

struct NativeTest : testing::Test {
  sl_graph* graph = nullptr;
  sl_session* session = nullptr;
  NativeTest() {
    EXPECT_EQ(TakeMessage(sl_graph_new(&graph)), "");
    EXPECT_EQ(TakeMessage(sl_session_new(graph, nullptr, &session)), "");
  }
  ~NativeTest() override {
    sl_session_free(session);
    sl_graph_free(graph);
  }
  static sl_output Op(sl_graph* g, const char* op,
                      const std::vector<sl_output>& inputs,
                      const std::vector<sl_attr>& attrs = {}) {
    sl_op_spec spec = {};
    spec.struct_size = sizeof(spec);
    spec.at = {__FILE__, __LINE__};
    spec.op = op;
    spec.inputs = inputs.data();
    spec.num_inputs = inputs.size();
    spec.attrs = attrs.data();
    spec.num_attrs = attrs.size();
    return sl_op(g, &spec);
  }
  sl_output Vector(const std::vector<float>& values) const {
    const auto n = static_cast<int64_t>(values.size());
    return sl_constant(graph, {__FILE__, __LINE__}, SL_FLOAT, &n, 1,
                       values.data());
  }
  sl_output Placeholder(int64_t n) const {
    sl_attr dtype = {}, shape = {};
    dtype.name = "dtype";
    dtype.kind = SL_KIND_TYPE;
    dtype.value.type = SL_FLOAT;
    shape.name = "shape";
    shape.kind = SL_KIND_SHAPE;
    shape.count = 1;
    shape.value.dims = &n;
    return Op(graph, "Placeholder", {}, {dtype, shape});
  }
  static sl_attr Factor(float value) {
    sl_attr a = {};
    a.name = "factor";
    a.kind = SL_KIND_FLOAT;
    a.value.f = value;
    return a;
  }
  std::vector<float> Run(sl_output x, const std::vector<float>& value,
                         sl_output y) const {
    const auto n = static_cast<int64_t>(value.size());
    sl_tensor* in = nullptr;
    sl_tensor* out = nullptr;
    EXPECT_EQ(TakeMessage(sl_tensor_copy(SL_FLOAT, &n, 1, value.data(),
                                         value.size() * sizeof(float), &in)),
              "");
    const sl_feed feed = {x, in};
    EXPECT_EQ(
        TakeMessage(sl_session_run(session, &feed, 1, &y, 1, &out, nullptr)),
        "");
    const auto* data = static_cast<const float*>(sl_tensor_data(out));
    std::vector<float> result;
    if (data != nullptr) result.assign(data, data + sl_tensor_count(out));
    sl_tensor_free(in);
    sl_tensor_free(out);
    return result;
  }
  // dy/dx by the graph, checked against differences of y, whose elements are
  // added up.
  void CheckGradient(sl_output x, sl_output y, std::vector<float> at) const {
    sl_output slope;
    ASSERT_EQ(TakeMessage(sl_gradients(graph, {__FILE__, __LINE__}, &y, 1, &x,
                                       1, nullptr, &slope)),
              "");
    const std::vector<float> made = Run(x, at, slope);
    ASSERT_EQ(made.size(), at.size());
    const auto sum = [&](const std::vector<float>& value) {
      double total = 0;
      for (const float v : Run(x, value, y)) total += v;
      return total;
    };
    constexpr float kStep = 1e-2f;
    for (size_t i = 0; i < at.size(); ++i) {
      std::vector<float> below = at, above = at;
      below[i] -= kStep;
      above[i] += kStep;
      EXPECT_NEAR(made[i], (sum(above) - sum(below)) / (2.0 * kStep),
                  1e-2 * (1 + std::abs(made[i])))
          << i;
    }
  }
};

// ---- Gradients in C ---------------------------------------------------------

// examples/custom_op_in_c.c
TEST_F(NativeTest, GradientOfAnOpInCAgreesWithDifferences) {
  ASSERT_EQ(TakeMessage(sl_load_library(SLUICE_OP_IN_C)), "");
  const sl_output x = Placeholder(3);
  const sl_output reversed = Op(graph, "ScaledReverse", {x}, {Factor(3)});
  // (Weights tell the elements apart; the square, dy from y.)
  const sl_output weighted =
      Op(graph, "Mul", {Op(graph, "Square", {reversed}), Vector({1, -2, 0.5})});
  CheckGradient(x, weighted, {0.5f, -1, 2});
}

TEST_F(NativeTest, GradientOfAnOpInCInALoop) {
  ASSERT_EQ(TakeMessage(sl_load_library(SLUICE_OP_IN_C)), "");
  const sl_output x = Placeholder(2);
  const int32_t zero = 0;
  const sl_output init[] = {
      sl_constant(graph, {nullptr, 0}, SL_INT32, nullptr, 0, &zero), x};
  sl_output results[2];
  ASSERT_EQ(TakeMessage(sl_while(
                graph, {__FILE__, __LINE__}, init, 2,
                [](sl_graph* g, const sl_output* in, sl_output* out, void*) {
                  const int32_t limit = 3;
                  out[0] = Op(g, "Less",
                              {in[0], sl_constant(g, {nullptr, 0}, SL_INT32,
                                                  nullptr, 0, &limit)});
                },
                [](sl_graph* g, const sl_output* in, sl_output* out, void*) {
                  const int32_t one = 1;
                  out[0] = Op(g, "AddV2",
                              {in[0], sl_constant(g, {nullptr, 0}, SL_INT32,
                                                  nullptr, 0, &one)});
                  out[1] = Op(
                      g, "Mul",
                      {Op(g, "ScaledReverse", {in[1]}, {Factor(0.5f)}), in[1]});
                },
                nullptr, nullptr, results)),
            "");
  CheckGradient(x, results[1], {1.5f, -0.5f});
}

// An op without a kernel, and functions that build or do not build.
void DeclareUnary(const char* name) {
  TF_OpDefinitionBuilder* op = TF_NewOpDefinitionBuilder(name);
  TF_OpDefinitionBuilderAddInput(op, "x: float");
  TF_OpDefinitionBuilderAddOutput(op, "y: float");
  TF_Status* s = TF_NewStatus();
  TF_RegisterOpDefinition(op, s);
  EXPECT_STREQ(TF_Message(s), "");
  TF_DeleteStatus(s);
}

TEST_F(NativeTest, ErrorsOfGradientFunctionsNameTheNode) {
  DeclareUnary("NativeFails");
  DeclareUnary("NativeMisbuilds");
  DeclareUnary("NativeStops");
  const auto fails = [](sl_graph*, sl_node*, const sl_output*, sl_output*,
                        void* data) {
    return sl_status_new(SL_UNIMPLEMENTED, static_cast<const char*>(data));
  };
  char why[] = "only for small x";
  const auto has_gradient = [] {
    sl_op_info info;
    EXPECT_EQ(TakeMessage(sl_op_def_info(sl_op_def_find("NativeFails"), &info)),
              "");
    return info.has_gradient;
  };
  EXPECT_EQ(has_gradient(), 0);
  ASSERT_EQ(TakeMessage(sl_register_gradient("NativeFails", fails, why)), "");
  EXPECT_EQ(has_gradient(), 1);
  ASSERT_EQ(TakeMessage(sl_register_gradient(
                "NativeMisbuilds",
                [](sl_graph* g, sl_node*, const sl_output* dy, sl_output* dx,
                   void*) -> sl_status* {
                  dx[0] = Op(g, "NoSuchOp", {dy[0]});
                  return nullptr;
                },
                nullptr)),
            "");
  ASSERT_EQ(TakeMessage(sl_register_gradient(
                "NativeStops",
                [](sl_graph*, sl_node*, const sl_output*, sl_output*,
                   void*) -> sl_status* { return nullptr; },
                nullptr)),
            "");
  EXPECT_NE(TakeMessage(sl_register_gradient("NativeFails", fails, why))
                .find("taken"),
            std::string::npos);
  EXPECT_NE(TakeMessage(sl_register_gradient("Tanh", fails, why)).find("has a"),
            std::string::npos);
  const sl_output x = Placeholder(3);
  const auto gradient = [&](const char* op) {
    const sl_output y = Op(graph, op, {x});
    sl_output slope;
    return TakeMessage(
        sl_gradients(graph, {"model.c", 77}, &y, 1, &x, 1, nullptr, &slope));
  };
  const std::string failed = gradient("NativeFails");
  EXPECT_NE(failed.find(why), std::string::npos) << failed;
  EXPECT_NE(failed.find("(NativeFails)"), std::string::npos) << failed;
  EXPECT_NE(failed.find("model.c:77"), std::string::npos) << failed;
  const std::string misbuilt = gradient("NativeMisbuilds");
  EXPECT_NE(misbuilt.find("NoSuchOp"), std::string::npos) << misbuilt;
  // None flows: no error, and a null slope.
  const sl_output y = Op(graph, "NativeStops", {x});
  sl_output slope;
  EXPECT_EQ(TakeMessage(sl_gradients(graph, {"model.c", 77}, &y, 1, &x, 1,
                                     nullptr, &slope)),
            "");
  EXPECT_EQ(slope.node, nullptr);
}

// (src/capi/testing/broken_op_library.c) The second time it would be taken.
TEST_F(NativeTest, GradientIsTakenBackWithALibraryThatFailsToLoad) {
  for (int i = 0; i < 2; ++i) {
    const std::string why =
        TakeMessage(sl_load_library(SLUICE_BROKEN_OP_LIBRARY));
    EXPECT_NE(why.find("no_such_type"), std::string::npos) << why;
  }
}

// ---- Threads ----------------------------------------------------------------

TEST_F(NativeTest, StepsAndBuildersOnSeveralThreads) {
  const sl_output x = Placeholder(2);
  const sl_output y = Op(graph, "Neg", {x});
  sl_step* step = nullptr;
  ASSERT_EQ(TakeMessage(sl_step_new(session, &x, 1, &y, 1, &step)), "");
  constexpr int kThreads = 4, kSteps = 200;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      float values[2] = {0, 0};
      const int64_t n = 2;
      sl_tensor* in = nullptr;
      sl_tensor* out = nullptr;
      sl_status_free(
          sl_tensor_lend(SL_FLOAT, &n, 1, values, sizeof(values), &in));
      for (int i = 0; i < kSteps; ++i) {
        values[1] = static_cast<float>(t * kSteps + i);
        sl_status* s = sl_step_run(step, &in, &out, nullptr);
        const auto* got = static_cast<const float*>(sl_tensor_data(out));
        if (s != nullptr || got == nullptr || got[1] != -values[1]) ++wrong;
        sl_status_free(s);
        if (i % 50 == 0 && Op(graph, "Neg", {y}).node == nullptr) ++wrong;
      }
      sl_tensor_free(in);
      sl_tensor_free(out);
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  sl_step_free(step);
}

// A run begins the next from its `done`, on several threads; the session is
// freed while the rest wait.
TEST_F(NativeTest, AsynchronousStepsOnSeveralThreads) {
  sl_attr types = {};
  const sl_dtype type = SL_FLOAT;
  types.name = "component_types";
  types.kind = SL_KIND_TYPE | SL_KIND_LIST;
  types.count = 1;
  types.value.types = &type;
  const sl_output queue = Op(graph, "FIFOQueueV2", {}, {types});
  const sl_output x = Placeholder(2);
  const sl_output put = Op(graph, "QueueEnqueueV2", {queue, x});
  const sl_output take = Op(graph, "QueueDequeueV2", {queue}, {types});
  struct Chain {
    sl_step* step = nullptr;
    std::atomic<int> well{0}, ended{0};
    static void Done(sl_status* s, sl_tensor* const* results, size_t n,
                     void* data) {
      auto* const c = static_cast<Chain*>(data);
      const bool ok = s == nullptr;
      sl_status_free(s);
      for (size_t i = 0; i < n; ++i) sl_tensor_free(results[i]);
      if (ok) {
        ++c->well;
        sl_status_free(
            sl_step_run_async(c->step, nullptr, Done, data, nullptr));
      } else {
        ++c->ended;
      }
    }
  } chain;
  ASSERT_EQ(
      TakeMessage(sl_step_new(session, nullptr, 0, &take, 1, &chain.step)), "");
  constexpr int kChains = 8, kThreads = 3, kElements = 300;
  for (int i = 0; i < kChains; ++i)
    ASSERT_EQ(TakeMessage(sl_step_run_async(chain.step, nullptr, Chain::Done,
                                            &chain, nullptr)),
              "");
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < kElements; ++i) (void)Run(x, {1, 2}, put);
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(chain.well, kThreads * kElements);
  EXPECT_EQ(chain.ended, 0);
  sl_session_free(session);  // (Closes it; the step keeps it.)
  session = nullptr;
  EXPECT_EQ(chain.ended, kChains);
  sl_step_free(chain.step);
}

TEST_F(NativeTest, StepsOfOneThreadCancelledByAnother) {
  const sl_output x = Placeholder(2);
  const sl_output y = Op(graph, "Neg", {x});
  sl_step* step = nullptr;
  ASSERT_EQ(TakeMessage(sl_step_new(session, &x, 1, &y, 1, &step)), "");
  const float values[2] = {1, 2};
  const int64_t n = 2;
  sl_tensor* in = nullptr;
  ASSERT_EQ(
      TakeMessage(sl_tensor_copy(SL_FLOAT, &n, 1, values, sizeof(values), &in)),
      "");
  // A step ends well or is cancelled; a cancellation does not reach the next.
  for (int i = 0; i < 200; ++i) {
    sl_cancellation* stop = nullptr;
    ASSERT_EQ(TakeMessage(sl_cancellation_new(&stop)), "");
    sl_run_options options = {};
    options.struct_size = sizeof(options);
    options.cancellation = stop;
    sl_tensor* out = nullptr;
    std::thread other([stop] { sl_cancel(stop); });
    sl_status* s = sl_step_run(step, &in, &out, &options);
    EXPECT_TRUE(s == nullptr || sl_status_code(s) == SL_CANCELLED)
        << sl_status_message(s);
    sl_status_free(s);
    other.join();
    EXPECT_EQ(TakeMessage(sl_step_run(step, &in, &out, nullptr)), "");
    EXPECT_EQ(static_cast<const float*>(sl_tensor_data(out))[1], -2);
    sl_tensor_free(out);
    sl_cancellation_free(stop);
  }
  // Closing ends them all; the step keeps its session.
  std::thread closer([this] { sl_status_free(sl_session_close(session)); });
  for (;;) {
    sl_tensor* out = nullptr;
    sl_status* s = sl_step_run(step, &in, &out, nullptr);
    const int32_t code = sl_status_code(s);
    sl_status_free(s);
    sl_tensor_free(out);
    if (code == SL_FAILED_PRECONDITION) break;
    ASSERT_TRUE(code == SL_OK || code == SL_CANCELLED) << code;
  }
  closer.join();
  sl_step_free(step);
  sl_tensor_free(in);
}

// ---- Saved models -----------------------------------------------------------

TEST(NativeModelTest, RunsASignature) {
  const std::string folder = "tests/saved_models/v1";
  sl_model* model = nullptr;
  ASSERT_EQ(
      TakeMessage(sl_model_load(folder.c_str(), nullptr, 0, nullptr, &model)),
      "");
  sl_output x, y;
  ASSERT_EQ(TakeMessage(sl_model_input(model, nullptr, "x", &x)), "");
  ASSERT_EQ(TakeMessage(sl_model_output(model, nullptr, "y", &y)), "");
  EXPECT_NE(TakeMessage(sl_model_output(model, nullptr, "z", &y)).find("'y'"),
            std::string::npos);
  ASSERT_EQ(TakeMessage(sl_model_output(model, "serving_default", "y", &y)),
            "");
  const int64_t dims[] = {1, 2};
  const float values[] = {1, 2};
  sl_tensor* in = nullptr;
  sl_tensor* out = nullptr;
  ASSERT_EQ(TakeMessage(
                sl_tensor_copy(SL_FLOAT, dims, 2, values, sizeof(values), &in)),
            "");
  const sl_feed feed = {x, in};
  ASSERT_EQ(TakeMessage(sl_session_run(sl_model_session(model), &feed, 1, &y, 1,
                                       &out, nullptr)),
            "");
  EXPECT_EQ(sl_tensor_count(out), 3);
  EXPECT_EQ(static_cast<const float*>(sl_tensor_data(out))[2], 45);
  EXPECT_GT(sl_graph_num_nodes(sl_model_graph(model)), 0u);
  // What there is.
  std::vector<std::string> listed;
  ASSERT_EQ(TakeMessage(sl_model_signatures(
                model,
                [](const char* name, const char* method, void* data) {
                  static_cast<std::vector<std::string>*>(data)->push_back(
                      std::string(name) + " " + method);
                },
                &listed)),
            "");
  EXPECT_NE(std::find(listed.begin(), listed.end(),
                      "serving_default tensorflow/serving/predict"),
            listed.end());
  listed.clear();
  ASSERT_EQ(TakeMessage(sl_model_values(
                model, nullptr,
                [](const sl_value_info* v, void* data) {
                  static_cast<std::vector<std::string>*>(data)->push_back(
                      std::string(v->is_output != 0 ? "to " : "from ") +
                      v->name + " " + sl_dtype_name(v->dtype) + " of rank " +
                      std::to_string(v->shape.rank));
                },
                &listed)),
            "");
  EXPECT_EQ(listed, (std::vector<std::string>{"from x float of rank 2",
                                              "to y float of rank 2"}));
  EXPECT_NE(TakeMessage(
                sl_model_values(
                    model, "none", [](const sl_value_info*, void*) {}, nullptr))
                .find("serving_default"),
            std::string::npos);
  int variables = 0;
  ASSERT_EQ(
      TakeMessage(sl_graph_variables(
          sl_model_graph(model),
          [](const sl_variable_info*, void* n) { ++*static_cast<int*>(n); },
          &variables)),
      "");
  EXPECT_GT(variables, 0);
  // They belong to the model.
  sl_session_free(sl_model_session(model));
  sl_graph_free(sl_model_graph(model));
  // A step that was prepared keeps the model.
  sl_step* step = nullptr;
  ASSERT_EQ(
      TakeMessage(sl_step_new(sl_model_session(model), &x, 1, &y, 1, &step)),
      "");
  sl_model_free(model);
  EXPECT_EQ(TakeMessage(sl_step_run(step, &in, &out, nullptr)), "");
  sl_step_free(step);
  sl_tensor_free(in);
  sl_tensor_free(out);
  EXPECT_NE(TakeMessage(sl_model_load("tests", nullptr, 0, nullptr, &model)),
            "");
}

}  // namespace
