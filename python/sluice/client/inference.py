"""Quantization of trained networks for inference in int8."""

from typing import NamedTuple

from sluice.framework import protos


class QuantizedGraph(NamedTuple):
    """The result of `quantize_graph`. Tensors are given by name."""

    graph_def: "protos.GraphDef"
    feeds: list
    fetches: list
    quantized: list
    kept: list


def quantize_graph(session, feeds, fetches, calibration, percentile=1.0,
                   keep_float=()):
    """Returns an int8 version of the subgraph that computes `fetches`.

        small = tf.quantization.quantize_graph(sess, [x], [scores],
                                               [[batch] for batch in batches])
        with tf.Graph().as_default():
            scores, = tf.import_graph_def(small.graph_def,
                                          return_elements=small.fetches)

    Variables become constants with their current values. Conv2D and MatMul
    with constant weights become int8 ops that include their bias and ReLU.
    Activations between these ops remain int8 where possible. All other
    operations are unchanged.

    Args:
      session: the session that holds the variables.
      feeds: a list of tensors, which become placeholders of the new graph.
      fetches: a tensor or a list of tensors.
      calibration: a list of steps, each a list of values for `feeds`, from
        which the ranges of the activations are computed.
      percentile: the fraction of an activation's absolute values that its
        range covers.
      keep_float: Conv2D and MatMul operations, or their names, that remain
        float.

    Returns:
      A QuantizedGraph: the new `graph_def`, the names of its `feeds` and
      `fetches`, the names of the quantized layers, and a "name: reason" string
      for each layer that was not quantized.
    """
    session._check_open()
    one = not isinstance(fetches, (list, tuple))
    edges = [[session.graph.as_graph_element(t, allow_operation=False)
              for t in ts] for ts in (feeds, [fetches] if one else fetches)]
    made = session._quantize(*edges, [list(step) for step in calibration],
                             percentile, [
                                 session.graph.as_graph_element(
                                     name, allow_tensor=False).name
                                 for name in keep_float])
    return QuantizedGraph(protos.GraphDef.FromString(made[0]), *made[1:])
