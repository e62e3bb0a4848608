"""Survive being told to leave: note the signal, save, and exit with a code that the launcher understands."""
