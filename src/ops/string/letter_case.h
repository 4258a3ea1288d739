// The case of letters of UTF-8 texts, with rules that depend on no language.
#ifndef SLUICE_OPS_STRING_LETTER_CASE_H_
#define SLUICE_OPS_STRING_LETTER_CASE_H_

#include <string>
#include <string_view>

#include "base/status.h"

namespace sluice {

// Malformed sequences become U+FFFD. Unimplemented in a build without ICU
// (without_icu.cc), except for ASCII texts.
Result<std::string> Utf8Upper(std::string_view text);
Result<std::string> Utf8Lower(std::string_view text);

}  // namespace sluice

#endif  // SLUICE_OPS_STRING_LETTER_CASE_H_
