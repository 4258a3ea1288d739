// Square systems, compiled for AVX2 and FMA. Everything that Eigen includes
// comes before its headers, so that only Eigen's code, under a name of its own,
// and what is here are compiled for these instructions.
#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <climits>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <sstream>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/linalg/solve.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#include <immintrin.h>

#pragma GCC push_options
#pragma GCC target("avx2,fma")
#define Eigen EigenForAvx2
#include "kernels/linalg/solve-inl.h"
#undef Eigen

namespace sluice::linalg {
template <typename T>
SquareSystems<T> SquareSystemsForAvx2() {
  return SquareSystemsHere<T>();
}
}  // namespace sluice::linalg
#pragma GCC pop_options
#else
namespace sluice::linalg {
template <typename T>
SquareSystems<T> SquareSystemsForAvx2() {
  return {};
}
}  // namespace sluice::linalg
#endif

namespace sluice::linalg {
#define SLUICE_INSTANTIATE(T) \
  template SquareSystems<T> SquareSystemsForAvx2<T>();
SLUICE_LINALG_TYPES(SLUICE_INSTANTIATE)
#undef SLUICE_INSTANTIATE
}  // namespace sluice::linalg
