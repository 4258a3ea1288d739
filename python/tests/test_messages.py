"""Messages: graphs as data that programs change, in binary and text form."""

import copy
import os
import pickle
import subprocess
import sys

import pytest
from google.protobuf import (
    descriptor_pb2, json_format, message, text_format)

import sluice
import sluice.compat.v1 as tf
from sluice.framework import config as configs, errors, protos


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


def test_messages_round_trip():
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
    assert text_format.Parse(str(node), protos.NodeDef()) == node
    node.attr["f"].i = 3  # Only one field of the AttrValue can be set.
    assert not node.attr["f"].HasField("f") and node != again
    node.ClearField("input")
    assert node.input == []


def test_invalid_field_values_are_errors():
    node = protos.NodeDef()
    with pytest.raises(AttributeError, match="nam"):
        node.nam = "x"
    with pytest.raises(AttributeError, match="repeated"):
        node.input = ["x"]
    with pytest.raises(TypeError):
        node.name = 1
    with pytest.raises(ValueError, match='has no "nam" field'):
        protos.NodeDef(nam="x")
    with pytest.raises(TypeError):
        node.CopyFrom(protos.GraphDef())
    with pytest.raises(AttributeError, match="nearest:.* NodeDef"):
        protos.NodeDeff


def test_text_written_by_others_can_be_read():
    graph = text_format.Parse("""
        # A comment.
        node { name: 'a' op: "Const" input: "b" "c"
               attr < key: "dtype" value { type: DT_INT32 } >
               attr { key: "x" value { list { i: [1, 2] f: 1e-3 } } } }
        versions { producer: 21; min_consumer: 0x2 }""", protos.GraphDef())
    node, = graph.node
    assert node.input == ["bc"] and node.attr["dtype"].type == tf.int32
    assert node.attr["x"].list.i == [1, 2]
    assert graph.versions.producer == 21 and graph.versions.min_consumer == 2
    for wrong in ("node { nam: 'x' }", "\nnode {", "version: x"):
        with pytest.raises(text_format.ParseError):
            text_format.Parse(wrong, protos.GraphDef())


def test_json_is_written_and_read():
    node = protos.NodeDef(name="a", op="B", input=["c"])
    node.attr["type"].type = protos.DT_HALF
    node.attr["many"].list.i.extend([1, 2])
    data = json_format.MessageToDict(node)
    assert data["attr"]["type"] == {"type": "DT_HALF"}
    assert json_format.ParseDict(data, protos.NodeDef()) == node
    config = tf.ConfigProto(allow_soft_placement=True)
    text = json_format.MessageToJson(config, indent=None)
    assert text == '{"allowSoftPlacement": true}'
    assert json_format.Parse(text, tf.ConfigProto()) == config


def test_messages_describe_their_fields():
    fields = tf.GraphDef.DESCRIPTOR.fields_by_name
    assert tf.GraphDef.DESCRIPTOR.full_name == "tensorflow.GraphDef"
    assert {name: fields[name].number for name in fields} == {
        "node": 1, "library": 2, "version": 3, "versions": 4, "debug_info": 5}
    assert fields["node"].message_type is tf.NodeDef.DESCRIPTOR
    attr = tf.AttrValue(i=3)
    (field, value), = attr.ListFields()
    assert (field.name, value, field.containing_oneof.name) == ("i", 3, "value")
    names = tf.RunOptions.TraceLevel.DESCRIPTOR.values_by_name
    assert names["FULL_TRACE"].number == tf.RunOptions.FULL_TRACE == 3
    assert protos.Code.DESCRIPTOR.full_name == "tensorflow.error.Code"
    assert dict(protos.Code.items()) == {
        name: number for name, number in vars(errors).items()
        if name.isupper() and isinstance(number, int)}


def test_data_types_have_tensorflow_numbers():
    for number, name in protos.DataType.items():
        assert protos.DataType.Value(number) == name
    for number in range(1, 24):
        dtype = tf.as_dtype(number)
        assert protos.DataType.Name(number) == "DT_" + {
            "float32": "FLOAT", "float64": "DOUBLE", "float16": "HALF"}.get(
                dtype.name, dtype.name.upper())


