// Ops and kernels in C.
#include "tensorflow/c/ops.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "graph/builder.h"
#include "graph/op_library.h"
#include "graph/proto/api_def.pb.h"
#include "graph/proto/kernel_def.pb.h"
#include "session/session.h"
#include "tensor/buffer.h"
#include "tensorflow/c/c_api.h"
#include "tensorflow/c/kernels.h"

namespace {

using ShapeFunction = void (*)(TF_ShapeInferenceContext*, TF_Status*);
using ComputeFunction = void (*)(void*, TF_OpKernelContext*);

struct OpInCTest : testing::Test {
  TF_Status* status = TF_NewStatus();
  TF_Graph* graph = TF_NewGraph();
  ~OpInCTest() override {
    TF_DeleteGraph(graph);
    TF_DeleteStatus(status);
  }
  bool Ok() const {
    EXPECT_STREQ(TF_Message(status), "");
    return TF_GetCode(status) == TF_OK;
  }
  bool Fails(TF_Code code, const std::string& words) const {
    EXPECT_EQ(TF_GetCode(status), code) << TF_Message(status);
    EXPECT_NE(std::string(TF_Message(status)).find(words), std::string::npos)
        << TF_Message(status);
    return !testing::Test::HasFailure();
  }
  // Declares an op of these parts: "attr ...", "in ...", "out ...".
  void Declare(const char* name, const std::vector<std::string>& parts,
               ShapeFunction shape = nullptr, bool stateful = false) {
    TF_OpDefinitionBuilder* op = TF_NewOpDefinitionBuilder(name);
    for (const std::string& p : parts) {
      if (p.starts_with("attr "))
        TF_OpDefinitionBuilderAddAttr(op, p.c_str() + 5);
      else if (p.starts_with("in "))
        TF_OpDefinitionBuilderAddInput(op, p.c_str() + 3);
      else
        TF_OpDefinitionBuilderAddOutput(op, p.c_str() + 4);
    }
    if (shape != nullptr)
      TF_OpDefinitionBuilderSetShapeInferenceFunction(op, shape);
    TF_OpDefinitionBuilderSetIsStateful(op, stateful);
    TF_RegisterOpDefinition(op, status);
  }
  void AddKernel(const char* op, ComputeFunction run,
                 void* (*create)(TF_OpKernelConstruction*) = nullptr,
                 void (*destroy)(void*) = nullptr) {
    TF_RegisterKernelBuilder(
        "k", TF_NewKernelBuilder(op, "CPU", create, run, destroy), status);
  }
  static TF_Tensor* Floats(const std::vector<float>& v, bool scalar = false) {
    const auto n = static_cast<int64_t>(v.size());
    TF_Tensor* t = TF_AllocateTensor(TF_FLOAT, &n, scalar ? 0 : 1,
                                     v.size() * sizeof(float));
    std::memcpy(TF_TensorData(t), v.data(), v.size() * sizeof(float));
    return t;
  }
  TF_Output Placeholder(TF_Graph* g, const char* name, TF_DataType type,
                        const std::vector<int64_t>& dims) {
    TF_OperationDescription* d = TF_NewOperation(g, "Placeholder", name);
    TF_SetAttrType(d, "dtype", type);
    TF_SetAttrShape(d, "shape", dims.data(), static_cast<int>(dims.size()));
    return {TF_FinishOperation(d, status), 0};
  }
  TF_Output Node(TF_Graph* g, const char* op, const char* name,
                 const std::vector<TF_Output>& inputs) {
    TF_OperationDescription* d = TF_NewOperation(g, op, name);
    for (const TF_Output& in : inputs) TF_AddInput(d, in);
    return {TF_FinishOperation(d, status), 0};
  }
  // Takes over the fed tensors.
  std::vector<TF_Tensor*> Run(const std::vector<TF_Output>& feeds,
                              const std::vector<TF_Tensor*>& values,
                              const std::vector<TF_Output>& fetches) {
    TF_Session* s = TF_NewSession(graph, nullptr, status);
    std::vector<TF_Tensor*> out(fetches.size(), nullptr);
    TF_SessionRun(s, nullptr, feeds.data(), values.data(),
                  static_cast<int>(feeds.size()), fetches.data(), out.data(),
                  static_cast<int>(out.size()), nullptr, 0, nullptr, status);
    for (TF_Tensor* t : values) TF_DeleteTensor(t);
    TF_DeleteSession(s, nullptr);
    return out;
  }
  std::vector<float> FloatsOf(TF_Tensor* t) const {
    if (t == nullptr) {
      ADD_FAILURE() << TF_Message(status);
      return {};
    }
    const auto* data = static_cast<float*>(TF_TensorData(t));
    std::vector<float> v(data, data + TF_TensorElementCount(t));
    TF_DeleteTensor(t);
    return v;
  }
  std::string ShapeOf(TF_Output o) const {
    const int rank = TF_GraphGetTensorNumDims(graph, o, status);
    if (rank < 0) return "?";
    std::vector<int64_t> dims(static_cast<size_t>(rank));
    TF_GraphGetTensorShape(graph, o, dims.data(), rank, status);
    std::string s = "[";
    for (const int64_t d : dims) s += std::to_string(d) + " ";
    return s + "]";
  }
};

void SameShape(TF_ShapeInferenceContext* ctx, TF_Status* status) {
  TF_ShapeHandle* s = TF_NewShapeHandle();
  TF_ShapeInferenceContextGetInput(ctx, 0, s, status);
  if (TF_GetCode(status) == TF_OK)
    TF_ShapeInferenceContextSetOutput(ctx, 0, s, status);
  TF_DeleteShapeHandle(s);
}

// y = 2 x, in the memory of x if nothing else reads it.
void Twice(void* /*kernel*/, TF_OpKernelContext* ctx) {
  TF_Status* status = TF_NewStatus();
  TF_Tensor* x = nullptr;
  TF_GetInput(ctx, 0, &x, status);
  std::vector<int64_t> dims;
  for (int i = 0; i < TF_NumDims(x); ++i) dims.push_back(TF_Dim(x, i));
  const int64_t n = TF_TensorElementCount(x);
  const std::vector<float> values(static_cast<float*>(TF_TensorData(x)),
                                  static_cast<float*>(TF_TensorData(x)) + n);
  TF_DeleteTensor(x);
  const int candidate = 0;
  int forwarded = 7;
  TF_Tensor* y = TF_ForwardInputOrAllocateOutput(
      ctx, &candidate, 1, 0, dims.data(), static_cast<int>(dims.size()),
      &forwarded, status);
  EXPECT_TRUE(forwarded == 0 || forwarded == -1) << forwarded;
  auto* to = static_cast<float*>(TF_TensorData(y));
  for (int64_t i = 0; i < n; ++i) to[i] = 2 * values[static_cast<size_t>(i)];
  if (forwarded == 0) {  // The input is what is in its memory now.
    TF_GetInput(ctx, 0, &x, status);
    EXPECT_EQ(TF_TensorData(x), TF_TensorData(y));
    TF_DeleteTensor(x);
  }
  EXPECT_EQ(TF_GetCode(status), TF_OK) << TF_Message(status);
  TF_DeleteTensor(y);
  TF_DeleteStatus(status);
}

TEST_F(OpInCTest, RunsInLoopsAndOnScalars) {
  Declare("CTwice", {"in x: float", "out y: float"}, SameShape);
  ASSERT_TRUE(Ok());
  AddKernel("CTwice", Twice);
  ASSERT_TRUE(Ok());
  TF_Output x = Placeholder(graph, "x", TF_FLOAT, {-1});
  TF_Output y = Node(graph, "CTwice", "y", {x});
  ASSERT_TRUE(Ok());
  EXPECT_EQ(ShapeOf(y), "[-1 ]");
  // A value with other readers, and one without, whose memory is taken.
  TF_Output z = Node(graph, "CTwice", "z", {Node(graph, "Neg", "n", {y})});
  const std::vector<TF_Tensor*> out = Run({x}, {Floats({1, 2, 3, 4})}, {y, z});
  ASSERT_TRUE(Ok());
  EXPECT_EQ(FloatsOf(out[0]), std::vector<float>({2, 4, 6, 8}));
  EXPECT_EQ(FloatsOf(out[1]), std::vector<float>({-4, -8, -12, -16}));

  // A loop over a scalar, which has no buffer.
  TF_Output start = Placeholder(graph, "start", TF_FLOAT, {});
  TF_WhileParams p = TF_NewWhile(graph, &start, 1, status);
  TF_Output limit = Placeholder(p.cond_graph, "unused", TF_FLOAT, {});
  (void)limit;
  TF_Tensor* hundred = Floats({100}, true);
  TF_OperationDescription* d = TF_NewOperation(p.cond_graph, "Const", "c");
  TF_SetAttrTensor(d, "value", hundred, status);
  TF_SetAttrType(d, "dtype", TF_FLOAT);
  TF_DeleteTensor(hundred);
  const TF_Output c = {TF_FinishOperation(d, status), 0};
  p.cond_output = Node(p.cond_graph, "Less", "less", {p.cond_inputs[0], c});
  p.body_outputs[0] = Node(p.body_graph, "CTwice", "t", {p.body_inputs[0]});
  p.name = "loop";
  TF_Output end;
  TF_FinishWhile(&p, status, &end);
  ASSERT_TRUE(Ok());
  EXPECT_EQ(FloatsOf(Run({start}, {Floats({3}, true)}, {end})[0]),
            std::vector<float>({192}));
}

// An outer loop whose body has a loop, whose body has a loop.
TEST_F(OpInCTest, LoopsMayBeNested) {
  const auto constant = [&](TF_Graph* g, const char* name, float v) {
    TF_Tensor* t = Floats({v}, true);
    TF_OperationDescription* d = TF_NewOperation(g, "Const", name);
    TF_SetAttrTensor(d, "value", t, status);
    TF_SetAttrType(d, "dtype", TF_FLOAT);
    TF_DeleteTensor(t);
    return TF_Output{TF_FinishOperation(d, status), 0};
  };
  // i, n = 0, n; while i < 3: i, n = i + 1, f(n)
  const std::function<TF_Output(TF_Graph*, TF_Output, int)> nest =
      [&](TF_Graph* g, TF_Output n, int depth) {
        if (depth == 0)
          return Node(g, "AddV2", "more", {n, constant(g, "one", 1)});
        const TF_Output init[] = {constant(g, "zero", 0), n};
        TF_WhileParams p =
            TF_NewWhile(g, const_cast<TF_Output*>(init), 2, status);
        p.name = "nest";
        p.cond_output =
            Node(p.cond_graph, "Less", "less",
                 {p.cond_inputs[0], constant(p.cond_graph, "3", 3)});
        p.body_outputs[0] =
            Node(p.body_graph, "AddV2", "next",
                 {p.body_inputs[0], constant(p.body_graph, "step", 1)});
        p.body_outputs[1] =
            Node(p.body_graph, "Identity", "id",
                 {nest(p.body_graph, p.body_inputs[1], depth - 1)});
        TF_Output ends[2];
        TF_FinishWhile(&p, status, ends);
        EXPECT_TRUE(Ok()) << depth;
        return ends[1];
      };
  TF_Output x = Placeholder(graph, "x", TF_FLOAT, {});
  const TF_Output y = nest(graph, x, 3);
  ASSERT_TRUE(Ok());
  EXPECT_EQ(FloatsOf(Run({x}, {Floats({5}, true)}, {y})[0]),
            std::vector<float>({32}));
  // Derivatives go through all of them.
  TF_Output dx, of = y;
  TF_AddGradients(graph, &of, 1, &x, 1, nullptr, status, &dx);
  ASSERT_TRUE(Ok());
  EXPECT_EQ(FloatsOf(Run({x}, {Floats({5}, true)}, {dx})[0]),
            std::vector<float>({1}));
}

TEST_F(OpInCTest, ShapeFunctionsSeeAndSetShapes) {
  Declare("CShapes",
          {"in x: float", "in y: float", "out a: float", "out b: float",
           "out c: float"},
          [](TF_ShapeInferenceContext* ctx, TF_Status* s) {
            EXPECT_EQ(TF_ShapeInferenceContextNumInputs(ctx), 2);
            TF_ShapeHandle* x = TF_NewShapeHandle();
            TF_ShapeHandle* y = TF_NewShapeHandle();
            TF_ShapeHandle* r = TF_NewShapeHandle();
            EXPECT_EQ(TF_ShapeInferenceContextRankKnown(ctx, r), 0);
            TF_ShapeInferenceContextGetInput(ctx, 2, x, s);
            EXPECT_EQ(TF_GetCode(s), TF_INVALID_ARGUMENT);
            TF_ShapeInferenceContextGetInput(ctx, 0, x, s);
            TF_ShapeInferenceContextGetInput(ctx, 1, y, s);
            TF_ShapeInferenceContextConcatenateShapes(ctx, x, y, r, s);
            TF_ShapeInferenceContextSetOutput(ctx, 0, r, s);
            TF_ShapeInferenceContextSubshape(ctx, r, 1, -1, r, s);
            EXPECT_EQ(TF_GetCode(s), TF_OK) << TF_Message(s);
            TF_ShapeInferenceContextSetOutput(ctx, 1, r, s);
            TF_ShapeInferenceContextSubshape(ctx, r, 9, 0, r, s);
            EXPECT_EQ(TF_GetCode(s), TF_INVALID_ARGUMENT);
            TF_DimensionHandle* d = TF_NewDimensionHandle();
            TF_ShapeInferenceContextDim(ctx, x, -1, d);
            EXPECT_EQ(TF_DimensionHandleValueKnown(d), 1);
            TF_ShapeHandle* v = TF_ShapeInferenceContextVectorFromSize(
                ctx, static_cast<size_t>(TF_DimensionHandleValue(d)));
            TF_ShapeInferenceContextDim(ctx, x, 9, d);
            EXPECT_EQ(TF_DimensionHandleValueKnown(d), 0);
            TF_ShapeInferenceContextSetOutput(ctx, 2, v, s);
            EXPECT_EQ(TF_GetCode(s), TF_OK);
            TF_ShapeInferenceContextSetOutput(ctx, 3, v, s);
            EXPECT_EQ(TF_GetCode(s), TF_INVALID_ARGUMENT);
            // The rank that y has if it is known.
            TF_ShapeInferenceContextWithRankAtLeast(ctx, y, 1, y, s);
            TF_ShapeInferenceContextWithRankAtMost(ctx, y, 2, y, s);
            TF_ShapeInferenceContextWithRank(ctx, y, 2, y, s);
            TF_DeleteShapeHandle(v);
            TF_DeleteShapeHandle(x);
            TF_DeleteShapeHandle(y);
            TF_DeleteShapeHandle(r);
            TF_DeleteDimensionHandle(d);
          });
  ASSERT_TRUE(Ok());
  TF_Output x = Placeholder(graph, "x", TF_FLOAT, {2, 5});
  TF_Output y = Placeholder(graph, "y", TF_FLOAT, {-1, 7});
  TF_Output made = Node(graph, "CShapes", "s", {x, y});
  ASSERT_TRUE(Ok());
  EXPECT_EQ(ShapeOf({made.oper, 0}), "[2 5 -1 7 ]");
  EXPECT_EQ(ShapeOf({made.oper, 1}), "[5 -1 ]");
  EXPECT_EQ(ShapeOf({made.oper, 2}), "[5 ]");
  // An error of the function rejects the node.
  Node(graph, "CShapes", "t", {x, x = Placeholder(graph, "v", TF_FLOAT, {3})});
  EXPECT_TRUE(Fails(TF_INVALID_ARGUMENT, "rank"));
}

struct Attributes {
  int64_t i;
  float f;
  std::string s;
  std::vector<int32_t> list;
  std::vector<std::string> strings;
};
std::atomic<int> attributes_alive = 0;

void* MakeAttributes(TF_OpKernelConstruction* ctx) {
  ++attributes_alive;
  auto* a = new Attributes;
  TF_Status* s = TF_NewStatus();
  EXPECT_TRUE(TF_OpKernelConstruction_HasAttr(ctx, "i", s));
  EXPECT_FALSE(TF_OpKernelConstruction_HasAttr(ctx, "no", s));
  const TF_StringView name = TF_OpKernelConstruction_GetName(ctx);
  EXPECT_EQ(std::string(name.data, name.len), "node");
  TF_OpKernelConstruction_GetAttrInt64(ctx, "i", &a->i, s);
  TF_OpKernelConstruction_GetAttrFloat(ctx, "f", &a->f, s);
  int32_t size = 0, total = 0;
  TF_OpKernelConstruction_GetAttrSize(ctx, "s", &size, &total, s);
  EXPECT_EQ(size, -1);
  a->s.resize(static_cast<size_t>(total));
  TF_OpKernelConstruction_GetAttrString(ctx, "s", a->s.data(), a->s.size(), s);
  TF_OpKernelConstruction_GetAttrSize(ctx, "list", &size, &total, s);
  EXPECT_EQ(total, -1);
  a->list.resize(static_cast<size_t>(size));
  TF_OpKernelConstruction_GetAttrInt32List(ctx, "list", a->list.data(), size,
                                           s);
  TF_OpKernelConstruction_GetAttrSize(ctx, "strings", &size, &total, s);
  std::vector<char*> at(static_cast<size_t>(size));
  std::vector<size_t> lengths(at.size());
  std::string storage(static_cast<size_t>(total), ' ');
  TF_OpKernelConstruction_GetAttrStringList(ctx, "strings", at.data(),
                                            lengths.data(), size,
                                            storage.data(), storage.size(), s);
  for (size_t k = 0; k < at.size(); ++k)
    a->strings.emplace_back(at[k], lengths[k]);
  TF_DataType type = TF_BOOL;
  TF_OpKernelConstruction_GetAttrType(ctx, "T", &type, s);
  EXPECT_EQ(type, TF_DOUBLE);
  EXPECT_EQ(TF_GetCode(s), TF_OK) << TF_Message(s);
  int32_t small = 5;
  TF_OpKernelConstruction_GetAttrInt32(ctx, "i", &small, s);
  EXPECT_EQ(TF_GetCode(s), TF_INVALID_ARGUMENT);  // It does not fit.
  EXPECT_EQ(small, 5);
  TF_OpKernelConstruction_GetAttrInt64(ctx, "s", &a->i, s);
  EXPECT_EQ(TF_GetCode(s), TF_INVALID_ARGUMENT);
  TF_DeleteStatus(s);
  return a;
}

TEST_F(OpInCTest, KernelsReadAttributesOncePerNode) {
  Declare(
      "CAttributes",
      {"attr i: int = 3", "attr f: float", "attr s: string = 'abc'",
       "attr list: list(int) >= 1", "attr strings: list(string)",
       "attr T: {float, double}", "out y: string"},
      [](TF_ShapeInferenceContext* ctx, TF_Status* s) {
        TF_DataType t = TF_FLOAT;
        TF_ShapeInferenceContext_GetAttrType(ctx, "T", &t, s);
        EXPECT_EQ(t, TF_DOUBLE);
        TF_ShapeHandle* scalar = TF_ShapeInferenceContextScalar(ctx);
        TF_ShapeInferenceContextSetOutput(ctx, 0, scalar, s);
        TF_DeleteShapeHandle(scalar);
      },
      /*stateful=*/true);
  AddKernel(
      "CAttributes",
      [](void* kernel, TF_OpKernelContext* ctx) {
        const auto* a = static_cast<Attributes*>(kernel);
        std::string text = std::to_string(a->i) + " " +
                           std::to_string(a->f).substr(0, 3) + " " + a->s;
        for (const int32_t v : a->list) text += " " + std::to_string(v);
        for (const std::string& s : a->strings) text += " " + s;
        TF_Status* s = TF_NewStatus();
        EXPECT_EQ(TF_NumInputs(ctx), 0);
        EXPECT_EQ(TF_NumOutputs(ctx), 1);
        EXPECT_EQ(TF_ExpectedOutputDataType(ctx, 0), TF_STRING);
        EXPECT_GE(TF_StepId(ctx), 0);
        EXPECT_EQ(TF_GetStream(ctx, s), nullptr);
        EXPECT_EQ(TF_GetCode(s), TF_FAILED_PRECONDITION);
        EXPECT_EQ(TF_AllocateOutput(ctx, 1, TF_STRING, nullptr, 0, 24, s),
                  nullptr);
        EXPECT_EQ(TF_GetCode(s), TF_OUT_OF_RANGE);
        EXPECT_EQ(TF_AllocateOutput(ctx, 0, TF_FLOAT, nullptr, 0, 4, s),
                  nullptr);
        EXPECT_EQ(TF_GetCode(s), TF_INVALID_ARGUMENT);
        TF_Tensor* y = TF_AllocateOutput(ctx, 0, TF_STRING, nullptr, 0, 24, s);
        EXPECT_EQ(TF_GetCode(s), TF_OK) << TF_Message(s);
        TF_TString_Copy(static_cast<TF_TString*>(TF_TensorData(y)), text.data(),
                        text.size());
        TF_DeleteTensor(y);
        TF_DeleteStatus(s);
      },
      MakeAttributes,
      [](void* kernel) {
        --attributes_alive;
        delete static_cast<Attributes*>(kernel);
      });
  ASSERT_TRUE(Ok());
  TF_OperationDescription* d = TF_NewOperation(graph, "CAttributes", "node");
  TF_SetAttrInt(d, "i", 1LL << 40);
  TF_SetAttrFloat(d, "f", 2.5f);
  const int64_t list[] = {7, -8};
  TF_SetAttrIntList(d, "list", list, 2);
  const void* strings[] = {"one", "", "three"};
  const size_t lengths[] = {3, 0, 5};
  TF_SetAttrStringList(d, "strings", strings, lengths, 3);
  TF_SetAttrType(d, "T", TF_DOUBLE);
  TF_Output y = {TF_FinishOperation(d, status), 0};
  ASSERT_TRUE(Ok());
  TF_Tensor* out = Run({}, {}, {y})[0];
  ASSERT_TRUE(Ok());
  const auto* text = static_cast<TF_TString*>(TF_TensorData(out));
  EXPECT_EQ(
      std::string(TF_TString_GetDataPointer(text), TF_TString_GetSize(text)),
      "1099511627776 2.5 abc 7 -8 one  three");
  TF_DeleteTensor(out);
  EXPECT_EQ(attributes_alive, 0);
}

TEST_F(OpInCTest, TheKernelIsThatOfTheTypesAndPriority) {
  Declare("CWhich", {"attr T: numbertype", "in x: T", "out y: float"});
  const auto add = [this](TF_DataType type, int priority, ComputeFunction run) {
    TF_KernelBuilder* k =
        TF_NewKernelBuilder("CWhich", "CPU", nullptr, run, nullptr);
    TF_KernelBuilder_TypeConstraint(k, "T", type, status);
    TF_KernelBuilder_HostMemory(k, "x");
    TF_KernelBuilder_Priority(k, priority);
    TF_RegisterKernelBuilder("which", k, status);
    EXPECT_TRUE(Ok());
  };
  // Each returns another number.
  const auto number = []<int N>(std::integral_constant<int, N>) {
    return [](void*, TF_OpKernelContext* ctx) {
      TF_Status* s = TF_NewStatus();
      TF_Tensor* y = Floats({N}, true);
      TF_SetOutput(ctx, 1, y, s);
      EXPECT_EQ(TF_GetCode(s), TF_OUT_OF_RANGE);
      TF_SetOutput(ctx, 0, y, s);
      EXPECT_EQ(TF_GetCode(s), TF_OK);
      TF_DeleteTensor(y);
      TF_DeleteStatus(s);
    };
  };
  add(TF_FLOAT, 0, number(std::integral_constant<int, 1>()));
  add(TF_FLOAT, 5, number(std::integral_constant<int, 2>()));
  add(TF_DOUBLE, 0, number(std::integral_constant<int, 3>()));
  // Two of one priority, and a lower one behind them.
  add(TF_INT32, 1, number(std::integral_constant<int, 4>()));
  add(TF_INT32, 1, number(std::integral_constant<int, 5>()));
  add(TF_INT32, 0, number(std::integral_constant<int, 7>()));
  // Two of one priority, and a higher one behind them.
  add(TF_INT16, 0, number(std::integral_constant<int, 8>()));
  add(TF_INT16, 0, number(std::integral_constant<int, 9>()));
  add(TF_INT16, 1, number(std::integral_constant<int, 10>()));
  TF_RegisterKernelBuilder(
      "gpu",
      TF_NewKernelBuilder("CWhich", "GPU", nullptr,
                          number(std::integral_constant<int, 6>()), nullptr),
      status);
  ASSERT_TRUE(Ok());
  const auto run = [this](TF_DataType type, const char* name) {
    TF_Output x = Placeholder(graph, name, type, {});
    TF_Output y =
        Node(graph, "CWhich", (std::string("of_") + name).c_str(), {x});
    EXPECT_TRUE(Ok());
    TF_Tensor* t = TF_AllocateTensor(type, nullptr, 0, TF_DataTypeSize(type));
    std::memset(TF_TensorData(t), 0, TF_DataTypeSize(type));
    return Run({x}, {t}, {y})[0];
  };
  EXPECT_EQ(FloatsOf(run(TF_FLOAT, "a")), std::vector<float>({2}));
  EXPECT_EQ(FloatsOf(run(TF_DOUBLE, "b")), std::vector<float>({3}));
  EXPECT_EQ(run(TF_INT32, "c"), nullptr);
  EXPECT_TRUE(Fails(TF_INVALID_ARGUMENT, "got several"));
  EXPECT_EQ(FloatsOf(run(TF_INT16, "e")), std::vector<float>({10}));
  EXPECT_EQ(run(TF_INT64, "d"), nullptr);
  EXPECT_TRUE(Fails(TF_UNIMPLEMENTED, "no kernel"));

  TF_Buffer* bytes = TF_GetRegisteredKernelsForOp("CWhich", status);
  sluice::proto::KernelList kernels;
  ASSERT_TRUE(
      kernels.ParseFromArray(bytes->data, static_cast<int>(bytes->length)));
  EXPECT_EQ(kernels.kernel_size(), 10);
  EXPECT_EQ(kernels.kernel(1).priority(), 5);
  EXPECT_EQ(kernels.kernel(9).device_type(), "GPU");
  TF_DeleteBuffer(bytes);
  bytes = TF_GetRegisteredKernelsForOp("Abs", status);
  ASSERT_TRUE(
      kernels.ParseFromArray(bytes->data, static_cast<int>(bytes->length)));
  EXPECT_EQ(kernels.kernel_size(), 1);
  TF_DeleteBuffer(bytes);
}

TEST_F(OpInCTest, ErrorsAreThoseOfTheStep) {
  Declare("CFails",
          {"attr create: bool = false", "in x: float", "out y: float"},
          SameShape);
  AddKernel(
      "CFails",
      [](void*, TF_OpKernelContext* ctx) {
        TF_Status* s = TF_NewStatus();
        TF_Tensor* none = nullptr;
        TF_GetInput(ctx, 1, &none, s);
        EXPECT_EQ(TF_GetCode(s), TF_OUT_OF_RANGE);
        EXPECT_EQ(none, nullptr);
        TF_SetStatus(s, TF_DATA_LOSS, "the data is gone");
        TF_OpKernelContext_Failure(ctx, s);
        TF_DeleteStatus(s);
      },
      [](TF_OpKernelConstruction* ctx) -> void* {
        TF_Status* s = TF_NewStatus();
        TF_Bool create = 0;
        TF_OpKernelConstruction_GetAttrBool(ctx, "create", &create, s);
        TF_SetStatus(s, TF_ABORTED, "not today");
        if (create != 0) TF_OpKernelConstruction_Failure(ctx, s);
        TF_DeleteStatus(s);
        return nullptr;
      });
  Declare("CSetsNothing", {"in x: float", "out y: float"}, SameShape);
  AddKernel("CSetsNothing", [](void*, TF_OpKernelContext*) {});
  Declare("CLies", {"in x: float", "out y: float"}, SameShape);
  AddKernel("CLies", [](void*, TF_OpKernelContext* ctx) {
    TF_Status* s = TF_NewStatus();
    const int64_t dims[] = {1000};
    TF_DeleteTensor(TF_AllocateOutput(ctx, 0, TF_FLOAT, dims, 1, 0, s));
    TF_DeleteStatus(s);
  });
  ASSERT_TRUE(Ok());
  TF_Output x = Placeholder(graph, "x", TF_FLOAT, {2});
  const auto run = [&](TF_Output y) {
    EXPECT_EQ(Run({x}, {Floats({1, 2})}, {y})[0], nullptr);
  };
  run(Node(graph, "CFails", "a", {x}));
  EXPECT_TRUE(Fails(TF_DATA_LOSS, "the data is gone"));
  EXPECT_NE(std::string(TF_Message(status)).find("node 'a'"),
            std::string::npos);
  TF_OperationDescription* d = TF_NewOperation(graph, "CFails", "b");
  TF_AddInput(d, x);
  TF_SetAttrBool(d, "create", 1);
  run({TF_FinishOperation(d, status), 0});
  EXPECT_TRUE(Fails(TF_ABORTED, "not today"));
  run(Node(graph, "CSetsNothing", "c", {x}));
  EXPECT_TRUE(Fails(TF_INTERNAL, "did not set"));
  run(Node(graph, "CLies", "d", {x}));
  EXPECT_TRUE(Fails(TF_INTERNAL, "shape"));
}

// Counts what was made, and what was deleted.
std::atomic<int> failures_made = 0, failures_deleted = 0;

TEST_F(OpInCTest, WhatCannotBeMadeIsDeleted) {
  Declare("CUnmade", {"in x: float", "out y: float"}, SameShape);
  AddKernel(
      "CUnmade", Twice,
      [](TF_OpKernelConstruction* ctx) -> void* {
        ++failures_made;
        TF_Status* s = TF_NewStatus();
        TF_SetStatus(s, TF_ABORTED, "not this one");
        TF_OpKernelConstruction_Failure(ctx, s);
        TF_DeleteStatus(s);
        return &failures_made;
      },
      [](void* made) {
        EXPECT_EQ(made, &failures_made);
        ++failures_deleted;
      });
  ASSERT_TRUE(Ok());
  TF_Output x = Placeholder(graph, "x", TF_FLOAT, {2});
  TF_Output y = Node(graph, "Neg", "n", {Node(graph, "CUnmade", "bad", {x})});
  EXPECT_EQ(Run({x}, {Floats({1, 2})}, {y})[0], nullptr);
  EXPECT_TRUE(Fails(TF_ABORTED, "not this one; node 'bad' (CUnmade)"));
  // Once for the step, and once more to find the node.
  EXPECT_LE(failures_made, 2);
  EXPECT_EQ(failures_deleted, failures_made);
}

// How a kernel replaces its output after it took over the memory of the input.
enum class Replacing { kSet, kAllocate };

template <Replacing how>
void ForwardAndReplace(void* /*kernel*/, TF_OpKernelContext* ctx) {
  TF_Status* s = TF_NewStatus();
  const int64_t four = 4, two = 2;
  const int candidate = 0;
  int forwarded = -1;
  TF_DeleteTensor(TF_ForwardInputOrAllocateOutput(ctx, &candidate, 1, 0, &four,
                                                  1, &forwarded, s));
  EXPECT_EQ(forwarded, 0);
  if (how == Replacing::kSet) {
    TF_Tensor* sevens = OpInCTest::Floats({7, 7});
    TF_SetOutput(ctx, 0, sevens, s);
    TF_DeleteTensor(sevens);
  } else {
    TF_Tensor* y = TF_AllocateOutput(ctx, 0, TF_FLOAT, &two, 1, 8, s);
    auto* to = static_cast<float*>(TF_TensorData(y));
    to[0] = to[1] = 7;
    TF_DeleteTensor(y);
  }
  TF_Tensor* x = nullptr;
  TF_GetInput(ctx, 0, &x, s);
  EXPECT_EQ(TF_GetCode(s), TF_OK) << TF_Message(s);
  EXPECT_EQ(TF_Dim(x, 0), 4);
  const auto* from = static_cast<float*>(TF_TensorData(x));
  EXPECT_EQ(std::vector<float>(from, from + 4),
            std::vector<float>({-1, -2, -3, -4}));
  TF_DeleteTensor(x);
  TF_DeleteStatus(s);
}

TEST_F(OpInCTest, AnInputKeepsItsValueWhenTheOutputIsReplaced) {
  Declare("CSetsAfter", {"in x: float", "out y: float"});
  AddKernel("CSetsAfter", ForwardAndReplace<Replacing::kSet>);
  Declare("CAllocatesAfter", {"in x: float", "out y: float"});
  AddKernel("CAllocatesAfter", ForwardAndReplace<Replacing::kAllocate>);
  ASSERT_TRUE(Ok());
  TF_Output x = Placeholder(graph, "x", TF_FLOAT, {4});
  for (const char* op : {"CSetsAfter", "CAllocatesAfter"}) {
    // (Its memory is taken, since nothing else reads it.)
    const std::string name = std::string("n") + op;
    TF_Output y = Node(graph, op, op, {Node(graph, "Neg", name.c_str(), {x})});
    EXPECT_EQ(FloatsOf(Run({x}, {Floats({1, 2, 3, 4})}, {y})[0]),
              std::vector<float>({7, 7}));
  }
}

TEST_F(OpInCTest, MoreStringsThanFitAreRefused) {
  Declare("CManyStrings", {"out y: string"}, nullptr, /*stateful=*/true);
  AddKernel("CManyStrings", [](void*, TF_OpKernelContext* ctx) {
    TF_Status* s = TF_NewStatus();
    // (2^61 strings are 0 bytes modulo 2^64.)
    for (const int64_t n : {int64_t{1} << 61, (int64_t{1} << 61) + 1,
                            int64_t{1} << 59, (int64_t{1} << 36) + 1}) {
      EXPECT_EQ(TF_AllocateOutput(ctx, 0, TF_STRING, &n, 1, 24, s), nullptr);
      EXPECT_EQ(TF_GetCode(s), TF_RESOURCE_EXHAUSTED) << n;
      EXPECT_EQ(TF_AllocateTensor(TF_STRING, &n, 1, 24), nullptr);
    }
    TF_OpKernelContext_Failure(ctx, s);
    TF_DeleteStatus(s);
  });
  ASSERT_TRUE(Ok());
  EXPECT_EQ(Run({}, {}, {Node(graph, "CManyStrings", "y", {})})[0], nullptr);
  EXPECT_TRUE(Fails(TF_RESOURCE_EXHAUSTED, "strings"));
}

// y = x + 1, or -1 if x has no value.
void OneMore(void* /*kernel*/, TF_OpKernelContext* ctx) {
  TF_Status* s = TF_NewStatus();
  TF_Tensor* x = nullptr;
  TF_GetInput(ctx, 0, &x, s);
  const bool read = TF_GetCode(s) == TF_OK;
  float value = -1;
  if (read) {
    EXPECT_EQ(TF_TensorType(x), TF_FLOAT);
    value = static_cast<float*>(TF_TensorData(x))[0] + 1;
  } else {
    EXPECT_EQ(TF_GetCode(s), TF_FAILED_PRECONDITION) << TF_Message(s);
    EXPECT_EQ(x, nullptr);
  }
  TF_DeleteTensor(x);
  TF_Tensor* y = OpInCTest::Floats({value}, true);
  TF_SetOutput(ctx, 0, y, s);
  TF_DeleteTensor(y);
  TF_DeleteStatus(s);
}

TEST_F(OpInCTest, AReferenceIsReadAsTheVariablesValue) {
  Declare("CReads", {"in x: Ref(float)", "out y: float"});
  AddKernel("CReads", OneMore);
  TF_OpDefinitionBuilder* op = TF_NewOpDefinitionBuilder("CMayRead");
  TF_OpDefinitionBuilderAddInput(op, "x: Ref(float)");
  TF_OpDefinitionBuilderAddOutput(op, "y: float");
  TF_OpDefinitionBuilderSetAllowsUninitializedInput(op, true);
  TF_RegisterOpDefinition(op, status);
  AddKernel("CMayRead", OneMore);
  ASSERT_TRUE(Ok());
  const int64_t dims[] = {3};
  TF_OperationDescription* d = TF_NewOperation(graph, "VariableV2", "v");
  TF_SetAttrType(d, "dtype", TF_FLOAT);
  TF_SetAttrShape(d, "shape", dims, 1);
  const TF_Output v = {TF_FinishOperation(d, status), 0};
  TF_Output value = Placeholder(graph, "value", TF_FLOAT, {3});
  TF_Output set = Node(graph, "Assign", "set", {v, value});
  ASSERT_TRUE(Ok());
  const TF_Output unset[] = {Node(graph, "CReads", "a", {v}),
                             Node(graph, "CMayRead", "b", {v})};
  EXPECT_EQ(Run({}, {}, {unset[0]})[0], nullptr);
  EXPECT_TRUE(Fails(TF_FAILED_PRECONDITION, "'v'"));
  EXPECT_EQ(FloatsOf(Run({}, {}, {unset[1]})[0]), std::vector<float>({-1}));
  for (const char* reads : {"CReads", "CMayRead"}) {
    TF_Output y = Node(graph, reads, reads, {set});
    EXPECT_EQ(FloatsOf(Run({value}, {Floats({4, 5, 6})}, {y})[0]),
              std::vector<float>({5}));
  }
  // Kernels in C cannot make references.
  Declare("CMakesReference",
          {"in x: float", "out y: float", "out r: Ref(float)"});
  EXPECT_TRUE(Fails(TF_INVALID_ARGUMENT, "got 'r', a reference"));
}

// Returns the input of the run before, of which it kept a handle, and that
// handle seen as integers; of the first run, the input.
struct Kept {
  static inline TF_Tensor *input = nullptr, *as_ints = nullptr;
  static inline const void* memory = nullptr;  // Of the last input, in its run.
  static void Run(void* /*kernel*/, TF_OpKernelContext* ctx) {
    TF_Status* s = TF_NewStatus();
    TF_Tensor* x = nullptr;
    TF_GetInput(ctx, 0, &x, s);
    memory = TF_TensorData(x);
    TF_SetOutput(ctx, 0, input == nullptr ? x : input, s);
    Drop();
    input = x;
    const int64_t n = TF_Dim(x, 0);
    as_ints = TF_AllocateTensor(TF_INT32, &n, 1, static_cast<size_t>(4 * n));
    TF_TensorBitcastFrom(x, TF_INT32, as_ints, &n, 1, s);
    EXPECT_EQ(TF_GetCode(s), TF_OK) << TF_Message(s);
    TF_DeleteStatus(s);
  }
  static void Drop() {
    TF_DeleteTensor(input);
    TF_DeleteTensor(as_ints);
    input = as_ints = nullptr;
  }
};

TEST_F(OpInCTest, AKeptInputIsACopyOfLentMemory) {
  Declare("CKeeps", {"in x: float", "out y: float"}, SameShape,
          /*stateful=*/true);
  AddKernel("CKeeps", Kept::Run);
  ASSERT_TRUE(Ok());
  sluice::Graph g;
  const sluice::WithGraph use(g);
  const sluice::Output x = sluice::Build(
      "Placeholder", {},
      {{"dtype", sluice::DType::kFloat}, {"shape", sluice::Shape({3})}});
  const sluice::Output y = sluice::Build("CKeeps", {x});
  ASSERT_TRUE(g.status().ok()) << g.status();
  sluice::Session session(g);
  std::vector<float> memory = {1, 2, 3};  // Is lent for each step.
  const auto run = [&] {
    const sluice::Tensor fed(
        sluice::DType::kFloat, sluice::Shape({3}),
        new sluice::ForeignBuffer(memory.data(), memory.size() * sizeof(float),
                                  nullptr,
                                  sluice::ForeignBuffer::Lent::kForAStep),
        memory.data());
    const auto got = session.Run({{x, fed}}, y);
    EXPECT_TRUE(got.ok()) << got.status();
    return got.ok() ? got->ToVector<float>() : std::vector<float>();
  };
  EXPECT_EQ(run(), std::vector<float>({1, 2, 3}));
  EXPECT_EQ(Kept::memory, memory.data());  // It is not copied for the run.
  memory = {4, 5, 6};
  EXPECT_EQ(static_cast<float*>(TF_TensorData(Kept::input))[2], 3);
  float third = 0;
  std::memcpy(&third, static_cast<int32_t*>(TF_TensorData(Kept::as_ints)) + 2,
              sizeof(third));
  EXPECT_EQ(third, 3);
  EXPECT_EQ(run(), std::vector<float>({1, 2, 3}));
  memory = {7, 8, 9};
  EXPECT_EQ(run(), std::vector<float>({4, 5, 6}));
  Kept::Drop();
}

TEST_F(OpInCTest, MistakesInDeclarationsAreReported) {
  Declare("lower", {"out y: float"});
  EXPECT_TRUE(Fails(TF_INVALID_ARGUMENT, "'lower'"));
  Declare("CBadType", {"out y: flaot"});
  EXPECT_TRUE(Fails(TF_INVALID_ARGUMENT, "flaot"));
  Declare("CBadAttr", {"attr x: int = many"});
  EXPECT_TRUE(Fails(TF_INVALID_ARGUMENT, "many"));
  Declare("CBadAttr", {"attr x"});
  EXPECT_FALSE(TF_GetCode(status) == TF_OK);
  Declare("CTypeOfInt", {"attr k: int", "out y: k"});
  EXPECT_TRUE(Fails(TF_INVALID_ARGUMENT, "got 'k: int'"));
  Declare("CTypeOfString", {"attr k: string = 'a'", "in x: k"});
  EXPECT_TRUE(Fails(TF_INVALID_ARGUMENT, "got 'k: string'"));
  Declare("CBadBool", {"attr x: bool = True"});
  EXPECT_TRUE(Fails(TF_INVALID_ARGUMENT, "got 'True'"));
  Declare("CBadDefault", {"attr x: {'a', 'b'} = 'c'"});
  EXPECT_TRUE(Fails(TF_INVALID_ARGUMENT, "got 'c'"));
  Declare("CBadMinimum", {"attr x: int >= 2 = 1"});
  EXPECT_TRUE(Fails(TF_INVALID_ARGUMENT, "expected at least 2, got 1"));
  Declare("CTwoNames", {"attr x: float = 1.0", "in x: float"});
  EXPECT_TRUE(Fails(TF_INVALID_ARGUMENT, "got several 'x'"));
  TF_OpDefinitionBuilder* three = TF_NewOpDefinitionBuilder("CCommutes");
  for (const char* in : {"x: float", "y: float", "factor: float"})
    TF_OpDefinitionBuilderAddInput(three, in);
  TF_OpDefinitionBuilderSetIsCommutative(three, true);
  TF_RegisterOpDefinition(three, status);
  EXPECT_TRUE(Fails(TF_INVALID_ARGUMENT, "of a commutative op"));
  Declare("CUnion", {"attr T: {realnumbertype, string}", "in x: T"});
  ASSERT_TRUE(Ok());
  Declare("CUnion", {});
  EXPECT_TRUE(Fails(TF_ALREADY_EXISTS, "CUnion"));
  Declare("MatMul", {});
  EXPECT_TRUE(Fails(TF_ALREADY_EXISTS, "MatMul"));
  AddKernel("MatMul", [](void*, TF_OpKernelContext*) {});
  EXPECT_TRUE(Fails(TF_ALREADY_EXISTS, "MatMul"));
  AddKernel("CUnion", nullptr);
  EXPECT_TRUE(Fails(TF_INVALID_ARGUMENT, "null"));
  TF_RegisterOpDefinition(nullptr, status);
  EXPECT_TRUE(Fails(TF_INVALID_ARGUMENT, "null"));
  TF_RegisterKernelBuilder("x", nullptr, status);
  EXPECT_TRUE(Fails(TF_INVALID_ARGUMENT, "null"));
}

TEST_F(OpInCTest, DefinitionsAreExported) {
  TF_OpDefinitionBuilder* op = TF_NewOpDefinitionBuilder("CExported");
  TF_OpDefinitionBuilderAddAttr(op, "foo1: int >= 2");
  TF_OpDefinitionBuilderAddAttr(op, "foo2: string=\"my string\"");
  TF_OpDefinitionBuilderSetIsCommutative(op, true);
  TF_OpDefinitionBuilderSetIsAggregate(op, true);
  TF_OpDefinitionBuilderSetAllowsUninitializedInput(op, true);
  TF_OpDefinitionBuilderDeprecated(op, 4, "use something else");
  TF_RegisterOpDefinition(op, status);
  ASSERT_TRUE(Ok());
  TF_Buffer* bytes = TF_NewBuffer();
  TF_GraphGetOpDef(graph, "CExported", bytes, status);
  ASSERT_TRUE(Ok());
  sluice::proto::OpDef def;
  ASSERT_TRUE(def.ParseFromArray(bytes->data, static_cast<int>(bytes->length)));
  TF_DeleteBuffer(bytes);
  EXPECT_TRUE(def.is_commutative() && def.is_aggregate() &&
              def.allows_uninitialized_input());
  EXPECT_EQ(def.deprecation().version(), 4);
  EXPECT_EQ(def.deprecation().explanation(), "use something else");
  ASSERT_EQ(def.attr_size(), 2);
  EXPECT_EQ(def.attr(0).minimum(), 2);
  EXPECT_EQ(def.attr(1).default_value().s(), "my string");
}

TEST_F(OpInCTest, LibraryIsLoaded) {
  TF_Library* lib = TF_LoadLibrary(SLUICE_OP_IN_C, status);
  ASSERT_TRUE(Ok());
  const TF_Buffer ops = TF_GetOpList(lib);
  EXPECT_NE(std::string(static_cast<const char*>(ops.data), ops.length)
                .find("ScaledReverse"),
            std::string::npos);
  TF_DeleteLibraryHandle(lib);
  // Again, by the C++ client: it is the same library.
  const auto names = sluice::LoadOpLibrary(SLUICE_OP_IN_C);
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_EQ(*names, std::vector<std::string>({"ScaledReverse"}));

  TF_Output x = Placeholder(graph, "x", TF_FLOAT, {-1});
  TF_OperationDescription* d = TF_NewOperation(graph, "ScaledReverse", "y");
  TF_AddInput(d, x);
  TF_SetAttrFloat(d, "factor", 10);
  TF_Output y = {TF_FinishOperation(d, status), 0};
  ASSERT_TRUE(Ok());
  EXPECT_EQ(FloatsOf(Run({x}, {Floats({1, 2, 3})}, {y})[0]),
            std::vector<float>({30, 20, 10}));
  d = TF_NewOperation(graph, "ScaledReverse", "zero");
  TF_AddInput(d, x);
  TF_SetAttrFloat(d, "factor", 0);
  Run({x}, {Floats({1})}, {{TF_FinishOperation(d, status), 0}});
  EXPECT_TRUE(Fails(TF_INVALID_ARGUMENT, "expected not 0"));
  Node(graph, "ScaledReverse", "matrix",
       {Placeholder(graph, "m", TF_FLOAT, {2, 2})});
  EXPECT_TRUE(Fails(TF_INVALID_ARGUMENT, "rank 1"));
}

TEST_F(OpInCTest, ALibraryWithAMistakeLeavesNothing) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(TF_LoadLibrary(SLUICE_BROKEN_OP_LIBRARY, status), nullptr);
    EXPECT_TRUE(Fails(TF_INVALID_ARGUMENT, "no_such_type"));
    Node(graph, "OfBrokenLibrary", "x", {});
    EXPECT_TRUE(Fails(TF_NOT_FOUND, "OfBrokenLibrary"));
    TF_Buffer* kernels =
        TF_GetRegisteredKernelsForOp("OfBrokenLibrary", status);
    EXPECT_EQ(kernels->length, 0u);
    TF_DeleteBuffer(kernels);
  }
  Declare("OfBrokenLibrary", {"out y: float"});  // The name is free.
  EXPECT_TRUE(Ok());
  EXPECT_EQ(TF_LoadLibrary("no_such_library.so", status), nullptr);
  EXPECT_TRUE(Fails(TF_NOT_FOUND, "no_such_library.so"));
}

