#include "cluster/transport/wire_variant.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cluster/transport/wire_bytes.h"
#include "ops/tensor_array/optional.h"
#include "ops/tensor_array/tensor_list.h"

namespace sluice {
namespace {

enum Element : uint8_t { kNothing = 0, kList = 1, kOptional = 2 };
constexpr uint8_t kUnknownRank = 255;

// Checks the nesting and the number of tensors against the limits.
class Bounds {
 public:
  Status Add(int depth, int64_t tensors) {
    tensors_ += tensors;
    if (depth <= kMaxVariantNesting && tensors_ <= kMaxNestedTensors)
      return OkStatus();
    return InvalidArgument("lists for another task: expected at most ",
                           kMaxNestedTensors, " tensors, nested at most ",
                           kMaxVariantNesting, " deep, got more");
  }

 private:
  int64_t tensors_ = 0;
};

class Measure {
 public:
  int64_t bytes() const { return bytes_; }

  Status Elements(const Tensor& t, int depth) {
    for (const Variant& v : t.raw_flat<Variant>()) {
      SLUICE_RETURN_IF_ERROR(Take(1));
      if (v.empty()) continue;
      if (const TensorList* list = AsList(v)) {
        SLUICE_RETURN_IF_ERROR(bounds_.Add(depth, list->size()));
        SLUICE_RETURN_IF_ERROR(
            Take(2 + 8 * std::max(0, list->element_shape.rank()) + 12 +
                 list->size()));
        for (const Tensor& item : list->items)
          if (item.valid()) SLUICE_RETURN_IF_ERROR(Whole(item, depth));
      } else if (const auto* optional = v.get<OptionalValue>()) {
        const std::vector<Tensor> values = optional->values();
        SLUICE_RETURN_IF_ERROR(
            bounds_.Add(depth, static_cast<int64_t>(values.size())));
        SLUICE_RETURN_IF_ERROR(Take(4));
        for (const Tensor& value : values)
          SLUICE_RETURN_IF_ERROR(Whole(value, depth));
      } else {
        return InvalidArgument(
            "value for another task: expected a TensorList or an Optional in "
            "a variant, got ",
            v.value()->TypeName(),
            "; it is meaningful only in the process that made it");
      }
    }
    return OkStatus();
  }

 private:
  Status Whole(const Tensor& t, int depth) {
    SLUICE_RETURN_IF_ERROR(Take(2 + 8 * t.rank()));
    if (t.dtype() == DType::kVariant) {
      SLUICE_RETURN_IF_ERROR(bounds_.Add(depth + 1, 0));
      return Elements(t, depth + 1);
    }
    if (IsPlain(t.dtype())) return Take(static_cast<int64_t>(t.bytes()));
    if (t.dtype() != DType::kString)
      return InvalidArgument(
          "value for another task: expected plain elements, strings or lists "
          "of such, got ",
          DTypeName(t.dtype()),
          "; it is meaningful only in the process that made it");
    for (const std::string& s : t.raw_flat<std::string>())
      SLUICE_RETURN_IF_ERROR(Take(8 + static_cast<int64_t>(s.size())));
    return OkStatus();
  }
  Status Take(int64_t n) {
    bytes_ += n;
    if (bytes_ <= kMaxPackedBytes) return OkStatus();
    return InvalidArgument("lists for another task: expected at most ",
                           kMaxPackedBytes, " bytes, got more");
  }

  Bounds bounds_;
  int64_t bytes_ = 0;
};

class Packer {
 public:
  explicit Packer(char* to) : to_(to) {}

