#!/usr/bin/env python3
"""Writes the sources of the documentation site, from which Sphinx makes it.

Nothing is written twice by hand. The pages of the project are copied, with
links to source files pointing to pages that show them; each public header
becomes a page of its declarations and their comments; and each namespace of
the Python package a page of its names and their docstrings. Needs the Python
package on PYTHONPATH, unless --no-python leaves those pages out.

  tools/docs_site.py FOLDER [--no-python]       (scripts/docs runs it)
"""

import argparse
import inspect
import os
import pathlib
import re
import shutil
import types

import api_reference
import doc_blocks

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
CODE_SPAN = re.compile(r"(`+)(?:(?!`).)+?\1(?!`)", re.DOTALL)
LANGUAGES = {".h": "cpp", ".cc": "cpp", ".py": "python", ".proto": "protobuf"}


# ---- Pages of the project ---------------------------------------------------


class Site:
    """The pages of one site. `files` are the source files that need one."""

    def __init__(self, root):
        self.root = root
        self.headers = doc_blocks.public_headers(root)
        self.files = set()

    def pages(self):
        found = [p for p in PAGES if (self.root / p).exists()]
        return found + sorted(str(p.relative_to(self.root))
                              for p in (self.root / "docs").rglob("*.md"))

    def place(self, target):
        """The page of the site that shows a file of the project; None if it
        has none. `target` is a path from the root."""
        if target.endswith(".md"):
            return target
        if (self.root / target).is_dir():
            index = f"{target}/README.md"
            return index if (self.root / index).exists() else None
        if target in self.headers:
            return "cpp/" + re.sub(r"^(?:src|include)/", "", target) + ".md"
        self.files.add(target)
        return f"files/{target}.md"

    def page(self, path, text):
        """The text of a page, with links that lead to pages of the site."""
        folder = os.path.dirname(path)

        def link(found):
            picture, label, target, anchor = found.groups()
            if picture or "://" in target:
                return found[0]
            place = self.place(os.path.normpath(os.path.join(folder, target)))
            if place is None:
                return label
            there = os.path.relpath(place, folder or ".")
            return f"[{label}]({there}{anchor or ''})"

        return outside_code(text, lambda part: LINK.sub(link, part))

    def source_page(self, path):
        text = (self.root / path).read_text(encoding="utf-8")
        language = LANGUAGES.get(os.path.splitext(path)[1], "text")
        return f"---\norphan: true\n---\n# {path}\n\n{fenced(text, language)}"


def outside_code(text, change):
    """Applies `change` to what is neither a fenced block nor a code span."""
    parts, fence, prose = [], None, []

    def finish():
        part = "".join(prose)
        spans, kept = [], 0
        # (A label of a link may contain a code span, so spans are set aside.)
        def aside(found):
            spans.append(found[0])
            return f"\0{len(spans) - 1}\0"
        part = change(CODE_SPAN.sub(aside, part))
        parts.append(re.sub("\0(\\d+)\0", lambda m: spans[int(m[1])], part))
        prose.clear()

    for line in text.splitlines(keepends=True):
        mark = doc_blocks.FENCE.match(line)
        if fence is None and mark:
            finish()
            fence = mark[2]
            parts.append(line)
        elif fence is not None:
            parts.append(line)
            if mark and mark[2] == fence and not mark[3]:
                fence = None
        else:
            prose.append(line)
    finish()
    return "".join(parts)


def fenced(text, language):
    longest = max((len(m) for m in re.findall("`{3,}", text)), default=2)
    marks = "`" * (longest + 1)
    return f"{marks}{language}\n{text.rstrip()}\n{marks}\n"


def toctree(entries, caption="", **options):
    lines = ["```{toctree}"]
    lines += [f":caption: {caption}"] if caption else []
    lines += [f":{key}: {value}".rstrip() for key, value in options.items()]
    return "\n".join(lines + [""] + list(entries) + ["```"]) + "\n"


# ---- Headers ----------------------------------------------------------------

SECTION = re.compile(r"// ---- (.*?) -*$")
OPENS = re.compile(r"(?:inline )?namespace ([\w:]*) ?\{$")
PRIVATE = re.compile(r"^ private:\n(?:.*\n)*?(?=\};| public:)", re.MULTILINE)


