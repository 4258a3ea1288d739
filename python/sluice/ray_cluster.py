"""A cluster whose tasks are actors of Ray.

    ray.init()
    with RayCluster("ps=1,worker=2") as cluster:
        with tf.Session(cluster.target) as session:
            ...
        cluster.run(train, job="worker")  # train(task) in each worker's actor.

The description is that of `sluice launch`: a file, its contents, a dict, or
"JOB=COUNT,...". Ray (`pip install ray`) is only needed once this is used.
"""

import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading

from sluice import _core
from sluice.client.cluster import ClusterSpec


# Seconds for an answer of an actor, and so for what a shutdown waits for.
_PATIENCE = 30


class LaunchJob:
    """A job of a description: its name, count, flags and command."""

    def __init__(self, name, count, flags=(), command=()):
        self.name, self.count = name, count
        self.flags, self.command = list(flags), list(command)


class LaunchSpec:
    """The description of a cluster that `sluice launch` takes too.

    Args:
      description: a path, JSON, a dict, or "ps=1,worker=3".

    Raises:
      ValueError: if something in it is wrong; the message says what.
    """

    def __init__(self, description):
        if isinstance(description, str):
            description = self._read(description)
        if not isinstance(description, dict):
            raise ValueError(f"launch: expected an object {{'jobs': ...}}, got "
                             f"{description!r}")
        self.name = "sluice"
        self.jobs, self.flags, self.program = [], [], []
        self.environment = {}
        for key, value in description.items():
            if key == "name" and isinstance(value, str):
                self.name = value
            elif key == "jobs" and isinstance(value, dict):
                self.jobs = [self._job(n, job) for n, job in value.items()]
            elif key in ("flags", "program"):
                setattr(self, key, self._words(value, key))
            elif key == "environment" and isinstance(value, dict):
                for name, text in value.items():
                    if not isinstance(name, str) or not re.fullmatch(
                            r"[A-Za-z_][A-Za-z0-9_]*", name):
                        raise ValueError(f"launch: expected letters, digits "
                                         f"and '_' in the name of a variable "
                                         f"of the environment, got {name!r}")
                    if not isinstance(text, str) or "\0" in text:
                        raise ValueError(f"launch: expected a string as "
                                         f"variable {name!r}, got {text!r}")
                self.environment = dict(value)
            else:
                raise ValueError(f"launch: expected name, jobs, flags, "
                                 f"environment and program, got {key!r}: "
                                 f"{value!r}")
        if not self.jobs:
            raise ValueError("launch: expected at least one job, got none")

    @staticmethod
    def _read(text):
        if re.fullmatch(r"[A-Za-z]\w*=\d+(,[A-Za-z]\w*=\d+)*", text,
                        re.ASCII):
            jobs = {}
            for part in text.split(","):
                job, _, count = part.partition("=")
                if job in jobs:
                    raise ValueError(f"launch: expected each job once, got "
                                     f"{job!r} again")
                jobs[job] = int(count)
            return {"jobs": jobs}
        if "{" not in text:
            try:
                with open(text, encoding="utf-8") as file:
                    text = file.read()
            except OSError as e:
                raise ValueError(f"launch: expected a file, JSON or "
                                 f"JOB=COUNT,..., got {text!r}: {e}") from None
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            raise ValueError(f"launch: expected JSON, got "
                             f"{text[:100]!r}") from None

    @staticmethod
    def _words(value, what):
        if (not isinstance(value, (list, tuple))
                or not all(isinstance(w, str) for w in value)):
            raise ValueError(f"launch: expected a list of strings as {what}, "
                             f"got {value!r}")
        return list(value)

    def _job(self, name, value):
        flags, command, count = [], [], value
        if isinstance(value, dict):
            unknown = set(value) - {"count", "flags", "command"}
            if unknown:
                raise ValueError(f"launch: expected count, flags and command "
                                 f"in job {name!r}, got {unknown.pop()!r}")
            count = value.get("count", 0)
            flags = self._words(value.get("flags", []), f"flags of {name!r}")
            command = self._words(value.get("command", []),
                                  f"command of {name!r}")
        if not isinstance(name, str) or not re.fullmatch(
                r"[A-Za-z]\w*", name, re.ASCII):
            raise ValueError(f"launch: expected letters, digits and '_' in the "
                             f"name of a job, got {name!r}")
        if type(count) is not int or not 1 <= count <= 10000:
            raise ValueError(f"launch: expected 1 to 10000 tasks of job "
                             f"{name!r}, got {count!r}")
        return LaunchJob(name, count, flags, command)


