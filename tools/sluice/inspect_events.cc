// sluice inspect: what is in event files.
#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_format.h"
#include "summary/event_digest.h"
#include "tools/sluice/cli.h"
#include "tools/sluice/inspect.h"

namespace sluice::cli {
namespace {

namespace fs = std::filesystem;

bool IsEventFile(const fs::path& path) {
  return path.filename().string().find("tfevents") != std::string::npos;
}

// "2026-11-27 16:27:01", in UTC.
std::string TimeText(double seconds) {
  if (!(seconds > 0 && seconds < 1e11)) return "no time";
  const auto at = static_cast<time_t>(seconds);
  tm parts = {};
  gmtime_r(&at, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

// A tag as a terminal may show it: files may hold anything.
constexpr size_t kColumn = 80, kLongestTag = 1000;
std::string Printable(const std::string& tag) {
  return absl::Utf8SafeCEscape(tag.substr(0, kLongestTag)) +
         (tag.size() > kLongestTag ? "..." : "");
}

std::string Described(const TagDigest& t) {
  std::string out = absl::StrFormat("%-9s  %7d  steps %d to %d", t.kind,
                                    t.count, t.first_step, t.last_step);
  if (t.has_scalars)
    absl::StrAppendFormat(&out, "  min %g  max %g", t.least, t.most);
  if (t.has_scalars || t.nans > 0 || t.infinities > 0)
    absl::StrAppendFormat(&out, "  last %g", t.last);
  if (t.nans > 0) absl::StrAppendFormat(&out, "  NaN %d", t.nans);
  if (t.infinities > 0)
    absl::StrAppendFormat(&out, "  infinite %d", t.infinities);
  return out;
}

int InspectFile(const std::string& path) {
  const Result<EventDigest> digest = DigestEvents(path);
  if (!digest.ok()) return Fail(kRunFailed, digest.status());
  size_t width = 3;
  for (const auto& [tag, t] : digest->tags)
    width = std::max(width, std::min(Printable(tag).size(), kColumn));
  for (const auto& [tag, t] : digest->tags)
    std::printf("%-*s  %s\n", static_cast<int>(width), Printable(tag).c_str(),
                Described(t).c_str());
  std::string line = absl::StrCat(Counted(digest->events, "event"), ", ");
  const std::pair<int64_t, const char*> others[] = {
      {digest->graphs, "graph"},
      {digest->logs, "log message"},
      {digest->sessions, "session event"},
      {digest->profiles, "profiled step"}};
  for (const auto& [count, noun] : others)
    if (count > 0) absl::StrAppend(&line, Counted(count, noun), ", ");
  absl::StrAppend(&line, Counted(digest->bytes, "byte"), ", ",
                  TimeText(digest->first_time), " to ",
                  TimeText(digest->last_time), " UTC");
  std::printf("%s\n", line.c_str());
  if (digest->unfinished) {
    std::printf("ends within a record at byte %lld\n",
                static_cast<long long>(digest->bytes));
    return 0;
  }
  return digest->damage.ok() ? 0 : Fail(kRunFailed, digest->damage);
}

std::vector<std::string> EventFilesOf(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error))
    if (IsEventFile(it->path())) files.push_back(it->path().string());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

bool HasEvents(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return !EventFilesOf(path).empty();
  return IsEventFile(path) && fs::exists(path, ignored);
}

int InspectEvents(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return InspectFile(path);
  int code = 0;
  for (const std::string& file : EventFilesOf(path)) {
    std::printf("%s:\n", file.c_str());
    code = std::max(code, InspectFile(file));
  }
  return code;
}

}  // namespace sluice::cli
