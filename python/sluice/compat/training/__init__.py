"""Sessions that are monitored, checkpoints, saved models."""
