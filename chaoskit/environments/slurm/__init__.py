"""Jobs of Slurm: the team's own batch script on its own cluster, or a command in an allocation of chaoskit's."""