def prose(lines):
    """The Markdown of a comment: its lines without slashes. Lines that are
    indented by three blanks or more are code."""
    parts, code, in_list = [], [], False

    def finish():
        while code and not code[-1]:
            code.pop()
        if code:
            parts.append("\n" + fenced("\n".join(code), "cpp"))
        code.clear()

    for line in lines:
        line = line.removeprefix(" ")
        if line.startswith("  ") and not in_list:
            code.append(line[2:])
        elif not line.strip() and code:
            code.append("")
        else:
            finish()
            in_list = bool(doc_blocks.LIST_ITEM.match(line)) or (
                in_list and line.startswith("  "))
            marker, text = re.match(r"( *(?:- |\d+\. )?)(.*)", line).groups()
            pieces = re.split(r"(`[^`]*`)", text.lstrip())
            pieces[::2] = [re.sub(r"([\\*_<>\[\]#$|{}~])", r"\\\1", p)
                           for p in pieces[::2]]
            indent = marker if in_list else marker.lstrip()
            parts.append(indent + "".join(pieces))
    finish()
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts).strip()) + "\n"


def chunks(text):
    """Yields the declarations of a header, in groups without a blank line
    between them, as ("section", title) or ("code", namespace, comment lines,
    code). Those of `internal` and unnamed namespaces are left out."""
    body = text.split("#ifndef", 1)[1] if "#ifndef" in text else text
    spaces, group, depth = [], [], 0

    def finish():
        comment = []
        while group and group[0].startswith("//"):
            comment.append(group.pop(0)[2:])
        code = "\n".join(group)
        hidden = any(s in ("", "internal") or s.endswith("::internal")
                     for s in spaces)
        wanted = "#define SLUICE_" in code if not spaces else not hidden
        group.clear()
        if wanted and code:
            inner = "::".join(s for s in "::".join(spaces).split("::")
                              if s != "sluice")
            return [("code", inner, comment, code)]
        return []

    for line in body.splitlines():
        code = re.sub(r"//.*$", "", line)
        if depth == 0 and OPENS.match(line):
            yield from finish()
            spaces.append(OPENS.match(line)[1])
        elif depth == 0 and api_reference.END_OF_NAMESPACE.match(line):
            yield from finish()
            spaces.pop()
        elif depth == 0 and SECTION.match(line):
            yield from finish()
            yield "section", SECTION.match(line)[1]
        elif depth == 0 and not line.strip():
            yield from finish()
        elif depth == 0 and re.match(r"#(?:include|ifndef|endif|pragma)|"
                                     r"#define \w+_H_$|\w+_H_$", line.strip()):
            yield from finish()
        else:
            group.append(line)
            depth += sum(code.count(c) for c in "({") - sum(
                code.count(c) for c in ")}")
    yield from finish()


def header_page(header, text):
    """The page of a public header: what it says, and what it declares."""
    name = re.sub(r"^(?:src|include)/", "", header)
    lead = [line[2:] for line in text.split("#ifndef")[0].splitlines()]
    parts = [f"# {name}\n", prose(lead)]
    if header.startswith("include/"):
        included = [line for line in text.splitlines()
                    if line.startswith("#include")]
        parts += [fenced("\n".join(included), "cpp")]
    before, section, level = None, "", "##"
    for what, *rest in chunks(text):
        if what == "section":
            section = rest[0]
            continue
        space, comment, code = rest
        code = PRIVATE.sub("", code + "\n").rstrip()
        whole = "\n".join(["//" + c for c in comment] + [code])
        if not comment and re.fullmatch(r"(?:(?:class|struct) \w+;.*\n?)+", code):
            continue  # Forward declarations.
        opened = space and f"namespace {space} {{\n"
        names = [n.name for n in api_reference.names_of(
            f"namespace sluice {{\n{opened}{whole}\n")]
        if section:
            parts.append(f"## {section}\n")
            section, level = "", "###"
        if names and names != before:
            parts.append(f"{level} " + ", ".join(f"`{n}`" for n in names) + "\n")
        before = names or before
        if comment:
            parts.append(prose(comment))
        parts.append(fenced(code, "cpp"))
    return "\n".join(parts)


# ---- Python -----------------------------------------------------------------


FIELDS = re.compile(r"(?:Args|Attributes|Raises):$")
HEADING = re.compile(r"[A-Z][a-z]+:$")


def dedented(docstring):
    """The lines of a docstring, without the indentation of its end."""
    first, *rest = docstring.expandtabs().split("\n")
    if not rest or rest[-1].strip():
        return inspect.cleandoc(docstring).split("\n")
    indent = len(rest[-1])
    return [first.strip()] + [line[indent:].rstrip() for line in rest[:-1]]


