// sluice board: shows event files in the browser while they grow.
#include <dlfcn.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/cluster_library.h"
#include "tools/board/serve.h"
#include "tools/sluice/cli.h"

namespace sluice::cli {
namespace {

struct BoardOptions {
  std::string folder, host = "127.0.0.1";
  int port = 6006;
};

int ServeBoard(const BoardOptions& o) {
  void* const library = OpenOwnLibrary("sluice/libsluice_board.so");
  void* const serve =
      library == nullptr ? nullptr : dlsym(library, "sluice_serve_board");
  if (serve == nullptr)
    return Fail(kRunFailed,
                absl::StrCat("board: expected libsluice_board.so, which is "
                             "built where Debian's libcpp-httplib-dev is "
                             "installed (scripts/setup), got ",
                             dlerror()));
  std::string error;
  reinterpret_cast<decltype(&sluice_serve_board)>(serve)(&o.folder, &o.host,
                                                         o.port, &error);
  return Fail(kRunFailed, "--" + error);  // ("--port: expected ...".)
}

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
