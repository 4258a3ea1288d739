// Kernels in C: their registration, and the interface of a run.
#include "tensorflow/c/kernels.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "capi/attributes.h"
#include "capi/c_ops.h"
#include "capi/handles.h"
#include "graph/op_library.h"
#include "graph/proto/kernel_def.pb.h"

struct TF_KernelBuilder {
  std::string op, device, name;
  void* (*create)(TF_OpKernelConstruction*) = nullptr;
  void (*compute)(void*, TF_OpKernelContext*) = nullptr;
  void (*destroy)(void*) = nullptr;
  std::vector<std::pair<std::string, sluice::DType>> types;
  std::vector<std::string> on_host;
  int32_t priority = 0;
};

struct TF_OpKernelConstruction {
  const sluice::Node& node;
  sluice::Status failed;
};

// One run of a kernel.
struct TF_OpKernelContext {
  // An output whose value the kernel's context gets when the kernel has
  // returned: strings, and tensors without a buffer.
  struct Pending {
    int output;
    std::shared_ptr<sluice::Tensor> cell;
    std::shared_ptr<sluice::capi::StringArray> strings;
    sluice::Shape shape;
  };
  // An input whose memory became an output's, as it was.
  struct Forwarded {
    int input;
    sluice::Tensor value;
  };
  sluice::KernelContext& context;
  sluice::Status failed;
  absl::InlinedVector<Pending, 2> pending;
  absl::InlinedVector<Forwarded, 1> forwarded;
  // Inputs that were handed out and whose memory is the caller's of the step.
  absl::InlinedVector<std::shared_ptr<sluice::Tensor>, 1> lent;

  // A handle that the kernel keeps gets memory of its own (or none, if there is
  // no memory).
  ~TF_OpKernelContext() {
    for (const std::shared_ptr<sluice::Tensor>& t : lent)
      if (t.use_count() > 1) *t = t->Clone().value_or(sluice::Tensor());
  }
  // An output gets its value in another way.
  void Forget(int output) {
    for (auto it = pending.begin(); it != pending.end(); ++it)
      if (it->output == output) {
        pending.erase(it);
        return;
      }
  }
  sluice::Status Finish() {
    SLUICE_RETURN_IF_ERROR(failed);
    for (const Pending& p : pending) {
      if (p.cell != nullptr) {
        context.set_output(p.output, *p.cell);
        continue;
      }
      SLUICE_ASSIGN_OR_RETURN(sluice::Tensor strings,
                              sluice::capi::ToStrings(*p.strings, p.shape));
      context.set_output(p.output, std::move(strings));
    }
    return sluice::OkStatus();
  }
};

using namespace sluice;        // NOLINT
using namespace sluice::capi;  // NOLINT

