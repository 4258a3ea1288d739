"""Records a step for chrome://tracing or ui.perfetto.dev.

  python3 save_trace.py [FILE]
"""

import json
import sys

import sluice.compat.v1 as tf

PATH = sys.argv[1] if len(sys.argv) > 1 else "trace.json"

tf.set_random_seed(1)
x = tf.random_normal([256, 256])
# A wide layer of independent products, which run in parallel.
branches = [tf.tanh(tf.matmul(x, tf.random_normal([256, 256])))
            for _ in range(8)]
total = tf.reduce_sum(tf.add_n(branches))

with tf.Session() as sess:
    metadata = tf.RunMetadata()
    sess.run(total, options=tf.RunOptions(
        trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata)

with open(PATH, "w") as f:
    f.write(metadata.chrome_trace)
events = json.loads(metadata.chrome_trace)["traceEvents"]
print("%d events in %.3f ms, peak %.1f MB: %s" % (
    len(events), metadata.wall_nanos * 1e-6, metadata.peak_bytes * 1e-6, PATH))
