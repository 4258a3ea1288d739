// Encodings of strings and numbers whose bytes sort as the values do:
// TensorFlow's OrderedCode, as far as keys of checkpoints use it.
#ifndef SLUICE_CHECKPOINT_ORDERED_CODE_H_
#define SLUICE_CHECKPOINT_ORDERED_CODE_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

void AppendOrderedString(std::string_view value, std::string* to);
void AppendOrderedUnsigned(uint64_t value, std::string* to);
void AppendOrderedSigned(int64_t value, std::string* to);

}  // namespace sluice

#endif  // SLUICE_CHECKPOINT_ORDERED_CODE_H_
