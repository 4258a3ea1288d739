// Diagonals and bands of matrices: the last two dimensions of a tensor.
#include <algorithm>

#include "exec/kernel.h"
#include "graph/builder.h"
#include "graph/grad.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/array_util.h"
#include "ops/grad_util.h"

namespace sluice {
namespace {

using array::At;
using array::IntAt;

// ---- MatrixBandPart ---------------------------------------------------------

Status BandPartKernel(KernelContext& ctx) {
  const Tensor in = ctx.input(0);
  if (in.rank() < 2)
    return InvalidArgument("input: expected rank at least 2, got shape ",
                           in.shape().ToString());
  SLUICE_ASSIGN_OR_RETURN(const int64_t lower,
                          array::IntScalar(ctx.input(1), "num_lower"));
  SLUICE_ASSIGN_OR_RETURN(const int64_t upper,
                          array::IntScalar(ctx.input(2), "num_upper"));
  const int64_t rows = in.dim(in.rank() - 2), columns = in.dim(in.rank() - 1);
  if (lower > rows)
    return InvalidArgument("num_lower: expected at most ", rows,
                           ", the number of rows, got ", lower);
  if (upper > columns)
    return InvalidArgument("num_upper: expected at most ", columns,
                           ", the number of columns, got ", upper);
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, in.dtype(), in.shape()));
  if (in.num_elements() == 0) return OkStatus();
  const DType type = in.dtype();
  void* out = ctx.output(0).raw();
  const int64_t all_rows = in.num_elements() / columns;
  for (int64_t r = 0; r < all_rows; ++r) {
    const int64_t m = r % rows, at = r * columns;
    const int64_t begin =
        lower < 0 ? 0 : std::clamp<int64_t>(m - lower, 0, columns);
    const int64_t end =
        upper < 0 ? columns : std::max(begin, std::min(columns, m + upper + 1));
    array::ZeroRun(type, At(type, out, at), begin);
    array::CopyRun(type, At(type, in.raw(), at + begin),
                   At(type, out, at + begin), end - begin);
    array::ZeroRun(type, At(type, out, at + end), columns - end);
  }
  return OkStatus();
}

Status BandPartShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape out, c.WithRankAtLeast(0, 2));
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(1));
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(2));
  c.set_output(0, std::move(out));
  return OkStatus();
}

Status BandPartGrad(GradContext& g) {
  g.grads[0] = Build("MatrixBandPart", {g.dy[0], g.input(1), g.input(2)});
  return OkStatus();
}

// ---- MatrixDiag and its kin -------------------------------------------------

// Diagonals lower..upper of a matrix as rows of a packed tensor, the uppermost
// first, each padded to the longest at its left or right. Versions 1 know only
// the main one; versions 2 pad at the right.
struct Band {
  int64_t lower = 0, upper = 0;
  bool left_super = true, left_sub = true;  // Aligned at the left.

  int64_t count() const { return upper - lower + 1; }
  static int64_t Length(int64_t d, int64_t rows, int64_t columns) {
    return std::min(rows + std::min<int64_t>(0, d),
                    columns - std::max<int64_t>(0, d));
  }
  int64_t Longest(int64_t rows, int64_t columns) const {
    return std::min(rows + std::min<int64_t>(upper, 0),
                    columns - std::max<int64_t>(lower, 0));
  }
  // Where the elements of diagonal d begin in its packed row.
  int64_t Offset(int64_t d, int64_t length, int64_t longest) const {
    const bool left = (d >= 0 && left_super) || (d <= 0 && left_sub);
    return left ? 0 : longest - length;
  }
  Status CheckFits(int64_t rows, int64_t columns) const {
    for (int64_t d : {lower, upper})
      if (d != 0 && (d <= -rows || d >= columns))
        return InvalidArgument("k: expected diagonals in (", -rows, ", ",
                               columns, "), got ", d);
    return OkStatus();
  }
};

