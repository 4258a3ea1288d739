// Recorded cases: a folder with a graph, feeds and what TensorFlow answered.
#ifndef SLUICE_TOOLS_SLUICE_REPLAY_CASE_H_
#define SLUICE_TOOLS_SLUICE_REPLAY_CASE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "tensor/tensor.h"

namespace sluice::cli {

// A recorded array: how it is stored, what it is, how close to it is enough.
struct ArrayDesc {
  std::string key;
  DType dtype = DType::kInvalid;
  Shape shape;
  bool exact = true;  // Else within the tolerances.
  double rtol = 0, atol = 0;
};

struct FeedValue {
  enum Kind { kArray, kTmpPath, kCasePath } kind = kArray;
  ArrayDesc array;   // Of kArray.
  std::string path;  // Of the others: relative.
};

struct RunStep {
  std::vector<std::string> run;  // "x:0" is fetched, "x" is an operation.
  std::vector<std::pair<std::string, FeedValue>> feeds;
  std::vector<ArrayDesc> expect;  // Like `run`; no key: nothing to compare.
  std::string error;              // As TensorFlow's Python calls it; or empty.
  int64_t timeout_ms = 0;
};

struct CaseStep {
  enum Kind { kRun, kParallel, kPartial } kind = kRun;
  std::vector<RunStep> steps;  // One, or those of the other kinds.
  std::vector<std::string> setup_fetches, setup_feeds;  // Of kPartial.
};

struct RecordedCase {
  std::string dir, name;
  bool optional = false;
  int devices = 1;
  std::vector<std::string> graphs;  // graph.pb and alternatives to it.
  std::vector<CaseStep> steps;
  std::map<std::string, Tensor> feeds, expected;  // Arrays by key.
  std::vector<std::string> unsupported;           // Checks that we do not know.
};

// Reads a folder. Errors name the file and what is wrong in it.
Result<RecordedCase> LoadCase(const std::string& dir);

// The array of a description, out of the arrays of its file.
Result<Tensor> DecodeArray(const std::map<std::string, Tensor>& arrays,
                           const ArrayDesc& desc);

// "" if `got` is what was recorded, else what differs and by how much.
std::string Difference(const ArrayDesc& desc, const Tensor& got,
                       const Tensor& want);

// TensorFlow's Python class for a code: "InvalidArgumentError".
std::string PythonErrorName(StatusCode code);

}  // namespace sluice::cli

#endif  // SLUICE_TOOLS_SLUICE_REPLAY_CASE_H_
