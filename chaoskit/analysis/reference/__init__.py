"""The uninterrupted run: measured at least twice, and where two measurements part."""
