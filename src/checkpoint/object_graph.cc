#include "checkpoint/object_graph.h"

#include <algorithm>
#include <cstdint>

#include "checkpoint/proto/object_graph.pb.h"

namespace sluice {

Result<std::map<std::string, std::vector<std::string>>> KeysByFullName(
    std::string_view object_graph) {
  proto::TrackableObjectGraph graph;
  if (object_graph.size() > INT32_MAX ||
      !graph.ParseFromArray(object_graph.data(),
                            static_cast<int>(object_graph.size())))
    return DataLoss("tensor '", kObjectGraphKey,
                    "': expected a serialised TrackableObjectGraph, got ",
                    object_graph.size(), " bytes that are none");
  std::map<std::string, std::vector<std::string>> keys;
  for (const auto& node : graph.nodes())
    for (const auto& attribute : node.attributes()) {
      // (What is saved beside variables, such as the state of a Python object,
      // has no name.)
      if (attribute.full_name().empty()) continue;
      std::vector<std::string>& of = keys[attribute.full_name()];
      if (std::find(of.begin(), of.end(), attribute.checkpoint_key()) ==
          of.end())
        of.push_back(attribute.checkpoint_key());
    }
  return keys;
}

}  // namespace sluice
