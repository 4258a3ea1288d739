#include "graph/tensor_proto.h"

#include <random>

#include "absl/strings/escaping.h"
#include "graph/proto/tensor.pb.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// Bytes that TensorFlow 2.21 wrote.
Result<Tensor> FromHex(const std::string& hex) {
  return ParseTensorProto(absl::HexStringToBytes(hex));
}

void ExpectRead(const std::string& hex, const Tensor& want) {
  const Result<Tensor> got = FromHex(hex);
  ASSERT_TRUE(got.ok()) << hex << ": " << got.status();
  EXPECT_TRUE(got->Identical(want))
      << got->ToString() << " want " << want.ToString();
}

void ExpectError(const proto::TensorProto& p, StatusCode code,
                 const std::string& part) {
  const Result<Tensor> t = TensorFromProto(p);
  ASSERT_FALSE(t.ok()) << p.ShortDebugString();
  EXPECT_EQ(t.status().code(), code) << t.status();
  EXPECT_NE(std::string(t.status().message()).find(part), std::string::npos)
      << t.status();
}

proto::TensorProto Of(proto::DataType dtype, std::vector<int64_t> dims) {
  proto::TensorProto p;
  p.set_dtype(dtype);
  for (int64_t d : dims) p.mutable_tensor_shape()->add_dim()->set_size(d);
  return p;
}

half HalfOf(float f) { return half(f); }

TEST(TensorProto, ReadsTensorFlowOutput) {
  ExpectRead("0801120412020803220c0000803f000020c000004040",
             Tensor::Vector<float>({1, -2.5, 3}));
  ExpectRead("080112002a040000c03f", Tensor::Scalar<float>(1.5f));
  ExpectRead("0813120812020801120208016a0380fc02",
             Tensor::Of<half>(Shape({1, 1}), {HalfOf(-1.5f)}));
  ExpectRead("08131204120208022204003e00c0",
             Tensor::Vector<half>({HalfOf(1.5f), HalfOf(-2)}));
  ExpectRead("080e12006a02c07f", Tensor::Scalar<bfloat16>(bfloat16(1.5f)));
  ExpectRead("0807120412020803420261624200420200ff",
             Tensor::Vector<std::string>({"ab", "", std::string("\0\xff", 2)}));
  ExpectRead("080812004a080000803f000000c0",
             Tensor::Scalar<complex64>(complex64(1, -2)));
  ExpectRead("080a12005a0101", Tensor::Scalar<bool>(true));
  ExpectRead("080a1204120208025a020100", Tensor::Vector<bool>({true, false}));
  ExpectRead("080612003a0afdffffffffffffffff01", Tensor::Scalar<int8_t>(-3));
  ExpectRead("081712008a010affffffffffffffffff01",
             Tensor::Scalar<uint64_t>(UINT64_MAX));
  ExpectRead("08161200820105ffffffff0f", Tensor::Scalar<uint32_t>(UINT32_MAX));
  ExpectRead("08091200520afbffffffffffffffff01", Tensor::Scalar<int64_t>(-5));
}

TEST(TensorProto, TheLastValueRepeats) {
  ExpectRead("0803120812020802120208033a020708",
             Tensor::Of<int32_t>(Shape({2, 3}), {7, 8, 8, 8, 8, 8}));
  proto::TensorProto p = Of(proto::DT_STRING, {3});
  p.add_string_val("x");
  EXPECT_TRUE(TensorFromProto(p)->Identical(
      Tensor::Vector<std::string>({"x", "x", "x"})));
  p = Of(proto::DT_COMPLEX128, {2});
  p.add_dcomplex_val(1);
  p.add_dcomplex_val(2);
  EXPECT_TRUE(TensorFromProto(p)->Identical(
      Tensor::Vector<complex128>({complex128(1, 2), complex128(1, 2)})));
}

TEST(TensorProto, NoValuesAreZeros) {
  for (int dtype = 1; dtype <= 23; ++dtype) {
    const auto t = static_cast<DType>(dtype);
    if (t == DType::kResource) continue;
    const Result<Tensor> got =
        TensorFromProto(Of(static_cast<proto::DataType>(dtype), {2, 2}));
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_TRUE(got->Identical(*Tensor::Zeros(t, Shape({2, 2}))))
        << DTypeName(t);
  }
}