namespace {

using KernelInC = TF_KernelBuilder;
using KernelsOfOp = std::vector<std::shared_ptr<const KernelInC>>;

// Those of the process, by op. Those of a library that could not be loaded are
// removed.
struct KernelsInC {
  std::mutex mu;
  std::map<std::string, KernelsOfOp> kernels;
  static KernelsInC& All() {
    static auto* all = new KernelsInC;
    return *all;
  }
  KernelsOfOp Of(const std::string& op) {
    std::lock_guard<std::mutex> lock(mu);
    const auto it = kernels.find(op);
    return it == kernels.end() ? KernelsOfOp() : it->second;
  }
  void Add(std::shared_ptr<const KernelInC> k) {
    std::lock_guard<std::mutex> lock(mu);
    kernels[k->op].push_back(std::move(k));
  }
  void Remove(const std::shared_ptr<const KernelInC>& k) {
    std::lock_guard<std::mutex> lock(mu);
    std::erase(kernels[k->op], k);
    if (kernels[k->op].empty()) kernels.erase(k->op);
  }
};

// The value of an input; of a reference, the one that the variable has now.
// FailedPrecondition if it has none.
Result<Tensor> ReadInput(const KernelContext& ctx, int i) {
  if (!IsRef(ctx.node().input_type(i))) return ctx.input(i);
  SLUICE_ASSIGN_OR_RETURN(const std::shared_ptr<Variable> variable,
                          ctx.resource<Variable>(i));
  return variable->Read();
}

// A kernel that was made for a node; the state of its Kernel. Immutable, shared
// by all runs.
class MadeInC {
 public:
  MadeInC(std::shared_ptr<const KernelInC> kernel,
          TF_OpKernelConstruction* construction)
      : kernel_(std::move(kernel)) {
    const Node& n = construction->node;
    if (!n.op().allows_uninitialized_input)
      for (int i = 0; i < n.num_inputs(); ++i)
        if (IsRef(n.input_type(i))) need_value_.push_back(i);
    if (kernel_->create != nullptr) made_ = kernel_->create(construction);
  }
  ~MadeInC() {
    if (kernel_->destroy != nullptr) kernel_->destroy(made_);
  }
  MadeInC(const MadeInC&) = delete;
  Status Run(KernelContext& ctx) const {
    for (const int i : need_value_)
      SLUICE_RETURN_IF_ERROR(ReadInput(ctx, i).status());
    TF_OpKernelContext context{ctx, {}, {}, {}, {}};
    kernel_->compute(made_, &context);
    return context.Finish();
  }

