#include "checkpoint/state.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "checkpoint/checkpoint_reader.h"
#include "checkpoint/pending_file.h"
#include "io/file.h"

namespace sluice {
namespace {

// Reads the fields of a CheckpointState (checkpoint.proto) in protobuf's text
// format. Protobuf's own parser is not in its lite runtime, which the small
// build links (SLUICE_MINIMAL); this is enough for a message of scalars.
class StateText {
 public:
  explicit StateText(std::string_view text) : rest_(text) {}

  // The next field, or false at the end of the text and at a mistake.
  bool NextField(std::string* name) {
    SkipSpace();
    *name = Word();
    if (name->empty()) {
      if (!rest_.empty()) Fail("the name of a field");
      return false;
    }
    SkipSpace();
    if (!Take(':')) return Fail("':'");
    SkipSpace();
    return true;
  }

  // The value of a field, or of one that repeats: several of them in brackets.
  bool String(std::string* value) { return Quoted(value) && EndOfField(); }
  bool Number(double* value) { return Digits(value) && EndOfField(); }
  bool Strings(std::vector<std::string>* values) {
    return Several(&StateText::Quoted, values);
  }
  bool Numbers(std::vector<double>* values) {
    return Several(&StateText::Digits, values);
  }

  // Keeps the first mistake.
  bool Fail(const char* expected) {
    if (error_.empty())
      error_ = absl::StrCat("line ", line_, ": expected ", expected);
    return false;
  }
  const std::string& error() const { return error_; }

 private:
  // Adjacent texts are one.
  bool Quoted(std::string* value) {
    value->clear();
    if (!Starts("\"") && !Starts("'")) return Fail("a quoted text");
    while (Starts("\"") || Starts("'")) {
      size_t end = 1;
      while (end < rest_.size() && rest_[end] != rest_[0] && rest_[end] != '\n')
        end += rest_[end] == '\\' ? 2 : 1;
      std::string part;
      if (end >= rest_.size() || rest_[end] != rest_[0] ||
          !absl::CUnescape(HexAsOctal(rest_.substr(1, end - 1)), &part))
        return Fail("a quoted text");
      value->append(part);
      rest_.remove_prefix(end + 1);
      SkipSpace();
    }
    return true;
  }

  bool Digits(double* value) {
    if (!absl::SimpleAtod(Word(), value)) return Fail("a number");
    SkipSpace();
    return true;
  }

  template <typename Value>
  bool Several(bool (StateText::*one)(Value*), std::vector<Value>* values) {
    Value value{};
    if (!Take('[')) {
      if (!(this->*one)(&value)) return false;
      values->push_back(std::move(value));
      return EndOfField();
    }
    SkipSpace();
    if (Take(']')) return EndOfField();
    for (;;) {
      if (!(this->*one)(&value)) return false;
      values->push_back(value);
      if (Take(']')) return EndOfField();
      if (!Take(',')) return Fail("',' or ']'");
      SkipSpace();
    }
  }

  // "\x41B" is two letters, as in protobuf: an escape has at most two digits.
  // Abseil takes all that follow, but of octal ones at most three.
  static std::string HexAsOctal(std::string_view text) {
    const auto digits = [&](size_t at) {
      size_t n = 0;
      while (n < 2 && at + n < text.size() &&
             absl::ascii_isxdigit(static_cast<unsigned char>(text[at + n])))
        ++n;
      return n;
    };
    std::string out;
    for (size_t i = 0; i < text.size(); ++i) {
      out += text[i];
      if (text[i] != '\\' || ++i == text.size()) continue;
      const size_t n = text[i] == 'x' || text[i] == 'X' ? digits(i + 1) : 0;
      if (n == 0) {
        out += text[i];
        continue;
      }
      unsigned byte = 0;
      (void)std::from_chars(&text[i + 1], &text[i + 1] + n, byte, 16);
      absl::StrAppendFormat(&out, "%03o", byte);
      i += n;
    }
    return out;
  }

