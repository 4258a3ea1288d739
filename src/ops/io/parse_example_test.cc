// What the recorded cases (tests/cases/parse_ops.txt) do not show: messages,
// large batches over several threads, and bytes that another writer wrote.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/parallel.h"
#include "io/example.h"
#include "io/proto/example.pb.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Tensor NoNames() { return Tensor(DType::kString, Shape({0})); }

// Reads the columns from the messages themselves.
TEST(ParseExamples, AgreesWithTheMessagesForAnyBatch) {
  std::mt19937 rng(20240612);
  for (const int64_t n : {0, 1, 7, 3000}) {
    std::vector<std::string> bytes;
    std::vector<float> dense;
    std::vector<int64_t> ints, counts;
    std::vector<std::string> strings;
    for (int64_t i = 0; i < n; ++i) {
      proto::Example e;
      auto& features = *e.mutable_features()->mutable_feature();
      for (int k = 0; k < 3; ++k) {
        const float v = static_cast<float>(rng() % 1000) / 7;
        features["x"].mutable_float_list()->add_value(v);
        dense.push_back(v);
      }
      if (rng() % 3 != 0) {
        counts.push_back(rng() % 4);
        for (int64_t k = 0; k < counts.back(); ++k) {
          const auto v = static_cast<int64_t>(static_cast<uint64_t>(rng())
                                              << (rng() % 33) << (rng() % 8));
          features["i"].mutable_int64_list()->add_value(v);
          ints.push_back(v);
        }
        strings.push_back(std::string(rng() % 40, 's'));
        features["s"].mutable_bytes_list()->add_value(strings.back());
      } else {
        counts.push_back(0);
        strings.push_back("none");
      }
      features["unread"].mutable_float_list()->add_value(1);
      bytes.push_back(e.SerializeAsString());
    }
    ExampleSpec spec;
    spec.sparse = {{"i", DType::kInt64}};
    spec.dense = {{"x", DType::kFloat, PartialShape({3}),
                   Tensor(DType::kFloat, Shape({0}))},
                  {"s", DType::kString, PartialShape({1}),
                   Tensor::Vector<std::string>({"none"})}};
    spec.ragged = {};
    for (const int threads : {1, 2}) {
      const ScopedIntraOpThreads scope(threads);
      const auto got =
          ParseExamples(Tensor::Vector<std::string>(bytes), NoNames(), spec);
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_EQ(got->dense_values[0].ToVector<float>(), dense);
      EXPECT_EQ(got->dense_values[1].ToVector<std::string>(), strings);
      EXPECT_EQ(got->sparse_values[0].ToVector<int64_t>(), ints);
      int64_t at = 0;
      const Tensor& indices = got->sparse_indices[0];
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < counts[static_cast<size_t>(i)]; ++j, ++at) {
          EXPECT_EQ(indices.data<int64_t>()[2 * at], i);
          EXPECT_EQ(indices.data<int64_t>()[2 * at + 1], j);
        }
      EXPECT_EQ(indices.dim(0), at);
    }
  }
}

TEST(ParseExamples, MessagesNameTheExampleAndTheFeature) {
  proto::Example e;
  (*e.mutable_features()->mutable_feature())["x"]
      .mutable_float_list()
      ->add_value(1);
  const std::string good = e.SerializeAsString();
  ExampleSpec spec;
  spec.dense = {{"x", DType::kFloat, PartialShape({1}),
                 Tensor(DType::kFloat, Shape({0}))}};
  const auto parse = [&](const std::string& second) {
    const Status s =
        ParseExamples(Tensor::Vector<std::string>({good, second}),
                      Tensor::Vector<std::string>({"one", "two"}), spec)
            .status();
    EXPECT_EQ(s.code(), StatusCode::kInvalidArgument);
    return std::string(s.message());
  };
  EXPECT_THAT(parse("\xff"), AllOf(HasSubstr("serialized[1] (name 'two')"),
                                   HasSubstr("1 bytes that are none")));
  EXPECT_THAT(parse(""),
              AllOf(HasSubstr("serialized[1] (name 'two'): feature 'x'"),
                    HasSubstr("required but could not be found")));
  EXPECT_THAT(parse(good.substr(0, good.size() - 1)),
              HasSubstr("serialized[1]"));
  (*e.mutable_features()->mutable_feature())["x"]
      .mutable_float_list()
      ->add_value(1);
  EXPECT_THAT(parse(e.SerializeAsString()),
              HasSubstr("expected 1 float values for shape [1], got 2"));
  spec.sparse = {{"x", DType::kFloat}};
  EXPECT_THAT(parse(good), HasSubstr("expected distinct keys, got 'x' twice"));
}

TEST(ParseSequences, MessagesNameTheFrame) {
  proto::SequenceExample e;
  auto& list = (*e.mutable_feature_lists()->mutable_feature_list())["frames"];
  list.add_feature()->mutable_int64_list()->add_value(1);
  list.add_feature()->mutable_float_list()->add_value(1);
  SequenceSpec spec;
  spec.dense = {{"frames", DType::kInt64, Shape({1}), false}};
  const Status s =
      ParseSequences(Tensor::Scalar(e.SerializeAsString()), NoNames(), spec)
          .status();
  EXPECT_EQ(s.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(s.message()),
      HasSubstr("feature list 'frames': frame 1: expected type int64, got "
                "float"));
}

}  // namespace
}  // namespace sluice
