// Writing Examples, the records that ParseExample reads.
//
//   const Result<std::string> record =
//       MakeExample({{"image", Tensor::Scalar(png)},
//                    {"label", Tensor::Scalar<int64_t>(3)}});
#ifndef SLUICE_IO_MAKE_EXAMPLE_H_
#define SLUICE_IO_MAKE_EXAMPLE_H_

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tensor/tensor.h"

namespace sluice {

// A serialised Example (io/proto/example.proto) with these features, in the
// order of their names. A feature is a list of the tensor's elements: int64,
// float or string; its shape is not stored. Smaller integers and booleans
// become int64, and half, bfloat16 and double become float. InvalidArgument for
// other types and for a name that is given twice.
Result<std::string> MakeExample(
    const std::vector<std::pair<std::string, Tensor>>& features);

}  // namespace sluice

#endif  // SLUICE_IO_MAKE_EXAMPLE_H_
