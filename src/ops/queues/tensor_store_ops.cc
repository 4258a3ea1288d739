// TensorStores: their ops and shape functions. Their gradients are built by
// client/autodiff/store_gradient.h; the implementation is in
// ops/queues/tensor_store.h.
#include <algorithm>
#include <typeinfo>

#include "exec/core/kernel.h"
#include "graph/hidden_attributes.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/elements.h"
#include "ops/queues/tensor_store.h"
#include "ops/state/lookup.h"

namespace sluice {
namespace {

// ---- Inputs -----------------------------------------------------------------

// The store of a handle, valid as long as the token.
Result<TensorStoreState*> StoreInput(const KernelContext& ctx, int i = 0) {
  const Tensor& t = ctx.input(i);
  if (t.dtype() == DType::kResource && t.num_elements() == 1) {
    Resource* const r = t.raw<ResourceHandle>()->resource.get();
    if (r != nullptr && typeid(*r) == typeid(TensorStoreState))
      return static_cast<TensorStoreState*>(r);
  }
  SLUICE_ASSIGN_OR_RETURN(const ResourceHandle* h, ctx.handle(i));
  return InvalidArgument("handle: expected a TensorStore, got ",
                         h->resource ? h->resource->TypeName() : "nothing",
                         " '", h->name, "'");
}

Status CheckKeyRank(const Tensor& keys, bool many) {
  if (keys.rank() == (many ? 1 : 0)) return OkStatus();
  return InvalidArgument(many ? "keys: expected a vector, got shape "
                              : "key: expected a scalar, got shape ",
                         keys.shape().ToString());
}

// ---- Kernels ----------------------------------------------------------------

class MakeStoreKernel {
 public:
  explicit MakeStoreKernel(const Node& n) : shared_(n) {
    TensorStoreDecl d;
    d.shared = !n.AttrOr<std::string>("shared_name", "").empty();
    d.name = d.shared ? shared_.name() : n.name();
    d.dtype = n.TypeAttr("dtype");
    d.key_dtype = n.TypeAttr("key_dtype");
    d.element_shape = n.AttrOr<PartialShape>("element_shape", PartialShape());
    decl_ = std::make_shared<const TensorStoreDecl>(std::move(d));
  }
  Status Run(KernelContext& ctx) {
    const auto make = [this] {
      return std::make_shared<TensorStoreState>(decl_);
    };
    if (!decl_->shared) {
      ctx.set_output(0,
                     Tensor::Scalar<ResourceHandle>({"", decl_->name, make()}));
      return OkStatus();
    }
    SLUICE_ASSIGN_OR_RETURN(
        ctx.output(0),
        shared_.Get(ctx, make, [this](const TensorStoreState& s) -> Status {
          if (s.decl().dtype == decl_->dtype &&
              s.decl().key_dtype == decl_->key_dtype)
            return OkStatus();
          return InvalidArgument("TensorStore '", decl_->name, "': expected ",
                                 DTypeName(s.decl().dtype), " by ",
                                 DTypeName(s.decl().key_dtype),
                                 " as it exists, got ", DTypeName(decl_->dtype),
                                 " by ", DTypeName(decl_->key_dtype));
        }));
    return OkStatus();
  }

 private:
  std::shared_ptr<const TensorStoreDecl> decl_;
  state::SharedHandle<TensorStoreState> shared_;
};

class StoreGradKernel {
 public:
  explicit StoreGradKernel(const Node& n)
      : source_(n.AttrOr<std::string>("source", "")) {}
  Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(TensorStoreState * store, StoreInput(ctx));
    return SetGradient(ctx, store, source_);
  }
  static Status SetGradient(KernelContext& ctx, TensorStoreState* store,
                            const std::string& source) {
    SLUICE_ASSIGN_OR_RETURN(auto gradient, store->Gradient(source, ctx.step()));
    ctx.set_output(0, Tensor::Scalar<ResourceHandle>(
                          {"", store->decl().name, std::move(gradient)}));
    return OkStatus();
  }

