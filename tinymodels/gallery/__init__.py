"""The gallery: trainers broken on purpose, each one seam of the good one replaced, each after a reported bug."""
