#include "graph/device_name.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

bool IsWord(std::string_view text, std::string_view also) {
  for (const char c : text)
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) &&
        also.find(c) == std::string_view::npos)
      return false;
  return !text.empty();
}

// A number, or "*".
bool ParseIndex(std::string_view text, int* index) {
  *index = -1;
  if (text == "*") return true;
  // SimpleAtoi also takes a sign and spaces.
  for (const char c : text)
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) return false;
  return absl::SimpleAtoi(absl::string_view(text.data(), text.size()), index);
}

Status BadPart(std::string_view part, const char* rule, std::string_view name) {
  return InvalidArgument("device: expected ", rule, ", got '",
                         absl::string_view(part.data(), part.size()), "' in '",
                         absl::string_view(name.data(), name.size()), "'");
}

void ToUpper(std::string_view text, std::string* upper) {
  upper->assign(text);
  absl::AsciiStrToUpper(upper);
}

// Types with a short form: "/gpu:0". Others are written "/device:TYPE:0".
bool HasShortForm(std::string_view key) {
  for (const char* type : {"CPU", "GPU", "TPU", "EMU"})
    if (absl::EqualsIgnoreCase(absl::string_view(key.data(), key.size()), type))
      return true;
  return false;
}

}  // namespace

Result<DeviceName> DeviceName::Parse(std::string_view name) {
  DeviceName parsed;
  bool has_device = false;
  for (size_t at = 0; at < name.size();) {
    const size_t end = std::min(name.find('/', at), name.size());
    const std::string_view part = name.substr(at, end - at);
    at = end + 1;
    if (part.empty()) continue;
    const size_t colon = std::min(part.find(':'), part.size());
    const std::string_view key = part.substr(0, colon);
    std::string_view value = part.substr(std::min(colon + 1, part.size()));
    // If a part is repeated, the last one is used, as in TensorFlow.
    if (key == "job") {
      parsed.job = value == "*" ? "" : value;
      if (value != "*" && !IsWord(value, "_.-"))
        return BadPart(part, "job:NAME of letters, digits, '_', '.' and '-'",
                       name);
    } else if (key == "replica") {
      if (value.empty() || !ParseIndex(value, &parsed.replica))
        return BadPart(part, "replica:NUMBER", name);
    } else if (key == "task") {
      if (value.empty() || !ParseIndex(value, &parsed.task))
        return BadPart(part, "task:NUMBER", name);
    } else if (key == "device" || HasShortForm(key)) {
      if (has_device) return BadPart(part, "one device type", name);
      has_device = true;
      std::string_view type = key;
      if (key == "device") {
        const size_t end_type = std::min(value.find(':'), value.size());
        type = value.substr(0, end_type);
        value = value.substr(std::min(end_type + 1, value.size()));
      }
      if (type != "*") ToUpper(type, &parsed.type);
      const bool bare = part.back() != ':' && value.empty();
      if ((type != "*" && !IsWord(type, "_")) ||
          (!bare && (value.empty() || !ParseIndex(value, &parsed.number))))
        return BadPart(part, "device:TYPE:NUMBER", name);
    } else {
      return BadPart(part, "/job:NAME/replica:R/task:T/device:TYPE:N", name);
    }
  }
  return parsed;
}

std::string DeviceName::ToString() const {
  std::string text;
  if (!job.empty()) absl::StrAppend(&text, "/job:", job);
  if (replica >= 0) absl::StrAppend(&text, "/replica:", replica);
  if (task >= 0) absl::StrAppend(&text, "/task:", task);
  if (!type.empty() || number >= 0) {
    absl::StrAppend(&text, "/device:", type.empty() ? "*" : type, ":");
    if (number >= 0)
      absl::StrAppend(&text, number);
    else
      text += '*';
  }
  return text;
}

bool DeviceName::Matches(const DeviceName& device) const {
  return (job.empty() || job == device.job) &&
         (replica < 0 || replica == device.replica) &&
         (task < 0 || task == device.task) &&
         (type.empty() || type == device.type) &&
         (number < 0 || number == device.number);
}

bool DeviceName::CompatibleWith(const DeviceName& other) const {
  const auto agree = [](int a, int b) { return a < 0 || b < 0 || a == b; };
  return (job.empty() || other.job.empty() || job == other.job) &&
         (type.empty() || other.type.empty() || type == other.type) &&
         agree(replica, other.replica) && agree(task, other.task) &&
         agree(number, other.number);
}

DeviceName DeviceName::WithDefaults(const DeviceName& other) const {
  DeviceName merged = *this;
  if (merged.job.empty()) merged.job = other.job;
  if (merged.replica < 0) merged.replica = other.replica;
  if (merged.task < 0) merged.task = other.task;
  if (merged.type.empty()) merged.type = other.type;
  if (merged.number < 0) merged.number = other.number;
  return merged;
}

DeviceName DeviceName::Task() const {
  DeviceName name;
  name.job = job;
  name.replica = replica;
  name.task = task;
  return name;
}

}  // namespace sluice
