#include "graph/shape_context.h"

#include <algorithm>

#include "base/without_throwing.h"
#include "graph/graph.h"

namespace sluice {

// ---- ShapeContext -----------------------------------------------------------

ShapeContext::ShapeContext(const Node& node)
    : node_(node), outputs_(static_cast<size_t>(node.num_outputs())) {}

Status ShapeContext::Infer() {
  const ShapeFn fn = node_.op().shape;
  if (fn == nullptr || node_.has_placeholders()) return OkStatus();
  SLUICE_RETURN_IF_ERROR(
      WithoutThrowing("shape function", [&] { return fn(*this); }));
  if (wrong_output_)
    return Internal("shape function: expected one of ", num_outputs(),
                    " outputs, got a shape of output ", *wrong_output_);
  return OkStatus();
}

int ShapeContext::producer_version() const {
  return node_.graph()->producer_version;
}

const PartialShape& ShapeContext::input(int i) const {
  static const PartialShape unknown;
  const Output& o = node_.input(i);
  return o.valid() ? o.shape()
                   : unknown;  // Null: a back edge that is not set yet.
}

const Tensor* ShapeContext::constant(int i) {
  // (Few shape functions ask.)
  if (constants_.empty()) constants_.resize(static_cast<size_t>(num_inputs()));
  if (static_cast<size_t>(i) >= constants_.size()) return nullptr;
  std::optional<Tensor>& slot = constants_[static_cast<size_t>(i)];
  // An invalid tensor means "evaluated, and unknown".
  if (!slot) slot = ConstantValue(node_.input(i)).value_or(Tensor());
  return slot->valid() ? &*slot : nullptr;
}

std::optional<int64_t> ShapeContext::ConstantInt(int i) {
  const Tensor* t = constant(i);
  if (t == nullptr || t->num_elements() != 1) return std::nullopt;
  if (t->dtype() == DType::kInt32) return t->raw_scalar<int32_t>();
  if (t->dtype() == DType::kInt64) return t->raw_scalar<int64_t>();
  return std::nullopt;
}

Result<PartialShape> ShapeContext::InputAsShape(int i) {
  return ConstantAsShape(node_.input(i));
}

PartialShape ShapeContext::ResourceShape(int i) {
  return VariableShape(node_.input(i));
}

DType ShapeContext::ResourceType(int i) {
  return VariableDType(node_.input(i));
}

Result<PartialShape> ShapeContext::WithRank(int i, int rank) const {
  const PartialShape& s = input(i);
  if (!s.rank_known()) return PartialShape::OfRank(rank);
  if (s.rank() != rank)
    return InvalidArgument("input ", i, ": expected rank ", rank,
                           ", got shape ", s.ToString());
  return s;
}

Result<PartialShape> ShapeContext::WithRankAtLeast(int i, int rank) const {
  const PartialShape& s = input(i);
  if (s.rank_known() && s.rank() < rank)
    return InvalidArgument("input ", i, ": expected rank at least ", rank,
                           ", got shape ", s.ToString());
  return s;
}

Result<PartialShape> ShapeContext::WithRankAtMost(int i, int rank) const {
  const PartialShape& s = input(i);
  if (s.rank_known() && s.rank() > rank)
    return InvalidArgument("input ", i, ": expected rank at most ", rank,
                           ", got shape ", s.ToString());
  return s;
}

// ---- Shape arithmetic -------------------------------------------------------

Result<int64_t> MergeDim(int64_t a, int64_t b) {
  if (a < 0) return b;
  if (b >= 0 && a != b)
    return InvalidArgument("dimensions: expected equal sizes, got ", a, " and ",
                           b);
  return a;
}

Result<int> CanonicalAxis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank)
    return InvalidArgument("axis: expected a value in [", -rank, ", ", rank,
                           "), got ", axis);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

Result<PartialShape> BroadcastShapes(const PartialShape& a,
                                     const PartialShape& b) {
  if (!a.rank_known() || !b.rank_known()) return PartialShape();
  if (a.rank() == 0) return b;
  if (b.rank() == 0) return a;
  const int rank = std::max(a.rank(), b.rank());
  PartialShape out = PartialShape::OfRank(rank);
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.rank()), ib = i - (rank - b.rank());
    const int64_t da = ia < 0 ? 1 : a.dim(ia), db = ib < 0 ? 1 : b.dim(ib);
    int64_t d;
    if (da == 1) {
      d = db;
    } else if (db == 1) {
      d = da;
    } else if (da >= 0 && db >= 0 && da != db) {
      return InvalidArgument(
          "broadcast: expected dimensions that are equal or 1", ", got shapes ",
          a.ToString(), " and ", b.ToString());
    } else {
      // An unknown one must be 1 or the known one; neither is 1 here.
      d = std::max(da, db);
    }
    out.set_dim(i, d);
  }
  return out;
}

