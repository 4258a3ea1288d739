"""TensorFlow's TestCase and gradient checks."""
