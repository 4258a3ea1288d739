#!/usr/bin/env python3
"""Runs the commands in the documentation with the program just built.

Every command of every `sh` block (tools/doc_blocks.py) is run in a folder that
has the files it names, unless NOT_RUN gives a reason not to. `sluice bench`
only lists its benchmarks; `sluice worker`, `sluice top` and `sluice board` are
stopped after their first output.

  tests/snippets/shell_test.py SLUICE      (the program)
"""

import contextlib
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
import urllib.request
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import doc_blocks  # noqa: E402

SLUICE = pathlib.Path()
SECONDS = 60  # Timeout of a command.

# Prefixes of commands that are not run, and why.
NOT_RUN = {
    "scripts/demo": "trains for minutes; tool_test runs its parts on less data",
    "scripts/test": "runs this test",
    "scripts/setup": "installs packages",
    "scripts/build": "builds into the folder that is being tested",
    "scripts/figure": "measures for minutes",
    "cmake --preset": "is how this build was made",
    "ninja": "is how this build was made",
    "cmake --install": "tests/package/run.cmake runs it",
    "build/dev/bin/exec_test": "is of a build that is not this one",
    "PYTHONPATH=build/release/python": "python/tests/test_examples.py runs it",
    "sluice demo": "trains for minutes; tool_test runs its parts on less data",
    "sluice worker --cluster 'etcd:": "needs etcd; src/cluster/membership/etcd_test.cc has one",
    "sluice launch hosts": "needs hosts; tool_test runs it with a stand-in for ssh",
    "srun": "needs Slurm; src/cluster/membership/cluster_environment_test.cc has its variables",
    "mpirun": "needs MPI; src/cluster/membership/cluster_environment_test.cc has its variables",
    "sluice worker --plain-beyond-loopback --cluster 'kubernetes":
        "needs Kubernetes; src/cluster/membership/cluster_environment_test.cc has its variables",
    "GOMP_SPINCOUNT=1000 ./my_program": "is a program of the reader's",
    "bench/checkpoint_peers.py": "needs TensorFlow",
    "bench/input_peers.py": "needs TensorFlow",
    "bench/replicas_peers.py": "needs TensorFlow",
    "bench/all_reduce_peers.py": "needs PyTorch",
    "bench/training_peers.py": "needs TensorFlow",
    "bench/net_peers.py": "needs PyTorch and TensorFlow",
    "bench/op_peers.py": "needs PyTorch and TensorFlow",
    "bench/structure_peers.py": "needs PyTorch",
    "bench/tree_peers.py": "needs PyTorch and DyNet",
    "build/release/bin/c_api_bench": "needs TensorFlow",
    "valgrind": "takes minutes",
}


def commands(text):
    """The commands of a block, without comments."""
    text = text.replace("\\\n", " ")
    for line in text.splitlines():
        line = re.sub(r"(^|\s)#.*$", "", line).strip()
        for command in line.split(" && "):
            if command:
                yield re.sub(r"\s+", " ", command)


def documented():
    """(Location, command), for all pages."""
    blocks, _ = doc_blocks.all_blocks(ROOT)
    for block in blocks:
        if block.language == "sh":
            for command in commands(block.text):
                yield f"{block.path}:{block.line}", command


def canonical(command):
    """The command with just the program's name: scripts/x is `sluice x`."""
    command = re.sub(r"^scripts/sluice\b", "sluice", command)
    return re.sub(r"^scripts/bench\b", "sluice bench", command)


def reason_not_to_run(command):
    for start, reason in NOT_RUN.items():
        if command == start or command.startswith(start + (
                "" if start.endswith(":") or start.endswith("kubernetes")
                else " ")):
            return reason
    return None


# ---- Files ------------------------------------------------------------------


def field(number, payload):
    """A length-delimited field of a protocol buffer."""
    payload = payload if isinstance(payload, bytes) else payload.encode()
    assert len(payload) < 2**14
    size = len(payload)
    head = bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])
    return bytes([number << 3 | 2]) + head + payload


def node(name, op, inputs=(), **attrs):
    """A NodeDef within a GraphDef."""
    text = field(1, name) + field(2, op)
    text += b"".join(field(3, i) for i in inputs)
    for key, value in attrs.items():
        text += field(5, field(1, key) + field(2, value))
    return field(1, text)


def graph_def():
    """y = x w + 0, where x has four columns and w is a 4 x 2 matrix."""
    of_float = bytes([6 << 3, 1])  # AttrValue.type = DT_FLOAT
    dims = b"".join(field(2, bytes([1 << 3, d])) for d in (4, 2))
    tensor = (bytes([1 << 3, 1]) + field(2, dims) +
              field(4, struct.pack("<8f", *range(8))))
    return (node("x", "Placeholder", dtype=of_float) +
            node("w", "Const", dtype=of_float, value=field(8, tensor)) +
            node("y", "MatMul", ["x", "w"], T=of_float))


def classifier():
    """scores = -image, for an image with two rows and columns."""
    of_float = bytes([6 << 3, 1])
    dims = b"".join(field(2, bytes([1 << 3, d])) for d in (1, 2, 2, 3))
    return (node("image", "Placeholder", dtype=of_float, shape=field(7, dims)) +
            node("scores", "Neg", ["image"], T=of_float))


