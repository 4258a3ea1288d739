"""Sessions, clusters and tools for running graphs."""
