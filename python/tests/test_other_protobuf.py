"""A process with the libraries of TensorFlow and another protobuf."""

import os
import shutil
import subprocess
import sys

import pytest

import sluice

_PROGRAM = """
import ctypes, os, sys, types
ctypes.CDLL(sys.argv[1], mode=os.RTLD_NOW | os.RTLD_GLOBAL)
sys.modules["tensorflow"] = types.ModuleType("tensorflow")
import sluice as sl
y = sl.constant(1.0) + 2.0
assert len(y.graph.as_graph_def().node) == 3
with sl.Session() as session:
    print(session.run(y))
"""


def _symbols(library):
    """Yields the functions that a library exports."""
    listed = subprocess.run(["nm", "-D", "--defined-only", library],
                            capture_output=True, text=True, check=True)
    for line in listed.stdout.splitlines():
        words = line.split()
        if len(words) == 3 and words[1] == "T":
            yield words[2].partition("@")[0]


@pytest.mark.skipif(shutil.which("cc") is None or shutil.which("nm") is None,
                    reason="expected a compiler and nm, got none")
def test_the_library_uses_its_own_protobuf_after_tensorflow(tmp_path):
    with open("/proc/self/maps", encoding="utf-8") as maps:
        own = {line.split()[-1] for line in maps if "/libprotobuf.so" in line}
    if not own:
        pytest.skip("expected protobuf as a shared library, got none")
    source = tmp_path / "other.s"
    # Every function of this library crashes.
    source.write_text(".text\n" + "".join(
        f".globl {name}\n.type {name}, @function\n{name}:\n.cfi_startproc\nud2\n.cfi_endproc\n"
        for name in _symbols(own.pop()) if "protobuf" in name))
    other = tmp_path / "libother.so"
    subprocess.run(["cc", "-shared", "-o", str(other), str(source)], check=True)
    package = os.path.dirname(os.path.dirname(sluice.__file__))
    ran = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(other)], capture_output=True,
        text=True,
        # The compiled implementation of protobuf would call libprotobuf.
        env=dict(os.environ, PYTHONPATH=package,
                 PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION="python"))
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "3.0\n"
