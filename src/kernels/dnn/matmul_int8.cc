#include "kernels/dnn/matmul_int8.h"

#include <algorithm>

#include "kernels/dnn/gemm_onednn.h"
#include "kernels/dnn/matmul.h"

namespace sluice::dnn {
namespace {

// The elements minus the zero point, wrapping.
std::vector<int32_t> Centred(const ByteMatrix& a, int64_t n) {
  std::vector<int32_t> out(static_cast<size_t>(n));
  const auto zero = static_cast<uint32_t>(a.zero);
  const auto* bytes = static_cast<const uint8_t*>(a.data);
  for (size_t i = 0; i < out.size(); ++i) {
    const int32_t v =
        a.is_signed ? static_cast<int8_t>(bytes[i]) : int32_t{bytes[i]};
    out[i] = static_cast<int32_t>(static_cast<uint32_t>(v) - zero);
  }
  return out;
}

// Converts bytes between signed and unsigned, which differ by 128.
template <typename T>
std::vector<T> Flipped(const void* data, int64_t n) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  std::vector<T> out(static_cast<size_t>(n));
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<T>(bytes[i] ^ 0x80u);
  return out;
}

bool Within(int64_t v, int64_t low, int64_t high) {
  return v >= low && v <= high;
}

Trans AsTrans(bool transpose) {
  return transpose ? Trans::kTranspose : Trans::kNone;
}

}  // namespace

ByteFactor::ByteFactor(int64_t k, int64_t n, ByteMatrix b)
    : k_(k), n_(n), b_(b) {
  const int64_t zero = b.zero - (b.is_signed ? 0 : 128);
  bytes_ = ByteSumsAreExact() && Within(zero, -128, 127);
  if (!bytes_) {
    wide_ = Centred(b, k * n);
    return;
  }
  zero_ = static_cast<int8_t>(zero);
  if (b.is_signed) {
    data_ = static_cast<const int8_t*>(b.data);
  } else {
    copy_ = Flipped<int8_t>(b.data, k * n);
    data_ = copy_.data();
  }
}

void ByteFactor::Multiply(int64_t m, ByteMatrix a, int32_t* c) const {
  if (m == 0 || n_ == 0) return;
  if (k_ == 0) {
    std::fill(c, c + m * n_, 0);
    return;
  }
  const int64_t zero = a.zero + (a.is_signed ? 128 : 0);
  if (bytes_ && Within(zero, 0, 255)) {
    std::vector<uint8_t> copy;
    const auto* data = static_cast<const uint8_t*>(a.data);
    if (a.is_signed) {
      copy = Flipped<uint8_t>(a.data, m * k_);
      data = copy.data();
    }
    const GemmShape shape = {m, n_, k_, AsTrans(a.transpose),
                             AsTrans(b_.transpose)};
    if (ByteGemmByOnednn(
            {shape, data, static_cast<uint8_t>(zero), data_, zero_}, c))
      return;
  }
  const std::vector<int32_t> left = Centred(a, m * k_);
  std::vector<int32_t> right;
  if (bytes_) right = Centred(b_, k_ * n_);
  Gemm<int32_t>({m, n_, k_, AsTrans(a.transpose), AsTrans(b_.transpose)},
                left.data(), bytes_ ? right.data() : wide_.data(), c);
}

}  // namespace sluice::dnn
