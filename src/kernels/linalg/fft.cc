#include "kernels/linalg/fft.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <unsupported/Eigen/FFT>
#include <vector>

#include "base/parallel.h"
#include "kernels/linalg/eigen.h"

namespace sluice::linalg {
namespace {

// Lengths with a larger prime factor use a convolution: a step for a factor p
// takes p operations per element.
constexpr int64_t kLargestFactor = 61;
// Below this number of elements a transform finishes before another thread
// starts.
constexpr int64_t kElementsPerThread = 8192;

bool HasLargeFactor(int64_t n) {
  for (int64_t p = 2; p <= kLargestFactor; ++p)
    while (n % p == 0) n /= p;
  return n > 1;
}

// Transforms one line of n > 0 elements. Not thread-safe: each thread creates
// its own.
template <typename T>
class Line {
 public:
  using Complex = std::complex<T>;

  explicit Line(int64_t n) : n_(n) { plan_.SetFlag(Eigen::FFT<T>::Unscaled); }
  virtual ~Line() = default;

  // REQUIRES: out != in.
  virtual void Run(bool inverse, const Complex* in, Complex* out) {
    if (n_ == 1)
      *out = *in;
    else if (inverse)
      plan_.inv(out, in, n_);
    else
      plan_.fwd(out, in, n_);
  }

 protected:
  const int64_t n_;
  Eigen::FFT<T> plan_;
};

// For any length (Bluestein): x_k w_k, convolved with the conjugate of w, where
// w_k = exp(-i pi k^2 / n). In double for any T.
template <typename T>
class ChirpLine : public Line<T> {
 public:
  using typename Line<T>::Complex;
  using Wide = std::complex<double>;

  explicit ChirpLine(int64_t n) : Line<T>(n), size_(1) {
    while (size_ < 2 * n - 1) size_ *= 2;
    plan_ = std::make_unique<Line<double>>(size_);
    chirp_.resize(static_cast<size_t>(n));
    work_.assign(static_cast<size_t>(size_), Wide(0));
    filter_.resize(work_.size());
    for (int64_t k = 0; k < n; ++k) {
      const auto turn = static_cast<double>(k * k % (2 * n));
      const Wide w =
          std::polar(1.0, -std::numbers::pi * turn / static_cast<double>(n));
      chirp_[static_cast<size_t>(k)] = w;
      work_[static_cast<size_t>(k)] = std::conj(w);
      if (k > 0) work_[static_cast<size_t>(size_ - k)] = std::conj(w);
    }
    plan_->Run(false, work_.data(), filter_.data());
    other_.resize(work_.size());
  }

  // The inverse transform is the conjugate of the transform of the conjugate.
  void Run(bool inverse, const Complex* in, Complex* out) override {
    std::fill(work_.begin(), work_.end(), Wide(0));
    for (size_t k = 0; k < chirp_.size(); ++k) {
      const Wide x(in[k]);
      work_[k] = (inverse ? std::conj(x) : x) * chirp_[k];
    }
    plan_->Run(false, work_.data(), other_.data());
    for (size_t k = 0; k < other_.size(); ++k) other_[k] *= filter_[k];
    plan_->Run(true, other_.data(), work_.data());
    const double scale = 1.0 / static_cast<double>(size_);
    for (size_t k = 0; k < chirp_.size(); ++k) {
      const Wide y = work_[k] * chirp_[k] * scale;
      out[k] = Complex(inverse ? std::conj(y) : y);
    }
  }

