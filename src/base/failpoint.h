// Failpoints: named places where tests inject faults.
//
//   const FailpointHit hit = SLUICE_FAILPOINT("grpc.write");
//   if (hit.drop()) return;                 // Pretend it was sent.
//   SLUICE_RETURN_IF_ERROR(hit.error);
//
// A failpoint that is off, as all are outside of tests, costs a relaxed load of
// one global.
#ifndef SLUICE_BASE_FAILPOINT_H_
#define SLUICE_BASE_FAILPOINT_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace sluice {

// What to do at a failpoint. Delays and kills have already happened.
struct FailpointHit {
  Status error;
  bool dropped = false;
  bool drop() const { return dropped; }
};

namespace failpoint_internal {
extern std::atomic<int> armed;  // How many are enabled.
FailpointHit Hit(const char* name);
bool Register(const char* name);

template <size_t n>
struct Name {
  consteval Name(const char (&t)[n]) { std::copy_n(t, n, text); }
  char text[n];
};
// Registers every failpoint of the program before main, reached or not.
template <Name name>
struct Site {
  static inline const bool known = Register(name.text);
};
}  // namespace failpoint_internal

#define SLUICE_FAILPOINT(name)                                          \
  (static_cast<void>(&::sluice::failpoint_internal::Site<name>::known), \
   ::sluice::failpoint_internal::armed.load(std::memory_order_relaxed)  \
       ? ::sluice::failpoint_internal::Hit(name)                        \
       : ::sluice::FailpointHit())

// Enables failpoints: "NAME=ACTION[@SKIP][*TIMES][%PERCENT]", separated by ';'.
// Actions: error, error(message), delay(milliseconds), drop, kill (SIGKILL to
// this process), off. The first SKIP hits do nothing; then TIMES hits act
// (default: all), each with PERCENT probability (default: 100). The environment
// variable SLUICE_FAILPOINTS is read when the program starts. Thread-safe.
Status EnableFailpoints(std::string_view spec, uint64_t seed = 1);
// Disables all failpoints and resets their counts.
void DisableFailpoints();
// How often the failpoint was reached since it was enabled (0 if disabled).
int64_t FailpointHits(std::string_view name);
// All failpoints of this program and of the libraries it has loaded, sorted.
std::vector<std::string> FailpointNames();

}  // namespace sluice

#endif  // SLUICE_BASE_FAILPOINT_H_
