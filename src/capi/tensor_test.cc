#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "tensorflow/c/c_api.h"

namespace {

class CTensorTest : public testing::Test {
 protected:
  ~CTensorTest() override { TF_DeleteStatus(status_); }
  TF_Code Code() const { return TF_GetCode(status_); }

  TF_Status* status_ = TF_NewStatus();
};

TEST_F(CTensorTest, AllocatedTensorHasAllBytesThatWereAskedFor) {
  for (const size_t len : {8, 9, 4096}) {
    const int64_t dims[] = {2};
    TF_Tensor* t = TF_AllocateTensor(TF_FLOAT, dims, 1, len);
    ASSERT_NE(t, nullptr) << len;
    std::memset(TF_TensorData(t), 0, len);
    EXPECT_EQ(TF_TensorByteSize(t), 8u);
    TF_DeleteTensor(t);
  }
}

TEST_F(CTensorTest, BitcastOfAMovedTensorIsRefused) {
  const int64_t dims[] = {1000};
  TF_Tensor* t = TF_AllocateTensor(TF_FLOAT, dims, 1, 4000);
  std::memset(TF_TensorData(t), 0, 4000);
  TF_Tensor* moved = TF_TensorMaybeMove(t);
  ASSERT_NE(moved, nullptr);
  TF_Tensor* to = TF_AllocateTensor(TF_INT32, dims, 1, 4000);
  TF_TensorBitcastFrom(t, TF_INT32, to, dims, 1, status_);
  EXPECT_EQ(Code(), TF_INVALID_ARGUMENT);
  TF_TensorBitcastFrom(moved, TF_INT32, to, dims, 1, status_);
  EXPECT_EQ(Code(), TF_OK);
  for (TF_Tensor* one : {t, moved, to}) TF_DeleteTensor(one);
}

TEST_F(CTensorTest, MemoryOfTheCallerIsNotMoved) {
  alignas(64) static float data[6] = {1, 2, 3, 4, 5, 6};
  const int64_t dims[] = {6};
  const auto keep = [](void*, size_t, void*) {};
  TF_Tensor* t =
      TF_NewTensor(TF_FLOAT, dims, 1, data, sizeof(data), keep, nullptr);
  EXPECT_EQ(TF_TensorMaybeMove(t), nullptr);
  EXPECT_EQ(TF_TensorData(t), data);
  TF_DeleteTensor(t);
}

TEST_F(CTensorTest, StringsAreAssignedAndMoved) {
  const std::string text(100, 'x');
  TF_TString a, b, view;
  TF_TString_Init(&a);
  TF_TString_Init(&b);
  TF_TString_Init(&view);
  TF_TString_Copy(&a, text.data(), text.size());
  TF_TString_Assign(&b, &a);  // A copy.
  EXPECT_NE(TF_TString_GetDataPointer(&a), TF_TString_GetDataPointer(&b));
  TF_TString_AssignView(&view, text.data(), text.size());
  TF_TString_Move(&b, &view);
  EXPECT_EQ(TF_TString_GetDataPointer(&b), text.data());
  EXPECT_EQ(TF_TString_GetType(&b), TF_TSTR_VIEW);
  EXPECT_EQ(TF_TString_GetSize(&view), 0u);
  TF_TString_Move(&b, &a);
  EXPECT_EQ(std::string(TF_TString_GetDataPointer(&b), TF_TString_GetSize(&b)),
            text);
  EXPECT_EQ(TF_TString_GetSize(&a), 0u);
  TF_TString_Dealloc(&b);
}

// Sessions whose nodes are found by name.
class CNamedTest : public CTensorTest {
 protected:
  ~CNamedTest() override { TF_DeleteDeprecatedSession(session_, status_); }

