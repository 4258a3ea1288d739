#include "kernels/dnn/conv.h"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/parallel.h"
#include "kernels/dnn/conv_onednn.h"
#include "kernels/dnn/conv_plain.h"
#include "tensor/half.h"

namespace sluice::dnn {
namespace {

Status ValidateDim(const char* name, const WindowDim& d) {
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max();
  const auto in_range = [](int64_t x, int64_t lo) {
    return x >= lo && x <= kMax;
  };
  if (!in_range(d.in, 0) || !in_range(d.window, 0)) {
    return InvalidArgument("convolution's ", name,
                           ": expected extents of 0 to 2^31-1, got input ",
                           d.in, " and filter ", d.window);
  }
  if (!in_range(d.stride, 1) || !in_range(d.dilation, 1)) {
    return InvalidArgument("convolution's ", name,
                           ": expected a stride and dilation of 1 to 2^31-1, "
                           "got ",
                           d.stride, " and ", d.dilation);
  }
  if (!in_range(d.pad_before, 0) || !in_range(d.pad_after, 0)) {
    return InvalidArgument("convolution's ", name,
                           ": expected paddings of 0 to 2^31-1, got ",
                           d.pad_before, " and ", d.pad_after);
  }
  return OkStatus();
}

// oneDNN's generated code has 32-bit offsets in places, and visits the part of
// a window outside the image pixel by pixel.
bool FitsOnednn(const ConvGeometry& s) {
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max() / 4;
  constexpr int64_t kFar = 4096;
  const auto near = [](const WindowDim& d) {
    return d.stride + d.span() + d.pad_before + d.pad_after <= 8 * d.in + kFar;
  };
  return s.in_size() <= kMax && s.out_size() <= kMax &&
         s.filter_size() <= kMax && near(s.d) && near(s.h) && near(s.w);
}

// The sizes of the arrays of a pass, as OnednnConv::Run names them.
struct PassSizes {
  int64_t x, y, z;
};
PassSizes SizesOf(ConvPass pass, const ConvGeometry& s) {
  if (pass == ConvPass::kForward)
    return {s.in_size(), s.filter_size(), s.out_size()};
  if (pass == ConvPass::kBackwardData)
    return {s.filter_size(), s.out_size(), s.in_size()};
  return {s.in_size(), s.out_size(), s.filter_size()};
}

bool Empty(const ConvGeometry& s) {
  return s.in_size() == 0 || s.out_size() == 0 || s.filter_size() == 0;
}

template <typename T>
std::unique_ptr<float[]> ToFloat(const T* from, int64_t n) {
  auto to = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(n));
  ParallelFor(n, 16384, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = static_cast<float>(from[i]);
  });
  return to;
}

template <typename T>
void FromFloat(const float* from, int64_t n, T* to) {
  ParallelFor(n, 16384, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = T(from[i]);
  });
}

}  // namespace

Status Validate(const ConvGeometry& s) {
  SLUICE_RETURN_IF_ERROR(ValidateDim("depth", s.d));
  SLUICE_RETURN_IF_ERROR(ValidateDim("height", s.h));
  SLUICE_RETURN_IF_ERROR(ValidateDim("width", s.w));
  if (s.batch < 0 || s.in_channels < 0 || s.out_channels < 0 ||
      s.filter_in_channels < 0) {
    return InvalidArgument(
        "convolution: expected sizes of at least 0, got batch ", s.batch,
        ", input channels ", s.in_channels, ", filter's input channels ",
        s.filter_in_channels, ", output channels ", s.out_channels);
  }
  if (s.filter_in_channels == 0 ? s.in_channels != 0
                                : s.in_channels % s.filter_in_channels != 0) {
    return InvalidArgument(
        "convolution's input channels: expected a multiple of the filter's ",
        s.filter_in_channels, ", got ", s.in_channels);
  }
  if (s.groups() > 0 && s.out_channels % s.groups() != 0) {
    return InvalidArgument(
        "convolution's output channels: expected a multiple of the ",
        s.groups(), " groups, got ", s.out_channels);
  }
  return OkStatus();
}

// By type: float uses `onednn` (unless the sizes exceed its limits), half and
// bfloat16 use `inner`.
template <typename T>
struct ConvPlan<T>::Impl {
  std::unique_ptr<OnednnConv> onednn;
  std::shared_ptr<const ConvPlan<float>> inner;
};