def test_invalid_bytes_are_refused():
    good = tf.GraphDef(node=[tf.NodeDef(name="a")]).SerializeToString()
    for cls, wrong in ((tf.GraphDef, good[:-1]), (tf.GraphDef, b"\x0b"),
                       (tf.GraphDef, b"\x0a\x05\x0a\x07"),
                       (tf.TensorProto, b"\x2a\x03abc")):
        with pytest.raises(message.DecodeError):
            cls.FromString(wrong)


def test_unknown_fields_are_preserved():
    data = tf.NodeDef(name="a").SerializeToString() + (
        b"\xa0\x06\x07" b"\xaa\x06\x03xyz")  # Fields 100 and 101.
    node = tf.NodeDef.FromString(data)
    assert node.name == "a" and node.SerializeToString() == data
    graph = tf.GraphDef(node=[node])
    assert data in graph.SerializeToString()
    assert data in copy.deepcopy(graph).SerializeToString()
    node.DiscardUnknownFields()
    assert node == tf.NodeDef(name="a")


def test_deterministic_serialization_is_supported():
    one, two = tf.NodeDef(), tf.NodeDef()
    for name in "abcdefgh":
        one.attr[name].i = 1
    for name in "hgfedcba":
        two.attr[name].i = 1
    assert one == two
    assert (one.SerializeToString(deterministic=True) ==
            two.SerializeToString(deterministic=True))


def test_any_message_may_be_in_a_meta_graph():
    meta = tf.MetaGraphDef()
    meta.meta_info_def.any_info.Pack(tf.NodeDef(name="a"))
    node = tf.NodeDef()
    assert meta.meta_info_def.any_info.Unpack(node) and node.name == "a"


def test_parts_of_messages_are_copied_and_pickled():
    dim = protos.TensorShapeProto.Dim(size=3)
    for again in (copy.copy(dim), copy.deepcopy(dim),
                  pickle.loads(pickle.dumps(dim))):
        assert again == dim and type(again) is protos.TensorShapeProto.Dim
    assert repr(type(dim)) == (
        "<class 'sluice.framework.protos.TensorShapeProto.Dim'>")


# ---- The protobuf package, and messages of other packages --------------------


def _python(program):
    """Runs a program in a new interpreter; returns its output."""
    return subprocess.run(
        [sys.executable, "-c", program], check=True, timeout=60, text=True,
        stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": os.pathsep.join(
            [os.path.dirname(os.path.dirname(sluice._core.__file__)),
             os.environ.get("PYTHONPATH", "")])}).stdout


def test_protobuf_is_imported_lazily():
    assert _python("""if True:
        import sys
        import sluice as sl
        import sluice.compat.v1 as tf
        loaded = lambda: any(m.startswith("google.protobuf")
                             for m in sys.modules)
        x = sl.placeholder(sl.float32, [2])
        v = sl.get_variable("v", [2])
        y = sl.reduce_sum(sl.nn.relu(x * v))
        train = sl.train.AdamOptimizer(0.1).minimize(y)
        with sl.Session() as session:
            session.run(sl.global_variables_initializer())
            session.run(train, {x: [1, 2]})
        print(loaded())
        x.op.node_def
        print(loaded())
        """) == "False\nTrue\n"


def test_missing_protobuf_is_reported():
    out = _python("""if True:
        import sys
        sys.modules["google"] = None
        import sluice.compat.v1 as tf
        x = tf.constant(1.0)
        for need in (lambda: x.graph.as_graph_def(),
                     lambda: tf.train.export_meta_graph(),
                     lambda: tf.GraphDef):
            try:
                need()
            except ImportError as e:
                print(e)
        with tf.Session() as session:
            print(session.run(x))
        """).splitlines()
    for line, who in zip(out, ("as_graph_def", "export_meta_graph",
                               "GraphDef")):
        assert line.startswith(f"{who}: expected the Python package protobuf")
        assert "pip install protobuf" in line
    assert out[3:] == ["1.0"]


