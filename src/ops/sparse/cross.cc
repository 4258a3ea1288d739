// SparseCross: all combinations of the features of a row, one per column.
#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "graph/op_def.h"
#include "ops/common/fingerprint.h"
#include "ops/sparse/sparse_tensor.h"

namespace sluice {
namespace {

using sparse::Entries;

// The features of one column: row r has the elements [begin[r], begin[r + 1]).
struct CrossColumn {
  const Tensor* values = nullptr;
  std::vector<int64_t> begin;
};

class SparseCrossKernel {
 public:
  static Result<std::shared_ptr<SparseCrossKernel>> Make(const Node& n) {
    auto k = std::make_shared<SparseCrossKernel>();
    k->sparse_ = static_cast<int>(n.AttrOr<int64_t>("N", 0));
    k->buckets_ = static_cast<uint64_t>(n.AttrOr<int64_t>("num_buckets", 0));
    k->key_ = static_cast<uint64_t>(n.AttrOr<int64_t>("hash_key", 0));
    k->type_ = n.TypeAttr("out_type");
    // With internal_type string, integer features would not be hashed as
    // integers.
    if (n.TypeAttr("internal_type") == DType::kString)
      for (int i = k->sparse_; i < n.num_inputs(); ++i)
        if ((i < 2 * k->sparse_ || i >= 3 * k->sparse_) &&
            n.input_type(i) != DType::kString)
          return InvalidArgument(
              "internal_type: expected int64 where features are, got string");
    return k;
  }

  Status Run(KernelContext& ctx) const {
    int64_t rows = 0;
    std::vector<CrossColumn> columns;
    SLUICE_RETURN_IF_ERROR(ReadColumns(ctx, &rows, &columns));
    // The number of combinations of each row.
    constexpr int64_t kMax = int64_t{1} << 31;
    int64_t n = 0, most = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t many = CountOf(columns, r, kMax);
      if (many > kMax || n + many > kMax)
        return ResourceExhausted(
            "expected at most 2^31 combinations of features, got more");
      n += many;
      most = std::max(most, many);
    }
    SLUICE_RETURN_IF_ERROR(
        sparse::AllocateSparse(ctx, 0, n, type_, {rows, most}));
    int64_t* index = ctx.output(0).raw<int64_t>();
    int64_t at = 0;
    std::vector<int64_t> choice(columns.size());
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t many = CountOf(columns, r, kMax);
      for (size_t c = 0; c < columns.size(); ++c)
        choice[c] = columns[c].begin[static_cast<size_t>(r)];
      for (int64_t k = 0; k < many; ++k) {
        *index++ = r;
        *index++ = k;
        Put(columns, choice, at++, &ctx.output(1));
        // The last column changes fastest.
        for (size_t c = columns.size(); c-- > 0;) {
          if (++choice[c] < columns[c].begin[static_cast<size_t>(r) + 1]) break;
          choice[c] = columns[c].begin[static_cast<size_t>(r)];
        }
      }
    }
    return OkStatus();
  }

 private:
  Status ReadColumns(const KernelContext& ctx, int64_t* rows,
                     std::vector<CrossColumn>* columns) const {
    *rows = -1;
    const auto merge = [&](int64_t own) -> Status {
      if (*rows >= 0 && *rows != own)
        return InvalidArgument("expected ", *rows,
                               " rows in every column, got ", own);
      *rows = own;
      return OkStatus();
    };
    for (int i = 0; i < sparse_; ++i) {
      SLUICE_ASSIGN_OR_RETURN(
          const Entries e, sparse::View(ctx.input(i), &ctx.input(sparse_ + i),
                                        ctx.input(2 * sparse_ + i)));
      if (e.rank != 2)
        return InvalidArgument("shapes: expected rank 2, got ", e.rank);
      SLUICE_RETURN_IF_ERROR(merge(e.shape[0]));
      // Every column needs a list with one entry per row.
      constexpr int64_t kMaxRows = int64_t{1} << 24;
      if (e.shape[0] > kMaxRows)
        return InvalidArgument("shapes: expected at most ", kMaxRows,
                               " rows, got ", e.shape[0]);
      CrossColumn c;
      c.values = e.values;
      c.begin.assign(1, 0);
      for (int64_t k = 0; k < e.n; ++k) {
        const int64_t row = e.row(k)[0];
        if (row < static_cast<int64_t>(c.begin.size()) - 1 || row >= e.shape[0])
          return InvalidArgument("indices: expected rows in order, in [0, ",
                                 e.shape[0], "), got ", row);
        c.begin.resize(static_cast<size_t>(row) + 1, k);
      }
      c.begin.resize(static_cast<size_t>(e.shape[0]) + 1, e.n);
      columns->push_back(std::move(c));
    }
    for (int i = 3 * sparse_; i < ctx.num_inputs(); ++i) {
      const Tensor& t = ctx.input(i);
      if (t.rank() != 2)
        return InvalidArgument("dense_inputs: expected matrices, got shape ",
                               t.shape().ToString());
      SLUICE_RETURN_IF_ERROR(merge(t.dim(0)));
      CrossColumn c;
      c.values = &t;
      for (int64_t r = 0; r <= t.dim(0); ++r) c.begin.push_back(r * t.dim(1));
      columns->push_back(std::move(c));
    }
    if (columns->empty())
      return InvalidArgument("expected one column or more, got none");
    return OkStatus();
  }

