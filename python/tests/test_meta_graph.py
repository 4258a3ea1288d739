"""Graphs as data: GraphDef, NodeDef, MetaGraphDef."""

import numpy as np
import pytest

import sluice.compat.v1 as tf
from google.protobuf import message
from sluice.framework import meta_graph, protos


def _model():
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    with tf.device("/cpu:0"):
        w = tf.get_variable("w", initializer=np.ones([3, 2], np.float32))
        b = tf.Variable(tf.zeros([2]), name="b", trainable=False)
    y = tf.nn.relu(tf.matmul(x, w) + b, name="y")
    r = tf.get_variable("r", initializer=2.0, use_resource=True)
    tf.add_to_collection("outputs", y)
    tf.add_to_collection("outputs", y.op)
    tf.add_to_collection("sizes", 3)
    tf.add_to_collection("sizes", -4)
    tf.add_to_collection("rates", 0.5)
    tf.add_to_collection("names", "it")
    tf.add_to_collection("functions", print)
    tf.group(w.assign_add(tf.ones_like(w)), r.assign(3.0, read_value=False),
             name="change")
    return x


def test_export_keeps_nodes():
    x = _model()
    definition = x.graph.as_graph_def()
    again = tf.GraphDef.FromString(definition.SerializeToString())
    tf.constant(1.0, name="later")
    nodes = {node.name: node for node in again.node}
    assert "later" not in nodes and "later" not in str(definition)
    assert nodes["y"].op == "Relu" and nodes["y"].input == ["add"]
    assert nodes["w"].device and nodes["w"].attr["dtype"].type == tf.float32
    assert tf.TensorShape(nodes["w"].attr["shape"].shape) == [3, 2]
    assert tf.TensorShape(
        nodes["x"].attr["shape"].shape).as_list() == [None, 3]
    assert nodes["change"].input == ["^change/NoOp", "^change/NoOp_1"]
    assert [nodes[f"change/NoOp{i}"].input for i in ("", "_1")] == [
        ["^AssignVariableOp"], ["^AssignAdd"]]
    ours = {op.name: op.node_def for op in x.graph.get_operations()}
    for name, node in nodes.items():
        assert (node.op, node.input, node.device) == (
            ours[name].op, ours[name].input, ours[name].device)
        assert set(node.attr) >= set(ours[name].attr) - {"_class"}


def test_collections_round_trip(tmp_path):
    x = _model()
    path = str(tmp_path / "model.meta")
    made = tf.train.export_meta_graph(path)
    assert made.collection_def["outputs"].node_list.value == ["y:0", "y"]
    assert made.collection_def["sizes"].int64_list.value == [3, -4]
    assert "functions" not in made.collection_def
    names = [v.name for v in tf.global_variables()]
    trainable = [v.name for v in tf.trainable_variables()]
    with tf.Graph().as_default() as graph:
        assert isinstance(tf.train.import_meta_graph(path), tf.train.Saver)
        assert [v.name for v in tf.global_variables()] == names
        assert [v.name for v in tf.trainable_variables()] == trainable
        w = tf.global_variables()[0]
        assert tf.trainable_variables()[0] is w and w.trainable
        y, op = tf.get_collection("outputs")
        assert op is y.op and y.graph is graph
        assert tf.get_collection("sizes") == [3, -4]
        assert tf.get_collection("rates") == [0.5]
        assert tf.get_collection("names") == [b"it"]
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run("change")
            np.testing.assert_array_equal(
                session.run(y, {x.name: [[1, 2, 3]]}), [[12, 12]])
            assert session.run(tf.global_variables()[2]) == 3.0
        # The imported graph can be exported again and trained.
        again = tf.train.export_meta_graph()
        assert sorted(again.collection_def) == sorted(made.collection_def)
        assert tf.gradients(y, w) != [None]


def test_scopes_and_devices():
    _model()
    made = tf.train.export_meta_graph(clear_devices=True)
    assert not any(node.device for node in made.graph_def.node)
    made = tf.MetaGraphDef.FromString(
        tf.train.export_meta_graph().SerializeToString())
    with tf.Graph().as_default() as graph:
        tf.constant(1.0, name="inner/first")
        tf.train.import_meta_graph(made, clear_devices=True,
                                   import_scope="inner")
        names = [v.name for v in tf.global_variables()]
        assert [n.split("/")[-1] for n in names] == ["w:0", "b:0", "r:0"]
        # (The saver that it makes reads on the CPU.)
        assert not any(op.device for op in graph.get_operations()
                       if not op.name.startswith("save/"))
        assert tf.get_collection("outputs")[0].name.endswith("/y:0")


