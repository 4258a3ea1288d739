#include "kernels/dnn/conv_int8.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/dnn/conv_int8_onednn.h"
#include "kernels/dnn/conv_plain.h"
#include "kernels/dnn/gemm_onednn.h"
#include "kernels/dnn/threads.h"

namespace sluice::dnn {
namespace {

// NaN and infinities are clamped too.
template <typename T>
T Rounded(float v) {
  constexpr auto kLow = static_cast<float>(std::numeric_limits<T>::min());
  constexpr auto kHigh = static_cast<float>(std::numeric_limits<T>::max());
  return static_cast<T>(std::nearbyint(std::min(std::max(kLow, v), kHigh)));
}

}  // namespace

ByteConvPlan::ByteConvPlan(ByteLayer layer) : layer_(std::move(layer)) {}

ByteConvPlan::~ByteConvPlan() = default;

Result<std::shared_ptr<const ByteConvPlan>> ByteConvPlan::Make(
    ByteLayer layer, const int8_t* filter, bool plain) {
  SLUICE_RETURN_IF_ERROR(Validate(layer.shape));
  const ConvGeometry s = layer.shape;
  if (s.layout != Layout::kNhwc || s.has_depth() || s.groups() != 1)
    return Unimplemented("bytes: expected NHWC images and one group");
  // (Not make_shared: the constructor is private.)
  const std::shared_ptr<ByteConvPlan> plan(new ByteConvPlan(std::move(layer)));
  plan->threads_ = UseIntraOpThreads();
  const auto by_loops = [&] {
    plan->wide_.assign(filter, filter + s.filter_size());
    return plan;
  };
  if (plain || !ByteSumsAreExact()) return by_loops();
  auto made = OnednnByteConv::Make(plan->layer_, filter);
  if (!made.ok()) {
    if (made.status().code() == StatusCode::kResourceExhausted)
      return made.status();
    return by_loops();
  }
  plan->onednn_ = *std::move(made);
  return plan;
}

Status ByteConvPlan::Run(const void* image, void* out) const {
  return onednn_ ? onednn_->Run(image, out) : RunPlain(image, out);
}

Status ByteConvPlan::RunPlain(const void* image, void* out) const {
  const ByteLayer& l = layer_;
  const auto size = static_cast<size_t>(l.shape.in_size());
  std::vector<int32_t> in(size), sums(static_cast<size_t>(l.shape.out_size()));
  for (size_t i = 0; i < size; ++i)
    in[i] = l.signed_image ? int32_t{static_cast<const int8_t*>(image)[i]}
                           : int32_t{static_cast<const uint8_t*>(image)[i]};
  PlainForward<int32_t>(l.shape, {}, in.data(), wide_.data(), sums.data(),
                        nullptr);
  const auto channels = static_cast<size_t>(l.shape.out_channels);
  for (size_t i = 0; i < sums.size(); ++i) {
    const size_t c = i % channels;
    float v = l.scale[c] * (static_cast<float>(sums[i]) + l.bias[c]);
    if (l.relu) v = std::max(0.0f, v);
    switch (l.out) {
      case ByteOut::kUint8:
        static_cast<uint8_t*>(out)[i] = Rounded<uint8_t>(v);
        break;
      case ByteOut::kInt8:
        static_cast<int8_t*>(out)[i] = Rounded<int8_t>(v);
        break;
      case ByteOut::kFloat:
        static_cast<float*>(out)[i] = v;
        break;
    }
  }
  return OkStatus();
}

}  // namespace sluice::dnn
