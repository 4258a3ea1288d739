"""Trained networks for inference in int8."""

from typing import NamedTuple

from sluice.framework import protos


class QuantizedGraph(NamedTuple):
    """What `quantize_graph` gives; the names are those of tensors."""

    graph_def: "protos.GraphDef"
    feeds: list
    fetches: list
    quantized: list
    kept: list


def quantize_graph(session, feeds, fetches, calibration, percentile=1.0,
                   keep_float=()):
    """The part of the session's graph that computes `fetches`, in int8.

        small = tf.quantization.quantize_graph(sess, [x], [scores],
                                               [[batch] for batch in batches])
        with tf.Graph().as_default():
            scores, = tf.import_graph_def(small.graph_def,
                                          return_elements=small.fetches)

    Variables become constants of the values that they have now. Conv2D and
    MatMul with constant weights are int8 ops then, with their bias and ReLU;
    what is between them stays in bytes where it can. All else is as it was.

    Args:
      session: has the variables.
      feeds: tensors; they are the placeholders of the new graph.
      fetches: tensors, or one.
      calibration: steps, each a list of values for `feeds`; the ranges of
        activations come from them.
      percentile: the part of the absolute values of an activation that its
        range covers.
      keep_float: Conv2D and MatMul operations, or their names, that stay float.

    Returns:
      A QuantizedGraph: `graph_def`, the names of its `feeds` and `fetches`, the
      names of what is int8 now, and "name: why" of the layers that are not.
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
