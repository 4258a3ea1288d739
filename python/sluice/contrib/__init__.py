"""Models and functions built on the client: decoders, distributions, slim."""
