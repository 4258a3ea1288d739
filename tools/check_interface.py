#!/usr/bin/env python3
"""Checks that every public function has an entry in the table of hostile calls.

The public functions are the free functions and the public members of classes in
the headers of include/sluice and in all headers that these include, directly or
not, except those listed in INTERNAL and TRUSTING. The table is the tests that
are written with

    HOSTILE(NameOfTheTest, "Tensor::dim Tensor::Rows Zeros") { ... }

in the files of TABLES: the string lists the functions that the test calls with
arguments that they must refuse. Prints one line for each function without an
entry and each entry that does not name a public function; exits 1 if there is
any.

  tools/check_interface.py [ROOT]
"""

import pathlib
import re
import sys

PUBLIC = ["include/sluice/sluice.h", "include/sluice/cluster.h",
          "include/sluice/op.h"]

# Headers that are included indirectly, and why their functions need no entry.
INTERNAL = {
    "base/cluster_library.h": "finds libsluice_cluster",
    "base/parallel.h": "threads of kernels",
    "base/thread_pool.h": "threads of the executor",
    "exec/core/stream.h": "between a device and its kernels",
    "exec/core/stream_allocator.h": "likewise",
    "exec/devices/emulated_clock.h": "time for the tests of devices",
    "exec/devices/emulated_stream.h": "between emulated devices and kernels",
    "client/op_builder.h": "what the generated builders are made of",
    "exec/core/resources.h": "what the kernels of variables and tables share",
    "exec/core/trace.h": "filled by the executor",
    "train/elastic_replicas.h": "what SyncReplicas builds with",
    "graph/control_flow.h": "what Cond and While build with",
    "graph/function.h": "what DefineFunction builds with",
    "graph/graphdef_costs.h": "what a session measures, as a CostGraphDef",
    "graph/name_index.h": "a graph's index",
    "graph/tensor_proto.h": "what ImportGraphDef reads with",
}

# Functions (or prefixes of them) that trust their callers, and why.
TRUSTING = {
    "Tensor::raw": "unchecked: for kernels",
    "KernelContext::": "a kernel knows its inputs from its op's declaration",
    "ScalarPlaces::": "likewise",
    "Cpu": "makers of kernels, given by declarations of ops",
    "OpDefBuilder::Own": "for the library's own ops",
    "OpDefBuilder::own": "likewise",
    "ShapeContext::Infer": "for the graph, which calls it",
    "OpRegistrar": "a declaration that is wrong ends the program as it starts",
    "OpRegistry::Register": "likewise",
    "EmulatedDevice::": "for its own kernels",
    "CpuDevice::": "for the executor",
    "Device::": "to be derived from; for the executor",
    "Graph::CopyNode": "for passes, which work on a copy of what was built",
    "Graph::RefineShapes": "likewise",
    "Graph::Re": "likewise",
    "Graph::SetAttr": "likewise",
    "Graph::SetControlInputs": "likewise",
    "Graph::SetDevice": "likewise",
    "Graph::TurnInto": "likewise",
    "Graph::ShareLibrary": "takes no value",
    "Graph::UseLibrary": "likewise",
    "Graph::function": "gives a container",
    "Graph::collections": "likewise",
    "Graph::original_names": "likewise",
    "Graph::control_flow": "likewise",
    "AdagradOptimizer::": "what an optimizer overrides, called by Minimize",
    "GradientDescentOptimizer::": "likewise",
    "BufferedBytes::": "views of its buffer, for readers of formats",
    "Dataset::Dataset": "for Dataset's own functions",
    "DatasetIterator::DatasetIterator": "likewise",
}

TABLES = ["tests/*_test.cc", "src/cluster/**/*_test.cc"]

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
NOISE = re.compile(r"""
      //[^\n]* | /\*.*?\*/                        # comments
    | ^[ \t]*\#(?:\\\n|[^\n])*                    # the preprocessor's lines
    """, re.VERBOSE | re.DOTALL | re.MULTILINE)
