// For any bytes as a table, and for any entries and data as a checkpoint,
// opening and reading ends with the contents or an error, and asks for no more
// memory than the files' sizes allow.
//
// The first byte chooses: a table as it is, or a checkpoint. A checkpoint is a
// list of entries (the lengths of key and value, a byte and two; the key; the
// value), of which a length of key 255 ends the list, and then the data file.
// The table's checksums are made here, or nothing would get past them. Seeds
// are in tests/fuzz/checkpoint_fuzz.
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "checkpoint/bundle_writer.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/table.h"
#include "io/file.h"

namespace {

using sluice::OkStatus;
using sluice::StatusCode;

void RequireExternal(const sluice::Status& s) {
  if (s.code() == StatusCode::kInternal) std::abort();
}

void ReadFuzzedTable(std::string bytes) {
  const auto table = sluice::Table::FromBytes(std::move(bytes), "input");
  if (!table.ok()) {
    if (table.status().code() != StatusCode::kDataLoss) std::abort();
    return;
  }
  std::string before;
  bool first = true;
  const auto s = (*table)->ForEach(
      [&](std::string_view key, std::string_view value) -> sluice::Status {
        if (!first && key <= before) std::abort();
        first = false;
        before = key;
        const auto found = (*table)->Lookup(key);
        if (!found.ok() || !found->has_value() || **found != value)
          std::abort();
        return OkStatus();
      });
  RequireExternal(s);
}

void ReadFuzzedCheckpoint(std::string_view input) {
  static const std::string prefix = [] {
    std::string folder =
        (std::filesystem::temp_directory_path() / "checkpoint_fuzz_XXXXXX")
            .string();
    if (mkdtemp(folder.data()) == nullptr) std::abort();
    return folder + "/input";
  }();
  std::map<std::string, std::string> entries;
  while (input.size() >= 3) {
    const auto key = static_cast<uint8_t>(input[0]);
    const size_t value =
        static_cast<uint8_t>(input[1]) + 256 * static_cast<uint8_t>(input[2]);
    input.remove_prefix(3);
    if (key == 255 || key + value > input.size()) break;
    entries[std::string(input.substr(0, key))] =
        std::string(input.substr(key, value));
    input.remove_prefix(key + value);
  }
  const auto table =
      sluice::MakeTable(entries, sluice::TableCompression::kNone);
  if (!table.ok() ||
      !sluice::WriteFile(sluice::BundleIndexName(prefix), *table).ok() ||
      !sluice::WriteFile(sluice::BundleDataName(prefix, 0, 1), input).ok())
    std::abort();
  const auto reader = sluice::CheckpointReader::Open(prefix);
  RequireExternal(reader.status());
  if (!reader.ok()) return;
  RequireExternal(reader->Verify());
  RequireExternal(reader->FullNames().status());
  for (const auto& [name, tensor] : reader->tensors()) {
    const auto read = reader->ReadMany({{.name = name}}, 1);
    RequireExternal(read.status());
    if (read.ok() && (!((*read)[0].shape() == tensor.shape) ||
                      (*read)[0].dtype() != tensor.dtype))
      std::abort();
    // The first half of the first dimension.
    if (tensor.shape.rank() == 0 || tensor.shape.dim(0) < 2) continue;
    std::vector<sluice::TensorSlice::Extent> half(
        static_cast<size_t>(tensor.shape.rank()));
    half[0] = {0, tensor.shape.dim(0) / 2};
    RequireExternal(
        reader->ReadSlice(name, sluice::TensorSlice(half)).status());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1,
                               size - 1);
  if (data[0] % 2 == 0)
    ReadFuzzedTable(std::string(bytes));
  else
    ReadFuzzedCheckpoint(bytes);
  return 0;
}
