// Attribute values of nodes, of every kind that TensorFlow's GraphDef has.
//
//   AttrMap attrs = {{"T", DType::kFloat}, {"transpose_b", true}};
//   const bool* transpose = attrs["transpose_b"].get<bool>();  // Or null.
#ifndef SLUICE_GRAPH_ATTR_H_
#define SLUICE_GRAPH_ATTR_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tensor/tensor.h"

namespace sluice {

class AttrValue;
using AttrMap = std::map<std::string, AttrValue, std::less<>>;

// A function of the library with its attributes bound.
struct FunctionRef {
  std::string name;
  std::shared_ptr<const AttrMap> attrs;  // Null if there are none.
  bool operator==(const FunctionRef& o) const;
};

// The kinds of an attribute; each may also be a list.
enum class AttrKind : uint8_t {
  kNone,
  kInt,
  kFloat,
  kBool,
  kString,
  kType,
  kShape,
  kTensor,
  kFunction
};

// An immutable value. An empty list of unknown kind is EmptyList; the op's
// declaration says which kind it is.
class AttrValue {
 public:
  using Ints = std::vector<int64_t>;
  using Floats = std::vector<float>;
  using Bools = std::vector<bool>;
  using Strings = std::vector<std::string>;
  using Types = std::vector<DType>;
  using Shapes = std::vector<PartialShape>;
  using Tensors = std::vector<Tensor>;
  using Functions = std::vector<FunctionRef>;
  struct EmptyList {};
  struct Placeholder {
    std::string name;
  };  // In function bodies: "$T".
  using Value = std::variant<std::monostate, int64_t, float, bool, std::string,
                             DType, PartialShape, Tensor, FunctionRef, Ints,
                             Floats, Bools, Strings, Types, Shapes, Tensors,
                             Functions, EmptyList, Placeholder>;

  AttrValue() = default;
  AttrValue(int64_t v) : v_(v) {}                     // NOLINT
  AttrValue(int v) : v_(int64_t{v}) {}                // NOLINT
  AttrValue(float v) : v_(v) {}                       // NOLINT
  AttrValue(double v) : v_(static_cast<float>(v)) {}  // NOLINT
  template <std::same_as<bool> B>                     // (Not a pointer.)
  AttrValue(B v) : v_(v) {}                           // NOLINT
  AttrValue(std::nullptr_t) = delete;
  AttrValue(std::string v) : v_(std::move(v)) {}    // NOLINT
  AttrValue(const char* v) : v_(std::string(v)) {}  // NOLINT
  AttrValue(DType v) : v_(v) {}                     // NOLINT
  AttrValue(PartialShape v) : v_(std::move(v)) {}   // NOLINT
  AttrValue(Shape v) : v_(PartialShape(v)) {}       // NOLINT
  AttrValue(Tensor v) : v_(std::move(v)) {}         // NOLINT
  AttrValue(FunctionRef v) : v_(std::move(v)) {}    // NOLINT
  AttrValue(Ints v) : v_(std::move(v)) {}           // NOLINT
  AttrValue(Floats v) : v_(std::move(v)) {}         // NOLINT
  AttrValue(Bools v) : v_(std::move(v)) {}          // NOLINT
  AttrValue(Strings v) : v_(std::move(v)) {}        // NOLINT
  AttrValue(Types v) : v_(std::move(v)) {}          // NOLINT
  AttrValue(Shapes v) : v_(std::move(v)) {}         // NOLINT
  AttrValue(Tensors v) : v_(std::move(v)) {}        // NOLINT
  AttrValue(Functions v) : v_(std::move(v)) {}      // NOLINT
  AttrValue(EmptyList v) : v_(v) {}                 // NOLINT
  AttrValue(Placeholder v) : v_(std::move(v)) {}    // NOLINT

  // Null if the value is of another kind.
  template <typename T>
  const T* get() const {
    return std::get_if<T>(&v_);
  }
  const Value& value() const { return v_; }
  // kNone for no value, an EmptyList and a Placeholder.
  AttrKind kind() const;
  bool is_list() const;
  // Equal values (tensors: identical bits).
  bool operator==(const AttrValue& o) const;
  // As in op listings: 3, 'SAME', [1,2], float, [2,3].
  std::string ToString() const;

 private:
  Value v_;
};

// An empty list of the given kind.
AttrValue EmptyListOf(AttrKind kind);

}  // namespace sluice

#endif  // SLUICE_GRAPH_ATTR_H_
