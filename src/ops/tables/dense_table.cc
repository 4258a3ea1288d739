// A hash table with open addressing in two tensors, of keys and of values,
// which it exports as they are. Keys may be tensors too.
#include <algorithm>
#include <mutex>
#include <shared_mutex>

#include "graph/op_def.h"
#include "ops/common/elements.h"
#include "ops/common/fingerprint.h"
#include "ops/tables/table.h"

namespace sluice {
namespace {

using tables::Table;
using tables::TableHandle;
using tables::TableOptions;

constexpr int64_t kMaxBuckets = int64_t{1} << 40;

// What a node declares beside the types.
struct DenseOptions {
  int64_t buckets = 0;    // At first: a power of two, at least 4.
  float max_load = 0;     // Above it, the number of buckets is doubled.
  Tensor empty, deleted;  // Keys that mark buckets; of one shape.
};

// The bucket of a key follows from its hash, and from there by quadratic
// probing, in TensorFlow's order, so that both export the same tensors.
template <typename K, typename V>
class DenseTable : public Table {
 public:
  DenseTable(TableOptions options, DenseOptions dense)
      : Table(std::move(options)),
        dense_(std::move(dense)),
        key_width_(dense_.empty.num_elements()),
        value_width_(Table::options().value_shape.num_elements()) {}
  std::string TypeName() const override { return "MutableDenseHashTable"; }

  Result<Tensor> Find(const Tensor& keys,
                      const Tensor& missing) const override {
    SLUICE_ASSIGN_OR_RETURN(const Shape batch, BatchOf(keys));
    bool each = false;
    SLUICE_ASSIGN_OR_RETURN(const Shape shape,
                            FoundShape(batch, missing.shape(), &each));
    SLUICE_RETURN_IF_ERROR(CheckKeys(keys));
    SLUICE_ASSIGN_OR_RETURN(Tensor out,
                            Tensor::Make(options().value_type, shape));
    const K* key = keys.raw<K>();
    const V* other = missing.raw<V>();
    V* to = out.raw<V>();
    const std::shared_lock<std::shared_mutex> lock(mu_);
    for (int64_t i = 0; i < batch.num_elements(); ++i, key += key_width_) {
      const int64_t b = BucketOf(key);
      to = std::copy_n(b >= 0 ? Value(b) : other, value_width_, to);
      if (each) other += value_width_;
    }
    return out;
  }

  Status Insert(const Tensor& keys, const Tensor& values) override {
    SLUICE_ASSIGN_OR_RETURN(const Shape batch, BatchOf(keys));
    SLUICE_RETURN_IF_ERROR(CheckValues(batch, values.shape()));
    SLUICE_RETURN_IF_ERROR(CheckKeys(keys));
    const std::lock_guard<std::shared_mutex> lock(mu_);
    SLUICE_RETURN_IF_ERROR(MakeBuckets());
    // (Counts all keys as new ones, as TensorFlow does.)
    SLUICE_RETURN_IF_ERROR(Grow(entries_ + batch.num_elements()));
    for (int64_t i = 0; i < batch.num_elements(); ++i)
      Put(keys.raw<K>() + i * key_width_, values.raw<V>() + i * value_width_);
    return OkStatus();
  }

  Status Remove(const Tensor& keys) override {
    SLUICE_ASSIGN_OR_RETURN(const Shape batch, BatchOf(keys));
    SLUICE_RETURN_IF_ERROR(CheckKeys(keys));
    const std::lock_guard<std::shared_mutex> lock(mu_);
    for (int64_t i = 0; i < batch.num_elements(); ++i) {
      const int64_t b = BucketOf(keys.raw<K>() + i * key_width_);
      if (b < 0) continue;
      std::copy_n(dense_.deleted.raw<K>(), key_width_, Key(b));
      --entries_;
    }
    return OkStatus();
  }

  int64_t size() const override {
    const std::shared_lock<std::shared_mutex> lock(mu_);
    return entries_;
  }

