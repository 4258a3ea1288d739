"""Losses, optimizers, learning rates and moving averages."""