 private:
  const std::shared_ptr<const KernelInC> kernel_;
  std::vector<int> need_value_;  // References to variables.
  void* made_ = nullptr;
};

// Whether the kernel is for nodes like this one.
Result<bool> IsFor(const KernelInC& k, const Node& n) {
  for (const auto& [name, type] : k.types) {
    const AttrValue* v = n.FindAttr(name);
    const DType* one = v == nullptr ? nullptr : v->get<DType>();
    const std::vector<DType>* list =
        v == nullptr ? nullptr : v->get<std::vector<DType>>();
    if (one == nullptr && list == nullptr && (v == nullptr || !IsEmptyList(*v)))
      return InvalidArgument("kernel '", k.name,
                             "': expected constraints of attributes that are "
                             "types, got one of '",
                             name, "'");
    if (one != nullptr && RemoveRef(*one) != type) return false;
    if (list != nullptr)
      for (const DType t : *list)
        if (RemoveRef(t) != type) return false;
  }
  return true;
}

// Better kernels are larger: those for CPUs, then those of higher priority.
std::pair<bool, int32_t> Rank(const KernelInC& k) {
  return {k.device == "CPU", k.priority};
}

Status AddKernel(const char* name, std::unique_ptr<KernelInC> k) {
  SLUICE_RETURN_IF_ERROR(Given(k.get(), "kernel"));
  k->name = View(name);
  if (k->op.empty())
    return InvalidArgument("kernel '", k->name,
                           "': expected the name of an op, got ''");
  if (k->device.empty())
    return InvalidArgument("kernel '", k->name,
                           "': expected a type of devices, got ''");
  if (k->compute == nullptr)
    return InvalidArgument("kernel '", k->name,
                           "': expected a function to compute, got null");
  if (OpRegistry::Global()->Find(k->op) != nullptr && !IsDeclaredInC(k->op))
    return AlreadyExists("kernel '", k->name,
                         "': expected an op that is declared in C, got ", k->op,
                         ", which has the kernels of its declaration");
  const std::shared_ptr<const KernelInC> added = std::move(k);
  KernelsInC::All().Add(added);
  (void)sluice::internal::UndoUnlessLoaded(
      [added] { KernelsInC::All().Remove(added); });
  return OkStatus();
}

// ---- Runs -------------------------------------------------------------------

// InvalidArgument or OutOfRange if there is no such output.
Status CheckPlace(TF_OpKernelContext* c, int i) {
  SLUICE_RETURN_IF_ERROR(Given(c, "context"));
  if (i < 0 || i >= c->context.num_outputs())
    return OutOfRange("output: expected one of ", c->context.num_outputs(),
                      ", got ", i);
  return OkStatus();
}

// Makes the tensor output i, and a handle of it.
std::unique_ptr<TF_Tensor> Place(TF_OpKernelContext* c, int i, Tensor t) {
  auto out = std::make_unique<TF_Tensor>();
  out->dtype = t.dtype();
  out->shape = t.shape();
  c->Forget(i);
  if (t.has_buffer()) {
    c->context.set_output(i, t);
    out->tensor = std::move(t);
  } else {
    out->cell = std::make_shared<Tensor>(std::move(t));
    c->pending.push_back({i, out->cell, nullptr, {}});
  }
  return out;
}

Result<std::unique_ptr<TF_Tensor>> PlaceStrings(TF_OpKernelContext* c, int i,
                                                const Shape& shape) {
  auto out = std::make_unique<TF_Tensor>();
  out->dtype = DType::kString;
  out->shape = shape;
  out->strings = NewStrings(shape.num_elements(), 0, shape.num_elements());
  if (out->strings == nullptr)
    return ResourceExhausted("output ", i, ": expected memory for ",
                             shape.num_elements(), " strings, got none");
  c->Forget(i);
  c->pending.push_back({i, nullptr, out->strings, shape});
  return out;
}

Result<std::unique_ptr<TF_Tensor>> AllocateOutput(TF_OpKernelContext* c, int i,
                                                  const Shape& shape) {
  const DType dtype = c->context.node().output_type(i);
  if (dtype == DType::kString) return PlaceStrings(c, i, shape);
  if (IsRef(dtype) || !IsPlain(dtype))
    return InvalidArgument("output ", i,
                           ": expected one of plain elements or strings, got ",
                           DTypeName(dtype));
  SLUICE_ASSIGN_OR_RETURN(Tensor t, c->context.AllocateTemp(dtype, shape));
  return Place(c, i, std::move(t));
}

Status GetInput(TF_OpKernelContext* c, int i, TF_Tensor** tensor) {
  SLUICE_RETURN_IF_ERROR(Given(c, "context"));
  SLUICE_RETURN_IF_ERROR(Given(tensor, "room for the input"));
  if (i < 0 || i >= c->context.num_inputs())
    return OutOfRange("input: expected one of ", c->context.num_inputs(),
                      ", got ", i);
  for (const TF_OpKernelContext::Forwarded& f : c->forwarded)
    if (f.input == i) {
      SLUICE_ASSIGN_OR_RETURN(*tensor, NewTensor(f.value));
      return OkStatus();
    }
  SLUICE_ASSIGN_OR_RETURN(Tensor value, ReadInput(c->context, i));
  SLUICE_ASSIGN_OR_RETURN(TF_Tensor* const made, NewTensor(std::move(value)));
  if (made->tensor.borrowed()) {
    made->cell = std::make_shared<Tensor>(std::move(made->tensor));
    made->tensor = Tensor();
    c->lent.push_back(made->cell);
  }
  *tensor = made;
  return OkStatus();
}

Result<std::unique_ptr<TF_Tensor>> ForwardOrAllocate(TF_OpKernelContext* c,
                                                     const int* candidates,
                                                     int n, int i,
                                                     const Shape& shape,
                                                     int* forwarded) {
  const DType dtype = c->context.node().output_type(i);
  for (int k = 0; k < n && IsPlain(dtype) && !IsRef(dtype); ++k) {
    const int input = candidates[k];
    if (input < 0 || input >= c->context.num_inputs())
      return OutOfRange("candidate: expected an input, one of ",
                        c->context.num_inputs(), ", got ", input);
    if (!c->context.CanForward(input)) continue;
    const Tensor& from = c->context.input(input);
    if (from.dtype() != dtype || from.num_elements() != shape.num_elements())
      continue;
    const Shape before = from.shape();
    SLUICE_RETURN_IF_ERROR(
        c->context.ForwardOrAllocate({input}, i, dtype, shape));
    if (forwarded != nullptr) *forwarded = input;
    SLUICE_ASSIGN_OR_RETURN(Tensor value,
                            c->context.output(i).Reshaped(before));
    c->forwarded.push_back({input, std::move(value)});
    return Place(c, i, c->context.output(i));
  }
  return AllocateOutput(c, i, shape);
}

// Calls fn, and hands out the tensor that it makes.
template <typename Fn>
TF_Tensor* ReportTensor(TF_Status* status, Fn&& fn) {
  TF_Tensor* made = nullptr;
  Report(status, "kernel", [&]() -> Status {
    Result<std::unique_ptr<TF_Tensor>> t = fn();
    SLUICE_RETURN_IF_ERROR(t.status());
    made = t->release();
    return OkStatus();
  });
  return made;
}

Status Failure(const TF_Status* status) {
  if (status != nullptr && status->code != TF_OK) return FromC(*status);
  return Internal("kernel: expected the status of a failure, got none");
}

// Calls fn(attribute).
template <typename Fn>
void OfConstruction(TF_OpKernelConstruction* ctx, const char* name,
                    TF_Status* status, Fn&& fn) {
  Report(status, "attribute", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(ctx, "context"));
    return WithAttributeOf(ctx->node, name, fn);
  });
}

