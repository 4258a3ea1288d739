#include "kernels/dnn/conv_onednn.h"

#include <algorithm>
#include <dnnl.hpp>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "kernels/dnn/threads.h"

namespace sluice::dnn {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using Tag = dnnl::memory::format_tag;
constexpr auto kF32 = dnnl::memory::data_type::f32;

// Never destroyed: plans in static storage may outlive our other static
// objects.
const dnnl::engine& Engine() {
  static const auto* engine = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *engine;
}

// A property of the window for each dimension. Images have two: oneDNN has more
// implementations for images than for volumes of depth one.
template <typename Get>
Dims Spatial(const ConvGeometry& s, Get get) {
  if (s.has_depth()) return {get(s.d), get(s.h), get(s.w)};
  return {get(s.h), get(s.w)};
}

Desc Image(const ConvGeometry& s, int64_t channels, const Dims& extents) {
  Dims dims{s.batch, channels};
  dims.insert(dims.end(), extents.begin(), extents.end());
  const bool last = s.layout == Layout::kNhwc;
  return Desc(dims, kF32,
              s.has_depth() ? (last ? Tag::ndhwc : Tag::ncdhw)
                            : (last ? Tag::nhwc : Tag::nchw));
}

// The user's layout: (D)HWIO, with groups as blocks of O. `back`: I in place of
// O, without groups.
Desc UserFilter(const ConvGeometry& s, bool back) {
  const int64_t i = s.filter_in_channels, oc = s.out_channels;
  const int64_t g = s.groups(), o = oc / g;
  Dims dims{o, i}, strides{1, oc};
  if (back) std::swap(dims[0], dims[1]), std::swap(strides[0], strides[1]);
  if (g > 1) dims.insert(dims.begin(), g), strides.insert(strides.begin(), o);
  const Dims taps = Spatial(s, [](const WindowDim& d) { return d.window; });
  for (size_t k = 0; k < taps.size(); ++k) {
    int64_t step = i * oc;
    for (size_t later = k + 1; later < taps.size(); ++later)
      step *= taps[later];
    dims.push_back(taps[k]);
    strides.push_back(step);
  }
  return Desc(dims, kF32, strides);
}

// Without strides and dilation, the gradient of an image is a convolution too:
// of the result's gradient, by the filter with I and O exchanged and its taps
// in reverse order. oneDNN 2.6.3's forward pass is faster than its backward
// pass on large images (one thread, AVX-512, ms; 28x28: 512 to 256 channels 32
// against 64, 512 to 512 63 against 127; 73x73, 192 to 80, 52 against 74;
// 56x56, 256 to 256, 66 against 69), but not on small ones (12x12, 1024 to 512:
// 50 against 46) nor for filters with one tap.
bool MayGoBackForward(const ConvGeometry& s) {
  const auto whole = [](const WindowDim& d) {
    return d.stride == 1 && d.dilation == 1 && d.pad_before < d.window &&
           d.pad_after < d.window;
  };
  return s.layout == Layout::kNhwc && s.groups() == 1 && s.taps() > 1 &&
         s.in_pixels() >= 28 * 28 && s.in_channels >= 64 &&
         s.out_channels >= 64 && whole(s.d) && whole(s.h) && whole(s.w);
}

// The filter with its taps in reverse order.
void ReverseTaps(const ConvGeometry& s, const float* filter, float* out) {
  const int64_t taps = s.taps(), size = s.filter_size() / taps;
  ParallelFor(taps, 1, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      std::copy_n(filter + (taps - 1 - t) * size, size, out + t * size);
  });
}

Status FromDnnl(const dnnl::error& e) {
  const char* what = "convolution by oneDNN: ";
  switch (e.status) {
    case dnnl_out_of_memory:
      return ResourceExhausted(what, "out of memory");
    case dnnl_unimplemented:
      return Unimplemented(what, e.what());
    default:
      return Internal(what, e.what());
  }
}

}  // namespace

// A primitive and the conversions around it, in order of execution. Operands
// 0 and 1 are read, 2 is written.
struct OnednnConv::Program {
  struct Step {
    dnnl::primitive primitive;
    Desc scratchpad;
    int reorders = -1;  // The operand that is converted; -1: convolution.
  };
  ConvPass pass = ConvPass::kForward;
  int threads = 1;
  // Operand 0 is a filter whose taps are reversed first.
  bool reversed = false;
  int args[3] = {};
  Desc user[3];
  Desc wanted[3];
  Desc bias;
  std::vector<Step> steps;
  std::vector<std::unique_ptr<Call>> idle;  // Guarded by the owner's mutex_.

  void AddReorder(int operand) {
    if (wanted[operand] == user[operand]) return;
    const bool in = operand < 2;
    dnnl::primitive_attr attr;
    attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::reorder::primitive_desc pd(
        Engine(), in ? user[operand] : wanted[operand], Engine(),
        in ? wanted[operand] : user[operand], attr);
    steps.push_back({dnnl::reorder(pd), pd.scratchpad_desc(), operand});
  }
};

