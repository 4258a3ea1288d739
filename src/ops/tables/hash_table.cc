// Hash tables whose keys are scalars: one that is initialised once, and
// mutable ones with scalars or vectors as values.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "graph/op_def.h"
#include "ops/tables/table.h"

namespace sluice {
namespace {

using tables::Stored;
using tables::Table;
using tables::TableHandle;
using tables::TableOptions;

// Whether two keys are equal. Short strings are compared by words that overlap:
// for them the call of memcmp is half of a look-up.
struct SameKey {
  template <typename K>
  bool operator()(const K& a, const K& b) const {
    return a == b;
  }
  bool operator()(const std::string& a, const std::string& b) const {
    const size_t size = a.size();
    if (size != b.size()) return false;
    if (size > 16 || size < 4)
      return std::memcmp(a.data(), b.data(), size) == 0;
    return size < 8 ? SameEnds<uint32_t>(a.data(), b.data(), size)
                    : SameEnds<uint64_t>(a.data(), b.data(), size);
  }

 private:
  // REQUIRES: size is between that of a Word and twice as much.
  template <typename Word>
  static bool SameEnds(const char* a, const char* b, size_t size) {
    Word first[2], last[2];
    std::memcpy(&first[0], a, sizeof(Word));
    std::memcpy(&first[1], b, sizeof(Word));
    std::memcpy(&last[0], a + size - sizeof(Word), sizeof(Word));
    std::memcpy(&last[1], b + size - sizeof(Word), sizeof(Word));
    return ((first[0] ^ first[1]) | (last[0] ^ last[1])) == 0;
  }
};

// Values in rows of equal width, and the row of each key. ValueRows are
// numbered in the order of insertion; the row of a removed key is filled with
// the last one. Not synchronised.
template <typename K, typename V>
class ValueRows {
 public:
  explicit ValueRows(int64_t width) : width_(static_cast<size_t>(width)) {}

  int64_t size() const { return static_cast<int64_t>(rows_.size()); }
  void Reserve(size_t keys) {
    rows_.reserve(keys);
    keys_.reserve(keys);
    values_.reserve(keys * width_);
  }
  // Null if there is no such key.
  const V* Find(const K& key) const { return Find(key, Hash(key)); }
  const V* Find(const K& key, size_t hash) const {
    const auto it = rows_.find(key, hash);
    return it == rows_.end() ? nullptr : &values_[it->second * width_];
  }
  size_t Hash(const K& key) const { return rows_.hash_function()(key); }
  // Returns false, and changes nothing, if the key is there.
  bool Add(const K& key, const V* value) {
    const auto [it, added] = rows_.try_emplace(key, rows_.size());
    if (!added) return false;
    keys_.push_back(key);
    values_.insert(values_.end(), value, value + width_);
    return true;
  }
  void Set(const K& key, const V* value) {
    const auto [it, added] = rows_.try_emplace(key, rows_.size());
    if (added) {
      keys_.push_back(key);
      values_.insert(values_.end(), value, value + width_);
    } else {
      std::copy_n(value, width_, &values_[it->second * width_]);
    }
  }
  void Remove(const K& key) {
    const auto it = rows_.find(key);
    if (it == rows_.end()) return;
    const size_t row = it->second, last = keys_.size() - 1;
    rows_.erase(it);
    if (row != last) {
      keys_[row] = std::move(keys_[last]);
      std::move(values_.begin() + Offset(last), values_.end(),
                values_.begin() + Offset(row));
      rows_[keys_[row]] = row;
    }
    keys_.pop_back();
    values_.resize(last * width_);
  }
  // REQUIRES: o has the same width.
  void Swap(ValueRows* o) {
    rows_.swap(o->rows_);
    keys_.swap(o->keys_);
    values_.swap(o->values_);
  }
  void Write(K* keys, V* values) const {
    std::copy(keys_.begin(), keys_.end(), keys);
    std::copy(values_.begin(), values_.end(), values);
  }

