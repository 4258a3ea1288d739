// Mutable state that outlives a step, by container and name.
//
//   SessionOptions options;
//   options.resources = std::make_shared<ResourceManager>();
//   Session trainer(graph, options);
//   Session evaluator(graph, options);  // Reads what the trainer assigns.
#ifndef SLUICE_EXEC_CORE_RESOURCES_H_
#define SLUICE_EXEC_CORE_RESOURCES_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tensor/tensor.h"

namespace sluice {

struct StageCounters;  // exec/core/pipeline_stages.h

// Maps (container, name) to resources. One per session, or shared by the
// sessions of a process; another one per step for resources that must not
// outlive it. Thread-safe.
class ResourceManager {
 public:
  static constexpr const char* kDefaultContainer = "localhost";

  // Finds the resource or makes it. InvalidArgument if one of that name has
  // another C++ type.
  template <typename T>
  Result<std::shared_ptr<T>> LookupOrCreate(
      const std::string& container, const std::string& name,
      const std::function<std::shared_ptr<T>()>& make) {
    std::lock_guard<std::mutex> lock(mu_);
    std::shared_ptr<Resource>& r = resources_[{Container(container), name}];
    if (r == nullptr) r = make();
    std::shared_ptr<T> typed = std::dynamic_pointer_cast<T>(r);
    if (typed == nullptr)
      return InvalidArgument("resource '", name,
                             "': expected another type, got ", r->TypeName());
    return typed;
  }
  // NotFound if there is none.
  template <typename T>
  Result<std::shared_ptr<T>> Lookup(const std::string& container,
                                    const std::string& name) {
    std::lock_guard<std::mutex> lock(mu_);
    auto it = resources_.find({Container(container), name});
    std::shared_ptr<T> typed = it == resources_.end()
                                   ? nullptr
                                   : std::dynamic_pointer_cast<T>(it->second);
    if (typed == nullptr)
      return NotFound("resource '", name, "' does not exist in container '",
                      Container(container), "'");
    return typed;
  }
  // AlreadyExists if there is one.
  Status Create(const std::string& container, const std::string& name,
                std::shared_ptr<Resource> resource);
  // NotFound if there is none. Handles that point to it keep it alive.
  Status Delete(const std::string& container, const std::string& name);
  // Removes all resources of one container (Session::Reset), or all.
  void ClearContainer(const std::string& container);
  void Clear();

  // The counters of the pipelines whose queues are here.
  std::vector<StageCounters> PipelineStages();

  // Changes whenever a resource is removed; unique across managers. Code that
  // caches look-ups compares it first.
  uint64_t generation() const {
    return generation_.load(std::memory_order_acquire);
  }

 private:
  static uint64_t NextGeneration();
  static std::string Container(const std::string& c) {
    return c.empty() ? kDefaultContainer : c;
  }
  std::mutex mu_;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<Resource>>
      resources_;                                       // GUARDED_BY(mu_)
  std::atomic<uint64_t> generation_{NextGeneration()};  // Written under mu_.
};

// A tensor that steps read and update. A reader takes a snapshot (shares the
// buffer), so it sees the old or the new whole tensor; an update writes in
// place only if the buffer is not shared, and otherwise into another one.
// Thread-safe.
class Variable : public Resource {
 public:
  Variable(std::string name, DType dtype, PartialShape shape)
      : Resource(Kind::kVariable),
        name_(std::move(name)),
        dtype_(dtype),
        shape_(std::move(shape)) {}
  std::string TypeName() const override { return "Variable"; }
  const std::string& name() const { return name_; }
  DType dtype() const { return dtype_; }
  const PartialShape& shape() const { return shape_; }  // As declared.

  bool initialized() const {
    std::lock_guard<std::mutex> lock(mu_);
    return value_.valid();
  }
  // FailedPrecondition names the variable if it has no value.
  Result<Tensor> Read() const;
  void Assign(Tensor value) {
    std::lock_guard<std::mutex> lock(mu_);
    value_ = std::move(value);
  }
  // As Assign, but InvalidArgument unless the value has the shape of the one it
  // replaces, or fits the declared shape if there is none.
  Status AssignSameShape(Tensor value);
  // Back to uninitialised.
  void Reset() { Assign(Tensor()); }
  // Calls fn(Tensor&) on the value under the lock, with an unshared buffer, so
  // that fn may write into it. FailedPrecondition if there is no value. Updates
  // of one variable are serialised.
  template <typename Fn>
  Status Update(Fn&& fn) {
    std::lock_guard<std::mutex> lock(mu_);
    SLUICE_RETURN_IF_ERROR(PrepareUpdate());
    return fn(value_);
  }
  // As Update, for an fn that writes all elements: calls fn(const Tensor& from,
  // Tensor& to). They are one tensor if nothing shares the buffer. Otherwise
  // `to` is a new one with the type and shape of `from` whose elements are
  // undefined, and becomes the value if fn succeeds: a snapshot then costs fn
  // other memory to write to, but no copy.
  template <typename Fn>
  Status Rewrite(Fn&& fn) {
    std::lock_guard<std::mutex> lock(mu_);
    Tensor next;
    SLUICE_RETURN_IF_ERROR(PrepareRewrite(&next));
    if (!next.valid()) return fn(std::as_const(value_), value_);
    SLUICE_RETURN_IF_ERROR(fn(std::as_const(value_), next));
    value_ = std::move(next);
    return OkStatus();
  }
  // Calls fn(const Tensor&) on the value under the lock. For reads that are
  // short compared to copying the value, which a snapshot may force on an
  // update.
  template <typename Fn>
  Status View(Fn&& fn) const {
    std::lock_guard<std::mutex> lock(mu_);
    if (!value_.valid()) [[unlikely]]
      return Uninitialized();
    return fn(value_);
  }
  // Held by an op that updates several variables together (use_locking): lock
  // in the order of addresses.
  std::mutex& update_mutex() { return update_mu_; }

 private:
  // REQUIRES: mu_ held.
  Status PrepareUpdate();
  Status PrepareRewrite(Tensor* next);  // Leaves it invalid if none is needed.
  Status Uninitialized() const;

  const std::string name_;
  const DType dtype_;
  const PartialShape shape_;
  mutable std::mutex mu_;
  Tensor value_;  // GUARDED_BY(mu_); invalid while uninitialised.
  std::mutex update_mu_;
};

// The resource as a variable; null if it is null or something else.
inline Variable* AsVariable(Resource* resource) {
  return resource != nullptr && resource->kind() == Resource::Kind::kVariable
             ? static_cast<Variable*>(resource)
             : nullptr;
}

}  // namespace sluice

#endif  // SLUICE_EXEC_CORE_RESOURCES_H_
