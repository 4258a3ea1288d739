/* libicudata without data, as ICU's own stubdata, for wheels. Sluice asks ICU for
   the upper and lower case of letters (src/ops/string/letter_case.cc), whose
   tables are in libicuuc; the 31 MB of locales, collations and converters are
   not used. */
#include <stdint.h>

#define ENTRY_NAME(version) icudt##version##_dat
#define ENTRY(version) ENTRY_NAME(version)

/* The header of ICU's common data ("ToCP", version 1) and an empty table of
   contents. ICU_VERSION is given by tools/make_wheels.py. */
__attribute__((visibility("default"))) const struct {
  uint16_t header_size;
  uint8_t magic1, magic2;
  uint16_t info_size, reserved;
  uint8_t big_endian, charset, char_size, reserved_byte;
  uint8_t format[4], format_version[4], data_version[4];
  char padding[8];
  uint32_t count, unused;
} ENTRY(ICU_VERSION) __attribute__((aligned(16))) = {
    32, 0xda, 0x27, 20, 0,
    __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__, 0, 2, 0,
    {'T', 'o', 'C', 'P'}, {1, 0, 0, 0}, {0, 0, 0, 0},
    {0}, 0, 0};
