// Reading GraphDef files, and error messages for other files.
#ifndef SLUICE_TOOLS_SLUICE_GRAPH_FILE_H_
#define SLUICE_TOOLS_SLUICE_GRAPH_FILE_H_

#include <string>
#include <string_view>

#include "base/status.h"
#include "graph/graph.h"

namespace sluice::cli {

// By its name: .pbtxt, .txt.
bool IsTextFile(const std::string& path);

// A validator for CLI11: why no graph can be read from `path`, as far as this
// is known without reading it (it does not exist or is a folder); "" if nothing
// is wrong so far.
std::string WhyNoGraphFile(const std::string& path);

// Reads a GraphDef file, binary or text, regardless of its name, as binary.
// Errors say what the file is instead, if that can be determined.
Result<std::string> ReadGraphDefFile(const std::string& path);
Status ImportGraphDefFile(const std::string& path, Graph& g);

// Describes bytes that are not a GraphDef: "a .npy array", "a text file ...",
// "the first 700 bytes of a GraphDef, which ends in the middle of a node"; for
// unknown formats "N bytes of another format".
std::string DescribeNoGraphDef(std::string_view bytes);

}  // namespace sluice::cli

#endif  // SLUICE_TOOLS_SLUICE_GRAPH_FILE_H_
