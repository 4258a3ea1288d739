#include "kernels/dnn/gemm_onednn.h"

#include <algorithm>
#include <dnnl.hpp>

#include "kernels/dnn/gemm_simd.h"
#include "kernels/dnn/threads.h"

namespace sluice::dnn {
namespace {

char Letter(Trans trans) { return trans == Trans::kNone ? 'N' : 'T'; }

int64_t StrideOfA(const GemmShape& s) {
  return s.trans_a == Trans::kNone ? s.k : s.m;
}

int64_t StrideOfB(const GemmShape& s) {
  return s.trans_b == Trans::kNone ? s.n : s.k;
}

bool HasAvx512() {
  static const bool yes =
      (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) &
       static_cast<unsigned>(dnnl_cpu_isa_avx512_core)) ==
      static_cast<unsigned>(dnnl_cpu_isa_avx512_core);
  return yes;
}

// On AVX2 oneDNN 2.6 does not pack its factors if either side of the product is
// short, and rows that start at multiples of 4 KiB then meet in the same few
// sets of the caches, where our own product packs. (AMD EPYC, one thread,
// GFLOP/s of a peak of 40: 256x1024x1024 25.8 against 34.2, 256x1024x256 with a
// transposed 25.9 against 35.1, 1024x256x1024 with a transposed 26.7
// against 32.8; but 640x1024x256, which it packs, 37.4 against 36.7.)
bool ReadsAliasedRows(const GemmShape& s) {
  constexpr int64_t kPage = 4096 / sizeof(float);
  constexpr int64_t kShort = 256, kTooShortForOurs = 64;
  const int64_t side = std::min(s.m, s.n);
  return side >= kTooShortForOurs && side <= kShort && s.k >= 64 &&
         ((s.trans_a != Trans::kNone && s.m % kPage == 0) ||
          (s.trans_b == Trans::kNone && s.n % kPage == 0)) &&
         !HasAvx512();
}

}  // namespace

bool GemmByOnednn(const GemmShape& s, const float* a, const float* b,
                  float* c) {
  if (ReadsAliasedRows(s)) return false;
  const char ta = Letter(s.trans_a), tb = Letter(s.trans_b);
  const int64_t lda = StrideOfA(s), ldb = StrideOfB(s);
  const float beta = s.accumulate ? 1.0f : 0.0f;
  const int threads = UseIntraOpThreads();
  // With few rows and a transposed b, oneDNN 2.6 does not divide the columns
  // among the threads (64x3136x512: 2.2 ms on one thread and on two).
  if (threads > 1 && tb == 'T' && s.n >= 8 * s.m &&
      s.m * s.n * s.k >= 128 * 128 * 128) {
    ParallelFor(s.n, 64, [&](int64_t begin, int64_t end) {
      dnnl_sgemm(ta, tb, s.m, end - begin, s.k, 1.0f, a, lda, b + begin * s.k,
                 ldb, beta, c + begin, s.n);
    });
    return true;
  }
  // Nor does it divide products along a transposed factor well: halves of the
  // rows, each on one thread, are faster for every transposed a, and for a
  // transposed b if the sums are long (two threads, AVX-512, GFLOP/s:
  // 640x256x1024 with b transposed 275 -> 320, 640x512x2048 262 -> 322, but
  // 1024x256x256 367 -> 353; 256x1024x1024 with a transposed 275 -> 301).
  constexpr int64_t kFewestRows = 64;
  if (threads > 1 && s.m >= kFewestRows * threads &&
      (ta == 'T' || (tb == 'T' && s.k > s.n)) &&
      s.m * s.n * s.k >= 128 * 128 * 128) {
    ParallelFor(s.m, kFewestRows, [&](int64_t begin, int64_t end) {
      const float* const rows = a + (ta == 'T' ? begin : begin * lda);
      float* const out = c + begin * s.n;
      if (dnnl_sgemm(ta, tb, end - begin, s.n, s.k, 1.0f, rows, lda, b, ldb,
                     beta, out, s.n) == dnnl_success)
        return;
      // (The other parts may be there already.)
      GemmBlocked<float>(
          end - begin, s.n, s.k,
          {rows, ta == 'T' ? 1 : lda, ta == 'T' ? lda : int64_t{1}},
          {b, tb == 'T' ? 1 : ldb, tb == 'T' ? ldb : int64_t{1}}, out, s.n,
          s.accumulate);
    });
    return true;
  }
  return dnnl_sgemm(ta, tb, s.m, s.n, s.k, 1.0f, a, lda, b, ldb, beta, c,
                    s.n) == dnnl_success;
}

bool ByteSumsAreExact() {
  static const bool yes = [] {
    const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
    const auto has = [isa](dnnl_cpu_isa_t bits) {
      return (isa & static_cast<unsigned>(bits)) == static_cast<unsigned>(bits);
    };
    return has(dnnl_cpu_isa_avx512_core_vnni) || has(dnnl_cpu_isa_avx2_vnni);
  }();
  return yes;
}

bool ByteGemmByOnednn(const ByteProduct& p, int32_t* c) {
  const GemmShape& s = p.shape;
  UseIntraOpThreads();
  const int32_t none = 0;
  return dnnl_gemm_u8s8s32(Letter(s.trans_a), Letter(s.trans_b), 'F', s.m, s.n,
                           s.k, 1.0f, p.a, StrideOfA(s), p.a_zero, p.b,
                           StrideOfB(s), p.b_zero, 0.0f, c, s.n,
                           &none) == dnnl_success;
}

}  // namespace sluice::dnn
