// Recorded cases: a folder with a graph, feeds and TensorFlow's results.
#ifndef SLUICE_TOOLS_SLUICE_REPLAY_CASE_H_
#define SLUICE_TOOLS_SLUICE_REPLAY_CASE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tensor/tensor.h"

namespace sluice::cli {

// A recorded array: its storage, type and shape, and the tolerances.
struct ArrayDesc {
  std::string key;
  DType dtype = DType::kInvalid;
  Shape shape;
  bool exact = true;  // Else within tolerances.
  double rtol = 0, atol = 0;
};

struct FeedValue {
  enum Kind { kArray, kTmpPath, kCasePath } kind = kArray;
  ArrayDesc array;   // For kArray.
  std::string path;  // For the others: relative.
};

struct RunStep {
  std::vector<std::string> run;  // "x:0" is fetched, "x" is an operation.
  std::vector<std::pair<std::string, FeedValue>> feeds;
  std::vector<ArrayDesc> expect;  // Like `run`; no key: not compared.
  std::string error;              // TensorFlow's Python class, or "".
  int64_t timeout_ms = 0;
};

struct CaseStep {
  enum Kind { kRun, kParallel, kPartial } kind = kRun;
  std::vector<RunStep> steps;  // One, or several for other kinds.
  std::vector<std::string> setup_fetches, setup_feeds;  // For kPartial.
};

// After a step, the checkpoint at a path in the scratch folder holds tensors
// that are equal to what another step is expected to fetch.
struct WrittenCheckpoint {
  std::string path;
  size_t after_step = 0, equals_step = 0;  // kRun steps of the case.
  std::vector<std::string> names;          // As many as that step's fetches.
};

// A saved model in the case's folder, to be run by a signature. It is fed what
// a step feeds, and computes what the step is expected to fetch.
struct RecordedModel {
  std::string dir, signature;
  std::vector<std::string> tags;
  size_t like_step = 0;  // A kRun step.
  // The signature's names, and the tensors of the step.
  std::map<std::string, std::string> inputs, outputs;
};

struct RecordedCase {
  std::string dir, name;
  bool optional = false;
  int devices = 1;
  std::vector<std::string> graphs;  // graph.pb and alternatives.
  std::vector<CaseStep> steps;
  std::map<std::string, Tensor> feeds, expected;  // Arrays by key.
  std::optional<WrittenCheckpoint> writes_checkpoint;
  std::optional<RecordedModel> saved_model;
};

// Reads a folder. Errors name the file and the mistake.
Result<RecordedCase> LoadCase(const std::string& dir);

// Decodes the described array from the arrays of its file.
Result<Tensor> DecodeArray(const std::map<std::string, Tensor>& arrays,
                           const ArrayDesc& desc);

// "" if `got` matches the recorded array, else the difference.
std::string Difference(const ArrayDesc& desc, const Tensor& got,
                       const Tensor& want);

// TensorFlow's Python class for a code, such as "InvalidArgumentError".
std::string PythonErrorName(StatusCode code);

}  // namespace sluice::cli

#endif  // SLUICE_TOOLS_SLUICE_REPLAY_CASE_H_
