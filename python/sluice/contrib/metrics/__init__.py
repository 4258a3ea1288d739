"""Metrics that are updated step by step."""
