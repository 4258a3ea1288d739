// The files of page/, which are compiled into the program.
#ifndef SLUICE_TOOLS_BOARD_PAGE_FILES_H_
#define SLUICE_TOOLS_BOARD_PAGE_FILES_H_

#include <cstddef>
#include <span>

namespace sluice::board {

struct PageFile {
  const char* name;  // "index.html".
  const char* type;  // "text/html".
  const char* text;
  size_t size;
};

std::span<const PageFile> PageFiles();

}  // namespace sluice::board

#endif  // SLUICE_TOOLS_BOARD_PAGE_FILES_H_