LITERAL = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])+\'')
TOKEN = re.compile(
    r"operator\s*(?:\(\)|\[\]|new|delete|[-+*/%<>=!&|^~]+)"
    r"|[A-Za-z_]\w*|::|->|<<|[{}()\[\];:,<>=~&*]|\S")
WORD = re.compile(r"[A-Za-z_]\w*$")
HOSTILE = re.compile(r'HOSTILE\(\s*\w+\s*,((?:\s*"[^"]*")+)\s*\)')


def tokens_of(text):
    text = re.sub(r"(?<=\d)'(?=\d)", "", NOISE.sub(" ", text))
    return TOKEN.findall(LITERAL.sub("0", text))


def closing(tokens, at):
    """The index of the bracket that closes the one at `at`."""
    pairs = {"{": "}", "(": ")", "[": "]"}
    opening, end = tokens[at], pairs[tokens[at]]
    depth = 0
    for i in range(at, len(tokens)):
        depth += (tokens[i] == opening) - (tokens[i] == end)
        if depth == 0:
            return i
    raise ValueError(f"expected '{end}'")


def closing_angle(tokens, at):
    """The same for the '<' of a template."""
    depth, i = 0, at
    while i < len(tokens):
        if tokens[i] in "({[":
            i = closing(tokens, i)
        depth += (tokens[i] == "<") - (tokens[i] == ">")
        if depth == 0:
            return i
        i += 1
    raise ValueError("expected '>'")


def declaration_at(tokens, i):
    """The declaration at i: its tokens up to a body, the body's tokens or None,
    and the index of the next declaration."""
    start, initialisers, assigned = i, False, False
    while i < len(tokens):
        token = tokens[i]
        if token == "requires" and tokens[i + 1] == "(":
            i = closing(tokens, i + 1)
            if tokens[i + 1] == "{":  # requires(...) { what must hold }
                i = closing(tokens, i + 1)
        elif token in "([":
            i = closing(tokens, i)
        elif token == ":" and tokens[i - 1] in (")", "noexcept"):
            initialisers = True  # Foo() : a(1), b{2} { ... }
        elif token == "=":
            assigned = True  # int a = 1; int b[] = {2};
        elif token == "{":
            before = tokens[i - 1]
            if assigned or initialisers and before not in (")", "}"):
                i = closing(tokens, i)
            else:
                end = closing(tokens, i)
                body, declaration = tokens[i + 1:end], tokens[start:i]
                if kind_of(declaration) in ("class", "struct", "union", "enum"):
                    while tokens[end] != ";":
                        end += 1
                return declaration, body, end + 1
        elif token in ";}":
            return tokens[start:i], None, i + 1
        i += 1
    return tokens[start:], None, i


def without_template(declaration):
    """The tokens after template <...> and its requires-clause."""
    i = 0
    while declaration[i:i + 2] == ["template", "<"]:
        i = closing_angle(declaration, i + 1) + 1
    if declaration[i:i + 2] == ["requires", "requires"]:
        i = closing(declaration, i + 2) + 1
        i = closing(declaration, i) + 1
    elif declaration[i:i + 2] == ["requires", "("]:
        i = closing(declaration, i + 1) + 1
    elif declaration[i:i + 1] == ["requires"]:  # requires std::same_as<T>
        i = declaration.index("<", i)
        i = closing_angle(declaration, i) + 1
    return declaration[i:]


def kind_of(declaration):
    return (without_template(declaration) or [""])[0]


