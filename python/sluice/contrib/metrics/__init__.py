"""Streaming metrics: `tf.metrics` and `tf.contrib.metrics`."""
