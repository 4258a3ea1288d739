#include "cluster/services/step_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "graph/tensor_proto.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

using Message = google::protobuf::RepeatedPtrField<std::string>;

// Bytes 0, 1, ..., as many as do not fit into one part.
Tensor Large(DType dtype = DType::kUint8) {
  Tensor t(dtype, Shape({2, SentValues::kPartBytes / 2 + 100}));
  auto* const bytes = static_cast<uint8_t*>(t.raw());
  std::iota(bytes, bytes + t.num_elements(), uint8_t{0});
  return t;
}

TEST(StepValuesTest, LargeOnesComeInPartsBeforeTheOthers) {
  const std::vector<Tensor> values = {
      Tensor::Scalar<std::string>("a"), Large(), Tensor::Vector<float>({1, 2}),
      Large(DType::kInt8), Tensor(DType::kFloat, Shape({0, 3}))};
  SentValues sent;
  ReceivedValues received;
  Message message;
  ASSERT_TRUE(sent.Add(values, &message).ok());
  size_t parts = 0, bytes = 0;
  for (;; ++parts) {
    proto::ValuePart part;
    if (!sent.Next(&part)) break;
    EXPECT_LE(part.elements().size(), SentValues::kPartBytes);
    bytes += part.elements().size();
    received.Add(part);
  }
  EXPECT_EQ(parts, 4u);
  EXPECT_EQ(bytes, static_cast<size_t>(2 * values[1].num_elements()));
  ASSERT_EQ(message.size(), 5);
  EXPECT_TRUE(message.Get(1).empty());
  const auto got = received.Take(message);
  ASSERT_TRUE(got.ok()) << got.status();
  ASSERT_EQ(got->size(), values.size());
  for (size_t i = 0; i < values.size(); ++i)
    EXPECT_TRUE((*got)[i].Identical(values[i])) << i;
}

TEST(StepValuesTest, ManyValuesNeedNotFitIntoOneMessage) {
  // (Views of one buffer: 400 MB of values in 16 MB.)
  Tensor whole = Large();
  const Tensor part = whole.Rows(0, 1);
  const std::vector<Tensor> values(50, part);
  SentValues sent;
  Message message;
  ASSERT_TRUE(sent.Add(values, &message).ok());
  size_t together = 0;
  for (const std::string& bytes : message) together += bytes.size();
  EXPECT_LE(together, size_t{260} << 20);
  EXPECT_GE(together, size_t{200} << 20);
  ReceivedValues received;
  for (proto::ValuePart p; sent.Next(&p); p.Clear()) received.Add(p);
  const auto got = received.Take(message);
  ASSERT_TRUE(got.ok()) << got.status();
  for (const Tensor& t : *got) ASSERT_TRUE(t.Identical(part));
}

TEST(StepValuesTest, ValuesOfThisProcessAreRefused) {
  SentValues sent;
  Message message;
  const Tensor handle(DType::kResource, Shape());
  EXPECT_FALSE(sent.Add({&handle, 1}, &message).ok());
}

TEST(StepValuesTest, OtherPartsThanThoseSentAreAnError) {
  proto::ValuePart first;
  first.set_dtype(static_cast<int>(DType::kBool));
  first.add_dim(3);
  first.set_elements("\1\2");
  proto::ValuePart last;
  last.set_elements("\0", 1);
  Message message;
  message.Add();
  const auto take = [&message](const std::vector<proto::ValuePart>& parts) {
    ReceivedValues received;
    for (const proto::ValuePart& p : parts) received.Add(p);
    return received.Take(message);
  };
  // (Bytes other than 0 and 1 are true.)
  ASSERT_TRUE(take({first, last}).ok());
  EXPECT_EQ(take({first, last})->front().ToVector<bool>(),
            (std::vector<bool>{true, true, false}));

  const auto error = [&take](const std::vector<proto::ValuePart>& parts) {
    return std::string(take(parts).status().message());
  };
  EXPECT_THAT(error({}), HasSubstr("all of its parts, got 0 bytes"));
  EXPECT_THAT(error({first}), HasSubstr("all of its parts, got 2 bytes"));
  EXPECT_THAT(error({last}), HasSubstr("its shape in the first part"));
  EXPECT_THAT(error({first, first}), HasSubstr("got it again"));
  EXPECT_THAT(error({first, last, last}), HasSubstr("at most 0 further bytes"));
  proto::ValuePart other = first;
  other.set_value(1);
  EXPECT_THAT(error({first, last, other}), HasSubstr("parts of 1, got of 2"));
  for (const DType type : {DType::kString, DType::kVariant, DType::kResource}) {
    proto::ValuePart p = first;
    p.set_dtype(static_cast<int>(type));
    EXPECT_THAT(error({p}), HasSubstr("expected plain elements"));
  }
  proto::ValuePart p = first;
  p.set_dtype(1000);
  EXPECT_FALSE(take({p}).ok());
  p = first;
  p.add_dim(-1);
  EXPECT_FALSE(take({p}).ok());
  p = first;
  for (int i = 0; i < 4; ++i) p.add_dim(int64_t{1} << 30);
  EXPECT_FALSE(take({p}).ok());
}

}  // namespace
}  // namespace sluice
