"""TensorFlow's messages of sessions and steps: how they run, what they cost.

Fields that nothing here asks for are kept, and have no effect.
"""

import json
import time

from sluice import _core
from sluice.framework.messages import enumerate_in
from sluice.framework.protos import (ClusterDef, GraphDef, Message,
                                     TensorShapeProto)


class GPUOptions(Message):
    """Fields for accelerators; without effect on a CPU."""


GPUOptions._declare(
    ("per_process_gpu_memory_fraction", 1, "double"),
    ("allocator_type", 2, "string"), ("deferred_deletion_bytes", 3, "int64"),
    ("allow_growth", 4, "bool"), ("visible_device_list", 5, "string"),
    ("polling_active_delay_usecs", 6, "int32"),
    ("polling_inactive_delay_msecs", 7, "int32"),
    ("force_gpu_compatible", 8, "bool"))


class OptimizerOptions(Message):
    """What is done to a graph before it runs. At `opt_level` L1, the default,
    all of it; at L0 what the flags say."""


OptimizerOptions._declare(
    ("do_common_subexpression_elimination", 1, "bool"),
    ("do_constant_folding", 2, "bool"),
    ("opt_level", 3, enumerate_in(OptimizerOptions, "Level", L1=0, L0=-1)),
    ("do_function_inlining", 4, "bool"),
    ("global_jit_level", 5, enumerate_in(
        OptimizerOptions, "GlobalJitLevel", DEFAULT=0, OFF=-1, ON_1=1,
        ON_2=2)),
    ("max_folded_constant_in_bytes", 6, "int64"), ("cpu_global_jit", 7, "bool"))


class AutoParallelOptions(Message):
    """How a graph is to be made parallel."""


class ScopedAllocatorOptions(Message):
    """Which ops' memory is to be adjacent."""


class RewriterConfig(Message):
    """Which of TensorFlow's optimizers work on a graph; without effect: ours
    have no switches."""


AutoParallelOptions._declare(("enable", 1, "bool"),
                             ("num_replicas", 2, "int32"))
ScopedAllocatorOptions._declare(("enable_op", 1, ["string"]))
enumerate_in(RewriterConfig, "Toggle", DEFAULT=0, ON=1, OFF=2, AGGRESSIVE=3,
           EXPERIMENTAL_MLIR=4, EXPERIMENTAL_BOTH=5)
RewriterConfig._declare(
    *((name, number, RewriterConfig.Toggle) for name, number in (
        ("layout_optimizer", 1), ("constant_folding", 3),
        ("arithmetic_optimization", 7), ("dependency_optimization", 8),
        ("loop_optimization", 9), ("function_optimization", 10),
        ("debug_stripper", 11), ("shape_optimization", 13), ("remapping", 14),
        ("scoped_allocator_optimization", 15),
        ("pin_to_host_optimization", 18), ("implementation_selector", 22),
        ("auto_mixed_precision", 23), ("common_subgraph_elimination", 24),
        ("auto_mixed_precision_mkl", 25), ("use_plugin_optimizers", 28),
        ("auto_mixed_precision_cpu", 29),
        ("experimental_conditional_code_motion", 30),
        ("auto_mixed_precision_onednn_bfloat16", 31))),
    ("disable_model_pruning", 2, "bool"),
    ("memory_optimization", 4, enumerate_in(
        RewriterConfig, "MemOptType", DEFAULT_MEM_OPT=0, NO_MEM_OPT=1, MANUAL=2,
        HEURISTICS=3, SWAPPING_HEURISTICS=4, RECOMPUTATION_HEURISTICS=5,
        SCHEDULING_HEURISTICS=6)),
    ("auto_parallel", 5, AutoParallelOptions),
    ("memory_optimizer_target_node_name_scope", 6, "string"),
    ("meta_optimizer_iterations", 12, enumerate_in(
        RewriterConfig, "NumIterationsType", DEFAULT_NUM_ITERS=0, ONE=1,
        TWO=2)),
    ("scoped_allocator_opts", 16, ScopedAllocatorOptions),
    ("min_graph_nodes", 17, "int32"), ("disable_meta_optimizer", 19, "bool"),
    ("meta_optimizer_timeout_ms", 20, "int64"),
    ("fail_on_optimizer_errors", 21, "bool"),
    ("experimental_disable_compressed_tensor_optimization", 26, "bool"),
    ("experimental_disable_folding_quantization_emulation", 27, "bool"),
    ("disable_tfg_optimizer", 32, "bool"),
    ("cpu_layout_conversion", 50, enumerate_in(
        RewriterConfig, "CpuLayout", NO_CONVERSION_ON_CPU=0, NCHW_TO_NHWC=1,
        NHWC_TO_NCHW=2)),
    ("optimizers", 100, ["string"]))


