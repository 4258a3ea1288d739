// The board as the command loads it: libsluice_board. It links an HTTP library
// that takes longer to load than most commands run, so the command does not
// link it.
#ifndef SLUICE_TOOLS_BOARD_SERVE_H_
#define SLUICE_TOOLS_BOARD_SERVE_H_

#include <string>

// Serves the event files below `folder` until the process ends, and says on
// standard output where. Returns only on failure, with why in `error`.
extern "C" void sluice_serve_board(const std::string* folder,
                                   const std::string* host, int port,
                                   std::string* error);

#endif  // SLUICE_TOOLS_BOARD_SERVE_H_
