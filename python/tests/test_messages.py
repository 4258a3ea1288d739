"""Messages: graphs as data that programs change, in binary form and as text."""

import copy
import pickle

import pytest

import sluice.compat.v1 as tf
from sluice.framework import messages, protos


def test_nodes_of_a_graph_may_be_changed(run):
    x = tf.constant(2.0, name="x")
    tf.square(x, name="y")
    definition = x.graph.as_graph_def()
    for node in definition.node:
        if node.op == "Square":
            node.op = "Neg"
        node.device = ""
    added = definition.node.add(name="z", op="Identity", input=["y"])
    added.attr["T"].type = tf.float32.as_datatype_enum
    z, = tf.import_graph_def(definition, return_elements=["z:0"])
    assert run(z) == -2


def test_messages_are_as_they_were_stored():
    node = protos.NodeDef(name="a", op="B", input=["c", "^d"])
    node.attr["f"].f = 0.5
    node.attr["l"].list.i.extend([1, -2])
    node.attr["s"].s = b"\x00\xff"
    node.attr["t"].tensor.CopyFrom(tf.make_tensor_proto([1.0, 2.0]))
    node.attr["g"].func.name = "g"
    again = protos.NodeDef.FromString(node.SerializeToString())
    assert again == node and copy.deepcopy(node) == node
    assert pickle.loads(pickle.dumps(node)) == node
    assert node.attr["l"].WhichOneof("value") == "list"
    assert tf.make_ndarray(again.attr["t"].tensor).tolist() == [1, 2]
    assert messages.Parse(str(node), protos.NodeDef()) == node
    node.attr["f"].i = 3  # (One of the fields is set.)
    assert not node.attr["f"].HasField("f") and node != again
    node.ClearField("input")
    assert node.input == []


def test_what_a_field_does_not_take_is_told():
    node = protos.NodeDef()
    with pytest.raises(AttributeError, match="no field \"nam\""):
        node.nam = "x"
    with pytest.raises(AttributeError, match="repeated or composite"):
        node.input = ["x"]
    with pytest.raises(TypeError, match="1 has type int.*string"):
        node.name = 1
    with pytest.raises(ValueError, match='has no "nam" field'):
        protos.NodeDef(nam="x")
    with pytest.raises(TypeError, match="same class"):
        node.CopyFrom(protos.GraphDef())


def test_text_is_read_as_it_is_written_by_others():
    graph = messages.Parse("""
        # A comment.
        node { name: 'a' op: "Const" input: "b" "c"
               attr < key: "dtype" value { type: DT_INT32 } >
               attr { key: "x" value { list { i: [1, 2] f: 1e-3 } } } }
        versions { producer: 21; min_consumer: 0x2 }""", protos.GraphDef())
    node, = graph.node
    assert node.input == ["bc"] and node.attr["dtype"].type == tf.int32
    assert node.attr["x"].list.i == [1, 2]
    assert graph.versions.producer == 21 and graph.versions.min_consumer == 2
    for wrong, told in (("node { nam: 'x' }", 'no field named "nam"'),
                        ("\nnode {", "2: expected"), ("version: x", "kind int"),
                        ("node { name: x }", "quoted string")):
        with pytest.raises(messages.ParseError, match=told):
            messages.Parse(wrong, protos.GraphDef())


def test_shapes_and_types_are_messages_too():
    for dims in (None, [], [2, None]):
        shape = tf.TensorShape(dims)
        assert tf.TensorShape(shape.as_proto())._dims == shape._dims
    assert protos.DataType.Name(1) == "DT_FLOAT" and protos.DT_HALF == 19


class MessageTest(tf.test.TestCase):

    def test_messages_equal_text(self):
        proto = tf.make_tensor_proto(2.0, shape=[3])
        self.assertProtoEquals("""
            dtype: DT_FLOAT tensor_shape { dim { size: 3 } } float_val: 2.0
            """, proto)
        with self.assertRaisesRegex(AssertionError, "DT_INT32"):
            self.assertProtoEquals("dtype: DT_INT32", proto)
