#include "io/npy.h"

#include <unistd.h>

#include <random>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "io/file.h"
#include "io/zip.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

// Files that numpy 2 wrote, in base64.
constexpr char kFloats[] =
    "k05VTVBZAQB2AHsnZGVzY3InOiAnPGY0JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZS"
    "wgJ3NoYXBlJzogKDIsIDMpLCB9ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAAAAAACAPwAAAEAAAEBAAACAQA"
    "AAoEA=";
constexpr char kFortran[] =
    "k05VTVBZAQB2AHsnZGVzY3InOiAnPGk0JywgJ2ZvcnRyYW5fb3JkZXInOiBUcnVlLC"
    "Anc2hhcGUnOiAoMiwgMywgNCksIH0gICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAAAADAAAAAQAAAAQAAAACAAAAB"
    "QAAAABAAAADQAAAAUAAAARAAAACQAAABUAAAACAAAADgAAAAYAAAASAAAACgAAABYA"
    "AAADAAAADwAAAAcAAAATAAAACwAAABcAAAA=";
constexpr char kBigEndian[] =
    "k05VTVBZAQB2AHsnZGVzY3InOiAnPmY4JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZS"
    "wgJ3NoYXBlJzogKDIsKSwgfSAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgIAo/+AAAAAAAAMAAAAAAAAAA";
constexpr char kBigEndianComplex[] =
    "k05VTVBZAQB2AHsnZGVzY3InOiAnPmM4JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZS"
    "wgJ3NoYXBlJzogKDEsKSwgfSAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgIAo/gAAAQAAAAA==";
constexpr char kScalar[] =
    "k05VTVBZAQB2AHsnZGVzY3InOiAnPGk4JywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZS"
    "wgJ3NoYXBlJzogKCksIH0gICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgIAr5/////////w==";
constexpr char kBytes[] =
    "k05VTVBZAQB2AHsnZGVzY3InOiAnfFMzJywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZS"
    "wgJ3NoYXBlJzogKDMsKSwgfSAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgIAphYgAAAAB4eXo=";
constexpr char kUnicode[] =
    "k05VTVBZAQB2AHsnZGVzY3InOiAnPFUyJywgJ2ZvcnRyYW5fb3JkZXInOiBGYWxzZS"
    "wgJ3NoYXBlJzogKDMsKSwgfSAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgIArpAAAAAAAAAOVlAAAsZwAAAAAAAA"
    "AAAAA=";
constexpr char kVersion2[] =
    "k05VTVBZAgB0AAAAeydkZXNjcic6ICd8YjEnLCAnZm9ydHJhbl9vcmRlcic6IEZhbH"
    "NlLCAnc2hhcGUnOiAoMiwpLCB9ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoBAA==";
constexpr char kObjects[] =
    "k05VTVBZAQB2AHsnZGVzY3InOiAnfE8nLCAnZm9ydHJhbl9vcmRlcic6IEZhbHNlLC"
    "Anc2hhcGUnOiAoMiwpLCB9ICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgIAqABJWNAAAAAAAAAIwWbnVtcHkuX2"
    "NvcmUubXVsdGlhcnJheZSMDF9yZWNvbnN0cnVjdJSTlIwFbnVtcHmUjAduZGFycmF5"
    "lJOUSwCFlEMBYpSHlFKUKEsBSwKFlGgDjAVkdHlwZZSTlIwCTziUiYiHlFKUKEsDjA"
    "F8lE5OTkr/////Sv////9LP3SUYoldlChLAU5ldJRiLg==";
constexpr char kRecords[] =
    "k05VTVBZAQB2AHsnZGVzY3InOiBbKCdhJywgJzxpNCcpXSwgJ2ZvcnRyYW5fb3JkZX"
    "InOiBGYWxzZSwgJ3NoYXBlJzogKDIsKSwgfSAgICAgICAgICAgICAgICAgICAgICAg"
    "ICAgICAgICAgICAgICAgICAgICAgICAgICAgIAoAAAAAAAAAAA==";
