#include "base/failpoint.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace sluice {
namespace failpoint_internal {
std::atomic<int> armed{0};
}  // namespace failpoint_internal

namespace {

struct Point {
  enum class Action { kError, kDelay, kDrop, kKill } action;
  std::string message;
  int64_t delay_ms = 0;
  int64_t skip = 0;
  int64_t times = INT64_MAX;
  double percent = 100;
  int64_t hits = 0;
  std::mt19937_64 random;
};

struct Registry {
  std::mutex mu;
  std::map<std::string, Point, std::less<>> points;  // GUARDED_BY(mu)
  std::set<std::string> names;                       // GUARDED_BY(mu)
};
Registry& GetRegistry() {
  static Registry* const registry = new Registry;
  return *registry;
}

// Strips "<mark>number" from the end of `*text`.
bool TakeSuffix(std::string_view* text, char mark, int64_t* value) {
  const size_t at = text->rfind(mark);
  // (A message in parentheses may contain the mark.)
  if (at == std::string_view::npos || text->find(')', at) != text->npos)
    return true;
  const std::string_view digits = text->substr(at + 1);
  *text = text->substr(0, at);
  return absl::SimpleAtoi(absl::string_view(digits.data(), digits.size()),
                          value) &&
         *value >= 0;
}

Result<Point> Parse(std::string_view text) {
  const std::string whole(text);
  Point p;
  int64_t percent = 100;
  const bool good = TakeSuffix(&text, '%', &percent) &&
                    TakeSuffix(&text, '*', &p.times) &&
                    TakeSuffix(&text, '@', &p.skip);
  p.percent = static_cast<double>(percent);
  std::string_view argument;
  if (const size_t open = text.find('('); open != text.npos) {
    if (text.back() != ')') text = "";
    argument = text.substr(std::min(open + 1, text.size()));
    if (!argument.empty()) argument.remove_suffix(1);
    text = text.substr(0, open);
  }
  if (good && text == "error") {
    p.action = Point::Action::kError;
    p.message = argument.empty() ? "failpoint" : std::string(argument);
    return p;
  }
  if (good && text == "drop") {
    p.action = Point::Action::kDrop;
    return p;
  }
  if (good && text == "kill") {
    p.action = Point::Action::kKill;
    return p;
  }
  if (good && text == "delay" &&
      absl::SimpleAtoi(absl::string_view(argument.data(), argument.size()),
                       &p.delay_ms) &&
      p.delay_ms >= 0 && p.delay_ms <= 3600000) {
    p.action = Point::Action::kDelay;
    return p;
  }
  return InvalidArgument(
      "failpoint: expected error[(message)], delay(milliseconds), drop, kill "
      "or off, then @skip, *times, %percent, got '",
      whole, "'");
}

const bool from_environment = [] {
  const char* spec = std::getenv("SLUICE_FAILPOINTS");
  if (spec == nullptr) return false;
  const Status s = EnableFailpoints(spec);
  if (!s.ok())
    std::fprintf(stderr, "SLUICE_FAILPOINTS: %s\n",
                 std::string(s.message()).c_str());
  return true;
}();

}  // namespace

FailpointHit failpoint_internal::Hit(const char* name) {
  FailpointHit hit;
  Registry& r = GetRegistry();
  std::unique_lock<std::mutex> lock(r.mu);
  const auto it = r.points.find(std::string_view(name));
  if (it == r.points.end()) return hit;
  Point& p = it->second;
  if (++p.hits <= p.skip || p.times <= 0) return hit;
  if (p.percent < 100 &&
      std::uniform_real_distribution<double>(0, 100)(p.random) >= p.percent)
    return hit;
  --p.times;
  switch (p.action) {
    case Point::Action::kError:
      hit.error = Unavailable(name, ": ", p.message);
      break;
    case Point::Action::kDrop:
      hit.dropped = true;
      break;
    case Point::Action::kKill:
      kill(getpid(), SIGKILL);
      break;
    case Point::Action::kDelay: {
      const auto delay = std::chrono::milliseconds(p.delay_ms);
      lock.unlock();
      std::this_thread::sleep_for(delay);
      break;
    }
  }
  return hit;
}

bool failpoint_internal::Register(const char* name) {
  Registry& r = GetRegistry();
  std::lock_guard<std::mutex> lock(r.mu);
  return r.names.insert(name).second;
}

std::vector<std::string> FailpointNames() {
  Registry& r = GetRegistry();
  std::lock_guard<std::mutex> lock(r.mu);
  return {r.names.begin(), r.names.end()};
}

Status EnableFailpoints(std::string_view spec, uint64_t seed) {
  std::map<std::string, Point, std::less<>> parsed;
  std::vector<std::string> off;
  for (absl::string_view one :
       absl::StrSplit(absl::string_view(spec.data(), spec.size()), ';',
                      absl::SkipWhitespace())) {
    one = absl::StripAsciiWhitespace(one);
    const size_t equals = one.find('=');
    if (equals == one.npos || equals == 0)
      return InvalidArgument("failpoint: expected NAME=ACTION, got '", one,
                             "'");
    const std::string name(one.substr(0, equals));
    const std::string action(one.substr(equals + 1));
    if (action == "off") {
      off.push_back(name);
      continue;
    }
    SLUICE_ASSIGN_OR_RETURN(Point p, Parse(action));
    p.random.seed(seed + parsed.size());
    parsed[name] = std::move(p);
  }
  Registry& r = GetRegistry();
  std::lock_guard<std::mutex> lock(r.mu);
  for (const std::string& name : off) r.points.erase(name);
  for (auto& [name, p] : parsed) r.points[name] = std::move(p);
  failpoint_internal::armed.store(static_cast<int>(r.points.size()));
  return OkStatus();
}

void DisableFailpoints() {
  Registry& r = GetRegistry();
  std::lock_guard<std::mutex> lock(r.mu);
  r.points.clear();
  failpoint_internal::armed.store(0);
}

int64_t FailpointHits(std::string_view name) {
  Registry& r = GetRegistry();
  std::lock_guard<std::mutex> lock(r.mu);
  const auto it = r.points.find(name);
  return it == r.points.end() ? 0 : it->second.hits;
}

}  // namespace sluice
