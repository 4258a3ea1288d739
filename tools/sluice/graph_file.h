// GraphDef files, and what is said of files that are none.
#ifndef SLUICE_TOOLS_SLUICE_GRAPH_FILE_H_
#define SLUICE_TOOLS_SLUICE_GRAPH_FILE_H_

#include <string>
#include <string_view>

#include "base/status.h"
#include "graph/graph.h"

namespace sluice::cli {

// By its name: .pbtxt, .txt.
bool IsTextFile(const std::string& path);

// Why no graph can be read from `path`, where that is seen without reading it:
// nothing is there, or a folder is; "" if nothing is wrong so far. (A check of
// CLI11's.)
std::string WhyNoGraphFile(const std::string& path);

// A GraphDef file as binary, whether it is binary or text, whatever it is
// called. Errors say what the file is instead, as far as it can be told.
Result<std::string> ReadGraphDefFile(const std::string& path);
Status ImportGraphDefFile(const std::string& path, Graph& g);

// Of bytes that are no GraphDef, "a .npy array", "a text file ...", "the
// first 700 bytes of a GraphDef, which ends in the middle of a node"; what no
// format claims is "N bytes of another format".
std::string DescribeNoGraphDef(std::string_view bytes);

}  // namespace sluice::cli

#endif  // SLUICE_TOOLS_SLUICE_GRAPH_FILE_H_
