// Layers of quantised networks: TensorFlow's numbers, and errors.
#include <cmath>
#include <random>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "session/session.h"
#include "sluice/ops.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

// Recorded from TensorFlow 2.21 (oneDNN): the inputs of both convolutions and
// of all products, and their results.
const std::vector<uint8_t> kLayerImage = {
    121, 131, 193, 243, 8,   36,  210, 242, 63,  79,  222, 108, 69,
    211, 65,  104, 164, 140, 21,  7,   221, 192, 214, 137, 209, 84,
    115, 201, 31,  77,  31,  116, 250, 34,  98,  103, 231, 52,  128,
    67,  5,   192, 15,  71,  127, 124, 29,  251, 191, 246};
const std::vector<int8_t> kLayerFilter = {
    -104, 57,   -53, 11, 108,  -57, 58,  -87, -45,  120,  -20, 4,  -53, -98,
    -19,  31,   -11, 71, -35,  29,  70,  106, -19,  -117, 56,  7,  95,  -10,
    -34,  -112, -11, 36, 69,   90,  -73, 24,  78,   -61,  -40, 87, 21,  2,
    44,   3,    123, 65, -114, -90, 11,  82,  -110, 47,   66,  73};
const std::vector<uint8_t> kLayerRelu = {
    73,  0, 40, 96,  0,  0,  110, 0,  7,  70,  0, 12, 66, 0,  0,
    110, 0, 28, 139, 0,  0,  98,  9,  6,  139, 0, 0,  53, 48, 0,
    86,  0, 6,  93,  44, 28, 110, 0,  1,  92,  0, 7,  53, 0,  0,
    64,  0, 7,  86,  0,  0,  52,  12, 33, 119, 0, 0,  75, 3,  11,
    15,  0, 0,  63,  0,  0,  26,  0,  0,  49,  0, 0,  38, 0,  0};
const std::vector<int8_t> kLayerPlain = {
    37, -13, 20, 48, -45, -4, 55, -3,  3,  35, -38, 6,  33, -15, 0,
    55, -62, 14, 69, -19, -6, 49, 5,   3,  69, -76, -1, 26, 24,  -6,
    43, -41, 3,  46, 22,  14, 55, -18, 0,  46, -10, 4,  27, -5,  -6,
    32, -81, 4,  43, -4,  -1, 26, 6,   17, 59, -2,  0,  37, 2,   5,
    7,  -58, -1, 31, -42, -4, 13, -53, 0,  24, -51, -4, 19, -10, -12};
const std::vector<uint8_t> kLayerA = {223, 49, 142, 205, 91,  48,
                                      122, 20, 56,  218, 170, 220};
const std::vector<int8_t> kLayerB = {87,  96,   -48, -7,  30,  -58,
                                     107, -126, 86,  37,  -63, 56,
                                     -22, 86,   127, -56, -8,  -73};

template <typename T>
Output BytesOf(const std::vector<T>& v, const Shape& shape) {
  Tensor t(std::is_signed_v<T> ? DType::kQint8 : DType::kQuint8, shape);
  std::copy(v.begin(), v.end(), static_cast<T*>(t.raw()));
  return Constant(t);
}

class QuantizedLayersTest : public ::testing::Test {
 protected:
  Result<Tensor> Run(Output y) { return Session(graph_).Run({}, y); }

  // Results may differ by one where a product lies between two numbers.
  template <typename T>
  void ExpectBytes(Output y, const std::vector<T>& want) {
    const Result<Tensor> got = Run(y);
    ASSERT_TRUE(got.ok()) << got.status().ToString();
    ASSERT_EQ(got->num_elements(), static_cast<int64_t>(want.size()));
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_NEAR(static_cast<const T*>(got->raw())[i], want[i], 1) << i;
  }

  Output Conv(const char* op, DType out, float low, float high) {
    const Tensor ends = Tensor::Vector<float>({0.5f, 1.0f, 0.25f});
    return Build(op,
                 {BytesOf(kLayerImage, {1, 5, 5, 2}),
                  BytesOf(kLayerFilter, {3, 3, 2, 3}), bias_, Constant(0.0f),
                  Constant(2.0f), ops::Neg(Constant(ends)), Constant(ends),
                  Constant(low), Constant(high)},
                 {{"out_type", out},
                  {"strides", AttrValue::Ints{1, 1, 1, 1}},
                  {"padding", "SAME"}});
  }

  Output MatMul(const char* op, AttrMap attrs, float min_a = 0) {
    return Build(op,
                 {BytesOf(kLayerA, {2, 6}), BytesOf(kLayerB, {6, 3}), bias_,
                  Constant(min_a), Constant(2.0f), Constant(-1.0f),
                  Constant(1.0f), Constant(0.0f), Constant(3.0f)},
                 attrs);
  }

  Graph graph_;
  const WithGraph use_{graph_};
  const Output bias_ = Constant(Tensor::Vector<float>({0.1f, -0.2f, 0.3f}));
};