Band AlignedBand(const Node& n) {
  Band band;
  const std::string align = n.AttrOr<std::string>("align", "LEFT_LEFT");
  band.left_super = align == "LEFT_RIGHT" || align == "LEFT_LEFT";
  band.left_sub = align == "RIGHT_LEFT" || align == "LEFT_LEFT";
  return band;
}

// Reads k: one diagonal, or the lowest and the highest.
Status ReadK(const Tensor& k, Band* band) {
  if (k.rank() > 1 || k.num_elements() < 1 || k.num_elements() > 2)
    return InvalidArgument("k: expected a scalar or a vector of one or two ",
                           "entries, got shape ", k.shape().ToString());
  band->lower = IntAt(k, 0);
  band->upper = IntAt(k, k.num_elements() - 1);
  if (band->lower > band->upper)
    return InvalidArgument("k: expected the lower diagonal first, got ",
                           band->lower, " and ", band->upper);
  return OkStatus();
}

// Copies between matrices and their packed diagonals.
struct BandCopy {
  DType type;
  Band band;
  int64_t batch, rows, columns;

  // Calls copy(matrix offset, packed offset, length) for each diagonal.
  template <typename F>
  void ForEach(F&& copy) const {
    const int64_t longest = band.Longest(rows, columns);
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t d = band.upper; d >= band.lower; --d) {
        const int64_t length = Band::Length(d, rows, columns);
        if (length <= 0) continue;
        const int64_t row = std::max<int64_t>(0, -d);
        const int64_t column = std::max<int64_t>(0, d);
        copy((b * rows + row) * columns + column,
             (b * band.count() + band.upper - d) * longest +
                 band.Offset(d, length, longest),
             length);
      }
    }
  }
  void Move(const void* from, int64_t from_step, void* to, int64_t to_step,
            int64_t n) const {
    const int64_t dims[] = {n}, s[] = {from_step}, d[] = {to_step};
    array::CopyStrided(type, dims, from, s, to, d);
  }
  void Pack(const void* matrix, void* packed) const {
    ForEach([&](int64_t m, int64_t p, int64_t n) {
      Move(At(type, matrix, m), columns + 1, At(type, packed, p), 1, n);
    });
  }
  void Unpack(const void* packed, void* matrix) const {
    ForEach([&](int64_t m, int64_t p, int64_t n) {
      Move(At(type, packed, p), 1, At(type, matrix, m), columns + 1, n);
    });
  }
};

// Sizes of the matrices that packed diagonals make. -1 asks for the least.
Status CompleteSize(const Band& band, int64_t longest, int64_t* rows,
                    int64_t* columns) {
  SLUICE_ASSIGN_OR_RETURN(
      const int64_t least_rows,
      array::AddDims(longest, std::max<int64_t>(0, -band.upper)));
  SLUICE_ASSIGN_OR_RETURN(
      const int64_t least_columns,
      array::AddDims(longest, std::max<int64_t>(0, band.lower)));
  if (*rows == -1 && *columns == -1) {
    *rows = *columns = std::max(least_rows, least_columns);
    return OkStatus();
  }
  if (*rows == -1) *rows = least_rows;
  if (*columns == -1) *columns = least_columns;
  if (*rows < least_rows || *columns < least_columns ||
      (*rows != least_rows && *columns != least_columns))
    return InvalidArgument(
        "num_rows and num_cols: expected sizes of which the diagonals fill "
        "one, at least ",
        least_rows, " and ", least_columns, ", got ", *rows, " and ", *columns);
  return OkStatus();
}

// Leading dimensions of the packed tensor, and the check that it has one row
// per diagonal.
Result<int> PackedBatchRank(const PartialShape& packed, const Band& band) {
  const int need = band.lower == band.upper ? 1 : 2;
  const int batch = packed.rank() - need;
  if (batch < 0)
    return InvalidArgument("diagonal: expected rank at least ", need,
                           ", got shape ", packed.ToString());
  if (need == 2 && packed.dim(batch) >= 0 && packed.dim(batch) != band.count())
    return InvalidArgument("diagonal: expected ", band.count(),
                           " diagonals, got shape ", packed.ToString());
  return batch;
}

