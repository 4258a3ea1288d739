// Checkpoints of 1 GB in 100 tensors. bench/checkpoint_peers.py measures the
// same in TensorFlow.
//
// Beside them, what the machine does without a format: the same bytes by
// write(2) and pread(2), of the same sizes, to and from the page cache. The
// figures that end in "_disk" wait until the disk has the files, as the saving
// ops do.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "bench.h"
#include "checkpoint/bundle_writer.h"
#include "checkpoint/checkpoint_reader.h"
#include "sluice/sluice.h"
#include "timing.h"

namespace sluice::bench {
namespace {

constexpr int kSavedTensors = 100;
constexpr int64_t kTensorElements = 2'500'000;  // Of 4 bytes.
constexpr double kSavedBytes = 4.0 * kSavedTensors * kTensorElements;
constexpr int kSaveTimes = 5;

// A folder for the checkpoints, removed at exit.
Result<std::string> CheckpointFolder() {
  struct Folder {
    std::string path;
    ~Folder() {
      std::error_code ignored;
      if (!path.empty()) std::filesystem::remove_all(path, ignored);
    }
  };
  static Folder folder = [] {
    const char* const chosen = getenv("SLUICE_BENCH_FILES");
    std::string name = (chosen != nullptr && *chosen != '\0'
                            ? std::filesystem::path(chosen)
                            : std::filesystem::temp_directory_path()) /
                       "sluice_checkpoints_XXXXXX";
    return Folder{mkdtemp(name.data()) != nullptr ? name : ""};
  }();
  if (folder.path.empty())
    return Internal("bench: cannot create a temporary folder");
  return folder.path;
}

std::string SavedTensorName(int i) { return absl::StrCat("tensor_", i); }

const std::vector<Tensor>& SavedValues() {
  static const auto* const values = [] {
    auto* made = new std::vector<Tensor>;
    for (int i = 0; i < kSavedTensors; ++i) {
      Tensor t(DType::kFloat, Shape({kTensorElements}));
      for (int64_t k = 0; k < kTensorElements; ++k)
        t.data<float>()[k] = static_cast<float>(i + k);
      made->push_back(std::move(t));
    }
    return made;
  }();
  return *values;
}

Status SaveAllTensors(const std::string& prefix, bool sync) {
  SLUICE_ASSIGN_OR_RETURN(
      const auto writer,
      BundleWriter::Open(prefix, {.sync = sync, .threads = 2}));
  for (int i = 0; i < kSavedTensors; ++i)
    SLUICE_RETURN_IF_ERROR(
        writer->Add(SavedTensorName(i), SavedValues()[static_cast<size_t>(i)]));
  return writer->Finish();
}

// The shortest of the runs of `write`, to a new path each. What it wrote is
// removed, before the system begins to write it to disk and slows writers down.
Result<double> FastestWrite(
    const std::function<Status(const std::string&)>& write) {
  SLUICE_ASSIGN_OR_RETURN(const std::string folder, CheckpointFolder());
  SavedValues();
  double best = 1e300;
  for (int i = 0; i <= kSaveTimes; ++i) {
    const std::string path = absl::StrCat(folder, "/save-", i);
    const int64_t start = NowNs();
    SLUICE_RETURN_IF_ERROR(write(path));
    // (The first finds the pages.)
    if (i > 0)
      best = std::min(best, static_cast<double>(NowNs() - start) * 1e-9);
    SLUICE_ASSIGN_OR_RETURN(const auto files, CheckpointFiles(path));
    for (const std::string& file : files) std::filesystem::remove(file);
  }
  return best;
}

Result<double> SavedGbPerS(bool sync) {
  SLUICE_ASSIGN_OR_RETURN(const double s,
                          FastestWrite([&](const std::string& prefix) {
                            return SaveAllTensors(prefix, sync);
                          }));
  return kSavedBytes / s * 1e-9;
}

SLUICE_BENCH("checkpoint.save.gb_per_s") { return SavedGbPerS(false); }
SLUICE_BENCH("checkpoint.save_disk.gb_per_s") { return SavedGbPerS(true); }

// A file of as many bytes, by write(2) of a tensor at a time.
Status WriteTensors(const std::string& path) {
  const int file =
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return Internal("bench: cannot write ", path);
  bool good = true;
  for (const Tensor& t : SavedValues()) {
    size_t done = 0;
    while (good && done < t.bytes()) {
      const ssize_t n = write(file, t.raw<char>() + done, t.bytes() - done);
      good = n > 0;
      done += static_cast<size_t>(good ? n : 0);
    }
  }
  close(file);
  return good ? OkStatus() : Internal("bench: cannot write ", path);
}

SLUICE_BENCH("checkpoint.save.copy_gb_per_s") {
  SLUICE_ASSIGN_OR_RETURN(const double s, FastestWrite(WriteTensors));
  return kSavedBytes / s * 1e-9;
}

Result<std::string> SavedCheckpoint() {
  SLUICE_ASSIGN_OR_RETURN(const std::string folder, CheckpointFolder());
  const std::string prefix = folder + "/load";
  if (!CheckpointExists(prefix))
    SLUICE_RETURN_IF_ERROR(SaveAllTensors(prefix, false));
  return prefix;
}

SLUICE_BENCH("checkpoint.load.gb_per_s") {
  SLUICE_ASSIGN_OR_RETURN(const std::string prefix, SavedCheckpoint());
  std::vector<CheckpointReader::Request> all;
  for (int i = 0; i < kSavedTensors; ++i)
    all.push_back({.name = SavedTensorName(i)});
  SLUICE_ASSIGN_OR_RETURN(const double s, Best(kSaveTimes, [&]() -> Status {
                            SLUICE_ASSIGN_OR_RETURN(
                                const CheckpointReader reader,
                                CheckpointReader::Open(prefix));
                            return reader.ReadMany(all).status();
                          }));
  return kSavedBytes / s * 1e-9;
}

SLUICE_BENCH("checkpoint.load.copy_gb_per_s") {
  SLUICE_ASSIGN_OR_RETURN(const std::string prefix, SavedCheckpoint());
  const std::string path = BundleDataName(prefix, 0, 1);
  SLUICE_ASSIGN_OR_RETURN(
      const double s, Best(kSaveTimes, [&]() -> Status {
        const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
        if (file < 0) return Internal("bench: cannot read ", path);
        bool good = true;
        std::vector<Tensor> read;
        for (int i = 0; i < kSavedTensors && good; ++i) {
          Tensor t(DType::kFloat, Shape({kTensorElements}));
          size_t done = 0;
          while (good && done < t.bytes()) {
            const ssize_t n =
                ::read(file, t.raw<char>() + done, t.bytes() - done);
            good = n > 0;
            done += static_cast<size_t>(good ? n : 0);
          }
          read.push_back(std::move(t));
        }
        close(file);
        return good ? OkStatus() : Internal("bench: cannot read ", path);
      }));
  return kSavedBytes / s * 1e-9;
}

}  // namespace
}  // namespace sluice::bench