  bool Starts(std::string_view c) const { return rest_.starts_with(c); }
  bool Take(char c) {
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  // Fields may be separated by a comma or a semicolon.
  bool EndOfField() {
    SkipSpace();
    if (!Take(',')) Take(';');
    return true;
  }
  void SkipSpace() {
    while (!rest_.empty()) {
      if (rest_[0] == '#') {
        rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
      } else if (absl::ascii_isspace(static_cast<unsigned char>(rest_[0]))) {
        if (rest_[0] == '\n') ++line_;
        rest_.remove_prefix(1);
      } else {
        return;
      }
    }
  }
  // A name or a number.
  std::string Word() {
    size_t n = 0;
    while (n < rest_.size() &&
           (absl::ascii_isalnum(static_cast<unsigned char>(rest_[n])) ||
            std::string_view("_.+-").find(rest_[n]) != std::string_view::npos))
      ++n;
    std::string word(rest_.substr(0, n));
    rest_.remove_prefix(n);
    return word;
  }

  std::string_view rest_;
  int line_ = 1;
  std::string error_;
};

// One field as a line.
void AppendText(std::string* text, const char* name, const std::string& value) {
  absl::StrAppend(text, name, ": \"", absl::CEscape(value), "\"\n");
}
void AppendText(std::string* text, const char* name, double value) {
  // The shortest of the two that is the same number again.
  std::string digits = absl::StrFormat("%.15g", value);
  double read = 0;
  if (!absl::SimpleAtod(digits, &read) || read != value)
    digits = absl::StrFormat("%.17g", value);
  absl::StrAppend(text, name, ": ", digits, "\n");
}

constexpr char kLatestField[] = "model_checkpoint_path";
constexpr char kAllField[] = "all_model_checkpoint_paths";
constexpr char kTimesField[] = "all_model_checkpoint_timestamps";
constexpr char kPreservedField[] = "last_preserved_timestamp";

std::string StateFile(const std::string& folder, const std::string& file) {
  return (std::filesystem::path(folder) / file).string();
}

}  // namespace

Result<CheckpointFolderState> ReadCheckpointState(const std::string& folder,
                                                  const std::string& file) {
  const std::string path = StateFile(folder, file);
  SLUICE_ASSIGN_OR_RETURN(const std::string text,
                          ReadFile(path, int64_t{1} << 28));
  const auto absolute = [&](const std::string& p) {
    return (std::filesystem::path(folder) / p).string();
  };
  CheckpointFolderState state;
  StateText fields(text);
  std::string name, latest;
  std::vector<std::string> all;
  bool good = true;
  while (good && fields.NextField(&name)) {
    if (name == kLatestField) {
      good = fields.String(&latest);
    } else if (name == kAllField) {
      good = fields.Strings(&all);
    } else if (name == kTimesField) {
      good = fields.Numbers(&state.times);
    } else if (name == kPreservedField) {
      good = fields.Number(&state.last_preserved);
    } else {
      good = fields.Fail("a field of CheckpointState");
    }
  }
  if (!fields.error().empty() || latest.empty())
    return DataLoss(
        "file '", path,
        "': expected the state of a folder of checkpoints, got ",
        fields.error().empty() ? "no model_checkpoint_path" : "a mistake in ",
        fields.error());
  state.latest = absolute(latest);
  for (const std::string& p : all) state.all.push_back(absolute(p));
  if (state.times.size() != state.all.size()) state.times.clear();
  return state;
}

Status WriteCheckpointState(const std::string& folder,
                            const CheckpointFolderState& state, bool relative,
                            const std::string& file) {
  if (state.latest.empty())
    return InvalidArgument(
        "state: expected the path of a checkpoint, got \"\"");
  if (!state.times.empty() && state.times.size() != state.all.size())
    return InvalidArgument("state: expected as many times as checkpoints, got ",
                           state.times.size(), " and ", state.all.size());
  relative = relative || !std::filesystem::path(folder).is_absolute();
  const auto stored = [&](const std::string& p) {
    if (!relative) return p;
    const std::filesystem::path base = folder.empty()
                                           ? std::filesystem::path(".")
                                           : std::filesystem::path(folder);
    const std::string out =
        std::filesystem::path(p).lexically_relative(base).string();
    // (Of "x" in the folder "" or "." nothing is to be taken away.)
    return out.empty() ||
                   std::filesystem::path(p).is_absolute() != base.is_absolute()
               ? p
               : out;
  };
  std::string text;
  AppendText(&text, kLatestField, stored(state.latest));
  bool has_latest = false;
  for (const std::string& p : state.all) {
    AppendText(&text, kAllField, stored(p));
    has_latest = has_latest || p == state.latest;
  }
  if (!has_latest) AppendText(&text, kAllField, stored(state.latest));
  if (has_latest)
    for (const double t : state.times) AppendText(&text, kTimesField, t);
  if (state.last_preserved != 0)
    AppendText(&text, kPreservedField, state.last_preserved);
  return ReplaceFile(StateFile(folder, file), text);
}

Result<std::string> LatestCheckpoint(const std::string& folder,
                                     const std::string& file) {
  SLUICE_ASSIGN_OR_RETURN(const CheckpointFolderState state,
                          ReadCheckpointState(folder, file));
  if (CheckpointExists(state.latest)) return state.latest;
  return NotFound("file '", StateFile(folder, file),
                  "': expected a checkpoint '", state.latest,
                  "', of which there are no files");
}

}  // namespace sluice