class MatrixDiagKernel {
 public:
  explicit MatrixDiagKernel(const Node& n) : band_(AlignedBand(n)) {}
  Status Run(KernelContext& ctx) {
    const Tensor& in = ctx.input(0);
    Band band = band_;
    int64_t rows = -1, columns = -1;
    const bool plain = ctx.num_inputs() == 1;
    if (!plain) {
      SLUICE_RETURN_IF_ERROR(ReadK(ctx.input(1), &band));
      SLUICE_ASSIGN_OR_RETURN(rows, array::IntScalar(ctx.input(2), "num_rows"));
      SLUICE_ASSIGN_OR_RETURN(columns,
                              array::IntScalar(ctx.input(3), "num_cols"));
      if (ctx.input(4).num_elements() != 1)
        return InvalidArgument("padding_value: expected a scalar, got shape ",
                               ctx.input(4).shape().ToString());
    }
    SLUICE_ASSIGN_OR_RETURN(const int batch, PackedBatchRank(in.shape(), band));
    SLUICE_RETURN_IF_ERROR(
        CompleteSize(band, in.dim(in.rank() - 1), &rows, &columns));
    SLUICE_RETURN_IF_ERROR(band.CheckFits(rows, columns));
    Dims dims(in.shape().dims().begin(), in.shape().dims().begin() + batch);
    dims.push_back(rows);
    dims.push_back(columns);
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(dims));
    const DType type = in.dtype();
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, type, shape));
    if (shape.num_elements() == 0) return OkStatus();
    void* out = ctx.output(0).raw();
    if (plain)
      array::ZeroRun(type, out, shape.num_elements());
    else
      array::FillRun(type, ctx.input(4).raw(), out, shape.num_elements());
    BandCopy{type, band, shape.num_elements() / (rows * columns), rows, columns}
        .Unpack(in.raw(), out);
    return OkStatus();
  }

 private:
  const Band band_;
};

class MatrixDiagPartKernel {
 public:
  explicit MatrixDiagPartKernel(const Node& n) : band_(AlignedBand(n)) {}
  Status Run(KernelContext& ctx) {
    const Tensor& in = ctx.input(0);
    if (in.rank() < 2)
      return InvalidArgument("input: expected rank at least 2, got shape ",
                             in.shape().ToString());
    Band band = band_;
    const bool plain = ctx.num_inputs() == 1;
    const int64_t rows = in.dim(in.rank() - 2), columns = in.dim(in.rank() - 1);
    if (!plain) {
      SLUICE_RETURN_IF_ERROR(ReadK(ctx.input(1), &band));
      SLUICE_RETURN_IF_ERROR(band.CheckFits(rows, columns));
      if (ctx.input(2).num_elements() != 1)
        return InvalidArgument("padding_value: expected a scalar, got shape ",
                               ctx.input(2).shape().ToString());
    }
    Dims dims(in.shape().dims().begin(), in.shape().dims().end() - 2);
    const int64_t batch = array::Product(in.shape().dims(), 0, in.rank() - 2);
    if (band.lower != band.upper) dims.push_back(band.count());
    dims.push_back(std::max<int64_t>(0, band.Longest(rows, columns)));
    SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(dims));
    const DType type = in.dtype();
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, type, shape));
    if (shape.num_elements() == 0) return OkStatus();
    void* out = ctx.output(0).raw();
    if (band.lower != band.upper)
      array::FillRun(type, ctx.input(2).raw(), out, shape.num_elements());
    BandCopy{type, band, batch, rows, columns}.Pack(in.raw(), out);
    return OkStatus();
  }

 private:
  const Band band_;
};

