#include "cluster/transport/wire.h"

#include <gtest/gtest.h>

#include <random>

#include "cluster/testing/transport_test_util.h"
#include "cluster/transport/inbox.h"
#include "cluster/transport/ucx/envelope.h"
#include "cluster/transport/wire_variant.h"
#include "ops/tensor_array/optional.h"
#include "ops/tensor_array/tensor_list.h"

namespace sluice {
namespace {

// The result of writing and parsing a frame, including its bodies.
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

TEST(WireTest, EveryDtypeAndShapeRoundTripsExactly) {
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
        EXPECT_EQ((*back)[0].tag.frame, (TokenOf(1, t, 4).tag.frame));
      }
    }
  }
}

// Lists of numbers, strings and lists, optionals, unset items, nothing.
Tensor RandomVariants(std::mt19937_64& random, int depth) {
  Tensor t(DType::kVariant, random() % 3 == 0
                                ? Shape({static_cast<int64_t>(random() % 3)})
                                : Shape());
  for (Variant& v : t.flat<Variant>()) {
    const uint64_t kind = random() % 8;
    const DType dtype = kind < 3   ? DType::kFloat
                        : kind < 5 ? DType::kString
                                   : DType::kVariant;
    const auto item = [&] {
      if (dtype == DType::kVariant) return RandomVariants(random, depth - 1);
      Tensor i(dtype, Shape({static_cast<int64_t>(random() % 4), 2}));
      if (dtype == DType::kFloat) {
        for (float& f : i.flat<float>()) f = static_cast<float>(random() % 99);
      } else {
        for (std::string& s : i.flat<std::string>())
          s = std::string(random() % 20, 'x');
      }
      return i;
    };
    if (kind == 0 || (dtype == DType::kVariant && depth == 0)) continue;
    std::vector<Tensor> items(random() % 4);
    for (Tensor& i : items)
      if (kind == 7 || random() % 4 != 0) i = item();
    if (kind == 7) {
      v = Variant(std::make_shared<OptionalValue>(std::move(items)));
      continue;
    }
    auto list = std::make_shared<TensorList>();
    list->dtype = dtype;
    if (dtype != DType::kVariant && random() % 2 == 0)
      list->element_shape = PartialShape({-1, 2});
    list->max_size = random() % 2 == 0 ? -1 : 4;
    list->items = std::move(items);
    v = Variant(std::move(list));
  }
  return t;
}

void ExpectSame(const Tensor& a, const Tensor& b) {
  ASSERT_EQ(a.valid(), b.valid());
  if (!a.valid()) return;
  ASSERT_EQ(a.dtype(), b.dtype());
  ASSERT_EQ(a.shape(), b.shape());
  if (a.dtype() != DType::kVariant) {
    EXPECT_TRUE(a.Identical(b));
    return;
  }
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    const Variant &v = a.data<Variant>()[i], &w = b.data<Variant>()[i];
    ASSERT_EQ(v.empty(), w.empty());
    if (v.empty()) continue;
    ASSERT_EQ(v.value()->TypeName(), w.value()->TypeName());
    std::vector<Tensor> x, y;
    if (const TensorList* list = AsList(v)) {
      EXPECT_EQ(list->dtype, AsList(w)->dtype);
      EXPECT_EQ(list->element_shape.ToString(),
                AsList(w)->element_shape.ToString());
      EXPECT_EQ(list->max_size, AsList(w)->max_size);
      x = list->items;
      y = AsList(w)->items;
    } else {
      x = v.get<OptionalValue>()->values();
      y = w.get<OptionalValue>()->values();
    }
    ASSERT_EQ(x.size(), y.size());
    for (size_t k = 0; k < x.size(); ++k) ExpectSame(x[k], y[k]);
  }
}

TEST(WireTest, ListsAndOptionalsRoundTrip) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const Tensor t = RandomVariants(random, 4);
    for (const size_t inline_bytes : {size_t{0}, size_t{65536}}) {
      auto back = ThereAndBack({TokenOf(1, t, 4), TokenOf(2, t)}, inline_bytes);
      ASSERT_TRUE(back.ok()) << back.status();
      ASSERT_EQ(back->size(), 2u);
      for (const TokenMessage& m : *back) ExpectSame(m.value, t);
    }
  }
}

TEST(WireTest, CorruptListsAreErrorsOrValidLists) {
  int good = 0;
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    Tensor t = RandomVariants(random, 3);
    const auto size = PackedVariantBytes(t);
    ASSERT_TRUE(size.ok()) << size.status();
    std::string bytes(static_cast<size_t>(*size), '\0');
    PackVariants(t, bytes.data());
    Tensor whole(DType::kVariant, t.shape()), cut = *whole.Clone();
    ASSERT_TRUE(UnpackVariants(bytes, &whole).ok());
    if (bytes.empty()) continue;
    EXPECT_FALSE(UnpackVariants(
                     std::string_view(bytes).substr(0, random() % *size), &cut)
                     .ok());
    for (int i = 0; i < 3; ++i)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    Tensor spoilt(DType::kVariant, t.shape());
    if (UnpackVariants(bytes, &spoilt).ok()) {
      ++good;
      EXPECT_TRUE(CheckSendable(spoilt).ok());
    }
  }
  EXPECT_GT(good, 0);
}

