"""Devices and clusters by name."""

import re



class DeviceSpec:
    """A device's name in its parts, each of which may be left open."""

    _FIELDS = ("job", "replica", "task", "device_type", "device_index")

    def __init__(self, job=None, replica=None, task=None, device_type=None,
                 device_index=None):
        self.job = None if job is None else str(job)
        self.replica = None if replica is None else int(replica)
        self.task = None if task is None else int(task)
        self.device_type = device_type
        self.device_index = None if device_index is None else int(device_index)

    def parse_from_string(self, spec):
        """Takes over the parts that a name has; itself."""
        self.__init__()
        for part in spec.split("/"):
            if not part:
                continue
            named = re.fullmatch(r"(job|replica|task):(.+)", part)
            device = re.fullmatch(r"(?:device:)?([A-Za-z_]+):(\d+|\*)", part)
            if named:
                key, value = named.groups()
                setattr(self, key, value if key == "job" else int(value))
            elif device:
                kind, index = device.groups()
                self.device_type = None if kind == "*" else kind.upper()
                self.device_index = None if index == "*" else int(index)
            else:
                raise ValueError(f"Unknown attribute: '{part}' in '{spec}'")
        return self

    @classmethod
    def from_string(cls, spec):
        """The DeviceSpec of a name like "/job:ps/task:0/device:CPU:0"."""
        return cls().parse_from_string(spec)

    def to_string(self):
        """The name."""
        text = "".join(f"/{key}:{getattr(self, key)}" for key in (
            "job", "replica", "task") if getattr(self, key) is not None)
        if self.device_type is not None:
            index = "*" if self.device_index is None else self.device_index
            text += f"/device:{self.device_type}:{index}"
        return text

    def merge_from(self, dev):
        """Takes over the parts that another has."""
        for field in self._FIELDS:
            value = getattr(dev, field)
            if value is not None:
                setattr(self, field, value)

    def make_merged_spec(self, dev):
        """A new one: the other's parts, and its own where that has none."""
        made = DeviceSpec(*(getattr(self, f) for f in self._FIELDS))
        made.merge_from(dev)
        return made

    def replace(self, **kwargs):
        """A new one with some parts set anew."""
        parts = {f: getattr(self, f) for f in self._FIELDS}
        return DeviceSpec(**{**parts, **kwargs})

    def __eq__(self, other):
        return isinstance(other, DeviceSpec) and (
            self.to_string() == other.to_string())

    def __hash__(self):
        return hash(self.to_string())

    def __repr__(self):
        return f"<DeviceSpec '{self.to_string()}'>"


class ClusterSpec:
    """The addresses of a cluster's tasks, job by job.

    Args:
      cluster: {job: [address]} or {job: {task: address}}, or a ClusterSpec.
    """

    def __init__(self, cluster):
        if isinstance(cluster, ClusterSpec):
            cluster = cluster.as_dict()
        if not isinstance(cluster, dict):
            raise TypeError(f"`cluster` must be a dictionary mapping one or "
                            f"more job names to lists of network addresses, or "
                            f"a `ClusterDef` protocol buffer, got {cluster!r}")
        self._jobs = {}
        for job, tasks in cluster.items():
            if isinstance(tasks, (list, tuple)):
                tasks = dict(enumerate(tasks))
            elif not isinstance(tasks, dict):
                raise TypeError(f"The tasks for job {job!r} must be a list or "
                                f"a dictionary from integers to strings.")
            for i, address in tasks.items():
                if not isinstance(i, int) or not isinstance(address, str):
                    raise TypeError(f"Task address must be bytes or unicode, "
                                    f"got {i!r}: {address!r} of job {job!r}")
            self._jobs[job] = dict(sorted(tasks.items()))

    def as_dict(self):
        """{job: [address]}, or {job: {task: address}} where tasks are
        missing."""
        return {job: list(tasks.values())
                if list(tasks) == list(range(len(tasks))) else dict(tasks)
                for job, tasks in self._jobs.items()}

    @property
    def jobs(self):
        """The names of the jobs."""
        return list(self._jobs)

    def _tasks(self, job):
        try:
            return self._jobs[job]
        except KeyError:
            raise ValueError(f"No such job in cluster: {job!r}") from None

    def num_tasks(self, job_name):
        """How many tasks a job has."""
        return len(self._tasks(job_name))

    def task_indices(self, job_name):
        """The numbers of a job's tasks."""
        return list(self._tasks(job_name))

    def task_address(self, job_name, task_index):
        """Where a task is."""
        tasks = self._tasks(job_name)
        if task_index not in tasks:
            raise ValueError(f"No task with index {task_index!r} in job "
                             f"{job_name!r}")
        return tasks[task_index]

    def job_tasks(self, job_name):
        """The addresses of a job's tasks, None where there is none."""
        tasks = self._tasks(job_name)
        return [tasks.get(i) for i in range(max(tasks, default=-1) + 1)]

    def __bool__(self):
        return bool(self._jobs)

    def __eq__(self, other):
        return isinstance(other, ClusterSpec) and self._jobs == other._jobs

    __hash__ = None

    def __repr__(self):
        jobs = ", ".join(f"{j!r}: {t!r}" for j, t in self.as_dict().items())
        return f"ClusterSpec({{{jobs}}})"


_PS_OPS = ("Variable", "VariableV2", "VarHandleOp")


def replica_device_setter(ps_tasks=0, ps_device="/job:ps",
                          worker_device="/job:worker", merge_devices=True,
                          cluster=None, ps_ops=None, ps_strategy=None):
    """A function for `tf.device` that puts variables on the tasks of a job in
    turn, and all else on a worker. None if there are no such tasks.

    Args:
      ps_tasks: how many tasks hold variables.
      ps_device, worker_device: where they are.
      cluster: a ClusterSpec that tells how many there are.
      ps_ops: the types of operations that hold variables.
      ps_strategy: a function that says for an operation which task it is on.
    """
    if cluster is not None:
        spec = ClusterSpec(cluster)
        job = DeviceSpec.from_string(ps_device).job
        if job not in spec.jobs or not spec.job_tasks(job):
            return None
        ps_tasks = len(spec.job_tasks(job))
    if ps_tasks == 0:
        return None
    of_ps = list(_PS_OPS if ps_ops is None else ps_ops)
    turn = [0]

    def next_task(op):
        turn[0] += 1
        return (turn[0] - 1) % ps_tasks

    which = ps_strategy or next_task

    def device(op):
        current = DeviceSpec.from_string(op.device or "")
        if op.type in of_ps:
            wanted = DeviceSpec.from_string(ps_device)
            if wanted.job and wanted.task is None and (
                    current.job in (None, wanted.job)):
                wanted.task = which(op)
        else:
            wanted = DeviceSpec.from_string(worker_device or "")
        return wanted.make_merged_spec(current).to_string()

    return device


