// Writes a graph as a TensorFlow GraphDef, reads it back and runs it by name.
//   example_graph_io [FILE]
#include <cstdio>
#include <fstream>
#include <iterator>

#include "sluice/sluice.h"

using namespace sluice;

Status WriteGraph(const char* path) {
  Graph graph;
  const WithGraph use(graph);
  Output x = Placeholder<float>({-1, 3}, "x");
  Output w = Constant(Tensor::Of<float>({3, 1}, {1, 10, 100}), "w");
  ops::MatMul(x, w, {.name = "y"});
  SLUICE_RETURN_IF_ERROR(graph.status());
  SLUICE_ASSIGN_OR_RETURN(const std::string bytes, ExportGraphDef(graph));
  std::ofstream(path, std::ios::binary) << bytes;
  return OkStatus();
}

Result<Tensor> RunGraph(const char* path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  Graph graph;
  SLUICE_RETURN_IF_ERROR(ImportGraphDef(bytes, graph));
  Session session(graph);
  SLUICE_ASSIGN_OR_RETURN(
      const auto out,
      session.RunByName({{"x", Tensor::Of<float>({1, 3}, {1, 2, 3})}}, {"y"}));
  return out[0];
}

int main(int argc, char** argv) {
  const char* path = argc > 1 ? argv[1] : "graph.pb";
  const Status written = WriteGraph(path);
  const Result<Tensor> y = written.ok() ? RunGraph(path) : written;
  if (!y.ok()) {
    std::fprintf(stderr, "%s\n", y.status().ToString().c_str());
    return 1;
  }
  std::printf("y = %s\n", y->ToString().c_str());  // float[1,1] 321
  return 0;
}
