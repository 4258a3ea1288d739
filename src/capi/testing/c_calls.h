// Calls of all functions of the C API with arguments that something chooses,
// for tests and fuzzers.
#ifndef SLUICE_CAPI_TESTING_C_CALLS_H_
#define SLUICE_CAPI_TESTING_C_CALLS_H_

#include <array>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "capi/testing/native_calls.h"
#include "tensorflow/c/c_api.h"
#include "tensorflow/c/eager/c_api.h"
#include "tensorflow/c/kernels.h"
#include "tensorflow/c/ops.h"
#include "tensorflow/c/tf_shape.h"

namespace sluice {

// Objects that calls use, and memory for their results. Choices come from
// `next`, which returns any byte. Objects that a call deletes are replaced.
// Belongs to one thread.
class CallWorld : private NativeWorld {
 public:
  explicit CallWorld(std::function<uint8_t()> next)
      : NativeWorld(next_, deletes_), next_(std::move(next)) {
    MakeGraph();
    tensor_ = MakeTensor();
    options_ = TF_NewSessionOptions();
    session_ = TF_NewSession(graph_, options_, status_);
    old_session_ = TF_NewDeprecatedSession(options_, status_);
    import_ = TF_NewImportGraphDefOptions();
    op_ = TF_NewOpDefinitionBuilder("Fuzzed");
    kernel_ = NewKernel();
    shape_ = TF_NewShapeHandle();
    unknown_ = TF_NewShape();
    dim_ = TF_NewDimensionHandle();
    TF_Buffer* empty = TF_NewBufferFromString("", 0);
    api_ = TF_NewApiDefMap(empty, status_);
    TF_DeleteBuffer(empty);
    context_options_ = TFE_NewContextOptions();
    context_ = TFE_NewContext(context_options_, status_);
    handle_ = TFE_NewTensorHandle(tensor_, status_);
    results_ = MakeResults();
    function_ = MakeFunction();
    server_ = MakeServer();
    TF_StringInit(&string_);
  }
  ~CallWorld() {
    ForgetCall();
    EndLoop();
    EndPartialRun();
    TF_StringDealloc(&string_);
    TF_DeleteServer(server_);
    TF_DeleteFunction(function_);
    TF_DeleteImportGraphDefResults(results_);
    TF_DeleteSession(session_, status_);
    TF_DeleteDeprecatedSession(old_session_, status_);
    TF_DeleteSessionOptions(options_);
    TF_DeleteImportGraphDefOptions(import_);
    TF_DeleteOpDefinitionBuilder(op_);
    TF_DeleteKernelBuilder(kernel_);
    TF_DeleteShapeHandle(shape_);
    TF_DeleteShape(unknown_);
    TF_DeleteDimensionHandle(dim_);
    TF_DeleteApiDefMap(api_);
    TFE_DeleteTensorHandle(handle_);
    TFE_DeleteContext(context_);
    TFE_DeleteContextOptions(context_options_);
    TF_DeleteTensor(tensor_);
    DropDescription();
    for (const auto& [g, ops] : graphs_) TF_DeleteGraph(g);
    TF_DeleteStatus(status_);
  }
  CallWorld(const CallWorld&) = delete;

  // Calls the function. `deletes`: it takes over the object that its first
  // argument is.
  template <typename R, typename... Args>
  void Call(std::string_view name, R (*fn)(Args...), bool deletes) {
    // With a status, handles may be null: that is an error in it.
    nulls_ = (std::is_same_v<Args, TF_Status*> || ...) || deletes ||
             name.starts_with("sl_");
    deletes_ = deletes;
    if (name == "TF_StringInit") TF_StringDealloc(&string_);
    pointers_[0] = nullptr;  // (Where the handle of a partial run will be.)
    // (In the order of the arguments.)
    std::tuple<std::remove_const_t<Args>...> args{
        Choose(static_cast<std::remove_const_t<Args>*>(nullptr))...};
    if constexpr (std::is_void_v<R>) {
      std::apply(fn, args);
    } else {
      Own(std::apply(fn, args));
    }
    if (name.ends_with("PRunSetup")) {
      EndPartialRun();
      partial_run_ = static_cast<const char*>(pointers_[0]);
      pointers_[0] = nullptr;
    } else if (name == "TF_DeletePRunHandle") {
      partial_run_ = nullptr;
    }
    ForgetCall();
  }