def inline(text):
    """Text with `code` as the only markup."""
    pieces = re.split(r"(`[^`]+`)", text)
    pieces[::2] = [re.sub(r"([\\*|`]|_(?!\w))", r"\\\1", p) for p in pieces[::2]]
    pieces[1::2] = [f"`{p}`\\ " if after[:1].isalnum() else f"`{p}`"
                    for p, after in zip(pieces[1::2], pieces[2::2])]
    return "".join(pieces)


def items(lines):
    """A list: a line that is indented more than the first continues an item."""
    least = len(lines[0]) - len(lines[0].lstrip())
    out = []
    for line in filter(str.strip, lines):
        if len(line) - len(line.lstrip()) > least and out:
            out[-1] += " " + line.strip()
        else:
            out.append(line.strip())
    for item in out:
        name, colon, text = item.removeprefix("- ").partition(": ")
        yield (f"- ``{name}``: {inline(text)}"
               if colon and "`" not in name and not item.startswith("- ")
               else f"- {inline(item.removeprefix('- '))}")


def plain(docstring):
    """The reStructuredText of a docstring, which is plain text: `name` is code,
    and so are blocks that are indented by four; "Args:" and the like begin
    lists; nothing else is markup."""
    out, block, heading = [], [], ""

    def finish():
        indent = len(block[0]) - len(block[0].lstrip()) if block else 0
        if heading and block and not FIELDS.match(heading):
            out.extend(inline(line.strip()) for line in block)
        elif indent >= 4 and not heading:
            out.extend([".. code-block:: python", ""] +
                       [line[indent - 4:] for line in block])
        elif indent or (block and block[0].startswith("- ")):
            out.extend(items(block))
        else:
            out.extend(inline(line) for line in block)
        out.append("")
        block.clear()

    for line in dedented(docstring):
        indented = line.startswith(" ")
        if heading and line.strip() and not indented:
            finish()
            heading = ""
        if HEADING.match(line):
            finish()
            heading = line
            out.extend([f"**{line}**", ""])
        elif not line.strip() and not heading and block and \
                block[0].startswith("    "):
            block.append("")  # A block of code goes on until one that is none.
        elif not line.strip():
            finish()
        else:
            if block and not heading and block[0].startswith("    ") and \
                    not line.startswith("    "):
                finish()
            block.append(line)
    finish()
    return out


def signature(value):
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    # (The representation of a default that is an object has its address.)
    return re.sub(r"<([\w.]+)[^<>]* at 0x\w+>", r"\1", str(found.replace(
        return_annotation=inspect.Signature.empty, parameters=[
            p.replace(annotation=inspect.Parameter.empty)
            for p in found.parameters.values()])))


def directive(kind, text, docstring, content=()):
    body = plain(docstring) + [""] + list(content)
    return [f".. py:{kind}:: {text}", ""] + [
        f"   {line}".rstrip() for line in body] + [""]


def members(owner):
    """The directives of a class's own public methods and properties."""
    for name, value in vars(owner).items():
        if name.startswith("_"):
            continue
        called = getattr(value, "__func__", value)
        if isinstance(value, property) and value.__doc__:
            yield from directive("property", name, value.__doc__)
        elif inspect.isroutine(called) and called.__doc__:
            kind = ("classmethod" if isinstance(value, classmethod) else
                    "staticmethod" if isinstance(value, staticmethod) else
                    "method")
            yield from directive(kind, name + signature(getattr(owner, name)),
                                 called.__doc__)


def definition(full, value):
    """The directives of a class or a function; none if it has no docstring, or
    is of another package."""
    if inspect.isclass(value):
        if not value.__doc__ or not value.__module__.startswith("sluice"):
            return []
        bases = [b.__name__ for b in value.__bases__ if b is not object and
                 b.__module__.startswith("sluice")]
        also = [f"Base: ``{', '.join(bases)}``.", ""] if bases else []
        return directive("class", full + signature(value), value.__doc__,
                         also + list(members(value)))
    if not inspect.isroutine(value) and not (
            callable(value) and hasattr(value, "__name__")):
        return []
    return directive("function", full + signature(value), value.__doc__) \
        if value.__doc__ else []


