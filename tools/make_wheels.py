#!/usr/bin/env python3
"""Makes the wheels from a release build (scripts/package wheel).

  tools/make_wheels.py BUILD OUT --auditwheel PROGRAM [--pybind11 VERSION]

`sluice` (one for each module in BUILD/wheel_modules) holds the client, the
engine, the command, and the C API's library, headers and CMake files.
`sluice-cluster` (one for all Pythons) adds what needs gRPC and HTTP: clusters
and `sluice board`. auditwheel puts the libraries of Debian that they load
inside, and chooses the tag. The same build gives the same bytes:
SOURCE_DATE_EPOCH is the time of all files.
"""

import argparse
import base64
import hashlib
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import tomllib
import zipfile
import zlib

import deflate  # (PyPI's, in the environment that scripts/package makes.)

import sbom

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
VERSION = PROJECT["version"]


def run(*command, **more):
    result = subprocess.run([str(c) for c in command], capture_output=True,
                            text=True, check=False, **more)
    if result.returncode != 0:
        raise SystemExit(f"make_wheels.py: {command[0]}: expected success, got "
                         f"{result.returncode}:\n{result.stdout}{result.stderr}")
    return result.stdout


def metadata(name, summary, requires, extras):
    lines = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: {VERSION}",
             f"Summary: {summary}", "License-Expression: Apache-2.0",
             "License-File: LICENSE",
             f"Requires-Python: {PROJECT['requires-python']}"]
    lines += [f"Requires-Dist: {r}" for r in requires]
    for extra, needs in extras.items():
        lines.append(f"Provides-Extra: {extra}")
        lines += [f'Requires-Dist: {r}; extra == "{extra}"' for r in needs]
    lines.append("Description-Content-Type: text/markdown")
    return ("\n".join(lines) + "\n\n" +
            (ROOT / "README.md").read_text(encoding="utf-8"))


def tracked(*folders):
    """The files of the checkout that git knows, below some folders."""
    return run("git", "ls-files", *folders, cwd=ROOT).splitlines()


def copy_binary(source, target, rpath):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)
    run("strip", "--strip-unneeded", target)
    run("patchelf", "--set-rpath", rpath, target)


def dist_info(folder, name, tag, text, pure=False):
    info = folder / f"{name.replace('-', '_')}-{VERSION}.dist-info"
    (info / "licenses").mkdir(parents=True)
    shutil.copy(ROOT / "LICENSE", info / "licenses" / "LICENSE")
    (info / "METADATA").write_text(text, encoding="utf-8")
    (info / "WHEEL").write_text(
        f"Wheel-Version: 1.0\nGenerator: sluice ({VERSION})\n"
        f"Root-Is-Purelib: {'true' if pure else 'false'}\nTag: {tag}\n")
    return info


def pack(folder, path):
    """Writes a wheel with its RECORD: sorted, with one time for all files."""
    info = next(folder.glob("*.dist-info"))
    record = info / "RECORD"
    record.unlink(missing_ok=True)
    names = sorted(str(f.relative_to(folder)) for f in folder.rglob("*")
                   if f.is_file())
    lines = []
    for name in names:
        data = (folder / name).read_bytes()
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest())
        lines.append(f"{name},sha256={digest.decode().rstrip('=')},{len(data)}")
    own = str(record.relative_to(folder))
    record.write_text("\n".join([*lines, f"{own},,"]) + "\n")
    entries = [(name, (folder / name).read_bytes(),
                os.access(folder / name, os.X_OK)) for name in [*names, own]]
    path.write_bytes(zipped(entries))