  // Makes and runs a node of an op in C, whose shape function and kernel call
  // functions that take their contexts.
  void RunNodeInC() {
    static const bool declared = DeclareOpInC();
    if (!declared) return;
    running_ = this;
    TF_OperationDescription* d = TF_NewOperation(
        graph_, "FuzzedOpInC", ("in_c" + std::to_string(count_++)).c_str());
    TF_AddInput(d, {graphs_.at(graph_)[0], 0});
    if (TF_Operation* const n = TF_FinishOperation(d, status_); n != nullptr) {
      const TF_Output fed = {graphs_.at(graph_)[0], 0};
      const TF_Output fetched[] = {{n, 0}, {n, 1}};
      TF_Tensor* out[] = {nullptr, nullptr};
      TF_SessionRun(session_, nullptr, &fed, &tensor_, 1, fetched, out, 2,
                    nullptr, 0, nullptr, status_);
      for (TF_Tensor* t : out) TF_DeleteTensor(t);
    }
    running_ = nullptr;
  }
  const TF_Status* status() const { return status_; }

 private:
  bool Flip() { return next_() % 2 != 0; }
  template <typename T>
  T OneOf(std::initializer_list<T> values) {
    return values.begin()[next_() % values.size()];
  }
  // Whether a handle is null, where that is allowed. (It then is the one that
  // is deleted.)
  bool IsNull() {
    if (!nulls_ || next_() % 4 != 0) return false;
    deletes_ = false;
    return true;
  }
  // A handle, or null. (One that is deleted is chosen once, and then replaced.)
  template <typename T>
  T* Handle(T*& object, const std::function<T*()>& renew) {
    if (IsNull()) return nullptr;
    T* const chosen = object;
    if (deletes_) {
      deletes_ = false;
      object = renew();
    }
    return chosen;
  }
  // The same where null has to be a status.
  template <typename T>
  T* Known(T* object) {
    return nulls_ && next_() % 4 == 0 ? nullptr : object;
  }
  // An object that lives until the call has returned.
  template <typename T>
  T* Passing(T* object, void (*destroy)(T*)) {
    if (deletes_)
      deletes_ = false;
    else
      after_.push_back([object, destroy] { destroy(object); });
    return object;
  }