// The memory objects of one execution. The user's pointers are set each time.
struct OnednnConv::Call {
  dnnl::stream stream{Engine()};
  dnnl::memory user[3];
  dnnl::memory bias;
  dnnl::memory reversed;  // Replaces user[0] if the program reverses it.
  std::vector<std::unordered_map<int, dnnl::memory>> args;  // By step.

  explicit Call(const Program& p) {
    dnnl::memory wanted[3];
    for (int i = 0; i < 3; ++i) {
      user[i] = dnnl::memory(p.user[i], Engine(), nullptr);
      wanted[i] = p.wanted[i] == p.user[i]
                      ? user[i]
                      : dnnl::memory(p.wanted[i], Engine());
    }
    if (p.reversed) reversed = dnnl::memory(p.user[0], Engine());
    if (!p.bias.is_zero()) bias = dnnl::memory(p.bias, Engine(), nullptr);
    for (const Program::Step& step : p.steps) {
      std::unordered_map<int, dnnl::memory>& a = args.emplace_back();
      if (step.reorders >= 0) {
        const int i = step.reorders;
        a[DNNL_ARG_FROM] = i < 2 ? user[i] : wanted[i];
        a[DNNL_ARG_TO] = i < 2 ? wanted[i] : user[i];
      } else {
        for (int i = 0; i < 3; ++i) a[p.args[i]] = wanted[i];
        if (bias) a[DNNL_ARG_BIAS] = bias;
      }
      if (step.scratchpad.get_size() > 0)
        a[DNNL_ARG_SCRATCHPAD] = dnnl::memory(step.scratchpad, Engine());
    }
  }
};

OnednnConv::OnednnConv(const ConvGeometry& shape, ConvEpilogue epilogue)
    : shape_(shape), epilogue_(epilogue) {}

OnednnConv::~OnednnConv() = default;

