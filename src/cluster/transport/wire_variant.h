// The wire format of variants. Only lists of tensors and optional values can be
// sent; other variants have no meaning in another process.
//
// A tensor of variants is the sequence of its elements. An element:
//   u8 0: nothing
//   u8 1: a TensorList: u8 dtype, u8 rank of its items' shape (255: unknown),
//         i64 dims (-1: unknown), i64 most items (-1: any), u32 count, then for
//         each u8 1 and a tensor, or u8 0 (unset, reads as zeros)
//   u8 2: an Optional: u32 count, that many tensors
// A nested tensor: u8 dtype, u8 rank, i64 dims, then its bytes; for strings,
// their lengths as u64 and all their bytes; for variants, its elements.
#ifndef SLUICE_CLUSTER_TRANSPORT_WIRE_VARIANT_H_
#define SLUICE_CLUSTER_TRANSPORT_WIRE_VARIANT_H_

#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "tensor/tensor.h"

namespace sluice {

// Limits on the nesting of lists, the total number of tensors in them and the
// size; values beyond them are refused when sent and when received. (Lists may
// share elements; the wire format is a tree.)
inline constexpr int kMaxVariantNesting = 64;
inline constexpr int64_t kMaxNestedTensors = int64_t{1} << 22;
inline constexpr int64_t kMaxPackedBytes = int64_t{4} << 30;

// The encoded size of a tensor of variants. InvalidArgument if one of them
// cannot be sent or a limit above is exceeded.
Result<int64_t> PackedVariantBytes(const Tensor& t);
// Encodes `t`. REQUIRES: `to` has PackedVariantBytes(t) bytes.
void PackVariants(const Tensor& t, char* to);
// Decodes the elements of `t`, an allocated tensor of variants, from untrusted
// bytes. Uses at most about 100 times their memory.
Status UnpackVariants(std::string_view bytes, Tensor* t);

}  // namespace sluice

#endif  // SLUICE_CLUSTER_TRANSPORT_WIRE_VARIANT_H_