TEST_F(OpInCTest, StepsSeeChangedEdges) {
  TF_Output a = Placeholder(graph, "a", TF_FLOAT, {});
  TF_Output b = Placeholder(graph, "b", TF_FLOAT, {});
  TF_Output y = Node(graph, "Neg", "y", {a});
  TF_Session* s = TF_NewSession(graph, nullptr, status);
  const TF_Output feeds[] = {a, b};
  TF_Tensor* values[] = {Floats({1}, true), Floats({2}, true)};
  const auto run = [&] {
    TF_Tensor* out = nullptr;
    TF_SessionRun(s, nullptr, feeds, values, 2, &y, &out, 1, nullptr, 0,
                  nullptr, status);
    return FloatsOf(out).at(0);
  };
  EXPECT_EQ(run(), -1);
  TF_UpdateEdge(graph, b, {y.oper, 0}, status);
  ASSERT_TRUE(Ok());
  EXPECT_EQ(run(), -2);
  TF_UpdateEdge(graph, a, {y.oper, 0}, status);
  EXPECT_EQ(run(), -1);
  TF_CloseSession(s, status);
  TF_UpdateEdge(graph, b, {y.oper, 0}, status);
  TF_Tensor* out = nullptr;
  TF_SessionRun(s, nullptr, feeds, values, 2, &y, &out, 1, nullptr, 0, nullptr,
                status);
  EXPECT_EQ(TF_GetCode(status), TF_FAILED_PRECONDITION);
  TF_DeleteSession(s, status);
  TF_DeleteTensor(values[0]);
  TF_DeleteTensor(values[1]);
}

