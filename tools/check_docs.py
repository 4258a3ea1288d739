#!/usr/bin/env python3
"""Checks the documentation's references to files, sizes and symbols.

In each Markdown file, outside fenced blocks: links point to files that exist,
and so do paths in backquotes that begin with a folder of the project and name a
file (`src/base/a.h`, `src/base/*.h`); a fenced block under a line `<!-- from
PATH -->` equals that file, and one under `<!-- within PATH -->` is part of it,
indented or not; a table row that begins with a path and its number of lines is
right to within a fifth. In docs/ops the symbols of a formula are inputs,
outputs or attributes of the op, or defined by the description itself. Prints
one line per violation and exits 1 if there is any.

  tools/check_docs.py [ROOT]
"""

import pathlib
import re
import sys

LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
PATH = re.compile(r"`((?:src|include|tools|scripts|tests|bench|examples|docs|"
                  r"cmake)/[\w./*-]+)`")
LINES = re.compile(r"^\| `([\w./-]+)` \| ([\d,]+) \|")
QUOTED = re.compile(r"<!-- (from|within) (\S+) -->\s*\n```\w*\n(.*?)```",
                    re.DOTALL)


def check_page(root, page):
    """Yields (line number, message) for each violation in one page."""
    text = page.read_text(encoding="utf-8")
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        if fenced:
            continue
        for target in LINK.findall(line):
            if "://" not in target and not (page.parent / target).exists():
                yield number, f"link: expected a file, got {target}"
        for path in PATH.findall(line):
            names_file = "." in path.rsplit("/", 1)[-1]
            if names_file and not any(root.glob(path)):
                yield number, f"path: expected it to exist, got {path}"
        counted = LINES.match(line)
        if counted and (root / counted[1]).is_file():
            there = (root / counted[1]).read_bytes().count(b"\n")
            told = int(counted[2].replace(",", ""))
            if abs(told - there) > there / 5:
                yield number, (f"lines: expected about {there} for "
                               f"{counted[1]}, got {told}")
    for found in QUOTED.finditer(text):
        number = text.count("\n", 0, found.start()) + 1
        how, path, quoted = found.groups()
        if not (root / path).exists():
            yield number, f"quotation: expected a file, got {path}"
            continue
        source = (root / path).read_text(encoding="utf-8")
        if how == "within":
            flush = (unindented(source), unindented(quoted))
            same = ("\n" + flush[1]) in ("\n" + flush[0])
        else:
            same = source == quoted
        if not same:
            yield number, (f"quotation: expected the text of {path}, "
                           f"got another")


WORD = r"[A-Za-z_]\w*"
# How descriptions introduce a symbol of their own: "f = ...", "y[i]", "[a, b] =
# ...", "for each i from 0", "the x for which", "over n >= 0".
INTRODUCED = re.compile(rf"({WORD})(?:\[[^\]]*\])? = |\[((?:{WORD}, )*{WORD})\]|"
                        rf"\b[Ff]or each ({WORD}) from |"
                        rf"\b(?:[Tt]he|over) ({WORD}) (?:for which|>=)")
NOTATION = {"pi", "H"}  # (x^H: conjugate transpose.)
BEFORE = re.compile(r"(?:[=+*/^<>|]| - ) ?$|(?:^|[ (])-$")
AFTER = re.compile(r" ?(?:[=+*/^<>|]|-=)| - ")


def symbols(text):
    """The symbols next to an operator or among a function's arguments."""
    calls = []  # For each open parenthesis: whether a function's name precedes.
    for m in re.finditer(rf"{WORD}|[()]", text):
        before, after = text[:m.start()], text[m.end():]
        if m[0] == "(":
            calls.append(bool(re.search(r"\w$", before)))
        elif m[0] == ")":
            del calls[-1:]
        elif not after.startswith("(") and (
                any(calls) or BEFORE.search(before) or AFTER.match(after) or
                (not before and after.startswith(" where ") and
                 m[0].islower()) or
                "_" in m[0].strip("_")):
            yield m[0]


def check_op_page(text, ops):
    """Yields (line number, message) for each symbol that no op declares."""
    line = 1
    for section in re.split(r"^(?=## )", text, flags=re.MULTILINE):
        if section.startswith("## "):
            heading, rest = section.split("\n", 1)
            description = " ".join(
                re.split(r"^(?:```|- )", rest, flags=re.MULTILINE)[0].split())
            known = set(re.findall(r"^- (?:in |out )?`(\w+)`", rest,
                                   re.MULTILINE)) | ops | NOTATION
            for groups in INTRODUCED.findall(description):
                known.update(", ".join(groups).split(", "))
            for symbol in sorted(set(symbols(description)) - known):
                yield line, (f"{heading[3:]}: expected a symbol that the op "
                             f"declares, got {symbol}")
        line += section.count("\n")


def unindented(text):
    """Each line without its leading blanks."""
    return re.sub(r"^[ \t]+", "", text, flags=re.MULTILINE)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                        pathlib.Path(__file__).resolve().parent.parent)
    pages = sorted(root.glob("*.md")) + sorted((root / "docs").rglob("*.md"))
    breaches = [f"{page.relative_to(root)}:{number}: {message}"
                for page in pages for number, message in check_page(root, page)]
    op_pages = {page: page.read_text(encoding="utf-8")
                for page in sorted((root / "docs/ops").glob("[!R]*.md"))}
    ops = {op for text in op_pages.values()
           for op in re.findall(r"^## (\w+)", text, re.MULTILINE)}
    breaches += [f"{page.relative_to(root)}:{number}: {message}"
                 for page, text in op_pages.items()
                 for number, message in check_op_page(text, ops)]
    print("\n".join(breaches) if breaches else f"{len(pages)} pages: ok")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
