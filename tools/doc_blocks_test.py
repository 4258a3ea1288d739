#!/usr/bin/env python3
"""Tests of tools/doc_blocks.py: which blocks it finds, and its rules for
them."""

import pathlib
import tempfile
import unittest

import doc_blocks


class Files(unittest.TestCase):

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.root = pathlib.Path(self.scratch.name)
        self.write("include/sluice/sluice.h", '//   A();\n#include "a/a.h"\n')
        self.write("src/a/a.h", '//   B();\n#include "a/b.h"\n')
        self.write("src/a/b.h", "// No example.\n")
        self.write("tests/snippets/a_test.cc", "".join(
            f'#include "snippets/{name}.inc"\n'
            for name in ("include/sluice/sluice.h/1", "src/a/a.h/1")))

    def write(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def breaches(self):
        blocks, breaches = doc_blocks.all_blocks(self.root)
        return breaches + list(doc_blocks.check(self.root, blocks))

    def page_breaches(self, text):
        self.write("docs/page.md", text)
        return self.breaches()

    def test_public_headers_are_those_included_by_entries(self):
        self.assertEqual(doc_blocks.public_headers(self.root),
                         ["include/sluice/sluice.h", "src/a/a.h"])
        self.assertEqual(doc_blocks.installed_headers(self.root),
                         ["include/sluice/sluice.h", "src/a/a.h", "src/a/b.h"])
        self.assertEqual(self.breaches(), [])

    def test_public_header_without_example_is_reported(self):
        self.write("src/a/a.h", "// Words.\n#ifndef A\n//   B();\n")
        self.assertEqual(len(self.breaches()), 1)

    def test_untested_header_example_is_reported(self):
        self.write("src/a/b.h", "// Words.\n//   C();\n")
        self.assertEqual(len(self.breaches()), 1)

    def test_test_of_missing_example_is_reported(self):
        self.write("tests/snippets/b_test.cc", '#include "snippets/x.h/1.inc"\n')
        self.assertEqual(len(self.breaches()), 1)

    def test_blocks_of_a_header(self):
        blocks = doc_blocks.header_blocks("a.h", "\n".join([
            "// Words:", "//", "//   A();", "//", "//     B();", "//", "// Words.",
            "// - an item", "//   that goes on", "",
            "int i;  // Words", "  //   C();", "  // more."]))
        self.assertEqual([(b.line, b.text) for b in blocks],
                         [(3, "A();\n\n  B();\n"), (12, "C();\n")])

    def test_what_a_tutorial_prints_is_compared(self):
        self.write("docs/tutorials/a.md", "```cpp\nA();\n```\n\nIt prints\n\n"
                   "```text\n1 \"2\"\n```\n\n```text\nnot this\n```\n")
        self.assertEqual([b.split(": ")[0] for b in self.breaches()],
                         ["docs/tutorials/a.md:2", "docs/tutorials/a.md:8"])
        self.write("tests/snippets/b_test.cc", "".join(
            f'#include "snippets/docs/tutorials/a.md/{i}.inc"\n' for i in (1, 2)))
        self.assertEqual(self.breaches(), [])
        blocks, _ = doc_blocks.all_blocks(self.root)
        doc_blocks.write(self.root, blocks, self.root / "out")
        self.assertEqual(
            (self.root / "out/docs/tutorials/a.md/2.inc").read_text(),
            'R"text(1 "2"\n)text"\n')

    def test_each_language_has_a_rule(self):
        self.assertEqual(self.page_breaches(
            "```text\nx\n```\n```sh\nls\n```\n```python\nx\n```\n"
            "<!-- within examples/a.cc -->\n```cpp\nA();\n```\n"), [])
        for text in ("```cpp\nA();\n```\n", "```json\n{}\n```\n",
                     "```cmake\nx()\n```\n", "```\nls\n```\n",
                     "```c++\nA();\n```\n", "    ls\n",
                     "<!-- from docs/x.md -->\n```cpp\nA();\n```\n"):
            self.assertEqual(len(self.page_breaches(text)), 1, text)

    def test_written_blocks_can_be_included(self):
        self.write("docs/page.md", "Words.\n```cpp\nA();\n```\n```json\n{}\n```\n")
        blocks, _ = doc_blocks.all_blocks(self.root)
        doc_blocks.write(self.root, blocks, self.root / "out")
        self.assertEqual(
            (self.root / "out/docs/page.md/1.inc").read_text(),
            f'#line 3 "{self.root}/docs/page.md"\nA();\n')
        self.assertEqual((self.root / "out/docs/page.md/2.inc").read_text(),
                         'R"json({}\n)json"\n')

    def test_op_calls_have_a_value_for_each_argument(self):
        self.write("docs/ops/nn.md",
                   "# Ops\n\n## Op\n\n```c++\nops::Op(x, xs, ys, n, {.a, .b})\n"
                   "```\n\n- in `x`: T\n- in `xs`: N * T\n- in `ys`: Ts\n"
                   "- `Ts`: list of type\n- `n`: int\n\n"
                   "## None\n\n```c++\nops::None()\n```\n")
        page = self.root / "docs/ops/nn.md"
        self.assertEqual(list(doc_blocks.op_calls(self.root)), [
            f'#line 6 "{page}"\n'
            "ops::Op(output, outputs, outputs, any, {.a = any, .b = any});\n",
            f'#line 18 "{page}"\nops::None();\n'])


if __name__ == "__main__":
    unittest.main()
