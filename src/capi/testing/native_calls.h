// What calls of the native C API's functions with arguments that something
// chooses need (c_calls.h).
#ifndef SLUICE_CAPI_TESTING_NATIVE_CALLS_H_
#define SLUICE_CAPI_TESTING_NATIVE_CALLS_H_

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "sluice/c_api.h"

namespace sluice {

// Objects that calls use, and memory for their results. An object that a call
// frees is replaced. All of these functions accept null and handles of another
// kind.
class NativeWorld {
 protected:
  // Both outlive this; `next` returns any byte, `deletes` says that the next
  // handle is taken over.
  NativeWorld(const std::function<uint8_t()>& next, bool& deletes)
      : native_next_(next), native_deletes_(deletes) {
    Keep(sl_graph_new(&graph_));
    sl_op_spec spec = {};
    spec.struct_size = sizeof(spec);
    spec.op = "Placeholder";
    sl_attr attrs[2] = {};
    attrs[0].name = "dtype";
    attrs[0].kind = SL_KIND_TYPE;
    attrs[0].value.type = SL_FLOAT;
    attrs[1].name = "shape";
    attrs[1].kind = SL_KIND_SHAPE;
    spec.attrs = attrs;
    spec.num_attrs = 2;
    x_ = sl_op(graph_, &spec);
    spec = {};
    spec.struct_size = sizeof(spec);
    spec.op = "Neg";
    spec.inputs = &x_;
    spec.num_inputs = 1;
    y_ = sl_op(graph_, &spec);
    session_ = NewSession();
    step_ = NewStep();
    tensor_ = NewTensor();
    function_ = NewFunction();
    Keep(sl_cancellation_new(&cancellation_));
  }
  ~NativeWorld() {
    ForgetNativeCall();
    sl_cancellation_free(cancellation_);
    sl_function_free(function_);
    sl_tensor_free(tensor_);
    sl_step_free(step_);
    sl_session_free(session_);
    sl_graph_free(graph_);
  }
  NativeWorld(const NativeWorld&) = delete;

