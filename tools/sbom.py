#!/usr/bin/env python3
"""Writes the software bill of materials of a package (CycloneDX 1.5, JSON).

  tools/sbom.py NAME [--pypi NAME==VERSION]... FILE... > sbom.cdx.json

The components are Debian's packages: those of the shared libraries that the
programs and libraries FILE... load, from their dynamic sections, and the
headers that are compiled in, from `scripts/setup --list build`. Each has its
version and its copyright file. The same input gives the same bytes: the time is
SOURCE_DATE_EPOCH, and the serial number follows from the content.
"""

import argparse
import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Packages of scripts/setup whose headers are compiled in, and which have no
# shared library that a dynamic section names.
HEADERS_ONLY = ("libcli11-dev", "libeigen3-dev", "nlohmann-json3-dev")


def run(*command):
    return subprocess.run(command, capture_output=True, text=True,
                          check=True).stdout


def library_paths(files):
    """Returns the paths of the shared libraries outside of `files`' folders."""
    folders = {os.path.dirname(os.path.abspath(f)) for f in files}
    found = set()
    for file in files:
        for line in run("ldd", file).splitlines():
            match = re.search(r"=> (/\S+)", line)
            if not match:
                continue
            path = os.path.realpath(match[1])
            if os.path.dirname(path) not in folders:
                found.add(path)
    return sorted(found)


def packages_of(paths):
    """Returns the names of the Debian packages that have some files."""
    # (dpkg knows libraries by their place before /lib became a link.)
    places = {place: path for path in paths
              for place in (path, path.removeprefix("/usr"))}
    result = subprocess.run(["dpkg", "-S", *places], capture_output=True,
                            text=True, check=False)
    owner = {}
    for line in result.stdout.splitlines():
        packages, _, place = line.rpartition(": ")
        if place in places:
            owner[places[place]] = packages.split(",")[0].split(":")[0]
    for path in paths:
        if path not in owner:
            raise SystemExit(f"sbom.py: {path}: expected a file of a Debian "
                             "package, got one of none")
    return set(owner.values())


def licenses_of(package):
    """Returns the short names in a package's copyright file, if it has any."""
    path = pathlib.Path(f"/usr/share/doc/{package}/copyright")
    if not path.exists():
        return []
    text = path.read_text(encoding="utf-8", errors="replace")
    return sorted({m.strip() for m in re.findall(
        r"^License: *(\S[^\n]*)$", text, re.MULTILINE)})


def component(package):
    version, architecture, source = run(
        "dpkg-query", "-W", "-f=${Version}\t${Architecture}\t${source:Package}\n",
        package).splitlines()[0].split("\t")
    made = {"type": "library",
            "bom-ref": f"pkg:deb/debian/{package}@{version}?arch={architecture}",
            "name": package, "version": version}
    licenses = licenses_of(package)
    if licenses:
        made["licenses"] = [{"license": {"name": name}} for name in licenses]
    made["purl"] = made["bom-ref"]
    made["properties"] = [{"name": "debian:source", "value": source}]
    return made


def version():
    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    return re.search(r"project\(Sluice VERSION (\S+)", text)[1]


def from_pypi(requirement):
    """Returns the component of a package whose headers came from PyPI."""
    name, _, at = requirement.partition("==")
    purl = f"pkg:pypi/{name}@{at}"
    return {"type": "library", "bom-ref": purl, "name": name, "version": at,
            "purl": purl}


def document(name, files, pypi=()):
    listed = run(str(ROOT / "scripts" / "setup"), "--list", "build").split()
    for package in HEADERS_ONLY:
        if package not in listed:
            raise SystemExit(f"sbom.py: expected {package} in the list of "
                             "scripts/setup build, got none")
    packages = set(HEADERS_ONLY) | packages_of(library_paths(files))
    components = [component(p) for p in sorted(packages)]
    components += [from_pypi(r) for r in sorted(pypi)]
    own = f"pkg:generic/{name}@{version()}"
    when = datetime.datetime.fromtimestamp(
        int(os.environ.get("SOURCE_DATE_EPOCH", "0")), datetime.timezone.utc)
    digest = hashlib.sha256(json.dumps(components).encode()).hexdigest()
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, own + digest)}",
        "version": 1,
        "metadata": {
            "timestamp": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": {"type": "library", "bom-ref": own, "name": name,
                          "version": version(), "purl": own,
                          "licenses": [{"license": {"id": "Apache-2.0"}}]}},
        "components": components,
        "dependencies": [{"ref": own,
                          "dependsOn": [c["bom-ref"] for c in components]}],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name")
    parser.add_argument("--pypi", action="append", default=[])
    parser.add_argument("files", nargs="+")
    options = parser.parse_args()
    json.dump(document(options.name, options.files, options.pypi), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
