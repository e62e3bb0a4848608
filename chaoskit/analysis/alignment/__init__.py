"""Which position of the reference each component of each step matches."""
