// Elements that are objects: handles to mutable state, and opaque values.
#ifndef SLUICE_TENSOR_OBJECT_H_
#define SLUICE_TENSOR_OBJECT_H_

#include <memory>
#include <string>
#include <utility>

namespace sluice {

// Mutable state that outlives a step: a variable, a mutex, a queue. Owned by
// shared_ptr: the container that names it, and the handles that point to it.
// Each resource synchronises itself.
class Resource {
 public:
  // The types that are asked for on the path of every step; a dynamic_cast
  // costs tens of nanoseconds.
  enum class Kind : uint8_t { kOther, kVariable };

  explicit Resource(Kind kind = Kind::kOther) : kind_(kind) {}
  virtual ~Resource() = default;
  Kind kind() const { return kind_; }
  // For messages: "Variable", "Mutex".
  virtual std::string TypeName() const = 0;

 private:
  const Kind kind_;
};

// The element type of DType::kResource.
struct ResourceHandle {
  std::string container;
  std::string name;
  std::shared_ptr<Resource> resource;
};

// The element type of DType::kVariant: a shared, immutable value of any type.
// Copies share the value; to change it, make a new one.
class Variant {
 public:
  class Value {
   public:
    virtual ~Value() = default;
    virtual std::string TypeName() const = 0;
  };
  Variant() = default;
  explicit Variant(std::shared_ptr<const Value> v) : value_(std::move(v)) {}
  bool empty() const { return value_ == nullptr; }
  // Null if empty or of another type.
  template <typename T>
  const T* get() const {
    return dynamic_cast<const T*>(value_.get());
  }
  const Value* value() const { return value_.get(); }
  // True if this is the only reference: its owner may move parts out of it.
  bool unique() const { return value_.use_count() == 1; }

 private:
  std::shared_ptr<const Value> value_;
};

}  // namespace sluice

#endif  // SLUICE_TENSOR_OBJECT_H_
