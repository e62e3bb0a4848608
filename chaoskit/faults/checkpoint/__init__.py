"""Stored checkpoints that change while the job is down."""
