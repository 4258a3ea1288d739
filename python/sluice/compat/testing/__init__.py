"""TensorFlow's TestCase, and checks of gradients."""
