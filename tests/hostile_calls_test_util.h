// The table of hostile calls: every public function, called with invalid
// arguments. The result must be an error, or a defined value if the function
// cannot return one, and never the end of the process, except for accessors
// (docs/design/002-tensors.md).
#ifndef SLUICE_TESTS_HOSTILE_CALLS_TEST_UTIL_H_
#define SLUICE_TESTS_HOSTILE_CALLS_TEST_UTIL_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "sluice/sluice.h"

// A test and the functions that it calls: "Tensor::dim Zeros".
// tools/check_interface.py checks that each function has an entry.
#define HOSTILE(Name, functions) TEST(HostileCallsTest, Name)

namespace sluice {

inline constexpr int64_t kHuge = int64_t{1} << 62;

// An output of a different graph.
inline Output Elsewhere() {
  static auto* const graph = new Graph();
  const WithGraph use(*graph);
  static const Output o = Constant(1.0f);
  return o;
}

inline Status StatusOf(const Status& s) { return s; }
template <typename T>
Status StatusOf(const Result<T>& r) {
  return r.status();
}

// Checks for an error that is not internal and has a message.
template <typename T>
void ExpectRefused(const T& result, const std::string& message) {
  const Status s = StatusOf(result);
  EXPECT_FALSE(s.ok());
  EXPECT_NE(s.code(), StatusCode::kInternal) << s;
  EXPECT_THAT(std::string(s.message()), testing::HasSubstr(message));
}

// Whether a client value (an output, a variable, a gradient) is valid.
template <typename T>
bool IsThere(const T& value) {
  if constexpr (requires { value.valid(); })
    return value.valid();
  else
    return static_cast<bool>(value);
}
#define EXPECT_NULL(...) EXPECT_FALSE(IsThere(__VA_ARGS__))

// The error that `build` records in a new graph and that a step reports.
inline Status RecordedBy(const std::function<void()>& build) {
  Graph g;
  const WithGraph use(g);
  build();
  const Status recorded = g.status();
  Session session(g);
  if (!recorded.ok()) {
    EXPECT_FALSE(session.Run(g.Failure()).ok()) << recorded;
  }
  EXPECT_TRUE(session.RunTargets({}).ok()) << recorded;
  return recorded;
}
inline void ExpectRecorded(const std::string& message,
                           const std::function<void()>& build) {
  ExpectRefused(RecordedBy(build), message);
}

}  // namespace sluice

#endif  // SLUICE_TESTS_HOSTILE_CALLS_TEST_UTIL_H_
