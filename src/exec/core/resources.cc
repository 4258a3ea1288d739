#include "exec/core/resources.h"

#include "exec/core/runtime_resource.h"

namespace sluice {
namespace {

bool IsKept(const std::pair<std::string, std::string>& key) {
  return key.first == kRuntimeContainer && key.second == kRuntimeResource;
}

}  // namespace

uint64_t ResourceManager::NextGeneration() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

Status ResourceManager::Create(const std::string& container,
                               const std::string& name,
                               std::shared_ptr<Resource> resource) {
  std::lock_guard<std::mutex> lock(mu_);
  auto [it, fresh] =
      resources_.try_emplace({Container(container), name}, std::move(resource));
  if (!fresh)
    return AlreadyExists("resource '", name, "' exists already in container '",
                         Container(container), "' (", it->second->TypeName(),
                         ")");
  return OkStatus();
}

Status ResourceManager::Delete(const std::string& container,
                               const std::string& name) {
  std::lock_guard<std::mutex> lock(mu_);
  if (resources_.erase({Container(container), name}) == 0)
    return NotFound("resource '", name, "' does not exist in container '",
                    Container(container), "'");
  generation_.store(NextGeneration(), std::memory_order_release);
  return OkStatus();
}

void ResourceManager::ClearContainer(const std::string& container) {
  std::lock_guard<std::mutex> lock(mu_);
  generation_.store(NextGeneration(), std::memory_order_release);
  std::erase_if(resources_, [c = Container(container)](const auto& entry) {
    return entry.first.first == c && !IsKept(entry.first);
  });
}

void ResourceManager::Clear() {
  std::lock_guard<std::mutex> lock(mu_);
  if (resources_.empty()) return;  // (After most steps.)
  generation_.store(NextGeneration(), std::memory_order_release);
  std::erase_if(resources_,
                [](const auto& entry) { return !IsKept(entry.first); });
}

Result<Tensor> Variable::Read() const {
  std::lock_guard<std::mutex> lock(mu_);
  if (!value_.valid()) [[unlikely]]
    return Uninitialized();
  return value_;
}

Status Variable::AssignSameShape(Tensor value) {
  std::lock_guard<std::mutex> lock(mu_);
  const bool fits = value_.valid() ? value.shape() == value_.shape()
                                   : shape_.CompatibleWith(value.shape());
  if (!fits)
    return InvalidArgument(
        "assignment to variable '", name_, "': expected shape ",
        value_.valid() ? value_.shape().ToString() : shape_.ToString(),
        ", got ", value.shape().ToString());
  value_ = std::move(value);
  return OkStatus();
}

Status Variable::PrepareUpdate() {
  if (!value_.valid()) return Uninitialized();
  if (!value_.unique()) {
    SLUICE_ASSIGN_OR_RETURN(value_, value_.Clone());
  }
  return OkStatus();
}

Status Variable::PrepareRewrite(Tensor* next) {
  if (value_.unique() || !IsPlain(value_.dtype())) return PrepareUpdate();
  SLUICE_ASSIGN_OR_RETURN(*next, Tensor::Make(value_.dtype(), value_.shape()));
  return OkStatus();
}

Status Variable::Uninitialized() const {
  return FailedPrecondition("variable '", name_,
                            "': expected a value, got an uninitialized "
                            "variable (run its initializer first)");
}

}  // namespace sluice
