// sluice board: shows event files in the browser while they grow.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "tools/sluice/cli.h"
#ifdef SLUICE_HAVE_BOARD
#include "tools/board/server.h"
#endif

namespace sluice::cli {
namespace {

struct BoardOptions {
  std::string folder, host = "127.0.0.1";
  int port = 6006;
};

#ifdef SLUICE_HAVE_BOARD
int ServeBoard(const BoardOptions& o) {
  const auto server =
      board::Server::Start(o.folder, {.host = o.host, .port = o.port});
  if (!server.ok())
    return Fail(kRunFailed, absl::StrCat("--", server.status().message()));
  std::printf("Board of %s at %s (Ctrl-C ends)\n", o.folder.c_str(),
              (*server)->url().c_str());
  std::fflush(stdout);
  (*server)->Wait();
  return 0;
}
#else
int ServeBoard(const BoardOptions&) {
  return Fail(kRunFailed,
              "board: expected a build with Debian's libcpp-httplib-dev, got "
              "one without (scripts/setup installs it)");
}
#endif

}  // namespace

void AddBoard(CLI::App& app, std::function<int()>* run) {
  auto o = std::make_shared<BoardOptions>();
  CLI::App* sub = app.add_subcommand(
      "board", "Show event files in the browser while they grow");
  sub->footer(
      "Example: sluice board /tmp/logs\n"
      "Each folder below LOGDIR with event files is a run. The page shows "
      "curves, histograms,\nimages, sounds, texts, embeddings, graphs and "
      "timelines of profiled steps. It needs no\nnetwork. Others can reach it "
      "only if --host is an address that they can reach.");
  sub->add_option("LOGDIR", o->folder, "The folder that programs log to")
      ->required();
  sub->add_option("--port", o->port, "0: any free port")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  sub->add_option("--host", o->host, "The address to listen at")
      ->capture_default_str();
  sub->callback([o, run] { *run = [o] { return ServeBoard(*o); }; });
}

}  // namespace sluice::cli
