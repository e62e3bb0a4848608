"""A real Slurm on this machine: one controller and several nodes, for one test session."""
