"""What programs import from inside TensorFlow (`tensorflow.python...`)."""
