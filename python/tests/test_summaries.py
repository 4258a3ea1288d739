"""Summaries, file writers and the hooks that write them."""

import glob
import json
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
import sluice.compat.v1 as tf


def events(folder):
    [path] = glob.glob(os.path.join(str(folder), "*tfevents*"))
    return list(tf.train.summary_iterator(path))


def values(folder):
    return [(e.step, v.tag) for e in events(folder) for v in e.summary.value]


def run(tensor, feeds=None):
    with tf.Session() as session:
        return tf.Summary.FromString(session.run(tensor, feeds))


def test_tags_are_unique_names_within_their_scopes():
    with tf.name_scope("train"):
        first = tf.summary.scalar("a loss", 1.0)
        second = tf.summary.scalar("a loss", 2.0)
    grouped = tf.summary.histogram("w", [1.0], family="layer")
    merged = run(tf.summary.merge_all())
    assert [v.tag for v in merged.value] == [
        "train/a_loss", "train/a_loss_1", "layer/layer/w"]
    assert tf.get_collection(tf.GraphKeys.SUMMARIES) == [first, second, grouped]


def test_summaries_go_to_the_collections_that_are_named():
    made = tf.summary.scalar("a", 1.0, collections=["mine"])
    assert tf.get_collection("mine") == [made]
    assert tf.summary.merge_all() is None
    assert tf.summary.merge_all("mine") is not None


def test_merge_all_takes_those_of_a_scope():
    with tf.name_scope("train"):
        tf.summary.scalar("a", 1.0)
    with tf.name_scope("test"):
        tf.summary.scalar("b", 1.0)
    assert [v.tag for v in run(tf.summary.merge_all(scope="test")).value] == [
        "test/b"]


def test_a_tag_that_occurs_twice_fails_the_step():
    a = tf.summary.scalar("a", 1.0)
    with pytest.raises(tf.errors.InvalidArgumentError, match="'a' twice"):
        run(tf.summary.merge([a, a]))


def test_text_must_be_strings():
    with pytest.raises(ValueError, match="dtype string"):
        tf.summary.text("t", 1.0)
    text = run(tf.summary.text("t", "**bold**")).value[0]
    assert text.metadata.plugin_data.plugin_name == "text"
    assert text.tensor.string_val == [b"**bold**"]


def test_images_and_sounds_are_encoded():
    image = run(tf.summary.image("i", np.zeros([5, 2, 3, 1]), max_outputs=2))
    assert [v.tag for v in image.value] == ["i/image/0", "i/image/1"]
    assert image.value[0].image.encoded_image_string[1:4] == b"PNG"
    sound = run(tf.summary.audio("s", np.zeros([1, 4], np.float32), 8000.0,
                                 max_outputs=1)).value[0]
    assert sound.tag == "s/audio"
    assert sound.audio.encoded_audio_string[:4] == b"RIFF"


def test_a_histogram_of_nan_names_the_line():
    made = tf.summary.histogram("h", [np.nan])
    with pytest.raises(tf.errors.InvalidArgumentError,
                       match="histogram 'h'.*NaN.*test_summaries.py"):
        run(made)


def test_a_writer_writes_summaries_and_graphs(tmp_path):
    x = tf.placeholder(tf.float32, [], name="x")
    made = tf.summary.scalar("x", x)
    with tf.Session() as session, tf.summary.FileWriter(
            tmp_path, session.graph) as writer:
        for step in range(3):
            writer.add_summary(session.run(made, {x: step}), step)
        writer.add_summary(tf.Summary(value=[
            tf.Summary.Value(tag="own", simple_value=7)]))
    found = events(tmp_path)
    assert found[0].file_version == "brain.Event:2"
    graph = tf.GraphDef.FromString(found[1].graph_def)
    assert graph.node[0].name == "x"
    assert tf.MetaGraphDef.FromString(
        found[2].meta_graph_def).graph_def == graph
    assert values(tmp_path) == [(0, "x_1"), (1, "x_1"), (2, "x_1"), (0, "own")]


def test_a_closed_writer_warns_and_reopens(tmp_path):
    writer = tf.summary.FileWriter(tmp_path)
    writer.close()
    writer.close()
    with pytest.warns(UserWarning, match="closed FileWriter"):
        writer.add_summary(tf.Summary())
    writer.reopen()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        writer.add_summary(tf.Summary())
    writer.close()
    assert len(os.listdir(tmp_path)) == 2


def test_a_writer_refuses_what_is_no_graph(tmp_path):
    writer = tf.summary.FileWriter(tmp_path)
    with pytest.raises(TypeError, match="graph must be"):
        writer.add_graph("graph")
    with pytest.raises(ValueError, match="not both"):
        writer.add_graph(tf.Graph(), graph_def=tf.GraphDef())
    with pytest.raises(TypeError, match="MetaGraphDef"):
        writer.add_meta_graph(tf.GraphDef())
    writer.add_run_metadata(tf.RunMetadata(), "step 1")
    with pytest.raises(ValueError, match="already used"):
        writer.add_run_metadata(tf.RunMetadata(), "step 1")


