#include "graph/device_name.h"

#include "graph/builder.h"
#include "graph/graph.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

DeviceName Name(std::string_view text) {
  Result<DeviceName> name = DeviceName::Parse(text);
  EXPECT_TRUE(name.ok()) << text << ": " << name.status();
  return name.ok() ? *name : DeviceName();
}

TEST(DeviceNameTest, ParsesAllFormsAndWritesOne) {
  const struct {
    const char* in;
    const char* out;
  } cases[] = {
      {"", ""},
      {"/", ""},
      {"/job:ps/replica:0/task:1/device:CPU:0",
       "/job:ps/replica:0/task:1/device:CPU:0"},
      {"/device:GPU:3/task:2/job:a", "/job:a/task:2/device:GPU:3"},
      {"job:ps/task:1", "/job:ps/task:1"},
      {"/job:ps//task:1/", "/job:ps/task:1"},
      {"/gpu:0", "/device:GPU:0"},
      {"/Cpu:1", "/device:CPU:1"},
      {"cpu:0", "/device:CPU:0"},
      {"/cpu", "/device:CPU:*"},
      {"/cpu:*", "/device:CPU:*"},
      {"/device:GPU:*", "/device:GPU:*"},
      {"/device:GPU", "/device:GPU:*"},
      {"/device:xpu_cpu:3", "/device:XPU_CPU:3"},
      {"/emu:2", "/device:EMU:2"},
      {"/device:*:0", "/device:*:0"},
      {"/device:*", ""},
      {"/job:*/replica:*/task:*/device:*:*", ""},
      {"/task:01", "/task:1"},
      {"/job:ps/job:b", "/job:b"},
      {"/task:1/task:*", ""},
      {"/job:my-job.2_x", "/job:my-job.2_x"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(Name(c.in).ToString(), c.out) << c.in;
    EXPECT_EQ(Name(c.out), Name(c.in)) << c.in;
  }
}

TEST(DeviceNameTest, ErrorNamesTheWrongPart) {
  for (const char* text : {"/job:",      "/job",         "/job:a b",
                           "/replica:",  "/replica:-1",  "/task:x",
                           "/task:+1",   "/task: 1",     "/task:99999999999",
                           "/task:1:2",  "/foo:0",       "/device:",
                           "/device::0", "/device:CPU:", "/device:CPU:0:1",
                           "/cpu:",      "/cpu:a",       "/device:C-U:0",
                           "/cpu:-1",    "nonsense",     "/cpu:0/gpu:0"}) {
    const Result<DeviceName> name = DeviceName::Parse(text);
    ASSERT_FALSE(name.ok()) << text;
    EXPECT_EQ(name.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(name.status().message().find(text), std::string::npos) << text;
  }
  EXPECT_EQ(DeviceName::Parse("/job:ps/task:one/cpu:0").status().message(),
            "device: expected task:NUMBER, got 'task:one' in "
            "'/job:ps/task:one/cpu:0'");
}

TEST(DeviceNameTest, IsCompleteOnlyWithEveryPart) {
  EXPECT_TRUE(Name("/job:ps/replica:0/task:1/device:CPU:0").complete());
  for (const char* text :
       {"/replica:0/task:1/cpu:0", "/job:a/task:1/cpu:0",
        "/job:a/replica:0/cpu:0", "/job:a/replica:0/task:1/cpu",
        "/job:a/replica:0/task:1/device:*:0", "/job:a/replica:0/task:1", ""})
    EXPECT_FALSE(Name(text).complete()) << text;
}

TEST(DeviceNameTest, ConstraintMatchesDevicesWithAllItsParts) {
  const DeviceName device = Name("/job:ps/replica:0/task:1/device:CPU:0");
  for (const char* text : {"", "/job:ps", "/task:1", "/cpu", "/device:*:0",
                           "/job:ps/replica:0/task:1/device:CPU:0"})
    EXPECT_TRUE(Name(text).Matches(device)) << text;
  for (const char* text : {"/job:worker", "/replica:1", "/task:0", "/gpu",
                           "/cpu:1", "/job:ps/task:2"})
    EXPECT_FALSE(Name(text).Matches(device)) << text;
  // A partial name is not a device that a narrower constraint could match.
  EXPECT_FALSE(Name("/cpu:0").Matches(Name("/cpu")));
  EXPECT_TRUE(Name("/cpu:0").CompatibleWith(Name("/cpu")));
  EXPECT_TRUE(Name("/job:a").CompatibleWith(Name("/task:1")));
  EXPECT_FALSE(Name("/job:a/task:1").CompatibleWith(Name("/task:2")));
  EXPECT_FALSE(Name("/job:a").CompatibleWith(Name("/job:b")));
  EXPECT_FALSE(Name("/replica:1").CompatibleWith(Name("/replica:0")));
  EXPECT_FALSE(Name("/cpu").CompatibleWith(Name("/gpu")));
  EXPECT_FALSE(Name("/cpu:0").CompatibleWith(Name("/device:*:1")));
}

TEST(DeviceNameTest, DefaultsFillMissingParts) {
  // As TensorFlow's nested scopes do, where type and number are two parts.
  const struct {
    const char* inner;
    const char* outer;
    const char* merged;
  } cases[] = {
      {"/gpu", "/cpu:1", "/device:GPU:1"},
      {"/job:ps/task:1", "/cpu:1", "/job:ps/task:1/device:CPU:1"},
      {"/job:worker", "/job:ps/task:1/cpu:1",
       "/job:worker/task:1/device:CPU:1"},
      {"", "/job:ps", "/job:ps"},
      {"/gpu:0", "", "/device:GPU:0"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(Name(c.inner).WithDefaults(Name(c.outer)).ToString(), c.merged);
    EXPECT_EQ(*MergeDevices(c.inner, c.outer), c.merged);
  }
  EXPECT_EQ(Name("/job:ps/replica:2/task:1/cpu:0").Task(),
            Name("/job:ps/replica:2/task:1"));
  EXPECT_FALSE(MergeDevices("/task:x", "").ok());
}

TEST(DeviceNameTest, InvalidScopeIsAnErrorOfTheGraph) {
  Graph g;
  const WithGraph use(g);
  {
    const DeviceScope outer("/job:ps/task:1");
    const DeviceScope inner("/gpu:0");
    EXPECT_EQ(BuildNode("NoOp", {})->device(), "/job:ps/task:1/device:GPU:0");
  }
  EXPECT_TRUE(g.status().ok());
  const DeviceScope wrong("/gpu:zero");
  EXPECT_NE(g.status().message().find("'gpu:zero'"), std::string::npos);
}

}  // namespace
}  // namespace sluice
