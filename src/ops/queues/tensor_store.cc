#include "ops/queues/tensor_store.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "ops/common/carrier_type.h"

namespace sluice {
namespace {

// Entries of the first block, and of the largest.
constexpr size_t kFirstBlock = 8, kLargestBlock = 512;

bool FitsElement(const PartialShape& element, const Shape& shape) {
  if (!element.rank_known()) return true;
  if (element.rank() != shape.rank()) return false;
  for (int i = 0; i < shape.rank(); ++i)
    if (element.dim(i) >= 0 && element.dim(i) != shape.dim(i)) return false;
  return true;
}

}  // namespace

std::string StoreKey::ToString() const {
  return text == nullptr ? absl::StrCat(number)
                         : absl::StrCat("\"", *text, "\"");
}

uint64_t StoreSource(const std::string& source) {
  uint64_t h = 14695981039346656037ULL;  // FNV-1a.
  for (const char c : source)
    h = (h ^ static_cast<uint8_t>(c)) * 1099511628211ULL;
  return h;
}

// ---- Waiting ----------------------------------------------------------------

void StoreWait::Begin(TensorStoreState* store, KernelContext* ctx,
                      const std::vector<uint64_t>* sources, SetOutputs set,
                      DoneFn done) {
  auto wait = std::make_shared<StoreWait>();
  wait->store_ = store;
  wait->ctx_ = ctx;
  wait->sources_ = sources;
  wait->set_ = set;
  wait->done_ = std::move(done);
  wait->keys_ = ctx->input(1);
  wait->step_ = ctx->step().cancellation;
  {
    std::unique_lock<std::mutex> lock(store->mu_);
    if (!store->Watch(wait->step_)) {
      lock.unlock();
      wait->decided_.store(true);
      return wait->done_(store->WhyCancelled());
    }
  }
  wait->Resume();
}

void StoreWait::Resume() {
  // (A cancelled read's store may be gone, but not if this is called by one of
  // its writes or by Begin. A read that is cancelled now waits for the lock in
  // Forget before its step ends.)
  {
    std::unique_lock<std::mutex> lock(store_->mu_);
    if (decided_.load()) return;
    if (!store_->Advance(shared_from_this())) {
      // (CancelWaits may have looked before.)
      const bool cancelled = step_->cancelled();
      lock.unlock();
      if (cancelled) Cancel();
      return;
    }
    if (decided_.exchange(true)) return;
    store_->Unwatch(step_);
  }
  const DoneFn done = std::move(done_);
  done(set_(*ctx_, std::span<Tensor>(values_.data(), values_.size())));
}

void StoreWait::Cancel() {
  if (decided_.exchange(true)) return;
  // (Until `done`, the context's input keeps the store.)
  store_->Forget(this);
  const DoneFn done = std::move(done_);
  done(store_->WhyCancelled());
}

Status TensorStoreState::WhyCancelled() const {
  return Cancelled(
      "the step was cancelled while it waited for an element of TensorStore '",
      decl_->name, "'");
}

bool TensorStoreState::Watch(Cancellation* step) {
  for (WatchedStep& w : watched_)
    if (w.step == step) {
      ++w.waits;
      return true;
    }
  const int64_t callback = step->Register(
      [weak = std::weak_ptr<TensorStoreState>(KeptByOwner()), step] {
        if (const auto store = weak.lock()) store->CancelWaits(step);
      });
  if (callback < 0) return false;
  watched_.push_back({step, callback, 1});
  return true;
}

void TensorStoreState::Unwatch(Cancellation* step) {
  for (WatchedStep& w : watched_) {
    if (w.step != step) continue;
    if (--w.waits > 0) return;
    step->Deregister(w.callback);
    w = watched_.back();
    watched_.pop_back();
    return;
  }
}

// (A read that a write has just taken out of its entry finds that the step is
// cancelled when it waits again.)
void TensorStoreState::CancelWaits(Cancellation* step) {
  Waits waits;
  {
    std::lock_guard<std::mutex> lock(mu_);
    for (const std::vector<Entry>& block : blocks_)
      for (const Entry& e : block)
        for (const std::shared_ptr<StoreWait>& w : e.waiting)
          if (w->step_ == step) waits.push_back(w);
  }
  for (const std::shared_ptr<StoreWait>& w : waits) w->Cancel();
}

// ---- The store --------------------------------------------------------------

Status TensorStoreState::WhyUnfit(const Tensor& keys, DType t) const {
  if (keys.dtype() != decl_->key_dtype)
    return InvalidArgument(
        "TensorStore '", decl_->name, "': expected keys of type ",
        DTypeName(decl_->key_dtype), ", got ", DTypeName(keys.dtype()));
  if (keys.rank() > 1)
    return InvalidArgument("TensorStore '", decl_->name,
                           "': expected a key or a vector of keys, got shape ",
                           keys.shape().ToString());
  if (t != DType::kInvalid && t != decl_->dtype)
    return InvalidArgument("TensorStore '", decl_->name,
                           "': expected elements of type ",
                           DTypeName(decl_->dtype), ", got ", DTypeName(t));
  return OkStatus();
}

Result<std::shared_ptr<TensorStoreState>> TensorStoreState::Gradient(
    const std::string& source, const StepContext& step) {
  const auto tell = [&](TensorStoreState* g) {
    g->forward_ = this;
    g->source_name_ = source;
    g->source_ = StoreSource(source);
  };
  if (shared()) {
    return step.step_resources->LookupOrCreate<TensorStoreState>(
        "",
        absl::StrCat("gradient of ", reinterpret_cast<uintptr_t>(this), "/",
                     source),
        [&] {
          auto g = std::make_shared<TensorStoreState>(decl_);
          tell(g.get());
          g->kept_forward_ = shared_from_this();
          return g;
        });
  }
  std::lock_guard<std::mutex> lock(mu_);
  std::unique_ptr<TensorStoreState>& g = gradients_[source];
  if (g == nullptr) {
    g = std::make_unique<TensorStoreState>(decl_);
    tell(g.get());
  }
  return g->KeptByOwner();
}

std::shared_ptr<TensorStoreState> TensorStoreState::KeptByOwner() {
  TensorStoreState* owner = this;
  while (owner->forward_ != nullptr && owner->kept_forward_ == nullptr)
    owner = owner->forward_;
  return std::shared_ptr<TensorStoreState>(owner->shared_from_this(), this);
}

void TensorStoreState::Expect(const StoreKey& key) {
  TensorStoreState* const counts = forward_->shared() ? this : forward_;
  std::lock_guard<std::mutex> lock(counts->mu_);
  Count(&counts->At(key), source_);
}

void TensorStoreState::Count(Entry* entry, uint64_t source) {
  for (auto& [s, count] : entry->reads)
    if (s == source) {
      ++count;
      return;
    }
  entry->reads.emplace_back(source, 1);
}

int64_t TensorStoreState::CountOf(const Entry* entry, uint64_t source) {
  if (entry != nullptr)
    for (const auto& [s, count] : entry->reads)
      if (s == source) return count;
  return 0;
}

TensorStoreState::Entry* TensorStoreState::NewEntry() {
  if (blocks_.empty() || blocks_.back().size() == blocks_.back().capacity()) {
    const size_t size =
        blocks_.empty() ? kFirstBlock
                        : std::min(2 * blocks_.back().size(), kLargestBlock);
    blocks_.emplace_back().reserve(size);
  }
  return &blocks_.back().emplace_back();
}

TensorStoreState::Entry& TensorStoreState::At(const StoreKey& key) {
  Entry*& e =
      key.text == nullptr ? by_number_[key.number] : by_text_[*key.text];
  if (e == nullptr) e = NewEntry();
  return *e;
}

TensorStoreState::Entry* TensorStoreState::Find(const StoreKey& key) {
  if (key.text == nullptr) {
    const auto it = by_number_.find(key.number);
    return it == by_number_.end() ? nullptr : it->second;
  }
  const auto it = by_text_.find(*key.text);
  return it == by_text_.end() ? nullptr : it->second;
}

uint32_t TensorStoreState::Number(
    const std::shared_ptr<const std::string>& writer) {
  // (A graph has few writes of one store, but any number may share it.)
  for (size_t i = 0; i < writers_.size(); ++i)
    if (writers_[i] == writer) return static_cast<uint32_t>(i);
  writers_.push_back(writer);
  return static_cast<uint32_t>(writers_.size() - 1);
}

void TensorStoreState::Run(const Waits& waits) {
  for (const std::shared_ptr<StoreWait>& w : waits) w->Resume();
}

Status TensorStoreState::Write(
    const StoreKey& key, Tensor&& value,
    const std::shared_ptr<const std::string>& writer) {
  if (is_gradient())
    return InvalidArgument("TensorStore '", decl_->name,
                           "': expected no write to a store of gradients");
  if (!FitsElement(decl_->element_shape, value.shape()))
    return InvalidArgument("TensorStore '", decl_->name, "': key ",
                           key.ToString(), ": expected a value of shape ",
                           decl_->element_shape.ToString(), ", got ",
                           value.shape().ToString());
  Waits waits;
  {
    std::lock_guard<std::mutex> lock(mu_);
    Entry& e = At(key);
    if (e.value.valid())
      return AlreadyExists("TensorStore '", decl_->name, "': key ",
                           key.ToString(),
                           ": expected one write, got a second by ", *writer,
                           "; the first was by ", *writers_[e.writer]);
    e.value = std::move(value);
    e.writer = Number(writer);
    ++written_;
    if (e.waiting.empty()) return OkStatus();
    waits.swap(e.waiting);
  }
  Run(waits);
  return OkStatus();
}

Status TensorStoreState::Add(const StoreKey& key, Tensor part) {
  const void* const from = std::as_const(part).raw();
  const Shape shape = part.shape();
  return AddPart(key, from, shape, &part);
}

Status TensorStoreState::AddRows(const Tensor& keys, Tensor parts) {
  const Shape row(parts.shape().dims().subspan(1));
  const auto count = static_cast<size_t>(keys.num_elements());
  const size_t bytes = count == 0 ? 0 : parts.bytes() / count;
  const char* const from = std::as_const(parts).raw<char>();
  for (size_t i = 0; i < count; ++i)
    SLUICE_RETURN_IF_ERROR(
        AddPart(StoreKey::At(keys, i), from + i * bytes, row, nullptr));
  return OkStatus();
}

// Adds the elements at `from`. `whole`: the tensor that has them, which this
// may keep; null if they are a part of one.
Status TensorStoreState::AddPart(const StoreKey& key, const void* from,
                                 const Shape& shape, Tensor* whole) {
  if (!is_gradient())
    return InvalidArgument("TensorStore '", decl_->name,
                           "': expected a store of gradients to add to");
  const DType t = decl_->dtype;
  const auto add = simd::GetBinary(simd::BinaryOp::kAdd, CarrierType(t));
  if (!add)
    return InvalidArgument("TensorStore '", decl_->name,
                           "': expected a type that has sums, got ",
                           DTypeName(t));
  Waits waits;
  {
    std::lock_guard<std::mutex> lock(mu_);
    Entry& e = At(key);
    if (!e.value.valid() && whole != nullptr) {
      e.value = std::move(*whole);
    } else if (!e.value.valid()) {
      SLUICE_ASSIGN_OR_RETURN(e.value, Tensor::Make(t, shape));
      if (e.value.bytes() > 0)
        std::memcpy(e.value.raw(), from, e.value.bytes());
    } else if (!(shape == e.value.shape())) {
      return InvalidArgument("TensorStore '", decl_->name,
                             "': gradient of key ", key.ToString(),
                             ": expected shape ", e.value.shape().ToString(),
                             ", got ", shape.ToString());
    } else if (const int64_t n = shape.num_elements(); n > 0) {
      if (e.value.unique()) {
        add(e.value.raw(), from, e.value.raw(), n);
      } else if (whole != nullptr && whole->unique()) {
        add(std::as_const(e.value).raw(), from, whole->raw(), n);
        e.value = std::move(*whole);
      } else {
        SLUICE_ASSIGN_OR_RETURN(Tensor sum, Tensor::Make(t, shape));
        add(std::as_const(e.value).raw(), from, sum.raw(), n);
        e.value = std::move(sum);
      }
    }
    if (e.parts++ == 0) ++written_;
    if (!e.waiting.empty() && Available(key, e)) waits.swap(e.waiting);
  }
  Run(waits);
  return OkStatus();
}

int64_t TensorStoreState::ReadsOf(const StoreKey& key, uint64_t source) {
  std::lock_guard<std::mutex> lock(mu_);
  return CountOf(Find(key), source);
}

int64_t TensorStoreState::Expected(const StoreKey& key, const Entry* entry) {
  return forward_->shared() ? CountOf(entry, source_)
                            : forward_->ReadsOf(key, source_);
}

Result<Shape> TensorStoreState::ShapeOf(const StoreKey& key) {
  if (is_gradient()) return forward_->ShapeOf(key);
  std::lock_guard<std::mutex> lock(mu_);
  const Entry* const e = Find(key);
  if (e == nullptr || !e->value.valid())
    return Internal("TensorStore '", decl_->name, "': expected key ",
                    key.ToString(), " to be written before its gradient");
  return e->value.shape();
}

bool TensorStoreState::Available(const StoreKey& key, Entry& entry) {
  if (!is_gradient()) return entry.value.valid();
  if (entry.parts < Expected(key, &entry)) return false;
  if (entry.value.valid()) return true;
  const Result<Shape> shape = forward_->ShapeOf(key);
  if (!shape.ok()) return false;
  Result<Tensor> zeros = Tensor::Zeros(decl_->dtype, *shape);
  if (!zeros.ok()) return false;
  entry.value = *std::move(zeros);
  return true;
}

bool TensorStoreState::TakeLocked(const StoreKey& key,
                                  const std::vector<uint64_t>& sources,
                                  Tensor* value) {
  Entry* e = Find(key);
  if (e == nullptr) {
    if (!is_gradient()) return false;
    e = &At(key);
  }
  if (!Available(key, *e)) return false;
  *value = e->value;
  for (const uint64_t s : sources) Count(e, s);
  return true;
}

bool TensorStoreState::Take(const StoreKey& key,
                            const std::vector<uint64_t>& sources,
                            Tensor* value) {
  std::lock_guard<std::mutex> lock(mu_);
  return TakeLocked(key, sources, value);
}

bool TensorStoreState::Advance(const std::shared_ptr<StoreWait>& wait) {
  for (; wait->next_ < wait->size(); ++wait->next_) {
    const StoreKey key = StoreKey::At(wait->keys_, wait->next_);
    Tensor value;
    if (!TakeLocked(key, *wait->sources_, &value)) {
      Waits& waiting = At(key).waiting;
      wait->place_ = waiting.size();
      waiting.push_back(wait);
      return false;
    }
    wait->values_.push_back(std::move(value));
  }
  return true;
}

// Of a read that is cancelled.
void TensorStoreState::Forget(StoreWait* wait) {
  std::lock_guard<std::mutex> lock(mu_);
  Unwatch(wait->step_);
  if (wait->next_ >= wait->size()) return;
  Entry* const e = Find(StoreKey::At(wait->keys_, wait->next_));
  if (e == nullptr || wait->place_ >= e->waiting.size() ||
      e->waiting[wait->place_].get() != wait)
    return;  // (A write is about to let it go on.)
  e->waiting.back()->place_ = wait->place_;
  std::swap(e->waiting[wait->place_], e->waiting.back());
  e->waiting.pop_back();
}

bool TensorStoreState::Has(const StoreKey& key) {
  std::lock_guard<std::mutex> lock(mu_);
  const Entry* const e = Find(key);
  return e != nullptr && e->value.valid();
}

int64_t TensorStoreState::Size() {
  std::lock_guard<std::mutex> lock(mu_);
  return written_;
}

Result<Tensor> TensorStoreState::Keys() {
  std::lock_guard<std::mutex> lock(mu_);
  const auto all = [](const auto& entries, auto* keys) {
    for (const auto& [key, e] : entries)
      if (e->value.valid()) keys->push_back(key);
    std::sort(keys->begin(), keys->end());
  };
  if (decl_->key_dtype == DType::kString) {
    std::vector<std::string> keys;
    all(by_text_, &keys);
    SLUICE_ASSIGN_OR_RETURN(
        Tensor t, Tensor::Make(DType::kString,
                               Shape({static_cast<int64_t>(keys.size())})));
    std::move(keys.begin(), keys.end(), t.raw<std::string>());
    return t;
  }
  std::vector<int64_t> keys;
  all(by_number_, &keys);
  SLUICE_ASSIGN_OR_RETURN(
      Tensor t,
      Tensor::Make(DType::kInt64, Shape({static_cast<int64_t>(keys.size())})));
  std::copy(keys.begin(), keys.end(), t.raw<int64_t>());
  return t;
}

std::string TensorStoreState::Missing(const Tensor& keys) {
  std::lock_guard<std::mutex> lock(mu_);
  for (int64_t i = 0; i < keys.num_elements(); ++i) {
    const StoreKey key = StoreKey::At(keys, static_cast<size_t>(i));
    Entry* const e = Find(key);
    if (!is_gradient()) {
      if (e == nullptr || !e->value.valid())
        return absl::StrCat("key ", key.ToString(), " of TensorStore '",
                            decl_->name, "'");
      continue;
    }
    const uint32_t parts = e == nullptr ? 0 : e->parts;
    const int64_t expected = Expected(key, e);
    if (parts < expected)
      return absl::StrCat("the gradient of key ", key.ToString(),
                          " of TensorStore '", decl_->name, "', with ", parts,
                          " of ", expected, " parts");
  }
  return absl::StrCat("TensorStore '", decl_->name, "'");
}

}  // namespace sluice