class GraphOptions(Message):
    """What is done to a graph before it runs."""


GraphOptions._declare(
    ("enable_recv_scheduling", 2, "bool"),
    ("optimizer_options", 3, OptimizerOptions),
    ("build_cost_model", 4, "int64"), ("infer_shapes", 5, "bool"),
    ("place_pruned_graph", 6, "bool"), ("enable_bfloat16_sendrecv", 7, "bool"),
    ("timeline_step", 8, "int32"), ("build_cost_model_after", 9, "int64"),
    ("rewrite_options", 10, RewriterConfig))


class ThreadPoolOptionProto(Message):
    """Threads that sessions share."""


class SessionMetadata(Message):
    """What a session is called."""


ThreadPoolOptionProto._declare(("num_threads", 1, "int32"),
                               ("global_name", 2, "string"))
SessionMetadata._declare(("name", 1, "string"), ("version", 2, "int64"))


class ConfigProto(Message):
    """How a session runs its steps.

    `device_count` may ask for emulated accelerators ("/device:EMU:0") beside
    the CPUs: `device_count={"EMU": 8}`. `emulated_device` says what they are
    like, as "memory=1G,kernel_us=5,tflops=10,MatMul_us=300".
    """

    class Experimental(Message):
        """Fields that may change."""

    def _devices(self):
        """How many CPUs and how many emulated devices there are."""
        return (max(self.device_count.get("CPU", 1), 1),
                self.device_count.get("EMU", 0))

    def _options(self):
        options = _core.SessionOptions()
        if self.inter_op_parallelism_threads:
            # (The caller's thread is one of them; less than one: the only one.)
            options.inter_op_threads = max(
                self.inter_op_parallelism_threads - 1, 0)
        if self.intra_op_parallelism_threads:
            options.intra_op_threads = self.intra_op_parallelism_threads
        cpus, emulated = self._devices()
        if cpus > 1 or emulated:
            options.use_devices(cpus, emulated, self.emulated_device)
        optimizer = self.graph_options.optimizer_options
        if optimizer.opt_level < OptimizerOptions.L1:
            options.constant_folding = optimizer.do_constant_folding
            options.common_subexpressions = (
                optimizer.do_common_subexpression_elimination)
            options.fusion = options.regions = False
        if self.log_device_placement:
            options.log_placement()
        options.soft_placement = self.allow_soft_placement
        options.isolated = self.isolate_session_state
        options.cost_model_every = self.graph_options.build_cost_model
        options.cost_model_after = self.graph_options.build_cost_model_after
        if self.cluster_def.job:
            options.cluster = json.dumps({job.name: dict(job.tasks)
                                          for job in self.cluster_def.job})
            # (As in TensorFlow these share no state, unless told to.)
            flags = self.experimental
            options.isolated |= (
                not flags.share_session_state_in_clusterspec_propagation)
        return options


