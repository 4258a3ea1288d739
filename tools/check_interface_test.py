#!/usr/bin/env python3
"""Tests of tools/check_interface.py: which functions are public, and its
reports."""

import unittest

import check_interface

HEADER = '''
#define NOT_THIS(x) int x();
namespace sluice {
namespace internal { void Hidden(); }
// void InAComment();
inline constexpr int kSize = Compute(3), kMore = 1 << 4;
Result<int> Free(const char* text = "a(b", int n = 2'000);
template <typename T>
requires(sizeof(T) <= 8) T Bounded(T v) { return Inner(v); }
Output operator+(const Operand& a, const Operand& b);
inline DType Output::dtype() const { return Inner(); }
enum class Kind : int { kOne, kTwo };
class Handle {
  int Private();
 public:
  Handle() = default;
  explicit Handle(int a, const char* file = __builtin_FILE()) : a_{a}, b_(a) {
    if (a) Inner();
  }
  Handle(const Handle&) = delete;
  ~Handle();
  Handle& operator=(const Handle&) = delete;
  explicit operator bool() const { return a_; }
  template <typename T>
  static std::vector<T> Of(std::initializer_list<T> v = {}) { return v; }
  std::function<void(int)> callback = nullptr;
  Status (*pointer)(int) = nullptr;
  bool operator==(const Handle& o) const;
  class Part { public: void Do(); private: void Undo(); };
  struct Options { int size = 3; std::vector<int> dims = {}; void Reset(); };
 private:
  void AlsoPrivate();
  int a_, b_ = Compute();
};
namespace init { Handle Zeros(); }
}
'''


class Functions(unittest.TestCase):

    def test_only_public_functions_are_found(self):
        self.assertEqual(check_interface.functions_of(HEADER), {
            "Free", "Bounded", "operator+", "Handle::Handle", "Handle::Of",
            "Handle::operator==", "Handle::Part::Do", "Handle::Options::Reset",
            "init::Zeros"})

    def test_project_headers_are_parsed(self):
        root = check_interface.pathlib.Path(__file__).resolve().parent.parent
        headers = check_interface.public_headers(root)
        found = set()
        for path in headers.values():
            found |= check_interface.functions_of(path.read_text())
        self.assertTrue({"Tensor::Of", "Tensor::scalar", "Session::Run", "Cond",
                         "While", "FoldL", "LocalCluster::Start", "Operand::Get",
                         "Session::Callable::Run", "grad::Add"} <= found)
        self.assertGreater(len(found), 400)


class Entries(unittest.TestCase):

    def test_an_entry_lists_functions_over_several_strings(self):
        self.assertEqual(
            check_interface.entries_of('HOSTILE(A, "X::a X::b "\n  "c") {}'),
            {"X::a", "X::b", "c"})

    def test_function_without_entry_is_reported(self):
        lines = check_interface.check({"x.h": {"a", "b"}}, {"a"})
        self.assertEqual(len(lines), 1)
        self.assertIn("x.h: b: expected an entry", lines[0])

    def test_entry_without_function_is_reported(self):
        lines = check_interface.check({"x.h": {"a"}}, {"a", "gone"})
        self.assertEqual(len(lines), 1)
        self.assertIn("gone: expected a public function", lines[0])


if __name__ == "__main__":
    unittest.main()