TEST(TensorProto, PlainDtypesAndStringsRoundTrip) {
  const unsigned seed = 20211;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  for (int dtype = 1; dtype <= 23; ++dtype) {
    const auto t = static_cast<DType>(dtype);
    if (!IsPlain(t)) continue;
    for (const Shape& shape :
         {Shape({}), Shape({0}), Shape({1}), Shape({3, 0, 2}), Shape({5}),
          Shape({2, 1, 3}), Shape({1, 1, 1, 1, 1, 1, 1, 2})}) {
      Tensor v(t, shape);
      auto* bytes = static_cast<unsigned char*>(v.raw());
      for (size_t i = 0; i < v.bytes(); ++i)
        bytes[i] = static_cast<unsigned char>(t == DType::kBool ? random() & 1
                                                                : random());
      const Result<std::string> wire = SerializeTensorProto(v);
      ASSERT_TRUE(wire.ok()) << wire.status();
      const Result<Tensor> back = ParseTensorProto(*wire);
      ASSERT_TRUE(back.ok()) << back.status();
      EXPECT_TRUE(back->Identical(v)) << v.ToString();
    }
  }
  const Tensor s = Tensor::Of<std::string>(
      Shape({2, 1}), {std::string("\0a", 2), std::string(5000, 'z')});
  EXPECT_TRUE(ParseTensorProto(*SerializeTensorProto(s))->Identical(s));
}

TEST(TensorProto, EqualElementsAreCompressed) {
  Tensor t = *Tensor::Zeros(DType::kFloat, Shape({1000, 1000}));
  EXPECT_LT(SerializeTensorProto(t)->size(), 100u);
  EXPECT_TRUE(ParseTensorProto(*SerializeTensorProto(t))->Identical(t));
  t.data<float>()[7] = -0.0f;  // Equal to zero, with different bits.
  EXPECT_TRUE(ParseTensorProto(*SerializeTensorProto(t))->Identical(t));
}

TEST(TensorProto, StringContentIsLengthsThenBytes) {
  proto::TensorProto p = Of(proto::DT_STRING, {2});
  p.set_tensor_content(
      std::string("\x02\x01"
                  "abc"));
  EXPECT_TRUE(
      TensorFromProto(p)->Identical(Tensor::Vector<std::string>({"ab", "c"})));
  p.set_tensor_content(
      std::string("\x02\x05"
                  "abc"));
  ExpectError(p, StatusCode::kInvalidArgument, "string tensor");
  p.set_tensor_content(std::string("\x02\xff"));
  ExpectError(p, StatusCode::kInvalidArgument, "string tensor");
  p.set_tensor_content(
      std::string("\x01\x01"
                  "abc"));
  ExpectError(p, StatusCode::kInvalidArgument, "string tensor");
}

TEST(TensorProto, BoolBytesBecomeZeroOrOne) {
  proto::TensorProto p = Of(proto::DT_BOOL, {2});
  p.set_tensor_content(std::string("\x00\x80", 2));
  EXPECT_TRUE(
      TensorFromProto(p)->Identical(Tensor::Vector<bool>({false, true})));
}

TEST(TensorProto, ContentMustHaveTheBytesOfTheShape) {
  proto::TensorProto p = Of(proto::DT_FLOAT, {2});
  p.set_tensor_content("1234567");
  ExpectError(p, StatusCode::kInvalidArgument, "expected 8 bytes, got 7");
  p.set_tensor_content("123456789012");
  ExpectError(p, StatusCode::kInvalidArgument, "expected 8 bytes, got 12");
}

TEST(TensorProto, MoreValuesThanElementsAreRefused) {
  proto::TensorProto p = Of(proto::DT_FLOAT, {2});
  for (int i = 0; i < 3; ++i) p.add_float_val(1);
  ExpectError(p, StatusCode::kInvalidArgument, "at most 2 values, got 3");
  p = Of(proto::DT_STRING, {0});
  p.add_string_val("a");
  ExpectError(p, StatusCode::kInvalidArgument, "at most 0 values, got 1");
  p = Of(proto::DT_COMPLEX64, {2});
  p.add_scomplex_val(1);
  ExpectError(p, StatusCode::kInvalidArgument, "in pairs, got 1");
}