def zipped(entries):
    """Returns a zip file of (name, bytes, executable).

    Written here because zipfile takes no other deflate than zlib's: libdeflate's
    makes the wheels 3 % smaller.
    """
    seconds = max(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), 315532800)
    year, month, day, hour, minute, second = time.gmtime(seconds)[:6]
    clock = hour << 11 | minute << 5 | second // 2
    date = (year - 1980) << 9 | month << 5 | day
    parts, directory, at = [], [], 0
    for name, data, executable in entries:
        deflated = bytes(deflate.deflate_compress(data, 12))
        encoded = name.encode()
        # Version 2.0, names in UTF-8, method deflate.
        common = struct.pack("<HHHHHIIIHH", 20, 0x800, 8, clock, date,
                             zlib.crc32(data), len(deflated), len(data),
                             len(encoded), 0)
        parts += [b"PK\x03\x04", common, encoded, deflated]
        mode = (0o100755 if executable else 0o100644) << 16
        directory.append(b"PK\x01\x02" + struct.pack("<H", 3 << 8 | 20) + common +
                         struct.pack("<HHHII", 0, 0, 0, mode, at) + encoded)
        at += 4 + len(common) + len(encoded) + len(deflated)
    index = b"".join(directory)
    end = b"PK\x05\x06" + struct.pack("<HHHHIIH", 0, 0, len(directory),
                                      len(directory), len(index), at, 0)
    return b"".join([*parts, index, end])


def unpack(path, folder):
    with zipfile.ZipFile(path) as z:
        for entry in z.infolist():
            target = z.extract(entry, folder)
            mode = entry.external_attr >> 16
            if mode & 0o111:
                os.chmod(target, 0o755)


def write_sbom(info, name, files, pypi):
    folder = info / "sboms"
    folder.mkdir(exist_ok=True)
    (folder / "sluice.cdx.json").write_text(
        json.dumps(sbom.document(name, [str(f) for f in files], pypi), indent=1) +
        "\n")


def repair(options, folder, raw_name, excluded=()):
    """Has auditwheel repair what is in a folder.

    Returns the folder of the result, and the name of its wheel.
    """
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        raw = work / raw_name
        pack(folder, raw)
        excludes = [x for e in excluded for x in ("--exclude", e)]
        run(options.auditwheel, "repair", "-w", work / "out", *excludes, raw,
            env={**os.environ, "LD_LIBRARY_PATH": str(options.build / "lib")})
        repaired = next((work / "out").glob("*.whl"))
        result = folder.with_name(folder.name + "-repaired")
        shutil.rmtree(result, ignore_errors=True)
        unpack(repaired, result)
        # (auditwheel's own list names packages without their versions, and the
        # time at which it ran.)
        for made in result.glob("*.dist-info/sboms/auditwheel*"):
            made.unlink()
        return result, repaired.name


def without_icu_data(libs, work):
    """Replaces ICU's data by a library without any (packaging/wheel)."""
    for old in libs.glob("libicudata*"):
        version = re.search(r"\.so\.(\d+)", old.name)[1]
        soname = run("patchelf", "--print-soname", old).strip()
        new = work / "icudata.so"
        run("gcc", "-shared", "-fPIC", "-Os", "-s", f"-DICU_VERSION={version}",
            f"-Wl,-soname,{soname}", "-Wl,--build-id=none", "-o", new,
            ROOT / "packaging/wheel/icu_without_data.c")
        shutil.move(new, old)


def client_folder(build, folder, module):
    """Lays out the files of `sluice` for one module."""
    for name in tracked("python/sluice"):
        target = folder / pathlib.Path(name).relative_to("python")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
        os.chmod(target, 0o644)
    package = folder / "sluice"
    made = build / "python" / "sluice"
    for name in ("messages.pb", "raw_ops.pyi", "__init__.pyi"):
        shutil.copy(made / name, package / name)
    shutil.copytree(made / "_stubs", package / "_stubs",
                    ignore=shutil.ignore_patterns("__pycache__"))
    copy_binary(module, package / module.name, "$ORIGIN")
    copy_binary(made / "_test_ops.so", package / "_test_ops.so", "$ORIGIN")
    for name in ("libsluice.so.0", "libsluice_c.so.0"):
        copy_binary((build / "lib" / name).resolve(), package / name, "$ORIGIN")
    copy_binary(build / "bin" / "sluice", package / "bin" / "sluice",
                "$ORIGIN/..")
    headers = [(name, "compat") for name in tracked("compat/tensorflow")
               if name.endswith(".h")] + [("include/sluice/c_api.h", "include")]
    for name, within in headers:
        target = package / "include" / pathlib.Path(name).relative_to(within)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, target)
    (package / "cmake").mkdir()
    shutil.copy(ROOT / "packaging/wheel/SluiceConfig.cmake", package / "cmake")
    scripts = folder / f"sluice-{VERSION}.data" / "scripts"
    scripts.mkdir(parents=True)
    shutil.copy(ROOT / "packaging/wheel/sluice", scripts / "sluice")


