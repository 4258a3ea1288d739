// For tests: gradients against finite differences, of any order, in several
// orders of execution.
#ifndef SLUICE_CLIENT_TESTING_GRADIENT_TEST_UTIL_H_
#define SLUICE_CLIENT_TESTING_GRADIENT_TEST_UTIL_H_

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "client/control/control_flow.h"
#include "client/reductions.h"
#include "client/testing/client_test_util.h"

namespace sluice {

class GradientTest : public ClientTest {
 protected:
  static Output In(const PartialShape& shape = PartialShape::Scalar(),
                   const std::string& name = "x") {
    return Placeholder<double>(shape, name);
  }
  static Tensor Scalar(double v) { return Tensor::Scalar<double>(v); }

  static SessionOptions Seeded(uint64_t seed) {
    SessionOptions options;
    options.scheduler_seed = seed;
    return options;
  }

  // The sum of the elements of y.
  static Output SumOf(const Output& y) {
    if (y.shape().rank() == 0) return y;
    return ops::Sum(y, AllAxes(y));
  }

  double Value(const Output& y, const Feeds& feeds, uint64_t seed = 0) {
    Session session(graph_, Seeded(seed));
    const Result<Tensor> t = session.Run(feeds, y);
    EXPECT_TRUE(t.ok()) << t.status();
    return t.ok() && t->num_elements() == 1 ? t->flat<double>()[0] : NAN;
  }

  // Compares d(sum of y)/d(feeds) with finite differences, and so on for the
  // gradients of the gradients up to `order`.
  void ExpectGradients(const Output& y, const Feeds& feeds, int order = 1,
                       double tolerance = 2e-5) {
    Output f = SumOf(y);
    for (int k = 1; k <= order; ++k) {
      SCOPED_TRACE("order " + std::to_string(k));
      std::vector<GradTarget> xs;
      for (const auto& [x, value] : feeds)
        if (IsFloating(x.dtype())) xs.push_back(x);
      const std::vector<Output> gs =
          Grad({f}, xs, {.unconnected = Unconnected::kZero});
      ASSERT_TRUE(graph_.status().ok()) << graph_.status();
      for (const uint64_t seed : {0, 7, 8}) {
        Session session(graph_, Seeded(seed));
        const Result<std::vector<Tensor>> got = session.Run(feeds, gs);
        ASSERT_TRUE(got.ok()) << got.status();
        size_t at = 0;
        for (size_t i = 0; i < feeds.size(); ++i) {
          if (!IsFloating(feeds[i].first.dtype())) continue;
          SCOPED_TRACE("by " + feeds[i].first.name());
          ExpectClose(Numeric(f, feeds, i), (*got)[at++], tolerance);
          if (HasFatalFailure()) return;
        }
      }
      // Continue with another function of the gradients.
      Output sum;
      for (size_t i = 0; i < gs.size(); ++i) {
        const Output term =
            SumOf(gs[i] * gs[i] * (0.3 + 0.1 * static_cast<double>(i)));
        sum = sum.valid() ? sum + term : term;
      }
      f = sum;
    }
  }

  std::vector<double> Numeric(const Output& f, const Feeds& feeds, size_t i) {
    std::vector<double> result;
    Feeds moved = feeds;
    const int64_t n = feeds[i].second.num_elements();
    for (int64_t k = 0; k < n; ++k) {
      const auto at = static_cast<size_t>(k);
      const double x = feeds[i].second.flat<double>()[at];
      const double step = 1e-5 * std::max(1.0, std::fabs(x));
      double side[2];
      for (int s = 0; s < 2; ++s) {
        std::vector<double> values = feeds[i].second.ToVector<double>();
        values[at] = x + (s == 1 ? step : -step);
        moved[i].second = Tensor::Of<double>(feeds[i].second.shape(), values);
        const Result<Tensor> t = session_.Run(moved, f);
        EXPECT_TRUE(t.ok()) << t.status();
        side[s] = t.ok() ? t->flat<double>()[0] : NAN;
      }
      result.push_back((side[1] - side[0]) / (2 * step));
    }
    return result;
  }

  static void ExpectClose(const std::vector<double>& want, const Tensor& got,
                          double tolerance) {
    ASSERT_EQ(static_cast<size_t>(got.num_elements()), want.size());
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_NEAR(got.flat<double>()[i], want[i],
                  tolerance * std::max(1.0, std::fabs(want[i])))
          << "element " << i;
  }
};

}  // namespace sluice

#endif  // SLUICE_CLIENT_TESTING_GRADIENT_TEST_UTIL_H_
