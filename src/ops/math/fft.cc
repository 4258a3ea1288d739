// Fourier transforms, in one, two or three dimensions.
#include "kernels/linalg/fft.h"

#include <algorithm>
#include <string>
#include <type_traits>

#include "exec/core/kernel.h"
#include "graph/builder.h"
#include "graph/grad.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/dispatch.h"
#include "ops/common/elements.h"
#include "ops/common/grad_nodes.h"

namespace sluice {
namespace {

// The number of transformed dimensions: two for "IRFFT2D", one for "FFT".
int FftRank(const Node& n) {
  const std::string& name = n.op_name();
  return name.ends_with("2D") ? 2 : name.ends_with("3D") ? 3 : 1;
}

Status CheckFftRank(const Shape& s, int rank) {
  if (s.rank() < rank)
    return InvalidArgument("input: expected rank at least ", rank,
                           ", got shape ", s.ToString());
  return OkStatus();
}

Status CheckFftLengths(std::span<const int64_t> dims) {
  for (int64_t d : dims)
    if (d > linalg::kMaxFftLength)
      return InvalidArgument("input: expected dimensions of at most ",
                             linalg::kMaxFftLength, ", got ", d);
  return OkStatus();
}

// ---- Complex to complex -----------------------------------------------------

template <typename T>
class FftKernel {
 public:
  explicit FftKernel(const Node& n)
      : rank_(FftRank(n)), inverse_(n.op_name()[0] == 'I') {}
  Status Run(KernelContext& ctx) const {
    const Shape shape = ctx.input(0).shape();
    SLUICE_RETURN_IF_ERROR(CheckFftRank(shape, rank_));
    const auto dims = shape.dims().last(static_cast<size_t>(rank_));
    SLUICE_RETURN_IF_ERROR(CheckFftLengths(dims));
    const T* in = ctx.input(0).raw<T>();
    SLUICE_RETURN_IF_ERROR(ctx.ForwardOrAllocate({0}, 0, DTypeOf<T>(), shape));
    T* out = ctx.output(0).raw<T>();
    if (out != in) std::copy_n(in, shape.num_elements(), out);
    linalg::Fft(dims, array::Product(shape.dims(), 0, shape.rank() - rank_),
                inverse_, out);
    return OkStatus();
  }

 private:
  const int rank_;
  const bool inverse_;
};

Status FftShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape s,
                          c.WithRankAtLeast(0, FftRank(c.node())));
  c.set_output(0, std::move(s));
  return OkStatus();
}

// The number of elements of the transformed dimensions of x, as a number of its
// type.
Output TransformedSize(Output x, int rank, DType as) {
  const Output dims =
      Build("StridedSlice", {grad::ShapeOf(x), IntVector({-rank}),
                             IntVector({INT32_MAX}), IntVector({1})});
  return grad::Cast(Build("Prod", {dims, IntVector({0})}), as);
}

// The adjoint of a transform is its inverse up to a factor.
Status FftGradient(GradContext& c) {
  const std::string& name = c.op->op_name();
  const bool inverse = name[0] == 'I';
  const Output dy = c.dy[0];
  const Output n = TransformedSize(dy, FftRank(*c.op), grad::TypeOf(dy));
  const Output back = Build(inverse ? name.substr(1) : "I" + name, {dy});
  c.grads[0] = inverse ? grad::Div(back, n) : grad::Mul(back, n);
  return OkStatus();
}

OpDefBuilder ComplexFft(const char* name, const char* doc, Dims sample) {
  OpDefBuilder b(name);
  b.Input("input: Tcomplex")
      .Output("output: Tcomplex")
      .Attr("Tcomplex: {complex64, complex128} = DT_COMPLEX64")
      .Shape(FftShape)
      .Kernel(CpuStateFor<FftKernel, complex64, complex128>("Tcomplex", true))
      .Grad(FftGradient)
      .Sample({{.shape = std::move(sample)}})
      .Doc(doc)
      .Family("linalg");
  return b;
}

const OpRegistrar kComplexFfts[] = {
    ComplexFft("FFT", "The Fourier transform along the last dimension.",
               {2, 6}),
    ComplexFft("IFFT", "The inverse of FFT.", {2, 5}),
    ComplexFft("FFT2D", "The Fourier transform along the last two dimensions.",
               {2, 3, 4}),
    ComplexFft("IFFT2D", "The inverse of FFT2D.", {3, 4}),
    ComplexFft("FFT3D",
               "The Fourier transform along the last three dimensions.",
               {2, 3, 4}),
    ComplexFft("IFFT3D", "The inverse of FFT3D.", {1, 2, 3, 4}),
};

// ---- Real to complex and back -----------------------------------------------

// The number of frequencies of a real line of n elements.
int64_t HalfOf(int64_t n) { return n == 0 ? 0 : n / 2 + 1; }