template <typename T>
ConvPlan<T>::ConvPlan(const ConvGeometry& shape, ConvEpilogue epilogue)
    : shape_(shape), epilogue_(epilogue), impl_(std::make_unique<Impl>()) {}

template <typename T>
ConvPlan<T>::~ConvPlan() = default;

template <typename T>
Result<std::shared_ptr<const ConvPlan<T>>> ConvPlan<T>::Make(
    const ConvGeometry& shape, ConvEpilogue epilogue) {
  SLUICE_RETURN_IF_ERROR(Validate(shape));
  std::shared_ptr<ConvPlan<T>> plan(new ConvPlan<T>(shape, epilogue));
  if constexpr (std::is_same_v<T, float>) {
    if (!Empty(shape) && FitsOnednn(shape))
      plan->impl_->onednn = std::make_unique<OnednnConv>(shape, epilogue);
  } else if constexpr (sizeof(T) == 2) {
    SLUICE_ASSIGN_OR_RETURN(plan->impl_->inner,
                            ConvPlan<float>::Make(shape, epilogue));
  }
  return std::shared_ptr<const ConvPlan<T>>(std::move(plan));
}

template <typename T>
Status ConvPlan<T>::Run(ConvPass pass, const T* x, const T* y, T* z,
                        const T* bias) const {
  if constexpr (sizeof(T) == 2) {
    const PassSizes n = SizesOf(pass, shape_);
    auto to = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(n.z));
    const auto b = ToFloat(bias, bias != nullptr ? shape_.out_channels : 0);
    SLUICE_RETURN_IF_ERROR(impl_->inner->Run(
        pass, ToFloat(x, n.x).get(), ToFloat(y, n.y).get(), to.get(), b.get()));
    FromFloat(to.get(), n.z, z);
    return OkStatus();
  } else {
    if constexpr (std::is_same_v<T, float>) {
      if (impl_->onednn) {
        Status s = impl_->onednn->Run(pass, x, y, z, bias);
        if (s.code() != StatusCode::kUnimplemented) return s;
      }
    }
    switch (pass) {
      case ConvPass::kForward:
        PlainForward(shape_, epilogue_, x, y, z, bias);
        break;
      case ConvPass::kBackwardData:
        PlainBackwardData(shape_, x, y, z);
        break;
      case ConvPass::kBackwardFilter:
        PlainBackwardFilter(shape_, x, y, z);
        break;
    }
    return OkStatus();
  }
}

template <typename T>
Status ConvPlan<T>::Forward(const T* in, const T* filter, T* out,
                            const T* bias) const {
  if (epilogue_.bias && bias == nullptr)
    return InvalidArgument("convolution's bias: expected one, got none");
  return Run(ConvPass::kForward, in, filter, out,
             epilogue_.bias ? bias : nullptr);
}

template <typename T>
Status ConvPlan<T>::BackwardData(const T* filter, const T* d_out,
                                 T* d_in) const {
  return Run(ConvPass::kBackwardData, filter, d_out, d_in, nullptr);
}

template <typename T>
Status ConvPlan<T>::BackwardFilter(const T* in, const T* d_out,
                                   T* d_filter) const {
  return Run(ConvPass::kBackwardFilter, in, d_out, d_filter, nullptr);
}

template <typename T>
Result<std::shared_ptr<const ConvPlan<T>>> ConvPlanCache<T>::Get(
    const ConvGeometry& shape, ConvEpilogue epilogue) {
  std::lock_guard<std::mutex> lock(mutex_);
  for (auto it = plans_.begin(); it != plans_.end(); ++it) {
    if ((*it)->shape() != shape || (*it)->epilogue() != epilogue) continue;
    std::rotate(plans_.begin(), it, it + 1);
    return plans_.front();
  }
  SLUICE_ASSIGN_OR_RETURN(auto plan, ConvPlan<T>::Make(shape, epilogue));
  if (plans_.size() == kCapacity) plans_.pop_back();
  plans_.insert(plans_.begin(), plan);
  return plan;
}

template class ConvPlan<float>;
template class ConvPlan<double>;
template class ConvPlan<half>;
template class ConvPlan<bfloat16>;
template class ConvPlan<int32_t>;
template class ConvPlanCache<float>;
template class ConvPlanCache<double>;
template class ConvPlanCache<half>;
template class ConvPlanCache<bfloat16>;
template class ConvPlanCache<int32_t>;

}  // namespace sluice::dnn