  static TF_KernelBuilder* NewKernel() {
    return TF_NewKernelBuilder(
        "FuzzedOp", "CPU", nullptr, [](void*, TF_OpKernelContext*) {}, nullptr);
  }
  // Functions that take the context of a shape function or of a kernel, one
  // after the other; their contexts are those of the call.
  void CallInContext();
  static void* Create(TF_OpKernelConstruction* c) {
    if (running_ == nullptr) return nullptr;
    running_->construction_ = c;
    running_->CallInContext();
    running_->construction_ = nullptr;
    return nullptr;
  }
  static void Compute(void*, TF_OpKernelContext* c) {
    if (running_ == nullptr) return;
    running_->kernel_context_ = c;
    running_->CallInContext();
    running_->kernel_context_ = nullptr;
  }
  static void Shapes(TF_ShapeInferenceContext* c, TF_Status*) {
    if (running_ == nullptr) return;
    running_->shape_context_ = c;
    running_->CallInContext();
    running_->shape_context_ = nullptr;
  }
  static bool DeclareOpInC() {
    TF_OpDefinitionBuilder* op = TF_NewOpDefinitionBuilder("FuzzedOpInC");
    for (const char* attr :
         {"T: type = DT_FLOAT", "n: int = 3", "f: float = 1.5",
          "b: bool = true", "s: string = 'abc'", "l: list(int) = [1, 2]",
          "ls: list(string) = ['a', 'bc']", "lt: list(type) = [DT_FLOAT]"})
      TF_OpDefinitionBuilderAddAttr(op, attr);
    TF_OpDefinitionBuilderAddInput(op, "x: T");
    TF_OpDefinitionBuilderAddOutput(op, "y: T");
    TF_OpDefinitionBuilderAddOutput(op, "z: string");
    TF_OpDefinitionBuilderSetShapeInferenceFunction(op, Shapes);
    TF_Status* s = TF_NewStatus();
    TF_RegisterOpDefinition(op, s);
    const bool ok = TF_GetCode(s) == TF_OK;
    TF_RegisterKernelBuilder(
        "fuzzed",
        TF_NewKernelBuilder("FuzzedOpInC", "CPU", Create, Compute, nullptr), s);
    TF_DeleteStatus(s);
    return ok;
  }
  static TF_Tensor* MakeTensor() {
    TF_Tensor* t = TF_AllocateTensor(TF_FLOAT, nullptr, 0, sizeof(float));
    std::memset(TF_TensorData(t), 0, sizeof(float));
    return t;
  }
  void MakeGraph() {
    graph_ = TF_NewGraph();
    TF_OperationDescription* d = TF_NewOperation(graph_, "Placeholder", "x");
    TF_SetAttrType(d, "dtype", TF_FLOAT);
    TF_SetAttrShape(d, "shape", nullptr, 0);
    TF_Operation* x = TF_FinishOperation(d, status_);
    d = TF_NewOperation(graph_, "Neg", "y");
    TF_AddInput(d, {x, 0});
    graphs_[graph_] = {x, TF_FinishOperation(d, status_)};
  }
  // A GraphDef of two nodes.
  const std::string& GraphBytes() {
    if (graph_bytes_.empty()) {
      TF_Buffer* b = TF_NewBuffer();
      TF_GraphToGraphDef(graph_, b, status_);
      graph_bytes_.assign(static_cast<const char*>(b->data), b->length);
      TF_DeleteBuffer(b);
    }
    return graph_bytes_;
  }
  TF_ImportGraphDefResults* MakeResults() {
    TF_Graph* g = TF_NewGraph();
    const std::string& bytes = GraphBytes();
    TF_Buffer* b = TF_NewBufferFromString(bytes.data(), bytes.size());
    TF_ImportGraphDefOptions* o = TF_NewImportGraphDefOptions();
    TF_ImportGraphDefOptionsAddReturnOutput(o, "y", 0);
    TF_ImportGraphDefResults* r =
        TF_GraphImportGraphDefWithResults(g, b, o, status_);
    TF_DeleteImportGraphDefOptions(o);
    TF_DeleteBuffer(b);
    TF_DeleteGraph(g);
    return r;
  }
  TF_Function* MakeFunction() {
    if (!function_bytes_.empty())  // (Calls may have changed the graph.)
      return TF_FunctionImportFunctionDef(function_bytes_.data(),
                                          function_bytes_.size(), status_);
    const auto& [x, y] = graphs_.at(graph_);
    const TF_Output in = {x, 0}, out = {y, 0};
    TF_Operation* const body[] = {y};
    TF_Function* const made =
        TF_GraphToFunction(graph_, "fuzzed", 0, 1, body, 1, &in, 1, &out,
                           nullptr, nullptr, nullptr, status_);
    TF_Buffer* b = TF_NewBuffer();
    TF_FunctionToFunctionDef(made, b, status_);
    function_bytes_.assign(static_cast<const char*>(b->data), b->length);
    TF_DeleteBuffer(b);
    return made;
  }
  // One that was not started: task 0 of job "j" at "x:1".
  TF_Server* MakeServer() {
    const std::string task("\x08\x00\x12\x03x:1", 7);
    const std::string job = "\x0a\x01j\x12\x07" + task;
    const std::string cluster = "\x0a\x0c" + job;
    const std::string def = "\x0a\x0e" + cluster + "\x12\x01j";
    return TF_NewServer(def.data(), def.size(), status_);
  }
  void EndLoop() {
    if (loop_) TF_AbortWhile(&*loop_);
    loop_.reset();
  }
  void EndPartialRun() {
    if (partial_run_ != nullptr) TF_DeletePRunHandle(partial_run_);
    partial_run_ = nullptr;
  }
  void DropDescription() {
    TF_Status* s = TF_NewStatus();
    if (description_ != nullptr) TF_FinishOperation(description_, s);
    TF_DeleteStatus(s);
    description_ = nullptr;
  }

