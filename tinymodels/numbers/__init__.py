"""Survive bad numbers: find them, keep them out of weights and checkpoints, roll back, compute the same bits again."""