def png(width, height, rgb):
    """A PNG file from rows of red, green and blue bytes."""
    def chunk(kind, data):
        return (struct.pack(">I", len(data)) + kind + data +
                struct.pack(">I", zlib.crc32(kind + data)))
    rows = b"".join(b"\0" + rgb[i * 3 * width:(i + 1) * 3 * width]
                    for i in range(height))
    return (b"\x89PNG\r\n\x1a\n" +
            chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def npy(shape, values):
    """A float32 array as numpy saves it."""
    head = (f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}"
            ).encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    return (b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head +
            struct.pack(f"<{len(values)}f", *values))


def write_files(folder):
    (folder / "graph.pb").write_bytes(graph_def())
    (folder / "classifier.pb").write_bytes(classifier())
    (folder / "cat.png").write_bytes(png(2, 2, bytes(range(12))))
    (folder / "x.npy").write_bytes(npy((1, 4), [1, 2, 3, 4]))
    (folder / "examples.npy").write_bytes(npy((8, 4), range(32)))
    (folder / "model").mkdir()
    for path in (ROOT / "tests/checkpoints").glob("types.*"):
        shutil.copy(path, folder / "model" / f"ckpt-100{path.suffix}")
    shutil.copytree(ROOT / "tests/saved_models/v1", folder / "saved_model")
    sockets = [socket.socket() for _ in range(4)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [f"127.0.0.1:{s.getsockname()[1]}" for s in sockets]
    for s in sockets:
        s.close()
    (folder / "cluster.json").write_text(
        json.dumps({"ps": ports[:2], "worker": ports[2:]}))
    described = [b.text for b in doc_blocks.all_blocks(ROOT)[0]
                 if b.language == "json" and '"name": "mnist"' in b.text]
    (folder / "mnist.json").write_text(*described)


# ---- Commands ---------------------------------------------------------------


@contextlib.contextmanager
def serving(folder, arguments, where):
    """Starts a server; returns where it listens, once it does.

    `where` is a pattern of the line that it prints, with a group for that.
    """
    with subprocess.Popen([SLUICE, *arguments], cwd=folder,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True) as process:
        # (Kills a server that neither serves nor ends, which ends the read.)
        timer = threading.Timer(SECONDS, process.kill)
        timer.start()
        try:
            line = process.stdout.readline()
            found = re.search(where, line)
            if found is None:
                raise AssertionError(
                    f"expected where the server listens, got "
                    f"{line + process.stdout.read()!r}")
            yield found[1]
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=SECONDS)
        finally:
            timer.cancel()
            process.kill()


def worker(folder, arguments):
    return serving(folder, arguments, r" at (grpc://\S+)")


def board(folder, arguments):
    """Starts a `sluice board` at a free port, and looks at its page."""
    with serving(folder, [*arguments, "--port", "0"],
                 r" at (http://\S+)") as address:
        with urllib.request.urlopen(address, timeout=SECONDS) as page:
            if b"Sluice board" not in page.read():
                raise AssertionError("expected the board's page")


def run(folder, arguments):
    done = subprocess.run([SLUICE, *arguments], cwd=folder, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=SECONDS)
    if done.returncode != 0 or not done.stdout:
        raise AssertionError(f"exit status {done.returncode}, "
                             f"{done.stdout + done.stderr!r}")
    return done.stdout


def run_documented(folder, command):
    program, *arguments = shlex.split(command)
    if program != "sluice":
        raise AssertionError("expected a command of sluice or a line of NOT_RUN")
    if arguments[0] == "worker":
        with worker(folder, arguments):
            return
    if arguments[0] == "top":
        serving = ["worker", "--cluster", "cluster.json", "--job", "ps"]
        with worker(folder, serving) as target:
            arguments = [target if a == "grpc://host:4440" else a
                         for a in arguments]
            run(folder, arguments + ["--once"])
            return
    if arguments[0] == "board":
        port = arguments.index("--port") if "--port" in arguments else None
        if port is not None:
            del arguments[port:port + 2]
        board(folder, arguments)
        return
    if arguments[0] == "bench":
        arguments.append("--list")
    arguments = [str(ROOT / "tests/cases/many_ops") if a == "DIR..." else a
                 for a in arguments]
    run(folder, arguments)


class Commands(unittest.TestCase):

    def test_each_command_runs_or_has_a_reason(self):
        ran = 0
        for where, written in documented():
            command = canonical(written)
            if reason_not_to_run(command) is not None:
                continue
            with self.subTest(f"{where}: {written}"), \
                    tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name)
                write_files(folder)
                run_documented(folder, command)
                ran += 1
        self.assertGreater(ran, 15)

    def test_listed_commands_are_documented(self):
        shown = [canonical(command) for _, command in documented()]
        for start, reason in NOT_RUN.items():
            with self.subTest(start):
                self.assertIn(reason, [reason_not_to_run(c) for c in shown])
                self.assertTrue(any(c.startswith(start) for c in shown))

    def test_documented_scripts_exist(self):
        for where, command in documented():
            script = command.split()[0]
            if script.startswith(("scripts/", "bench/")):
                with self.subTest(f"{where}: {command}"):
                    self.assertTrue(os.access(ROOT / script, os.X_OK))

    def test_first_step_prints_expected_output(self):
        with tempfile.TemporaryDirectory() as name:
            write_files(pathlib.Path(name))
            out = run(name, ["run", "graph.pb", "--feed", "x=x.npy", "--fetch",
                             "y"])
            self.assertIn("40 50", out)  # [1 2 3 4] [[0 1] [2 3] [4 5] [6 7]]


if __name__ == "__main__":
    SLUICE = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
