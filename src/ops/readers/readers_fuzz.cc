// For any file and any sizes that a node may declare, each format reads records
// until the file's end or an error, and goes on from each position with the
// same records. For any bytes as a reader's state, what is parsed is what is
// written.
//
// The first byte chooses the format, the next four the sizes. Seeds are in
// tests/fuzz/readers_fuzz.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ops/readers/formats.h"

namespace sluice::readers {
namespace {

using Outcome = FileFormat::Outcome;

// What a compressed file decompresses to is read up to here.
constexpr size_t kMaxFuzzedRecords = 4096;
constexpr size_t kMaxFuzzedBytes = 4 << 20;

// A file in memory, written anew for each input.
class FuzzedFile {
 public:
  FuzzedFile() : file_(memfd_create("readers_fuzz", 0)) {
    if (file_ < 0) std::abort();
  }
  std::string path() const { return absl::StrCat("/proc/self/fd/", file_); }
  void Write(std::string_view bytes) const {
    if (ftruncate(file_, 0) != 0 ||
        pwrite(file_, bytes.data(), bytes.size(), 0) !=
            static_cast<ssize_t>(bytes.size()))
      std::abort();
  }

 private:
  const int file_;
};

struct FuzzedRecords {
  std::vector<std::pair<std::string, std::string>> all;
  std::vector<FilePosition> before;  // Of each record.
  std::string end;  // The error's message; empty at the end of the file.
};

FuzzedRecords ReadFuzzedFile(FileFormat& format, const std::string& path,
                             const FilePosition& from) {
  FuzzedRecords out;
  if (const Status s = format.Open(path, from); !s.ok()) {
    out.end = std::string(s.message());
    return out;
  }
  size_t bytes = 0;
  while (out.all.size() < kMaxFuzzedRecords && bytes < kMaxFuzzedBytes) {
    out.before.push_back(format.position());
    std::string key, value;
    const Result<Outcome> got = format.Next(&key, &value);
    if (!got.ok()) {
      if (got.status().code() == StatusCode::kOutOfRange ||
          got.status().code() == StatusCode::kInternal)
        std::abort();
      out.end = std::string(got.status().message());
      break;
    }
    if (*got == Outcome::kEnd) break;
    bytes += value.size() + 1;
    out.all.emplace_back(std::move(key), std::move(value));
    if (*got == Outcome::kLastRecord) break;
  }
  format.Close();
  return out;
}

void CheckFuzzedFormat(FileFormat& format, std::string_view bytes) {
  static const FuzzedFile file;
  file.Write(bytes);
  const FuzzedRecords whole = ReadFuzzedFile(format, file.path(), {});
  if (!format.resumes()) return;
  // From the position in the middle.
  const size_t at = whole.all.size() / 2;
  if (at >= whole.before.size()) return;
  const FuzzedRecords rest =
      ReadFuzzedFile(format, file.path(), whole.before[at]);
  for (size_t i = 0; at + i < whole.all.size(); ++i)
    if (i >= rest.all.size() || rest.all[i] != whole.all[at + i]) std::abort();
  const bool cut = whole.all.size() >= kMaxFuzzedRecords ||
                   rest.all.size() != whole.all.size() - at;
  if (!cut && rest.end != whole.end) std::abort();
}

void CheckFuzzedState(std::string_view bytes) {
  const auto state = ReaderState::Parse(bytes);
  if (!state) return;
  const std::string written = state->Serialize();
  const auto again = ReaderState::Parse(written);
  if (!again || again->Serialize() != written) std::abort();
}

}  // namespace
}  // namespace sluice::readers

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace readers = sluice::readers;
  if (size < 5) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 5,
                               size - 5);
  readers::ReaderOptions options;
  options.compression = static_cast<sluice::RecordCompression>(data[0] / 8 % 3);
  options.exact = data[0] >= 128;
  options.skip_header_lines = data[1] % 4;
  options.header_bytes = data[1];
  options.record_bytes = data[2] == 255 ? options.kMaxNumber : data[2] + 1;
  options.footer_bytes = data[3] == 255 ? options.kMaxNumber : data[3];
  options.hop_bytes = data[4] == 255 ? options.kMaxNumber : data[4];
  switch (data[0] % 8) {
    case 0:
      readers::CheckFuzzedFormat(*readers::MakeWholeFileFormat(), bytes);
      break;
    case 1:
      readers::CheckFuzzedState(bytes);
      break;
    case 2:
      readers::CheckFuzzedFormat(*readers::MakeTextLineFormat(options), bytes);
      break;
    case 3:
    case 4:
      readers::CheckFuzzedFormat(*readers::MakeTFRecordFormat(options), bytes);
      break;
    default:
      readers::CheckFuzzedFormat(*readers::MakeFixedLengthFormat(options),
                                 bytes);
  }
  return 0;
}
