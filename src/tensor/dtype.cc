#include "tensor/dtype.h"

namespace sluice {
namespace {

struct Info {
  DType type;
  const char* name;
  const char* alias;  // Or null.
  size_t size;
};

constexpr Info kInfos[] = {
    {DType::kFloat, "float", "float32", 4},
    {DType::kDouble, "double", "float64", 8},
    {DType::kInt32, "int32", nullptr, 4},
    {DType::kUint8, "uint8", nullptr, 1},
    {DType::kInt16, "int16", nullptr, 2},
    {DType::kInt8, "int8", nullptr, 1},
    {DType::kString, "string", nullptr, 0},
    {DType::kComplex64, "complex64", nullptr, 8},
    {DType::kInt64, "int64", nullptr, 8},
    {DType::kBool, "bool", nullptr, 1},
    {DType::kQint8, "qint8", nullptr, 1},
    {DType::kQuint8, "quint8", nullptr, 1},
    {DType::kQint32, "qint32", nullptr, 4},
    {DType::kBfloat16, "bfloat16", nullptr, 2},
    {DType::kQint16, "qint16", nullptr, 2},
    {DType::kQuint16, "quint16", nullptr, 2},
    {DType::kUint16, "uint16", nullptr, 2},
    {DType::kComplex128, "complex128", nullptr, 16},
    {DType::kHalf, "half", "float16", 2},
    {DType::kResource, "resource", nullptr, 0},
    {DType::kVariant, "variant", nullptr, 0},
    {DType::kUint32, "uint32", nullptr, 4},
    {DType::kUint64, "uint64", nullptr, 8},
};

const Info* Find(DType t) {
  const int i = static_cast<int>(t) - 1;
  return i >= 0 && i < static_cast<int>(std::size(kInfos)) ? &kInfos[i]
                                                           : nullptr;
}

std::string Lower(std::string_view s) {
  std::string out(s);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

}  // namespace

size_t DTypeSize(DType t) {
  const Info* info = Find(t);
  return info == nullptr ? 0 : info->size;
}

std::string DTypeName(DType t) {
  const Info* info = Find(RemoveRef(t));
  if (info == nullptr) return "invalid";
  return IsRef(t) ? std::string(info->name) + "_ref" : info->name;
}

std::optional<DType> ParseDType(std::string_view name) {
  std::string s = Lower(name);
  if (s.starts_with("dt_")) s = s.substr(3);
  bool ref = false;
  if (s.ends_with("_ref")) {
    ref = true;
    s.resize(s.size() - 4);
  }
  for (const Info& info : kInfos)
    if (s == info.name || (info.alias != nullptr && s == info.alias))
      return ref ? MakeRef(info.type) : info.type;
  return std::nullopt;
}

bool IsValidDType(int value) {
  if (value > kRefOffset) value -= kRefOffset;
  return value >= 1 && value <= static_cast<int>(std::size(kInfos));
}

bool IsInteger(DType t) {
  switch (t) {
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
    case DType::kUint8:
    case DType::kUint16:
    case DType::kUint32:
    case DType::kUint64:
      return true;
    default:
      return false;
  }
}

bool IsQuantized(DType t) {
  switch (t) {
    case DType::kQint8:
    case DType::kQuint8:
    case DType::kQint16:
    case DType::kQuint16:
    case DType::kQint32:
      return true;
    default:
      return false;
  }
}

}  // namespace sluice
