"""Losses, optimizers, and what belongs to training loops."""
