#include "session/session_config.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Varint(uint64_t v) {
  std::string out;
  for (; v >= 0x80; v >>= 7) out += static_cast<char>(v | 0x80);
  return out + static_cast<char>(v);
}
// The fields of a message, by their numbers.
std::string Number(uint64_t field, uint64_t value) {
  return Varint(field << 3) + Varint(value);
}
std::string Bytes(uint64_t field, const std::string& value) {
  return Varint(field << 3 | 2) + Varint(value.size()) + value;
}
std::string Devices(const std::string& type, uint64_t n) {
  return Bytes(1, Bytes(1, type) + Number(2, n));
}

TEST(SessionConfigTest, FieldsBecomeOptions) {
  const std::string job = Bytes(1, "worker") +
                          Bytes(2, Number(1, 1) + Bytes(2, "b:2")) +
                          Bytes(2, Number(1, 0) + Bytes(2, "a:1"));
  const Result<ConfiguredSession> got = SessionFromConfig(
      Devices("CPU", 2) + Devices("EMU", 1) + Number(2, 3) + Number(5, 4) +
      Bytes(4, "/job:worker") + Number(7, 1) +
      Bytes(10, Number(4, 5) + Number(9, 6) + Bytes(3, Number(3, -1))) +
      Number(11, 1500) + Bytes(14, Bytes(1, job)) + Number(10002, 1));
  ASSERT_TRUE(got.ok()) << got.status();
  const SessionOptions& o = got->options;
  EXPECT_EQ(o.devices.size(), 3u);
  EXPECT_EQ(o.intra_op_threads, 3);
  EXPECT_EQ(o.inter_op_threads, 3);  // And the caller's.
  EXPECT_THAT(o.device_filters, ElementsAre("/job:worker"));
  EXPECT_TRUE(o.soft_placement);
  EXPECT_TRUE(o.batch_frames);
  EXPECT_FALSE(o.fusion);
  EXPECT_FALSE(o.constant_folding);
  EXPECT_EQ(o.cost_model_every, 5);
  EXPECT_EQ(o.cost_model_after, 6);
  EXPECT_EQ(o.cluster, R"({"worker": {"0": "a:1", "1": "b:2"}})");
  EXPECT_TRUE(o.isolated);
  EXPECT_EQ(got->operation_timeout_ms, 1500);
}

TEST(SessionConfigTest, KeepsWhatIsNotSaid) {
  SessionOptions defaults;
  defaults.inter_op_threads = 7;
  defaults.batch_frames = true;
  const Result<ConfiguredSession> got = SessionFromConfig("", defaults);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->options.inter_op_threads, 7);
  EXPECT_TRUE(got->options.batch_frames);
  EXPECT_TRUE(got->options.fusion);
  EXPECT_FALSE(got->options.isolated);
  EXPECT_EQ(got->operation_timeout_ms, 0);
}

TEST(SessionConfigTest, ReportsWhatIsWrong) {
  const auto error = [](const std::string& config) {
    return std::string(SessionFromConfig(config).status().message());
  };
  EXPECT_THAT(error("\xff"), HasSubstr("ConfigProto: expected"));
  EXPECT_THAT(error(Devices("CPU", 1025)),
              HasSubstr("expected at most 1024 CPU devices, got 1025"));
  EXPECT_THAT(error(Devices("EMU", 1 << 20)),
              HasSubstr("expected at most 1024 EMU devices"));
  EXPECT_NE(error(Devices("EMU", 1) + Bytes(10001, "no such thing")), "");
  const std::string quoted =
      Bytes(14, Bytes(1, Bytes(1, "w") + Bytes(2, Bytes(2, "a\":1"))));
  EXPECT_THAT(error(quoted), HasSubstr("without quotes"));
}

}  // namespace
}  // namespace sluice