 private:
  const std::string source_;
};

Status RunStoreGradLike(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(TensorStoreState * store, StoreInput(ctx));
  SLUICE_ASSIGN_OR_RETURN(TensorStoreState * like, StoreInput(ctx, 1));
  if (!like->is_gradient())
    return InvalidArgument("like: expected a store of gradients, got '",
                           like->decl().name, "'");
  return StoreGradKernel::SetGradient(ctx, store, like->source());
}

class StoreWriteKernel {
 public:
  explicit StoreWriteKernel(const Node& n)
      : writer_(std::make_shared<const std::string>(n.Describe())) {}
  Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(TensorStoreState * store, StoreInput(ctx));
    const Tensor& key = ctx.input(1);
    SLUICE_RETURN_IF_ERROR(store->Check(key, ctx.input(2).dtype()));
    SLUICE_RETURN_IF_ERROR(CheckKeyRank(key, false));
    Tensor value;
    if (store->decl().shared) {
      SLUICE_ASSIGN_OR_RETURN(value, ctx.TakeToKeep(2));
    } else {
      value = ctx.TakeInput(2);
    }
    ctx.output(0).SetScalar(0.0f);
    return store->Write(StoreKey::At(key, 0), std::move(value), writer_);
  }

 private:
  const std::shared_ptr<const std::string> writer_;
};

class StoreAddKernel {
 public:
  explicit StoreAddKernel(const Node& n) : many_(n.BoolAttr("many")) {}
  Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(TensorStoreState * store, StoreInput(ctx));
    const Tensor& keys = ctx.input(1);
    const auto count = static_cast<size_t>(keys.num_elements());
    SLUICE_RETURN_IF_ERROR(store->Check(keys, ctx.input(2).dtype()));
    SLUICE_RETURN_IF_ERROR(CheckKeyRank(keys, many_));
    Tensor value = ctx.TakeInput(2);
    ctx.output(0).SetScalar(0.0f);
    if (!many_) return store->Add(StoreKey::At(keys, 0), std::move(value));
    if (value.rank() < 1 || value.shape().dim(0) != keys.num_elements())
      return InvalidArgument("value: expected a row for each of ", count,
                             " keys, got shape ", value.shape().ToString());
    return store->AddRows(keys, std::move(value));
  }

 private:
  const bool many_;
};

Status RunStoreExpect(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(TensorStoreState * store, StoreInput(ctx));
  const Tensor& keys = ctx.input(1);
  SLUICE_RETURN_IF_ERROR(store->Check(keys, DType::kInvalid));
  if (!store->is_gradient())
    return InvalidArgument("grad_handle: expected a store of gradients, got '",
                           store->decl().name, "'");
  for (int64_t i = 0; i < keys.num_elements(); ++i)
    store->Expect(StoreKey::At(keys, static_cast<size_t>(i)));
  ctx.output(0).SetScalar(0.0f);
  return OkStatus();
}

Status SetOneValue(KernelContext& ctx, std::span<Tensor> values) {
  ctx.set_output(0, std::move(values[0]));
  return OkStatus();
}

// Stacks the values along a new first dimension.
Status SetStackedValues(KernelContext& ctx, std::span<Tensor> values) {
  const Node& n = ctx.node();
  const DType t = n.TypeAttr("dtype");
  std::vector<int64_t> dims = {static_cast<int64_t>(values.size())};
  if (values.empty()) {
    const auto element =
        n.AttrOr<PartialShape>("element_shape", PartialShape());
    if (element.fully_known())
      dims.insert(dims.end(), element.dims().begin(), element.dims().end());
    return ctx.Allocate(0, t, Shape(dims));
  }
  const auto element = values[0].shape().dims();
  dims.insert(dims.end(), element.begin(), element.end());
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, t, Shape(dims)));
  Status status;
  array::ByElement(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    auto* to = static_cast<T*>(ctx.output(0).raw());
    for (const Tensor& v : values) {
      if (!(v.shape() == values[0].shape())) {
        status = InvalidArgument("values: expected elements of one shape, got ",
                                 values[0].shape().ToString(), " and ",
                                 v.shape().ToString());
        return;
      }
      const auto* const from = static_cast<const T*>(v.raw());
      to = std::copy(from, from + v.num_elements(), to);
    }
  });
  return status;
}

// TensorStoreRead, TensorStoreReadMany and TensorStoreSum.
class StoreReadKernel {
 public:
  StoreReadKernel(const Node& n, bool many)
      : dtype_(n.TypeAttr("dtype")), many_(many) {
    names_ = n.AttrOr<AttrValue::Strings>(kStoreSourcesAttr, {});
    for (const std::string& s : names_) sources_.push_back(StoreSource(s));
  }

