// TensorFlow's TensorProto in both of its forms: the bytes as in memory
// (tensor_content), and a list of values whose last one repeats.
#ifndef SLUICE_GRAPH_TENSOR_PROTO_H_
#define SLUICE_GRAPH_TENSOR_PROTO_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"
#include "tensor/tensor.h"

namespace sluice {

namespace proto {
class TensorProto;
class TensorShapeProto;
}  // namespace proto

// Limits for tensors from untrusted input.
struct TensorProtoLimits {
  // Bytes that may be allocated beyond the size of the message: a few bytes may
  // describe a large tensor of one repeated value.
  int64_t expansion_bytes = int64_t{2} << 30;
};

// InvalidArgument if the message is malformed: an unknown dtype, a shape that
// is negative, overflows or is not fully known, more or fewer bytes than the
// shape requires, more values than elements. Unimplemented for resources and
// for variants with a value, which have no meaning outside their process.
// ResourceExhausted beyond `limits`, from which the expansion is deducted, so
// that all tensors of a graph can share it.
Result<Tensor> ParseTensorProto(std::string_view bytes,
                                TensorProtoLimits* limits = nullptr);
Result<std::string> SerializeTensorProto(const Tensor& tensor);

// The same for the parsed message.
Result<Tensor> TensorFromProto(const proto::TensorProto& p,
                               TensorProtoLimits* limits = nullptr);
Status TensorToProto(const Tensor& tensor, proto::TensorProto* p);

// InvalidArgument for dimensions below -1 and ranks above 8.
Result<PartialShape> ShapeFromProto(const proto::TensorShapeProto& p);
void ShapeToProto(const PartialShape& shape, proto::TensorShapeProto* p);

// Converts a wire enum value to a type; InvalidArgument if there is none.
Result<DType> DTypeFromProto(int value);

}  // namespace sluice

#endif  // SLUICE_GRAPH_TENSOR_PROTO_H_