  // All buckets, with those that are empty or deleted.
  Status Export(Tensor* keys, Tensor* values) const override {
    const std::shared_lock<std::shared_mutex> lock(mu_);
    if (buckets_ == 0) return MakeTensors(dense_.buckets, keys, values);
    SLUICE_ASSIGN_OR_RETURN(*keys, keys_.Clone());
    SLUICE_ASSIGN_OR_RETURN(*values, values_.Clone());
    return OkStatus();
  }

  // What Export gives, from this or another table: the keys of empty and
  // deleted buckets are left out.
  Status Import(const Tensor& keys, const Tensor& values) override {
    const int64_t n = keys.rank() > 0 ? keys.dim(0) : 1;
    if (keys.rank() == 0 || keys.num_elements() != n * key_width_)
      return InvalidArgument("keys: expected shape [n,", key_width_, "], got ",
                             keys.shape().ToString());
    if (values.rank() == 0 || values.dim(0) != n ||
        values.num_elements() != n * value_width_)
      return InvalidArgument("values: expected ", n, " values of shape ",
                             options().value_shape.ToString(),
                             ", one for each key, got shape ",
                             values.shape().ToString());
    const std::lock_guard<std::shared_mutex> lock(mu_);
    int64_t buckets = 4, used = 0;
    while (buckets < n) buckets *= 2;  // (As exported.)
    for (int64_t i = 0; i < n; ++i)
      used += IsEntry(keys.raw<K>() + i * key_width_) ? 1 : 0;
    SLUICE_RETURN_IF_ERROR(Clear(buckets));
    SLUICE_RETURN_IF_ERROR(Grow(used));
    for (int64_t i = 0; i < n; ++i) {
      const K* const key = keys.raw<K>() + i * key_width_;
      if (IsEntry(key)) Put(key, values.raw<V>() + i * value_width_);
    }
    return OkStatus();
  }

 private:
  // The shape of `keys` without the dimensions of one key.
  Result<Shape> BatchOf(const Tensor& keys) const {
    const Shape& key = dense_.empty.shape();
    const int outer = keys.rank() - key.rank();
    bool ok = outer >= 0;
    for (int d = 0; ok && d < key.rank(); ++d)
      ok = keys.dim(outer + d) == key.dim(d);
    if (!ok)
      return InvalidArgument("keys: expected keys of shape ", key.ToString(),
                             ", got shape ", keys.shape().ToString());
    return Shape::Make(
        keys.shape().dims().subspan(0, static_cast<size_t>(outer)));
  }

  bool Equal(const K* a, const K* b) const {
    return std::equal(a, a + key_width_, b);
  }
  bool IsEmpty(const K* key) const { return Equal(key, dense_.empty.raw<K>()); }
  bool IsDeleted(const K* key) const {
    return Equal(key, dense_.deleted.raw<K>());
  }
  bool IsEntry(const K* key) const { return !IsEmpty(key) && !IsDeleted(key); }

  Status CheckKeys(const Tensor& keys) const {
    if (key_width_ == 0) return OkStatus();
    for (int64_t i = 0; i < keys.num_elements(); i += key_width_) {
      const K* const key = keys.raw<K>() + i;
      if (!IsEntry(key))
        return InvalidArgument("keys: expected keys other than the ",
                               IsEmpty(key) ? "empty_key" : "deleted_key",
                               ", got it as key number ", i / key_width_);
    }
    return OkStatus();
  }

  static uint64_t HashOne(const K& k) {
    if constexpr (std::is_same_v<K, std::string>)
      return MurmurHash64(k);
    else if constexpr (sizeof(K) == 4)  // (An int32.)
      return static_cast<uint64_t>(int64_t{static_cast<int32_t>(k)});
    else
      return k;
  }
  uint64_t Hash(const K* key) const {
    if (key_width_ == 1) return HashOne(*key);
    uint64_t h = 0;
    for (int64_t i = 0; i < key_width_; ++i)
      h ^= HashOne(key[i]) + 0x9e3779b97f4a7800ULL + (h << 10) + (h >> 4);
    return h;
  }

