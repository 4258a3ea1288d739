"""The environment of programs: flags, files, devices, messages."""

import os
import sys

import numpy as np
import pytest
import sluice.compat.v1 as tf
from google.protobuf import message
from sluice.compat import flags as flags_module


@pytest.fixture
def flags(monkeypatch):
    """Returns the module of flags without any flags."""
    monkeypatch.setattr(flags_module, "FLAGS", flags_module.FlagValues())
    return flags_module


def test_flags_are_read_from_the_command_line(flags, monkeypatch):
    flags.DEFINE_integer("steps", 10, "How many.")
    flags.DEFINE_float("rate", 0.1, "How fast.")
    flags.DEFINE_string("data_dir", None, "Where.")
    flags.DEFINE_boolean("train", True, "Whether.")
    flags.DEFINE_bool("test", False, "Whether.")
    flags.DEFINE_list("sizes", [], "Which.")
    flags.DEFINE_enum("mode", "a", ["a", "b"], "Which.")
    monkeypatch.setattr(sys, "argv", [
        "prog", "--steps=5", "-rate", "2", "--data_dir", "x", "--notrain",
        "--test", "--sizes=1,2", "--mode=b"])
    F = flags.FLAGS
    assert (F.steps, F.rate, F.data_dir, F.train, F.test, F.sizes, F.mode) == (
        5, 2.0, "x", False, True, ["1", "2"], "b")
    F.steps = 7
    assert F.flag_values_dict()["steps"] == 7 and "steps" in F
    assert F["steps"].default == 10
    for wrong in (["prog", "--steps=many"], ["prog", "--mode=c"],
                  ["prog", "--unknown=1"], ["prog", "--steps"]):
        with pytest.raises(flags.Error):
            F(wrong)
    assert F(["prog", "--unknown=1", "rest"], known_only=True) == [
        "prog", "--unknown=1", "rest"]
    with pytest.raises(flags.DuplicateFlagError):
        flags.DEFINE_integer("steps", 1, "Again.")
    with pytest.raises(AttributeError):
        F.nothing
    flags.DEFINE_string("must", None, "Must be there.")
    flags.mark_flag_as_required("must")
    with pytest.raises(flags.IllegalFlagValueError, match="must"):
        F(["prog"])


def test_flags_have_bounds_and_may_be_required(flags):
    flags.DEFINE_integer("n", 3, "A number.", lower_bound=1, upper_bound=5)
    flags.DEFINE_float("rate", None, "A rate.", 0.0, required=True)
    F = flags.FLAGS
    for wrong, rule in ((["--n=0"], "at least 1"), (["--n=6"], "at most 5"),
                        (["--rate=-1"], "at least 0"), ([], "--rate")):
        with pytest.raises(flags.IllegalFlagValueError, match=rule):
            F(["prog"] + wrong)
    F(["prog", "--n=5", "--rate=0"])
    assert (F.n, F.rate) == (5, 0.0)
    with pytest.raises(flags.IllegalFlagValueError, match="at least 1"):
        flags.DEFINE_integer("m", 0, "A number.", lower_bound=1)
    with pytest.raises(TypeError, match="lower_bound"):
        flags.DEFINE_string("s", "", "A text.", lower_bound=1)


def test_programs_run_their_main(flags, monkeypatch):
    flags.DEFINE_integer("n", 1, "A number.")
    seen = []
    monkeypatch.setattr(sys, "argv", ["prog", "--n=4", "rest"])
    with pytest.raises(SystemExit) as end:
        tf.app.run(lambda argv: seen.append((argv, flags.FLAGS.n)))
    assert seen == [(["prog", "rest"], 4)] and end.value.code is None
    with pytest.raises(SystemExit) as end:
        tf.app.run(main=lambda argv: 3, argv=["prog"])
    assert end.value.code == 3


