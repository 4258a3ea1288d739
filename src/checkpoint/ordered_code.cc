#include "checkpoint/ordered_code.h"

#include <bit>

namespace sluice {

// 0 and 255 are escaped, so that the end (0, 1) sorts before all that could
// follow.
void AppendOrderedString(std::string_view value, std::string* to) {
  for (const char c : value) {
    to->push_back(c);
    if (c == '\0') to->push_back('\xff');
    if (c == '\xff') to->push_back('\0');
  }
  to->append(std::string_view("\0\1", 2));
}

// The number of bytes that are not zero, then these, the largest first.
void AppendOrderedUnsigned(uint64_t value, std::string* to) {
  const int bytes = (std::bit_width(value) + 7) / 8;
  to->push_back(static_cast<char>(bytes));
  for (int i = bytes - 1; i >= 0; --i)
    to->push_back(static_cast<char>(value >> (8 * i)));
}

// Two's complement, the largest byte first, in as few bytes as hold the number
// and, in front of it, as many ones as there are bytes (zeros, if it is
// negative).
void AppendOrderedSigned(int64_t value, std::string* to) {
  const auto magnitude = static_cast<uint64_t>(value < 0 ? ~value : value);
  const int bytes = std::bit_width(magnitude) / 7 + 1;
  std::string code;
  for (int i = bytes - 1; i >= 0; --i)
    code.push_back(i >= 8 ? static_cast<char>(value < 0 ? 0xff : 0)
                          : static_cast<char>(value >> (8 * i)));
  for (int bit = 0; bit < bytes; ++bit)
    code[static_cast<size_t>(bit / 8)] = static_cast<char>(
        code[static_cast<size_t>(bit / 8)] ^ (0x80 >> (bit % 8)));
  to->append(code);
}

}  // namespace sluice
