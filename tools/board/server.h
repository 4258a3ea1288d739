// The board: a page in the browser that shows event files while they grow.
#ifndef SLUICE_TOOLS_BOARD_SERVER_H_
#define SLUICE_TOOLS_BOARD_SERVER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"

namespace sluice::board {

class EventLog;

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 0;               // 0: any free one.
  int64_t refresh_ms = 1000;  // The least time between two looks at the files.
  // Where Debian's libjs-dygraphs is, which draws the curves.
  std::string plot_library = "/usr/share/javascript/dygraphs";
};

// Serves the page and what it asks for, on threads of its own, and reads the
// event files below a folder on another. Answers only GET, from what is
// compiled in and from the event files: a path of a request is never a path of
// a file, apart from two names of the plot library. On a loopback address,
// requests for other hosts are refused, so that no page elsewhere can read the
// log through a name that leads here.
//
// /                    the page; its files are /page/NAME and /library/NAME
// /api/state           runs, tags, problems; ?version=N: short if nothing is
// new /api/scalars         ?tag=T&run=R...: steps, wall times and values per
// run /api/histograms      ?run=R&tag=T: counts in equal buckets, for each step
// /api/values          ?kind=K&run=R&tag=T: steps of images, audio, tensors,
// ... /api/blob            ?kind=K&run=R&tag=T&index=I[&part=P]: a file's bytes
// /api/text            ?run=R&tag=T
// /api/projection      ?run=R&tag=T&index=I
// /api/graph           ?run=R
// /api/timeline        ?run=R&tag=T&index=I
//
// An error is {"error": "..."} with status 400, 404 or 500.
class Server {
 public:
  // FailedPrecondition if the port is in use; InvalidArgument for a host that
  // is no address of this machine.
  static Result<std::unique_ptr<Server>> Start(
      const std::string& folder, const ServerOptions& options = {});
  // Stops, and waits for requests that are being answered.
  ~Server();
  Server(const Server&) = delete;

  int port() const;
  std::string url() const;  // "http://127.0.0.1:6006/".
  EventLog& log();
  // Waits until the server ends, which only its destructor makes it do.
  void Wait();

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace sluice::board

#endif  // SLUICE_TOOLS_BOARD_SERVER_H_
