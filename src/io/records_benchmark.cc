// Reading a file of records that is in the page cache, and what part of the
// speed of read(2) that is, in blocks of the size that the reader uses.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "io/crc32c.h"
#include "io/records.h"

namespace sluice {
namespace {

constexpr int64_t kBenchmarkFileBytes = 64 << 20;
constexpr size_t kReadBytes = 128 << 10;

// A file of records of `size` bytes each, removed at the end of the process.
class BenchmarkFile {
 public:
  explicit BenchmarkFile(size_t size)
      : path_(std::filesystem::temp_directory_path() /
              ("sluice_records_benchmark_" + std::to_string(getpid()))) {
    const auto writer = *RecordWriter::Open(path_);
    std::string record(size, '\0');
    uint32_t noise = 1;
    for (char& c : record)
      c = static_cast<char>((noise = noise * 1664525 + 1013904223) >> 24);
    for (int64_t n = 0; n < kBenchmarkFileBytes;
         n += static_cast<int64_t>(size) + 16)
      if (!writer->Write(record).ok()) std::abort();
    if (!writer->Close().ok()) std::abort();
  }
  ~BenchmarkFile() { unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

void ReadWithSystemCalls(const std::string& path, std::string* buffer) {
  const int file = open(path.c_str(), O_RDONLY);
  while (read(file, buffer->data(), buffer->size()) > 0)
    benchmark::DoNotOptimize(buffer->data());
  close(file);
}

void ReadAllRecords(const std::string& path) {
  const auto reader = *RecordReader::Open(path);
  std::string_view record;
  while (reader->Read(&record).ok()) benchmark::DoNotOptimize(record.data());
}

template <typename Fn>
double SecondsOf(Fn&& fn) {
  const auto start = std::chrono::steady_clock::now();
  fn();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

// The argument: bytes of a record. Both are measured in turn; `of_read`
// compares the best times, which other load disturbs least.
void ReadRecords(benchmark::State& state) {
  const BenchmarkFile file(static_cast<size_t>(state.range(0)));
  const auto bytes =
      static_cast<double>(std::filesystem::file_size(file.path()));
  std::string buffer(kReadBytes, '\0');
  double best = 1e9, best_read = 1e9;
  for (auto _ : state) {
    best_read =
        std::min(best_read,
                 SecondsOf([&] { ReadWithSystemCalls(file.path(), &buffer); }));
    const double took = SecondsOf([&] { ReadAllRecords(file.path()); });
    best = std::min(best, took);
    state.SetIterationTime(took);
  }
  state.counters["GB/s"] = bytes / best / 1e9;
  state.counters["read_GB/s"] = bytes / best_read / 1e9;
  state.counters["of_read"] = best_read / best;
}
BENCHMARK(ReadRecords)
    ->Arg(100)
    ->Arg(1000)
    ->Arg(16000)
    ->Arg(150000)
    ->Arg(2000000)
    ->UseManualTime()
    ->Iterations(60);

void Checksum(benchmark::State& state) {
  const std::string bytes(static_cast<size_t>(state.range(0)), 'x');
  for (auto _ : state) benchmark::DoNotOptimize(Crc32c(bytes));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(Checksum)->Arg(8)->Arg(100)->Arg(1000)->Arg(16000)->Arg(150000);

}  // namespace
}  // namespace sluice