 private:
  std::ptrdiff_t Offset(size_t row) const {
    return static_cast<std::ptrdiff_t>(row * width_);
  }
  const size_t width_;
  absl::flat_hash_map<K, size_t, absl::Hash<K>, SameKey> rows_;
  std::vector<K> keys_;    // By row.
  std::vector<V> values_;  // Row after row.
};

template <typename K, typename V>
void FindEach(const ValueRows<K, V>& rows, int64_t width, const Tensor& keys,
              const Tensor& missing, bool each, Tensor* out) {
  const V* other = missing.raw<V>();
  V* to = out->raw<V>();
  // Hashes of a few keys at once, so that the processor need not wait for a
  // key's memory before it computes the next hash.
  constexpr size_t kAtOnce = 8;
  size_t hashes[kAtOnce];
  for (auto left = keys.raw_flat<K>(); !left.empty();) {
    const auto some = left.first(std::min(kAtOnce, left.size()));
    left = left.subspan(some.size());
    for (size_t i = 0; i < some.size(); ++i) hashes[i] = rows.Hash(some[i]);
    for (size_t i = 0; i < some.size(); ++i) {
      const V* const found = rows.Find(some[i], hashes[i]);
      if (width == 1)
        *to = found != nullptr ? *found : *other;
      else
        std::copy_n(found != nullptr ? found : other, width, to);
      to += width;
      if (each) other += width;
    }
  }
}

template <typename K, typename V>
Status ExportRows(const ValueRows<K, V>& rows, const TableOptions& options,
                  Tensor* keys, Tensor* values) {
  SLUICE_ASSIGN_OR_RETURN(*keys,
                          Tensor::Make(options.key_type, Shape({rows.size()})));
  Dims dims(options.value_shape.dims().begin(),
            options.value_shape.dims().end());
  dims.insert(dims.begin(), rows.size());
  SLUICE_ASSIGN_OR_RETURN(const Shape shape,
                          Shape::Make({dims.data(), dims.size()}));
  SLUICE_ASSIGN_OR_RETURN(*values, Tensor::Make(options.value_type, shape));
  rows.Write(keys->raw<K>(), values->raw<V>());
  return OkStatus();
}

// ---- Initialised once -------------------------------------------------------

// Its contents are set once, as a whole, and read without a lock afterwards.
template <typename K, typename V>
class StaticTable : public Table {
 public:
  explicit StaticTable(TableOptions options) : Table(std::move(options)) {}
  std::string TypeName() const override { return "HashTable"; }
  bool initialized() const override {
    return rows_.load(std::memory_order_acquire) != nullptr;
  }

  Result<Tensor> Find(const Tensor& keys,
                      const Tensor& missing) const override {
    const ValueRows<K, V>* const rows = rows_.load(std::memory_order_acquire);
    if (rows == nullptr)
      return FailedPrecondition("table '", options().name,
                                "': expected an initialised table, got one "
                                "that is not (table not initialized)");
    bool each = false;
    SLUICE_ASSIGN_OR_RETURN(const Shape shape,
                            FoundShape(keys.shape(), missing.shape(), &each));
    SLUICE_ASSIGN_OR_RETURN(Tensor out,
                            Tensor::Make(options().value_type, shape));
    // (Of defaults for each key TensorFlow takes only the first here.)
    FindEach(*rows, 1, keys, missing, /*each=*/false, &out);
    return out;
  }
  Status Insert(const Tensor&, const Tensor&) override {
    return NotMutable("insert");
  }
  Status Remove(const Tensor&) override { return NotMutable("remove"); }
  int64_t size() const override {
    const ValueRows<K, V>* const rows = rows_.load(std::memory_order_acquire);
    return rows == nullptr ? 0 : rows->size();
  }
  Status Export(Tensor* keys, Tensor* values) const override {
    const ValueRows<K, V>* const rows = rows_.load(std::memory_order_acquire);
    if (rows == nullptr)
      return Aborted("table '", options().name,
                     "': expected an initialised table, got one that is not");
    return ExportRows(*rows, options(), keys, values);
  }
  Status Import(const Tensor& keys, const Tensor& values) override {
    return Initialize(keys, values);
  }

