// Diagonals of matrices, a single one or a band: the matrices are the last two
// dimensions of a tensor.
#include <algorithm>

#include "exec/batching/batch_form.h"
#include "exec/core/kernel.h"
#include "graph/builder.h"
#include "graph/grad.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/elements.h"
#include "ops/common/grad_nodes.h"
#include "ops/common/in_place.h"

namespace sluice {
namespace {

using array::At;
using array::IntAt;

// ---- MatrixDiag and related ops ---------------------------------------------

// Diagonals lower..upper of a matrix as rows of a packed tensor, the uppermost
// first, each padded to the length of the longest on its left or right. Version
// 1 supports only the main diagonal; version 2 pads on the right.
struct Band {
  int64_t lower = 0, upper = 0;
  bool left_super = true, left_sub = true;  // Left-aligned.

  int64_t count() const { return upper - lower + 1; }
  static int64_t Length(int64_t d, int64_t rows, int64_t columns) {
    return std::min(rows + std::min<int64_t>(0, d),
                    columns - std::max<int64_t>(0, d));
  }
  int64_t Longest(int64_t rows, int64_t columns) const {
    return std::min(rows + std::min<int64_t>(upper, 0),
                    columns - std::max<int64_t>(lower, 0));
  }
  // The offset of diagonal d within its packed row.
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

// The minimum number of rows and columns of matrices with such diagonals.
Result<int64_t> LeastRows(const Band& band, int64_t longest) {
  return array::AddDims(longest, std::max<int64_t>(0, -band.upper));
}
Result<int64_t> LeastColumns(const Band& band, int64_t longest) {
  return array::AddDims(longest, std::max<int64_t>(0, band.lower));
}

// Completes the sizes of the matrices with the packed diagonals. -1 means the
// minimum.
Status CompleteSize(const Band& band, int64_t longest, int64_t* rows,
                    int64_t* columns) {
  SLUICE_ASSIGN_OR_RETURN(const int64_t least_rows, LeastRows(band, longest));
  SLUICE_ASSIGN_OR_RETURN(const int64_t least_columns,
                          LeastColumns(band, longest));
  if (*rows == -1 && *columns == -1) {
    *rows = *columns = std::max(least_rows, least_columns);
    return OkStatus();
  }
  if (*rows == -1) *rows = least_rows;
  if (*columns == -1) *columns = least_columns;
  if (*rows < least_rows || *columns < least_columns ||
      (*rows != least_rows && *columns != least_columns))
    return InvalidArgument(
        "num_rows and num_cols: expected sizes at least as large as, and one "
        "equal to, ",
        least_rows, " and ", least_columns, ", got ", *rows, " and ", *columns);
  return OkStatus();
}

// The number of leading dimensions of the packed tensor; checks that it has one
// row per diagonal.
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
    SLUICE_ASSIGN_OR_RETURN(Tensor out, array::TakeToChange(ctx, 0));
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

// The value of k in input i, if known; version 1 has none.
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
  const int64_t longest = in.dim(in.rank() - 1);
  bool sized = longest >= 0;
  if (c.num_inputs() > 1) {
    const std::optional<int64_t> r = c.ConstantInt(2), n = c.ConstantInt(3);
    rows = r.value_or(-1);
    columns = n.value_or(-1);
    if (sized && r.has_value() != n.has_value()) {
      // A size above the minimum determines the other one, which is not known
      // yet.
      SLUICE_ASSIGN_OR_RETURN(
          const int64_t least,
          r ? LeastRows(band, longest) : LeastColumns(band, longest));
      const int64_t given = r.value_or(columns);
      sized = given != -1 && given != least;
    } else {
      sized &= r.has_value();
    }
  }
  if (sized)
    SLUICE_RETURN_IF_ERROR(CompleteSize(band, longest, &rows, &columns));
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
  if (!known || !c.input(1).rank_known()) return OkStatus();
  // Both have the same batch dimensions.
  SLUICE_ASSIGN_OR_RETURN(const int batch, PackedBatchRank(c.input(1), band));
  SLUICE_ASSIGN_OR_RETURN(
      const PartialShape both,
      in.MergeWith(
          array::JoinShapes(array::SubShape(c.input(1), 0, batch), {-1, -1})));
  c.set_output(0, both);
  return OkStatus();
}

// ---- Gradients --------------------------------------------------------------

// The version suffix "", "V2" or "V3", and its attributes.
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

// ---- Declarations -----------------------------------------------------------

SLUICE_OP(MatrixDiag)
    .Input("diagonal: T")
    .Output("output: T")
    .Attr("T: type")
    .Shape(MatrixDiagShape)
    .Kernel(CpuState<MatrixDiagKernel>(true))
    .Grad(MatrixDiagGrad)
    .Sample({{.shape = {2, 3}}})
    .Doc("Builds square matrices with the given diagonals and zeros elsewhere.")
    .Family("array");

#define SLUICE_MATRIX_DIAG(Name)                                           \
  SLUICE_OP(Name)                                                          \
      .Input("diagonal: T")                                                \
      .Input("k: int32")                                                   \
      .Input("num_rows: int32")                                            \
      .Input("num_cols: int32")                                            \
      .Input("padding_value: T")                                           \
      .Output("output: T")                                                 \
      .Attr("T: type")                                                     \
      .Shape(MatrixDiagShape)                                              \
      .Kernel(CpuState<MatrixDiagKernel>(true))                            \
      .Grad(MatrixDiagGrad)                                                \
      .Sample({{.shape = {2, 2, 3}},                                       \
               {.shape = {2}, .values = {-1, 0}},                          \
               {.shape = {}, .values = {-1}},                              \
               {.shape = {}, .values = {-1}},                              \
               {.shape = {}, .values = {0}}})                              \
      .Doc(                                                                \
          "Builds matrices with the given bands of diagonals and padding " \
          "elsewhere.")                                                    \
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
    .Doc("Returns the main diagonals of matrices.")
    .Family("array");

#define SLUICE_MATRIX_DIAG_PART(Name)                                       \
  SLUICE_OP(Name)                                                           \
      .Input("input: T")                                                    \
      .Input("k: int32")                                                    \
      .Input("padding_value: T")                                            \
      .Output("diagonal: T")                                                \
      .Attr("T: type")                                                      \
      .Shape(MatrixDiagPartShape)                                           \
      .Kernel(CpuState<MatrixDiagPartKernel>(true))                         \
      .Grad(MatrixDiagPartGrad)                                             \
      .Sample({{.shape = {2, 3, 4}},                                        \
               {.shape = {2}, .values = {-1, 2}},                           \
               {.shape = {}, .values = {0}}})                               \
      .Doc("Returns bands of diagonals of matrices, padded to one length.") \
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
    .Doc("Replaces the main diagonals of matrices.")
    .Family("array");

#define SLUICE_MATRIX_SET_DIAG(Name)                    \
  SLUICE_OP(Name)                                       \
      .Input("input: T")                                \
      .Input("diagonal: T")                             \
      .Input("k: int32")                                \
      .Output("output: T")                              \
      .Attr("T: type")                                  \
      .Shape(MatrixSetDiagShape)                        \
      .Kernel(CpuState<MatrixSetDiagKernel>(true))      \
      .Grad(MatrixSetDiagGrad)                          \
      .Sample({{.shape = {2, 3, 4}},                    \
               {.shape = {2, 2, 3}},                    \
               {.shape = {2}, .values = {0, 1}}})       \
      .Doc("Replaces a band of diagonals of matrices.") \
      .Family("array")

SLUICE_MATRIX_SET_DIAG(MatrixSetDiagV2);
SLUICE_MATRIX_SET_DIAG(MatrixSetDiagV3).SLUICE_ALIGN;
#undef SLUICE_MATRIX_SET_DIAG
#undef SLUICE_ALIGN

const BatchFormRegistrar matrix_diagonal_batches[] = {
    {"MatrixDiag", PartByPart<1>},
    {"MatrixDiagPart", PartByPart<2>},
    {"MatrixSetDiag", PartByPart<1>},
};

}  // namespace
}  // namespace sluice