def _task_options(flags):
    """Returns the options of a task in a Python process, from worker flags."""
    parser = argparse.ArgumentParser(prog="sluice worker", add_help=False,
                                     allow_abbrev=False)
    parser.add_argument("--devices", default="cpu=1")
    parser.add_argument("--transport", default="grpc")
    for flag in ("plain-beyond-loopback", "allow-host-access", "allow-reset"):
        parser.add_argument("--" + flag, action="store_true")
    parser.error = lambda message: None
    options, unknown = parser.parse_known_args(flags)
    if unknown:
        raise ValueError(f"Ray: expected the flags --devices, --transport, "
                         f"--plain-beyond-loopback, --allow-host-access and "
                         f"--allow-reset of a task, got {unknown[0]!r}")
    return options


class TaskContext:
    """What a function that runs in a task's actor is told.

    Attributes:
      job, index: which task it is.
      target: of the task itself, for a Session.
      cluster: the ClusterSpec.
    """

    def __init__(self, job, index, target, cluster):
        self.job, self.index = job, index
        self.target, self.cluster = target, cluster


class _Task:
    """The actor. Holds the task's server, or the process of its command."""

    def __init__(self, job, index, flags, command, environment):
        self._job, self._index = job, index
        self._flags, self._command = flags, command
        os.environ.update(environment)
        self._server = self._process = None

    def reserve(self, port):
        """Returns this node and an address whose port is free: `port`, or any."""
        import ray
        host = ray.util.get_node_ip_address()
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind((host, port))
            except OSError:
                s.bind((host, 0))
            port = s.getsockname()[1]
        return ray.get_runtime_context().get_node_id(), f"{host}:{port}"

    def start(self, jobs):
        self._jobs = jobs
        if self._command:
            task = {"type": self._job, "index": self._index}
            environment = dict(
                os.environ, SLUICE_CLUSTER=json.dumps(jobs),
                TF_CONFIG=json.dumps({"cluster": jobs, "task": task}))
            self._process = subprocess.Popen(self._command, env=environment)
            return os.getpid()
        o = _task_options(self._flags)
        beyond = not jobs[self._job][self._index].startswith("127.")
        self._server = _core.RunningTask(
            json.dumps(jobs), self._job, self._index, o.devices, o.transport,
            o.plain_beyond_loopback or beyond, o.allow_host_access,
            o.allow_reset)
        return os.getpid()

    def ended(self):
        """Returns the exit code of the command, or None while it runs."""
        return self._process and self._process.poll()

    def run(self, function, args, kwargs):
        target = "grpc://" + self._jobs[self._job][self._index]
        context = TaskContext(self._job, self._index, target,
                              ClusterSpec(self._jobs))
        return function(context, *args, **kwargs)

    def stop(self, seconds):
        if self._server is not None:
            self._server.stop()
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(seconds)
            except subprocess.TimeoutExpired:
                self._process.kill()


