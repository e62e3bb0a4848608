"""Corrupted numbers: which ones, how far they spread, and which batches the job skipped because of them."""
