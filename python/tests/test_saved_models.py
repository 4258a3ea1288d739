"""Saved models and meta graphs, to and from TensorFlow."""

import os
import subprocess

import numpy as np
import pytest
from test_tensorflow_checkpoints import peer_python

import sluice.compat.v1 as tf

RECORDED = os.path.join(os.path.dirname(__file__), "../../tests/saved_models")

# Runs in TensorFlow's Python.
PEER = r"""
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""
import numpy as np
import tensorflow as tf
v1 = tf.compat.v1
v1.disable_eager_execution()
v1.disable_control_flow_v2()
task, path, recorded = sys.argv[1:]
if task == "gradients":
    for scope in (None, "model"):
        with tf.Graph().as_default() as g, v1.Session() as session:
            v1.train.import_meta_graph(path, import_scope=scope)
            x, z = (g.get_tensor_by_name((scope + "/" if scope else "") + n) for n in ("x:0", "z:0"))
            slope = tf.gradients(z, x)[0]
            for line in open(recorded):
                at, *want = map(float, line.split())
                got = session.run([z, slope], {x: at})
                np.testing.assert_allclose(got, want, rtol=1e-5)
else:
    with v1.Session(graph=tf.Graph()) as session:
        model = v1.saved_model.loader.load(session, ["serve"], path)
        signature = model.signature_def["serving_default"]
        y = session.run(signature.outputs["y"].name, {signature.inputs["x"].name: [[1, 2]]})
        np.testing.assert_array_equal(y, [[13, 28]])
        np.testing.assert_array_equal(session.run("ids:0", {"keys:0": ["two", "x"]}), [1, -1])
    loaded = tf.saved_model.load(path)
"""


def run_peer(*arguments):
    python = peer_python()
    if python is None:
        pytest.skip("no Python with TensorFlow (SLUICE_PEERS_PYTHON)")
    run = subprocess.run([python, "-c", PEER, *map(str, arguments)],
                         capture_output=True, text=True, check=False,
                         env=dict(os.environ, PYTHONPATH=""))
    assert run.returncode == 0, run.stderr[-4000:]


def loops():
    """The first model of tests/saved_models/record.py."""
    x = tf.placeholder(tf.float32, [], name="x")

    def inner(i, a):
        return i + 1, tf.cond(a > 3.0, lambda: a * x, lambda: a * a + x)

    def outer(i, a):
        _, a = tf.while_loop(lambda j, b: j < 2, inner, (0, a), name="inner")
        return i + 1, tf.sin(a)

    _, y = tf.while_loop(lambda i, a: i < 3, outer, (0, x), name="outer",
                         parallel_iterations=3, maximum_iterations=5)
    z = tf.cond(x > 1.0, lambda: tf.while_loop(
        lambda i, a: i < 2, lambda i, a: (i + 1, a * x), (0, y), name="last",
        swap_memory=True)[1], lambda: y * 2.0)
    return tf.identity(z, name="z")


def conditionals():
    """The second model there."""
    x = tf.placeholder(tf.float32, [], name="x")
    large = x > 1.0
    a = tf.cond(large, lambda: x * 2.0, lambda: x + 1.0)
    b = tf.cond(large, lambda: tf.cond(x > 2.0, lambda: a * x,
                                       lambda: tf.sin(a)),
                lambda: tf.cond(large, lambda: x, lambda: a), name="other")

    def twice():
        return tf.while_loop(
            lambda i, c: i < 2, lambda i, c: (i + 1, tf.cond(
                c > 4.0, lambda: c + b, lambda: c * x)), (0, a))[1]

    z = tf.cond(b < 3.0, twice, lambda: tf.cond(
        large, lambda: x * x * b, lambda: b))
    return tf.identity(z, name="z")


MODELS = [loops, conditionals]


def recorded(model, ext):
    return os.path.join(RECORDED, model.__name__ + ext)


def check_gradients(graph, model, scope=""):
    with graph.as_default(), tf.Session() as session:
        x, z = (graph.get_tensor_by_name(scope + n) for n in ("x:0", "z:0"))
        slope = tf.gradients(z, x)[0]
        with open(recorded(model, ".txt")) as f:
            for line in f:
                at, *want = map(float, line.split())
                np.testing.assert_allclose(session.run([z, slope], {x: at}),
                                           want, rtol=1e-5)


def contexts(meta_graph, key):
    cls = {"while_context": "WhileContextDef",
           "cond_context": "CondContextDef"}[key]
    from sluice.framework import protos
    return [getattr(protos, cls).FromString(b) for b in
            meta_graph.collection_def[key].bytes_list.value]