ConfigProto.Experimental._declare(
    ("collective_group_leader", 1, "string"), ("executor_type", 3, "string"),
    ("recv_buf_max_chunk", 4, "int32"), ("use_numa_affinity", 5, "bool"),
    ("collective_deterministic_sequential_execution", 6, "bool"),
    ("collective_nccl", 7, "bool"),
    ("share_session_state_in_clusterspec_propagation", 8, "bool"),
    ("disable_thread_spinning", 9, "bool"),
    ("share_cluster_devices_in_session", 10, "bool"),
    ("session_metadata", 11, SessionMetadata),
    ("optimize_for_static_graph", 12, "bool"),
    ("enable_mlir_bridge", 13, "bool"),
    ("disable_output_partition_graphs", 14, "bool"),
    ("xla_fusion_autotuner_thresh", 15, "int64"),
    ("enable_mlir_graph_optimization", 16, "bool"))
ConfigProto._declare(
    ("device_count", 1, {"string": "int32"}),
    ("intra_op_parallelism_threads", 2, "int32"),
    ("placement_period", 3, "int32"), ("device_filters", 4, ["string"]),
    ("inter_op_parallelism_threads", 5, "int32"),
    ("gpu_options", 6, GPUOptions), ("allow_soft_placement", 7, "bool"),
    ("log_device_placement", 8, "bool"),
    ("use_per_session_threads", 9, "bool"),
    ("graph_options", 10, GraphOptions),
    ("operation_timeout_in_ms", 11, "int64"),
    ("session_inter_op_thread_pool", 12, [ThreadPoolOptionProto]),
    ("cluster_def", 14, ClusterDef), ("isolate_session_state", 15, "bool"),
    ("experimental", 16, ConfigProto.Experimental),
    ("share_cluster_devices_in_session", 17, "bool"),
    ("pluggable_device_options", 18, GPUOptions),
    ("emulated_device", 10001, "string"))  # (Ours.)


class ServerDef(Message):
    """Which task of which cluster a server is."""


ServerDef._declare(
    ("cluster", 1, ClusterDef), ("job_name", 2, "string"),
    ("task_index", 3, "int32"), ("default_session_config", 4, ConfigProto),
    ("protocol", 5, "string"), ("port", 6, "int32"))


class RunOptions(Message):
    """How a step runs: a time limit, whether it is traced, and whether it tells
    what each device ran."""

    class Experimental(Message):
        """Fields that may change; without effect."""

        class RunHandlerPoolOptions(Message):
            """Whose steps go first."""


RunOptions.Experimental.RunHandlerPoolOptions._declare(
    ("priority", 1, "int64"))
RunOptions.Experimental._declare(
    ("collective_graph_key", 1, "int64"), ("use_run_handler_pool", 2, "bool"),
    ("run_handler_pool_options", 3,
     RunOptions.Experimental.RunHandlerPoolOptions))
RunOptions._declare(
    ("trace_level", 1, enumerate_in(
        RunOptions, "TraceLevel", NO_TRACE=0, SOFTWARE_TRACE=1,
        HARDWARE_TRACE=2, FULL_TRACE=3)),
    ("timeout_in_ms", 2, "int64"), ("inter_op_thread_pool", 3, "int32"),
    ("output_partition_graphs", 5, "bool"),
    ("report_tensor_allocations_upon_oom", 7, "bool"),
    ("experimental", 8, RunOptions.Experimental))


class TensorConnection(Message):
    """A tensor whose value is to be another one's."""


class CallableOptions(Message):
    """What a step is, by names: `Session._make_callable_from_options`."""


TensorConnection._declare(("from_tensor", 1, "string"),
                          ("to_tensor", 2, "string"))
CallableOptions._declare(
    ("feed", 1, ["string"]), ("fetch", 2, ["string"]),
    ("target", 3, ["string"]), ("run_options", 4, RunOptions),
    ("tensor_connection", 5, [TensorConnection]),
    ("feed_devices", 6, {"string": "string"}),
    ("fetch_devices", 7, {"string": "string"}),
    ("fetch_skip_sync", 8, "bool"))


class AllocationRecord(Message):
    """When how much was allocated or freed."""


class AllocatorMemoryUsed(Message):
    """What a kernel allocated."""


class AllocationDescription(Message):
    """The memory of a tensor."""


class TensorDescription(Message):
    """What a tensor is, without its elements."""


class NodeOutput(Message):
    """What a kernel gave as one of its outputs."""


