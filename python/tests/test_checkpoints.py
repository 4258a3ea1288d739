"""Lists of checkpoints, and signatures of saved models."""

import os
import subprocess
import sys

import pytest

import sluice
import sluice.compat.v1 as tf


def test_checkpoint_state_names_latest_checkpoint(tmp_path):
    folder = str(tmp_path)
    assert tf.train.latest_checkpoint(folder) is None
    assert tf.train.get_checkpoint_state(folder) is None
    paths = [os.path.join(folder, f"model-{n}") for n in (1, 2)]
    tf.train.update_checkpoint_state(folder, paths[1], list(paths))
    state = tf.train.get_checkpoint_state(folder)
    assert state.model_checkpoint_path == paths[1]
    assert state.all_model_checkpoint_paths == paths
    assert os.listdir(folder) == ["checkpoint"]
    assert tf.train.latest_checkpoint(folder) is None  # There are no files.
    (tmp_path / "model-2.index").touch()
    (tmp_path / "model-2.data-00000-of-00001").touch()
    assert tf.train.latest_checkpoint(folder) == paths[1]
    assert tf.train.checkpoint_exists(paths[1])
    assert not tf.train.checkpoint_exists(paths[0])
    mtime, = tf.train.get_checkpoint_mtimes(paths)
    assert mtime == pytest.approx(
        os.stat(paths[1] + ".index").st_mtime, abs=1e-3)
    tf.train.remove_checkpoint(paths[1])
    assert os.listdir(folder) == ["checkpoint"]


def test_checkpoint_paths_are_relative_to_folder(
        tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkdir("logs")
    tf.train.update_checkpoint_state("logs", "logs/m-7",
                                     latest_filename="latest")
    with open("logs/latest", encoding="utf-8") as f:
        assert 'model_checkpoint_path: "m-7"' in f.read()
    state = tf.train.get_checkpoint_state("logs", "latest")
    assert state.model_checkpoint_path == "logs/m-7"
    given = ["/a/m-1"]
    state = tf.train.generate_checkpoint_state_proto("/a", "/a/m-2", given)
    assert state.all_model_checkpoint_paths == ["/a/m-1", "/a/m-2"]
    assert given == ["/a/m-1"]
    with pytest.raises(ValueError, match="timestamps"):
        tf.train.generate_checkpoint_state_proto("a", "a/m", ["a/m"], [1.0, 2])
    with pytest.raises(RuntimeError, match="conflicts"):
        tf.train.update_checkpoint_state("/a", "/a/checkpoint")


def test_unreadable_state_is_none(tmp_path):
    (tmp_path / "checkpoint").write_text("{ what")
    assert tf.train.get_checkpoint_state(tmp_path) is None
    (tmp_path / "checkpoint").write_text("")
    with pytest.raises(ValueError, match="Invalid checkpoint state"):
        tf.train.get_checkpoint_state(tmp_path)


def test_a_signature_names_tensors():
    saved = tf.saved_model
    x = tf.placeholder(tf.float32, [None, 2], name="x")
    words = tf.placeholder(tf.string, [None], name="words")
    s = tf.sparse_placeholder(tf.int32, [3, 4], name="s")
    signature = saved.build_signature_def(
        {"x": saved.build_tensor_info(x), "s": saved.build_tensor_info(s)},
        method_name="m")
    assert signature.inputs["x"].name == "x:0"
    assert signature.inputs["x"].dtype == tf.float32
    assert [d.size for d in signature.inputs["x"].tensor_shape.dim] == [-1, 2]
    find = saved.utils.get_tensor_from_tensor_info
    assert find(signature.inputs["x"]) is x
    assert find(signature.inputs["s"]).values is s.values
    assert not saved.is_valid_signature(signature)
    assert saved.is_valid_signature(
        saved.signature_def_utils.predict_signature_def({"x": x}, {"y": x}))
    assert saved.is_valid_signature(
        saved.regression_signature_def(words, x))
    both = saved.classification_signature_def(words, words, x)
    assert saved.is_valid_signature(both)
    assert sorted(both.outputs) == ["classes", "scores"]
    both.outputs["other"].CopyFrom(both.outputs["scores"])
    assert not saved.is_valid_signature(both)
    with pytest.raises(ValueError, match="type string, got float32"):
        saved.regression_signature_def(x, x)
    with pytest.raises(ValueError, match="outputs cannot be None or empty"):
        saved.predict_signature_def({"x": x}, {})
    with pytest.raises(ValueError, match="cannot both be None"):
        saved.classification_signature_def(words, None, None)


def test_saved_model_folder_is_recognized(tmp_path):
    assert not tf.saved_model.contains_saved_model(str(tmp_path))
    (tmp_path / "saved_model.pb").touch()
    assert tf.saved_model.contains_saved_model(str(tmp_path))


def test_missing_modules_may_be_imported_until_used(
        tmp_path):
    program = tmp_path / "program.py"
    program.write_text("""
import tensorflow as tf
import tensorflow.contrib.learn as learn
from tensorflow import data, estimator, keras, summary
from tensorflow.core.example import example_pb2
from tensorflow.core.framework import summary_pb2
from tensorflow.keras import layers
from tensorflow.python.saved_model import signature_constants
from tensorflow.python.training import checkpoint_management, saver

assert estimator.ModeKeys.PREDICT == learn.ModeKeys.INFER == "infer"
assert example_pb2.Example is tf.train.Example
assert summary_pb2.Summary is tf.Summary is summary.Summary
assert saver.latest_checkpoint is checkpoint_management.latest_checkpoint
assert signature_constants.PREDICT_INPUTS == "inputs"
assert data.Dataset is tf.data.Dataset
for module, name in ((layers, "Dense"), (tf.train, "Checkpoint"),
                     (tf.contrib.summary, "scalar"), (tf.keras, "Model")):
    try:
        getattr(module, name)
    except AttributeError as e:
        assert "which are not implemented yet" in str(e), e
    else:
        raise AssertionError(name)
""")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(
        [os.path.dirname(os.path.dirname(sluice._core.__file__)),
         os.environ.get("PYTHONPATH", "")])}
    subprocess.run([sys.executable, "-m", "sluice.run", str(program)],
                   check=True, env=environment)