constexpr char kStored[] =
    "UEsDBC0AAAAAAAAAIQD3QBLq//////////8FABQAYS5ucHkBABAAmAAAAAAAAACYAA"
    "AAAAAAAJNOVU1QWQEAdgB7J2Rlc2NyJzogJzxpOCcsICdmb3J0cmFuX29yZGVyJzog"
    "RmFsc2UsICdzaGFwZSc6ICgzLCksIH0gICAgICAgICAgICAgICAgICAgICAgICAgIC"
    "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAKAAAAAAAAAAABAAAAAAAA"
    "AAIAAAAAAAAAUEsDBC0AAAAAAAAAIQDGqKZW//////////8FABQAYi5ucHkBABAAhA"
    "AAAAAAAACEAAAAAAAAAJNOVU1QWQEAdgB7J2Rlc2NyJzogJzxmNCcsICdmb3J0cmFu"
    "X29yZGVyJzogRmFsc2UsICdzaGFwZSc6ICgpLCB9ICAgICAgICAgICAgICAgICAgIC"
    "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAKAAAAQFBL"
    "AQItAy0AAAAAAAAAIQD3QBLqmAAAAJgAAAAFAAAAAAAAAAAAAACAAQAAAABhLm5weV"
    "BLAQItAy0AAAAAAAAAIQDGqKZWhAAAAIQAAAAFAAAAAAAAAAAAAACAAc8AAABiLm5w"
    "eVBLBQYAAAAAAgACAGYAAACKAQAAAAA=";
constexpr char kDeflated[] =
    "UEsDBC0AAAAIAAAAIQB8fZ0a//////////8FABQAYS5ucHkBABAAoAMAAAAAAABOAA"
    "AAAAAAAJvsF+obEMnIUMZQrZ6SWpxcpG6loG6TZqGuo6Cell9UUpSYF59flJIKEndL"
    "zClOBYoXZyQWpAL5GoYGBjqaOgq1CmQDLoZRMApGAU4AAFBLAwQtAAAACAAAACEAl5"
    "OYcf//////////BQAUAGIubnB5AQAQAIEAAAAAAAAARQAAAAAAAACb7BfqGxDJyFDG"
    "UK2eklqcXKRupaBeE2yorqOgnpZfVFKUmBefX5SSChJ3S8wpTgWKF2ckFqQC+RqGOp"
    "o6CrUKFACuQgBQSwECLQMtAAAACAAAACEAfH2dGk4AAACgAwAABQAAAAAAAAAAAAAA"
    "gAEAAAAAYS5ucHlQSwECLQMtAAAACAAAACEAl5OYcUUAAACBAAAABQAAAAAAAAAAAA"
    "AAgAGFAAAAYi5ucHlQSwUGAAAAAAIAAgBmAAAAAQEAAAAA";

std::string Decode(const char* base64) {
  std::string bytes;
  EXPECT_TRUE(absl::Base64Unescape(base64, &bytes));
  return bytes;
}

void ExpectRead(const char* base64, const Tensor& want) {
  const Result<Tensor> got = ParseNpy(Decode(base64));
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_TRUE(got->Identical(want))
      << got->ToString() << " want " << want.ToString();
}

void ExpectError(const std::string& bytes, StatusCode code,
                 const std::string& part) {
  const Result<Tensor> got = ParseNpy(bytes);
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.status().code(), code) << got.status();
  EXPECT_THAT(std::string(got.status().message()), HasSubstr(part));
}

// A version 1 file with this header.
std::string File(const std::string& header, const std::string& data) {
  std::string out("\x93NUMPY\x01\0", 8);
  out += static_cast<char>(header.size());
  out += '\0';
  return out + header + data;
}

TEST(Npy, ReadsNumpyOutput) {
  ExpectRead(kFloats, Tensor::Of<float>(Shape({2, 3}), {0, 1, 2, 3, 4, 5}));
  std::vector<int32_t> counted(24);
  for (int i = 0; i < 24; ++i) counted[static_cast<size_t>(i)] = i;
  ExpectRead(kFortran, Tensor::Of<int32_t>(Shape({2, 3, 4}), counted));
  ExpectRead(kBigEndian, Tensor::Vector<double>({1.5, -2}));
  ExpectRead(kBigEndianComplex, Tensor::Vector<complex64>({complex64(1, 2)}));
  ExpectRead(kScalar, Tensor::Scalar<int64_t>(-7));
  ExpectRead(kBytes, Tensor::Vector<std::string>({"ab", "", "xyz"}));
  ExpectRead(kUnicode, Tensor::Vector<std::string>(
                           {"\xc3\xa9", "\xe6\x97\xa5\xe6\x9c\xac", ""}));
  ExpectRead(kVersion2, Tensor::Vector<bool>({true, false}));
}

