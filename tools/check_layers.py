#!/usr/bin/env python3
"""Checks project rules that the compiler does not.

Checks which folder may include which (docs/design/001-house.md), where
third-party headers may appear, that no folders include each other in a cycle,
that no two headers define a type of the same name in the same namespace,
which ops must declare that they access the host, that ops are recognised by
what they declare and not by their names (docs/design/003-one-op-one-place.md),
and the names of header guards.
Prints one line per breach, `path:line: what: expected ..., got ...`, and exits
1 if there is any.

  tools/check_layers.py [ROOT]
"""

import pathlib
import re
import sys

# The project folders that each folder of src/ may include beside itself.
# Bottom-up.
LAYERS = {
    "base": [],
    "tensor": ["base"],
    "graph": ["base", "tensor"],
    "passes": ["base", "tensor", "graph"],
    "exec": ["base", "tensor", "graph", "passes"],
    "kernels": ["base", "tensor"],
    "io": ["base", "tensor"],
    "checkpoint": ["base", "tensor", "graph", "io"],
    "summary": ["base", "tensor", "graph", "io"],
    "ops": ["base", "tensor", "graph", "exec", "kernels", "io", "checkpoint",
            "summary"],
    "client": ["base", "tensor", "graph", "passes"],
    "inspect": ["base", "tensor", "graph", "passes", "client"],
    "session": ["base", "tensor", "graph", "passes", "exec", "kernels", "io",
                "checkpoint", "ops", "client"],
}
LAYERS["simulate"] = LAYERS["session"] + ["session"]
LAYERS["data"] = LAYERS["session"] + ["session"]
LAYERS["train"] = LAYERS["session"] + ["session", "data", "summary"]
LAYERS["deploy"] = LAYERS["train"] + ["train"]
LAYERS["cluster"] = LAYERS["session"] + ["session"]
LAYERS["capi"] = LAYERS["cluster"] + ["cluster", "data", "train", "deploy"]

# What a folder within one of these may include of the same one; "" is the
# files directly in it. (Families of ops may include each other's headers, but
# no folders may include each other in a cycle.)
ROOMS = {
    "exec": {"core": [], "fusion": ["core"], "scheduling": ["core"],
             "devices": ["core", "scheduling"],
             "batching": ["core", "fusion"]},
    "ops": {"common": []},
    "client": {"": [], "autodiff": [""], "control": [""],
               "nn": ["", "autodiff", "control"]},
    "cluster": {
        "common": [],
        "transport": ["common"],
        "transport/shared": ["common", "transport"],
        "transport/grpc": ["common", "transport", "transport/shared"],
        "transport/ucx": ["common", "transport", "transport/shared"],
        "membership": ["common"],
        "worker": ["common", "transport"],
        "master": ["common", "transport", "worker"],
    },
}

# The generated builders exist only after everything up to ops is built.
USES_BUILDERS = ["client", "session", "data", "train", "deploy", "cluster",
                "capi"]

# Third-party headers (prefixes of the included path) and the files that may
# include them (prefixes of their paths).
THIRD_PARTY = {
    "google/protobuf": ["src/graph/graphdef", "src/graph/tensor_proto",
                        "src/io/make_example.cc", "src/checkpoint/",
                        "src/summary/", "src/ops/io/summary",
                        "src/ops/string/json.cc", "src/session/step_stats.cc",
                        "src/session/session_config.cc",
                        "src/deploy/meta_graph", "src/deploy/saved_model",
                        "src/cluster/", "src/capi/", "tools/board/",
                        "tests/minimal/with_protobuf.cc"],
    "oneapi/": ["src/kernels/dnn/"],
    "dnnl": ["src/kernels/dnn/"],
    "hwy/": ["src/kernels/"],
    "omp.h": ["src/base/parallel.cc", "src/kernels/dnn/threads.h"],
    "leveldb/": ["src/checkpoint/table.cc"],
    "snappy.h": ["src/checkpoint/table.cc"],
    "zlib.h": ["src/io/", "tools/sluice/"],
    "png.h": ["src/io/image_png.cc"],
    "jpeglib.h": ["src/io/image_jpeg.cc"],
    "gif_lib.h": ["src/io/image_gif.cc"],
    "re2/": ["src/ops/string/regex.cc"],
    "unicode/": ["src/ops/string/letter_case.cc"],
    "farmhash.h": ["src/ops/common/fingerprint.cc"],
    "Eigen/": ["src/kernels/linalg/", "tools/board/projection.cc"],
    "httplib.h": ["tools/board/server", "src/cluster/monitoring/"],
    "unsupported/Eigen": ["src/kernels/linalg/"],
    "CLI/": ["tools/", "bench/"],
    "grpc": ["src/cluster/"],
    "ucp/": ["src/cluster/transport/ucx/"],
}

