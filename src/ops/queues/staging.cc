// Staging areas: elements that one step stages and another takes, in the order
// in which they came or by keys.
#include <algorithm>
#include <deque>
#include <map>

#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/elements.h"
#include "ops/queues/attempts.h"
#include "ops/queues/queue_kernels.h"
#include "ops/state/lookup.h"

namespace sluice {
namespace {

using queues::AtOnce;
using queues::Element;
using queues::Shared;

// What the nodes that use an area declare. The first that runs makes it.
struct StagingOptions {
  explicit StagingOptions(const Node& n)
      : name(n),
        capacity(n.IntAttr("capacity")),
        memory_limit(n.IntAttr("memory_limit")),
        types(n.AttrOr<AttrValue::Types>("dtypes", {})) {}
  state::ResourceName name;
  int64_t capacity, memory_limit;  // 0: no limit.
  AttrValue::Types types;
};

int64_t BytesOf(const Element& e) {
  int64_t bytes = 0;
  for (const Tensor& t : e)
    if (t.valid()) bytes += static_cast<int64_t>(t.bytes());
  return bytes;
}

// The limits of both kinds of areas. Stages wait in the order in which they
// came, and so do takes from the front; those that ask for a key or a position
// wait for it alone.
class StagingBase : public Shared {
 protected:
  enum Lanes : size_t { kPuts, kTakes, kOthers };
  explicit StagingBase(const StagingOptions& o)
      : Shared({true, true, false}),
        capacity_(o.capacity),
        memory_limit_(o.memory_limit) {}
  // ResourceExhausted if they never have room.
  Status CheckSize(int64_t bytes) const {
    if (memory_limit_ == 0 || bytes <= memory_limit_) return OkStatus();
    return ResourceExhausted(
        "Attempted to insert tensors with combined size of '", bytes,
        "' bytes into Staging Area with a memory limit of '", memory_limit_,
        "'.");
  }
  bool HasRoom(int64_t elements, int64_t more_bytes) const {
    return (capacity_ == 0 || elements < capacity_) &&
           (memory_limit_ == 0 || bytes_ + more_bytes <= memory_limit_);
  }