@pytest.mark.parametrize("model", MODELS)
def test_loops_of_tensorflow_are_differentiated(model):
    for scope in (None, "model"):
        with tf.Graph().as_default() as graph:
            tf.train.import_meta_graph(recorded(model, ".meta"),
                                       import_scope=scope)
            check_gradients(graph, model, scope + "/" if scope else "")


def tensorflows(model):
    from sluice.framework import protos
    theirs = protos.MetaGraphDef()
    with open(recorded(model, ".meta"), "rb") as f:
        theirs.ParseFromString(f.read())
    return theirs


@pytest.mark.parametrize("model", MODELS)
def test_contexts_of_tensorflow_are_kept(model, tmp_path):
    def messages(meta):
        return sorted(str(c) for key in ("while_context", "cond_context")
                      for c in contexts(meta, key))

    want = messages(tensorflows(model))
    path = recorded(model, ".meta")
    for scope in (None, "model"):
        with tf.Graph().as_default():
            tf.train.import_meta_graph(path, import_scope=scope)
            path = str(tmp_path / f"{scope}.meta")  # For a second journey.
            made = tf.train.export_meta_graph(path, export_scope=scope)
        assert messages(made) == want


@pytest.mark.parametrize("model", MODELS)
def test_contexts_say_what_tensorflows_do(model):
    """Of the same model, in TensorFlow's file and in ours."""
    from sluice.framework import protos
    theirs = tensorflows(model)
    with tf.Graph().as_default():
        model()
        ours = tf.train.export_meta_graph()

    def shape(c):
        """The tree, without the names of nodes."""
        kind = c.WhichOneof("ctxt")
        made = getattr(c, kind)
        inner = sorted(map(shape, made.nested_contexts))
        if kind == "cond_ctxt":
            return kind, made.branch, inner
        return (kind, made.parallel_iterations, made.back_prop,
                made.swap_memory,
                bool(made.maximum_iterations_name),
                len(made.loop_enter_names), len(made.loop_exit_names), inner)

    def tops(meta):
        return sorted(
            [shape(protos.ControlFlowContextDef(while_ctxt=c))
             for c in contexts(meta, "while_context")] +
            [shape(protos.ControlFlowContextDef(cond_ctxt=c))
             for c in contexts(meta, "cond_context")])

    assert tops(ours) == tops(theirs)
    # Nodes of a context are the meta graph's.
    names = {n.name for n in ours.graph_def.node}
    frames = {n.name + ":0": n.attr["frame_name"].s.decode()
              for n in ours.graph_def.node if n.op == "Enter"}

    def check(c):
        made = getattr(c, c.WhichOneof("ctxt"))
        if c.WhichOneof("ctxt") == "while_ctxt":
            assert frames[made.loop_enter_names[0]] == made.context_name
        external = made.values_def.external_values
        for value in set(made.values_def.values) - set(external):
            assert value.rpartition(":")[0] in names
        for value in external.values():
            assert value.rpartition(":")[0] in names
        for each in made.nested_contexts:
            check(each)
    for c in contexts(ours, "while_context"):
        check(protos.ControlFlowContextDef(while_ctxt=c))
    for c in contexts(ours, "cond_context"):
        check(protos.ControlFlowContextDef(cond_ctxt=c))


def test_branches_of_an_exported_conditional_share_no_switch():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [], name="x")
        tf.cond(x > 1.0, lambda: x * 3.0, lambda: x * x)
        made = tf.train.export_meta_graph()
    of_x = [n for n in made.graph_def.node
            if n.op == "Switch" and n.input[0] == "x"]
    assert len(of_x) == 2
    owners = [{v.rpartition(":")[0] for v in c.values_def.values}
              for c in contexts(made, "cond_context")]
    assert all(sum(n.name in o for o in owners) == 1 for n in of_x)


@pytest.mark.parametrize("model", MODELS)
def test_tensorflow_differentiates_our_loops(tmp_path, model):
    with tf.Graph().as_default():
        model()
        tf.train.export_meta_graph(str(tmp_path / "ours.meta"))
    want = recorded(model, ".txt")
    run_peer("gradients", tmp_path / "ours.meta", want)
    with tf.Graph().as_default():  # What was imported before, and a scope.
        tf.train.import_meta_graph(recorded(model, ".meta"), import_scope="a")
        tf.train.export_meta_graph(str(tmp_path / "again.meta"),
                                   export_scope="a")
    run_peer("gradients", tmp_path / "again.meta", want)


