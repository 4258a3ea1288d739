"""Functions that build operations."""