# Ops in files that include one of these must declare it (OpDef::host_reach). A
# file of src/ops that includes one and declares no op has its header here too.
REACHES_HOST = ("io/byte_source.h", "io/file.h", "io/glob.h", "io/records.h",
                "ops/readers/formats.h", "ops/readers/reader.h",
                "checkpoint/bundle_writer.h", "checkpoint/checkpoint_reader.h",
                "checkpoint/version1.h", "exec/core/host_functions.h", "fstream", "filesystem",
                "dlfcn.h")

# Where ops may be recognised by name: their own declarations, and the formats
# in which a graph is stored.
NAMES_OPS = ("src/ops/", "src/graph/graphdef")
BY_NAME = [re.compile(p) for p in (
    r'\b(?:op_name\(\)|op\(\)\.name|(?:op|def)->name)\s*[!=]=\s*"',
    r'"\s*[!=]=\s*[\w.>()-]*\bop_name\(\)',
    r'\bop_name\(\)\s*\.\s*(?:starts_with|ends_with|r?find|compare|contains|'
    r'substr)\(',
    r'\b(?:StartsWith|EndsWith|StrContains|IsOneOf)\([^;{}"]*\bop_name\(\)',
    r'\bfamily\s*[!=]=\s*"',
)]
# A variable that holds the name of an op.
NAME_HELD = re.compile(r'(?<![\w.>])(\w+)\s*=\s*[\w.>()-]*\bop_name\(\)\s*;')
HELD_BY_NAME = (r'(?<![\w.>])%s(?:\s*[!=]=\s*"|\.(?:starts_with|ends_with|r?find|'
                r'compare|contains|substr)\()|'
                r'\b(?:StartsWith|EndsWith|StrContains|IsOneOf)\(%s,')
# Passes ask for a fact (OpFacts), not for TensorFlow's flag.
ASKS_FACTS = ("graph", "passes", "exec", "session", "deploy", "cluster")
FLAG = re.compile(r'(?:\bop\(\)\.|\b(?:op|def|op_def)->)stateful\b')

INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)')
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX)\b", re.IGNORECASE)
TEST = re.compile(r"_(test|fuzz|benchmark)\.cc$|(^|[_/])test(ing|_\w+)?\.h$|/testing/")


def layer_of(path):
    parts = path.split("/")
    return parts[1] if parts[0] == "src" and len(parts) > 2 else None


def header_of(path):
    """The header of a source file, as others include it."""
    return re.sub(r"^src/|\.\w+$", "", path) + ".h"


def room_of(path):
    """The folder of `path` within its layer: "a/b" of "layer/a/b/c.h"."""
    return "/".join(path.split("/")[1:-1])


def check_include(path, header):
    """The rule that `header` violates in `path`, or None. Tests may include
    higher layers."""
    if TEST.search(path):
        return None
    for prefix, places in THIRD_PARTY.items():
        if header.startswith(prefix) and not path.startswith(tuple(places)):
            return f"only {', '.join(places)} may include it"
    if header.endswith(".pb.h"):
        places = THIRD_PARTY["google/protobuf"]
        if not path.startswith(tuple(places)):
            return f"only {', '.join(places)} may include it"
    top = header.split("/")[0]
    if path.startswith("examples/"):
        return None if top not in LAYERS else "a public header, sluice/..."
    layer = layer_of(path)
    if layer is None:
        return None
    if header == "sluice/ops.h":
        return (None if layer in USES_BUILDERS else
                f"only {', '.join(USES_BUILDERS)} may include it")
    if header == "sluice/c_api.h":  # (It includes nothing of src/.)
        return None if layer == "capi" else "only src/capi may include it"
    if top in ("sluice", "tools", "bench", "tests"):
        return "nothing in src/ includes what stands on src/"
    if top == layer:
        room, other = room_of(path.removeprefix("src/")), room_of(header)
        rooms = ROOMS.get(layer, {})
        if (room in rooms and other not in rooms[room] + [room, "proto"]):
            allowed = ", ".join(f"{layer}/{r}" for r in rooms[room])
            return f"{layer}/{room} may include {allowed or 'itself'}"
    if top in LAYERS and top != layer and top not in LAYERS[layer]:
        return f"{layer}/ may include {', '.join(LAYERS[layer]) or 'nothing'}"
    return None


def find_cycle(edges):
    """Some folders that include each other in a cycle, in order, or None.
    edges: the folders that each folder includes."""
    done = set()

    def visit(folder, path):
        if folder in path:
            return path[path.index(folder):]
        if folder in done:
            return None
        for other in sorted(edges.get(folder, ())):
            cycle = visit(other, path + [folder])
            if cycle:
                return cycle
        done.add(folder)
        return None

    for folder in sorted(edges):
        cycle = visit(folder, [])
        if cycle:
            return cycle
    return None


def check_cycles(texts):
    """Yields a message if folders of src/ include each other in a cycle.
    texts: by path. Tests may include anything."""
    edges, examples = {}, {}
    for path, text in texts.items():
        if not path.startswith("src/") or TEST.search(path):
            continue
        folder = room_of(path)
        for header in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.M):
            other = header.rpartition("/")[0]
            if f"src/{header}" in texts and other != folder:
                edges.setdefault(folder, set()).add(other)
                examples.setdefault((folder, other), f"{path} includes {header}")
    cycle = find_cycle(edges)
    if cycle:
        steps = zip(cycle, cycle[1:] + cycle[:1])
        yield ("folders: expected no cycle of includes, got "
               + "; ".join(examples[step] for step in steps))