  static bool Try(KernelContext& ctx, Status* status) {
    auto& self = ctx.state<StoreReadKernel>();
    if (self.many_) return false;
    TensorStoreState* store = nullptr;
    if (*status = self.Check(ctx, &store); !status->ok()) return true;
    if (!self.sources_.empty() && store->shared()) return false;
    return store->Take(StoreKey::At(ctx.input(1), 0), self.sources_,
                       &ctx.output(0));
  }
  static void RunAsync(KernelContext& ctx, DoneFn done) {
    auto& self = ctx.state<StoreReadKernel>();
    TensorStoreState* store = nullptr;
    if (Status s = self.Check(ctx, &store); !s.ok()) return done(s);
    static const std::vector<uint64_t> kCountedHere;
    const std::vector<uint64_t>* sources = &self.sources_;
    if (!sources->empty() && store->shared()) {
      if (Status s = self.Announce(ctx, store); !s.ok()) return done(s);
      sources = &kCountedHere;
    }
    StoreWait::Begin(store, &ctx, sources,
                     self.many_ ? SetStackedValues : SetOneValue,
                     std::move(done));
  }
  static std::string Needs(const KernelContext& ctx) {
    const Result<TensorStoreState*> store = StoreInput(ctx);
    if (!store.ok() || (*store)->shared()) return "";
    return (*store)->Missing(ctx.input(1));
  }

 private:
  Status Check(KernelContext& ctx, TensorStoreState** store) const {
    SLUICE_ASSIGN_OR_RETURN(*store, StoreInput(ctx));
    SLUICE_RETURN_IF_ERROR((*store)->Check(ctx.input(1), dtype_));
    return CheckKeyRank(ctx.input(1), many_);
  }
  // Counts the read of a shared store for this step.
  Status Announce(KernelContext& ctx, TensorStoreState* store) const {
    const Tensor& keys = ctx.input(1);
    for (const std::string& name : names_) {
      SLUICE_ASSIGN_OR_RETURN(const auto gradient,
                              store->Gradient(name, ctx.step()));
      for (int64_t i = 0; i < keys.num_elements(); ++i)
        gradient->Expect(StoreKey::At(keys, static_cast<size_t>(i)));
    }
    return OkStatus();
  }

  const DType dtype_;
  const bool many_;
  AttrValue::Strings names_;  // Of the sources.
  std::vector<uint64_t> sources_;
};

Status MakeStoreRead(const Node& n, bool many, Kernel* k) {
  k->state = std::make_shared<StoreReadKernel>(n, many);
  k->run_async = StoreReadKernel::RunAsync;
  k->try_run = StoreReadKernel::Try;
  k->needs = StoreReadKernel::Needs;
  return OkStatus();
}

Status RunStoreHas(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(TensorStoreState * store, StoreInput(ctx));
  const Tensor& key = ctx.input(1);
  SLUICE_RETURN_IF_ERROR(store->Check(key, DType::kInvalid));
  SLUICE_RETURN_IF_ERROR(CheckKeyRank(key, false));
  ctx.output(0).SetScalar(store->Has(StoreKey::At(key, 0)));
  return OkStatus();
}

Status RunStoreSize(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(TensorStoreState * store, StoreInput(ctx));
  ctx.output(0).SetScalar(store->Size());
  return OkStatus();
}

Status RunStoreKeys(KernelContext& ctx) {
  SLUICE_ASSIGN_OR_RETURN(TensorStoreState * store, StoreInput(ctx));
  const DType t = ctx.node().TypeAttr("Tkey");
  if (store->decl().key_dtype != t)
    return InvalidArgument(
        "TensorStore '", store->decl().name, "': expected keys of type ",
        DTypeName(store->decl().key_dtype), ", got ", DTypeName(t));
  SLUICE_ASSIGN_OR_RETURN(ctx.output(0), store->Keys());
  return OkStatus();
}

// ---- Shapes -----------------------------------------------------------------

Status StoreHandleShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  return ScalarShape(c);
}

Status StoreGradLikeShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(1));
  return StoreHandleShape(c);
}

Status StoreKeyShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(1));
  return ScalarShape(c);
}

Status StoreAddShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  SLUICE_RETURN_IF_ERROR(
      c.WithRank(1, c.node().BoolAttr("many") ? 1 : 0).status());
  return ScalarShape(c);
}