  Status Initialize(const Tensor& keys, const Tensor& values) override {
    if (keys.num_elements() != values.num_elements())
      return InvalidArgument("values: expected ", keys.num_elements(),
                             ", one for each key, got ", values.num_elements());
    if (keys.num_elements() == 0)
      return InvalidArgument("table '", options().name,
                             "': expected at least one key, got none (keys and "
                             "values cannot be empty tensors.)");
    const std::lock_guard<std::mutex> lock(mu_);
    if (owned_ != nullptr) {
      // As in TensorFlow: initialising it again with as many entries is not an
      // error, and does nothing.
      if (owned_->size() == keys.num_elements()) return OkStatus();
      return FailedPrecondition("table '", options().name,
                                "': expected one initialisation, got a "
                                "second one with ",
                                keys.num_elements(), " instead of ",
                                owned_->size(),
                                " entries (it was already initialized with "
                                "different data)");
    }
    auto rows = std::make_unique<ValueRows<K, V>>(1);
    rows->Reserve(static_cast<size_t>(keys.num_elements()));
    const K* const key = keys.raw<K>();
    const V* const value = values.raw<V>();
    for (int64_t i = 0; i < keys.num_elements(); ++i)
      if (!rows->Add(key[i], value + i) && !(*rows->Find(key[i]) == value[i]))
        return FailedPrecondition(
            "table '", options().name,
            "': expected one value for each key, got two for key number ", i,
            ", ", Element(keys, i), " (different value for same key)");
    owned_ = std::move(rows);
    rows_.store(owned_.get(), std::memory_order_release);
    return OkStatus();
  }

 private:
  Status NotMutable(const char* what) const {
    return Unimplemented("table '", options().name, "': expected a mutable ",
                         "table to ", what, ", got a ", TypeName());
  }
  static std::string Element(const Tensor& t, int64_t i) {
    Result<Tensor> flat = t.Reshaped(Shape({t.num_elements()}));
    return flat.ok() ? flat->Rows(i, i + 1).Summarize(1) : "";
  }

  std::mutex mu_;
  std::unique_ptr<const ValueRows<K, V>> owned_;  // GUARDED_BY(mu_); set once.
  std::atomic<const ValueRows<K, V>*> rows_{nullptr};
};

// ---- Mutable ----------------------------------------------------------------

template <typename K, typename V>
class MutableTable : public Table {
 public:
  explicit MutableTable(TableOptions options)
      : Table(std::move(options)),
        width_(Table::options().value_shape.num_elements()),
        rows_(width_) {}
  std::string TypeName() const override {
    return options().value_shape.rank() == 0 ? "MutableHashTable"
                                             : "MutableHashTableOfTensors";
  }

  Result<Tensor> Find(const Tensor& keys,
                      const Tensor& missing) const override {
    bool each = false;
    SLUICE_ASSIGN_OR_RETURN(const Shape shape,
                            FoundShape(keys.shape(), missing.shape(), &each));
    SLUICE_ASSIGN_OR_RETURN(Tensor out,
                            Tensor::Make(options().value_type, shape));
    const std::shared_lock<std::shared_mutex> lock(mu_);
    FindEach(rows_, width_, keys, missing, each, &out);
    return out;
  }
  Status Insert(const Tensor& keys, const Tensor& values) override {
    SLUICE_RETURN_IF_ERROR(CheckValues(keys.shape(), values.shape()));
    const std::lock_guard<std::shared_mutex> lock(mu_);
    Add(keys, values, &rows_);
    return OkStatus();
  }
  Status Remove(const Tensor& keys) override {
    const std::lock_guard<std::shared_mutex> lock(mu_);
    for (const K& key : keys.raw_flat<K>()) rows_.Remove(key);
    return OkStatus();
  }
  int64_t size() const override {
    const std::shared_lock<std::shared_mutex> lock(mu_);
    return rows_.size();
  }
  Status Export(Tensor* keys, Tensor* values) const override {
    const std::shared_lock<std::shared_mutex> lock(mu_);
    return ExportRows(rows_, options(), keys, values);
  }
  Status Import(const Tensor& keys, const Tensor& values) override {
    SLUICE_RETURN_IF_ERROR(CheckValues(keys.shape(), values.shape()));
    ValueRows<K, V> rows(width_);
    rows.Reserve(static_cast<size_t>(keys.num_elements()));
    Add(keys, values, &rows);
    const std::lock_guard<std::shared_mutex> lock(mu_);
    rows_.Swap(&rows);
    return OkStatus();
  }

