"""Minimization of smooth functions by L-BFGS, as one loop in the graph."""

from typing import NamedTuple

from sluice import _core
from sluice.framework import graph as graphs
from sluice.framework.conversion import convert_to_tensor
from sluice.ops import variables


class LbfgsResult(NamedTuple):
    """What `minimize_lbfgs` returns.

    Attributes:
      train: the operation that minimizes, and assigns the variables.
      loss: the loss at the end. Running this or the following tensors without
        `train` minimizes, too, but assigns nothing.
      iterations: the number of iterations, int32.
      evaluations: the number of evaluations of the loss and its gradient,
        int32.
      converged: whether a tolerance was met, bool.
    """

    train: graphs.Operation
    loss: graphs.Tensor
    iterations: graphs.Tensor
    evaluations: graphs.Tensor
    converged: graphs.Tensor


def minimize_lbfgs(loss, var_list=None, max_iterations=100, history=10,
                   gradient_tolerance=1e-5, loss_tolerance=1e-9, max_search=25,
                   name=None):
    """Adds operations that minimize a loss from the variables' values on.

        fit = tf.train.minimize_lbfgs(
            lambda w, b: tf.reduce_mean((x * w + b - y) ** 2), [w, b])
        ...
        _, iterations = session.run([fit.train, fit.iterations])

    One run of `train` goes all the way to the minimum.

    Args:
      loss: a function of the values of the variables, one argument each, that
        returns a scalar of their type. It is called twice, while the graph is
        built, and may use other tensors, whose values stay the same meanwhile.
      var_list: the variables, all float32 or all float64, of known shapes;
        defaults to all trainable variables.
      max_iterations: the largest number of iterations.
      history: the number of pairs of steps and gradient changes to keep.
      gradient_tolerance: it has converged if no element of the gradient is
        larger,
      loss_tolerance: or if the loss fell by less than this part of it (or of 1,
        if it is less than 1).
      max_search: the largest number of evaluations in an iteration.
      name: the name scope of the operations, instead of "lbfgs".

    Returns:
      An `LbfgsResult`.

    Raises:
      ValueError: if there are no variables, if their types or shapes are
        others, or if the loss is not a scalar of their type.
    """
    if var_list is None:
        var_list = variables.trainable_variables()
    with graphs.name_scope(name, "lbfgs", list(var_list)) as scope:
        return LbfgsResult(*_core.minimize_lbfgs(
            scope, lambda values: [convert_to_tensor(loss(*values))],
            [v._handle for v in var_list], max_iterations, history,
            gradient_tolerance, loss_tolerance, max_search))
