#include "graph/none_output.h"

#include <cstdint>
#include <deque>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

constexpr size_t kMaxReasons = 4096;

struct Reasons {
  std::mutex mu;
  std::deque<std::string> last;  // GUARDED_BY(mu)
  int first = 0;                 // GUARDED_BY(mu); the number of last[0].
};
Reasons& AllReasons() {
  static auto* const all = new Reasons;  // Never destroyed.
  return *all;
}

}  // namespace

Output NoneBecause(std::string why) {
  Reasons& all = AllReasons();
  const std::lock_guard<std::mutex> lock(all.mu);
  if (all.first == INT32_MAX / 2 - 1 - static_cast<int>(kMaxReasons)) {
    all.last.clear();
    all.first = 0;
  }
  all.last.push_back(std::move(why));
  if (all.last.size() > kMaxReasons) {
    all.last.pop_front();
    ++all.first;
  }
  return Output::None(all.first + static_cast<int>(all.last.size()) - 1);
}

std::string WhyNone(const Output& none) {
  if (none.reason() < 0) return "";
  Reasons& all = AllReasons();
  const std::lock_guard<std::mutex> lock(all.mu);
  const int at = none.reason() - all.first;
  if (at < 0 || static_cast<size_t>(at) >= all.last.size()) return "";
  return absl::StrCat(": ", all.last[static_cast<size_t>(at)]);
}

}  // namespace sluice