  sl_graph* Choose(sl_graph**) {
    if (native_deletes_) {
      native_deletes_ = false;
      sl_graph* g = nullptr;
      Keep(sl_graph_new(&g));
      return g;
    }
    return Given(graph_, session_);
  }
  sl_session* Choose(sl_session**) {
    return Taken(session_, tensor_, [this] { return NewSession(); });
  }
  const sl_session* Choose(const sl_session**) {
    return Given(session_, step_);
  }
  sl_step* Choose(sl_step**) {
    return Taken(step_, graph_, [this] { return NewStep(); });
  }
  const sl_step* Choose(const sl_step**) { return Given(step_, graph_); }
  sl_tensor* Choose(sl_tensor**) {
    return Taken(tensor_, step_, [] { return NewTensor(); });
  }
  const sl_tensor* Choose(const sl_tensor**) { return Given(tensor_, graph_); }
  sl_function* Choose(sl_function**) {
    return Taken(function_, step_, [this] { return NewFunction(); });
  }
  const sl_function* Choose(const sl_function**) {
    return Given(function_, step_);
  }
  sl_cancellation* Choose(sl_cancellation**) {
    return Taken(cancellation_, step_, [] {
      sl_cancellation* c = nullptr;
      Keep(sl_cancellation_new(&c));
      return c;
    });
  }
  sl_model* Choose(sl_model**) {
    native_deletes_ = false;
    return Given(static_cast<sl_model*>(nullptr), step_);
  }
  sl_status* Choose(sl_status**) {
    native_deletes_ = false;
    return Odd(4) ? nullptr : sl_status_new(SL_ABORTED, "given");
  }
  // (No call keeps it.)
  const sl_status* Choose(const sl_status**) {
    statuses_.push_back(sl_status_new(SL_ABORTED, "given"));
    return Given(statuses_.back(), graph_);
  }
  sl_buffer* Choose(sl_buffer**) {
    native_deletes_ = false;
    sl_buffer* b = nullptr;
    Keep(sl_graph_export(graph_, &b));
    return b;
  }
  const sl_buffer* Choose(const sl_buffer**) {
    buffers_given_.push_back(Choose(static_cast<sl_buffer**>(nullptr)));
    return Given(buffers_given_.back(), graph_);
  }
  const sl_node* Choose(const sl_node**) { return Odd(4) ? nullptr : y_.node; }
  const sl_op_def* Choose(const sl_op_def**) {
    return sl_op_def_find(Odd(4) ? "none" : "MatMul");
  }
  sl_output Choose(sl_output*) {
    static constexpr int kIndexes[] = {0, 0, 0, -1, 7};
    const sl_output o = Odd(2) ? x_ : y_;
    return {Odd(8) ? nullptr : o.node, kIndexes[native_next_() % 5]};
  }
  sl_loc Choose(sl_loc*) {
    return Odd(4) ? sl_loc{nullptr, 3} : sl_loc{"program.c", 3};
  }
  const sl_output* Choose(const sl_output**) {
    if (Odd(8)) return nullptr;
    auto& list = lists_[native_next_() % lists_.size()];
    for (sl_output& o : list) o = Choose(static_cast<sl_output*>(nullptr));
    return list.data();
  }
  sl_output* Choose(sl_output**) {
    return Odd(8) ? nullptr : results_of_nodes_.data();
  }
  const sl_op_spec* Choose(const sl_op_spec**) {
    if (Odd(16)) return nullptr;
    static constexpr const char* kOps[] = {"Neg",  "AddN", "Const", "Add",
                                           "NoOp", "None", ""};
    static constexpr const char* kNames[] = {"T", "N", "x", "y", "inputs", ""};
    spec_ = {};
    spec_.struct_size = Odd(8) ? 1 : sizeof(spec_);
    spec_.at = Choose(static_cast<sl_loc*>(nullptr));
    spec_.op = Odd(16) ? nullptr : kOps[native_next_() % std::size(kOps)];
    if (Odd(2)) {
      spec_.inputs = Choose(static_cast<const sl_output**>(nullptr));
      spec_.num_inputs = native_next_() % 4;
    } else {
      for (sl_named_input& in : named_)
        in = {Odd(16) ? nullptr : kNames[native_next_() % std::size(kNames)],
              Choose(static_cast<sl_output*>(nullptr))};
      spec_.named = Odd(16) ? nullptr : named_.data();
      spec_.num_named = native_next_() % 4;
    }
    for (sl_attr& a : attrs_) {
      a = {};
      a.name = Odd(16) ? nullptr : kNames[native_next_() % std::size(kNames)];
      a.kind = native_next_() % 32;
      a.count = int64_t{native_next_() % 4} - 1;
      if (Odd(2)) a.value.ints = zeros_.data();
      if (a.kind == SL_KIND_TENSOR)
        a.value.tensor = Choose(static_cast<const sl_tensor**>(nullptr));
    }
    spec_.attrs = Odd(16) ? nullptr : attrs_.data();
    spec_.num_attrs = native_next_() % 3;
    spec_.after = Choose(static_cast<const sl_output**>(nullptr));
    spec_.num_after = native_next_() % 2;
    spec_.name = Odd(2) ? nullptr : "some/name";
    spec_.device = Odd(4) ? "/cpu:0" : Odd(8) ? "not a device" : nullptr;
    return &spec_;
  }
  sl_body Choose(sl_body*) {
    if (Odd(8)) return nullptr;
    if (Odd(4)) return [](sl_graph*, const sl_output*, sl_output*, void*) {};
    // Of its first input, if it has one.
    return [](sl_graph* g, const sl_output* in, sl_output* out, void*) {
      sl_op_spec spec = {};
      spec.struct_size = sizeof(spec);
      spec.op = "Neg";
      spec.inputs = in;
      spec.num_inputs = in == nullptr ? 0 : 1;
      if (out != nullptr) out[0] = sl_op(g, &spec);  // (It may have none.)
    };
  }
  const sl_while_options* Choose(const sl_while_options**) {
    while_ = {};
    while_.struct_size = Odd(8) ? 0 : sizeof(while_);
    while_.parallel_iterations = int32_t{native_next_() % 4} - 1;
    return Odd(2) ? nullptr : &while_;
  }
  const sl_session_options* Choose(const sl_session_options**) {
    options_ = {};
    options_.struct_size = Odd(8) ? 0 : sizeof(options_);
    options_.inter_op_threads = int32_t{native_next_() % 4} - 2;
    options_.intra_op_threads = int32_t{native_next_() % 4} - 1;
    options_.share = Odd(4) ? session_ : nullptr;
    options_.config = Odd(4) ? "\xff\xff" : nullptr;
    options_.config_size = Odd(4) ? 2 : 0;
    return Odd(2) ? nullptr : &options_;
  }
  const sl_run_options* Choose(const sl_run_options**) {
    run_ = {};
    run_.struct_size = Odd(8) ? 0 : sizeof(run_);
    run_.timeout_ms = Odd(4) ? -1 : 10'000;
    run_.cancellation = Odd(2) ? cancellation_ : nullptr;
    return Odd(2) ? nullptr : &run_;
  }
  const sl_feed* Choose(const sl_feed**) {
    for (sl_feed& f : feeds_)
      f = {Choose(static_cast<sl_output*>(nullptr)),
           Choose(static_cast<const sl_tensor**>(nullptr))};
    return Odd(8) ? nullptr : feeds_.data();
  }
  const sl_string* Choose(const sl_string**) {
    return Odd(8) ? nullptr : strings_.data();
  }
  sl_tensor* const* Choose(sl_tensor* const**) {
    native_given_.fill(Odd(8) ? nullptr : tensor_);
    return Odd(8) ? nullptr : native_given_.data();
  }
  sl_string Choose(sl_string*) {
    return Odd(8) ? sl_string{nullptr, 3} : sl_string{"text", 4};
  }
  sl_gradient Choose(sl_gradient*) { return nullptr; }
  sl_done Choose(sl_done*) {
    if (Odd(8)) return nullptr;
    return [](sl_status* s, sl_tensor* const* results, size_t n, void*) {
      sl_status_free(s);
      for (size_t i = 0; i < n; ++i) sl_tensor_free(results[i]);
    };
  }
  using EachVariable = void (*)(const sl_variable_info*, void*);
  EachVariable Choose(EachVariable*) {
    if (Odd(8)) return nullptr;
    return [](const sl_variable_info*, void*) {};
  }
  // Room for what functions make and say.
  sl_tensor** Choose(sl_tensor***) {
    return Odd(8) ? nullptr : native_tensors_.data();
  }
  sl_graph** Choose(sl_graph***) { return &made_graph_; }
  sl_session** Choose(sl_session***) { return &made_session_; }
  sl_step** Choose(sl_step***) { return &made_step_; }
  sl_function** Choose(sl_function***) {
    return Odd(8) ? nullptr : &made_function_;
  }
  sl_model** Choose(sl_model***) { return &made_model_; }
  sl_buffer** Choose(sl_buffer***) { return Odd(8) ? nullptr : &made_buffer_; }
  sl_cancellation** Choose(sl_cancellation***) { return &made_cancellation_; }
  sl_attr* Choose(sl_attr**) { return Odd(8) ? nullptr : &attr_; }
  sl_slope* Choose(sl_slope**) { return Odd(8) ? nullptr : slopes_.data(); }
  sl_op_info* Choose(sl_op_info**) { return Odd(8) ? nullptr : &op_info_; }
  sl_arg_info* Choose(sl_arg_info**) { return Odd(8) ? nullptr : &arg_info_; }
  sl_attr_info* Choose(sl_attr_info**) {
    return Odd(8) ? nullptr : &attr_info_;
  }

