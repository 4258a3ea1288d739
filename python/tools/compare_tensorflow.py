"""Runs graphs of Sluice's Python client in TensorFlow, and vice versa.

    export PYTHONPATH=build/release/python
    python3 python/tools/compare_tensorflow.py --tensorflow PYTHON [PROGRAM...]

PYTHON is an interpreter with tensorflow. Both build each program of
graph_programs.py and flow_programs.py, TensorFlow with control flow of version
1 and of version 2. Each graph is stored as a MetaGraphDef and run by both. If
TensorFlow cannot build a program (tf.layers and cells without the package
tf_keras, second derivatives of version 1 loops), only Sluice's graph is run.
The exit status is 1 if any value differs.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
# Both modules add to PROGRAMS.
import flow_programs  # noqa: F401
import graph_programs  # noqa: F401
from program_kit import PROGRAMS

_RTOL, _ATOL = 2e-4, 2e-5


def _store(path, values):
    values = [np.asarray(v) for v in values]
    np.savez(path, *[v.astype("S") if v.dtype.kind in "OU" else v
                     for v in values])


def _load(path):
    with np.load(path) as arrays:
        return [arrays[f"arr_{i}"] for i in range(len(arrays.files))]


def _steps(tf, session, about, feeds):
    session.run(about["init"])
    if about["set_weights"]:
        session.run("set_weights")
    return session.run(about["fetches"], feeds)


def build(tf, name, folder):
    """Builds a program; stores its graph and its values here."""
    with tf.Graph().as_default() as graph:
        fetches, feeds = PROGRAMS[name](tf)
        init = tf.global_variables_initializer()
        names = [op.name for op in graph.get_operations()]
        about = {"fetches": [tf.convert_to_tensor(f).name for f in fetches],
                 "init": init.name, "set_weights": "set_weights" in names,
                 "feeds": [key.name for key in feeds]}
        _store(f"{folder}/{name}.feeds.npz", feeds.values())
        tf.train.export_meta_graph(f"{folder}/{name}.meta")
        with open(f"{folder}/{name}.json", "w", encoding="utf-8") as f:
            json.dump(about, f)
        with tf.Session(graph=graph) as session:
            _store(f"{folder}/{name}.npz", _steps(tf, session, about, {
                key.name: value for key, value in feeds.items()}))


def run_other(tf, name, folder, result):
    """Runs a stored graph; stores its values here."""
    with open(f"{folder}/{name}.json", encoding="utf-8") as f:
        about = json.load(f)
    values = dict(zip(about["feeds"], _load(f"{folder}/{name}.feeds.npz")))
    with tf.Graph().as_default() as graph:
        tf.train.import_meta_graph(f"{folder}/{name}.meta")
        with tf.Session(graph=graph) as session:
            _store(f"{result}/{name}.npz", _steps(tf, session, about, values))


def _each(fn, names, folder):
    """Calls fn for each program and stores its errors."""
    for name in names:
        try:
            fn(name)
        except Exception as e:
            with open(f"{folder}/{name}.error", "w", encoding="utf-8") as f:
                f.write(f"{type(e).__name__}: {str(e)[:600]}")


def _tensorflow(work, names):
    """Runs in the other interpreter."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow.compat.v1 as tf
    tf.disable_v2_behavior()
    tf.logging.set_verbosity(tf.logging.ERROR)
    for version in ("v1", "v2"):
        (tf.enable_control_flow_v2 if version == "v2"
         else tf.disable_control_flow_v2)()
        own = f"{work}/tensorflow_{version}"
        _each(lambda name, own=own: build(tf, name, own), names, own)
    tf.disable_control_flow_v2()
    other = f"{work}/sluice_by_tensorflow"
    _each(lambda name: run_other(tf, name, f"{work}/sluice", other), names,
          other)


def _difference(got, want):
    if got.shape != want.shape or got.dtype.kind != want.dtype.kind:
        return f"expected {want.dtype}{want.shape}, got {got.dtype}{got.shape}"
    if want.dtype.kind in "fc":
        if np.allclose(got, want, _RTOL, _ATOL, equal_nan=True):
            return ""
    elif np.array_equal(got, want):
        return ""
    return f"expected {want.reshape(-1)[:4]}, got {got.reshape(-1)[:4]}"


def _error(work, name, folder):
    path = f"{work}/{folder}/{name}.error"
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as f:
        return f"{folder}: {f.read()}"


def _compare(work, name, folder, against):
    """Describes the differences between two folders for a program."""
    error = _error(work, name, folder)
    if error:
        return [error]
    got, want = (_load(f"{work}/{one}/{name}.npz")
                 for one in (folder, against))
    if len(got) != len(want):
        return [f"{folder}: expected {len(want)} values, got {len(got)}"]
    return [f"{folder}: value {i}: {line}" for i, line in enumerate(
        _difference(g, w) for g, w in zip(got, want)) if line]


def main():
    """Compares the given programs, or all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tensorflow", required=True)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("programs", nargs="*")
    args = parser.parse_args()
    names = args.programs or list(PROGRAMS)
    if args.work:
        _tensorflow(args.work, names)
        return 0
    import sluice.compat.v1 as tf
    with tempfile.TemporaryDirectory() as work:
        for folder in ("sluice", "tensorflow_v1", "tensorflow_v2",
                       "sluice_by_tensorflow", "tensorflow_v1_by_sluice",
                       "tensorflow_v2_by_sluice"):
            os.mkdir(f"{work}/{folder}")
        own = f"{work}/sluice"
        _each(lambda name: build(tf, name, own), names, own)
        subprocess.run(
            [args.tensorflow, __file__, "--tensorflow", "", "--work", work,
             *names], check=True,
            env={**os.environ, "PYTHONPATH": "", "TF_USE_LEGACY_KERAS": "1",
                 "TF_ENABLE_ONEDNN_OPTS": "0"})
        for version in ("v1", "v2"):
            made = f"{work}/tensorflow_{version}"
            _each(lambda name, made=made: run_other(
                tf, name, made, f"{made}_by_sluice"), names,
                  f"{made}_by_sluice")
        wrong = compared = 0
        for name in names:
            bad = _compare(work, name, "sluice", "sluice")
            for folder, against in (
                    ("sluice_by_tensorflow", "sluice"),
                    ("sluice", "tensorflow_v1"),
                    ("tensorflow_v1_by_sluice", "tensorflow_v1"),
                    ("tensorflow_v2_by_sluice", "tensorflow_v2")):
                unbuilt = _error(work, name, against)
                if unbuilt:
                    print(f"{name}: not compared: {unbuilt[:120]}")
                elif not bad:
                    compared += 1
                    bad = _compare(work, name, folder, against)
            wrong += bool(bad)
            for line in bad:
                print(f"{name}: {line}")
        print(f"{len(names) - wrong} of {len(names)} programs alike, "
              f"{compared} runs compared")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