# Defines message classes in the default pool, like TensorFlow.
_THEIRS = """
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

pool = descriptor_pool.Default()
file = descriptor_pb2.FileDescriptorProto(
    name="tensorflow/core/framework/graph.proto", package="tensorflow")
node = file.message_type.add(name="NodeDef")
for number, name in enumerate(("name", "op"), 1):
    node.field.add(name=name, number=number, label=1, type=9)
file.message_type.add(name="GraphDef").field.add(
    name="node", number=1, label=3, type=11, type_name=".tensorflow.NodeDef")
pool.AddSerializedFile(file.SerializeToString())
made = getattr(message_factory, "GetMessageClass", None) or (
    message_factory.MessageFactory(pool).GetPrototype)
GraphDef = made(pool.FindMessageTypeByName("tensorflow.GraphDef"))
"""
_OURS = """
import sluice.compat.v1 as tf

tf.GraphDef()
"""
_BOTH = """
theirs = GraphDef()
theirs.node.add(name="a", op="NoOp")
assert GraphDef is not tf.GraphDef
a, = tf.import_graph_def(theirs, return_elements=["a"], name="")
part = tf.graph_util.extract_sub_graph(theirs, ["a"])
assert type(part) is tf.GraphDef and part.node[0].name == "a"
tf.test.assert_equal_graph_def(theirs, part)
ours = a.graph.as_graph_def()
theirs.MergeFromString(ours.SerializeToString())
assert [n.op for n in theirs.node] == ["NoOp", "NoOp"]
back = tf.GraphDef.FromString(theirs.SerializeToString())
assert back.versions == ours.versions and len(back.node) == 2
"""


@pytest.mark.parametrize("programs", [(_OURS, _THEIRS), (_THEIRS, _OURS)],
                         ids=["ours first", "theirs first"])
def test_other_tools_may_declare_the_same_messages(programs):
    assert _python("".join(programs) + _BOTH + "print('done')") == "done\n"


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


def test_in_place_change_sets_the_oneof():
    attr = protos.AttrValue(i=3)
    attr.list.i.append(1)
    assert attr.WhichOneof("value") == "list" and not attr.HasField("i")
    assert protos.AttrValue.FromString(attr.SerializeToString()) == attr
    shape = attr.shape  # Reading a field does not set it.
    assert attr.WhichOneof("value") == "list" and attr.list.i == [1]
    shape.dim.add(size=2)
    assert attr.WhichOneof("value") == "shape" and attr.list.i == []
    attr.b = False
    assert attr.WhichOneof("value") == "b" and not attr.HasField("shape")


def test_tensorflow_text_files_can_be_read():
    text = """
        meta_info_def { tags: "serve" function_aliases { key: "f" value: "g" } }
        graph_def {
          node { name: "a" experimental_debug_info {
            original_node_names: "b" } }
          library { function {
            arg_attr { key: 1 value { attr { key: "x" value { i: 2 } } } }
            resource_arg_unique_id { key: 0 value: 5 } } } }
        saver_def { save_tensor_name: "s" max_to_keep: 5 version: V2 }
        signature_def { key: "d" value {
          inputs { key: "x" value { name: "x:0" dtype: DT_FLOAT } }
          method_name: "m" } }
        asset_file_def { tensor_info { name: "f:0" } filename: "words" }"""
    meta = text_format.Parse(text, protos.MetaGraphDef())
    function, = meta.graph_def.library.function
    assert function.arg_attr[1].attr["x"].i == 2
    assert function.resource_arg_unique_id == {0: 5}
    assert meta.signature_def["d"].inputs["x"].WhichOneof("encoding") == "name"
    assert "version: V2" in str(meta)
    assert text_format.Parse(str(meta), protos.MetaGraphDef()) == meta
    assert protos.MetaGraphDef.FromString(meta.SerializeToString()) == meta


# ---- Messages of sessions ----------------------------------------------------


