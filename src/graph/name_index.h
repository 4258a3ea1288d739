// NameIndex: the nodes of a graph by name, for graphs of many nodes.
#ifndef SLUICE_GRAPH_NAME_INDEX_H_
#define SLUICE_GRAPH_NAME_INDEX_H_

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace sluice {

// Maps names to numbers: a hash table with open addressing, at most half full.
// It does not store the names: `name_of(number)` returns the name of a stored
// number, and must not change. Guarded by the Graph that owns it.
class NameIndex {
 public:
  template <typename NameOf>
  int Find(std::string_view name, const NameOf& name_of) const {  // Or -1.
    if (slots_.empty()) return -1;
    const uint32_t hash = Hash(name);
    for (size_t i = hash & mask(); slots_[i].number >= 0; i = (i + 1) & mask())
      if (slots_[i].hash == hash && name_of(slots_[i].number) == name)
        return slots_[i].number;
    return -1;
  }
  // REQUIRES: the name is not in the index.
  void Insert(std::string_view name, int number) {
    if (2 * (size_ + 1) > slots_.size()) Grow(slots_.size() * 2);
    Put({Hash(name), number});
    ++size_;
  }
  void Reserve(size_t names) {
    if (2 * names > slots_.size()) Grow(2 * names);
  }
  void Clear() {
    slots_.clear();
    size_ = 0;
  }

 private:
  struct Slot {
    uint32_t hash = 0;
    int32_t number = -1;
  };
  static uint32_t Hash(std::string_view name) {
    const uint64_t h = std::hash<std::string_view>()(name);
    return static_cast<uint32_t>(h ^ (h >> 32));
  }
  size_t mask() const { return slots_.size() - 1; }
  void Put(Slot s) {
    size_t i = s.hash & mask();
    while (slots_[i].number >= 0) i = (i + 1) & mask();
    slots_[i] = s;
  }
  void Grow(size_t least) {
    size_t n = 16;
    while (n < least) n *= 2;
    std::vector<Slot> old(n);
    old.swap(slots_);
    for (const Slot& s : old)
      if (s.number >= 0) Put(s);
  }

  std::vector<Slot> slots_;  // The size is a power of two, or 0.
  size_t size_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_GRAPH_NAME_INDEX_H_
