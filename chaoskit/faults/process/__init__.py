"""Ranks that are killed, paused, ended, or that raise an exception."""
