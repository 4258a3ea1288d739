"""Graphs, their elements and the types they are built from."""
