// Importing arbitrary bytes as a meta graph results in a valid graph or an
// error, and what was imported can be exported and imported again.
//
// Seeds are in tests/fuzz/saved_model_fuzz.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "deploy/meta_graph.h"

namespace sluice {
namespace {

void Fuzz(std::string_view bytes) {
  // (Small enough that no input exceeds the fuzzer's memory limit.)
  const ImportMetaGraphOptions options{
      .tensor_limits = {.expansion_bytes = 1 << 20}};
  Graph g;
  const Result<MetaGraph> about = ImportMetaGraph(bytes, g, options);
  if (!about.ok()) return;
  const Result<std::string> exported = ExportMetaGraph(g);
  if (!exported.ok()) return;
  Graph again;
  const Result<MetaGraph> read = ImportMetaGraph(*exported, again, options);
  if (read.ok()) return;
  std::fprintf(stderr, "an exported meta graph is not imported: %s\n",
               read.status().ToString().c_str());
  std::abort();
}

}  // namespace
}  // namespace sluice

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  sluice::Fuzz({reinterpret_cast<const char*>(data), size});
  return 0;
}