TEST_F(QuantizedLayersTest, ConvolutionsMatchTensorFlow) {
  ExpectBytes(
      Conv("QuantizedConv2DWithBiasAndReluAndRequantize", DType::kQuint8, 0, 6),
      kLayerRelu);
  ExpectBytes(
      Conv("QuantizedConv2DWithBiasAndRequantize", DType::kQint8, -6, 6),
      kLayerPlain);
}

TEST_F(QuantizedLayersTest, ProductsMatchTensorFlow) {
  const std::vector<uint8_t> want = {203, 0, 121, 53, 6, 107};
  const AttrMap scaled = {{"input_quant_mode", "SCALED"}};
  ExpectBytes(MatMul("QuantizedMatMulWithBiasAndReluAndRequantize", scaled),
              want);
  ExpectBytes(MatMul("QuantizedMatMulWithBiasAndRequantize", scaled), want);
  AttrMap to_float = scaled;
  to_float["Toutput"] = DType::kFloat;
  const auto got =
      Run(MatMul("QuantizedMatMulWithBiasAndDequantize", to_float));
  ASSERT_TRUE(got.ok()) << got.status().ToString();
  const float floats[] = {2.3940868f,  -0.2300757f, 1.4239154f,
                          0.62320525f, 0.07061912f, 1.2595801f};
  for (int i = 0; i < 6; ++i)
    EXPECT_NEAR(got->data<float>()[i], floats[i], 1e-5f);
}

TEST_F(QuantizedLayersTest, MinFirstRangeMayBeNegative) {
  // MIN_FIRST: byte 0 represents -1, 255 represents 2.
  const auto got = Run(MatMul("QuantizedMatMulWithBiasAndDequantize",
                              {{"Toutput", DType::kFloat}}, -1));
  ASSERT_TRUE(got.ok()) << got.status().ToString();
  const float bias[] = {0.1f, -0.2f, 0.3f};
  for (int i = 0; i < 6; ++i) {
    double want = bias[i % 3];
    for (int k = 0; k < 6; ++k)
      want += (kLayerA[static_cast<size_t>(i / 3 * 6 + k)] * 3.0 / 255 - 1) *
              kLayerB[static_cast<size_t>(k * 3 + i % 3)] / 127.0;
    EXPECT_NEAR(got->data<float>()[i], want, 1e-4);
  }
}

TEST_F(QuantizedLayersTest, FactorsMayBeTransposed) {
  const auto want =
      Run(MatMul("QuantizedMatMulWithBiasAndDequantize",
                 {{"Toutput", DType::kFloat}, {"input_quant_mode", "SCALED"}}));
  std::vector<uint8_t> a(12);
  std::vector<int8_t> b(18);
  for (size_t i = 0; i < 12; ++i) a[i % 6 * 2 + i / 6] = kLayerA[i];
  for (size_t i = 0; i < 18; ++i) b[i % 3 * 6 + i / 3] = kLayerB[i];
  const auto got = Run(Build("QuantizedMatMulWithBiasAndDequantize",
                             {BytesOf(a, {6, 2}), BytesOf(b, {3, 6}), bias_,
                              Constant(0.0f), Constant(2.0f), Constant(-1.0f),
                              Constant(1.0f), Constant(0.0f), Constant(3.0f)},
                             {{"Toutput", DType::kFloat},
                              {"input_quant_mode", "SCALED"},
                              {"transpose_a", true},
                              {"transpose_b", true}}));
  ASSERT_TRUE(want.ok() && got.ok()) << got.status().ToString();
  EXPECT_TRUE(want->Identical(*got));
}

TEST_F(QuantizedLayersTest, FedWeightsAreNotCached) {
  // The same node with other weights at the same address with the same shape.
  Output w = Build("Placeholder", {},
                   {{"dtype", DType::kQint8}, {"shape", PartialShape({2, 1})}});
  Output a = BytesOf(std::vector<uint8_t>{255, 255}, {1, 2});
  Output y =
      Build("QuantizedMatMulWithBiasAndDequantize",
            {a, w, Constant(Tensor::Vector<float>({0})), Constant(0.0f),
             Constant(1.0f), Constant(-127.0f), Constant(127.0f),
             Constant(0.0f), Constant(1.0f)},
            {{"Toutput", DType::kFloat}, {"input_quant_mode", "SCALED"}});
  Session session(graph_);
  Tensor fed(DType::kQint8, {2, 1});
  for (const int8_t v : {1, 5, -3}) {
    static_cast<int8_t*>(fed.raw())[0] = v;
    static_cast<int8_t*>(fed.raw())[1] = v;
    const auto got = session.Run({{w, fed}}, y);
    ASSERT_TRUE(got.ok()) << got.status().ToString();
    EXPECT_NEAR(got->scalar<float>(), 2 * v, 1e-5f);
  }
}

TEST_F(QuantizedLayersTest, ErrorNamesTheInvalidRange) {
  EXPECT_THAT(Run(Conv("QuantizedConv2DWithBiasAndReluAndRequantize",
                       DType::kQuint8, 0, 0))
                  .status()
                  .ToString(),
              HasSubstr("range: expected a range that is not just zero"));
}

}  // namespace
}  // namespace sluice