  // ---- One overload for each type of argument -------------------------------

  using NativeWorld::Choose;
  int Choose(int*) { return OneOf({0, 1, -1}); }
  int64_t Choose(int64_t*) { return OneOf<int64_t>({0, 1, -1, INT64_MAX}); }
  size_t Choose(size_t*) { return OneOf<size_t>({0, 1, 4, 40}); }
  unsigned char Choose(unsigned char*) { return next_() % 2; }
  bool Choose(bool*) { return Flip(); }
  char Choose(char*) { return 'c'; }
  float Choose(float*) { return 1; }
  TF_DataType Choose(TF_DataType*) {
    return OneOf({TF_FLOAT, TF_STRING, TF_INT64, TF_VARIANT, TF_RESOURCE,
                  static_cast<TF_DataType>(0), static_cast<TF_DataType>(999)});
  }
  TF_Code Choose(TF_Code*) { return OneOf({TF_OK, TF_ABORTED}); }
  TFE_ContextDevicePlacementPolicy Choose(TFE_ContextDevicePlacementPolicy*) {
    return TFE_DEVICE_PLACEMENT_SILENT;
  }
  // (Each with more bytes than the sizes that are chosen.)
  const char* Choose(const char**) {
    static constexpr char kTexts[][64] = {
        "x",   "y",   "",    "Neg", "Placeholder", "dtype",        "T",
        "n",   "f",   "b",   "s",   "l",           "ls",           "lt",
        "x:0", "y:0", "y:7", "^x",  "/cpu:0",      "no/such thing"};
    if (deletes_) return partial_run_;
    if (partial_run_ != nullptr && next_() % 8 == 0)
      return std::strncpy(handle_text_.data(), partial_run_,
                          handle_text_.size() - 1);
    const size_t i = next_() % (std::size(kTexts) + 1);
    return i == std::size(kTexts) ? nullptr : kTexts[i];
  }
  const void* Choose(const void**) {
    return nulls_ && Flip() ? nullptr : scratch_.data();
  }
  void* Choose(void**) { return nulls_ && Flip() ? nullptr : scratch_.data(); }
  TF_Status* Choose(TF_Status**) {
    if (deletes_) return Passing(TF_NewStatus(), TF_DeleteStatus);
    return status_;
  }
  TF_Operation* Choose(TF_Operation**) {
    if (nulls_ && next_() % 4 == 0) return nullptr;
    return graphs_.at(graph_)[next_() % 2];
  }
  const TF_Operation* Choose(const TF_Operation**) {
    return Choose(static_cast<TF_Operation**>(nullptr));
  }
  TF_Output Choose(TF_Output*) {
    TF_Operation* op = Choose(static_cast<TF_Operation**>(nullptr));
    return {op, nulls_ ? OneOf({0, 0, -1, 7}) : 0};
  }
  TF_Input Choose(TF_Input*) {
    return {graphs_.at(graph_)[1], nulls_ ? OneOf({0, 0, -1, 7}) : 0};
  }
  TF_Graph* Choose(TF_Graph**) {
    if (IsNull()) return nullptr;
    if (deletes_) return Passing(TF_NewGraph(), TF_DeleteGraph);
    return graph_;
  }
  const TF_Graph* Choose(const TF_Graph**) {
    return Choose(static_cast<TF_Graph**>(nullptr));
  }
  TF_Session* Choose(TF_Session**) {
    return Handle<TF_Session>(
        session_, [this] { return TF_NewSession(graph_, options_, status_); });
  }
  TF_DeprecatedSession* Choose(TF_DeprecatedSession**) {
    return Handle<TF_DeprecatedSession>(old_session_, [this] {
      return TF_NewDeprecatedSession(options_, status_);
    });
  }
  TF_SessionOptions* Choose(TF_SessionOptions**) {
    return Handle<TF_SessionOptions>(options_, TF_NewSessionOptions);
  }
  const TF_SessionOptions* Choose(const TF_SessionOptions**) {
    return nulls_ && Flip() ? nullptr : options_;
  }
  TF_Tensor* Choose(TF_Tensor**) {
    return Handle<TF_Tensor>(tensor_, MakeTensor);
  }
  const TF_Tensor* Choose(const TF_Tensor**) {
    return nulls_ && Flip() ? nullptr : tensor_;
  }
  TF_Buffer* Choose(TF_Buffer**) {
    if (IsNull()) return nullptr;
    // An empty one, a graph, and bytes of some kind.
    std::string bytes;
    switch (next_() % 3) {
      case 0:
        return Passing(TF_NewBuffer(), TF_DeleteBuffer);
      case 1:
        bytes = GraphBytes();
        break;
      default:
        for (int i = next_() % 32; i > 0; --i)
          bytes += static_cast<char>(next_());
    }
    return Passing(TF_NewBufferFromString(bytes.data(), bytes.size()),
                   TF_DeleteBuffer);
  }
  const TF_Buffer* Choose(const TF_Buffer**) {
    return Choose(static_cast<TF_Buffer**>(nullptr));
  }
  TF_OperationDescription* Choose(TF_OperationDescription**) {
    if (IsNull()) return nullptr;
    if (description_ == nullptr)
      description_ = TF_NewOperation(graph_, "Neg",
                                     ("n" + std::to_string(count_++)).c_str());
    TF_OperationDescription* const d = description_;
    if (deletes_) {
      deletes_ = false;
      description_ = nullptr;
    }
    return d;
  }
  TF_ImportGraphDefOptions* Choose(TF_ImportGraphDefOptions**) {
    return Handle<TF_ImportGraphDefOptions>(import_,
                                            TF_NewImportGraphDefOptions);
  }
  const TF_ImportGraphDefOptions* Choose(const TF_ImportGraphDefOptions**) {
    return import_;
  }
  TF_OpDefinitionBuilder* Choose(TF_OpDefinitionBuilder**) {
    return Handle<TF_OpDefinitionBuilder>(
        op_, [] { return TF_NewOpDefinitionBuilder("not an op"); });
  }
  TF_KernelBuilder* Choose(TF_KernelBuilder**) {
    return Handle<TF_KernelBuilder>(kernel_, NewKernel);
  }
  TF_Shape* Choose(TF_Shape**) {
    return Handle<TF_Shape>(unknown_, TF_NewShape);
  }
  const TF_Shape* Choose(const TF_Shape**) { return unknown_; }
  TF_ShapeHandle* Choose(TF_ShapeHandle**) {
    return Handle<TF_ShapeHandle>(shape_, TF_NewShapeHandle);
  }
  TF_DimensionHandle* Choose(TF_DimensionHandle**) {
    return Handle<TF_DimensionHandle>(dim_, TF_NewDimensionHandle);
  }
  TF_ApiDefMap* Choose(TF_ApiDefMap**) {
    return Handle<TF_ApiDefMap>(api_, [this] {
      TF_Buffer* empty = TF_NewBufferFromString("", 0);
      TF_ApiDefMap* made = TF_NewApiDefMap(empty, status_);
      TF_DeleteBuffer(empty);
      return made;
    });
  }
  TFE_ContextOptions* Choose(TFE_ContextOptions**) {
    return Handle<TFE_ContextOptions>(context_options_, TFE_NewContextOptions);
  }
  const TFE_ContextOptions* Choose(const TFE_ContextOptions**) {
    return context_options_;
  }
  TFE_Context* Choose(TFE_Context**) {
    return Handle<TFE_Context>(
        context_, [this] { return TFE_NewContext(context_options_, status_); });
  }
  TFE_TensorHandle* Choose(TFE_TensorHandle**) {
    return Handle<TFE_TensorHandle>(
        handle_, [this] { return TFE_NewTensorHandle(tensor_, status_); });
  }
  TF_DeviceList* Choose(TF_DeviceList**) {
    if (IsNull()) return nullptr;
    TF_DeviceList* list = TF_SessionListDevices(session_, status_);
    return list == nullptr ? nullptr : Passing(list, TF_DeleteDeviceList);
  }
  const TF_DeviceList* Choose(const TF_DeviceList**) {
    return Choose(static_cast<TF_DeviceList**>(nullptr));
  }
  // One that has what it needs, or lacks something. The call ends it.
  const TF_WhileParams* Choose(const TF_WhileParams**) {
    if (!loop_) return Flip() ? nullptr : &no_loop_;
    ends_loop_ = true;
    loop_->name = Choose(static_cast<const char**>(nullptr));
    if (Flip()) {
      const TF_Output in = loop_->cond_inputs[0];
      TF_OperationDescription* d =
          TF_NewOperation(loop_->cond_graph, "Less", "less");
      TF_AddInput(d, in);
      TF_AddInput(d, in);
      loop_->cond_output = {TF_FinishOperation(d, status_), 0};
    }
    for (int i = 0; i < loop_->ninputs && Flip(); ++i)
      loop_->body_outputs[i] = loop_->body_inputs[i];
    return &*loop_;
  }
  TF_AllocatorAttributes* Choose(TF_AllocatorAttributes**) {
    if (Flip()) return nullptr;
    allocation_.struct_size = OneOf<size_t>({0, sizeof(allocation_)});
    return &allocation_;
  }
  // Null outside of the calls of a shape function or kernel.
  TF_OpKernelContext* Choose(TF_OpKernelContext**) {
    return Known(kernel_context_);
  }
  TF_OpKernelConstruction* Choose(TF_OpKernelConstruction**) {
    return Known(construction_);
  }
  TF_ShapeInferenceContext* Choose(TF_ShapeInferenceContext**) {
    return Known(shape_context_);
  }
  const TF_Status* Choose(const TF_Status**) { return status_; }
  const TF_FunctionOptions* Choose(const TF_FunctionOptions**) {
    return nullptr;
  }
  TF_ImportGraphDefResults* Choose(TF_ImportGraphDefResults**) {
    return Handle<TF_ImportGraphDefResults>(results_,
                                            [this] { return MakeResults(); });
  }
  TF_TString* Choose(TF_TString**) { return &string_; }
  const TF_TString* Choose(const TF_TString**) { return &string_; }
  TF_Server* Choose(TF_Server**) {
    return Handle<TF_Server>(server_, [this] { return MakeServer(); });
  }
  TF_Function* Choose(TF_Function**) {
    return Handle<TF_Function>(function_, [this] { return MakeFunction(); });
  }
  const TF_Function* Choose(const TF_Function**) { return Known(function_); }
  TF_Library* Choose(TF_Library**) { return nullptr; }
  // Arrays have room for more elements than the numbers that are chosen.
  template <typename T>
  requires(std::is_same_v<std::remove_const_t<T>, TF_Output> ||
           std::is_same_v<T, TF_Input>) T* Choose(T**) {
    if (nulls_ && next_() % 4 == 0) return nullptr;
    const T one = Choose(static_cast<std::remove_const_t<T>*>(nullptr));
    auto* list = reinterpret_cast<std::remove_const_t<T>*>(scratch_.data());
    for (int i = 0; i < 4; ++i) list[i] = one;
    return list;
  }
  template <typename T>
  requires(std::is_arithmetic_v<std::remove_const_t<T>> ||
           std::is_same_v<std::remove_const_t<T>, TF_DataType>) T* Choose(T**) {
    if (nulls_ && next_() % 4 == 0) return nullptr;
    std::memset(scratch_.data(), 0, scratch_.size());
    return reinterpret_cast<T*>(scratch_.data());
  }
  // Tensors: given ones, or room for results, which are then deleted.
  TF_Tensor** Choose(TF_Tensor***) {
    if (nulls_ && next_() % 4 == 0) return nullptr;
    tensors_.fill(nullptr);
    return tensors_.data();
  }
  TF_Tensor* const* Choose(TF_Tensor* const**) {
    if (nulls_ && next_() % 4 == 0) return nullptr;
    given_.fill(Flip() ? tensor_ : nullptr);
    return given_.data();
  }
  TF_Buffer** Choose(TF_Buffer***) {
    buffers_.fill(nullptr);
    return nulls_ && Flip() ? nullptr : buffers_.data();
  }
  TF_Function** Choose(TF_Function***) {
    functions_.fill(nullptr);
    return nulls_ && Flip() ? nullptr : functions_.data();
  }
  // Other pointers to pointers: null, or nulls.
  template <typename T>
  T** Choose(T***) {
    if (nulls_ && Flip()) return nullptr;
    std::memset(pointers_.data(), 0, sizeof(pointers_));
    return static_cast<T**>(static_cast<void*>(pointers_.data()));
  }
  template <typename T>
  T* const* Choose(T* const**) {
    return Choose(static_cast<T***>(nullptr));
  }
  // Functions: none.
  template <typename R, typename... Args>
  auto Choose(R (**)(Args...)) -> R (*)(Args...) {
    return nullptr;
  }

