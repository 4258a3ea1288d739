// Which sanitizers this build uses: for code that must not hide errors from
// them, and for tests that do less work where everything takes ten times as
// long.
#ifndef SLUICE_BASE_SANITIZERS_H_
#define SLUICE_BASE_SANITIZERS_H_

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SLUICE_ADDRESS_SANITIZED true
#endif
#if __has_feature(thread_sanitizer)
#define SLUICE_THREAD_SANITIZED true
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SLUICE_ADDRESS_SANITIZED true
#endif
#if defined(__SANITIZE_THREAD__)
#define SLUICE_THREAD_SANITIZED true
#endif
#ifndef SLUICE_ADDRESS_SANITIZED
#define SLUICE_ADDRESS_SANITIZED false
#endif
#ifndef SLUICE_THREAD_SANITIZED
#define SLUICE_THREAD_SANITIZED false
#endif

namespace sluice {

inline constexpr bool kAddressSanitized = SLUICE_ADDRESS_SANITIZED;
inline constexpr bool kThreadSanitized = SLUICE_THREAD_SANITIZED;
// Any sanitizer. (clang 14 has no macro for UndefinedBehaviorSanitizer, so
// cmake/Options.cmake defines this one.)
#if defined(SLUICE_SANITIZED)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

}  // namespace sluice

#endif  // SLUICE_BASE_SANITIZERS_H_
