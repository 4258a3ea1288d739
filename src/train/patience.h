// How long to wait for a metric to get better.
#ifndef SLUICE_TRAIN_PATIENCE_H_
#define SLUICE_TRAIN_PATIENCE_H_

#include <cmath>
#include <optional>

#include "train/step_timer.h"
#include "train/training_hooks.h"

namespace sluice {

// Not thread-safe.
class Patience {
 public:
  explicit Patience(const EarlyStoppingOptions& options) : options_(options) {}

  Status Check() const {
    if (options_.patience < 1)
      return InvalidArgument(
          "early stopping: expected a patience of at least "
          "1, got ",
          options_.patience);
    if (!(options_.min_delta >= 0))
      return InvalidArgument(
          "early stopping: expected a min_delta of at least 0, got ",
          options_.min_delta);
    return CheckEvery("early stopping", options_.every);
  }
  // Whether to stop after this look.
  bool Exhausted(double value) {
    const double gain =
        best_.has_value()
            ? (options_.lower_is_better ? *best_ - value : value - *best_)
            : INFINITY;
    if (!std::isnan(value) && gain > options_.min_delta) {
      best_ = value;
      looks_ = 0;
      return false;
    }
    return ++looks_ >= options_.patience;
  }
  std::string Reason(const std::string& what) const {
    return absl::StrCat(what, " has not been better than ",
                        best_.has_value() ? absl::StrCat(*best_) : "nothing",
                        " for ", looks_, looks_ == 1 ? " look" : " looks");
  }

 private:
  const EarlyStoppingOptions options_;
  std::optional<double> best_;
  int looks_ = 0;
};

// A scalar of real type. InvalidArgument if it is none.
inline Result<double> RealScalar(const char* what, const Tensor& t) {
  if (t.valid() && t.num_elements() == 1) {
    if (t.dtype() == DType::kFloat) return t.data<float>()[0];
    if (t.dtype() == DType::kDouble) return t.data<double>()[0];
    if (t.dtype() == DType::kHalf) return static_cast<float>(t.data<half>()[0]);
    if (t.dtype() == DType::kBfloat16)
      return static_cast<float>(t.data<bfloat16>()[0]);
    if (t.dtype() == DType::kInt32) return t.data<int32_t>()[0];
    if (t.dtype() == DType::kInt64)
      return static_cast<double>(t.data<int64_t>()[0]);
  }
  return InvalidArgument(what, ": expected a real scalar, got ",
                         t.valid() ? t.ToString() : "nothing");
}

}  // namespace sluice

#endif  // SLUICE_TRAIN_PATIENCE_H_
