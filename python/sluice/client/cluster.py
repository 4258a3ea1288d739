"""Clusters, the servers that are their tasks, and placement of variables."""

import json
import socket
import threading

from sluice import _core
from sluice.framework import config as configs, protos
from sluice.framework.devices import DeviceSpec


class ClusterSpec:
    """The addresses of a cluster's tasks, job by job.

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

    def as_cluster_def(self):
        """The cluster as a message."""
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


def _with_port(address):
    """An address whose port, if it is 0, is one that is free now."""
    host, _, port = address.rpartition(":")
    if port != "0":
        return address
    with socket.socket() as s:
        s.bind(("", 0))
        return f"{host}:{s.getsockname()[1]}"


class Server:
    """A task of a cluster in this process, on threads of its own: it holds
    variables, runs its part of steps and takes sessions.

    Args:
      server_or_cluster_def: a ClusterSpec, or what makes one: {job: [address]}.
        Its own address may have port 0, for one that is free. Or a ServerDef,
        which tells what the next four arguments leave out.
      job_name: the task's job. May be left out if there is one.
      task_index: its number. May be left out if the job has one task.
      protocol: "grpc", or "ucx": how values travel.
      config: a ConfigProto; its device_count says how many CPUs and emulated
        devices the task has.
      start: whether it starts at once.
      plain_beyond_loopback: whether it may listen at an address that other
        machines reach. What travels is not encrypted.
      allow_host_access: whether sessions may run operations here that reach
        this process's files or functions, as `tf.py_func` does.
      allow_reset: whether every client may clear the default container, or all
        containers, with `tf.Session.reset`.

    The server stops when it is collected; `join` waits for ever.
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
        addresses = cluster.job_tasks(job_name)
        if task_index is None:
            if len(addresses) != 1:
                raise ValueError(f"Must specify `task_index`: job {job_name!r} "
                                 f"has {len(addresses)} tasks")
            task_index = 0
        if protocol not in (None, "grpc", "ucx"):
            raise ValueError(f"protocol: expected 'grpc' or 'ucx', got "
                             f"{protocol!r}")
        jobs = {job: cluster.job_tasks(job) for job in cluster.jobs}
        for job, tasks in jobs.items():
            if None in tasks:
                raise ValueError(f"cluster: expected the address of every "
                                 f"task, got none for task {tasks.index(None)} "
                                 f"of job {job!r}")
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
                      bool(allow_host_access), bool(allow_reset))
        self._task = None
        if start:
            self.start()

    def start(self):
        """Starts the task if it does not run."""
        if self._task is None:
            self._task = _core.RunningTask(*self._args)

    def join(self):
        """Waits, as a task does that others give its work, until the process
        ends."""
        threading.Event().wait()

    @property
    def cluster_spec(self):
        """The cluster it is a task of."""
        return self._spec

    @property
    def server_def(self):
        """Which task of which cluster it is, as a message."""
        _, job_name, task_index, _, protocol, *_ = self._args
        return protos.ServerDef(
            cluster=self._spec.as_cluster_def(), job_name=job_name,
            task_index=task_index, protocol=protocol,
            default_session_config=self._config or protos.ConfigProto())

    @property
    def target(self):
        """What a Session takes to connect to it: "grpc://host:port"."""
        return self._target

    @staticmethod
    def create_local_server(config=None, start=True):
        """A cluster of one task, at a free port of this machine. Its clients
        may reset it."""
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
    """A function for `tf.device` that puts variables on the tasks of a job in
    turn, and all else on a worker. None if there are no such tasks.

    Args:
      ps_tasks: how many tasks hold variables.
      ps_device, worker_device: where they are.
      merge_devices: whether these fill in what a device within leaves open;
        else one within stays as it is.
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
