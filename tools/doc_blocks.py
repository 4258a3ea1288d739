#!/usr/bin/env python3
"""Extracts the code blocks of the documentation and checks that each is run.

Blocks are taken from the installed headers, README.md, CONTRIBUTING.md and the
pages under docs. In a header a block consists of the lines of a comment that
are indented by three blanks or more after the slashes; it is C++. The public
headers (see public_headers below) begin with one. On a page a block is fenced
and names its language:

  cpp, json   included by a test in tests/snippets as "snippets/<path>/<n>.inc"
              (json as a string literal), unless it is quoted
  python      run by python/tests/test_snippets.py, unless it is quoted
  sh          run by tests/snippets/shell_test.py, which lists the exceptions
  cmake, c    quoted
  text        not code: the output of a program, a grammar. In docs/tutorials:
              what the blocks before it print, which their tests compare (in
              C++ as json, a string literal)

Quoted means that the line above is `<!-- from PATH -->` or `<!-- within PATH
-->` (tools/check_docs.py compares the two) and that PATH is a program that the
tests run. The pages under docs/ops are written by `sluice ops`, which computes
their examples, and compared by tools/sluice/op_reference_test.cc; the call of
each op is compiled with a value of the declared kind for each argument
("docs/ops/calls.inc").

  tools/doc_blocks.py [--root ROOT]     a line per violation, exit status 1 if any
  tools/doc_blocks.py --list
  tools/doc_blocks.py --write DIR [--generated DIR]   the .inc files, into DIR;
      --generated: where the build writes sluice/ops.h
"""

import argparse
import dataclasses
import pathlib
import re
import sys

INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
COMMENT = re.compile(r"\s*//(.*)$")
LIST_ITEM = re.compile(r"\s*(?:-|\*|\d+\.) ")
QUOTATION = re.compile(r"<!-- (?:from|within) (\S+) -->")
FENCE = re.compile(r"( *)(```+)(\S*)")
LANGUAGES = ["cpp", "json", "python", "sh", "cmake", "c", "text"]
TUTORIALS = "docs/tutorials/"
# Prefixes of the paths of programs that the tests run.
RUN_BY_TESTS = ["examples/", "python/examples/", "tests/package/", "src/ops/",
                "src/capi/testing/"]


@dataclasses.dataclass
class Block:
    path: str  # Its file, relative to the root.
    number: int  # Index among the blocks of the file, from 1.
    line: int  # Its first line's number.
    language: str
    text: str
    quoted: str = ""  # The file that it quotes.

    @property
    def name(self):
        return f"{self.path}/{self.number}"


def included(root, path):
    """The project headers that a file includes, as paths from the root."""
    for name in INCLUDE.findall((root / path).read_text(encoding="utf-8")):
        for folder in ("include", "src"):
            if (root / folder / name).is_file():
                yield f"{folder}/{name}"


def public_headers(root):
    """The C++ headers of include/sluice and all that they include directly."""
    headers = [str(p.relative_to(root))
               for p in sorted((root / "include/sluice").glob("*.h"))
               if p.name != "c_api.h"]  # (C; docs/tutorials/from-c.md.)
    for entry in list(headers):
        headers += [h for h in included(root, entry) if h not in headers]
    return headers


def installed_headers(root):
    """The public headers and all that they include transitively."""
    headers = public_headers(root)
    for header in headers:  # (The list grows in the loop.)
        headers += [h for h in included(root, header) if h not in headers]
    return headers


def header_blocks(path, text):
    """The blocks of a header. Trailing comments contain none."""
    blocks, lines, first, in_list = [], [], 0, False

    def finish():
        while lines and not lines[-1]:
            lines.pop()
        if lines:
            blocks.append(Block(path, len(blocks) + 1, first, "cpp",
                                "\n".join(lines) + "\n"))
        lines.clear()

    for number, line in enumerate(text.splitlines(), 1):
        comment = COMMENT.fullmatch(line)
        content = comment[1] if comment else None
        if content is not None and content.startswith("   ") and not in_list:
            if not lines:
                first = number
            lines.append(content[3:])
        elif content == "" and lines:
            lines.append("")
        else:
            finish()
            in_list = content is not None and (
                bool(LIST_ITEM.match(content)) or
                (in_list and content.startswith("  ")))
    finish()
    return blocks


def page_blocks(path, text):
    """The (blocks, violations) of a page."""
    blocks, breaches = [], []
    lines = text.splitlines()
    quoted, block, fence = "", None, None
    in_list = False
    for number, line in enumerate(lines, 1):
        mark = FENCE.match(line)
        if block is not None:
            if mark and mark[2] == fence and not mark[3]:
                blocks.append(block)
                block = None
            else:
                block.text += line + "\n"
        elif mark:
            fence = mark[2]
            block = Block(path, len(blocks) + 1, number + 1, mark[3], "", quoted)
        elif line.startswith("    ") and line.strip() and not in_list:
            breaches.append(f"{path}:{number}: block: expected a fence that names "
                            f"the language, got an indented line")
        if line.strip():
            found = QUOTATION.match(line)
            quoted = found[1] if found else ""
            in_list = bool(LIST_ITEM.match(line)) or (
                in_list and line.startswith(" "))
    return blocks, breaches


