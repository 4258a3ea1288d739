"""Clusters, their servers, and the placement of variables."""

import json
import socket
import threading

from sluice import _core
from sluice.framework import config as configs, protos
from sluice.framework.devices import DeviceSpec


class ClusterSpec:
    """Represents the addresses of a cluster's tasks, grouped by job.

    Args:
      cluster: {job: [address]} or {job: {task: address}}, a ClusterSpec, or a
        ClusterDef.
    """

    def __init__(self, cluster):
        if isinstance(cluster, ClusterSpec):
            cluster = cluster.as_dict()
        elif protos.is_message(cluster, "ClusterDef"):
            cluster = {job.name: dict(job.tasks) for job in cluster.job}
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
            tasks = {int(i) if isinstance(i, str) and i.isdecimal() else i: a
                     for i, a in tasks.items()}
            for i, address in tasks.items():
                if not isinstance(i, int) or not isinstance(address, str):
                    raise TypeError(f"Task address must be bytes or unicode, "
                                    f"got {i!r}: {address!r} of job {job!r}")
            self._jobs[job] = dict(sorted(tasks.items()))

    def as_dict(self):
        """Returns {job: [address]}.

        A job whose task numbers have gaps becomes {task: address}.
        """
        return {job: list(tasks.values())
                if list(tasks) == list(range(len(tasks))) else dict(tasks)
                for job, tasks in self._jobs.items()}

    def as_cluster_def(self):
        """Returns the cluster as a ClusterDef."""
        made = protos.ClusterDef()
        for name, tasks in sorted(self._jobs.items()):
            made.job.add(name=name, tasks=tasks)
        return made

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
        """Returns the number of tasks of a job."""
        return len(self._tasks(job_name))

    def task_indices(self, job_name):
        """Returns the task numbers of a job."""
        return list(self._tasks(job_name))

    def task_address(self, job_name, task_index):
        """Returns the address of a task; ValueError if there is none."""
        tasks = self._tasks(job_name)
        if task_index not in tasks:
            raise ValueError(f"No task with index {task_index!r} in job "
                             f"{job_name!r}")
        return tasks[task_index]

    def job_tasks(self, job_name):
        """Returns the addresses of a job's tasks, with None in the gaps."""
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


def _with_port(address):
    """Returns the address with a port of 0 replaced by a free port."""
    host, _, port = address.rpartition(":")
    if port != "0":
        return address
    with socket.socket() as s:
        s.bind(("", 0))
        return f"{host}:{s.getsockname()[1]}"


