// Sorted tables of strings in LevelDB's format, which both versions of
// TensorFlow's checkpoints are made of.
#ifndef SLUICE_CHECKPOINT_TABLE_H_
#define SLUICE_CHECKPOINT_TABLE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/status.h"

namespace sluice {

enum class TableCompression : bool { kNone, kSnappy };

// The table with these entries.
Result<std::string> MakeTable(const std::map<std::string, std::string>& entries,
                              TableCompression compression);

// Reads a table, block by block: memory is needed for one block and for the
// index of blocks. What a file says is bounded by the file's size before it is
// believed, and every bit of the file is checked, by a checksum or by having to
// be what it is (LevelDB's reader ignores some parts, and ends the process for
// lengths that it cannot allocate). Immutable; thread-safe.
class Table {
 public:
  // NotFound if there is no such file. DataLoss, with the path, if it is not a
  // table.
  static Result<std::unique_ptr<Table>> Open(const std::string& path);
  // A table in memory; `name` names it in messages.
  static Result<std::unique_ptr<Table>> FromBytes(std::string bytes,
                                                  std::string name);
  ~Table();
  Table(const Table&) = delete;

  // Calls fn(key, value) for all entries, in the order of their keys. Ends with
  // the first error. DataLoss if a block is corrupt.
  using EntryFn =
      absl::FunctionRef<Status(std::string_view key, std::string_view value)>;
  Status ForEach(EntryFn fn) const;
  // The value of a key, if there is one.
  Result<std::optional<std::string>> Lookup(std::string_view key) const;
  // How many bytes of entries a byte of the file stands for at most. (Three
  // bytes of snappy's stand for 64.)
  static constexpr size_t kMaxExpansion = 32;
  const std::string& name() const { return name_; }
  int64_t size() const { return size_; }

 private:
  struct Handle {
    uint64_t offset = 0, size = 0;
  };
  struct IndexEntry {
    std::string last_key;  // At least the last key of the block.
    Handle block;
  };
  explicit Table(std::string name) : name_(std::move(name)) {}
  Status ReadIndex();
  Result<Handle> ParseHandle(std::string_view* bytes) const;
  Status ReadBytes(uint64_t offset, size_t n, char* to) const;
  Result<std::string> ReadBlock(Handle handle) const;
  Status ForEachIn(std::string_view block, EntryFn fn) const;
  Status Corrupt(const std::string& what) const;

  const std::string name_;
  std::string memory_;  // If there is no file.
  int file_ = -1;
  int64_t size_ = 0;
  std::vector<IndexEntry> blocks_;  // Sorted.
};

}  // namespace sluice

#endif  // SLUICE_CHECKPOINT_TABLE_H_
