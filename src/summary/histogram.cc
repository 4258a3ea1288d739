#include "summary/histogram.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "summary/proto/summary.pb.h"

namespace sluice {
namespace {

constexpr double kFirstLimit = 1e-12;
constexpr double kLimitsEnd = 1e20;
constexpr double kGrowth = 1.1;
constexpr double kLastLimit = std::numeric_limits<double>::max();

// The bits of a positive value that choose where its search starts: the
// exponent and three bits of the mantissa.
constexpr int kClearedBits = 52 - 3;
constexpr uint64_t KeptBits(double value) {
  return std::bit_cast<uint64_t>(value) >> kClearedBits;
}

// Where a search for the bucket of a positive value starts: at the first limit
// that is not below the value with its other bits cleared.
// The search then takes at most two steps, because 1.1^2 is more than 9/8.
class SearchStarts {
 public:
  explicit SearchStarts(const std::vector<double>& limits) {
    for (uint64_t i = 0; i < starts_.size(); ++i)
      starts_[i] = static_cast<uint16_t>(
          std::lower_bound(
              limits.begin(), limits.end(),
              std::bit_cast<double>((kLowest + i) << kClearedBits)) -
          limits.begin());
  }
  size_t Of(double value) const {
    // (Smaller and larger values are in the first and in the last bucket.)
    return starts_[std::clamp(KeptBits(value), kLowest, kHighest) - kLowest];
  }

 private:
  static constexpr uint64_t kLowest = KeptBits(0x1p-40);  // Below 1e-12.
  static constexpr uint64_t kHighest = KeptBits(0x1p67);  // Above 1e20.
  std::array<uint16_t, kHighest - kLowest + 1> starts_;
};

std::vector<double> PositiveLimits() {
  std::vector<double> limits;
  for (double v = kFirstLimit; v < kLimitsEnd; v *= kGrowth)
    limits.push_back(v);
  limits.push_back(kLastLimit);
  return limits;
}

// The index of the first positive limit above a positive value.
size_t PositiveBucket(double value) {
  static const std::vector<double> limits = PositiveLimits();
  static const SearchStarts starts(limits);
  const size_t last = limits.size() - 1;
  size_t i = starts.Of(value);
  while (i < last && limits[i] <= value) ++i;
  return i;
}

}  // namespace

const std::vector<double>& Histogram::Limits() {
  static const std::vector<double> limits = [] {
    const std::vector<double> positive = PositiveLimits();
    std::vector<double> all;
    for (auto it = positive.rbegin(); it != positive.rend(); ++it)
      all.push_back(-*it);
    all.push_back(0);
    all.insert(all.end(), positive.begin(), positive.end());
    return all;
  }();
  return limits;
}

size_t Histogram::BucketOf(double value) {
  const auto all = static_cast<int64_t>(Limits().size());
  const int64_t zero = all / 2;
  if (value == 0) return static_cast<size_t>(zero + 1);
  const auto i = static_cast<int64_t>(PositiveBucket(std::abs(value)));
  if (value > 0) {
    // The largest value of all belongs to the last bucket.
    return static_cast<size_t>(zero + 1 + i);
  }
  // Limits below zero are the positive ones from the end: -limit[i] is at
  // zero - 1 - i. The value is above -limit[i], and at or below -limit[i - 1]:
  // a value that equals a limit belongs to the bucket above it.
  const std::vector<double>& limits = Limits();
  int64_t at = zero - i;
  if (limits[static_cast<size_t>(at)] <= value) ++at;
  return static_cast<size_t>(at);
}

Histogram::Histogram()
    : min_(kLastLimit), max_(-kLastLimit), counts_(Limits().size(), 0.0) {}

template <typename T>
Status Histogram::AddAll(std::span<const T> values) {
  if constexpr (!std::numeric_limits<T>::is_integer) {
    for (const T& v : values) {
      const auto d = static_cast<double>(v);
      if (std::isnan(d))
        return InvalidArgument("values: expected finite numbers, got NaN");
      if (std::isinf(d))
        return InvalidArgument("values: expected finite numbers, got Infinity");
    }
  }
  for (const T& v : values) {
    const auto d = static_cast<double>(v);
    counts_[BucketOf(d)] += 1;
    min_ = std::min(min_, d);
    max_ = std::max(max_, d);
    sum_ += d;
    sum_squares_ += d * d;
  }
  num_ += static_cast<double>(values.size());
  return OkStatus();
}

Status Histogram::Add(const Tensor& values) {
  switch (values.dtype()) {
    case DType::kFloat:
      return AddAll(values.flat<float>());
    case DType::kDouble:
      return AddAll(values.flat<double>());
    case DType::kHalf:
      return AddAll(values.flat<half>());
    case DType::kBfloat16:
      return AddAll(values.flat<bfloat16>());
    case DType::kInt8:
      return AddAll(values.flat<int8_t>());
    case DType::kInt16:
      return AddAll(values.flat<int16_t>());
    case DType::kInt32:
      return AddAll(values.flat<int32_t>());
    case DType::kInt64:
      return AddAll(values.flat<int64_t>());
    case DType::kUint8:
      return AddAll(values.flat<uint8_t>());
    case DType::kUint16:
      return AddAll(values.flat<uint16_t>());
    case DType::kUint32:
      return AddAll(values.flat<uint32_t>());
    case DType::kUint64:
      return AddAll(values.flat<uint64_t>());
    case DType::kBool:
      return AddAll(values.flat<bool>());
    default:
      return InvalidArgument("values: expected real numbers, got ",
                             DTypeName(values.dtype()));
  }
}

void Histogram::ToProto(proto::HistogramProto* p) const {
  p->set_min(min_);
  p->set_max(max_);
  p->set_num(num_);
  p->set_sum(sum_);
  p->set_sum_squares(sum_squares_);
  const std::vector<double>& limits = Limits();
  for (size_t i = 0; i < counts_.size(); ++i) {
    if (counts_[i] == 0)
      while (i + 1 < counts_.size() && counts_[i + 1] == 0) ++i;
    p->add_bucket_limit(limits[i]);
    p->add_bucket(counts_[i]);
  }
}

}  // namespace sluice