def test_a_writer_in_a_file_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(tf.errors.FailedPreconditionError, match="file"):
        tf.summary.FileWriter(tmp_path / "file" / "logs")


def test_an_iterator_goes_on_when_the_file_grows(tmp_path):
    writer = tf.summary.FileWriter(tmp_path)
    [path] = glob.glob(str(tmp_path / "*"))
    reader = tf.train.summary_iterator(path)
    assert next(reader).file_version
    with pytest.raises(StopIteration):
        next(reader)
    writer.add_summary(tf.Summary(), 4)
    writer.flush()
    assert next(reader).step == 4


def test_writers_are_shared_by_folder(tmp_path):
    cache = tf.summary.FileWriterCache
    a = cache.get(str(tmp_path))
    assert cache.get(str(tmp_path)) is a
    cache.clear()
    assert cache.get(str(tmp_path)) is not a
    cache.clear()


def train(step, hooks=(), **arguments):
    with tf.train.MonitoredTrainingSession(
            hooks=[tf.train.StopAtStepHook(5), *hooks],
            **arguments) as session:
        while not session.should_stop():
            session.run(step)


def test_a_monitored_session_writes_its_summaries(tmp_path):
    step = tf.assign_add(tf.train.get_or_create_global_step(), 1)
    tf.summary.scalar("a", 1.0)
    train(step, summary_dir=str(tmp_path), save_summaries_steps=1,
          log_step_count_steps=1)
    tf.summary.FileWriterCache.clear()
    written = values(tmp_path)
    assert [s for s, tag in written if tag == "a"] == [1, 2, 3, 4, 5]
    assert [s for s, tag in written if tag == "global_step/sec"] == [2, 3, 4, 5]


def test_a_hook_saves_several_summaries(tmp_path):
    step = tf.assign_add(tf.train.get_or_create_global_step(), 1)
    made = [tf.summary.scalar("a", 1.0), tf.summary.scalar("b", 1.0)]
    with tf.summary.FileWriter(str(tmp_path)) as writer:
        train(step, [tf.train.SummarySaverHook(
            save_steps=1, summary_writer=writer, summary_op=made)])
    assert values(tmp_path) == [(s, t) for s in range(1, 6) for t in "ab"]
    started = [e.session_log.status for e in events(tmp_path)
               if e.HasField("session_log")]
    assert started == [tf.SessionLog.START]


def test_a_hook_takes_one_source_of_summaries():
    made = tf.summary.scalar("a", 1.0)
    with pytest.raises(ValueError, match="scaffold or summary_op"):
        tf.train.SummarySaverHook(save_steps=1)
    with pytest.raises(ValueError, match="every_secs and every_steps"):
        tf.train.SummarySaverHook(summary_op=made)


# The Python that has TensorBoard: this one, or that of an environment.
TENSORBOARD = os.environ.get("SLUICE_PEERS_PYTHON", sys.executable)
READS = """
import json, sys
from tensorboard.backend.event_processing import event_accumulator
read = event_accumulator.EventAccumulator(sys.argv[1], size_guidance={})
read.Reload()
print(json.dumps([read.Tags(), [s.value for s in read.Scalars("x_1")]]))
"""


@pytest.mark.skipif(
    subprocess.run([TENSORBOARD, "-c", "import tensorboard"],
                   stderr=subprocess.DEVNULL, check=False).returncode != 0,
    reason="needs TensorBoard: pip install tensorboard, in the environment "
           "whose Python SLUICE_PEERS_PYTHON names")
def test_tensorboard_reads_every_kind(tmp_path):
    x = tf.placeholder(tf.float32, [], name="x")
    tf.summary.scalar("x", x)
    tf.summary.histogram("h", tf.fill([8], x))
    tf.summary.image("i", tf.fill([1, 2, 2, 3], x))
    tf.summary.audio("s", tf.fill([1, 8], x), 8000.0)
    tf.summary.text("t", "text")
    merged = tf.summary.merge_all()
    with tf.Session() as session, tf.summary.FileWriter(
            tmp_path, session.graph) as writer:
        for step in range(3):
            writer.add_summary(session.run(merged, {x: step}), step)
    result = subprocess.run([TENSORBOARD, "-c", READS, str(tmp_path)],
                            capture_output=True, text=True, check=True)
    tags, scalars = json.loads(result.stdout.splitlines()[-1])
    assert scalars == [0, 1, 2]
    assert (tags["scalars"], tags["histograms"], tags["images"], tags["audio"],
            tags["tensors"], tags["graph"]) == (
        ["x_1"], ["h"], ["i/image/0"], ["s/audio/0"], ["t"], True)
