// In the place of oneDNN in builds without it (SLUICE_ONEDNN in
// cmake/Options.cmake): nothing is computed here, and the callers run their own
// loops.
#include "kernels/dnn/conv_int8_onednn.h"
#include "kernels/dnn/conv_onednn.h"
#include "kernels/dnn/gemm_onednn.h"
#include "kernels/dnn/matmul_bf16.h"

namespace sluice::dnn {

bool GemmByOnednn(const GemmShape&, const float*, const float*, float*) {
  return false;
}

bool GemmByBf16(const GemmShape&, const bfloat16*, const bfloat16*, bfloat16*) {
  return false;
}

bool ByteSumsAreExact() { return false; }

bool ByteGemmByOnednn(const ByteProduct&, int32_t*) { return false; }

struct OnednnConv::Call {};
struct OnednnConv::Program {};

OnednnConv::OnednnConv(const ConvGeometry& shape, ConvEpilogue epilogue)
    : shape_(shape), epilogue_(epilogue) {}
OnednnConv::~OnednnConv() = default;

Status OnednnConv::Run(ConvPass, const float*, const float*, float*,
                       const float*) {
  return Unimplemented("convolution by oneDNN: not in this build");
}

Result<std::unique_ptr<OnednnByteConv>> OnednnByteConv::Make(const ByteLayer&,
                                                             const int8_t*) {
  return Unimplemented("convolution of bytes by oneDNN: not in this build");
}

}  // namespace sluice::dnn
