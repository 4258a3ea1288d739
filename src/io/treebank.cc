#include "io/treebank.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/escaping.h"
#include "io/file.h"

namespace sluice {
namespace {

constexpr std::string_view kSpaces = " \t\n\r\v\f";
constexpr std::string_view kWordEnds = " \t\n\r\v\f()";

// Reads a text from left to right. Open nodes are on a stack of its own, so
// that deep trees need no more of the thread's.
class TreebankParser {
 public:
  TreebankParser(std::string_view text, const TreebankOptions& options,
                 const std::string& name)
      : text_(text), options_(options), name_(name) {}

  Result<Treebank> Parse() {
    SLUICE_RETURN_IF_ERROR(StartWords());
    while (SkipSpaces()) {
      if (text_[at_] == '(') {
        SLUICE_RETURN_IF_ERROR(Open());
      } else if (text_[at_] == ')') {
        SLUICE_RETURN_IF_ERROR(Close());
      } else {
        SLUICE_RETURN_IF_ERROR(Word());
      }
    }
    if (!open_.empty())
      return Bad(open_[0].at,
                 "tree: expected as many ')' as '(', got the end "
                 "of the file with ",
                 open_.size(), " open");
    return std::move(bank_);
  }

 private:
  struct Place {
    int64_t line, column;
  };
  struct OpenNode {
    Place at = {1, 1};
    int32_t label = -1;
    int32_t left = -1, right = -1, word = -1;
  };

  Place Here() const {
    return {line_, static_cast<int64_t>(at_ - line_begin_) + 1};
  }
  template <typename... Args>
  Status Bad(const Place& at, const Args&... what) const {
    return InvalidArgument(name_, ":", at.line, ":", at.column, ": ", what...);
  }
  // For messages: what is at `from`.
  std::string Quoted(size_t from) const {
    if (from == text_.size()) return "the end of the file";
    const size_t end = std::max(
        from + 1, std::min(text_.find_first_of(kWordEnds, from), text_.size()));
    constexpr size_t kMost = 40;
    const bool cut = end - from > kMost;
    const std::string token(text_.substr(from, cut ? kMost : end - from));
    return absl::StrCat("'", absl::CHexEscape(token), cut ? "..." : "", "'");
  }

  Status StartWords() {
    if (options_.labels < 1)
      return InvalidArgument(name_, ": labels: expected at least 1, got ",
                             options_.labels);
    bank_.words = options_.vocabulary;
    for (const std::string& w : options_.vocabulary)
      if (!numbers_.emplace(w, static_cast<int32_t>(numbers_.size())).second)
        return InvalidArgument(name_,
                               ": vocabulary: expected each word once, "
                               "got '",
                               absl::CHexEscape(w), "' twice");
    return OkStatus();
  }

  // False at the end of the text.
  bool SkipSpaces() {
    for (; at_ < text_.size() && kSpaces.find(text_[at_]) != kSpaces.npos;
         ++at_)
      if (text_[at_] == '\n') {
        ++line_;
        line_begin_ = at_ + 1;
      }
    return at_ < text_.size();
  }

  std::string_view Token() {
    const size_t begin = at_;
    at_ = std::min(text_.find_first_of(kWordEnds, at_), text_.size());
    return text_.substr(begin, at_ - begin);
  }

  Status Open() {
    OpenNode node;
    node.at = Here();
    if (!open_.empty() && (open_.back().word >= 0 || open_.back().right >= 0))
      return BadNode(open_.back().word >= 0 ? "a word and a child"
                                            : "a third child");
    ++at_;
    SkipSpaces();
    const Place at = Here();
    const size_t begin = at_;
    const std::string_view digits = Token();
    const char* const end = digits.data() + digits.size();
    const auto read = std::from_chars(digits.data(), end, node.label);
    if (read.ec != std::errc() || read.ptr != end || node.label < 0 ||
        node.label >= options_.labels)
      return Bad(at, "label: expected a number from 0 to ", options_.labels - 1,
                 " after '(', got ", Quoted(begin));
    open_.push_back(node);
    return OkStatus();
  }

  Status Word() {
    if (open_.empty())
      return Bad(Here(), "tree: expected '(', got ", Quoted(at_));
    if (open_.back().word >= 0) return BadNode("a second word");
    if (open_.back().left >= 0) return BadNode("a child and a word");
    const std::string_view word = Token();
    auto found = numbers_.find(word);
    const bool grows = options_.vocabulary.empty();
    if (found == numbers_.end() && grows) {
      // (There are no more words than bytes, and nodes are counted.)
      found =
          numbers_.emplace(word, static_cast<int32_t>(numbers_.size())).first;
      bank_.words.emplace_back(word);
    }
    open_.back().word = found != numbers_.end()
                            ? found->second
                            : static_cast<int32_t>(bank_.words.size());
    return OkStatus();
  }

  Status Close() {
    if (open_.empty())
      return Bad(Here(), "tree: expected '(', got a ')' that closes nothing");
    const OpenNode node = open_.back();
    if (node.word < 0 && node.right < 0)
      return BadNode(node.left < 0 ? "neither" : "one child");
    const size_t number = bank_.label.size();
    if (number == std::numeric_limits<int32_t>::max())
      return Bad(node.at, "treebank: expected fewer than 2^31 nodes, got more");
    bank_.left.push_back(node.left);
    bank_.right.push_back(node.right);
    bank_.word.push_back(node.word);
    bank_.label.push_back(node.label);
    open_.pop_back();
    const auto n = static_cast<int32_t>(number);
    if (open_.empty()) {
      bank_.roots.push_back(n);
    } else {
      (open_.back().left < 0 ? open_.back().left : open_.back().right) = n;
    }
    ++at_;
    return OkStatus();
  }

  // The innermost open node has something else than it should.
  Status BadNode(const char* got) const {
    const Place& begin = open_.back().at;
    return Bad(Here(), "node: expected a word or two children, got ", got,
               "; the node begins at ", begin.line, ":", begin.column);
  }

  const std::string_view text_;
  const TreebankOptions& options_;
  const std::string& name_;
  size_t at_ = 0, line_begin_ = 0;
  int64_t line_ = 1;
  std::vector<OpenNode> open_;
  // By views of the text or of the vocabulary.
  absl::flat_hash_map<std::string_view, int32_t> numbers_;
  Treebank bank_;
};

}  // namespace

Result<Treebank> ParseTreebank(std::string_view text,
                               const TreebankOptions& options,
                               const std::string& name) {
  return TreebankParser(text, options, name).Parse();
}

Result<Treebank> ReadTreebank(const std::string& path,
                              const TreebankOptions& options) {
  SLUICE_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return ParseTreebank(text, options, path);
}

}  // namespace sluice
