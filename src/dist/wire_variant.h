// What variants look like on the wire: lists of tensors and optional values,
// which are all that means the same in another process.
//
// A tensor of variants is its elements, one after the other. An element:
//   u8 0: nothing
//   u8 1: a TensorList: u8 dtype, u8 rank of its items' shape (255: unknown),
//         i64 dims (-1: unknown), i64 most items (-1: any), u32 count, then for
//         each u8 1 and a tensor, or u8 0 (zeros that nobody has set)
//   u8 2: an Optional: u32 count, that many tensors
// A tensor in it: u8 dtype, u8 rank, i64 dims, then its bytes; of strings, u64
// their lengths and all their bytes; of variants, its elements.
#ifndef SLUICE_DIST_WIRE_VARIANT_H_
#define SLUICE_DIST_WIRE_VARIANT_H_

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "tensor/tensor.h"

namespace sluice {

// Lists within lists, and tensors in all of them: more is not sent, and not
// taken in. (Lists may share what they hold; what travels is a tree.)
inline constexpr int kMostNesting = 64;
inline constexpr int64_t kMostNestedTensors = int64_t{1} << 22;
inline constexpr int64_t kMostPackedBytes = int64_t{4} << 30;

// How many bytes a tensor of variants takes. InvalidArgument if one of them
// cannot travel or there is more than the bounds above allow.
Result<int64_t> PackedVariantBytes(const Tensor& t);
// Writes them. REQUIRES: PackedVariantBytes gave their number.
void PackVariants(const Tensor& t, char* to);
// Reads the elements of `t`, a tensor of variants made for them, from bytes
// that nobody vouches for: takes at most some 100 times their memory.
Status UnpackVariants(std::string_view bytes, Tensor* t);

}  // namespace sluice

#endif  // SLUICE_DIST_WIRE_VARIANT_H_
