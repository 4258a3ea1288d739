"""The Python code of README.md and the documentation pages.

Code that quotes a program is run by test_examples.py instead.
"""

import os
import pathlib
import socket
import sys

import pytest

import sluice.compat.v1 as tf

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import doc_blocks  # noqa: E402

ALL_BLOCKS = doc_blocks.all_blocks(ROOT)[0]
BLOCKS = [b for b in ALL_BLOCKS if b.language == "python" and not b.quoted and
          not b.path.startswith(doc_blocks.TUTORIALS)]
# The blocks of each tutorial that has Python code, in order.
TUTORIALS = {
    path: [b for b in ALL_BLOCKS if b.path == path]
    for path in sorted({b.path for b in ALL_BLOCKS if b.language == "python" and
                        b.path.startswith(doc_blocks.TUTORIALS)})}


def server(text, tmp_path):
    """Runs a page's server, which listens here, until it is joined."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        address = "127.0.0.1:%d" % s.getsockname()[1]
    assert "10.0.0.3:4440" in text
    names = {"tf": tf}
    class_of_servers = tf.train.Server
    joined = []

    class Server(class_of_servers):

        def join(self):
            with tf.Session(self.target) as session:
                joined.append(session.run(tf.constant(1) + 1))

    tf.train.Server = Server
    try:
        exec(text.replace("10.0.0.3:4440", address), names)
    finally:
        tf.train.Server = class_of_servers
    assert joined == [2]


def logging(text, tmp_path):
    """Runs a program that logs, into another folder."""
    assert "/tmp/logs/" in text
    with tf.Graph().as_default():
        exec(text.replace("/tmp/logs", str(tmp_path)), {})
    (file,) = (tmp_path / "run1").iterdir()
    events = list(tf.train.summary_iterator(str(file)))
    assert [e.summary.value[0].tag for e in events
            if e.HasField("summary")] == ["loss"] * 100
    assert any(e.HasField("graph_def") for e in events)
    assert any(e.HasField("tagged_run_metadata") for e in events)


def actors(text, tmp_path):
    """Runs a page's cluster in Ray."""
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    from sluice.ray_cluster import RayCluster
    assert text.startswith("ray.init()\n")
    path = os.pathsep.join(p for p in sys.path if p)
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False,
             runtime_env={"env_vars": {"PYTHONPATH": path}})
    try:
        with tf.Graph().as_default():
            exec(text.removeprefix("ray.init()\n"), {
                "RayCluster": RayCluster, "tf": tf, "init": tf.no_op(),
                "train": lambda task: task.index})
    finally:
        ray.shutdown()


# The function that runs a block, by the name of the block.
RUN = {"docs/board.md/3": logging, "docs/clusters.md/5": server,
       "docs/clusters.md/15": actors}


@pytest.mark.parametrize("block", BLOCKS, ids=lambda b: b.name)
def test_each_block_runs(block, tmp_path):
    assert block.name in RUN, f"{block.path}:{block.line}: no test runs it"
    RUN[block.name](block.text, tmp_path)


@pytest.mark.parametrize("path", TUTORIALS)
def test_each_tutorial_prints_what_it_shows(path, tmp_path, monkeypatch, capsys):
    """The Python blocks of a page are one program."""
    monkeypatch.chdir(tmp_path)
    names, blocks = {}, TUTORIALS[path]
    with tf.Graph().as_default():
        for block, after in zip(blocks, blocks[1:] + [None]):
            if block.language != "python":
                continue
            capsys.readouterr()
            exec(compile("\n" * (block.line - 1) + block.text, path, "exec"),
                 names)
            shown = after.text if after and after.language == "text" else ""
            assert capsys.readouterr().out == shown, f"{path}:{block.line}"
