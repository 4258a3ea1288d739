"""The stubs of the package, as type checkers read them."""

import ast
import os
import shutil
import subprocess
import sys

import pytest

import sluice
from sluice import names

_FOLDER = os.path.dirname(sluice._core.__file__)


def _names_in(*path):
    """Returns the names that a stub declares."""
    path = os.path.join(_FOLDER, *path, "__init__.pyi")
    with open(path, encoding="utf-8") as f:
        tree = ast.parse(f.read())
    found = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            found |= {alias.asname for alias in node.names}
        elif isinstance(node, ast.AnnAssign):
            found.add(node.target.id)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets}
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
    return found


def test_stubs_have_all_public_names():
    assert set(names.PUBLIC) <= _names_in()
    for key, entries in names._GROUPS.items():
        assert set(entries) <= _names_in("_stubs", *key.split(".")), key
    assert {"nn", "train", "errors", "raw_ops"} <= _names_in()
    assert "rnn_cell" in _names_in("_stubs", "nn")
    assert "InvalidArgumentError" in _names_in("_stubs", "errors")


_RIGHT = """
import sluice as sl
import sluice.compat.v1 as tf

tf.disable_v2_behavior()
x = tf.placeholder(tf.float32, [None, 3])
y: tf.Tensor = tf.raw_ops.MatMul(a=x, b=tf.ones([3, 2]))
z = tf.nn.relu(y)
cell = tf.nn.rnn_cell.LSTMCell(3)
loss = tf.losses.mean_squared_error(z, z)
train = tf.train.AdamOptimizer(0.1).minimize(loss)
t: tf.DType = sl.int32
total: tf.Tensor = tf.reduce_sum(tf.abs(x) + 1.0, axis=[0, 1], keepdims=True)
w = tf.Variable([[0.0, 0.0]] * 3)
both: tf.Tensor = tf.concat([2 * w, tf.zeros_like(w) * 2 + w], 1)
parts: list[tf.Tensor] = tf.split(both[:, :2], 2, 1)
values, indices = tf.nn.top_k(tf.reshape(w, [-1, tf.Dimension(3)]))
done: tf.Operation = tf.group(total.op, w.initializer)
v: tf.Variable = sl.get_variable("v", [2], initializer=sl.zeros_initializer())
added: tf.Tensor = 1.0 - v.assign_add([1.0, 2.0])[0] * x[0, 0]
sizes: list[int | None] = total.op.inputs[0].shape.as_list()
again: tf.Tensor = x.graph.get_tensor_by_name(total.name)
array: sl.TensorArray = sl.TensorArray(sl.float32, 1).write(0, added)
state: tf.Tensor = cell(x, cell.zero_state(2, tf.float32))[0]
config = tf.ConfigProto(allow_soft_placement=True, device_count={"CPU": 2})
config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
nodes: list[str] = [node.name for node in x.graph.as_graph_def().node]
kind: int = total.op.node_def.attr["T"].type
copied: tf.GraphDef = tf.GraphDef.FromString(
    x.graph.as_graph_def().SerializeToString())
copied.node.add(name="a").attr["b"].list.i.extend([1, 2])
queue = tf.FIFOQueue(10, [tf.string], [()], shared_name="q")
put: tf.Operation = queue.enqueue(["a"])
key, record = tf.TextLineReader().read(queue)
row: tf.Tensor = tf.image.decode_png(record, channels=3)
ids = tf.lookup.StaticVocabularyTable(None, 3).size() + queue.size()
coordinator = tf.train.Coordinator()
while not coordinator.should_stop():
    coordinator.request_stop()
for gradient, of in tf.train.AdamOptimizer().compute_gradients(loss):
    print(of.name, sl.TensorShape([2]).ndims, gradient)


class Test(tf.test.TestCase):
    def test_stubs_type_sums(self) -> None:
        with self.cached_session():
            self.assertAllClose(self.evaluate(tf.constant(1.0)), 1.0)


with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
    session.run(tf.global_variables_initializer())
    try:
        session.run(train, {x: [[1, 2, 3]]})
    except tf.errors.InvalidArgumentError:
        pass
"""


@pytest.mark.skipif(shutil.which("mypy") is None, reason="no mypy in PATH")
def test_mypy_accepts_valid_and_rejects_invalid_programs(tmp_path):
    def check(text):
        path = tmp_path / "program.py"
        path.write_text(text)
        return subprocess.run(
            ["mypy", "--strict",
             "--follow-imports=silent", "--cache-dir", str(tmp_path / "cache"),
             "--python-version", "%d.%d" % sys.version_info[:2], str(path)],
            env={**os.environ, "MYPYPATH": os.path.dirname(_FOLDER)},
            stdout=subprocess.PIPE, text=True, check=False).stdout

    assert "Success" in check(_RIGHT)
    wrong = (
            ("tf.nn.rellu(x)", 'has no attribute "rellu"; maybe "relu"'),
            ("tf.raw_ops.MatMul(a=x, c=x)", "Unexpected keyword argument"),
            ("tf.placeholder()", "Missing positional argument"),
            ("tf.matmul({}, x)", 'Argument 1 to "matmul"'),
            ("o: tf.Operation = tf.reduce_sum(x)", "Incompatible types in ass"),
            ("tf.cast(x, object())", 'Argument 2 to "cast"'),
            ("tf.reduce_sum(x, name=3)", 'Argument "name" to "reduce_sum"'),
            ("size: int = queue.size()", "Incompatible types in assignment"),
            ("queue.enqeue(1)", 'has no attribute "enqeue"'),
            ("x.shpae", 'has no attribute "shpae"; maybe "shape"'),
            ("tf.Session(grpah=1)", 'Unexpected keyword argument "grpah"'),
            ("n: int = x.shape.ndims", "Incompatible types in assignment"),
            ("tf.ConfigProto(alow_soft_placement=True)",
             'Unexpected keyword argument "alow_soft_placement"'),
            ("config.device_count = {}", "read-only"),
            ("config.gpu_option", 'maybe "gpu_options"'),
            ("copied.node[0].name = 1", "Incompatible types in assignment"))
    # All errors are checked in one run, because a run takes seconds.
    said = check(_RIGHT + "".join(line + "\n" for line, _ in wrong))
    first = _RIGHT.count("\n") + 1
    for number, (_, message) in enumerate(wrong, first):
        assert any(f"program.py:{number}: error:" in line and message in line
                   for line in said.splitlines()), (number, said)
