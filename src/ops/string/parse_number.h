// Parses numbers as TensorFlow does.
#ifndef SLUICE_OPS_STRING_PARSE_NUMBER_H_
#define SLUICE_OPS_STRING_PARSE_NUMBER_H_

#include <limits>
#include <system_error>
#include <type_traits>

#include "absl/strings/ascii.h"
#include "absl/strings/charconv.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"

namespace sluice {

// Parses all of `text` except for surrounding white space. Integers are decimal
// and must fit. Fractions may be hexadecimal (0x1p3), inf or nan; overflow
// gives infinity and underflow zero. False if the text is not a number.
template <typename T>
bool ParseNumberText(absl::string_view text, T* out) {
  if constexpr (std::is_integral_v<T>) {
    return absl::SimpleAtoi(text, out);
  } else {
    text = absl::StripAsciiWhitespace(text);
    bool negative = false;
    if (!text.empty() && (text[0] == '+' || text[0] == '-')) {
      negative = text[0] == '-';
      text.remove_prefix(1);
      if (!text.empty() && (text[0] == '+' || text[0] == '-')) return false;
    }
    const bool hex =
        text.size() > 2 && text[0] == '0' &&
        absl::ascii_tolower(static_cast<unsigned char>(text[1])) == 'x';
    if (hex) text.remove_prefix(2);
    if (hex && text[0] == '-') return false;
    const char* const end = text.data() + text.size();
    const absl::from_chars_result r = absl::from_chars(
        text.data(), end, *out,
        hex ? absl::chars_format::hex : absl::chars_format::general);
    if (r.ptr != end || r.ec == std::errc::invalid_argument) return false;
    if (r.ec == std::errc::result_out_of_range && *out > 1)
      *out = std::numeric_limits<T>::infinity();
    if (negative) *out = -*out;
    return true;
  }
}

}  // namespace sluice

#endif  // SLUICE_OPS_STRING_PARSE_NUMBER_H_
