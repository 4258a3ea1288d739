// Input: from files of records to batches of augmented images, and the ops that
// turn records into tensors. bench/input_peers.py measures the same in
// TensorFlow, on the same files.
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "bench.h"
#include "input_files.h"
#include "sluice/sluice.h"
#include "timing.h"

namespace sluice::bench {
namespace {

// ---- Records ----------------------------------------------------------------

Result<double> FileBytes(const std::string& path) {
  std::error_code failed;
  const auto size = std::filesystem::file_size(path, failed);
  if (failed) return Internal("bench: cannot find the size of ", path);
  return static_cast<double>(size);
}

Status ReadAll(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(auto in, RecordReader::Open(path));
  std::string_view record;
  for (;;) {
    const Status read = in->Read(&record);
    if (read.code() == StatusCode::kOutOfRange) return OkStatus();
    SLUICE_RETURN_IF_ERROR(read);
  }
}

SLUICE_BENCH("records.read.gb_per_s") {
  SLUICE_ASSIGN_OR_RETURN(const std::string path, RecordsFile());
  SLUICE_ASSIGN_OR_RETURN(const double bytes, FileBytes(path));
  SLUICE_ASSIGN_OR_RETURN(const double s,
                          Best(5, [&] { return ReadAll(path); }));
  return bytes / s * 1e-9;
}

// read(2) of a file. (To where a page begins: copies to other places took up to
// five times as long.)
class Copies {
 public:
  explicit Copies(std::string path) : path_(std::move(path)) {}
  Status operator()() const {
    const int file = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return Internal("bench: cannot open ", path_);
    ssize_t n = 0;
    do n = read(file, buffer_.get(), kBuffer);
    while (n > 0);
    close(file);
    return n == 0 ? OkStatus() : Internal("bench: cannot read ", path_);
  }