  void ForgetNativeCall() {
    for (sl_tensor*& t : native_tensors_)
      sl_tensor_free(std::exchange(t, nullptr));
    for (sl_status* s : statuses_) sl_status_free(s);
    statuses_.clear();
    for (sl_buffer* b : buffers_given_) sl_buffer_free(b);
    buffers_given_.clear();
    sl_graph_free(std::exchange(made_graph_, nullptr));
    sl_session_free(std::exchange(made_session_, nullptr));
    sl_step_free(std::exchange(made_step_, nullptr));
    sl_function_free(std::exchange(made_function_, nullptr));
    sl_model_free(std::exchange(made_model_, nullptr));
    sl_buffer_free(std::exchange(made_buffer_, nullptr));
    sl_cancellation_free(std::exchange(made_cancellation_, nullptr));
  }

 private:
  bool Odd(int n) { return native_next_() % n == 0; }
  static void Keep(sl_status* s) { sl_status_free(s); }
  // The handle, null, or a handle of another kind.
  template <typename T, typename Other>
  T* Given(T* object, Other* other) {
    if (Odd(8)) return nullptr;
    return Odd(8) ? reinterpret_cast<T*>(other) : object;
  }
  // The same; one that is freed is replaced.
  template <typename T, typename Other, typename Renew>
  T* Taken(T*& object, Other* other, Renew&& renew) {
    T* const chosen = Given(object, other);
    if (std::exchange(native_deletes_, false) && chosen == object)
      object = renew();
    return chosen;
  }
  sl_session* NewSession() {
    sl_session* s = nullptr;
    Keep(sl_session_new(graph_, nullptr, &s));
    return s;
  }
  sl_step* NewStep() {
    sl_step* s = nullptr;
    Keep(sl_step_new(session_, &x_, 1, &y_, 1, &s));
    return s;
  }
  static sl_tensor* NewTensor() {
    sl_tensor* t = nullptr;
    const float value = 1;
    Keep(sl_tensor_copy(SL_FLOAT, nullptr, 0, &value, sizeof(value), &t));
    return t;
  }
  sl_function* NewFunction() {
    sl_function* f = nullptr;
    const sl_dtype type = SL_FLOAT;
    Keep(sl_function_define(
        graph_, {nullptr, 0}, "fuzzed", &type, 1, &type, 1,
        [](sl_graph*, const sl_output* in, sl_output* out, void*) {
          out[0] = in[0];
        },
        nullptr, &f));
    return f;
  }

