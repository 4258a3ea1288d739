#include "train/leftovers.h"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "checkpoint/pending_file.h"

namespace sluice {
namespace {

// Takes `prefix` off the front. False if there is none.
bool TakePrefix(std::string_view* text, std::string_view prefix) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

void TakeAll(std::string_view* text, const char* characters) {
  text->remove_prefix(
      std::min(text->find_first_not_of(characters), text->size()));
}

// Whether a file of this name is one that is renamed when it is whole, or a
// folder of parts that are merged. (The checkpoint "ckpt" is not to lose files
// of "ckpt_b" or of "ckpt-b".)
bool IsLeftover(std::string_view name, const std::string& base,
                const std::string& state_file) {
  constexpr const char* kDigits = "0123456789";
  const auto is_temporary = [&](std::string_view rest) {
    if (!TakePrefix(&rest, ".tempstate") || rest.empty()) return false;
    TakeAll(&rest, kDigits);
    return rest.empty();
  };
  std::string_view rest = name;
  if (TakePrefix(&rest, state_file)) {
    (void)(TakePrefix(&rest, ".best") || TakePrefix(&rest, ".obsolete"));
    if (is_temporary(rest)) return true;
  }
  rest = name;
  if (!TakePrefix(&rest, base)) return false;
  if (rest.size() > 1 && rest[0] == '-' && absl::ascii_isdigit(rest[1])) {
    rest.remove_prefix(1);
    TakeAll(&rest, kDigits);
  }
  if (TakePrefix(&rest, "_temp_")) {
    const bool long_enough = rest.size() >= 32;
    TakeAll(&rest, "0123456789abcdef");
    return long_enough && rest.empty();
  }
  if (TakePrefix(&rest, ".data-"))
    TakeAll(&rest, "0123456789-of");
  else if (!TakePrefix(&rest, ".index"))
    return false;
  return is_temporary(rest);
}

}  // namespace

void RemoveLeftovers(const std::string& prefix, const std::string& state_file) {
  std::error_code ignored;
  const std::filesystem::path path(prefix);
  const std::string base = path.filename().string();
  const std::string folder = FolderOf(prefix).empty() ? "." : FolderOf(prefix);
  std::vector<std::filesystem::path> found;
  for (const auto& e : std::filesystem::directory_iterator(folder, ignored))
    if (IsLeftover(e.path().filename().string(), base, state_file))
      found.push_back(e.path());
  for (const auto& p : found) std::filesystem::remove_all(p, ignored);
}

}  // namespace sluice
