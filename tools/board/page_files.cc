#include "tools/board/page_files.h"

namespace sluice::board {
namespace {

// One line for each file of page/, made by tools/CMakeLists.txt:
//   {"index.html", "text/html", text, sizeof(text) - 1},
#include "tools/board/page_files.inc"

}  // namespace

std::span<const PageFile> PageFiles() { return kPageFiles; }

}  // namespace sluice::board
