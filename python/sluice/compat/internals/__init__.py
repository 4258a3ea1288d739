"""Modules that programs import from inside TensorFlow (`tensorflow.python`)."""