Status StoreReadShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(1));
  c.set_output(0,
               c.node().AttrOr<PartialShape>("element_shape", PartialShape()));
  return OkStatus();
}

Status StoreReadManyShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape keys, c.WithRank(1, 1));
  c.set_output(0, array::JoinShapes({keys.dim(0)},
                                    c.node().AttrOr<PartialShape>(
                                        "element_shape", PartialShape())));
  return OkStatus();
}

Status StoreSumShape(ShapeContext& c) {
  return c.node().BoolAttr("many") ? StoreReadManyShape(c) : StoreReadShape(c);
}

Status StoreKeysShape(ShapeContext& c) {
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(0));
  c.set_output(0, {-1});
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

constexpr const char* kStoreGradient =
    "Gradients itself builds the gradients of the ops on a TensorStore";
constexpr OpFacts kWritesOnce = {
    .has_effects = true, .not_foldable = true, .not_mergeable = true};

SLUICE_OP(TensorStore)
    .Output("handle: resource")
    .Attr("dtype: type")
    .Attr("key_dtype: {int64, string} = DT_INT64")
    .Attr("element_shape: shape = { unknown_rank: true }")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .Kind(OpKind::kTensorStore)
    .TouchesNoElements()
    .Stateful(kOwnsState)
    .HostOnly()
    .Family("tensor_array")
    .Shape(ScalarShape)
    .Kernel(CpuState<MakeStoreKernel>())
    .NoGradient("it creates an empty store")
    .Doc(
        "Creates a store of tensors by key, each written once; it lives for "
        "one step, or, with a shared_name, until its container is cleared.");

SLUICE_OP(TensorStoreGrad)
    .Input("handle: resource")
    .Output("grad_handle: resource")
    .Attr("source: string")
    .Kind(OpKind::kTensorStoreGrad)
    .TouchesNoElements()
    .Stateful(kDiffersEachTime)
    .HostOnly()
    .Family("tensor_array")
    .Shape(StoreHandleShape)
    .Kernel(CpuState<StoreGradKernel>())
    .NoGradient(kStoreGradient)
    .Doc(
        "Returns the store that adds up the gradients of another store's "
        "elements, one store per source.");

SLUICE_OP(TensorStoreGradLike)
    .Input("handle: resource")
    .Input("like: resource")
    .Output("grad_handle: resource")
    .Kind(OpKind::kTensorStoreGrad)
    .TouchesNoElements()
    .Stateful(kDiffersEachTime)
    .HostOnly()
    .Family("tensor_array")
    .Shape(StoreGradLikeShape)
    .Kernel(Cpu(RunStoreGradLike))
    .NoGradient(kStoreGradient)
    .Doc(
        "Returns the store that adds up the gradients of another store's "
        "elements, for the same source as the store of gradients `like`.");

SLUICE_OP(TensorStoreExpect)
    .Input("grad_handle: resource")
    .Input("keys: Tkey")
    .Output("announced: float")
    .Attr("Tkey: {int64, string} = DT_INT64")
    .Kind(OpKind::kTensorStoreAdd)
    .TouchesNoElements()
    .Stateful(kWritesOnce)
    .HostOnly()
    .Family("tensor_array")
    .Shape(StoreHandleShape)
    .Kernel(Cpu(RunStoreExpect))
    .NoGradient(kStoreGradient)
    .Doc(
        "Announces to a store of gradients that one more part will be added to "
        "the element of a key, or of each of several keys.");

SLUICE_OP(TensorStoreWrite)
    .Input("handle: resource")
    .Input("key: Tkey")
    .Input("value: T")
    .Output("written: float")
    .Attr("T: type")
    .Attr("Tkey: {int64, string} = DT_INT64")
    .Kind(OpKind::kTensorStoreWrite)
    .Stateful(kWritesOnce)
    .HostOnly()
    .Family("tensor_array")
    .Shape(StoreKeyShape)
    .Kernel(CpuState<StoreWriteKernel>())
    .NoGradient(kStoreGradient)
    .Doc(
        "Writes the element of a key, once, and lets the reads of the key go "
        "on; the output is 0.");

