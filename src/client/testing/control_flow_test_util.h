// Shared by the tests of conditionals and loops.
#ifndef SLUICE_CLIENT_TESTING_CONTROL_FLOW_TEST_UTIL_H_
#define SLUICE_CLIENT_TESTING_CONTROL_FLOW_TEST_UTIL_H_

#include <string>
#include <utility>
#include <vector>

#include "client/control/control_flow.h"
#include "client/testing/client_test_util.h"
#include "graph/control_flow.h"

namespace sluice {

// A scalar to be fed.
struct Fed {
  template <typename T>
  Fed(Output o, T v) : feed(o, Tensor::Scalar<T>(v)) {}
  std::pair<Output, Tensor> feed;
};

class ControlFlowTest : public ClientTest {
 protected:
  static Feeds FeedsOf(std::initializer_list<Fed> fed) {
    Feeds feeds;
    for (const Fed& f : fed) feeds.push_back(f.feed);
    return feeds;
  }
  template <typename T>
  static Output In(const std::string& name) {
    return Placeholder<T>(PartialShape::Scalar(), name);
  }
  template <typename T>
  T Value(Output o, std::initializer_list<Fed> fed = {}) {
    const std::vector<T> v = ClientTest::Values<T>(o, FeedsOf(fed));
    EXPECT_EQ(v.size(), 1u);
    return v.size() == 1 ? v[0] : T();
  }
  void Step(Node* n, std::initializer_list<Fed> fed) {
    RunNode(n, FeedsOf(fed));
  }
  // The message with which the graph's builders, or a run of `o`, failed.
  std::string ErrorOf(Output o, std::initializer_list<Fed> fed = {}) {
    const Result<Tensor> t = session_.Run(FeedsOf(fed), o);
    return std::string(t.status().message());
  }
  std::string BuildErrorOf() { return std::string(graph_.status().message()); }

  int CountOps(const std::string& op) const {
    int n = 0;
    for (const auto& node : graph_.nodes()) n += node->op_name() == op;
    return n;
  }
};

}  // namespace sluice

#endif  // SLUICE_CLIENT_TESTING_CONTROL_FLOW_TEST_UTIL_H_