def test_unsupported_options_and_bad_files_are_errors(tmp_path):
    with pytest.raises(message.DecodeError):
        tf.MetaGraphDef.FromString(b"\x0a\xff\x01abc")
    path = tmp_path / "model.meta"
    for wrong in (b"nodes {}", b"\xff\xfe"):
        path.write_bytes(wrong)
        with pytest.raises(OSError, match="Cannot parse file .*model.meta"):
            tf.train.import_meta_graph(str(path))
    with pytest.raises(OSError, match="does not exist"):
        tf.train.import_meta_graph(str(tmp_path / "other.meta"))


def test_default_attributes_are_stripped_on_request():
    @tf.Defun(tf.float32)
    def square(x):
        return tf.complex(x, x, name="inner")

    square(tf.constant(1.0, name="one"))
    tf.complex(tf.constant(1.0, tf.float64), tf.constant(1.0, tf.float64),
               name="other")
    made = tf.train.export_meta_graph(strip_default_attrs=True)
    assert made.meta_info_def.stripped_default_attrs
    other, = (n for n in made.graph_def.node if n.name == "other")
    assert other.attr["T"].type == tf.float64
    inner, = (n for f in made.graph_def.library.function for n in f.node_def
              if n.op == "Complex")
    assert "T" not in inner.attr and "Tout" not in inner.attr
    full = tf.train.export_meta_graph()
    assert not full.meta_info_def.stripped_default_attrs
    # Functions are not ops, but the ops of called functions are included.
    ops = meta_graph.stripped_op_list_for_graph(full.graph_def).op
    assert [op.name for op in ops] == ["Complex", "Const"]
    # Their documentation is not.
    assert not any(op.summary or op.description or op.attr[0].description
                   for op in ops)


def test_exported_scope_lists_unbound_inputs(tmp_path, run):
    x = tf.placeholder(tf.float32, [2], name="x")
    with tf.name_scope("part"):
        w = tf.Variable([1.0, 2.0], name="w")
        y = tf.add(x * w, 1.0, name="y")
    tf.add_to_collection("results", y)
    path = str(tmp_path / "part.pbtxt")
    made = tf.train.export_meta_graph(path, export_scope="part", as_text=True)
    names = [n.name for n in made.graph_def.node]
    assert "w" in names and "x" not in names
    assert made.collection_def["unbound_inputs"].bytes_list.value == [b"x"]
    with pytest.raises(ValueError, match="unbound inputs: ..x.."):
        tf.train.import_meta_graph(path)
    tf.train.import_meta_graph(
        path, import_scope="again",
        input_map={"$unbound_inputs_x": tf.constant([3.0, 4.0])})
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        again = tf.get_collection("results", "again")[0]
        assert again.name == "again/y:0"
        assert session.run(again).tolist() == [4, 9]


def test_graph_defs_give_shapes_and_new_nodes():
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    before = x.graph.version
    tf.identity(x, name="y")
    node, = x.graph.as_graph_def(from_version=before, add_shapes=True).node
    shape, = node.attr["_output_shapes"].list.shape
    assert node.name == "y" and [d.size for d in shape.dim] == [-1, 3]


def test_stored_graphs_can_be_frozen(run):
    v = tf.Variable([1.0, 2.0], name="v")
    r = tf.get_variable("r", initializer=3.0, use_resource=True)
    tf.multiply(v.read_value(), r, name="y")
    tf.constant(1.0, name="other")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        frozen = tf.graph_util.convert_variables_to_constants(
            session, session.graph_def, ["y"])
    names = {n.name: n.op for n in frozen.node}
    assert names["v"] == names["r"] == "Const" and "other" not in names
    with tf.Graph().as_default(), tf.Session() as session:
        y, = tf.import_graph_def(frozen, return_elements=["y:0"])
        assert session.run(y).tolist() == [3, 6]
    with pytest.raises(AssertionError, match="nothing is not in graph"):
        tf.graph_util.extract_sub_graph(frozen, ["nothing"])


def test_invalid_imports_are_errors():
    definition = tf.constant(1, name="a").graph.as_graph_def()
    for wrong, told in (
            (dict(graph_def=3), "must be a GraphDef"),
            (dict(graph_def=definition, input_map=[1]), "must be a dictionary"),
            (dict(graph_def=definition, return_elements=[7]),
             "list of strings")):
        with pytest.raises(TypeError, match=told):
            tf.import_graph_def(**wrong)
    with tf.name_scope("outer"):
        tf.train.import_meta_graph(tf.train.export_meta_graph())
    assert tf.get_default_graph().get_operation_by_name("outer/a")