TEST_F(OpInCTest, ApiDefinitionsAreMerged) {
  TF_Buffer* ops = TF_GetAllOpList();
  TF_ApiDefMap* map = TF_NewApiDefMap(ops, status);
  ASSERT_TRUE(Ok());
  TF_DeleteBuffer(ops);
  const auto get = [&](const std::string& name) {
    TF_Buffer* bytes = TF_ApiDefMapGet(map, name.data(), name.size(), status);
    EXPECT_TRUE(Ok());
    sluice::proto::ApiDef d;
    if (bytes != nullptr) {
      EXPECT_TRUE(
          d.ParseFromArray(bytes->data, static_cast<int>(bytes->length)));
    }
    TF_DeleteBuffer(bytes);
    return d;
  };
  EXPECT_EQ(get("MatMul").endpoint(0).name(), "MatMul");
  EXPECT_EQ(get("MatMul").arg_order(1), "b");
  EXPECT_FALSE(get("MatMul").summary().empty());
  EXPECT_EQ(get("NoSuchOp").graph_op_name(), "");
  const std::string text = R"(op {
  graph_op_name: "MatMul"
  endpoint { name: "matmul" }
  in_arg {
    name: "a" rename_to: "left"
    description: <<END
"The" left one.
Not `b`.
END
  }
  in_arg { name: "b" rename_to: "right" }
  arg_order: "b" arg_order: "a"
  description: "`MatMul` of `a` and `b`."
  description_suffix: "The end."
}
op { graph_op_name: "NoSuchOp" }
)";
  TF_ApiDefMapPut(map, text.data(), text.size(), status);
  ASSERT_TRUE(Ok());
  const sluice::proto::ApiDef d = get("MatMul");
  EXPECT_EQ(d.in_arg(0).rename_to(), "left");
  EXPECT_EQ(d.in_arg(0).description(), "\"The\" left one.\nNot `right`.");
  EXPECT_EQ(d.arg_order(0), "b");
  EXPECT_EQ(d.description(), "`matmul` of `left` and `right`.\nThe end.");
  for (const char* wrong :
       {"op { graph_op_name: 'MatMul' in_arg { name: 'x' } }",
        "op { graph_op_name: 'MatMul' arg_order: 'a' }", "op {", "op: <<E",
        "op { graph_op_name: <<"}) {
    TF_ApiDefMapPut(map, wrong, std::strlen(wrong), status);
    EXPECT_NE(TF_GetCode(status), TF_OK) << wrong;
  }
  EXPECT_EQ(get("MatMul").in_arg(0).rename_to(), "left");
  TF_DeleteApiDefMap(map);
}

TEST_F(OpInCTest, NamesOfNodesMayHaveAnyCharacters) {
  TF_Output x = Placeholder(graph, "const/0/[1 2]", TF_FLOAT, {});
  ASSERT_TRUE(Ok());
  EXPECT_EQ(TF_GraphOperationByName(graph, "const/0/[1 2]"), x.oper);
  EXPECT_EQ(FloatsOf(Run({x}, {Floats({2}, true)}, {x})[0]),
            std::vector<float>({2}));
}

}  // namespace