def check_types(texts):
    """Yields a message for each type that two headers of src/ define.

    The linker takes the inline functions of two classes of one name for the
    same, without an error. texts: by path. Headers of tests, which are in a
    program of their own, are not looked at.
    """
    defined = {}
    for path, text in texts.items():
        if (not path.startswith("src/") or not path.endswith(".h") or
                TEST.search(path)):
            continue
        spaces = []
        for line in text.splitlines():
            opened = re.match(r"(?:inline )?namespace ?([\w:]*) ?\{", line)
            if opened:
                spaces.append(opened.group(1))
            elif line.startswith("}  // namespace") and spaces:
                spaces.pop()
            # (A specialization has "<" after its name.)
            found = re.match(r"(?:class|struct|enum class) (\w+)(?: final)?"
                             r"(?: :.*)?\s*\{|using (\w+) =", line)
            if found:
                name = "::".join(spaces + [found.group(1) or found.group(2)])
                defined.setdefault(name, set()).add(path)
    for name, paths in defined.items():
        if len(paths) > 1:
            yield (f"type: expected one definition of {name}, got those of "
                   + " and ".join(sorted(paths)))


def guard_of(path):
    name = re.sub(r"^(src|include/sluice|include)/", "", path)
    return "SLUICE_" + re.sub(r"[^A-Za-z0-9]", "_", name).upper() + "_"


def check_names(path, text):
    """Yields (line number, message) where an op is recognised by its name."""
    if (TEST.search(path) or path.startswith(NAMES_OPS) or
            not path.startswith(("src/", "python/src/"))):
        return
    # Comments become blanks, so that positions stay the same.
    code = re.sub(r"//[^\n]*", lambda c: " " * len(c.group()), text)
    patterns = BY_NAME + [
        re.compile(HELD_BY_NAME % (name, name))
        for name in sorted({m.group(1) for m in NAME_HELD.finditer(code)})]
    found = {m.start(): m.group() for p in patterns for m in p.finditer(code)}
    for at, what in sorted(found.items()):
        yield (text.count("\n", 0, at) + 1,
               "name of an op: expected its kind, role or another trait "
               f"(OpDef), got {' '.join(what.split())}")
    if layer_of(path) in ASKS_FACTS:
        for m in FLAG.finditer(code):
            yield (text.count("\n", 0, m.start()) + 1,
                   f"stateful op: expected a fact (OpFacts), got {m.group()}")


SUFFIXES = (".h", ".cc", ".py")


def check_file(path, text):
    """Yields (line number, message) for each violation in one file."""
    lines = text.splitlines()
    if path.endswith(".py"):
        return
    for number, line in enumerate(lines, 1):
        found = INCLUDE.match(line)
        if found:
            header = found.group(1) or found.group(2)
            if (layer_of(path) == "ops" and header in REACHES_HOST and
                    not TEST.search(path) and ".ReachesHost(" not in text and
                    header_of(path) not in REACHES_HOST):
                yield number, (f"include: expected .ReachesHost() of an op in "
                               f"a file that includes {header}, got none")
            rule = check_include(path, header)
            if rule:
                yield number, f"include: expected {rule}, got {header}"
        if UNFINISHED.search(line):
            yield number, ("unfinished work: expected it done or written in "
                           f"README's limitations, got {line.strip()}")
    yield from check_names(path, text)
    # Highway's x-inl.h files are included once per target and have a toggling
    # guard.
    if (path.endswith(".h") and path.startswith(("src/", "include/")) and
            not path.endswith("-inl.h")):
        guard = guard_of(path)
        if f"#ifndef {guard}" not in text or f"#define {guard}" not in text:
            yield 1, f"header guard: expected {guard}, got another"


def check_tree(root):
    breaches, texts = [], {}
    for folder in ("src", "include", "tools", "bench", "examples", "tests",
                   "python"):
        for file in sorted((root / folder).rglob("*")):
            if file.suffix not in SUFFIXES or not file.is_file():
                continue
            path = file.relative_to(root).as_posix()
            if layer_of(path) is not None and layer_of(path) not in LAYERS:
                breaches.append(f"{path}:1: folder: expected one of "
                                f"{', '.join(LAYERS)}, got {layer_of(path)}")
                continue
            text = file.read_text(encoding="utf-8")
            if path.startswith("tools/check_"):
                continue
            breaches += [f"{path}:{number}: {message}"
                         for number, message in check_file(path, text)]
            texts[path] = text
    return breaches + [f"src:1: {message}" for check in
                       (check_cycles, check_types) for message in check(texts)]


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                        pathlib.Path(__file__).resolve().parent.parent)
    breaches = check_tree(root)
    print("\n".join(breaches) if breaches else "layers, guards: ok")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
