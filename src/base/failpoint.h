// Failpoints: named places where tests make things go wrong.
//
//   const FailpointHit hit = SLUICE_FAILPOINT("grpc.write");
//   if (hit.drop()) return;                 // As if it had been sent.
//   SLUICE_RETURN_IF_ERROR(hit.error);
//
// Off, which is always but in tests, one costs a relaxed load of one global.
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

// What a place is told to do. Delays and kills have happened by then.
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
// Each that is written somewhere is known before main, passed or not.
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

// Enables some: "NAME=ACTION[@SKIP][*TIMES][%PERCENT]", separated by ';'.
// Actions: error, error(message), delay(milliseconds), drop, kill (SIGKILL to
// this process), off. SKIP hits pass before the first, TIMES hits act (else
// all), each with PERCENT probability (else 100). The environment variable
// SLUICE_FAILPOINTS is read when the program starts. Thread-safe.
Status EnableFailpoints(std::string_view spec, uint64_t seed = 1);
// Disables all and forgets the counts.
void DisableFailpoints();
// How often the place was passed since it was enabled (0 if it is not).
int64_t FailpointHits(std::string_view name);
// Of all places in this program and the libraries that it has loaded, sorted.
std::vector<std::string> FailpointNames();

}  // namespace sluice

#endif  // SLUICE_BASE_FAILPOINT_H_
