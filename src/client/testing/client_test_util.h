// Shared by the client's tests: a graph and session per test, values by name,
// finite differences.
#ifndef SLUICE_CLIENT_TESTING_CLIENT_TEST_UTIL_H_
#define SLUICE_CLIENT_TESTING_CLIENT_TEST_UTIL_H_

#include <string>
#include <vector>

#include "client/autodiff/gradients.h"
#include "client/nn/optimizers.h"
#include "client/operators.h"
#include "client/variables.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "session/session.h"
#include "sluice/ops.h"

namespace sluice {

// Each test builds into a graph of its own.
class ClientTest : public ::testing::Test {
 protected:
  ClientTest() : use_(graph_) {}

  Tensor Eval(Output o, const Feeds& feeds = {}) {
    Result<Tensor> t = session_.Run(feeds, o);
    EXPECT_TRUE(t.ok()) << t.status();
    return t.ok() ? *t : Tensor();
  }
  template <typename T>
  std::vector<T> Values(Output o, const Feeds& feeds = {}) {
    const Tensor t = Eval(o, feeds);
    EXPECT_EQ(t.dtype(), DTypeOf<T>());
    return t.dtype() == DTypeOf<T>() ? t.ToVector<T>() : std::vector<T>();
  }
  void RunNode(Node* n, const Feeds& feeds = {}) {
    const Status s = session_.RunTargets({n}, feeds);
    ASSERT_TRUE(s.ok()) << s;
  }
  void Initialize() { RunNode(GlobalVariablesInitializer()); }

  Graph graph_;
  WithGraph use_;
  Session session_{graph_};
};

inline std::string Here(int line, const char* file) {
  const std::string path(file);
  return path.substr(path.rfind('/') + 1) + ":" + std::to_string(line);
}

}  // namespace sluice

#endif  // SLUICE_CLIENT_TESTING_CLIENT_TEST_UTIL_H_
