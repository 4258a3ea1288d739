// In the place of letter_case.cc in builds without ICU (SLUICE_MINIMAL).
#include <algorithm>

#include "absl/strings/ascii.h"
#include "ops/string/letter_case.h"

namespace sluice {
namespace {

Status CheckAscii(std::string_view text) {
  if (std::all_of(text.begin(), text.end(), absl::ascii_isascii))
    return OkStatus();
  return Unimplemented(
      "case of letters outside ASCII: expected a build with ICU, got one "
      "without (SLUICE_MINIMAL)");
}

}  // namespace

Result<std::string> Utf8Upper(std::string_view text) {
  SLUICE_RETURN_IF_ERROR(CheckAscii(text));
  return absl::AsciiStrToUpper(std::string(text));
}

Result<std::string> Utf8Lower(std::string_view text) {
  SLUICE_RETURN_IF_ERROR(CheckAscii(text));
  return absl::AsciiStrToLower(std::string(text));
}

}  // namespace sluice