SLUICE_OP(TensorStoreRead)
    .Input("handle: resource")
    .Input("key: Tkey")
    .Output("value: dtype")
    .Attr("dtype: type")
    .Attr("Tkey: {int64, string} = DT_INT64")
    .Attr("element_shape: shape = { unknown_rank: true }")
    .Kind(OpKind::kTensorStoreRead)
    .Stateful(kDiffersEachTime)
    .Waits()
    .HostOnly()
    .Family("tensor_array")
    .Shape(StoreReadShape)
    .Kernel([](const Node& n, Kernel* k) { return MakeStoreRead(n, false, k); })
    .NoGradient(kStoreGradient)
    .Doc(
        "Reads the element of a key once it has been written, waiting for "
        "this one element only.");

SLUICE_OP(TensorStoreReadMany)
    .Input("handle: resource")
    .Input("keys: Tkey")
    .Output("values: dtype")
    .Attr("dtype: type")
    .Attr("Tkey: {int64, string} = DT_INT64")
    .Attr("element_shape: shape = { unknown_rank: true }")
    .Kind(OpKind::kTensorStoreRead)
    .Stateful(kDiffersEachTime)
    .Waits()
    .HostOnly()
    .Family("tensor_array")
    .Shape(StoreReadManyShape)
    .Kernel([](const Node& n, Kernel* k) { return MakeStoreRead(n, true, k); })
    .NoGradient(kStoreGradient)
    .Doc(
        "Reads the elements of several keys once all have been written, "
        "stacked along a new first dimension.");

SLUICE_OP(TensorStoreAdd)
    .Input("handle: resource")
    .Input("key: Tkey")
    .Input("value: T")
    .Output("added: float")
    .Attr("T: type")
    .Attr("Tkey: {int64, string} = DT_INT64")
    .Attr("many: bool = false")
    .Kind(OpKind::kTensorStoreAdd)
    .Stateful(kWritesOnce)
    .HostOnly()
    .Family("tensor_array")
    .Shape(StoreAddShape)
    .Kernel(CpuState<StoreAddKernel>())
    .NoGradient(kStoreGradient)
    .Doc(
        "Adds the gradient of one read to the element of a key in a store of "
        "gradients, or with many one row to that of each key.");

SLUICE_OP(TensorStoreSum)
    .Input("handle: resource")
    .Input("key: Tkey")
    .Output("value: dtype")
    .Attr("dtype: type")
    .Attr("Tkey: {int64, string} = DT_INT64")
    .Attr("element_shape: shape = { unknown_rank: true }")
    .Attr("many: bool = false")
    .Kind(OpKind::kTensorStoreSum)
    .Stateful(kDiffersEachTime)
    .Waits()
    .HostOnly()
    .Family("tensor_array")
    .Shape(StoreSumShape)
    .Kernel([](const Node& n, Kernel* k) {
      return MakeStoreRead(n, n.BoolAttr("many"), k);
    })
    .NoGradient(kStoreGradient)
    .Doc(
        "Returns the gradient of a key's element once all parts have been "
        "added, one for each read of the key; zeros if there are none.");

SLUICE_OP(TensorStoreHas)
    .Input("handle: resource")
    .Input("key: Tkey")
    .Output("has: bool")
    .Attr("Tkey: {int64, string} = DT_INT64")
    .TouchesNoElements()
    .Stateful(kDiffersEachTime)
    .HostOnly()
    .Family("tensor_array")
    .Shape(StoreKeyShape)
    .Kernel(Cpu(RunStoreHas))
    .NoGradient("its output is a boolean")
    .Doc("Returns whether a key of a TensorStore has been written so far.");

SLUICE_OP(TensorStoreSize)
    .Input("handle: resource")
    .Output("size: int64")
    .TouchesNoElements()
    .Stateful(kDiffersEachTime)
    .HostOnly()
    .Family("tensor_array")
    .Shape(StoreHandleShape)
    .Kernel(Cpu(RunStoreSize))
    .NoGradient("its output is an integer")
    .Doc("Returns how many keys of a TensorStore have been written so far.");

SLUICE_OP(TensorStoreKeys)
    .Input("handle: resource")
    .Output("keys: Tkey")
    .Attr("Tkey: {int64, string} = DT_INT64")
    .TouchesNoElements()
    .Stateful(kDiffersEachTime)
    .HostOnly()
    .Family("tensor_array")
    .Shape(StoreKeysShape)
    .Kernel(Cpu(RunStoreKeys))
    .NoGradient("its outputs are keys")
    .Doc("Returns the keys that have been written so far, in order.");

}  // namespace
}  // namespace sluice