def save(folder, words, as_text=False):
    with open(words, "w") as f:
        f.write("one\ntwo\nthree\n")
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        w = tf.get_variable("w", initializer=np.float32([3, 4]),
                            use_resource=True)
        b = tf.get_variable("b", initializer=np.float32([10, 20]),
                            use_resource=False)
        y = tf.identity(x * w + b, name="y")
        path = tf.constant(words, name="words")
        tf.add_to_collection(tf.GraphKeys.ASSET_FILEPATHS, path)
        table = tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(
            path, tf.string, tf.lookup.TextFileIndex.WHOLE_LINE,
            tf.int64, tf.lookup.TextFileIndex.LINE_NUMBER), -1)
        keys = tf.placeholder(tf.string, [None], name="keys")
        tf.identity(table.lookup(keys), name="ids")
        session.run(tf.global_variables_initializer())
        builder = tf.saved_model.builder.SavedModelBuilder(folder)
        builder.add_meta_graph_and_variables(
            session, [tf.saved_model.tag_constants.SERVING],
            {"serving_default":
             tf.saved_model.signature_def_utils.predict_signature_def(
                 {"x": x}, {"y": y})},
            assets_collection=tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS),
            main_op=tf.tables_initializer(), strip_default_attrs=True)
        builder.save(as_text)
    os.remove(words)


def check(session, want, folder, scope=None):
    model = tf.saved_model.loader.load(session, ["serve"], folder, scope)
    signature = model.signature_def["serving_default"]
    prefix = scope + "/" if scope else ""
    y = session.run(prefix + signature.outputs["y"].name,
                    {prefix + signature.inputs["x"].name: [[1, 2]]})
    np.testing.assert_array_equal(y, [want])
    np.testing.assert_array_equal(
        session.run(prefix + "ids:0", {prefix + "keys:0": ["two", "x"]}),
        [1, -1])


@pytest.mark.parametrize("name", ["v1", "v1_text"])
@pytest.mark.parametrize("scope", [None, "model"])
def test_models_of_tensorflow_1_are_loaded(name, scope):
    with tf.Session(graph=tf.Graph()) as session:
        check(session, [19, 32, 45], os.path.join(RECORDED, name), scope)


def test_models_of_tensorflow_2_are_loaded():
    with tf.Session(graph=tf.Graph()) as session:
        model = tf.saved_model.loader.load(session, ["serve"],
                                           os.path.join(RECORDED, "v2"))
        powers = model.signature_def["powers"]
        feeds = {powers.inputs["x"].name: [[1, 2]], powers.inputs["n"].name: 3}
        np.testing.assert_array_equal(
            session.run(powers.outputs["y"].name, feeds), [[99.5, 145]])
        ids = model.signature_def["ids"]
        np.testing.assert_array_equal(session.run(
            ids.outputs["ids"].name, {ids.inputs["keys"].name: ["three", "x"]}),
            [2, -1])


@pytest.mark.parametrize("as_text", [False, True])
def test_tensorflow_loads_our_models(tmp_path, as_text):
    folder = str(tmp_path / "model")
    save(folder, str(tmp_path / "words.txt"), as_text)
    with tf.Session(graph=tf.Graph()) as session:
        check(session, [13, 28], folder)
    run_peer("load", folder, "")


def test_errors_say_what_there_is(tmp_path):
    with tf.Session(graph=tf.Graph()) as session:
        with pytest.raises(RuntimeError, match=r"'train'.*\{serve\}, \{eval, gpu\}"):
            tf.saved_model.loader.load(session, ["train"],
                                       os.path.join(RECORDED, "v1"))
        with pytest.raises(OSError, match="SavedModel file does not exist"):
            tf.saved_model.loader.load(session, ["serve"], str(tmp_path))
    (tmp_path / "saved_model.pb").write_bytes(b"not a model")
    with pytest.raises(OSError, match="Cannot parse file"):
        with tf.Session(graph=tf.Graph()) as session:
            tf.saved_model.loader.load(session, ["serve"], str(tmp_path))
    with pytest.raises(AssertionError, match="already exists"):
        tf.saved_model.builder.SavedModelBuilder(str(tmp_path))


