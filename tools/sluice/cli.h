// The `sluice` command: one function per subcommand. Exit codes: 0; 1 for a
// failure while running; 2 for a mistake on the command line, which is reported
// in one line on standard error.
#ifndef SLUICE_TOOLS_SLUICE_CLI_H_
#define SLUICE_TOOLS_SLUICE_CLI_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "session/session.h"
#include "tools/sluice/feed_value.h"
#include "tools/sluice/graph_file.h"

namespace CLI {
class App;
}

namespace sluice::cli {

inline constexpr int kRunFailed = 1;
inline constexpr int kUsage = 2;

// The whole command: main() under another name.
int Main(int argc, char** argv);

// Each adds its subcommand. If it is chosen, `run` is set to its function.
void AddRun(CLI::App& app, std::function<int()>* run);
void AddFreeze(CLI::App& app, std::function<int()>* run);
void AddInspect(CLI::App& app, std::function<int()>* run);
void AddOps(CLI::App& app, std::function<int()>* run);
void AddQuantize(CLI::App& app, std::function<int()>* run);
void AddReplay(CLI::App& app, std::function<int()>* run);
void AddShow(CLI::App& app, std::function<int()>* run);
void AddBench(CLI::App& app, std::function<int()>* run);
void AddWorker(CLI::App& app, std::function<int()>* run);
void AddLaunch(CLI::App& app, std::function<int()>* run);
void AddSimulate(CLI::App& app, std::function<int()>* run);
void AddCalibrate(CLI::App& app, std::function<int()>* run);
void AddTop(CLI::App& app, std::function<int()>* run);
void AddBoard(CLI::App& app, std::function<int()>* run);
void AddClusterDemo(CLI::App& app, std::function<int()>* run);

// "1 node", "2 nodes"; for nouns whose plural ends in an s.
inline std::string Counted(int64_t n, const std::string& noun) {
  return absl::StrCat(n, " ", noun, n == 1 ? "" : "s");
}

// Writes "sluice: <message>" to standard error; returns `code`.
int Fail(int code, const std::string& message);
inline int Fail(int code, const Status& s) {
  return Fail(code, std::string(s.message()));
}

// A validator for options: "" for a "grpc://host:port", else the error.
std::string IsTarget(const std::string& target);

// A validator for options: "" for a list that ParseDeviceList accepts.
std::string IsDeviceList(const std::string& devices);

// A validator for options: "" for "LOW,HIGH", two numbers.
std::string IsRange(const std::string& range);
// REQUIRES: IsRange.
std::pair<double, double> ParseRange(const std::string& range);

// Resolve the names that options give in a graph: feeds as "NAME=VALUE"
// (feed_value.h), edges, operations. Errors name the option.
Result<Feeds> ReadFeeds(const Graph& g, const std::vector<std::string>& feeds,
                        const FeedOptions& options);
Result<std::vector<Output>> FindEdges(const Graph& g,
                                      const std::vector<std::string>& names,
                                      const std::string& option);
Result<std::vector<Node*>> FindNodes(const Graph& g,
                                     const std::vector<std::string>& names,
                                     const std::string& option);

}  // namespace sluice::cli

#endif  // SLUICE_TOOLS_SLUICE_CLI_H_
