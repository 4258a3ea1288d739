// Shared by the tests that define functions and those that inline them.
#ifndef SLUICE_CLIENT_TESTING_FUNCTION_TEST_UTIL_H_
#define SLUICE_CLIENT_TESTING_FUNCTION_TEST_UTIL_H_

#include <string>
#include <utility>
#include <vector>

#include "client/control/functions.h"
#include "client/testing/client_test_util.h"

namespace sluice {

class FunctionTest : public ClientTest {
 protected:
  using Args = std::vector<Output>;
  static constexpr DType kF = DType::kFloat;
  static constexpr DType kI = DType::kInt32;

  // A scalar to be fed, and a feed of one.
  template <typename T>
  static Output In(const std::string& name) {
    return Placeholder<T>(PartialShape::Scalar(), name);
  }
  template <typename T>
  static std::pair<Output, Tensor> Fed(Output o, T v) {
    return {o, Tensor::Scalar<T>(v)};
  }
  template <typename T>
  T Value(Output o, const Feeds& feeds = {}) {
    const std::vector<T> v = Values<T>(o, feeds);
    EXPECT_EQ(v.size(), 1u);
    return v.size() == 1 ? v[0] : T();
  }
  // The message with which a run of `o`, or a builder, failed.
  std::string ErrorOf(Output o, const Feeds& feeds = {}) {
    return std::string(session_.Run(feeds, o).status().message());
  }
  std::string BuildErrorOf() const {
    return std::string(graph_.status().message());
  }
};

}  // namespace sluice

#endif  // SLUICE_CLIENT_TESTING_FUNCTION_TEST_UTIL_H_
