// Rows of tables by id: embeddings of words, users or other things of which
// there are many.
//
//   PartitionedVar table =
//       GetPartitionedVariable("table", {50000, 64}, FixedSizePartitioner(4));
//   Output rows = EmbeddingLookup(table, words);  // [batch, 64]
//   // Each example has several ids, as a sparse matrix; their mean:
//   Output means = EmbeddingLookupSparse(table, {indices, tags, sizes});
//
// Rows are gathered from the variable in place, on the device or in the process
// that holds it: only ids and rows travel. The gradient is that of these rows,
// and optimizers update them and no others, so that a step costs the same
// whatever the size of the table is.
#ifndef SLUICE_CLIENT_NN_EMBEDDING_H_
#define SLUICE_CLIENT_NN_EMBEDDING_H_

#include <optional>
#include <string>
#include <vector>

#include "client/partitioned_variables.h"
#include "client/variables.h"

namespace sluice {

// A table of rows: a variable of rank 1 or more, or its parts, which divide the
// first dimension. Null if one of them is. A light handle.
class EmbeddingTable {
 public:
  EmbeddingTable(const Var& table) : parts_{table} {}  // NOLINT
  EmbeddingTable(std::vector<Var> parts)               // NOLINT
      : parts_(std::move(parts)) {}
  EmbeddingTable(const PartitionedVar& table)  // NOLINT
      : parts_(table.parts()), name_(table.name()), axis_(table.axis()) {}

  const std::vector<Var>& parts() const { return parts_; }
  // Of the whole table; of tables that are not parts, that of the first.
  const std::string& name() const;
  // The rows of all parts; -1 if they are not known.
  int64_t rows() const;
  int axis() const { return axis_; }  // Which the parts divide.

 private:
  std::vector<Var> parts_;
  std::string name_;
  int axis_ = 0;
};

// Which part has the row of an id. If the number of parts does not divide the
// number of rows, the first parts have one row more.
enum class PartitionStrategy : uint8_t {
  // Id i is row i of the whole table. A checkpoint then fits whatever the
  // number of parts is.
  kDiv,
  // Id i is in part i % parts, which spreads the frequent ones if ids are
  // sorted by frequency. (TensorFlow's default.)
  kMod,
};

struct EmbeddingOptions {
  PartitionStrategy strategy = PartitionStrategy::kDiv;
  // Longer rows are scaled down to this Euclidean norm.
  std::optional<double> max_norm = {};
  std::string name = "embedding_lookup";
};

// The rows of the ids (int32 or int64, of any shape): [ids..., row...]. Without
// parts, or with parts of known sizes that the strategy gives. A step fails
// with InvalidArgument if an id is out of range: the error names the id and the
// table.
Output EmbeddingLookup(const EmbeddingTable& table, const Operand& ids,
                       const EmbeddingOptions& options = {},
                       SourceLoc loc = CallerLoc());

// A sparse tensor: int64 indices [n, rank] in row-major order, values [n] and
// the dense shape [rank].
struct SparseOutput {
  Output indices, values, dense_shape;
};

// How the rows of several ids, with weights w, become one.
enum class Combiner : uint8_t {
  kMean,   // sum(w * row) / sum(w)
  kSum,    // sum(w * row)
  kSqrtN,  // sum(w * row) / sqrt(sum(w * w))
};

struct EmbeddingSparseOptions {
  Combiner combiner = Combiner::kMean;
  PartitionStrategy strategy = PartitionStrategy::kDiv;
  std::optional<double> max_norm = {};
  std::string name = "embedding_lookup_sparse";
};

// For each row of the sparse matrix of ids, the combined rows of the table:
// [rows, row...]. The weights are sparse as the ids are; without them each is
// 1. There must be an id in each row of the matrix: an empty row gives zeros,
// and empty rows at the end are missing (SafeEmbeddingLookupSparse). Half and
// bfloat16 tables give float. Equivalent to tf.nn.embedding_lookup_sparse.
Output EmbeddingLookupSparse(const EmbeddingTable& table,
                             const SparseOutput& ids,
                             const std::optional<SparseOutput>& weights = {},
                             const EmbeddingSparseOptions& options = {},
                             SourceLoc loc = CallerLoc());

struct SafeEmbeddingOptions {
  Combiner combiner = Combiner::kMean;
  PartitionStrategy strategy = PartitionStrategy::kDiv;
  std::optional<double> max_norm = {};
  // Whose row an empty row becomes; none: zeros.
  std::optional<int64_t> default_id = {};
  std::string name = "embedding_lookup";
};

// The same for any data: ids below 0 are dropped, and so are ids whose weight
// is not positive, unless the combiner is a sum. The sparse ids may have more
// than two dimensions: [d0, ..., dn, row...] of ids [d0, ..., dn, any].
// Equivalent to tf.nn.safe_embedding_lookup_sparse.
Output SafeEmbeddingLookupSparse(
    const EmbeddingTable& table, const SparseOutput& ids,
    const std::optional<SparseOutput>& weights = {},
    const SafeEmbeddingOptions& options = {}, SourceLoc loc = CallerLoc());

}  // namespace sluice

#endif  // SLUICE_CLIENT_NN_EMBEDDING_H_
