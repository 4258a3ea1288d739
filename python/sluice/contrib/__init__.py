"""Models and additions built from the client: decoders, distributions, slim."""
