"""Traces of steps for chrome://tracing and ui.perfetto.dev.

Programs for TensorFlow make one from a StepStats. `RunMetadata.chrome_trace` is
an alternative.
"""

import json


class Timeline:
    """The kernels of a step by device and thread."""

    def __init__(self, step_stats, graph=None):
        self._step_stats = step_stats

    def generate_chrome_trace_format(self, show_dataflow=True, show_memory=False,
                                     op_time="schedule"):
        """Returns the trace as JSON.

        The arguments have no effect, because a StepStats has neither edges nor
        memory regions.
        """
        events = []
        for process, device in enumerate(self._step_stats.dev_stats):
            events.append({"ph": "M", "pid": process, "name": "process_name",
                           "args": {"name": f"{device.device} Compute"}})
            for node in device.node_stats:
                op, _, shapes = node.timeline_label.rpartition(
                    " = ")[2].partition(": ")
                events.append({
                    "ph": "X", "cat": "Op", "pid": process,
                    "tid": node.thread_id, "name": op or node.node_name,
                    "ts": node.all_start_nanos / 1000,
                    "dur": node.all_end_rel_nanos / 1000,
                    "args": {"name": node.node_name, "op": op,
                             "outputs": shapes}})
        return json.dumps({"traceEvents": events})