// Layouts, measured with oneDNN 2.6.3 on AVX-512 (one thread, GFLOP/s for
// forward / backward data / backward filter):
//   28x28x1 to 32, 5x5:     NHWC 93 / 7 / 119, blocked 113 / 7 / 120,
//                           NCHW by im2col 52 / 50 / 32
//   14x14x32 to 64, 5x5:    NHWC 130 / 126 / 130, blocked 138 / 134 / 133,
//                           NCHW by im2col 68 / 66 / 69
//   28x28x128 to 128, 3x3:  NHWC 119 / 116 / 109, blocked 118 / 117 / 112
// So NHWC is used as it is (the blocked layout gains less than its conversions
// cost), NCHW is converted to the layout that oneDNN chooses, and only the
// filter is always repacked. The exception is the gradient of an input with few
// channels (an image): there im2col on plain layouts is 2 to 7 times faster.
Status OnednnConv::Make(ConvPass pass, int threads,
                        std::unique_ptr<Program>* made) const try {
  const ConvGeometry& s = shape_;
  auto p = std::make_unique<Program>();
  p->pass = pass;
  p->threads = threads;
  using D = WindowDim;
  const Desc in =
      Image(s, s.in_channels, Spatial(s, [](const D& d) { return d.in; }));
  const Desc out =
      Image(s, s.out_channels, Spatial(s, [](const D& d) { return d.out(); }));
  const Desc filter = UserFilter(s, false);
  const bool plain = pass == ConvPass::kBackwardData &&
                     s.filter_in_channels < 8 && s.groups() == 1;
  const auto any = [](const Desc& d) { return Desc(d.dims(), kF32, Tag::any); };
  const bool keep = plain || s.layout == Layout::kNhwc;
  const Desc in_any = keep ? in : any(in), out_any = keep ? out : any(out);
  const Desc filter_any = plain ? filter : any(filter);
  const Dims strides = Spatial(s, [](const D& d) { return d.stride; });
  const Dims dilates = Spatial(s, [](const D& d) { return d.dilation - 1; });
  const Dims before = Spatial(s, [](const D& d) { return d.pad_before; });
  const Dims behind = Spatial(s, [](const D& d) { return d.pad_after; });
  const auto algorithm = dnnl::algorithm::convolution_direct;

  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::primitive_attr forward_attr = attr;
  if (pass == ConvPass::kForward && epilogue_.relu) {
    dnnl::post_ops ops;
    ops.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
    forward_attr.set_post_ops(ops);
  }
  const bool bias = pass == ConvPass::kForward && epilogue_.bias;
  if (bias) p->bias = Desc({s.out_channels}, kF32, Tag::x);
  const auto kind = pass == ConvPass::kForward
                        ? dnnl::prop_kind::forward_inference
                        : dnnl::prop_kind::forward_training;
  using Forward = dnnl::convolution_forward;
  const Forward::desc forward_desc =
      bias ? Forward::desc(kind, algorithm, in_any, filter_any, p->bias,
                           out_any, strides, dilates, before, behind)
           : Forward::desc(kind, algorithm, in_any, filter_any, out_any,
                           strides, dilates, before, behind);
  const Forward::primitive_desc forward(forward_desc, forward_attr, Engine());
  Program::Step step;
  switch (pass) {
    case ConvPass::kForward: {
      p->user[0] = in, p->user[1] = filter, p->user[2] = out;
      p->wanted[0] = forward.src_desc();
      p->wanted[1] = forward.weights_desc();
      p->wanted[2] = forward.dst_desc();
      p->args[0] = DNNL_ARG_SRC, p->args[1] = DNNL_ARG_WEIGHTS;
      p->args[2] = DNNL_ARG_DST;
      step = {Forward(forward), forward.scratchpad_desc()};
      break;
    }
    case ConvPass::kBackwardData: {
      if (MayGoBackForward(s)) {
        const Desc turned = UserFilter(s, true);
        const Dims ahead =
            Spatial(s, [](const D& d) { return d.window - 1 - d.pad_before; });
        const Dims after =
            Spatial(s, [](const D& d) { return d.window - 1 - d.pad_after; });
        const Forward::primitive_desc pd(
            Forward::desc(kind, algorithm, out, any(turned), in, strides,
                          dilates, ahead, after),
            attr, Engine());
        // (Without AVX-512 this forward implementation does not exist.)
        if (std::string_view(pd.impl_info_str()).starts_with("brgconv")) {
          p->reversed = true;
          p->user[0] = turned, p->user[1] = out, p->user[2] = in;
          p->wanted[0] = pd.weights_desc();
          p->wanted[1] = pd.src_desc();
          p->wanted[2] = pd.dst_desc();
          p->args[0] = DNNL_ARG_WEIGHTS, p->args[1] = DNNL_ARG_SRC;
          p->args[2] = DNNL_ARG_DST;
          step = {Forward(pd), pd.scratchpad_desc()};
          break;
        }
      }
      using Backward = dnnl::convolution_backward_data;
      const Backward::primitive_desc pd(
          Backward::desc(algorithm, in_any, filter_any, out_any, strides,
                         dilates, before, behind),
          attr, Engine(), forward);
      p->user[0] = filter, p->user[1] = out, p->user[2] = in;
      p->wanted[0] = pd.weights_desc();
      p->wanted[1] = pd.diff_dst_desc();
      p->wanted[2] = pd.diff_src_desc();
      p->args[0] = DNNL_ARG_WEIGHTS, p->args[1] = DNNL_ARG_DIFF_DST;
      p->args[2] = DNNL_ARG_DIFF_SRC;
      step = {Backward(pd), pd.scratchpad_desc()};
      break;
    }
    case ConvPass::kBackwardFilter: {
      using Backward = dnnl::convolution_backward_weights;
      const Backward::primitive_desc pd(
          Backward::desc(algorithm, in_any, filter_any, out_any, strides,
                         dilates, before, behind),
          attr, Engine(), forward);
      p->user[0] = in, p->user[1] = out, p->user[2] = filter;
      p->wanted[0] = pd.src_desc();
      p->wanted[1] = pd.diff_dst_desc();
      p->wanted[2] = pd.diff_weights_desc();
      p->args[0] = DNNL_ARG_SRC, p->args[1] = DNNL_ARG_DIFF_DST;
      p->args[2] = DNNL_ARG_DIFF_WEIGHTS;
      step = {Backward(pd), pd.scratchpad_desc()};
      break;
    }
  }
  p->AddReorder(0);
  p->AddReorder(1);
  p->steps.push_back(std::move(step));
  p->AddReorder(2);
  *made = std::move(p);
  return OkStatus();
} catch (const dnnl::error& e) {
  return FromDnnl(e);
}

Status OnednnConv::Run(ConvPass pass, const float* x, const float* y, float* z,
                       const float* bias) try {
  const int threads = UseIntraOpThreads();
  Program* program = nullptr;
  std::unique_ptr<Call> call;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& p : programs_) {
      if (p->pass != pass || p->threads != threads) continue;
      program = p.get();
      if (!p->idle.empty()) {
        call = std::move(p->idle.back());
        p->idle.pop_back();
      }
      break;
    }
    if (program == nullptr) {
      // Under the lock, so that one thread creates it and others wait.
      std::unique_ptr<Program> made;
      SLUICE_RETURN_IF_ERROR(Make(pass, threads, &made));
      program = made.get();
      programs_.push_back(std::move(made));
    }
  }
  if (!call) call = std::make_unique<Call>(*program);
  if (program->reversed) {
    auto* const reversed =
        static_cast<float*>(call->reversed.get_data_handle());
    ReverseTaps(shape_, x, reversed);
    x = reversed;
  }
  const void* operands[3] = {x, y, z};
  for (int i = 0; i < 3; ++i)
    call->user[i].set_data_handle(const_cast<void*>(operands[i]));
  if (call->bias) call->bias.set_data_handle(const_cast<float*>(bias));
  for (size_t i = 0; i < program->steps.size(); ++i)
    program->steps[i].primitive.execute(call->stream, call->args[i]);
  call->stream.wait();
  std::lock_guard<std::mutex> lock(mutex_);
  program->idle.push_back(std::move(call));
  return OkStatus();
} catch (const dnnl::error& e) {
  return FromDnnl(e);
}

}  // namespace sluice::dnn
