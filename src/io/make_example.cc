#include "io/make_example.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include "io/proto/example.pb.h"

namespace sluice {
namespace {

template <typename T, typename List>
bool AddIf(const Tensor& t, List* (proto::Feature::*list)(),
           proto::Feature* feature) {
  if (t.dtype() != DTypeOf<T>()) return false;
  auto* const values = (feature->*list)()->mutable_value();
  for (const T& v : t.flat<T>()) {
    if constexpr (std::is_same_v<List, proto::Int64List>)
      values->Add(static_cast<int64_t>(v));
    else if constexpr (std::is_same_v<List, proto::FloatList>)
      values->Add(static_cast<float>(v));
    else
      *values->Add() = v;
  }
  return true;
}

bool Add(const Tensor& t, proto::Feature* f) {
  constexpr auto kInts = &proto::Feature::mutable_int64_list;
  constexpr auto kFloats = &proto::Feature::mutable_float_list;
  return AddIf<std::string>(t, &proto::Feature::mutable_bytes_list, f) ||
         AddIf<int64_t>(t, kInts, f) || AddIf<int32_t>(t, kInts, f) ||
         AddIf<int16_t>(t, kInts, f) || AddIf<int8_t>(t, kInts, f) ||
         AddIf<uint32_t>(t, kInts, f) || AddIf<uint16_t>(t, kInts, f) ||
         AddIf<uint8_t>(t, kInts, f) || AddIf<bool>(t, kInts, f) ||
         AddIf<float>(t, kFloats, f) || AddIf<double>(t, kFloats, f) ||
         AddIf<half>(t, kFloats, f) || AddIf<bfloat16>(t, kFloats, f);
}

}  // namespace

Result<std::string> MakeExample(
    const std::vector<std::pair<std::string, Tensor>>& features) {
  proto::Example example;
  auto* const all = example.mutable_features()->mutable_feature();
  for (const auto& [name, value] : features) {
    if (!value.valid())
      return Annotate(value.status(), "feature '" + name + "'");
    if (all->count(name) > 0)
      return InvalidArgument("feature '", name,
                             "': expected one value, got several");
    if (!Add(value, &(*all)[name]))
      return InvalidArgument("feature '", name,
                             "': expected numbers or strings, got ",
                             DTypeName(value.dtype()));
  }
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    // (Maps have no order of their own.)
    coded.SetSerializationDeterministic(true);
    if (!example.SerializeToCodedStream(&coded))
      return InvalidArgument("example: expected less than 2 GiB, got more");
  }
  return bytes;
}

}  // namespace sluice
