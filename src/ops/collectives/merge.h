// Merging the values of the members of a group, element by element.
#ifndef SLUICE_OPS_COLLECTIVES_MERGE_H_
#define SLUICE_OPS_COLLECTIVES_MERGE_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "tensor/dtype.h"

namespace sluice::collectives {

enum class MergeOp : uint8_t { kAdd, kMul, kMin, kMax };

// "Add", "Mul", "Min", "Max", as in TensorFlow's attribute merge_op.
std::optional<MergeOp> ParseMergeOp(std::string_view name);
const char* NameOf(MergeOp op);

// Whether there is code for the type: half, bfloat16, float, double, int32,
// int64.
bool CanMerge(DType type);

// to[i] = a[i] op b[i]. `to` may be `a` or `b`. The minimum and maximum of NaN
// and a number is NaN. Integers wrap. REQUIRES: CanMerge(type).
void Merge(DType type, MergeOp op, const void* a, const void* b, void* to,
           int64_t count);
// values[i] /= by, for integers rounded towards zero. REQUIRES: CanMerge(type),
// by > 0.
void Divide(DType type, void* values, int64_t count, int64_t by);

}  // namespace sluice::collectives

#endif  // SLUICE_OPS_COLLECTIVES_MERGE_H_
