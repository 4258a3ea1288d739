// A made treebank, in the format of the Stanford Sentiment Treebank: sentences
// whose sentiment, from 0 (very negative) to 4 (very positive), follows from
// that of their parts by rules: "not" turns it around, "very" makes it
// stronger, and what comes after "but" is what counts.
#ifndef SLUICE_EXAMPLES_MADE_TREEBANK_H_
#define SLUICE_EXAMPLES_MADE_TREEBANK_H_

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace sluice::examples {

class TreebankMaker {
 public:
  explicit TreebankMaker(uint32_t seed) : random_(seed) {}

  // A tree on a line of its own, another one in each call.
  std::string Next() {
    for (;;) {
      const Tree tree = Sentence();
      if (seen_.insert(tree.text).second) return tree.text + "\n";
    }
  }
  std::string Next(int count) {
    std::string text;
    while (count-- > 0) text += Next();
    return text;
  }

 private:
  struct Tree {
    int label;
    std::string text;
  };

  size_t Draw(size_t below) { return random_() % below; }
  static Tree Word(int label, const std::string& word) {
    return {label, "(" + std::to_string(label) + " " + word + ")"};
  }
  static Tree Join(int label, const Tree& a, const Tree& b) {
    return {label,
            "(" + std::to_string(label) + " " + a.text + " " + b.text + ")"};
  }
  Tree Opinion() {
    static const std::vector<std::string> kWords[] = {{"awful", "terrible"},
                                                      {"dull", "weak"},
                                                      {"long", "French"},
                                                      {"good", "funny"},
                                                      {"great", "superb"}};
    const size_t label = Draw(5);
    Tree tree = Word(static_cast<int>(label), kWords[label][Draw(2)]);
    if (Draw(3) == 0)
      tree = Join(tree.label < 2   ? 0
                  : tree.label > 2 ? 4
                                   : 2,
                  Word(2, "very"), tree);
    if (Draw(3) == 0) tree = Join(4 - tree.label, Word(2, "not"), tree);
    return tree;
  }
  Tree Clause() {
    static const char* const kThings[] = {"film", "plot", "cast", "music"};
    const Tree thing = Join(2, Word(2, "the"), Word(2, kThings[Draw(4)]));
    const Tree opinion = Opinion();
    return Join(opinion.label, thing,
                Join(opinion.label, Word(2, "is"), opinion));
  }
  Tree Sentence() {
    Tree tree = Clause();
    while (Draw(2) == 0) {
      const Tree more = Clause();
      const bool but = Draw(2) == 0;
      tree =
          Join(but ? more.label : std::clamp(tree.label + more.label - 2, 0, 4),
               tree, Join(more.label, Word(2, but ? "but" : "and"), more));
    }
    return tree;
  }

  std::mt19937 random_;
  std::set<std::string> seen_;
};

}  // namespace sluice::examples

#endif  // SLUICE_EXAMPLES_MADE_TREEBANK_H_
