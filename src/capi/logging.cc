// Log lines (tensorflow/c/logging.h).
#include "tensorflow/c/logging.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace sluice::capi {
namespace {

// A number in the environment; 0 if there is none.
int LevelIn(const char* variable) {
  const char* text = std::getenv(variable);
  int level = 0;
  return text != nullptr && absl::SimpleAtoi(text, &level) ? level : 0;
}

void WriteLine(char letter, const char* format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  const int size = std::vsnprintf(nullptr, 0, format, arguments);
  std::string message(size < 0 ? 0 : static_cast<size_t>(size) + 1, '\0');
  if (size >= 0) {
    std::vsnprintf(message.data(), message.size(), format, again);
    message.pop_back();
  }
  va_end(again);
  const std::string time = absl::FormatTime("%Y-%m-%d %H:%M:%E6S", absl::Now(),
                                            absl::LocalTimeZone());
  // One call: lines of several threads do not mix.
  std::fprintf(stderr, "%s: %c %s\n", time.c_str(), letter, message.c_str());
}

bool WritesVerbose(int level) {
  static const int max = LevelIn("TF_CPP_MAX_VLOG_LEVEL");
  return level <= max;
}

}  // namespace
}  // namespace sluice::capi

using namespace sluice::capi;  // NOLINT

extern "C" {

void TF_Log(TF_LogLevel level, const char* fmt, ...) {
  static const int min = LevelIn("TF_CPP_MIN_LOG_LEVEL");
  if (fmt != nullptr && (level == TF_FATAL || static_cast<int>(level) >= min)) {
    va_list arguments;
    va_start(arguments, fmt);
    WriteLine(level <= TF_FATAL ? "IWEF"[level] : 'E', fmt, arguments);
    va_end(arguments);
  }
  if (level == TF_FATAL) std::abort();
}

void TF_VLog(int level, const char* fmt, ...) {
  if (fmt == nullptr || !WritesVerbose(level)) return;
  va_list arguments;
  va_start(arguments, fmt);
  WriteLine('I', fmt, arguments);
  va_end(arguments);
}

void TF_DVLog([[maybe_unused]] int level, [[maybe_unused]] const char* fmt,
              ...) {
#ifndef NDEBUG
  if (fmt == nullptr || !WritesVerbose(level)) return;
  va_list arguments;
  va_start(arguments, fmt);
  WriteLine('I', fmt, arguments);
  va_end(arguments);
#endif
}

}  // extern "C"
