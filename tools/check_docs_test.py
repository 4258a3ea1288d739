#!/usr/bin/env python3
"""Tests of tools/check_docs.py: what it accepts and what it reports."""

import pathlib
import tempfile
import unittest

import check_docs


class Pages(unittest.TestCase):

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.root = pathlib.Path(self.scratch.name)
        (self.root / "examples").mkdir()
        (self.root / "examples/a.cc").write_text("int main() {}\n")

    def breaches(self, text):
        page = self.root / "page.md"
        page.write_text(text)
        return [message for _, message in check_docs.check_page(self.root, page)]

    def test_existing_references_pass(self):
        self.assertEqual(self.breaches(
            "[a](examples/a.cc#L1) `examples/a.cc` `examples/*.cc` "
            "[b](https://example.org/x) `a/b.cc`\n"
            "```cpp\n[](Context& c) {}\n```\n"), [])

    def test_missing_references_are_reported(self):
        self.assertEqual(len(self.breaches(
            "[a](examples/b.cc) `examples/c.cc` `src/*.cc`\n")), 3)

    def test_line_references_are_approximately_checked(self):
        (self.root / "examples/b.cc").write_text("//\n" * 100)
        row = "| `examples/b.cc` | %s | what it is |\n"
        self.assertEqual(self.breaches(row % "110" + row % "85"), [])
        self.assertEqual(len(self.breaches(row % "130" + row % "1,100")), 2)

    def test_quotations_are_checked_literally(self):
        quoted = "<!-- from examples/a.cc -->\n```cpp\n%s\n```\n"
        self.assertEqual(self.breaches(quoted % "int main() {}"), [])
        self.assertEqual(len(self.breaches(quoted % "int main() { }")), 1)

    def test_excerpts_are_checked_except_for_indentation(self):
        (self.root / "examples/b.cc").write_text(
            "int main() {\n  int a = 1;\n  return a;\n}\n")
        quoted = "<!-- within examples/b.cc -->\n```cpp\n%s\n```\n"
        self.assertEqual(self.breaches(quoted % "int a = 1;\nreturn a;"), [])
        self.assertEqual(len(self.breaches(quoted % "int a = 1;\nreturn b;")),
                         1)
        self.assertEqual(len(self.breaches(quoted % "a = 1;")), 1)

    def op_breaches(self, description,
                    call="```c++\nops::Scale(x, by)\n```\n\n"):
        text = ("# Ops: nn\n\n## Scale\n\n" + description + "\n\n" + call +
                "- in `x`: T\n- in `by`: T\n- out `y`: T\n")
        return [message.rsplit(" ", 1)[1] for _, message in
                check_docs.check_op_page(text, {"Scale", "Scale2D"})]

    def test_formulas_of_declared_symbols_pass(self):
        for text in ("y = x * by.", "x where x > 0, else exp(x) - 1.",
                     "The n-th self-adjoint x; Scale2D of max(x, 0).",
                     "f = x + 1; y = f^2 in (-pi, pi].",
                     "y[i] = x[i] / 2.", "[a, b] = x; y = a + b.", "The z for which z - x is least.",
                     "The sum of x^n over n >= 0."):
            self.assertEqual(self.op_breaches(text), [], text)

    def test_undeclared_symbols_are_reported(self):
        for text, symbol in (("y = lr_t * x.", "lr_t"), ("max(z, 0).", "z"),
                             ("x / (|z| + 1).", "z"), ("dy where x > 0.", "dy"),
                             ("-z.", "z"), ("x - z.", "z")):
            for call in [], [""]:  # (Internal ops have no call.)
                self.assertEqual(self.op_breaches(text, *call), [symbol], text)


if __name__ == "__main__":
    unittest.main()
