// Matrix products of bytes, summed in 32 bits.
#ifndef SLUICE_KERNELS_DNN_MATMUL_INT8_H_
#define SLUICE_KERNELS_DNN_MATMUL_INT8_H_

#include <cstdint>
#include <memory>
#include <vector>

namespace sluice::dnn {

// A row-major matrix of bytes, uint8 or int8, as stored. `zero` is the zero
// point; it may lie outside the byte range.
struct ByteMatrix {
  const void* data = nullptr;
  bool is_signed = false;
  bool transpose = false;  // Stored transposed.
  int64_t zero = 0;
};

// A right factor [k, n], prepared for many products. Immutable once made; any
// number of threads may multiply by it. `b` must outlive it.
class ByteFactor {
 public:
  ByteFactor(int64_t k, int64_t n, ByteMatrix b);

  // c[m, n] = (op(a) - a.zero) * (op(b) - b.zero), exact modulo 2^32. Uses up
  // to IntraOpThreads() threads.
  void Multiply(int64_t m, ByteMatrix a, int32_t* c) const;

 private:
  const int64_t k_, n_;
  const ByteMatrix b_;
  bool bytes_ = false;        // Uses oneDNN; else int32 products.
  std::vector<int8_t> copy_;  // b as int8, if it is uint8.
  const int8_t* data_ = nullptr;
  int8_t zero_ = 0;
  std::vector<int32_t> wide_;  // op(b) - b.zero, if oneDNN cannot be used.
};

}  // namespace sluice::dnn

#endif  // SLUICE_KERNELS_DNN_MATMUL_INT8_H_
