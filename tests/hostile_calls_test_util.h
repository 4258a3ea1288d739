// The table of hostile calls: every public function, called with arguments that
// make no sense. What comes of it is an error, or a defined value where the
// function has no way to return one, and never the end of the process, but for
// what docs/design/002-tensors.md says of accessors.
#ifndef SLUICE_TESTS_HOSTILE_CALLS_TEST_UTIL_H_
#define SLUICE_TESTS_HOSTILE_CALLS_TEST_UTIL_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "sluice/sluice.h"

// A test, and the functions that it calls: "Tensor::dim Zeros". That each has
// an entry is checked by tools/check_interface.py.
#define HOSTILE(Name, functions) TEST(HostileCallsTest, Name)

namespace sluice {

inline constexpr int64_t kHuge = int64_t{1} << 62;

// An output of a graph that is not the one at hand.
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

// An error that is not of our making, and says what is wrong.
template <typename T>
void ExpectRefused(const T& result, const std::string& message) {
  const Status s = StatusOf(result);
  EXPECT_FALSE(s.ok());
  EXPECT_NE(s.code(), StatusCode::kInternal) << s;
  EXPECT_THAT(std::string(s.message()), testing::HasSubstr(message));
}

// Whether a value of the client is there: an output, a variable, a gradient.
template <typename T>
bool IsThere(const T& value) {
  if constexpr (requires { value.valid(); })
    return value.valid();
  else
    return static_cast<bool>(value);
}
#define EXPECT_NULL(...) EXPECT_FALSE(IsThere(__VA_ARGS__))

// What `build` records in a graph of its own, where a step reports it.
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
