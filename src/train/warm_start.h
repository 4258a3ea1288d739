// Warm starts: variables that begin with values of a checkpoint, under other
// names or for another vocabulary.
//
//   Node* start = WarmStart("model/ckpt-100",
//                           {{.variable = w, .name = "old/w"}, {.variable =
//                           b}});
//   Status status = session.RunTargets({GlobalVariablesInitializer()});
//   if (status.ok()) status = session.RunTargets({start});
//
// (A Saver whose SaverOptions::variables have other names, and
// SaverOptions::reshape, restores whole models under other names and shapes.)
#ifndef SLUICE_TRAIN_WARM_START_H_
#define SLUICE_TRAIN_WARM_START_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/initializers.h"
#include "client/variables.h"

namespace sluice {

// The rows (or columns) of a matrix stand for the words of a vocabulary: the
// lines of a file, which are not those of the checkpoint's.
struct VocabularyChange {
  std::string new_vocabulary = {};  // The file.
  int64_t new_size = 0;             // How many lines of it count.
  // Rows behind those of the vocabulary, for words that are in no vocabulary.
  int64_t oov_rows = 0;
  std::string old_vocabulary = {};
  int64_t old_size = -1;  // -1: all lines.
  int axis = 0;           // 0: rows, 1: columns.
  // Makes the values of words that the checkpoint does not have; null: zeros.
  InitializerFn other_values = nullptr;
};

struct WarmStartVariable {
  Var variable = {};
  std::string name = {};  // In the checkpoint; by default, as savers name it.
  std::optional<VocabularyChange> vocabulary = std::nullopt;
};

// The value that a variable has in a checkpoint: `name`, or the part of it that
// `shape_and_slice` says (ParseShapeAndSlice; "": all). A step fails with
// NotFound or InvalidArgument if the checkpoint does not have it. Null, with
// the error in the graph, if a vocabulary is given and the variable is not a
// float matrix whose size is that of the vocabulary with `oov_rows`.
Output SavedValue(const std::string& checkpoint, const Var& variable,
                  const std::string& name,
                  const std::string& shape_and_slice = {},
                  const std::optional<VocabularyChange>& vocabulary = {},
                  SourceLoc loc = CallerLoc());

// A node that assigns them: run it after the initialisers. Parts of partitioned
// variables (PartOf) read their parts. Null, with the error in the graph, if
// one is null or as above.
Node* WarmStart(const std::string& checkpoint,
                const std::vector<WarmStartVariable>& variables,
                SourceLoc loc = CallerLoc());

}  // namespace sluice

#endif  // SLUICE_TRAIN_WARM_START_H_
