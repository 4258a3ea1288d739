// Tables from keys to values, which steps share.
//
//   const Tensor words = Tensor::Vector<std::string>({"cat", "dog"});
//   const HashTable ids = HashTable::FromTensors(words, {7, 8});
//   const Output found = ids.Lookup("dog", -1);
//   const MutableHashTable lengths =
//       MutableHashTable::Make(DType::kString, DType::kInt64);
//   Node* const insert = lengths.Insert(words, {3, 3});
//   Session session;
//   const Status filled = session.RunTargets({ids.initializer(), insert});
//   const Result<Tensor> eight = session.Run(found);
//
// Keys are int32, int64 or string, values bool, int32, int64, float, double or
// string. Tables belong to their task and have a name there, as variables have:
// steps and sessions that share the state share them. A step sees a table
// before or after each insertion of another, never within one.
#ifndef SLUICE_DATA_HASH_TABLE_H_
#define SLUICE_DATA_HASH_TABLE_H_

#include <cstdint>
#include <string>

#include "client/op_builder.h"
#include "graph/builder.h"

namespace sluice {

struct HashTableOptions {
  // Tables with the same name are one, which must be declared alike. "": the
  // name of the node.
  std::string shared_name = "";
  std::string name = "table";
};

// How the lines of a file become keys and values.
struct TableFileOptions {
  static constexpr int64_t kWholeLine = -2;   // The line: string.
  static constexpr int64_t kLineNumber = -1;  // Its number, from 0: int64.
  // Or a column, from 0: int32, int64, float, double or string.
  int64_t key_column = kWholeLine, value_column = kLineNumber;
  DType key_type = DType::kString, value_type = DType::kInt64;
  std::string delimiter = "\t";  // One character, between columns.
  int64_t lines = -1;            // How many are read; -1: all.
};

// What both kinds have: adds nodes to the ambient graph that use one table, on
// its device, whatever the device scope. Errors are recorded in the graph. A
// value: copies use the same table.
class LookupTable {
 public:
  // A value for each key, in the shape of `keys`: of the table, or else
  // `missing`, a scalar. FailedPrecondition in a step before a HashTable is
  // initialised.
  Output Lookup(const Operand& keys, const Operand& missing,
                SourceLoc loc = CallerLoc()) const;
  Output Size(SourceLoc loc = CallerLoc()) const;  // int64.
  // All keys and their values, vectors in any order.
  struct Entries {
    Output keys, values;
  };
  Entries Export(SourceLoc loc = CallerLoc()) const;

  const Output& handle() const { return handle_; }
  DType key_type() const { return key_type_; }
  DType value_type() const { return value_type_; }

 protected:
  LookupTable() = default;  // Null.
  LookupTable(const char* op, DType key_type, DType value_type,
              const HashTableOptions& options, SourceLoc loc);
  Node* Change(const char* op, const Operand& keys, const Operand& values,
               SourceLoc loc) const;

  Output handle_;
  DType key_type_ = DType::kInvalid, value_type_ = DType::kInvalid;
};

// A table whose contents are set once, as a whole, by its initializer. Doing
// that again with as many keys does nothing.
class HashTable : public LookupTable {
 public:
  HashTable() = default;  // Null.
  // From vectors of the same size, at least 1. FailedPrecondition in the
  // initializer if a key has two values.
  static HashTable FromTensors(const Operand& keys, const Operand& values,
                               const HashTableOptions& options = {},
                               SourceLoc loc = CallerLoc());
  // From the lines of a file (a string scalar), at least 1. InvalidArgument in
  // the initializer, with file and line, for what cannot be parsed.
  static HashTable FromTextFile(const Operand& file,
                                const TableFileOptions& format = {},
                                const HashTableOptions& options = {},
                                SourceLoc loc = CallerLoc());
  // Fills the table; to be run before lookups.
  Node* initializer() const { return initializer_; }

 private:
  using LookupTable::LookupTable;
  Node* initializer_ = nullptr;
};

// A table that steps change; empty at first.
class MutableHashTable : public LookupTable {
 public:
  MutableHashTable() = default;  // Null.
  static MutableHashTable Make(DType key_type, DType value_type,
                               const HashTableOptions& options = {},
                               SourceLoc loc = CallerLoc());
  // Adds keys, or replaces their values, which have the same shape.
  Node* Insert(const Operand& keys, const Operand& values,
               SourceLoc loc = CallerLoc()) const;
  // Ignores keys that are not there.
  Node* Remove(const Operand& keys, SourceLoc loc = CallerLoc()) const;
  // Replaces all contents.
  Node* Import(const Operand& keys, const Operand& values,
               SourceLoc loc = CallerLoc()) const;

 private:
  using LookupTable::LookupTable;
};

}  // namespace sluice

#endif  // SLUICE_DATA_HASH_TABLE_H_
