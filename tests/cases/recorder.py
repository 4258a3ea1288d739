"""Records a case: a graph built by TensorFlow, and its results.

A case is a folder that `sluice replay` runs:
  graph.pb      the GraphDef
  feeds.npz     input arrays
  expected.npz  output arrays
  meta.json     the steps: targets, feeds and expected results, as keys of arrays

A builder adds to the default graph and passes its steps to a Recorder; save()
then runs them in one session and writes the folder. Needs TensorFlow 2.x.
"""

import json
import os
import shutil
import tempfile
import zlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import numpy as np
import tensorflow as tf_root
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.disable_control_flow_v2()

# Relative and absolute tolerance by dtype: several times the differences among
# TensorFlow's own kernels.
TOLERANCES = {
    "float16": (4e-3, 2e-3),
    "bfloat16": (2e-2, 1e-2),
    "float32": (2e-5, 2e-6),
    "float64": (1e-7, 1e-9),
    "complex64": (2e-5, 2e-6),
    "complex128": (1e-7, 1e-9),
}


CASES = {}  # (build, tags) by name, in the order in which they register.


def case(tags):
    """Registers a function that builds a case with a Recorder."""
    def register(build):
        CASES[build.__name__] = (build, tags)
        return build
    return register


class Arrays:
    """The entries of one .npz file, without duplicates."""

    def __init__(self, prefix):
        self.prefix = prefix
        self.entries = {}
        self.known = {}

    def add(self, value):
        """Stores `value`; returns its description for meta.json."""
        value = np.asarray(value)
        is_string = value.dtype.kind in "OSU"
        identity = (str(value.dtype), value.shape,
                    repr(value.tolist()) if is_string else value.tobytes())
        if identity in self.known:
            return dict(self.known[identity])
        key = f"{self.prefix}{len(self.known)}"
        if is_string:
            parts = [s if isinstance(s, bytes) else str(s).encode()
                     for s in value.reshape(-1)]
            self.entries[key + "__bytes"] = np.frombuffer(b"".join(parts),
                                                          np.uint8)
            self.entries[key + "__lens"] = np.array([len(s) for s in parts],
                                                    np.int64)
            dtype = "string"
        else:
            dtype = value.dtype.name
            self.entries[key] = (value.view(np.uint16)
                                 if dtype == "bfloat16" else value)
        self.known[identity] = {"key": key, "dtype": dtype,
                                "shape": list(value.shape)}
        return dict(self.known[identity])


class TmpPath(str):
    """The name of a file in a folder that each run of the case makes."""


class Recorder:
    """The interface of a builder: inputs, random values, steps."""

    def __init__(self, name, tags):
        self.name = name
        self.tags = tags.split()
        self.random = np.random.RandomState(zlib.crc32(name.encode()))
        self.always = {}  # Placeholders that every step feeds.
        self.steps = []

    def values(self, *shape, low=-1.0, high=1.0, dtype=np.float32):
        return self.random.uniform(low, high, size=shape).astype(dtype)

    def indices(self, limit, *shape, dtype=np.int32):
        return self.random.randint(0, limit, size=shape).astype(dtype)

    def input(self, name, value, shape=None):
        """A placeholder that every step feeds with `value` by default."""
        value = np.asarray(value)
        node = tf.placeholder(tf.as_dtype(value.dtype),
                              list(value.shape) if shape is None else shape,
                              name=name)
        self.always[node.name] = value
        return node

    def tmp(self, name):
        """A placeholder of the path of a file that the case itself writes.

        Steps that need it feed it: {file: TmpPath(name)}.
        """
        return tf.placeholder(tf.string, [], name=name)

    def make(self, fetches, feeds=None, error=None, default=True):
        if not isinstance(fetches, (list, tuple)):
            fetches = [fetches]
        names = []
        for f in fetches:
            if isinstance(f, tf.IndexedSlices):
                names += [f.values.name, f.indices.name]
            else:
                names.append(f if isinstance(f, str) else f.name)
        fed = dict(self.always) if default else {}
        for key, value in (feeds or {}).items():
            fed[key if isinstance(key, str) else key.name] = value
        return {"run": names, "feeds": fed, "error": error}

    def step(self, fetches, feeds=None, error=None, default=True):
        """Runs `fetches` (tensors, operations or names)."""
        self.steps.append(("run", [self.make(fetches, feeds, error, default)]))

    def init(self):
        self.step([tf.global_variables_initializer()], default=False)

    def partial(self, fetches, feeds, *stages):
        """A partial run; stages are (fetches, feeds)."""
        setup = {"fetches": [f.name for f in fetches],
                 "feeds": [f.name for f in feeds]}
        self.steps.append(("partial", [self.make(f, v, default=False)
                                       for f, v in stages], setup))


