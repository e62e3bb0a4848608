"""Survive a crash, a power cut, and storage that is slow, full, damaged or gone."""