// Copies the first `to` elements along each of the last dimensions.
template <typename T>
void CropTo(const Shape& from, std::span<const int64_t> to, const T* in,
            T* out) {
  Dims dims = array::DimsOf(from);
  const Dims in_strides = array::DenseStrides(array::SpanOf(dims));
  std::copy(to.begin(), to.end(), dims.end() - static_cast<int>(to.size()));
  const Dims out_strides = array::DenseStrides(array::SpanOf(dims));
  array::CopyStrided(DTypeOf<T>(), array::SpanOf(dims), in,
                     array::SpanOf(in_strides), out,
                     array::SpanOf(out_strides));
}

// T: float or double. Reads fft_length elements of the input.
template <typename T>
class RealFftKernel {
 public:
  explicit RealFftKernel(const Node& n)
      : rank_(FftRank(n)), inverse_(n.op_name()[0] == 'I') {}

  Status Run(KernelContext& ctx) const {
    const Shape shape = ctx.input(0).shape();
    SLUICE_RETURN_IF_ERROR(CheckFftRank(shape, rank_));
    SLUICE_ASSIGN_OR_RETURN(const Dims length,
                            array::IntVectorOf(ctx.input(1), "fft_length"));
    if (static_cast<int>(length.size()) != rank_)
      return InvalidArgument("fft_length: expected ", rank_,
                             " lengths, got shape ",
                             ctx.input(1).shape().ToString());
    SLUICE_RETURN_IF_ERROR(CheckFftLengths(array::SpanOf(length)));
    const int outer = shape.rank() - rank_;
    Dims crop = length;  // The part of the input that is read.
    Dims dims = array::DimsOf(shape);
    for (int i = 0; i < rank_; ++i) {
      const auto k = static_cast<size_t>(i);
      if (length[k] < 0)
        return InvalidArgument("fft_length: expected at least 0, got ",
                               length[k]);
      const bool last = i + 1 == rank_;
      if (inverse_ && last) crop[k] = HalfOf(length[k]);
      int64_t& d = dims[static_cast<size_t>(outer + i)];
      if (d != 0 && d < crop[k])
        return InvalidArgument("input: expected at least ", crop[k],
                               " elements for the given fft_length in "
                               "dimension ",
                               outer + i, ", got shape ", shape.ToString());
      d = !inverse_ && last ? HalfOf(length[k]) : length[k];
    }
    SLUICE_ASSIGN_OR_RETURN(const Shape out_shape, array::MakeShape(dims));
    const DType complex = DTypeOf<std::complex<T>>();
    SLUICE_RETURN_IF_ERROR(
        ctx.Allocate(0, inverse_ ? DTypeOf<T>() : complex, out_shape));
    if (shape.num_elements() == 0) {  // The transform of nothing is zero.
      array::ZeroRun(ctx.output(0).dtype(), ctx.output(0).raw(),
                     out_shape.num_elements());
      return OkStatus();
    }
    if (out_shape.num_elements() == 0) return OkStatus();
    const int64_t batch = array::Product(shape.dims(), 0, outer);
    Dims read = array::DimsOf(shape);
    std::copy(crop.begin(), crop.end(), read.begin() + outer);
    SLUICE_ASSIGN_OR_RETURN(const Shape read_shape, array::MakeShape(read));
    if (inverse_) {
      SLUICE_ASSIGN_OR_RETURN(Tensor work,
                              ctx.AllocateTemp(complex, read_shape));
      auto* from = work.raw<std::complex<T>>();
      CropTo(shape, array::SpanOf(crop), ctx.input(0).raw<std::complex<T>>(),
             from);
      linalg::InverseRealFft(array::SpanOf(length), batch, from,
                             ctx.output(0).raw<T>());
      return OkStatus();
    }
    Tensor work = ctx.input(0);
    if (!(read_shape == shape)) {
      SLUICE_ASSIGN_OR_RETURN(work, ctx.AllocateTemp(DTypeOf<T>(), read_shape));
      CropTo(shape, array::SpanOf(crop), ctx.input(0).raw<T>(), work.raw<T>());
    }
    linalg::RealFft(array::SpanOf(length), batch,
                    static_cast<const Tensor&>(work).raw<T>(),
                    ctx.output(0).raw<std::complex<T>>());
    return OkStatus();
  }

 private:
  const int rank_;
  const bool inverse_;
};

Status MakeRealFft(const Node& n, Kernel* k) {
  const DType real = n.TypeAttr("Treal");
  const DType complex = n.TypeAttr("Tcomplex");
  if ((real == DType::kDouble) != (complex == DType::kComplex128))
    return NoKernelFor(n, complex);
  return CpuStateFor<RealFftKernel, float, double>("Treal", true)(n, k);
}