 private:
  void Add(const Tensor& keys, const Tensor& values,
           ValueRows<K, V>* rows) const {
    const V* value = values.raw<V>();
    for (const K& key : keys.raw_flat<K>()) {
      rows->Set(key, value);
      value += width_;
    }
  }

  const int64_t width_;
  mutable std::shared_mutex mu_;
  ValueRows<K, V> rows_;  // GUARDED_BY(mu_)
};

// ---- Kernels ----------------------------------------------------------------

template <template <typename, typename> class T>
std::shared_ptr<Table> MakeHashTable(const TableOptions& options) {
  std::shared_ptr<Table> table;
  tables::ByTableTypes(options.key_type, options.value_type,
                       [&]<typename K, typename V>(K, V) {
                         table = std::make_shared<T<K, V>>(options);
                       });
  return table;
}

template <template <typename, typename> class T, const char* kKind>
class HashTableKernel {
 public:
  static Result<std::shared_ptr<HashTableKernel>> Make(const Node& n) {
    SLUICE_RETURN_IF_ERROR(tables::CheckKernelTypes(n));
    const PartialShape shape =
        n.AttrOr<PartialShape>("value_shape", PartialShape());
    if (n.FindAttr("value_shape") != nullptr &&
        (shape.rank() != 1 || !shape.fully_known()))
      return InvalidArgument("value_shape: expected a vector's, got ",
                             shape.ToString(),
                             " (default value must be a vector)");
    return std::make_shared<HashTableKernel>(n);
  }
  explicit HashTableKernel(const Node& n) : handle_(n, kKind) {}

  Status Run(KernelContext& ctx) {
    SLUICE_ASSIGN_OR_RETURN(ctx.output(0), handle_.Get(ctx, [this] {
      return MakeHashTable<T>(handle_.options());
    }));
    return OkStatus();
  }

 private:
  TableHandle handle_;
};

constexpr char kStaticKind[] = "HashTable";
constexpr char kMutableKind[] = "MutableHashTable";
constexpr char kTensorsKind[] = "MutableHashTableOfTensors";

// ---- Declarations -----------------------------------------------------------

// Both versions of an op: `Name` with a reference, `Name`V2 with a resource;
// `more`: further attributes.
#define SLUICE_TABLE(Name, handle, Kind, Class, more, doc) \
  SLUICE_OP(Name)                                          \
      .Output("table_handle: " handle)                     \
      .Attr("container: string = ''")                      \
      .Attr("shared_name: string = ''")                    \
      .Attr("use_node_name_sharing: bool = false")         \
      .Attr("key_dtype: type")                             \
      .Attr("value_dtype: type") more.Stateful(kOwnsState) \
      .Family("data_flow")                                 \
      .Shape(state::HandleShape)                           \
      .Kernel(CpuState<HashTableKernel<Class, Kind>>())    \
      .NoGradient("a table has no derivative")             \
      .Doc(doc)
#define SLUICE_TABLE_OP(Name, Kind, Class, more, doc)        \
  SLUICE_TABLE(Name, "Ref(string)", Kind, Class, more, doc); \
  SLUICE_TABLE(Name##V2, "resource", Kind, Class, more, doc)

SLUICE_TABLE_OP(HashTable, kStaticKind, StaticTable, ,
                "Returns a handle to a table that is initialised once and does "
                "not change any more.");
SLUICE_TABLE_OP(MutableHashTable, kMutableKind, MutableTable, ,
                "Returns a handle to an empty table from scalars to scalars.");
SLUICE_TABLE_OP(MutableHashTableOfTensors, kTensorsKind, MutableTable,
                .Attr("value_shape: shape = {}"),
                "Returns a handle to an empty table from scalars to vectors.");

#undef SLUICE_TABLE
#undef SLUICE_TABLE_OP

}  // namespace
}  // namespace sluice
