"""`tf.distribute` without a distribution strategy: there is one replica."""

import contextlib

from sluice.ops import array_ops


class _Extended:
    """The members of `strategy.extended` that libraries use."""

    def read_var(self, v):
        """Returns the value of a variable."""
        return array_ops.identity(v)


class _DefaultStrategy:
    """The default strategy: one replica, no distribution."""

    num_replicas_in_sync = 1
    extended = _Extended()

    @contextlib.contextmanager
    def scope(self):
        """A context manager without effect."""
        yield self

    def experimental_run_v2(self, fn, args=(), kwargs=None):
        """Calls the function and returns its result."""
        return fn(*args, **(kwargs or {}))

    def experimental_local_results(self, value):
        """Returns the values of all replicas: one."""
        return (value,)


class _ReplicaContext:
    """The context of the only replica."""

    num_replicas_in_sync = 1
    replica_id_in_sync_group = 0

    @property
    def strategy(self):
        """The strategy of this context."""
        return _STRATEGY

    def merge_call(self, merge_fn, args=(), kwargs=None):
        """Calls merge_fn(strategy, *args) with the values of all replicas."""
        return merge_fn(_STRATEGY, *args, **(kwargs or {}))


_STRATEGY, _CONTEXT = _DefaultStrategy(), _ReplicaContext()


def get_strategy():
    """Returns the default strategy."""
    return _STRATEGY


def has_strategy():
    """Returns False."""
    return False


def get_replica_context():
    """Returns the context of the only replica."""
    return _CONTEXT


def in_cross_replica_context():
    """Returns False: programs always run in the replica."""
    return False
