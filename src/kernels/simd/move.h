// Moving elements by element size (1, 2, 4, 8 or 16 bytes), regardless of their
// type. All functions split large work over IntraOpThreads(); `out` never
// overlaps `in`. Functions that take an element size return false for any other
// size, and for a rank that is too high.
#ifndef SLUICE_KERNELS_SIMD_MOVE_H_
#define SLUICE_KERNELS_SIMD_MOVE_H_

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace sluice::simd {

// The maximum rank of StridedCopy: a tiling of rank 8 needs two dimensions for
// each.
inline constexpr int kMaxCopyRank = 16;

// out[i . out_strides] = in[i . in_strides] for all indices i below `dims`.
// Strides count elements. Input strides may be 0 or negative (to repeat or
// reverse); output strides may be negative, but output elements must be
// distinct. Slicing, transposing, padding and concatenating are special cases,
// detected by merging dimensions: adjacent elements are copied by memcpy,
// transposed ones in blocks.
bool StridedCopy(size_t element_size, absl::Span<const int64_t> dims,
                 const void* in, absl::Span<const int64_t> in_strides,
                 void* out, absl::Span<const int64_t> out_strides);

// Dimension d of `out` is dimension perm[d] of `in`.
bool Transpose(size_t element_size, absl::Span<const int64_t> shape,
               absl::Span<const int> perm, const void* in, void* out);

// Reads the box of shape `dims` with first corner `begin` and steps `steps`
// (negative: backwards) from an array of shape `shape`; `out` is dense.
// REQUIRES: all indices are in range.
bool Slice(size_t element_size, absl::Span<const int64_t> shape,
           absl::Span<const int64_t> begin, absl::Span<const int64_t> steps,
           absl::Span<const int64_t> dims, const void* in, void* out);

// The inverse: writes a dense `in` of shape `dims` into such a box of `out`.
bool AssignSlice(size_t element_size, absl::Span<const int64_t> shape,
                 absl::Span<const int64_t> begin,
                 absl::Span<const int64_t> steps,
                 absl::Span<const int64_t> dims, const void* in, void* out);

// Repeats `in` multiples[d] times along d.
bool Tile(size_t element_size, absl::Span<const int64_t> shape,
          absl::Span<const int64_t> multiples, const void* in, void* out);

// Pads `in` with before[d] and after[d] copies of *value along d.
bool Pad(size_t element_size, absl::Span<const int64_t> shape,
         absl::Span<const int64_t> before, absl::Span<const int64_t> after,
         const void* value, const void* in, void* out);

// REQUIRES: in_shape broadcasts to out_shape.
bool BroadcastTo(size_t element_size, absl::Span<const int64_t> in_shape,
                 absl::Span<const int64_t> out_shape, const void* in,
                 void* out);

// n copies of *value.
bool Fill(size_t element_size, const void* value, void* out, int64_t n);

// `rows` rows of row_bytes, in_stride bytes apart in `in`, out_stride bytes
// apart in `out`: a part of a concatenation or a split.
void CopyRows(int64_t rows, int64_t row_bytes, const void* in,
              int64_t in_stride, void* out, int64_t out_stride);

// Row i of `out` is row indices[i] of `in`, which has `in_rows` of row_bytes.
// Returns -1, or the position of an index outside [0, in_rows); such rows of
// `out` are zeroed.
int64_t GatherRows(int64_t row_bytes, const int32_t* indices, int64_t n,
                   int64_t in_rows, const void* in, void* out);
int64_t GatherRows(int64_t row_bytes, const int64_t* indices, int64_t n,
                   int64_t in_rows, const void* in, void* out);

}  // namespace sluice::simd

#endif  // SLUICE_KERNELS_SIMD_MOVE_H_