class Server:
    """Runs a task of a cluster in this process, on its own threads.

    The task holds variables, runs its part of each step and accepts sessions.

    Args:
      server_or_cluster_def: a ClusterSpec or one of its arguments, such as
        {job: [address]}. The server's own address may have port 0, which
        selects a free port. Alternatively a ServerDef, which supplies the
        defaults of the next four arguments.
      job_name: the task's job. Optional if the cluster has one job.
      task_index: the task's number. Optional if the job has one task.
      protocol: the transport, "grpc" or "ucx".
      config: a ConfigProto. Its device_count sets the number of CPUs and
        emulated devices of the task, its operation_timeout_in_ms the timeout
        of steps whose session and options set none.
      start: whether to start the server immediately.
      plain_beyond_loopback: whether the server may listen on an address that
        other machines can reach. The traffic is not encrypted.
      allow_host_access: whether sessions may run operations on this server
        that access its files or Python functions, such as `tf.py_func`.
      allow_reset: whether any client may clear the default container, or all
        containers, with `tf.Session.reset`.

    The server stops when it is garbage-collected. `join` never returns.
    """

    def __init__(self, server_or_cluster_def, job_name=None, task_index=None,
                 protocol=None, config=None, start=True, *,
                 plain_beyond_loopback=False, allow_host_access=False,
                 allow_reset=False):
        if protos.is_message(server_or_cluster_def, "ServerDef"):
            given = server_or_cluster_def
            job_name = given.job_name or None if job_name is None else job_name
            if task_index is None:
                task_index = given.task_index
            protocol = protocol or given.protocol or None
            config = config or given.default_session_config
            server_or_cluster_def = given.cluster
        cluster = ClusterSpec(server_or_cluster_def)
        if job_name is None:
            if len(cluster.jobs) != 1:
                raise ValueError(f"Must specify `job_name`: the cluster has "
                                 f"the jobs {cluster.jobs}")
            job_name = cluster.jobs[0]
        numbers = cluster.task_indices(job_name)
        if task_index is None:
            if len(numbers) != 1:
                raise ValueError(f"Must specify `task_index`: job {job_name!r} "
                                 f"has {len(numbers)} tasks")
            task_index = numbers[0]
        if protocol not in (None, "grpc", "ucx"):
            raise ValueError(f"protocol: expected 'grpc' or 'ucx', got "
                             f"{protocol!r}")
        jobs = {job: {i: cluster.task_address(job, i)
                      for i in cluster.task_indices(job)}
                for job in cluster.jobs}
        own = _with_port(cluster.task_address(job_name, task_index))
        jobs[job_name][task_index] = own
        self._spec = ClusterSpec(jobs)
        self._target = "grpc://" + own
        self._config = config = config and protos.own(config)
        cpus, emulated = configs.devices(config)
        devices = f"cpu={cpus}"
        if emulated:
            how = config.emulated_device
            devices += f",emu={emulated}" + (f"({how})" if how else "")
        self._args = (json.dumps(jobs), job_name, task_index, devices,
                      protocol or "grpc", bool(plain_beyond_loopback),
                      bool(allow_host_access), bool(allow_reset),
                      max(config.operation_timeout_in_ms, 0) if config else 0)
        self._task = None
        if start:
            self.start()

    def start(self):
        """Starts the task unless it is already running."""
        if self._task is None:
            self._task = _core.RunningTask(*self._args)

    def join(self):
        """Blocks until the process ends, while the server handles requests."""
        threading.Event().wait()

    @property
    def cluster_spec(self):
        """The ClusterSpec of the server's cluster."""
        return self._spec

    @property
    def server_def(self):
        """A ServerDef that describes the server's task and cluster."""
        _, job_name, task_index, _, protocol, *_ = self._args
        return protos.ServerDef(
            cluster=self._spec.as_cluster_def(), job_name=job_name,
            task_index=task_index, protocol=protocol,
            default_session_config=self._config or protos.ConfigProto())

    @property
    def target(self):
        """The target for a Session that connects to it: "grpc://host:port"."""
        return self._target

    @staticmethod
    def create_local_server(config=None, start=True):
        """Starts a cluster of one task on a free port of this machine.

        Its clients may reset it.
        """
        return Server({"localhost": ["localhost:0"]}, protocol="grpc",
                      config=config, start=start, allow_reset=True)


_PS_OPS = ("Variable", "VariableV2", "AutoReloadVariable", "MutableHashTable",
           "MutableHashTableV2", "MutableHashTableOfTensors",
           "MutableHashTableOfTensorsV2", "MutableDenseHashTable",
           "MutableDenseHashTableV2", "VarHandleOp",
           "BoostedTreesEnsembleResourceHandleOp",
           "BoostedTreesQuantileStreamResourceHandleOp",
           "ResourceConditionalAccumulator", "DecisionTreeResource")


def replica_device_setter(ps_tasks=0, ps_device="/job:ps",
                          worker_device="/job:worker", merge_devices=True,
                          cluster=None, ps_ops=None, ps_strategy=None):
    """Returns a device function that distributes variables over a job's tasks.

    Variables are assigned to the tasks in turn; all other operations are
    placed on a worker. Returns None if there are no such tasks.

    Args:
      ps_tasks: the number of tasks that hold variables.
      ps_device: the device of the variables, without a task.
      worker_device: the device of all other operations.
      merge_devices: whether to complete partially specified devices of inner
        device scopes. If false, these devices remain as they are.
      cluster: a ClusterSpec, which replaces `ps_tasks`.
      ps_ops: the op types that hold variables.
      ps_strategy: a function from an operation to its task number.
    """
    if cluster is not None:
        spec = ClusterSpec(cluster)
        job = DeviceSpec.from_string(ps_device).job
        if job not in spec.jobs or not spec.job_tasks(job):
            return None
        ps_tasks = len(spec.job_tasks(job))
    if ps_tasks == 0:
        return None
    if ps_strategy is not None and not callable(ps_strategy):
        raise TypeError("ps_strategy must be callable")
    of_ps = list(_PS_OPS if ps_ops is None else ps_ops)
    turn = [0]

    def next_task(op):
        turn[0] += 1
        return (turn[0] - 1) % ps_tasks

    which = ps_strategy or next_task

    def device(op):
        if op.device and not merge_devices:
            return op.device
        current = DeviceSpec.from_string(op.device or "")
        kind = op.op if protos.is_message(op, "NodeDef") else op.type
        if ps_device and kind in of_ps:
            wanted = DeviceSpec.from_string(ps_device)
            if wanted.job and current.job in (None, wanted.job):
                wanted.task = which(op)
        else:
            wanted = DeviceSpec.from_string(worker_device or "")
        return wanted.make_merged_spec(current).to_string()

    return device
