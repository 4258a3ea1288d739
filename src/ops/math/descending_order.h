// The order of numbers from the greatest to the least.
#ifndef SLUICE_OPS_MATH_DESCENDING_ORDER_H_
#define SLUICE_OPS_MATH_DESCENDING_ORDER_H_

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

namespace sluice {

// Sorts up to 2^31 - 1 numbers: order()[i] is the index of the i-th of them.
// Equal numbers, of which 0 and -0 are two, are in the order of their indices;
// NaN comes first. T is an integer, float or double. Reused for other numbers;
// not thread-safe.
template <typename T>
class DescendingOrder {
 public:
  // `number(i)` is one of n numbers.
  template <typename Number>
  void Sort(int64_t n, Number&& number) {
    items_.resize(static_cast<size_t>(n));
    for (size_t i = 0; i < items_.size(); ++i)
      items_[i] = ItemOf(number(static_cast<int64_t>(i)), i);
    // (Below this the passes cost more than comparisons.)
    constexpr size_t kLeast = 1024;
    if constexpr (kRadix) {
      if (items_.size() >= kLeast) return SortByDigits();
    }
    std::sort(items_.begin(), items_.end());
  }
  int32_t operator[](size_t i) const {
    if constexpr (kRadix)
      return static_cast<int32_t>(items_[i] & UINT32_MAX);
    else
      return items_[i].second;
  }

 private:
  using Key = std::conditional_t<sizeof(T) <= 4, uint32_t, uint64_t>;
  static constexpr bool kRadix = sizeof(Key) == 4;
  // A key and an index. Of 32 bits each they are one number.
  using Item = std::conditional_t<kRadix, uint64_t, std::pair<Key, int32_t>>;

  // Keys are in ascending order where numbers are in descending order.
  static Key KeyOf(T v) {
    constexpr Key kSign = Key{1} << (8 * sizeof(Key) - 1);
    if constexpr (std::is_floating_point_v<T>) {
      if (v != v) return 0;
      const Key bits = std::bit_cast<Key>(v + T(0));  // (-0 becomes 0.)
      return (bits & kSign) != 0 ? bits : ~(bits | kSign);
    } else if constexpr (std::is_signed_v<T>) {
      return ~(static_cast<Key>(v) ^ kSign);
    } else {
      return ~static_cast<Key>(v);
    }
  }
  static Item ItemOf(T v, size_t i) {
    if constexpr (kRadix)
      return static_cast<uint64_t>(KeyOf(v)) << 32 | i;
    else
      return {KeyOf(v), static_cast<int32_t>(i)};
  }

  // Radix sort by three digits, the lowest first: each pass keeps the order of
  // equal digits.
  void SortByDigits() {
    constexpr int kBits = 11, kDigits = 3;
    constexpr size_t kValues = size_t{1} << kBits;
    const auto digit = [](uint64_t item, int d) {
      return (item >> (32 + kBits * d)) & (kValues - 1);
    };
    std::array<std::array<uint32_t, kValues>, kDigits> counts{};
    for (const uint64_t item : items_)
      for (int d = 0; d < kDigits; ++d)
        ++counts[static_cast<size_t>(d)][digit(item, d)];
    sorted_.resize(items_.size());
    for (int d = 0; d < kDigits; ++d) {
      auto& from = counts[static_cast<size_t>(d)];
      if (from[digit(items_[0], d)] == items_.size()) continue;  // All equal.
      uint32_t before = 0;
      for (uint32_t& c : from) before += std::exchange(c, before);
      for (const uint64_t item : items_) sorted_[from[digit(item, d)]++] = item;
      items_.swap(sorted_);
    }
  }

  std::vector<Item> items_, sorted_;
};

}  // namespace sluice

#endif  // SLUICE_OPS_MATH_DESCENDING_ORDER_H_
