#include "cluster/membership/host_list.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace sluice {
namespace {

constexpr size_t kMaxHosts = 65536;
constexpr int kMaxSlots = 65536;

// (Abseil's string_view may be a type of its own.)
std::string Text(absl::string_view s) { return std::string(s); }
absl::string_view View(std::string_view s) { return {s.data(), s.size()}; }

// Splits at commas outside of brackets.
Result<std::vector<std::string>> SplitOutside(std::string_view text) {
  std::vector<std::string> parts(1);
  bool inside = false;
  for (const char c : text) {
    if (c == '[' || c == ']') {
      if (inside == (c == '['))
        return InvalidArgument("hosts: expected balanced brackets, got '",
                               View(text), "'");
      inside = c == '[';
    }
    if (c == ',' && !inside)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  if (inside)
    return InvalidArgument("hosts: expected ']', got the end of '", View(text),
                           "'");
  return parts;
}

// "001-003,7"; the numbers of a range have as many digits as its first one.
Status ExpandNumbers(const std::string& inside,
                     std::vector<std::string>* numbers) {
  for (const absl::string_view range : absl::StrSplit(inside, ',')) {
    const std::vector<std::string> ends = absl::StrSplit(range, '-');
    int64_t first = 0, last = 0;
    const auto number = [](const std::string& s, int64_t* n) {
      return !s.empty() && s.size() < 10 &&
             std::all_of(
                 s.begin(), s.end(),
                 [](unsigned char c) { return absl::ascii_isdigit(c); }) &&
             absl::SimpleAtoi(s, n);
    };
    if (ends.size() > 2 || !number(ends[0], &first) ||
        !number(ends.back(), &last) || last < first ||
        last - first >= static_cast<int64_t>(kMaxHosts))
      return InvalidArgument(
          "hosts: expected numbers and ranges as 001-003, "
          "got '",
          Text(range), "'");
    for (int64_t n = first; n <= last; ++n)
      numbers->push_back(
          absl::StrFormat("%0*d", static_cast<int>(ends[0].size()), n));
  }
  return OkStatus();
}

// One name with any number of brackets.
Status ExpandHost(const std::string& pattern, std::vector<std::string>* hosts) {
  std::vector<std::string> names = {""};
  size_t at = 0;
  while (at < pattern.size()) {
    const size_t open = std::min(pattern.find('[', at), pattern.size());
    for (std::string& n : names) n += pattern.substr(at, open - at);
    if (open == pattern.size()) break;
    const size_t close = pattern.find(']', open);
    std::vector<std::string> numbers;
    SLUICE_RETURN_IF_ERROR(
        ExpandNumbers(pattern.substr(open + 1, close - open - 1), &numbers));
    if (names.size() * numbers.size() > kMaxHosts)
      return InvalidArgument("hosts: expected at most ", kMaxHosts,
                             ", got more in '", pattern, "'");
    std::vector<std::string> longer;
    for (const std::string& n : names)
      for (const std::string& number : numbers) longer.push_back(n + number);
    names = std::move(longer);
    at = close + 1;
  }
  for (std::string& n : names) {
    const bool valid =
        !n.empty() && std::all_of(n.begin(), n.end(), [](unsigned char c) {
          return absl::ascii_isalnum(c) || c == '-' || c == '.' || c == '_';
        });
    if (!valid)
      return InvalidArgument("hosts: expected names of hosts, got '", n, "'");
    hosts->push_back(std::move(n));
  }
  return OkStatus();
}

// Adds slots to `hosts`, which is in the order of first mention.
void AddSlots(const std::string& host, int slots,
              std::vector<HostSlots>* hosts) {
  for (HostSlots& h : *hosts)
    if (h.first == host) {
      h.second += slots;
      return;
    }
  hosts->emplace_back(host, slots);
}

// "host" or "host:2".
Status AddHostAndSlots(const std::string& text, std::vector<HostSlots>* hosts) {
  const size_t colon = text.rfind(':');
  int slots = 1;
  if (colon == 0 || text.empty() ||
      (colon != std::string::npos &&
       (!absl::SimpleAtoi(text.substr(colon + 1), &slots) || slots < 1 ||
        slots > kMaxSlots)))
    return InvalidArgument("hosts: expected host or host:slots, got '", text,
                           "'");
  AddSlots(text.substr(0, colon), slots, hosts);
  return OkStatus();
}

}  // namespace

Result<std::vector<std::string>> ParseSlurmHosts(std::string_view text) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::string> parts,
                          SplitOutside(text));
  std::vector<std::string> hosts;
  for (const std::string& part : parts) {
    SLUICE_RETURN_IF_ERROR(ExpandHost(part, &hosts));
    if (hosts.size() > kMaxHosts)
      return InvalidArgument("hosts: expected at most ", kMaxHosts,
                             ", got more");
  }
  return hosts;
}

Result<std::vector<int>> ParseSlurmCounts(std::string_view text) {
  std::vector<int> counts;
  for (const absl::string_view part : absl::StrSplit(View(text), ',')) {
    const std::string p = Text(part);
    const size_t open = p.find("(x");
    int count = 0, times = 1;
    const bool valid =
        absl::SimpleAtoi(p.substr(0, open), &count) && count > 0 &&
        count <= kMaxSlots &&
        (open == std::string::npos ||
         (p.back() == ')' &&
          absl::SimpleAtoi(p.substr(open + 2, p.size() - open - 3), &times) &&
          times > 0 && times <= static_cast<int>(kMaxHosts)));
    if (!valid || counts.size() + static_cast<size_t>(times) > kMaxHosts)
      return InvalidArgument(
          "tasks per node: expected counts as 2(x3),1, got '", View(text), "'");
    counts.insert(counts.end(), static_cast<size_t>(times), count);
  }
  return counts;
}

Result<std::vector<HostSlots>> ParseHostSlots(std::string_view text) {
  std::vector<HostSlots> hosts;
  for (const absl::string_view part : absl::StrSplit(View(text), ','))
    SLUICE_RETURN_IF_ERROR(AddHostAndSlots(Text(part), &hosts));
  return hosts;
}

Result<std::vector<HostSlots>> ParseHostFile(std::string_view text) {
  std::vector<HostSlots> hosts;
  int line_number = 0;
  for (absl::string_view line : absl::StrSplit(View(text), '\n')) {
    ++line_number;
    line = line.substr(0, line.find('#'));
    const std::vector<std::string> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty()) continue;
    int slots = 0;
    for (size_t i = 1; i < words.size(); ++i) {
      const std::pair<std::string, std::string> kv =
          absl::StrSplit(words[i], absl::MaxSplits('=', 1));
      if (kv.first == "slots" && (!absl::SimpleAtoi(kv.second, &slots) ||
                                  slots < 1 || slots > kMaxSlots))
        return InvalidArgument("hosts, line ", line_number,
                               ": expected slots=N, got '", words[i], "'");
    }
    if (slots > 0)
      AddSlots(words[0], slots, &hosts);
    else
      SLUICE_RETURN_IF_ERROR(Annotate(AddHostAndSlots(words[0], &hosts),
                                      absl::StrCat("line ", line_number)));
  }
  if (hosts.empty())
    return InvalidArgument("hosts: expected at least one, got none");
  return hosts;
}

}  // namespace sluice
