"""Streaming: statistics over sliding windows of an endless source.

A Python generator yields measurements one by one. A loop in the graph keeps the
last window, which slides by half its length, and emits its mean and maximum.

  python3 streaming.py
"""

import itertools
import math

import sluice as sl

WINDOW, SLIDE, REPORTS = 100, 50, 8


def measurements():
    """Yields values without end."""
    for i in itertools.count():
        yield math.sin(0.01 * i)


def slide(window, values):
    """Returns the next window, and statistics of it."""
    window = sl.concat([window[SLIDE:], values], 0)
    return window, (sl.reduce_mean(window), sl.reduce_max(window))


statistics = (sl.data.Dataset.from_generator(measurements, sl.float32, [])
              .batch(SLIDE, drop_remainder=True)
              .apply(sl.data.experimental.scan(sl.zeros([WINDOW]), slide))
              .skip(1))  # The first window is not full.
following = statistics.make_one_shot_iterator().get_next()

with sl.Session() as session:
    for i in range(REPORTS):
        mean, maximum = session.run(following)
        print(f"values {i * SLIDE:3d} to {i * SLIDE + WINDOW - 1:3d}: mean "
              f"{mean:6.3f}, maximum {maximum:6.3f}")
