"""Writes a graph as TensorFlow's GraphDef, reads it and runs it by name.

  python3 graph_io.py [FILE]
"""

import os
import sys

import sluice.compat.v1 as tf

PATH = sys.argv[1] if len(sys.argv) > 1 else "graph.pb"

with tf.Graph().as_default() as graph:
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    w = tf.constant([[1.0], [10], [100]], name="w")
    tf.matmul(x, w, name="y")
    tf.train.write_graph(graph, os.path.dirname(PATH) or ".",
                         os.path.basename(PATH), as_text=False)

with tf.Graph().as_default(), tf.Session() as sess:
    graph_def = tf.GraphDef()
    with tf.gfile.GFile(PATH, "rb") as f:
        graph_def.ParseFromString(f.read())
    tf.import_graph_def(graph_def, name="")
    print("y = %g" % sess.run("y:0", {"x:0": [[1, 2, 3]]}))  # 321