 private:
  int64_t size_;  // A power of two.
  std::unique_ptr<Line<double>> plan_;
  std::vector<Wide> chirp_, filter_, work_, other_;
};

template <typename T>
std::unique_ptr<Line<T>> MakeLine(int64_t n) {
  if (HasLargeFactor(n)) return std::make_unique<ChirpLine<T>>(n);
  return std::make_unique<Line<T>>(n);
}

int64_t CountOf(std::span<const int64_t> dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  return n;
}

// Calls run(line, first, last) for ranges of `lines` lines of n elements.
template <typename T, typename F>
void ForLines(int64_t lines, int64_t n, F&& run) {
  ParallelFor(lines, std::max<int64_t>(1, kElementsPerThread / n),
              [&](int64_t first, int64_t last) {
                const std::unique_ptr<Line<T>> line = MakeLine<T>(n);
                run(*line, first, last);
              });
}

// Lines of n elements, `stride` apart, in blocks of n * stride elements.
template <typename T>
void AlongAxis(int64_t n, int64_t stride, int64_t blocks, bool inverse,
               std::complex<T>* data) {
  const T scale = inverse ? T(1) / static_cast<T>(n) : T(1);
  ForLines<T>(
      blocks * stride, n, [&](Line<T>& line, int64_t first, int64_t last) {
        std::vector<std::complex<T>> in(static_cast<size_t>(n));
        std::vector<std::complex<T>> out(in.size());
        for (int64_t i = first; i < last; ++i) {
          std::complex<T>* at = data + i / stride * stride * n + i % stride;
          for (int64_t k = 0; k < n; ++k)
            in[static_cast<size_t>(k)] = at[k * stride];
          line.Run(inverse, in.data(), out.data());
          for (int64_t k = 0; k < n; ++k)
            at[k * stride] = out[static_cast<size_t>(k)] * scale;
        }
      });
}

// All axes of blocks of `dims` except the last, whose extent is `last`.
template <typename T>
void OuterAxes(std::span<const int64_t> dims, int64_t last, int64_t batch,
               bool inverse, std::complex<T>* data) {
  int64_t stride = last;
  for (size_t i = dims.size() - 1; i-- > 0;) {
    AlongAxis(dims[i], stride, batch * CountOf(dims.first(i)), inverse, data);
    stride *= dims[i];
  }
}

}  // namespace

template <typename T>
void Fft(std::span<const int64_t> dims, int64_t batch, bool inverse,
         std::complex<T>* data) {
  if (batch * CountOf(dims) == 0) return;
  AlongAxis(dims.back(), 1, batch * CountOf(dims.first(dims.size() - 1)),
            inverse, data);
  OuterAxes(dims, dims.back(), batch, inverse, data);
}

template <typename T>
void RealFft(std::span<const int64_t> dims, int64_t batch, const T* in,
             std::complex<T>* out) {
  const int64_t n = dims.back(), half = n / 2 + 1;
  if (batch * CountOf(dims) == 0) return;
  ForLines<T>(batch * CountOf(dims.first(dims.size() - 1)), n,
              [&](Line<T>& line, int64_t first, int64_t last) {
                std::vector<std::complex<T>> x(static_cast<size_t>(n));
                std::vector<std::complex<T>> y(x.size());
                for (int64_t i = first; i < last; ++i) {
                  std::copy_n(in + i * n, n, x.begin());
                  line.Run(false, x.data(), y.data());
                  std::copy_n(y.begin(), half, out + i * half);
                }
              });
  OuterAxes(dims, half, batch, false, out);
}

template <typename T>
void InverseRealFft(std::span<const int64_t> dims, int64_t batch,
                    std::complex<T>* in, T* out) {
  const int64_t n = dims.back(), half = n / 2 + 1;
  if (batch * CountOf(dims) == 0) return;
  OuterAxes(dims, half, batch, true, in);
  const T scale = T(1) / static_cast<T>(n);
  ForLines<T>(batch * CountOf(dims.first(dims.size() - 1)), n,
              [&](Line<T>& line, int64_t first, int64_t last) {
                std::vector<std::complex<T>> x(static_cast<size_t>(n));
                std::vector<std::complex<T>> y(x.size());
                for (int64_t i = first; i < last; ++i) {
                  const std::complex<T>* from = in + i * half;
                  for (int64_t k = 0; k < half; ++k) {
                    x[static_cast<size_t>(k)] = from[k];
                    if (k > 0)
                      x[static_cast<size_t>(n - k)] = std::conj(from[k]);
                  }
                  // (A value that equals its own conjugate is real.)
                  x[0] = x[0].real();
                  if (n % 2 == 0)
                    x[static_cast<size_t>(n / 2)] = from[n / 2].real();
                  line.Run(true, x.data(), y.data());
                  for (int64_t k = 0; k < n; ++k)
                    out[i * n + k] = y[static_cast<size_t>(k)].real() * scale;
                }
              });
}

#define SLUICE_INSTANTIATE(T)                                        \
  template void Fft(std::span<const int64_t>, int64_t, bool,         \
                    std::complex<T>*);                               \
  template void RealFft(std::span<const int64_t>, int64_t, const T*, \
                        std::complex<T>*);                           \
  template void InverseRealFft(std::span<const int64_t>, int64_t,    \
                               std::complex<T>*, T*);
SLUICE_INSTANTIATE(float)
SLUICE_INSTANTIATE(double)
#undef SLUICE_INSTANTIATE

}  // namespace sluice::linalg
