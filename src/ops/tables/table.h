// Tables from keys to values, which steps share: the interface of all kinds.
// The ops on tables (table_ops.cc) know no more than this.
#ifndef SLUICE_OPS_TABLES_TABLE_H_
#define SLUICE_OPS_TABLES_TABLE_H_

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "exec/core/kernel.h"
#include "graph/shape_context.h"
#include "ops/state/lookup.h"

namespace sluice::tables {

// What a node declares of its table.
struct TableOptions {
  std::string name;  // For messages.
  DType key_type = DType::kInvalid;
  DType value_type = DType::kInvalid;
  Shape value_shape;  // Of the value of one key.
};

// Keys and their values. Thread-safe: an operation sees a table before or after
// each insertion of another, never within one.
//
// Keys are scalars unless the kind says otherwise. REQUIRES of all functions:
// the tensors have the table's types (CheckTypes).
class Table : public Resource {
 public:
  explicit Table(TableOptions options) : options_(std::move(options)) {}
  const TableOptions& options() const { return options_; }

  // InvalidArgument unless keys (and values, if not kInvalid) have these types.
  Status CheckTypes(DType keys, DType values) const;

  // One value for each key; `missing` (one value, or one for each key) where
  // there is none.
  virtual Result<Tensor> Find(const Tensor& keys,
                              const Tensor& missing) const = 0;
  // Adds the keys, or replaces their values.
  virtual Status Insert(const Tensor& keys, const Tensor& values) = 0;
  // Ignores keys that are not there.
  virtual Status Remove(const Tensor& keys) = 0;
  virtual int64_t size() const = 0;
  // All keys, and their values.
  virtual Status Export(Tensor* keys, Tensor* values) const = 0;
  // Replaces the contents.
  virtual Status Import(const Tensor& keys, const Tensor& values) = 0;

  // True if it has contents that do not change any more.
  virtual bool initialized() const { return false; }
  // Sets the contents of a table that has none yet.
  virtual Status Initialize(const Tensor& keys, const Tensor& values);

 protected:
  // InvalidArgument unless values are one for each key.
  Status CheckValues(const Shape& keys, const Shape& values) const;
  // The shape of the values for keys of this shape; checks `missing`, and sets
  // whether it has one value for each key.
  Result<Shape> FoundShape(const Shape& keys, const Shape& missing,
                           bool* each) const;

 private:
  const TableOptions options_;
};

// The table that input 0 refers to, by a resource or a reference. Lives at
// least as long as the context.
Result<Table*> TableInput(const KernelContext& ctx);

// ---- Elements ---------------------------------------------------------------

// How elements are stored: bits of the same size, or objects.
template <typename T>
using Stored = std::conditional_t<
    !std::is_arithmetic_v<T>, T,
    std::conditional_t<sizeof(T) == 1, uint8_t,
                       std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>;

// Calls f(K(), V()) with the stored types of keys and values; false if there is
// no table of these types.
template <typename F>
bool ByTableTypes(DType key, DType value, F&& f) {
  const auto with_key = [&]<typename K>(K k) {
    switch (value) {
      case DType::kBool:
        f(k, uint8_t());
        return true;
      case DType::kFloat:
      case DType::kInt32:
        f(k, uint32_t());
        return true;
      case DType::kDouble:
      case DType::kInt64:
        f(k, uint64_t());
        return true;
      case DType::kString:
        f(k, std::string());
        return true;
      default:
        return false;
    }
  };
  switch (key) {
    case DType::kInt32:
      return with_key(uint32_t());
    case DType::kInt64:
      return with_key(uint64_t());
    case DType::kString:
      return with_key(std::string());
    default:
      return false;
  }
}

// ---- Nodes that own a table -------------------------------------------------

// Types and name from the attributes of a node.
TableOptions OptionsOf(const Node& n);

// Unimplemented unless there are tables of the node's types.
Status CheckKernelTypes(const Node& n);

// Handles to the table of a node, which is made in the first step. Owned by a
// kernel's state.
class TableHandle {
 public:
  // `kind`: the TypeName of the node's tables.
  TableHandle(const Node& n, std::string kind)
      : handle_(n), kind_(std::move(kind)), options_(OptionsOf(n)) {}
  const TableOptions& options() const { return options_; }

  // make() -> std::shared_ptr<Table>. InvalidArgument if another node made a
  // table of this name that is of another kind or type.
  template <typename Make>
  Result<Tensor> Get(const KernelContext& ctx, Make&& make) {
    return handle_.Get(ctx, make,
                       [this](const Table& t) { return CheckShared(t); });
  }

 private:
  Status CheckShared(const Table& found) const;

  state::SharedHandle<Table> handle_;
  const std::string kind_;
  const TableOptions options_;
};

}  // namespace sluice::tables

#endif  // SLUICE_OPS_TABLES_TABLE_H_