  // Adds the nodes that `build` adds to an empty graph, without those of
  // `before`.
  template <typename Build>
  void Extend(Build&& build) {
    TF_Graph* graph = TF_NewGraph();
    build(graph);
    TF_Buffer* bytes = TF_NewBuffer();
    TF_GraphToGraphDef(graph, bytes, status_);
    ASSERT_EQ(Code(), TF_OK) << TF_Message(status_);
    TF_ExtendGraph(session_, bytes->data, bytes->length, status_);
    TF_DeleteBuffer(bytes);
    TF_DeleteGraph(graph);
  }
  TF_Output Placeholder(TF_Graph* graph) {
    TF_OperationDescription* d = TF_NewOperation(graph, "Placeholder", "x");
    TF_SetAttrType(d, "dtype", TF_FLOAT);
    return {TF_FinishOperation(d, status_), 0};
  }

  TF_DeprecatedSession* session_ = [this] {
    TF_SessionOptions* options = TF_NewSessionOptions();
    TF_DeprecatedSession* made = TF_NewDeprecatedSession(options, status_);
    TF_DeleteSessionOptions(options);
    return made;
  }();
};

TEST_F(CNamedTest, InputsOfAStepStayTheCallers) {
  Extend([&](TF_Graph* g) {
    TF_OperationDescription* d = TF_NewOperation(g, "Neg", "y");
    TF_AddInput(d, Placeholder(g));
    TF_FinishOperation(d, status_);
  });
  ASSERT_EQ(Code(), TF_OK) << TF_Message(status_);
  const float value = 3;
  TF_Tensor* in = TF_AllocateTensor(TF_FLOAT, nullptr, 0, sizeof(value));
  std::memcpy(TF_TensorData(in), &value, sizeof(value));
  const char* x = "x:0";
  const char* y = "y:0";
  for (int step = 0; step < 2; ++step) {
    TF_Tensor* out = nullptr;
    TF_Run(session_, nullptr, &x, &in, 1, &y, &out, 1, nullptr, 0, nullptr,
           status_);
    ASSERT_EQ(Code(), TF_OK) << TF_Message(status_);
    EXPECT_EQ(*static_cast<float*>(TF_TensorData(out)), -3);
    TF_DeleteTensor(out);
  }
  TF_DeleteTensor(in);
}

TEST_F(CNamedTest, WithoutAGraphNothingRuns) {
  TF_Run(session_, nullptr, nullptr, nullptr, 0, nullptr, nullptr, 0, nullptr,
         0, nullptr, status_);
  EXPECT_EQ(Code(), TF_INVALID_ARGUMENT);
  EXPECT_STREQ(TF_Message(status_),
               "Session was not created with a graph before Run()!");
}

TEST_F(CNamedTest, FailedCallsLeaveNullResults) {
  int there = 0;
  auto* out = reinterpret_cast<TF_Tensor*>(&there);
  const char* handle = "before";
  const char* name = "gone:0";
  TF_Run(session_, nullptr, nullptr, nullptr, 0, &name, &out, 1, nullptr, 0,
         nullptr, status_);
  EXPECT_NE(Code(), TF_OK);
  EXPECT_EQ(out, nullptr);
  out = reinterpret_cast<TF_Tensor*>(&there);
  TF_PRun(session_, "none", nullptr, nullptr, 0, &name, &out, 1, nullptr, 0,
          status_);
  EXPECT_NE(Code(), TF_OK);
  EXPECT_EQ(out, nullptr);
  TF_PRunSetup(session_, nullptr, 0, &name, 1, nullptr, 0, &handle, status_);
  EXPECT_NE(Code(), TF_OK);
  EXPECT_EQ(handle, nullptr);
}

TEST_F(CNamedTest, FullMetadataIsRefusedBeforeTheStep) {
  Extend([&](TF_Graph* g) { Placeholder(g); });
  ASSERT_EQ(Code(), TF_OK) << TF_Message(status_);
  TF_Buffer* metadata = TF_NewBufferFromString("full", 4);
  TF_Tensor* out = nullptr;
  const char* x = "x:0";
  // (The step itself would fail for a placeholder without a value.)
  TF_Run(session_, nullptr, nullptr, nullptr, 0, &x, &out, 1, nullptr, 0,
         metadata, status_);
  EXPECT_EQ(Code(), TF_INVALID_ARGUMENT);
  EXPECT_NE(std::string(TF_Message(status_)).find("run metadata"),
            std::string::npos);
  TF_DeleteBuffer(metadata);
}

TEST_F(CNamedTest, LaterGraphsReadNodesOfEarlierOnes) {
  Extend([&](TF_Graph* g) { Placeholder(g); });
  ASSERT_EQ(Code(), TF_OK) << TF_Message(status_);
  // node { name: "y" op: "Neg" input: "x" input: "^x" attr { T: float } }
  const std::string def(
      "\n\x18\n\x01y\x12\x03Neg\x1a\x01x\x1a\x02^x*\x07\n\x01T\x12\x02"
      "0\x01",
      26);
  TF_ExtendGraph(session_, def.data(), def.size(), status_);
  ASSERT_EQ(Code(), TF_OK) << TF_Message(status_);
  const float value = 3;
  TF_Tensor* in = TF_AllocateTensor(TF_FLOAT, nullptr, 0, sizeof(value));
  std::memcpy(TF_TensorData(in), &value, sizeof(value));
  TF_Tensor* out = nullptr;
  const char* x = "x:0";
  const char* y = "y:0";
  TF_Run(session_, nullptr, &x, &in, 1, &y, &out, 1, nullptr, 0, nullptr,
         status_);
  ASSERT_EQ(Code(), TF_OK) << TF_Message(status_);
  EXPECT_EQ(*static_cast<float*>(TF_TensorData(out)), -3);
  TF_DeleteTensor(in);
  TF_DeleteTensor(out);
}

// Against std::string, over every kind and size.
TEST(CStringTest, ChangesInPlace) {
  const std::string outside(50, 'v');
  for (const size_t from : {0, 5, 22, 23, 40})
    for (const size_t to : {0, 4, 22, 23, 39, 41, 1000})
      for (const bool view : {false, true}) {
        std::string expected = outside.substr(0, from);
        TF_TString s;
        TF_TString_Init(&s);
        if (view)
          TF_TString_AssignView(&s, outside.data(), from);
        else
          TF_TString_Copy(&s, outside.data(), from);
        const auto text = [&s] {
          return std::string(TF_TString_GetDataPointer(&s),
                             TF_TString_GetSize(&s));
        };
        TF_TString_Reserve(&s, to);
        EXPECT_EQ(text(), expected);
        expected.resize(to, 'c');
        const char* bytes = TF_TString_Resize(&s, to, 'c');
        EXPECT_EQ(text(), expected);
        EXPECT_EQ(bytes[to], 0);
        TF_TString_AppendN(&s, "tail", 4);
        TF_TString_Append(&s, &s);
        expected += "tail";
        expected += expected;
        EXPECT_EQ(text(), expected);
        TF_TString_AppendN(&s, TF_TString_GetDataPointer(&s) + 1, 3);
        expected += expected.substr(1, 3);
        EXPECT_EQ(text(), expected);
        TF_TString_GetMutableDataPointer(&s)[0] = 'x';
        expected[0] = 'x';
        EXPECT_EQ(text(), expected);
        EXPECT_EQ(outside, std::string(50, 'v'));
        TF_TString_Dealloc(&s);
      }
  // Growth is amortised: few changes of memory for many appended bytes.
  TF_TString s;
  TF_TString_Init(&s);
  int moves = 0;
  const char* at = nullptr;
  for (int i = 0; i < 100'000; ++i) {
    TF_TString_AppendN(&s, "x", 1);
    if (TF_TString_GetDataPointer(&s) != at) ++moves;
    at = TF_TString_GetDataPointer(&s);
  }
  EXPECT_LT(moves, 40);
  EXPECT_EQ(TF_TString_GetSize(&s), 100'000u);
  EXPECT_EQ(TF_StringResizeUninitialized(&s, SIZE_MAX), nullptr);
  EXPECT_EQ(TF_TString_GetSize(&s), 100'000u);
  // A view of the beginning of the bytes that are appended: they stay in place.
  const std::string shown(100, 'v');
  TF_TString_AssignView(&s, shown.data(), 4);
  TF_TString_AppendN(&s, shown.data(), shown.size());
  EXPECT_EQ(std::string(TF_TString_GetDataPointer(&s), TF_TString_GetSize(&s)),
            std::string(104, 'v'));
  TF_TString_Dealloc(&s);
}

}  // namespace
