#include "kernels/dnn/conv_int8_onednn.h"

#include <algorithm>
#include <dnnl.hpp>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kernels/dnn/threads.h"

namespace sluice::dnn {
namespace {

using Dt = dnnl::memory::data_type;

const dnnl::engine& ByteEngine() {
  static const auto* engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

Dt TypeOf(ByteOut out) {
  switch (out) {
    case ByteOut::kUint8:
      return Dt::u8;
    case ByteOut::kInt8:
      return Dt::s8;
    case ByteOut::kFloat:
      break;
  }
  return Dt::f32;
}

class ByteProgram : public OnednnByteConv {
 public:
  // The memory objects of one run.
  struct Call {
    dnnl::stream stream{ByteEngine()};
    dnnl::memory src, dst;
    std::unordered_map<int, dnnl::memory> args;
  };

  Status Run(const void* image, void* out) override;

  std::unique_ptr<Call> NewCall() const {
    auto call = std::make_unique<Call>();
    call->src = dnnl::memory(pd.src_desc(), ByteEngine(), nullptr);
    call->dst = dnnl::memory(pd.dst_desc(), ByteEngine(), nullptr);
    call->args = {{DNNL_ARG_SRC, call->src},
                  {DNNL_ARG_DST, call->dst},
                  {DNNL_ARG_WEIGHTS, weights},
                  {DNNL_ARG_BIAS, bias}};
    if (pd.scratchpad_desc().get_size() > 0)
      call->args[DNNL_ARG_SCRATCHPAD] =
          dnnl::memory(pd.scratchpad_desc(), ByteEngine());
    return call;
  }

  dnnl::convolution_forward::primitive_desc pd;
  dnnl::convolution_forward primitive;
  dnnl::memory weights, bias;
  std::mutex mutex;
  std::vector<std::unique_ptr<Call>> idle;  // Guarded by mutex.
};

Status ByteProgram::Run(const void* image, void* out) try {
  UseIntraOpThreads();
  std::unique_ptr<Call> call;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!idle.empty()) {
      call = std::move(idle.back());
      idle.pop_back();
    }
  }
  if (!call) call = NewCall();
  call->src.set_data_handle(const_cast<void*>(image));
  call->dst.set_data_handle(out);
  primitive.execute(call->stream, call->args);
  call->stream.wait();
  const std::lock_guard<std::mutex> lock(mutex);
  idle.push_back(std::move(call));
  return OkStatus();
} catch (const dnnl::error& e) {
  return Internal("convolution of bytes: ", e.what());
}

}  // namespace

Result<std::unique_ptr<OnednnByteConv>> OnednnByteConv::Make(
    const ByteLayer& l, const int8_t* filter) try {
  const ConvGeometry& s = l.shape;
  using Tag = dnnl::memory::format_tag;
  using Desc = dnnl::memory::desc;
  using Forward = dnnl::convolution_forward;
  auto impl = std::make_unique<ByteProgram>();
  const auto image = [](int64_t n, int64_t c, int64_t h, int64_t w, Dt t) {
    return Desc({n, c, h, w}, t, Tag::nhwc);
  };
  const Desc src = image(s.batch, s.in_channels, s.h.in, s.w.in,
                         l.signed_image ? Dt::s8 : Dt::u8);
  const Desc dst =
      image(s.batch, s.out_channels, s.h.out(), s.w.out(), TypeOf(l.out));
  const dnnl::memory::dims dims = {s.out_channels, s.in_channels, s.h.window,
                                   s.w.window};
  const Desc bias({s.out_channels}, Dt::f32, Tag::x);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attr.set_output_scales(1 << 1, l.scale);
  if (l.relu) {
    dnnl::post_ops ops;
    ops.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
    attr.set_post_ops(ops);
  }
  impl->pd = Forward::primitive_desc(
      Forward::desc(
          dnnl::prop_kind::forward_inference,
          dnnl::algorithm::convolution_direct, src,
          Desc(dims, Dt::s8, Tag::any), bias, dst, {s.h.stride, s.w.stride},
          {s.h.dilation - 1, s.w.dilation - 1},
          {s.h.pad_before, s.w.pad_before}, {s.h.pad_after, s.w.pad_after}),
      attr, ByteEngine());
  impl->primitive = Forward(impl->pd);
  dnnl::stream stream(ByteEngine());
  dnnl::memory user(Desc(dims, Dt::s8, Tag::hwio), ByteEngine(),
                    const_cast<int8_t*>(filter));
  impl->weights = dnnl::memory(impl->pd.weights_desc(), ByteEngine());
  dnnl::reorder(user, impl->weights).execute(stream, user, impl->weights);
  impl->bias = dnnl::memory(bias, ByteEngine());
  std::copy(l.bias.begin(), l.bias.end(),
            static_cast<float*>(impl->bias.get_data_handle()));
  stream.wait();
  return std::unique_ptr<OnednnByteConv>(std::move(impl));
} catch (const dnnl::error& e) {
  if (e.status == dnnl_out_of_memory)
    return ResourceExhausted("convolution of bytes: out of memory");
  return Unimplemented("convolution of bytes by oneDNN: ", e.what());
}

}  // namespace sluice::dnn
