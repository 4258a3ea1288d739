#include "client/nn/embedding.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "client/nn/clip_gradients.h"
#include "client/nn/table_parts.h"
#include "client/operators.h"
#include "client/types_and_shapes.h"
#include "graph/device_scope.h"
#include "graph/exact_line.h"
#include "graph/graph.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

// How the row in one part follows from an id, for errors, which name the id:
// id = row * scale + offset.
struct IdsOfPart {
  int64_t scale = 1, offset = 0;
};

// The rows of one part, read on the part's device. The attributes tell the
// kernel whose rows they are (ops/common/gather.h).
Output GatherPart(const Var& part, const Output& rows,
                  const EmbeddingTable& table, const IdsOfPart& ids,
                  const std::string& name) {
  const AttrMap of_table = {{"_table", table.name()},
                            {"_table_rows", table.rows()},
                            {"_id_scale", ids.scale},
                            {"_id_offset", ids.offset}};
  const NoDeviceScope none;
  const DeviceScope same_device(part.handle().node->device());
  AttrMap attrs = of_table;
  if (!part.is_reference()) {
    attrs.emplace("dtype", part.dtype());
    return Build("ResourceGather", {part.handle(), rows}, std::move(attrs),
                 name, {});
  }
  return Build("GatherV2",
               {part.handle(), rows, Constant(int32_t{0}, SourceLoc{})},
               std::move(attrs), name, {});
}

// The rows of a vector of ids, from several parts.
Output GatherFromParts(const EmbeddingTable& table, const Output& ids,
                       PartitionStrategy strategy) {
  const std::vector<Var>& parts = table.parts();
  const auto count = static_cast<int64_t>(parts.size());
  const PlacesInParts places = FindInParts(ids, count, table.rows(), strategy);
  const std::vector<Output> wanted =
      ops::DynamicPartition(places.row, places.part, count);
  const std::vector<Output> where = ops::DynamicPartition(
      ops::Range(0, ops::Size(ids), 1), places.part, count);
  std::vector<Output> found;
  for (int64_t p = 0; p < count; ++p) {
    const auto at = static_cast<size_t>(p);
    const IdsOfPart own =
        strategy == PartitionStrategy::kMod
            ? IdsOfPart{count, p}
            : IdsOfPart{1, FirstOfPart(p, count, table.rows())};
    found.push_back(GatherPart(parts[at], wanted[at], table, own, ""));
  }
  return ops::ParallelDynamicStitch(where, found);
}

// Rows that are longer are scaled down; `rank` is that of the ids.
Output Clipped(const Output& rows, int rank, std::optional<double> max_norm) {
  if (!max_norm.has_value()) return rows;
  std::vector<int32_t> axes;
  for (int i = rank; i < rows.shape().rank(); ++i) axes.push_back(i);
  // (The rows of a vector are numbers, of which each is its own norm.)
  const Output clip = ScalarOf(rows.dtype(), *max_norm, {});
  if (axes.empty()) return ops::Maximum(-clip, ops::Minimum(rows, clip));
  return ClipByNorm(rows, clip, IntVector(axes), "", {});
}

// The shape of one row, as an int32 vector.
Output RowShape(const Var& part) {
  std::vector<int32_t> dims;
  const PartialShape shape = part.shape();
  for (int i = 1; i < shape.rank(); ++i)
    dims.push_back(static_cast<int32_t>(shape.dim(i)));
  return IntVector(dims);
}

Output Fail(const EmbeddingTable& table, const Status& s, SourceLoc loc) {
  Graph& g = CurrentGraph();
  for (const Var& v : table.parts()) {
    if (v.valid()) continue;
    g.PropagateFailure(v.handle(), WithLine(s, loc));
    return g.Failure();
  }
  return BuildError(s, loc);
}