class MatrixSetDiagKernel {
 public:
  explicit MatrixSetDiagKernel(const Node& n) : band_(AlignedBand(n)) {}
  Status Run(KernelContext& ctx) {
    const Tensor diagonal = ctx.input(1);
    const Shape shape = ctx.input(0).shape();
    const int rank = shape.rank();
    if (rank < 2)
      return InvalidArgument("input: expected rank at least 2, got shape ",
                             shape.ToString());
    Band band = band_;
    const int64_t rows = shape[rank - 2], columns = shape[rank - 1];
    if (ctx.num_inputs() > 2) {
      SLUICE_RETURN_IF_ERROR(ReadK(ctx.input(2), &band));
      SLUICE_RETURN_IF_ERROR(band.CheckFits(rows, columns));
    }
    Dims want(shape.dims().begin(), shape.dims().end() - 2);
    if (band.lower != band.upper) want.push_back(band.count());
    want.push_back(std::max<int64_t>(0, band.Longest(rows, columns)));
    if (want != array::DimsOf(diagonal.shape()))
      return InvalidArgument("diagonal: expected shape ",
                             PartialShape(array::SpanOf(want)).ToString(),
                             " for matrices of shape ", shape.ToString(),
                             ", got ", diagonal.shape().ToString());
    const DType type = diagonal.dtype();
    Tensor out;
    if (ctx.CanForward(0)) {
      out = ctx.TakeInput(0);
    } else {
      SLUICE_ASSIGN_OR_RETURN(out, ctx.input(0).Clone());
    }
    if (shape.num_elements() > 0)
      BandCopy{type, band, shape.num_elements() / (rows * columns), rows,
               columns}
          .Unpack(diagonal.raw(), out.raw());
    ctx.set_output(0, std::move(out));
    return OkStatus();
  }

 private:
  const Band band_;
};

// ---- Shapes -----------------------------------------------------------------

// k of input i where it is known; versions 1 have none.
Result<bool> KnownBand(ShapeContext& c, int i, Band* band) {
  if (i >= c.num_inputs()) return true;
  SLUICE_RETURN_IF_ERROR(c.WithRankAtMost(i, 1).status());
  const Tensor* k = c.constant(i);
  if (k == nullptr) return false;
  SLUICE_RETURN_IF_ERROR(ReadK(*k, band));
  return true;
}

Status MatrixDiagShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape in, c.WithRankAtLeast(0, 1));
  Band band;
  SLUICE_ASSIGN_OR_RETURN(const bool known, KnownBand(c, 1, &band));
  if (!known || !in.rank_known()) return OkStatus();
  SLUICE_ASSIGN_OR_RETURN(const int batch, PackedBatchRank(in, band));
  int64_t rows = -1, columns = -1;
  bool sized = in.dim(in.rank() - 1) >= 0;
  if (c.num_inputs() > 1) {
    const std::optional<int64_t> r = c.ConstantInt(2), n = c.ConstantInt(3);
    sized &= r.has_value() && n.has_value();
    rows = r.value_or(-1);
    columns = n.value_or(-1);
  }
  if (sized)
    SLUICE_RETURN_IF_ERROR(
        CompleteSize(band, in.dim(in.rank() - 1), &rows, &columns));
  c.set_output(
      0, array::JoinShapes(array::SubShape(in, 0, batch), {rows, columns}));
  return OkStatus();
}

// The shape of the packed diagonals of matrices.
PartialShape PackedShape(const PartialShape& in, const Band& band) {
  const int rank = in.rank();
  PartialShape out = array::SubShape(in, 0, rank - 2);
  if (band.lower != band.upper) out.add_dim(band.count());
  const int64_t rows = in.dim(rank - 2), columns = in.dim(rank - 1);
  out.add_dim(rows < 0 || columns < 0
                  ? -1
                  : std::max<int64_t>(0, band.Longest(rows, columns)));
  return out;
}

Status MatrixDiagPartShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape in, c.WithRankAtLeast(0, 2));
  Band band;
  SLUICE_ASSIGN_OR_RETURN(const bool known, KnownBand(c, 1, &band));
  if (known && in.rank_known()) c.set_output(0, PackedShape(in, band));
  return OkStatus();
}