class RayCluster:
    """Tasks of a cluster, each in an actor of its own. Ray must be initialised.

    Args:
      description: see LaunchSpec. Of the flags of `sluice worker`, those of
        tf.train.Server apply. A job's command runs in a process of the actor.
      restarts: how often a task whose actor died is started again, at the same
        address if its node is still there, or whose command ended with another
        code than 0. A thread looks for such tasks and reports them on standard
        error.
      options: for ray.remote, such as {"num_cpus": 4}, or {job: {...}} with
        one such dict for each job.

    Attributes:
      target: for a Session: task 0 of chief, master or worker, or the first.
      cluster_spec: the ClusterSpec.
    """

    def __init__(self, description, restarts=0, options=None):
        import ray
        self._ray = ray
        self._spec = LaunchSpec(description)
        for job in self._spec.jobs:
            _task_options(self._spec.flags + job.flags)  # (Errors come early.)
        names = {job.name for job in self._spec.jobs}
        options = options or {}
        per_job = bool(options) and set(options) <= names
        self._options = {n: dict(options.get(n, {}) if per_job else options)
                         for n in names}
        self._jobs_of = {job.name: job for job in self._spec.jobs}
        self._lock = threading.Lock()
        self._actors, self._nodes, self._jobs = {}, {}, {}
        self._left = {}
        self._closed = threading.Event()
        self._watcher = None
        try:
            for job in self._spec.jobs:
                for i in range(job.count):
                    self._actors[job.name, i] = self._actor(job.name, i)
                    self._left[job.name, i] = restarts
            reserved = {k: a.reserve.remote(0) for k, a in self._actors.items()}
            for key, answer in reserved.items():
                node, address = ray.get(answer)
                self._nodes[key] = node
                self._jobs.setdefault(key[0], []).append(address)
            self._warn_of_plain_ports()
            ray.get([a.start.remote(self._jobs)
                     for a in self._actors.values()])
        except BaseException:
            self.shutdown()
            raise
        if restarts or any(job.command for job in self._spec.jobs):
            self._watcher = threading.Thread(target=self._watch, daemon=True)
            self._watcher.start()

    def _warn_of_plain_ports(self):
        for job in self._spec.jobs:
            given = ("--plain-beyond-loopback"
                     in self._spec.flags + job.flags or job.command)
            if not given and any(not address.startswith("127.")
                                 for address in self._jobs[job.name]):
                print("sluice: tasks accept anyone who reaches their ports; "
                      "the flag --plain-beyond-loopback says that this is "
                      "meant", file=sys.stderr)
                return

    def _actor(self, job, index, node=None):
        options = {"num_cpus": 0, **self._options[job]}
        if node is not None:
            strategy = self._ray.util.scheduling_strategies
            options["scheduling_strategy"] = (
                strategy.NodeAffinitySchedulingStrategy(node, soft=False))
        # (Functions that run in a task must not keep `stop` or `ended` waiting.)
        options.setdefault("max_concurrency", 8)
        of = self._jobs_of[job]
        return self._ray.remote(_Task).options(**options).remote(
            job, index, self._spec.flags + of.flags, of.command,
            self._spec.environment)

    def _watch(self):
        done = set()  # Of these nothing more is to be expected.
        while not self._closed.wait(0.5):
            for key in [k for k in self._actors if k not in done]:
                if self._closed.is_set():
                    return
                how = self._end_of(key)
                if how is None or self._closed.is_set():
                    continue
                again = how != "exit code 0" and self._left[key] > 0
                print(f"sluice: task {key[0]}/{key[1]} ended: {how}"
                      f"{': starting it again' if again else ''}",
                      file=sys.stderr)
                if again:
                    self._left[key] -= 1
                    self._start_again(key)
                else:
                    done.add(key)

    def _end_of(self, key):
        """Returns how a task has ended, or None while it runs."""
        try:
            code = self._ray.get(self._actors[key].ended.remote(),
                                 timeout=_PATIENCE)
            return None if code is None else f"exit code {code}"
        except self._ray.exceptions.RayActorError:
            return "its actor died"
        except self._ray.exceptions.RayError:
            return None  # (Busy; it is asked again.)

    def _start_again(self, key):
        job, index = key
        # (Of a command that ended, the actor still lives.)
        self._ray.kill(self._actors[key])
        port = int(self._jobs[job][index].rpartition(":")[2])
        actor = self._actor(job, index, self._nodes[key])
        try:
            for _ in range(50):  # (The old one's port may be in use for a time.)
                if self._closed.is_set():
                    self._ray.kill(actor)
                    return
                _, address = self._ray.get(actor.reserve.remote(port),
                                           timeout=_PATIENCE)
                if address == self._jobs[job][index]:
                    break
                self._closed.wait(0.1)
            self._ray.get(actor.start.remote(self._jobs), timeout=_PATIENCE)
        except self._ray.exceptions.RayError as e:
            print(f"sluice: task {job}/{index} was not started again: {e}",
                  file=sys.stderr)
            self._ray.kill(actor)
            return
        with self._lock:
            self._actors[key] = actor

    @property
    def target(self):
        for job in ("chief", "master", "worker"):
            if job in self._jobs:
                return "grpc://" + self._jobs[job][0]
        return "grpc://" + self._jobs[self._spec.jobs[0].name][0]

    @property
    def cluster_spec(self):
        return ClusterSpec(self._jobs)

    def run(self, function, *args, job=None, **kwargs):
        """Runs function(context, *args) in each task (of a job), at once.

        Returns a list of the results, by job and number.
        """
        return self._ray.get(self.start(function, *args, job=job, **kwargs))

    def start(self, function, *args, job=None, **kwargs):
        """The same without waiting: returns references for ray.get."""
        if job is not None and job not in self._jobs_of:
            raise ValueError(f"job: expected one of {sorted(self._jobs_of)}, "
                             f"got {job!r}")
        with self._lock:
            actors = [a for (of, _), a in self._actors.items()
                      if job in (None, of)]
        return [a.run.remote(function, args, kwargs) for a in actors]

    def kill(self, job, index):
        """Kills a task's actor, as the loss of its machine would."""
        self._ray.kill(self._actors[job, index])

    def shutdown(self, seconds=10):
        """Ends all tasks. Their processes get SIGTERM, and that long to end."""
        self._closed.set()
        if self._watcher is not None:
            self._watcher.join()
            self._watcher = None
        stopping = [a.stop.remote(seconds) for a in self._actors.values()]
        try:
            self._ray.wait(stopping, num_returns=len(stopping),
                           timeout=seconds + 5) if stopping else None
        finally:
            for actor in self._actors.values():
                self._ray.kill(actor)
            self._actors = {}

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.shutdown()
