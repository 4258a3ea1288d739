"""Decoders, attention and beam search."""
