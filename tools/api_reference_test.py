#!/usr/bin/env python3
"""Tests of tools/api_reference.py: which names it finds, and their text."""

import unittest

import api_reference

HEADER = """\
// What this is. More of it.
//
//   Example();
#ifndef A_H_
#define A_H_
namespace sluice {

class Elsewhere;  // other.h

// A type; what it holds. More.
struct Options {
  int member = 0;
};
class Scope {  // A scope.
 public:
  void Method();
};

// Two ways to run.
//   Run(1);
Result<std::vector<Tensor>> Run(const Options& options,
                                Scope scope);
template <typename T>
requires std::is_arithmetic_v<T> Output Run(T v);
Status Stop(int i);  // Not before it runs.
inline constexpr int kMax = 8;
using Fn = std::function<Status(int)>;

// ---- Makers -----------------------------------------------------------------
enum class Kind : uint8_t { kA, kB };
Output operator+(const Operand& a, const Operand& b);

namespace init {
// All zero.
InitializerFn Zeros();
}  // namespace init
namespace internal {
int Hidden();
}  // namespace internal

}  // namespace sluice

#define SLUICE_HELPER(x) x
#undef SLUICE_HELPER
#define SLUICE_SHOWN(x) x
#endif
"""


class Names(unittest.TestCase):

    def test_each_name_has_the_first_sentence_of_its_comment(self):
        self.assertEqual(
            [(n.name, n.text) for n in api_reference.names_of(HEADER)],
            [("Options", "A type; what it holds"), ("Scope", "A scope"),
             ("Run", "Two ways to run"), ("Stop", "Not before it runs"),
             ("kMax", "Two ways to run"), ("Fn", "Two ways to run"),
             ("Kind", ""), ("operator+", ""), ("init::Zeros", "All zero"),
             ("SLUICE_SHOWN", "")])

    def test_header_has_its_own_first_sentence(self):
        self.assertEqual(api_reference.lead(HEADER), "What this is")


if __name__ == "__main__":
    unittest.main()
