"""Losses, optimizers, learning rates, moving averages."""