Output Lookup(const EmbeddingTable& table, const Output& ids,
              PartitionStrategy strategy, std::optional<double> max_norm,
              const std::string& name) {
  const std::vector<Var>& parts = table.parts();
  const bool ranks_known =
      ids.shape().rank_known() && parts[0].shape().rank_known();
  if (parts.size() == 1 && (ranks_known || !max_norm.has_value())) {
    const Output rows = GatherPart(parts[0], ids, table, {}, name);
    if (!rows.valid()) return rows;
    return Clipped(rows, ids.shape().rank(), max_norm);
  }
  // Several parts give the rows of a vector of ids.
  const bool vector = ids.shape().rank() == 1;
  const Output flat = vector ? ids : ops::Reshape(ids, {-1});
  Output found =
      Clipped(parts.size() == 1 ? GatherPart(parts[0], flat, table, {}, "")
                                : GatherFromParts(table, flat, strategy),
              1, max_norm);
  if (!vector)
    found = ops::Reshape(
        found, ops::ConcatV2({ops::Shape(ids), RowShape(parts[0])}, 0));
  if (!ids.shape().rank_known() || !found.valid()) return found;
  PartialShape shape = ids.shape();
  for (int i = 1; i < parts[0].shape().rank(); ++i)
    shape.add_dim(parts[0].shape().dim(i));
  return Shaped(found, shape, {});
}

// Weights as a matrix or tensor that scales rows.
Output Wide(const Output& weights, const Output& rows) {
  Output wide = weights;
  for (int i = 1; i < rows.shape().rank(); ++i) wide = ops::ExpandDims(wide, i);
  return wide;
}

Status CheckSparse(const SparseOutput& sparse, const char* what) {
  if (sparse.indices.valid() && sparse.values.valid() &&
      sparse.dense_shape.valid())
    return OkStatus();
  return InvalidArgument(what, ": expected indices, values and a shape, got ",
                         !sparse.indices.valid()  ? "no indices"
                         : !sparse.values.valid() ? "no values"
                                                  : "no shape");
}

Output FailSparse(const SparseOutput& sparse, const Status& s, SourceLoc loc) {
  Graph& g = CurrentGraph();
  for (const Output& o : {sparse.indices, sparse.values, sparse.dense_shape}) {
    if (o.valid()) continue;
    g.PropagateFailure(o, WithLine(s, loc));
    break;
  }
  return g.Failure();
}

// The entries whose position is in `kept`, a vector.
SparseOutput Entries(const SparseOutput& of, const Output& kept) {
  return {ops::GatherV2(of.indices, kept, 0), ops::GatherV2(of.values, kept, 0),
          of.dense_shape};
}

}  // namespace

const std::string& EmbeddingTable::name() const {
  static const std::string* const kNone = new std::string();
  if (!name_.empty()) return name_;
  return parts_.empty() ? *kNone : parts_[0].name();
}

int64_t EmbeddingTable::rows() const {
  int64_t all = 0;
  for (const Var& p : parts_) {
    const int64_t own = p.shape().dim(0);
    if (own < 0) return -1;
    all += own;
  }
  return all;
}

Status CheckTable(const EmbeddingTable& table) {
  const std::vector<Var>& parts = table.parts();
  if (parts.empty())
    return InvalidArgument("table: expected a variable, got none");
  for (const Var& p : parts)
    if (!p.valid())
      return InvalidArgument("table: expected variables, got none");
  if (table.axis() != 0)
    return InvalidArgument("table '", table.name(),
                           "': expected parts along dimension 0, got ",
                           table.axis());
  for (const Var& p : parts) {
    const PartialShape shape = p.shape();
    if (shape.rank() == 0)
      return InvalidArgument("table '", p.name(),
                             "': expected rows, got a scalar");
    if (parts.size() == 1) continue;
    PartialShape row = shape, first = parts[0].shape();
    if (!shape.fully_known())
      return InvalidArgument("table '", table.name(),
                             "': expected parts of known shape, got '",
                             p.name(), "' ", shape.ToString());
    row.set_dim(0, 0);
    first.set_dim(0, 0);
    if (!(row == first) || p.dtype() != parts[0].dtype())
      return InvalidArgument("table '", table.name(),
                             "': expected parts with rows as those of '",
                             parts[0].name(), "' ", DTypeName(parts[0].dtype()),
                             parts[0].shape().ToString(), ", got '", p.name(),
                             "' ", DTypeName(p.dtype()), shape.ToString());
  }
  const auto count = static_cast<int64_t>(parts.size());
  for (int64_t i = 0; count > 1 && i < count; ++i) {
    const Var& p = parts[static_cast<size_t>(i)];
    const int64_t want = FirstOfPart(i + 1, count, table.rows()) -
                         FirstOfPart(i, count, table.rows());
    if (p.shape().dim(0) != want)
      return InvalidArgument("table '", table.name(), "': expected ", want,
                             " of ", table.rows(), " rows in part ", i,
                             ", got ", p.shape().dim(0), " in '", p.name(),
                             "'");
  }
  return OkStatus();
}

