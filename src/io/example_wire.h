// The messages of io/proto/example.proto, read from the wire one by one. Shared
// by io/example.cc and io/sequence_example.cc.
#ifndef SLUICE_IO_EXAMPLE_WIRE_H_
#define SLUICE_IO_EXAMPLE_WIRE_H_

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/wire.h"
#include "tensor/tensor.h"

namespace sluice::example {

// A Feature: the type of its values, and the BytesList, FloatList or Int64List
// that holds them. kInvalid: it has none.
struct FeatureView {
  DType kind = DType::kInvalid;
  std::string_view list;
};

inline bool ReadFeature(std::string_view bytes, FeatureView* out) {
  FieldReader r(bytes);
  WireTag tag;
  while (r.ReadTag(&tag)) {
    if (tag.type != WireType::kBytes || tag.field > 3) {
      if (!r.Skip(tag)) return false;
      continue;
    }
    out->kind = tag.field == 1   ? DType::kString
                : tag.field == 2 ? DType::kFloat
                                 : DType::kInt64;
    return r.ReadBytes(&out->list);
  }
  return r.done();
}

// Calls f(key, value) for each entry of the maps in field `field` of the
// message: the map is field 1 of the message there. False if it is malformed.
template <typename F>
bool ForEachEntry(std::string_view message, uint32_t field, F&& f) {
  FieldReader outer(message);
  WireTag tag;
  while (outer.ReadTag(&tag)) {
    if (!tag.Is(field, WireType::kBytes)) {
      if (!outer.Skip(tag)) return false;
      continue;
    }
    std::string_view map;
    if (!outer.ReadBytes(&map)) return false;
    FieldReader entries(map);
    while (entries.ReadTag(&tag)) {
      if (!tag.Is(1, WireType::kBytes)) {
        if (!entries.Skip(tag)) return false;
        continue;
      }
      std::string_view entry, key, value;
      if (!entries.ReadBytes(&entry)) return false;
      FieldReader parts(entry);
      while (parts.ReadTag(&tag)) {
        const bool known = tag.type == WireType::kBytes && tag.field <= 2;
        if (!(known ? parts.ReadBytes(tag.field == 1 ? &key : &value)
                    : parts.Skip(tag)))
          return false;
      }
      if (!parts.done()) return false;
      f(key, value);
    }
    if (!entries.done()) return false;
  }
  return outer.done();
}

// Values in a buffer of fixed size; further ones are only counted.
template <typename T>
struct Bounded {
  T* out;
  int64_t limit;
  int64_t count = 0;
  template <typename V>
  void Push(V v) {
    if (count++ < limit) out[count - 1] = T(v);
  }
  void Floats(const char* from, size_t n) {
    const int64_t fit =
        std::min(static_cast<int64_t>(n), std::max<int64_t>(limit - count, 0));
    if (fit > 0)
      std::memcpy(out + count, from, static_cast<size_t>(fit) * sizeof(float));
    count += static_cast<int64_t>(n);
  }
};

// Strings stay where they are until their number is known.
template <typename T>
using Kept =
    std::conditional_t<std::is_same_v<T, std::string>, std::string_view, T>;

template <typename T>
struct Unbounded {
  std::vector<T>* out;
  void Push(T v) { out->push_back(v); }
  void Floats(const char* from, size_t n) {
    if (n == 0) return;  // memcpy takes no null pointer.
    const size_t before = out->size();
    out->resize(before + n);
    std::memcpy(out->data() + before, from, n * sizeof(float));
  }
};

// Gives the values of a list of T (float, int64_t or std::string) to the sink.
// False if it is malformed.
template <typename T, typename Sink>
bool ReadValues(std::string_view list, Sink& sink) {
  FieldReader r(list);
  WireTag tag;
  while (r.ReadTag(&tag)) {
    std::string_view bytes;
    if (tag.field != 1) {
      if (!r.Skip(tag)) return false;
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (tag.type != WireType::kBytes || !r.ReadBytes(&bytes)) return false;
      sink.Push(bytes);
    } else if constexpr (std::is_same_v<T, float>) {
      if (tag.type == WireType::kFixed32) {
        float v = 0;
        if (!r.ReadFixed(&v)) return false;
        sink.Push(v);
        continue;
      }
      if (tag.type != WireType::kBytes || !r.ReadBytes(&bytes) ||
          bytes.size() % sizeof(float) != 0)
        return false;
      sink.Floats(bytes.data(), bytes.size() / sizeof(float));
    } else {
      uint64_t v = 0;
      if (tag.type == WireType::kVarint) {
        if (!r.ReadVarint(&v)) return false;
        sink.Push(static_cast<int64_t>(v));
        continue;
      }
      if (tag.type != WireType::kBytes || !r.ReadBytes(&bytes)) return false;
      FieldReader packed(bytes);
      while (packed.ReadVarint(&v)) sink.Push(static_cast<int64_t>(v));
      if (!packed.done()) return false;
    }
  }
  return r.done();
}

// The values of one feature of many examples, one after the other.
struct ValueBuffer {
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string_view> strings;

  template <typename T>
  std::vector<Kept<T>>& of() {
    if constexpr (std::is_same_v<T, float>)
      return floats;
    else if constexpr (std::is_same_v<T, int64_t>)
      return ints;
    else
      return strings;
  }
};

// Calls f(T()) with the C++ type of `t`: float, int64 or, else, string.
template <typename F>
auto ByValueType(DType t, F&& f) {
  if (t == DType::kFloat) return f(float());
  if (t == DType::kInt64) return f(int64_t());
  return f(std::string());
}

inline bool IsValueType(DType t) {
  return t == DType::kFloat || t == DType::kInt64 || t == DType::kString;
}

// Finds the number of a key. Writers write the features of each example in
// mostly the same order, so it first tries the key that came at the same place
// before, and hashes only if that is another. Not thread-safe; refers to the
// keys that were added.
class KeyFinder {
 public:
  // Returns false if the key is there already.
  bool Add(std::string_view key) {
    keys_.push_back(key);
    return numbers_
        .try_emplace(absl::string_view(key.data(), key.size()),
                     static_cast<int>(keys_.size()) - 1)
        .second;
  }
  size_t size() const { return keys_.size(); }
  // -1 if there is no such key. `place`: of the entry in its example.
  int Find(std::string_view key, size_t place) {
    if (place >= guesses_.size()) guesses_.resize(place + 1, -1);
    const int guess = guesses_[place];
    if (guess >= 0 && keys_[static_cast<size_t>(guess)] == key) return guess;
    const auto it = numbers_.find(absl::string_view(key.data(), key.size()));
    if (it == numbers_.end()) return -1;
    return guesses_[place] = it->second;
  }

 private:
  std::vector<std::string_view> keys_;
  absl::flat_hash_map<absl::string_view, int> numbers_;
  std::vector<int> guesses_;  // By place; -1: none.
};

// "serialized[3] (name 'a')", for messages.
std::string ExampleName(const Tensor& serialized, const Tensor& names,
                        int64_t i);

// InvalidArgument unless serialized is a scalar or vector of strings, and names
// has as many or none.
Status CheckSerialized(const Tensor& serialized, const Tensor& names);

}  // namespace sluice::example

#endif  // SLUICE_IO_EXAMPLE_WIRE_H_
