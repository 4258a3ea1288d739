// The state behind a TensorStore handle (docs/design/045-tensor-store.md).
#ifndef SLUICE_OPS_QUEUES_TENSOR_STORE_H_
#define SLUICE_OPS_QUEUES_TENSOR_STORE_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "base/status.h"
#include "exec/core/cancellation.h"
#include "exec/core/kernel.h"
#include "exec/core/resources.h"
#include "kernels/simd/binary.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

namespace sluice {

// The declaration of a TensorStore node.
struct TensorStoreDecl {
  std::string name;  // For messages.
  DType dtype = DType::kInvalid;
  DType key_dtype = DType::kInt64;
  PartialShape element_shape;
  bool shared = false;  // By steps; else it belongs to one.
};

// A key: a number or a string, which must live as long.
struct StoreKey {
  int64_t number = 0;
  const std::string* text = nullptr;  // Null: the number.
  // Element i of a tensor of keys, a scalar or a vector, which must live as
  // long.
  static StoreKey At(const Tensor& keys, size_t i) {
    if (keys.dtype() == DType::kString) return {0, &keys.raw<std::string>()[i]};
    return {keys.raw<int64_t>()[i], nullptr};
  }
  std::string ToString() const;
};

class TensorStoreState;

// A read that waits for elements of one store, in the entry of the next one. A
// write of that one and the end of the step compete: who decides first
// completes it. It uses the kernel's context only after it has decided, which
// keeps the store alive.
class StoreWait : public std::enable_shared_from_this<StoreWait> {
 public:
  // Waits for keys[0], keys[1], ... in turn; then calls set(ctx, values), which
  // sets the outputs, and done. `source_reads`: of the node.
  using SetOutputs = Status (*)(KernelContext& ctx, std::span<Tensor> values);
  static void Begin(TensorStoreState* store, KernelContext* ctx,
                    const std::vector<uint64_t>* sources, SetOutputs set,
                    DoneFn done);

 private:
  friend class TensorStoreState;
  // Goes on after a write. REQUIRES: no lock held.
  void Resume();
  void Cancel();
  size_t size() const { return static_cast<size_t>(keys_.num_elements()); }