template <typename T, typename Out>
void OneOf(TF_OpKernelConstruction* ctx, const char* name, const char* kind,
           Out* value, TF_Status* status) {
  OfConstruction(ctx, name, status, [&](const AttrValue& v) {
    return StoreOne<T>(v, kind, value);
  });
}

template <typename T, typename Out>
void ListFrom(TF_OpKernelConstruction* ctx, const char* name, const char* kind,
              Out* values, int max_values, TF_Status* status) {
  OfConstruction(ctx, name, status, [&](const AttrValue& v) {
    return StoreList<T>(v, kind, values, max_values);
  });
}

void Describe(const OpDef& op, proto::KernelList* list) {
  if (!IsDeclaredInC(op.name)) {
    if (op.role == OpRole::kCompute && !op.kernel) return;
    proto::KernelDef* k = list->add_kernel();
    k->set_op(op.name);
    k->set_device_type("CPU");
    return;
  }
  for (const auto& from : KernelsInC::All().Of(op.name)) {
    proto::KernelDef* k = list->add_kernel();
    k->set_op(op.name);
    k->set_device_type(from->device);
    k->set_priority(from->priority);
    for (const std::string& arg : from->on_host) k->add_host_memory_arg(arg);
    for (const auto& [attr, type] : from->types) {
      proto::KernelDef::AttrConstraint* c = k->add_constraint();
      c->set_name(attr);
      c->mutable_allowed_values()->mutable_list()->add_type(
          static_cast<proto::DataType>(type));
    }
  }
}

TF_Buffer* ReportKernels(TF_Status* status, const proto::KernelList& list) {
  TF_Buffer* made = nullptr;
  Report(status, "kernels", [&]() -> Status {
    SLUICE_ASSIGN_OR_RETURN(const std::string bytes, SerializeProto(list));
    made = TF_NewBufferFromString(bytes.data(), bytes.size());
    return OkStatus();
  });
  return made;
}

}  // namespace

namespace sluice::capi {

Status MakeKernelInC(const Node& node, Kernel* kernel) {
  std::shared_ptr<const KernelInC> best;
  bool tied = false;
  for (const auto& k : KernelsInC::All().Of(node.op_name())) {
    if (k->device != "CPU" && k->device != "DEFAULT") continue;
    SLUICE_ASSIGN_OR_RETURN(const bool fits, IsFor(*k, node));
    if (!fits) continue;
    if (best == nullptr || Rank(*k) > Rank(*best)) {
      best = k;
      tied = false;
    } else if (Rank(*k) == Rank(*best)) {
      tied = true;
    }
  }
  if (best == nullptr)
    return Unimplemented(
        "no kernel: expected one in C that was registered for "
        "the CPU and this node's types, got none");
  if (tied)
    return InvalidArgument(
        "kernels: expected one in C for this node's types, "
        "or priorities, got several; one is '",
        best->name, "'");
  TF_OpKernelConstruction construction{node, OkStatus()};
  auto made = std::make_shared<MadeInC>(best, &construction);
  SLUICE_RETURN_IF_ERROR(construction.failed);
  kernel->state = std::move(made);
  kernel->run = [](KernelContext& ctx) {
    return ctx.state<MadeInC>().Run(ctx);
  };
  kernel->expensive = true;
  return OkStatus();
}

}  // namespace sluice::capi

