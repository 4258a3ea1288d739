#include "kernels/linalg/fft_plan.h"

#include <cmath>
#include <complex>
#include <deque>
#include <limits>
#include <mutex>
#include <numbers>

namespace sluice::linalg {
namespace {

// ---- Roots ------------------------------------------------------------------

// The powers of exp(-2 pi i / n): products of two from tables of about sqrt(n).
class Roots {
 public:
  explicit Roots(int64_t n) {
    while (width_ * width_ < n) width_ *= 2;
    const double turn = -2 * std::numbers::pi / static_cast<double>(n);
    for (int64_t i = 0; i < width_; ++i)
      low_.push_back(std::polar(1.0, turn * static_cast<double>(i)));
    for (int64_t i = 0; i * width_ < n; ++i)
      high_.push_back(std::polar(1.0, turn * static_cast<double>(i * width_)));
  }
  // 0 <= k < n.
  std::complex<double> operator[](int64_t k) const {
    const std::complex<double> a = low_[static_cast<size_t>(k % width_)];
    const std::complex<double> b = high_[static_cast<size_t>(k / width_)];
    return {a.real() * b.real() - a.imag() * b.imag(),
            a.real() * b.imag() + a.imag() * b.real()};
  }

 private:
  int64_t width_ = 1;
  std::vector<std::complex<double>> low_, high_;
};

// ---- Factors ----------------------------------------------------------------

// In the order of the passes: 4 first, whose results fill vectors.
std::vector<int64_t> FactorsOf(int64_t n) {
  std::vector<int64_t> factors;
  const auto take = [&](int64_t p) {
    while (n % p == 0) {
      factors.push_back(p);
      n /= p;
    }
  };
  take(4);
  take(2);
  for (int64_t p = 3; p * p <= n; p += 2) take(p);
  if (n > 1) factors.push_back(n);
  return factors;
}

// Operations per element, roughly.
double CostOf(const std::vector<int64_t>& factors) {
  double cost = 0;
  for (const int64_t p : factors)
    cost += p == 2   ? 5
            : p == 4 ? 6
            : p <= 5 ? 4 + static_cast<double>(p)
                     : 8 + 1.2 * static_cast<double>(p);
  return cost;
}

// The length of at least `least` that is transformed soonest.
int64_t ConvolutionLength(int64_t least) {
  int64_t best = 0;
  double best_cost = std::numeric_limits<double>::infinity();
  for (int64_t fives = 1; fives <= 25; fives *= 5)
    for (int64_t threes = 1; threes <= 27; threes *= 3) {
      int64_t n = fives * threes;
      while (n < least) n *= 2;
      const double cost = CostOf(FactorsOf(n)) * static_cast<double>(n);
      if (cost < best_cost) {
        best_cost = cost;
        best = n;
      }
    }
  return best;
}

// ---- Plans ------------------------------------------------------------------

template <typename T>
void AddPasses(const std::vector<int64_t>& factors, const Roots& roots,
               FftPlan<T>* plan) {
  int64_t done = 1;
  for (const int64_t p : factors) {
    FftPass<T> pass;
    pass.factor = p;
    pass.columns = plan->n / (done * p);
    for (int64_t r = 1; r < p; ++r)
      for (int64_t k = 0; k < pass.columns; ++k) {
        const std::complex<double> w = roots[r * k * done];
        pass.twist_re.push_back(static_cast<T>(w.real()));
        pass.twist_im.push_back(static_cast<T>(w.imag()));
      }
    for (int64_t r = 0; p > 5 && r < p; ++r) {
      const std::complex<double> w = roots[r * (plan->n / p)];
      pass.cosines.push_back(static_cast<T>(w.real()));
      pass.sines.push_back(static_cast<T>(-w.imag()));
    }
    plan->passes.push_back(std::move(pass));
    done *= p;
  }
}

// The filter's transform, in double, by the passes that lines take.
std::vector<std::complex<double>> TransformOf(
    const FftPlan<double>& plan, std::vector<std::complex<double>> x) {
  std::vector<std::complex<double>> y(x.size());
  int64_t s = 1;
  for (const FftPass<double>& pass : plan.passes) {
    const int64_t p = pass.factor, m = pass.columns;
    std::vector<std::complex<double>> turns;
    for (int64_t r = 0; r < p; ++r)
      turns.push_back(
          std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(r) /
                              static_cast<double>(p)));
    for (int64_t k = 0; k < m; ++k)
      for (int64_t r = 0; r < p; ++r) {
        const auto at = static_cast<size_t>((r - 1) * m + k);
        const std::complex<double> w =
            r == 0 ? 1.0 : std::complex(pass.twist_re[at], pass.twist_im[at]);
        for (int64_t q = 0; q < s; ++q) {
          std::complex<double> sum = 0;
          for (int64_t j = 0; j < p; ++j)
            sum += x[static_cast<size_t>((k + j * m) * s + q)] *
                   turns[static_cast<size_t>(j * r % p)];
          y[static_cast<size_t>((k * p + r) * s + q)] = sum * w;
        }
      }
    s *= p;
    std::swap(x, y);
  }
  return x;
}

template <typename T>
void AddChirp(FftPlan<T>* plan) {
  const int64_t n = plan->n, size = ConvolutionLength(2 * n - 1);
  const Roots roots(2 * n);
  FftPlan<double> exact;
  exact.n = exact.length = size;
  const Roots longer(size);
  AddPasses(FactorsOf(size), longer, &exact);
  std::vector<std::complex<double>> filter(static_cast<size_t>(size));
  for (int64_t k = 0; k < n; ++k) {
    const std::complex<double> w = roots[k * k % (2 * n)];
    plan->chirp_re.push_back(static_cast<T>(w.real()));
    plan->chirp_im.push_back(static_cast<T>(w.imag()));
    const std::complex<double> back = std::conj(w) / static_cast<double>(size);
    filter[static_cast<size_t>(k)] = back;
    if (k > 0) filter[static_cast<size_t>(size - k)] = back;
  }
  for (const std::complex<double>& f : TransformOf(exact, std::move(filter))) {
    plan->filter_re.push_back(static_cast<T>(f.real()));
    plan->filter_im.push_back(static_cast<T>(f.imag()));
  }
  auto convolution = std::make_shared<FftPlan<T>>();
  convolution->n = convolution->length = size;
  AddPasses(FactorsOf(size), longer, convolution.get());
  plan->convolution = std::move(convolution);
}

template <typename T>
std::shared_ptr<const FftPlan<T>> MakePlan(int64_t length, bool real) {
  auto plan = std::make_shared<FftPlan<T>>();
  plan->length = length;
  plan->n = real && length % 2 == 0 ? length / 2 : length;
  const std::vector<int64_t> factors = FactorsOf(plan->n);
  // A convolution is two transforms and three products.
  const int64_t size = ConvolutionLength(2 * plan->n - 1);
  const double by_chirp = (2 * CostOf(FactorsOf(size)) + 12) *
                          static_cast<double>(size) /
                          static_cast<double>(plan->n);
  const bool too_large = !factors.empty() && factors.back() > kLargestFftFactor;
  if (too_large || CostOf(factors) > by_chirp)
    AddChirp(plan.get());
  else
    AddPasses(factors, Roots(plan->n), plan.get());
  if (plan->n != length) {
    const Roots roots(length);
    for (int64_t k = 0; k <= plan->n; ++k) {
      plan->half_re.push_back(static_cast<T>(roots[k].real()));
      plan->half_im.push_back(static_cast<T>(roots[k].imag()));
    }
  }
  return plan;
}

// The plans made last, if they are not long.
template <typename T>
class RecentPlans {
 public:
  std::shared_ptr<const FftPlan<T>> Get(int64_t length, bool real) {
    {
      std::lock_guard<std::mutex> lock(mu_);
      for (const Entry& e : recent_)
        if (e.plan->length == length && e.real == real) return e.plan;
    }
    std::shared_ptr<const FftPlan<T>> plan = MakePlan<T>(length, real);
    if (length > kLongest) return plan;
    std::lock_guard<std::mutex> lock(mu_);
    recent_.push_front({plan, real});
    if (recent_.size() > kPlans) recent_.pop_back();
    return plan;
  }

 private:
  static constexpr size_t kPlans = 16;
  static constexpr int64_t kLongest = int64_t{1} << 17;
  struct Entry {
    std::shared_ptr<const FftPlan<T>> plan;
    bool real;
  };

  std::mutex mu_;
  std::deque<Entry> recent_;
};

}  // namespace

template <typename T>
std::shared_ptr<const FftPlan<T>> PlanFft(int64_t length, bool real) {
  static RecentPlans<T>* recent = new RecentPlans<T>;
  return recent->Get(length, real);
}

template std::shared_ptr<const FftPlan<float>> PlanFft(int64_t, bool);
template std::shared_ptr<const FftPlan<double>> PlanFft(int64_t, bool);

}  // namespace sluice::linalg
