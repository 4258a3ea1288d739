// Histograms of summaries, with TensorFlow's buckets.
#ifndef SLUICE_SUMMARY_HISTOGRAM_H_
#define SLUICE_SUMMARY_HISTOGRAM_H_

#include <span>
#include <vector>

#include "base/status.h"
#include "tensor/tensor.h"

namespace sluice {

namespace proto {
class HistogramProto;
}  // namespace proto

// Counts values in buckets whose limits grow by 10%, from 1e-12 to 1e20 and
// likewise below zero, so that histograms of any range can be compared and
// added. Not thread-safe.
class Histogram {
 public:
  Histogram();

  // Adds all elements of a tensor of real numbers. InvalidArgument for NaN,
  // infinities and other types; then nothing was added.
  Status Add(const Tensor& values);
  // Runs of empty buckets become one bucket.
  void ToProto(proto::HistogramProto* p) const;

  // Bucket i counts the values from Limits()[i - 1] up to, but not including,
  // Limits()[i].
  static const std::vector<double>& Limits();
  // The bucket of a finite value.
  static size_t BucketOf(double value);

 private:
  template <typename T>
  Status AddAll(std::span<const T> values);

  double min_, max_;
  double num_ = 0, sum_ = 0, sum_squares_ = 0;
  std::vector<double> counts_;  // Of each bucket.
};

}  // namespace sluice

#endif  // SLUICE_SUMMARY_HISTOGRAM_H_
