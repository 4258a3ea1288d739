// Parse trees with a label at each node, in the format of the Stanford
// Sentiment Treebank: a tree per sentence, in which each bracket holds a label
// and then a word or two trees.
//
//   const Result<Treebank> bank =
//       ParseTreebank("(3 (2 The) (4 (3 great) (2 film)))");
//   std::cout << bank->roots[0] << ": " << bank->label[4] << "\n";  // 4: 3
#ifndef SLUICE_IO_TREEBANK_H_
#define SLUICE_IO_TREEBANK_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace sluice {

// Binary trees as columns, as a graph is fed with them. The nodes of a sentence
// follow those of the sentence before it. Children precede their parent, so the
// root is the last node of its sentence.
struct Treebank {
  // An element per node.
  std::vector<int32_t> left, right;  // The children's numbers; -1: a leaf.
  std::vector<int32_t> word;         // A leaf's, a place in `words`; else -1.
  std::vector<int32_t> label;
  // An element per sentence.
  std::vector<int32_t> roots;
  std::vector<std::string> words;
};

struct TreebankOptions {
  int labels = 5;  // Labels are 0 to labels - 1.
  // The words to know, each once: `words` will be these, and the number of any
  // other word is words.size(). Empty: all words, in the order in which they
  // first appear.
  std::vector<std::string> vocabulary = {};
};

// The trees of a text; `name` names it in messages. Trees may be on any number
// of lines, and of any depth. A word is what has no space and no bracket; its
// bytes are kept as they are. InvalidArgument, with line and column (in bytes,
// from 1), for anything else than such trees, and for a vocabulary that has a
// word twice.
Result<Treebank> ParseTreebank(std::string_view text,
                               const TreebankOptions& options = {},
                               const std::string& name = "treebank");
// The trees of a file. NotFound if it does not exist.
Result<Treebank> ReadTreebank(const std::string& path,
                              const TreebankOptions& options = {});

}  // namespace sluice

#endif  // SLUICE_IO_TREEBANK_H_
