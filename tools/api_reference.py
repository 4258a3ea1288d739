#!/usr/bin/env python3
"""Writes docs/api.md: the names in the public headers, with one line for each.

The headers are those of tools/doc_blocks.py (public_headers). A name is a
declaration in one of their namespaces other than `internal`, at the beginning
of a line in the format of scripts/format, or a macro. Its text is the first
sentence of the comment above or behind it. The ops of sluice/ops.h are in
docs/ops.

  tools/api_reference.py            exit status 1 if the page is not up to date
  tools/api_reference.py --write    writes it
  tools/api_reference.py --unused   names that no page, example or test of an
                                    example uses
"""

import dataclasses
import pathlib
import re
import sys

import doc_blocks

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = "docs/api.md"

NAMESPACE = re.compile(r"(?:inline )?namespace ([\w:]*) ?\{$")
END_OF_NAMESPACE = re.compile(r"\}  // namespace")
TYPE = re.compile(r"(?:class|struct|enum class|enum)(?: \[\[\w+\]\])? (\w+)\b(.*)")
ALIAS = re.compile(r"using (?:(\w+) = |[\w:]+::(\w+);)")
CONCEPT = re.compile(r"concept (\w+) =")
CONSTANT = re.compile(r"(?:inline )?constexpr [\w:<>*& ]*?[ *&](\w+)(?: =|\{|;)")
MACRO = re.compile(r"#define (SLUICE_\w+)\(")
# Declared by a macro of its header: "SLUICE_DEFINE_ERROR(NotFound)".
MADE = re.compile(r"SLUICE_DEFINE_ERROR\((\w+)\)")
FUNCTION = re.compile(r"[\w:<>,*&\[\] ]*?[ *&>](operator[^\s(]+|\w+)\(")
HELPERS = {"SLUICE_CONCAT"}  # Used by other macros.
NOT_NAMES = {"requires", "static_assert", "if", "decltype", "defined"}


@dataclasses.dataclass
class Name:
    name: str
    text: str  # The first sentence of its comment.


def first_sentence(comment):
    text = " ".join(comment.split())
    # (A dot within "e.g." or "x.h" does not end a sentence; one before a
    # capital does.)
    end = re.search(r"[.:;](?= +[A-Z`(]|$)", text)
    text = text[:end.start()] if end else text
    return text.replace("|", "\\|").rstrip(".:; ")


def declared(line):
    """The name that a line declares at its beginning, or None."""
    if line.startswith(("template", "requires", "//", "}", ")", "friend",
                        "extern", " ", "using namespace")):
        return None
    for pattern in (MACRO, MADE, CONCEPT):
        if found := pattern.match(line):
            return found[1]
    if line.startswith("#"):
        return None
    if found := ALIAS.match(line):
        return found[1] or found[2]
    if found := TYPE.match(line):
        return None if found[2].lstrip().startswith(";") else found[1]
    if found := CONSTANT.match(line):
        return found[1]
    found = FUNCTION.match(line)
    return found[1] if found and found[1] not in NOT_NAMES else None


def names_of(text):
    """The names that a header declares, in order, without duplicates."""
    names, spaces, comment, continued = {}, [], "", False
    for line in text.splitlines():
        stripped = line.strip()
        if found := NAMESPACE.match(line):
            spaces.append(found[1])
            comment = ""
        elif END_OF_NAMESPACE.match(line):
            del spaces[-1:]
        elif not stripped or line.startswith(("}", "// ----")):
            comment, continued = "", False  # No comment for the rest.
        elif line.startswith("//"):
            if continued:
                comment, continued = "", False
            if not line.startswith("//   "):  # (An example.)
                comment += line.lstrip("/") + " "
        else:
            # A requires-clause and its declaration may share a line.
            declaration = re.sub(r"^(?:requires .*?> (?=[A-Z]\w* \w+\())", "",
                                 line)
            name = declared(declaration)
            first, continued = not continued, continued or name is not None
            if not name or "internal" in spaces or name.endswith("_") or \
                    name in HELPERS or f"#undef {name}" in text:
                continue
            if not spaces and not line.startswith("#define"):
                continue
            inner = "::".join(s.removeprefix("sluice").removeprefix("::")
                              for s in spaces)
            inner = "::".join(part for part in inner.split("::") if part)
            full = f"{inner}::{name}" if inner else name
            behind = re.search(r"[;{] +// (.*)$", line)
            said = comment
            if behind and not (comment and first):
                said = behind[1]
            known = names.get(full)
            if known is None or not known.text:
                names[full] = Name(full, first_sentence(said))
    return list(names.values())


def lead(text):
    """The first sentence of the comment that a header begins with."""
    comment = []
    for line in text.splitlines():
        if not line.startswith("//") or line == "//":
            break
        comment.append(line.lstrip("/"))
    return first_sentence(" ".join(comment))


def reference(root):
    lines = ["# The C++ API", "",
             "Written by `tools/api_reference.py --write`; do not edit. The public",
             "headers are those that `sluice/sluice.h`, `sluice/op.h` and",
             "`sluice/cluster.h` include by name; a program includes one of these.",
             "The ops (`sluice/ops.h`) are in [ops](ops/README.md). Each header begins",
             "with an example.", ""]
    headers = doc_blocks.public_headers(root)
    for entry in [h for h in headers if h.startswith("include/")]:
        text = (root / entry).read_text(encoding="utf-8")
        short = entry.removeprefix("include/")
        lines += [f"## {short}", "", lead(text) + ".", ""]
        for header in doc_blocks.included(root, entry):
            if header in headers and header.startswith("src/"):
                headers.remove(header)  # Under the first that includes it.
                lines += section(root, header)
    return "\n".join(lines).rstrip("\n") + "\n"


def section(root, header):
    text = (root / header).read_text(encoding="utf-8")
    lines = [f"### [{header.removeprefix('src/')}](../{header})", "",
             lead(text) + ".", ""]
    names = names_of(text)
    if names:
        lines += ["| name | |", "| --- | --- |"]
        lines += [f"| `{n.name}` | {n.text} |" for n in names] + [""]
    return lines


def unused(root):
    """Names without a use in any page, example or test of an example."""
    seen = [root / p for p in doc_blocks.pages(root) if p != PAGE]
    seen += sorted((root / "examples").glob("*.cc"))
    seen += sorted((root / "tests/snippets").glob("*.cc"))
    text = "".join(p.read_text(encoding="utf-8") for p in seen)
    text += "".join(b.text for b in doc_blocks.all_blocks(root)[0])
    for header in doc_blocks.public_headers(root):
        for name in names_of((root / header).read_text(encoding="utf-8")):
            last = name.name.rsplit("::", 1)[-1]
            if not last.startswith("operator") and \
                    not re.search(rf"\b{re.escape(last)}\b", text):
                yield f"{header}: {name.name}"


def main():
    if "--unused" in sys.argv[1:]:
        print("\n".join(unused(ROOT)))
        return 0
    page = reference(ROOT)
    if "--write" in sys.argv[1:]:
        (ROOT / PAGE).write_text(page, encoding="utf-8")
        return 0
    there = (ROOT / PAGE).read_text(encoding="utf-8")
    if there == page:
        print(f"{PAGE}: ok")
        return 0
    print(f"{PAGE}: expected the output of tools/api_reference.py --write, got "
          f"another text")
    return 1


if __name__ == "__main__":
    sys.exit(main())