def test_scopes_with_common_prefix_are_distinguished():
    for name in ("a", "ab"):
        with tf.variable_scope(name):
            tf.get_variable("v", initializer=1.0)
    ours = tf.global_variables()
    for scope in ("a", "a/"):
        assert ours[0].to_proto(scope).variable_name == "v:0"
        assert ours[1].to_proto(scope) is None
        made = tf.train.export_meta_graph(export_scope=scope)
        assert "v" in [node.name for node in made.graph_def.node]
        stored, = made.collection_def["trainable_variables"].bytes_list.value
        assert protos.VariableDef.FromString(stored).variable_name == "v:0"


def test_user_defined_collections_round_trip():
    from sluice.framework import registries
    from sluice.framework.protos import NameAttrList

    class Module:
        def __init__(self, name):
            self.name = name

    def to_proto(module, export_scope=None):
        return None if module.name == "none" else NameAttrList(name=module.name)

    registries.register_proto_function(
        "our modules", NameAttrList, to_proto,
        lambda made, import_scope=None: Module(f"{import_scope}/{made.name}"))
    with pytest.raises(KeyError, match="two proto_functions"):
        registries.register_proto_function("our modules")
    with pytest.raises(TypeError, match="to_proto must be callable"):
        registries.register_proto_function("other modules", to_proto=1)
    tf.no_op()
    tf.add_to_collection("our modules", Module("a"))
    tf.add_to_collection("our modules", Module("none"))
    made = tf.train.export_meta_graph()
    with tf.Graph().as_default():
        tf.train.import_meta_graph(made, import_scope="again")
        assert [m.name for m in tf.get_collection("our modules")] == ["again/a"]


def test_a_graph_with_shapes_keeps_its_loops():
    exported = meta_graph
    tf.while_loop(lambda i: i < 3, lambda i: i + 1, [tf.constant(0)])
    made = exported.create_meta_graph_def()
    assert len(made.collection_def["while_context"].bytes_list.value) == 1
    assert "_output_shapes" in made.graph_def.node[0].attr
    other = exported.create_meta_graph_def(collection_list=["losses"])
    assert "while_context" not in other.collection_def


def test_scopes_are_copied():
    with tf.name_scope("a"):
        x = tf.constant(2.0)
        tf.multiply(x, tf.Variable(3.0, name="v"), name="y")
    with pytest.raises(ValueError, match="need to be different"):
        meta_graph.copy_scoped_meta_graph("a", "a")
    assert list(meta_graph.copy_scoped_meta_graph("a", "b")) == ["v:0"]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run("b/y:0") == 6
    source, other = tf.get_default_graph(), tf.Graph()
    copied = meta_graph.copy_scoped_meta_graph("a", "a", to_graph=other)
    assert copied["v:0"].graph is other
    assert "y" in [node.name for node in meta_graph.export_scoped_meta_graph(
        graph_def=source.as_graph_def(), export_scope="b")[0].graph_def.node]


def test_elements_of_an_imported_dataset_are_fed():
    iterator = tf.data.Dataset.range(3).make_one_shot_iterator()
    element = iterator.get_next()
    tf.add(element, 1, name="y")
    made = tf.train.export_meta_graph()
    for scope in (None, "in"):
        prefix = f"{scope}/" if scope else ""
        with tf.Graph().as_default(), tf.Session() as session:
            tf.train.import_meta_graph(made, import_scope=scope)
            # (The step would wait forever.)
            with pytest.raises(tf.errors.FailedPreconditionError,
                               match="whose dataset is not part of the file"):
                session.run(f"{prefix}y:0")
            assert session.run(f"{prefix}y:0",
                               {prefix + element.name: 5}) == 6


def test_ops_of_called_functions_are_listed():
    definition = tf.GraphDef()
    outer, inner = (definition.library.function.add() for _ in range(2))
    outer.signature.name, inner.signature.name = "outer", "inner"
    call = outer.node_def.add(op="StatefulPartitionedCall")
    call.attr["f"].func.name = "inner"
    branches = inner.node_def.add(op="Case")
    branches.attr["branches"].list.func.add(name="last")
    last = definition.library.function.add()
    last.signature.name = "last"
    last.node_def.add(op="Const")
    definition.node.add(op="PartitionedCall").attr["f"].func.name = "outer"
    assert [op.name for op in meta_graph.stripped_op_list_for_graph(
        definition).op] == ["Case", "Const", "PartitionedCall",
                            "StatefulPartitionedCall"]


def test_initial_values_of_parts_belong_to_their_scope():
    with tf.variable_scope("model"):
        tf.get_variable("w", initializer=tf.ones([4, 2]),
                        partitioner=tf.fixed_size_partitioner(2))
    made, _ = meta_graph.export_scoped_meta_graph(export_scope="model")
    assert "unbound_inputs" not in made.collection_def
    assert "w/part_1/PartitionedInitializer/Slice" in {
        n.name for n in made.graph_def.node}
