#include "tools/sluice/demo_data.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <random>

#include "zlib.h"

namespace sluice::demo {
namespace {

struct CloseGz {
  void operator()(gzFile_s* f) const { gzclose(f); }
};

// The bytes of a gzip'ed idx file with the given dimensions after the first.
Result<std::vector<uint8_t>> ReadIdx(const std::string& path,
                                     const std::vector<uint32_t>& dims) {
  const std::unique_ptr<gzFile_s, CloseGz> file(gzopen(path.c_str(), "rb"));
  if (file == nullptr) return NotFound("cannot read ", path);
  const auto read32 = [&file]() -> int64_t {
    std::array<uint8_t, 4> b;
    if (gzread(file.get(), b.data(), 4) != 4) return -1;
    return int64_t{b[0]} << 24 | b[1] << 16 | b[2] << 8 | b[3];
  };
  const int64_t magic = read32();
  const int64_t expected = 0x800 + 1 + static_cast<int64_t>(dims.size());
  if (magic != expected)
    return DataLoss(path, ": expected idx magic ", expected, ", got ", magic);
  const int64_t count = read32();
  int64_t size = count;
  for (uint32_t d : dims) {
    const int64_t got = read32();
    if (got != d)
      return DataLoss(path, ": expected a dimension of ", d, ", got ", got);
    size *= d;
  }
  constexpr int64_t kMax = int64_t{1} << 30;
  if (count < 1 || size > kMax)
    return DataLoss(path, ": expected a reasonable count, got ", count);
  std::vector<uint8_t> bytes(static_cast<size_t>(size));
  const int got = gzread(file.get(), bytes.data(), static_cast<unsigned>(size));
  if (got != size)
    return DataLoss(path, ": expected ", size, " bytes, got ", got);
  return bytes;
}

Result<ImageSet> ReadSet(const std::string& stem) {
  ImageSet set;
  SLUICE_ASSIGN_OR_RETURN(
      set.pixels, ReadIdx(stem + "-images-idx3-ubyte.gz", {kSide, kSide}));
  SLUICE_ASSIGN_OR_RETURN(set.labels,
                          ReadIdx(stem + "-labels-idx1-ubyte.gz", {}));
  if (set.pixels.size() != set.labels.size() * kPixels)
    return DataLoss(stem, ": expected as many labels as images, got ",
                    set.labels.size(), " for ", set.pixels.size() / kPixels);
  const auto largest = std::max_element(set.labels.begin(), set.labels.end());
  if (*largest >= kClasses)
    return DataLoss(stem, ": expected labels below 10, got ", int{*largest});
  return set;
}

// A sum of a few wide bumps per class.
class Patterns {
 public:
  explicit Patterns(std::mt19937_64* random) {
    std::uniform_real_distribution<> place(6, kSide - 6), width(2, 5);
    for (auto& pattern : bumps_)
      for (Bump& b : pattern)
        b = {place(*random), place(*random), width(*random)};
  }
  double At(int label, double x, double y) const {
    double v = 0;
    for (const Bump& b : bumps_[static_cast<size_t>(label)]) {
      const double dx = (x - b.x) / b.width, dy = (y - b.y) / b.width;
      v += std::exp(-(dx * dx + dy * dy));
    }
    return std::min(v, 1.0);
  }

 private:
  struct Bump {
    double x, y, width;
  };
  std::array<std::array<Bump, 4>, kClasses> bumps_;
};

ImageSet Draw(const Patterns& patterns, int count, std::mt19937_64* random) {
  std::uniform_real_distribution<> shift(-3, 3), light(0.5, 1);
  std::normal_distribution<> noise(0, 0.25);
  ImageSet set;
  set.pixels.reserve(static_cast<size_t>(count) * kPixels);
  for (int i = 0; i < count; ++i) {
    const int label = i % kClasses;
    set.labels.push_back(static_cast<uint8_t>(label));
    const double dx = shift(*random), dy = shift(*random), dim = light(*random);
    for (int y = 0; y < kSide; ++y)
      for (int x = 0; x < kSide; ++x) {
        const double v =
            dim * patterns.At(label, x + dx, y + dy) + noise(*random);
        set.pixels.push_back(
            static_cast<uint8_t>(255 * std::clamp(v, 0.0, 1.0)));
      }
  }
  return set;
}

}  // namespace

Result<ImageData> LoadFashionMnist(const std::string& dir) {
  ImageData data;
  data.name = "Fashion-MNIST";
  data.classes = {"T-shirt", "Trouser", "Pullover", "Dress", "Coat",
                  "Sandal",  "Shirt",   "Sneaker",  "Bag",   "Ankle boot"};
  SLUICE_ASSIGN_OR_RETURN(data.train, ReadSet(dir + "/train"));
  SLUICE_ASSIGN_OR_RETURN(data.test, ReadSet(dir + "/t10k"));
  return data;
}

ImageData MakeImages(uint64_t seed, int train, int test) {
  std::mt19937_64 random(seed);
  const Patterns patterns(&random);
  ImageData data;
  data.name = "synthetic images";
  for (int i = 0; i < kClasses; ++i)
    data.classes.push_back("pattern " + std::to_string(i));
  data.train = Draw(patterns, train, &random);
  data.test = Draw(patterns, test, &random);
  return data;
}

}  // namespace sluice::demo
