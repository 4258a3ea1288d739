#include "input_files.h"

#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <random>
#include <vector>

#include "io/image_jpeg.h"
#include "io/image_png.h"
#include "io/records.h"
#include "tensor/tensor.h"

namespace sluice::bench {
namespace {

// Where the files are. Removed at exit, unless the caller has chosen it.
class Folder {
 public:
  Folder() {
    if (const char* chosen = getenv("SLUICE_BENCH_FILES");
        chosen != nullptr && *chosen != '\0') {
      path_ = chosen;
      return;
    }
    std::string name =
        (std::filesystem::temp_directory_path() / "sluice_bench_XXXXXX")
            .string();
    if (mkdtemp(name.data()) != nullptr) path_ = name;
    temporary_ = true;
  }
  ~Folder() {
    std::error_code ignored;
    if (temporary_ && !path_.empty())
      std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool temporary_ = false;
};

using Write = std::function<Status(RecordWriter&)>;

// The path of the file of that name, which `write` writes if it is not there.
Result<std::string> FileOf(const std::string& name, const Write& write) {
  static const Folder folder;
  if (folder.path().empty())
    return Internal("bench: cannot create a temporary folder");
  const std::string path = absl::StrCat(folder.path(), "/", name);
  if (std::filesystem::exists(path)) return path;
  // (Nobody sees half a file.)
  const std::string part = path + ".part";
  SLUICE_ASSIGN_OR_RETURN(auto out, RecordWriter::Open(part));
  SLUICE_RETURN_IF_ERROR(write(*out));
  SLUICE_RETURN_IF_ERROR(out->Close());
  std::error_code failed;
  std::filesystem::rename(part, path, failed);
  if (failed) return Internal("bench: cannot rename ", part);
  return path;
}

// `count` images in four files; their pattern.
Result<std::string> ImageFiles(
    const char* kind, int64_t count,
    const std::function<Result<std::string>(int64_t)>& encode) {
  constexpr int64_t kFiles = 4;
  std::string path;
  for (int64_t f = 0; f < kFiles; ++f) {
    SLUICE_ASSIGN_OR_RETURN(
        path, FileOf(absl::StrCat(kind, "-", f, ".tfrecord"),
                     [&](RecordWriter& out) -> Status {
                       for (int64_t i = f; i < count; i += kFiles) {
                         SLUICE_ASSIGN_OR_RETURN(const std::string image,
                                                 encode(i));
                         SLUICE_RETURN_IF_ERROR(out.Write(image));
                       }
                       return OkStatus();
                     }));
  }
  return absl::StrCat(std::filesystem::path(path).parent_path().string(), "/",
                      kind, "-*.tfrecord");
}

// Three strokes with soft edges.
Tensor Strokes(int64_t seed) {
  constexpr int kSide = 28;
  std::mt19937 random(static_cast<uint32_t>(seed));
  std::uniform_real_distribution<float> place(5, 23);
  float ends[3][4];
  for (auto& stroke : ends)
    for (float& v : stroke) v = place(random);
  Tensor image(DType::kUint8, Shape({kSide, kSide, 1}));
  for (int y = 0; y < kSide; ++y) {
    for (int x = 0; x < kSide; ++x) {
      float ink = 0;
      for (const auto& [x0, y0, x1, y1] : ends) {
        const float px = static_cast<float>(x) - x0;
        const float py = static_cast<float>(y) - y0;
        const float dx = x1 - x0, dy = y1 - y0;
        const float along = std::clamp(
            (px * dx + py * dy) / (dx * dx + dy * dy + 1e-3f), 0.f, 1.f);
        const float distance = std::hypot(px - along * dx, py - along * dy);
        ink = std::max(ink, std::clamp(2.f - distance, 0.f, 1.f));
      }
      image.raw<uint8_t>()[y * kSide + x] = static_cast<uint8_t>(255 * ink);
    }
  }
  return image;
}

// Noise at wavelengths of 4 to 128 pixels, the amplitude in proportion, as in
// photographs.
Tensor Clouds(int64_t seed) {
  constexpr int kSide = 224;
  std::mt19937 random(static_cast<uint32_t>(seed));
  std::uniform_real_distribution<float> level(-1, 1);
  std::vector<float> sum(size_t{kSide} * kSide * 3, 128);
  for (int wave = 128; wave >= 4; wave /= 2) {
    const int points = kSide / wave + 2;
    std::vector<float> grid(static_cast<size_t>(points) * points * 3);
    for (float& v : grid) v = level(random);
    const auto at = [&](int y, int x, int c) {
      return grid[static_cast<size_t>((y * points + x) * 3 + c)];
    };
    const float amplitude = 8 * std::sqrt(static_cast<float>(wave));
    for (int y = 0; y < kSide; ++y) {
      const int gy = y / wave;
      const float fy = static_cast<float>(y % wave) / static_cast<float>(wave);
      for (int x = 0; x < kSide; ++x) {
        const int gx = x / wave;
        const float fx =
            static_cast<float>(x % wave) / static_cast<float>(wave);
        for (int c = 0; c < 3; ++c)
          sum[static_cast<size_t>((y * kSide + x) * 3 + c)] +=
              amplitude *
              ((1 - fy) * ((1 - fx) * at(gy, gx, c) + fx * at(gy, gx + 1, c)) +
               fy *
                   ((1 - fx) * at(gy + 1, gx, c) + fx * at(gy + 1, gx + 1, c)));
      }
    }
  }
  Tensor image(DType::kUint8, Shape({kSide, kSide, 3}));
  for (size_t i = 0; i < sum.size(); ++i)
    image.raw<uint8_t>()[i] = static_cast<uint8_t>(
        std::clamp(sum[i] + 6 * level(random), 0.f, 255.f));
  return image;
}

// A message of protocol buffers, field by field.
class Message {
 public:
  Message& Bytes(int field, std::string_view value) {
    Varint(static_cast<uint64_t>(field) << 3 | 2);
    Varint(value.size());
    bytes_ += value;
    return *this;
  }
  void Varint(uint64_t v) {
    for (; v >= 128; v >>= 7) bytes_ += static_cast<char>(v | 128);
    bytes_ += static_cast<char>(v);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

void AddFeature(const std::string& key, int kind, const std::string& list,
                Message* features) {
  const std::string feature = Message().Bytes(kind, list).bytes();
  features->Bytes(1, Message().Bytes(1, key).Bytes(2, feature).bytes());
}

std::string Example(std::mt19937& random) {
  constexpr int kStrings = 1, kFloats = 2, kInts = 3;
  Message features;
  for (int i = 0; i < 10; ++i) {
    const std::string key = absl::StrCat("dense", i);
    if (i % 2 == 0) {
      float values[8];
      for (float& v : values) v = static_cast<float>(random() % 1000) / 1000;
      const std::string_view bytes(reinterpret_cast<const char*>(values),
                                   sizeof(values));
      AddFeature(key, kFloats, Message().Bytes(1, bytes).bytes(), &features);
    } else {
      Message packed;
      packed.Varint(random() % 100'000);
      AddFeature(key, kInts, Message().Bytes(1, packed.bytes()).bytes(),
                 &features);
    }
  }
  for (int i = 0; i < 5; ++i) {
    const std::string key = absl::StrCat("sparse", i);
    Message packed, strings;
    for (uint32_t n = random() % 10; n > 0; --n) {
      packed.Varint(random() % 100'000);
      strings.Bytes(1, absl::StrCat("word", random() % 10'000));
    }
    if (i == 4)
      AddFeature(key, kStrings, strings.bytes(), &features);
    else
      AddFeature(key, kInts, Message().Bytes(1, packed.bytes()).bytes(),
                 &features);
  }
  return Message().Bytes(1, features.bytes()).bytes();
}

}  // namespace

Result<std::string> PngFiles() {
  return ImageFiles("png28", kPngImages,
                    [](int64_t i) { return EncodePng(Strokes(i), -1); });
}

Result<std::string> JpegFiles() {
  return ImageFiles("jpeg224", kJpegImages, [](int64_t i) {
    JpegEncodeOptions options;
    options.quality = 90;
    return EncodeJpeg(Clouds(i), options);
  });
}

Result<std::string> RecordsFile() {
  return FileOf("records.tfrecord", [](RecordWriter& out) -> Status {
    std::mt19937 random(7);
    std::string bytes(size_t{20} << 10, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    for (size_t total = 0; total < size_t{64} << 20;) {
      const size_t n = 300 + random() % (bytes.size() - 300);
      SLUICE_RETURN_IF_ERROR(out.Write({bytes.data(), n}));
      total += n;
    }
    return OkStatus();
  });
}

Result<std::string> ExamplesFile() {
  return FileOf("examples.tfrecord", [](RecordWriter& out) -> Status {
    std::mt19937 random(7);
    for (int64_t i = 0; i < kExamples; ++i)
      SLUICE_RETURN_IF_ERROR(out.Write(Example(random)));
    return OkStatus();
  });
}

}  // namespace sluice::bench
