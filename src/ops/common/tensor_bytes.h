// A tensor serialised as a TensorProto in the form that TensorFlow's ops write:
// the raw element bytes, even if many elements are equal. (Graphs use the
// shorter forms of graph/tensor_proto.h, which reads all of them.)
#ifndef SLUICE_OPS_COMMON_TENSOR_BYTES_H_
#define SLUICE_OPS_COMMON_TENSOR_BYTES_H_

#include <string>

#include "tensor/tensor.h"

namespace sluice {

// Unimplemented for resources and variants.
Result<std::string> TensorContentProto(const Tensor& t);

}  // namespace sluice

#endif  // SLUICE_OPS_COMMON_TENSOR_BYTES_H_