class MemoryStats(Message):
    """What a kernel allocated beside its outputs."""


class NodeExecStats(Message):
    """When a kernel ran, what it gave, and what it allocated."""


class DeviceStepStats(Message):
    """`node_stats`: a NodeExecStats for each kernel that ran on `device`."""


class StepStats(Message):
    """`dev_stats`: a DeviceStepStats for each device of a traced step."""


AllocationRecord._declare(("alloc_micros", 1, "int64"),
                          ("alloc_bytes", 2, "int64"))
AllocatorMemoryUsed._declare(
    ("allocator_name", 1, "string"), ("total_bytes", 2, "int64"),
    ("peak_bytes", 3, "int64"), ("live_bytes", 4, "int64"),
    ("allocator_bytes_in_use", 5, "int64"),
    ("allocation_records", 6, [AllocationRecord]))
AllocationDescription._declare(
    ("requested_bytes", 1, "int64"), ("allocated_bytes", 2, "int64"),
    ("allocator_name", 3, "string"), ("allocation_id", 4, "int64"),
    ("has_single_reference", 5, "bool"), ("ptr", 6, "uint64"))
TensorDescription._declare(
    ("dtype", 1, "enum"), ("shape", 2, TensorShapeProto),
    ("allocation_description", 4, AllocationDescription))
NodeOutput._declare(("slot", 1, "int32"),
                    ("tensor_description", 3, TensorDescription))
MemoryStats._declare(
    ("temp_memory_size", 1, "int64"), ("device_temp_memory_size", 2, "int64"),
    ("persistent_memory_size", 3, "int64"),
    ("device_persistent_memory_size", 4, "int64"),
    ("persistent_tensor_alloc_ids", 5, ["int64"]),
    ("device_persistent_tensor_alloc_ids", 6, ["int64"]))
NodeExecStats._declare(
    ("node_name", 1, "string"), ("all_start_micros", 2, "int64"),
    ("op_start_rel_micros", 3, "int64"), ("op_end_rel_micros", 4, "int64"),
    ("all_end_rel_micros", 5, "int64"), ("memory", 6, [AllocatorMemoryUsed]),
    ("output", 7, [NodeOutput]), ("timeline_label", 8, "string"),
    ("scheduled_micros", 9, "int64"), ("thread_id", 10, "uint32"),
    ("referenced_tensor", 11, [AllocationDescription]),
    ("memory_stats", 12, MemoryStats), ("all_start_nanos", 13, "int64"),
    ("op_start_rel_nanos", 14, "int64"), ("op_end_rel_nanos", 15, "int64"),
    ("all_end_rel_nanos", 16, "int64"), ("scheduled_nanos", 17, "int64"))
DeviceStepStats._declare(
    ("device", 1, "string"), ("node_stats", 2, [NodeExecStats]),
    ("thread_names", 3, {"uint32": "string"}))
StepStats._declare(("dev_stats", 1, [DeviceStepStats]))


class CostGraphDef(Message):
    """What each node of a step cost, as sessions with
    `graph_options.build_cost_model` measure it now and then. Nothing here
    chooses by it."""

    class Node(Message):
        """What one node cost."""

        class InputInfo(Message):
            """Which node's output an input is."""

        class OutputInfo(Message):
            """How large an output is."""

    class AggregatedCost(Message):
        """What all nodes cost."""


CostGraphDef.Node.InputInfo._declare(("preceding_node", 1, "int32"),
                                     ("preceding_port", 2, "int32"))
CostGraphDef.Node.OutputInfo._declare(
    ("size", 1, "int64"), ("alias_input_port", 2, "int64"),
    ("shape", 3, TensorShapeProto), ("dtype", 4, "enum"))