  // ---- Results --------------------------------------------------------------

  static void Own(sl_status* s) { sl_status_free(s); }
  static void Own(TF_Status* s) { TF_DeleteStatus(s); }
  static void Own(TF_Graph* g) { TF_DeleteGraph(g); }
  static void Own(TF_Tensor* t) { TF_DeleteTensor(t); }
  static void Own(TF_Buffer* b) { TF_DeleteBuffer(b); }
  static void Own(TF_SessionOptions* o) { TF_DeleteSessionOptions(o); }
  static void Own(TF_Session* s) { TF_DeleteSession(s, nullptr); }
  static void Own(TF_DeprecatedSession* s) {
    TF_DeleteDeprecatedSession(s, nullptr);
  }
  static void Own(TF_ImportGraphDefOptions* o) {
    TF_DeleteImportGraphDefOptions(o);
  }
  static void Own(TF_ImportGraphDefResults* r) {
    TF_DeleteImportGraphDefResults(r);
  }
  static void Own(TF_Function* f) { TF_DeleteFunction(f); }
  static void Own(TF_DeviceList* l) { TF_DeleteDeviceList(l); }
  static void Own(TF_Server* s) { TF_DeleteServer(s); }
  static void Own(TF_ApiDefMap* m) { TF_DeleteApiDefMap(m); }
  static void Own(TF_OpDefinitionBuilder* b) {
    TF_DeleteOpDefinitionBuilder(b);
  }
  static void Own(TF_KernelBuilder* b) { TF_DeleteKernelBuilder(b); }
  static void Own(TF_ShapeHandle* h) { TF_DeleteShapeHandle(h); }
  static void Own(TF_Shape* s) { TF_DeleteShape(s); }
  static void Own(TF_DimensionHandle* h) { TF_DeleteDimensionHandle(h); }
  static void Own(TFE_ContextOptions* o) { TFE_DeleteContextOptions(o); }
  static void Own(TFE_Context* c) { TFE_DeleteContext(c); }
  static void Own(TFE_TensorHandle* h) { TFE_DeleteTensorHandle(h); }
  void Own(TF_OperationDescription* d) {
    DropDescription();
    description_ = d;
  }
  void Own(const TF_WhileParams& p) {
    if (p.cond_graph == nullptr) return;
    EndLoop();
    loop_.emplace(p);
  }
  template <typename T>
  static void Own(const T&) {}  // A number, or what belongs to another object.

