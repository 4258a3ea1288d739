// The epilogue of fused ops: bias, normalisation and activation of a product.
#ifndef SLUICE_OPS_COMMON_EPILOGUE_H_
#define SLUICE_OPS_COMMON_EPILOGUE_H_

#include <optional>
#include <string>
#include <vector>

#include "exec/core/kernel.h"
#include "kernels/simd/binary.h"
#include "kernels/simd/unary.h"

namespace sluice {

// The attributes fused_ops, num_args, epsilon and leakyrelu_alpha of a node:
// BiasAdd (a vector) or FusedBatchNorm (scale, offset, mean, variance), then
// optionally Add (an array of the result's shape), then optionally an
// activation. The arguments are the node's inputs from the third on. Gives the
// same bits as the separate ops, including NaN. Immutable once read; empty by
// default.
class Epilogue {
 public:
  Epilogue() = default;
  static Result<Epilogue> Read(const Node& n);

  bool empty() const { return norm_.empty() && !add_ && !activates(); }
  // OK if the arguments fit a result of `shape` with that many channels.
  Status Check(KernelContext& ctx, const Shape& shape, int64_t channels) const;
  // Applies it to output 0, viewed as [before, channels, after], with the
  // threads that the calling thread may use. REQUIRES: Check() returned OK.
  void Run(KernelContext& ctx, int64_t before, int64_t channels,
           int64_t after) const;
  // Attributes an error of the product itself to the node that the product came
  // from.
  Status OfProduct(Status s) const { return Attribute(std::move(s), 0); }

 private:
  // An operation with one number per channel.
  struct PerChannel {
    simd::BinaryKernel op;
    const void* values;
  };
  using Operations = std::vector<PerChannel>;
  // The numbers per channel of a normalisation.
  struct Statistics {
    const float *mean, *slope, *offset;
  };

  bool activates() const { return activation_ || leaky_; }
  Status Attribute(Status s, size_t op) const;
  Status CheckVectors(KernelContext& ctx, int64_t channels) const;
  void Finish(char* out, const char* side, int64_t n) const;
  void RunRows(const Operations& ops, const Statistics* statistics,
               const char* side, int64_t rows, int64_t channels,
               char* out) const;
  void RunPlanes(const Operations& ops, const char* side, int64_t planes,
                 int64_t channels, int64_t after, char* out) const;

  DType type_ = DType::kInvalid;
  std::string norm_;  // "", "BiasAdd" or "FusedBatchNorm".
  bool add_ = false;  // Its argument is the last one.
  int num_args_ = 0;
  float epsilon_ = 0, alpha_ = 0;
  bool leaky_ = false;
  simd::UnaryKernel activation_;
  simd::BinaryKernel plus_, minus_, times_;
  size_t size_ = 0;                // Bytes per element.
  int64_t grain_ = 1;              // Fewest elements worth a thread.
  std::vector<std::string> from_;  // Descriptions of the fused nodes.
};

// The activation that can be fused for an op name; nullopt if there is none.
std::optional<simd::UnaryOp> FusedActivation(const std::string& op);

}  // namespace sluice

#endif  // SLUICE_OPS_COMMON_EPILOGUE_H_
