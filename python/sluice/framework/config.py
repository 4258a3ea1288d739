"""Conversion of ConfigProto to session options, and filling of RunMetadata."""

import time

from sluice import _core

# The name of the only device, whose events carry no device name.
_ONLY_DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"


def devices(config):
    """Returns (number of CPUs, number of emulated devices) for a ConfigProto.

    `config` may be None.
    """
    if config is None:
        return 1, 0
    return (max(config.device_count.get("CPU", 1), 1),
            config.device_count.get("EMU", 0))


def session_options(config):
    """Converts a ConfigProto (or None) to SessionOptions."""
    if config is None:
        return _core.SessionOptions()
    return _core.SessionOptions.from_config(config.SerializeToString())


def fill_metadata(metadata, wall_nanos, peak_bytes, live_bytes, chrome_trace,
                  events, graphs, cost_graph):
    """Fills a RunMetadata with the measurements of a step.

    `events` is None unless the step was traced.
    """
    metadata.Clear()
    metadata.wall_nanos = wall_nanos
    metadata.peak_bytes, metadata.live_bytes = peak_bytes, live_bytes
    metadata.chrome_trace = chrome_trace
    if cost_graph:
        metadata.cost_graph.ParseFromString(cost_graph)
    for graph in graphs:
        metadata.partition_graphs.add().ParseFromString(graph)
    if events is None:
        return
    stats = {}
    since_1970 = time.time_ns() - time.monotonic_ns()
    if not events:  # The step ran no kernels.
        metadata.step_stats.dev_stats.add(device=_ONLY_DEVICE)
    for device, *event in events:
        device = device or _ONLY_DEVICE
        if device not in stats:
            stats[device] = metadata.step_stats.dev_stats.add(device=device)
        _add_event(stats[device].node_stats, since_1970, *event)


def _add_event(stats, since_1970, node_name, label, thread_id, start, end,
               allocated, outputs):
    """Adds the NodeExecStats of a kernel."""
    start, end = start + since_1970, end + since_1970
    made = stats.add(
        node_name=node_name, timeline_label=label,
        thread_id=thread_id, all_start_micros=start // 1000,
        all_start_nanos=start, op_end_rel_nanos=end - start,
        all_end_rel_nanos=end - start, op_end_rel_micros=(end - start) // 1000,
        all_end_rel_micros=(end - start) // 1000)
    if allocated:
        made.memory.add(allocator_name="cpu", total_bytes=allocated)
    for slot, (dtype, dims, size) in enumerate(outputs):
        if not dtype:
            continue  # The kernel produced no value for this output.
        tensor = made.output.add(slot=slot).tensor_description
        tensor.dtype = dtype
        for dim in dims:
            tensor.shape.dim.add(size=dim)
        tensor.allocation_description.requested_bytes = size
