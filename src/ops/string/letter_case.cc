#include "ops/string/letter_case.h"

#include <unicode/locid.h>
#include <unicode/unistr.h>

namespace sluice {

Result<std::string> Utf8Upper(std::string_view text) {
  std::string out;
  icu::UnicodeString::fromUTF8(text)
      .toUpper(icu::Locale::getRoot())
      .toUTF8String(out);
  return out;
}

Result<std::string> Utf8Lower(std::string_view text) {
  std::string out;
  icu::UnicodeString::fromUTF8(text)
      .toLower(icu::Locale::getRoot())
      .toUTF8String(out);
  return out;
}

}  // namespace sluice
