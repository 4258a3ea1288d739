// Sessions over several devices of one process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sluice/sluice.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

SessionOptions On(int cpus) {
  SessionOptions o;
  o.devices = CpuDevices(cpus);
  return o;
}

TEST(Devices, LoopWithBodyOnOtherDeviceGivesEqualResults) {
  Graph g;
  WithGraph use(g);
  const Output x = Placeholder(DType::kFloat);
  auto [count, y] = While(
      std::tuple{0, x}, [&](Output i, Output) { return i < 10; },
      [&](Output i, Output v) {
        DeviceScope there("/cpu:1");
        return std::tuple{i + 1, v * 2};
      });
  const Output dx = Grad(y, x);
  ASSERT_TRUE(g.status().ok()) << g.status();
  for (const int cpus : {2, 3}) {
    Session s(g, On(cpus));
    for (int i = 0; i < 3; ++i) {
      auto r =
          s.Run({{x, Tensor::Scalar<float>(3)}}, std::vector<Output>{y, dx});
      ASSERT_TRUE(r.ok()) << r.status();
      EXPECT_EQ((*r)[0].scalar<float>(), 3072);
      EXPECT_EQ((*r)[1].scalar<float>(), 1024);
    }
  }
}

TEST(Devices, MissingDeviceErrorListsAvailableDevices) {
  Graph g;
  WithGraph use(g);
  Output y;
  {
    DeviceScope there("/cpu:7");
    y = Placeholder(DType::kFloat) + 1.0f;
  }
  Session s(g, On(2));
  auto r = s.Run({{y.node->input(0), Tensor::Scalar<float>(1)}}, y);
  EXPECT_EQ(r.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(r.status().message()),
              ::testing::AllOf(HasSubstr("CPU:7"), HasSubstr("CPU:1"),
                               HasSubstr("devices_test.cc")));
  SessionOptions soft = On(2);
  soft.soft_placement = true;
  Session t(g, soft);
  auto u = t.Run({{y.node->input(0), Tensor::Scalar<float>(1)}}, y);
  ASSERT_TRUE(u.ok()) << u.status();
  EXPECT_EQ(u->scalar<float>(), 2);
}

TEST(Devices, PlacementLogGivesDeviceAndReason) {
  Graph g;
  WithGraph use(g);
  Output y;
  {
    DeviceScope there("/cpu:1");
    y = -Placeholder(DType::kFloat);
  }
  std::string log;
  SessionOptions o = On(2);
  o.placement_log = [&log](const std::string& table) { log += table; };
  Session s(g, o);
  ASSERT_TRUE(s.Run({{y.node->input(0), Tensor::Scalar<float>(1)}}, y).ok());
  EXPECT_THAT(log, ::testing::AllOf(HasSubstr("Neg"), HasSubstr("CPU:1"),
                                    HasSubstr("requested")));
}

TEST(Devices, ErrorOnOneDeviceNamesNodeAndEndsStep) {
  Graph g;
  WithGraph use(g);
  Output x = Placeholder(DType::kInt32);
  Output y, z;
  {
    DeviceScope there("/cpu:1");
    y = ops::Div(Constant(1), x);
  }
  {
    DeviceScope here("/cpu:0");
    z = y + x;
  }
  Session s(g, On(2));
  for (int i = 0; i < 5; ++i) {
    auto r = s.Run({{x, Tensor::Scalar<int32_t>(0)}}, z);
    EXPECT_EQ(r.status().code(), StatusCode::kInvalidArgument) << r.status();
    EXPECT_THAT(std::string(r.status().message()), HasSubstr("Div"));
    auto good = s.Run({{x, Tensor::Scalar<int32_t>(1)}}, z);
    ASSERT_TRUE(good.ok()) << good.status();
    EXPECT_EQ(good->scalar<int32_t>(), 2);
  }
}

}  // namespace
}  // namespace sluice