def make_client(options, work, module):
    python = re.search(r"cpython-(\d)(\d+)", module.name)
    abi = f"cp{python[1]}{python[2]}"
    folder = work / abi
    client_folder(options.build, folder, module)
    info = dist_info(folder, "sluice", f"{abi}-{abi}-linux_x86_64", metadata(
        "sluice", PROJECT["description"], PROJECT["dependencies"],
        PROJECT["optional-dependencies"]))
    pypi = [f"pybind11=={options.pybind11}"] if options.pybind11 else []
    write_sbom(info, "sluice", [options.build / "lib" / "libsluice.so.0",
                                options.build / "lib" / "libsluice_c.so.0",
                                options.build / "bin" / "sluice"], pypi)
    repaired, name = repair(options, folder,
                            f"sluice-{VERSION}-{abi}-{abi}-linux_x86_64.whl")
    without_icu_data(repaired / "sluice.libs", work)
    pack(repaired, options.out / name)
    return repaired


def make_cluster(options, work, client):
    """`client`: the unpacked wheel beside which this one is installed."""
    folder = work / "cluster"
    package = folder / "sluice"
    own = "$ORIGIN:$ORIGIN/../sluice_cluster.libs:$ORIGIN/../sluice.libs"
    copy_binary((options.build / "lib/libsluice_cluster.so.0").resolve(),
                package / "libsluice_cluster.so.0", "$ORIGIN")
    files = [options.build / "lib" / "libsluice_cluster.so.0"]
    board = options.build / "lib/sluice/libsluice_board.so"
    if board.exists():
        copy_binary(board, package / "sluice" / board.name, "$ORIGIN/..")
        files.append(board)
    summary = "Clusters and the board of Sluice"
    info = dist_info(folder, "sluice-cluster", "py3-none-linux_x86_64", metadata(
        "sluice-cluster", summary, [f"sluice=={VERSION}"], {}))
    write_sbom(info, "sluice-cluster", files, [])
    repaired, name = repair(
        options, folder, f"sluice_cluster-{VERSION}-py3-none-linux_x86_64.whl",
        ["libsluice.so.0"])
    # What the client's wheel has already (under the same name, which contains a
    # digest of the file) is not there twice.
    libs = repaired / "sluice_cluster.libs"
    have = {f.name for f in (client / "sluice.libs").iterdir()}
    for file in libs.iterdir():
        if file.name in have:
            file.unlink()
        else:
            run("patchelf", "--set-rpath", "$ORIGIN:$ORIGIN/../sluice.libs", file)
    run("patchelf", "--set-rpath", own,
        repaired / "sluice" / "libsluice_cluster.so.0")
    for file in (repaired / "sluice" / "sluice").glob("*.so"):
        run("patchelf", "--set-rpath", "$ORIGIN/..:$ORIGIN/../../sluice_cluster.libs"
            ":$ORIGIN/../../sluice.libs", file)
    pack(repaired, options.out / name)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--auditwheel", default="auditwheel")
    parser.add_argument("--pybind11", default="")
    options = parser.parse_args()
    options.build = options.build.resolve()
    modules = sorted((options.build / "wheel_modules").glob("_core.*.so"))
    if not modules:
        sys.exit(f"make_wheels.py: expected modules in {options.build}"
                 "/wheel_modules (scripts/package wheel builds them), got none")
    options.out.mkdir(parents=True, exist_ok=True)
    for old in options.out.glob("sluice*.whl"):
        old.unlink()
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        for module in modules:
            client = make_client(options, work, module)
        make_cluster(options, work, client)
    for made in sorted(options.out.glob("*.whl")):
        print(f"{made.stat().st_size / 1e6:6.1f} MB  {made.name}")


if __name__ == "__main__":
    main()