def test_nothing_is_at_the_path_before_save(tmp_path):
    folder = tmp_path / "model"
    with tf.Graph().as_default(), tf.Session() as session:
        tf.get_variable("v", initializer=1.0)
        session.run(tf.global_variables_initializer())
        builder = tf.saved_model.builder.SavedModelBuilder(str(folder))
        builder.add_meta_graph_and_variables(session, ["serve"])
        assert not folder.exists()
        builder.save()
    assert sorted(p.name for p in folder.iterdir()) == ["saved_model.pb",
                                                        "variables"]
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_a_loaded_graph_has_its_default_attributes(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        tf.complex(1.0, 2.0, name="z")
        builder = tf.saved_model.builder.SavedModelBuilder(str(tmp_path / "m"))
        builder.add_meta_graph_and_variables(session, ["stripped"],
                                             strip_default_attrs=True)
        builder.save()
    with tf.Session() as session:
        model = tf.saved_model.loader.load(session, ["stripped"],
                                           str(tmp_path / "m"))
    node, = (n for n in model.graph_def.node if n.name == "z")
    assert node.attr["T"].type == tf.float32
    assert node.attr["Tout"].type == tf.complex64


def test_a_simple_save_is_for_serving(tmp_path):
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None], name="x")
        v = tf.get_variable("v", initializer=3.0)
        session.run(tf.global_variables_initializer())
        tf.saved_model.simple_save(session, str(tmp_path / "m"), {"x": x},
                                   {"y": x * v})
    with tf.Session(graph=tf.Graph()) as session:
        model = tf.saved_model.loader.load(session, ["serve"],
                                           str(tmp_path / "m"))
        signature = model.signature_def["serving_default"]
        y = session.run(signature.outputs["y"].name,
                        {signature.inputs["x"].name: [2.0]})
    assert y.tolist() == [6.0]


@pytest.mark.parametrize("name", ["../words", "/etc/passwd", "a/../../b", ""])
def test_assets_outside_of_the_model_are_refused(tmp_path, name):
    from sluice.compat.training import saved_model_loader
    made = tf.MetaGraphDef()
    made.asset_file_def.add(filename=name).tensor_info.name = "f:0"
    with pytest.raises(ValueError, match="in the model's folder"):
        saved_model_loader.get_asset_tensors(str(tmp_path), made)


def test_a_file_that_cannot_be_replaced_leaves_nothing_aside(tmp_path):
    from sluice.compat.internals import file_io
    path = tmp_path / "file"
    file_io.atomic_write_string_to_file(str(path), "one")
    with pytest.raises(tf.errors.AlreadyExistsError):
        file_io.atomic_write_string_to_file(str(path), "two", overwrite=False)
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert path.read_text() == "one"


@pytest.mark.parametrize("as_text", [False, True])
def test_method_names_of_signatures_are_replaced(tmp_path, as_text):
    path = str(tmp_path / "m")
    builder = tf.saved_model.Builder(path)
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [], name="x")
        info = {"x": tf.saved_model.build_tensor_info(x)}
        signature = tf.saved_model.build_signature_def(info, info, "old")
        builder.add_meta_graph_and_variables(
            session, ["serve"], {"s": signature})
        builder.add_meta_graph(["serve", "gpu"], {"s": signature, "t": signature})
        builder.save(as_text=as_text)

    def methods(folder):
        with tf.Session(graph=tf.Graph()) as session:
            return [{k: s.method_name for k, s in tf.saved_model.load(
                session, tags, folder).signature_def.items()}
                for tags in (["serve"], ["serve", "gpu"])]

    updater = tf.saved_model.signature_def_utils.MethodNameUpdater(path)
    updater.replace_method_name("s", "new")
    updater.replace_method_name("t", "other", tags=["gpu", "serve"])
    for args, words in ((("t", "m"), "have a signature_def with key: t"),
                        (("s", "m", "tpu"), "could not be found"),
                        (("", "m"), "signature_key must be defined"),
                        (("s", ""), "method_name must be defined")):
        with pytest.raises(ValueError, match=words):
            updater.replace_method_name(*args)
    assert methods(path)[0] == {"s": "old"}
    updater.save()
    assert methods(path) == [{"s": "new"}, {"s": "new", "t": "other"}]
    file = [p.name for p in (tmp_path / "m").iterdir()
            if p.name.startswith("saved_model")]
    (tmp_path / "copy").mkdir()
    updater.save(str(tmp_path / "copy"))
    assert [p.name for p in (tmp_path / "copy").iterdir()] == file
    with pytest.raises(OSError):
        tf.saved_model.signature_def_utils.MethodNameUpdater(str(tmp_path))
