"""Runs graphs in Sluice that TensorFlow's tools have rewritten.

    export PYTHONPATH=build/release/python
    python3 python/tools/compare_rewritten.py --tensorflow PYTHON [PROGRAM...]

PYTHON is an interpreter with tensorflow. It builds the programs of
`compare_tensorflow.py` and stores each graph as rewritten by three tools:
`convert_variables_to_constants`, then `optimize_for_inference`, and its graph
optimizer (grappler). Graphs that it cannot rewrite or run are skipped. The exit
status is 1 if any value differs.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import compare_tensorflow


def _rewritten(tf, session, metagraph, fetches, feeds):
    """Returns the session's graph as rewritten by each tool."""
    from tensorflow.python.grappler import tf_optimizer
    from tensorflow.python.tools import optimize_for_inference_lib
    graph, outs = session.graph, [f.op.name for f in fetches]

    def frozen():
        return tf.graph_util.convert_variables_to_constants(
            session, graph.as_graph_def(), outs)

    def for_inference():
        return optimize_for_inference_lib.optimize_for_inference(
            frozen(), [k.op.name for k in feeds], outs,
            [k.dtype.as_datatype_enum for k in feeds])

    def optimized():
        config = tf.ConfigProto()
        config.graph_options.rewrite_options.min_graph_nodes = -1
        return tf_optimizer.OptimizeGraph(config, metagraph)

    for make in (frozen, for_inference, optimized):
        try:
            yield make.__name__, make()
        except Exception as e:
            print(f"not made: {make.__name__}: {str(e)[:80]}")


def _run(tf, graph_def, about, values):
    """Returns the values of a stored graph."""
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def, name="")
        names = {op.name for op in graph.get_operations()}
        with tf.Session(graph=graph) as session:
            if about["init"] in names:
                session.run(about["init"])
            if about["set_weights"] in names:
                session.run(about["set_weights"])
            return session.run(about["fetches"],
                               dict(zip(about["feeds"], values)))


def _build(tf, name, folder):
    """Builds a program in TensorFlow and stores the rewritten graphs.

    Also stores their values in TensorFlow.
    """
    with tf.Graph().as_default() as graph:
        fetches, feeds = compare_tensorflow.PROGRAMS[name](tf)
        fetches = [tf.identity(f) for f in fetches]
        init = tf.global_variables_initializer()
        ops = [op.name for op in graph.get_operations()]
        about = {"fetches": [f.name for f in fetches],
                 "feeds": [k.name for k in feeds], "init": init.name,
                 "set_weights": "set_weights"}
        values = list(feeds.values())
        metagraph = tf.train.export_meta_graph(graph=graph)
        keep = metagraph.collection_def["train_op"].node_list.value
        keep.extend([*about["fetches"], *about["feeds"], init.name])
        with tf.Session(graph=graph) as session:
            session.run(init)
            if "set_weights" in ops:
                keep.append("set_weights")
                session.run("set_weights")
            made = dict(_rewritten(tf, session, metagraph, fetches, feeds))
    for kind, graph_def in made.items():
        path = f"{folder}/{name}.{kind}"
        try:
            compare_tensorflow._store(f"{path}.npz", _run(
                tf, graph_def, about, values))
        except Exception as e:
            print(f"{name}: not run: {kind}: {str(e).splitlines()[0][:80]}")
            continue
        compare_tensorflow._store(f"{path}.feeds.npz", values)
        with open(f"{path}.json", "w", encoding="utf-8") as f:
            json.dump(about, f)
        with open(f"{path}.pb", "wb") as f:
            f.write(graph_def.SerializeToString())


def _tensorflow(work, names):
    """Runs in the other interpreter."""
    import tensorflow.compat.v1 as tf
    tf.disable_v2_behavior()
    tf.disable_control_flow_v2()  # The tools require version 1.
    tf.logging.set_verbosity(tf.logging.ERROR)
    compare_tensorflow._each(lambda name: _build(tf, name, work), names, work)


def _difference(tf, path):
    """Describes how a stored graph differs here; "" if it does not."""
    with open(f"{path}.json", encoding="utf-8") as f:
        about = json.load(f)
    with open(f"{path}.pb", "rb") as f:
        graph_def = tf.GraphDef.FromString(f.read())
    try:
        got = _run(tf, graph_def, about,
                   compare_tensorflow._load(f"{path}.feeds.npz"))
    except Exception as e:
        return f"{type(e).__name__}: {str(e)[:400]}"
    compare_tensorflow._store(f"{path}.here.npz", [np.asarray(v) for v in got])
    lines = [compare_tensorflow._difference(g, w) for g, w in zip(
        compare_tensorflow._load(f"{path}.here.npz"),
        compare_tensorflow._load(f"{path}.npz"))]
    return next(filter(None, lines), "")


def main():
    """Compares the given programs, or all."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--tensorflow", required=True)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("programs", nargs="*")
    args = parser.parse_args()
    names = args.programs or list(compare_tensorflow.PROGRAMS)
    if args.work:
        _tensorflow(args.work, names)
        return 0
    import sluice.compat.v1 as tf
    with tempfile.TemporaryDirectory() as work:
        subprocess.run(
            [args.tensorflow, __file__, "--tensorflow", "", "--work", work,
             *names], check=True, env={
                 **os.environ, "PYTHONPATH": "", "TF_USE_LEGACY_KERAS": "1",
                 "TF_ENABLE_ONEDNN_OPTS": "0", "TF_CPP_MIN_LOG_LEVEL": "3"})
        wrong = compared = 0
        for file in sorted(os.listdir(work)):
            if file.endswith(".pb"):
                compared += 1
                line = _difference(tf, f"{work}/{file[:-3]}")
                if line:
                    wrong += 1
                    print(f"{file[:-3]}: {line}")
        print(f"{compared - wrong} of {compared} graphs alike")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
