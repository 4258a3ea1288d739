#include "io/histogram.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "io/proto/summary.pb.h"

namespace sluice {
namespace {

constexpr double kFirstLimit = 1e-12;
constexpr double kLimitsEnd = 1e20;
constexpr double kGrowth = 1.1;
constexpr double kLastLimit = std::numeric_limits<double>::max();

// For each binary exponent, the first positive limit that is not below 2^e: a
// search for a value starts there and takes at most eight steps, because 1.1^8
// is more than 2.
class OctaveStarts {
 public:
  explicit OctaveStarts(const std::vector<double>& limits) {
    for (int e = kLowest; e <= kHighest; ++e)
      starts_[static_cast<size_t>(e - kLowest)] = static_cast<size_t>(
          std::lower_bound(limits.begin(), limits.end(), std::ldexp(1.0, e)) -
          limits.begin());
  }
  // Of a positive value: a bucket that is not above the value's.
  size_t Of(double value) const {
    const int e = std::clamp(std::ilogb(value), kLowest, kHighest);
    // (The lowest octave holds all smaller values too.)
    return starts_[static_cast<size_t>(e - kLowest)];
  }

 private:
  static constexpr int kLowest = -40, kHighest = 67;  // 2^-40 < 1e-12.
  std::array<size_t, kHighest - kLowest + 1> starts_;
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
  static const OctaveStarts starts(limits);
  size_t i = starts.Of(value);
  while (i + 1 < limits.size() && limits[i] <= value) ++i;
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
