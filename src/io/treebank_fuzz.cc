// For any input bytes, parsing them as a treebank gives trees that obey the
// rules of Treebank, and the same once more from their own text, or an error.
//
// The first byte says how many words of a vocabulary are given. Seeds are in
// tests/fuzz/treebank_fuzz.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "io/treebank.h"

namespace {

using sluice::Treebank;

void Hold(bool ok) {
  if (!ok) std::abort();
}

void CheckTreebank(const Treebank& bank) {
  const size_t n = bank.label.size();
  Hold(bank.left.size() == n && bank.right.size() == n &&
       bank.word.size() == n);
  size_t root = 0;
  // In this order the children of a node are the two newest trees.
  std::vector<int32_t> trees;
  for (size_t i = 0; i < n; ++i) {
    Hold(bank.label[i] >= 0 && bank.label[i] < 5);
    if (bank.left[i] < 0) {
      Hold(bank.left[i] == -1 && bank.right[i] == -1 && bank.word[i] >= 0 &&
           static_cast<size_t>(bank.word[i]) <= bank.words.size());
    } else {
      Hold(trees.size() >= 2 && bank.word[i] == -1 &&
           bank.right[i] == trees.back() &&
           bank.left[i] == trees[trees.size() - 2]);
      trees.resize(trees.size() - 2);
    }
    trees.push_back(static_cast<int32_t>(i));
    if (root < bank.roots.size() &&
        bank.roots[root] == static_cast<int32_t>(i)) {
      Hold(trees.size() == 1);
      trees.clear();
      ++root;
    }
  }
  Hold(trees.empty() && root == bank.roots.size());
}

// The trees as a text. (Not by recursion: they may be deep.)
std::string TextOf(const Treebank& bank) {
  std::string text;
  struct Step {
    int32_t node;
    bool close;
  };
  for (const int32_t root : bank.roots) {
    std::vector<Step> steps = {{root, false}};
    while (!steps.empty()) {
      const auto [node, close] = steps.back();
      steps.pop_back();
      if (close) {
        text += ")";
        continue;
      }
      const auto i = static_cast<size_t>(node);
      text += "(" + std::to_string(bank.label[i]) + " ";
      steps.push_back({node, true});
      if (bank.left[i] < 0) {
        const auto w = static_cast<size_t>(bank.word[i]);
        text += w < bank.words.size() ? bank.words[w] : "unknown";
      } else {
        steps.push_back({bank.right[i], false});
        steps.push_back({bank.left[i], false});
      }
    }
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  sluice::TreebankOptions options;
  for (int i = 0; i < data[0] % 4; ++i)
    options.vocabulary.push_back(std::string(1, static_cast<char>('a' + i)));
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto bank = sluice::ParseTreebank(text, options);
  if (!bank.ok()) {
    Hold(bank.status().code() == sluice::StatusCode::kInvalidArgument);
    return 0;
  }
  CheckTreebank(*bank);
  const auto again = sluice::ParseTreebank(TextOf(*bank), options);
  Hold(again.ok() && again->left == bank->left && again->right == bank->right &&
       again->word == bank->word && again->label == bank->label &&
       again->roots == bank->roots && again->words == bank->words);
  return 0;
}
