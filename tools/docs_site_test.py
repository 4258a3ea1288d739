#!/usr/bin/env python3
"""Tests of tools/docs_site.py: links, declarations, docstrings, and that each
page, header and anchor of the project has its place in the site."""

import os
import pathlib
import re
import unittest

import docs_site

HEADER = """\
// What this is.
//
//   Example();
#ifndef A_H_
#define A_H_
#include "b.h"
namespace sluice {

class Elsewhere;

// ---- Makers -----------------------------------------------------------------

// A type with *stars*.
// - an item
//   and its rest
//
//   Use(it);
class Options {
 public:
  int member() const { return member_; }

  void More();

 private:
  int member_ = 0;
};

namespace internal {
void Hidden();
}  // namespace internal

void Run();  // Runs.

}  // namespace sluice
#endif  // A_H_
"""


class DocsSiteTest(unittest.TestCase):

    def test_a_header_is_its_declarations_in_order(self):
        page = docs_site.header_page("src/a.h", HEADER)
        self.assertEqual(re.findall(r"^#+ .*$", page, re.MULTILINE),
                         ["# a.h", "## Makers", "### `Options`", "### `Run`"])
        self.assertIn("What this is.\n\n```cpp\nExample();\n```", page)
        self.assertIn("A type with \\*stars\\*.\n- an item\n  and its rest", page)
        self.assertIn("```cpp\nUse(it);\n```", page)
        self.assertIn("  void More();\n\n};", page)
        for hidden in ("member_ = 0", "Hidden", "Elsewhere", "#include"):
            self.assertNotIn(hidden, page)

    def test_links_lead_to_pages_of_the_site(self):
        site = docs_site.Site(docs_site.ROOT)
        text = ("[a](../src/session/session.h) [`b`](../examples/gan.cc) "
                "[c](tour.md#the-data)\n[d](ops) ![e](figures/x.svg) "
                "[f](https://a.b)\n`[g](../LICENSE)`\n"
                "```cpp\n[h](../LICENSE)\n```\n")
        self.assertEqual(
            site.page("docs/x.md", text),
            "[a](../cpp/session/session.h.md) [`b`](../files/examples/gan.cc.md)"
            " [c](tour.md#the-data)\n[d](ops/README.md) ![e](figures/x.svg) "
            "[f](https://a.b)\n`[g](../LICENSE)`\n"
            "```cpp\n[h](../LICENSE)\n```\n")
        self.assertEqual(site.files, {"examples/gan.cc"})

    def test_a_docstring_is_plain_text(self):
        def function():
            """Does *it*, with `x` and y_.

                code(`as`, it, *is*)

            Args:
              a, b: the numbers,
                both of them.
              **more: others.

            Returns:
              A pair.

            """
        self.assertEqual("\n".join(docs_site.plain(function.__doc__)).split(), r"""
            Does \*it\*, with ``x`` and y\_.
            .. code-block:: python
                code(`as`, it, *is*)
            **Args:**
            - ``a, b``: the numbers, both of them.
            - ``**more``: others.
            **Returns:**
            A pair.""".split())

    def test_every_page_and_link_of_the_project_has_its_place(self):
        pages = docs_site.site_pages(docs_site.ROOT, with_python=False)
        for path, text in pages.items():
            folder = os.path.dirname(path)
            prose = re.sub(r"(`+)(?:(?!`).)+?\1(?!`)", "",
                           re.sub(r"^( *)```.*?^\1```$", "", text,
                                  flags=re.MULTILINE | re.DOTALL))
            if path.startswith(("cpp/", "files/")):
                continue
            for picture, _, target, _ in docs_site.LINK.findall(prose):
                if picture or "://" in target:
                    continue
                to = os.path.normpath(os.path.join(folder, target))
                self.assertIn(to, pages, f"{path}: {target}")
        listed = set()
        for path, text in pages.items():
            for tree in re.findall(r"```\{toctree\}\n(.*?)```", text, re.DOTALL):
                listed.update(
                    os.path.normpath(os.path.join(
                        os.path.dirname(path),
                        re.sub(r".*<(.*)>", r"\1", line) + ".md"))
                    for line in tree.splitlines()
                    if line and not line.startswith(":"))
        self.assertEqual(
            {p for p in pages if not p.startswith("files/")} - listed,
            {"index.md"})


if __name__ == "__main__":
    unittest.main()
