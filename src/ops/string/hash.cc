// Hashes of strings and of rows of any type.
#include <string>

#include "exec/core/kernel.h"
#include "graph/op_def.h"
#include "graph/shape_context.h"
#include "ops/common/elements.h"
#include "ops/common/fingerprint.h"

namespace sluice {
namespace {

// ---- Buckets ----------------------------------------------------------------

template <uint64_t (*Hash)(std::string_view)>
class HashBucketKernel {
 public:
  explicit HashBucketKernel(const Node& n)
      : buckets_(static_cast<uint64_t>(n.AttrOr<int64_t>("num_buckets", 1))) {}

  Status Run(KernelContext& ctx) const {
    const Tensor& in = ctx.input(0);
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kInt64, in.shape()));
    int64_t* out = ctx.output(0).raw<int64_t>();
    for (const std::string& s : in.raw_flat<std::string>())
      *out++ = static_cast<int64_t>(Hash(s) % buckets_);
    return OkStatus();
  }

 private:
  const uint64_t buckets_;
};

class KeyedHashBucketKernel {
 public:
  static Result<std::shared_ptr<KeyedHashBucketKernel>> Make(const Node& n) {
    auto k = std::make_shared<KeyedHashBucketKernel>();
    const auto key = n.AttrOr<AttrValue::Ints>("key", {});
    if (key.size() != 2)
      return InvalidArgument("key: expected two integers, got ", key.size());
    k->buckets_ = static_cast<uint64_t>(n.AttrOr<int64_t>("num_buckets", 1));
    k->key0_ = static_cast<uint64_t>(key[0]);
    k->key1_ = static_cast<uint64_t>(key[1]);
    return k;
  }

  Status Run(KernelContext& ctx) const {
    const Tensor& in = ctx.input(0);
    SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kInt64, in.shape()));
    int64_t* out = ctx.output(0).raw<int64_t>();
    for (const std::string& s : in.raw_flat<std::string>())
      *out++ = static_cast<int64_t>(SipHash64(s, key0_, key1_) % buckets_);
    return OkStatus();
  }

 private:
  uint64_t buckets_ = 1, key0_ = 0, key1_ = 0;
};

SLUICE_OP(StringToHashBucketFast)
    .Input("input: string")
    .Output("output: int64")
    .Attr("num_buckets: int >= 1")
    .Family("string")
    .Shape(UnchangedShape)
    .Kernel(CpuState<HashBucketKernel<Fingerprint64>>())
    .NoGradient("strings have no derivative")
    .Sample({{.shape = {2, 3}}}, {{"num_buckets", 7}})
    .Doc(
        "The FarmHash fingerprint of each string, modulo the number of "
        "buckets.");

SLUICE_OP(StringToHashBucket)
    .Input("string_tensor: string")
    .Output("output: int64")
    .Attr("num_buckets: int >= 1")
    .Family("string")
    .Shape(UnchangedShape)
    .Kernel(CpuState<HashBucketKernel<MurmurHash64>>())
    .NoGradient("strings have no derivative")
    .Sample({{.shape = {2, 3}}}, {{"num_buckets", 7}})
    .Doc("The Murmur hash of each string, modulo the number of buckets.");

SLUICE_OP(StringToHashBucketStrong)
    .Input("input: string")
    .Output("output: int64")
    .Attr("num_buckets: int >= 1")
    .Attr("key: list(int)")
    .Family("string")
    .Shape(UnchangedShape)
    .Kernel(CpuState<KeyedHashBucketKernel>())
    .NoGradient("strings have no derivative")
    .Sample({{.shape = {2, 3}}},
            {{"num_buckets", 7}, {"key", AttrValue::Ints{3, 4}}})
    .Doc(
        "The SipHash of each string under the key, modulo the number of "
        "buckets. Without the key, colliding strings cannot be constructed.");

// ---- Fingerprint ------------------------------------------------------------

// The fingerprint of each row, as eight bytes. Strings are represented by their
// own fingerprints, unless a row is one string.
Status RunFingerprint(KernelContext& ctx) {
  const Tensor& data = ctx.input(0);
  const Tensor& method = ctx.input(1);
  if (data.rank() < 1)
    return InvalidArgument("data: expected rank 1 or more, got a scalar");
  if (method.rank() != 0)
    return InvalidArgument("method: expected a scalar, got shape ",
                           method.shape().ToString());
  if (method.raw_scalar<std::string>() != "farmhash64")
    return InvalidArgument("method: expected 'farmhash64', got '",
                           method.raw_scalar<std::string>(), "'");
  const bool strings = data.dtype() == DType::kString;
  if (!strings && DTypeSize(data.dtype()) == 0)
    return InvalidArgument("data: expected numbers or strings, got ",
                           DTypeName(data.dtype()));
  const int64_t rows = data.dim(0);
  const int64_t width = rows > 0 ? data.num_elements() / rows : 0;
  SLUICE_RETURN_IF_ERROR(ctx.Allocate(0, DType::kUint8, Shape({rows, 8})));
  uint8_t* out = ctx.output(0).raw<uint8_t>();
  std::string parts;
  for (int64_t i = 0; i < rows; ++i) {
    uint64_t f = 0;
    if (!strings) {
      const size_t bytes = static_cast<size_t>(width) * DTypeSize(data.dtype());
      f = Fingerprint64({static_cast<const char*>(
                             array::At(data.dtype(), data.raw(), i * width)),
                         bytes});
    } else if (width == 1) {
      f = Fingerprint64(data.raw<std::string>()[i]);
    } else {
      parts.clear();
      for (int64_t k = 0; k < width; ++k) {
        f = Fingerprint64(data.raw<std::string>()[i * width + k]);
        parts.append(reinterpret_cast<const char*>(&f), sizeof(f));
      }
      f = Fingerprint64(parts);
    }
    std::memcpy(out + i * 8, &f, sizeof(f));
  }
  return OkStatus();
}

Status FingerprintShape(ShapeContext& c) {
  SLUICE_ASSIGN_OR_RETURN(const PartialShape data, c.WithRankAtLeast(0, 1));
  SLUICE_RETURN_IF_ERROR(c.RequireScalar(1));
  c.set_output(0, PartialShape({data.dim(0), 8}));
  return OkStatus();
}

SLUICE_OP(Fingerprint)
    .Input("data: T")
    .Input("method: string")
    .Output("fingerprint: uint8")
    .Attr("T: type")
    .Family("string")
    .Shape(FingerprintShape)
    .Kernel(Cpu(RunFingerprint))
    .NoGradient("a fingerprint has no derivative")
    .Doc("The FarmHash fingerprint of each row, as eight bytes.");

}  // namespace
}  // namespace sluice