  void Elements(const Tensor& t) {
    for (const Variant& v : t.raw_flat<Variant>()) {
      if (v.empty()) {
        Put(uint8_t{kNothing});
      } else if (const TensorList* list = AsList(v)) {
        Put(uint8_t{kList});
        Put(static_cast<uint8_t>(list->dtype));
        const PartialShape& shape = list->element_shape;
        Put(shape.rank_known() ? static_cast<uint8_t>(shape.rank())
                               : kUnknownRank);
        for (const int64_t d : shape.dims()) Put(d);
        Put(list->max_size);
        Put(static_cast<uint32_t>(list->items.size()));
        for (const Tensor& item : list->items) {
          Put(static_cast<uint8_t>(item.valid()));
          if (item.valid()) Whole(item);
        }
      } else {
        const std::vector<Tensor> values = v.get<OptionalValue>()->values();
        Put(uint8_t{kOptional});
        Put(static_cast<uint32_t>(values.size()));
        for (const Tensor& value : values) Whole(value);
      }
    }
  }

 private:
  void Whole(const Tensor& t) {
    Put(static_cast<uint8_t>(t.dtype()));
    Put(static_cast<uint8_t>(t.rank()));
    for (const int64_t d : t.shape().dims()) Put(d);
    if (t.dtype() == DType::kVariant) return Elements(t);
    if (t.dtype() != DType::kString)
      return Bytes({static_cast<const char*>(t.raw()), t.bytes()});
    for (const std::string& s : t.raw_flat<std::string>())
      Put(uint64_t{s.size()});
    for (const std::string& s : t.raw_flat<std::string>()) Bytes(s);
  }
  template <typename T>
  void Put(T v) {
    Bytes({reinterpret_cast<const char*>(&v), sizeof(v)});
  }
  void Bytes(std::string_view bytes) {
    if (!bytes.empty()) std::memcpy(to_, bytes.data(), bytes.size());
    to_ += bytes.size();
  }

  char* to_;
};

class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : r_(bytes) {}
  bool empty() const { return r_.empty(); }

  Status Elements(Tensor* t, int depth) {
    for (Variant& v : t->raw_flat<Variant>()) {
      const uint8_t kind = r_.Get<uint8_t>();
      if (!r_.good()) return Truncated("variant");
      if (kind == kNothing) continue;
      if (kind == kList) {
        SLUICE_RETURN_IF_ERROR(List(&v, depth));
      } else if (kind == kOptional) {
        SLUICE_RETURN_IF_ERROR(Optional(&v, depth));
      } else {
        return InvalidArgument(
            "variant on the wire: expected a kind from 0 to 2, got ",
            int{kind});
      }
    }
    return OkStatus();
  }

 private:
  Status List(Variant* v, int depth) {
    auto list = std::make_shared<TensorList>();
    const uint8_t code = r_.Get<uint8_t>();
    const uint8_t rank = r_.Get<uint8_t>();
    if (!r_.good()) return Truncated("list");
    list->dtype = static_cast<DType>(code);
    if (!IsValidDType(code) || IsRef(list->dtype) ||
        (rank > kMaxRank && rank != kUnknownRank))
      return InvalidArgument(
          "list on the wire: expected a dtype and a rank up to ", kMaxRank,
          ", got ", int{code}, " and ", int{rank});
    if (rank != kUnknownRank) {
      list->element_shape = PartialShape::Scalar();
      for (int i = 0; i < rank; ++i) {
        const int64_t d = r_.Get<int64_t>();
        if (d < -1)
          return InvalidArgument(
              "list on the wire: expected dimensions >= -1, got ", d);
        list->element_shape.add_dim(d);
      }
    }
    list->max_size = r_.Get<int64_t>();
    const uint32_t count = r_.Get<uint32_t>();
    // (Each item takes at least a byte: check them before allocating memory.)
    if (!r_.good() || count > r_.left()) return Truncated("list");
    if (list->max_size < -1 ||
        (list->max_size >= 0 && int64_t{count} > list->max_size))
      return InvalidArgument("list on the wire: expected at most ",
                             list->max_size, " items, got ", count);
    SLUICE_RETURN_IF_ERROR(bounds_.Add(depth, count));
    SLUICE_RETURN_IF_ERROR(ResizeList(list.get(), count));
    for (Tensor& item : list->items) {
      const uint8_t set = r_.Get<uint8_t>();
      if (!r_.good()) return Truncated("list");
      if (set > 1)
        return InvalidArgument("list on the wire: expected 0 or 1, got ",
                               int{set});
      if (set == 0) continue;
      SLUICE_RETURN_IF_ERROR(Whole(&item, depth));
      if (item.dtype() != list->dtype)
        return InvalidArgument("list on the wire: expected items of ",
                               DTypeName(list->dtype), ", got one of ",
                               DTypeName(item.dtype()));
      SLUICE_RETURN_IF_ERROR(CheckItem(*list, item.shape()));
    }
    *v = Variant(std::move(list));
    return OkStatus();
  }

