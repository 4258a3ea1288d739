#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/tensor_proto.h"
#include "io/image_png.h"
#include "ops/array/test_util.h"
#include "summary/proto/summary.pb.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

// The text of a Summary, with pixels instead of PNG files and with one form of
// each tensor: encoders and messages may differ where their contents do not.
std::string Content(const std::string& bytes) {
  proto::Summary summary;
  EXPECT_TRUE(summary.ParseFromString(bytes));
  std::string pixels;
  for (proto::Summary::Value& v : *summary.mutable_value()) {
    if (v.has_image()) {
      const auto image = DecodePng(v.image().encoded_image_string(), {});
      EXPECT_TRUE(image.ok()) << image.status();
      pixels += image->ToString(1000) + "\n";
      v.mutable_image()->clear_encoded_image_string();
    }
    if (v.has_tensor()) {
      const auto tensor = TensorFromProto(v.tensor());
      EXPECT_TRUE(tensor.ok()) << tensor.status();
      EXPECT_TRUE(TensorToProto(*tensor, v.mutable_tensor()).ok());
    }
  }
  return summary.DebugString() + pixels;
}

TEST(SummaryOpsTest, MakeTheMessagesThatTensorFlowMakes) {
  const std::string path = "tests/cases/summaries.txt";
  const std::vector<RecordedCase> cases = ReadCases(path);
  ASSERT_GT(cases.size(), 120u);
  for (const RecordedCase& c : cases) {
    const std::string where = absl::StrCat(path, ":", c.line, ": ", c.op);
    const auto got = RunRecorded(c.op, c.inputs, c.attrs);
    if (c.error) {
      EXPECT_FALSE(got.ok()) << where;
      EXPECT_NE(got.status().code(), StatusCode::kInternal) << got.status();
      continue;
    }
    ASSERT_TRUE(got.ok()) << where << ": " << got.status();
    EXPECT_EQ(Content((*got)[0].raw_scalar<std::string>()),
              Content(c.outputs[0].raw_scalar<std::string>()))
        << where;
  }
}

proto::Summary SummaryOf(const std::string& op,
                         const std::vector<Tensor>& inputs,
                         const AttrMap& attrs) {
  proto::Summary summary;
  const auto got = RunRecorded(op, inputs, attrs);
  EXPECT_TRUE(got.ok()) << got.status();
  if (!got.ok()) return summary;
  EXPECT_TRUE(summary.ParseFromString((*got)[0].scalar<std::string>()));
  return summary;
}

TEST(SummaryOpsTest, ATensorSummaryHasTheNameOfItsNode) {
  const proto::Summary summary =
      SummaryOf("TensorSummary", {Tensor::Vector({1.0f, 2.0f})}, {});
  EXPECT_EQ(summary.value(0).node_name(), "TensorSummary");
  EXPECT_EQ(summary.value(0).tag(), "");
}

const Tensor kTag = Tensor::Scalar<std::string>("i");

TEST(SummaryOpsTest, ABadPixelHasTheChosenColour) {
  const proto::Summary summary = SummaryOf(
      "ImageSummary",
      {kTag, Tensor::Of<float>(Shape({1, 1, 2, 1}), {1.0f, std::nanf("")})},
      {{"max_images", int64_t{1}},
       {"bad_color", Tensor::Vector<uint8_t>({7})}});
  const auto pixels =
      DecodePng(summary.value(0).image().encoded_image_string(), {});
  ASSERT_TRUE(pixels.ok());
  EXPECT_TRUE(
      pixels->Identical(Tensor::Of<uint8_t>(Shape({1, 2, 1}), {255, 7})))
      << pixels->ToString();
}

TEST(SummaryOpsTest, AColourWithoutEnoughSamplesIsRefused) {
  const auto got = RunRecorded(
      "ImageSummary", {kTag, Tensor(DType::kFloat, Shape({1, 1, 1, 3}))},
      {{"bad_color", Tensor::Vector<uint8_t>({7})}});
  EXPECT_THAT(std::string(got.status().message()),
              HasSubstr("bad_color: expected at least 3 samples, got 1"));
}

}  // namespace
}  // namespace sluice
