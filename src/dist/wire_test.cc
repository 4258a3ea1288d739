#include "dist/wire.h"

#include <gtest/gtest.h>

#include <random>

#include "dist/inbox.h"
#include "dist/transport_test_util.h"

namespace sluice {
namespace {

// What a frame says when it is parsed again, bodies and all.
Result<std::vector<TokenMessage>> ThereAndBack(std::vector<TokenMessage> batch,
                                               size_t inline_bytes) {
  FrameWriter writer(inline_bytes);
  SLUICE_RETURN_IF_ERROR(writer.AddTokens(5, 6, batch).status());
  const OutgoingFrame out = writer.Take();
  SLUICE_ASSIGN_OR_RETURN(IncomingFrame in, ParseFrame(out.bytes, {}));
  Inbox inbox;
  std::vector<IncomingBody*> bodies;
  SLUICE_RETURN_IF_ERROR(inbox.Add(std::move(in), &bodies));
  if (bodies.size() != out.bodies.size()) return Internal("bodies differ");
  for (size_t i = 0; i < bodies.size(); ++i) {
    const std::string_view bytes = out.bodies[i].bytes();
    if (bodies[i]->bytes != bytes.size()) return Internal("sizes differ");
    SLUICE_ASSIGN_OR_RETURN(char* const to, bodies[i]->Buffer());
    std::copy(bytes.begin(), bytes.end(), to);
    SLUICE_RETURN_IF_ERROR(inbox.BodyDone(bodies[i]));
  }
  RecordingHandler handler;
  inbox.Drain(&handler, 0);
  std::vector<TokenMessage> result;
  for (auto& got : handler.tokens) {
    EXPECT_EQ(got.step, 5u);
    EXPECT_EQ(got.partition, 6u);
    result.push_back(std::move(got.token));
  }
  return result;
}

TEST(WireTest, EveryDtypeAndShapeComesBackBitForBit) {
  std::mt19937_64 random(1);
  for (int code = 1; code <= 23; ++code) {
    const DType dtype = static_cast<DType>(code);
    if (dtype == DType::kResource || dtype == DType::kVariant) continue;
    for (const Shape& shape :
         {Shape(), Shape({0}), Shape({3}), Shape({2, 0, 4}),
          Shape({1, 2, 3, 1, 2, 1, 1, 5})}) {
      Tensor t(dtype, shape);
      if (dtype == DType::kString) {
        for (std::string& s : t.flat<std::string>())
          s = std::string(random() % 40, '\0');
      } else {
        auto* bytes = static_cast<uint8_t*>(t.raw());
        for (size_t i = 0; i < t.bytes(); ++i)
          bytes[i] = static_cast<uint8_t>(random());
      }
      for (const size_t inline_bytes : {size_t{0}, size_t{8}, size_t{65536}}) {
        auto back = ThereAndBack({TokenOf(1, t, 4)}, inline_bytes);
        ASSERT_TRUE(back.ok()) << back.status();
        ASSERT_EQ(back->size(), 1u);
        EXPECT_TRUE((*back)[0].value.Identical(t)) << t.ToString();
        EXPECT_EQ((*back)[0].tag.iteration, 4);
        EXPECT_EQ((*back)[0].tag.frame, 77u);
      }
    }
  }
}

TEST(WireTest, DeadTokensGroupsAndSignalsCarryNoValue) {
  TokenMessage dead = TokenOf(1, Tensor::Scalar(1.0f));
  dead.dead = dead.group = true;
  auto back = ThereAndBack({dead, TokenOf(2, Tensor())}, 64);
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE((*back)[0].dead && (*back)[0].group);
  EXPECT_FALSE((*back)[0].value.valid());
  EXPECT_FALSE((*back)[1].dead || (*back)[1].group);
  EXPECT_FALSE((*back)[1].value.valid());
}

TEST(WireTest, EveryTruncationIsAnError) {
  FrameWriter writer(64);
  std::vector<TokenMessage> batch = {
      TokenOf(1, Tensor::Vector<float>({1, 2, 3}), 2),
      TokenOf(2, Tensor::Scalar(std::string("text")))};
  writer.AddHello({1, 2, "task", "address"});
  ASSERT_TRUE(writer.AddTokens(1, 2, batch).ok());
  ASSERT_TRUE(writer.AddControl(3, "bytes").ok());
  const std::string bytes = writer.Take().bytes;
  ASSERT_TRUE(ParseFrame(bytes, {}).ok());
  for (size_t n = 0; n < bytes.size(); ++n)
    EXPECT_FALSE(ParseFrame(std::string_view(bytes).substr(0, n), {}).ok());
  // The same with a size that fits what is left.
  for (size_t n = kFrameHeader; n < bytes.size(); ++n) {
    std::string cut = bytes.substr(0, n);
    const uint32_t size = static_cast<uint32_t>(n - kFrameHeader);
    std::memcpy(cut.data() + 4, &size, 4);
    (void)ParseFrame(cut, {});  // Some are whole records: no crash will do.
  }
}

TEST(WireTest, SizesThatNoMemoryHasAreRefusedBeforeAnyIsTaken) {
  FrameWriter writer(0);
  std::vector<TokenMessage> batch = {TokenOf(1, Tensor::Vector<float>({1, 2}))};
  ASSERT_TRUE(writer.AddTokens(1, 2, batch).ok());
  std::string bytes = writer.Take().bytes;
  // The dimension is the last number of the frame.
  const int64_t dims[] = {INT64_MAX, int64_t{1} << 61, int64_t{1} << 40, -1};
  for (const int64_t dim : dims) {
    std::memcpy(bytes.data() + bytes.size() - 8, &dim, 8);
    EXPECT_FALSE(ParseFrame(bytes, {}).ok()) << dim;
  }
}

// (What goes beside a body has to fit the header of a transport's message.)
TEST(FrameWriterTest, ATokenWithABodyIsAloneInItsFrameIfAskedFor) {
  FrameWriter writer(8);
  std::vector<TokenMessage> batch;
  for (uint32_t i = 0; i < 4; ++i)
    batch.push_back(TokenOf(
        i, i == 2 ? Tensor::Vector<float>({1, 2, 3}) : Tensor::Scalar(1.0f)));
  std::vector<size_t> frames;
  std::vector<bool> bodies;
  for (std::span<TokenMessage> rest = batch; !rest.empty();) {
    const auto taken = writer.AddTokens(1, 0, rest, /*bodies_alone=*/true);
    ASSERT_TRUE(taken.ok()) << taken.status();
    rest = rest.subspan(*taken);
    if (rest.empty()) break;
    frames.push_back(*taken);
    bodies.push_back(writer.has_body());
    (void)writer.Take();
  }
  EXPECT_EQ(frames, std::vector<size_t>({2, 1}));
  EXPECT_EQ(bodies, std::vector<bool>({false, true}));
  // Nor does it join what is there already.
  EXPECT_FALSE(writer.empty());
  TokenMessage large = TokenOf(5, Tensor::Vector<float>({1, 2, 3}));
  EXPECT_EQ(*writer.AddTokens(1, 0, {&large, 1}, true), 0u);
  (void)writer.Take();
  EXPECT_EQ(*writer.AddTokens(1, 0, {&large, 1}, true), 1u);
}

TEST(InboxTest, ControlsWaitForLargeValuesAndSmallOnesDoNot) {
  FrameWriter writer(8);
  Inbox inbox;
  RecordingHandler handler;
  std::vector<TokenMessage> batch = {
      TokenOf(0, Tensor::Vector<float>({1, 2, 3})),
      TokenOf(1, Tensor::Scalar(1.0f))};
  ASSERT_TRUE(writer.AddTokens(1, 0, batch).ok());
  ASSERT_TRUE(writer.AddControl(7, "").ok());
  TokenMessage last = TokenOf(2, Tensor::Scalar(1.0f));
  ASSERT_TRUE(writer.AddTokens(1, 0, {&last, 1}).ok());
  std::vector<IncomingBody*> bodies;
  ASSERT_TRUE(inbox.Add(*ParseFrame(writer.Take().bytes, {}), &bodies).ok());
  inbox.Drain(&handler, 0);
  EXPECT_EQ(handler.log, std::vector<std::string>({"t1"}));
  ASSERT_TRUE(bodies.at(0)->Buffer().ok());
  ASSERT_TRUE(inbox.BodyDone(bodies[0]).ok());
  inbox.Drain(&handler, 0);
  EXPECT_EQ(handler.log, std::vector<std::string>({"t1", "t0", "c7", "t2"}));
}

TEST(InboxTest, FramesCountOnceInTheirOrder) {
  FrameWriter writer(64);
  Inbox inbox;
  RecordingHandler handler;
  std::vector<std::string> frames;
  for (uint8_t i = 0; i < 5; ++i) {
    ASSERT_TRUE(writer.AddControl(i, "").ok());
    frames.push_back(writer.Take().bytes);
  }
  for (const size_t i : {3, 3, 1, 0, 0, 4, 2, 1}) {
    std::vector<IncomingBody*> bodies;
    ASSERT_TRUE(inbox.Add(*ParseFrame(frames[i], {}), &bodies).ok());
    inbox.Drain(&handler, 0);
  }
  EXPECT_EQ(handler.log,
            std::vector<std::string>({"c0", "c1", "c2", "c3", "c4"}));
}

}  // namespace
}  // namespace sluice