extern "C" {

TF_KernelBuilder* TF_NewKernelBuilder(
    const char* op_name, const char* device_name,
    void* (*create_func)(TF_OpKernelConstruction*),
    void (*compute_func)(void*, TF_OpKernelContext*),
    void (*delete_func)(void*)) {
  auto* k = new TF_KernelBuilder;
  k->op = View(op_name);
  k->device = View(device_name);
  k->create = create_func;
  k->compute = compute_func;
  k->destroy = delete_func;
  return k;
}

void TF_KernelBuilder_TypeConstraint(TF_KernelBuilder* kernel_builder,
                                     const char* attr_name,
                                     const TF_DataType type,
                                     TF_Status* status) {
  Report(status, "kernel", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(kernel_builder, "kernel"));
    SLUICE_RETURN_IF_ERROR(Given(attr_name, "name of an attribute"));
    const DType t = FromC(type);
    if (t == DType::kInvalid || IsRef(t))
      return InvalidArgument("type constraint: expected a type, got ",
                             static_cast<int>(type));
    kernel_builder->types.emplace_back(attr_name, t);
    return OkStatus();
  });
}

void TF_KernelBuilder_HostMemory(TF_KernelBuilder* kernel_builder,
                                 const char* arg_name) {
  if (kernel_builder != nullptr)
    kernel_builder->on_host.push_back(View(arg_name));
}

void TF_KernelBuilder_Priority(TF_KernelBuilder* kernel_builder,
                               int32_t priority_number) {
  if (kernel_builder != nullptr) kernel_builder->priority = priority_number;
}

void TF_RegisterKernelBuilder(const char* kernel_name,
                              TF_KernelBuilder* builder, TF_Status* status) {
  Report(status, "kernel", [&] {
    const Status s =
        AddKernel(kernel_name, std::unique_ptr<TF_KernelBuilder>(builder));
    if (!s.ok()) (void)sluice::internal::FailLoad(s);
    return s;
  });
}

void TF_DeleteKernelBuilder(TF_KernelBuilder* builder) { delete builder; }

TF_Buffer* TF_GetAllRegisteredKernels(TF_Status* status) {
  proto::KernelList list;
  for (const OpDef* op : OpRegistry::Global()->All()) Describe(*op, &list);
  return ReportKernels(status, list);
}

TF_Buffer* TF_GetRegisteredKernelsForOp(const char* name, TF_Status* status) {
  proto::KernelList list;
  if (const OpDef* op = OpRegistry::Global()->Find(View(name)))
    Describe(*op, &list);
  return ReportKernels(status, list);
}

// ---- Runs -------------------------------------------------------------------

SP_Stream TF_GetStream(TF_OpKernelContext* /*ctx*/, TF_Status* status) {
  SetStatus(status, FailedPrecondition("stream: expected a device that has "
                                       "one, got a CPU"));
  return nullptr;
}

int TF_NumInputs(TF_OpKernelContext* ctx) {
  return ctx == nullptr ? 0 : ctx->context.num_inputs();
}
int TF_NumOutputs(TF_OpKernelContext* ctx) {
  return ctx == nullptr ? 0 : ctx->context.num_outputs();
}

void TF_GetInput(TF_OpKernelContext* ctx, int i, TF_Tensor** tensor,
                 TF_Status* status) {
  Report(status, "kernel", [&] { return GetInput(ctx, i, tensor); });
}

