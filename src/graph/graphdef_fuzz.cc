// Importing arbitrary bytes results in a valid graph or an error, and an
// imported graph can be exported and imported again.
//
// The first byte chooses: text ('T'), a TensorProto ('P'), else binary. Seeds
// are in tests/fuzz/graphdef_fuzz.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "graph/graph.h"
#include "graph/graphdef.h"
#include "graph/tensor_proto.h"

namespace sluice {
namespace {

// Small enough that no input exceeds the fuzzer's memory limit.
constexpr int64_t kExpansion = 1 << 20;

void Require(bool good, const char* what, const Status& s) {
  if (good) return;
  std::fprintf(stderr, "%s: %s\n", what, s.ToString().c_str());
  std::abort();
}

void FuzzTensor(std::string_view bytes) {
  TensorProtoLimits limits{kExpansion};
  const Result<Tensor> t = ParseTensorProto(bytes, &limits);
  if (!t.ok()) return;
  const Result<std::string> again = SerializeTensorProto(*t);
  Require(again.ok(), "an imported tensor is not exported", again.status());
  const Result<Tensor> back = ParseTensorProto(*again);
  Require(back.ok(), "an exported tensor is not imported", back.status());
  if (t->dtype() != DType::kVariant)
    Require(back->Identical(*t), "a tensor changed", OkStatus());
}

void FuzzGraph(std::string_view bytes) {
  ImportOptions options;
  options.tensor_limits.expansion_bytes = kExpansion;
  Graph g;
  if (!ImportGraphDef(bytes, g, options).ok()) return;
  const Result<std::vector<Node*>> order = TopologicalOrder(g);
  Require(order.ok(), "an imported graph has no order", order.status());
  const Result<std::string> exported = ExportGraphDef(g);
  Require(exported.ok(), "an imported graph is not exported",
          exported.status());
  Graph again;
  const Status s = ImportGraphDef(*exported, again, options);
  Require(s.ok(), "an exported graph is not imported", s);
  const Result<std::string> twice = ExportGraphDef(again);
  Require(twice.ok() && *twice == *exported, "an export is not stable",
          twice.status());
}

void Fuzz(std::string_view input) {
  if (input.empty()) return;
  const std::string_view rest = input.substr(1);
  if (input[0] == 'P') {
    FuzzTensor(rest);
  } else if (input[0] == 'T') {
    const Result<std::string> bytes = ParseTextGraphDef(rest);
    if (bytes.ok()) FuzzGraph(*bytes);
  } else {
    FuzzGraph(rest);
  }
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::Fuzz({reinterpret_cast<const char*>(data), size});
  return 0;
}
