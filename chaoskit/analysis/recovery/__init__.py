"""How long a job took to come back from a fault, phase by phase, and how much it lost."""
