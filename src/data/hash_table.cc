#include "data/hash_table.h"

#include "sluice/ops.h"

namespace sluice {

LookupTable::LookupTable(const char* op, DType key_type, DType value_type,
                         const HashTableOptions& options, SourceLoc loc)
    : key_type_(key_type), value_type_(value_type) {
  handle_ = key_type == DType::kInvalid || value_type == DType::kInvalid
                ? BuildError(InvalidArgument(op,
                                             ": expected keys and values "
                                             "with a type, got none"),
                             loc)
                : Build(op, {},
                        {{"key_dtype", key_type},
                         {"value_dtype", value_type},
                         {"shared_name", options.shared_name}},
                        options.name, loc);
}

Output LookupTable::Lookup(const Operand& keys, const Operand& missing,
                           SourceLoc loc) const {
  const ColocateWith table(handle_.node);
  return ops::LookupTableFindV2(handle_, keys.Get(key_type_),
                                missing.Get(value_type_), {}, loc);
}

Output LookupTable::Size(SourceLoc loc) const {
  const ColocateWith table(handle_.node);
  return ops::LookupTableSizeV2(handle_, {}, loc);
}

LookupTable::Entries LookupTable::Export(SourceLoc loc) const {
  const ColocateWith table(handle_.node);
  const auto all =
      ops::LookupTableExportV2(handle_, key_type_, value_type_, {}, loc);
  return {all.keys, all.values};
}

Node* LookupTable::Change(const char* op, const Operand& keys,
                          const Operand& values, SourceLoc loc) const {
  const ColocateWith table(handle_.node);
  return BuildNode(op, {handle_, keys.Get(key_type_), values.Get(value_type_)},
                   {}, "", loc);
}

HashTable HashTable::FromTensors(const Operand& keys, const Operand& values,
                                 const HashTableOptions& options,
                                 SourceLoc loc) {
  const Output k = keys.Get(), v = values.Get();
  HashTable table(
      "HashTableV2", k.valid() ? RemoveRef(k.dtype()) : DType::kInvalid,
      v.valid() ? RemoveRef(v.dtype()) : DType::kInvalid, options, loc);
  table.initializer_ = table.Change("InitializeTableV2", k, v, loc);
  return table;
}

HashTable HashTable::FromTextFile(const Operand& file,
                                  const TableFileOptions& format,
                                  const HashTableOptions& options,
                                  SourceLoc loc) {
  HashTable table("HashTableV2", format.key_type, format.value_type, options,
                  loc);
  const ColocateWith here(table.handle_.node);
  table.initializer_ = ops::InitializeTableFromTextFileV2(
      table.handle_, file, format.key_column, format.value_column,
      {.vocab_size = format.lines, .delimiter = format.delimiter}, loc);
  return table;
}

MutableHashTable MutableHashTable::Make(DType key_type, DType value_type,
                                        const HashTableOptions& options,
                                        SourceLoc loc) {
  return MutableHashTable("MutableHashTableV2", key_type, value_type, options,
                          loc);
}

Node* MutableHashTable::Insert(const Operand& keys, const Operand& values,
                               SourceLoc loc) const {
  return Change("LookupTableInsertV2", keys, values, loc);
}

Node* MutableHashTable::Remove(const Operand& keys, SourceLoc loc) const {
  const ColocateWith table(handle_.node);
  return ops::LookupTableRemoveV2(handle_, keys.Get(key_type_), {}, loc);
}

Node* MutableHashTable::Import(const Operand& keys, const Operand& values,
                               SourceLoc loc) const {
  return Change("LookupTableImportV2", keys, values, loc);
}

}  // namespace sluice