CostGraphDef.Node._declare(
    ("name", 1, "string"), ("device", 2, "string"), ("id", 3, "int32"),
    ("input_info", 4, [CostGraphDef.Node.InputInfo]),
    ("output_info", 5, [CostGraphDef.Node.OutputInfo]),
    ("temporary_memory_size", 6, "int64"), ("is_final", 7, "bool"),
    ("control_input", 8, ["int32"]), ("compute_cost", 9, "int64"),
    ("host_temp_memory_size", 10, "int64"),
    ("device_temp_memory_size", 11, "int64"),
    ("persistent_memory_size", 12, "int64"), ("compute_time", 14, "int64"),
    ("memory_time", 15, "int64"),
    ("device_persistent_memory_size", 16, "int64"), ("inaccurate", 17, "bool"))
CostGraphDef.AggregatedCost._declare(("cost", 1, "float"),
                                     ("dimension", 2, "string"))
CostGraphDef._declare(("node", 1, [CostGraphDef.Node]),
                      ("cost", 2, [CostGraphDef.AggregatedCost]))


# What one device is called, whose events tell no name.
_ONLY_DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"


# What it has beside the fields of the message.
_MEASURED = ("wall_nanos", "peak_bytes", "live_bytes", "chrome_trace")


class RunMetadata(Message):
    """What a step cost; filled in by `Session.run`. Beside the fields of the
    message: `wall_nanos`, `peak_bytes`, `live_bytes`, and of a traced step
    `chrome_trace`, for chrome://tracing."""

    wall_nanos = peak_bytes = live_bytes = 0
    chrome_trace = ""
    _events = None  # Of a traced step, until they are looked at.

    def _fill(self, wall_nanos, peak_bytes, live_bytes, chrome_trace, events,
              graphs, cost_graph):
        self.Clear()
        if cost_graph:
            self.cost_graph.ParseFromString(cost_graph)
        for graph in graphs:
            self.partition_graphs.add().ParseFromString(graph)
        self.__dict__.update(
            wall_nanos=wall_nanos, peak_bytes=peak_bytes, live_bytes=live_bytes,
            chrome_trace=chrome_trace, _events=events)

    def Clear(self):
        """Gives all fields their defaults back."""
        for name in _MEASURED:
            self.__dict__.pop(name, None)
        self.__dict__["_events"] = None
        super().Clear()

    def CopyFrom(self, other):
        """Becomes a copy of another one."""
        super().CopyFrom(other)
        self.__dict__.update({n: getattr(other, n) for n in _MEASURED})

    @property
    def _values(self):
        events, self.__dict__["_events"] = self._events, None
        values = super()._values
        if events is not None:
            devices = {}
            since_1970 = time.time_ns() - time.monotonic_ns()
            if not events:  # (It took no kernels.)
                self.step_stats.dev_stats.add(device=_ONLY_DEVICE)
            for device, *event in events:
                device = device or _ONLY_DEVICE
                if device not in devices:
                    devices[device] = self.step_stats.dev_stats.add(
                        device=device)
                _add_event(devices[device].node_stats, since_1970, *event)
        return values


def _add_event(stats, since_1970, node_name, op, shapes, thread_id, start, end,
               allocated, outputs):
    """Adds a kernel's NodeExecStats."""
    start, end = start + since_1970, end + since_1970
    made = stats.add(
        node_name=node_name, timeline_label=f"{node_name} = {op}: {shapes}",
        thread_id=thread_id, all_start_micros=start // 1000,
        all_start_nanos=start, op_end_rel_nanos=end - start,
        all_end_rel_nanos=end - start, op_end_rel_micros=(end - start) // 1000,
        all_end_rel_micros=(end - start) // 1000)
    if allocated:
        made.memory.add(allocator_name="cpu", total_bytes=allocated)
    for slot, (dtype, dims, size) in enumerate(outputs):
        if not dtype:
            continue  # (It gave nothing there.)
        tensor = made.output.add(slot=slot).tensor_description
        tensor.dtype = dtype
        for dim in dims:
            tensor.shape.dim.add(size=dim)
        tensor.allocation_description.requested_bytes = size


RunMetadata._declare(("step_stats", 1, StepStats),
                     ("cost_graph", 2, CostGraphDef),
                     ("partition_graphs", 3, [GraphDef]),
                     ("session_metadata", 5, SessionMetadata))