Status RealFftShape(ShapeContext& c) {
  const int rank = FftRank(c.node());
  const bool inverse = c.node().op_name()[0] == 'I';
  SLUICE_ASSIGN_OR_RETURN(PartialShape s, c.WithRankAtLeast(0, rank));
  SLUICE_ASSIGN_OR_RETURN(const PartialShape lengths, c.WithRank(1, 1));
  if (lengths.rank_known() && !MergeDim(lengths.dim(0), rank).ok())
    return InvalidArgument("fft_length: expected ", rank,
                           " lengths, got shape ", lengths.ToString());
  if (!s.rank_known()) return OkStatus();
  const Tensor* known = c.constant(1);
  for (int i = 0; i < rank; ++i) {
    int64_t n = known == nullptr ? -1 : array::IntAt(*known, i);
    if (known != nullptr && n < 0)
      return InvalidArgument("fft_length: expected at least 0, got ", n);
    if (n > 0 && !inverse && i + 1 == rank) n = HalfOf(n);
    s.set_dim(s.rank() - rank + i, n);
  }
  c.set_output(0, std::move(s));
  return OkStatus();
}

// Pads dx with zeros where the op ignored elements beyond fft_length.
Output PadLike(Output dx, Output x) {
  if (!dx.valid() || !x.valid() ||
      (dx.shape().fully_known() && dx.shape() == x.shape()))
    return dx;
  const Output missing = grad::Sub(Build("Shape", {x}), Build("Shape", {dx}));
  return Build("Pad", {dx, Build("Pack", {grad::ZerosLike(missing), missing},
                                 {{"N", int64_t{2}}, {"axis", int64_t{1}}})});
}

// In a real line of n elements, frequency 0 and, if n is even, n / 2 occur once
// and all others twice, as conjugates. The adjoint of either transform is the
// other one with these frequencies (`others`: all except these) weighted
// accordingly.
Output Proportions(Output fft_length, double others, DType as) {
  const Output one = Constant(int32_t{1}), two = Constant(int32_t{2});
  const Output zero = Constant(int32_t{0});
  const Output n =
      Build("StridedSlice",
            {fft_length, IntVector({-1}), IntVector({0}), IntVector({1})},
            {{"shrink_axis_mask", int64_t{1}}});
  const Output k =
      Build("Range", {zero, grad::Add(Build("FloorDiv", {n, two}), one), one});
  const Output once = Build(
      "LogicalOr",
      {Build("Equal", {k, zero}), Build("Equal", {grad::Mul(k, two), n})});
  return grad::Select(once, ScalarOf(as, 1), ScalarOf(as, others));
}

Status RealFftGradient(GradContext& c) {
  const std::string& name = c.op->op_name();
  const bool inverse = name[0] == 'I';
  const Output x = c.input(0), length = c.input(1), dy = c.dy[0];
  const DType real = c.op->TypeAttr("Treal");
  const DType complex = c.op->TypeAttr("Tcomplex");
  const AttrMap types = {{"Treal", real}, {"Tcomplex", complex}};
  const Output n = Build("Prod", {length, IntVector({0})});
  Output dx;
  if (inverse) {
    dx = grad::Div(grad::Mul(Build(name.substr(1), {dy, length}, types),
                             Proportions(length, 2, complex)),
                   grad::Cast(n, complex));
  } else {
    dx = grad::Mul(
        Build("I" + name,
              {grad::Mul(dy, Proportions(length, 0.5, complex)), length},
              types),
        grad::Cast(n, real));
  }
  c.grads[0] = PadLike(dx, x);
  return OkStatus();
}

// With samples for both precisions; a length is the part of the sample that is
// read.
OpDefBuilder RealFft(const char* name, const char* doc, const Dims& sample,
                     const std::vector<double>& lengths) {
  OpDefBuilder b(name);
  const bool inverse = name[0] == 'I';
  b.Input(inverse ? "input: Tcomplex" : "input: Treal")
      .Input("fft_length: int32")
      .Output(inverse ? "output: Treal" : "output: Tcomplex")
      .Attr("Treal: {float, double} = DT_FLOAT")
      .Attr("Tcomplex: {complex64, complex128} = DT_COMPLEX64")
      .Shape(RealFftShape)
      .Kernel(MakeRealFft)
      .Grad(RealFftGradient)
      .Doc(doc)
      .Family("linalg");
  for (bool wide : {false, true})
    b.Sample(
        {{.shape = sample},
         {.shape = {static_cast<int64_t>(lengths.size())}, .values = lengths}},
        {{"Treal", wide ? DType::kDouble : DType::kFloat},
         {"Tcomplex", wide ? DType::kComplex128 : DType::kComplex64}});
  return b;
}

const OpRegistrar kRealFfts[] = {
    RealFft("RFFT",
            "The Fourier transform of real numbers along the last dimension, "
            "without the redundant negative frequencies.",
            {2, 7}, {6}),
    RealFft("IRFFT", "The inverse of RFFT.", {2, 4}, {7}),
    RealFft("RFFT2D",
            "The Fourier transform of real numbers along the last two "
            "dimensions.",
            {2, 3, 4}, {3, 4}),
    RealFft("IRFFT2D", "The inverse of RFFT2D.", {3, 4}, {3, 5}),
    RealFft("RFFT3D",
            "The Fourier transform of real numbers along the last three "
            "dimensions.",
            {2, 3, 4}, {2, 3, 4}),
    RealFft("IRFFT3D", "The inverse of RFFT3D.", {1, 2, 3, 4}, {2, 3, 6}),
};

}  // namespace
}  // namespace sluice
