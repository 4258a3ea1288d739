#!/usr/bin/env python3
"""Checks that the documentation speaks of what is there.

In each Markdown file, outside fenced blocks: links point to files that exist;
so do paths in backquotes that begin with a folder of ours and name a file
(`src/base/a.h`, `src/base/*.h`); a fenced block under a line `<!-- from PATH -->` is that file,
word for word, and one under `<!-- within PATH -->` stands in it, indented or not;
a row of a table that begins with a path and a number, the file's lines, is right
to within a fifth.
Prints a line per breach and exits 1 if there is any.

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
    """Yields (line number, message) for each breach in one page."""
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


def unindented(text):
    """Each line without the blanks that it begins with."""
    return re.sub(r"^[ \t]+", "", text, flags=re.MULTILINE)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                        pathlib.Path(__file__).resolve().parent.parent)
    pages = sorted(root.glob("*.md")) + sorted((root / "docs").rglob("*.md"))
    breaches = [f"{page.relative_to(root)}:{number}: {message}"
                for page in pages for number, message in check_page(root, page)]
    print("\n".join(breaches) if breaches else f"{len(pages)} pages: ok")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
