"""Messages: graphs as data that programs change, in binary form and as text."""

import copy
import pickle
from concurrent import futures

import pytest

import sluice.compat.v1 as tf
from sluice.framework import message_text, messages, protos, wire
from sluice.framework.config import RewriterConfig


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
    assert message_text.Parse(str(node), protos.NodeDef()) == node
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
    graph = message_text.Parse("""
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
        with pytest.raises(message_text.ParseError, match=told):
            message_text.Parse(wrong, protos.GraphDef())


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


def test_numbers_without_end_are_written_and_read():
    for value, text in ((float("inf"), "inf"), (-float("inf"), "-inf"),
                        (float("nan"), "nan"), (1e20, "1e+20"), (3, "3.0"),
                        (0.1, "0.1"), (1e300, "inf")):
        attr = protos.AttrValue(f=value)
        assert str(attr) == f"f: {text}\n"
        again = message_text.Parse(str(attr), protos.AttrValue())
        assert str(again) == str(attr)


def test_threads_that_look_into_a_graph_see_all_of_it():
    stored = protos.GraphDef(node=[protos.NodeDef(name=str(i))
                                   for i in range(2000)]).SerializeToString()
    with futures.ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            graph = protos.GraphDef.FromString(stored)
            assert set(pool.map(lambda _, g=graph: len(g.node),
                                range(8))) == {2000}


def test_bytes_that_are_no_message_are_refused():
    good = protos.GraphDef(node=[protos.NodeDef(name="a")]).SerializeToString()
    for wrong in (good[:-1], b"\x18" + b"\xff" * 11, b"\x0b", b"\x00",
                  b"\x0a\x05\x0a\x07"):
        with pytest.raises(messages.DecodeError):
            protos.GraphDef.FromString(wrong).node  # (At once, or when it is
            # looked into.)
    for cls, wrong in ((protos.NodeDef, b"\x0a\x01\xff"),
                       (protos.TensorProto, b"\x2a\x03abc"),
                       (protos.NodeDef, b"\x2a\x02\x0a\x05")):
        with pytest.raises(messages.DecodeError):
            cls.FromString(wrong)
    # (A graph that is wrong inside is wrong each time.)
    graph = protos.GraphDef.FromString(good + b"\x0a\x05\x0a\x07abc")
    for _ in range(2):
        with pytest.raises(messages.DecodeError):
            graph.node


def test_messages_in_messages_without_end_are_refused():
    data = b""
    for _ in range(20000):  # (Tensors in variants in tensors.)
        data = wire.field(15, wire.field(3, data))
        if len(data) > 60000:
            break
    with pytest.raises(messages.DecodeError):
        protos.TensorProto.FromString(data)


def test_fields_that_are_not_known_stay_as_they_were_stored():
    data = (wire.number(100, 7) + wire.field(101, b"xyz") +
            wire.fixed(102, "f", 1.5) + wire.fixed(103, "d", 2.5) +
            wire.fixed(1, "f", 2.0))  # (A number in a string's place.)
    assert protos.NodeDef.FromString(data).SerializeToString() == data


def test_equal_graphs_are_equal_however_they_were_stored():
    a, b = wire.field(1, b"\x0a\x01a"), wire.field(4, wire.number(1, 21))
    first, second = map(protos.GraphDef.FromString, (a + b, b + a))
    assert first == second
    assert first != protos.GraphDef.FromString(a)
    assert (protos.MetaGraphDef.FromString(wire.field(2, a + b)) ==
            protos.MetaGraphDef.FromString(wire.field(2, b + a)))


def test_what_is_changed_in_place_is_set_in_place_of_others():
    attr = protos.AttrValue(i=3)
    attr.list.i.append(1)
    assert attr.WhichOneof("value") == "list" and not attr.HasField("i")
    assert protos.AttrValue.FromString(attr.SerializeToString()) == attr
    shape = attr.shape  # (Looking alone sets nothing.)
    assert attr.WhichOneof("value") == "list" and attr.list.i == [1]
    shape.dim.add(size=2)
    assert attr.WhichOneof("value") == "shape" and attr.list.i == []
    attr.b = False
    assert attr.WhichOneof("value") == "b" and not attr.HasField("shape")


def test_lists_and_maps_take_what_their_field_takes():
    node, part = protos.NodeDef(input=["a"]), protos.AttrValue(i=1)
    for change in (lambda: node.input.__setitem__(0, 1),
                   lambda: node.input.__setitem__(slice(0, 1), [1]),
                   lambda: node.input.insert(0, 1),
                   lambda: node.input.__iadd__([1]),
                   lambda: node.attr.update(x=1),
                   lambda: node.attr.setdefault("x", 1),
                   lambda: node.attr.__setitem__("x", 1), lambda: node.attr[1]):
        with pytest.raises(TypeError):
            change()
    assert node == protos.NodeDef(input=["a"])
    node.attr["x"] = part
    inputs = node.input
    inputs += [b"b"]
    part.i = 2  # (What was given was copied.)
    assert node.attr["x"].i == 1 and node.input == ["a", "b"]


def test_integers_have_bounds():
    for message, name, values in (
            (protos.VersionDef(), "producer", (-1 << 31, (1 << 31) - 1)),
            (protos.AttrValue(), "i", (-1 << 63, (1 << 63) - 1)),
            (protos.ResourceHandleProto(), "hash_code", (0, (1 << 64) - 1))):
        for value, beyond in zip(values, (-1, 1)):
            setattr(message, name, value)
            again = type(message).FromString(message.SerializeToString())
            assert getattr(again, name) == value
            with pytest.raises(ValueError, match=f"got {value + beyond}$"):
                setattr(message, name, value + beyond)
    with pytest.raises(message_text.ParseError, match="int32"):
        message_text.Parse("producer: 3000000000", protos.VersionDef())


def test_text_of_tensorflows_files_is_read():
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
    meta = message_text.Parse(text, protos.MetaGraphDef())
    function, = meta.graph_def.library.function
    assert function.arg_attr[1].attr["x"].i == 2
    assert function.resource_arg_unique_id == {0: 5}
    assert meta.signature_def["d"].inputs["x"].WhichOneof("encoding") == "name"
    assert "version: V2" in str(meta)
    assert message_text.Parse(str(meta), protos.MetaGraphDef()) == meta
    assert protos.MetaGraphDef.FromString(meta.SerializeToString()) == meta


# ---- Sessions' messages ------------------------------------------------------


def test_configs_are_copied_with_all_that_is_in_them():
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
    options.rewrite_options.constant_folding = RewriterConfig.OFF
    options.rewrite_options.memory_optimization = RewriterConfig.MANUAL
    options.rewrite_options.optimizers.append("pruning")
    job = config.cluster_def.job.add(name="ps")
    job.tasks[1] = "host:1"
    return config


# What TensorFlow 2.21 makes of it.
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


def test_configs_have_tensorflows_bytes_and_text():
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
    made = config._options()
    assert made.constant_folding and made.common_subexpressions and made.fusion
    flags = config.graph_options.optimizer_options
    flags.opt_level = flags.L0
    made = config._options()
    assert not (made.constant_folding or made.common_subexpressions or
                made.fusion or made.regions)
    flags.do_constant_folding = True
    assert config._options().constant_folding
    assert not config._options().common_subexpressions


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
    assert metadata.ListFields() == [] and metadata.wall_nanos > 0


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
    # (As TensorFlow writes it.)
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


def test_graphs_are_equal_wherever_they_were_written():
    with tf.Graph().as_default() as one:
        tf.constant(1.0)
    with tf.Graph().as_default() as two:
        tf.constant(1.0)
    assert one.as_graph_def() == two.as_graph_def()
    assert (one.as_graph_def().SerializeToString() !=
            two.as_graph_def().SerializeToString())
    tf.test.TestCase().assertProtoEqualsVersion(
        str(one.as_graph_def()).partition("versions")[0], two.as_graph_def())
    with two.as_default():
        tf.constant(2.0)
    assert one.as_graph_def() != two.as_graph_def()
