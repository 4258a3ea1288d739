"""Models and functions of `tf.contrib`: decoders, distributions, slim."""