  K* Key(int64_t bucket) { return keys_.raw<K>() + bucket * key_width_; }
  const K* Key(int64_t bucket) const {
    return keys_.raw<K>() + bucket * key_width_;
  }
  V* Value(int64_t bucket) { return values_.raw<V>() + bucket * value_width_; }
  const V* Value(int64_t bucket) const {
    return values_.raw<V>() + bucket * value_width_;
  }

  // The bucket that holds the key, or -1.
  int64_t BucketOf(const K* key) const {
    if (buckets_ == 0) return -1;
    const auto mask = static_cast<uint64_t>(buckets_ - 1);
    uint64_t b = Hash(key) & mask;
    for (uint64_t probes = 0; probes <= mask; b = (b + ++probes) & mask) {
      const auto bucket = static_cast<int64_t>(b);
      if (Equal(Key(bucket), key)) return bucket;
      if (IsEmpty(Key(bucket))) return -1;
    }
    return -1;
  }
  // REQUIRES: a bucket is free.
  void Put(const K* key, const V* value) {
    const auto mask = static_cast<uint64_t>(buckets_ - 1);
    uint64_t b = Hash(key) & mask;
    int64_t free = -1;
    for (uint64_t probes = 0; probes <= mask; b = (b + ++probes) & mask) {
      const auto bucket = static_cast<int64_t>(b);
      if (Equal(Key(bucket), key)) {
        std::copy_n(value, value_width_, Value(bucket));
        return;
      }
      // The key may still stand behind a deleted one.
      if (IsDeleted(Key(bucket)) && free < 0) free = bucket;
      if (IsEmpty(Key(bucket))) {
        if (free < 0) free = bucket;
        break;
      }
    }
    std::copy_n(key, key_width_, Key(free));
    std::copy_n(value, value_width_, Value(free));
    ++entries_;
  }

  // The tensors of empty buckets. Their ranks are those of TensorFlow's.
  Status MakeTensors(int64_t buckets, Tensor* keys, Tensor* values) const {
    SLUICE_ASSIGN_OR_RETURN(
        *keys, Tensor::Make(options().key_type, Shape({buckets, key_width_})));
    Dims dims = array::DimsOf(options().value_shape);
    if (dims.empty()) dims.push_back(1);
    dims.insert(dims.begin(), buckets);
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(dims));
    SLUICE_ASSIGN_OR_RETURN(*values,
                            Tensor::Zeros(options().value_type, shape));
    for (int64_t b = 0; b < buckets; ++b)
      std::copy_n(dense_.empty.raw<K>(), key_width_,
                  keys->raw<K>() + b * key_width_);
    return OkStatus();
  }
  // Leaves the table as it is if there is no memory.
  Status Clear(int64_t buckets) {
    Tensor keys, values;
    SLUICE_RETURN_IF_ERROR(MakeTensors(buckets, &keys, &values));
    keys_ = std::move(keys);
    values_ = std::move(values);
    buckets_ = buckets;
    entries_ = 0;
    return OkStatus();
  }
  Status MakeBuckets() {
    return buckets_ == 0 ? Clear(dense_.buckets) : OkStatus();
  }
  // Makes room for this many entries.
  Status Grow(int64_t entries) {
    int64_t buckets = buckets_;
    while (static_cast<double>(entries) >
           static_cast<double>(buckets) * double{dense_.max_load})
      buckets *= 2;
    if (buckets == buckets_) return OkStatus();
    if (buckets > kMaxBuckets)
      return ResourceExhausted("table '", options().name,
                               "': expected at most ", kMaxBuckets,
                               " buckets, got ", buckets);
    const Tensor keys = keys_, values = values_;
    const int64_t before = buckets_;
    SLUICE_RETURN_IF_ERROR(Clear(buckets));
    for (int64_t b = 0; b < before; ++b) {
      const K* const key = keys.raw<K>() + b * key_width_;
      if (IsEntry(key)) Put(key, values.raw<V>() + b * value_width_);
    }
    return OkStatus();
  }

