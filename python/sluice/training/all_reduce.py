"""Data-parallel training: every member applies the mean of all gradients."""

from sluice.framework import graph as graphs
from sluice.framework.conversion import convert_to_tensor
from sluice.ops import array_ops, collectives, control_flow
from sluice.ops.variables import global_variables
from sluice.training.optimizer import Optimizer


class AllReduceOptimizer(Optimizer):
    """Applies the mean of the gradients of all members of a group.

    Each member builds the same graph, with variables of its own, and runs its
    own steps. Gradients are reduced in buckets, in the order in which they are
    computed, so that the first are sent while later ones are computed. Sparse
    gradients become dense.

    Args:
      opt: the optimizer that applies the means.
      group_size: the number of members.
      group_key: names the group.
      rank: this member's place; -1: in the order of the members' devices.
      bucket_bytes: the size of what is reduced together; 0: each gradient.
      algorithm: as for `collectives.all_reduce`.
      name: the prefix of the nodes' names.
    """

    def __init__(self, opt, group_size, group_key=1, rank=-1,
                 bucket_bytes=4 << 20, algorithm="auto",
                 name="AllReduceOptimizer"):
        super().__init__(False, name)
        self._opt = opt
        self._group = {"group_size": group_size, "group_key": group_key,
                       "rank": rank}
        self._bucket_bytes = bucket_bytes
        self._algorithm = algorithm

    def compute_gradients(self, *args, **kwargs):
        """Returns [(gradient or None, variable)], computed by `opt`."""
        return self._opt.compute_gradients(*args, **kwargs)

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        """Returns an operation that applies the means of all members."""
        return self._opt.apply_gradients(
            self.all_reduce_gradients(grads_and_vars), global_step, name)

    def all_reduce_gradients(self, grads_and_vars):
        """Returns [(mean of the members' gradients or None, variable)]."""
        pairs = [[None if g is None else convert_to_tensor(g), v]
                 for g, v in grads_and_vars]
        numbers = {}
        for g, _ in pairs:
            if g is not None and g.graph not in numbers:
                numbers[g.graph] = {
                    op.name: i for i, op in enumerate(g.graph.get_operations())}
        order = sorted((p for p in pairs if p[0] is not None),
                       key=lambda p: numbers[p[0].graph][p[0].op.name])
        with graphs.name_scope("AllReduceGradients"):
            for bucket in self._buckets(order):
                self._reduce(bucket)
        return [tuple(p) for p in pairs]

    def broadcast_variables(self, root, var_list=None):
        """Returns an operation that gives all members the root's variables.

        Run it in every member at the start, and when the group has been formed
        anew: members may have lost different steps.
        """
        done = []
        for v in global_variables() if var_list is None else var_list:
            value = collectives.broadcast(v, root, **self._group)
            done.append(value.op if root else v.assign(value))
        return control_flow.group(*done)

    def _buckets(self, order):
        buckets, size, closed = [], 0, True
        for pair in order:
            shape = pair[1].shape
            known = shape.is_fully_defined()
            more = shape.num_elements() * pair[0].dtype.size if known else 0
            if (closed or not known or size + more > self._bucket_bytes or
                    buckets[-1][0][0].dtype != pair[0].dtype):
                buckets.append([])
                size = 0
            buckets[-1].append(pair)
            size += more
            closed = not known
        return buckets

    def _reduce(self, bucket):
        def mean(x):
            return collectives.all_reduce(x, reduction="mean",
                                          algorithm=self._algorithm,
                                          **self._group)
        if len(bucket) == 1:
            bucket[0][0] = mean(bucket[0][0])
            return
        sizes = [v.shape.num_elements() for _, v in bucket]
        flat = mean(array_ops.concat(
            [array_ops.reshape(g, [-1]) for g, _ in bucket], 0))
        for pair, part in zip(bucket, array_ops.split(flat, sizes)):
            pair[0] = array_ops.reshape(part, pair[1].shape)
