// Shared by the tests of fused nodes.
#ifndef SLUICE_SESSION_TESTING_FUSION_TEST_UTIL_H_
#define SLUICE_SESSION_TESTING_FUSION_TEST_UTIL_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "graph/builder.h"
#include "session/session.h"
#include "session/testing/same_bits_test_util.h"

namespace sluice {

class FusionTest : public ::testing::Test {
 protected:
  FusionTest() : use_(graph_) {}

  static Output Feed(DType t, PartialShape shape) {
    return Build("Placeholder", {}, {{"dtype", t}, {"shape", shape}});
  }
  static SessionOptions Off() {
    SessionOptions off;
    off.fusion = false;
    return off;
  }
  Tensor Random(const Shape& shape, DType t = DType::kFloat) {
    Tensor f(DType::kFloat, shape);
    std::uniform_real_distribution<float> d(-3, 3);
    for (float& v : f.flat<float>()) v = d(random_);
    if (t == DType::kFloat) return f;
    Graph g;
    WithGraph use(g);
    Output y = Build("Cast", {Constant(f)}, {{"DstT", t}});
    Session s(g);
    return *s.Run(y);
  }

  // Runs with fusion and without, and expects the same bits.
  std::vector<Tensor> Both(const Feeds& feeds,
                           const std::vector<Output>& fetches) {
    return SameBits(graph_, Off(), feeds, fetches);
  }
  // The names of the nodes that a step runs, with their ops.
  std::string Nodes(const Feeds& feeds, const std::vector<Output>& fetches,
                    SessionOptions options = {}) {
    Session session(graph_, options);
    RunOptions traced;
    traced.trace = true;
    RunMetadata metadata;
    const auto out = session.Run(feeds, fetches, {}, traced, &metadata);
    EXPECT_TRUE(out.ok()) << out.status();
    std::string all;
    for (const TraceEvent& e : metadata.events)
      absl::StrAppend(&all, e.node, " (", e.op, ")\n");
    return all;
  }
  static std::string ErrorOf(Session& session, const Feeds& feeds,
                             Output fetch) {
    return std::string(
        session.Run(feeds, std::vector<Output>{fetch}).status().message());
  }
  // Expects exactly the same error from both, and returns it.
  std::string BothFail(const Feeds& feeds, Output fetch) {
    Session plain(graph_, Off()), session(graph_);
    const std::string want = ErrorOf(plain, feeds, fetch);
    EXPECT_NE(want, "");
    EXPECT_EQ(ErrorOf(session, feeds, fetch), want);
    return want;
  }

  static Output Conv(Output x, Output w, const char* format = "NHWC") {
    return Build("Conv2D", {x, w},
                 {{"strides", AttrValue::Ints{1, 1, 1, 1}},
                  {"padding", "SAME"},
                  {"data_format", format}});
  }
  static Output Bias(Output x, Output b, const char* format = "NHWC") {
    return Build("BiasAdd", {x, b}, {{"data_format", format}});
  }

  Graph graph_;
  WithGraph use_;
  std::mt19937 random_{20261122};
};

}  // namespace sluice

#endif  // SLUICE_SESSION_TESTING_FUSION_TEST_UTIL_H_
