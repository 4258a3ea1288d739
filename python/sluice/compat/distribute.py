"""What there is without a strategy of distribution: one replica."""

import contextlib

from sluice.ops import array_ops


class _Extended:
    """What libraries ask of a strategy."""

    def read_var(self, v):
        """The value of a variable."""
        return array_ops.identity(v)


class _DefaultStrategy:
    """The strategy of one replica, which changes nothing."""

    num_replicas_in_sync = 1
    extended = _Extended()

    @contextlib.contextmanager
    def scope(self):
        """A with-block like any other."""
        yield self

    def experimental_run_v2(self, fn, args=(), kwargs=None):
        """What the function gives."""
        return fn(*args, **(kwargs or {}))

    def experimental_local_results(self, value):
        """What each replica has of a value."""
        return (value,)


class _ReplicaContext:
    """Where a program is: in the one replica."""

    num_replicas_in_sync = 1
    replica_id_in_sync_group = 0

    @property
    def strategy(self):
        """The strategy that it is of."""
        return _STRATEGY

    def merge_call(self, merge_fn, args=(), kwargs=None):
        """merge_fn(strategy, *args), with the values of all replicas."""
        return merge_fn(_STRATEGY, *args, **(kwargs or {}))


_STRATEGY, _CONTEXT = _DefaultStrategy(), _ReplicaContext()


def get_strategy():
    """The strategy of one replica."""
    return _STRATEGY


def has_strategy():
    """False."""
    return False


def get_replica_context():
    """The one replica's."""
    return _CONTEXT


def in_cross_replica_context():
    """False: programs are in the one replica."""
    return False