TEST(Npy, WritesTheSameBytesAsNumpy) {
  for (const char* file : {kFloats, kScalar, kBytes}) {
    const std::string bytes = Decode(file);
    EXPECT_EQ(*SerializeNpy(*ParseNpy(bytes)), bytes);
  }
}

TEST(Npy, NumpyTypesRoundTrip) {
  const unsigned seed = 3;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  for (int i = 1; i <= 23; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (!IsPlain(dtype) || IsQuantized(dtype)) continue;
    for (const Shape& shape : {Shape({}), Shape({0, 3}), Shape({5}),
                               Shape({2, 3, 1, 1, 2, 1, 1, 2})}) {
      Tensor t(dtype, shape);
      auto* bytes = static_cast<unsigned char*>(t.raw());
      for (size_t k = 0; k < t.bytes(); ++k)
        bytes[k] = static_cast<unsigned char>(
            dtype == DType::kBool ? random() & 1 : random());
      const Result<std::string> file = SerializeNpy(t);
      ASSERT_TRUE(file.ok()) << file.status();
      const Result<Tensor> back = ParseNpy(*file);
      ASSERT_TRUE(back.ok()) << back.status();
      EXPECT_TRUE(back->Identical(t)) << DTypeName(dtype);
    }
  }
}

TEST(Npy, TypesUnknownToNumpyAreErrors) {
  EXPECT_FALSE(SerializeNpy(Tensor()).ok());
  EXPECT_FALSE(SerializeNpy(Tensor(DType::kQint8, Shape({2}))).ok());
  EXPECT_FALSE(SerializeNpy(Tensor(DType::kVariant, Shape())).ok());
  EXPECT_FALSE(
      SerializeNpy(Tensor::Scalar<std::string>(std::string("a\0", 2))).ok());
  ExpectError(Decode(kObjects), StatusCode::kUnimplemented, "got '|O'");
  ExpectError(Decode(kRecords), StatusCode::kInvalidArgument, "record");
}

TEST(Npy, MalformedFilesAreErrors) {
  const StatusCode bad = StatusCode::kInvalidArgument;
  ExpectError("", bad, "NUMPY");
  ExpectError(std::string("\x93NUMPY\x04\0\0\0\0\0", 12), bad, "got 4");
  ExpectError(std::string("\x93NUMPY\x01\0\xff\xff", 10), bad, "65535");
  ExpectError(File("[1]", ""), bad, "dictionary");
  ExpectError(File("{'descr': '<f4', 'fortran_order': False}", ""), bad,
              "keys");
  const std::string start =
      "{'descr': '<f4', 'fortran_order': False, 'shape': ";
  ExpectError(File(start + "(2,)}", "1234"), bad, "8 bytes of data");
  ExpectError(File(start + "(2,)}", "123456789"), bad, "got 9");
  ExpectError(File(start + "(-1,)}", ""), bad, "at least 0");
  ExpectError(File(start + "(99999999999999999999,)}", ""), bad, "int64");
  ExpectError(File(start + "(4611686018427387904, 4611686018427387904)}", ""),
              bad, "");
  ExpectError(File(start + "(4611686018427387904,)}", ""), bad, "-1 bytes");
  ExpectError(File(start + "(1,1,1,1,1,1,1,1,1)}", "1234"), bad, "");
  ExpectError(File("{'descr': '|S0', 'fortran_order': False, 'shape': "
                   "(1099511627776,)}",
                   ""),
              bad, "empty strings");
  ExpectError(File("{'descr': '<f16', 'fortran_order': False, 'shape': ()}",
                   std::string(16, 'x')),
              StatusCode::kUnimplemented, "'<f16'");
  ExpectError(File("{'descr': '<U9223372036854775807', 'fortran_order': False, "
                   "'shape': (0,)}",
                   ""),
              bad, "2 GiB");
  ExpectError(File("{'descr': '<U1', 'fortran_order': False, 'shape': ()}",
                   "\xff\xff\xff\xff"),
              bad, "code points");
}