  const std::function<uint8_t()>& native_next_;
  bool& native_deletes_;
  sl_graph* graph_ = nullptr;
  sl_output x_ = {}, y_ = {};
  sl_session* session_ = nullptr;
  sl_step* step_ = nullptr;
  sl_tensor* tensor_ = nullptr;
  sl_function* function_ = nullptr;
  sl_cancellation* cancellation_ = nullptr;
  std::vector<sl_status*> statuses_;
  std::vector<sl_buffer*> buffers_given_;
  // (The numbers of elements that are chosen are at most 40.)
  std::array<std::array<sl_output, 48>, 3> lists_ = {};
  std::array<sl_output, 48> results_of_nodes_ = {};
  std::array<sl_slope, 48> slopes_ = {};
  std::array<sl_feed, 48> feeds_ = {};
  std::array<sl_tensor*, 48> native_given_ = {}, native_tensors_ = {};
  std::array<sl_string, 48> strings_ = {};
  std::array<int64_t, 48> zeros_ = {};
  std::array<sl_named_input, 4> named_ = {};
  std::array<sl_attr, 4> attrs_ = {};
  sl_op_spec spec_ = {};
  sl_while_options while_ = {};
  sl_session_options options_ = {};
  sl_run_options run_ = {};
  sl_attr attr_ = {};
  sl_op_info op_info_ = {};
  sl_arg_info arg_info_ = {};
  sl_attr_info attr_info_ = {};
  sl_graph* made_graph_ = nullptr;
  sl_session* made_session_ = nullptr;
  sl_step* made_step_ = nullptr;
  sl_function* made_function_ = nullptr;
  sl_model* made_model_ = nullptr;
  sl_buffer* made_buffer_ = nullptr;
  sl_cancellation* made_cancellation_ = nullptr;
};

}  // namespace sluice

#endif  // SLUICE_CAPI_TESTING_NATIVE_CALLS_H_
