"""TensorFlow's TestCase and gradient checkers."""
