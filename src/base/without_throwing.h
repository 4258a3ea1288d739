// Calls user functions, which may throw although nothing in the library does,
// and converts their exceptions to errors.
#ifndef SLUICE_BASE_WITHOUT_THROWING_H_
#define SLUICE_BASE_WITHOUT_THROWING_H_

#include <cxxabi.h>

#include <exception>
#include <new>

#include "base/status.h"

namespace sluice {

// Calls `fn`, which returns a Status, and returns its result; Internal with the
// exception's text if it throws. `what` names the function in the message.
template <typename Fn>
Status WithoutThrowing(const char* what, Fn&& fn) {
  try {
    return fn();
  } catch (const std::bad_alloc&) {
    return ResourceExhausted(what, ": expected memory, got std::bad_alloc");
  } catch (const std::exception& e) {
    return Internal(what, ": expected no exception, got '", e.what(), "'");
  } catch (abi::__forced_unwind&) {  // Thread cancellation must continue.
    throw;
  } catch (...) {
    return Internal(what,
                    ": expected no exception, got one that is not a "
                    "std::exception");
  }
}

}  // namespace sluice

#endif  // SLUICE_BASE_WITHOUT_THROWING_H_
