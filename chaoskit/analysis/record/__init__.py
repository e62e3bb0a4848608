"""The record of one run, put in order: history, rank lifetimes, steps, rollbacks."""
