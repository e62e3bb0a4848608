"""Nodes that are lost, paused, replaced, added or removed."""