  const DenseOptions dense_;
  const int64_t key_width_, value_width_;
  mutable std::shared_mutex mu_;
  int64_t buckets_ = 0;   // GUARDED_BY(mu_), as all below; 0: not made yet.
  int64_t entries_ = 0;   // Neither empty nor deleted.
  Tensor keys_, values_;  // A row for each bucket. Shared with no one.
};

class DenseTableKernel {
 public:
  static Result<std::shared_ptr<DenseTableKernel>> Make(const Node& n) {
    SLUICE_RETURN_IF_ERROR(tables::CheckKernelTypes(n));
    auto k = std::make_shared<DenseTableKernel>(n);
    SLUICE_RETURN_IF_ERROR(
        Annotate(n.AttrOr<PartialShape>("value_shape", PartialShape::Scalar())
                     .ToShape()
                     .status(),
                 "value_shape"));
    const int64_t b = k->dense_.buckets;
    if (b < 4 || (b & (b - 1)) != 0 || b > kMaxFirstBuckets)
      return InvalidArgument("initial_num_buckets: expected a power of 2 from ",
                             "4 to ", kMaxFirstBuckets, ", got ", b);
    if (!(k->dense_.max_load > 0 && k->dense_.max_load <= 1))
      return InvalidArgument("max_load_factor: expected a number above 0 and ",
                             "at most 1, got ", k->dense_.max_load);
    return k;
  }
  explicit DenseTableKernel(const Node& n)
      : handle_(n, "MutableDenseHashTable") {
    dense_.buckets = n.IntAttr("initial_num_buckets");
    dense_.max_load = n.AttrOr<float>("max_load_factor", 0.8f);
  }

  Status Run(KernelContext& ctx) {
    DenseOptions dense = dense_;
    SLUICE_ASSIGN_OR_RETURN(dense.empty, ctx.TakeToKeep(0));
    SLUICE_ASSIGN_OR_RETURN(dense.deleted, ctx.TakeToKeep(1));
    if (!(dense.empty.shape() == dense.deleted.shape()))
      return InvalidArgument("deleted_key: expected the shape of empty_key, ",
                             dense.empty.shape().ToString(), ", got ",
                             dense.deleted.shape().ToString());
    if (dense.empty.rank() > 1 || dense.empty.num_elements() == 0)
      return InvalidArgument("empty_key: expected a scalar or a vector, got ",
                             "shape ", dense.empty.shape().ToString());
    if (dense.empty.Identical(dense.deleted))
      return InvalidArgument("deleted_key: expected another key than ",
                             "empty_key, got ", dense.deleted.ToString());
    SLUICE_ASSIGN_OR_RETURN(ctx.output(0), handle_.Get(ctx, [&] {
      std::shared_ptr<Table> table;
      const TableOptions& o = handle_.options();
      tables::ByTableTypes(
          o.key_type, o.value_type, [&]<typename K, typename V>(K, V) {
            table = std::make_shared<DenseTable<K, V>>(o, dense);
          });
      return table;
    }));
    return OkStatus();
  }

 private:
  static constexpr int64_t kMaxFirstBuckets = int64_t{1} << 30;

  DenseOptions dense_;  // Without keys.
  TableHandle handle_;
};

SLUICE_OP(MutableDenseHashTableV2)
    .Input("empty_key: key_dtype")
    .Input("deleted_key: key_dtype")
    .Output("table_handle: resource")
    .Attr("container: string = ''")
    .Attr("shared_name: string = ''")
    .Attr("use_node_name_sharing: bool = false")
    .Attr("key_dtype: type")
    .Attr("value_dtype: type")
    .Attr("value_shape: shape = {}")
    .Attr("initial_num_buckets: int = 131072")
    .Attr("max_load_factor: float = 0.8")
    .Stateful(kOwnsState)
    .Family("data_flow")
    .Shape(ScalarShape)
    .Kernel(CpuState<DenseTableKernel>())
    .NoGradient("a table has no derivative")
    .Doc(
        "Returns a handle to an empty table in two tensors, in which two keys "
        "are reserved as marks.");

}  // namespace
}  // namespace sluice