 private:
  static constexpr size_t kBuffer = 256 << 10;
  const std::string path_;
  const std::unique_ptr<void, void (*)(void*)> buffer_{
      std::aligned_alloc(4096, kBuffer), std::free};
};

SLUICE_BENCH("records.read.copy_gb_per_s") {
  SLUICE_ASSIGN_OR_RETURN(const std::string path, RecordsFile());
  SLUICE_ASSIGN_OR_RETURN(const double bytes, FileBytes(path));
  SLUICE_ASSIGN_OR_RETURN(const double s, Best(5, Copies(path)));
  return bytes / s * 1e-9;
}

// The first as a share of the second: the median of the ratios of neighbouring
// turns, in which the machine does the same besides.
SLUICE_BENCH("records.read.of_copy.percent") {
  SLUICE_ASSIGN_OR_RETURN(const std::string path, RecordsFile());
  const Copies copy(path);
  return PercentByTurns(
      61, [&] { return copy(); }, [&] { return ReadAll(path); });
}

// ---- Pipelines --------------------------------------------------------------

// A part of `size` x `size`, mirrored or not, brighter or darker, as floats.
Output Augmented(Output image, int64_t size) {
  const Output scalar = Constant(Tensor(DType::kInt32, Shape({0})));
  image =
      ops::RandomCrop(image, Constant(Tensor::Vector<int64_t>({size, size})));
  image = Cond(
      ops::RandomUniform(scalar, DType::kFloat) < 0.5f,
      [&] { return ops::ReverseV2(image, IntVector({1})); },
      [&] { return ops::Identity(image); });
  const Output change = ops::RandomUniform(scalar, DType::kFloat) * 64.f - 32.f;
  return ops::Cast(image, DType::kFloat) + change;
}

// `images`: a run.
template <typename Map>
Result<double> ImagesPerS(const std::string& files, const Map& map,
                          int64_t shuffle, int64_t images) {
  constexpr int64_t kBatch = 64;
  Graph g;
  WithGraph use(g);
  DatasetIterator batches =
      Dataset::FromFiles(Constant(Tensor::Scalar<std::string>(files)))
          .Interleave([](Output file) { return Dataset::TfRecords(file); })
          .Map(map)
          .Shuffle(shuffle)
          .Repeat()
          .Batch(kBatch)
          .Prefetch(2)
          .MakeIterator();
  const std::vector<Output> next = batches.Next();
  Session session(g);
  SLUICE_ASSIGN_OR_RETURN(const Session::Callable take,
                          session.MakeCallable({}, next));
  SLUICE_RETURN_IF_ERROR(batches.Start(session));
  const Result<double> s = Best(3, [&] {
    for (int64_t i = 0; i < images / kBatch; ++i)
      SLUICE_RETURN_IF_ERROR(take.Run().status());
    return OkStatus();
  });
  batches.Stop();
  SLUICE_RETURN_IF_ERROR(s.status());
  return static_cast<double>(images / kBatch * kBatch) / *s;
}

SLUICE_BENCH("pipeline.png28.images_per_s") {
  SLUICE_ASSIGN_OR_RETURN(const std::string files, PngFiles());
  return ImagesPerS(
      files,
      [](Output file) {
        return Augmented(ops::DecodePng(file, {.channels = 1}), 24);
      },
      1000, 4 * kPngImages);
}

SLUICE_BENCH("pipeline.jpeg224.images_per_s") {
  SLUICE_ASSIGN_OR_RETURN(const std::string files, JpegFiles());
  return ImagesPerS(
      files,
      [](Output file) {
        return Augmented(ops::DecodeJpeg(file, {.channels = 3}), 200);
      },
      128, 3 * kJpegImages);
}

// ---- Ops --------------------------------------------------------------------

// Steps a second, of the best of some runs of at least 20 ms.
Result<double> StepsPerS(const Session::Callable& step,
                         std::span<const Tensor> feeds) {
  const auto run = [&](int times) {
    for (int i = 0; i < times; ++i)
      SLUICE_RETURN_IF_ERROR(step.Run(feeds).status());
    return OkStatus();
  };
  int times = 1;
  for (;; times *= 4) {
    const int64_t start = NowNs();
    SLUICE_RETURN_IF_ERROR(run(times));
    if (NowNs() - start > 20'000'000) break;
  }
  SLUICE_ASSIGN_OR_RETURN(const double s, Best(7, [&] { return run(times); }));
  return times / s;
}

// Examples a second.
SLUICE_BENCH("parse_example.per_s") {
  SLUICE_ASSIGN_OR_RETURN(const std::string path, ExamplesFile());
  SLUICE_ASSIGN_OR_RETURN(auto in, RecordReader::Open(path));
  Tensor serialized(DType::kString, Shape({kExamples}));
  for (std::string& example : serialized.raw_flat<std::string>()) {
    std::string_view record;
    SLUICE_RETURN_IF_ERROR(in->Read(&record));
    example = record;
  }
  Graph g;
  WithGraph use(g);
  Tensor sparse_keys(DType::kString, Shape({5}));
  std::vector<DType> sparse_types;
  for (int i = 0; i < 5; ++i) {
    sparse_keys.raw<std::string>()[i] = absl::StrCat("sparse", i);
    sparse_types.push_back(i == 4 ? DType::kString : DType::kInt64);
  }
  Tensor dense_keys(DType::kString, Shape({10}));
  std::vector<PartialShape> shapes;
  std::vector<Operand> defaults;
  for (int i = 0; i < 10; ++i) {
    const bool floats = i % 2 == 0;
    dense_keys.raw<std::string>()[i] = absl::StrCat("dense", i);
    shapes.push_back(floats ? PartialShape({8}) : PartialShape({1}));
    defaults.push_back(
        Constant(Tensor(floats ? DType::kFloat : DType::kInt64, Shape({0}))));
  }
  const Output examples = Placeholder<std::string>({kExamples});
  const Tensor none(DType::kString, Shape({0}));
  const auto parsed = ops::ParseExampleV2(
      examples, Constant(none), Constant(sparse_keys), Constant(dense_keys),
      Constant(none), defaults, 5, sparse_types, {}, {}, shapes);
  Session session(g);
  SLUICE_ASSIGN_OR_RETURN(
      const Session::Callable step,
      session.MakeCallable({examples}, {parsed.dense_values[0]}));
  SLUICE_ASSIGN_OR_RETURN(const double steps,
                          StepsPerS(step, {&serialized, 1}));
  return steps * kExamples;
}

// Strings looked up a second, a thousand a step, in a table of 10,000.
SLUICE_BENCH("lookup.strings.per_s") {
  constexpr int64_t kWords = 10'000, kKeys = 1'000;
  Tensor words(DType::kString, Shape({kWords}));
  Tensor numbers(DType::kInt64, Shape({kWords}));
  for (int64_t i = 0; i < kWords; ++i) {
    words.raw<std::string>()[i] = absl::StrCat("word", i);
    numbers.raw<int64_t>()[i] = i;
  }
  // A tenth of the keys are not there.
  Tensor keys(DType::kString, Shape({kKeys}));
  for (int64_t i = 0; i < kKeys; ++i)
    keys.raw<std::string>()[i] =
        absl::StrCat("word", i * 7919 % (kWords + kWords / 9));
  Graph g;
  WithGraph use(g);
  const Output table = ops::HashTableV2(DType::kString, DType::kInt64);
  Node* const fill =
      ops::InitializeTableV2(table, Constant(words), Constant(numbers));
  const Output wanted = Placeholder<std::string>({kKeys});
  const Output found =
      ops::LookupTableFindV2(table, wanted, Constant(int64_t{-1}));
  Session session(g);
  SLUICE_RETURN_IF_ERROR(session.RunTargets({fill}));
  SLUICE_ASSIGN_OR_RETURN(const Session::Callable step,
                          session.MakeCallable({wanted}, {found}));
  SLUICE_ASSIGN_OR_RETURN(const double steps, StepsPerS(step, {&keys, 1}));
  return steps * kKeys;
}

// Images a second, to half their size.
SLUICE_BENCH("resize.bilinear224.per_s") {
  Tensor image(DType::kUint8, Shape({1, 224, 224, 3}));
  std::mt19937 random(7);
  for (uint8_t& v : image.raw_flat<uint8_t>())
    v = static_cast<uint8_t>(random());
  Graph g;
  WithGraph use(g);
  const Output x = Placeholder<uint8_t>({1, 224, 224, 3});
  const Output y = ops::ResizeBilinear(x, IntVector({112, 112}),
                                       {.half_pixel_centers = true});
  Session session(g);
  SLUICE_ASSIGN_OR_RETURN(const Session::Callable step,
                          session.MakeCallable({x}, {y}));
  return StepsPerS(step, {&image, 1});
}

}  // namespace
}  // namespace sluice::bench
