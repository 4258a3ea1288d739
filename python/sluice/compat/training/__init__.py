"""Monitored sessions and their hooks, checkpoint files, saved models."""
