"""Information of a session about steps and devices."""

import numpy as np
import pytest

import sluice.compat.v1 as tf


def test_cost_graph_is_reported_at_the_given_interval():
    x = tf.placeholder(tf.float32, [None, 100], name="x")
    y = tf.exp(x, name="power")
    z = tf.reshape(y, [-1], name="flat")
    total = tf.reduce_sum(z, name="total")
    config = tf.ConfigProto(allow_soft_placement=True)
    config.graph_options.build_cost_model = 3
    config.graph_options.build_cost_model_after = 1
    told = []
    with tf.Session(config=config) as session:
        for step in range(8):
            metadata = tf.RunMetadata()
            session.run(total, {x: np.zeros([10, 100])}, run_metadata=metadata)
            assert metadata.HasField("cost_graph") == bool(
                metadata.step_stats.dev_stats)
            if metadata.HasField("cost_graph"):
                told.append(step)
                graph = metadata.cost_graph
    assert told == [3, 6]
    nodes = {node.name: node for node in graph.node}
    assert [graph.node[n.id].name for n in graph.node] == [
        n.name for n in graph.node]
    power, total = nodes["power"], nodes["total"]
    assert power.device.endswith("/device:CPU:0") and power.compute_cost > 0
    info, = power.output_info
    assert (info.size, info.dtype, info.alias_input_port) == (4000, 1, -1)
    assert [d.size for d in info.shape.dim] == [10, 100]
    assert graph.node[total.input_info[0].preceding_node].name == "flat"


def test_trace_reports_outputs_and_allocations(session):
    x = tf.placeholder(tf.float32, [None])
    y = tf.exp(x, name="power")
    metadata = tf.RunMetadata()
    session.run(y, {x: np.zeros(1000)}, run_metadata=metadata,
                options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE))
    stats, = (s for of in metadata.step_stats.dev_stats
              for s in of.node_stats if s.node_name == "power")
    output, = stats.output
    tensor = output.tensor_description
    assert (output.slot, tensor.dtype) == (0, 1)
    assert [d.size for d in tensor.shape.dim] == [1000]
    assert tensor.allocation_description.requested_bytes == 4000
    assert stats.memory[0].total_bytes >= 4000
    assert 0 < stats.all_end_rel_nanos < 60 * 10**9
    again = tf.RunMetadata.FromString(metadata.SerializeToString())
    assert again.step_stats == metadata.step_stats


def test_unknown_target_is_an_immediate_error():
    with pytest.raises(tf.errors.NotFoundError,
                       match="No session factory registered"):
        tf.Session("INVALID_TARGET")


def test_missing_device_error_lists_available_devices():
    with tf.device("/gpu:0"):
        x = tf.placeholder(tf.float32, name="x")
        y = tf.square(x, name="y")
        v = tf.Variable(2.0)
    with tf.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match=(
                "Cannot assign a device for operation x.*was explicitly "
                "assigned to /device:GPU:0 but available devices are "
                r"\[ /job:localhost/replica:0/task:0/device:CPU:0 \]")):
            session.run(y, {x: 1.0})
    with tf.Session(config=tf.ConfigProto(
            allow_soft_placement=True)) as session:
        session.run(v.initializer)
        assert session.run([y, v], {x: 3.0}) == [9, 2]