def _run(call):
    try:
        return call()
    except tf.errors.OpError as e:
        return e


def _describe(step, result, feeds, expected):
    out = {"run": step["run"],
           "feeds": {k: {"$tmp": v} if isinstance(v, TmpPath) else feeds.add(v)
                     for k, v in step["feeds"].items()}}
    if isinstance(result, Exception):
        if type(result).__name__ != step["error"]:
            raise result
        out["error"] = step["error"]
        out["expect"] = []
        return out
    if step["error"]:
        raise ValueError(f"{step['run']}: expected {step['error']}, got none")
    out["expect"] = []
    for value in result:
        if value is None:
            out["expect"].append(None)
            continue
        desc = expected.add(value)
        if desc["dtype"] in TOLERANCES:
            desc["rtol"], desc["atol"] = TOLERANCES[desc["dtype"]]
        out["expect"].append(desc)
    return out


def save(recorder, graph, folder):
    """Runs the steps on the serialised graph and writes the case."""
    graph_def = graph.as_graph_def()
    feeds, expected, steps = Arrays("f"), Arrays("e"), []
    # "/device:CPU:1" needs two devices.
    devices = max([1] + [int(n.device.rsplit(":", 1)[1]) + 1
                         for n in graph_def.node if n.device])
    config = tf.ConfigProto(intra_op_parallelism_threads=1,
                            inter_op_parallelism_threads=1,
                            device_count={"CPU": devices})
    again = tf.Graph()
    with again.as_default():
        tf.import_graph_def(graph_def, name="")
    with tempfile.TemporaryDirectory() as files, \
            tf.Session(graph=again, config=config) as session:
        def fed(step):
            return {k: os.path.join(files, v) if isinstance(v, TmpPath) else v
                    for k, v in step["feeds"].items()}
        for step in recorder.steps:
            subs = step[1]
            if step[0] == "partial":
                setup = step[2]
                handle = session.partial_run_setup(setup["fetches"],
                                                   setup["feeds"])
                results = [_run(lambda s=s: session.partial_run(
                    handle, s["run"], fed(s))) for s in subs]
                steps.append({"partial": [
                    _describe(s, r, feeds, expected)
                    for s, r in zip(subs, results)], "setup": setup})
            else:
                result = _run(lambda: session.run(subs[0]["run"],
                                                  fed(subs[0])))
                steps.append(_describe(subs[0], result, feeds, expected))
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    scratch = tempfile.mkdtemp(dir=os.path.dirname(folder))
    with open(os.path.join(scratch, "graph.pb"), "wb") as f:
        f.write(graph_def.SerializeToString(deterministic=True))
    np.savez_compressed(os.path.join(scratch, "feeds.npz"), **feeds.entries)
    np.savez_compressed(os.path.join(scratch, "expected.npz"),
                        **expected.entries)
    meta = {"name": recorder.name, "tags": recorder.tags, "optional": False,
            "tf_version": tf_root.__version__, "devices": devices,
            "ops": sorted({n.op for n in graph_def.node}), "steps": steps}
    with open(os.path.join(scratch, "meta.json"), "w") as f:
        json.dump(meta, f, indent=1)
        f.write("\n")
    os.chmod(scratch, 0o755)
    shutil.rmtree(folder, ignore_errors=True)
    os.rename(scratch, folder)
    return len(graph_def.node), len(steps)