TEST(Npz, ReadsStoredAndDeflatedMembers) {
  const auto stored = ParseNpz(Decode(kStored));
  ASSERT_TRUE(stored.ok()) << stored.status();
  ASSERT_EQ(stored->size(), 2u);
  EXPECT_TRUE(stored->at("a").Identical(Tensor::Vector<int64_t>({0, 1, 2})));
  EXPECT_TRUE(stored->at("b").Identical(Tensor::Scalar<float>(2)));
  const auto deflated = ParseNpz(Decode(kDeflated));
  ASSERT_TRUE(deflated.ok()) << deflated.status();
  EXPECT_TRUE(deflated->at("a").Identical(
      *Tensor::Zeros(DType::kDouble, Shape({100}))));
  EXPECT_TRUE(deflated->at("b").Identical(Tensor::Vector<std::string>({"q"})));
}

TEST(Npz, RoundTrips) {
  const NamedTensors arrays = {
      {"x", *Tensor::Zeros(DType::kFloat, Shape({40, 40}))},
      {"empty", Tensor(DType::kInt32, Shape({0}))},
      {"text", Tensor::Vector<std::string>({"a", "bc"})}};
  for (const bool compress : {false, true}) {
    const Result<std::string> file = SerializeNpz(arrays, compress);
    ASSERT_TRUE(file.ok()) << file.status();
    EXPECT_EQ(file->size() < 2000, compress);
    const auto back = ParseNpz(*file);
    ASSERT_TRUE(back.ok()) << back.status();
    ASSERT_EQ(back->size(), arrays.size());
    for (const auto& [name, tensor] : arrays)
      EXPECT_TRUE(back->at(name).Identical(tensor)) << name;
  }
  EXPECT_FALSE(SerializeNpz({arrays[0], arrays[0]}).ok());
}

TEST(Npz, DamagedArchivesAreErrors) {
  const std::string good = Decode(kDeflated);
  EXPECT_FALSE(ParseNpz("").ok());
  for (size_t n = 0; n < good.size(); ++n)
    EXPECT_FALSE(ParseNpz(good.substr(0, n)).ok()) << n;
  std::string flipped = good;
  flipped[60] = static_cast<char>(flipped[60] ^ 1);  // In the deflated data.
  EXPECT_EQ(ParseNpz(flipped).status().code(), StatusCode::kDataLoss);
  // The directory claims a size that no such deflated data can have.
  std::string lying = good;
  const size_t entry = good.find("PK\x01\x02");
  lying[entry + 27] = '\x7f';
  EXPECT_EQ(ParseNpz(lying).status().code(), StatusCode::kInvalidArgument);
  std::string zip64 = good;
  for (size_t i = 24; i < 28; ++i) zip64[entry + i] = '\xff';
  EXPECT_EQ(ParseNpz(zip64).status().code(), StatusCode::kUnimplemented);
  std::string encrypted = good;
  encrypted[entry + 8] = '\1';
  EXPECT_EQ(ParseNpz(encrypted).status().code(), StatusCode::kUnimplemented);
}

TEST(Npz, RandomDamageGivesArchiveOrError) {
  const unsigned seed = 5;
  SCOPED_TRACE(absl::StrCat("seed ", seed));
  std::mt19937 random(seed);
  for (const char* file : {kStored, kDeflated}) {
    const std::string good = Decode(file);
    int read = 0;
    for (int i = 0; i < 5000; ++i) {
      std::string bytes = good;
      for (size_t k = random() % 4; k > 0; --k)
        bytes[random() % bytes.size()] = static_cast<char>(random());
      if (ParseNpz(bytes).ok()) ++read;
    }
    EXPECT_GT(read, 0);
  }
}

TEST(Files, MissingFilesAreNotFound) {
  EXPECT_EQ(ReadNpy("no/such/file.npy").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(WriteFile("no/such/file", "x").code(), StatusCode::kNotFound);
  EXPECT_FALSE(ReadFile("/").ok());
  const std::string path =
      absl::StrCat(::testing::TempDir(), "sluice_npy_", getpid(), ".npy");
  const Tensor t = Tensor::Vector<float>({1, 2});
  ASSERT_TRUE(WriteNpy(path, t).ok());
  EXPECT_TRUE(ReadNpy(path)->Identical(t));
  EXPECT_EQ(ReadFile(path, 3).status().code(), StatusCode::kResourceExhausted);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace sluice