def python_pages():
    """The (path, text) of the pages of the Python package: one for each
    namespace. What has several names is described under the first."""
    import sluice
    from sluice import names
    spaces = {"": [n for n in dir(sluice) if not n.startswith("_")]}
    spaces.update({space: list(there) for space, there in names._GROUPS.items()
                   if there})
    first = {}  # By the id of a value, which the package keeps.
    for space, there in spaces.items():
        owner = sluice
        for part in filter(None, space.split(".")):
            owner = getattr(owner, part)
        full = f"sluice.{space}" if space else "sluice"
        about = plain(owner.__doc__ or "")
        lines = [full, "=" * len(full), ""]
        lines += about if not space else about[:1]
        lines += [""]
        same, others = [], []
        for name in sorted(there, key=str.lower):
            value = getattr(owner, name)
            if isinstance(value, types.ModuleType):
                continue
            if id(value) in first:
                same.append(f":py:obj:`{name} <{first[id(value)]}>`")
                continue
            found = definition(f"{full}.{name}", value)
            lines += found
            if found:
                first[id(value)] = f"{full}.{name}"
            else:
                others.append(f"``{name}``")
        if others:
            lines += ["Constants, types and messages: " + ", ".join(others) +
                      ".", ""]
        if same:
            lines += ["Also here: " + ", ".join(same) + ".", ""]
        yield f"python/{full}.rst", "\n".join(lines)


# ---- The whole --------------------------------------------------------------


def entry(path):
    return os.path.splitext(path)[0]


def linked(text):
    """The pages of its own folder that a page links to, in order."""
    found = [m[3] for m in LINK.finditer(text)]
    return list(dict.fromkeys(entry(t) for t in found
                              if t.endswith(".md") and "/" not in t))


def site_pages(root, with_python):
    """The (path, text) of all pages of the site, in a dictionary."""
    site, out = Site(root), {}
    for path in site.pages():
        text = (root / path).read_text(encoding="utf-8")
        out[path] = site.page(path, text)
        if path.endswith("/README.md"):
            out[path] += "\n" + toctree(linked(text), hidden="", maxdepth="1")
    for header in site.headers:
        text = (root / header).read_text(encoding="utf-8")
        out[site.place(header)] = header_page(header, text)
    out["docs/api.md"] += "\n" + toctree(
        ("../" + entry(site.place(h)) for h in site.headers), hidden="",
        maxdepth="1")
    reference = ["docs/ops/README", "docs/api"]
    if with_python:
        pages = dict(python_pages())
        out.update(pages)
        out["python/index.md"] = (
            "# The Python API\n\nThe names of each namespace, from their "
            "docstrings. `sluice.compat.v1` has the same names.\n\n" + toctree(
                [pathlib.PurePath(entry(p)).name if p.endswith(".rst") else p
                 for p in sorted(pages, key=entry)], maxdepth="1"))
        reference.append("python/index")
    for path in sorted(site.files):
        out[f"files/{path}.md"] = site.source_page(path)
    out["index.md"] = index(out, reference)
    return out


def index(pages, reference):
    """The first page: the README's introduction, and the way to the rest."""
    readme = pages["README.md"]
    intro = readme.split("\n## ", 1)[0]
    tutorials = pages["docs/tutorials/README.md"].split("\n", 1)[1]
    tutorials = tutorials.split("```{toctree}")[0]
    tutorials = re.sub(r"\]\((?=[\w-]+\.md)", "](docs/tutorials/", tutorials)
    tutorials = tutorials.replace("](../", "](docs/")
    guides = ["docs/clusters", "docs/board", "docs/add-an-op", "docs/upgrading"]
    inside = ["docs/tour", "docs/design/README", "docs/performance",
              "docs/paper-map"]
    listed = set(guides + inside + reference + [
        "docs/ops/README", "docs/tutorials/README"])
    guides += [entry(p) for p in sorted(pages)
               if re.fullmatch(r"docs/[\w-]+\.md", p) and entry(p) not in listed]
    return "\n".join([
        intro, "", "## Tutorials", tutorials,
        toctree(["Overview <README>", "docs/tutorials/README"], "Start", hidden=""),
        toctree(guides, "Guides", hidden=""),
        toctree(reference, "Reference", hidden=""),
        toctree(inside + ["CONTRIBUTING", "CHANGELOG"], "Inside", hidden="")])


def write(root, folder, with_python):
    """Writes the pages; removes those that are gone, keeps unchanged ones."""
    pages = site_pages(root, with_python)
    for old in folder.rglob("*"):
        if old.suffix in (".md", ".rst") and \
                str(old.relative_to(folder)) not in pages:
            old.unlink()
    for path, text in pages.items():
        to = folder / path
        to.parent.mkdir(parents=True, exist_ok=True)
        if not to.exists() or to.read_text(encoding="utf-8") != text:
            to.write_text(text, encoding="utf-8")
    shutil.copytree(root / "docs/figures", folder / "docs/figures",
                    dirs_exist_ok=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--no-python", action="store_true")
    args = parser.parse_args()
    write(ROOT, args.folder, not args.no_python)


if __name__ == "__main__":
    main()
