"""Runs a program that was written for TensorFlow 1: `python -m sluice.run`."""

from sluice.compat.imports import install, main  # noqa: F401

if __name__ == "__main__":
    main()
