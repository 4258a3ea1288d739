#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "tensorflow/c/c_api.h"

extern "C" int sluice_c11_program(int x);

namespace {

struct CApiTest : testing::Test {
  TF_Status* status = TF_NewStatus();
  TF_Graph* graph = TF_NewGraph();
  ~CApiTest() override {
    TF_DeleteGraph(graph);
    TF_DeleteStatus(status);
  }
  bool Ok() const {
    EXPECT_STREQ(TF_Message(status), "");
    return TF_GetCode(status) == TF_OK;
  }
  static TF_Tensor* Scalar(float v) {
    TF_Tensor* t = TF_AllocateTensor(TF_FLOAT, nullptr, 0, sizeof(v));
    std::memcpy(TF_TensorData(t), &v, sizeof(v));
    return t;
  }
  TF_Operation* Placeholder(TF_Graph* g, const char* name,
                            const int64_t* dims = nullptr, int num_dims = 0) {
    TF_OperationDescription* d = TF_NewOperation(g, "Placeholder", name);
    TF_SetAttrType(d, "dtype", TF_FLOAT);
    TF_SetAttrShape(d, "shape", dims, num_dims);
    return TF_FinishOperation(d, status);
  }
  TF_Operation* Constant(TF_Graph* g, const char* name, float v) {
    TF_Tensor* t = Scalar(v);
    TF_OperationDescription* d = TF_NewOperation(g, "Const", name);
    TF_SetAttrTensor(d, "value", t, status);
    TF_SetAttrType(d, "dtype", TF_FLOAT);
    TF_DeleteTensor(t);
    return TF_FinishOperation(d, status);
  }
  TF_Operation* Binary(TF_Graph* g, const char* op, const char* name,
                       TF_Output a, TF_Output b) {
    TF_OperationDescription* d = TF_NewOperation(g, op, name);
    TF_AddInput(d, a);
    TF_AddInput(d, b);
    return TF_FinishOperation(d, status);
  }
  float Run(TF_Output feed, float v, TF_Output fetch) {
    TF_Session* s = TF_NewSession(graph, nullptr, status);
    TF_Tensor* in = Scalar(v);
    TF_Tensor* out = nullptr;
    TF_SessionRun(s, nullptr, &feed, &in, 1, &fetch, &out, 1, nullptr, 0,
                  nullptr, status);
    const float result =
        Ok() ? *static_cast<float*>(TF_TensorData(out)) : -12345;
    TF_DeleteTensor(in);
    TF_DeleteTensor(out);
    TF_Status* ignored = TF_NewStatus();
    TF_DeleteSession(s, ignored);
    TF_DeleteStatus(ignored);
    return result;
  }
};

// The axis of a Pack is an attribute of the function that it is part of.
TEST_F(CApiTest, PlaceholdersOfAttributesAreAttributesOfTheFunction) {
  TF_Graph* body = TF_NewGraph();
  const int64_t two[] = {2};
  TF_Operation* const x = Placeholder(body, "x", two, 1);
  const TF_Output in = {x, 0};
  const TF_Output twice[] = {in, in};
  const auto pack = [&](const char* name, const char* axis) {
    TF_OperationDescription* d = TF_NewOperation(body, "Pack", name);
    TF_AddInputList(d, twice, 2);
    TF_SetAttrPlaceholder(d, "axis", axis);
    return TF_FinishOperation(d, status);
  };
  TF_Operation* const rows = pack("rows", "one");
  ASSERT_TRUE(Ok());
  TF_Operation* const columns = pack("columns", "other");
  ASSERT_TRUE(Ok());
  // Of a node with a placeholder little is known, and it cannot run.
  EXPECT_EQ(TF_GraphGetTensorNumDims(body, {rows, 0}, status), -1);
  EXPECT_EQ(TF_OperationGetAttrMetadata(rows, "axis", status).type,
            TF_ATTR_PLACEHOLDER);
  TF_Output dx;
  TF_Output const y = {rows, 0};
  TF_AddGradients(body, const_cast<TF_Output*>(&y), 1,
                  const_cast<TF_Output*>(&in), 1, nullptr, status, &dx);
  EXPECT_EQ(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TF_Session* s = TF_NewSession(body, nullptr, status);
  ASSERT_TRUE(Ok());
  TF_SessionRun(s, nullptr, nullptr, nullptr, 0, nullptr, nullptr, 0, &rows, 1,
                nullptr, status);
  EXPECT_EQ(TF_GetCode(status), TF_INVALID_ARGUMENT);
  EXPECT_NE(std::strstr(TF_Message(status),
                        "attribute 'axis': expected a value, got the "
                        "placeholder $one"),
            nullptr)
      << TF_Message(status);
  TF_DeleteSession(s, status);
  // Types cannot depend on placeholders.
  TF_OperationDescription* d = TF_NewOperation(body, "Placeholder", "typeless");
  TF_SetAttrPlaceholder(d, "dtype", "T");
  EXPECT_EQ(TF_FinishOperation(d, status), nullptr);
  EXPECT_EQ(TF_GetCode(status), TF_INVALID_ARGUMENT);
  EXPECT_EQ(pack("nameless", ""), nullptr);

  const TF_Output outs[] = {{rows, 0}, {columns, 0}};
  TF_Function* f = TF_GraphToFunction(body, "PackTwice", 0, -1, nullptr, 1, &in,
                                      2, outs, nullptr, nullptr, "", status);
  ASSERT_TRUE(Ok());
  TF_GraphCopyFunction(graph, f, nullptr, status);
  ASSERT_TRUE(Ok());
  TF_DeleteFunction(f);
  TF_DeleteGraph(body);
  TF_Operation* const v = Placeholder(graph, "v", two, 1);
  ASSERT_TRUE(Ok());
  d = TF_NewOperation(graph, "PackTwice", "call");
  TF_AddInput(d, {v, 0});
  TF_SetAttrInt(d, "one", 0);
  TF_SetAttrInt(d, "other", 1);
  TF_Operation* const call = TF_FinishOperation(d, status);
  ASSERT_TRUE(Ok());
  float values[] = {1, 2};
  TF_Tensor* fed = TF_AllocateTensor(TF_FLOAT, two, 1, sizeof(values));
  std::memcpy(TF_TensorData(fed), values, sizeof(values));
  s = TF_NewSession(graph, nullptr, status);
  const TF_Output feed = {v, 0};
  const TF_Output fetches[] = {{call, 0}, {call, 1}};
  TF_Tensor* got[] = {nullptr, nullptr};
  TF_SessionRun(s, nullptr, &feed, &fed, 1, fetches, got, 2, nullptr, 0,
                nullptr, status);
  ASSERT_TRUE(Ok());
  const std::vector<float> want[] = {{1, 2, 1, 2}, {1, 1, 2, 2}};
  for (int i = 0; i < 2; ++i) {
    const auto* data = static_cast<const float*>(TF_TensorData(got[i]));
    EXPECT_EQ(std::vector<float>(data, data + 4), want[i]);
    TF_DeleteTensor(got[i]);
  }
  TF_DeleteTensor(fed);
  TF_DeleteSession(s, status);
}

TEST_F(CApiTest, PlaceholdersOfAFunctionHaveOneKindEach) {
  const TF_Output in = {Placeholder(graph, "x"), 0};
  const auto add = [&](const char* op, const char* name, const char* attr) {
    TF_OperationDescription* d = TF_NewOperation(graph, op, name);
    TF_SetAttrPlaceholder(d, attr, "p");
    if (std::strcmp(op, "Pack") == 0)
      TF_AddInputList(d, &in, 1);
    else
      TF_AddInput(d, in);
    return TF_FinishOperation(d, status);
  };
  TF_Operation* const of_int = add("Pack", "pack", "axis");
  TF_Operation* const of_list = add("Squeeze", "squeeze", "squeeze_dims");
  TF_Operation* const undeclared = add("Neg", "neg", "_note");
  ASSERT_TRUE(Ok());
  const auto make = [&](std::vector<TF_Operation*> ops) {
    TF_Function* f = TF_GraphToFunction(
        graph, "f", 0, static_cast<int>(ops.size()), ops.data(), 1, &in, 0,
        nullptr, nullptr, nullptr, nullptr, status);
    TF_DeleteFunction(f);
    return TF_GetCode(status);
  };
  EXPECT_EQ(make({of_int}), TF_OK);
  EXPECT_EQ(make({of_int, of_list}), TF_INVALID_ARGUMENT);
  EXPECT_EQ(make({undeclared}), TF_UNIMPLEMENTED);
}

TEST_F(CApiTest, ProgramInC) { EXPECT_EQ(sluice_c11_program(40), 42); }

TEST_F(CApiTest, DeallocatorRunsWithTheLastUser) {
  alignas(64) static float data[6] = {1, 2, 3, 4, 5, 6};
  const int64_t dims[] = {2, 3};
  int freed = 0;
  const auto count = [](void*, size_t, void* n) { ++*static_cast<int*>(n); };
  TF_Tensor* t =
      TF_NewTensor(TF_FLOAT, dims, 2, data, sizeof(data), count, &freed);
  ASSERT_NE(t, nullptr);
  EXPECT_EQ(TF_TensorData(t), data);
  EXPECT_EQ(TF_TensorByteSize(t), sizeof(data));
  EXPECT_EQ(freed, 0);
  TF_DeleteTensor(t);
  EXPECT_EQ(freed, 1);
  // Too few bytes: refused, and given back.
  EXPECT_EQ(TF_NewTensor(TF_FLOAT, dims, 2, data, 20, count, &freed), nullptr);
  EXPECT_EQ(freed, 2);
}

TEST_F(CApiTest, StringsOfEverySizeComeBack) {
  const std::string texts[] = {"", "short", std::string(22, 'a'),
                               std::string(23, 'b'), std::string(5000, 'c')};
  const int64_t dims[] = {5};
  TF_Tensor* t = TF_AllocateTensor(TF_STRING, dims, 1, 5 * sizeof(TF_TString));
  auto* strings = static_cast<TF_TString*>(TF_TensorData(t));
  for (int i = 0; i < 5; ++i)
    TF_StringCopy(&strings[i], texts[i].data(), texts[i].size());
  std::vector<TF_TString> owned(strings, strings + 5);
  TF_OperationDescription* d = TF_NewOperation(graph, "Const", "texts");
  TF_SetAttrTensor(d, "value", t, status);
  TF_SetAttrType(d, "dtype", TF_STRING);
  TF_Operation* c = TF_FinishOperation(d, status);
  ASSERT_TRUE(Ok());
  TF_DeleteTensor(t);
  // (What was put into an allocated tensor stays the caller's.)
  for (TF_TString& own : owned) TF_StringDealloc(&own);
  TF_Tensor* back = nullptr;
  TF_OperationGetAttrTensor(c, "value", &back, status);
  ASSERT_TRUE(Ok());
  strings = static_cast<TF_TString*>(TF_TensorData(back));
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(std::string(TF_StringGetDataPointer(&strings[i]),
                          TF_StringGetSize(&strings[i])),
              texts[i]);
  TF_DeleteTensor(back);
}

TEST_F(CApiTest, GradientsAndReaders) {
  TF_Operation* x = Placeholder(graph, "x");
  TF_Operation* y = Binary(graph, "Mul", "y", {x, 0}, {x, 0});
  ASSERT_TRUE(Ok());
  EXPECT_EQ(TF_OperationOutputNumConsumers({x, 0}), 2);
  TF_Output ys = {y, 0}, xs = {x, 0}, dys = {nullptr, 0};
  TF_AddGradientsWithPrefix(graph, "g", &ys, 1, &xs, 1, nullptr, status, &dys);
  ASSERT_TRUE(Ok());
  EXPECT_EQ(std::string(TF_OperationName(dys.oper)).rfind("g/", 0), 0u);
  EXPECT_EQ(Run(xs, 3, dys), 6);
  EXPECT_GT(TF_OperationOutputNumConsumers({x, 0}), 2);
}

TEST_F(CApiTest, ImportsWhatItExports) {
  TF_Operation* x = Placeholder(graph, "x");
  Binary(graph, "AddV2", "y", {x, 0}, {x, 0});
  TF_Buffer* bytes = TF_NewBuffer();
  TF_GraphToGraphDef(graph, bytes, status);
  ASSERT_TRUE(Ok());
  TF_ImportGraphDefOptions* o = TF_NewImportGraphDefOptions();
  TF_ImportGraphDefOptionsSetPrefix(o, "copy");
  TF_ImportGraphDefOptionsAddInputMapping(o, "x", 0, {x, 0});
  TF_ImportGraphDefOptionsAddInputMapping(o, "gone", 3, {x, 0});
  TF_ImportGraphDefOptionsAddReturnOutput(o, "y", 0);
  TF_ImportGraphDefResults* r =
      TF_GraphImportGraphDefWithResults(graph, bytes, o, status);
  ASSERT_TRUE(Ok());
  int n = 0;
  TF_Output* outputs = nullptr;
  TF_ImportGraphDefResultsReturnOutputs(r, &n, &outputs);
  ASSERT_EQ(n, 1);
  EXPECT_STREQ(TF_OperationName(outputs[0].oper), "copy/y");
  EXPECT_EQ(Run({x, 0}, 4, outputs[0]), 8);
  const char** names = nullptr;
  int* indexes = nullptr;
  TF_ImportGraphDefResultsMissingUnusedInputMappings(r, &n, &names, &indexes);
  ASSERT_EQ(n, 1);
  EXPECT_STREQ(names[0], "gone");
  EXPECT_EQ(indexes[0], 3);
  TF_DeleteImportGraphDefResults(r);
  TF_DeleteImportGraphDefOptions(o);
  TF_DeleteBuffer(bytes);
}

TEST_F(CApiTest, LoopRuns) {
  TF_Operation* x = Placeholder(graph, "x");
  TF_Output init = {x, 0};
  TF_WhileParams p = TF_NewWhile(graph, &init, 1, status);
  ASSERT_TRUE(Ok());
  TF_Operation* limit = Constant(p.cond_graph, "limit", 100);
  p.cond_output = {
      Binary(p.cond_graph, "Less", "less", p.cond_inputs[0], {limit, 0}), 0};
  p.body_outputs[0] = {Binary(p.body_graph, "AddV2", "twice", p.body_inputs[0],
                              p.body_inputs[0]),
                       0};
  p.name = "loop";
  TF_Output result = {nullptr, 0};
  TF_FinishWhile(&p, status, &result);
  ASSERT_TRUE(Ok());
  EXPECT_EQ(Run(init, 3, result), 192);
}

TEST_F(CApiTest, FunctionIsCalled) {
  TF_Graph* body = TF_NewGraph();
  TF_Operation* a = Placeholder(body, "a");
  TF_Operation* b = Binary(body, "Mul", "b", {a, 0}, {a, 0});
  const TF_Output in = {a, 0}, out = {b, 0};
  TF_Function* f = TF_GraphToFunction(body, "square", 0, -1, nullptr, 1, &in, 1,
                                      &out, nullptr, nullptr, "x x", status);
  ASSERT_TRUE(Ok());
  EXPECT_STREQ(TF_FunctionName(f), "square");
  TF_GraphCopyFunction(graph, f, nullptr, status);
  ASSERT_TRUE(Ok());
  EXPECT_EQ(TF_GraphNumFunctions(graph), 1);
  TF_Operation* x = Placeholder(graph, "x");
  TF_OperationDescription* d = TF_NewOperation(graph, "square", "call");
  TF_AddInput(d, {x, 0});
  TF_Operation* call = TF_FinishOperation(d, status);
  ASSERT_TRUE(Ok());
  EXPECT_EQ(Run({x, 0}, 5, {call, 0}), 25);
  TF_DeleteFunction(f);
  TF_DeleteGraph(body);
}

TEST_F(CApiTest, HostileArgumentsGiveAStatus) {
  TF_SessionRun(nullptr, nullptr, nullptr, nullptr, 1, nullptr, nullptr, 1,
                nullptr, 1, nullptr, status);
  EXPECT_EQ(TF_GetCode(status), TF_INVALID_ARGUMENT);
  EXPECT_EQ(TF_NewSession(nullptr, nullptr, status), nullptr);
  EXPECT_EQ(TF_GetCode(status), TF_INVALID_ARGUMENT);
  EXPECT_EQ(TF_FinishOperation(nullptr, status), nullptr);
  EXPECT_EQ(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TF_OperationDescription* d = TF_NewOperation(graph, "NoSuchOp", "x");
  EXPECT_EQ(TF_FinishOperation(d, status), nullptr);
  EXPECT_EQ(TF_GetCode(status), TF_NOT_FOUND);
  TF_Operation* x = Placeholder(graph, "x");
  d = TF_NewOperation(graph, "Neg", "n");
  TF_AddInput(d, {x, 7});
  EXPECT_EQ(TF_FinishOperation(d, status), nullptr);
  EXPECT_EQ(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TF_FinishWhile(nullptr, status, nullptr);
  EXPECT_EQ(TF_GetCode(status), TF_INVALID_ARGUMENT);
  int64_t number = 0;
  TF_OperationGetAttrInt(x, "dtype", &number, status);
  EXPECT_EQ(TF_GetCode(status), TF_INVALID_ARGUMENT);
  EXPECT_EQ(Placeholder(graph, "x"), nullptr);  // The name is taken.
  EXPECT_EQ(TF_GetCode(status), TF_INVALID_ARGUMENT);
}

// Outputs keep their names; nodes and arguments that collide get suffixes.
TEST_F(CApiTest, NamesInFunctionsAreUniqueTogether) {
  TF_Graph* body = TF_NewGraph();
  TF_Output in = {Placeholder(body, "Feed"), 0};
  TF_Output sum = {Binary(body, "AddV2", "sum", in, in), 0};
  TF_Function* f = TF_GraphToFunction(body, "f", 0, -1, nullptr, 1, &in, 1,
                                      &sum, nullptr, nullptr, nullptr, status);
  ASSERT_TRUE(Ok());
  TF_Buffer* bytes = TF_NewBuffer();
  TF_FunctionToFunctionDef(f, bytes, status);
  const std::string def(static_cast<const char*>(bytes->data), bytes->length);
  EXPECT_NE(def.find("sum_0:z:0"), std::string::npos);
  EXPECT_NE(def.find("feed"), std::string::npos);
  EXPECT_EQ(def.find("Feed"), std::string::npos);
  TF_DeleteBuffer(bytes);
  TF_DeleteFunction(f);

  const TF_Output both[] = {sum, in};
  const char* same[] = {"a", "a"};
  EXPECT_EQ(TF_GraphToFunction(body, "f", 0, -1, nullptr, 1, &in, 2, both, same,
                               nullptr, nullptr, status),
            nullptr);
  EXPECT_EQ(TF_GetCode(status), TF_INVALID_ARGUMENT);
  const TF_Output high = {in.oper, 2};
  EXPECT_EQ(TF_GraphToFunction(body, "f", 0, -1, nullptr, 1, &high, 1, &sum,
                               nullptr, nullptr, nullptr, status),
            nullptr);
  EXPECT_EQ(TF_GetCode(status), TF_OUT_OF_RANGE);
  const char* name = "ran";
  f = TF_GraphToFunctionWithControlOutputs(body, "f", 0, -1, nullptr, 1, &in, 1,
                                           &sum, nullptr, 1, &sum.oper, &name,
                                           nullptr, nullptr, status);
  ASSERT_TRUE(Ok());
  bytes = TF_NewBuffer();
  TF_FunctionToFunctionDef(f, bytes, status);
  EXPECT_NE(std::string(static_cast<const char*>(bytes->data), bytes->length)
                .find("ran"),
            std::string::npos);
  TF_DeleteBuffer(bytes);
  TF_DeleteFunction(f);
  TF_DeleteGraph(body);
}

// A loop of Switch and Merge is part of a function's body, and runs there.
TEST_F(CApiTest, FunctionsMayContainLoops) {
  TF_Graph* body = TF_NewGraph();
  TF_Output in = {Placeholder(body, "x"), 0};
  TF_WhileParams p = TF_NewWhile(body, &in, 1, status);
  ASSERT_TRUE(Ok());
  p.name = "loop";
  p.cond_output = {Binary(p.cond_graph, "Less", "less", p.cond_inputs[0],
                          {Constant(p.cond_graph, "ten", 10), 0}),
                   0};
  p.body_outputs[0] = {Binary(p.body_graph, "AddV2", "add", p.body_inputs[0],
                              {Constant(p.body_graph, "three", 3), 0}),
                       0};
  TF_Output end;
  TF_FinishWhile(&p, status, &end);
  ASSERT_TRUE(Ok());
  TF_Function* f =
      TF_GraphToFunction(body, "looping", 0, -1, nullptr, 1, &in, 1, &end,
                         nullptr, nullptr, nullptr, status);
  ASSERT_TRUE(Ok());
  TF_GraphCopyFunction(graph, f, nullptr, status);
  const TF_Output feed = {Placeholder(graph, "feed"), 0};
  TF_OperationDescription* d = TF_NewOperation(graph, "looping", "call");
  TF_AddInput(d, feed);
  TF_Operation* call = TF_FinishOperation(d, status);
  ASSERT_TRUE(Ok());
  EXPECT_EQ(Run(feed, 2, {call, 0}), 11);
  TF_DeleteFunction(f);
  TF_DeleteGraph(body);
}

// Messages are TensorFlow's.
TEST_F(CApiTest, LoopsThatAreNotCompleteAreRefused) {
  TF_Output x = {Placeholder(graph, "x"), 0};
  const auto finish = [&](TF_Output cond, const char* name) {
    TF_WhileParams p = TF_NewWhile(graph, &x, 1, status);
    p.name = name;
    p.cond_output = cond.index < 0 ? p.cond_inputs[0] : cond;
    TF_Output end;
    TF_FinishWhile(&p, status, &end);
    EXPECT_EQ(TF_GetCode(status), TF_INVALID_ARGUMENT);
    return std::string(TF_Message(status));
  };
  EXPECT_EQ(finish(x, nullptr), "TF_WhileParams `name` field is null");
  EXPECT_EQ(finish({nullptr, 0}, "a"),
            "TF_WhileParams `cond_output` field isn't set");
  EXPECT_EQ(finish(x, "a"),
            "Requested return tensor 'x:0' not found in graph def");
  EXPECT_EQ(finish({nullptr, -1}, "a"),
            "BuildWhileLoop: 'cond' argument must return a boolean output, got "
            "float");
}

// As in TensorFlow's C++ and C clients; in Python they have none.
TEST_F(CApiTest, GradientsFlowThroughIntegers) {
  const auto constant = [&](TF_Graph* g, const char* name, int32_t v) {
    TF_Tensor* t = TF_AllocateTensor(TF_INT32, nullptr, 0, sizeof(v));
    std::memcpy(TF_TensorData(t), &v, sizeof(v));
    TF_OperationDescription* d = TF_NewOperation(g, "Const", name);
    TF_SetAttrTensor(d, "value", t, status);
    TF_SetAttrType(d, "dtype", TF_INT32);
    TF_DeleteTensor(t);
    return TF_Output{TF_FinishOperation(d, status), 0};
  };
  TF_Output x = constant(graph, "x", 3);
  TF_Output other = constant(graph, "other", 3);
  // while (v < 50) v = v * v: 9, 81.
  TF_WhileParams p = TF_NewWhile(graph, &x, 1, status);
  ASSERT_TRUE(Ok());
  p.name = "loop";
  p.cond_output = {Binary(p.cond_graph, "Less", "less", p.cond_inputs[0],
                          constant(p.cond_graph, "limit", 50)),
                   0};
  p.body_outputs[0] = {
      Binary(p.body_graph, "Mul", "square", p.body_inputs[0], p.body_inputs[0]),
      0};
  TF_Output end;
  TF_FinishWhile(&p, status, &end);
  ASSERT_TRUE(Ok());
  TF_Output y = {Binary(graph, "AddV2", "y", end, x), 0};
  TF_Output xs[] = {x, other}, dy[2];
  TF_AddGradients(graph, &y, 1, xs, 2, nullptr, status, dy);
  ASSERT_TRUE(Ok());
  EXPECT_EQ(dy[1].oper, nullptr);
  TF_Session* s = TF_NewSession(graph, nullptr, status);
  TF_Tensor* out = nullptr;
  TF_SessionRun(s, nullptr, nullptr, nullptr, 0, dy, &out, 1, nullptr, 0,
                nullptr, status);
  ASSERT_TRUE(Ok());
  EXPECT_EQ(*static_cast<int32_t*>(TF_TensorData(out)), 4 * 27 + 1);
  TF_DeleteTensor(out);
  TF_DeleteSession(s, status);

  // (Calls are inlined.)
  TF_Operation* const square = Binary(graph, "Mul", "square", x, x);
  const TF_Output squared = {square, 0};
  TF_Function* f =
      TF_GraphToFunction(graph, "SquareOf", 0, 1, &square, 1, &x, 1, &squared,
                         nullptr, nullptr, nullptr, status);
  ASSERT_TRUE(Ok());
  TF_GraphCopyFunction(graph, f, nullptr, status);
  TF_DeleteFunction(f);
  TF_OperationDescription* d = TF_NewOperation(graph, "SquareOf", "call");
  TF_AddInput(d, x);
  y = {TF_FinishOperation(d, status), 0};
  ASSERT_TRUE(Ok());
  TF_AddGradients(graph, &y, 1, &x, 1, nullptr, status, dy);
  ASSERT_TRUE(Ok());
  s = TF_NewSession(graph, nullptr, status);
  TF_SessionRun(s, nullptr, nullptr, nullptr, 0, dy, &out, 1, nullptr, 0,
                nullptr, status);
  ASSERT_TRUE(Ok());
  EXPECT_EQ(*static_cast<int32_t*>(TF_TensorData(out)), 6);
  TF_DeleteTensor(out);
  TF_DeleteSession(s, status);
}

// The words that TensorFlow's programs look for.
TEST_F(CApiTest, InputsOfOtherTypesAreNamedAsInTensorFlow) {
  const TF_Output x = {Placeholder(graph, "x"), 0};
  TF_OperationDescription* d = TF_NewOperation(graph, "LogicalNot", "not");
  TF_AddInput(d, x);
  EXPECT_EQ(TF_FinishOperation(d, status), nullptr);
  EXPECT_EQ(TF_GetCode(status), TF_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(TF_Message(status))
                .find("Input 'x' passed float expected bool while building "
                      "NodeDef 'not'"),
            0u)
      << TF_Message(status);
}

TEST_F(CApiTest, ControlEdgesFromOutsideAFunctionAreNumbered) {
  TF_Operation* const x = Placeholder(graph, "x");
  TF_Operation* const outside = Constant(graph, "outside", 1);
  TF_OperationDescription* d = TF_NewOperation(graph, "Neg", "neg");
  TF_AddInput(d, {x, 0});
  TF_AddControlInput(d, x);
  TF_AddControlInput(d, outside);
  TF_Operation* const neg = TF_FinishOperation(d, status);
  const TF_Output in = {x, 0}, out = {neg, 0};
  EXPECT_EQ(TF_GraphToFunction(graph, "f", 0, 1, &neg, 1, &in, 1, &out, nullptr,
                               nullptr, nullptr, status),
            nullptr);
  EXPECT_STREQ(TF_Message(status),
               "The source of control edge [id=3 outside:-1 -> neg:-1] is not "
               "in the body. Encountered while creating function 'f'");
}

// The hashes are TensorFlow's: the first name is from its own tests.
TEST_F(CApiTest, NamesOfFunctionsMayEndWithAHash) {
  const auto name = [&](const char* op, const char* description,
                        bool constant) {
    TF_Graph* body = TF_NewGraph();
    TF_OperationDescription* d = TF_NewOperation(body, "Placeholder", "feed");
    TF_SetAttrType(d, "dtype", TF_INT32);
    const TF_Output in = {TF_FinishOperation(d, status), 0};
    d = TF_NewOperation(body, op, "neg");
    TF_AddInput(d, in);
    const TF_Output out = {TF_FinishOperation(d, status), 0};
    if (constant) Constant(body, "unused", 1);
    TF_Function* f =
        TF_GraphToFunction(body, "func_name_base", 1, -1, nullptr, 1, &in, 1,
                           &out, nullptr, nullptr, description, status);
    EXPECT_TRUE(Ok());
    std::string n = TF_FunctionName(f);
    TF_DeleteFunction(f);
    TF_DeleteGraph(body);
    return n;
  };
  const std::string first = name("Neg", "Return something", false);
  EXPECT_EQ(first, "func_name_base_qaJ8jA8UmGY");
  EXPECT_EQ(name("Neg", "Return something", false), first);
  EXPECT_NE(name("Abs", "Return something", false), first);
  EXPECT_NE(name("Neg", "Return another", false), first);
  EXPECT_NE(name("Neg", "Return something", true), first);
}

// A config has the meaning that it has in Python.
// The names in an operation's attribute "_class".
std::string ColocatedWith(TF_Operation* op, TF_Status* status) {
  const TF_AttrMetadata m = TF_OperationGetAttrMetadata(op, "_class", status);
  if (TF_GetCode(status) != TF_OK) return TF_Message(status);
  const auto n = static_cast<size_t>(m.list_size);
  std::vector<void*> values(n);
  std::vector<size_t> lengths(n);
  std::vector<char> storage(static_cast<size_t>(m.total_size));
  TF_OperationGetAttrStringList(op, "_class", values.data(), lengths.data(),
                                static_cast<int>(n), storage.data(),
                                storage.size(), status);
  std::string all;
  for (size_t i = 0; i < n; ++i)
    all += std::string(static_cast<char*>(values[i]), lengths[i]) + " ";
  return all;
}

TEST_F(CApiTest, ColocationIsASetThatAnAttributeReplaces) {
  TF_Operation* const a = Placeholder(graph, "a");
  TF_Operation* const b = Placeholder(graph, "b");
  const char* const names[] = {"loc:@b", "loc:@a", "loc:@b"};
  const size_t lengths[] = {6, 6, 6};
  const auto set = [&](TF_OperationDescription* d, int n) {
    TF_SetAttrStringList(
        d, "_class", reinterpret_cast<const void* const*>(names), lengths, n);
  };
  const auto finish = [&](TF_OperationDescription* d) {
    TF_AddInput(d, {a, 0});
    return ColocatedWith(TF_FinishOperation(d, status), status);
  };
  TF_OperationDescription* d = TF_NewOperation(graph, "Neg", "n1");
  set(d, 3);
  EXPECT_EQ(finish(d), "loc:@a loc:@b ");
  d = TF_NewOperation(graph, "Neg", "n2");
  set(d, 1);
  TF_ColocateWith(d, a);
  EXPECT_EQ(finish(d), "loc:@a loc:@b ");
  d = TF_NewOperation(graph, "Neg", "n3");
  TF_ColocateWith(d, a);
  set(d, 1);
  EXPECT_EQ(finish(d), "loc:@b ");
  d = TF_NewOperation(graph, "Neg", "n4");
  TF_ColocateWith(d, b);
  set(d, 0);
  EXPECT_EQ(finish(d), "Operation 'n4' has no attr named '_class'.");
  d = TF_NewOperation(graph, "Neg", "n5");
  TF_ColocateWith(d, b);
  TF_SetAttrValueProto(d, "_class", "", 0, status);
  EXPECT_EQ(finish(d), "Operation 'n5' has no attr named '_class'.");
  d = TF_NewOperation(graph, "Neg", "n6");
  TF_SetAttrInt(d, "_class", 3);
  TF_AddInput(d, {a, 0});
  EXPECT_EQ(TF_FinishOperation(d, status), nullptr);
  EXPECT_EQ(TF_GetCode(status), TF_INVALID_ARGUMENT);
}

// The bytes of what `fill` stores in a buffer.
template <typename Fn>
std::string BytesOf(Fn&& fill) {
  TF_Buffer* const b = TF_NewBuffer();
  fill(b);
  std::string bytes(static_cast<const char*>(b->data), b->length);
  TF_DeleteBuffer(b);
  return bytes;
}

TEST_F(CApiTest, AChangedEdgeNamesItsOutput) {
  TF_Operation* const a = Placeholder(graph, "first");
  TF_Operation* const b = Placeholder(graph, "second");
  TF_Operation* const sum = Binary(graph, "AddV2", "sum", {a, 0}, {a, 0});
  const auto def = [&] {
    return BytesOf(
        [&](TF_Buffer* b) { TF_OperationToNodeDef(sum, b, status); });
  };
  EXPECT_EQ(def().find("first:0"), std::string::npos);
  TF_UpdateEdge(graph, {b, 0}, {sum, 1}, status);
  ASSERT_TRUE(Ok());
  EXPECT_NE(def().find("second:0"), std::string::npos);
  EXPECT_EQ(def().find("first:0"), std::string::npos);
}

TEST_F(CApiTest, ShapesOfUnknownRankNeedNoRoom) {
  TF_OperationDescription* d = TF_NewOperation(graph, "Placeholder", "x");
  TF_SetAttrType(d, "dtype", TF_FLOAT);
  TF_SetAttrShape(d, "shape", nullptr, -1);
  TF_Operation* const x = TF_FinishOperation(d, status);
  TF_OperationGetAttrShape(x, "shape", nullptr, 10, status);
  EXPECT_TRUE(Ok());
}

TEST_F(CApiTest, UnknownOpsAreToldInTensorFlowsWords) {
  TF_Buffer* const b = TF_NewBuffer();
  TF_GraphGetOpDef(graph, "NoSuchOp", b, status);
  EXPECT_EQ(TF_GetCode(status), TF_NOT_FOUND);
  EXPECT_EQ(std::string(TF_Message(status))
                .find("Op type not registered 'NoSuchOp' in binary"),
            0u);
  TF_DeleteBuffer(b);
}

TEST_F(CApiTest, ImportKeepsTheOrderOfControlInputs) {
  TF_Operation* const a = Placeholder(graph, "a");
  TF_Operation* const b = Placeholder(graph, "b");
  TF_OperationDescription* d = TF_NewOperation(graph, "NoOp", "after");
  TF_AddControlInput(d, a);
  TF_AddControlInput(d, b);
  TF_FinishOperation(d, status);
  const std::string bytes =
      BytesOf([&](TF_Buffer* b) { TF_GraphToGraphDef(graph, b, status); });
  TF_Buffer* const def = TF_NewBufferFromString(bytes.data(), bytes.size());
  TF_ImportGraphDefOptions* const o = TF_NewImportGraphDefOptions();
  TF_ImportGraphDefOptionsSetPrefix(o, "copy");
  TF_ImportGraphDefOptionsRemapControlDependency(o, "a", a);
  TF_GraphImportGraphDef(graph, def, o, status);
  ASSERT_TRUE(Ok());
  TF_DeleteImportGraphDefOptions(o);
  TF_DeleteBuffer(def);
  TF_Operation* after[2] = {nullptr, nullptr};
  EXPECT_EQ(TF_OperationGetControlInputs(
                TF_GraphOperationByName(graph, "copy/after"), after, 2),
            2);
  EXPECT_EQ(after[0], a);
  EXPECT_EQ(after[1], TF_GraphOperationByName(graph, "copy/b"));
}

TEST_F(CApiTest, GradientsAndLoopsHaveTensorFlowsNames) {
  TF_Operation* const a = Placeholder(graph, "a");
  TF_Operation* const square = Binary(graph, "Mul", "square", {a, 0}, {a, 0});
  TF_Output y = {square, 0}, x = {a, 0}, dx = {nullptr, 0};
  TF_AddGradientsWithPrefix(graph, "slopes", &y, 1, &x, 1, nullptr, status,
                            &dx);
  ASSERT_TRUE(Ok());
  EXPECT_NE(TF_GraphOperationByName(graph, "slopes/Mul"), nullptr);
  TF_WhileParams loop = TF_NewWhile(graph, &x, 1, status);
  loop.name = "loop";
  loop.cond_output = {
      Binary(loop.cond_graph, "Less", "small", loop.cond_inputs[0],
             {Constant(loop.cond_graph, "limit", 5), 0}),
      0};
  loop.body_outputs[0] = {
      Binary(loop.body_graph, "AddV2", "next", loop.body_inputs[0],
             {Constant(loop.body_graph, "one", 1), 0}),
      0};
  TF_Output out = {nullptr, 0};
  TF_FinishWhile(&loop, status, &out);
  ASSERT_TRUE(Ok());
  for (const char* name : {"loop/cond/limit", "loop/cond/small",
                           "loop/body/one", "loop/body/next"})
    EXPECT_NE(TF_GraphOperationByName(graph, name), nullptr) << name;
  EXPECT_EQ(Run(x, 1.5f, out), 5.5f);
}

TEST_F(CApiTest, ArgumentsOfFunctionsKeepTheirHiddenAttributes) {
  TF_OperationDescription* d = TF_NewOperation(graph, "Placeholder", "x");
  TF_SetAttrType(d, "dtype", TF_FLOAT);
  TF_SetAttrString(d, "_told", "some value", 10);
  const TF_Output in = {TF_FinishOperation(d, status), 0};
  TF_Function* const f =
      TF_GraphToFunction(graph, "f", 0, -1, nullptr, 1, &in, 0, nullptr,
                         nullptr, nullptr, nullptr, status);
  ASSERT_TRUE(Ok());
  const std::string def =
      BytesOf([&](TF_Buffer* b) { TF_FunctionToFunctionDef(f, b, status); });
  EXPECT_NE(def.find("_told"), std::string::npos);
  EXPECT_NE(def.find("some value"), std::string::npos);
  TF_DeleteFunction(f);
}

TEST_F(CApiTest, ConfigNamesDevicesAndOptimisations) {
  // device_count { key: "EMU" value: 2 } device_count { key: "CPU" value: 3 }
  // graph_options { optimizer_options { opt_level: L0 } }
  const std::string config(
      "\x0a\x07\x0a\x03"
      "EMU\x10\x02\x0a\x07\x0a\x03"
      "CPU\x10\x03\x52\x0d\x1a\x0b\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
      33);
  TF_SessionOptions* options = TF_NewSessionOptions();
  TF_SetConfig(options, config.data(), config.size(), status);
  ASSERT_TRUE(Ok());
  TF_Session* s = TF_NewSession(graph, options, status);
  ASSERT_TRUE(Ok());
  TF_DeviceList* list = TF_SessionListDevices(s, status);
  ASSERT_TRUE(Ok());
  int cpus = 0, emulated = 0;
  for (int i = 0; i < TF_DeviceListCount(list); ++i) {
    const std::string type = TF_DeviceListType(list, i, status);
    cpus += type == "CPU" ? 1 : 0;
    emulated += type == "EMU" ? 1 : 0;
  }
  EXPECT_EQ(cpus, 3);
  EXPECT_EQ(emulated, 2);
  TF_DeleteDeviceList(list);
  TF_DeleteSession(s, status);
  // The first of them with another number of devices: too many.
  std::string many(
      "\x0a\x0a\x0a\x03"
      "EMU\x10\xff\xff\xff\x07",
      12);
  TF_SetConfig(options, many.data(), many.size(), status);
  EXPECT_EQ(TF_GetCode(status), TF_INVALID_ARGUMENT);
  TF_DeleteSessionOptions(options);
}

}  // namespace
