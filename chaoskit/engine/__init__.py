"""Runs one experiment and stores it: launches, strikes, heals, keeps runs and references."""