void TF_SetOutput(TF_OpKernelContext* ctx, int i, const TF_Tensor* tensor,
                  TF_Status* status) {
  Report(status, "kernel", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(CheckPlace(ctx, i));
    SLUICE_ASSIGN_OR_RETURN(Tensor t, ToTensor(tensor));
    const DType want = ctx->context.node().output_type(i);
    if (t.dtype() != want)
      return InvalidArgument("output ", i, ": expected ", DTypeName(want),
                             ", got ", DTypeName(t.dtype()));
    ctx->Forget(i);
    ctx->context.set_output(i, std::move(t));
    return OkStatus();
  });
}

void TF_OpKernelConstruction_Failure(TF_OpKernelConstruction* ctx,
                                     TF_Status* status) {
  if (ctx != nullptr && ctx->failed.ok()) ctx->failed = Failure(status);
}
void TF_OpKernelContext_Failure(TF_OpKernelContext* ctx, TF_Status* status) {
  if (ctx != nullptr && ctx->failed.ok()) ctx->failed = Failure(status);
}

TF_DataType TF_ExpectedOutputDataType(TF_OpKernelContext* ctx, int i) {
  return CheckPlace(ctx, i).ok() ? ToC(ctx->context.node().output_type(i))
                                 : TF_DataType{};
}

int64_t TF_StepId(TF_OpKernelContext* ctx) {
  return ctx == nullptr ? 0 : ctx->context.step().step_id;
}

TF_Tensor* TF_AllocateOutput(TF_OpKernelContext* context, int index,
                             TF_DataType dtype, const int64_t* dims,
                             int num_dims, size_t /*len*/, TF_Status* status) {
  return ReportTensor(status, [&]() -> Result<std::unique_ptr<TF_Tensor>> {
    SLUICE_RETURN_IF_ERROR(CheckPlace(context, index));
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, ShapeOf(dims, num_dims));
    const DType want = context->context.node().output_type(index);
    if (FromC(dtype) != want)
      return InvalidArgument("output ", index, ": expected ", DTypeName(want),
                             ", got ", DTypeName(FromC(dtype)));
    return AllocateOutput(context, index, shape);
  });
}

TF_Tensor* TF_ForwardInputOrAllocateOutput(
    TF_OpKernelContext* context, const int* candidate_input_indices,
    int num_candidate_input_indices, int output_index,
    const int64_t* output_dims, int output_num_dims, int* forwarded_input,
    TF_Status* status) {
  if (forwarded_input != nullptr) *forwarded_input = -1;
  return ReportTensor(status, [&]() -> Result<std::unique_ptr<TF_Tensor>> {
    SLUICE_RETURN_IF_ERROR(CheckPlace(context, output_index));
    SLUICE_RETURN_IF_ERROR(GivenArray(
        candidate_input_indices, num_candidate_input_indices, "candidates"));
    SLUICE_ASSIGN_OR_RETURN(const Shape shape,
                            ShapeOf(output_dims, output_num_dims));
    return ForwardOrAllocate(context, candidate_input_indices,
                             num_candidate_input_indices, output_index, shape,
                             forwarded_input);
  });
}

TF_Tensor* TF_AllocateTemp(TF_OpKernelContext* context, TF_DataType dtype,
                           const int64_t* dims, int num_dims,
                           TF_AllocatorAttributes* alloc_attrs,
                           TF_Status* status) {
  return ReportTensor(status, [&]() -> Result<std::unique_ptr<TF_Tensor>> {
    SLUICE_RETURN_IF_ERROR(Given(context, "context"));
    if (alloc_attrs != nullptr && alloc_attrs->struct_size == 0)
      return InvalidArgument(
          "allocator attributes: expected struct_size = "
          "TF_ALLOCATOR_ATTRIBUTES_STRUCT_SIZE, got 0");
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, ShapeOf(dims, num_dims));
    SLUICE_ASSIGN_OR_RETURN(Tensor t,
                            context->context.AllocateTemp(FromC(dtype), shape));
    SLUICE_ASSIGN_OR_RETURN(TF_Tensor* const made, NewTensor(std::move(t)));
    return std::unique_ptr<TF_Tensor>(made);
  });
}

