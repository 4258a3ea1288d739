#include "graph/scope_state.h"

#include <optional>

#include "graph/graph.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

Node* Named(const char* name) {
  return BuildNode("NoOp", {}, {}, name, CallerLoc());
}

TEST(ScopeStateTest, CanBeRestoredInAnyOrder) {
  Graph g;
  const ScopeState outside;
  ScopeState(g).Restore();
  const ScopeState plain;
  std::optional<ScopeState> named, on_device;
  {
    const NameScope scope("a");
    named.emplace();
    const DeviceScope device("/device:CPU:0");
    on_device.emplace();
  }
  on_device->Restore();
  Node* const first = Named("x");
  ASSERT_NE(first, nullptr) << g.status();
  EXPECT_EQ(first->name(), "a/x");
  EXPECT_EQ(first->device(), "/device:CPU:0");
  plain.Restore();
  EXPECT_EQ(Named("x")->name(), "x");
  named->Restore();
  Node* const second = Named("x");
  EXPECT_EQ(second->name(), "a/x_1");
  EXPECT_EQ(second->device(), "");
  outside.Restore();
  EXPECT_NE(&CurrentGraph(), &g);
}

TEST(ScopeStateTest, NameWithTrailingSlashIsTheFullNodeName) {
  Graph g;
  const WithGraph use(g);
  const NameScope outer("outer");
  EXPECT_EQ(Named("a/b/")->name(), "a/b");
  EXPECT_EQ(Named("a/b/"), nullptr);  // Not made unique.
  EXPECT_EQ(g.status().code(), StatusCode::kAlreadyExists);
  g.ClearErrors();
  SetNamePrefix("again/");
  EXPECT_EQ(Named("c")->name(), "again/c");
}

TEST(ScopeStateTest, NameScopeWithTrailingSlashIsEnteredAgain) {
  Graph g;
  const WithGraph use(g);
  const NameScope outer("outer");
  { const NameScope first("a"); }
  {
    const NameScope again("outer/a/");
    EXPECT_EQ(again.prefix(), "outer/a");
    EXPECT_EQ(Named("x")->name(), "outer/a/x");
  }
  EXPECT_EQ(Named("x")->name(), "outer/x");
  const NameScope other("a");
  EXPECT_EQ(other.prefix(), "outer/a_1");
}

}  // namespace
}  // namespace sluice
