// A program that links the small library, which has protobuf's lite runtime,
// and the full runtime for messages of its own: each has its own class for
// `Any`.
#include <google/protobuf/any.pb.h>
#include <google/protobuf/wrappers.pb.h>

#include <cstdio>

#include "sluice/sluice.h"

int main() {
  google::protobuf::StringValue text;
  text.set_value("from the full runtime");
  google::protobuf::Any any;
  any.PackFrom(text);
  std::printf("%s\n", any.ShortDebugString().c_str());

  // The same message, as Sluice writes it.
  sluice::Graph graph;
  const sluice::WithGraph use(graph);
  sluice::Constant(sluice::Tensor::Scalar(0), "words");
  const auto bytes = sluice::ExportMetaGraph(
      graph, {.assets = {{.tensor = "words:0", .filename = "words.txt"}}});
  if (!bytes.ok()) {
    std::fprintf(stderr, "%s\n", bytes.status().ToString().c_str());
    return 1;
  }
  any.set_type_url("type.googleapis.com/tensorflow.AssetFileDef");
  any.set_value("\n\x09\n\x07words:0\x12\x09words.txt");
  const bool found = bytes->find(any.SerializeAsString()) != std::string::npos;
  std::printf("%s\n", found ? "the same" : "another");
  return 0;
}