Result<int64_t> WindowOutputSize(int64_t in, int64_t window, int64_t dilation,
                                 int64_t stride, std::string_view padding,
                                 int64_t* before, int64_t* after) {
  if (stride <= 0)
    return InvalidArgument("window: expected a stride > 0, got ", stride);
  if (dilation <= 0)
    return InvalidArgument("window: expected a dilation > 0, got ", dilation);
  const bool same = padding == "SAME";
  const bool explicit_padding = padding == "EXPLICIT";
  if (!same && !explicit_padding && padding != "VALID")
    return InvalidArgument(
        "padding: expected 'SAME', 'VALID' or 'EXPLICIT', got '",
        std::string(padding), "'");
  if (in < 0 || window < 0) return -1;
  if (window == 0)
    return InvalidArgument("window: expected a size > 0, got ", window);
  int64_t extent;  // Size of the dilated window.
  if (__builtin_mul_overflow(window - 1, dilation, &extent) ||
      __builtin_add_overflow(extent, 1, &extent))
    return InvalidArgument("window: expected a dilated size < 2^63, got ",
                           window, " dilated by ", dilation);
  int64_t padded = in;
  if (explicit_padding && before != nullptr && after != nullptr) {
    if (*before < 0 || *after < 0)
      return InvalidArgument("padding: expected amounts >= 0, got ", *before,
                             " and ", *after);
    if (__builtin_add_overflow(padded, *before, &padded) ||
        __builtin_add_overflow(padded, *after, &padded))
      return InvalidArgument("padding: expected a padded size < 2^63, got ", in,
                             " + ", *before, " + ", *after);
  }
  int64_t out, pad = 0;
  if (same) {
    out = in / stride + (in % stride != 0);
    int64_t covered = in;
    if (out > 0 && (__builtin_mul_overflow(out - 1, stride, &covered) ||
                    __builtin_add_overflow(covered, extent, &covered)))
      return InvalidArgument("window: expected a padded size < 2^63, got ",
                             window, " dilated by ", dilation, " on ", in);
    pad = std::max<int64_t>(0, covered - in);
  } else {
    // The window fits (padded - extent) / stride + 1 times, at least 0 times.
    if (padded < extent) {
      if (extent - padded > stride)
        return InvalidArgument("window: expected a size of at most ", padded,
                               " (the padded input), got ", extent);
      out = 0;
    } else {
      out = (padded - extent) / stride + 1;
    }
  }
  if (!explicit_padding) {
    if (before != nullptr) *before = pad / 2;
    if (after != nullptr) *after = pad - pad / 2;
  }
  return out;
}

// ---- Shared shape functions -------------------------------------------------

Status UnknownShape(ShapeContext&) { return OkStatus(); }

Status UnchangedShape(ShapeContext& c) {
  c.set_all_outputs(c.input(0));
  return OkStatus();
}

Status ScalarShape(ShapeContext& c) {
  c.set_all_outputs(PartialShape::Scalar());
  return OkStatus();
}

Status NoOutputs(ShapeContext&) { return OkStatus(); }

Status BroadcastBinaryShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape s,
                          BroadcastShapes(c.input(0), c.input(1)));
  c.set_output(0, std::move(s));
  return OkStatus();
}

Status MergeBothShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(PartialShape s, c.input(0).MergeWith(c.input(1)));
  c.set_all_outputs(s);
  return OkStatus();
}

Status ReductionShape(ShapeContext& c) {
  const PartialShape& in = c.input(0);
  const bool keep = c.node().BoolAttr("keep_dims");
  SLUICE_RETURN_IF_ERROR(c.WithRankAtMost(1, 1).status());
  const Tensor* axes = c.constant(1);
  if (axes == nullptr ||
      !(axes->dtype() == DType::kInt32 || axes->dtype() == DType::kInt64)) {
    if (keep && in.rank_known())
      c.set_output(0, PartialShape::OfRank(in.rank()));
    return OkStatus();
  }
  if (!in.rank_known()) return OkStatus();
  std::vector<bool> reduced(static_cast<size_t>(in.rank()), false);
  for (int64_t i = 0; i < axes->num_elements(); ++i) {
    const int64_t axis = axes->dtype() == DType::kInt32
                             ? axes->raw<int32_t>()[i]
                             : axes->raw<int64_t>()[i];
    SLUICE_ASSIGN_OR_RETURN(const int d, CanonicalAxis(axis, in.rank()));
    reduced[static_cast<size_t>(d)] = true;
  }
  PartialShape out = PartialShape::Scalar();
  for (int d = 0; d < in.rank(); ++d) {
    if (!reduced[static_cast<size_t>(d)])
      out.add_dim(in.dim(d));
    else if (keep)
      out.add_dim(1);
  }
  c.set_output(0, std::move(out));
  return OkStatus();
}

}  // namespace sluice
