// NumPy's .npy files (one array) and .npz archives (several named arrays), for
// exchanging arrays with other programs. Files are untrusted: whatever their
// headers claim, memory is allocated only for data that is present.
//
// Types: bool, all integers, half, float, double, complex; byte strings (S) and
// Unicode (U, converted to UTF-8) as string, without trailing NULs, which NumPy
// does not preserve; two-byte voids (V2), which NumPy uses to store bfloat16,
// as bfloat16.
//
//   SLUICE_RETURN_IF_ERROR(WriteNpz("model.npz", {{"w", w}, {"b", b}}));
//   SLUICE_ASSIGN_OR_RETURN(auto arrays, ReadNpz("model.npz"));
//   Tensor weights = arrays["w"];
#ifndef SLUICE_IO_NPY_H_
#define SLUICE_IO_NPY_H_

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tensor/tensor.h"

namespace sluice {

// Reads versions 1 to 3, C and Fortran order, either byte order.
// InvalidArgument for malformed files, Unimplemented for types that a tensor
// cannot hold.
Result<Tensor> ParseNpy(std::string_view bytes);
// Writes version 1, C order, little-endian. InvalidArgument for types that
// NumPy does not have (resource, variant, quantised) and for strings that end
// in NUL.
Result<std::string> SerializeNpy(const Tensor& tensor);

Result<Tensor> ReadNpy(const std::string& path);
Status WriteNpy(const std::string& path, const Tensor& tensor);

// Returns member "x.npy" of the archive under the name "x". Reads stored and
// deflated members; zip64, encryption and other compression are Unimplemented.
Result<std::map<std::string, Tensor>> ParseNpz(std::string_view bytes);
Result<std::map<std::string, Tensor>> ReadNpz(const std::string& path);

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;
Result<std::string> SerializeNpz(const NamedTensors& arrays,
                                 bool compress = true);
Status WriteNpz(const std::string& path, const NamedTensors& arrays,
                bool compress = true);

}  // namespace sluice

#endif  // SLUICE_IO_NPY_H_