Status MatrixSetDiagShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape in, c.WithRankAtLeast(0, 2));
  Band band;
  SLUICE_ASSIGN_OR_RETURN(const bool known, KnownBand(c, 2, &band));
  if (known && in.rank_known() &&
      !PackedShape(in, band).CompatibleWith(c.input(1)))
    return InvalidArgument("diagonal: expected shape ",
                           PackedShape(in, band).ToString(), ", got ",
                           c.input(1).ToString());
  c.set_output(0, in);
  return OkStatus();
}

// ---- Gradients --------------------------------------------------------------

// "", "V2" or "V3", and the attributes that go with it.
std::string VersionOf(const Node& n) {
  const std::string& name = n.op_name();
  return name.substr(name.size() - 2, 1) == "V" ? name.substr(name.size() - 2)
                                                : "";
}
AttrMap AlignOf(const Node& n) {
  const AttrValue* align = n.FindAttr("align");
  return align == nullptr ? AttrMap{} : AttrMap{{"align", *align}};
}

Output DiagPart(const Node& n, Output matrix, Output k) {
  const std::string version = VersionOf(n);
  if (version.empty()) return Build("MatrixDiagPart", {matrix});
  return Build("MatrixDiagPart" + version,
               {matrix, k, ScalarOf(matrix.dtype(), 0)}, AlignOf(n));
}

Output SetDiag(const Node& n, Output matrix, Output diagonal, Output k) {
  const std::string version = VersionOf(n);
  if (version.empty()) return Build("MatrixSetDiag", {matrix, diagonal});
  return Build("MatrixSetDiag" + version, {matrix, diagonal, k}, AlignOf(n));
}

Status MatrixDiagGrad(GradContext& g) {
  g.grads[0] =
      DiagPart(*g.op, g.dy[0], g.op->num_inputs() > 1 ? g.input(1) : Output());
  return OkStatus();
}

Status MatrixDiagPartGrad(GradContext& g) {
  const Output k = g.op->num_inputs() > 1 ? g.input(1) : Output();
  g.grads[0] = SetDiag(*g.op, grad::ZerosLike(g.input(0)), g.dy[0], k);
  return OkStatus();
}

Status MatrixSetDiagGrad(GradContext& g) {
  const Output k = g.op->num_inputs() > 2 ? g.input(2) : Output();
  g.grads[0] = SetDiag(*g.op, g.dy[0], grad::ZerosLike(g.input(1)), k);
  g.grads[1] = DiagPart(*g.op, g.dy[0], k);
  return OkStatus();
}

// ---- Diag, DiagPart ---------------------------------------------------------

Status DiagKernel(KernelContext& ctx) {
  const Tensor& in = ctx.input(0);
  if (in.rank() < 1)
    return InvalidArgument("diagonal: expected rank at least 1, got a scalar");
  Dims dims = array::DimsOf(in.shape());
  dims.insert(dims.end(), in.shape().dims().begin(), in.shape().dims().end());
  SLUICE_ASSIGN_OR_RETURN(const Shape shape, array::MakeShape(dims));
  SLUICE_ASSIGN_OR_RETURN(
      Tensor out, array::MakeZeros(in.dtype(), shape, ctx.step().allocator));
  const int64_t n = in.num_elements();
  const int64_t count[] = {n}, from[] = {1}, to[] = {n + 1};
  array::CopyStrided(in.dtype(), count, in.raw(), from, out.raw(), to);
  ctx.set_output(0, std::move(out));
  return OkStatus();
}

Status DiagPartKernel(KernelContext& ctx) {
  const Tensor& in = ctx.input(0);
  const int half_rank = in.rank() / 2;
  bool square = in.rank() > 0 && in.rank() % 2 == 0;
  for (int i = 0; square && i < half_rank; ++i)
    square = in.dim(i) == in.dim(half_rank + i);
  if (!square)
    return InvalidArgument(
        "input: expected a shape that is another one twice, got ",
        in.shape().ToString());
  SLUICE_ASSIGN_OR_RETURN(
      const Shape shape,
      Shape::Make(in.shape().dims().first(static_cast<size_t>(half_rank))));
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, in.dtype(), shape));
  const int64_t n = shape.num_elements();
  const int64_t count[] = {n}, from[] = {n + 1}, to[] = {1};
  array::CopyStrided(in.dtype(), count, in.raw(), from, ctx.output(0).raw(),
                     to);
  return OkStatus();
}

