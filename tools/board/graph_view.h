// A graph as boxes within boxes, for the page to draw.
#ifndef SLUICE_TOOLS_BOARD_GRAPH_VIEW_H_
#define SLUICE_TOOLS_BOARD_GRAPH_VIEW_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace sluice::board {

// A box: what `sluice show` draws as one (inspect/graph_boxes.h), or a scope of
// names within one of those.
struct ViewBox {
  int outer = -1;    // Its index; -1 for the whole graph, which is the first.
  std::string kind;  // "graph", "loop", "branch", "function", "part",
                     // "gradients", "scope".
  std::string label = {};  // Short.
  std::string title = {};  // In full.
};
struct ViewNode {
  int box = 0;
  std::string name, op, device;
  std::string kind;  // "op", "constant", "state", "flow", "input".
  std::string line;  // With inputs, types and shapes, as `sluice show` prints.
};
struct ViewEdge {
  int from = 0, to = 0;  // Nodes.
  bool control = false;
  bool back = false;       // To the next iteration of a loop.
  std::string value = {};  // "name:0 float[2,3]".
};
struct GraphView {
  std::vector<ViewBox> boxes;  // Outer ones first.
  std::vector<ViewNode> nodes;
  std::vector<ViewEdge> edges;
  int left_out = 0;  // Functional nodes whose bodies did not fit.
};

// ResourceExhausted for graphs of more than `most_nodes`; otherwise the errors
// of ImportGraphDef.
Result<GraphView> ViewGraph(std::string_view graph_def,
                            int most_nodes = 20'000);

}  // namespace sluice::board

#endif  // SLUICE_TOOLS_BOARD_GRAPH_VIEW_H_