  // Returns more than `most` if there are more.
  static int64_t CountOf(const std::vector<CrossColumn>& columns, int64_t row,
                         int64_t most) {
    const auto r = static_cast<size_t>(row);
    int64_t many = 1;
    bool none = false;
    for (const CrossColumn& c : columns) {
      const int64_t own = c.begin[r + 1] - c.begin[r];
      none = none || own == 0;
      if (many <= most && __builtin_mul_overflow(many, own, &many))
        many = std::numeric_limits<int64_t>::max();
    }
    return none ? 0 : many;
  }

  void Put(const std::vector<CrossColumn>& columns,
           const std::vector<int64_t>& choice, int64_t at, Tensor* out) const {
    if (type_ == DType::kString) {
      std::string& text = out->raw<std::string>()[at];
      for (size_t c = 0; c < columns.size(); ++c) {
        const Tensor& v = *columns[c].values;
        if (c > 0) text += "_X_";
        if (v.dtype() == DType::kString)
          text += v.raw<std::string>()[choice[c]];
        else
          absl::StrAppend(&text, v.raw<int64_t>()[choice[c]]);
      }
      return;
    }
    uint64_t hash = key_;
    for (size_t c = 0; c < columns.size(); ++c) {
      const Tensor& v = *columns[c].values;
      hash = FingerprintCat64(
          hash, v.dtype() == DType::kString
                    ? Fingerprint64(v.raw<std::string>()[choice[c]])
                    : static_cast<uint64_t>(v.raw<int64_t>()[choice[c]]));
    }
    const uint64_t most =
        static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    out->raw<int64_t>()[at] =
        static_cast<int64_t>(hash % (buckets_ > 0 ? buckets_ : most));
  }

  int sparse_ = 0;
  uint64_t buckets_ = 0, key_ = 0;
  DType type_ = DType::kInt64;
};

Status SparseCrossShape(ShapeContext& c) {
  c.set_output(0, PartialShape({-1, 2}));
  c.set_output(1, PartialShape({-1}));
  c.set_output(2, PartialShape({2}));
  return OkStatus();
}

SLUICE_OP(SparseCross)
    .Input("indices: N * int64")
    .Input("values: sparse_types")
    .Input("shapes: N * int64")
    .Input("dense_inputs: dense_types")
    .Output("output_indices: int64")
    .Output("output_values: out_type")
    .Output("output_shape: int64")
    .Attr("N: int >= 0")
    .Attr("hashed_output: bool")
    .Attr("num_buckets: int >= 0")
    .Attr("hash_key: int")
    .Attr("sparse_types: list({int64, string}) >= 0")
    .Attr("dense_types: list({int64, string}) >= 0")
    .Attr("out_type: {int64, string}")
    .Attr("internal_type: {int64, string}")
    .Family("sparse")
    .Shape(SparseCrossShape)
    .Kernel(CpuState<SparseCrossKernel>())
    .NoGradient("features are strings or integers")
    .Doc(
        "For each row, all combinations of one feature per column, as joined "
        "strings or as hashes.");

}  // namespace
}  // namespace sluice