def test_files(tmp_path):
    G = tf.gfile
    folder = os.path.join(tmp_path, "a", "b")
    G.MakeDirs(folder)
    G.MakeDirs(folder)
    name = os.path.join(folder, "f.txt")
    with G.GFile(name, "w") as f:
        f.write("one\ntwo\n")
    with G.Open(name) as f:
        assert f.size() == 8
        assert f.readline() == "one\n" and f.tell() == 4
        assert list(f) == ["two\n"]
        f.seek(0)
        assert f.read(3) == "one"
    assert G.FastGFile(name, "rb").read() == b"one\ntwo\n"
    assert G.Exists(name) and G.IsDirectory(folder)
    assert G.Stat(name).length == 8
    G.Copy(name, name + "2")
    with pytest.raises(tf.errors.AlreadyExistsError):
        G.Copy(name, name + "2")
    G.Rename(name + "2", name + "3")
    assert G.ListDirectory(folder) == ["f.txt", "f.txt3"]
    assert G.Glob(os.path.join(folder, "*3")) == [name + "3"]
    assert [(f[1], f[2]) for f in G.Walk(os.path.join(tmp_path, "a"))] == [
        (["b"], []), ([], ["f.txt", "f.txt3"])]
    G.Remove(name)
    with pytest.raises(tf.errors.NotFoundError, match="f.txt"):
        G.Remove(name)
    with pytest.raises(tf.errors.NotFoundError):
        G.GFile(name).read()
    with pytest.raises(tf.errors.PermissionDeniedError):
        G.GFile(name + "3").write("x")
    G.DeleteRecursively(os.path.join(tmp_path, "a"))
    assert not G.Exists(folder)


def test_device_specs():
    spec = tf.DeviceSpec.from_string("/job:ps/replica:0/task:3/gpu:1")
    assert spec.to_string() == "/job:ps/replica:0/task:3/device:GPU:1"
    assert tf.DeviceSpec(job="w", device_type="CPU").to_string() == (
        "/job:w/device:CPU:*")
    spec.merge_from(tf.DeviceSpec.from_string("/task:4/device:CPU:*"))
    assert (spec.job, spec.task, spec.device_type, spec.device_index) == (
        "ps", 4, "CPU", 1)
    assert spec == tf.DeviceSpec("ps", 0, 4, "CPU", 1)
    with pytest.raises(ValueError, match="Unknown attribute"):
        tf.DeviceSpec.from_string("/jobs:ps")
    with tf.device(tf.DeviceSpec(job="w", task=1)):
        assert tf.constant(1).device == "/job:w/task:1"


def test_clusters():
    spec = tf.train.ClusterSpec({"ps": ["a:1", "b:2"], "worker": {1: "c:3"}})
    assert spec.jobs == ["ps", "worker"]
    assert spec.as_dict() == {"ps": ["a:1", "b:2"], "worker": {1: "c:3"}}
    assert spec.num_tasks("ps") == 2 and spec.task_indices("worker") == [1]
    assert spec.task_address("worker", 1) == "c:3"
    assert spec.job_tasks("worker") == [None, "c:3"]
    assert tf.train.ClusterSpec(spec) == spec and spec
    for wrong in (lambda: spec.num_tasks("x"), lambda: spec.task_address(
            "ps", 5)):
        with pytest.raises(ValueError, match="No (such job|task)"):
            wrong()
    with pytest.raises(TypeError):
        tf.train.ClusterSpec([1])
    with tf.device(tf.train.replica_device_setter(cluster=spec)):
        v, w = tf.Variable(1.0), tf.Variable(2.0)
        total = v + w
    assert [x.device for x in (v, w, total)] == [
        "/job:ps/task:0", "/job:ps/task:1", "/job:worker"]
    assert tf.train.replica_device_setter() is None


@pytest.mark.parametrize("values,dtype", [
    (1, None), (2.5, None), ([1, 2, 3], tf.int64), ("abc", None),
    (["a", b"bc"], None), ([[True], [False]], None),
    (np.arange(6.0).reshape(2, 3), None), (np.float32(3), None),
    ([1, 2], tf.float16), (np.zeros([0, 2], np.int32), None),
    ([1 + 2j], tf.complex64), (-5, tf.int32)])
