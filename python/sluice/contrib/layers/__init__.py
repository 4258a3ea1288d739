"""Layers of `contrib.layers` and `contrib.slim`, and `arg_scope`."""