def pages(root):
    named = [p for p in ("README.md", "CONTRIBUTING.md") if (root / p).exists()]
    found = sorted(str(p.relative_to(root)) for p in (root / "docs").rglob("*.md"))
    return named + [p for p in found if not p.startswith("docs/ops/")]


def all_blocks(root, generated=None):
    """The (blocks, violations) of all documentation."""
    blocks, breaches = [], []
    public = public_headers(root)
    for header in installed_headers(root):
        text = (root / header).read_text(encoding="utf-8")
        blocks += header_blocks(header, text)
        leading = text.split("#ifndef")[0]
        if header in public and not header_blocks(header, leading):
            breaches.append(f"{header}:1: header: expected an example in the "
                            f"comment that it begins with, got none")
    if generated is not None:
        text = (generated / "sluice/ops.h").read_text(encoding="utf-8")
        blocks += header_blocks("sluice/ops.h", text)
    for page in pages(root):
        of_page, wrong = page_blocks(page,
                                     (root / page).read_text(encoding="utf-8"))
        blocks += of_page
        breaches += wrong
    return blocks, breaches


def check(root, blocks):
    """Yields the violations: blocks that are not run."""
    tests = "".join(p.read_text(encoding="utf-8")
                    for p in sorted((root / "tests/snippets").glob("*.cc")))
    in_tests = set(re.findall(r'^#include "snippets/(.+)\.inc"', tests,
                              re.MULTILINE))
    for before, b in zip([None] + blocks, blocks):
        at = f"{b.path}:{b.line}"
        printed = (b.language == "text" and b.path.startswith(TUTORIALS) and
                   before and before.path == b.path and before.language == "cpp")
        if b.language not in LANGUAGES:
            yield (f"{at}: block: expected one of {', '.join(LANGUAGES)}, got "
                   f"'{b.language}'")
        elif b.quoted:
            if not b.quoted.startswith(tuple(RUN_BY_TESTS)):
                yield (f"{at}: block: expected a quotation of a program that the "
                       f"tests run, got {b.quoted}")
        elif b.language in ("cmake", "c"):
            yield f"{at}: block: expected a quotation, got text of its own"
        elif (printed or b.language in ("cpp", "json")) and \
                b.name not in in_tests:
            yield (f"{at}: block: expected a test in tests/snippets that includes "
                   f"snippets/{b.name}.inc, got none")
    known = {b.name for b in blocks} | {"docs/ops/calls"}
    for name in sorted(in_tests - known):
        # (sluice/ops.h exists only after a build.)
        if not name.startswith("sluice/ops.h/"):
            yield f"tests/snippets: expected a block {name}, got none"


def op_calls(root):
    """The calls in docs/ops as C++, with `output` or `outputs` for each input
    and `any` for each attribute."""
    for page in sorted((root / "docs/ops").glob("[!R]*.md")):
        line = 1
        for section in re.split(r"^(?=## )", page.read_text(encoding="utf-8"),
                                flags=re.MULTILINE):
            call = re.search(r"^```c\+\+\n([\w:]+)\((.*)\)\n```$", section,
                             re.MULTILINE)
            if call:
                at = line + section.count("\n", 0, call.start(1))
                kinds = dict(re.findall(r"^- (?:in )?`(\w+)`: (.*)$", section,
                                        re.MULTILINE))
                inputs = set(re.findall(r"^- in `(\w+)`", section, re.MULTILINE))
                plain, _, options = call[2].partition("{")
                arguments = []
                for name in filter(None, plain.rstrip(", ").split(", ")):
                    several = name in inputs and (
                        " * " in kinds[name] or
                        kinds.get(kinds[name], "").startswith("list of"))
                    arguments.append("any" if name not in inputs else
                                     "outputs" if several else "output")
                if options:
                    arguments.append("{" + re.sub(r"(\.\w+)", r"\1 = any",
                                                  options))
                yield (f'#line {at} "{page}"\n'
                       f"{call[1]}({', '.join(arguments)});\n")
            line += section.count("\n")


def write(root, blocks, folder):
    """Writes one file for each block that a test includes; keeps unchanged
    files."""
    calls = folder / "docs/ops/calls.inc"
    calls.parent.mkdir(parents=True, exist_ok=True)
    calls.write_text("".join(op_calls(root)), encoding="utf-8")
    for b in blocks:
        output = b.language == "text" and b.path.startswith(TUTORIALS)
        if b.quoted or not (output or b.language in ("cpp", "json")):
            continue
        if output or b.language == "json":
            text = f'R"{b.language}({b.text}){b.language}"\n'
        else:
            where = root / b.path
            text = f'#line {b.line} "{where if where.exists() else b.path}"\n{b.text}'
        to = folder / f"{b.name}.inc"
        if not to.exists() or to.read_text(encoding="utf-8") != text:
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--root", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--write", type=pathlib.Path)
    parser.add_argument("--generated", type=pathlib.Path)
    args = parser.parse_args()
    blocks, breaches = all_blocks(args.root, args.generated)
    breaches += check(args.root, blocks)
    if args.list:
        for b in blocks:
            print(f"{b.path}:{b.line}: {b.language} {b.name}"
                  f"{' = ' + b.quoted if b.quoted else ''}")
        return 0
    if args.write:
        write(args.root, blocks, args.write)
    print("\n".join(breaches) if breaches else f"{len(blocks)} blocks: ok")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
