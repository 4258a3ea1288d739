"""Replays recorded cases through the Python client.

    PYTHONPATH=build/release/python python3 python/tools/replay_cases.py DIR...

A case is a folder with graph.pb, meta.json, feeds.npz and expected.npz, as made
by tests/cases/record.py (`sluice replay` replays the same in C++). DIR is a
case or a folder of cases. The exit status is 1 if any case differs.
"""

import json
import os
import shutil
import sys
import tempfile
import threading

import numpy as np

import sluice.compat.v1 as tf

# The delay between the starts of concurrent steps.
_STAGGER_S = 0.3


def find_cases(folder):
    """Returns the cases in a folder, or the folder if it is a case."""
    if os.path.exists(os.path.join(folder, "meta.json")):
        return [folder]
    return sorted(
        os.path.join(folder, name) for name in os.listdir(folder)
        if os.path.exists(os.path.join(folder, name, "meta.json")))


def _array(arrays, desc):
    """Converts a described array to its numpy type."""
    key, shape = desc["key"], desc["shape"]
    if desc["dtype"] == "string":
        data = arrays[key + "__bytes"].tobytes()
        ends = np.cumsum(arrays[key + "__lens"])
        items = [data[b:e] for b, e in zip([0, *ends], ends)]
        made = np.empty(len(items), object)
        made[:] = items
        return made.reshape(shape)
    array = arrays[key].reshape(shape)
    if desc["dtype"] == "bfloat16":  # Represented as float32 in numpy.
        return (array.astype(np.uint32) << 16).view(np.float32)
    return array


def _difference(desc, got, want):
    """Returns "" if a value is as recorded, else the difference."""
    got = np.asarray(got)
    if list(got.shape) != list(desc["shape"]):
        return f"expected shape {desc['shape']}, got {got.shape}"
    if desc["dtype"] == "string":
        same = got.reshape(-1).tolist() == want.reshape(-1).tolist()
        return "" if same else f"expected {want}, got {got}"
    if got.dtype != want.dtype:
        return f"expected {want.dtype}, got {got.dtype}"
    if "rtol" not in desc:
        return "" if np.array_equal(got, want) else (
            f"expected {want.reshape(-1)[:6]}, got {got.reshape(-1)[:6]}")
    wide = complex if got.dtype.kind == "c" else float
    got, want = got.astype(wide), want.astype(wide)
    odd = ~np.isfinite(want)
    if not np.array_equal(got[odd], want[odd], equal_nan=True):
        return "infinities or NaNs differ"
    got, want = got[~odd], want[~odd]
    if not want.size:
        return ""
    size = np.abs(want)
    allowed = desc["atol"] + desc["rtol"] * np.maximum(size, 0.1 * size.max())
    over = (np.abs(got - want) / allowed).max()
    return "" if over <= 1 else f"{over:.3g} times the tolerance"


class _Replay:
    """A case in its own session."""

    def __init__(self, folder, scratch):
        self._folder, self._scratch = folder, scratch
        with open(os.path.join(folder, "meta.json"), encoding="utf-8") as f:
            self._meta = json.load(f)
        self._feeds = np.load(os.path.join(folder, "feeds.npz"))
        self._expected = np.load(os.path.join(folder, "expected.npz"))

    def run(self):
        """Runs the case; returns the differences."""
        with open(os.path.join(self._folder, "graph.pb"), "rb") as f:
            definition = tf.GraphDef.FromString(f.read())
        config = tf.ConfigProto(device_count={"CPU": self._meta["devices"]},
                                allow_soft_placement=True)
        bad = []
        with tf.Graph().as_default() as graph:
            tf.import_graph_def(definition, name="")
            with tf.Session(graph=graph, config=config) as session:
                for i, step in enumerate(self._meta["steps"]):
                    bad += [f"step {i}: {line}"
                            for line in self._step(session, step)]
        return bad

    def _step(self, session, step):
        if "parallel" in step:
            return self._parallel(session, step["parallel"])
        if "partial" not in step:
            return self._check(step, self._outcome(session.run, step))
        handle = session.partial_run_setup(step["setup"]["fetches"],
                                           step["setup"]["feeds"])
        bad = []
        for stage in step["partial"]:
            bad += self._check(stage, self._outcome(
                lambda run, feeds: session.partial_run(handle, run, feeds),
                stage))
        return bad

    def _parallel(self, session, steps):
        outcomes = [None] * len(steps)

        def work(i):
            outcomes[i] = self._outcome(session.run, steps[i])

        threads = [threading.Thread(target=work, args=[i])
                   for i in range(len(steps))]
        for thread in threads:
            thread.start()
            thread.join(_STAGGER_S)
        for thread in threads:
            thread.join()
        return [line for step, outcome in zip(steps, outcomes)
                for line in self._check(step, outcome)]

    def _outcome(self, run, step):
        """Returns the values of a step, or its error."""
        more = {}
        if "timeout_ms" in step:
            more["options"] = tf.RunOptions(timeout_in_ms=step["timeout_ms"])
        feeds = {name: self._value(v) for name, v in step["feeds"].items()}
        try:
            return run(step["run"], feeds, **more)
        except tf.errors.OpError as e:
            return e

    def _value(self, value):
        if "$tmp" in value:
            path = os.path.join(self._scratch, value["$tmp"])
            os.makedirs(os.path.dirname(path), exist_ok=True)
            return path
        if "$case" in value:
            return os.path.join(self._folder, value["$case"])
        return _array(self._feeds, value)

    def _check(self, step, outcome):
        error = type(outcome).__name__ if isinstance(
            outcome, Exception) else None
        if error != step.get("error"):
            return [f"expected {step.get('error', 'values')}, got "
                    f"{outcome if error else 'values'}"]
        if error:
            return []
        lines = []
        for name, got, desc in zip(step["run"], outcome, step["expect"]):
            if desc is not None:
                line = _difference(desc, got, _array(self._expected, desc))
                lines += [f"{name}: {line}"] if line else []
        return lines


def replay(folder):
    """Returns the list of differences in a case."""
    scratch = tempfile.mkdtemp(prefix="replay")
    try:
        return _Replay(folder, scratch).run()
    finally:
        shutil.rmtree(scratch)


def main(folders):
    """Replays the cases of all folders."""
    cases = [case for folder in folders for case in find_cases(folder)]
    wrong = 0
    for case in cases:
        try:
            bad = replay(case)
        except Exception as e:
            bad = [f"{type(e).__name__}: {e}"]
        wrong += bool(bad)
        for line in bad[:4]:
            print(f"{os.path.basename(case)}: {line}")
    print(f"{len(cases) - wrong} of {len(cases)} cases as recorded")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