Status DiagShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape in, c.WithRankAtLeast(0, 1));
  c.set_output(0, array::JoinShapes(in, in));
  return OkStatus();
}

Status DiagPartShape(ShapeContext& c) {
  const PartialShape& in = c.input(0);
  if (!in.rank_known()) return OkStatus();
  const int n = in.rank() / 2;
  if (in.rank() % 2 != 0 || n == 0)
    return InvalidArgument("input: expected an even rank above 0, got shape ",
                           in.ToString());
  SLUICE_ASSIGN_OR_RETURN(PartialShape out, array::SubShape(in, 0, n).MergeWith(
                                                array::SubShape(in, n, 2 * n)));
  c.set_output(0, std::move(out));
  return OkStatus();
}

Status DiagGrad(GradContext& g) {
  g.grads[0] = Build("DiagPart", {g.dy[0]});
  return OkStatus();
}
Status DiagPartGrad(GradContext& g) {
  g.grads[0] = Build("Diag", {g.dy[0]});
  return OkStatus();
}

// ---- Declarations -----------------------------------------------------------

SLUICE_OP(MatrixBandPart)
    .Input("input: T")
    .Input("num_lower: Tindex")
    .Input("num_upper: Tindex")
    .Output("band: T")
    .Attr("T: type")
    .Attr("Tindex: {int32, int64} = DT_INT64")
    .Shape(BandPartShape)
    .Kernel(Cpu(BandPartKernel, true))
    .Grad(BandPartGrad)
    .Sample({{.shape = {2, 3, 4}},
             {.shape = {}, .values = {1}},
             {.shape = {}, .values = {-1}}})
    .Doc("Matrices with everything outside of a band set to zero.")
    .Family("array");

SLUICE_OP(MatrixDiag)
    .Input("diagonal: T")
    .Output("output: T")
    .Attr("T: type")
    .Shape(MatrixDiagShape)
    .Kernel(CpuState<MatrixDiagKernel>(true))
    .Grad(MatrixDiagGrad)
    .Sample({{.shape = {2, 3}}})
    .Doc("Square matrices with the given diagonals, else zero.")
    .Family("array");

#define SLUICE_MATRIX_DIAG(Name)                                        \
  SLUICE_OP(Name)                                                       \
      .Input("diagonal: T")                                             \
      .Input("k: int32")                                                \
      .Input("num_rows: int32")                                         \
      .Input("num_cols: int32")                                         \
      .Input("padding_value: T")                                        \
      .Output("output: T")                                              \
      .Attr("T: type")                                                  \
      .Shape(MatrixDiagShape)                                           \
      .Kernel(CpuState<MatrixDiagKernel>(true))                         \
      .Grad(MatrixDiagGrad)                                             \
      .Sample({{.shape = {2, 2, 3}},                                    \
               {.shape = {2}, .values = {-1, 0}},                       \
               {.shape = {}, .values = {-1}},                           \
               {.shape = {}, .values = {-1}},                           \
               {.shape = {}, .values = {0}}})                           \
      .Doc("Matrices with the given bands of diagonals, else padding.") \
      .Family("array")
#define SLUICE_ALIGN                                                       \
  Attr(                                                                    \
      "align: {'LEFT_RIGHT', 'RIGHT_LEFT', 'LEFT_LEFT', 'RIGHT_RIGHT'} = " \
      "'RIGHT_LEFT'")

SLUICE_MATRIX_DIAG(MatrixDiagV2);
SLUICE_MATRIX_DIAG(MatrixDiagV3).SLUICE_ALIGN;
#undef SLUICE_MATRIX_DIAG