  void ForgetCall() {
    for (const auto& f : after_) f();
    after_.clear();
    ForgetNativeCall();
    if (ends_loop_) loop_.reset();
    ends_loop_ = false;
    for (TF_Tensor*& t : tensors_)
      if (t != nullptr) TF_DeleteTensor(std::exchange(t, nullptr));
    for (TF_Function*& f : functions_)
      if (f != nullptr) TF_DeleteFunction(std::exchange(f, nullptr));
    for (TF_Buffer*& b : buffers_)
      if (b != nullptr) TF_DeleteBuffer(std::exchange(b, nullptr));
  }

  const std::function<uint8_t()> next_;
  bool nulls_ = false;    // Handles may be null.
  bool deletes_ = false;  // The next handle is taken over.
  bool ends_loop_ = false;
  int count_ = 0;
  std::vector<std::function<void()>> after_;
  alignas(64) std::array<char, 4096> scratch_ = {};
  std::array<void*, 64> pointers_ = {};
  std::array<TF_Tensor*, 8> tensors_ = {}, given_ = {};
  std::array<TF_Buffer*, 8> buffers_ = {};
  std::array<TF_Function*, 8> functions_ = {};
  const TF_WhileParams no_loop_ = {};
  std::optional<TF_WhileParams> loop_;
  TF_AllocatorAttributes allocation_ = {};
  TF_TString string_;
  std::string graph_bytes_, function_bytes_;
  const char* partial_run_ = nullptr;  // Its handle.
  std::array<char, 64> handle_text_ = {};
  // The contexts of a call, and the world of the node that is made or runs.
  TF_OpKernelContext* kernel_context_ = nullptr;
  TF_OpKernelConstruction* construction_ = nullptr;
  TF_ShapeInferenceContext* shape_context_ = nullptr;
  inline static CallWorld* running_ = nullptr;
  TF_Status* const status_ = TF_NewStatus();
  std::map<TF_Graph*, std::array<TF_Operation*, 2>> graphs_;
  TF_Graph* graph_ = nullptr;
  TF_Tensor* tensor_ = nullptr;
  TF_SessionOptions* options_ = nullptr;
  TF_Session* session_ = nullptr;
  TF_DeprecatedSession* old_session_ = nullptr;
  TF_OperationDescription* description_ = nullptr;
  TF_ImportGraphDefOptions* import_ = nullptr;
  TF_OpDefinitionBuilder* op_ = nullptr;
  TF_KernelBuilder* kernel_ = nullptr;
  TF_ShapeHandle* shape_ = nullptr;
  TF_Shape* unknown_ = nullptr;
  TF_DimensionHandle* dim_ = nullptr;
  TF_ApiDefMap* api_ = nullptr;
  TFE_ContextOptions* context_options_ = nullptr;
  TFE_Context* context_ = nullptr;
  TFE_TensorHandle* handle_ = nullptr;
  TF_ImportGraphDefResults* results_ = nullptr;
  TF_Function* function_ = nullptr;
  TF_Server* server_ = nullptr;
};

// A function, and how to call it in a world.
struct CFunction {
  std::string_view name;
  std::function<void(CallWorld&)> call;
  bool takes_context = false;  // Of a shape function or kernel.
};

template <typename R, typename... Args>
constexpr bool TakesContext(R (*)(Args...)) {
  return ((std::is_same_v<Args, TF_OpKernelContext*> ||
           std::is_same_v<Args, TF_OpKernelConstruction*> ||
           std::is_same_v<Args, TF_ShapeInferenceContext*>) ||
          ...);
}

// All of functions.inc.
inline const std::vector<CFunction>& CFunctions() {
  const auto takes_over = [](std::string_view name) {
    return name.starts_with("TF_Delete") || name.starts_with("TFE_Delete") ||
           (name.starts_with("sl_") && name.ends_with("_free")) ||
           name == "TF_FinishOperation" || name == "TF_RegisterOpDefinition" ||
           name == "TF_RegisterKernelBuilder";
  };
  // Without a status, these need an object that nothing here makes (a library
  // that was loaded) or would listen on a port.
  const auto excluded = [](std::string_view name) {
    return name == "TF_GetOpList" || name == "TF_ServerStart";
  };
  static const auto* all = [&] {
    auto* list = new std::vector<CFunction>;
#define F(NAME)                                                              \
  if (!excluded(#NAME))                                                      \
    list->push_back(                                                         \
        {#NAME,                                                              \
         [d = takes_over(#NAME)](CallWorld& w) { w.Call(#NAME, &NAME, d); }, \
         TakesContext(&NAME)});
#include "capi/testing/functions.inc"
#undef F
    list->push_back(
        {"a node in C", [](CallWorld& w) { w.RunNodeInC(); }, false});
    return list;
  }();
  return *all;
}

inline void CallWorld::CallInContext() {
  static const auto* with_context = [] {
    auto* list = new std::vector<const CFunction*>;
    for (const CFunction& f : CFunctions())
      if (f.takes_context) list->push_back(&f);
    return list;
  }();
  for (int i = next_() % 8; i > 0; --i)
    (*with_context)[next_() % with_context->size()]->call(*this);
}

}  // namespace sluice

#endif  // SLUICE_CAPI_TESTING_C_CALLS_H_
