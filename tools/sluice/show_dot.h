// The graph of `sluice show` in Graphviz's DOT language.
#ifndef SLUICE_TOOLS_SLUICE_SHOW_DOT_H_
#define SLUICE_TOOLS_SLUICE_SHOW_DOT_H_

#include <string>

#include "inspect/graph_boxes.h"
#include "tools/sluice/show_devices.h"

namespace sluice::cli {

std::string Dot(const show::Boxes& boxes, const ShowDevices& devices,
                bool constants);

// "svg", "html" or "dot", by a file name's extension; "" for other picture
// formats (.png, .pdf), which are not written; else "text".
std::string FormatOfFile(const std::string& name);

}  // namespace sluice::cli

#endif  // SLUICE_TOOLS_SLUICE_SHOW_DOT_H_
