"""Sessions, which run steps of a graph."""

import os
import threading
import warnings

from sluice import _core
from sluice.client import pipelines, session_ops
from sluice.framework import (
    config as configs, conversion, default_session, devices, errors,
    graph as graphs, members, nest, protos)

_stack = threading.local()  # The sessions entered by with-blocks.


class DeviceAttributes:
    """Describes a device of a session."""

    def __init__(self, name, device_type, memory_limit_bytes, incarnation=0):
        self._name = devices.DeviceSpec.from_string(name).to_string()
        self._type = device_type
        self._limit = memory_limit_bytes
        self._incarnation = incarnation

    @property
    def name(self):
        """The full name: "/job:localhost/replica:0/task:0/device:CPU:0"."""
        return self._name

    @property
    def device_type(self):
        """The type of the device, such as "CPU"."""
        return self._type

    @property
    def memory_limit_bytes(self):
        """The memory limit in bytes; -1 if there is none."""
        return self._limit

    @property
    def incarnation(self):
        """A random number that differs between sessions."""
        return self._incarnation

    def __repr__(self):
        return (f"_DeviceAttributes({self._name}, {self._type}, {self._limit}, "
                f"{self._incarnation})")


_DeviceAttributes = DeviceAttributes


def _as_dict(feed_dict):
    """Converts a feed_dict, given as a mapping or as pairs, to a dict."""
    if feed_dict is None or isinstance(feed_dict, dict):
        return feed_dict
    try:
        return dict(feed_dict)
    except (TypeError, ValueError):
        raise TypeError(f"feed_dict: expected a dict of values by tensor, got "
                        f"{feed_dict!r}") from None


