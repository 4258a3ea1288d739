"""Graphs called by name: Defun, tf.function, gradients of your own."""
