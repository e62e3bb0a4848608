"""Survive another number of ranks: who takes part, how the ranks agree, and how none of them is left waiting."""
