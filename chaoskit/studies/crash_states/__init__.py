"""Crash states: record one save, then resume from every state that a crash could have left of it."""
