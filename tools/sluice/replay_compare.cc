#include <algorithm>
#include <cmath>
#include <complex>
#include <functional>

#include "absl/strings/str_format.h"
#include "tools/sluice/replay_case.h"

namespace sluice::cli {
namespace {

// Element i as a complex number, which can represent every dtype that has a
// tolerance.
complex128 At(const Tensor& t, int64_t i) {
  switch (t.dtype()) {
    case DType::kFloat:
      return t.data<float>()[i];
    case DType::kDouble:
      return t.data<double>()[i];
    case DType::kHalf:
      return static_cast<float>(t.data<half>()[i]);
    case DType::kBfloat16:
      return static_cast<float>(t.data<bfloat16>()[i]);
    case DType::kComplex64:
      return t.data<complex64>()[i];
    case DType::kComplex128:
      return t.data<complex128>()[i];
    default:
      return 0;
  }
}

bool Finite(complex128 v) {
  return std::isfinite(v.real()) && std::isfinite(v.imag());
}
bool NotANumber(complex128 v) {
  return std::isnan(v.real()) || std::isnan(v.imag());
}

std::string Text(complex128 v, bool complex) {
  return complex ? absl::StrFormat("%.9g%+.9gi", v.real(), v.imag())
                 : absl::StrFormat("%.9g", v.real());
}

// |got - want| <= atol + rtol * max(|want|, 0.1 * max |want|) everywhere, NaN
// and infinity at the same places.
std::string ToleranceDifference(const ArrayDesc& d, const Tensor& got,
                                const Tensor& want) {
  const bool complex = IsComplex(want.dtype());
  double largest = 0;
  for (int64_t i = 0; i < want.num_elements(); ++i)
    if (const complex128 w = At(want, i); Finite(w))
      largest = std::max(largest, std::abs(w));
  double worst = 0, worst_error = 0;
  int64_t where = 0;
  for (int64_t i = 0; i < want.num_elements(); ++i) {
    const complex128 g = At(got, i), w = At(want, i);
    if (!Finite(w)) {
      if (NotANumber(w) ? NotANumber(g) : g == w) continue;
      return absl::StrFormat("non-finite values differ: [%d] is %s, want %s", i,
                             Text(g, complex), Text(w, complex));
    }
    const double error = std::abs(g - w);
    const double allowed =
        d.atol + d.rtol * std::max(std::abs(w), 0.1 * largest);
    // A difference of 0 with a tolerance of 0 is a match.
    double ratio = error == 0 ? 0 : error / allowed;
    if (!std::isfinite(ratio)) ratio = 1e9;
    // (Without a tolerance all ratios are the same.)
    if (ratio > worst || (ratio == worst && error > worst_error)) {
      worst = ratio;
      worst_error = error;
      where = i;
    }
  }
  if (worst <= 1) return "";
  return absl::StrFormat(
      "differs by up to %.3g, %.3g times the tolerance: [%d] is %s, want %s",
      worst_error, worst, where, Text(At(got, where), complex),
      Text(At(want, where), complex));
}

// Converts quantized integers to their storage type, as numpy does.
Tensor Dequantized(const Tensor& t) {
  switch (t.dtype()) {
    case DType::kQint8:
      return t.BitcastTo(DType::kInt8);
    case DType::kQuint8:
      return t.BitcastTo(DType::kUint8);
    case DType::kQint16:
      return t.BitcastTo(DType::kInt16);
    case DType::kQuint16:
      return t.BitcastTo(DType::kUint16);
    case DType::kQint32:
      return t.BitcastTo(DType::kInt32);
    default:
      return t;
  }
}

}  // namespace

std::string Difference(const ArrayDesc& desc, const Tensor& got_any,
                       const Tensor& want) {
  const Tensor got = Dequantized(got_any);
  if (!(got.shape() == desc.shape))
    return absl::StrCat("shape ", got.shape().ToString(), ", want ",
                        desc.shape.ToString());
  if (got.dtype() != desc.dtype)
    return absl::StrCat("dtype ", DTypeName(got.dtype()), ", want ",
                        DTypeName(desc.dtype));
  if (!desc.exact) return ToleranceDifference(desc, got, want);
  if (got.Identical(want)) return "";
  return absl::StrCat("values differ: ", got.Summarize(6), ", want ",
                      want.Summarize(6));
}

}  // namespace sluice::cli
