"""Faults of Chaos Mesh: their specs, the life of each, and what the job's pods feel of them."""
