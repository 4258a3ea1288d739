// For any input bytes, reading them as records or as lines, plain or
// compressed, ends with the end or an error, after records that follow each
// other, or lines that are the input's.
//
// The first byte chooses the compression and the format. Seeds are in
// tests/fuzz/records_fuzz.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "io/records.h"

namespace {

constexpr int64_t kMaxRecord = 1 << 20;
// A compressed input may be long: it is read up to here.
constexpr int64_t kMaxRead = 16 << 20;

void ReadFuzzedRecords(std::string bytes,
                       sluice::RecordCompression compression) {
  auto reader = sluice::RecordReader::FromSource(
      sluice::MakeMemorySource(std::move(bytes)), "input",
      {.compression = compression, .max_record_bytes = kMaxRecord});
  if (!reader.ok()) std::abort();
  std::string_view record;
  int64_t before = 0;
  while (before < kMaxRead) {
    const sluice::Status s = (*reader)->Read(&record);
    if (!s.ok()) {
      if (s.code() == sluice::StatusCode::kInternal ||
          (*reader)->Read(&record) != s)
        std::abort();
      return;
    }
    const auto size = static_cast<int64_t>(record.size());
    if (size > kMaxRecord || (*reader)->offset() != before + size + 16)
      std::abort();
    before = (*reader)->offset();
  }
}

void ReadFuzzedLines(std::string bytes, sluice::RecordCompression compression) {
  // The same bytes, not through a buffer, to compare with.
  std::string want;
  auto plain = *sluice::MakeInflatingSource(sluice::MakeMemorySource(bytes),
                                            compression, "input");
  char block[1000];
  while (want.size() < kMaxRecord) {
    const auto got = plain->Read(block, sizeof(block));
    if (!got.ok() || *got == 0) break;
    want.append(block, *got);
  }
  sluice::BufferedBytes buffered(*sluice::MakeInflatingSource(
      sluice::MakeMemorySource(std::move(bytes)), compression, "input"));
  while (buffered.offset() < kMaxRecord) {
    const auto before = static_cast<size_t>(buffered.offset());
    std::string_view line;
    const auto more = buffered.ReadLine(&line, kMaxRecord);
    const auto after = static_cast<size_t>(buffered.offset());
    if (!more.ok()) {
      if (after != before) std::abort();
      return;
    }
    if (!*more) {
      if (!line.empty() || after - before > 1) std::abort();
      return;
    }
    if (line.find('\n') != line.npos || after - before < line.size() ||
        after - before > line.size() + 2)
      std::abort();
    if (before + line.size() <= want.size() &&
        want.compare(before, line.size(), line) != 0)
      std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto compression = static_cast<sluice::RecordCompression>(data[0] % 3);
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] / 3 % 2 == 0) {
    ReadFuzzedRecords(std::move(bytes), compression);
  } else {
    ReadFuzzedLines(std::move(bytes), compression);
  }
  return 0;
}
