#!/usr/bin/env python3
"""Checks the container's recipe, where no container can be built.

Reads packaging/container/Dockerfile as a builder does and checks: each
instruction is one that exists, in a stage that a FROM began; COPY's sources are
in the checkout and not left out by .dockerignore, or made by an earlier stage;
each shell command of RUN is valid (`sh -n`), and scripts that it runs exist and
are executable; the commands of the list forms are JSON; the image does not run as
root. Prints one line per violation and exits 1 if there is any.

  tools/check_container.py [ROOT]
"""

import fnmatch
import json
import os
import pathlib
import re
import subprocess
import sys

KNOWN = {"FROM", "RUN", "COPY", "WORKDIR", "USER", "ENTRYPOINT", "CMD", "ENV",
         "ARG", "LABEL", "EXPOSE", "HEALTHCHECK"}


def instructions(text):
    """Yields (line number, name, arguments), with continued lines joined."""
    number, joined = None, ""
    for at, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#") or (not line.strip() and not joined):
            continue
        number = number or at
        joined += line.rstrip().removesuffix("\\")
        if line.rstrip().endswith("\\"):
            continue
        name, _, arguments = joined.strip().partition(" ")
        yield number, name, arguments.strip()
        number, joined = None, ""
    if joined:
        yield number, joined.split()[0], ""


def ignored(root, source):
    path = root / ".dockerignore"
    patterns = path.read_text().split() if path.exists() else []
    top = source.split("/")[0]
    return any(fnmatch.fnmatch(top, p) for p in patterns)


def check_copy(root, arguments, stages):
    words = arguments.split()
    stage = None
    while words and words[0].startswith("--"):
        if words[0].startswith("--from="):
            stage = words[0].removeprefix("--from=")
        words.pop(0)
    if len(words) < 2:
        yield f"COPY: expected sources and a destination, got '{arguments}'"
        return
    if stage is not None:
        if stage not in stages:
            yield f"COPY: expected an earlier stage, got '{stage}'"
        return
    for source in words[:-1]:
        if not list(root.glob(source)) if source != "." else False:
            yield f"COPY: expected a file of the checkout, got '{source}'"
        elif source != "." and ignored(root, source):
            yield f"COPY: expected a file outside .dockerignore, got '{source}'"


def check_run(root, arguments):
    result = subprocess.run(["sh", "-n", "-c", arguments], capture_output=True,
                            text=True, check=False)
    if result.returncode != 0:
        yield f"RUN: expected a shell command, got {result.stderr.strip()}"
    for script in re.findall(r"(?:^|&&|;)\s*(scripts/[\w-]+)", arguments):
        if not os.access(root / script, os.X_OK):
            yield f"RUN: expected a script of the checkout, got '{script}'"


def check(root):
    """Yields (line number, message)."""
    text = (root / "packaging/container/Dockerfile").read_text()
    stages, began, user = set(), False, "root"
    for number, name, arguments in instructions(text):
        messages = []
        if name not in KNOWN:
            messages.append(f"instruction: expected one of {sorted(KNOWN)}, "
                            f"got '{name}'")
        elif not arguments:
            messages.append(f"{name}: expected arguments, got none")
        elif name == "FROM":
            match = re.fullmatch(r"(\S+:\S+|\S+@sha256:\w+)(?: AS (\w+))?",
                                 arguments)
            if match:
                stages.add(match[2])
            elif arguments.split()[0] not in stages:
                messages.append("FROM: expected IMAGE:TAG [AS NAME], got "
                                f"'{arguments}'")
            began, user = True, "root"
        elif not began and name != "ARG":
            messages.append(f"{name}: expected FROM before it, got none")
        elif name == "COPY":
            messages += check_copy(root, arguments, stages)
        elif name == "RUN":
            messages += check_run(root, arguments)
        elif name == "USER":
            user = arguments
        elif name in ("ENTRYPOINT", "CMD"):
            try:
                words = json.loads(arguments)
            except ValueError:
                words = None
            if not isinstance(words, list):
                messages.append(f"{name}: expected a list in JSON, got "
                                f"'{arguments}'")
        for message in messages:
            yield number, message
    if user in ("root", "0"):
        yield len(text.splitlines()), "USER: expected another than root, got root"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else
                        pathlib.Path(__file__).resolve().parents[1])
    found = list(check(root))
    for number, message in found:
        print(f"packaging/container/Dockerfile:{number}: {message}")
    if not found:
        print("container: ok")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