TEST(WireTest, ListsBeyondBoundsAreRefusedOnBothSides) {
  // Nested too deep; and shared, so that there are 2^40 to be sent.
  for (const auto& [items, depth] : {std::pair(1, 100), {2, 40}}) {
    Tensor t = Tensor::Scalar<Variant>(Variant());
    for (int i = 0; i < depth; ++i) {
      auto list = std::make_shared<TensorList>();
      list->dtype = DType::kVariant;
      list->items.assign(static_cast<size_t>(items), t);
      t = ListTensor(std::move(list));
    }
    const Status s = CheckSendable(t);
    EXPECT_EQ(s.code(), StatusCode::kInvalidArgument) << s;
  }
  std::string deep;
  for (int i = 0; i < 1000; ++i) {
    deep += {1, static_cast<char>(DType::kVariant), '\377'};
    deep += std::string(8, '\377') + std::string("\1\0\0\0\1", 5);
    deep += {static_cast<char>(DType::kVariant), 0};
  }
  Tensor t(DType::kVariant, Shape());
  EXPECT_FALSE(UnpackVariants(deep, &t).ok());
  // A resource cannot be sent, in a list or not.
  auto list = std::make_shared<TensorList>();
  list->dtype = DType::kResource;
  list->items.push_back(Tensor(DType::kResource, Shape()));
  EXPECT_EQ(CheckSendable(ListTensor(list)).code(),
            StatusCode::kInvalidArgument);
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
    (void)ParseFrame(cut, {});  // Some are whole records: must not crash.
  }
}

TEST(WireTest, HugeSizesAreRefusedBeforeAllocation) {
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

// (Anything beside a body must fit the header of a transport's message.)
TEST(FrameWriterTest, TokenWithBodyGetsItsOwnFrameOnRequest) {
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
  // Nor is it added to an existing frame.
  EXPECT_FALSE(writer.empty());
  TokenMessage large = TokenOf(5, Tensor::Vector<float>({1, 2, 3}));
  EXPECT_EQ(*writer.AddTokens(1, 0, {&large, 1}, true), 0u);
  (void)writer.Take();
  EXPECT_EQ(*writer.AddTokens(1, 0, {&large, 1}, true), 1u);
}

TEST(InboxTest, ControlsWaitForLargeValuesButSmallTokensDoNot) {
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

TEST(InboxTest, FramesAreHandledOnceInOrder) {
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

TEST(UcxEnvelopeTest, ForeignMessagesAreIgnored) {
  std::string header;
  const auto read = [&](const UcxEnvelope& e, const char* behind, size_t data) {
    header.assign(reinterpret_cast<const char*>(&e), sizeof(e));
    header += behind;
    return ReadUcxHeader(header, data);
  };
  UcxEnvelope e;
  e.connection = 7;
  for (const uint32_t kind : {1, 2, 3, 4}) {
    e.kind = kind;
    const auto came = read(e, "", 0);
    ASSERT_TRUE(came.has_value()) << kind;
    EXPECT_EQ(came->envelope.connection, 7u);
    // Only a body's frame is in the header, and only frames have data.
    EXPECT_TRUE(came->wrong.ok());
    EXPECT_EQ(read(e, "frame", 0)->wrong.ok(), kind == UcxEnvelope::kBody);
    EXPECT_EQ(read(e, "", 1)->wrong.ok(), kind <= UcxEnvelope::kBody);
  }
  e.kind = UcxEnvelope::kBody;
  EXPECT_EQ(read(e, "frame", 5)->frame, "frame");
  e.kind = UcxEnvelope::kFrame;
  EXPECT_TRUE(read(e, "", kMaxFrameBytes)->wrong.ok());
  // Invalid ones of ours name their sender, from which we stop reading.
  const auto large = read(e, "", kMaxFrameBytes + 1);
  ASSERT_TRUE(large.has_value());
  EXPECT_FALSE(large->wrong.ok());
  EXPECT_EQ(large->envelope.connection, 7u);
  EXPECT_FALSE(ReadUcxHeader("SLU1", 0).has_value());
  for (const uint32_t kind : {0u, 5u, UINT32_MAX}) {
    e.kind = kind;
    const auto came = read(e, "", 0);
    ASSERT_TRUE(came.has_value()) << kind;
    EXPECT_FALSE(came->wrong.ok()) << kind;
  }
  e = UcxEnvelope();
  e.magic ^= 1;
  EXPECT_FALSE(read(e, "", 0).has_value());
}

TEST(UcxEnvelopeTest, BodyMustMatchTheAnnouncedSize) {
  IncomingBody one, other;
  one.dtype = DType::kFloat;
  one.shape = Shape({4});
  one.bytes = 16;
  IncomingBody* const bodies[] = {&one, &other};
  EXPECT_TRUE(UcxBodyBuffer({bodies, 1}, 16).ok());
  EXPECT_FALSE(UcxBodyBuffer({bodies, 1}, 15).ok());
  EXPECT_FALSE(UcxBodyBuffer({bodies, 2}, 16).ok());
  EXPECT_FALSE(UcxBodyBuffer({}, 16).ok());
}

}  // namespace
}  // namespace sluice