def test_arrays_as_messages(values, dtype):
    proto = tf.make_tensor_proto(values, dtype)
    expected = np.asarray(values, None if dtype is None
                          else dtype.as_numpy_dtype)
    got = tf.make_ndarray(proto)
    again = tf.make_ndarray(tf.TensorProto.FromString(
        proto.SerializeToString()))
    for array in (got, again):
        assert array.shape == expected.shape
        if expected.dtype.kind in "SUO":
            assert [bytes(v) for v in array.ravel()] == [
                v.encode() if isinstance(v, str) else bytes(v)
                for v in np.asarray(values, object).ravel()]
        else:
            np.testing.assert_array_equal(array, expected)
    assert [d.size for d in proto.tensor_shape.dim] == list(expected.shape)


def test_messages_of_other_programs():
    assert tf.make_tensor_proto(1.5).float_val == [1.5]
    assert tf.make_tensor_proto([True, False]).bool_val == [True, False]
    assert tf.make_tensor_proto([1 + 2j]).dcomplex_val == [1, 2]
    assert tf.make_tensor_proto(np.array([1, 2])).tensor_content == (
        np.array([1, 2]).tobytes())
    filled = tf.make_ndarray(tf.make_tensor_proto(7, shape=[2, 2]))
    np.testing.assert_array_equal(filled, np.full([2, 2], 7))
    # A packed list of ints {3, -1} in protocol buffer encoding.
    data = (b"\x08\x03\x12\x04\x12\x02\x08\x02\x3a\x0b\x03" + b"\xff" * 9 +
            b"\x01")
    assert list(tf.make_ndarray(tf.TensorProto.FromString(data))) == [3, -1]
    floats = b"\x08\x01\x12\x04\x12\x02\x08\x01\x2a\x04\x00\x00\xc0\x3f"
    assert list(tf.make_ndarray(tf.TensorProto.FromString(floats))) == [1.5]
    with pytest.raises(message.DecodeError):
        tf.TensorProto.FromString(b"\x12\x7f")
    with pytest.raises(ValueError, match="Too many elements"):
        tf.make_tensor_proto([1, 2, 3], shape=[2])
    with pytest.raises(TypeError, match="shape"):
        tf.make_tensor_proto(1, shape=[2], verify_shape=True)


def test_specs():
    spec = tf.TensorSpec([None, 2], tf.float32, "x")
    assert spec.is_compatible_with(tf.ones([3, 2]))
    assert not spec.is_compatible_with(tf.ones([3]))
    assert tf.TensorSpec.from_tensor(tf.ones([3, 2], name="t")) == (
        tf.TensorSpec([3, 2], tf.float32, "t"))
    assert hash(spec) == hash(tf.TensorSpec.from_spec(spec))
    assert tf.SparseTensorSpec([2]) == tf.SparseTensorSpec([2], tf.float32)
    assert tf.SparseTensorSpec([2]) != tf.IndexedSlicesSpec([2])


def test_graphs_are_written(tmp_path):
    tf.constant(1, name="one")
    graph = tf.get_default_graph()
    text = tf.train.write_graph(graph, str(tmp_path / "new"), "g.pbtxt")
    with open(text) as f:
        assert '"one"' in f.read()
    binary = tf.io.write_graph(graph.as_graph_def(), str(tmp_path), "g.pb",
                               as_text=False)
    with open(binary, "rb") as f:
        assert tf.GraphDef.FromString(f.read()) == graph.as_graph_def()


def test_what_is_a_tensor():
    v = tf.Variable(1.0)
    assert all(map(tf.is_tensor, (v, tf.constant(1),
                                  tf.SparseTensor([[0]], [1], [1]))))
    assert not any(map(tf.is_tensor, (1, "a", np.ones(2), None)))