Status CheckIds(const Output& ids, const char* what) {
  const DType t = RemoveRef(ids.dtype());
  if (t == DType::kInt32 || t == DType::kInt64) return OkStatus();
  return InvalidArgument(what, ": expected type int32 or int64, got ",
                         DTypeName(t));
}

Output IdsForRows(const Output& ids, int64_t rows) {
  return rows > std::numeric_limits<int32_t>::max() ? InType(ids, DType::kInt64)
                                                    : ids;
}

int64_t FirstOfPart(int64_t part, int64_t parts, int64_t rows) {
  return part * (rows / parts) + std::min(part, rows % parts);
}

PlacesInParts FindInParts(const Output& given, int64_t parts, int64_t rows,
                          PartitionStrategy strategy) {
  const Output ids = IdsForRows(given, rows);
  const auto n = static_cast<long long>(parts);
  if (strategy == PartitionStrategy::kMod)
    return {ops::Cast(ops::FloorMod(ids, n), DType::kInt32),
            ops::FloorDiv(ids, n)};
  const long long each = rows / parts, more = rows % parts;
  // (Ids out of range are in the first or last part, which reports them.)
  const auto within = [&](const Output& part) {
    return ops::Maximum(ops::Minimum(part, n - 1), 0);
  };
  if (more == 0) {
    const Output part = within(ops::FloorDiv(ids, std::max(each, 1LL)));
    return {ops::Cast(part, DType::kInt32), ids - part * each};
  }
  const Output part =
      within(ops::Maximum(ops::FloorDiv(ids, each + 1),
                          ops::FloorDiv(ids - more, std::max(each, 1LL))));
  return {ops::Cast(part, DType::kInt32),
          ids - (part * each + ops::Minimum(part, more))};
}

Output EmbeddingLookup(const EmbeddingTable& table, const Operand& ids,
                       const EmbeddingOptions& options, SourceLoc loc) {
  const AtLine at(loc);
  if (const Status s = CheckTable(table); !s.ok()) return Fail(table, s, loc);
  const Output which = ids.Get(DType::kInt32);
  if (!which.valid()) return which;
  if (const Status s = CheckIds(which, "ids"); !s.ok())
    return Fail(table, s, loc);
  if (table.parts().size() == 1 && !options.max_norm.has_value())
    return Lookup(table, which, options.strategy, {}, options.name);
  const NameScope scope(options.name);
  return Lookup(table, which, options.strategy, options.max_norm, "");
}

Output EmbeddingLookupSparse(const EmbeddingTable& table,
                             const SparseOutput& ids,
                             const std::optional<SparseOutput>& weights,
                             const EmbeddingSparseOptions& options,
                             SourceLoc loc) {
  const AtLine at(loc);
  if (const Status s = CheckTable(table); !s.ok()) return Fail(table, s, loc);
  if (const Status s = CheckSparse(ids, "ids"); !s.ok())
    return FailSparse(ids, s, loc);
  if (const Status s = CheckIds(ids.values, "ids"); !s.ok())
    return Fail(table, s, loc);
  const NameScope scope(options.name);
  const Output rows_of = ops::Squeeze(ops::Slice(ids.indices, {0, 0}, {-1, 1}),
                                      {.squeeze_dims = {1}});
  const Output segments = ops::Cast(rows_of, DType::kInt32);
  if (!segments.valid()) return segments;
  const auto widened = [](const Output& rows) {
    return rows.valid() && (rows.dtype() == DType::kHalf ||
                            rows.dtype() == DType::kBfloat16)
               ? ops::Cast(rows, DType::kFloat)
               : rows;
  };
  if (!weights.has_value()) {
    const auto distinct = ops::Unique(ids.values);
    const Output rows = widened(
        Lookup(table, distinct.y, options.strategy, options.max_norm, ""));
    switch (options.combiner) {
      case Combiner::kMean:
        return ops::SparseSegmentMean(rows, distinct.idx, segments);
      case Combiner::kSum:
        return ops::SparseSegmentSum(rows, distinct.idx, segments);
      case Combiner::kSqrtN:
        return ops::SparseSegmentSqrtN(rows, distinct.idx, segments);
    }
    return BuildError(InvalidArgument("combiner: expected mean, sum or sqrtn, "
                                      "got another value"),
                      loc);
  }
  if (const Status s = CheckSparse(*weights, "weights"); !s.ok())
    return FailSparse(*weights, s, loc);
  const Output rows = widened(
      Lookup(table, ids.values, options.strategy, options.max_norm, ""));
  if (!rows.valid()) return rows;
  const Output scale = Wide(InType(weights->values, rows.dtype()), rows);
  const Output total = ops::SegmentSum(rows * scale, segments);
  switch (options.combiner) {
    case Combiner::kMean:
      return ops::DivNoNan(total, ops::SegmentSum(scale, segments));
    case Combiner::kSum:
      return total;
    case Combiner::kSqrtN:
      return ops::DivNoNan(
          total, ops::Sqrt(ops::SegmentSum(ops::Square(scale), segments)));
  }
  return BuildError(InvalidArgument("combiner: expected mean, sum or sqrtn, "
                                    "got another value"),
                    loc);
}

