"""Functions of the graph: Defun, tf.function and custom gradients."""