  const int64_t capacity_, memory_limit_;
  int64_t bytes_ = 0;  // GUARDED_BY(mu_): of all elements.
};

// InvalidArgument unless the element has the types of the outputs from `first`
// on.
Status CheckStagedOutputs(const KernelContext& ctx, const Element& e,
                          int first) {
  const int n = ctx.num_outputs() - first;
  if (static_cast<int>(e.size()) != n)
    return InvalidArgument("Mismatch stage/unstage: ", e.size(), " vs. ", n);
  for (int i = 0; i < n; ++i) {
    const DType want = ctx.node().output_type(first + i);
    if (e[static_cast<size_t>(i)].dtype() != want)
      return InvalidArgument(
          "dtypes: expected ", DTypeName(e[static_cast<size_t>(i)].dtype()),
          " of component ", i, " that was staged, got ", DTypeName(want));
  }
  return OkStatus();
}

Result<Element> StagedValues(KernelContext& ctx, int first) {
  Element element;
  for (int i = first; i < ctx.num_inputs(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(Tensor t, ctx.TakeToKeep(i));
    element.push_back(std::move(t));
  }
  return element;
}

// ---- In order ---------------------------------------------------------------

class StagingArea final : public StagingBase {
 public:
  explicit StagingArea(const StagingOptions& o) : StagingBase(o) {}
  std::string TypeName() const override { return "StagingArea"; }

  Status Put(Element e, Cancellation* cancellation, const DoneFn& done) {
    const int64_t bytes = BytesOf(e);
    SLUICE_RETURN_IF_ERROR(CheckSize(bytes));
    Begin(kPuts,
          std::make_shared<AtOnce>(
              cancellation, "Stage",
              [this, bytes, e = std::make_shared<Element>(std::move(e))]()
                  -> std::optional<Status> {
                if (!HasRoom(Count(), bytes)) return std::nullopt;
                bytes_ += bytes;
                elements_.push_back(std::move(*e));
                return OkStatus();
              },
              done));
    return OkStatus();
  }
  void Take(KernelContext* ctx, const DoneFn& done) {
    Begin(kTakes, std::make_shared<AtOnce>(
                      ctx->step().cancellation, "Unstage",
                      [this, ctx]() -> std::optional<Status> {
                        if (elements_.empty()) return std::nullopt;
                        Element& e = elements_.front();
                        SLUICE_RETURN_IF_ERROR(CheckStagedOutputs(*ctx, e, 0));
                        bytes_ -= BytesOf(e);
                        for (int i = 0; i < ctx->num_outputs(); ++i)
                          ctx->set_output(i,
                                          std::move(e[static_cast<size_t>(i)]));
                        elements_.pop_front();
                        return OkStatus();
                      },
                      done));
  }
  void Peek(int64_t index, KernelContext* ctx, const DoneFn& done) {
    Begin(kOthers, std::make_shared<AtOnce>(
                       ctx->step().cancellation, "StagePeek",
                       [this, ctx, index]() -> std::optional<Status> {
                         if (index >= Count()) return std::nullopt;
                         const Element& e =
                             elements_[static_cast<size_t>(index)];
                         SLUICE_RETURN_IF_ERROR(CheckStagedOutputs(*ctx, e, 0));
                         for (int i = 0; i < ctx->num_outputs(); ++i)
                           ctx->set_output(i, e[static_cast<size_t>(i)]);
                         return OkStatus();
                       },
                       done));
  }
  void Clear() {
    Update([this](Ended*) {
      elements_.clear();
      bytes_ = 0;
    });
  }
  int64_t size() const {
    std::lock_guard<std::mutex> lock(mu_);
    return Count();
  }
  int64_t incomplete_size() const { return 0; }

 private:
  int64_t Count() const { return static_cast<int64_t>(elements_.size()); }

  std::deque<Element> elements_;  // GUARDED_BY(mu_)
};

// ---- By keys ----------------------------------------------------------------

// Elements under keys. Their components may be staged and taken apart: an
// element can be taken when it has been complete, and is gone with its last
// component. `ordered`: for the ops whose name says so. (TensorFlow's others
// take any element if they are asked for no key; these too take the first.)
template <bool ordered>
class StagingMap final : public StagingBase {
 public:
  explicit StagingMap(const StagingOptions& o)
      : StagingBase(o), types_(o.types) {}
  std::string TypeName() const override {
    return ordered ? "OrderedStagingMap" : "StagingMap";
  }

  Status Put(int64_t key, const std::vector<int64_t>& indices, Element values,
             Cancellation* cancellation, const DoneFn& done) {
    if (indices.size() != values.size())
      return InvalidArgument("indices: expected one for each of the ",
                             values.size(), " values, got ", indices.size());
    for (size_t i = 0; i < indices.size(); ++i) {
      if (i > 0 && indices[i] <= indices[i - 1])
        return InvalidArgument("Indices are not strictly ordered");
      SLUICE_RETURN_IF_ERROR(CheckIndex(key, indices[i]));
      const DType want = types_[static_cast<size_t>(indices[i])];
      if (values[i].dtype() != want)
        return InvalidArgument("values: expected component ", indices[i],
                               " of type ", DTypeName(want), ", got ",
                               DTypeName(values[i].dtype()));
    }
    const int64_t bytes = BytesOf(values);
    SLUICE_RETURN_IF_ERROR(CheckSize(bytes));
    Begin(StagingBase::kPuts,
          std::make_shared<AtOnce>(
              cancellation, "MapStage",
              [this, key, bytes, indices,
               values = std::make_shared<Element>(std::move(values))] {
                return TryPut(key, bytes, indices, values.get());
              },
              done));
    return OkStatus();
  }
  // Takes components of the element of a key (of the first element if null)
  // into the outputs from `first` on, or copies them.
  Status Get(const int64_t* key, bool take, const std::vector<int64_t>& indices,
             KernelContext* ctx, int first, const DoneFn& done) {
    for (const int64_t i : indices)
      SLUICE_RETURN_IF_ERROR(CheckIndex(key == nullptr ? 0 : *key, i));
    Begin(key == nullptr ? StagingBase::kTakes : StagingBase::kOthers,
          std::make_shared<AtOnce>(
              ctx->step().cancellation, take ? "MapUnstage" : "MapPeek",
              [this, ctx, indices, take, first,
               key = key == nullptr ? std::optional<int64_t>() : *key] {
                return TryGet(key, take, indices, ctx, first);
              },
              done));
    return OkStatus();
  }
  void Clear() {
    Update([this](Ended*) {
      complete_.clear();
      incomplete_.clear();
      bytes_ = 0;
    });
  }
  int64_t size() const {
    std::lock_guard<std::mutex> lock(mu_);
    return static_cast<int64_t>(complete_.size());
  }
  int64_t incomplete_size() const {
    std::lock_guard<std::mutex> lock(mu_);
    return static_cast<int64_t>(incomplete_.size());
  }

 private:
  using Elements = std::map<int64_t, Element>;

  Status CheckIndex(int64_t key, int64_t index) const {
    if (index >= 0 && index < static_cast<int64_t>(types_.size()))
      return OkStatus();
    return InvalidArgument("Index '", index, "' for key '", key,
                           "' was out of bounds '", types_.size(), "'.");
  }
  std::optional<Status> TryPut(int64_t key, int64_t bytes,
                               const std::vector<int64_t>& indices,
                               Element* values) {
    const bool whole = indices.size() == types_.size();
    if (complete_.count(key) != 0 || (whole && incomplete_.count(key) != 0))
      return InvalidArgument("key: expected one that is not staged, got ", key);
    if (!HasRoom(static_cast<int64_t>(complete_.size()), bytes))
      return std::nullopt;
    Element& e = incomplete_[key];
    e.resize(types_.size());
    for (const int64_t i : indices)
      if (e[static_cast<size_t>(i)].valid())
        return InvalidArgument("The tensor for index '", i, "' for key '", key,
                               "' was already initialized '", types_.size(),
                               "'.");
    for (size_t i = 0; i < indices.size(); ++i)
      e[static_cast<size_t>(indices[i])] = std::move((*values)[i]);
    bytes_ += bytes;
    if (std::all_of(e.begin(), e.end(),
                    [](const Tensor& t) { return t.valid(); })) {
      complete_[key] = std::move(e);
      incomplete_.erase(key);
    }
    return OkStatus();
  }
  std::optional<Status> TryGet(const std::optional<int64_t>& key, bool take,
                               const std::vector<int64_t>& indices,
                               KernelContext* ctx, int first) {
    const auto at = key ? complete_.find(*key) : complete_.begin();
    if (at == complete_.end()) return std::nullopt;
    Element picked;
    for (const int64_t i : indices) {
      picked.push_back(at->second[static_cast<size_t>(i)]);
      if (!picked.back().valid())
        return InvalidArgument("Tensor at index '", i, "' for key '", at->first,
                               "' has already been removed.");
    }
    SLUICE_RETURN_IF_ERROR(CheckStagedOutputs(*ctx, picked, first));
    if (first > 0) ctx->set_output(0, Tensor::Scalar<int64_t>(at->first));
    if (take) {
      bytes_ -= BytesOf(picked);
      for (const int64_t i : indices)
        at->second[static_cast<size_t>(i)] = Tensor();
      if (std::none_of(at->second.begin(), at->second.end(),
                       [](const Tensor& t) { return t.valid(); }))
        complete_.erase(at);
    }
    for (size_t i = 0; i < picked.size(); ++i)
      ctx->set_output(first + static_cast<int>(i), std::move(picked[i]));
    return OkStatus();
  }

  const AttrValue::Types types_;
  Elements complete_, incomplete_;  // GUARDED_BY(mu_)
};

// ---- Kernels ----------------------------------------------------------------

// The area of a node: made by the first node of its name that runs.
template <typename Area>
struct AreaKernel {
  explicit AreaKernel(const Node& n) : options(n) {}
  Result<std::shared_ptr<Area>> Find(const KernelContext& ctx) const {
    ResourceManager* const manager = ctx.step().resources;
    if (manager == nullptr)
      return FailedPrecondition("staging area '", options.name.name,
                                "': expected a session that keeps resources, "
                                "got none");
    return manager->LookupOrCreate<Area>(
        options.name.container, options.name.name,
        [this] { return std::make_shared<Area>(options); });
  }
  const StagingOptions options;
};

struct StageKernel : AreaKernel<StagingArea> {
  using AreaKernel::AreaKernel;
  Status Start(KernelContext& ctx, const DoneFn& done) const {
    SLUICE_ASSIGN_OR_RETURN(const auto area, Find(ctx));
    SLUICE_ASSIGN_OR_RETURN(Element e, StagedValues(ctx, 0));
    return area->Put(std::move(e), ctx.step().cancellation, done);
  }
};
struct UnstageKernel : AreaKernel<StagingArea> {
  using AreaKernel::AreaKernel;
  Status Start(KernelContext& ctx, const DoneFn& done) const {
    SLUICE_ASSIGN_OR_RETURN(const auto area, Find(ctx));
    area->Take(&ctx, done);
    return OkStatus();
  }
};
struct StagePeekKernel : AreaKernel<StagingArea> {
  using AreaKernel::AreaKernel;
  Status Start(KernelContext& ctx, const DoneFn& done) const {
    SLUICE_ASSIGN_OR_RETURN(const auto area, Find(ctx));
    SLUICE_ASSIGN_OR_RETURN(const int64_t index,
                            array::IntScalar(ctx.input(0), "index"));
    if (index < 0) return InvalidArgument("index: expected >= 0, got ", index);
    area->Peek(index, &ctx, done);
    return OkStatus();
  }
};

Result<std::vector<int64_t>> StagedIndices(const Tensor& t) {
  if (t.rank() != 1)
    return InvalidArgument("indices: expected a vector, got shape ",
                           t.shape().ToString());
  return state::ToInt64s(t);
}

template <bool ordered>
struct MapStageKernel : AreaKernel<StagingMap<ordered>> {
  using AreaKernel<StagingMap<ordered>>::AreaKernel;
  Status Start(KernelContext& ctx, const DoneFn& done) const {
    SLUICE_ASSIGN_OR_RETURN(const auto area, this->Find(ctx));
    SLUICE_ASSIGN_OR_RETURN(const int64_t key,
                            array::IntScalar(ctx.input(0), "key"));
    SLUICE_ASSIGN_OR_RETURN(const std::vector<int64_t> indices,
                            StagedIndices(ctx.input(1)));
    SLUICE_ASSIGN_OR_RETURN(Element e, StagedValues(ctx, 2));
    return area->Put(key, indices, std::move(e), ctx.step().cancellation, done);
  }
};
template <bool ordered, bool take>
struct MapGetKernel : AreaKernel<StagingMap<ordered>> {
  using AreaKernel<StagingMap<ordered>>::AreaKernel;
  Status Start(KernelContext& ctx, const DoneFn& done) const {
    SLUICE_ASSIGN_OR_RETURN(const auto area, this->Find(ctx));
    SLUICE_ASSIGN_OR_RETURN(const int64_t key,
                            array::IntScalar(ctx.input(0), "key"));
    SLUICE_ASSIGN_OR_RETURN(const std::vector<int64_t> indices,
                            StagedIndices(ctx.input(1)));
    return area->Get(&key, take, indices, &ctx, 0, done);
  }
};
template <bool ordered>
struct MapTakeAnyKernel : AreaKernel<StagingMap<ordered>> {
  using AreaKernel<StagingMap<ordered>>::AreaKernel;
  Status Start(KernelContext& ctx, const DoneFn& done) const {
    SLUICE_ASSIGN_OR_RETURN(const auto area, this->Find(ctx));
    SLUICE_ASSIGN_OR_RETURN(const std::vector<int64_t> indices,
                            StagedIndices(ctx.input(0)));
    return area->Get(nullptr, true, indices, &ctx, 1, done);
  }
};

template <typename Area, bool incomplete = false>
struct AreaSizeKernel : AreaKernel<Area> {
  using AreaKernel<Area>::AreaKernel;
  Status Run(KernelContext& ctx) const {
    SLUICE_ASSIGN_OR_RETURN(const auto area, this->Find(ctx));
    const int64_t n = incomplete ? area->incomplete_size() : area->size();
    ctx.set_output(0, Tensor::Scalar(static_cast<int32_t>(n)));
    return OkStatus();
  }
};
template <typename Area>
struct AreaClearKernel : AreaKernel<Area> {
  using AreaKernel<Area>::AreaKernel;
  Status Run(KernelContext& ctx) const {
    SLUICE_ASSIGN_OR_RETURN(const auto area, this->Find(ctx));
    area->Clear();
    return OkStatus();
  }
};

Status MapTakeAnyShape(ShapeContext& c) {
  c.set_output(0, PartialShape::Scalar());
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

constexpr const char* kStages =
    "a staging area holds values; gradients do not flow through it";

#define SLUICE_STAGING_OP(Name)           \
  SLUICE_OP(Name)                         \
      .Attr("capacity: int >= 0 = 0")     \
      .Attr("memory_limit: int >= 0 = 0") \
      .Attr("container: string = ''")     \
      .Attr("shared_name: string = ''")   \
      .Stateful()                         \
      .HostOnly()                         \
      .Family("queues")                   \
      .NoGradient(kStages)

SLUICE_STAGING_OP(Stage)
    .Input("values: dtypes")
    .Attr("dtypes: list(type) >= 1")
    .Waits()
    .Shape(NoOutputs)
    .Kernel(queues::WaitingKernel<StageKernel>())
    .Doc("Adds an element to a staging area; waits until there is room.");
SLUICE_STAGING_OP(Unstage)
    .Output("values: dtypes")
    .Attr("dtypes: list(type) >= 1")
    .Waits()
    .Shape(UnknownShape)
    .Kernel(queues::WaitingKernel<UnstageKernel>())
    .Doc(
        "Takes the oldest element of a staging area; waits until there is "
        "one.");
SLUICE_STAGING_OP(StagePeek)
    .Input("index: int32")
    .Output("values: dtypes")
    .Attr("dtypes: list(type) >= 1")
    .Waits()
    .Shape(UnknownShape)
    .Kernel(queues::WaitingKernel<StagePeekKernel>())
    .Doc(
        "Copies the element at a position in a staging area; waits until "
        "there is one.");
SLUICE_STAGING_OP(StageSize)
    .Output("size: int32")
    .Attr("dtypes: list(type)")
    .Shape(ScalarShape)
    .Kernel(CpuState<AreaSizeKernel<StagingArea>>())
    .Doc("The number of elements in a staging area.");
SLUICE_STAGING_OP(StageClear)
    .Attr("dtypes: list(type)")
    .Shape(NoOutputs)
    .Kernel(CpuState<AreaClearKernel<StagingArea>>())
    .Doc("Removes all elements of a staging area.");

#define SLUICE_STAGING_MAP_OPS(Prefix, kOrdered)                              \
  SLUICE_STAGING_OP(Prefix##Stage)                                            \
      .Input("key: int64")                                                    \
      .Input("indices: int32")                                                \
      .Input("values: fake_dtypes")                                           \
      .Attr("dtypes: list(type)")                                             \
      .Attr("fake_dtypes: list(type) >= 1")                                   \
      .Waits()                                                                \
      .Shape(NoOutputs)                                                       \
      .Kernel(queues::WaitingKernel<MapStageKernel<kOrdered>>())              \
      .Doc(                                                                   \
          "Stages components of the element of a key; waits until there is "  \
          "room.");                                                           \
  SLUICE_STAGING_OP(Prefix##Unstage)                                          \
      .Input("key: int64")                                                    \
      .Input("indices: int32")                                                \
      .Output("values: dtypes")                                               \
      .Attr("dtypes: list(type) >= 1")                                        \
      .Waits()                                                                \
      .Shape(UnknownShape)                                                    \
      .Kernel((queues::WaitingKernel<MapGetKernel<kOrdered, true>>()))        \
      .Doc(                                                                   \
          "Takes components of the element of a key; waits until it is "      \
          "complete.");                                                       \
  SLUICE_STAGING_OP(Prefix##UnstageNoKey)                                     \
      .Input("indices: int32")                                                \
      .Output("key: int64")                                                   \
      .Output("values: dtypes")                                               \
      .Attr("dtypes: list(type) >= 1")                                        \
      .Waits()                                                                \
      .Shape(MapTakeAnyShape)                                                 \
      .Kernel(queues::WaitingKernel<MapTakeAnyKernel<kOrdered>>())            \
      .Doc(                                                                   \
          "Takes components of the complete element with the least key, and " \
          "the key; waits until there is one.");                              \
  SLUICE_STAGING_OP(Prefix##Peek)                                             \
      .Input("key: int64")                                                    \
      .Input("indices: int32")                                                \
      .Output("values: dtypes")                                               \
      .Attr("dtypes: list(type) >= 1")                                        \
      .Waits()                                                                \
      .Shape(UnknownShape)                                                    \
      .Kernel((queues::WaitingKernel<MapGetKernel<kOrdered, false>>()))       \
      .Doc(                                                                   \
          "Copies components of the element of a key; waits until it is "     \
          "complete.");                                                       \
  SLUICE_STAGING_OP(Prefix##Size)                                             \
      .Output("size: int32")                                                  \
      .Attr("dtypes: list(type)")                                             \
      .Shape(ScalarShape)                                                     \
      .Kernel(CpuState<AreaSizeKernel<StagingMap<kOrdered>>>())               \
      .Doc("The number of complete elements.");                               \
  SLUICE_STAGING_OP(Prefix##IncompleteSize)                                   \
      .Output("size: int32")                                                  \
      .Attr("dtypes: list(type)")                                             \
      .Shape(ScalarShape)                                                     \
      .Kernel((CpuState<AreaSizeKernel<StagingMap<kOrdered>, true>>()))       \
      .Doc("The number of incomplete elements.");                             \
  SLUICE_STAGING_OP(Prefix##Clear)                                            \
      .Attr("dtypes: list(type)")                                             \
      .Shape(NoOutputs)                                                       \
      .Kernel(CpuState<AreaClearKernel<StagingMap<kOrdered>>>())              \
      .Doc("Removes all elements of a staging area with keys.")

SLUICE_STAGING_MAP_OPS(Map, false);
SLUICE_STAGING_MAP_OPS(OrderedMap, true);

#undef SLUICE_STAGING_MAP_OPS
#undef SLUICE_STAGING_OP

}  // namespace
}  // namespace sluice
