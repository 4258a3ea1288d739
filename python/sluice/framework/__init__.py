"""Graphs and what they are made of."""