  Status Optional(Variant* v, int depth) {
    const uint32_t count = r_.Get<uint32_t>();
    if (!r_.good() || count > r_.left()) return Truncated("optional");
    SLUICE_RETURN_IF_ERROR(bounds_.Add(depth, count));
    std::vector<Tensor> values(count);
    for (Tensor& value : values) SLUICE_RETURN_IF_ERROR(Whole(&value, depth));
    *v = Variant(std::make_shared<OptionalValue>(std::move(values)));
    return OkStatus();
  }

  Status Whole(Tensor* t, int depth) {
    const uint8_t code = r_.Get<uint8_t>();
    const uint8_t rank = r_.Get<uint8_t>();
    const DType dtype = static_cast<DType>(code);
    if (!r_.good()) return Truncated("item");
    if (!IsValidDType(code) || IsRef(dtype) || dtype == DType::kResource ||
        rank > kMaxRank)
      return InvalidArgument(
          "item on the wire: expected plain elements, strings or variants of "
          "a rank up to ",
          kMaxRank, ", got ", int{code}, " of rank ", int{rank});
    int64_t dims[kMaxRank];
    for (int i = 0; i < rank; ++i) dims[i] = r_.Get<int64_t>();
    if (!r_.good()) return Truncated("item");
    SLUICE_ASSIGN_OR_RETURN(const Shape shape,
                            Shape::Make(std::span<const int64_t>(dims, rank)));
    const auto n = static_cast<uint64_t>(shape.num_elements());
    const uint64_t each = IsPlain(dtype)            ? DTypeSize(dtype)
                          : dtype == DType::kString ? 8
                                                    : 1;
    if (n > r_.left() / each) return Truncated("item");
    SLUICE_ASSIGN_OR_RETURN(*t, Tensor::Make(dtype, shape));
    if (dtype == DType::kVariant) {
      SLUICE_RETURN_IF_ERROR(bounds_.Add(depth + 1, 0));
      return Elements(t, depth + 1);
    }
    if (IsPlain(dtype)) {
      const std::string_view raw = r_.Bytes(n * each);
      if (!raw.empty()) std::memcpy(t->raw(), raw.data(), raw.size());
      return OkStatus();
    }
    const std::string_view lengths = r_.Bytes(8 * n);
    const auto strings = t->raw_flat<std::string>();
    for (size_t i = 0; i < strings.size(); ++i) {
      uint64_t length;
      std::memcpy(&length, lengths.data() + 8 * i, 8);
      const std::string_view s = r_.Bytes(length);
      if (!r_.good()) return Truncated("strings");
      strings[i].assign(s);
    }
    return OkStatus();
  }

  WireReader r_;
  Bounds bounds_;
};

}  // namespace

Result<int64_t> PackedVariantBytes(const Tensor& t) {
  Measure measure;
  SLUICE_RETURN_IF_ERROR(measure.Elements(t, 1));
  return measure.bytes();
}

void PackVariants(const Tensor& t, char* to) { Packer(to).Elements(t); }

Status UnpackVariants(std::string_view bytes, Tensor* t) {
  Unpacker unpacker(bytes);
  SLUICE_RETURN_IF_ERROR(unpacker.Elements(t, 1));
  if (unpacker.empty()) return OkStatus();
  return InvalidArgument("variants on the wire: expected no more bytes");
}

}  // namespace sluice