TEST(TensorProto, MalformedShapesAreRefused) {
  ExpectError(Of(proto::DT_FLOAT, {-2}), StatusCode::kInvalidArgument, "-2");
  ExpectError(Of(proto::DT_FLOAT, {-1}), StatusCode::kInvalidArgument,
              "fully known");
  ExpectError(Of(proto::DT_FLOAT, {int64_t{1} << 40, int64_t{1} << 40}),
              StatusCode::kInvalidArgument, "");
  ExpectError(Of(proto::DT_FLOAT, {1, 1, 1, 1, 1, 1, 1, 1, 1}),
              StatusCode::kInvalidArgument, "rank of at most 8, got 9");
  proto::TensorProto p = Of(proto::DT_FLOAT, {});
  p.mutable_tensor_shape()->set_unknown_rank(true);
  ExpectError(p, StatusCode::kInvalidArgument, "fully known");
}

TEST(TensorProto, HugeShapesAreRefusedBeforeAllocation) {
  ExpectError(Of(proto::DT_INT8, {int64_t{1} << 62}),
              StatusCode::kResourceExhausted, "");
  ExpectError(Of(proto::DT_DOUBLE, {int64_t{1} << 62}),
              StatusCode::kResourceExhausted, "");
  ExpectError(Of(proto::DT_STRING, {int64_t{1} << 40}),
              StatusCode::kResourceExhausted, "");
  ExpectError(Of(proto::DT_VARIANT, {int64_t{1} << 40}),
              StatusCode::kResourceExhausted, "");
  proto::TensorProto p = Of(proto::DT_DOUBLE, {int64_t{1} << 62});
  p.set_tensor_content("12345678");
  ExpectError(p, StatusCode::kInvalidArgument, "got 8");
  // A long string repeated costs its length each time.
  p = Of(proto::DT_STRING, {100000});
  p.add_string_val(std::string(100000, 'x'));
  ExpectError(p, StatusCode::kResourceExhausted, "");
}

TEST(TensorProto, LimitIsSharedByAllTensorsOfACaller) {
  TensorProtoLimits limits{1000};
  const proto::TensorProto p = Of(proto::DT_INT8, {600});
  EXPECT_TRUE(TensorFromProto(p, &limits).ok());
  EXPECT_EQ(limits.expansion_bytes, 400);
  EXPECT_EQ(TensorFromProto(p, &limits).status().code(),
            StatusCode::kResourceExhausted);
}

TEST(TensorProto, UnserializableTypesAreRefused) {
  ExpectError(Of(proto::DT_INVALID, {}), StatusCode::kInvalidArgument, "dtype");
  ExpectError(Of(proto::DT_FLOAT_REF, {}), StatusCode::kInvalidArgument,
              "value type");
  ExpectError(Of(proto::DT_RESOURCE, {}), StatusCode::kUnimplemented,
              "resource");
  ExpectError(Of(proto::DT_INT4, {}), StatusCode::kInvalidArgument, "29");
  proto::TensorProto p = Of(proto::DT_VARIANT, {});
  p.add_variant_val()->set_type_name("tensorflow::TensorList");
  ExpectError(p, StatusCode::kUnimplemented, "tensorflow::TensorList");
  EXPECT_FALSE(SerializeTensorProto(Tensor()).ok());
  EXPECT_FALSE(SerializeTensorProto(Tensor(DType::kResource, Shape())).ok());
}

TEST(TensorProto, RandomBytesGiveTensorOrError) {
  const unsigned seed = 7;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  proto::TensorProto start = Of(proto::DT_INT32, {2, 3});
  start.add_int_val(300);
  const std::string good = start.SerializeAsString();
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = good.substr(0, random() % (good.size() + 1));
    for (size_t k = random() % 4; k > 0 && !bytes.empty(); --k)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    TensorProtoLimits limits{1 << 20};
    const Result<Tensor> t = ParseTensorProto(bytes, &limits);
    EXPECT_TRUE(!t.ok() || t->valid());
  }
}

}  // namespace
}  // namespace sluice
