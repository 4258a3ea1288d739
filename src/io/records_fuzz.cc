// For any input bytes, reading them as records, plain or compressed, ends with
// the end or an error, after records that follow each other.
//
// The first byte chooses the compression. Seeds are in tests/fuzz/records_fuzz.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "io/records.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  constexpr int64_t kMaxRecord = 1 << 20;
  auto reader = sluice::RecordReader::FromSource(
      sluice::MakeMemorySource(
          {reinterpret_cast<const char*>(data) + 1, size - 1}),
      "input",
      {.compression = static_cast<sluice::RecordCompression>(data[0] % 3),
       .max_record_bytes = kMaxRecord});
  if (!reader.ok()) std::abort();
  std::string_view record;
  int64_t before = 0;
  // (A compressed input may be long: it is read up to 16 MiB.)
  while (before < 16 << 20) {
    const sluice::Status s = (*reader)->Read(&record);
    if (!s.ok()) {
      if (s.code() == sluice::StatusCode::kInternal ||
          (*reader)->Read(&record) != s)
        std::abort();
      return 0;
    }
    const auto bytes = static_cast<int64_t>(record.size());
    if (bytes > kMaxRecord || (*reader)->offset() != before + bytes + 16)
      std::abort();
    before = (*reader)->offset();
  }
  return 0;
}
