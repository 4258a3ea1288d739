// What the event files below a folder say, while programs write to them.
//
//   EventLog log("/tmp/logs");
//   log.Refresh();
//   for (const RunState& run : log.State().runs)
//     for (const TagState& tag : run.tags) ...
#ifndef SLUICE_TOOLS_BOARD_EVENT_LOG_H_
#define SLUICE_TOOLS_BOARD_EVENT_LOG_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "summary/event_reader.h"
#include "summary/proto/summary.pb.h"
#include "tools/board/thinned.h"

namespace sluice::board {

// What a tag's values are, whatever version of the summaries wrote them.
enum class TagKind : uint8_t {
  kScalars,
  kHistograms,
  kImages,
  kAudio,
  kText,
  kTensors,   // Other tensors: the projector shows those of rank two.
  kProfiles,  // RunMetadata of a step.
};
inline constexpr int kTagKinds = 7;
// "scalars", "histograms", ...
const char* TagKindName(TagKind kind);
// InvalidArgument, which lists the names, for others.
Result<TagKind> ParseTagKind(std::string_view name);

struct Scalar {
  int64_t step = 0;
  double wall_time = 0;  // Seconds since 1970.
  double value = 0;      // Any, also NaN.
};

// Where a value is. Values other than scalars stay in their file until they
// are asked for.
struct StoredValue {
  int64_t step = 0;
  double wall_time = 0;
  std::shared_ptr<const std::string> file;
  int64_t offset = 0;  // Of its event.
};

struct TagState {
  TagKind kind = TagKind::kScalars;
  std::string name;
  std::string display_name, description;  // Often "".
  uint64_t version = 0;  // Of the log, when the tag got its last value.
  int64_t values = 0;    // All that were logged; not all are kept.
};

struct RunState {
  std::string name;  // The folder relative to the log's; "." for itself.
  int files = 0;
  double first_wall_time = 0, last_wall_time = 0;  // 0: no events.
  int64_t last_step = 0;
  uint64_t graph_version = 0;  // 0: no graph.
  std::vector<TagState> tags;  // By kind and name.
  // Files that could not be read to their end, with the file and the byte.
  std::vector<std::string> problems;
};

struct LogState {
  uint64_t version = 0;        // Grows whenever anything below changes.
  bool loading = true;         // The first Refresh has not ended.
  std::string problem;         // Why nothing is found: no such folder. Or "".
  std::vector<RunState> runs;  // By name.
};

// The most values that are kept of a tag of a run: evenly spaced ones, and the
// last one (thinned.h). Memory is bounded by these and the number of tags.
struct EventLogLimits {
  size_t scalars = 10'000;
  size_t histograms = 500;
  size_t others = 20;
  size_t tags_per_run = 20'000;
};

// A run is a folder with event files, and its name is the folder's. The files
// of a run are read in the order of their names, which is that of their times.
// What a program logs again after a restart replaces what it had logged: the
// START of a session drops the values of its step and later, and so does a
// value in a later file whose step is not beyond the last step of its tag.
//
// Thread-safe. Refresh reads without blocking the other functions for long.
class EventLog {
 public:
  explicit EventLog(std::string folder, EventLogLimits limits = {});
  ~EventLog();
  EventLog(const EventLog&) = delete;

  // Reads what was written since the last call. What cannot be read is a
  // problem of its run, or of the log. Concurrent calls wait for each other.
  void Refresh();
  // Makes a Refresh that is running end soon, and later ones at once.
  void Stop();

  const std::string& folder() const { return folder_; }
  LogState State() const;
  uint64_t version() const;  // State().version.

  // NotFound if there is no such run or tag.
  Result<std::vector<Scalar>> Scalars(const std::string& run,
                                      const std::string& tag) const;
  // REQUIRES: kind is not kScalars.
  Result<std::vector<StoredValue>> Values(TagKind kind, const std::string& run,
                                          const std::string& tag) const;
  // The last graph of a run, a serialised GraphDef.
  Result<std::string> Graph(const std::string& run) const;

 private:
  struct File;
  struct Tag;
  struct Run;

  void Scan();
  bool ReadSome(Run* run, File* file);
  void Take(Run* run, File* file, const proto::Event& event, int64_t offset);
  void TakeValue(Run* run, File* file, const proto::Event& event,
                 const proto::Summary::Value& value, int64_t offset);
  Tag* FindOrAdd(Run* run, TagKind kind, const std::string& name);
  void Changed(Tag* tag);
  Result<const Tag*> Find(TagKind kind, const std::string& run,
                          const std::string& tag) const;
  Result<const Run*> FindRun(const std::string& run) const;

  const std::string folder_;
  const EventLogLimits limits_;
  std::atomic<bool> stopped_ = false;

  // Held by Refresh as a whole. Only its holder adds and removes runs and
  // files, and uses the readers of files.
  std::mutex refresh_mu_;

  mutable std::mutex mu_;  // Acquired after refresh_mu_.
  // State below is protected by mu_.
  uint64_t version_ = 1;
  bool loading_ = true;
  std::string problem_;
  std::map<std::string, std::unique_ptr<Run>> runs_;
};

// Reads the values of one tag. They come from the disk, so a file that was
// removed meanwhile is NotFound.
// `use` gets each value in the order of `values`, and the values of a file are
// read in one pass if they are in the file's order.
Status ReadEvents(
    const std::vector<StoredValue>& values,
    const std::function<Status(const StoredValue&, const proto::Event&)>& use);
// The value of a tag in its event; Internal if it is not there.
Result<const proto::Summary::Value*> FindValue(const proto::Event& event,
                                               const std::string& tag);

}  // namespace sluice::board

#endif  // SLUICE_TOOLS_BOARD_EVENT_LOG_H_
