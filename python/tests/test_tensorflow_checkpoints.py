"""Checkpoints go both ways between Sluice and an installed TensorFlow."""

import functools
import os
import subprocess
import sys

import numpy as np
import pytest

import sluice.compat.v1 as tf

# Runs in TensorFlow's Python. What either side writes has these tensors.
COMMON = r"""
import numpy as np
def tensors(bfloat16):
    counted = np.arange(1, 7).reshape(2, 3)
    out = {t: counted.astype(t) for t in (
        "float32", "float64", "int32", "uint8", "int16", "int8", "int64", "uint16",
        "float16", "uint32", "uint64")}
    out["complex64"] = (counted - 1j * counted).astype("complex64")
    out["complex128"] = counted - 1j * counted
    out["bfloat16"] = counted.astype(bfloat16)
    out["bool"] = np.array([True, False, True])
    out["scalar"] = np.array(7, "int64")
    out["empty"] = np.zeros([0, 3], "float32")
    out["strings"] = np.array([[b"", b"two\0parts"], [b"x" * 300, b"\xff"]], object)
    return out
"""

PEER = COMMON + r"""
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import tensorflow as tf
raw = tf.raw_ops
task, folder = sys.argv[1:]
want = tensors(tf.bfloat16.as_numpy_dtype)
whole = np.arange(20, dtype="float32").reshape(5, 4)
if task == "write":
    values = [tf.constant(v.tolist() if v.dtype == object else v) for v in want.values()]
    raw.SaveV2(prefix=folder + "/m", tensor_names=list(want),
               shape_and_slices=[""] * len(want), tensors=values)
    raw.SaveV2(prefix=folder + "/p", tensor_names=["w", "w"],
               shape_and_slices=["5 4 0,2:-", "5 4 2,3:-"], tensors=[whole[:2], whole[2:]])
    old = [n for n in want if n not in ("bfloat16", "uint16", "uint32", "uint64")]
    raw.Save(filename=folder + "/old", tensor_names=old,
             data=[values[list(want).index(n)] for n in old])
else:
    reader = tf.train.load_checkpoint(folder + "/m")
    old = tf.train.load_checkpoint(folder + "/old").get_variable_to_dtype_map()
    assert len(old) == len(want) - 4
    for n, value in want.items():
        got = reader.get_tensor(n)
        assert got.dtype == value.dtype or got.dtype == object, (n, got.dtype)
        np.testing.assert_array_equal(got, value, err_msg=n)
        if n in old:  # (Its reader of version 1 lacks some types, the op has them.)
            got = raw.Restore(file_pattern=folder + "/old", tensor_name=n, dt=old[n])
            np.testing.assert_array_equal(got, value, err_msg="old " + n)
    assert len(tf.train.load_checkpoint(folder + "/m").get_variable_to_shape_map()) == len(want)
    np.testing.assert_array_equal(tf.train.load_checkpoint(folder + "/p").get_tensor("w"), whole)
    part = raw.RestoreV2(prefix=folder + "/p", tensor_names=["w"],
                         shape_and_slices=["5 4 1,3:0,2"], dtypes=[tf.float32])[0]
    np.testing.assert_array_equal(part, whole[1:4, 0:2])
"""


@functools.lru_cache(None)
def peer_python():
    """A Python that has TensorFlow: SLUICE_PEERS_PYTHON, or this one."""
    for python in (os.environ.get("SLUICE_PEERS_PYTHON"), sys.executable):
        if python and os.path.exists(python) and subprocess.run(
                [python, "-c", "import importlib.util, sys;"
                 "sys.exit(importlib.util.find_spec('tensorflow') is None)"],
                check=False, env=dict(os.environ, PYTHONPATH="")).returncode == 0:
            return python
    return None


def run_peer(task, folder):
    if peer_python() is None:
        pytest.skip("needs TensorFlow, in the environment whose Python "
                    "SLUICE_PEERS_PYTHON names")
    done = subprocess.run([peer_python(), "-c", PEER, task, str(folder)], text=True,
                          capture_output=True, check=False,
                          env=dict(os.environ, PYTHONPATH=""))
    assert done.returncode == 0, done.stderr[-3000:]


def want():
    space = {}
    exec(COMMON, space)  # pylint: disable=exec-used
    return space["tensors"](tf.bfloat16.as_numpy_dtype)


def constant(name, value):
    if name == "bfloat16":  # (NumPy alone has no such type.)
        return tf.cast(tf.constant(value.astype("float32")), tf.bfloat16)
    return tf.constant(value.tolist() if value.dtype == object else value)


def restore(path, name, dtype, part=""):
    value, = tf.raw_ops.RestoreV2(prefix=path, tensor_names=[name],
                                  shape_and_slices=[part], dtypes=[dtype])
    if dtype == tf.bfloat16:
        value = tf.cast(value, tf.float32)
    with tf.Session() as session:
        return session.run(value)


def test_sluice_reads_what_tensorflow_writes(tmp_path):
    run_peer("write", tmp_path)
    for file in ("m", "old"):
        for name, value in want().items():
            if file == "old" and name in ("bfloat16", "uint16", "uint32", "uint64"):
                continue
            dtype = tf.string if name == "strings" else tf.as_dtype(
                name if name == "bfloat16" else value.dtype)
            got = restore(f"{tmp_path}/{file}", name, dtype)
            np.testing.assert_array_equal(got, value, err_msg=f"{file} {name}")
    whole = np.arange(20, dtype="float32").reshape(5, 4)
    got = restore(f"{tmp_path}/p", "w", tf.float32, "5 4 1,3:0,2")
    np.testing.assert_array_equal(got, whole[1:4, 0:2])


def test_tensorflow_reads_what_sluice_writes(tmp_path):
    values = want()
    constants = [constant(n, v) for n, v in values.items()]
    old = [n for n in values if n not in ("bfloat16", "uint16", "uint32", "uint64")]
    whole = np.arange(20, dtype="float32").reshape(5, 4)
    with tf.Session() as session:
        session.run([
            tf.raw_ops.SaveV2(prefix=f"{tmp_path}/m", tensor_names=list(values),
                              shape_and_slices=[""] * len(values), tensors=constants),
            tf.raw_ops.SaveV2(prefix=f"{tmp_path}/p", tensor_names=["w", "w"],
                              shape_and_slices=["5 4 0,2:-", "5 4 2,3:-"],
                              tensors=[tf.constant(whole[:2]), tf.constant(whole[2:])]),
            tf.raw_ops.Save(filename=f"{tmp_path}/old", tensor_names=old,
                            data=[constants[list(values).index(n)] for n in old])])
    run_peer("read", tmp_path)