def function_name(declaration):
    """The function that a declaration declares, or None."""
    declaration = without_template(declaration)
    if declaration[:1] and declaration[0] in ("using", "typedef", "friend",
                                              "static_assert", "concept"):
        return None
    i = 0
    while i < len(declaration):
        token = declaration[i]
        if token.startswith("operator") and token != "operator":
            return None if token == "operator=" else re.sub(r"\s", "", token)
        if token == "=":
            return None
        if token == "<":
            i = closing_angle(declaration, i)
        elif token == "[":
            i = closing(declaration, i)
        elif token == "(":
            name = declaration[i - 1] if i else ""
            if name in ("decltype", "alignas", "explicit"):
                i = closing(declaration, i)
            elif declaration[i - 2:i - 1] in (["~"], ["operator"]):
                return None  # Destructors and conversions.
            elif declaration[i + 1:i + 2] == ["*"]:
                return None  # A pointer to a function.
            elif declaration[i - 2:i - 1] == ["::"] or name.isupper():
                return None  # Declared elsewhere; a macro.
            else:
                return name if WORD.match(name) else None
        i += 1
    return None


def functions_of(text):
    """The public functions that a header declares, with their classes."""
    found = set()

    def scope(tokens, path, public):
        i = 0
        while i < len(tokens):
            if tokens[i] in ("public", "private", "protected") and tokens[
                    i + 1:i + 2] == [":"]:
                public = tokens[i] == "public"
                i += 2
                continue
            if tokens[i].isupper() and tokens[i + 1:i + 2] == ["("]:
                i = closing(tokens, i + 1) + 1  # A macro.
                continue
            declaration, body, i = declaration_at(tokens, i)
            kind = kind_of(declaration)
            if kind in ("namespace", "inline") and "namespace" in declaration:
                names = declaration[declaration.index("namespace") + 1:]
                names = [n for n in names if WORD.match(n)]
                if "internal" not in names and body is not None:
                    scope(body, path + [n for n in names if n != "sluice"],
                          True)
            elif kind in ("class", "struct", "union"):
                if body is None or not public:
                    continue
                names = []
                for token in without_template(declaration)[1:]:
                    if token in (":", "<"):
                        break
                    if WORD.match(token) and token != "final":
                        names.append(token)
                if names:
                    scope(body, path + names, kind != "class")
            elif kind != "enum" and public:
                name = function_name(declaration)
                gone = declaration[-2:] in (["=", "delete"], ["=", "default"])
                if name is not None and not gone:
                    found.add("::".join(path + [name]))

    scope(tokens_of(text), [], True)
    return found


def header_at(root, name):
    for folder in ("src", "include"):
        path = root / folder / name
        if path.exists():
            return path
    return None  # Generated, or not ours.


def public_headers(root):
    """Every header that a program includes, except those of INTERNAL."""
    seen, todo = {}, [root / p for p in PUBLIC]
    while todo:
        path = todo.pop()
        for name in INCLUDE.findall(path.read_text()):
            header = header_at(root, name)
            if header is None or name in seen:
                continue
            seen[name] = header
            todo.append(header)
    return {n: h for n, h in seen.items() if n not in INTERNAL}


def entries_of(text):
    names = set()
    for strings in HOSTILE.findall(text):
        for literal in re.findall(r'"([^"]*)"', strings):
            names.update(literal.split())
    return names


def check(functions, entries):
    """Returns the lines to print. `functions`: header -> names."""
    lines = []
    known = set()
    for header, names in sorted(functions.items()):
        known |= names
        for name in sorted(names - entries):
            if name.startswith(tuple(TRUSTING)):
                continue
            lines.append(f"src/{header}: {name}: expected an entry in the table "
                         "of hostile calls, got none")
    for name in sorted(entries - known):
        lines.append(f"{name}: expected a public function, got an entry for "
                     "none")
    return lines


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                        pathlib.Path(__file__).resolve().parent.parent)
    functions = {n: functions_of(h.read_text())
                 for n, h in public_headers(root).items()}
    entries = set()
    for pattern in TABLES:
        for path in sorted(root.glob(pattern)):
            entries |= entries_of(path.read_text())
    lines = check(functions, entries)
    print("\n".join(lines), end="\n" if lines else "")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
