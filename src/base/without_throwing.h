// Functions of the user's program, which may throw although nothing in the
// library does: their exceptions become errors.
#ifndef SLUICE_BASE_WITHOUT_THROWING_H_
#define SLUICE_BASE_WITHOUT_THROWING_H_

#include <cxxabi.h>

#include <exception>
#include <new>

#include "base/status.h"

namespace sluice {

// What `fn`, a `what` that returns a Status, returns; Internal with the
// exception's text if it throws.
template <typename Fn>
Status WithoutThrowing(const char* what, Fn&& fn) {
  try {
    return fn();
  } catch (const std::bad_alloc&) {
    return ResourceExhausted(what, ": expected memory, got std::bad_alloc");
  } catch (const std::exception& e) {
    return Internal(what, ": expected no exception, got '", e.what(), "'");
  } catch (abi::__forced_unwind&) {  // A thread that ends: not to be stopped.
    throw;
  } catch (...) {
    return Internal(what,
                    ": expected no exception, got one that is no "
                    "std::exception");
  }
}

}  // namespace sluice

#endif  // SLUICE_BASE_WITHOUT_THROWING_H_
