"""Run a command beside a cluster of real Slurm, which ends with it: python -m tests.slurm_cluster COMMAND..."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.slurm_cluster.cluster import SlurmCluster, why_not


def main(words: Sequence[str]) -> int:
    """Returns the exit code of the command; 3 if this machine can run no cluster."""
    if (why := why_not()) is not None:
        print(why, file=sys.stderr)
        return 3
    # A short path: munge's socket is there.
    with (
        tempfile.TemporaryDirectory(prefix="chaoskit-slurm-") as directory,
        SlurmCluster(Path(directory) / "cluster") as cluster,
    ):
        return subprocess.run(words, env=cluster.variables).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