def test_configs_are_copied_completely():
    config = tf.ConfigProto(device_count={"CPU": 2}, device_filters=["/job:w"])
    config.gpu_options.allow_growth = True
    config.graph_options.optimizer_options.opt_level = -1
    copied = tf.ConfigProto()
    copied.CopyFrom(config)
    assert copied == config
    copied.gpu_options.allow_growth = False
    copied.graph_options.optimizer_options.opt_level = 0
    copied.device_count["CPU"] = 3
    copied.device_filters.append("/job:ps")
    assert config.gpu_options.allow_growth and config.device_count["CPU"] == 2
    assert config.graph_options.optimizer_options.opt_level == -1
    assert config.device_filters == ["/job:w"]
    assert copy.deepcopy(config) == config
    merged = tf.ConfigProto(allow_soft_placement=True, device_filters=["a"],
                            gpu_options=tf.GPUOptions(allocator_type="BFC"))
    merged.MergeFrom(config)
    assert merged.allow_soft_placement and merged.gpu_options.allow_growth
    assert merged.gpu_options.allocator_type == "BFC"
    assert merged.device_filters == ["a", "/job:w"]
    with pytest.raises(TypeError):
        config.CopyFrom(tf.RunOptions())


def _configured():
    config = tf.ConfigProto(
        device_count={"CPU": 2}, intra_op_parallelism_threads=3,
        device_filters=["/job:w"], allow_soft_placement=True,
        log_device_placement=True, operation_timeout_in_ms=5000,
        isolate_session_state=True,
        gpu_options=tf.GPUOptions(per_process_gpu_memory_fraction=0.25,
                                  allow_growth=True, visible_device_list="0"))
    options = config.graph_options
    options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    options.optimizer_options.global_jit_level = tf.OptimizerOptions.ON_1
    options.optimizer_options.do_constant_folding = True
    options.rewrite_options.constant_folding = protos.RewriterConfig.OFF
    options.rewrite_options.memory_optimization = protos.RewriterConfig.MANUAL
    options.rewrite_options.optimizers.append("pruning")
    job = config.cluster_def.job.add(name="ps")
    job.tasks[1] = "host:1"
    return config


# The serialization by TensorFlow 2.21.
_CONFIG_BYTES = bytes.fromhex(
    "0a070a034350551002100322062f6a6f623a77320e09000000000000d03f20012a013038"
    "01400152211a0f100118ffffffffffffffffff012801520e18022002a206077072756e69"
    "6e6758882772120a100a027073120a08011206686f73743a317801")
_CONFIG_TEXT = """device_count {
  key: "CPU"
  value: 2
}
intra_op_parallelism_threads: 3
device_filters: "/job:w"
gpu_options {
  per_process_gpu_memory_fraction: 0.25
  allow_growth: true
  visible_device_list: "0"
}
allow_soft_placement: true
log_device_placement: true
graph_options {
  optimizer_options {
    do_constant_folding: true
    opt_level: L0
    global_jit_level: ON_1
  }
  rewrite_options {
    constant_folding: OFF
    memory_optimization: MANUAL
    optimizers: "pruning"
  }
}
operation_timeout_in_ms: 5000
cluster_def {
  job {
    name: "ps"
    tasks {
      key: 1
      value: "host:1"
    }
  }
}
isolate_session_state: true
"""


def test_configs_match_tensorflow_bytes_and_text():
    config = _configured()
    assert config.SerializeToString() == _CONFIG_BYTES
    again = tf.ConfigProto.FromString(_CONFIG_BYTES)
    assert again == config and str(again) == repr(again) == _CONFIG_TEXT
    parsed = tf.ConfigProto()
    assert parsed.ParseFromString(_CONFIG_BYTES) == len(_CONFIG_BYTES)
    assert parsed.cluster_def.job[0].tasks[1] == "host:1"
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE,
                            timeout_in_ms=7)
    assert options.SerializeToString().hex() == "08031007"
    assert str(options) == "trace_level: FULL_TRACE\ntimeout_in_ms: 7\n"
    assert tf.RunOptions.TraceLevel.Name(3) == "FULL_TRACE"
    with tf.Session(config=again) as session:
        assert session.run(tf.constant(2.0) * 3.0) == 6.0
        assert len(session.list_devices()) == 2


