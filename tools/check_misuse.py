#!/usr/bin/env python3
"""Checks that code marked as misuse does not compile, with a helpful error.

In each file of tests/misuse, a line that ends with `// error: REGEX` must cause
an error that matches (in its text or its notes), and no other line may cause
one. Runs the compiler once per file.

  tools/check_misuse.py COMPILER [FLAG...]
"""

import pathlib
import re
import subprocess
import sys

MARK = re.compile(r"// error: (.*)$")
ERROR = re.compile(r"^\S+?:\d+:\d+: (?:fatal )?error: ")
BEFORE = re.compile(r"^\S+?:(?:\d+:\d+:)?   (?:required|in)|^\S+: In |"
                    r"^In file included|^ +from ")


def diagnostics(text):
    """Splits a compiler's output into errors with their notes."""
    found, context = [], []
    for line in text.splitlines():
        if ERROR.match(line):
            found.append(context + [line])
            context = []
        elif BEFORE.match(line):
            context.append(line)
        elif found and not context:
            found[-1].append(line)
        else:
            context.append(line)
    return ["\n".join(d) for d in found]


def check(compiler, flags, path):
    """Yields a message for each line that does not behave as marked."""
    marked = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        mark = MARK.search(line)
        if mark and not line.startswith("//"):
            marked[number] = mark[1]
    run = subprocess.run([compiler, *flags, "-fsyntax-only", str(path)],
                         capture_output=True, text=True, check=False)
    seen = set()
    for text in diagnostics(run.stderr):
        at = re.findall(re.escape(path.name) + r":(\d+):", text)
        lines = [int(n) for n in at if int(n) in marked]
        if not lines:
            yield f"{path}: expected no other error, got {text}"
            continue
        for number in lines:
            if re.search(marked[number], text):
                seen.add(number)
    for number in sorted(set(marked) - seen):
        yield (f"{path}:{number}: expected an error that matches "
               f"'{marked[number]}', got none")


def main():
    root = pathlib.Path(__file__).resolve().parent.parent / "tests" / "misuse"
    failed = [m for p in sorted(root.glob("*.cc"))
              for m in check(sys.argv[1], sys.argv[2:], p)]
    print("\n".join(failed), file=sys.stderr, end="\n" if failed else "")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