SLUICE_OP(MatrixDiagPart)
    .Input("input: T")
    .Output("diagonal: T")
    .Attr("T: type")
    .Shape(MatrixDiagPartShape)
    .Kernel(CpuState<MatrixDiagPartKernel>(true))
    .Grad(MatrixDiagPartGrad)
    .Sample({{.shape = {2, 3, 4}}})
    .Doc("The main diagonals of matrices.")
    .Family("array");

#define SLUICE_MATRIX_DIAG_PART(Name)                               \
  SLUICE_OP(Name)                                                   \
      .Input("input: T")                                            \
      .Input("k: int32")                                            \
      .Input("padding_value: T")                                    \
      .Output("diagonal: T")                                        \
      .Attr("T: type")                                              \
      .Shape(MatrixDiagPartShape)                                   \
      .Kernel(CpuState<MatrixDiagPartKernel>(true))                 \
      .Grad(MatrixDiagPartGrad)                                     \
      .Sample({{.shape = {2, 3, 4}},                                \
               {.shape = {2}, .values = {-1, 2}},                   \
               {.shape = {}, .values = {0}}})                       \
      .Doc("Bands of diagonals of matrices, padded to one length.") \
      .Family("array")

SLUICE_MATRIX_DIAG_PART(MatrixDiagPartV2);
SLUICE_MATRIX_DIAG_PART(MatrixDiagPartV3).SLUICE_ALIGN;
#undef SLUICE_MATRIX_DIAG_PART

SLUICE_OP(MatrixSetDiag)
    .Input("input: T")
    .Input("diagonal: T")
    .Output("output: T")
    .Attr("T: type")
    .Shape(MatrixSetDiagShape)
    .Kernel(CpuState<MatrixSetDiagKernel>(true))
    .Grad(MatrixSetDiagGrad)
    .Sample({{.shape = {2, 3, 4}}, {.shape = {2, 3}}})
    .Doc("Matrices with the main diagonal replaced.")
    .Family("array");

#define SLUICE_MATRIX_SET_DIAG(Name)                      \
  SLUICE_OP(Name)                                         \
      .Input("input: T")                                  \
      .Input("diagonal: T")                               \
      .Input("k: int32")                                  \
      .Output("output: T")                                \
      .Attr("T: type")                                    \
      .Shape(MatrixSetDiagShape)                          \
      .Kernel(CpuState<MatrixSetDiagKernel>(true))        \
      .Grad(MatrixSetDiagGrad)                            \
      .Sample({{.shape = {2, 3, 4}},                      \
               {.shape = {2, 2, 3}},                      \
               {.shape = {2}, .values = {0, 1}}})         \
      .Doc("Matrices with a band of diagonals replaced.") \
      .Family("array")

SLUICE_MATRIX_SET_DIAG(MatrixSetDiagV2);
SLUICE_MATRIX_SET_DIAG(MatrixSetDiagV3).SLUICE_ALIGN;
#undef SLUICE_MATRIX_SET_DIAG
#undef SLUICE_ALIGN

SLUICE_OP(Diag)
    .Input("diagonal: T")
    .Output("output: T")
    .Attr(
        "T: {bfloat16, half, float, double, int32, int64, complex64, "
        "complex128}")
    .Shape(DiagShape)
    .Kernel(Cpu(DiagKernel, true))
    .Grad(DiagGrad)
    .Sample({{.shape = {2, 3}}})
    .Doc("A tensor of twice the rank with the input as its diagonal.")
    .Family("array");

SLUICE_OP(DiagPart)
    .Input("input: T")
    .Output("diagonal: T")
    .Attr(
        "T: {bfloat16, half, float, double, int32, int64, complex64, "
        "complex128}")
    .Shape(DiagPartShape)
    .Kernel(Cpu(DiagPartKernel, true))
    .Grad(DiagPartGrad)
    .Sample({{.shape = {2, 3, 2, 3}}})
    .Doc("The diagonal of a tensor whose shape is another one twice.")
    .Family("array");

}  // namespace
}  // namespace sluice