Output SafeEmbeddingLookupSparse(const EmbeddingTable& table,
                                 const SparseOutput& given,
                                 const std::optional<SparseOutput>& weights,
                                 const SafeEmbeddingOptions& options,
                                 SourceLoc loc) {
  const AtLine at(loc);
  if (const Status s = CheckTable(table); !s.ok()) return Fail(table, s, loc);
  if (const Status s = CheckSparse(given, "ids"); !s.ok())
    return FailSparse(given, s, loc);
  if (weights.has_value())
    if (const Status s = CheckSparse(*weights, "weights"); !s.ok())
      return FailSparse(*weights, s, loc);
  const NameScope scope(options.name);
  // As a matrix: all dimensions but the last are its rows.
  const Output outer =
      ops::Slice(given.dense_shape, {0},
                 ops::ExpandDims(ops::Size(given.dense_shape) - 1, 0));
  const Output last =
      ops::StridedSlice(given.dense_shape, {-1}, {0}, {1}, {.end_mask = 1});
  const auto matrix = ops::SparseReshape(
      given.indices, given.dense_shape,
      ops::ConcatV2({ops::ExpandDims(ops::Prod(outer, 0), 0), last}, 0));
  const SparseOutput ids = {matrix.output_indices, given.values,
                            matrix.output_shape};
  Output keep = ops::GreaterEqual(ids.values, 0);
  if (weights.has_value() && options.combiner != Combiner::kSum)
    keep = keep && ops::Greater(weights->values, 0);
  const Output kept = ops::Reshape(ops::Where(keep), {-1});
  const auto filled = [&](const SparseOutput& of, const Operand& value,
                          Output* empty) -> SparseOutput {
    const SparseOutput some = Entries(of, kept);
    const auto all = ops::SparseFillEmptyRows(some.indices, some.values,
                                              some.dense_shape, value);
    if (empty != nullptr) *empty = all.empty_row_indicator;
    return {all.output_indices, all.output_values, some.dense_shape};
  };
  Output empty;
  if (!ids.values.valid()) return ids.values;
  const Output instead =
      ScalarOf(ids.values.dtype(),
               static_cast<double>(options.default_id.value_or(0)), loc);
  const SparseOutput whole = filled(ids, instead, &empty);
  std::optional<SparseOutput> whole_weights;
  if (weights.has_value())
    whole_weights =
        filled({ids.indices, weights->values, ids.dense_shape}, 1.0f, nullptr);
  Output rows = EmbeddingLookupSparse(table, whole, whole_weights,
                                      {.combiner = options.combiner,
                                       .strategy = options.strategy,
                                       .max_norm = options.max_norm},
                                      loc);
  if (!rows.valid()) return rows;
  if (!options.default_id.has_value())
    rows = ops::SelectV2(Wide(empty, rows), ops::ZerosLike(rows), rows);
  const PartialShape dims = given.dense_shape.shape();
  if (dims.dim(0) == 2) return rows;
  const Output row_dims = ops::Slice(ops::Shape(rows), {1}, {-1});
  return ops::Reshape(
      rows, ops::ConcatV2({ops::Cast(outer, DType::kInt32), row_dims}, 0));
}

}  // namespace sluice