// ---- Attributes -------------------------------------------------------------

void TF_OpKernelConstruction_GetAttrSize(TF_OpKernelConstruction* ctx,
                                         const char* attr_name,
                                         int32_t* list_size,
                                         int32_t* total_size,
                                         TF_Status* status) {
  if (list_size != nullptr) *list_size = -1;
  if (total_size != nullptr) *total_size = -1;
  OfConstruction(ctx, attr_name, status, [&](const AttrValue& v) -> Status {
    SLUICE_RETURN_IF_ERROR(Given(list_size, "room for the size"));
    SLUICE_RETURN_IF_ERROR(Given(total_size, "room for the total size"));
    const TF_AttrMetadata m = MetadataOf(v, ctx->node.op().FindAttr(attr_name));
    SLUICE_RETURN_IF_ERROR(StoreElement(m.list_size, list_size));
    return StoreElement(m.total_size, total_size);
  });
}

// TF_OpKernelConstruction_GetAttr<Kind> and its ..List: attributes that are a
// From, stored as To.
#define SLUICE_GET_ATTR(Kind, From, To, one, list)                           \
  void TF_OpKernelConstruction_GetAttr##Kind(TF_OpKernelConstruction* ctx,   \
                                             const char* attr_name, To* val, \
                                             TF_Status* status) {            \
    OneOf<From>(ctx, attr_name, one, val, status);                           \
  }                                                                          \
  void TF_OpKernelConstruction_GetAttr##Kind##List(                          \
      TF_OpKernelConstruction* ctx, const char* attr_name, To* vals,         \
      int max_vals, TF_Status* status) {                                     \
    ListFrom<From>(ctx, attr_name, list, vals, max_vals, status);            \
  }
SLUICE_GET_ATTR(Type, DType, TF_DataType, "a type", "a list of types")
SLUICE_GET_ATTR(Int32, int64_t, int32_t, "an int", "a list of ints")
SLUICE_GET_ATTR(Int64, int64_t, int64_t, "an int", "a list of ints")
SLUICE_GET_ATTR(Float, float, float, "a float", "a list of floats")
SLUICE_GET_ATTR(Bool, bool, TF_Bool, "a bool", "a list of bools")
#undef SLUICE_GET_ATTR

void TF_OpKernelConstruction_GetAttrString(TF_OpKernelConstruction* ctx,
                                           const char* attr_name, char* val,
                                           size_t max_length,
                                           TF_Status* status) {
  OfConstruction(ctx, attr_name, status, [&](const AttrValue& v) {
    return StoreString(v, val, max_length);
  });
}

void TF_OpKernelConstruction_GetAttrStringList(TF_OpKernelConstruction* ctx,
                                               const char* attr_name,
                                               char** vals, size_t* lengths,
                                               int max_values, void* storage,
                                               size_t storage_size,
                                               TF_Status* status) {
  OfConstruction(ctx, attr_name, status, [&](const AttrValue& v) {
    return StoreStrings(v, reinterpret_cast<void**>(vals), lengths, max_values,
                        storage, storage_size);
  });
}

bool TF_OpKernelConstruction_HasAttr(TF_OpKernelConstruction* ctx,
                                     const char* attr_name, TF_Status* status) {
  bool has = false;
  Report(status, "attribute", [&]() -> Status {
    SLUICE_RETURN_IF_ERROR(Given(ctx, "context"));
    SLUICE_RETURN_IF_ERROR(Given(attr_name, "name of an attribute"));
    has = ctx->node.FindAttr(attr_name) != nullptr;
    return OkStatus();
  });
  return has;
}

TF_StringView TF_OpKernelConstruction_GetName(TF_OpKernelConstruction* ctx) {
  if (ctx == nullptr) return {nullptr, 0};
  return {ctx->node.name().data(), ctx->node.name().size()};
}

}  // extern "C"