class BaseSession(_core.Session):
    """Runs steps of one graph and owns its variables.

    All methods are thread-safe.
    """

    __getattr__ = members.missing

    def __init__(self, target="", graph=None, config=None, *,
                 batch_frames=False):
        if graph is None:
            graph = graphs.get_default_graph()
        if not isinstance(graph, graphs.Graph):
            raise TypeError(f"graph must be a tf.Graph, but got {graph!r}")
        if config is not None:
            if not protos.is_message(config, "ConfigProto"):
                raise TypeError(f"config must be a tf.ConfigProto, but got "
                                f"{config!r}")
            config = protos.own(config)
        if isinstance(target, bytes):
            target = target.decode()
        if not isinstance(target, str):
            raise TypeError(f"target must be a string, but got {target!r}")
        if target not in ("", "local") and "://" not in target:
            raise errors.NotFoundError(
                None, None, f"target: expected '' or an address such as "
                f"'grpc://host:port', got '{target}'; TensorFlow: No session "
                f"factory registered for the given session options: {{target: "
                f'"{target}"}}')
        if config is not None and config.device_count.get("CPU", 1) < 1:
            raise errors.NotFoundError(
                None, None, "No CPU devices are available in this process")
        options = configs.session_options(config)
        if batch_frames:
            options.batch_frames = True
        super().__init__(graph, "" if target == "local" else target, options,
                         config.operation_timeout_in_ms if config else 0)
        self._graph = graph
        self._target = target
        self._config = config
        self._closed = False
        self._attributes = {}  # DeviceAttributes by device name.
        self._dead_handles = []  # Handles of tensors to be deleted.
        self._pipelines = pipelines.Pipelines(_expand_fetch)

    @property
    def graph(self):
        """The graph of the session."""
        return self._graph

    @property
    def graph_def(self):
        """The graph as a GraphDef."""
        return self._graph.as_graph_def()

    @property
    def sess_str(self):
        """The target that was passed to the constructor."""
        return self._target

    def run(self, fetches, feed_dict=None, options=None, run_metadata=None):
        """Runs the operations that `fetches` depend on; returns their values.

        Args:
          fetches: a Tensor, Operation, Variable, SparseTensor, a name, or
            (nested) lists, tuples and dicts of these. The result has the same
            structure, with None for operations.
          feed_dict: {tensor: value}. Fed tensors are not computed.
          options: a RunOptions. If it has no time limit, the session's
            `operation_timeout_in_ms` applies.
          run_metadata: a RunMetadata to fill in.

        Raises:
          RuntimeError: if the session is closed.
          TypeError, ValueError: if fetches or feeds are invalid.
          errors.OpError: if an operation of the step fails.
          errors.OutOfRangeError: if an iterator of the step is at its end.
          errors.FailedPreconditionError: if one was not initialized.
          KeyboardInterrupt: if Ctrl-C interrupts a step of the main thread.
        """
        self._check_open()
        if not self._graph.version:
            raise RuntimeError("The Session graph is empty. Add operations to "
                               "the graph before calling run().")
        if self._graph._iterators is not None:
            return self._run_with_pipelines(fetches, _as_dict(feed_dict),
                                            options, run_metadata)
        if feed_dict is None and options is None and run_metadata is None:
            return self._run(fetches)
        return self._run(fetches, _as_dict(feed_dict), options, run_metadata)

    def _run_with_pipelines(self, fetches, feed_dict, options, run_metadata):
        """Runs a step of a graph that has iterators of datasets."""
        kind = self._pipelines.kind_of(self._graph, fetches, feed_dict or ())
        if kind is None:
            return self._run(fetches, feed_dict, options, run_metadata)
        self._pipelines.before(self, kind)
        values = self._run(fetches, feed_dict, options, run_metadata)
        self._pipelines.after(kind, feed_dict)
        return values

    def _check_options(self, options, run_metadata):
        """Checks the options of a step; _core calls it. Both may be None."""
        if run_metadata is not None and not isinstance(
                run_metadata, protos.RunMetadata):
            raise TypeError(f"run_metadata must be a tf.RunMetadata, but got "
                            f"{run_metadata!r}")
        if options is None:
            return
        if not protos.is_message(options, "RunOptions"):
            raise TypeError(f"options must be a tf.RunOptions, but got "
                            f"{options!r}")
        config, pool = self._config, options.inter_op_thread_pool
        if pool >= max(len(config.session_inter_op_thread_pool) if config
                       else 0, 1):
            raise errors.InvalidArgumentError(
                None, None, f"Invalid inter_op_thread_pool: {pool}")
        if options.output_partition_graphs and config and (
                config.experimental.disable_output_partition_graphs):
            raise errors.InvalidArgumentError(
                None, None, "RunOptions.output_partition_graphs() is not "
                "supported when disable_output_partition_graphs is true.")

    def _check_open(self):
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")

    def partial_run_setup(self, fetches, feeds=None):
        """Starts a step that is fed in stages.

        Args:
          fetches: everything that any stage fetches.
          feeds: all tensors that any stage feeds.

        Returns:
          A handle for `partial_run`.
        """
        self._check_open()
        if not nest.flatten(fetches):
            raise errors.InvalidArgumentError(
                None, None, "partial_run_setup: specify at least one target to "
                "fetch or execute.")
        tensors = []
        for feed in feeds or []:
            convert = _registered(feed, 2)
            tensors += (conversion.parts if convert is None else convert)(feed)
        tensors = [self._graph.as_graph_element(t, allow_operation=False)
                   for t in tensors]
        if self._graph._iterators is not None:
            kind = self._pipelines.kind_of(self._graph, fetches, tensors)
            if kind is not None:
                self._pipelines.before(self, kind)
                self._pipelines.after(kind, None)
        return self._start_partial_run(fetches, tensors)

    def partial_run(self, handle, fetches, feed_dict=None):
        """Runs a stage of a step and returns the values of `fetches`.

        Args:
          handle: the result of `partial_run_setup`.
          fetches: fetches that were passed to `partial_run_setup`, each at
            most once per step.
          feed_dict: values of feeds that were passed to `partial_run_setup`,
            each at most once per step.
        """
        self._check_open()
        if not isinstance(handle, _core.PartialRun) or (
                handle.session is not self):
            raise errors.InvalidArgumentError(
                None, None, f"handle: expected what partial_run_setup of this "
                f"session gave, got {handle!r}")
        return handle._run(fetches, _as_dict(feed_dict))

    def make_callable(self, fetches, feed_list=None, accept_options=False):
        """Returns a function that runs this step with the lowest overhead.

        The function takes the values of `feed_list` in order, and optionally
        a RunOptions `options` and a RunMetadata `run_metadata`.
        """
        self._check_open()
        if feed_list is not None and not isinstance(feed_list, (list, tuple)):
            raise TypeError("`feed_list` must be a list or tuple.")
        try:
            feeds = [self._graph.as_graph_element(f, allow_operation=False)
                     for f in feed_list or []]
        except TypeError:  # E.g. sparse tensors, which consist of several.
            feed_list = list(feed_list)

            def run_with(*values, options=None, run_metadata=None):
                if len(values) != len(feed_list):
                    raise TypeError(f"callable: expected {len(feed_list)} "
                                    f"values for its feeds, got {len(values)}")
                return self.run(fetches, dict(zip(feed_list, values)), options,
                                run_metadata)

            return run_with
        step = self._make_callable(fetches, feeds)
        if self._graph._iterators is None:
            return step
        kind = self._pipelines.kind_of(self._graph, fetches, feeds)
        if kind is None:
            return step

        def run(*values, options=None, run_metadata=None):
            self._check_open()
            self._pipelines.before(self, kind)
            made = step(*values, options=options, run_metadata=run_metadata)
            self._pipelines.after(kind, dict(zip(feeds, values)))
            return made

        return run

    def _make_callable_from_options(self, callable_options):
        """Returns a function that runs the step of a CallableOptions.

        The function takes the values of `feed` and returns the list of values
        of `fetch`.
        """
        if callable_options.tensor_connection:
            raise errors.UnimplementedError(
                None, None, "tensor_connection: expected none, got "
                f"{len(callable_options.tensor_connection)}; hint: feed the "
                "value that another step fetched")
        step = self.make_callable(
            [list(callable_options.fetch),
             [self._graph.as_graph_element(t, allow_tensor=False)
              for t in callable_options.target]], list(callable_options.feed))
        options = callable_options.run_options

        def run(*values, run_metadata=None):
            return step(*values, options=options, run_metadata=run_metadata)[0]

        return run

    def list_devices(self):
        """Returns the DeviceAttributes of all devices that steps may use."""
        # The memory sizes of other machines are unknown here.
        limit = -1 if self._target else (
            os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        names = self._devices()
        for name in names:
            if name not in self._attributes:
                self._attributes[name] = DeviceAttributes(
                    name, name.rpartition(":")[0].rpartition(":")[2], limit,
                    int.from_bytes(os.urandom(8), "little") >> 1)
        return [self._attributes[name] for name in names]

    def _delete_handle(self, handle):
        """Deletes a tensor that is stored in the session."""
        holder, deleted = session_ops._cached(self._graph, "delete")
        self.run(deleted, {holder: handle})

    def as_default(self):
        """Returns a context manager that makes this the default session."""
        return default_session.AsDefault(self)

    def close(self):
        """Cancels running steps and frees the variables. Later steps fail."""
        if not self._closed:
            self._closed = True
            self._close()

    def __repr__(self):
        return f"<sluice.Session of {self._graph!r}>"


class Session(BaseSession):
    """Runs steps of a graph and keeps its variables.

        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            print(session.run(loss, {x: [[1, 2, 3]]}))

    As a context manager it makes itself and its graph the defaults, and closes
    itself on exit.

    Args:
      target: "" for this process, or a server's target, such as
        "grpc://host:2222".
      graph: a Graph; defaults to the default graph.
      config: a ConfigProto.
      batch_frames: whether instances of one operation, in different iterations
        of a loop and different calls of a recursive function, run as one where
        they can. Results are equal within rounding. (Not in TensorFlow.)

    Raises:
      TypeError: if an argument has a wrong type.
    """

    def __enter__(self):
        if any(entered[0] is self for entered in
               getattr(_stack, "entered", ())):
            raise RuntimeError("Session context managers are not re-entrant. "
                               "Use `Session.as_default()` if you want to "
                               "enter a session multiple times.")
        graph, session = self.graph.as_default(), self.as_default()
        graph.__enter__()
        session.__enter__()
        if not hasattr(_stack, "entered"):
            _stack.entered = []
        _stack.entered.append((self, graph, session))
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        entered = _stack.entered.pop()
        if entered[0] is not self:
            raise RuntimeError("Session context managers: expected to leave "
                               "the one that was entered last")
        entered[2].__exit__()
        entered[1].__exit__()
        self.close()

    @staticmethod
    def reset(target, containers=None, config=None):
        """Clears the state that a cluster keeps between sessions.

        Args:
          target: the target of one of its tasks.
          containers: the containers to clear; None for all. Clearing all
            containers, or the default one (""), must be allowed by the
            cluster's servers (`allow_reset`).
        """
        if not target:
            raise errors.UnimplementedError(
                None, None, "Session.reset: expected the target of a cluster, "
                "got none: a session of this process has its own state, which "
                "ends with it")
        with Session(target, graph=graphs.Graph(), config=config) as session:
            session._reset(list(containers or []))


class InteractiveSession(BaseSession):
    """A session that is the default session until it is closed."""

    _active_session_count = 0

    def __init__(self, target="", graph=None, config=None, *,
                 batch_frames=False):
        super().__init__(target, graph, config, batch_frames=batch_frames)
        if InteractiveSession._active_session_count:
            warnings.warn("An interactive session is already active. This can "
                          "cause out-of-memory errors in some cases. You must "
                          "explicitly call `InteractiveSession.close()` to "
                          "release resources held by the other session(s).")
        InteractiveSession._active_session_count += 1
        self._default = self.as_default()
        self._default.__enter__()
        self._graph_default = None
        if graph is not None:
            self._graph_default = graph.as_default()
            self._graph_default.__enter__()

    def close(self):
        """Closes the session and stops it from being the default."""
        if self._closed:
            return
        super().close()
        InteractiveSession._active_session_count -= 1
        if self._graph_default is not None:
            self._graph_default.__exit__()
        default_session.forget(self)


def _handles_of(session, dtype):
    """Returns a function that makes a TensorHandle of a fetched handle."""
    return lambda values: session_ops.TensorHandle(values[0], dtype, session)


# (type, fetch function, feed functions), the most recent first.
_conversions = []


def register_session_run_conversion_functions(
        tensor_type, fetch_function, feed_function=None,
        feed_function_for_partial_run=None):
    """Registers how sessions convert fetches and feed keys of a type.

    Args:
      tensor_type: the type; ValueError if it is already registered.
      fetch_function: fn(fetch) returns (tensors, function of their values).
      feed_function: fn(feed, value) returns pairs of tensors and values.
      feed_function_for_partial_run: fn(feed) returns the tensors.
    """
    if any(issubclass(tensor_type, known) for known, *_ in _conversions):
        raise ValueError(f"{tensor_type} has already been registered so ignore "
                         f"it.")
    _conversions.insert(0, (tensor_type, fetch_function, feed_function,
                            feed_function_for_partial_run))


def _registered(value, which):
    """Returns the registered function for the value's type, or None."""
    return next((functions[which] for known, *functions in _conversions
                 if isinstance(value, known)), None)


def _expand_fetch(fetch, graph):
    """Expands a fetch of a type that _core does not know.

    Returns:
      (parts, function of their values), or ([one part], None).
    """
    if fetch is None:
        raise TypeError("Fetch argument None has invalid type <class "
                        "'NoneType'> (tf.gradients gives None where ys do not "
                        "depend on an x)")
    if isinstance(fetch, conversion.SparseTensor):
        return (conversion.parts(fetch),
                lambda v: conversion.SparseTensorValue(*v))
    if isinstance(fetch, conversion.IndexedSlices):
        return (conversion.parts(fetch),
                lambda v: conversion.IndexedSlicesValue(*v))
    convert = _registered(fetch, 0)
    if convert is not None:
        parts, contract = convert(fetch)
        return list(parts), contract
    attributes = getattr(type(fetch), "__attrs_attrs__", None)
    if attributes is not None:  # An attrs class.
        return ([getattr(fetch, a.name) for a in attributes],
                lambda v: type(fetch)(*v))
    try:
        return [graph.as_graph_element(fetch)], None
    except TypeError as e:
        raise TypeError(f"Fetch argument {fetch!r} has invalid type "
                        f"{type(fetch)}, must be a string or Tensor. "
                        f"({e})") from None
    except (ValueError, KeyError) as e:
        raise ValueError(f"Fetch argument {fetch!r} cannot be interpreted as a "
                         f"Tensor. ({e.args[0]})") from None


def _pairs(key, keys, values):
    """Returns the pairs (key, value); ValueError if the lengths differ."""
    if len(keys) != len(values):
        raise ValueError(f"feed_dict: expected {len(keys)} values for "
                         f"{key!r}, got {len(values)}")
    return list(zip(keys, values))


def _expand_feed(key, value, graph):
    """Returns [(tensor, value)] for a feed key that _core does not know."""
    if isinstance(key, tuple):
        return _pairs(key, nest.flatten(key), nest.flatten(value))
    convert = _registered(key, 1)
    if convert is not None:
        return list(convert(key, value))
    if isinstance(key, conversion.SparseTensor):
        keys = conversion.parts(key)
        if len(value) == 2 and key.dense_shape.op.type in (
                "Const", "PlaceholderWithDefault"):
            keys = keys[:2]  # A constant shape is not fed.
        return _pairs(key, keys, value)
    if isinstance(key, conversion.IndexedSlices):
        keys = conversion.parts(key)
        return _pairs(key, keys, value[:2] if len(keys) == 2 else value)
    try:
        return [(graph.as_graph_element(key, allow_operation=False), value)]
    except (TypeError, ValueError, KeyError) as e:
        raise TypeError(f"Cannot interpret feed_dict key as Tensor: "
                        f"{e.args[0]}") from None
