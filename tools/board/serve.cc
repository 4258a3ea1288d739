#include "tools/board/serve.h"

#include <cstdio>

#include "tools/board/server.h"

void sluice_serve_board(const std::string* folder, const std::string* host,
                        int port, std::string* error) {
  const auto server =
      sluice::board::Server::Start(*folder, {.host = *host, .port = port});
  if (!server.ok()) {
    *error = std::string(server.status().message());
    return;
  }
  std::printf("Board of %s at %s (Ctrl-C ends)\n", folder->c_str(),
              (*server)->url().c_str());
  std::fflush(stdout);
  (*server)->Wait();
}
