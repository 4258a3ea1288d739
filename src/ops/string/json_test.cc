#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/builder.h"
#include "io/proto/example.pb.h"
#include "session/session.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

Result<Tensor> Decode(const std::vector<std::string>& json) {
  Graph g;
  const WithGraph use(g);
  const Output y =
      Build("DecodeJSONExample", {Constant(Tensor::Vector<std::string>(json))});
  return Session(g).Run(y);
}

TEST(DecodeJsonExample, ReturnsBytesOfExamples) {
  const Result<Tensor> got = Decode(
      {R"({"features": {"feature": {
             "b": {"int64_list": {"value": [1, -2, "3"]}},
             "a": {"bytesList": {"value": ["aGk="]}}}}})",
       "{}",
       R"({"features":{"feature":{"f":{"floatList":{"value":[0.5]}}}}})"});
  ASSERT_TRUE(got.ok()) << got.status();
  const std::vector<std::string> bytes = got->ToVector<std::string>();
  proto::Example e;
  ASSERT_TRUE(e.ParseFromString(bytes[0]));
  const auto& features = e.features().feature();
  EXPECT_EQ(features.at("b").int64_list().value_size(), 3);
  EXPECT_EQ(features.at("b").int64_list().value(1), -2);
  EXPECT_EQ(features.at("b").int64_list().value(2), 3);
  EXPECT_EQ(features.at("a").bytes_list().value(0), "hi");
  EXPECT_EQ(bytes[1], "");
  ASSERT_TRUE(e.ParseFromString(bytes[2]));
  EXPECT_EQ(e.features().feature().at("f").float_list().value(0), 0.5f);
}

TEST(DecodeJsonExample, RejectsInvalidExamples) {
  for (const char* json : {"{", "{\"features\": 3}", "{\"nope\": 1}", ""}) {
    const Status s = Decode({"{}", json}).status();
    EXPECT_EQ(s.code(), StatusCode::kInvalidArgument) << json;
    EXPECT_THAT(std::string(s.message()), HasSubstr("element 1")) << json;
  }
}

}  // namespace
}  // namespace sluice
