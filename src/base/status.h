// Errors as values. Nothing in src/ throws across a function boundary and no
// user input aborts: every failure is a Status that names what was expected,
// what was received, and (added once, by the layer that knows) the node and the
// line.
//
//   Result<double> Root(double x) {
//     if (x < 0) return InvalidArgument("x: expected x >= 0, got ", x);
//     return std::sqrt(x);
//   }
//   Status PrintRoot(double x) {
//     SLUICE_ASSIGN_OR_RETURN(const double root, Root(x));
//     std::cout << root << "\n";
//     return OkStatus();
//   }
#ifndef SLUICE_BASE_STATUS_H_
#define SLUICE_BASE_STATUS_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace sluice {

using absl::Status;
using absl::StatusCode;
template <typename T>
using Result = absl::StatusOr<T>;

inline Status OkStatus() { return Status(); }

// Each takes the pieces of the message, joined as by absl::StrCat.
#define SLUICE_DEFINE_ERROR(Name)                              \
  template <typename... Args>                                  \
  [[nodiscard]] Status Name(const Args&... args) {             \
    return Status(StatusCode::k##Name, absl::StrCat(args...)); \
  }
SLUICE_DEFINE_ERROR(Cancelled)
SLUICE_DEFINE_ERROR(InvalidArgument)
SLUICE_DEFINE_ERROR(DeadlineExceeded)
SLUICE_DEFINE_ERROR(NotFound)
SLUICE_DEFINE_ERROR(AlreadyExists)
SLUICE_DEFINE_ERROR(ResourceExhausted)
SLUICE_DEFINE_ERROR(FailedPrecondition)
SLUICE_DEFINE_ERROR(Aborted)
SLUICE_DEFINE_ERROR(OutOfRange)
SLUICE_DEFINE_ERROR(Unimplemented)
SLUICE_DEFINE_ERROR(Internal)
SLUICE_DEFINE_ERROR(DataLoss)
SLUICE_DEFINE_ERROR(Unavailable)
#undef SLUICE_DEFINE_ERROR

// Same code, with `context` before the message ("reading graph.pb: ...").
inline Status Annotate(const Status& s, const std::string& context) {
  if (s.ok()) return s;
  return Status(s.code(), absl::StrCat(context, ": ", s.message()));
}

}  // namespace sluice

#define SLUICE_CONCAT_(a, b) a##b
#define SLUICE_CONCAT(a, b) SLUICE_CONCAT_(a, b)

#define SLUICE_RETURN_IF_ERROR(expr)          \
  do {                                        \
    ::sluice::Status sluice_status_ = (expr); \
    if (!sluice_status_.ok()) [[unlikely]]    \
      return sluice_status_;                  \
  } while (0)

// SLUICE_ASSIGN_OR_RETURN(auto x, MakeX()); `x` is declared or assigned.
#define SLUICE_ASSIGN_OR_RETURN(lhs, expr) \
  SLUICE_ASSIGN_OR_RETURN_(SLUICE_CONCAT(sluice_result_, __LINE__), lhs, expr)
#define SLUICE_ASSIGN_OR_RETURN_(tmp, lhs, expr) \
  auto tmp = (expr);                             \
  if (!tmp.ok()) [[unlikely]]                    \
    return std::move(tmp).status();              \
  lhs = *std::move(tmp)

#endif  // SLUICE_BASE_STATUS_H_