  TensorStoreState* store_ = nullptr;
  KernelContext* ctx_ = nullptr;
  Cancellation* step_ = nullptr;  // Lives until this is decided.
  const std::vector<uint64_t>* sources_ = nullptr;
  SetOutputs set_ = nullptr;
  DoneFn done_;
  Tensor keys_;
  size_t next_ = 0;   // Guarded by the store's lock.
  size_t place_ = 0;  // The same; in Entry::waiting of that key.
  // Of keys before next_; by who goes on.
  absl::InlinedVector<Tensor, 4> values_;
  std::atomic<bool> decided_{false};
};

// Tensors of one type by key, each written once and read any number of times,
// and the stores of gradients that belong to it. Thread-safe: one lock each,
// which is not held while reads complete; the lock of a store of gradients is
// taken before that of its forward store.
//
// In a forward store an element is available when it has been written. In the
// store of gradients of a source it is available when as many parts have been
// added as there were reads in the forward store that add to this source
// (Take's `sources`) or as were announced by Expect; an element without any is
// zero. So it must not be read before all these have run.
//
// Owned by the tokens of its handle, and by a resource manager if shared. A
// store of gradients is a part of its forward store, and handles of it own the
// latter; that of a shared store is a resource of the step.
class TensorStoreState final
    : public Resource,
      public std::enable_shared_from_this<TensorStoreState> {
 public:
  explicit TensorStoreState(std::shared_ptr<const TensorStoreDecl> decl)
      : decl_(std::move(decl)) {}

  std::string TypeName() const override { return "TensorStore"; }
  const TensorStoreDecl& decl() const { return *decl_; }
  bool is_gradient() const { return forward_ != nullptr; }
  // Whether steps share it: a store of gradients belongs to one step.
  bool shared() const { return decl_->shared && !is_gradient(); }

  // InvalidArgument unless keys have the store's type, and values of type `t`
  // may be its elements.
  Status Check(const Tensor& keys, DType t) const {
    if (keys.dtype() == decl_->key_dtype && keys.rank() <= 1 &&
        (t == decl_->dtype || t == DType::kInvalid)) [[likely]]
      return OkStatus();
    return WhyUnfit(keys, t);
  }
  // The store of the gradients for a source, made at the first request. It
  // lives as long as this one; of a shared store there is one per step, which
  // the step owns.
  Result<std::shared_ptr<TensorStoreState>> Gradient(const std::string& source,
                                                     const StepContext& step);
  // In a store of gradients: the source.
  const std::string& source() const { return source_name_; }
  // In a store of gradients: one more part of the element will come.
  void Expect(const StoreKey& key);

  // Writes an element. AlreadyExists names both writers.
  Status Write(const StoreKey& key, Tensor&& value,
               const std::shared_ptr<const std::string>& writer);
  // In a store of gradients: adds a part.
  Status Add(const StoreKey& key, Tensor part);
  // The same of each row of `parts`. REQUIRES: as many as keys.
  Status AddRows(const Tensor& keys, Tensor parts);
  // Reads an element if it is available, and counts the read for `sources`.
  bool Take(const StoreKey& key, const std::vector<uint64_t>& sources,
            Tensor* value);
  bool Has(const StoreKey& key);
  int64_t Size();
  // In ascending order: a vector of int64 or of strings.
  Result<Tensor> Keys();
  // The key that a waiting read of these keys lacks, for messages.
  std::string Missing(const Tensor& keys);

 private:
  friend class StoreWait;
  using Waits = std::vector<std::shared_ptr<StoreWait>>;
  // Two cache lines, so that the table of keys stays small.
  struct Entry {
    Tensor value;  // Invalid before the write; of gradients: the sum so far.
    uint32_t writer = 0;  // In writers_.
    uint32_t parts = 0;   // Of gradients.
    // Reads by the sources that they add to.
    absl::InlinedVector<std::pair<uint64_t, int64_t>, 1> reads;
    Waits waiting;
  };

  Status WhyUnfit(const Tensor& keys, DType t) const;
  Status WhyCancelled() const;
  Status AddPart(const StoreKey& key, const void* from, const Shape& shape,
                 Tensor* whole);
  // For these, mu_ is held.
  Entry& At(const StoreKey& key);
  Entry* Find(const StoreKey& key);
  Entry* NewEntry();
  // The number of a writer, which is the same for all its writes.
  uint32_t Number(const std::shared_ptr<const std::string>& writer);
  bool Available(const StoreKey& key, Entry& entry);
  bool TakeLocked(const StoreKey& key, const std::vector<uint64_t>& sources,
                  Tensor* value);
  // Takes the next values of a wait; true if it has all, else it waits on.
  bool Advance(const std::shared_ptr<StoreWait>& wait);

  // Keeps a callback in the step's cancellation while reads of it wait here.
  // False if it is cancelled.
  bool Watch(Cancellation* step);
  void Unwatch(Cancellation* step);
  void CancelWaits(Cancellation* step);
  void Forget(StoreWait* wait);
  // How many reads of a key add to a source, and the shape of the element.
  int64_t ReadsOf(const StoreKey& key, uint64_t source);
  // In a store of gradients: how many parts will come.
  int64_t Expected(const StoreKey& key, const Entry* entry);
  static void Count(Entry* entry, uint64_t source);
  static int64_t CountOf(const Entry* entry, uint64_t source);
  Result<Shape> ShapeOf(const StoreKey& key);
  static void Run(const Waits& waits);
  std::shared_ptr<TensorStoreState> KeptByOwner();

  const std::shared_ptr<const TensorStoreDecl> decl_;
  // Of a store of gradients. The forward store is its owner, or, if shared, is
  // kept by it; then the reads are counted here, under its own source.
  TensorStoreState* forward_ = nullptr;
  std::shared_ptr<TensorStoreState> kept_forward_;
  std::string source_name_;
  uint64_t source_ = 0;

  std::mutex mu_;
  // By key: one of the two is used. GUARDED_BY(mu_)
  absl::flat_hash_map<int64_t, Entry*> by_number_;
  absl::flat_hash_map<std::string, Entry*> by_text_;
  // The entries, in blocks of increasing size. GUARDED_BY(mu_)
  std::vector<std::vector<Entry>> blocks_;
  std::vector<std::shared_ptr<const std::string>> writers_;  // GUARDED_BY(mu_)
  int64_t written_ = 0;                                      // GUARDED_BY(mu_)
  struct WatchedStep {
    Cancellation* step;
    int64_t callback;
    size_t waits;  // Not 0.
  };
  std::vector<WatchedStep> watched_;  // GUARDED_BY(mu_)
  std::map<std::string, std::unique_ptr<TensorStoreState>>
      gradients_;  // GUARDED_BY(mu_)
};

// The number by which reads are counted for a source.
uint64_t StoreSource(const std::string& source);

}  // namespace sluice

#endif  // SLUICE_OPS_QUEUES_TENSOR_STORE_H_
