"""Datasets: input pipelines that are part of the graph."""