def test_switch_case_selects_branch(run):
    x = tf.placeholder(tf.int32, [])
    y = tf.switch_case(x, [lambda: tf.constant(10), lambda: tf.constant(11),
                           lambda: tf.constant(12)])
    assert [run(y, {x: i}) for i in (0, 1, 2, 7, -1)] == [10, 11, 12, 12, 12]
    z = tf.switch_case(x, {1: lambda: tf.constant(2), 0: lambda: tf.constant(5)
                           }, default=lambda: tf.constant(-1))
    assert [run(z, {x: i}) for i in (1, 0, 2)] == [2, 5, -1]


# ---- Shapes that agree -------------------------------------------------------


@pytest.mark.parametrize("shapes, message", [
    ([([3, 2], "NQ"), ([3, 4], ("N", "D")), ([2], ["Q"]), ([], ())], None),
    ([([3, 2], "ND"), ([3, 4], "ND")],
     "Specified by tensor x0:0 dimension 1.  Tensor x1:0 dimension 1 must "
     "have size 2.  Received size 4, shape (3, 4)"),
    ([([3, 2], (3, "2"))], None),
    ([([3, 2], (4, None))], "Specified explicitly.  Tensor x0:0 dimension 0 "
     "must have size 4.  Received size 3"),
    ([([7, 3, 2], (..., "a", "b")), ([2, 3], "ba")], None),
    ([([7, 3, 2], "*ab"), ([3, 2], "ba")], "Specified by tensor x0:0 "
     "dimension -1.  Tensor x1:0 dimension 0 must have size 2"),
    ([([3], (..., "a", "b"))], "x0:0 must have rank at least 2"),
    ([([3, 2], "a")], "x0:0 must have rank in (0, 1)"),
    ([([3, 2], "abc")], "x0:0 must have rank 3"),
    ([([], (1,)), ([], ("*",)), ([2, 3], "..")], None),
    ([([2], ())], "dimension 0 must have size 1.  Received size 2"),
    ([([2, 3], tf.TensorShape([None, 3]))], None),
    ([([2, 3], np.array([2, 4]))], "dimension 1 must have size 4")])
def test_shapes_agree(session, shapes, message):
    for known in (True, False):
        with tf.Graph().as_default(), tf.Session() as session:
            fed = [tf.placeholder(tf.float32, shape if known else None,
                                  name=f"x{i}")
                   for i, (shape, _) in enumerate(shapes)]

            def build():
                return tf.debugging.assert_shapes(
                    [(x, wanted) for x, (_, wanted) in zip(fed, shapes)],
                    message="here")
            if known and message:
                with pytest.raises(ValueError) as raised:
                    build()
                assert str(raised.value).startswith("here")
                assert message in str(raised.value)
                continue
            feed = {x: np.zeros(shape) for x, (shape, _) in zip(fed, shapes)}
            if not message:
                session.run(build(), feed)
                continue
            with pytest.raises(tf.errors.InvalidArgumentError,
                               match="assertion failed"):
                session.run(build(), feed)


def test_assert_shapes_rejects_invalid_specs(session):
    x = tf.zeros([2, 3], name="x")
    sparse = tf.SparseTensor([[0, 1]], [1.0], [2, 3])
    agree = tf.debugging.assert_shapes
    session.run(agree({x: None}))
    session.run(agree([(sparse, ("N", "D")), (x, "ND")]))
    with pytest.raises(ValueError, match="shape=\\(2, 3\\) dtype=float32 dim"):
        agree([(sparse, ("N", "D")), (x, "DN")])
    with pytest.raises(ValueError, match="must be an iterable"):
        agree([(x, 5)])
    for shape in (("a", ...), "a*"):
        with pytest.raises(ValueError, match="only allowed as the first entry"):
            agree([(x, shape)])
    with pytest.raises(ValueError, match="must have rank 3"):
        tf.debugging.assert_rank(sparse, 3)
    fed = tf.placeholder(tf.float32)
    for data, match in ((["mine"], "mine"), (None, "must have size")):
        check = agree([(fed, (2, 4))], data=data)
        with pytest.raises(tf.errors.InvalidArgumentError, match=match):
            session.run(check, {fed: np.zeros([2, 3])})