def test_flags_of_optimizers_count_at_the_lowest_level():
    config = tf.ConfigProto()
    made = configs.session_options(config)
    assert made.constant_folding and made.common_subexpressions and made.fusion
    flags = config.graph_options.optimizer_options
    flags.opt_level = flags.L0
    made = configs.session_options(config)
    assert not (made.constant_folding or made.common_subexpressions or
                made.fusion or made.regions)
    flags.do_constant_folding = True
    made = configs.session_options(config)
    assert made.constant_folding and not made.common_subexpressions


def test_metadata_are_messages(session):
    x = tf.placeholder(tf.float32, [2], name="x")
    metadata = tf.RunMetadata()
    full = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    session.run(tf.square(x, name="y"), {x: [1.0, 2.0]}, full, metadata)
    again = tf.RunMetadata.FromString(metadata.SerializeToString())
    assert again == metadata
    stats = again.step_stats.dev_stats[0]
    assert stats.device.endswith("CPU:0")
    assert "y" in [n.node_name for n in stats.node_stats]
    assert str(metadata).startswith("step_stats {\n  dev_stats {\n")
    session.run(tf.square(x), {x: [1.0, 2.0]}, run_metadata=metadata)
    assert not metadata.HasField("step_stats") and metadata.wall_nanos > 0


def test_examples_have_one_kind_of_values_in_each_feature():
    example = tf.train.Example()
    feature = example.features.feature
    feature["i"].int64_list.value.extend([1, -2])
    feature["b"].bytes_list.value.append(b"x")
    feature["f"].float_list.value.append(0.5)
    same = tf.train.Example(features=tf.train.Features(feature={
        "i": tf.train.Feature(int64_list=tf.train.Int64List(value=[1, -2])),
        "b": tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"x"])),
        "f": tf.train.Feature(float_list=tf.train.FloatList(value=[0.5]))}))
    assert example == same
    assert tf.train.Example.FromString(
        example.SerializeToString()).features.feature["i"].WhichOneof(
            "kind") == "int64_list"
    # The bytes are those that TensorFlow writes.
    del feature["i"], feature["f"]
    assert example.SerializeToString() == (
        b"\n\x0c\n\n\n\x01b\x12\x05\n\x03\n\x01x")
    steps = tf.train.SequenceExample()
    steps.feature_lists.feature_list["w"].feature.add().int64_list.value.append(
        3)
    assert "feature_list" in str(steps)


def test_features_of_examples_are_tuples():
    assert tf.FixedLenFeature([], tf.int64).default_value is None
    assert tf.io.FixedLenFeature((2,), tf.float32, 1.0) == (
        (2,), tf.float32, 1.0)
    assert tf.VarLenFeature(tf.string).dtype == tf.string
    assert not tf.FixedLenSequenceFeature([], tf.int64).allow_missing
    assert tf.SparseFeature("i", "v", tf.int64, 4)[-1] is False


def test_summaries_are_values_under_tags():
    summary = tf.Summary(value=[tf.Summary.Value(tag="a", simple_value=2)])
    summary.value.add(tag="b").histo.bucket.append(1.0)
    assert summary.value[1].WhichOneof("value") == "histo"
    event = tf.Event(wall_time=1.5, step=3, summary=summary)
    assert event.WhichOneof("what") == "summary"
    assert tf.Event.FromString(event.SerializeToString()) == event
    assert tf.SessionLog(status=tf.SessionLog.STOP).status == 2
    assert tf.train.SaverDef.V2 == 2


def test_graph_equality_ignores_source_lines():
    with tf.Graph().as_default() as one:
        tf.constant(1.0)
    with tf.Graph().as_default() as two:
        tf.constant(1.0)
    assert one.as_graph_def() == two.as_graph_def()
    lines = [graph.as_graph_def(debug_info=True) for graph in (one, two)]
    assert lines[0] != lines[1] and lines[0].debug_info.files == [__file__]
    tf.test.TestCase().assertProtoEqualsVersion(
        str(one.as_graph_def()).partition("versions")[0], two.as_graph_def())
    with two.as_default():
        tf.constant(2.0)
    assert one.as_graph_def() != two.as_graph_def()
