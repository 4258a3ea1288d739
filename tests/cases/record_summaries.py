#!/usr/bin/env python3
"""Records the Summary messages of TensorFlow's ops.

  record_summaries.py > summaries.txt     (needs TensorFlow; seeded)

src/ops/io/summary_test.cc reads it; the format: op_cases.py.
"""

import numpy as np

from op_cases import call, case, old, tf, types

RNG = np.random.default_rng(7)

# ---- Numbers

for dtype in types("ScalarSummary"):
    call("ScalarSummary", tf.constant("loss"), tf.cast(3, dtype))
call("ScalarSummary", tf.constant(["a", "b", ""]),
     tf.constant([1.5, np.nan, -np.inf]))
call("ScalarSummary", tf.constant(["a"]), tf.constant(2.5))
call("ScalarSummary", tf.constant("a"), tf.constant([[2.5]]))
call("ScalarSummary", tf.constant("a"), tf.constant([1.0, 2.0]))
call("ScalarSummary", tf.constant(["a", "b"]), tf.constant(1.0))
call("ScalarSummary", tf.constant([], tf.string), tf.constant([], tf.float32))
call("ScalarSummary", tf.constant("d"), tf.constant(1e300, tf.float64))

# ---- Histograms

for dtype in types("HistogramSummary"):
    values = RNG.normal(size=40) * 20
    if np.dtype(dtype).kind == "u":
        values = np.abs(values)
    call("HistogramSummary", tf.constant("h"), tf.constant(values.astype(dtype)))
GROWTH = 1e-12 * 1.1 ** np.arange(0, 770, 7)
for values in ([], [0.0], [-0.0, 0.0], GROWTH, -GROWTH, [1e-300, -1e-300],
               [1e-12, -1e-12], [1e20, -1e20, 1e22, -1e30], [1.7e308, -1.7e308],
               RNG.normal(size=(3, 50)) * 10.0 ** RNG.integers(-13, 20, (3, 50))):
    call("HistogramSummary", tf.constant("h"), tf.constant(values, tf.float64))
for bad in (np.nan, np.inf, -np.inf):
    call("HistogramSummary", tf.constant("h"), tf.constant([1.0, bad]))
call("HistogramSummary", tf.constant(["h"]), tf.constant([1.0]))

# ---- Images


def images(tag, tensor, **attrs):
    """A case of ImageSummary, which TensorFlow runs in graphs only."""
    case("ImageSummary", [("tag", tf.constant(tag)), ("tensor", tensor)],
         fresh=True, **attrs)


for dtype in types("ImageSummary"):
    for channels in (1, 3, 4):
        pixels = RNG.uniform(0, 200, (2, 3, 5, channels)).astype(dtype)
        images("i", tf.constant(pixels))
        if np.dtype(dtype).kind == "f":
            images("i", tf.constant(pixels - dtype(90)))
            images("i", tf.constant((pixels / dtype(1000)).astype(dtype)))
            bad = pixels.copy()
            bad[0, 1, 2, channels - 1] = np.nan
            bad[1, 0, 0, 0] = -np.inf
            images("i", tf.constant(bad))
PIXELS = RNG.uniform(-1, 1, (4, 2, 2, 3)).astype(np.float32)
for most in (1, 2, 3, 10):
    images("m", tf.constant(PIXELS), max_images=most)
images("z", tf.zeros([1, 2, 2, 1]))
images("z", tf.fill([1, 2, 2, 1], 1e-7))
images("n", tf.fill([1, 2, 2, 1], -3.0))
images("z", tf.fill([1, 2, 2, 1], np.float32("nan")))
images("z", tf.zeros([0, 2, 2, 1]))
images("z", tf.zeros([1, 2, 2, 2]))
images("z", tf.zeros([2, 2, 1]))
images(["z"], tf.zeros([1, 2, 2, 1]))

# ---- Sounds

SOUND = RNG.uniform(-1.2, 1.2, (3, 6, 2)).astype(np.float32)
for rate in (44100.0, 8000.0, 11025.4):
    call("AudioSummaryV2", tf.constant("s"), tf.constant(SOUND),
         tf.constant(rate))
call("AudioSummaryV2", tf.constant("s"), tf.constant(SOUND[:, :, 0]),
     tf.constant(8000.0))
call("AudioSummaryV2", tf.constant("s"), tf.constant(SOUND),
     tf.constant(8000.0), max_outputs=1)
call("AudioSummaryV2", tf.constant("s"), tf.constant(SOUND[0, 0]),
     tf.constant(8000.0))
call("AudioSummaryV2", tf.constant("s"), tf.constant(SOUND),
     tf.constant([8000.0]))
call("AudioSummaryV2", tf.constant("s"), tf.constant(SOUND), tf.constant(-1.0))
old("AudioSummary", np.array(b"s", object), SOUND, sample_rate=8000.0)

# ---- Tensors

METADATA = tf.compat.v1.SummaryMetadata(
    display_name="shown", summary_description="said",
    plugin_data={"plugin_name": "text", "content": b"\x01"})
for value in (tf.constant([1.0, 2.0]), tf.constant(3), tf.constant([[True]]),
              tf.constant(["a", "bc"]), tf.constant(1 + 2j),
              tf.zeros([0, 3], tf.int64), tf.constant(2.5, tf.bfloat16)):
    for metadata in ("", METADATA.SerializeToString()):
        call("TensorSummaryV2", tf.constant("t"), value, tf.constant(metadata))
call("TensorSummaryV2", tf.constant(["t"]), tf.constant(1), tf.constant(""))
# (TensorFlow ignores metadata that cannot be parsed; here they are an error.)

# (In a graph, where its node has the op's name.)
case("TensorSummary", [("tensor", tf.constant([1.5, 2.0]))], fresh=True)

# ---- Merging

A = tf.raw_ops.ScalarSummary(tags=["a"], values=[1.0])
B = tf.raw_ops.ScalarSummary(tags=["b", "c"], values=[1.0, 2.0])
for inputs in ([A], [A, B], [A, A], [tf.stack([A, B])], [tf.constant("")],
               [tf.constant("\x03")]):
    call("MergeSummary", inputs)
