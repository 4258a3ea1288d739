"""Conversion of ConfigProto to session options, and filling of RunMetadata.

Fields without an equivalent here are kept and have no effect.
"""

import json
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
    options = _core.SessionOptions()
    if config is None:
        return options
    if config.inter_op_parallelism_threads:
        # The caller's thread counts as one. Negative values mean only that one.
        options.inter_op_threads = max(
            config.inter_op_parallelism_threads - 1, 0)
    if config.intra_op_parallelism_threads:
        options.intra_op_threads = config.intra_op_parallelism_threads
    cpus, emulated = devices(config)
    if cpus > 1 or emulated:
        options.use_devices(cpus, emulated, config.emulated_device)
    optimizer = config.graph_options.optimizer_options
    if optimizer.opt_level < optimizer.L1:
        options.constant_folding = optimizer.do_constant_folding
        options.common_subexpressions = (
            optimizer.do_common_subexpression_elimination)
        options.fusion = options.regions = False
    if config.log_device_placement:
        options.log_placement()
    options.batch_frames = config.batch_frames
    options.soft_placement = config.allow_soft_placement
    options.isolated = config.isolate_session_state
    options.device_filters = list(config.device_filters)
    options.cost_model_every = config.graph_options.build_cost_model
    options.cost_model_after = config.graph_options.build_cost_model_after
    if config.cluster_def.job:
        options.cluster = json.dumps({job.name: dict(job.tasks)
                                      for job in config.cluster_def.job})
        # As in TensorFlow, such sessions share no state by default.
        flags = config.experimental
        options.isolated |= (
            not flags.share_session_state_in_clusterspec_propagation)
    return options


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
